//! Real processes and real clients: starts the server's binary, runs programs against it.
//!
//! # Owns
//! [`Server`], a running `nines dev`, ended when dropped; [`cluster::Processes`], a cluster of
//! separate processes; [`network::Network`], hosts of its own for it; [`Session`], a connection to
//! either; [`mariadb::MariaDb`], another server to compare with; running outside programs with
//! their output in the failure's text.
//! # Guarantees
//! Nothing is left behind: no process, no directory. A test that misses a program fails and names
//! the package; `cargo xtask test` installs it beforehand.
//! # Not here
//! What is tested (`it/`).

pub mod cluster;
pub mod mariadb;
pub mod network;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub use mysql_client::{Answer, QueryError, Session, TextRow};

/// How long anything outside may take before a test gives up: liveness, not speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs statements that must succeed.
#[track_caller]
pub fn all(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        said(session, statement);
    }
}

/// Runs a statement that must succeed.
#[track_caller]
pub fn said(session: &mut Session, statement: &str) {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// The text of the error that a statement must end with.
#[track_caller]
pub fn refused(session: &mut Session, statement: &str) -> String {
    match session.query(statement) {
        Ok(_) => panic!("{statement} is not refused"),
        Err(error) => error.to_string(),
    }
}

/// The only number that a statement answers with, which must succeed.
#[track_caller]
pub fn number(session: &mut Session, statement: &str) -> i64 {
    session.number(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// Where the workspace lies.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// The server's binary: built by the caller beside the test's own executable.
pub fn binary() -> PathBuf {
    program("nines")
}

/// A binary of the workspace: built by the caller beside the test's own executable.
pub fn program(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("a test knows its executable");
    // target/PROFILE/deps/it-HASH
    path.pop();
    path.pop();
    path.push(name);
    assert!(path.exists(), "{} is missing: cargo build -p {name}", path.display());
    path
}

/// A free TCP port of the loopback address, another one each time. It is below those that the
/// system gives to outgoing connections: one of these could have taken it before a server does.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Other test programs begin elsewhere.
    let start = std::process::id().wrapping_mul(101);
    for _ in 0..COUNT {
        let at = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + at).expect("a port of the range");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("none of {COUNT} ports of the loopback address from {FIRST} on is free");
}

/// A running `nines dev`.
pub struct Server {
    process: Child,
    /// Removed with the server; none if it is the caller's.
    directory: Option<PathBuf>,
    /// Its TCP port.
    pub port: u16,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// What it printed until it was ready.
    pub greeting: Vec<String>,
}

impl Server {
    /// Starts a server in memory with more `options` and waits until it says `ready`.
    pub fn start(options: &[&str]) -> Self {
        let directory = temporary_directory();
        let mut server = Self::launch(&directory, options);
        server.directory = Some(directory);
        server.wait_until_ready();
        server
    }

    /// The same with variables of the environment.
    pub fn start_with(environment: &[(&str, String)], options: &[&str]) -> Self {
        let directory = temporary_directory();
        let mut command = Command::new(binary());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut server = Self::launch_by(command, &directory, options);
        server.directory = Some(directory);
        server.wait_until_ready();
        server
    }

    /// Starts a server whose data is in a directory, and waits until it says `ready`.
    pub fn start_in(directory: &Path, options: &[&str]) -> Self {
        let mut server = Self::launch_in(directory, options);
        server.wait_until_ready();
        server
    }

    /// Starts a server whose data is in a directory, and does not wait.
    pub fn launch_in(directory: &Path, options: &[&str]) -> Self {
        let data = format!("--dir={}", directory.display());
        let options: Vec<&str> = [data.as_str()].iter().chain(options).copied().collect();
        Self::launch(directory, &options)
    }

    /// Starts a server whose data is in the directory `disk` below this one, a file system of its
    /// own of so many megabytes that only the server sees, with a file `ballast` of half of them.
    /// None where the machine does not let us mount.
    pub fn start_on_small_disk(directory: &Path, megabytes: u32, options: &[&str]) -> Option<Self> {
        let mut mount = Command::new("unshare");
        mount.args(["--map-root-user", "--mount"]);
        let mut probe = Command::new("unshare");
        probe.args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
        if !run(probe).status.success() {
            return None;
        }
        let disk = directory.join("disk");
        std::fs::create_dir_all(&disk).expect("the temporary directory is writable");
        let (script, half) = (SMALL_DISK, (megabytes / 2).to_string());
        mount.args(["sh", "-ec", script, "sh"]).arg(&disk).arg(megabytes.to_string()).arg(half);
        mount.arg(binary());
        let data = format!("--dir={}", disk.join("data").display());
        let options: Vec<&str> = [data.as_str()].iter().chain(options).copied().collect();
        let mut server = Self::launch_by(mount, directory, &options);
        server.wait_until_ready();
        Some(server)
    }

    /// A file as the server sees it.
    pub fn file_of_server(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process.id()));
        root.join(path.strip_prefix("/").expect("it is absolute"))
    }

    fn launch(directory: &Path, options: &[&str]) -> Self {
        Self::launch_by(Command::new(binary()), directory, options)
    }

    fn launch_by(mut command: Command, directory: &Path, options: &[&str]) -> Self {
        let (port, socket) = (free_port(), directory.join("nines.sock"));
        let process = command
            .arg("dev")
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", socket.display()))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the binary starts");
        Self { process, directory: None, port, socket, greeting: Vec::new() }
    }

    fn wait_until_ready(&mut self) {
        let output = self.process.stdout.take().expect("its output is piped");
        self.greeting = read_until_ready(output);
        assert!(!self.greeting.is_empty(), "the server ended before it was ready");
    }

    /// A connection that says exactly when it is lost.
    pub fn session(&self) -> Result<Session, QueryError> {
        Session::connect(&self.socket)
    }

    /// Ends the process as a crash would (`kill -9`), and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Memory the process holds, in bytes.
    pub fn resident_memory(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is listed");
        let kilobytes: u64 =
            line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        kilobytes * 1024
    }

    /// CPU time the process has used, user and system.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc("stat");
        // The name, in parentheses, may hold anything; the numbers follow it.
        // One of the fields may be -1.
        let numbers: Vec<i64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().filter_map(|n| n.parse().ok()).collect())
            .unwrap_or_default();
        // The state letter is no number: utime and stime are fields 14 and 15.
        let ticks = numbers.get(10).unwrap_or(&0) + numbers.get(11).unwrap_or(&0);
        Duration::from_millis(ticks.unsigned_abs() * 10)
    }

    /// Open file descriptors of the process.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.process.id());
        std::fs::read_dir(path).map(Iterator::count).unwrap_or(0)
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(path).expect("the server runs")
    }

    /// Runs SQL with the command-line client over TCP; what it prints, tab-separated.
    pub fn sql(&self, statements: &str) -> String {
        let output = self.try_sql(statements);
        text_of(&output, "mysql")
    }

    /// Runs SQL that may fail.
    pub fn try_sql(&self, statements: &str) -> Output {
        let mut client = self.client("mysql");
        client.args(["--batch", "--skip-column-names", "--default-character-set=utf8mb4"]);
        client.arg("-e").arg(statements);
        run(client)
    }

    /// A program of the MySQL family that connects to this server by TCP.
    pub fn client(&self, program: &str) -> Command {
        let mut client = Command::new(program);
        client.args(["--no-defaults", "--host=127.0.0.1", "--user=root"]);
        client.arg(format!("--port={}", self.port));
        client
    }

    /// Asks the server to stop by a signal and waits; its exit code.
    pub fn stop(&mut self, signal: &str) -> Option<i32> {
        let process = self.process.id().to_string();
        let killed = Command::new("kill").args([signal, &process]).status();
        assert!(killed.is_ok_and(|status| status.success()), "kill {signal}");
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "the server does not stop on {signal}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Mounts a file system at `$1`, of `$2` MB with a file of `$3` MB, and becomes the rest.
const SMALL_DISK: &str = "mount -t tmpfs -o size=$2m none \"$1\"; \
    head -c ${3}M /dev/zero > \"$1/ballast\"; shift 3; exec \"$@\"";

/// A new empty directory; whoever asks for it removes it.
pub fn temporary_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("nines-test-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    directory
}

/// A new empty directory that goes with its test.
#[derive(Debug)]
pub struct Place(pub PathBuf);

impl Place {
    /// Makes it.
    #[expect(clippy::new_without_default, reason = "each one is another directory")]
    pub fn new() -> Self {
        Self(temporary_directory())
    }

    /// The path of a file in it.
    pub fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads lines up to the one that begins with `ready`; then keeps reading, so that the server never
/// waits for us.
fn read_until_ready(output: impl Read + Send + 'static) -> Vec<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The other side may have heard enough.
            let _ = sender.send(line);
        }
    });
    let mut greeting = Vec::new();
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        let ready = line.starts_with("ready");
        greeting.push(line);
        if ready {
            return greeting;
        }
    }
    Vec::new()
}

/// Runs a program to its end.
pub fn run(mut command: Command) -> Output {
    let program = command.get_program().to_owned();
    match command.output() {
        Ok(output) => output,
        Err(error) => {
            panic!("{}: {error}; run `cargo xtask test`, which installs it", show(&program))
        }
    }
}

/// Runs a program that must succeed; what it printed.
pub fn succeed(command: Command) -> String {
    let name = show(command.get_program()).into_owned();
    let output = run(command);
    text_of(&output, &name)
}

fn show(program: &OsStr) -> std::borrow::Cow<'_, str> {
    program.to_string_lossy()
}

/// What a program printed, if it succeeded.
pub fn text_of(output: &Output, name: &str) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {}\n{text}\n{errors}", output.status);
    text
}
