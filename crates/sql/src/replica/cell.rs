//! Values of a source as values of columns here.
//!
//! # Guarantees
//! A value becomes what the same value is that a client stores, or an error that names what does
//! not fit. Whether it fits its column is checked where it is stored.

use collation::CollationId;
use mysql_wire::binlog::image::{Cell, Clock, Day};
use mysql_wire::binlog::rows::{MapColumn, column};
use sqltype::json::Json;
use sqltype::temporal::{Date, DateTime, Time};
use sqltype::{Datum, Decimal, TypeKind};

use super::json;
use crate::catalog::ColumnDefinition;

/// Kinds of values that may become one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Moment,
    Span,
    Year,
    Enum,
    Set,
    Json,
}

fn kind_of(sql_type: &TypeKind) -> Kind {
    match sql_type {
        kind if kind.is_number() => Kind::Number,
        TypeKind::Bit => Kind::Number,
        TypeKind::Year => Kind::Year,
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => Kind::Moment,
        TypeKind::Time => Kind::Span,
        TypeKind::Enum(_) => Kind::Enum,
        TypeKind::Set(_) => Kind::Set,
        TypeKind::Json => Kind::Json,
        _ => Kind::Text,
    }
}

/// The name of a source's type, and its kind; none for one that cannot be stored.
fn source_kind(kind: u8) -> (&'static str, Option<Kind>) {
    match kind {
        column::TINY => ("tinyint", Some(Kind::Number)),
        column::SHORT => ("smallint", Some(Kind::Number)),
        column::INT24 => ("mediumint", Some(Kind::Number)),
        column::LONG => ("int", Some(Kind::Number)),
        column::LONGLONG => ("bigint", Some(Kind::Number)),
        column::FLOAT => ("float", Some(Kind::Number)),
        column::DOUBLE => ("double", Some(Kind::Number)),
        column::NEWDECIMAL => ("decimal", Some(Kind::Number)),
        column::BIT => ("bit", Some(Kind::Number)),
        column::YEAR => ("year", Some(Kind::Year)),
        column::DATE | 14 => ("date", Some(Kind::Moment)),
        column::DATETIME2 | 12 => ("datetime", Some(Kind::Moment)),
        column::TIMESTAMP2 | 7 => ("timestamp", Some(Kind::Moment)),
        column::TIME2 | 11 => ("time", Some(Kind::Span)),
        column::ENUM => ("enum", Some(Kind::Enum)),
        column::SET => ("set", Some(Kind::Set)),
        column::JSON => ("json", Some(Kind::Json)),
        column::BLOB => ("blob", Some(Kind::Text)),
        column::STRING => ("char", Some(Kind::Text)),
        column::VARCHAR | 253 => ("varchar", Some(Kind::Text)),
        255 => ("geometry", None),
        _ => ("a type without a name", None),
    }
}

/// Whether values of a source's column can become values of a column here: the name of the type
/// that they cannot be of otherwise.
pub(super) fn fits(map: &MapColumn, definition: &ColumnDefinition) -> Result<(), &'static str> {
    let (name, from) = source_kind(map.kind);
    let to = kind_of(&definition.sql_type.kind);
    let fits = match (from, to) {
        (None, _) => false,
        // MariaDB's JSON is text.
        (Some(Kind::Text), Kind::Json) => true,
        (Some(Kind::Json), Kind::Text) => true,
        (Some(from), to) => from == to,
    };
    if fits { Ok(()) } else { Err(name) }
}

/// The name of a column's type here.
pub(super) fn name_here(definition: &ColumnDefinition) -> &'static str {
    match kind_of(&definition.sql_type.kind) {
        Kind::Number => "number",
        Kind::Text => "text or bytes",
        Kind::Moment => "date or time stamp",
        Kind::Span => "time",
        Kind::Year => "year",
        Kind::Enum => "enum",
        Kind::Set => "set",
        Kind::Json => "json",
    }
}

/// A value for a column here. None for one that the image does not have.
///
/// # Errors
/// What is wrong with it.
pub(super) fn datum(
    cell: &Cell<'_>,
    map: &MapColumn,
    definition: &ColumnDefinition,
) -> Result<Option<Datum>, String> {
    let sql_type = &definition.sql_type;
    Ok(Some(match cell {
        Cell::Absent => return Ok(None),
        Cell::Null => Datum::Null,
        Cell::Int(number, bytes) => {
            // A source need not say whether a number has a sign: then it has what it has here.
            let unsigned = map.unsigned.unwrap_or(sql_type.unsigned);
            if unsigned {
                Datum::UInt(*number as u64 & (u64::MAX >> (64 - 8 * u32::from(*bytes))))
            } else {
                Datum::Int(*number)
            }
        }
        Cell::Float(number) => Datum::Double((*number).into()),
        Cell::Double(number) => Datum::Double(*number),
        Cell::Decimal(text) => {
            let number = Decimal::parse(text.as_bytes());
            Datum::Decimal(number.ok_or_else(|| format!("the decimal {text} is too long"))?)
        }
        Cell::Bit(bits) => Datum::UInt(*bits),
        Cell::Year(year) => Datum::Int((*year).into()),
        Cell::Date(day) => Datum::Date(date(*day)),
        Cell::DateTime(day, clock) => Datum::DateTime(moment(*day, *clock)?),
        Cell::Time(is_negative, clock) => {
            let Clock { hours, minutes, seconds, micros } = *clock;
            let time = Time::new(*is_negative, hours.into(), minutes, seconds, micros);
            Datum::Time(time.ok_or("a time is none")?)
        }
        Cell::Timestamp(0, 0) => Datum::DateTime(DateTime::default()),
        Cell::Timestamp(seconds, micros) => {
            let micros = i64::from(*seconds) * 1_000_000 + i64::from(*micros % 1_000_000);
            Datum::DateTime(DateTime::from_unix_micros(micros))
        }
        Cell::Enum(number) => Datum::Bytes(member(*number, &sql_type.kind)?),
        Cell::Set(bits) => Datum::Bytes(members(*bits, &sql_type.kind)?),
        Cell::Json([]) => Datum::Json(Json::Null.encode()),
        Cell::Json(bytes) => {
            let json = json::read(bytes).ok_or("a JSON value is damaged")?;
            Datum::Json(json.encode())
        }
        Cell::Bytes(bytes) => {
            let collation = map.collation.map(CollationId).filter(|one| one.get().is_some());
            let collation = collation.unwrap_or(sql_type.collation);
            match collation {
                CollationId::BINARY => Datum::Bytes(padded(bytes, map, definition)),
                other => Datum::Bytes(collation::to_utf8(other.charset(), bytes).bytes.into()),
            }
        }
    }))
}

/// BINARY of a fixed length comes without the zero bytes at its end.
fn padded(bytes: &[u8], map: &MapColumn, definition: &ColumnDefinition) -> Box<[u8]> {
    let sql_type = &definition.sql_type;
    let mut bytes = bytes.to_vec();
    if map.kind == column::STRING
        && sql_type.kind == TypeKind::Char
        && sql_type.collation == CollationId::BINARY
        && bytes.len() < sql_type.length as usize
    {
        bytes.resize(sql_type.length as usize, 0);
    }
    bytes.into()
}

fn date(day: Day) -> Date {
    Date { year: day.year, month: day.month, day: day.day }
}

fn moment(day: Day, clock: Clock) -> Result<DateTime, String> {
    let Clock { hours, minutes, seconds, micros } = clock;
    if hours > 23 || minutes > 59 || seconds > 59 || micros > 999_999 {
        return Err("a time of day is none".to_owned());
    }
    let hour = hours as u8;
    Ok(DateTime { date: date(day), hour, minute: minutes, second: seconds, micros })
}

fn member(number: u64, kind: &TypeKind) -> Result<Box<[u8]>, String> {
    let TypeKind::Enum(members) = kind else { return Err("it is no ENUM here".to_owned()) };
    if number == 0 {
        return Ok(Box::default());
    }
    let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
    let found = members.get(at).ok_or_else(|| format!("an ENUM has no member {number} here"))?;
    Ok(found.as_bytes().into())
}

fn members(bits: u64, kind: &TypeKind) -> Result<Box<[u8]>, String> {
    let TypeKind::Set(members) = kind else { return Err("it is no SET here".to_owned()) };
    if members.len() < 64 && bits >> members.len() != 0 {
        return Err(format!("a SET has {} members here, and more at the source", members.len()));
    }
    let chosen = members.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let names: Vec<&str> = chosen.map(|(_, name)| &**name).collect();
    Ok(names.join(",").into_bytes().into())
}
