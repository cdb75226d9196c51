//! Encryption at rest: nothing of rows or names is found in the files, whatever happens to the
//! process loses no more than without, and every way to give the wrong key is refused.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SQL};
use tests::{Server, Session, all, binary, number, run, temporary_directory, text_of};

use super::durability::fill_a_disk;
use super::processes::{Counter, open as open_at};
use super::workload::{Books, Random, Run, setup};

/// In rows, and in the names of a table and a column.
const MARKERS: [&str; 3] = ["pantomime-of-rows", "zeppelin_table", "marzipan_column"];

/// A data directory and a place for keys beside it.
struct Place {
    data: PathBuf,
    keys: PathBuf,
}

impl Place {
    fn new() -> Place {
        let (data, keys) = (temporary_directory(), temporary_directory());
        fs::create_dir_all(&keys).expect("the directory is writable");
        Place { data, keys }
    }

    /// A file with master keys, each of one digit, the newest first.
    fn key(&self, digits: &str) -> String {
        let path = self.keys.join(digits);
        let lines: Vec<String> = digits.chars().map(|d| d.to_string().repeat(64)).collect();
        fs::write(&path, lines.join("\n")).expect("the directory is writable");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, mode).expect("it is ours");
        format!("--encryption-key-file={}", path.display())
    }

    /// Small segments, so that checkpoints are made in a test's time.
    fn start(&self, more: &[&str]) -> Server {
        let usual = ["--workers=2", "--tune=redo-segment=128K"];
        Server::start_in(&self.data, &[&usual, more].concat())
    }

    /// A start that must fail; what it says.
    fn refusal(&self, options: &[&str]) -> String {
        let before = contents(&self.data);
        let mut command = Command::new(binary());
        command.args(["dev", "--port=0"]).args(options);
        command.arg(format!("--dir={}", self.data.display()));
        let output = run(command);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(contents(&self.data) == before, "it has changed something: {text}");
        text
    }

    fn inspect(&self, options: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.arg("inspect").arg(&self.data).args(options);
        run(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for path in [&self.data, &self.keys] {
            if thread::panicking() {
                let _ = fs::rename(path, path.with_extension("failed"));
            } else {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

fn open(server: &Server) -> Session {
    server.session().unwrap_or_else(|error| panic!("{error}"))
}

/// All files below a directory but locks, which have the process's number in them.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut below = vec![directory.to_path_buf()];
    while let Some(path) = below.pop() {
        for entry in fs::read_dir(path).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            // A server that works removes files meanwhile.
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_dir() {
                below.push(path);
            } else if about.is_file() && !path.ends_with("lock") {
                match fs::read(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    read => found.push((path, read.expect("it can be read"))),
                }
            }
        }
    }
    found.sort();
    found
}

/// Which kinds of files have which of the markers in them.
fn found_markers(directory: &Path) -> BTreeSet<(String, &'static str)> {
    let mut found = BTreeSet::new();
    for (path, bytes) in contents(directory) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = name.split('-').next().unwrap_or_default().to_string();
        for marker in MARKERS {
            let bytes = bytes.windows(marker.len());
            if bytes.into_iter().any(|window| window == marker.as_bytes()) {
                found.insert((kind.clone(), marker));
            }
        }
    }
    found
}

/// Makes a table, and changes it until there are checkpoints of it.
fn fill(session: &mut Session, directory: &Path) {
    let create = "CREATE TABLE d.zeppelin_table (a INT PRIMARY KEY, marzipan_column VARCHAR(200))";
    all(session, &["SET nines_durability = disk", "CREATE DATABASE d", create]);
    let began = Instant::now();
    let mut next = 0;
    let has_checkpoint = || {
        let files = contents(directory);
        files.iter().any(|(path, bytes)| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("checkpoint") && !name.ends_with("draft") && bytes.len() > 8_192
        })
    };
    while !has_checkpoint() {
        assert!(began.elapsed() < Duration::from_secs(120), "there is no checkpoint");
        let row = |n| format!("({n}, 'pantomime-of-rows {n} {}')", "x".repeat(100));
        let rows: Vec<String> = (next..next + 500).map(row).collect();
        all(session, &[&format!("INSERT INTO d.zeppelin_table VALUES {}", rows.join(","))]);
        next += 500;
    }
}

/// Every kind of file that has something to tell, with what it tells when it is not encrypted.
const TOLD: [(&str, &str); 4] =
    [("checkpoint", MARKERS[0]), ("redo", MARKERS[0]), ("log", MARKERS[1]), ("log", MARKERS[2])];

fn told() -> BTreeSet<(String, &'static str)> {
    TOLD.iter().map(|(kind, marker)| (kind.to_string(), *marker)).collect()
}

#[test]
fn files_of_an_encrypted_cluster_tell_nothing() {
    let plain = Place::new();
    let mut server = plain.start(&[]);
    fill(&mut open(&server), &plain.data);
    assert_eq!(server.stop("-TERM"), Some(0));
    assert!(found_markers(&plain.data).is_superset(&told()), "{:?}", found_markers(&plain.data));
    let place = Place::new();
    let key = place.key("a");
    let mut server = place.start(&[&key]);
    assert!(server.greeting.join("\n").contains("encrypted"), "{:?}", server.greeting);
    fill(&mut open(&server), &place.data);
    server.kill();
    assert_eq!(found_markers(&place.data), BTreeSet::new());
    let mut server = place.start(&[&key]);
    let count = "SELECT COUNT(*) FROM d.zeppelin_table WHERE marzipan_column LIKE 'pantomime%'";
    assert!(number(&mut open(&server), count) >= 500);
    assert_eq!(server.stop("-TERM"), Some(0));
    assert_eq!(found_markers(&place.data), BTreeSet::new());
    // Whoever has the key sees all of it.
    let output = place.inspect(&[&key, "--all"]);
    let text = text_of(&output, "inspect");
    for part in ["encrypted with data key 1", "1 data key, wrapped by", MARKERS[1], "puts with"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("not encrypted") && !text.contains("BROKEN"), "{text}");
    let output = place.inspect(&[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("keys: the directory is encrypted"), "{error}");
}

#[test]
fn nothing_durable_of_an_encrypted_cluster_is_lost_whenever_the_process_is_killed() {
    let mut random = Random::new();
    let place = Place::new();
    let key = place.key("a");
    let engine = |round: u32| ["--io=auto", "--io=threads"][round as usize % 2];
    let mut server = place.start(&[&key, engine(0)]);
    setup(&mut open(&server));
    let mut books = Books::default();
    let rounds = std::env::var("NINES_KILLS").ok().and_then(|text| text.parse().ok());
    for round in 1..=rounds.unwrap_or(3) {
        let run = Run::start(&server.socket, round);
        thread::sleep(Duration::from_millis(200 + random.below(1_300)));
        server.kill();
        let acknowledged = run.end();
        server = place.start(&[&key, engine(round)]);
        let report = books.check(&mut open(&server), acknowledged);
        println!("round {round}: {report}");
    }
    assert_eq!(server.stop("-TERM"), Some(0));
    let output = place.inspect(&[&key]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_full_disk_of_an_encrypted_cluster_refuses_writes_until_there_is_space() {
    let place = Place::new();
    for engine in ["--io=auto", "--io=threads"] {
        let directory = place.data.join(engine.trim_start_matches("--io="));
        fs::create_dir_all(&directory).expect("the directory is writable");
        let key = place.key("a");
        let options = ["--workers=2", "--tune=redo-segment=128K", engine, &key];
        if !fill_a_disk(&directory, &options) {
            println!("skipped: nothing can be mounted here");
        }
    }
}

#[test]
fn a_key_that_is_wrong_missing_or_open_is_refused_and_harms_nothing() {
    let place = Place::new();
    let (key, other) = (place.key("a"), place.key("b"));
    let mut server = place.start(&[&key]);
    all(&mut open(&server), &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    all(&mut open(&server), &["SET nines_durability = disk", "INSERT INTO d.t VALUES (7)"]);
    assert_eq!(server.stop("-TERM"), Some(0));
    let refusal = place.refusal(&[&other]);
    let parts = ["node-1/keys", "encrypted with master key", "nothing was changed"];
    assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    let refusal = place.refusal(&[]);
    assert!(refusal.contains("is needed"), "{refusal}");
    let command = "--encryption-key-command=echo no service >&2; false";
    let refusal = place.refusal(&[command]);
    assert!(refusal.contains("no service"), "{refusal}");
    let file = place.keys.join("a");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let refusal = place.refusal(&[&key]);
    assert!(refusal.contains("others than its owner may use the key"), "{refusal}");
    let command = format!("--encryption-key-command=cat '{}'", file.display());
    let mut server = place.start(&[&command]);
    assert_eq!(number(&mut open(&server), "SELECT a FROM d.t"), 7);
    assert_eq!(server.stop("-TERM"), Some(0));
    fs::rename(place.data.join("node-1/keys"), place.keys.join("kept")).expect("it is there");
    let refusal = place.refusal(&[&command]);
    assert!(refusal.contains("is missing: put it back"), "{refusal}");
}

#[test]
fn a_plain_cluster_becomes_an_encrypted_one_and_plain_again() {
    let place = Place::new();
    let key = place.key("a");
    let count = "SELECT COUNT(*) FROM d.zeppelin_table";
    let mut server = place.start(&[]);
    fill(&mut open(&server), &place.data);
    let refused = open(&server).query("CREATE TABLE d.e (a INT PRIMARY KEY) ENCRYPTION='Y'");
    assert_eq!(refused.unwrap_err().code(), Some(1235));
    let refused = open(&server).query("CREATE DATABASE e ENCRYPTION='Y'");
    assert_eq!(refused.unwrap_err().code(), Some(1235));
    let rows = number(&mut open(&server), count);
    server.kill();
    let mut server = place.start(&[&key]);
    let session = &mut open(&server);
    assert_eq!(number(session, count), rows);
    let statements = [
        "CREATE DATABASE e ENCRYPTION='Y'",
        "CREATE TABLE e.t (a INT PRIMARY KEY) ENCRYPTION='Y' COMMENT 'c'",
    ];
    all(session, &statements);
    let shown = session.query("SHOW CREATE TABLE e.t").expect("it is there");
    let shown = shown[0][1].clone().unwrap_or_default();
    assert!(shown.contains("/*!80016 ENCRYPTION='Y' */ COMMENT='c'"), "{shown}");
    let facts = "SELECT COUNT(*) FROM information_schema.tables JOIN information_schema.schemata \
                 ON table_schema = schema_name WHERE table_name = 't' AND table_schema = 'e' \
                 AND create_options LIKE \"%encryption='y'%\" AND default_encryption = 'YES'";
    assert_eq!(number(session, facts), 1);
    // Old files are told from new ones until they have been replaced.
    let text = text_of(&place.inspect(&[&key]), "inspect");
    assert!(text.contains("not encrypted") && text.contains("encrypted with data key 1"), "{text}");
    // What is written now is encrypted: old files go as the log and checkpoints go on.
    all(session, &["SET nines_durability = disk"]);
    let began = Instant::now();
    while !found_markers(&place.data).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", found_markers(&place.data));
        let change = "UPDATE d.zeppelin_table SET marzipan_column = \
                      CONCAT('pantomime-of-rows ', RAND(), REPEAT('y', 150)) WHERE a % 3 = 0";
        all(session, &[change]);
    }
    server.kill();
    // Back again, with the key for what is left.
    place.refusal(&[]);
    let mut server = place.start(&[&key, "--decrypt"]);
    let session = &mut open(&server);
    assert_eq!(number(session, count), rows);
    assert_eq!(session.query("CREATE DATABASE f ENCRYPTION='Y'").unwrap_err().code(), Some(1235));
    assert_eq!(number(session, "SELECT COUNT(*) FROM e.t"), 0);
    assert_eq!(server.stop("-TERM"), Some(0));
}

/// An encrypted cluster of processes.
fn encrypted_cluster(place: &Place) -> Processes {
    let layout = Layout { data: 2, replicas: 2, management: 1, sql: 1, disk: true };
    let mut cluster = Processes::prepare(layout, "EncryptedFileSystem=1");
    let key = place.key("a");
    let nodes: Vec<u16> = cluster.nodes().collect();
    for node in &nodes {
        launch(&mut cluster, *node, &key);
    }
    nodes.iter().for_each(|node| cluster.wait_until_ready(*node));
    cluster
}

fn launch(cluster: &mut Processes, node: u16, key: &str) {
    if node >= SQL { cluster.launch(node) } else { cluster.launch_with(node, &[key]) }
}

fn ctl(cluster: &Processes, order: &[&str]) -> Output {
    let mut command = Command::new(binary());
    let connect = format!("127.0.0.1:{}", cluster.port(MANAGEMENT));
    command.args(["ctl", "-c", &connect]).args(order);
    run(command)
}

#[test]
fn keys_of_a_cluster_are_rotated_while_it_works() {
    let place = Place::new();
    let mut cluster = encrypted_cluster(&place);
    all(
        &mut open_at(&cluster, SQL),
        &[
            "CREATE DATABASE e ENCRYPTION='Y'",
            "CREATE TABLE e.zeppelin_table (a INT PRIMARY KEY, marzipan_column VARCHAR(50))",
            "SET nines_durability = disk",
            "INSERT INTO e.zeppelin_table VALUES (1, 'pantomime-of-rows')",
        ],
    );
    let counter = Counter::start(&cluster, SQL);
    // A new master key beside the old one; then it alone.
    let file = place.keys.join("a");
    let (old, new) = ("a".repeat(64), "b".repeat(64));
    fs::write(&file, format!("{new}\n{old}\n")).expect("it is ours");
    let text = text_of(&ctl(&cluster, &["rotate-keys"]), "rotate-keys");
    assert_eq!(text.matches("new files get data key 2").count(), 3, "{text}");
    fs::write(&file, &new).expect("it is ours");
    let text = text_of(&ctl(&cluster, &["rotate-keys", "2"]), "rotate-keys 2");
    assert!(text.contains("node 2: new files get data key 3"), "{text}");
    // A key that is none of theirs is refused, and nothing has changed.
    fs::write(&file, &old).expect("it is ours");
    let output = ctl(&cluster, &["rotate-keys"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("no new keys").count(), 3, "{text}");
    fs::write(&file, &new).expect("it is ours");
    let key = format!("--encryption-key-file={}", file.display());
    for node in [1, 2, MANAGEMENT] {
        cluster.kill(&[node]);
        launch(&mut cluster, node, &key);
        cluster.wait_until_ready(node);
        cluster.wait_until_complete(SQL);
    }
    counter.check(&cluster, SQL);
    // All at once: what was said to be durable is there.
    let all_nodes: Vec<u16> = cluster.nodes().collect();
    cluster.kill(&all_nodes);
    assert_eq!(found_markers(&cluster.directory().join("data")), BTreeSet::new());
    for node in &all_nodes {
        launch(&mut cluster, *node, &key);
    }
    all_nodes.iter().for_each(|node| cluster.wait_until_ready(*node));
    let session = &mut open_at(&cluster, SQL);
    assert_eq!(number(session, "SELECT COUNT(*) FROM e.zeppelin_table"), 1);
}

#[test]
fn a_node_without_its_key_does_not_start_and_comes_back_empty_with_a_new_one() {
    let place = Place::new();
    let mut cluster = encrypted_cluster(&place);
    all(
        &mut open_at(&cluster, SQL),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1)",
        ],
    );
    cluster.kill(&[2]);
    for (options, part) in [
        (Vec::new(), "EncryptedFileSystem=1 for node 2, and there is no key"),
        (vec![place.key("b")], "node-2/keys: the directory is encrypted with master key"),
    ] {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        cluster.launch_with(2, &options);
        assert_eq!(cluster.wait_for_end(2), Some(1));
        assert!(cluster.log(2).contains(part), "{part}: {}", cluster.log(2));
    }
    let key = place.key("b");
    cluster.launch_with(2, &[&key, "--initial"]);
    cluster.wait_until_ready(2);
    cluster.wait_until_complete(SQL);
    cluster.kill(&[1]);
    assert_eq!(number(&mut open_at(&cluster, SQL), "SELECT COUNT(*) FROM d.t"), 1);
}
