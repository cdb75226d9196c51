//! `@@sql_mode`: its flags, their names, reading and printing lists of them.

use std::fmt;

use crate::error::SqlError;

/// A set of SQL modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlMode(pub u64);

impl SqlMode {
    /// `||` concatenates.
    pub const PIPES_AS_CONCAT: Self = Self(1 << 1);
    /// `"` quotes identifiers.
    pub const ANSI_QUOTES: Self = Self(1 << 2);
    /// A space may stand before the parenthesis of a function.
    pub const IGNORE_SPACE: Self = Self(1 << 3);
    /// REAL is FLOAT.
    pub const REAL_AS_FLOAT: Self = Self(1 << 0);
    /// Columns of grouped queries depend on the groups.
    pub const ONLY_FULL_GROUP_BY: Self = Self(1 << 5);
    /// The difference of unsigned integers is signed.
    pub const NO_UNSIGNED_SUBTRACTION: Self = Self(1 << 6);
    /// Directories of tables are ignored.
    pub const NO_DIR_IN_CREATE: Self = Self(1 << 7);
    /// The modes that ANSI stands for, and this flag.
    pub const ANSI: Self = Self(1 << 18);
    /// Zero in an AUTO_INCREMENT column is zero.
    pub const NO_AUTO_VALUE_ON_ZERO: Self = Self(1 << 19);
    /// Backslash is an ordinary character.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(1 << 20);
    /// Values that do not fit are refused in transactional tables.
    pub const STRICT_TRANS_TABLES: Self = Self(1 << 21);
    /// Values that do not fit are refused.
    pub const STRICT_ALL_TABLES: Self = Self(1 << 22);
    /// Dates with a month or day of zero are refused.
    pub const NO_ZERO_IN_DATE: Self = Self(1 << 23);
    /// `0000-00-00` is refused.
    pub const NO_ZERO_DATE: Self = Self(1 << 24);
    /// Days 1 to 31 are accepted in every month.
    pub const ALLOW_INVALID_DATES: Self = Self(1 << 25);
    /// Division by zero is an error when rows are written.
    pub const ERROR_FOR_DIVISION_BY_ZERO: Self = Self(1 << 26);
    /// The modes that TRADITIONAL stands for, and this flag.
    pub const TRADITIONAL: Self = Self(1 << 27);
    /// NOT binds tighter.
    pub const HIGH_NOT_PRECEDENCE: Self = Self(1 << 29);
    /// Unknown engines are refused.
    pub const NO_ENGINE_SUBSTITUTION: Self = Self(1 << 30);
    /// CHAR keeps its trailing spaces.
    pub const PAD_CHAR_TO_FULL_LENGTH: Self = Self(1 << 31);
    /// Fractions of seconds are cut off instead of rounded.
    pub const TIME_TRUNCATE_FRACTIONAL: Self = Self(1 << 32);

    /// No mode at all.
    pub const EMPTY: Self = Self(0);

    /// What a server begins with.
    pub const DEFAULT: Self = Self(
        Self::ONLY_FULL_GROUP_BY.0
            | Self::STRICT_TRANS_TABLES.0
            | Self::NO_ZERO_IN_DATE.0
            | Self::NO_ZERO_DATE.0
            | Self::ERROR_FOR_DIVISION_BY_ZERO.0
            | Self::NO_ENGINE_SUBSTITUTION.0,
    );

    /// Whether all of these are set.
    pub fn contains(self, modes: Self) -> bool {
        self.0 & modes.0 == modes.0
    }

    /// What the parser has to know of it.
    pub fn of_parser(self) -> sql_parser::SqlMode {
        sql_parser::SqlMode {
            ansi_quotes: self.contains(Self::ANSI_QUOTES),
            pipes_as_concat: self.contains(Self::PIPES_AS_CONCAT),
            no_backslash_escapes: self.contains(Self::NO_BACKSLASH_ESCAPES),
            high_not_precedence: self.contains(Self::HIGH_NOT_PRECEDENCE),
            ignore_space: self.contains(Self::IGNORE_SPACE),
        }
    }

    /// Whether values that do not fit are refused.
    pub fn is_strict(self) -> bool {
        self.0 & (Self::STRICT_TRANS_TABLES.0 | Self::STRICT_ALL_TABLES.0) != 0
    }

    /// Both sets together.
    pub fn with(self, modes: Self) -> Self {
        Self(self.0 | modes.0)
    }

    /// This set without those.
    pub fn without(self, modes: Self) -> Self {
        Self(self.0 & !modes.0)
    }

    /// Reads a list of names; ANSI and TRADITIONAL bring the modes they stand for.
    pub fn parse(list: &str) -> Result<Self, SqlError> {
        let mut modes = Self::EMPTY;
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let Some((_, mode)) = found else {
                return Err(SqlError::of::<1231>(&[&"sql_mode", &name]));
            };
            modes = modes.with(*mode);
        }
        Ok(modes.expand())
    }

    /// The set that a number stands for; `None` when it has bits that are no mode.
    pub fn from_number(number: u64) -> Option<Self> {
        let known = NAMES.iter().fold(0, |bits, (_, mode)| bits | mode.0);
        (number & !known == 0).then(|| Self(number).expand())
    }

    fn expand(self) -> Self {
        let mut modes = self;
        if modes.contains(Self::ANSI) {
            modes = modes
                .with(Self::REAL_AS_FLOAT)
                .with(Self::PIPES_AS_CONCAT)
                .with(Self::ANSI_QUOTES)
                .with(Self::IGNORE_SPACE)
                .with(Self::ONLY_FULL_GROUP_BY);
        }
        if modes.contains(Self::TRADITIONAL) {
            modes = modes
                .with(Self::STRICT_TRANS_TABLES)
                .with(Self::STRICT_ALL_TABLES)
                .with(Self::NO_ZERO_IN_DATE)
                .with(Self::NO_ZERO_DATE)
                .with(Self::ERROR_FOR_DIVISION_BY_ZERO)
                .with(Self::NO_ENGINE_SUBSTITUTION);
        }
        modes
    }
}

impl Default for SqlMode {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for SqlMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = NAMES.iter().filter(|(_, mode)| self.contains(*mode));
        for (at, (name, _)) in set.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

/// The names, in the order in which MySQL prints them.
const NAMES: [(&str, SqlMode); 21] = [
    ("REAL_AS_FLOAT", SqlMode::REAL_AS_FLOAT),
    ("PIPES_AS_CONCAT", SqlMode::PIPES_AS_CONCAT),
    ("ANSI_QUOTES", SqlMode::ANSI_QUOTES),
    ("IGNORE_SPACE", SqlMode::IGNORE_SPACE),
    ("ONLY_FULL_GROUP_BY", SqlMode::ONLY_FULL_GROUP_BY),
    ("NO_UNSIGNED_SUBTRACTION", SqlMode::NO_UNSIGNED_SUBTRACTION),
    ("NO_DIR_IN_CREATE", SqlMode::NO_DIR_IN_CREATE),
    ("ANSI", SqlMode::ANSI),
    ("NO_AUTO_VALUE_ON_ZERO", SqlMode::NO_AUTO_VALUE_ON_ZERO),
    ("NO_BACKSLASH_ESCAPES", SqlMode::NO_BACKSLASH_ESCAPES),
    ("STRICT_TRANS_TABLES", SqlMode::STRICT_TRANS_TABLES),
    ("STRICT_ALL_TABLES", SqlMode::STRICT_ALL_TABLES),
    ("NO_ZERO_IN_DATE", SqlMode::NO_ZERO_IN_DATE),
    ("NO_ZERO_DATE", SqlMode::NO_ZERO_DATE),
    ("ALLOW_INVALID_DATES", SqlMode::ALLOW_INVALID_DATES),
    ("ERROR_FOR_DIVISION_BY_ZERO", SqlMode::ERROR_FOR_DIVISION_BY_ZERO),
    ("TRADITIONAL", SqlMode::TRADITIONAL),
    ("HIGH_NOT_PRECEDENCE", SqlMode::HIGH_NOT_PRECEDENCE),
    ("NO_ENGINE_SUBSTITUTION", SqlMode::NO_ENGINE_SUBSTITUTION),
    ("PAD_CHAR_TO_FULL_LENGTH", SqlMode::PAD_CHAR_TO_FULL_LENGTH),
    ("TIME_TRUNCATE_FRACTIONAL", SqlMode::TIME_TRUNCATE_FRACTIONAL),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(
            SqlMode::DEFAULT.to_string(),
            "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
             ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
        );
        assert_eq!(SqlMode::parse("").unwrap(), SqlMode::EMPTY);
        assert!(SqlMode::parse("traditional").unwrap().is_strict());
        assert!(SqlMode::parse("ansi").unwrap().contains(SqlMode::ANSI_QUOTES));
        let error = SqlMode::parse("NO_SUCH").unwrap_err();
        assert_eq!((error.code(), error.state()), (1231, "42000"));
        assert_eq!(SqlMode::from_number(1 << 62), None);
    }
}
