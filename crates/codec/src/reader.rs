//! What values are read from.

use crate::{DEPTH_MAX, DecodeError, Problem};

/// A piece of input, how far it was read, and the version it was written in.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    version: u16,
    bytes: &'a [u8],
    at: usize,
    depth: u16,
}

impl<'a> Reader<'a> {
    /// All of `bytes`, written in this version.
    pub fn new(version: u16, bytes: &'a [u8]) -> Self {
        Self { version, bytes, at: 0, depth: 0 }
    }

    /// The version that is read.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes that were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When something is left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { Err(self.fail(Problem::Trailing)) }
    }

    /// What went wrong at this place.
    #[cold]
    pub fn fail(&self, problem: Problem) -> DecodeError {
        DecodeError::new(problem, self.at)
    }

    /// What is wrong with the value that began at `at`.
    #[cold]
    pub fn fail_at(&self, problem: Problem, at: usize) -> DecodeError {
        DecodeError::new(problem, at)
    }

    /// Takes a byte.
    ///
    /// # Errors
    /// When none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.fail(Problem::Truncated))?;
        self.at += 1;
        Ok(byte)
    }

    /// Takes `count` bytes.
    ///
    /// # Errors
    /// When so many are not left.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let bytes = rest.get(..count).ok_or_else(|| self.fail(Problem::Truncated))?;
        self.at += count;
        Ok(bytes)
    }

    /// Takes a number of eight bytes.
    ///
    /// # Errors
    /// When so many are not left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let rest = &self.bytes[self.at..];
        let bytes = rest.first_chunk().ok_or_else(|| self.fail(Problem::Truncated))?;
        self.at += 8;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Takes a number of [variable length](crate::Writer::put_varint).
    ///
    /// # Errors
    /// When its bytes are not there.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte & 1 == 1 => {
                self.at += 1;
                Ok(u64::from(byte >> 1))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let first = self.u8()?;
        if first == 0 {
            return self.u64();
        }
        self.at -= 1;
        let size = first.trailing_zeros() as usize + 1;
        let rest = &self.bytes[self.at..];
        let word = match rest.first_chunk() {
            Some(word) => *word,
            None if rest.len() < size => return Err(self.fail(Problem::Truncated)),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                word
            }
        };
        self.at += size;
        Ok(u64::from_le_bytes(word) >> size & u64::MAX >> (64 - 7 * size))
    }

    /// Takes the number of elements or bytes that follow. An element has a byte at least.
    ///
    /// # Errors
    /// When so many cannot follow.
    #[inline]
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let at = self.at;
        let length = self.varint()?;
        if length > self.remaining() as u64 {
            return Err(self.fail_at(Problem::Length, at));
        }
        Ok(length as usize)
    }

    /// Reads what lies within a type that contains itself.
    ///
    /// # Errors
    /// When it is nested too deep, or as `read` says.
    pub fn descend<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth == DEPTH_MAX {
            return Err(self.fail(Problem::Depth));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }
}
