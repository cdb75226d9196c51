//! What each aggregate remembers of the rows of its group.

use std::cmp::Ordering;
use std::ops::{BitAnd, BitOr, BitXor};

use sql_parser::ast::AggregateFunction;
use sqltype::json::Json;
use sqltype::{Datum, Decimal, TypeKind};

use super::AggregateCall;
use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::function::{checked_json, to_json};
use crate::key::compare_values;
use crate::pauses::STEP_BYTES;

/// The state of an aggregate.
#[derive(Clone, Debug)]
pub(super) enum State {
    Count(u64),
    Sum(Sum),
    /// Bits so far.
    Bits(u64),
    /// The same of binary strings, which are all as long as the first.
    BitString(Option<Box<[u8]>>),
    /// The smallest or largest value so far.
    Extreme(Option<Datum>),
    Spread(Spread),
    Concat(Pieces),
    Array(Option<Vec<Json>>),
    Object(Option<Vec<(String, Json)>>),
}

/// A sum with the number of values in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) total: Total,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Total {
    /// As long as there are integers only.
    Integer(i128),
    Decimal(Decimal),
    Double(f64),
}

/// Mean and sum of squared distances from it, by Welford's recurrence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) squares: f64,
}

/// The rows of GROUP_CONCAT.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    pub(super) list: Vec<Piece>,
    /// Bytes of all texts.
    pub(super) size: u64,
}

/// A row of GROUP_CONCAT: its text, and the values it is sorted by.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) text: Vec<u8>,
    pub(super) keys: Vec<Datum>,
}

/// About how many bytes a value takes that is kept.
pub(super) fn size_of_value(value: &Datum) -> u64 {
    let outside = match value {
        Datum::Bytes(bytes) | Datum::Json(bytes) => bytes.len(),
        _ => 0,
    };
    (size_of::<Datum>() + outside) as u64
}

impl State {
    pub(super) fn new(call: &AggregateCall) -> Self {
        use AggregateFunction as A;
        match call.function {
            A::Count => Self::Count(0),
            A::Sum | A::Avg => {
                let total = match call.result.sql_type.kind {
                    TypeKind::Double => Total::Double(0.0),
                    _ => Total::Integer(0),
                };
                Self::Sum(Sum { total, count: 0 })
            }
            A::BitAnd | A::BitOr | A::BitXor if call.result.is_text() => Self::BitString(None),
            A::BitAnd => Self::Bits(u64::MAX),
            A::BitOr | A::BitXor => Self::Bits(0),
            A::Min | A::Max => Self::Extreme(None),
            A::StddevPop | A::StddevSamp | A::VarPop | A::VarSamp => {
                Self::Spread(Spread::default())
            }
            A::GroupConcat | A::StCollect => Self::Concat(Pieces::default()),
            A::JsonArrayAgg => Self::Array(None),
            A::JsonObjectAgg => Self::Object(None),
        }
    }

    /// See [`Accumulator::of_part`](super::Accumulator::of_part).
    pub(super) fn of_part(call: &AggregateCall, count: u64, value: Datum) -> Option<Self> {
        Some(match (Self::new(call), value) {
            (Self::Count(_), _) => Self::Count(count),
            (Self::Sum(sum), Datum::Null) => Self::Sum(sum),
            (Self::Sum(_), Datum::Decimal(total)) => {
                Self::Sum(Sum { total: Total::Decimal(total), count })
            }
            (Self::Sum(_), Datum::Double(total)) => {
                Self::Sum(Sum { total: Total::Double(total), count })
            }
            (Self::Extreme(_), value) => Self::Extreme(Some(value).filter(|v| !v.is_null())),
            _ => return None,
        })
    }

    /// Takes a row of `COUNT(*)`.
    pub(super) fn count(&mut self) {
        if let Self::Count(count) = self {
            *count += 1;
        }
    }

    /// Takes the only argument's value.
    pub(super) fn take(
        &mut self,
        call: &AggregateCall,
        value: &Datum,
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        let sql_type = call.value_type();
        match self {
            Self::Count(count) => *count += 1,
            Self::Sum(sum) => sum.take(call, value, context)?,
            Self::Bits(bits) => {
                let number = convert::to_integer(value, sql_type, context)?;
                *bits = bitwise(call.function, *bits, number as u64);
            }
            Self::BitString(bits) => {
                if bits.is_none() {
                    context.kept_bytes += size_of_value(value);
                }
                add_bit_string(bits, &convert::to_text(value, sql_type), call.function)?;
            }
            Self::Extreme(extreme) => {
                let better = match extreme {
                    Some(best) => {
                        let order = compare_values(value, best, &call.result.sql_type);
                        let wanted = match call.function {
                            AggregateFunction::Min => Ordering::Less,
                            _ => Ordering::Greater,
                        };
                        order == wanted
                    }
                    None => true,
                };
                if better {
                    let before = extreme.as_ref().map_or(0, size_of_value);
                    context.kept_bytes += size_of_value(value).saturating_sub(before);
                    *extreme = Some(value.clone());
                }
            }
            Self::Spread(spread) => {
                spread.take(convert::to_double(value, sql_type, context)?);
            }
            Self::Concat(_) | Self::Array(_) | Self::Object(_) => {
                return self.take_all(call, vec![value.clone()], context);
            }
        }
        Ok(())
    }

    /// Takes the values of all arguments, and behind them those of the sort keys.
    pub(super) fn take_all(
        &mut self,
        call: &AggregateCall,
        mut values: Vec<Datum>,
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        match self {
            Self::Concat(pieces) => {
                let keys = values.split_off(call.values.len().min(values.len()));
                let mut text = Vec::new();
                for (value, expression) in values.iter().zip(&call.values) {
                    text.extend_from_slice(&convert::to_text(value, expression.sql_type()));
                }
                // Without an order, what comes behind the cut is not looked at.
                let is_full = pieces.size > context.facts.group_concat_max_len;
                if !(is_full && call.order_by.is_empty()) {
                    pieces.size += text.len() as u64;
                    let of_keys: u64 = keys.iter().map(size_of_value).sum();
                    context.kept_bytes += (size_of::<Piece>() + text.len()) as u64 + of_keys;
                    pieces.list.push(Piece { text, keys });
                }
                Ok(())
            }
            Self::Array(items) => {
                let item = to_json(&values[0], &call.values[0].result)?;
                context.kept_bytes += size_of::<Json>() as u64 + size_of_value(&values[0]);
                items.get_or_insert_default().push(item);
                Ok(())
            }
            Self::Object(members) => {
                if values[0].is_null() {
                    return Err(SqlError::of::<3158>(&[]));
                }
                let name = convert::to_text(&values[0], call.values[0].sql_type());
                let name = String::from_utf8_lossy(&name).into_owned();
                let value = to_json(&values[1], &call.values[1].result)?;
                let of_value = size_of_value(&values[1]) + name.len() as u64;
                context.kept_bytes += size_of::<(String, Json)>() as u64 + of_value;
                members.get_or_insert_default().push((name, value));
                Ok(())
            }
            Self::Count(count) => {
                *count += 1;
                Ok(())
            }
            _ => self.take(call, &values[0], context),
        }
    }

    pub(super) fn merge(
        &mut self,
        other: Self,
        call: &AggregateCall,
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) => *a += b,
            (Self::Sum(a), Self::Sum(b)) => a.merge(b, call)?,
            (Self::Bits(a), Self::Bits(b)) => *a = bitwise(call.function, *a, b),
            (Self::BitString(a), Self::BitString(Some(b))) => {
                add_bit_string(a, &b, call.function)?;
            }
            (this @ Self::Extreme(_), Self::Extreme(Some(value))) => {
                this.take(call, &value, context)?;
            }
            (Self::Spread(a), Self::Spread(b)) => a.merge(b),
            (Self::Concat(a), Self::Concat(b)) => {
                a.size += b.size;
                a.list.extend(b.list);
            }
            (Self::Array(a), Self::Array(Some(b))) => a.get_or_insert_default().extend(b),
            (Self::Object(a), Self::Object(Some(b))) => a.get_or_insert_default().extend(b),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn finish(
        self,
        call: &AggregateCall,
        context: &mut EvalContext,
    ) -> Result<Datum, SqlError> {
        Ok(match self {
            Self::Count(count) => Datum::Int(count as i64),
            Self::Sum(sum) => sum.finish(call)?,
            Self::Bits(bits) => Datum::UInt(bits),
            Self::BitString(Some(bits)) => Datum::Bytes(bits),
            Self::BitString(None) => {
                let neutral = if call.function == AggregateFunction::BitAnd { 0xFF } else { 0 };
                Datum::Bytes(vec![neutral; call.result.sql_type.length as usize].into())
            }
            Self::Extreme(value) => value.unwrap_or(Datum::Null),
            Self::Spread(spread) => {
                let result = spread.finish(call.function);
                result.map_or(Datum::Null, Datum::Double)
            }
            Self::Concat(pieces) => concat(pieces.list, call, context)?,
            Self::Array(None) | Self::Object(None) => Datum::Null,
            Self::Array(Some(items)) => checked_json(&Json::Array(items), context)?,
            Self::Object(Some(members)) => checked_json(&Json::object(members), context)?,
        })
    }
}

/// What BIT_AND, BIT_OR and BIT_XOR do with two values.
fn bitwise<T>(function: AggregateFunction, a: T, b: T) -> T
where
    T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>,
{
    match function {
        AggregateFunction::BitAnd => a & b,
        AggregateFunction::BitOr => a | b,
        _ => a ^ b,
    }
}

fn add_bit_string(
    bits: &mut Option<Box<[u8]>>,
    more: &[u8],
    function: AggregateFunction,
) -> Result<(), SqlError> {
    let Some(bits) = bits else {
        *bits = Some(more.into());
        return Ok(());
    };
    if bits.len() != more.len() {
        return Err(SqlError::of::<3513>(&[]));
    }
    for (place, byte) in bits.iter_mut().zip(more) {
        *place = bitwise(function, *place, *byte);
    }
    Ok(())
}

impl Sum {
    fn take(
        &mut self,
        call: &AggregateCall,
        value: &Datum,
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        self.count += 1;
        self.total = match (self.total, value) {
            (Total::Integer(total), Datum::Int(number)) => {
                Total::Integer(total + i128::from(*number))
            }
            (Total::Integer(total), Datum::UInt(number)) => {
                Total::Integer(total + i128::from(*number))
            }
            (Total::Double(total), _) => {
                let number = convert::to_double(value, call.value_type(), context)?;
                Total::Double(total + number)
            }
            (total, _) => {
                let number = convert::to_decimal(value, call.value_type(), context)?;
                Total::Decimal(total.decimal().add(number).map_err(|_| overflow(call))?)
            }
        };
        Ok(())
    }

    fn merge(&mut self, other: Self, call: &AggregateCall) -> Result<(), SqlError> {
        self.count += other.count;
        self.total = match (self.total, other.total) {
            (Total::Integer(a), Total::Integer(b)) => Total::Integer(a + b),
            (Total::Double(a), Total::Double(b)) => Total::Double(a + b),
            (a, b) => Total::Decimal(a.decimal().add(b.decimal()).map_err(|_| overflow(call))?),
        };
        Ok(())
    }

    fn finish(self, call: &AggregateCall) -> Result<Datum, SqlError> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let is_average = call.function == AggregateFunction::Avg;
        if let Total::Double(total) = self.total {
            let value = if is_average { total / self.count as f64 } else { total };
            return if value.is_finite() {
                Ok(Datum::Double(value))
            } else {
                Err(SqlError::out_of_range("DOUBLE", call.function.name()))
            };
        }
        let scale = call.result.sql_type.decimals;
        let total = self.total.decimal();
        let value = if is_average {
            let count = Decimal::from(self.count);
            let more = scale.saturating_sub(total.scale());
            let quotient = total.divide(count, more).and_then(Result::ok);
            quotient.ok_or_else(|| overflow(call))?
        } else {
            total
        };
        Ok(Datum::Decimal(value.round(scale)))
    }
}

impl Total {
    fn decimal(self) -> Decimal {
        match self {
            Self::Integer(total) => Decimal::from(total),
            Self::Decimal(total) => total,
            Self::Double(total) => convert::double_to_decimal(total),
        }
    }
}

fn overflow(call: &AggregateCall) -> SqlError {
    SqlError::out_of_range("DECIMAL", call.function.name())
}

impl Spread {
    fn take(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.squares += other.squares + distance * distance * a * b / (a + b);
        self.mean += distance * b / (a + b);
        self.count += other.count;
    }

    fn finish(self, function: AggregateFunction) -> Option<f64> {
        let is_sample =
            matches!(function, AggregateFunction::StddevSamp | AggregateFunction::VarSamp);
        let divisor = self.count.checked_sub(u64::from(is_sample)).filter(|count| *count > 0)?;
        let variance = self.squares / divisor as f64;
        let is_deviation =
            matches!(function, AggregateFunction::StddevPop | AggregateFunction::StddevSamp);
        Some(if is_deviation { variance.sqrt() } else { variance })
    }
}

/// Items that are sorted at one go, before they are merged with others.
const RUN: usize = 256;
/// Small parts of expressions that take as long as to compare two items, about.
const SORT_STEPS: u64 = 4;

/// Sorts, equal ones as they came; `step` is called for each comparison of a merge, and ends it.
fn sorted_in_steps<T>(
    items: Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
    step: &mut impl FnMut() -> Result<(), SqlError>,
) -> Result<Vec<T>, SqlError> {
    let mut runs = Vec::with_capacity(items.len().div_ceil(RUN));
    let mut items = items.into_iter();
    loop {
        let mut run: Vec<T> = items.by_ref().take(RUN).collect();
        if run.is_empty() {
            break;
        }
        run.sort_by(compare);
        for _ in &run {
            step()?;
        }
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut wider = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(first) = rest.next() {
            let Some(second) = rest.next() else {
                wider.push(first);
                break;
            };
            let mut merged = Vec::with_capacity(first.len() + second.len());
            let (mut first, mut second) =
                (first.into_iter().peekable(), second.into_iter().peekable());
            while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
                step()?;
                merged.extend(if compare(a, b).is_le() { first.next() } else { second.next() });
            }
            merged.extend(first);
            merged.extend(second);
            wider.push(merged);
        }
        runs = wider;
    }
    Ok(runs.pop().unwrap_or_default())
}

/// Puts the pieces together in order, as far as `group_concat_max_len` goes.
fn concat(
    pieces: Vec<Piece>,
    call: &AggregateCall,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    if pieces.is_empty() {
        return Ok(Datum::Null);
    }
    let compare = |a: &Piece, b: &Piece| {
        let keys = a.keys.iter().zip(&b.keys).zip(&call.order_by);
        for ((a, b), key) in keys {
            let order = compare_values(a, b, key.expression.sql_type());
            let order = if key.descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    };
    let pieces = if call.order_by.is_empty() {
        pieces
    } else {
        sorted_in_steps(pieces, &compare, &mut || context.step(SORT_STEPS))?
    };
    let limit = usize::try_from(context.facts.group_concat_max_len).unwrap_or(usize::MAX);
    let mut text = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            text.extend_from_slice(&call.separator);
        }
        text.extend_from_slice(&piece.text);
        context.step(piece.text.len() as u64 / STEP_BYTES + 1)?;
        if text.len() > limit {
            let is_text = call.result.sql_type.collation != collation::CollationId::BINARY;
            let mut end = limit;
            // Not within a character.
            while is_text && end > 0 && text[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            text.truncate(end);
            context.warn(SqlError::of::<1260>(&[&(at + 1), &"GROUP_CONCAT()"]))?;
            break;
        }
    }
    Ok(Datum::Bytes(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_in_steps_keeps_equal_ones_in_order_and_may_be_ended() {
        for count in [0, 1, RUN, RUN + 1, 10 * RUN + 7] {
            let items: Vec<(u64, usize)> =
                (0..count).map(|at| (at as u64 * 7_919 % 53, at)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let by_first = |a: &(u64, usize), b: &(u64, usize)| a.0.cmp(&b.0);
            let mut steps = 0;
            let sorted = sorted_in_steps(items.clone(), &by_first, &mut || {
                steps += 1;
                Ok(())
            });
            assert_eq!(sorted, Ok(expected));
            assert!(steps >= count, "{steps} steps for {count} items");
            let ended = || Err(SqlError::new(1317, "70100", "Query execution was interrupted"));
            let sorted = sorted_in_steps(items, &by_first, &mut || ended());
            assert_eq!(sorted.is_err(), count > 0);
        }
    }
}
