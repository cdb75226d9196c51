//! Who a node is, as its certificate says it, and the key that proves it.
//!
//! # Owns
//! The URI `nines://AUTHORITY/ROLE/NODE` among a certificate's names: the authority that signed it,
//! which stands for the cluster, the role, and the node id.
//! # Guarantees
//! An identity has one form only: what differs from it in any byte is none.
//! # Not here
//! Whether it is true (`verifier`).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use model::NodeId;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::certificate::Certificate;
use super::signing_request::hex;
use crate::cluster::Role;

/// What a certificate allows its owner to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRole {
    /// A data node.
    Data,
    /// A management node.
    Management,
    /// An SQL node, or another program that uses the cluster.
    Sql,
    /// An operator with `nines ctl`; its node id is 0.
    Ctl,
}

impl NodeRole {
    /// All of them.
    pub const ALL: [NodeRole; 4] =
        [NodeRole::Data, NodeRole::Management, NodeRole::Sql, NodeRole::Ctl];

    /// As certificates and commands name it.
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Data => "data",
            NodeRole::Management => "management",
            NodeRole::Sql => "sql",
            NodeRole::Ctl => "ctl",
        }
    }

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl From<Role> for NodeRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Data => NodeRole::Data,
            Role::Management => NodeRole::Management,
            Role::Client => NodeRole::Sql,
        }
    }
}

/// Who a certificate says that its owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The authority's id, which stands for the cluster: 32 hexadecimal digits.
    pub authority: String,
    /// What it may be.
    pub role: NodeRole,
    /// Its node id.
    pub node: NodeId,
}

impl NodeIdentity {
    /// As it is in a certificate.
    pub fn uri(&self) -> String {
        format!("{SCHEME}{}/{}/{}", self.authority, self.role.name(), self.node.0)
    }

    fn from_uri(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let (authority, role, node) = (parts.next()?, parts.next()?, parts.next()?);
        let (role, node) = (NodeRole::parse(role)?, NodeId(node.parse().ok()?));
        let identity = Self { authority: authority.to_owned(), role, node };
        // Zeros before a number, a sign, more parts: all that is another text.
        (identity.uri() == uri).then_some(identity)
    }

    /// Who the certificate is of; none if it names nobody, or several.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        Self::of(&Certificate::parse(der)?)
    }

    /// Who the first certificate of a text in PEM is of; none if there is none, or it names nobody.
    pub fn of_pem(text: &str) -> Option<Self> {
        let first = CertificateDer::pem_slice_iter(text.as_bytes()).next()?.ok()?;
        Self::of_certificate(&first)
    }

    pub(super) fn of(certificate: &Certificate) -> Option<Self> {
        let mut ours = certificate.uris.iter().filter(|uri| uri.starts_with(SCHEME));
        match (ours.next(), ours.next()) {
            (Some(uri), None) => Self::from_uri(uri),
            _ => None,
        }
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            NodeRole::Ctl => f.write_str("an operator"),
            role => write!(f, "{} node {}", role.name(), self.node.0),
        }
    }
}

/// What names an authority, from its public key (`SubjectPublicKeyInfo`).
pub(super) fn authority_id(public_key: &[u8]) -> String {
    let hash = digest(&SHA256, public_key);
    hex(&hash.as_ref()[..16])
}

/// The private key of a node, which stays where it was made.
pub struct NodeKey(KeyPair);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").finish_non_exhaustive()
    }
}

impl NodeKey {
    /// A new one: ECDSA over P-256.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self, String> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
        pair.map(Self).map_err(|error| error.to_string())
    }

    /// The public key as `SubjectPublicKeyInfo`, for the authority.
    pub fn public_key_der(&self) -> Vec<u8> {
        self.0.subject_public_key_info()
    }

    /// The private key as PEM (PKCS#8).
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}

/// A public key that somebody else has sent.
pub(super) struct NodePublicKey(Vec<u8>);

impl NodePublicKey {
    pub(super) fn from_der(der: &[u8]) -> Result<Self, String> {
        let point = der.strip_prefix(&P256_HEAD).filter(|point| point.len() == P256_POINT);
        let point =
            point.filter(|point| ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, *point).is_ok());
        let key = point.map(|point| Self(point.to_vec()));
        key.ok_or_else(|| "the public key is none of ECDSA over P-256".to_owned())
    }
}

impl PublicKeyData for NodePublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

const SCHEME: &str = "nines://";
/// What is before the point in a key of P-256: RFC 5480.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A,
    0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of a point that is not compressed.
const P256_POINT: usize = 65;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tls::Authority;

    #[test]
    fn identities_have_one_form() {
        let authority = "0123456789abcdef0123456789abcdef".to_owned();
        let identity = NodeIdentity { authority, role: NodeRole::Data, node: NodeId(3) };
        let uri = "nines://0123456789abcdef0123456789abcdef/data/3";
        assert_eq!(identity.uri(), uri);
        assert_eq!(NodeIdentity::from_uri(uri), Some(identity));
        for wrong in ["/data/03", "/data/+3", "/data/3/", "/Data/3", "/data/65536", "/api/3", "/3"]
        {
            let uri = format!("nines://0123456789abcdef0123456789abcdef{wrong}");
            assert_eq!(NodeIdentity::from_uri(&uri), None, "{uri}");
        }
    }

    #[test]
    fn an_authority_signs_for_keys_of_others() {
        let authority = Authority::make().unwrap();
        let key = NodeKey::generate().unwrap();
        let names = ["db1".to_owned(), "192.0.2.1".to_owned()];
        let lifetime = Duration::from_secs(100);
        let public = key.public_key_der();
        let signed = authority.sign_node(NodeRole::Sql, NodeId(101), &names, &public, lifetime);
        let signed = signed.unwrap();
        let says = Certificate::parse(&signed.certificate).unwrap();
        assert_eq!(says.public_key, public);
        assert_eq!((says.serial.len(), &says.serial), (40, &signed.serial));
        assert_eq!(says.not_after.0, signed.not_after);
        let identity = NodeIdentity::of_certificate(&signed.certificate).unwrap();
        assert_eq!((identity.role, identity.node), (NodeRole::Sql, NodeId(101)));
        let of_authority = Certificate::parse(authority.certificate()).unwrap();
        assert_eq!(identity.authority, authority_id(&of_authority.public_key));
        assert_eq!(identity.authority, authority.id());
        let again = authority.sign_node(NodeRole::Sql, NodeId(101), &names, &public, lifetime);
        assert_ne!(again.unwrap().serial, signed.serial, "each certificate has its number");
        // Keys that are none.
        for end in 0..public.len() {
            let short = &public[..end];
            assert!(
                authority.sign_node(NodeRole::Sql, NodeId(1), &[], short, lifetime).is_err(),
                "{end}"
            );
        }
        let mut off = public.clone();
        off[P256_HEAD.len() + 20] ^= 1;
        assert!(authority.sign_node(NodeRole::Sql, NodeId(1), &[], &off, lifetime).is_err());
        assert_eq!(format!("{key:?}"), "NodeKey { .. }");
    }
}
