//! Timers: a closed enum, at most one pending per value.

use std::collections::BTreeMap;

use model::ActorKind;
use stdx::Instant;

/// Everything an actor can be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Control: heartbeats, leases, joining, membership upkeep.
    ControlTick,
    /// Control: the consensus library's election or heartbeat time-out.
    Election,
    /// Epochs: time for the next switch.
    EpochTick,
    /// Coordinator: time-outs of open transactions.
    CoordinatorTick,
    /// Coordinator: the write chains that were to change have had their time.
    CoordinatorQuiesce,
    /// Participant: lock waits to report or end.
    ParticipantTick,
    /// Participant: a checkpoint may go on, or a full disk is tried again.
    DiskTick,
    /// Client: requests without answer, retries.
    ClientTick,
    /// Client: the application's own wake-up, by number.
    Application(u32),
    /// Index builder: look for indexes to build.
    BuilderTick,
}

/// The pending timers of a worker, earliest first.
#[derive(Debug, Default)]
pub struct TimerQueue {
    by_time: BTreeMap<(Instant, u64), (ActorKind, Timer)>,
    by_timer: BTreeMap<(ActorKind, Timer), (Instant, u64)>,
    sequence: u64,
}

impl TimerQueue {
    /// Sets a timer, replacing the same one if it is pending.
    pub fn set(&mut self, actor: ActorKind, timer: Timer, at: Instant) {
        self.stop(actor, timer);
        self.sequence += 1;
        self.by_time.insert((at, self.sequence), (actor, timer));
        self.by_timer.insert((actor, timer), (at, self.sequence));
    }

    /// Stops a timer; nothing happens when it is not pending.
    pub fn stop(&mut self, actor: ActorKind, timer: Timer) {
        if let Some(key) = self.by_timer.remove(&(actor, timer)) {
            self.by_time.remove(&key);
        }
    }

    /// When the earliest timer is due.
    pub fn next(&self) -> Option<Instant> {
        self.by_time.keys().next().map(|(at, _)| *at)
    }

    /// Takes the earliest timer that is due at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<(ActorKind, Timer)> {
        let (&key, &(actor, timer)) = self.by_time.iter().next()?;
        if key.0 > now {
            return None;
        }
        self.by_time.remove(&key);
        self.by_timer.remove(&(actor, timer));
        Some((actor, timer))
    }
}
