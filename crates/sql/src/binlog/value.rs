//! Values of columns as events of the binary log have them.
//!
//! # Owns
//! What TABLE_MAP says of a column, and the bytes of each of its values.
//! # Guarantees
//! Any stored value has bytes: text that its character set lacks is written as that set's question
//! marks, as a client gets it.
//! # Not here
//! JSON in binary form (`binlog::json`).

use collation::{CollationId, from_utf8};
use model::ValueRef;
use mysql_wire::binlog::rows::{MapColumn, column};
use sqltype::temporal::{Date, DateTime, Time};
use sqltype::{Datum, Decimal, SqlType, TypeKind, storage};

use super::json;
use crate::catalog::ColumnDefinition;

/// How TEXT and the like give the length of a value: in so many bytes.
fn length_bytes(kind: &TypeKind) -> u8 {
    match kind {
        TypeKind::TinyText => 1,
        TypeKind::Text => 2,
        TypeKind::MediumText => 3,
        _ => 4,
    }
}

/// Bytes of the longest value of a text.
fn bytes_max(sql_type: &SqlType) -> u32 {
    let width = match sql_type.collation {
        CollationId::BINARY => 1,
        other => u32::from(other.charset().max_len()),
    };
    sql_type.length.saturating_mul(width)
}

fn set_bytes(members: usize) -> u8 {
    match members.div_ceil(8) {
        bytes @ 0..=4 => bytes.max(1) as u8,
        _ => 8,
    }
}

/// What TABLE_MAP says of a column.
pub(super) fn described(definition: &ColumnDefinition, json_is_text: bool) -> MapColumn {
    let sql_type = &definition.sql_type;
    let fraction = || vec![sql_type.decimals];
    let (kind, detail) = match &sql_type.kind {
        TypeKind::TinyInt => (column::TINY, vec![]),
        TypeKind::SmallInt => (column::SHORT, vec![]),
        TypeKind::MediumInt => (column::INT24, vec![]),
        TypeKind::Int => (column::LONG, vec![]),
        TypeKind::BigInt => (column::LONGLONG, vec![]),
        TypeKind::Float => (column::FLOAT, vec![4]),
        TypeKind::Double => (column::DOUBLE, vec![8]),
        TypeKind::Decimal => (column::NEWDECIMAL, vec![sql_type.length as u8, sql_type.decimals]),
        TypeKind::Bit => {
            let bits = sql_type.length;
            (column::BIT, vec![(bits % 8) as u8, (bits / 8) as u8])
        }
        TypeKind::Year => (column::YEAR, vec![]),
        TypeKind::Date => (column::DATE, vec![]),
        TypeKind::Time => (column::TIME2, fraction()),
        TypeKind::DateTime => (column::DATETIME2, fraction()),
        TypeKind::Timestamp => (column::TIMESTAMP2, fraction()),
        TypeKind::Char => {
            let length = bytes_max(sql_type).min(1023);
            // Two bits of the length stand in the type, inverted.
            let kind = column::STRING ^ ((length & 0x300) >> 4) as u8;
            (column::STRING, vec![kind, length as u8])
        }
        TypeKind::VarChar | TypeKind::Null => {
            let length = bytes_max(sql_type).min(u16::MAX.into()) as u16;
            (column::VARCHAR, length.to_le_bytes().to_vec())
        }
        TypeKind::Enum(members) => {
            (column::ENUM, vec![column::ENUM, if members.len() > 255 { 2 } else { 1 }])
        }
        TypeKind::Set(members) => (column::SET, vec![column::SET, set_bytes(members.len())]),
        TypeKind::Json if json_is_text => (column::BLOB, vec![4]),
        TypeKind::Json => (column::JSON, vec![4]),
        kind => (column::BLOB, vec![length_bytes(kind)]),
    };
    let is_number = sql_type.kind.is_number();
    let collation = match kind {
        column::STRING | column::VARCHAR | column::ENUM | column::SET => Some(sql_type.collation),
        column::BLOB if json_is_text && sql_type.kind == TypeKind::Json => {
            Some(CollationId::UTF8MB4_BIN)
        }
        column::BLOB => Some(sql_type.collation),
        _ => None,
    };
    let members = match &sql_type.kind {
        TypeKind::Enum(members) | TypeKind::Set(members) => {
            let charset = sql_type.collation.charset();
            let encoded = |member: &str| from_utf8(charset, member.as_bytes()).bytes.into_owned();
            members.iter().map(|member| encoded(member)).collect()
        }
        _ => Vec::new(),
    };
    MapColumn {
        kind,
        detail,
        nullable: definition.nullable,
        unsigned: is_number.then_some(sql_type.unsigned),
        collation: collation.map(|collation| collation.0),
        name: definition.name.clone(),
        members,
    }
}

/// The bytes of a stored value; none for NULL.
pub(super) fn bytes_of(
    value: ValueRef<'_>,
    sql_type: &SqlType,
    json_is_text: bool,
) -> Option<Vec<u8>> {
    if value == ValueRef::Null {
        return None;
    }
    let number = match value {
        ValueRef::Int(number) => number as u64,
        ValueRef::UInt(number) => number,
        _ => 0,
    };
    let low = |bytes: usize| number.to_le_bytes()[..bytes].to_vec();
    let high = |bytes: usize| number.to_be_bytes()[8 - bytes..].to_vec();
    Some(match &sql_type.kind {
        TypeKind::TinyInt => low(1),
        TypeKind::SmallInt => low(2),
        TypeKind::MediumInt => low(3),
        TypeKind::Int => low(4),
        TypeKind::BigInt => low(8),
        TypeKind::Bit => high(sql_type.length.div_ceil(8) as usize),
        TypeKind::Enum(members) => low(if members.len() > 255 { 2 } else { 1 }),
        TypeKind::Set(members) => low(set_bytes(members.len()).into()),
        TypeKind::Year => vec![number.saturating_sub(1_900) as u8],
        _ => match (storage::from_value(value, sql_type), &sql_type.kind) {
            (Datum::Double(v), TypeKind::Float) => (v as f32).to_le_bytes().to_vec(),
            (Datum::Double(v), _) => v.to_le_bytes().to_vec(),
            (Datum::Decimal(v), _) => decimal(v, sql_type.length, sql_type.decimals),
            (Datum::Date(v), _) => date(v),
            (Datum::DateTime(v), TypeKind::Timestamp) => timestamp(v, sql_type.decimals),
            (Datum::DateTime(v), _) => date_time(v, sql_type.decimals),
            (Datum::Time(v), _) => time(v, sql_type.decimals),
            (Datum::Json(v), _) if json_is_text => with_length(&v, 4),
            (Datum::Json(v), _) => with_length(&json::binary(&v), 4),
            (Datum::Bytes(v), kind) => {
                let stored = from_utf8(sql_type.collation.charset(), &v).bytes;
                with_length(&stored, text_length_bytes(sql_type, kind).into())
            }
            // There is no other stored value.
            _ => Vec::new(),
        },
    })
}

fn text_length_bytes(sql_type: &SqlType, kind: &TypeKind) -> u8 {
    match kind {
        TypeKind::Char | TypeKind::VarChar | TypeKind::Null => {
            if bytes_max(sql_type) > 255 {
                2
            } else {
                1
            }
        }
        kind => length_bytes(kind),
    }
}

/// A value behind its length. One that is longer in its character set than the length can say is
/// cut at a multiple of four bytes: a length that is wrong would spoil all that follows.
fn with_length(value: &[u8], bytes: usize) -> Vec<u8> {
    let most = (1_usize << (8 * bytes.min(4))) - 1;
    let value = if value.len() > most { &value[..most & !3] } else { value };
    let mut out = Vec::with_capacity(bytes + value.len());
    out.extend(&(value.len() as u64).to_le_bytes()[..bytes]);
    out.extend(value);
    out
}

/// Digits in groups of nine, each in four bytes; fewer at both ends. The highest bit is inverted,
/// and all bits of negative numbers.
pub(super) fn decimal(value: Decimal, precision: u32, scale: u8) -> Vec<u8> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let scale = usize::from(scale);
    let whole_digits = (precision as usize).saturating_sub(scale);
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.trim_start_matches('0');
    let whole = format!("{whole:0>whole_digits$}");
    let fraction = format!("{fraction:0<scale$}");
    let mut out: Vec<u8> = Vec::new();
    let mut group = |digits: &str| {
        let number = digits.parse::<u32>().unwrap_or(0);
        out.extend(&number.to_be_bytes()[4 - BYTES[digits.len()]..]);
    };
    let (first, rest) = whole.split_at(whole.len() % 9);
    if !first.is_empty() {
        group(first);
    }
    let groups = |digits: &str| -> Vec<String> {
        digits.as_bytes().chunks(9).map(|chunk| String::from_utf8_lossy(chunk).into()).collect()
    };
    for digits in groups(rest).iter().chain(&groups(&fraction)) {
        group(digits);
    }
    if let Some(byte) = out.first_mut() {
        *byte ^= 0x80;
    }
    if value.is_negative() {
        out.iter_mut().for_each(|byte| *byte = !*byte);
    }
    out
}

pub(super) fn date(value: Date) -> Vec<u8> {
    let packed = u32::from(value.day) | u32::from(value.month) << 5 | u32::from(value.year) << 9;
    packed.to_le_bytes()[..3].to_vec()
}

/// Bytes of a fraction of a second with so many digits.
fn fraction(out: &mut Vec<u8>, micros: u32, digits: u8) {
    match digits {
        0 => {}
        1 | 2 => out.push((micros / 10_000) as u8),
        3 | 4 => out.extend(((micros / 100) as u16).to_be_bytes()),
        _ => out.extend(&micros.to_be_bytes()[1..]),
    }
}

pub(super) fn date_time(value: DateTime, digits: u8) -> Vec<u8> {
    let date = value.date;
    let day = (u64::from(date.year) * 13 + u64::from(date.month)) << 5 | u64::from(date.day);
    let time = u64::from(value.hour) << 12 | u64::from(value.minute) << 6 | u64::from(value.second);
    let packed = 0x80_0000_0000 + (day << 17 | time);
    let mut out = packed.to_be_bytes()[3..].to_vec();
    fraction(&mut out, value.micros, digits);
    out
}

pub(super) fn timestamp(value: DateTime, digits: u8) -> Vec<u8> {
    let micros = if value == DateTime::default() { 0 } else { value.unix_micros().unwrap_or(0) };
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).unwrap_or(0);
    let mut out = seconds.to_be_bytes().to_vec();
    fraction(&mut out, micros.rem_euclid(1_000_000) as u32, digits);
    out
}

pub(super) fn time(value: Time, digits: u8) -> Vec<u8> {
    let (hours, minutes, seconds, micros) = value.parts();
    let whole = i64::from(hours) << 12 | i64::from(minutes) << 6 | i64::from(seconds);
    let packed = whole << 24 | i64::from(micros);
    let packed = if value.is_negative() { -packed } else { packed };
    // The fraction of a negative number is negative too, and its whole part is rounded down.
    let (whole, micros) = (packed >> 24, packed % (1 << 24));
    let whole = (0x80_0000 + whole).to_be_bytes();
    let mut out = whole[5..].to_vec();
    match digits {
        0 => {}
        1 | 2 => out.push((micros / 10_000) as u8),
        3 | 4 => out.extend(((micros / 100) as i16).to_be_bytes()),
        _ => out = (0x8000_0000_0000 + packed).to_be_bytes()[2..].to_vec(),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn decimals_are_groups_of_nine_digits() {
        let of = |text: &str, precision, scale| {
            let value = Decimal::parse(text.as_bytes()).expect("a number");
            hex(&decimal(value, precision, scale))
        };
        // The example of the public documentation of `decimal2bin`.
        assert_eq!(of("1234567890.1234", 14, 4), "810dfb38d204d2");
        assert_eq!(of("-1234567890.1234", 14, 4), "7ef204c72dfb2d");
        assert_eq!(of("0", 5, 2), "800000");
        assert_eq!(of("-0.01", 5, 2), "7ffffe");
        assert_eq!(of("999.99", 5, 2), "83e763");
        assert_eq!(of("0.5", 1, 1), "85");
    }

    #[test]
    fn times_have_their_bytes_in_the_order_of_their_values() {
        let time_of = |negative, hours, micros, digits| {
            let value = Time::new(negative, hours, 2, 3, micros).expect("a time");
            hex(&time(value, digits))
        };
        // 1:02:03 is 1 << 12 | 2 << 6 | 3.
        assert_eq!(time_of(false, 1, 0, 0), "801083");
        assert_eq!(time_of(true, 1, 0, 0), "7fef7d");
        assert_eq!(time_of(false, 1, 500_000, 6), "80108307a120");
        assert_eq!(time_of(true, 1, 500_000, 6), "7fef7cf85ee0");
        assert_eq!(time_of(true, 1, 500_000, 2), "7fef7cce");
        assert_eq!(time_of(true, 1, 120_000, 3), "7fef7cfb50");
        let at = DateTime {
            date: Date { year: 2012, month: 6, day: 21 },
            hour: 15,
            minute: 45,
            second: 17,
            micros: 123_400,
        };
        // (2012 * 13 + 6) << 5 | 21, << 17, | 15 << 12 | 45 << 6 | 17.
        assert_eq!(hex(&date_time(at, 0)), expected(at));
        assert_eq!(hex(&date_time(at, 4))[10..], *"04d2");
        assert_eq!(hex(&timestamp(DateTime::from_unix_micros(1_000_000), 3)), "000000010000");
        assert_eq!(hex(&date(at.date)), hex(&[0xD5, 0xB8, 0x0F]));
    }

    fn expected(at: DateTime) -> String {
        let day =
            (u64::from(at.date.year) * 13 + u64::from(at.date.month)) * 32 + u64::from(at.date.day);
        let time = u64::from(at.hour) * 4096 + u64::from(at.minute) * 64 + u64::from(at.second);
        format!("{:010x}", 0x80_0000_0000 + day * 131_072 + time)
    }
}
