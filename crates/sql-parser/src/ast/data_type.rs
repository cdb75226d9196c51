//! The types a column can be declared with.

use super::{CharacterSet, Ident};

/// A declared type. Synonyms are resolved: INT4 is an integer, BOOL a `tinyint(1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// TINYINT to BIGINT.
    Integer {
        /// Bytes: 1, 2, 3, 4 or 8.
        size: u8,
        /// Display width.
        width: Option<u32>,
        /// UNSIGNED and ZEROFILL.
        numeric: NumericAttributes,
    },
    /// DECIMAL, NUMERIC, DEC, FIXED.
    Decimal {
        /// Digits in all.
        precision: Option<u32>,
        /// Digits after the point.
        scale: Option<u32>,
        /// UNSIGNED and ZEROFILL.
        numeric: NumericAttributes,
    },
    /// FLOAT.
    Float {
        /// `FLOAT(precision)`, or the digits in all of `FLOAT(digits, scale)`.
        precision: Option<u32>,
        /// Digits after the point.
        scale: Option<u32>,
        /// UNSIGNED and ZEROFILL.
        numeric: NumericAttributes,
    },
    /// DOUBLE; REAL too, which `sql_mode` may make a FLOAT.
    Double {
        /// Digits in all and after the point.
        digits: Option<(u32, u32)>,
        /// Written REAL.
        real: bool,
        /// UNSIGNED and ZEROFILL.
        numeric: NumericAttributes,
    },
    /// BIT.
    Bit(Option<u32>),
    /// CHAR, with its length in characters.
    Char(Option<u32>, CharacterAttributes),
    /// VARCHAR.
    Varchar(u32, CharacterAttributes),
    /// BINARY.
    Binary(Option<u32>),
    /// VARBINARY.
    Varbinary(u32),
    /// TINYTEXT to LONGTEXT; a length chooses the smallest that fits.
    Text(LobSize, Option<u32>, CharacterAttributes),
    /// TINYBLOB to LONGBLOB; a length chooses the smallest that fits.
    Blob(LobSize, Option<u32>),
    /// DATE.
    Date,
    /// TIME with its fractional digits.
    Time(Option<u32>),
    /// DATETIME with its fractional digits.
    DateTime(Option<u32>),
    /// TIMESTAMP with its fractional digits.
    Timestamp(Option<u32>),
    /// YEAR; a width is only 4.
    Year(Option<u32>),
    /// ENUM with its members.
    Enum(Vec<Box<[u8]>>, CharacterAttributes),
    /// SET with its members.
    Set(Vec<Box<[u8]>>, CharacterAttributes),
    /// JSON.
    Json,
    /// A spatial type.
    Geometry(GeometryKind),
    /// SERIAL: BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE.
    Serial,
}

/// UNSIGNED and ZEROFILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumericAttributes {
    /// UNSIGNED, also where only ZEROFILL is said.
    pub unsigned: bool,
    /// ZEROFILL.
    pub zerofill: bool,
}

/// CHARACTER SET and BINARY of a text type. COLLATE is an attribute of the column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CharacterAttributes {
    /// CHARACTER SET. NCHAR and its kin are utf8mb3 here.
    pub charset: Option<CharacterSet>,
    /// BINARY: the `_bin` collation of the character set.
    pub binary: bool,
}

/// The four sizes of TEXT and BLOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LobSize {
    /// 255 bytes.
    Tiny,
    /// 65,535 bytes.
    Normal,
    /// 16 MB.
    Medium,
    /// 4 GB.
    Long,
}

/// The spatial types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named by what it is")]
pub enum GeometryKind {
    Geometry,
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

impl GeometryKind {
    /// The type's name, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Geometry => "geometry",
            Self::Point => "point",
            Self::LineString => "linestring",
            Self::Polygon => "polygon",
            Self::MultiPoint => "multipoint",
            Self::MultiLineString => "multilinestring",
            Self::MultiPolygon => "multipolygon",
            Self::GeometryCollection => "geomcollection",
        }
    }
}

impl DataType {
    /// The character set and the like, of the types that hold text.
    pub fn character_attributes(&self) -> Option<&CharacterAttributes> {
        match self {
            Self::Char(_, attributes)
            | Self::Varchar(_, attributes)
            | Self::Text(_, _, attributes)
            | Self::Enum(_, attributes)
            | Self::Set(_, attributes) => Some(attributes),
            _ => None,
        }
    }

    /// The named character set, if one is.
    pub fn charset_name(&self) -> Option<&Ident> {
        match self.character_attributes()?.charset.as_ref()? {
            CharacterSet::Name(name) => Some(name),
            CharacterSet::Default => None,
        }
    }
}
