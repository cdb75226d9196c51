//! Views that are a table with some of its columns and a condition: they become that table.
//!
//! # Owns
//! Which views these are; the table in FROM with the view's names; INSERT into one.
//! # Guarantees
//! A merged view gives the rows that its own plan would. Beside an outer join only views without a
//! condition are merged: there a condition would take rows away that the join keeps.
//! # Not here
//! All other views (`view`).

use std::rc::Rc;

use sql_expression::{Binder, Clause, Expression, Needs, Scope, ScopeTable, SqlError};
use sql_parser::ast::{self, Expr, Ident, ObjectName, QueryBody, SelectItem, TableReference};

use crate::catalog::names::TableName;
use crate::catalog::view::{ViewDefinition, is_view};
use crate::catalog::{ColumnDefinition, TableDefinition, same_name};
use crate::information;
use crate::plan::Planner;
use crate::plan::from::{definition_columns, split};
use crate::plan::operator::Formula;

/// A view that is a table with some of its columns and a condition.
pub(crate) struct SimpleView {
    pub(crate) table: Rc<TableDefinition>,
    /// What the condition calls the table.
    alias: String,
    /// Positions of the view's columns in the table, ascending, and their names.
    columns: Vec<(usize, String)>,
    filter: Option<Expr>,
    /// WITH CHECK OPTION.
    pub(crate) is_checked: bool,
}

/// What WITH CHECK OPTION asks of rows.
#[derive(Clone, Debug)]
pub(crate) struct ViewCheck {
    /// The view, with its database.
    pub(crate) view: String,
    /// Over the columns of the table.
    pub(crate) conditions: Vec<Formula>,
}

/// An INSERT into the table of a view, and what the view asks of the rows.
pub(crate) type InsertThrough = (ast::Insert, Option<Rc<ViewCheck>>);

impl Planner<'_> {
    /// What a view asks of the rows that are written through it; none without CHECK OPTION.
    pub(crate) fn view_check(
        &mut self,
        name: &TableName,
        view: &SimpleView,
    ) -> Option<Rc<ViewCheck>> {
        if !view.is_checked {
            return None;
        }
        let conditions = self.view_condition(view, 0)?.into_iter().map(Formula::new).collect();
        Some(Rc::new(ViewCheck { view: name.full(), conditions }))
    }

    /// What a view is a part of; none if it is more than that, or its table has gone.
    pub(crate) fn simple(&mut self, view: &ViewDefinition) -> Option<SimpleView> {
        let statement = &view.statement;
        let query = &*statement.query;
        let is_bare = query.with.is_none()
            && query.limit.is_none()
            && query.order_by.is_empty()
            && query.locking.is_empty();
        let QueryBody::Select(select) = &query.body else { return None };
        let plain = ast::Select {
            items: select.items.clone(),
            from: select.from.clone(),
            filter: select.filter.clone(),
            hints: select.hints.clone(),
            ..ast::Select::default()
        };
        let temporary = statement.algorithm == Some(ast::ViewAlgorithm::Temptable);
        if !is_bare || temporary || **select != plain {
            return None;
        }
        let [TableReference::Table(factor)] = select.from.as_slice() else { return None };
        if !factor.partitions.is_empty() || !factor.index_hints.is_empty() {
            return None;
        }
        let schema = factor.name.schema.clone();
        let schema = schema.unwrap_or_else(|| Ident::from(view.database.as_str()));
        let name = ObjectName { schema: Some(schema), name: factor.name.name.clone() };
        let full = self.session.table_name(&name).ok()?;
        let cluster = self.session.kernel.cluster();
        let is_table = cluster.table_named(&full.full()).is_some_and(|table| !is_view(table));
        if information::schema(&full.database).is_some() || !is_table {
            return None;
        }
        let table = self.session.permanent_named(&full).ok()?;
        if !self.tables.iter().any(|(known, _)| *known == table.table.id) {
            self.tables.push((table.table.id, table.table.version));
        }
        let alias = factor.alias.as_ref().map_or(full.name.as_str(), Ident::as_str).to_owned();
        let columns = columns_of(&table, &alias, select, &statement.columns)?;
        let (filter, is_checked) = (select.filter.clone(), statement.check_option.is_some());
        Some(SimpleView { table, alias, columns, filter, is_checked })
    }

    /// The condition of a view whose table's columns begin at this place of the row; none if it has
    /// to wait for something, or is none of a row.
    pub(crate) fn view_condition(
        &mut self,
        view: &SimpleView,
        offset: u32,
    ) -> Option<Vec<Expression>> {
        let Some(filter) = &view.filter else { return Some(Vec::new()) };
        let mut scope = Scope::new(None);
        let columns = definition_columns(&view.table, &view.alias);
        let schema = Some(view.table.database.as_str().into());
        let name = view.alias.as_str().into();
        scope.tables.push(ScopeTable { schema, name, columns, offset });
        let subplans = self.subplans.len();
        let bound = Binder::new(&scope, self).bind(filter, Clause::Where);
        let had_none = self.subplans.len() == subplans;
        self.subplans.truncate(subplans);
        let bound = bound.ok().filter(|bound| had_none && bound.needs() == Needs::default())?;
        let mut conditions = Vec::new();
        split(bound, &mut conditions);
        Some(conditions)
    }

    /// An INSERT into the table of a view instead of the view; none if the name is no view's. Error
    /// 1471 for a view that rows cannot be added to.
    pub(crate) fn insert_through_view(
        &mut self,
        insert: &ast::Insert,
        verb: &str,
    ) -> Result<Option<InsertThrough>, SqlError> {
        let name = self.session.table_name(&insert.table)?;
        let Some(view) = self.session.view_named(&name)? else { return Ok(None) };
        self.remember_view(&name);
        let Some(simple) = self.simple(&view) else {
            return Err(SqlError::of::<1471>(&[&view.name, &verb]));
        };
        let same = |(at, name): &(usize, String)| same_name(&simple.table.columns[*at].name, name);
        let check = self.view_check(&name, &simple);
        if simple.is_checked && check.is_none() {
            let what = "INSERT through a view WITH CHECK OPTION and such a condition";
            return Err(SqlError::not_supported(what));
        }
        if !insert.on_duplicate.is_empty() || !simple.columns.iter().all(same) {
            let what = "INSERT through a view with other names for columns, or with ON DUPLICATE \
                        KEY UPDATE";
            return Err(SqlError::not_supported(what));
        }
        let column = |name: &str| ast::ColumnRef { table: None, column: Ident::from(name) };
        let columns = match &insert.columns {
            None => simple.columns.iter().map(|(_, name)| column(name)).collect(),
            Some(given) => {
                for name in given.iter().map(|name| name.column.as_str()) {
                    if !simple.columns.iter().any(|(_, known)| same_name(known, name)) {
                        return Err(SqlError::unknown_column(name, "field list"));
                    }
                }
                given.clone()
            }
        };
        let table = ObjectName {
            schema: Some(Ident::from(simple.table.database.as_str())),
            name: Ident::from(simple.table.name.as_str()),
        };
        Ok(Some((ast::Insert { table, columns: Some(columns), ..insert.clone() }, check)))
    }
}

impl SimpleView {
    /// The name that the view has for a column of the table.
    pub(crate) fn name_of(&self, at: usize) -> Option<&str> {
        self.columns.iter().find(|(place, _)| *place == at).map(|(_, name)| name.as_str())
    }

    /// Whether it leaves rows out.
    pub(crate) fn has_condition(&self) -> bool {
        self.filter.is_some()
    }
}

/// The columns of the select list, if they are columns of the table in its order, each once.
fn columns_of(
    table: &TableDefinition,
    alias: &str,
    select: &ast::Select,
    named: &[Ident],
) -> Option<Vec<(usize, String)>> {
    let mut columns: Vec<(usize, String)> = Vec::new();
    for (number, item) in select.items.iter().enumerate() {
        let SelectItem::Expr { expr: Expr::Column(column), alias: given, .. } = item else {
            return None;
        };
        let of_table = column.table.as_ref().is_none_or(|of| of.name.as_str() == alias);
        let found: Option<(usize, &ColumnDefinition)> = table.column(column.column.as_str());
        let (at, _) = found.filter(|_| of_table)?;
        if columns.last().is_some_and(|(before, _)| *before >= at) {
            return None;
        }
        let name = named.get(number).or(given.as_ref()).unwrap_or(&column.column);
        columns.push((at, name.as_str().to_owned()));
    }
    Some(columns)
}
