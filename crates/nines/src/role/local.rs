//! Requests on this host: a socket that tells who is at its other end.
//!
//! # Owns
//! Sockets in the abstract namespace, named by the address and the port that the node listens on:
//! whoever knows where a node is finds it by the same name here.
//! # Guarantees
//! A node answers its own user and root, who may read its files anyway, and nobody else; an asker
//! asks nobody but its own user, or root. The system tells each end the user of the other.
//! # Failure
//! Without the socket, for example where another process has the name, askers use TCP.

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
    let mut names: Vec<String> = addresses.iter().map(|address| name(*address)).collect();
    // Who does not say on which address of this host finds it by its port.
    names.extend(addresses.first().map(|address| name_of_port(address.port())));
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
        let stream = UnixStream::connect_addr(&UnixAddress::from_abstract_name(name).ok()?).ok()?;
        let peer = socket_peercred(&stream).ok()?.uid;
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

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn name(address: SocketAddr) -> String {
    format!("nines-service/{}:{}", address.ip().to_canonical(), address.port())
}

fn name_of_port(port: u16) -> String {
    format!("nines-service/{port}")
}

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
}
