//! UPDATE and DELETE of one row by primary key.
//!
//! # Owns
//! [`PointUpdate`], [`PointDelete`]: planned once, run with any parameters of the same kinds.
//! # Guarantees
//! The row is locked, changed and, outside a transaction, committed by one request, when all values
//! are known before it or are integer arithmetic, whose range the data node checks. Other values
//! are computed here from the locked row: a second request changes it.
//! # Not here
//! Columns of unique indexes: whose value is twice has to be said, so the general way looks first.
//! Columns of foreign keys, and rows that others may refer to.

use client::{ClientOperation, OperationAction, OperationAnswer};
use model::{ColumnId, ErrorCode, Expression as KernelExpression, Value};
use sql_expression::{
    Binder, Clause, Expression, KernelColumn, Node, Scope, SqlError, to_kernel_value,
};
use sql_parser::ast::{self, TableReference};
use sqltype::Datum;
use wire::{LockMode, Projection, WaitPolicy};

use super::{StoredKey, is_exact, stored_key};
use crate::catalog::column_at;
use crate::error::of_refusal;
use crate::execute::reference::Links;
use crate::execute::row::{RowMaker, kernel_value};
use crate::execute::run::Run;
use crate::execute::scan::{datum_of, kernel_columns};
use crate::insert_id::InsertId;
use crate::kernel::{Failure, Rejected};
use crate::logical::binder::QueryBinder;
use crate::logical::from::{self, From, Within};
use crate::logical::from_table::{JoinTree, Source};
use crate::logical::predicate;
use crate::plan::join::JoinPlanner;
use crate::plan::operator::{AccessPath, Operator, TableScan};
use crate::result::Outcome;
use crate::session::Session;

/// UPDATE of one row by primary key.
#[derive(Debug)]
pub(crate) struct PointUpdate {
    scan: Box<TableScan>,
    maker: RowMaker,
    assigned: Vec<Assigned>,
    /// The columns read: those assigned, in that order, and those that values are computed from.
    read: Vec<usize>,
    /// What the data node can compute with.
    columns: Vec<Option<KernelColumn>>,
}

/// DELETE of one row by primary key.
#[derive(Debug)]
pub(crate) struct PointDelete {
    scan: Box<TableScan>,
}

/// An assignment.
#[derive(Debug)]
struct Assigned {
    /// The column's place in the definition.
    at: usize,
    value: Expression,
    /// The value is computed from the row.
    uses_row: bool,
}

/// What is assigned before the row is known.
enum Values {
    /// All of it, as the data node is told.
    Known(Vec<(ColumnId, KernelExpression)>),
    /// The row has to be read first.
    OfRow,
    /// The general way knows what to make of it.
    Unusable,
}

/// The scan of one row by its primary key that a filter stands for.
fn row_by_key(
    binding: &mut QueryBinder<'_>,
    references: &[TableReference],
    filter: Option<&ast::Expr>,
) -> Result<Option<Box<TableScan>>, SqlError> {
    let ([TableReference::Table(_)], Some(filter)) = (references, filter) else {
        return Ok(None);
    };
    let mut scope = Scope::new(None);
    let Some(From { tables, .. }) = from::resolve(binding, references, &mut scope, Within::Change)?
    else {
        return Ok(None);
    };
    if !matches!(tables[0].source, Source::Table(_)) || tables[0].view.is_some() {
        return Ok(None);
    }
    let mut conditions = Vec::new();
    predicate::split(Binder::new(&scope, binding).bind(filter, Clause::Where)?, &mut conditions);
    let width = scope.width() as usize;
    let pauses = binding.session.pauses();
    let joins = JoinPlanner { tables: &tables, plans: &[], width, pauses };
    let root = joins.plan(JoinTree::Table(0), conditions)?;
    let Operator::Scan(scan) = root else { return Ok(None) };
    let AccessPath::Primary { keys } = &scan.path else { return Ok(None) };
    let exact = keys.len() == 1 && is_exact(&scan, &keys[0]);
    Ok(exact.then_some(scan))
}

impl PointUpdate {
    /// The plan of an UPDATE that is of this form.
    ///
    /// # Errors
    /// Names that are not known, as the general way says them.
    pub(crate) fn plan(
        binding: &mut QueryBinder<'_>,
        update: &ast::Update,
    ) -> Result<Option<Self>, SqlError> {
        let unordered = update.limit.is_none() && update.order_by.is_empty();
        if update.with.is_some() || update.ignore || !unordered {
            return Ok(None);
        }
        let scan = row_by_key(binding, &update.tables, update.filter.as_ref())?;
        let Some(scan) = scan else { return Ok(None) };
        let maker = RowMaker::new(binding, &scan.definition, false)?;
        if !maker.is_plain() {
            return Ok(None);
        }
        let Some(assigned) = assignments(binding, &scan, update)? else { return Ok(None) };
        if assigned.iter().any(|assigned| maker.links.concern(&scan.definition, assigned.at)) {
            return Ok(None);
        }
        let mut read: Vec<usize> = assigned.iter().map(|assigned| assigned.at).collect();
        for assigned in &assigned {
            assigned.value.visit(&mut |part| {
                if let Some(at) = part.as_column().map(|at| at as usize)
                    && !read.contains(&at)
                {
                    read.push(at);
                }
            });
        }
        let columns = kernel_columns(&scan);
        Ok(Some(Self { scan, maker, assigned, read, columns }))
    }

    /// The expressions it evaluates.
    pub(crate) fn expressions(&self) -> Option<impl Iterator<Item = &Expression>> {
        Some(self.assigned.iter().map(|assigned| &assigned.value))
    }

    /// Runs it; `None` when the values at hand need the general way.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        parameters: &[Datum],
    ) -> Result<Option<Outcome>, SqlError> {
        let mut run = Run::new(session, parameters);
        run.context.strict = run.context.facts.sql_mode.is_strict();
        let result = self.change(&mut run).await;
        run.finish();
        result
    }

    async fn change(&self, run: &mut Run<'_>) -> Result<Option<Outcome>, SqlError> {
        let key = match stored_key(&self.scan, &run.context.parameters) {
            StoredKey::Known(key) => key,
            StoredKey::NoRow => return Ok(Some(updated(run, 0, 0))),
            StoredKey::Unusable => return Ok(None),
        };
        let values = match self.values(run)? {
            Values::Known(values) => values,
            Values::OfRow => return self.change_locked(run, key).await,
            Values::Unusable => return Ok(None),
        };
        run.session.wrote(self.scan.definition.table.id);
        let read = self.read(&key);
        let write = self.write(key, values.clone());
        let commit = run.session.autocommits();
        let answers = match run.session.kernel.execute_all(vec![read, write], commit).await {
            Ok(answers) => answers,
            Err(rejected) => return self.refused(run, rejected),
        };
        // The answer to a commit that was lost and found again has no values: it did change.
        let changed = match answers.first() {
            Some(OperationAnswer::Row(old)) => self.differs(run, old, &values),
            _ => true,
        };
        Ok(Some(updated(run, 1, changed.into())))
    }

    /// Locks the row, computes what is assigned from it, and changes it.
    async fn change_locked(
        &self,
        run: &mut Run<'_>,
        key: Vec<Value>,
    ) -> Result<Option<Outcome>, SqlError> {
        run.session.wrote(self.scan.definition.table.id);
        let answers = match run.session.kernel.execute_all(vec![self.read(&key)], false).await {
            Ok(answers) => answers,
            Err(rejected) => return self.refused(run, rejected),
        };
        let Some(OperationAnswer::Row(old)) = answers.first() else { return Ok(None) };
        let row = self.row_of(run, old);
        let (mut values, mut changed) = (Vec::with_capacity(self.assigned.len()), false);
        for (assigned, old) in self.assigned.iter().zip(old) {
            let Some(value) = self.stored(run, assigned, &row)? else { return Ok(None) };
            changed |= value != *old;
            let column = self.scan.definition.columns[assigned.at].column;
            values.push((column, KernelExpression::Constant(value)));
        }
        if changed {
            let (write, commit) = (self.write(key, values), run.session.autocommits());
            if let Err(rejected) = run.session.kernel.execute_all(vec![write], commit).await {
                return self.refused(run, rejected);
            }
        }
        Ok(Some(updated(run, 1, changed.into())))
    }

    /// Reads the columns that are needed, and locks the row.
    fn read(&self, key: &[Value]) -> ClientOperation {
        let of_read = |at: &usize| self.scan.definition.columns[*at].column;
        let table = &self.scan.definition.table;
        let action = OperationAction::Read {
            key: key.to_vec(),
            lock: LockMode::Exclusive,
            wait: WaitPolicy::Wait,
            projection: Projection::Columns(self.read.iter().map(of_read).collect()),
            snapshot: None,
        };
        ClientOperation { table: table.id, version: Some(table.version), action }
    }

    /// Changes the row.
    fn write(&self, key: Vec<Value>, values: Vec<(ColumnId, KernelExpression)>) -> ClientOperation {
        let table = &self.scan.definition.table;
        ClientOperation::update(table.id, key, values).of_version(table.version)
    }

    /// What is assigned, as far as it is known before the row.
    fn values(&self, run: &mut Run<'_>) -> Result<Values, SqlError> {
        let columns = &self.scan.definition.columns;
        let computed = |assigned: &Assigned| {
            if assigned.uses_row {
                let known = run.with_parameters(&assigned.value);
                // Only the column's own arithmetic: its range is checked where it is stored.
                to_kernel_value(&known, &columns[assigned.at].sql_type, &self.columns).map(Some)
            } else {
                Some(None)
            }
        };
        let Some(computed) = self.assigned.iter().map(computed).collect::<Option<Vec<_>>>() else {
            return Ok(Values::OfRow);
        };
        let mut values = Vec::with_capacity(computed.len());
        for (assigned, computed) in self.assigned.iter().zip(computed) {
            let value = match computed {
                Some(computed) => computed,
                None => match self.stored(run, assigned, &[])? {
                    Some(value) => KernelExpression::Constant(value),
                    None => return Ok(Values::Unusable),
                },
            };
            values.push((columns[assigned.at].column, value));
        }
        Ok(Values::Known(values))
    }

    /// What an assignment gives for a row; nothing where a NULL would become something else.
    fn stored(
        &self,
        run: &mut Run<'_>,
        assigned: &Assigned,
        row: &[Datum],
    ) -> Result<Option<Value>, SqlError> {
        let Assigned { at, value, .. } = assigned;
        let column = &self.scan.definition.columns[*at];
        let datum = value.unrounded(row, &mut run.context)?.into_owned();
        let datum = self.maker.store_value(run, *at, datum, value)?;
        if datum.is_null() && !column.nullable {
            if !run.context.strict {
                return Ok(None);
            }
            return Err(SqlError::of::<1048>(&[&column.name]));
        }
        Ok(Some(kernel_value(run, &datum, &column.sql_type)))
    }

    /// Whether what was assigned is another value than what was there.
    fn differs(
        &self,
        run: &mut Run<'_>,
        old: &[Value],
        assigned: &[(ColumnId, KernelExpression)],
    ) -> bool {
        let mut row = Vec::new();
        let mut changed = false;
        for (number, (_, new)) in assigned.iter().enumerate() {
            changed |= match new {
                KernelExpression::Constant(new) => old[number] != *new,
                _ => {
                    if row.is_empty() {
                        row = self.row_of(run, old);
                    }
                    let Assigned { at, value, .. } = &self.assigned[number];
                    let computed = value.unrounded(&row, &mut run.context);
                    // The data node has computed it: it can be computed.
                    computed.map_or(true, |computed| *computed != row[*at])
                }
            };
        }
        changed
    }

    /// The row that expressions see, with the columns that were read.
    fn row_of(&self, run: &Run<'_>, old: &[Value]) -> Vec<Datum> {
        let columns = &self.scan.definition.columns;
        let mut row = vec![Datum::Null; columns.len()];
        for (at, value) in self.read.iter().zip(old) {
            row[*at] = datum_of(value.clone(), &columns[*at].sql_type, run);
        }
        row
    }

    fn refused(&self, run: &Run<'_>, rejected: Rejected) -> Result<Option<Outcome>, SqlError> {
        let (Failure::Refused(refusal) | Failure::Aborted(refusal)) = &rejected.failure else {
            return Err(rejected.failure.into());
        };
        Err(match refusal.code {
            ErrorCode::RowNotFound => return Ok(Some(updated(run, 0, 0))),
            // Whether the sum or the column is too small is told by computing it here.
            ErrorCode::ValueOutOfRange => return Ok(None),
            _ => of_refusal(refusal),
        })
    }
}

/// Assignments of columns that are in no key whose value must be unique, each to a value that is
/// known, or that the data node can compute; none when there is another.
fn assignments(
    binding: &mut QueryBinder<'_>,
    scan: &TableScan,
    update: &ast::Update,
) -> Result<Option<Vec<Assigned>>, SqlError> {
    let definition = scan.definition.clone();
    let mut scope = Scope::new(None);
    if from::resolve(binding, &update.tables, &mut scope, Within::Change)?.is_none() {
        return Ok(None);
    }
    let mut binder = Binder::new(&scope, binding);
    let mut assigned: Vec<Assigned> = Vec::with_capacity(update.assignments.len());
    for assignment in &update.assignments {
        let at = column_at(&definition, assignment.column.column.as_str())?;
        let column = definition.columns[at].column;
        let table = &definition.table;
        let is_repeated = assigned.iter().any(|other| other.at == at);
        let is_unique = table.unique_indexes.iter().any(|index| index.columns.contains(&column));
        // Whether a large value changes is known when the old one is there as a whole.
        let is_large = table.large.as_ref().is_some_and(|large| large.columns.contains(&column));
        let is_generated = definition.columns[at].auto_increment;
        if is_repeated
            || is_unique
            || is_large
            || is_generated
            || table.primary_key.contains(&column)
        {
            return Ok(None);
        }
        if matches!(assignment.value, ast::Expr::DefaultValue) {
            return Ok(None);
        }
        let value = binder.bind(&assignment.value, Clause::FieldList)?;
        let mut uses_row = false;
        let waits = value.any(&mut |part| match part.node {
            Node::Column { index, .. } => {
                uses_row = true;
                // Later assignments see the values of earlier ones.
                assigned.iter().any(|other| other.at == index as usize)
            }
            Node::Subquery(_) | Node::Deferred(_) | Node::Assign { .. } => true,
            _ => false,
        });
        if waits {
            return Ok(None);
        }
        // It acts when it is evaluated: for a row that is there, and for no other.
        uses_row |= value.any(&mut |part| match &part.node {
            Node::Call(call) => call.function.name == "last_insert_id(n)",
            _ => false,
        });
        assigned.push(Assigned { at, value, uses_row });
    }
    Ok(Some(assigned))
}

fn updated(run: &Run<'_>, matched: u64, changed: u64) -> Outcome {
    let warnings = run.context.warnings.count;
    let mut info = String::with_capacity(48);
    for (what, count) in
        [("Rows matched: ", matched), ("  Changed: ", changed), ("  Warnings: ", warnings)]
    {
        info.push_str(what);
        // Formatting takes hundreds of instructions, and here it is most often one digit.
        match u8::try_from(count) {
            Ok(digit @ 0..=9) => info.push(char::from(b'0' + digit)),
            _ => info.push_str(&count.to_string()),
        }
    }
    let affected = if run.session.count_matched { matched } else { changed };
    Outcome::Done { affected, id: InsertId::of_update(&run.context), info }
}

impl PointDelete {
    /// The plan of a DELETE that is of this form.
    ///
    /// # Errors
    /// Names that are not known, as the general way says them.
    pub(crate) fn plan(
        binding: &mut QueryBinder<'_>,
        delete: &ast::Delete,
    ) -> Result<Option<Self>, SqlError> {
        let ast::DeleteTarget::Single { table, alias, partitions } = &delete.target else {
            return Ok(None);
        };
        let unordered = delete.limit.is_none() && delete.order_by.is_empty();
        if delete.with.is_some() || !unordered || !partitions.is_empty() {
            return Ok(None);
        }
        let references = [TableReference::named(table.clone(), alias.clone())];
        let scan = row_by_key(binding, &references, delete.filter.as_ref())?;
        let Some(scan) = scan else { return Ok(None) };
        // Who refers to the row has to be looked for when it is locked.
        let has_children = Links::planned(binding, &scan.definition)?.has_children();
        Ok((!has_children).then_some(Self { scan }))
    }

    /// Runs it; `None` when the values at hand need the general way.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        parameters: &[Datum],
    ) -> Result<Option<Outcome>, SqlError> {
        let key = match stored_key(&self.scan, parameters) {
            StoredKey::Known(key) => key,
            StoredKey::NoRow => return Ok(Some(Outcome::affected(0))),
            StoredKey::Unusable => return Ok(None),
        };
        let table = &self.scan.definition.table;
        session.wrote(table.id);
        let operation = ClientOperation::delete(table.id, key).of_version(table.version);
        let commit = session.autocommits();
        match session.kernel.execute_all(vec![operation], commit).await {
            Ok(_) => Ok(Some(Outcome::affected(1))),
            Err(Rejected {
                failure: Failure::Refused(refusal) | Failure::Aborted(refusal),
                ..
            }) if refusal.code == ErrorCode::RowNotFound => Ok(Some(Outcome::affected(0))),
            Err(rejected) => Err(rejected.failure.into()),
        }
    }
}
