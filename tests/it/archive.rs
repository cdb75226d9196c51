//! START ARCHIVE and RESTORE … UNTIL: states of moments, compared with a model outside the
//! database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{Place, Server, Session, all, binary, number, refused, run, said, text_of};

/// What SHOW ARCHIVES says of the only archive.
struct Shown {
    state: String,
    base: u64,
    newest: u64,
    last_break: String,
    driver: String,
}

fn shown(session: &mut Session) -> Shown {
    let rows = session.query("SHOW ARCHIVES").expect("it is shown");
    let text = |column: usize| rows[0][column].clone().unwrap_or_default();
    let number = |column: usize| text(column).parse().unwrap_or(0);
    let (state, last_break, driver) = (text(3), text(11), text(12));
    Shown { state, base: number(5), newest: number(6), last_break, driver }
}

/// Waits until an epoch is archived, behind a full backup.
fn wait_for(session: &mut Session, epoch: u64) {
    let began = Instant::now();
    loop {
        let of = shown(session);
        if of.base > 0 && of.newest >= epoch {
            return;
        }
        let waited = began.elapsed() < Duration::from_secs(90);
        assert!(waited, "{epoch} is not archived: {}, {}", of.state, of.newest);
        thread::sleep(Duration::from_millis(50));
    }
}

fn last_epoch(session: &mut Session) -> u64 {
    number(session, "SELECT @@nines_last_commit_epoch") as u64
}

/// Large values, unique and foreign keys, AUTO_INCREMENT, and definitions that change.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn states_of_epochs_come_back_with_their_definitions() {
    let place = Place::new();
    let data = place.0.join("data");
    let server = Server::start_in(&data, &["--workers=2"]);
    let mut session = server.session().unwrap();
    all(
        &mut session,
        &[
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(50) UNIQUE, note MEDIUMTEXT)",
            "CREATE TABLE c (id BIGINT AUTO_INCREMENT PRIMARY KEY, pid INT, v INT, \
             FOREIGN KEY (pid) REFERENCES p (id))",
            "INSERT INTO p VALUES (1, 'a', REPEAT('x', 100000)), (2, 'b', 'y'), (3, 'c', 'z')",
            "INSERT INTO c (pid, v) VALUES (1, 1), (2, 2)",
        ],
    );
    let archive = place.at("archive");
    assert!(
        refused(&mut session, "START ARCHIVE INTO '/a' WITH passphrase = 'x'").contains("key_file")
    );
    said(&mut session, &format!("START ARCHIVE INTO '{archive}' WITH max_lag = 2"));
    let again = format!("START ARCHIVE INTO '{archive}'");
    assert!(refused(&mut session, &again).contains("already"));
    wait_for(&mut session, 0);
    let steps: [&[&str]; 6] = [
        // The value of a unique key goes from one row to another.
        &["UPDATE p SET name = 'q' WHERE id = 2", "UPDATE p SET name = 'b' WHERE id = 3"],
        &[
            "UPDATE p SET note = REPEAT('w', 120000) WHERE id = 1",
            "DELETE FROM c WHERE id = 1",
            "INSERT INTO p VALUES (4, 'd', REPEAT('4', 70000))",
            "INSERT INTO c (pid, v) VALUES (4, 4), (4, 5)",
        ],
        &["ALTER TABLE c ADD COLUMN w INT NOT NULL DEFAULT 7", "UPDATE c SET w = 8 WHERE id = 2"],
        &["CREATE TABLE n (id INT PRIMARY KEY)", "INSERT INTO n VALUES (1)"],
        &["ALTER TABLE p DROP COLUMN name", "UPDATE p SET note = 'new' WHERE id = 2"],
        &["DROP TABLE c", "TRUNCATE TABLE n", "INSERT INTO n VALUES (5)"],
    ];
    let sums = |session: &mut Session, database: &str| -> Vec<Option<String>> {
        let tables = ["p", "c", "n"].map(|table| format!("{database}.{table}")).join(", ");
        let rows = session.query(&format!("CHECKSUM TABLE {tables}")).expect("sums");
        let columns = session.query(&format!(
            "SELECT GROUP_CONCAT(table_name, column_name ORDER BY table_name, ordinal_position) \
             FROM information_schema.columns WHERE table_schema = '{database}'"
        ));
        let columns = columns.expect("columns")[0][0].clone();
        rows.into_iter().map(|row| row[1].clone()).chain([columns]).collect()
    };
    let mut model = Vec::new();
    for step in steps {
        all(&mut session, step);
        // Definitions are known to a fraction of a second.
        thread::sleep(Duration::from_millis(1_500));
        said(&mut session, "CREATE DATABASE IF NOT EXISTS tick");
        said(&mut session, "CREATE TABLE IF NOT EXISTS tick.t (n INT)");
        said(&mut session, "INSERT INTO tick.t VALUES (1)");
        let at = session.query("SELECT NOW(3)").unwrap()[0][0].clone().unwrap();
        model.push((last_epoch(&mut session), at, sums(&mut session, "shop")));
        thread::sleep(Duration::from_millis(500));
    }
    let newest = model.last().unwrap().0;
    // The epoch of the last moment has to be over.
    wait_for(&mut session, newest + 10);
    for (at, (epoch, time, expected)) in model.iter().enumerate() {
        for (until, name) in
            [(format!("EPOCH {epoch}"), format!("e{at}")), (format!("'{time}'"), format!("t{at}"))]
        {
            let restore = format!("RESTORE DATABASE shop AS {name} FROM '{archive}' UNTIL {until}");
            said(&mut session, &restore);
            assert_eq!(sums(&mut session, &name), *expected, "step {at}, until {until}");
            let checks = session.query(&format!("CHECK TABLE {name}.p")).unwrap();
            assert_eq!(checks[0][3].as_deref(), Some("OK"), "step {at}");
        }
    }
    // Keys hold, and numbers are not given twice.
    let orphan = "INSERT INTO e1.c (pid, v) VALUES (99, 1)";
    assert!(refused(&mut session, orphan).contains("foreign key"));
    assert!(refused(&mut session, "INSERT INTO e1.p VALUES (9, 'b', '')").contains("Duplicate"));
    said(&mut session, "INSERT INTO e1.c (pid, v) VALUES (1, 1)");
    assert!(number(&mut session, "SELECT MAX(id) FROM e1.c") > 4);
    for (until, part) in [
        ("UNTIL '2001-01-01'", "has no state"),
        ("UNTIL '2099-01-01 10:00:00'", "has no state"),
        ("UNTIL EPOCH 1", "has no state"),
        ("UNTIL 'noon'", "is no time"),
        ("", "is an archive"),
        ("UNTIL EPOCH 99 WITH key_file = '/nowhere'", "key"),
    ] {
        let restore = format!("RESTORE DATABASE shop AS x FROM '{archive}' {until}");
        let why = refused(&mut session, &restore);
        assert!(why.contains(part), "{until}: {why}");
    }
    // The whole cluster is restarted: that ends the chain, and a new one begins.
    drop(session);
    drop(server);
    let server = Server::start_in(&data, &["--workers=2"]);
    let mut session = server.session().unwrap();
    let began = Instant::now();
    while !shown(&mut session).last_break.contains("restarted") {
        assert!(began.elapsed() < Duration::from_secs(60), "the chain goes on");
        thread::sleep(Duration::from_millis(50));
    }
    // Epochs of the new generation are far behind those of before.
    wait_for(&mut session, newest + (1 << 30));
    said(&mut session, "INSERT INTO shop.n VALUES (6)");
    let epoch = last_epoch(&mut session);
    wait_for(&mut session, epoch);
    let (first, restore) = (model[0].0, "RESTORE DATABASE shop AS");
    said(&mut session, &format!("{restore} old FROM '{archive}' UNTIL EPOCH {first}"));
    said(&mut session, &format!("{restore} young FROM '{archive}' UNTIL EPOCH {epoch}"));
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM young.n"), 2);
    assert_eq!(sums(&mut session, "old"), model[0].2);
    said(&mut session, "STOP ARCHIVE");
    assert!(session.query("SHOW ARCHIVES").unwrap().is_empty());
    let prune = tool(&["prune", &archive, "--keep", "1"]);
    assert!(prune.0, "{}", prune.1);
    let why = refused(&mut session, &format!("{restore} x FROM '{archive}' UNTIL EPOCH {first}"));
    assert!(why.contains("has no state"), "{why}");
    said(&mut session, &format!("{restore} again FROM '{archive}' UNTIL EPOCH {epoch}"));
    let verified = tool(&["verify", &archive]);
    assert!(verified.0 && verified.1.contains("are whole"), "{}", verified.1);
}

/// `nines backup`: whether it succeeds, and what it says.
fn tool(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    command.arg("backup").args(arguments);
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("files of the test");
    for entry in fs::read_dir(from).expect("files of the test") {
        let entry = entry.expect("files of the test");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("files of the test").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("files of the test");
        }
    }
}

fn files(at: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(at)
        .expect("files of the test")
        .map(|entry| entry.expect("files of the test").path());
    let of = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(of).collect()
}

/// Damage to any file of an archive is found by `verify`, and by RESTORE before anything is
/// changed.
#[test]
fn what_is_damaged_in_an_archive_is_found() {
    let (server, place) = (Server::start(&["--workers=2"]), Place::new());
    let mut session = server.session().unwrap();
    let (archive, key) = (place.at("archive"), place.at("key"));
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1)",
        ],
    );
    let with = format!("WITH key_file = '{key}'");
    said(&mut session, &format!("START ARCHIVE INTO '{archive}' {with}, max_lag = 2"));
    wait_for(&mut session, 0);
    said(&mut session, "INSERT INTO d.t VALUES (2)");
    let epoch = last_epoch(&mut session);
    wait_for(&mut session, epoch);
    said(&mut session, "STOP ARCHIVE");
    let keyed = ["--key-file", &key];
    let verify = |at: &str| tool(&[&["verify", at], &keyed[..]].concat());
    assert!(verify(&archive).0, "{}", verify(&archive).1);
    assert!(tool(&["verify", &archive]).1.contains("key"), "without the key");
    let damaged = place.at("damaged");
    copy(Path::new(&archive), Path::new(&damaged));
    let restore = format!("RESTORE DATABASE d AS x FROM '{damaged}' UNTIL EPOCH {epoch} {with}");
    let mut tried = 0;
    for path in files(Path::new(&damaged)) {
        let whole = fs::read(&path).unwrap();
        let mut damages: Vec<Option<Vec<u8>>> = vec![None];
        for at in (0..whole.len()).step_by((whole.len() / 24).max(1)) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            damages.extend([Some(flipped), Some(whole[..at].to_vec())]);
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_base = path.parent().unwrap().to_string_lossy().contains("base-");
        for (at, damage) in damages.into_iter().enumerate() {
            match &damage {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let is_last = damage.is_none() && name.ends_with(".changes");
            let is_no_base = damage.is_none() && name == "manifest.json";
            let (passes, said) = verify(&damaged);
            assert!(!passes || is_last || is_no_base, "{name}, damage {at}: {said}");
            if is_base || name.starts_with("chain") {
                refused(&mut session, &restore);
            } else if session.query(&restore).is_ok() {
                assert_eq!(number(&mut session, "SELECT COUNT(*) FROM x.t"), 2, "{name}");
                self::said(&mut session, "DROP DATABASE x");
            }
            let schemas = "SELECT COUNT(*) FROM information_schema.schemata \
                           WHERE schema_name = 'x'";
            assert_eq!(number(&mut session, schemas), 0, "{name}: something is left");
            tried += 1;
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(tried > 200, "{tried} damages");
}

const ACCOUNTS: u64 = 40;

/// A transfer: who made it, its number, accounts, the epoch of its commit if that is known.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: u64,
    to: u64,
    /// None if nobody knows whether it was committed.
    epoch: Option<u64>,
}

type Model = Mutex<BTreeMap<(u64, u64), Transfer>>;

fn lock(model: &Model) -> MutexGuard<'_, BTreeMap<(u64, u64), Transfer>> {
    model.lock().expect("nobody panics")
}

/// Moves money until it is told to stop, and keeps the model.
fn move_money(cluster: &Processes, client: u64, node: u16, model: &Model, stop: &AtomicBool) {
    let (mut at, mut count, mut session) = (client + 1, 0, None);
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = &mut session else {
            session = cluster.session(node).ok();
            continue;
        };
        count += 1;
        at = (at * 7_919 + 13) % 1_000_003;
        let (from, to) = (at % ACCOUNTS, at / 7 % ACCOUNTS);
        let transfer = Transfer { from, to, epoch: None };
        let steps = [
            "BEGIN".to_owned(),
            format!("UPDATE bank.account SET balance = balance - 1 WHERE id = {from}"),
            format!("UPDATE bank.account SET balance = balance + 1 WHERE id = {to}"),
            format!("INSERT INTO bank.transfer VALUES ({client}, {count}, {from}, {to})"),
        ];
        if !steps.iter().all(|statement| open.query(statement).is_ok()) {
            if open.query("ROLLBACK").is_err() {
                session = None;
            }
            continue;
        }
        lock(model).insert((client, count), transfer);
        let committed = open.query("COMMIT").is_ok();
        let epoch = open.query("SELECT @@nines_last_commit_epoch").ok();
        let epoch = epoch.and_then(|rows| rows[0][0].as_ref()?.parse().ok());
        if let (true, Some(epoch)) = (committed, epoch) {
            lock(model).insert((client, count), Transfer { epoch: Some(epoch), ..transfer });
        } else {
            session = None;
        }
    }
}

/// Twenty moments while money moves, the SQL node that drives the archive is killed, and a data
/// node: what is restored is the model cut at the epoch.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn states_of_any_moment_are_the_model_cut_there() {
    let place = Place::new();
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL + 1).unwrap();
    all(
        &mut session,
        &[
            "CREATE DATABASE bank",
            "CREATE TABLE bank.account (id INT PRIMARY KEY, balance INT NOT NULL)",
            "CREATE TABLE bank.transfer (client INT, n INT, f INT, t INT, PRIMARY KEY (client, n))",
        ],
    );
    for id in 0..ACCOUNTS {
        said(&mut session, &format!("INSERT INTO bank.account VALUES ({id}, 1000)"));
    }
    let archive = place.at("archive");
    said(&mut session, &format!("START ARCHIVE INTO '{archive}' WITH max_lag = 2"));
    wait_for(&mut session, 0);
    let base = shown(&mut session).base;
    let (model, stop) = (Model::default(), AtomicBool::new(false));
    let driver = shown(&mut session).driver;
    let killed = if driver.ends_with(&format!(":{}", cluster.port(SQL))) { SQL } else { SQL + 1 };
    let stays = SQL + (1 - (killed - SQL));
    let mut session = cluster.session(stays).unwrap();
    thread::scope(|scope| {
        let (of, model, stop) = (&cluster, &model, &stop);
        for client in 0..3 {
            scope.spawn(move || move_money(of, client, stays, model, stop));
        }
        thread::sleep(Duration::from_secs(4));
        of.signal(killed, "-KILL");
        thread::sleep(Duration::from_secs(6));
        of.signal(2, "-KILL");
        thread::sleep(Duration::from_secs(6));
        stop.store(true, Ordering::Relaxed);
    });
    cluster.wait_for_end(killed);
    cluster.wait_for_end(2);
    said(&mut session, "INSERT INTO bank.account VALUES (1000, 0)");
    let end = last_epoch(&mut session);
    wait_for(&mut session, end);
    let of = shown(&mut session);
    assert_eq!(of.last_break, "", "the chain goes on when its driver dies");
    assert!(of.driver.ends_with(&format!(":{}", cluster.port(stays))), "{}", of.driver);
    let model = model.into_inner().unwrap();
    assert!(model.len() > 200, "{} transfers", model.len());
    let mut epochs: Vec<u64> = model.values().filter_map(|of| of.epoch).collect();
    epochs.sort_unstable();
    for moment in 0..20 {
        // An epoch with transfers, or one beside it.
        let near = epochs[(moment * 7_919 + 5) % epochs.len()];
        let epoch = (near + moment as u64 % 3).saturating_sub(1).max(base);
        let restore = format!("RESTORE DATABASE bank AS copy FROM '{archive}' UNTIL EPOCH {epoch}");
        said(&mut session, &restore);
        let rows = session.query("SELECT client, n FROM copy.transfer").unwrap();
        let value = |text: &Option<String>| text.as_ref().unwrap().parse::<u64>().unwrap();
        let found: std::collections::BTreeSet<(u64, u64)> =
            rows.iter().map(|row| (value(&row[0]), value(&row[1]))).collect();
        let mut balances = BTreeMap::new();
        for (of, transfer) in &model {
            let is_there = found.contains(of);
            let is_right = transfer.epoch.is_none_or(|of| is_there == (of <= epoch));
            assert!(is_right, "{of:?}, {transfer:?}, until {epoch}: {is_there}");
            if is_there {
                *balances.entry(transfer.from).or_insert(1_000) -= 1;
                *balances.entry(transfer.to).or_insert(1_000) += 1;
            }
        }
        assert!(found.iter().all(|of| model.contains_key(of)), "a transfer is nobody's");
        for row in session.query("SELECT id, balance FROM copy.account WHERE id < 1000").unwrap() {
            let expected = balances.get(&value(&row[0])).copied().unwrap_or(1_000);
            assert_eq!(row[1], Some(expected.to_string()), "account {:?}, {epoch}", row[0]);
        }
        said(&mut session, "DROP DATABASE copy");
    }
}

/// The driver has a claim, in a transaction that is open as long as the archive runs.
#[test]
fn primaries_move_back_beside_an_archive_that_goes_on() {
    let place = Place::new();
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    all(&mut session, &["CREATE DATABASE d", "CREATE TABLE d.t (n INT PRIMARY KEY)"]);
    said(&mut session, &format!("START ARCHIVE INTO '{}' WITH max_lag = 2", place.at("archive")));
    wait_for(&mut session, 0);
    let is_even = |cluster: &Processes| {
        let shown = text_of(&cluster.ctl(&["show"]), "nines");
        shown.matches("50 % of its group").count() == 2
    };
    for node in [1, 2] {
        cluster.kill(&[node]);
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
        // Attempts follow one another after 2.4 s, 4.8 s, 9.6 s, and on: the first ones are meant.
        let began = Instant::now();
        while !is_even(&cluster) {
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(30), "node {node}'s primaries are elsewhere");
            thread::sleep(Duration::from_millis(100));
        }
    }
    said(&mut session, "INSERT INTO d.t VALUES (1)");
    let epoch = last_epoch(&mut session);
    wait_for(&mut session, epoch);
    assert_eq!(shown(&mut session).last_break, "", "it has not begun anew");
}
