//! `nines import mysql://…`: databases of a MariaDB server, or of another cluster, are brought here
//! while they are written to.

use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SQL};
use tests::mariadb::MariaDb;
use tests::{Place, Session, all, binary, number, run, text_of};

use crate::following::{OTHER, PATIENCE, client, cluster, compare, execute, log, open};

/// The schema and the changes of all types.
const TYPES: &str = include_str!("replication/types.sql");

/// A MariaDB server, a cluster, and an account that may import.
struct Bench {
    source: MariaDb,
    port: u16,
    cluster: Processes,
    session: Session,
    place: Place,
}

impl Bench {
    fn new(options: &[&str]) -> Self {
        let (source, port) = MariaDb::start_source(5, options);
        let mut root = source.session().expect("MariaDB lets root in");
        all(
            &mut root,
            &[
                "CREATE USER mig@localhost IDENTIFIED BY 'se''cret'",
                "GRANT SELECT, RELOAD, SHOW VIEW, TRIGGER, EVENT, REPLICATION SLAVE, \
                 BINLOG MONITOR, READ_ONLY ADMIN ON *.* TO mig@localhost",
            ],
        );
        let (cluster, session) = cluster(9);
        let place = Place::new();
        std::fs::write(place.at("password"), "se'cret\n").expect("it is written");
        Self { source, port, cluster, session, place }
    }

    /// The command that imports databases, with more options.
    fn command(&self, databases: &str, options: &[&str]) -> Command {
        self.command_of(&format!("mysql://mig@127.0.0.1:{}/{databases}", self.port), options)
    }

    fn command_of(&self, address: &str, options: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.env("NINES_SQL_SOCKET", self.cluster.socket(SQL)).current_dir(&self.place.0);
        command.args(["import", address, "--source-password-file", "password"]).args(options);
        command
    }

    fn import(&self, databases: &str, options: &[&str]) -> Output {
        run(self.command(databases, options))
    }

    fn done(&self, databases: &str, options: &[&str]) -> String {
        text_of(&self.import(databases, options), "nines import")
    }

    fn refused(&self, databases: &str, options: &[&str]) -> String {
        refused(&self.import(databases, options))
    }

    /// Tables are alike here and at the source.
    fn compare(&self, tables: &[&str]) {
        compare(|| self.source.client(), || client(&self.cluster, OTHER), tables);
    }

    fn databases(&mut self, like: &str) -> i64 {
        let asked = format!(
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE '{like}'"
        );
        number(&mut self.session, &asked)
    }

    fn is_read_only(&self) -> bool {
        let mut session = self.source.session().expect("MariaDB lets root in");
        number(&mut session, "SELECT @@global.read_only") == 1
    }

    fn channels(&mut self) -> usize {
        self.session.query("SHOW REPLICA STATUS").expect("it may be asked").len()
    }

    /// Files that imports have left.
    fn journals(&self) -> usize {
        let files = std::fs::read_dir(&self.place.0).expect("it is there");
        let is_journal = |file: &std::fs::DirEntry| file.path().extension().is_some();
        files.map(|file| file.expect("it is there")).filter(is_journal).count()
    }
}

fn refused(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    text
}

const MORE: &str = r#"
CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE shop;
SET sql_mode = '';
CREATE TABLE child (id INT AUTO_INCREMENT PRIMARY KEY, p BIGINT UNSIGNED NOT NULL, note VARCHAR(30),
    KEY by_note (note), CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id)
    ON DELETE CASCADE, CHECK (note <> 'never'))
    ENGINE=InnoDB AUTO_INCREMENT=1000 PAGE_CHECKSUM=1 ROW_FORMAT=DYNAMIC;
CREATE TABLE parent (id BIGINT UNSIGNED PRIMARY KEY, made TIMESTAMP NOT NULL DEFAULT
    current_timestamp() ON UPDATE current_timestamp(), t DATETIME(3) DEFAULT current_timestamp(3),
    price DECIMAL(10,2) DEFAULT 0.00, twice DECIMAL(12,2) GENERATED ALWAYS AS (price * 2) STORED,
    v DECIMAL(12,2) AS (price + 1) VIRTUAL, l VARCHAR(20) CHARACTER SET latin1, f FLOAT,
    z DATE, j JSON, `odd ``name` INT, UNIQUE KEY u (l),
    k CHAR(36) NOT NULL DEFAULT uuid(), txt TEXT NOT NULL DEFAULT 'it''s',
    CHECK (price < 1e9)) COMMENT='it''s';
"#;

const ROWS: &str = r#"USE shop; SET sql_mode = ''; SET NAMES utf8mb4;
INSERT INTO parent (id, price, l, f, z, j, `odd ``name`) VALUES
    (1, 1.25, 'ä', 0.1, '0000-00-00', '{"a":  [1, "x"]}', 1),
    (2, -3, '', 16777215, '2024-02-30', NULL, NULL),
    (18446744073709551615, 99999999.99, 'x''); DROP TABLE child; --', 1.17549e-38,
        '9999-12-31', '1', 0);
INSERT INTO child VALUES (7, 1, 'seven'), (8, 2, NULL), (5000, 1, 'back\\slash');
DELETE FROM child WHERE id = 5000;
CREATE TABLE large (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB);
INSERT INTO large SELECT seq, repeat(char(97 + seq using utf8mb4), 700000 * seq),
    repeat(unhex('00275cff0a'), 300000 * seq) FROM seq_1_to_5;
CREATE TABLE loose (a INT, b VARCHAR(10)); INSERT INTO loose SELECT seq % 7, 'x' FROM seq_1_to_3000;
CREATE TABLE many (id INT PRIMARY KEY, n INT, KEY (n));
INSERT INTO many SELECT seq * 3, seq % 100 FROM seq_1_to_120000; ANALYZE TABLE many;
CREATE VIEW b_of AS SELECT id, price FROM parent WHERE price > 0;
CREATE VIEW a_of AS SELECT b_of.id AS id, count(0) AS n
    FROM b_of JOIN child c ON c.p = b_of.id GROUP BY b_of.id;
CREATE TRIGGER counts AFTER INSERT ON child FOR EACH ROW
    UPDATE parent SET price = price + 1 WHERE id = NEW.p;
"#;

#[test]
fn a_mariadb_server_is_imported_with_all_types_and_followed_to_the_switch() {
    let mut bench = Bench::new(&[]);
    let half = TYPES.find("-- half").expect("it is marked");
    execute(bench.source.client(), &TYPES[..half]);
    // A child may be made before its parent there, too.
    execute(
        bench.source.client(),
        &MORE.replace("USE shop;", "USE shop; SET foreign_key_checks=0;"),
    );
    execute(bench.source.client(), ROWS);
    let told = bench.done("r,shop", &["--check"]);
    assert!(told.contains("2 views can be imported"), "{told}");
    assert_eq!((bench.databases("shop"), bench.journals()), (0, 0), "a check leaves nothing");
    let output = bench.import("r,shop", &["--jobs", "3"]);
    let told = text_of(&output, "nines import");
    for part in ["has caught up", "--switch --set-source-read-only", "STOP REPLICA"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("trigger shop.counts"), "{warned}");
    assert_eq!(bench.journals(), 0);
    let tables = ["r.ty", "r.big", "r.u", "r.nopk", "r.p", "r.ch", "r.docs"];
    bench.compare(&tables);
    let tables = [
        "shop.parent",
        "shop.child",
        "shop.large",
        "shop.loose",
        "shop.many",
        "shop.a_of",
        "shop.b_of",
    ];
    bench.compare(&tables);
    bench.compare(&[
        "(SELECT id, f + 0E0 FROM shop.parent) x",
        "(SELECT id, HEX(b) FROM shop.large) x",
    ]);
    // What is changed there comes here; also definitions.
    execute(bench.source.client(), &format!("USE r; {}", &TYPES[half..]));
    execute(
        bench.source.client(),
        "INSERT INTO shop.child (p, note) VALUES (1, 'by trigger'); \
         DELETE FROM shop.parent WHERE id = 2; ALTER TABLE shop.loose ADD COLUMN c INT DEFAULT 4; \
         DELETE FROM shop.child WHERE note = 'seven'; \
         INSERT INTO shop.child VALUES (7000, 1, 'last'); DELETE FROM shop.child WHERE id = 7000",
    );
    let why = bench.refused("r,shop", &["--switch"]);
    assert!(why.contains("is not read-only"), "{why}");
    let told = bench.done("r,shop", &["--switch", "--set-source-read-only"]);
    assert!(told.contains("are alike") && told.contains("point the clients here"), "{told}");
    assert_eq!(bench.channels(), 0);
    bench.compare(&tables);
    bench.compare(&["r.ty", "r.big", "r.u", "r.nopk2", "r.p", "r.ch", "r.docs"]);
    // Clients go on here: keys that the source has given are not given again.
    all(&mut bench.session, &["INSERT INTO shop.child (p, note) VALUES (1, 'here')"]);
    assert!(number(&mut bench.session, "SELECT MAX(id) FROM shop.child") > 7_000);
    let orphan = bench.session.execute("INSERT INTO shop.child (p) VALUES (77)").unwrap_err();
    assert_eq!(orphan.code(), Some(1452), "{orphan}");
}

/// Moves money between accounts and writes that down until it ends; how often.
fn move_money(source: &MariaDb, writer: i64, ends: &AtomicBool) -> i64 {
    let mut session = source.session().expect("root");
    let mut moves = 0;
    while !ends.load(Ordering::Relaxed) {
        moves += 1;
        let from = 1 + (moves * 7_919 + writer * 31) % 60_000;
        let to = 1 + (moves * 104_729 + writer) % 60_000;
        let take = format!("UPDATE account SET balance = balance - 1 WHERE id = {from}");
        let give = format!("UPDATE account SET balance = balance + 1 WHERE id = {to}");
        let note = format!("INSERT INTO move (a, b, n) VALUES ({from}, {to}, 1)");
        let text = format!("INSERT INTO note VALUES ('{writer}')");
        for statement in ["USE bank", "BEGIN", &take, &give, &note, &text, "COMMIT"] {
            // A deadlock of the writers is theirs.
            if session.query(statement).is_err() {
                moves -= 1;
                let _ = session.query("ROLLBACK");
                break;
            }
        }
    }
    moves
}

#[test]
fn an_import_from_a_server_that_is_written_to_loses_no_change() {
    import_bank("2");
}

#[test]
fn an_import_by_one_connection_that_locks_nobody_loses_no_change() {
    import_bank("1");
}

/// Imports accounts between which money is moved meanwhile, by so many connections.
fn import_bank(jobs: &str) {
    let mut bench = Bench::new(&[]);
    execute(
        bench.source.client(),
        "CREATE DATABASE bank COLLATE utf8mb4_general_ci; USE bank; \
         CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL); \
         INSERT INTO account SELECT seq, 100 FROM seq_1_to_60000; \
         CREATE TABLE move (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, n INT); \
         CREATE TABLE note (text VARCHAR(20)); ANALYZE TABLE account",
    );
    let ends = AtomicBool::new(false);
    let moves = thread::scope(|scope| {
        let (source, ends) = (&bench.source, &ends);
        let writers: Vec<_> =
            (0..2).map(|writer| scope.spawn(move || move_money(source, writer, ends))).collect();
        let told =
            text_of(&bench.import("bank", &["--jobs", jobs, "--batch", "200"]), "nines import");
        assert!(told.contains("has caught up"), "{told}");
        let why = bench.refused("bank", &["--switch"]);
        assert!(why.contains("is not read-only"), "{why}");
        // Writers that may write to a server which is read-only go on: all of it has to come here.
        let options = ["--switch", "--set-source-read-only", "--no-compare"];
        let why = bench.refused("bank", &options);
        for part in ["was written to meanwhile", "The channel goes on", "not read-only any more"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("it ends")).sum::<i64>()
    });
    assert!(moves > 10, "there was little to miss: {moves}");
    // A difference is found, and keeps from the switch.
    let began = Instant::now();
    while !bench.import("bank", &["--compare"]).status.success() {
        assert!(began.elapsed() < PATIENCE, "{}", bench.refused("bank", &["--compare"]));
    }
    let change = ["UPDATE bank.account SET balance = 7 - balance WHERE id = 7"];
    let more = ["INSERT INTO bank.move VALUES (-1, 0, 0, 0)"];
    all(&mut bench.session, &[change, more].concat());
    let why = bench.refused("bank", &["--switch", "--set-source-read-only"]);
    let count = format!("bank.move: {moves} rows there and {} here", moves + 1);
    for part in ["bank.account: 60000 rows on both sides", &count, "not read-only any more"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(!bench.is_read_only(), "clients may write to the source again");
    assert!(!why.contains("bank.note"), "{why}");
    all(&mut bench.session, &[change, ["DELETE FROM bank.move WHERE id = -1"]].concat());
    let told = bench.done("bank", &["--switch", "--writes-stopped"]);
    assert!(told.contains("3 tables"), "{told}");
    let mut session = open(&bench.cluster, OTHER);
    assert_eq!(number(&mut session, "SELECT SUM(balance) FROM bank.account"), 6_000_000);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM bank.move"), moves);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM bank.note"), moves);
    bench.compare(&["bank.account", "bank.move", "bank.note"]);
    assert_eq!(bench.channels(), 0);
}

#[test]
fn what_an_import_from_a_server_cannot_bring_is_told_together_and_nothing_is_left() {
    let mut bench = Bench::new(&[]);
    execute(
        bench.source.client(),
        "CREATE DATABASE odd COLLATE utf8mb4_general_ci; USE odd; \
         CREATE TABLE good (id INT PRIMARY KEY); INSERT INTO good VALUES (1); \
         CREATE TABLE words (id INT PRIMARY KEY, t TEXT, FULLTEXT KEY (t)); \
         CREATE TABLE isam (id INT) ENGINE=MyISAM; CREATE SEQUENCE s; \
         CREATE TABLE address (ip INET6); \
         CREATE TABLE of_isam (id INT PRIMARY KEY, w INT, FOREIGN KEY (w) REFERENCES words (id)); \
         CREATE VIEW of_words AS SELECT id FROM words; \
         CREATE DATABASE secret; CREATE TABLE secret.t (id INT PRIMARY KEY); \
         CREATE VIEW of_secret AS SELECT id FROM secret.t",
    );
    // What is here is not shown to the source's readers.
    all(&mut bench.session, &["CREATE DATABASE secret", "CREATE TABLE secret.t (id INT)"]);
    let why = bench.refused("odd", &[]);
    for part in [
        "odd.words",
        "odd.of_secret: it names database `secret`",
        "odd.isam: engine MyISAM",
        "odd.s:",
        "odd.address",
        "--skip",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(!why.contains("odd.good"), "{why}");
    assert_eq!((bench.databases("odd"), bench.journals(), bench.channels()), (0, 0, 0));
    let skip = ["words", "isam", "s", "address", "of_secret"].map(|table| format!("odd.{table}"));
    let mut options: Vec<&str> = skip.iter().flat_map(|table| ["--skip", table]).collect();
    let why = bench.refused("odd", &options);
    assert!(why.contains("refers to odd.words") && why.contains("odd.of_words"), "{why}");
    options.extend(["--skip", "odd.of_isam", "--skip", "odd.of_words"]);
    // Values that no statement here can have, or no table.
    execute(
        bench.source.client(),
        "USE odd; SET sql_mode = ''; CREATE TABLE long_one (id INT PRIMARY KEY, b LONGBLOB); \
         INSERT INTO long_one VALUES (1, repeat('x', 3000000)); \
         CREATE TABLE en (id INT PRIMARY KEY, e ENUM('x', 'y')); INSERT INTO en VALUES (1, 'z')",
    );
    all(&mut bench.session, &["SET GLOBAL max_allowed_packet = 4194304"]);
    let why = bench.refused("odd", &options);
    assert!(why.contains("odd.long_one, column b: 6000000 bytes"), "{why}");
    assert!(why.contains("SET GLOBAL max_allowed_packet = "), "{why}");
    assert_eq!((bench.databases("odd"), bench.journals(), bench.channels()), (0, 0, 0));
    let why = bench.refused("odd", &[&options[..], &["--check"]].concat());
    assert!(why.contains("odd.long_one") && why.contains("odd.en, column e: 1 rows"), "{why}");
    all(&mut bench.session, &["SET GLOBAL max_allowed_packet = 67108864"]);
    execute(bench.source.client(), "DROP TABLE odd.en");
    bench.done("odd", &options);
    bench.compare(&["(SELECT id, MD5(b) FROM odd.long_one) x"]);
    execute(bench.source.client(), "DROP TABLE odd.long_one");
    // What is left out stays so.
    execute(
        bench.source.client(),
        "INSERT INTO odd.words VALUES (1, 'x'); INSERT INTO odd.good VALUES (2)",
    );
    // What cannot be read is not alike.
    execute(bench.source.client(), "ALTER TABLE odd.good ENGINE = MyISAM");
    let why = bench.refused("odd", &[&options[..], &["--compare"]].concat());
    assert!(why.contains("odd.good: engine MyISAM"), "{why}");
    execute(bench.source.client(), "ALTER TABLE odd.good ENGINE = InnoDB");
    // A channel that is stopped is found while clients may write.
    options.extend(["--switch", "--set-source-read-only"]);
    all(&mut bench.session, &["STOP REPLICA FOR CHANNEL 'import'"]);
    let why = bench.refused("odd", &options);
    assert!(why.contains("somebody has stopped it"), "{why}");
    assert!(!bench.is_read_only(), "the source was made read-only before the look");
    all(&mut bench.session, &["START REPLICA FOR CHANNEL 'import'"]);
    let told = bench.done("odd", &options);
    assert!(bench.is_read_only());
    assert!(told.contains("1 tables with 2 rows"), "{told}");
    assert_eq!(number(&mut bench.session, "SELECT COUNT(*) FROM odd.good"), 2);
}

#[test]
fn an_import_from_a_server_says_first_what_keeps_it_from_working() {
    let mut bench = Bench::new(&["--binlog-row-image=MINIMAL", "--binlog-format=MIXED"]);
    execute(
        bench.source.client(),
        "CREATE DATABASE shop COLLATE utf8mb4_general_ci; \
         CREATE TABLE shop.t (id INT PRIMARY KEY); \
         CREATE USER poor@localhost; GRANT SELECT ON shop.* TO poor@localhost",
    );
    let why = bench.refused("shop", &[]);
    assert!(
        why.contains("binlog_format = MIXED") && why.contains("binlog_row_image = MINIMAL"),
        "{why}"
    );
    let address = format!("mysql://poor@127.0.0.1:{}/shop", bench.port);
    let command = |address: &str, options: &[&str]| {
        let mut command = Command::new(binary());
        command.env("NINES_SQL_SOCKET", bench.cluster.socket(SQL)).current_dir(&bench.place.0);
        command.args(["import", address]).args(options);
        refused(&run(command))
    };
    let why = command(&address, &[]);
    assert!(why.contains("BINLOG MONITOR") && why.contains("REPLICATION SLAVE"), "{why}");
    let secret = format!("mysql://mig:hidden@127.0.0.1:{}/shop", bench.port);
    let why = command(&secret, &[]);
    assert!(why.contains("--source-password-file") && !why.contains("hidden"), "{why}");
    let why = command(&format!("mysql://mig@127.0.0.1:{}/shop", bench.port), &[]);
    assert!(why.contains("1045"), "{why}");
    let why = command(&format!("{address},nosuch"), &["--no-follow"]);
    assert!(why.contains("no database `nosuch`"), "{why}");
    assert!(command(&address, &["--source-tls-ca", "/nosuch"]).contains("encrypt"), "no TLS there");
    assert!(command(&address, &["--format", "csv"]).contains("--format is for an import of files"));
    assert!(command("shop.t", &["x.csv", "--switch"]).contains("from a server"));
    all(&mut bench.session, &["CREATE DATABASE shop", "CREATE TABLE shop.mine (id INT)"]);
    let why = bench.refused("shop", &["--no-follow"]);
    assert!(why.contains("database `shop` is there and has 1 tables"), "{why}");
    all(&mut bench.session, &["DROP TABLE shop.mine"]);
    // The account may not lock: one connection needs no lock there.
    let mut command = Command::new(binary());
    command.env("NINES_SQL_SOCKET", bench.cluster.socket(SQL)).current_dir(&bench.place.0);
    command.args(["import", &address, "--no-follow"]);
    let told = text_of(&run(command), "nines import");
    assert!(told.contains("0 rows of 1 tables"), "{told}");
    assert_eq!(bench.channels(), 0);
}

#[test]
fn an_import_from_a_server_leaves_channels_and_tables_of_others_alone() {
    let mut bench = Bench::new(&[]);
    let tables: String = (0..60)
        .map(|table| format!("CREATE TABLE many.a{table} (id INT PRIMARY KEY, n INT, KEY (n)); "))
        .collect();
    execute(
        bench.source.client(),
        &format!(
            "CREATE DATABASE shop COLLATE utf8mb4_general_ci; CREATE TABLE shop.t (id INT PRIMARY \
             KEY); CREATE DATABASE crm COLLATE utf8mb4_general_ci; CREATE TABLE crm.t (id INT \
             PRIMARY KEY); CREATE DATABASE many COLLATE utf8mb4_general_ci; {tables} CREATE TABLE \
             many.z (id INT PRIMARY KEY)"
        ),
    );
    bench.done("shop", &[]);
    // An import that had copied, and was to make its channel by the same name.
    let journal = |database: &str, channel_made: bool| {
        let what = format!("127.0.0.1:{} {database} without [], channel import", bench.port);
        let text = format!(
            "{{\"what\": \"{what}\", \"databases\": [], \"tables\": [], \"views\": [], \
             \"copied\": {{\"position\": {{\"file\": \"log.000001\", \"offset\": 4}}, \
             \"rows\": 0}}, \"channel_made\": {channel_made}}}"
        );
        let path = bench.place.at(&format!("127.0.0.1-{}-{database}.nines-import", bench.port));
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let path = journal("crm", false);
    let why = bench.refused("crm", &["--resume"]);
    assert!(why.contains("is of something else") && why.contains("--channel"), "{why}");
    let switch = ["--switch", "--set-source-read-only"];
    let why = bench.refused("crm", &switch);
    assert!(why.contains("is of something else"), "{why}");
    let why = bench.refused("shop", &[&switch[..], &["--skip", "shop.t"]].concat());
    assert!(why.contains("without shop.t"), "{why}");
    assert!(!bench.is_read_only());
    std::fs::remove_file(path).expect("it is there");
    bench.done("shop", &switch);
    execute(bench.source.client(), "SET GLOBAL read_only = OFF");
    // After the switch an old journal begins no channel anew.
    let path = journal("shop", true);
    let why = bench.refused("shop", &["--resume"]);
    assert!(why.contains("was made by this import, and is gone"), "{why}");
    assert_eq!(bench.channels(), 0);
    std::fs::remove_file(path).expect("it is there");
    // Somebody makes a table while the import makes its own.
    let mut command = bench.command("many", &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    let began = Instant::now();
    while bench.session.execute("CREATE TABLE many.z (other INT)").is_err() {
        assert!(began.elapsed() < PATIENCE, "the database was never made");
        thread::sleep(Duration::from_millis(2));
    }
    all(&mut bench.session, &["INSERT INTO many.z VALUES (7)"]);
    let why = bench.refused("many", &[]);
    assert!(why.contains("is under way") || why.contains("1 tables"), "{why}");
    let why = refused(&child.wait_with_output().expect("it ends"));
    assert!(why.contains("many.z") && why.contains("1050"), "{why}");
    assert_eq!(number(&mut bench.session, "SELECT other FROM many.z"), 7);
    let left = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'many'";
    assert_eq!(number(&mut bench.session, left), 1, "what the import has made is gone");
}

/// Rows that take some seconds, at the source.
fn fill(source: &MariaDb, rows: u32) {
    execute(
        source.client(),
        &format!(
            "CREATE DATABASE d COLLATE utf8mb4_general_ci; USE d; \
             CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(100), KEY (n)); \
             INSERT INTO t SELECT seq, seq % 1000, repeat('x', 80) FROM seq_1_to_{rows}; \
             CREATE TABLE loose (n INT, s VARCHAR(100)); \
             INSERT INTO loose SELECT seq, repeat('y', 80) FROM seq_1_to_{rows}; \
             ANALYZE TABLE t"
        ),
    );
}

/// Waits until some rows of an import are here.
fn wait_for_rows(session: &mut Session, child: &mut Child) {
    let began = Instant::now();
    loop {
        let rows = session.number("SELECT COUNT(*) FROM d.t").unwrap_or(0)
            + session.number("SELECT COUNT(*) FROM d.loose").unwrap_or(0);
        if rows > 2_000 {
            return;
        }
        let ended = child.try_wait().expect("it is our child");
        assert!(ended.is_none() && began.elapsed() < PATIENCE, "{ended:?}, {rows} rows");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_import_from_a_server_that_is_killed_is_begun_again() {
    let mut bench = Bench::new(&[]);
    fill(&bench.source, 150_000);
    let options = ["--jobs", "2", "--batch", "100"];
    let mut command = bench.command("d", &options);
    let mut child = command.stderr(Stdio::null()).spawn().expect("it is built");
    wait_for_rows(&mut bench.session, &mut child);
    child.kill().expect("it runs");
    child.wait().expect("it is our child");
    let rows = number(&mut bench.session, "SELECT COUNT(*) FROM d.t");
    assert!(rows < 150_000, "it was done already");
    execute(
        bench.source.client(),
        "UPDATE d.t SET n = -1 WHERE id < 500; DELETE FROM d.loose LIMIT 10",
    );
    let why = bench.refused("d", &options);
    assert!(why.contains("--resume"), "{why}");
    // Somebody else's table is nothing that this import has made.
    all(&mut bench.session, &["CREATE TABLE d.mine (id INT)"]);
    let why = bench.refused("d", &["--resume"]);
    assert!(why.contains("database `d` is there and has 1 tables"), "{why}");
    all(&mut bench.session, &["DROP TABLE d.mine"]);
    let output = bench.import("d", &["--resume"]);
    let told = text_of(&output, "nines import");
    assert!(told.contains("has caught up"), "{told}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("begun again"));
    bench.compare(&["d.t", "d.loose"]);
    assert_eq!(bench.journals(), 0);
    bench.done("d", &["--switch", "--set-source-read-only"]);
}

#[test]
fn an_import_from_a_server_that_is_killed_after_the_copy_goes_on_with_the_channel() {
    let mut bench = Bench::new(&[]);
    // What a role grants is found out when the log is read.
    execute(
        bench.source.client(),
        "CREATE DATABASE d COLLATE utf8mb4_general_ci; USE d; CREATE TABLE t (id INT PRIMARY KEY); \
         INSERT INTO t SELECT seq FROM seq_1_to_100; CREATE ROLE nothing; \
         CREATE USER late@localhost IDENTIFIED BY 'se''cret'; GRANT nothing TO late@localhost",
    );
    let options = ["--replication-user", "late", "--replication-password-file", "password"];
    let mut command = bench.command("d", &options);
    let mut child = command.stderr(Stdio::null()).spawn().expect("it is built");
    let began = Instant::now();
    while of_channel(&mut bench.session, "Last_IO_Error").is_empty() {
        let ended = child.try_wait().expect("it is our child");
        assert!(ended.is_none() && began.elapsed() < PATIENCE, "{ended:?}");
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it is our child");
    assert_eq!(bench.journals(), 1);
    execute(bench.source.client(), "DELETE FROM d.t WHERE id < 50; INSERT INTO d.t VALUES (1000)");
    execute(bench.source.client(), "GRANT REPLICATION SLAVE ON *.* TO late@localhost");
    let resumed = [&options[..], &["--resume"]].concat();
    let output = bench.import("d", &resumed);
    let told = text_of(&output, "nines import");
    assert!(told.contains("100 rows of 1 tables") && told.contains("has caught up"), "{told}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("begun again"));
    bench.compare(&["d.t"]);
    let switched = [&options[..], &["--switch", "--set-source-read-only"]].concat();
    let told = bench.done("d", &switched);
    assert!(told.contains("1 tables with 52 rows are alike"), "{told}");
    assert_eq!(bench.journals(), 0);
}

/// A value of the only channel; empty if there is none.
fn of_channel(session: &mut Session, name: &str) -> String {
    let answer = session.ask("SHOW REPLICA STATUS").expect("it may be asked");
    let at = answer.columns.iter().position(|column| column.name == name).expect("a column");
    answer.rows.first().and_then(|row| row[at].clone()).unwrap_or_default()
}

#[test]
fn an_import_whose_source_restarts_is_begun_again() {
    let mut bench = Bench::new(&[]);
    fill(&bench.source, 100_000);
    let mut command = bench.command("d", &["--jobs", "2", "--batch", "100"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is built");
    wait_for_rows(&mut bench.session, &mut child);
    bench.source.restart();
    let why = refused(&child.wait_with_output().expect("it ends"));
    assert!(
        why.contains("the snapshot of the source is gone") && why.contains("--resume"),
        "{why}"
    );
    execute(
        bench.source.client(),
        "UPDATE d.t SET n = -1 WHERE id % 2 = 0; DELETE FROM d.loose LIMIT 7",
    );
    bench.done("d", &["--resume"]);
    bench.compare(&["d.t", "d.loose"]);
    let told = bench.done("d", &["--switch", "--set-source-read-only", "--no-compare"]);
    assert!(told.contains("not compared"), "{told}");
}

#[test]
fn an_import_from_a_server_goes_on_when_nodes_die() {
    let mut bench = Bench::new(&[]);
    fill(&bench.source, 100_000);
    let mut command = bench.command("d", &["--jobs", "2", "--batch", "100"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is built");
    wait_for_rows(&mut open(&bench.cluster, OTHER), &mut child);
    bench.cluster.kill(&[1]);
    thread::sleep(Duration::from_millis(500));
    // The SQL node that the rows go through, too.
    bench.cluster.kill(&[SQL]);
    bench.cluster.start_node(SQL);
    bench.cluster.start_node(1);
    let output = child.wait_with_output().expect("it ends");
    let told = text_of(&output, "nines import");
    assert!(told.contains("200000 rows of 2 tables") && told.contains("has caught up"), "{told}");
    bench.compare(&["d.t", "d.loose"]);
    bench.done("d", &["--switch", "--set-source-read-only"]);
}

#[test]
fn a_cluster_is_imported_by_another_one() {
    let mut bench = Bench::new(&[]);
    let (other, mut there) = cluster(7);
    log(&mut there);
    all(
        &mut there,
        &[
            "CREATE USER mig@'%' IDENTIFIED BY 'se''cret'",
            "GRANT ALL ON *.* TO mig@'%'",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, j JSON, v VARCHAR(20) \
             CHARACTER SET latin1, b BIT(9), e ENUM('x','y'), UNIQUE (v))",
            "CREATE VIEW d.v AS SELECT id, v FROM d.t",
            "INSERT INTO d.t (j, v, b, e) VALUES ('{\"a\": [1, 2.5]}', 'ä', b'100000001', 'y'), \
             (NULL, NULL, NULL, NULL)",
        ],
    );
    let address = format!("mysql://mig@{}:{}/d", other.address(SQL), other.port(SQL));
    let import = |bench: &Bench, options: &[&str]| run(bench.command_of(&address, options));
    // Connections are encrypted, and its certificate can be verified; or they are not, and the
    // password is sent by its key.
    let authority = other.log(SQL);
    let authority = authority.split("--ssl-ca=").nth(1).and_then(|rest| rest.lines().next());
    let authority = authority.expect("an SQL node names its authority").trim().to_owned();
    for options in [&["--source-tls-ca", &authority][..], &["--source-insecure"]] {
        let told = text_of(&import(&bench, &[options, &["--check"]].concat()), "nines import");
        assert!(told.contains("1 tables and 1 views can be imported"), "{told}");
    }
    let why = refused(&import(&bench, &["--source-tls-ca", "/nosuch", "--check"]));
    assert!(why.contains("nosuch"), "{why}");
    let verified = ["--source-tls-ca", &authority];
    let told = text_of(&import(&bench, &verified), "nines import");
    assert_eq!(of_channel(&mut bench.session, "Source_SSL_Verify_Server_Cert"), "Yes");
    assert!(told.contains("2 rows of 1 tables") && told.contains("has caught up"), "{told}");
    all(
        &mut there,
        &["INSERT INTO d.t (v) VALUES ('later')", "UPDATE d.t SET e = 'x' WHERE id = 1"],
    );
    let why = refused(&import(&bench, &["--switch"]));
    assert!(why.contains("--writes-stopped"), "{why}");
    let told = text_of(&import(&bench, &["--switch", "--writes-stopped"]), "nines import");
    assert!(told.contains("1 tables with 3 rows are alike"), "{told}");
    compare(|| client(&other, SQL), || client(&bench.cluster, OTHER), &["d.t", "d.v"]);
    assert_eq!(bench.channels(), 0);
}
