//! Whether what a change adds still fits the worker's memory limit.
//!
//! # Guarantees
//! Near the limit rows and indexes are counted in every turn that asks; far below it now and then,
//! with the rows applied since then on top.

use actor::Ctx;
use model::Address;

use super::Participant;

/// What is known of the bytes that rows and indexes take.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// As counted last; none when that says nothing any more.
    counted: Option<u64>,
    /// Bytes of rows applied since then.
    applied: u64,
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

impl Memory {
    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.fresh = false;
    }

    /// A row was applied.
    pub(super) fn applied(&mut self, row_bytes: usize) {
        self.applied += row_bytes as u64 + ROW_OVERHEAD;
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

    /// Whether `bytes` more of rows and staged images stay within the limit.
    pub(super) fn has_room(&mut self, ctx: &Ctx<'_>, bytes: u64) -> bool {
        let limit = ctx.config().data_memory;
        let more = self.legs.staged_bytes() + bytes;
        if self.memory.far_from(limit, more) {
            return true;
        }
        let rows = match self.memory.counted {
            Some(counted) if self.memory.fresh => counted,
            _ => self.replicas.values().map(|r| r.partition.memory_bytes()).sum(),
        };
        self.memory = Memory { counted: Some(rows), applied: 0, fresh: true };
        rows + more <= limit
    }
}
