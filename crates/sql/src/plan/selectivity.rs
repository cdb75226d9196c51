//! How large a share of rows conditions leave.
//!
//! # Owns
//! [`of`] and [`of_all`], by the values of columns where a sample has told how they are distributed
//! (`statistics::values`), else by the keys of their table and the kind of a condition.
//! # Guarantees
//! A share is between 0 and 1. Bounds of one column are taken together; else conditions are taken
//! for independent of each other.

use std::collections::BTreeMap;
use std::rc::Rc;

use sql_expression::{BinaryOp, Expression, Like, Node};
use sqltype::{Datum, SqlType};

use crate::catalog::TableDefinition;
use crate::catalog::key_value::{KeyValue, key_value};
use crate::statistics::values::{ColumnValues, KnownValues, key_of};

/// The share of rows whose value is between two others, if nothing is known of values.
pub(crate) const BETWEEN: f64 = 0.15;
/// Likewise, whose value is below or above another one.
const BOUNDED: f64 = 0.33;
/// Likewise, of a pattern, of NULL, and of what nothing is known of.
const LIKE: f64 = 0.1;
const NULL: f64 = 0.1;
const UNKNOWN: f64 = 0.5;
/// About how many values a column has that is compared with a value.
const DISTINCT: f64 = 20.0;
/// The same of columns that join tables.
const DISTINCT_JOINED: f64 = 10.0;
/// The least share of what lies between two bounds.
const LEAST: f64 = 1e-6;

/// What conditions are about.
pub(crate) trait Columns {
    /// The column of a stored table that an expression is.
    fn column(&self, side: &Expression) -> Option<ColumnOf>;
    /// The value of an expression that is the same for all rows, if it is known now.
    fn value(&self, expression: &Expression) -> Option<Datum>;
}

/// A column of a stored table.
pub(crate) struct ColumnOf {
    pub(crate) definition: Rc<TableDefinition>,
    /// Its position in the definition.
    pub(crate) at: usize,
    /// Rows of the table.
    pub(crate) rows: f64,
    /// How the table's values are distributed, if that is known.
    pub(crate) values: Option<Rc<KnownValues>>,
}

impl ColumnOf {
    fn known(&self) -> Option<(&KnownValues, &ColumnValues)> {
        let values = self.values.as_deref()?;
        Some((values, values.column(self.definition.columns[self.at].column)?))
    }

    /// About how many values it has.
    pub(crate) fn distinct(&self) -> Option<f64> {
        match (uniqueness(&self.definition, self.at), self.known()) {
            (Uniqueness::Alone, _) => Some(self.rows),
            // The table may have grown since.
            (_, Some((values, column))) => {
                let grown = self.rows / (values.table.rows as f64).max(1.0);
                let most =
                    if column.distinct * 2.0 > values.table.rows as f64 { grown } else { 1.0 };
                Some((column.distinct * most.max(1.0)).max(1.0).min(self.rows.max(1.0)))
            }
            (Uniqueness::First, None) => Some(self.rows / 4.0),
            (Uniqueness::Part, None) => Some(self.rows.sqrt()),
            (Uniqueness::None, None) => None,
        }
    }

    fn nulls(&self) -> Option<f64> {
        self.known().map(|(_, column)| column.nulls)
    }

    /// A value as a key of the column, if stored values compare with it as keys do.
    fn key(&self, value: &Given<'_>) -> Option<Box<[u8]>> {
        let column = &self.definition.columns[self.at];
        match key_value(&value.datum, value.sql_type, &column.sql_type) {
            KeyValue::Exact(value) => key_of(&self.definition.table, column.column, &value),
            KeyValue::NoMatch | KeyValue::Unusable => None,
        }
    }

    /// The share of rows with this value.
    fn equal_to(&self, value: &Given<'_>) -> Option<f64> {
        let (values, column) = self.known()?;
        values.equal_to(column.column, &self.key(value)?)
    }

    /// The share of rows below a value, or up to it.
    fn below(&self, value: &Given<'_>, inclusive: bool) -> Option<f64> {
        let (values, column) = self.known()?;
        values.below(column.column, &self.key(value)?, inclusive)
    }
}

/// A value that is known, and its type.
struct Given<'e> {
    datum: Datum,
    sql_type: &'e SqlType,
}

fn given<'e>(expression: &'e Expression, columns: &dyn Columns) -> Option<Given<'e>> {
    Some(Given { datum: columns.value(expression)?, sql_type: expression.sql_type() })
}

/// The share of rows that meets all of these conditions.
pub(crate) fn of_all<'e>(
    conditions: impl IntoIterator<Item = &'e Expression>,
    columns: &dyn Columns,
) -> f64 {
    let mut share = 1.0;
    // What lies between bounds, by place of a column.
    let mut between: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let mut left: Vec<&Expression> = conditions.into_iter().collect();
    while let Some(condition) = left.pop() {
        if let Node::And(parts) = &condition.node {
            left.extend(parts);
        } else if let Some((place, low, high)) = bounds(condition, columns) {
            let known = between.entry(place).or_insert((0.0, 1.0));
            *known = (known.0.max(low), known.1.min(high));
        } else {
            share *= of(condition, columns);
        }
    }
    let within = between.into_values().map(|(low, high)| (high - low).clamp(LEAST, 1.0));
    share * within.product::<f64>()
}

/// The shares of rows below a range of values and up to its end, of a condition that is about one
/// column whose values are known.
fn bounds(condition: &Expression, columns: &dyn Columns) -> Option<(u32, f64, f64)> {
    let (side, low, high) = match &condition.node {
        Node::Compare(compare) => {
            let is_column = |side: &Expression| side.as_column().is_some();
            let (side, value, op) = if is_column(&compare.left) {
                (&compare.left, &compare.right, compare.op)
            } else {
                (&compare.right, &compare.left, flipped(compare.op))
            };
            let column = columns.column(side)?;
            let value = given(value, columns)?;
            let all = 1.0 - column.nulls()?;
            let (low, high) = match op {
                BinaryOp::Less => (0.0, column.below(&value, false)?),
                BinaryOp::LessOrEqual => (0.0, column.below(&value, true)?),
                BinaryOp::Greater => (column.below(&value, true)?, all),
                BinaryOp::GreaterOrEqual => (column.below(&value, false)?, all),
                _ => return None,
            };
            (side, low, high)
        }
        Node::Between(between) if !between.negated => {
            let column = columns.column(&between.operand)?;
            let low = column.below(&given(&between.low, columns)?, false)?;
            (&between.operand, low, column.below(&given(&between.high, columns)?, true)?)
        }
        Node::Like(like) if !like.negated => {
            let (low, high) = of_prefix(like, columns)?;
            (&like.operand, low, high)
        }
        _ => return None,
    };
    Some((side.as_column()?, low, high))
}

/// The shares of rows below the texts that begin as a pattern does, and with these.
fn of_prefix(like: &Like, columns: &dyn Columns) -> Option<(f64, f64)> {
    let column = columns.column(&like.operand)?;
    let (values, of) = column.known()?;
    let definition = &column.definition.columns[column.at];
    if !definition.sql_type.kind.is_text() || definition.sql_type.collation != like.collation {
        return None;
    }
    let Datum::Bytes(pattern) = columns.value(&like.pattern)? else { return None };
    let prefix = collation::like_prefix(like.collation, &pattern, like.escape);
    if prefix.is_empty() {
        return None;
    }
    let table = &column.definition.table;
    let low = table.key_of_prefix(&[of.column], &[], &prefix)?.0;
    let mut high = low.to_vec();
    high.extend([0xFF; 8]);
    Some((values.below(of.column, &low, false)?, values.below(of.column, &high, true)?))
}

fn flipped(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

/// The share of rows that meets a condition.
pub(crate) fn of(condition: &Expression, columns: &dyn Columns) -> f64 {
    if let Some((_, low, high)) = bounds(condition, columns) {
        return (high - low).clamp(LEAST, 1.0);
    }
    match &condition.node {
        Node::And(parts) => of_all(parts, columns),
        Node::Or(parts) => parts.iter().map(|part| of(part, columns)).sum::<f64>().min(1.0),
        Node::Not(part) => 1.0 - of(part, columns),
        Node::Compare(compare) => match compare.op {
            BinaryOp::Equal | BinaryOp::NullSafeEqual => {
                of_value(&compare.left, &compare.right, columns)
            }
            BinaryOp::NotEqual => {
                let known = [&compare.left, &compare.right]
                    .into_iter()
                    .find_map(|side| columns.column(side)?.nulls());
                match known {
                    Some(nulls) => {
                        let equal = of_value(&compare.left, &compare.right, columns);
                        (1.0 - equal - nulls).clamp(0.0, 1.0)
                    }
                    None => 0.95,
                }
            }
            _ => BOUNDED,
        },
        Node::Between(between) if between.negated => {
            let known = || {
                let column = columns.column(&between.operand)?;
                let low = column.below(&given(&between.low, columns)?, false)?;
                let high = column.below(&given(&between.high, columns)?, true)?;
                Some((1.0 - column.nulls()? - (high - low)).clamp(0.0, 1.0))
            };
            known().unwrap_or(BETWEEN)
        }
        Node::Between(_) => BETWEEN,
        Node::InList(list) => {
            let listed = columns.column(&list.operand).and_then(|column| {
                let nulls = column.nulls()?;
                let one = |value: &Expression| match given(value, columns) {
                    Some(value) if value.datum.is_null() => 0.0,
                    Some(value) => column.equal_to(&value).unwrap_or(0.0),
                    None => (1.0 - nulls) / column.distinct().unwrap_or(DISTINCT).max(1.0),
                };
                let share = list.list.iter().map(|(value, _)| one(value)).sum::<f64>();
                let share = share.min(1.0 - nulls);
                Some(if list.negated { 1.0 - nulls - share } else { share })
            });
            listed.unwrap_or((list.list.len() as f64 * 0.05).min(0.5)).clamp(0.0, 1.0)
        }
        Node::Like(_) => LIKE,
        Node::IsNull(operand) => {
            columns.column(operand).and_then(|column| column.nulls()).unwrap_or(NULL)
        }
        _ => UNKNOWN,
    }
}

/// The share of rows in which two sides are equal, one of which is mostly a value.
fn of_value(left: &Expression, right: &Expression, columns: &dyn Columns) -> f64 {
    for (side, value) in [(left, right), (right, left)] {
        let Some(column) = columns.column(side) else { continue };
        if columns.column(value).is_some() {
            break;
        }
        if let Some(share) = given(value, columns).and_then(|value| column.equal_to(&value)) {
            return share;
        }
        if let (Some(nulls), Some(distinct)) = (column.nulls(), column.distinct()) {
            return (1.0 - nulls) / distinct.max(1.0);
        }
    }
    let sides = [left, right].map(|side| columns.column(side));
    let is_known = sides.iter().flatten().any(|side| side.known().is_some());
    let least = if is_known { 1.0 } else { DISTINCT };
    1.0 / sides.iter().flatten().filter_map(ColumnOf::distinct).fold(least, f64::max)
}

/// The share of pairs of rows in which two columns are equal: each value of the one that has fewer
/// is thought to be among those of the other.
pub(crate) fn of_equality(left: &Expression, right: &Expression, columns: &dyn Columns) -> f64 {
    let sides = [left, right].map(|side| columns.column(side));
    let distinct = |side: &Option<ColumnOf>| side.as_ref().and_then(ColumnOf::distinct);
    let both_known = sides.iter().all(|side| side.as_ref().is_some_and(|of| of.known().is_some()));
    let least = if both_known { 1.0 } else { DISTINCT_JOINED };
    let not_null =
        |side: &Option<ColumnOf>| 1.0 - side.as_ref().and_then(ColumnOf::nulls).unwrap_or_default();
    let present: f64 = sides.iter().map(not_null).product();
    present / sides.iter().filter_map(distinct).fold(least, f64::max)
}

/// What a column is to the unique keys of its table.
enum Uniqueness {
    /// A key by itself.
    Alone,
    /// The first of several columns of one.
    First,
    /// A later column of one.
    Part,
    None,
}

fn uniqueness(definition: &TableDefinition, column: usize) -> Uniqueness {
    let mut found = Uniqueness::None;
    for key in definition.keys.iter().filter(|key| key.is_unique()) {
        let place = key.columns.iter().position(|part| part.column == column);
        found = match (place, key.columns.len(), &found) {
            (Some(0), 1, _) => return Uniqueness::Alone,
            (Some(0), _, _) => Uniqueness::First,
            (Some(_), _, Uniqueness::None) => Uniqueness::Part,
            _ => found,
        };
    }
    found
}
