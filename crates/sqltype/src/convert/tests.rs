//! Values as other kinds of values.

use super::*;

fn with<T>(convert: impl FnOnce(&mut Converter<'_>) -> T) -> (T, Vec<String>) {
    let mut problems = Problems::new();
    let zone = TimeZone::parse("+02:00").unwrap();
    let now = parse_date_time(b"2024-05-06 23:00:00").unwrap().value.unix_micros().unwrap();
    let mode = StoreMode::default();
    let mut converter = Converter { mode, zone: &zone, now, problems: &mut problems };
    let found = convert(&mut converter);
    (found, problems.take().into_iter().map(|problem| problem.message).collect())
}

fn plain() -> SqlType {
    SqlType::text(0)
}

#[test]
fn numbers() {
    let at = |text: &str| Datum::DateTime(parse_date_time(text.as_bytes()).unwrap().value);
    for (datum, double, integer) in [
        (Datum::text("12"), 12.0, 12),
        (Datum::Int(-3), -3.0, -3),
        (Datum::Double(2.5), 2.5, 2),
        (Datum::Decimal(Decimal::parse(b"2.5").unwrap()), 2.5, 3),
        (at("2024-05-06 07:08:09.6"), 20_240_506_070_809.6, 20_240_506_070_810),
        (Datum::Date(Date { year: 2024, month: 5, day: 6 }), 20_240_506.0, 20_240_506),
        (Datum::Time(Time { micros: -3_600_500_000 }), -10_000.5, -10_001),
        (Datum::Json(b"true".as_slice().into()), 1.0, 1),
        (Datum::Json(b"\"7\"".as_slice().into()), 7.0, 7),
    ] {
        assert_eq!(with(|c| c.double(&datum, &plain())), (Some(double), vec![]), "{datum:?}");
        assert_eq!(with(|c| c.integer(&datum, &plain())), (Some(integer), vec![]), "{datum:?}");
    }
    let warned =
        |kind: &str, text: &str| vec![format!("Truncated incorrect {kind} value: '{text}'")];
    let text = Datum::text("1.9x");
    assert_eq!(with(|c| c.double(&text, &plain())), (Some(1.9), warned("DOUBLE", "1.9x")));
    assert_eq!(with(|c| c.integer(&text, &plain())), (Some(1), warned("INTEGER", "1.9x")));
    let expected = Decimal::parse(b"1.9").unwrap();
    assert_eq!(with(|c| c.decimal(&text, &plain())), (Some(expected), warned("DECIMAL", "1.9x")));
    assert_eq!(with(|c| c.double(&Datum::text(""), &plain())).1, warned("DOUBLE", ""));
    let (zero, problems) = with(|c| c.double(&Datum::Json(b"[1]".as_slice().into()), &plain()));
    assert_eq!((zero, problems.len()), (Some(0.0), 1));
    let members = ["x".into(), "5".into()].into();
    let of_enum = SqlType::new(TypeKind::Enum(members), 0);
    assert_eq!(with(|c| c.integer(&Datum::text("5"), &of_enum)), (Some(2), vec![]));
    assert_eq!(with(|c| c.double(&Datum::Null, &plain())), (None, vec![]));
}

#[test]
fn dates_and_times() {
    let shown = |datum: Datum| with(|c| c.date_time(&datum, &plain()).map(|at| at.to_text(1)));
    let whole = |text: &str| (Some(text.to_owned()), vec![]);
    assert_eq!(shown(Datum::text("2024-05-06 07:08:09.5")), whole("2024-05-06 07:08:09.5"));
    assert_eq!(shown(Datum::Int(240_506)), whole("2024-05-06 00:00:00.0"));
    assert_eq!(shown(Datum::Double(20_240_506_070_809.5)), whole("2024-05-06 07:08:09.5"));
    assert_eq!(shown(Datum::text("2024-05-06 07:08:09+00:30")), whole("2024-05-06 08:38:09.0"));
    // It is already tomorrow here.
    assert_eq!(shown(Datum::Time(Time { micros: -SECOND })), whole("2024-05-06 23:59:59.0"));
    let warning = |text: &str| (None, vec![format!("Incorrect datetime value: '{text}'")]);
    assert_eq!(shown(Datum::text("x")), warning("x"));
    assert_eq!(shown(Datum::text("0000-00-00")), warning("0000-00-00"));
    assert_eq!(shown(Datum::Int(20_241_301)), warning("20241301"));
    let (found, problems) = shown(Datum::text("2024-05-06x"));
    assert_eq!(found.unwrap(), "2024-05-06 00:00:00.0");
    assert_eq!(problems, ["Truncated incorrect datetime value: '2024-05-06x'"]);
    let fuzzy = with(|c| c.fuzzy_date_time(&Datum::text("2024-00-00"), &plain()));
    assert_eq!((fuzzy.0.unwrap().date.year, fuzzy.1.len()), (2024, 0));
    let time = |datum: Datum| with(|c| c.time(&datum, &plain()).map(|time| time.to_text(2)));
    assert_eq!(time(Datum::text("1:2:3.456")), whole("01:02:03.45"));
    assert_eq!(time(Datum::Int(-12)), whole("-00:00:12.00"));
    let cut = vec!["Truncated incorrect time value: '900:00:00'".to_owned()];
    assert_eq!(time(Datum::text("900:00:00")), (Some("838:59:59.00".to_owned()), cut));
    assert_eq!(time(Datum::text("abc")).0, None);
}

#[test]
fn text_has_the_form_of_its_type() {
    let shown = |datum: &Datum, sql_type: &SqlType| {
        text(datum, sql_type).map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let zerofill = SqlType { unsigned: true, zerofill: true, ..SqlType::new(TypeKind::Int, 5) };
    assert_eq!(shown(&Datum::UInt(42), &zerofill).unwrap(), "00042");
    let bit = SqlType::new(TypeKind::Bit, 9);
    assert_eq!(text(&Datum::UInt(0x141), &bit).unwrap().as_ref(), b"\x01A");
    let year = SqlType::new(TypeKind::Year, 4);
    assert_eq!(shown(&Datum::Int(5), &year).unwrap(), "0005");
    assert_eq!(shown(&Datum::Null, &year), None);
}
