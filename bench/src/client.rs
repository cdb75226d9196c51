//! A client of MySQL's protocol for [`Cluster`]: packets are made before anything is counted, and
//! answers are checked afterwards.
//!
//! # Owns
//! The one connection's session: its login, texts, prepared statements.
//! # Not here
//! Values of rows: that rows have come is all that is checked, what is in them is for other tests.

use crate::cluster::Cluster;

/// A parameter of a prepared statement.
#[derive(Clone, Copy, Debug)]
pub enum Parameter<'a> {
    /// As INT.
    Int(i32),
    /// As CHAR.
    Text(&'a str),
}

/// What a statement must be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// So many rows.
    Rows(usize),
    /// No rows, and so many that were changed (up to 250).
    Changed(u8),
}

/// The number of a prepared statement.
#[derive(Clone, Copy, Debug)]
pub struct Statement(u32);

/// A logged-in client.
pub struct Client {
    cluster: Cluster,
    answer: Vec<u8>,
}

impl Client {
    /// Logs in as root.
    pub fn new(cluster: Cluster) -> Self {
        let mut client = Self { cluster, answer: Vec::new() };
        // PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH, LOCAL_FILES, LONG_PASSWORD.
        let mut login = 0x0008_A281_u32.to_le_bytes().to_vec();
        login.extend((1_u32 << 24).to_le_bytes());
        login.push(45); // utf8mb4
        login.extend([0; 23]);
        login.extend(b"root\0\0mysql_native_password\0");
        client.cluster.exchange(&packet(1, &login), &mut client.answer);
        let packets = payloads(&client.answer);
        // The greeting, and then: OK, or the wish for another proof of the empty password.
        let last = packets.last().expect("an answer to the login");
        if last[0] == SWITCH {
            client.answer.clear();
            client.cluster.exchange(&packet(3, &[]), &mut client.answer);
        }
        let last = payloads(&client.answer).pop().map(<[u8]>::to_vec);
        assert_eq!(last.expect("an answer")[0], OK, "the login is refused");
        client
    }

    /// Runs a statement that is not counted.
    pub fn run(&mut self, text: &str) {
        self.send(&query(text));
        refuse_errors(&self.answer);
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, text: &str) -> Statement {
        self.send(&packet(0, &[&[COM_STMT_PREPARE], text.as_bytes()].concat()));
        refuse_errors(&self.answer);
        let first = payloads(&self.answer)[0];
        Statement(u32::from_le_bytes([first[1], first[2], first[3], first[4]]))
    }

    /// Sends a command, and looks whether the answer is as expected.
    pub fn ask(&mut self, command: &Command) {
        self.send(&command.packets);
        command.check(&self.answer);
    }

    /// As [`Client::ask`]; what the cluster does is counted by a profiler that looks for
    /// [`Cluster::counted_exchange`].
    pub fn ask_counted(&mut self, command: &Command) {
        self.answer.clear();
        self.cluster.counted_exchange(&command.packets, &mut self.answer);
        command.check(&self.answer);
    }

    /// Runs LOAD DATA LOCAL; what the cluster does with the file is counted if that is wanted.
    pub fn load(&mut self, text: &str, file: &[u8], counted: bool) {
        self.send(&query(text));
        assert_eq!(payloads(&self.answer)[0][0], FILE_WANTED, "the file is asked for");
        self.answer.clear();
        let mut sequence = 2_u8;
        for part in file.chunks(FILE_PART) {
            let packet = packet(sequence, part);
            sequence = sequence.wrapping_add(1);
            if counted { self.cluster.counted_feed(&packet) } else { self.cluster.feed(&packet) }
        }
        let end = packet(sequence, &[]);
        if counted {
            self.cluster.counted_exchange(&end, &mut self.answer)
        } else {
            self.cluster.exchange(&end, &mut self.answer)
        }
        refuse_errors(&self.answer);
        assert_eq!(payloads(&self.answer)[0][0], OK, "the rows are loaded");
    }

    /// The cluster.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    fn send(&mut self, packets: &[u8]) {
        self.answer.clear();
        self.cluster.exchange(packets, &mut self.answer);
    }
}

/// A command, ready to be sent.
#[derive(Clone, Debug)]
pub struct Command {
    packets: Vec<u8>,
    expected: Expected,
}

impl Command {
    /// A statement as text.
    pub fn text(text: &str, expected: Expected) -> Self {
        Self { packets: query(text), expected }
    }

    /// A prepared statement with its parameters.
    pub fn execute(statement: Statement, parameters: &[Parameter<'_>], expected: Expected) -> Self {
        let mut payload = vec![COM_STMT_EXECUTE];
        payload.extend(statement.0.to_le_bytes());
        payload.push(0); // no cursor
        payload.extend(1_u32.to_le_bytes());
        if !parameters.is_empty() {
            // None is NULL, and types are sent each time, as clients' libraries do.
            payload.resize(payload.len() + parameters.len().div_ceil(8), 0);
            payload.push(1);
            for parameter in parameters {
                payload.extend(match parameter {
                    Parameter::Int(_) => [TYPE_LONG, 0],
                    Parameter::Text(_) => [TYPE_STRING, 0],
                });
            }
        }
        for parameter in parameters {
            match parameter {
                Parameter::Int(value) => payload.extend(value.to_le_bytes()),
                Parameter::Text(text) => {
                    put_length(&mut payload, text.len());
                    payload.extend(text.as_bytes());
                }
            }
        }
        Self { packets: packet(0, &payload), expected }
    }

    fn check(&self, answer: &[u8]) {
        refuse_errors(answer);
        let packets = payloads(answer);
        let found = if packets[0][0] == OK {
            Expected::Changed(packets[0][1])
        } else {
            // The count of columns, the columns, an end, the rows, an end.
            Expected::Rows(packets.len() - usize::from(packets[0][0]) - 3)
        };
        assert_eq!(found, self.expected);
    }
}

const OK: u8 = 0;
const ERROR: u8 = 0xFF;
const FILE_WANTED: u8 = 0xFB;
/// Bytes of a file in a packet, as MySQL's client sends them.
const FILE_PART: usize = 16 << 10;
const SWITCH: u8 = 0xFE;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const TYPE_LONG: u8 = 3;
const TYPE_STRING: u8 = 254;
/// Says that a length follows in two bytes; 251 stands for NULL.
const TWO_BYTES: u8 = 252;

fn query(text: &str) -> Vec<u8> {
    packet(0, &[&[COM_QUERY], text.as_bytes()].concat())
}

/// The length of a text, which must be smaller than 64 KiB.
fn put_length(payload: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < TWO_BYTES - 1 => payload.push(short),
        _ => {
            payload.push(TWO_BYTES);
            payload.extend(u16::try_from(length).expect("a text of some length").to_le_bytes());
        }
    }
}

/// A packet, which must be smaller than 16 MB.
fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small packet").to_le_bytes();
    assert_eq!(length[3], 0, "a packet of 16 MB");
    let mut packet = vec![length[0], length[1], length[2], sequence];
    packet.extend(payload);
    packet
}

/// What is in the packets of an answer.
fn payloads(mut answer: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    while let [a, b, c, _, rest @ ..] = answer {
        let (payload, more) = rest.split_at(u32::from_le_bytes([*a, *b, *c, 0]) as usize);
        payloads.push(payload);
        answer = more;
    }
    payloads
}

fn refuse_errors(answer: &[u8]) {
    for payload in payloads(answer) {
        assert_ne!(payload[0], ERROR, "{}", String::from_utf8_lossy(payload));
    }
}
