//! The processes of the demonstration: this program in other roles.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running cluster; killed and removed when it is dropped.
pub(super) struct Processes {
    directory: PathBuf,
    management_port: u16,
    sql_port: u16,
    children: BTreeMap<u16, Child>,
}

const MANAGEMENT: u16 = 49;
const SQL: u16 = 51;

impl Processes {
    /// Starts all nodes and waits until the SQL node is ready.
    pub(super) fn start() -> Result<Self, String> {
        let name = format!("nines-demo-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let failed = |error| format!("cannot use {}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(failed)?;
        let ports: Vec<u16> = free_ports(4).map_err(|e| format!("no port is free: {e}"))?;
        let config = format!(
            "[ndbd default]\nNoOfReplicas=2\nDataMemory=128M\nDataDir={data}\n\
             [ndb_mgmd]\nNodeId={MANAGEMENT}\nHostName=127.0.0.1\nPortNumber={}\nDataDir={data}\n\
             [ndbd]\nNodeId=1\nHostName=127.0.0.1\nServerPort={}\n\
             [ndbd]\nNodeId=2\nHostName=127.0.0.1\nServerPort={}\n[mysqld]\nNodeId={SQL}\n",
            ports[0],
            ports[1],
            ports[2],
            data = directory.display()
        );
        fs::write(directory.join("config.ini"), config).map_err(failed)?;
        let children = BTreeMap::new();
        let (management_port, sql_port) = (ports[0], ports[3]);
        let mut cluster = Self { directory, management_port, sql_port, children };
        for node in [MANAGEMENT, 1, 2, SQL] {
            cluster.launch(node)?;
        }
        cluster.wait_until_ready(SQL)?;
        Ok(cluster)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("sql.sock")
    }

    pub(super) fn how_to_connect(&self) -> String {
        format!("mysql -h127.0.0.1 -P{} -uroot", self.sql_port)
    }

    /// Ends a node as a crash would.
    pub(super) fn kill(&mut self, node: u16) {
        if let Some(mut child) = self.children.remove(&node) {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a node, which may have been killed before.
    pub(super) fn launch(&mut self, node: u16) -> Result<(), String> {
        let failed = |error| format!("cannot start node {node}: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let log = fs::File::create(self.log(node)).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        let connect = format!("127.0.0.1:{}", self.management_port);
        match node {
            MANAGEMENT => {
                command.arg("management").arg("-f").arg(self.directory.join("config.ini"))
            }
            SQL => command
                .args(["sql", "-c", &connect, "--port", &self.sql_port.to_string()])
                .arg("--initialize-insecure")
                .arg("--socket")
                .arg(self.socket()),
            _ => command.args(["data", "-c", &connect]),
        };
        command.arg(format!("--node-id={node}"));
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        self.children.insert(node, child.map_err(failed)?);
        Ok(())
    }

    fn log(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}.log"))
    }

    fn wait_until_ready(&mut self, node: u16) -> Result<(), String> {
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            for (node, child) in &mut self.children {
                if let Ok(Some(status)) = child.try_wait() {
                    let text = fs::read_to_string(self.directory.join(format!("node-{node}.log")));
                    let last = text.unwrap_or_default();
                    let last = last.lines().last().unwrap_or_default();
                    return Err(format!("node {node} has ended, {status}: {last}"));
                }
            }
            let text = fs::read_to_string(self.log(node)).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("ready")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let seconds = PATIENCE.as_secs();
        Err(format!("the cluster has not started in {seconds} seconds; is the machine overloaded?"))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let nodes: Vec<u16> = self.children.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.kill(node));
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Ports of the loopback address that nobody has.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// How long a start may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);
