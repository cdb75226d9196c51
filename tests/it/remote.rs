//! Applications on another host than their SQL node: drivers and Django, as a user with a password,
//! over TLS that they verify.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::cluster::{Processes, SMALL, SQL};
use tests::network::{Family, Network};
use tests::{all, succeed, workspace};

use super::connectors::{LIMITED, tools};
use super::hosts::say;

/// The password of `app`, who is let in over TLS only.
const PASSWORD: &str = "Tr0ub4dor&3";
/// The host of a data node, on which the applications run.
const HOST: u8 = 1;

/// A cluster whose SQL node other hosts can reach.
struct Remote {
    cluster: Processes,
}

impl Remote {
    /// Starts it; none where this machine has no such hosts, which is said.
    fn start(name: &str) -> Option<Self> {
        let mut cluster = match Processes::prepare_on_hosts(SMALL, |_| Family::V4) {
            Ok(cluster) => cluster,
            Err(why) => {
                say(&format!("skipped: {name}: {why}"));
                return None;
            }
        };
        let bind = format!("--bind=localhost,{}", cluster.address(SQL));
        let keys = format!("--tls-dir={}", cluster.directory().join("keys").display());
        cluster.launch_with(SQL, &[&bind, &keys]);
        cluster.start_all();
        let mut root = cluster.session(SQL).expect("it serves");
        all(
            &mut root,
            &[
                &format!("CREATE USER app@'10.77.%' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL"),
                "GRANT ALL ON *.* TO app@'10.77.%'",
            ],
        );
        Some(Self { cluster })
    }

    fn authority(&self) -> PathBuf {
        self.cluster.directory().join("keys/ca.pem")
    }

    fn address(&self) -> [String; 2] {
        [self.cluster.address(SQL).to_string(), self.cluster.port(SQL).to_string()]
    }

    /// A program on the other host, which is told who it is.
    fn command(&mut self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let authority = self.authority();
        let network: &mut Network = self.cluster.network().expect("it was started on hosts");
        let [limiter, seconds] = LIMITED;
        let mut command = network.command(HOST, limiter);
        command.arg(seconds).arg(program);
        command.env("DB_USER", "app").env("DB_PASSWORD", PASSWORD).env("DB_CA", authority);
        command
    }

    /// What an application's script says, which must succeed.
    fn runs(&mut self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&Path]) {
        let address = self.address();
        let mut command = self.command(program);
        command.args(arguments).args(address);
        assert!(succeed(command).contains("ok"));
    }
}

fn script(name: &str) -> PathBuf {
    workspace().join("tests/connectors").join(name)
}

#[test]
fn drivers_as_a_user_over_tls() {
    let Some(mut remote) = Remote::start("drivers on another host") else { return };
    let python = tools().join("python/bin/python");
    for driver in ["pymysql", "mysqlclient", "mysql.connector"] {
        remote.runs(&python, &[&script("python.py"), Path::new(driver)]);
    }
    remote.runs("node", &[&tools().join("node/connector.mjs")]);
    remote.runs(tools().join("go/connector"), &[]);
    let jar = tools().join("java/mysql-connector-j.jar");
    remote.runs("java", &[Path::new("-cp"), &jar, &script("java/Connector.java")]);
    // Neither without TLS nor by another password.
    for (password, tls) in [(PASSWORD, "off"), ("wrong", "on")] {
        let address = remote.address();
        let mut login = remote.command(&python);
        login.arg(script("login.py")).arg("mysql.connector").args(address);
        login.args(["app", password, tls]);
        let said = succeed(login);
        assert!(said.starts_with("refused"), "{password}, {tls}: {said}");
    }
}

#[test]
fn django_as_a_user_over_tls() {
    let Some(mut remote) = Remote::start("Django on another host") else { return };
    let python = tools().join("python/bin/python");
    remote.runs(python, &[&script("django_app.py")]);
}
