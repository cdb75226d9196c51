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
    /// FLUSH in the old way, and others without effect here.
    Harmless(u8),
    /// Something else.
    Unknown(u8),
}

impl Command {
    /// COM_QUIT.
    pub const QUIT: u8 = 1;
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
            9 => Self::Statistics,
            10 => Self::ProcessInfo,
            12 => Self::ProcessKill(reader.u32()?),
            14 => Self::Ping,
            Self::CHANGE_USER => Self::ChangeUser(reader.0.to_vec()),
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
            Self::Harmless(_) => "Refresh",
            Self::Unknown(_) => "Error",
        }
    }
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
