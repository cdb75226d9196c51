//! What columns make of values, against MySQL's documented rules.

use super::*;
use crate::decimal::Decimal;
use crate::problem::Problems;
use crate::temporal::{DateTime, parse_date_time};
use crate::zone::TimeZone;
use collation::CollationId;

const PLACE: Place<'static> = Place { table: "t", column: "a", row: 1 };

/// The stored value as text, and the problems as `code text`, or the error.
fn store(datum: &Datum, from: &SqlType, to: &SqlType, mode: StoreMode) -> (String, Vec<String>) {
    let mut problems = Problems::new();
    let zone = TimeZone::parse("Europe/Berlin").unwrap();
    let now = parse_date_time(b"2024-05-06 12:00:00").unwrap().value.unix_micros().unwrap();
    let mut converter = Converter { mode, zone: &zone, now, problems: &mut problems };
    match converter.store(datum.clone(), from, to, PLACE) {
        Ok(stored) => {
            let shown = crate::text(&stored, to)
                .map_or("NULL".into(), |text| String::from_utf8_lossy(&text).into_owned());
            (shown, problems.take().iter().map(|problem| problem.code.to_string()).collect())
        }
        Err(problem) => ("error".to_owned(), vec![format!("{} {}", problem.code, problem.message)]),
    }
}

const LAX: StoreMode = StoreMode {
    strict: false,
    no_zero_date: true,
    no_zero_in_date: true,
    truncate_fractions: false,
};

/// One case: the strict outcome (a value or the start of an error), and the lax value and warnings.
fn check(to: &SqlType, datum: Datum, strict: &str, lax: &str, warnings: &[&str]) {
    let from = match datum {
        Datum::Bytes(_) => SqlType::text(0),
        Datum::Time(_) => SqlType { decimals: 6, ..SqlType::new(TypeKind::Time, 0) },
        Datum::DateTime(_) => SqlType { decimals: 6, ..SqlType::new(TypeKind::DateTime, 0) },
        Datum::Date(_) => SqlType::new(TypeKind::Date, 0),
        _ => SqlType::new(TypeKind::BigInt, 20),
    };
    let (value, problems) = store(&datum, &from, to, StoreMode::default());
    let outcome = if value == "error" { &problems[0] } else { &value };
    assert!(
        if value == "error" { outcome.starts_with(strict) } else { outcome == strict },
        "{datum:?} into {}: {outcome} instead of {strict}",
        to.sql_name()
    );
    let (value, problems) = store(&datum, &from, to, LAX);
    assert_eq!(value, lax, "{datum:?} into {}", to.sql_name());
    assert_eq!(problems, warnings, "{datum:?} into {}", to.sql_name());
}

fn text(text: &str) -> Datum {
    Datum::text(text)
}

fn decimal(text: &str) -> Datum {
    Datum::Decimal(Decimal::parse(text.as_bytes()).unwrap())
}

fn kind(kind: TypeKind) -> SqlType {
    SqlType::new(kind, 0)
}

#[test]
fn integers() {
    let tiny = kind(TypeKind::TinyInt);
    let int = kind(TypeKind::Int);
    let unsigned = SqlType { unsigned: true, ..kind(TypeKind::BigInt) };
    check(&tiny, Datum::Int(127), "127", "127", &[]);
    let error = "1264 Out of range value for column 'a' at row 1";
    check(&tiny, Datum::Int(128), error, "127", &["1264"]);
    check(&tiny, Datum::Int(-129), error, "-128", &["1264"]);
    check(&unsigned, Datum::Int(-1), error, "0", &["1264"]);
    check(&unsigned, Datum::UInt(u64::MAX), "18446744073709551615", "18446744073709551615", &[]);
    check(&int, Datum::UInt(u64::MAX), error, "2147483647", &["1264"]);
    check(&int, text("12"), "12", "12", &[]);
    check(&int, text(" -7 "), "-7", "-7", &[]);
    check(&int, text("1.5"), "2", "2", &[]);
    check(&int, text("1e2"), "100", "100", &[]);
    let error = "1366 Incorrect integer value: 'abc' for column 'a' at row 1";
    check(&int, text("abc"), error, "0", &["1366"]);
    check(&int, text(""), "1366 Incorrect integer value: ''", "0", &["1366"]);
    check(&int, text("12abc"), "1265 Data truncated for column 'a' at row 1", "12", &["1265"]);
    check(&int, text("99999999999"), "1264", "2147483647", &["1264"]);
    check(&int, Datum::Double(2.5), "2", "2", &[]);
    check(&int, Datum::Double(-3.5), "-4", "-4", &[]);
    check(&int, Datum::Double(1e30), "1264", "2147483647", &["1264"]);
    check(&int, decimal("2.5"), "3", "3", &[]);
    check(&unsigned, decimal("-0.4"), "1264", "0", &["1264"]);
    check(&unsigned, Datum::Double(-0.4), "0", "0", &[]);
    let date = Date { year: 2024, month: 5, day: 6 };
    check(&int, Datum::Date(date), "20240506", "20240506", &[]);
    check(&int, Datum::Json(b"\"5\"".as_slice().into()), "5", "5", &[]);
    check(&int, Datum::Null, "NULL", "NULL", &[]);
}

#[test]
fn floats_and_decimals() {
    let double = SqlType::double();
    let float = SqlType { decimals: SqlType::NOT_FIXED, ..kind(TypeKind::Float) };
    let fixed = SqlType { decimals: 2, ..SqlType::new(TypeKind::Double, 5) };
    let price = SqlType::decimal(5, 2);
    check(&double, text("1.5e3"), "1500", "1500", &[]);
    check(&double, text("x"), "1265 Data truncated for column 'a' at row 1", "0", &["1265"]);
    check(&double, text("1x"), "1265", "1", &["1265"]);
    check(&double, text("1e999"), "1264", "1.7976931348623157e308", &["1264"]);
    check(&float, Datum::Double(1e39), "1264", "3.40282e38", &["1264"]);
    check(&float, Datum::Double(0.1), "0.1", "0.1", &[]);
    check(&fixed, Datum::Double(1.005), "1.00", "1.00", &[]);
    check(&fixed, Datum::Double(1000.0), "1264", "999.99", &["1264"]);
    check(&price, decimal("1.5"), "1.50", "1.50", &[]);
    check(&price, decimal("1.005"), "1.01", "1.01", &["1265"]);
    check(&price, decimal("1000"), "1264", "999.99", &["1264"]);
    check(&price, decimal("999.995"), "1264", "999.99", &["1264"]);
    check(&price, decimal("-1000"), "1264", "-999.99", &["1264"]);
    check(&price, Datum::Double(0.1), "0.10", "0.10", &[]);
    check(&price, Datum::Double(1.006), "1.01", "1.01", &[]);
    check(&price, Datum::Double(1e200), "1264", "999.99", &["1264"]);
    check(&price, text("abc"), "1366 Incorrect decimal value: 'abc'", "0.00", &["1366"]);
    check(&price, text("1.2x"), "1265", "1.20", &["1265"]);
    check(&price, text("1.2345"), "1.23", "1.23", &["1265"]);
    check(&SqlType { unsigned: true, ..price }, decimal("-1"), "1264", "0.00", &["1264"]);
}

#[test]
fn years_and_bits() {
    let year = kind(TypeKind::Year);
    for (datum, stored) in [
        (Datum::Int(0), "0000"),
        (text("0"), "2000"),
        (text("00"), "2000"),
        (text("0000"), "0000"),
        (Datum::Int(1), "2001"),
        (text("69"), "2069"),
        (Datum::Int(70), "1970"),
        (Datum::Int(2155), "2155"),
        (Datum::Date(Date { year: 1999, month: 1, day: 1 }), "1999"),
    ] {
        check(&year, datum, stored, stored, &[]);
    }
    check(&year, Datum::Int(1900), "1264", "0000", &["1264"]);
    check(&year, Datum::Int(2156), "1264", "0000", &["1264"]);
    check(&year, text("abc"), "1366 Incorrect integer value", "0000", &["1366"]);
    let bit = SqlType::new(TypeKind::Bit, 12);
    check(&bit, Datum::Int(0x141), "\u{1}A", "\u{1}A", &[]);
    check(&bit, text("A"), "\0A", "\0A", &[]);
    check(&bit, Datum::Int(4096), "1406 Data too long", "\u{F}\u{FFFD}", &["1264"]);
    check(&bit, text("AAA"), "1406", "\u{F}\u{FFFD}", &["1264"]);
}

#[test]
fn texts() {
    let short = SqlType::text(3);
    let char = SqlType { collation: CollationId::DEFAULT, ..SqlType::new(TypeKind::Char, 3) };
    let latin1 = SqlType { collation: CollationId::LATIN1_SWEDISH_CI, ..short.clone() };
    let bytes = SqlType::binary(3);
    let binary = SqlType::new(TypeKind::Char, 3);
    let tiny = SqlType { collation: CollationId::DEFAULT, ..kind(TypeKind::TinyText) };
    let long = "1406 Data too long for column 'a' at row 1";
    check(&short, text("äöü"), "äöü", "äöü", &[]);
    check(&short, text("äöüx"), long, "äöü", &["1265"]);
    check(&short, text("ab   "), "ab ", "ab ", &["1265"]);
    check(&short, text("abc x"), long, "abc", &["1265"]);
    check(&short, Datum::Int(42), "42", "42", &[]);
    check(&short, Datum::Double(1.5), "1.5", "1.5", &[]);
    check(&char, text("a     "), "a", "a", &[]);
    check(&char, text("abcd"), long, "abc", &["1265"]);
    check(&latin1, text("é€"), "é€", "é€", &[]);
    let error = "1366 Incorrect string value: '\\xF0\\x9F\\x98\\x80' for column 'a' at row 1";
    check(&latin1, text("a😀"), error, "a?", &["1366"]);
    let from_bytes = Datum::Bytes(b"a\xFFb".as_slice().into());
    check(&short, from_bytes.clone(), "1366 Incorrect string value: '\\xFFb'", "a?b", &["1366"]);
    check(&bytes, from_bytes, "a\u{FFFD}b", "a\u{FFFD}b", &[]);
    check(&bytes, text("abcd"), long, "abc", &["1265"]);
    check(&binary, text("a"), "a\0\0", "a\0\0", &[]);
    check(&tiny, text(&"x".repeat(255)), &"x".repeat(255), &"x".repeat(255), &[]);
    let cut = "é".repeat(127);
    check(&tiny, text(&"é".repeat(128)), long, &cut, &["1265"]);
    let wide = SqlType::text(20_000);
    check(&wide, text(&"😀".repeat(20_000)), long, &"😀".repeat(16_383), &["1265"]);
}

#[test]
fn members_of_enums_and_sets() {
    let members = || ["red".into(), "Green".into(), "7".into()].into();
    let one = SqlType { collation: CollationId::DEFAULT, ..kind(TypeKind::Enum(members())) };
    let many = SqlType { collation: CollationId::DEFAULT, ..kind(TypeKind::Set(members())) };
    check(&one, text("red"), "red", "red", &[]);
    check(&one, text("GREEN "), "Green", "Green", &[]);
    check(&one, text("2"), "Green", "Green", &[]);
    check(&one, text("7"), "7", "7", &[]);
    check(&one, Datum::Int(3), "7", "7", &[]);
    check(&one, Datum::Int(0), "1265 Data truncated", "", &["1265"]);
    check(&one, Datum::Int(4), "1265", "", &["1265"]);
    check(&one, text("blue"), "1265", "", &["1265"]);
    check(&one, text(""), "1265", "", &["1265"]);
    check(&many, text("green,red,red"), "red,Green", "red,Green", &[]);
    check(&many, text(""), "", "", &[]);
    check(&many, Datum::Int(5), "red,7", "red,7", &[]);
    check(&many, Datum::Int(9), "1265", "red", &["1265"]);
    check(&many, text("red,blue"), "1265", "red", &["1265"]);
    check(&many, text("3"), "red,Green", "red,Green", &[]);
    let sixty_four: Box<[Box<str>]> = (0..64).map(|n| format!("m{n}").into()).collect();
    let full =
        SqlType { collation: CollationId::DEFAULT, ..kind(TypeKind::Set(sixty_four.into())) };
    check(&full, text("m63"), "m63", "m63", &[]);
}

#[test]
fn dates_and_times() {
    let date = kind(TypeKind::Date);
    let at = |digits| SqlType { decimals: digits, ..kind(TypeKind::DateTime) };
    let stamp = kind(TypeKind::Timestamp);
    let time = |digits| SqlType { decimals: digits, ..kind(TypeKind::Time) };
    check(&date, text("2024-05-06"), "2024-05-06", "2024-05-06", &[]);
    check(&date, Datum::Int(20_240_506), "2024-05-06", "2024-05-06", &[]);
    check(&date, text("2024-05-06 07:08:09"), "2024-05-06", "2024-05-06", &["1265"]);
    let error = "1292 Incorrect date value: 'abc' for column 'a' at row 1";
    check(&date, text("abc"), error, "0000-00-00", &["1265"]);
    check(&date, text("2024-02-30"), "1292 Incorrect date", "0000-00-00", &["1265"]);
    check(&date, text("0000-00-00"), "1292 Incorrect date", "0000-00-00", &["1264"]);
    check(&date, text("2024-00-01"), "1292 Incorrect date", "0000-00-00", &["1264"]);
    let now = "2024-05-06 10:00:00";
    check(&at(0), Datum::Time(crate::Time { micros: 36_000_000_000 }), now, now, &[]);
    check(&at(0), text("2024-05-06 23:59:59.5"), "2024-05-07 00:00:00", "2024-05-07 00:00:00", &[]);
    check(
        &at(3),
        text("20240506070809.1236"),
        "2024-05-06 07:08:09.124",
        "2024-05-06 07:08:09.124",
        &[],
    );
    check(
        &at(2),
        decimal("20240506070809.126"),
        "2024-05-06 07:08:09.13",
        "2024-05-06 07:08:09.13",
        &[],
    );
    let local = "2024-05-06 09:08:09";
    check(&at(0), text("2024-05-06 07:08:09+00:00"), local, local, &[]);
    let error = "1292 Incorrect datetime value: '2024-05-06 x' for column 'a' at row 1";
    check(&at(0), text("2024-05-06 x"), error, "2024-05-06 00:00:00", &["1265"]);
    check(&at(0), text("9999-12-31 23:59:59.9"), "1292", "0000-00-00 00:00:00", &["1264"]);
    check(&stamp, text("2024-07-01 00:00:00"), "2024-07-01 00:00:00", "2024-07-01 00:00:00", &[]);
    check(&stamp, text("2038-01-19 04:14:07"), "2038-01-19 04:14:07", "2038-01-19 04:14:07", &[]);
    check(&stamp, text("2038-01-19 04:14:08"), "1292", "0000-00-00 00:00:00", &["1264"]);
    check(&stamp, text("1970-01-01 01:00:00"), "1292", "0000-00-00 00:00:00", &["1264"]);
    check(&stamp, text("2024-03-31 02:30:00"), "1292", "2024-03-31 03:00:00", &["1299"]);
    check(&time(0), text("10:11:12.5"), "10:11:13", "10:11:13", &[]);
    check(&time(0), Datum::Int(101_112), "10:11:12", "10:11:12", &[]);
    check(&time(1), text("-1 10:11:12.55"), "-34:11:12.6", "-34:11:12.6", &[]);
    check(&time(0), text("900:00:00"), "1292 Incorrect time value", "838:59:59", &["1264"]);
    check(
        &time(0),
        text("10:61:00"),
        "1292 Incorrect time value: '10:61:00'",
        "00:00:00",
        &["1265"],
    );
    check(&time(0), text("2024-05-06 07:08:09"), "07:08:09", "07:08:09", &[]);
    let moment = DateTime { hour: 7, ..parse_date_time(b"2024-05-06").unwrap().value };
    check(&time(0), Datum::DateTime(moment), "07:00:00", "07:00:00", &["1265"]);
    let zeros = StoreMode { no_zero_date: false, no_zero_in_date: false, ..StoreMode::default() };
    for text in ["0000-00-00", "2024-00-00"] {
        let found = store(&Datum::text(text), &SqlType::text(0), &date, zeros);
        assert_eq!(found, (text.to_owned(), vec![]));
    }
    let cutting = StoreMode { truncate_fractions: true, ..StoreMode::default() };
    let found = store(&text("2024-05-06 07:08:09.9"), &SqlType::text(0), &at(0), cutting);
    assert_eq!(found.0, "2024-05-06 07:08:09");
}

#[test]
fn json_columns() {
    let json = kind(TypeKind::Json);
    check(&json, text("{\"b\":1,\"a\":[]}"), "{\"a\": [], \"b\": 1}", "{\"a\": [], \"b\": 1}", &[]);
    let refused = |datum: Datum, from: &SqlType| store(&datum, from, &json, LAX).1.remove(0);
    assert_eq!(
        refused(text("[1"), &SqlType::text(0)),
        "3140 Invalid JSON text: \"Missing a comma or ] after an array element.\" at position 2 in \
         value for column 't.a'."
    );
    assert!(refused(Datum::Int(1), &SqlType::big_int()).contains("not a JSON text, may need CAST"));
    assert!(refused(text("1"), &SqlType::binary(0)).starts_with("3144 "));
    assert!(refused(text(&"[".repeat(200)), &SqlType::text(0)).starts_with("3157 "));
}
