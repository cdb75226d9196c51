//! The rows that a transaction has staged itself and a scan of it is to see.
//!
//! # Owns
//! Their places in the order of the scan, from its first step to its last: a transaction may have
//! staged so many that no step could look at all of them. So they are gathered in steps too, before
//! the scan reads its first row.
//! # Guarantees
//! A place says where to look, not what is there: a row that has been undone meanwhile is not seen.
//! Rows that are touched after the scan was opened are not looked at, as it sees nothing of them.
//! # Not here
//! What is staged (`leg`), the committed rows between them (`cursor`).

use std::ops::Bound;

use model::{OperationNumber, PartitionId, RowId};
use store::ordered_index::{self, Direction, KeyRange, OrderedIndex};
use store::partition::Partition;

use super::cursor::{Position, Range, index_key};
use crate::participant::leg::{Leg, Place};

/// Where the rows are that a scan is to see of its own transaction.
#[derive(Debug, Default)]
pub(super) struct OwnPlaces {
    /// By their keys in the index that is scanned, which are empty in heap scans.
    places: Option<Box<OrderedIndex>>,
    descends: bool,
    /// How many of the leg's rows have been looked at, in which arrangement of them.
    looked_at: usize,
    arrangement: u32,
    /// Rows that the leg had touched when the scan was opened.
    touched: Option<usize>,
}

impl OwnPlaces {
    /// Looks at some rows that the leg had touched when the scan began; whether that were the last
    /// ones.
    pub(super) fn follow(
        &mut self,
        leg: &Leg,
        seen_to: OperationNumber,
        partition: &Partition,
        range: &Range,
        most: u32,
    ) -> bool {
        let touched = *self.touched.get_or_insert(leg.rows.len());
        if self.arrangement != leg.rows.arrangement() || self.looked_at > leg.rows.len() {
            let (touched, arrangement) = (Some(touched), leg.rows.arrangement());
            *self = Self { arrangement, touched, ..Self::default() };
        }
        let end = touched.min(leg.rows.len());
        if self.looked_at >= end {
            return true;
        }
        let (id, table) = (partition.id(), partition.table());
        let count = (most as usize).min(end - self.looked_at);
        for touched in leg.rows.rest(self.looked_at).take(count) {
            if touched.place.partition != id {
                continue;
            }
            let Some(Some(row)) = touched.seen(seen_to) else { continue };
            if let Some(key) = index_key(table, range, &row.0) {
                let places = self.places.get_or_insert_with(|| Box::new(OrderedIndex::new()));
                places.insert(&key, touched.place.row_id);
            }
        }
        self.looked_at += count;
        self.descends = matches!(range, Range::Index { direction: Direction::Descending, .. });
        self.looked_at >= end
    }
}

/// The range of places that a scan has not passed that stands there, and behind which place of it
/// they begin.
fn left_of(position: &Position, direction: Direction) -> (KeyRange, Option<(&[u8], RowId)>) {
    let Some(row_id) = position.row_id else { return (KeyRange::ALL, None) };
    let key = &position.key[..];
    if !position.own_left {
        return (KeyRange::ALL, Some((key, row_id)));
    }
    // The own row in the same place is left too: they begin behind the place before it.
    let before = match direction {
        Direction::Ascending => row_id.0.checked_sub(1),
        Direction::Descending => row_id.0.checked_add(1),
    };
    match (before, direction) {
        (Some(before), _) => (KeyRange::ALL, Some((key, RowId(before)))),
        (None, Direction::Ascending) => {
            let lower = Bound::Included(key.to_vec());
            (KeyRange { lower, upper: Bound::Unbounded }, None)
        }
        (None, Direction::Descending) => {
            let upper = Bound::Included(key.to_vec());
            (KeyRange { lower: Bound::Unbounded, upper }, None)
        }
    }
}

/// A row of the transaction's own.
pub(super) struct OwnRow<'a> {
    pub(super) key: Vec<u8>,
    pub(super) row_id: RowId,
    pub(super) row: &'a [u8],
}

/// The own rows that a walk has not passed yet.
pub(super) struct OwnRows<'a> {
    of: Option<(&'a Leg, OperationNumber, PartitionId)>,
    left: Option<ordered_index::Scan<'a>>,
    next: Option<OwnRow<'a>>,
}

impl<'a> OwnRows<'a> {
    /// There are none.
    pub(super) fn none() -> Self {
        Self { of: None, left: None, next: None }
    }

    /// Those behind a position.
    pub(super) fn after(
        leg: &'a Leg,
        seen_to: OperationNumber,
        partition: PartitionId,
        places: &'a OwnPlaces,
        position: &Position,
    ) -> Self {
        let direction = if places.descends { Direction::Descending } else { Direction::Ascending };
        let (range, after) = left_of(position, direction);
        let places = places.places.as_ref();
        let left = places.map(|places| places.scan(&range, direction, after));
        Self { of: Some((leg, seen_to, partition)), left, next: None }
    }

    /// The next one, which stays.
    pub(super) fn peek(&mut self) -> Option<&OwnRow<'a>> {
        let (leg, seen_to, partition) = self.of?;
        while self.next.is_none() {
            let (key, row_id) = self.left.as_mut()?.next()?;
            let touched = leg.rows.at(Place { partition, row_id });
            if let Some(Some(row)) = touched.and_then(|touched| touched.seen(seen_to)) {
                self.next = Some(OwnRow { key: key.to_vec(), row_id, row: &row.0 });
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
