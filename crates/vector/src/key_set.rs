//! Which keys a join has on its other side, told to those who read this side.

use codec::Codec;
use model::ValueRef;

use crate::vector::{Values, Vector};

/// Most bits of a set: 128 kB travel with a scan.
const BITS_MAX: u64 = 1 << 20;
/// Bits for each key of a set that tells most others from its keys, and not all.
const BITS_PER_KEY: u64 = 12;
/// Range of numbers for each key, or for so many keys, up to which a set has a bit for each number.
const SPREAD_MAX: u64 = 64;
const KEYS_LEAST: u64 = 1_024;

/// Whole numbers that may be among the values of a column.
///
/// It says yes for all of them, and no for nearly all others: a bit for each number of a range, or
/// a filter of B. H. Bloom (Space/Time Trade-offs in Hash Coding, CACM 1970) with three hashes.
#[derive(Clone, Debug, PartialEq, Codec)]
#[codec(check = is_filled)]
pub struct KeySet {
    /// Which of a program's inputs it is about: a column of whole numbers.
    pub input: u16,
    /// The smallest and the largest number, as [`code`] has them.
    range: (u64, u64),
    /// A bit for each number of the range, or else for each hash.
    exact: bool,
    /// A power of two of them unless they are exact.
    bits: Vec<u64>,
}

fn is_filled(set: &KeySet) -> bool {
    let bits = set.bits.len() as u64;
    let enough = match set.exact {
        true => set.range.1.checked_sub(set.range.0).is_some_and(|last| last / 64 < bits),
        false => bits.is_power_of_two(),
    };
    enough && bits * 64 <= BITS_MAX
}

/// A number whose order among those of its kind is that of the value.
fn code(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(number) => Some(code_of_int(number)),
        ValueRef::UInt(number) => Some(number),
        _ => None,
    }
}

fn code_of_int(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

/// Three places of a number among so many bits, a power of two.
fn places(code: u64, bits: u64) -> [u64; 3] {
    let hash = crate::join::mixed(code);
    let second = hash >> 32 | 1;
    [0, 1, 2].map(|round: u64| hash.wrapping_add(round.wrapping_mul(second)) & (bits - 1))
}

impl KeySet {
    /// The set of the whole numbers of some vectors of one kind; none if they are so many that it
    /// would be too large, or no whole numbers. NULLs are in no set.
    pub fn new(input: u16, vectors: &[&Vector]) -> Option<Self> {
        let mut codes = Vec::new();
        for vector in vectors {
            let known = |at: &usize| !vector.is_null(*at);
            match &vector.values {
                Values::Int(list) => {
                    codes.extend((0..list.len()).filter(known).map(|at| code_of_int(list[at])));
                }
                Values::UInt(list) => {
                    codes.extend((0..list.len()).filter(known).map(|at| list[at]));
                }
                _ => return None,
            }
        }
        let range = (*codes.iter().min().unwrap_or(&0), *codes.iter().max().unwrap_or(&0));
        let (count, last) = (codes.len() as u64, range.1 - range.0);
        let exact = last < BITS_MAX && last / SPREAD_MAX <= count.max(KEYS_LEAST);
        let size = match exact {
            true => last / 64 + 1,
            false => (count * BITS_PER_KEY).next_power_of_two().max(64) / 64,
        };
        if size * 64 > BITS_MAX {
            return None;
        }
        let mut set = Self { input, range, exact, bits: vec![0; size as usize] };
        for code in codes {
            let places = match exact {
                true => [code - range.0; 3],
                false => places(code, size * 64),
            };
            places
                .into_iter()
                .for_each(|place| set.bits[(place / 64) as usize] |= 1 << (place % 64));
        }
        Some(set)
    }

    /// The same set, about another input.
    pub fn for_input(&self, input: u16) -> Self {
        Self { input, ..self.clone() }
    }

    /// Whether a value may be in the set; NULL never is.
    pub fn may_hold(&self, value: ValueRef<'_>) -> bool {
        code(value).is_some_and(|code| self.may_hold_code(code))
    }

    /// The places of a vector's values that may be in the set.
    pub(crate) fn places_in(&self, vector: &Vector) -> Vec<u32> {
        let places = 0..vector.len() as u32;
        let known = places.filter(|at| !vector.is_null(*at as usize));
        match &vector.values {
            Values::Int(list) => {
                known.filter(|at| self.may_hold_code(code_of_int(list[*at as usize]))).collect()
            }
            Values::UInt(list) => {
                known.filter(|at| self.may_hold_code(list[*at as usize])).collect()
            }
            _ => Vec::new(),
        }
    }

    #[inline]
    fn may_hold_code(&self, code: u64) -> bool {
        if code < self.range.0 || code > self.range.1 {
            return false;
        }
        let is_set = |place: u64| self.bits[(place / 64) as usize] >> (place % 64) & 1 == 1;
        match self.exact {
            true => is_set(code - self.range.0),
            false => places(code, self.bits.len() as u64 * 64).into_iter().all(is_set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(numbers: &[i64]) -> Option<KeySet> {
        let mut vector = Vector { values: Values::Int(numbers.to_vec()), nulls: Vec::new() };
        vector.push_null();
        KeySet::new(0, &[&vector])
    }

    #[test]
    fn a_set_holds_its_numbers_and_hardly_others() {
        for spread in [1, 50, 1_000_003] {
            let numbers: Vec<i64> = (-2_000..2_000).map(|number| number * spread).collect();
            let set = set_of(&numbers).expect("a small set");
            assert!(is_filled(&set));
            assert!(numbers.iter().all(|number| set.may_hold(ValueRef::Int(*number))));
            let others = (-100_000..100_000).map(|number| number * 39 + 7);
            let strange = others.filter(|number| numbers.binary_search(number).is_err());
            let (mut wrong, mut all) = (0, 0);
            for number in strange {
                all += 1;
                wrong += u32::from(set.may_hold(ValueRef::Int(number)));
            }
            assert!(wrong * 50 < all, "{wrong} of {all} at {spread}");
            assert!(!set.may_hold(ValueRef::Null));
        }
    }

    #[test]
    fn a_set_of_nothing_holds_nothing_but_perhaps_one() {
        let set = set_of(&[]).expect("a small set");
        assert!((1..100).all(|number| !set.may_hold(ValueRef::Int(number))));
        assert!(!set.may_hold(ValueRef::Int(i64::MIN)));
    }

    #[test]
    fn ends_of_the_range_of_numbers_are_numbers() {
        let set = set_of(&[i64::MIN, i64::MAX]).expect("a small set");
        assert!(set.may_hold(ValueRef::Int(i64::MIN)) && set.may_hold(ValueRef::Int(i64::MAX)));
    }

    #[test]
    fn too_many_numbers_have_no_set() {
        let numbers: Vec<i64> = (0..200_000).map(|number| number * 977).collect();
        assert!(set_of(&numbers).is_none());
    }
}
