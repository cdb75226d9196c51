//! Arbitrary bytes through everything that reads bytes: nothing panics, and what was read once
//! reads the same again.

use collation::{COLLATIONS, CollationId};
use sqltype::json::{Change, Json, JsonPath};
use sqltype::number::{read_decimal, read_double, read_integer, read_rounded};
use sqltype::storage::{from_value, to_value};
use sqltype::temporal::{Interval, IntervalUnit, parse_date_time, parse_time};
use sqltype::{
    Converter, Datum, Decimal, Place, Problems, SqlType, StoreMode, TimeZone, TypeKind, text,
};
use stdx::Prng;

const PIECES: [&str; 48] = [
    "0",
    "1",
    "9",
    "59",
    "60",
    "12",
    "2024",
    "0000",
    "99999999999999999999",
    "-",
    "+",
    ".",
    ":",
    "/",
    " ",
    "T",
    "e",
    "E5",
    "e999",
    "\"",
    "\\",
    "\\u12",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    "$",
    "**",
    "*",
    "last",
    " to ",
    "a",
    "null",
    "true",
    "é",
    "😀",
    "\u{0}",
    "'",
    "red",
    "%",
    "_",
    "-13:59",
    "CET",
    "x",
    "\t",
    "0x",
];

fn bytes(prng: &mut Prng) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..prng.below(10) {
        match prng.below(12) {
            0 => out.push(prng.below(256) as u8),
            _ => out.extend_from_slice(prng.pick(&PIECES).as_bytes()),
        }
    }
    out
}

fn types() -> Vec<SqlType> {
    let members = || ["red".into(), "1".into(), "é".into()].into();
    let kinds = [
        TypeKind::TinyInt,
        TypeKind::SmallInt,
        TypeKind::MediumInt,
        TypeKind::Int,
        TypeKind::BigInt,
        TypeKind::Decimal,
        TypeKind::Float,
        TypeKind::Double,
        TypeKind::Bit,
        TypeKind::Year,
        TypeKind::Date,
        TypeKind::Time,
        TypeKind::DateTime,
        TypeKind::Timestamp,
        TypeKind::Char,
        TypeKind::VarChar,
        TypeKind::TinyText,
        TypeKind::Text,
        TypeKind::Enum(members()),
        TypeKind::Set(members()),
        TypeKind::Json,
    ];
    let mut types = Vec::new();
    for kind in kinds {
        for (length, decimals) in [(1, 0), (4, 2), (30, 6), (65, 30)] {
            for collation in [CollationId::BINARY, CollationId::DEFAULT, CollationId(8)] {
                let unsigned = length == 30;
                let base = SqlType::new(kind.clone(), length);
                types.push(SqlType { decimals, collation, unsigned, ..base });
            }
        }
    }
    types
}

#[test]
fn readers() {
    let mut prng = Prng::new(1);
    for _ in 0..200_000 {
        let input = bytes(&mut prng);
        read_double(&input);
        read_decimal(&input);
        read_integer(&input);
        read_rounded(&input);
        parse_time(&input);
        Interval::parse(&input, IntervalUnit::DayMicrosecond);
        if let Some(parsed) = parse_date_time(&input) {
            let again = parse_date_time(parsed.value.to_text(6).as_bytes());
            assert_eq!(again.map(|again| again.value), Some(parsed.value), "{input:?}");
        }
        if let Ok(json) = Json::parse(&input) {
            assert_eq!(Json::decode(&json.encode()), Some(json), "{input:?}");
        }
        let input = String::from_utf8_lossy(&input);
        TimeZone::parse(&input);
        let _ = JsonPath::parse(&input);
    }
}

#[test]
fn stored_values_come_back() {
    let mut prng = Prng::new(2);
    let types = types();
    let zone = TimeZone::parse("Europe/Berlin").unwrap();
    let place = Place { table: "t", column: "c", row: 1 };
    for _ in 0..200_000 {
        let to = prng.pick(&types);
        let from_text = SqlType::text(10);
        let (datum, from) = match prng.below(6) {
            0 => (Datum::Int(prng.next_u64() as i64 >> prng.below(64)), SqlType::big_int()),
            1 => (Datum::UInt(prng.next_u64()), SqlType::unsigned_big_int()),
            2 => {
                let double = f64::from_bits(prng.next_u64());
                (Datum::Double(if double.is_finite() { double } else { 0.5 }), SqlType::double())
            }
            3 => {
                let unscaled = i128::from(prng.next_u64() as i64) << prng.below(60);
                let decimal = Decimal::from_unscaled(unscaled, prng.below(31) as u8).unwrap();
                (Datum::Decimal(decimal), SqlType::decimal(65, 30))
            }
            _ => (Datum::Bytes(bytes(&mut prng).into()), from_text),
        };
        let strict = prng.below(2) == 0;
        let mode = StoreMode { strict, no_zero_date: strict, ..StoreMode::default() };
        let mut problems = Problems::new();
        let mut converter = Converter { mode, zone: &zone, now: 0, problems: &mut problems };
        let stored = match converter.store(datum.clone(), &from, to, place) {
            Ok(stored) => stored,
            Err(problem) => {
                let is_json = to.kind == TypeKind::Json;
                assert!(strict || is_json, "{problem} for {datum:?} into {}", to.sql_name());
                continue;
            }
        };
        // What was stored fits: storing it again changes nothing and is worth no word.
        let mut problems = Problems::new();
        let lax = StoreMode { strict: false, no_zero_date: false, ..mode };
        let mut converter = Converter { mode: lax, zone: &zone, now: 0, problems: &mut problems };
        let again = converter.store(stored.clone(), to, to, place).unwrap();
        assert_eq!(again, stored, "{datum:?} into {}", to.sql_name());
        let is_no_member = matches!(to.kind, TypeKind::Enum(_)) && stored == Datum::text("");
        assert!(is_no_member || problems.count() == 0, "{:?} {stored:?}", problems.list());
        assert!(text(&stored, to).is_some());
        if to.kind != TypeKind::Timestamp {
            let value = to_value(&stored, to);
            let back = from_value(value.as_ref(), to);
            assert_eq!(text(&back, to), text(&stored, to), "{datum:?} into {}", to.sql_name());
        }
    }
}

#[test]
fn json_operations() {
    let mut prng = Prng::new(3);
    for _ in 0..100_000 {
        let mut values = std::iter::repeat_with(|| Json::parse(&bytes(&mut prng)).ok());
        let values: Vec<Json> = values.by_ref().take(30).flatten().collect();
        let input = bytes(&mut prng);
        let path = JsonPath::parse(&format!("${}", String::from_utf8_lossy(&input)));
        let (Some(a), Some(b), Ok(path)) = (values.first(), values.last(), path) else { continue };
        a.compare(b);
        a.contains(b);
        a.overlaps(b);
        a.extract(std::slice::from_ref(&path));
        a.search("%", None, false, &[]);
        a.to_pretty();
        let mut changed = a.clone().merge_preserve(b.clone()).merge_patch(a.clone());
        if !path.has_wildcard() {
            changed.change(&path, b.clone(), Change::Set);
            changed.append(&path, Json::Null);
            changed.insert_cell(&path, Json::Null);
            changed.remove(&path);
        }
        assert_eq!(Json::decode(&changed.encode()), Some(changed));
    }
}

#[test]
fn text_under_every_collation() {
    let mut prng = Prng::new(4);
    for _ in 0..20_000 {
        let (a, b) = (bytes(&mut prng), bytes(&mut prng));
        let id = prng.pick(&COLLATIONS).id;
        let order = collation::compare(id, &a, &b);
        assert_eq!(collation::compare(id, &b, &a), order.reverse());
        let key = |text: &[u8]| {
            let mut key = Vec::new();
            collation::sort_key(id, text, &mut key);
            key
        };
        assert_eq!(key(&a).cmp(&key(&b)), order, "{a:?} {b:?} {}", id.name());
        collation::like(id, &a, &b, Some('\\'));
        collation::find(id, &a, &b, 0);
        collation::lower(id, &collation::upper(id, &a));
        for charset in collation::Charset::ALL {
            collation::to_utf8(charset, &a);
            collation::from_utf8(charset, &b);
        }
    }
}
