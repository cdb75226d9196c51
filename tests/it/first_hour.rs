//! The first hour with Nines: the README's cluster as an ordinary user, and operators who are told
//! nothing of where their cluster is.
//!
//! Each test has a network of its own, as clusters of the same host are found by others. Where that
//! is not permitted these tests say so and pass.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use tests::{binary, run, temporary_directory, text_of, workspace};

/// The user whom nothing belongs to.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Runs a script of bash in a directory, in a network of its own, as `user` if we are root. None
/// where the machine permits no such network.
#[expect(clippy::print_stdout, reason = "whoever runs it wants to know what was left out")]
fn alone(directory: &Path, user: u32, script: &str) -> Option<Output> {
    let unshare = || {
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command.arg("--net");
        command
    };
    let mut probe = unshare();
    probe.args(["ip", "link", "set", "lo", "up"]);
    if !run(probe).status.success() {
        println!("skipped: this machine permits no network of its own");
        return None;
    }
    let file = directory.join("script.sh");
    fs::write(&file, script).expect("the directory is writable");
    let become_user = if is_root() {
        format!("setpriv --reuid={user} --regid={user} --clear-groups ")
    } else {
        String::new()
    };
    let mut command = unshare();
    command.args(["bash", "-ec"]);
    command.arg(format!("ip link set lo up; exec {become_user}bash -eu script.sh"));
    Some(run({
        command.current_dir(directory).env("HOME", directory);
        command
    }))
}

/// A directory that is anybody's, with the program in it; removed by the caller.
fn directory_of_anybody() -> std::path::PathBuf {
    let directory = temporary_directory();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(&directory, open).expect("it is ours");
    fs::copy(binary(), directory.join("nines")).expect("there is room");
    directory
}

/// What every script begins with: ends what it has started, and waits for words in a file.
const BEGIN: &str = r#"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
export PATH="$PWD:$PATH" TMPDIR="$PWD"
wait_for() {
    for _ in $(seq 600); do
        if grep -q "^$1" "$2" 2>/dev/null; then return; fi
        sleep 0.1
    done
    echo "no $1 in $2:"; cat "$2"; exit 1
}
"#;

/// The blocks of the README in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let rests = page.split(begin.as_str()).skip(1);
    rests.filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block)).collect()
}

#[test]
fn the_cluster_of_the_readme_runs_for_an_ordinary_user() {
    let page = fs::read_to_string(workspace().join("README.md")).expect("it is there");
    let [config] = blocks(&page, "ini")[..] else { panic!("one config.ini") };
    let shell = blocks(&page, "sh");
    let start = shell.iter().find(|block| block.contains("nines management")).expect("a start");
    let used = shell.iter().find(|block| block.contains("nines ctl shutdown")).expect("an end");
    // The program has another place here, each process a file, and the client nobody who types.
    let start = start.replace("alias nines=target/release/nines\n", "");
    let mut number = 0;
    let mut started = String::new();
    for part in start.split_inclusive('&') {
        let part = match part.strip_suffix('&') {
            Some(command) => {
                number += 1;
                format!("{command} > log-{number} 2>&1 &")
            }
            None => part.to_owned(),
        };
        started.push_str(&part);
    }
    assert_eq!(number, 4, "a management node, two data nodes, an SQL node:\n{started}");
    let used = used.replace("mysql -h", "mysql --no-defaults -e 'SELECT 6 * 7' -h");
    let waits: String = (1..=4).map(|number| format!("wait_for ready log-{number}\n")).collect();
    let password = "wait_for '.*root-password: log in' log-4";
    let script = format!("{BEGIN}\n{started}\n{waits}\n{password}\n{used}\n");
    let directory = directory_of_anybody();
    fs::write(directory.join("config.ini"), config).expect("the directory is writable");
    if let Some(output) = alone(&directory, NOBODY, &script) {
        let said = text_of(&output, &script);
        assert!(said.contains("is serving; 2 copies") && said.contains("\n42\n"), "{said}");
        let data = directory.join("data/node-1");
        if is_root() {
            assert_eq!(fs::metadata(data).expect("its disk").uid(), NOBODY);
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn operators_find_the_cluster_of_their_user_on_their_host() {
    let script = format!(
        r#"{BEGIN}
        nines dev --port 3306 > log-1 &
        wait_for ready log-1
        nines ctl show
        nines ctl show --json
        nines top --once --interval 1
        nines ctl -c localhost:3306 status
        if nines ctl restart 1 2> refused; then exit 1; fi
        cat refused
        # Another one: neither is at the usual port.
        nines dev --port 3307 > log-2 &
        second=$!
        wait_for ready log-2
        if nines ctl show 2> several; then exit 1; fi
        cat several
        nines ctl -c localhost:3307 groups
        kill $second; wait $second || true
        nines demo --seconds 10 > log-3 &
        wait_for each log-3
        kill %1; wait %1 || true
        nines ctl show
        nines top --once --interval 1
        "#
    );
    let directory = directory_of_anybody();
    if let Some(output) = alone(&directory, NOBODY, &script) {
        let said = text_of(&output, &script);
        for part in [
            "Cluster dev is serving; 2 copies of each row; told by management node 49; all nodes \
             are one process",
            "\"one_process\":true",
            "cluster dev serves; told by node 49",
            "all nodes are one process: CPU is that of the process",
            "node 1: started (data)",
            "all nodes of `nines dev` are one process; stop it by SIGTERM",
            "choose one: -c localhost:3306, -c localhost:3307",
            "group  nodes  copies",
            "Cluster nines is serving",
            "cluster nines serves; told by node 49",
        ] {
            assert!(said.contains(part), "`{part}` is not in:\n{said}");
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn nobody_finds_the_cluster_of_another_user() {
    if !is_root() {
        println!("skipped: this takes two users");
        return;
    }
    let script = format!(
        r#"{BEGIN}
        setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups ./nines dev --port 3306 > log-1 &
        wait_for ready log-1
        nines ctl show
        other() {{ setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }}
        if other ./nines ctl show 2> refused; then exit 1; fi
        if other ./nines ctl -c localhost:3306 show 2>> refused; then exit 1; fi
        cat refused
        "#
    );
    let directory = directory_of_anybody();
    if let Some(output) = alone(&directory, 0, &script) {
        let said = text_of(&output, &script);
        assert!(said.contains("Cluster dev is serving"), "root asks anybody's:\n{said}");
        assert!(said.contains("nobody answers at localhost:1186"), "not found:\n{said}");
        assert!(said.matches("nines: ").count() >= 2, "nor let in where it is named:\n{said}");
    }
    let _ = fs::remove_dir_all(&directory);
}
