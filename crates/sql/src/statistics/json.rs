//! Histograms as MySQL shows them, in `information_schema.COLUMN_STATISTICS`.

use std::fmt::Write;

use model::Value;
use sqltype::{DateTime, Datum, SqlType, TypeKind, storage};

use super::values::{Bucket, ColumnValues, TableValues};

/// A histogram as JSON. Texts are in base64, as MySQL has them; moments are in UTC.
pub(crate) fn histogram(values: &TableValues, column: &ColumnValues, sql_type: &SqlType) -> String {
    let single = column.buckets.iter().all(|bucket| bucket.low == bucket.high);
    let mut out = String::from("{\"buckets\": [");
    for (at, Bucket { low, high, up_to, distinct }) in column.buckets.iter().enumerate() {
        let (comma, low) = (if at > 0 { ", " } else { "" }, literal(low, sql_type));
        let _ = if single {
            write!(out, "{comma}[{low}, {up_to:?}]")
        } else {
            let high = literal(high, sql_type);
            write!(out, "{comma}[{low}, {high}, {up_to:?}, {}]", distinct.round() as u64)
        };
    }
    let kind = if single { "singleton" } else { "equi-height" };
    let rate = match values.rows {
        0 => 1.0,
        rows => (values.sampled as f64 / rows as f64).min(1.0),
    };
    let _ = write!(
        out,
        "], \"data-type\": \"{}\", \"null-values\": {:?}, \"collation-id\": {}, \"last-updated\": \
         \"{}\", \"sampling-rate\": {rate:?}, \"histogram-type\": \"{kind}\", \
         \"number-of-buckets-specified\": {}}}",
        type_name(&sql_type.kind),
        column.nulls,
        sql_type.collation.0,
        moment(values.made_at),
        column.asked.unwrap_or_default()
    );
    out
}

/// What MySQL calls the type of the values.
fn type_name(kind: &TypeKind) -> &'static str {
    match kind {
        TypeKind::Decimal => "decimal",
        TypeKind::Float | TypeKind::Double => "double",
        TypeKind::Date => "date",
        TypeKind::Time => "time",
        TypeKind::DateTime | TypeKind::Timestamp => "datetime",
        TypeKind::Enum(_) => "enum",
        TypeKind::Set(_) => "set",
        kind if kind.is_text() => "string",
        _ => "int",
    }
}

fn literal(value: &Value, sql_type: &SqlType) -> String {
    // Members of ENUM and SET are shown by number.
    if let (Value::UInt(number), TypeKind::Enum(_) | TypeKind::Set(_)) = (value, &sql_type.kind) {
        return number.to_string();
    }
    let datum = match (value, &sql_type.kind) {
        (Value::UInt(micros), TypeKind::Timestamp) => return format!("\"{}\"", moment(*micros)),
        _ => storage::from_owned(value.clone(), sql_type),
    };
    match &datum {
        Datum::Null => "null".to_owned(),
        Datum::Bytes(bytes) => format!("\"{}\"", sql_expression::opaque(254, bytes)),
        Datum::Int(_) | Datum::UInt(_) | Datum::Decimal(_) | Datum::Double(_) => {
            text_of(&datum, sql_type)
        }
        _ => format!("\"{}\"", text_of(&datum, sql_type)),
    }
}

fn text_of(datum: &Datum, sql_type: &SqlType) -> String {
    let text = sqltype::text(datum, sql_type).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// A moment in UTC, given in microseconds since 1970.
fn moment(micros: u64) -> String {
    DateTime::from_unix_micros(i64::try_from(micros).unwrap_or(i64::MAX)).to_text(6)
}
