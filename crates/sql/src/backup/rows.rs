//! Rows in the files of backups.
//!
//! A row is its values one after the other: a byte for the kind, then the value, little-endian.
//!
//! # Guarantees
//! Any bytes are rows or an error.

use model::Value;

use crate::backup_jobs::host::failed;
use sql_expression::SqlError;

const NULL: u8 = 0;
const INT: u8 = 1;
const UINT: u8 = 2;
const FLOAT: u8 = 3;
const BYTES: u8 = 4;

/// Adds a value.
pub(super) fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Int(number) => {
            out.push(INT);
            out.extend(number.to_le_bytes());
        }
        Value::UInt(number) => {
            out.push(UINT);
            out.extend(number.to_le_bytes());
        }
        Value::Float(number) => {
            out.push(FLOAT);
            out.extend(number.to_bits().to_le_bytes());
        }
        Value::Bytes(bytes) => {
            out.push(BYTES);
            // A value has 1 GB at most.
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// Rows that are read, value by value.
pub(super) struct Rows<'a>(pub(super) &'a [u8]);

impl Rows<'_> {
    /// The next row of so many values; none at the end.
    pub(super) fn next(&mut self, width: usize) -> Result<Option<Vec<Value>>, SqlError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let row: Option<Vec<Value>> = (0..width).map(|_| self.value()).collect();
        row.map(Some).ok_or_else(|| failed("the rows of the backup cannot be read"))
    }

    fn value(&mut self) -> Option<Value> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(match *kind {
            NULL => Value::Null,
            INT => Value::Int(i64::from_le_bytes(self.word()?)),
            UINT => Value::UInt(u64::from_le_bytes(self.word()?)),
            FLOAT => Value::Float(f64::from_bits(u64::from_le_bytes(self.word()?))),
            BYTES => {
                let (length, rest) = self.0.split_first_chunk::<4>()?;
                let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                self.0 = rest;
                Value::Bytes(bytes.into())
            }
            _ => return None,
        })
    }

    fn word(&mut self) -> Option<[u8; 8]> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(*word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_and_nothing_else_is_one() {
        let rows = [
            vec![Value::Null, Value::Int(-5), Value::UInt(u64::MAX)],
            vec![Value::Float(-0.0), Value::Bytes(b"text"[..].into()), Value::Bytes([].into())],
        ];
        let mut bytes = Vec::new();
        rows.iter().flatten().for_each(|value| encode(value, &mut bytes));
        let mut read = Rows(&bytes);
        for row in &rows {
            assert_eq!(read.next(3).unwrap().as_ref(), Some(row));
        }
        assert_eq!(read.next(3).unwrap(), None);
        for end in 1..bytes.len() {
            let mut read = Rows(&bytes[..end]);
            let mut count = 0;
            while let Ok(Some(_)) = read.next(3) {
                count += 1;
            }
            assert!(count < 2, "cut at {end}");
        }
        assert!(Rows(&[9]).next(1).is_err());
    }
}
