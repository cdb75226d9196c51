//! Numbers that use most of their bits in eight bytes: `#[codec(with = codec::fixed)]`.

use crate::{DecodeError, Format, Reader, Shape, Writer};

/// Appends the number.
#[inline]
pub fn encode(number: &u64, out: &mut Writer) {
    out.put_u64(*number);
}

/// Takes a number.
///
/// # Errors
/// When its bytes are not there.
#[inline]
pub fn decode(input: &mut Reader<'_>) -> Result<u64, DecodeError> {
    input.u64()
}

/// Eight bytes.
pub fn describe(_: &mut Format) -> Shape {
    Shape::Eight
}
