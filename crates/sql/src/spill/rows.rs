//! Rows in temporary files.
//!
//! # Owns
//! [`RowWriter`], which collects rows and writes them in frames; [`RowRun`], the rows of a file in
//! the order they were written; [`RowReader`], which gives them again.
//!
//! A frame is a list of rows; a row is the number of its values and the values; a value is a byte
//! that says what it is, and what it comes to. The format is read by the process that wrote it and
//! nobody else.

use codec::{DecodeError, Problem, Reader, Writer};
use sql_expression::SqlError;
use sqltype::{Date, DateTime, Datum, Decimal, Time};

use crate::rows::Row;
use crate::spill::{DiskWaiter, FRAME_BYTES, Frame, FrameReader, Polled, SpillFile, damaged};

/// The format has no versions: nothing outlives the process.
const VERSION: u16 = 1;

/// Rows in a file.
#[derive(Debug)]
pub(crate) struct RowRun {
    file: SpillFile,
    frames: Vec<Frame>,
    rows: u64,
}

/// Writes rows.
#[derive(Debug)]
pub(crate) struct RowWriter {
    run: RowRun,
    buffer: Writer,
}

/// Reads the rows of a run in their order.
#[derive(Debug)]
pub(crate) struct RowReader {
    frames: FrameReader,
}

impl RowWriter {
    /// Writes to the end of a file, which others may write to as well.
    pub(crate) fn new(file: SpillFile) -> Self {
        let run = RowRun { file, frames: Vec::new(), rows: 0 };
        Self { run, buffer: Writer::new(VERSION) }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`SpillFile::append`].
    pub(crate) fn push(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        self.push_two(row, &[])
    }

    /// Adds a row that is made of two parts.
    ///
    /// # Errors
    /// As [`SpillFile::append`].
    pub(crate) fn push_two(&mut self, first: &[Datum], second: &[Datum]) -> Result<(), SqlError> {
        self.buffer.put_length(first.len() + second.len());
        for value in first.iter().chain(second) {
            write_value(&mut self.buffer, value);
        }
        self.run.rows += 1;
        if self.buffer.bytes().len() >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SqlError> {
        if !self.buffer.bytes().is_empty() {
            self.run.frames.push(self.run.file.append(self.buffer.bytes())?);
            self.buffer.clear();
        }
        Ok(())
    }

    /// There are no more rows.
    ///
    /// # Errors
    /// As [`SpillFile::append`].
    pub(crate) fn finish(mut self) -> Result<RowRun, SqlError> {
        self.flush()?;
        Ok(self.run)
    }
}

impl RowRun {
    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// To be read from the beginning.
    pub(crate) fn read(self) -> RowReader {
        RowReader { frames: FrameReader::new(self.file, self.frames) }
    }
}

impl RowReader {
    /// The next rows, never none; nothing at the end.
    ///
    /// # Errors
    /// 1024 if they cannot be read, 1021 and 1026 if they were never written.
    pub(crate) async fn next(
        &mut self,
        waiter: &impl DiskWaiter,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let mut turns = 0;
        loop {
            match self.poll()? {
                Polled::Some(some) => return Ok(Some(some)),
                Polled::End => return Ok(None),
                Polled::Later => waiter.wait_for_disk(&mut turns).await?,
            }
        }
    }

    /// The same without waiting.
    pub(crate) fn poll(&mut self) -> Result<Polled<Vec<Row>>, SqlError> {
        let bytes = match self.frames.poll()? {
            Polled::Some(bytes) => bytes,
            Polled::Later => return Ok(Polled::Later),
            Polled::End => return Ok(Polled::End),
        };
        let mut reader = Reader::new(VERSION, &bytes);
        let mut rows = Vec::new();
        while !reader.is_empty() {
            rows.push(read_row(&mut reader).map_err(|error| damaged(&error))?);
        }
        Ok(Polled::Some(rows))
    }

    /// To be read from the beginning once more.
    pub(crate) fn rewind(&mut self) {
        self.frames.rewind();
    }
}

fn read_row(reader: &mut Reader<'_>) -> Result<Row, DecodeError> {
    let count = reader.length()?;
    let mut row = Vec::with_capacity(count);
    for _ in 0..count {
        row.push(read_value(reader)?);
    }
    Ok(row)
}

/// What a value is.
mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const INT: u8 = 1;
    pub(super) const UINT: u8 = 2;
    pub(super) const DOUBLE: u8 = 3;
    /// A decimal of 127 bits: its scale and its digits without the point.
    pub(super) const DECIMAL: u8 = 4;
    /// A larger one, as rows store it.
    pub(super) const LARGE_DECIMAL: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const DATE: u8 = 7;
    pub(super) const DATE_TIME: u8 = 8;
    pub(super) const TIME: u8 = 9;
    pub(super) const JSON: u8 = 10;
}

/// A signed number as one that is small when it is near zero.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn write_value(out: &mut Writer, value: &Datum) {
    match value {
        Datum::Null => out.put_u8(tag::NULL),
        Datum::Int(number) => {
            out.put_u8(tag::INT);
            out.put_varint(zigzag(*number));
        }
        Datum::UInt(number) => {
            out.put_u8(tag::UINT);
            out.put_varint(*number);
        }
        Datum::Double(number) => {
            out.put_u8(tag::DOUBLE);
            out.put_u64(number.to_bits());
        }
        Datum::Decimal(number) => write_decimal(out, *number),
        Datum::Bytes(bytes) => {
            out.put_u8(tag::BYTES);
            write_bytes(out, bytes);
        }
        Datum::Date(date) => {
            out.put_u8(tag::DATE);
            write_date(out, *date);
        }
        Datum::DateTime(moment) => {
            out.put_u8(tag::DATE_TIME);
            write_date(out, moment.date);
            out.put_bytes(&[moment.hour, moment.minute, moment.second]);
            out.put_varint(moment.micros.into());
        }
        Datum::Time(time) => {
            out.put_u8(tag::TIME);
            out.put_varint(zigzag(time.micros));
        }
        Datum::Json(bytes) => {
            out.put_u8(tag::JSON);
            write_bytes(out, bytes);
        }
    }
}

fn write_bytes(out: &mut Writer, bytes: &[u8]) {
    out.put_length(bytes.len());
    out.put_bytes(bytes);
}

fn write_date(out: &mut Writer, date: Date) {
    out.put_varint(date.year.into());
    out.put_bytes(&[date.month, date.day]);
}

fn write_decimal(out: &mut Writer, number: Decimal) {
    let scale = number.scale();
    if let Some(digits) = number.to_unscaled() {
        out.put_bytes(&[tag::DECIMAL, scale]);
        out.put_bytes(&digits.to_le_bytes());
        return;
    }
    // As many digits before the point as there are, so that it fits.
    let precision = number.whole_digits() + u32::from(scale);
    let encoded = number.encode(precision, scale).unwrap_or_default();
    out.put_bytes(&[tag::LARGE_DECIMAL, scale]);
    write_bytes(out, &encoded);
}

fn read_value(reader: &mut Reader<'_>) -> Result<Datum, DecodeError> {
    Ok(match reader.u8()? {
        tag::NULL => Datum::Null,
        tag::INT => Datum::Int(unzigzag(reader.varint()?)),
        tag::UINT => Datum::UInt(reader.varint()?),
        tag::DOUBLE => Datum::Double(f64::from_bits(reader.u64()?)),
        tag::DECIMAL => {
            let scale = reader.u8()?;
            let mut digits = [0; 16];
            digits.copy_from_slice(reader.bytes(16)?);
            let number = Decimal::from_unscaled(i128::from_le_bytes(digits), scale);
            Datum::Decimal(number.ok_or_else(|| reader.fail(Problem::Invalid))?)
        }
        tag::LARGE_DECIMAL => {
            let scale = reader.u8()?;
            Datum::Decimal(Decimal::decode(read_bytes(reader)?, scale))
        }
        tag::BYTES => Datum::Bytes(read_bytes(reader)?.into()),
        tag::DATE => Datum::Date(read_date(reader)?),
        tag::DATE_TIME => {
            let date = read_date(reader)?;
            let (hour, minute, second) = (reader.u8()?, reader.u8()?, reader.u8()?);
            let micros = reader.varint()? as u32;
            Datum::DateTime(DateTime { date, hour, minute, second, micros })
        }
        tag::TIME => Datum::Time(Time { micros: unzigzag(reader.varint()?) }),
        tag::JSON => Datum::Json(read_bytes(reader)?.into()),
        _ => return Err(reader.fail(Problem::Invalid)),
    })
}

fn read_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = reader.length()?;
    reader.bytes(length)
}

fn read_date(reader: &mut Reader<'_>) -> Result<Date, DecodeError> {
    let year = reader.varint()? as u16;
    Ok(Date { year, month: reader.u8()?, day: reader.u8()? })
}
