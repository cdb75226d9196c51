//! Keys as bytes whose byte order is the key order (memcmp-comparable).
//!
//! Encoding per column: a nullable column starts with 0 for NULL (nothing follows) or 1. Integers
//! are big-endian, signed ones with the sign bit flipped. Floats are big-endian with all bits
//! flipped when negative, the sign bit otherwise. Fixed bytes are as they are. Variable bytes
//! escape 0x00 as 0x00 0xFF and end with 0x00 0x00, so that a key of fewer columns is a byte
//! prefix of exactly the keys that begin with those column values. Text is encoded like variable
//! bytes, but by the weights its collation gives it: equal keys are equal text, not equal bytes.

use codec::Codec;
use collation::CollationId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::schema::ColumnType;
use crate::value::ValueRef;

/// Seed of the hash that places rows: independent of the hash used inside a partition, so that
/// the keys of one partition do not share hash bits.
const DISTRIBUTION_SEED: u64 = 0x4E49_4E45_5344_4953;

/// An encoded key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct Key(pub Box<[u8]>);

impl Key {
    /// The encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Hash that decides the partition (XXH3, seeded; stable across versions and languages).
    pub fn distribution_hash(&self) -> u64 {
        xxh3_64_with_seed(&self.0, DISTRIBUTION_SEED)
    }

    /// Hash used inside a partition: hash index and lock table.
    pub fn local_hash(&self) -> u64 {
        local_hash(&self.0)
    }
}

/// Hash of encoded key bytes used inside a partition (XXH3).
pub fn local_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// What follows in `key` after the encoding of one column's value; `None` when `key` does not begin
/// with that encoding. Compares a key with the columns of a row without encoding the row.
#[inline]
pub fn strip_value<'k>(
    key: &'k [u8],
    column_type: ColumnType,
    nullable: bool,
    value: ValueRef<'_>,
) -> Option<&'k [u8]> {
    if value.is_null() {
        return if nullable { key.strip_prefix(&[0]) } else { None };
    }
    let key = if nullable { key.strip_prefix(&[1])? } else { key };
    match (column_type, value) {
        (ColumnType::Int(width), _) => {
            let v = crate::row::signed_in_range(width, value)?;
            let flipped = (v as u64) ^ (1 << (8 * u32::from(width) - 1));
            key.strip_prefix(&flipped.to_be_bytes()[8 - usize::from(width)..])
        }
        (ColumnType::UInt(width), _) => {
            let v = crate::row::unsigned_in_range(width, value)?;
            key.strip_prefix(&v.to_be_bytes()[8 - usize::from(width)..])
        }
        (ColumnType::Float, _) => {
            let v = crate::row::float_in_range(value)?;
            key.strip_prefix(&ordered_float_bits(v).to_be_bytes())
        }
        (ColumnType::Fixed(_), ValueRef::Bytes(bytes)) => key.strip_prefix(bytes),
        (ColumnType::Variable(_), ValueRef::Bytes(bytes)) => {
            let mut key = key;
            for (at, part) in bytes.split(|byte| *byte == 0).enumerate() {
                if at > 0 {
                    key = key.strip_prefix(&[0, 0xFF])?;
                }
                key = key.strip_prefix(part)?;
            }
            key.strip_prefix(&[0, 0])
        }
        (ColumnType::Text { max_bytes, collation }, ValueRef::Bytes(bytes)) => {
            let mut encoded = Vec::new();
            push_text(&mut encoded, max_bytes.into(), collation, bytes);
            key.strip_prefix(encoded.as_slice())
        }
        _ => None,
    }
}

/// A text's weights take at most so many times its longest length in a key. No collation comes
/// near it but for texts of rare characters that expand to many; what comes after is not compared.
const TEXT_WEIGHTS_FACTOR: usize = 2;

/// Appends the weights of `text`, escaped and ended as variable bytes are.
fn push_text(key: &mut Vec<u8>, max: usize, collation: CollationId, text: &[u8]) {
    let mut weights = Vec::with_capacity(2 * text.len());
    collation::sort_key(collation, text, &mut weights);
    push_weights(key, max, &weights);
    key.extend_from_slice(&[0, 0]);
}

/// Appends weights, escaped, as many of them as count.
fn push_weights(key: &mut Vec<u8>, max: usize, weights: &[u8]) {
    let end = key.len() + TEXT_WEIGHTS_FACTOR * max;
    for byte in weights {
        if key.len() + 1 + usize::from(*byte == 0) > end {
            break;
        }
        key.push(*byte);
        if *byte == 0 {
            key.push(0xFF);
        }
    }
}

/// The key of a column of numbers as a number: its bytes are the first of 16, big-endian, and zeros
/// follow. So these numbers have the order of the keys. `None` for other types of columns, and for
/// a value that does not fit the column.
#[inline]
pub fn ordered_word(column_type: ColumnType, nullable: bool, value: ValueRef<'_>) -> Option<u128> {
    if value.is_null() {
        return nullable.then_some(0);
    }
    let at_the_top = |number: u64, width: u8| number << (64 - 8 * u32::from(width));
    let number = match column_type {
        ColumnType::Int(width) => {
            at_the_top(crate::row::signed_in_range(width, value)? as u64, width) ^ (1 << 63)
        }
        ColumnType::UInt(width) => at_the_top(crate::row::unsigned_in_range(width, value)?, width),
        ColumnType::Float => ordered_float_bits(crate::row::float_in_range(value)?),
        ColumnType::Fixed(_) | ColumnType::Variable(_) | ColumnType::Text { .. } => return None,
    };
    Some(if nullable { 1 << 120 | u128::from(number) << 56 } else { u128::from(number) << 64 })
}

/// The bits of a float as a number with the same order.
fn ordered_float_bits(v: f64) -> u64 {
    let bits = v.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Builds a key column by column.
#[derive(Clone, Debug, Default)]
pub struct KeyEncoder {
    bytes: Vec<u8>,
}

impl KeyEncoder {
    /// An empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty key, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Empties the encoder and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// What was encoded so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends one column's value. `None`, and nothing appended, when the value's kind or range
    /// does not fit the column.
    pub fn push(
        &mut self,
        column_type: ColumnType,
        nullable: bool,
        value: ValueRef<'_>,
    ) -> Option<()> {
        if value.is_null() {
            if !nullable {
                return None;
            }
            self.bytes.push(0);
            return Some(());
        }
        let start = self.bytes.len();
        if nullable {
            self.bytes.push(1);
        }
        let pushed = self.push_value(column_type, value);
        if pushed.is_none() {
            self.bytes.truncate(start);
        }
        pushed
    }

    fn push_value(&mut self, column_type: ColumnType, value: ValueRef<'_>) -> Option<()> {
        match (column_type, value) {
            (ColumnType::Int(width), _) => {
                let v = crate::row::signed_in_range(width, value)?;
                // Flip the sign bit of the column's own width, then keep its low bytes.
                let flipped = (v as u64) ^ (1 << (8 * u32::from(width) - 1));
                self.bytes.extend_from_slice(&flipped.to_be_bytes()[8 - usize::from(width)..]);
            }
            (ColumnType::UInt(width), _) => {
                let v = crate::row::unsigned_in_range(width, value)?;
                self.bytes.extend_from_slice(&v.to_be_bytes()[8 - usize::from(width)..]);
            }
            (ColumnType::Float, _) => {
                let v = crate::row::float_in_range(value)?;
                self.bytes.extend_from_slice(&ordered_float_bits(v).to_be_bytes());
            }
            (ColumnType::Fixed(size), ValueRef::Bytes(bytes)) if bytes.len() == size.into() => {
                self.bytes.extend_from_slice(bytes);
            }
            (ColumnType::Variable(max), ValueRef::Bytes(bytes)) if bytes.len() <= max.into() => {
                for (at, part) in bytes.split(|byte| *byte == 0).enumerate() {
                    if at > 0 {
                        self.bytes.extend_from_slice(&[0, 0xFF]);
                    }
                    self.bytes.extend_from_slice(part);
                }
                self.bytes.extend_from_slice(&[0, 0]);
            }
            (ColumnType::Text { max_bytes, collation }, ValueRef::Bytes(bytes))
                if bytes.len() <= max_bytes.into() =>
            {
                push_text(&mut self.bytes, max_bytes.into(), collation, bytes);
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends what the keys begin with of all rows whose text in this column begins with
    /// characters equal to those of `prefix`. `None`, and nothing appended, for other columns than
    /// texts. Nothing may be appended behind it.
    pub fn push_prefix(
        &mut self,
        column_type: ColumnType,
        nullable: bool,
        prefix: &[u8],
    ) -> Option<()> {
        let ColumnType::Text { max_bytes, collation } = column_type else { return None };
        if nullable {
            self.bytes.push(1);
        }
        let mut weights = Vec::with_capacity(prefix.len());
        collation::prefix_key(collation, prefix, &mut weights);
        push_weights(&mut self.bytes, max_bytes.into(), &weights);
        Some(())
    }

    /// The finished key.
    pub fn finish(self) -> Key {
        Key(self.bytes.into_boxed_slice())
    }
}
