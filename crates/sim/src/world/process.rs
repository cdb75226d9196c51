//! A simulated process: the workers of one node with their clock and speed.

use std::sync::Arc;

use actor::{FlightRecorder, Halt, LeaseCell};
use model::{ClusterState, Incarnation, NodeId, WorkerId};
use node::Worker;
use stdx::{Duration, Instant};

use super::agenda::Moment;
use super::clock::Clock;

/// Tables that are checked as often as the setup says.
const TABLES_PER_CHECK: u64 = 32;
/// Locks that are checked as often as the setup says.
const LOCKS_PER_CHECK: u64 = 64;

/// What kind of node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Holds rows.
    Data,
    /// Votes.
    Management,
    /// Runs sessions.
    Client,
}

/// Whether the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does.
    Running,
    /// It has stopped itself; its memory is still there.
    Halted(Halt),
    /// It has ended.
    Dead,
    /// Its host has fallen silent; nobody was told.
    Vanished,
}

/// A worker and when it next has something to do.
pub(super) struct Host {
    pub(super) worker: Worker,
    pub(super) busy_until: Instant,
    /// When its next turn is planned; later plans replace it.
    pub(super) planned: Option<Moment>,
    /// Steps since its invariants were checked.
    pub(super) unchecked: u64,
    /// It takes no turn before this time, whatever the other workers do.
    pub(super) hung_until: Instant,
    /// Its handlers take this many times as long.
    pub(super) slowness: u64,
}

/// One node: its present or last life.
pub(super) struct Process {
    pub(super) id: NodeId,
    pub(super) kind: Kind,
    pub(super) incarnation: Incarnation,
    pub(super) status: Status,
    pub(super) hosts: Vec<Host>,
    pub(super) lease: LeaseCell,
    pub(super) clock: Clock,
    /// Handlers take this many times as long.
    pub(super) slowness: u64,
    /// Nothing runs before this time.
    pub(super) frozen_until: Instant,
    /// When it stopped running.
    pub(super) down_since: Instant,
    /// Recorders of its last life.
    pub(super) last_words: Vec<FlightRecorder>,
}

impl Host {
    pub(super) fn new(worker: Worker) -> Self {
        let busy_until = Instant::ZERO;
        let (hung_until, slowness) = (Instant::ZERO, 1);
        Self { worker, busy_until, planned: None, unchecked: 0, hung_until, slowness }
    }

    /// Whether the worker's invariants are to be checked, if they are every so many steps. A check
    /// looks at all tables and locks: where there are many, there are fewer checks.
    pub(super) fn is_check_due(&self, every: u64) -> bool {
        // To count locks takes as long as to look at all replicas: the steps are asked first.
        let tables = self.worker.shared().cluster.tables.len() as u64;
        let weight = 1 + tables / TABLES_PER_CHECK;
        if self.unchecked < every.saturating_mul(weight) {
            return false;
        }
        let locks = self.worker.participant().map_or(0, |at| at.locked_rows() as u64);
        self.unchecked >= every.saturating_mul(weight + locks / LOCKS_PER_CHECK)
    }
}

impl Process {
    pub(super) fn is_running(&self) -> bool {
        self.status == Status::Running
    }

    pub(super) fn is_frozen(&self, now: Instant) -> bool {
        self.frozen_until > now
    }

    /// The cluster state its worker 0 has reached.
    pub(super) fn cluster(&self) -> &Arc<ClusterState> {
        &self.hosts[0].worker.shared().cluster
    }

    /// Whether it holds a lease at true time `now`.
    pub(super) fn holds_lease(&self, now: Instant) -> bool {
        self.clock.local(now) < self.lease.until()
    }

    pub(super) fn service_time(&self, worker: WorkerId, base: Duration) -> Duration {
        base.times(self.slowness.max(self.hosts[usize::from(worker.0)].slowness))
    }

    /// When `worker` next has something to do, in true time; none when it only waits for messages.
    pub(super) fn next_turn(&self, worker: WorkerId, now: Instant) -> Option<Instant> {
        let host = &self.hosts[usize::from(worker.0)];
        if !self.is_running() || host.worker.halted().is_some() {
            return None;
        }
        let due = if host.worker.has_messages() {
            now
        } else {
            self.clock.time_of(host.worker.next_timer()?)
        };
        Some(due.max(host.busy_until).max(host.hung_until).max(self.frozen_until).max(now))
    }
}
