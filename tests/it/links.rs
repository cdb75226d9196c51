//! Clusters whose links are encrypted, on hosts of their own: what passes over the network, and
//! nodes that are not let in.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::NodeId;
use runtime::{Authority, NodeKey, NodeRole};
use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL, host_of};
use tests::network::{Family, Network};
use tests::{all, number};

use super::hosts::say;
use super::processes::open;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const LIFETIME: Duration = Duration::from_secs(86_400);
/// In every row, and in what is sent after all rows.
const MARKER: &str = "marker of a row, long enough to be nothing else";
const END: &str = "marker of the end of the rows";

/// Certificates for the nodes of a cluster, by an authority of its own.
struct Certificates {
    directory: PathBuf,
    authority: Authority,
}

impl Certificates {
    fn make(cluster: &Processes, name: &str) -> Self {
        let directory = cluster.directory().join(name);
        fs::create_dir(&directory).expect("the directory is writable");
        let certificates = Self { directory, authority: Authority::make().expect("it is made") };
        for node in cluster.nodes() {
            certificates.give(node, node);
        }
        certificates
    }

    /// Gives a node the certificate of another, or its own.
    fn give(&self, node: u16, of: u16) {
        let role = match of {
            SQL.. => NodeRole::Sql,
            MANAGEMENT.. => NodeRole::Management,
            _ => NodeRole::Data,
        };
        let key = NodeKey::generate().expect("it is made");
        let public = key.public_key_der();
        let signed = self.authority.sign_node(role, NodeId(of), &[], &public, LIFETIME);
        let signed = signed.unwrap_or_else(|why| panic!("{why}"));
        let directory = self.of(node);
        fs::create_dir_all(&directory).expect("the directory is writable");
        let write = |name: &str, text: &str| {
            fs::write(directory.join(name), text).expect("the directory is writable");
        };
        write("node-ca.pem", self.authority.certificate_pem());
        write("node-cert.pem", &signed.certificate_pem);
        let file = directory.join("node-key.pem");
        let mut options = fs::File::options();
        let file = options.create(true).write(true).truncate(true).mode(0o600).open(file);
        let mut file = file.expect("the directory is writable");
        file.write_all(key.pem().as_bytes()).expect("the directory is writable");
    }

    /// The directory of a node's files.
    fn of(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}"))
    }

    fn use_for(&self, cluster: &mut Processes) {
        cluster.use_certificates(&self.directory);
    }
}

/// Writes down all packets of a host.
struct Capture {
    process: Child,
    file: PathBuf,
}

/// Takes packets from the system as they are on the line, and says when it begins.
const CAPTURE: &str = "import socket, sys\n\
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)\n\
    packets.bind(('lan', 0))\n\
    print('begins', flush=True)\n\
    with open(sys.argv[1], 'wb', buffering=0) as file:\n\
    \x20   while True:\n\
    \x20       file.write(packets.recv(1 << 17))\n";

impl Capture {
    fn start(network: &Network, host: u8, file: PathBuf) -> Self {
        let mut python = network.command(host, "python3");
        python.args(["-c", CAPTURE]).arg(&file).stdout(Stdio::piped());
        let mut process = python.spawn().expect("python3 starts");
        let output = process.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("it says something");
        assert_eq!(line, "begins\n");
        Self { process, file }
    }

    fn has(&self, text: &str) -> bool {
        let bytes = fs::read(&self.file).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for something that is certain to happen.
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}: it does not happen");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A cluster of four hosts that is not started; none where this machine has no such hosts.
fn prepare(name: &str) -> Option<Processes> {
    let layout = Layout { sql: 1, disk: false, ..SMALL };
    match Processes::prepare_on_hosts(layout, |_| Family::V4) {
        Ok(cluster) => Some(cluster),
        Err(why) => {
            say(&format!("skipped: {name}: {why}"));
            None
        }
    }
}

/// Whether rows can be read from the line of a data node.
fn leaks(cluster: &mut Processes) -> bool {
    let file = cluster.directory().join("packets");
    let host = host_of(1);
    cluster.start_all();
    let capture = Capture::start(cluster.network().expect("it has one"), host, file);
    let mut session = open(cluster, SQL);
    all(
        &mut session,
        &["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(200))"],
    );
    for id in 0..200 {
        all(&mut session, &[&format!("INSERT INTO d.t VALUES ({id}, '{MARKER} {id}')")]);
    }
    let found = number(&mut session, &format!("SELECT COUNT(*) FROM d.t WHERE a LIKE '{MARKER}%'"));
    assert_eq!(found, 200);
    // What comes last has everything before it.
    let there = Network::address(host_of(2), Family::V4);
    let network = cluster.network().expect("it has one");
    let mut last = network.command(host, "bash");
    last.args(["-c", &format!("echo {END} > /dev/udp/{there}/9")]);
    assert!(last.status().expect("bash starts").success());
    wait_until("the capture", || capture.has(END));
    capture.has(MARKER)
}

#[test]
fn nobody_on_the_network_reads_what_nodes_tell_each_other() {
    let Some(mut plain) = prepare("packets") else { return };
    assert!(leaks(&mut plain), "the marker would be found");
    drop(plain);
    let Some(mut secure) = prepare("packets") else { return };
    Certificates::make(&secure, "certificates").use_for(&mut secure);
    assert!(!leaks(&mut secure));
    assert!(secure.log(SQL).contains("TLS sockets"), "{}", secure.log(SQL));
}

/// Starts data node 2, which must end, and say so.
fn refused(cluster: &mut Processes, text: &str) {
    let before = cluster.log(2).len();
    cluster.launch(2);
    assert_ne!(cluster.wait_for_end(2), Some(0));
    let log = cluster.log(2);
    assert!(log[before..].contains(text), "{log}");
    let count = number(&mut open(cluster, SQL), "SELECT COUNT(*) FROM d.t");
    assert_eq!(count, 1, "the cluster goes on");
}

#[test]
fn nodes_that_are_not_of_the_cluster_are_not_let_in() {
    let Some(mut cluster) = prepare("rogues") else { return };
    let certificates = Certificates::make(&cluster, "certificates");
    certificates.use_for(&mut cluster);
    cluster.start_all();
    let mut session = open(&cluster, SQL);
    let table = ["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)"];
    all(&mut session, &table);
    all(&mut session, &["INSERT INTO d.t VALUES (1)"]);
    cluster.kill(&[2]);
    wait_until("node 2 is gone", || cluster.complete(SQL) == Some(vec![1]));
    // The certificate of an SQL node, which is what a rogue may have got hold of.
    certificates.give(2, SQL);
    refused(&mut cluster, "the certificate is that of sql node 51");
    // That of another data node.
    certificates.give(2, 1);
    refused(&mut cluster, "the certificate is that of data node 1");
    // One of another cluster.
    let others = Certificates::make(&cluster, "others");
    for name in ["node-ca.pem", "node-cert.pem", "node-key.pem"] {
        let copied = fs::copy(others.of(2).join(name), certificates.of(2).join(name));
        let _ = copied.expect("the directory is writable");
    }
    refused(&mut cluster, "signed by no authority of this cluster");
    // None.
    fs::remove_dir_all(certificates.of(2)).expect("it is there");
    refused(&mut cluster, "it takes a certificate of an operator");
    certificates.give(2, 2);
    cluster.launch(2);
    cluster.wait_until_ready(2);
    cluster.wait_until_complete(SQL);
}
