//! Column values at the edges of the kernel: what clients send and what expressions compute.
//!
//! Five storage kinds carry every SQL type: the SQL layer maps decimals, dates, enums and
//! collated text onto them (order-preserving bytes or integers) so that the kernel compares
//! values without knowing their SQL type.

use std::cmp::Ordering;
use std::fmt;

use codec::Codec;
use serde::{Deserialize, Serialize};

/// An owned column value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Codec)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A signed integer of any column width.
    Int(i64),
    /// An unsigned integer of any column width.
    UInt(u64),
    /// A floating-point number; never NaN in a stored row.
    Float(f64),
    /// Bytes, compared byte by byte.
    Bytes(Box<[u8]>),
}

/// A column value inside an encoded row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// Bytes of the row.
    Bytes(&'a [u8]),
}

impl Value {
    /// The bytes of `text`.
    pub fn text(text: &str) -> Value {
        Value::Bytes(text.as_bytes().into())
    }

    /// Borrows the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Int(v) => ValueRef::Int(*v),
            Value::UInt(v) => ValueRef::UInt(*v),
            Value::Float(v) => ValueRef::Float(*v),
            Value::Bytes(v) => ValueRef::Bytes(v),
        }
    }
}

impl ValueRef<'_> {
    /// An owned copy.
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Int(v) => Value::Int(v),
            ValueRef::UInt(v) => Value::UInt(v),
            ValueRef::Float(v) => Value::Float(v),
            ValueRef::Bytes(v) => Value::Bytes(v.into()),
        }
    }

    /// True for SQL NULL.
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// Compares two values that are not NULL; `None` when either is NULL or the kinds do not
    /// compare (numbers with bytes). Numbers compare by value across integer and float kinds.
    pub fn compare(self, other: ValueRef<'_>) -> Option<Ordering> {
        use ValueRef::{Bytes, Float, Int, UInt};
        match (self, other) {
            (Int(a), Int(b)) => Some(a.cmp(&b)),
            (UInt(a), UInt(b)) => Some(a.cmp(&b)),
            (Int(a), UInt(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (UInt(a), Int(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (Bytes(a), Bytes(b)) => Some(a.cmp(b)),
            (Float(a), Float(b)) => a.partial_cmp(&b),
            (Float(a), Int(b)) => a.partial_cmp(&(b as f64)),
            (Float(a), UInt(b)) => a.partial_cmp(&(b as f64)),
            (Int(a), Float(b)) => (a as f64).partial_cmp(&b),
            (UInt(a), Float(b)) => (a as f64).partial_cmp(&b),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Int(v) => write!(f, "{v}"),
            Value::UInt(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Bytes(v) => match std::str::from_utf8(v) {
                Ok(text) if v.len() <= 40 => write!(f, "'{text}'"),
                _ => write!(f, "<{} bytes>", v.len()),
            },
        }
    }
}
