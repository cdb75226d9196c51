//! Temporal values against MySQL's documented examples.

use super::*;

fn date(text: &str) -> Date {
    let parsed = parse_date_time(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a date"));
    parsed.value.date
}

fn at(text: &str) -> DateTime {
    parse_date_time(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a date")).value
}

#[test]
fn dates_in_every_form() {
    for (text, expected) in [
        ("2024-05-06", "2024-05-06 00:00:00.000000"),
        ("24-5-6", "2024-05-06 00:00:00.000000"),
        ("99.12.31", "1999-12-31 00:00:00.000000"),
        ("2024/05/06 07:08:09", "2024-05-06 07:08:09.000000"),
        ("2024-05-06T07:08:09.5", "2024-05-06 07:08:09.500000"),
        ("2024-05-06 07:08", "2024-05-06 07:08:00.000000"),
        ("20240506", "2024-05-06 00:00:00.000000"),
        ("240506", "2024-05-06 00:00:00.000000"),
        ("20240506070809", "2024-05-06 07:08:09.000000"),
        ("240506070809.25", "2024-05-06 07:08:09.250000"),
        ("20240506T070809", "2024-05-06 07:08:09.000000"),
        ("2024-05-06 23:59:59.9999999", "2024-05-07 00:00:00.000000"),
        ("0000-00-00", "0000-00-00 00:00:00.000000"),
        ("2024-00-10", "2024-00-10 00:00:00.000000"),
        ("00-00-00", "0000-00-00 00:00:00.000000"),
        ("1-2-3", "0001-02-03 00:00:00.000000"),
        ("24123", "2024-12-03 00:00:00.000000"),
    ] {
        assert_eq!(at(text).to_text(6), expected, "{text}");
    }
    for text in [
        "20240506 07:08:09",
        "240506.5",
        "8390000",
        "",
        "x",
        "2024-13-01",
        "2023-02-29",
        "2024-05-06 25:00:00",
        "2024",
        "1234",
    ] {
        assert_eq!(parse_date_time(text.as_bytes()), None, "{text}");
    }
    let offset = parse_date_time(b"2024-05-06 07:08:09+05:30").unwrap();
    assert_eq!((offset.offset, offset.garbage), (Some(330), false));
    assert!(parse_date_time(b"2024-05-06 nonsense").unwrap().garbage);
}

#[test]
fn times_in_every_form() {
    for (text, expected) in [
        ("10:11:12", "10:11:12.000000"),
        ("-1 10:11:12.5", "-34:11:12.500000"),
        ("10:11", "10:11:00.000000"),
        ("101112", "10:11:12.000000"),
        ("12", "00:00:12.000000"),
        ("1112", "00:11:12.000000"),
        ("838:59:59", "838:59:59.000000"),
        ("2024-05-06 07:08:09", "07:08:09.000000"),
        ("2 03", "51:00:00.000000"),
        ("2 3", "00:00:02.000000"),
    ] {
        let parsed = parse_time(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a time"));
        assert_eq!(parsed.value.to_text(6), expected, "{text}");
    }
    for text in ["839:00:00", "10:60:00", "x", "-", "1e3", "2024-05-06 24:00:00"] {
        assert_eq!(parse_time(text.as_bytes()), None, "{text}");
    }
    assert_eq!(time_of_number(-101112).unwrap().to_text(0), "-10:11:12");
    assert_eq!(
        date_time_of_number(20_240_506_070_809).unwrap().0.to_text(0),
        "2024-05-06 07:08:09"
    );
    assert_eq!(date_time_of_number(240_506).unwrap().0.date.to_string(), "2024-05-06");
    assert_eq!(date_time_of_number(13), None);
}

#[test]
fn day_numbers_are_regular() {
    assert_eq!(date("0001-01-01").day_number(), 366);
    assert_eq!(date("0000-01-01").day_number(), 1);
    assert_eq!(date("0000-02-28").day_number(), 59);
    assert_eq!(date("0000-03-01").day_number(), 60);
    assert_eq!(date("1995-05-01").day_number(), 728_779);
    assert_eq!(date("2007-10-07").day_number(), 733_321);
    assert_eq!(Date::from_day_number(730_669).unwrap().to_string(), "2000-07-03");
    let mut day = date("0001-01-01");
    for number in 366..=3_652_424 {
        assert_eq!(Date::from_day_number(number), Some(day));
        assert_eq!(day.day_number(), number);
        day = match day {
            Date { year, month: 12, day: 31 } => Date { year: year + 1, month: 1, day: 1 },
            Date { year, month, day } if day == days_of_month(year, month) => {
                Date { year, month: month + 1, day: 1 }
            }
            Date { year, month, day } => Date { year, month, day: day + 1 },
        };
    }
    assert_eq!(Date::from_day_number(3_652_425), None);
    assert_eq!(at("1970-01-02 00:00:00.5").unix_micros(), Some(DAY + SECOND / 2));
    assert_eq!(DateTime::from_unix_micros(-1).to_text(6), "1969-12-31 23:59:59.999999");
}

#[test]
fn weeks_in_all_modes() {
    assert_eq!(date("2008-02-20").week(0).1, 7);
    assert_eq!(date("2008-02-20").week(1).1, 8);
    assert_eq!(date("2008-12-31").week(1).1, 53);
    assert_eq!(date("2000-01-01").week(0), (2000, 0));
    assert_eq!(date("2000-01-01").week(2), (1999, 52));
    assert_eq!(date("1987-01-01").week(2), (1986, 52));
    // ISO 8601 is mode 3.
    for (text, expected) in [
        ("2005-01-01", (2004, 53)),
        ("2005-01-02", (2004, 53)),
        ("2005-12-31", (2005, 52)),
        ("2007-01-01", (2007, 1)),
        ("2008-12-29", (2009, 1)),
        ("2010-01-03", (2009, 53)),
    ] {
        assert_eq!(date(text).week(3), expected, "{text}");
    }
    assert_eq!(date("1998-02-05").weekday(), 3);
    assert_eq!(date("2007-02-03").day_of_year(), 34);
}

#[test]
fn months_and_rounding() {
    assert_eq!(date("2018-01-31").add_months(1).unwrap().to_string(), "2018-02-28");
    assert_eq!(date("2018-01-31").add_months(-2).unwrap().to_string(), "2017-11-30");
    assert_eq!(date("9999-12-01").add_months(1), None);
    assert_eq!(date("2004-02-05").last_day().unwrap().day, 29);
    assert_eq!(
        at("2024-12-31 23:59:59.995").round(2).unwrap().to_text(2),
        "2025-01-01 00:00:00.00"
    );
    assert_eq!(Time { micros: -1_500_000 }.round(0).to_text(0), "-00:00:02");
}
