//! Where clients come in: listening sockets, and what to do when the system gives no more.
//!
//! # Guarantees
//! A Unix socket's file that nobody uses is replaced, another one is not touched; ours is removed
//! at the end. A file beside it, with `.lock` behind its name, says whose it is as long as nobody
//! listens yet. Until the cluster serves, clients are refused.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actor::{ConnectionId, Encryption, Transport};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use stdx::{Duration, Instant};

use crate::peer::user_of;
use crate::poller::{Interest, Poller};

/// Sockets that clients connect to.
#[derive(Debug, Default)]
pub struct Listeners {
    listeners: Vec<Listener>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix {
        socket: OwnedFd,
        path: PathBuf,
        /// Locked by this process.
        lock: (File, PathBuf),
    },
}

/// A client that has connected.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) id: ConnectionId,
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// What encrypts it already.
    pub(crate) encryption: Option<Encryption>,
}

impl Listeners {
    /// Takes a TCP address; the address with the port that was chosen if it was 0. An IPv6 address
    /// takes no IPv4 connections. Until the cluster serves, clients are refused, so that whoever
    /// balances load does not take the node for one that works.
    pub fn bind_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        // Two that do not listen yet may share a port that was not chosen for one of them.
        let listener = TcpListener::from(bind_tcp(address, address.port() != 0)?);
        let bound = listener.local_addr()?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(bound)
    }

    /// Takes a Unix socket. Fails with `AddrInUse` if another process has it. As at a TCP address
    /// clients are refused until the cluster serves.
    pub fn bind_unix(&mut self, path: &Path) -> io::Result<()> {
        let lock = lock_beside(path)?;
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        self.listeners.push(Listener::Unix { socket, path: path.to_path_buf(), lock });
        Ok(())
    }
}

/// Takes the lock of a Unix socket. Fails with `AddrInUse` if another process has it.
fn lock_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(&name)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) => return Err(error.into()),
        }
        // The process that had it may have removed it meanwhile: then the next one is another's.
        let (own, there) = (file.metadata()?, fs::metadata(&name));
        if there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino())) {
            return Ok((file, name));
        }
    }
}

/// A listening socket of either family that nobody waits for.
pub(crate) fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind_tcp(address, true)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// A socket with an address; `again` although connections of an earlier one are not forgotten.
fn bind_tcp(address: SocketAddr, again: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, again)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

impl Listener {
    fn listen(&self) -> io::Result<()> {
        rustix::net::listen(self, BACKLOG).map_err(|error| {
            let place = match self {
                Listener::Tcp(listener) => {
                    listener.local_addr().map_or_else(|_| "TCP".into(), |at| at.to_string())
                }
                Listener::Unix { path, .. } => path.display().to_string(),
            };
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("cannot listen on {place}: {error}"))
        })
    }

    fn accept(&self) -> Result<(OwnedFd, Transport), Errno> {
        let (socket, address) =
            rustix::net::acceptfrom_with(self, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let Listener::Tcp(_) = self else {
            let user = user_of(socket.as_fd());
            return Ok((socket, Transport::Unix { user }));
        };
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        let address = address.ok_or(Errno::CONNABORTED)?;
        // Answers are written whole, so there is nothing to wait for.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        let ip = address.ip().to_canonical();
        let (port, loopback) = (address.port(), ip.is_loopback());
        Ok((socket, Transport::Tcp { address: ip.to_string(), port, loopback }))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { socket, .. } => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, lock: (_, lock), .. } = self {
            // Somebody may have removed it before us.
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(lock);
        }
    }
}

/// Names a connection, by the number of the last one.
pub(crate) fn next_id(last: &AtomicU64) -> ConnectionId {
    ConnectionId(last.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The thread that accepts.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    /// First token of the listeners in the poller.
    tokens_from: u64,
    /// Number of the last connection of the process.
    last: Arc<AtomicU64>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The cluster does not serve yet: clients are refused.
    Waiting,
    Accepting,
    /// The system had no descriptor or memory left; tried again at this time.
    Exhausted(Instant),
}

impl Acceptor {
    /// Does not accept before [`Acceptor::open`].
    pub(crate) fn new(listeners: Listeners, tokens_from: u64, last: Arc<AtomicU64>) -> Self {
        let listeners = listeners.listeners;
        Self { listeners, tokens_from, last, state: State::Waiting }
    }

    /// Begins to accept; whether that is for the first time.
    pub(crate) fn open(&mut self, poller: &Poller) -> io::Result<bool> {
        let first = self.state == State::Waiting;
        if first {
            self.listeners.iter().try_for_each(Listener::listen)?;
        }
        if self.state != State::Accepting {
            for (token, listener) in (self.tokens_from..).zip(&self.listeners) {
                poller.add(listener, token, Interest { read: true, write: false })?;
            }
            self.state = State::Accepting;
        }
        Ok(first)
    }

    /// What the poller calls its listeners.
    fn tokens(&self) -> std::ops::Range<u64> {
        self.tokens_from..self.tokens_from + self.listeners.len() as u64
    }

    /// Accepts all who have connected, as far as the system has descriptors for them.
    pub(crate) fn accept_rest(
        &mut self,
        poller: &Poller,
        now: Instant,
    ) -> io::Result<Vec<Accepted>> {
        let mut accepted = Vec::new();
        for token in self.tokens() {
            for _ in 0..=BACKLOG as usize / ACCEPTED_PER_TURN {
                let before = accepted.len();
                self.accept(poller, token, now, &mut accepted)?;
                if accepted.len() == before {
                    break;
                }
            }
        }
        Ok(accepted)
    }

    /// When to look again although no listener is ready.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Exhausted(until) => Some(until),
            State::Waiting | State::Accepting => None,
        }
    }

    /// Accepts from the listener with this token, a bounded number at a time.
    pub(crate) fn accept(
        &mut self,
        poller: &Poller,
        token: u64,
        now: Instant,
        accepted: &mut Vec<Accepted>,
    ) -> io::Result<()> {
        let Some(listener) = self.listeners.get((token - self.tokens_from) as usize) else {
            return Ok(());
        };
        if self.state != State::Accepting {
            return Ok(()); // The one before has found that there is no descriptor left.
        }
        for _ in 0..ACCEPTED_PER_TURN {
            match listener.accept() {
                Ok((socket, transport)) => {
                    let id = next_id(&self.last);
                    accepted.push(Accepted { id, socket, transport, encryption: None });
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // A ready listener that cannot be served would keep the loop busy.
                    for listener in &self.listeners {
                        poller.remove(listener)?;
                    }
                    self.state = State::Exhausted(now + EXHAUSTED_PAUSE);
                    break;
                }
                // The client has gone again, or a moment's trouble of the network.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Clients that may wait to be accepted; the system takes less if it is set up so.
const BACKLOG: i32 = 4_096;
/// Clients accepted per turn and listener.
const ACCEPTED_PER_TURN: usize = 64;
/// How long to wait when the system has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
