//! States of aggregates as values, so that somebody can keep them outside memory.
//!
//! # Guarantees
//! A state that is read goes on as the one that was written would have: all digits of sums, the
//! order of pieces, which values have been seen.
//! # Not here
//! Where the values are kept (`sql`). They are read by the process that wrote them.

use std::collections::BTreeMap;
use std::vec::IntoIter;

use sqltype::Datum;
use sqltype::json::Json;

use super::state::{Piece, Pieces, Spread, State, Sum, Total, size_of_value};
use super::{Accumulator, AggregateCall, SEEN_BYTES};

/// The values of a state in their order.
type Values<'v> = &'v mut IntoIter<Datum>;

impl Accumulator {
    /// The state as values, which are added to a list.
    pub fn write(self, values: &mut Vec<Datum>) {
        match self.seen {
            Some(seen) => {
                values.push(Datum::UInt(seen.len() as u64));
                for (key, of_row) in seen {
                    values.push(Datum::Bytes(key.into()));
                    values.push(Datum::UInt(of_row.len() as u64));
                    values.extend(of_row);
                }
            }
            // With DISTINCT the state begins when all values are there.
            None => self.state.write(values),
        }
    }

    /// The state of a call that was written, and about how many bytes it keeps; none if the values
    /// are of something else.
    pub fn read(call: &AggregateCall, values: &mut IntoIter<Datum>) -> Option<(Self, u64)> {
        let before = values.as_slice().iter().map(size_of_value).sum::<u64>();
        let mut seen = None;
        let mut more = 0;
        let state = if call.distinct {
            let mut all = BTreeMap::new();
            for _ in 0..count(values)? {
                let Datum::Bytes(key) = values.next()? else { return None };
                let of_row = count(values)?;
                all.insert(key.into(), values.take(of_row).collect());
                more += SEEN_BYTES as u64;
            }
            seen = Some(all);
            State::new(call)
        } else {
            State::read(State::new(call), values)?
        };
        let after = values.as_slice().iter().map(size_of_value).sum::<u64>();
        Some((Self { state, seen }, before - after + more))
    }
}

fn count(values: Values<'_>) -> Option<usize> {
    match values.next()? {
        Datum::UInt(number) => usize::try_from(number).ok(),
        _ => None,
    }
}

fn double(values: Values<'_>) -> Option<f64> {
    match values.next()? {
        Datum::Double(number) => Some(number),
        _ => None,
    }
}

/// A part of an array or an object. Its text would lose which numbers are exact.
fn of_json(part: &Json) -> Datum {
    match part {
        Json::Decimal(number) => Datum::Decimal(*number),
        part => Datum::Json(part.encode()),
    }
}

fn json(values: Values<'_>) -> Option<Json> {
    match values.next()? {
        Datum::Decimal(number) => Some(Json::Decimal(number)),
        Datum::Json(stored) => Json::decode(&stored),
        _ => None,
    }
}

impl State {
    fn write(self, values: &mut Vec<Datum>) {
        match self {
            Self::Count(number) | Self::Bits(number) => values.push(Datum::UInt(number)),
            Self::Sum(Sum { total, count }) => {
                values.push(match total {
                    // Longer than any number of SQL.
                    Total::Integer(total) => Datum::Bytes(total.to_le_bytes().into()),
                    Total::Decimal(total) => Datum::Decimal(total),
                    Total::Double(total) => Datum::Double(total),
                });
                values.push(Datum::UInt(count));
            }
            Self::BitString(bits) => values.push(bits.map_or(Datum::Null, Datum::Bytes)),
            Self::Extreme(value) => values.push(value.unwrap_or(Datum::Null)),
            Self::Spread(Spread { count, mean, squares }) => {
                values.extend([Datum::UInt(count), Datum::Double(mean), Datum::Double(squares)]);
            }
            Self::Concat(Pieces { list, size }) => {
                values.extend([Datum::UInt(size), Datum::UInt(list.len() as u64)]);
                for Piece { text, keys } in list {
                    values.push(Datum::Bytes(text.into()));
                    values.push(Datum::UInt(keys.len() as u64));
                    values.extend(keys);
                }
            }
            Self::Array(items) => {
                let items = items.unwrap_or_default();
                values.push(Datum::UInt(items.len() as u64));
                values.extend(items.iter().map(of_json));
            }
            Self::Object(members) => {
                let members = members.unwrap_or_default();
                values.push(Datum::UInt(members.len() as u64));
                for (name, value) in members {
                    values.push(Datum::Bytes(name.into_bytes().into()));
                    values.push(of_json(&value));
                }
            }
        }
    }

    /// The state that was written, of the kind of `new`.
    fn read(new: Self, values: Values<'_>) -> Option<Self> {
        Some(match new {
            Self::Count(_) => Self::Count(count(values)? as u64),
            Self::Bits(_) => Self::Bits(count(values)? as u64),
            Self::Sum(_) => {
                let total = match values.next()? {
                    Datum::Bytes(total) => {
                        Total::Integer(i128::from_le_bytes(total[..].try_into().ok()?))
                    }
                    Datum::Decimal(total) => Total::Decimal(total),
                    Datum::Double(total) => Total::Double(total),
                    _ => return None,
                };
                Self::Sum(Sum { total, count: count(values)? as u64 })
            }
            Self::BitString(_) => match values.next()? {
                Datum::Null => Self::BitString(None),
                Datum::Bytes(bits) => Self::BitString(Some(bits)),
                _ => return None,
            },
            Self::Extreme(_) => {
                Self::Extreme(Some(values.next()?).filter(|value| !value.is_null()))
            }
            Self::Spread(_) => {
                let count = count(values)? as u64;
                Self::Spread(Spread { count, mean: double(values)?, squares: double(values)? })
            }
            Self::Concat(_) => {
                let (size, pieces) = (count(values)? as u64, count(values)?);
                let mut list = Vec::with_capacity(pieces);
                for _ in 0..pieces {
                    let Datum::Bytes(text) = values.next()? else { return None };
                    let keys = count(values)?;
                    list.push(Piece { text: text.into(), keys: values.take(keys).collect() });
                }
                Self::Concat(Pieces { list, size })
            }
            Self::Array(_) => {
                let items =
                    (0..count(values)?).map(|_| json(values)).collect::<Option<Vec<_>>>()?;
                Self::Array(Some(items).filter(|items| !items.is_empty()))
            }
            Self::Object(_) => {
                let mut members = Vec::new();
                for _ in 0..count(values)? {
                    let Datum::Bytes(name) = values.next()? else { return None };
                    let name = String::from_utf8(name.into()).ok()?;
                    members.push((name, json(values)?));
                }
                Self::Object(Some(members).filter(|members| !members.is_empty()))
            }
        })
    }
}
