//! Views in FROM, and what CREATE VIEW makes of a query.
//!
//! # Owns
//! The query of a view, bound; the form of a query that the catalog keeps: every column named, no
//! `*`.
//! # Guarantees
//! A view means what it meant when it was made: its columns are those of that moment, and names of
//! common tables around its use are none of its business. What has become of its tables is error
//! 1356.

use std::rc::Rc;
use std::sync::Arc;

use model::Table;
use sql_expression::{Scope, SqlError};
use sql_parser::ast::{self, Expr, Ident, ObjectName, QueryBody, Select, SelectItem};

use crate::catalog::names::TableName;
use crate::catalog::{TableDefinition, same_name, view};
use crate::logical::binder::QueryBinder;
use crate::logical::block;
use crate::logical::bound::BoundQuery;
use crate::logical::from;
use crate::logical::with;

/// Longest name of a column.
const NAME_MAX: usize = 64;

impl QueryBinder<'_> {
    /// A name with the database it means.
    pub(crate) fn qualified(&mut self, name: &ObjectName) -> ObjectName {
        if name.schema.is_some() {
            return name.clone();
        }
        match &self.views.database {
            Some(database) => {
                ObjectName { schema: Some(Ident::from(database.as_str())), name: name.name.clone() }
            }
            None => {
                self.views.used_default = true;
                name.clone()
            }
        }
    }

    /// The definition of a table that rows are added to: error 1471 for a view.
    pub(crate) fn insertable(
        &mut self,
        name: &ObjectName,
        verb: &str,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        match self.session.view_named(&self.session.table_name(name)?)? {
            Some(view) => Err(SqlError::of::<1471>(&[&view.name, &verb])),
            None => self.definition(name),
        }
    }

    /// The query of a view of this name; none if the name is no view's.
    pub(crate) fn view(&mut self, name: &ObjectName) -> Result<Option<BoundQuery>, SqlError> {
        let name = self.session.table_name(name)?;
        let cluster = self.session.cluster();
        if self.views.are_empty() && self.session.has_temporary(&name) {
            return Ok(None);
        }
        match cluster.table_named(&name.full()) {
            Some(table) if view::is_view(table) => self.view_query(&name, table).map(Some),
            _ => Ok(None),
        }
    }

    /// Notes a view as one that the plan depends on.
    pub(crate) fn remember_view(&mut self, name: &TableName) {
        let cluster = self.session.cluster();
        let Some(table) = cluster.table_named(&name.full()) else { return };
        if !self.tables.iter().any(|(known, _)| *known == table.id) {
            self.tables.push((table.id, table.version));
        }
    }

    fn view_query(&mut self, name: &TableName, table: &Arc<Table>) -> Result<BoundQuery, SqlError> {
        let full = name.full();
        if self.views.are_inside(&full) {
            return Err(SqlError::of::<1462>(&[&name.database, &name.name]));
        }
        self.remember_view(name);
        let definition = view::read(table)?;
        self.views.inside.push(full);
        let database = self.views.database.replace(definition.database.clone());
        let (common, hints) = (std::mem::take(&mut self.common), self.hints.take());
        let bound = self.bind_query(&definition.statement.query, None);
        let bound = bound.and_then(|mut query| {
            from::rename(&mut query, &definition.statement.columns)?;
            let algorithm = definition.statement.algorithm;
            query.is_apart = algorithm == Some(ast::ViewAlgorithm::Temptable);
            Ok(query)
        });
        (self.views.database, self.common, self.hints) = (database, common, hints);
        self.views.inside.pop();
        bound.map_err(|error| {
            if self.views.inside.is_empty() && is_about_names(&error) {
                SqlError::of::<1356>(&[&name.database, &name.name])
            } else {
                error
            }
        })
    }
}

/// Whether something that a view uses is not there any more.
fn is_about_names(error: &SqlError) -> bool {
    matches!(error.code(), 1049 | 1054 | 1146 | 1176 | 1305 | 1356)
}

/// Checks the query of a view of this name, and brings it into the form that is kept.
pub(crate) fn kept_form(
    binding: &mut QueryBinder<'_>,
    name: &TableName,
    view: &ast::CreateView,
) -> Result<ast::Query, SqlError> {
    let mut query = (*view.query).clone();
    if let Some(into) = &query.into {
        let clause = if matches!(into, ast::IntoTarget::Variables(_)) { "INTO" } else { "OUTFILE" };
        return Err(SqlError::of::<1350>(&[&clause]));
    }
    binding.views.inside.push(name.full());
    let bound = binding.bind_query(&query, None)?;
    if binding.views.met_variable {
        return Err(SqlError::of::<1351>(&[]));
    }
    if binding.views.used_default && binding.session.database() != Some(&name.database) {
        return Err(SqlError::not_supported(
            "CREATE VIEW in a database that is not the default one, over tables without a database",
        ));
    }
    let mut names: Vec<String> = bound.columns.into_iter().map(|column| column.name).collect();
    for (at, name) in names.iter_mut().enumerate() {
        if name.is_empty() || name.chars().count() > NAME_MAX || name.ends_with(' ') {
            *name = format!("Name_exp_{}", at + 1);
        }
    }
    if !view.columns.is_empty() && view.columns.len() != names.len() {
        return Err(SqlError::of::<1353>(&[]));
    }
    let shown: Vec<&str> = if view.columns.is_empty() {
        names.iter().map(String::as_str).collect()
    } else {
        view.columns.iter().map(Ident::as_str).collect()
    };
    for (at, name) in shown.iter().enumerate() {
        if shown[..at].iter().any(|other| same_name(other, name)) {
            return Err(SqlError::of::<1060>(&[name]));
        }
    }
    let with = query.with.clone();
    if let Some(with) = &with {
        with::define(binding, with, None)?;
    }
    name_columns(binding, &mut query.body, &names)?;
    Ok(query)
}

/// Writes out `*`, and gives each column its name.
fn name_columns(
    binding: &mut QueryBinder<'_>,
    body: &mut QueryBody,
    names: &[String],
) -> Result<(), SqlError> {
    match body {
        QueryBody::Select(select) => {
            write_out(binding, select)?;
            for (item, name) in select.items.iter_mut().zip(names) {
                if let SelectItem::Expr { alias: alias @ None, .. } = item {
                    *alias = Some(Ident::from(name.as_str()));
                }
            }
        }
        QueryBody::SetOperation(operation) => {
            name_columns(binding, &mut operation.first, names)?;
            for operand in &mut operation.rest {
                name_columns(binding, &mut operand.body, names)?;
            }
        }
        QueryBody::Nested(query) => {
            let mark = binding.common.mark();
            if let Some(with) = query.with.clone() {
                with::define(binding, &with, None)?;
            }
            name_columns(binding, &mut query.body, names)?;
            binding.common.forget(mark);
        }
        QueryBody::Table(name) => {
            let select = Select::all_of(ast::TableReference::named(name.clone(), None));
            *body = QueryBody::Select(Box::new(select));
            return name_columns(binding, body, names);
        }
        QueryBody::Values(_) => {
            // Its columns have names of their own only within another query.
            let rows = std::mem::replace(body, QueryBody::Values(Vec::new()));
            let derived = ast::DerivedTable {
                lateral: false,
                query: with::bare(rows),
                alias: Ident::from("values"),
                columns: names.iter().map(|name| Ident::from(name.as_str())).collect(),
            };
            let select = Select::all_of(ast::TableReference::Derived(Box::new(derived)));
            *body = QueryBody::Select(Box::new(select));
            return name_columns(binding, body, names);
        }
    }
    Ok(())
}

/// Puts the columns in the place of `*` and `t.*`.
fn write_out(binding: &mut QueryBinder<'_>, select: &mut Select) -> Result<(), SqlError> {
    let is_star = |item: &SelectItem| !matches!(item, SelectItem::Expr { .. });
    if !select.items.iter().any(is_star) {
        return Ok(());
    }
    let mut scope = Scope::new(None);
    let from = from::resolve(binding, &select.from, &mut scope, from::Within::Block(0))?;
    let star = from.map(|from| from.star).unwrap_or_default();
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.items) {
        let places = match &item {
            SelectItem::Expr { .. } => {
                items.push(item);
                continue;
            }
            SelectItem::Wildcard => star.clone(),
            SelectItem::QualifiedWildcard(name) => block::table_places(&scope, name)?,
        };
        for place in places {
            let Some(column) = scope.column_at(place) else { continue };
            let table = ObjectName { schema: None, name: Ident::from(&*column.name.table) };
            let name = Ident::from(&*column.name.column);
            let expr =
                Expr::Column(ast::ColumnRef { table: Some(Box::new(table)), column: name.clone() });
            items.push(SelectItem::Expr { expr, alias: Some(name), text: Default::default() });
        }
    }
    select.items = items;
    Ok(())
}
