//! Types as SHOW CREATE TABLE writes them, and the ranges of numbers.

use std::fmt::Write;

use collation::CollationId;

use super::{SqlType, TypeKind};

impl SqlType {
    /// The type as SHOW CREATE TABLE writes it, without character set and collation:
    /// `int unsigned`, `varchar(20)`, `enum('a','b')`.
    pub fn sql_name(&self) -> String {
        let binary = self.collation == CollationId::BINARY;
        let length = self.length;
        let mut name = match &self.kind {
            TypeKind::Null => "binary(0)".to_owned(),
            TypeKind::TinyInt => self.integer_name("tinyint"),
            TypeKind::SmallInt => self.integer_name("smallint"),
            TypeKind::MediumInt => self.integer_name("mediumint"),
            TypeKind::Int => self.integer_name("int"),
            TypeKind::BigInt => self.integer_name("bigint"),
            TypeKind::Decimal => format!("decimal({length},{})", self.decimals),
            TypeKind::Float => self.float_name("float"),
            TypeKind::Double => self.float_name("double"),
            TypeKind::Bit => format!("bit({length})"),
            TypeKind::Year => "year".to_owned(),
            TypeKind::Date => "date".to_owned(),
            TypeKind::Time => self.fraction_name("time"),
            TypeKind::DateTime => self.fraction_name("datetime"),
            TypeKind::Timestamp => self.fraction_name("timestamp"),
            TypeKind::Char if binary => format!("binary({length})"),
            TypeKind::Char => format!("char({length})"),
            TypeKind::VarChar if binary => format!("varbinary({length})"),
            TypeKind::VarChar => format!("varchar({length})"),
            TypeKind::TinyText => if binary { "tinyblob" } else { "tinytext" }.to_owned(),
            TypeKind::Text => if binary { "blob" } else { "text" }.to_owned(),
            TypeKind::MediumText => if binary { "mediumblob" } else { "mediumtext" }.to_owned(),
            TypeKind::LongText => if binary { "longblob" } else { "longtext" }.to_owned(),
            TypeKind::Enum(members) => members_name("enum", members),
            TypeKind::Set(members) => members_name("set", members),
            TypeKind::Json => "json".to_owned(),
        };
        if self.kind.is_number() && self.unsigned {
            name.push_str(" unsigned");
        }
        if self.kind.is_number() && self.zerofill {
            name.push_str(" zerofill");
        }
        name
    }

    /// Display widths are shown where they mean something: BOOL, and with ZEROFILL.
    fn integer_name(&self, name: &str) -> String {
        let is_bool = self.kind == TypeKind::TinyInt && self.length == 1 && !self.unsigned;
        if is_bool || self.zerofill { format!("{name}({})", self.length) } else { name.to_owned() }
    }

    fn float_name(&self, name: &str) -> String {
        match self.decimals {
            Self::NOT_FIXED.. => name.to_owned(),
            decimals => format!("{name}({},{decimals})", self.length),
        }
    }

    fn fraction_name(&self, name: &str) -> String {
        match self.decimals {
            0 => name.to_owned(),
            digits => format!("{name}({digits})"),
        }
    }

    /// The width that an integer column without one has, as ZEROFILL fills to it.
    pub fn default_width(&self) -> u32 {
        let signed = match self.kind {
            TypeKind::TinyInt => 4,
            TypeKind::SmallInt => 6,
            TypeKind::MediumInt => 9,
            TypeKind::Int => 11,
            // Twenty digits without sign, nineteen with it.
            TypeKind::BigInt => return 20,
            _ => return self.length,
        };
        signed - u32::from(self.unsigned)
    }

    /// The smallest and the largest integer of the type; those of 64 bits for other types.
    pub fn integer_range(&self) -> (i128, i128) {
        let bits = self.kind.integer_bits().unwrap_or(64);
        if self.unsigned {
            (0, (1 << bits) - 1)
        } else {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        }
    }

    /// Whether its values are characters of some character set, not bytes.
    pub fn has_charset(&self) -> bool {
        match self.kind {
            TypeKind::Enum(_) | TypeKind::Set(_) => true,
            ref kind => kind.is_text() && self.collation != CollationId::BINARY,
        }
    }

    /// The smallest and the largest number of a FLOAT or DOUBLE.
    pub fn float_range(&self) -> (f64, f64) {
        let of_kind = if self.kind == TypeKind::Float { f64::from(f32::MAX) } else { f64::MAX };
        let high = match self.decimals {
            Self::NOT_FIXED.. => of_kind,
            decimals => {
                let whole = 10f64.powi(self.length as i32 - i32::from(decimals));
                of_kind.min(whole - 10f64.powi(-i32::from(decimals)))
            }
        };
        // The limit is kept in 32 bits as well.
        let high = if self.kind == TypeKind::Float { f64::from(high as f32) } else { high };
        (if self.unsigned { 0.0 } else { -high }, high)
    }
}

impl TypeKind {
    /// Whether UNSIGNED and ZEROFILL may be said of it.
    pub fn is_number(&self) -> bool {
        self.is_integer() || matches!(self, TypeKind::Decimal | TypeKind::Float | TypeKind::Double)
    }

    /// Whether values are moments or spans of time: all of dates and times but YEAR.
    pub fn is_temporal(&self) -> bool {
        matches!(self, TypeKind::Date | TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp)
    }

    /// Whether it is TINYINT to BIGINT.
    pub fn is_integer(&self) -> bool {
        self.integer_bits().is_some()
    }

    /// The bits of a number of TINYINT to BIGINT; nothing for other types.
    pub fn integer_bits(&self) -> Option<u32> {
        match self {
            TypeKind::TinyInt => Some(8),
            TypeKind::SmallInt => Some(16),
            TypeKind::MediumInt => Some(24),
            TypeKind::Int => Some(32),
            TypeKind::BigInt => Some(64),
            _ => None,
        }
    }

    /// Whether it is one of CHAR and VARCHAR, TINYTEXT to LONGTEXT, or what is called BINARY and
    /// BLOB with the binary collation.
    pub fn is_text(&self) -> bool {
        self.is_lob() || matches!(self, TypeKind::Char | TypeKind::VarChar)
    }

    /// Whether it is one of TINYTEXT to LONGTEXT, or what is called BLOB with the binary collation.
    pub fn is_lob(&self) -> bool {
        matches!(
            self,
            TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
        )
    }

    /// Whether its values are read as strings: text, ENUM and SET.
    pub fn is_string(&self) -> bool {
        self.is_text() || matches!(self, TypeKind::Enum(_) | TypeKind::Set(_))
    }
}

fn members_name(name: &str, members: &[Box<str>]) -> String {
    let mut out = format!("{name}(");
    for (at, member) in members.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "{comma}'{}'", member.replace('\'', "''"));
    }
    out.push(')');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_show_create_table_has_them() {
        let base = |kind, length| SqlType::new(kind, length);
        let unsigned = |sql_type| SqlType { unsigned: true, ..sql_type };
        let zerofill = |sql_type| SqlType { zerofill: true, ..unsigned(sql_type) };
        let text = |kind, length| SqlType {
            collation: CollationId::DEFAULT,
            ..SqlType::new(kind, length)
        };
        let members = || ["a".into(), "it's".into()].into();
        for (sql_type, name) in [
            (base(TypeKind::Int, 11), "int"),
            (unsigned(base(TypeKind::Int, 10)), "int unsigned"),
            (zerofill(base(TypeKind::Int, 10)), "int(10) unsigned zerofill"),
            (base(TypeKind::TinyInt, 1), "tinyint(1)"),
            (base(TypeKind::TinyInt, 4), "tinyint"),
            (unsigned(base(TypeKind::TinyInt, 1)), "tinyint unsigned"),
            (SqlType::decimal(10, 2), "decimal(10,2)"),
            (unsigned(SqlType::decimal(10, 0)), "decimal(10,0) unsigned"),
            (SqlType::double(), "double"),
            (SqlType { decimals: 4, ..base(TypeKind::Float, 7) }, "float(7,4)"),
            (base(TypeKind::Bit, 8), "bit(8)"),
            (base(TypeKind::Year, 4), "year"),
            (SqlType { decimals: 6, ..base(TypeKind::DateTime, 26) }, "datetime(6)"),
            (base(TypeKind::Timestamp, 19), "timestamp"),
            (text(TypeKind::Char, 3), "char(3)"),
            (base(TypeKind::Char, 3), "binary(3)"),
            (SqlType::text(20), "varchar(20)"),
            (SqlType::binary(20), "varbinary(20)"),
            (text(TypeKind::Text, 0), "text"),
            (base(TypeKind::LongText, 0), "longblob"),
            (text(TypeKind::Enum(members()), 4), "enum('a','it''s')"),
            (text(TypeKind::Set(members()), 6), "set('a','it''s')"),
            (base(TypeKind::Json, 0), "json"),
        ] {
            assert_eq!(sql_type.sql_name(), name);
        }
    }

    #[test]
    fn ranges() {
        let range = |kind, unsigned| SqlType { unsigned, ..SqlType::new(kind, 0) }.integer_range();
        assert_eq!(range(TypeKind::TinyInt, false), (-128, 127));
        assert_eq!(range(TypeKind::MediumInt, true), (0, 16_777_215));
        assert_eq!(range(TypeKind::BigInt, false), (i64::MIN.into(), i64::MAX.into()));
        assert_eq!(range(TypeKind::BigInt, true), (0, u64::MAX.into()));
        let fixed = SqlType { decimals: 2, ..SqlType::new(TypeKind::Double, 5) };
        assert_eq!(fixed.float_range(), (-999.99, 999.99));
    }
}
