//! Whether the tables here are those of the source: counts of rows, and sums of checksums of them.
//!
//! # Guarantees
//! Both sides compute the same expression. FLOAT and DOUBLE are left out of it, as servers show
//! them in different digits. A large table is asked for by ranges of its key, so that no statement
//! takes long.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mysql_client::{QueryError, Session};

use super::copy::cut;
use super::follow::{status, whole};
use super::schema::Object;
use super::source::{Facts, cell, list};
use super::{Migration, schema};
use crate::transfer::column::{Column, Kind, Precision, Table, name, text};
use crate::transfer::shown;

/// Compares all tables; a line that tells how many.
///
/// # Errors
/// The tables that differ.
pub(super) fn run(migration: &Migration, facts: &Facts) -> Result<String, String> {
    let (mut source, _) = migration.connect_source()?;
    let mut target = migration.connect_target()?;
    let (definitions, refusals) = schema::read(migration, facts, &mut source)?;
    let left_out = status(migration, &mut target)
        .map_err(|why| shown(&why))?
        .map(|status| status.left_out())
        .unwrap_or_default();
    let tables: Vec<&Object> =
        definitions.tables.iter().filter(|table| !left_out.contains(&table.full())).collect();
    // What cannot be read cannot be called alike.
    let is_taken = |refusal: &String| !left_out.iter().any(|full| is_of(refusal, full));
    let unread: Vec<String> = refusals.into_iter().filter(is_taken).collect();
    let all = tables.len() + unread.len();
    let next = AtomicUsize::new(0);
    let (rows, differences) = (Mutex::new(0), Mutex::new(unread));
    let held = |why: String| differences.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    thread::scope(|scope| {
        for _ in 0..migration.jobs.min(tables.len()) {
            scope.spawn(|| {
                let opened = migration
                    .connect_source()
                    .and_then(|(source, _)| Ok((source, migration.connect_target()?)));
                let (mut source, mut target) = match opened {
                    Ok(opened) => opened,
                    Err(why) => return held(why),
                };
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(table) = tables.get(at) else { return };
                    match compare(migration, table, &mut source, &mut target) {
                        Ok(count) => *rows.lock().unwrap_or_else(PoisonError::into_inner) += count,
                        Err(why) => held(format!("{}: {why}", table.full())),
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap_or_else(PoisonError::into_inner);
    let rows: u64 = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    if differences.is_empty() {
        return Ok(format!("{} tables with {rows} rows are alike", tables.len()));
    }
    Err(format!(
        "{} of {} tables differ, or cannot be compared (writes that are under way differ too):\n  \
         {}",
        differences.len(),
        all,
        differences.join("\n  ")
    ))
}

/// Whether a refusal is of the table or view of this name.
fn is_of(refusal: &str, full: &str) -> bool {
    refusal.strip_prefix(full).is_some_and(|rest| rest.starts_with(':'))
}

/// Compares a table; its rows.
fn compare(
    migration: &Migration,
    object: &Object,
    source: &mut Session,
    target: &mut Session,
) -> Result<u64, String> {
    let table = Table::describe_of(target, &object.database, &object.name)?;
    let at_source = |why: QueryError| migration.at_source(&why);
    let pieces = cut(&table, source, object.estimate).map_err(at_source)?;
    let (mut there, mut here, mut is_alike) = (0, 0, true);
    for condition in pieces {
        let statement = statement(&table, condition.as_deref());
        let ask = |session: &mut Session| -> Result<(u64, String), QueryError> {
            let rows = session.query(&statement)?;
            let row = rows.first().map(Vec::as_slice).unwrap_or_default();
            Ok((whole(row, 0).unwrap_or_default(), cell(row, 1)))
        };
        let of_source = ask(source).map_err(at_source)?;
        let of_target = ask(target).map_err(|why| shown(&why))?;
        there += of_source.0;
        here += of_target.0;
        is_alike &= of_source == of_target;
    }
    if there != here {
        return Err(format!("{there} rows there and {here} here"));
    }
    if !is_alike {
        return Err(format!("{there} rows on both sides, with other values"));
    }
    Ok(here)
}

/// The statement that both sides are asked, of a table or of a range of its keys.
fn statement(table: &Table, condition: Option<&str>) -> String {
    let values: Vec<String> = table.columns.iter().filter_map(value).collect();
    let sum = if values.is_empty() {
        "0".to_owned()
    } else {
        format!("COALESCE(SUM(CRC32(CONCAT_WS(',', {}))), 0)", values.join(", "))
    };
    let condition = condition.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    format!("SELECT COUNT(*), {sum} FROM {}{condition}", table.quoted())
}

/// What a column has in the sum: a text of ASCII, so that collations of columns do not meet.
fn value(column: &Column) -> Option<String> {
    let name = name(&column.name);
    let value = match column.kind {
        Kind::Bytes => format!("MD5({name})"),
        Kind::Text | Kind::Json => format!("MD5(CONVERT({name} USING utf8mb4))"),
        Kind::Bits => format!("{name} + 0"),
        Kind::Number if column.precision != Precision::Exact => return None,
        Kind::Number => name,
    };
    Some(format!("IFNULL({value}, 'N')"))
}

/// Raises counters of AUTO_INCREMENT here to those of the source, where rows were made and deleted
/// there.
pub(super) fn raise_counters(
    migration: &Migration,
    source: &mut Session,
    target: &mut Session,
) -> Result<(), String> {
    let rows = source
        .query(&format!(
            "SELECT table_schema, table_name, auto_increment FROM information_schema.tables WHERE \
             auto_increment > 1 AND table_schema IN ({})",
            list(&migration.address.databases)
        ))
        .map_err(|why| migration.at_source(&why))?;
    for row in rows {
        let (database, table) = (cell(&row, 0), cell(&row, 1));
        let Some(next) = whole(&row, 2) else { continue };
        let there = target
            .query(&format!(
                "SELECT auto_increment FROM information_schema.tables WHERE table_schema = {} AND \
                 table_name = {}",
                text(&database),
                text(&table)
            ))
            .map_err(|why| shown(&why))?;
        // A table that is left out is not there.
        let Some(there) = there.first() else { continue };
        if whole(there, 0).unwrap_or(1) < next {
            let full = format!("{}.{}", name(&database), name(&table));
            target
                .query(&format!("ALTER TABLE {full} AUTO_INCREMENT = {next}"))
                .map_err(|why| format!("{database}.{table}: {}", shown(&why)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_of_just_one_table() {
        let refusal = "d.t: engine MyISAM has no snapshots";
        assert!(is_of(refusal, "d.t"));
        assert!(!is_of(refusal, "d.") && !is_of(refusal, "") && !is_of("d.t2: x", "d.t"));
    }
}
