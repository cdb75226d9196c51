//! Values as bytes between processes, and back: compact, without a schema in the bytes, and safe to
//! read whatever arrives.
//!
//! # Owns
//! The traits [`Encode`], [`Decode`] and [`Describe`], the derive [`Codec`] that implements all
//! three, the encoding of what the language and `stdx` offer.
//!
//! Numbers are [varints](Writer::put_varint), signed ones zigzag; lists, texts and bytes begin with
//! their length; an enum begins with a byte that says which variant it is; a struct is its fields.
//!
//! # Versions
//! Both ends agree on a version before the first message, the smaller one of what they know; a
//! [`Writer`] and a [`Reader`] carry it. A field or a variant that came later is marked
//! `#[codec(since = N)]`: an older version has no trace of the field, and it reads as its default.
//! A variant cannot be left out: encoding one for an older version is an [`EncodeError`], and the
//! one who sends does without the message. So new variants are sent only to those who know them.
//!
//! # Guarantees
//! 1. Decoding ends in a value or in a [`DecodeError`], never in a panic, whatever the bytes.
//! 2. What a length makes it allocate at once is at most [`ROOM_FACTOR`] times the bytes that are
//!    left; more only for elements that are really there.
//! 3. Types that contain themselves are followed [`DEPTH_MAX`] deep.
//! # Not here
//! Checksums, frames, compression: whoever moves the bytes sees to that they arrive as they were.

// The derive names this crate; its tests in here do so as well.
extern crate self as codec;

mod basic;
mod collection;
mod error;
pub mod fixed;
mod format;
mod reader;
mod writer;

pub use codec_derive::Codec;
pub use error::{DecodeError, EncodeError, Problem};
pub use format::{Definition, Field, Format, Shape, Variant};
pub use reader::Reader;
pub use writer::Writer;

/// Deepest nesting of types that contain themselves.
pub const DEPTH_MAX: u16 = 256;
/// Bytes allocated at once for each byte that is left of the input.
pub const ROOM_FACTOR: usize = 8;

/// What can be written as bytes.
pub trait Encode {
    /// Appends the value. What cannot be said in the writer's version is [refused](Writer::refuse).
    fn encode(&self, out: &mut Writer);

    /// Appends the elements of a list, without their number.
    fn encode_all(all: &[Self], out: &mut Writer)
    where
        Self: Sized,
    {
        all.iter().for_each(|one| one.encode(out));
    }
}

/// What can be read back from bytes.
pub trait Decode: Sized {
    /// Takes a value from the input.
    ///
    /// # Errors
    /// When the bytes are none of such a value. The input is of no use then.
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Takes the elements of a list whose number was read with [`Reader::length`].
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_all(count: usize, input: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let room = input.remaining() * ROOM_FACTOR / size_of::<Self>().max(1);
        let mut all = Vec::with_capacity(count.min(room));
        for _ in 0..count {
            all.push(Self::decode(input)?);
        }
        Ok(all)
    }
}

/// What can say how its bytes look.
pub trait Describe {
    /// The shape of a value; types with a name are added to `format`.
    fn describe(format: &mut Format) -> Shape;
}

#[cfg(test)]
mod tests;
