//! IN for few values: the rows of a subquery that have a value, instead of all of its rows.
//!
//! `value IN (SELECT column …)` asks whether the subquery has a row with the value. Where few are
//! asked for, a subquery with the condition `column = value`, tied to the enclosing row, finds that
//! out with an index; where many are, the subquery is run once. (W. Kim: On Optimizing an SQL-like
//! Nested Query, TODS 1982, has the equivalence.)
//!
//! # Owns
//! [`Search`], and which conditions have one.
//! # Guarantees
//! For values that are not NULL, IN over the rows that a search finds is what it is over all rows;
//! where [`Search::only_true`], it is true for the same values, and false or unknown for others.
//! # Not here
//! When it is worth it: executors know how many values there are (`run`, `columns::apply`).

use std::rc::Rc;
use std::sync::Arc;

use sql_expression::{
    BinaryOp, Comparison, Expression, Needs, Node, ResultType, RowQuantifier, SqlError, SubqueryId,
    SubqueryKind, SubqueryUse,
};

use crate::logical::bound::{Block, BoundQuery, Subquery};
use crate::logical::formula::Formula;
use crate::logical::from_table::{self, FromTable, Source};
use crate::logical::predicate::{self, equality};
use crate::plan::assemble;
use crate::plan::join::JoinPlanner;
use crate::plan::keyed;
use crate::plan::operator::{Keyed, Operator, QueryPlan, Search, Subplan};

/// Gives the plans of subqueries that conditions ask for values a search, where they can have one.
///
/// # Errors
/// Those of planning joins.
pub(super) fn add_searches(
    subqueries: &[Subquery],
    subplans: &mut [Subplan],
    conditions: &[Expression],
    next_number: &mut dyn FnMut() -> u32,
) -> Result<(), SqlError> {
    for condition in conditions {
        let mut uses = Vec::new();
        condition.visit(&mut |part| {
            if let Node::Subquery(subquery) = &part.node {
                uses.push((&**subquery, std::ptr::eq(part, condition)));
            }
        });
        for (subquery, is_whole) in uses {
            let of_id = subqueries.iter().find(|of| of.id == subquery.id);
            let subplan = subplans.iter_mut().find(|subplan| subplan.id == subquery.id);
            let (Some(of_id), Some(subplan)) = (of_id, subplan) else { continue };
            if subplan.search.is_some() {
                continue;
            }
            match search(&of_id.query, subplan, subquery, is_whole) {
                Ok(mut search) => {
                    search.subplan.id = SubqueryId(next_number());
                    subplan.search = Some(Rc::new(search));
                }
                Err(Without::Whole(why)) => subplan.whole = why,
                Err(Without::Failed(error)) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Why there is no search.
enum Without {
    /// What EXPLAIN says of it.
    Whole(Option<&'static str>),
    Failed(SqlError),
}

impl From<SqlError> for Without {
    fn from(error: SqlError) -> Self {
        Self::Failed(error)
    }
}

/// The search for a use of a subquery, which is a whole condition or a part of one.
fn search(
    query: &BoundQuery,
    subplan: &Subplan,
    subquery: &SubqueryUse,
    is_whole: bool,
) -> Result<Search, Without> {
    let because = |why: &'static str| Err(Without::Whole(Some(why)));
    let SubqueryKind::Quantified {
        operand,
        op: BinaryOp::Equal,
        comparisons,
        columns,
        quantifier: RowQuantifier::Any,
        negated,
    } = &subquery.kind
    else {
        return Err(Without::Whole(None));
    };
    let only_true = is_whole && !negated;
    let nullable = columns.iter().any(|column| column.nullable);
    let counts_nulls = nullable && !only_true;
    if !is_evaluated_at_once(operand) {
        return because("what is looked for is no value of the row alone");
    }
    let parts = match &operand.node {
        Node::Row(list) => list.to_vec(),
        _ => vec![operand.clone()],
    };
    let own = &subplan.plan.subqueries;
    let suitable = query.as_block().filter(|block| {
        is_suitable(block) && (block.bound.is_of_rows() || groups_take(block, &parts, comparisons))
    });
    let Some(block) = suitable else {
        return because("it is more than rows of tables");
    };
    if counts_nulls && (columns.len() > 1 || subquery.correlated) {
        return because("a NULL among its rows would count");
    }
    let outputs = &block.bound.outputs;
    let values = parts.into_iter().zip(outputs).zip(&**comparisons);
    let ties: Vec<Expression> = values
        .map(|((value, output), comparison)| tie(value, &output.expression, *comparison))
        .collect();
    let plan = plan_with(block, &ties, own)?;
    // Subqueries inside are run anew for each row.
    let by_index = own.is_empty() && keyed::finds_by_outer(&plan.root);
    let keyed = keyed_by(block, &ties, query, &plan)?;
    let nulls = if counts_nulls {
        Some(plan_with(block, &[is_null(&outputs[0].expression)], own)?)
    } else {
        None
    };
    let subplan = Subplan {
        id: subplan.id,
        plan: Rc::new(plan),
        enough: Some(1),
        keyed: keyed.map(Rc::new),
        search: None,
        whole: None,
    };
    if !by_index && subplan.keyed.is_none() && !subquery.correlated {
        return because("no index has the values, and none can be told");
    }
    Ok(Search { subplan, by_index, nulls: nulls.map(Rc::new), only_true })
}

/// Whether the left side is computed of the row alone, and of something of it.
fn is_evaluated_at_once(operand: &Expression) -> bool {
    let of_row = |part: &Expression| matches!(part.node, Node::Column { .. });
    operand.needs() == Needs::default() && !operand.is_volatile() && operand.any(&mut |p| of_row(p))
}

/// Whether a block is made of nothing but rows of tables, and it does not matter when and how often
/// anything of it is evaluated.
fn is_suitable(block: &Block) -> bool {
    let Block { tables, tree, bound, .. } = block;
    let is_stored = |table: &FromTable| {
        matches!(table.source, Source::Table(_)) && table.lock.is_none() && table.lateral.is_none()
    };
    let simple =
        |output: &Expression| predicate::is_steady(output) && !predicate::has_subquery(output);
    tables.iter().all(is_stored)
        && bound.conditions.iter().all(predicate::is_steady)
        && tree.iter().all(from_table::is_steady_tree)
        && bound.outputs.iter().all(|output| simple(&output.expression))
}

/// Whether groups of a block with certain values are made of the rows with these values.
fn groups_take(block: &Block, values: &[Expression], comparisons: &[Comparison]) -> bool {
    let outputs = (0..).zip(&block.bound.outputs);
    let columns = outputs.map(|(at, output)| {
        Expression::column(at, Arc::default(), output.expression.result.clone())
    });
    let mut ties = values.iter().zip(columns).zip(comparisons);
    ties.all(|((value, column), by)| block.takes(&tie(value.clone(), &column, *by)))
}

/// That a value of the enclosing row is equal to one of a row of the subquery.
fn tie(mut value: Expression, of_row: &Expression, comparison: Comparison) -> Expression {
    value.visit_mut(&mut |part| match &mut part.node {
        Node::Column { index, name } => {
            part.node = Node::Outer { depth: 1, index: *index, name: name.clone() };
        }
        Node::Outer { depth, .. } => *depth += 1,
        _ => {}
    });
    equality(value, of_row.clone(), comparison)
}

fn is_null(of_row: &Expression) -> Expression {
    let node = Node::IsNull(Box::new(of_row.clone()));
    Expression { node, result: ResultType::truth(false) }
}

/// The rows of a block that meet more conditions.
fn plan_with(
    block: &Block,
    more: &[Expression],
    subqueries: &[Subplan],
) -> Result<QueryPlan, SqlError> {
    let Block { tables, tree, bound, width, .. } = block;
    let results = bound.outputs.iter().map(|output| output.expression.result.clone()).collect();
    let root = match tree {
        Some(tree) if bound.is_of_rows() => {
            let conditions = bound.conditions.iter().chain(more).cloned().collect();
            let joins = JoinPlanner { tables, plans: &[], width: *width, pauses: &bound.pauses };
            let input = joins.plan(tree.clone(), conditions)?;
            let outputs = bound.outputs.iter();
            let expressions = outputs.map(|output| Formula::new(output.expression.clone()));
            Operator::Project { input: input.into(), expressions: expressions.collect() }
        }
        _ => {
            let mut block = block.clone();
            block.bound.conditions.extend_from_slice(more);
            assemble::operators(block, &[])?
        }
    };
    Ok(QueryPlan {
        subqueries: subqueries.to_vec(),
        ..QueryPlan::new(Vec::new(), root, results, true)
    })
}

/// The rows for many values at once; their columns begin with the values.
fn keyed_by(
    block: &Block,
    ties: &[Expression],
    query: &BoundQuery,
    row_by_row: &QueryPlan,
) -> Result<Option<Keyed>, SqlError> {
    if !ties.iter().all(|condition| keyed::tie(condition).is_some()) {
        return Ok(None);
    }
    let mut tied = Block { exists: true, ..block.clone() };
    tied.bound.conditions = ties.iter().chain(&block.bound.conditions).cloned().collect();
    let Some(mut keyed) = keyed::plan(&tied, &[], &query.subqueries)? else { return Ok(None) };
    keyed.weigh(&row_by_row.root, from_table::known_rows(&block.tables));
    keyed.outputs = (0, ties.len());
    keyed.plan.subqueries.clone_from(&row_by_row.subqueries);
    Ok(Some(keyed))
}
