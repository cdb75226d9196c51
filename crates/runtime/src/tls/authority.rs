//! Making certificates: an authority that vouches for servers, and its files.
//!
//! # Owns
//! [`Authority`]: its certificate, its key, and the certificates that it signs. Whoever needs one
//! gets it here, whether the authority is of one node or of a cluster.
//! # Guarantees
//! Keys are written so that only their owner can read them. Processes that share a directory share
//! its authority, whoever comes first.
//! # Not here
//! What certificates are used for (`tls`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustix::fs::{FlockOperation, flock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::Certificate;
use super::identity::{NodeIdentity, NodePublicKey, NodeRole, authority_id};
use super::signing_request::hex;
use crate::clock::since_1970;
use crate::cluster::random;

/// The file of the authority's certificate, which clients are given.
pub(crate) const CERTIFICATE_FILE: &str = "ca.pem";
/// The file of its key, which nobody is given.
const KEY_FILE: &str = "ca-key.pem";
/// How long certificates are good: as long as those that MySQL makes.
const GOOD_FOR: Duration = Duration::from_secs(3_650 * 86_400);
/// They are good since a while ago: clocks differ.
const GOOD_SINCE: Duration = Duration::from_secs(86_400);

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The same as PEM.
    pub certificate_pem: String,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// The same as PEM.
    pub key_pem: String,
}

/// The certificate of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNode {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The same as PEM.
    pub certificate_pem: String,
    /// Its serial number as hexadecimal digits, by which it is revoked.
    pub serial: String,
    /// Until when it is good: seconds since 1970 UTC.
    pub not_after: i64,
}

impl Authority {
    /// A new one.
    pub fn make() -> Result<Self, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let params = Self::params(&key);
        let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
        let pem = certificate.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate: certificate.into(), pem })
    }

    /// What was made before, from its two files.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("its key: {error}"))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes());
        let der = der.map_err(|error| format!("its certificate: {error}"))?;
        let says = Certificate::parse(&der).ok_or("its certificate cannot be read")?;
        // The name follows from the key.
        if says.subject != format!("/CN={}", Self::name(&key)) {
            return Err("its key and its certificate do not belong together".into());
        }
        let params = Self::params(&key);
        let pem = certificate.to_owned();
        Ok(Self { issuer: Issuer::new(params, key), certificate: der, pem })
    }

    /// The authority of a directory; one is made if there is none. Processes that come at the same
    /// time wait for each other.
    pub fn kept_in(directory: &Path) -> Result<Self, String> {
        let fail = |error: io::Error| format!("certificates in {}: {error}", directory.display());
        let lock = directory.join("ca.lock");
        let lock = private_file(&lock).map_err(fail)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| fail(error.into()))?;
        let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
        if key.exists() {
            let key = super::files::read_key(&key)?;
            let text = fs::read_to_string(&certificate).map_err(fail)?;
            return Self::from_pem(&text, &key).map_err(|why| {
                format!(
                    "the authority in {} cannot be used: {why}; without {CERTIFICATE_FILE} and \
                     {KEY_FILE} another one is made, which clients have to be given",
                    directory.display()
                )
            });
        }
        let made = Self::make()?;
        fs::write(&certificate, &made.pem).map_err(fail)?;
        // What is there is whole: the key comes last, by its name.
        let beside = directory.join("ca-key.pem.new");
        let key_pem = made.issuer.key().serialize_pem();
        private_file(&beside)
            .and_then(|mut file| file.write_all(key_pem.as_bytes()))
            .map_err(fail)?;
        fs::rename(&beside, &key).map_err(fail)?;
        Ok(made)
    }

    /// What was made before, from its two files.
    ///
    /// # Errors
    /// When they do not belong together, cannot be read, or others may read the key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, String> {
        let key = super::files::read_key(key)?;
        let text = fs::read_to_string(certificate)
            .map_err(|error| format!("cannot read {}: {error}", certificate.display()))?;
        Self::from_pem(&text, &key).map_err(|why| {
            format!("the authority in {} cannot be used: {why}", certificate.display())
        })
    }

    /// Its key as PEM, for those that sign in its name.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The ids of the authorities whose certificates are in a text in PEM.
    pub fn ids(pem: &str) -> Vec<String> {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
        certificates.filter_map(|certificate| id_of(&certificate)).collect()
    }

    /// A text in PEM without the certificate of an authority.
    pub fn without(pem: &str, id: &str) -> String {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
        let kept = certificates.filter(|certificate| id_of(certificate).as_deref() != Some(id));
        let text = |certificate: CertificateDer<'_>| {
            let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
            pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate.to_vec()), lines)
        };
        kept.map(text).collect()
    }

    /// Its certificate as PEM, for clients.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// What names it in the certificates of nodes: the beginning of the SHA-256 of its public key.
    pub fn id(&self) -> String {
        authority_id(&self.issuer.key().subject_public_key_info())
    }

    /// Signs the certificate of a node, good from a day ago until `lifetime` has passed. `names`
    /// are those of its host, for people; `public_key` is a `SubjectPublicKeyInfo` as
    /// [`NodeKey::public_key_der`] gives it.
    ///
    /// # Errors
    /// When the key is of another kind, or a name cannot be in a certificate.
    pub fn sign_node(
        &self,
        role: NodeRole,
        node: NodeId,
        names: &[String],
        public_key: &[u8],
        lifetime: Duration,
    ) -> Result<SignedNode, String> {
        let key = NodePublicKey::from_der(public_key)?;
        let identity = NodeIdentity { authority: self.id(), role, node };
        let uri = identity.uri().as_str().try_into();
        let uri = uri.map_err(|error: rcgen::Error| error.to_string())?;
        let mut params = validity(lifetime);
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.subject_alt_names.extend(names.iter().filter_map(|name| alternative(name)));
        // It stands at either end of a link.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign_for(&key, params, &identity.to_string())
    }

    /// Signs a certificate that a server shows its clients, for names of hosts and addresses, good
    /// from a day ago until `lifetime` has passed. It names no node.
    ///
    /// # Errors
    /// When the key is of another kind.
    pub fn sign_server(
        &self,
        names: &[String],
        public_key: &[u8],
        lifetime: Duration,
    ) -> Result<SignedNode, String> {
        let key = NodePublicKey::from_der(public_key)?;
        let mut params = validity(lifetime);
        params.subject_alt_names = names.iter().filter_map(|name| alternative(name)).collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let subject = names.first().map_or("nines", String::as_str).to_owned();
        self.sign_for(&key, params, &subject)
    }

    fn sign_for(
        &self,
        key: &NodePublicKey,
        mut params: CertificateParams,
        subject: &str,
    ) -> Result<SignedNode, String> {
        params.serial_number = Some(SerialNumber::from_slice(&serial_number()?));
        let not_after = params.not_after.unix_timestamp();
        let params = leaf(params, subject);
        let certificate = params.signed_by(key, &self.issuer).map_err(|error| error.to_string())?;
        let certificate_pem = certificate.pem();
        let certificate: CertificateDer<'static> = certificate.into();
        let says = Certificate::parse(&certificate);
        let serial = says.ok_or("the certificate that was made cannot be read")?.serial;
        Ok(SignedNode { certificate, certificate_pem, serial, not_after })
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Signs a certificate of a server for names of hosts and addresses.
    pub fn issue_server(&self, names: &[String]) -> Result<Issued, String> {
        let subject = names.first().map_or("nines", String::as_str);
        let mut params = validity(GOOD_FOR);
        params.subject_alt_names = names.iter().filter_map(|name| alternative(name)).collect();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, subject)
    }

    /// Signs a certificate of a client.
    pub fn issue_client(&self, name: &str) -> Result<Issued, String> {
        let mut params = validity(GOOD_FOR);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, name)
    }

    fn issue(&self, params: CertificateParams, subject: &str) -> Result<Issued, String> {
        let params = leaf(params, subject);
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let certificate =
            params.signed_by(&key, &self.issuer).map_err(|error| error.to_string())?;
        let (certificate_pem, key_pem) = (certificate.pem(), key.serialize_pem());
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(Issued { certificate: certificate.into(), certificate_pem, key, key_pem })
    }

    fn params(key: &KeyPair) -> CertificateParams {
        let mut params = validity(GOOD_FOR);
        params.distinguished_name = common_name(&Self::name(key));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    /// No two authorities have one name: clients may trust several.
    fn name(key: &KeyPair) -> String {
        let id = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.der_bytes());
        format!("Nines CA {}", hex(&id.as_ref()[..6]))
    }
}

/// A file that is ours alone to read, emptied.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    File::options().create(true).write(true).truncate(true).mode(0o600).open(path)
}

/// The files of an authority in a directory.
pub(crate) fn authority_file(directory: &Path) -> PathBuf {
    directory.join(CERTIFICATE_FILE)
}

/// The id of the authority that a certificate is of.
fn id_of(certificate: &CertificateDer<'_>) -> Option<String> {
    Certificate::parse(certificate).map(|says| authority_id(&says.public_key))
}

/// A number that no other certificate has. It fills twenty bytes, the most that a certificate may
/// have, and so has one form only.
fn serial_number() -> Result<[u8; 20], String> {
    let mut number = [0; 20];
    random(&mut number).map_err(|error| format!("random numbers: {error}"))?;
    number[0] = number[0] & 0x7F | 0x40;
    Ok(number)
}

/// What certificates have in common that sign no others.
fn leaf(mut params: CertificateParams, subject: &str) -> CertificateParams {
    params.distinguished_name = common_name(subject);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn validity(good_for: Duration) -> CertificateParams {
    let now = since_1970();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + now.saturating_sub(GOOD_SINCE);
    params.not_after = epoch + (now + good_for);
    params
}

pub(super) fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// A name or an address; none for names that certificates cannot have.
fn alternative(name: &str) -> Option<SanType> {
    match name.parse::<IpAddr>() {
        Ok(address) => Some(SanType::IpAddress(address)),
        Err(_) => name.try_into().ok().map(SanType::DnsName),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_read_again_and_signs_for_its_clients() {
        let made = Authority::make().unwrap();
        let (certificate, key) = (made.pem.clone(), made.issuer.key().serialize_pem());
        let again = Authority::from_pem(&certificate, &key).unwrap();
        let names = ["host.example.org".to_owned(), "192.0.2.1".to_owned(), "::1".to_owned()];
        let issued = again.issue_server(&names).unwrap();
        let says = Certificate::parse(&issued.certificate).unwrap();
        let of_authority = Certificate::parse(&made.certificate).unwrap();
        assert_eq!(says.issuer, of_authority.subject);
        assert_eq!(says.subject, "/CN=host.example.org");
        assert!(says.not_before < says.not_after);
        let other = Authority::make().unwrap();
        let other = other.issuer.key().serialize_pem();
        let why = Authority::from_pem(&certificate, &other).unwrap_err();
        assert!(why.contains("do not belong together"), "{why}");
        assert_eq!(format!("{made:?}"), "Authority { .. }");
    }
}
