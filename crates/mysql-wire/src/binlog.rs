//! Events of the binary log, version 4, as bytes: written for replicas, and read of a source.
//!
//! # Owns
//! The header and the checksum of every event, and the bodies of those that do not hold rows:
//! FORMAT_DESCRIPTION, ROTATE, PREVIOUS_GTIDS, GTID, QUERY, XID, HEARTBEAT, INCIDENT; sets of
//! GTIDs.
//! # Guarantees
//! The same arguments give the same bytes. A set of GTIDs of any bytes is a set or [`Malformed`].
//! # Not here
//! Rows and the tables that they belong to ([`rows`]), values of columns, which events there are.
//! What a source has sent is read by [`event`] and [`image`].
//! Source: the public documentation of the replication protocol,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html>.

pub mod event;
pub mod gtid;
pub mod image;
pub mod info;
pub mod rows;

#[cfg(test)]
mod tests;

/// Bytes before the first event of a file.
pub const MAGIC: &[u8; 4] = b"\xFEbin";
/// Bytes of an event's header.
pub const HEADER: usize = 19;
/// Bytes of a checksum.
pub const CHECKSUM: usize = 4;
/// The event was made for one reader, and is in no file.
pub const ARTIFICIAL: u16 = 0x20;

/// Types of events.
pub mod kind {
    #![allow(missing_docs, reason = "the names of the protocol")]
    pub const QUERY: u8 = 2;
    pub const ROTATE: u8 = 4;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const TABLE_MAP: u8 = 19;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const GTID: u8 = 33;
    pub const PREVIOUS_GTIDS: u8 = 35;
}

/// The lengths of the fixed parts of the bodies, by type of event from 1 on.
const FIXED_LENGTHS: [u8; 41] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10,
    10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0,
];

/// What all events of a file have in their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Seconds since 1970.
    pub timestamp: u32,
    /// `server_id`.
    pub server: u32,
}

/// An event with its checksum. `before` is where it begins in its file; none for one that is in no
/// file.
pub fn event(
    kind: u8,
    stamp: Stamp,
    before: Option<u64>,
    flags: u16,
    body: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(stamp.timestamp.to_le_bytes());
    bytes.push(kind);
    bytes.extend(stamp.server.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(flags.to_le_bytes());
    body(&mut bytes);
    let length = bytes.len() + CHECKSUM;
    let end = before.map_or(0, |before| before + length as u64);
    bytes[9..13].copy_from_slice(&(length as u32).to_le_bytes());
    // A file that is longer than four gigabytes is refused before anybody reads so far.
    bytes[13..17].copy_from_slice(&(end as u32).to_le_bytes());
    let checksum = crc32(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The same event for a reader that has asked for no checksums.
pub fn without_checksum(event: &[u8]) -> Vec<u8> {
    let mut bytes = event.to_vec();
    if event[4] == kind::FORMAT_DESCRIPTION {
        // It has a checksum in any case, and says that the others have none.
        let at = bytes.len() - CHECKSUM;
        bytes[at - 1] = 0;
        let checksum = crc32(&bytes[..at]);
        bytes[at..].copy_from_slice(&checksum.to_le_bytes());
        return bytes;
    }
    bytes.truncate(event.len() - CHECKSUM);
    let length = bytes.len() as u32;
    bytes[9..13].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The same event for a reader that has begun behind it: it has no place in the file.
pub fn without_place(event: &[u8]) -> Vec<u8> {
    let mut bytes = event.to_vec();
    bytes[13..17].fill(0);
    let at = bytes.len() - CHECKSUM;
    let checksum = crc32(&bytes[..at]);
    bytes[at..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The first event of a file: what those behind it look like.
pub fn format_description(out: &mut Vec<u8>, version: &str) {
    out.extend(4u16.to_le_bytes());
    let mut name = [0; 50];
    let length = version.len().min(name.len() - 1);
    name[..length].copy_from_slice(&version.as_bytes()[..length]);
    out.extend(name);
    // No time of creation: nothing that a replica has made before is to be undone.
    out.extend(0u32.to_le_bytes());
    out.push(HEADER as u8);
    out.extend(FIXED_LENGTHS);
    // CRC32.
    out.push(1);
}

/// The log goes on in another file.
pub fn rotate(out: &mut Vec<u8>, position: u64, file: &str) {
    out.extend(position.to_le_bytes());
    out.extend(file.as_bytes());
}

/// A transaction begins. `by_statement`: it is a statement and no rows.
pub fn gtid_body(
    out: &mut Vec<u8>,
    server: &[u8; 16],
    number: u64,
    place: u64,
    by_statement: bool,
) {
    out.push(by_statement.into());
    out.extend(server);
    out.extend(number.to_le_bytes());
    // The logical clock: each follows the one before.
    out.push(2);
    out.extend(place.saturating_sub(1).to_le_bytes());
    out.extend(place.to_le_bytes());
}

/// A statement.
#[derive(Clone, Debug, Default)]
pub struct Statement<'a> {
    /// The default database.
    pub database: &'a str,
    /// Its text.
    pub text: &'a str,
    /// `sql_mode` as its bits.
    pub sql_mode: u64,
    /// Collations by number: of the client, the connection, the server.
    pub collations: [u16; 3],
    /// `foreign_key_checks` is off.
    pub ignores_foreign_keys: bool,
    /// `time_zone`; empty if it does not matter.
    pub time_zone: &'a str,
    /// The fraction of the second at which it began, in microseconds.
    pub micros: u32,
}

/// The bit of the options for `foreign_key_checks` being off.
const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;

/// The body of a statement's event.
pub fn query(out: &mut Vec<u8>, statement: &Statement<'_>) {
    let mut variables = Vec::with_capacity(64);
    let options = if statement.ignores_foreign_keys { NO_FOREIGN_KEY_CHECKS } else { 0 };
    variables.push(0);
    variables.extend(options.to_le_bytes());
    variables.push(1);
    variables.extend(statement.sql_mode.to_le_bytes());
    // The catalogue, which is always the same.
    variables.extend(b"\x06\x03std");
    variables.push(4);
    for collation in statement.collations {
        variables.extend(collation.to_le_bytes());
    }
    if let Ok(length) = u8::try_from(statement.time_zone.len())
        && length > 0
    {
        variables.extend([5, length]);
        variables.extend(statement.time_zone.as_bytes());
    }
    if statement.micros > 0 {
        // Readers that do not know it stop here.
        variables.push(13);
        variables.extend(&statement.micros.to_le_bytes()[..3]);
    }
    // Thread, seconds that it took.
    out.extend([0; 8]);
    let database = statement.database.as_bytes();
    let database = &database[..database.len().min(255)];
    out.push(database.len() as u8);
    // It has ended without an error.
    out.extend(0u16.to_le_bytes());
    out.extend((variables.len() as u16).to_le_bytes());
    out.extend(variables);
    out.extend(database);
    out.push(0);
    out.extend(statement.text.as_bytes());
}

/// The transaction has been committed.
pub fn xid(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

/// What was lost: a replica is to stop.
pub fn incident(out: &mut Vec<u8>, message: &str) {
    // Lost events.
    out.extend(1u16.to_le_bytes());
    let message = &message.as_bytes()[..message.len().min(255)];
    out.push(message.len() as u8);
    out.extend(message);
}

/// A heartbeat: the source has nothing behind this position of a file.
pub fn heartbeat(server: u32, file: &str, position: u64) -> Vec<u8> {
    let stamp = Stamp { timestamp: 0, server };
    let length = (HEADER + file.len() + CHECKSUM) as u64;
    let before = position.checked_sub(length);
    let mut bytes = event(kind::HEARTBEAT, stamp, before, 0, |out| out.extend(file.as_bytes()));
    // Its position is the one that the reader has reached, and it is in no file.
    bytes[13..17].copy_from_slice(&(position as u32).to_le_bytes());
    let at = bytes.len() - CHECKSUM;
    let checksum = crc32(&bytes[..at]);
    bytes[at..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The CRC-32 of IEEE 802.3, as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut value, mut bit) = (at as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    let step = |sum: u32, byte: &u8| TABLE[((sum ^ u32::from(*byte)) & 0xFF) as usize] ^ (sum >> 8);
    !bytes.iter().fold(u32::MAX, step)
}
