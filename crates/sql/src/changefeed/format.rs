//! Changes as texts: JSON in Debezium's envelope, and CSV.
//!
//! # Guarantees
//! A change has the same text whoever writes it. Any stored value has one.
//! # Not here
//! Which changes there are (`changefeed::reader`).

use std::borrow::Cow;
use std::fmt::Write;

use collation::CollationId;
use sql_expression::base64;
use sqltype::json::push_quoted;
use sqltype::{Datum, SqlType, TypeKind};

use super::reader::{Change, Known, Operation};
use crate::binlog::table::Held;

/// In place of a large value that an update has not changed: it is not in the epoch. Debezium's
/// word for such.
pub(crate) const UNAVAILABLE: &str = "__debezium_unavailable_value";

/// How changes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// A JSON object.
    #[default]
    Json,
    /// A line of values.
    Csv,
}

impl Format {
    /// The format of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }

    /// The text of a change, without an end of the line.
    pub(crate) fn text(self, feed: &str, change: &Change) -> String {
        match self {
            Self::Json => envelope(feed, change),
            Self::Csv => values(change),
        }
    }
}

impl Operation {
    /// Debezium's letter.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Create => "c",
            Self::Update => "u",
            Self::Delete => "d",
            Self::Read => "r",
        }
    }
}

fn envelope(feed: &str, change: &Change) -> String {
    let mut out = String::with_capacity(512);
    out.push_str("{\"before\":");
    object(&mut out, &change.known, change.before.as_deref());
    out.push_str(",\"after\":");
    object(&mut out, &change.known, change.after.as_deref());
    out.push_str(",\"source\":{\"version\":");
    push_quoted(&mut out, crate::VERSION);
    out.push_str(",\"connector\":\"nines\",\"name\":");
    push_quoted(&mut out, feed);
    let (database, table) = change.known.name();
    let millis = change.at / 1_000;
    let is_read = change.operation == Operation::Read;
    // Writing to a text succeeds.
    let _ = write!(out, ",\"ts_ms\":{millis},\"snapshot\":\"{is_read}\",\"db\":");
    push_quoted(&mut out, database);
    out.push_str(",\"table\":");
    push_quoted(&mut out, table);
    let (epoch, number) = (change.epoch.0, change.number);
    let _ = write!(out, ",\"epoch\":{epoch},\"number\":{number},\"position\":");
    push_quoted(&mut out, &change.position());
    let letter = change.operation.letter();
    let _ = write!(out, "}},\"op\":\"{letter}\",\"ts_ms\":{millis}}}");
    out
}

fn object(out: &mut String, known: &Known, row: Option<&[Held]>) {
    let Some(row) = row else { return out.push_str("null") };
    out.push('{');
    for (at, (column, held)) in known.columns().iter().zip(row).enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_quoted(out, &column.name);
        out.push(':');
        match held {
            Held::Absent => push_quoted(out, UNAVAILABLE),
            Held::Value(datum) => json_value(out, datum, &column.sql_type),
        }
    }
    out.push('}');
}

/// Integers, bits, years and floating-point numbers are numbers; everything else is a text.
fn json_value(out: &mut String, datum: &Datum, sql_type: &SqlType) {
    match datum {
        Datum::Null => out.push_str("null"),
        Datum::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Datum::UInt(number) => {
            let _ = write!(out, "{number}");
        }
        Datum::Double(number) if !number.is_finite() => out.push_str("null"),
        Datum::Double(_) => out.push_str(&plain_text(datum, sql_type)),
        _ => push_quoted(out, &plain_text(datum, sql_type)),
    }
}

/// A value as text; empty for NULL. Bytes that are no text are in base64, a TIMESTAMP in the form
/// of ISO 8601 with Z.
fn plain_text<'d>(datum: &'d Datum, sql_type: &SqlType) -> Cow<'d, str> {
    match datum {
        Datum::Bytes(bytes) if sql_type.collation == CollationId::BINARY => {
            Cow::Owned(base64(bytes))
        }
        Datum::Int(number) => Cow::Owned(number.to_string()),
        Datum::UInt(number) => Cow::Owned(number.to_string()),
        _ => {
            // Numbers are not filled with zeros.
            let sql_type = &SqlType { zerofill: false, ..sql_type.clone() };
            let text = sqltype::text(datum, sql_type).unwrap_or_default();
            let text = match text {
                Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            };
            match sql_type.kind {
                TypeKind::Timestamp => Cow::Owned(text.replacen(' ', "T", 1) + "Z"),
                _ => text,
            }
        }
    }
}

/// The line that says what the values of a table's changes are in a file.
pub(crate) fn csv_head(known: &Known) -> String {
    let mut out = "position,op,ts_ms".to_owned();
    for column in known.columns() {
        out.push(',');
        field(&mut out, &column.name);
    }
    out
}

/// The line of a change in a file.
pub(crate) fn csv_line(change: &Change) -> String {
    let (position, letter) = (change.position(), change.operation.letter());
    format!("{position},{letter},{},{}", change.at / 1_000, values(change))
}

/// The values of a row after a change; of a deletion, those before it.
fn values(change: &Change) -> String {
    let mut out = String::new();
    let row = change.after.as_deref().or(change.before.as_deref()).unwrap_or_default();
    for (at, (column, held)) in change.known.columns().iter().zip(row).enumerate() {
        if at > 0 {
            out.push(',');
        }
        match held {
            Held::Absent => out.push_str(UNAVAILABLE),
            // An empty text has quotes.
            Held::Value(Datum::Null) => {}
            Held::Value(datum) => field(&mut out, &plain_text(datum, &column.sql_type)),
        }
    }
    out
}

/// A field, in quotes where RFC 4180 needs them, or where it would be taken for NULL.
fn field(out: &mut String, text: &str) {
    if !text.is_empty() && !text.contains(['"', ',', '\n', '\r']) {
        return out.push_str(text);
    }
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}
