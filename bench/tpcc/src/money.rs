//! Amounts in cents and rates in ten-thousandths, as whole numbers: what is compared must be exact.
//!
//! # Owns
//! Reading and writing the decimals of SQL.

/// A number with so many digits after its point, as a multiple of the last of them; none if it is
/// written otherwise.
pub(crate) fn parse(text: &str, places: usize) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > places {
        return None;
    }
    let value: i64 = format!("{whole}{fraction:0<places$}").parse().ok()?;
    Some(if negative { -value } else { value })
}

/// Cents as SQL writes them.
pub(crate) fn cents(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let amount = amount.unsigned_abs();
    format!("{sign}{}.{:02}", amount / 100, amount % 100)
}

/// Ten-thousandths as SQL writes them.
pub(crate) fn rate(value: u64) -> String {
    format!("{}.{:04}", value / 10_000, value % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_written_exactly() {
        for amount in [0, 1, 99, 100, -1, -1_000, 123_456_789] {
            assert_eq!(parse(&cents(amount), 2), Some(amount));
        }
        assert_eq!(
            (cents(-5), rate(1_234), rate(10_000)),
            ("-0.05".into(), "0.1234".into(), "1.0000".into())
        );
        assert_eq!(
            (parse("7", 2), parse("7.5", 2), parse("0.2000", 4)),
            (Some(700), Some(750), Some(2_000))
        );
        for wrong in ["", "-", ".5", "1.234", "1e3", "1.2.3", "x"] {
            assert_eq!(parse(wrong, 2), None, "{wrong}");
        }
    }
}
