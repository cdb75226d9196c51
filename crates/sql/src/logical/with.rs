//! Binding of WITH: common tables, and those that refer to themselves.
//!
//! # Guarantees
//! A common table is bound where it is defined: columns of blocks around that place mean the same
//! wherever the table is used further in.
//! # Not here
//! Which table a name means (`common_table`).

use std::rc::Rc;

use sql_expression::{Binder, ResultType, Scope, SqlError};
use sql_parser::ast::{self, QueryBody, SetOp};
use sqltype::{SqlType, TypeKind};

use crate::logical::binder::QueryBinder;
use crate::logical::bound::{Block, BoundQuery, BoundRecursion, Relation};
use crate::logical::from;
use crate::logical::limit;
use crate::logical::query;
use crate::result::ResultColumn;

/// Binds the tables of WITH and brings them into sight.
pub(crate) fn define(
    binding: &mut QueryBinder<'_>,
    with: &ast::With,
    parent: Option<&Scope<'_>>,
) -> Result<(), SqlError> {
    for (at, table) in with.tables.iter().enumerate() {
        let name = table.name.as_str();
        let same = |other: &ast::CommonTable| other.name.as_str().eq_ignore_ascii_case(name);
        if with.tables[..at].iter().any(same) {
            return Err(SqlError::of::<1066>(&[&name]));
        }
        let query = if with.recursive {
            recursive(binding, table, parent)?
        } else {
            let mut query = binding.bind_query(&table.query, parent)?;
            from::rename(&mut query, &table.columns)?;
            query
        };
        let query = binding.numbered(query);
        binding.common.add(name, query, parent);
    }
    Ok(())
}

/// Binds a table of WITH RECURSIVE, whether it refers to itself or not.
fn recursive(
    binding: &mut QueryBinder<'_>,
    table: &ast::CommonTable,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    binding.enclosed(|binding| {
        if let Some(with) = &table.query.with {
            define(binding, with, parent)?;
        }
        let mark = binding.common.mark();
        binding.common.add_working(table.name.as_str(), binding.depth, parent);
        let bound = with_itself(binding, table, parent);
        binding.common.forget(mark);
        match bound? {
            Some(query) => Ok(query),
            None => {
                let mut query = query::query_body(binding, &table.query, parent)?;
                from::rename(&mut query, &table.columns)?;
                Ok(query)
            }
        }
    })
}

/// Binds a table in sight of itself; nothing if it does not look.
fn with_itself(
    binding: &mut QueryBinder<'_>,
    table: &ast::CommonTable,
    parent: Option<&Scope<'_>>,
) -> Result<Option<BoundQuery>, SqlError> {
    let (query, name) = (&table.query, table.name.as_str());
    let is_union = |operand: &ast::SetOperand| operand.op == SetOp::Union;
    let operation = match &query.body {
        QueryBody::SetOperation(operation) if operation.rest.iter().all(is_union) => operation,
        body => {
            let refers = refers(binding, body, parent);
            return match (refers?, body) {
                (false, _) => Ok(None),
                (true, QueryBody::SetOperation(_)) => Err(SqlError::of::<3574>(&[&name])),
                (true, _) => Err(SqlError::of::<3573>(&[&name])),
            };
        }
    };
    if refers(binding, &operation.first, parent)? {
        return Err(SqlError::of::<3574>(&[&name]));
    }
    let mut fixed = 0;
    for operand in &operation.rest {
        if refers(binding, &operand.body, parent)? {
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
    let mut first = query::query_body(binding, &bare(body), parent)?;
    from::rename(&mut first, &table.columns)?;
    let number = sql_expression::Environment::next_number(binding);
    let rows = newest_rows(&first, number);
    binding.common.working()?.query = Some(Rc::new(rows));
    let mut parts = Vec::new();
    let mut correlated = first.correlated;
    for operand in &operation.rest[fixed..] {
        let part = part(binding, &operand.body, name, parent)?;
        if part.columns.len() != first.columns.len() {
            return Err(SqlError::of::<1222>(&[]));
        }
        correlated |= part.correlated;
        parts.push((part.relation, part.results.into_iter().map(|of| of.sql_type).collect()));
    }
    let scope = Scope::new(parent);
    let bounds = limit::bounds(&mut Binder::new(&scope, binding), query.limit.as_ref())?;
    let distinct = operation.rest[fixed..].iter().any(|operand| !operand.all);
    let BoundQuery { columns, relation: first, results, .. } = first;
    let stored = columns.iter().map(|column| column.name.clone());
    let types = results.iter().map(|result| column_type(result).sql_type);
    let stored = stored.zip(types).collect();
    let recursion = BoundRecursion { number, first, parts, distinct, columns: stored, bounds };
    let query = growing(columns, &results, recursion);
    Ok(Some(BoundQuery { correlated, ..query }))
}

/// The query of a table that grows.
fn growing(
    columns: Vec<ResultColumn>,
    first: &[ResultType],
    recursion: BoundRecursion,
) -> BoundQuery {
    let results: Vec<ResultType> = first.iter().map(column_type).collect();
    let named = columns.iter().zip(&results);
    let columns =
        named.map(|(column, result)| ResultColumn::new(&column.name, result.sql_type.clone()));
    BoundQuery::new(columns.collect(), Relation::Recursive(Box::new(recursion)), results, false)
}

/// Whether a part of the table refers to it. Everything else that is wrong with the part is told
/// when it is bound in earnest.
fn refers(
    binding: &mut QueryBinder<'_>,
    body: &QueryBody,
    parent: Option<&Scope<'_>>,
) -> Result<bool, SqlError> {
    let subqueries = binding.subqueries.len();
    let marks = binding.common.mark();
    binding.common.working()?.references = 0;
    let bound = query::query_body(binding, &bare(body.clone()), parent);
    binding.common.forget(marks);
    binding.subqueries.truncate(subqueries);
    match binding.common.working()?.references {
        0 => bound.map(|_| false),
        _ => Ok(true),
    }
}

/// Binds a part that refers to the table.
fn part(
    binding: &mut QueryBinder<'_>,
    body: &QueryBody,
    name: &str,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    binding.common.working()?.references = 0;
    let query = query::query_body(binding, &bare(body.clone()), parent)?;
    if binding.common.working()?.references == 0 {
        return Err(SqlError::of::<3574>(&[&name]));
    }
    let unsupported = match &query.relation {
        Relation::Ordered { .. } => true,
        Relation::Block(block) => {
            let Block { bound, shape, .. } = &**block;
            shape.distinct || !bound.order_by.is_empty() || bound.bounds.is_some()
        }
        _ => false,
    };
    if unsupported {
        return Err(SqlError::not_supported(
            "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table \
             Expression",
        ));
    }
    match &query.relation {
        Relation::Block(block) if block.shape.grouped || !block.bound.windows.is_empty() => {
            Err(SqlError::of::<3575>(&[&name]))
        }
        _ => Ok(query),
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
fn newest_rows(first: &BoundQuery, number: u32) -> BoundQuery {
    BoundQuery::new(
        first.columns.clone(),
        Relation::WorkTable { number },
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
