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

use crate::plan::bound::BlockParts;
use crate::plan::from_table::{self, FromTable, Source};
use crate::plan::join::JoinPlanner;
use crate::plan::keyed;
use crate::plan::operator::{Formula, Keyed, Operator, QueryPlan, Search, Subplan};
use crate::plan::predicate::{self, equality};

/// Gives the subqueries that conditions ask for values a search, where they can have one.
///
/// # Errors
/// Those of planning joins.
pub(super) fn add_searches(
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
            let subplan = subplans.iter_mut().find(|subplan| subplan.id == subquery.id);
            let Some(subplan) = subplan.filter(|subplan| subplan.search.is_none()) else {
                continue;
            };
            match search(subplan, subquery, is_whole) {
                Ok(mut search) => {
                    search.subplan.id = SubqueryId(next_number());
                    subplan.search = Some(Rc::new(search));
                }
                Err(Without::Whole(why)) => subplan.whole = why,
                Err(Without::Failed(error)) => return Err(error),
            }
        }
    }
    // The plans are made; what they were made of is not kept with them.
    subplans.iter_mut().for_each(|subplan| subplan.ingredients = None);
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
fn search(subplan: &Subplan, subquery: &SubqueryUse, is_whole: bool) -> Result<Search, Without> {
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
    let block = subplan.ingredients.as_ref().and_then(|of| of.as_block());
    let suitable = block.filter(|block| {
        is_suitable(block) && (block.bound.is_of_rows() || groups_take(block, &parts, comparisons))
    });
    let Some(ingredients) = suitable else {
        return because("it is more than rows of tables");
    };
    if counts_nulls && (columns.len() > 1 || subquery.correlated) {
        return because("a NULL among its rows would count");
    }
    let outputs = &ingredients.bound.outputs;
    let values = parts.into_iter().zip(outputs).zip(&**comparisons);
    let ties: Vec<Expression> = values
        .map(|((value, output), comparison)| tie(value, &output.expression, *comparison))
        .collect();
    let plan = plan_with(ingredients, &ties, own)?;
    // Subqueries inside are run anew for each row.
    let by_index = own.is_empty() && keyed::finds_by_outer(&plan.root);
    let keyed = keyed_by(ingredients, &ties, own, &plan.root)?;
    let nulls = if counts_nulls {
        Some(plan_with(ingredients, &[is_null(&outputs[0].expression)], own)?)
    } else {
        None
    };
    let subplan = Subplan {
        id: subplan.id,
        plan: Rc::new(plan),
        enough: Some(1),
        keyed: keyed.map(Rc::new),
        ingredients: None,
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
fn is_suitable(ingredients: &BlockParts) -> bool {
    let BlockParts { tables, tree, bound, .. } = ingredients;
    let is_stored = |table: &FromTable| {
        matches!(table.source, Source::Table(_)) && table.lock.is_none() && table.lateral.is_none()
    };
    let simple =
        |output: &Expression| predicate::is_steady(output) && !predicate::has_subquery(output);
    tables.iter().all(is_stored)
        && bound.conditions.iter().all(predicate::is_steady)
        && from_table::is_steady_tree(tree)
        && bound.outputs.iter().all(|output| simple(&output.expression))
}

/// Whether groups of a block with certain values are made of the rows with these values.
fn groups_take(block: &BlockParts, values: &[Expression], comparisons: &[Comparison]) -> bool {
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
    ingredients: &BlockParts,
    more: &[Expression],
    subqueries: &[Subplan],
) -> Result<QueryPlan, SqlError> {
    let BlockParts { tables, tree, bound, width, .. } = ingredients;
    let results = bound.outputs.iter().map(|output| output.expression.result.clone()).collect();
    let root = if bound.is_of_rows() {
        let conditions = bound.conditions.iter().chain(more).cloned().collect();
        let joins = JoinPlanner { tables, width: *width, pauses: &bound.pauses };
        let input = joins.plan(tree.clone(), conditions)?;
        let outputs = bound.outputs.iter();
        let expressions = outputs.map(|output| Formula::new(output.expression.clone()));
        Operator::Project { input: input.into(), expressions: expressions.collect() }
    } else {
        let mut block = ingredients.clone();
        block.bound.conditions.extend_from_slice(more);
        block.operators()?
    };
    Ok(QueryPlan {
        subqueries: subqueries.to_vec(),
        ..QueryPlan::new(Vec::new(), root, results, true)
    })
}

/// The rows for many values at once; their columns begin with the values.
fn keyed_by(
    ingredients: &BlockParts,
    ties: &[Expression],
    subqueries: &[Subplan],
    row_by_row: &Operator,
) -> Result<Option<Keyed>, SqlError> {
    if !ties.iter().all(|condition| keyed::tie(condition).is_some()) {
        return Ok(None);
    }
    let BlockParts { tables, tree, bound, width, .. } = ingredients;
    let conditions = ties.iter().chain(&bound.conditions).cloned().collect();
    let mut bound = bound.clone();
    bound.conditions = conditions;
    let Some(mut keyed) = keyed::plan(tables, tree, &bound, *width, true, subqueries)? else {
        return Ok(None);
    };
    keyed.weigh(row_by_row, tables);
    keyed.outputs = (0, ties.len());
    keyed.plan.subqueries = subqueries.to_vec();
    Ok(Some(keyed))
}
