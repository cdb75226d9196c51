//! A value of an expression or a column.

use crate::decimal::Decimal;
use crate::temporal::{Date, DateTime, Time};

/// A value. What it is exactly (width, scale, collation, members of an enum) its
/// [`SqlType`](crate::SqlType) says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Datum {
    /// SQL NULL.
    #[default]
    Null,
    /// A signed integer of any width; YEAR too.
    Int(i64),
    /// An unsigned integer of any width; BIT too. An ENUM's index and a SET's bits when they stand
    /// for numbers.
    UInt(u64),
    /// FLOAT and DOUBLE; never NaN or infinite.
    Double(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// Character and binary strings: text is UTF-8. An ENUM or SET as its text.
    Bytes(Box<[u8]>),
    /// DATE.
    Date(Date),
    /// DATETIME, and TIMESTAMP in the session's time zone.
    DateTime(DateTime),
    /// TIME.
    Time(Time),
    /// JSON, in its printed form.
    Json(Box<[u8]>),
}

impl Datum {
    /// A character string.
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }

    /// A truth value.
    pub fn truth(value: bool) -> Self {
        Self::Int(value.into())
    }

    /// Whether it is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}
