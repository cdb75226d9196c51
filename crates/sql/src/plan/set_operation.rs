//! UNION and its kin as operators: rows brought to the types that all operands have in common.

use std::sync::Arc;

use sql_expression::{Expression, Node, ResultType, SqlError};

use crate::logical::formula::{Formula, SetKind};
use crate::plan::operator::{Operator, PlanNode};

/// The operator of a set operation over operands, each with its types.
pub(super) fn set_operator(
    operands: Vec<(Operator, Vec<ResultType>)>,
    kinds: &[SetKind],
    results: &[ResultType],
) -> Result<Operator, SqlError> {
    let mut operands = operands.into_iter().map(|(root, of)| converted(root, &of, results));
    let first = operands.next().ok_or_else(|| SqlError::internal("a set operation of nothing"))?;
    let rest: Vec<(SetKind, PlanNode)> =
        kinds.iter().copied().zip(operands.map(PlanNode::from)).collect();
    let types = results.iter().map(|result| result.sql_type.clone()).collect();
    Ok(Operator::Set { first: first.into(), rest, types })
}

/// Rows with their values converted to the common types of a set operation.
fn converted(mut root: Operator, of: &[ResultType], to: &[ResultType]) -> Operator {
    let is_same = |(of, to): (&ResultType, &ResultType)| {
        of.sql_type.kind == to.sql_type.kind && of.sql_type.decimals == to.sql_type.decimals
    };
    let signed_alike =
        |(of, to): (&ResultType, &ResultType)| of.sql_type.unsigned == to.sql_type.unsigned;
    if of.iter().zip(to).all(|pair| is_same(pair) && signed_alike(pair)) {
        return root;
    }
    root.keep_digits(&|at| of.iter().zip(to).nth(at).is_some_and(|pair| !is_same(pair)));
    let expressions = of
        .iter()
        .zip(to)
        .enumerate()
        .map(|(at, (of, to))| {
            let column = Expression::column(at as u32, Arc::default(), of.clone());
            if is_same((of, to)) {
                return Formula::new(column);
            }
            let node = Node::Cast(Box::new(column));
            Formula::new(Expression { node, result: to.clone() })
        })
        .collect();
    Operator::Project { input: root.into(), expressions }
}
