//! Encrypted connections: certificates as users make them, and the command-line client.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};

use tests::{Server, run, succeed, text_of};

/// A directory with a self-signed certificate for this machine and its key.
pub(crate) struct Certificate {
    directory: PathBuf,
}

impl Certificate {
    /// Makes one; `key` says to `openssl req` what kind of key.
    fn new(name: &str, key: &[&str]) -> Self {
        let directory = format!("nines-tls-{name}-{}", std::process::id());
        let certificate = Self { directory: std::env::temp_dir().join(directory) };
        std::fs::create_dir_all(&certificate.directory).expect("temporary files can be made");
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]).args(key);
        openssl.arg("-out").arg(certificate.file("certificate.pem"));
        openssl.arg("-keyout").arg(certificate.file("key.pem"));
        succeed(openssl);
        certificate
    }

    pub(crate) fn elliptic(name: &str) -> Self {
        Self::new(name, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn option(&self, option: &str, file: &str) -> String {
        format!("--{option}={}", self.file(file).display())
    }

    pub(crate) fn serve(&self) -> Server {
        let certificate = self.option("tls-cert", "certificate.pem");
        Server::start(&[&certificate, &self.option("tls-key", "key.pem")])
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The client's options for a connection that has to be encrypted, and for one that is not.
pub(crate) fn modes() -> (&'static str, &'static str) {
    let mut version = Command::new("mysql");
    version.arg("--version");
    // Only MariaDB's client has these two, only MySQL's the others.
    if succeed(version).contains("MariaDB") {
        ("--ssl", "--skip-ssl")
    } else {
        ("--ssl-mode=REQUIRED", "--ssl-mode=DISABLED")
    }
}

fn try_sql(server: &Server, options: &[&str], statements: &str) -> Output {
    let mut client = server.client("mysql");
    client.args(["--batch", "--skip-column-names", "--max-allowed-packet=64M"]).args(options);
    client.arg("-e").arg(statements);
    run(client)
}

fn sql(server: &Server, options: &[&str], statements: &str) -> String {
    text_of(&try_sql(server, options, statements), &format!("mysql {options:?}"))
}

const STATUS: &str = "SHOW STATUS WHERE Variable_name IN ('Ssl_cipher', 'Ssl_version')";

#[test]
fn clients_with_and_without_encryption() {
    let rsa = ["-newkey", "rsa:2048"];
    for certificate in [Certificate::elliptic("ec"), Certificate::new("rsa", &rsa)] {
        let server = certificate.serve();
        let (encrypted, plain) = modes();
        for version in ["TLSv1.2", "TLSv1.3"] {
            let option = format!("--tls-version={version}");
            let status = sql(&server, &[encrypted, &option], STATUS);
            assert!(status.contains(&format!("Ssl_version\t{version}\n")), "{status}");
            let cipher = status.lines().find_map(|line| line.strip_prefix("Ssl_cipher\t"));
            assert!(cipher.is_some_and(|cipher| cipher.contains("AES")), "{status}");
        }
        let status = sql(&server, &[encrypted], "\\s");
        assert!(status.contains("Cipher in use is TLS_"), "{status}");
        // Who does not ask for it is served as well on this machine.
        let status = sql(&server, &[plain], STATUS);
        assert_eq!(status, "Ssl_cipher\t\nSsl_version\t\n");
        let mut socket = Command::new("mysql");
        socket.args(["--no-defaults", "--user=root", plain, "--batch", "-e", "SELECT 42"]);
        socket.arg(format!("--socket={}", server.socket.display()));
        assert_eq!(succeed(socket), "42\n42\n");
        assert_eq!(sql(&server, &[plain], "SHOW VARIABLES LIKE 'have_ssl'"), "have_ssl\tYES\n");
    }
}

#[test]
fn a_password_is_asked_for_and_refused() {
    let certificate = Certificate::elliptic("password");
    let server = certificate.serve();
    let (encrypted, _) = modes();
    let options = [encrypted, "--password=secret", "--default-auth=caching_sha2_password"];
    let mut socket = Command::new("mysql");
    socket.args(["--no-defaults", "--user=root", "--execute=SELECT 1"]).args(&options[1..]);
    socket.arg(format!("--socket={}", server.socket.display()));
    for refused in [try_sql(&server, &options, "SELECT 1"), run(socket)] {
        let errors = String::from_utf8_lossy(&refused.stderr);
        let denied = "Access denied for user 'root'@'localhost' (using password: YES)";
        assert!(errors.contains("ERROR 1045 (28000)") && errors.contains(denied), "{errors}");
    }
    // The same plugin without a password.
    assert_eq!(sql(&server, &[encrypted, options[2]], "SELECT 1"), "1\n");
}

#[test]
fn a_client_checks_who_answers() {
    let (ours, other) = (Certificate::elliptic("ours"), Certificate::elliptic("other"));
    let server = ours.serve();
    let (encrypted, _) = modes();
    let check = match encrypted {
        "--ssl" => "--ssl-verify-server-cert",
        _ => "--ssl-mode=VERIFY_IDENTITY",
    };
    let trusted = ours.option("ssl-ca", "certificate.pem");
    let status = sql(&server, &[&trusted, check], STATUS);
    assert!(status.contains("Ssl_version\tTLSv1.3\n"), "{status}");
    let foreign = other.option("ssl-ca", "certificate.pem");
    let refused = try_sql(&server, &[&foreign, check], STATUS);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("ERROR 2026"), "{errors}");
    // That was the client's decision; the server goes on.
    assert_eq!(sql(&server, &[encrypted], "SELECT 1"), "1\n");
}

#[test]
fn much_through_an_encrypted_connection_both_ways() {
    let certificate = Certificate::elliptic("much");
    let server = certificate.serve();
    let (encrypted, _) = modes();
    // More than one packet of the protocol holds, and so many records of TLS.
    let found = sql(&server, &[encrypted], "SELECT REPEAT('0123456789', 2000000)");
    assert_eq!(found.len(), 20_000_001);
    assert!(found.trim_end().as_bytes().chunks(10).all(|part| part == b"0123456789"));
    let mut statements = String::from("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY);\n");
    for block in 0..10 {
        let rows: Vec<String> = (0..2000).map(|row| format!("({})", block * 2000 + row)).collect();
        statements.push_str(&format!("INSERT INTO d.t VALUES {};\n", rows.join(",")));
    }
    statements.push_str(&format!("SELECT LENGTH('{}');\n", "x".repeat(17_000_000)));
    statements.push_str("SELECT a FROM d.t ORDER BY a;\n");
    std::fs::write(certificate.file("statements.sql"), statements).unwrap();
    let mut client = server.client("mysql");
    client.args([encrypted, "--batch", "--skip-column-names", "--max-allowed-packet=64M"]);
    client.stdin(File::open(certificate.file("statements.sql")).unwrap());
    let found = succeed(client);
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("17000000"));
    assert!(lines.eq((0..20_000).map(|row| row.to_string())));
}
