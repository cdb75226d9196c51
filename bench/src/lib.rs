//! What benches share: figures and their report, one partition, two replicas in one thread, a whole
//! cluster in one thread and its clients, YCSB's workloads, messages as bytes; a load generator for
//! servers.

pub mod client;
pub mod cluster;
pub mod codec;
pub mod disk;
pub mod load;
pub mod measure;
pub mod native;
pub mod paths;
pub mod replicas;
pub mod scaling;
pub mod storage;
pub mod ycsb;
