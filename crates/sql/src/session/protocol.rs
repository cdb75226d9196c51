//! What the client's side of the protocol says to a session, and is told of it.
//!
//! # Owns
//! Texts and parameters as they are sent; attributes; what of the session's state has changed.
//! # Not here
//! Packets (`connection`).

use collation::{Charset, CollationId};
use mysql_wire::answer::StateChange;
use mysql_wire::{Attributes, Parameter, ParameterType};
use sqltype::{Datum, Time};

use crate::session::Session;

impl Session {
    /// What a client sent, as UTF-8.
    pub(crate) fn decode_text(&self, text: Vec<u8>) -> Vec<u8> {
        match self.variables.client_charset {
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Binary | Charset::Ascii => text,
            charset => collation::to_utf8(charset, &text).bytes.into_owned(),
        }
    }

    /// The collation a client named in its handshake.
    pub(crate) fn set_client_collation(&mut self, number: u16) {
        let collation = CollationId(number);
        // No statement can be read in a set that ASCII is not a part of.
        let spoken = collation.get().is_some_and(|known| known.charset.can_be_of_client());
        let known = if spoken { collation } else { CollationId::DEFAULT };
        self.variables.set_client_collation(known);
        self.variables.take_changes();
    }

    /// A parameter of the binary protocol.
    pub(crate) fn parameter(&self, parameter: Parameter, kind: Option<&ParameterType>) -> Datum {
        use mysql_wire::constants::column;
        let decimal = kind.is_some_and(|kind| kind.kind == column::NEWDECIMAL);
        match datum_of(parameter) {
            Datum::Bytes(text) if decimal => match sqltype::Decimal::parse(&text) {
                Some(number) => Datum::Decimal(number),
                None => Datum::Bytes(text),
            },
            Datum::Bytes(text) => Datum::Bytes(self.decode_text(text.into_vec()).into()),
            other => other,
        }
    }

    /// What the client attached to the command, as texts for `mysql_query_attribute_string()`.
    pub(crate) fn attach(&mut self, attributes: Attributes) {
        let text = |value: Datum| match value {
            Datum::Null | Datum::Bytes(_) => value,
            other => {
                let mut text = String::new();
                sqltype::format::push_text(&mut text, &other, &self.type_of(&other).sql_type);
                Datum::text(&text)
            }
        };
        let given = attributes.into_iter().map(|(name, value)| {
            let name = String::from_utf8_lossy(&self.decode_text(name)).into_owned();
            (name, text(self.parameter(value, None)))
        });
        let given: Vec<(String, Datum)> = given.collect();
        self.query_attributes = (!given.is_empty()).then(|| given.into());
    }

    /// How long the client may say nothing, in seconds.
    pub(crate) fn idle_timeout(&self) -> u64 {
        let seconds = if self.interactive {
            self.variables.interactive_timeout
        } else {
            self.variables.wait_timeout
        };
        seconds.max(1)
    }

    /// What of the session's state the client is to be told.
    pub(crate) fn take_state_changes(&mut self) -> Vec<StateChange> {
        let mut changes = Vec::new();
        for (name, value) in self.variables.take_changes() {
            changes.push(StateChange::Variable(name.to_owned(), value));
        }
        if self.database != self.told_database {
            self.told_database.clone_from(&self.database);
            if self.variables.session_track_schema {
                let name = self.database.clone().unwrap_or_default();
                changes.push(StateChange::Schema(name));
            }
        }
        changes
    }
}

/// A parameter's value as the executors know it. Text is converted by the caller.
pub(crate) fn datum_of(parameter: Parameter) -> Datum {
    match parameter {
        Parameter::Null => Datum::Null,
        Parameter::Int(v) => Datum::Int(v),
        Parameter::UInt(v) => Datum::UInt(v),
        Parameter::Float(v) if v.is_finite() => Datum::Double(v.into()),
        Parameter::Double(v) if v.is_finite() => Datum::Double(v),
        Parameter::Float(_) | Parameter::Double(_) => Datum::Null,
        Parameter::Bytes(v) => Datum::Bytes(v.into()),
        Parameter::DateTime { date_only, year, month, day, hour, minute, second, micros } => {
            let Some(date) = sqltype::Date::new(year, month, day) else { return Datum::Null };
            if date_only {
                return Datum::Date(date);
            }
            let valid = hour < 24 && minute < 60 && second < 60 && micros < 1_000_000;
            let at = sqltype::DateTime { date, hour, minute, second, micros };
            if valid { Datum::DateTime(at) } else { Datum::Null }
        }
        Parameter::Time { negative, days, hours, minutes, seconds, micros } => {
            let hours = days.saturating_mul(24).saturating_add(hours.into());
            let seconds = i64::from(hours) * 3_600 + i64::from(minutes) * 60 + i64::from(seconds);
            let micros = seconds.saturating_mul(1_000_000).saturating_add(micros.into());
            // What is beyond the range of TIME is its end, as in MySQL.
            Datum::Time(Time::clamped(if negative { -micros } else { micros }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_its_range_is_the_end_of_the_range() {
        let time = |negative, days, hours| Parameter::Time {
            negative,
            days,
            hours,
            minutes: 30,
            seconds: 0,
            micros: 5,
        };
        let micros = |parameter| match datum_of(parameter) {
            Datum::Time(time) => time.micros,
            other => panic!("{other:?}"),
        };
        let end = Time::MAX.micros;
        assert_eq!(micros(time(false, 1, 2)), (26 * 3_600 + 30 * 60) * 1_000_000 + 5);
        assert_eq!(micros(time(false, 34, 22)), (838 * 3_600 + 30 * 60) * 1_000_000 + 5);
        assert_eq!(micros(time(false, 34, 23)), end);
        assert_eq!(micros(time(true, 40, 0)), -end);
        assert_eq!(micros(time(true, u32::MAX, 255)), -end);
    }
}
