//! Choosing among values: COALESCE, GREATEST, INTERVAL, FIELD and the like.

use std::cmp::Ordering;

use sqltype::{Datum, TypeKind};

use super::signature::{Domain, common_type, domain_of, number_of};
use super::{Evaluated, Frame, Function, MANY, Signature};
use crate::error::SqlError;
use crate::expression::Expression;
use crate::key::compare_values;
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("coalesce", 1, MANY, first_type, coalesce),
    Function::pure("ifnull", 2, 2, first_type, coalesce),
    Function::pure("greatest", 2, MANY, extreme_type, |f| extreme(f, Ordering::Greater)),
    Function::pure("least", 2, MANY, extreme_type, |f| extreme(f, Ordering::Less)),
    Function::pure("interval", 2, MANY, |s| s.certain_integer(2), interval),
    Function::pure("field", 2, MANY, field_type, field),
    Function::pure("strcmp", 2, 2, strcmp_type, strcmp),
    Function::pure(
        "any_value",
        1,
        1,
        |s| Ok(s.argument(0).clone()),
        |f| Ok(f.value(0)?.into_owned()),
    ),
    Function::pure(
        "name_const",
        2,
        2,
        |s| Ok(s.argument(1).clone()),
        |f| Ok(f.value(1)?.into_owned()),
    ),
    Function::pure("xor", 2, 2, |s| Ok(ResultType::truth(s.nullable())), xor),
];

/// The type of the first value that is not NULL.
fn first_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let mut result = common(s)?;
    result.nullable = s.arguments.iter().all(|argument| argument.result.nullable);
    Ok(result)
}

fn common(s: &Signature<'_>) -> Result<ResultType, SqlError> {
    let types: Vec<&ResultType> = s.arguments.iter().map(|argument| &argument.result).collect();
    common_type(s.name, &types, s.connection())
}

fn coalesce(f: &mut Frame<'_, '_>) -> Evaluated {
    for at in 0..f.len() {
        let value = f.chosen(at)?;
        if !value.is_null() {
            return Ok(value.into_owned());
        }
    }
    Ok(Datum::Null)
}

/// GREATEST and LEAST compare as the type that takes all arguments.
fn extreme_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let result = common(s)?;
    if result.is_text() {
        let all: Vec<usize> = (0..s.arguments.len()).collect();
        s.compare(&all)?;
    }
    Ok(result)
}

fn extreme(f: &mut Frame<'_, '_>, wanted: Ordering) -> Evaluated {
    let is_text = f.result.is_text();
    let mut best: Option<Datum> = None;
    for at in 0..f.len() {
        f.some(at)?;
        let value = f.chosen(at)?.into_owned();
        let better = match (&best, &value) {
            (None, _) => true,
            (Some(Datum::Bytes(best)), Datum::Bytes(text)) if is_text => {
                collation::compare(f.collation(), text, best) == wanted
            }
            (Some(best), value) => compare_values(value, best, &f.result.sql_type) == wanted,
        };
        if better {
            best = Some(value);
        }
    }
    Ok(best.unwrap_or(Datum::Null))
}

fn is_exact(expression: &Expression) -> bool {
    domain_of(&expression.result) != Domain::Double
}

/// How many of the bounds, which ascend, the first argument has reached.
fn interval(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.is_null(0)? {
        return Ok(Datum::Int(-1));
    }
    let exact = f.call.arguments.iter().all(is_exact);
    let mut reached = 0;
    for at in 1..f.len() {
        if f.is_null(at)? {
            reached = at;
            continue;
        }
        let below = if exact {
            f.decimal(0)?.compare(&f.decimal(at)?).is_lt()
        } else {
            f.double(0)? < f.double(at)?
        };
        if below {
            break;
        }
        reached = at;
    }
    Ok(Datum::Int(reached as i64))
}

fn field_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    if s.arguments.iter().all(is_text_or_null) {
        let all: Vec<usize> = (0..s.arguments.len()).collect();
        s.compare(&all)?;
    } else {
        for argument in s.arguments.iter_mut() {
            let operand = std::mem::replace(argument, Expression::null());
            *argument = number_of(operand);
        }
    }
    s.certain_integer(3)
}

/// Whether an argument lets texts be compared as such: moments are texts here, and NULL is equal to
/// nothing anyway.
fn is_text_or_null(argument: &Expression) -> bool {
    let kind = &argument.sql_type().kind;
    argument.result.is_text()
        || kind.is_temporal()
        || matches!(kind, TypeKind::Null | TypeKind::Json)
}

/// The place of the first argument among the others.
fn field(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.is_null(0)? {
        return Ok(Datum::Int(0));
    }
    let all_text = f.call.arguments.iter().all(is_text_or_null);
    let exact = f.call.arguments.iter().all(is_exact);
    let whole = f.call.arguments.iter().all(|argument| argument.sql_type().kind.is_integer());
    for at in 1..f.len() {
        if f.is_null(at)? {
            continue;
        }
        let same = if all_text {
            collation::equal(f.collation(), &f.text(0)?, &f.text(at)?)
        } else if whole {
            // As MySQL has it, no matter whether one is unsigned.
            f.wide(0)? as i64 == f.wide(at)? as i64
        } else if exact {
            f.decimal(0)?.compare(&f.decimal(at)?).is_eq()
        } else {
            f.double(0)? == f.double(at)?
        };
        if same {
            return Ok(Datum::Int(at as i64));
        }
    }
    Ok(Datum::Int(0))
}

fn strcmp_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    s.integer(2)
}

fn strcmp(f: &mut Frame<'_, '_>) -> Evaluated {
    let order = collation::compare(f.collation(), &f.text(0)?, &f.text(1)?);
    Ok(Datum::Int(order as i64))
}

fn xor(f: &mut Frame<'_, '_>) -> Evaluated {
    let a = f.argument(0).truth(f.row, f.context)?;
    let b = f.argument(1).truth(f.row, f.context)?;
    Ok(match (a, b) {
        (Some(a), Some(b)) => Datum::truth(a != b),
        _ => Datum::Null,
    })
}
