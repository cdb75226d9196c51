//! The flight recorder: the last thousands of messages, timers and marks of a worker.
//!
//! Always on. A crash prints it; the simulation prints it for the worker that broke a rule.

use std::fmt;

use model::{ActorKind, Address};
use stdx::{Instant, RingBuffer};

use crate::timer::Timer;

/// One thing that happened on a worker.
#[derive(Clone, Copy, Debug)]
pub enum Recorded {
    /// A message was handled.
    Message {
        /// From whom.
        from: Address,
        /// By which actor.
        to: ActorKind,
        /// The message's short name.
        name: &'static str,
    },
    /// A timer fired.
    Timer {
        /// For which actor.
        to: ActorKind,
        /// Which.
        timer: Timer,
    },
    /// The disk answered.
    Disk {
        /// To which actor.
        to: ActorKind,
        /// Under which name.
        token: u64,
    },
    /// A mark in the code was passed.
    #[doc(alias = "jam")]
    Mark(&'static str),
}

/// A ring of the last events with their time.
#[derive(Debug)]
pub struct FlightRecorder {
    ring: RingBuffer<(Instant, Recorded)>,
}

impl FlightRecorder {
    /// A recorder of the last `capacity` events.
    pub fn new(capacity: usize) -> Self {
        Self { ring: RingBuffer::new(capacity) }
    }

    /// The events with their times, oldest first.
    pub fn events(&self) -> impl Iterator<Item = (Instant, Recorded)> + '_ {
        self.ring.iter().copied()
    }

    /// Notes an event.
    pub fn record(&mut self, at: Instant, event: Recorded) {
        self.ring.push((at, event));
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { from, to, name } => write!(f, "{from} > {to} {name}"),
            Self::Timer { to, timer } => write!(f, "timer > {to} {timer:?}"),
            Self::Disk { to, token } => write!(f, "disk > {to} {token}"),
            Self::Mark(name) => write!(f, "mark {name}"),
        }
    }
}

impl fmt::Display for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().try_for_each(|(at, event)| writeln!(f, "{at} {event}"))
    }
}
