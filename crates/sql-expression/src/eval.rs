//! Evaluation.
//!
//! # Owns
//! The value of each kind of node: [`Expression::eval`], [`Expression::truth`].
//! # Guarantees
//! Columns and constants are not copied while operators look at them. Operands that cannot matter
//! any more are not evaluated.
//! # Not here
//! Functions (`function`), conversions (`convert`).

mod arithmetic;
mod subquery;

use std::borrow::Cow;

use sql_parser::ast::Truth;
use sqltype::{Datum, SqlType, TypeKind};

use crate::comparison::{Comparison, holds};
use crate::context::{EvalContext, UserVariable};
use crate::convert;
use crate::error::SqlError;
use crate::expression::{Between, BinaryOp, Case, Compare, Expression, InList, Like, Node};
use crate::function::{Frame, Stop, json_text, to_json};
use crate::pauses::STEP_BYTES;

impl Expression {
    /// The value for a row.
    pub fn eval(&self, row: &[Datum], context: &mut EvalContext) -> Result<Datum, SqlError> {
        self.operand(row, context).map(Cow::into_owned)
    }

    /// Whether it is true for a row; `None` when that is unknown.
    pub fn truth(
        &self,
        row: &[Datum],
        context: &mut EvalContext,
    ) -> Result<Option<bool>, SqlError> {
        match &self.node {
            Node::Compare(compare) => compare_truth(compare, row, context),
            Node::And(list) => combine(list, row, context, false),
            Node::Or(list) => combine(list, row, context, true),
            Node::Not(operand) => Ok(operand.truth(row, context)?.map(|truth| !truth)),
            Node::IsNull(operand) => Ok(Some(operand.operand(row, context)?.is_null())),
            Node::IsTruth { operand, value, negated } => {
                let truth = operand.truth(row, context)?;
                let is = truth == Some(*value == Truth::True);
                Ok(Some(is != *negated))
            }
            Node::Between(between) => between_truth(between, row, context),
            Node::InList(list) => in_list(list, row, context),
            Node::Like(like) => like_truth(like, row, context),
            Node::Subquery(subquery) => match subquery::truth(subquery, row, context)? {
                Some(truth) => Ok(truth),
                None => self.truth_of_value(row, context),
            },
            _ => self.truth_of_value(row, context),
        }
    }

    fn truth_of_value(
        &self,
        row: &[Datum],
        context: &mut EvalContext,
    ) -> Result<Option<bool>, SqlError> {
        let value = self.unrounded(row, context)?;
        convert::to_truth(&value, &self.result.sql_type, context)
    }

    /// The value for a row, borrowed where there is one already.
    pub fn operand<'a>(
        &'a self,
        row: &'a [Datum],
        context: &mut EvalContext,
    ) -> Result<Cow<'a, Datum>, SqlError> {
        Ok(Cow::Owned(match &self.node {
            Node::Constant(value) => return Ok(Cow::Borrowed(value)),
            Node::Column { index, .. } => return column(row, *index).map(Cow::Borrowed),
            Node::Outer { depth, index, .. } => outer(context, *depth, *index)?,
            Node::Parameter(number) => parameter(context, *number)?,
            Node::UserVariable(name) => {
                let variable = context.user_variables.get(&**name);
                let value = variable.map_or(Datum::Null, |variable| variable.value.clone());
                context.copied(&value)?;
                value
            }
            Node::Assign { name, value } => assign(name, value, row, context)?,
            Node::Inserted { index, .. } => column(&context.inserted, *index)?.clone(),
            Node::Aggregate(_) | Node::Window(_) => {
                return Err(SqlError::internal("an aggregate without its place in the row"));
            }
            Node::Row(_) => return Err(SqlError::operand_columns(1)),
            Node::Subquery(subquery) => subquery::value(subquery, row, context)?,
            Node::Deferred(deferred) => context.deferred(deferred.slot)?.clone(),
            Node::And(_)
            | Node::Or(_)
            | Node::Not(_)
            | Node::IsNull(_)
            | Node::IsTruth { .. }
            | Node::Compare(_)
            | Node::Between(_)
            | Node::InList(_)
            | Node::Like(_) => self.truth(row, context)?.map_or(Datum::Null, Datum::truth),
            Node::Case(case) => match case.chosen(row, context)? {
                Some(then) => return then.chosen_as(self.sql_type(), row, context),
                None => Datum::Null,
            },
            Node::Arithmetic(both) => arithmetic::value(self, both, row, context)?,
            Node::Negate(operand) => arithmetic::negate(self, operand, row, context)?,
            Node::Cast(operand) => {
                let value = if takes_digits(&self.sql_type().kind) {
                    operand.unrounded(row, context)?
                } else {
                    operand.operand(row, context)?
                };
                match self.sql_type().kind {
                    TypeKind::Json if operand.result.boolean && !value.is_null() => {
                        json_text(&to_json(&value, &operand.result)?)
                    }
                    _ => convert::cast(&value, operand.sql_type(), self.sql_type(), context)?,
                }
            }
            Node::Call(call) => {
                let (before, work) = (context.large_bytes(), context.work);
                let mut frame = Frame { call, result: &self.result, row, context };
                let value = (call.function.evaluate)(&mut frame);
                context.called(work)?;
                match value {
                    Ok(value) => {
                        context.made(before, &value)?;
                        value
                    }
                    Err(Stop::Null) => Datum::Null,
                    Err(Stop::Error(error)) => return Err(error),
                }
            }
        }))
    }

    /// As an operand of a comparison: among floating-point numbers with all the digits it has.
    fn compared<'a>(
        &'a self,
        comparison: Comparison,
        row: &'a [Datum],
        context: &mut EvalContext,
    ) -> Result<Cow<'a, Datum>, SqlError> {
        match comparison {
            Comparison::Double => self.unrounded(row, context),
            _ => self.operand(row, context),
        }
    }

    /// As the type of what chooses it takes a value: a number with all the digits it has.
    pub(crate) fn chosen_as<'a>(
        &'a self,
        to: &SqlType,
        row: &'a [Datum],
        context: &mut EvalContext,
    ) -> Result<Cow<'a, Datum>, SqlError> {
        let value = if takes_digits(&to.kind) {
            self.unrounded(row, context)?
        } else {
            self.operand(row, context)?
        };
        convert::conform(value, self.sql_type(), to, context)
    }
}

/// Whether values of such a type have digits beyond those of the type that they are made of.
fn takes_digits(kind: &TypeKind) -> bool {
    kind.is_integer() || matches!(kind, TypeKind::Decimal | TypeKind::Float | TypeKind::Double)
}

impl Case {
    /// What is chosen for a row; nothing for NULL.
    fn chosen(
        &self,
        row: &[Datum],
        context: &mut EvalContext,
    ) -> Result<Option<&Expression>, SqlError> {
        match &self.operand {
            None => {
                for branch in &self.branches {
                    context.step(1)?;
                    if branch.when.truth(row, context)? == Some(true) {
                        return Ok(Some(&branch.then));
                    }
                }
            }
            Some(operand) => {
                let value = operand.unrounded(row, context)?;
                for branch in &self.branches {
                    context.step(1)?;
                    let when = branch.when.unrounded(row, context)?;
                    let (left, right) = (operand.sql_type(), branch.when.sql_type());
                    let order = branch.comparison.compare(&value, left, &when, right, context)?;
                    if order.is_some_and(|order| order.is_eq()) {
                        return Ok(Some(&branch.then));
                    }
                }
            }
        }
        Ok(self.otherwise.as_ref())
    }
}

fn column(row: &[Datum], index: u32) -> Result<&Datum, SqlError> {
    let missing = || SqlError::internal(format_args!("the row has no column {index}"));
    row.get(index as usize).ok_or_else(missing)
}

fn outer(context: &EvalContext, depth: u16, index: u32) -> Result<Datum, SqlError> {
    let at = context.outer.len().checked_sub(usize::from(depth));
    match at.and_then(|at| context.outer.get(at)) {
        Some(row) => column(row, index).cloned(),
        None => Err(SqlError::internal("a column of an enclosing query without its row")),
    }
}

fn parameter(context: &EvalContext, number: u32) -> Result<Datum, SqlError> {
    let missing = || SqlError::internal(format_args!("parameter {number} has no value"));
    context.parameters.get(number as usize).cloned().ok_or_else(missing)
}

/// Variables hold numbers and strings only.
fn assign(
    name: &str,
    value: &Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let unrounded = value.unrounded(row, context)?.into_owned();
    let assigned = match &unrounded {
        Datum::Decimal(number) if value.holds_quotient() => {
            Datum::Decimal(number.round(value.sql_type().decimals))
        }
        other => other.clone(),
    };
    let kept = match unrounded {
        Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) | Datum::Json(_) => {
            Datum::Bytes(convert::to_text(&assigned, value.sql_type()).into_owned().into())
        }
        other => other,
    };
    context.copied(&assigned)?;
    context.check_variable(name, &kept)?;
    let collation = value.result.collating(context.facts.collation).collation;
    let variable = UserVariable { value: kept, collation };
    context.user_variables.insert(name.to_owned(), variable);
    Ok(assigned)
}

/// `deciding` is the truth value that settles the whole: false for AND, true for OR.
fn combine(
    list: &[Expression],
    row: &[Datum],
    context: &mut EvalContext,
    deciding: bool,
) -> Result<Option<bool>, SqlError> {
    let mut unknown = false;
    for part in list {
        context.step(1)?;
        match part.truth(row, context)? {
            Some(truth) if truth == deciding => return Ok(Some(deciding)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(!deciding) })
}

fn compare_truth(
    compare: &Compare,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<bool>, SqlError> {
    let Compare { op, comparison, left, right } = compare;
    let a = left.compared(*comparison, row, context)?;
    if a.is_null() && *op != BinaryOp::NullSafeEqual {
        return Ok(None);
    }
    let b = right.compared(*comparison, row, context)?;
    if *op == BinaryOp::NullSafeEqual && (a.is_null() || b.is_null()) {
        return Ok(Some(a.is_null() && b.is_null()));
    }
    let order = comparison.compare(&a, left.sql_type(), &b, right.sql_type(), context)?;
    if order.is_none() && *op == BinaryOp::NullSafeEqual {
        return Ok(Some(false));
    }
    Ok(order.map(|order| holds(*op, order)))
}

fn between_truth(
    between: &Between,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<bool>, SqlError> {
    let Between { comparisons: [first, second], operand, low, high, negated } = between;
    let value = operand.unrounded(row, context)?;
    if value.is_null() {
        return Ok(None);
    }
    let sql_type = operand.sql_type();
    let bound = low.unrounded(row, context)?;
    let above = first.compare(&value, sql_type, &bound, low.sql_type(), context)?;
    let above = above.map(|order| order.is_ge());
    if above == Some(false) {
        return Ok(Some(*negated));
    }
    let bound = high.unrounded(row, context)?;
    let below = second.compare(&value, sql_type, &bound, high.sql_type(), context)?;
    let below = below.map(|order| order.is_le());
    Ok(match (above, below) {
        (_, Some(false)) => Some(*negated),
        (Some(true), Some(true)) => Some(!*negated),
        _ => None,
    })
}

/// Lists with fewer elements are looked through.
const INDEXED_MIN: usize = 64;

fn in_list(
    list: &InList,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<bool>, SqlError> {
    let of_operand = list.set.of_operand(&list.list);
    let value = list.operand.compared(of_operand, row, context)?;
    if value.is_null() {
        return Ok(None);
    }
    if let [(_, comparison), ..] = &*list.list
        && list.list.len() >= INDEXED_MIN
        && let Some(set) = list.set.of(&list.list, context)?
    {
        context.step(1)?;
        if let Some(found) = set.contains(&value, comparison, context)? {
            return Ok(found.map(|found| found != list.negated));
        }
    }
    let sql_type = list.operand.sql_type();
    let mut unknown = false;
    for (element, comparison) in &list.list {
        context.step(1)?;
        let other = element.compared(*comparison, row, context)?;
        match comparison.compare(&value, sql_type, &other, element.sql_type(), context)? {
            Some(order) if order.is_eq() => return Ok(Some(!list.negated)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(list.negated) })
}

fn like_truth(
    like: &Like,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<bool>, SqlError> {
    let text = like.operand.operand(row, context)?;
    if text.is_null() {
        return Ok(None);
    }
    let pattern = like.pattern.operand(row, context)?;
    if pattern.is_null() {
        return Ok(None);
    }
    let text = convert::to_text(&text, like.operand.sql_type());
    context.step(text.len() as u64 / STEP_BYTES + 1)?;
    let pattern = convert::to_text(&pattern, like.pattern.sql_type());
    let matches = collation::like(like.collation, &text, &pattern, like.escape);
    Ok(Some(matches != like.negated))
}

#[cfg(test)]
mod tests;
