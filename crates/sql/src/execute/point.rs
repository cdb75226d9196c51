//! Statements on one row by primary key: no operators, one request, rows written straight.
//!
//! # Owns
//! Which statements are such, and running them.
//! # Guarantees
//! They answer as the general way does; where that cannot be told beforehand (a key of another type
//! than its column, a table with generated columns) the general way is taken.

use client::{ClientOperation, OperationAnswer};
use model::{ColumnId, ErrorCode, Expression as KernelExpression, Value};
use sql_expression::{Binder, Clause, Expression, KernelColumn, Node, Scope, SqlError, to_kernel};
use sql_parser::ast::{self, TableReference};
use sqltype::Datum;
use wire::{LockMode, Projection, WaitPolicy};

use crate::error::of_refusal;
use crate::execute::insert::column_at;
use crate::execute::key::{KeyValue, key_value};
use crate::execute::row::{RowMaker, kernel_value};
use crate::execute::run::Run;
use crate::execute::scan::{datum_of, reader_of};
use crate::kernel::{Failure, Rejected};
use crate::plan::Planner;
use crate::plan::from::{self, From};
use crate::plan::join::{JoinPlanner, JoinTree, Source};
use crate::plan::operator::{AccessPath, Operator, QueryPlan, TableScan};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;

/// SELECT of columns of one row by primary key.
#[derive(Debug)]
pub(crate) struct PointSelect {
    columns: Vec<ResultColumn>,
    scan: TableScan,
    /// For each column of the result which of the fetched ones it is.
    picked: Vec<usize>,
}

/// The point form of a plan, if it has one.
pub(crate) fn select(plan: &QueryPlan) -> Option<PointSelect> {
    let Operator::Project { input, expressions } = &plan.root else { return None };
    let Operator::Scan(scan) = &**input else { return None };
    let AccessPath::Primary { keys } = &scan.path else { return None };
    let exact = is_exact(scan, &keys.first().filter(|_| keys.len() == 1)?[..]);
    if !exact || scan.lock.is_some() || plan.counts_found_rows {
        return None;
    }
    let picked: Option<Vec<usize>> = expressions
        .iter()
        .map(|formula| {
            let place = formula.expression.as_column()? as usize;
            let at = place.checked_sub(scan.offset)?;
            scan.wanted.iter().position(|wanted| *wanted == at)
        })
        .collect();
    let scan = TableScan {
        definition: scan.definition.clone(),
        alias: scan.alias.clone(),
        offset: 0,
        width: scan.definition.columns.len(),
        wanted: scan.wanted.clone(),
        path: scan.path.clone(),
        conditions: Vec::new(),
        lock: None,
        limit: None,
        ordered: None,
        hidden: None,
    };
    Some(PointSelect { columns: plan.columns.clone(), scan, picked: picked? })
}

/// Whether the conditions say nothing but `key = value`, with values that are known at once.
fn is_exact(scan: &TableScan, keys: &[Expression]) -> bool {
    let simple = |value: &Expression| matches!(value.node, Node::Constant(_) | Node::Parameter(_));
    scan.conditions.len() == keys.len() && keys.iter().all(simple)
}

impl PointSelect {
    /// Runs it; `None` when the values at hand need the general way.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        parameters: &[Datum],
        out: &mut ResultWriter,
    ) -> Result<Option<Outcome>, SqlError> {
        let AccessPath::Primary { keys } = &self.scan.path else { return Ok(None) };
        let definition = &self.scan.definition;
        let mut key = Vec::with_capacity(keys[0].len());
        for (value, column) in keys[0].iter().zip(&definition.table.primary_key) {
            let datum = match &value.node {
                Node::Constant(datum) => Some(datum),
                Node::Parameter(number) => parameters.get(*number as usize),
                _ => None,
            };
            let of = definition.columns.iter().find(|c| c.column == *column);
            let (Some(datum), Some(of)) = (datum, of) else { return Ok(None) };
            if datum.is_null() {
                return Ok(Some(self.nothing(session, out)));
            }
            match key_value(datum, &of.sql_type) {
                KeyValue::Exact(value) => key.push(value),
                KeyValue::NoMatch => return Ok(Some(self.nothing(session, out))),
                KeyValue::Unusable => return Ok(None),
            }
        }
        let mut run = Run::new(session, &[]);
        let found = match reader_of(&mut run, &self.scan).await {
            Ok(reader) => reader.by_primary_key(vec![key]).await.map_err(SqlError::from),
            Err(error) => Err(error),
        };
        let row: Option<Vec<Datum>> = found.as_ref().ok().and_then(|rows| {
            let values = rows.first()?.as_ref()?;
            let pick = |at: &usize| {
                let sql_type = &definition.columns[self.scan.wanted[*at]].sql_type;
                datum_of(values[*at].clone(), sql_type, &run)
            };
            Some(self.picked.iter().map(pick).collect())
        });
        run.finish();
        found?;
        out.columns(&self.columns);
        session.found_rows = row.is_some().into();
        if let Some(row) = row {
            out.row(&row);
        }
        Ok(Some(Outcome::Rows))
    }

    fn nothing(&self, session: &mut Session, out: &mut ResultWriter) -> Outcome {
        out.columns(&self.columns);
        session.found_rows = 0;
        Outcome::Rows
    }
}

/// A change of one row, bound.
struct Target {
    scan: Box<TableScan>,
    maker: RowMaker,
}

/// The table and key of a change, when it is one row by primary key.
fn target(
    planner: &mut Planner<'_>,
    references: &[TableReference],
    filter: Option<&ast::Expr>,
) -> Result<Option<Target>, SqlError> {
    let ([TableReference::Table(_)], Some(filter)) = (references, filter) else {
        return Ok(None);
    };
    let mut scope = Scope::new(None);
    let Some(From { tables, .. }) = from::resolve(planner, references, &mut scope)? else {
        return Ok(None);
    };
    let Source::Table(definition) = &tables[0].source else { return Ok(None) };
    let definition = definition.clone();
    let mut conditions = Vec::new();
    from::split(Binder::new(&scope, planner).bind(filter, Clause::Where)?, &mut conditions);
    let width = scope.width() as usize;
    let root = JoinPlanner { tables: &tables, width }.plan(JoinTree::Table(0), conditions)?;
    let Operator::Scan(scan) = root else { return Ok(None) };
    let AccessPath::Primary { keys } = &scan.path else { return Ok(None) };
    if keys.len() != 1 || !is_exact(&scan, &keys[0]) {
        return Ok(None);
    }
    let maker = RowMaker::new(planner, &definition, false)?;
    Ok(maker.is_plain().then_some(Target { scan, maker }))
}

/// The stored key; `Err(true)` when no row can have it, `Err(false)` when the general way must
/// tell.
fn stored_key(run: &mut Run<'_>, scan: &TableScan) -> Result<Result<Vec<Value>, bool>, SqlError> {
    let AccessPath::Primary { keys } = &scan.path else { return Ok(Err(false)) };
    let definition = &scan.definition;
    let mut key = Vec::new();
    for (expression, column) in keys[0].iter().zip(&definition.table.primary_key) {
        let Some(of) = definition.columns.iter().find(|c| c.column == *column) else {
            return Ok(Err(false));
        };
        let datum = expression.eval(&[], &mut run.context)?;
        if datum.is_null() {
            return Ok(Err(true));
        }
        match key_value(&datum, &of.sql_type) {
            KeyValue::Exact(value) => key.push(value),
            KeyValue::NoMatch => return Ok(Err(true)),
            KeyValue::Unusable => return Ok(Err(false)),
        }
    }
    Ok(Ok(key))
}

/// UPDATE of one row by primary key; `None` when it is no such statement.
pub(crate) async fn update(
    session: &mut Session,
    update: &ast::Update,
    parameters: &[Datum],
) -> Result<Option<Outcome>, SqlError> {
    if update.limit.is_some() || !update.order_by.is_empty() || update.ignore {
        return Ok(None);
    }
    let mut planner = Planner::new(session, parameters);
    let Some(Target { scan, maker }) =
        target(&mut planner, &update.tables, update.filter.as_ref())?
    else {
        return Ok(None);
    };
    let Some(assigned) = assignments(&mut planner, &scan, update)? else { return Ok(None) };
    let mut run = Run::new(session, parameters);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    let result = change(&mut run, &scan, &maker, &assigned).await;
    run.finish();
    result
}

/// Assignments of columns that are in no primary key, each to a value that is known, or that the
/// data node can compute; none when there is another.
fn assignments(
    planner: &mut Planner<'_>,
    scan: &TableScan,
    update: &ast::Update,
) -> Result<Option<Vec<(usize, Expression)>>, SqlError> {
    let definition = scan.definition.clone();
    let mut scope = Scope::new(None);
    if from::resolve(planner, &update.tables, &mut scope)?.is_none() {
        return Ok(None);
    }
    let mut binder = Binder::new(&scope, planner);
    let mut assigned: Vec<(usize, Expression)> = Vec::new();
    for assignment in &update.assignments {
        let at = column_at(&definition, assignment.column.column.as_str())?;
        let column = definition.columns[at].column;
        let repeated = assigned.iter().any(|(other, _)| *other == at);
        if repeated || definition.table.primary_key.contains(&column) {
            return Ok(None);
        }
        if matches!(assignment.value, ast::Expr::DefaultValue) {
            return Ok(None);
        }
        let value = binder.bind(&assignment.value, Clause::FieldList)?;
        let uses_assigned = value.any(&mut |part| match part.node {
            Node::Column { index, .. } => {
                assigned.iter().any(|(other, _)| *other == index as usize)
            }
            Node::Subquery(_) | Node::Deferred(_) | Node::Assign { .. } => true,
            _ => false,
        });
        if uses_assigned {
            return Ok(None);
        }
        assigned.push((at, value));
    }
    Ok(Some(assigned))
}

async fn change(
    run: &mut Run<'_>,
    scan: &TableScan,
    maker: &RowMaker,
    assigned: &[(usize, Expression)],
) -> Result<Option<Outcome>, SqlError> {
    let key = match stored_key(run, scan)? {
        Ok(key) => key,
        Err(true) => return Ok(Some(updated(run, 0, 0))),
        Err(false) => return Ok(None),
    };
    let definition = &scan.definition;
    let columns: Vec<Option<KernelColumn>> = crate::execute::scan::kernel_columns(scan);
    let mut values: Vec<(ColumnId, KernelExpression)> = Vec::new();
    for (at, expression) in assigned {
        let column = &definition.columns[*at];
        let uses_row = expression.any(&mut |part| matches!(part.node, Node::Column { .. }));
        let value = if uses_row {
            let known = run.with_parameters(expression);
            // Only the column's own arithmetic: its range is checked where it is stored.
            match to_kernel(&known, &columns) {
                Some(kernel) if is_integer(&column.sql_type) => kernel,
                _ => return Ok(None),
            }
        } else {
            let datum = expression.eval(&[], &mut run.context)?;
            let datum = maker.store(run, *at, datum, expression.sql_type())?;
            if datum.is_null() && !column.nullable {
                return Err(SqlError::of(1048, &[&column.name]));
            }
            KernelExpression::Constant(kernel_value(run, &datum, &column.sql_type))
        };
        values.push((column.column, value));
    }
    let table = definition.table.id;
    run.session.wrote(table);
    let projection = Projection::Columns(values.iter().map(|(column, _)| *column).collect());
    let read = ClientOperation {
        table,
        action: client::OperationAction::Read {
            key: key.clone(),
            lock: LockMode::Exclusive,
            wait: WaitPolicy::Wait,
            projection,
        },
    };
    let write = ClientOperation::update(table, key, values.clone());
    let commit = run.session.autocommits();
    let answers = match run.session.kernel.execute_all(vec![read, write], commit).await {
        Ok(answers) => answers,
        Err(rejected) => return refused(run, maker, assigned, rejected),
    };
    // The answer to a commit that was lost and found again has no values: it did change.
    let changed = match answers.first() {
        Some(OperationAnswer::Row(old)) => {
            old.iter().zip(&values).any(|(old, (_, new))| match new {
                KernelExpression::Constant(new) => old != new,
                _ => *old != Value::Null,
            })
        }
        _ => true,
    };
    Ok(Some(updated(run, 1, changed.into())))
}

/// Whole numbers of 1, 2, 4 and 8 bytes.
pub(crate) fn is_integer(sql_type: &sqltype::SqlType) -> bool {
    use sqltype::TypeKind;
    matches!(
        sql_type.kind,
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt
    )
}

fn updated(run: &Run<'_>, matched: u64, changed: u64) -> Outcome {
    let warnings = run.context.warnings.count;
    let info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}");
    let affected = if run.session.count_matched { matched } else { changed };
    Outcome::Done { affected, last_insert_id: 0, info }
}

fn refused(
    run: &Run<'_>,
    maker: &RowMaker,
    assigned: &[(usize, Expression)],
    rejected: Rejected,
) -> Result<Option<Outcome>, SqlError> {
    let (Failure::Refused(refusal) | Failure::Aborted(refusal)) = &rejected.failure else {
        return Err(rejected.failure.into());
    };
    Err(match refusal.code {
        ErrorCode::RowNotFound => return Ok(Some(updated(run, 0, 0))),
        ErrorCode::ValueOutOfRange => {
            let name = assigned.first().map(|(at, _)| maker.definition.columns[*at].name.as_str());
            SqlError::of(1264, &[&name.unwrap_or_default(), &1])
        }
        // Which value is twice is found out by the general way's rows; here only the key is known.
        ErrorCode::UniqueViolation => {
            let key = format!("{}.{}", maker.definition.name, refusal.detail);
            SqlError::of(1062, &[&"?", &key])
        }
        _ => of_refusal(refusal),
    })
}

/// DELETE of one row by primary key; `None` when it is no such statement.
pub(crate) async fn delete(
    session: &mut Session,
    delete: &ast::Delete,
    parameters: &[Datum],
) -> Result<Option<Outcome>, SqlError> {
    let ast::DeleteTarget::Single { table, alias, partitions } = &delete.target else {
        return Ok(None);
    };
    if delete.limit.is_some() || !delete.order_by.is_empty() || !partitions.is_empty() {
        return Ok(None);
    }
    let references = [TableReference::Table(Box::new(ast::TableFactor {
        name: table.clone(),
        partitions: Vec::new(),
        alias: alias.clone(),
        index_hints: Vec::new(),
    }))];
    let mut planner = Planner::new(session, parameters);
    let Some(Target { scan, .. }) = target(&mut planner, &references, delete.filter.as_ref())?
    else {
        return Ok(None);
    };
    let mut run = Run::new(session, parameters);
    let key = stored_key(&mut run, &scan);
    let commit = run.session.autocommits();
    let kernel = run.session.kernel.clone();
    run.session.wrote(scan.definition.table.id);
    run.finish();
    let key = match key? {
        Ok(key) => key,
        Err(true) => return Ok(Some(Outcome::affected(0))),
        Err(false) => return Ok(None),
    };
    let operation = ClientOperation::delete(scan.definition.table.id, key);
    match kernel.execute_all(vec![operation], commit).await {
        Ok(_) => Ok(Some(Outcome::affected(1))),
        Err(Rejected {
            failure: Failure::Refused(refusal) | Failure::Aborted(refusal), ..
        }) if refusal.code == ErrorCode::RowNotFound => Ok(Some(Outcome::affected(0))),
        Err(rejected) => Err(rejected.failure.into()),
    }
}
