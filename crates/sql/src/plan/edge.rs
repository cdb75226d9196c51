//! MIN and MAX without groups, where an index has them at its edge.
//!
//! # Owns
//! Which aggregates are the first row of a scan in the order of an index, and that scan.
//! # Guarantees
//! The scan gives the row that has the value first, whatever its conditions come to: they are
//! checked on every row it passes. Only where the index answers all of them, by `=` in its first
//! columns and by bounds of the column itself, is one entry of each partition enough.
//! # Not here
//! What conditions say about columns (`path`).

use sql_expression::AggregateCall;
use sql_parser::ast::AggregateFunction;
use sqltype::{Datum, SqlType, TypeKind};

use crate::logical::formula::{Bounds, Formula};
use crate::logical::from_table::{FromTable, Source};
use crate::plan::operator::{Edge, Operator, TableScan};
use crate::plan::operator_id::IdSlot;
use crate::plan::path::{self, Target};

/// The scans that give all of these aggregates of one table; none if one of them is no MIN or MAX
/// that an index has.
pub(crate) fn edges(
    tables: &[FromTable],
    root: &Operator,
    aggregates: &[AggregateCall],
) -> Option<Vec<Edge>> {
    let ([table], Operator::Scan(scan)) = (tables, root) else { return None };
    aggregates.iter().map(|call| edge(table, scan, call)).collect()
}

fn edge(table: &FromTable, scan: &TableScan, call: &AggregateCall) -> Option<Edge> {
    let order = match call.function {
        AggregateFunction::Min => wire::ScanOrder::Ascending,
        AggregateFunction::Max => wire::ScanOrder::Descending,
        _ => return None,
    };
    let Source::Table(definition) = &table.source else { return None };
    let place = call.values.first()?.as_column()? as usize;
    let column = place.checked_sub(table.offset)?;
    // A lock is for every row that is looked at.
    if scan.lock.is_some() || !sorts_as_it_compares(&definition.columns.get(column)?.sql_type) {
        return None;
    }
    let target = Target {
        definition,
        offset: table.offset as u32,
        is_available: &|_| false,
        allows: &|name| table.allows(name),
        values: None,
    };
    let path = path::edge(&target, &scan.conditions, column)?;
    let one = Formula::new(sql_expression::Expression::constant(
        Datum::Int(1),
        sql_expression::ResultType::of(SqlType::big_int(), false),
    ));
    let scan = TableScan {
        slot: IdSlot::default(),
        definition: definition.clone(),
        alias: scan.alias.clone(),
        offset: scan.offset,
        width: scan.width,
        wanted: scan.wanted.clone(),
        path,
        distribution: scan.distribution.clone(),
        conditions: scan.conditions.clone(),
        lock: None,
        limit: Some(Bounds { count: Some(one), offset: None }),
        ordered: Some(order),
        covered: true,
        found: 1.0,
        usable: 0,
        allowed: 0,
        hidden: None,
    };
    Some(Edge { scan, place })
}

/// Whether MIN compares values as an index sorts them. ENUM and SET sort by number, and MIN
/// compares their texts.
fn sorts_as_it_compares(sql_type: &SqlType) -> bool {
    !matches!(sql_type.kind, TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json | TypeKind::Bit)
}
