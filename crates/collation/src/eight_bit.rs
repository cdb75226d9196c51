//! Collations of latin1 and ascii: one weight per character, by its byte in the character set.

use crate::convert::latin1_byte;
use crate::order::{CharWeights, Table};
use crate::sort_key::{BYTE_SPACE, Codes, byte_code, push_eight_bit};
use crate::uca::WEIGHT_MAX;
use crate::utf8::INVALID;

/// `latin1_swedish_ci`: letters that a letter or a sign stands for, after it. All other bytes weigh
/// what they are.
const SWEDISH: &[(u8, &str)] = &[
    (b'A', "aÀÁÂÃàáâã"),
    (b'C', "cÇç"),
    (b'D', "dÐð"),
    (b'E', "eÈÉÊËèéêë"),
    (b'I', "iÌÍÎÏìíîï"),
    (b'N', "nÑñ"),
    (b'O', "oÒÓÔÕòóôõ"),
    (b'U', "uÙÚÛùúû"),
    (b'Y', "yÜÝüý"),
    (b'[', "Åå"),
    (b'\\', "ÄÆäæ"),
    (b']', "Öö"),
    (0xD8, "ø"),
    (0xDE, "þ"),
];

/// The order of `latin1_general_ci` and `_cs` from the sign `@` on; of two letters that differ in
/// case only, the capital is first. What is missing here follows in the order of the bytes.
const GENERAL: &str = "@AaÀàÁáÂâÃãÄäÅåÆæBbCcÇçDdÐðEeÈèÉéÊêËëFfGgHhIiÌìÍíÎîÏïJjKkLlMmNnÑñ\
                       OoÒòÓóÔôÕõÖöØøPpQqRrSsßTtUuÙùÚúÛûÜüVvWwXxYyÝýÿZzÞþ[\\]^_`{|}~×÷";

const fn swedish() -> [u16; 256] {
    let mut weights = identity();
    let mut letter = b'a';
    while letter <= b'z' {
        weights[letter as usize] = letter as u16 - 32;
        letter += 1;
    }
    let mut row = 0;
    while row < SWEDISH.len() {
        let (weight, letters) = SWEDISH[row];
        let mut at = 0;
        while at < letters.len() {
            let (byte, size) = latin1_at(letters.as_bytes(), at);
            weights[byte as usize] = weight as u16;
            at += size;
        }
        row += 1;
    }
    weights
}

const fn general(case_sensitive: bool) -> [u16; 256] {
    let mut weights = identity();
    let mut known = [false; 256];
    let mut next = b'@' as u16;
    let (mut at, mut previous) = (0, 0);
    while at < GENERAL.len() {
        let (byte, size) = latin1_at(GENERAL.as_bytes(), at);
        // The multiplication and the division sign lie 32 apart like letters, and are none.
        let same = !case_sensitive && byte as u16 == previous as u16 + 32 && byte != 0xF7;
        weights[byte as usize] = if same { next - 1 } else { next };
        next = weights[byte as usize] + 1;
        known[byte as usize] = true;
        previous = byte;
        at += size;
    }
    let mut byte = b'@' as usize;
    while byte < 256 {
        if !known[byte] {
            weights[byte] = next;
            next += 1;
        }
        byte += 1;
    }
    weights
}

const fn ascii() -> [u16; 256] {
    let mut weights = identity();
    let mut letter = b'a';
    while letter <= b'z' {
        weights[letter as usize] = letter as u16 - 32;
        letter += 1;
    }
    weights
}

const fn identity() -> [u16; 256] {
    let mut weights = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        weights[byte] = byte as u16;
        byte += 1;
    }
    weights
}

/// The character of U+0000 to U+00FF at a place of a constant text, and its size.
const fn latin1_at(text: &[u8], at: usize) -> (u8, usize) {
    if text[at] < 0x80 { (text[at], 1) } else { (text[at] << 6 | text[at + 1] & 0x3F, 2) }
}

/// Numbers of the orders, the parameter of [`EightBit`].
pub(crate) const LATIN1_SWEDISH: usize = 0;
pub(crate) const LATIN1_GENERAL_CI: usize = 1;
pub(crate) const LATIN1_GENERAL_CS: usize = 2;
pub(crate) const LATIN1_BIN: usize = 3;
pub(crate) const ASCII_GENERAL: usize = 4;

static WEIGHTS: [[u16; 256]; 5] = [swedish(), general(false), general(true), identity(), ascii()];

/// The weights of an order of bytes. Characters outside latin1, which no such column holds, follow
/// behind all others.
pub(crate) struct EightBit<const ORDER: usize>;

impl<const ORDER: usize> Table for EightBit<ORDER> {
    #[inline]
    fn ascii(byte: u8) -> u16 {
        WEIGHTS[ORDER][usize::from(byte)]
    }

    fn weights(code: u32) -> CharWeights {
        let mut weights = CharWeights::default();
        let byte = if code < INVALID { latin1_byte(code) } else { None };
        weights.push(match byte {
            Some(byte) => WEIGHTS[ORDER][usize::from(byte)],
            None if code < INVALID => 0x100 + (code >> 5) as u16,
            None => WEIGHT_MAX,
        });
        if byte.is_none() && code < INVALID {
            weights.push((code & 0x1F) as u16 + 1);
        }
        weights
    }

    /// Weights are bytes here, so zero is that of U+0000.
    const ZERO_IS_IGNORED: bool = false;
    const IS_EIGHT_BIT: bool = true;
}

impl<const ORDER: usize> Codes for EightBit<ORDER> {
    const SPACE: u8 = BYTE_SPACE;

    #[inline]
    fn ascii_code(byte: u8) -> Option<u8> {
        // ASCII characters weigh less than the bytes that take two.
        Some(byte_code(WEIGHTS[ORDER][usize::from(byte)] as u8))
    }

    fn push_code(weight: u16, _follows_lead: &mut bool, out: &mut Vec<u8>) {
        push_eight_bit(weight, out);
    }
}
