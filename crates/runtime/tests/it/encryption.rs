//! TLS that begins in the middle of a connection.
//!
//! The certificate was made for these tests, vouches for `localhost` until the year 2126, and its
//! key is no secret.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use runtime::{Authority, Issued, TlsMaker, TlsSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, SupportedProtocolVersion};

use super::application::wait_until;
use super::*;

/// Encryption with a certificate that was made, and the authority that signed it.
struct Encrypted {
    directory: Directory,
    tls: ServerTls,
}

impl Encrypted {
    fn new() -> Self {
        let directory = Directory::new();
        let names = vec!["localhost".to_owned()];
        let maker = TlsMaker { directory: directory.0.clone(), names };
        let tls = ServerTls::new(TlsSettings::default(), Some(maker)).unwrap();
        Self { directory, tls }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let authority = self.directory.0.join("ca.pem");
        roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        roots
    }

    /// A client that trusts the authority; with a certificate of its own if it has one.
    fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shown: Option<Issued>,
    ) -> ClientConnection {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match shown {
            Some(shown) => {
                config.with_client_auth_cert(vec![shown.certificate], shown.key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }
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
    let encrypted = Encrypted::new();
    let running = Running::start_with(1, Some(encrypted.tls.clone()));
    let cases = [
        (&TLS13, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
        (&TLS12, "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"),
    ];
    for (version, name) in cases {
        // The wish alone; the handshake comes later.
        let mut socket = connect(&running);
        socket.write_all(b"tls").unwrap();
        talk(encrypted.client(&[version], None), socket);
        // Wish and first words in one packet.
        let mut socket = connect(&running);
        let mut tls = encrypted.client(&[version], None);
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
    let encrypted = Encrypted::new();
    let running = Running::start_with(1, Some(encrypted.tls.clone()));
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

/// What an authority is given a file for.
fn authority_of(encrypted: &Encrypted) -> Authority {
    let read = |name: &str| std::fs::read_to_string(encrypted.directory.0.join(name)).unwrap();
    Authority::from_pem(&read("ca.pem"), &read("ca-key.pem")).unwrap()
}

#[test]
fn certificates_of_clients_are_told_and_those_of_others_refused() {
    let encrypted = Encrypted::new();
    let running = Running::start_with(1, Some(encrypted.tls.clone()));
    let authority = authority_of(&encrypted);
    let begin = |shown: Option<Issued>, version| {
        let mut socket = connect(&running);
        socket.write_all(b"tls").unwrap();
        let tls = encrypted.client(&[version], shown);
        (tls, socket)
    };
    for (version, name) in [
        (&TLS13, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
        (&TLS12, "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"),
    ] {
        let (tls, socket) = begin(Some(authority.issue_client("alice").unwrap()), version);
        talk(tls, socket);
        let told = running.board.names().into_iter();
        let mut told = told.filter(|told| told.starts_with(&format!("{name} /CN=alice by ")));
        let line = told.next().expect("the certificate is told of");
        assert!(line.contains("by /CN=Nines CA "), "{line}");
        // Another authority's, and one that is no client's.
        let other = Authority::make().unwrap().issue_client("alice").unwrap();
        let server = authority.issue_server(&["alice".to_owned()]).unwrap();
        for wrong in [other, server] {
            let (mut tls, mut socket) = begin(Some(wrong), version);
            let mut stream = Stream::new(&mut tls, &mut socket);
            let sent = stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut [0; 5]));
            assert!(sent.is_err(), "it was let in");
        }
    }
    wait_until(|| running.board.count("closed") == 4);
    running.cluster.stop();
}

/// One handshake in each turn: those of many clients all come to an end.
#[test]
fn many_shake_hands_at_the_same_time() {
    let encrypted = Encrypted::new();
    let running = Running::start_with(1, Some(encrypted.tls.clone()));
    let begun: Vec<_> = (0..50)
        .map(|number| {
            let mut socket = connect(&running);
            let mut tls = encrypted.client(&[&TLS13], None);
            let mut first = b"tls".to_vec();
            // Half of them have sent the first words of TLS with their wish.
            if number % 2 == 0 {
                tls.write_tls(&mut first).unwrap();
            }
            socket.write_all(&first).unwrap();
            (tls, socket)
        })
        .collect();
    begun.into_iter().for_each(|(tls, socket)| talk(tls, socket));
    assert_eq!(running.board.count("TLSv1.3 TLS_AES_256_GCM_SHA384"), 50);
    running.cluster.stop();
}
