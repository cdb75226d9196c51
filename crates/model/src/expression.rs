//! Expressions shipped to the data: filters, conditions, column arithmetic.
//!
//! Three-valued logic as in SQL: a comparison with NULL is unknown, and only `true` passes a
//! filter. Integer arithmetic is exact in 128 bits; what then does not fit a column is refused
//! where it is stored. Checked for depth and columns before use, so evaluation cannot overflow
//! the stack or meet a missing column.

use std::cmp::Ordering;

use codec::Codec;

use crate::ids::ColumnId;
use crate::row::RowView;
use crate::schema::Table;
use crate::value::{Value, ValueRef};

/// Deepest accepted nesting.
pub const DEPTH_MAX: usize = 64;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// An expression over the columns of one row.
#[derive(Clone, Debug, PartialEq, Codec)]
#[codec(recursive)]
pub enum Expression {
    /// A column of the row.
    Column(ColumnId),
    /// A constant.
    Constant(Value),
    /// A comparison of two values.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// Arithmetic on two numbers.
    Arithmetic(Arithmetic, Box<Expression>, Box<Expression>),
    /// True when all are true; false when one is false.
    And(Vec<Expression>),
    /// True when one is true; false when all are false.
    Or(Vec<Expression>),
    /// Logical negation.
    Not(Box<Expression>),
    /// True when the value is NULL.
    IsNull(Box<Expression>),
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The result does not fit 64 bits.
    OutOfRange,
    /// Operands of kinds that do not go together.
    Kind,
}

impl Expression {
    /// `column <op> constant`, the most common filter.
    pub fn compare(column: ColumnId, op: Comparison, value: Value) -> Expression {
        Expression::Compare(
            op,
            Box::new(Expression::Column(column)),
            Box::new(Expression::Constant(value)),
        )
    }

    /// `column + amount`.
    pub fn add(column: ColumnId, amount: i64) -> Expression {
        Expression::Arithmetic(
            Arithmetic::Add,
            Box::new(Expression::Column(column)),
            Box::new(Expression::Constant(Value::Int(amount))),
        )
    }

    /// Whether the expression is acceptable for rows of `table`: known columns, bounded depth.
    pub fn check(&self, table: &Table) -> bool {
        self.check_depth(table, DEPTH_MAX)
    }

    fn check_depth(&self, table: &Table, depth: usize) -> bool {
        if depth == 0 {
            return false;
        }
        match self {
            Expression::Column(column) => usize::from(column.0) < table.columns.len(),
            Expression::Constant(_) => true,
            Expression::Compare(_, left, right) | Expression::Arithmetic(_, left, right) => {
                left.check_depth(table, depth - 1) && right.check_depth(table, depth - 1)
            }
            Expression::And(parts) | Expression::Or(parts) => {
                parts.iter().all(|part| part.check_depth(table, depth - 1))
            }
            Expression::Not(inner) | Expression::IsNull(inner) => {
                inner.check_depth(table, depth - 1)
            }
        }
    }

    /// Whether the row passes: the expression is true, not false and not unknown.
    pub fn passes(&self, row: RowView<'_>) -> Result<bool, EvalError> {
        Ok(self.truth(row)? == Some(true))
    }

    fn truth(&self, row: RowView<'_>) -> Result<Option<bool>, EvalError> {
        match self {
            Expression::Compare(op, left, right) => {
                let (left, right) = (left.eval(row)?, right.eval(row)?);
                if left.is_null() || right.is_null() {
                    return Ok(None);
                }
                let order = left.compare(right).ok_or(EvalError::Kind)?;
                Ok(Some(op.holds(order)))
            }
            Expression::And(parts) => Self::combine(parts, row, false),
            Expression::Or(parts) => Self::combine(parts, row, true),
            Expression::Not(inner) => Ok(inner.truth(row)?.map(|t| !t)),
            Expression::IsNull(inner) => Ok(Some(inner.eval(row)?.is_null())),
            _ => Ok(match self.eval(row)? {
                ValueRef::Null => None,
                ValueRef::Int(v) => Some(v != 0),
                ValueRef::UInt(v) => Some(v != 0),
                ValueRef::Float(v) => Some(v != 0.0),
                ValueRef::Bytes(_) => return Err(EvalError::Kind),
            }),
        }
    }

    /// `deciding` is the truth value that settles the whole: false for AND, true for OR.
    fn combine(
        parts: &[Expression],
        row: RowView<'_>,
        deciding: bool,
    ) -> Result<Option<bool>, EvalError> {
        let mut unknown = false;
        for part in parts {
            match part.truth(row)? {
                Some(truth) if truth == deciding => return Ok(Some(deciding)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(!deciding) })
    }

    /// The expression's value; truth values are the integers 1 and 0.
    pub fn eval<'a>(&'a self, row: RowView<'a>) -> Result<ValueRef<'a>, EvalError> {
        match self {
            Expression::Column(column) => Ok(row.get(*column)),
            Expression::Constant(value) => Ok(value.as_ref()),
            Expression::Arithmetic(op, left, right) => op.apply(left.eval(row)?, right.eval(row)?),
            _ => Ok(match self.truth(row)? {
                Some(truth) => ValueRef::Int(i64::from(truth)),
                None => ValueRef::Null,
            }),
        }
    }
}

impl Comparison {
    /// Whether an order of two values makes it true.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

impl Arithmetic {
    fn apply<'a>(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Result<ValueRef<'a>, EvalError> {
        if left.is_null() || right.is_null() {
            return Ok(ValueRef::Null);
        }
        if let (Some(a), Some(b)) = (integer(left), integer(right)) {
            let result = match self {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
            };
            let result = result.ok_or(EvalError::OutOfRange)?;
            if let Ok(signed) = i64::try_from(result) {
                return Ok(ValueRef::Int(signed));
            }
            return u64::try_from(result).map(ValueRef::UInt).map_err(|_| EvalError::OutOfRange);
        }
        let (Some(a), Some(b)) = (float(left), float(right)) else {
            return Err(EvalError::Kind);
        };
        let result = match self {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
        };
        if result.is_finite() { Ok(ValueRef::Float(result)) } else { Err(EvalError::OutOfRange) }
    }
}

fn integer(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(v) => Some(v.into()),
        ValueRef::UInt(v) => Some(v.into()),
        _ => None,
    }
}

fn float(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int(v) => Some(v as f64),
        ValueRef::UInt(v) => Some(v as f64),
        ValueRef::Float(v) => Some(v),
        _ => None,
    }
}
