//! TLS of requests that are no links: `nines ctl`, nodes that join or start, HTTP.
//!
//! # Owns
//! [`Secured`], a connection that a thread of its own reads and writes; [`Asker`], who is at its
//! other end; the proof that a management node is one of an authority that is known by its id.
//! # Guarantees
//! Whoever connects knows whom it has reached: a certificate of this cluster, of the role that is
//! expected, in time and not revoked. A connection has a time after which nothing of it goes on,
//! however slowly the other end sends.
//! # Not here
//! What an asker may ask for (`nines`), links (`link`), what makes a certificate good (`verifier`).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actor::Encryption;
use model::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    ServerConnection, SignatureScheme, StreamOwned,
};

use super::certificate::Certificate;
use super::credentials::NodeCredentials;
use super::identity::{NodeIdentity, NodeRole, authority_id};
use super::suites;
use super::verifier::{Trust, alert_in_words, too_old};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The user of this process, or root, on this host: whoever may read the node's files.
    Local,
    /// Somebody over TLS with a certificate of this cluster: who, and its serial number.
    Certified(NodeIdentity, String),
    /// Somebody over TLS without a certificate.
    Anonymous,
    /// Somebody over TCP without TLS.
    Plain,
    /// Somebody who is not to be answered; why.
    Refused(String),
}

/// Whom a connection is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its role.
    pub role: NodeRole,
    /// Its id; none for any node of the role.
    pub node: Option<NodeId>,
}

/// The end of a connection that somebody else has begun, after the handshake, and who that is.
///
/// # Errors
/// When the handshake fails, or takes longer than until then.
pub fn accept_secured(
    credentials: &NodeCredentials,
    socket: TcpStream,
    until: Instant,
) -> io::Result<(Secured, Asker)> {
    let connection = ServerConnection::new(credentials.server_config(false));
    let mut connection = connection.map_err(io::Error::other)?;
    let mut socket = Timed { socket, until };
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    let asker = match connection.peer_certificates().and_then(|chain| chain.first()) {
        None => Asker::Anonymous,
        Some(shown) => {
            let says = Certificate::parse(shown);
            let named = says.and_then(|says| Some((NodeIdentity::of(&says)?, says.serial)));
            match named {
                Some((identity, serial)) => Asker::Certified(identity, serial),
                None => Asker::Refused("the certificate names no node and no operator".into()),
            }
        }
    };
    Ok((Secured(Ends::Server(Box::new(StreamOwned::new(connection, socket)))), asker))
}

/// Begins a connection with a certificate of this cluster; who is reached must be as expected.
///
/// # Errors
/// When the handshake fails, or takes longer than until then; why, for a person.
pub fn connect_secured(
    credentials: &NodeCredentials,
    expected: Expected,
    socket: TcpStream,
    until: Instant,
) -> io::Result<Secured> {
    let noted = Arc::default();
    let config = credentials.client_config_noting(None, Arc::clone(&noted));
    let connected = handshake(config, socket, until).map_err(|error| {
        match noted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(noted) => {
                io::Error::new(io::ErrorKind::PermissionDenied, noted.distrust.to_string())
            }
            None => error,
        }
    });
    let secured = connected?;
    let found = secured.peer().and_then(NodeIdentity::of_certificate);
    match found {
        Some(found) if expected.is(&found) => Ok(secured),
        found => {
            let found = found.map_or("nobody".to_owned(), |found| found.to_string());
            let (role, node) = (expected.role.name(), expected.node);
            let wanted = node.map_or(String::new(), |node| format!(" {}", node.0));
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("its certificate is that of {found}, not of {role} node{wanted}"),
            ))
        }
    }
}

/// Begins a connection without a certificate to a management node of an authority of which only the
/// id is known.
///
/// # Errors
/// When the handshake fails, or takes longer than until then; why, for a person.
pub fn connect_by_authority(
    authority: &str,
    socket: TcpStream,
    until: Instant,
) -> io::Result<Secured> {
    let noted = Arc::default();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = ByAuthority {
        authority: authority.to_owned(),
        provider: Arc::clone(&provider),
        noted: Arc::clone(&noted),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.enable_sni = false;
    handshake(Arc::new(config), socket, until).map_err(|error| {
        match noted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => io::Error::new(io::ErrorKind::PermissionDenied, why),
            None => error,
        }
    })
}

fn handshake(config: Arc<ClientConfig>, socket: TcpStream, until: Instant) -> io::Result<Secured> {
    // Certificates of nodes name roles and ids; hosts and addresses may change.
    let name = ServerName::try_from("nines").expect("it is a name");
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut socket = Timed { socket, until };
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(in_words)?;
    }
    Ok(Secured(Ends::Client(Box::new(StreamOwned::new(connection, socket)))))
}

/// What the other end means that has refused this one's certificate.
fn in_words(error: io::Error) -> io::Error {
    let alert = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match alert {
        Some(Error::AlertReceived(alert)) if *alert != AlertDescription::CloseNotify => {
            io::Error::new(io::ErrorKind::PermissionDenied, alert_in_words(*alert))
        }
        _ => error,
    }
}

impl Expected {
    fn is(self, found: &NodeIdentity) -> bool {
        found.role == self.role && self.node.is_none_or(|node| node == found.node)
    }
}

/// Believes a management node whose authority has a certain id, and shows its certificate.
#[derive(Debug)]
struct ByAuthority {
    authority: String,
    provider: Arc<CryptoProvider>,
    /// Where it is noted why a certificate was refused.
    noted: Arc<Mutex<Option<String>>>,
}

impl ByAuthority {
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), String> {
        let id_of = |shown: &CertificateDer<'_>| {
            Certificate::parse(shown).map(|says| authority_id(&says.public_key))
        };
        let own = rest.iter().find(|shown| id_of(shown).as_ref() == Some(&self.authority));
        let own = own.ok_or_else(|| {
            format!(
                "its certificate is not of authority {}, which the token names: it belongs to \
                 another cluster, or somebody is in between",
                self.authority
            )
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(own.clone().into_owned()).map_err(|error| error.to_string())?;
        let authorities = [self.authority.clone()].into();
        let provider = Arc::clone(&self.provider);
        let trust =
            Trust::new(roots, authorities, Default::default(), provider, Default::default())?;
        let found = trust.check(leaf, rest, true, now).map_err(|why| why.to_string())?;
        if found.role != NodeRole::Management {
            return Err(format!("its certificate is that of {found}, not of a management node"));
        }
        Ok(())
    }
}

impl ServerCertVerifier for ByAuthority {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(leaf, rest, now).map(|()| ServerCertVerified::assertion()).map_err(|why| {
            *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
            Error::General(why)
        })
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A socket on which nothing goes on after some time.
#[derive(Debug)]
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// An encrypted connection after its handshake.
#[derive(Debug)]
pub struct Secured(Ends);

#[derive(Debug)]
enum Ends {
    Client(Box<StreamOwned<ClientConnection, Timed>>),
    Server(Box<StreamOwned<ServerConnection, Timed>>),
}

impl Secured {
    /// Nothing goes on after this time.
    pub fn set_deadline(&mut self, until: Instant) {
        self.timed().until = until;
    }

    /// Says that nothing follows, so that the other end knows the answer to be whole.
    ///
    /// # Errors
    /// When the other end does not take it.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Ends::Client(stream) => stream.conn.send_close_notify(),
            Ends::Server(stream) => stream.conn.send_close_notify(),
        }
        self.flush()?;
        self.timed().socket.shutdown(Shutdown::Write)
    }

    /// What both ends have agreed on. A certificate that the other end has shown is one of a node
    /// or an operator, and is not told: no account of SQL is of one.
    pub fn encryption(&self) -> Option<Encryption> {
        let (version, suite) = match &self.0 {
            Ends::Client(stream) => {
                (stream.conn.protocol_version(), stream.conn.negotiated_cipher_suite())
            }
            Ends::Server(stream) => {
                (stream.conn.protocol_version(), stream.conn.negotiated_cipher_suite())
            }
        };
        Some(Encryption {
            protocol: suites::version_name(version?),
            cipher: suites::suite_name(suite?.suite()),
            is_resumed: false,
            fingerprint: [0; 32],
            peer: None,
        })
    }

    fn timed(&mut self) -> &mut Timed {
        match &mut self.0 {
            Ends::Client(stream) => &mut stream.sock,
            Ends::Server(stream) => &mut stream.sock,
        }
    }

    /// The certificate that the other end has shown.
    fn peer(&self) -> Option<&[u8]> {
        let shown = match &self.0 {
            Ends::Client(stream) => stream.conn.peer_certificates(),
            Ends::Server(stream) => stream.conn.peer_certificates(),
        };
        shown.and_then(|chain| chain.first()).map(|shown| &shown[..])
    }
}

impl Read for Secured {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Ends::Client(stream) => stream.read(buffer).map_err(in_words),
            Ends::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Ends::Client(stream) => stream.write(bytes).map_err(in_words),
            Ends::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Ends::Client(stream) => stream.flush().map_err(in_words),
            Ends::Server(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::tls::Authority;
    use crate::tls::tests::{Directory, put};

    /// A node with a certificate of an authority.
    fn node(authority: &Authority, role: NodeRole, id: u16) -> (NodeCredentials, Directory) {
        let place = Directory::new(&format!("service-{}-{id}", authority.id()));
        let files = put(&place, authority, role, id);
        // Whoever knows the authority by its id alone is shown it.
        let leaf = fs::read_to_string(&files.certificate).unwrap();
        place.file("node-cert.pem", &(leaf + authority.certificate_pem()));
        (NodeCredentials::load(files).unwrap(), place)
    }

    /// What somebody who connects finds, and who the server says that is.
    fn meet(
        server: &NodeCredentials,
        connect: impl FnOnce(TcpStream, Instant) -> io::Result<Secured>,
    ) -> (io::Result<String>, Option<Asker>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.clone();
        let until = Instant::now() + Duration::from_secs(20);
        let serving = thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let (mut stream, asker) = accept_secured(&server, socket, until).ok()?;
            let mut asked = [0; 5];
            stream.read_exact(&mut asked).ok()?;
            stream.write_all(&asked).ok()?;
            stream.finish().ok()?;
            Some(asker)
        });
        let found = connect(TcpStream::connect(address).unwrap(), until).and_then(|mut stream| {
            stream.write_all(b"hello")?;
            stream.flush()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        (found, serving.join().unwrap())
    }

    #[test]
    fn both_ends_know_each_other() {
        let authority = Authority::make().unwrap();
        let (server, _place) = node(&authority, NodeRole::Management, 49);
        let (data, _other) = node(&authority, NodeRole::Data, 3);
        let wanted = |role, node: Option<u16>| Expected { role, node: node.map(NodeId) };
        let any = wanted(NodeRole::Management, None);
        let as_data = |expected| meet(&server, |s, t| connect_secured(&data, expected, s, t));
        let (answer, asker) = as_data(any);
        assert_eq!(answer.unwrap(), "hello");
        assert_eq!(asker, Some(Asker::Certified(data.identity(), data.serial())));
        assert_eq!(as_data(wanted(NodeRole::Management, Some(49))).0.unwrap(), "hello");
        for other in [wanted(NodeRole::Management, Some(50)), wanted(NodeRole::Data, None)] {
            let (answer, asker) = as_data(other);
            let why = answer.unwrap_err();
            assert_eq!((why.kind(), asker), (io::ErrorKind::PermissionDenied, None), "{why}");
            assert!(why.to_string().contains("that of management node 49"), "{why}");
        }
        // One that has been revoked, and one of another cluster.
        let file = &server.files().revoked;
        fs::write(file, format!("{}\n", data.serial())).unwrap();
        server.reload().unwrap();
        let (answer, asker) = as_data(any);
        let why = answer.unwrap_err();
        assert!(asker.is_none() && why.to_string().contains("was revoked"), "{why}");
        let (stranger, _third) = node(&Authority::make().unwrap(), NodeRole::Management, 49);
        let (answer, asker) = meet(&server, |s, t| connect_secured(&stranger, any, s, t));
        let why = answer.unwrap_err();
        assert!(asker.is_none() && why.kind() == io::ErrorKind::PermissionDenied, "{why}");
    }

    #[test]
    fn a_management_node_is_known_by_the_id_of_its_authority() {
        let authority = Authority::make().unwrap();
        let (server, _place) = node(&authority, NodeRole::Management, 49);
        let (answer, asker) = meet(&server, |s, t| connect_by_authority(&authority.id(), s, t));
        assert_eq!((answer.unwrap(), asker), ("hello".to_owned(), Some(Asker::Anonymous)));
        let other = Authority::make().unwrap();
        let (answer, asker) = meet(&server, |s, t| connect_by_authority(&other.id(), s, t));
        let why = answer.unwrap_err();
        assert!(asker.is_none() && why.to_string().contains("somebody is in between"), "{why}");
        // A data node of the cluster is no management node.
        let (data, _other) = node(&authority, NodeRole::Data, 3);
        let (answer, _) = meet(&data, |s, t| connect_by_authority(&authority.id(), s, t));
        let why = answer.unwrap_err();
        assert!(why.to_string().contains("not of a management node"), "{why}");
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let authority = Authority::make().unwrap();
        let (server, _place) = node(&authority, NodeRole::Management, 49);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        assert!(accept_secured(&server, socket, until).is_err());
        drop(silent);
    }
}
