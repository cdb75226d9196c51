//! Reads the protocol's integers and strings from a payload.

/// The part of a payload that has not been read. Every method gives `None`, and reads nothing that
/// matters, when the payload is too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn len(self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer. The marks of NULL and of errors are none.
    pub(crate) fn length(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ 0..=0xFA => Some(small.into()),
            0xFC => self.u16().map(u64::from),
            0xFD => {
                let [a, b, c] = self.array()?;
                Some(u32::from_le_bytes([a, b, c, 0]).into())
            }
            0xFE => self.u64(),
            0xFB | 0xFF => None,
        }
    }

    /// A string after its length-encoded length.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.length()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    /// A string before a zero byte, which must be there.
    pub(crate) fn string_to_zero(&mut self) -> Option<&'a [u8]> {
        let len = self.rest.iter().position(|byte| *byte == 0)?;
        let string = self.bytes(len)?;
        self.bytes(1)?;
        Some(string)
    }

    /// A string before a zero byte or the end of the payload.
    pub(crate) fn string_to_zero_or_end(&mut self) -> &'a [u8] {
        match self.string_to_zero() {
            Some(string) => string,
            None => std::mem::take(&mut self.rest),
        }
    }
}
