//! ON DUPLICATE KEY UPDATE: what its expressions can name, and the row they see.
//!
//! # Owns
//! What stands behind the table's own columns: the new row under its alias, or the columns of the
//! tables that the query reads.
//! # Not here
//! Which row is the duplicate, and its update (`insert`).

use sql_expression::{Binder, Clause, Node, Scope, ScopeColumn, ScopeTable, SqlError};
use sql_parser::ast::{self, Expr, InsertSource, QueryBody, SelectItem};
use sqltype::Datum;

use crate::catalog::column_at;
use crate::execute::insert::Target;
use crate::execute::update::{check_generated, default_value};
use crate::logical::formula::Formula;
use crate::logical::from;
use crate::plan::planner::Planner;
use crate::rows::Row;

/// A planned ON DUPLICATE KEY UPDATE.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// Columns with their new values, from left to right.
    pub(super) assignments: Vec<(usize, Formula)>,
    /// What stands behind the table's columns in the row that the values are computed from.
    behind: Behind,
}

#[derive(Debug, Default)]
enum Behind {
    #[default]
    Nothing,
    /// These columns of the new row.
    New(Vec<usize>),
    /// What the query has read beside the values to be inserted.
    Query,
}

impl Duplicates {
    /// The row that the assignments see, and change.
    pub(super) fn row(&self, before: &[Datum], new: &[Datum], read: Vec<Datum>) -> Row {
        let mut row = before.to_vec();
        match &self.behind {
            Behind::Nothing => {}
            Behind::New(columns) => row.extend(columns.iter().map(|at| new[*at].clone())),
            Behind::Query => row.extend(read),
        }
        row
    }
}

/// Plans the assignments of an INSERT into these columns. `scope` has the table. A query of which
/// they use more than it selects is given back, selecting that too.
pub(super) fn plan(
    planner: &mut Planner<'_>,
    insert: &ast::Insert,
    target: Target<'_>,
    columns: &[usize],
    mut scope: Scope<'_>,
) -> Result<(Duplicates, Option<ast::Query>), SqlError> {
    let (definition, own) = (target.definition, scope.width());
    let mut behind = Behind::Nothing;
    let mut sources = Vec::new();
    match (&insert.source, &insert.alias) {
        (InsertSource::Values(_) | InsertSource::Literals(_), Some(alias)) => {
            scope.add(new_row(target, columns, alias)?);
            behind = Behind::New(columns.to_vec());
        }
        (InsertSource::Query(query), _) => {
            sources = tables_of(planner, query)?;
            // The table's own name means the row that is there.
            sources.retain(|table| table.name.as_ref() != target.name().1);
            for table in &sources {
                scope.add(table.clone());
            }
        }
        (InsertSource::Values(_) | InsertSource::Literals(_), None) => {}
    }
    let mut binder = Binder::new(&scope, &mut planner.binding);
    binder.updating_duplicates = true;
    let (mut assignments, mut reads) = (Vec::new(), false);
    for assignment in &insert.on_duplicate {
        let at = column_at(definition, assignment.column.column.as_str())?;
        check_generated(definition, at, &assignment.value)?;
        let value = match &assignment.value {
            Expr::DefaultValue => default_value(&mut binder, definition, at, &assignment.column)?,
            expr => binder.bind(expr, Clause::FieldList)?,
        };
        reads |= value.any(&mut |part| match &part.node {
            Node::Column { index, .. } => *index >= own,
            Node::Subquery(subquery) => subquery.correlated,
            _ => false,
        });
        assignments.push((at, Formula::new(value)));
    }
    let InsertSource::Query(query) = &insert.source else {
        return Ok((Duplicates { assignments, behind }, None));
    };
    if !reads {
        return Ok((Duplicates { assignments, behind }, None));
    }
    let mut query = (**query).clone();
    if let QueryBody::Select(select) = &mut query.body {
        select.items.extend(sources.iter().flat_map(selected));
    }
    Ok((Duplicates { assignments, behind: Behind::Query }, Some(query)))
}

/// The new row as a table: `AS alias (names)`.
fn new_row(
    target: Target<'_>,
    columns: &[usize],
    alias: &ast::InsertAlias,
) -> Result<ScopeTable, SqlError> {
    let name = alias.table.as_str();
    if name == target.name().1 {
        return Err(SqlError::of::<1066>(&[&name]));
    }
    if !alias.columns.is_empty() && alias.columns.len() != columns.len() {
        return Err(SqlError::of::<1353>(&[]));
    }
    let all = target.columns(name);
    let mut named: Vec<ScopeColumn> = columns.iter().map(|at| all[*at].clone()).collect();
    for (column, given) in named.iter_mut().zip(&alias.columns) {
        column.name = from::column_name("", name, given.as_str());
    }
    Ok(ScopeTable { schema: None, name: name.into(), columns: named, offset: 0 })
}

/// The tables whose columns can be named: those of a query that gives a row for each it reads.
fn tables_of(planner: &mut Planner<'_>, query: &ast::Query) -> Result<Vec<ScopeTable>, SqlError> {
    let QueryBody::Select(select) = &query.body else { return Ok(Vec::new()) };
    if select.distinct || !select.group_by.is_empty() {
        return Ok(Vec::new());
    }
    planner.with_common_tables(query.with.as_ref(), |planner| {
        let mut scope = Scope::new(None);
        from::resolve(&mut planner.binding, &select.from, &mut scope, from::Within::Block(0))?;
        Ok(scope.tables)
    })
}

/// All columns of a table, by name.
fn selected(table: &ScopeTable) -> impl Iterator<Item = SelectItem> + '_ {
    let name = ast::ObjectName {
        schema: table.schema.as_ref().map(|schema| ast::Ident::new(&**schema)),
        name: ast::Ident::new(&*table.name),
    };
    table.columns.iter().map(move |column| {
        let (table, column) = (Some(Box::new(name.clone())), ast::Ident::new(&*column.name.column));
        let expr = Expr::Column(ast::ColumnRef { table, column });
        SelectItem::Expr { expr, alias: None, text: ast::SourceText::default() }
    })
}
