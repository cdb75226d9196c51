//! Faults at random moments on a cluster of separate processes, while clients move money and append
//! to lists. `cargo xtask chaos --minutes N` runs it for as long as one likes.
//!
//! What was acknowledged is there at the end, in its place; what was refused is not; what nobody
//! knows is there once or not at all. The longest time without an answer is told for each kind of
//! fault.
//!
//! `NINES_CHAOS_SECONDS` says how long it takes, `NINES_SEED` repeats the choice of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL};
use tests::{QueryError, Session};

use super::workload::{AppendError, Random, append, read, setup, tag};

/// Writers on each SQL node.
const WRITERS: u16 = 3;

/// What a writer has seen.
#[derive(Default)]
struct Seen {
    /// Acknowledged, with their places.
    acknowledged: BTreeMap<i64, (i64, i64)>,
    /// Refused: they did nothing.
    refused: BTreeSet<i64>,
    /// Nobody knows.
    unknown: BTreeSet<i64>,
    errors: BTreeMap<String, u64>,
}

/// Between the writers and whoever makes the faults.
struct Shared {
    stop: AtomicBool,
    origin: Instant,
    /// Longest pause between two answers since it was last asked, in microseconds.
    longest: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillData,
    KillDriver,
    FreezeShortly,
    FreezeLong,
    KillManagement,
    KillSql,
    StopInOrder,
    KillAll,
}

const FAULTS: [Fault; 8] = [
    Fault::KillData,
    Fault::KillDriver,
    Fault::FreezeShortly,
    Fault::FreezeLong,
    Fault::KillManagement,
    Fault::KillSql,
    Fault::StopInOrder,
    Fault::KillAll,
];

fn duration() -> Duration {
    let given = std::env::var("NINES_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(60))
}

#[test]
fn no_commit_is_lost_or_invented() {
    let mut random = Random::new();
    let mut cluster = Processes::start(SMALL);
    setup(&mut cluster.session(SQL).unwrap_or_else(|error| panic!("{error}")));
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        origin: Instant::now(),
        longest: AtomicU64::new(0),
        seen: Mutex::default(),
    });
    let sql_nodes = [SQL, SQL + 1];
    let writers: Vec<JoinHandle<()>> = sql_nodes
        .iter()
        .flat_map(|node| (0..WRITERS).map(move |number| (*node, number)))
        .map(|(node, number)| {
            let (shared, socket) = (shared.clone(), cluster.socket(node));
            let writer = i64::from((node - SQL) * WRITERS + number);
            thread::spawn(move || write(&shared, &socket, writer))
        })
        .collect();
    let mut gaps: BTreeMap<Fault, (u64, Vec<Duration>)> = BTreeMap::new();
    let until = Instant::now() + duration();
    let mut round = 0;
    while Instant::now() < until {
        // Each kind once, then whatever comes.
        let fault = match FAULTS.get(round) {
            Some(fault) => *fault,
            None => FAULTS[random.below(FAULTS.len() as u64) as usize],
        };
        round += 1;
        cluster.wait_until_complete(SQL);
        thread::sleep(Duration::from_millis(200 + random.below(800)));
        shared.longest.store(0, Ordering::SeqCst);
        happen(&mut cluster, fault, &mut random);
        thread::sleep(Duration::from_millis(300));
        cluster.wait_until_complete(SQL);
        let gap = Duration::from_micros(shared.longest.load(Ordering::SeqCst));
        let of_kind = gaps.entry(fault).or_default();
        of_kind.0 += 1;
        of_kind.1.push(gap);
    }
    cluster.wait_until_complete(SQL);
    thread::sleep(Duration::from_millis(500));
    shared.stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.join().expect("no writer fails");
    }
    let mut session = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    let seen = shared.seen.lock().expect("nobody panics while holding it");
    check(&mut session, &seen);
    println!(
        "{round} faults: {} commits, {} refused, {} unknown",
        seen.acknowledged.len(),
        seen.refused.len(),
        seen.unknown.len()
    );
    for (error, count) in &seen.errors {
        println!("  {count:>6} x {error}");
    }
    for (fault, (count, gaps)) in gaps {
        let mut gaps: Vec<u128> = gaps.iter().map(Duration::as_millis).collect();
        gaps.sort_unstable();
        let (middle, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        println!("  {fault:?}: {count} times, gap {middle} ms, longest {longest} ms");
    }
}

/// Makes a fault, and mends it.
fn happen(cluster: &mut Processes, fault: Fault, random: &mut Random) {
    let data = 1 + random.below(2) as u16;
    let pause = Duration::from_millis(random.below(1_500));
    match fault {
        Fault::KillData | Fault::KillDriver => {
            let node = if fault == Fault::KillData { data } else { driver(cluster) };
            cluster.kill(&[node]);
            thread::sleep(pause);
            cluster.start_node(node);
        }
        Fault::FreezeShortly | Fault::FreezeLong => {
            let long = if fault == Fault::FreezeLong { 3_000 } else { 100 + random.below(300) };
            cluster.signal(data, "-STOP");
            thread::sleep(Duration::from_millis(long));
            cluster.signal(data, "-CONT");
        }
        Fault::KillManagement => {
            cluster.kill(&[MANAGEMENT]);
            thread::sleep(pause);
            cluster.start_node(MANAGEMENT);
        }
        Fault::KillSql => {
            cluster.kill(&[SQL + 1]);
            thread::sleep(pause);
            cluster.start_node(SQL + 1);
        }
        Fault::StopInOrder => {
            assert_eq!(cluster.stop(data), Some(0));
            thread::sleep(pause);
            cluster.start_node(data);
        }
        Fault::KillAll => {
            let all: Vec<u16> = cluster.data_nodes().collect();
            cluster.kill(&all);
            thread::sleep(pause);
            all.iter().for_each(|node| cluster.launch(*node));
            all.iter().for_each(|node| cluster.wait_until_ready(*node));
        }
    }
}

/// The oldest data node, which drives epochs.
fn driver(cluster: &Processes) -> u16 {
    let oldest = "SELECT node_id FROM nines.nodes WHERE role = 'data' ORDER BY joined_at LIMIT 1";
    let found = cluster.session(SQL).and_then(|mut session| session.number(oldest));
    found.map_or(1, |node| node as u16)
}

fn write(shared: &Shared, socket: &Path, writer: i64) {
    let mut random = Random(writer as u64);
    let mut session: Option<Session> = None;
    let mut last = Instant::now();
    for number in 1.. {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Some(open) = &mut session else {
            session = connect(socket);
            continue;
        };
        let tag = tag(0, writer, number);
        let outcome = append(open, &mut random, tag);
        let answered = Instant::now();
        let mut seen = shared.seen.lock().expect("nobody panics while holding it");
        match outcome {
            Ok(place) => {
                seen.acknowledged.insert(tag, place);
                let gap = answered.duration_since(last).as_micros() as u64;
                shared.longest.fetch_max(gap, Ordering::SeqCst);
                last = answered;
                continue;
            }
            Err(AppendError::Before(ref error)) => {
                *seen.errors.entry(name(error)).or_default() += 1;
                seen.refused.insert(tag);
            }
            // The whole is undone, and the server says so.
            Err(AppendError::AtCommit(QueryError::Refused(1205 | 1213 | 1297, ref text))) => {
                *seen.errors.entry(format!("at commit, undone: {text}")).or_default() += 1;
                seen.refused.insert(tag);
            }
            Err(AppendError::AtCommit(ref error)) => {
                *seen.errors.entry(format!("at commit: {}", name(error))).or_default() += 1;
                seen.unknown.insert(tag);
            }
        }
        drop(seen);
        let error = outcome.map_err(AppendError::query);
        let lost = matches!(error, Err(QueryError::Lost(_)));
        if lost || open.query("ROLLBACK").is_err() {
            session = None;
        }
        assert!(shared.origin.elapsed() < LIFE_MAX, "the writer is never told to stop");
    }
}

fn connect(socket: &Path) -> Option<Session> {
    let mut session = Session::connect(socket).ok();
    let durable = session.as_mut().is_some_and(|s| s.query("SET nines_durability = disk").is_ok());
    if !durable {
        thread::sleep(Duration::from_millis(10));
        return None;
    }
    session
}

/// An error without what differs from time to time.
fn name(error: &QueryError) -> String {
    let text: String = error.to_string();
    text.chars().filter(|c| !c.is_ascii_digit()).take(90).collect()
}

fn check(session: &mut Session, seen: &Seen) {
    let found: BTreeMap<i64, (i64, i64)> =
        read(session).into_iter().map(|(place, tag)| (tag, place)).collect();
    for (tag, place) in &seen.acknowledged {
        assert_eq!(found.get(tag), Some(place), "{tag:x} was acknowledged");
    }
    for tag in &seen.refused {
        assert!(!found.contains_key(tag), "{tag:x} was refused, and is there");
    }
    for tag in found.keys() {
        let known = seen.acknowledged.contains_key(tag) || seen.unknown.contains(tag);
        assert!(known, "nobody has written {tag:x}");
    }
}

/// Longer than any run.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);
