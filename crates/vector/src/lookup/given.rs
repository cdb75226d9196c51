//! Rows that come with a plan: the small side of a join by hash.
//!
//! # Owns
//! [`Given`], these rows and their keys; the table in which joined rows look for them, made once
//! for all.
//! # Guarantees
//! What a plan brings is bounded in rows and bytes. How pairs are made, and how many at a time, is
//! that of lookups that find many rows (`range`).
//! # Not here
//! Where the rows come from (`sql`).

use std::rc::Rc;

use codec::Codec;
use collation::CollationId;

use super::{JoinPlan, JoinedRows, KeyPart, Lookup, LookupJoin, NO_TABLE, RangeJoin};
use crate::block::Block;
use crate::join::{JoinTable, KeyColumn};
use crate::program::{Bad, known_collation};
use crate::vector::Kind;

/// Most rows that a lookup is given.
pub const GIVEN_ROWS_MAX: usize = 1_024;
/// Most bytes that the lookups of a plan are given, as [`Block::memory_bytes`] has them.
pub const GIVEN_BYTES_MAX: usize = 64 << 10;

/// Rows among which a lookup looks. [`Input::column`](crate::Input::column) of its columns is a
/// column of these.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Given {
    /// The rows, [`GIVEN_ROWS_MAX`] at most.
    pub rows: Block,
    /// For each part of the lookup's key, which is a place of the joined row, what has to be equal.
    pub key: Vec<GivenKey>,
}

/// A column of the key of given rows. NULL is equal to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct GivenKey {
    /// The column.
    pub column: u16,
    /// The number of the collation under which texts are equal.
    pub collation: u16,
}

/// Given rows that can be found.
#[derive(Debug)]
pub(super) struct GivenRows {
    /// The columns of the lookup.
    rows: JoinedRows,
    table: Rc<JoinTable>,
}

/// Whether what a plan brings is not too much.
pub(super) fn check_sizes(plan: &JoinPlan) -> Result<(), Bad> {
    let mut bytes = 0;
    for given in plan.lookups.iter().filter_map(|lookup| lookup.given.as_ref()) {
        bytes += given.rows.memory_bytes();
        if given.rows.rows() > GIVEN_ROWS_MAX {
            return Err(Bad("too many rows are given"));
        }
    }
    if bytes <= GIVEN_BYTES_MAX {
        Ok(())
    } else {
        Err(Bad("the rows that are given are too large"))
    }
}

impl Given {
    /// Whether it fits its lookup, and columns of these kinds that there are.
    pub(super) fn check(&self, lookup: &Lookup, kinds: &[Kind]) -> Result<(), Bad> {
        if lookup.table != NO_TABLE || lookup.index.is_some() || lookup.range.is_some() {
            return Err(Bad("rows are given, and read"));
        }
        let kind_of = |column: u16| self.rows.columns().get(usize::from(column)).map(|c| c.kind());
        for input in &lookup.columns {
            if kind_of(input.column.0) != Some(input.kind) {
                return Err(Bad("no such column of the rows that are given"));
            }
        }
        if lookup.key.len() != self.key.len() {
            return Err(Bad("the key has another number of columns"));
        }
        for (part, key) in lookup.key.iter().zip(&self.key) {
            let KeyPart::Place(place) = part else {
                return Err(Bad("given rows are joined with other rows"));
            };
            let kind = kind_of(key.column).ok_or(Bad("no such column of the rows given"))?;
            if kinds.get(usize::from(*place)) != Some(&kind) {
                return Err(Bad("a key of another kind"));
            }
            known_collation(kind, key.collation)?;
        }
        Ok(())
    }
}

impl GivenRows {
    /// The rows of a lookup that has been checked, if they are given.
    pub(super) fn of(lookup: &Lookup) -> Option<Self> {
        let given = lookup.given.as_ref()?;
        let all = JoinedRows::new(given.rows.clone());
        let column = |at: u16| all.columns[usize::from(at)].clone();
        let of_key = |key: &GivenKey| KeyColumn {
            vector: column(key.column),
            collation: CollationId(key.collation),
        };
        let keys: Vec<KeyColumn> = given.key.iter().map(of_key).collect();
        let table = Rc::new(JoinTable::new(&keys, all.count));
        let columns = lookup.columns.iter().map(|input| column(input.column.0)).collect();
        Some(Self { rows: JoinedRows { count: all.count, columns }, table })
    }
}

impl LookupJoin {
    /// Begins to join rows with those that are given for a lookup: nothing has to be found for it.
    pub fn with_given(&self, lookup: usize, rows: JoinedRows) -> RangeJoin {
        let step = &self.plan.lookups[lookup];
        let (Some(given), Some(side)) = (&step.given, &self.given[lookup]) else {
            panic!("rows are given for the lookup");
        };
        let parts = step.key.iter().zip(&given.key).filter_map(|(part, key)| match part {
            KeyPart::Place(place) => Some((usize::from(*place), CollationId(key.collation))),
            KeyPart::Constant(_) => None,
        });
        let keys = parts.map(|(place, collation)| {
            let vector = rows.columns[place].clone();
            KeyColumn { vector, collation }
        });
        let keys = keys.collect();
        RangeJoin::over_given(lookup, rows, side.rows.clone(), side.table.clone(), keys)
    }
}
