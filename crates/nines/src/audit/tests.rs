//! The file of the audit log, on a real disk.

use super::*;

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("nines-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn start(path: &Path, buffer: usize) -> AuditFile {
    AuditFile::start(&AuditOptions { file: path.to_owned(), buffer }).unwrap()
}

fn wait(log: &AuditFile, number: u64, kept: Kept) {
    while !log.has_reached(number, kept) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn files(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn events_are_lines_of_json() {
    let directory = directory("audit-lines");
    let path = directory.join("audit.log");
    let log = start(&path, 1 << 20);
    log.write("\"class\":\"a\"", Kept::Nowhere);
    let number = log.write("\"class\":\"b\"", Kept::Synced);
    wait(&log, number, Kept::Synced);
    assert!(log.has_reached(number, Kept::Written));
    assert_eq!((log.figures().written, log.figures().lost), (2, 0));
    log.write("\"class\":\"c\"", Kept::Nowhere);
    drop(log);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let classes: Vec<&str> = lines.iter().map(|line| line["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["a", "b", "c"], "the end writes what waits");
    assert_eq!(lines[1]["id"], 2);
    assert_eq!(lines[0]["timestamp"].as_str().unwrap().len(), "2026-11-26 06:30:00.000".len());
    // Another life goes on in the same file.
    drop(start(&path, 1 << 20));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn files_are_put_aside_and_removed() {
    let directory = directory("audit-rotation");
    let path = directory.join("audit.log");
    let log = start(&path, 1 << 20);
    fs::write(directory.join("audit.other.log"), "not of the log").unwrap();
    log.limit(AuditLimits { rotate_on_size: 1_000, max_size: 3_500 });
    let event = format!("\"x\":\"{}\"", "x".repeat(1_000));
    for _ in 0..6 {
        let number = log.write(&event, Kept::Written);
        wait(&log, number, Kept::Written);
        // It is put aside after that.
        log.write("\"y\":1", Kept::Nowhere);
        while log.figures().written < number + 1 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // Renamed by somebody else, it is begun anew when it is closed.
    let moved = directory.join("moved");
    fs::rename(&path, &moved).unwrap();
    log.flush();
    let number = log.write("\"z\":1", Kept::Written);
    wait(&log, number, Kept::Written);
    assert!(fs::read_to_string(&path).unwrap().contains("\"z\":1"));
    log.shared.hangup.store(true, Ordering::Relaxed);
    fs::rename(&path, &moved).unwrap();
    while log.shared.hangup.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    let number = log.write("\"w\":1", Kept::Written);
    wait(&log, number, Kept::Written);
    assert!(fs::read_to_string(&path).unwrap().contains("\"w\":1"));
    drop(log);
    let names = files(&directory);
    let aside = names.iter().filter(|name| name.len() >= "audit.20261126T063000.log".len()).count();
    assert!((2..=3).contains(&aside), "{names:?}");
    assert!(names.contains(&"audit.other.log".to_owned()), "{names:?}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_full_disk_loses_what_nobody_waits_for() {
    // Writes to it fail as on a disk without room.
    let log = start(Path::new("/dev/full"), 1_000);
    let first = log.write("\"a\":1", Kept::Synced);
    let mut lost = 0;
    for _ in 0..100 {
        lost += u64::from(log.write("\"b\":1", Kept::Nowhere) == 0);
    }
    assert!(lost > 50 && log.figures().lost == lost);
    assert!(!log.has_reached(first, Kept::Written) && log.has_reached(first, Kept::Nowhere));
    assert_eq!(log.figures().written, 0);
}

#[test]
fn a_log_that_cannot_be_written_keeps_the_process_from_starting() {
    let options = AuditOptions { file: "/nowhere/audit.log".into(), buffer: 4_096 };
    let why = AuditFile::start(&options).unwrap_err();
    assert!(why.contains("/nowhere/audit.log"), "{why}");
}
