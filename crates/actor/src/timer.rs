//! Timers: a closed enum, at most one pending per value.

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
    /// Participant: replicas that have been copied fetch what change streams kept before.
    StreamTick,
    /// Client: requests without answer, retries.
    ClientTick,
    /// Client: the application's own wake-up, by number.
    Application(u32),
    /// Index builder: look for indexes to build.
    BuilderTick,
}

impl Timer {
    /// Short name for counts.
    pub fn name(self) -> &'static str {
        match self {
            Timer::ControlTick => "timer of control",
            Timer::Election => "timer of elections",
            Timer::EpochTick => "timer of epochs",
            Timer::CoordinatorTick => "timer of the coordinator",
            Timer::CoordinatorQuiesce => "timer of quiet moments",
            Timer::ParticipantTick => "timer of the participant",
            Timer::DiskTick => "timer of the disk",
            Timer::StreamTick => "timer of change streams",
            Timer::ClientTick => "timer of the client",
            Timer::Application(_) => "timer of the application",
            Timer::BuilderTick => "timer of the index builder",
        }
    }
}

/// The pending timers of a worker: a dozen, looked through one by one when one changes. What is
/// asked with every message, whether one is due, is known without looking.
#[derive(Debug, Default)]
pub struct TimerQueue {
    pending: Vec<Pending>,
    /// When the earliest is due, and its number.
    first: Option<(Instant, u64)>,
    sequence: u64,
}

#[derive(Debug)]
struct Pending {
    /// When it is due, and its number: of those due at the same time the one set first is first.
    due: (Instant, u64),
    of: (ActorKind, Timer),
}

impl TimerQueue {
    /// Sets a timer, replacing the same one if it is pending.
    pub fn set(&mut self, actor: ActorKind, timer: Timer, at: Instant) {
        self.sequence += 1;
        let (due, of) = ((at, self.sequence), (actor, timer));
        match self.pending.iter_mut().find(|pending| pending.of == of) {
            Some(pending) => {
                let was_first = self.first == Some(pending.due);
                pending.due = due;
                if was_first {
                    return self.find_first();
                }
            }
            None => self.pending.push(Pending { due, of }),
        }
        if self.first.is_none_or(|first| due < first) {
            self.first = Some(due);
        }
    }

    /// Stops a timer; nothing happens when it is not pending.
    pub fn stop(&mut self, actor: ActorKind, timer: Timer) {
        if let Some(at) = self.pending.iter().position(|pending| pending.of == (actor, timer)) {
            let stopped = self.pending.swap_remove(at);
            if self.first == Some(stopped.due) {
                self.find_first();
            }
        }
    }

    /// When the earliest timer is due.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.first.map(|(at, _)| at)
    }

    /// Takes the earliest timer that is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(ActorKind, Timer)> {
        let first = self.first.filter(|(at, _)| *at <= now)?;
        let at = self.pending.iter().position(|pending| pending.due == first);
        let Pending { of, .. } = self.pending.swap_remove(at.expect("the first one is pending"));
        self.find_first();
        Some(of)
    }

    fn find_first(&mut self) {
        self.first = self.pending.iter().map(|pending| pending.due).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn timers_come_in_order_and_once() {
        let mut timers = TimerQueue::default();
        let of = |number| (ActorKind::Client, Timer::Application(number));
        for (number, due) in [(1, 30), (2, 10), (3, 10), (4, 20), (5, 15)] {
            timers.set(of(number).0, of(number).1, at(due));
        }
        // One later, one earlier, one not at all.
        timers.set(of(2).0, of(2).1, at(40));
        timers.set(of(1).0, of(1).1, at(5));
        timers.stop(of(5).0, of(5).1);
        timers.stop(of(6).0, of(6).1);
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.pop_due(at(4)), None);
        let due = std::iter::from_fn(|| timers.pop_due(at(39)));
        assert_eq!(due.collect::<Vec<_>>(), [of(1), of(3), of(4)]);
        assert_eq!((timers.next(), timers.pop_due(at(40))), (Some(at(40)), Some(of(2))));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn of_two_that_are_due_together_the_one_set_first_is_first() {
        let mut timers = TimerQueue::default();
        timers.set(ActorKind::Control, Timer::Election, at(7));
        timers.set(ActorKind::Control, Timer::ControlTick, at(7));
        timers.set(ActorKind::Control, Timer::Election, at(7));
        let due = std::iter::from_fn(|| timers.pop_due(at(7)).map(|(_, timer)| timer));
        assert_eq!(due.collect::<Vec<_>>(), [Timer::ControlTick, Timer::Election]);
    }
}
