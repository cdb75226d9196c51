//! Storage of one partition replica: where rows, their indexes and their locks live in memory.
//!
//! # Owns
//! Data structures without time, messages or threads: each is used by one actor and is
//! deterministic, so replicas that apply the same operations hold the same contents.
//! # Guarantees
//! No operation pauses: growing and shrinking is done a bounded piece at a time.
//! # Not here
//! Protocols over the data (`datanode`), encodings (`model`), files (`runtime`).

mod arena;

pub mod hash_index;
pub mod heap;
pub mod lock_table;
pub mod ordered_index;
pub mod partition;
mod remains;
pub mod versions;

pub use remains::Remains;
