//! JSON functions, and JSON values made of others.

mod modify;
mod schema;
mod search;

pub use search::json_scalar;

use std::borrow::Cow;
use std::cmp::Ordering;

use collation::{Charset, CollationId};
use sqltype::json::{DEPTH_MAX, Json, JsonError, JsonPath, Look, push_quoted};
use sqltype::{Datum, SqlType, TypeKind};

use super::frame::string;
use super::{Evaluated, Frame, Function, MANY, Signature, Stop};
use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::result_type::{Coercibility, Collating, ResultType};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("json_array", 0, MANY, value_type, array),
    Function::pure("json_object", 0, MANY, object_type, object),
    Function::pure("json_quote", 1, 1, |s| text_type(s, false), quote),
    Function::pure("json_unquote", 1, 1, |s| text_type(s, true), unquote),
    Function::pure("json_extract", 2, MANY, |s| s.json(), search::extract),
    Function::pure("json_value", 6, 6, |s| text_type(s, true), search::value),
    Function::pure("json_contains", 2, 3, |s| s.maybe_integer(1), search::contains),
    Function::pure("json_contains_path", 3, MANY, |s| s.maybe_integer(1), search::contains_path),
    Function::pure("json_overlaps", 2, 2, |s| s.maybe_integer(1), search::overlaps),
    Function::pure("member of", 2, 2, |s| Ok(ResultType::truth(s.nullable())), search::member_of),
    Function::pure("json_search", 3, MANY, |s| s.json(), search::search),
    Function::pure(
        "json_keys",
        1,
        2,
        |s| s.json(),
        |f| {
            let found = at_path(f)?;
            found.keys().map(|keys| json_text(&keys)).ok_or(Stop::Null)
        },
    ),
    Function::pure(
        "json_length",
        1,
        2,
        |s| s.maybe_integer(10),
        |f| Ok(Datum::Int(at_path(f)?.length() as i64)),
    ),
    Function::pure(
        "json_depth",
        1,
        1,
        |s| s.maybe_integer(10),
        |f| Ok(Datum::Int(document(f, 0)?.depth() as i64)),
    ),
    Function::pure(
        "json_type",
        1,
        1,
        |s| s.maybe_ascii(51),
        |f| string(document(f, 0)?.type_name().to_owned()),
    ),
    Function::pure("json_valid", 1, 1, |s| s.maybe_integer(1), valid),
    Function::pure(
        "json_pretty",
        1,
        1,
        |s| text_type(s, true),
        |f| string(document(f, 0)?.to_pretty()),
    ),
    Function::pure(
        "json_storage_size",
        1,
        1,
        |s| s.maybe_integer(10),
        |f| Ok(Datum::Int(document(f, 0)?.encode().len() as i64)),
    ),
    Function::pure(
        "json_storage_free",
        1,
        1,
        |s| s.maybe_integer(10),
        |f| {
            document(f, 0)?;
            Ok(Datum::Int(0))
        },
    ),
    Function::pure("json_set", 3, MANY, |s| s.json(), modify::set),
    Function::pure("json_insert", 3, MANY, |s| s.json(), modify::insert),
    Function::pure("json_replace", 3, MANY, |s| s.json(), modify::replace),
    Function::pure("json_remove", 2, MANY, |s| s.json(), modify::remove),
    Function::pure("json_array_append", 3, MANY, |s| s.json(), modify::append),
    Function::pure("json_array_insert", 3, MANY, |s| s.json(), modify::array_insert),
    Function::pure("json_merge_preserve", 2, MANY, |s| s.json(), modify::merge_preserve),
    Function::pure("json_merge_patch", 2, MANY, |s| s.json(), modify::merge_patch),
    Function::pure("json_schema_valid", 2, 2, |s| s.maybe_integer(1), schema::valid),
    Function::pure("json_schema_validation_report", 2, 2, |s| s.json(), schema::report),
];

/// A JSON value that is never NULL.
fn value_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    Ok(ResultType { nullable: false, ..s.json()? })
}

/// Names and values in turn.
fn object_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    if !s.arguments.len().is_multiple_of(2) {
        return Err(SqlError::of::<1582>(&[&s.name]));
    }
    value_type(s)
}

/// JSON as text.
fn text_type(s: &Signature<'_>, may_be_null: bool) -> Result<ResultType, SqlError> {
    let collating = Collating {
        collation: CollationId::UTF8MB4_BIN,
        coercibility: Coercibility::Implicit,
        ascii: false,
    };
    let length = s.length(0).saturating_mul(6).saturating_add(2);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let nullable = may_be_null || s.nullable();
    Ok(ResultType::text(length, collating, nullable))
}

/// A JSON value as a result.
pub(crate) fn json_text(json: &Json) -> Datum {
    Datum::Json(json.encode())
}

/// A JSON value that may be deeper than those it is made of.
pub(crate) fn checked_json(json: &Json, context: &EvalContext) -> Result<Datum, SqlError> {
    if json.depth() > DEPTH_MAX {
        return Err(SqlError::of::<3157>(&[]));
    }
    printed(json, context)
}

/// A JSON value as a result; others have a turn while it is printed.
fn printed(json: &Json, context: &EvalContext) -> Result<Datum, SqlError> {
    let text = context.pauses.looking(|look| json.encode_looking(look))?;
    Ok(text.map_or_else(|| json_text(json), Datum::Json))
}

/// The JSON value that a value of SQL becomes within another: text is a string, not JSON text.
pub(crate) fn to_json(value: &Datum, result: &ResultType) -> Result<Json, SqlError> {
    let sql_type = &result.sql_type;
    Ok(match value {
        Datum::Null => Json::Null,
        Datum::Int(number) if result.boolean => Json::Bool(*number != 0),
        Datum::Int(number) => Json::Int(*number),
        Datum::UInt(bits) if sql_type.kind == TypeKind::Bit => {
            Json::String(opaque(16, &sqltype::format::bit_bytes(*bits, sql_type.length)))
        }
        Datum::UInt(number) => match i64::try_from(*number) {
            Ok(number) => Json::Int(number),
            Err(_) => Json::UInt(*number),
        },
        Datum::Double(number) => Json::Double(*number),
        Datum::Decimal(number) => Json::Decimal(*number),
        Datum::Json(text) => decoded(text),
        Datum::Bytes(bytes) if sql_type.collation.charset() == Charset::Binary => {
            let code = match sql_type.kind {
                TypeKind::Char => 254,
                TypeKind::VarChar => 15,
                TypeKind::TinyText => 249,
                TypeKind::MediumText => 250,
                TypeKind::LongText => 251,
                _ => 252,
            };
            Json::String(opaque(code, bytes))
        }
        Datum::Bytes(text) => Json::String(String::from_utf8_lossy(text).into_owned()),
        Datum::Date(date) => Json::String(date.to_string()),
        Datum::DateTime(moment) => Json::String(moment.to_text(6)),
        Datum::Time(time) => Json::String(time.to_text(6)),
    })
}

/// Bytes in JSON: the number of their type in the protocol, and base 64.
pub fn opaque(code: u8, bytes: &[u8]) -> String {
    format!("base64:type{code}:{}", base64(bytes))
}

/// Bytes in base 64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut padded = [0; 3];
        padded[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// Stored JSON; it was checked when it was made.
fn decoded(text: &[u8]) -> Json {
    Json::decode(text).unwrap_or(Json::Null)
}

/// The error about an argument that is no JSON text.
fn invalid(error: &JsonError, argument: usize, function: &str) -> SqlError {
    if error.is_too_deep {
        SqlError::of::<3157>(&[])
    } else {
        SqlError::of::<3141>(&[&argument, &function, &error.message, &error.position])
    }
}

/// CAST(… AS JSON): text is JSON text.
pub(crate) fn cast_json(
    value: &Datum,
    from: &SqlType,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    match value {
        Datum::Null | Datum::Json(_) => Ok(value.clone()),
        Datum::Bytes(text) if from.collation.charset() != Charset::Binary => {
            let json = context.pauses.looking(|look| Json::parse_looking(text, look))?;
            printed(&json.map_err(|error| invalid(&error, 1, "cast_as_json"))?, context)
        }
        other => Ok(json_text(&to_json(other, &ResultType::of(from.clone(), true))?)),
    }
}

/// The order of two values of which one is JSON.
pub(crate) fn compare_json(
    a: &Datum,
    a_type: &SqlType,
    b: &Datum,
    b_type: &SqlType,
) -> Result<Ordering, SqlError> {
    let side =
        |value: &Datum, sql_type: &SqlType| to_json(value, &ResultType::of(sql_type.clone(), true));
    Ok(side(a, a_type)?.compare(&side(b, b_type)?))
}

/// Text that is the same for JSON values that are equal.
pub(crate) fn json_key(value: &Datum, sql_type: &SqlType) -> Vec<u8> {
    let json = to_json(value, &ResultType::of(sql_type.clone(), true)).unwrap_or(Json::Null);
    let mut out = String::new();
    push_key(&json, &mut out);
    out.into_bytes()
}

fn push_key(json: &Json, out: &mut String) {
    match json {
        Json::Array(items) => {
            out.push('[');
            for item in items {
                push_key(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (name, value) in members {
                push_quoted(out, name);
                push_key(value, out);
                out.push(',');
            }
            out.push('}');
        }
        // Numbers of all kinds are equal when their values are.
        Json::Double(number) => match sqltype::Decimal::from_f64(*number) {
            Ok(decimal) => push_number(&decimal.to_string(), out),
            Err(_) => json.print(out),
        },
        Json::Decimal(number) => push_number(&number.to_string(), out),
        scalar => scalar.print(out),
    }
}

fn push_number(digits: &str, out: &mut String) {
    out.push_str(if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    });
}

/// Whether a JSON value is true: anything but zero.
pub(crate) fn json_truth(value: &Datum) -> bool {
    match value {
        Datum::Json(text) => decoded(text).compare(&Json::Int(0)).is_ne(),
        _ => false,
    }
}

/// An argument that is a JSON document: a JSON value, or JSON text.
fn document(f: &mut Frame<'_, '_>, at: usize) -> Result<Json, Stop> {
    let value = f.some(at)?;
    let name = f.call.function.name;
    let sql_type = f.type_of(at);
    let read = |look: Look<'_>| json_argument(&value, sql_type, at + 1, name, look);
    f.context.pauses.looking(read)??.ok_or(Stop::Null)
}

/// The JSON document in the argument of this number, from 1, of the function of this name: a JSON
/// value, or JSON text. `None` for NULL. Calls `look` now and then, and ends with an error when
/// that is false.
pub fn json_argument(
    value: &Datum,
    sql_type: &SqlType,
    number: usize,
    function: &'static str,
    look: Look<'_>,
) -> Result<Option<Json>, SqlError> {
    match value {
        Datum::Null => Ok(None),
        Datum::Json(text) => Ok(Some(Json::parse_looking(text, look).unwrap_or(Json::Null))),
        Datum::Bytes(text) => {
            if sql_type.collation.charset() == Charset::Binary {
                return Err(SqlError::of::<3144>(&[&"binary"]));
            }
            let json = Json::parse_looking(text, look);
            json.map(Some).map_err(|error| invalid(&error, number, function))
        }
        _ => Err(SqlError::of::<3146>(&[&number, &function])),
    }
}

/// An argument as a value within a document.
fn element(f: &mut Frame<'_, '_>, at: usize) -> Result<Json, Stop> {
    let value = f.value(at)?;
    Ok(to_json(&value, &f.argument(at).result)?)
}

/// An argument that is a path.
fn path(f: &mut Frame<'_, '_>, at: usize) -> Result<JsonPath, Stop> {
    let text: Cow<'_, str> = f.string(at)?;
    let parsed = JsonPath::parse(&text);
    Ok(parsed.map_err(|position| SqlError::of::<3143>(&[&position]))?)
}

/// A path that leads to one place.
fn single_path(f: &mut Frame<'_, '_>, at: usize) -> Result<JsonPath, Stop> {
    let path = path(f, at)?;
    if path.has_wildcard() {
        return Err(SqlError::of::<3149>(&[]).into());
    }
    Ok(path)
}

/// The first argument, or what the path in the second leads to; NULL where nothing is.
fn at_path(f: &mut Frame<'_, '_>) -> Result<Json, Stop> {
    let document = document(f, 0)?;
    if f.len() == 1 {
        return Ok(document);
    }
    let path = single_path(f, 1)?;
    path.first(&document).cloned().ok_or(Stop::Null)
}

/// `one` or `all`: whether the first match is enough.
fn only_first(f: &mut Frame<'_, '_>, at: usize) -> Result<bool, Stop> {
    let word = f.string(at)?;
    if word.eq_ignore_ascii_case("one") {
        return Ok(true);
    }
    if word.eq_ignore_ascii_case("all") {
        return Ok(false);
    }
    Err(SqlError::of::<3154>(&[&f.call.function.name]).into())
}

fn array(f: &mut Frame<'_, '_>) -> Evaluated {
    let items: Result<Vec<Json>, Stop> = (0..f.len()).map(|at| element(f, at)).collect();
    Ok(checked_json(&Json::Array(items?), f.context)?)
}

fn object(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut members = Vec::with_capacity(f.len() / 2);
    for at in (0..f.len()).step_by(2) {
        if f.is_null(at)? {
            return Err(SqlError::of::<3158>(&[]).into());
        }
        members.push((f.string(at)?.into_owned(), element(f, at + 1)?));
    }
    Ok(checked_json(&Json::object(members), f.context)?)
}

fn quote(f: &mut Frame<'_, '_>) -> Evaluated {
    if !f.argument(0).result.is_text() && !f.is_null(0)? {
        let message = "Incorrect type for argument 1 in function json_quote.";
        return Err(SqlError::new(3064, "HY000", message).into());
    }
    let text = f.string(0)?;
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, &text);
    string(out)
}

fn unquote(f: &mut Frame<'_, '_>) -> Evaluated {
    let value = f.some(0)?;
    if let Datum::Json(text) = &*value {
        return string(decoded(text).unquoted());
    }
    let text = convert::to_text(&value, f.type_of(0));
    if text.len() >= 2 && text.starts_with(b"\"") && text.ends_with(b"\"") {
        let parsed = Json::parse(&text).map_err(|error| invalid(&error, 1, "json_unquote"))?;
        return string(parsed.unquoted());
    }
    super::frame::text(text.into_owned())
}

fn valid(f: &mut Frame<'_, '_>) -> Evaluated {
    let value = f.some(0)?;
    Ok(Datum::truth(match &*value {
        Datum::Json(_) => true,
        Datum::Bytes(text) if f.type_of(0).collation != CollationId::BINARY => {
            f.context.pauses.looking(|look| Json::parse_looking(text, look))?.is_ok()
        }
        _ => false,
    }))
}
