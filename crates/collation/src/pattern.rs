//! LIKE and searching for a substring, under a collation.

use memchr::memmem::Finder;

use crate::order::{Levels, Task, compare, dispatch, equal_chars};
use crate::registry::{Charset, CollationId};
use crate::sort_key::Codes;
use crate::utf8::char_size;

/// Whether `text LIKE pattern`: `%` stands for any characters, `_` for one, `escape` takes the
/// meaning from the character after it. As in MySQL characters are compared one by one, so that an
/// expansion (`ß` = `ss`) never matches, and trailing spaces count.
pub fn like(id: CollationId, text: &[u8], pattern: &[u8], escape: Option<char>) -> bool {
    let mut buffer = [0; 4];
    let escape = escape.map_or(&[][..], |char| char.encode_utf8(&mut buffer).as_bytes());
    dispatch(id, Like { text, pattern, escape, bytes: id.charset() == Charset::Binary })
}

/// A pattern of LIKE, made ready to be compared with many texts.
#[derive(Debug)]
pub struct Pattern<'a> {
    id: CollationId,
    pattern: &'a [u8],
    escape: Option<char>,
    /// Of a pattern without `_` under a collation that compares bytes.
    parts: Option<Parts>,
}

/// What a pattern has between its `%`.
#[derive(Debug)]
struct Parts {
    first: Vec<u8>,
    middle: Vec<Finder<'static>>,
    /// None if there is no `%` at all.
    last: Option<Vec<u8>>,
}

impl<'a> Pattern<'a> {
    /// What [`like`] is to compare texts with.
    pub fn new(id: CollationId, pattern: &'a [u8], escape: Option<char>) -> Self {
        // Bytes that are no whole characters are found only where characters begin.
        let whole = id.charset() == Charset::Binary || std::str::from_utf8(pattern).is_ok();
        let parts = (whole && id.is_binary()).then(|| Parts::new(id, pattern, escape)).flatten();
        Self { id, pattern, escape, parts }
    }

    /// Whether a text is LIKE it.
    pub fn matches(&self, text: &[u8]) -> bool {
        match &self.parts {
            Some(parts) => parts.are_in(text),
            None => like(self.id, text, self.pattern, self.escape),
        }
    }
}

impl Parts {
    fn new(id: CollationId, pattern: &[u8], escape: Option<char>) -> Option<Self> {
        let mut buffer = [0; 4];
        let escape = escape.map_or(&[][..], |char| char.encode_utf8(&mut buffer).as_bytes());
        let like = Like { text: &[], pattern, escape, bytes: id.charset() == Charset::Binary };
        let mut parts = vec![Vec::new()];
        let mut at = 0;
        while at < pattern.len() {
            let (element, next) = like.element(at);
            match element {
                Element::One => return None,
                Element::Any => parts.push(Vec::new()),
                Element::Char(char) => parts.last_mut().expect("one at least").extend(char),
            }
            at = next;
        }
        let last = if parts.len() > 1 { parts.pop() } else { None };
        let mut parts = parts.into_iter();
        let first = parts.next().expect("one at least");
        let middle = parts.map(|part| Finder::new(&part).into_owned()).collect();
        Some(Self { first, middle, last })
    }

    fn are_in(&self, text: &[u8]) -> bool {
        let Some(last) = &self.last else { return text == self.first };
        let rest = text.strip_prefix(&self.first[..]).and_then(|text| text.strip_suffix(&last[..]));
        let Some(mut rest) = rest else { return false };
        // Each as early as it can be leaves most to those that follow.
        for part in &self.middle {
            let Some(at) = part.find(rest) else { return false };
            rest = &rest[at + part.needle().len()..];
        }
        true
    }
}

/// What every text begins with that is LIKE `pattern`: its characters before the first wildcard,
/// without escapes.
pub fn like_prefix(id: CollationId, pattern: &[u8], escape: Option<char>) -> Vec<u8> {
    let mut buffer = [0; 4];
    let escape = escape.map_or(&[][..], |char| char.encode_utf8(&mut buffer).as_bytes());
    let bytes = id.charset() == Charset::Binary;
    let like = Like { text: &[], pattern, escape, bytes };
    let (mut prefix, mut at) = (Vec::new(), 0);
    while at < pattern.len() {
        let (Element::Char(char), next) = like.element(at) else { break };
        prefix.extend_from_slice(char);
        at = next;
    }
    prefix
}

/// Where `needle` begins in `text` at or after the byte `from`, as LOCATE finds it: a part of the
/// text of as many bytes as the needle has that is equal to it.
pub fn find(id: CollationId, text: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at + needle.len() <= text.len() {
        let part = &text[at..at + needle.len()];
        if part == needle
            || (is_whole(id, text, at + needle.len()) && compare(id, part, needle).is_eq())
        {
            return Some(at);
        }
        at += step(id, &text[at..]);
    }
    None
}

/// Whether a character may begin at `at`, or the text ends there.
fn is_whole(id: CollationId, text: &[u8], at: usize) -> bool {
    id.charset() == Charset::Binary || text.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
}

fn step(id: CollationId, text: &[u8]) -> usize {
    if id.charset() == Charset::Binary { 1 } else { char_size(text).max(1) }
}

struct Like<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    escape: &'a [u8],
    /// A character is a byte.
    bytes: bool,
}

/// The next element of a pattern.
enum Element<'a> {
    Any,
    One,
    Char(&'a [u8]),
}

impl<'a> Like<'a> {
    fn size(&self, text: &[u8]) -> usize {
        if self.bytes { text.len().min(1) } else { char_size(text) }
    }

    /// The element at `at` and where the next one begins.
    fn element(&self, at: usize) -> (Element<'a>, usize) {
        let rest = &self.pattern[at..];
        let size = self.size(rest);
        let first = &rest[..size];
        if !self.escape.is_empty() && first == self.escape && size < rest.len() {
            let escaped = &rest[size..][..self.size(&rest[size..])];
            return (Element::Char(escaped), at + size + escaped.len());
        }
        let element = match first {
            b"%" => Element::Any,
            b"_" => Element::One,
            _ => Element::Char(first),
        };
        (element, at + size)
    }

    /// Walks along text and pattern. When they part, the last `%` takes one character more: earlier
    /// ones need not, since they took the least they could.
    fn matches(&self, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let (mut at, mut in_pattern) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let size = self.size(&self.text[at..]);
            let matched = if in_pattern == self.pattern.len() {
                if size == 0 {
                    return true;
                }
                false
            } else {
                let (element, next) = self.element(in_pattern);
                let matched = match element {
                    Element::Any => {
                        if next == self.pattern.len() {
                            return true;
                        }
                        retry = Some((at, next));
                        in_pattern = next;
                        continue;
                    }
                    Element::One => size > 0,
                    Element::Char(char) => size > 0 && same(&self.text[at..at + size], char),
                };
                if matched {
                    (at, in_pattern) = (at + size, next);
                }
                matched
            };
            if !matched {
                let Some((from, after)) = retry else { return false };
                let skipped = self.size(&self.text[from..]);
                if skipped == 0 {
                    return false;
                }
                (at, in_pattern) = (from + skipped, after);
                retry = Some((at, after));
            }
        }
    }
}

impl Task for Like<'_> {
    type Output = bool;

    fn bytes(self, _pad: bool) -> bool {
        self.matches(|a, b| a == b)
    }

    fn padded<T: Codes>(self, table: T) -> bool {
        self.matches(|a, b| equal_chars(table, a, b))
    }

    fn levels<L: Levels>(self, tables: L, levels: usize) -> bool {
        self.matches(|a, b| {
            equal_chars(tables.first(), a, b)
                && (levels < 2 || equal_chars(tables.second(), a, b))
                && (levels < 3 || equal_chars(tables.third(), a, b))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "ABC", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("abc", "_%_%_", true),
            ("abc", "_%_%_%_", false),
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc ", "abc", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("a\\c", "a\\\\c", true),
            ("ab\\", "ab\\", true),
            ("über", "UBER", true),
            ("über", "_ber", true),
            ("straße", "strasse", false),
            ("stra\u{DF}e", "stra_e", true),
            ("日本語", "日%", true),
            ("😀", "_", true),
            ("mississippi", "%iss%ip%", true),
            ("aaaaaaaaab", "%a%a%a%a%c", false),
            ("abab", "%ab", true),
        ];
        for (text, pattern, expected) in cases {
            let id = CollationId::UTF8MB4_0900_AI_CI;
            let found = like(id, text.as_bytes(), pattern.as_bytes(), Some('\\'));
            assert_eq!(found, expected, "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn a_pattern_made_ready_says_the_same() {
        let patterns: [&[u8]; 20] = [
            b"",
            b"%",
            b"%%",
            b"a%",
            b"%a",
            b"%ab%",
            b"%ab%ab%",
            b"ab%ab",
            b"%a%b%a%",
            b"a_b",
            b"a\\%b",
            b"%\\%%",
            b"\\",
            b"%\xA9%",
            b"%\xC3\xA9%",
            b"\xC3%",
            b"abab",
            b"%ba",
            b"%aba%ab",
            b"aba%aba",
        ];
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        for at in 0..4 {
            let longer: Vec<Vec<u8>> = texts
                .iter()
                .filter(|text| text.len() >= at)
                .flat_map(|text| {
                    let pieces: [&[u8]; 6] = [b"a", b"b", b"%", b"ab", b"\xC3\xA9", b"\xC3"];
                    pieces.map(|piece| [text, piece].concat())
                })
                .collect();
            texts.extend(longer);
        }
        for id in [46, 63, 47, 278, 255].map(CollationId) {
            for pattern in patterns {
                let ready = Pattern::new(id, pattern, Some('\\'));
                for text in &texts {
                    let slow = like(id, text, pattern, Some('\\'));
                    assert_eq!(ready.matches(text), slow, "{id:?}: {text:?} LIKE {pattern:?}");
                }
            }
        }
        assert!(Pattern::new(CollationId(46), b"%a%", None).parts.is_some());
    }

    #[test]
    fn collation_and_escape_decide() {
        let like = |id, text: &str, pattern: &str, escape| {
            like(CollationId(id), text.as_bytes(), pattern.as_bytes(), escape)
        };
        assert!(!like(46, "a", "A", None));
        assert!(!like(278, "a", "A", None) && !like(278, "a", "á", None));
        assert!(like(305, "a", "A", None) && !like(305, "a", "á", None));
        assert!(like(45, "ß", "s", None) && !like(46, "ß", "s", None));
        assert!(like(63, "é", "__", None) && !like(46, "é", "__", None));
        assert!(like(255, "a%", "a|%", Some('|')) && !like(255, "ab", "a|%", Some('|')));
        assert!(like(255, "a\\b", "a\\%", None));
        assert!(like(8, "müller", "mYller", None));
    }

    #[test]
    fn fixed_beginnings_of_patterns() {
        let cases = [
            ("abc%", "abc"),
            ("abc", "abc"),
            ("%abc", ""),
            ("a_c%", "a"),
            ("a\\%b%", "a%b"),
            ("a\\_b_", "a_b"),
            ("a\\", "a\\"),
            ("", ""),
            ("日本%", "日本"),
        ];
        for (pattern, expected) in cases {
            let id = CollationId::UTF8MB4_0900_AI_CI;
            let found = like_prefix(id, pattern.as_bytes(), Some('\\'));
            assert_eq!(found, expected.as_bytes(), "{pattern}");
        }
        let none = like_prefix(CollationId::UTF8MB4_0900_AI_CI, b"a\\%", None);
        assert_eq!(none, b"a\\", "without an escape character");
    }

    #[test]
    fn substrings() {
        let find = |id, text: &str, needle: &str, from| {
            find(CollationId(id), text.as_bytes(), needle.as_bytes(), from)
        };
        assert_eq!(find(255, "foobarBAR", "BAR", 0), Some(3));
        assert_eq!(find(255, "foobarBAR", "bar", 4), Some(6));
        assert_eq!(find(46, "foobarBAR", "BAR", 0), Some(6));
        assert_eq!(find(255, "naïve", "Ï", 0), Some(2));
        assert_eq!(find(255, "abc", "", 3), Some(3));
        assert_eq!(find(255, "abc", "abcd", 0), None);
        assert_eq!(find(255, "日本語", "本", 0), Some(3));
    }
}
