//! What transactions and rows are made of, drawn from a seed (clauses 2.1.6, 4.3.2).
//!
//! # Owns
//! Uniform and non-uniform numbers, names, strings.
//! # Invariants
//! Texts hold letters and digits only, so that they stand in statements as they are.

use stdx::Prng;

use crate::schema::Scale;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The constants C of the non-uniform draws. They stay the same for the life of a database, but for
/// that of last names, which must be another when transactions run, by a distance the specification
/// prescribes (clause 2.1.6.1).
const C_LAST_LOAD: u64 = 42;
const C_LAST_RUN: u64 = 121;
const C_CUSTOMER: u64 = 259;
const C_ITEM: u64 = 7_911;

const _: () = {
    let distance = C_LAST_RUN - C_LAST_LOAD;
    assert!(distance >= 65 && distance <= 119 && distance != 96 && distance != 112);
    assert!(C_LAST_LOAD <= 255 && C_LAST_RUN <= 255 && C_CUSTOMER <= 1_023 && C_ITEM <= 8_191);
};

/// Whether rows are made, or transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Load,
    Run,
}

/// A source of everything random.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    prng: Prng,
    scale: Scale,
    c_last: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64, scale: Scale, phase: Phase) -> Self {
        let c_last = match phase {
            Phase::Load => C_LAST_LOAD,
            Phase::Run => C_LAST_RUN,
        };
        Self { prng: Prng::new(seed), scale, c_last }
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// Uniform in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.prng.between(low, high)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.prng.percent(percent)
    }

    /// NURand(A, x, y) of clause 2.1.6.
    fn non_uniform(&mut self, a: u64, c: u64, low: u64, high: u64) -> u64 {
        let mixed = self.prng.between(0, a) | self.prng.between(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// A customer of a district, some far more often than others.
    pub(crate) fn customer(&mut self) -> u64 {
        self.non_uniform(1_023, C_CUSTOMER, 1, self.scale.customers)
    }

    /// An item.
    pub(crate) fn item(&mut self) -> u64 {
        self.non_uniform(8_191, C_ITEM, 1, self.scale.items)
    }

    /// A last name that customers have.
    pub(crate) fn last_name(&mut self) -> String {
        last_name(self.non_uniform(255, self.c_last, 0, self.scale.names() - 1))
    }

    /// Letters and digits, so many.
    pub(crate) fn letters(&mut self, shortest: u64, longest: u64) -> String {
        let length = self.between(shortest, longest);
        (0..length).map(|_| char::from(*self.prng.pick(LETTERS))).collect()
    }

    /// Digits.
    pub(crate) fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'0' + self.prng.below(10) as u8)).collect()
    }

    /// Four digits and five ones: clause 4.3.2.7.
    pub(crate) fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Data of items and stock: one in ten has the word that makes an order "B".
    pub(crate) fn data(&mut self) -> String {
        let mut text = self.letters(26, 50);
        if self.percent(10) {
            let at = self.prng.index(text.len() - ORIGINAL.len() + 1);
            text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// The numbers 1 to `count` in random order.
    pub(crate) fn permutation(&mut self, count: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (1..=count).collect();
        self.shuffle(&mut all);
        all
    }

    /// Puts elements into random order.
    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.prng.index(at + 1));
        }
    }
}

/// What a part of the data of items and stock may say.
pub(crate) const ORIGINAL: &str = "ORIGINAL";

/// The last name of a number below a thousand: a syllable for each digit (clause 4.3.2.3).
pub(crate) fn last_name(number: u64) -> String {
    let digits = [number / 100, number / 10 % 10, number % 10];
    digits.iter().map(|digit| SYLLABLES[*digit as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws() -> Draws {
        Draws::new(7, Scale::divided(1), Phase::Run)
    }

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn non_uniform_draws_stay_in_range_and_prefer_some() {
        let mut draws = draws();
        let mut counts = vec![0u32; 3_001];
        for _ in 0..300_000 {
            counts[draws.customer() as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let mut sorted = counts[1..].to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let of_a_tenth: u32 = sorted[..300].iter().sum();
        // Uniform draws would give the most frequent tenth little more than a tenth.
        assert!(of_a_tenth > 300_000 / 4, "{of_a_tenth}");
        for _ in 0..10_000 {
            assert!((1..=100_000).contains(&draws.item()));
        }
    }

    #[test]
    fn names_that_are_asked_for_exist() {
        let scale = Scale::divided(50);
        let loaded: Vec<String> = (0..scale.names()).map(last_name).collect();
        let mut draws = Draws::new(1, scale, Phase::Run);
        for _ in 0..1_000 {
            assert!(loaded.contains(&draws.last_name()));
        }
    }

    #[test]
    fn one_in_ten_is_original_and_all_texts_fit() {
        let mut draws = draws();
        let texts: Vec<String> = (0..10_000).map(|_| draws.data()).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        assert!(texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        let original = texts.iter().filter(|text| text.contains(ORIGINAL)).count();
        assert!((850..1_150).contains(&original), "{original}");
        let zip = draws.zip();
        assert!(zip.len() == 9 && zip.ends_with("11111"));
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut numbers = draws().permutation(3_000);
        assert!(numbers.windows(2).any(|pair| pair[0] > pair[1]));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3_000));
    }
}
