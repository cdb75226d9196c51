//! WITH: plans of common tables, and of those that refer to themselves.
//!
//! # Guarantees
//! A common table is planned where it is defined: columns of blocks around that place mean the same
//! wherever the table is used further in.
//! # Not here
//! Which table a name means (`common_table`).

use std::rc::Rc;

use sql_expression::{Binder, ResultType, Scope, SqlError};
use sql_parser::ast::{self, QueryBody, SetOp};
use sqltype::{SqlType, TypeKind};

use crate::plan::from;
use crate::plan::limit;
use crate::plan::operator::{Operator, QueryPlan, Recursion};
use crate::plan::planner::Planner;
use crate::plan::query;
use crate::result::ResultColumn;

/// Plans the tables of WITH and brings them into sight.
pub(crate) fn define(
    planner: &mut Planner<'_>,
    with: &ast::With,
    parent: Option<&Scope<'_>>,
) -> Result<(), SqlError> {
    for (at, table) in with.tables.iter().enumerate() {
        let name = table.name.as_str();
        let same = |other: &ast::CommonTable| other.name.as_str().eq_ignore_ascii_case(name);
        if with.tables[..at].iter().any(same) {
            return Err(SqlError::of::<1066>(&[&name]));
        }
        let plan = if with.recursive {
            recursive(planner, table, parent)?
        } else {
            let mut plan = planner.plan_query(&table.query, parent)?;
            from::rename(&mut plan, &table.columns)?;
            plan
        };
        planner.common.add(name, plan, parent);
    }
    Ok(())
}

/// Plans a table of WITH RECURSIVE, whether it refers to itself or not.
fn recursive(
    planner: &mut Planner<'_>,
    table: &ast::CommonTable,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    planner.enclosed(|planner| {
        if let Some(with) = &table.query.with {
            define(planner, with, parent)?;
        }
        let mark = planner.common.mark();
        planner.common.add_working(table.name.as_str(), planner.depth, parent);
        let planned = with_itself(planner, table, parent);
        planner.common.forget(mark);
        match planned? {
            Some(plan) => Ok(plan),
            None => {
                let mut plan = query::query_body(planner, &table.query, parent)?;
                from::rename(&mut plan, &table.columns)?;
                Ok(plan)
            }
        }
    })
}

/// Plans a table in sight of itself; nothing if it does not look.
fn with_itself(
    planner: &mut Planner<'_>,
    table: &ast::CommonTable,
    parent: Option<&Scope<'_>>,
) -> Result<Option<QueryPlan>, SqlError> {
    let (query, name) = (&table.query, table.name.as_str());
    let is_union = |operand: &ast::SetOperand| operand.op == SetOp::Union;
    let operation = match &query.body {
        QueryBody::SetOperation(operation) if operation.rest.iter().all(is_union) => operation,
        body => {
            let refers = refers(planner, body, parent);
            return match (refers?, body) {
                (false, _) => Ok(None),
                (true, QueryBody::SetOperation(_)) => Err(SqlError::of::<3574>(&[&name])),
                (true, _) => Err(SqlError::of::<3573>(&[&name])),
            };
        }
    };
    if refers(planner, &operation.first, parent)? {
        return Err(SqlError::of::<3574>(&[&name]));
    }
    let mut fixed = 0;
    for operand in &operation.rest {
        if refers(planner, &operand.body, parent)? {
            break;
        }
        fixed += 1;
    }
    if fixed == operation.rest.len() {
        return Ok(None);
    }
    if !query.order_by.is_empty() {
        let what = "ORDER BY over UNION in recursive Common Table Expression";
        return Err(SqlError::not_supported(what));
    }
    let body = match fixed {
        0 => operation.first.clone(),
        _ => QueryBody::SetOperation(Box::new(ast::SetOperation {
            first: operation.first.clone(),
            rest: operation.rest[..fixed].to_vec(),
        })),
    };
    let mut first = query::query_body(planner, &bare(body), parent)?;
    from::rename(&mut first, &table.columns)?;
    let number = sql_expression::Environment::next_number(planner);
    let rows = newest_rows(&first, number);
    planner.common.working()?.plan = Some(Rc::new(rows));
    let mut parts = Vec::new();
    let mut correlated = first.correlated;
    for operand in &operation.rest[fixed..] {
        let part = part(planner, &operand.body, name, parent)?;
        if part.columns.len() != first.columns.len() {
            return Err(SqlError::of::<1222>(&[]));
        }
        correlated |= part.correlated;
        parts.push((part.root, part.results.into_iter().map(|of| of.sql_type).collect()));
    }
    let scope = Scope::new(parent);
    let bounds = limit::bounds(&mut Binder::new(&scope, planner), query.limit.as_ref())?;
    let distinct = operation.rest[fixed..].iter().any(|operand| !operand.all);
    let QueryPlan { columns, root: first, results, .. } = first;
    let stored = columns.iter().map(|column| column.name.clone());
    let types = results.iter().map(|result| column_type(result).sql_type);
    let stored = stored.zip(types).collect();
    let recursion = Recursion { number, first, parts, distinct, columns: stored, bounds };
    let plan = growing(columns, &results, recursion);
    Ok(Some(QueryPlan { correlated, ..plan }))
}

/// The plan of a table that grows.
fn growing(columns: Vec<ResultColumn>, first: &[ResultType], recursion: Recursion) -> QueryPlan {
    let results: Vec<ResultType> = first.iter().map(column_type).collect();
    let named = columns.iter().zip(&results);
    let columns =
        named.map(|(column, result)| ResultColumn::new(&column.name, result.sql_type.clone()));
    QueryPlan::new(columns.collect(), Operator::Recursive(Box::new(recursion)), results, false)
}

/// Whether a part of the table refers to it. Everything else that is wrong with the part is told
/// when it is planned in earnest.
fn refers(
    planner: &mut Planner<'_>,
    body: &QueryBody,
    parent: Option<&Scope<'_>>,
) -> Result<bool, SqlError> {
    let subplans = planner.subplans.len();
    let marks = planner.common.mark();
    planner.common.working()?.references = 0;
    let planned = query::query_body(planner, &bare(body.clone()), parent);
    planner.common.forget(marks);
    planner.subplans.truncate(subplans);
    match planner.common.working()?.references {
        0 => planned.map(|_| false),
        _ => Ok(true),
    }
}

/// Plans a part that refers to the table.
fn part(
    planner: &mut Planner<'_>,
    body: &QueryBody,
    name: &str,
    parent: Option<&Scope<'_>>,
) -> Result<QueryPlan, SqlError> {
    planner.common.working()?.references = 0;
    let plan = query::query_body(planner, &bare(body.clone()), parent)?;
    if planner.common.working()?.references == 0 {
        return Err(SqlError::of::<3574>(&[&name]));
    }
    let mut operator: &Operator = &plan.root;
    loop {
        operator = match operator {
            Operator::Aggregate(_) | Operator::Edges { .. } | Operator::Window(_) => {
                return Err(SqlError::of::<3575>(&[&name]));
            }
            Operator::Distinct { .. } | Operator::Sort { .. } | Operator::Limit { .. } => {
                return Err(SqlError::not_supported(
                    "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table \
                     Expression",
                ));
            }
            Operator::Project { input, .. } | Operator::Filter { input, .. } => input,
            _ => return Ok(plan),
        };
    }
}

/// A query that is nothing but its body.
pub(crate) fn bare(body: QueryBody) -> ast::Query {
    ast::Query {
        with: None,
        body,
        order_by: Vec::new(),
        limit: None,
        locking: Vec::new(),
        into: None,
    }
}

/// What parts see as the table: the rows of the last round.
fn newest_rows(first: &QueryPlan, number: u32) -> QueryPlan {
    QueryPlan::new(
        first.columns.clone(),
        Operator::WorkTable { number },
        first.results.iter().map(column_type).collect(),
        false,
    )
}

/// The first part fixes the types of columns; all of them may be NULL.
fn column_type(result: &ResultType) -> ResultType {
    let sql_type = match result.sql_type.kind {
        TypeKind::Null => SqlType::text(0),
        _ => result.sql_type.clone(),
    };
    ResultType::column(sql_type, true)
}
