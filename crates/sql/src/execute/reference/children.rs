//! What becomes of rows that refer to a row which goes, or gets another key.
//!
//! # Owns
//! RESTRICT, CASCADE and SET NULL, through as many tables as there are, up to InnoDB's depth.
//! # Guarantees
//! Children are looked for when their parent is locked, and are locked when they are found. They
//! are changed by the same transaction as the parent.
//! # Not here
//! The change of the parent itself (`update`, `insert`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use actor::Mutation;
use client::{ClientOperation, IndexBound, ScanRange, ScanSpec};
use model::{ErrorCode, Expression as KernelExpression, Refusal, TableId, Value};
use sql_expression::SqlError;
use wire::{LockMode, Projection, WaitPolicy};

use super::batch::Batch;
use super::{Child, Links, is_referenced, refuses, translated};
use crate::access::Values;
use crate::catalog::Rule;
use crate::catalog::TableDefinition;
use crate::catalog::names;
use crate::error::of_refusal;
use crate::execute::insert::BATCH;
use crate::execute::row::RowMaker;
use crate::execute::run::{Boxed, Run};
use crate::execute::scan::{datum_of, partitions};
use crate::kernel::Scan;
use crate::large::read::complete_locked;
use crate::logical::binder::QueryBinder;
use crate::rows::Row;

/// The most tables that a change goes through, the statement's own among them, as in InnoDB.
const DEPTH_MAX: u32 = 15;
/// Scans that are open at a time.
const SCANS: usize = 32;

/// What a statement has done to rows by foreign keys so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cascade {
    /// Rows that are gone, or about to go: the table and the encoded primary key.
    gone: BTreeSet<(TableId, Vec<u8>)>,
    /// Tables that are being updated, from the statement's own down.
    updating: Vec<TableId>,
    depth: u32,
}

impl Cascade {
    /// Notes that the statement updates rows of a table itself.
    pub(crate) fn updates(table: TableId) -> Self {
        Self { updating: vec![table], ..Self::default() }
    }

    /// Whether a row of this primary key has gone already; it is about to, if not.
    pub(crate) fn goes(&mut self, definition: &TableDefinition, key: &[Value]) -> bool {
        let encoded = definition.table.primary_key_of(key);
        encoded.is_some_and(|key| self.gone.insert((definition.table.id, key.0.to_vec())))
    }

    fn is_gone(&self, definition: &TableDefinition, row: &[Value]) -> bool {
        let encoded = definition.table.primary_key_of(&definition.key_of(row));
        encoded.is_some_and(|key| self.gone.contains(&(definition.table.id, key.0.to_vec())))
    }

    fn descend(&mut self) -> Result<(), SqlError> {
        if self.depth + 1 == DEPTH_MAX {
            let text =
                format!("Foreign key cascade delete/update exceeds max depth of {DEPTH_MAX}.");
            return Err(SqlError::new(3008, "HY000", text));
        }
        self.depth += 1;
        Ok(())
    }

    fn ascend(&mut self) {
        self.depth -= 1;
    }
}

/// A row before and after a change.
pub(crate) type Pair = (Values, Values);

/// Does what has to be done before these rows are deleted, which are locked.
pub(crate) fn before_delete<'a>(
    run: &'a mut Run<'_>,
    links: &'a Links,
    rows: &'a [Values],
    cascade: &'a mut Cascade,
) -> Boxed<'a, ()> {
    Box::pin(async move {
        check_copies(run, links, rows).await?;
        for child in links.children.iter().filter(|child| !child.is_copy) {
            let rule = child.key().on_delete;
            let keys: Vec<Values> = rows.iter().filter_map(|row| child.referred(row)).collect();
            let found = referring_rows(run, child, keys, rule, cascade).await?;
            if found.is_empty() {
                continue;
            }
            let table = &child.referrer.child;
            match rule {
                Rule::NoAction | Rule::Restrict => return Err(is_referenced(table, child.key())),
                Rule::Cascade => {
                    let rows = found.into_iter().map(|(_, row)| row).collect();
                    cascade.descend()?;
                    follow(run, table, rows, cascade).await?;
                    cascade.ascend();
                }
                Rule::SetNull if run.session.kernel.mutated(Mutation::SqlSetNullLeftOut) => {}
                Rule::SetNull => {
                    let nulls = vec![Value::Null; child.columns.len()];
                    let pairs = found.into_iter().map(|(_, row)| (row, nulls.clone()));
                    set_keys(run, child, pairs.collect(), cascade).await?;
                }
            }
        }
        Ok(())
    })
}

/// Deletes rows whose parents go. Those of a table that refers to itself go one after the other, in
/// the order in which InnoDB finds them, as one of them may be in the way of another.
async fn follow(
    run: &mut Run<'_>,
    table: &Rc<TableDefinition>,
    mut rows: Vec<Values>,
    cascade: &mut Cascade,
) -> Result<(), SqlError> {
    let links = Links::of(run.session, table)?;
    let at_once = if links.has_own(table) { 1 } else { rows.len() };
    if at_once == 1 {
        let key = |row: &Values| table.table.primary_key_of(&table.key_of(row)).map(|k| k.0);
        rows.sort_by_cached_key(key);
    }
    for rows in rows.chunks(at_once) {
        let goes = |row: &&Values| cascade.goes(table, &table.key_of(row));
        let going: Vec<Values> = rows.iter().filter(goes).cloned().collect();
        before_delete(run, &links, &going, cascade).await?;
        delete(run, table, &going).await?;
    }
    Ok(())
}

/// Does what has to be done before these rows, which are locked, get other keys.
pub(crate) fn before_update<'a>(
    run: &'a mut Run<'_>,
    links: &'a Links,
    rows: &'a [Pair],
    cascade: &'a mut Cascade,
) -> Boxed<'a, ()> {
    Box::pin(async move {
        let olds: Vec<Values> = rows.iter().map(|(old, _)| old.clone()).collect();
        check_copies(run, links, &olds).await?;
        for child in links.children.iter().filter(|child| !child.is_copy) {
            let changes = |(old, new): &&Pair| child.columns.iter().any(|at| old[*at] != new[*at]);
            let changed: Vec<&Pair> = rows.iter().filter(changes).collect();
            let changed: Vec<(Values, Values)> = changed
                .into_iter()
                .filter_map(|(old, new)| {
                    let of_new = child.columns.iter().map(|at| new[*at].clone()).collect();
                    Some((child.referred(old)?, of_new))
                })
                .collect();
            if changed.is_empty() {
                continue;
            }
            let table = &child.referrer.child;
            let mut rule = child.key().on_update;
            if cascade.updating.contains(&table.table.id) {
                // As in InnoDB: what is being updated is not updated again.
                rule = Rule::Restrict;
            }
            let keys = changed.iter().map(|(old, _)| old.clone()).collect();
            let found = referring_rows(run, child, keys, rule, cascade).await?;
            if found.is_empty() {
                continue;
            }
            let pairs = match rule {
                Rule::NoAction | Rule::Restrict => return Err(is_referenced(table, child.key())),
                Rule::SetNull => {
                    let nulls = vec![Value::Null; child.columns.len()];
                    found.into_iter().map(|(_, row)| (row, nulls.clone())).collect()
                }
                Rule::Cascade => {
                    found.into_iter().map(|(at, row)| (row, changed[at].1.clone())).collect()
                }
            };
            set_keys(run, child, pairs, cascade).await?;
        }
        Ok(())
    })
}

/// Refuses when a table that is being filled by ALTER TABLE refers to the rows: whoever runs the
/// statement again when that is over will find out.
async fn check_copies(run: &mut Run<'_>, links: &Links, rows: &[Values]) -> Result<(), SqlError> {
    for child in links.children.iter().filter(|child| child.is_copy) {
        let keys: Vec<Values> = rows.iter().filter_map(|row| child.referred(row)).collect();
        let none = Cascade::default();
        if !referring_rows(run, child, keys, Rule::Restrict, &none).await?.is_empty() {
            let cluster = run.session.kernel.cluster();
            let copy = &child.referrer.child.name;
            let name = names::copied_by(&cluster, copy)
                .map_or_else(|| copy.clone(), |table| table.name.clone());
            return Err(of_refusal(&Refusal::new(ErrorCode::SchemaChanged, name)));
        }
    }
    Ok(())
}

/// The rows that refer to these keys, each with the position of its key; locked in the way the rule
/// needs. Some of them will do where the rule refuses any; elsewhere, those that are about to go
/// are left out.
async fn referring_rows(
    run: &mut Run<'_>,
    child: &Child,
    keys: Vec<Values>,
    rule: Rule,
    cascade: &Cascade,
) -> Result<Vec<(usize, Values)>, SqlError> {
    let table = &child.referrer.child;
    let types = || child.key().columns.iter().map(|at| &table.columns[*at].sql_type);
    let mut seen = BTreeSet::new();
    let keys =
        keys.into_iter().enumerate().filter_map(|(at, key)| Some((at, translated(key, types())?)));
    let mut keys = keys.filter(|(_, key)| {
        let columns: Vec<model::ColumnId> =
            child.key().columns.iter().map(|at| table.columns[*at].column).collect();
        table.table.key_of_values(&columns, key).is_some_and(|key| seen.insert(key.0.to_vec()))
    });
    let lock = if refuses(rule) { LockMode::Shared } else { LockMode::Exclusive };
    // A row that is in its own way stays there, as in InnoDB.
    let one = refuses(rule);
    let mut found = Vec::new();
    loop {
        let scans: Vec<(usize, Scan)> = keys
            .by_ref()
            .take(SCANS)
            .map(|(at, key)| {
                let bound = Some(IndexBound::including(key));
                let range = ScanRange::Index {
                    index: child.index,
                    lower: bound.clone(),
                    upper: bound,
                    order: None,
                };
                let partition_key = partitions::of_range(&table.table, &range);
                let scan = run.session.kernel.scan(ScanSpec {
                    range,
                    partition_keys: partition_key.map(|key| vec![key]),
                    projection: Projection::All,
                    limit: one.then_some(1),
                    lock,
                    wait: WaitPolicy::Wait,
                    in_transaction: true,
                    settled: true,
                    ..ScanSpec::heap(table.table.id)
                });
                (at, scan)
            })
            .collect();
        if scans.is_empty() {
            return Ok(found);
        }
        for (at, scan) in scans {
            let rows = scan.collect().await?;
            let rows = rows.into_iter().filter(|row| one || !cascade.is_gone(table, row));
            found.extend(rows.map(|row| (at, row)));
        }
        if one && !found.is_empty() {
            return Ok(found);
        }
        run.worked(found.len()).await?;
    }
}

/// Deletes rows that are locked.
async fn delete(
    run: &mut Run<'_>,
    table: &Rc<TableDefinition>,
    rows: &[Values],
) -> Result<(), SqlError> {
    run.session.wrote(table.table.id);
    for rows in rows.chunks(BATCH) {
        let one = |row: &Values| {
            let delete = ClientOperation::delete(table.table.id, table.key_of(row));
            delete.of_version(table.table.version)
        };
        let operations = rows.iter().map(one).collect();
        let deleted = run.session.kernel.execute_all(operations, false).await;
        deleted.map_err(|rejected| SqlError::from(rejected.failure))?;
    }
    Ok(())
}

/// Gives rows, which are locked, other values in the columns of the foreign key by which they were
/// found, and does to those who refer to them in turn what that asks for.
async fn set_keys(
    run: &mut Run<'_>,
    child: &Child,
    rows: Vec<Pair>,
    cascade: &mut Cascade,
) -> Result<(), SqlError> {
    let table = &child.referrer.child;
    let maker = RowMaker::new(&mut QueryBinder::new(run.session, &[]), table, false)?;
    let types = || child.key().columns.iter().map(|at| &table.columns[*at].sql_type);
    let mut pairs = Vec::with_capacity(rows.len());
    for (old, key) in rows {
        let old = complete_locked(&run.session.kernel, &table.table, old).await?;
        // What does not fit cannot follow.
        let key = translated(key, types()).ok_or_else(|| is_referenced(table, child.key()))?;
        let mut new = old.clone();
        for (at, value) in child.key().columns.iter().zip(key) {
            let column = &table.columns[*at];
            if value == Value::Null && !column.nullable {
                return Err(is_referenced(table, child.key()));
            }
            new[usize::from(column.column.0)] = value;
        }
        if !maker.is_plain() {
            compute(run, &maker, &mut new).await?;
        }
        pairs.push((old, new));
    }
    cascade.descend()?;
    cascade.updating.push(table.table.id);
    before_update(run, &maker.links, &pairs, cascade).await?;
    update(run, &maker, pairs, child.referrer.at).await?;
    cascade.updating.pop();
    cascade.ascend();
    Ok(())
}

/// Computes the generated columns of a row anew.
async fn compute(run: &mut Run<'_>, maker: &RowMaker, row: &mut Values) -> Result<(), SqlError> {
    let columns = &maker.definition.columns;
    let mut datums: Row = columns
        .iter()
        .map(|column| datum_of(row[usize::from(column.column.0)].clone(), &column.sql_type, run))
        .collect();
    maker.complete(run, &mut datums, false).await?;
    let generated = columns.iter().zip(&datums).filter(|(column, _)| column.is_computed());
    for (column, datum) in generated {
        row[usize::from(column.column.0)] =
            crate::execute::row::kernel_value(run, datum, &column.sql_type);
    }
    Ok(())
}

/// Stores changed rows; the parents by the foreign key `followed` are there.
async fn update(
    run: &mut Run<'_>,
    maker: &RowMaker,
    pairs: Vec<Pair>,
    followed: usize,
) -> Result<(), SqlError> {
    let table = maker.definition.table.clone();
    run.session.wrote(table.id);
    let mut added: BTreeMap<usize, (Values, Row)> = BTreeMap::new();
    let mut batch = Batch::default();
    for (number, (old, new)) in pairs.into_iter().enumerate() {
        let columns = &maker.definition.columns;
        let shown: Row = columns
            .iter()
            .map(|c| datum_of(new[usize::from(c.column.0)].clone(), &c.sql_type, run))
            .collect();
        let (key, new_key) = (maker.primary_key(&old), maker.primary_key(&new));
        if key == new_key {
            let changed = (0..new.len()).filter(|at| new[*at] != old[*at]);
            let assignments = changed.map(|at| {
                (model::ColumnId(at as u16), KernelExpression::Constant(new[at].clone()))
            });
            let operation = ClientOperation::update(table.id, key, assignments.collect());
            batch.push(operation.of_version(table.version), shown);
            batch.refer(maker, &new, Some(&old), &[followed])?;
        } else {
            let operation = ClientOperation::delete(table.id, key).of_version(table.version);
            batch.push(operation, shown.clone());
            batch.refer(maker, &new, Some(&old), &[followed])?;
            added.insert(number, (new, shown));
        }
        if batch.len() >= BATCH {
            batch.send(&run.session.kernel, maker, false).await?;
        }
    }
    batch.send(&run.session.kernel, maker, false).await?;
    for (new, shown) in added.into_values() {
        batch.push(ClientOperation::insert(table.id, new).of_version(table.version), shown);
        if batch.len() >= BATCH {
            batch.send(&run.session.kernel, maker, false).await?;
        }
    }
    batch.send(&run.session.kernel, maker, false).await.map(|_| ())
}
