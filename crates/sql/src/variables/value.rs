//! What values a system variable takes, and how they are written.
//!
//! # Owns
//! From the value of an expression to the text a variable has, with MySQL's errors 1231, 1232 and
//! those of character sets, modes and zones; numbers beyond the limits are moved to them.
//! # Guarantees
//! The text that a value becomes is taken as a value again, and becomes the same text.
//! # Not here
//! Which variable, which scope (`set`).

use collation::{Charset, CollationId};
use sql_expression::{SqlError, SqlMode};
use sqltype::Datum;
use sqltype::zone::TimeZone;

use super::compression;
use super::registry::{Kind, Variable};
use crate::catalog::error;
use crate::variables::choice::Isolation;

/// The text of a value; none for NULL. Warnings go to `notes`. `clamp_strictly` is
/// STRICT_ALL_TABLES, under which numbers beyond the limits are refused.
pub(crate) fn checked(
    variable: &Variable,
    value: &Datum,
    clamp_strictly: bool,
    notes: &mut Vec<SqlError>,
) -> Result<Option<String>, SqlError> {
    let name = variable.name;
    let text = match variable.kind {
        Kind::Switch => switch(name, value)?,
        Kind::Integer(least, most) => {
            let (least, most) = (i128::from(least), i128::from(most));
            integer(name, value, least, most, clamp_strictly, notes)?
        }
        Kind::Signed(least, most) => {
            let (least, most) = (i128::from(least), i128::from(most));
            integer(name, value, least, most, clamp_strictly, notes)?
        }
        Kind::Real(least, most) => real(name, value, least, most)?,
        Kind::Text => text(name, value)?.to_owned(),
        Kind::NullableText if value.is_null() => return Ok(None),
        Kind::NullableText => text(name, value)?.to_owned(),
        Kind::Choice(words) => choice(name, value, words)?.to_owned(),
        Kind::Flags(words) => flags(name, value, words)?,
        Kind::NullableCharset if value.is_null() => return Ok(None),
        Kind::Charset | Kind::NullableCharset => charset(name, value)?.name().to_owned(),
        Kind::Collation => collation(name, value)?.name().to_owned(),
        Kind::SqlMode => sql_mode(name, value)?.to_string(),
        Kind::TimeZone => {
            let zone = text(name, value)?;
            match time_zone(zone) {
                Some(_) => canonical_zone(zone),
                None => return Err(unknown_time_zone(zone)),
            }
        }
        Kind::Isolation => isolation_text(name, value)?.to_owned(),
        Kind::Engine => engine(name, value)?,
        Kind::Locale => match value {
            Datum::Int(0) | Datum::UInt(0) => "en_US".to_owned(),
            other => match text(name, other)? {
                locale if locale.eq_ignore_ascii_case("en_US") => "en_US".to_owned(),
                locale => {
                    let message = format!("Unknown locale: '{locale}'");
                    return Err(SqlError::new(1649, "HY000", message));
                }
            },
        },
        Kind::Timestamp => return timestamp(name, value),
    };
    Ok(Some(text))
}

/// 1231: no such value.
pub(crate) fn wrong_value(name: &str, value: &str) -> SqlError {
    let message = format!("Variable '{name}' can't be set to the value of '{value}'");
    SqlError::new(1231, "42000", message)
}

/// 1232: a value of another kind.
fn wrong_type(name: &str) -> SqlError {
    SqlError::new(1232, "42000", format!("Incorrect argument type to variable '{name}'"))
}

fn text<'a>(name: &str, value: &'a Datum) -> Result<&'a str, SqlError> {
    match value {
        Datum::Null => Err(wrong_value(name, "NULL")),
        Datum::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| wrong_type(name)),
        _ => Err(wrong_type(name)),
    }
}

/// A whole number, if the value is one.
fn whole(value: &Datum) -> Option<i128> {
    match value {
        Datum::Int(number) => Some((*number).into()),
        Datum::UInt(number) => Some((*number).into()),
        _ => None,
    }
}

fn switch(name: &str, value: &Datum) -> Result<String, SqlError> {
    let on = match (whole(value), value) {
        (Some(0), _) => false,
        (Some(1), _) => true,
        (Some(other), _) => return Err(wrong_value(name, &other.to_string())),
        (None, Datum::Bytes(_)) => {
            let word = text(name, value)?;
            let is = |words: [&str; 2]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
            match (is(["ON", "TRUE"]), is(["OFF", "FALSE"])) {
                (true, _) => true,
                (_, true) => false,
                _ => return Err(wrong_value(name, word)),
            }
        }
        (None, Datum::Null) => return Err(wrong_value(name, "NULL")),
        _ => return Err(wrong_type(name)),
    };
    Ok(if on { "ON" } else { "OFF" }.to_owned())
}

fn integer(
    name: &str,
    value: &Datum,
    least: i128,
    most: i128,
    clamp_strictly: bool,
    notes: &mut Vec<SqlError>,
) -> Result<String, SqlError> {
    let number = whole(value).ok_or_else(|| wrong_type(name))?;
    let mut fit = number.clamp(least, most);
    if matches!(name, "max_allowed_packet" | "net_buffer_length") {
        fit -= fit % 1024;
    }
    if fit != number {
        if clamp_strictly {
            return Err(wrong_value(name, &number.to_string()));
        }
        let message = format!("Truncated incorrect {name} value: '{number}'");
        notes.push(SqlError::new(1292, "22007", message));
    }
    Ok(fit.to_string())
}

fn real(name: &str, value: &Datum, least: f64, most: f64) -> Result<String, SqlError> {
    let number = match value {
        Datum::Double(number) => *number,
        Datum::Decimal(number) => number.to_f64(),
        other => whole(other).ok_or_else(|| wrong_type(name))? as f64,
    };
    Ok(format!("{:.6}", number.clamp(least, most)))
}

fn choice<'w>(name: &str, value: &Datum, words: &[&'w str]) -> Result<&'w str, SqlError> {
    if let Some(number) = whole(value) {
        let word = usize::try_from(number).ok().and_then(|at| words.get(at));
        return word.copied().ok_or_else(|| wrong_value(name, &number.to_string()));
    }
    let said = text(name, value)?;
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(said));
    word.copied().ok_or_else(|| wrong_value(name, said))
}

fn flags(name: &str, value: &Datum, words: &[&str]) -> Result<String, SqlError> {
    let bits = match whole(value) {
        Some(number) => {
            if number >= 0 && number < 1 << words.len() {
                number
            } else {
                return Err(wrong_value(name, &number.to_string()));
            }
        }
        None => {
            let mut bits = 0;
            for said in text(name, value)?.split(',').map(str::trim).filter(|w| !w.is_empty()) {
                let at = words.iter().position(|word| word.eq_ignore_ascii_case(said));
                bits |= 1 << at.ok_or_else(|| wrong_value(name, said))?;
            }
            bits
        }
    };
    if bits == 0 && name == compression::NAME {
        return Err(wrong_value(name, ""));
    }
    let chosen = words.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    Ok(chosen.map(|(_, word)| *word).collect::<Vec<&str>>().join(","))
}

fn charset(name: &str, value: &Datum) -> Result<Charset, SqlError> {
    let charset = match whole(value) {
        Some(number) => {
            let id = u16::try_from(number).ok().map(CollationId);
            let known = id.and_then(CollationId::get);
            known.map(|c| c.charset).ok_or_else(|| error::unknown_charset(&number.to_string()))?
        }
        None => {
            let said = text(name, value)?;
            Charset::by_name(said).ok_or_else(|| error::unknown_charset(said))?
        }
    };
    if !charset.can_be_of_client() && name == "character_set_client" {
        Err(wrong_value(name, charset.name()))
    } else {
        Ok(charset)
    }
}

fn collation(name: &str, value: &Datum) -> Result<CollationId, SqlError> {
    if let Some(number) = whole(value) {
        let id = u16::try_from(number).ok().map(CollationId).filter(|id| id.get().is_some());
        return id.ok_or_else(|| error::unknown_collation(&number.to_string()));
    }
    let said = text(name, value)?;
    CollationId::by_name(said).ok_or_else(|| error::unknown_collation(said))
}

fn sql_mode(name: &str, value: &Datum) -> Result<SqlMode, SqlError> {
    if let Some(number) = whole(value) {
        let mode = u64::try_from(number).ok().and_then(SqlMode::from_number);
        return mode.ok_or_else(|| wrong_value(name, &number.to_string()));
    }
    SqlMode::parse(text(name, value)?)
}

fn isolation_text(name: &str, value: &Datum) -> Result<&'static str, SqlError> {
    choice(name, value, &ISOLATION_LEVELS)
}

/// The isolation levels as the variable names them, in MySQL's order.
const ISOLATION_LEVELS: [&str; 4] =
    ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];

/// The isolation level of this name.
pub(crate) fn isolation(text: &str) -> Option<Isolation> {
    match text {
        "READ-UNCOMMITTED" => Some(Isolation::ReadUncommitted),
        "READ-COMMITTED" => Some(Isolation::ReadCommitted),
        "REPEATABLE-READ" => Some(Isolation::RepeatableRead),
        "SERIALIZABLE" => Some(Isolation::Serializable),
        _ => None,
    }
}

fn engine(name: &str, value: &Datum) -> Result<String, SqlError> {
    let said = text(name, value)?;
    let known = ["ndbcluster", "InnoDB", "MyISAM", "MEMORY", "nines"];
    if said.eq_ignore_ascii_case("ndb") {
        return Ok("ndbcluster".to_owned());
    }
    let engine = known.iter().find(|known| known.eq_ignore_ascii_case(said));
    engine.map(|engine| (*engine).to_owned()).ok_or_else(|| error::unknown_engine(said))
}

/// The zone of this name; none for an unknown one. `SYSTEM` is the server's.
pub(crate) fn time_zone(name: &str) -> Option<TimeZone> {
    TimeZone::parse(name)
}

/// A zone as it is shown: offsets with two digits for hours.
fn canonical_zone(name: &str) -> String {
    match name.strip_prefix(['+', '-']) {
        Some(offset) if offset.find(':') == Some(1) => format!("{}0{offset}", &name[..1]),
        _ if name.eq_ignore_ascii_case("SYSTEM") => "SYSTEM".to_owned(),
        _ => name.to_owned(),
    }
}

/// 1298.
fn unknown_time_zone(name: &str) -> SqlError {
    SqlError::new(1298, "HY000", format!("Unknown or incorrect time zone: '{name}'"))
}

/// `timestamp`: seconds since 1970, with a fraction; zero for the clock.
fn timestamp(name: &str, value: &Datum) -> Result<Option<String>, SqlError> {
    let seconds = match value {
        Datum::Double(seconds) => *seconds,
        Datum::Decimal(seconds) => seconds.to_f64(),
        other => whole(other).ok_or_else(|| wrong_type(name))? as f64,
    };
    match seconds {
        0.0 => Ok(None),
        seconds if !(0.0..=TIMESTAMP_MAX).contains(&seconds) => {
            Err(wrong_value(name, &seconds.to_string()))
        }
        seconds => Ok(Some(format!("{seconds:.6}"))),
    }
}

/// Beyond it NOW() has no value.
const TIMESTAMP_MAX: f64 = 2_147_483_647.0;

/// The value of `timestamp` in microseconds.
pub(crate) fn timestamp_micros(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}
