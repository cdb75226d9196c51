//! Requests on this host: a socket that tells who is at its other end.
//!
//! # Owns
//! Sockets in the abstract namespace, named by the address and the port that the node listens on:
//! whoever knows where a node is finds it by the same name here. Management nodes have a name more,
//! by which operators find them who know nothing.
//! # Guarantees
//! A node answers its own user and root, who may read its files anyway, and nobody else; an asker
//! asks nobody but its own user, or root. The system tells each end the user of the other.
//! # Failure
//! Without the socket, for example where another process has the name, askers use TCP.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use runtime::{Answer, Asker, is_own};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};

use super::request::{ANSWER_TIMEOUT, converse};

/// Answers requests of this host for a node that listens at these addresses, until the process
/// ends.
pub(super) fn serve(addresses: &[SocketAddr], answer: &Answer) -> Result<(), String> {
    listen(names(addresses), answer)
}

/// As [`serve`], for a node that operators of this host find by [`operators_ports`].
pub(super) fn serve_operators(addresses: &[SocketAddr], answer: &Answer) -> Result<(), String> {
    let port = addresses.first().map(|address| address.port());
    let by_operators = port.map(|port| format!("{OPERATORS}{port}"));
    listen(names(addresses).into_iter().chain(by_operators).collect(), answer)
}

/// By what a node is found that listens at these addresses.
fn names(addresses: &[SocketAddr]) -> Vec<String> {
    let names = addresses.iter().map(|address| name(*address));
    // Who does not say on which address of this host finds it by its port.
    names.chain(addresses.first().map(|address| name_of_port(address.port()))).collect()
}

/// Ports of the nodes on this host that answer operators and are of this user; for root, of
/// anybody. Nothing is known where the system does not tell of its sockets.
pub(super) fn operators_ports() -> BTreeSet<u16> {
    let sockets = fs::read("/proc/net/unix").unwrap_or_default();
    let ports = listed(&String::from_utf8_lossy(&sockets));
    let is_ours = |port: &u16| connect_ours(format!("{OPERATORS}{port}")).is_some();
    ports.into_iter().filter(is_ours).collect()
}

/// The ports in the system's list of Unix sockets, in which names of the abstract namespace begin
/// with `@`.
fn listed(sockets: &str) -> BTreeSet<u16> {
    let names = sockets.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    names.filter_map(|name| name.strip_prefix(OPERATORS)?.parse().ok()).collect()
}

/// Binds these names and answers there.
fn listen(names: Vec<String>, answer: &Answer) -> Result<(), String> {
    let serving = Arc::new(AtomicUsize::new(0));
    for name in names {
        let listener = UnixAddress::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address));
        let Ok(listener) = listener else { continue };
        let (answer, serving) = (answer.clone(), serving.clone());
        let accept = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => take(stream, &answer, &serving),
                    // The system has no descriptor left.
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name("local-service".into()).spawn(accept);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    }
    Ok(())
}

/// Answers somebody on a thread of its own. Somebody too many is hung up on.
fn take(stream: UnixStream, answer: &Answer, serving: &Arc<AtomicUsize>) {
    if serving.fetch_add(1, Ordering::SeqCst) >= SERVING_MAX {
        serving.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let (answer, done) = (answer.clone(), serving.clone());
    let serve = move || {
        // The asker may have gone, which harms nobody but itself.
        let _ = serve_one(stream, &answer);
        done.fetch_sub(1, Ordering::SeqCst);
    };
    if thread::Builder::new().name("local-answer".into()).spawn(serve).is_err() {
        serving.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve_one(mut stream: UnixStream, answer: &Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let peer = socket_peercred(&stream)?.uid;
    let body = runtime::read_request(&mut stream)?;
    let asker = if peer == geteuid() || peer == Uid::ROOT {
        Asker::Local
    } else {
        let user = geteuid().as_raw();
        Asker::Refused(format!(
            "only the user of this node ({user}) and root may ask it on this host without a \
             certificate; you are user {}",
            peer.as_raw()
        ))
    };
    answer(&asker, &body, &mut stream);
    Ok(())
}

/// Asks the node of this host that listens at an address; nothing if there is none, or it is not of
/// a user that is to be believed.
pub(super) fn exchange(address: SocketAddr, request: &[u8]) -> Option<io::Result<Vec<u8>>> {
    let ip = address.ip();
    if !is_own(ip) {
        return None;
    }
    let by_port = is_loopback(ip).then(|| name_of_port(address.port()));
    let names = [Some(name(address)), by_port];
    let stream = names.into_iter().flatten().find_map(|name| {
        let (stream, peer) = connect(name)?;
        // Root asks for anybody, and a node of another user says why it does not answer.
        let is_ours = peer == geteuid() || peer == Uid::ROOT || geteuid() == Uid::ROOT;
        is_ours.then_some(stream)
    })?;
    let exchange = || {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        converse(stream, request)
    };
    Some(exchange())
}

/// Connects to a name; with the user at the other end.
fn connect(name: String) -> Option<(UnixStream, Uid)> {
    let stream = UnixStream::connect_addr(&UnixAddress::from_abstract_name(name).ok()?).ok()?;
    let peer = socket_peercred(&stream).ok()?.uid;
    Some((stream, peer))
}

/// Connects to a name of this user's own; root's are all.
fn connect_ours(name: String) -> Option<UnixStream> {
    let (stream, peer) = connect(name)?;
    (peer == geteuid() || geteuid() == Uid::ROOT).then_some(stream)
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn name(address: SocketAddr) -> String {
    format!("nines-service/{}:{}", address.ip().to_canonical(), address.port())
}

fn name_of_port(port: u16) -> String {
    format!("nines-service/{port}")
}

/// What the names begin with by which operators find nodes; the port follows.
const OPERATORS: &str = "nines-operators/";
/// Requests that are answered at a time.
const SERVING_MAX: usize = 32;
/// How long an asker may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait when the system accepts nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn whoever_knows_where_a_node_is_finds_it_here() {
        // A port that nobody else of this test has.
        let holder = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = holder.local_addr().unwrap();
        let request = runtime::service_request(b"who?").unwrap();
        assert!(exchange(address, &request).is_none(), "nobody is there yet");
        let answer: Answer = Arc::new(|asker, body, out| {
            let _ = write!(out, "{asker:?} {}", String::from_utf8_lossy(body));
        });
        serve(&[address], &answer).unwrap();
        let told = exchange(address, &request).unwrap().unwrap();
        assert_eq!(String::from_utf8(told).unwrap(), "Local who?");
        let elsewhere = SocketAddr::new("127.0.0.9".parse().unwrap(), address.port());
        assert!(exchange(elsewhere, &request).is_some(), "by the port alone");
        assert!(exchange("192.0.2.1:1186".parse().unwrap(), &request).is_none());
    }

    #[test]
    fn operators_find_a_node_that_is_there_for_them() {
        let holders = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let [data, management] = holders.each_ref().map(|holder| holder.local_addr().unwrap());
        let answer: Answer = Arc::new(|_, _, _| {});
        serve(&[data], &answer).unwrap();
        serve_operators(&[management], &answer).unwrap();
        let found = operators_ports();
        assert!(found.contains(&management.port()), "{found:?}");
        assert!(!found.contains(&data.port()), "a data node answers no operators");
    }

    #[test]
    fn the_list_of_sockets_is_read() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 22 /run/x.sock\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 23\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 24 @nines-operators/3306\n\
             0000000000000000: 00000003 00000000 00000000 0001 03 25 @nines-operators/3306\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 26 @nines-service/11861\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 27 @nines-operators/x\n\
             0000000000000000: 00000002 00000000 00010000 0001 01 28 @nines-operators/1186\n";
        assert_eq!(listed(text).into_iter().collect::<Vec<_>>(), [1186, 3306]);
        assert!(listed("").is_empty());
    }
}
