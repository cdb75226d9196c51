//! What a column or an expression is.

mod names;

use std::sync::Arc;

use collation::CollationId;

/// MySQL's data types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// The type of NULL itself.
    Null,
    /// TINYINT; BOOL is `TINYINT(1)`.
    TinyInt,
    /// SMALLINT.
    SmallInt,
    /// MEDIUMINT.
    MediumInt,
    /// INT.
    Int,
    /// BIGINT.
    BigInt,
    /// DECIMAL; `length` is the precision (at most 65), `decimals` the scale (at most 30).
    Decimal,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// BIT; `length` in bits.
    Bit,
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME; `decimals` digits of a second.
    Time,
    /// DATETIME; `decimals` digits of a second.
    DateTime,
    /// TIMESTAMP; `decimals` digits of a second.
    Timestamp,
    /// CHAR, and BINARY under the collation `binary`; `length` in characters or bytes.
    Char,
    /// VARCHAR, and VARBINARY under the collation `binary`.
    VarChar,
    /// TINYTEXT and TINYBLOB.
    TinyText,
    /// TEXT and BLOB.
    Text,
    /// MEDIUMTEXT and MEDIUMBLOB.
    MediumText,
    /// LONGTEXT and LONGBLOB.
    LongText,
    /// ENUM with its members in order.
    Enum(Arc<[Box<str>]>),
    /// SET with its members in order.
    Set(Arc<[Box<str>]>),
    /// JSON.
    Json,
}

/// The type of a column or an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlType {
    /// Which of MySQL's types.
    pub kind: TypeKind,
    /// Numbers without sign.
    pub unsigned: bool,
    /// ZEROFILL; implies `unsigned`.
    pub zerofill: bool,
    /// Characters, bytes, bits, digits or display width, as the kind has it.
    pub length: u32,
    /// Digits after the point; [`SqlType::NOT_FIXED`] for floating-point numbers without.
    pub decimals: u8,
    /// How text compares; `binary` for everything that is no text.
    pub collation: CollationId,
}

impl SqlType {
    /// `decimals` of floating-point types without a fixed number of digits.
    pub const NOT_FIXED: u8 = 31;

    /// A type of this kind with nothing else said.
    pub fn new(kind: TypeKind, length: u32) -> Self {
        let (unsigned, zerofill, decimals) = (false, false, 0);
        let collation = CollationId::BINARY;
        Self { kind, unsigned, zerofill, length, decimals, collation }
    }

    /// BIGINT.
    pub fn big_int() -> Self {
        Self::new(TypeKind::BigInt, 20)
    }

    /// BIGINT UNSIGNED.
    pub fn unsigned_big_int() -> Self {
        Self { unsigned: true, ..Self::big_int() }
    }

    /// DOUBLE.
    pub fn double() -> Self {
        Self { decimals: Self::NOT_FIXED, ..Self::new(TypeKind::Double, 23) }
    }

    /// DECIMAL of this precision and scale.
    pub fn decimal(precision: u32, scale: u8) -> Self {
        Self { decimals: scale, ..Self::new(TypeKind::Decimal, precision) }
    }

    /// VARCHAR of this many characters in the default collation.
    pub fn text(length: u32) -> Self {
        let collation = CollationId::UTF8MB4_0900_AI_CI;
        Self { collation, ..Self::new(TypeKind::VarChar, length) }
    }

    /// VARBINARY of this many bytes.
    pub fn binary(length: u32) -> Self {
        Self::new(TypeKind::VarChar, length)
    }
}
