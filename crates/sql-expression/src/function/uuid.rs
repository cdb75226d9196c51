//! UUIDs.

use sqltype::{Datum, printable};

use super::frame::{string, text};
use super::numeric::{bytes_of_hex, hex_of};
use super::{Evaluated, Frame, Function, Stop};
use crate::error::SqlError;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::volatile("uuid", 0, 0, |s| s.system_text(36), uuid),
    Function::volatile("uuid_short", 0, 0, |s| s.unsigned(), uuid_short),
    Function::pure("uuid_to_bin", 1, 2, |s| s.maybe_binary(16), to_bin),
    Function::pure("bin_to_uuid", 1, 2, |s| s.maybe_ascii(36), from_bin),
    Function::pure(
        "is_uuid",
        1,
        1,
        |s| s.maybe_integer(1),
        |f| Ok(Datum::truth(parse(&f.text(0)?).is_some())),
    ),
];

/// Intervals of 100 nanoseconds from the beginning of the Gregorian calendar to 1970.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;

/// A UUID of version 1: time, a random number, the node and the connection.
fn uuid(f: &mut Frame<'_, '_>) -> Evaluated {
    let now = u64::try_from(f.context.now).unwrap_or(0).wrapping_mul(10).wrapping_add(GREGORIAN);
    let time = now.max(f.context.uuid_time + 1);
    f.context.uuid_time = time;
    let sequence = (f.context.prng.next_u64() & 0x3FFF) | 0x8000;
    // The bit of group addresses: no network card has such a number.
    let facts = &f.context.facts;
    let connection = facts.connection_id & 0xFF_FFFF;
    let node = (facts.node & 0xFE_FFFF) << 24 | connection | 1 << 40;
    string(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        time & 0xFFFF_FFFF,
        time >> 32 & 0xFFFF,
        time >> 48 & 0x0FFF | 0x1000,
        sequence,
        node
    ))
}

/// A number of the node and the time that grows.
fn uuid_short(f: &mut Frame<'_, '_>) -> Evaluated {
    let micros = u64::try_from(f.context.now).unwrap_or(0);
    let random = f.context.prng.next_u64() & 0x1F;
    let number = (micros << 5 | random) & ((1 << 56) - 1);
    let number = number.max(f.context.uuid_short + 1);
    f.context.uuid_short = number;
    Ok(Datum::UInt((f.context.facts.node & 0xFF) << 56 | number))
}

/// The bytes of a UUID in one of its three spellings.
fn parse(written: &[u8]) -> Option<Vec<u8>> {
    let inner = match written {
        [b'{', inner @ .., b'}'] => inner,
        other => other,
    };
    let digits: Vec<u8> = match inner.len() {
        32 if inner.len() == written.len() => inner.to_vec(),
        36 => {
            let dashes = [8, 13, 18, 23];
            if dashes.iter().any(|at| inner[*at] != b'-') {
                return None;
            }
            let places = inner.iter().enumerate().filter(|(at, _)| !dashes.contains(at));
            places.map(|(_, byte)| *byte).collect()
        }
        _ => return None,
    };
    bytes_of_hex(&digits)
}

fn incorrect(f: &Frame<'_, '_>, value: &[u8]) -> Stop {
    let name = f.call.function.name;
    SqlError::incorrect_for_function("string", printable(value), name).into()
}

/// Whether the parts of the time change places, so that the bytes ascend with time.
fn swaps(f: &mut Frame<'_, '_>) -> Result<bool, Stop> {
    Ok(f.len() == 2 && !f.is_null(1)? && f.wide(1)? != 0)
}

fn to_bin(f: &mut Frame<'_, '_>) -> Evaluated {
    let written = f.text(0)?;
    let Some(bytes) = parse(&written) else { return Err(incorrect(f, &written)) };
    if swaps(f)? {
        text([&bytes[6..8], &bytes[4..6], &bytes[..4], &bytes[8..]].concat())
    } else {
        text(bytes)
    }
}

fn from_bin(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.text(0)?;
    if bytes.len() != 16 {
        return Err(incorrect(f, &bytes));
    }
    let bytes = if swaps(f)? {
        [&bytes[4..8], &bytes[2..4], &bytes[..2], &bytes[8..]].concat()
    } else {
        bytes.into_owned()
    };
    let digits = hex_of(&bytes).to_ascii_lowercase();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    string(parts.join("-"))
}
