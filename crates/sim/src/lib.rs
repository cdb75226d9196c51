//! The simulated world of the project: one seed decides the cluster, the load, the faults and the
//! order of everything.
//!
//! # Owns
//! Virtual time and network (`world`), faults that never ask for more than can be survived
//! (`chaos`), workloads whose answers can be judged (`workload`), rules of the whole cluster
//! (`checkers`), and the course of a run (`run`).
//! # Guarantees
//! The same code and the same seed give the same run, to the last message.
//! # Not here
//! Anything that runs in production.

pub mod chaos;
pub mod checkers;
pub mod lab;
pub mod rejoin;
pub mod run;
pub mod scale;
pub mod scenario;
pub mod session;
pub mod setup;
pub mod sql;
pub mod workload;
pub mod world;

pub use checkers::Waits;
pub use lab::{Lab, Phase};
pub use run::{Outcome, Plan, run_seed};
pub use scenario::Scenario;
pub use setup::Setup;
pub use workload::Load;
pub use world::{Damage, DiskAction, Kind, Status, World};
