//! Columns: from a declaration to a checked column.
//!
//! # Owns
//! MySQL's limits of types, the choice of collations, implicit attributes of columns.
//! # Not here
//! Values of defaults (`default`), keys (`key`), what concerns several columns (`draft`).

use std::collections::BTreeSet;
use std::sync::Arc;

use collation::{Charset, CollationId};
use model::ColumnId;
use sql_expression::SqlError;
use sql_parser::ast::{
    self, CharacterAttributes, CharacterSet, ColumnAttributes, DataType, Ident, LobSize,
    NumericAttributes,
};
use sqltype::{SqlType, TypeKind};

use super::names::check_length;
use super::rules::Rules;
use super::{ColumnDefault, ColumnDefinition, Generated, default, error, expression, option};

/// Longest comment of a column or a key, in characters.
pub(crate) const COMMENT_LENGTH_MAX: usize = 1024;
/// Longest CHAR and BINARY.
const CHAR_LENGTH_MAX: u32 = 255;
/// Longest VARCHAR, in bytes.
const VARCHAR_SIZE_MAX: u32 = 65_535;

/// A checked column; `collation` is that of the table.
pub(crate) fn define(
    declared: &ast::ColumnDefinition,
    collation: CollationId,
    rules: &mut Rules<'_>,
) -> Result<ColumnDefinition, SqlError> {
    let name = declared.name.as_str();
    check_name(name)?;
    let attributes = &declared.attributes;
    let serial = declared.data_type == DataType::Serial;
    let sql_type = sql_type(name, &declared.data_type, attributes, collation, rules)?;
    let explicit_collation = explicit_collation(&declared.data_type, attributes, rules);
    let auto_increment = attributes.auto_increment || serial;
    let nullable = attributes.nullable.unwrap_or(!serial && !auto_increment);
    let mut column = ColumnDefinition {
        name: name.to_owned(),
        column: ColumnId(0),
        sql_type,
        explicit_collation,
        // An AUTO_INCREMENT column is NOT NULL whatever is said.
        nullable: nullable && !auto_increment && !attributes.primary_key,
        default: ColumnDefault::None,
        on_update_now: None,
        auto_increment,
        generated: None,
        hidden: None,
        invisible: attributes.visible == Some(false),
        comment: comment(attributes, name)?,
    };
    if attributes.storage.as_deref() == Some("disk") {
        rules.promised("STORAGE DISK", option::IN_MEMORY)?;
    }
    if attributes.primary_key && attributes.nullable == Some(true) {
        return Err(error::primary_key_nullable());
    }
    if let Some(generated) = &attributes.generated {
        set_generated(&mut column, generated, attributes, rules)?;
        return Ok(column);
    }
    if auto_increment {
        check_auto_increment(&column, attributes)?;
        return Ok(column);
    }
    column.on_update_now = on_update(&column, attributes)?;
    column.default = default::define(&column, attributes.default.as_ref(), rules)?;
    Ok(column)
}

/// Refuses names that MySQL refuses.
pub(crate) fn check_name(name: &str) -> Result<(), SqlError> {
    if name.is_empty() || name.ends_with(' ') {
        return Err(error::wrong_column_name(name));
    }
    check_length(name)
}

fn comment(attributes: &ColumnAttributes, name: &str) -> Result<String, SqlError> {
    let comment = attributes.comment.as_deref().unwrap_or_default();
    if comment.chars().count() > COMMENT_LENGTH_MAX {
        Err(SqlError::new(
            1629,
            "HY000",
            format!("Comment for field '{name}' is too long (max = {COMMENT_LENGTH_MAX})"),
        ))
    } else {
        Ok(comment.to_owned())
    }
}

fn set_generated(
    column: &mut ColumnDefinition,
    generated: &ast::GeneratedColumn,
    attributes: &ColumnAttributes,
    rules: &Rules<'_>,
) -> Result<(), SqlError> {
    if attributes.default.is_some() || attributes.on_update.is_some() || column.auto_increment {
        // The grammar has no place for these words there.
        return Err(SqlError::new(
            1221,
            "HY000",
            "Incorrect usage of DEFAULT and generated column",
        ));
    }
    let mut expression = Box::new(generated.expr.clone());
    unqualify(&mut expression, rules)?;
    expression::check(expression::Place::Generated(&column.name), &expression)?;
    column.generated = Some(Generated { expression, stored: generated.stored });
    Ok(())
}

/// Takes the table's own name from the columns of an expression.
pub(crate) fn unqualify(expr: &mut ast::Expr, rules: &Rules<'_>) -> Result<(), SqlError> {
    expression::unqualify(expr, rules.table).map_err(|foreign| {
        let message = format!("Unknown column '{foreign}' in 'field list'");
        SqlError::new(1054, "42S22", message)
    })
}

fn check_auto_increment(
    column: &ColumnDefinition,
    attributes: &ColumnAttributes,
) -> Result<(), SqlError> {
    if attributes.default.is_some() {
        return Err(error::invalid_default(&column.name));
    }
    let is_integer = column.sql_type.kind.is_integer();
    if is_integer && attributes.on_update.is_none() {
        Ok(())
    } else {
        Err(error::wrong_specifier(&column.name))
    }
}

fn on_update(
    column: &ColumnDefinition,
    attributes: &ColumnAttributes,
) -> Result<Option<u8>, SqlError> {
    let Some(digits) = attributes.on_update else { return Ok(None) };
    let temporal = matches!(column.sql_type.kind, TypeKind::DateTime | TypeKind::Timestamp);
    if temporal && u32::from(column.sql_type.decimals) == digits {
        Ok(Some(column.sql_type.decimals))
    } else {
        Err(error::invalid_on_update(&column.name))
    }
}

fn sql_type(
    name: &str,
    data_type: &DataType,
    attributes: &ColumnAttributes,
    collation: CollationId,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let collate = attributes.collation.as_ref();
    let text = |kind, length, character: &CharacterAttributes| {
        let collation = text_collation(character, collate, collation)?;
        Ok(SqlType { collation, ..SqlType::new(kind, length) })
    };
    Ok(match data_type {
        DataType::Integer { size, width, numeric } => {
            integer(name, *size, *width, *numeric, rules)?
        }
        DataType::Serial => SqlType::unsigned_big_int(),
        DataType::Decimal { precision, scale, numeric } => {
            decimal(name, *precision, *scale, *numeric, rules)?
        }
        DataType::Float { precision, scale, numeric } => {
            float(name, *precision, *scale, *numeric, rules)?
        }
        DataType::Double { digits, real, numeric } => {
            let kind =
                if *real && rules.real_as_float { TypeKind::Float } else { TypeKind::Double };
            float_digits(name, kind, *digits, *numeric, rules)?
        }
        DataType::Bit(length) => bit(name, *length)?,
        DataType::Char(length, character) => {
            char(name, length.unwrap_or(1), |length| text(TypeKind::Char, length, character))?
        }
        DataType::Binary(length) => {
            char(name, length.unwrap_or(1), |length| Ok(SqlType::new(TypeKind::Char, length)))?
        }
        DataType::Varchar(length, character) => {
            let sql_type = text(TypeKind::VarChar, *length, character)?;
            varchar(name, sql_type, rules)?
        }
        DataType::Varbinary(length) => varchar(name, SqlType::binary(*length), rules)?,
        DataType::Text(size, length, character) => {
            let sql_type = text(TypeKind::Text, 0, character)?;
            lob(sql_type, *size, *length)
        }
        DataType::Blob(size, length) => lob(SqlType::new(TypeKind::Text, 0), *size, *length),
        DataType::Date => SqlType::new(TypeKind::Date, 10),
        DataType::Time(digits) => temporal(name, TypeKind::Time, 10, *digits)?,
        DataType::DateTime(digits) => temporal(name, TypeKind::DateTime, 19, *digits)?,
        DataType::Timestamp(digits) => temporal(name, TypeKind::Timestamp, 19, *digits)?,
        DataType::Year(width) => match width.unwrap_or(4) {
            4 => SqlType { unsigned: true, ..SqlType::new(TypeKind::Year, 4) },
            _ => return Err(error::wrong_year_width()),
        },
        DataType::Enum(members, character) => {
            let sql_type = text(TypeKind::Null, 0, character)?;
            members_type(name, sql_type, members, true, rules)?
        }
        DataType::Set(members, character) => {
            let sql_type = text(TypeKind::Null, 0, character)?;
            members_type(name, sql_type, members, false, rules)?
        }
        DataType::Json => SqlType::new(TypeKind::Json, u32::MAX),
        DataType::Geometry(kind) => return Err(error::unsupported(kind.name())),
    })
}

/// The type of a column of JSON_TABLE; `collation` is that of texts that name none.
pub(crate) fn type_of(
    name: &str,
    data_type: &DataType,
    collate: Option<&Ident>,
    collation: CollationId,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let attributes =
        ColumnAttributes { collation: collate.cloned(), ..ColumnAttributes::default() };
    sql_type(name, data_type, &attributes, collation, rules)
}

/// Whether the column itself says which character set or collation it has.
fn explicit_collation(
    data_type: &DataType,
    attributes: &ColumnAttributes,
    rules: &Rules<'_>,
) -> bool {
    let Some(character) = data_type.character_attributes() else { return false };
    let charset = character.charset.is_some() || character.binary;
    if rules.from_catalog {
        // The canonical text repeats a collation that is not its character set's default.
        charset && attributes.collation.is_some()
    } else {
        charset || attributes.collation.is_some()
    }
}

/// The collation of a text column.
fn text_collation(
    character: &CharacterAttributes,
    collate: Option<&Ident>,
    of_table: CollationId,
) -> Result<CollationId, SqlError> {
    let charset = match &character.charset {
        Some(CharacterSet::Name(name)) => Some(charset(name.as_str())?),
        Some(CharacterSet::Default) | None => None,
    };
    let collation = collate.map(|name| collation(name.as_str())).transpose()?;
    let chosen = match (charset, collation) {
        (Some(charset), Some(collation)) => {
            check_pair(charset, collation)?;
            collation
        }
        (None, Some(collation)) => collation,
        (Some(charset), None) if character.binary => charset.binary_collation(),
        (None, None) if character.binary => of_table.charset().binary_collation(),
        (Some(charset), None) => charset.default_collation(),
        (None, None) => of_table,
    };
    Ok(chosen)
}

/// The character set of this name.
pub(crate) fn charset(name: &str) -> Result<Charset, SqlError> {
    Charset::by_name(name).ok_or_else(|| error::unknown_charset(name))
}

/// The collation of this name.
pub(crate) fn collation(name: &str) -> Result<CollationId, SqlError> {
    CollationId::by_name(name).ok_or_else(|| error::unknown_collation(name))
}

/// Refuses a collation of another character set.
pub(crate) fn check_pair(charset: Charset, collation: CollationId) -> Result<(), SqlError> {
    if collation.charset() == charset {
        Ok(())
    } else {
        Err(error::collation_of_other_charset(collation.name(), charset.name()))
    }
}

fn integer(
    name: &str,
    size: u8,
    width: Option<u32>,
    numeric: NumericAttributes,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let (kind, digits, unsigned_digits) = match size {
        1 => (TypeKind::TinyInt, 4, 3),
        2 => (TypeKind::SmallInt, 6, 5),
        3 => (TypeKind::MediumInt, 9, 8),
        4 => (TypeKind::Int, 11, 10),
        _ => (TypeKind::BigInt, 20, 20),
    };
    if width.is_some_and(|width| width > 255) {
        return Err(error::width_too_big(name, 255));
    }
    if width.is_some() && !(size == 1 && width == Some(1)) {
        rules.note(error::deprecated_width());
    }
    if numeric.zerofill {
        rules.note(error::deprecated_zerofill());
    }
    let natural = if numeric.unsigned { unsigned_digits } else { digits };
    let length = width.unwrap_or(natural);
    let (unsigned, zerofill) = (numeric.unsigned, numeric.zerofill);
    Ok(SqlType { unsigned, zerofill, ..SqlType::new(kind, length) })
}

fn decimal(
    name: &str,
    precision: Option<u32>,
    scale: Option<u32>,
    numeric: NumericAttributes,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let scale = scale.unwrap_or(0);
    let precision = match precision {
        Some(0) | None => 10,
        Some(precision) => precision,
    };
    if scale > 30 {
        return Err(error::scale_too_big(scale, name, 30));
    }
    if precision > 65 {
        return Err(error::precision_too_big(precision, name, 65));
    }
    if precision < scale {
        return Err(error::precision_below_scale(name));
    }
    note_signs(numeric, rules);
    let sql_type = SqlType::decimal(precision, scale as u8);
    Ok(SqlType { unsigned: numeric.unsigned, zerofill: numeric.zerofill, ..sql_type })
}

/// UNSIGNED and ZEROFILL of anything but integers are on their way out.
fn note_signs(numeric: NumericAttributes, rules: &mut Rules<'_>) {
    if numeric.unsigned {
        rules.note(error::deprecated_unsigned());
    }
    if numeric.zerofill {
        rules.note(error::deprecated_zerofill());
    }
}

fn float(
    name: &str,
    precision: Option<u32>,
    scale: Option<u32>,
    numeric: NumericAttributes,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    match (precision, scale) {
        (Some(precision), Some(scale)) => {
            float_digits(name, TypeKind::Float, Some((precision, scale)), numeric, rules)
        }
        (None, _) | (Some(0..=24), None) => {
            float_digits(name, TypeKind::Float, None, numeric, rules)
        }
        (Some(25..=53), None) => float_digits(name, TypeKind::Double, None, numeric, rules),
        (Some(_), None) => Err(error::wrong_specifier(name)),
    }
}

fn float_digits(
    name: &str,
    kind: TypeKind,
    digits: Option<(u32, u32)>,
    numeric: NumericAttributes,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let (length, decimals) = match digits {
        None if kind == TypeKind::Float => (12, SqlType::NOT_FIXED),
        None => (22, SqlType::NOT_FIXED),
        Some((_, scale)) if scale > 30 => return Err(error::scale_too_big(scale, name, 30)),
        Some((length, _)) if length > 255 => return Err(error::width_too_big(name, 255)),
        Some((length, scale)) if length < scale => {
            return Err(error::precision_below_scale(name));
        }
        Some((length, scale)) => {
            rules.note(error::deprecated_float_digits());
            (length, scale as u8)
        }
    };
    note_signs(numeric, rules);
    let (unsigned, zerofill) = (numeric.unsigned, numeric.zerofill);
    Ok(SqlType { unsigned, zerofill, decimals, ..SqlType::new(kind, length) })
}

fn bit(name: &str, length: Option<u32>) -> Result<SqlType, SqlError> {
    match length.unwrap_or(1) {
        0 => Ok(SqlType { unsigned: true, ..SqlType::new(TypeKind::Bit, 1) }),
        length @ 1..=64 => Ok(SqlType { unsigned: true, ..SqlType::new(TypeKind::Bit, length) }),
        _ => Err(error::width_too_big(name, 64)),
    }
}

fn char(
    name: &str,
    length: u32,
    of_length: impl FnOnce(u32) -> Result<SqlType, SqlError>,
) -> Result<SqlType, SqlError> {
    if length > CHAR_LENGTH_MAX {
        Err(error::column_too_long(name, CHAR_LENGTH_MAX))
    } else {
        of_length(length)
    }
}

/// VARCHAR and VARBINARY: too long ones become TEXT or BLOB where the SQL mode is lax.
fn varchar(name: &str, sql_type: SqlType, rules: &mut Rules<'_>) -> Result<SqlType, SqlError> {
    let width = u32::from(sql_type.collation.charset().max_len());
    let most = VARCHAR_SIZE_MAX / width;
    if sql_type.length <= most {
        return Ok(sql_type);
    }
    if rules.strict {
        return Err(error::column_too_long(name, most));
    }
    let (from, to) = match sql_type.collation {
        CollationId::BINARY => ("VARBINARY", "BLOB"),
        _ => ("VARCHAR", "TEXT"),
    };
    rules.note(SqlError::new(
        1246,
        "HY000",
        format!("Converting column '{name}' from {from} to {to}"),
    ));
    let length = sql_type.length;
    Ok(lob(sql_type, LobSize::Normal, Some(length)))
}

/// TEXT and BLOB; a length chooses the smallest kind that holds as many characters.
fn lob(sql_type: SqlType, size: LobSize, length: Option<u32>) -> SqlType {
    let width = u64::from(sql_type.collation.charset().max_len());
    let size = match length.map(|length| u64::from(length) * width) {
        None | Some(0) => size,
        Some(1..=0xFF) => LobSize::Tiny,
        Some(0x100..=0xFFFF) => LobSize::Normal,
        Some(0x1_0000..=0xFF_FFFF) => LobSize::Medium,
        Some(_) => LobSize::Long,
    };
    let (kind, length) = match size {
        LobSize::Tiny => (TypeKind::TinyText, 0xFF),
        LobSize::Normal => (TypeKind::Text, 0xFFFF),
        LobSize::Medium => (TypeKind::MediumText, 0xFF_FFFF),
        LobSize::Long => (TypeKind::LongText, u32::MAX),
    };
    SqlType { kind, length, ..sql_type }
}

fn temporal(
    name: &str,
    kind: TypeKind,
    width: u32,
    digits: Option<u32>,
) -> Result<SqlType, SqlError> {
    match digits.unwrap_or(0) {
        0 => Ok(SqlType::new(kind, width)),
        digits @ 1..=6 => {
            Ok(SqlType { decimals: digits as u8, ..SqlType::new(kind, width + 1 + digits) })
        }
        digits => Err(error::precision_too_big(digits, name, 6)),
    }
}

/// ENUM and SET.
fn members_type(
    name: &str,
    sql_type: SqlType,
    members: &[Box<[u8]>],
    is_enum: bool,
    rules: &mut Rules<'_>,
) -> Result<SqlType, SqlError> {
    let (word, most) = if is_enum { ("ENUM", 65_535) } else { ("SET", 64) };
    if members.len() > most {
        return Err(error::too_many_members(name, word));
    }
    let mut texts: Vec<Box<str>> = Vec::with_capacity(members.len());
    for member in members {
        let text = String::from_utf8_lossy(member);
        // Trailing spaces go, as they would from a CHAR.
        let text = text.trim_end_matches(' ');
        if text.chars().count() > 255 {
            return Err(error::member_too_long(name));
        }
        if !is_enum && text.contains(',') {
            return Err(error::illegal_member(text));
        }
        texts.push(text.into());
    }
    let mut seen = BTreeSet::new();
    for text in &texts {
        let mut weights = Vec::new();
        collation::sort_key(sql_type.collation, text.as_bytes(), &mut weights);
        if !seen.insert(weights) {
            let duplicate = error::duplicate_member(name, text, word);
            if rules.strict {
                return Err(duplicate);
            }
            rules.note(duplicate);
        }
    }
    let lengths = texts.iter().map(|text| text.chars().count() as u32);
    let length = if is_enum {
        lengths.max().unwrap_or(0)
    } else {
        lengths.sum::<u32>() + texts.len().saturating_sub(1) as u32
    };
    let members: Arc<[Box<str>]> = texts.into();
    let kind = if is_enum { TypeKind::Enum(members) } else { TypeKind::Set(members) };
    Ok(SqlType { kind, length, ..sql_type })
}
