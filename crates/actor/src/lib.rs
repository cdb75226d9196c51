//! The deterministic kernel of every process: what an actor is, what it may do, how it is observed.
//!
//! An actor is a state machine that handles one message or timer to completion. It reaches the
//! world through [`Ctx`] alone: it can send, set timers, draw random numbers, read the clock of
//! this turn, write to client connections, use the node's disk, stop the node. Hosts (the runtime,
//! the simulation) own everything else.
//!
//! # Owns
//! `Actor`, `Ctx`, `Shared` (what the actors of a worker have in common), timers, client
//! connections as seen from inside, the scheduler, the flight recorder, counts of
//! messages, metrics, probes and fault points.
//! # Architecture Invariant
//! Nothing here or below knows a thread, a socket, a file, a clock or entropy.

mod connection;
mod disk;
mod figures;
mod message_counts;
mod probe;
mod recorder;
mod schedule;
mod shared;
mod timer;

pub use connection::{
    Closing, ConnectionEvent, ConnectionId, ConnectionPeer, Connections, Encryption, OUTPUT_HIGH,
    OUTPUT_LOW, Outlet, PeerCertificate, Transport,
};
pub use disk::{
    DiskAnswer, DiskError, DiskErrorKind, DiskOperation, DiskQueue, DiskReply, DiskRequest,
};
pub use figures::{
    Figure, FigureValue, Figures, LATENCY_STEPS, Latency, Metric, MetricKind, MetricUnit, Tallies,
    Tally,
};
pub use message_counts::{MessageCount, MessageCounts};
pub use probe::{FaultPlan, Probes};
pub use recorder::{FlightRecorder, Recorded};
pub use schedule::{LONE, Recent, SHARED, SLOW, Schedule, SlowSteps, StepKind, WHOLE};
pub use shared::{Ctx, EpochView, Halt, LeaseCell, Mutation, Shared};
pub use timer::{Timer, TimerQueue};

use model::{Address, ClusterState};
use wire::Message;

/// A single-threaded state machine.
///
/// Handlers run to completion: they never block and never yield in the middle. Work that may take
/// longer than about 200 µs is cut into steps by sending oneself `Message::Continue`.
#[doc(alias = "block")]
pub trait Actor {
    /// Handles one message.
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message);

    /// Handles a timer set earlier.
    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer);

    /// The node has reached a newer cluster state, which `ctx.cluster()` already shows; `before`
    /// is the one it replaces.
    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState);

    /// Something has happened to a client connection. Only for actors whose host gives them any.
    fn connection(&mut self, _ctx: &mut Ctx<'_>, id: ConnectionId, event: ConnectionEvent<'_>) {
        panic!("{event:?} of {id:?} for an actor without connections");
    }

    /// A request of this actor to the disk has been carried out, or has failed.
    fn disk(
        &mut self,
        _ctx: &mut Ctx<'_>,
        token: u64,
        _result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        panic!("answer {token} of the disk for an actor that asks nothing of it");
    }

    /// Tells what it has counted and how it stands. Asked now and then, between messages.
    fn figures(&self, _shared: &Shared, _figures: &mut Figures) {}

    /// Panics when a rule that holds between messages is broken. The simulation calls it often.
    fn check_invariants(&self, _shared: &Shared) {}
}

/// Marks that a rare situation was reached; counted in the simulation, named in
/// `docs/reference/fault-points.md`.
#[macro_export]
macro_rules! probe {
    ($ctx:expr, $name:literal) => {
        $ctx.shared().probes.hit($name)
    };
}

/// A place where the simulation may kill the node in the middle of a handler: what the handler
/// sends after it is lost. Named in `docs/reference/fault-points.md`.
#[macro_export]
macro_rules! fault_point {
    ($ctx:expr, $name:literal) => {
        $ctx.fault_point($name)
    };
}
