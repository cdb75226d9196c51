//! Where a peer is, and how it is reached best.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};

use model::NodeId;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use stdx::Duration;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A name, or an address of either family.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl PeerAddress {
    /// Whether the host is given by a name, which may mean another address tomorrow.
    pub(super) fn is_name(&self) -> bool {
        self.host.parse::<IpAddr>().is_err()
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A way to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The name of a Unix socket in the abstract namespace.
    Unix(Vec<u8>),
    Tcp(SocketAddr),
}

impl Way {
    pub(super) fn transport(&self) -> &'static str {
        match self {
            Way::Unix(_) => UNIX,
            Way::Tcp(_) => "TCP",
        }
    }

    /// Begins to connect: the socket, and whether it is connected already. `stall` is
    /// [`set_up_tcp`]'s.
    pub(super) fn connect(&self, stall: Duration) -> io::Result<(OwnedFd, bool)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = match self {
            Way::Unix(_) => AddressFamily::UNIX,
            Way::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Way::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match self {
            Way::Unix(name) => connect(&socket, &SocketAddrUnix::new_abstract_name(name)?),
            Way::Tcp(address) => {
                set_up_tcp(&socket, stall)?;
                connect(&socket, address)
            }
        };
        match connected {
            Ok(()) => Ok((socket, true)),
            Err(Errno::INPROGRESS) => Ok((socket, false)),
            Err(error) => Err(error.into()),
        }
    }
}

/// What every TCP connection of a link is told: messages are written whole, and one on which
/// nothing has been confirmed for so long is given up. The system would wait twice as long with
/// each attempt to send again, and so for seconds after the network is mended; another connection
/// is made at once.
pub(super) fn set_up_tcp(socket: &OwnedFd, stall: Duration) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    let millis = u32::try_from(stall.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(socket, millis)?)
}

/// The ways to a peer, the best first. Asks the system's resolver, which may take its time.
pub(super) fn ways(
    cluster: &str,
    node: NodeId,
    address: &PeerAddress,
    same_host_sockets: bool,
) -> io::Result<Vec<Way>> {
    let found: Vec<SocketAddr> = (address.host.as_str(), address.port).to_socket_addrs()?.collect();
    let mut ways = Vec::new();
    if same_host_sockets && found.iter().any(|address| is_own(address.ip())) {
        ways.push(Way::Unix(socket_name(cluster, node, address.port)));
    }
    ways.extend(found.into_iter().map(Way::Tcp));
    Ok(ways)
}

/// Whether an address is one of this machine: only those can be bound to.
pub fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Listens on the Unix socket that peers of this host use.
pub(super) fn listen_unix(cluster: &str, node: NodeId, port: u16) -> io::Result<UnixListener> {
    let name = UnixAddress::from_abstract_name(socket_name(cluster, node, port))?;
    let listener = UnixListener::bind_addr(&name)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A name in the abstract namespace, which ends with the process and is the network namespace's
/// own: a "host" is what shares it.
fn socket_name(cluster: &str, node: NodeId, port: u16) -> Vec<u8> {
    let mut name = format!("nines/{port}/{}/{cluster}", node.0).into_bytes();
    name.truncate(UNIX_NAME_MAX);
    name
}

/// How a link is reached whose connections are Unix sockets, and that which goes through memory.
pub(super) const UNIX: &str = "Unix";
pub(super) const SHARED_MEMORY: &str = "shared memory";

/// Whether a link is one between processes of one host: nothing comes between them.
pub(super) fn is_within_host(transport: &str) -> bool {
    transport == UNIX || transport == SHARED_MEMORY
}

/// Longest name that the system takes.
const UNIX_NAME_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_of_this_host_are_reached_without_tcp() {
        let address = PeerAddress { host: "127.0.0.1".into(), port: 1186 };
        let found = ways("test", NodeId(3), &address, true).unwrap();
        assert_eq!(found[0], Way::Unix(b"nines/1186/3/test".to_vec()));
        assert_eq!(found[1..], [Way::Tcp("127.0.0.1:1186".parse().unwrap())]);
        assert_eq!(ways("test", NodeId(3), &address, false).unwrap(), found[1..]);
        assert!(!is_own("192.0.2.1".parse().unwrap()));
        let long = "x".repeat(300);
        assert!(socket_name(&long, NodeId(1), 1).len() <= UNIX_NAME_MAX);
    }

    #[test]
    fn addresses_are_written_as_they_are_given() {
        let v6 = PeerAddress { host: "::1".into(), port: 5 };
        assert!(!v6.is_name());
        assert_eq!(v6.to_string(), "[::1]:5");
        assert_eq!(PeerAddress { host: "a.b".into(), port: 5 }.to_string(), "a.b:5");
    }
}
