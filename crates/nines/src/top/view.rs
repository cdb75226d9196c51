//! What a cluster has done between two readings, and what holds it up, in words.
//!
//! # Guarantees
//! Pure: the same readings give the same view. A node that has begun a new life in between has done
//! nothing, rather than less than nothing.

use std::collections::BTreeMap;

use actor::Metric;
use serde::Serialize;

use super::reading::Reading;
use crate::ctl::table::{Table, bytes};
use crate::role::status::{ClusterStatus, NodeStatus};

/// A cluster in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct View {
    cluster: String,
    told_by: u16,
    serves: bool,
    /// All nodes share the threads of one process.
    one_process: bool,
    seconds: f64,
    /// What holds it up, the worst first.
    bottlenecks: Vec<String>,
    nodes: Vec<NodeView>,
}

/// A node in an interval. Rates are for each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct NodeView {
    node: u16,
    role: String,
    status: String,
    /// All its workers have told.
    told: bool,
    /// Of one processor, all threads together.
    cpu_percent: u64,
    /// By thread: worker-0 and so on, links, disk; the rest of the process.
    threads: BTreeMap<String, u64>,
    /// Operations of a data node, statements of an SQL node.
    operations: u64,
    transactions: u64,
    aborts: u64,
    /// Messages that wait to be handled.
    queue: u64,
    memory_used: u64,
    memory_limit: u64,
    /// Of the worker that has least room left.
    memory_percent: u64,
    rows: u64,
    connections: u64,
    received_bytes: u64,
    sent_bytes: u64,
    /// Bytes that wait to be sent, by peer.
    waiting_bytes: BTreeMap<u16, u64>,
    redo_waiting_bytes: u64,
    disk_full: bool,
    lock_waits: u64,
    deadlocks: u64,
}

impl View {
    pub(super) fn of(status: &ClusterStatus, before: &Reading, now: &Reading) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(0.001);
        let nodes = status.nodes.iter().filter(|node| node.connected || node.port.is_some());
        let nodes: Vec<NodeView> =
            nodes.map(|node| NodeView::of(node, seconds, before, now)).collect();
        Self {
            cluster: status.name.clone(),
            told_by: status.told_by,
            serves: status.serves,
            one_process: status.one_process,
            seconds,
            bottlenecks: bottlenecks(status, &nodes),
            nodes,
        }
    }

    /// For people; a line fits 80 columns.
    pub(super) fn text(&self) -> String {
        let state = if self.serves { "serves" } else { "DOES NOT SERVE" };
        let mut text = format!(
            "cluster {} {state}; told by node {}, over {:.1} s\n",
            self.cluster, self.told_by, self.seconds
        );
        if self.one_process {
            text += "all nodes are one process: CPU is that of the process\n";
        }
        match self.bottlenecks.first() {
            None => text += "nothing is at its limit\n",
            Some(_) => self.bottlenecks.iter().for_each(|line| text += &format!("! {line}\n")),
        }
        text.push('\n');
        let head = [
            "node", "role", "CPU%", "workers%", "op/s", "tx/s", "queue", "memory", "in/s", "out/s",
        ];
        let mut table = Table::new(&head, &[0, 2, 4, 5, 6, 7, 8, 9]);
        for node in &self.nodes {
            table.row(node.cells());
        }
        text += &table.text(0);
        text
    }
}

impl NodeView {
    fn of(status: &NodeStatus, seconds: f64, before: &Reading, now: &Reading) -> Self {
        let node = status.node;
        let rate = |metric| {
            let (then, now) = (before.sum(node, metric), now.sum(node, metric));
            (now.saturating_sub(then) as f64 / seconds).round() as u64
        };
        let old: BTreeMap<&str, u64> = before.by_label(node, Metric::ThreadCpu).collect();
        let percent = |nanos: u64| (nanos as f64 / seconds / 1e7).round() as u64;
        let mut threads = BTreeMap::new();
        for (thread, nanos) in now.by_label(node, Metric::ThreadCpu) {
            let then = old.get(thread).copied().unwrap_or(nanos);
            threads.insert(thread.to_string(), percent(nanos.saturating_sub(then)));
        }
        let process = now.sum(node, Metric::ProcessCpu);
        let then = before.sum(node, Metric::ProcessCpu);
        let known: u64 = threads.values().sum();
        let cpu_percent = percent(process.saturating_sub(then)).max(known);
        threads.insert("rest".to_string(), cpu_percent - known);
        let number = |label: &str| label.parse::<u16>().ok();
        let waiting = now.by_label(node, Metric::LinkWaiting);
        let waiting = waiting.filter_map(|(peer, bytes)| Some((number(peer)?, bytes)));
        let aborted = |reading: &Reading| {
            let by = reading.by_label(node, Metric::Transactions);
            by.filter(|(outcome, _)| *outcome == "aborted").map(|(_, count)| count).sum::<u64>()
        };
        let aborts = aborted(now).saturating_sub(aborted(before)) as f64 / seconds;
        Self {
            node,
            role: status.role.clone(),
            status: status.status.clone(),
            told: now.has(node) && !now.silent.contains(&node),
            cpu_percent,
            threads,
            operations: rate(Metric::Operations) + rate(Metric::SqlStatements),
            transactions: rate(Metric::Transactions),
            aborts: aborts.round() as u64,
            queue: now.sum(node, Metric::QueuedMessages),
            memory_used: now.sum(node, Metric::DataMemoryUsed),
            memory_limit: now.sum(node, Metric::DataMemoryLimit),
            memory_percent: now.sum(node, Metric::DataMemoryFullest),
            rows: now.sum(node, Metric::Rows),
            connections: now.sum(node, Metric::SqlConnections),
            received_bytes: rate(Metric::LinkReceived),
            sent_bytes: rate(Metric::LinkSent),
            waiting_bytes: waiting.filter(|(_, bytes)| *bytes > 0).collect(),
            redo_waiting_bytes: now.sum(node, Metric::RedoWaiting),
            disk_full: now.sum(node, Metric::DiskRefusesWrites) > 0,
            lock_waits: now.sum(node, Metric::LockWaitsOpen),
            deadlocks: rate(Metric::Deadlocks),
        }
    }

    fn name(&self) -> String {
        format!("{} node {}", self.role, self.node)
    }

    fn cells(&self) -> Vec<String> {
        let role = if self.role == "management" { "mgmt" } else { &self.role };
        let mut cells = vec![self.node.to_string(), role.to_string()];
        if !self.told {
            cells.extend(["-", &self.status].map(str::to_string));
            return cells;
        }
        let is_data = self.role == "data";
        let memory =
            format!("{} {}%", bytes(self.memory_used).replace(' ', ""), self.memory_percent);
        let or_dash = |shown: bool, text: String| if shown { text } else { "-".into() };
        cells.extend([
            self.cpu_percent.to_string(),
            self.workers(),
            or_dash(self.role != "management", short(self.operations)),
            or_dash(is_data, short(self.transactions)),
            short(self.queue),
            or_dash(is_data, memory),
            bytes(self.received_bytes).replace(' ', ""),
            bytes(self.sent_bytes).replace(' ', ""),
        ]);
        cells
    }

    /// Processor time of each worker, or of the busiest where there are many.
    fn workers(&self) -> String {
        let workers = self.workers_by_number();
        if workers.len() <= WORKERS_SHOWN {
            let list: Vec<String> = workers.iter().map(|(_, busy)| busy.to_string()).collect();
            return list.join(" ");
        }
        let most = workers.iter().map(|(_, busy)| *busy).max().unwrap_or(0);
        format!("<={most} of {}", workers.len())
    }

    fn workers_by_number(&self) -> Vec<(u16, u64)> {
        let number = |name: &String| name.strip_prefix("worker-")?.parse::<u16>().ok();
        let workers = self.threads.iter();
        let mut workers: Vec<(u16, u64)> =
            workers.filter_map(|(name, busy)| Some((number(name)?, *busy))).collect();
        workers.sort_unstable();
        workers
    }

    /// Which of its threads are at their limit, each with how bad that is.
    fn busy_threads(&self, name: &str) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        for (worker, busy) in self.workers_by_number() {
            if busy >= CPU_LIMIT {
                found.push((busy, format!("{name}: worker {worker} at {busy} % CPU")));
            }
        }
        for (thread, what) in
            [("links", "the thread of links"), ("disk", "the threads of the disk")]
        {
            let busy = self.threads.get(thread).copied().unwrap_or(0);
            if busy >= CPU_LIMIT {
                found.push((busy, format!("{name}: {what} at {busy} % CPU")));
            }
        }
        found
    }

    /// What else of this node is at its limit, each with how bad that is.
    fn limits(&self) -> Vec<(u64, String)> {
        let (mut found, name) = (Vec::new(), self.name());
        if self.memory_percent >= MEMORY_LIMIT {
            let text = format!("{name}: data memory {} % full", self.memory_percent);
            found.push((500 + self.memory_percent, text));
        }
        if self.disk_full {
            found.push((800, format!("{name}: its disk is full, changes are refused")));
        }
        if self.redo_waiting_bytes >= REDO_LIMIT {
            let size = bytes(self.redo_waiting_bytes);
            found.push((300, format!("{name}: {size} of the redo log wait for the disk")));
        }
        for (peer, waiting) in &self.waiting_bytes {
            if *waiting >= LINK_LIMIT {
                let size = bytes(*waiting);
                found.push((200, format!("{name}: {size} wait to be sent to node {peer}")));
            }
        }
        if self.queue >= QUEUE_LIMIT {
            let text = format!("{name}: {} messages wait for its workers", self.queue);
            found.push((60, text));
        }
        if self.lock_waits >= LOCK_LIMIT {
            let text = format!("{name}: {} operations wait for locks", self.lock_waits);
            found.push((50, text));
        }
        found
    }
}

/// What is at its limit, the worst first.
fn bottlenecks(status: &ClusterStatus, nodes: &[NodeView]) -> Vec<String> {
    let mut found: Vec<(u64, String)> = Vec::new();
    let lost = |topic: &str| ["stopped", "not-started", "not-serving", "missing"].contains(&topic);
    for warning in status.warnings.iter().filter(|warning| lost(&warning.topic)) {
        found.push((1_000, warning.text.clone()));
    }
    for node in nodes {
        let connected = status.node(node.node).is_some_and(|node| node.connected);
        if connected && !node.told {
            found.push((900, format!("{}: does not tell its figures", node.name())));
        }
        found.extend(node.limits());
        if !status.one_process {
            found.extend(node.busy_threads(&node.name()));
        }
    }
    if status.one_process {
        // Each node tells the same of them.
        let first = nodes.iter().find(|node| node.told && node.role == "data");
        found.extend(first.map(|node| node.busy_threads("the process")).unwrap_or_default());
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.truncate(BOTTLENECKS_MAX);
    found.into_iter().map(|(_, text)| text).collect()
}

/// A number in at most five characters.
fn short(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..100_000_000 => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Workers whose processor time is shown one by one.
const WORKERS_SHOWN: usize = 4;
/// Processor time of a thread, in hundredths, at which it is called busy.
const CPU_LIMIT: u64 = 90;
/// Use of data memory, in hundredths, that is worth a line.
const MEMORY_LIMIT: u64 = 90;
/// Bytes of the redo log that wait for the disk.
const REDO_LIMIT: u64 = 64 << 20;
/// Bytes that wait for a link.
const LINK_LIMIT: u64 = 4 << 20;
/// Messages that wait for the workers of a node.
const QUEUE_LIMIT: u64 = 2_000;
/// Operations that wait for locks on a node.
const LOCK_LIMIT: u64 = 20;
/// Lines about what is at its limit.
const BOTTLENECKS_MAX: usize = 6;

#[cfg(test)]
mod tests;
