//! Conversion between UTF-8 and the character sets in which clients speak.

use std::borrow::Cow;

use crate::coded::Coded;
use crate::registry::Charset;
use crate::utf8::{INVALID, first_char};

/// Text in another character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted<'a> {
    /// The bytes; what could not be converted is a question mark.
    pub bytes: Cow<'a, [u8]>,
    /// Where in the source the first such place is.
    pub first_bad: Option<usize>,
}

/// What the bytes 0x80 to 0x9F of latin1 (code page 1252) mean; five of them nothing, which MySQL
/// reads as the control characters of that number.
const LATIN1_80: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8D}', 'Ž', '\u{8F}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9D}', 'ž', 'Ÿ',
];

/// The latin1 byte of a code point, if it has one.
#[inline]
pub(crate) fn latin1_byte(code: u32) -> Option<u8> {
    match code {
        0..=0x7F | 0xA0..=0xFF => Some(code as u8),
        _ => LATIN1_80.iter().position(|c| u32::from(*c) == code).map(|at| 0x80 + at as u8),
    }
}

fn latin1_char(byte: u8) -> char {
    match byte {
        0x80..=0x9F => LATIN1_80[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// Whether a character set has a character.
fn represents(charset: Charset, code: u32) -> bool {
    match charset {
        Charset::Binary => true,
        Charset::Ascii => code < 0x80,
        Charset::Latin1 => code < INVALID && latin1_byte(code).is_some(),
        Charset::Utf8mb3 | Charset::Ucs2 => code < 0x1_0000,
        Charset::Utf8mb4 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 => code < INVALID,
        _ => Coded::of(charset).is_some_and(|coded| coded.encode(code).is_some()),
    }
}

/// Where in a UTF-8 text the first character is that a column of this character set cannot hold, or
/// the first byte that is not UTF-8. `None` when all is well.
pub fn unrepresentable_at(charset: Charset, text: &[u8]) -> Option<usize> {
    if charset == Charset::Binary || text.is_ascii() && charset != Charset::Swe7 {
        return None;
    }
    if charset == Charset::Utf8mb4 {
        return invalid_utf8_at(text);
    }
    let mut at = 0;
    while let Some((code, size)) = first_char(&text[at..]) {
        if !represents(charset, code) {
            return Some(at);
        }
        at += size;
    }
    None
}

/// Where the first byte is that belongs to no well-formed character.
pub fn invalid_utf8_at(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).err().map(|error| error.valid_up_to())
}

/// Converts what a client sent in `charset` to UTF-8.
pub fn to_utf8(charset: Charset, bytes: &[u8]) -> Converted<'_> {
    match charset {
        Charset::Binary => Converted { bytes: bytes.into(), first_bad: None },
        Charset::Utf8mb4 if invalid_utf8_at(bytes).is_none() => {
            Converted { bytes: bytes.into(), first_bad: None }
        }
        _ if holds_ascii(charset) && bytes.is_ascii() => {
            Converted { bytes: bytes.into(), first_bad: None }
        }
        _ => decode_all(charset, bytes),
    }
}

/// Converts the whole characters of bytes that are a part of what a client sends: the text, and how
/// many bytes it was made of. With `last` nothing follows. UTF-8 is not looked at.
pub fn to_utf8_in_parts(charset: Charset, bytes: &[u8], last: bool) -> (Cow<'_, [u8]>, usize) {
    let low = |unit: usize| bytes.len() / unit * unit;
    // The first half of a pair, in either order of bytes.
    let half = |unit: usize, high: usize| {
        let byte = low(unit).checked_sub(unit).map(|at| bytes[at + high]);
        byte.is_some_and(|byte| matches!(byte, 0xD8..=0xDB))
    };
    let end = match charset {
        Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => {
            return (bytes.into(), bytes.len());
        }
        _ if last => bytes.len(),
        Charset::Ucs2 => low(2),
        Charset::Utf16 => low(2) - if half(2, 0) { 2 } else { 0 },
        Charset::Utf16le => low(2) - if half(2, 1) { 2 } else { 0 },
        Charset::Utf32 => low(4),
        _ => Coded::of(charset).map_or(bytes.len(), |coded| coded.whole(bytes)),
    };
    (to_utf8(charset, &bytes[..end]).bytes, end)
}

/// Whether the characters below 128 are these bytes, and such bytes alone are nothing else.
fn holds_ascii(charset: Charset) -> bool {
    !matches!(
        charset,
        Charset::Swe7 | Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32
    )
}

fn decode_all(charset: Charset, bytes: &[u8]) -> Converted<'_> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let (mut at, mut first_bad) = (0, None);
    while at < bytes.len() {
        let (decoded, size) = decode(charset, &bytes[at..]);
        if decoded.is_none() {
            first_bad.get_or_insert(at);
        }
        let mut buffer = [0; 4];
        let text = decoded.unwrap_or('?').encode_utf8(&mut buffer);
        out.extend_from_slice(text.as_bytes());
        at += size;
    }
    Converted { bytes: out.into(), first_bad }
}

/// The first character of bytes that are not empty, and its size.
fn decode(charset: Charset, bytes: &[u8]) -> (Option<char>, usize) {
    match charset {
        Charset::Binary | Charset::Latin1 => (Some(latin1_char(bytes[0])), 1),
        Charset::Ascii => (bytes[0].is_ascii().then(|| char::from(bytes[0])), 1),
        Charset::Utf8mb3 | Charset::Utf8mb4 => {
            let (code, size) = first_char(bytes).expect("the bytes are not empty");
            let fits = represents(charset, code);
            (char::from_u32(code).filter(|_| fits), size)
        }
        Charset::Ucs2 => match bytes {
            [a, b, ..] => (char::from_u32(u32::from(u16::from_be_bytes([*a, *b]))), 2),
            _ => (None, bytes.len()),
        },
        Charset::Utf16 => utf16(bytes, u16::from_be_bytes),
        Charset::Utf16le => utf16(bytes, u16::from_le_bytes),
        Charset::Utf32 => match bytes {
            [a, b, c, d, ..] => (char::from_u32(u32::from_be_bytes([*a, *b, *c, *d])), 4),
            _ => (None, bytes.len()),
        },
        _ => Coded::of(charset).map_or((None, 1), |coded| coded.decode(bytes)),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (Option<char>, usize) {
    let [a, b, rest @ ..] = bytes else { return (None, bytes.len()) };
    let first = u32::from(unit([*a, *b]));
    if let (0xD800..=0xDBFF, [c, d, ..]) = (first, rest) {
        let second = u32::from(unit([*c, *d]));
        if let 0xDC00..=0xDFFF = second {
            return (char::from_u32(0x1_0000 + ((first - 0xD800) << 10 | (second - 0xDC00))), 4);
        }
    }
    (char::from_u32(first), 2)
}

/// Converts UTF-8 text to what a client wants in `charset`.
pub fn from_utf8(charset: Charset, text: &[u8]) -> Converted<'_> {
    let kept = match charset {
        Charset::Binary => true,
        Charset::Utf8mb4 => invalid_utf8_at(text).is_none(),
        _ if holds_ascii(charset) => text.is_ascii(),
        _ => text.is_empty(),
    };
    if kept {
        return Converted { bytes: text.into(), first_bad: None };
    }
    let mut out = Vec::with_capacity(text.len() * 2);
    let (mut at, mut first_bad) = (0, None);
    while let Some((code, size)) = first_char(&text[at..]) {
        let found = char::from_u32(code).filter(|_| represents(charset, code));
        if found.is_none() {
            first_bad.get_or_insert(at);
        }
        encode(charset, found.unwrap_or('?'), &mut out);
        at += size;
    }
    Converted { bytes: out.into(), first_bad }
}

/// Appends a character that the character set has.
fn encode(charset: Charset, char: char, out: &mut Vec<u8>) {
    let code = u32::from(char);
    match charset {
        Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Charset::Ascii | Charset::Latin1 => out.push(latin1_byte(code).unwrap_or(b'?')),
        Charset::Ucs2 | Charset::Utf16 => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(&unit.to_be_bytes());
            }
        }
        Charset::Utf16le => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(&unit.to_le_bytes());
            }
        }
        Charset::Utf32 => out.extend_from_slice(&code.to_be_bytes()),
        _ => match Coded::of(charset).and_then(|coded| coded.encode(code)) {
            Some(code) => out.extend_from_slice(code.bytes()),
            None => out.push(b'?'),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_set_returns_what_it_can_say() {
        let text = "aé€😀\u{81}";
        let known = |set: &Charset| {
            set.is_unicode() || matches!(set, Charset::Ascii | Charset::Latin1 | Charset::Binary)
        };
        for charset in Charset::ALL.into_iter().filter(known) {
            let sent = from_utf8(charset, text.as_bytes());
            let back = to_utf8(charset, &sent.bytes);
            let expected = match charset {
                Charset::Ascii => "a????",
                Charset::Latin1 => "aé€?\u{81}",
                Charset::Utf8mb3 | Charset::Ucs2 => "aé€?\u{81}",
                _ => text,
            };
            assert_eq!(std::str::from_utf8(&back.bytes).unwrap(), expected, "{charset:?}");
            assert_eq!(back.first_bad, None);
            let bad = match charset {
                Charset::Ascii => Some(1),
                Charset::Latin1 | Charset::Utf8mb3 | Charset::Ucs2 => Some(6),
                _ => None,
            };
            assert_eq!((sent.first_bad, unrepresentable_at(charset, text.as_bytes())), (bad, bad));
        }
    }

    #[test]
    fn known_bytes() {
        assert_eq!(&*from_utf8(Charset::Latin1, "€ÿ".as_bytes()).bytes, b"\x80\xFF");
        assert_eq!(&*from_utf8(Charset::Utf16, "😀".as_bytes()).bytes, b"\xD8\x3D\xDE\x00");
        assert_eq!(&*from_utf8(Charset::Utf16le, "é".as_bytes()).bytes, b"\xE9\x00");
        assert_eq!(&*from_utf8(Charset::Utf32, "é".as_bytes()).bytes, b"\0\0\0\xE9");
    }

    #[test]
    fn ill_formed_input_is_told() {
        let cases: [(Charset, &[u8], &str, usize); 7] = [
            (Charset::Utf8mb4, b"a\xFFb", "a?b", 1),
            (Charset::Utf8mb4, b"a\xE2\x82", "a??", 1),
            (Charset::Utf8mb3, "é😀".as_bytes(), "é?", 2),
            (Charset::Ascii, b"a\x80", "a?", 1),
            (Charset::Utf16, b"\xD8\x3D\0a", "?a", 0),
            (Charset::Utf16, b"\0a\0", "a?", 2),
            (Charset::Utf32, b"\xFF\xFF\xFF\xFF", "?", 0),
        ];
        for (charset, bytes, text, at) in cases {
            let converted = to_utf8(charset, bytes);
            assert_eq!(std::str::from_utf8(&converted.bytes).unwrap(), text, "{charset:?}");
            assert_eq!(converted.first_bad, Some(at), "{charset:?} {bytes:?}");
        }
        assert_eq!(invalid_utf8_at(b"ab\xC3"), Some(2));
    }
}
