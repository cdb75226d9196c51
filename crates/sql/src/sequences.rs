//! AUTO_INCREMENT: values that no two rows of the cluster get, reserved in ranges.
//!
//! # Owns
//! [`Sequences`], the ranges this process has at hand, and the kernel table `#sequences` with the
//! next value of each table.
//! # Guarantees
//! A value is given out once, by whichever SQL node. Values of one process ascend. What a process
//! had reserved and not used when it ended is never given out: gaps are normal, as with NDB's
//! prefetch.
//! # Not here
//! Which column gets the value, and when an explicit value counts (`execute`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::Mutation;
use client::{ClientOperation, ClientRead, OperationAnswer};
use model::{ColumnId, ColumnType, ErrorCode, Expression, Refusal, TableId, Value};
use sql_expression::SqlError;
use stdx::Duration;
use wire::LockMode;

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// Name of the kernel table; without a database, so no user sees it.
pub(crate) const TABLE: &str = "#sequences";
const NEXT: ColumnId = ColumnId(1);
/// Values reserved at a time, at least: a restart leaves at most such a gap.
const RESERVED_MIN: u64 = 64;

/// The pause of those who wait until another connection has reserved values.
const PAUSE: Duration = Duration::from_micros(500);

/// Values from `next` to before `end` may be given out.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    next: u64,
    end: u64,
    /// Somebody is reserving more.
    reserving: bool,
}

/// The turn of one connection to reserve values of a table, to the end of its life.
struct Turn {
    ranges: Ranges,
    table: TableId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(range) = lock(&self.ranges).get_mut(&self.table) {
            range.reserving = false;
        }
    }
}

type Ranges = Arc<Mutex<BTreeMap<TableId, Range>>>;

/// The ranges at hand in this process.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    ranges: Ranges,
}

/// How the values of a session are spaced: `auto_increment_increment` and `_offset`.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Distance between values; at least 1.
    pub increment: u64,
    /// The smallest value; at least 1.
    pub offset: u64,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { increment: 1, offset: 1 }
    }
}

impl Spacing {
    /// The first value of the series that is not below `from`; none beyond 64 bits.
    pub(crate) fn first_from(self, from: u64) -> Option<u64> {
        if from <= self.offset {
            return Some(self.offset);
        }
        let steps = (from - self.offset).div_ceil(self.increment);
        steps.checked_mul(self.increment)?.checked_add(self.offset)
    }

    /// The last of `count` values beginning with `first`; none beyond 64 bits.
    fn last_of(self, first: u64, count: u64) -> Option<u64> {
        (count - 1).checked_mul(self.increment)?.checked_add(first)
    }
}

impl Sequences {
    /// The value from which on no process has reserved any of a table, if one has been reserved.
    pub(crate) async fn kept(
        &self,
        kernel: &Kernel,
        table: TableId,
    ) -> Result<Option<u64>, SqlError> {
        let rows = steadily(kernel, async || {
            let Some(sequences) = kernel.cluster().table_named(TABLE).map(|table| table.id) else {
                return Ok(Vec::new());
            };
            let read = ClientRead::primary(sequences, vec![key_of(table)]);
            kernel.read(vec![read], None).await
        });
        let row = rows.await?.into_iter().next().flatten();
        Ok(match row.as_deref() {
            Some([_, Value::UInt(next)]) => Some(*next),
            _ => None,
        })
    }

    /// Reserves `count` values of a table, spaced evenly; the first of them. `start` is the first
    /// value of a table that never gave one. Refused with `ValueOutOfRange` at the end of 64 bits.
    pub async fn take(
        &self,
        kernel: &Kernel,
        table: TableId,
        count: u64,
        spacing: Spacing,
        start: u64,
    ) -> Result<u64, Failure> {
        loop {
            if let Some(first) = self.take_at_hand(table, count, spacing)? {
                return Ok(first);
            }
            // Where many insert, all come to the end of a range together: one asks for the next.
            let Some(_turn) = self.turn(table) else {
                kernel.sleep(PAUSE).await?;
                continue;
            };
            let wanted = count.saturating_mul(spacing.increment).max(RESERVED_MIN);
            let next = self.reserve(kernel, table, 0, wanted, start).await?;
            let mut ranges = self.lock();
            let range = ranges.entry(table).or_default();
            // Others have reserved meanwhile: the larger range is the newer one.
            if next >= range.end {
                (range.next, range.end) = (next, next.saturating_add(wanted));
            }
        }
    }

    /// Sees to it that values given out from now on are larger than `value`.
    pub async fn raise(
        &self,
        kernel: &Kernel,
        table: TableId,
        value: u64,
        start: u64,
    ) -> Result<(), Failure> {
        let above = value.saturating_add(1);
        {
            let mut ranges = self.lock();
            let range = ranges.entry(table).or_default();
            if above <= range.next {
                return Ok(());
            }
            if above <= range.end {
                range.next = above;
                return Ok(());
            }
        }
        // A range behind the value, so that a load of ascending values asks seldom.
        let next = self.reserve(kernel, table, above, RESERVED_MIN, start).await?;
        let mut ranges = self.lock();
        let range = ranges.entry(table).or_default();
        if next >= range.end {
            (range.next, range.end) = (next, next.saturating_add(RESERVED_MIN));
        }
        Ok(())
    }

    /// The value that would be given out next, if it is reserved by this process.
    pub(crate) fn at_hand(&self, table: TableId) -> Option<u64> {
        let ranges = self.lock();
        ranges.get(&table).filter(|range| range.next < range.end).map(|range| range.next)
    }

    /// The value that would be given out next, for SHOW TABLE STATUS.
    pub async fn peek(&self, kernel: &Kernel, table: TableId, start: u64) -> Result<u64, Failure> {
        if let Some(next) = self.at_hand(table) {
            return Ok(next);
        }
        let rows = steadily(kernel, async || {
            let read = ClientRead::primary(kept_in(kernel).await?, vec![key_of(table)]);
            kernel.beside().read(vec![read], None).await
        });
        Ok(rows.await?.into_iter().next().flatten().map_or(start, |row| number(&row)))
    }

    /// Forgets a table that is gone.
    pub async fn forget(&self, kernel: &Kernel, table: TableId) -> Result<(), Failure> {
        self.lock().remove(&table);
        let deleted = steadily(kernel, async || {
            let delete = ClientOperation::delete(kept_in(kernel).await?, vec![key_of(table)]);
            kernel.beside().execute_and_commit(vec![delete]).await
        });
        match deleted.await {
            Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowNotFound => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn take_at_hand(
        &self,
        table: TableId,
        count: u64,
        spacing: Spacing,
    ) -> Result<Option<u64>, Failure> {
        let mut ranges = self.lock();
        let Some(range) = ranges.get_mut(&table) else { return Ok(None) };
        let exhausted = || {
            let detail = "the AUTO_INCREMENT values are used up";
            Failure::Refused(Refusal::new(ErrorCode::ValueOutOfRange, detail))
        };
        let first = spacing.first_from(range.next).ok_or_else(exhausted)?;
        let last = spacing.last_of(first, count).ok_or_else(exhausted)?;
        if last >= range.end {
            if range.end == u64::MAX {
                return Err(exhausted());
            }
            return Ok(None);
        }
        range.next = last + 1;
        Ok(Some(first))
    }

    /// Moves the table's next value `count` on, to at least `from + count`; where it stood, or
    /// `from` if that is larger.
    async fn reserve(
        &self,
        kernel: &Kernel,
        table: TableId,
        from: u64,
        count: u64,
        start: u64,
    ) -> Result<u64, Failure> {
        steadily(kernel, async || self.reserve_now(kernel, table, from, count, start).await).await
    }

    async fn reserve_now(
        &self,
        kernel: &Kernel,
        table: TableId,
        from: u64,
        count: u64,
        start: u64,
    ) -> Result<u64, Failure> {
        let sequences = kept_in(kernel).await?;
        let kernel = kernel.beside();
        let key = vec![key_of(table)];
        loop {
            let read = ClientOperation::read_locked(sequences, key.clone(), LockMode::Exclusive);
            let stood = match kernel.execute(vec![read]).await?.into_iter().next() {
                Some(Ok(OperationAnswer::Row(row))) => Some(number(&row)),
                Some(Err(refusal)) if refusal.code == ErrorCode::RowNotFound => None,
                Some(Err(refusal)) => {
                    kernel.abort().await;
                    return Err(Failure::Refused(refusal));
                }
                Some(Ok(OperationAnswer::Written(_))) | None => {
                    kernel.abort().await;
                    return Err(Failure::Refused(ErrorCode::Internal.into()));
                }
            };
            let next = stood.unwrap_or(start).max(from);
            let count = if kernel.mutated(Mutation::SqlNumbersUnreserved) { 1 } else { count };
            let after = Value::UInt(next.saturating_add(count));
            let write = match stood {
                Some(_) => {
                    let assignment = (NEXT, Expression::Constant(after));
                    ClientOperation::update(sequences, key.clone(), vec![assignment])
                }
                None => ClientOperation::insert(sequences, vec![key[0].clone(), after]),
            };
            match kernel.execute_and_commit(vec![write]).await {
                Ok(_) => return Ok(next),
                // Somebody else made the row in between.
                Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowExists => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The turn to reserve values, unless somebody has it.
    fn turn(&self, table: TableId) -> Option<Turn> {
        let mut ranges = self.lock();
        let reserving = &mut ranges.entry(table).or_default().reserving;
        let mine = !std::mem::replace(reserving, true);
        mine.then(|| Turn { ranges: self.ranges.clone(), table })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Range>> {
        lock(&self.ranges)
    }
}

/// The kernel table; made by the first who needs it.
async fn kept_in(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[("table_id", ColumnType::UInt(4)), ("next", ColumnType::UInt(8))];
    let table = OwnTable { name: TABLE, columns, key_columns: 1, ordered: false };
    table.get(kernel).await
}

fn lock(ranges: &Ranges) -> MutexGuard<'_, BTreeMap<TableId, Range>> {
    // Ranges are plain numbers: whoever panicked left them whole.
    ranges.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(table: TableId) -> Value {
    Value::UInt(table.0.into())
}

fn number(row: &[Value]) -> u64 {
    match row.get(usize::from(NEXT.0)) {
        Some(Value::UInt(number)) => *number,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spaced_by_increment_and_offset() {
        let spacing = Spacing { increment: 10, offset: 3 };
        for (from, first) in [(0, 3), (1, 3), (3, 3), (4, 13), (13, 13), (14, 23)] {
            assert_eq!(spacing.first_from(from), Some(first), "from {from}");
        }
        assert_eq!(spacing.last_of(13, 3), Some(33));
        assert_eq!(spacing.first_from(u64::MAX), None);
    }

    #[test]
    fn a_range_is_given_out_once_and_to_its_end() {
        let sequences = Sequences::default();
        let table = TableId(7);
        sequences.lock().insert(table, Range { next: 1, end: 5, reserving: false });
        let take = |count| sequences.take_at_hand(table, count, Spacing::default());
        assert_eq!(take(2), Ok(Some(1)));
        assert_eq!(take(3), Ok(None));
        assert_eq!(take(2), Ok(Some(3)));
        assert_eq!(take(1), Ok(None));
        let turn = sequences.turn(table).expect("nobody reserves");
        assert!(sequences.turn(table).is_none(), "one at a time");
        drop(turn);
        assert!(sequences.turn(table).is_some(), "who is gone reserves no more");
        sequences.lock().insert(table, Range { next: u64::MAX, end: u64::MAX, reserving: false });
        assert!(take(1).is_err());
    }
}
