//! UPDATE and DELETE: rows are found and locked like those of a locking SELECT, then changed in
//! batches by primary key.
//!
//! # Guarantees
//! Rows that one scan of one table finds are changed while it goes on, and take no memory but that
//! of a batch: a scan does not see what its transaction changes after it was opened. Where more is
//! read all rows are found first.

use std::collections::BTreeSet;
use std::rc::Rc;

use client::ClientOperation;
use model::{Expression as KernelExpression, TableId, Value};
use sql_expression::{Binder, Clause, Expression, Level, OrderBy, ResultType, Scope, SqlError};
use sql_parser::ast::{self, Expr, TableReference};
use sqltype::Datum;
use wire::{LockMode, WaitPolicy};

use crate::catalog::default::implicit_default;
use crate::catalog::{ColumnDefault, TableDefinition};
use crate::execute::cursor::{self, Cursor};
use crate::execute::generate::raise_above;
use crate::execute::insert::{BATCH, leave_out, stored};
use crate::execute::kept::Kept;
use crate::execute::large;
use crate::execute::reference::Links;
use crate::execute::reference::batch::Batch;
use crate::execute::reference::children::{Cascade, Pair, before_delete, before_update};
use crate::execute::row::{RowMaker, is_enum, now};
use crate::execute::run::{Run, Seen};
use crate::insert_id::InsertId;
use crate::logical::formula::{Formula, SortBy};
use crate::logical::from::{self, From, Within};
use crate::logical::from_table::{FromTable, Source, number_at};
use crate::logical::limit::bounds;
use crate::logical::predicate;
use crate::memory::Held;
use crate::plan::join::JoinPlanner;
use crate::plan::operator::{AccessPath, Operator, PlanNode, QueryPlan, Subplan, TableScan};
use crate::plan::planner::Planner;
use crate::result::Outcome;
use crate::rows::{Row, memory_of, memory_of_row};
use crate::session::Session;

/// The rows that a statement changes, and where the tables stand in them.
struct Found {
    root: PlanNode,
    subplans: Vec<Subplan>,
    tables: Vec<FromTable>,
}

/// What finds the rows.
struct Search<'a> {
    references: &'a [TableReference],
    filter: Option<&'a Expr>,
    order_by: &'a [ast::OrderItem],
    limit: Option<&'a ast::Limit>,
}

/// An assignment: table, column, value.
type Assignment = (usize, usize, Formula);

/// Runs any UPDATE.
pub(crate) async fn update(
    session: &mut Session,
    update: &ast::Update,
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    let mut planner = Planner::new(session, parameters);
    let (found, assignments) = plan_update(&mut planner, update)?;
    let mut makers = Vec::new();
    for table in &found.tables {
        makers.push(match &table.source {
            Source::Table(definition) => {
                let mut maker = RowMaker::new(&mut planner.binding, definition, update.ignore)?;
                maker.view_check.clone_from(&table.check);
                Some(maker)
            }
            _ => None,
        });
    }
    let tables = planner.binding.tables;
    judge_subqueries(session, &found, &tables).await;
    let mut run = Run::new(session, parameters);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    run.context.ignore = update.ignore;
    run.add_subplans(&found.subplans);
    let result = change(&mut run, &found, &makers, &assignments).await;
    let warnings = run.context.warnings.count;
    let id = InsertId::of_update(&run.context);
    let count_matched = run.session.count_matched;
    run.finish();
    let (matched, changed) = result?;
    let info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}");
    let affected = if count_matched { matched } else { changed };
    Ok(Outcome::Done { affected, id, info })
}

/// Runs any DELETE.
pub(crate) async fn delete(
    session: &mut Session,
    delete: &ast::Delete,
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    let mut planner = Planner::new(session, parameters);
    let found = plan_delete(&mut planner, delete)?;
    let tables = planner.binding.tables;
    judge_subqueries(session, &found, &tables).await;
    let mut run = Run::new(session, parameters);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    run.context.ignore = delete.ignore;
    run.add_subplans(&found.subplans);
    let result = remove(&mut run, &found, delete.ignore).await;
    run.finish();
    result.map(Outcome::affected)
}

/// Learns of the sizes of tables, by which it is judged how subqueries are run.
async fn judge_subqueries(session: &Session, found: &Found, tables: &[(TableId, u32)]) {
    if !found.subplans.is_empty() {
        session.learn_sizes(tables.iter().map(|(table, _)| *table)).await;
    }
}

/// Says what is wrong with an UPDATE or DELETE before it is run.
pub(crate) fn check(session: &Session, statement: &ast::Statement) -> Result<(), SqlError> {
    let mut planner = Planner::new(session, &[]);
    match statement {
        ast::Statement::Update(update) => plan_update(&mut planner, update).map(|_| ()),
        ast::Statement::Delete(delete) => plan_delete(&mut planner, delete).map(|_| ()),
        _ => Ok(()),
    }
}

/// The search of an UPDATE or DELETE as a query, for EXPLAIN.
pub(crate) fn search_of(
    planner: &mut Planner<'_>,
    statement: &ast::Statement,
) -> Result<QueryPlan, SqlError> {
    let Found { root, subplans, .. } = match statement {
        ast::Statement::Update(update) => plan_update(planner, update)?.0,
        ast::Statement::Delete(delete) => plan_delete(planner, delete)?,
        _ => return Err(SqlError::internal("a search of no change")),
    };
    Ok(QueryPlan { subqueries: subplans, ..QueryPlan::new(Vec::new(), root, Vec::new(), false) })
}

fn plan_update(
    planner: &mut Planner<'_>,
    update: &ast::Update,
) -> Result<(Found, Vec<Assignment>), SqlError> {
    let search = Search {
        references: &update.tables,
        filter: update.filter.as_ref(),
        order_by: &update.order_by,
        limit: update.limit.as_ref(),
    };
    planner.with_common_tables(update.with.as_ref(), |planner| {
        find_with(planner, &search, &update.assignments, None)
    })
}

fn plan_delete(planner: &mut Planner<'_>, delete: &ast::Delete) -> Result<Found, SqlError> {
    let single;
    let (references, targets): (&[TableReference], Option<&[ast::ObjectName]>) =
        match &delete.target {
            ast::DeleteTarget::Single { table, alias, partitions } => {
                if !partitions.is_empty() {
                    return Err(SqlError::not_supported("DELETE ... PARTITION"));
                }
                single = [TableReference::named(table.clone(), alias.clone())];
                (&single, None)
            }
            ast::DeleteTarget::Multi { tables, from } => (from, Some(tables)),
        };
    let search = Search {
        references,
        filter: delete.filter.as_ref(),
        order_by: &delete.order_by,
        limit: delete.limit.as_ref(),
    };
    planner.with_common_tables(delete.with.as_ref(), |planner| {
        find_with(planner, &search, &[], targets).map(|(found, _)| found)
    })
}

/// Plans the search. The tables that are changed are locked; of these all columns are fetched.
fn find_with(
    planner: &mut Planner<'_>,
    search: &Search<'_>,
    assignments: &[ast::Assignment],
    targets: Option<&[ast::ObjectName]>,
) -> Result<(Found, Vec<Assignment>), SqlError> {
    let mut scope = Scope::new(None);
    let resolved =
        from::resolve(&mut planner.binding, search.references, &mut scope, Within::Change)?;
    let Some(From { mut tables, tree, conditions: mut of_views, .. }) = resolved else {
        return Err(SqlError::internal("a change of no table"));
    };
    let mut binder = Binder::new(&scope, &mut planner.binding);
    let tree = from::bind_tree(&mut binder, tree)?;
    let mut conditions = Vec::new();
    conditions.append(&mut of_views);
    if let Some(filter) = search.filter {
        predicate::split(binder.bind(filter, Clause::Where)?, &mut conditions);
    }
    let mut keys = Vec::new();
    for item in search.order_by {
        if let OrderBy::Expression(expression) = binder.bind_order_by(&item.expr)? {
            let formula = Formula::new(expression);
            keys.push(SortBy { formula, descending: item.descending });
        }
    }
    let limit = bounds(&mut binder, search.limit)?;
    let mut bound = Vec::new();
    let mut changed: BTreeSet<usize> = BTreeSet::new();
    for assignment in assignments {
        let place = binder.bind(&Expr::Column(assignment.column.clone()), Clause::FieldList)?;
        let place = place.as_column().map(|place| place as usize);
        let place = place.ok_or_else(|| SqlError::of::<1288>(&[&"expression", &"UPDATE"]))?;
        let at = number_at(&tables, place);
        let at = at.ok_or_else(|| SqlError::internal("a column without table"))?;
        let column = place - tables[at].offset;
        let value = new_value(&mut binder, &tables, at, column, assignment)?;
        changed.insert(at);
        bound.push((at, column, Formula::new(value)));
    }
    if assignments.is_empty() {
        changed = deleted_from(&tables, targets)?;
    }
    for (at, table) in tables.iter_mut().enumerate() {
        // Other tables' columns may be used by subqueries too: all are fetched, changes are rare
        // beside reads.
        table.used = (0..table.columns).collect();
        if changed.contains(&at) {
            check_changes(table, !assignments.is_empty())?;
            table.lock = Some((LockMode::Exclusive, WaitPolicy::Wait));
        }
    }
    leave_unread(&mut tables, &conditions, &keys, &bound);
    let width = scope.width() as usize;
    let subplans = planner.take_subplans(&conditions)?;
    let plans = planner.derived_plans(&mut tables)?;
    let pauses = planner.binding.session.pauses();
    let joins = JoinPlanner { tables: &tables, plans: &plans, width, pauses };
    let mut root = joins.plan(tree, conditions)?;
    if planner.binding.session.wants_safe_updates() && limit.is_none() && changes_by_scan(&root) {
        return Err(SqlError::of::<1175>(&[&""]));
    }
    if !keys.is_empty() {
        root = Operator::Sort { input: root.into(), keys, limit: limit.clone() };
    }
    if let Some(bounds) = limit {
        root = Operator::Limit { input: root.into(), bounds };
    }
    let root = PlanNode::from(root);
    planner.identify_operator(&root);
    Ok((Found { root, subplans, tables }, bound))
}

/// Binds what an assignment gives a column of a table.
fn new_value(
    binder: &mut Binder<'_, '_>,
    tables: &[FromTable],
    at: usize,
    column: usize,
    assignment: &ast::Assignment,
) -> Result<Expression, SqlError> {
    let is_default = matches!(assignment.value, Expr::DefaultValue);
    let definition = match &tables[at].source {
        Source::Table(definition) => definition,
        _ if is_default => return Err(SqlError::of::<1288>(&[&tables[at].alias, &"UPDATE"])),
        _ => return binder.bind(&assignment.value, Clause::FieldList),
    };
    check_generated(definition, column, &assignment.value)?;
    if !is_default {
        return binder.bind(&assignment.value, Clause::FieldList);
    }
    if tables.len() > 1 && is_computed(definition, column) {
        return Err(SqlError::not_supported("DEFAULT of an expression in a join"));
    }
    default_value(binder, definition, column, &assignment.column)
}

/// Large columns of the only table that nothing uses are not read.
fn leave_unread(
    tables: &mut [FromTable],
    conditions: &[Expression],
    keys: &[SortBy],
    assignments: &[Assignment],
) {
    let [table] = tables else { return };
    let keys = keys.iter().map(|key| &key.formula.expression);
    let values = assignments.iter().map(|(_, _, formula)| &formula.expression);
    let used: Vec<&Expression> = conditions.iter().chain(keys).chain(values).collect();
    let assigned: Vec<usize> = assignments.iter().map(|(_, column, _)| *column).collect();
    for column in large::unread(table, &used, &assigned) {
        table.used.remove(&column);
    }
}

/// Refuses to change what is no table.
fn check_changes(table: &FromTable, updates: bool) -> Result<(), SqlError> {
    if !matches!(table.source, Source::Table(_)) {
        let verb = if updates { "UPDATE" } else { "DELETE" };
        return Err(SqlError::of::<1288>(&[&table.alias, &verb]));
    }
    if updates && table.view == Some(true) && table.check.is_none() {
        Err(SqlError::not_supported("UPDATE through such a view WITH CHECK OPTION"))
    } else {
        Ok(())
    }
}

fn is_computed(definition: &TableDefinition, column: usize) -> bool {
    matches!(definition.columns[column].default, ColumnDefault::Expression(_))
}

/// Refuses a value for a generated column: it takes DEFAULT alone.
pub(crate) fn check_generated(
    definition: &TableDefinition,
    column: usize,
    value: &Expr,
) -> Result<(), SqlError> {
    let column = &definition.columns[column];
    if column.generated.is_some() && !matches!(value, Expr::DefaultValue) {
        Err(SqlError::of::<3105>(&[&column.name, &definition.name]))
    } else {
        Ok(())
    }
}

/// What DEFAULT stands for as the new value of a column.
pub(crate) fn default_value(
    binder: &mut Binder<'_, '_>,
    definition: &TableDefinition,
    column: usize,
    name: &ast::ColumnRef,
) -> Result<Expression, SqlError> {
    let of_column = &definition.columns[column];
    match &of_column.default {
        // It is computed when all others have their values.
        _ if of_column.generated.is_some() => {
            binder.bind(&Expr::Column(name.clone()), Clause::FieldList)
        }
        ColumnDefault::None if !of_column.nullable && is_enum(&of_column.sql_type) => {
            let result = ResultType::column(of_column.sql_type.clone(), false);
            Ok(Expression::constant(implicit_default(&of_column.sql_type), result))
        }
        ColumnDefault::Expression(expr) => binder.bind(expr, Clause::Definition),
        _ => binder.bind(&Expr::DefaultOf(name.clone()), Clause::FieldList),
    }
}

/// The tables that a DELETE names, or its only one.
fn deleted_from(
    tables: &[FromTable],
    targets: Option<&[ast::ObjectName]>,
) -> Result<BTreeSet<usize>, SqlError> {
    let Some(names) = targets else { return Ok([0].into()) };
    let place = |name: &ast::ObjectName| {
        let at = tables.iter().position(|table| table.alias == name.name.as_str());
        at.ok_or_else(|| SqlError::of::<1109>(&[&name.name, &"MULTI DELETE"]))
    };
    names.iter().map(place).collect()
}

/// Whether rows that are to be changed are looked for in a whole table.
fn changes_by_scan(root: &Operator) -> bool {
    let is_whole = |scan: &TableScan| scan.lock.is_some() && matches!(scan.path, AccessPath::Full);
    match root {
        Operator::Scan(scan) => is_whole(scan),
        Operator::Lookup { input, scan, .. } => is_whole(scan) || changes_by_scan(input),
        Operator::HashJoin { left, right, .. } | Operator::LoopJoin { left, right, .. } => {
            changes_by_scan(left) || changes_by_scan(right)
        }
        Operator::Filter { input, .. } => changes_by_scan(input),
        _ => false,
    }
}

/// The part of a found row that belongs to a table.
fn part<'r>(table: &FromTable, row: &'r [Datum]) -> &'r [Datum] {
    &row[table.places()]
}

/// Whether an outer join has left the table out of this row: its primary key is NULL.
fn is_missing(definition: &TableDefinition, row: &[Datum]) -> bool {
    let key = &definition.table.primary_key;
    let of_key = |column: &model::ColumnId| {
        definition.columns.iter().position(|c| c.column == *column).map(|at| &row[at])
    };
    key.iter().filter_map(of_key).any(Datum::is_null)
}

async fn change(
    run: &mut Run<'_>,
    found: &Found,
    makers: &[Option<RowMaker>],
    assignments: &[Assignment],
) -> Result<(u64, u64), SqlError> {
    let refers_to_itself = |maker: &Option<RowMaker>| {
        maker.as_ref().is_some_and(|maker| maker.links.has_own(&maker.definition))
    };
    let mut changers = Vec::new();
    for (at, (table, maker)) in found.tables.iter().zip(makers).enumerate() {
        let (Source::Table(definition), Some(maker)) = (&table.source, maker) else { continue };
        let of_table: Vec<&Assignment> =
            assignments.iter().filter(|(of, _, _)| *of == at).collect();
        if !of_table.is_empty() {
            changers.push(Changer::new(run, found, table, definition, maker, of_table));
        }
    }
    let (mut matched, mut changed) = (0, 0);
    let streams = found.streams() && !makers.iter().any(refers_to_itself);
    let mut rows = if streams {
        Rows::Stream(Box::new(cursor::open(&found.root)))
    } else {
        Rows::Found(Some(cursor::drain(run, &found.root).await?))
    };
    while let Some(Kept { rows, mut held }) = rows.next(run).await? {
        for changer in &mut changers {
            run.session.wrote(changer.definition.table.id);
            changer.change(run, &rows, &mut held).await?;
            if !streams {
                changer.changes.finish(run, changer.maker).await?;
            }
        }
    }
    for changer in &mut changers {
        changer.changes.finish(run, changer.maker).await?;
        (matched, changed) = (matched + changer.matched, changed + changer.changed);
    }
    Ok((matched, changed))
}

impl Found {
    /// Whether rows may be changed while others are still being found.
    fn streams(&self) -> bool {
        fn is_one_scan(root: &Operator) -> bool {
            match root {
                Operator::Scan(scan) => scan.path.is_scan(),
                Operator::Filter { input, .. } | Operator::Limit { input, .. } => {
                    is_one_scan(input)
                }
                _ => false,
            }
        }
        self.tables.len() == 1 && self.subplans.is_empty() && is_one_scan(&self.root)
    }
}

/// The rows that a statement changes, as they come.
enum Rows<'p> {
    /// A batch at a time.
    Stream(Box<Cursor<'p>>),
    /// All at once.
    Found(Option<Kept>),
}

impl Rows<'_> {
    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Kept>, SqlError> {
        match self {
            Self::Found(rows) => Ok(rows.take()),
            Self::Stream(cursor) => match cursor.next(run).await? {
                Some(rows) => {
                    let mut held = run.hold("the rows of a change");
                    held.add(memory_of(&rows))?;
                    Ok(Some(Kept { rows, held }))
                }
                None => Ok(None),
            },
        }
    }
}

/// Changes the rows of a table.
struct Changer<'p> {
    found: &'p Found,
    table: &'p FromTable,
    definition: &'p Rc<TableDefinition>,
    maker: &'p RowMaker,
    assignments: Vec<&'p Assignment>,
    /// The columns that they assign.
    assigned: Vec<usize>,
    /// With IGNORE a row of it may have to be left as it was.
    may_fail: bool,
    /// Rows that are changed: a row that several rows of another table match is changed once.
    seen: Seen,
    changes: Changes,
    at_once: usize,
    matched: u64,
    changed: u64,
}

impl<'p> Changer<'p> {
    fn new(
        run: &Run<'_>,
        found: &'p Found,
        table: &'p FromTable,
        definition: &'p Rc<TableDefinition>,
        maker: &'p RowMaker,
        assignments: Vec<&'p Assignment>,
    ) -> Self {
        // Rows that refer to each other are changed one after the other.
        let one_by_one = maker.links.has_own(definition);
        let at_once = if one_by_one { 1 } else { run.portion(BATCH) };
        let assigned: Vec<usize> = assignments.iter().map(|(_, column, _)| *column).collect();
        let may_fail = !maker.links.is_empty() || changes_unique(definition, &assigned);
        let (seen, changes) = (Seen::default(), Changes::of(run, maker));
        let (matched, changed) = (0, 0);
        Self {
            found,
            table,
            definition,
            maker,
            assignments,
            assigned,
            may_fail,
            seen,
            changes,
            at_once,
            matched,
            changed,
        }
    }

    /// Changes some rows; what of it is not sent is left to the next or to the end.
    async fn change(
        &mut self,
        run: &mut Run<'_>,
        rows: &[Row],
        held: &mut Held,
    ) -> Result<(), SqlError> {
        let (maker, table) = (self.maker, self.table);
        let hidden = hidden_keys(self.definition, self.found, rows)?;
        for (number, row) in rows.iter().enumerate() {
            let before: Row = part(table, row).to_vec();
            if is_missing(self.definition, &before) {
                continue;
            }
            let old = maker.kernel_row(run, &before, hidden.get(number).copied().unwrap_or(0));
            if self.found.tables.len() > 1
                && let Some(key) = self.definition.table.primary_key_of(&maker.primary_key(&old))
                && !self.seen.is_new(key.0.into_vec(), held)?
            {
                continue;
            }
            self.matched += 1;
            run.context.row_number = self.matched;
            let mut whole = row.clone();
            for (_, column, formula) in &self.assignments {
                // Later assignments see the values of earlier ones.
                let value = run.unrounded(formula, &whole).await?;
                let value = maker.store_value(run, *column, value, &formula.expression)?;
                whole[table.offset + column] = value;
            }
            run.worked_to_write().await?;
            let new = part(table, &whole).to_vec();
            if maker.ignore && self.may_fail {
                let savepoint = run.session.kernel.savepoint();
                match write(run, maker, &before, new, &self.assigned, &old).await {
                    Ok(is_changed) => self.changed += u64::from(is_changed),
                    Err(error) => leave_out(run, savepoint, error).await?,
                }
                continue;
            }
            let assigned = &self.assigned;
            if prepare(run, maker, &before, new, assigned, &old, &mut self.changes).await? {
                self.changed += 1;
            }
            if self.changes.batch.len() >= self.at_once {
                self.changes.send(run, maker).await?;
            }
        }
        Ok(())
    }
}

/// Whether an UPDATE of these columns can give a row a value that must be unique.
fn changes_unique(definition: &TableDefinition, assigned: &[usize]) -> bool {
    let table = &definition.table;
    let changes = |id: &model::ColumnId| {
        let at = definition.columns.iter().position(|column| column.column == *id);
        at.is_some_and(|at| {
            let column = &definition.columns[at];
            assigned.contains(&at) || column.is_computed() || column.on_update_now.is_some()
        })
    };
    let unique = table.unique_indexes.iter().map(|index| &index.columns);
    unique.chain([&table.primary_key]).flatten().any(changes)
}

/// Operations that wait to be sent, each with the row it belongs to. A row whose primary key
/// changes is removed first and added last, so that its unique values are free when it comes back.
struct Changes {
    batch: Batch,
    added: Batch,
    rest: Vec<Batch>,
    /// Rows whose keys others refer to, before and after.
    keys: Vec<Pair>,
    cascade: Cascade,
    unique: UniqueValues,
    /// What the rows that come back take.
    held: Held,
}

/// Values of unique indexes that rows of a batch give up, and those that they take.
#[derive(Debug, Default)]
struct UniqueValues {
    left: BTreeSet<(model::IndexId, Vec<u8>)>,
    taken: BTreeSet<(model::IndexId, Vec<u8>)>,
}

impl UniqueValues {
    /// Adds a row of the batch, before and after. True if another row of it gives up what this one
    /// takes, or takes what this one gives up: that row has to be changed first, and nothing is
    /// added.
    fn depends(&mut self, table: &model::Table, old: &[Value], new: &[Value]) -> bool {
        let of = |index: &model::UniqueIndexDef, row: &[Value]| {
            let values = index.columns.iter().map(|column| row[usize::from(column.0)].clone());
            let values: Vec<Value> = values.collect();
            let is_unique = !values.contains(&Value::Null);
            let key = is_unique.then(|| table.key_of_values(&index.columns, &values)).flatten();
            key.map(|key| (index.id, key.0.into_vec()))
        };
        let pairs = table.unique_indexes.iter().map(|index| (of(index, old), of(index, new)));
        let changed: Vec<_> = pairs.filter(|(old, new)| old != new).collect();
        let meets = changed.iter().any(|(old, new)| {
            new.as_ref().is_some_and(|new| self.left.contains(new))
                || old.as_ref().is_some_and(|old| self.taken.contains(old))
        });
        if !meets {
            for (old, new) in changed {
                self.left.extend(old);
                self.taken.extend(new);
            }
        }
        meets
    }
}

impl Changes {
    fn of(run: &Run<'_>, maker: &RowMaker) -> Self {
        let held = run.hold("rows that get another primary key");
        let cascade = Cascade::updates(maker.definition.table.id);
        let (batch, added) = (Batch::default(), Batch::default());
        let unique = UniqueValues::default();
        Self { batch, added, rest: Vec::new(), keys: Vec::new(), cascade, unique, held }
    }

    async fn send(&mut self, run: &mut Run<'_>, maker: &RowMaker) -> Result<(), SqlError> {
        self.unique = UniqueValues::default();
        let keys = std::mem::take(&mut self.keys);
        if !keys.is_empty() {
            before_update(run, &maker.links, &keys, &mut self.cascade).await?;
        }
        self.batch.send(&run.session.kernel, maker, false).await?;
        if self.added.len() >= BATCH {
            self.rest.push(std::mem::take(&mut self.added));
        }
        Ok(())
    }

    /// Sends what is left, and the rows that come back under another key.
    async fn finish(&mut self, run: &mut Run<'_>, maker: &RowMaker) -> Result<(), SqlError> {
        self.send(run, maker).await?;
        for mut batch in std::mem::take(&mut self.rest) {
            batch.send(&run.session.kernel, maker, false).await?;
        }
        self.added.send(&run.session.kernel, maker, false).await.map(|_| ())
    }
}

/// Adds what changes a row to the batch. False when nothing changes.
async fn prepare(
    run: &mut Run<'_>,
    maker: &RowMaker,
    before: &[Datum],
    mut new: Row,
    assigned: &[usize],
    old: &[Value],
    changes: &mut Changes,
) -> Result<bool, SqlError> {
    let definition: &Rc<TableDefinition> = &maker.definition;
    let lenient = !run.context.strict;
    match maker.complete(run, &mut new, lenient).await {
        Err(error) if maker.leaves_out(&error) => {
            run.context.note(Level::Warning, error);
            return Ok(false);
        }
        completed => completed?,
    }
    let differs = |run: &Run<'_>, new: &[Datum]| {
        (0..new.len()).any(|at| {
            let of = usize::from(definition.columns[at].column.0);
            stored(run, definition, at, &new[at]) != old[of]
        })
    };
    if !differs(run, &new) {
        return Ok(false);
    }
    for (at, column) in definition.columns.iter().enumerate() {
        if let Some(digits) = column.on_update_now
            && !assigned.contains(&at)
        {
            new[at] = Datum::DateTime(now(run).truncate(digits));
        }
    }
    if let Some((at, _)) = definition.auto_increment()
        && assigned.contains(&at)
    {
        raise_above(run, maker, &new[at]).await?;
    }
    let hidden = definition.hidden_key.map(|key| match old[usize::from(key.0)] {
        Value::UInt(key) => key,
        _ => 0,
    });
    let values = maker.kernel_row(run, &new, hidden.unwrap_or(0));
    let (table, version) = (definition.table.id, definition.table.version);
    let (key, new_key) = (maker.primary_key(old), maker.primary_key(&values));
    if changes.unique.depends(&definition.table, old, &values) {
        // In the order of the statement, as each sees what the ones before have left.
        changes.send(run, maker).await?;
        changes.unique.depends(&definition.table, old, &values);
    }
    if maker.links.key_changes(old, &values) {
        changes.keys.push((old.to_vec(), values.clone()));
    }
    if key == new_key {
        let changed = (0..values.len()).filter(|at| values[*at] != old[*at]);
        let assignments = changed
            .map(|at| {
                let value = KernelExpression::Constant(values[at].clone());
                (model::ColumnId(at as u16), value)
            })
            .collect();
        let update = ClientOperation::update(table, key, assignments);
        changes.batch.push(update.of_version(version), new);
        changes.batch.refer(maker, &values, Some(old), &[])?;
        return Ok(true);
    }
    let delete = ClientOperation::delete(table, key);
    changes.batch.push(delete.of_version(version), before.to_vec());
    changes.held.add(2 * memory_of_row(&new))?;
    let insert = ClientOperation::insert(table, values.clone());
    changes.added.push(insert.of_version(version), new);
    changes.added.refer(maker, &values, Some(old), &[])?;
    Ok(true)
}

/// Changes one row at once; for ON DUPLICATE KEY UPDATE.
pub(crate) async fn write(
    run: &mut Run<'_>,
    maker: &RowMaker,
    before: &[Datum],
    new: Row,
    assigned: &[usize],
    old: &[Value],
) -> Result<bool, SqlError> {
    let mut changes = Changes::of(run, maker);
    let changed = prepare(run, maker, before, new, assigned, old, &mut changes).await?;
    changes.finish(run, maker).await?;
    Ok(changed)
}

/// The hidden keys of found rows. They are no columns of SQL, so scans put them behind the block's
/// row when asked to.
fn hidden_keys(
    definition: &TableDefinition,
    found: &Found,
    rows: &[Row],
) -> Result<Vec<u64>, SqlError> {
    if definition.hidden_key.is_none() {
        return Ok(Vec::new());
    }
    let width: usize = found.tables.iter().map(|table| table.columns).sum();
    if found.tables.len() > 1 {
        return Err(SqlError::not_supported("changes of a table without PRIMARY KEY in a join"));
    }
    let key = |row: &Row| match row.get(width) {
        Some(Datum::UInt(key)) => Ok(*key),
        _ => Err(SqlError::internal("a row without its hidden key")),
    };
    rows.iter().map(key).collect()
}

async fn remove(run: &mut Run<'_>, found: &Found, ignore: bool) -> Result<u64, SqlError> {
    let is_ordered = matches!(found.root.operator, Operator::Sort { .. } | Operator::Limit { .. });
    let mut tables = Vec::new();
    for table in found.tables.iter().filter(|table| table.lock.is_some()) {
        let Source::Table(definition) = &table.source else { continue };
        tables.push((table, definition, Links::of(run.session, definition)?));
    }
    let refer = tables.iter().any(|(_, definition, links)| links.has_own(definition));
    let cascades = tables.iter().any(|(_, _, links)| links.has_children());
    let repeats = found.tables.len() > 1 || cascades;
    let mut removal = Removal { ignore, repeats, removed: 0, cascade: Cascade::default() };
    let mut found_rows = if found.streams() && !refer {
        Rows::Stream(Box::new(cursor::open(&found.root)))
    } else {
        Rows::Found(Some(cursor::drain(run, &found.root).await?))
    };
    while let Some(Kept { rows, mut held }) = found_rows.next(run).await? {
        // Beside them stand what the kernel knows of them: keys, or whole rows.
        held.add(held.bytes())?;
        for (table, definition, links) in &tables {
            run.session.wrote(definition.table.id);
            let hidden = hidden_keys(definition, found, &rows)?;
            let there = rows.iter().enumerate().map(|(number, row)| (number, part(table, row)));
            let there = there.filter(|(_, row)| !is_missing(definition, row));
            let mut values: Vec<Vec<Value>> = there
                .map(|(number, row)| {
                    let number = hidden.get(number).copied();
                    kernel_row(run, definition, row, number, links.has_children())
                })
                .collect();
            if links.has_own(definition) && !is_ordered {
                // As InnoDB finds them: which of them is in the way of which is the same then.
                let key = |row: &Vec<Value>| {
                    definition.table.primary_key_of(&definition.key_of(row)).map(|key| key.0)
                };
                values.sort_by_cached_key(key);
            }
            removal.run(run, definition, links, values).await?;
        }
    }
    Ok(removal.removed)
}

/// A DELETE at work.
struct Removal {
    ignore: bool,
    /// A row may be found, or deleted, more than once.
    repeats: bool,
    removed: u64,
    cascade: Cascade,
}

impl Removal {
    /// Deletes rows of a table; each once, however often it was found.
    async fn run(
        &mut self,
        run: &mut Run<'_>,
        definition: &TableDefinition,
        links: &Links,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), SqlError> {
        let one_by_one = links.has_own(definition) || self.ignore && links.has_children();
        let at_once = if one_by_one { 1 } else { run.portion(BATCH) };
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let mut going = Vec::new();
            for row in rows.by_ref().take(at_once) {
                if !self.repeats || self.cascade.goes(definition, &definition.key_of(&row)) {
                    going.push(row);
                }
            }
            let before =
                self.ignore.then(|| (run.session.kernel.savepoint(), self.cascade.clone()));
            match (self.delete(run, definition, links, &going).await, before) {
                (Ok(()), _) => self.removed += going.len() as u64,
                (Err(error), Some((savepoint, cascade))) => {
                    leave_out(run, savepoint, error).await?;
                    self.cascade = cascade;
                }
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    async fn delete(
        &mut self,
        run: &mut Run<'_>,
        definition: &TableDefinition,
        links: &Links,
        rows: &[Vec<Value>],
    ) -> Result<(), SqlError> {
        if rows.is_empty() {
            return Ok(());
        }
        if links.has_children() {
            before_delete(run, links, rows, &mut self.cascade).await?;
        }
        let (table, version) = (definition.table.id, definition.table.version);
        let one = |row: &Vec<Value>| {
            ClientOperation::delete(table, definition.key_of(row)).of_version(version)
        };
        let operations = rows.iter().map(one).collect();
        let result = run.session.kernel.execute_all(operations, false).await;
        result.map(|_| ()).map_err(|rejected| rejected.failure.into())
    }
}

/// A found row as the kernel has it: the `whole` of it, or its primary key and NULLs.
fn kernel_row(
    run: &Run<'_>,
    definition: &TableDefinition,
    row: &[Datum],
    hidden: Option<u64>,
    whole: bool,
) -> Vec<Value> {
    let mut values = vec![Value::Null; definition.table.columns.len()];
    for (at, column) in definition.columns.iter().enumerate() {
        if whole || definition.table.primary_key.contains(&column.column) {
            values[usize::from(column.column.0)] = stored(run, definition, at, &row[at]);
        }
    }
    if let Some(key) = definition.hidden_key {
        values[usize::from(key.0)] = Value::UInt(hidden.unwrap_or(0));
    }
    values
}
