//! LIKE and searching for a substring, under a collation.

use crate::order::{Task, compare, dispatch, equal_chars};
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

    fn padded<T: Codes>(self) -> bool {
        self.matches(equal_chars::<T>)
    }

    fn levels(self, levels: usize) -> bool {
        use crate::uca::Uca0900;
        match levels {
            1 => self.matches(equal_chars::<Uca0900<1>>),
            2 => self
                .matches(|a, b| equal_chars::<Uca0900<1>>(a, b) && equal_chars::<Uca0900<2>>(a, b)),
            _ => self.matches(|a, b| {
                equal_chars::<Uca0900<1>>(a, b)
                    && equal_chars::<Uca0900<2>>(a, b)
                    && equal_chars::<Uca0900<3>>(a, b)
            }),
        }
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
