//! MySQL's protocol as a client speaks it: packets of commands, and when an answer is whole.
//!
//! # Owns
//! Logins of `root` without a password, statements as text, prepared statements with parameters.
//! # Not here
//! Who carries the bytes (`application`). Packets of 16 MB, TLS, compression, cursors.

/// What a command is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// One packet: the greeting, or an answer to a login.
    Packet,
    /// A result of a statement.
    Result,
    /// The number of a prepared statement, and its definitions.
    Prepared,
}

/// What a statement has been answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows that were changed.
    pub changed: u64,
    /// The number that AUTO_INCREMENT has given; zero if it has given none.
    pub last_id: u64,
    /// Rows as text; none stands for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Answer {
    /// The integer at this place.
    pub fn int(&self, row: usize, column: usize) -> i64 {
        let text = self.rows[row][column].as_deref();
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{text:?} is no integer"))
    }

    /// The text at this place.
    pub fn text(&self, row: usize, column: usize) -> &str {
        self.rows[row][column].as_deref().expect("a value")
    }
}

/// The error that a server has answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL's number.
    pub code: u16,
    /// What it says.
    pub text: String,
}

const OK: u8 = 0x00;
const END: u8 = 0xFE;
const NULL: u8 = 0xFB;
const ERROR: u8 = 0xFF;
/// The first byte of a result that asks for a file: that of NULL in a row.
const FILE: u8 = 0xFB;
const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
const TYPE_LONGLONG: u8 = 8;

/// Logs `root` in.
pub(super) fn login() -> Vec<u8> {
    // PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH, LONG_PASSWORD, LOCAL_FILES.
    let mut login = 0x0008_A281_u32.to_le_bytes().to_vec();
    login.extend((1_u32 << 24).to_le_bytes());
    login.push(45); // utf8mb4
    login.extend([0; 23]);
    login.extend(b"root\0\0mysql_native_password\0");
    packet(1, &login)
}

/// The proof of an empty password.
pub(super) fn no_password() -> Vec<u8> {
    packet(3, &[])
}

/// Whether the server asks for another proof of who logs in.
pub(super) fn asks_for_proof(packets: &[Vec<u8>]) -> bool {
    packets[0].first() == Some(&END)
}

/// A statement as text.
pub(super) fn query(text: &str) -> Vec<u8> {
    packet(0, &[&[COM_QUERY], text.as_bytes()].concat())
}

/// A statement to prepare.
pub(super) fn prepare(text: &str) -> Vec<u8> {
    packet(0, &[&[COM_STMT_PREPARE], text.as_bytes()].concat())
}

/// A prepared statement with its parameters.
pub(super) fn execute(statement: u32, parameters: &[i64]) -> Vec<u8> {
    let mut payload = vec![COM_STMT_EXECUTE];
    payload.extend(statement.to_le_bytes());
    payload.push(0); // no cursor
    payload.extend(1_u32.to_le_bytes());
    if !parameters.is_empty() {
        payload.resize(payload.len() + parameters.len().div_ceil(8), 0);
        payload.push(1);
        payload.extend(parameters.iter().flat_map(|_| [TYPE_LONGLONG, 0]));
    }
    payload.extend(parameters.iter().flat_map(|value| value.to_le_bytes()));
    packet(0, &payload)
}

/// A prepared statement is not used any more; there is no answer.
pub(super) fn close(statement: u32) -> Vec<u8> {
    packet(0, &[&[COM_STMT_CLOSE], &statement.to_le_bytes()[..]].concat())
}

/// The client says goodbye.
pub(super) fn quit() -> Vec<u8> {
    packet(0, &[COM_QUIT])
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small packet").to_le_bytes();
    assert_eq!(length[3], 0, "a packet of 16 MB");
    let mut packet = vec![length[0], length[1], length[2], sequence];
    packet.extend(payload);
    packet
}

/// What a client has received, packet by packet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    packets: Vec<Vec<u8>>,
    /// Packets that end a part of a result.
    ends: usize,
}

impl Incoming {
    /// Takes bytes that have come.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Takes an answer out of what has been received, if it is whole.
    pub(super) fn take_whole(&mut self, expected: Expected) -> Option<Vec<Vec<u8>>> {
        let mut taken = 0;
        let mut whole = false;
        while !whole
            && let [a, b, c, _, after @ ..] = &self.bytes[taken..]
            && let Some(payload) = after.get(..u32::from_le_bytes([*a, *b, *c, 0]) as usize)
        {
            taken += 4 + payload.len();
            self.ends += usize::from(is_end(payload));
            self.packets.push(payload.to_vec());
            whole = is_whole(expected, &self.packets, self.ends);
        }
        self.bytes.drain(..taken);
        if !whole {
            return None;
        }
        self.ends = 0;
        Some(std::mem::take(&mut self.packets))
    }
}

fn is_whole(expected: Expected, packets: &[Vec<u8>], ends: usize) -> bool {
    let first = packets[0].first().copied();
    let failed = packets.last().is_some_and(|packet| packet.first() == Some(&ERROR));
    match expected {
        Expected::Packet => true,
        _ if failed => true,
        // The columns, and the rows.
        Expected::Result => matches!(first, Some(OK | FILE)) || ends == 2,
        Expected::Prepared => {
            let counts = [&packets[0][5..7], &packets[0][7..9]];
            ends == counts.iter().filter(|count| ***count != [0, 0]).count()
        }
    }
}

fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&END) && packet.len() < 9
}

/// Whether the server asks for the contents of a file.
pub(super) fn asks_for_file(packets: &[Vec<u8>]) -> bool {
    packets[0].first() == Some(&FILE)
}

/// A part of a file that the server has asked for, by its number from zero; an empty one ends the
/// file.
pub(super) fn file_part(number: usize, bytes: &[u8]) -> Vec<u8> {
    // The statement was packet 0, and the question for the file packet 1.
    packet((2 + number) as u8, bytes)
}

/// The error that an answer ends with, if it does.
fn refuse_error(packets: &[Vec<u8>]) -> Result<(), ServerError> {
    let Some(error) = packets.last().filter(|packet| packet[0] == ERROR) else { return Ok(()) };
    let code = u16::from_le_bytes([error[1], error[2]]);
    // '#' and an SQLSTATE come before the text.
    let text = String::from_utf8_lossy(error.get(9..).unwrap_or_default()).into_owned();
    Err(ServerError { code, text })
}

/// What the packets of an answer say.
pub(super) fn read(packets: &[Vec<u8>]) -> Result<Answer, ServerError> {
    refuse_error(packets)?;
    let mut answer = Answer::default();
    if packets[0][0] == OK {
        let mut rest = &packets[0][1..];
        answer.changed = take_length(&mut rest).expect("a count");
        answer.last_id = take_length(&mut rest).expect("a number");
        return Ok(answer);
    }
    let rows = packets.iter().skip_while(|packet| !is_end(packet)).skip(1);
    for packet in rows.filter(|packet| !is_end(packet)) {
        let (mut rest, mut row) = (packet.as_slice(), Vec::new());
        while !rest.is_empty() {
            row.push(take_length(&mut rest).map(|length| {
                let (text, more) = rest.split_at(length as usize);
                rest = more;
                String::from_utf8(text.to_vec()).expect("text")
            }));
        }
        answer.rows.push(row);
    }
    Ok(answer)
}

/// The number of the statement that was prepared.
pub(super) fn read_prepared(packets: &[Vec<u8>]) -> Result<u32, ServerError> {
    refuse_error(packets)?;
    let number = packets[0][1..5].try_into().expect("four bytes");
    Ok(u32::from_le_bytes(number))
}

/// A number of MySQL's variable length; none for NULL.
fn take_length(rest: &mut &[u8]) -> Option<u64> {
    let (first, more) = rest.split_first().expect("a length");
    let size = match *first {
        NULL => {
            *rest = more;
            return None;
        }
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => 0,
    };
    let (bytes, more) = more.split_at(size);
    *rest = more;
    let mut number = [0; 8];
    number[..size].copy_from_slice(bytes);
    Some(if size == 0 { (*first).into() } else { u64::from_le_bytes(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: u8) -> Vec<u8> {
        packet(0, &[3, b'd', b'e', b'f', name])
    }

    fn incoming(bytes: &[u8]) -> Incoming {
        let mut incoming = Incoming::default();
        incoming.extend(bytes);
        incoming
    }

    #[test]
    fn an_answer_is_taken_when_it_is_whole_and_not_before() {
        let end = packet(0, &[END, 0, 0, 2, 0]);
        let row = packet(0, &[1, b'7', NULL, 0xFC, 2, 0, b'a', b'b']);
        let whole = [packet(0, &[3]), column(1), column(2), column(3), end.clone(), row, end];
        let whole = whole.concat();
        let mut received = Incoming::default();
        for byte in &whole[..whole.len() - 1] {
            received.extend(&[*byte]);
            assert_eq!(received.take_whole(Expected::Result), None);
        }
        received.extend(&[whole[whole.len() - 1], 1, 2]);
        let packets = received.take_whole(Expected::Result).expect("a whole answer");
        assert_eq!(received.bytes, [1, 2], "what follows stays");
        let answer = read(&packets).expect("rows");
        assert_eq!(answer.rows, [[Some("7".into()), None, Some("ab".into())]]);
        assert_eq!((answer.int(0, 0), answer.text(0, 2)), (7, "ab"));
    }

    #[test]
    fn counts_numbers_and_errors_are_read() {
        let mut ok = incoming(&packet(1, &[OK, 0xFC, 44, 1, 9, 2, 0, 0, 0]));
        let packets = ok.take_whole(Expected::Result).expect("a whole answer");
        let answer = read(&packets).expect("OK");
        assert_eq!((answer.changed, answer.last_id), (300, 9));
        let mut error = incoming(&packet(1, b"\xFF\xBD\x04#40001Deadlock found"));
        let packets = error.take_whole(Expected::Result).expect("a whole answer");
        let failed = ServerError { code: 1213, text: "Deadlock found".into() };
        assert_eq!(read(&packets), Err(failed));
        let mut file = incoming(&packet(1, b"\xFBname"));
        let packets = file.take_whole(Expected::Result).expect("a question for a file");
        assert!(asks_for_file(&packets));
    }

    #[test]
    fn a_statement_is_prepared_when_its_definitions_are_there() {
        let end = packet(0, &[END, 0, 0, 2, 0]);
        // A number that would be NULL in the place of a length.
        let first = packet(1, &[OK, 251, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        let mut received = incoming(&[first, column(1)].concat());
        assert_eq!(received.take_whole(Expected::Prepared), None);
        received.extend(&end);
        let packets = received.take_whole(Expected::Prepared).expect("a whole answer");
        assert_eq!(read_prepared(&packets), Ok(251));
    }
}
