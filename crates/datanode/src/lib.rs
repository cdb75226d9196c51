//! Data-plane actors of a data node: the coordinator of transactions, the participant that holds
//! partition replicas, the driver of epochs.
//!
//! # Not here
//! Row storage (`store`), membership and catalog (`control`), hosts and sockets.

pub mod coordinator;
pub mod epochs;
pub mod participant;
