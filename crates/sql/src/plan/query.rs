//! A query: a block, VALUES or a set operation, with ORDER BY and LIMIT around it.

use std::sync::Arc;

use sql_expression::{
    Binder, Clause, Expression, OrderBy, Output, ResultType, Scope, SqlError, common_type,
};
use sql_parser::ast::{self, Expr, QueryBody};

use crate::plan::block::block;
use crate::plan::bound::{Ingredients, Operands};
use crate::plan::limit::bounds;
use crate::plan::operator::{Formula, Operator, QueryPlan, SetKind, SortBy};
use crate::plan::planner::Planner;
use crate::plan::set_operation::set_operator;
use crate::result::ResultColumn;

/// Plans a query without its WITH.
pub(crate) fn query_body(
    planner: &mut Planner<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    match &query.body {
        QueryBody::Select(select) => block(planner, select, query, parent),
        QueryBody::Table(name) => {
            let select = ast::Select::all_of(ast::TableReference::named(name.clone(), None));
            block(planner, &select, query, parent)
        }
        QueryBody::Nested(nested) if is_plain(query) => nested_query(planner, nested, parent),
        QueryBody::Nested(nested) => {
            let plan = nested_query(planner, nested, parent)?;
            ordered(planner, plan, query, parent)
        }
        QueryBody::Values(rows) => {
            let plan = values(planner, rows, parent)?;
            ordered(planner, plan, query, parent)
        }
        QueryBody::SetOperation(operation) => {
            let plan = set_operation(planner, operation, parent)?;
            ordered(planner, plan, query, parent)
        }
    }
}

/// A query in parentheses. Its subqueries are run by the query of which it is a part.
fn nested_query(
    planner: &mut Planner<'_>,
    nested: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    let mut plan = planner.plan_query(nested, parent)?;
    planner.subplans.append(&mut plan.subqueries);
    Ok(plan)
}

/// Whether a query is nothing but its body.
fn is_plain(query: &ast::Query) -> bool {
    query.order_by.is_empty() && query.limit.is_none() && query.locking.is_empty()
}

/// ORDER BY and LIMIT over the rows of a query: names mean its columns.
fn ordered(
    planner: &mut Planner<'_>,
    plan: QueryPlan,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    let QueryPlan { columns, root, results, mut correlated, ingredients, .. } = plan;
    let mut root = root.operator;
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
    let mut binder = Binder::new(&scope, planner);
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
    let ingredients = ingredients.filter(|_| keys.is_empty() && bounds.is_none());
    if !keys.is_empty() {
        root = Operator::Sort { input: root.into(), keys, limit: bounds.clone() };
    }
    if let Some(bounds) = bounds {
        root = Operator::Limit { input: root.into(), bounds };
    }
    Ok(QueryPlan { ingredients, ..QueryPlan::new(columns, root, results, correlated) })
}

fn values(
    planner: &mut Planner<'_>,
    rows: &[Vec<Expr>],
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    let scope = Scope::new(parent);
    let mut binder = Binder::new(&scope, planner);
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
        results.push(common_type("VALUES", &all, planner.facts().collation)?);
    }
    let columns = (0..width)
        .map(|at| ResultColumn::new(&format!("column_{at}"), results[at].sql_type.clone()))
        .collect();
    let rows = bound.into_iter().map(|row| row.into_iter().map(Formula::new).collect()).collect();
    Ok(QueryPlan::new(columns, Operator::Rows(rows), results, !scope.outer_columns().is_empty()))
}

fn set_operation(
    planner: &mut Planner<'_>,
    operation: &ast::SetOperation,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    let operand = |planner: &mut Planner<'_>, body: &QueryBody| {
        let query = ast::Query {
            with: None,
            body: body.clone(),
            order_by: Vec::new(),
            limit: None,
            locking: Vec::new(),
            into: None,
        };
        query_body(planner, &query, parent)
    };
    let first = operand(planner, &operation.first)?;
    let (columns, mut results, mut correlated) = (first.columns, first.results, first.correlated);
    let mut roots = vec![first.root.operator];
    let mut types: Vec<Vec<ResultType>> = vec![results.clone()];
    let (mut kinds, mut made) = (Vec::new(), vec![first.ingredients]);
    for part in &operation.rest {
        let plan = operand(planner, &part.body)?;
        if plan.columns.len() != columns.len() {
            return Err(SqlError::of::<1222>(&[]));
        }
        let connection = planner.facts().collation;
        let merged = results.iter().zip(&plan.results);
        let merged: Result<Vec<ResultType>, SqlError> =
            merged.map(|(a, b)| common_type("UNION", &[a, b], connection)).collect();
        results = merged?;
        types.push(plan.results);
        correlated |= plan.correlated;
        let kind = match (part.op, part.all) {
            (ast::SetOp::Union, false) => SetKind::Union,
            (ast::SetOp::Union, true) => SetKind::UnionAll,
            (ast::SetOp::Except, false) => SetKind::Except,
            (ast::SetOp::Except, true) => SetKind::ExceptAll,
            (ast::SetOp::Intersect, false) => SetKind::Intersect,
            (ast::SetOp::Intersect, true) => SetKind::IntersectAll,
        };
        roots.push(plan.root.operator);
        made.push(plan.ingredients);
        kinds.push(kind);
    }
    let columns = columns
        .into_iter()
        .zip(&results)
        .map(|(column, result)| ResultColumn::new(&column.name, result.sql_type.clone()))
        .collect();
    let operands = roots.into_iter().zip(types.iter().map(Vec::as_slice));
    let root = set_operator(operands, &kinds, &results)?;
    let made: Option<Vec<Ingredients>> = made.into_iter().map(|one| one.map(|one| *one)).collect();
    let ingredients = made.map(|made| {
        let (parts, results) = (made.into_iter().zip(types).collect(), results.clone());
        Box::new(Ingredients::Set(Operands { parts, kinds, results }))
    });
    Ok(QueryPlan { ingredients, ..QueryPlan::new(columns, root, results, correlated) })
}
