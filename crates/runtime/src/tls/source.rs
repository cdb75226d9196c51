//! TLS from here to a MySQL or MariaDB server.
//!
//! # Guarantees
//! With authorities a certificate that none of them has signed ends the handshake; with a name so
//! does one of another name. Without authorities whoever answers is believed, as MySQL's
//! replicas do
//! that are told no more.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};

use super::provider;

/// Encrypts a connection to a host, whose server has said that it can.
///
/// # Errors
/// When the handshake fails, or the file of authorities cannot be used.
pub fn connect_to_source(
    mut socket: TcpStream,
    host: &str,
    authorities: Option<&Path>,
    verifies_name: bool,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(provider::default_provider());
    let by_authority = authorities.map(|path| roots(path, &provider)).transpose()?;
    if verifies_name && by_authority.is_none() {
        let why = "SOURCE_SSL_VERIFY_SERVER_CERT needs SOURCE_SSL_CA";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let verifier = ByFile { by_authority, verifies_name, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn roots(path: &Path, provider: &Arc<CryptoProvider>) -> io::Result<Arc<WebPkiServerVerifier>> {
    let wrong = |why: String| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    verifier.build().map_err(|error| wrong(error.to_string()))
}

/// Believes certificates that an authority of a file has signed; all where there is no file.
#[derive(Debug)]
struct ByFile {
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    verifies_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByFile {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        answer: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.by_authority else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(leaf, rest, name, answer, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.verifies_name => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
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
