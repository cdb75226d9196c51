//! How the rows of a table are found: by key, by ranges of an index, or all of them.
//!
//! # Owns
//! Which conditions can be answered by an index, and which index answers them best.
//! # Guarantees
//! A path finds every row for which the conditions are true; rows beyond those are dropped when the
//! conditions are checked. So a path need not be exact, only a superset.
//! # Not here
//! Values: the same path serves every execution (`execute::scan`).

mod distribution;

use std::rc::Rc;

use sql_expression::{Between, BinaryOp, Comparison, Expression, InList, Node, Volatility};
use sqltype::{Datum, TypeKind};

use crate::catalog::{KeyDefinition, KeyKind, TableDefinition};
use crate::logical::formula::Formula;
use crate::plan::cost::ROWS_UNKNOWN;
use crate::plan::operator::{AccessPath, EqualTo, IndexRange, Pattern};
use crate::plan::selectivity::BETWEEN;
use crate::statistics::values::KnownValues;

pub(crate) use distribution::distribution;

/// A path with its price: about how many rows it reads.
#[derive(Debug)]
pub(crate) struct Priced {
    pub(crate) path: AccessPath,
    pub(crate) rows: f64,
    /// The conditions say what the path says and nothing more.
    pub(crate) covered: bool,
    /// The keys of the definition that the conditions could use, a bit for each of the first 64.
    pub(crate) usable: u64,
    /// Those that the statement allows.
    pub(crate) allowed: u64,
}

impl Priced {
    fn new(path: AccessPath, rows: f64) -> Self {
        Self { path, rows, covered: false, usable: 0, allowed: 0 }
    }
}

/// Most keys or ranges of one path.
const RANGES_MAX: usize = 4_096;

impl Priced {
    /// All rows of something that is no stored table.
    pub(super) fn whole(rows: f64) -> Self {
        Self::new(AccessPath::Full, rows)
    }
}

/// What a condition says about one column of the table.
#[derive(Clone, Debug)]
enum Fact {
    /// `=`.
    Equal(Expression),
    /// `<=>`, and IS NULL as `<=> NULL`.
    NullSafe(Expression),
    OneOf(Vec<Expression>),
    Between(Vec<IndexRange>),
    Low(Expression, bool),
    High(Expression, bool),
    Like(Pattern),
}

impl Fact {
    /// What the column is equal to, if the fact says so.
    fn equal_to(&self) -> Option<EqualTo> {
        match self {
            Self::Equal(value) => Some(EqualTo { value: value.clone(), null_safe: false }),
            Self::NullSafe(value) => Some(EqualTo { value: value.clone(), null_safe: true }),
            _ => None,
        }
    }
}

/// A table of a block, as far as paths depend on it.
pub(crate) struct Target<'a> {
    pub(crate) definition: &'a Rc<TableDefinition>,
    /// Where its first column stands in the row.
    pub(crate) offset: u32,
    /// Places of the row that have values when this table is read.
    pub(crate) is_available: &'a dyn Fn(u32) -> bool,
    /// Indexes the statement forbids, or the only ones it allows.
    pub(crate) allows: &'a dyn Fn(&str) -> bool,
    /// How its values are distributed, if that is known.
    pub(crate) values: Option<&'a KnownValues>,
}

/// The best path for rows that meet `conditions`.
pub(crate) fn choose(target: &Target<'_>, conditions: &[Expression]) -> Priced {
    let mut facts: Vec<(usize, Fact)> = Vec::new();
    let mut as_stored = true;
    for condition in conditions {
        let of_condition = facts_of(target, condition);
        as_stored &= compares_as_stored(target, condition, &of_condition);
        facts.extend(of_condition);
    }
    let mut best = Priced::new(AccessPath::Full, ROWS_UNKNOWN);
    let (mut usable, mut allowed) = (0, 0);
    for (at, key) in target.definition.keys.iter().enumerate() {
        if key.invisible || !(target.allows)(&key.name) {
            continue;
        }
        let bit = 1_u64.checked_shl(at as u32).unwrap_or(0);
        allowed |= bit;
        for priced in
            [point(target, key, &facts), ranges(target, key, &facts)].into_iter().flatten()
        {
            usable |= bit;
            if price(&priced) < price(&best) {
                best = priced;
            }
        }
    }
    (best.usable, best.allowed) = (usable, allowed);
    best.covered = as_stored
        && match &best.path {
            AccessPath::Ranges { columns, ranges, .. } if ranges.len() == 1 => {
                covers(columns, &ranges[0], &facts)
            }
            _ => false,
        };
    best
}

/// What paths are compared by. A range of an index is opened in partitions, whatever it is thought
/// to find: one row by key is better.
fn price(priced: &Priced) -> f64 {
    match priced.path {
        AccessPath::Ranges { .. } if priced.rows < 2.0 => 1.5 + priced.rows / 4.0,
        _ => priced.rows,
    }
}

/// Whether a condition compares one column, and in the order that an index of it has: what is
/// between two keys is then what compares so, without any doubt. `facts` are all it says.
fn compares_as_stored(
    target: &Target<'_>,
    condition: &Expression,
    facts: &[(usize, Fact)],
) -> bool {
    let [(column, _), ..] = facts else { return false };
    let kind = &target.definition.columns[*column].sql_type.kind;
    let like_index = |comparison: &Comparison| match comparison {
        Comparison::Int => true,
        Comparison::Decimal => kind.is_integer() || *kind == TypeKind::Decimal,
        // The facts are of a column with this collation.
        Comparison::Text(_) => kind.is_text(),
        Comparison::DateTime => matches!(kind, TypeKind::Date | TypeKind::DateTime),
        // Two zeros are equal and have two keys.
        Comparison::Double | Comparison::Time | Comparison::Json => false,
    };
    match &condition.node {
        Node::Compare(compare) => facts.len() == 1 && like_index(&compare.comparison),
        Node::Between(between) => between.comparisons.iter().all(like_index),
        _ => false,
    }
}

/// Whether the facts are those of the range, each once. Every condition has given one or two.
fn covers(columns: &[usize], range: &IndexRange, facts: &[(usize, Fact)]) -> bool {
    let bounds = usize::from(range.low.is_some()) + usize::from(range.high.is_some());
    let fixed = range.equal.len();
    let place = |column: &usize| columns.iter().position(|part| part == column);
    facts.len() == fixed + bounds
        && facts.iter().all(|(column, fact)| match (place(column), fact) {
            (Some(at), Fact::Equal(_)) => at < fixed,
            (Some(at), Fact::Low(..) | Fact::High(..)) => at == fixed,
            _ => false,
        })
}

/// The range of an index that has the least and the greatest value of a column at its ends, among
/// the rows that meet the conditions; none unless such an index answers every condition.
pub(crate) fn edge(
    target: &Target<'_>,
    conditions: &[Formula],
    column: usize,
) -> Option<AccessPath> {
    let mut facts: Vec<(usize, Fact)> = Vec::new();
    for Formula { expression, .. } in conditions {
        let plain =
            matches!(expression.node, Node::Compare(_) | Node::Between(_) | Node::IsNull(_));
        let of_condition = facts_of(target, expression);
        if !plain || of_condition.is_empty() {
            return None;
        }
        facts.extend(of_condition);
    }
    let usable = |key: &&KeyDefinition| !key.invisible && (target.allows)(&key.name);
    target.definition.keys.iter().filter(usable).find_map(|key| {
        let columns: Vec<usize> = key.columns.iter().map(|part| part.column).collect();
        let place = columns.iter().position(|part| *part == column)?;
        let mut range = IndexRange { not_null: true, ..IndexRange::default() };
        for part in &columns[..place] {
            let mut of_part = facts.iter().filter(|(of, _)| of == part);
            range.equal.push(of_part.next()?.1.equal_to()?);
        }
        for (of, fact) in &facts {
            match fact {
                Fact::Low(value, inclusive) if *of == column && range.low.is_none() => {
                    range.low = Some((value.clone(), *inclusive));
                }
                Fact::High(value, inclusive) if *of == column && range.high.is_none() => {
                    range.high = Some((value.clone(), *inclusive));
                }
                Fact::Equal(_) | Fact::NullSafe(_) if columns[..place].contains(of) => {}
                _ => return None,
            }
        }
        // Two conditions on one column: the range has the first only.
        if facts.iter().filter(|(of, _)| *of != column).count() > place {
            return None;
        }
        let (index, name) = (key.ordered?, key.name.clone());
        Some(AccessPath::Ranges { index, name, columns, ranges: vec![range] })
    })
}

/// All parts of a unique key are known.
fn point(target: &Target<'_>, key: &KeyDefinition, facts: &[(usize, Fact)]) -> Option<Priced> {
    if !key.is_unique() || key.has_prefix() {
        return None;
    }
    let mut keys: Vec<Vec<Expression>> = vec![Vec::new()];
    for part in &key.columns {
        let of_part = facts.iter().filter(|(column, _)| *column == part.column);
        let values: Vec<Expression> = of_part
            .filter_map(|(_, fact)| match fact {
                Fact::Equal(value) => Some(vec![value.clone()]),
                // A unique key has no NULLs.
                Fact::NullSafe(value) if !target.definition.columns[part.column].nullable => {
                    Some(vec![value.clone()])
                }
                Fact::OneOf(values) => Some(values.clone()),
                _ => None,
            })
            .min_by_key(Vec::len)?;
        if keys.len() * values.len() > RANGES_MAX {
            return None;
        }
        keys = keys
            .into_iter()
            .flat_map(|key| {
                values.iter().map(move |value| {
                    let mut key = key.clone();
                    key.push(value.clone());
                    key
                })
            })
            .collect();
    }
    let rows = keys.len() as f64;
    match (key.kind, key.unique) {
        (KeyKind::Primary, _) => {
            let keys = in_kernel_order(target, key, keys)?;
            Some(Priced::new(AccessPath::Primary { keys }, rows))
        }
        (_, Some(index)) => {
            let name = key.name.clone();
            let path = AccessPath::Unique { index, name, keys };
            Some(Priced::new(path, rows * 1.5))
        }
        _ => None,
    }
}

/// The kernel's primary key has its own order of columns.
fn in_kernel_order(
    target: &Target<'_>,
    key: &KeyDefinition,
    keys: Vec<Vec<Expression>>,
) -> Option<Vec<Vec<Expression>>> {
    let definition = target.definition;
    let place = |column: &model::ColumnId| {
        key.columns.iter().position(|part| definition.columns[part.column].column == *column)
    };
    let order: Option<Vec<usize>> = definition.table.primary_key.iter().map(place).collect();
    let order = order?;
    Some(keys.into_iter().map(|key| order.iter().map(|at| key[*at].clone()).collect()).collect())
}

/// Ranges of an ordered index: equal in the first columns, then one column in ranges.
fn ranges(target: &Target<'_>, key: &KeyDefinition, facts: &[(usize, Fact)]) -> Option<Priced> {
    let index = key.ordered?;
    let columns: Vec<usize> = key.columns.iter().map(|part| part.column).collect();
    let mut built = vec![IndexRange::default()];
    let (mut before, mut fixed, mut rows) = (ROWS_UNKNOWN, Vec::new(), ROWS_UNKNOWN);
    for part in &key.columns {
        // What is said of a column holds for the beginning of its sort key.
        let of_part = |at: usize| at == part.column || at == part.declared;
        let here: Vec<&Fact> =
            facts.iter().filter(|(at, _)| of_part(*at)).map(|(_, fact)| fact).collect();
        if let Some(equal) = here.iter().find_map(|fact| fact.equal_to()) {
            built.iter_mut().for_each(|range| range.equal.push(equal.clone()));
            fixed.push(part.declared);
            rows = before * share_of_key(target, &fixed);
            continue;
        }
        let listed = here.iter().find_map(|fact| match fact {
            Fact::OneOf(values) => Some(values),
            _ => None,
        });
        if let Some(values) = listed
            && built.len() * values.len() <= RANGES_MAX
        {
            built = built
                .into_iter()
                .flat_map(|range| {
                    values.iter().map(move |value| {
                        let mut range = range.clone();
                        range.equal.push(EqualTo { value: value.clone(), null_safe: false });
                        range
                    })
                })
                .collect();
            before *= values.len() as f64;
            fixed.push(part.declared);
            rows = before * share_of_key(target, &fixed);
            continue;
        }
        if let Some(priced) = bounded(&mut built, &here) {
            rows *= priced;
        }
        break;
    }
    if rows >= ROWS_UNKNOWN {
        return None;
    }
    let name = key.name.clone();
    let path = AccessPath::Ranges { index, name, columns, ranges: built };
    Some(Priced::new(path, rows))
}

/// The share of rows that have one value in each of these columns of a key.
fn share_of_key(target: &Target<'_>, fixed: &[usize]) -> f64 {
    let definition = target.definition;
    let columns: Vec<_> = fixed.iter().map(|at| definition.columns[*at].column).collect();
    let known = target.values.and_then(|values| values.table.distinct(&columns));
    match known {
        Some(distinct) => 1.0 / distinct.max(1.0),
        // Nothing is known: each column leaves one row of a hundred.
        None => 100_f64.powi(-(fixed.len() as i32)),
    }
}

/// Bounds of the column behind the equal ones; how much they leave.
fn bounded(built: &mut Vec<IndexRange>, here: &[&Fact]) -> Option<f64> {
    let several = here.iter().find_map(|fact| match fact {
        Fact::Between(ranges) => Some(ranges),
        _ => None,
    });
    if let Some(ranges) = several
        && built.len() * ranges.len() <= RANGES_MAX
    {
        let combined = built.iter().flat_map(|outer| {
            ranges.iter().map(|inner| {
                let mut range = outer.clone();
                range.equal.extend(inner.equal.iter().cloned());
                (range.low, range.high) = (inner.low.clone(), inner.high.clone());
                range.like = inner.like.clone();
                range
            })
        });
        *built = combined.collect();
        return Some(0.05);
    }
    let like = here.iter().find_map(|fact| match fact {
        Fact::Like(pattern) => Some(pattern),
        _ => None,
    });
    if let Some(pattern) = like {
        built.iter_mut().for_each(|range| range.like = Some(pattern.clone()));
        return Some(0.1);
    }
    for fact in here {
        for range in built.iter_mut() {
            match fact {
                Fact::Low(value, inclusive) if range.low.is_none() => {
                    range.low = Some((value.clone(), *inclusive));
                }
                Fact::High(value, inclusive) if range.high.is_none() => {
                    range.high = Some((value.clone(), *inclusive));
                }
                _ => {}
            }
        }
    }
    let first = built.first()?;
    match (&first.low, &first.high) {
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => Some(0.25),
        // As if it were one condition, BETWEEN.
        (Some(_), Some(_)) => Some(BETWEEN),
    }
}

/// What a condition says about columns of the table.
fn facts_of(target: &Target<'_>, condition: &Expression) -> Vec<(usize, Fact)> {
    match &condition.node {
        Node::Compare(compare) => {
            let mut facts = Vec::new();
            let flipped = flip(compare.op);
            let sides = [
                (&compare.left, &compare.right, Some(compare.op)),
                (&compare.right, &compare.left, flipped),
            ];
            for (column, value, op) in sides {
                let comparison = compare.comparison;
                let Some(at) = column_of(target, column, comparison) else { continue };
                let exact = comparison.sees_more_digits(column, value);
                let is_bound = !matches!(op, Some(BinaryOp::Equal | BinaryOp::NullSafeEqual));
                let fits = !is_bound || is_in_order(target, at, comparison);
                if exact || !fits || !is_usable(target, value) {
                    continue;
                }
                let value = value.clone();
                let fact = match op {
                    Some(BinaryOp::Equal) => Fact::Equal(value),
                    Some(BinaryOp::NullSafeEqual) => Fact::NullSafe(value),
                    Some(BinaryOp::Less) => Fact::High(value, false),
                    Some(BinaryOp::LessOrEqual) => Fact::High(value, true),
                    Some(BinaryOp::Greater) => Fact::Low(value, false),
                    Some(BinaryOp::GreaterOrEqual) => Fact::Low(value, true),
                    _ => continue,
                };
                facts.push((at, fact));
            }
            facts
        }
        Node::Between(between) if !between.negated => {
            let [low, high] = &between.comparisons;
            // They are compared with more digits than their types have.
            if between.low.holds_quotient() || between.high.holds_quotient() {
                return Vec::new();
            }
            let operand = &between.operand;
            let (at, other) = (column_of(target, operand, *low), column_of(target, operand, *high));
            let in_order =
                |at: &usize| is_in_order(target, *at, *low) && is_in_order(target, *at, *high);
            let sees_all = !merges_numbers(between);
            match at.filter(|at| other.is_some() && in_order(at) && sees_all) {
                Some(at) if is_usable(target, &between.low) && is_usable(target, &between.high) => {
                    vec![
                        (at, Fact::Low(between.low.clone(), true)),
                        (at, Fact::High(between.high.clone(), true)),
                    ]
                }
                _ => Vec::new(),
            }
        }
        Node::InList(list) if !list.negated => list_fact(target, list).into_iter().collect(),
        Node::IsNull(operand) => {
            let definition = target.definition;
            let place = operand.as_column().and_then(|place| place.checked_sub(target.offset));
            let place = place.map(|place| place as usize);
            // Of a column without NULL there is nothing to find, but for the dates of MySQL's
            // special case, which the binder has made something else.
            let nullable = |at: &usize| definition.columns.get(*at).is_some_and(|c| c.nullable);
            let null = Expression::constant(Datum::Null, operand.result.clone());
            place.filter(nullable).map(|at| (at, Fact::NullSafe(null))).into_iter().collect()
        }
        Node::Like(like) if !like.negated && is_usable(target, &like.pattern) => {
            let at = column_of(target, &like.operand, Comparison::Text(like.collation));
            // Numbers and dates are compared with the pattern as texts, which sort otherwise.
            let at = at.filter(|_| like.operand.sql_type().kind.is_text());
            let pattern = Pattern { value: like.pattern.clone(), escape: like.escape };
            at.map(|at| (at, Fact::Like(pattern))).into_iter().collect()
        }
        Node::Or(parts) => disjunction(target, parts).into_iter().collect(),
        Node::And(parts) => parts.iter().flat_map(|part| facts_of(target, part)).collect(),
        _ => Vec::new(),
    }
}

/// `a IN (…)`.
fn list_fact(target: &Target<'_>, list: &InList) -> Option<(usize, Fact)> {
    // No path has so many.
    if list.list.len() > RANGES_MAX {
        return None;
    }
    let column = |comparison: &Comparison| column_of(target, &list.operand, *comparison);
    let fits = |(value, comparison): &(Expression, Comparison)| {
        is_usable(target, value) && column(comparison).is_some()
    };
    let at = list.list.first().and_then(|(_, comparison)| column(comparison))?;
    let values = list.list.iter().map(|(value, _)| value.clone()).collect();
    list.list.iter().all(fits).then_some((at, Fact::OneOf(values)))
}

/// `a BETWEEN … OR a = … OR …`: ranges of one column.
fn disjunction(target: &Target<'_>, parts: &[Expression]) -> Option<(usize, Fact)> {
    if parts.len() > RANGES_MAX {
        return None;
    }
    let mut column = None;
    let mut ranges = Vec::new();
    for part in parts {
        let facts = facts_of(target, part);
        let at = facts.first()?.0;
        if facts.iter().any(|(other, _)| *other != at) || column.is_some_and(|known| known != at) {
            return None;
        }
        column = Some(at);
        let mut range = IndexRange::default();
        for (_, fact) in facts {
            match fact {
                Fact::Equal(_) | Fact::NullSafe(_) => {
                    range.equal = fact.equal_to().into_iter().collect()
                }
                Fact::Like(pattern) => range.like = Some(pattern),
                Fact::Low(value, inclusive) => range.low = Some((value, inclusive)),
                Fact::High(value, inclusive) => range.high = Some((value, inclusive)),
                Fact::OneOf(values) => {
                    ranges.extend(values.into_iter().map(|value| IndexRange {
                        equal: vec![EqualTo { value, null_safe: false }],
                        ..IndexRange::default()
                    }));
                }
                Fact::Between(more) => ranges.extend(more),
            }
        }
        if !range.equal.is_empty() {
            // What is fixed has no bounds beside it: those would be of the next column.
            ranges.push(IndexRange { equal: range.equal, ..IndexRange::default() });
        } else if range.low.is_some() || range.high.is_some() || range.like.is_some() {
            ranges.push(range);
        }
    }
    column.map(|at| (at, Fact::Between(ranges)))
}

fn flip(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Equal => BinaryOp::Equal,
        BinaryOp::NullSafeEqual => BinaryOp::NullSafeEqual,
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        _ => return None,
    })
}

/// The table's column that an expression is, if an index over it finds what is equal in this
/// comparison: text under the column's own collation. Other types are looked at when the value is
/// known.
fn column_of(
    target: &Target<'_>,
    expression: &Expression,
    comparison: Comparison,
) -> Option<usize> {
    let place = match expression.as_column() {
        Some(place) => place.checked_sub(target.offset)? as usize,
        None => target.definition.computed_column(expression, target.offset)?,
    };
    let column = target.definition.columns.get(place)?;
    let fits = match comparison {
        Comparison::Json => false,
        _ if column.sql_type.kind.is_text() => {
            comparison == Comparison::Text(column.sql_type.collation)
        }
        _ => column.sql_type.kind != TypeKind::Json,
    };
    fits.then_some(place)
}

/// Whether an index over a column, of which [`column_of`] has said that it finds what is equal, has
/// the order of the comparison: that of a time as text is not the order of times.
fn is_in_order(target: &Target<'_>, column: usize, comparison: Comparison) -> bool {
    let is_text = target.definition.columns[column].sql_type.kind.is_text();
    is_text || !matches!(comparison, Comparison::Text(_))
}

/// Whether whole numbers or decimals of many digits are compared as floating-point numbers, of
/// which several may be one. Both bounds are compared alike, so that one text is enough.
fn merges_numbers(between: &Between) -> bool {
    let has_many_digits = |side: &Expression| {
        let of = side.sql_type();
        let is_short = matches!(side.as_constant(), Some(Datum::Int(v)) if v.abs() < 1 << 50);
        !is_short && (of.kind == TypeKind::BigInt || of.kind == TypeKind::Decimal)
    };
    between.comparisons.contains(&Comparison::Double)
        && has_many_digits(&between.operand)
        && [&between.low, &between.high].into_iter().any(has_many_digits)
}

/// Whether a value is known before the table is read, and stays while it is.
fn is_usable(target: &Target<'_>, value: &Expression) -> bool {
    !value.any(&mut |part| match &part.node {
        Node::Column { index, .. } => !(target.is_available)(*index),
        Node::Call(call) => call.function.volatility == Volatility::Row,
        Node::Aggregate(_)
        | Node::Window(_)
        | Node::Deferred(_)
        | Node::Subquery(_)
        | Node::Assign { .. }
        | Node::Row(_)
        | Node::Inserted { .. } => true,
        _ => false,
    })
}
