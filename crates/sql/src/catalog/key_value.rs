//! Values as keys of an index: what a comparison with a column means for the stored values.

use model::Value;
use sqltype::temporal::{parse_date_time, parse_time};
use sqltype::{DateTime, Datum, Decimal, SqlType, TypeKind, storage};

/// What a value means as a key of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyValue {
    /// Rows with this stored value, and no others, are equal to it.
    Exact(Value),
    /// No stored value is equal to it.
    NoMatch,
    /// The index does not help: the comparison is not the column's own.
    Unusable,
}

/// The key that stands for `column = datum`. `datum` is not NULL.
pub(crate) fn key_value(datum: &Datum, column: &SqlType) -> KeyValue {
    match &column.kind {
        TypeKind::Bit | TypeKind::Year => integer_key(datum, column),
        kind if kind.is_integer() => integer_key(datum, column),
        TypeKind::Decimal => match exact_number(datum) {
            Some(number) => decimal_key(number, column),
            None => KeyValue::Unusable,
        },
        TypeKind::Float | TypeKind::Double => match datum {
            Datum::Double(v) => KeyValue::Exact(Value::Float(*v)),
            Datum::Int(v) => KeyValue::Exact(Value::Float(*v as f64)),
            Datum::UInt(v) => KeyValue::Exact(Value::Float(*v as f64)),
            Datum::Decimal(v) => KeyValue::Exact(Value::Float(v.to_f64())),
            _ => KeyValue::Unusable,
        },
        TypeKind::Date | TypeKind::DateTime => date_key(datum, column),
        TypeKind::Time => match datum {
            Datum::Time(_) => KeyValue::Exact(storage::to_value(datum, column)),
            Datum::Bytes(text) => match parse_time(text) {
                Some(parsed) if !parsed.garbage => {
                    KeyValue::Exact(storage::to_value(&Datum::Time(parsed.value), column))
                }
                _ => KeyValue::Unusable,
            },
            _ => KeyValue::Unusable,
        },
        kind if kind.is_text() => match (datum, storage::storage_type(column).variable_max()) {
            // A longer text is equal to no stored one, but for trailing spaces.
            (Datum::Bytes(text), Some(most)) if text.len() <= most.into() => {
                KeyValue::Exact(Value::Bytes(text.clone()))
            }
            _ => KeyValue::Unusable,
        },
        _ => KeyValue::Unusable,
    }
}

fn exact_number(datum: &Datum) -> Option<Decimal> {
    match datum {
        Datum::Int(v) => Some(Decimal::from(*v)),
        Datum::UInt(v) => Some(Decimal::from(*v)),
        Datum::Decimal(v) => Some(*v),
        Datum::Bytes(text) => Decimal::parse(text),
        Datum::Double(v) if v.abs() < 9e15 => Decimal::from_f64(*v).ok(),
        _ => None,
    }
}

fn integer_key(datum: &Datum, column: &SqlType) -> KeyValue {
    let whole = match datum {
        Datum::Int(v) => i128::from(*v),
        Datum::UInt(v) => i128::from(*v),
        other => match exact_number(other) {
            Some(number) if number.compare(&number.round(0)).is_eq() => match number.to_i128() {
                Some(whole) => whole,
                None => return KeyValue::NoMatch,
            },
            Some(_) => return KeyValue::NoMatch,
            None => return KeyValue::Unusable,
        },
    };
    let bits = column.kind.integer_bits().unwrap_or(64);
    let unsigned = column.unsigned || matches!(column.kind, TypeKind::Bit | TypeKind::Year);
    let (low, high) = if unsigned {
        (0, (1i128 << bits) - 1)
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    if !(low..=high).contains(&whole) {
        return KeyValue::NoMatch;
    }
    KeyValue::Exact(if unsigned { Value::UInt(whole as u64) } else { Value::Int(whole as i64) })
}

fn decimal_key(number: Decimal, column: &SqlType) -> KeyValue {
    let rounded = number.round(column.decimals);
    if !rounded.compare(&number).is_eq() {
        return KeyValue::NoMatch;
    }
    match rounded.encode(column.length, column.decimals) {
        Some(bytes) => KeyValue::Exact(Value::Bytes(bytes)),
        None => KeyValue::NoMatch,
    }
}

fn date_key(datum: &Datum, column: &SqlType) -> KeyValue {
    let at = match datum {
        Datum::Date(date) => DateTime::midnight(*date),
        Datum::DateTime(at) => *at,
        Datum::Bytes(text) => match parse_date_time(text) {
            Some(parsed) if !parsed.garbage && parsed.offset.is_none() => parsed.value,
            _ => return KeyValue::Unusable,
        },
        _ => return KeyValue::Unusable,
    };
    if column.kind == TypeKind::Date {
        return if at == DateTime::midnight(at.date) {
            KeyValue::Exact(storage::to_value(&Datum::Date(at.date), column))
        } else {
            KeyValue::NoMatch
        };
    }
    KeyValue::Exact(storage::to_value(&Datum::DateTime(at), column))
}

/// Whether values of a type are whole numbers of 1, 2, 4 or 8 bytes.
pub(crate) fn is_machine_integer(sql_type: &SqlType) -> bool {
    matches!(
        sql_type.kind,
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let int = SqlType::new(TypeKind::Int, 11);
        let tiny = SqlType { unsigned: true, ..SqlType::new(TypeKind::TinyInt, 3) };
        for (datum, column, expected) in [
            (Datum::Int(5), &int, KeyValue::Exact(Value::Int(5))),
            (Datum::UInt(1 << 40), &int, KeyValue::NoMatch),
            (Datum::text("5"), &int, KeyValue::Exact(Value::Int(5))),
            (Datum::text("5.5"), &int, KeyValue::NoMatch),
            (Datum::text("5x"), &int, KeyValue::Unusable),
            (Datum::Double(7.0), &int, KeyValue::Exact(Value::Int(7))),
            (Datum::Int(-1), &tiny, KeyValue::NoMatch),
            (Datum::Int(255), &tiny, KeyValue::Exact(Value::UInt(255))),
        ] {
            assert_eq!(key_value(&datum, column), expected, "{datum:?}");
        }
    }

    #[test]
    fn decimals_and_dates() {
        let money = SqlType::decimal(6, 2);
        let number = |text: &str| Datum::Decimal(Decimal::parse(text.as_bytes()).unwrap());
        assert!(matches!(key_value(&number("12.5"), &money), KeyValue::Exact(_)));
        assert_eq!(key_value(&number("12.505"), &money), KeyValue::NoMatch);
        assert_eq!(key_value(&number("123456"), &money), KeyValue::NoMatch);
        let day = SqlType::new(TypeKind::Date, 10);
        let from_text = key_value(&Datum::text("2024-05-06"), &day);
        assert_eq!(from_text, key_value(&Datum::text("240506"), &day));
        assert_eq!(key_value(&Datum::text("2024-05-06 01:00:00"), &day), KeyValue::NoMatch);
        assert_eq!(key_value(&Datum::text("soon"), &day), KeyValue::Unusable);
    }
}
