//! Files of the server: what SELECT … INTO OUTFILE writes, LOAD DATA INFILE reads, and no statement
//! reaches a file that it may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use tests::{Server, temporary_directory};

/// A server with a directory for files, and a directory beside that one.
struct Bench {
    server: Server,
    directory: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let directory = temporary_directory();
        fs::create_dir(directory.join("files")).expect("a directory of its own");
        let files = directory.join("files").display().to_string();
        let server = Server::start(&["--secure-file-priv", &files]);
        Bench { server, directory }
    }

    fn file(&self, name: &str) -> String {
        self.directory.join("files").join(name).display().to_string()
    }

    fn refusal(&self, statement: &str) -> String {
        let output = self.server.try_sql(statement);
        assert!(!output.status.success(), "{statement}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left over is in a directory of temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const ROWS: &str = r#"CREATE DATABASE d; USE d;
    CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(50), b VARBINARY(50), n DECIMAL(10,2),
        e ENUM('x','y'), w DATETIME(3), j JSON);
    INSERT INTO a VALUES
        (1, 'plain é', 0x0001FF0A, 1.50, 'y', '2026-01-02 03:04:05.678', '{"k": "a\\tb"}'),
        (2, 'tab\tline\nback\\slash"quote",n;;', NULL, NULL, NULL, NULL, NULL),
        (3, '', '', -7, 'x', '1000-01-01', '[]'),
        (4, 'NULL', '\\N', 0, 'x', '1000-01-01', '"N"');
    CREATE TABLE c LIKE a;"#;

#[test]
fn what_is_written_to_a_file_is_loaded_from_it() {
    let bench = Bench::new();
    bench.server.sql(ROWS);
    let rows = |table: &str| {
        let shown = "SELECT id, HEX(t), HEX(b), n, e, w, j FROM";
        bench.server.sql(&format!("{shown} d.{table} ORDER BY id"))
    };
    let forms = [
        "",
        "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n'",
        "FIELDS TERMINATED BY '|' ENCLOSED BY 'n' LINES STARTING BY '>>'",
        "FIELDS TERMINATED BY ';;' ESCAPED BY '!'",
    ];
    for (number, form) in forms.into_iter().enumerate() {
        let path = bench.file(&format!("form{number}"));
        bench.server.sql(&format!(
            "SELECT * FROM d.a INTO OUTFILE '{path}' {form}; TRUNCATE d.c; \
             LOAD DATA INFILE '{path}' INTO TABLE d.c CHARACTER SET binary {form}"
        ));
        assert_eq!(rows("c"), rows("a"), "{form}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7, 0, "others may not read it: {mode:o}");
    }
}

#[test]
fn files_have_the_bytes_that_are_asked_for() {
    let bench = Bench::new();
    bench.server.sql(ROWS);
    let bytes = |name: &str, query: &str, form: &str| {
        let path = bench.file(name);
        bench.server.sql(&format!("USE d; {query} INTO OUTFILE '{path}' {form}"));
        fs::read(path).unwrap()
    };
    let columns = "SELECT t, n FROM a WHERE id IN (1, 3) ORDER BY id";
    assert_eq!(bytes("plain", columns, ""), "plain é\t1.50\n\t-7.00\n".as_bytes());
    let latin1 = bytes("latin1", columns, "CHARACTER SET latin1 FIELDS ENCLOSED BY '\"'");
    assert_eq!(latin1, b"\"plain \xE9\"\t\"1.50\"\n\"\"\t\"-7.00\"\n");
    let csv = "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''";
    assert_eq!(bytes("csv", "SELECT 'a\"b', NULL, 5", csv), b"\"a\"b\",NULL,5\n");
    assert_eq!(bytes("none", "SELECT 1 FROM a WHERE FALSE", ""), b"");
    let path = bench.file("dump");
    bench.server.sql(&format!("SELECT b, t FROM d.a WHERE id = 1 INTO DUMPFILE '{path}'"));
    assert_eq!(fs::read(path).unwrap(), [b"\0\x01\xFF\n", "plain é".as_bytes()].concat());
    // Many rows, in parts, and as many are told.
    let path = bench.file("many");
    bench.server.sql(&format!(
        "CREATE TABLE d.m (id INT PRIMARY KEY, v CHAR(100)); \
         INSERT INTO d.m WITH RECURSIVE r AS \
         (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 1000) SELECT a.n * 1000 + b.n, \
         REPEAT('v', 100) FROM r a JOIN r b ON b.n <= 20; \
         SELECT * FROM d.m INTO OUTFILE '{path}'; CREATE TABLE d.k LIKE d.m; \
         LOAD DATA INFILE '{path}' INTO TABLE d.k"
    ));
    let counts =
        bench.server.sql("SELECT COUNT(*), SUM(id) FROM d.m; SELECT COUNT(*), SUM(id) FROM d.k");
    let counts: Vec<&str> = counts.lines().collect();
    assert!(counts[0].starts_with("20000\t"), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn no_statement_reaches_other_files() {
    let bench = Bench::new();
    bench.server.sql(ROWS);
    fs::write(bench.directory.join("secret"), "secret\n").unwrap();
    symlink(bench.directory.join("secret"), bench.file("link")).unwrap();
    fs::write(bench.file("there"), "1\n").unwrap();
    let outside = bench.directory.join("secret").display().to_string();
    for path in [&*outside, &bench.file("../secret"), &bench.file("link"), "/proc/self/environ"] {
        let error = bench.refusal(&format!("LOAD DATA INFILE '{path}' INTO TABLE d.c"));
        assert!(error.contains("ERROR 1290"), "{path}: {error}");
    }
    for path in ["/etc/nines-new", &bench.file("../new"), &*outside] {
        let error = bench.refusal(&format!("SELECT 1 INTO OUTFILE '{path}'"));
        assert!(error.contains("ERROR 1290") && error.contains("secure-file-priv"), "{error}");
    }
    for (statement, code) in
        [("SELECT 1 INTO OUTFILE", "ERROR 1086"), ("SELECT 1 INTO DUMPFILE", "ERROR 1086")]
    {
        let error = bench.refusal(&format!("{statement} '{}'", bench.file("there")));
        assert!(error.contains(code), "{error}");
    }
    // A pipe would hold the thread up, and a link would make a file elsewhere.
    let pipe = bench.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = bench.refusal(&format!("LOAD DATA INFILE '{pipe}' INTO TABLE d.c"));
    assert!(error.contains("ERROR 1290") || error.contains("ERROR 29 "), "{error}");
    let elsewhere = bench.directory.join("elsewhere");
    symlink(&elsewhere, bench.file("dangling")).unwrap();
    for name in ["dangling", "pipe"] {
        let error = bench.refusal(&format!("SELECT 1 INTO OUTFILE '{}'", bench.file(name)));
        assert!(error.contains("ERROR 1086") || error.contains("ERROR 1290"), "{error}");
    }
    assert!(!fs::exists(&elsewhere).unwrap());
    let missing = bench.file("missing");
    let error = bench.refusal(&format!("LOAD DATA INFILE '{missing}' INTO TABLE d.c"));
    assert!(error.contains("ERROR 29 ") && error.contains("No such file"), "{error}");
    // A statement that fails leaves no file.
    let half = bench.file("half");
    let error = bench.refusal(&format!("SELECT id FROM d.a INTO DUMPFILE '{half}'"));
    assert!(error.contains("ERROR 1172"), "{error}");
    for _ in 0..500 {
        if !fs::exists(&half).unwrap() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!fs::exists(&half).unwrap());
    // Without LOCAL a row that cannot be stored ends the statement.
    let path = bench.file("bad");
    fs::write(&path, "1\tone\n1\ttwo\n").unwrap();
    let load = format!("LOAD DATA INFILE '{path}'");
    let error = bench.refusal(&format!("{load} INTO TABLE d.c (id, t)"));
    assert!(error.contains("ERROR 1062"), "{error}");
    assert_eq!(bench.server.sql("SELECT COUNT(*) FROM d.c").trim(), "0");
    bench.server.sql(&format!("{load} IGNORE INTO TABLE d.c (id, t)"));
    assert_eq!(bench.server.sql("SELECT t FROM d.c").trim(), "one");
    let error = bench.refusal(&format!("{load} REPLACE INTO TABLE d.c"));
    assert!(error.contains("ERROR 1261"), "{error}");
    // FILE is needed.
    bench.server.sql("CREATE USER u; GRANT ALL ON d.* TO u; SET GLOBAL local_infile = 1");
    let mut client = bench.server.client("mysql");
    client.args(["-uu", "-e", "SELECT 1 INTO OUTFILE 'x'"]);
    let error = String::from_utf8(client.output().unwrap().stderr).unwrap();
    assert!(error.contains("ERROR 1045") || error.contains("ERROR 1227"), "{error}");
}

#[test]
fn without_a_directory_there_are_no_files() {
    let server = Server::start(&[]);
    let output = server.try_sql("SELECT 1 INTO OUTFILE '/tmp/nines-never'");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("ERROR 1290") && error.contains("--secure-file-priv"), "{error}");
    assert_eq!(server.sql("SELECT @@secure_file_priv IS NULL").trim(), "1");
}
