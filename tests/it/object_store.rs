//! Backups in an object store that checks signatures, and makes mistakes when it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::{Server, Session, all, binary, number, refused, run, temporary_directory, workspace};

use crate::connectors::tools;

/// An object store with a bucket `backups`.
struct Store {
    process: Child,
    port: u16,
    access: String,
    secret: String,
}

impl Store {
    fn start() -> Self {
        Self::start_with(&[])
    }

    /// By TLS, with files of a certificate and its key.
    fn start_with(tls: &[&Path]) -> Self {
        let script = workspace().join("tests/connectors/object_store.py");
        let mut process = Command::new(tools().join("object-store/bin/python"))
            .arg(script)
            .args(tls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo xtask test installs it");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it is");
        // The values have no quotes in them.
        let value = |name: &str| {
            let rest = line.split_once(&format!("\"{name}\": ")).expect("it says all").1;
            rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
        };
        let port = value("port").parse().expect("a port");
        Self { process, port, access: value("access"), secret: value("secret") }
    }

    /// Has every so many requests go wrong.
    fn fault(&self, mode: &str, every: u32) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        write!(stream, "GET /fault?{mode}&{every} HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.contains("200 OK"), "{answer}");
    }

    /// What programs are told of it.
    fn environment(&self, secret: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL_S3", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", self.access.clone()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ]
    }

    /// `nines backup`.
    fn offline(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.arg("backup").args(arguments).envs(self.environment(&self.secret));
        run(command)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn checksum(session: &mut Session, table: &str) -> Option<String> {
    session.query(&format!("CHECKSUM TABLE {table}")).expect("it is there")[0][1].clone()
}

/// A table whose rows do not pack, of more than two parts of an object, and a small one.
fn make_shop(session: &mut Session) {
    all(
        session,
        &[
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE small (id INT PRIMARY KEY, t VARCHAR(20))",
            "INSERT INTO small VALUES (1, 'one'), (2, 'two')",
            "CREATE TABLE noise (id INT PRIMARY KEY, b BLOB)",
            "INSERT INTO noise WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 360) SELECT i, CONCAT(RANDOM_BYTES(1000), RANDOM_BYTES(1000)) FROM n",
        ],
    );
    // 50,000 bytes of each row, which LZ4 finds nothing equal in.
    let random = vec!["RANDOM_BYTES(1000)"; 50].join(", ");
    all(session, &[&format!("UPDATE noise SET b = CONCAT({random})")]);
}

#[test]
fn an_object_store_that_makes_mistakes_keeps_a_backup() {
    let store = Store::start();
    let server = Server::start_with(&store.environment(&store.secret), &["--workers=2"]);
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let sums = ["small", "noise"].map(|name| checksum(&mut session, &format!("shop.{name}")));
    for (mode, every) in [("none", 1), ("busy", 3), ("error", 4), ("break", 5)] {
        store.fault(mode, every);
        let place = format!("s3://backups/nightly/{mode}");
        all(&mut session, &[&format!("BACKUP DATABASE shop INTO '{place}'")]);
        let rows = session.query("SHOW BACKUPS IN 's3://backups/nightly'").unwrap();
        let last = rows.iter().find(|row| row[0].as_deref() == Some(&place)).expect("it is listed");
        assert_eq!(last[5].as_deref(), Some("complete"));
        let into = format!("shop_{mode}");
        all(&mut session, &[&format!("RESTORE DATABASE shop AS {into} FROM '{place}'")]);
        for (name, sum) in ["small", "noise"].iter().zip(&sums) {
            assert_eq!(checksum(&mut session, &format!("{into}.{name}")), *sum, "{mode}, {name}");
        }
        all(&mut session, &[&format!("DROP DATABASE {into}")]);
    }
    let again = refused(&mut session, "BACKUP ALL INTO 's3://backups/nightly/busy'");
    assert!(again.contains("not empty"), "{again}");
    store.fault("busy", 4);
    let verified = store.offline(&["verify", "s3://backups/nightly/break"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let directory = temporary_directory();
    std::fs::create_dir_all(&directory).unwrap();
    let key = directory.join("key");
    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    let new_key = format!("--new-key-file={}", key.display());
    let aside = store.offline(&["encrypt", "s3://backups/nightly/none", &new_key]);
    assert!(String::from_utf8_lossy(&aside.stderr).contains("--into"));
    let sealed = "--into=s3://backups/nightly/sealed";
    let made = store.offline(&["encrypt", "s3://backups/nightly/none", &new_key, sealed]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let from = format!("FROM 's3://backups/nightly/sealed' WITH key_file = '{}'", key.display());
    all(&mut session, &[&format!("RESTORE DATABASE shop AS sealed {from}")]);
    assert_eq!(checksum(&mut session, "sealed.noise"), sums[1]);
    // All are of one set: the newest stays.
    let pruned = store.offline(&["prune", "s3://backups/nightly", "--keep=1"]);
    assert!(pruned.status.success(), "{}", String::from_utf8_lossy(&pruned.stderr));
    let rows = session.query("SHOW BACKUPS IN 's3://backups/nightly'").unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0][0].as_deref(), Some("s3://backups/nightly/break"));
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn what_was_cut_on_its_way_is_no_backup() {
    let store = Store::start();
    let server = Server::start_with(&store.environment(&store.secret), &["--workers=2"]);
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    // Of a small object, and of a part of a large one.
    for (every, table) in [(1, "small"), (3, "noise")] {
        store.fault("cut", every);
        let statement = format!("BACKUP TABLE shop.{table} INTO 's3://backups/cut'");
        let why = refused(&mut session, &statement);
        assert!(why.contains("s3://backups") && why.contains("cut on its way"), "{why}");
        store.fault("none", 1);
        let rows = session.query("SHOW BACKUPS IN 's3://backups'").unwrap();
        assert!(rows.is_empty(), "{rows:?}");
    }
}

#[test]
fn keys_that_are_wrong_are_told_and_not_shown() {
    let store = Store::start();
    let wrong = "this-is-the-secret";
    let server = Server::start_with(&store.environment(wrong), &["--workers=1"]);
    let mut session = server.session().unwrap();
    for statement in [
        "BACKUP ALL INTO 's3://backups/x'",
        "RESTORE ALL FROM 's3://backups/x'",
        "SHOW BACKUPS IN 's3://backups'",
    ] {
        let why = refused(&mut session, statement);
        assert!(why.contains("s3://backups") && why.contains("does not take the keys"), "{why}");
        assert!(!why.contains(wrong), "{why}");
    }
    let server = Server::start_with(&store.environment(&store.secret), &["--workers=1"]);
    let mut session = server.session().unwrap();
    let why = refused(&mut session, "BACKUP ALL INTO 's3://elsewhere/x'");
    assert!(why.contains("no such bucket"), "{why}");
    let why = refused(&mut session, "RESTORE ALL FROM 's3://backups/nothing'");
    assert!(why.contains("no backup"), "{why}");
    assert_eq!(number(&mut session, "SELECT 1"), 1);
}

/// A file with keys, whose path is in the environment, that everybody may read.
#[test]
fn keys_that_everybody_may_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let store = Store::start();
    let directory: PathBuf = temporary_directory();
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("keys");
    let text = format!(
        "[other]\naws_access_key_id = x\n[default]\naws_access_key_id = {}\n\
         aws_secret_access_key={}\n",
        store.access, store.secret
    );
    std::fs::write(&file, text).unwrap();
    let list = |mode: u32| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let mut command = Command::new(binary());
        command.args(["backup", "prune", "s3://backups", "--keep=1"]);
        command.env("AWS_ENDPOINT_URL_S3", format!("http://127.0.0.1:{}", store.port));
        command.env("AWS_SHARED_CREDENTIALS_FILE", Path::new(&file));
        run(command)
    };
    let (open, closed) = (list(0o644), list(0o600));
    assert!(String::from_utf8_lossy(&open.stderr).contains("chmod"));
    assert!(closed.status.success(), "{}", String::from_utf8_lossy(&closed.stderr));
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn an_object_store_is_known_by_its_certificate() {
    let directory = temporary_directory();
    std::fs::create_dir_all(&directory).unwrap();
    let (certificate, key) = (directory.join("certificate"), directory.join("key"));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    openssl.args(["-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:false"]);
    openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    assert!(run(openssl).status.success());
    let store = Store::start_with(&[&certificate, &key]);
    let prune = |authorities: Option<&Path>| {
        let mut command = Command::new(binary());
        command.args(["backup", "prune", "s3://backups", "--keep=1"]);
        command.env("AWS_ENDPOINT_URL_S3", format!("https://127.0.0.1:{}", store.port));
        command.env("AWS_ACCESS_KEY_ID", &store.access);
        command.env("AWS_SECRET_ACCESS_KEY", &store.secret);
        command.envs(authorities.map(|file| ("SSL_CERT_FILE", file)));
        let output = run(command);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(prune(Some(&certificate)), (true, String::new()));
    let (is_done, why) = prune(None);
    assert!(!is_done && why.contains("ertificate"), "{why}");
    let _ = std::fs::remove_dir_all(&directory);
}

/// An archive in a store that hangs says so and goes on when the store does.
#[test]
fn an_archive_in_an_object_store_outlives_its_pauses() {
    let store = Store::start();
    let server = Server::start_with(&store.environment(&store.secret), &["--workers=2"]);
    let mut session = server.session().unwrap();
    all(&mut session, &["CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)"]);
    let place = "s3://backups/archive";
    all(&mut session, &[&format!("START ARCHIVE INTO '{place}' WITH max_lag = 2")]);
    let wait = |session: &mut Session, what: &str, is_so: &dyn Fn(&str, u64, u64) -> bool| {
        let began = Instant::now();
        loop {
            let rows = session.query("SHOW ARCHIVES").expect("it is shown");
            let text = |column: usize| rows[0][column].clone().unwrap_or_default();
            let number = |column: usize| text(column).parse().unwrap_or(0);
            if is_so(&text(3), number(5), number(6)) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(90), "no {what}: {rows:?}");
            thread::sleep(Duration::from_millis(100));
        }
    };
    let archived = |session: &mut Session| {
        let epoch = number(session, "SELECT @@nines_last_commit_epoch") as u64;
        wait(session, "segment", &|_, base, newest| base > 0 && newest >= epoch);
        epoch
    };
    wait(&mut session, "full backup", &|_, base, _| base > 0);
    all(&mut session, &["INSERT INTO shop.t VALUES (1, 1)"]);
    let first = archived(&mut session);
    signal(&store.process, "STOP");
    all(&mut session, &["UPDATE shop.t SET v = 2", "INSERT INTO shop.t VALUES (2, 2)"]);
    wait(&mut session, "word of the store", &|state, _, _| {
        state.contains("has not taken a segment")
    });
    all(&mut session, &["DELETE FROM shop.t WHERE id = 1"]);
    signal(&store.process, "CONT");
    // Some answers are lost, whose requests were carried out.
    store.fault("break", 5);
    let last = archived(&mut session);
    wait(&mut session, "running archive", &|state, _, _| state == "running");
    all(&mut session, &["STOP ARCHIVE"]);
    for (epoch, into, sum) in [(first, "one", 1), (last, "two", 2)] {
        let order =
            format!("RESTORE TABLE shop.t AS shop.{into} FROM '{place}' UNTIL EPOCH {epoch}");
        all(&mut session, &[&order]);
        assert_eq!(number(&mut session, &format!("SELECT SUM(v) FROM shop.{into}")), sum);
    }
    let verified = store.offline(&["verify", place]);
    assert!(verified.status.success(), "{verified:?}");
}

fn signal(process: &Child, name: &str) {
    let mut command = Command::new("kill");
    command.args([&format!("-{name}"), &process.id().to_string()]);
    let output = run(command);
    assert!(output.status.success(), "{output:?}");
}
