//! Arithmetic: in integers, decimals or floating-point numbers, as the type of the result says.
//!
//! # Invariants
//! A quotient keeps more digits than its type shows for what takes it, as in MySQL: arithmetic
//! (`1 / 3 * 3` is 1.0000), functions, BETWEEN, CASE and COALESCE, CAST, comparisons with
//! floating-point numbers, and columns that it is stored in. It is rounded where it is shown,
//! compared with other decimals, sorted or grouped by, or kept in rows.

use std::borrow::Cow;

use sqltype::{Datum, Decimal, TypeKind};

use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::expression::{Arithmetic, BinaryOp, Expression, Node};
use crate::function::signature::{Domain, domain_of};

/// The value of `both`, which is what `whole` is.
pub(super) fn value(
    whole: &Expression,
    both: &Arithmetic,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    if both.op == BinaryOp::IntegerDivide {
        return integer_quotient(whole, both, row, context);
    }
    match whole.result.sql_type.kind {
        TypeKind::Double => in_doubles(whole, both, row, context),
        TypeKind::Decimal => match exact(whole, row, context)? {
            Some(number) => Ok(Datum::Decimal(number.round(whole.result.sql_type.decimals))),
            None => Ok(Datum::Null),
        },
        _ => in_integers(whole, both, row, context),
    }
}

/// A whole number that an operand is.
fn integer(
    operand: &Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<i128>, SqlError> {
    let value = operand.operand(row, context)?;
    Ok(match &*value {
        Datum::Null => None,
        Datum::Int(number) => Some((*number).into()),
        Datum::UInt(number) => Some((*number).into()),
        other => Some(convert::to_integer(other, operand.sql_type(), context)?),
    })
}

fn in_integers(
    whole: &Expression,
    both: &Arithmetic,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let Some(a) = integer(&both.left, row, context)? else { return Ok(Datum::Null) };
    let Some(b) = integer(&both.right, row, context)? else { return Ok(Datum::Null) };
    let result = match both.op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Modulo if b == 0 => return context.division_by_zero(),
        BinaryOp::Modulo => Some(a % b),
        _ => return Err(SqlError::internal("not arithmetic")),
    };
    fit(whole, result, context)
}

/// A whole number as the type of the result has it.
fn fit(whole: &Expression, number: Option<i128>, context: &EvalContext) -> Result<Datum, SqlError> {
    if whole.result.sql_type.unsigned {
        let fits = number.and_then(|number| u64::try_from(number).ok());
        return fits.map(Datum::UInt).ok_or_else(|| context.out_of_range("BIGINT UNSIGNED", whole));
    }
    let fits = number.and_then(|number| i64::try_from(number).ok());
    fits.map(Datum::Int).ok_or_else(|| context.out_of_range("BIGINT", whole))
}

fn integer_quotient(
    whole: &Expression,
    both: &Arithmetic,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let is_integer = |operand: &Expression| domain_of(&operand.result) == Domain::Integer;
    if is_integer(&both.left) && is_integer(&both.right) {
        let Some(a) = integer(&both.left, row, context)? else { return Ok(Datum::Null) };
        let Some(b) = integer(&both.right, row, context)? else { return Ok(Datum::Null) };
        return match b {
            0 => context.division_by_zero(),
            _ => fit(whole, Some(a / b), context),
        };
    }
    let Some(a) = exact(&both.left, row, context)? else { return Ok(Datum::Null) };
    let Some(b) = exact(&both.right, row, context)? else { return Ok(Datum::Null) };
    if b.is_zero() {
        return context.division_by_zero();
    }
    // The whole part of a quotient is exact when the remainder is taken away first.
    let quotient = a
        .remainder(b)
        .and_then(|rest| a.subtract(rest).ok())
        .and_then(|divisible| divisible.divide(b, 0))
        .and_then(Result::ok);
    fit(whole, quotient.and_then(|quotient| quotient.truncate(0).to_i128()), context)
}

fn double(
    operand: &Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<f64>, SqlError> {
    if operand.holds_quotient() {
        return Ok(exact(operand, row, context)?.map(Decimal::to_f64));
    }
    let value = operand.operand(row, context)?;
    if value.is_null() {
        return Ok(None);
    }
    convert::to_double(&value, operand.sql_type(), context).map(Some)
}

fn in_doubles(
    whole: &Expression,
    both: &Arithmetic,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let Some(a) = double(&both.left, row, context)? else { return Ok(Datum::Null) };
    let Some(b) = double(&both.right, row, context)? else { return Ok(Datum::Null) };
    let result = match both.op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide | BinaryOp::Modulo if b == 0.0 => return context.division_by_zero(),
        BinaryOp::Divide => a / b,
        _ => a % b,
    };
    if result.is_finite() {
        Ok(Datum::Double(result))
    } else {
        Err(context.out_of_range("DOUBLE", whole))
    }
}

impl Expression {
    /// Whether it is a decimal quotient, or computed or chosen of one, which has more digits for
    /// what takes it than its type shows.
    pub fn holds_quotient(&self) -> bool {
        if self.sql_type().kind != TypeKind::Decimal {
            return false;
        }
        match &self.node {
            Node::Arithmetic(both) => {
                both.op == BinaryOp::Divide
                    || both.left.holds_quotient()
                    || both.right.holds_quotient()
            }
            Node::Negate(part) => part.holds_quotient(),
            Node::Case(case) => {
                let chosen = case.branches.iter().map(|branch| &branch.then);
                chosen.chain(&case.otherwise).any(Self::holds_quotient)
            }
            Node::Call(call) => {
                call.chooses_first() && call.arguments.iter().any(Self::holds_quotient)
            }
            _ => false,
        }
    }

    /// Has it have all digits of a quotient, as a value too: what is stored of it is rounded there.
    pub fn keep_digits(&mut self) {
        if self.holds_quotient() {
            self.result.sql_type.length = Decimal::PRECISION_MAX;
            self.result.sql_type.decimals = Decimal::SCALE_MAX;
        }
    }

    /// Whether arithmetic may take other digits of it than its type shows.
    pub(crate) fn has_more_digits(&self) -> bool {
        let chooses = match &self.node {
            Node::Case(_) => true,
            Node::Call(call) => call.chooses_first(),
            _ => false,
        };
        self.holds_quotient() || chooses && self.sql_type().kind == TypeKind::Decimal
    }

    /// The value for a row as something else takes it: of a quotient more digits than its type has.
    pub fn unrounded<'a>(
        &'a self,
        row: &'a [Datum],
        context: &mut EvalContext,
    ) -> Result<Cow<'a, Datum>, SqlError> {
        if !self.holds_quotient() {
            return self.operand(row, context);
        }
        let number = self.exact_decimal(row, context)?;
        Ok(Cow::Owned(number.map_or(Datum::Null, Datum::Decimal)))
    }

    /// The decimal that it is, with all the digits that its computation has.
    pub(crate) fn exact_decimal(
        &self,
        row: &[Datum],
        context: &mut EvalContext,
    ) -> Result<Option<Decimal>, SqlError> {
        exact(self, row, context)
    }
}

/// The decimal that an expression is, with all the digits that its computation has.
fn exact(
    whole: &Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Option<Decimal>, SqlError> {
    let both = match &whole.node {
        Node::Negate(part) if whole.holds_quotient() => {
            return Ok(exact(part, row, context)?.map(Decimal::negate));
        }
        Node::Case(case) if whole.sql_type().kind == TypeKind::Decimal => {
            return match case.chosen(row, context)? {
                Some(then) => exact(then, row, context),
                None => Ok(None),
            };
        }
        Node::Call(call) if whole.sql_type().kind == TypeKind::Decimal && call.chooses_first() => {
            for argument in &call.arguments {
                if let Some(number) = exact(argument, row, context)? {
                    return Ok(Some(number));
                }
            }
            return Ok(None);
        }
        Node::Arithmetic(both)
            if whole.result.sql_type.kind == TypeKind::Decimal
                && both.op != BinaryOp::IntegerDivide =>
        {
            both
        }
        _ => {
            let value = whole.operand(row, context)?;
            return match &*value {
                Datum::Null => Ok(None),
                other => convert::to_decimal(other, whole.sql_type(), context).map(Some),
            };
        }
    };
    let Some(a) = exact(&both.left, row, context)? else { return Ok(None) };
    let Some(b) = exact(&both.right, row, context)? else { return Ok(None) };
    let result = match both.op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Subtract => a.subtract(b),
        BinaryOp::Multiply => a.multiply(b),
        BinaryOp::Modulo => match a.remainder(b) {
            Some(rest) => Ok(rest),
            None => return context.division_by_zero().map(|_| None),
        },
        _ => {
            let increment = context.facts.div_precision_increment;
            match a.divide(b, increment) {
                Some(quotient) => quotient,
                None => return context.division_by_zero().map(|_| None),
            }
        }
    };
    result.map(Some).map_err(|_| context.out_of_range("DECIMAL", whole))
}

/// `-operand`, which is what `whole` is.
pub(super) fn negate(
    whole: &Expression,
    operand: &Expression,
    row: &[Datum],
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    Ok(match whole.result.sql_type.kind {
        TypeKind::Double => {
            let number = double(operand, row, context)?;
            number.map_or(Datum::Null, |number| Datum::Double(-number))
        }
        TypeKind::Decimal => {
            let digits = whole.result.sql_type.decimals;
            let number = exact(operand, row, context)?;
            number.map_or(Datum::Null, |number| Datum::Decimal(number.negate().round(digits)))
        }
        _ => match integer(operand, row, context)? {
            Some(number) => fit(whole, number.checked_neg(), context)?,
            None => Datum::Null,
        },
    })
}
