//! Files whose bytes are replaced by others: blocks, each encrypted and authenticated as a whole.
//!
//! # Guarantees
//! Each time a block is written it has a new key, from a salt beside it. A block that was torn, or
//! changed, is not authentic and reads as zeros; its neighbours are as they were.
//! # Not here
//! Reading a block before a part of it is replaced: `disk`.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::{KEY, SALT, derive, random};

/// Bytes of contents that a block stands for, and bytes that it takes in the file: a block of the
/// disk, as disks tear writes at the ends of blocks.
pub(crate) const BLOCK: usize = 4_096;
/// Salt, length, stored length, tag, and a gap.
const HEAD: usize = SALT + 2 + 2 + TAG + 12;
const TAG: usize = 16;
/// Bytes that a block has room for; the zeros at the end of its contents are not among them.
const STORED_MAX: usize = BLOCK - HEAD;

/// The cipher of a file.
pub(crate) struct BlockCipher {
    key: [u8; KEY],
}

impl BlockCipher {
    pub(super) fn new(key: [u8; KEY]) -> Self {
        Self { key }
    }

    /// A block as it is written; none if its contents do not fit.
    pub(crate) fn seal(&self, index: u64, contents: &[u8]) -> Option<Vec<u8>> {
        let stored = contents.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if contents.len() > BLOCK || stored > STORED_MAX {
            return None;
        }
        let salt: [u8; SALT] = random();
        let about = About { index, length: contents.len() as u16, stored: stored as u16 };
        let mut block = vec![0; HEAD];
        block[..SALT].copy_from_slice(&salt);
        block[SALT..SALT + 2].copy_from_slice(&about.length.to_le_bytes());
        block[SALT + 2..SALT + 4].copy_from_slice(&about.stored.to_le_bytes());
        block.extend_from_slice(&contents[..stored]);
        let (key, nonce) = self.for_block(&salt);
        let tag = key.seal_in_place_separate_tag(nonce, about.aad(), &mut block[HEAD..]);
        let tag = tag.expect("a block is short enough");
        block[SALT + 4..SALT + 4 + TAG].copy_from_slice(tag.as_ref());
        Some(block)
    }

    /// The contents of a block; none if it is not authentic.
    pub(crate) fn open(&self, index: u64, block: &[u8]) -> Option<Vec<u8>> {
        let head = block.get(..HEAD)?;
        let (salt, rest) = head.split_first_chunk::<SALT>()?;
        let number = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let about = About { index, length: number(0), stored: number(2) };
        let stored = usize::from(about.stored);
        if usize::from(about.length) > BLOCK || stored > usize::from(about.length) {
            return None;
        }
        let mut contents = block.get(HEAD..HEAD + stored)?.to_vec();
        contents.extend_from_slice(&rest[4..4 + TAG]);
        let (key, nonce) = self.for_block(salt);
        key.open_in_place(nonce, about.aad(), &mut contents).ok()?;
        contents.truncate(stored);
        contents.resize(usize::from(about.length), 0);
        Some(contents)
    }

    /// The contents of all blocks of a file.
    pub(super) fn open_all(&self, blocks: &[u8]) -> Vec<u8> {
        let mut contents = Vec::new();
        let count = blocks.len().div_ceil(BLOCK);
        for (index, block) in blocks.chunks(BLOCK).enumerate() {
            let mut of_block = self.open(index as u64, block).unwrap_or_else(|| vec![0; BLOCK]);
            if index + 1 < count {
                of_block.resize(BLOCK, 0);
            }
            contents.append(&mut of_block);
        }
        contents
    }

    fn for_block(&self, salt: &[u8; SALT]) -> (LessSafeKey, Nonce) {
        let key = derive(&self.key, salt, b"nines block, 1");
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of this length");
        // The key is used once.
        (LessSafeKey::new(key), Nonce::assume_unique_for_key([0; 12]))
    }
}

/// What is authenticated beside the contents.
struct About {
    index: u64,
    length: u16,
    stored: u16,
}

impl About {
    fn aad(&self) -> Aad<[u8; 12]> {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.index.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.length.to_le_bytes());
        bytes[10..].copy_from_slice(&self.stored.to_le_bytes());
        Aad::from(bytes)
    }
}

impl fmt::Debug for BlockCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCipher").finish_non_exhaustive()
    }
}
