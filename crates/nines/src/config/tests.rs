//! What the answers look like. `UPDATE=1` writes the golden files instead of comparing them.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::machine::Cpus;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-config/tests/files");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/golden");

fn machine() -> Machine {
    Machine { names: vec!["db9.example.com".into()], memory: 64 << 30, cpus: 16 }
}

fn cpus() -> Cpus {
    Cpus { present: (0..16).collect(), allowed: (0..16).collect(), quota: None }
}

fn parsed(file: &str) -> Parsed {
    let bytes = fs::read(format!("{FILES}/{file}")).unwrap();
    ClusterConfig::parse(&bytes).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
}

fn golden(name: &str, found: &str) {
    let path = format!("{GOLDEN}/{name}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} is another, see `UPDATE=1`:\n{found}");
}

/// What `run` writes to its two outputs, and its verdict.
fn ran(options: &ConfigOptions) -> (String, String, Result<(), String>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let verdict = run(options, &mut out, &mut err);
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), verdict)
}

fn parameters(name: Option<&str>, form: Form) -> ConfigOptions {
    ConfigOptions::Parameters { name: name.map(str::to_string), form }
}

/// A file that is gone when the test is.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, text: &str) -> Temporary {
        let name = format!("nines-config-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Temporary(path)
    }

    fn check(&self, json: bool) -> ConfigOptions {
        ConfigOptions::Check { file: self.0.clone(), since: None, json }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn checked_for_people() {
    for name in ["one-box", "three-hosts", "cluster-in-a-box"] {
        let file = format!("{name}.ini");
        let parsed = parsed(&file);
        let text = check::Report::new(&file, &parsed, None, &machine(), &cpus()).text();
        golden(&format!("{name}.txt"), &text);
    }
}

#[test]
fn checked_for_programs() {
    let parsed = parsed("three-hosts.ini");
    let json = check::Report::new("three-hosts.ini", &parsed, None, &machine(), &cpus()).json();
    golden("three-hosts.json", &json);
}

#[test]
fn what_has_changed() {
    let before = parsed("three-hosts.ini");
    let text = fs::read_to_string(format!("{FILES}/three-hosts.ini")).unwrap();
    let text = text.replace("DataMemory=24G", "DataMemory=32G\nTimeBetweenEpochs=50");
    let text = text.replace("[mysqld]\nNodeId=52", "[mysqld]\nNodeId=53");
    let after = ClusterConfig::parse(text.as_bytes()).unwrap();
    let report = check::Report::new("new.ini", &after, Some(&before.config), &machine(), &cpus());
    golden("changes.txt", &report.text());
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["changes"]["restart"], "node");
    let same = check::Report::new("new.ini", &before, Some(&before.config), &machine(), &cpus());
    assert!(same.text().contains("\nNothing has changed\n"));
}

#[test]
fn problems_go_line_by_line_to_the_error_output() {
    let file = Temporary::new("bad.ini", "[ndbd]\nDataMemroy=1G\n[mgm]\nPortNumber=70000\n");
    let name = file.0.display();
    let (out, err, verdict) = ran(&file.check(false));
    assert_eq!(out, "");
    assert_eq!(
        err,
        format!(
            "{name}:2: `DataMemroy` is not a parameter; did you mean DataMemory?\n\
             {name}:4: PortNumber=70000 is out of range; write 65535 at most\n"
        )
    );
    assert_eq!(verdict, Err(format!("{name} has 2 problems")));
    let (out, err, verdict) = ran(&file.check(true));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["problems"][1]["line"], 4);
    assert_eq!(err, "");
    assert!(verdict.is_err());
}

#[test]
fn files_that_cannot_be_read() {
    let check = |path: &str| ConfigOptions::Check { file: path.into(), since: None, json: false };
    let (_, _, verdict) = ran(&check("/nonexistent/config.ini"));
    assert!(verdict.unwrap_err().starts_with("cannot read /nonexistent/config.ini: "));
    // A device without an end is read as far as a file may go.
    let (_, err, verdict) = ran(&check("/dev/zero"));
    assert_eq!(err, "/dev/zero: the file has 4194305 bytes; the limit is 4M\n");
    assert!(verdict.is_err());
}

#[test]
fn a_file_is_read_and_compared_with_another() {
    let old = Temporary::new("old.ini", "[mgm]\n[ndbd]\n[api]\n");
    let new = Temporary::new("new.ini", "[mgm]\n[ndbd]\nDataMemory=1G\n[api]\n");
    let options =
        ConfigOptions::Check { file: new.0.clone(), since: Some(old.0.clone()), json: false };
    let (out, _, verdict) = ran(&options);
    assert_eq!(verdict, Ok(()));
    assert!(
        out.contains("  DataMemory of node 1: automatic to 1G: restart the nodes one"),
        "{out}"
    );
}

#[test]
fn a_node_that_will_not_start_here_is_a_failure() {
    let name = machine::host_name();
    let text = |cpu: u16| {
        format!(
            "[mgm]\n[ndbd default]\nNoOfReplicas=1\n[ndbd]\nHostName={name}\nAllowInsecure=1\n\
             ThreadConfig=ldm={{count=1,cpubind={cpu}}},main\n[ndbd]\nHostName=elsewhere.example\n\
             AllowInsecure=1\nThreadConfig=ldm={{count=1,cpubind=9999}},main\n[api]\n"
        )
    };
    // Of the node that is elsewhere nothing can be said here.
    let allowed = Cpus::of_process().allowed[0];
    let good = Temporary::new("starts.ini", &text(allowed));
    let (out, _, verdict) = ran(&good.check(false));
    assert_eq!(verdict, Ok(()), "{out}");
    let bad = Temporary::new("starts-not.ini", &text(9_998));
    for json in [false, true] {
        let (out, _, verdict) = ran(&bad.check(json));
        assert!(
            out.contains(if json { "\"problem\"" } else { "node 1 WILL NOT START here" }),
            "{out}"
        );
        let why = format!("{}: node 1 will not start here", bad.0.display());
        assert_eq!(verdict, Err(why));
    }
    let keys = "[mgm]\n[ndbd default]\nNoOfReplicas=1\nEncryptedFileSystem=1\n\
                EncryptedFileSystemKeyFile=/k\nEncryptedFileSystemKeyCommand=k\n[ndbd]\n[api]\n";
    let bad = Temporary::new("two-keys.ini", keys);
    let (out, _, verdict) = ran(&bad.check(false));
    assert!(out.contains("which will not start"), "{out}");
    assert_eq!(verdict, Err(format!("{}: node 1 will not start", bad.0.display())));
}

#[test]
fn one_parameter() {
    let (out, _, _) = ran(&parameters(Some("heartbeatintervaldbdb"), Form::Text));
    golden("parameter.txt", &out);
    let (out, _, _) = ran(&parameters(Some("NodeId"), Form::Json));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["max"], 144);
    assert_eq!(json[1]["sections"], serde_json::json!(["ndb_mgmd", "mysqld", "api"]));
    let (_, _, verdict) = ran(&parameters(Some("DataMemroy"), Form::Text));
    assert_eq!(verdict, Err("there is no parameter DataMemroy; did you mean DataMemory?".into()));
    let (_, _, verdict) = ran(&parameters(Some("qqqqqqqqqqqq"), Form::Text));
    assert!(verdict.unwrap_err().contains("lists all"));
}

#[test]
fn all_parameters() {
    let (out, _, _) = ran(&parameters(None, Form::Text));
    assert!(out.lines().count() > 200);
    assert!(out.starts_with("name "));
    let (out, _, _) = ran(&parameters(None, Form::Json));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(json.as_array().unwrap().len() > 200);
    let (out, _, _) = ran(&parameters(None, Form::Markdown));
    assert!(out.starts_with("# Configuration parameters\n"));
}

#[test]
fn command_lines() {
    let parse = |line: &str| {
        let matches = command().try_get_matches_from(line.split_whitespace());
        matches.map(|matches| options(&matches)).map_err(|error| error.to_string())
    };
    let check =
        ConfigOptions::Check { file: "a.ini".into(), since: Some("b.ini".into()), json: true };
    assert_eq!(parse("config check a.ini --json --since b.ini"), Ok(check));
    let all = parameters(None, Form::Markdown);
    assert_eq!(parse("config parameters --markdown"), Ok(all));
    let one = parameters(Some("DataMemory"), Form::Json);
    assert_eq!(parse("config parameters DataMemory --json"), Ok(one));
    for line in ["config", "config check", "config parameters --json --markdown", "config x"] {
        assert!(parse(line).is_err(), "{line}");
    }
}
