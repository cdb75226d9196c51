//! Where an answer of a server of MySQL's protocol ends, and whether it is a refusal.
//!
//! # Guarantees
//! The bytes of an answer are looked at and not copied; of rows only their number is kept. Bytes
//! that are no answer are an error and never a panic.
//! # Not here
//! Several results of one statement, rows longer than a packet, and the protocol without packets
//! that end columns (`CLIENT_DEPRECATE_EOF`): a client that does not ask for them is not sent them.

/// What a server said to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was done.
    Done,
    /// So many rows.
    Rows(u64),
    /// It was refused: number and text.
    Refused(u16, String),
}

/// The answer at the beginning of `bytes` and its length; none while a part of it is missing.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let mut at = 0;
    let Some(first) = packet(bytes, &mut at)? else { return Ok(None) };
    match first[0] {
        OK => return Ok(Some((Answer::Done, at))),
        ERROR => return Ok(Some((refusal(first), at))),
        // The longest number of one byte; no statement of ours has as many columns.
        1..=250 => {}
        other => return Err(format!("an answer begins with {other:#04x}")),
    }
    // The columns, and what ends them.
    for _ in 0..first[0] {
        if packet(bytes, &mut at)?.is_none() {
            return Ok(None);
        }
    }
    match packet(bytes, &mut at)? {
        None => return Ok(None),
        Some(end) if is_end(end) => {}
        Some(other) => return Err(format!("columns end with {:#04x}", other[0])),
    }
    let mut rows = 0;
    while let Some(row) = packet(bytes, &mut at)? {
        if is_end(row) {
            return Ok(Some((Answer::Rows(rows), at)));
        }
        if row[0] == ERROR {
            return Ok(Some((refusal(row), at)));
        }
        rows += 1;
    }
    Ok(None)
}

/// The packet at `at`, which moves behind it; none while a part of it is missing.
fn packet<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, String> {
    let Some(&[a, b, c, _]) = bytes.get(*at..*at + 4) else { return Ok(None) };
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    if length == 0 || length == LENGTH_MAX {
        return Err(format!("a packet of {length} bytes"));
    }
    let payload = bytes.get(*at + 4..*at + 4 + length);
    if payload.is_some() {
        *at += 4 + length;
    }
    Ok(payload)
}

fn is_end(packet: &[u8]) -> bool {
    packet[0] == END && packet.len() < 9
}

/// Number and text of a refusal; the state, six bytes with its mark, is left out.
fn refusal(packet: &[u8]) -> Answer {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    Answer::Refused(code, String::from_utf8_lossy(text).into_owned())
}

const OK: u8 = 0;
const ERROR: u8 = 0xFF;
const END: u8 = 0xFE;
/// A packet of this length goes on in the next.
const LENGTH_MAX: usize = 0xFF_FFFF;

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, payload) in payloads.iter().enumerate() {
            bytes.extend(&(payload.len() as u32).to_le_bytes()[..3]);
            bytes.push(number as u8 + 1);
            bytes.extend(*payload);
        }
        bytes
    }

    const LAST: &[u8] = &[END, 0, 0, 2, 0];
    const COLUMN: &[u8] = b"\x03def\0\0\0\x01c\0";

    #[test]
    fn every_kind_of_answer_is_read_when_all_of_it_is_there() {
        let done = packets(&[&[OK, 1, 0, 2, 0, 0, 0]]);
        let refused = packets(&[b"\xFF\xBD\x04#40001Deadlock found"]);
        // A binary row begins with a zero, as OK does; a long one of the text protocol may begin
        // as an end does.
        let long = [&[END][..], &[b'x'; 30]].concat();
        let rows = packets(&[&[1], COLUMN, LAST, &[0, 0, 1, b'a'], &long, LAST]);
        let none = packets(&[&[2], COLUMN, COLUMN, LAST, LAST]);
        let broken = packets(&[&[1], COLUMN, LAST, &[0, 0], b"\xFF\x11\x05#HY000lost"]);
        for (bytes, wanted) in [
            (done, Answer::Done),
            (refused, Answer::Refused(1213, "Deadlock found".into())),
            (rows, Answer::Rows(2)),
            (none, Answer::Rows(0)),
            (broken, Answer::Refused(1297, "lost".into())),
        ] {
            for part in 0..bytes.len() {
                assert_eq!(read(&bytes[..part]), Ok(None), "{wanted:?}, {part} bytes");
            }
            let more = [&bytes[..], b"the next"].concat();
            assert_eq!(read(&more), Ok(Some((wanted, bytes.len()))));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(read(&packets(&[&[0xFB, 1]])).is_err(), "a request for a file");
        assert!(read(&packets(&[&[1], COLUMN, &[0, 0]])).is_err(), "columns without an end");
        assert!(read(&[0, 0, 0, 1]).is_err(), "an empty packet");
        assert!(read(&[0xFF, 0xFF, 0xFF, 1]).is_err(), "a packet that goes on");
        assert_eq!(read(&packets(&[&[ERROR]])), Ok(Some((Answer::Refused(0, String::new()), 5))));
    }
}
