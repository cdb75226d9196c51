//! LOWER and UPPER: one character for one, as MySQL does, without the special cases of languages.

use crate::coded::Coded;
use crate::registry::{Charset, CollationId};
use crate::utf8::first_char;

const FILE: &[u8] = include_bytes!("tables/case.bin");
/// Sections: lower and upper of Unicode 3.0, 5.2 and 9.0. Runs of 16 bytes: first, last, step,
/// distance.
const SECTIONS: usize = 6;
const RUN: usize = 16;

/// Converts to lower case.
pub fn lower(id: CollationId, text: &[u8]) -> Vec<u8> {
    convert(id, text, Direction::Lower)
}

/// Converts to upper case.
pub fn upper(id: CollationId, text: &[u8]) -> Vec<u8> {
    convert(id, text, Direction::Upper)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Lower,
    Upper,
}

fn convert(id: CollationId, text: &[u8], direction: Direction) -> Vec<u8> {
    let charset = id.charset();
    if charset == Charset::Binary {
        return text.to_vec();
    }
    // Those of gb18030 are letters of Unicode.
    let coded = Coded::of(charset).filter(|_| charset != Charset::Gb18030);
    // Seven-bit Swedish has letters in place of signs, Turkish two kinds of i.
    let own_ascii = matches!(charset, Charset::Swe7 | Charset::Latin5);
    let table = runs(id, direction);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((code, size)) = first_char(rest) {
        let (character, tail) = rest.split_at(size);
        rest = tail;
        let converted = match (code, direction) {
            (0..0x80, Direction::Lower) if !own_ascii => {
                u32::from((code as u8).to_ascii_lowercase())
            }
            (0..0x80, Direction::Upper) if !own_ascii => {
                u32::from((code as u8).to_ascii_uppercase())
            }
            _ if coded.is_some() => {
                let upper = direction == Direction::Upper;
                coded.map_or(code, |coded| coded.letter_case(code, upper))
            }
            _ => mapped(table, code),
        };
        match char::from_u32(converted).filter(|_| converted != code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend_from_slice(character),
        }
    }
    out
}

/// The runs of the Unicode version that the collation's letter case is of.
fn runs(id: CollationId, direction: Direction) -> &'static [u8] {
    let version = match id.0 {
        255.. => 2,
        250 | 246 | 214 | 123 | 150 | 182 => 1,
        _ => 0,
    };
    let index = 2 * version + usize::from(direction == Direction::Upper);
    let size = |section: usize| word(FILE, 4 * section) as usize;
    let from = 4 * (SECTIONS - 1) + (0..index).map(size).sum::<usize>();
    if index + 1 == SECTIONS { &FILE[from..] } else { &FILE[from..from + size(index)] }
}

/// The lower case of a character as the oldest collations have it.
pub(crate) fn lower_of_first_plane(code: u32) -> u32 {
    mapped(runs(CollationId::UTF8MB3_GENERAL_CI, Direction::Lower), code)
}

/// The capital of a character in Unicode 5.2.
pub(crate) fn capital_of(code: u32) -> u32 {
    mapped(runs(CollationId(246), Direction::Upper), code)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What a code point is mapped to; itself when no run has it.
fn mapped(table: &[u8], code: u32) -> u32 {
    let (mut low, mut high) = (0, table.len() / RUN);
    while low < high {
        let middle = low.midpoint(high);
        if word(table, middle * RUN) <= code { low = middle + 1 } else { high = middle }
    }
    // Runs of every second code point may overlap with one other.
    for run in (low.saturating_sub(2)..low).rev().map(|run| run * RUN) {
        let (first, last) = (word(table, run), word(table, run + 4));
        if code <= last && (code - first).is_multiple_of(word(table, run + 8)) {
            return code.wrapping_add(word(table, run + 12));
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_many_scripts() {
        let cases = [
            (255, "ǆ", "Ǆ"),
            (255, "ß", "ß"),
            (255, "ÿ", "Ÿ"),
            (255, "ж", "Ж"),
            (255, "σς", "ΣΣ"),
            (255, "\u{10428}", "\u{10400}"),
            (45, "\u{10428}", "\u{10428}"),
            (246, "\u{10428}", "\u{10400}"),
            (45, "éß", "Éß"),
            (8, "éÿœß÷", "Éÿœß÷"),
            (7, "мир", "МИР"),
            (10, "äåé", "ÄÅÉ"),
            (30, "iıa", "İIA"),
            (13, "ａ", "Ａ"),
            (248, "жà", "ЖÀ"),
            (11, "aé", "Aé"),
            (63, "aé", "aé"),
        ];
        for (id, text, expected) in cases {
            let found = upper(CollationId(id), text.as_bytes());
            assert_eq!(std::str::from_utf8(&found).unwrap(), expected, "{id} {text}");
        }
        assert_eq!(lower(CollationId(255), "ÀÉΩЖİ".as_bytes()), "àéωжi".as_bytes());
        assert_eq!(lower(CollationId(8), "ÀÞ×Ÿ".as_bytes()), "àþ×Ÿ".as_bytes());
    }

    #[test]
    fn unicode_9_is_the_common_part_of_the_standard_library() {
        let mut differ = 0;
        for char in (0..0x11_0000).filter_map(char::from_u32) {
            let mut buffer = [0; 4];
            let text = char.encode_utf8(&mut buffer).as_bytes();
            let mut all = char.to_uppercase();
            let found = upper(CollationId(255), text);
            if let (Some(one), None) = (all.next(), all.next())
                && one.encode_utf8(&mut [0; 4]).as_bytes() != found
            {
                differ += 1;
                assert_eq!(found, text, "{char:?} is newer than Unicode 9, so it has no partner");
            }
        }
        assert!(differ < 250, "{differ}");
    }

    #[test]
    fn ill_formed_bytes_stay() {
        assert_eq!(upper(CollationId(255), b"a\xFFb\xE2\x82"), b"A\xFFB\xE2\x82");
    }
}
