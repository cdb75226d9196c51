//! Values of one type as bytes and in order: GROUP BY, DISTINCT, ORDER BY.
//!
//! # Owns
//! [`group_key`], whose bytes are the same for equal values, and [`compare_values`], the order of a
//! sort. NULL equals NULL and comes first.
//! # Not here
//! Comparison of values of different types (`comparison`).

use std::cmp::Ordering;

use collation::CollationId;
use sqltype::storage::set_bits;
use sqltype::{DateTime, Datum, Decimal, SqlType, TypeKind};

use crate::convert;

/// The key of a row's values, whose types are given: the same bytes for rows that are equal.
pub fn group_key<'t>(values: &[Datum], types: impl IntoIterator<Item = &'t SqlType>) -> Vec<u8> {
    let mut key = Vec::with_capacity(16 * values.len());
    for (value, sql_type) in values.iter().zip(types) {
        push_group_key(value, sql_type, &mut key);
    }
    key
}

/// Appends the key of a value: the same bytes for equal values, and no key is the beginning of
/// another.
pub fn push_group_key(value: &Datum, sql_type: &SqlType, out: &mut Vec<u8>) {
    out.push(u8::from(!value.is_null()));
    match value {
        Datum::Null => {}
        Datum::Int(number) => out.extend(i128::from(*number).to_be_bytes()),
        Datum::UInt(number) => out.extend(i128::from(*number).to_be_bytes()),
        Datum::Double(number) => out.extend((number + 0.0).to_bits().to_be_bytes()),
        Datum::Decimal(_) => push_decimal(value, out),
        Datum::Bytes(text) => {
            let start = out.len();
            out.extend([0; 4]);
            collation::sort_key(sql_type.collation, text, out);
            let size = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&size.to_be_bytes());
        }
        Datum::Date(date) => out.extend(date.to_number().to_be_bytes()),
        Datum::DateTime(moment) => push_date_time(*moment, out),
        Datum::Time(time) => out.extend(time.micros.to_be_bytes()),
        Datum::Json(_) => push_json(value, sql_type, out),
    }
}

/// A decimal's value, whatever its scale, with its end.
pub(crate) fn push_decimal(value: &Datum, out: &mut Vec<u8>) {
    let decimal = match value {
        Datum::Decimal(decimal) => *decimal,
        Datum::Int(number) => Decimal::from(*number),
        Datum::UInt(number) => Decimal::from(*number),
        _ => Decimal::ZERO,
    };
    let text = decimal.to_string();
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    out.extend(text.as_bytes());
    out.push(0);
}

pub(crate) fn push_date_time(moment: DateTime, out: &mut Vec<u8>) {
    out.extend(moment.to_number().to_be_bytes());
    out.extend(moment.micros.to_be_bytes());
}

/// JSON values that are equal print alike, but for numbers of different kinds.
pub(crate) fn push_json(value: &Datum, sql_type: &SqlType, out: &mut Vec<u8>) {
    let text = crate::function::json_key(value, sql_type);
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text);
}

/// The order of two values of one type; NULL comes first. ENUM and SET are in the order of their
/// definition.
pub fn compare_values(a: &Datum, b: &Datum, sql_type: &SqlType) -> Ordering {
    match (a, b) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Less,
        (_, Datum::Null) => Ordering::Greater,
        (Datum::Bytes(a), Datum::Bytes(b)) => match &sql_type.kind {
            TypeKind::Enum(members) => {
                let at = |text: &[u8]| members.iter().position(|member| member.as_bytes() == text);
                at(a).cmp(&at(b))
            }
            TypeKind::Set(members) => set_bits(members, a).cmp(&set_bits(members, b)),
            _ => collation::compare(sql_type.collation, a, b),
        },
        (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
        (Datum::UInt(a), Datum::UInt(b)) => a.cmp(b),
        (Datum::Int(_) | Datum::UInt(_), Datum::Int(_) | Datum::UInt(_)) => whole(a).cmp(&whole(b)),
        (Datum::Double(a), Datum::Double(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Datum::Decimal(a), Datum::Decimal(b)) => a.compare(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::DateTime(a), Datum::DateTime(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::Json(_), Datum::Json(_)) => {
            crate::function::compare_json(a, sql_type, b, sql_type).unwrap_or(Ordering::Equal)
        }
        // Values that an expression gave in another kind than its type says: by their text.
        _ => {
            let (a, b) = (convert::to_text(a, sql_type), convert::to_text(b, sql_type));
            collation::compare(CollationId::BINARY, &a, &b)
        }
    }
}

/// A number whose order is that of [`compare_values`] where it differs: values with the same number
/// are still to be compared. Nothing for values of which no number is known.
pub fn sort_prefix(value: &Datum, sql_type: &SqlType) -> Option<u64> {
    match (value, &sql_type.kind) {
        (Datum::Null, _) => Some(0),
        (Datum::Int(_) | Datum::UInt(_), kind) if kind.is_integer() => {
            // Signed and unsigned ones on one scale, of half the steps.
            Some(((whole(value) + (1 << 63)) >> 1) as u64)
        }
        (Datum::Bytes(text), kind) if kind.is_text() => {
            Some(collation::sort_prefix(sql_type.collation, text))
        }
        _ => None,
    }
}

fn whole(value: &Datum) -> i128 {
    match value {
        Datum::Int(number) => (*number).into(),
        Datum::UInt(number) => (*number).into(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_keys() {
        let key = |value: Datum, sql_type: &SqlType| {
            let mut out = Vec::new();
            push_group_key(&value, sql_type, &mut out);
            out
        };
        let text = SqlType::text(10);
        assert_eq!(key(Datum::text("Straße"), &text), key(Datum::text("STRASSE"), &text));
        assert_ne!(key(Datum::text("a"), &text), key(Datum::text("b"), &text));
        let decimal = |digits: &str| Datum::Decimal(Decimal::parse(digits.as_bytes()).unwrap());
        let sql_type = SqlType::decimal(10, 2);
        assert_eq!(key(decimal("1.50"), &sql_type), key(decimal("1.5"), &sql_type));
        assert_eq!(key(decimal("100"), &sql_type), key(decimal("100.00"), &sql_type));
        assert_ne!(key(decimal("100"), &sql_type), key(decimal("1"), &sql_type));
        let int = SqlType::big_int();
        assert_eq!(key(Datum::Int(5), &int), key(Datum::UInt(5), &int));
        assert_eq!(key(Datum::Double(0.0), &int), key(Datum::Double(-0.0), &int));
    }

    #[test]
    fn prefixes_are_in_the_order_of_values() {
        let ints = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, 300, i64::MAX - 1, i64::MAX];
        let mut numbers: Vec<Datum> = ints.map(Datum::Int).into();
        numbers.extend([0, 1, 7, u64::MAX - 1, u64::MAX].map(Datum::UInt));
        let texts =
            ["", " ", "a", "A", "ab", "a b", "abcdefgh", "abcdefghi", "ABCDEFGHX", "ß", "ss"];
        let texts: Vec<Datum> = texts.map(Datum::text).into();
        for (values, sql_type) in [(numbers, SqlType::big_int()), (texts, SqlType::text(10))] {
            let values: Vec<Datum> = values.into_iter().chain([Datum::Null]).collect();
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                let prefix = |value| sort_prefix(value, &sql_type).expect("a number");
                let order = prefix(a).cmp(&prefix(b));
                let expected = compare_values(a, b, &sql_type);
                assert!(order.is_eq() || order == expected, "{a:?} {b:?}");
            }
        }
        assert_eq!(sort_prefix(&Datum::Int(1), &SqlType::text(10)), None, "of another kind");
    }

    #[test]
    fn values_of_one_type_are_in_order() {
        let kind = TypeKind::Enum(["z".into(), "a".into()].into());
        let members = SqlType { collation: CollationId::DEFAULT, ..SqlType::new(kind, 0) };
        assert!(compare_values(&Datum::text("z"), &Datum::text("a"), &members).is_lt());
        assert!(compare_values(&Datum::Null, &Datum::Int(i64::MIN), &SqlType::big_int()).is_lt());
        let unsigned = SqlType::unsigned_big_int();
        assert!(compare_values(&Datum::UInt(u64::MAX), &Datum::Int(-1), &unsigned).is_gt());
    }
}
