//! Binding of a query: a block, VALUES or a set operation, with ORDER BY and LIMIT around it.

use std::sync::Arc;

use sql_expression::{
    Binder, Clause, Expression, OrderBy, Output, ResultType, Scope, SqlError, common_type,
};
use sql_parser::ast::{self, Expr, QueryBody};

use crate::logical::binder::QueryBinder;
use crate::logical::block::block;
use crate::logical::bound::{BoundQuery, Relation, SetOperation};
use crate::logical::formula::{Formula, SetKind, SortBy};
use crate::logical::limit::bounds;
use crate::result::ResultColumn;

/// Binds a query without its WITH.
pub(crate) fn query_body(
    binding: &mut QueryBinder<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    match &query.body {
        QueryBody::Select(select) => block(binding, select, query, parent),
        QueryBody::Table(name) => {
            let select = ast::Select::all_of(ast::TableReference::named(name.clone(), None));
            block(binding, &select, query, parent)
        }
        QueryBody::Nested(nested) if is_plain(query) => nested_query(binding, nested, parent),
        QueryBody::Nested(nested) => {
            let bound = nested_query(binding, nested, parent)?;
            ordered(binding, bound, query, parent)
        }
        QueryBody::Values(rows) => {
            let bound = values(binding, rows, parent)?;
            ordered(binding, bound, query, parent)
        }
        QueryBody::SetOperation(operation) => {
            let bound = set_operation(binding, operation, parent)?;
            ordered(binding, bound, query, parent)
        }
    }
}

/// A query in parentheses. Its subqueries are run by the query of which it is a part.
fn nested_query(
    binding: &mut QueryBinder<'_>,
    nested: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    let mut bound = binding.bind_query(nested, parent)?;
    binding.subqueries.append(&mut bound.subqueries);
    Ok(bound)
}

/// Whether a query is nothing but its body.
fn is_plain(query: &ast::Query) -> bool {
    query.order_by.is_empty() && query.limit.is_none() && query.locking.is_empty()
}

/// ORDER BY and LIMIT over the rows of a query: names mean its columns.
fn ordered(
    binding: &mut QueryBinder<'_>,
    bound: BoundQuery,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    let BoundQuery { columns, results, mut relation, mut correlated, .. } = bound;
    let scope = Scope::new(parent);
    let outputs: Vec<Output> = columns
        .iter()
        .zip(&results)
        .enumerate()
        .map(|(at, (column, result))| Output {
            name: Arc::from(column.name.as_str()),
            expression: Expression::column(at as u32, Arc::default(), result.clone()),
        })
        .collect();
    let mut binder = Binder::new(&scope, binding);
    binder.outputs = outputs;
    let mut keys = Vec::new();
    for item in &query.order_by {
        let expression = match binder.bind_order_by(&item.expr)? {
            OrderBy::Output(at) => binder.outputs[at].expression.clone(),
            OrderBy::Expression(expression) => expression,
        };
        keys.push(SortBy { formula: Formula::new(expression), descending: item.descending });
    }
    let bounds = bounds(&mut binder, query.limit.as_ref())?;
    correlated |= !scope.outer_columns().is_empty();
    if !keys.is_empty() || bounds.is_some() {
        relation = Relation::Ordered { input: Box::new(relation), keys, bounds };
    }
    Ok(BoundQuery::new(columns, relation, results, correlated))
}

fn values(
    binding: &mut QueryBinder<'_>,
    rows: &[Vec<Expr>],
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    let scope = Scope::new(parent);
    let mut binder = Binder::new(&scope, binding);
    let mut bound: Vec<Vec<Expression>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if row.len() != rows[0].len() {
            return Err(SqlError::of::<1136>(&[&(at + 1)]));
        }
        let values: Result<Vec<Expression>, SqlError> =
            row.iter().map(|expr| binder.bind(expr, Clause::FieldList)).collect();
        bound.push(values?);
    }
    let width = bound.first().map_or(0, Vec::len);
    if width == 0 {
        return Err(SqlError::of::<3942>(&[]));
    }
    let mut results = Vec::new();
    for at in 0..width {
        let all = bound.iter().map(|row| row[at].result.clone());
        let all: Vec<ResultType> = all.collect();
        let all: Vec<&ResultType> = all.iter().collect();
        results.push(common_type("VALUES", &all, binding.facts().collation)?);
    }
    let columns = (0..width)
        .map(|at| ResultColumn::new(&format!("column_{at}"), results[at].sql_type.clone()))
        .collect();
    let rows = bound.into_iter().map(|row| row.into_iter().map(Formula::new).collect()).collect();
    let correlated = !scope.outer_columns().is_empty();
    Ok(BoundQuery::new(columns, Relation::Values(rows), results, correlated))
}

fn set_operation(
    binding: &mut QueryBinder<'_>,
    operation: &ast::SetOperation,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    let operand = |binding: &mut QueryBinder<'_>, body: &QueryBody| {
        let query = ast::Query {
            with: None,
            body: body.clone(),
            order_by: Vec::new(),
            limit: None,
            locking: Vec::new(),
            into: None,
        };
        query_body(binding, &query, parent)
    };
    let first = operand(binding, &operation.first)?;
    let BoundQuery { columns, mut results, mut correlated, relation, .. } = first;
    let mut parts = vec![(relation, results.clone())];
    let mut kinds = Vec::new();
    for part in &operation.rest {
        let bound = operand(binding, &part.body)?;
        if bound.columns.len() != columns.len() {
            return Err(SqlError::of::<1222>(&[]));
        }
        let connection = binding.facts().collation;
        let merged = results.iter().zip(&bound.results);
        let merged: Result<Vec<ResultType>, SqlError> =
            merged.map(|(a, b)| common_type("UNION", &[a, b], connection)).collect();
        results = merged?;
        correlated |= bound.correlated;
        let kind = match (part.op, part.all) {
            (ast::SetOp::Union, false) => SetKind::Union,
            (ast::SetOp::Union, true) => SetKind::UnionAll,
            (ast::SetOp::Except, false) => SetKind::Except,
            (ast::SetOp::Except, true) => SetKind::ExceptAll,
            (ast::SetOp::Intersect, false) => SetKind::Intersect,
            (ast::SetOp::Intersect, true) => SetKind::IntersectAll,
        };
        parts.push((bound.relation, bound.results));
        kinds.push(kind);
    }
    let columns = columns
        .into_iter()
        .zip(&results)
        .map(|(column, result)| ResultColumn::new(&column.name, result.sql_type.clone()))
        .collect();
    let relation = Relation::Set(SetOperation { parts, kinds, results: results.clone() });
    Ok(BoundQuery::new(columns, relation, results, correlated))
}
