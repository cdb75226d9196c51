//! Sums over everything that another server was asked.

use super::*;
use crate::convert::{from_utf8, to_utf8, to_utf8_in_parts};
use crate::letter_case::{lower, upper};
use crate::order::weight_string;

const MEASURED: &str = include_str!("../tables/measured.txt");

/// FNV-1a over byte strings, each followed by its length.
pub(crate) struct Sum(pub(crate) u64);

impl Sum {
    pub(crate) fn new() -> Sum {
        Sum(0xCBF2_9CE4_8422_2325)
    }

    pub(crate) fn add(&mut self, data: &[u8]) {
        for byte in data.iter().copied().chain([data.len() as u8]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

fn codes(charset: Charset) -> Vec<Vec<u8>> {
    let mut codes: Vec<Vec<u8>> = (0..=255).map(|a| vec![a]).collect();
    if Form::of(charset) != Form::Single {
        codes.extend((0x81..0xFF).flat_map(|a| (0x30..0xFF).map(move |b| vec![a, b])));
        codes.extend((0xA1..0xFF).flat_map(|a| (0xA1..0xFF).map(move |b| vec![0x8F, a, b])));
    }
    codes
}

fn points() -> impl Iterator<Item = char> {
    (0..0x1_0000).filter_map(char::from_u32)
}

fn measured(what: &str, name: &str) -> Sum {
    let mut sum = Sum::new();
    if what == "weights" {
        let id = CollationId::by_name(name).expect("a collation");
        for text in held(id.charset()) {
            sum.add(&weight_string(id, text.as_bytes()));
        }
        return sum;
    }
    let charset = Charset::by_name(name).expect("a character set");
    let id = charset.default_collation();
    match what {
        "decode" => {
            codes(charset).iter().for_each(|code| sum.add(&to_utf8(charset, code).bytes));
        }
        "encode" => {
            for char in points() {
                sum.add(&from_utf8(charset, char.to_string().as_bytes()).bytes);
            }
        }
        "lower" => held(charset).for_each(|text| sum.add(&lower(id, text.as_bytes()))),
        "upper" => held(charset).for_each(|text| sum.add(&upper(id, text.as_bytes()))),
        _ => panic!("nothing is known of {what}"),
    }
    sum
}

/// The characters of a set.
fn held(charset: Charset) -> impl Iterator<Item = String> {
    points().map(|char| char.to_string()).filter(move |text| {
        let converted = from_utf8(charset, text.as_bytes());
        converted.first_bad.is_none()
    })
}

#[test]
fn every_code_and_character_is_as_measured() {
    let mut wrong = Vec::new();
    for line in MEASURED.lines() {
        let mut words = line.split(' ');
        let (Some(what), Some(name), Some(sum)) = (words.next(), words.next(), words.next()) else {
            panic!("{line}");
        };
        if format!("{:016x}", measured(what, name).0) != sum {
            wrong.push((what, name));
        }
    }
    assert_eq!(MEASURED.lines().count(), 4 * (SETS.len() - 1) + 48);
    assert_eq!(wrong, []);
}

#[test]
fn gb18030_has_all_of_unicode() {
    for point in (0..0x11_0000).filter_map(char::from_u32) {
        let text = point.to_string();
        let there = from_utf8(Charset::Gb18030, text.as_bytes());
        assert_eq!(there.first_bad, None, "{point:?}");
        assert_eq!(&*to_utf8(Charset::Gb18030, &there.bytes).bytes, text.as_bytes(), "{point:?}");
    }
    let cases: [(&str, &[u8]); 7] = [
        ("a", b"a"),
        ("€", b"\xA2\xE3"),
        ("\u{1E3F}", b"\xA8\xBC"),
        ("\u{E7C7}", b"\x81\x35\xF4\x37"),
        ("中", b"\xD6\xD0"),
        ("\u{FFFF}", b"\x84\x31\xA4\x39"),
        ("😀", b"\x94\x39\xFC\x36"),
    ];
    for (text, code) in cases {
        assert_eq!(&*from_utf8(Charset::Gb18030, text.as_bytes()).bytes, code, "{text}");
    }
}

#[test]
fn parts_of_a_text_are_the_text() {
    let text = "aソ日ｱ表é€мир한中";
    for charset in Charset::ALL.into_iter().filter(|set| *set != Charset::Binary) {
        let sent = from_utf8(charset, format!("{text}{text}x").as_bytes()).bytes.into_owned();
        let whole = to_utf8(charset, &sent).bytes.into_owned();
        for size in 1..8 {
            let (mut waiting, mut found) = (Vec::new(), Vec::new());
            for part in sent.chunks(size).chain([&b""[..]]) {
                waiting.extend_from_slice(part);
                let (text, end) = to_utf8_in_parts(charset, &waiting, part.is_empty());
                found.extend_from_slice(&text);
                waiting.drain(..end);
            }
            assert_eq!(found, whole, "{charset:?} in parts of {size}");
        }
    }
}

#[test]
fn codes_that_are_cut_or_wrong_are_question_marks() {
    let cases: [(Charset, &[u8], &str, Option<usize>); 9] = [
        (Charset::Sjis, b"a\x83", "a?", Some(1)),
        (Charset::Sjis, b"\x83\x39", "?9", Some(0)),
        (Charset::Sjis, b"\x83\x5C\xB1", "ソｱ", None),
        (Charset::Ujis, b"\x8F\xA2", "??", Some(0)),
        (Charset::Ujis, b"\x8E\xB1\xC6\xFC", "ｱ日", None),
        (Charset::Gb18030, b"\x81\x30\x81", "?0?", Some(0)),
        (Charset::Gbk, b"\xC4\xE3\xFF", "你?", Some(2)),
        (Charset::Koi8r, b"\xCD\xC9\xD2", "мир", None),
        (Charset::Swe7, b"[]\\", "ÄÅÖ", None),
    ];
    for (charset, bytes, text, bad) in cases {
        let converted = to_utf8(charset, bytes);
        assert_eq!(std::str::from_utf8(&converted.bytes), Ok(text), "{charset:?} {bytes:?}");
        assert_eq!(converted.first_bad, bad, "{charset:?} {bytes:?}");
    }
}
