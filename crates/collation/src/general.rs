//! `general_ci`: one weight per character, the upper case of its base letter.

use crate::letter_case::lower_of_first_plane;
use crate::order::{CharWeights, Table};
use crate::sort_key::{BYTE_SPACE, Codes, byte_code, push_code_point};
use crate::uca::WEIGHT_MAX;
use crate::utf8::INVALID;

const FILE: &[u8] = include_bytes!("tables/general.bin");
/// The file: the size of the directory (4 bytes), a page number for every 64 code points, pages.
const DIRECTORY: usize = 4;
const PAGES: usize = DIRECTORY + 0x1_0000 / PAGE;
const PAGE: usize = 64;

/// The weight of a character of the first plane.
const fn weight(code: u32) -> u16 {
    let page = FILE[DIRECTORY + code as usize / PAGE] as usize;
    let at = PAGES + 2 * (page * PAGE + code as usize % PAGE);
    match u16::from_le_bytes([FILE[at], FILE[at + 1]]) {
        0 => code as u16,
        weight => weight,
    }
}

/// The weights of `general_ci`. Characters beyond U+FFFF are one, as in MySQL.
///
/// With `OLD` those of `general_mysql500_ci`, where `ß` is no `s`.
#[derive(Clone, Copy)]
pub(crate) struct General<const OLD: bool>;

impl<const OLD: bool> Table for General<OLD> {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        u16::from(byte.to_ascii_uppercase())
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        weights.push(match code {
            0xDF if OLD => 0xDF,
            0..=0xFFFF => weight(code),
            INVALID.. => WEIGHT_MAX,
            _ => 0xFFFD,
        });
        weights
    }

    /// Weights are code points here, so zero is that of U+0000.
    const ZERO_IS_IGNORED: bool = false;
}

impl<const OLD: bool> Codes for General<OLD> {
    fn space_code(self) -> u8 {
        BYTE_SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        Some(byte_code(byte.to_ascii_uppercase(), BYTE_SPACE))
    }

    fn push_code(self, weight: u16, _follows_lead: &mut bool, out: &mut Vec<u8>) {
        push_code_point(weight, out);
    }
}

/// The weights of `tolower_ci`: lower case alone. Characters beyond U+FFFF are one.
#[derive(Clone, Copy)]
pub(crate) struct ToLower;

impl Table for ToLower {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        u16::from(byte.to_ascii_lowercase())
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        weights.push(match code {
            0..=0xFFFF => lower_of_first_plane(code) as u16,
            INVALID.. => WEIGHT_MAX,
            _ => 0xFFFD,
        });
        weights
    }

    const ZERO_IS_IGNORED: bool = false;
}

impl Codes for ToLower {
    fn space_code(self) -> u8 {
        BYTE_SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        Some(byte_code(byte.to_ascii_lowercase(), BYTE_SPACE))
    }

    fn push_code(self, weight: u16, _follows_lead: &mut bool, out: &mut Vec<u8>) {
        push_code_point(weight, out);
    }
}
