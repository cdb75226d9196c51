//! The beginnings of sort keys as numbers: most pairs of texts are told apart by one comparison.
//!
//! # Invariants
//! 1. Where the numbers of two texts differ, the texts compare alike; where they do not, nothing is
//!    known.

use crate::order::{Levels, Table, Task, dispatch};
use crate::registry::CollationId;
use crate::sort_key::{BYTE_SPACE, Codes, byte_code, prefix_key, sort_key};

/// Bytes of a sort key in a number.
const SIZE: usize = 8;
/// Bytes of a long text that usually make so many of its key.
const HEAD: usize = 3 * SIZE;

/// The first eight bytes of the text's [`sort_key`] as a number, highest byte first; zeros behind a
/// shorter key. Texts whose numbers differ are in their order.
pub fn sort_prefix(id: CollationId, text: &[u8]) -> u64 {
    let common = text.first_chunk().and_then(|head| dispatch(id, Common { head }));
    common.unwrap_or_else(|| of_key(id, text))
}

/// From the sort key itself, or its beginning.
#[cold]
fn of_key(id: CollationId, text: &[u8]) -> u64 {
    let mut key = Vec::with_capacity(2 * HEAD);
    let mut end = text.len().min(HEAD);
    while end < text.len() && end > 0 && text[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    if end < text.len() {
        prefix_key(id, &text[..end], &mut key);
    }
    if key.len() < SIZE {
        key.clear();
        sort_key(id, text, &mut key);
    }
    key.resize(key.len().max(SIZE), 0);
    key.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// The common case: characters below 128 with a code of one byte each.
struct Common<'a> {
    head: &'a [u8; SIZE],
}

impl Common<'_> {
    #[inline]
    fn coded(self, code: impl Fn(u8) -> Option<u8>) -> Option<u64> {
        let mut codes = [0; SIZE];
        for (to, byte) in codes.iter_mut().zip(self.head) {
            *to = code(*byte)?;
        }
        Some(u64::from_be_bytes(codes))
    }
}

impl Task for Common<'_> {
    type Output = Option<u64>;

    fn bytes(self, pad: bool) -> Option<u64> {
        if pad {
            self.coded(|byte| (b'!'..0x80).contains(&byte).then(|| byte_code(byte, BYTE_SPACE)))
        } else {
            Some(u64::from_be_bytes(*self.head))
        }
    }

    fn padded<T: Codes>(self, table: T) -> Option<u64> {
        // What the code of a space is depends on what follows.
        let counts = |byte: &u8| table.is_plain(*byte) && *byte != b' ';
        self.coded(|byte| Some(byte).filter(counts).and_then(|byte| table.ascii_code(byte)))
    }

    fn levels<L: Levels>(self, tables: L, _levels: usize) -> Option<u64> {
        let table = tables.first();
        self.coded(|byte| match byte {
            b' ' => Some(table.space_code()),
            _ if !table.is_plain(byte) => None,
            _ => table.ascii_code(byte),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COLLATIONS;

    #[test]
    fn a_prefix_is_the_beginning_of_the_sort_key() {
        let parts = ["a", "B", "z", "0", "-", " ", "\0", "\u{1}", "~", "ß", "é", "字", "\u{301}"];
        let mut state = 3_u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % count
        };
        for collation in COLLATIONS {
            for _ in 0..500 {
                // Those that are common, or any.
                let (among, most) = [(&parts[..6], 12), (&parts[..], 30)][below(2)];
                let count = below(most);
                let text: String = (0..count).map(|_| among[below(among.len())]).collect();
                let mut key = Vec::new();
                sort_key(collation.id, text.as_bytes(), &mut key);
                key.resize(key.len().max(SIZE), 0);
                let expected = u64::from_be_bytes(key[..SIZE].try_into().expect("eight bytes"));
                let found = sort_prefix(collation.id, text.as_bytes());
                assert_eq!(found, expected, "{text:?} under {}", collation.name);
            }
        }
    }
}
