//! The value of a literal: escapes resolved, digits turned into bytes.

/// The text between the quotes of a string or a quoted identifier.
///
/// `quoted` begins and ends with its quote; a doubled quote inside is one. With `backslash` the
/// escapes of MySQL are resolved.
pub(crate) fn unquote(quoted: &[u8], backslash: bool, out: &mut Vec<u8>) {
    let quote = quoted[0];
    let inner = &quoted[1..quoted.len() - 1];
    out.reserve(inner.len());
    let mut rest = inner;
    loop {
        // What means itself is taken at once: large values have little else.
        let next = if backslash {
            memchr::memchr2(quote, b'\\', rest)
        } else {
            memchr::memchr(quote, rest)
        };
        let (plain, special) = rest.split_at(next.unwrap_or(rest.len()));
        out.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else { return };
        let (second, behind) = match behind.split_first() {
            Some((second, behind)) => (Some(*second), behind),
            None => (None, behind),
        };
        rest = behind;
        match byte {
            b'\\' if backslash => match second {
                Some(b'0') => out.push(0),
                Some(b'b') => out.push(0x08),
                Some(b'n') => out.push(b'\n'),
                Some(b'r') => out.push(b'\r'),
                Some(b't') => out.push(b'\t'),
                Some(b'Z') => out.push(0x1A),
                // For LIKE these keep their backslash, which has a meaning there.
                Some(wildcard @ (b'%' | b'_')) => out.extend([b'\\', wildcard]),
                Some(other) => out.push(other),
                None => {}
            },
            // Two of them are one.
            _ => out.push(quote),
        }
    }
}

/// The bytes of `x'4D'` or `0x4D`; `digits` are the digits alone.
pub(crate) fn hex(digits: &[u8]) -> Vec<u8> {
    let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    let (first, rest) = digits.split_at(digits.len() % 2);
    let mut bytes: Vec<u8> = first.iter().map(|digit| value(*digit)).collect();
    bytes.extend(rest.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])));
    bytes
}

/// The bytes of `b'01'` or `0b01`, the last bit last; `digits` are the digits alone.
pub(crate) fn bits(digits: &[u8]) -> Vec<u8> {
    let (first, rest) = digits.split_at(digits.len() % 8);
    let value = |digits: &[u8]| digits.iter().fold(0, |value, digit| value << 1 | (digit & 1));
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(8));
    if !first.is_empty() {
        bytes.push(value(first));
    }
    bytes.extend(rest.chunks_exact(8).map(value));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let text = |quoted: &str, backslash| {
            let mut out = Vec::new();
            unquote(quoted.as_bytes(), backslash, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(r"'a\nb\'c\\d\%\_\x\0\Z'", true), "a\nb'c\\d\\%\\_x\0\u{1a}");
        assert_eq!(text(r"'a\n'", false), r"a\n");
        assert_eq!(text("'it''s \"x\"'", true), "it's \"x\"");
        assert_eq!(text("`a``b\\`", false), "a`b\\");
    }

    #[test]
    fn digits() {
        assert_eq!(hex(b"4D7"), [0x04, 0xD7]);
        assert_eq!(hex(b""), Vec::<u8>::new());
        assert_eq!(bits(b"1"), [1]);
        assert_eq!(bits(b"111111111"), [1, 0xFF]);
        assert_eq!(bits(b""), Vec::<u8>::new());
    }
}
