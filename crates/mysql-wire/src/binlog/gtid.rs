//! Sets of GTIDs of one server: read from those of many, written and printed.

use crate::reader::{Malformed, Reader};

/// The highest number of a server's transactions in an encoded set, 0 if it has none: what a
/// replica has of a log whose transactions are in one order.
///
/// # Errors
/// Bytes that are no set.
pub fn highest_of(set: &[u8], server: &[u8; 16]) -> Result<u64, Malformed> {
    let mut reader = Reader(set);
    let mut highest = 0;
    for _ in 0..reader.u64()? {
        let of = reader.array::<16>()?;
        for _ in 0..reader.u64()? {
            let (first, end) = (reader.u64()?, reader.u64()?);
            if first == 0 || end <= first {
                return Err(Malformed);
            }
            if of == *server {
                highest = highest.max(end - 1);
            }
        }
    }
    Ok(highest)
}

/// The set of the first transactions of a server, up to a number.
pub fn first_ones(out: &mut Vec<u8>, server: &[u8; 16], through: u64) {
    if through == 0 {
        return out.extend(0u64.to_le_bytes());
    }
    out.extend(1u64.to_le_bytes());
    out.extend(server);
    for number in [1, 1, through + 1] {
        out.extend(u64::to_le_bytes(number));
    }
}

/// A server's name as text.
pub fn text(server: &[u8; 16]) -> String {
    let hex: String = server.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{a}-{b}-{c}-{d}-{e}")
}
