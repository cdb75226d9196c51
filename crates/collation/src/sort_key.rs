//! Sort keys: weights as bytes that compare as the texts do, common letters in one byte each.
//!
//! # Form
//! Each weight is a code of one to four bytes; no code begins another, and their byte order is
//! that of the weights. The codes of `unicode` and `0900` collations give one byte to every weight
//! that an ASCII character has, and lead bytes to the gaps between them and to what follows. Those
//! of the other collations are, but for a shift, the bytes of UTF-8 or of the character set.
//!
//! Levels are separated by a zero byte. Where trailing spaces do not count, a text has no end to
//! compare: it goes on with spaces for ever. So the space has three codes, in this order: before
//! something less than a space (after any more spaces), before nothing, before something greater;
//! and each key ends with the second.
//!
//! # Invariants
//! 1. Keys are part of what the kernel stores: a change of this form is a change of the format.

use crate::order::{Levels, Table, Task, dispatch, each_weight};
use crate::registry::CollationId;

/// Appends bytes whose order is the order of the texts; equal texts have equal bytes. What is
/// appended has no end mark: whoever puts it in front of more bytes adds one.
///
/// A key is about as long as its text: a byte more where spaces at the end do not count, a third
/// longer for syllables of Hangul, up to six times as long for rare signs that stand for whole
/// words; and two or three times as long under `as_ci` and `as_cs`.
pub fn sort_key(id: CollationId, text: &[u8], out: &mut Vec<u8>) {
    dispatch(id, SortKey { text, out });
}

/// Appends bytes with which the sort keys begin of all texts that begin with characters equal to
/// those of `prefix`, one by one as LIKE compares them. Some other texts have such keys too.
///
/// Spaces at its end are left out where they may not count, and so are levels after the first.
pub fn prefix_key(id: CollationId, prefix: &[u8], out: &mut Vec<u8>) {
    dispatch(id, PrefixKey { prefix, out });
}

/// The codes of a table's weights.
pub(crate) trait Codes: Table {
    /// The first of the three codes of the space.
    fn space_code(self) -> u8;

    /// The code of a plain character that is no space, one byte; `None` when it does not count.
    fn ascii_code(self, byte: u8) -> Option<u8>;

    /// Appends the code of a weight that is not the space's. `follows_lead` is kept between calls.
    fn push_code(self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>);

    /// How much of the beginning of a text is the same in the keys of all texts that begin with
    /// characters like these, whatever follows.
    #[inline]
    fn settled(self, text: &[u8]) -> usize {
        text.len()
    }
}

/// Codes for weights that are bytes or code points: like UTF-8, with room for three spaces.
pub(crate) const BYTE_SPACE: u8 = b' ';
/// Added to what is greater than a space.
const SHIFT: u8 = 2;
/// Bytes from here on take two.
pub(crate) const HIGH_BYTES: u8 = 0xFC;
const HIGH_LEAD: u8 = 0xFE;

/// The code of a byte below 252, where `space` is that of the space.
#[inline]
pub(crate) fn byte_code(byte: u8, space: u8) -> u8 {
    if byte < space { byte } else { byte + SHIFT }
}

/// Appends the code of a byte that is no space.
pub(crate) fn push_byte(byte: u8, out: &mut Vec<u8>) {
    match byte {
        HIGH_BYTES.. => out.extend_from_slice(&[HIGH_LEAD, byte]),
        _ => out.push(byte_code(byte, BYTE_SPACE)),
    }
}

/// Appends the code of a weight of an eight-bit collation in which the space weighs `space`.
pub(crate) fn push_eight_bit(weight: u16, space: u8, out: &mut Vec<u8>) {
    match u8::try_from(weight) {
        Ok(byte @ 0..HIGH_BYTES) => out.push(byte_code(byte, space)),
        _ => {
            out.push(HIGH_LEAD);
            out.extend_from_slice(&weight.to_be_bytes());
        }
    }
}

/// Appends the code of a weight that is a code point of the first plane.
pub(crate) fn push_code_point(weight: u16, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (weight >> shift & 0x3F) as u8;
    match weight {
        0..0x80 => out.push(byte_code(weight as u8, BYTE_SPACE)),
        0x80..0x800 => {
            out.extend_from_slice(&[byte_code(0xC0 | (weight >> 6) as u8, BYTE_SPACE), tail(0)])
        }
        _ => out.extend_from_slice(&[
            byte_code(0xE0 | (weight >> 12) as u8, BYTE_SPACE),
            tail(6),
            tail(0),
        ]),
    }
}

/// The codes of a table of the Unicode Collation Algorithm.
pub(crate) struct UcaCodes {
    /// The codes of ASCII characters; zero for those that do not count.
    ascii: [u8; 128],
    /// The weights that have a code of one byte, in order.
    singles: [u16; 128],
    count: usize,
    /// The code of the first space.
    space: u8,
    /// The lead byte of weights behind all of these.
    far: u8,
}

/// Of the weights behind the last single one, so many ranges of 256 have a lead byte each.
const NEAR_RANGES: u8 = 58;
/// Lead bytes after those, counted from `far`: other weights in full, then the first of two
/// weights that follow from a code point (Han ideographs have their own), then the highest.
const OTHERS: u8 = NEAR_RANGES;
const BEFORE_HAN: u8 = NEAR_RANGES + 1;
const HAN: u8 = NEAR_RANGES + 2;
const HAN_FROM_8000: u8 = NEAR_RANGES + 3;
const AFTER_HAN: u8 = NEAR_RANGES + 4;
const HAN_EXTENSION: u8 = NEAR_RANGES + 5;
const AFTER_EXTENSION: u8 = NEAR_RANGES + 6;
const HIGHEST: u8 = NEAR_RANGES + 7;

impl UcaCodes {
    /// Distributes the codes: a lead byte for each gap, a byte for each weight between two gaps.
    pub(crate) const fn new(weights: &[u16; 128]) -> UcaCodes {
        let (mut singles, mut count) = ([0u16; 128], 0);
        let mut byte = 0;
        while byte < 128 {
            // Insertion sort; equal weights once, zero never.
            let weight = weights[byte];
            let mut at = 0;
            while at < count && singles[at] < weight {
                at += 1;
            }
            if weight != 0 && (at == count || singles[at] != weight) {
                let mut from = count;
                while from > at {
                    singles[from] = singles[from - 1];
                    from -= 1;
                }
                singles[at] = weight;
                count += 1;
            }
            byte += 1;
        }
        let mut codes = UcaCodes { ascii: [0; 128], singles, count, space: 0, far: 0 };
        codes.space = codes.single_code(codes.index_of(weights[b' ' as usize]), 0);
        codes.far = codes.single_code(count - 1, codes.space) + 1;
        assert!(codes.far as usize + HIGHEST as usize <= 0xFF);
        let mut byte = 0;
        while byte < 128 {
            if weights[byte] != 0 {
                codes.ascii[byte] = codes.single_code(codes.index_of(weights[byte]), codes.space);
            }
            byte += 1;
        }
        codes
    }

    const fn index_of(&self, weight: u16) -> usize {
        let mut at = 0;
        while self.singles[at] != weight {
            at += 1;
        }
        at
    }

    /// The code of the single weight of this index, two more behind the space, whose code is given
    /// as soon as it is known. The byte before it is the lead of the gap.
    const fn single_code(&self, index: usize, space: u8) -> u8 {
        let code = 2 * index as u8 + 2;
        if space != 0 && code > space { code + SHIFT } else { code }
    }

    pub(crate) const fn space(&self) -> u8 {
        self.space
    }

    #[inline]
    pub(crate) fn ascii_code(&self, byte: u8) -> Option<u8> {
        Some(self.ascii[usize::from(byte)]).filter(|code| *code != 0)
    }

    /// Appends the code of a weight other than the space's.
    pub(crate) fn push(&self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>) {
        let [high, low] = weight.to_be_bytes();
        if std::mem::take(follows_lead) {
            return out.extend_from_slice(&[high, low]);
        }
        let index = self.singles[..self.count].partition_point(|single| *single < weight);
        if index < self.count {
            let code = self.single_code(index, self.space);
            return if self.singles[index] == weight {
                out.push(code)
            } else {
                // In the gap behind a space the lead byte must be greater than its three codes.
                out.extend_from_slice(&[code - 1, high, low])
            };
        }
        let [last_high, _] = self.singles[self.count - 1].to_be_bytes();
        *follows_lead = high == 0xFB;
        match weight {
            0..0xFB00 if high - last_high < NEAR_RANGES => {
                out.extend_from_slice(&[self.far + (high - last_high), low]);
            }
            0..0xFB00 => out.extend_from_slice(&[self.far + OTHERS, high, low]),
            0xFB40 => out.push(self.far + HAN),
            0xFB41 => out.push(self.far + HAN_FROM_8000),
            0xFB80 => out.push(self.far + HAN_EXTENSION),
            0xFB00..0xFB40 => out.extend_from_slice(&[self.far + BEFORE_HAN, low]),
            0xFB42..0xFB80 => out.extend_from_slice(&[self.far + AFTER_HAN, low]),
            0xFB81..0xFC00 => out.extend_from_slice(&[self.far + AFTER_EXTENSION, low]),
            0xFC00.. => out.extend_from_slice(&[self.far + HIGHEST, high, low]),
        }
    }
}

struct SortKey<'a> {
    text: &'a [u8],
    out: &'a mut Vec<u8>,
}

/// A key under which trailing spaces do not count.
struct Padded<'a> {
    /// The first of the three codes of the space.
    space: u8,
    /// Spaces whose codes depend on what follows.
    waiting: usize,
    out: &'a mut Vec<u8>,
}

impl Padded<'_> {
    /// Appends the waiting spaces before something that is greater or less than a space.
    #[inline]
    fn flush(&mut self, is_greater: bool) {
        for _ in 0..std::mem::take(&mut self.waiting) {
            self.out.push(if is_greater { self.space + 2 } else { self.space });
        }
    }

    fn finish(self) {
        self.out.push(self.space + 1);
    }
}

/// Appends the first level of a text whose weights are of one table; spaces are for `padded`, or
/// like any other character.
fn push_weights<T: Codes>(table: T, text: &[u8], padded: &mut Padded<'_>, counts_spaces: bool) {
    let (mut rest, mut follows_lead) = (text, false);
    let (space, space_code) = (table.ascii(b' '), table.space_code());
    while let Some((byte, tail)) = rest.split_first() {
        if table.is_plain(*byte) {
            rest = tail;
            if *byte == b' ' && !counts_spaces {
                padded.waiting += 1;
            } else if let Some(code) = table.ascii_code(*byte) {
                padded.flush(code > space_code);
                padded.out.push(code);
            }
            continue;
        }
        let (weights, size) = table.first(rest);
        rest = &rest[size..];
        for weight in weights.iter() {
            if weight == 0 && T::ZERO_IS_IGNORED {
                continue;
            }
            if weight == space && counts_spaces && !follows_lead {
                padded.out.push(space_code);
            } else if weight == space && !follows_lead {
                padded.waiting += 1;
            } else {
                padded.flush(weight > space);
                table.push_code(weight, &mut follows_lead, padded.out);
            }
        }
    }
}

/// Appends the codes of a text whose weights are its bytes.
fn push_bytes(text: &[u8], padded: &mut Padded<'_>) {
    for byte in text {
        if *byte == b' ' {
            padded.waiting += 1;
        } else {
            padded.flush(*byte > b' ');
            push_byte(*byte, padded.out);
        }
    }
}

impl Task for SortKey<'_> {
    type Output = ();

    fn bytes(self, pad: bool) {
        self.out.reserve(self.text.len() + 1);
        if !pad {
            return self.out.extend_from_slice(self.text);
        }
        let mut padded = Padded { space: BYTE_SPACE, waiting: 0, out: self.out };
        push_bytes(self.text, &mut padded);
        padded.finish();
    }

    fn padded<T: Codes>(self, table: T) {
        self.out.reserve(self.text.len() + 1);
        let mut padded = Padded { space: table.space_code(), waiting: 0, out: self.out };
        push_weights(table, self.text, &mut padded, false);
        padded.finish();
    }

    fn levels<L: Levels>(self, tables: L, levels: usize) {
        self.out.reserve((self.text.len() + 1) * levels);
        let space = tables.first().space_code();
        let mut first = Padded { space, waiting: 0, out: self.out };
        push_weights(tables.first(), self.text, &mut first, true);
        if levels > 1 {
            self.out.push(0);
            each_weight(tables.second(), self.text, |weight| push_second(weight, self.out));
        }
        if levels > 2 {
            self.out.push(0);
            // Tertiary weights are bytes: there are 31, a few more that languages add, and three
            // times so many where capitals are first.
            each_weight(tables.third(), self.text, |weight| self.out.push(weight as u8));
        }
    }
}

struct PrefixKey<'a> {
    prefix: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Task for PrefixKey<'_> {
    type Output = ();

    fn bytes(self, pad: bool) {
        if !pad {
            return self.out.extend_from_slice(self.prefix);
        }
        push_bytes(self.prefix, &mut Padded { space: BYTE_SPACE, waiting: 0, out: self.out });
    }

    fn padded<T: Codes>(self, table: T) {
        let settled = &self.prefix[..table.settled(self.prefix)];
        let mut padded = Padded { space: table.space_code(), waiting: 0, out: self.out };
        push_weights(table, settled, &mut padded, false);
    }

    fn levels<L: Levels>(self, tables: L, _levels: usize) {
        let table = tables.first();
        let settled = &self.prefix[..table.settled(self.prefix)];
        let mut first = Padded { space: table.space_code(), waiting: 0, out: self.out };
        push_weights(table, settled, &mut first, true);
    }
}

/// Secondary weights take one byte, the few high ones three.
fn push_second(weight: u16, out: &mut Vec<u8>) {
    const LEAD: u8 = 0xEF;
    match u8::try_from(weight) {
        Ok(byte) if byte < LEAD => out.push(byte),
        _ => {
            out.push(LEAD);
            out.extend_from_slice(&weight.to_be_bytes());
        }
    }
}
