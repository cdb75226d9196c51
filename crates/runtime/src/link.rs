//! Links to the other processes of the cluster.
//!
//! # Owns
//! What a process is told of its peers ([`LinkSetup`]), and what the keeper of links and the
//! threads that use them tell each other. `keeper` makes links and finds out what became of those
//! that broke; `ends` is a thread's share of all links; `socket` one connection of a link, `lane`
//! the streams that it carries; `ring` memory that two
//! processes of a host share; `greeting` the first words on a connection.
//! # Guarantees
//! What the simulated network promises (`docs/internals/links.md`):
//! 1. From one worker to another messages arrive whole, once and in order, whatever becomes of the
//!    connections that carry the link: they are made anew, and what has not arrived is sent again.
//!    What a broken link loses is the end of what was sent. A link breaks when a process has ended,
//!    the peer was silent for too long, or too much waits for it.
//! 2. Every worker of both ends is told of a broken link, and a new one is not made before.
//! 3. A link that "was closed" is one whose peer has ended: nobody listens at its address any more,
//!    or a later life does.
//! # Not here
//! What is sent (`wire`), who is a member (`control`), whom a certificate makes believed (`tls`).

mod address;
mod connection;
mod ends;
mod frame;
mod greeting;
mod handing;
mod keeper;
mod lane;
mod pending;
mod ring;
mod send_buffers;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use model::{Incarnation, NodeId};
use stdx::Duration;

use crate::cluster::Role;
use crate::listener::listen_tcp;
use crate::tls::{Asker, NodeCredentials};

pub use address::{PeerAddress, is_own};
pub(crate) use connection::Connection;
pub(crate) use ends::{Arrival, LinkEnds, Loss};
pub use greeting::{read_request, secure_service, service_request};
pub(crate) use keeper::{KeeperHandle, start_keeper};
pub(crate) use send_buffers::SendBuffers;

/// What a process that is one node of a cluster knows of the others.
pub struct LinkSetup {
    /// The cluster's name: peers of another one are refused.
    pub cluster: String,
    /// The other nodes.
    pub peers: BTreeMap<NodeId, Peer>,
    /// Where this node can be reached; nobody connects to a node without.
    pub listeners: LinkListeners,
    /// How peers on this host are reached.
    pub same_host: SameHost,
    /// Limits and intervals.
    pub limits: LinkLimits,
    /// Answers what else is asked where peers connect.
    pub service: Option<Service>,
    /// What this node proves its identity by. With it links over TCP are encrypted, and peers have
    /// to prove theirs; without it no link is.
    pub credentials: Option<NodeCredentials>,
}

/// How processes of one host talk to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameHost {
    /// As others do.
    Tcp,
    /// By Unix sockets.
    Sockets,
    /// By memory that they share, where the system has it and the peer wants it too; otherwise by
    /// Unix sockets.
    #[default]
    Memory,
}

/// Another node of the cluster.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it is.
    pub role: Role,
    /// Where it can be reached; none for a node that connects itself.
    pub address: Option<PeerAddress>,
    /// Bytes that may wait on a connection to it, if not as the limits say.
    pub send_buffer: Option<usize>,
}

/// Limits and intervals of links.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Bytes that may wait to be sent on a connection before the peer counts as lost.
    #[doc(alias = "SendBufferMemory")]
    pub send_buffer: usize,
    /// Whether what is sent over TCP is packed (LZ4).
    pub compression: bool,
    /// Bytes that may wait to be sent on all connections of the process. Beyond it the peer counts
    /// as lost for which more waits than for others.
    #[doc(alias = "TotalSendBufferMemory")]
    pub send_buffers: usize,
    /// How often something is sent, if only a sign of life.
    pub keepalive: Duration,
    /// How long a peer may be silent, or unreachable, before it counts as lost.
    pub silence: Duration,
    /// How long nothing may come over the connections of a link, or be confirmed, before others are
    /// made in their place. Some signs of life fit into it, and into `silence` several of it.
    pub stall: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            send_buffer: 256 << 20,
            compression: false,
            send_buffers: usize::MAX,
            keepalive: Duration::from_millis(100),
            silence: Duration::from_millis(1_500),
            stall: Duration::from_millis(350),
        }
    }
}

/// Sockets at which peers connect.
#[derive(Debug, Default)]
pub struct LinkListeners {
    tcp: Vec<TcpListener>,
    unix: Option<UnixListener>,
}

impl LinkListeners {
    /// Listens on these addresses, and on a Unix socket for peers of this host if `same_host`.
    ///
    /// # Errors
    /// When the system refuses one, `AddrInUse` if another process has it.
    pub fn bind(
        cluster: &str,
        node: NodeId,
        addresses: &[SocketAddr],
        same_host: bool,
    ) -> io::Result<Self> {
        let tcp = addresses.iter().map(|address| listen_tcp(*address));
        let tcp = tcp.collect::<io::Result<Vec<TcpListener>>>()?;
        let port = tcp.first().map(TcpListener::local_addr).transpose()?.map_or(0, |a| a.port());
        let unix = same_host.then(|| address::listen_unix(cluster, node, port)).transpose()?;
        Ok(Self { tcp, unix })
    }
}

/// Answers requests of programs that are not nodes.
#[derive(Clone)]
pub struct Service {
    /// Answers one, on a thread of its own: who asks, the bytes that were asked, and how the answer
    /// is sent.
    pub answer: Answer,
    /// Requests may come over TLS, with this node's certificate.
    pub tls: Option<NodeCredentials>,
}

/// What answers a request.
pub type Answer = Arc<dyn Fn(&Asker, &[u8], &mut dyn io::Write) + Send + Sync>;

/// What happens to links, for the cluster log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Messages pass.
    Up {
        /// The peer.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// Connections of the link.
        sockets: u8,
        /// How it is reached: `TLS`, `TCP`, `Unix` or `shared memory`.
        transport: &'static str,
    },
    /// Its connections go by sockets, because there is no memory that both could share.
    NotShared {
        /// The peer.
        node: NodeId,
        /// What the system, or this process, says.
        why: String,
    },
    /// They pass again, over new connections, and none was lost.
    Renewed {
        /// The peer.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// What was noticed of the last ones.
        why: Broken,
        /// How long ago.
        after: Duration,
    },
    /// They pass no more.
    Down {
        /// The peer.
        node: NodeId,
        /// The life that was connected.
        incarnation: Incarnation,
        /// Its process has ended.
        closed: bool,
        /// What was noticed.
        why: Broken,
    },
    /// The files of this node's certificate, or of whom it believes, have changed.
    Credentials {
        /// What holds now; or why nothing has changed.
        what: Result<String, String>,
    },
    /// A peer, or somebody who claims to be one, cannot be talked to.
    Refused {
        /// Who it claims to be; none if that is not known.
        node: Option<NodeId>,
        /// Why, for a person.
        why: String,
    },
}

/// How a link was seen to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The peer's host has closed a connection in good order.
    Ended,
    /// A connection was reset or cannot be used any more.
    Reset,
    /// Nothing has come for a while.
    Stalled,
    /// Nothing has come for too long.
    Silent,
    /// What came cannot be right: checksum, length, or content.
    Corrupt,
    /// More waits to be sent than may.
    Overfull,
    /// The peer's certificate was revoked.
    Revoked,
    /// It sent what it may not send, or what cannot be.
    Violation {
        /// The name of the message.
        message: &'static str,
        /// The rule that it broke.
        rule: &'static str,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::Violation { message, rule } => {
                return write!(f, "protocol violation: {message}: {rule}");
            }
            Broken::Ended => "its host closed the connection",
            Broken::Reset => "the connection was reset",
            Broken::Stalled => "nothing was heard of it for a while",
            Broken::Silent => "nothing was heard of it",
            Broken::Corrupt => "what it sent was damaged",
            Broken::Overfull => {
                "it does not take what is sent to it (SendBufferMemory, TotalSendBufferMemory)"
            }
            Broken::Revoked => "its certificate was revoked",
        })
    }
}

impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkEvent::Up { node, sockets, transport, .. } => {
                write!(f, "node {}: connected, {}", node.0, connections(*sockets, transport))
            }
            LinkEvent::NotShared { node, why } => {
                write!(f, "node {}: {}", node.0, no_memory(why))
            }
            LinkEvent::Renewed { node, why, after, .. } => {
                let after = after.as_millis();
                write!(f, "node {}: connected anew after {after} ms, nothing lost: {why}", node.0)
            }
            LinkEvent::Down { node, closed, why, .. } => {
                let end = if *closed { "its process has ended" } else { "it may still live" };
                write!(f, "node {}: connection lost, {why}; {end}", node.0)
            }
            LinkEvent::Refused { node: Some(node), why } => write!(f, "node {}: {why}", node.0),
            LinkEvent::Refused { node: None, why } => f.write_str(why),
            LinkEvent::Credentials { what: Ok(what) } => write!(f, "this node: {what}"),
            LinkEvent::Credentials { what: Err(why) } => {
                write!(f, "this node goes on with the certificate that it has: {why}")
            }
        }
    }
}

/// The connections of a link in words.
pub fn connections(count: u8, transport: &str) -> String {
    match transport {
        address::SHARED_MEMORY => format!("{count} connections by {transport}"),
        _ => format!("{count} {transport} sockets"),
    }
}

/// Why the connections of a link within a host do not go through memory, in words.
pub fn no_memory(why: &str) -> String {
    format!("its connections go by Unix sockets, as shared memory cannot be had: {why}")
}

/// A link that has been made, as a thread gets it: its generation, whose it is, and the sockets
/// that are this thread's.
#[derive(Debug)]
pub(crate) struct NewLink {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) generation: u64,
    pub(crate) protocol: u16,
    /// By index: 0 is the control plane's.
    pub(crate) sockets: Vec<(u8, Connection)>,
}

/// From the keeper to a thread.
#[derive(Debug)]
pub(crate) enum LinkNews {
    /// A link can be used.
    Up(NewLink),
    /// The connections of a link are of no use any more: lets go of them, and says how far its
    /// lanes have come.
    Detach { node: NodeId, generation: u64, round: u64 },
    /// A link goes on over these connections: the number of the lane, the connection, and up to
    /// which position the peer has what was sent.
    Renewed { node: NodeId, generation: u64, sockets: Vec<(u8, Connection, u64)> },
    /// A link is gone: workers are to be told.
    Down { node: NodeId, incarnation: Incarnation, generation: u64, closed: bool },
    /// No link can be made now: nobody listens, or nobody answers.
    Unreachable { node: NodeId, refused: bool },
}

/// From a thread to the keeper.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// Something waits to be sent to a node without a link.
    Wanted(NodeId),
    /// A link does not work any more.
    Broken { node: NodeId, generation: u64, why: Broken },
    /// A thread has let go of its connections of a link. Up to which position each of its lanes has
    /// arrived.
    Detached { node: NodeId, generation: u64, round: u64, received: Vec<(u8, u64)> },
    /// The workers of a thread have been told that a link is gone.
    Told { node: NodeId, generation: u64 },
}

/// The socket on which a worker's messages travel, and the thread of a process with so many workers
/// that has it. Socket 0 is the control plane's, so that its messages wait for no bulk of data.
pub(crate) fn thread_of(socket: u8, workers: usize) -> usize {
    if socket == 0 { 0 } else { (usize::from(socket) - 1) % workers }
}

/// Sockets of a link between processes with so many workers: each worker has one to send on.
pub(crate) fn sockets_between(own: u8, peer: u8) -> u8 {
    1 + own.max(peer)
}
