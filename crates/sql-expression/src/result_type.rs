//! What an expression yields: its type, whether it can be NULL, and how strongly it holds to its
//! collation.
//!
//! # Owns
//! [`ResultType`] and the rules by which the collations of several operands become one.
//! # Guarantees
//! Where MySQL refuses operands with an illegal mix of collations, so do we, with the same error.

use collation::{Charset, CollationId};
use sqltype::{SqlType, TypeKind};

use crate::error::SqlError;

/// What an expression yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultType {
    /// The type.
    pub sql_type: SqlType,
    /// Whether NULL is possible.
    pub nullable: bool,
    /// How strongly the collation holds when operands disagree.
    pub coercibility: Coercibility,
    /// Whether the text can only have ASCII characters, which every character set has.
    pub ascii: bool,
    /// A hexadecimal or bit literal: a number where one is wanted, else bytes.
    pub bits: bool,
    /// A condition: in JSON it is true or false, and not 1 or 0.
    pub boolean: bool,
    /// A whole number as it is written: its text has the length of its type.
    pub literal: bool,
}

/// How strongly an operand holds to its collation; the smaller one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercibility {
    /// COLLATE was said.
    Explicit = 0,
    /// Operands with different collations were put together.
    None = 1,
    /// A column.
    Implicit = 2,
    /// USER() and the like.
    SystemConstant = 3,
    /// A literal.
    Coercible = 4,
    /// A number or a time.
    Numeric = 5,
    /// NULL.
    Ignorable = 6,
}

/// The collation of an operand or of several put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collating {
    /// The collation.
    pub collation: CollationId,
    /// How strongly it holds.
    pub coercibility: Coercibility,
    /// Whether all characters are ASCII.
    pub ascii: bool,
}

impl ResultType {
    /// A result that is no text.
    pub fn of(sql_type: SqlType, nullable: bool) -> Self {
        let coercibility = Coercibility::Numeric;
        Self {
            sql_type,
            nullable,
            coercibility,
            ascii: true,
            bits: false,
            boolean: false,
            literal: false,
        }
    }

    /// A column of this type.
    pub fn column(sql_type: SqlType, nullable: bool) -> Self {
        let is_text = sql_type.kind.is_string();
        let coercibility = if is_text { Coercibility::Implicit } else { Coercibility::Numeric };
        let ascii = !is_text || sql_type.collation.charset() == Charset::Ascii;
        Self { coercibility, ascii, ..Self::of(sql_type, nullable) }
    }

    /// The type of NULL itself.
    pub fn null() -> Self {
        let sql_type = SqlType::new(TypeKind::Null, 0);
        Self { coercibility: Coercibility::Ignorable, ..Self::of(sql_type, true) }
    }

    /// The type of conditions: 1 or 0.
    pub fn truth(nullable: bool) -> Self {
        Self { boolean: true, ..Self::of(SqlType::new(TypeKind::BigInt, 1), nullable) }
    }

    /// A text that holds to its collation as said.
    pub fn text(length: u32, collating: Collating, nullable: bool) -> Self {
        let sql_type = text_type(length, collating.collation);
        let Collating { coercibility, ascii, .. } = collating;
        Self { coercibility, ascii, ..Self::of(sql_type, nullable) }
    }

    /// Whether it is a character or binary string, an ENUM or a SET.
    pub fn is_text(&self) -> bool {
        self.sql_type.kind.is_string()
    }

    /// The collation it brings into an operation. Numbers and times become text of the connection.
    pub fn collating(&self, connection: CollationId) -> Collating {
        let collation = if self.is_text() || self.sql_type.kind == TypeKind::Null {
            self.sql_type.collation
        } else if self.sql_type.kind == TypeKind::Json {
            CollationId::UTF8MB4_BIN
        } else {
            connection
        };
        Collating { collation, coercibility: self.coercibility, ascii: self.ascii }
    }

    /// Most characters of its text.
    pub fn text_length(&self) -> u32 {
        if self.literal { self.sql_type.length } else { display_length(&self.sql_type) }
    }
}

/// The type of a computed text of at most this many characters.
pub(crate) fn text_type(length: u32, collation: CollationId) -> SqlType {
    let bytes = u64::from(length) * u64::from(collation.charset().max_len());
    let kind = match bytes {
        0..=65_535 => TypeKind::VarChar,
        65_536..=16_777_215 => TypeKind::MediumText,
        _ => TypeKind::LongText,
    };
    SqlType { collation, ..SqlType::new(kind, length) }
}

/// Characters that any value of the type takes as text, at most.
pub(crate) fn display_length(sql_type: &SqlType) -> u32 {
    let fraction = match sql_type.decimals {
        0 => 0,
        digits => u32::from(digits.min(6)) + 1,
    };
    match &sql_type.kind {
        TypeKind::Null => 0,
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::MediumInt | TypeKind::Int => 11,
        TypeKind::BigInt => 20,
        TypeKind::Decimal => {
            // Without digits before the point a zero stands there.
            let zero = u32::from(sql_type.length == u32::from(sql_type.decimals));
            let point = u32::from(sql_type.decimals > 0);
            sql_type.length + zero + point + u32::from(!sql_type.unsigned)
        }
        TypeKind::Float => 12,
        TypeKind::Double => 23,
        TypeKind::Bit => sql_type.length.div_ceil(8),
        TypeKind::Year => 4,
        TypeKind::Date => 10,
        TypeKind::Time => 10 + fraction,
        TypeKind::DateTime | TypeKind::Timestamp => 19 + fraction,
        TypeKind::Char | TypeKind::VarChar => sql_type.length,
        TypeKind::TinyText => 255,
        TypeKind::Text => sql_type.length.max(65_535),
        TypeKind::MediumText => sql_type.length.max(16_777_215),
        TypeKind::LongText | TypeKind::Json => u32::MAX,
        TypeKind::Enum(members) => {
            members.iter().map(|member| member.chars().count() as u32).max().unwrap_or(0)
        }
        TypeKind::Set(members) => {
            let commas = members.len().saturating_sub(1) as u32;
            members.iter().map(|member| member.chars().count() as u32).sum::<u32>() + commas
        }
    }
}

impl Coercibility {
    /// The name in errors about collations.
    fn name(self) -> &'static str {
        match self {
            Self::Explicit => "EXPLICIT",
            Self::None => "NONE",
            Self::Implicit => "IMPLICIT",
            Self::SystemConstant => "SYSCONST",
            Self::Coercible => "COERCIBLE",
            Self::Numeric => "NUMERIC",
            Self::Ignorable => "IGNORABLE",
        }
    }
}

impl Collating {
    /// NULL's, which gives way to everything.
    pub const IGNORABLE: Self =
        Self { collation: CollationId::BINARY, coercibility: Coercibility::Ignorable, ascii: true };

    /// A text literal's.
    pub fn literal(collation: CollationId, ascii: bool) -> Self {
        Self { collation, coercibility: Coercibility::Coercible, ascii }
    }

    /// The collation of this operand and another put together; `None` when they exclude each other.
    pub fn merge(self, other: Self) -> Option<Self> {
        let ascii = self.ascii && other.ascii;
        let merged = |winner: Self| Some(Self { ascii, ..winner });
        let (a, b) = (self, other);
        if a.collation == b.collation {
            let coercibility = a.coercibility.min(b.coercibility);
            return Some(Self { collation: a.collation, coercibility, ascii });
        }
        let (a_set, b_set) = (a.collation.charset(), b.collation.charset());
        if a_set != b_set {
            if a_set == Charset::Binary {
                return merged(if a.coercibility <= b.coercibility { a } else { b });
            }
            if b_set == Charset::Binary {
                return merged(if b.coercibility <= a.coercibility { b } else { a });
            }
            if a.holds_all_of(b) {
                return merged(a);
            }
            if b.holds_all_of(a) {
                return merged(b);
            }
            if a.coercibility < b.coercibility && b.coercibility >= Coercibility::SystemConstant {
                return merged(a);
            }
            if b.coercibility < a.coercibility && a.coercibility >= Coercibility::SystemConstant {
                return merged(b);
            }
            return None;
        }
        if a.coercibility != b.coercibility {
            return merged(if a.coercibility < b.coercibility { a } else { b });
        }
        if a.coercibility == Coercibility::Explicit {
            return None;
        }
        if a.collation.is_binary() {
            return merged(a);
        }
        if b.collation.is_binary() {
            return merged(b);
        }
        let collation = a_set.binary_collation();
        Some(Self { collation, coercibility: Coercibility::None, ascii })
    }

    /// Whether the other's text can be converted to this one's character set without loss, and this
    /// one is strong enough that it will be.
    fn holds_all_of(self, other: Self) -> bool {
        let rank = |charset: Charset| match charset {
            Charset::Utf8mb3 | Charset::Ucs2 => 1,
            Charset::Utf8mb4 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 => 2,
            _ => 0,
        };
        let same = self.coercibility == other.coercibility;
        let stronger = self.coercibility < other.coercibility;
        let (mine, others) = (rank(self.collation.charset()), rank(other.collation.charset()));
        if mine > 0 && (stronger || (same && mine > others)) {
            return true;
        }
        other.ascii && (stronger || (same && !self.ascii))
    }
}

/// The collation of operands put together for the operation of this name. A `comparison` must be
/// able to tell which of several collations is meant; a mere result need not.
pub fn merge_collations(
    operation: &str,
    operands: &[Collating],
    comparison: bool,
) -> Result<Collating, SqlError> {
    let mut operands_left = operands.iter();
    let Some(first) = operands_left.next() else { return Ok(Collating::IGNORABLE) };
    let mut merged = Some(*first);
    let mut refused = false;
    for operand in operands_left {
        merged = merged.and_then(|merged| merged.merge(*operand));
        refused |= merged.is_none();
    }
    match merged {
        Some(merged) if !refused => {
            let undecided = comparison && merged.coercibility == Coercibility::None;
            if undecided { Err(illegal_mix(operation, operands)) } else { Ok(merged) }
        }
        _ => Err(illegal_mix(operation, operands)),
    }
}

/// The error about operands whose collations exclude each other.
pub(crate) fn illegal_mix(operation: &str, operands: &[Collating]) -> SqlError {
    let name = |operand: &Collating| operand.collation.name();
    match operands {
        [a, b] => SqlError::of::<1267>(&[
            &name(a),
            &a.coercibility.name(),
            &name(b),
            &b.coercibility.name(),
            &operation,
        ]),
        [a, b, c] => SqlError::of::<1270>(&[
            &name(a),
            &a.coercibility.name(),
            &name(b),
            &b.coercibility.name(),
            &name(c),
            &c.coercibility.name(),
            &operation,
        ]),
        _ => SqlError::of::<1271>(&[&operation]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(collation: CollationId, coercibility: Coercibility) -> Collating {
        Collating { collation, coercibility, ascii: false }
    }

    const AI: CollationId = CollationId::UTF8MB4_0900_AI_CI;
    const GENERAL: CollationId = CollationId::UTF8MB4_GENERAL_CI;
    const BIN: CollationId = CollationId::UTF8MB4_BIN;
    const SWEDISH: CollationId = CollationId::LATIN1_SWEDISH_CI;

    #[test]
    fn the_stronger_operand_decides() {
        use Coercibility::*;
        let table = [
            ((AI, Implicit), (GENERAL, Coercible), Some((AI, Implicit))),
            ((AI, Coercible), (GENERAL, Explicit), Some((GENERAL, Explicit))),
            ((AI, Implicit), (BIN, Implicit), Some((BIN, Implicit))),
            ((AI, Implicit), (GENERAL, Implicit), Some((BIN, None))),
            ((AI, Explicit), (GENERAL, Explicit), Option::None),
            ((AI, Implicit), (SWEDISH, Implicit), Some((AI, Implicit))),
            ((AI, Coercible), (SWEDISH, Implicit), Some((SWEDISH, Implicit))),
            (
                (CollationId::BINARY, Implicit),
                (AI, Implicit),
                Some((CollationId::BINARY, Implicit)),
            ),
            ((CollationId::BINARY, Coercible), (AI, Implicit), Some((AI, Implicit))),
            ((AI, Implicit), (CollationId::BINARY, Ignorable), Some((AI, Implicit))),
        ];
        for (a, b, expected) in table {
            let merged = operand(a.0, a.1).merge(operand(b.0, b.1));
            let got = merged.map(|merged| (merged.collation, merged.coercibility));
            assert_eq!(got, expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn an_undecided_comparison_is_refused() {
        let operands =
            [operand(AI, Coercibility::Implicit), operand(GENERAL, Coercibility::Implicit)];
        assert!(merge_collations("concat", &operands, false).is_ok());
        let error = merge_collations("=", &operands, true).unwrap_err();
        assert_eq!(
            error.message(),
            "Illegal mix of collations (utf8mb4_0900_ai_ci,IMPLICIT) and \
             (utf8mb4_general_ci,IMPLICIT) for operation '='"
        );
    }
}
