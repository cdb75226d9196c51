//! Reading the protocol's basic types from a packet.

use std::fmt;

/// A packet is not what the protocol says: error 1835, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Malformed communication packet.")
    }
}

/// Reads a packet from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// An integer of one, three, four or nine bytes.
    pub(crate) fn lenenc(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=250 => Ok(small.into()),
            252 => self.u16().map(u64::from),
            253 => {
                let [a, b, c] = self.array()?;
                Ok(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            254 => self.u64(),
            _ => Err(Malformed),
        }
    }

    /// Bytes behind their length.
    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(self.lenenc()?).map_err(|_| Malformed)?;
        self.take(count)
    }

    /// Bytes up to a zero byte, which there must be.
    pub(crate) fn zero_ended(&mut self) -> Result<&'a [u8], Malformed> {
        if self.0.contains(&0) { Ok(self.until_zero()) } else { Err(Malformed) }
    }

    /// Bytes up to a zero byte, or to the end.
    pub(crate) fn until_zero(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        text
    }
}
