//! What benches share: figures and their report, one partition, two replicas in one thread.

pub mod disk;
pub mod measure;
pub mod replicas;
pub mod storage;
