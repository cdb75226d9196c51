//! Whether the certificate at the other end of a link is to be believed.
//!
//! # Owns
//! [`Trust`], what a node goes by; the checks that `rustls` asks for; why a certificate is refused
//! ([`Distrust`]), and what the refusal of this node's own certificate means.
//! # Guarantees
//! 1. An identity is believed only if an authority of the cluster has signed it, its time has come
//!    and not passed, it is not revoked, and it is the one that was expected, if one was.
//! 2. Time is looked at in handshakes alone. The certificate of a link that stands counts as good
//!    in time: a clock that goes wrong keeps no link from getting new connections.
//! # Not here
//! What an identity may do (`link`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use model::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, Error,
    RootCertStore, SignatureScheme,
};

use super::certificate::{Certificate, Moment};
use super::identity::{NodeIdentity, NodeRole};

/// What a node goes by when it is shown a certificate.
#[derive(Debug)]
pub(super) struct Trust {
    pub(super) roots: Arc<RootCertStore>,
    /// The ids of the authorities.
    pub(super) authorities: BTreeSet<String>,
    /// Serial numbers of certificates that are good no more.
    pub(super) revoked: BTreeSet<String>,
    /// Checks those that connect.
    clients: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    standing: Arc<Standing>,
}

/// Certificates of links that stand, by their SHA-256.
#[derive(Debug, Default)]
pub(super) struct Standing(Mutex<BTreeSet<[u8; 32]>>);

impl Standing {
    pub(super) fn set(&self, fingerprints: BTreeSet<[u8; 32]>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fingerprints;
    }

    fn has(&self, fingerprint: &[u8; 32]) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(fingerprint)
    }
}

/// SHA-256 of a certificate.
pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    digest(&SHA256, certificate).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Why a certificate is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    Unreadable,
    /// No authority that is known here has signed it.
    Authority,
    Expired(Moment),
    NotYetGood(Moment),
    Revoked(String),
    /// It names no node, or several.
    NoIdentity,
    /// It names an authority that is not known here.
    OtherCluster(String),
    /// It is somebody else's.
    Other {
        found: NodeIdentity,
        expected: (NodeRole, NodeId),
    },
    /// It is not made for this.
    Unfit(String),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distrust::Unreadable => f.write_str("its certificate cannot be read"),
            Distrust::Authority => f.write_str(
                "its certificate was signed by no authority of this cluster (node-ca.pem)",
            ),
            Distrust::Expired(at) => write!(f, "its certificate has expired: {at}"),
            Distrust::NotYetGood(from) => {
                write!(f, "its certificate is good from {from} on: one of the two clocks is wrong")
            }
            Distrust::Revoked(serial) => write!(f, "its certificate {serial} was revoked"),
            Distrust::NoIdentity => {
                f.write_str("its certificate names no node (a URI nines://…/ROLE/NODE)")
            }
            Distrust::OtherCluster(authority) => {
                write!(f, "its certificate is of another cluster, that of authority {authority}")
            }
            Distrust::Other { found, expected: (role, node) } => {
                let expected = format!("{} node {}", role.name(), node.0);
                write!(f, "its certificate is that of {found}, and {expected} was expected")
            }
            Distrust::Unfit(why) => write!(f, "its certificate cannot be used: {why}"),
        }
    }
}

impl Distrust {
    /// As TLS tells the other side. The alert that follows from it is one of its own for each kind
    /// that the other side can do something about.
    fn as_error(&self) -> Error {
        Error::InvalidCertificate(match self {
            Distrust::Unreadable | Distrust::NoIdentity => CertificateError::BadEncoding,
            Distrust::Authority | Distrust::OtherCluster(_) => CertificateError::UnknownIssuer,
            Distrust::Expired(_) => CertificateError::Expired,
            Distrust::NotYetGood(_) => CertificateError::NotValidYet,
            Distrust::Revoked(_) => CertificateError::Revoked,
            Distrust::Other { .. } => CertificateError::ApplicationVerificationFailure,
            Distrust::Unfit(_) => CertificateError::InvalidPurpose,
        })
    }

    /// What `webpki` has found.
    fn of_error(error: Error, says: &Certificate) -> Self {
        use CertificateError as Found;
        match error {
            Error::InvalidCertificate(Found::Expired | Found::ExpiredContext { .. }) => {
                Distrust::Expired(says.not_after)
            }
            Error::InvalidCertificate(Found::NotValidYet | Found::NotValidYetContext { .. }) => {
                Distrust::NotYetGood(says.not_before)
            }
            Error::InvalidCertificate(Found::UnknownIssuer | Found::BadSignature) => {
                Distrust::Authority
            }
            error => Distrust::Unfit(error.to_string()),
        }
    }
}

/// What the other side means that has ended a handshake with this alert.
pub(crate) fn alert_in_words(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::CertificateExpired => {
            "by its clock this node's certificate has expired or is not good yet"
        }
        AlertDescription::CertificateRevoked => "this node's certificate was revoked",
        AlertDescription::UnknownCA => {
            "it does not know the authority of this node's certificate: it may belong to another \
             cluster"
        }
        AlertDescription::AccessDenied => {
            "this node's certificate is that of another node, or of another role, than it expects"
        }
        AlertDescription::CertificateRequired => "it demands a certificate of this node",
        AlertDescription::BadCertificate => "this node's certificate names no node",
        AlertDescription::UnsupportedCertificate => {
            "this node's certificate is not made for both ends of links"
        }
        // What a node says that has no certificate itself.
        AlertDescription::ProtocolVersion => {
            "it speaks no TLS: it has no certificate (node-cert.pem), and this node talks to \
             nobody without"
        }
        other => return format!("it has ended the handshake of TLS: {other:?}"),
    };
    words.to_owned()
}

impl Trust {
    pub(super) fn new(
        roots: RootCertStore,
        authorities: BTreeSet<String>,
        revoked: BTreeSet<String>,
        provider: Arc<CryptoProvider>,
        standing: Arc<Standing>,
    ) -> Result<Self, String> {
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let clients = clients.build().map_err(|error| error.to_string())?;
        Ok(Self { roots, authorities, revoked, clients, provider, standing })
    }

    /// The same with other certificates revoked.
    pub(super) fn with_revoked(&self, revoked: BTreeSet<String>) -> Self {
        Self {
            roots: self.roots.clone(),
            authorities: self.authorities.clone(),
            revoked,
            clients: self.clients.clone(),
            provider: self.provider.clone(),
            standing: self.standing.clone(),
        }
    }

    /// Whose certificate it is, if it is to be believed at that time. `accepts`: it is the end that
    /// was connected to.
    pub(super) fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        accepts: bool,
        now: UnixTime,
    ) -> Result<NodeIdentity, Distrust> {
        let says = Certificate::parse(end_entity).ok_or(Distrust::Unreadable)?;
        let now =
            if self.standing.has(&fingerprint(end_entity)) { within(now, &says) } else { now };
        let signed = if accepts {
            let algorithms = self.provider.signature_verification_algorithms.all;
            ParsedCertificate::try_from(end_entity).and_then(|certificate| {
                rustls::client::verify_server_cert_signed_by_trust_anchor(
                    &certificate,
                    &self.roots,
                    intermediates,
                    now,
                    algorithms,
                )
            })
        } else {
            self.clients.verify_client_cert(end_entity, intermediates, now).map(|_| ())
        };
        signed.map_err(|error| Distrust::of_error(error, &says))?;
        let chain = intermediates.iter().filter_map(|certificate| Certificate::parse(certificate));
        let serials = [says.serial.clone()].into_iter().chain(chain.map(|says| says.serial));
        if let Some(serial) = serials.into_iter().find(|serial| self.revoked.contains(serial)) {
            return Err(Distrust::Revoked(serial));
        }
        let identity = NodeIdentity::of(&says).ok_or(Distrust::NoIdentity)?;
        if !self.authorities.contains(&identity.authority) {
            return Err(Distrust::OtherCluster(identity.authority));
        }
        Ok(identity)
    }
}

/// The nearest time at which a certificate is good.
fn within(now: UnixTime, says: &Certificate) -> UnixTime {
    let seconds = |moment: Moment| u64::try_from(moment.0).unwrap_or(0);
    let (from, until) = (seconds(says.not_before), seconds(says.not_after));
    UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs().max(from).min(until)))
}

/// The checks of one connection.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) trust: Arc<Trust>,
    /// Who must be at the other end.
    pub(super) expected: Option<(NodeRole, NodeId)>,
    /// Whether one who connects must show a certificate.
    pub(super) mandatory: bool,
    /// Where it is noted why a certificate was refused.
    pub(super) noted: Arc<Mutex<Option<Noted>>>,
}

/// Why a certificate was refused, and whom it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) distrust: Distrust,
    pub(crate) claimed: Option<NodeIdentity>,
}

impl Verifier {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        accepts: bool,
        now: UnixTime,
    ) -> Result<(), Error> {
        let believed = self.trust.check(end_entity, intermediates, accepts, now);
        let outcome = believed.and_then(|found| match self.expected {
            Some(expected) if expected != (found.role, found.node) => {
                Err(Distrust::Other { found, expected })
            }
            _ => Ok(()),
        });
        outcome.map_err(|distrust| {
            let error = distrust.as_error();
            let claimed = NodeIdentity::of_certificate(end_entity);
            let noted = Some(Noted { distrust, claimed });
            *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = noted;
            error
        })
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.trust.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.trust.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// There is no version before 1.3.
pub(super) fn too_old() -> Error {
    Error::General("TLS 1.2 is not spoken here".to_owned())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Who it is says the identity; where it is says nothing.
        self.check(end_entity, intermediates, true, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A node has one certificate and shows that.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates, false, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
