//! What a client asks for.

use crate::parameter::{Attributes, ParameterType, parse_parameters};
use crate::reader::{Malformed, Reader};

/// The text of a query, with what the client attached to it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryText {
    /// The statements.
    pub text: Vec<u8>,
    /// Attributes: names and values.
    pub attributes: Attributes,
}

/// What COM_REGISTER_REPLICA says of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaName {
    /// `server_id`.
    pub server: u32,
    /// `report_host`.
    pub host: Vec<u8>,
    /// `report_port`.
    pub port: u16,
}

/// From where on a reader wants the binary log, by COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinlogDump {
    /// The reader's `server_id`.
    pub server: u32,
    /// The name of a file; empty for the first.
    pub file: Vec<u8>,
    /// The position in it.
    pub position: u64,
    /// The reader waits for nothing: it wants an end behind the last event.
    pub to_the_end: bool,
    /// The GTIDs that the reader has, encoded; with them file and position do not count.
    pub has: Option<Vec<u8>>,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Ends the connection.
    Quit,
    /// Sets the default database.
    InitDb(Vec<u8>),
    /// Runs statements.
    Query(QueryText),
    /// Columns of a table, with a pattern for their names.
    FieldList {
        /// The table.
        table: Vec<u8>,
        /// LIKE pattern.
        pattern: Vec<u8>,
    },
    /// The server ends, as by SHUTDOWN: what older clients send for `mysqladmin shutdown`.
    Shutdown,
    /// One line about the server.
    Statistics,
    /// The process list.
    ProcessInfo,
    /// Ends another connection.
    ProcessKill(u32),
    /// Nothing.
    Ping,
    /// Logs in anew; the payload is parsed by [`crate::Response::parse_change_user`].
    ChangeUser(Vec<u8>),
    /// Forgets all session state.
    ResetConnection,
    /// Switches multi-statements on (0) or off (1).
    SetOption(u16),
    /// Prepares a statement.
    Prepare(Vec<u8>),
    /// Runs a prepared statement; the payload is parsed by [`crate::parse_execute`].
    Execute {
        /// Which.
        statement: u32,
        /// Cursor wishes.
        flags: u8,
        /// Behind the iteration count.
        payload: Vec<u8>,
    },
    /// A piece of a parameter.
    SendLongData {
        /// Which statement.
        statement: u32,
        /// Which parameter.
        parameter: u16,
        /// The piece.
        data: Vec<u8>,
    },
    /// Forgets a prepared statement; has no answer.
    CloseStatement(u32),
    /// Forgets a prepared statement's long data and cursor.
    ResetStatement(u32),
    /// Rows of a cursor.
    Fetch {
        /// Which statement.
        statement: u32,
        /// How many rows.
        rows: u32,
    },
    /// A replica says who it is.
    RegisterReplica(ReplicaName),
    /// The binary log from a place on, to the end of the connection.
    BinlogDump(BinlogDump),
    /// FLUSH in the old way, and others without effect here.
    Harmless(u8),
    /// Something else.
    Unknown(u8),
}

impl Command {
    /// COM_QUIT.
    pub const QUIT: u8 = 1;
    /// COM_BINLOG_DUMP.
    pub const BINLOG_DUMP: u8 = 18;
    /// COM_REGISTER_REPLICA.
    pub const REGISTER_REPLICA: u8 = 21;
    /// COM_BINLOG_DUMP_GTID.
    pub const BINLOG_DUMP_GTID: u8 = 30;
    /// COM_CHANGE_USER.
    pub const CHANGE_USER: u8 = 17;
    /// COM_STMT_EXECUTE.
    pub const EXECUTE: u8 = 23;
    /// COM_STMT_CLOSE.
    pub const CLOSE: u8 = 25;
    /// COM_STMT_RESET.
    pub const RESET: u8 = 26;
    /// COM_STMT_FETCH.
    pub const FETCH: u8 = 28;
    /// COM_RESET_CONNECTION.
    pub const RESET_CONNECTION: u8 = 31;

    /// Parses a payload. `query_attributes`: the client has that capability.
    pub fn parse(mut payload: Vec<u8>, query_attributes: bool) -> Result<Self, Malformed> {
        let mut reader = Reader(&payload);
        let code = reader.u8()?;
        Ok(match code {
            3 => {
                let attributes = attributes(&mut reader, query_attributes)?;
                // Texts may be long: their bytes stay where they are, but for what is before them.
                let before = payload.len() - reader.0.len();
                payload.drain(..before);
                Self::Query(QueryText { text: payload, attributes })
            }
            Self::QUIT => Self::Quit,
            2 => Self::InitDb(reader.0.to_vec()),
            4 => {
                let table = reader.until_zero().to_vec();
                Self::FieldList { table, pattern: reader.0.to_vec() }
            }
            // COM_REFRESH and COM_DEBUG.
            7 | 13 => Self::Harmless(code),
            8 => Self::Shutdown,
            9 => Self::Statistics,
            10 => Self::ProcessInfo,
            12 => Self::ProcessKill(reader.u32()?),
            14 => Self::Ping,
            Self::CHANGE_USER => Self::ChangeUser(reader.0.to_vec()),
            Self::BINLOG_DUMP => Self::BinlogDump(dump(&mut reader)?),
            Self::BINLOG_DUMP_GTID => Self::BinlogDump(dump_gtid(&mut reader)?),
            Self::REGISTER_REPLICA => {
                let (server, host) = (reader.u32()?, short_text(&mut reader)?);
                let (_user, _password) = (short_text(&mut reader)?, short_text(&mut reader)?);
                Self::RegisterReplica(ReplicaName { server, host, port: reader.u16()? })
            }
            22 => Self::Prepare(reader.0.to_vec()),
            Self::EXECUTE => {
                let (statement, flags, _iterations) = (reader.u32()?, reader.u8()?, reader.u32()?);
                Self::Execute { statement, flags, payload: reader.0.to_vec() }
            }
            24 => {
                let (statement, parameter) = (reader.u32()?, reader.u16()?);
                Self::SendLongData { statement, parameter, data: reader.0.to_vec() }
            }
            Self::CLOSE => Self::CloseStatement(reader.u32()?),
            Self::RESET => Self::ResetStatement(reader.u32()?),
            27 => Self::SetOption(reader.u16()?),
            Self::FETCH => Self::Fetch { statement: reader.u32()?, rows: reader.u32()? },
            Self::RESET_CONNECTION => Self::ResetConnection,
            other => Self::Unknown(other),
        })
    }

    /// The name it is counted under, as in `Com_stmt_close`; none if statements are counted.
    pub fn counter(&self) -> Option<&'static str> {
        Some(match self {
            Self::Ping | Self::Harmless(_) | Self::Statistics | Self::ChangeUser(_) => {
                "admin_commands"
            }
            Self::InitDb(_) => "change_db",
            Self::Prepare(_) => "stmt_prepare",
            Self::Execute { .. } => "stmt_execute",
            Self::SendLongData { .. } => "stmt_send_long_data",
            Self::CloseStatement(_) => "stmt_close",
            Self::ResetStatement(_) => "stmt_reset",
            Self::Fetch { .. } => "stmt_fetch",
            _ => return None,
        })
    }

    /// The name in SHOW PROCESSLIST.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Quit => "Quit",
            Self::InitDb(_) => "Init DB",
            Self::Query(_) => "Query",
            Self::FieldList { .. } => "Field List",
            Self::Shutdown => "Shutdown",
            Self::Statistics => "Statistics",
            Self::ProcessInfo => "Processlist",
            Self::ProcessKill(_) => "Kill",
            Self::Ping => "Ping",
            Self::ChangeUser(_) => "Change user",
            Self::ResetConnection => "Reset Connection",
            Self::SetOption(_) => "Set option",
            Self::Prepare(_) => "Prepare",
            Self::Execute { .. } => "Execute",
            Self::SendLongData { .. } => "Long Data",
            Self::CloseStatement(_) => "Close stmt",
            Self::ResetStatement(_) => "Reset stmt",
            Self::Fetch { .. } => "Fetch",
            Self::RegisterReplica(_) => "Register Replica",
            Self::BinlogDump(dump) if dump.has.is_some() => "Binlog Dump GTID",
            Self::BinlogDump(_) => "Binlog Dump",
            Self::Harmless(_) => "Refresh",
            Self::Unknown(_) => "Error",
        }
    }
}

/// COM_BINLOG_DUMP: the reader does not wait.
const DUMP_NON_BLOCK: u16 = 1;
/// COM_BINLOG_DUMP_GTID: the reader says which GTIDs it has.
const DUMP_THROUGH_GTID: u16 = 4;

fn dump(reader: &mut Reader<'_>) -> Result<BinlogDump, Malformed> {
    let (position, flags, server) = (reader.u32()?, reader.u16()?, reader.u32()?);
    let to_the_end = flags & DUMP_NON_BLOCK != 0;
    let file = reader.0.to_vec();
    Ok(BinlogDump { server, file, position: position.into(), to_the_end, has: None })
}

fn dump_gtid(reader: &mut Reader<'_>) -> Result<BinlogDump, Malformed> {
    let (flags, server, length) = (reader.u16()?, reader.u32()?, reader.u32()?);
    let file = reader.take(usize::try_from(length).map_err(|_| Malformed)?)?.to_vec();
    let position = reader.u64()?;
    let has = if reader.is_empty() {
        None
    } else {
        let length = reader.u32()?;
        Some(reader.take(usize::try_from(length).map_err(|_| Malformed)?)?.to_vec())
    };
    let has = has.filter(|_| flags & DUMP_THROUGH_GTID != 0 || file.is_empty());
    Ok(BinlogDump { server, file, position, to_the_end: flags & DUMP_NON_BLOCK != 0, has })
}

/// Bytes behind a length of one byte.
fn short_text(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let length = reader.u8()?;
    Ok(reader.take(length.into())?.to_vec())
}

/// What the client attached to the text of a query.
fn attributes(reader: &mut Reader<'_>, has_attributes: bool) -> Result<Attributes, Malformed> {
    if !has_attributes {
        return Ok(Vec::new());
    }
    let count = usize::try_from(reader.lenenc()?).map_err(|_| Malformed)?;
    let _sets = reader.lenenc()?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut types: Vec<ParameterType> = Vec::new();
    let parsed = parse_parameters(reader, count, &mut types, true, &[])?;
    Ok(types.into_iter().map(|kind| kind.name).zip(parsed).collect())
}
