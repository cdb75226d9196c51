//! What is made of the rows of subqueries.

use std::cmp::Ordering;

use sqltype::{Datum, SqlType};

use crate::comparison::{Comparison, holds};
use crate::context::{EvalContext, Level};
use crate::error::SqlError;
use crate::expression::{BinaryOp, Expression, Node, RowQuantifier, SubqueryKind, SubqueryUse};
use crate::result_type::ResultType;

/// The value of a subquery.
pub(super) fn value(
    subquery: &SubqueryUse,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    if let SubqueryKind::Scalar { .. } = subquery.kind {
        let rows = context.subquery(subquery.id)?;
        return match rows.rows() {
            [] => Ok(Datum::Null),
            [only] => Ok(only.first().cloned().unwrap_or(Datum::Null)),
            _ => several_rows(context).map(|()| Datum::Null),
        };
    }
    let truth = truth(subquery, row, context)?.flatten();
    Ok(truth.map_or(Datum::Null, Datum::truth))
}

/// There are several rows where one is wanted: 1242, or with IGNORE a warning.
fn several_rows(context: &mut EvalContext) -> Result<(), SqlError> {
    let error = SqlError::of::<1242>(&[]);
    if !context.ignore {
        return Err(error);
    }
    context.note(Level::Warning, error);
    Ok(())
}

/// The truth of a predicate over a subquery; nothing for a subquery that is a value.
pub(super) fn truth(
    subquery: &SubqueryUse,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<Option<bool>>, SqlError> {
    match &subquery.kind {
        SubqueryKind::Scalar { .. } => Ok(None),
        SubqueryKind::Exists => {
            let rows = context.subquery(subquery.id)?;
            Ok(Some(Some(!rows.rows().is_empty())))
        }
        SubqueryKind::Quantified { operand, op, comparisons, columns, quantifier, negated } => {
            let left = operands(operand, row, context)?;
            let test = Test { op: *op, left: &left, comparisons, columns };
            let truth = match quantifier {
                RowQuantifier::Any => test.any(subquery, context)?,
                RowQuantifier::All => test.all(subquery, context)?,
                RowQuantifier::Only => test.only(subquery, context)?,
            };
            Ok(Some(truth.map(|truth| truth != *negated)))
        }
    }
}

/// The values of the left operand: one, those of a row, or those of a subquery's only row.
fn operands<'e>(
    operand: &'e Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Vec<(Datum, &'e SqlType)>, SqlError> {
    let parts: &[Expression] = match &operand.node {
        Node::Row(list) => list,
        Node::Subquery(subquery) => match &subquery.kind {
            SubqueryKind::Scalar { columns } if columns.len() > 1 => {
                let rows = context.subquery(subquery.id)?;
                let values = match rows.rows() {
                    [] => vec![Datum::Null; columns.len()],
                    [only] => only.clone(),
                    _ => {
                        several_rows(context)?;
                        vec![Datum::Null; columns.len()]
                    }
                };
                return Ok(values.into_iter().zip(columns.iter().map(|of| &of.sql_type)).collect());
            }
            _ => std::slice::from_ref(operand),
        },
        _ => std::slice::from_ref(operand),
    };
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        values.push((part.eval(row, context)?, part.sql_type()));
    }
    Ok(values)
}

/// A comparison with rows.
struct Test<'a> {
    op: BinaryOp,
    left: &'a [(Datum, &'a SqlType)],
    comparisons: &'a [Comparison],
    columns: &'a [ResultType],
}

impl Test<'_> {
    fn any(
        &self,
        subquery: &SubqueryUse,
        context: &mut EvalContext,
    ) -> Result<Option<bool>, SqlError> {
        let rows = context.subquery(subquery.id)?;
        if let ([(value, _)], [comparison], BinaryOp::Equal) =
            (self.left, self.comparisons, self.op)
            && !value.is_null()
            && let Some(found) = rows.contains(value, comparison, context)?
        {
            return Ok(found);
        }
        let mut unknown = false;
        for right in rows.rows() {
            match self.holds(right, context)? {
                Some(true) => return Ok(Some(true)),
                Some(false) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    fn all(
        &self,
        subquery: &SubqueryUse,
        context: &mut EvalContext,
    ) -> Result<Option<bool>, SqlError> {
        let rows = context.subquery(subquery.id)?;
        let mut unknown = false;
        for right in rows.rows() {
            match self.holds(right, context)? {
                Some(false) => return Ok(Some(false)),
                Some(true) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(true) })
    }

    fn only(
        &self,
        subquery: &SubqueryUse,
        context: &mut EvalContext,
    ) -> Result<Option<bool>, SqlError> {
        let rows = context.subquery(subquery.id)?;
        match rows.rows() {
            [] => Ok(None),
            [only] => self.holds(only, context),
            _ => several_rows(context).map(|()| None),
        }
    }

    /// The comparison with one row.
    fn holds(&self, right: &[Datum], context: &mut EvalContext) -> Result<Option<bool>, SqlError> {
        let mut equal = Some(true);
        context.step(1)?;
        let columns = self.left.iter().zip(self.comparisons).zip(self.columns).zip(right);
        for ((((a, a_type), comparison), column), b) in columns {
            if self.op == BinaryOp::NullSafeEqual && (a.is_null() || b.is_null()) {
                if a.is_null() != b.is_null() {
                    return Ok(Some(false));
                }
                continue;
            }
            let order = comparison.compare(a, a_type, b, &column.sql_type, context)?;
            match order {
                None if self.is_equality() => equal = None,
                None => return Ok(None),
                Some(Ordering::Equal) => {}
                Some(_) if self.is_equality() => {
                    return Ok(Some(self.op == BinaryOp::NotEqual));
                }
                Some(order) => return Ok(Some(holds(self.op, order))),
            }
        }
        if self.is_equality() {
            return Ok(equal.map(|equal| equal != (self.op == BinaryOp::NotEqual)));
        }
        Ok(Some(holds(self.op, Ordering::Equal)))
    }

    fn is_equality(&self) -> bool {
        matches!(self.op, BinaryOp::Equal | BinaryOp::NotEqual | BinaryOp::NullSafeEqual)
    }
}
