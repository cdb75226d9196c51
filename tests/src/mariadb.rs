//! MariaDB, to compare answers with.
//!
//! # Owns
//! [`MariaDb`], a server of its own with the modes and collation that Nines has by default.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mysql_client::{QueryError, Session};

use crate::{run, temporary_directory};

/// A MariaDB server with an empty directory, gone with the value.
pub struct MariaDb {
    process: Child,
    directory: PathBuf,
    options: Vec<String>,
}

impl MariaDb {
    /// Starts a server and waits until it lets clients in.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more options.
    pub fn start_with(options: &[&str]) -> Self {
        let directory = temporary_directory();
        let data = directory.join("data");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"]);
        install.arg(format!("--datadir={}", data.display()));
        install.env("TMPDIR", &directory);
        let output = run(install);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let process = Self::launch(&directory, &options);
        let server = Self { process, directory, options };
        server.wait();
        server
    }

    /// The same with a binary log of rows, for a replica that logs in over TCP: the server's id,
    /// and more options. Its port too.
    pub fn start_source(id: u32, options: &[&str]) -> (Self, u16) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it has an address").port();
        drop(free);
        let own = [
            format!("--server-id={id}"),
            format!("--port={port}"),
            "--skip-networking=0".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--log-bin=log".to_owned(),
            "--binlog-format=ROW".to_owned(),
            "--sync-binlog=1".to_owned(),
        ];
        let mut all: Vec<&str> = own.iter().map(String::as_str).collect();
        all.extend(options);
        (Self::start_with(&all), port)
    }

    /// Kills the server, and starts it again with what it has on its disk.
    pub fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.process = Self::launch(&self.directory, &self.options);
        self.wait();
    }

    fn launch(directory: &Path, options: &Vec<String>) -> Child {
        Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-networking", "--skip-log-bin"])
            .args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin"])
            .args([
                "--transaction-isolation=READ-COMMITTED",
                "--sql-mode=STRICT_TRANS_TABLES,\
                    ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO",
            ])
            .args(options)
            .env("TMPDIR", directory)
            .arg(format!("--datadir={}", directory.join("data").display()))
            .arg(format!("--socket={}", directory.join("sock").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mariadbd is installed by `cargo xtask test`")
    }

    fn wait(&self) {
        for _ in 0..600 {
            if self.session().is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("MariaDB does not start");
    }

    /// The command-line client, connected to it.
    pub fn client(&self) -> Command {
        let mut client = Command::new("mysql");
        client.args(["--no-defaults", "--user=root"]);
        client.arg(format!("--socket={}", self.socket().display()));
        client
    }

    /// A connection.
    pub fn session(&self) -> Result<Session, QueryError> {
        Session::connect(&self.socket())
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("sock")
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
