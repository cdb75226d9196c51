//! A look at the nodes of a process from outside its workers: figures, whether nodes are ready, and
//! connections of clients that have come in another way than by a listener.
//!
//! # Guarantees
//! Whoever looks waits, the workers do not: each tells what it knows at its next turn. A thread
//! that does not answer in time is named.
//! # Not here
//! What a thread tells (`thread`), the names of metrics (`actor`), how they are printed (`nines`).

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actor::{Encryption, Figures, Metric, Transport};
use model::NodeId;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::cluster::{Common, Role};
use crate::exchange::Mail;
use crate::listener::{Accepted, next_id};

/// What a thread knows.
#[derive(Debug)]
pub(crate) struct ThreadReport {
    pub(crate) thread: usize,
    pub(crate) figures: Figures,
    /// The nodes of the process, from the first thread.
    pub(crate) nodes: Vec<NodeReport>,
}

/// Whether a node can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// What it is.
    pub role: Role,
    /// Why it cannot, in a line; none if it can.
    pub why_not: Option<String>,
}

/// What the threads of a process have told.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// Of all threads that have answered.
    pub figures: Figures,
    /// The nodes; none when the first thread has not answered.
    pub nodes: Vec<NodeReport>,
    /// Threads that have not answered in time.
    pub silent: Vec<usize>,
}

/// Looks at the nodes of a process.
#[derive(Clone, Debug)]
pub struct Observer(Weak<Common>);

impl Observer {
    pub(crate) fn new(common: &Arc<Common>) -> Self {
        Self(Arc::downgrade(common))
    }

    /// Lets in a client that has come in another way than by a listener: the application sees it as
    /// one that `transport` has brought and that `encryption` protects. The client's end of the
    /// connection; it is closed where no client node runs.
    ///
    /// # Errors
    /// When the nodes have ended, or the system has no socket left.
    pub fn connect(
        &self,
        transport: Transport,
        encryption: Option<Encryption>,
    ) -> io::Result<UnixStream> {
        let ended = || io::Error::new(io::ErrorKind::NotConnected, "the node has ended");
        let common = self.0.upgrade().ok_or_else(ended)?;
        let (own, other) = UnixStream::pair()?;
        other.set_nonblocking(true)?;
        let id = next_id(&common.connections);
        let thread = usize::try_from(id.0 % common.threads() as u64).unwrap_or(0);
        let accepted = Accepted { id, socket: other.into(), transport, encryption };
        common.exchange.post_from_outside(thread, Mail::Connection(accepted));
        Ok(own)
    }

    /// Asks all threads, and waits for their answers at most so long. None when the nodes have
    /// ended.
    pub fn look(&self, patience: Duration) -> Option<ProcessReport> {
        let common = self.0.upgrade()?;
        let until = Instant::now() + patience;
        let (send, answers) = channel();
        for thread in 0..common.threads() {
            common.exchange.post_from_outside(thread, Mail::Figures(send.clone()));
        }
        drop(send);
        let mut report = ProcessReport {
            figures: Figures::default(),
            nodes: Vec::new(),
            silent: (0..common.threads()).collect(),
        };
        while !report.silent.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(told) = answers.recv_timeout(left) else { break };
            report.silent.retain(|thread| *thread != told.thread);
            report.figures.list.extend(told.figures.list);
            report.nodes.extend(told.nodes);
        }
        tell_process(&common, &mut report);
        Some(report)
    }
}

/// What concerns the process as a whole.
fn tell_process(common: &Common, report: &mut ProcessReport) {
    let figures = &mut report.figures;
    figures.add(Metric::Silent, &[], report.silent.len() as u64);
    let now = common.clock.now();
    let age = now.since(crate::clock::BEGINNING);
    figures.add_time(Metric::Uptime, &[], age);
    let start = common.clock_origin + crate::clock::BEGINNING.as_nanos();
    figures.add(Metric::ProcessStart, &[], start);
    if let Some(bytes) = resident_bytes() {
        figures.add(Metric::ProcessMemory, &[], bytes);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        figures.add(Metric::ProcessFiles, &[], open.count() as u64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        figures.add(Metric::ProcessFilesMax, &[], most);
    }
    tell_other_threads(figures);
    for (node, directory) in &common.directories {
        let Ok(space) = rustix::fs::statvfs(directory.path()) else { continue };
        figures.of_node(*node);
        figures.add(Metric::DiskFree, &[], space.f_bavail.saturating_mul(space.f_frsize));
        figures.add(Metric::DiskSize, &[], space.f_blocks.saturating_mul(space.f_frsize));
    }
}

/// Processor time of the process, and of its threads that are no workers, by what they do.
pub(crate) fn tell_other_threads(figures: &mut Figures) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
    figures.add(Metric::ProcessCpu, &[], nanos);
    let (mut links, mut disk) = (None, None);
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let path = task.path();
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        let name = read("comm");
        let sum = match name.trim_end() {
            "links" => &mut links,
            name if name.starts_with("disk") => &mut disk,
            _ => continue,
        };
        let time = read("schedstat");
        let Some(nanos) = time.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()) else {
            continue;
        };
        *sum.get_or_insert(0) += nanos;
    }
    for (name, nanos) in [("links", links), ("disk", disk)] {
        if let Some(nanos) = nanos {
            figures.add(Metric::ThreadCpu, &[name], nanos);
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}
