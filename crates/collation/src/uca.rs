//! Weights of the Unicode Collation Algorithm, as MySQL's `0900`, `520` and `unicode` collations
//! use it.
//!
//! # Owns
//! The tables of versions 9.0.0 (three levels), 5.2.0 and 4.0.0 (one level), and the weights that
//! follow from rules: Han, Hangul, Tangut, what is not assigned.
//! # Invariants
//! 1. Each character is weighed alone: contractions of the default table are not applied, and
//!    variable elements (spaces, punctuation) are weights like others, as in MySQL.
//! # Not here
//! Comparing (`order`).

use crate::order::{CharWeights, Table};
use crate::sort_key::{Codes, UcaCodes};
use crate::utf8::INVALID;

/// A weight behind those of all characters, for bytes outside well-formed UTF-8.
pub(crate) const WEIGHT_MAX: u16 = 0xFFFE;

/// Code points below this have an entry in the two-level arrays.
const DIRECTORY_END: u32 = 0x3_0000;
const PAGE: usize = 64;
/// In place of an entry: the weights follow from the code point.
const IMPLICIT: u16 = 0xFFFF;
/// At or above this an entry is a place in the pool.
const SEQUENCE: u16 = 0x8000;
/// In place of a shade, the pair of secondary and tertiary weight: as the two above.
const SHADE_IMPLICIT: u8 = 255;
const SHADE_SEQUENCE: u8 = 254;

/// The little-endian number at `at`.
const fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Section `index` of a file that begins with the sizes of its sections but the last.
const fn section(file: &'static [u8], index: usize, count: usize) -> &'static [u8] {
    let (mut from, mut at) = (4 * (count - 1), 0);
    while at < index {
        from += size(file, at);
        at += 1;
    }
    let rest = file.split_at(from).1;
    if index + 1 == count { rest } else { rest.split_at(size(file, index)).0 }
}

const fn size(file: &[u8], index: usize) -> usize {
    u16_at(file, 4 * index) as usize | (u16_at(file, 4 * index + 2) as usize) << 16
}

/// The three-level table of version 9.0.0.
struct ThreeLevel {
    directory: &'static [u8],
    pages: &'static [u8],
    shades: &'static [u8],
    pool: &'static [u8],
}

const FILE_0900: &[u8] = include_bytes!("tables/uca0900.bin");
const UCA_0900: ThreeLevel = ThreeLevel {
    directory: section(FILE_0900, 0, 4),
    pages: section(FILE_0900, 1, 4),
    shades: section(FILE_0900, 2, 4),
    pool: section(FILE_0900, 3, 4),
};

impl ThreeLevel {
    /// The entry of a code point below the directory's end: a primary weight and a shade.
    const fn entry(&self, code: u32) -> (u16, u8) {
        let page = u16_at(self.directory, 2 * (code as usize / PAGE)) as usize * 3 * PAGE;
        let at = code as usize % PAGE;
        (u16_at(self.pages, page + 2 * at), self.pages[page + 2 * PAGE + at])
    }

    /// The weight of `level` (1 to 3) of a primary weight and a shade.
    const fn level(&self, level: usize, primary: u16, shade: u8) -> u16 {
        match level {
            1 => primary,
            _ => level_of(level, u16_at(self.shades, 2 * shade as usize)),
        }
    }
}

/// The weight of level 2 or 3 in the 16 bits they share.
const fn level_of(level: usize, shade: u16) -> u16 {
    if level == 2 { shade >> 5 } else { shade & 0x1F }
}

const fn ascii_0900(level: usize) -> [u16; 128] {
    let mut weights = [0; 128];
    let mut code = 0;
    while code < 128 {
        let (primary, shade) = UCA_0900.entry(code);
        assert!(shade < SHADE_SEQUENCE);
        weights[code as usize] = UCA_0900.level(level, primary, shade);
        code += 1;
    }
    weights
}

static ASCII_0900: [[u16; 128]; 3] = [ascii_0900(1), ascii_0900(2), ascii_0900(3)];

/// UCA 9.0.0 at one of its levels, 1 to 3.
#[derive(Clone, Copy)]
pub(crate) struct Uca0900<const LEVEL: usize>;

impl<const LEVEL: usize> Table for Uca0900<LEVEL> {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        ASCII_0900[LEVEL - 1][usize::from(byte)]
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        if code >= DIRECTORY_END {
            let ignorable = matches!(code, 0xE0001 | 0xE0020..=0xE007F | 0xE0100..=0xE01EF);
            if !ignorable {
                implicit_0900::<LEVEL>(code, &mut weights);
            }
            return weights;
        }
        let (primary, shade) = UCA_0900.entry(code);
        match shade {
            SHADE_IMPLICIT => implicit_0900::<LEVEL>(code, &mut weights),
            SHADE_SEQUENCE => {
                let place = 4 * usize::from(primary);
                let count = usize::from(u16_at(UCA_0900.pool, place));
                for at in (1..=count).map(|n| place + 4 * n) {
                    weights.push(match LEVEL {
                        1 => u16_at(UCA_0900.pool, at),
                        _ => level_of(LEVEL, u16_at(UCA_0900.pool, at + 2)),
                    });
                }
            }
            _ => weights.push(UCA_0900.level(LEVEL, primary, shade)),
        }
        weights
    }
}

static CODES_0900: UcaCodes = UcaCodes::new(&ascii_0900(1));

impl Codes for Uca0900<1> {
    fn space_code(self) -> u8 {
        const SPACE: u8 = UcaCodes::new(&ascii_0900(1)).space();
        SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        CODES_0900.ascii_code(byte)
    }

    fn push_code(self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>) {
        CODES_0900.push(weight, follows_lead, out);
    }
}

/// Hangul syllables are weighed as their letters; what has no entry by its code point.
fn implicit_0900<const LEVEL: usize>(code: u32, weights: &mut CharWeights) {
    if let 0xAC00..=0xD7AF = code {
        let at = code - 0xAC00;
        let letters = [0x1100 + at / 588, 0x1161 + at % 588 / 28, 0x11A7 + at % 28];
        let count = if at.is_multiple_of(28) { 2 } else { 3 };
        for letter in &letters[..count] {
            let (primary, shade) = UCA_0900.entry(*letter);
            weights.push(UCA_0900.level(LEVEL, primary, shade));
        }
        return;
    }
    match LEVEL {
        2 => return weights.push(0x20),
        3 => return weights.push(0x02),
        _ => {}
    }
    let base = match code {
        0x1_7000..=0x1_8AFF => {
            weights.push(0xFB00);
            return weights.push((code - 0x1_7000) as u16 | 0x8000);
        }
        0x4E00..=0x9FD5 => 0xFB40,
        0x3400..=0x4DB5
        | 0x2_0000..=0x2_A6D6
        | 0x2_A700..=0x2_B734
        | 0x2_B740..=0x2_B81D
        | 0x2_B820..=0x2_CEA1 => 0xFB80,
        _ => 0xFBC0,
    };
    push_implicit(base, code, weights);
}

fn push_implicit(base: u16, code: u32, weights: &mut CharWeights) {
    if code >= INVALID {
        return weights.push(WEIGHT_MAX);
    }
    weights.push(base + (code >> 15) as u16);
    weights.push((code & 0x7FFF) as u16 | 0x8000);
}

/// A table of primary weights only.
struct OneLevel {
    directory: &'static [u8],
    pages: &'static [u8],
    pool: &'static [u8],
}

impl OneLevel {
    const fn new(file: &'static [u8]) -> OneLevel {
        let directory = section(file, 0, 3);
        OneLevel { directory, pages: section(file, 1, 3), pool: section(file, 2, 3) }
    }

    const fn entry(&self, code: u32) -> u16 {
        let page = u16_at(self.directory, 2 * (code as usize / PAGE)) as usize * 2 * PAGE;
        u16_at(self.pages, page + 2 * (code as usize % PAGE))
    }

    const fn ascii(&self) -> [u16; 128] {
        let mut weights = [0; 128];
        let mut code = 0;
        while code < 128 {
            weights[code as usize] = self.entry(code);
            assert!(weights[code as usize] < SEQUENCE);
            code += 1;
        }
        weights
    }

    /// Pushes what the table says; false when the weights follow from the code point.
    fn push(&self, code: u32, weights: &mut CharWeights) -> bool {
        match self.entry(code) {
            IMPLICIT => return false,
            entry @ SEQUENCE.. => {
                let place = 2 * usize::from(entry - SEQUENCE);
                let count = usize::from(u16_at(self.pool, place));
                for n in 1..=count {
                    weights.push(u16_at(self.pool, place + 2 * n));
                }
            }
            weight => weights.push(weight),
        }
        true
    }
}

const UCA_0520: OneLevel = OneLevel::new(include_bytes!("tables/uca0520.bin"));
static ASCII_0520: [u16; 128] = UCA_0520.ascii();

/// UCA 5.2.0.
#[derive(Clone, Copy)]
pub(crate) struct Uca0520;

impl Table for Uca0520 {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        ASCII_0520[usize::from(byte)]
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        let ignorable = matches!(code, 0xE0001 | 0xE0020..=0xE007F | 0xE0100..=0xE01EF);
        let known = code < DIRECTORY_END && UCA_0520.push(code, &mut weights);
        if !known && !ignorable {
            let base = match code {
                0x4E00..=0x9FA5 => 0xFB40,
                0x3400..=0x4DB5 => 0xFB80,
                _ => 0xFBC0,
            };
            push_implicit(base, code, &mut weights);
        }
        weights
    }
}

static CODES_0520: UcaCodes = UcaCodes::new(&UCA_0520.ascii());

impl Codes for Uca0520 {
    fn space_code(self) -> u8 {
        const SPACE: u8 = UcaCodes::new(&UCA_0520.ascii()).space();
        SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        CODES_0520.ascii_code(byte)
    }

    fn push_code(self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>) {
        CODES_0520.push(weight, follows_lead, out);
    }
}

const UCA_0400: OneLevel = OneLevel::new(include_bytes!("tables/uca0400.bin"));
static ASCII_0400: [u16; 128] = UCA_0400.ascii();

/// UCA 4.0.0, for the first plane; all other characters are one.
#[derive(Clone, Copy)]
pub(crate) struct Uca0400;

impl Table for Uca0400 {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        ASCII_0400[usize::from(byte)]
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        if (0x1_0000..INVALID).contains(&code) {
            weights.push(0xFFFD);
        } else if code >= INVALID || !UCA_0400.push(code, &mut weights) {
            let base = match code {
                0x4E00..=0x9FA5
                | 0xFA0E
                | 0xFA0F
                | 0xFA11
                | 0xFA13
                | 0xFA14
                | 0xFA1F
                | 0xFA21
                | 0xFA23
                | 0xFA24
                | 0xFA27..=0xFA29 => 0xFB40,
                0x3400..=0x4DB5 => 0xFB80,
                _ => 0xFBC0,
            };
            push_implicit(base, code, &mut weights);
        }
        weights
    }
}

static CODES_0400: UcaCodes = UcaCodes::new(&UCA_0400.ascii());

impl Codes for Uca0400 {
    fn space_code(self) -> u8 {
        const SPACE: u8 = UcaCodes::new(&UCA_0400.ascii()).space();
        SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        CODES_0400.ascii_code(byte)
    }

    fn push_code(self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>) {
        CODES_0400.push(weight, follows_lead, out);
    }
}
