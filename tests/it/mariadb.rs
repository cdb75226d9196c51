//! A MariaDB server beside the tested one, and what both say to the same statements.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tests::run;

/// Servers that were started in this process.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A MariaDB server of its own, gone with the value.
pub(crate) struct MariaDb {
    process: Child,
    directory: PathBuf,
}

impl MariaDb {
    /// Starts one and waits until it answers.
    pub(crate) fn start() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("nines-mariadb-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let data = directory.join("data");
        std::fs::create_dir_all(&data).expect("the temporary directory is writable");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"]);
        install.arg(format!("--datadir={}", data.display()));
        let output = run(install);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let process = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-networking", "--skip-log-bin"])
            .args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin"])
            .args([
                "--transaction-isolation=READ-COMMITTED",
                "--sql-mode=STRICT_TRANS_TABLES,\
                    ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO",
            ])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", directory.join("sock").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mariadbd is installed by `cargo xtask test`");
        let server = Self { process, directory };
        for _ in 0..600 {
            let mut ping = server.client();
            ping.args(["-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            if ping.status().is_ok_and(|status| status.success()) {
                return server;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("MariaDB does not start");
    }

    /// The command-line client, connected to it.
    pub(crate) fn client(&self) -> Command {
        let mut client = Command::new("mysql");
        client.args(["--no-defaults", "--user=root"]);
        client.arg(format!("--socket={}", self.directory.join("sock").display()));
        client
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a server said to each statement, after those of `schema`: its rows, or its error's number.
pub(crate) fn answers(mut client: Command, schema: &str, statements: &[String]) -> Vec<String> {
    let mut script = String::from(schema);
    for (number, statement) in statements.iter().enumerate() {
        // One line each, so that errors can be told by their line.
        writeln!(script, "SELECT '@@{number}'; {statement};").expect("a String takes any text");
    }
    let first_line = schema.lines().count();
    client.args(["--batch", "--skip-column-names", "--force", "--default-character-set=utf8mb4"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the mysql client is installed by `cargo xtask test`");
    let mut input = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it is our child");
    writer.join().expect("writing does not panic").expect("the client reads all statements");
    let mut all = vec![String::new(); statements.len()];
    let mut current = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.strip_prefix("@@") {
            Some(number) => current = number.parse::<usize>().ok(),
            None => {
                if let Some(at) = current {
                    all[at].push_str(line);
                    all[at].push('\n');
                }
            }
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // The client repeats the statement before its error.
    for line in errors.lines().filter(|line| line.starts_with("ERROR ")) {
        // ERROR 1062 (23000) at line 12: …
        let parts: Vec<&str> = line.split_whitespace().collect();
        let at = parts.iter().position(|part| *part == "line").and_then(|at| parts.get(at + 1));
        let at = at.and_then(|text| text.trim_end_matches(':').parse::<usize>().ok());
        match at.and_then(|at| at.checked_sub(first_line + 1)).and_then(|at| all.get_mut(at)) {
            Some(answer) => *answer = format!("error {}", parts.get(1).unwrap_or(&"?")),
            None => panic!("an error outside the statements: {line}"),
        }
    }
    all
}

/// A statement with the first line that differs.
pub(crate) fn difference(statement: &str, expected: &str, found: &str) -> String {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    loop {
        let (e, f) = (expected.next().unwrap_or("(end)"), found.next().unwrap_or("(end)"));
        if e != f {
            return format!("\n{statement}\n  MariaDB: {e}\n  Nines:   {f}");
        }
    }
}
