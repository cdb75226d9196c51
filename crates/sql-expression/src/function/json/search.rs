//! Asking JSON documents.

use sqltype::json::{Json, JsonPath};
use sqltype::{Datum, SqlType};

use super::{document, element, json_text, only_first, path, single_path};
use crate::convert;
use crate::error::SqlError;
use crate::function::{Evaluated, Frame, Stop};

/// The only function that refuses what it finds.
const NAME: &str = "json_value";

/// The paths in the arguments from `from` on.
fn paths(f: &mut Frame<'_, '_>, from: usize) -> Result<Vec<JsonPath>, Stop> {
    (from..f.len()).map(|at| path(f, at)).collect()
}

pub(super) fn extract(f: &mut Frame<'_, '_>) -> Evaluated {
    let document = document(f, 0)?;
    let paths = paths(f, 1)?;
    document.extract(&paths).map(|found| json_text(&found)).ok_or(Stop::Null)
}

/// JSON_VALUE: a scalar as a value of the type wanted; two misfortunes with their answers.
pub(super) fn value(f: &mut Frame<'_, '_>) -> Evaluated {
    let document = document(f, 0)?;
    let path = path(f, 1)?;
    let found = path.seek(&document);
    match found.as_slice() {
        [] => answer(f, 2, || SqlError::of::<3966>(&[&NAME])),
        [Json::Null] => Ok(Datum::Null),
        [Json::Array(_) | Json::Object(_)] => answer(f, 4, || SqlError::of::<3967>(&[&NAME])),
        [scalar] => {
            let (value, from) = json_scalar(scalar);
            let before = f.context.warnings.count;
            let cast = convert::cast(&value, &from, &f.result.sql_type, f.context);
            match cast {
                Ok(value) if f.context.warnings.count == before => Ok(value),
                _ => {
                    let kind = f.result.sql_type.sql_name();
                    let row = f.context.row_number;
                    answer(f, 4, || SqlError::of::<3156>(&[&kind, &NAME, &row]))
                }
            }
        }
        _ => answer(f, 4, || SqlError::of::<3967>(&[&NAME])),
    }
}

/// A scalar as a value of SQL with its type.
pub fn json_scalar(json: &Json) -> (Datum, SqlType) {
    match json {
        Json::Bool(value) => (Datum::text(if *value { "true" } else { "false" }), SqlType::text(5)),
        Json::Int(value) => (Datum::Int(*value), SqlType::big_int()),
        Json::UInt(value) => (Datum::UInt(*value), SqlType::unsigned_big_int()),
        Json::Double(value) => (Datum::Double(*value), SqlType::double()),
        Json::Decimal(value) => {
            (Datum::Decimal(*value), SqlType::decimal(value.precision(), value.scale()))
        }
        other => (Datum::text(&other.unquoted()), SqlType::text(0)),
    }
}

/// ON EMPTY or ON ERROR: NULL, the error, or a value.
fn answer(f: &mut Frame<'_, '_>, at: usize, error: impl FnOnce() -> SqlError) -> Evaluated {
    match f.integer(at)? {
        1 => Err(error().into()),
        2 => {
            let value = f.value(at + 1)?;
            let from = f.type_of(at + 1);
            Ok(convert::cast(&value, from, &f.result.sql_type, f.context)?)
        }
        _ => Ok(Datum::Null),
    }
}

pub(super) fn contains(f: &mut Frame<'_, '_>) -> Evaluated {
    let (target, candidate) = (document(f, 0)?, document(f, 1)?);
    if f.len() == 2 {
        return Ok(Datum::truth(target.contains(&candidate)));
    }
    let path = single_path(f, 2)?;
    let found = path.first(&target).ok_or(Stop::Null)?;
    Ok(Datum::truth(found.contains(&candidate)))
}

pub(super) fn contains_path(f: &mut Frame<'_, '_>) -> Evaluated {
    let document = document(f, 0)?;
    let one = only_first(f, 1)?;
    let mut all = true;
    for at in 2..f.len() {
        let is_there = !path(f, at)?.seek(&document).is_empty();
        if is_there && one {
            return Ok(Datum::Int(1));
        }
        all &= is_there;
    }
    Ok(Datum::truth(all && !one))
}

pub(super) fn overlaps(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::truth(document(f, 0)?.overlaps(&document(f, 1)?)))
}

/// `value MEMBER OF (array)`: text is a string here.
pub(super) fn member_of(f: &mut Frame<'_, '_>) -> Evaluated {
    f.some(0)?;
    let wanted = element(f, 0)?;
    Ok(Datum::truth(match document(f, 1)? {
        Json::Array(items) => items.iter().any(|item| item.compare(&wanted).is_eq()),
        other => other.compare(&wanted).is_eq(),
    }))
}

pub(super) fn search(f: &mut Frame<'_, '_>) -> Evaluated {
    let document = document(f, 0)?;
    let one = only_first(f, 1)?;
    let pattern = f.string(2)?;
    let escape = if f.len() > 3 && !f.is_null(3)? {
        let text = f.string(3)?;
        let mut chars = text.chars();
        let first = chars.next();
        if chars.next().is_some() {
            return Err(SqlError::wrong_arguments("ESCAPE").into());
        }
        first.or(Some('\\'))
    } else {
        Some('\\')
    };
    let paths = paths(f, 4)?;
    let found = document.search(&pattern, escape, one, &paths);
    found.map(|found| json_text(&found)).ok_or(Stop::Null)
}
