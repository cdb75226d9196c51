//! Orders that are known, and the agreement of compare, sort keys and hashes.

use super::*;
use crate::pattern::like;
use crate::registry::{COLLATIONS, Collation};
use crate::sort_key::{prefix_key, sort_key};

const AI_CI: u16 = 255;
const AS_CI: u16 = 305;
const AS_CS: u16 = 278;
const BIN: u16 = 46;
const BIN_0900: u16 = 309;
const GENERAL_CI: u16 = 45;
const UNICODE_CI: u16 = 224;
const UNICODE_520_CI: u16 = 246;
const SWEDISH_CI: u16 = 8;

fn order(id: u16, a: &str, b: &str) -> Ordering {
    compare(CollationId(id), a.as_bytes(), b.as_bytes())
}

/// By collation, texts and how the first compares with the second.
const KNOWN_ORDERS: &[(u16, &str, &str, Ordering)] = {
    use Ordering::{Equal, Greater, Less};
    &[
        (AI_CI, "a", "A", Equal),
        (AI_CI, "a", "á", Equal),
        (AI_CI, "e\u{301}", "é", Equal),
        (AI_CI, "ß", "ss", Equal),
        (AI_CI, "æ", "ae", Equal),
        (AI_CI, "Ł", "L", Equal),
        (AI_CI, "a", "a ", Less),
        (AI_CI, "ab", "a\u{AD}b", Equal),
        (AI_CI, "a", "b", Less),
        (AI_CI, "Z", "a", Greater),
        (AI_CI, "9", "a", Less),
        (AI_CI, "-", "1", Less),
        (AI_CI, "a b", "ab", Less),
        (AI_CI, "😀", "😁", Less),
        (AI_CI, "日", "本", Less),
        (AI_CI, "か", "カ", Equal),
        (AI_CI, "각", "\u{1100}\u{1161}\u{11A8}", Equal),
        (AI_CI, "가", "각", Less),
        (AI_CI, "힣", "日", Less),
        (AI_CI, "й", "и\u{306}", Greater),
        (AS_CI, "a", "A", Equal),
        (AS_CI, "a", "á", Less),
        (AS_CI, "áb", "ac", Less),
        (AS_CS, "a", "A", Less),
        (AS_CS, "A", "á", Less),
        (AS_CS, "aB", "Ab", Less),
        (AS_CS, "ß", "ss", Greater),
        (AS_CS, "か", "カ", Less),
        (BIN, "a", "A", Greater),
        (BIN, "a", "a  ", Equal),
        (BIN, "a\t", "a", Less),
        (BIN_0900, "a", "a ", Less),
        (GENERAL_CI, "ß", "s", Equal),
        (GENERAL_CI, "ß", "ss", Less),
        (GENERAL_CI, "é", "E", Equal),
        (GENERAL_CI, "й", "и", Greater),
        (GENERAL_CI, "ё", "е", Equal),
        (GENERAL_CI, "æ", "ae", Greater),
        (GENERAL_CI, "a ", "a", Equal),
        (GENERAL_CI, "😀", "😁", Equal),
        (UNICODE_CI, "ß", "ss", Equal),
        (UNICODE_CI, "a ", "A", Equal),
        (UNICODE_CI, "æ", "ae", Greater),
        (UNICODE_CI, "ø", "o", Greater),
        (UNICODE_CI, "ł", "l", Greater),
        (UNICODE_CI, "ł", "m", Less),
        (UNICODE_CI, "😀", "😁", Equal),
        (UNICODE_520_CI, "ø", "o", Equal),
        (UNICODE_520_CI, "ł", "l", Equal),
        (UNICODE_520_CI, "æ", "ae", Equal),
        (UNICODE_520_CI, "😀", "😁", Less),
        (SWEDISH_CI, "ä", "z", Greater),
        (SWEDISH_CI, "ü", "y", Equal),
        (SWEDISH_CI, "é", "e", Equal),
        (SWEDISH_CI, "å", "ä", Less),
        (SWEDISH_CI, "ß", "ss", Greater),
        (48, "a", "A", Equal),
        (48, "ä", "a", Greater),
        (48, "×", "÷", Less),
        (49, "a", "A", Greater),
        (47, "€", "À", Less),
        (11, "a", "A", Equal),
        (7, "б", "ц", Less),
        (74, "б", "ц", Less),
        (74, "ю", "б", Less),
        (51, "ж", "Ж", Equal),
        (52, "ж", "Ж", Greater),
        (31, "ä", "ae", Equal),
        (5, "ä", "a", Equal),
        (15, "å", "z", Greater),
        (94, "ñ", "n", Greater),
        (30, "ı", "i", Less),
        (41, "a ", "a", Equal),
        (41, "a\t", "a", Less),
        (10, "ä", "Ä", Equal),
        (28, "啊", "八", Less),
        (28, "a", "A", Equal),
        (13, "ｱ", "亜", Greater),
        (13, "ａ", "Ａ", Greater),
        (13, "a", "A", Equal),
        (88, "a", "A", Greater),
        (248, "ж", "Ж", Equal),
        (248, "é", "É", Equal),
        (249, "é", "É", Greater),
        (250, "é", "e", Equal),
        (223, "ß", "s", Greater),
        (76, "É", "é", Equal),
        (76, "é", "e", Greater),
        (63, "a", "a ", Less),
    ]
};

#[test]
fn known_orders() {
    for &(id, a, b, expected) in KNOWN_ORDERS {
        assert_eq!(order(id, a, b), expected, "{a:?} and {b:?} under {}", CollationId(id).name());
        assert_eq!(order(id, b, a), expected.reverse(), "{b:?} and {a:?}");
    }
}

#[test]
fn weights_are_mysqls() {
    let cases = [
        (AI_CI, "a é", "1C47 0209 1CAA"),
        (AI_CI, "ß", "1E71 1E71"),
        (AI_CI, "\u{4E00}", "FB40 CE00"),
        (AI_CI, "\u{20000}", "FB84 8000"),
        (AI_CI, "\u{17000}", "FB00 8000"),
        (AI_CI, "\u{E000}", "FBC1 E000"),
        (AI_CI, "\u{AC01}", "3BF5 3C73 3CD1"),
        (AS_CS, "é", "1CAA 0000 0020 0024 0000 0002 0002"),
        (AS_CS, "A", "1C47 0000 0020 0000 0008"),
        (GENERAL_CI, "é😀", "0045 FFFD"),
        (UNICODE_520_CI, "a\u{FA0E}", "120F FB41 FA0E"),
        (UNICODE_CI, "\u{4E00}\u{3400}", "FB40 CE00 FB80 B400"),
    ];
    for (id, text, expected) in cases {
        let found = weight_string(CollationId(id), text.as_bytes());
        let words: Vec<String> =
            found.chunks(2).map(|w| format!("{:02X}{:02X}", w[0], w[1])).collect();
        assert_eq!(words.join(" "), expected, "{text} under {id}");
    }
    assert_eq!(weight_string(CollationId(8), "aÅ".as_bytes()), b"A[");
    assert_eq!(weight_string(CollationId(11), b"a b"), b"A B");
}

/// One collation of each order: those of UCA 4.0.0 that differ in the character set alone are left
/// out.
fn orders() -> impl Iterator<Item = &'static Collation> {
    COLLATIONS.iter().filter(|collation| {
        let name = collation.name;
        !name.starts_with("ucs2_") && !name.starts_with("utf16") && !name.starts_with("utf32")
    })
}

/// Texts near each other, with everything that is treated specially.
fn texts() -> Vec<Vec<u8>> {
    let pieces: [&[u8]; 16] = [
        b"",
        b"a",
        b"A",
        b" ",
        b"\t",
        b"b",
        b"\0",
        "á".as_bytes(),
        "ß".as_bytes(),
        b"s",
        "日".as_bytes(),
        "😀".as_bytes(),
        b"\xFF",
        b"\xE2\x82",
        "각".as_bytes(),
        "\u{301}".as_bytes(),
    ];
    let mut texts = Vec::new();
    for a in pieces {
        for b in pieces {
            for c in [&b""[..], b" ", b"a", b" a", b" \x01", b"  "] {
                texts.push([a, b, c].concat());
            }
        }
    }
    texts
}

#[test]
fn keys_and_hashes_agree_with_compare() {
    let texts = texts();
    for (number, collation) in orders().enumerate() {
        let id = collation.id;
        let keys: Vec<(Vec<u8>, u64)> = texts
            .iter()
            .map(|text| {
                let mut key = Vec::new();
                sort_key(id, text, &mut key);
                (key, hash(id, text))
            })
            .collect();
        for (a, key_a) in texts.iter().zip(&keys).skip(number % 5).step_by(5) {
            // Every fifth is enough to meet all pairs of kinds.
            for (b, key_b) in texts.iter().zip(&keys).skip(number % 5).step_by(5) {
                let order = compare(id, a, b);
                assert_eq!(key_a.0.cmp(&key_b.0), order, "{a:?} {b:?} under {}", collation.name);
                assert_eq!(order.is_eq(), equal(id, a, b));
                assert!(order.is_ne() || key_a.1 == key_b.1, "{a:?} {b:?} {}", collation.name);
            }
        }
    }
}

#[test]
fn bytes_decide_where_it_is_said() {
    let texts = texts();
    for collation in orders().filter(|collation| pad_of_bytes(collation.id).is_some()) {
        let id = collation.id;
        let same = |a: &[u8], b: &[u8]| match pad_of_bytes(id) {
            Some(Pad::None) => Some(a == b),
            Some(Pad::Space) => {
                let end =
                    |text: &[u8]| text.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
                Some(a[..end(a)] == b[..end(b)])
            }
            None => None,
        };
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let expected = equal(id, a, b);
            assert_eq!(same(a, b).unwrap_or(expected), expected, "{} {a:?} {b:?}", collation.name);
        }
    }
    assert_eq!(pad_of_bytes(CollationId::DEFAULT), None);
}

#[test]
fn unknown_numbers_order_by_bytes() {
    assert_eq!(order(9_999, "a", "B"), Ordering::Greater);
    assert_eq!(order(9_999, "a", "a "), Ordering::Less);
}

#[test]
fn keys_are_about_as_long_as_texts() {
    let cases = [
        (AI_CI, "Hello, World", 12),
        (AI_CI, "naïve", 5),
        (AI_CI, "Привет", 12),
        (AI_CI, "日本語", 9),
        (AI_CI, "カタカナ", 8),
        (AI_CI, "한국", 12),
        (AI_CI, "😀", 3),
        (AS_CI, "Hello", 11),
        (AS_CS, "Hello", 17),
        (GENERAL_CI, "Hello, Wörld", 13),
        (GENERAL_CI, "日本語", 10),
        (UNICODE_CI, "Hello, World", 13),
        (UNICODE_CI, "日本語", 10),
        (BIN, "Hello, Wörld", 14),
        (SWEDISH_CI, "Hello, Wörld", 13),
        (11, "550e8400-e29b-41d4-a716-446655440000", 37),
        (63, "a b", 3),
        (AI_CI, "", 0),
        (BIN, "  ", 1),
    ];
    for (id, text, size) in cases {
        let mut key = Vec::new();
        sort_key(CollationId(id), text.as_bytes(), &mut key);
        assert_eq!(key.len(), size, "{text} under {id}");
    }
}

#[test]
fn keys_of_all_characters_are_in_the_order_of_compare() {
    for id in [AI_CI, AS_CS, UNICODE_CI, UNICODE_520_CI, GENERAL_CI, SWEDISH_CI, BIN, 49, 76, 223]
        .into_iter()
        .chain([1, 10, 12, 13, 28, 41, 87, 91, 235, 241, 248, 249, 250, 289, 290, 300, 307])
    {
        let id = CollationId(id);
        let text = |char: char| format!("{char}~").into_bytes();
        let mut previous = (text('a'), Vec::new());
        sort_key(id, &previous.0, &mut previous.1);
        // Steps around the table, so that neighbours differ in kind.
        for step in (0..0x11_0000u32).step_by(11) {
            let Some(char) = char::from_u32(step.wrapping_mul(0x9_E377) % 0x11_0000) else {
                continue;
            };
            let next = text(char);
            let mut key = Vec::new();
            sort_key(id, &next, &mut key);
            let order = compare(id, &previous.0, &next);
            assert_eq!(previous.1.cmp(&key), order, "{:?} {next:?} {}", previous.0, id.name());
            previous = (next, key);
        }
    }
}

#[test]
fn texts_that_are_like_a_prefix_have_keys_that_begin_with_its_own() {
    let texts = texts();
    let mut found = 0;
    for (number, collation) in orders().enumerate() {
        let id = collation.id;
        for prefix in texts.iter().skip(number % 31).step_by(31) {
            let mut begins = Vec::new();
            prefix_key(id, prefix, &mut begins);
            let pattern = [prefix, &b"%"[..]].concat();
            for text in texts.iter().filter(|text| like(id, text, &pattern, None)) {
                let mut key = Vec::new();
                sort_key(id, text, &mut key);
                let name = id.name();
                assert!(key.starts_with(&begins), "{name}: {text:?} LIKE {pattern:?}");
                found += 1;
            }
        }
    }
    assert!(found > 10_000, "{found} matches");
}
