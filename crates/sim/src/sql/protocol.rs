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
const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
const TYPE_LONGLONG: u8 = 8;

/// Logs `root` in.
pub(super) fn login() -> Vec<u8> {
    // PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH, LONG_PASSWORD.
    let mut login = 0x0008_A201_u32.to_le_bytes().to_vec();
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

/// Takes an answer out of what has been received, if it is whole.
pub(super) fn take_whole(expected: Expected, received: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    let mut rest = received.as_slice();
    let mut end = None;
    while end.is_none()
        && let [a, b, c, _, after @ ..] = rest
        && let Some((payload, more)) =
            after.split_at_checked(u32::from_le_bytes([*a, *b, *c, 0]) as usize)
    {
        packets.push(payload.to_vec());
        rest = more;
        end = is_whole(expected, &packets).then_some(rest.len());
    }
    let taken = received.len() - end?;
    received.drain(..taken);
    Some(packets)
}

fn is_whole(expected: Expected, packets: &[Vec<u8>]) -> bool {
    let first = packets[0][0];
    let ends = packets.iter().filter(|packet| is_end(packet)).count();
    let failed = packets.last().is_some_and(|packet| packet.first() == Some(&ERROR));
    match expected {
        Expected::Packet => true,
        _ if failed => true,
        // The columns, and the rows.
        Expected::Result => first == OK || ends == 2,
        Expected::Prepared => {
            let counts = [&packets[0][5..7], &packets[0][7..9]];
            ends == counts.iter().filter(|count| ***count != [0, 0]).count()
        }
    }
}

fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&END) && packet.len() < 9
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

    #[test]
    fn an_answer_is_taken_when_it_is_whole_and_not_before() {
        let end = packet(0, &[END, 0, 0, 2, 0]);
        let row = packet(0, &[1, b'7', NULL, 0xFC, 2, 0, b'a', b'b']);
        let whole = [packet(0, &[3]), column(1), column(2), column(3), end.clone(), row, end];
        let whole = whole.concat();
        for length in 0..whole.len() {
            let mut part = whole[..length].to_vec();
            assert_eq!(take_whole(Expected::Result, &mut part), None, "{length}");
            assert_eq!(part.len(), length);
        }
        let mut received = [whole, vec![1, 2]].concat();
        let packets = take_whole(Expected::Result, &mut received).expect("a whole answer");
        assert_eq!(received, [1, 2], "what follows stays");
        let answer = read(&packets).expect("rows");
        assert_eq!(answer.rows, [[Some("7".into()), None, Some("ab".into())]]);
        assert_eq!((answer.int(0, 0), answer.text(0, 2)), (7, "ab"));
    }

    #[test]
    fn counts_numbers_and_errors_are_read() {
        let mut ok = packet(1, &[OK, 0xFC, 44, 1, 9, 2, 0, 0, 0]);
        let packets = take_whole(Expected::Result, &mut ok).expect("a whole answer");
        let answer = read(&packets).expect("OK");
        assert_eq!((answer.changed, answer.last_id), (300, 9));
        let mut error = packet(1, b"\xFF\xBD\x04#40001Deadlock found");
        let packets = take_whole(Expected::Result, &mut error).expect("a whole answer");
        let failed = ServerError { code: 1213, text: "Deadlock found".into() };
        assert_eq!(read(&packets), Err(failed));
    }

    #[test]
    fn a_statement_is_prepared_when_its_definitions_are_there() {
        let end = packet(0, &[END, 0, 0, 2, 0]);
        // A number that would be NULL in the place of a length.
        let first = packet(1, &[OK, 251, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        let mut part = [first.clone(), column(1)].concat();
        assert_eq!(take_whole(Expected::Prepared, &mut part), None);
        let mut whole = [first, column(1), end].concat();
        let packets = take_whole(Expected::Prepared, &mut whole).expect("a whole answer");
        assert_eq!(read_prepared(&packets), Ok(251));
    }
}
