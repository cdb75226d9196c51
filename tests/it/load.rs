//! Clients that move money and append to lists through several SQL nodes, whatever happens to the
//! cluster, and what must be there in the end.
//!
//! What was acknowledged is there at the end, in its place; what was refused is not; what nobody
//! knows is there once or not at all. Commits wait for the disks.

#![expect(clippy::print_stdout, reason = "whoever runs it wants to know what it has come to")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::cluster::Processes;
use tests::{QueryError, Session};

use super::workload::{AppendError, Random, append, read, setup, tag};

/// What writers have seen.
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

/// A writer, as it is seen from outside.
struct Progress {
    /// The SQL node that it uses.
    node: u16,
    socket: PathBuf,
    commits: AtomicU64,
    /// Longest pause between two acknowledged commits since it was last asked, in microseconds.
    longest: AtomicU64,
}

struct Shared {
    stop: AtomicBool,
    origin: Instant,
    seen: Mutex<Seen>,
    writers: Vec<Progress>,
}

/// Running writers.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Makes the tables, and starts so many writers on each of these SQL nodes.
    pub(crate) fn start(cluster: &Processes, nodes: &[u16], writers: u16) -> Load {
        setup(&mut cluster.session(nodes[0]).unwrap_or_else(|error| panic!("{error}")));
        let writers = nodes.iter().flat_map(|node| (0..writers).map(move |_| *node));
        let progress = |node| Progress {
            node,
            socket: cluster.socket(node),
            commits: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        };
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            origin: Instant::now(),
            seen: Mutex::default(),
            writers: writers.map(progress).collect(),
        });
        let thread = |number| {
            let shared = shared.clone();
            thread::spawn(move || write(&shared, number))
        };
        let threads = (0..shared.writers.len()).map(thread).collect();
        Load { shared, threads }
    }

    fn of(&self, nodes: &[u16]) -> impl Iterator<Item = &Progress> {
        self.shared.writers.iter().filter(move |writer| nodes.contains(&writer.node))
    }

    /// Forgets the pauses so far.
    pub(crate) fn forget_pauses(&self) {
        self.shared.writers.iter().for_each(|writer| writer.longest.store(0, Ordering::SeqCst));
    }

    /// Waits until each writer on these nodes has had another commit acknowledged that it began
    /// after this call; the longest pause of any of them since they were forgotten.
    pub(crate) fn progress(&self, nodes: &[u16]) -> Duration {
        let began = Instant::now();
        for writer in self.of(nodes) {
            // The one that is under way may have begun before.
            let before = writer.commits.load(Ordering::SeqCst);
            while writer.commits.load(Ordering::SeqCst) < before + 2 {
                let node = writer.node;
                assert!(began.elapsed() < PATIENCE, "SQL node {node} commits nothing any more");
                thread::sleep(Duration::from_millis(5));
            }
        }
        let longest = self.of(nodes).map(|writer| writer.longest.load(Ordering::SeqCst)).max();
        Duration::from_micros(longest.unwrap_or_default())
    }

    /// Stops the writers, and checks what is there through an SQL node.
    pub(crate) fn end(self, cluster: &Processes, sql: u16) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("no writer fails");
        }
        let mut session = cluster.session(sql).unwrap_or_else(|error| panic!("{error}"));
        let seen = self.shared.seen.lock().expect("nobody panics while holding it");
        println!(
            "{} commits, {} refused, {} unknown",
            seen.acknowledged.len(),
            seen.refused.len(),
            seen.unknown.len()
        );
        for (error, count) in &seen.errors {
            println!("  {count:>6} x {error}");
        }
        check(&mut session, &seen);
    }
}

fn write(shared: &Shared, number: usize) {
    let own = &shared.writers[number];
    let writer = number as i64;
    let mut random = Random(writer as u64);
    let mut session: Option<Session> = None;
    let mut last = Instant::now();
    for number in 1.. {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Some(open) = &mut session else {
            session = connect(&own.socket);
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
                own.longest.fetch_max(gap, Ordering::SeqCst);
                own.commits.fetch_add(1, Ordering::SeqCst);
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

/// How long a writer may wait for a commit when nothing is broken any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any run.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);
