//! Requests to the service of a process, each answered on a thread of its own.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::super::Service;
use super::super::address::UNIX;
use super::super::greeting::read_request;
use super::super::pending::Pending;
use crate::tls::{Asker, accept_secured};

/// Lets the service answer what was asked; without a body it follows inside TLS. A request too many
/// is hung up on.
pub(super) fn serve(
    service: &Service,
    serving: &Arc<AtomicUsize>,
    pending: Pending,
    body: Option<Vec<u8>>,
) {
    if serving.fetch_add(1, Ordering::SeqCst) >= SERVING_MAX {
        serving.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let (service, done) = (service.clone(), serving.clone());
    let answer = move || {
        // The asker may have gone, which harms nobody but itself.
        let _ = match body {
            Some(body) => answer(&service, pending, &body),
            None => answer_securely(&service, pending),
        };
        done.fetch_sub(1, Ordering::SeqCst);
    };
    if std::thread::Builder::new().name("service".into()).spawn(answer).is_err() {
        serving.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(service: &Service, pending: Pending, body: &[u8]) -> io::Result<()> {
    if pending.transport == UNIX {
        // The user of this process, as the keeper has found out.
        let mut stream = UnixStream::from(pending.socket);
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        (service.answer)(&Asker::Local, body, &mut stream);
    } else {
        let mut stream = TcpStream::from(pending.socket);
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        (service.answer)(&Asker::Plain, body, &mut stream);
    }
    Ok(())
}

fn answer_securely(service: &Service, pending: Pending) -> io::Result<()> {
    let Some(tls) = service.tls.as_ref().filter(|_| pending.transport != UNIX) else {
        return Ok(());
    };
    let stream = TcpStream::from(pending.socket);
    stream.set_nonblocking(false)?;
    let (mut stream, asker) = accept_secured(tls, stream, Instant::now() + TIMEOUT)?;
    let body = read_request(&mut stream)?;
    let mut answer = Vec::new();
    (service.answer)(&asker, &body, &mut answer);
    stream.set_deadline(Instant::now() + TIMEOUT);
    io::Write::write_all(&mut stream, &answer)?;
    stream.finish()
}

/// Requests that are answered at a time.
const SERVING_MAX: usize = 64;
/// How long an asker may take to ask, and to accept an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
