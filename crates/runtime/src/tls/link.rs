//! TLS of one connection between nodes: a filter of bytes.
//!
//! # Guarantees
//! What is encrypted here is written to the socket as the system takes it; the next piece is not
//! encrypted before (`link::socket`). After an error, what is still to be sent is the alert.
//! # Not here
//! Who may be at the other end (`verifier`).

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use model::NodeId;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, Connection, Error, ServerConnection};

use super::certificate::Certificate;
use super::credentials::NodeCredentials;
use super::identity::{NodeIdentity, NodeRole};
use super::verifier::{Distrust, Noted, alert_in_words, fingerprint};

/// One end of an encrypted connection between nodes.
#[derive(Debug)]
pub(crate) struct LinkTls {
    connection: Connection,
    noted: Arc<Mutex<Option<Noted>>>,
}

/// What the other end has proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) identity: NodeIdentity,
    /// The serial number of its certificate, and its SHA-256.
    pub(crate) serial: String,
    pub(crate) fingerprint: [u8; 32],
}

/// Why two ends do not come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: TroubleKind,
    /// For a person; what is wrong with "it", the other end.
    pub(crate) why: String,
}

/// Kinds of it, for figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// The peer speaks no TLS, and this node does.
    Plain,
    /// The peer speaks TLS, and this node does not.
    Encrypted,
    /// It shows no certificate.
    NoCertificate,
    /// No authority of this cluster has signed its certificate.
    Authority,
    /// Its certificate has expired or is not good yet.
    Time,
    Revoked,
    /// It is somebody else than it says, or than is to be there.
    Identity,
    /// Anything else that is not as it should be in a handshake.
    Handshake,
    /// The peer refuses this node's certificate.
    ByPeer,
}

impl TroubleKind {
    /// All of them, in order.
    pub(crate) const ALL: [TroubleKind; 9] = [
        TroubleKind::Plain,
        TroubleKind::Encrypted,
        TroubleKind::NoCertificate,
        TroubleKind::Authority,
        TroubleKind::Time,
        TroubleKind::Revoked,
        TroubleKind::Identity,
        TroubleKind::Handshake,
        TroubleKind::ByPeer,
    ];

    /// As figures name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TroubleKind::Plain => "plain",
            TroubleKind::Encrypted => "encrypted",
            TroubleKind::NoCertificate => "no_certificate",
            TroubleKind::Authority => "authority",
            TroubleKind::Time => "time",
            TroubleKind::Revoked => "revoked",
            TroubleKind::Identity => "identity",
            TroubleKind::Handshake => "handshake",
            TroubleKind::ByPeer => "by_peer",
        }
    }
}

impl LinkTls {
    /// The end of the node that connects, to the node that must be there.
    pub(crate) fn connecting(
        credentials: &NodeCredentials,
        expected: (NodeRole, NodeId),
    ) -> Result<Self, Trouble> {
        let noted: Arc<Mutex<Option<Noted>>> = Arc::default();
        let config = credentials.client_config_noting(Some(expected), noted.clone());
        // Nobody looks at it: who is there is said by the identity.
        let nowhere = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
        let connection = ClientConnection::new(config, nowhere).map_err(unusable)?;
        Ok(Self::new(connection.into(), noted))
    }

    /// The end of the node that was connected to.
    pub(crate) fn accepting(credentials: &NodeCredentials) -> Result<Self, Trouble> {
        let noted: Arc<Mutex<Option<Noted>>> = Arc::default();
        let config = credentials.server_config_noting(true, noted.clone());
        let connection = ServerConnection::new(config).map_err(unusable)?;
        Ok(Self::new(connection.into(), noted))
    }

    fn new(mut connection: Connection, noted: Arc<Mutex<Option<Noted>>>) -> Self {
        // What waits is limited by whoever writes.
        connection.set_buffer_limit(None);
        Self { connection, noted }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Who is at the other end, once the handshake is over.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let certificate = self.connection.peer_certificates()?.first()?;
        let says = Certificate::parse(certificate)?;
        let identity = NodeIdentity::of(&says)?;
        Some(Shown { identity, serial: says.serial, fingerprint: fingerprint(certificate) })
    }

    /// Takes what has come over the wire and appends what it says to `plain`; whether the peer says
    /// that nothing follows.
    pub(crate) fn decrypt(
        &mut self,
        mut wire: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<bool, Trouble> {
        let mut ended = false;
        while !wire.is_empty() && !ended {
            let before = wire.len();
            let taken = self.connection.read_tls(&mut wire);
            if taken.is_err() || wire.len() == before {
                return Err(self.trouble(Error::General("input without end".into())));
            }
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| self.trouble(error))?;
            ended = state.peer_has_closed();
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            if self.connection.reader().read_exact(&mut plain[start..]).is_err() {
                return Err(self.trouble(Error::General("less plaintext than announced".into())));
            }
        }
        Ok(ended)
    }

    fn trouble(&self, error: Error) -> Trouble {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Noted { distrust, claimed }) = noted {
            let kind = match distrust {
                Distrust::Authority | Distrust::OtherCluster(_) => TroubleKind::Authority,
                Distrust::Expired(_) | Distrust::NotYetGood(_) => TroubleKind::Time,
                Distrust::Revoked(_) => TroubleKind::Revoked,
                Distrust::NoIdentity | Distrust::Other { .. } => TroubleKind::Identity,
                Distrust::Unreadable | Distrust::Unfit(_) => TroubleKind::Handshake,
            };
            let why = match claimed.filter(|_| !matches!(distrust, Distrust::Other { .. })) {
                Some(claimed) => format!("{distrust} (it names {claimed})"),
                None => distrust.to_string(),
            };
            return Trouble { kind, why };
        }
        match error {
            Error::NoCertificatesPresented => {
                let why = "it has shown no certificate".to_owned();
                Trouble { kind: TroubleKind::NoCertificate, why }
            }
            Error::AlertReceived(alert) => {
                let kind = match alert {
                    AlertDescription::ProtocolVersion => TroubleKind::Plain,
                    _ => TroubleKind::ByPeer,
                };
                Trouble { kind, why: alert_in_words(alert) }
            }
            error => {
                let why = format!("the handshake of TLS has failed: {error}");
                Trouble { kind: TroubleKind::Handshake, why }
            }
        }
    }

    /// Adds something to what is to be sent.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) {
        // It takes everything, as there is no limit.
        let _ = self.connection.writer().write_all(plain);
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends as much as the system takes at once; how many bytes that was.
    pub(crate) fn send(&mut self, socket: &OwnedFd) -> Result<usize, Errno> {
        let sent = self.connection.write_tls(&mut Socket(socket));
        sent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PIPE))
    }
}

fn unusable(error: Error) -> Trouble {
    Trouble { kind: TroubleKind::Handshake, why: format!("TLS cannot begin: {error}") }
}

/// Writes to a socket without a signal if nobody reads.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(sendmsg(self.0, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a node without TLS says to a peer that begins with it: an alert (RFC 8446, 6) that the
/// version of the protocol is none that it speaks.
pub(crate) const NO_TLS: [u8; 7] = [ALERT, 3, 3, 0, 2, 2, 70];
/// The first byte of a handshake.
pub(crate) const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
/// Bytes before a record: what it is, a version, how long.
pub(crate) const RECORD_HEAD: usize = 5;
/// Longest record.
pub(crate) const RECORD_MAX: usize = (16 << 10) + 256;
