//! The project's only pseudo-random generator: xoshiro256++ seeded by SplitMix64.
//!
//! Own code because a seed must mean the same run after every dependency upgrade. Not for secrets.
//! Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2021).

/// A deterministic generator; the same seed gives the same draws on every platform.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// A generator whose draws are decided by `seed` alone.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// A new generator that continues independently of this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A uniform number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw below zero has no answer");
        // The bias of the multiply-shift is under 2^-32 for the bounds used here.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty range {low}..={high}");
        low + self.below(high - low + 1)
    }

    /// True with a probability of `percent` in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A uniform index into a collection of `len` elements, which must not be empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A uniform element of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_draws_for_ever() {
        let mut prng = Prng::new(0);
        let draws = [prng.next_u64(), prng.next_u64(), prng.next_u64()];
        assert_eq!(draws, EXPECTED);
        let (mut a, mut b) = (Prng::new(9), Prng::new(9));
        assert_eq!(a.fork().next_u64(), b.fork().next_u64());
        assert_eq!(a.next_u64(), b.next_u64());
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut prng = Prng::new(1);
        let mut seen = [false; 6];
        for _ in 0..1_000 {
            seen[prng.below(6) as usize] = true;
            assert!((3..=5).contains(&prng.between(3, 5)));
            assert!(*prng.pick(&[1, 2]) <= 2);
        }
        assert_eq!(seen, [true; 6]);
        assert!(!prng.percent(0) && prng.percent(100));
        assert_eq!(prng.between(4, 4), 4);
    }

    const EXPECTED: [u64; 3] =
        [5_987_356_902_031_041_503, 7_051_070_477_665_621_255, 6_633_766_593_972_829_180];
}
