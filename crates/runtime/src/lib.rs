//! The real host: threads, sockets and time for the actors that `node` puts together.
//!
//! # Owns
//! A thread per worker number, each with one event loop and a worker of every node of the process;
//! what they send each other; links to other processes; client connections; the data directories
//! and disks of the nodes; what is written when a node stops unexpectedly.
//! # Guarantees
//! It promises to the actors what the simulation promises: whole messages, in order, and a report
//! when a link is lost or a node has ended.
//! # Not here
//! What a node decides, and what is in its files: the actors'. Slow work for a pool of threads, but
//! that of the disk: nothing else is that slow yet.

mod clock;
mod cluster;
mod crash;
mod data_directory;
mod deadly;
mod disk;
mod encryption;
mod exchange;
mod fiber;
mod gateway;
mod holder;
mod link;
mod listener;
mod memory;
mod observer;
mod password_key;
mod peer;
mod poller;
mod scheduling;
mod spin;
mod temporary;
mod thread;
mod tls;
mod watchdog;

pub use clock::since_1970;
pub use cluster::{
    ApplicationFactory, ApplicationPlace, Cluster, DiskSetup, Event, Report, Role, Setup, random,
};
pub use data_directory::{
    DataDirectory, DirectoryError, DirectoryLock, is_of_certificates, replace,
};
pub use deadly::keep_traces_of_signals;
pub use disk::DiskEngine;
pub use encryption::{
    Encryption, FileReader, KeyRing, KeySource, MasterKeys, Rotated, data_key_of, describe_keys,
};
pub use fiber::{Fiber, Suspender};
pub use holder::{close_sockets_first, let_memory_go};
pub use link::{
    Answer, Broken, LinkEvent, LinkLimits, LinkListeners, LinkSetup, Peer, PeerAddress, SameHost,
    Service, connections, is_own, no_memory, read_request, secure_service, service_request,
};
pub use listener::Listeners;
pub use memory::{MemoryLock, lock_memory};
pub use node::{RestoreProgress, StepProgress};
pub use observer::{NodeReport, Observer, ProcessReport};
pub use password_key::{KeyAnswer, PasswordKey};
pub use scheduling::{Scheduling, ThreadPlace, WorkerPlace, allowed_cpus};
pub use spin::SpinMethod;
pub use temporary::{TemporaryDirectory, TemporaryError, TemporaryFile};
pub use tls::connect_to_source;
pub use tls::{
    Asker, Authority, Expected, Issued, NodeCredentials, NodeFiles, NodeIdentity, NodeKey,
    NodeRole, Secured, ServerTls, SignedNode, SigningRequest, TlsFacts, TlsMaker, TlsSettings,
    accept_secured, connect_by_authority, connect_secured, crypto_provider, hex, sha256_hex,
    signing_request, unhex,
};
pub use watchdog::{Hung, Watching};
