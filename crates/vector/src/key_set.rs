//! Which keys a join has on its other side, told to those who read this side.

use codec::Codec;
use model::{Value, ValueRef};

use crate::vector::{Kind, Values, Vector};

/// Most bits of a set: 2 MB travel with a scan. What a join collects before it tells keys takes at
/// most 1.6 MB.
const BITS_MAX: u64 = 1 << 24;
/// Bits for each key of a set that tells most others from its keys, and not all; and the least
/// of them that are of use, where there is no room for more.
const BITS_PER_KEY: u64 = 12;
const BITS_PER_KEY_LEAST: u64 = 6;
/// Range of numbers for each key, or for so many keys, up to which a set has a bit for each number.
const SPREAD_MAX: u64 = 64;
const KEYS_LEAST: u64 = 1_024;
/// Most numbers that a set lists: 64 kB travel with a scan.
const LISTED_MAX: usize = 8_192;

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
    /// The numbers in ascending order, if the bits do not tell them and they are not many.
    #[codec(since = 9)]
    listed: Vec<u64>,
}

fn is_filled(set: &KeySet) -> bool {
    let bits = set.bits.len() as u64;
    if set.listed.len() > LISTED_MAX || !set.listed.is_sorted_by(|a, b| a < b) {
        return false;
    }
    let enough = if set.exact {
        set.range.1.checked_sub(set.range.0).is_some_and(|last| last / 64 < bits)
    } else {
        bits.is_power_of_two()
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
        let mut maker = KeySetMaker::new(input, vectors);
        while maker.go_on(usize::MAX) {}
        maker.finish()
    }

    /// The set for so many numbers in this range, before any is entered; none if it would be too
    /// large.
    fn empty(input: u16, count: usize, range: (u64, u64)) -> Option<Self> {
        let (count, last) = (count as u64, range.1 - range.0);
        let exact = last < BITS_MAX && last / SPREAD_MAX <= count.max(KEYS_LEAST);
        let size = if exact {
            last / 64 + 1
        } else {
            let wanted = (count * BITS_PER_KEY).next_power_of_two().max(64);
            let most = if count * BITS_PER_KEY_LEAST <= BITS_MAX { BITS_MAX } else { 0 };
            match wanted.min(most) {
                0 => return None,
                bits => bits / 64,
            }
        };
        Some(Self { input, range, exact, bits: vec![0; size as usize], listed: Vec::new() })
    }

    /// Enters some of the numbers.
    fn enter(&mut self, codes: &[u64]) {
        let bits = self.bits.len() as u64 * 64;
        for code in codes {
            let places = if self.exact { [code - self.range.0; 3] } else { places(*code, bits) };
            places
                .into_iter()
                .for_each(|place| self.bits[(place / 64) as usize] |= 1 << (place % 64));
        }
    }

    /// Adds some of the numbers to those that are listed; false if these have become too many, and
    /// none is listed.
    fn list(&mut self, codes: &[u64]) -> bool {
        self.listed.extend_from_slice(codes);
        // This sort takes what is sorted already as it is.
        self.listed.sort();
        self.listed.dedup();
        let fits = self.listed.len() <= LISTED_MAX;
        if !fits {
            self.listed = Vec::new();
        }
        fits
    }

    /// The same set, about another input.
    pub fn for_input(self, input: u16) -> Self {
        Self { input, ..self }
    }

    /// The numbers of the set as values of this kind, in ascending order; none if they are more
    /// than so many, or if nobody knows them.
    pub fn values(&self, kind: Kind, most: usize) -> Option<Vec<Value>> {
        let value = |code: u64| match kind {
            Kind::Int => Some(Value::Int((code ^ 1 << 63) as i64)),
            Kind::UInt => Some(Value::UInt(code)),
            Kind::Float | Kind::Decimal | Kind::Bytes => None,
        };
        if !self.exact {
            let known = !self.listed.is_empty() && self.listed.len() <= most;
            return known.then(|| self.listed.iter().map(|code| value(*code)).collect()).flatten();
        }
        let count = self.count().filter(|count| *count <= most)?;
        let mut values = Vec::with_capacity(count);
        for (at, word) in (0..).zip(&self.bits) {
            let mut rest = *word;
            while rest != 0 {
                // Bits behind the last number of the range are nobody's.
                let code = self.range.0.checked_add(at * 64 + u64::from(rest.trailing_zeros()))?;
                values.push(value(code)?);
                rest &= rest - 1;
            }
        }
        Some(values)
    }

    /// How many numbers it has; none if it does not tell all of them apart from others.
    pub fn count(&self) -> Option<usize> {
        if self.exact {
            return Some(self.bits.iter().map(|word| word.count_ones() as usize).sum());
        }
        (!self.listed.is_empty()).then_some(self.listed.len())
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
        if self.exact {
            is_set(code - self.range.0)
        } else {
            places(code, self.bits.len() as u64 * 64).into_iter().all(is_set)
        }
    }
}

/// A set in the making: of many numbers that takes long, and others may have a turn.
#[derive(Debug)]
pub struct KeySetMaker<'v> {
    input: u16,
    /// What has not been read, of the first of them from a place on.
    rest: (&'v [&'v Vector], usize),
    /// What has been read.
    codes: Vec<u64>,
    /// The smallest and the largest of it.
    range: Option<(u64, u64)>,
    making: Making,
}

/// How far a set is.
#[derive(Debug)]
enum Making {
    Reading,
    /// So many numbers have been entered; whether they are listed.
    Entering(KeySet, usize, bool),
    /// There is no such set.
    Impossible,
}

impl<'v> KeySetMaker<'v> {
    /// For the whole numbers of some vectors, as [`KeySet::new`] has it.
    pub fn new(input: u16, vectors: &'v [&'v Vector]) -> Self {
        let codes = Vec::with_capacity(vectors.iter().map(|vector| vector.len()).sum());
        Self { input, rest: (vectors, 0), codes, range: None, making: Making::Reading }
    }

    /// Reads or enters at most so many numbers; false if there is nothing more to do.
    pub fn go_on(&mut self, numbers_max: usize) -> bool {
        match &mut self.making {
            Making::Impossible => false,
            Making::Reading => {
                self.read(numbers_max);
                true
            }
            Making::Entering(set, entered, lists) => {
                let end = self.codes.len().min(entered.saturating_add(numbers_max));
                let codes = &self.codes[*entered..end];
                set.enter(codes);
                *lists = *lists && set.list(codes);
                *entered = end;
                end < self.codes.len()
            }
        }
    }

    /// The set, of all numbers.
    pub fn finish(self) -> Option<KeySet> {
        match self.making {
            Making::Entering(set, ..) => Some(set),
            Making::Reading | Making::Impossible => None,
        }
    }

    /// Reads the next numbers, or begins to enter them if there are none.
    fn read(&mut self, numbers_max: usize) {
        let (vectors, from) = self.rest;
        let Some((vector, others)) = vectors.split_first() else {
            let (count, range) = (self.codes.len(), self.range.unwrap_or_default());
            let set = KeySet::empty(self.input, count, range);
            // Of keys that come again and again few are left; to sort very many is not worth
            // finding out.
            let lists = |set: &KeySet| !set.exact && count <= 4 * LISTED_MAX;
            self.making = set.map_or(Making::Impossible, |set| {
                let lists = lists(&set);
                Making::Entering(set, 0, lists)
            });
            return;
        };
        let end = vector.len().min(from.saturating_add(numbers_max));
        let before = self.codes.len();
        let known = (from..end).filter(|at| !vector.is_null(*at));
        match &vector.values {
            Values::Int(list) => self.codes.extend(known.map(|at| code_of_int(list[at]))),
            Values::UInt(list) => self.codes.extend(known.map(|at| list[at])),
            _ => {
                self.making = Making::Impossible;
                return;
            }
        }
        for code in &self.codes[before..] {
            let (least, most) = self.range.unwrap_or((*code, *code));
            self.range = Some((least.min(*code), most.max(*code)));
        }
        self.rest = if end == vector.len() { (others, 0) } else { (vectors, end) };
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
    fn a_set_of_few_numbers_knows_them() {
        for spread in [1, 50, 1_000_003] {
            let numbers: Vec<i64> = (-2_000..2_000).map(|number| number * spread).collect();
            let twice: Vec<i64> = numbers.iter().rev().chain(&numbers).copied().collect();
            let set = set_of(&twice).expect("a small set");
            let expected: Vec<Value> = numbers.iter().map(|number| Value::Int(*number)).collect();
            assert_eq!(set.values(Kind::Int, 4_000), Some(expected), "{spread}");
            assert_eq!(set.values(Kind::Int, 3_999), None);
            assert_eq!(set.values(Kind::Bytes, 4_000), None);
        }
        assert_eq!(set_of(&[]).and_then(|set| set.values(Kind::Int, 1)), Some(vec![]));
        let many: Vec<i64> = (0..10_000).map(|number| number * 977).collect();
        let many = set_of(&many).expect("a set of many");
        assert!(is_filled(&many));
        assert_eq!(many.values(Kind::Int, usize::MAX), None);
    }

    #[test]
    fn a_set_made_in_pieces_is_the_same() {
        let made = |vectors: &[&Vector], step: usize| {
            let mut maker = KeySetMaker::new(3, vectors);
            while maker.go_on(step) {}
            maker.finish()
        };
        for (count, spread) in [(0, 1), (1, 1), (3_000, 1), (3_000, 977_003), (9_000, 977_003)] {
            let numbers = (0..count).map(|number| (number * 7 % count - 100) * spread);
            let mut vector = Vector { values: Values::Int(numbers.collect()), nulls: Vec::new() };
            vector.push_null();
            let nothing = Vector::new(Kind::Int);
            let vectors = [&vector, &nothing, &vector];
            let whole = KeySet::new(3, &vectors);
            assert!(whole.as_ref().is_some_and(is_filled), "{count} {spread}");
            for step in [1_000, 1_024, 2_999] {
                assert_eq!(made(&vectors, step), whole, "{count} {spread} {step}");
            }
        }
        let texts = Vector::new(Kind::Bytes);
        assert_eq!(made(&[&texts], 10), None);
    }

    #[test]
    fn a_list_out_of_order_is_no_set() {
        let set = set_of(&[1, 1_000_000, 5]).expect("a small set");
        let listed = vec![5, 1];
        assert!(is_filled(&set) && !is_filled(&KeySet { listed, ..set }));
    }

    #[test]
    fn sets_of_many_numbers_have_fewer_bits_for_each_and_too_many_have_none() {
        let wide = (0, u64::MAX / 2);
        let bits = |count| KeySet::empty(0, count, wide).map(|set| set.bits.len() as u64 * 64);
        assert_eq!(bits(200_000), Some(1 << 22));
        assert_eq!(bits(1_500_000), Some(BITS_MAX));
        assert_eq!(bits(2_700_000), Some(BITS_MAX));
        assert_eq!(bits(2_800_000), None);
        // Exact ones of as many numbers as there are bits.
        let last = BITS_MAX - 1;
        let exact = KeySet::empty(0, 3_000_000, (0, last)).expect("a bit for each");
        assert!(exact.exact && is_filled(&exact));
        assert!(KeySet::empty(0, 3_000_000, (0, last + 1)).is_none());
        let numbers: Vec<i64> = (0..300_000).map(|number| number * 977).collect();
        let set = set_of(&numbers).expect("a set of many");
        assert!(is_filled(&set) && !set.exact);
        let may_hold = |number| set.may_hold(ValueRef::Int(number));
        assert!(numbers.iter().all(|number| may_hold(*number)));
        let wrong = numbers.iter().filter(|number| may_hold(**number + 5)).count();
        assert!(wrong * 20 < numbers.len(), "{wrong}");
    }
}
