//! Bit-rot at rest, in processes of their own: what one replica lacks comes from the other one, and
//! what all replicas lack is not lost without an order.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SQL};
use tests::{all, binary, number, run};

const LAYOUT: Layout = Layout { data: 2, replicas: 2, management: 1, sql: 1, disk: true };
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Rows of the table, and how often all of them are updated.
const ROWS: u64 = 3_000;
const UPDATES: u64 = 24;

/// What happens to a file.
type Damage = fn(&mut Vec<u8>);

fn ctl(cluster: &Processes, order: &[&str]) -> (bool, String) {
    let mut program = Command::new(binary());
    program.arg("ctl").arg(format!("--connect=127.0.0.1:{}", cluster.port(MANAGEMENT)));
    program.args(order);
    let output = run(program);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The middle one of the redo segments that both nodes have of a worker.
fn middle(cluster: &Processes) -> [PathBuf; 2] {
    let segments = |node: u16| {
        let worker = cluster.directory().join(format!("data/node-{node}/worker-1"));
        let entries = fs::read_dir(&worker).expect("the directory is there");
        let mut names: Vec<PathBuf> = entries
            .map(|entry| entry.expect("it can be read"))
            .filter(|entry| entry.metadata().is_ok_and(|about| about.len() > 0))
            .map(|entry| entry.path())
            .filter(|path| {
                path.file_name().expect("a file has a name").to_string_lossy().starts_with("redo-")
            })
            .collect();
        names.sort();
        names
    };
    let of_nodes = [segments(1), segments(2)];
    of_nodes.map(|names| names[names.len() - 2].clone())
}

fn damage(path: &PathBuf, how: Damage) {
    let mut bytes = fs::read(path).expect("it can be read");
    how(&mut bytes);
    fs::write(path, bytes).expect("it can be written");
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        thread::sleep(Duration::from_millis(100));
    }
}

fn launch(cluster: &mut Processes) {
    for node in [MANAGEMENT, 1, 2, SQL] {
        cluster.launch(node);
    }
}

fn kill(cluster: &mut Processes) {
    cluster.kill(&[1, 2, MANAGEMENT, SQL]);
}

#[test]
fn damage_is_mended_from_the_other_replica_and_a_loss_needs_an_order() {
    let mut cluster = Processes::prepare(LAYOUT, "FragmentLogFileSize=4M");
    cluster.start_all();
    let session = &mut cluster.session(SQL).expect("it serves");
    all(
        session,
        &[
            "SET nines_durability = disk",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY, v INT, p VARCHAR(400))",
        ],
    );
    for first in (0..ROWS).step_by(500) {
        let rows: Vec<String> =
            (first..first + 500).map(|n| format!("({n}, 0, REPEAT('r', 350))")).collect();
        all(session, &[&format!("INSERT INTO d.t VALUES {}", rows.join(","))]);
    }
    for _ in 0..UPDATES {
        all(session, &["UPDATE d.t SET v = v + 1"]);
    }
    kill(&mut cluster);

    // One replica is enough, and what happens is told.
    let [first, _] = middle(&cluster);
    damage(&first, |bytes| bytes[9] ^= 16);
    launch(&mut cluster);
    cluster.wait_until_ready(SQL);
    cluster.wait_until_complete(SQL);
    let sum = "SELECT SUM(v) FROM d.t";
    assert_eq!(number(&mut cluster.session(SQL).expect("it serves"), sum), (ROWS * UPDATES) as i64);
    let name = first.file_name().expect("a file has a name").to_string_lossy().into_owned();
    wait_for("the repair in the log", || cluster.log(1).contains("repaired: "));
    let told = format!("worker-1/{name}: bytes 0 to ");
    assert!(cluster.log(1).contains(&told), "{}", cluster.log(1));
    wait_for("the repair as an event", || ctl(&cluster, &["events"]).1.contains("repaired: "));
    assert!(ctl(&cluster, &["events"]).1.contains(&told));

    // What both have lost stops the restart.
    let session = &mut cluster.session(SQL).expect("it serves");
    all(session, &["SET nines_durability = disk"]);
    for _ in 0..UPDATES {
        all(session, &["UPDATE d.t SET v = v + 1"]);
    }
    kill(&mut cluster);
    let [first, second] = middle(&cluster);
    damage(&first, |bytes| bytes.truncate(10_000));
    damage(&second, |bytes| bytes[8_192..12_288].fill(0));
    launch(&mut cluster);
    cluster.wait_until_ready(MANAGEMENT);
    wait_for("the refusal", || ctl(&cluster, &["show"]).1.contains("does not restart"));
    let events = ctl(&cluster, &["events"]).1;
    for path in [&first, &second] {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        assert!(events.contains(&format!("worker-1/{name}: ")), "{name}: {events}");
    }
    let (_, order) = events.rsplit_once("nines ctl accept-loss ").expect("the order is named");
    let epoch: String = order.chars().take_while(char::is_ascii_digit).collect();
    let (done, text) = ctl(&cluster, &["accept-loss", "1"]);
    assert!(!done && text.contains(&format!("would go back to epoch {epoch}, not 1")), "{text}");
    let (done, text) = ctl(&cluster, &["accept-loss", &epoch]);
    assert!(done, "{text}");
    cluster.wait_until_ready(SQL);
    cluster.wait_until_complete(SQL);
    // Whole statements are lost, and the same ones on all workers of both nodes.
    let values = "SELECT COUNT(DISTINCT v) FROM d.t";
    let session = &mut cluster.session(SQL).expect("it serves");
    assert_eq!(number(session, values), 1);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), ROWS as i64);
    let left = number(session, sum);
    assert!(left < 2 * (ROWS * UPDATES) as i64, "{left}");
    assert!(ctl(&cluster, &["events"]).1.contains("by order of an operator"));
    kill(&mut cluster);

    // What was given up is asked for no more, and does not come back.
    launch(&mut cluster);
    cluster.wait_until_ready(SQL);
    cluster.wait_until_complete(SQL);
    assert_eq!(number(&mut cluster.session(SQL).expect("it serves"), sum), left);
}
