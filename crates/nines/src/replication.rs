//! Connections to the sources of replication, for the SQL node.
//!
//! # Owns
//! A thread for each source that is followed ([`Host`]): it connects, logs in, asks for the binary
//! log and keeps what has come until the SQL node takes it.
//! # Guarantees
//! What is kept has a limit, above which the source waits. A source that says nothing for longer
//! than it was told to is given up.
//! # Not here
//! What events mean (`sql`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use mysql_client::dump::{Reader, Start};
use mysql_client::{Login, QueryError, Session};
use sql::{Source, SourceFacts, SourceHost, SourceLog, SourceNews, SourceStart};

use crate::transfer;

mod encryption;

/// Bytes and events that are kept for the SQL node.
const KEPT_BYTES: usize = 16 << 20;
const KEPT_EVENTS: usize = 20_000;
/// How long a connection may take to be made.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);
/// The source has not the log that is asked for.
const FATAL: u16 = 1236;

/// Connects to sources.
#[derive(Debug)]
pub(crate) struct Host;

impl SourceHost for Host {
    fn follow(&self, source: Source) -> Option<Box<dyn SourceLog>> {
        let kept = Arc::new(Kept::default());
        let (of_thread, builder) = (kept.clone(), thread::Builder::new().name("source".to_owned()));
        builder.spawn(move || follow(&source, &of_thread)).ok()?;
        Some(Box::new(Log(kept)))
    }

    fn warn(&self, text: &str) {
        crate::tell(&format!("{} replication: {text}", crate::machine::timestamp()));
    }
}

/// What the SQL node holds of a connection.
struct Log(Arc<Kept>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl SourceLog for Log {
    fn take(&self) -> Vec<SourceNews> {
        let mut state = self.0.lock();
        state.bytes = 0;
        let news = state.news.drain(..).collect();
        self.0.room.notify_one();
        news
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        if let Some(socket) = &state.socket {
            // Whoever reads from it ends.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.0.room.notify_one();
    }
}

/// What has come and was not taken.
#[derive(Default)]
struct Kept {
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Default)]
struct State {
    news: VecDeque<SourceNews>,
    bytes: usize,
    socket: Option<TcpStream>,
    /// Nobody takes anything any more.
    is_over: bool,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked left plain values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds news, when there is room for them; false when nobody wants them.
    fn add(&self, news: SourceNews, bytes: usize) -> bool {
        let is_full = |state: &mut State| {
            !state.is_over && (state.bytes >= KEPT_BYTES || state.news.len() >= KEPT_EVENTS)
        };
        let state = self.room.wait_while(self.lock(), is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        state.news.push_back(news);
        !state.is_over
    }
}

/// Follows a source to the end of the connection.
fn follow(source: &Source, kept: &Kept) {
    let ended = |error: QueryError| {
        let (code, why) = match error {
            QueryError::Refused(code, text) => {
                let marked = text.strip_prefix('#').and_then(|text| text.get(5..));
                (code, marked.unwrap_or(&text).to_owned())
            }
            QueryError::Lost(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    let seconds = source.silence_millis / 1_000;
                    (2013, format!("the source has said nothing for {seconds} s"))
                }
                io::ErrorKind::UnexpectedEof => (2013, "the connection has ended".to_owned()),
                _ => (2003, error.to_string()),
            },
        };
        SourceNews::Ended { code, why, is_final: code == FATAL }
    };
    let news = match read(source, kept) {
        Ok(()) => SourceNews::Ended {
            code: 2013,
            why: "the source has ended the log".to_owned(),
            is_final: false,
        },
        Err(error) => ended(error),
    };
    kept.add(news, 0);
}

fn read(source: &Source, kept: &Kept) -> Result<(), QueryError> {
    let stream = connect(source)?;
    let silence = Duration::from_millis(source.silence_millis.max(1_000));
    stream.set_read_timeout(Some(silence))?;
    stream.set_write_timeout(Some(silence))?;
    stream.set_nodelay(true)?;
    {
        let mut state = kept.lock();
        if state.is_over {
            return Ok(());
        }
        state.socket = Some(stream.try_clone()?);
    }
    let login = Login {
        user: source.user.clone(),
        password: source.password.clone(),
        prove: transfer::prove,
        prove_natively: Some(prove_natively),
        encrypt: source.encryption.asks_key.then_some(encrypt_password),
    };
    let encrypt = |stream| encryption::encrypt(stream, &source.host, &source.encryption);
    let encrypt = source.encryption.is_wanted.then_some(&encrypt as mysql_client::Encrypt<'_>);
    let mut session = Session::log_in_over(stream, &login, encrypt)?;
    let facts = session.facts()?;
    let connected = SourceFacts {
        version: facts.version.clone(),
        server_id: facts.server_id,
        uuid: facts.uuid.clone(),
        has_checksums: facts.has_checksums,
    };
    let reader = Reader {
        server_id: source.server_id,
        uuid: source.uuid.clone(),
        heartbeat: Duration::from_millis(
            source.heartbeat_millis.clamp(1, source.silence_millis / 2),
        ),
        start: match &source.from {
            SourceStart::Oldest => Start::Oldest,
            SourceStart::Position(file, position) => Start::Position(file.clone(), *position),
            SourceStart::Gtids(_, set) => Start::Gtids(set.clone()),
            SourceStart::MariadbGtids(gtids) => Start::MariadbGtids(gtids.clone()),
            SourceStart::FirstGtid => Start::FirstGtid,
        },
    };
    let mut events = session.dump(&reader, &facts)?;
    if !kept.add(SourceNews::Connected(connected), 0) {
        return Ok(());
    }
    while let Some(event) = events.next_event()? {
        let bytes = event.len();
        if !kept.add(SourceNews::Event(event), bytes) {
            return Ok(());
        }
    }
    Ok(())
}

fn connect(source: &Source) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (source.host.as_str(), source.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTS_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What mysql_native_password asks for: SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))).
pub(crate) fn prove_natively(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let first = sum(password);
    let salted = sum(&[nonce, sum(first.as_ref()).as_ref()].concat());
    first.as_ref().iter().zip(salted.as_ref()).map(|(one, other)| one ^ other).collect()
}

/// Encrypts a password by the RSA key of a server, as caching_sha2_password asks for.
pub(crate) fn encrypt_password(secret: &[u8], pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = PublicEncryptingKey::from_der(&from_base64(&body)?).ok()?;
    let key = OaepPublicEncryptingKey::new(key).ok()?;
    let mut room = vec![0; key.ciphertext_size()];
    let sent = key.encrypt(&OAEP_SHA1_MGF1SHA1, secret, &mut room, None).ok()?;
    Some(sent.to_vec())
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        bits = bits << 6 | u32::from(digit(byte)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xFF) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_proof_is_the_one_of_the_description() {
        // SHA1("secret") XOR SHA1(nonce + SHA1(SHA1("secret"))), computed by Python's hashlib.
        let proof = prove_natively(b"secret", b"01234567890123456789");
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "7abe1a8776b59e931059451f81e596a60dbbf7a8");
        assert_eq!(from_base64("YWJjZA=="), Some(b"abcd".to_vec()));
        assert_eq!(from_base64("!"), None);
    }

    #[test]
    fn what_is_kept_has_a_limit_and_an_end() {
        let kept = Arc::new(Kept::default());
        let log = Log(kept.clone());
        assert!(kept.add(SourceNews::Event(vec![1]), KEPT_BYTES));
        let other = kept.clone();
        let waits = thread::spawn(move || other.add(SourceNews::Event(vec![2]), 1));
        assert_eq!(log.take(), [SourceNews::Event(vec![1])]);
        assert!(waits.join().expect("it ends"));
        assert!(kept.add(SourceNews::Event(vec![3]), KEPT_BYTES));
        let other = kept.clone();
        let waits = thread::spawn(move || other.add(SourceNews::Event(vec![4]), 1));
        drop(log);
        assert!(!waits.join().expect("it ends"), "nobody takes it");
    }
}
