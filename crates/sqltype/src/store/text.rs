//! Storing text, bytes, and members of ENUM and SET.

use collation::{
    Charset, CollationId, char_count, chars_size, equal, from_utf8, to_utf8, unrepresentable_at,
};

use super::Storing;
use crate::convert::{aligned, text};
use crate::datum::Datum;
use crate::problem::{Problem, printable_start};
use crate::sql_type::{SqlType, TypeKind};
use crate::storage::{LARGE_SIZE_MAX, VALUE_SIZE_MAX, set_text};

impl Storing<'_, '_, '_> {
    pub(super) fn text(&mut self, datum: Datum, from: &SqlType) -> Result<Datum, Problem> {
        let charset = self.to.collation.charset();
        let bytes = match datum {
            // Bytes are those of the column's character set.
            Datum::Bytes(bytes) if from.collation == CollationId::BINARY && is_text(from) => {
                match charset {
                    Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => bytes,
                    _ => to_utf8(charset, &aligned(charset, &bytes)).bytes.into_owned().into(),
                }
            }
            Datum::Bytes(bytes) => bytes,
            other => text(&other, from).unwrap_or_default().into_owned().into(),
        };
        match self.to.collation {
            CollationId::BINARY => self.binary(bytes),
            _ => self.characters(bytes, charset),
        }
    }

    fn characters(&mut self, bytes: Box<[u8]>, charset: Charset) -> Result<Datum, Problem> {
        let mut bytes = match unrepresentable_at(charset, &bytes) {
            None => bytes,
            Some(at) => {
                let start = printable_start(&bytes[at..]);
                self.fail(self.place.incorrect("string", &start))?;
                // What cannot be kept becomes a question mark.
                let kept = from_utf8(charset, &bytes).bytes;
                to_utf8(charset, &kept).bytes.into_owned().into()
            }
        };
        if self.to.kind == TypeKind::Char {
            // The spaces that fill a CHAR are not kept.
            bytes = without_spaces(bytes);
        }
        let room = match self.to.kind {
            TypeKind::Char | TypeKind::VarChar => {
                let room = self.to.length as usize;
                // Each character has at least one byte.
                let fits = bytes.len() <= room || char_count(&bytes) <= room;
                let of_type = if fits { bytes.len() } else { chars_size(&bytes, room) };
                of_type.min(whole_characters(&bytes, VALUE_SIZE_MAX.into()))
            }
            _ => whole_characters(&bytes, self.room()),
        };
        if room == bytes.len() {
            return Ok(Datum::Bytes(bytes));
        }
        let only_spaces = bytes[room..].iter().all(|byte| *byte == b' ');
        if only_spaces && self.to.kind == TypeKind::VarChar {
            self.fail(self.place.truncated_note())?;
        } else {
            self.too_long()?;
        }
        let kept = cut(bytes, room);
        let is_char = self.to.kind == TypeKind::Char;
        Ok(Datum::Bytes(if is_char { without_spaces(kept) } else { kept }))
    }

    /// 1406, which is 1265 as a warning.
    fn too_long(&mut self) -> Result<(), Problem> {
        let problem =
            if self.converter.mode.strict { self.place.too_long() } else { self.place.truncated() };
        self.fail(problem)
    }

    /// The bytes that TEXT, BLOB and their kin hold.
    fn room(&self) -> usize {
        let of_type = match self.to.kind {
            TypeKind::TinyText => 255,
            TypeKind::Text => 65_535,
            TypeKind::MediumText => 0xFF_FFFF,
            _ => usize::MAX,
        };
        of_type.min(LARGE_SIZE_MAX)
    }

    fn binary(&mut self, bytes: Box<[u8]>) -> Result<Datum, Problem> {
        let length = self.to.length as usize;
        let room = match self.to.kind {
            TypeKind::Char | TypeKind::VarChar => length,
            _ => self.room(),
        };
        if bytes.len() > room {
            self.too_long()?;
            return Ok(Datum::Bytes(cut(bytes, room)));
        }
        if self.to.kind == TypeKind::Char && bytes.len() < length {
            let mut filled = bytes.into_vec();
            filled.resize(length, 0);
            return Ok(Datum::Bytes(filled.into()));
        }
        Ok(Datum::Bytes(bytes))
    }

    /// The number that a value is for an ENUM or SET, if it is none of text.
    fn member_of_number(&mut self, datum: &Datum, from: &SqlType) -> Option<i128> {
        match datum {
            Datum::Int(v) => Some(i128::from(*v)),
            Datum::UInt(v) => Some(i128::from(*v)),
            Datum::Double(_) | Datum::Decimal(_) => self.converter.integer(datum, from),
            _ => None,
        }
    }

    /// Which member is equal to a text under the column's collation.
    fn find_member(&self, members: &[Box<str>], text: &[u8]) -> Option<usize> {
        members.iter().position(|member| equal(self.to.collation, member.as_bytes(), text))
    }

    pub(super) fn member(
        &mut self,
        datum: &Datum,
        from: &SqlType,
        members: &[Box<str>],
    ) -> Result<Datum, Problem> {
        let by_number = |number: i128| {
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            members.get(at)
        };
        let found = match self.member_of_number(datum, from) {
            Some(number) => by_number(number),
            None => {
                let text = text(datum, from).unwrap_or_default();
                self.find_member(members, &text)
                    .or_else(|| self.find_member(members, text.trim_ascii_end()))
                    .map(|at| &members[at])
                    .or_else(|| index_in_text(&text).and_then(by_number))
            }
        };
        match found {
            Some(member) => Ok(Datum::text(member)),
            None => {
                self.fail(self.place.truncated())?;
                // The index 0, which no member has, reads as the empty text.
                Ok(Datum::text(""))
            }
        }
    }

    pub(super) fn members(
        &mut self,
        datum: &Datum,
        from: &SqlType,
        members: &[Box<str>],
    ) -> Result<Datum, Problem> {
        let all = if members.len() >= 64 { u64::MAX } else { (1 << members.len()) - 1 };
        let (bits, is_known) = match self.member_of_number(datum, from) {
            Some(number) => (number as u64, true),
            None => {
                let text = text(datum, from).unwrap_or_default();
                let mut bits = 0;
                let mut is_known = true;
                for part in text.split(|byte| *byte == b',').filter(|_| !text.is_empty()) {
                    match self.find_member(members, part).filter(|at| *at < 64) {
                        Some(at) => bits |= 1 << at,
                        None => is_known = false,
                    }
                }
                match bits_in_text(&text).filter(|_| !is_known) {
                    Some(number) => (number, true),
                    None => (bits, is_known),
                }
            }
        };
        if !is_known || bits & !all != 0 {
            self.fail(self.place.truncated())?;
        }
        Ok(Datum::Bytes(set_text(members, bits & all).into_bytes().into()))
    }
}

/// Whether values are texts or bytes by nature, and not numbers or times in the form of a text.
fn is_text(sql_type: &SqlType) -> bool {
    use TypeKind as K;
    matches!(
        sql_type.kind,
        K::Char | K::VarChar | K::TinyText | K::Text | K::MediumText | K::LongText
    )
}

/// The size of as many whole characters as `room` bytes hold.
fn whole_characters(bytes: &[u8], room: usize) -> usize {
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    if bytes.len() <= room {
        return bytes.len();
    }
    (0..=room).rev().find(|at| !is_inside(at)).unwrap_or(0)
}

/// The bytes up to the spaces at the end.
fn without_spaces(bytes: Box<[u8]>) -> Box<[u8]> {
    let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    cut(bytes, end)
}

/// The first bytes of `bytes`.
fn cut(bytes: Box<[u8]>, length: usize) -> Box<[u8]> {
    if length == bytes.len() {
        return bytes;
    }
    let mut bytes = bytes.into_vec();
    bytes.truncate(length);
    bytes.into()
}

/// The index of an ENUM's member given as text of digits.
fn index_in_text(text: &[u8]) -> Option<i128> {
    let text = text.trim_ascii();
    let valid = !text.is_empty() && text.len() < 6 && text.iter().all(u8::is_ascii_digit);
    valid.then(|| text.iter().fold(0, |number, digit| number * 10 + i128::from(digit - b'0')))
}

/// The bits of a SET given as text of digits.
fn bits_in_text(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text.trim_ascii()).ok()?;
    let valid = digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().ok()).flatten()
}
