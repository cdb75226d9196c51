//! Exact decimals: DECIMAL(65,30).
//!
//! # Owns
//! Arithmetic as MySQL rounds it (half away from zero), text, conversions, and the encoding whose
//! bytes compare as the numbers do.
//! # Guarantees
//! A result that fits 65 digits is exact, or rounded to the scale MySQL gives it; one that does
//! not fit is an error, never a wrong number.
//! # Not here
//! Which scale an operator's result has beyond what its operands say (`sql-expression`).

mod wide;

use std::cmp::Ordering;
use std::fmt;

use wide::Wide;

/// An exact decimal number of at most 65 digits, at most 30 of them after the point.
///
/// The value is `magnitude * 10^-scale`, negated when `negative`. Zero is never negative. Numbers
/// that differ in scale only are equal in value, and not equal here: use [`Decimal::compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    magnitude: Wide,
    negative: bool,
    scale: u8,
}

/// The result has more than 65 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecimalOverflow;

impl Decimal {
    /// Most digits.
    pub const PRECISION_MAX: u32 = 65;
    /// Most digits after the point.
    pub const SCALE_MAX: u8 = 30;
    /// Zero.
    pub const ZERO: Self = Self { magnitude: Wide::ZERO, negative: false, scale: 0 };
    /// What a division adds to the scale of its dividend: `@@div_precision_increment`'s default.
    pub const DIVISION_SCALE: u8 = 4;

    fn new(negative: bool, magnitude: Wide, scale: u8) -> Self {
        Self { magnitude, negative: negative && !magnitude.is_zero(), scale }
    }

    /// Rounds to at most 65 digits and 30 after the point; an error if the whole digits are too
    /// many.
    fn fit(negative: bool, magnitude: Wide, scale: u32) -> Result<Self, DecimalOverflow> {
        let mut decimal = (magnitude, scale);
        if scale > Self::SCALE_MAX.into() {
            let dropped = scale - u32::from(Self::SCALE_MAX);
            decimal = (magnitude.divide_rounded(dropped), Self::SCALE_MAX.into());
        }
        let digits = decimal.0.digits();
        if digits > Self::PRECISION_MAX {
            let dropped = digits - Self::PRECISION_MAX;
            if dropped > decimal.1 {
                return Err(DecimalOverflow);
            }
            decimal = (decimal.0.divide_rounded(dropped), decimal.1 - dropped);
        }
        Ok(Self::new(negative, decimal.0, decimal.1 as u8))
    }

    /// The largest number of this precision and scale: 99.99 for (4, 2).
    pub fn largest(precision: u32, scale: u8) -> Self {
        let magnitude = Wide::power_of_ten(precision).minus(Wide::ONE);
        Self::new(false, magnitude, scale)
    }

    /// `value * 10^-scale`; `None` when a number of at most 65 digits is not enough.
    pub fn from_unscaled(value: i128, scale: u8) -> Option<Self> {
        let valid = scale <= Self::SCALE_MAX;
        valid.then(|| Self::new(value < 0, Wide::from(value.unsigned_abs()), scale))
    }

    /// The number without its point: `value * 10^scale`; `None` when 127 bits are not enough.
    pub fn to_unscaled(self) -> Option<i128> {
        let magnitude = i128::try_from(self.magnitude.low()?).ok()?;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// Digits after the point.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Digits in all, at least one before or after the point.
    pub fn precision(&self) -> u32 {
        self.magnitude.digits().max(self.scale.into()).max(1)
    }

    /// Digits before the point; zero for numbers between -1 and 1.
    pub fn whole_digits(&self) -> u32 {
        self.magnitude.digits().saturating_sub(self.scale.into())
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.magnitude.is_zero()
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Its value without sign.
    pub fn abs(self) -> Self {
        Self { negative: false, ..self }
    }

    /// Its value with the other sign.
    pub fn negate(self) -> Self {
        Self::new(!self.negative, self.magnitude, self.scale)
    }

    /// Reads the longest number at the beginning of `text`, after white space: sign, digits,
    /// point, digits, exponent. Gives it with the bytes read; `None` when there is no digit.
    /// Digits after the 30th behind the point are rounded.
    pub fn parse_prefix(text: &[u8]) -> Option<(Result<Self, DecimalOverflow>, usize)> {
        let mut at = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let negative = text.get(at) == Some(&b'-');
        at += usize::from(matches!(text.get(at), Some(b'-' | b'+')));
        let (mut magnitude, mut scale, mut seen, mut point) = (Wide::ZERO, 0i64, false, false);
        let (mut dropped, mut round, mut is_full) = (0i64, None, false);
        // MySQL reads nine words of nine digits, and whole digits come first: what comes behind is
        // cut off, whatever the exponent says.
        let (mut whole, mut fraction) = (0usize, 0usize);
        while let Some(byte) = text.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    whole += usize::from(!point);
                    fraction += usize::from(point);
                    if point && fraction > 9 * 9usize.saturating_sub(whole.div_ceil(9)) {
                        at += 1;
                        continue;
                    }
                    // Beyond 72 digits only the size matters, and the first digit for rounding.
                    is_full = is_full || magnitude.digits() >= 72;
                    if !is_full {
                        magnitude = magnitude.times_small(10).plus(Wide::from(*byte - b'0'));
                        scale += i64::from(point);
                    } else {
                        round.get_or_insert(*byte >= b'5');
                        dropped += i64::from(!point);
                    }
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if !seen {
            return None;
        }
        if round == Some(true) {
            magnitude = magnitude.plus(Wide::ONE);
        }
        let (exponent, length) = exponent_of(&text[at..]);
        let scale = scale - dropped - exponent;
        Some((Self::scaled(negative, magnitude, scale), at + length))
    }

    fn scaled(negative: bool, magnitude: Wide, scale: i64) -> Result<Self, DecimalOverflow> {
        if magnitude.is_zero() {
            return Ok(Self::new(false, magnitude, scale.clamp(0, Self::SCALE_MAX.into()) as u8));
        }
        if scale >= 0 {
            // Ten more digits than can be kept, or all of them zero.
            return Self::fit(negative, magnitude, scale.min(1000) as u32);
        }
        let zeros = scale.unsigned_abs();
        if zeros + u64::from(magnitude.digits()) > Self::PRECISION_MAX.into() {
            return Err(DecimalOverflow);
        }
        Self::fit(negative, magnitude.times_power_of_ten(zeros as u32), 0)
    }

    /// The number that `text` is, all of it but for white space around.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (number, length) = Self::parse_prefix(text)?;
        let rest = &text[length..];
        number.ok().filter(|_| rest.iter().all(u8::is_ascii_whitespace))
    }

    /// The nearest decimal of a floating-point number: its shortest text.
    pub fn from_f64(value: f64) -> Result<Self, DecimalOverflow> {
        if !value.is_finite() {
            return Err(DecimalOverflow);
        }
        let text = format!("{value:e}");
        Self::parse_prefix(text.as_bytes()).map_or(Err(DecimalOverflow), |(number, _)| number)
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        // The text is exact; parsing it rounds once.
        self.to_string().parse().unwrap_or(0.0)
    }

    /// Rounds to a whole number; `None` when it does not fit.
    pub fn to_i128(self) -> Option<i128> {
        let whole = self.round(0);
        let magnitude = i128::try_from(whole.magnitude.low()?).ok()?;
        Some(if whole.negative { -magnitude } else { magnitude })
    }

    /// Compares by value.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.negative != other.negative {
            return if self.negative { Ordering::Less } else { Ordering::Greater };
        }
        let order = match self.scale.cmp(&other.scale) {
            Ordering::Equal => self.magnitude.cmp(&other.magnitude),
            Ordering::Less => compare_scaled(self, other),
            Ordering::Greater => compare_scaled(other, self).reverse(),
        };
        if self.negative { order.reverse() } else { order }
    }

    /// Rounds half away from zero to `scale` digits after the point; `scale` may be larger than
    /// the number's own, which adds zeros as far as 65 digits allow.
    pub fn round(self, scale: u8) -> Self {
        self.rescale(scale, Wide::divide_rounded)
    }

    /// Cuts to `scale` digits after the point.
    pub fn truncate(self, scale: u8) -> Self {
        self.rescale(scale, Wide::divide_truncated)
    }

    fn rescale(self, scale: u8, divide: fn(Wide, u32) -> Wide) -> Self {
        if scale <= self.scale {
            let magnitude = divide(self.magnitude, u32::from(self.scale - scale));
            return Self::new(self.negative, magnitude, scale);
        }
        let room = Self::PRECISION_MAX.saturating_sub(self.magnitude.digits());
        let more = u32::from(scale - self.scale).min(room);
        let magnitude = self.magnitude.times_power_of_ten(more);
        Self::new(self.negative, magnitude, self.scale + more as u8)
    }

    /// Rounds half away from zero at `places` digits before the point.
    pub fn round_before_point(self, places: u32) -> Self {
        self.before_point(places, Wide::divide_rounded)
    }

    /// Cuts at `places` digits before the point.
    pub fn truncate_before_point(self, places: u32) -> Self {
        self.before_point(places, Wide::divide_truncated)
    }

    fn before_point(self, places: u32, divide: fn(Wide, u32) -> Wide) -> Self {
        let places = places.min(Self::PRECISION_MAX + 1);
        let dropped = places + u32::from(self.scale);
        if dropped > Self::PRECISION_MAX + 1 {
            return Self::ZERO;
        }
        let magnitude = divide(self.magnitude, dropped);
        if magnitude.is_zero() {
            return Self::ZERO;
        }
        Self::new(self.negative, magnitude.times_power_of_ten(places), 0)
    }

    /// The largest whole number that is not above this one.
    pub fn floor(self) -> Self {
        let whole = self.truncate(0);
        let below = self.negative && self.compare(&whole) == Ordering::Less;
        if below { Self::new(true, whole.magnitude.plus(Wide::ONE), 0) } else { whole }
    }

    /// The smallest whole number that is not below this one.
    pub fn ceiling(self) -> Self {
        self.negate().floor().negate()
    }

    /// The sum; its scale is the larger one.
    #[expect(clippy::should_implement_trait, reason = "the sum may be no decimal; a trait's is")]
    pub fn add(self, other: Self) -> Result<Self, DecimalOverflow> {
        let (a, b, scale) = align(self, other);
        if self.negative == other.negative {
            return Self::fit(self.negative, a.plus(b), scale.into());
        }
        match a.cmp(&b) {
            Ordering::Less => Self::fit(other.negative, b.minus(a), scale.into()),
            _ => Self::fit(self.negative, a.minus(b), scale.into()),
        }
    }

    /// The difference; its scale is the larger one.
    pub fn subtract(self, other: Self) -> Result<Self, DecimalOverflow> {
        self.add(other.negate())
    }

    /// The product; its scale is the sum of both, at most 30.
    pub fn multiply(self, other: Self) -> Result<Self, DecimalOverflow> {
        let negative = self.negative != other.negative;
        let (mut a, mut b) = (self, other);
        loop {
            if let Some(product) = a.magnitude.times(b.magnitude) {
                return Self::fit(negative, product, u32::from(a.scale) + u32::from(b.scale));
            }
            // Digits that the result cannot keep go from the operand with the longer fraction.
            match (a.scale, b.scale) {
                (0, 0) => return Err(DecimalOverflow),
                (x, y) if x >= y => a = a.round(x - 1),
                (_, y) => b = b.round(y - 1),
            }
        }
    }

    /// The quotient with `increment` digits after the point more than the dividend has, at least,
    /// cut off there; `None` for division by zero. As MySQL, which computes in words of nine digits
    /// and cuts the last one off, it has as many as fill its last word.
    pub fn divide(self, other: Self, increment: u8) -> Option<Result<Self, DecimalOverflow>> {
        if other.is_zero() {
            return None;
        }
        let words = |digits: u32| digits.div_ceil(9) * 9;
        let (a, b) = (u32::from(self.scale), u32::from(other.scale));
        let slack = (words(a) - a) + (words(b) - b);
        let scale = words(words(a) + words(b) + u32::from(increment).saturating_sub(slack));
        let scale = scale.max(a + u32::from(increment)).min(Self::SCALE_MAX.into());
        let negative = self.negative != other.negative;
        // self / other = (m1 * 10^s2) / (m2 * 10^s1)
        let (numerator, missing) = self.magnitude.times_power_of_ten_while_fits(scale + b - a);
        let divisor = other.magnitude;
        let quotient = if missing == 0 {
            numerator.divide(divisor).0
        } else {
            numerator.long_divide(divisor, missing)?
        };
        Some(Self::fit(negative, quotient, scale))
    }

    /// The remainder with the sign of the dividend; `None` for division by zero.
    pub fn remainder(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        let (a, b, scale) = align(self, other);
        if b.is_zero() {
            // The divisor vanishes beside so many digits.
            return Some(Self::new(false, b, scale));
        }
        Some(Self::new(self.negative, a.divide(b).1, scale))
    }

    /// Bytes of the order-preserving encoding of a DECIMAL(precision, …).
    pub fn encoded_size(precision: u32) -> u16 {
        // 28 digits fit 12 bytes less a sign bit, and so on: log256(10) bytes a digit, and the
        // bit.
        ((f64::from(precision) * 0.415_241_011_860_92 + 0.125).ceil() as u16).max(1)
    }

    /// Encodes as a DECIMAL(precision, scale): big-endian two's complement with the sign flipped,
    /// so that bytes compare as numbers. `None` when it has too many whole digits; digits behind
    /// the scale are rounded.
    pub fn encode(self, precision: u32, scale: u8) -> Option<Box<[u8]>> {
        let rounded = self.round(scale);
        let exact = if rounded.scale == scale { rounded } else { return None };
        if exact.magnitude.digits() > precision {
            return None;
        }
        let mut bytes = exact.magnitude.to_bytes();
        if exact.negative {
            // Two's complement: invert and add one.
            let mut carry = true;
            for byte in bytes.iter_mut().rev() {
                let (sum, overflow) = (!*byte).overflowing_add(u8::from(carry));
                (*byte, carry) = (sum, overflow);
            }
        }
        let size = usize::from(Self::encoded_size(precision));
        let mut encoded: Box<[u8]> = bytes[32 - size..].into();
        encoded[0] ^= 0x80;
        Some(encoded)
    }

    /// Reads what [`Decimal::encode`] has written for the same scale; other bytes give some
    /// number.
    pub fn decode(encoded: &[u8], scale: u8) -> Self {
        let size = encoded.len().min(32);
        let negative = encoded.first().is_some_and(|byte| byte & 0x80 == 0);
        let mut bytes = [if negative { 0xFF } else { 0 }; 32];
        bytes[32 - size..].copy_from_slice(&encoded[..size]);
        if size > 0 {
            bytes[32 - size] ^= 0x80;
        }
        if negative {
            let mut carry = true;
            for byte in bytes.iter_mut().rev() {
                let (sum, overflow) = (!*byte).overflowing_add(u8::from(carry));
                (*byte, carry) = (sum, overflow);
            }
        }
        Self::new(negative, Wide::from_bytes(&bytes), scale.min(Self::SCALE_MAX))
    }
}

/// The exponent at the beginning of `text`, and its length; zero for none.
fn exponent_of(text: &[u8]) -> (i64, usize) {
    if !matches!(text.first(), Some(b'e' | b'E')) {
        return (0, 0);
    }
    let sign = usize::from(matches!(text.get(1), Some(b'-' | b'+')));
    let digits: Vec<u8> = text[1 + sign..].iter().copied().take_while(u8::is_ascii_digit).collect();
    if digits.is_empty() {
        return (0, 0);
    }
    let value = digits.iter().fold(0i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(1_000_000)
    });
    let value = if text[1] == b'-' { -value } else { value };
    (value, 1 + sign + digits.len())
}

/// Both magnitudes at the larger scale.
fn align(a: Decimal, b: Decimal) -> (Wide, Wide, u8) {
    let scale = a.scale.max(b.scale);
    let at = |d: Decimal| d.magnitude.times_power_of_ten(u32::from(scale - d.scale));
    let fits = |d: Decimal| d.magnitude.digits() + u32::from(scale - d.scale) <= 77;
    if fits(a) && fits(b) {
        return (at(a), at(b), scale);
    }
    // 65 whole digits beside 30 others: the fraction cannot be kept in 65 digits anyway.
    let scale = a.scale.min(b.scale);
    (a.round(scale).magnitude, b.round(scale).magnitude, scale)
}

/// Compares magnitudes when `a` has fewer digits after the point.
fn compare_scaled(a: &Decimal, b: &Decimal) -> Ordering {
    let more = u32::from(b.scale - a.scale);
    if a.magnitude.is_zero() || a.magnitude.digits() + more <= 77 {
        return a.magnitude.times_power_of_ten(more).cmp(&b.magnitude);
    }
    Ordering::Greater
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self::new(value < 0, Wide::from(value.unsigned_abs()), 0)
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Self {
        Self::new(false, Wide::from(value), 0)
    }
}

impl From<i128> for Decimal {
    fn from(value: i128) -> Self {
        Self::new(value < 0, Wide::from(value.unsigned_abs()), 0)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0u8; 80];
        let digits = self.magnitude.write_digits(&mut buffer);
        let scale = usize::from(self.scale);
        if self.negative {
            f.write_str("-")?;
        }
        if digits.len() > scale {
            f.write_str(&digits[..digits.len() - scale])?;
        } else {
            f.write_str("0")?;
        }
        if scale > 0 {
            f.write_str(".")?;
            for _ in digits.len()..scale {
                f.write_str("0")?;
            }
            f.write_str(&digits[digits.len().saturating_sub(scale)..])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
