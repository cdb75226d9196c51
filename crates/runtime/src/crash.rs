//! What is kept of the last moments of nodes that stop unexpectedly.
//!
//! # Owns
//! The files `nodeN-trace.txt`: the flight recorders of a node's workers, oldest event first.
//! # Guarantees
//! After a panic, or a signal that ends the process, no thread takes another step. Each leaves its
//! recorders; the one that panicked waits for them a moment and writes the files, or the one that
//! waits for such signals (`deadly`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::NodeId;
use node::Worker;

/// Where threads meet after a panic.
#[derive(Debug)]
pub(crate) struct CrashSite {
    directory: PathBuf,
    crashed: AtomicBool,
    threads: usize,
    left: Mutex<Left>,
    changed: Condvar,
}

/// What threads have left.
#[derive(Debug, Default)]
struct Left {
    threads: usize,
    traces: BTreeMap<NodeId, String>,
}

impl CrashSite {
    pub(crate) fn new(directory: PathBuf, threads: usize) -> Self {
        let (crashed, left) = (AtomicBool::new(false), Mutex::default());
        Self { directory, crashed, threads, left, changed: Condvar::new() }
    }

    /// Where traces are written.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a thread has panicked.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// A thread has panicked; true for the first.
    pub(crate) fn declare(&self) -> bool {
        !self.crashed.swap(true, Ordering::SeqCst)
    }

    /// A thread leaves its recorders, and ends.
    pub(crate) fn leave<'a>(&self, workers: impl Iterator<Item = (NodeId, &'a Worker)>) {
        let mut left = self.left();
        for (node, worker) in workers {
            left.traces.entry(node).or_default().push_str(&trace(worker));
        }
        left.threads += 1;
        self.changed.notify_all();
    }

    /// Writes what has been left, when all have, or have had so much time.
    pub(crate) fn write(&self, patience: Duration) -> io::Result<Vec<PathBuf>> {
        self.write_with(patience, std::iter::empty(), "")
    }

    /// The same for these nodes at least, each with a line at its head.
    pub(crate) fn write_with(
        &self,
        patience: Duration,
        nodes: impl Iterator<Item = NodeId>,
        head: &str,
    ) -> io::Result<Vec<PathBuf>> {
        let incomplete = |left: &mut Left| left.threads < self.threads;
        let (mut left, _) = self
            .changed
            .wait_timeout_while(self.left(), patience, incomplete)
            .unwrap_or_else(PoisonError::into_inner);
        nodes.for_each(|node| left.traces.entry(node).or_default().insert_str(0, head));
        let write = |(node, text): (&NodeId, &String)| write_trace(&self.directory, *node, text);
        left.traces.iter().map(write).collect()
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the trace of a node.
pub(crate) fn write_trace(directory: &Path, node: NodeId, text: &str) -> io::Result<PathBuf> {
    let path = directory.join(format!("node{}-trace.txt", node.0));
    fs::write(&path, text)?;
    Ok(path)
}

/// What a worker's recorder holds.
pub(crate) fn trace(worker: &Worker) -> String {
    let shared = worker.shared();
    let mut text = String::new();
    let head = (shared.node, shared.incarnation, shared.worker, shared.cluster.index);
    writeln!(text, "== {}{} {} at {}", head.0, head.1, head.2, head.3)
        .and_then(|()| writeln!(text, "{}", shared.recorder))
        .expect("a string takes everything");
    text
}

/// How long the others may take to leave their recorders.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
