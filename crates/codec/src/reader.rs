//! What values are read from.

use crate::{DEPTH_MAX, DecodeError, Problem};

/// A piece of input, how far it was read, and the version it was written in.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// What is left.
    rest: &'a [u8],
    /// Bytes there were at the beginning.
    size: usize,
    version: u16,
    depth: u16,
    /// The type that is being read.
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// All of `bytes`, written in this version.
    pub fn new(version: u16, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, size: bytes.len(), version, depth: 0, what: "value" }
    }

    /// The version that is read.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes that were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.size - self.rest.len()
    }

    /// Bytes that are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
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
        DecodeError::new(problem, self.what, self.position())
    }

    /// What is wrong with the value that began at `at`.
    #[cold]
    pub fn fail_at(&self, problem: Problem, at: usize) -> DecodeError {
        DecodeError::new(problem, self.what, at)
    }

    /// Says which type is being read: errors name it. Returns the one around it, which is to be
    /// [gone back to](Reader::leave); after an error nobody needs to.
    #[inline]
    #[must_use]
    pub fn enter(&mut self, what: &'static str) -> &'static str {
        std::mem::replace(&mut self.what, what)
    }

    /// Goes back to the type around the one that was read.
    #[inline]
    pub fn leave(&mut self, outer: &'static str) {
        self.what = outer;
    }

    /// Takes a byte.
    ///
    /// # Errors
    /// When none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let Some((byte, rest)) = self.rest.split_first() else {
            return Err(self.fail(Problem::Truncated));
        };
        self.rest = rest;
        Ok(*byte)
    }

    /// Takes `count` bytes.
    ///
    /// # Errors
    /// When so many are not left.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.fail(Problem::Truncated));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// Takes a number of eight bytes.
    ///
    /// # Errors
    /// When so many are not left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(self.fail(Problem::Truncated));
        };
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Takes a number of [variable length](crate::Writer::put_varint).
    ///
    /// # Errors
    /// When its bytes are not there.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest {
            [byte, rest @ ..] if byte & 1 == 1 => {
                self.rest = rest;
                Ok(u64::from(byte >> 1))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let Some((first, after)) = self.rest.split_first() else {
            return Err(self.fail(Problem::Truncated));
        };
        if *first == 0 {
            self.rest = after;
            return self.u64();
        }
        let following = first.trailing_zeros() as usize;
        let Some(rest) = after.get(following..) else {
            return Err(self.fail(Problem::Truncated));
        };
        let word = match self.rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            // Near the end. A loop, because a copy of changing length is slower.
            None => {
                let add = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
                self.rest[..=following].iter().rev().fold(0, add)
            }
        };
        self.rest = rest;
        Ok(word >> (following + 1) & u64::MAX >> (57 - 7 * following))
    }

    /// Takes the number of elements or bytes that follow. An element has a byte at least.
    ///
    /// # Errors
    /// When so many cannot follow.
    #[inline]
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let at = self.position();
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
