//! Rows as they are stored, in the shape of the query's block.
//!
//! # Owns
//! Where values of columns stand in the row of a block, and what they are to the session.
//! # Not here
//! Which rows are read (`scan`).

use client::ScannedRow;
use model::{Value, ValueRef};
use sql_expression::{Form, SqlError};
use sqltype::{Datum, SqlType, TimeZone, TypeKind, storage};
use vector::{Block, ScalarRef};

use super::{Found, Mixed};
use crate::access::Values;
use crate::execute::run::Run;
use crate::plan::operator::TableScan;
use crate::rows::Row;

/// What was found as rows of the block, but for those for which the conditions do not hold; blocks
/// as they are. Where there are enough rows, conditions are not checked of others: they could fail.
pub(super) async fn rows_of(
    run: &mut Run<'_>,
    found: Found<'_>,
    enough: Option<usize>,
) -> Result<Mixed, SqlError> {
    let Found { scan, rows: found, checks, blocks } = found;
    let mut rows = Vec::with_capacity(found.len());
    for values in found.iter() {
        if enough.is_some_and(|enough| rows.len() >= enough) {
            break;
        }
        let mut row = null_row(scan.width + usize::from(scan.hidden.is_some()));
        fill_scanned(scan, values, &mut row, run);
        if !checks {
            rows.push(row);
            continue;
        }
        if run.all_hold(&scan.conditions, &row).await? {
            rows.push(row);
        }
        run.worked_a_row().await?;
    }
    run.worked(if checks { 0 } else { rows.len() }).await?;
    Ok((rows, blocks))
}

/// A row without anything in it.
fn null_row(width: usize) -> Row {
    let mut row = Vec::with_capacity(width);
    row.resize_with(width, || Datum::Null);
    row
}

/// The rows of a block of the columns that a scan wants, in the shape of the query's block; those
/// for which the conditions hold, if they are to be checked.
pub(super) async fn rows_of_block(
    run: &mut Run<'_>,
    scan: &TableScan,
    block: &Block,
    checks: bool,
    rows: &mut Vec<Row>,
) -> Result<(), SqlError> {
    rows.reserve(block.rows());
    for at in 0..block.rows() {
        let mut row = null_row(scan.width);
        for (column, vector) in scan.wanted.iter().zip(block.columns()) {
            let sql_type = &scan.definition.columns[*column].sql_type;
            row[scan.offset + column] = given_datum(vector.get(at), sql_type, run);
        }
        if !checks {
            rows.push(row);
            continue;
        }
        if run.all_hold(&scan.conditions, &row).await? {
            rows.push(row);
        }
        run.worked_a_row().await?;
    }
    run.worked(if checks { 0 } else { block.rows() }).await
}

/// The value of a column that a program gives as it is stored.
pub(crate) fn given_datum(value: ScalarRef<'_>, sql_type: &SqlType, run: &Run<'_>) -> Datum {
    if let Some(datum) = sql_expression::datum_of(value, Form::of(sql_type)) {
        return datum;
    }
    // What only its column can tell is no decimal.
    datum_of(value.stored(0), sql_type, run)
}

/// Puts fetched values where their columns stand in the row.
pub(crate) fn fill(scan: &TableScan, values: Values, row: &mut [Datum], run: &Run<'_>) {
    let mut values = values.into_iter();
    for (at, value) in scan.wanted.iter().zip(values.by_ref()) {
        let sql_type = &scan.definition.columns[*at].sql_type;
        row[scan.offset + at] = datum_of(value, sql_type, run);
    }
    if let (Some(place), Some(Value::UInt(key))) = (scan.hidden, values.next()) {
        row[place] = Datum::UInt(key);
    }
}

/// As [`fill`], of a row in the buffer it came in.
pub(crate) fn fill_scanned(
    scan: &TableScan,
    values: ScannedRow<'_>,
    row: &mut [Datum],
    run: &Run<'_>,
) {
    for (from, at) in scan.wanted.iter().enumerate() {
        let sql_type = &scan.definition.columns[*at].sql_type;
        row[scan.offset + at] = datum_of_ref(values.get(from), sql_type, run);
    }
    if let Some(place) = scan.hidden
        && values.width() > scan.wanted.len()
        && let ValueRef::UInt(key) = values.get(scan.wanted.len())
    {
        row[place] = Datum::UInt(key);
    }
}

/// A stored value as the session sees it: timestamps in its time zone.
pub(crate) fn datum_of(value: Value, sql_type: &SqlType, run: &Run<'_>) -> Datum {
    local_datum(value, sql_type, &run.context.facts.time_zone)
}

/// As [`datum_of`], for who knows the session's time zone and has no execution.
pub(crate) fn local_datum(value: Value, sql_type: &SqlType, time_zone: &TimeZone) -> Datum {
    local_time(value.as_ref(), sql_type, time_zone)
        .unwrap_or_else(|| storage::from_owned(value, sql_type))
}

/// As [`datum_of`], of a value that lies in a row.
pub(crate) fn datum_of_ref(value: ValueRef<'_>, sql_type: &SqlType, run: &Run<'_>) -> Datum {
    let time_zone = &run.context.facts.time_zone;
    local_time(value, sql_type, time_zone).unwrap_or_else(|| storage::from_value(value, sql_type))
}

/// A TIMESTAMP that is a moment, in the session's time zone.
fn local_time(value: ValueRef<'_>, sql_type: &SqlType, time_zone: &TimeZone) -> Option<Datum> {
    let ValueRef::UInt(micros @ 1..) = value else { return None };
    if sql_type.kind != TypeKind::Timestamp {
        return None;
    }
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    Some(Datum::DateTime(time_zone.local(micros)))
}
