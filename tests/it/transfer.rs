//! `nines import` and `nines export`: what is written is read, and nothing is there twice.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tests::{Server, binary, number, run, temporary_directory, text_of};

struct Bench {
    server: Server,
    directory: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let directory = temporary_directory();
        fs::create_dir_all(&directory).expect("a directory for the test");
        Self { server: Server::start(&["--workers=2"]), directory }
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.directory.join(name);
        fs::write(&path, text).expect("a file of the test");
        path.display().to_string()
    }

    fn at(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.env("NINES_SQL_SOCKET", &self.server.socket).args(arguments);
        command
    }

    fn nines(&self, arguments: &[&str]) -> Output {
        run(self.command(arguments))
    }

    fn done(&self, arguments: &[&str]) -> String {
        text_of(&self.nines(arguments), "nines")
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.nines(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn checksum(&self, table: &str) -> String {
        let line = self.server.sql(&format!("CHECKSUM TABLE {table}"));
        line.split_whitespace().nth(1).expect("a sum").to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const TABLES: &str = r#"CREATE DATABASE d; USE d;
    CREATE TABLE a (id BIGINT PRIMARY KEY, t TEXT, b VARBINARY(300), n DECIMAL(30,10),
        f DOUBLE, e ENUM('x','y'), s SET('q','r'), w DATETIME(3), z TIMESTAMP(6) NULL, y YEAR,
        h TIME, j JSON, i BIT(9), u INT UNSIGNED ZEROFILL, g BIGINT AS (id + 1) STORED,
        `odd,"name` VARCHAR(20));
    INSERT INTO a (id, t, b, n, f, e, s, w, z, y, h, j, i, u, `odd,"name`) VALUES
        (1, 'plain é €', 0x0001FF0A, 12345678901234567890.0123456789, 1e300, 'y', 'q,r',
            '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901', 2026, '-12:34:56',
            '{"k": "a\\tb", "n": [1, null]}', b'100000001', 5, 'x'),
        (2, 'tab\tline\nback\\slash"quote",n;;\r', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL),
        (3, '', '', -7, -0.1, 'x', '', '1000-01-01', '1970-01-02', 1999, '00:00:00', '[]', 0, 0,
            ''),
        (-9000000000000000000, 'NULL', '\\N', 0, 0, 'x', 'q', '1000-01-01', NULL, 2000, '1:1:1',
            '"N"', 1, 4294967295, '\\N');
    CREATE TABLE c LIKE a;"#;

#[test]
fn what_is_exported_is_imported() {
    let bench = Bench::new();
    bench.server.sql(TABLES);
    let expected = bench.checksum("d.a");
    for (at, options) in [
        &["--format", "csv"][..],
        &["--format", "csv", "--null", "NULL", "--delimiter", ";", "--binary", "base64"],
        &["--format", "tsv", "--files", "1"],
        &["--format", "jsonl", "--binary", "base64", "--jobs", "1"],
    ]
    .into_iter()
    .enumerate()
    {
        let into = bench.at(&format!("out{at}"));
        let told = bench.done(&[&["export", "d.a", "--into", &into], options].concat());
        assert!(told.contains("4 rows of d.a exported"), "{told}");
        let mut files: Vec<String> = fs::read_dir(&into)
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect();
        files.sort();
        let is_one = options.contains(&"--files");
        assert_eq!(files.len(), if is_one { 1 } else { 16 }, "{files:?}");
        bench.server.sql("TRUNCATE d.c");
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let given: Vec<&str> =
            options.iter().copied().filter(|option| !["--files", "1"].contains(option)).collect();
        let given: Vec<&str> = given.into_iter().filter(|option| *option != "--jobs").collect();
        let told = bench.done(&[&["import", "d.c"], &files[..], &given].concat());
        assert!(told.contains("4 rows imported into d.c"), "{told}");
        assert_eq!(bench.checksum("d.c"), expected, "{options:?}");
        let left = fs::read_dir(&into).unwrap().count();
        assert_eq!(left, files.len(), "no journal and no plan is left");
    }
    // By pipes, of some columns and rows.
    let text = bench.done(&[
        "export",
        "d.a",
        "--into",
        "-",
        "--columns",
        "id,t",
        "--where",
        "id > 2",
        "--no-head",
    ]);
    assert_eq!(text, "3,\"\"\n");
    bench.server.sql("TRUNCATE d.c");
    let mut command =
        bench.command(&["import", "d.c", "-", "--columns", "id,t", "--no-head", "--jobs", "1"]);
    command.stdin(Stdio::from(fs::File::open(bench.file("piped", text)).unwrap()));
    assert!(run(command).status.success());
    assert_eq!(bench.server.sql("SELECT id, t = '' FROM d.c"), "3\t1\n");
}

#[test]
fn errors_name_the_file_and_the_line() {
    let bench = Bench::new();
    bench.server.sql(TABLES);
    bench.server.sql("CREATE TABLE d.k (id INT PRIMARY KEY, v VARCHAR(5) NOT NULL, n INT)");
    let count = || bench.server.sql("SELECT COUNT(*) FROM d.k").trim().to_owned();
    let rows = bench.file("rows.csv", "id,v,n\n1,a,1\n2,\"two\nlines\",2\n3,c,x\n4,d,4\n");
    for (name, text, options, parts) in [
        ("1.csv", "id,v\n1,a\n2\n", &[][..], &["line 3", "1 values for 2 columns"][..]),
        ("2.csv", "id,w\n1,a\n", &[], &["no column `w`", "id, v, n"]),
        ("3.csv", "id,v\n1,\"a\n", &[], &["line 2", "never closed"]),
        ("4.csv", "id,v\n1,toolong\n", &[], &["line 2", "error 1406"]),
        ("5.jsonl", "{\"id\": 1, \"v\": \"a\"}\n{\"id\":", &[], &["line 2"]),
        ("6.csv", "id,v\n1,\u{fffd}x", &["--encoding", "utf16le"], &["no UTF-16"]),
        ("7.csv", "id,v\n1,\n", &[], &["line 2", "error 1048"]),
        ("8.parquet", "PAR1", &[], &["Parquet is not read"]),
    ] {
        let file = bench.file(name, text);
        let why = bench.refused(&[&["import", "d.k", &file], options].concat());
        assert!(parts.iter().all(|part| why.contains(part)), "{name}: {why}");
        assert!(!fs::exists(format!("{file}.nines-import")).unwrap(), "{name}: nothing was done");
        bench.server.sql("TRUNCATE d.k");
    }
    let why = bench.refused(&["import", "d.none", &rows]);
    assert!(why.contains("no such table"), "{why}");
    let why = bench.refused(&["import", "d.k", &rows, "--socket", "/nowhere"]);
    assert!(why.contains("/nowhere"), "{why}");
    // One row is refused: the others may be there, and it is told which.
    let file = bench.file("skip.csv", fs::read(&rows).unwrap());
    let output = bench.nines(&["import", "d.k", &file, "--max-errors", "2"]);
    let told = text_of(&output, "nines");
    assert!(told.contains("2 rows imported") && told.contains("2 left out"), "{told}");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("line 3") && shown.contains("line 5"), "{shown}");
    assert_eq!(count(), "2");
    // Keys that are there.
    let file = bench.file("dup.csv", "id,v,n\n1,z,9\n5,e,5\n");
    assert!(bench.refused(&["import", "d.k", &file]).contains("error 1062"));
    let ignore = bench.file("ign.csv", "id,v,n\n1,z,9\n6,e,5\n");
    bench.done(&["import", "d.k", &ignore, "--on-duplicate", "ignore"]);
    assert_eq!(bench.server.sql("SELECT v FROM d.k WHERE id = 1"), "a\n");
    let replace = bench.file("rep.csv", "id,v,n\n1,z,9\n");
    bench.done(&["import", "d.k", &replace, "--on-duplicate", "replace"]);
    assert_eq!(bench.server.sql("SELECT v FROM d.k WHERE id = 1"), "z\n");
}

/// An import is killed in the middle, again and again, and resumed: each row is there once.
#[test]
fn an_import_that_is_killed_is_resumed() {
    let bench = Bench::new();
    bench.server.sql("CREATE DATABASE d; CREATE TABLE d.k (id INT PRIMARY KEY, v VARCHAR(100))");
    let rows = 60_000;
    let text: String = (1..=rows).map(|id| format!("{id},\"value {id}\"\n")).collect();
    let file = bench.file("rows.csv", format!("id,v\n{text}"));
    let arguments = ["import", "d.k", &file, "--batch", "10", "--jobs", "2"];
    let mut session = bench.server.session().unwrap();
    let mut count = || number(&mut session, "SELECT COUNT(*) FROM d.k");
    let mut kills = 0;
    let mut more = Vec::new();
    while kills < 3 {
        let mut command = bench.command(&[&arguments[..], &more].concat());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = count();
        while count() < before + 1_000 && process.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        kills += 1;
        more = vec!["--resume"];
    }
    assert!(count() < rows, "it was not killed in the middle");
    assert!(bench.refused(&arguments).contains("--resume"));
    let told = bench.done(&[&arguments[..], &["--resume"]].concat());
    assert!(told.contains("rows imported"), "{told}");
    let sums = bench.server.sql("SELECT COUNT(*), SUM(id), SUM(v = CONCAT('value ', id)) FROM d.k");
    assert_eq!(sums.trim(), format!("{rows}\t{}\t{rows}", rows * (rows + 1) / 2));
    assert!(!fs::exists(format!("{file}.nines-import")).unwrap());
}

#[test]
fn passwords_are_proven() {
    let bench = Bench::new();
    bench.server.sql(
        "CREATE DATABASE d; CREATE TABLE d.k (id INT PRIMARY KEY); \
         CREATE USER loader IDENTIFIED BY 'it''s S3cret'; GRANT ALL ON d.* TO loader",
    );
    let file = bench.file("rows.csv", "id\n1\n2\n");
    let right = bench.file("right", "it's S3cret\n");
    let wrong = bench.file("wrong", "no\n");
    let host = format!("127.0.0.1:{}", bench.server.port);
    let as_loader = ["import", "d.k", &file, "--user", "loader", "--password-file"];
    let why = bench.refused(&[&as_loader[..], &[&wrong]].concat());
    assert!(why.contains("1045"), "{why}");
    bench.done(&[&as_loader[..], &[&right]].concat());
    // By now the server knows what proves it.
    let mut command = Command::new(binary());
    command.args(["export", "d.k", "--into", "-", "--host", &host]);
    command.args(["--user", "loader", "--password-file", &right]);
    assert_eq!(text_of(&run(command), "nines"), "id\n1\n2\n");
    let help = text_of(&bench.nines(&["import", "--help"]), "nines");
    assert!(help.contains("--resume") && help.contains("orders.csv"), "{help}");
}
