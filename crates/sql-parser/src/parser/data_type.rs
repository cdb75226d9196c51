//! The declared types of columns, with all their synonyms.

use super::{Parser, Result};
use crate::ast::{
    CharacterAttributes, CharacterSet, DataType, GeometryKind, Ident, LobSize, NumericAttributes,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// A type, up to the attributes that are the column's.
    pub(super) fn data_type(&mut self) -> Result<DataType> {
        if let Some(geometry) = self.geometry_kind() {
            return Ok(geometry);
        }
        let word = self.token.keyword;
        if let Some(size) = integer_size(word) {
            self.advance();
            let width = self.optional_length()?;
            return Ok(DataType::Integer { size, width, numeric: self.numeric_attributes() });
        }
        self.advance();
        Ok(match word {
            K::Bool | K::Boolean => {
                let numeric = NumericAttributes::default();
                DataType::Integer { size: 1, width: Some(1), numeric }
            }
            K::Serial => DataType::Serial,
            K::Decimal | K::Numeric | K::Dec | K::Fixed => {
                let (precision, scale) = self.precision_and_scale()?;
                DataType::Decimal { precision, scale, numeric: self.numeric_attributes() }
            }
            K::Float | K::Float4 => {
                let (precision, scale) = self.precision_and_scale()?;
                DataType::Float { precision, scale, numeric: self.numeric_attributes() }
            }
            K::Double | K::Float8 | K::Real => self.double(word == K::Real)?,
            K::Bit => DataType::Bit(self.optional_length()?),
            K::Date => DataType::Date,
            K::Time => DataType::Time(self.optional_length()?),
            K::Datetime => DataType::DateTime(self.optional_length()?),
            K::Timestamp => DataType::Timestamp(self.optional_length()?),
            K::Year => {
                let width = self.optional_length()?;
                self.numeric_attributes();
                DataType::Year(width)
            }
            K::Json => DataType::Json,
            K::Enum => {
                let members = self.parenthesised_list(Self::string_or_bits)?;
                DataType::Enum(members, self.character_attributes()?)
            }
            K::Set => {
                let members = self.parenthesised_list(Self::string_or_bits)?;
                DataType::Set(members, self.character_attributes()?)
            }
            K::Binary => DataType::Binary(self.optional_length()?),
            K::Varbinary => DataType::Varbinary(self.required_length()?),
            K::Tinyblob => DataType::Blob(LobSize::Tiny, None),
            K::Blob => DataType::Blob(LobSize::Normal, self.optional_length()?),
            K::Mediumblob => DataType::Blob(LobSize::Medium, None),
            K::Longblob => DataType::Blob(LobSize::Long, None),
            K::Tinytext => self.text_type(LobSize::Tiny)?,
            K::Text => {
                let length = self.optional_length()?;
                DataType::Text(LobSize::Normal, length, self.character_attributes()?)
            }
            K::Mediumtext => self.text_type(LobSize::Medium)?,
            K::Longtext => self.text_type(LobSize::Long)?,
            K::Long => self.long()?,
            _ => return self.character_type(word),
        })
    }

    /// CHAR, VARCHAR and their many names; `word` is consumed.
    fn character_type(&mut self, word: K) -> Result<DataType> {
        match word {
            K::Char | K::Character if self.eat_word(K::Varying) => self.varchar(false),
            K::Char | K::Character => self.char(false),
            K::Varchar | K::Varcharacter => self.varchar(false),
            K::Nvarchar => self.varchar(true),
            K::Nchar if self.eat_word(K::Varchar) || self.eat_word(K::Varying) => {
                self.varchar(true)
            }
            K::Nchar => self.char(true),
            K::National => {
                match self.eat_any(&[K::Char, K::Character, K::Varchar, K::Varcharacter]) {
                    Some(K::Char | K::Character) => {
                        if self.eat_word(K::Varying) {
                            self.varchar(true)
                        } else {
                            self.char(true)
                        }
                    }
                    Some(_) => self.varchar(true),
                    None => Err(self.error()),
                }
            }
            _ => Err(self.error_before()),
        }
    }

    fn char(&mut self, national: bool) -> Result<DataType> {
        let length = self.optional_length()?;
        Ok(DataType::Char(length, self.attributes_of(national)?))
    }

    fn varchar(&mut self, national: bool) -> Result<DataType> {
        let length = self.required_length()?;
        Ok(DataType::Varchar(length, self.attributes_of(national)?))
    }

    fn attributes_of(&mut self, national: bool) -> Result<CharacterAttributes> {
        if !national {
            return self.character_attributes();
        }
        let charset = Some(CharacterSet::Name(Ident::from("utf8mb3")));
        Ok(CharacterAttributes { charset, binary: self.eat_word(K::Binary) })
    }

    /// LONG, LONG VARCHAR, LONG VARBINARY.
    fn long(&mut self) -> Result<DataType> {
        if self.eat_word(K::Varbinary) {
            return Ok(DataType::Blob(LobSize::Medium, None));
        }
        if self.eat_any(&[K::Char, K::Character]).is_some() {
            self.expect_word(K::Varying)?;
        } else {
            self.eat_any(&[K::Varchar, K::Varcharacter]);
        }
        self.text_type(LobSize::Medium)
    }

    fn text_type(&mut self, size: LobSize) -> Result<DataType> {
        Ok(DataType::Text(size, None, self.character_attributes()?))
    }

    fn double(&mut self, real: bool) -> Result<DataType> {
        self.eat_word(K::Precision);
        let digits = if self.at(Kind::Open) {
            match self.precision_and_scale()? {
                (Some(precision), Some(scale)) => Some((precision, scale)),
                _ => return Err(self.error_before()),
            }
        } else {
            None
        };
        Ok(DataType::Double { digits, real, numeric: self.numeric_attributes() })
    }

    fn required_length(&mut self) -> Result<u32> {
        match self.optional_length()? {
            Some(length) => Ok(length),
            None => Err(self.error()),
        }
    }

    /// `(precision)` or `(precision, scale)`, if it is next.
    fn precision_and_scale(&mut self) -> Result<(Option<u32>, Option<u32>)> {
        if !self.eat(Kind::Open) {
            return Ok((None, None));
        }
        let precision = self.length()?;
        let scale = if self.eat(Kind::Comma) { Some(self.length()?) } else { None };
        self.expect(Kind::Close)?;
        Ok((Some(precision), scale))
    }

    fn numeric_attributes(&mut self) -> NumericAttributes {
        let mut numeric = NumericAttributes::default();
        while let Some(word) = self.eat_any(&[K::Signed, K::Unsigned, K::Zerofill]) {
            numeric.unsigned |= word != K::Signed;
            numeric.zerofill |= word == K::Zerofill;
        }
        numeric
    }

    /// CHARACTER SET, BINARY and the words that stand for a character set, in either order.
    fn character_attributes(&mut self) -> Result<CharacterAttributes> {
        let mut attributes = CharacterAttributes::default();
        loop {
            let named = match self.token.keyword {
                K::Ascii => Some("latin1"),
                K::Unicode => Some("ucs2"),
                K::Byte => Some("binary"),
                _ => None,
            };
            if let Some(name) = named.filter(|_| attributes.charset.is_none()) {
                self.advance();
                attributes.charset = Some(CharacterSet::Name(Ident::from(name)));
            } else if self.at_word(K::Binary) && !attributes.binary {
                self.advance();
                attributes.binary = true;
            } else if attributes.charset.is_none() && self.eat_charset()? {
                attributes.charset = Some(CharacterSet::Name(self.charset_name()?));
            } else {
                return Ok(attributes);
            }
        }
    }

    /// A spatial type, if it is next.
    pub(super) fn geometry_kind(&mut self) -> Option<DataType> {
        let kind = match self.token.keyword {
            K::Geometry => GeometryKind::Geometry,
            K::Point => GeometryKind::Point,
            K::Linestring => GeometryKind::LineString,
            K::Polygon => GeometryKind::Polygon,
            K::Multipoint => GeometryKind::MultiPoint,
            K::Multilinestring => GeometryKind::MultiLineString,
            K::Multipolygon => GeometryKind::MultiPolygon,
            K::Geometrycollection | K::Geomcollection => GeometryKind::GeometryCollection,
            _ => return None,
        };
        self.advance();
        Some(DataType::Geometry(kind))
    }
}

fn integer_size(word: K) -> Option<u8> {
    Some(match word {
        K::Tinyint | K::Int1 => 1,
        K::Smallint | K::Int2 => 2,
        K::Mediumint | K::Middleint | K::Int3 => 3,
        K::Int | K::Integer | K::Int4 => 4,
        K::Bigint | K::Int8 => 8,
        _ => return None,
    })
}
