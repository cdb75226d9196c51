//! AES in the modes of `block_encryption_mode`.
//!
//! # Owns
//! [`BlockEncryption`]: a mode with the size of its key; encryption and decryption of bytes.
//! # Invariants
//! ECB and CBC fill up to whole blocks as PKCS #7 says, which always adds something; CFB and OFB
//! make a stream and keep the length.
//! # Not here
//! The cipher of one block (the crate `aes`), where a key comes from (`key`), what SQL makes of
//! the arguments (`encryption`).

use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};

/// Bytes of a block, and of an initialization vector.
pub(super) const BLOCK: usize = 16;

/// A value of `block_encryption_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEncryption {
    key_size: usize,
    mode: Mode,
}

/// How blocks hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Each for itself.
    Ecb,
    /// Each is mixed with the one before.
    Cbc,
    /// A stream, by the bit, the byte and the block, in which what was made is fed back.
    Cfb1,
    Cfb8,
    Cfb128,
    /// A stream that does not depend on the text.
    Ofb,
}

const MODES: [Mode; 6] = [Mode::Ecb, Mode::Cbc, Mode::Cfb1, Mode::Cfb8, Mode::Cfb128, Mode::Ofb];
const KEY_SIZES: [usize; 3] = [16, 24, 32];

impl BlockEncryption {
    /// The mode of a server that has not been told another: `aes-128-ecb`.
    pub const DEFAULT: Self = Self { key_size: KEY_SIZES[0], mode: Mode::Ecb };

    /// The names of all, in the order of MySQL's numbers for them.
    #[rustfmt::skip]
    pub const NAMES: [&'static str; MODES.len() * KEY_SIZES.len()] = [
        "aes-128-ecb", "aes-192-ecb", "aes-256-ecb",
        "aes-128-cbc", "aes-192-cbc", "aes-256-cbc",
        "aes-128-cfb1", "aes-192-cfb1", "aes-256-cfb1",
        "aes-128-cfb8", "aes-192-cfb8", "aes-256-cfb8",
        "aes-128-cfb128", "aes-192-cfb128", "aes-256-cfb128",
        "aes-128-ofb", "aes-192-ofb", "aes-256-ofb",
    ];

    /// The mode of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        let (mode, size) = (at / KEY_SIZES.len(), at % KEY_SIZES.len());
        Some(Self { key_size: KEY_SIZES[size], mode: MODES[mode] })
    }

    /// Bytes of a key.
    pub(super) fn key_size(self) -> usize {
        self.key_size
    }

    /// Whether it begins with an initialization vector.
    pub(super) fn needs_vector(self) -> bool {
        self.mode != Mode::Ecb
    }

    /// About how many bytes go through the cipher for each byte of the text.
    pub(super) fn effort(self) -> u64 {
        match self.mode {
            Mode::Cfb1 => 8 * BLOCK as u64,
            Mode::Cfb8 => BLOCK as u64,
            _ => 1,
        }
    }

    /// Encrypts a text under a key of its size.
    pub(super) fn encrypt(self, key: &[u8], vector: [u8; BLOCK], text: &[u8]) -> Vec<u8> {
        let cipher = Cipher::new(key);
        let mut bytes = text.to_vec();
        if !matches!(self.mode, Mode::Ecb | Mode::Cbc) {
            cipher.stream(self.mode, vector, &mut bytes, Direction::Encrypt);
            return bytes;
        }
        let missing = BLOCK - bytes.len() % BLOCK;
        bytes.resize(bytes.len() + missing, missing as u8);
        let mut before = u128::from_be_bytes(vector);
        for place in bytes.as_chunks_mut::<BLOCK>().0 {
            let mixed = match self.mode {
                Mode::Cbc => u128::from_be_bytes(*place) ^ before,
                _ => u128::from_be_bytes(*place),
            };
            before = cipher.encrypted(mixed);
            *place = before.to_be_bytes();
        }
        bytes
    }

    /// Decrypts what was encrypted; nothing if it cannot have been, under this key.
    pub(super) fn decrypt(self, key: &[u8], vector: [u8; BLOCK], text: &[u8]) -> Option<Vec<u8>> {
        let cipher = Cipher::new(key);
        let mut bytes = text.to_vec();
        if !matches!(self.mode, Mode::Ecb | Mode::Cbc) {
            cipher.stream(self.mode, vector, &mut bytes, Direction::Decrypt);
            return Some(bytes);
        }
        let (blocks, []) = bytes.as_chunks_mut::<BLOCK>() else { return None };
        let mut before = u128::from_be_bytes(vector);
        for place in blocks {
            let given = u128::from_be_bytes(*place);
            let mixed = cipher.decrypted(given);
            *place = match self.mode {
                Mode::Cbc => mixed ^ before,
                _ => mixed,
            }
            .to_be_bytes();
            before = given;
        }
        let added = usize::from(*bytes.last()?);
        let end = bytes.len().checked_sub(added).filter(|_| (1..=BLOCK).contains(&added))?;
        if bytes[end..].iter().any(|byte| usize::from(*byte) != added) {
            return None;
        }
        bytes.truncate(end);
        Some(bytes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// The block cipher with its key.
enum Cipher {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
}

impl Cipher {
    fn new(key: &[u8]) -> Self {
        let cipher = match key.len() {
            16 => Aes128::new_from_slice(key).map(Self::Aes128),
            24 => Aes192::new_from_slice(key).map(Self::Aes192),
            _ => Aes256::new_from_slice(key).map(Self::Aes256),
        };
        cipher.expect("a key of one of the three sizes")
    }

    fn encrypted(&self, block: u128) -> u128 {
        let mut bytes = block.to_be_bytes().into();
        match self {
            Self::Aes128(cipher) => cipher.encrypt_block(&mut bytes),
            Self::Aes192(cipher) => cipher.encrypt_block(&mut bytes),
            Self::Aes256(cipher) => cipher.encrypt_block(&mut bytes),
        }
        u128::from_be_bytes(bytes.into())
    }

    fn decrypted(&self, block: u128) -> u128 {
        let mut bytes = block.to_be_bytes().into();
        match self {
            Self::Aes128(cipher) => cipher.decrypt_block(&mut bytes),
            Self::Aes192(cipher) => cipher.decrypt_block(&mut bytes),
            Self::Aes256(cipher) => cipher.decrypt_block(&mut bytes),
        }
        u128::from_be_bytes(bytes.into())
    }

    /// The modes that make a stream. What is fed back is the encrypted side of it.
    fn stream(&self, mode: Mode, vector: [u8; BLOCK], bytes: &mut [u8], direction: Direction) {
        let fed_back = |given: u8, made: u8| match direction {
            Direction::Encrypt => made,
            Direction::Decrypt => given,
        };
        let mut register = u128::from_be_bytes(vector);
        match mode {
            Mode::Cfb1 => {
                for byte in bytes {
                    let given = *byte;
                    *byte = (0..8).rev().fold(0, |made, bit| {
                        let given = given >> bit & 1;
                        let this = given ^ (self.encrypted(register) >> 127) as u8;
                        register = register << 1 | u128::from(fed_back(given, this));
                        made << 1 | this
                    });
                }
            }
            Mode::Cfb8 => {
                for byte in bytes {
                    let given = *byte;
                    *byte ^= (self.encrypted(register) >> 120) as u8;
                    register = register << 8 | u128::from(fed_back(given, *byte));
                }
            }
            _ => {
                for part in bytes.chunks_mut(BLOCK) {
                    let mut key = self.encrypted(register).to_be_bytes();
                    for (byte, place) in part.iter_mut().zip(&mut key) {
                        let given = *byte;
                        *byte ^= *place;
                        if mode == Mode::Cfb128 {
                            *place = fed_back(given, *byte);
                        }
                    }
                    register = u128::from_be_bytes(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(pair).collect()
    }

    const TWO_BLOCKS: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";

    /// NIST SP 800-38A, appendix F: mode, text, and what it becomes.
    #[rustfmt::skip]
    const VECTORS: [(&str, &str, &str); 18] = [
        ("aes-128-ecb", TWO_BLOCKS,
            "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"),
        ("aes-192-ecb", TWO_BLOCKS,
            "bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef"),
        ("aes-256-ecb", TWO_BLOCKS,
            "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"),
        ("aes-128-cbc", TWO_BLOCKS,
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
        ("aes-192-cbc", TWO_BLOCKS,
            "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a"),
        ("aes-256-cbc", TWO_BLOCKS,
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"),
        ("aes-128-cfb1", "6bc1",
            "68b3"),
        ("aes-192-cfb1", "6bc1",
            "9359"),
        ("aes-256-cfb1", "6bc1",
            "9029"),
        ("aes-128-cfb8", "6bc1bee22e409f96e93d7e117393172aae2d",
            "3b79424c9c0dd436bace9e0ed4586a4f32b9"),
        ("aes-192-cfb8", "6bc1bee22e409f96e93d7e117393172aae2d",
            "cda2521ef0a905ca44cd057cbf0d47a0678a"),
        ("aes-256-cfb8", "6bc1bee22e409f96e93d7e117393172aae2d",
            "dc1f1a8520a64db55fcc8ac554844e889700"),
        ("aes-128-cfb128", TWO_BLOCKS,
            "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b"),
        ("aes-192-cfb128", TWO_BLOCKS,
            "cdc80d6fddf18cab34c25909c99a417467ce7f7f81173621961a2b70171d3d7a"),
        ("aes-256-cfb128", TWO_BLOCKS,
            "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b"),
        ("aes-128-ofb", TWO_BLOCKS,
            "3b3fd92eb72dad20333449f8e83cfb4a7789508d16918f03f53c52dac54ed825"),
        ("aes-192-ofb", TWO_BLOCKS,
            "cdc80d6fddf18cab34c25909c99a4174fcc28b8d4c63837c09e81700c1100401"),
        ("aes-256-ofb", TWO_BLOCKS,
            "dc7e84bfda79164b7ecd8486985d38604febdc6740d20b3ac88f6ad82a4fb08d"),
    ];

    #[test]
    fn each_mode_gives_the_vectors_of_its_standard() {
        let keys = [
            "2b7e151628aed2a6abf7158809cf4f3c",
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        ];
        assert_eq!(VECTORS.map(|(name, ..)| name), BlockEncryption::NAMES);
        let vector = std::array::from_fn(|at| at as u8);
        for (name, text, expected) in VECTORS {
            let encryption = BlockEncryption::by_name(name).unwrap();
            let key = bytes(keys[encryption.key_size() / 8 - 2]);
            let text = bytes(text);
            let made = encryption.encrypt(&key, vector, &text);
            assert_eq!(made[..text.len()], bytes(expected), "{name}");
            assert_eq!(encryption.decrypt(&key, vector, &made), Some(text), "{name}");
        }
    }

    #[test]
    fn texts_of_every_length_come_back() {
        let text: Vec<u8> = (0..50).collect();
        for name in BlockEncryption::NAMES {
            let encryption = BlockEncryption::by_name(name).unwrap();
            let key = vec![7; encryption.key_size()];
            for length in 0..text.len() {
                let made = encryption.encrypt(&key, [9; BLOCK], &text[..length]);
                let back = encryption.decrypt(&key, [9; BLOCK], &made);
                assert_eq!(back.as_deref(), Some(&text[..length]), "{name}, {length} bytes");
            }
        }
    }

    #[test]
    fn a_padding_that_is_none_gives_nothing() {
        let (key, vector) = ([1; BLOCK], [0; BLOCK]);
        let ecb = BlockEncryption::DEFAULT;
        let whole = |text: [u8; BLOCK]| ecb.encrypt(&key, vector, &text)[..BLOCK].to_vec();
        let mut two_and_three = [3; BLOCK];
        two_and_three[13] = 2;
        for text in [[0; BLOCK], [17; BLOCK], [255; BLOCK], two_and_three] {
            assert_eq!(ecb.decrypt(&key, vector, &whole(text)), None, "{text:?}");
        }
        assert_eq!(ecb.decrypt(&key, vector, &whole([BLOCK as u8; BLOCK])), Some(Vec::new()));
        assert_eq!(ecb.decrypt(&key, vector, &[]), None);
        assert_eq!(ecb.decrypt(&key, vector, &[0; 15]), None);
    }
}
