//! Requests to the service of a process, each answered on a thread of its own.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::super::Service;
use super::super::pending::Pending;

/// Lets the service answer. A request too many is hung up on.
pub(super) fn serve(
    service: &Service,
    serving: &Arc<AtomicUsize>,
    pending: Pending,
    body: Vec<u8>,
) {
    if serving.fetch_add(1, Ordering::SeqCst) >= SERVING_MAX {
        serving.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let (service, done) = (service.clone(), serving.clone());
    let answer = move || {
        // The asker may have gone, which harms nobody but itself.
        let _ = answer(&service, pending, &body);
        done.fetch_sub(1, Ordering::SeqCst);
    };
    if std::thread::Builder::new().name("service".into()).spawn(answer).is_err() {
        serving.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(service: &Service, pending: Pending, body: &[u8]) -> io::Result<()> {
    if pending.transport == "Unix" {
        let mut stream = UnixStream::from(pending.socket);
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        service(body, &mut stream);
    } else {
        let mut stream = TcpStream::from(pending.socket);
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        service(body, &mut stream);
    }
    Ok(())
}

/// Requests that are answered at a time.
const SERVING_MAX: usize = 64;
/// How long an asker may take to accept an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
