//! What benches share: figures and their report, one partition, two replicas in one thread,
//! messages as bytes.

pub mod codec;
pub mod disk;
pub mod measure;
pub mod replicas;
pub mod storage;
