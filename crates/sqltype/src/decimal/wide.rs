//! Whole numbers of 256 bits: as much of big-number arithmetic as decimals of 65 digits need.

use std::cmp::Ordering;

/// A whole number below 2^256, least significant word first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide([u64; 4]);

impl Wide {
    pub(super) const ZERO: Self = Self([0; 4]);
    pub(super) const ONE: Self = Self([1, 0, 0, 0]);

    pub(super) fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The number, if it fits 128 bits.
    pub(super) fn low(self) -> Option<u128> {
        let [a, b, c, d] = self.0;
        (c == 0 && d == 0).then(|| u128::from(b) << 64 | u128::from(a))
    }

    pub(super) fn power_of_ten(exponent: u32) -> Self {
        Self::ONE.times_power_of_ten(exponent)
    }

    /// The sum; the callers' numbers have at most 77 digits, so it fits.
    pub(super) fn plus(self, other: Self) -> Self {
        let (mut sum, mut carry) = ([0; 4], false);
        for (sum, (a, b)) in sum.iter_mut().zip(self.0.iter().zip(&other.0)) {
            let (s, first) = a.overflowing_add(*b);
            let (s, second) = s.overflowing_add(carry.into());
            (*sum, carry) = (s, first | second);
        }
        Self(sum)
    }

    /// The difference of a number and a smaller one.
    pub(super) fn minus(self, other: Self) -> Self {
        let (mut difference, mut borrow) = ([0; 4], false);
        for (difference, (a, b)) in difference.iter_mut().zip(self.0.iter().zip(&other.0)) {
            let (d, first) = a.overflowing_sub(*b);
            let (d, second) = d.overflowing_sub(borrow.into());
            (*difference, borrow) = (d, first | second);
        }
        Self(difference)
    }

    /// The product, as far as 256 bits go.
    pub(super) fn times_small(self, factor: u64) -> Self {
        let (mut product, mut carry) = ([0; 4], 0u128);
        for (product, word) in product.iter_mut().zip(&self.0) {
            let part = u128::from(*word) * u128::from(factor) + carry;
            *product = part as u64;
            carry = part >> 64;
        }
        Self(product)
    }

    /// The product, if it fits 256 bits.
    pub(super) fn times(self, other: Self) -> Option<Self> {
        let mut product = [0u64; 8];
        for (i, a) in self.0.iter().enumerate() {
            let mut carry = 0u128;
            for (j, b) in other.0.iter().enumerate() {
                let part = u128::from(*a) * u128::from(*b) + u128::from(product[i + j]) + carry;
                product[i + j] = part as u64;
                carry = part >> 64;
            }
            product[i + 4] = carry as u64;
        }
        let fits = product[4..].iter().all(|word| *word == 0);
        fits.then(|| Self([product[0], product[1], product[2], product[3]]))
    }

    /// The number with zeros appended; the caller knows that it fits.
    pub(super) fn times_power_of_ten(self, mut exponent: u32) -> Self {
        let mut product = self;
        while exponent > 0 {
            let step = exponent.min(19);
            product = product.times_small(10u64.pow(step));
            exponent -= step;
        }
        product
    }

    /// Appends zeros while the number fits 76 digits; how many could not be appended.
    pub(super) fn times_power_of_ten_while_fits(self, exponent: u32) -> (Self, u32) {
        let room = 76u32.saturating_sub(self.digits());
        let now = exponent.min(room);
        (self.times_power_of_ten(now), exponent - now)
    }

    /// Quotient and remainder by a number below 2^64.
    fn divide_small(self, divisor: u64) -> (Self, u64) {
        let (mut quotient, mut rest) = ([0; 4], 0u128);
        for at in (0..4).rev() {
            let part = rest << 64 | u128::from(self.0[at]);
            quotient[at] = (part / u128::from(divisor)) as u64;
            rest = part % u128::from(divisor);
        }
        (Self(quotient), rest as u64)
    }

    /// Quotient and remainder; the divisor is not zero.
    pub(super) fn divide(self, divisor: Self) -> (Self, Self) {
        if self.cmp(&divisor) == Ordering::Less {
            return (Self::ZERO, self);
        }
        if let (Some(a), Some(b)) = (self.low(), divisor.low()) {
            return (Self::from(a / b), Self::from(a % b));
        }
        if divisor.0[1..] == [0; 3] {
            let (quotient, rest) = self.divide_small(divisor.0[0]);
            return (quotient, Self::from(rest));
        }
        // Bit by bit: only for divisors of more than 19 digits.
        let (mut quotient, mut rest) = (Self::ZERO, Self::ZERO);
        for bit in (0..256).rev() {
            rest = rest.plus(rest);
            rest.0[0] |= self.0[bit / 64] >> (bit % 64) & 1;
            if rest.cmp(&divisor) != Ordering::Less {
                rest = rest.minus(divisor);
                quotient.0[bit / 64] |= 1 << (bit % 64);
            }
        }
        (quotient, rest)
    }

    /// The quotient with `more` zeros appended to the dividend, digit by digit; none if it is too
    /// long to be of use.
    pub(super) fn long_divide(self, divisor: Self, more: u32) -> Option<Self> {
        let (mut quotient, mut rest) = self.divide(divisor);
        for _ in 0..more {
            if quotient.digits() > 75 {
                return Some(Self([u64::MAX; 4]));
            }
            // Ten times the remainder may not fit when the divisor has all of its digits.
            let (digit, left) =
                if rest.digits() > 75 { return None } else { rest.times_small(10).divide(divisor) };
            quotient = quotient.times_small(10).plus(digit);
            rest = left;
        }
        Some(quotient)
    }

    /// Drops the last `digits` digits, rounding half up.
    pub(super) fn divide_rounded(self, digits: u32) -> Self {
        if digits == 0 {
            return self;
        }
        if digits > 77 {
            return Self::ZERO;
        }
        let cut = self.divide_truncated(digits - 1);
        let (quotient, last) = cut.divide_small(10);
        if last >= 5 { quotient.plus(Self::ONE) } else { quotient }
    }

    /// Drops the last `digits` digits.
    pub(super) fn divide_truncated(self, mut digits: u32) -> Self {
        let mut number = self;
        while digits > 0 && !number.is_zero() {
            let step = digits.min(19);
            number = number.divide_small(10u64.pow(step)).0;
            digits -= step;
        }
        number
    }

    /// Decimal digits; none for zero.
    pub(super) fn digits(self) -> u32 {
        if let Some(low) = self.low() {
            return low.checked_ilog10().map_or(0, |log| log + 1);
        }
        // At least 2^128, of 39 digits.
        let (high, _) = self.divide_small(10u64.pow(19));
        19 + high.digits()
    }

    /// Writes the digits to the end of `buffer`; none for zero.
    pub(super) fn write_digits(self, buffer: &mut [u8; 80]) -> &str {
        let (mut number, mut at) = (self, buffer.len());
        while !number.is_zero() {
            let (rest, mut part) = number.divide_small(10u64.pow(19));
            number = rest;
            for _ in 0..19 {
                if part == 0 && number.is_zero() {
                    break;
                }
                at -= 1;
                buffer[at] = b'0' + (part % 10) as u8;
                part /= 10;
            }
        }
        std::str::from_utf8(&buffer[at..]).expect("digits are ASCII")
    }

    /// Big-endian.
    pub(super) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (at, word) in self.0.iter().rev().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// The reverse of [`Wide::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Self {
        let mut words = [0; 4];
        for (at, word) in words.iter_mut().rev().enumerate() {
            let part: [u8; 8] = bytes[8 * at..8 * at + 8].try_into().expect("eight bytes");
            *word = u64::from_be_bytes(part);
        }
        Self(words)
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<u8> for Wide {
    fn from(value: u8) -> Self {
        Self([value.into(), 0, 0, 0])
    }
}

impl From<u64> for Wide {
    fn from(value: u64) -> Self {
        Self([value, 0, 0, 0])
    }
}

impl From<u128> for Wide {
    fn from(value: u128) -> Self {
        Self([value as u64, (value >> 64) as u64, 0, 0])
    }
}
