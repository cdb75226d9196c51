//! What nodes count and measure, and how it is told.
//!
//! # Owns
//! [`Metric`], the table of all metrics: the only source of their names, labels, units and texts.
//! [`Tallies`], the plain cells that handlers add to; [`Latency`], times sorted into steps;
//! [`Figures`], what is told when somebody asks.
//! # Guarantees
//! Counting is an addition to a cell of the worker's own. Labels are words of the source, numbers
//! of nodes, workers, groups and errors: nothing that users name, so their number is bounded.
//! # Not here
//! Asking (the host), the text of an answer (`nines`).

use stdx::Duration;

/// How a metric behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times, sorted into [`LATENCY_STEPS`].
    Histogram,
    /// It is 1, and its labels say something.
    Info,
}

/// What a metric is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Things.
    None,
    /// Bytes.
    Bytes,
    /// Seconds, told as nanoseconds here.
    Seconds,
}

macro_rules! metrics {
    ($((
        $name:ident, $kind:ident, $unit:ident, $text:literal, [$($label:literal),*], $help:literal
    ),)*) => {
        /// A family of figures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(
                #[doc = $help]
                $name,
            )*
        }

        impl Metric {
            /// All of them, in the order they are told.
            pub const ALL: &'static [Metric] = &[$(Metric::$name),*];

            /// The name, without what a format adds to it.
            pub fn name(self) -> &'static str {
                match self { $(Metric::$name => $text,)* }
            }

            /// How it behaves.
            pub fn kind(self) -> MetricKind {
                match self { $(Metric::$name => MetricKind::$kind,)* }
            }

            /// What it is measured in.
            pub fn unit(self) -> MetricUnit {
                match self { $(Metric::$name => MetricUnit::$unit,)* }
            }

            /// The names of its labels.
            pub fn labels(self) -> &'static [&'static str] {
                match self { $(Metric::$name => &[$($label),*],)* }
            }

            /// What it says.
            pub fn help(self) -> &'static str {
                match self { $(Metric::$name => $help,)* }
            }
        }
    };
}

#[rustfmt::skip]
metrics! {
    (Build, Info, None, "nines_build", ["version"],
        "The version of the program."),
    (Uptime, Gauge, Seconds, "nines_uptime_seconds", [],
        "Time since the process began to host its nodes."),
    (NodeReady, Gauge, None, "nines_node_ready", ["node", "role"],
        "Whether the node can do its work: 1, or 0 as /ready says why."),
    (Workers, Gauge, None, "nines_worker_threads", ["node"],
        "Worker threads of a node."),
    (NodeMember, Gauge, None, "nines_node_member", ["node"],
        "Whether the node is a member of the cluster, as far as it knows. SQL nodes are none."),
    (LeaseLeft, Gauge, Seconds, "nines_lease_left_seconds", ["node"],
        "For how long a data node may serve unless its lease is prolonged; 0 when it may not."),
    (Silent, Gauge, None, "nines_threads_silent", [],
        "Worker threads that did not answer in time; their figures are missing."),
    (ThreadCpu, Counter, Seconds, "nines_thread_cpu_seconds", ["thread"],
        "Processor time of a thread: worker-N, links, those of the disk, the rest of the \
         process."),
    (ThreadAsleep, Counter, Seconds, "nines_thread_asleep_seconds", ["thread"],
        "Time in which a worker thread had nothing to do."),
    (ThreadLent, Counter, Seconds, "nines_thread_lent_seconds", ["thread"],
        "Time in which the thread before did the work of a worker thread, as both had little."),
    (ThreadTurns, Counter, None, "nines_thread_turns", ["thread"],
        "Turns of a worker thread's loop."),
    (ThreadSleeps, Counter, None, "nines_thread_sleeps", ["thread"],
        "How often a worker thread has fallen asleep."),
    (ProcessCpu, Counter, Seconds, "process_cpu_seconds", [],
        "Processor time of the whole process, user and system."),
    (ProcessMemory, Gauge, Bytes, "process_resident_memory_bytes", [],
        "Memory of the process that is in use in the machine."),
    (ProcessFiles, Gauge, None, "process_open_fds", [],
        "Open files and sockets."),
    (ProcessFilesMax, Gauge, None, "process_max_fds", [],
        "Most files and sockets that may be open."),
    (ProcessStart, Gauge, Seconds, "process_start_time_seconds", [],
        "When the process began to host its nodes, since 1970."),
    (QueuedMessages, Gauge, None, "nines_queue_messages", ["node", "worker"],
        "Messages that wait to be handled by a worker."),
    (HandledMessages, Counter, None, "nines_messages_handled", ["node", "worker"],
        "Messages that a worker has handled."),
    (SlowSteps, Counter, None, "nines_slow_steps", ["node", "worker", "step"],
        "Steps of a worker that took more than 200 us of its CPU, by what they did: others wait \
         for a step that runs."),
    (SlowStepTime, Counter, Seconds, "nines_slow_step_seconds", ["node", "worker", "step"],
        "What those steps took together."),
    (SlowStepLongest, Gauge, Seconds, "nines_slow_step_longest_seconds", ["node", "worker", "step"],
        "What the longest of them took, since the process began."),
    (Operations, Counter, None, "nines_operations", ["node", "kind"],
        "Operations on rows that a data node has begun: read (committed rows by key), \
         locked_read, insert, update, upsert, delete, scan (of one partition)."),
    (OperationsRefused, Counter, None, "nines_operations_refused", ["node", "reason"],
        "Operations refused for want of room or because of locks: memory_full, disk_full, \
         lock_timeout, lock_unavailable."),
    (Transactions, Counter, None, "nines_transactions", ["node", "outcome"],
        "Transactions that have ended at a coordinator: committed, committed_reading (without a \
         change), aborted."),
    (TransactionsAborted, Counter, None, "nines_transactions_aborted", ["node", "reason"],
        "Transactions that were aborted: requested, deadlock, node_failed, not_serving, \
         membership_changed, inactive_or_unknown, overload, other."),
    (TransactionsOpen, Gauge, None, "nines_transactions_open", ["node"],
        "Transactions under way at the coordinators of a data node."),
    (CommitTime, Histogram, Seconds, "nines_commit_seconds", ["node"],
        "Time from a commit's request to its acknowledgement, at the coordinator; transactions \
         with changes."),
    (ScansOpen, Gauge, None, "nines_scans_open", ["node"],
        "Scans of partitions under way."),
    (SnapshotsOpen, Gauge, None, "nines_snapshots_open", ["node"],
        "Snapshots held for sessions."),
    (LockedRows, Gauge, None, "nines_locked_rows", ["node"],
        "Rows that are locked, in all replicas of a node."),
    (LockWaits, Counter, None, "nines_lock_waits", ["node"],
        "Operations and scans that have had to wait for a lock."),
    (LockWaitsOpen, Gauge, None, "nines_lock_waits_open", ["node"],
        "Operations and scans that wait for a lock now."),
    (LockWaitTime, Histogram, Seconds, "nines_lock_wait_seconds", ["node"],
        "How long waits for locks lasted that ended with the lock."),
    (ReadWaits, Counter, None, "nines_read_waits", ["node"],
        "Reads without locks, and scans, that have had to wait for the commit of a row."),
    (ReadWaitsOpen, Gauge, None, "nines_read_waits_open", ["node"],
        "Reads without locks, and scans, that wait for the commit of a row now."),
    (Deadlocks, Counter, None, "nines_deadlocks", ["node"],
        "Transactions that were aborted to break a deadlock."),
    (EpochCurrent, Gauge, None, "nines_epoch_current", ["node"],
        "The epoch that commits get now."),
    (EpochCompleted, Gauge, None, "nines_epoch_completed", ["node"],
        "The newest complete epoch that a data node has heard of."),
    (EpochAge, Gauge, Seconds, "nines_epoch_age_seconds", ["node"],
        "Time since a data node heard last that an epoch is complete."),
    (EpochSaved, Gauge, None, "nines_epoch_saved", ["node"],
        "The newest epoch on the node's own disk, of the worker that is furthest behind."),
    (EpochDurable, Gauge, None, "nines_epoch_durable", ["node"],
        "The newest epoch known to be on all disks."),
    (Exposed, Gauge, Seconds, "nines_undurable_seconds", ["node"],
        "For how long there have been changes that are not known to be on all disks, since a newer \
         epoch was last; 0 when there are none. Of the worker for which that is longest."),
    (DataMemoryUsed, Gauge, Bytes, "nines_data_memory_used_bytes", ["node"],
        "Memory of rows, indexes, old images and staged changes."),
    (DataMemoryLimit, Gauge, Bytes, "nines_data_memory_limit_bytes", ["node"],
        "DataMemory: inserts beyond it are refused."),
    (Memory, Gauge, Bytes, "nines_memory_used_bytes", ["node", "kind"],
        "Memory by kind: rows, hash_indexes, ordered_indexes, old_images, staged_changes, \
         locks."),
    (DataMemoryFullest, Gauge, None, "nines_data_memory_fullest_worker_percent", ["node"],
        "Use of the worker that has least room left, of its share of DataMemory."),
    (Rows, Gauge, None, "nines_rows", ["node"],
        "Rows in all replicas of a node."),
    (Replicas, Gauge, None, "nines_replicas", ["node", "state"],
        "Replicas of partitions that a node has: primary, backup, copying (not complete)."),
    (Copies, Gauge, None, "nines_copies_sending", ["node"],
        "Copies of partitions that a node is sending to others."),
    (CopySlots, Gauge, None, "nines_copy_slots_left", ["node"],
        "Slots that the copies under way have not looked at yet."),
    (CopyBytes, Counter, Bytes, "nines_copy_bytes", ["node"],
        "Bytes of rows sent in copies to other nodes."),
    (RedoBytes, Counter, Bytes, "nines_redo_bytes", ["node"],
        "Bytes appended to the redo log."),
    (RedoWaiting, Gauge, Bytes, "nines_redo_waiting_bytes", ["node"],
        "Bytes of the redo log that are not written yet."),
    (RedoSegments, Gauge, None, "nines_redo_segments", ["node"],
        "Files of the redo log."),
    (CheckpointBytes, Counter, Bytes, "nines_checkpoint_bytes", ["node"],
        "Bytes handed to the disk for checkpoints."),
    (Checkpoints, Counter, None, "nines_checkpoints", ["node"],
        "Checkpoints of partitions that have ended."),
    (DiskRefusesWrites, Gauge, None, "nines_disk_refuses_writes", ["node"],
        "Workers that refuse changes because the disk is full."),
    (DamagedFiles, Gauge, None, "nines_disk_damaged_files", ["node"],
        "Files found damaged at the start of the node."),
    (RestoreDone, Gauge, Bytes, "nines_restore_done_bytes", ["node"],
        "Bytes read back from the disk in the present step of a start."),
    (RestoreTotal, Gauge, Bytes, "nines_restore_total_bytes", ["node"],
        "Bytes to read back in the present step of a start; 0 when there is none."),
    (DiskFree, Gauge, Bytes, "nines_disk_free_bytes", ["node"],
        "Free space in the file system of the node's directory."),
    (DiskSize, Gauge, Bytes, "nines_disk_size_bytes", ["node"],
        "Size of the file system of the node's directory."),
    (LinkUp, Gauge, None, "nines_link_up", ["node", "peer"],
        "Whether there is a link to another node."),
    (LinksMade, Counter, None, "nines_links_made", ["node", "peer"],
        "How often a link to another node was made."),
    (LinksRefused, Counter, None, "nines_links_refused", ["node", "reason"],
        "Connections of other nodes, or to them, that were refused for what has to do with TLS: \
         plain (no TLS at the other end), encrypted (none at this one), no_certificate, authority, \
         time (expired, or not good yet), revoked, identity (another node or role), handshake, \
         by_peer (it refuses this node's certificate)."),
    (LinkViolations, Counter, None, "nines_link_violations", ["node", "peer"],
        "How often the link to another node was closed because of what it sent: what it may not \
         send, or what cannot be."),
    (LinkMemory, Gauge, Bytes, "nines_link_memory_bytes", ["node", "peer"],
        "Memory that is shared with another node of the host for the link to it; 0 where sockets \
         carry the link."),
    (LinkReceived, Counter, Bytes, "nines_link_received_bytes", ["node", "peer"],
        "Bytes received from another node."),
    (LinkSent, Counter, Bytes, "nines_link_sent_bytes", ["node", "peer"],
        "Bytes sent to another node."),
    (LinkFramesReceived, Counter, None, "nines_link_received_frames", ["node", "peer"],
        "Frames (batches of messages) received from another node."),
    (LinkFramesSent, Counter, None, "nines_link_sent_frames", ["node", "peer"],
        "Frames (batches of messages) sent to another node."),
    (LinkWaiting, Gauge, Bytes, "nines_link_waiting_bytes", ["node", "peer"],
        "Bytes that wait to be sent to another node."),
    (ClusterMembers, Gauge, None, "nines_cluster_members", ["node", "role", "status"],
        "Members of the cluster as a node sees it, by role and status: joining, restoring, \
         syncing, active, leaving."),
    (ClusterStarted, Gauge, None, "nines_cluster_started", ["node"],
        "Whether the cluster has started and not stopped, as a node sees it."),
    (GroupReplicas, Gauge, None, "nines_node_group_live_replicas", ["node", "group"],
        "Complete replicas of the share of a node group that has the fewest, as a node sees it."),
    (GroupReplicasWanted, Gauge, None, "nines_node_group_replicas", ["node", "group"],
        "Replicas that a node group should have."),
    (ControlIndex, Gauge, None, "nines_control_log_index", ["node"],
        "The newest entry of the control log that a node has reached."),
    (SqlConnections, Gauge, None, "nines_sql_connections", ["node", "state"],
        "Connections of clients: running a command, or idle."),
    (SqlConnectionsOpened, Counter, None, "nines_sql_connections_opened", ["node"],
        "Connections that clients have made."),
    (SqlConnectionsAborted, Counter, None, "nines_sql_connections_aborted", ["node", "when"],
        "Connections that failed at login, or ended without taking leave (session)."),
    (SqlStatements, Counter, None, "nines_sql_statements", ["node", "kind"],
        "Statements, by the words of SHOW STATUS (Com_select and so on)."),
    (SqlErrors, Counter, None, "nines_sql_errors", ["node", "code"],
        "Statements that have failed, by MySQL's error number; from the 101st number on as \
         other."),
    (SqlStatementTime, Histogram, Seconds, "nines_sql_statement_seconds", ["node"],
        "Time from the beginning of a statement to its end, by the clock of turns: what is \
         answered without waiting takes none."),
    (SqlReceived, Counter, Bytes, "nines_sql_received_bytes", ["node"],
        "Bytes of commands from clients."),
    (SqlSent, Counter, Bytes, "nines_sql_sent_bytes", ["node"],
        "Bytes of answers to clients."),
    (SqlDataReceived, Counter, Bytes, "nines_sql_data_received_bytes", ["node"],
        "Bytes of rows that have come from data nodes, but for the last statements of those who \
         are connected."),
    (SqlDataRows, Counter, None, "nines_sql_data_rows", ["node", "kind"],
        "Rows that have come from data nodes (received), and rows that these looked at in scans \
         (examined)."),
    (SqlDataMessages, Counter, None, "nines_sql_data_messages", ["node"],
        "Messages with rows from data nodes."),
    (SqlQueryMemoryUsed, Gauge, Bytes, "nines_sql_query_memory_used_bytes", ["node"],
        "What statements keep in memory of the budget of the SQL node."),
    (SqlQueryMemoryPeak, Gauge, Bytes, "nines_sql_query_memory_peak_bytes", ["node"],
        "The most of it that was kept at a time."),
    (SqlQueryMemoryLimit, Gauge, Bytes, "nines_sql_query_memory_limit_bytes", ["node"],
        "The budget: QueryMemory, or what SET GLOBAL global_connection_memory_limit said."),
    (SqlQueryMemoryRefused, Counter, None, "nines_sql_query_memory_refused", ["node"],
        "How often a statement was refused more memory, by the budget or a limit of its own."),
    (SqlAuditEvents, Counter, None, "nines_sql_audit_events", ["node", "outcome"],
        "Events of the audit log: written, or lost as the disk was slower than they came. Not \
         there without an audit log."),
}

impl Metric {
    /// The metric of this name.
    pub fn of_name(name: &str) -> Option<Metric> {
        Self::ALL.iter().copied().find(|metric| metric.name() == name)
    }
}

macro_rules! tallies {
    ($($name:ident = $metric:ident $label:literal;)*) => {
        /// Something that handlers count.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Tally {
            $(
                #[doc = concat!("Counted as ", stringify!($metric), " ", $label, ".")]
                $name,
            )*
        }

        impl Tally {
            const ALL: &'static [(Metric, &'static str)] = &[$((Metric::$metric, $label)),*];
        }
    };
}

tallies! {
    Read = Operations "read";
    LockedRead = Operations "locked_read";
    Insert = Operations "insert";
    Update = Operations "update";
    Upsert = Operations "upsert";
    Delete = Operations "delete";
    Scan = Operations "scan";
    MemoryFull = OperationsRefused "memory_full";
    DiskFull = OperationsRefused "disk_full";
    LockTimeout = OperationsRefused "lock_timeout";
    LockUnavailable = OperationsRefused "lock_unavailable";
    Committed = Transactions "committed";
    CommittedReading = Transactions "committed_reading";
    Aborted = Transactions "aborted";
    AbortRequested = TransactionsAborted "requested";
    AbortDeadlock = TransactionsAborted "deadlock";
    AbortNodeFailed = TransactionsAborted "node_failed";
    AbortNotServing = TransactionsAborted "not_serving";
    AbortMembershipChanged = TransactionsAborted "membership_changed";
    AbortUnknown = TransactionsAborted "inactive_or_unknown";
    AbortOverload = TransactionsAborted "overload";
    AbortOther = TransactionsAborted "other";
    LockWait = LockWaits "";
    ReadWait = ReadWaits "";
    Deadlock = Deadlocks "";
    CopyBytes = CopyBytes "";
    CheckpointBytes = CheckpointBytes "";
    Checkpoint = Checkpoints "";
}

/// What the actors of a worker have counted since its start.
#[derive(Clone, Debug)]
pub struct Tallies {
    counts: [u64; Tally::ALL.len()],
    /// From the request of a commit to its acknowledgement.
    pub commits: Latency,
    /// Waits for locks that ended with the lock.
    pub lock_waits: Latency,
}

impl Default for Tallies {
    fn default() -> Self {
        let counts = [0; Tally::ALL.len()];
        Self { counts, commits: Latency::default(), lock_waits: Latency::default() }
    }
}

impl Tallies {
    /// Counts one more.
    #[inline]
    pub fn count(&mut self, what: Tally) {
        self.add(what, 1);
    }

    /// Counts so many more.
    #[inline]
    pub fn add(&mut self, what: Tally, more: u64) {
        let cell = &mut self.counts[what as usize];
        *cell = cell.wrapping_add(more);
    }

    /// So many were counted.
    pub fn of(&self, what: Tally) -> u64 {
        self.counts[what as usize]
    }

    /// Tells what a data node counts.
    pub fn tell(&self, figures: &mut Figures) {
        for ((metric, label), count) in Tally::ALL.iter().zip(&self.counts) {
            let labels: &[&str] = if label.is_empty() { &[] } else { &[label] };
            figures.add(*metric, labels, *count);
        }
        figures.add_latency(Metric::CommitTime, &self.commits);
        figures.add_latency(Metric::LockWaitTime, &self.lock_waits);
    }
}

/// Upper ends of the steps of a [`Latency`], in microseconds; the last step has none.
pub const LATENCY_STEPS: [u64; 18] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Times, sorted into steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many fell into each step, and beyond the last.
    pub steps: [u64; LATENCY_STEPS.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

impl Latency {
    /// Adds a time. One at the end of a step belongs to it.
    pub fn record(&mut self, time: Duration) {
        let reached = |end: &u64| time.as_nanos() <= end * 1_000;
        let step = LATENCY_STEPS.iter().position(reached).unwrap_or(LATENCY_STEPS.len());
        self.steps[step] += 1;
        self.sum = self.sum + time;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Latency) {
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            *own += other;
        }
        self.sum = self.sum + other.sum;
    }
}

/// What a figure says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FigureValue {
    /// A number; nanoseconds where the unit is seconds.
    Number(u64),
    /// Times.
    Latency(Box<Latency>),
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is one of.
    pub metric: Metric,
    /// The values of its labels, in the metric's order.
    pub labels: Vec<String>,
    /// What it says.
    pub value: FigureValue,
}

/// Figures of a worker, a thread or a process.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// In no order.
    pub list: Vec<Figure>,
    /// The value of the label `node`.
    node: String,
}

impl Figures {
    /// From here on it is about this node.
    pub fn of_node(&mut self, node: model::NodeId) {
        self.node = node.0.to_string();
    }

    /// Adds a number. The label `node` goes without saying.
    pub fn add(&mut self, metric: Metric, labels: &[&str], number: u64) {
        self.push(metric, labels, FigureValue::Number(number));
    }

    /// Adds a time, for a metric in seconds.
    pub fn add_time(&mut self, metric: Metric, labels: &[&str], time: Duration) {
        self.push(metric, labels, FigureValue::Number(time.as_nanos()));
    }

    /// Adds times.
    pub fn add_latency(&mut self, metric: Metric, times: &Latency) {
        self.push(metric, &[], FigureValue::Latency(Box::new(times.clone())));
    }

    fn push(&mut self, metric: Metric, labels: &[&str], value: FigureValue) {
        let of_node = metric.labels().first() == Some(&"node");
        let node = of_node.then(|| self.node.clone());
        let labels = node.into_iter().chain(labels.iter().map(ToString::to_string)).collect();
        self.list.push(Figure { metric, labels, value });
    }

    /// Puts figures of the same metric and labels together, and all in order. Most are sums; what
    /// is not can be told by one worker alone, but for a few.
    pub fn merged(mut self) -> Vec<Figure> {
        self.list.sort_by(|a, b| (a.metric, &a.labels).cmp(&(b.metric, &b.labels)));
        let mut merged: Vec<Figure> = Vec::with_capacity(self.list.len());
        for figure in self.list {
            match merged.last_mut() {
                Some(last) if last.metric == figure.metric && last.labels == figure.labels => {
                    last.merge(figure.value);
                }
                _ => merged.push(figure),
            }
        }
        merged
    }
}

impl Figures {
    /// All of it as it travels between nodes: a name, the values of labels with commas between
    /// them, a number. Of times their number and their sum in nanoseconds.
    pub fn rows(self) -> Vec<(String, String, u64)> {
        let mut rows = Vec::new();
        for figure in self.merged() {
            let (name, labels) = (figure.metric.name(), figure.labels.join(","));
            match figure.value {
                FigureValue::Number(number) => rows.push((name.to_string(), labels, number)),
                FigureValue::Latency(times) => {
                    rows.push((format!("{name}_count"), labels.clone(), times.count()));
                    rows.push((format!("{name}_sum"), labels, times.sum.as_nanos()));
                }
            }
        }
        rows
    }
}

impl Figure {
    fn merge(&mut self, other: FigureValue) {
        match (&mut self.value, other) {
            (FigureValue::Number(own), FigureValue::Number(other)) => {
                *own = match self.metric {
                    // Of the worker that is furthest behind.
                    Metric::EpochSaved => (*own).min(other),
                    Metric::EpochDurable | Metric::Exposed | Metric::DataMemoryFullest => {
                        (*own).max(other)
                    }
                    _ => own.saturating_add(other),
                };
            }
            (FigureValue::Latency(own), FigureValue::Latency(other)) => own.merge(&other),
            // One metric has one kind.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use model::NodeId;

    use super::*;

    #[test]
    fn the_table_follows_the_rules_of_names() {
        for (at, metric) in Metric::ALL.iter().enumerate() {
            let name = metric.name();
            let letters = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(letters), "{name}");
            assert!(name.starts_with("nines_") || name.starts_with("process_"), "{name}");
            for ending in ["_total", "_info", "_count", "_sum", "_bucket", "_created"] {
                assert!(!name.ends_with(ending), "{name}");
            }
            match metric.unit() {
                MetricUnit::Bytes => assert!(name.ends_with("_bytes"), "{name}"),
                MetricUnit::Seconds => assert!(name.ends_with("_seconds"), "{name}"),
                MetricUnit::None => {
                    assert!(!name.ends_with("_bytes") && !name.ends_with("_seconds"), "{name}");
                }
            }
            assert!(metric.help().ends_with('.') && !metric.help().contains(['"', '\\']), "{name}");
            assert_eq!(Metric::of_name(name), Some(*metric));
            assert_eq!(*metric as usize, at);
        }
        for (metric, label) in Tally::ALL {
            let labels = 1 + usize::from(!label.is_empty());
            assert_eq!(metric.labels().len(), labels, "{}", metric.name());
            assert_eq!(metric.kind(), MetricKind::Counter, "{}", metric.name());
        }
    }

    #[test]
    fn times_fall_into_steps() {
        let mut times = Latency::default();
        for micros in [0, 25, 26, 10_000_000, 10_000_001] {
            times.record(Duration::from_micros(micros));
        }
        assert_eq!(
            (times.steps[0], times.steps[1], times.steps[17], times.steps[18]),
            (2, 1, 1, 1)
        );
        assert_eq!(times.count(), 5);
        assert_eq!(times.sum, Duration::from_micros(20_000_052));
    }

    #[test]
    fn figures_of_workers_are_put_together() {
        let mut figures = Figures::default();
        for (saved, reads) in [(7, 3), (5, 4)] {
            figures.of_node(NodeId(2));
            let mut tallies = Tallies::default();
            tallies.add(Tally::Read, reads);
            tallies.commits.record(Duration::from_millis(1));
            tallies.tell(&mut figures);
            figures.add(Metric::EpochSaved, &[], saved);
        }
        figures.of_node(NodeId(1));
        figures.add(Metric::EpochSaved, &[], 9);
        let merged = figures.merged();
        let number = |metric, labels: &[&str]| {
            let found = merged.iter().find(|f| f.metric == metric && f.labels == labels);
            found.map(|figure| figure.value.clone())
        };
        assert_eq!(number(Metric::Operations, &["2", "read"]), Some(FigureValue::Number(7)));
        assert_eq!(number(Metric::EpochSaved, &["2"]), Some(FigureValue::Number(5)));
        assert_eq!(number(Metric::EpochSaved, &["1"]), Some(FigureValue::Number(9)));
        let Some(FigureValue::Latency(commits)) = number(Metric::CommitTime, &["2"]) else {
            panic!("commits are told");
        };
        assert_eq!(commits.count(), 2);
    }
}
