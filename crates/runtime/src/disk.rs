//! The disk of the nodes of a process: carries out what their actors ask.
//!
//! # Owns
//! Two engines behind one interface: `io_uring` where the kernel has it, threads that block
//! elsewhere.
//! # Guarantees
//! 1. Requests of one lane of one actor are carried out one after the other, in the order in which
//!    they came; lanes do not wait for each other.
//! 2. A name that was removed or renamed means the new file to every request made after the answer,
//!    whatever lane it comes by.
//! 3. A sync that failed is reported and never repeated.
//! 4. Where the directory has keys, new files are encrypted (`encryption`), and actors see no
//!    difference.
//! 5. An answer goes to the thread of the worker that asked; a batch of them wakes it once.
//! # Not here
//! What is in the files: `ondisk`. Whose directory it is: `data_directory`.

mod directory;
mod lanes;
mod opened;
mod pool;
mod ring;
#[cfg(test)]
mod tests;
mod uring;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use actor::{DiskReply, DiskRequest};
use model::{NodeId, WorkerId};

use crate::scheduling::ThreadPlace;
pub(crate) use directory::NodeDirectory;
use pool::PoolEngine;
use uring::UringEngine;

/// How the disk is worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskEngine {
    /// By `io_uring` if the kernel lets us, otherwise by threads.
    #[default]
    Auto,
    /// By threads that block.
    Threads,
    /// By `io_uring`; without it the start fails.
    Uring,
}

/// What a worker asks of its node's disk.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) node: NodeId,
    pub(crate) worker: WorkerId,
    pub(crate) request: DiskRequest,
}

/// Takes answers to the threads of those who asked.
pub(crate) type Deliver = Arc<dyn Fn(WorkerId, Vec<(NodeId, DiskReply)>) + Send + Sync>;

/// Takes the news that an engine cannot go on.
pub(crate) type Failed = Arc<dyn Fn(io::Error) + Send + Sync>;

/// The disk, as the threads of workers see it. Dropping it waits for what has begun.
pub(crate) struct Disk {
    engine: Engine,
}

enum Engine {
    Threads(PoolEngine),
    Uring(UringEngine),
}

/// What both engines are given.
#[derive(Clone)]
struct Surroundings {
    directories: Arc<BTreeMap<NodeId, NodeDirectory>>,
    /// Where the threads run.
    place: ThreadPlace,
    deliver: Deliver,
    failed: Failed,
}

impl Disk {
    /// Begins to work the directories of these nodes.
    pub(crate) fn start(
        engine: DiskEngine,
        directories: BTreeMap<NodeId, NodeDirectory>,
        place: ThreadPlace,
        deliver: Deliver,
        failed: Failed,
    ) -> io::Result<Disk> {
        let surroundings =
            Surroundings { directories: Arc::new(directories), place, deliver, failed };
        let engine = match engine {
            DiskEngine::Threads => Engine::Threads(PoolEngine::start(surroundings)?),
            DiskEngine::Uring => Engine::Uring(UringEngine::start(surroundings)?),
            DiskEngine::Auto => match UringEngine::start(surroundings.clone()) {
                Ok(engine) => Engine::Uring(engine),
                // An old kernel, or a sandbox that forbids it.
                Err(_) => Engine::Threads(PoolEngine::start(surroundings)?),
            },
        };
        Ok(Disk { engine })
    }

    /// The engine at work: `io_uring` or `threads`.
    pub(crate) fn engine_name(&self) -> &'static str {
        match self.engine {
            Engine::Threads(_) => "threads",
            Engine::Uring(_) => "io_uring",
        }
    }

    /// Takes all of `batch`.
    pub(crate) fn submit(&self, batch: &mut Vec<Asked>) {
        if batch.is_empty() {
            return;
        }
        match &self.engine {
            Engine::Threads(engine) => engine.submit(batch),
            Engine::Uring(engine) => engine.submit(batch),
        }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("engine", &self.engine_name()).finish()
    }
}
