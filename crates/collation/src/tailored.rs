//! Collations of single languages over the Unicode Collation Algorithm.
//!
//! # Owns
//! What a language weighs in another way than the algorithm's table: letters of its own, several
//! characters that count as one letter, scripts that come first, capitals before others. A language
//! is unpacked when it is first needed, and stays; it takes some kilobytes.
//! # Invariants
//! 1. Of several groups that a text may begin with the longest counts; groups are found from the
//!    left.
//! # Not here
//! The rules of the languages: `crates/collation/generate/tailorings.py`.

use std::sync::OnceLock;

use crate::coded::{Pages, Reader};
use crate::order::{CharWeights, Table};
use crate::registry::CollationId;
use crate::sort_key::{Codes, UcaCodes};
use crate::uca::{Uca0400, Uca0900};
use crate::utf8::first_char;

const FILE: &[u8] = include_bytes!("tables/tailored.bin");

/// Languages of UCA 4.0.0, each in the character sets of Unicode.
const OLD: usize = 22;
/// The first languages' numbers in those character sets: utf16, ucs2, utf32, utf8mb3, utf8mb4.
const OLD_FIRST: [u16; 5] = [102, 129, 161, 193, 225];
/// `unicode_520_ci` lies before the last of each, which is Vietnamese.
const OLD_GAP: u16 = 21;

/// There is no such collation.
const NONE: u16 = u16::MAX;

/// Languages of UCA 9.0.0 in the order of the file: the number of `ai_ci`, that of `as_cs`.
const NEW: [(u16, u16); 30] = [
    (256, 279),  // de_pb
    (257, 280),  // is
    (258, 281),  // lv
    (259, 282),  // ro
    (260, 283),  // sl
    (261, 284),  // pl
    (262, 285),  // et
    (263, 286),  // es
    (264, 287),  // sv
    (265, 288),  // tr
    (266, 289),  // cs
    (267, 290),  // da
    (268, 291),  // lt
    (269, 292),  // sk
    (270, 293),  // es_trad
    (271, 294),  // la
    (273, 296),  // eo
    (274, 297),  // hu
    (275, 298),  // hr
    (277, 300),  // vi
    (306, 307),  // ru
    (310, 311),  // nb
    (312, 313),  // nn
    (314, 315),  // sr_latn
    (316, 317),  // bs
    (318, 319),  // bg
    (320, 321),  // gl
    (322, 323),  // mn_cyrl
    (NONE, 303), // ja
    (NONE, 308), // zh
];

/// How many elements a letter of a language has at most.
const ELEMENTS: usize = 8;

/// The weights of one letter: at each level as many as it has elements.
struct Letter {
    elements: [[u16; 3]; ELEMENTS],
    count: usize,
}

impl Letter {
    fn read(reader: &mut Reader<'_>, levels: usize) -> Letter {
        let mut letter = Letter { elements: [[0; 3]; ELEMENTS], count: reader.varint() as usize };
        for element in &mut letter.elements[..letter.count] {
            element[0] = reader.short();
            if levels > 1 {
                element[1] = reader.short();
                element[2] = reader.byte().into();
            }
        }
        letter
    }

    fn weights(&self, level: usize) -> CharWeights {
        let mut weights = CharWeights::default();
        for element in &self.elements[..self.count] {
            weights.push(element[level - 1]);
        }
        weights
    }
}

/// What a language weighs in another way than the table it is based on.
pub(crate) struct Tailoring {
    /// Characters of their own, in order.
    singles: Vec<(u32, Letter)>,
    /// Primary weights of ideographs that have some of their own.
    han: Pages,
    /// Characters that count as one letter, in order; of those with one beginning the longest
    /// first.
    groups: Vec<(Vec<u32>, Letter)>,
    /// The first weights of two characters that LIKE may take for the first two of a group.
    beginnings: Vec<[Option<u16>; 2]>,
    /// Primary weights that are moved: first, behind the last, first afterwards.
    moves: Vec<[u16; 3]>,
    /// Whether capitals are before others.
    upper_first: bool,
    /// Whether the two kinds of kana weigh the same.
    merges_kana: bool,
    /// Of each character below 128: whether it is plain, and its weights at each level.
    plain: [bool; 128],
    ascii: [[u16; 128]; 3],
    codes: UcaCodes,
}

impl Tailoring {
    /// The language of a collation of UCA 4.0.0.
    pub(crate) fn of_0400(id: CollationId) -> Option<&'static Tailoring> {
        static LANGUAGES: [OnceLock<Tailoring>; OLD] = [const { OnceLock::new() }; OLD];
        let places = OLD_FIRST.iter().map(|first| id.0.wrapping_sub(*first));
        let place = places.min().filter(|place| *place <= OLD_GAP + 1 && *place != OLD_GAP)?;
        let index = usize::from(place.min(OLD_GAP));
        Some(LANGUAGES[index].get_or_init(|| Tailoring::read(index, Uca0400)))
    }

    /// The language of a collation of UCA 9.0.0, and how many levels it has.
    pub(crate) fn of_0900(id: CollationId) -> Option<(&'static Tailoring, usize)> {
        static LANGUAGES: [OnceLock<Tailoring>; NEW.len()] = [const { OnceLock::new() }; NEW.len()];
        id.get()?;
        let index = NEW.iter().position(|(ai_ci, as_cs)| id.0 == *ai_ci || id.0 == *as_cs)?;
        let levels = if id.0 == NEW[index].0 { 1 } else { 3 };
        let read = || Tailoring::read(OLD + index, Uca0900::<1>);
        Some((LANGUAGES[index].get_or_init(read), levels))
    }

    fn read<B: Base>(index: usize, base: B) -> Tailoring {
        let mut reader = Reader::blob(FILE, index);
        let levels = if index < OLD { 1 } else { 3 };
        let mut tailoring = Tailoring {
            singles: Vec::new(),
            han: Pages::new(),
            groups: Vec::new(),
            beginnings: Vec::new(),
            moves: Vec::new(),
            upper_first: false,
            merges_kana: false,
            plain: [true; 128],
            ascii: [[0; 128]; 3],
            codes: UcaCodes::new(&ASCII_RANKS),
        };
        if levels > 1 {
            let flags = reader.byte();
            tailoring.upper_first = flags & 1 != 0;
            tailoring.merges_kana = flags & 2 != 0;
            let moves = reader.varint();
            tailoring.moves =
                (0..moves).map(|_| [reader.short(), reader.short(), reader.short()]).collect();
            tailoring.han = Pages::read(&mut reader);
        }
        for _ in 0..reader.varint() {
            let count = reader.varint();
            let text: Vec<u32> = (0..count).map(|_| reader.varint()).collect();
            let letter = Letter::read(&mut reader, levels);
            match text[..] {
                [code] => tailoring.singles.push((code, letter)),
                _ => tailoring.groups.push((text, letter)),
            }
        }
        tailoring.singles.sort_by_key(|(code, _)| *code);
        tailoring.groups.sort_by(|(a, _), (b, _)| a[0].cmp(&b[0]).then(b.len().cmp(&a.len())));
        tailoring.prepare(base);
        tailoring
    }

    /// The parts that follow from the others.
    fn prepare<B: Base>(&mut self, base: B) {
        for (text, _) in &self.groups {
            for part in &text[..text.len() - 1] {
                if let Some(plain) = self.plain.get_mut(*part as usize) {
                    *plain = false;
                }
            }
        }
        for code in 0..128_u8 {
            let at = usize::from(code);
            let of_base = base.levels_of_ascii(code);
            let mut plain = self.plain[at];
            let mut weights = [1, 2, 3].map(|level| self.changed(level, of_base[level - 1]));
            match self.single(code.into()) {
                Some(letter) if letter.count == 1 => weights = letter.elements[0],
                // A weight of the table is as good as another: only plain characters are asked for.
                Some(_) => plain = false,
                None => {}
            }
            self.plain[at] = plain;
            for (level, weight) in self.ascii.iter_mut().zip(weights) {
                level[at] = weight;
            }
        }
        self.codes = UcaCodes::new(&self.ascii[0]);
        let first_two = |(text, _): &(Vec<u32>, Letter)| {
            [text[0], text[1]].map(|code| self.first_weight(base, code))
        };
        self.beginnings = self.groups.iter().map(first_two).collect();
    }

    /// The first weight that counts of a character alone; `None` if none does.
    fn first_weight<B: Base>(&self, base: B, code: u32) -> Option<u16> {
        if let Some(weights) = self.own_weights(1, code) {
            return weights.iter().find(|weight| *weight != 0);
        }
        let weights = base.weights(code);
        weights.iter().map(|weight| self.changed(1, weight)).find(|weight| *weight != 0)
    }

    /// The weights of a character that the language says itself.
    fn own_weights(&self, level: usize, code: u32) -> Option<CharWeights> {
        if let Some(letter) = self.single(code) {
            return Some(letter.weights(level));
        }
        let primary = self.han.get(code)?;
        let mut weights = CharWeights::default();
        weights.push([primary as u16, 0x20, 0x02][level - 1]);
        Some(weights)
    }

    fn single(&self, code: u32) -> Option<&Letter> {
        let at = self.singles.binary_search_by_key(&code, |(single, _)| *single).ok()?;
        Some(&self.singles[at].1)
    }

    /// The group that a text begins with, whose first character this is, and its size.
    fn group(&self, code: u32, text: &[u8]) -> Option<(&Letter, usize)> {
        let from = self.groups.partition_point(|(group, _)| group[0] < code);
        let mut same = self.groups[from..].iter().take_while(|(group, _)| group[0] == code);
        same.find_map(|(group, letter)| {
            let mut size = 0;
            for part in group {
                let (_, more) = first_char(&text[size..]).filter(|(code, _)| code == part)?;
                size += more;
            }
            Some((letter, size))
        })
    }

    /// A weight of the table that this one is based on, as the language has it.
    fn changed(&self, level: usize, weight: u16) -> u16 {
        match level {
            1 => {
                let range = |[first, end, _]: &&[u16; 3]| (*first..*end).contains(&weight);
                let found = self.moves.iter().find(range);
                found.map_or(weight, |[first, _, to]| weight - first + to)
            }
            3 if self.upper_first && weight != 0 => {
                let upper = matches!(weight, 0x08..=0x0C | 0x0E | 0x11 | 0x12 | 0x1D);
                if upper { weight } else { weight + 2 * CASES }
            }
            // Katakana as hiragana, large and small.
            3 if self.merges_kana && matches!(weight, 0x0F | 0x11) => {
                weight - if weight == 0x0F { 2 } else { 3 }
            }
            _ => weight,
        }
    }
}

/// Where capitals are first, tertiary weights of mixed and small letters are so far behind.
const CASES: u16 = 0x28;

/// Codes for a table that is not known yet.
static ASCII_RANKS: [u16; 128] = {
    let mut ranks = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        // As many as the real ones have, which are fewer than the characters.
        ranks[byte] = 1 + byte as u16 / 2;
        byte += 1;
    }
    ranks
};

/// A table that languages are based on.
pub(crate) trait Base: Table {
    /// The level it gives, from 1.
    const LEVEL: usize;

    /// The weights of a character below 128 at all levels.
    fn levels_of_ascii(self, byte: u8) -> [u16; 3];
}

impl Base for Uca0400 {
    const LEVEL: usize = 1;

    fn levels_of_ascii(self, byte: u8) -> [u16; 3] {
        [self.ascii(byte), 0, 0]
    }
}

impl<const LEVEL: usize> Base for Uca0900<LEVEL> {
    const LEVEL: usize = LEVEL;

    fn levels_of_ascii(self, byte: u8) -> [u16; 3] {
        [Uca0900::<1>.ascii(byte), Uca0900::<2>.ascii(byte), Uca0900::<3>.ascii(byte)]
    }
}

/// A table with the changes of a language.
#[derive(Clone, Copy)]
pub(crate) struct Tailored<B> {
    pub(crate) own: &'static Tailoring,
    pub(crate) base: B,
}

impl<B: Base> Table for Tailored<B> {
    #[inline]
    fn ascii(self, byte: u8) -> u16 {
        self.own.ascii[B::LEVEL - 1][usize::from(byte)]
    }

    fn weights(self, code: u32) -> CharWeights {
        if let Some(weights) = self.own.own_weights(B::LEVEL, code) {
            return weights;
        }
        let weights = self.base.weights(code);
        if self.own.moves.is_empty() && !self.own.upper_first && !self.own.merges_kana {
            return weights;
        }
        let mut changed = CharWeights::default();
        weights.iter().for_each(|weight| changed.push(self.own.changed(B::LEVEL, weight)));
        changed
    }

    #[inline]
    fn is_plain(self, byte: u8) -> bool {
        self.own.plain.get(usize::from(byte)).is_some_and(|plain| *plain)
    }

    #[inline]
    fn joins(self) -> bool {
        !self.own.groups.is_empty()
    }

    fn first(self, text: &[u8]) -> (CharWeights, usize) {
        let (code, size) = first_char(text).expect("the text is not empty");
        match self.own.group(code, text) {
            Some((letter, size)) => (letter.weights(B::LEVEL), size),
            None => (self.weights(code), size),
        }
    }
}

impl<B: Base> Codes for Tailored<B> {
    fn space_code(self) -> u8 {
        self.own.codes.space()
    }

    #[inline]
    fn ascii_code(self, byte: u8) -> Option<u8> {
        self.own.codes.ascii_code(byte)
    }

    fn push_code(self, weight: u16, follows_lead: &mut bool, out: &mut Vec<u8>) {
        self.own.codes.push(weight, follows_lead, out);
    }

    /// Up to where a group might begin, of letters that LIKE takes for those of the text.
    fn settled(self, text: &[u8]) -> usize {
        if !self.joins() {
            return text.len();
        }
        let mut at = 0;
        while let Some((code, size)) = first_char(&text[at..]) {
            let weight = |code| self.own.first_weight(self.base, code);
            let first = weight(code);
            let second = first_char(&text[at + size..]).map(|(code, _)| weight(code));
            let may_begin =
                |[a, b]: &[Option<u16>; 2]| *a == first && second.is_none_or(|c| c == *b);
            if self.own.beginnings.iter().any(may_begin) {
                break;
            }
            at += size;
        }
        at
    }
}

#[cfg(test)]
mod tests;
