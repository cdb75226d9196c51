//! Views that are a table with some of its columns and a condition: they become that table. So do
//! views of such views.
//!
//! # Owns
//! Which views these are; the table in FROM with the view's names; INSERT into one.
//! # Guarantees
//! A merged view gives the rows that its own plan would. Beside an outer join only views without a
//! condition are merged: there a condition would take rows away that the join keeps.
//! # Not here
//! All other views (`view`).

use std::rc::Rc;

use sql_expression::{Binder, Clause, Expression, Needs, Scope, ScopeColumn, ScopeTable, SqlError};
use sql_parser::ast::{
    self, CheckOption, Expr, Ident, ObjectName, QueryBody, SelectItem, TableReference,
};

use crate::catalog::names::TableName;
use crate::catalog::view::{self, ViewDefinition, is_view};
use crate::catalog::{TableDefinition, same_name};
use crate::logical::binder::QueryBinder;
use crate::logical::formula::Formula;
use crate::logical::from::{column_name, definition_columns};
use crate::logical::from_table::ViewCheck;
use crate::logical::predicate::split;

/// A view that is a table with some of its columns and a condition, or such a part of such a view.
pub(crate) struct SimpleView {
    pub(crate) table: Rc<TableDefinition>,
    /// Positions of the view's columns in the table, ascending, and their names.
    columns: Vec<(usize, String)>,
    /// The views from the table to this one.
    layers: Vec<Layer>,
    /// WITH CHECK OPTION, of this view or of one that it is a part of.
    pub(crate) is_checked: bool,
}

/// What one of the views says of rows.
struct Layer {
    /// What the condition calls the table or the view below.
    alias: String,
    /// The names it has for the columns there; none when that is the table itself.
    columns: Option<Vec<(usize, String)>>,
    filter: Option<Expr>,
    check: Option<CheckOption>,
    /// The rows that are written must meet the condition.
    is_checked: bool,
}

/// Most views of views.
const LAYERS_MAX: usize = 32;

/// An INSERT into a view, made one into its table.
pub(crate) struct InsertThrough {
    /// Into the table; columns that it names have the table's names.
    pub(crate) insert: ast::Insert,
    /// What the view asks of the rows.
    pub(crate) check: Option<Rc<ViewCheck>>,
    /// The view, whose columns expressions name.
    pub(crate) view: SimpleView,
    pub(crate) name: TableName,
}

impl QueryBinder<'_> {
    /// What a view asks of the rows that are written through it; none without CHECK OPTION.
    pub(crate) fn view_check(
        &mut self,
        name: &TableName,
        view: &SimpleView,
    ) -> Option<Rc<ViewCheck>> {
        if !view.is_checked {
            return None;
        }
        let layers = view.layers.iter().filter(|layer| layer.is_checked);
        let conditions = self.conditions_of(view, layers, 0)?.into_iter().map(Formula::new);
        Some(Rc::new(ViewCheck { view: name.full(), conditions: conditions.collect() }))
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
        if crate::catalog::system::schema(&full.database).is_some() {
            return None;
        }
        let alias = factor.alias.as_ref().map_or(full.name.as_str(), Ident::as_str).to_owned();
        let (table, below, mut layers) = self.below(&full)?;
        if layers.len() >= LAYERS_MAX {
            return None;
        }
        let columns = columns_of(&table, below.as_deref(), &alias, select, &statement.columns)?;
        let (filter, check) = (select.filter.clone(), statement.check_option);
        layers.push(Layer { alias, columns: below, filter, check, is_checked: false });
        // A view passes CASCADED on to those that it is a part of.
        let mut cascades = false;
        for layer in layers.iter_mut().rev() {
            layer.is_checked = cascades || layer.check.is_some();
            cascades |= layer.check == Some(CheckOption::Cascaded);
        }
        let is_checked = layers.iter().any(|layer| layer.is_checked);
        Some(SimpleView { table, columns, layers, is_checked })
    }

    /// What a simple view is a part of: a table, or a simple view with its names and layers.
    fn below(&mut self, name: &TableName) -> Option<Below> {
        let kernel = self.session.stored_table(name)?;
        if is_view(&kernel) {
            // A view that has been changed may be a part of itself.
            let full = name.full();
            if self.views.are_inside(&full) || self.views.depth() > LAYERS_MAX {
                return None;
            }
            self.remember_view(name);
            let view = view::read(&kernel).ok()?;
            self.views.enter(full);
            let simple = self.simple(&view);
            self.views.leave();
            return simple.map(|simple| (simple.table, Some(simple.columns), simple.layers));
        }
        let table = self.session.permanent_named(name).ok()?;
        if !self.tables.iter().any(|(known, _)| *known == table.table.id) {
            self.tables.push((table.table.id, table.table.version));
        }
        Some((table, None, Vec::new()))
    }

    /// The conditions of a view whose table's columns begin at this place of the row; none if one
    /// has to wait for something, or is none of a row.
    pub(crate) fn view_condition(
        &mut self,
        view: &SimpleView,
        offset: u32,
    ) -> Option<Vec<Expression>> {
        self.conditions_of(view, view.layers.iter(), offset)
    }

    fn conditions_of<'v>(
        &mut self,
        view: &SimpleView,
        layers: impl Iterator<Item = &'v Layer>,
        offset: u32,
    ) -> Option<Vec<Expression>> {
        let mut conditions = Vec::new();
        for layer in layers {
            self.condition_of(view, layer, offset, &mut conditions)?;
        }
        Some(conditions)
    }

    fn condition_of(
        &mut self,
        view: &SimpleView,
        layer: &Layer,
        offset: u32,
        conditions: &mut Vec<Expression>,
    ) -> Option<()> {
        let Some(filter) = &layer.filter else { return Some(()) };
        let mut scope = Scope::new(None);
        let mut columns = definition_columns(&view.table, &layer.alias);
        let schema = Some(view.table.database.as_str().into());
        if let Some(names) = &layer.columns {
            rename(&mut columns, names, &view.table.database, &layer.alias);
        }
        let name = layer.alias.as_str().into();
        scope.tables.push(ScopeTable { schema, name, columns, offset });
        let subqueries = self.subqueries.len();
        let bound = Binder::new(&scope, self).bind(filter, Clause::Where);
        let had_none = self.subqueries.len() == subqueries;
        self.subqueries.truncate(subqueries);
        let bound = bound.ok().filter(|bound| had_none && bound.needs() == Needs::default())?;
        split(bound, conditions);
        Some(())
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
        let check = self.view_check(&name, &simple);
        if simple.is_checked && check.is_none() {
            let what = "INSERT through a view WITH CHECK OPTION and such a condition";
            return Err(SqlError::not_supported(what));
        }
        if simple.is_checked && !insert.on_duplicate.is_empty() {
            let what = "ON DUPLICATE KEY UPDATE through a view WITH CHECK OPTION";
            return Err(SqlError::not_supported(what));
        }
        let of_table = |name: &str| {
            let found = simple.columns.iter().find(|(_, known)| same_name(known, name));
            let Some((at, _)) = found else {
                return Err(SqlError::unknown_column(name, "field list"));
            };
            let column = Ident::from(simple.table.columns[*at].name.as_str());
            Ok(ast::ColumnRef { table: None, column })
        };
        let columns: Result<Vec<ast::ColumnRef>, SqlError> = match &insert.columns {
            None => simple.columns.iter().map(|(_, name)| of_table(name)).collect(),
            Some(given) => given.iter().map(|name| of_table(name.column.as_str())).collect(),
        };
        let mut through = ast::Insert { columns: Some(columns?), ..insert.clone() };
        for assignment in &mut through.on_duplicate {
            assignment.column = of_table(assignment.column.column.as_str())?;
        }
        through.table = ObjectName {
            schema: Some(Ident::from(simple.table.database.as_str())),
            name: Ident::from(simple.table.name.as_str()),
        };
        Ok(Some(InsertThrough { insert: through, check, view: simple, name }))
    }
}

impl SimpleView {
    /// Whether it leaves rows out.
    pub(crate) fn has_condition(&self) -> bool {
        self.layers.iter().any(|layer| layer.filter.is_some())
    }

    /// Gives the columns of the table the names that the view has; the others have none.
    pub(crate) fn rename(&self, columns: &mut [ScopeColumn], database: &str, alias: &str) {
        rename(columns, &self.columns, database, alias);
    }
}

/// Gives columns of a table names; those without one are found by none.
fn rename(columns: &mut [ScopeColumn], names: &[(usize, String)], database: &str, alias: &str) {
    for (at, column) in columns.iter_mut().enumerate() {
        let name = names.iter().find(|(place, _)| *place == at).map(|(_, name)| name.as_str());
        column.name = column_name(database, alias, name.unwrap_or_default());
        (column.hidden, column.qualified_only) = (name.is_none(), name.is_none());
    }
}

/// A table, and of a view over it the names and layers.
type Below = (Rc<TableDefinition>, Option<Vec<(usize, String)>>, Vec<Layer>);

/// The columns of the select list, if they are columns of the table in its order, each once.
/// `below` are their names in the view there; none if that is the table itself.
fn columns_of(
    table: &TableDefinition,
    below: Option<&[(usize, String)]>,
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
        let wanted = column.column.as_str();
        let found = match below {
            None => table.column(wanted).map(|(at, _)| at),
            Some(names) => {
                names.iter().find(|(_, name)| same_name(name, wanted)).map(|(at, _)| *at)
            }
        };
        let at = found.filter(|_| of_table)?;
        if columns.last().is_some_and(|(before, _)| *before >= at) {
            return None;
        }
        let name = named.get(number).or(given.as_ref()).unwrap_or(&column.column);
        columns.push((at, name.as_str().to_owned()));
    }
    Some(columns)
}
