//! The encoding of lists, maps, tuples, and of values that may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stdx::Few;

use crate::{Decode, DecodeError, Describe, Encode, Format, Problem, Reader, Shape, Writer};

impl<T: Encode> Encode for [T] {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_length(self.len());
        T::encode_all(self, out);
    }
}

impl<T: Describe> Describe for [T] {
    fn describe(format: &mut Format) -> Shape {
        match T::describe(format) {
            Shape::Byte => Shape::Bytes,
            element => Shape::List(Box::new(element)),
        }
    }
}

macro_rules! list {
    ($($list:ty),*) => {$(
        impl<T: Encode> Encode for $list {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                <[T]>::encode(self, out);
            }
        }

        impl<T: Decode> Decode for $list {
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let count = input.length()?;
                T::decode_all(count, input).map(Into::into)
            }
        }

        impl<T: Describe> Describe for $list {
            fn describe(format: &mut Format) -> Shape {
                <[T]>::describe(format)
            }
        }
    )*};
}

list!(Vec<T>, Box<[T]>, Arc<[T]>);

impl<T: Encode> Encode for Few<T> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        <[T]>::encode(self, out);
    }
}

impl<T: Decode> Decode for Few<T> {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match input.length()? {
            0 => Ok(Few::new()),
            1 => T::decode(input).map(Few::one),
            count => T::decode_all(count, input).map(Few::from),
        }
    }
}

impl<T: Describe> Describe for Few<T> {
    fn describe(format: &mut Format) -> Shape {
        <[T]>::describe(format)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, out: &mut Writer) {
        out.put_length(self.len());
        self.iter().for_each(|element| element.encode(out));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut set = BTreeSet::new();
        for _ in 0..input.length()? {
            let at = input.position();
            if !set.insert(T::decode(input)?) {
                return Err(input.fail_at(Problem::Invalid, at));
            }
        }
        Ok(set)
    }
}

impl<T: Describe> Describe for BTreeSet<T> {
    fn describe(format: &mut Format) -> Shape {
        Shape::Set(Box::new(T::describe(format)))
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Writer) {
        out.put_length(self.len());
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut map = BTreeMap::new();
        for _ in 0..input.length()? {
            let at = input.position();
            let (key, value) = Decode::decode(input)?;
            if map.insert(key, value).is_some() {
                return Err(input.fail_at(Problem::Invalid, at));
            }
        }
        Ok(map)
    }
}

impl<K: Describe, V: Describe> Describe for BTreeMap<K, V> {
    fn describe(format: &mut Format) -> Shape {
        let (key, value) = (K::describe(format), V::describe(format));
        Shape::Map(Box::new(key), Box::new(value))
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Describe> Describe for Option<T> {
    fn describe(format: &mut Format) -> Shape {
        Shape::Optional(Box::new(T::describe(format)))
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put_u8(u8::from(self.is_err()));
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }
}

impl<T: Decode, E: Decode> Decode for Result<T, E> {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::decode(input)? { Err(E::decode(input)?) } else { Ok(T::decode(input)?) })
    }
}

impl<T: Describe, E: Describe> Describe for Result<T, E> {
    fn describe(format: &mut Format) -> Shape {
        let (value, error) = (T::describe(format), E::describe(format));
        Shape::Result(Box::new(value), Box::new(error))
    }
}

macro_rules! tuple {
    ($($part:ident $at:tt),*) => {
        impl<$($part: Encode),*> Encode for ($($part,)*) {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                $(self.$at.encode(out);)*
            }
        }

        impl<$($part: Decode),*> Decode for ($($part,)*) {
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(($($part::decode(input)?,)*))
            }
        }

        impl<$($part: Describe),*> Describe for ($($part,)*) {
            fn describe(format: &mut Format) -> Shape {
                Shape::Tuple(vec![$($part::describe(format)),*])
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
