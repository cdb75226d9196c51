//! What rows a statement reads and changes: which tables, and which columns of them.
//!
//! # Owns
//! [`Uses`], and the walk over a statement's tree that fills it.
//! # Guarantees
//! Every table that a statement names is in it, also inside subqueries. A column is in it when the
//! statement names it, by the innermost block that has a column of that name.
//! # Not here
//! Whether the session may do that (`check`); what statements need that concern no rows (`check`).

use std::collections::BTreeSet;

use sql_expression::{SqlError, same_name};
use sql_parser::ast::{
    self, Assignment, ColumnRef, DeleteTarget, Expr, InsertSource, IntoTarget, JoinCondition,
    ObjectName, Over, Query, QueryBody, Select, SelectItem, TableReference, WindowSpec, With,
};

use crate::account::privilege::Privileges;
use crate::catalog::expression::walk;
use crate::catalog::names::TableName;
use crate::information;
use crate::session::Session;

/// What a statement does with tables.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) tables: Vec<TableUse>,
    /// It writes a file, or reads one, on the server.
    pub(crate) files: bool,
    /// Tables that are asked for locks.
    pub(crate) locked: Vec<TableName>,
}

/// What a statement does with a table.
#[derive(Debug)]
pub(crate) struct TableUse {
    pub(crate) name: TableName,
    /// Privileges for the table, or for some column of it.
    pub(crate) needed: Privileges,
    /// Columns that are read, given values when a row is added, and changed.
    pub(crate) read: Columns,
    pub(crate) inserted: Columns,
    pub(crate) updated: Columns,
    /// Columns that keys of other tables refer to.
    pub(crate) referred: Columns,
}

/// Some of the columns of a table.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// All of them.
    pub(crate) all: bool,
    pub(crate) names: BTreeSet<String>,
}

impl Columns {
    fn add(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    /// Whether there are none.
    pub(crate) fn are_none(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}

impl Uses {
    /// What is done with a table, to be added to.
    pub(crate) fn of(&mut self, name: &TableName) -> &mut TableUse {
        let at = self.tables.iter().position(|table| table.name == *name);
        let at = at.unwrap_or_else(|| {
            self.tables.push(TableUse {
                name: name.clone(),
                needed: Privileges::NONE,
                read: Columns::default(),
                inserted: Columns::default(),
                updated: Columns::default(),
                referred: Columns::default(),
            });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    /// A table needs these privileges.
    pub(crate) fn need(&mut self, name: &TableName, privileges: Privileges) {
        self.of(name).needed |= privileges;
    }
}

/// A table in FROM.
struct InScope {
    alias: String,
    /// The table it stands for; none for what is computed in the statement.
    table: Option<TableName>,
    /// Names of its columns; none if they are not known.
    columns: Option<Vec<String>>,
}

/// A walk over a statement.
pub(crate) struct Walk<'s> {
    session: &'s Session,
    /// The database of names without one; the session's if none.
    database: Option<String>,
    pub(crate) uses: Uses,
    /// The tables of the blocks around, the outermost first.
    scopes: Vec<Vec<InScope>>,
    /// Names of WITH.
    common: Vec<String>,
}

impl<'s> Walk<'s> {
    /// A walk over a statement of the session, or over the query of a view of this database.
    pub(crate) fn new(session: &'s Session, database: Option<&str>) -> Self {
        Self {
            session,
            database: database.map(str::to_owned),
            uses: Uses::default(),
            scopes: Vec::new(),
            common: Vec::new(),
        }
    }

    /// The table of a name.
    ///
    /// # Errors
    /// 1046 if there is no default database.
    pub(crate) fn name(&self, name: &ObjectName) -> Result<TableName, SqlError> {
        match (&name.schema, &self.database) {
            (None, Some(database)) => {
                Ok(TableName { database: database.clone(), name: name.name.as_str().to_owned() })
            }
            _ => self.session.table_name(name),
        }
    }

    pub(crate) fn query(&mut self, query: &Query) -> Result<(), SqlError> {
        let outer = self.common.len();
        self.with(query.with.as_ref())?;
        self.uses.files |=
            matches!(query.into, Some(IntoTarget::Outfile { .. } | IntoTarget::Dumpfile(_)));
        match &query.body {
            QueryBody::Select(select) => self.select(select, query)?,
            body => {
                self.body(body)?;
                // Names mean columns of the result there.
                self.scopes.push(Vec::new());
                let order = query.order_by.iter().try_for_each(|item| self.expr(&item.expr));
                self.scopes.pop();
                order?;
            }
        }
        self.common.truncate(outer);
        Ok(())
    }

    fn with(&mut self, with: Option<&With>) -> Result<(), SqlError> {
        let Some(with) = with else { return Ok(()) };
        for table in &with.tables {
            let name = table.name.as_str().to_ascii_lowercase();
            if with.recursive {
                self.common.push(name);
                self.query(&table.query)?;
            } else {
                self.query(&table.query)?;
                self.common.push(name);
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &QueryBody) -> Result<(), SqlError> {
        match body {
            QueryBody::Select(select) => {
                let alone = Query {
                    with: None,
                    body: QueryBody::Values(Vec::new()),
                    order_by: Vec::new(),
                    limit: None,
                    locking: Vec::new(),
                    into: None,
                };
                self.select(select, &alone)
            }
            QueryBody::SetOperation(set) => {
                self.body(&set.first)?;
                set.rest.iter().try_for_each(|operand| self.body(&operand.body))
            }
            QueryBody::Values(rows) => rows.iter().flatten().try_for_each(|value| self.expr(value)),
            QueryBody::Table(name) => {
                let reference = TableReference::named(name.clone(), None);
                self.scopes.push(Vec::new());
                self.reference(&reference, Privileges::SELECT)?;
                self.read_all(None);
                self.scopes.pop();
                Ok(())
            }
            QueryBody::Nested(query) => self.query(query),
        }
    }

    fn select(&mut self, select: &Select, query: &Query) -> Result<(), SqlError> {
        self.scopes.push(Vec::new());
        for reference in &select.from {
            self.reference(reference, Privileges::SELECT)?;
        }
        for locking in &query.locking {
            let scope = self.scopes.last().expect("pushed above");
            let wanted = |one: &&InScope| {
                let names = |name: &ObjectName| same_name(name.name.as_str(), &one.alias);
                locking.tables.is_empty() || locking.tables.iter().any(names)
            };
            let tables = scope.iter().filter(wanted).filter_map(|one| one.table.clone());
            self.uses.locked.extend(tables);
        }
        for item in &select.items {
            match item {
                SelectItem::Wildcard => self.read_all(None),
                SelectItem::QualifiedWildcard(name) => self.read_all(Some(name)),
                SelectItem::Expr { expr, .. } => self.expr(expr)?,
            }
        }
        let parts = select.filter.iter().chain(&select.group_by).chain(&select.having);
        for expr in parts {
            self.expr(expr)?;
        }
        for window in &select.windows {
            self.window(&window.spec)?;
        }
        for item in &query.order_by {
            let is_alias = match &item.expr {
                Expr::Column(column) if column.table.is_none() => {
                    select.items.iter().any(|item| is_named(item, column))
                }
                _ => false,
            };
            if !is_alias {
                self.expr(&item.expr)?;
            }
        }
        self.scopes.pop();
        Ok(())
    }

    /// Puts a reference into the innermost block; tables of it need these privileges.
    pub(crate) fn reference(
        &mut self,
        reference: &TableReference,
        needed: Privileges,
    ) -> Result<(), SqlError> {
        match reference {
            TableReference::Table(factor) => {
                let alias = factor.alias.as_ref().unwrap_or(&factor.name.name).as_str().to_owned();
                let is_common = factor.name.schema.is_none()
                    && self.common.contains(&factor.name.name.as_str().to_ascii_lowercase());
                let table = if is_common { None } else { Some(self.name(&factor.name)?) };
                if let Some(table) = &table {
                    self.uses.need(table, needed);
                }
                let columns = table.as_ref().and_then(|table| columns_of(self.session, table));
                self.scope().push(InScope { alias, table, columns });
            }
            TableReference::Derived(derived) => {
                self.query(&derived.query)?;
                let alias = derived.alias.as_str().to_owned();
                let columns = columns_of_derived(derived);
                self.scope().push(InScope { alias, table: None, columns });
            }
            TableReference::JsonTable(table) => {
                self.expr(&table.document)?;
                let alias = table.alias.as_str().to_owned();
                self.scope().push(InScope { alias, table: None, columns: None });
            }
            TableReference::Join(join) => {
                let first = self.scope().len();
                self.reference(&join.left, needed)?;
                let second = self.scope().len();
                self.reference(&join.right, needed)?;
                match &join.condition {
                    JoinCondition::None => {}
                    JoinCondition::On(condition) => self.expr(condition)?,
                    JoinCondition::Using(columns) => {
                        for column in columns {
                            self.read_in_all(first, column.as_str());
                        }
                    }
                    JoinCondition::Natural => self.natural(first, second),
                }
            }
        }
        Ok(())
    }

    /// Columns that both sides of a natural join have are read: the sides are the tables of the
    /// block from `first` on, and from `second` on. Where it is not known which columns one has,
    /// all of the others may be.
    fn natural(&mut self, first: usize, second: usize) {
        let names = |of: &[InScope]| -> Option<BTreeSet<String>> {
            let mut all = BTreeSet::new();
            for one in of {
                all.extend(one.columns.as_ref()?.iter().map(|name| name.to_lowercase()));
            }
            Some(all)
        };
        let (left, right) = self.scope()[first..].split_at(second - first);
        if let (Some(left), Some(right)) = (names(left), names(right)) {
            for name in left.intersection(&right) {
                self.read_in_all(first, name);
            }
            return;
        }
        let tables = self.scope()[first..].iter().filter_map(|one| one.table.clone());
        for table in tables.collect::<Vec<_>>() {
            self.uses.of(&table).read.all = true;
        }
    }

    fn scope(&mut self) -> &mut Vec<InScope> {
        if self.scopes.is_empty() {
            self.scopes.push(Vec::new());
        }
        self.scopes.last_mut().expect("there is one")
    }

    /// All columns of the tables of the block, or of one of them, are read.
    fn read_all(&mut self, name: Option<&ObjectName>) {
        let Some(scope) = self.scopes.last() else { return };
        let wanted = |one: &&InScope| name.is_none_or(|name| one.is_called(name));
        for table in scope.iter().filter(wanted).filter_map(|one| one.table.as_ref()) {
            self.uses.of(table).read.all = true;
        }
    }

    /// A column of each table of the block from a place on is read, where there is one.
    fn read_in_all(&mut self, first: usize, column: &str) {
        let Some(scope) = self.scopes.last() else { return };
        for one in scope[first..].iter().filter(|one| one.has(column)) {
            if let Some(table) = &one.table {
                self.uses.of(table).read.add(column);
            }
        }
    }

    /// The tables that a column may be of, and that are no part of the statement itself.
    fn tables_of(&self, column: &ColumnRef) -> Vec<TableName> {
        for scope in self.scopes.iter().rev() {
            let fitting: Vec<&InScope> = match &column.table {
                Some(name) => scope.iter().filter(|one| one.is_called(name)).collect(),
                None => scope.iter().filter(|one| one.has(column.column.as_str())).collect(),
            };
            if !fitting.is_empty() {
                return fitting.into_iter().filter_map(|one| one.table.clone()).collect();
            }
        }
        Vec::new()
    }

    fn read(&mut self, column: &ColumnRef) {
        for table in self.tables_of(column) {
            self.uses.of(&table).read.add(column.column.as_str());
        }
    }

    /// An expression, with its subqueries.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        let mut result = Ok(());
        walk(expr, &mut |part| {
            if result.is_ok() {
                result = self.part(part);
            }
        });
        result
    }

    fn part(&mut self, part: &Expr) -> Result<(), SqlError> {
        match part {
            Expr::Column(column) | Expr::DefaultOf(column) => self.read(column),
            Expr::Match(search) => {
                search.columns.iter().for_each(|column| self.read(column));
                self.expr(&search.query)?;
            }
            Expr::Exists(query)
            | Expr::Subquery(query)
            | Expr::InQuery { query, .. }
            | Expr::Quantified { query, .. } => self.query(query)?,
            Expr::Aggregate(call) => {
                for item in &call.order_by {
                    self.expr(&item.expr)?;
                }
                if let Some(Over::Spec(spec)) = &call.over {
                    self.window(spec)?;
                }
            }
            Expr::Window(call) => {
                if let Over::Spec(spec) = &call.over {
                    self.window(spec)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn window(&mut self, spec: &WindowSpec) -> Result<(), SqlError> {
        spec.partition_by.iter().try_for_each(|expr| self.expr(expr))?;
        spec.order_by.iter().try_for_each(|item| self.expr(&item.expr))
    }

    /// INSERT and REPLACE.
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<(), SqlError> {
        let table = self.name(&insert.table)?;
        let mut needed = Privileges::INSERT;
        if insert.replace {
            needed |= Privileges::DELETE;
        }
        self.uses.need(&table, needed);
        let inserted = &mut self.uses.of(&table).inserted;
        match &insert.columns {
            Some(columns) => columns.iter().for_each(|column| inserted.add(column.column.as_str())),
            None => inserted.all = true,
        }
        let alias = insert.alias.as_ref().map(|alias| alias.table.as_str());
        match &insert.source {
            InsertSource::Values(rows) => {
                rows.iter().flatten().try_for_each(|value| self.expr(value))?;
            }
            InsertSource::Literals(_) => {}
            InsertSource::Query(query) => self.query(query)?,
        }
        if insert.on_duplicate.is_empty() {
            return Ok(());
        }
        self.uses.need(&table, Privileges::UPDATE);
        let columns = columns_of(self.session, &table);
        let mut scope =
            vec![InScope { alias: table.name.clone(), table: Some(table.clone()), columns }];
        if let Some(alias) = alias {
            // The new row: its columns are nobody's secret, and found before the table's.
            scope.push(InScope { alias: alias.to_owned(), table: None, columns: Some(Vec::new()) });
        }
        if let InsertSource::Query(query) = &insert.source
            && let QueryBody::Select(select) = &query.body
        {
            // Values may be of the query's tables, whose columns are read there.
            self.scopes.push(Vec::new());
            let read = select.from.iter().try_for_each(|of| self.reference(of, Privileges::SELECT));
            scope.append(&mut self.scopes.pop().unwrap_or_default());
            read?;
        }
        self.scopes.push(scope);
        let result = insert.on_duplicate.iter().try_for_each(|one| {
            self.uses.of(&table).updated.add(one.column.column.as_str());
            self.expr(&one.value)
        });
        self.scopes.pop();
        result
    }

    /// UPDATE of one table or many.
    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<(), SqlError> {
        let outer = self.common.len();
        self.with(update.with.as_ref())?;
        self.scopes.push(Vec::new());
        for reference in &update.tables {
            self.reference(reference, Privileges::NONE)?;
        }
        self.assignments(&update.assignments)?;
        self.rest(update.filter.as_ref(), &update.order_by)?;
        // What is read of tables that are not changed needs SELECT, also if no column is named.
        let scope = self.scopes.pop().unwrap_or_default();
        for table in scope.into_iter().filter_map(|one| one.table) {
            let used = self.uses.of(&table);
            if used.updated.are_none() {
                used.needed |= Privileges::SELECT;
            }
        }
        self.common.truncate(outer);
        Ok(())
    }

    /// Assignments to columns of the tables in scope.
    pub(crate) fn assignments(&mut self, assignments: &[Assignment]) -> Result<(), SqlError> {
        for one in assignments {
            for table in self.tables_of(&one.column) {
                let used = self.uses.of(&table);
                used.needed |= Privileges::UPDATE;
                used.updated.add(one.column.column.as_str());
            }
            self.expr(&one.value)?;
        }
        Ok(())
    }

    fn rest(&mut self, filter: Option<&Expr>, order: &[ast::OrderItem]) -> Result<(), SqlError> {
        filter.map_or(Ok(()), |filter| self.expr(filter))?;
        order.iter().try_for_each(|item| self.expr(&item.expr))
    }

    /// DELETE from one table or many.
    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<(), SqlError> {
        let outer = self.common.len();
        self.with(delete.with.as_ref())?;
        self.scopes.push(Vec::new());
        match &delete.target {
            DeleteTarget::Single { table, alias, .. } => {
                let reference = TableReference::named(table.clone(), alias.clone());
                self.reference(&reference, Privileges::DELETE)?;
            }
            DeleteTarget::Multi { tables, from } => {
                for reference in from {
                    self.reference(reference, Privileges::NONE)?;
                }
                let scope = self.scopes.last().expect("pushed above");
                let mut needed = Vec::new();
                for one in scope {
                    let Some(table) = &one.table else { continue };
                    let goes = tables.iter().any(|name| one.is_called(name));
                    let of = if goes { Privileges::DELETE } else { Privileges::SELECT };
                    needed.push((table.clone(), of));
                }
                needed.iter().for_each(|(table, of)| self.uses.need(table, *of));
            }
        }
        self.rest(delete.filter.as_ref(), &delete.order_by)?;
        self.scopes.pop();
        self.common.truncate(outer);
        Ok(())
    }

    /// LOAD DATA.
    pub(crate) fn load(&mut self, load: &ast::LoadData) -> Result<(), SqlError> {
        let table = self.name(&load.table)?;
        let mut needed = Privileges::INSERT;
        if load.duplicates == Some(ast::LoadDuplicates::Replace) {
            needed |= Privileges::DELETE;
        }
        self.uses.need(&table, needed);
        self.uses.files |= !load.local;
        let columns = columns_of(self.session, &table);
        let used = self.uses.of(&table);
        let named = load.columns.iter().filter_map(|column| match column {
            ast::LoadColumn::Column(column) => Some(column.column.as_str()),
            ast::LoadColumn::Variable(_) => None,
        });
        used.inserted.all = load.columns.is_empty();
        named.for_each(|name| used.inserted.add(name));
        for one in &load.assignments {
            used.inserted.add(one.column.column.as_str());
        }
        let alias = table.name.clone();
        self.scopes.push(vec![InScope { alias, table: Some(table), columns }]);
        let values = load.assignments.iter().try_for_each(|one| self.expr(&one.value));
        self.scopes.pop();
        values
    }
}

impl InScope {
    fn is_called(&self, name: &ObjectName) -> bool {
        let database = |schema: &ast::Ident| {
            self.table.as_ref().is_some_and(|table| same_name(&table.database, schema.as_str()))
        };
        // Where letter case counts in names this asks for more than is needed, never for less.
        same_name(&self.alias, name.name.as_str()) && name.schema.as_ref().is_none_or(database)
    }

    fn has(&self, column: &str) -> bool {
        self.columns
            .as_ref()
            .is_some_and(|columns| columns.iter().any(|name| same_name(name, column)))
    }
}

/// Names of the columns of a derived table; none if its query does not tell them.
fn columns_of_derived(derived: &ast::DerivedTable) -> Option<Vec<String>> {
    if !derived.columns.is_empty() {
        return Some(derived.columns.iter().map(|name| name.as_str().to_owned()).collect());
    }
    let QueryBody::Select(select) = &derived.query.body else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::Expr { alias: Some(alias), .. } => Some(alias.as_str().to_owned()),
        SelectItem::Expr { expr: Expr::Column(column), .. } => {
            Some(column.column.as_str().to_owned())
        }
        _ => None,
    };
    select.items.iter().map(name).collect()
}

fn is_named(item: &SelectItem, column: &ColumnRef) -> bool {
    match item {
        SelectItem::Expr { alias: Some(alias), .. } => {
            same_name(alias.as_str(), column.column.as_str())
        }
        _ => false,
    }
}

/// Whether a statement reads or changes tables of users. Only queries, DO and SET are looked at; of
/// all others the answer is yes.
pub(crate) fn uses_tables(session: &Session, statement: &ast::Statement) -> bool {
    let mut walk = Walk::new(session, None);
    let walked = match statement {
        ast::Statement::Query(query) => walk.query(query),
        ast::Statement::Do(exprs) => exprs.iter().try_for_each(|expr| walk.expr(expr)),
        ast::Statement::Set(items) => items.iter().try_for_each(|item| match item {
            ast::SetItem::User(_, value)
            | ast::SetItem::Variable(_, value)
            | ast::SetItem::TriggerColumn(_, _, value) => walk.expr(value),
            ast::SetItem::Names(_, _) | ast::SetItem::Charset(_) => Ok(()),
        }),
        _ => return true,
    };
    walked.is_err() || walk.uses.tables.iter().any(|used| !used.name.is_system())
}

/// Names of the columns of a table or a view; none if it is not there.
pub(crate) fn columns_of(session: &Session, table: &TableName) -> Option<Vec<String>> {
    if let Some(system) = information::table(&table.database, &table.name) {
        return Some(system.columns.iter().map(|column| column.name.to_owned()).collect());
    }
    if let Ok(Some(view)) = session.view_named(table) {
        let columns = view.statement.columns.iter();
        return Some(columns.map(|column| column.as_str().to_owned()).collect());
    }
    let definition = session.definition_named(table).ok()?;
    Some(definition.visible_columns().iter().map(|column| column.name.clone()).collect())
}
