//! Comparing, sort keys and hashes: one walk over the weights of a text, whatever the collation.
//!
//! # Invariants
//! 1. `compare`, the byte order of `sort_key`, `equal` and `hash` agree for every input.
//! 2. Where characters are weighed one by one, a common beginning never matters: it is skipped.
//!    Where several may count as one letter, it is skipped up to a character that certainly ends
//!    such a group.
//!
//! # Not here
//! Sort keys (`sort_key`).

use std::cmp::Ordering;

use crate::code_order::{ByByte, ByCode};
use crate::coded::CodeOrder;
use crate::general::{General, ToLower};
use crate::registry::{CollationId, Pad};
use crate::sort_key::Codes;
use crate::tailored::{Tailored, Tailoring};
use crate::uca::{Uca0400, Uca0520, Uca0900};
use crate::utf8::first_char;

/// The weights of one character at one level. Hangul syllables have up to three, expansions eight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CharWeights {
    weights: [u16; 8],
    len: u8,
}

impl CharWeights {
    pub(crate) fn push(&mut self, weight: u16) {
        self.weights[usize::from(self.len)] = weight;
        self.len += 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        self.weights[..usize::from(self.len)].iter().copied()
    }
}

/// Where weights come from.
pub(crate) trait Table: Copy {
    /// Whether a weight of zero means that the character does not count.
    const ZERO_IS_IGNORED: bool = true;

    /// The one weight of a character below 128 that is [plain](Self::is_plain).
    fn ascii(self, byte: u8) -> u16;

    /// The weights of a code point, or of what `utf8` makes of an ill-formed byte.
    fn weights(self, code: u32) -> CharWeights;

    /// Whether a byte is a character of one weight that never counts together with what follows.
    #[inline]
    fn is_plain(self, byte: u8) -> bool {
        byte < 0x80
    }

    /// Whether several characters may count as one letter.
    #[inline]
    fn joins(self) -> bool {
        false
    }

    /// The weights of what a text begins with that is not empty, and its size.
    #[inline]
    fn first(self, text: &[u8]) -> (CharWeights, usize) {
        let (code, size) = first_char(text).expect("the text is not empty");
        (self.weights(code), size)
    }

    /// Appends a weight as `WEIGHT_STRING` shows it.
    fn show(self, weight: u16, out: &mut Vec<u8>) {
        push_weight(weight, out);
    }
}

/// The three tables of a collation of several levels.
pub(crate) trait Levels: Copy {
    /// The first level, that alone has codes for keys.
    type First: Codes;
    /// The second.
    type Second: Table;
    /// The third.
    type Third: Table;

    fn first(self) -> Self::First;
    fn second(self) -> Self::Second;
    fn third(self) -> Self::Third;
}

/// UCA 9.0.0 without a language.
#[derive(Clone, Copy)]
pub(crate) struct Root0900;

impl Levels for Root0900 {
    type First = Uca0900<1>;
    type Second = Uca0900<2>;
    type Third = Uca0900<3>;

    fn first(self) -> Uca0900<1> {
        Uca0900
    }

    fn second(self) -> Uca0900<2> {
        Uca0900
    }

    fn third(self) -> Uca0900<3> {
        Uca0900
    }
}

impl Levels for &'static Tailoring {
    type First = Tailored<Uca0900<1>>;
    type Second = Tailored<Uca0900<2>>;
    type Third = Tailored<Uca0900<3>>;

    fn first(self) -> Self::First {
        Tailored { own: self, base: Uca0900 }
    }

    fn second(self) -> Self::Second {
        Tailored { own: self, base: Uca0900 }
    }

    fn third(self) -> Self::Third {
        Tailored { own: self, base: Uca0900 }
    }
}

/// Gives every weight of a text to `take`.
#[inline]
pub(crate) fn each_weight<T: Table>(table: T, text: &[u8], mut take: impl FnMut(u16)) {
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        if table.is_plain(*byte) {
            rest = tail;
            let weight = table.ascii(*byte);
            if weight != 0 || !T::ZERO_IS_IGNORED {
                take(weight);
            }
        } else {
            let (weights, size) = table.first(rest);
            rest = &rest[size..];
            weights.iter().filter(|weight| *weight != 0 || !T::ZERO_IS_IGNORED).for_each(&mut take);
        }
    }
}

/// The weights of a text, one after the other.
struct Weights<'a, T> {
    text: &'a [u8],
    pending: CharWeights,
    next: u8,
    table: T,
}

impl<'a, T: Table> Weights<'a, T> {
    fn new(table: T, text: &'a [u8]) -> Self {
        Weights { text, pending: CharWeights::default(), next: 0, table }
    }

    /// Whether all weights of the characters so far were taken.
    fn between_characters(&self) -> bool {
        self.next >= self.pending.len
    }
}

impl<T: Table> Iterator for Weights<'_, T> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        loop {
            while self.next < self.pending.len {
                let weight = self.pending.weights[usize::from(self.next)];
                self.next += 1;
                if weight != 0 || !T::ZERO_IS_IGNORED {
                    return Some(weight);
                }
            }
            let (byte, rest) = self.text.split_first()?;
            if self.table.is_plain(*byte) {
                self.text = rest;
                let weight = self.table.ascii(*byte);
                if weight != 0 || !T::ZERO_IS_IGNORED {
                    return Some(weight);
                }
            } else {
                let (weights, size) = self.table.first(self.text);
                (self.text, self.pending, self.next) = (&self.text[size..], weights, 0);
            }
        }
    }
}

/// Skips what ASCII characters both texts have in common weight, or decides the order.
#[inline]
fn skip_ascii<'a, T: Table>(
    table: T,
    a: &'a [u8],
    b: &'a [u8],
) -> Result<(&'a [u8], &'a [u8]), Ordering> {
    let mut at = 0;
    for (x, y) in a.iter().zip(b) {
        if !table.is_plain(*x) || !table.is_plain(*y) {
            break;
        }
        let (x, y) = (table.ascii(*x), table.ascii(*y));
        if x != y {
            if T::ZERO_IS_IGNORED && (x == 0 || y == 0) {
                break;
            }
            return Err(x.cmp(&y));
        }
        at += 1;
    }
    Ok((&a[at..], &b[at..]))
}

/// Compares by the weights of one table; with a `pad`, as if the shorter text went on with it.
fn compare_weights<T: Table>(table: T, a: &[u8], b: &[u8], pad: Option<u16>) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        (a, b) = match skip_ascii(table, a, b) {
            Ok(rest) => rest,
            Err(order) => return order,
        };
        let (mut in_a, mut in_b) = (Weights::new(table, a), Weights::new(table, b));
        loop {
            match (in_a.next(), in_b.next()) {
                (Some(x), Some(y)) if x == y => {}
                (Some(x), Some(y)) => return x.cmp(&y),
                (None, None) => return Ordering::Equal,
                (Some(first), None) => return longer(first, in_a, pad),
                (None, Some(first)) => return longer(first, in_b, pad).reverse(),
            }
            if in_a.between_characters() && in_b.between_characters() {
                break;
            }
        }
        (a, b) = (in_a.text, in_b.text);
    }
}

/// Compares the rest of the longer text with what follows the shorter: nothing, or padding.
fn longer<T: Table>(first: u16, rest: Weights<T>, pad: Option<u16>) -> Ordering {
    match pad {
        None => Ordering::Greater,
        Some(space) => first.cmp(&space).then_with(|| with_spaces(rest, space)),
    }
}

/// What to do with a text, for any collation.
pub(crate) trait Task {
    type Output;

    /// Texts ordered by their bytes, with or without padding.
    fn bytes(self, pad: bool) -> Self::Output;

    /// Texts ordered by one level of weights, padded with spaces.
    fn padded<T: Codes>(self, table: T) -> Self::Output;

    /// Texts ordered by the first `levels` levels of UCA 9.0.0, not padded.
    fn levels<L: Levels>(self, tables: L, levels: usize) -> Self::Output;
}

/// Finds the order that a collation stands for. Unknown numbers order by bytes.
pub(crate) fn dispatch<K: Task>(id: CollationId, task: K) -> K::Output {
    match id.0 {
        255 => task.levels(Root0900, 1),
        305 => task.levels(Root0900, 2),
        278 => task.levels(Root0900, 3),
        45 | 33 | 35 | 54 | 56 | 60 => task.padded(General::<false>),
        159 | 223 => task.padded(General::<true>),
        76 => task.padded(ToLower),
        224 | 192 | 101 | 128 | 160 => task.padded(Uca0400),
        246 | 214 | 123 | 150 | 182 | 250 => task.padded(Uca0520),
        46 | 55 | 61 | 62 | 65 | 83 | 90 => task.bytes(true),
        63 | 309 => task.bytes(false),
        _ => dispatch_others(id, task),
    }
}

/// The same for those whose tables are unpacked when they are first needed.
fn dispatch_others<K: Task>(id: CollationId, task: K) -> K::Output {
    if let Some(own) = Tailoring::of_0400(id) {
        return task.padded(Tailored { own, base: Uca0400 });
    }
    if let Some((own, levels)) = Tailoring::of_0900(id) {
        return task.levels(own, levels);
    }
    match CodeOrder::of(id) {
        Some(order) if order.is_single() => task.padded(ByByte(order)),
        Some(order) => task.padded(ByCode(order)),
        None => task.bytes(false),
    }
}

/// Compares two texts under a collation.
pub fn compare(id: CollationId, a: &[u8], b: &[u8]) -> Ordering {
    dispatch(id, Compare { a, b })
}

/// Whether two texts are the same under a collation.
pub fn equal(id: CollationId, a: &[u8], b: &[u8]) -> bool {
    a == b || compare(id, a, b).is_eq()
}

/// What counts of a text's bytes where these alone decide whether texts are equal: all of them, or
/// all but spaces at the end. None where other bytes can be the same text.
pub fn pad_of_bytes(id: CollationId) -> Option<Pad> {
    dispatch(id, ByBytes)
}

/// What MySQL's `WEIGHT_STRING` shows: the weights alone. Those that a language of UCA 9.0.0 adds
/// have numbers of ours.
pub fn weight_string(id: CollationId, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len());
    dispatch(id, WeightString { text, out: &mut out });
    out
}

/// A hash that is the same for texts that are equal under the collation.
pub fn hash(id: CollationId, text: &[u8]) -> u64 {
    dispatch(id, Hash { text })
}

/// Whether two single characters weigh the same.
pub(crate) fn equal_chars<T: Table>(table: T, a: &[u8], b: &[u8]) -> bool {
    a == b || Weights::new(table, a).eq(Weights::new(table, b))
}

struct Compare<'a> {
    a: &'a [u8],
    b: &'a [u8],
}

impl Compare<'_> {
    /// Without the characters that both begin with, but for those that may count together with
    /// others.
    fn without_common_start<T: Table>(self, table: T) -> Self {
        let same = common_bytes(self.a, self.b);
        let inside = |text: &[u8], at: usize| text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        let mut from = same;
        // A character has at most three bytes behind its first.
        while from > 0 && same - from < 3 && (inside(self.a, from) || inside(self.b, from)) {
            from -= 1;
        }
        while table.joins() && from > 0 && !table.is_plain(self.a[from - 1]) {
            from -= 1;
        }
        Compare { a: &self.a[from..], b: &self.b[from..] }
    }
}

/// How many bytes both texts begin with.
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count();
    let from = 8 * words;
    from + a[from..].iter().zip(&b[from..]).take_while(|(a, b)| a == b).count()
}

impl Task for Compare<'_> {
    type Output = Ordering;

    fn bytes(self, pad: bool) -> Ordering {
        let common = self.a.len().min(self.b.len());
        let order = self.a[..common].cmp(&self.b[..common]);
        if order.is_ne() || !pad {
            return order.then(self.a.len().cmp(&self.b.len()));
        }
        let rest = |text: &[u8]| with_spaces(text[common..].iter().copied(), b' ');
        rest(self.a).then(rest(self.b).reverse())
    }

    fn padded<T: Codes>(self, table: T) -> Ordering {
        let Compare { a, b } = self.without_common_start(table);
        compare_weights(table, a, b, Some(table.ascii(b' ')))
    }

    fn levels<L: Levels>(self, tables: L, levels: usize) -> Ordering {
        let Compare { a, b } = self.without_common_start(tables.first());
        let mut order = compare_weights(tables.first(), a, b, None);
        if levels > 1 {
            order = order.then_with(|| compare_weights(tables.second(), a, b, None));
        }
        if levels > 2 {
            order = order.then_with(|| compare_weights(tables.third(), a, b, None));
        }
        order
    }
}

/// Compares what is left of a text with spaces without end.
fn with_spaces<W: Ord + Copy>(weights: impl Iterator<Item = W>, space: W) -> Ordering {
    let mut other = weights.filter(|weight| *weight != space);
    other.next().map_or(Ordering::Equal, |weight| weight.cmp(&space))
}

fn push_weight(weight: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&weight.to_be_bytes());
}

struct WeightString<'a> {
    text: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Task for WeightString<'_> {
    type Output = ();

    fn bytes(self, _pad: bool) {
        self.out.extend_from_slice(self.text);
    }

    fn padded<T: Codes>(self, table: T) {
        each_weight(table, self.text, |weight| table.show(weight, self.out));
    }

    fn levels<L: Levels>(self, tables: L, levels: usize) {
        each_weight(tables.first(), self.text, |weight| push_weight(weight, self.out));
        if levels > 1 {
            push_weight(0, self.out);
            each_weight(tables.second(), self.text, |weight| push_weight(weight, self.out));
        }
        if levels > 2 {
            push_weight(0, self.out);
            each_weight(tables.third(), self.text, |weight| push_weight(weight, self.out));
        }
    }
}

struct ByBytes;

impl Task for ByBytes {
    type Output = Option<Pad>;

    fn bytes(self, pad: bool) -> Option<Pad> {
        Some(if pad { Pad::Space } else { Pad::None })
    }

    fn padded<T: Codes>(self, _table: T) -> Option<Pad> {
        None
    }

    fn levels<L: Levels>(self, _tables: L, _levels: usize) -> Option<Pad> {
        None
    }
}

struct Hash<'a> {
    text: &'a [u8],
}

/// A multiply-and-rotate hash; the last step spreads the bits.
struct Mixer(u64);

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    }

    fn finish(self) -> u64 {
        let folded = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        folded ^ (folded >> 32)
    }
}

impl Task for Hash<'_> {
    type Output = u64;

    fn bytes(self, pad: bool) -> u64 {
        let end = self.text.iter().rposition(|byte| !pad || *byte != b' ').map_or(0, |at| at + 1);
        let mut mixer = Mixer(0);
        for chunk in self.text[..end].chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mixer.mix(u64::from_le_bytes(word));
        }
        mixer.mix(end as u64);
        mixer.finish()
    }

    fn padded<T: Codes>(self, table: T) -> u64 {
        let (mut mixer, mut spaces, space) = (Mixer(0), 0, table.ascii(b' '));
        each_weight(table, self.text, |weight| {
            if weight == space {
                spaces += 1;
                return;
            }
            for _ in 0..std::mem::take(&mut spaces) {
                mixer.mix(space.into());
            }
            mixer.mix(weight.into());
        });
        mixer.finish()
    }

    /// The first level is enough: equal texts agree in it, and few others do.
    fn levels<L: Levels>(self, tables: L, _levels: usize) -> u64 {
        let mut mixer = Mixer(0);
        each_weight(tables.first(), self.text, |weight| mixer.mix(weight.into()));
        mixer.finish()
    }
}

#[cfg(test)]
mod tests;
