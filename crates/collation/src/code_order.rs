//! Collations of character sets with tables: a character weighs as the bytes of a code.

use crate::coded::{Code, CodeOrder};
use crate::order::{CharWeights, Table};
use crate::sort_key::{BYTE_SPACE, Codes, HIGH_BYTES, byte_code, push_byte, push_eight_bit};
use crate::uca::WEIGHT_MAX;
use crate::utf8::INVALID;

/// A set of single bytes: weights are bytes. Characters that the set does not have follow behind
/// all others.
#[derive(Clone, Copy)]
pub(crate) struct ByByte(pub(crate) &'static CodeOrder);

impl Table for ByByte {
    /// Weights are bytes here, so zero is that of U+0000.
    const ZERO_IS_IGNORED: bool = false;

    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        self.0.ascii[usize::from(byte)]
    }

    /// Not so are characters below 128 that seven-bit Swedish does not have, and high weights.
    #[inline]
    fn is_plain(self, byte: u8) -> bool {
        byte < 0x80 && self.ascii(byte) < HIGH_BYTES.into()
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        match self.0.code(code) {
            _ if code < 0x80 => weights.push(self.ascii(code as u8)),
            Some(bytes) => bytes.bytes().iter().for_each(|byte| weights.push(u16::from(*byte))),
            None if code >= INVALID => weights.push(WEIGHT_MAX),
            None => {
                weights.push(0x100 + (code >> 5) as u16);
                weights.push((code & 0x1F) as u16 + 1);
            }
        }
        weights
    }

    fn show(self, weight: u16, out: &mut Vec<u8>) {
        out.push(weight as u8);
    }
}

impl Codes for ByByte {
    fn space_code(self) -> u8 {
        self.ascii(b' ') as u8
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        Some(byte_code(self.ascii(byte) as u8, self.space_code()))
    }

    fn push_code(self, weight: u16, _follows_lead: &mut bool, out: &mut Vec<u8>) {
        push_eight_bit(weight, self.space_code(), out);
    }
}

/// A set of one to four bytes: a weight is two bytes, of which the second is zero for a code of
/// one.
#[derive(Clone, Copy)]
pub(crate) struct ByCode(pub(crate) &'static CodeOrder);

impl Table for ByCode {
    const ZERO_IS_IGNORED: bool = false;

    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        self.0.ascii[usize::from(byte)]
    }

    fn weights(self, code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        match self.0.code(code).as_ref().map(Code::bytes) {
            Some(bytes) => {
                for pair in bytes.chunks(2) {
                    let second = pair.get(1).copied().unwrap_or_default();
                    weights.push(u16::from_be_bytes([pair[0], second]));
                }
            }
            None if code >= INVALID => weights.push(WEIGHT_MAX),
            None => {
                // No code begins with this byte.
                weights.push(0xFF00 + (code >> 15) as u16);
                weights.push((code & 0x7FFF) as u16 | 0x8000);
            }
        }
        weights
    }

    fn show(self, weight: u16, out: &mut Vec<u8>) {
        let [first, second] = weight.to_be_bytes();
        out.push(first);
        if second != 0 || self.0.has_zeros() && first >= 0x80 {
            out.push(second);
        }
    }
}

impl Codes for ByCode {
    fn space_code(self) -> u8 {
        BYTE_SPACE
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        let [first, _] = self.ascii(byte).to_be_bytes();
        Some(byte_code(first, BYTE_SPACE))
    }

    fn push_code(self, weight: u16, _follows_lead: &mut bool, out: &mut Vec<u8>) {
        let [first, second] = weight.to_be_bytes();
        push_byte(first, out);
        // One byte tells a character below 128; all others have two.
        if first >= 0x80 {
            out.push(second);
        }
    }
}
