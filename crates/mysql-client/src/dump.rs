//! Reading the binary log of a server, as a replica does.
//!
//! # Owns
//! What is said before the log is asked for, and the ways to ask for it; the events as they come.
//! # Not here
//! What is in events.

use std::io;
use std::time::Duration;

use crate::{END, ERROR, OK, QueryError, Session, refusal};

const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_REPLICA: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1E;
/// COM_BINLOG_DUMP_GTID goes by the set that is sent.
const THROUGH_GTID: u16 = 4;
/// No such variable.
const UNKNOWN_VARIABLE: u16 = 1193;

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The beginning of the oldest file.
    Oldest,
    /// A file and a position in it.
    Position(String, u64),
    /// Behind the transactions of this encoded set of MySQL's GTIDs.
    Gtids(Vec<u8>),
    /// Behind these GTIDs of MariaDB.
    MariadbGtids(String),
    /// By GTIDs, of which there are none yet.
    FirstGtid,
}

/// Who reads a log, and how.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The reader's `server_id`.
    pub server_id: u32,
    /// The reader's uuid, as text.
    pub uuid: String,
    /// How often a server says that it has nothing to say.
    pub heartbeat: Duration,
    /// Where to begin.
    pub start: Start,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `version`.
    pub version: String,
    /// `server_id`.
    pub server_id: u32,
    /// `server_uuid`; empty where there is none.
    pub uuid: String,
    /// Events have checksums.
    pub has_checksums: bool,
}

impl Facts {
    /// Whether it is MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.version.to_ascii_lowercase().contains("mariadb")
    }
}

/// The events of a log, as they come.
#[derive(Debug)]
pub struct Events(Session);

impl Session {
    /// What the server says of itself.
    ///
    /// # Errors
    /// The server's.
    pub fn facts(&mut self) -> Result<Facts, QueryError> {
        let rows = self.query("SELECT @@version, @@server_id, @@global.binlog_checksum")?;
        let row = rows.into_iter().next().unwrap_or_default();
        let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let uuid = match self.query("SELECT @@server_uuid") {
            Ok(rows) => rows.into_iter().flatten().next().flatten().unwrap_or_default(),
            Err(error) if error.code() == Some(UNKNOWN_VARIABLE) => String::new(),
            Err(error) => return Err(error),
        };
        Ok(Facts {
            version: text(0),
            server_id: text(1).parse().unwrap_or(0),
            uuid,
            has_checksums: text(2).eq_ignore_ascii_case("CRC32"),
        })
    }

    /// Asks for the log.
    ///
    /// # Errors
    /// The server's.
    pub fn dump(mut self, reader: &Reader, facts: &Facts) -> Result<Events, QueryError> {
        // Servers know the variable by the one name or the other.
        self.query(
            "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = \
             @@global.binlog_checksum",
        )?;
        let nanos = reader.heartbeat.as_nanos().max(1_000_000);
        self.query(&format!(
            "SET @master_heartbeat_period = {nanos}, @source_heartbeat_period = {nanos}"
        ))?;
        if !reader.uuid.is_empty() && !reader.uuid.contains('\'') {
            let uuid = &reader.uuid;
            self.query(&format!("SET @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"))?;
        }
        if facts.is_mariadb() {
            // It then sends events of its own kinds as they are.
            self.query("SET @mariadb_slave_capability = 4")?;
        }
        self.register(reader)?;
        let start = match &reader.start {
            Start::Oldest => match self.query("SHOW BINARY LOGS") {
                Ok(rows) => {
                    let first = rows.into_iter().flatten().next().flatten();
                    Start::Position(first.unwrap_or_default(), 4)
                }
                // Who may not see them gets the oldest by no name.
                Err(QueryError::Refused(..)) => Start::Position(String::new(), 4),
                Err(error) => return Err(error),
            },
            Start::FirstGtid if facts.is_mariadb() => Start::MariadbGtids(String::new()),
            Start::FirstGtid => Start::Gtids(0u64.to_le_bytes().to_vec()),
            other => other.clone(),
        };
        let mut command = Vec::new();
        match &start {
            Start::Gtids(set) => {
                command.push(COM_BINLOG_DUMP_GTID);
                command.extend(THROUGH_GTID.to_le_bytes());
                command.extend(reader.server_id.to_le_bytes());
                // No file, and the position before the first event.
                command.extend(0u32.to_le_bytes());
                command.extend(4u64.to_le_bytes());
                command.extend((set.len() as u32).to_le_bytes());
                command.extend(set);
            }
            other => {
                let (file, position) = match other {
                    Start::Position(file, position) => (file.as_str(), *position),
                    _ => ("", 4),
                };
                if let Start::MariadbGtids(gtids) = other {
                    self.query(&format!(
                        "SET @slave_connect_state = '{}', @slave_gtid_strict_mode = 0, \
                         @slave_gtid_ignore_duplicates = 0",
                        gtids.replace(['\'', '\\'], "")
                    ))?;
                }
                let position = u32::try_from(position).map_err(|_| {
                    let why = "the position is beyond what the protocol can say";
                    QueryError::Refused(1236, why.to_owned())
                })?;
                command.push(COM_BINLOG_DUMP);
                command.extend(position.to_le_bytes());
                command.extend(0u16.to_le_bytes());
                command.extend(reader.server_id.to_le_bytes());
                command.extend(file.as_bytes());
            }
        }
        self.sequence = 0;
        self.send(&command)?;
        Ok(Events(self))
    }

    /// Has the server list the reader among its replicas.
    fn register(&mut self, reader: &Reader) -> Result<(), QueryError> {
        let mut command = vec![COM_REGISTER_REPLICA];
        command.extend(reader.server_id.to_le_bytes());
        // Host, user and password are nobody's business; so are port, rank and source.
        command.extend([0; 3]);
        command.extend([0; 2]);
        command.extend([0; 8]);
        self.sequence = 0;
        self.send(&command)?;
        let answer = self.packet()?;
        if answer.first() == Some(&ERROR) { Err(refusal(&answer)) } else { Ok(()) }
    }
}

impl Events {
    /// The next event; none when the server has ended the log.
    ///
    /// # Errors
    /// What the server says, and a lost connection; also one that says nothing for so long.
    pub fn next_event(&mut self) -> Result<Option<Vec<u8>>, QueryError> {
        let mut packet = self.0.packet()?;
        match packet.first() {
            Some(&OK) => Ok(Some(packet.split_off(1))),
            Some(&ERROR) => Err(refusal(&packet)),
            Some(&END) => Ok(None),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }
}
