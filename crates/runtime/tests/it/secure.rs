//! Links with certificates: what passes over them, who is refused, and what becomes of links when
//! certificates change, expire or are revoked.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::NodeId;
use runtime::{
    Authority, Broken, Event, LinkEvent, NodeCredentials, NodeFiles, NodeKey, NodeRole, SignedNode,
};

use super::Directory;
use super::links::{
    Apart, NODES, behind_a_proxy, is_down, outlives_a_data_node, outlives_resets, wait_for_renewal,
};

const LONG: Duration = Duration::from_secs(1_000);

/// A cluster's authority, and a directory for each node.
struct Pki {
    authority: Authority,
    directory: Directory,
}

impl Pki {
    fn new() -> Self {
        Self { authority: Authority::make().unwrap(), directory: Directory::new() }
    }

    /// Puts a certificate and what belongs to it into a directory of this name.
    fn put(&self, name: &str, role: NodeRole, node: u16, lifetime: Duration) -> SignedNode {
        let directory = self.directory.0.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let key = NodeKey::generate().unwrap();
        let names = ["localhost".to_owned()];
        let public = key.public_key_der();
        let signed = self.authority.sign_node(role, NodeId(node), &names, &public, lifetime);
        let signed = signed.unwrap();
        write(&directory.join("node-ca.pem"), self.authority.certificate_pem());
        write(&directory.join("node-cert.pem"), &signed.certificate_pem);
        write(&directory.join("node-key.pem"), &key.pem());
        signed
    }

    fn load(&self, name: &str) -> NodeCredentials {
        NodeCredentials::load(NodeFiles::in_directory(&self.directory.0.join(name))).unwrap()
    }

    /// Gives every node of a cluster its own.
    fn equip(&self, cluster: &mut Apart, lifetime: Duration) {
        for (node, role) in NODES {
            self.put(&node.to_string(), role.into(), node, lifetime);
            cluster.credentials.insert(node, self.load(&node.to_string()));
        }
    }

    /// Has everybody but `except` know that a certificate is revoked.
    fn revoke(&self, serial: &str, except: u16) {
        for (node, _) in NODES.into_iter().filter(|(node, _)| *node != except) {
            let file = self.directory.0.join(node.to_string()).join("node-revoked.txt");
            write(&file, &format!("# stolen\n{serial}\n"));
        }
    }
}

/// Replaces a file that only its owner may read.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    let mut options = std::fs::File::options();
    let file = options.create(true).write(true).truncate(true).mode(0o600).open(&new);
    file.unwrap().write_all(text.as_bytes()).unwrap();
    std::fs::rename(new, path).unwrap();
}

fn with_certificates(name: &str, threads: [u8; 4]) -> (Pki, Apart) {
    let (pki, mut cluster) = (Pki::new(), Apart::new(name, threads, false));
    pki.equip(&mut cluster, LONG);
    (pki, cluster)
}

fn refusal(event: &Event) -> Option<&str> {
    match event {
        Event::Link(LinkEvent::Refused { why, .. }) => Some(why),
        _ => None,
    }
}

/// Waits until a node says one of these of a peer, to which it must not be linked meanwhile.
fn refuses(cluster: &Apart, node: u16, peer: u16, wanted: &[&str]) {
    cluster.wait(node, |event| {
        let made = matches!(event, Event::Link(LinkEvent::Up { node, .. }) if node.0 == peer);
        assert!(!made, "node {node} is linked to a rogue");
        refusal(event).is_some_and(|why| wanted.iter().any(|wanted| why.contains(wanted)))
    });
}

#[test]
fn encrypted_links_outlive_the_end_of_a_node() {
    let (_pki, cluster) = with_certificates("secure", [1, 3, 1, 2]);
    outlives_a_data_node(cluster);
}

#[test]
fn encrypted_connections_that_are_reset_cost_no_link() {
    let (_pki, cluster) = with_certificates("secure-reset", [2, 3, 1, 2]);
    let (cluster, proxy) = behind_a_proxy(cluster);
    outlives_resets(cluster, proxy);
}

/// The name of the application's table, which every node is told.
const MARKER: &[u8] = b"test.rows";

/// Whether a marker is in what passes over the links to a data node.
fn leaks(mut cluster: Apart) -> bool {
    cluster.compression = false;
    let (cluster, proxy) = behind_a_proxy(cluster);
    cluster.board.run_round();
    let passed = proxy.passed.lock().unwrap();
    assert!(passed.len() > 100_000, "the rows have passed");
    passed.windows(MARKER.len()).any(|part| part == MARKER)
}

#[test]
fn what_passes_over_encrypted_links_cannot_be_read() {
    assert!(leaks(Apart::new("read-plain", [1, 1, 1, 1], false)), "the marker would be found");
    let (_pki, cluster) = with_certificates("read-secure", [1, 1, 1, 1]);
    assert!(!leaks(cluster));
}

/// Starts node 2 as a rogue: what the data node that is there says of it, and what it says itself.
fn rogue(cluster: &mut Apart, credentials: Option<NodeCredentials>, texts: (&[&str], &[&str])) {
    match credentials {
        Some(credentials) => cluster.credentials.insert(2, credentials),
        None => cluster.credentials.remove(&2),
    };
    cluster.start(2);
    refuses(cluster, 1, 2, texts.0);
    refuses(cluster, 2, 1, texts.1);
    cluster.stop(2);
    cluster.board.run_round();
}

#[test]
fn rogues_are_refused_and_told_why() {
    let (pki, mut cluster) = with_certificates("rogues", [1, 1, 1, 1]);
    cluster.start_all();
    cluster.stop(2);
    cluster.wait(1, |event| is_down(event, 2));
    // Of another cluster.
    let other = Pki::new();
    other.put("2", NodeRole::Data, 2, LONG);
    let strange = ["signed by no authority", "does not know the authority"];
    rogue(&mut cluster, Some(other.load("2")), (&strange, &strange));
    // Of another role, and of another node.
    let told = ["that of another node, or of another role", "its certificate is that of"];
    for (name, role, node) in [
        ("sql", NodeRole::Sql, 2),
        ("management", NodeRole::Management, 2),
        ("other", NodeRole::Data, 1),
    ] {
        pki.put(name, role, node, LONG);
        let found = format!("its certificate is that of {} node {node}, and", role.name());
        rogue(&mut cluster, Some(pki.load(name)), (&[&found], &told));
    }
    // Without TLS.
    let plain = ["speak TLS with each other, and it does not", "it speaks no TLS"];
    let asked = ["speak TLS with each other", "this node has no certificate"];
    rogue(&mut cluster, None, (&plain, &asked));
    // Expired since it was read.
    pki.put("short", NodeRole::Data, 2, Duration::from_secs(1));
    let short = pki.load("short");
    let until = Duration::from_secs(u64::try_from(short.not_after()).unwrap() + 1);
    while SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() <= until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (expired, told) = (["has expired"], ["has expired or is not good yet"]);
    rogue(&mut cluster, Some(short), (&expired, &told));
    // Revoked, and everybody else has heard of it.
    let stolen = pki.put("stolen", NodeRole::Data, 2, LONG);
    pki.revoke(&stolen.serial, 2);
    for node in [1, 49, 101] {
        cluster.wait(node, |event| {
            matches!(event, Event::Link(LinkEvent::Credentials { what: Ok(_) }))
        });
    }
    let (revoked, told) = (["was revoked"], ["this node's certificate was revoked"]);
    rogue(&mut cluster, Some(pki.load("stolen")), (&revoked, &told));
    // The true one is let in.
    cluster.credentials.insert(2, pki.load("2"));
    cluster.start(2);
    cluster.wait(2, |event| matches!(event, Event::Ready));
    cluster.board.run_round();
}

#[test]
fn a_node_with_a_certificate_does_without_a_cluster_that_has_none() {
    let mut cluster = Apart::new("downgrade", [1, 1, 1, 1], false);
    cluster.start_all();
    cluster.stop(2);
    cluster.wait(1, |event| is_down(event, 2));
    let pki = Pki::new();
    pki.put("2", NodeRole::Data, 2, LONG);
    let credentials = Some(pki.load("2"));
    let here = ["this node has no certificate", "speak TLS with each other"];
    let there = ["it speaks no TLS", "speak TLS with each other, and it does not"];
    rogue(&mut cluster, credentials, (&here, &there));
    cluster.credentials.remove(&2);
    cluster.start(2);
    cluster.wait(2, |event| matches!(event, Event::Ready));
    cluster.board.run_round();
}

#[test]
fn certificates_are_renewed_and_revoked_without_a_restart() {
    let (pki, cluster) = with_certificates("renewed", [1, 2, 1, 1]);
    let (cluster, proxy) = behind_a_proxy(cluster);
    let old = cluster.credentials[&2].serial();
    let new = pki.put("2", NodeRole::Data, 2, LONG).serial;
    cluster.wait(2, |event| match event {
        Event::Link(LinkEvent::Credentials { what }) => {
            assert!(what.as_ref().is_ok_and(|what| what.contains(&new)), "{what:?}");
            true
        }
        _ => false,
    });
    cluster.board.run_round();
    // New connections are made with the new one: the old one may be revoked then.
    proxy.reset();
    wait_for_renewal(&cluster);
    cluster.board.run_round();
    let heard = |serials: &str| {
        let file = pki.directory.0.join("1").join("node-revoked.txt");
        write(&file, serials);
        cluster.wait(1, |event| {
            assert!(!is_down(event, 2), "{event:?}");
            matches!(event, Event::Link(LinkEvent::Credentials { what: Ok(_) }))
        });
    };
    heard(&format!("{old}\n"));
    cluster.board.run_round();
    // Node 1 is told alone, and so loses a peer that lives and believes to be one.
    heard(&format!("{old}\n{new}\n"));
    let down = cluster.wait(1, |event| is_down(event, 2));
    let Event::Link(LinkEvent::Down { closed, why, .. }) = down else { unreachable!() };
    assert_eq!((closed, why), (false, Broken::Revoked));
}

#[test]
fn links_stand_although_their_certificates_expire() {
    // A machine that is busy may not have started the cluster within the first time.
    for seconds in [4, 16, 64] {
        let (pki, mut cluster) = (Pki::new(), Apart::new("expired", [1, 1, 1, 1], false));
        pki.equip(&mut cluster, Duration::from_secs(seconds));
        let until = cluster.credentials.values().map(NodeCredentials::not_after).max().unwrap();
        let passed = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            now.as_secs() > u64::try_from(until).unwrap()
        };
        let (cluster, proxy) = behind_a_proxy(cluster);
        if passed() {
            continue;
        }
        while !passed() {
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster.board.run_round();
        // Over new connections too.
        proxy.reset();
        wait_for_renewal(&cluster);
        cluster.board.run_round();
        let files = NodeFiles::in_directory(&pki.directory.0.join("2"));
        let why = NodeCredentials::load(files).unwrap_err();
        assert!(why.contains("node-cert.pem has expired"), "{why}");
        return;
    }
    panic!("the cluster does not start within a minute");
}

#[test]
fn nonsense_ends_the_connection_that_it_came_on() {
    let (_pki, mut cluster) = with_certificates("nonsense", [1, 1, 1, 1]);
    cluster.start_all();
    let record = |kind: u8, len: u16, body: &[u8]| {
        let [high, low] = len.to_be_bytes();
        [&[kind, 3, 3, high, low], body].concat()
    };
    for nonsense in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![22; 4_096],
        record(22, u16::MAX, &[1; 100]),
        record(22, 0, &[]).repeat(100),
        record(22, 4, &[1, 0xFF, 0xFF, 0xFF]).repeat(1_000),
        record(23, 20, &[7; 20]),
        [record(22, 1, &[1]), record(21, 2, &[2, 80])].concat(),
    ] {
        let mut stranger = TcpStream::connect(cluster.address(1)).unwrap();
        stranger.set_read_timeout(Some(super::PATIENCE)).unwrap();
        // It may have been hung up on in the middle.
        let _ = stranger.write_all(&nonsense);
        let ended = std::io::copy(&mut stranger, &mut std::io::sink());
        let timed_out = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        assert!(!ended.is_err_and(|error| timed_out.contains(&error.kind())), "{nonsense:?}");
    }
    cluster.board.run_round();
}

#[test]
fn a_flood_of_handshakes_that_do_not_end_keeps_nobody_out() {
    let (pki, mut cluster) = with_certificates("flood", [1, 1, 1, 1]);
    cluster.start_all();
    cluster.stop(2);
    cluster.wait(1, |event| is_down(event, 2));
    let addresses = [1, 2].map(|node| cluster.address(node));
    let done = std::sync::atomic::AtomicBool::new(false);
    // What a node says first, without what would follow: the other end computes, and waits.
    let credentials = pki.load("101");
    let config = credentials.client_config(None);
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let (mut open, mut made) = (std::collections::VecDeque::new(), 0_usize);
            while !done.load(std::sync::atomic::Ordering::SeqCst) || made < 2 * FLOOD {
                made += 1;
                if let Ok(mut stream) = TcpStream::connect(addresses[made % 2]) {
                    // All of it, a part of it, nothing.
                    let part = hello.len() * (made / 2 % 4) / 3;
                    let _ = stream.write_all(&hello[..part.min(hello.len())]);
                    open.push_back(stream);
                }
                if open.len() > FLOOD {
                    open.pop_front();
                }
            }
            made
        });
        cluster.start(2);
        cluster.wait(2, |event| matches!(event, Event::Ready));
        cluster.board.run_round();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(flood.join().unwrap() >= 2 * FLOOD);
    });
    cluster.board.run_round();
}

/// Connections that are kept open at a time: more than a node keeps of those that do not say who
/// they are.
const FLOOD: usize = 2_400;
