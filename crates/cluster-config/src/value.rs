//! Values of parameters: read from text, checked against the table, written back.
//!
//! # Guarantees
//! What is refused is refused with the name, the limit and what to write instead. A value that was
//! read is written so that reading gives it back.

use crate::host;
use crate::parameter::{Kind, Parameter, Unit};
use crate::problem::quoted;
use crate::threads::{CpuSet, ThreadConfig};

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number in the unit of the parameter.
    Number(u64),
    /// Text, one of some words in the table's spelling, or a list in canonical form.
    Text(String),
}

impl Value {
    /// The value as `config.ini` and the canonical text say it.
    pub fn text(&self) -> String {
        match self {
            Value::Flag(flag) => u8::from(*flag).to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        }
    }

    /// The value for people: sizes with their unit.
    pub fn readable(&self, unit: Unit) -> String {
        match self {
            Value::Number(number) => readable(*number, unit),
            Value::Flag(_) | Value::Text(_) => self.text(),
        }
    }
}

/// A number with the largest unit that divides it.
pub fn readable(number: u64, unit: Unit) -> String {
    let suffix = match unit {
        Unit::Count | Unit::Bytes => "",
        Unit::Microseconds => " µs",
        Unit::Milliseconds => " ms",
        Unit::Seconds => " s",
        Unit::Percent => " %",
    };
    if unit == Unit::Bytes && number > 0 {
        for (shift, letter) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
            if number.trailing_zeros() >= shift {
                return format!("{}{letter}", number >> shift);
            }
        }
    }
    format!("{number}{suffix}")
}

/// Reads a value; what is wrong with it otherwise, as a sentence that begins with the name.
pub(crate) fn parse(parameter: &Parameter, text: &str) -> Result<Value, String> {
    let name = parameter.name;
    let given = quoted(text);
    if text.is_empty() && !matches!(parameter.kind, Kind::Text { .. }) {
        return Err(format!("{name} has no value; give one, or leave the line out"));
    }
    match parameter.kind {
        Kind::Flag { .. } => flag(text)
            .map(Value::Flag)
            .ok_or_else(|| format!("{name}={given} is neither yes nor no; write 1 or 0")),
        Kind::Number { unit, min, max, .. } => {
            let number = number(text).map_err(|why| format!("{name}={given} {why}"))?;
            if (min..=max).contains(&number) {
                return Ok(Value::Number(number));
            }
            let bound = if number < min { min } else { max };
            let side = if number < min { "least" } else { "most" };
            let bound = readable(bound, unit);
            Err(format!("{name}={given} is out of range; write {bound} at {side}"))
        }
        Kind::Choice { values, .. } => {
            let is = |text: &str| values.iter().find(|value| value.eq_ignore_ascii_case(text));
            // Some are yes or no and more.
            let value = is(text).or_else(|| is(&u8::from(flag(text)?).to_string()));
            value.map(|value| Value::Text((*value).to_string())).ok_or_else(|| {
                format!("{name}={given} is not known; write one of {}", values.join(", "))
            })
        }
        Kind::Text { .. } if text.len() > TEXT_SIZE_MAX => {
            Err(format!("{name} has {} bytes; write {TEXT_SIZE_MAX} at most", text.len()))
        }
        Kind::Text { .. } => Ok(Value::Text(text.to_string())),
        Kind::Host { .. } => match host::check(text) {
            Ok(()) => Ok(Value::Text(text.to_string())),
            Err(why) => Err(format!("{name}={given} {why}")),
        },
        Kind::Threads => match ThreadConfig::parse(text) {
            Ok(threads) => Ok(Value::Text(threads.to_string())),
            Err(why) => Err(format!("{name}: {why}")),
        },
        Kind::Cpus => match CpuSet::parse(text) {
            Ok(cpus) => Ok(Value::Text(cpus.to_string())),
            Err(why) => Err(format!("{name}: {why}")),
        },
    }
}

fn flag(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(&["1", "y", "yes", "true", "on"]) {
        Some(true)
    } else if is(&["0", "n", "no", "false", "off"]) {
        Some(false)
    } else {
        None
    }
}

/// A number with an optional K, M, G or T for powers of 1,024.
pub(crate) fn number(text: &str) -> Result<u64, &'static str> {
    if text.starts_with('-') {
        return Err("is negative; write 0 or more");
    }
    let shift = match text.bytes().last().map(|byte| byte.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a number; write digits, with K, M or G behind them for a size");
    }
    let number: Option<u64> = digits.parse().ok();
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or("is larger than any limit")
}

/// Bytes of a text: longer than any path.
const TEXT_SIZE_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ini::SectionKind;

    fn read(name: &str, text: &str) -> Result<Value, String> {
        parse(Parameter::find(name, SectionKind::Data).unwrap(), text)
    }

    #[test]
    fn numbers() {
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("128G"), Ok(128 << 30));
        assert_eq!(number("3k"), Ok(3 << 10));
        assert_eq!(number("2t"), Ok(2 << 40));
        for text in ["", "K", "1 K", "0x10", "1.5G", "1KB", "+1", "é", "9M9"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(number("-1").is_err_and(|why| why.contains("negative")));
        assert!(number("99999999999999999999").is_err_and(|why| why.contains("larger")));
        assert!(number("99999999999999999T").is_err_and(|why| why.contains("larger")));
    }

    #[test]
    fn flags() {
        for text in ["1", "Y", "yes", "TRUE", "on"] {
            assert_eq!(read("Diskless", text), Ok(Value::Flag(true)), "{text}");
        }
        for text in ["0", "n", "No", "false", "off"] {
            assert_eq!(read("Diskless", text), Ok(Value::Flag(false)), "{text}");
        }
        let why = "Diskless=2 is neither yes nor no; write 1 or 0";
        assert_eq!(read("Diskless", "2"), Err(why.into()));
    }

    #[test]
    fn ranges() {
        assert_eq!(read("DataMemory", "128G"), Ok(Value::Number(128 << 30)));
        let why = "DataMemory=99T is out of range; write 16T at most";
        assert_eq!(read("DataMemory", "99T"), Err(why.into()));
        let why = "HeartbeatIntervalDbDb=1 is out of range; write 10 ms at least";
        assert_eq!(read("HeartbeatIntervalDbDb", "1"), Err(why.into()));
        assert!(read("DataMemory", "").is_err_and(|why| why.contains("no value")));
    }

    #[test]
    fn words_and_text() {
        let value = Value::Text("LatencyOptimisedSpinning".into());
        assert_eq!(read("SpinMethod", "latencyoptimisedspinning"), Ok(value));
        assert!(read("SpinMethod", "fast").is_err_and(|why| why.contains("StaticSpinning")));
        assert_eq!(read("DataDir", ""), Ok(Value::Text(String::new())));
        assert!(read("DataDir", &"x".repeat(5_000)).is_err());
        assert!(read("HostName", "a b").is_err());
        let threads = Value::Text("ldm={count=2,cpubind=0-1},main".into());
        assert_eq!(read("ThreadConfig", "LDM={cpubind=0,1,count=2},main={count=1}"), Ok(threads));
        assert_eq!(read("LockExecuteThreadToCPU", "3,1,2"), Ok(Value::Text("1-3".into())));
    }

    #[test]
    fn for_people() {
        assert_eq!(readable(128 << 30, Unit::Bytes), "128G");
        assert_eq!(readable(1_500, Unit::Bytes), "1500");
        assert_eq!(readable(0, Unit::Bytes), "0");
        assert_eq!(readable(7, Unit::Milliseconds), "7 ms");
    }
}
