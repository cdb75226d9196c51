//! Decimals against MySQL's documented results, and against 128-bit arithmetic.

use stdx::Prng;

use super::*;

fn d(text: &str) -> Decimal {
    Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a decimal"))
}

fn shown(result: Result<Decimal, DecimalOverflow>) -> String {
    result.map_or_else(|_| "overflow".into(), |decimal| decimal.to_string())
}

#[test]
fn text_there_and_back() {
    for text in ["0", "1", "-1", "0.5", "-0.05", "123.4500", "99999999999999999999999999999999999"]
    {
        assert_eq!(d(text).to_string(), text);
    }
    let longest = "9".repeat(65);
    assert_eq!(d(&longest).to_string(), longest);
    for (text, expected) in [
        (".5", "0.5"),
        ("5.", "5"),
        ("+7", "7"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("1e3", "1000"),
        ("1.25e1", "12.5"),
        ("125e-2", "1.25"),
        (" 8 ", "8"),
        ("0.1234567890123456789012345678905", "0.123456789012345678901234567891"),
    ] {
        assert_eq!(d(text).to_string(), expected, "{text}");
    }
    for text in ["", "-", ".", "x", "1x", "e5"] {
        assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Decimal::parse("1".repeat(66).as_bytes()), None);
    let (number, length) = Decimal::parse_prefix(b"12.5abc").unwrap();
    assert_eq!((shown(number), length), ("12.5".into(), 4));
}

#[test]
fn arithmetic_has_mysqls_scales() {
    assert_eq!(shown(d("1.5").add(d("2.25"))), "3.75");
    assert_eq!(shown(d("1.5").subtract(d("2.25"))), "-0.75");
    assert_eq!(shown(d("1.50").subtract(d("1.5"))), "0.00");
    assert_eq!(shown(d("1.5").multiply(d("-2.25"))), "-3.375");
    assert_eq!(shown(d("10").divide(d("3"), 4).unwrap()), "3.333333333");
    assert_eq!(shown(d("-20").divide(d("3"), 4).unwrap()), "-6.666666666");
    assert_eq!(shown(d("1.00").divide(d("8"), 4).unwrap()), "0.125000000");
    assert_eq!(d("1").divide(d("0.0"), 4), None);
    assert_eq!(d("-7.5").remainder(d("2")).unwrap().to_string(), "-1.5");
    let large = d(&"9".repeat(65));
    assert_eq!(large.add(d("1")), Err(DecimalOverflow));
    assert_eq!(large.multiply(large), Err(DecimalOverflow));
    assert_eq!(shown(large.divide(large, 4).unwrap()), "1.000000000");
    // A word of nine digits is enough for the four, and is cut off.
    assert_eq!(shown(d("17").divide(d("995.585"), 4).unwrap()), "0.017075387");
    let third = shown(d("1").divide(d("3"), 30).unwrap());
    assert_eq!(third, format!("0.{}", "3".repeat(30)));
}

#[test]
fn rounding_is_half_away_from_zero() {
    for (text, scale, rounded, cut) in [
        ("1.005", 2, "1.01", "1.00"),
        ("-1.005", 2, "-1.01", "-1.00"),
        ("2.5", 0, "3", "2"),
        ("-2.5", 0, "-3", "-2"),
        ("0.4", 0, "0", "0"),
        ("-0.4", 0, "0", "0"),
        ("1.5", 3, "1.500", "1.500"),
    ] {
        assert_eq!(d(text).round(scale).to_string(), rounded, "{text}");
        assert_eq!(d(text).truncate(scale).to_string(), cut, "{text}");
    }
    assert_eq!(d("1550.7").round_before_point(2).to_string(), "1600");
    assert_eq!(d("49").round_before_point(2).to_string(), "0");
    assert_eq!(d("1599").truncate_before_point(2).to_string(), "1500");
    assert_eq!(
        (d("-1.2").floor().to_string(), d("-1.2").ceiling().to_string()),
        ("-2".into(), "-1".into())
    );
    assert_eq!(
        (d("1.2").floor().to_string(), d("1.2").ceiling().to_string()),
        ("1".into(), "2".into())
    );
}

#[test]
fn conversions() {
    assert_eq!(d("-12.5").to_i128(), Some(-13));
    assert_eq!(shown(Decimal::from_f64(0.1)), "0.1");
    assert_eq!(shown(Decimal::from_f64(-1.5e20)), "-150000000000000000000");
    assert_eq!(shown(Decimal::from_f64(1e-40)), format!("0.{}", "0".repeat(30)));
    assert!(Decimal::from_f64(1e300).is_err());
    assert_eq!(d("3.25").to_f64(), 3.25);
    assert_eq!(Decimal::largest(4, 2).to_string(), "99.99");
    assert_eq!((d("0.05").precision(), d("12.05").precision(), d("0").precision()), (2, 4, 1));
}

#[test]
fn encodings_compare_as_numbers() {
    let texts = ["-99999.99", "-1.00", "-0.01", "0.00", "0.01", "1.00", "1.01", "99999.99"];
    let encoded: Vec<_> = texts.map(|text| d(text).encode(7, 2).unwrap()).into();
    assert!(encoded.windows(2).all(|pair| pair[0] < pair[1]));
    for (text, bytes) in texts.iter().zip(&encoded) {
        assert_eq!(bytes.len(), usize::from(Decimal::encoded_size(7)));
        assert_eq!(Decimal::decode(bytes, 2).to_string(), *text);
    }
    assert_eq!(d("100000").encode(7, 2), None);
    for precision in 1..=65 {
        let largest = Decimal::largest(precision, 0);
        for number in [largest, largest.negate()] {
            let bytes = number.encode(precision, 0).unwrap();
            assert_eq!(Decimal::decode(&bytes, 0), number, "precision {precision}");
        }
    }
}

#[test]
fn random_numbers_agree_with_128_bits() {
    let mut prng = Prng::new(7);
    for _ in 0..20_000 {
        let mut draw = || (prng.next_u64() as i64 >> prng.below(60)) as i128;
        let (a, b) = (draw(), draw());
        let (x, y) = (Decimal::from(a), Decimal::from(b));
        assert_eq!(x.add(y).unwrap().to_i128(), Some(a + b));
        assert_eq!(x.subtract(y).unwrap().to_i128(), Some(a - b));
        assert_eq!(x.multiply(y).unwrap().to_i128(), Some(a * b));
        assert_eq!(x.compare(&y), a.cmp(&b));
        if b != 0 {
            assert_eq!(x.remainder(y).unwrap().to_i128(), Some(a % b));
        }
        assert_eq!(d(&x.to_string()), x);
    }
}
