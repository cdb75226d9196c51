//! Events of the binary log read from bytes that a source has sent: header, checksum, and the
//! bodies that hold no rows.
//!
//! # Guarantees
//! Any bytes are an event or [`Malformed`]. Nothing is reserved for what is not there.
//! # Not here
//! Tables and rows ([`super::image`]). Sources: the protocol's public documentation, and for
//! MariaDB's events <https://mariadb.com/kb/en/replication-protocol/>.

use super::{CHECKSUM, HEADER, crc32, kind};
use crate::reader::{Malformed, Reader};

/// Types of events that are only read.
pub mod foreign {
    #![allow(missing_docs, reason = "the names of the protocol")]
    pub const STOP: u8 = 3;
    pub const INTVAR: u8 = 5;
    pub const APPEND_BLOCK: u8 = 9;
    pub const DELETE_FILE: u8 = 11;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const BEGIN_LOAD_QUERY: u8 = 17;
    pub const EXECUTE_LOAD_QUERY: u8 = 18;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const TRANSACTION_CONTEXT: u8 = 36;
    pub const VIEW_CHANGE: u8 = 37;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
    pub const MARIADB_ANNOTATE_ROWS: u8 = 160;
    pub const MARIADB_BINLOG_CHECKPOINT: u8 = 161;
    pub const MARIADB_GTID: u8 = 162;
    pub const MARIADB_GTID_LIST: u8 = 163;
    pub const MARIADB_START_ENCRYPTION: u8 = 164;
    pub const MARIADB_QUERY_COMPRESSED: u8 = 165;
    pub const MARIADB_ROWS_COMPRESSED: std::ops::RangeInclusive<u8> = 166..=171;
}

/// Whoever does not know the event may leave it out.
const IGNORABLE: u16 = 0x80;

/// The header of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Seconds since 1970.
    pub timestamp: u32,
    /// One of [`kind`] or [`foreign`].
    pub kind: u8,
    /// `server_id` of the server where the change was made first.
    pub server: u32,
    /// Where it ends in its file; 0 for one that is in no file.
    pub end: u32,
    /// [`super::ARTIFICIAL`] and the like.
    pub flags: u16,
}

impl Head {
    /// Whether it may be left out by whoever does not know it.
    pub fn may_be_ignored(&self) -> bool {
        self.flags & IGNORABLE != 0
    }
}

/// How the events of a file look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// They end with a checksum.
    pub has_checksums: bool,
}

/// Takes an event apart: its header and its body, without its checksum.
///
/// # Errors
/// A length or a checksum that is wrong.
pub fn read(bytes: &[u8], format: Format) -> Result<(Head, &[u8]), Malformed> {
    let mut reader = Reader(bytes);
    let timestamp = reader.u32()?;
    let kind = reader.u8()?;
    let server = reader.u32()?;
    let length = reader.u32()? as usize;
    let end = reader.u32()?;
    let flags = reader.u16()?;
    if length != bytes.len() {
        return Err(Malformed);
    }
    let head = Head { timestamp, kind, server, end, flags };
    let body = &bytes[HEADER..];
    // What describes the format says by itself whether it has a checksum.
    let has_checksum = match kind {
        kind::FORMAT_DESCRIPTION => {
            let at = body.len().checked_sub(CHECKSUM + 1).ok_or(Malformed)?;
            body[at] != 0
        }
        _ => format.has_checksums,
    };
    let without = |body: &[u8]| body.len().checked_sub(CHECKSUM).ok_or(Malformed);
    match (has_checksum, kind) {
        (true, _) => {
            let (body, sum) = body.split_at(without(body)?);
            let mut covered = bytes[..HEADER + body.len()].to_vec();
            if kind == kind::FORMAT_DESCRIPTION {
                // Whether its file is in use is not covered.
                covered[17] &= !1;
            }
            let sum: [u8; 4] = sum.try_into().map_err(|_| Malformed)?;
            if crc32(&covered) != u32::from_le_bytes(sum) {
                return Err(Malformed);
            }
            Ok((head, body))
        }
        (false, kind::FORMAT_DESCRIPTION) => Ok((head, &body[..without(body)?])),
        (false, _) => Ok((head, body)),
    }
}

/// What FORMAT_DESCRIPTION says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The version of the source.
    pub version: String,
    /// How the events behind it look.
    pub format: Format,
}

/// Reads the body of FORMAT_DESCRIPTION.
///
/// # Errors
/// Also another version of the format than 4, and headers of another length.
pub fn description(body: &[u8]) -> Result<Description, Malformed> {
    let mut reader = Reader(body);
    if reader.u16()? != 4 {
        return Err(Malformed);
    }
    let version = Reader(reader.take(50)?).until_zero();
    let _created = reader.u32()?;
    if usize::from(reader.u8()?) != HEADER {
        return Err(Malformed);
    }
    let has_checksums = match body.last() {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Malformed),
    };
    let version = String::from_utf8_lossy(version).into_owned();
    Ok(Description { version, format: Format { has_checksums } })
}

/// Reads the body of ROTATE: the next file, and the position in it.
///
/// # Errors
/// When it is cut.
pub fn rotated(body: &[u8]) -> Result<(String, u64), Malformed> {
    let mut reader = Reader(body);
    let position = reader.u64()?;
    Ok((String::from_utf8_lossy(reader.0).into_owned(), position))
}

/// A statement of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStatement {
    /// The default database.
    pub database: Vec<u8>,
    /// Its text.
    pub text: Vec<u8>,
    /// The error that it ended with at the source; 0 for none.
    pub error: u16,
    /// `foreign_key_checks` is off.
    pub ignores_foreign_keys: bool,
    /// `sql_mode` as its bits, if it is said.
    pub sql_mode: Option<u64>,
    /// Collations by number: of the client, the connection, the server.
    pub collations: Option<[u16; 3]>,
    /// `time_zone`, if it is said.
    pub time_zone: Option<Vec<u8>>,
}

/// Reads the body of QUERY.
///
/// # Errors
/// When it is cut.
pub fn statement(body: &[u8]) -> Result<ReadStatement, Malformed> {
    let mut reader = Reader(body);
    let _thread_and_seconds = reader.u64()?;
    let database = usize::from(reader.u8()?);
    let error = reader.u16()?;
    let variables = usize::from(reader.u16()?);
    let mut statement = ReadStatement { error, ..ReadStatement::default() };
    read_variables(&mut statement, reader.take(variables)?)?;
    statement.database = reader.take(database)?.to_vec();
    if reader.u8()? != 0 {
        return Err(Malformed);
    }
    statement.text = reader.0.to_vec();
    Ok(statement)
}

/// Reads what a statement was run with. Behind a variable that is not known nothing is: its length
/// is not known either.
fn read_variables(statement: &mut ReadStatement, bytes: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader(bytes);
    while !reader.is_empty() {
        match reader.u8()? {
            0 => statement.ignores_foreign_keys = reader.u32()? & super::NO_FOREIGN_KEY_CHECKS != 0,
            1 => statement.sql_mode = Some(reader.u64()?),
            2 => {
                let length = usize::from(reader.u8()?);
                reader.take(length + 1)?;
            }
            4 => statement.collations = Some([reader.u16()?, reader.u16()?, reader.u16()?]),
            5 => {
                let length = usize::from(reader.u8()?);
                statement.time_zone = Some(reader.take(length)?.to_vec());
            }
            6 => {
                let length = usize::from(reader.u8()?);
                reader.take(length)?;
            }
            11 => {
                for _ in 0..2 {
                    let length = usize::from(reader.u8()?);
                    reader.take(length)?;
                }
            }
            12 => {
                let count = reader.u8()?;
                if count != 254 {
                    for _ in 0..count {
                        reader.zero_ended()?;
                    }
                }
            }
            7 | 8 | 18 => drop(reader.take(2)?),
            13 | 128 => drop(reader.take(3)?),
            3 | 10 => drop(reader.take(4)?),
            9 | 17 | 129 => drop(reader.take(8)?),
            16 | 19 | 20 => drop(reader.take(1)?),
            _ => break,
        }
    }
    Ok(())
}

/// A transaction of MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtid {
    /// The uuid of the server where it was made.
    pub server: [u8; 16],
    /// Its number there.
    pub number: u64,
}

/// Reads the body of GTID.
///
/// # Errors
/// When it is cut.
pub fn gtid(body: &[u8]) -> Result<Gtid, Malformed> {
    let mut reader = Reader(body);
    let _flags = reader.u8()?;
    Ok(Gtid { server: reader.array()?, number: reader.u64()? })
}

/// A transaction of MariaDB. The server is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtid {
    /// Its domain.
    pub domain: u32,
    /// Its number there.
    pub number: u64,
    /// It is one statement, which nothing ends.
    pub is_standalone: bool,
}

/// Reads the body of MariaDB's GTID.
///
/// # Errors
/// When it is cut.
pub fn mariadb_gtid(body: &[u8]) -> Result<MariadbGtid, Malformed> {
    let mut reader = Reader(body);
    let (number, domain, flags) = (reader.u64()?, reader.u32()?, reader.u8()?);
    Ok(MariadbGtid { domain, number, is_standalone: flags & 1 != 0 })
}

/// Reads the body of INCIDENT: what has happened.
///
/// # Errors
/// When it is cut.
pub fn incident(body: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader(body);
    let _number = reader.u16()?;
    let length = usize::from(reader.u8()?);
    Ok(String::from_utf8_lossy(reader.take(length)?).into_owned())
}
