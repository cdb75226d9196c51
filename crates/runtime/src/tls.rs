//! Encryption of client connections: certificates from files, and TLS as a filter of bytes.
//!
//! # Guarantees
//! `rustls` sees bytes only; sockets stay with the gateway.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ProtocolVersion, ServerConfig, ServerConnection};

/// What is needed to encrypt client connections.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
}

/// Why a certificate and its key are of no use.
#[derive(Debug)]
pub enum TlsIdentityError {
    /// The file of certificates cannot be read, or holds none.
    Certificate(String),
    /// The file of the key cannot be read, or holds none.
    Key(String),
    /// They do not belong together, or are of a kind that is not supported.
    Pair(String),
}

impl fmt::Display for TlsIdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsIdentityError::Certificate(why) => write!(f, "no certificate: {why}"),
            TlsIdentityError::Key(why) => write!(f, "no private key: {why}"),
            TlsIdentityError::Pair(why) => write!(f, "certificate and key do not fit: {why}"),
        }
    }
}

impl std::error::Error for TlsIdentityError {}

impl TlsIdentity {
    /// Reads a chain of certificates, the server's first, and its private key, both as PEM.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self, TlsIdentityError> {
        let no_certificate = |why: String| TlsIdentityError::Certificate(why);
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| no_certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(no_certificate("the file has no certificate in it".into()));
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsIdentityError::Key(error.to_string()))?;
        let unfit = |error: rustls::Error| TlsIdentityError::Pair(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unfit)?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The server's end of a new encrypted connection.
    pub(crate) fn begin(&self) -> Result<TlsFilter, rustls::Error> {
        let mut connection = ServerConnection::new(self.config.clone())?;
        // What waits is limited by whoever writes; here it only passes through.
        connection.set_buffer_limit(None);
        Ok(TlsFilter { connection, announced: false })
    }
}

/// Between the bytes on the wire and those of the protocol.
#[derive(Debug)]
pub(crate) struct TlsFilter {
    connection: ServerConnection,
    /// The handshake is over, and has been told of.
    announced: bool,
}

/// What has come out of bytes from the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decrypted {
    /// Set once: the protocol version and the cipher suite that were agreed on.
    pub(crate) secured: Option<(&'static str, &'static str)>,
    /// The peer will send no more.
    pub(crate) ended: bool,
}

impl TlsFilter {
    /// Takes bytes from the wire and appends what they say to `plain`. After an error, what
    /// [`TlsFilter::encrypt`] yields is the alert to send before closing.
    pub(crate) fn decrypt(
        &mut self,
        mut wire: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Decrypted, rustls::Error> {
        let mut decrypted = Decrypted::default();
        while !wire.is_empty() && !decrypted.ended {
            let before = wire.len();
            if self.connection.read_tls(&mut wire).is_err() || wire.len() == before {
                return Err(rustls::Error::General("input without end".into()));
            }
            let state = self.connection.process_new_packets()?;
            decrypted.ended = state.peer_has_closed();
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            if self.connection.reader().read_exact(&mut plain[start..]).is_err() {
                return Err(rustls::Error::General("less plaintext than announced".into()));
            }
        }
        if !self.announced && !self.connection.is_handshaking() {
            self.announced = true;
            let version = self.connection.protocol_version().map_or("", version_name);
            let suite = self.connection.negotiated_cipher_suite();
            decrypted.secured = Some((version, suite.map_or("", |s| suite_name(s.suite()))));
        }
        Ok(decrypted)
    }

    /// Appends to `wire` what is to be sent for `plain`, and what TLS itself has to say.
    pub(crate) fn encrypt(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        self.connection.writer().write_all(plain)?;
        while self.connection.wants_write() {
            self.connection.write_tls(wire)?;
        }
        Ok(())
    }

    /// Says to the peer that nothing follows; the next [`TlsFilter::encrypt`] yields it.
    pub(crate) fn end(&mut self) {
        self.connection.send_close_notify();
    }
}

/// As MySQL names it in `Ssl_version`.
fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "",
    }
}

/// As OpenSSL, and so MySQL in `Ssl_cipher`, names it.
fn suite_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}
