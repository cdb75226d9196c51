//! Columns of enclosing blocks, found in plans.
//!
//! A column names its block by how many blocks further out it is. Between a plan and the plans
//! inside it there lie: one block to a subquery or a LATERAL table, none to a derived table, which
//! sees what its block sees; and to a common table as many fewer as lie between its definition and
//! its use.

use sql_expression::Node;

use crate::plan::operator::{Operator, QueryPlan};

/// Calls `see` with each column of enclosing blocks that a plan uses: how many blocks out of the
/// plan, from 1, and the place in that block's row.
pub(crate) fn for_each_outer(plan: &QueryPlan, see: &mut dyn FnMut(usize, u32)) {
    in_plan(plan, 0, see);
}

fn in_plan(plan: &QueryPlan, within: isize, see: &mut dyn FnMut(usize, u32)) {
    // A query that uses no columns of enclosing blocks has none inside that does.
    if !plan.correlated {
        return;
    }
    in_operator(&plan.root, within, see);
    for subplan in &plan.subqueries {
        in_plan(&subplan.plan, within + 1, see);
    }
}

fn in_operator(operator: &Operator, within: isize, see: &mut dyn FnMut(usize, u32)) {
    operator.for_each_expression(&mut |expression| {
        expression.visit(&mut |part| {
            let Node::Outer { depth, index, .. } = part.node else { return };
            let depth = isize::try_from(depth).unwrap_or(0) - within;
            if let Ok(depth @ 1..) = usize::try_from(depth) {
                see(depth, index);
            }
        });
    });
    operator.for_each_plan(&mut |plan, further| in_plan(plan, within + further, see));
}
