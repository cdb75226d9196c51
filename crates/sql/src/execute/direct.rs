//! Queries that give columns of one table and compute nothing, perhaps in an order and each row
//! once: values go from the rows of data nodes to the client's packets.
//!
//! # Owns
//! Which queries these are, and their run.
//! # Guarantees
//! What comes in another form than as stored rows (blocks of programs), or has conditions that are
//! still to be checked, takes the way of all other rows; the answer is the same.
//! # Not here
//! Scans (`scan`), packets (`result`), the order of rows that are not direct (`cursor::sort`).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::VecDeque;

use client::{ScannedRow, ScannedRows};
use collation::CollationId;
use model::ValueRef;
use sql_expression::SqlError;
use sqltype::SqlType;

use crate::execute::cursor::sort::{Once, SORTED_WITH_DOUBLES, sorted};
use crate::execute::cursor::{columns_once, projected};
use crate::execute::run::{Row, Run, memory_of};
use crate::execute::scan::{Found, TableCursor, datum_of_ref};
use crate::plan::operator::{Formula, Operator, QueryPlan, SortBy, TableScan};
use crate::result::{Given, ResultWriter};

/// Rows written before the client is looked after.
const BATCH: usize = 256;

/// A query that only gives columns of rows.
pub(crate) struct Direct<'p> {
    plan: &'p QueryPlan,
    scan: &'p TableScan,
    expressions: &'p [Formula],
    columns: Vec<Column<'p>>,
    order: Option<Order<'p>>,
}

/// A column of the result.
struct Column<'p> {
    /// Which value of a row it is.
    at: usize,
    sql_type: &'p SqlType,
    /// Its bytes are what the client gets.
    is_text: bool,
}

/// In which order rows are given.
struct Order<'p> {
    by: &'p [SortBy],
    keys: Vec<Key>,
    /// They are columns of the result; otherwise those of the block.
    of_result: bool,
    /// Rows that are the same are given once; the types of their columns, which are all keys.
    once: Option<&'p [SqlType]>,
}

/// A column that rows are ordered by.
struct Key {
    /// Which value of a row it is.
    at: usize,
    collation: CollationId,
    descending: bool,
}

impl<'p> Direct<'p> {
    /// The query, if it is such a one.
    pub(crate) fn of(plan: &'p QueryPlan, out: &ResultWriter) -> Option<Self> {
        if plan.counts_found_rows || out.converts() {
            return None;
        }
        let (root, after) = match &plan.root {
            Operator::Sort { input, keys, limit: None } => match &**input {
                Operator::Distinct { input, types } => (&**input, Some((keys, Some(&types[..])))),
                other => (other, Some((keys, None))),
            },
            other => (other, None),
        };
        let Operator::Project { input, expressions } = root else { return None };
        let (input, before) = match &**input {
            Operator::Sort { input, keys, limit: None } if after.is_none() => {
                (&**input, Some(keys))
            }
            other => (other, None),
        };
        let Operator::Scan(scan) = input else { return None };
        if !scan.conditions.iter().all(Formula::is_ready) {
            return None;
        }
        let columns: Vec<Column<'_>> =
            expressions.iter().map(|formula| Column::of(scan, formula)).collect::<Option<_>>()?;
        let order = match (before, after) {
            (Some(by), _) => {
                let at = |place: usize| value_at(scan, place);
                Some(Order::of(by, at, None)?)
            }
            (None, Some((by, once))) => {
                let at = |place: usize| columns.get(place).map(|column| column.at);
                Some(Order::of(by, at, once)?).map(|order| Order { of_result: true, ..order })
            }
            (None, None) => None,
        };
        Some(Self { plan, scan, expressions, columns, order })
    }

    /// Runs the query and writes its rows, at most `limit`; how many were written.
    pub(crate) async fn write(
        &self,
        run: &mut Run<'_>,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        match &self.order {
            None => self.write_as_found(run, limit, out).await,
            Some(order) => Box::pin(self.write_in_order(run, order, limit, out)).await,
        }
    }

    async fn write_as_found(
        &self,
        run: &mut Run<'_>,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        let mut cursor = TableCursor::New(self.scan);
        let mut left = limit;
        while left > 0
            && let Some(found) = cursor.next_found(run).await?
        {
            let some = !found.rows.is_empty() || !found.blocks.is_empty();
            if some && !out.is_started() {
                out.columns(&self.plan.columns);
            }
            let (most, before) = (usize::try_from(left).unwrap_or(usize::MAX), left);
            if is_stored(&found) {
                for row in found.rows.iter().take(most) {
                    out.row_of(|column| self.given(run, column, row));
                    left -= 1;
                }
                run.worked((before - left) as usize).await?;
            } else {
                let rows = cursor.rows_of(run, found).await?;
                let rows = projected(run, rows, self.expressions, None).await?;
                for row in rows.iter().take(most) {
                    out.row(row);
                    left -= 1;
                }
            }
            out.drain().await;
        }
        Ok(limit - left)
    }

    async fn write_in_order(
        &self,
        run: &mut Run<'_>,
        order: &Order<'_>,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        let mut cursor = TableCursor::New(self.scan);
        let (mut held, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(found) = cursor.next_found(run).await? {
            let many = order.once.is_some() && count > SORTED_WITH_DOUBLES;
            if many || !is_stored(&found) {
                let stored = |rows| Found { rows, checks: false, blocks: vec![], scan: self.scan };
                let mut all: VecDeque<Found<'_>> = held.into_iter().map(stored).collect();
                all.push_back(found);
                return self.write_others(run, (order, all, cursor), limit, out).await;
            }
            count += found.rows.len();
            bytes +=
                found.rows.size() + found.rows.len() * size_of::<(u64, usize, ScannedRow<'_>)>();
            run.check_memory(bytes, "the rows of an operator")?;
            held.push(found.rows);
        }
        run.worked(count).await?;
        let rows: Vec<ScannedRow<'_>> = held.iter().flat_map(ScannedRows::iter).collect();
        let places = order.sorted(&rows);
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(places.len());
        for places in places[..most].chunks(BATCH) {
            if !out.is_started() {
                out.columns(&self.plan.columns);
            }
            for (_, place) in places {
                out.row_of(|column| self.given(run, column, rows[*place]));
            }
            out.drain().await;
        }
        Ok(most as u64)
    }

    /// The same with rows that have come in another form, after those that have not.
    async fn write_others(
        &self,
        run: &mut Run<'_>,
        (order, mut found, mut cursor): (&Order<'_>, VecDeque<Found<'p>>, TableCursor<'p>),
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        let mut once = order.once.map(Once::new);
        let (mut all, mut bytes): (Vec<Row>, usize) = (Vec::new(), 0);
        loop {
            let next = match found.pop_front() {
                Some(next) => Some(next),
                None => cursor.next_found(run).await?,
            };
            let Some(next) = next else { break };
            let mut rows = cursor.rows_of(run, next).await?;
            if order.of_result {
                rows = projected(run, rows, self.expressions, None).await?;
            }
            if let Some(once) = &mut once {
                once.add(run, rows)?;
                continue;
            }
            bytes += memory_of(&rows);
            run.check_memory(bytes, "the rows of an operator")?;
            all.append(&mut rows);
        }
        let mut rows = match once {
            Some(once) => once.finish(run, order.by, None).await?,
            None => sorted(run, all, order.by, None).await?,
        };
        if !order.of_result {
            rows = projected(run, rows, self.expressions, None).await?;
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(rows.len());
        for rows in rows[..most].chunks(BATCH) {
            if !out.is_started() {
                out.columns(&self.plan.columns);
            }
            rows.iter().for_each(|row| out.row(row));
            out.drain().await;
        }
        Ok(most as u64)
    }

    /// The value of a column of the result.
    #[inline]
    fn given<'r>(&self, run: &Run<'_>, column: usize, row: ScannedRow<'r>) -> Given<'r> {
        let Column { at, sql_type, is_text } = self.columns[column];
        match row.get(at) {
            ValueRef::Bytes(text) if is_text => Given::Text(text),
            value => Given::Datum(Cow::Owned(datum_of_ref(value, sql_type, run))),
        }
    }
}

/// Whether rows can be given as they are.
fn is_stored(found: &Found<'_>) -> bool {
    !found.checks && found.blocks.is_empty()
}

/// Which of the values of a scan's rows stands at a place of the block.
fn value_at(scan: &TableScan, place: usize) -> Option<usize> {
    let column = place.checked_sub(scan.offset)?;
    scan.wanted.iter().position(|wanted| *wanted == column)
}

impl<'p> Column<'p> {
    fn of(scan: &'p TableScan, formula: &Formula) -> Option<Self> {
        let place = formula.expression.as_column()? as usize;
        let at = value_at(scan, place)?;
        let sql_type = &scan.definition.columns[place - scan.offset].sql_type;
        Some(Self { at, sql_type, is_text: sql_type.kind.is_text() })
    }
}

impl<'p> Order<'p> {
    /// The order, if it is one of texts and whole numbers. `at` knows the places of values.
    fn of(
        by: &'p [SortBy],
        at: impl Fn(usize) -> Option<usize>,
        once: Option<&'p [SqlType]>,
    ) -> Option<Self> {
        let places = columns_once(by.iter().map(|key| &key.formula))?;
        if once.is_some_and(|types| types.len() != places.len()) {
            return None;
        }
        let key = |(place, by): (&usize, &SortBy)| {
            let SqlType { kind, collation, .. } = by.formula.expression.sql_type();
            let simple = kind.is_text() || kind.is_integer();
            let key = Key { at: at(*place)?, collation: *collation, descending: by.descending };
            simple.then_some(key)
        };
        let keys = places.iter().zip(by).map(key).collect::<Option<_>>()?;
        Some(Self { by, keys, of_result: false, once })
    }

    /// The places of rows in their order, those of equal ones as they are; with what tells most of
    /// them apart.
    fn sorted(&self, rows: &[ScannedRow<'_>]) -> Vec<(u64, usize)> {
        let first = |(at, row): (usize, &ScannedRow<'_>)| {
            (self.keys.first().map_or(0, |key| key.prefix(row.get(key.at))), at)
        };
        let mut places: Vec<(u64, usize)> = rows.iter().enumerate().map(first).collect();
        places.sort_unstable_by(|a, b| {
            let by_value = || self.compare(&rows[a.1], &rows[b.1]);
            a.0.cmp(&b.0).then_with(by_value).then(a.1.cmp(&b.1))
        });
        if self.once.is_some() {
            let same = |a: &(u64, usize), b: &(u64, usize)| {
                a.0 == b.0 && self.compare(&rows[a.1], &rows[b.1]).is_eq()
            };
            places.dedup_by(|a, b| same(a, b));
        }
        places
    }

    fn compare(&self, a: &ScannedRow<'_>, b: &ScannedRow<'_>) -> Ordering {
        let by_key = |key: &Key| key.compare(a.get(key.at), b.get(key.at));
        self.keys.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl Key {
    /// A number in the order of values; those with the same are to be compared.
    fn prefix(&self, value: ValueRef<'_>) -> u64 {
        let prefix = match value {
            ValueRef::Bytes(text) => collation::sort_prefix(self.collation, text),
            ValueRef::Int(number) => number as u64 ^ 1 << 63,
            ValueRef::UInt(number) => number,
            ValueRef::Null | ValueRef::Float(_) => 0,
        };
        if self.descending { !prefix } else { prefix }
    }

    /// The order of two values of one column; NULL comes before all others.
    fn compare(&self, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        let order = match (a, b) {
            (ValueRef::Bytes(a), ValueRef::Bytes(b)) => collation::compare(self.collation, a, b),
            (ValueRef::Int(a), ValueRef::Int(b)) => a.cmp(&b),
            (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
            _ => (a != ValueRef::Null).cmp(&(b != ValueRef::Null)),
        };
        if self.descending { order.reverse() } else { order }
    }
}
