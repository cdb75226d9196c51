//! A client of MySQL's protocol, small enough to see exactly when an answer has come and when the
//! server was lost.
//!
//! # Owns
//! A connection over a Unix socket as `root` without a password; text queries, one at a time.
//! Statements can be prepared, for whoever takes over the socket and runs them.
//! # Not here
//! Real clients, which programs of others use: the tests try those.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};

/// A row of texts; none for NULL.
pub type TextRow = Vec<Option<String>>;

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// Read through a buffer, as an answer is many small packets.
    stream: BufReader<Awaited>,
    sequence: u8,
}

/// A column of an answer, as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name or alias.
    pub name: String,
    /// The protocol's number of its type.
    pub kind: u8,
}

/// All that a server says to a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Empty for statements without rows.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<TextRow>,
    /// How many rows were changed.
    pub changed: u64,
    /// The insert id: the value of an AUTO_INCREMENT column that the server tells of; 0 for none.
    pub insert_id: u64,
    /// How many warnings and notes there are.
    pub warnings: u16,
}

/// Why a statement has no answer of the usual kind.
#[derive(Debug)]
pub enum QueryError {
    /// The server says so: number and text.
    Refused(u16, String),
    /// The connection is gone: whether the statement was run nobody knows.
    Lost(io::Error),
}

impl QueryError {
    /// The server's number for it.
    pub fn code(&self) -> Option<u16> {
        match self {
            QueryError::Refused(code, _) => Some(*code),
            QueryError::Lost(_) => None,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Refused(code, text) => write!(f, "error {code}: {text}"),
            QueryError::Lost(error) => write!(f, "connection lost: {error}"),
        }
    }
}

impl From<io::Error> for QueryError {
    fn from(error: io::Error) -> Self {
        QueryError::Lost(error)
    }
}

/// A socket that is waited for before it is read, as common clients do. Who waits in `read` on a
/// Unix socket is woken twice for each answer: the first time when the server takes the question
/// from the socket, which makes room for another.
#[derive(Debug)]
struct Awaited(UnixStream);

impl Read for Awaited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None)?;
        self.0.read(buffer)
    }
}

impl Session {
    /// Connects and logs in as `root`, without a password.
    pub fn connect(socket: &Path) -> Result<Session, QueryError> {
        Self::connect_as(socket, "root")
    }

    /// Connects and logs in without a password.
    pub fn connect_as(socket: &Path, user: &str) -> Result<Session, QueryError> {
        let stream = BufReader::new(Awaited(UnixStream::connect(socket)?));
        let mut session = Session { stream, sequence: 0 };
        let greeting = session.packet()?;
        if greeting.first() == Some(&ERROR) {
            return Err(refusal(&greeting));
        }
        let mut login = CAPABILITIES.to_le_bytes().to_vec();
        login.extend((1u32 << 24).to_le_bytes());
        login.push(UTF8MB4);
        login.extend([0; 23]);
        // The user, and the empty proof of an empty password.
        login.extend(user.as_bytes());
        login.extend(b"\0\0");
        login.extend(b"mysql_native_password\0");
        session.send(&login)?;
        loop {
            let answer = session.packet()?;
            match answer.first() {
                Some(&OK) => return Ok(session),
                Some(&ERROR) => return Err(refusal(&answer)),
                // The server prefers another method: an empty password is empty in all of them.
                Some(&END) => session.send(&[])?,
                _ => {}
            }
        }
    }

    /// Runs a statement; its rows, none for statements without.
    pub fn query(&mut self, statement: &str) -> Result<Vec<TextRow>, QueryError> {
        Ok(self.ask(statement)?.rows)
    }

    /// Runs a statement that changes rows; how many it has changed.
    pub fn execute(&mut self, statement: &str) -> Result<u64, QueryError> {
        Ok(self.ask(statement)?.changed)
    }

    /// Runs a statement; all that the server says to it.
    pub fn ask(&mut self, statement: &str) -> Result<Answer, QueryError> {
        self.sequence = 0;
        let mut command = vec![COM_QUERY];
        command.extend(statement.as_bytes());
        self.send(&command)?;
        let mut answer = Answer::default();
        let first = self.packet()?;
        match first.first() {
            Some(&OK) => {
                (answer.changed, answer.insert_id, answer.warnings) = changed(&first)?;
                return Ok(answer);
            }
            Some(&ERROR) => return Err(refusal(&first)),
            _ => {}
        }
        let columns = length(&mut &first[..])?.ok_or_else(cut)?;
        for _ in 0..columns {
            answer.columns.push(column(&self.packet()?)?);
        }
        // What ends the columns.
        self.packet()?;
        loop {
            let packet = self.packet()?;
            match packet.first() {
                Some(&END) if packet.len() < 9 => {
                    answer.warnings = two_bytes(&packet, 1)?;
                    return Ok(answer);
                }
                Some(&ERROR) => return Err(refusal(&packet)),
                _ => answer.rows.push(row(&packet, answer.columns.len())?),
            }
        }
    }

    /// Has a statement prepared; the server's number for it.
    pub fn prepare(&mut self, statement: &str) -> Result<u32, QueryError> {
        self.sequence = 0;
        let mut command = vec![COM_STMT_PREPARE];
        command.extend(statement.as_bytes());
        self.send(&command)?;
        let first = self.packet()?;
        if first.first() == Some(&ERROR) {
            return Err(refusal(&first));
        }
        let number = first.get(1..5).ok_or_else(cut)?;
        let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
        // Of columns, then of parameters; they are described in the other order.
        for count in [two_bytes(&first, 7)?, two_bytes(&first, 5)?] {
            // What ends them is one more.
            for _ in 0..u32::from(count) + u32::from(count > 0) {
                self.packet()?;
            }
        }
        Ok(number)
    }

    /// The socket, between two statements.
    pub fn into_stream(self) -> UnixStream {
        assert!(self.stream.buffer().is_empty(), "an answer that nobody has read");
        self.stream.into_inner().0
    }

    /// Runs a statement whose answer is one number.
    pub fn number(&mut self, statement: &str) -> Result<i64, QueryError> {
        let rows = self.query(statement)?;
        let value = rows.first().and_then(|row| row.first()).cloned().flatten();
        let number = value.and_then(|text| text.parse().ok());
        number.ok_or_else(|| QueryError::Refused(0, format!("no number: {rows:?}")))
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut rest = payload;
        loop {
            let (part, after) = rest.split_at(rest.len().min(PART_MAX));
            let mut packet = (part.len() as u32).to_le_bytes()[..3].to_vec();
            packet.push(self.sequence);
            packet.extend(part);
            self.sequence = self.sequence.wrapping_add(1);
            self.stream.get_mut().0.write_all(&packet)?;
            rest = after;
            // A full part is followed by another, perhaps an empty one.
            if part.len() < PART_MAX {
                return Ok(());
            }
        }
    }

    fn packet(&mut self) -> io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            self.sequence = head[3].wrapping_add(1);
            let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.stream.read_exact(&mut payload[start..])?;
            if length < PART_MAX {
                return Ok(payload);
            }
        }
    }
}

/// A row of the text protocol.
fn row(packet: &[u8], columns: usize) -> io::Result<TextRow> {
    let mut rest = packet;
    let mut row = Vec::with_capacity(columns);
    for _ in 0..columns {
        row.push(match length(&mut rest)? {
            None => None,
            Some(length) => {
                let text = take(&mut rest, usize::try_from(length).map_err(|_| cut())?)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
        });
    }
    Ok(row)
}

/// The rows that an OK packet says were changed, its insert id, and the warnings it counts.
fn changed(packet: &[u8]) -> io::Result<(u64, u64, u16)> {
    let mut rest = packet.get(1..).unwrap_or_default();
    let changed = length(&mut rest)?.ok_or_else(cut)?;
    let insert_id = length(&mut rest)?.ok_or_else(cut)?;
    // The status, then the warnings.
    Ok((changed, insert_id, two_bytes(rest, 2)?))
}

/// A description of a column: six names, then numbers of fixed width.
fn column(packet: &[u8]) -> io::Result<Column> {
    let mut rest = packet;
    let mut names = Vec::new();
    for _ in 0..6 {
        let size = length(&mut rest)?.ok_or_else(cut)?;
        names.push(take(&mut rest, usize::try_from(size).map_err(|_| cut())?)?);
    }
    // After the length of the rest: character set, length, type.
    let kind = *rest.get(7).ok_or_else(cut)?;
    Ok(Column { name: String::from_utf8_lossy(names[4]).into_owned(), kind })
}

fn two_bytes(packet: &[u8], at: usize) -> io::Result<u16> {
    let bytes = packet.get(at..at + 2).ok_or_else(cut)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// A number of variable length; none for NULL.
fn length(rest: &mut &[u8]) -> io::Result<Option<u64>> {
    let bytes = match take(rest, 1)?[0] {
        NULL => return Ok(None),
        0xFC => take(rest, 2)?,
        0xFD => take(rest, 3)?,
        0xFE => take(rest, 8)?,
        short => return Ok(Some(u64::from(short))),
    };
    Ok(Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> io::Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count).ok_or_else(cut)?;
    *rest = left;
    Ok(taken)
}

fn refusal(packet: &[u8]) -> QueryError {
    let code = packet.get(1..3).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let text = packet.get(3..).unwrap_or_default();
    QueryError::Refused(code, String::from_utf8_lossy(text).into_owned())
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Long passwords' flags aside: protocol 4.1, transactions, secure connection, plugins by name.
const CAPABILITIES: u32 = 0x0000_0001 | 0x0000_0200 | 0x0000_2000 | 0x0000_8000 | 0x0008_0000;
/// Most bytes of a packet; what is longer is several.
const PART_MAX: usize = 0xFF_FFFF;
const UTF8MB4: u8 = 45;
const COM_QUERY: u8 = 3;
const COM_STMT_PREPARE: u8 = 22;
const OK: u8 = 0;
const ERROR: u8 = 0xFF;
const END: u8 = 0xFE;
const NULL: u8 = 0xFB;
