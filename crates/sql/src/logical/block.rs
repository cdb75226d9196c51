//! Binding of a query block: SELECT with everything around it.
//!
//! # Owns
//! The order in which the clauses of a block are bound, and what clients see of its columns.
//! # Not here
//! FROM (`from`). What becomes of the bound block (`rewrite`, `plan`).

use sql_expression::{
    Binder, Clause, Expression, Node, OrderBy, Output, Pauses, ResultType, Scope, SqlError, SqlMode,
};
use sql_parser::ast::{self, AggregateFunction, Expr, Literal, SelectItem};
use sqltype::{Datum, SqlType};

use crate::catalog::{ColumnDefault, KeyKind, TableDefinition};
use crate::logical::binder::QueryBinder;
use crate::logical::bound::{Block, Bound, BoundQuery, Relation, Shape};
use crate::logical::from::{self, From, Within};
use crate::logical::from_table::{FromTable, Source, table_at};
use crate::logical::grouping;
use crate::logical::hint;
use crate::logical::limit::bounds;
use crate::logical::predicate;
use crate::logical::rewrite;
use crate::result::ResultColumn;

/// Binds a block, and rewrites it: what stands in its FROM is in its final form by then.
pub(super) fn block(
    binding: &mut QueryBinder<'_>,
    select: &ast::Select,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    let mut scope = Scope::new(parent);
    let exists = binding.take_exists();
    let resolved = from::resolve(binding, &select.from, &mut scope, Within::Block(select.block.0))?;
    let (mut tables, tree, star, of_views) = match resolved {
        Some(From { tables, tree, star, conditions, .. }) => (tables, Some(tree), star, conditions),
        None => (Vec::new(), None, Vec::new(), Vec::new()),
    };
    if select.options.straight_join {
        hint::fix_order(&mut tables);
    }
    from::lock(binding, &mut tables, &query.locking)?;
    let pauses = binding.session.pauses().clone();
    let mut binder = Binder::new(&scope, binding);
    binder.named_windows = select.windows.clone();
    binder.is_block = true;
    let tree = tree.map(|tree| from::bind_tree(&mut binder, tree)).transpose()?;
    let columns = bind_items(&mut binder, select, &tables, &star)?;
    let mut bound = bind(&mut binder, select, query)?;
    bound.conditions.splice(0..0, of_views);
    // What follows goes over all expressions again and again: others have a turn between.
    pauses.look()?;
    bound.pauses = pauses;
    if binder.bound_to_session {
        binding.once = true;
    }
    let shape = Shape {
        grouped: !bound.group_by.is_empty() || !bound.aggregates.is_empty(),
        distinct: select.distinct,
        rollup: select.rollup,
        counts: select.options.calc_found_rows,
    };
    let (width, correlated) = (scope.width() as usize, !scope.outer_columns().is_empty());
    let mut block = Block { tables, tree, bound, width, shape, correlated, exists };
    check(binding, &scope, &block)?;
    if exists && !shape.distinct && block.bound.windows.is_empty() {
        // What a row would show is never computed, so that it cannot fail.
        let one = Expression::constant(Datum::Int(1), ResultType::of(SqlType::big_int(), false));
        block.bound.outputs.iter_mut().for_each(|output| output.expression = one.clone());
    }
    let outputs = block.bound.outputs.iter();
    let results = outputs.map(|output| output.expression.result.clone()).collect();
    rewrite::rewrite(&mut block, &binding.subqueries, &mut binding.numbers)?;
    let relation = Relation::Block(Box::new(block));
    Ok(BoundQuery::new(columns, relation, results, correlated))
}

/// What a block may show of its groups, and sort by.
fn check(binding: &QueryBinder<'_>, scope: &Scope<'_>, block: &Block) -> Result<(), SqlError> {
    let Shape { grouped, distinct, rollup, .. } = block.shape;
    grouping::check_groupings(&block.bound, rollup)?;
    if !binding.facts().sql_mode.contains(SqlMode::ONLY_FULL_GROUP_BY) {
        return Ok(());
    }
    if grouped {
        grouping::check_grouping(binding, scope, block)?;
    }
    if distinct && !grouped {
        grouping::check_distinct(&block.bound)?;
    }
    Ok(())
}

/// The select list: what clients see of its columns.
fn bind_items(
    binder: &mut Binder<'_, '_>,
    select: &ast::Select,
    tables: &[FromTable],
    star: &[u32],
) -> Result<Vec<ResultColumn>, SqlError> {
    let mut columns = Vec::new();
    for item in &select.items {
        match item {
            SelectItem::Wildcard => {
                if tables.is_empty() {
                    return Err(SqlError::of::<1096>(&[]));
                }
                push_star(binder, tables, star, &mut columns);
            }
            SelectItem::QualifiedWildcard(name) => {
                qualified_star(binder, tables, name, &mut columns)?;
            }
            SelectItem::Expr { expr, alias, text } => {
                let expression = binder.bind(expr, Clause::FieldList)?;
                let name = match (alias, expr) {
                    (Some(alias), _) => alias.as_str().to_owned(),
                    (None, Expr::Column(column)) => column.column.as_str().to_owned(),
                    (None, Expr::Literal(Literal::String(text))) => {
                        String::from_utf8_lossy(text).into_owned()
                    }
                    (None, _) => text.as_str().to_owned(),
                };
                let mut column = result_column(&name, &expression, tables);
                if let (None, Some(place)) = (alias, expression.as_column())
                    && is_of_information_schema(tables, place as usize)
                {
                    // Its tables are views: columns keep the names that those gave them.
                    column.name.clone_from(&column.org_name);
                }
                columns.push(column);
                binder.outputs.push(Output { name: name.into(), expression });
            }
        }
    }
    Ok(columns)
}

/// The clauses around the select list, which is bound.
fn bind(
    binder: &mut Binder<'_, '_>,
    select: &ast::Select,
    query: &ast::Query,
) -> Result<Bound, SqlError> {
    let mut conditions = Vec::new();
    if let Some(filter) = &select.filter {
        predicate::split(binder.bind(filter, Clause::Where)?, &mut conditions);
    }
    let mut group_by = Vec::new();
    for expr in &select.group_by {
        group_by.push(match binder.bind_group_by(expr)? {
            OrderBy::Output(at) => binder.outputs[at].expression.clone(),
            OrderBy::Expression(expression) => expression,
        });
    }
    binder.group_by = group_by.clone();
    let mut having = Vec::new();
    if let Some(condition) = &select.having {
        predicate::split(binder.bind(condition, Clause::Having)?, &mut having);
    }
    let mut order_by = Vec::new();
    for item in &query.order_by {
        let (expression, output) = match binder.bind_order_by(&item.expr)? {
            OrderBy::Output(at) => (binder.outputs[at].expression.clone(), Some(at)),
            OrderBy::Expression(expression) => (expression, None),
        };
        order_by.push((expression, output, item.descending));
    }
    let bounds = bounds(binder, query.limit.as_ref())?;
    binder.check_windows()?;
    // What is one of the values has the digits of its type; sums have those they are computed of.
    let mut aggregates = binder.scope().take_aggregates();
    for call in &mut aggregates {
        let picks = matches!(call.function, AggregateFunction::Min | AggregateFunction::Max);
        call.exact = group_by.is_empty() && !picks;
    }
    Ok(Bound {
        outputs: binder.outputs.clone(),
        conditions,
        group_by,
        having,
        order_by,
        bounds,
        aggregates,
        windows: binder.windows.clone(),
        pauses: Pauses::default(),
    })
}

fn push_star(
    binder: &mut Binder<'_, '_>,
    tables: &[FromTable],
    star: &[u32],
    columns: &mut Vec<ResultColumn>,
) {
    for place in star {
        push_column(binder, tables, *place, columns);
    }
}

/// The places of the columns that `t.*` stands for: error 1051 if there is no such table.
pub(crate) fn table_places(
    scope: &Scope<'_>,
    name: &ast::ObjectName,
) -> Result<Vec<u32>, SqlError> {
    let schema = name.schema.as_ref().map(ast::Ident::as_str);
    let table = scope.table(schema, name.name.as_str());
    let table = table.ok_or_else(|| SqlError::of::<1051>(&[&name]))?;
    let columns = (table.offset..).zip(&table.columns);
    Ok(columns.filter(|(_, column)| !column.hidden).map(|(place, _)| place).collect())
}

/// Adds a column to the select list under its own name.
fn push_column(
    binder: &mut Binder<'_, '_>,
    tables: &[FromTable],
    place: u32,
    columns: &mut Vec<ResultColumn>,
) {
    let Some(column) = binder.scope().column_at(place) else { return };
    let expression = Expression::column(place, column.name.clone(), column.result.clone());
    let name = column.name.column.to_string();
    columns.push(result_column(&name, &expression, tables));
    binder.outputs.push(Output { name: name.into(), expression });
}

fn qualified_star(
    binder: &mut Binder<'_, '_>,
    tables: &[FromTable],
    name: &ast::ObjectName,
    columns: &mut Vec<ResultColumn>,
) -> Result<(), SqlError> {
    for place in table_places(binder.scope(), name)? {
        push_column(binder, tables, place, columns);
    }
    Ok(())
}

/// What clients see of an element of the select list.
fn result_column(name: &str, expression: &Expression, tables: &[FromTable]) -> ResultColumn {
    use mysql_wire::constants::flag;
    let mut column = ResultColumn::new(name, expression.sql_type().clone());
    if !expression.result.nullable {
        column.flags |= flag::NOT_NULL;
    }
    let Node::Column { index, name: of } = &expression.node else {
        if !column.sql_type.kind.is_string() {
            column.flags |= flag::BINARY;
        }
        return column;
    };
    column.database = of.schema.to_string();
    column.table = of.table.to_string();
    column.org_name = of.column.to_string();
    let place = *index as usize;
    let table = table_at(tables, place);
    let Some(table) = table else { return column };
    match &table.source {
        Source::Table(definition) => {
            column.org_table.clone_from(&definition.name);
            column.org_name.clone_from(&definition.columns[place - table.offset].name);
            column.flags |= key_flags(definition, place - table.offset);
        }
        Source::Virtual(_) => column.org_table.clone_from(&table.alias),
        Source::Derived(_) => {}
    }
    column
}

fn is_of_information_schema(tables: &[FromTable], place: usize) -> bool {
    let table = table_at(tables, place);
    table.is_some_and(|table| match &table.source {
        Source::Virtual(source) => source.schema == "information_schema",
        _ => false,
    })
}

/// A column's flags from its place in keys.
pub(crate) fn key_flags(definition: &TableDefinition, at: usize) -> u16 {
    use mysql_wire::constants::flag;
    let mut flags = 0;
    let primary = definition.identifying_key();
    for key in &definition.keys {
        let Some(place) = key.columns.iter().position(|part| part.declared == at) else { continue };
        flags |= flag::PART_KEY;
        flags |= match (key.kind, place) {
            _ if primary.is_some_and(|primary| std::ptr::eq(primary, key)) => flag::PRI_KEY,
            (KeyKind::Unique, 0) if key.columns.len() == 1 => flag::UNIQUE_KEY,
            (_, 0) => flag::MULTIPLE_KEY,
            _ => 0,
        };
    }
    let column = &definition.columns[at];
    if column.auto_increment {
        flags |= flag::AUTO_INCREMENT;
    }
    if column.on_update_now.is_some() {
        flags |= flag::ON_UPDATE_NOW;
    }
    if column.on_update_now.is_some() || matches!(column.default, ColumnDefault::Now(_)) {
        flags |= flag::TIMESTAMP;
    }
    let has_default =
        column.nullable || column.auto_increment || column.default != ColumnDefault::None;
    if !has_default {
        flags |= flag::NO_DEFAULT;
    }
    flags
}
