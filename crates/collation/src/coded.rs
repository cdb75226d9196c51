//! Character sets that are neither Unicode nor a part of it: tables of their codes.
//!
//! # Owns
//! The codes of each character, letter case, and the weights of the collations of these sets. A
//! table is unpacked when it is first needed, and stays: 10 kB for a set of single bytes, up to 500
//! kB for a large one.
//! # Invariants
//! 1. Conversion is MySQL's for every code and every character of the first plane: tests compare
//!    sums over all of them with what another server answers (`tables/measured.txt`).
//! # Not here
//! Conversion of whole texts (`convert`).

use std::sync::OnceLock;

use crate::letter_case::capital_of;
use crate::registry::{Charset, CollationId};

const CHARSETS: &[u8] = include_bytes!("tables/charsets.bin");
const ORDERS: &[u8] = include_bytes!("tables/orders.bin");

/// The character sets, in the order of the file.
const SETS: [Charset; 34] = [
    Charset::Armscii8,
    Charset::Ascii,
    Charset::Cp1250,
    Charset::Cp1251,
    Charset::Cp1256,
    Charset::Cp1257,
    Charset::Cp850,
    Charset::Cp852,
    Charset::Cp866,
    Charset::Dec8,
    Charset::Geostd8,
    Charset::Greek,
    Charset::Hebrew,
    Charset::Hp8,
    Charset::Keybcs2,
    Charset::Koi8r,
    Charset::Koi8u,
    Charset::Latin1,
    Charset::Latin2,
    Charset::Latin5,
    Charset::Latin7,
    Charset::Macce,
    Charset::Macroman,
    Charset::Swe7,
    Charset::Tis620,
    Charset::Big5,
    Charset::Cp932,
    Charset::Eucjpms,
    Charset::Euckr,
    Charset::Gb2312,
    Charset::Gbk,
    Charset::Sjis,
    Charset::Ujis,
    Charset::Gb18030,
];

/// Numbers of 32 bits by a number: a directory, and those pages of 256 that hold any.
pub(crate) struct Pages {
    directory: Vec<u16>,
    /// One more than each number; zero for none. The first page is empty.
    numbers: Vec<u32>,
}

const PAGE: usize = 256;

impl Pages {
    pub(crate) fn new() -> Pages {
        Pages { directory: Vec::new(), numbers: vec![0; PAGE] }
    }

    pub(crate) fn get(&self, at: u32) -> Option<u32> {
        let page = usize::from(*self.directory.get(at as usize / PAGE)?);
        self.numbers[page * PAGE + at as usize % PAGE].checked_sub(1)
    }

    fn slot(&mut self, at: u32) -> &mut u32 {
        let page = at as usize / PAGE;
        if page >= self.directory.len() {
            self.directory.resize(page + 1, 0);
        }
        if self.directory[page] == 0 {
            self.directory[page] = (self.numbers.len() / PAGE) as u16;
            self.numbers.resize(self.numbers.len() + PAGE, 0);
        }
        &mut self.numbers[usize::from(self.directory[page]) * PAGE + at as usize % PAGE]
    }

    fn set(&mut self, at: u32, number: u32) {
        *self.slot(at) = number + 1;
    }

    /// Those of the runs that `reader` is at.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Pages {
        let mut pages = Pages::new();
        reader.runs(|at, number| pages.set(at, number));
        pages
    }
}

/// What is left of a packed table.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    /// Blob `index` of a file: their number, the end of each, the blobs.
    pub(crate) fn blob(file: &'static [u8], index: usize) -> Reader<'static> {
        let word = |at: usize| {
            let bytes = file[4 * at..].first_chunk().expect("the file has a head");
            u32::from_le_bytes(*bytes) as usize
        };
        let start = 4 * (word(0) + 1);
        let from = if index == 0 { 0 } else { word(index) };
        Reader(&file[start + from..start + word(index + 1)])
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().expect("tables are whole");
        self.0 = rest;
        *byte
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn varint(&mut self) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u32::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    /// Runs of consecutive keys: keys left out before it, twice the length (and one if each number
    /// is told), the first number or all of them.
    fn runs(&mut self, mut take: impl FnMut(u32, u32)) {
        let mut at = 0;
        for _ in 0..self.varint() {
            at += self.varint();
            let head = self.varint();
            let each = head & 1 == 1;
            let mut number = 0;
            for n in 0..head >> 1 {
                number = if each || n == 0 { u32::from(self.short()) } else { number + 1 };
                take(at, number);
                at += 1;
            }
        }
    }
}

/// How many bytes codes have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Big5,
    Gbk,
    Gb2312,
    Euckr,
    Sjis,
    Ujis,
    Gb18030,
}

impl Form {
    fn of(charset: Charset) -> Form {
        match charset {
            Charset::Big5 => Form::Big5,
            Charset::Gbk => Form::Gbk,
            Charset::Gb2312 => Form::Gb2312,
            Charset::Euckr => Form::Euckr,
            Charset::Sjis | Charset::Cp932 => Form::Sjis,
            Charset::Ujis | Charset::Eucjpms => Form::Ujis,
            Charset::Gb18030 => Form::Gb18030,
            _ => Form::Single,
        }
    }

    /// The size of the longest code.
    fn longest(self) -> usize {
        match self {
            Form::Single => 1,
            Form::Ujis => 3,
            Form::Gb18030 => 4,
            _ => 2,
        }
    }

    /// The size of the code that bytes begin with; `None` when they begin with none.
    fn size(self, bytes: &[u8]) -> Option<usize> {
        let first = bytes[0];
        if self == Form::Single || first < 0x80 {
            return Some(1);
        }
        let second = bytes.get(1).copied().unwrap_or_default();
        let two = match self {
            Form::Single => false,
            Form::Sjis if matches!(first, 0xA1..=0xDF) => return Some(1),
            Form::Big5 => {
                matches!(first, 0xA1..=0xF9) && matches!(second, 0x40..=0x7E | 0xA1..=0xFE)
            }
            Form::Gbk => {
                matches!(first, 0x81..=0xFE) && matches!(second, 0x40..=0x7E | 0x80..=0xFE)
            }
            Form::Gb2312 => matches!(first, 0xA1..=0xF7) && matches!(second, 0xA1..=0xFE),
            Form::Euckr => {
                let tail = matches!(second, 0x41..=0x5A | 0x61..=0x7A | 0x81..=0xFE);
                matches!(first, 0x81..=0xFE) && tail
            }
            Form::Sjis => {
                let lead = matches!(first, 0x81..=0x9F | 0xE0..=0xFC);
                lead && matches!(second, 0x40..=0x7E | 0x80..=0xFC)
            }
            Form::Ujis if first == 0x8F => {
                let tails = [second, bytes.get(2).copied().unwrap_or_default()];
                return tails.iter().all(|tail| matches!(tail, 0xA1..=0xFE)).then_some(3);
            }
            Form::Ujis if first == 0x8E => matches!(second, 0xA1..=0xDF),
            Form::Ujis => matches!(first, 0xA1..=0xFE) && matches!(second, 0xA1..=0xFE),
            Form::Gb18030 => {
                let lead = matches!(first, 0x81..=0xFE);
                if lead && matches!(second, 0x30..=0x39) {
                    let tail = bytes.get(2..4)?;
                    let ends = matches!(tail, [0x81..=0xFE, 0x30..=0x39]);
                    return ends.then_some(4);
                }
                lead && matches!(second, 0x40..=0x7E | 0x80..=0xFE)
            }
        };
        two.then_some(2)
    }
}

/// Keys of codes of four bytes: this plus their number in their order.
const FOUR_BYTES: u32 = 0x1_0000;
/// The number of the first code of four bytes for a character behind the first plane.
const SUPPLEMENTARY: u32 = 189_000;

/// The key under which a table keeps a code.
fn key(code: &[u8]) -> u32 {
    match *code {
        [a] => a.into(),
        [a, b] => u32::from(a) << 8 | u32::from(b),
        // The first byte is always the same; no code of two bytes has a low second one here.
        [_, b, c] => u32::from(b) << 8 | u32::from(c & 0x7F),
        [a, b, c, d] => {
            let digits = [u32::from(a - 0x81), u32::from(b - 0x30), u32::from(c - 0x81)];
            let number = (digits[0] * 10 + digits[1]) * 1260 + digits[2] * 10 + u32::from(d - 0x30);
            FOUR_BYTES + number
        }
        _ => 0,
    }
}

/// The bytes of a code, one to four.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    bytes: [u8; 4],
    size: u8,
}

impl Code {
    fn new(bytes: &[u8]) -> Code {
        let mut code = Code { bytes: [0; 4], size: bytes.len() as u8 };
        code.bytes[..bytes.len()].copy_from_slice(bytes);
        code
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }
}

/// The tables of one character set.
pub(crate) struct Coded {
    form: Form,
    /// Code points by the keys of codes.
    forward: Pages,
    /// Keys of codes by code points.
    reverse: Pages,
    /// Keys by keys.
    lower: Pages,
    upper: Pages,
}

/// What the file says in place of a key for a character that is not converted back.
const NO_KEY: u32 = 0x3F;

impl Coded {
    /// The tables of a character set that has some.
    pub(crate) fn of(charset: Charset) -> Option<&'static Coded> {
        static TABLES: [OnceLock<Coded>; SETS.len()] = [const { OnceLock::new() }; SETS.len()];
        let index = SETS.iter().position(|set| *set == charset)?;
        Some(TABLES[index].get_or_init(|| Coded::read(index)))
    }

    fn read(index: usize) -> Coded {
        let mut reader = Reader::blob(CHARSETS, index);
        let (mut forward, mut reverse) = (Pages::new(), Pages::new());
        reader.runs(|key, code| {
            forward.set(key, code);
            // Of several codes the first counts.
            if reverse.get(code).is_none() {
                reverse.set(code, key);
            }
        });
        reader.runs(|code, key| match key {
            NO_KEY if code != NO_KEY => *reverse.slot(code) = 0,
            _ => reverse.set(code, key),
        });
        let form = Form::of(SETS[index]);
        let lower = Pages::read(&mut reader);
        Coded { form, forward, reverse, lower, upper: Pages::read(&mut reader) }
    }

    /// The first character of bytes that are not empty, and the size of its code.
    pub(crate) fn decode(&self, bytes: &[u8]) -> (Option<char>, usize) {
        let Some(size) = self.form.size(bytes) else { return (None, 1) };
        let key = key(&bytes[..size]);
        let point = match self.forward.get(key) {
            None if key >= FOUR_BYTES + SUPPLEMENTARY => {
                Some(key - FOUR_BYTES - SUPPLEMENTARY + 0x1_0000)
            }
            point => point,
        };
        (point.and_then(char::from_u32), size)
    }

    /// Where a code begins of which there are not yet all bytes; the length if there is none.
    pub(crate) fn whole(&self, bytes: &[u8]) -> usize {
        if self.form == Form::Single {
            return bytes.len();
        }
        let mut at = 0;
        while at < bytes.len() {
            match self.form.size(&bytes[at..]) {
                None if bytes.len() - at < self.form.longest() => return at,
                size => at += size.unwrap_or(1),
            }
        }
        at
    }

    /// The code of a character that the set has.
    pub(crate) fn encode(&self, point: u32) -> Option<Code> {
        let key = match self.reverse.get(point) {
            None if self.form == Form::Gb18030 && (0x1_0000..0x11_0000).contains(&point) => {
                FOUR_BYTES + SUPPLEMENTARY + point - 0x1_0000
            }
            key => key?,
        };
        Some(self.code(key))
    }

    fn code(&self, key: u32) -> Code {
        let [_, _, high, low] = key.to_be_bytes();
        match key {
            0..0x100 => Code::new(&[low]),
            FOUR_BYTES.. => {
                let number = key - FOUR_BYTES;
                let digit = |unit: u32, base: u32, first: u8| first + (number / unit % base) as u8;
                let bytes = [
                    digit(12_600, 126, 0x81),
                    digit(1_260, 10, 0x30),
                    digit(10, 126, 0x81),
                    digit(1, 10, 0x30),
                ];
                Code::new(&bytes)
            }
            _ if self.form == Form::Ujis && low < 0x80 => Code::new(&[0x8F, high, low | 0x80]),
            _ => Code::new(&[high, low]),
        }
    }

    /// The character in another letter case; itself where the set has no such letter.
    pub(crate) fn letter_case(&self, point: u32, upper: bool) -> u32 {
        let table = if upper { &self.upper } else { &self.lower };
        let other = self.reverse.get(point).and_then(|key| table.get(key));
        other.and_then(|key| self.forward.get(key)).unwrap_or(point)
    }
}

/// The one order that is made of Unicode's letter case: MariaDB has no gb18030 to measure.
const GB18030_CHINESE_CI: CollationId = CollationId(248);

/// The order of a collation of such a set: by the bytes of codes, or of other codes in their place.
pub(crate) struct CodeOrder {
    coded: &'static Coded,
    /// Keys of what codes weigh, for those that are not their own weights.
    instead: Pages,
    /// Whether a letter weighs what its capital does.
    folds: bool,
    /// Weights of the characters below 128.
    pub(crate) ascii: [u16; 128],
}

impl CodeOrder {
    /// The order of a collation of such a set. `None` for other sets.
    pub(crate) fn of(id: CollationId) -> Option<&'static CodeOrder> {
        // The highest number of such a collation is that of gb18030_bin.
        static ORDER: [OnceLock<Option<CodeOrder>>; 250] = [const { OnceLock::new() }; 250];
        ORDER.get(usize::from(id.0))?.get_or_init(|| CodeOrder::read(id)).as_ref()
    }

    fn read(id: CollationId) -> Option<CodeOrder> {
        let coded = Coded::of(id.charset())?;
        let mut ids = Reader::blob(ORDERS, 0);
        let count = ids.0.len() / 2;
        let place = (1..=count).find(|_| ids.short() == id.0);
        let instead = match place {
            Some(place) => Pages::read(&mut Reader::blob(ORDERS, place)),
            None => Pages::new(),
        };
        let mut order =
            CodeOrder { coded, instead, folds: id == GB18030_CHINESE_CI, ascii: [0; 128] };
        for byte in 0..128 {
            order.ascii[usize::from(byte)] = order.ascii_weight(byte);
        }
        Some(order)
    }

    /// Whether codes are single bytes.
    pub(crate) fn is_single(&self) -> bool {
        self.coded.form == Form::Single
    }

    /// Whether a weight of two bytes may end with a zero.
    pub(crate) fn has_zeros(&self) -> bool {
        self.coded.form == Form::Gbk
    }

    fn ascii_weight(&self, byte: u8) -> u16 {
        let code = self.code(byte.into());
        match code.as_ref().map(Code::bytes) {
            Some([weight]) if self.is_single() => u16::from(*weight),
            Some([weight]) => u16::from(*weight) << 8,
            // Seven-bit Swedish has letters in place of some.
            _ => 0x100 + u16::from(byte),
        }
    }

    /// What a character weighs as: bytes to compare. `None` for one that the set does not have.
    pub(crate) fn code(&self, point: u32) -> Option<Code> {
        let point = if self.folds { capital_of(point) } else { point };
        let Some(key) = self.coded.reverse.get(point) else { return self.coded.encode(point) };
        Some(self.coded.code(self.instead.get(key).unwrap_or(key)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
