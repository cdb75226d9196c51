//! The audit log of a process: what is in its file, its rotation, a disk that takes nothing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tests::{Server, all, run, temporary_directory};

/// Waits until a file has a text; what is in it.
fn until(file: &Path, text: &str) -> String {
    for _ in 0..1_200 {
        let found = fs::read_to_string(file).unwrap_or_default();
        if found.contains(text) {
            return found;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{} has no {text}", file.display());
}

fn signal(server: &Server, signal: &str) {
    let mut kill = Command::new("kill");
    kill.args([signal, &server.process_id().to_string()]);
    assert!(run(kill).status.success());
}

#[test]
fn what_happens_is_in_the_file_without_passwords() {
    let directory = temporary_directory();
    let file = directory.join("audit.log");
    let mut server = Server::start(&[
        &format!("--audit-log-file={}", file.display()),
        "--audit-log-strategy=SEMISYNCHRONOUS",
    ]);
    let mut root = server.session().expect("it serves");
    all(
        &mut root,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY)",
            "CREATE USER u@localhost IDENTIFIED BY 'S3cret'",
            "ALTER USER u@localhost IDENTIFIED BY 'S3cret' RETAIN CURRENT PASSWORD",
            "SET PASSWORD FOR u@localhost = 'S3cret'",
            "SET @q = 'CREATE USER v IDENTIFIED BY ''S3cret'''",
            "PREPARE s FROM @q",
            "EXECUTE s",
            "GRANT SELECT ON d.* TO u@localhost",
        ],
    );
    // A statement that has been answered is in the file.
    let text = fs::read_to_string(&file).unwrap();
    for part in [
        r#""event":"connect","connection_id":"#,
        r#""query":"CREATE TABLE d.t (a INT PRIMARY KEY)","status":0"#,
        r#""query":"CREATE USER 'u'@'localhost' IDENTIFIED BY <secret>","status":0"#,
        r#""query":"CREATE USER 'v' IDENTIFIED BY <secret>","status":0"#,
        r#""sql_command":"grant","statement_class":"account""#,
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let mut client = server.client("mysql");
    client.args([
        super::tls::modes().0,
        "--user=u",
        "--password=S3cret",
        "-e",
        "SELECT 1 FROM x.y",
    ]);
    assert!(!run(client).status.success());
    let mut client = server.client("mysql");
    client.args([super::tls::modes().0, "--user=u", "--password=S3cretly", "-e", "SELECT 1"]);
    assert!(!run(client).status.success());
    until(&file, r#""connection_type":"ssl","status":1045"#);
    let text = until(&file, r#""event":"disconnect""#);
    assert!(text.contains(r#""query":"SELECT 1 FROM x.y","status":1142"#), "{text}");
    drop(root);
    assert_eq!(server.stop("-TERM"), Some(0));
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("S3cret"), "{text}");
    let is_whole = |line: &str| line.starts_with("{\"timestamp\":\"") && line.ends_with("}}");
    assert!(text.lines().all(is_whole), "{text}");
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn another_file_is_begun_when_somebody_wants_that() {
    let directory = temporary_directory();
    let file = directory.join("audit.log");
    let server = Server::start(&[
        &format!("--audit-log-file={}", file.display()),
        "--audit-log-strategy=SEMISYNCHRONOUS",
    ]);
    let mut root = server.session().expect("it serves");
    all(&mut root, &["DO 'before'"]);
    // Whoever puts the file aside has another one begun.
    let aside = directory.join("aside");
    fs::rename(&file, &aside).unwrap();
    signal(&server, "-HUP");
    until(&aside, "before");
    for _ in 0..1_200 {
        all(&mut root, &["DO 'after the first'"]);
        if file.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    until(&file, "after the first");
    fs::rename(&file, &aside).unwrap();
    all(&mut root, &["SET GLOBAL audit_log_flush = ON", "DO 'after the second'"]);
    until(&file, "after the second");
    all(&mut root, &["SET GLOBAL audit_log_rotate_on_size = 4096"]);
    for number in 0..40 {
        all(&mut root, &[&format!("DO 'filling a file, {number}'")]);
    }
    let files = fs::read_dir(&directory).unwrap();
    let aside = files.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("audit.2")
    });
    assert!(aside.count() > 1);
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn a_full_disk_stops_nobody_who_did_not_ask_for_that() {
    // Every write to it fails as on a disk without room.
    let server = Server::start(&["--audit-log-file=/dev/full", "--audit-log-buffer-size=4K"]);
    let mut root = server.session().expect("it serves");
    for number in 0..100 {
        all(&mut root, &[&format!("DO {number}")]);
    }
    let lost = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE \
                VARIABLE_NAME = 'Audit_log_events_lost'";
    let lost = root.number(lost).expect("it is known");
    assert!(lost > 50, "{lost}");
    // Where every statement is to be in the log, one waits for its event.
    all(&mut root, &["SET GLOBAL audit_log_strategy = SYNCHRONOUS"]);
    let (send, answered) = mpsc::channel();
    thread::spawn(move || send.send(root.query("DO 1").is_ok()));
    let answer = answered.recv_timeout(Duration::from_millis(500));
    assert!(matches!(answer, Err(RecvTimeoutError::Timeout)), "{answer:?}");
}
