//! Where values are written to.

use crate::{DEPTH_MAX, EncodeError};

/// A growing piece of output and the version that it is written in. To be reused: clearing it
/// keeps its memory.
#[derive(Clone, Debug)]
pub struct Writer {
    version: u16,
    bytes: Vec<u8>,
    depth: u16,
    refused: Option<EncodeError>,
}

impl Writer {
    /// An empty output for a receiver of this version.
    pub fn new(version: u16) -> Self {
        Self { version, bytes: Vec::new(), depth: 0, refused: None }
    }

    /// The version that is written.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The output itself, for what surrounds the values: heads of frames, checksums.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Runs `write`; when something in it was refused, its part of the output is taken back.
    ///
    /// # Errors
    /// What was refused first.
    #[inline]
    pub fn attempt(&mut self, write: impl FnOnce(&mut Writer)) -> Result<(), EncodeError> {
        let start = self.bytes.len();
        write(self);
        match self.refused.take() {
            None => Ok(()),
            Some(error) => {
                self.bytes.truncate(start);
                self.depth = 0;
                Err(error)
            }
        }
    }

    /// Says that something cannot be written: [`Writer::attempt`] will fail.
    #[cold]
    pub fn refuse(&mut self, error: EncodeError) {
        self.refused.get_or_insert(error);
    }

    /// Appends a byte.
    #[inline]
    pub fn put_u8(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a number in one byte for each 7 bits that it has, in nine at most.
    ///
    /// The zeros at the low end of the first byte count the bytes that follow, so that a reader
    /// knows the length at once; the number is in the bits above, little-endian. A first byte of
    /// zero is followed by the number in eight bytes.
    #[inline]
    pub fn put_varint(&mut self, number: u64) {
        if number < 1 << 7 {
            self.bytes.push((number as u8) << 1 | 1);
        } else {
            self.put_long_varint(number);
        }
    }

    fn put_long_varint(&mut self, number: u64) {
        let size = (70 - number.leading_zeros() as usize) / 7;
        if size > 8 {
            self.bytes.push(0);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else {
            // All eight bytes and then less is faster than a copy of changing length.
            let word = (number << 1 | 1) << (size - 1);
            self.bytes.extend_from_slice(&word.to_le_bytes());
            self.bytes.truncate(self.bytes.len() + size - 8);
        }
    }

    /// Appends eight bytes: for numbers that use most of their bits.
    #[inline]
    pub fn put_u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends the number of elements or bytes that follow.
    #[inline]
    pub fn put_length(&mut self, length: usize) {
        self.put_varint(length as u64);
    }

    /// Writes what lies within a type that contains itself.
    pub fn descend(&mut self, write: impl FnOnce(&mut Writer)) {
        if self.depth == DEPTH_MAX {
            return self.refuse(EncodeError::Depth);
        }
        self.depth += 1;
        write(self);
        self.depth = self.depth.saturating_sub(1);
    }
}
