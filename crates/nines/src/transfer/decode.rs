//! Texts of other encodings, as UTF-8.
//!
//! # Guarantees
//! What cannot be decoded is an error that names the byte. A mark of the byte order at the
//! beginning is left out.

use std::io::{self, Read};

/// How a file is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    /// Windows-1252, as MySQL's latin1.
    Latin1,
    Utf16Le,
    Utf16Be,
}

/// What Windows-1252 has in place of the control characters 0x80 to 0x9F; zero for what it leaves
/// out, which stays a control character as in MySQL.
const WINDOWS_1252: [u16; 32] = [
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0, 0x017D, 0, 0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC,
    0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178,
];
/// Bytes that are decoded at once.
const PORTION: usize = 64 << 10;

/// Reads another reader's bytes as UTF-8. UTF-8 itself is passed as it is.
pub(super) struct Decoder<R> {
    input: R,
    encoding: Encoding,
    /// Bytes of the input that are not decoded yet.
    raw: Vec<u8>,
    ready: Vec<u8>,
    taken: usize,
    /// Bytes of the input that are decoded.
    at: u64,
    has_begun: bool,
    has_ended: bool,
}

impl<R: Read> Decoder<R> {
    pub(super) fn new(input: R, encoding: Encoding) -> Self {
        Self {
            input,
            encoding,
            raw: Vec::new(),
            ready: Vec::new(),
            taken: 0,
            at: 0,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Decodes the next portion.
    fn fill(&mut self) -> io::Result<()> {
        (self.taken, self.ready) = (0, Vec::new());
        let read = (&mut self.input).take(PORTION as u64).read_to_end(&mut self.raw)?;
        self.has_ended = read == 0;
        let raw = std::mem::take(&mut self.raw);
        let used = match self.encoding {
            Encoding::Utf8 => {
                self.ready.extend_from_slice(&raw);
                raw.len()
            }
            Encoding::Latin1 => {
                let text: String = raw.iter().map(|byte| latin1(*byte)).collect();
                self.ready = text.into_bytes();
                raw.len()
            }
            Encoding::Utf16Le => self.utf16(&raw, u16::from_le_bytes)?,
            Encoding::Utf16Be => self.utf16(&raw, u16::from_be_bytes)?,
        };
        self.raw = raw[used..].to_vec();
        self.at += used as u64;
        if !std::mem::replace(&mut self.has_begun, true) && self.ready.starts_with(b"\xEF\xBB\xBF")
        {
            self.taken = 3;
        }
        Ok(())
    }

    fn utf16(&mut self, raw: &[u8], unit: fn([u8; 2]) -> u16) -> io::Result<usize> {
        let mut units: Vec<u16> =
            raw.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let is_first = |unit: &u16| (0xD800..0xDC00).contains(unit);
        // The other half of the last one is still to come.
        if !self.has_ended && units.last().is_some_and(is_first) {
            units.pop();
        }
        let wrong = |at: u64| {
            let why = format!("byte {at} of the file is no UTF-16: see --encoding");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let used = units.len() * 2;
        if self.has_ended && used < raw.len() {
            return Err(wrong(self.at + used as u64 + 1));
        }
        let mut text = String::with_capacity(raw.len());
        let mut at = self.at;
        for letter in char::decode_utf16(units) {
            let letter = letter.map_err(|_| wrong(at + 1))?;
            at += letter.len_utf16() as u64 * 2;
            text.push(letter);
        }
        self.ready = text.into_bytes();
        Ok(used)
    }
}

fn latin1(byte: u8) -> char {
    let mapped = match byte {
        0x80..=0x9F => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => 0,
    };
    match mapped {
        0 => char::from(byte),
        mapped => char::from_u32(u32::from(mapped)).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.fill()?;
        }
        let count = out.len().min(self.ready.len() - self.taken);
        out[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(out.len()).min(1);
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn decoded(bytes: &[u8], encoding: Encoding) -> io::Result<String> {
        let mut text = String::new();
        Decoder::new(Slow(bytes), encoding).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn texts_of_all_encodings_are_read() {
        let text = "a\u{20AC}é\u{1F600}z";
        let of = |unit: fn(u16) -> [u8; 2], marked: bool| {
            let mark = marked.then_some(0xFEFF);
            mark.into_iter().chain(text.encode_utf16()).flat_map(unit).collect::<Vec<u8>>()
        };
        for marked in [false, true] {
            assert_eq!(decoded(&of(u16::to_le_bytes, marked), Encoding::Utf16Le).unwrap(), text);
            assert_eq!(decoded(&of(u16::to_be_bytes, marked), Encoding::Utf16Be).unwrap(), text);
        }
        assert_eq!(decoded(text.as_bytes(), Encoding::Utf8).unwrap(), text);
        let marked = ["\u{FEFF}", text].concat();
        assert_eq!(decoded(marked.as_bytes(), Encoding::Utf8).unwrap(), text);
        assert_eq!(decoded(b"\x80\xE9\x81", Encoding::Latin1).unwrap(), "\u{20AC}é\u{81}");
        let long = "ä".repeat(PORTION);
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut text = String::new();
        Decoder::new(&bytes[..], Encoding::Utf16Le).read_to_string(&mut text).unwrap();
        assert_eq!(text, long);
        for bad in [&b"a"[..], b"a\0\x00\xD8", b"\x00\xDCa\0"] {
            let why = decoded(bad, Encoding::Utf16Le).unwrap_err().to_string();
            assert!(why.contains("no UTF-16"), "{why}");
        }
    }
}
