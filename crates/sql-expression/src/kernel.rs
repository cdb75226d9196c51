//! What of an expression the kernel can evaluate where the rows are.
//!
//! # Owns
//! [`to_kernel`]: the translation into [`model::Expression`].
//! # Guarantees
//! What is translated has the same value there as here, for every row. When in doubt there is no
//! translation.
//!
//! What the kernel knows: integers compared and computed in 128 bits, floats, bytes in their order,
//! AND, OR, NOT, IS NULL. So:
//! - Integers, years and bits are compared with whole numbers as they are.
//! - Decimals, dates and times are stored so that their order is that of the stored form: compared
//!   with a constant that has a stored form in the column's type, or with another column stored in
//!   exactly the same way.
//! - ENUM and SET are compared for equality with constants that are members.
//! - Text is compared for equality with constants where the column's own collation is the one that
//!   the comparison uses; the kernel keeps text under its collation. Bytes in every way.
//! - The result of arithmetic is an integer of 64 bits here; an assignment is therefore the
//!   business of an integer column, and a condition has no arithmetic, whose overflow is an error.

use std::cell::Cell;
use std::cmp::Ordering;

use collation::CollationId;
use model::expression::{
    Arithmetic as KernelArithmetic, Comparison as KernelComparison, DEPTH_MAX,
};
use model::{ColumnId, Expression as KernelExpression, Value};
use sqltype::storage::to_value;
use sqltype::{Datum, SqlType, TypeKind};

use crate::comparison::Comparison;
use crate::expression::{BinaryOp, Expression, Node};
use crate::print::reversed;

/// A column of the row that the kernel has.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelColumn {
    /// Its number in the kernel's table.
    pub column: ColumnId,
    /// Its type.
    pub sql_type: SqlType,
}

/// The kernel's form of an expression over a row whose places these columns are; `None` where it
/// has none, or needs more than `room` comparisons. What it needs is taken of the room.
///
/// The kernel evaluates all of it for a row at once, and each partition is sent a copy.
pub fn to_kernel(
    expression: &Expression,
    columns: &[Option<KernelColumn>],
    room: &mut usize,
) -> Option<KernelExpression> {
    let translator = Translator { columns, room: Cell::new(*room), height: Cell::new(HEIGHT_MAX) };
    let translated = translator.condition(expression)?;
    *room = translator.room.get();
    Some(translated)
}

/// The kernel's form of a whole number to be stored into the integer column `target`: `k + 1`. The
/// kernel refuses what does not fit the column; whatever MySQL refuses earlier does not fit either,
/// but with another error (1690), which evaluating the expression gives.
pub fn to_kernel_value(
    expression: &Expression,
    target: &SqlType,
    columns: &[Option<KernelColumn>],
) -> Option<KernelExpression> {
    if !is_integer(target) || matches!(target.kind, TypeKind::Bit | TypeKind::Year) {
        return None;
    }
    // A sum below zero that has no sign, or beyond the signed range, must find no room.
    let computed = expression.sql_type();
    let refuses = match (computed.unsigned, target.unsigned) {
        (true, false) => false,
        (false, true) => target.kind != TypeKind::BigInt,
        _ => true,
    };
    let is_sum = matches!(expression.node, Node::Arithmetic(_));
    if is_sum && !refuses {
        return None;
    }
    Translator { columns, room: Cell::new(1), height: Cell::new(1) }.sum(expression)
}

/// Levels of conditions in each other that the kernel takes, without those of a comparison and of
/// what stands around all conditions.
const HEIGHT_MAX: usize = DEPTH_MAX - 8;

struct Translator<'c> {
    columns: &'c [Option<KernelColumn>],
    /// How many comparisons there may be yet.
    room: Cell<usize>,
    /// How many levels there may be yet.
    height: Cell<usize>,
}

impl Translator<'_> {
    fn column(&self, expression: &Expression) -> Option<&KernelColumn> {
        let index = expression.as_column()? as usize;
        self.columns.get(index)?.as_ref()
    }

    fn condition(&self, expression: &Expression) -> Option<KernelExpression> {
        self.room.set(self.room.get().checked_sub(1)?);
        let height = self.height.get();
        self.height.set(height.checked_sub(1)?);
        let condition = self.condition_here(expression);
        self.height.set(height);
        condition
    }

    fn condition_here(&self, expression: &Expression) -> Option<KernelExpression> {
        match &expression.node {
            Node::And(list) => self.all(list).map(KernelExpression::And),
            Node::Or(list) => self.all(list).map(KernelExpression::Or),
            Node::Not(operand) => Some(KernelExpression::Not(Box::new(self.condition(operand)?))),
            Node::IsNull(operand) => {
                let column = self.column(operand)?;
                let column = Box::new(KernelExpression::Column(column.column));
                Some(KernelExpression::IsNull(column))
            }
            Node::Compare(compare) => {
                self.compare(compare.op, compare.comparison, &compare.left, &compare.right)
            }
            Node::Between(between) => {
                let [first, second] = between.comparisons;
                let (operand, low, high) = (&between.operand, &between.low, &between.high);
                let above = self.compare(BinaryOp::GreaterOrEqual, first, operand, low)?;
                let below = self.compare(BinaryOp::LessOrEqual, second, operand, high)?;
                Some(negated(KernelExpression::And(vec![above, below]), between.negated))
            }
            Node::InList(list) => {
                let mut parts = Vec::with_capacity(list.list.len());
                for (element, comparison) in &list.list {
                    self.room.set(self.room.get().checked_sub(1)?);
                    parts.push(self.compare(
                        BinaryOp::Equal,
                        *comparison,
                        &list.operand,
                        element,
                    )?);
                }
                Some(negated(KernelExpression::Or(parts), list.negated))
            }
            Node::Constant(value @ (Datum::Int(_) | Datum::UInt(_))) => {
                Some(KernelExpression::Constant(plain(value)?))
            }
            Node::Column { .. } => {
                // A number as a condition: not zero.
                let column = self.column(expression)?;
                let known = is_integer(&column.sql_type);
                known.then_some(KernelExpression::Column(column.column))
            }
            _ => None,
        }
    }

    fn all(&self, list: &[Expression]) -> Option<Vec<KernelExpression>> {
        list.iter().map(|part| self.condition(part)).collect()
    }

    fn compare(
        &self,
        op: BinaryOp,
        comparison: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Option<KernelExpression> {
        if let (None, Some(_)) = (self.column(left), self.column(right))
            && left.as_constant().is_some()
        {
            return self.compare(reversed(op), comparison, right, left);
        }
        if op == BinaryOp::NullSafeEqual {
            return self.null_safe(comparison, left, right);
        }
        let op = operator(op)?;
        if comparison == Comparison::Int
            && let (Some(left), Some(right)) = (self.integer(left), self.integer(right))
        {
            return Some(KernelExpression::Compare(op, Box::new(left), Box::new(right)));
        }
        let column = self.column(left)?;
        let here = Box::new(KernelExpression::Column(column.column));
        if let Some(other) = self.column(right) {
            let same = other.sql_type == column.sql_type && fits(comparison, &column.sql_type, op);
            let is_text = matches!(comparison, Comparison::Text(_));
            let there = Box::new(KernelExpression::Column(other.column));
            return (same && !is_text).then_some(KernelExpression::Compare(op, here, there));
        }
        let value = right.as_constant()?;
        if value.is_null() || !fits(comparison, &column.sql_type, op) {
            return None;
        }
        let stored = stored(value, &column.sql_type)?;
        let there = Box::new(KernelExpression::Constant(stored));
        Some(KernelExpression::Compare(op, here, there))
    }

    /// `<=>`: false instead of unknown.
    fn null_safe(
        &self,
        comparison: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Option<KernelExpression> {
        let column = self.column(left)?.column;
        let is_null = || KernelExpression::IsNull(Box::new(KernelExpression::Column(column)));
        if right.as_constant().is_some_and(Datum::is_null) {
            return Some(is_null());
        }
        right.as_constant()?;
        let same = self.compare(BinaryOp::Equal, comparison, left, right)?;
        let there = KernelExpression::Not(Box::new(is_null()));
        Some(KernelExpression::And(vec![there, same]))
    }

    /// A column or a constant that is a whole number, where no overflow can happen.
    fn integer(&self, expression: &Expression) -> Option<KernelExpression> {
        match &expression.node {
            Node::Constant(value @ (Datum::Int(_) | Datum::UInt(_))) => {
                Some(KernelExpression::Constant(plain(value)?))
            }
            Node::Column { .. } => {
                let column = self.column(expression)?;
                let known = is_integer(&column.sql_type);
                known.then_some(KernelExpression::Column(column.column))
            }
            _ => None,
        }
    }

    /// A sum, difference or product whose only possible misfortune is that it does not fit.
    fn sum(&self, expression: &Expression) -> Option<KernelExpression> {
        match &expression.node {
            Node::Arithmetic(both) if expression.sql_type().kind == TypeKind::BigInt => {
                let op = match both.op {
                    BinaryOp::Add => KernelArithmetic::Add,
                    BinaryOp::Subtract => KernelArithmetic::Subtract,
                    BinaryOp::Multiply => KernelArithmetic::Multiply,
                    _ => return None,
                };
                // The kernel computes in 128 bits and does not see an overflow in the middle.
                let (left, right) = (self.integer(&both.left)?, self.integer(&both.right)?);
                Some(KernelExpression::Arithmetic(op, Box::new(left), Box::new(right)))
            }
            _ => self.integer(expression),
        }
    }
}

fn negated(expression: KernelExpression, negated: bool) -> KernelExpression {
    if negated { KernelExpression::Not(Box::new(expression)) } else { expression }
}

fn operator(op: BinaryOp) -> Option<KernelComparison> {
    Some(match op {
        BinaryOp::Equal => KernelComparison::Equal,
        BinaryOp::NotEqual => KernelComparison::NotEqual,
        BinaryOp::Less => KernelComparison::Less,
        BinaryOp::LessOrEqual => KernelComparison::LessOrEqual,
        BinaryOp::Greater => KernelComparison::Greater,
        BinaryOp::GreaterOrEqual => KernelComparison::GreaterOrEqual,
        _ => return None,
    })
}

fn is_integer(sql_type: &SqlType) -> bool {
    sql_type.kind.is_integer() || matches!(sql_type.kind, TypeKind::Bit | TypeKind::Year)
}

/// Whether the order of a column's stored values is the order that the comparison asks for.
fn fits(comparison: Comparison, sql_type: &SqlType, op: KernelComparison) -> bool {
    let equality = matches!(op, KernelComparison::Equal | KernelComparison::NotEqual);
    match (&sql_type.kind, comparison) {
        (TypeKind::Decimal, Comparison::Decimal | Comparison::Int) => true,
        (TypeKind::Double, Comparison::Double) => true,
        (TypeKind::Date | TypeKind::DateTime, Comparison::DateTime) => true,
        (TypeKind::Time, Comparison::Time) => true,
        (TypeKind::Enum(_), Comparison::Text(id)) => equality && id == sql_type.collation,
        (
            TypeKind::VarChar
            | TypeKind::TinyText
            | TypeKind::Text
            | TypeKind::MediumText
            | TypeKind::LongText,
            Comparison::Text(CollationId::BINARY),
        ) => sql_type.collation == CollationId::BINARY,
        _ => false,
    }
}

/// A whole number as the kernel has it.
fn plain(value: &Datum) -> Option<Value> {
    match value {
        Datum::Int(value) => Some(Value::Int(*value)),
        Datum::UInt(value) => Some(Value::UInt(*value)),
        _ => None,
    }
}

/// The stored form of a constant in a column of this type, if there is one that stands for exactly
/// this value.
fn stored(value: &Datum, sql_type: &SqlType) -> Option<Value> {
    let exact = match (&sql_type.kind, value) {
        (TypeKind::Decimal, Datum::Int(number)) => {
            decimal(sqltype::Decimal::from(*number), sql_type)?
        }
        (TypeKind::Decimal, Datum::UInt(number)) => {
            decimal(sqltype::Decimal::from(*number), sql_type)?
        }
        (TypeKind::Decimal, Datum::Decimal(number)) => decimal(*number, sql_type)?,
        (TypeKind::Double, Datum::Double(number)) => Datum::Double(*number),
        (TypeKind::Double, Datum::Int(number)) if number.unsigned_abs() < 1 << 53 => {
            Datum::Double(*number as f64)
        }
        (TypeKind::Date, Datum::Date(_)) => value.clone(),
        (TypeKind::Date, Datum::DateTime(moment)) => {
            if moment.time() != sqltype::Time::default() {
                return None;
            }
            Datum::Date(moment.date)
        }
        (TypeKind::DateTime, Datum::Date(date)) => {
            Datum::DateTime(sqltype::DateTime::midnight(*date))
        }
        (TypeKind::DateTime, Datum::DateTime(moment)) => {
            if moment.truncate(sql_type.decimals.min(6)) != *moment {
                return None;
            }
            value.clone()
        }
        (TypeKind::Time, Datum::Time(_)) => value.clone(),
        (TypeKind::Enum(members), Datum::Bytes(text)) => {
            // Another member may be equal to the text under the collation: exactly one must be.
            let same =
                |member: &&str| collation::equal(sql_type.collation, member.as_bytes(), text);
            let mut equal = members.iter().map(|member| &**member).filter(same);
            let member = equal.next()?;
            if equal.next().is_some() {
                return None;
            }
            Datum::text(member)
        }
        (_, Datum::Bytes(_)) => value.clone(),
        _ => return None,
    };
    match to_value(&exact, sql_type) {
        Value::Null => None,
        stored => Some(stored),
    }
}

/// A decimal with the digits of a column, if it loses none.
fn decimal(number: sqltype::Decimal, sql_type: &SqlType) -> Option<Datum> {
    let rounded = number.round(sql_type.decimals);
    let fits = rounded.compare(&number) == Ordering::Equal;
    fits.then_some(Datum::Decimal(rounded))
}

#[cfg(test)]
mod tests;
