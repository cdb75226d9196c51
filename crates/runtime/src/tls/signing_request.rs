//! Requests for certificates (PKCS#10): made where the key is, read where the authority is.
//!
//! # Guarantees
//! The key does not leave its node. Any bytes give a request or a reason; one whose signature is
//! not that of its key is refused, so nobody gets a certificate for the key of somebody else.
//! # Not here
//! What the certificate is to say: the authority decides that, whatever the request asks for.
//! Source: RFC 2986.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rcgen::{CertificateParams, KeyPair};

use super::certificate::{BIT_STRING, Der, INTEGER, OBJECT, SEQUENCE};

/// Asks for a certificate for a key: the request as PEM.
///
/// # Errors
/// When the text is no private key in PEM.
pub fn signing_request(key_pem: &str) -> Result<String, String> {
    let key = KeyPair::from_pem(key_pem).map_err(|error| format!("the key: {error}"))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = super::authority::common_name("nines");
    let request = params.serialize_request(&key).map_err(|error| error.to_string())?;
    request.pem().map_err(|error| error.to_string())
}

/// A key for which somebody asks for a certificate, and has shown that it is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    public_key: Vec<u8>,
}

impl SigningRequest {
    /// Reads a request and checks its signature.
    ///
    /// # Errors
    /// When it is none, has a key that is not of the curve P-256, or is signed by another key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "that is no request for a certificate (PKCS#10, PEM)".to_owned();
        let file = pem::parse(text).map_err(|_| wrong())?;
        if file.tag() != "CERTIFICATE REQUEST" {
            return Err(wrong());
        }
        let Parts { signed, public_key, point, signature } =
            parts(file.contents()).ok_or_else(|| {
                "the request for a certificate cannot be read, or its key is not of the curve P-256"
                    .to_owned()
            })?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
            .verify(signed, signature)
            .map_err(|_| "the request for a certificate is not signed by its key".to_owned())?;
        Ok(Self { public_key: public_key.to_vec() })
    }

    /// The key as `SubjectPublicKeyInfo`.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Tells keys apart: SHA-256 of the key, in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        sha256_hex(&self.public_key)
    }
}

/// Bytes as hexadecimal digits, lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; none if there are others among them, or one is left over.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(pair).collect())?
}

/// SHA-256 in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// What a request is made of.
struct Parts<'a> {
    signed: &'a [u8],
    /// As `SubjectPublicKeyInfo`.
    public_key: &'a [u8],
    /// The point of the curve in it.
    point: &'a [u8],
    signature: &'a [u8],
}

fn parts(der: &[u8]) -> Option<Parts<'_>> {
    let mut request = Der(Der(der).expect(SEQUENCE)?);
    let signed = request.whole(SEQUENCE)?;
    let mut body = Der(Der(signed).expect(SEQUENCE)?);
    let _version = body.expect(INTEGER)?;
    let _subject = body.expect(SEQUENCE)?;
    let public_key = body.whole(SEQUENCE)?;
    let mut key = Der(Der(public_key).expect(SEQUENCE)?);
    let mut kind = Der(key.expect(SEQUENCE)?);
    if kind.expect(OBJECT)? != EC_PUBLIC_KEY || kind.expect(OBJECT)? != P256 {
        return None;
    }
    let point = bits(key.expect(BIT_STRING)?)?;
    let mut algorithm = Der(request.expect(SEQUENCE)?);
    if algorithm.expect(OBJECT)? != ECDSA_WITH_SHA256 {
        return None;
    }
    let signature = bits(request.expect(BIT_STRING)?)?;
    Some(Parts { signed, public_key, point, signature })
}

/// The bytes of a string of bits that are whole bytes.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bytes)| bytes)
}

const EC_PUBLIC_KEY: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1];
const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7];
const ECDSA_WITH_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::NodeKey;

    fn new_key() -> String {
        NodeKey::generate().unwrap().pem()
    }

    #[test]
    fn a_request_is_for_the_key_that_signed_it() {
        let (key, other) = (new_key(), new_key());
        let request = signing_request(&key).unwrap();
        let read = SigningRequest::parse(&request).unwrap();
        use rcgen::PublicKeyData;
        let spki = KeyPair::from_pem(&key).unwrap().subject_public_key_info();
        assert_eq!(read.public_key(), spki);
        assert_eq!(read, SigningRequest::parse(&signing_request(&key).unwrap()).unwrap());
        let another = SigningRequest::parse(&signing_request(&other).unwrap()).unwrap();
        assert_ne!(read.fingerprint(), another.fingerprint());
        // The key of somebody else in it.
        let der = pem::parse(&request).unwrap().into_contents();
        let at = der.windows(spki.len()).position(|part| part == spki).unwrap();
        let mut stolen = der.clone();
        stolen[at..at + spki.len()].copy_from_slice(another.public_key());
        let stolen = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", stolen));
        let why = SigningRequest::parse(&stolen).unwrap_err();
        assert!(why.contains("not signed by its key"), "{why}");
    }

    #[test]
    fn nonsense_is_no_request() {
        let request = signing_request(&new_key()).unwrap();
        let der = pem::parse(&request).unwrap().into_contents();
        let wrap = |der: Vec<u8>| pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
        for end in 0..der.len() {
            assert!(SigningRequest::parse(&wrap(der[..end].to_vec())).is_err(), "{end}");
        }
        for at in 0..der.len() {
            let mut changed = der.clone();
            changed[at] ^= 0x11;
            // Whatever is changed, there is an answer.
            let _ = SigningRequest::parse(&wrap(changed));
        }
        for text in ["", "nonsense", &new_key()] {
            assert!(SigningRequest::parse(text).is_err(), "{text}");
        }
    }
}
