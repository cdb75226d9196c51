//! Reading UTF-8 that may be ill-formed.

/// What a byte that belongs to no character reads as: this plus the byte, beyond all characters.
pub(crate) const INVALID: u32 = 0x11_0000;

/// The first character of `text` and its size; `None` when the text is empty. A byte that does not
/// begin a well-formed character is a character of its own, beyond all others.
#[inline]
pub(crate) fn first_char(text: &[u8]) -> Option<(u32, usize)> {
    let first = *text.first()?;
    if first < 0x80 {
        return Some((u32::from(first), 1));
    }
    Some(multibyte(first, text).unwrap_or((INVALID + u32::from(first), 1)))
}

fn multibyte(first: u8, text: &[u8]) -> Option<(u32, usize)> {
    let tail = |at: usize| {
        let byte = *text.get(at)?;
        (byte & 0xC0 == 0x80).then_some(u32::from(byte & 0x3F))
    };
    match first {
        0xC2..=0xDF => Some((u32::from(first & 0x1F) << 6 | tail(1)?, 2)),
        0xE0..=0xEF => {
            let code = u32::from(first & 0x0F) << 12 | tail(1)? << 6 | tail(2)?;
            (code >= 0x800 && !(0xD800..0xE000).contains(&code)).then_some((code, 3))
        }
        0xF0..=0xF4 => {
            let code = u32::from(first & 0x07) << 18 | tail(1)? << 12 | tail(2)? << 6 | tail(3)?;
            (0x1_0000..INVALID).contains(&code).then_some((code, 4))
        }
        _ => None,
    }
}

/// The size of the first character of `text` in bytes; zero when the text is empty.
pub fn char_size(text: &[u8]) -> usize {
    first_char(text).map_or(0, |(_, size)| size)
}

/// How many characters `text` has; bytes outside well-formed UTF-8 count one each.
pub fn char_count(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    if std::str::from_utf8(text).is_ok() {
        // Each has one byte that is not 10xxxxxx.
        return text.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    }
    let (mut at, mut count) = (0, 0);
    while at < text.len() {
        at += char_size(&text[at..]);
        count += 1;
    }
    count
}

/// The size in bytes of the first `count` characters, or of all if there are fewer.
pub fn chars_size(text: &[u8], count: usize) -> usize {
    let mut at = 0;
    for _ in 0..count {
        match char_size(&text[at..]) {
            0 => break,
            size => at += size,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_std_reads() {
        for code in (0..0x11_0000).filter_map(char::from_u32).step_by(7) {
            let mut buffer = [0; 4];
            let text = code.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(first_char(text), Some((u32::from(code), text.len())));
            let cut = &text[..text.len() - 1];
            let valid = first_char(cut).is_none_or(|(code, _)| code < INVALID);
            assert_eq!(valid, cut.is_empty(), "{code:?} cut short");
        }
    }

    #[test]
    fn ill_formed_bytes_are_characters_of_their_own() {
        for text in [&b"\x80"[..], b"\xC0\x80", b"\xED\xA0\x80", b"\xF5\x80\x80\x80", b"\xE2\x82"] {
            assert_eq!(first_char(text), Some((INVALID + u32::from(text[0]), 1)));
            assert_eq!(char_count(text), text.len());
        }
        assert_eq!(char_count("aé€😀".as_bytes()), 4);
        assert_eq!(chars_size("aé€😀".as_bytes(), 3), 6);
        assert_eq!(chars_size(b"ab", 9), 2);
    }
}
