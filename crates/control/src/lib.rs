//! What the whole cluster agrees on, and who may serve: the replicated control log, membership,
//! leases, the catalog's alterations.
//!
//! # Owns
//! The `Control` actor (worker 0 of data and management nodes), the consensus it runs, the state
//! machine that builds `model::ClusterState` from the log's commands, and the log's file.
//! Walk-through: `docs/internals/membership.md`.
//! # Not here
//! Rows and transactions (`datanode`), epochs (`datanode::epochs`).

mod consensus;
mod control;
pub mod journal;
pub mod state_machine;

pub use control::Control;
