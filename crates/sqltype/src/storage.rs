//! How values lie in the kernel: every SQL type on one of the kernel's storage kinds, so that
//! stored values compare as MySQL compares them.
//!
//! | SQL type | storage |
//! |---|---|
//! | integers | integer of 1, 2, 4 or 8 bytes (MEDIUMINT takes 4) |
//! | FLOAT, DOUBLE | float of 8 bytes |
//! | DECIMAL | fixed bytes whose order is the numbers' |
//! | BIT, YEAR, ENUM, SET | unsigned integer: bits, year, index, members |
//! | DATE | unsigned integer of 4 bytes: year, month, day from the highest bits down |
//! | DATETIME | unsigned integer of 8 bytes: date, hour, minute, second, microseconds likewise |
//! | TIMESTAMP | unsigned integer of 8 bytes: microseconds since 1970 UTC |
//! | TIME | signed integer of 8 bytes: microseconds |
//! | CHAR, VARCHAR, TEXT | text under the column's collation |
//! | BINARY, VARBINARY, BLOB | variable bytes |
//! | JSON | variable bytes: its printed form |

use collation::CollationId;
use model::{ColumnType, Value, ValueRef};

use crate::datum::Datum;
use crate::decimal::Decimal;
use crate::sql_type::{SqlType, TypeKind};
use crate::temporal::{Date, DateTime, Time};

/// The storage of a column of this type, as far as values lie in their rows.
pub fn storage_type(sql_type: &SqlType) -> ColumnType {
    let integer =
        |width| if sql_type.unsigned { ColumnType::UInt(width) } else { ColumnType::Int(width) };
    match &sql_type.kind {
        TypeKind::TinyInt => integer(1),
        TypeKind::SmallInt => integer(2),
        TypeKind::MediumInt | TypeKind::Int => integer(4),
        TypeKind::BigInt => integer(8),
        TypeKind::Float | TypeKind::Double => ColumnType::Float,
        TypeKind::Decimal => ColumnType::Fixed(Decimal::encoded_size(sql_type.length)),
        TypeKind::Bit | TypeKind::Set(_) | TypeKind::DateTime | TypeKind::Timestamp => {
            ColumnType::UInt(8)
        }
        TypeKind::Year | TypeKind::Enum(_) => ColumnType::UInt(2),
        TypeKind::Date => ColumnType::UInt(4),
        TypeKind::Time => ColumnType::Int(8),
        TypeKind::Null | TypeKind::Json => ColumnType::Variable(VALUE_SIZE_MAX),
        _ => {
            let max_bytes = max_bytes(sql_type);
            match sql_type.collation {
                CollationId::BINARY => ColumnType::Variable(max_bytes),
                collation => ColumnType::Text { max_bytes, collation },
            }
        }
    }
}

/// The longest value that is stored in a row: all of those that differ in length take so much at
/// most. TEXT, BLOB and JSON may lie outside.
pub const VALUE_SIZE_MAX: u16 = u16::MAX;
/// The longest value of TEXT, BLOB and JSON at all: what `max_allowed_packet` lets through.
pub const LARGE_SIZE_MAX: usize = 1 << 30;

fn max_bytes(sql_type: &SqlType) -> u16 {
    let width = match sql_type.collation {
        CollationId::BINARY => 1,
        other => u32::from(other.charset().max_len_stored()),
    };
    let bytes = match sql_type.kind {
        TypeKind::Char | TypeKind::VarChar => sql_type.length.saturating_mul(width),
        TypeKind::TinyText => 255,
        _ => u32::MAX,
    };
    u16::try_from(bytes).unwrap_or(VALUE_SIZE_MAX)
}

/// The stored form of a value that `store` has made fit the type. A TIMESTAMP is given in UTC.
/// NULL for a value of another kind than the type's: there is none after `store`.
pub fn to_value(datum: &Datum, sql_type: &SqlType) -> Value {
    match (datum, &sql_type.kind) {
        (Datum::Int(v), _) => Value::Int(*v),
        (Datum::UInt(v), _) => Value::UInt(*v),
        (Datum::Double(v), _) => Value::Float(*v),
        (Datum::Decimal(v), TypeKind::Decimal) => {
            v.encode(sql_type.length, sql_type.decimals).map_or(Value::Null, Value::Bytes)
        }
        (Datum::Bytes(v), TypeKind::Enum(members)) => {
            let at = members.iter().position(|member| member.as_bytes() == &**v);
            Value::UInt(at.map_or(0, |at| at as u64 + 1))
        }
        (Datum::Bytes(v), TypeKind::Set(members)) => Value::UInt(set_bits(members, v)),
        (Datum::Bytes(v), _) => Value::Bytes(v.clone()),
        (Datum::Json(v), _) => Value::Bytes(v.clone()),
        (Datum::Date(v), _) => Value::UInt(pack_date(*v).into()),
        (Datum::DateTime(v), TypeKind::Timestamp) => {
            Value::UInt(u64::try_from(v.unix_micros().unwrap_or(0)).unwrap_or(0))
        }
        (Datum::DateTime(v), _) => Value::UInt(pack_date_time(*v)),
        (Datum::Time(v), _) => Value::Int(v.micros),
        (Datum::Null | Datum::Decimal(_), _) => Value::Null,
    }
}

/// As [`to_value`], without a copy of bytes.
pub fn into_value(datum: Datum, sql_type: &SqlType) -> Value {
    match (datum, &sql_type.kind) {
        (Datum::Bytes(v), kind) if !matches!(kind, TypeKind::Enum(_) | TypeKind::Set(_)) => {
            Value::Bytes(v)
        }
        (Datum::Json(v), _) => Value::Bytes(v),
        (other, _) => to_value(&other, sql_type),
    }
}

/// The value that a stored one stands for. A TIMESTAMP comes in UTC.
pub fn from_value(value: ValueRef<'_>, sql_type: &SqlType) -> Datum {
    match (value, &sql_type.kind) {
        (ValueRef::Bytes(v), _) => {
            from_bytes(v, sql_type).unwrap_or_else(|| Datum::Bytes(v.into()))
        }
        (other, _) => from_number(other, sql_type),
    }
}

/// As [`from_value`], without a copy of bytes.
pub fn from_owned(value: Value, sql_type: &SqlType) -> Datum {
    match value {
        Value::Bytes(v) => match from_bytes(&v, sql_type) {
            Some(datum) => datum,
            None if sql_type.kind == TypeKind::Json => Datum::Json(v),
            None => Datum::Bytes(v),
        },
        other => from_number(other.as_ref(), sql_type),
    }
}

/// Stored bytes that do not stand for themselves.
fn from_bytes(bytes: &[u8], sql_type: &SqlType) -> Option<Datum> {
    match sql_type.kind {
        TypeKind::Decimal => Some(Datum::Decimal(Decimal::decode(bytes, sql_type.decimals))),
        TypeKind::Json => Some(Datum::Json(bytes.into())),
        _ => None,
    }
}

fn from_number(value: ValueRef<'_>, sql_type: &SqlType) -> Datum {
    match (value, &sql_type.kind) {
        (ValueRef::UInt(v), TypeKind::Date) => Datum::Date(unpack_date(v as u32)),
        (ValueRef::UInt(v), TypeKind::DateTime) => Datum::DateTime(unpack_date_time(v)),
        (ValueRef::UInt(v), TypeKind::Timestamp) => {
            let micros = i64::try_from(v).unwrap_or(i64::MAX);
            // The zero timestamp is no moment.
            let zero = DateTime::default();
            Datum::DateTime(if v == 0 { zero } else { DateTime::from_unix_micros(micros) })
        }
        (ValueRef::UInt(v), TypeKind::Enum(members)) => {
            let member = usize::try_from(v).ok().and_then(|v| v.checked_sub(1));
            let text = member.and_then(|at| members.get(at));
            Datum::text(text.map_or("", |text| text))
        }
        (ValueRef::UInt(v), TypeKind::Set(members)) => Datum::text(&set_text(members, v)),
        (ValueRef::UInt(v), TypeKind::Year) => Datum::Int(v as i64),
        (ValueRef::Int(v), TypeKind::Time) => Datum::Time(Time { micros: v }),
        (ValueRef::Int(v), _) => Datum::Int(v),
        (ValueRef::UInt(v), _) => Datum::UInt(v),
        (ValueRef::Float(v), _) => Datum::Double(v),
        (ValueRef::Null | ValueRef::Bytes(_), _) => Datum::Null,
    }
}

/// The bits of the members that `text` lists.
pub fn set_bits(members: &[Box<str>], text: &[u8]) -> u64 {
    let bit = |part: &[u8]| members.iter().position(|member| member.as_bytes() == part);
    let parts = text.split(|byte| *byte == b',').filter_map(bit);
    parts.fold(0, |bits, at| bits | 1u64.checked_shl(at as u32).unwrap_or(0))
}

/// The members of a SET's bits as text, in the order of the definition.
pub fn set_text(members: &[Box<str>], bits: u64) -> String {
    let chosen = members.iter().take(64).enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    chosen.map(|(_, member)| &**member).collect::<Vec<&str>>().join(",")
}

fn pack_date(date: Date) -> u32 {
    u32::from(date.year) << 9 | u32::from(date.month) << 5 | u32::from(date.day)
}

fn unpack_date(packed: u32) -> Date {
    Date { year: (packed >> 9) as u16, month: (packed >> 5 & 15) as u8, day: (packed & 31) as u8 }
}

fn pack_date_time(at: DateTime) -> u64 {
    let time = u64::from(at.hour) << 12 | u64::from(at.minute) << 6 | u64::from(at.second);
    u64::from(pack_date(at.date)) << 37 | time << 20 | u64::from(at.micros)
}

fn unpack_date_time(packed: u64) -> DateTime {
    let time = packed >> 20;
    DateTime {
        date: unpack_date((packed >> 37) as u32),
        hour: (time >> 12 & 31) as u8,
        minute: (time >> 6 & 63) as u8,
        second: (time & 63) as u8,
        micros: (packed & 0xF_FFFF) as u32,
    }
}
