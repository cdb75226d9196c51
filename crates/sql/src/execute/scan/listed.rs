//! Rows that are changed and have a value that a subquery lists: found by an index.
//!
//! `DELETE FROM t WHERE id IN (SELECT …)` would read and lock all of `t`. Where the subquery costs
//! less than that and has few rows, the rows with its values are all that are read.
//!
//! # Guarantees
//! What is found has every row for which the conditions are true; these are checked as ever.

use client::{IndexBound, ScanRange};
use model::{IndexId, Value};
use sql_expression::{
    BinaryOp, Comparison, Expression, Node, RowQuantifier, SqlError, SubqueryKind, SubqueryUse,
};
use sqltype::TypeKind;

use super::{Located, distinct_keys, merged_ranges};
use crate::catalog::key_value::{KeyValue, key_value};
use crate::execute::run::{ENDS, Run, alone};
use crate::plan::cost::LOCKED_ROW;
use crate::plan::estimate::Estimates;
use crate::plan::operator::{AccessPath, TableScan};

/// Most values that are looked up by primary key, and by another index.
const KEYS_MAX: usize = 4_096;
const RANGES_MAX: usize = 512;

/// A condition that lists the values of a column.
pub(crate) struct Listed<'p> {
    subquery: &'p SubqueryUse,
    /// The column's position in the definition.
    column: usize,
    index: Index,
}

/// What finds the rows with a value.
#[derive(Clone, Copy)]
enum Index {
    Primary,
    Ordered(IndexId),
}

impl<'p> Listed<'p> {
    /// What is listed of the rows of a scan; nothing unless it locks them and would read all.
    pub(crate) fn of(scan: &'p TableScan) -> Option<Self> {
        if scan.lock.is_none() || !matches!(scan.path, AccessPath::Full) || scan.ordered.is_some() {
            return None;
        }
        scan.conditions.iter().find_map(|condition| Self::by(scan, &condition.expression))
    }

    fn by(scan: &TableScan, condition: &'p Expression) -> Option<Self> {
        let Node::Subquery(subquery) = &condition.node else { return None };
        let SubqueryKind::Quantified {
            operand,
            op: BinaryOp::Equal,
            comparisons,
            quantifier: RowQuantifier::Any,
            negated: false,
            ..
        } = &subquery.kind
        else {
            return None;
        };
        let column = (operand.as_column()? as usize).checked_sub(scan.offset)?;
        let definition = &scan.definition;
        let of = definition.columns.get(column)?;
        let kind = &of.sql_type.kind;
        let as_stored = match comparisons.first()? {
            Comparison::Int => kind.is_integer(),
            Comparison::Decimal => kind.is_integer() || *kind == TypeKind::Decimal,
            Comparison::Text(id) => kind.is_text() && of.sql_type.collation == *id,
            Comparison::DateTime => matches!(kind, TypeKind::Date | TypeKind::DateTime),
            Comparison::Double | Comparison::Time | Comparison::Json => false,
        };
        if subquery.correlated || !as_stored {
            return None;
        }
        let index = if definition.table.primary_key == [of.column] {
            Index::Primary
        } else {
            let mut keys = definition.keys.iter().filter(|key| !key.invisible);
            let begins = |part: Option<usize>| part == Some(column);
            Index::Ordered(keys.find_map(|key| {
                let first = key.columns.first().map(|part| part.column);
                key.ordered.filter(|_| begins(first))
            })?)
        };
        Some(Self { subquery, column, index })
    }

    /// The name of the index, for EXPLAIN.
    pub(crate) fn index_name(&self, scan: &TableScan) -> String {
        let named = scan.definition.keys.iter().find(|key| match self.index {
            Index::Primary => key.columns.len() == 1 && key.columns[0].column == self.column,
            Index::Ordered(index) => key.ordered == Some(index),
        });
        named.map_or_else(|| "PRIMARY".to_owned(), |key| key.name.clone())
    }
}

/// The keys or ranges with the values of a subquery, which is run for them; nothing if all rows are
/// to be read.
pub(super) async fn locate(
    run: &mut Run<'_>,
    scan: &TableScan,
) -> Result<Option<Located>, SqlError> {
    let Some(Listed { subquery, column, index }) = Listed::of(scan) else { return Ok(None) };
    let Some(subplan) = run.subplan(subquery.id) else { return Ok(None) };
    let estimates = Estimates::new(run.session);
    if estimates.of(&subplan.plan.root).cost > run.rows_of_table(scan) as f64 * LOCKED_ROW {
        return Ok(None);
    }
    match run.prepare(&alone(subquery), &[]).await {
        // It is an error only if there are rows.
        Err(error) if !ENDS.contains(&error.code()) => return Ok(None),
        prepared => prepared?,
    }
    let listed = run.context.subquery(subquery.id)?;
    let most = match index {
        Index::Primary => KEYS_MAX,
        Index::Ordered(_) => RANGES_MAX,
    };
    if listed.rows().len() > most {
        return Ok(None);
    }
    let sql_type = &scan.definition.columns[column].sql_type;
    let SubqueryKind::Quantified { columns, .. } = &subquery.kind else { return Ok(None) };
    let from = &columns[0].sql_type;
    let mut values: Vec<Value> = Vec::with_capacity(listed.rows().len());
    for datum in listed.rows().iter().filter_map(|row| row.first()).filter(|d| !d.is_null()) {
        match key_value(datum, from, sql_type) {
            KeyValue::Exact(value) => values.push(value),
            KeyValue::NoMatch => {}
            KeyValue::Unusable => return Ok(None),
        }
    }
    if values.is_empty() {
        return Ok(Some(Located::Nothing));
    }
    let keys = values.into_iter().map(|value| vec![value]);
    Ok(Some(match index {
        Index::Primary => Located::Keys(distinct_keys(run, scan, keys.collect())),
        Index::Ordered(index) => {
            let bound =
                |key: Vec<Value>| (IndexBound::including(key.clone()), IndexBound::including(key));
            let ranges = merged_ranges(scan, &[column], keys.map(bound).collect());
            let range = |(lower, upper)| ScanRange::Index {
                index,
                lower: Some(lower),
                upper: Some(upper),
                order: None,
            };
            Located::Ranges { ranges: ranges.into_iter().map(range).collect(), exact: false }
        }
    }))
}
