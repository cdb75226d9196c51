//! The ids of a statement's rows, and which of them its client is told.
//!
//! # Owns
//! [`RowId`], the AUTO_INCREMENT value of a row; [`StoredIds`], those of the rows that a statement
//! has stored; [`InsertId`], what follows from them for the OK packet and for LAST_INSERT_ID().
//! # Invariants
//! A row that a statement does not store (a duplicate that IGNORE leaves out, one that ON DUPLICATE
//! KEY UPDATE changes instead) counts as never generated. A statement that fails changes nothing,
//! except by LAST_INSERT_ID(expr), which acts when it is evaluated. ROLLBACK takes nothing back.
//! # Not here
//! Where values come from (`sequences`), which rows get one (`execute::generate`).

use sql_expression::EvalContext;
use sqltype::Datum;

/// The AUTO_INCREMENT value of a row, as 64 bits: -1 is the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowId {
    /// Its table has no such column.
    #[default]
    None,
    /// The statement says it.
    Given(u64),
    /// It was generated for the row.
    Generated(u64),
}

impl RowId {
    /// The id that a column without a generated value has.
    pub(crate) fn given(value: &Datum) -> Self {
        Self::Given(bits(value))
    }

    /// The id that was generated as the value of a column.
    pub(crate) fn generated(value: &Datum) -> Self {
        Self::Generated(bits(value))
    }
}

/// The bits of a whole number; zero for anything else.
fn bits(value: &Datum) -> u64 {
    match value {
        Datum::Int(value) => value.cast_unsigned(),
        Datum::UInt(value) => *value,
        _ => 0,
    }
}

/// The ids of the rows that a statement has stored so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredIds {
    /// The first one that was generated; zero if none was.
    first_generated: u64,
    /// That of the last row.
    last: u64,
}

impl StoredIds {
    /// A row has been stored.
    pub(crate) fn add(&mut self, id: RowId) {
        match id {
            RowId::None => {}
            RowId::Given(id) => self.last = id,
            RowId::Generated(id) => {
                self.last = id;
                if self.first_generated == 0 {
                    self.first_generated = id;
                }
            }
        }
    }
}

/// What a statement that has succeeded tells of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InsertId {
    /// The insert id of the OK packet.
    pub(crate) of_packet: u64,
    /// LAST_INSERT_ID() from now on; zero if it stays as it is.
    pub(crate) generated: u64,
}

impl InsertId {
    /// After INSERT and REPLACE: the first id that was generated, or else the argument of the last
    /// LAST_INSERT_ID(expr), or else the id of the last row.
    pub(crate) fn of_insert(stored: StoredIds, context: &EvalContext) -> Self {
        let StoredIds { first_generated: generated, last } = stored;
        let of_packet = match (generated, context.last_insert_id_set) {
            (0, true) => context.last_insert_id,
            (0, false) => last,
            (generated, _) => generated,
        };
        Self { of_packet, generated }
    }

    /// After UPDATE: the argument of the last LAST_INSERT_ID(expr).
    pub(crate) fn of_update(context: &EvalContext) -> Self {
        let of_packet = if context.last_insert_id_set { context.last_insert_id } else { 0 };
        Self { of_packet, generated: 0 }
    }

    /// After LOAD DATA, which tells its client nothing.
    pub(crate) fn of_load(stored: StoredIds) -> Self {
        Self { of_packet: 0, generated: stored.first_generated }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The ids of these rows: positive numbers were generated, negative ones given.
    fn stored(ids: &[i64]) -> StoredIds {
        let mut stored = StoredIds::default();
        for id in ids {
            stored.add(match u64::try_from(*id) {
                Ok(generated) => RowId::Generated(generated),
                Err(_) => RowId::Given(id.unsigned_abs()),
            });
        }
        stored
    }

    fn context(argument: Option<u64>) -> EvalContext {
        let mut context = EvalContext::new(Arc::default(), 0, 1);
        context.last_insert_id = argument.unwrap_or(77);
        context.last_insert_id_set = argument.is_some();
        context
    }

    #[test]
    fn an_id_that_was_generated_goes_before_arguments_and_those_before_given_ids() {
        let insert = |ids: &[i64], argument| {
            let InsertId { of_packet, generated } =
                InsertId::of_insert(stored(ids), &context(argument));
            (of_packet, generated)
        };
        assert_eq!(insert(&[], None), (0, 0));
        assert_eq!(insert(&[-5, -6], None), (6, 0));
        assert_eq!(insert(&[-5, 7, 8, -6], None), (7, 7));
        assert_eq!(insert(&[], Some(9)), (9, 0));
        assert_eq!(insert(&[-5], Some(9)), (9, 0));
        assert_eq!(insert(&[7], Some(9)), (7, 7));
        assert_eq!(insert(&[], Some(0)), (0, 0));
    }

    #[test]
    fn an_update_tells_the_argument_alone_and_load_data_nothing() {
        let told = |of_packet, generated| InsertId { of_packet, generated };
        assert_eq!(InsertId::of_update(&context(None)), told(0, 0));
        assert_eq!(InsertId::of_update(&context(Some(9))), told(9, 0));
        assert_eq!(InsertId::of_load(stored(&[-5, 7, 8])), told(0, 7));
    }

    #[test]
    fn ids_below_zero_are_told_as_64_bits() {
        assert_eq!(RowId::given(&Datum::Int(-9)), RowId::Given(u64::MAX - 8));
        assert_eq!(RowId::given(&Datum::Null), RowId::Given(0));
    }
}
