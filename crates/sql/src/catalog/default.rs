//! Defaults of columns: constants, expressions, CURRENT_TIMESTAMP.
//!
//! The constant default of a TIMESTAMP column is kept in UTC, as its rows are.
//!
//! # Owns
//! Which defaults a column may have, their values, and how a constant is shown.
//! # Not here
//! Evaluating defaults when rows are made (`execute`).

use sql_expression::{SqlError, number_of_bits};
use sql_parser::ast::{self, Expr, Literal};
use sqltype::{Converter, DateTime, Datum, Place, Problems, SqlType, TimeZone, TypeKind, format};

use super::constant::Constants;
use super::rules::Rules;
use super::{ColumnDefault, ColumnDefinition, column, error, expression};

/// The default of a column whose type and nullability are known.
pub(crate) fn define(
    column: &ColumnDefinition,
    declared: Option<&ast::ColumnDefault>,
    rules: &mut Rules<'_>,
) -> Result<ColumnDefault, SqlError> {
    let invalid = || error::invalid_default(&column.name);
    match declared {
        None if !column.nullable => Ok(ColumnDefault::None),
        // The canonical text says DEFAULT NULL where it can; what it leaves out was dropped.
        None if rules.from_catalog && !column.sql_type.kind.is_lob() => Ok(ColumnDefault::None),
        None => Ok(ColumnDefault::Value(Datum::Null)),
        Some(ast::ColumnDefault::CurrentTimestamp(digits)) => {
            let temporal = matches!(column.sql_type.kind, TypeKind::DateTime | TypeKind::Timestamp);
            if temporal && u32::from(column.sql_type.decimals) == *digits {
                Ok(ColumnDefault::Now(column.sql_type.decimals))
            } else {
                Err(invalid())
            }
        }
        Some(ast::ColumnDefault::Expr(expr)) => {
            let mut expr = Box::new(expr.clone());
            column::unqualify(&mut expr, rules)?;
            expression::check(expression::Place::Default(&column.name), &expr)?;
            Ok(ColumnDefault::Expression(expr))
        }
        Some(ast::ColumnDefault::Literal(Expr::Literal(Literal::Null))) => {
            if column.nullable {
                Ok(ColumnDefault::Value(Datum::Null))
            } else {
                Err(invalid())
            }
        }
        Some(ast::ColumnDefault::Literal(expr)) if has_no_default(&column.sql_type.kind) => {
            let refused = error::no_default_allowed(&column.name);
            match expr {
                // An empty text is no default either, but the statement goes on.
                Expr::Literal(Literal::String(text)) if text.is_empty() && !rules.strict => {
                    rules.notes.push(refused);
                    define(column, None, rules)
                }
                _ => Err(refused),
            }
        }
        Some(ast::ColumnDefault::Literal(expr)) => {
            constant(column, expr, rules).map(ColumnDefault::Value)
        }
    }
}

/// The types that have no constant defaults.
pub(crate) fn has_no_default(kind: &TypeKind) -> bool {
    kind.is_lob() || *kind == TypeKind::Json
}

/// The value of a hexadecimal or bit literal that goes into a column of this type, and its type:
/// where the column has numbers, a number.
pub(crate) fn literal_bits(value: Datum, of: SqlType, to: &SqlType) -> (Datum, SqlType) {
    let is_number = to.kind.is_integer()
        || matches!(
            to.kind,
            TypeKind::Decimal | TypeKind::Float | TypeKind::Double | TypeKind::Year
        );
    match value {
        Datum::Bytes(bytes) if is_number => (number_of_bits(&bytes), SqlType::unsigned_big_int()),
        value => (value, of),
    }
}

/// A literal as the column stores it; error 1067 if it does not fit.
fn constant(
    column: &ColumnDefinition,
    expr: &Expr,
    rules: &mut Rules<'_>,
) -> Result<Datum, SqlError> {
    let invalid = || error::invalid_default(&column.name);
    let (value, from) = Constants::value(expr, &mut rules.context).map_err(|_| invalid())?;
    if value.is_null() {
        return Err(invalid());
    }
    let (value, from) = match expr {
        Expr::Literal(Literal::Hex(_) | Literal::Bit(_)) => {
            literal_bits(value, from, &column.sql_type)
        }
        _ => (value, from),
    };
    let zone = rules.context.facts.time_zone.clone();
    let mut problems = Problems::new();
    let mut converter = Converter {
        mode: rules.store,
        zone: &zone,
        now: rules.context.now,
        problems: &mut problems,
    };
    let place = Place { table: rules.table, column: &column.name, row: 1 };
    let stored = converter.store(value, &from, &column.sql_type, place).map_err(|_| invalid())?;
    match (stored, &column.sql_type.kind) {
        (Datum::Null, _) => Err(invalid()),
        (Datum::DateTime(local), TypeKind::Timestamp) if local != DateTime::default() => {
            let moment = zone.moment(local).ok_or_else(invalid)?;
            Ok(Datum::DateTime(DateTime::from_unix_micros(moment)))
        }
        (stored, _) => Ok(stored),
    }
}

/// A constant default as text; none for NULL.
pub(crate) fn shown(value: &Datum, sql_type: &SqlType, zone: &TimeZone) -> Option<String> {
    match value {
        Datum::Null => None,
        Datum::Bytes(bytes) | Datum::Json(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        value => {
            let mut out = String::new();
            format::push_text(&mut out, &in_zone(value, sql_type, zone), sql_type);
            Some(out)
        }
    }
}

/// A default as the session sees it: that of a TIMESTAMP column in its time zone.
pub(crate) fn in_zone(value: &Datum, sql_type: &SqlType, zone: &TimeZone) -> Datum {
    match value {
        Datum::DateTime(utc) if sql_type.kind == TypeKind::Timestamp => {
            let local = utc.unix_micros().map(|moment| zone.local(moment));
            Datum::DateTime(local.unwrap_or(*utc))
        }
        value => value.clone(),
    }
}

/// What a NOT NULL column without default gets in lax modes.
pub(crate) fn implicit_default(sql_type: &SqlType) -> Datum {
    match &sql_type.kind {
        kind if kind.is_integer() && !sql_type.unsigned => Datum::Int(0),
        kind if kind.is_integer() => Datum::UInt(0),
        TypeKind::Bit => Datum::UInt(0),
        TypeKind::Decimal => Datum::Decimal(sqltype::Decimal::ZERO.round(sql_type.decimals)),
        TypeKind::Float | TypeKind::Double => Datum::Double(0.0),
        TypeKind::Year => Datum::Int(0),
        TypeKind::Date => Datum::Date(sqltype::Date::default()),
        TypeKind::DateTime | TypeKind::Timestamp => Datum::DateTime(DateTime::default()),
        TypeKind::Time => Datum::Time(sqltype::Time::default()),
        TypeKind::Enum(members) => Datum::text(members.first().map_or("", |first| first)),
        TypeKind::Json => Datum::Json(b"null".as_slice().into()),
        _ => Datum::Bytes(Box::default()),
    }
}
