//! The encoding of numbers, truth values, texts, times, and of boxes around others.

use std::sync::Arc;

use stdx::{Duration, Instant};

use crate::{Decode, DecodeError, Describe, Encode, Format, Problem, Reader, Shape, Writer};

impl Encode for u8 {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_u8(*self);
    }

    fn encode_all(all: &[u8], out: &mut Writer) {
        out.put_bytes(all);
    }
}

impl Decode for u8 {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.u8()
    }

    fn decode_all(count: usize, input: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        input.bytes(count).map(<[u8]>::to_vec)
    }
}

impl Describe for u8 {
    fn describe(_: &mut Format) -> Shape {
        Shape::Byte
    }
}

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_u8(u8::from(*self));
    }
}

impl Decode for bool {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = input.position();
        match input.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(input.fail_at(Problem::Range, at)),
        }
    }
}

impl Describe for bool {
    fn describe(_: &mut Format) -> Shape {
        Shape::Truth
    }
}

macro_rules! varint {
    ($($int:ty),*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.put_varint(u64::from(*self));
            }
        }

        impl Decode for $int {
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let at = input.position();
                let number = input.varint()?;
                <$int>::try_from(number).map_err(|_| input.fail_at(Problem::Range, at))
            }
        }

        impl Describe for $int {
            fn describe(_: &mut Format) -> Shape {
                Shape::Varint(<$int>::BITS)
            }
        }
    )*};
}

varint!(u16, u32, u64);

impl Encode for i64 {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_varint((self << 1 ^ self >> 63) as u64);
    }
}

impl Decode for i64 {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let zigzag = input.varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }
}

impl Describe for i64 {
    fn describe(_: &mut Format) -> Shape {
        Shape::Zigzag
    }
}

impl Encode for f64 {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_u64(self.to_bits());
    }
}

impl Decode for f64 {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.u64().map(f64::from_bits)
    }
}

impl Describe for f64 {
    fn describe(_: &mut Format) -> Shape {
        Shape::Eight
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Writer) {
        out.put_length(self.len());
        out.put_bytes(self.as_bytes());
    }
}

impl Decode for String {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let length = input.length()?;
        let at = input.position();
        let text = std::str::from_utf8(input.bytes(length)?);
        text.map(str::to_owned).map_err(|_| input.fail_at(Problem::Text, at))
    }
}

impl Describe for String {
    fn describe(_: &mut Format) -> Shape {
        Shape::Text
    }
}

macro_rules! time {
    ($($time:ty),*) => {$(
        impl Encode for $time {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.put_varint(self.as_nanos());
            }
        }

        impl Decode for $time {
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                input.varint().map(<$time>::from_nanos)
            }
        }

        impl Describe for $time {
            fn describe(_: &mut Format) -> Shape {
                Shape::Varint(64)
            }
        }
    )*};
}

time!(Instant, Duration);

macro_rules! pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Encode> Encode for $pointer<T> {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                T::encode(self, out);
            }
        }

        impl<T: Decode> Decode for $pointer<T> {
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                T::decode(input).map($pointer::new)
            }
        }

        impl<T: Describe> Describe for $pointer<T> {
            fn describe(format: &mut Format) -> Shape {
                T::describe(format)
            }
        }
    )*};
}

pointer!(Box, Arc);
