//! The rows that a transaction has staged itself and a scan of it is to see.
//!
//! # Owns
//! Their places in the order of the scan, from its first step to its last: a transaction may have
//! staged so many that no step could look at all of them.
//! # Guarantees
//! A place says where to look, not what is there: a row that has been undone meanwhile is not seen.
//! # Not here
//! What is staged (`leg`), the committed rows between them (`cursor`).

use std::cmp::Ordering;

use model::{OperationNumber, PartitionId, RowId};
use store::ordered_index::Direction;
use store::partition::Partition;

use super::cursor::{Position, Range, index_key};
use crate::participant::leg::Leg;

/// A key in the index that is scanned, empty in heap scans, and a slot.
type Place = (Box<[u8]>, RowId);

/// Where the rows are that a scan is to see of its own transaction.
#[derive(Debug, Default)]
pub(super) struct OwnPlaces {
    /// In the order of the scan.
    places: Vec<Place>,
    descends: bool,
    /// How many of the leg's rows have been looked at, in which arrangement of them.
    looked_at: usize,
    arrangement: u32,
}

impl OwnPlaces {
    /// Takes in what the leg has staged since the last look.
    pub(super) fn follow(
        &mut self,
        (leg, seen_to): (&Leg, OperationNumber),
        partition: &Partition,
        range: &Range,
    ) {
        if self.arrangement != leg.rows.arrangement() || self.looked_at > leg.rows.len() {
            *self = Self { arrangement: leg.rows.arrangement(), ..Self::default() };
        }
        if self.looked_at == leg.rows.len() {
            return;
        }
        let (id, table, before) = (partition.id(), partition.table(), self.places.len());
        for touched in leg.rows.rest(self.looked_at) {
            if touched.place.0 != id {
                continue;
            }
            let Some(Some(row)) = touched.seen(seen_to) else { continue };
            if let Some(key) = index_key(table, range, &row.0) {
                self.places.push((key.into(), touched.place.1));
            }
        }
        self.looked_at = leg.rows.len();
        self.descends = matches!(range, Range::Index { direction: Direction::Descending, .. });
        if self.places.len() > before {
            let descends = self.descends;
            self.places.sort_unstable_by(|a, b| if descends { b.cmp(a) } else { a.cmp(b) });
        }
    }

    /// How many of them a scan has passed that stands there.
    fn passed(&self, position: &Position) -> usize {
        let Some(row_id) = position.row_id else { return 0 };
        let at = (&position.key[..], row_id);
        self.places.partition_point(|(key, row_id)| {
            let order = (&key[..], *row_id).cmp(&at);
            let order = if self.descends { order.reverse() } else { order };
            order == Ordering::Less || order == Ordering::Equal && !position.own_left
        })
    }
}

/// A row of the transaction's own.
pub(super) struct OwnRow<'a> {
    pub(super) key: &'a [u8],
    pub(super) row_id: RowId,
    pub(super) row: &'a [u8],
}

/// The own rows that a walk has not passed yet.
pub(super) struct OwnRows<'a> {
    of: Option<(&'a Leg, OperationNumber, PartitionId)>,
    left: &'a [Place],
    next: Option<OwnRow<'a>>,
}

impl<'a> OwnRows<'a> {
    /// There are none.
    pub(super) fn none() -> Self {
        Self { of: None, left: &[], next: None }
    }

    /// Those behind a position.
    pub(super) fn after(
        (leg, seen_to): (&'a Leg, OperationNumber),
        partition: PartitionId,
        places: &'a OwnPlaces,
        position: &Position,
    ) -> Self {
        let left = &places.places[places.passed(position)..];
        Self { of: Some((leg, seen_to, partition)), left, next: None }
    }

    /// The next one, which stays.
    pub(super) fn peek(&mut self) -> Option<&OwnRow<'a>> {
        let (leg, seen_to, partition) = self.of?;
        while self.next.is_none() {
            let ((key, row_id), rest) = self.left.split_first()?;
            self.left = rest;
            let touched = leg.rows.at((partition, *row_id));
            if let Some(Some(row)) = touched.and_then(|touched| touched.seen(seen_to)) {
                self.next = Some(OwnRow { key, row_id: *row_id, row: &row.0 });
            }
        }
        self.next.as_ref()
    }

    /// Takes the next one.
    pub(super) fn next(&mut self) -> Option<OwnRow<'a>> {
        self.peek();
        self.next.take()
    }
}
