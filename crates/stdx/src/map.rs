//! Hash maps whose order is the same in every run: a fixed hasher instead of a random one.
//!
//! Iterate over them only where order does not matter; use `BTreeMap` where it does.

use std::hash::{BuildHasherDefault, Hasher};

/// A `std` hash map with [`FixedHasher`].
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A `std` hash set with [`FixedHasher`].
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// A fast multiply-and-rotate hasher without a random seed. Not for keys an attacker chooses to
/// collide: such maps hold identifiers and key hashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher {
    state: u64,
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl FixedHasher {
    fn mix(&mut self, word: u64) {
        self.state = (self.state.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        // The map uses the low and the top bits: fold the good high bits down.
        let h = self.state ^ (self.state >> 32);
        h.wrapping_mul(MULTIPLIER) ^ (h >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    fn write_u8(&mut self, v: u8) {
        self.mix(u64::from(v));
    }

    fn write_u16(&mut self, v: u16) {
        self.mix(u64::from(v));
    }

    fn write_u32(&mut self, v: u32) {
        self.mix(u64::from(v));
    }

    fn write_u64(&mut self, v: u64) {
        self.mix(v);
    }

    fn write_usize(&mut self, v: usize) {
        self.mix(v as u64);
    }
}
