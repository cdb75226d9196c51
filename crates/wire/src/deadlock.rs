//! Searches for cycles of transactions that wait for each other.
//!
//! # Owns
//! What a search carries from one transaction to the next. How it travels is told in
//! `docs/internals/transactions.md`, "Deadlocks".
//! # Guarantees
//! A search has a bounded size, however long its path is.

use codec::Codec;
use model::{Epoch, TransactionId};

use crate::{CoordinatorRef, LegId};

/// Most transactions that a search names, and that the victim of a circle is told.
pub const PATH_MAX: usize = 16;
/// The waits of scans are numbered from here, above the numbers of all operations.
pub const SCAN_WAITS_FROM: u64 = 1 << 48;

/// What a transaction holds and does besides a single operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Codec)]
pub enum Besides {
    /// Nothing: it holds no lock, so nobody waits for it.
    Nothing,
    /// It may hold locks.
    Locks,
    /// It may hold locks, and other operations or scans of it are under way.
    Operations,
}

/// Which wait a search began at; tells the searches of one transaction apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct SearchOrigin {
    /// The leg that waits; none if the coordinator began the search.
    pub leg: Option<LegId>,
    /// An operation's number, or a scan's from [`SCAN_WAITS_FROM`] on.
    pub wait: u64,
    /// Counts the searches of whoever began this one: of the coordinator for its transaction, or of
    /// the participant.
    pub count: u32,
}

/// A transaction that a search has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct SearchedTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// Who coordinates it.
    pub coordinator: CoordinatorRef,
    /// Changes of rows that it has made.
    pub changes: u32,
    /// The epoch it began in.
    pub began: Epoch,
    /// How often it had gone on.
    pub step: u32,
}

/// A search on its way along the waits.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct DeadlockSearch {
    /// Whose wait it began at.
    pub initiator: TransactionId,
    /// Which wait that is.
    pub origin: SearchOrigin,
    /// The transactions it has passed in order, without the initiator; the first ones of a long
    /// path.
    pub path: Vec<TransactionId>,
    /// How many it has passed.
    pub length: u32,
    /// Of those passed, the one to be aborted if they are a cycle.
    pub victim: Option<SearchedTransaction>,
}
