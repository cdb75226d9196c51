//! Puts the actors of a process together and delivers between them; knows no thread and no socket.
//!
//! # Owns
//! [`Worker`]: which actors live on a worker, in which order waiting messages are taken, what is
//! held back until the cluster state it speaks of has arrived, what is dropped because its sender
//! does not belong to the cluster any more. [`broken_rule`]: what a process of a role may send.
//! # Guarantees
//! Both hosts (the simulation, the runtime) drive this crate, so a simulated node is put together
//! exactly as a real one.
//! # Not here
//! Connections, clocks, restarts: the host's. What messages mean: the actors'.

mod worker;

pub use datanode::participant::{RestoreProgress, StepProgress};
pub use worker::{Outgoing, Place, Sender, Violation, Worker, broken_rule};
