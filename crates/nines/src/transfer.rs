//! `nines import` and `nines export`: rows of tables from and to text files, and databases from
//! other servers, through MySQL's protocol.
//!
//! # Owns
//! How a server is found and logged in to.
//! # Not here
//! What is done (`import`, `export`, `migrate`), the form of files (`record`, `decode`).

mod column;
pub(crate) mod command;
mod decode;
mod export;
mod import;
mod journal;
mod migrate;
mod record;

use std::fs;
use std::path::PathBuf;

use aws_lc_rs::digest;
pub(crate) use column::name as quoted_name;
use mysql_client::{Login, QueryError, Session, Target};

/// A session that reads a file as it is, and writes it likewise.
const PREPARATIONS: [&str; 2] = [
    // No escapes are others, a zero is no order to count on, and dates may be what they are.
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION time_zone = '+00:00'",
];

/// An SQL node, and who logs in.
#[derive(Clone, Debug)]
struct Server {
    target: Target,
    login: Login,
}

impl Server {
    fn connect(&self) -> Result<Session, String> {
        let said =
            |why: QueryError| format!("{} as {}: {}", self.target, self.login.user, shown(&why));
        let mut session = Session::log_in(&self.target, &self.login).map_err(said)?;
        for statement in PREPARATIONS {
            session.query(statement).map_err(said)?;
        }
        Ok(session)
    }
}

/// The password in the first line of a file.
fn password(path: &PathBuf) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// What caching_sha2_password asks for: SHA256(password) XOR SHA256(SHA256(SHA256(password)),
/// nonce).
pub(crate) fn prove(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
    let first = sum(password);
    let twice = sum(first.as_ref());
    let salted = sum(&[twice.as_ref(), nonce].concat());
    first.as_ref().iter().zip(salted.as_ref()).map(|(one, other)| one ^ other).collect()
}

/// What a server says, without the mark of its SQLSTATE.
fn shown(error: &QueryError) -> String {
    match error {
        QueryError::Refused(code, text) => {
            let marked = text.strip_prefix('#').and_then(|text| text.get(5..));
            format!("error {code}: {}", marked.unwrap_or(text))
        }
        lost => lost.to_string(),
    }
}

/// Whether the same may succeed when it is tried again: others were in the way, a node has failed
/// or stops, there are too many connections.
fn is_temporary(error: &QueryError) -> bool {
    matches!(error.code(), Some(1040 | 1053 | 1205 | 1213 | 1297 | 1412))
}
