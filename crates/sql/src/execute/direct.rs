//! Queries that give columns of one table and compute nothing, perhaps in an order and each row
//! once, or the first ones in the order of an index: values go from the rows of data nodes to the
//! client's packets.
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

use crate::execute::cursor::sort::{Once, SORTED, SORTED_WITH_DOUBLES, Sorter, merged};
use crate::execute::cursor::step::computed;
use crate::execute::cursor::{Work, columns_once};
use crate::execute::run::Run;
use crate::execute::scan::{Found, TableCursor, datum_of_ref, limits};
use crate::logical::formula::{Bounds, Formula, SortBy};
use crate::memory::Held;
use crate::plan::operator::{Operator, QueryPlan, TableScan};
use crate::result::{Given, ResultWriter};
use crate::rows::Row;

/// Rows written before the client is looked after.
const BATCH: usize = 256;

/// A query that only gives columns of rows.
pub(crate) struct Direct<'p> {
    plan: &'p QueryPlan,
    scan: &'p TableScan,
    expressions: &'p [Formula],
    columns: Vec<Column<'p>>,
    order: Option<Order<'p>>,
    /// Which of the rows are given, of those that are given as they are found.
    bounds: Option<&'p Bounds>,
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

/// Rows that are to be put in order, some of which have come in another form.
struct Others<'o, 'p> {
    order: &'o Order<'o>,
    /// What has been found.
    found: VecDeque<Found<'p>>,
    /// Finds more.
    cursor: TableCursor<'p>,
    /// What has been found takes this.
    held: Held,
}

impl<'p> Direct<'p> {
    /// The query, if it is such a one.
    pub(crate) fn of(plan: &'p QueryPlan, out: &ResultWriter) -> Option<Self> {
        if plan.counts_found_rows || out.converts() {
            return None;
        }
        let (root, after) = match &plan.root.operator {
            Operator::Sort { input, keys, limit: None } => match &input.operator {
                Operator::Distinct { input, types } => {
                    (&input.operator, Some((keys, Some(&types[..]))))
                }
                other => (other, Some((keys, None))),
            },
            other => (other, None),
        };
        let Operator::Project { input, expressions } = root else { return None };
        let (input, before) = match &input.operator {
            Operator::Sort { input, keys, limit: None } if after.is_none() => {
                (&input.operator, Some(keys))
            }
            other => (other, None),
        };
        let (input, bounds) = match input {
            Operator::Limit { input, bounds } if before.is_none() && after.is_none() => {
                (&input.operator, Some(bounds))
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
        Some(Self { plan, scan, expressions, columns, order, bounds })
    }

    /// Runs the query and writes its rows, at most `limit`; how many were written.
    pub(crate) async fn write(
        &self,
        run: &mut Run<'_>,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        match &self.order {
            None => {
                let (count, offset) = match self.bounds {
                    Some(bounds) => limits(run, bounds).await?,
                    None => (None, 0),
                };
                let most = count.map_or(limit, |count| count.min(limit));
                self.write_as_found(run, offset, most, out).await
            }
            Some(order) => Box::pin(self.write_in_order(run, order, limit, out)).await,
        }
    }

    /// Leaves the first `skipped` rows out.
    async fn write_as_found(
        &self,
        run: &mut Run<'_>,
        mut skipped: u64,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        let mut cursor = TableCursor::New(self.scan);
        let mut left = limit;
        while left > 0
            && !out.is_unwanted()
            && let Some(found) = cursor.next_found(run).await?
        {
            let some = !found.rows.is_empty() || !found.blocks.is_empty();
            if some && !out.is_started() {
                out.kept_columns(self.plan.kept_columns());
            }
            let (most, before) = (usize::try_from(left).unwrap_or(usize::MAX), left);
            if is_stored(&found) {
                let skip = skipped.min(found.rows.len() as u64);
                skipped -= skip;
                if most >= found.rows.len() {
                    out.make_room(found.rows.len(), found.rows.size());
                }
                for row in found.rows.iter().skip(skip as usize).take(most) {
                    out.row_of(|column| self.given(run, column, row));
                    left -= 1;
                }
                run.worked((skip + before - left) as usize).await?;
            } else {
                let mut rest: VecDeque<Row> = cursor.rows_of(run, found).await?.into();
                let skip = skipped.min(rest.len() as u64);
                skipped -= skip;
                rest.drain(..skip as usize);
                while left > 0 && !rest.is_empty() {
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let rows = computed(run, &mut rest, self.expressions, most).await?;
                    left -= write_some(&rows, left, out).await;
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
        let (mut parts, mut count, mut held) = (Vec::new(), 0, run.hold(SORTED));
        while let Some(found) = cursor.next_found(run).await? {
            let many = order.once.is_some() && count > SORTED_WITH_DOUBLES;
            if many || !is_stored(&found) || !held.fits(memory_of_stored(&found.rows))? {
                let stored = |rows| Found { rows, checks: false, blocks: vec![], scan: self.scan };
                let mut all: VecDeque<Found<'_>> = parts.into_iter().map(stored).collect();
                all.push_back(found);
                let others = Others { order, found: all, cursor, held };
                return Box::pin(self.write_others(run, others, limit, out)).await;
            }
            count += found.rows.len();
            parts.push(found.rows);
        }
        let mut rows: Vec<ScannedRow<'_>> = Vec::with_capacity(count);
        for part in &parts {
            rows.extend(part.iter());
            run.worked(part.len()).await?;
        }
        // Little beside the rows.
        held.be_lenient(held.account().temp().may_spill());
        let places = order.sorted(run, &rows, &mut held).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX).min(places.len());
        let bytes: usize = parts.iter().map(ScannedRows::size).sum();
        for places in places[..most].chunks(BATCH) {
            if !out.is_started() {
                out.kept_columns(self.plan.kept_columns());
            }
            out.make_room(places.len(), bytes * places.len() / count);
            for (_, place) in places {
                out.row_of(|column| self.given(run, column, rows[*place]));
            }
            run.worked(places.len()).await?;
            out.drain().await;
        }
        Ok(most as u64)
    }

    /// The same with rows that have come in another form, after those that have not.
    async fn write_others(
        &self,
        run: &mut Run<'_>,
        others: Others<'_, 'p>,
        limit: u64,
        out: &mut ResultWriter,
    ) -> Result<u64, SqlError> {
        let Others { order, mut found, mut cursor, held: mut of_found } = others;
        let mut once = order.once.map(|types| Once::new(run, types, order.by));
        let mut sorter = Sorter::new(run, order.by, None);
        loop {
            let waiting = found.len();
            let next = match found.pop_front() {
                Some(next) => Some(next),
                None => cursor.next_found(run).await?,
            };
            let Some(next) = next else { break };
            of_found.give_up(1, waiting);
            let mut rest: VecDeque<Row> = cursor.rows_of(run, next).await?.into();
            while !rest.is_empty() {
                let rows = if order.of_result {
                    computed(run, &mut rest, self.expressions, usize::MAX).await?
                } else {
                    std::mem::take(&mut rest).into()
                };
                match &mut once {
                    Some(once) => once.add(run, rows).await?,
                    None => sorter.add(run, rows).await?,
                }
            }
        }
        let mut sorted: Work<'_> = match once {
            Some(once) => once.finish(run, None).await?.into(),
            None => sorter.finish(run).await?.into(),
        };
        let mut left = limit;
        while left > 0
            && let Some(rows) = sorted.step(run).await?
        {
            if !rows.is_empty() && !out.is_started() {
                out.kept_columns(self.plan.kept_columns());
            }
            if order.of_result {
                left -= write_some(&rows, left, out).await;
                continue;
            }
            let mut rest = VecDeque::from(rows);
            while left > 0 && !rest.is_empty() {
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                let rows = computed(run, &mut rest, self.expressions, most).await?;
                left -= write_some(&rows, left, out).await;
            }
        }
        Ok(limit - left)
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

/// What rows take that are kept as they came, with what is needed to sort them.
fn memory_of_stored(rows: &ScannedRows) -> usize {
    rows.size() + rows.len() * size_of::<(u64, usize, ScannedRow<'_>)>()
}

/// Writes rows, at most `left`; how many.
async fn write_some(rows: &[Row], left: u64, out: &mut ResultWriter) -> u64 {
    let most = usize::try_from(left).unwrap_or(usize::MAX).min(rows.len());
    for row in &rows[..most] {
        out.row(row);
        if out.is_full() {
            out.drain().await;
        }
    }
    most as u64
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
    async fn sorted(
        &self,
        run: &mut Run<'_>,
        rows: &[ScannedRow<'_>],
        held: &mut Held,
    ) -> Result<Vec<(u64, usize)>, SqlError> {
        let first = |(at, row): (usize, &ScannedRow<'_>)| {
            (self.keys.first().map_or(0, |key| key.prefix(row.get(key.at))), at)
        };
        let places: Vec<(u64, usize)> = rows.iter().enumerate().map(first).collect();
        let compare = |a: &(u64, usize), b: &(u64, usize)| {
            let by_value = || self.compare(&rows[a.1], &rows[b.1]);
            a.0.cmp(&b.0).then_with(by_value).then(a.1.cmp(&b.1))
        };
        let mut places = merged(run, places, &compare, held).await?;
        if self.once.is_some() {
            let same = |a: &(u64, usize), b: &(u64, usize)| {
                a.0 == b.0 && self.compare(&rows[a.1], &rows[b.1]).is_eq()
            };
            places.dedup_by(|a, b| same(a, b));
        }
        Ok(places)
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
