//! BACKUP and RESTORE: what comes back, into which clusters, and what is noticed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL};
use tests::{Place, Server, Session, all, binary, number, refused, run, said};

/// What a table comes to, whatever holds it.
fn sum(session: &mut Session, table: &str, columns: &str) -> i64 {
    let columns = columns.split(' ').map(|column| format!("COALESCE(HEX({column}), 'null')"));
    let row = columns.collect::<Vec<_>>().join(", ',', ");
    number(session, &format!("SELECT CAST(SUM(CRC32(CONCAT({row}))) AS SIGNED) FROM {table}"))
}

const PARENT: &str = "id name note";
const CHILD: &str = "id pid v d j g h";
const PLAIN: &str = "b e s t u";

fn sums(session: &mut Session, database: &str) -> [i64; 3] {
    [("parent", PARENT), ("child", CHILD), ("plain", PLAIN)]
        .map(|(table, columns)| sum(session, &format!("{database}.{table}"), columns))
}

/// Tables of all sorts: large values, generated columns, keys of expressions and of beginnings,
/// foreign keys, no primary key, a column that was dropped, a view.
fn make_shop(session: &mut Session) {
    all(
        session,
        &[
            "CREATE DATABASE shop COLLATE utf8mb4_general_ci",
            "USE shop",
            "CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(50) UNIQUE, note TEXT)",
            "CREATE TABLE child (id BIGINT AUTO_INCREMENT PRIMARY KEY, pid INT, v DECIMAL(10,2), \
             d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), j JSON, g INT AS (pid + 1) STORED, \
             h INT AS (pid * 2), KEY (pid), KEY ((v + 1)), CHECK (v >= 0), \
             CONSTRAINT fk FOREIGN KEY (pid) REFERENCES parent (id))",
            "CREATE TABLE plain (a INT, b BLOB, e ENUM('x','y'), s SET('q','r'), \
             t TIMESTAMP NULL, u VARCHAR(200), KEY (u(10)))",
            "CREATE VIEW sold AS SELECT c.id, p.name FROM child c JOIN parent p ON p.id = c.pid",
            "SET cte_max_recursion_depth = 100000",
            "INSERT INTO parent WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 300) SELECT i, CONCAT('n', i), REPEAT('t', i * 100) FROM n",
            "INSERT INTO child (pid, v, j) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 \
             FROM n WHERE i < 6000) SELECT i % 300 + 1, i / 7, JSON_OBJECT('i', i) FROM n",
            "INSERT INTO plain WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 2000) SELECT i, REPEAT(CHAR(i % 256), i), IF(i % 2, 'x', 'y'), 'q,r', \
             NOW(), CONCAT('ü', i) FROM n",
            "ALTER TABLE plain DROP COLUMN a",
        ],
    );
}

#[test]
fn everything_comes_back_under_other_names() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    all(&mut session, &["CREATE USER app IDENTIFIED BY 'x'", "GRANT SELECT ON shop.* TO app"]);
    let before = sums(&mut session, "shop");
    let before_sums: BTreeMap<&str, Option<String>> = ["parent", "child", "plain"]
        .map(|table| {
            let rows = session.query(&format!("CHECKSUM TABLE shop.{table}")).unwrap();
            (table, rows[0][1].clone())
        })
        .into();
    let (plain, sealed) = (place.at("plain"), place.at("sealed"));
    said(&mut session, &format!("BACKUP ALL INTO '{plain}' WITH accounts"));
    said(&mut session, &format!("BACKUP DATABASE shop INTO '{sealed}' WITH passphrase = 'pass'"));
    // What comes later is not in it.
    all(&mut session, &["DELETE FROM child WHERE id < 100", "UPDATE parent SET note = NULL"]);
    assert!(refused(&mut session, &format!("RESTORE ALL FROM '{plain}'")).contains("is there"));
    said(&mut session, &format!("RESTORE DATABASE shop AS shop2 FROM '{plain}'"));
    assert!(
        refused(&mut session, &format!("RESTORE DATABASE shop AS shop3 FROM '{sealed}'"))
            .contains("passphrase")
    );
    assert_eq!(
        number(
            &mut session,
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'shop3'"
        ),
        0
    );
    let right = "WITH passphrase = 'pass'";
    said(&mut session, &format!("RESTORE DATABASE shop AS shop3 FROM '{sealed}' {right}"));
    for database in ["shop2", "shop3"] {
        assert_eq!(sums(&mut session, database), before, "{database}");
        assert_eq!(number(&mut session, &format!("SELECT COUNT(*) FROM {database}.sold")), 6_000);
        for table in ["parent", "child", "plain"] {
            let rows = session.query(&format!("CHECK TABLE {database}.{table}")).unwrap();
            assert_eq!(rows[0][3].as_deref(), Some("OK"), "{database}.{table}");
            let sums = session.query(&format!("CHECKSUM TABLE {database}.{table}")).unwrap();
            assert_eq!(sums[0][1], before_sums[table], "{database}.{table}");
        }
        // Foreign keys, checks, unique keys and sequences hold.
        let insert = format!("INSERT INTO {database}.child (pid, v) VALUES");
        assert!(refused(&mut session, &format!("{insert} (999, 1)")).contains("foreign key"));
        assert!(refused(&mut session, &format!("{insert} (1, -1)")).contains("constraint"));
        said(&mut session, &format!("{insert} (1, 1)"));
        let parent = format!("INSERT INTO {database}.parent VALUES (1000, 'n5', '')");
        assert!(refused(&mut session, &parent).contains("Duplicate"));
        let delete = format!("DELETE FROM {database}.parent WHERE id = 7");
        assert!(refused(&mut session, &delete).contains("foreign key"));
    }
    all(&mut session, &["DROP USER app", "DROP DATABASE shop2", "DROP DATABASE shop3"]);
    all(&mut session, &["DROP DATABASE shop"]);
    said(&mut session, &format!("RESTORE ALL FROM '{plain}' WITH accounts"));
    assert_eq!(sums(&mut session, "shop"), before);
    let grants = session.query("SHOW GRANTS FOR app").unwrap();
    assert!(grants.len() == 2, "{}", grants.len());
}

#[test]
fn a_table_comes_back_alone_if_its_parents_are_there() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let saved = place.at("child");
    said(&mut session, &format!("BACKUP TABLE shop.child, shop.parent INTO '{saved}'"));
    all(&mut session, &["CREATE DATABASE other"]);
    let child = format!("RESTORE TABLE shop.child AS other.child FROM '{saved}'");
    assert!(refused(&mut session, &child).contains("parent"));
    all(
        &mut session,
        &[
            "CREATE TABLE other.parent LIKE shop.parent",
            "INSERT INTO other.parent SELECT * FROM shop.parent WHERE id < 200",
        ],
    );
    assert!(refused(&mut session, &child).contains("foreign key"));
    assert_eq!(
        number(
            &mut session,
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'other'"
        ),
        1
    );
    said(&mut session, "INSERT INTO other.parent SELECT * FROM shop.parent WHERE id >= 200");
    said(&mut session, &child);
    assert_eq!(sum(&mut session, "other.child", CHILD), sum(&mut session, "shop.child", CHILD));
    // Parents follow their new names; other names that are made up too.
    let swapped =
        format!("RESTORE TABLE shop.parent AS shop.kin, shop.child AS shop.kid FROM '{saved}'");
    said(&mut session, "ALTER TABLE child DROP FOREIGN KEY fk");
    said(&mut session, &swapped);
    assert!(refused(&mut session, "DELETE FROM kin WHERE id = 9").contains("foreign key"));
    said(&mut session, "DROP TABLE kid");
    // Names that cannot be meant.
    let (twice, missing) = (
        format!("RESTORE TABLE shop.parent AS d, shop.parent AS d FROM '{saved}'"),
        format!("RESTORE TABLE shop.plain AS p FROM '{saved}'"),
    );
    assert!(refused(&mut session, &twice).contains("already exists"));
    assert!(refused(&mut session, &missing).contains("not in the backup"));
    said(
        &mut session,
        &format!("RESTORE TABLE shop.child AS c5 FROM '{saved}' WITH structure_only"),
    );
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM c5"), 0);
}

#[test]
fn what_is_damaged_is_refused_and_changes_nothing() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let saved = place.at("b");
    said(&mut session, &format!("BACKUP ALL INTO '{saved}'"));
    for (what, part) in [
        (format!("BACKUP ALL INTO '{saved}'"), "not empty"),
        ("BACKUP ALL INTO 'relative'".to_owned(), "absolute"),
        ("BACKUP ALL INTO '/tmp/../x'".to_owned(), "absolute"),
        ("BACKUP ALL INTO 'http://bucket/x'".to_owned(), "s3://BUCKET/PATH"),
        ("BACKUP ALL INTO 's3://bucket/x'".to_owned(), "no keys for the object store"),
        ("BACKUP ALL INTO 's3://me:word@bucket/x'".to_owned(), "keys do not belong"),
        (format!("BACKUP ALL INTO '{}' WITH max_rate = 5", place.at("c")), "256K or more"),
        ("BACKUP ALL INTO '/nowhere/x'".to_owned(), "cannot be made"),
        (format!("BACKUP ALL INTO '{}' WITH incremental", place.at("c")), "not known"),
        (format!("RESTORE ALL FROM '{}'", place.at("c")), "no backup"),
    ] {
        let why = refused(&mut session, &what);
        assert!(why.contains(part), "{what}: {why}");
    }
    let verify = || {
        let mut command = Command::new(binary());
        command.args(["backup", "verify", &saved]);
        run(command)
    };
    assert!(verify().status.success());
    let file = Path::new(&saved).join("000002.rows");
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for bytes in [&damaged[..], &whole[..middle]] {
        fs::write(&file, bytes).unwrap();
        let output = verify();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains("000002.rows"), "{why}");
        let why = refused(&mut session, &format!("RESTORE DATABASE shop AS s2 FROM '{saved}'"));
        assert!(why.contains("000002.rows"), "{why}");
    }
    assert_eq!(
        number(
            &mut session,
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 's2'"
        ),
        0
    );
    fs::write(&file, whole).unwrap();
    said(&mut session, &format!("RESTORE DATABASE shop AS s2 FROM '{saved}'"));
}

fn checksum(session: &mut Session, table: &str) -> Option<String> {
    session.query(&format!("CHECKSUM TABLE {table}")).expect("it is there")[0][1].clone()
}

#[test]
fn what_is_there_gives_way_when_that_is_said() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let saved = place.at("b");
    said(&mut session, &format!("BACKUP DATABASE shop INTO '{saved}'"));
    let tables = ["parent", "child", "plain"].map(|name| format!("shop.{name}"));
    let before = tables.clone().map(|table| checksum(&mut session, &table));
    all(
        &mut session,
        &[
            "DELETE FROM child WHERE id > 10",
            "UPDATE parent SET note = NULL",
            "ALTER TABLE plain ADD COLUMN z INT",
            "DROP VIEW sold",
            "CREATE VIEW sold AS SELECT 1 AS one",
        ],
    );
    // Others refer to it, and would be left alone.
    let alone = format!("RESTORE TABLE shop.parent FROM '{saved}' WITH overwrite");
    let why = refused(&mut session, &alone);
    assert!(why.contains("child"), "{why}");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM parent WHERE note IS NULL"), 300);
    said(&mut session, &format!("RESTORE DATABASE shop FROM '{saved}' WITH overwrite"));
    assert_eq!(tables.clone().map(|table| checksum(&mut session, &table)), before);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM sold"), 6_000);
    assert!(refused(&mut session, "DELETE FROM parent WHERE id = 9").contains("foreign key"));
    assert!(refused(&mut session, "INSERT INTO child (pid) VALUES (999)").contains("foreign key"));
    said(&mut session, "INSERT INTO child (pid, v) VALUES (1, 1)");
    let left = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'";
    assert_eq!(number(&mut session, left), 4);
    // The definition stays, the rows go.
    all(&mut session, &["ALTER TABLE plain ADD KEY more (e)", "DELETE FROM plain"]);
    let rows = |how: &str| format!("RESTORE TABLE shop.plain FROM '{saved}' WITH {how}");
    assert!(refused(&mut session, &rows("data_only")).contains("overwrite too"));
    said(&mut session, &rows("data_only, overwrite"));
    assert_eq!(checksum(&mut session, "shop.plain"), before[2]);
    let keys = session.query("SHOW INDEX FROM plain WHERE key_name = 'more'").unwrap();
    assert_eq!(keys.len(), 1);
    said(&mut session, "ALTER TABLE plain ADD COLUMN z INT");
    let why = refused(&mut session, &rows("data_only, overwrite"));
    assert!(why.contains("not those of its definition"), "{why}");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM plain WHERE z IS NULL"), 2_000);
    said(&mut session, "SET foreign_key_checks = 0");
    said(&mut session, &alone);
    assert_eq!(checksum(&mut session, "shop.parent"), before[0]);
    let missing =
        format!("RESTORE TABLE shop.plain AS shop.p FROM '{saved}' WITH data_only, overwrite");
    assert!(refused(&mut session, &missing).contains("doesn't exist"));
}

/// A rate keeps a backup going for long enough to be looked at and ended.
#[test]
fn a_backup_has_a_rate() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let saved = place.at("slow");
    let mut own = server.session().unwrap();
    let statement = format!("BACKUP DATABASE shop INTO '{saved}' WITH max_rate = '256K'");
    let asked = thread::spawn(move || own.query(&statement).map(|_| ()));
    let seen = loop {
        assert!(!asked.is_finished(), "megabytes take seconds at this rate");
        let rows = session.query("SHOW BACKUP JOBS").unwrap();
        let Some(job) = rows.first() else { continue };
        assert_eq!(job[9].as_deref(), Some("running"));
        let bytes: u64 = job[8].as_ref().unwrap().parse().unwrap();
        if bytes > 0 {
            break bytes;
        }
    };
    said(&mut session, "CANCEL BACKUP JOB 1");
    let why = asked.join().unwrap().unwrap_err().to_string();
    assert!(seen < 6 << 20 && why.contains("cancelled"), "{why}");
    assert!(!Path::new(&saved).exists(), "nothing is left");
    // What is not limited is not slowed down.
    said(&mut session, &format!("BACKUP DATABASE shop INTO '{saved}' WITH max_rate = 0"));
}

/// `nines backup encrypt` and `decrypt` that are killed at any moment: the backup is whole.
#[test]
fn a_backup_survives_the_death_of_whoever_writes_it_again() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let saved = place.at("b");
    said(&mut session, &format!("BACKUP ALL INTO '{saved}'"));
    let key = place.at("key");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    let command = |arguments: &[String]| {
        let mut command = Command::new(binary());
        command.arg("backup").args(arguments).stderr(Stdio::null());
        command.stdout(Stdio::null());
        command
    };
    let (old, new) = (format!("--key-file={key}"), format!("--new-key-file={key}"));
    let is_whole = |with_key: bool| {
        let mut arguments = vec!["verify".to_owned(), saved.clone()];
        arguments.extend(with_key.then(|| old.clone()));
        run(command(&arguments)).status.success()
    };
    let (mut is_sealed, mut killed) = (false, 0);
    for round in 0..16u64 {
        let arguments = if is_sealed {
            ["decrypt".to_owned(), saved.clone(), old.clone()]
        } else {
            ["encrypt".to_owned(), saved.clone(), new.clone()]
        };
        let mut process = command(&arguments).spawn().unwrap();
        thread::sleep(Duration::from_millis(round * 3));
        let _ = process.kill();
        killed += u32::from(!process.wait().unwrap().success());
        let (plain, sealed) = (is_whole(false), is_whole(true));
        assert!(plain != sealed, "round {round}: {plain} {sealed}");
        is_sealed = sealed;
    }
    assert!(killed > 0);
    // What was left aside goes with the next call.
    let arguments = if is_sealed {
        ["decrypt".to_owned(), saved.clone(), old.clone()]
    } else {
        ["encrypt".to_owned(), saved.clone(), new]
    };
    assert!(run(command(&arguments)).status.success());
    let names: Vec<_> = fs::read_dir(&place.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// What the configuration says: only encrypted backups.
#[test]
fn a_plain_backup_is_refused_where_it_is_to_be_encrypted() {
    let place = Place::new();
    let shape = Layout { data: 1, replicas: 1, sql: 1, ..SMALL };
    let mut cluster = Processes::prepare(shape, "RequireEncryptedBackup=1");
    cluster.start_all();
    let mut session = cluster.session(SQL).unwrap();
    said(&mut session, "CREATE DATABASE d");
    let saved = place.at("b");
    let why = refused(&mut session, &format!("BACKUP ALL INTO '{saved}'"));
    assert!(why.contains("RequireEncryptedBackup"), "{why}");
    assert!(!Path::new(&saved).exists());
    said(&mut session, &format!("BACKUP ALL INTO '{saved}' WITH passphrase = 'words'"));
}

#[test]
fn a_job_is_seen_and_cancelled() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    for _ in 0..4 {
        said(&mut session, "INSERT INTO plain SELECT * FROM plain");
    }
    let is_cancelled = (0..50).any(|round| {
        let saved = place.at(&round.to_string());
        let mut own = server.session().unwrap();
        let statement = format!("BACKUP ALL INTO '{saved}'");
        let asked = thread::spawn(move || own.query(&statement).map(|_| ()));
        while !asked.is_finished() {
            let rows = session.query("SHOW BACKUP JOBS").unwrap();
            let running = rows.iter().find(|row| row[9].as_deref() == Some("running"));
            let Some(job) = running.and_then(|row| row[0].clone()) else { continue };
            // It may have ended in this moment.
            let _ = session.query(&format!("CANCEL BACKUP JOB {job}"));
        }
        match asked.join().unwrap() {
            Ok(()) => {
                assert!(Path::new(&saved).join("manifest.json").exists());
                false
            }
            Err(error) => {
                assert!(error.to_string().contains("cancelled"), "{error}");
                assert!(!Path::new(&saved).exists(), "nothing is left");
                true
            }
        }
    });
    assert!(is_cancelled);
    assert!(refused(&mut session, "CANCEL BACKUP JOB 9999").contains("no backup job"));
}

const ACCOUNTS: i64 = 400;

/// Accounts with money, and a large table that makes backups take their time.
fn make_bank(session: &mut Session) {
    all(
        session,
        &[
            "CREATE DATABASE bank",
            "USE bank",
            "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)",
            "CREATE TABLE filler (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200))",
            "SET cte_max_recursion_depth = 100000",
            "INSERT INTO account WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 400) SELECT i, 100 FROM n",
            "INSERT INTO filler (text) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 \
             FROM n WHERE i < 10000) SELECT REPEAT('x', 150) FROM n",
        ],
    );
}

/// Tells whoever moves money to stop, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves money until it is told to stop.
fn move_money(cluster: &Processes, seed: i64, stop: &AtomicBool) {
    let (mut at, mut session) = (seed, None);
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = &mut session else {
            session = cluster.session(SQL).ok();
            continue;
        };
        at = (at * 7_919 + 13) % 1_000_003;
        let (from, to) = (at % ACCOUNTS + 1, at / 7 % ACCOUNTS + 1);
        let moved = [
            "BEGIN".to_owned(),
            format!("UPDATE bank.account SET balance = balance - 3 WHERE id = {from}"),
            format!("UPDATE bank.account SET balance = balance + 3 WHERE id = {to}"),
            "COMMIT".to_owned(),
        ]
        .iter()
        .all(|statement| open.query(statement).is_ok());
        if !moved && open.query("ROLLBACK").is_err() {
            session = None;
        }
    }
}

/// Backups at any moments, while money moves and a data node is killed during half of them: each
/// shows one moment, or is none. `NINES_BACKUPS` is how many; and restores into clusters of other
/// shapes.
#[test]
fn backups_show_one_moment_while_nodes_die() {
    let place = Place::new();
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL).unwrap();
    make_bank(&mut session);
    let mut made = BTreeMap::new();
    let rounds = std::env::var("NINES_BACKUPS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(4);
    for round in 0..rounds {
        let saved = place.at(&round.to_string());
        let stop = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let (cluster, stop) = (&cluster, &stop);
            let _stop = Stop(stop);
            for seed in 0..2 {
                scope.spawn(move || move_money(cluster, seed + 1, stop));
            }
            thread::sleep(Duration::from_millis(100 + round * 53 % 97));
            let mut own = cluster.session(SQL).unwrap();
            let statement = format!("BACKUP ALL INTO '{saved}'");
            let asked = scope.spawn(move || own.query(&statement).map(|_| ()));
            if round % 2 == 1 {
                thread::sleep(Duration::from_millis(20 * round % 170));
                cluster.signal(2, "-KILL");
            }
            asked.join().unwrap()
        });
        match result {
            Ok(()) => drop(made.insert(round, saved)),
            Err(error) => assert!(!Path::new(&saved).exists(), "{error}: something is left"),
        }
        if round % 2 == 1 {
            cluster.wait_for_end(2);
            cluster.start_node(2);
            cluster.wait_until_complete(SQL);
        }
    }
    assert!(made.len() as u64 >= rounds / 2, "{made:?}");
    let mut expected = Vec::new();
    for (round, saved) in &made {
        said(&mut session, &format!("RESTORE DATABASE bank AS b{round} FROM '{saved}'"));
        check_bank(&mut session, &format!("b{round}"));
        expected = checksums(&mut session, &format!("b{round}"));
        said(&mut session, &format!("DROP DATABASE b{round}"));
    }
    let last = made.values().last().unwrap();
    drop(cluster);
    // Into clusters of other shapes.
    for (data, replicas) in [(1, 1), (2, 1), (4, 2), (4, 4)] {
        let other = Processes::start(Layout { data, replicas, sql: 1, ..SMALL });
        let mut session = other.session(SQL).unwrap();
        said(&mut session, &format!("RESTORE ALL FROM '{last}'"));
        check_bank(&mut session, "bank");
        assert_eq!(checksums(&mut session, "bank"), expected, "{data} nodes, {replicas} replicas");
    }
}

fn checksums(session: &mut Session, database: &str) -> Vec<Option<String>> {
    let tables = format!("{database}.account, {database}.filler");
    let rows = session.query(&format!("CHECKSUM TABLE {tables}")).expect("they are there");
    rows.into_iter().map(|row| row[1].clone()).collect()
}

fn check_bank(session: &mut Session, database: &str) {
    let of = |what: &str| format!("SELECT {what} FROM {database}");
    assert_eq!(number(session, &(of("SUM(balance)") + ".account")), 100 * ACCOUNTS, "{database}");
    assert_eq!(number(session, &(of("COUNT(*)") + ".account")), ACCOUNTS);
    assert_eq!(number(session, &(of("COUNT(*)") + ".filler")), 10_000);
}

/// The SQL node dies in the middle of a restore: nobody sees anything of it, and the next restore
/// takes away what it has left.
#[test]
fn a_restore_whose_node_dies_is_not_seen() {
    let place = Place::new();
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL + 1).unwrap();
    make_bank(&mut session);
    let saved = place.at("b");
    said(&mut session, &format!("BACKUP DATABASE bank INTO '{saved}'"));
    let mut own = cluster.session(SQL).unwrap();
    let statement = format!("RESTORE DATABASE bank AS again FROM '{saved}'");
    let asked = thread::spawn({
        let statement = statement.clone();
        move || own.query(&statement).map(|_| ())
    });
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'again'";
    let schema = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'again'";
    while number(&mut session, schema) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    cluster.kill(&[SQL]);
    if asked.join().unwrap().is_ok() {
        // It was faster.
        assert_eq!(number(&mut session, count), 2);
        return;
    }
    let seen = number(&mut session, count);
    assert!(seen == 0 || seen == 2, "{seen} tables are seen");
    if seen == 0 {
        said(&mut session, &statement);
    }
    check_bank(&mut session, "again");
}

/// START BACKUP and ABORT BACKUP, as NDB's users type them.
#[test]
fn a_backup_is_started_as_in_ndb() {
    let place = Place::new();
    let shape = Layout { data: 1, replicas: 1, sql: 1, ..SMALL };
    let more = format!("[mysqld default]\nBackupDataDir={}\nBackupMaxRate=256K", place.at(""));
    let mut cluster = Processes::prepare(shape, &more);
    cluster.start_all();
    let mut session = cluster.session(SQL).unwrap();
    make_shop(&mut session);
    said(&mut session, "DROP TABLE plain");
    let ctl = |order: &str| {
        let mut command = Command::new(binary());
        command.env("NINES_SQL_SOCKET", cluster.socket(SQL)).env("NINES_SQL_USER", "root");
        command.args(["ctl", "-c", &format!("127.0.0.1:{}", cluster.port(MANAGEMENT))]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(format!("{order}\n").as_bytes()).unwrap();
        process
    };
    let told = |process: Child| {
        let output = process.wait_with_output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    // The rate gives time to end it.
    let slow = ctl("START BACKUP 7 WAIT COMPLETED;");
    let running = || {
        let rows = cluster.session(SQL).unwrap().query("SHOW BACKUP JOBS").unwrap();
        rows.iter().any(|row| row[9].as_deref() == Some("running"))
    };
    while !running() {
        thread::sleep(Duration::from_millis(5));
    }
    let (is_done, text) = told(ctl("ABORT BACKUP 7"));
    assert!(is_done && text.contains("backup 7 is ended"), "{text}");
    let (is_done, text) = told(slow);
    assert!(!is_done && text.contains("cancelled"), "{text}");
    assert!(!Path::new(&place.at("BACKUP-7")).exists());
    said(&mut session, "TRUNCATE child");
    said(&mut session, "DELETE FROM parent WHERE id > 100");
    let (is_done, text) = told(ctl("start backup 8 SNAPSHOTSTART ENCRYPT PASSWORD='It is S3cret'"));
    assert!(is_done && text.contains("backup 8 completed"), "{text}");
    let from = format!("FROM '{}' WITH passphrase = 'It is S3cret'", place.at("BACKUP-8"));
    said(&mut session, &format!("RESTORE DATABASE shop AS again {from}, max_rate = 0"));
    // A name alone is in that directory for statements too.
    assert!(refused(&mut session, "BACKUP ALL INTO '../x'").contains("no plain name"));
    said(&mut session, "BACKUP DATABASE again INTO 'mine'");
    assert!(Path::new(&place.at("mine/manifest.json")).exists());
    let mut seen = Command::new(binary());
    seen.args(["ctl", "START", "BACKUP", "ENCRYPT", "PASSWORD='x'"]);
    let output = run(seen);
    assert_eq!(output.status.code(), Some(2));
}

/// The answer comes at once, and the job goes on without whoever asked for it.
#[test]
fn nobody_waits_for_what_is_detached() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    make_shop(&mut session);
    let sum = checksum(&mut session, "shop.child");
    let ended = |number: &str| {
        // Another connection knows of it too, on whatever worker.
        let mut other = server.session().unwrap();
        loop {
            let jobs = other.query("SHOW BACKUP JOBS").unwrap();
            let job = jobs.iter().find(|row| row[0].as_deref() == Some(number)).expect("a job");
            let state = job[9].clone().unwrap_or_default();
            if state != "running" {
                return (state, job[7].clone().unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(10));
        }
    };
    let begun = |statement: &str| {
        let mut own = server.session().unwrap();
        let rows = own.query(statement).unwrap();
        rows[0][0].clone().expect("the number of a job")
    };
    let saved = place.at("b");
    let number = begun(&format!("BACKUP DATABASE shop INTO '{saved}' WITH detached"));
    assert_eq!(ended(&number), ("succeeded".to_owned(), "8300".to_owned()));
    let restore = format!("RESTORE DATABASE shop AS again FROM '{saved}' WITH detached");
    assert_eq!(ended(&begun(&restore)), ("succeeded".to_owned(), "8300".to_owned()));
    assert_eq!(checksum(&mut session, "again.child"), sum);
    // What fails is told by its job, and what is cancelled leaves nothing.
    let (state, _) = ended(&begun(&restore));
    assert!(state.contains("is there already"), "{state}");
    let slow = place.at("slow");
    let statement = format!("BACKUP DATABASE shop INTO '{slow}' WITH max_rate = '256K', detached");
    let number = begun(&statement);
    said(&mut session, &format!("CANCEL BACKUP JOB {number}"));
    let (state, _) = ended(&number);
    assert!(state.contains("cancelled"), "{state}");
    assert!(!Path::new(&slow).exists());
    let slow =
        format!("RESTORE DATABASE shop AS third FROM '{saved}' WITH max_rate = '256K', detached");
    let number = begun(&slow);
    thread::sleep(Duration::from_millis(300));
    said(&mut session, &format!("CANCEL BACKUP JOB {number}"));
    assert!(ended(&number).0.contains("cancelled"));
    let left = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'third'";
    assert_eq!(self::number(&mut session, left), 0);
    // Rights are looked at before anything begins.
    assert!(refused(&mut session, "BACKUP ALL INTO 'x' WITH detached").contains("absolute"));
}
