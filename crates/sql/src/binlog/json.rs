//! JSON in MySQL's binary form, which events of the binary log have.
//!
//! # Guarantees
//! What is no JSON is written as a string. A document whose small form has no room has the large
//! one; sizes are those of the public description of the format (`json_binary.h`).

use sqltype::json::Json;

/// Offsets of a small container end here.
const SMALL_MAX: usize = u16::MAX as usize;

mod kind {
    pub(super) const SMALL_OBJECT: u8 = 0;
    pub(super) const LARGE_OBJECT: u8 = 1;
    pub(super) const SMALL_ARRAY: u8 = 2;
    pub(super) const LARGE_ARRAY: u8 = 3;
    pub(super) const LITERAL: u8 = 4;
    pub(super) const INT16: u8 = 5;
    pub(super) const UINT16: u8 = 6;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 8;
    pub(super) const INT64: u8 = 9;
    pub(super) const UINT64: u8 = 10;
    pub(super) const DOUBLE: u8 = 11;
    pub(super) const STRING: u8 = 12;
    pub(super) const OPAQUE: u8 = 15;
}

/// The type of MySQL's decimals in an opaque value.
const NEWDECIMAL: u8 = 246;

/// The binary form of stored JSON.
pub(crate) fn binary(stored: &[u8]) -> Vec<u8> {
    let json = Json::decode(stored)
        .unwrap_or_else(|| Json::String(String::from_utf8_lossy(stored).into_owned()));
    let (kind, body) = value(&json);
    let mut out = vec![kind];
    out.extend(body);
    out
}

/// The type of a value, and its bytes behind the type.
fn value(json: &Json) -> (u8, Vec<u8>) {
    match json {
        Json::Null => (kind::LITERAL, vec![0]),
        Json::Bool(true) => (kind::LITERAL, vec![1]),
        Json::Bool(false) => (kind::LITERAL, vec![2]),
        Json::Int(number) => match (i16::try_from(*number), i32::try_from(*number)) {
            (Ok(small), _) => (kind::INT16, small.to_le_bytes().to_vec()),
            (_, Ok(middle)) => (kind::INT32, middle.to_le_bytes().to_vec()),
            _ => (kind::INT64, number.to_le_bytes().to_vec()),
        },
        Json::UInt(number) => match (u16::try_from(*number), u32::try_from(*number)) {
            (Ok(small), _) => (kind::UINT16, small.to_le_bytes().to_vec()),
            (_, Ok(middle)) => (kind::UINT32, middle.to_le_bytes().to_vec()),
            _ => (kind::UINT64, number.to_le_bytes().to_vec()),
        },
        Json::Double(number) => (kind::DOUBLE, number.to_le_bytes().to_vec()),
        Json::Decimal(number) => {
            let (precision, scale) = (number.precision(), number.scale());
            let digits = super::value::decimal(*number, precision, scale);
            let mut body = vec![NEWDECIMAL];
            length(&mut body, digits.len() + 2);
            body.extend([precision as u8, scale]);
            body.extend(digits);
            (kind::OPAQUE, body)
        }
        Json::String(text) => {
            let mut body = Vec::with_capacity(text.len() + 2);
            length(&mut body, text.len());
            body.extend(text.as_bytes());
            (kind::STRING, body)
        }
        Json::Array(items) => {
            let values: Vec<(u8, Vec<u8>)> = items.iter().map(value).collect();
            match container(&[], &values, 2) {
                Some(body) => (kind::SMALL_ARRAY, body),
                None => (kind::LARGE_ARRAY, container(&[], &values, 4).unwrap_or_default()),
            }
        }
        Json::Object(members) => {
            let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
            let values: Vec<(u8, Vec<u8>)> = members.iter().map(|(_, item)| value(item)).collect();
            match container(&keys, &values, 2) {
                Some(body) => (kind::SMALL_OBJECT, body),
                None => (kind::LARGE_OBJECT, container(&keys, &values, 4).unwrap_or_default()),
            }
        }
    }
}

/// An array, or an object with its keys; offsets take `width` bytes. None if they have no room.
fn container(keys: &[&str], values: &[(u8, Vec<u8>)], width: usize) -> Option<Vec<u8>> {
    let head = 2 * width + keys.len() * (width + 2) + values.len() * (1 + width);
    let is_inline = |kind: u8| match kind {
        kind::LITERAL | kind::INT16 | kind::UINT16 => true,
        kind::INT32 | kind::UINT32 => width == 4,
        _ => false,
    };
    let texts: usize = keys.iter().map(|key| key.len()).sum();
    let outside: usize =
        values.iter().filter(|(kind, _)| !is_inline(*kind)).map(|(_, body)| body.len()).sum();
    let size = head + texts + outside;
    if width == 2 && (size > SMALL_MAX || values.len() > SMALL_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(size);
    let number = |out: &mut Vec<u8>, number: usize| {
        out.extend(&(number as u64).to_le_bytes()[..width]);
    };
    number(&mut out, values.len());
    number(&mut out, size);
    let mut at = head;
    for key in keys {
        number(&mut out, at);
        out.extend((key.len() as u16).to_le_bytes());
        at += key.len();
    }
    for (kind, body) in values {
        out.push(*kind);
        if is_inline(*kind) {
            let end = out.len() + width;
            out.extend(body);
            // A negative number keeps its sign in the wider entry; small ones stand at its
            // beginning.
            out.resize(end, 0);
        } else {
            number(&mut out, at);
            at += body.len();
        }
    }
    keys.iter().for_each(|key| out.extend(key.as_bytes()));
    for (kind, body) in values {
        if !is_inline(*kind) {
            out.extend(body);
        }
    }
    Some(out)
}

/// A length: seven bits in a byte, the lowest first, the highest bit set in all but the last.
fn length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<u8> {
        binary(&Json::parse(text.as_bytes()).expect("JSON").encode())
    }

    #[test]
    fn documents_have_the_bytes_of_the_description() {
        assert_eq!(of("null"), [4, 0]);
        assert_eq!(of("true"), [4, 1]);
        assert_eq!(of("-2"), [5, 0xFE, 0xFF]);
        assert_eq!(of("\"ab\""), [12, 2, b'a', b'b']);
        // Two members of four bytes each for key and three for the value, behind four bytes.
        let object = [0, 2, 0, 21, 0, 18, 0, 1, 0, 19, 0, 2, 0, 5, 1, 0, 4, 1, 0, b'a', b'b', b'c'];
        assert_eq!(of("{\"a\": 1, \"bc\": true}"), object);
        // One value that stands behind its entry.
        assert_eq!(of("[70000]"), [2, 1, 0, 11, 0, 7, 7, 0, 0x70, 0x11, 1, 0]);
    }

    #[test]
    fn a_long_document_has_the_large_form() {
        let text = format!("[\"{}\", -1]", "x".repeat(70_000));
        let bytes = of(&text);
        assert_eq!(bytes[0], kind::LARGE_ARRAY);
        // Count, size, and two entries of five bytes.
        assert_eq!(bytes[1..5], [2, 0, 0, 0]);
        assert_eq!(bytes[5..9], (bytes.len() as u32 - 1).to_le_bytes());
        assert_eq!(bytes[9..14], [kind::STRING, 18, 0, 0, 0]);
        assert_eq!(bytes[14..19], [kind::INT16, 0xFF, 0xFF, 0, 0]);
    }
}
