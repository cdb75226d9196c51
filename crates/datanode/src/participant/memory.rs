//! Whether what a change adds still fits the worker's memory limits.
//!
//! # Guarantees
//! Uncommitted changes count with their records and locks, against `data_memory` and, if there is
//! one, against `transaction_memory`.
//! Near the limit rows and indexes are counted in every turn that asks; far below it now and then,
//! with the rows applied since then on top.

use std::fmt;

use actor::Ctx;
use model::{Address, ErrorCode, Refusal};

use super::Participant;

/// What is known of the bytes that rows and indexes take.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// As counted last; none when that says nothing any more.
    counted: Option<u64>,
    /// Bytes of rows applied, and of locks, since then.
    applied: u64,
    /// Bytes of locks as counted last, and of those that were asked for since then.
    locks: u64,
    locked: u64,
    /// Counted in this turn.
    fresh: bool,
}

/// What takes the memory of a worker, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pools {
    pub(super) rows: u64,
    pub(super) hash_indexes: u64,
    pub(super) ordered_indexes: u64,
    pub(super) old_images: u64,
    pub(super) staged_changes: u64,
    pub(super) locks: u64,
}

impl Pools {
    /// What counts against the limit.
    pub(super) fn limited(&self) -> u64 {
        self.rows + self.hash_indexes + self.ordered_indexes + self.staged_changes
    }

    /// Each of them, by the name that figures know it by.
    pub(super) fn by_name(&self) -> [(&'static str, u64); 6] {
        [
            ("rows", self.rows),
            ("hash_indexes", self.hash_indexes),
            ("ordered_indexes", self.ordered_indexes),
            ("old_images", self.old_images),
            ("staged_changes", self.staged_changes),
            ("locks", self.locks),
        ]
    }
}

/// What a row takes in slots and indexes, roughly.
const ROW_OVERHEAD: u64 = 64;
/// What a lock takes, and its place in the index, roughly.
pub(super) const LOCK_BYTES: u64 = 40;
/// What does not make a row longer may go beyond the limit by one in so many bytes: rows can be
/// deleted when the memory is full.
const RESERVE: u64 = 8;

impl Memory {
    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.fresh = false;
    }

    /// A row was applied.
    pub(super) fn applied(&mut self, row_bytes: usize) {
        self.applied += row_bytes as u64 + ROW_OVERHEAD;
    }

    /// So many locks were asked for.
    pub(super) fn locked(&mut self, locks: u64) {
        self.applied += locks * LOCK_BYTES;
        self.locked += locks * LOCK_BYTES;
    }

    /// What was counted as so many bytes takes another number of them now.
    pub(super) fn changed(&mut self, before: u64, after: u64) {
        self.counted = self.counted.map(|bytes| (bytes + after).saturating_sub(before));
    }

    /// Rows came or went otherwise.
    pub(super) fn forget(&mut self) {
        (self.counted, self.fresh) = (None, false);
    }

    /// Whether the limit is far with `more` bytes, as well as it is known.
    fn far_from(&self, limit: u64, more: u64) -> bool {
        let counted = self.counted.filter(|_| self.applied <= limit / 64);
        counted.is_some_and(|bytes| bytes + self.applied + more <= limit - limit / 8)
    }
}

impl Participant {
    /// What takes how much memory, of replicas as far as their sums are known.
    pub(super) fn memory_pools(&self, me: Address) -> Pools {
        Pools { staged_changes: self.legs.staged_bytes(), ..self.sums(me).pools }
    }

    /// Whether so many bytes of changes or locks have room, and whether they make a row longer.
    ///
    /// # Errors
    /// What is used, how much may be, and which parameter says so.
    pub(super) fn has_room(
        &mut self,
        ctx: &Ctx<'_>,
        bytes: u64,
        grows: bool,
    ) -> Result<(), Refusal> {
        let (limit, changes) = (ctx.config().data_memory, ctx.config().transaction_memory);
        let staged = self.legs.staged_bytes() + bytes;
        let few = changes == 0 || staged + self.memory.locks + self.memory.locked <= changes;
        if few && self.memory.far_from(limit, staged) {
            return Ok(());
        }
        let (rows, locks) = match self.memory.counted {
            Some(counted) if self.memory.fresh => (counted, self.memory.locks),
            _ => {
                let replicas = self.replicas.values();
                let locks = replicas.clone().map(|r| r.locks.used_bytes()).sum();
                (replicas.map(|r| r.partition.memory_bytes()).sum::<u64>() + locks, locks)
            }
        };
        let counted = Some(rows);
        self.memory = Memory { counted, applied: 0, fresh: true, locks, locked: 0 };
        if changes > 0 && staged + locks > changes {
            let detail = format!(
                "{}: {} used of at most {}",
                ctx.me(),
                Mebibytes(staged + locks),
                Mebibytes(changes)
            );
            return Err(Refusal::new(ErrorCode::TransactionMemoryFull, detail));
        }
        let reserve = if grows { 0 } else { limit / RESERVE };
        if rows + staged <= limit + reserve {
            return Ok(());
        }
        let detail = format!(
            "{}: {} used of at most {}, {} of it by uncommitted changes; DataMemory",
            ctx.me(),
            Mebibytes(rows + staged),
            Mebibytes(limit),
            Mebibytes(staged + locks)
        );
        Err(Refusal::new(ErrorCode::MemoryFull, detail))
    }
}

/// Bytes as operators read them.
struct Mebibytes(u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0 / ((1 << 20) / 10);
        write!(f, "{}.{} MiB", tenths / 10, tenths % 10)
    }
}
