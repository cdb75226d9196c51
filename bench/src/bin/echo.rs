//! A server of MySQL's protocol that does nothing: every query is answered with the same row, every
//! other statement with OK. What it costs, and what its clients cost, is the floor for any server
//! of the protocol on this machine. `echo SOCKET` listens until it is killed.
//!
//! # Not here
//! Passwords, several statements in one, anything that is not asked by `sysbench`. Its clients are
//! trusted.
#![expect(clippy::print_stderr, reason = "a command-line tool complains on standard error")]

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::thread;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: echo SOCKET");
        return ExitCode::FAILURE;
    };
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for stream in listener.incoming().flatten() {
        // A client that leaves is the end of its thread, whatever the reason.
        thread::spawn(move || serve(stream));
    }
    ExitCode::SUCCESS
}

const QUIT: u8 = 1;
const QUERY: u8 = 3;
const PREPARE: u8 = 22;
const EXECUTE: u8 = 23;
const CLOSE: u8 = 25;
const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];
const END: [u8; 5] = [0xFE, 0, 0, 2, 0];
/// As long as sysbench's column `c`.
const TEXT: [u8; 119] = [b'0'; 119];
/// PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH, LONG_PASSWORD, CONNECT_WITH_DB.
const CAPABILITIES: u32 = 0x0008_A209;

/// Answers a client until it leaves.
fn serve(stream: UnixStream) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut answer = Answer::default();
    answer.begin(0);
    answer.packet(&greeting());
    answer.send(&mut stream)?;
    let (mut payload, mut rows) = (Vec::new(), Vec::<bool>::new());
    let sequence = read(&mut stream, &mut payload)?;
    answer.begin(sequence + 1);
    answer.packet(&OK);
    answer.send(&mut stream)?;
    loop {
        read(&mut stream, &mut payload)?;
        answer.begin(1);
        match payload.split_first() {
            Some((&QUIT, _)) | None => return Ok(()),
            Some((&QUERY, text)) if has_rows(text) => answer.rows(&text_row()),
            Some((&PREPARE, text)) => {
                rows.push(has_rows(text));
                answer.prepared(rows.len() as u32, has_rows(text), text);
            }
            Some((&EXECUTE, [a, b, c, d, ..])) => {
                let number = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                match rows.get(number.wrapping_sub(1)) {
                    Some(true) => answer.rows(&binary_row()),
                    _ => answer.packet(&OK),
                }
            }
            Some((&CLOSE, _)) => continue,
            Some(_) => answer.packet(&OK),
        }
        answer.send(&mut stream)?;
    }
}

/// Reads a packet; its number.
fn read(stream: &mut BufReader<UnixStream>, payload: &mut Vec<u8>) -> io::Result<u8> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    payload.resize(u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize, 0);
    stream.read_exact(payload)?;
    Ok(head[3])
}

fn has_rows(text: &[u8]) -> bool {
    let first = text.trim_ascii_start().get(..4).unwrap_or_default();
    first.eq_ignore_ascii_case(b"sele") || first.eq_ignore_ascii_case(b"show")
}

fn greeting() -> Vec<u8> {
    let capabilities = CAPABILITIES.to_le_bytes();
    let mut greeting = b"\x0a8.0.0-echo\0\x01\0\0\0abcdefgh\0".to_vec();
    greeting.extend(&capabilities[..2]);
    greeting.extend([45, 2, 0]);
    greeting.extend(&capabilities[2..]);
    greeting.push(21);
    greeting.extend([0; 10]);
    greeting.extend(b"ijklmnopqrst\0mysql_native_password\0");
    greeting
}

/// The row as text.
fn text_row() -> Vec<u8> {
    [&[TEXT.len() as u8][..], &TEXT].concat()
}

/// The row of a prepared statement.
fn binary_row() -> Vec<u8> {
    [&[0, 0, TEXT.len() as u8][..], &TEXT].concat()
}

/// The definition of the only column, and of every parameter.
fn column() -> Vec<u8> {
    let mut column = b"\x03def\0\0\0\x01c\0\x0c".to_vec();
    column.extend([45, 0]);
    column.extend(480_u32.to_le_bytes());
    column.extend([254, 0, 0, 0, 0, 0]);
    column
}

/// The packets of an answer.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    sequence: u8,
}

impl Answer {
    fn begin(&mut self, sequence: u8) {
        self.bytes.clear();
        self.sequence = sequence;
    }

    fn packet(&mut self, payload: &[u8]) {
        self.bytes.extend(&(payload.len() as u32).to_le_bytes()[..3]);
        self.bytes.push(self.sequence);
        self.bytes.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn rows(&mut self, row: &[u8]) {
        self.packet(&[1]);
        self.packet(&column());
        self.packet(&END);
        self.packet(row);
        self.packet(&END);
    }

    /// What a statement is called, its parameters and its columns.
    fn prepared(&mut self, number: u32, has_rows: bool, text: &[u8]) {
        let parameters = text.iter().filter(|byte| **byte == b'?').count();
        let mut head = vec![0];
        head.extend(number.to_le_bytes());
        head.extend(u16::from(has_rows).to_le_bytes());
        head.extend((parameters as u16).to_le_bytes());
        head.extend([0, 0, 0]);
        self.packet(&head);
        for count in [parameters, usize::from(has_rows)] {
            (0..count).for_each(|_| self.packet(&column()));
            if count > 0 {
                self.packet(&END);
            }
        }
    }

    fn send(&mut self, stream: &mut BufReader<UnixStream>) -> io::Result<()> {
        stream.get_mut().write_all(&self.bytes)
    }
}
