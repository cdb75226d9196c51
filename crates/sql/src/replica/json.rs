//! JSON read from MySQL's binary form, which events of the binary log have.
//!
//! # Guarantees
//! Any bytes are JSON or nothing; nothing is deeper than JSON may be. Sizes are those of the public
//! description of the format (`json_binary.h`).

use sqltype::Decimal;
use sqltype::json::{DEPTH_MAX, Json};
use sqltype::temporal::{Date, DateTime, Time};

/// Values that a document may come to: a container can be named by many entries.
const VALUES_MAX: usize = 4 << 20;

/// Reads a document.
pub(super) fn read(bytes: &[u8]) -> Option<Json> {
    let (kind, body) = bytes.split_first()?;
    let mut left = VALUES_MAX;
    value(*kind, body, 0, &mut left)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn value(kind: u8, body: &[u8], depth: usize, left: &mut usize) -> Option<Json> {
    *left = left.checked_sub(1)?;
    if depth > DEPTH_MAX {
        return None;
    }
    let number = |width| number(body, 0, width);
    Some(match kind {
        0 => container(body, 2, true, depth, left)?,
        1 => container(body, 4, true, depth, left)?,
        2 => container(body, 2, false, depth, left)?,
        3 => container(body, 4, false, depth, left)?,
        4 => literal(*body.first()?)?,
        5 => Json::Int((number(2)? as u16 as i16).into()),
        6 => Json::Int(number(2)? as i64),
        7 => Json::Int((number(4)? as u32 as i32).into()),
        8 => Json::Int(number(4)? as i64),
        9 => Json::Int(number(8)? as i64),
        10 => {
            let number = number(8)?;
            i64::try_from(number).map_or(Json::UInt(number), Json::Int)
        }
        11 => {
            let number = f64::from_bits(number(8)?);
            number.is_finite().then_some(Json::Double(number))?
        }
        12 => Json::String(String::from_utf8_lossy(with_length(body)?).into_owned()),
        15 => opaque(*body.first()?, with_length(&body[1..])?)?,
        _ => return None,
    })
}

fn literal(byte: u8) -> Option<Json> {
    match byte {
        0 => Some(Json::Null),
        1 => Some(Json::Bool(true)),
        2 => Some(Json::Bool(false)),
        _ => None,
    }
}

/// An array, or an object; offsets take `width` bytes and count from its beginning.
fn container(
    body: &[u8],
    width: usize,
    is_object: bool,
    depth: usize,
    left: &mut usize,
) -> Option<Json> {
    let count = usize::try_from(number(body, 0, width)?).ok()?;
    let size = usize::try_from(number(body, width, width)?).ok()?;
    let body = body.get(..size)?;
    let keys = 2 * width;
    let values = if is_object { keys.checked_add(count.checked_mul(width + 2)?)? } else { keys };
    // All entries are there, so what is reserved for them is.
    body.get(..values.checked_add(count.checked_mul(1 + width)?)?)?;
    let mut members = Vec::with_capacity(count);
    for at in 0..count {
        let entry = values + at * (1 + width);
        let kind = *body.get(entry)?;
        let is_inline = match kind {
            4..=6 => true,
            7 | 8 => width == 4,
            _ => false,
        };
        let item = if is_inline {
            value(kind, body.get(entry + 1..entry + 1 + width)?, depth + 1, left)?
        } else {
            let offset = usize::try_from(number(body, entry + 1, width)?).ok()?;
            value(kind, body.get(offset..)?, depth + 1, left)?
        };
        let name = if is_object {
            let entry = keys + at * (width + 2);
            let offset = usize::try_from(number(body, entry, width)?).ok()?;
            let length = usize::try_from(number(body, entry + width, 2)?).ok()?;
            let name = body.get(offset..offset.checked_add(length)?)?;
            String::from_utf8_lossy(name).into_owned()
        } else {
            String::new()
        };
        members.push((name, item));
    }
    Some(if is_object {
        Json::object(members)
    } else {
        Json::Array(members.into_iter().map(|(_, item)| item).collect())
    })
}

/// Bytes behind their length: seven bits in a byte, the lowest first, the highest bit set in all
/// but the last.
fn with_length(bytes: &[u8]) -> Option<&[u8]> {
    let mut length = 0_usize;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes.get(at + 1..(at + 1).checked_add(length)?);
        }
    }
    None
}

/// Values of other types: decimals, times, and bytes.
fn opaque(kind: u8, bytes: &[u8]) -> Option<Json> {
    let packed = || {
        let packed: [u8; 8] = bytes.try_into().ok()?;
        Some(i64::from_le_bytes(packed))
    };
    Some(match kind {
        // Precision, scale, and digits as columns have them.
        246 => {
            let (precision, scale) = (*bytes.first()?, *bytes.get(1)?);
            let text = mysql_wire::binlog::image::decimal_text(&bytes[2..], precision, scale)?;
            Json::Decimal(Decimal::parse(text.as_bytes())?)
        }
        10 => Json::String(date_of(packed()?).date.to_string()),
        12 | 7 => Json::String(date_of(packed()?).to_text(6)),
        11 => Json::String(time_of(packed()?)?.to_text(6)),
        kind => {
            // As MySQL prints it.
            Json::String(format!("base64:type{kind}:{}", base64(bytes)))
        }
    })
}

fn date_of(packed: i64) -> DateTime {
    let (whole, micros) = (packed.unsigned_abs() >> 24, (packed.unsigned_abs() & 0xFF_FFFF) as u32);
    let (day, time) = (whole >> 17, whole & 0x1_FFFF);
    let months = day >> 5;
    let date = Date {
        year: (months / 13).min(9_999) as u16,
        month: (months % 13) as u8,
        day: (day & 31) as u8,
    };
    DateTime {
        date,
        hour: (time >> 12).min(23) as u8,
        minute: (time >> 6 & 63).min(59) as u8,
        second: (time & 63).min(59) as u8,
        micros: micros.min(999_999),
    }
}

fn time_of(packed: i64) -> Option<Time> {
    let (whole, micros) = (packed.unsigned_abs() >> 24, (packed.unsigned_abs() & 0xFF_FFFF) as u32);
    let hours = (whole >> 12 & 0x3FF) as u32;
    Time::new(packed < 0, hours, (whole >> 6 & 63) as u8, (whole & 63) as u8, micros)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let of = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = of(0) << 16 | of(1) << 8 | of(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::json_binary;

    fn round(text: &str) {
        let json = Json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(read(&json_binary(&json.encode())), Some(json), "{text}");
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["null", "true", "-2", "70000", "-70000", "5000000000", "1.5", "\"ab\"", "[]"] {
            round(text);
        }
        round("{}");
        round("[1, [2, {\"a\": null, \"bc\": [true, \"x\"]}], -40000, 18446744073709551615]");
        round(&format!("[\"{}\", -1, 70000]", "x".repeat(70_000)));
        round(&format!("{{\"k\": \"{}\", \"l\": 1}}", "y".repeat(200)));
    }

    #[test]
    fn damaged_bytes_are_none() {
        let json = Json::parse(b"{\"a\": [1, 2, {\"b\": \"text\"}], \"c\": 1.5}").expect("JSON");
        let bytes = json_binary(&json.encode());
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None);
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // It is something or nothing.
                let _ = read(&damaged);
            }
        }
        // A container that names itself.
        assert_eq!(read(&[2, 1, 0, 7, 0, 2, 0, 0]), None);
        assert_eq!(base64(b"abcd"), "YWJjZA==");
    }
}
