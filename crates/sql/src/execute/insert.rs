//! INSERT and REPLACE.
//!
//! # Owns
//! Where rows come from, AUTO_INCREMENT values, what happens to duplicates (with `duplicate`).
//! # Guarantees
//! The rows of a statement travel in batches, not one by one, unless each has to be looked at after
//! the one before (ON DUPLICATE KEY UPDATE, REPLACE over unique keys). Those of a query are stored
//! while it goes on, and take no memory but that of a part of them, unless it might find what the
//! statement has stored.

mod duplicate;

use std::rc::Rc;

use client::{ClientOperation, OperationAnswer, Savepoint};
use model::{ErrorCode, Refusal, Value};
use sql_expression::{Binder, Clause, Expression, Level, Scope, ScopeColumn, ScopeTable, SqlError};
use sql_parser::LiteralRows;
use sql_parser::ast::{self, Expr, InsertSource};
use sqltype::Datum;
use wire::{Effect, LockMode, Projection, WaitPolicy};

use crate::access::{ReadMode, Reader};
use crate::catalog::{TableDefinition, column_at};
use crate::execute::generate::{generate, take};
use crate::execute::kept::Kept;
use crate::execute::reference;
use crate::execute::reference::batch::{Batch, refused};
use crate::execute::reference::children::{self, Cascade};
use crate::execute::row::{RowMaker, kernel_value};
use crate::execute::run::Run;
use crate::execute::scan::datum_of;
use crate::insert_id::{InsertId, RowId, StoredIds};
use crate::large::read::complete_locked;
use crate::logical::formula::Formula;
use crate::logical::from::definition_columns;
use crate::logical::merge::InsertThrough;
use crate::plan::operator::{Operator, QueryPlan, Subplan};
use crate::plan::planner::Planner;
use crate::prepared::cache::datum_of_row_literal;
use crate::result::Outcome;
use crate::rows::{Row, memory_of_row};
use crate::sequences::Spacing;
use crate::session::Session;

use duplicate::Duplicates;

/// Operations in one request, at most.
pub(crate) const BATCH: usize = 256;

/// A planned INSERT.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    maker: RowMaker,
    /// Columns given, in the order of the values.
    columns: Vec<usize>,
    source: Source,
    duplicates: Duplicates,
    subplans: Vec<Subplan>,
    replace: bool,
}

#[derive(Debug)]
enum Source {
    /// Values of each row; none for DEFAULT.
    Values(Vec<Vec<Option<Formula>>>),
    /// Literals that come with each execution.
    Literals,
    Query(QuerySource),
}

#[derive(Debug)]
struct QuerySource {
    plan: Rc<QueryPlan>,
    /// Its rows may be stored while it goes on: it does not find what the statement stores.
    streams: bool,
}

/// Runs INSERT or REPLACE, planned for this once.
pub(crate) async fn insert(
    session: &mut Session,
    insert: &ast::Insert,
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    let plan = plan(&mut Planner::new(session, parameters), insert)?;
    plan.run(session, parameters, None).await
}

impl InsertPlan {
    /// Runs it, with these rows where they are not in the plan.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        parameters: &[Datum],
        rows: Option<&LiteralRows>,
    ) -> Result<Outcome, SqlError> {
        let mut run = Run::new(session, parameters);
        run.context.strict = run.context.facts.sql_mode.is_strict();
        run.context.ignore = self.maker.ignore;
        run.add_subplans(&self.subplans);
        let result = execute(&mut run, self, rows).await;
        run.finish();
        result
    }

    /// Whether rows are stored, or refused, as they are.
    fn is_plain(&self) -> bool {
        !self.replace && self.duplicates.assignments.is_empty()
    }

    /// The expressions it evaluates; nothing when it holds queries.
    pub(crate) fn expressions(&self) -> Option<impl Iterator<Item = &Expression>> {
        let rows: &[_] = match &self.source {
            Source::Values(rows) => rows,
            Source::Literals => &[],
            Source::Query(_) => return None,
        };
        let given = rows.iter().flatten().flatten();
        let formulas = given.chain(self.duplicates.assignments.iter().map(|(_, formula)| formula));
        self.subplans.is_empty().then(|| formulas.map(|formula| &formula.expression))
    }
}

/// Plans INSERT or REPLACE.
pub(crate) fn plan(
    planner: &mut Planner<'_>,
    insert: &ast::Insert,
) -> Result<InsertPlan, SqlError> {
    if !insert.partitions.is_empty() {
        return Err(SqlError::not_supported("INSERT ... PARTITION"));
    }
    let verb = if insert.replace { "REPLACE" } else { "INSERT" };
    match planner.binding.insert_through_view(insert, verb)? {
        Some(through) => {
            let mut planned = plan_into_table(planner, &through.insert, Some(&through))?;
            planned.maker.view_check = through.check;
            Ok(planned)
        }
        None => plan_into_table(planner, insert, None),
    }
}

/// The same for an INSERT whose table is one, perhaps that of a view.
fn plan_into_table(
    planner: &mut Planner<'_>,
    insert: &ast::Insert,
    through: Option<&InsertThrough>,
) -> Result<InsertPlan, SqlError> {
    let definition = planner.binding.definition(&insert.table)?;
    let maker = RowMaker::new(&mut planner.binding, &definition, insert.ignore)?;
    let columns = columns_of(&definition, insert)?;
    let (mut duplicates, mut extended) = (Duplicates::default(), None);
    let target = Target { definition: &definition, through };
    if !insert.on_duplicate.is_empty() {
        (duplicates, extended) =
            duplicate::plan(planner, insert, target, &columns, target.scope())?;
    }
    let scope = target.scope();
    let source = match &insert.source {
        InsertSource::Values(rows) => {
            let mut binder = Binder::new(&scope, &mut planner.binding);
            let mut bound = Vec::with_capacity(rows.len());
            for (number, row) in rows.iter().enumerate() {
                // `VALUES ()` is a row of defaults.
                if row.len() != columns.len() && !row.is_empty() {
                    return Err(SqlError::of::<1136>(&[&(number + 1)]));
                }
                let mut values = Vec::with_capacity(row.len());
                for expr in row {
                    values.push(match expr {
                        Expr::DefaultValue => None,
                        expr => Some(Formula::new(binder.bind(expr, Clause::FieldList)?)),
                    });
                }
                bound.push(values);
            }
            Source::Values(bound)
        }
        InsertSource::Literals(width) if *width as usize == columns.len() => Source::Literals,
        InsertSource::Literals(_) => return Err(SqlError::of::<1136>(&[&1])),
        InsertSource::Query(query) => {
            let others = std::mem::take(&mut planner.binding.tables);
            let bound = planner.binding.bind_query(query, None)?;
            if bound.columns.len() != columns.len() {
                return Err(SqlError::of::<1136>(&[&1]));
            }
            let plan = match &extended {
                Some(query) => planner.query(query)?,
                None => planner.plan_of(bound)?,
            };
            let target = definition.table.id;
            let reads = planner.binding.tables.iter().any(|(table, _)| *table == target);
            for table in others {
                if !planner.binding.tables.contains(&table) {
                    planner.binding.tables.push(table);
                }
            }
            let plan = Rc::new(plan.with_all_digits());
            let streams = !reads || plan.subqueries.is_empty() && is_read_once(&plan.root);
            Source::Query(QuerySource { plan, streams })
        }
    };
    let subplans = planner.take_subplans(&[])?;
    let replace = insert.replace;
    Ok(InsertPlan { maker, columns, source, duplicates, subplans, replace })
}

/// The table, and the view that the statement calls it by, if it does.
#[derive(Clone, Copy)]
struct Target<'a> {
    definition: &'a TableDefinition,
    through: Option<&'a InsertThrough>,
}

impl<'a> Target<'a> {
    /// The database and the name that the statement has for it.
    fn name(self) -> (&'a str, &'a str) {
        match self.through {
            Some(InsertThrough { name, .. }) => (&name.database, &name.name),
            None => (&self.definition.database, &self.definition.name),
        }
    }

    /// Its columns with the names that the statement has for them, as those of a table.
    fn columns(self, table: &str) -> Vec<ScopeColumn> {
        let mut columns = definition_columns(self.definition, table);
        if let Some(through) = self.through {
            through.view.rename(&mut columns, self.name().0, table);
        }
        columns
    }

    /// It, as expressions of the statement name it.
    fn scope(self) -> Scope<'static> {
        let (schema, name) = self.name();
        let (schema, columns) = (Some(schema.into()), self.columns(name));
        let mut scope = Scope::new(None);
        scope.add(ScopeTable { schema, name: name.into(), columns, offset: 0 });
        scope
    }
}

fn columns_of(definition: &TableDefinition, insert: &ast::Insert) -> Result<Vec<usize>, SqlError> {
    let Some(named) = &insert.columns else {
        let all = definition.columns.iter().enumerate();
        return Ok(all.filter(|(_, column)| !column.invisible).map(|(at, _)| at).collect());
    };
    let mut columns = Vec::with_capacity(named.len());
    for name in named {
        let at = column_at(definition, name.column.as_str())?;
        if columns.contains(&at) {
            return Err(SqlError::of::<1110>(&[&name.column]));
        }
        columns.push(at);
    }
    Ok(columns)
}

/// A row to be inserted.
struct New {
    /// Where the statement [is plain](InsertPlan::is_plain), only what messages show.
    row: Row,
    values: Vec<Value>,
    /// What the query has read beside it.
    read: Vec<Datum>,
    id: RowId,
}

/// What has been done so far.
#[derive(Debug, Default)]
struct Done {
    /// Rows that the statement has for the table.
    rows: u64,
    /// Rows affected.
    affected: u64,
    /// Rows that were in the way of others: deleted, updated or left alone.
    duplicates: u64,
    ids: StoredIds,
}

impl Done {
    /// A row has been stored where none was.
    fn stored(&mut self, id: RowId) {
        self.affected += 1;
        self.ids.add(id);
    }

    /// So many rows were in the way of one that was stored.
    fn replaced(&mut self, rows: u64) {
        self.affected += rows;
        self.duplicates += rows;
    }
}

async fn execute(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    literals: Option<&LiteralRows>,
) -> Result<Outcome, SqlError> {
    let mut done = Done::default();
    match &plan.source {
        Source::Query(query) if query.streams => {
            store_stream(run, plan, query, &mut done).await?;
        }
        _ => {
            let rows = rows_of(run, plan, literals).await?;
            store_part(run, plan, rows, &mut done, true).await?;
        }
    }
    let Done { rows: count, affected, duplicates, ids } = done;
    let shows = count > 1 || matches!(plan.source, Source::Query(_));
    let info = if shows {
        let warnings = run.context.warnings.count;
        format!("Records: {count}  Duplicates: {duplicates}  Warnings: {warnings}")
    } else {
        String::new()
    };
    Ok(Outcome::Done { affected, id: InsertId::of_insert(ids, &run.context), info })
}

/// Stores the rows of a query while it goes on, a part at a time.
async fn store_stream(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    query: &QuerySource,
    done: &mut Done,
) -> Result<(), SqlError> {
    let mut cursor = run.cursor_of(&query.plan);
    let mut ended = false;
    while !ended {
        let mut part = Kept { rows: Vec::new(), held: run.hold("the rows of an INSERT") };
        while part.rows.len() <= BATCH && !ended {
            match cursor.next(run).await? {
                Some(found) => {
                    add_found(run, plan, &query.plan, found, done.rows, &mut part).await?
                }
                None => ended = true,
            }
        }
        store_part(run, plan, part, done, ended).await?;
    }
    Ok(())
}

/// Stores some rows, the last ones or not.
async fn store_part(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    Kept { mut rows, mut held }: Kept,
    done: &mut Done,
    is_last: bool,
) -> Result<(), SqlError> {
    if rows.is_empty() && done.rows > 0 {
        return Ok(());
    }
    // Beside them stand their values as the kernel has them.
    held.add(held.bytes())?;
    let ids = generate(run, &plan.maker, &mut rows).await?;
    let (before, is_whole) = (done.rows, is_last && done.rows == 0);
    let mut new = Vec::with_capacity(rows.len());
    let hidden = match plan.maker.definition.hidden_key {
        Some(_) => take(run, &plan.maker, rows.len() as u64, Spacing::default()).await?,
        None => 0,
    };
    let count = rows.len() as u64;
    done.rows += count;
    let lenient = !run.context.strict && (count > 1 || matches!(plan.source, Source::Query(_)));
    for (number, mut row) in rows.into_iter().enumerate() {
        run.context.row_number = before + number as u64 + 1;
        let read = row.split_off(plan.maker.definition.columns.len());
        match plan.maker.complete(run, &mut row, lenient).await {
            Err(error) if plan.maker.leaves_out(&error) => {
                run.context.note(Level::Warning, error);
                continue;
            }
            completed => completed?,
        }
        let (hidden, id) = (hidden + number as u64, ids.of(number, &row));
        let values = if plan.is_plain() {
            plan.maker.moved_kernel_row(run, &mut row, hidden)
        } else {
            plan.maker.kernel_row(run, &row, hidden)
        };
        new.push(New { row, values, read, id });
        run.worked_to_write().await?;
    }
    let table = plan.maker.definition.table.id;
    run.session.wrote(table);
    if plan.replace {
        replace(run, plan, new, is_whole, done).await
    } else if !plan.duplicates.assignments.is_empty() {
        update_duplicates(run, plan, new, before, done).await
    } else {
        plain(run, plan, new, is_whole, done).await
    }
}

/// Whether a query reads one table, in one scan that is opened at once: rows that are stored after
/// that are not seen by it.
fn is_read_once(root: &Operator) -> bool {
    match root {
        Operator::Scan(scan) => scan.path.is_scan(),
        Operator::Filter { input, .. } | Operator::Project { input, .. } => is_read_once(input),
        _ => false,
    }
}

/// The values of the rows, converted to their columns' types, defaults filled in. AUTO_INCREMENT
/// columns that want a value are NULL.
async fn rows_of(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    literals: Option<&LiteralRows>,
) -> Result<Kept, SqlError> {
    let maker = &plan.maker;
    let width = maker.definition.columns.len();
    let mut kept = Kept { rows: Vec::new(), held: run.hold("the rows of an INSERT") };
    let mut all_given = vec![false; width];
    plan.columns.iter().for_each(|at| all_given[*at] = true);
    match &plan.source {
        Source::Values(all) => {
            for (number, values) in all.iter().enumerate() {
                run.context.row_number = number as u64 + 1;
                let mut row = vec![Datum::Null; width];
                let mut given = vec![false; width];
                for (at, value) in plan.columns.iter().zip(values) {
                    let Some(formula) = value else { continue };
                    let datum = run.unrounded(formula, &row).await?;
                    if takes_value(run, maker, *at)? {
                        row[*at] = maker.store_value(run, *at, datum, &formula.expression)?;
                    }
                    given[*at] = true;
                }
                add_row(run, maker, row, &given, [], &mut kept).await?;
            }
        }
        Source::Literals => {
            let literals = literals.expect("who took them out of the text hands them over");
            for number in 0..literals.count() {
                run.context.row_number = number as u64 + 1;
                let mut row = vec![Datum::Null; width];
                for (at, literal) in plan.columns.iter().zip(literals.row(number)) {
                    if takes_value(run, maker, *at)? {
                        let datum = datum_of_row_literal(literal);
                        let of = run.session.type_of(&datum).sql_type;
                        row[*at] = maker.store(run, *at, datum, &of)?;
                    }
                }
                add_row(run, maker, row, &all_given, [], &mut kept).await?;
            }
        }
        Source::Query(query) => {
            let Kept { rows: found, held: _of_found } = run.rows_of(&query.plan, None).await?;
            add_found(run, plan, &query.plan, found, 0, &mut kept).await?;
        }
    }
    Ok(kept)
}

/// Adds rows that the query has found, after those that are stored.
async fn add_found(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    query: &QueryPlan,
    found: Vec<Row>,
    stored: u64,
    kept: &mut Kept,
) -> Result<(), SqlError> {
    let maker = &plan.maker;
    let width = maker.definition.columns.len();
    let mut given = vec![false; width];
    plan.columns.iter().for_each(|at| given[*at] = true);
    for values in found {
        run.context.row_number = stored + kept.rows.len() as u64 + 1;
        let mut row = vec![Datum::Null; width];
        let mut values = values.into_iter();
        let given_values = values.by_ref().take(plan.columns.len());
        for ((at, datum), of) in plan.columns.iter().zip(given_values).zip(&query.results) {
            if takes_value(run, maker, *at)? {
                row[*at] = maker.store_result(run, *at, datum, of)?;
            }
        }
        add_row(run, maker, row, &given, values, kept).await?;
    }
    Ok(())
}

/// Adds a row: columns without a value get their default, and behind them stands what was read
/// beside it.
async fn add_row(
    run: &mut Run<'_>,
    maker: &RowMaker,
    mut row: Row,
    given: &[bool],
    read: impl IntoIterator<Item = Datum>,
    kept: &mut Kept,
) -> Result<(), SqlError> {
    maker.add_defaults(run, &mut row, given).await?;
    row.extend(read);
    kept.held.add(memory_of_row(&row))?;
    kept.rows.push(row);
    run.worked(1).await
}

/// Whether a value given for a column is its value. Generated columns take none: in strict mode
/// that is an error, otherwise a warning, so that dumps of tools that do not know can be loaded.
fn takes_value(run: &mut Run<'_>, maker: &RowMaker, at: usize) -> Result<bool, SqlError> {
    let column = &maker.definition.columns[at];
    if column.generated.is_none() {
        return Ok(true);
    }
    let error = SqlError::of::<3105>(&[&column.name, &maker.definition.name]);
    if run.context.strict && !maker.ignore {
        return Err(error);
    }
    run.context.note(Level::Warning, error);
    Ok(false)
}

/// Inserts rows in batches; duplicates are errors, or with IGNORE warnings.
async fn plain(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: Vec<New>,
    is_whole: bool,
    done: &mut Done,
) -> Result<(), SqlError> {
    let maker = &plan.maker;
    let is_linked = !maker.links.is_empty();
    if maker.ignore && (is_linked || !maker.definition.table.unique_indexes.is_empty()) {
        return unless_duplicate(run, plan, new, done).await;
    }
    if maker.ignore {
        return unless_exists(run, plan, new, done).await;
    }
    let alone = is_whole && run.session.autocommits() && new.len() <= BATCH;
    let mut new = new.into_iter().peekable();
    while new.peek().is_some() {
        let mut batch = Batch::default();
        let most = if alone { BATCH } else { run.portion(BATCH) };
        for new in new.by_ref().take(most) {
            done.stored(new.id);
            store(&mut batch, plan, new, ClientOperation::insert)?;
        }
        batch.send(&run.session.kernel, maker, alone).await?;
    }
    Ok(())
}

/// Adds a row to a batch, with the search for its parents.
fn store(
    batch: &mut Batch,
    plan: &InsertPlan,
    new: New,
    how: fn(model::TableId, Vec<Value>) -> ClientOperation,
) -> Result<(), SqlError> {
    let maker = &plan.maker;
    let table = &maker.definition.table;
    if !maker.links.has_parents() {
        batch.push(how(table.id, new.values).of_version(table.version), new.row);
        return Ok(());
    }
    batch.push(how(table.id, new.values.clone()).of_version(table.version), new.row);
    batch.refer(maker, &new.values, None, &[])
}

/// IGNORE without keys to look at: whatever is there already stays.
async fn unless_exists(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: Vec<New>,
    done: &mut Done,
) -> Result<(), SqlError> {
    let table = &plan.maker.definition.table;
    let mut new = new.into_iter().peekable();
    while new.peek().is_some() {
        let (mut rows, mut operations) = (Vec::new(), Vec::new());
        for row in new.by_ref().take(run.portion(BATCH)) {
            let insert = ClientOperation::insert(table.id, row.values);
            operations.push(insert.of_version(table.version));
            rows.push((row.row, row.id));
        }
        for ((row, id), answer) in rows.iter().zip(run.session.kernel.execute(operations).await?) {
            match answer {
                Ok(_) => done.stored(*id),
                Err(refusal) => {
                    let error = refused(&plan.maker, &refusal, row);
                    if !is_duplicate(&refusal) {
                        return Err(error);
                    }
                    run.context.note(Level::Warning, error);
                    done.duplicates += 1;
                }
            }
        }
    }
    Ok(())
}

/// IGNORE over unique keys: row by row, those that are in nobody's way.
async fn unless_duplicate(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: Vec<New>,
    done: &mut Done,
) -> Result<(), SqlError> {
    for new in new {
        if let Some((_, index)) = conflicting(run, plan, &new).await? {
            let error = plan.maker.duplicate(index.as_deref(), &new.row);
            run.context.note(Level::Warning, error);
            done.duplicates += 1;
            continue;
        }
        let (before, id) = (run.session.kernel.savepoint(), new.id);
        match insert_one(run, plan, new).await {
            Ok(()) => done.stored(id),
            Err(error) => {
                leave_out(run, before, error).await?;
                done.duplicates += 1;
            }
        }
    }
    Ok(())
}

/// With IGNORE: undoes what has been done for a row that a foreign key or a unique key refuses, and
/// goes on.
pub(crate) async fn leave_out(
    run: &mut Run<'_>,
    before: Savepoint,
    error: SqlError,
) -> Result<(), SqlError> {
    if error.code() != 1062 && !reference::leaves_out(&error) {
        return Err(error);
    }
    run.session.kernel.rollback_to(before).await?;
    run.context.note(Level::Warning, error);
    Ok(())
}

fn is_duplicate(refusal: &Refusal) -> bool {
    matches!(refusal.code, ErrorCode::RowExists | ErrorCode::UniqueViolation)
}

/// A row that keeps another from being inserted, locked, with the unique index by which it does,
/// none for the primary key; nothing when there is no such row.
async fn conflicting(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: &New,
) -> Result<Option<(Vec<Value>, Option<String>)>, SqlError> {
    let table = plan.maker.definition.table.clone();
    let reader = Reader {
        kernel: run.session.kernel.clone(),
        table: table.clone(),
        mode: ReadMode::Locking(LockMode::Exclusive, WaitPolicy::Wait),
        projection: Projection::All,
    };
    let found = reader.by_primary_key(vec![plan.maker.primary_key(&new.values)]).await?;
    if let Some(row) = found.into_iter().next().flatten() {
        return Ok(Some((row, None)));
    }
    for index in &table.unique_indexes {
        let key: Vec<Value> =
            index.columns.iter().map(|c| new.values[usize::from(c.0)].clone()).collect();
        if key.contains(&Value::Null) {
            continue;
        }
        let found = reader.by_unique_key(index.id, vec![key]).await?;
        if let Some(row) = found.into_iter().next().flatten() {
            return Ok(Some((row, Some(index.name.clone()))));
        }
    }
    Ok(None)
}

/// Inserts one row of which is known that nothing is in its way.
async fn insert_one(run: &mut Run<'_>, plan: &InsertPlan, new: New) -> Result<(), SqlError> {
    let mut batch = Batch::default();
    store(&mut batch, plan, new, ClientOperation::insert)?;
    batch.send(&run.session.kernel, &plan.maker, false).await.map(|_| ())
}

async fn replace(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: Vec<New>,
    is_whole: bool,
    done: &mut Done,
) -> Result<(), SqlError> {
    let maker = &plan.maker;
    let table = maker.definition.table.clone();
    if table.unique_indexes.is_empty() && !maker.links.has_children() {
        let alone = is_whole && run.session.autocommits() && new.len() <= BATCH;
        let mut new = new.into_iter().peekable();
        while new.peek().is_some() {
            let mut batch = Batch::default();
            let most = if alone { BATCH } else { run.portion(BATCH) };
            for new in new.by_ref().take(most) {
                done.stored(new.id);
                store(&mut batch, plan, new, ClientOperation::upsert)?;
            }
            for answer in batch.send(&run.session.kernel, maker, alone).await? {
                done.replaced(matches!(answer, OperationAnswer::Written(Effect::Changed)).into());
            }
        }
        return Ok(());
    }
    for new in new {
        let id = new.id;
        let mut is_there = false;
        while let Some((old, index)) = conflicting(run, plan, &new).await? {
            if stays(run, plan, &new, &old, index.as_deref()).await? {
                is_there = true;
                break;
            }
            // Who refers to the row that goes is asked, though another of its key comes.
            let (key, old) = (maker.primary_key(&old), [old]);
            let mut cascade = Cascade::default();
            cascade.goes(&maker.definition, &key);
            children::before_delete(run, &maker.links, &old, &mut cascade).await?;
            let delete = ClientOperation::delete(table.id, key).of_version(table.version);
            let deleted = run.session.kernel.execute_all(vec![delete], false).await;
            deleted.map_err(|rejected| SqlError::from(rejected.failure))?;
            done.replaced(1);
        }
        if !is_there {
            insert_one(run, plan, new).await?;
        }
        done.stored(id);
    }
    Ok(())
}

/// Whether the row that REPLACE finds in its way is the new one already, so that nothing is to be
/// done. As in MySQL it counts as deleted and inserted where it is found by another unique key than
/// the last one, or others may refer to it.
async fn stays(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: &New,
    old: &[Value],
    index: Option<&str>,
) -> Result<bool, SqlError> {
    let maker = &plan.maker;
    let definition = &maker.definition;
    if maker.links.has_children() || !maker.is_last_unique_key(index) {
        return Ok(false);
    }
    let old = complete_locked(&run.session.kernel, &definition.table, old.to_vec()).await?;
    Ok(definition.columns.iter().all(|column| {
        let at = usize::from(column.column.0);
        old[at] == new.values[at]
    }))
}

/// ON DUPLICATE KEY UPDATE: 1 for a new row, 2 for a changed one, 0 for one that stays as it was.
async fn update_duplicates(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: Vec<New>,
    stored: u64,
    done: &mut Done,
) -> Result<(), SqlError> {
    for (number, new) in new.into_iter().enumerate() {
        run.context.row_number = stored + number as u64 + 1;
        let (before, id) = (run.session.kernel.savepoint(), new.id);
        let result = match conflicting(run, plan, &new).await? {
            Some((old, _)) => update_duplicate(run, plan, new, old, done).await,
            None => insert_one(run, plan, new).await.map(|()| done.stored(id)),
        };
        match result {
            Ok(()) => {}
            Err(error) if plan.maker.ignore => leave_out(run, before, error).await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn update_duplicate(
    run: &mut Run<'_>,
    plan: &InsertPlan,
    new: New,
    old: Vec<Value>,
    done: &mut Done,
) -> Result<(), SqlError> {
    let old = complete_locked(&run.session.kernel, &plan.maker.definition.table, old).await?;
    let definition = &plan.maker.definition;
    let before: Row = definition
        .columns
        .iter()
        .map(|c| datum_of(old[usize::from(c.column.0)].clone(), &c.sql_type, run))
        .collect();
    let assignments = &plan.duplicates.assignments;
    let mut row = plan.duplicates.row(&before, &new.row, new.read);
    run.context.inserted = new.row;
    for (at, formula) in assignments {
        let value = run.unrounded(formula, &row).await?;
        row[*at] = plan.maker.store_value(run, *at, value, &formula.expression)?;
    }
    run.context.inserted.clear();
    row.truncate(before.len());
    // What the client is told when no row of the statement gets a new value.
    let id = definition.auto_increment().map_or(RowId::None, |(at, _)| RowId::given(&row[at]));
    let assigned: Vec<usize> = assignments.iter().map(|(at, _)| *at).collect();
    let changed =
        crate::execute::update::write(run, &plan.maker, &before, row, &assigned, &old).await?;
    if changed {
        done.replaced(1);
        done.stored(id);
    } else if run.session.count_matched {
        // The client counts rows that were found (CLIENT_FOUND_ROWS).
        done.affected += 1;
    }
    Ok(())
}

/// A datum as the kernel stores it in a column.
pub(crate) fn stored(
    run: &Run<'_>,
    definition: &TableDefinition,
    at: usize,
    datum: &Datum,
) -> Value {
    kernel_value(run, datum, &definition.columns[at].sql_type)
}
