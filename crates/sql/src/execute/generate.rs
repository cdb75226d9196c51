//! AUTO_INCREMENT values of the rows of a statement.
//!
//! # Owns
//! Which rows get a value, and what the explicit ones among them do to the sequence.
//! # Not here
//! Where values come from (`sequences`), what clients are told of them (`insert_id`).

use std::ops::Range;

use model::ErrorCode;
use sql_expression::{SqlError, SqlMode};
use sqltype::{Datum, SqlType};

use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::insert_id::RowId;
use crate::kernel::Failure;
use crate::rows::Row;
use crate::sequences::Spacing;

/// The AUTO_INCREMENT values of the rows of a statement.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// The position of the column, if the table has one.
    column: Option<usize>,
    /// The numbers of the rows that have got their value, ascending.
    generated: Vec<Range<usize>>,
}

impl Ids {
    /// That of the row with this number, counted from zero.
    pub(crate) fn of(&self, number: usize, row: &[Datum]) -> RowId {
        let Some(at) = self.column else { return RowId::None };
        let next = self.generated.partition_point(|rows| rows.end <= number);
        if self.generated.get(next).is_some_and(|rows| rows.contains(&number)) {
            RowId::generated(&row[at])
        } else {
            RowId::given(&row[at])
        }
    }
}

/// Fills AUTO_INCREMENT columns. An explicit value moves the sequence on for the rows behind it,
/// not for those before.
pub(crate) async fn generate(
    run: &mut Run<'_>,
    maker: &RowMaker,
    rows: &mut [Row],
) -> Result<Ids, SqlError> {
    let Some((at, _)) = maker.definition.auto_increment() else { return Ok(Ids::default()) };
    let mut ids = Ids { column: Some(at), generated: Vec::new() };
    let keeps_zero = run.context.facts.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO);
    let wants = |row: &Row| match &row[at] {
        Datum::Null => true,
        Datum::Int(0) | Datum::UInt(0) => !keeps_zero,
        _ => false,
    };
    let spacing = Spacing {
        increment: run.session.variables.auto_increment_increment.max(1),
        offset: run.session.variables.auto_increment_offset.max(1),
    };
    let mut forced =
        if rows.iter().any(wants) { run.session.variables.insert_id.take() } else { None };
    let (mut done, mut rest) = (0, rows);
    while !rest.is_empty() {
        let is_given = |row: &Row| !wants(row);
        let wanting = rest.iter().position(is_given).unwrap_or(rest.len());
        let (empty, behind) = std::mem::take(&mut rest).split_at_mut(wanting);
        if !empty.is_empty() {
            let begin = match forced {
                Some(begin) => begin,
                None => take(run, maker, empty.len() as u64, spacing).await?,
            };
            let next = number(run, maker, empty, begin, spacing)?;
            if forced.is_some() {
                raise(run, maker, next.saturating_sub(spacing.increment)).await?;
                forced = Some(next);
            }
            ids.generated.push(done..done + empty.len());
        }
        let given = behind.iter().position(wants).unwrap_or(behind.len());
        let (given, behind) = behind.split_at_mut(given);
        if let Some(largest) = largest_of(given.iter().map(|row| &row[at])) {
            raise(run, maker, largest).await?;
            let above = spacing.first_from(largest.saturating_add(1)).unwrap_or(u64::MAX);
            forced = forced.map(|next| next.max(above));
        }
        done += empty.len() + given.len();
        rest = behind;
    }
    Ok(ids)
}

/// Numbers rows from `begin` on; what the next one would get.
fn number(
    run: &mut Run<'_>,
    maker: &RowMaker,
    rows: &mut [Row],
    begin: u64,
    spacing: Spacing,
) -> Result<u64, SqlError> {
    let Some((at, column)) = maker.definition.auto_increment() else { return Ok(begin) };
    let mut next = begin;
    for row in rows {
        let value = if column.sql_type.unsigned {
            Datum::UInt(next)
        } else {
            Datum::Int(i64::try_from(next).unwrap_or(i64::MAX))
        };
        let of = SqlType::unsigned_big_int();
        row[at] = maker.store(run, at, value, &of).map_err(|_| SqlError::of::<1467>(&[]))?;
        next = next.saturating_add(spacing.increment);
    }
    Ok(next)
}

/// An UPDATE gives the AUTO_INCREMENT column this value: those generated from now on are larger.
pub(crate) async fn raise_above(
    run: &mut Run<'_>,
    maker: &RowMaker,
    value: &Datum,
) -> Result<(), SqlError> {
    match largest_of([value].into_iter()) {
        Some(value) => raise(run, maker, value).await,
        None => Ok(()),
    }
}

/// The largest of the values, if the sequence has to be above it.
fn largest_of<'v>(values: impl Iterator<Item = &'v Datum>) -> Option<u64> {
    let numbers = values.filter_map(|value| match value {
        Datum::Int(v) => u64::try_from(*v).ok(),
        Datum::UInt(v) => Some(*v),
        _ => None,
    });
    numbers.max().filter(|largest| *largest > 0)
}

/// Sees to it that values generated from now on are larger.
async fn raise(run: &mut Run<'_>, maker: &RowMaker, value: u64) -> Result<(), SqlError> {
    let kernel = run.session.kernel.clone();
    let sequences = run.session.shared.sequences.clone();
    let definition = &maker.definition;
    let start = definition.sequence_start();
    Ok(sequences.raise(&kernel, definition.table.id, value, start).await?)
}

/// Values that nobody else gets; the first of them.
pub(crate) async fn take(
    run: &mut Run<'_>,
    maker: &RowMaker,
    count: u64,
    spacing: Spacing,
) -> Result<u64, SqlError> {
    if count == 0 {
        return Ok(0);
    }
    let kernel = run.session.kernel.clone();
    let sequences = run.session.shared.sequences.clone();
    let definition = &maker.definition;
    let taken = sequences
        .take(&kernel, definition.table.id, count, spacing, definition.sequence_start())
        .await;
    taken.map_err(|failure| match failure {
        // Failed to read auto-increment value from storage engine.
        Failure::Refused(refusal) if refusal.code == ErrorCode::ValueOutOfRange => {
            SqlError::of::<1467>(&[])
        }
        other => other.into(),
    })
}
