//! How a table is read, in MySQL's words and in this server's.

use sql_expression::{BinaryOp, Expression, Node};
use sqltype::{SqlType, TypeKind};

use crate::catalog::{KeyDefinition, KeyKind};
use crate::execute::checks::CheckedBy;
use crate::execute::joined::LookedUp;
use crate::explain::{Explainer, plain};
use crate::plan::operator::{AccessPath, IndexRange, TableScan};

/// What is told of the reading of a table.
pub(super) struct TableRead<'p> {
    pub(super) scan: &'p TableScan,
    /// `const`, `eq_ref`, `ref`, `range`, `index` or `ALL`.
    pub(super) access: &'static str,
    pub(super) key: Option<String>,
    pub(super) possible_keys: Vec<String>,
    /// Names of the parts of the key that are used.
    pub(super) parts: Vec<String>,
    /// Bytes of these parts, as MySQL counts them.
    pub(super) key_length: Option<usize>,
    /// What the parts are compared with, where that is one value each.
    pub(super) compared: Vec<String>,
    pub(super) partitions: Vec<String>,
    /// Conditions by who checks them. The last with the reason.
    pub(super) implied: Vec<String>,
    pub(super) pushed: Vec<String>,
    pub(super) kept: Vec<(String, String)>,
    /// The columns that have key-set filters of joins.
    pub(super) key_filters: Vec<String>,
    /// With ANALYZE: how many key sets were pushed down.
    pub(super) key_sets: u64,
    /// Rows are looked up by key, for each row of the input.
    pub(super) joined: bool,
}

impl<'p> TableRead<'p> {
    pub(super) fn new(explainer: &Explainer<'_>, scan: &'p TableScan, joined: bool) -> Self {
        let definition = &scan.definition;
        // A join by hash is one by an index where data nodes make it.
        let found = explainer.dry_run.found(scan).filter(|_| !joined);
        let (access, key) = match found {
            Some(found) => (if found.begins { "ref" } else { "eq_ref" }, key_of(scan, found)),
            None => access_of(scan, joined),
        };
        let used = key.as_ref().and_then(|name| {
            definition.keys.iter().find(|key| key.name.eq_ignore_ascii_case(name))
        });
        let of_path = used.map_or(0, |key| parts_used(&scan.path, key));
        let parts = found.map_or(of_path, |found| found.values.len());
        let columns = used.map_or(&[][..], |key| &key.columns[..parts.min(key.columns.len())]);
        let columns = columns.iter().map(|part| &definition.columns[part.decides]);
        let bytes = |nullable: bool, of: &SqlType| length_of(of) + usize::from(nullable);
        let lengths = columns.clone().map(|column| bytes(column.nullable, &column.sql_type));
        let filtered = explainer.dry_run.key_filters(scan).iter();
        let mut read = Self {
            scan,
            access,
            possible_keys: definition
                .keys
                .iter()
                .enumerate()
                .filter(|(at, _)| {
                    1_u64.checked_shl(*at as u32).is_some_and(|b| b & scan.usable > 0)
                })
                .map(|(_, key)| key.name.clone())
                .collect(),
            parts: columns.clone().map(|column| column.name.clone()).collect(),
            key_length: used.map(|_| lengths.sum()),
            compared: match found {
                Some(found) => found.values.iter().map(|value| word(explainer, value)).collect(),
                None => compared(explainer, scan, used),
            },
            partitions: match found {
                Some(found) if !found.begins => vec!["1 by key".to_owned()],
                _ => partitions(scan),
            },
            key,
            implied: Vec::new(),
            pushed: Vec::new(),
            kept: Vec::new(),
            key_filters: filtered.map(|at| definition.columns[*at].name.clone()).collect(),
            key_sets: explainer.observer.map_or(0, |observer| observer.key_sets(scan)),
            joined,
        };
        for (condition, by) in scan.conditions.iter().zip(explainer.dry_run.checks(scan)) {
            let text = explainer.text(&condition.expression);
            match by {
                CheckedBy::Range => read.implied.push(text),
                _ if is_of_key(scan, &condition.expression) => read.implied.push(text),
                CheckedBy::DataNodes => read.pushed.push(text),
                CheckedBy::SqlNode(why) => read.kept.push((text, plain(&why.to_string()))),
            }
        }
        read
    }

    /// Whether the data nodes stop when they have enough.
    pub(super) fn is_limited(&self) -> bool {
        let here = self.kept.is_empty();
        here && self.scan.limit.is_some()
            && matches!(self.access, "index" | "range" | "ref" | "ALL")
    }

    /// Whether one entry of each partition is enough.
    pub(super) fn edge(&self) -> &'static str {
        match self.scan.ordered {
            Some(wire::ScanOrder::Descending) => "Last entry of index",
            _ => "First entry of index",
        }
    }
}

/// Whether a condition is what a key is looked up by.
fn is_of_key(scan: &TableScan, condition: &Expression) -> bool {
    let table = &scan.definition.table;
    let columns = match &scan.path {
        AccessPath::Primary { .. } => Some(table.primary_key.as_slice()),
        AccessPath::Unique { index, .. } => table.unique_index(*index).map(|i| &*i.columns),
        _ => None,
    };
    let is_part = |side: &Expression| {
        let at = side.as_column().and_then(|at| (at as usize).checked_sub(scan.offset));
        let column = at.and_then(|at| scan.definition.columns.get(at));
        column.is_some_and(|column| columns.is_some_and(|all| all.contains(&column.column)))
    };
    match &condition.node {
        Node::Compare(compare) if compare.op == BinaryOp::Equal => {
            is_part(&compare.left) || is_part(&compare.right)
        }
        Node::InList(list) => !list.negated && is_part(&list.operand),
        _ => false,
    }
}

fn kind_of(ranges: &[IndexRange]) -> &'static str {
    let bounded = ranges.iter().any(|r| r.low.is_some() || r.high.is_some() || r.like.is_some());
    match (ranges.len() == 1 && !bounded, ranges.first().is_none_or(|r| r.equal.is_empty())) {
        (true, true) => "index",
        (true, false) => "ref",
        _ => "range",
    }
}

/// How many parts of a key a path uses.
fn parts_used(path: &AccessPath, key: &KeyDefinition) -> usize {
    let of_range = |range: &IndexRange| {
        let bounded = range.low.is_some() || range.high.is_some() || range.like.is_some();
        range.equal.len() + usize::from(bounded)
    };
    match path {
        AccessPath::Ranges { ranges, .. } => match ranges.iter().map(of_range).max().unwrap_or(0) {
            // Read from one end to the other.
            0 => key.columns.len(),
            used => used,
        },
        _ => key.columns.len(),
    }
}

/// How a path reads, and the name of its key.
fn access_of(scan: &TableScan, joined: bool) -> (&'static str, Option<String>) {
    let primary = || scan.definition.primary_key().map_or("PRIMARY", |key| key.name.as_str());
    let one = if joined { "eq_ref" } else { "const" };
    match &scan.path {
        AccessPath::Primary { keys } => {
            (if keys.len() == 1 { one } else { "range" }, Some(primary().to_owned()))
        }
        AccessPath::Unique { name, keys, .. } => {
            (if keys.len() == 1 { one } else { "range" }, Some(name.clone()))
        }
        AccessPath::Ranges { name, ranges, .. } => (kind_of(ranges), Some(name.clone())),
        AccessPath::Full => ("ALL", None),
    }
}

/// The name of the key that rows of a table are found by.
fn key_of(scan: &TableScan, found: &LookedUp) -> Option<String> {
    let is_it = |key: &&KeyDefinition| match found.index {
        Some(index) => [key.ordered, key.unique].contains(&Some(index)),
        None => key.kind == KeyKind::Primary,
    };
    scan.definition.keys.iter().find(is_it).map(|key| key.name.clone())
}

/// What a part of a key is equal to.
fn word(explainer: &Explainer<'_>, value: &Expression) -> String {
    match value.as_column() {
        Some(_) => explainer.text(value),
        None if value.any(&mut |part| part.as_column().is_some()) => "func".to_owned(),
        None => "const".to_owned(),
    }
}

/// What the parts of a key are equal to.
fn compared(
    explainer: &Explainer<'_>,
    scan: &TableScan,
    key: Option<&KeyDefinition>,
) -> Vec<String> {
    let word = |value: &Expression| word(explainer, value);
    match &scan.path {
        AccessPath::Primary { keys } | AccessPath::Unique { keys, .. } if keys.len() == 1 => {
            // The kernel has its own order of the columns of a primary key.
            let order = match (&scan.path, key) {
                (AccessPath::Primary { .. }, Some(key)) => {
                    let kernel = &scan.definition.table.primary_key;
                    let columns =
                        key.columns.iter().map(|part| &scan.definition.columns[part.column]);
                    let place = |column| kernel.iter().position(|of_kernel| *of_kernel == column);
                    columns.filter_map(|column| place(column.column)).collect()
                }
                _ => (0..keys[0].len()).collect::<Vec<usize>>(),
            };
            order.into_iter().filter_map(|at| keys[0].get(at)).map(word).collect()
        }
        AccessPath::Ranges { ranges, .. } if kind_of(ranges) == "ref" => {
            ranges[0].equal.iter().map(|equal| word(&equal.value)).collect()
        }
        _ => Vec::new(),
    }
}

/// The partitions that are asked. Where a value decides that is not known here, so many by key.
fn partitions(scan: &TableScan) -> Vec<String> {
    let table = &scan.definition.table;
    let (keys, columns) = match (&scan.path, &scan.distribution) {
        (AccessPath::Primary { keys }, _) => (keys, &table.primary_key),
        (AccessPath::Unique { .. }, _) => return vec!["1 by key".to_owned()],
        (AccessPath::Ranges { .. } | AccessPath::Full, Some(keys)) => {
            (keys, &table.distribution_key)
        }
        (AccessPath::Ranges { .. } | AccessPath::Full, None) => {
            return (0..table.partition_count).map(|at| format!("p{at}")).collect();
        }
    };
    let mut found: Vec<String> = Vec::new();
    for key in keys {
        let types = columns.iter().filter_map(|column| {
            scan.definition.columns.iter().find(|of| of.column == *column).map(|of| &of.sql_type)
        });
        let values =
            key.iter().zip(types).map(
                |(value, sql_type)| match crate::catalog::key_value::key_value(
                    value.as_constant()?,
                    value.sql_type(),
                    sql_type,
                ) {
                    crate::catalog::key_value::KeyValue::Exact(value) => Some(value),
                    _ => None,
                },
            );
        let values: Option<Vec<model::Value>> = values.collect();
        let partition = values.and_then(|values| match &scan.path {
            AccessPath::Primary { .. } => table.partition_of_key(&values),
            _ => table.partition_of_distribution(&values),
        });
        match partition {
            Some(at) => found.push(format!("p{}", at.0)),
            None => return vec![format!("{} by key", keys.len())],
        }
    }
    found.sort_unstable_by_key(|name| (name.len(), name.clone()));
    found.dedup();
    found
}

/// Bytes of a column in a key, as MySQL counts them.
fn length_of(sql_type: &SqlType) -> usize {
    let fraction = usize::from(sql_type.decimals.div_ceil(2));
    let length = sql_type.length as usize;
    let of_text = length * usize::from(sql_type.collation.charset().max_len());
    match &sql_type.kind {
        TypeKind::Null => 0,
        TypeKind::TinyInt | TypeKind::Year => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt | TypeKind::Date => 3,
        TypeKind::Int | TypeKind::Float => 4,
        TypeKind::BigInt | TypeKind::Double => 8,
        TypeKind::Decimal => {
            let digits = |count: usize| count / 9 * 4 + [0, 1, 1, 2, 2, 3, 3, 4, 4][count % 9];
            let after = usize::from(sql_type.decimals);
            digits(length.saturating_sub(after)) + digits(after)
        }
        TypeKind::Bit => length.div_ceil(8),
        TypeKind::Time => 3 + fraction,
        TypeKind::DateTime => 5 + fraction,
        TypeKind::Timestamp => 4 + fraction,
        TypeKind::Char => of_text,
        TypeKind::VarChar
        | TypeKind::TinyText
        | TypeKind::Text
        | TypeKind::MediumText
        | TypeKind::LongText
        | TypeKind::Json => of_text.min(3_072) + 2,
        TypeKind::Enum(members) => {
            if members.len() < 256 {
                1
            } else {
                2
            }
        }
        TypeKind::Set(members) => members.len().div_ceil(8),
    }
}
