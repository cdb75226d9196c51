//! The real host: threads, sockets and time for the actors that `node` puts together.
//!
//! # Owns
//! A thread per worker number, each with one event loop and a worker of every node of the process;
//! what they send each other; client connections; what is written when a node stops unexpectedly.
//! # Guarantees
//! It promises to the actors what the simulation promises: whole messages, in order, and a report
//! when a node has ended. In one process links do not break otherwise.
//! # Not here
//! Links between processes, files of the database. What a node decides: the actors'. Slow work for
//! a pool of threads: nothing is that slow yet.

mod clock;
mod cluster;
mod crash;
mod exchange;
mod gateway;
mod listener;
mod poller;
mod thread;
mod tls;

pub use cluster::{ApplicationFactory, ApplicationPlace, Cluster, Event, Report, Setup};
pub use listener::Listeners;
pub use tls::{TlsIdentity, TlsIdentityError};
