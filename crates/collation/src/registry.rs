//! The character sets and collations there are, by MySQL's numbers and names.

mod rows;

pub use rows::COLLATIONS;

use Charset::{
    Armscii8, Ascii, Big5, Binary, Cp850, Cp852, Cp866, Cp932, Cp1250, Cp1251, Cp1256, Cp1257,
    Dec8, Eucjpms, Euckr, Gb2312, Gb18030, Gbk, Geostd8, Greek, Hebrew, Hp8, Keybcs2, Koi8r, Koi8u,
    Latin1, Latin2, Latin5, Latin7, Macce, Macroman, Sjis, Swe7, Tis620, Ucs2, Ujis, Utf8mb3,
    Utf8mb4, Utf16, Utf16le, Utf32,
};

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
        PLACES.get(usize::from(self.0)).and_then(|at| COLLATIONS.get(usize::from(*at)))
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

/// Where in the table each number is; behind its end for numbers that are none.
static PLACES: [u16; 324] = {
    let mut places = [u16::MAX; 324];
    let mut at = 0;
    while at < COLLATIONS.len() {
        places[COLLATIONS[at].id.0 as usize] = at as u16;
        at += 1;
    }
    places
};

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
    /// ARMSCII-8: Armenian.
    Armscii8,
    /// Big5.
    Big5,
    /// Windows code page 1250.
    Cp1250,
    /// Windows code page 1251.
    Cp1251,
    /// Windows code page 1256.
    Cp1256,
    /// Windows code page 1257.
    Cp1257,
    /// Code page 850.
    Cp850,
    /// Code page 852.
    Cp852,
    /// Code page 866.
    Cp866,
    /// Shift-JIS as Windows has it.
    Cp932,
    /// DEC's multinational set.
    Dec8,
    /// EUC-JP with the characters of Windows.
    Eucjpms,
    /// EUC-KR with the extension of Windows.
    Euckr,
    /// GB 18030-2005: all of Unicode.
    Gb18030,
    /// GB 2312 as EUC-CN.
    Gb2312,
    /// GBK.
    Gbk,
    /// Georgian.
    Geostd8,
    /// ISO 8859-7.
    Greek,
    /// ISO 8859-8.
    Hebrew,
    /// HP Roman-8.
    Hp8,
    /// The code of Kamenický brothers: Czech, Slovak.
    Keybcs2,
    /// KOI8-R.
    Koi8r,
    /// KOI8-U.
    Koi8u,
    /// ISO 8859-2.
    Latin2,
    /// ISO 8859-9.
    Latin5,
    /// ISO 8859-13.
    Latin7,
    /// Mac, Central European.
    Macce,
    /// Mac Roman.
    Macroman,
    /// Shift-JIS.
    Sjis,
    /// Seven bits, with letters of Swedish in place of brackets.
    Swe7,
    /// Thai.
    Tis620,
    /// EUC-JP.
    Ujis,
}

/// Name, description, most bytes of a character, numbers of the default and of the binary
/// collation.
type Facts = (&'static str, &'static str, u8, u16, u16);

impl Charset {
    /// All of them, in the order of their names.
    pub const ALL: [Charset; 41] = [
        Armscii8, Ascii, Big5, Binary, Cp1250, Cp1251, Cp1256, Cp1257, Cp850, Cp852, Cp866, Cp932,
        Dec8, Eucjpms, Euckr, Gb18030, Gb2312, Gbk, Geostd8, Greek, Hebrew, Hp8, Keybcs2, Koi8r,
        Koi8u, Latin1, Latin2, Latin5, Latin7, Macce, Macroman, Sjis, Swe7, Tis620, Ucs2, Ujis,
        Utf16, Utf16le, Utf32, Utf8mb3, Utf8mb4,
    ];

    const fn facts(self) -> Facts {
        match self {
            Armscii8 => ("armscii8", "ARMSCII-8 Armenian", 1, 32, 64),
            Ascii => ("ascii", "US ASCII", 1, 11, 65),
            Big5 => ("big5", "Big5 Traditional Chinese", 2, 1, 84),
            Binary => ("binary", "Binary pseudo charset", 1, 63, 63),
            Cp1250 => ("cp1250", "Windows Central European", 1, 26, 66),
            Cp1251 => ("cp1251", "Windows Cyrillic", 1, 51, 50),
            Cp1256 => ("cp1256", "Windows Arabic", 1, 57, 67),
            Cp1257 => ("cp1257", "Windows Baltic", 1, 59, 58),
            Cp850 => ("cp850", "DOS West European", 1, 4, 80),
            Cp852 => ("cp852", "DOS Central European", 1, 40, 81),
            Cp866 => ("cp866", "DOS Russian", 1, 36, 68),
            Cp932 => ("cp932", "SJIS for Windows Japanese", 2, 95, 96),
            Dec8 => ("dec8", "DEC West European", 1, 3, 69),
            Eucjpms => ("eucjpms", "UJIS for Windows Japanese", 3, 97, 98),
            Euckr => ("euckr", "EUC-KR Korean", 2, 19, 85),
            Gb18030 => ("gb18030", "China National Standard GB18030", 4, 248, 249),
            Gb2312 => ("gb2312", "GB2312 Simplified Chinese", 2, 24, 86),
            Gbk => ("gbk", "GBK Simplified Chinese", 2, 28, 87),
            Geostd8 => ("geostd8", "GEOSTD8 Georgian", 1, 92, 93),
            Greek => ("greek", "ISO 8859-7 Greek", 1, 25, 70),
            Hebrew => ("hebrew", "ISO 8859-8 Hebrew", 1, 16, 71),
            Hp8 => ("hp8", "HP West European", 1, 6, 72),
            Keybcs2 => ("keybcs2", "DOS Kamenicky Czech-Slovak", 1, 37, 73),
            Koi8r => ("koi8r", "KOI8-R Relcom Russian", 1, 7, 74),
            Koi8u => ("koi8u", "KOI8-U Ukrainian", 1, 22, 75),
            Latin1 => ("latin1", "cp1252 West European", 1, 8, 47),
            Latin2 => ("latin2", "ISO 8859-2 Central European", 1, 9, 77),
            Latin5 => ("latin5", "ISO 8859-9 Turkish", 1, 30, 78),
            Latin7 => ("latin7", "ISO 8859-13 Baltic", 1, 41, 79),
            Macce => ("macce", "Mac Central European", 1, 38, 43),
            Macroman => ("macroman", "Mac West European", 1, 39, 53),
            Sjis => ("sjis", "Shift-JIS Japanese", 2, 13, 88),
            Swe7 => ("swe7", "7bit Swedish", 1, 10, 82),
            Tis620 => ("tis620", "TIS620 Thai", 1, 18, 89),
            Ucs2 => ("ucs2", "UCS-2 Unicode", 2, 35, 90),
            Ujis => ("ujis", "EUC-JP Japanese", 3, 12, 91),
            Utf16 => ("utf16", "UTF-16 Unicode", 4, 54, 55),
            Utf16le => ("utf16le", "UTF-16LE Unicode", 4, 56, 62),
            Utf32 => ("utf32", "UTF-32 Unicode", 4, 60, 61),
            Utf8mb3 => ("utf8mb3", "UTF-8 Unicode", 3, 33, 83),
            Utf8mb4 => ("utf8mb4", "UTF-8 Unicode", 4, 255, 46),
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        self.facts().0
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
        self.facts().1
    }

    /// Most bytes of a character as clients see it.
    pub fn max_len(self) -> u8 {
        self.facts().2
    }

    /// Most bytes of one of its characters as we store it, in UTF-8.
    pub fn max_len_stored(self) -> u8 {
        match self {
            Binary | Ascii => 1,
            Utf8mb4 | Utf16 | Utf16le | Utf32 | Gb18030 => 4,
            _ => 3,
        }
    }

    /// The collation used when only the character set is named.
    pub fn default_collation(self) -> CollationId {
        CollationId(self.facts().3)
    }

    /// The collation that orders by code points, or by the bytes of the character set.
    pub fn binary_collation(self) -> CollationId {
        CollationId(self.facts().4)
    }

    /// Whether a client may send statements in it: not where words of SQL are other bytes.
    pub fn can_be_of_client(self) -> bool {
        !matches!(self, Ucs2 | Utf16 | Utf16le | Utf32)
    }

    /// Whether all texts of it are Unicode in some form.
    pub fn is_unicode(self) -> bool {
        matches!(self, Utf8mb3 | Utf8mb4 | Ucs2 | Utf16 | Utf16le | Utf32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_defaults_agree() {
        for (at, collation) in COLLATIONS.iter().enumerate() {
            assert_eq!(collation.id.get(), Some(collation));
            assert_eq!(CollationId::by_name(collation.name), Some(collation.id));
            assert!(at == 0 || COLLATIONS[at - 1].id < collation.id);
            let set = collation.charset;
            assert!(collation.name.starts_with(set.name()));
            assert_eq!(collation.is_default, set.default_collation() == collation.id);
        }
        for set in Charset::ALL {
            assert_eq!(Charset::by_name(set.name()), Some(set));
            assert_eq!(set.default_collation().charset(), set);
            assert_eq!(set.binary_collation().charset(), set);
            assert!(set.binary_collation().is_binary());
        }
        for unknown in [0, 2, 17, 34, 100, 272, 324, u16::MAX] {
            assert_eq!(CollationId(unknown).get(), None);
        }
    }
}
