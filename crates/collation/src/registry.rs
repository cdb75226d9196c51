//! The character sets and collations there are, by MySQL's numbers and names.

use Charset::{Ascii, Binary, Latin1, Ucs2, Utf8mb3, Utf8mb4, Utf16, Utf16le, Utf32};

/// MySQL's number of a collation; what rows of the catalog and packets of the protocol carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollationId(pub u16);

impl CollationId {
    /// `binary`: bytes, of no character set.
    pub const BINARY: CollationId = CollationId(63);
    /// `utf8mb4_0900_ai_ci`, the default of the default character set.
    pub const UTF8MB4_0900_AI_CI: CollationId = CollationId(255);
    /// `utf8mb4_bin`.
    pub const UTF8MB4_BIN: CollationId = CollationId(46);
    /// `utf8mb4_0900_bin`.
    pub const UTF8MB4_0900_BIN: CollationId = CollationId(309);
    /// `utf8mb4_general_ci`.
    pub const UTF8MB4_GENERAL_CI: CollationId = CollationId(45);
    /// `utf8mb4_unicode_ci`.
    pub const UTF8MB4_UNICODE_CI: CollationId = CollationId(224);
    /// `utf8mb3_general_ci`, that of names in the information schema.
    pub const UTF8MB3_GENERAL_CI: CollationId = CollationId(33);
    /// `latin1_swedish_ci`.
    pub const LATIN1_SWEDISH_CI: CollationId = CollationId(8);
    /// `ascii_general_ci`.
    pub const ASCII_GENERAL_CI: CollationId = CollationId(11);
    /// The collation of text when nothing says otherwise.
    pub const DEFAULT: CollationId = CollationId::UTF8MB4_0900_AI_CI;

    /// What is known about the collation; `None` for a number that we do not have.
    pub fn get(self) -> Option<&'static Collation> {
        COLLATIONS
            .binary_search_by_key(&self, |collation| collation.id)
            .ok()
            .map(|at| &COLLATIONS[at])
    }

    /// The collation of this name, in any case; `utf8_…` is the old name of `utf8mb3_…`.
    pub fn by_name(name: &str) -> Option<CollationId> {
        let renamed = match name.get(..5) {
            Some(start) if start.eq_ignore_ascii_case("utf8_") => format!("utf8mb3_{}", &name[5..]),
            _ => name.to_owned(),
        };
        let same = |collation: &&Collation| collation.name.eq_ignore_ascii_case(&renamed);
        COLLATIONS.iter().find(same).map(|collation| collation.id)
    }

    /// The character set; `binary` for an unknown number.
    pub fn charset(self) -> Charset {
        self.get().map_or(Binary, |collation| collation.charset)
    }

    /// The name; empty for an unknown number.
    pub fn name(self) -> &'static str {
        self.get().map_or("", |collation| collation.name)
    }

    /// Whether two texts are equal only when their characters are the same.
    pub fn is_binary(self) -> bool {
        self.get().is_none_or(|collation| collation.is_binary)
    }

    /// Whether trailing spaces do not count in comparisons.
    pub fn pads(self) -> bool {
        self.get().is_some_and(|collation| collation.pad == Pad::Space)
    }
}

/// Whether the shorter of two texts is compared as if it were filled up with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pad {
    /// `PAD SPACE`: trailing spaces do not count.
    Space,
    /// `NO PAD`: trailing spaces count like any other character.
    None,
}

/// One row of `SHOW COLLATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collation {
    /// Number.
    pub id: CollationId,
    /// Name.
    pub name: &'static str,
    /// The character set whose text it orders.
    pub charset: Charset,
    /// Whether it is the default of its character set.
    pub is_default: bool,
    /// Whether it orders by code points, or bytes.
    pub is_binary: bool,
    /// What trailing spaces mean.
    pub pad: Pad,
    /// `Sortlen`, as MySQL shows it.
    pub sort_len: u8,
}

/// A character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Charset {
    /// No character set: bytes.
    Binary,
    /// Seven bits.
    Ascii,
    /// What MySQL calls latin1: Windows code page 1252.
    Latin1,
    /// UTF-8 without the characters beyond U+FFFF.
    Utf8mb3,
    /// UTF-8.
    Utf8mb4,
    /// Two bytes per character, big-endian, nothing beyond U+FFFF.
    Ucs2,
    /// UTF-16, big-endian.
    Utf16,
    /// UTF-16, little-endian.
    Utf16le,
    /// UTF-32, big-endian.
    Utf32,
}

impl Charset {
    /// All of them, in the order of their names.
    pub const ALL: [Charset; 9] =
        [Ascii, Binary, Latin1, Ucs2, Utf16, Utf16le, Utf32, Utf8mb3, Utf8mb4];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Binary => "binary",
            Ascii => "ascii",
            Latin1 => "latin1",
            Utf8mb3 => "utf8mb3",
            Utf8mb4 => "utf8mb4",
            Ucs2 => "ucs2",
            Utf16 => "utf16",
            Utf16le => "utf16le",
            Utf32 => "utf32",
        }
    }

    /// The character set of this name, in any case; `utf8` is utf8mb3.
    pub fn by_name(name: &str) -> Option<Charset> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Utf8mb3);
        }
        Charset::ALL.into_iter().find(|charset| charset.name().eq_ignore_ascii_case(name))
    }

    /// What `SHOW CHARACTER SET` says about it.
    pub fn description(self) -> &'static str {
        match self {
            Binary => "Binary pseudo charset",
            Ascii => "US ASCII",
            Latin1 => "cp1252 West European",
            Utf8mb3 | Utf8mb4 => "UTF-8 Unicode",
            Ucs2 => "UCS-2 Unicode",
            Utf16 => "UTF-16 Unicode",
            Utf16le => "UTF-16LE Unicode",
            Utf32 => "UTF-32 Unicode",
        }
    }

    /// Most bytes of a character as clients see it.
    pub fn max_len(self) -> u8 {
        match self {
            Binary | Ascii | Latin1 => 1,
            Ucs2 => 2,
            Utf8mb3 => 3,
            Utf8mb4 | Utf16 | Utf16le | Utf32 => 4,
        }
    }

    /// Most bytes of one of its characters as we store it, in UTF-8.
    pub fn max_len_stored(self) -> u8 {
        match self {
            Binary | Ascii => 1,
            Latin1 | Ucs2 | Utf8mb3 => 3,
            Utf8mb4 | Utf16 | Utf16le | Utf32 => 4,
        }
    }

    /// The collation used when only the character set is named.
    pub fn default_collation(self) -> CollationId {
        let default = |collation: &&Collation| collation.charset == self && collation.is_default;
        COLLATIONS.iter().find(default).expect("each character set has a default").id
    }

    /// The collation that orders by code points.
    pub fn binary_collation(self) -> CollationId {
        let binary = |collation: &&Collation| collation.charset == self && collation.is_binary;
        COLLATIONS.iter().find(binary).expect("each character set has a binary collation").id
    }
}

/// A row of the table; defaults and binary ones are told by their names and numbers.
const fn row(
    id: u16,
    name: &'static str,
    charset: Charset,
    sort_len: u8,
    traits: (bool, bool),
    pad: Pad,
) -> Collation {
    let (is_default, is_binary) = traits;
    Collation { id: CollationId(id), name, charset, is_default, is_binary, pad, sort_len }
}

const PLAIN: (bool, bool) = (false, false);
const DEFAULT: (bool, bool) = (true, false);
const BINARY: (bool, bool) = (false, true);

/// Every collation, in the order of the numbers.
pub static COLLATIONS: [Collation; 33] = [
    row(8, "latin1_swedish_ci", Latin1, 1, DEFAULT, Pad::Space),
    row(11, "ascii_general_ci", Ascii, 1, DEFAULT, Pad::Space),
    row(33, "utf8mb3_general_ci", Utf8mb3, 1, DEFAULT, Pad::Space),
    row(35, "ucs2_general_ci", Ucs2, 1, DEFAULT, Pad::Space),
    row(45, "utf8mb4_general_ci", Utf8mb4, 1, PLAIN, Pad::Space),
    row(46, "utf8mb4_bin", Utf8mb4, 1, BINARY, Pad::Space),
    row(47, "latin1_bin", Latin1, 1, BINARY, Pad::Space),
    row(48, "latin1_general_ci", Latin1, 1, PLAIN, Pad::Space),
    row(49, "latin1_general_cs", Latin1, 1, PLAIN, Pad::Space),
    row(54, "utf16_general_ci", Utf16, 1, DEFAULT, Pad::Space),
    row(55, "utf16_bin", Utf16, 1, BINARY, Pad::Space),
    row(56, "utf16le_general_ci", Utf16le, 1, DEFAULT, Pad::Space),
    row(60, "utf32_general_ci", Utf32, 1, DEFAULT, Pad::Space),
    row(61, "utf32_bin", Utf32, 1, BINARY, Pad::Space),
    row(62, "utf16le_bin", Utf16le, 1, BINARY, Pad::Space),
    row(63, "binary", Binary, 1, (true, true), Pad::None),
    row(65, "ascii_bin", Ascii, 1, BINARY, Pad::Space),
    row(83, "utf8mb3_bin", Utf8mb3, 1, BINARY, Pad::Space),
    row(90, "ucs2_bin", Ucs2, 1, BINARY, Pad::Space),
    row(101, "utf16_unicode_ci", Utf16, 8, PLAIN, Pad::Space),
    row(123, "utf16_unicode_520_ci", Utf16, 8, PLAIN, Pad::Space),
    row(128, "ucs2_unicode_ci", Ucs2, 8, PLAIN, Pad::Space),
    row(150, "ucs2_unicode_520_ci", Ucs2, 8, PLAIN, Pad::Space),
    row(160, "utf32_unicode_ci", Utf32, 8, PLAIN, Pad::Space),
    row(182, "utf32_unicode_520_ci", Utf32, 8, PLAIN, Pad::Space),
    row(192, "utf8mb3_unicode_ci", Utf8mb3, 8, PLAIN, Pad::Space),
    row(214, "utf8mb3_unicode_520_ci", Utf8mb3, 8, PLAIN, Pad::Space),
    row(224, "utf8mb4_unicode_ci", Utf8mb4, 8, PLAIN, Pad::Space),
    row(246, "utf8mb4_unicode_520_ci", Utf8mb4, 8, PLAIN, Pad::Space),
    row(255, "utf8mb4_0900_ai_ci", Utf8mb4, 0, DEFAULT, Pad::None),
    row(278, "utf8mb4_0900_as_cs", Utf8mb4, 0, PLAIN, Pad::None),
    row(305, "utf8mb4_0900_as_ci", Utf8mb4, 0, PLAIN, Pad::None),
    row(309, "utf8mb4_0900_bin", Utf8mb4, 1, BINARY, Pad::None),
];
