//! Encryption of client connections and of links: certificates from files or made here, and TLS as
//! a filter of bytes.
//!
//! # Owns
//! [`ServerTls`], which certificate and which ciphers new connections of clients get, and what it
//! says of itself; the filter of one of them. For links: `credentials`, what a node shows and whom
//! it believes; `identity`, who it is; `verifier`, the checks; `link`, the filter.
//! # Guarantees
//! `rustls` sees bytes only; sockets stay with the gateway and the links. A change of certificates
//! concerns connections that come later.
//! # Failure
//! A certificate that cannot be used is refused with a reason, and the one before stays.

mod authority;
mod certificate;
mod credentials;
mod files;
mod identity;
mod link;
mod service;
mod signing_request;
mod source;
mod suites;
mod verifier;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use actor::{Encryption, PeerCertificate};
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};

pub(crate) use authority::private_file;
pub use authority::{Authority, Issued, SignedNode};
use certificate::Certificate;
pub use credentials::{NodeCredentials, NodeFiles, crypto_provider};
pub(crate) use files::read_key;
pub use identity::{NodeIdentity, NodeKey, NodeRole};
pub(crate) use link::{
    HANDSHAKE, LinkTls, NO_TLS, RECORD_HEAD, RECORD_MAX, Shown, Trouble, TroubleKind,
};
pub use service::{
    Asker, Expected, Secured, accept_secured, connect_by_authority, connect_secured,
};
pub use signing_request::{SigningRequest, hex, sha256_hex, signing_request, unhex};
pub use source::connect_to_source;
use verifier::fingerprint;

/// What encryption is asked for: MySQL's variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// `ssl_cert`: certificates as PEM, the server's first. None to have one made.
    pub certificate: Option<PathBuf>,
    /// `ssl_key`: its private key.
    pub key: Option<PathBuf>,
    /// `ssl_ca`: the authorities whose certificates clients may show.
    pub authority: Option<PathBuf>,
    /// `tls_version`: `TLSv1.2,TLSv1.3`; empty to encrypt nothing.
    pub versions: String,
    /// `ssl_cipher`: suites of TLS 1.2, separated by colons; empty for all.
    pub ciphers: String,
    /// `tls_ciphersuites`: suites of TLS 1.3; none for all.
    pub suites: Option<String>,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificate: None,
            key: None,
            authority: None,
            versions: "TLSv1.2,TLSv1.3".to_owned(),
            ciphers: String::new(),
            suites: None,
        }
    }
}

/// Where certificates are made when none is given.
#[derive(Clone, Debug)]
pub struct TlsMaker {
    /// Where the authority that signs them has its files.
    pub directory: PathBuf,
    /// What the server is called: names of hosts, and addresses; the first is its subject.
    pub names: Vec<String>,
}

/// What the server says of its encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// Connections can be encrypted.
    pub is_offered: bool,
    /// The settings in force.
    pub settings: TlsSettings,
    /// The authority's certificate, which clients can check the server's by; if it is known.
    pub authority: Option<PathBuf>,
    /// All suites, separated by colons.
    pub cipher_list: String,
    /// From when to when the certificate is good: seconds since 1970 UTC.
    pub validity: (i64, i64),
}

/// Which encryption new connections get; shared by all threads.
#[derive(Clone, Debug)]
pub struct ServerTls {
    maker: Option<TlsMaker>,
    current: Arc<RwLock<Arc<Current>>>,
}

#[derive(Debug)]
struct Current {
    /// None if nothing is encrypted.
    config: Option<Arc<ServerConfig>>,
    /// SHA-256 of the certificate.
    fingerprint: [u8; 32],
    facts: TlsFacts,
}

impl ServerTls {
    /// Reads or makes what is needed, or says why it is of no use.
    pub fn new(settings: TlsSettings, maker: Option<TlsMaker>) -> Result<Self, String> {
        let current = Arc::new(Current::new(settings, maker.as_ref())?);
        Ok(Self { maker, current: Arc::new(RwLock::new(current)) })
    }

    /// Reads or makes all anew for connections to come. After an error nothing has changed.
    pub fn reload(&self, settings: TlsSettings) -> Result<(), String> {
        let next = Arc::new(Current::new(settings, self.maker.as_ref())?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// What it says of itself.
    pub fn facts(&self) -> TlsFacts {
        self.current().facts.clone()
    }

    /// Whether connections can be encrypted.
    pub fn is_offered(&self) -> bool {
        self.current().config.is_some()
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server's end of a new encrypted connection; none if nothing is encrypted.
    pub(crate) fn begin(&self) -> Option<TlsFilter> {
        let current = self.current();
        let mut connection = ServerConnection::new(current.config.clone()?).ok()?;
        // What waits is limited by whoever writes; here it only passes through.
        connection.set_buffer_limit(None);
        Some(TlsFilter { connection, announced: false, fingerprint: current.fingerprint })
    }
}

/// A server's certificate with what belongs to it.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    says: Certificate,
    /// What clients' certificates are checked by.
    roots: Option<RootCertStore>,
    /// Where clients find the authority.
    authority: Option<PathBuf>,
}

impl Current {
    fn new(settings: TlsSettings, maker: Option<&TlsMaker>) -> Result<Self, String> {
        let versions = suites::versions(&settings.versions)?;
        if versions.is_empty() {
            let facts = TlsFacts { settings, ..TlsFacts::default() };
            return Ok(Self { config: None, fingerprint: [0; 32], facts });
        }
        let mut provider = provider::default_provider();
        suites::choose(&mut provider, &settings.ciphers, settings.suites.as_deref())?;
        let names = provider.cipher_suites.iter().map(|suite| suites::suite_name(suite.suite()));
        let cipher_list = names.collect::<Vec<_>>().join(":");
        let provider = Arc::new(provider);
        let Identity { chain, key, says, roots, authority } = Identity::new(&settings, maker)?;
        let fingerprint = fingerprint(&chain[0]);
        let unfit = |error: rustls::Error| match error {
            rustls::Error::InconsistentKeys(_) => {
                "the key is not that of the certificate".to_owned()
            }
            error => format!("certificate, key, versions and ciphers do not fit: {error}"),
        };
        let verifier: Arc<dyn ClientCertVerifier> = match roots {
            // Whether a client needs a certificate is said by its account.
            Some(roots) => {
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| format!("authorities of clients: {error}"))?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(unfit)?;
        // A client goes on with one earlier connection at most.
        config.send_tls13_tickets = 1;
        let validity = (says.not_before.0, says.not_after.0);
        let facts = TlsFacts { is_offered: true, settings, authority, cipher_list, validity };
        Ok(Self { config: Some(Arc::new(config)), fingerprint, facts })
    }
}

impl Identity {
    fn new(settings: &TlsSettings, maker: Option<&TlsMaker>) -> Result<Self, String> {
        let given = settings.authority.as_deref();
        match (&settings.certificate, &settings.key, maker) {
            (Some(certificate), Some(key), _) => {
                let (chain, says) = files::chain(certificate)?;
                let roots = given.map(files::authorities).transpose()?;
                let authority = settings.authority.clone();
                Ok(Self { chain, key: files::key(key)?, says, roots, authority })
            }
            (None, None, Some(maker)) => {
                let authority = Authority::kept_in(&maker.directory)?;
                let issued = authority.issue_server(&maker.names)?;
                let says = Certificate::parse(&issued.certificate);
                let says = says.ok_or("the certificate that was made cannot be read")?;
                let mut own = RootCertStore::empty();
                let add = own.add(authority.certificate().clone());
                add.map_err(|error| format!("the authority that was made: {error}"))?;
                Ok(Self {
                    // With its authority, for clients that know only that one's fingerprint.
                    chain: vec![issued.certificate, authority.certificate().clone()],
                    key: issued.key,
                    says,
                    roots: Some(given.map_or(Ok(own), files::authorities)?),
                    authority: Some(authority::authority_file(&maker.directory)),
                })
            }
            (Some(_), None, _) => Err("a certificate needs its key: ssl_key is not set".into()),
            (None, Some(_), _) => Err("a key needs its certificate: ssl_cert is not set".into()),
            (None, None, None) => Err("there is no certificate".into()),
        }
    }
}

/// Between the bytes on the wire and those of the protocol.
#[derive(Debug)]
pub(crate) struct TlsFilter {
    connection: ServerConnection,
    /// The handshake is over, and has been told of.
    announced: bool,
    fingerprint: [u8; 32],
}

/// What has come out of bytes from the wire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decrypted {
    /// Set once: what both have agreed on.
    pub(crate) secured: Option<Box<Encryption>>,
    /// The peer will send no more.
    pub(crate) ended: bool,
}

impl TlsFilter {
    /// Whether client and server have not agreed yet, which takes long computations.
    pub(crate) fn is_handshaking(&self) -> bool {
        !self.announced
    }

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
            decrypted.secured = Some(Box::new(self.encryption()));
        }
        Ok(decrypted)
    }

    /// What both have agreed on.
    fn encryption(&self) -> Encryption {
        let connection = &self.connection;
        let suite = connection.negotiated_cipher_suite();
        let shown = connection.peer_certificates().and_then(|chain| chain.first());
        let peer = shown.and_then(|certificate| Certificate::parse(certificate));
        Encryption {
            protocol: connection.protocol_version().map_or("", suites::version_name),
            cipher: suite.map_or("", |suite| suites::suite_name(suite.suite())),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            fingerprint: self.fingerprint,
            peer: peer.map(|says| PeerCertificate { subject: says.subject, issuer: says.issuer }),
        }
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

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::credentials::tests::put;

    use std::fs;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use super::*;

    /// A directory that goes with its test.
    pub(crate) struct Directory(PathBuf);

    impl Directory {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nines-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }

        /// A file that only its owner may read.
        pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            let _ = fs::remove_file(&path);
            let mut options = fs::File::options();
            let file = options.create_new(true).write(true).mode(0o600).open(&path);
            file.unwrap().write_all(text.as_bytes()).unwrap();
            path
        }

        fn maker(&self) -> TlsMaker {
            TlsMaker { directory: self.0.clone(), names: vec!["localhost".to_owned()] }
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Encryption with a certificate that was made.
    pub(crate) fn made() -> ServerTls {
        let directory = Directory::new("tls-made");
        ServerTls::new(TlsSettings::default(), Some(directory.maker())).unwrap()
    }

    fn settings(certificate: &Path, key: &Path) -> TlsSettings {
        let (certificate, key) = (Some(certificate.to_path_buf()), Some(key.to_path_buf()));
        TlsSettings { certificate, key, ..TlsSettings::default() }
    }

    /// A certificate of itself, with its key, good between two years.
    fn certificate_of(from: i32, until: i32) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn files_that_are_of_no_use() {
        let directory = Directory::new("tls-files");
        let (certificate, key) = certificate_of(2020, 2120);
        let (old, old_key) = certificate_of(2000, 2001);
        let (future, future_key) = certificate_of(2110, 2111);
        let file = |name: &str, text: &str| directory.file(name, text);
        let (certificate, key) = (file("certificate.pem", &certificate), file("key.pem", &key));
        let nonsense = file("nonsense.pem", "nonsense");
        let nothing = directory.0.join("none");
        let why = |certificate: &Path, key: &Path| {
            ServerTls::new(settings(certificate, key), None).unwrap_err()
        };
        let (old, old_key) = (file("old.pem", &old), file("old-key.pem", &old_key));
        let (future, future_key) = (file("new.pem", &future), file("new-key.pem", &future_key));
        for (found, expected) in [
            (why(&nothing, &key), "no certificate in "),
            (why(&nonsense, &key), "nonsense.pem has no certificate in it"),
            (why(&certificate, &nothing), "cannot read the key "),
            (why(&certificate, &nonsense), "no private key in "),
            (why(&certificate, &old_key), "the key is not that of the certificate"),
            (why(&old, &old_key), "has expired: 2001-01-01 00:00:00 UTC"),
            (why(&future, &future_key), "is good from 2110-01-01 00:00:00 UTC on; now it is 2"),
        ] {
            assert!(found.contains(expected), "{found}");
        }
        assert!(ServerTls::new(settings(&certificate, &key), None).is_ok());
        // Others may read the key, or write it.
        for mode in [0o604, 0o602, 0o660] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            let found = why(&certificate, &key);
            assert!(found.contains(&format!("(mode {mode:04o}): chmod 600 ")), "{found}");
        }
        let half = TlsSettings { key: None, ..settings(&certificate, &key) };
        let found = ServerTls::new(half, None).unwrap_err();
        assert!(found.contains("ssl_key is not set"), "{found}");
    }

    #[test]
    fn a_reload_that_fails_changes_nothing() {
        let directory = Directory::new("tls-reload");
        let tls = ServerTls::new(TlsSettings::default(), Some(directory.maker())).unwrap();
        let before = tls.facts();
        assert!(before.is_offered && before.cipher_list.starts_with("TLS_AES_256_GCM_SHA384:"));
        assert_eq!(before.authority, Some(directory.0.join("ca.pem")));
        let fingerprint = tls.current().fingerprint;
        let wrong = TlsSettings { versions: "SSLv3".to_owned(), ..TlsSettings::default() };
        assert!(tls.reload(wrong).unwrap_err().contains("SSLv3"));
        assert_eq!((tls.facts(), tls.current().fingerprint), (before, fingerprint));
        // Another certificate of the same authority.
        let authority = fs::read_to_string(directory.0.join("ca.pem")).unwrap();
        tls.reload(TlsSettings::default()).unwrap();
        assert_ne!(tls.current().fingerprint, fingerprint);
        assert_eq!(fs::read_to_string(directory.0.join("ca.pem")).unwrap(), authority);
        // Nothing is encrypted.
        tls.reload(TlsSettings { versions: String::new(), ..TlsSettings::default() }).unwrap();
        assert!(!tls.is_offered() && tls.begin().is_none() && !tls.facts().is_offered);
        let mode = fs::metadata(directory.0.join("ca-key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
