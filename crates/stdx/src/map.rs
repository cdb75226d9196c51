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
        // The map uses the low and the top bits, and a product is good at the top: fold it down.
        let h = (self.state ^ (self.state >> 32)).wrapping_mul(MULTIPLIER);
        h ^ (h >> 32)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn hashes_are_the_same_in_every_run() {
        let hasher = BuildHasherDefault::<FixedHasher>::default();
        assert_eq!(hasher.hash_one(1u64), hasher.hash_one(1u64));
        let first: Vec<u64> = (0..3u64).map(|v| hasher.hash_one(v)).collect();
        assert_eq!(first, EXPECTED, "a change of the hasher changes the order of maps");
        assert_ne!(hasher.hash_one("ab"), hasher.hash_one("ab\0"));
    }

    #[test]
    fn low_and_top_bits_spread() {
        let hasher = BuildHasherDefault::<FixedHasher>::default();
        for shift in [0, 8, 32, 48] {
            let mut low = vec![0u32; 256];
            let mut top = vec![0u32; 256];
            for v in 0..25_600u64 {
                let hash = hasher.hash_one(v << shift);
                low[(hash & 255) as usize] += 1;
                top[(hash >> 56) as usize] += 1;
            }
            let uneven = |counts: &[u32]| counts.iter().any(|count| !(20..300).contains(count));
            assert!(!uneven(&low), "low bits of numbers << {shift}: {low:?}");
            assert!(!uneven(&top), "top bits of numbers << {shift}: {top:?}");
        }
    }

    #[test]
    fn the_aliases_are_plain_maps() {
        let mut map: HashMap<u32, &str> = HashMap::default();
        map.insert(1, "one");
        let set: HashSet<u32> = [1, 2, 2].into_iter().collect();
        assert_eq!((map.get(&1), set.len()), (Some(&"one"), 2));
    }

    const EXPECTED: [u64; 3] = [0, 12_328_215_546_015_144_356, 15_484_151_069_156_790_115];
}
