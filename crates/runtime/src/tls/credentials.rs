//! What a node proves its identity by, and whom it believes: four files.
//!
//! # Owns
//! [`NodeCredentials`]: reading them, reading them again when they have changed, and the settings
//! of TLS that follow from them.
//! # Guarantees
//! 1. What is refused is refused with a reason that names the file.
//! 2. Files that are of no use change nothing while a process runs, but for what is revoked: that
//!    holds as soon as it can be read.
//! # Not here
//! Where the files come from; who looks for changes (`link`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use model::NodeId;

use super::certificate::Certificate;
use super::files;
use super::identity::{NodeIdentity, NodeRole, authority_id};
use super::verifier::{Distrust, Noted, Standing, Trust, Verifier};

/// Where a node's certificate and what belongs to it are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFiles {
    /// The authorities whose certificates are believed, as PEM.
    pub authority: PathBuf,
    /// The node's certificate, with those of intermediate authorities behind it, as PEM.
    pub certificate: PathBuf,
    /// Its private key as PEM (PKCS#8), its owner's alone.
    pub key: PathBuf,
    /// Serial numbers of certificates that are good no more, in hexadecimal digits, one on a line;
    /// `#` begins a comment. May be missing.
    pub revoked: PathBuf,
}

impl NodeFiles {
    /// Those of a node's directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            authority: directory.join("node-ca.pem"),
            certificate: directory.join("node-cert.pem"),
            key: directory.join("node-key.pem"),
            revoked: directory.join("node-revoked.txt"),
        }
    }

    /// Whether the node has a certificate, or was meant to: a part of it is there.
    pub fn exist(&self) -> bool {
        [&self.certificate, &self.key].into_iter().any(|file| file.exists())
    }

    /// What tells files apart that have changed.
    fn stamp(&self) -> Stamp {
        let files = [&self.authority, &self.certificate, &self.key, &self.revoked];
        Stamp(files.map(|file| {
            let found = fs::metadata(file).ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        }))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([Option<(u64, u64, i64, i64)>; 4]);

/// A node's certificate and key, and whom it believes. Clones share them.
#[derive(Clone)]
pub struct NodeCredentials {
    files: Arc<NodeFiles>,
    current: Arc<RwLock<Arc<Current>>>,
    standing: Arc<Standing>,
    /// What the files looked like when they were looked at last, and when a look had them read:
    /// whoever looks hears of every change, also where somebody else has read it before.
    looked: Arc<Mutex<(Stamp, Stamp)>>,
}

impl std::fmt::Debug for NodeCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let identity = self.identity();
        f.debug_struct("NodeCredentials").field("identity", &identity).finish_non_exhaustive()
    }
}

/// What the files say.
struct Current {
    own: Arc<Own>,
    trust: Arc<Trust>,
}

/// What a node shows.
struct Own {
    identity: NodeIdentity,
    says: Certificate,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    certified: Arc<SingleCertAndKey>,
}

impl NodeCredentials {
    /// Reads the files.
    ///
    /// # Errors
    /// When one is missing or cannot be read; the certificate has expired, is not good yet, was
    /// revoked, was not signed by one of the authorities or names no node; the key is that of
    /// another certificate or readable by others.
    pub fn load(files: NodeFiles) -> Result<Self, String> {
        let stamp = files.stamp();
        let (revoked, wrong) = revoked(&files.revoked)?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let standing: Arc<Standing> = Arc::default();
        let current = Current::load(&files, revoked, &standing)?;
        let serial = &current.own.says.serial;
        if current.trust.revoked.contains(serial) {
            return Err(format!(
                "the certificate in {} was revoked ({serial} is in {})",
                files.certificate.display(),
                files.revoked.display()
            ));
        }
        Ok(Self {
            files: Arc::new(files),
            current: Arc::new(RwLock::new(Arc::new(current))),
            standing,
            looked: Arc::new(Mutex::new((stamp.clone(), stamp))),
        })
    }

    /// Reads the files again; whether anything is different. Connections that stand keep what they
    /// have.
    ///
    /// # Errors
    /// As [`NodeCredentials::load`]. Nothing has changed then but what is revoked, as far as that
    /// can be read.
    pub fn reload(&self) -> Result<bool, String> {
        let before = self.current();
        let (revoked, wrong) = revoked(&self.files.revoked)?;
        let next = Current::load(&self.files, revoked.clone(), &self.standing);
        let (next, why) = match next {
            Ok(next) => (next, wrong),
            Err(why) => {
                let trust = Arc::new(before.trust.with_revoked(revoked));
                (Current { own: before.own.clone(), trust }, Some(why))
            }
        };
        let same = next.own.chain == before.own.chain
            && next.trust.revoked == before.trust.revoked
            && next.trust.roots.roots == before.trust.roots.roots
            && next.trust.authorities == before.trust.authorities;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        why.map_or(Ok(!same), Err)
    }

    /// Looks whether files have changed, and reads them again if they have and have stayed as they
    /// are since the last look: they are put into place one after the other. None if there is
    /// nothing to say.
    pub(crate) fn look(&self) -> Option<Result<bool, String>> {
        let stamp = self.files.stamp();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = looked.0 == stamp;
        looked.0 = stamp.clone();
        let changed = looked.1 != stamp;
        if !changed || !settled {
            return None;
        }
        looked.1 = stamp;
        drop(looked);
        Some(self.reload())
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The files.
    pub fn files(&self) -> &NodeFiles {
        &self.files
    }

    /// Who this node is.
    pub fn identity(&self) -> NodeIdentity {
        self.current().own.identity.clone()
    }

    /// The serial number of its certificate, in hexadecimal digits.
    pub fn serial(&self) -> String {
        self.current().own.says.serial.clone()
    }

    /// From when its certificate is good: seconds since 1970 UTC.
    pub fn not_before(&self) -> i64 {
        self.current().own.says.not_before.0
    }

    /// Until when its certificate is good: seconds since 1970 UTC.
    pub fn not_after(&self) -> i64 {
        self.current().own.says.not_after.0
    }

    /// The same, in words.
    pub(crate) fn good_until(&self) -> String {
        self.current().own.says.not_after.to_string()
    }

    /// Whether a certificate was revoked, by its serial number in hexadecimal digits.
    pub fn is_revoked(&self, serial: &str) -> bool {
        self.current().trust.revoked.contains(&plain_serial(serial))
    }

    /// The node's certificate, and what is behind it in the file.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.current().own.chain.clone()
    }

    /// Its private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.current().own.key.clone_key()
    }

    /// The authorities.
    pub fn roots(&self) -> Arc<RootCertStore> {
        self.current().trust.roots.clone()
    }

    /// The settings of a connection that this node begins: whoever is there must be the node that
    /// is `expected`, or any node of the cluster.
    pub fn client_config(&self, expected: Option<(NodeRole, NodeId)>) -> Arc<ClientConfig> {
        self.client_config_noting(expected, Arc::default())
    }

    /// The same; why a certificate is refused is noted.
    pub(crate) fn client_config_noting(
        &self,
        expected: Option<(NodeRole, NodeId)>,
        noted: Arc<Mutex<Option<Noted>>>,
    ) -> Arc<ClientConfig> {
        let current = self.current();
        let trust = current.trust.clone();
        let verifier = Arc::new(Verifier { trust, expected, mandatory: true, noted });
        let mut config = ClientConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider speaks TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(current.own.certified.clone());
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }

    /// The settings of a connection that somebody else begins, who must show a certificate of the
    /// cluster, or may.
    pub fn server_config(&self, mandatory: bool) -> Arc<ServerConfig> {
        self.server_config_noting(mandatory, Arc::default())
    }

    /// The same; why a certificate is refused is noted.
    pub(crate) fn server_config_noting(
        &self,
        mandatory: bool,
        noted: Arc<Mutex<Option<Noted>>>,
    ) -> Arc<ServerConfig> {
        let current = self.current();
        let trust = current.trust.clone();
        let verifier = Arc::new(Verifier { trust, expected: None, mandatory, noted });
        let mut config = ServerConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider speaks TLS 1.3")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(current.own.certified.clone());
        // Nobody goes on with an earlier connection: a certificate is looked at every time.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Arc::new(config)
    }

    /// The certificates of links that stand, by SHA-256: they count as good in time.
    pub(crate) fn set_standing(&self, fingerprints: BTreeSet<[u8; 32]>) {
        self.standing.set(fingerprints);
    }
}

/// The ciphers of links, and of what a process asks of others over TLS.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::OnceLock<Arc<CryptoProvider>> = std::sync::OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(provider::default_provider())).clone()
}

impl Current {
    fn load(
        files: &NodeFiles,
        revoked: BTreeSet<String>,
        standing: &Arc<Standing>,
    ) -> Result<Self, String> {
        let name = files.certificate.display();
        let roots = files::authorities(&files.authority)?;
        let authorities = files::certificates(&files.authority)?;
        let authorities = authorities.iter().filter_map(|der| Certificate::parse(der));
        let authorities: BTreeSet<String> =
            authorities.map(|says| authority_id(&says.public_key)).collect();
        let trust = Trust::new(roots, authorities, revoked, crypto_provider(), standing.clone());
        let trust =
            trust.map_err(|why| format!("authorities of {}: {why}", files.authority.display()))?;
        let (chain, says) = files::chain(&files.certificate)?;
        let key = files::key(&files.key)?;
        let identity = NodeIdentity::of(&says).ok_or_else(|| {
            format!("the certificate in {name} names no node: it has no URI nines://…/ROLE/NODE")
        })?;
        let certified = CertifiedKey::from_der(chain.clone(), key.clone_key(), &crypto_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key in {} is not that of the certificate in {name}", {
                    files.key.display()
                })
            }
            error => format!("the certificate in {name} cannot be used: {error}"),
        })?;
        // It must be of use at both ends of a link.
        let nobody = trust.with_revoked(BTreeSet::new());
        for accepts in [false, true] {
            let checked = nobody.check(&chain[0], &chain[1..], accepts, UnixTime::now());
            checked.map_err(|why| match why {
                Distrust::Authority | Distrust::OtherCluster(_) => format!(
                    "the certificate in {name} was signed by no authority in {}",
                    files.authority.display()
                ),
                why => format!("the certificate in {name}: {why}"),
            })?;
        }
        let certified = Arc::new(SingleCertAndKey::from(certified));
        let own = Arc::new(Own { identity, says, chain, key, certified });
        Ok(Self { own, trust: Arc::new(trust) })
    }
}

/// A serial number as it is compared.
fn plain_serial(text: &str) -> String {
    text.to_ascii_lowercase().trim_start_matches('0').to_owned()
}

/// The serial numbers in a file, which may be missing; and what is wrong with a line of it.
fn revoked(file: &Path) -> Result<(BTreeSet<String>, Option<String>), String> {
    let name = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {name}: {error}")),
    };
    let (mut serials, mut wrong) = (BTreeSet::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let Some(serial) = line.split_whitespace().next() else { continue };
        if serial.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            serials.insert(plain_serial(serial));
        } else {
            wrong = Some(format!("{name}, line {number}: `{serial}` is no serial number"));
        }
    }
    Ok((serials, wrong))
}

#[cfg(test)]
pub(super) mod tests;
