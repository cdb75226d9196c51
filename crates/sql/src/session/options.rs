//! What an SQL worker is told when it is made.

use crate::admission::Admission;
use crate::directory::Directory;
use crate::pace::Clock;
use crate::sequences::Sequences;
use crate::stacks::MakeStack;

/// What an SQL worker is told when it is made.
#[derive(Clone, Debug)]
pub struct SqlOptions {
    /// The registry of the process, shared by its SQL workers.
    pub directory: Directory,
    /// AUTO_INCREMENT ranges of the process, shared likewise.
    pub sequences: Sequences,
    /// Microseconds since 1970 UTC when the worker's clock stood at zero.
    pub clock_base: i64,
    /// The time zone of the host, in minutes east of UTC; `@@system_time_zone`.
    pub host_offset: i32,
    /// What logging in takes from outside; the workers of a process share it.
    pub admission: Admission,
    /// What `@@port`, `@@socket`, `@@hostname` say.
    pub address: ServerAddress,
    /// By which long computations let others have the worker; none to count their work instead.
    pub clock: Option<Clock>,
    /// Makes stacks for tasks that pause in the middle of a call; none if they cannot.
    pub stack: Option<MakeStack>,
}

/// Where the server listens, for variables and status.
#[derive(Clone, Debug, Default)]
pub struct ServerAddress {
    /// TCP port.
    pub port: u16,
    /// Path of the Unix socket.
    pub socket: String,
    /// Name of the host.
    pub hostname: String,
    /// The data directory.
    pub directory: String,
    /// Whether what all nodes write to disk is encrypted.
    pub encrypted: bool,
    /// The process has this node alone: RESTART can start it again.
    pub alone: bool,
}
