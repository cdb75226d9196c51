//! Values as keys of an index: what a comparison with a column means for the stored values.

use std::borrow::Cow;

use model::Value;
use sqltype::number::{read_double, read_integer};
use sqltype::temporal::{parse_date_time, parse_time};
use sqltype::{DateTime, Datum, Decimal, SqlType, TypeKind, member_number, storage};

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

/// The key that stands for `column = datum`. `datum` is of the type `from`, and not NULL. A text
/// that a number column is compared with by its own type, as parameters are, has that type.
pub(crate) fn key_value(datum: &Datum, from: &SqlType, column: &SqlType) -> KeyValue {
    match &column.kind {
        kind if is_number(kind) => match as_number(datum, from, column) {
            Some(number) => number_key(&number, column),
            None => KeyValue::Unusable,
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

/// Whether a column's values are compared as numbers, with whatever they are compared.
fn is_number(kind: &TypeKind) -> bool {
    kind.is_integer()
        || matches!(
            kind,
            TypeKind::Bit | TypeKind::Year | TypeKind::Decimal | TypeKind::Float | TypeKind::Double
        )
}

/// What a value is beside a number: an ENUM or SET the number of its members, a text a
/// floating-point number. Nothing for a text that is not a number as a whole: comparing it warns.
///
/// A text that says a whole number finds that number in an index, as in MySQL, whatever its length:
/// floating-point numbers would take several numbers of more than 15 digits for it, and finding
/// these would read the whole table for each text.
fn as_number<'d>(datum: &'d Datum, from: &SqlType, column: &SqlType) -> Option<Cow<'d, Datum>> {
    let Datum::Bytes(text) = datum else { return Some(Cow::Borrowed(datum)) };
    if let Some(number) = member_number(text, from) {
        return Some(Cow::Owned(Datum::UInt(number)));
    }
    if is_number(&from.kind) {
        return Decimal::parse(text).map(|number| Cow::Owned(Datum::Decimal(number)));
    }
    let whole = read_integer(text);
    if column.kind.is_integer() && whole.is_whole && !whole.is_out_of_range {
        return Some(Cow::Owned(match u64::try_from(whole.value) {
            Ok(number) => Datum::UInt(number),
            Err(_) => Datum::Int(i64::try_from(whole.value).ok()?),
        }));
    }
    let read = read_double(text);
    let is_read = read.is_whole && !read.is_out_of_range;
    is_read.then_some(Cow::Owned(Datum::Double(read.value)))
}

fn number_key(number: &Datum, column: &SqlType) -> KeyValue {
    match &column.kind {
        TypeKind::Float | TypeKind::Double => match number {
            Datum::Double(v) => KeyValue::Exact(Value::Float(*v)),
            Datum::Int(v) => KeyValue::Exact(Value::Float(*v as f64)),
            Datum::UInt(v) => KeyValue::Exact(Value::Float(*v as f64)),
            Datum::Decimal(v) => KeyValue::Exact(Value::Float(v.to_f64())),
            _ => KeyValue::Unusable,
        },
        TypeKind::Decimal => match exact_number(number, column.decimals) {
            Some(number) => decimal_key(number, column),
            None => KeyValue::Unusable,
        },
        _ => integer_key(number, column),
    }
}

/// The number that a value is; nothing if several with so many digits behind the point may compare
/// as equal to it, as those do that are one floating-point number.
fn exact_number(datum: &Datum, decimals: u8) -> Option<Decimal> {
    match datum {
        Datum::Int(v) => Some(Decimal::from(*v)),
        Datum::UInt(v) => Some(Decimal::from(*v)),
        Datum::Decimal(v) => Some(*v),
        Datum::Double(v) if is_alone(*v, decimals) => Decimal::from_f64(*v).ok(),
        _ => None,
    }
}

/// Whether no two numbers with so many digits behind the point are this floating-point number.
fn is_alone(number: f64, decimals: u8) -> bool {
    // Fifteen digits tell floating-point numbers apart.
    number.abs() * 10_f64.powi(decimals.into()) < 1e15
}

fn integer_key(number: &Datum, column: &SqlType) -> KeyValue {
    let whole = match number {
        Datum::Int(v) => i128::from(*v),
        Datum::UInt(v) => i128::from(*v),
        other => match exact_number(other, 0) {
            Some(number) if number.compare(&number.round(0)).is_eq() => match number.to_i128() {
                Some(whole) => whole,
                None => return KeyValue::NoMatch,
            },
            Some(_) => return KeyValue::NoMatch,
            None => return KeyValue::Unusable,
        },
    };
    let of_others = if column.kind == TypeKind::Year { YEAR_BITS } else { 64 };
    let bits = column.kind.integer_bits().unwrap_or(of_others);
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

/// The bits of a year as it is stored.
const YEAR_BITS: u32 = 16;

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

    fn number(text: &str) -> Datum {
        Datum::Decimal(Decimal::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn numbers() {
        use KeyValue::{Exact, NoMatch, Unusable};
        let (text, double) = (SqlType::text(20), SqlType::new(TypeKind::Double, 22));
        let int = SqlType::new(TypeKind::Int, 11);
        let big = SqlType::big_int();
        let tiny = SqlType { unsigned: true, ..SqlType::new(TypeKind::TinyInt, 3) };
        let (year, bit) = (SqlType::new(TypeKind::Year, 4), SqlType::new(TypeKind::Bit, 8));
        let members = || ["10", "20", "2"].into_iter().map(Into::into).collect();
        let choice = SqlType::new(TypeKind::Enum(members()), 2);
        let several = SqlType::new(TypeKind::Set(members()), 7);
        let huge = "9007199254740993";
        for (datum, from, column, expected) in [
            (Datum::Int(5), &big, &int, Exact(Value::Int(5))),
            (Datum::UInt(1 << 40), &big, &int, NoMatch),
            (Datum::Int(-1), &int, &tiny, NoMatch),
            (Datum::Int(255), &int, &tiny, Exact(Value::UInt(255))),
            (Datum::Int(2024), &int, &year, Exact(Value::UInt(2024))),
            (Datum::Int(1 << 16), &int, &year, NoMatch),
            (Datum::text("5"), &text, &int, Exact(Value::Int(5))),
            (Datum::text("5.5"), &text, &int, NoMatch),
            (Datum::text("5x"), &text, &int, Unusable),
            (Datum::text(""), &text, &int, Unusable),
            (Datum::Double(7.0), &double, &int, Exact(Value::Int(7))),
            // A text that says a whole number finds that one.
            (Datum::text(huge), &text, &big, Exact(Value::Int(9007199254740993))),
            (Datum::text("9007199254740993.0"), &text, &big, Unusable),
            // Other numbers are the same floating-point number.
            (Datum::Double(9007199254740992.0), &double, &big, Unusable),
            // It is compared as the column is, as it is a parameter.
            (Datum::text(huge), &big, &big, Exact(Value::Int(9007199254740993))),
            (Datum::text(huge), &text, &double, Exact(Value::Float(9007199254740992.0))),
            // Members are numbers beside numbers, whatever their text is.
            (Datum::text("10"), &choice, &int, Exact(Value::Int(1))),
            (Datum::text("20"), &choice, &tiny, Exact(Value::UInt(2))),
            (Datum::text(""), &choice, &int, Exact(Value::Int(0))),
            (Datum::text("2"), &choice, &bit, Exact(Value::UInt(3))),
            (Datum::text("2"), &choice, &double, Exact(Value::Float(3.0))),
            (Datum::text("10,2"), &several, &int, Exact(Value::Int(5))),
            (Datum::text(""), &several, &int, Exact(Value::Int(0))),
        ] {
            assert_eq!(key_value(&datum, from, column), expected, "{datum:?} {from:?} {column:?}");
        }
    }

    #[test]
    fn decimals() {
        let (money, text) = (SqlType::decimal(6, 2), SqlType::text(20));
        let fine = SqlType::decimal(40, 20);
        let double = SqlType::new(TypeKind::Double, 22);
        assert!(matches!(key_value(&number("12.5"), &money, &money), KeyValue::Exact(_)));
        assert_eq!(key_value(&number("12.505"), &fine, &money), KeyValue::NoMatch);
        assert_eq!(key_value(&number("123456"), &fine, &money), KeyValue::NoMatch);
        let expected = key_value(&number("12.5"), &money, &money);
        assert_eq!(key_value(&Datum::Double(12.5), &double, &money), expected);
        assert_eq!(key_value(&Datum::text("12.50"), &text, &money), expected);
        // 0.1 and 0.10000000000000000001 are one floating-point number.
        assert_eq!(key_value(&Datum::Double(0.1), &double, &fine), KeyValue::Unusable);
        assert_eq!(key_value(&Datum::text("0.1"), &text, &fine), KeyValue::Unusable);
        assert!(matches!(key_value(&number("0.1"), &money, &fine), KeyValue::Exact(_)));
    }

    #[test]
    fn dates() {
        let (day, text) = (SqlType::new(TypeKind::Date, 10), SqlType::text(20));
        let key = |value: &str| key_value(&Datum::text(value), &text, &day);
        assert_eq!(key("2024-05-06"), key("240506"));
        assert_eq!(key("2024-05-06 01:00:00"), KeyValue::NoMatch);
        assert_eq!(key("soon"), KeyValue::Unusable);
    }
}
