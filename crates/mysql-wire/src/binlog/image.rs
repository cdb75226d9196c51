//! Tables and rows of the binary log read from bytes that a source has sent.
//!
//! # Guarantees
//! Any bytes are a table, rows, or [`Malformed`]. Nothing is reserved for what is not there.
//! # Not here
//! What values become in a column (whoever knows types), JSON.

use super::event::foreign;
use super::kind;
use super::rows::{MapColumn, TableMap, column};
use crate::reader::{Malformed, Reader};

/// Types of columns that are only read.
mod old {
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const NEWDATE: u8 = 14;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const VAR_STRING: u8 = 253;
    pub(super) const GEOMETRY: u8 = 255;
}

/// Most columns of a table.
const COLUMNS_MAX: usize = 4_096;

/// A value of a column, as it is in an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// The image does not have the column.
    Absent,
    /// NULL.
    Null,
    /// A whole number, read with its sign, and its bytes.
    Int(i64, u8),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL as text.
    Decimal(String),
    /// BIT.
    Bit(u64),
    /// YEAR; 0 for 0000.
    Year(u16),
    /// DATE.
    Date(Day),
    /// TIME: whether it is negative, and its parts.
    Time(bool, Clock),
    /// DATETIME.
    DateTime(Day, Clock),
    /// TIMESTAMP: seconds since 1970 UTC, and microseconds.
    Timestamp(u32, u32),
    /// The number of a member.
    Enum(u64),
    /// Members, each a bit.
    Set(u64),
    /// JSON in binary form.
    Json(&'a [u8]),
    /// Texts and bytes, in the character set of the source's column.
    Bytes(&'a [u8]),
}

/// A day, which may be zero or not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// Year.
    pub year: u16,
    /// Month.
    pub month: u8,
    /// Day of the month.
    pub day: u8,
}

/// A time of day, or a span of up to 1,023 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Hours.
    pub hours: u16,
    /// Minutes.
    pub minutes: u8,
    /// Seconds.
    pub seconds: u8,
    /// Microseconds.
    pub micros: u32,
}

/// Reads the body of TABLE_MAP.
///
/// # Errors
/// When it is cut, or has a type that cannot be read.
pub fn table_map(body: &[u8]) -> Result<TableMap, Malformed> {
    let mut reader = Reader(body);
    let id = table_id(&mut reader)?;
    let _flags = reader.u16()?;
    let mut name = || {
        let length = usize::from(reader.u8()?);
        let name = String::from_utf8_lossy(reader.take(length)?).into_owned();
        match reader.u8()? {
            0 => Ok(name),
            _ => Err(Malformed),
        }
    };
    let (database, table) = (name()?, name()?);
    let count = usize::try_from(reader.lenenc()?).map_err(|_| Malformed)?;
    if count > COLUMNS_MAX {
        return Err(Malformed);
    }
    let kinds = reader.take(count)?;
    let mut details = Reader(reader.lenenc_bytes()?);
    let mut columns = Vec::with_capacity(count);
    for kind in kinds {
        let (kind, detail) = detail(*kind, &mut details)?;
        columns.push(MapColumn {
            kind,
            detail,
            nullable: false,
            unsigned: None,
            collation: None,
            name: String::new(),
            members: Vec::new(),
        });
    }
    let nullable = reader.take(count.div_ceil(8))?;
    for (at, column) in columns.iter_mut().enumerate() {
        column.nullable = bit(nullable, at);
    }
    let mut map = TableMap { id, database, name: table, columns, primary_key: Vec::new() };
    while !reader.is_empty() {
        let kind = reader.u8()?;
        optional(&mut map, kind, Reader(reader.lenenc_bytes()?))?;
    }
    Ok(map)
}

fn table_id(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let [a, b, c, d, e, f] = reader.array()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// The type of a column, and what it needs to be read.
fn detail(kind: u8, details: &mut Reader<'_>) -> Result<(u8, Vec<u8>), Malformed> {
    let length = match kind {
        column::FLOAT | column::DOUBLE | column::BLOB | column::JSON => 1,
        old::GEOMETRY | old::VECTOR => 1,
        column::TIMESTAMP2 | column::DATETIME2 | column::TIME2 => 1,
        column::VARCHAR | old::VAR_STRING | column::BIT | column::NEWDECIMAL => 2,
        column::STRING | column::ENUM | column::SET => 2,
        column::TINY | column::SHORT | column::LONG | column::LONGLONG | column::INT24 => 0,
        column::DATE | column::YEAR | old::NULL | old::NEWDATE => 0,
        old::TIMESTAMP | old::TIME | old::DATETIME => 0,
        _ => return Err(Malformed),
    };
    let detail = details.take(length)?.to_vec();
    let real = detail.first().copied().filter(|real| matches!(*real, column::ENUM | column::SET));
    let kind = real.filter(|_| kind == column::STRING).unwrap_or(kind);
    Ok((kind, detail))
}

fn is_number(column: &MapColumn) -> bool {
    matches!(
        column.kind,
        column::TINY
            | column::SHORT
            | column::INT24
            | column::LONG
            | column::LONGLONG
            | column::FLOAT
            | column::DOUBLE
            | column::NEWDECIMAL
    )
}

fn is_text(column: &MapColumn) -> bool {
    matches!(column.kind, column::STRING | column::VARCHAR | old::VAR_STRING | column::BLOB)
}

/// Reads what TABLE_MAP says beyond what it takes to apply rows.
fn optional(map: &mut TableMap, kind: u8, mut field: Reader<'_>) -> Result<(), Malformed> {
    let number = |field: &mut Reader<'_>| u16::try_from(field.lenenc()?).map_err(|_| Malformed);
    match kind {
        1 => {
            for (at, column) in map.columns.iter_mut().filter(|one| is_number(one)).enumerate() {
                // The first column has the highest bit.
                let byte = field.0.get(at / 8).ok_or(Malformed)?;
                column.unsigned = Some(byte << (at % 8) & 0x80 != 0);
            }
        }
        2 => {
            let common = number(&mut field)?;
            let mut texts: Vec<&mut MapColumn> =
                map.columns.iter_mut().filter(|one| is_text(one)).collect();
            texts.iter_mut().for_each(|column| column.collation = Some(common));
            while !field.is_empty() {
                let at = usize::from(number(&mut field)?);
                let collation = number(&mut field)?;
                texts.get_mut(at).ok_or(Malformed)?.collation = Some(collation);
            }
        }
        3 => {
            for column in map.columns.iter_mut().filter(|one| is_text(one)) {
                column.collation = Some(number(&mut field)?);
            }
        }
        4 => {
            for column in &mut map.columns {
                column.name = String::from_utf8_lossy(field.lenenc_bytes()?).into_owned();
            }
        }
        // A key of whole columns, or one with the lengths of its prefixes.
        8 | 9 => {
            while !field.is_empty() {
                let at = usize::from(number(&mut field)?);
                if at >= map.columns.len() {
                    return Err(Malformed);
                }
                let characters = if kind == 9 { u32::from(number(&mut field)?) } else { 0 };
                map.primary_key.push((at, characters));
            }
        }
        // Members, geometries, what is seen.
        _ => {}
    }
    Ok(())
}

/// What is done to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// They are new.
    Write,
    /// Each is there as it was before and as it is after.
    Update,
    /// They are gone.
    Delete,
}

/// What is done to the rows of an event, and whether its body is of version 2; none if it has no
/// rows.
pub fn rows_kind(kind: u8) -> Option<(RowsKind, bool)> {
    Some(match kind {
        kind::WRITE_ROWS => (RowsKind::Write, true),
        kind::UPDATE_ROWS => (RowsKind::Update, true),
        kind::DELETE_ROWS => (RowsKind::Delete, true),
        foreign::WRITE_ROWS_V1 => (RowsKind::Write, false),
        foreign::UPDATE_ROWS_V1 => (RowsKind::Update, false),
        foreign::DELETE_ROWS_V1 => (RowsKind::Delete, false),
        _ => return None,
    })
}

/// An event of rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The number of their table.
    pub table: u64,
    /// [`super::rows::STATEMENT_ENDS`] and the like.
    pub flags: u16,
    kind: RowsKind,
    columns: usize,
    present: &'a [u8],
    present_after: &'a [u8],
    rest: Reader<'a>,
}

/// A row of an event: as it was, and as it became.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images<'a> {
    /// Of updates and deletions.
    pub before: Vec<Cell<'a>>,
    /// Of updates and of rows that are new.
    pub after: Vec<Cell<'a>>,
}

impl<'a> Rows<'a> {
    /// Reads the body of an event of rows up to its rows.
    ///
    /// # Errors
    /// When it is cut.
    pub fn read(body: &'a [u8], kind: RowsKind, is_second: bool) -> Result<Self, Malformed> {
        let mut reader = Reader(body);
        let table = table_id(&mut reader)?;
        let flags = reader.u16()?;
        if is_second {
            // With its own two bytes.
            let more = usize::from(reader.u16()?).checked_sub(2).ok_or(Malformed)?;
            reader.take(more)?;
        }
        let columns = usize::try_from(reader.lenenc()?).map_err(|_| Malformed)?;
        if columns > COLUMNS_MAX {
            return Err(Malformed);
        }
        let present = reader.take(columns.div_ceil(8))?;
        let present_after = match kind {
            RowsKind::Update => reader.take(columns.div_ceil(8))?,
            _ => present,
        };
        Ok(Self { table, flags, kind, columns, present, present_after, rest: reader })
    }

    /// The next row; nothing behind the last one.
    ///
    /// # Errors
    /// When it is cut, or the table has other columns.
    pub fn next_row(&mut self, map: &TableMap) -> Result<Option<Images<'a>>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if map.columns.len() != self.columns || self.columns == 0 {
            return Err(Malformed);
        }
        let left = self.rest.0.len();
        let mut images = Images::default();
        if self.kind != RowsKind::Write {
            images.before = image(&mut self.rest, map, self.present)?;
        }
        if self.kind != RowsKind::Delete {
            images.after = image(&mut self.rest, map, self.present_after)?;
        }
        // Rows of nothing would have no end.
        if self.rest.0.len() == left {
            return Err(Malformed);
        }
        Ok(Some(images))
    }
}

fn image<'a>(
    reader: &mut Reader<'a>,
    map: &TableMap,
    present: &[u8],
) -> Result<Vec<Cell<'a>>, Malformed> {
    let count = (0..map.columns.len()).filter(|at| bit(present, *at)).count();
    let nulls = reader.take(count.div_ceil(8))?;
    let mut cells = Vec::with_capacity(map.columns.len());
    let mut number = 0;
    for (at, column) in map.columns.iter().enumerate() {
        if !bit(present, at) {
            cells.push(Cell::Absent);
            continue;
        }
        let is_null = bit(nulls, number);
        number += 1;
        cells.push(if is_null { Cell::Null } else { cell(reader, column)? });
    }
    Ok(cells)
}

fn cell<'a>(reader: &mut Reader<'a>, column: &MapColumn) -> Result<Cell<'a>, Malformed> {
    let first = || column.detail.first().copied().ok_or(Malformed);
    let second = || column.detail.get(1).copied().ok_or(Malformed);
    Ok(match column.kind {
        column::TINY => Cell::Int(i64::from(reader.u8()? as i8), 1),
        column::SHORT => Cell::Int(i64::from(reader.u16()? as i16), 2),
        column::INT24 => {
            let [a, b, c] = reader.array()?;
            // The highest byte is filled with the sign.
            Cell::Int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 3)
        }
        column::LONG => Cell::Int(i64::from(reader.u32()? as i32), 4),
        column::LONGLONG => Cell::Int(reader.u64()? as i64, 8),
        column::FLOAT => Cell::Float(f32::from_le_bytes(reader.array()?)),
        column::DOUBLE => Cell::Double(f64::from_le_bytes(reader.array()?)),
        column::NEWDECIMAL => Cell::Decimal(decimal(reader, first()?, second()?)?),
        column::BIT => {
            let bytes = usize::from(second()?) + usize::from(first()? > 0);
            Cell::Bit(high(reader, bytes)?)
        }
        column::YEAR => match reader.u8()? {
            0 => Cell::Year(0),
            year => Cell::Year(1_900 + u16::from(year)),
        },
        column::DATE | old::NEWDATE => {
            let packed = low(reader, 3)?;
            let (day, month) = ((packed & 31) as u8, (packed >> 5 & 15) as u8);
            Cell::Date(Day { year: (packed >> 9) as u16, month, day })
        }
        old::TIMESTAMP => Cell::Timestamp(reader.u32()?, 0),
        old::TIME => old_time(low(reader, 3)?),
        old::DATETIME => old_date_time(reader.u64()?),
        column::TIMESTAMP2 => {
            let seconds = high(reader, 4)? as u32;
            Cell::Timestamp(seconds, fraction(reader, first()?)?)
        }
        column::DATETIME2 => date_time(reader, first()?)?,
        column::TIME2 => time(reader, first()?)?,
        column::ENUM => Cell::Enum(low(reader, usize::from(second()?))?),
        column::SET => Cell::Set(low(reader, usize::from(second()?))?),
        column::JSON => Cell::Json(with_length(reader, first()?)?),
        column::BLOB | old::GEOMETRY | old::VECTOR => Cell::Bytes(with_length(reader, first()?)?),
        column::VARCHAR | old::VAR_STRING => {
            let most = u16::from_le_bytes([first()?, second()?]);
            Cell::Bytes(with_length(reader, if most > 255 { 2 } else { 1 })?)
        }
        column::STRING => {
            // Two bits of the length stand in the type, inverted.
            let most = u16::from(second()?) | u16::from(!first()? & 0x30) << 4;
            Cell::Bytes(with_length(reader, if most > 255 { 2 } else { 1 })?)
        }
        old::NULL => Cell::Null,
        _ => return Err(Malformed),
    })
}

fn low(reader: &mut Reader<'_>, bytes: usize) -> Result<u64, Malformed> {
    if bytes > 8 {
        return Err(Malformed);
    }
    Ok(reader.take(bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn high(reader: &mut Reader<'_>, bytes: usize) -> Result<u64, Malformed> {
    if bytes > 8 {
        return Err(Malformed);
    }
    Ok(reader.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn with_length<'a>(reader: &mut Reader<'a>, bytes: u8) -> Result<&'a [u8], Malformed> {
    let length = low(reader, usize::from(bytes))?;
    reader.take(usize::try_from(length).map_err(|_| Malformed)?)
}

/// Microseconds, of a fraction with so many digits.
fn fraction(reader: &mut Reader<'_>, digits: u8) -> Result<u32, Malformed> {
    Ok(match digits {
        0 => 0,
        1 | 2 => u32::from(reader.u8()?) * 10_000,
        3 | 4 => high(reader, 2)? as u32 * 100,
        5 | 6 => high(reader, 3)? as u32,
        _ => return Err(Malformed),
    })
}

fn date_time(reader: &mut Reader<'_>, digits: u8) -> Result<Cell<'static>, Malformed> {
    let packed = high(reader, 5)?.checked_sub(0x80_0000_0000).ok_or(Malformed)?;
    let micros = fraction(reader, digits)?;
    let (day, time) = (packed >> 17, packed & 0x1_FFFF);
    let months = day >> 5;
    let (year, month) = ((months / 13) as u16, (months % 13) as u8);
    Ok(Cell::DateTime(Day { year, month, day: (day & 31) as u8 }, clock(time, micros)))
}

fn time(reader: &mut Reader<'_>, digits: u8) -> Result<Cell<'static>, Malformed> {
    // The fraction of a negative number is negative too, and its whole part is rounded down.
    let with_fraction = |whole: i64, part: i64, full: i64, micros: i64| {
        if whole < 0 && part > 0 {
            ((whole + 1) << 24) + (part - full) * micros
        } else {
            (whole << 24) + part * micros
        }
    };
    let mut whole = |bytes: usize| -> Result<i64, Malformed> {
        Ok(high(reader, bytes)? as i64 - (1 << (8 * bytes - 1)))
    };
    let packed = match digits {
        0 => whole(3)? << 24,
        1 | 2 => {
            let whole = whole(3)?;
            with_fraction(whole, high(reader, 1)? as i64, 0x100, 10_000)
        }
        3 | 4 => {
            let whole = whole(3)?;
            with_fraction(whole, high(reader, 2)? as i64, 0x1_0000, 100)
        }
        5 | 6 => whole(6)?,
        _ => return Err(Malformed),
    };
    let size = packed.unsigned_abs();
    Ok(Cell::Time(packed < 0, clock(size >> 24, (size & 0xFF_FFFF) as u32)))
}

/// Hours above six bits of minutes and six of seconds.
fn clock(packed: u64, micros: u32) -> Clock {
    let (minutes, seconds) = ((packed >> 6 & 63) as u8, (packed & 63) as u8);
    Clock { hours: (packed >> 12 & 0x3FF) as u16, minutes, seconds, micros }
}

/// Of before MySQL 5.6: the decimal digits of the time.
fn old_time(packed: u64) -> Cell<'static> {
    let number = i64::from((packed as i32) << 8 >> 8);
    let size = number.unsigned_abs();
    let (minutes, seconds) = ((size / 100 % 100) as u8, (size % 100) as u8);
    let clock = Clock { hours: (size / 10_000) as u16, minutes, seconds, micros: 0 };
    Cell::Time(number < 0, clock)
}

fn old_date_time(number: u64) -> Cell<'static> {
    let (day, time) = (number / 1_000_000, number % 1_000_000);
    let year = u16::try_from(day / 10_000).unwrap_or(u16::MAX);
    let day = Day { year, month: (day / 100 % 100) as u8, day: (day % 100) as u8 };
    let (minutes, seconds) = ((time / 100 % 100) as u8, (time % 100) as u8);
    Cell::DateTime(day, Clock { hours: (time / 10_000) as u16, minutes, seconds, micros: 0 })
}

/// A decimal as text; none if the bytes are none, or more than one.
pub fn decimal_text(bytes: &[u8], precision: u8, scale: u8) -> Option<String> {
    let mut reader = Reader(bytes);
    let text = decimal(&mut reader, precision, scale).ok()?;
    reader.is_empty().then_some(text)
}

/// Digits in groups of nine, each in four bytes; fewer at both ends. The highest bit is inverted,
/// and all bits of negative numbers.
fn decimal(reader: &mut Reader<'_>, precision: u8, scale: u8) -> Result<String, Malformed> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let whole = precision.checked_sub(scale).ok_or(Malformed)?;
    let mut groups: Vec<(usize, bool)> = Vec::new();
    let mut add = |digits: usize, is_fraction: bool| {
        if digits > 0 {
            groups.push((digits, is_fraction));
        }
    };
    let (whole, scale) = (usize::from(whole), usize::from(scale));
    add(whole % 9, false);
    (0..whole / 9).for_each(|_| add(9, false));
    (0..scale / 9).for_each(|_| add(9, true));
    add(scale % 9, true);
    let size = groups.iter().map(|(digits, _)| BYTES[*digits]).sum();
    let mut bytes = reader.take(size)?.to_vec();
    let Some(first) = bytes.first_mut() else { return Err(Malformed) };
    let is_negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if is_negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut text = String::from(if is_negative { "-" } else { "" });
    let mut rest = Reader(&bytes);
    let mut is_begun = false;
    for (digits, is_fraction) in groups {
        let number = high(&mut rest, BYTES[digits])?;
        if number >= 10_u64.pow(digits as u32) {
            return Err(Malformed);
        }
        if is_fraction && !is_begun {
            if text.len() == usize::from(is_negative) {
                text.push('0');
            }
            text.push('.');
            is_begun = true;
        }
        text.push_str(&format!("{number:0digits$}"));
    }
    Ok(text)
}
