//! What is in the files of a node: the redo log, checkpoints, watermarks, the node's identity.
//! Bytes and values only; who writes and reads them when is not decided here.
//!
//! # Owns
//! The encodings, their versions and checksums, and the names of files.
//! # Guarantees
//! Any bytes can be read: what comes out is a prefix of what was written, or an error that says
//! where the damage is. Nothing is handed out that its checksum does not cover, and a checksum also
//! covers where the bytes belong, so that those of another file or place do not pass.
//! # Not here
//! Files, directories, when anything is synced (`datanode::participant`), the control log.

mod bytes;
mod damage;
mod identity;
mod name;
mod watermark;

pub mod checkpoint;
pub mod redo;

pub use damage::{Damage, DamageKind};
pub use identity::Identity;
pub use name::{
    FileName, IDENTITY_FILE, WATERMARK_FILE, is_written_in_place, worker_directory,
    worker_of_directory,
};
pub use watermark::{Watermark, Watermarks};
