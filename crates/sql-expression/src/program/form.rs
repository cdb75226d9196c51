//! What values of programs mean in SQL.
//!
//! # Owns
//! [`Form`]: of which type of value a node's numbers and texts are, and their way back to values.
//! # Not here
//! Which expression has which form (`program`).

use collation::CollationId;
use model::ColumnType;
use sqltype::storage::{self, storage_type};
use sqltype::{Datum, Decimal, SqlType, TypeKind};
use vector::{Kind, ScalarRef};

/// What the values of a node mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Signed integers.
    Int,
    /// Unsigned integers.
    UInt,
    /// Decimals with so many digits after the point.
    Decimal(u8),
    /// Floating-point numbers.
    Float,
    /// DATE as it is stored.
    Date,
    /// DATETIME as it is stored.
    DateTime,
    /// TIME as it is stored.
    Time,
    /// Texts under a collation.
    Text(CollationId),
    /// A column as it is stored, good for nothing but to be given out and grouped by.
    Stored,
}

/// How a column of a type lies in a vector.
pub fn kind_of(sql_type: &SqlType) -> Kind {
    match storage_type(sql_type) {
        ColumnType::Int(_) => Kind::Int,
        ColumnType::UInt(_) => Kind::UInt,
        ColumnType::Float => Kind::Float,
        ColumnType::Fixed(size) if size <= 16 && sql_type.kind == TypeKind::Decimal => {
            Kind::Decimal
        }
        ColumnType::Fixed(_) | ColumnType::Variable(_) | ColumnType::Text { .. } => Kind::Bytes,
    }
}

/// How values of a form lie in a vector.
pub(super) fn kind_of_form(form: Form) -> Kind {
    match form {
        Form::Int | Form::Time => Kind::Int,
        Form::UInt | Form::Date | Form::DateTime => Kind::UInt,
        Form::Decimal(_) => Kind::Decimal,
        Form::Float => Kind::Float,
        Form::Text(_) | Form::Stored => Kind::Bytes,
    }
}

impl Form {
    /// What the stored values of a type mean.
    pub fn of(sql_type: &SqlType) -> Self {
        match &sql_type.kind {
            kind if kind.is_integer() => {
                if sql_type.unsigned {
                    Form::UInt
                } else {
                    Form::Int
                }
            }
            TypeKind::Decimal if kind_of(sql_type) == Kind::Decimal => {
                Form::Decimal(sql_type.decimals)
            }
            // FLOAT is shown, and so compared by users, with fewer digits; its values are the same.
            TypeKind::Float | TypeKind::Double => Form::Float,
            TypeKind::Date => Form::Date,
            TypeKind::DateTime => Form::DateTime,
            TypeKind::Time => Form::Time,
            kind if kind.is_text() => Form::Text(sql_type.collation),
            _ => Form::Stored,
        }
    }

    /// Digits after the point, of exact numbers.
    pub(super) fn scale(self) -> Option<u8> {
        match self {
            Form::Int | Form::UInt => Some(0),
            Form::Decimal(scale) => Some(scale),
            _ => None,
        }
    }
}

/// The SQL value of what a program gives; nothing for a form that only its column can tell.
pub fn datum_of(value: ScalarRef<'_>, form: Form) -> Option<Datum> {
    let stored = |number: u64, kind| {
        storage::from_value(model::ValueRef::UInt(number), &SqlType::new(kind, 0))
    };
    Some(match (value, form) {
        (ScalarRef::Null, _) => Datum::Null,
        (ScalarRef::Int(number), Form::Int) => Datum::Int(number),
        (ScalarRef::UInt(number), Form::UInt) => Datum::UInt(number),
        (ScalarRef::Float(number), Form::Float) => Datum::Double(number),
        (ScalarRef::Decimal(number), Form::Decimal(scale)) => {
            Datum::Decimal(Decimal::from_unscaled(number, scale)?)
        }
        (ScalarRef::UInt(number), Form::Date) => stored(number, TypeKind::Date),
        (ScalarRef::UInt(number), Form::DateTime) => stored(number, TypeKind::DateTime),
        (ScalarRef::Int(micros), Form::Time) => Datum::Time(sqltype::Time { micros }),
        (ScalarRef::Bytes(text), Form::Text(_)) => Datum::Bytes(text.into()),
        _ => return None,
    })
}
