//! The client library core: sessions, transactions, reads, scans, schema changes, all as state
//! machines without input or output, and the actors that use them inside a data node.
//!
//! # Owns
//! [`Client`], a component that an actor embeds: it turns values into encoded operations, finds
//! the data nodes that serve them, repeats what is safe to repeat, and reports through
//! [`ClientEvent`]s. [`IndexBuilder`], the actor that fills new unique indexes; [`Joiner`], the one
//! that looks up rows of other tables for the rows of scans.
//! # Guarantees
//! A request ends in exactly one final event. Nothing whose effect is in doubt is run twice; a
//! commit whose answer was lost is asked for until its end is known.
//! # Not here
//! SQL, connections, what data nodes do with the requests.

mod client;
mod event;
#[cfg(test)]
mod harness;
mod index_builder;
mod joiner;
mod request;
mod subscription;

pub use client::{Client, ClientOptions, ScannedRow, ScannedRows};
pub use event::{
    ClientEvent, ClientResult, Inspected, OperationAnswer, PeerAnswers, Savepoint, SessionNumber,
    Token, Traffic, UnsettledTransaction,
};
pub use index_builder::IndexBuilder;
pub use joiner::Joiner;
pub use request::{
    ClientOperation, ClientRead, IndexBound, OperationAction, ReadKey, ScanRange, ScanSpec,
};
pub use subscription::{Delivery, Subscription, opened, opening};
