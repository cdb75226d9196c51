//! The worker of actors whose neighbours a test plays by hand.

use std::sync::Arc;

use actor::{LeaseCell, Shared};
use model::{Config, Incarnation, NodeId, WorkerId};
use stdx::Instant;

/// What the actors of a worker share that may serve: the only one of its node, in the node's first
/// life, with a lease without end. Its clock stands at a nanosecond; it knows of no cluster yet.
pub fn serving_worker(node: u16, config: impl Into<Arc<Config>>) -> Shared {
    let lease = LeaseCell::default();
    lease.set(Instant::FAR_FUTURE);
    Shared {
        now: Instant::from_nanos(1),
        lease,
        ..Shared::new(NodeId(node), Incarnation(1), WorkerId(0), 1, config.into())
    }
}
