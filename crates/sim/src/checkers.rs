//! What must be true of the cluster, looked at from outside.
//!
//! # Owns
//! Rules that no single node can check: while the cluster runs (`live`), and when it has come to
//! rest (`rest`); that deadlocks are broken, and no more than that (`deadlocks`). What clients saw
//! is judged by `history` and the workloads.

mod deadlocks;
mod live;
mod rest;
mod restarts;

pub use deadlocks::{BrokenCycles, Waits};
pub use live::Watch;
pub(crate) use restarts::Restarts;
