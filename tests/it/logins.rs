//! Logging in with passwords and certificates, by real clients; what a process refuses to start
//! with; what attacks come to.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tests::{Server, binary, free_port, run, succeed, temporary_directory, workspace};

/// The accounts of these tests; each user's password is `secret`.
const ACCOUNTS: [&str; 6] = [
    "CREATE USER 'sha' IDENTIFIED BY 'secret'",
    "CREATE USER 'native' IDENTIFIED WITH mysql_native_password BY 'secret'",
    "CREATE USER 'socket'@localhost IDENTIFIED WITH auth_socket AS 'root'",
    "CREATE USER 'ssl' IDENTIFIED BY 'secret' REQUIRE SSL",
    "CREATE USER 'x509' IDENTIFIED BY 'secret' REQUIRE X509",
    "CREATE USER 'alice' IDENTIFIED BY 'secret' REQUIRE SUBJECT '/CN=alice'",
];

/// A directory with what a server is given, and removed with it.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self { directory: temporary_directory() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn option(&self, option: &str, file: &str) -> String {
        format!("--{option}={}", self.file(file).display())
    }

    /// A server with these accounts; its certificate is made in the directory.
    fn serve(&self, options: &[&str]) -> Server {
        let server = self.start(options);
        tests::all(&mut server.session().expect("root has no password"), &ACCOUNTS);
        server
    }

    /// A server with the accounts that were made in the directory before.
    fn start(&self, options: &[&str]) -> Server {
        let all: Vec<&str> = ["--mysql-native-password"].iter().chain(options).copied().collect();
        Server::start_in(&self.file("data"), &all)
    }

    /// The authority of a certificate that was made.
    fn authority(&self) -> PathBuf {
        self.file("data/ca.pem")
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(&self.directory).args(arguments.split_whitespace());
        succeed(openssl);
    }

    /// An authority, and a certificate that it signs for each name.
    fn certificates(&self, names: &[&str]) {
        let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        self.openssl(&format!("req -x509 {curve} -days 2 -subj /CN=ca -keyout ca.key -out ca.crt"));
        fs::write(self.file("ext"), "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n")
            .expect("it is writable");
        for name in names {
            self.openssl(&format!(
                "req -new {curve} -subj /CN={name} -keyout {name}.key -out {name}.csr"
            ));
            self.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
                 -extfile ext -out {name}.crt"
            ));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Runs a statement as a user, by the command-line client.
fn client(server: &Server, user: &str, password: &str, options: &[&str], sql: &str) -> Output {
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--host=127.0.0.1", "--batch", "--skip-column-names"]);
    client.arg(format!("--port={}", server.port)).arg(format!("--user={user}"));
    if !password.is_empty() {
        client.arg(format!("--password={password}"));
    }
    client.args(options).arg("-e").arg(sql);
    run(client)
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The client's options for a connection that has to be encrypted, and for one that is not.
fn modes() -> (&'static str, &'static str) {
    super::tls::modes()
}

const WHO: &str = "SELECT CURRENT_USER()";

#[test]
fn both_plugins_with_and_without_encryption() {
    let place = Place::new();
    let server = place.serve(&[]);
    let (encrypted, plain) = modes();
    // Twice: the second time the password has been seen.
    for _ in 0..2 {
        for user in ["sha", "native"] {
            for mode in [encrypted, plain] {
                let found = text(&client(&server, user, "secret", &[mode], WHO));
                assert!(found.contains(&format!("{user}@%\n")), "{user} {mode}: {found}");
                for (wrong, using) in [("Secret", "YES"), ("", "NO")] {
                    let found = text(&client(&server, user, wrong, &[mode], WHO));
                    let denied = format!(
                        "ERROR 1045 (28000): Access denied for user '{user}'@'localhost' (using \
                         password: {using})"
                    );
                    assert!(found.contains(&denied), "{user} {mode}: {found}");
                }
            }
        }
    }
    let unknown = text(&client(&server, "nobody", "secret", &[encrypted], WHO));
    assert!(unknown.contains("ERROR 1045 (28000): Access denied for user 'nobody'"), "{unknown}");
    // Over the socket nothing has to be encrypted.
    let socket = format!("--socket={}", server.socket.display());
    let by_socket = ["--protocol=socket", "--host=localhost", &socket, plain];
    for user in ["sha", "native"] {
        let found = text(&client(&server, user, "secret", &by_socket, WHO));
        assert!(found.contains(&format!("{user}@%\n")), "{found}");
    }
    // Tests run as the system's `root`, or nobody is let in.
    let own = succeed({
        let mut id = Command::new("id");
        id.arg("-un");
        id
    });
    let found = text(&client(&server, "socket", "", &by_socket, WHO));
    assert_eq!(found.contains("socket@localhost\n"), own.trim() == "root", "{found}");
    let found = text(&client(&server, "socket", "", &[plain], WHO));
    assert!(found.contains("ERROR 1045"), "{found}");
}

/// Encryption is there by itself; clients check it by the authority that lies in the directory.
#[test]
fn a_certificate_is_made_and_verified() {
    let place = Place::new();
    let mut server = place.serve(&[]);
    let verify = match modes().0 {
        "--ssl" => "--ssl-verify-server-cert",
        _ => "--ssl-mode=VERIFY_IDENTITY",
    };
    let trusted = format!("--ssl-ca={}", place.authority().display());
    let found = text(&client(&server, "sha", "secret", &[&trusted, verify], "\\s"));
    assert!(found.contains("Cipher in use is TLS_"), "{found}");
    let shown = "SHOW STATUS WHERE Variable_name RLIKE '^(Ssl_|Current_tls)' AND Value <> ''";
    let found = text(&client(&server, "sha", "secret", &[&trusted, verify], shown));
    for part in [
        "Ssl_version\tTLSv1.3\n",
        "Ssl_server_not_after\t",
        " GMT\n",
        "Ssl_accepts\t2\n",
        "Ssl_finished_accepts\t2\n",
        "Current_tls_version\tTLSv1.2,TLSv1.3\n",
    ] {
        assert!(found.contains(part), "{part} is missing in {found}");
    }
    let found = text(&client(&server, "sha", "secret", &[], "SELECT @@ssl_ca, @@ssl_cert"));
    assert_eq!(found, format!("{}\t\n", place.authority().display()));
    // The authority stays; what it signs is made anew.
    let authority = fs::read(place.authority()).unwrap();
    assert_eq!(server.stop("-TERM"), Some(0));
    drop(server);
    let server = place.start(&[]);
    assert_eq!(fs::read(place.authority()).unwrap(), authority);
    let found = text(&client(&server, "sha", "secret", &[&trusted, verify], WHO));
    assert!(found.contains("sha@%\n"), "{found}");
    let mode = fs::metadata(place.file("data/ca-key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read the authority's key");
}

#[test]
fn drivers_log_in_with_both_plugins() {
    let place = Place::new();
    let server = place.serve(&[]);
    let port = server.port.to_string();
    let authority = place.authority().display().to_string();
    let tools = super::connectors::tools();
    let script = |name: &str| workspace().join("tests/connectors").join(name);
    for driver in ["pymysql", "mysqlclient", "mysql.connector"] {
        for user in ["sha", "native"] {
            for (tls, cipher) in [("off", "-"), ("on", "TLS_"), (authority.as_str(), "TLS_")] {
                let log_in = |password: &str| {
                    let mut command = Command::new(tools.join("python/bin/python"));
                    command.arg(script("login.py")).args([driver, "127.0.0.1", &port, user]);
                    command.args([password, tls]);
                    succeed(command)
                };
                let found = log_in("secret");
                let expected = format!("user {user}@% cipher {cipher}");
                assert!(found.starts_with(&expected), "{driver} {user} {tls}: {found}");
                // A driver that may not ask for the public key gives up by itself (2061); the
                // password that others have proven before is good without it.
                let gives_up = (driver, user, tls) == ("mysql.connector", "sha", "off");
                let refused = if gives_up { "refused 2061\n" } else { "refused 1045\n" };
                assert_eq!(log_in("Secret"), refused, "{driver} {user} {tls}");
            }
        }
    }
    for user in ["sha", "native"] {
        for (tls, cipher) in [("off", "-"), ("on", "TLS_")] {
            let mut node = Command::new("node");
            node.arg(tools.join("node/login.mjs")).args(["127.0.0.1", &port, user, "secret", tls]);
            let mut java = Command::new("java");
            java.arg("-cp").arg(tools.join("java/mysql-connector-j.jar"));
            java.arg(script("java/Login.java")).args(["127.0.0.1", &port, user, "secret", tls]);
            for command in [node, java] {
                let found = succeed(command);
                let expected = format!("user {user}@% cipher {cipher}");
                assert!(found.starts_with(&expected), "{user} {tls}: {found}");
            }
        }
    }
}

#[test]
fn accounts_that_require_encryption_or_a_certificate() {
    let place = Place::new();
    place.certificates(&["server", "alice", "bob"]);
    let files = [
        place.option("tls-cert", "server.crt"),
        place.option("tls-key", "server.key"),
        place.option("tls-ca", "ca.crt"),
    ];
    let server = place.serve(&files.each_ref().map(String::as_str));
    let (encrypted, plain) = modes();
    let who = |user: &str, options: &[&str]| {
        text(&client(&server, user, "secret", options, WHO)).contains(&format!("{user}@%\n"))
    };
    let shown = |name: &str| {
        [
            place.option("ssl-cert", &format!("{name}.crt")),
            place.option("ssl-key", &format!("{name}.key")),
        ]
    };
    let (alice, bob) = (shown("alice"), shown("bob"));
    let (alice, bob) = (alice.each_ref().map(String::as_str), bob.each_ref().map(String::as_str));
    assert!(who("ssl", &[encrypted]) && !who("ssl", &[plain]));
    assert!(!who("x509", &[encrypted]) && who("x509", &alice) && who("x509", &bob));
    assert!(!who("alice", &[encrypted]) && who("alice", &alice) && !who("alice", &bob));
    // One that another authority has signed is no certificate.
    let other = Place::new();
    other.certificates(&["alice"]);
    let foreign = [other.option("ssl-cert", "alice.crt"), other.option("ssl-key", "alice.key")];
    let found =
        text(&client(&server, "alice", "secret", &foreign.each_ref().map(String::as_str), WHO));
    assert!(found.contains("ERROR 20"), "{found}");
}

#[test]
fn encryption_can_be_required_and_reloaded() {
    let place = Place::new();
    let server = place.serve(&["--require-secure-transport"]);
    let (encrypted, plain) = modes();
    let root = |options: &[&str], sql: &str| text(&client(&server, "root", "", options, sql));
    let refused = root(&[plain], WHO);
    assert!(refused.contains("ERROR 3159 (HY000): Connections using insecure"), "{refused}");
    assert!(root(&[encrypted], WHO).contains("root@localhost"));
    assert_eq!(root(&[encrypted], "SET GLOBAL require_secure_transport = OFF"), "");
    assert!(root(&[plain], WHO).contains("root@localhost"));

    // Another certificate, for connections to come; what stands goes on.
    place.certificates(&["server"]);
    let set =
        |name: &str, file: &str| format!("SET GLOBAL {name} = '{}'; ", place.file(file).display());
    let files =
        set("ssl_ca", "ca.crt") + &set("ssl_cert", "server.crt") + &set("ssl_key", "server.key");
    let reload = files + "ALTER INSTANCE RELOAD TLS; SHOW STATUS LIKE 'Current_tls_cert'; SELECT 1";
    let found = root(&[encrypted], &reload);
    assert!(found.contains("server.crt\n1\n"), "{found}");
    let verify = match encrypted {
        "--ssl" => "--ssl-verify-server-cert",
        _ => "--ssl-mode=VERIFY_CA",
    };
    let (new, old) = (place.option("ssl-ca", "ca.crt"), place.option("ssl-ca", "data/ca.pem"));
    let local = ["--host=localhost", "--protocol=tcp", verify];
    let found = root(&[&local[..], &[&new]].concat(), WHO);
    assert!(found.contains("root@localhost"), "{found}");
    let found = root(&[&local[..], &[&old]].concat(), WHO);
    assert!(found.contains("ERROR 2026"), "{found}");

    // What is of no use changes nothing, and says why.
    fs::write(place.file("server.crt"), "nonsense").unwrap();
    let found = root(&[encrypted], "ALTER INSTANCE RELOAD TLS");
    assert!(found.contains("ERROR 3888") && found.contains("has no certificate in it"), "{found}");
    assert!(root(&[&local[..], &[&new]].concat(), WHO).contains("root@localhost"));
    // Versions and ciphers.
    let suites = "SET GLOBAL ssl_cert = ''; SET GLOBAL ssl_key = ''; \
                  SET GLOBAL tls_version = 'TLSv1.2'; \
                  SET GLOBAL ssl_cipher = 'ECDHE-ECDSA-AES128-GCM-SHA256'; \
                  ALTER INSTANCE RELOAD TLS";
    assert_eq!(root(&[encrypted], suites), "");
    let found = root(&[encrypted], "SHOW STATUS LIKE 'Ssl_cipher'");
    assert_eq!(found, "Ssl_cipher\tECDHE-ECDSA-AES128-GCM-SHA256\n");
    let found = root(&[encrypted, "--tls-version=TLSv1.3"], WHO);
    assert!(found.contains("ERROR 2026"), "{found}");
    let wrong = "SET GLOBAL tls_version = 'TLSv1.1'; ALTER INSTANCE RELOAD TLS";
    let found = root(&[encrypted], wrong);
    assert!(found.contains("tls_version has no `TLSv1.1`"), "{found}");
    let nothing = "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR; SHOW WARNINGS";
    let found = root(&[encrypted], nothing);
    assert!(found.contains("Warning\t3888\t"), "{found}");
    assert!(!root(&[encrypted], "SHOW STATUS LIKE 'Ssl_cipher'").contains("ECDHE"));
}

/// What a process would rely on and cannot is said at its start.
#[test]
fn certificates_and_keys_that_are_of_no_use() {
    let place = Place::new();
    place.certificates(&["server", "other"]);
    let start = |certificate: &str, key: &str| {
        let mut command = Command::new(binary());
        command.args(["dev", &format!("--port={}", free_port())]);
        command.arg(place.option("socket", "sock")).arg(place.option("dir", "unused"));
        command.arg(place.option("tls-cert", certificate)).arg(place.option("tls-key", key));
        let output = run(command);
        assert!(!output.status.success());
        text(&output)
    };
    let found = start("server.crt", "other.key");
    assert!(found.contains("the key is not that of the certificate"), "{found}");
    fs::set_permissions(place.file("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let found = start("server.crt", "server.key");
    assert!(found.contains("others than its owner may use the key"), "{found}");
    place.openssl(
        "x509 -req -in other.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days -1 -out old.crt",
    );
    let found = start("old.crt", "other.key");
    assert!(found.contains("has expired: 2"), "{found}");
}

/// The packets of a client that says what it wants.
struct Raw {
    socket: TcpStream,
}

impl Raw {
    fn connect(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        let patience = Some(Duration::from_secs(120));
        socket.set_read_timeout(patience).expect("it is a socket");
        Self { socket }
    }

    /// The next packet; none at the end.
    fn packet(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    fn error_code(&mut self) -> Option<u16> {
        let packet = self.packet()?;
        (packet[0] == 0xFF).then(|| u16::from_le_bytes([packet[1], packet[2]]))
    }
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

/// A login as root, without a password and without TLS.
fn login(capabilities: u32) -> Vec<u8> {
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 255]);
    payload.resize(32, 0);
    payload.extend_from_slice(b"root\0\0");
    payload
}

const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const SECURE_CONNECTION: u32 = 1 << 15;

#[test]
fn what_comes_before_encryption_is_never_executed() {
    let place = Place::new();
    let server = place.serve(&[]);
    let wish = login(PROTOCOL_41 | SECURE_CONNECTION | SSL)[..32].to_vec();
    let statement = b"\x03CREATE DATABASE injected";
    let smuggled =
        [packet(2, &login(PROTOCOL_41 | SECURE_CONNECTION)), packet(0, statement)].concat();
    // In one piece with the wish for encryption, or behind it.
    for pause in [false, true] {
        let mut raw = Raw::connect(server.port);
        raw.packet().unwrap();
        raw.socket.write_all(&packet(1, &wish)).unwrap();
        if pause {
            thread::sleep(Duration::from_millis(50));
        }
        // It may be closed already.
        let _ = raw.socket.write_all(&smuggled);
        let mut rest = Vec::new();
        let _ = raw.socket.read_to_end(&mut rest);
        // An alert of TLS at most.
        assert!(rest.len() < 16, "{rest:?}");
    }
    assert!(!server.sql("SHOW DATABASES").contains("injected"));
}

#[test]
fn clients_that_break_the_rules_before_they_log_in() {
    let place = Place::new();
    let server = place.serve(&[]);
    server.sql("SET GLOBAL connect_timeout = 2");
    let plain = PROTOCOL_41 | SECURE_CONNECTION;
    let greeted = || {
        let mut raw = Raw::connect(server.port);
        raw.packet().unwrap();
        raw
    };
    // A chain of packets as long as packets can be.
    let mut raw = greeted();
    raw.socket.write_all(&[0xFF, 0xFF, 0xFF, 1]).unwrap();
    let _ = raw.socket.write_all(&vec![0; 1 << 20]);
    assert_eq!(raw.error_code(), Some(1043));
    // Lengths that lie, packets out of order, a protocol from before 4.1.
    let mut lies = login(plain);
    lies.pop();
    lies.extend_from_slice(b"\xFFabc");
    for (sequence, payload, code) in [
        (1, lies, 1043),
        (1, login(plain)[..36].to_vec(), 1043),
        (7, login(plain), 1156),
        (1, login(0), 1043),
    ] {
        let mut raw = greeted();
        raw.socket.write_all(&packet(sequence, &payload)).unwrap();
        assert_eq!(raw.error_code(), Some(code));
        assert_eq!(raw.packet(), None);
    }
    // Nothing at all, and a byte now and then, end at `connect_timeout`.
    let mut silent = greeted();
    let mut slow = greeted();
    for byte in packet(1, &login(plain)).into_iter().take(8) {
        let _ = slow.socket.write_all(&[byte]);
        thread::sleep(Duration::from_millis(500));
    }
    for raw in [&mut silent, &mut slow] {
        raw.packet();
        assert_eq!(raw.packet(), None);
    }
    // Split at every byte, a login is a login.
    server.sql("SET GLOBAL connect_timeout = 60");
    let mut raw = greeted();
    for byte in packet(1, &login(plain)) {
        raw.socket.write_all(&[byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(raw.packet().unwrap()[0], 0);
}

/// Whoever connects and says nothing keeps nobody out.
#[test]
fn silent_connections_make_room() {
    // A process may have fewer files open, usually.
    let mut raise = Command::new("prlimit");
    raise.arg("--nofile=8192:").arg(format!("--pid={}", std::process::id()));
    succeed(raise);
    let place = Place::new();
    let server = place.serve(&["--workers=1"]);
    server.sql("SET GLOBAL connect_timeout = 600");
    let mut silent: Vec<Raw> = (0..2_200).map(|_| Raw::connect(server.port)).collect();
    let found = text(&client(&server, "sha", "secret", &[modes().0], WHO));
    assert!(found.contains("sha@%\n"), "{found}");
    // The oldest have gone, the newest are there.
    for raw in &mut silent[..100] {
        raw.packet();
        assert_eq!(raw.packet(), None);
    }
    let last = silent.last_mut().unwrap();
    last.packet().unwrap();
    last.socket.write_all(&packet(1, &login(PROTOCOL_41 | SECURE_CONNECTION))).unwrap();
    assert_eq!(last.packet().unwrap()[0], 0);
}

/// Many that try passwords keep nobody from working.
#[test]
fn a_flood_of_failed_logins() {
    let place = Place::new();
    let server = place.serve(&[]);
    server
        .sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let attackers: Vec<_> = (0..8)
        .map(|attacker| {
            let user = if attacker % 2 == 0 { "sha" } else { "nobody" };
            let mut client = Command::new("mysqladmin");
            client.args(["--no-defaults", "--host=127.0.0.1", "--password=wrong"]);
            client.arg(format!("--port={}", server.port)).arg(format!("--user={user}"));
            let (encrypted, plain) = modes();
            client.arg(if attacker % 4 < 2 { encrypted } else { plain });
            client.arg("status").stdout(Stdio::null()).stderr(Stdio::piped());
            thread::spawn(move || {
                for _ in 0..20 {
                    let output = client.output().expect("the client is installed");
                    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(errors.contains("Access denied for user"), "{errors}");
                }
            })
        })
        .collect();
    let mut session = server.session().unwrap();
    let mut answered = 0;
    while attackers.iter().any(|attacker| !attacker.is_finished()) {
        assert_eq!(session.number("SELECT a FROM d.t WHERE a = 1").unwrap(), 1);
        answered += 1;
    }
    attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
    assert!(answered > 0);
    let found = server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_connects'");
    assert_eq!(found, "Aborted_connects\t160\n");
}

/// A file is where it was said to be.
#[test]
fn the_key_for_passwords_is_kept() {
    let place = Place::new();
    let mut server = place.serve(&[]);
    let (_, plain) = modes();
    let found = text(&client(&server, "sha", "secret", &[plain], WHO));
    assert!(found.contains("sha@%\n"), "{found}");
    let key = place.file("data/private_key.pem");
    let before = read_private(&key);
    assert_eq!(server.stop("-TERM"), Some(0));
    drop(server);
    let server = place.start(&[]);
    let found = text(&client(&server, "sha", "secret", &[plain], WHO));
    assert!(found.contains("sha@%\n"), "{found}");
    assert_eq!(read_private(&key), before);
}

fn read_private(path: &Path) -> String {
    let file = fs::metadata(path).expect("it is there");
    assert_eq!(file.permissions().mode() & 0o077, 0);
    fs::read_to_string(path).expect("it is text")
}
