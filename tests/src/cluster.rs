//! A cluster of separate processes on this machine.
//!
//! # Owns
//! [`Processes`]: its configuration, its processes, the faults that happen to them, and the network
//! between its nodes where each has a host of its own. All processes are killed when it is dropped,
//! and its directory goes, unless the test has failed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::network::{Family, Network};
use crate::{PATIENCE, QueryError, Session, binary, free_port, run, temporary_directory};

/// What kinds of nodes there are to be, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Data nodes, from id 1.
    pub data: u16,
    /// Copies of each row.
    pub replicas: u16,
    /// Management nodes, from id 49.
    pub management: u16,
    /// SQL nodes, from id 51.
    pub sql: u16,
    /// Keep data on disk.
    pub disk: bool,
}

impl Layout {
    /// All ids.
    fn nodes(self) -> impl Iterator<Item = u16> + use<> {
        let Layout { data, management, sql, .. } = self;
        (1..=data).chain(MANAGEMENT..MANAGEMENT + management).chain(SQL..SQL + sql)
    }
}

/// Two data nodes with a copy each, on disk, and two SQL nodes.
pub const SMALL: Layout = Layout { data: 2, replicas: 2, management: 1, sql: 2, disk: true };

/// A process.
struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

/// A running cluster.
pub struct Processes {
    layout: Layout,
    directory: PathBuf,
    addresses: BTreeMap<u16, SocketAddr>,
    /// Ports of metrics and health checks, where there are any.
    http_ports: BTreeMap<u16, u16>,
    processes: BTreeMap<u16, Process>,
    /// Between the nodes, if each has a host of its own.
    network: Option<Network>,
    /// What the configuration says for every node about listening on that network.
    security: String,
    /// Data nodes that the cluster is founded without.
    spare: Vec<u16>,
    /// Where nodes have their certificates, each in a directory `node-N`.
    certificates: Option<PathBuf>,
    /// The program, by node, where it is not the one that was just built.
    pub programs: BTreeMap<u16, PathBuf>,
    /// Options of SQL nodes; `root` has no password unless a test says otherwise.
    pub sql_options: Vec<String>,
}

/// The first management node.
pub const MANAGEMENT: u16 = 49;
/// The first SQL node.
pub const SQL: u16 = 51;
/// Where a node listens that is alone on its host.
const PORT: u16 = 4_000;

/// The number of the host of a node that has one of its own.
pub fn host_of(node: u16) -> u8 {
    u8::try_from(node).expect("small clusters have small numbers")
}

/// Whether SQL nodes of a program have an option.
fn knows(program: &Path, option: &str) -> bool {
    let mut help = Command::new(program);
    help.args(["sql", "--help"]);
    String::from_utf8_lossy(&run(help).stdout).contains(option)
}

impl Processes {
    /// Writes a configuration and starts all nodes; returns when all are ready.
    pub fn start(layout: Layout) -> Self {
        let mut cluster = Self::prepare(layout, "");
        cluster.start_all();
        cluster
    }

    /// Writes a configuration with metrics and health checks for each node, and starts nothing.
    pub fn prepare_watched(layout: Layout) -> Self {
        Self::prepare_watched_with(layout, "")
    }

    /// As `prepare_watched`, with more lines for SQL nodes.
    pub fn prepare_watched_with(layout: Layout, more: &str) -> Self {
        let mut cluster = Self::prepare(layout, "");
        cluster.http_ports = cluster.nodes().map(|node| (node, free_port())).collect();
        let more = format!("[mysqld default]\n{more}");
        std::fs::write(cluster.config_file(), cluster.config(&more))
            .expect("the directory is writable");
        cluster
    }

    /// Writes a configuration, with more lines for data nodes, and starts nothing.
    pub fn prepare(layout: Layout, more: &str) -> Self {
        let nodes = layout.nodes().map(|node| (node, (Ipv4Addr::LOCALHOST, free_port()).into()));
        Self::prepare_at(layout, nodes.collect(), None, more)
    }

    /// As `start`, but each node has a host of its own, whose number is the node's, and an address
    /// of the family that it is given.
    ///
    /// # Errors
    /// What keeps this machine from having such hosts.
    pub fn start_on_hosts(layout: Layout, family: impl Fn(u16) -> Family) -> Result<Self, String> {
        let mut cluster = Self::prepare_on_hosts(layout, family)?;
        cluster.start_all();
        Ok(cluster)
    }

    /// As `start_on_hosts`, but starts nothing.
    ///
    /// # Errors
    /// What keeps this machine from having such hosts.
    pub fn prepare_on_hosts(
        layout: Layout,
        family: impl Fn(u16) -> Family,
    ) -> Result<Self, String> {
        let network = Network::start(layout.nodes().map(host_of))?;
        let address = |node| (Network::address(host_of(node), family(node)), PORT).into();
        let addresses = layout.nodes().map(|node| (node, address(node))).collect();
        // Nobody else is in that network.
        Ok(Self::prepare_at(layout, addresses, Some(network), ""))
    }

    fn prepare_at(
        layout: Layout,
        addresses: BTreeMap<u16, SocketAddr>,
        network: Option<Network>,
        more: &str,
    ) -> Self {
        let security = if network.is_some() { "AllowInsecure=1" } else { "" }.to_owned();
        let cluster = Self {
            layout,
            directory: temporary_directory(),
            addresses,
            http_ports: BTreeMap::new(),
            processes: BTreeMap::new(),
            network,
            security,
            spare: Vec::new(),
            certificates: None,
            programs: BTreeMap::new(),
            sql_options: ["--initialize-insecure", "--allow-insecure"].map(str::to_owned).to_vec(),
        };
        let config = cluster.config(more);
        std::fs::write(cluster.config_file(), config).expect("the directory is writable");
        cluster
    }

    fn config(&self, more: &str) -> String {
        let Layout { replicas, disk, .. } = self.layout;
        let data = self.directory.join("data");
        let mut text = format!(
            "[ndbd default]\nNoOfReplicas={replicas}\nDataMemory=128M\nDataDir={}\nNumCPUs=2\n\
             Diskless={}\n{more}\n{security}\n[ndb_mgmd default]\nDataDir={}\n{security}\n\
             [mysqld default]\n{security}\n",
            data.display(),
            u8::from(!disk),
            data.display(),
            security = self.security,
        );
        for node in self.nodes() {
            let (host, port) = (self.addresses[&node].ip(), self.port(node));
            text.push_str(&match node {
                SQL.. => format!("[mysqld]\nNodeId={node}\n"),
                MANAGEMENT.. => {
                    format!("[ndb_mgmd]\nNodeId={node}\nHostName={host}\nPortNumber={port}\n")
                }
                _ => format!("[ndbd]\nNodeId={node}\nHostName={host}\nServerPort={port}\n"),
            });
            if self.spare.contains(&node) {
                text.push_str("NodeGroup=65536\n");
            }
            if let Some(port) = self.http_ports.get(&node) {
                text.push_str(&format!("HttpPort={port}\n"));
            }
        }
        text
    }

    /// Nodes that are started from now on have keys and certificates in `node-N` of this directory,
    /// and trust nobody on the network without.
    pub fn use_certificates(&mut self, directory: &Path) {
        self.security = String::new();
        self.certificates = Some(directory.to_path_buf());
        std::fs::write(self.config_file(), self.config("")).expect("the directory is writable");
    }

    /// The cluster is founded without these data nodes; nothing has been started yet.
    pub fn keep_spare(&mut self, nodes: &[u16]) {
        self.spare = nodes.to_vec();
        std::fs::write(self.config_file(), self.config("")).expect("the directory is writable");
    }

    fn config_file(&self) -> PathBuf {
        self.directory.join("config.ini")
    }

    /// All ids.
    pub fn nodes(&self) -> impl Iterator<Item = u16> + use<> {
        self.layout.nodes()
    }

    /// The data nodes.
    pub fn data_nodes(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.layout.data
    }

    /// Starts all nodes that do not run, and waits until all are ready. Those that the cluster is
    /// founded without are left out: they are ready when a group is formed of them.
    pub fn start_all(&mut self) {
        let nodes: Vec<u16> = self.nodes().filter(|node| !self.spare.contains(node)).collect();
        for node in &nodes {
            if !self.processes.contains_key(node) {
                self.launch(*node);
            }
        }
        for node in nodes {
            self.wait_until_ready(node);
        }
    }

    /// Starts a node and waits until it is ready.
    pub fn start_node(&mut self, node: u16) {
        self.launch(node);
        self.wait_until_ready(node);
    }

    /// Starts a node.
    pub fn launch(&mut self, node: u16) {
        self.launch_with(node, &[]);
    }

    /// Starts a node with more options.
    pub fn launch_with(&mut self, node: u16, options: &[&str]) {
        let program = self.programs.get(&node).cloned().unwrap_or_else(binary);
        let mut command = match &self.network {
            Some(network) => network.command(host_of(node), program.clone()),
            None => Command::new(&program),
        };
        let management: Vec<String> = (MANAGEMENT..MANAGEMENT + self.layout.management)
            .map(|node| self.addresses[&node].to_string())
            .collect();
        let connect = management.join(",");
        match node {
            SQL.. => {
                let port = self.port(node);
                command.args(["sql", "-c", &connect]).arg(format!("--port={port}"));
                command.arg(format!("--socket={}", self.socket(node).display()));
                command.arg("--workers=2");
                // Earlier versions know fewer options.
                let known = |option: &&String| {
                    !self.programs.contains_key(&node) || knows(&program, option)
                };
                command.args(self.sql_options.iter().filter(known));
            }
            MANAGEMENT.. => {
                command.args(["management", "-f"]).arg(self.config_file());
            }
            _ => {
                command.args(["data", "-c", &connect]);
            }
        }
        if let Some(certificates) = &self.certificates {
            command
                .arg(format!("--tls-dir={}", certificates.join(format!("node-{node}")).display()));
        }
        command.arg(format!("--node-id={node}")).args(options);
        let log = self.directory.join(format!("node-{node}.log"));
        let errors = std::fs::OpenOptions::new().append(true).create(true).open(&log);
        let errors = errors.expect("the directory is writable");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the binary starts");
        let output = child.stdout.take().expect("its output is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let keep = lines.clone();
        thread::spawn(move || {
            use std::io::Write;
            let file = std::fs::OpenOptions::new().append(true).open(&log);
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(mut file) = file.as_ref() {
                    let _ = writeln!(file, "{line}");
                }
                keep.lock().expect("nobody panics while holding it").push(line);
            }
        });
        self.processes.insert(node, Process { child, lines });
    }

    /// Waits until a node has said `ready` since it was started, or started itself again.
    pub fn wait_until_ready(&mut self, node: u16) {
        let began = Instant::now();
        loop {
            let process = self.processes.get_mut(&node).expect("it was started");
            let lines = process.lines.lock().expect("nobody panics while holding it");
            let again = lines.iter().rposition(|line| line == "starts again").unwrap_or(0);
            if lines[again..].iter().any(|line| line.starts_with("ready")) {
                return;
            }
            drop(lines);
            if let Ok(Some(status)) = process.child.try_wait() {
                panic!("node {node} has ended: {status}\n{}", self.log(node));
            }
            assert!(began.elapsed() < PATIENCE, "node {node} is not ready:\n{}", self.log(node));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What a node has printed in all its lives.
    pub fn log(&self, node: u16) -> String {
        let file = self.directory.join(format!("node-{node}.log"));
        std::fs::read_to_string(file).unwrap_or_default()
    }

    /// The process of a node that runs.
    pub fn pid(&self, node: u16) -> u32 {
        self.processes[&node].child.id()
    }

    /// Ends nodes as crashes would, all at the same time.
    pub fn kill(&mut self, nodes: &[u16]) {
        for node in nodes {
            self.processes.get_mut(node).expect("it runs").child.kill().expect("it is our child");
        }
        for node in nodes {
            let mut process = self.processes.remove(node).expect("it runs");
            process.child.wait().expect("it is our child");
        }
    }

    /// Sends a signal to a node.
    pub fn signal(&self, node: u16, signal: &str) {
        let process = self.processes[&node].child.id().to_string();
        let mut kill = Command::new("kill");
        kill.args([signal, &process]);
        assert!(run(kill).status.success(), "kill {signal} {process}");
    }

    /// Ends a node in good order; its exit code.
    pub fn stop(&mut self, node: u16) -> Option<i32> {
        self.signal(node, "-TERM");
        self.wait_for_end(node)
    }

    /// Waits for the end of a node's process; its exit code.
    pub fn wait_for_end(&mut self, node: u16) -> Option<i32> {
        let began = Instant::now();
        loop {
            let process = self.processes.get_mut(&node).expect("it was started");
            if let Some(status) = process.child.try_wait().expect("it is our child") {
                self.processes.remove(&node);
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "node {node} does not end:\n{}", self.log(node));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the process of a node runs.
    pub fn runs(&mut self, node: u16) -> bool {
        let process = self.processes.get_mut(&node);
        process.is_some_and(|process| matches!(process.child.try_wait(), Ok(None)))
    }

    /// The number of a node's process.
    pub fn process_id(&self, node: u16) -> u32 {
        self.processes[&node].child.id()
    }

    /// The Unix socket of an SQL node.
    pub fn socket(&self, node: u16) -> PathBuf {
        self.directory.join(format!("sql-{node}.sock"))
    }

    /// The port of a node.
    pub fn port(&self, node: u16) -> u16 {
        self.addresses[&node].port()
    }

    /// The address of a node.
    pub fn address(&self, node: u16) -> IpAddr {
        self.addresses[&node].ip()
    }

    /// The network between the nodes, if each has a host of its own.
    pub fn network(&mut self) -> Option<&mut Network> {
        self.network.as_mut()
    }

    /// Gives a node that has not been started yet a disk of so many megabytes, if it has a host of
    /// its own; the directory as this process reaches it.
    pub fn mount_disk(&self, node: u16, megabytes: u32) -> Option<PathBuf> {
        let network = self.network.as_ref()?;
        let at = self.directory.join(format!("data/node-{node}"));
        std::fs::create_dir_all(&at).expect("the directory is writable");
        network.mount_disk(host_of(node), &at, megabytes);
        Some(network.file_of_host(host_of(node), &at))
    }

    /// The port of a node's metrics and health checks.
    pub fn http_port(&self, node: u16) -> u16 {
        self.http_ports[&node]
    }

    /// A connection to an SQL node.
    pub fn session(&self, node: u16) -> Result<Session, QueryError> {
        Session::connect(&self.socket(node))
    }

    /// The directory of the cluster.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// An order of an operator, to the first management node.
    pub fn ctl(&self, order: &[&str]) -> std::process::Output {
        let mut program = Command::new(binary());
        program.args(["ctl", "-c", &self.addresses[&MANAGEMENT].to_string()]).args(order);
        run(program)
    }

    /// The data nodes that an SQL node sees complete; none if it cannot say.
    pub fn complete(&self, sql: u16) -> Option<Vec<u16>> {
        let active = "SELECT node_id FROM nines.nodes WHERE role = 'data' AND status = 'active'";
        let rows = self.session(sql).and_then(|mut session| session.query(active)).ok()?;
        let number = |row: crate::TextRow| row.into_iter().next()??.parse().ok();
        let mut nodes: Vec<u16> = rows.into_iter().filter_map(number).collect();
        nodes.sort_unstable();
        Some(nodes)
    }

    /// Waits until an SQL node sees every data node complete.
    pub fn wait_until_complete(&self, sql: u16) {
        let began = Instant::now();
        let all: Vec<u16> = self.data_nodes().collect();
        while self.complete(sql).is_none_or(|complete| complete != all) {
            assert!(began.elapsed() < PATIENCE, "the cluster is not complete again");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if thread::panicking() {
            let mut text = String::new();
            for node in self.nodes() {
                let log = self.log(node);
                let tail: Vec<&str> = log.lines().rev().take(12).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                text.push_str(&format!("--- node {node}\n{}\n", tail.join("\n")));
            }
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            // What is in it may be needed to understand the failure.
            let _ = std::fs::rename(&self.directory, self.directory.with_extension("failed"));
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}
