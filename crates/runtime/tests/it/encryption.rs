//! TLS that begins in the middle of a connection.
//!
//! The certificate was made for these tests, vouches for `localhost` until the year 2126, and its
//! key is no secret.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

use super::application::wait_until;
use super::*;

fn identity() -> TlsIdentity {
    let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name);
    TlsIdentity::from_files(&file("certificate.pem"), &file("key.pem")).unwrap()
}

fn client(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConnection {
    let certificate = include_bytes!("tls/certificate.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.tcp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends much and expects it back, then ends in good order.
fn talk(mut tls: ClientConnection, mut socket: TcpStream) {
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let mut stream = Stream::new(&mut tls, &mut socket);
    for part in bytes.chunks(50_000) {
        stream.write_all(part).unwrap();
        let mut answer = vec![0; part.len()];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer == part, "another echo");
    }
    stream.conn.send_close_notify();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, ".");
}

#[test]
fn both_versions_and_both_ways_to_begin() {
    let running = Running::start_with(1, Some(identity()));
    let cases = [
        (&rustls::version::TLS13, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
        (&rustls::version::TLS12, "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"),
    ];
    for (version, name) in cases {
        // The wish alone; the handshake comes later.
        let mut socket = connect(&running);
        socket.write_all(b"tls").unwrap();
        talk(client(&[version]), socket);
        // Wish and first words in one packet.
        let mut socket = connect(&running);
        let mut tls = client(&[version]);
        let mut first = b"tls".to_vec();
        tls.write_tls(&mut first).unwrap();
        socket.write_all(&first).unwrap();
        talk(tls, socket);
        assert_eq!(running.board.count(name), 2, "{name}");
    }
    running.cluster.stop();
}

#[test]
fn what_is_not_tls_ends_the_connection() {
    let running = Running::start_with(1, Some(identity()));
    for words in [&b"tlsno such thing, but quite long"[..], b"tls\x16\x03\x01\xff\xff and so on"] {
        let mut socket = connect(&running);
        socket.write_all(words).unwrap();
        // An alert may come before the end.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    wait_until(|| running.board.count("closed") == 2);
    running.cluster.stop();
}

#[test]
fn a_server_without_certificate_encrypts_nothing() {
    let running = Running::start(1);
    let mut socket = connect(&running);
    socket.write_all(b"tls").unwrap();
    assert!(!matches!(socket.read(&mut [0; 10]), Ok(1..)));
    wait_until(|| running.board.count("closed") == 1);
    running.cluster.stop();
}

#[test]
fn files_that_are_of_no_use() {
    let directory = Directory::new();
    let file = |name: &str, text: &str| {
        let path = directory.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("certificate.pem", include_str!("tls/certificate.pem"));
    let key = file("key.pem", include_str!("tls/key.pem"));
    let nonsense = file("nonsense.pem", "nonsense");
    let error = |certificate: &Path, key: &Path| {
        TlsIdentity::from_files(certificate, key).unwrap_err().to_string()
    };
    assert!(error(&directory.0.join("none"), &key).starts_with("no certificate: "));
    assert!(error(&nonsense, &key).starts_with("no certificate: "));
    assert!(error(&certificate, &nonsense).starts_with("no private key: "));
    assert!(TlsIdentity::from_files(&certificate, &key).is_ok());
}
