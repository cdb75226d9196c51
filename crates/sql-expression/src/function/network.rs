//! Addresses: INET_ATON and its kin.

use core::net::{Ipv4Addr, Ipv6Addr};

use sqltype::{Datum, printable};

use super::frame::{string, text};
use super::{Evaluated, Frame, Function, Stop};
use crate::error::SqlError;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("inet_aton", 1, 1, |s| s.maybe_unsigned(), inet_aton),
    Function::pure("inet_ntoa", 1, 1, |s| s.maybe_ascii(15), inet_ntoa),
    Function::pure("inet6_aton", 1, 1, |s| s.maybe_binary(16), inet6_aton),
    Function::pure("inet6_ntoa", 1, 1, |s| s.maybe_ascii(39), inet6_ntoa),
    Function::pure(
        "is_ipv4",
        1,
        1,
        |s| s.certain_integer(1),
        |f| is_address(f, |text| parse_v4(text).is_some()),
    ),
    Function::pure(
        "is_ipv6",
        1,
        1,
        |s| s.certain_integer(1),
        |f| is_address(f, |text| text.parse::<Ipv6Addr>().is_ok()),
    ),
    Function::pure("is_ipv4_compat", 1, 1, |s| s.certain_integer(1), |f| is_v6(f, is_compatible)),
    Function::pure(
        "is_ipv4_mapped",
        1,
        1,
        |s| s.certain_integer(1),
        |f| is_v6(f, |address| address.to_ipv4_mapped().is_some()),
    ),
];

/// NULL, with a warning about the argument.
fn incorrect(f: &mut Frame<'_, '_>, value: &[u8]) -> Stop {
    let name = f.call.function.name;
    // The two oldest functions show their argument as an expression.
    let shown = match name {
        "inet_aton" | "inet_ntoa" => format!("'{}'", printable(value)),
        _ => printable(value),
    };
    match f.context.warn(SqlError::incorrect_for_function("string", shown, name)) {
        Ok(()) => Stop::Null,
        Err(error) => Stop::Error(error),
    }
}

/// One to four numbers with points; the last one fills what the others leave.
fn inet_aton(f: &mut Frame<'_, '_>) -> Evaluated {
    let written = f.text(0)?;
    let parts: Vec<&[u8]> = written.split(|byte| *byte == b'.').collect();
    let number = |part: &&[u8]| {
        let part = std::str::from_utf8(part).ok().filter(|part| !part.starts_with('+'))?;
        // Nothing between two points is zero.
        if part.is_empty() { Some(0) } else { part.parse::<u8>().ok() }
    };
    let numbers: Option<Vec<u8>> = parts.iter().map(number).collect();
    let ends_well = written.last().is_some_and(u8::is_ascii_digit);
    match numbers.as_deref() {
        Some([before @ .., last]) if before.len() <= 3 && ends_well => {
            let mut bytes = [0; 4];
            bytes[..before.len()].copy_from_slice(before);
            bytes[3] = *last;
            Ok(Datum::UInt(u32::from_be_bytes(bytes).into()))
        }
        _ => Err(incorrect(f, &written)),
    }
}

fn inet_ntoa(f: &mut Frame<'_, '_>) -> Evaluated {
    let number = f.wide(0)?;
    match u32::try_from(number) {
        Ok(number) => string(Ipv4Addr::from(number).to_string()),
        Err(_) => Err(incorrect(f, number.to_string().as_bytes())),
    }
}

/// Four numbers of one to three digits.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let mut parts = text.split('.');
    for byte in &mut bytes {
        let part = parts.next()?;
        let digits = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        *byte = part.parse().ok().filter(|_| digits)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(bytes))
}

fn inet6_aton(f: &mut Frame<'_, '_>) -> Evaluated {
    let written = f.text(0)?;
    let address = std::str::from_utf8(&written).ok();
    if let Some(address) = address.and_then(parse_v4) {
        return text(address.octets());
    }
    match address.and_then(|address| address.parse::<Ipv6Addr>().ok()) {
        Some(address) => text(address.octets()),
        None => Err(incorrect(f, &written)),
    }
}

fn inet6_ntoa(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.text(0)?;
    if let Ok(bytes) = <[u8; 4]>::try_from(&*bytes) {
        return string(Ipv4Addr::from(bytes).to_string());
    }
    match <[u8; 16]>::try_from(&*bytes) {
        Ok(bytes) => {
            let address = Ipv6Addr::from(bytes);
            string(if is_compatible(&address) {
                let [.., a, b, c, d] = bytes;
                format!("::{a}.{b}.{c}.{d}")
            } else {
                address.to_string()
            })
        }
        Err(_) => Err(incorrect(f, &bytes)),
    }
}

/// An IPv4 address in the last four bytes, and nothing before.
fn is_compatible(address: &Ipv6Addr) -> bool {
    let number = u128::from(*address);
    (0x1_0000..1 << 32).contains(&number)
}

fn is_address(f: &mut Frame<'_, '_>, is: fn(&str) -> bool) -> Evaluated {
    if f.is_null(0)? {
        return Ok(Datum::Int(0));
    }
    let written = f.text(0)?;
    Ok(Datum::truth(std::str::from_utf8(&written).is_ok_and(is)))
}

fn is_v6(f: &mut Frame<'_, '_>, is: fn(&Ipv6Addr) -> bool) -> Evaluated {
    if f.is_null(0)? {
        return Ok(Datum::Int(0));
    }
    let bytes = f.text(0)?;
    let address = <[u8; 16]>::try_from(&*bytes).map(Ipv6Addr::from);
    Ok(Datum::truth(address.is_ok_and(|address| is(&address))))
}
