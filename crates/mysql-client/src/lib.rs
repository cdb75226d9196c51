//! A client of MySQL's protocol, small enough to see exactly when an answer has come and when the
//! server was lost.
//!
//! # Owns
//! A connection over a Unix socket, or over TCP, there also encrypted by whoever uses this; text
//! queries, one at a time. Statements can be prepared, for whoever takes over the socket and runs
//! them. Binary logs are read ([`dump`]).
//! # Not here
//! Real clients, which programs of others use: the tests try those.

pub mod dump;

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};

/// A row of texts; none for NULL.
pub type TextRow = Vec<Option<String>>;

/// A row of values as their bytes came; none for NULL.
pub type RawRow = Vec<Option<Vec<u8>>>;

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// Read through a buffer, as an answer is many small packets.
    stream: BufReader<Awaited>,
    sequence: u8,
    /// Bytes of a packet that are taken at most.
    packet_max: usize,
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
struct Awaited(Stream);

impl Read for Awaited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let awaited = match &self.0 {
            Stream::Unix(stream) => Some(stream.as_fd()),
            Stream::Tcp(stream) => Some(stream.as_fd()),
            // These have a limit of their own for how long they wait.
            Stream::Patient(_) | Stream::Encrypted(_) => None,
        };
        if let Some(awaited) = awaited {
            poll(&mut [PollFd::new(&awaited, PollFlags::IN)], None)?;
        }
        match &mut self.0 {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) | Stream::Patient(stream) => stream.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

/// A connection that somebody else encrypts.
pub trait Duplex: Read + Write + fmt::Debug + Send {}

impl<T: Read + Write + fmt::Debug + Send> Duplex for T {}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    /// With a limit for how long a read waits, which its owner has set.
    Patient(TcpStream),
    Encrypted(Box<dyn Duplex>),
}

impl Stream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) | Self::Patient(stream) => stream.write_all(bytes),
            Self::Encrypted(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Unix socket.
    Socket(PathBuf),
    /// A host and a port: what is sent is not encrypted.
    Tcp(String, u16),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Who logs in.
#[derive(Clone)]
pub struct Login {
    /// The account.
    pub user: String,
    /// Its password; empty for none.
    pub password: String,
    /// The proof of a password that caching_sha2_password asks for, from the password and the
    /// server's nonce.
    pub prove: Prove,
    /// The same for mysql_native_password, if that is to be spoken.
    pub prove_natively: Option<Prove>,
    /// Encrypts bytes by the RSA key of a server, which comes as PEM, for a password that is sent
    /// over a connection that is not encrypted; none if passwords are not to be sent so.
    pub encrypt: Option<EncryptSecret>,
}

/// Makes the proof of a password, from the password and the server's nonce.
pub type Prove = fn(&[u8], &[u8]) -> Vec<u8>;

/// Encrypts a secret by a key, which comes as PEM; none if that is no key.
pub type EncryptSecret = fn(&[u8], &[u8]) -> Option<Vec<u8>>;

/// Makes an encrypted connection of one that is not.
pub type Encrypt<'e> = &'e dyn Fn(TcpStream) -> io::Result<Box<dyn Duplex>>;

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects and logs in as `root`, without a password.
    pub fn connect(socket: &Path) -> Result<Session, QueryError> {
        Self::connect_as(socket, "root")
    }

    /// Connects and logs in without a password.
    pub fn connect_as(socket: &Path, user: &str) -> Result<Session, QueryError> {
        let stream = BufReader::new(Awaited(Stream::Unix(UnixStream::connect(socket)?)));
        let mut session = Session { stream, sequence: 0, packet_max: usize::MAX };
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

    /// Connects and logs in with a password, or with an account of the Unix socket.
    ///
    /// # Errors
    /// When the account proves itself in another way than by caching_sha2_password or auth_socket,
    /// or would have to send its password over TCP as it is.
    pub fn log_in(target: &Target, login: &Login) -> Result<Session, QueryError> {
        let stream = match target {
            Target::Socket(path) => Stream::Unix(UnixStream::connect(path)?),
            Target::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        let is_private = matches!(stream, Stream::Unix(_));
        Self::greeted(stream, login, None, is_private)
    }

    /// Logs in over a Unix socket that there is. `is_private` says that the server takes the
    /// connection for one that nobody reads along: then a password may be sent as it is.
    ///
    /// # Errors
    /// As [`Session::log_in`].
    pub fn log_in_by(
        stream: UnixStream,
        login: &Login,
        is_private: bool,
    ) -> Result<Session, QueryError> {
        Self::greeted(Stream::Unix(stream), login, None, is_private)
    }

    /// Logs in over a connection that there is; with `encrypt` over one that becomes encrypted. A
    /// read waits as long as its owner has set.
    ///
    /// # Errors
    /// As [`Session::log_in`], and when the server does not encrypt.
    pub fn log_in_over(
        stream: TcpStream,
        login: &Login,
        encrypt: Option<Encrypt<'_>>,
    ) -> Result<Session, QueryError> {
        Self::greeted(Stream::Patient(stream), login, encrypt, encrypt.is_some())
    }

    fn greeted(
        stream: Stream,
        login: &Login,
        encrypt: Option<Encrypt<'_>>,
        is_private: bool,
    ) -> Result<Session, QueryError> {
        let stream = BufReader::new(Awaited(stream));
        let mut session = Session { stream, sequence: 0, packet_max: LOGIN_PACKET_MAX };
        let greeting = session.packet()?;
        if greeting.first() == Some(&ERROR) {
            return Err(refusal(&greeting));
        }
        let encrypted = if encrypt.is_some() { SSL } else { 0 };
        if let Some(encrypt) = encrypt {
            session = session.encrypted(&greeting, encrypt)?;
        }
        let proof = |nonce: &[u8]| {
            if login.password.is_empty() {
                Vec::new()
            } else {
                (login.prove)(login.password.as_bytes(), nonce)
            }
        };
        let mut last_nonce = nonce(&greeting)?;
        let proven = proof(&last_nonce);
        let mut packet = (CAPABILITIES | encrypted).to_le_bytes().to_vec();
        packet.extend((1u32 << 24).to_le_bytes());
        packet.push(UTF8MB4);
        packet.extend([0; 23]);
        packet.extend(login.user.as_bytes());
        packet.push(0);
        packet.push(u8::try_from(proven.len()).map_err(|_| cut())?);
        packet.extend(proven);
        packet.extend(CACHING_SHA2);
        packet.push(0);
        session.send(&packet)?;
        loop {
            let answer = session.packet()?;
            match (answer.first(), answer.get(1)) {
                (Some(&OK), _) => return Ok(Session { packet_max: usize::MAX, ..session }),
                (Some(&ERROR), _) => return Err(refusal(&answer)),
                (Some(&END), _) => {
                    let (plugin, nonce) = switched(&answer)?;
                    nonce.clone_into(&mut last_nonce);
                    match plugin {
                        CACHING_SHA2 => session.send(&proof(nonce))?,
                        b"mysql_native_password" if !login.password.is_empty() => {
                            let Some(prove) = login.prove_natively else {
                                return Err(unspoken(plugin));
                            };
                            session.send(&prove(login.password.as_bytes(), nonce))?;
                        }
                        b"auth_socket" => session.send(&[])?,
                        _ if login.password.is_empty() => session.send(&[])?,
                        other => return Err(unspoken(other)),
                    }
                }
                // The proof is known.
                (Some(&MORE), Some(&3)) => {}
                (Some(&MORE), _) if is_private => {
                    session.send(&[login.password.as_bytes(), b"\0"].concat())?;
                }
                (Some(&MORE), first) => {
                    if let Some(encrypt) = login.encrypt.filter(|_| first == Some(&4)) {
                        session.send_encrypted(&login.password, &last_nonce, encrypt)?;
                        continue;
                    }
                    let why = "the server wants the password itself, which is not sent over TCP \
                               without encryption: use TLS or the Unix socket; for a \
                               replication channel SOURCE_SSL = 1, or GET_SOURCE_PUBLIC_KEY = 1";
                    return Err(QueryError::Refused(0, why.to_owned()));
                }
                _ => return Err(cut().into()),
            }
        }
    }

    /// Sends a password that is encrypted by the server's key.
    fn send_encrypted(
        &mut self,
        password: &str,
        nonce: &[u8],
        encrypt: EncryptSecret,
    ) -> Result<(), QueryError> {
        self.send(&[REQUEST_KEY])?;
        let answer = self.packet()?;
        let key = answer.strip_prefix(&[MORE]).ok_or_else(cut)?;
        let secret = [password.as_bytes(), b"\0"].concat();
        let masked: Vec<u8> = secret.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
        let sent = encrypt(&masked, key).ok_or_else(cut)?;
        Ok(self.send(&sent)?)
    }

    /// Has the connection encrypted, after the greeting.
    fn encrypted(mut self, greeting: &[u8], encrypt: Encrypt<'_>) -> Result<Session, QueryError> {
        if capabilities(greeting)? & SSL == 0 {
            let why = "the server does not encrypt connections";
            return Err(QueryError::Refused(2026, why.to_owned()));
        }
        let mut packet = (CAPABILITIES | SSL).to_le_bytes().to_vec();
        packet.extend((1u32 << 24).to_le_bytes());
        packet.push(UTF8MB4);
        packet.extend([0; 23]);
        self.send(&packet)?;
        let Session { stream, sequence, packet_max } = self;
        let Stream::Patient(stream) = stream.into_inner().0 else { return Err(cut().into()) };
        let stream = Awaited(Stream::Encrypted(encrypt(stream)?));
        Ok(Session { stream: BufReader::new(stream), sequence, packet_max })
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
        let mut rows = Vec::new();
        let mut answer = self.each_row(statement, |row| {
            rows.push(row);
            Ok(())
        })?;
        answer.rows = rows;
        Ok(answer)
    }

    /// Runs a statement, and hands its rows over as they come; the rest of what the server says.
    ///
    /// # Errors
    /// Also what `take` says. The connection is of no use after that.
    pub fn each_row(
        &mut self,
        statement: &str,
        mut take: impl FnMut(TextRow) -> io::Result<()>,
    ) -> Result<Answer, QueryError> {
        self.each_row_at_hand(statement, |row, _| take(row))
    }

    /// The same, and says with each row whether more of the answer has come already.
    ///
    /// # Errors
    /// As [`Session::each_row`].
    pub fn each_row_at_hand(
        &mut self,
        statement: &str,
        mut take: impl FnMut(TextRow, bool) -> io::Result<()>,
    ) -> Result<Answer, QueryError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.each_packet(statement, |packet, columns, more| take(row(packet, columns, text)?, more))
    }

    /// The same, with values as their bytes came.
    ///
    /// # Errors
    /// As [`Session::each_row`].
    pub fn each_raw_row(
        &mut self,
        statement: &str,
        mut take: impl FnMut(RawRow) -> io::Result<()>,
    ) -> Result<Answer, QueryError> {
        self.each_packet(statement, |packet, columns, _| {
            take(row(packet, columns, <[u8]>::to_vec)?)
        })
    }

    /// Takes no packet of more bytes: a server that sends one is lost. What is allocated for an
    /// answer has then a limit.
    pub fn limit_packets(&mut self, bytes: usize) {
        self.packet_max = bytes;
    }

    /// Runs a statement, and hands the packet of each row over, with the count of columns and
    /// whether more of the answer has come already.
    fn each_packet(
        &mut self,
        statement: &str,
        mut take: impl FnMut(&[u8], usize, bool) -> io::Result<()>,
    ) -> Result<Answer, QueryError> {
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
                _ => take(&packet, answer.columns.len(), !self.stream.buffer().is_empty())?,
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
        match self.stream.into_inner().0 {
            Stream::Unix(stream) => stream,
            _ => panic!("a connection over TCP has no Unix socket"),
        }
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
            if start + length > self.packet_max {
                let why = format!("the server sends more than {} bytes at once", self.packet_max);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            payload.resize(start + length, 0);
            self.stream.read_exact(&mut payload[start..])?;
            if length < PART_MAX {
                return Ok(payload);
            }
        }
    }
}

/// A row of the text protocol, each value made by `value`.
fn row<T>(packet: &[u8], columns: usize, value: impl Fn(&[u8]) -> T) -> io::Result<Vec<Option<T>>> {
    let mut rest = packet;
    let mut row = Vec::with_capacity(columns);
    for _ in 0..columns {
        row.push(match length(&mut rest)? {
            None => None,
            Some(length) => {
                Some(value(take(&mut rest, usize::try_from(length).map_err(|_| cut())?)?))
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

/// The nonce of a greeting: eight bytes after the version and the number of the connection, and
/// twelve more after the capabilities.
fn nonce(greeting: &[u8]) -> io::Result<Vec<u8>> {
    let version = greeting.get(1..).ok_or_else(cut)?.iter().position(|byte| *byte == 0);
    let at = 1 + version.ok_or_else(cut)? + 1 + 4;
    let first = greeting.get(at..at + 8).ok_or_else(cut)?;
    let second = greeting.get(at + 27..at + 39).ok_or_else(cut)?;
    Ok([first, second].concat())
}

/// The lower half of what a server is capable of, which stands behind its nonce.
fn capabilities(greeting: &[u8]) -> io::Result<u32> {
    let version = greeting.get(1..).ok_or_else(cut)?.iter().position(|byte| *byte == 0);
    let at = 1 + version.ok_or_else(cut)? + 1 + 4 + 8 + 1;
    two_bytes(greeting, at).map(u32::from)
}

/// An account that proves itself in a way that is not spoken.
fn unspoken(plugin: &[u8]) -> QueryError {
    let plugin = String::from_utf8_lossy(plugin);
    let why = format!(
        "the account is identified by {plugin}, which this program does not speak: use \
         caching_sha2_password or auth_socket"
    );
    QueryError::Refused(0, why)
}

/// The plugin that a server asks for instead, and its nonce.
fn switched(packet: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let rest = packet.get(1..).ok_or_else(cut)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
    let nonce = &rest[end + 1..];
    Ok((&rest[..end], nonce.strip_suffix(b"\0").unwrap_or(nonce)))
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
/// Most bytes of a packet of a server before a login has succeeded.
const LOGIN_PACKET_MAX: usize = 1 << 20;
/// Connections can be encrypted.
const SSL: u32 = 0x0800;
/// Asks for the RSA key of a server.
const REQUEST_KEY: u8 = 2;
const UTF8MB4: u8 = 45;
const COM_QUERY: u8 = 3;
const COM_STMT_PREPARE: u8 = 22;
const OK: u8 = 0;
const ERROR: u8 = 0xFF;
const END: u8 = 0xFE;
const NULL: u8 = 0xFB;
/// More of a login.
const MORE: u8 = 1;
const CACHING_SHA2: &[u8] = b"caching_sha2_password";

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn login() -> Login {
        Login {
            user: "u".to_owned(),
            password: String::new(),
            prove: |_, _| Vec::new(),
            prove_natively: None,
            encrypt: None,
        }
    }

    /// A server that says these packets, each after what it was asked.
    fn said_by(packets: Vec<Vec<u8>>) -> UnixStream {
        let (client, mut server) = UnixStream::pair().expect("two ends");
        thread::spawn(move || {
            for packet in packets {
                // Who has heard enough goes away.
                let _ = server.write_all(&packet);
                let _ = server.read(&mut [0; 4096]);
            }
        });
        client
    }

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(0);
        packet.extend(payload);
        packet
    }

    fn greeting() -> Vec<u8> {
        let mut greeting = b"\x0A8\0".to_vec();
        greeting.extend([b'x'; 60]);
        framed(&greeting)
    }

    #[test]
    fn packets_without_an_end_are_not_taken() {
        let part = framed(&vec![b'x'; PART_MAX]);
        let lost = Session::log_in_by(said_by(vec![part.clone()]), &login(), true).unwrap_err();
        assert!(lost.to_string().contains("more than 1048576 bytes"), "{lost}");
        let ok = framed(&[OK, 0, 0, 2, 0, 0, 0]);
        let server = said_by(vec![greeting(), ok, part.repeat(3)]);
        let mut session = Session::log_in_by(server, &login(), true).expect("it lets us in");
        session.limit_packets(1 << 25);
        let lost = session.query("SELECT 1").unwrap_err();
        assert!(lost.to_string().contains("more than 33554432 bytes"), "{lost}");
    }

    #[test]
    fn raw_rows_have_the_bytes_that_came() {
        let column = [&b"\x03def\0\0\0\x01a\0\x0C"[..], &[63, 0, 9, 0, 0, 0, 252, 0, 0, 0, 0, 0]];
        let end = framed(&[END, 0, 0, 2, 0]);
        let rows = [b"\x03\0\xFF'".to_vec(), vec![NULL]].map(|row| framed(&row));
        let answer = [framed(&[1]), framed(&column.concat()), end.clone(), rows.concat(), end];
        let ok = framed(&[OK, 0, 0, 2, 0, 0, 0]);
        let server = said_by(vec![greeting(), ok, answer.concat()]);
        let mut session = Session::log_in_by(server, &login(), true).expect("it lets us in");
        let mut found: Vec<RawRow> = Vec::new();
        let take = |row| {
            found.push(row);
            Ok(())
        };
        let answer = session.each_raw_row("SELECT a", take).expect("rows");
        assert_eq!(answer.columns, [Column { name: "a".to_owned(), kind: 252 }]);
        assert_eq!(found, [vec![Some(b"\0\xFF'".to_vec())], vec![None]]);
    }
}
