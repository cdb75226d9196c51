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

    /// Notes an event.
    pub fn record(&mut self, at: Instant, event: Recorded) {
        self.ring.push((at, event));
    }
}

impl fmt::Display for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, event) in self.ring.iter() {
            match event {
                Recorded::Message { from, to, name } => writeln!(f, "{at} {from} > {to} {name}")?,
                Recorded::Timer { to, timer } => writeln!(f, "{at} timer > {to} {timer:?}")?,
                Recorded::Mark(name) => writeln!(f, "{at} mark {name}")?,
            }
        }
        Ok(())
    }
}
