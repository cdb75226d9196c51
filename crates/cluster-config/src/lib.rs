//! The configuration of a cluster: `config.ini`, in NDB's format and with NDB's names.
//!
//! # Owns
//! The table of parameters, reading and checking files, the typed description of a cluster, its
//! canonical text, and the comparison of two configurations.
//! # Guarantees
//! Any bytes give a configuration or a list of all that is wrong with them; never a panic.
//! # Not here
//! Reading files, looking up hosts, handing configurations around: the processes do that.

mod advice;
mod assign;
mod canonical;
mod cluster;
mod compare;
pub mod host;
mod ini;
mod near;
pub mod parameter;
mod problem;
mod resolve;
mod survival;
mod threads;
mod value;

pub use advice::{Advice, Machine};
pub use cluster::{
    ClusterConfig, DATA_NODE_ID_MAX, Fingerprint, Link, NODE_ID_MAX, Node, NodeGroup, Parsed, Role,
    Settings, Threads, Tls,
};
pub use compare::{Change, Comparison, NodeChange, Subject};
pub use ini::{FILE_SIZE_MAX, SectionKind};
pub use near::nearest;
pub use problem::{Notice, NoticeKind, Problem};
pub use survival::{Loss, Outcome};
pub use threads::{Binding, CpuSet, ThreadConfig, ThreadGroup, ThreadRole};
pub use value::{Value, readable};
