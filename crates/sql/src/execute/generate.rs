//! AUTO_INCREMENT values of the rows of a statement.
//!
//! # Owns
//! Which rows get a value, and what the explicit ones among them do to the sequence.
//! # Not here
//! Where values come from (`sequences`).

use model::ErrorCode;
use sql_expression::{SqlError, SqlMode};
use sqltype::{Datum, SqlType};

use crate::execute::row::RowMaker;
use crate::execute::run::{Row, Run};
use crate::kernel::Failure;
use crate::sequences::Spacing;

/// Fills AUTO_INCREMENT columns; the first value generated, or zero. An explicit value moves the
/// sequence on for the rows behind it, not for those before.
pub(crate) async fn generate(
    run: &mut Run<'_>,
    maker: &RowMaker,
    rows: &mut [Row],
) -> Result<u64, SqlError> {
    let Some((at, _)) = maker.definition.auto_increment() else { return Ok(0) };
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
    let mut forced = match rows.iter().any(wants) {
        true => run.session.variables.insert_id.take(),
        false => None,
    };
    let (mut first, mut rest) = (0, rows);
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
            first = if first == 0 { begin } else { first };
        }
        let given = behind.iter().position(wants).unwrap_or(behind.len());
        let (given, behind) = behind.split_at_mut(given);
        let largest = given.iter().filter_map(|row| match row[at] {
            Datum::Int(v) => u64::try_from(v).ok(),
            Datum::UInt(v) => Some(v),
            _ => None,
        });
        if let Some(largest) = largest.max().filter(|largest| *largest > 0) {
            raise(run, maker, largest).await?;
            let above = spacing.first_from(largest.saturating_add(1)).unwrap_or(u64::MAX);
            forced = forced.map(|next| next.max(above));
        }
        rest = behind;
    }
    Ok(first)
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
        let value = match column.sql_type.unsigned {
            true => Datum::UInt(next),
            false => Datum::Int(i64::try_from(next).unwrap_or(i64::MAX)),
        };
        let of = SqlType::unsigned_big_int();
        row[at] = maker.store(run, at, value, &of).map_err(|_| SqlError::of::<1467>(&[]))?;
        next = next.saturating_add(spacing.increment);
    }
    Ok(next)
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
