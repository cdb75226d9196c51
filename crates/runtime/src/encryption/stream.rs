//! Files that are written once, from their beginning to their end: AES-256 in counter mode.
//!
//! # Guarantees
//! Every byte stands for itself: what was written and synced is not touched by what is appended,
//! and a write that was torn spoils nothing beside it. So a crash leaves of an encrypted file what
//! it would have left of a plain one.
//! # Invariants
//! Nobody encrypts two different bytes for one offset of a file; `disk` sees to it.

use std::fmt;

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};

use super::KEY;

/// Bytes of a block of AES.
pub(crate) const AES: usize = 16;

/// Bytes from an offset to the next block.
fn lead(offset: u64) -> usize {
    (offset.wrapping_neg() % AES as u64) as usize
}

/// The cipher of a file.
pub(crate) struct StreamCipher {
    /// Some hundred bytes.
    key: Box<EncryptingKey>,
}

impl StreamCipher {
    pub(super) fn new(key: &[u8; KEY]) -> Self {
        let key = UnboundCipherKey::new(&AES_256, key).expect("a key of this length");
        Self { key: Box::new(EncryptingKey::ctr(key).expect("counter mode is there")) }
    }

    /// Decrypts the bytes at an offset of the contents. A hole stays zeros: blocks of zeros, which
    /// a file system puts where nothing was written. The first such block behind one that was
    /// written is no part of the hole: of a block that was written in part, the bytes may happen to
    /// be zeros, one byte in 256 cases. `behind_hole` says whether the block before the first whole
    /// one is a hole too, or nothing is before it. Returns the same for what comes next.
    pub(crate) fn decrypt(&self, offset: u64, bytes: &mut [u8], mut behind_hole: bool) -> bool {
        let (mut from, mut at) = (0, lead(offset).min(bytes.len()));
        while at < bytes.len() {
            let end = bytes.len().min(at + AES);
            let is_zeros = bytes[at..end].iter().all(|byte| *byte == 0);
            if is_zeros && behind_hole {
                self.apply(offset + from as u64, &mut bytes[from..at]);
                from = end;
            }
            behind_hole = is_zeros;
            at = end;
        }
        self.apply(offset + from as u64, &mut bytes[from..]);
        behind_hole
    }

    /// Where the block begins that [`StreamCipher::decrypt`] has to know of before it decrypts
    /// these bytes; none where no hole begins with them.
    pub(crate) fn block_before(offset: u64, bytes: &[u8]) -> Option<u64> {
        let first = bytes.get(lead(offset)..)?;
        let is_zeros = first.iter().take(AES).all(|byte| *byte == 0);
        let at = offset + lead(offset) as u64;
        (is_zeros && !first.is_empty() && at > 0).then(|| at - AES as u64)
    }

    /// Encrypts, or decrypts, the bytes at an offset of the contents.
    pub(crate) fn apply(&self, offset: u64, bytes: &mut [u8]) {
        let within = (offset % AES as u64) as usize;
        let mut number = offset / AES as u64;
        let first = if within == 0 { 0 } else { bytes.len().min(AES - within) };
        let (begun, whole) = bytes.split_at_mut(first);
        if !begun.is_empty() {
            let mut block = [0; AES];
            self.run(number, &mut block);
            for (byte, key) in begun.iter_mut().zip(&block[within..]) {
                *byte ^= key;
            }
            number += 1;
        }
        if !whole.is_empty() {
            self.run(number, whole);
        }
    }

    /// The key stream from a block on.
    fn run(&self, number: u64, bytes: &mut [u8]) {
        let counter = u128::from(number).to_be_bytes();
        let context = EncryptionContext::Iv128((&counter).into());
        self.key.less_safe_encrypt(bytes, context).expect("counter mode takes any length");
    }
}

impl fmt::Debug for StreamCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCipher").finish_non_exhaustive()
    }
}
