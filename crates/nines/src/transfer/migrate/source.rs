//! The server that is imported from: connections, what it is, and snapshots of it.
//!
//! # Owns
//! Sessions that read values as they are ([`Migration::connect_source`]); the checks before
//! anything is copied ([`check`]); snapshots with their place in the log ([`snapshot`]).
//! # Guarantees
//! 1. All sessions of a snapshot show one moment, and its place in the log is that moment.
//! 2. What a server sends is data: an answer has a limit, and none is run.
//! # Not here
//! What the source's definitions are (`schema`), rows (`copy`).

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use mysql_client::{Duplex, Encrypt, QueryError, Session};
use serde::{Deserialize, Serialize};

use super::{Encryption, Migration, tell};
use crate::transfer::column::text;
use crate::transfer::shown;

/// How long a connection may take to be made, and an answer to come.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);
const ANSWERS_WITHIN: Duration = Duration::from_secs(3_600);
/// Bytes of a packet of the source: more than the longest value that a column takes here.
const PACKET_MAX: usize = (1 << 30) + (64 << 20);
/// How often the lock of the source is asked for, and for how long each time, in seconds: who waits
/// for it holds up all writers there.
const LOCK_ATTEMPTS: u32 = 6;
const LOCK_SECONDS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_secs(2);
/// Errors: a lock is not to be had, a right is missing, a variable is not known, not understood.
const LOCK_TIMEOUT: u16 = 1205;
const NO_RIGHT: u16 = 1227;
const SYNTAX: u16 = 1064;

/// A session that reads values as they are.
const PREPARATIONS: [&str; 6] = [
    "SET NAMES utf8mb4",
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    // A cluster that has lost a node may let a reader wait, and a snapshot may be idle for hours.
    "SET SESSION net_write_timeout = 86400",
    "SET SESSION wait_timeout = 2000000",
];
/// What only some servers have.
const PREPARATIONS_OF_SOME: [&str; 5] = [
    "SET SESSION sql_quote_show_create = 1",
    "SET SESSION max_statement_time = 0",
    "SET SESSION max_execution_time = 0",
    "SET SESSION idle_transaction_timeout = 0",
    "SET SESSION information_schema_stats_expiry = 0",
];

/// A place in a binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) file: String,
    pub(super) offset: u64,
}

impl Position {
    /// Whether the log up to `other` is done when that up to here is.
    pub(super) fn has_reached(&self, other: &Position) -> bool {
        // Numbers of files have as many digits as they need.
        let key = |place: &Position| (place.file.len(), place.file.clone(), place.offset);
        key(self) >= key(other)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mysql,
    MariaDb,
    Nines,
}

/// What is known of a source.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    pub(super) version: String,
    /// Connections to it are encrypted.
    pub(super) is_encrypted: bool,
}

impl Migration {
    /// A session at the source.
    pub(super) fn connect_source(&self) -> Result<(Session, bool), String> {
        let (mut session, is_encrypted) = self.log_in_source(false)?;
        let said = |why: QueryError| self.at_source(&why);
        for statement in PREPARATIONS {
            session.query(statement).map_err(said)?;
        }
        for statement in PREPARATIONS_OF_SOME {
            if let Err(lost @ QueryError::Lost(_)) = session.query(statement) {
                return Err(self.at_source(&lost));
            }
        }
        Ok((session, is_encrypted))
    }

    /// A session of one of the two accounts, as it is after the login.
    fn log_in_source(&self, of_replica: bool) -> Result<(Session, bool), String> {
        let login = if of_replica { &self.replica_login } else { &self.source_login };
        let said = |why: &QueryError| {
            format!("{} as {}: {}", self.address.server(), login.user, shown(why))
        };
        let (authorities, wants) = match &self.encryption {
            Encryption::IfThere => (None, true),
            Encryption::Verified(path) => (Some(path.as_path()), true),
            Encryption::Never => (None, false),
        };
        let encrypt = |stream: TcpStream| {
            let verifies = authorities.is_some();
            let host = &self.address.host;
            let stream = runtime::connect_to_source(stream, host, authorities, verifies)?;
            Ok::<Box<dyn Duplex>, io::Error>(Box::new(stream))
        };
        let first = self.first_encrypted.get().copied();
        let connect = || self.connect_tcp().map_err(|why| said(&QueryError::Lost(why)));
        if wants {
            let encrypt: Encrypt<'_> = &encrypt;
            match Session::log_in_over(connect()?, login, Some(encrypt)) {
                Ok(mut session) => {
                    session.limit_packets(PACKET_MAX);
                    self.tell_encryption(true);
                    return Ok((session, true));
                }
                Err(QueryError::Refused(2026, _)) if first == Some(true) => {
                    return Err(format!(
                        "{}: its first connection was encrypted, and now it does not encrypt: \
                         somebody may be between. No password was sent",
                        self.address.server()
                    ));
                }
                // It does not encrypt.
                Err(QueryError::Refused(2026, _)) if authorities.is_none() => {}
                Err(why) => return Err(said(&why)),
            }
        }
        let mut session =
            Session::log_in_over(connect()?, login, None).map_err(|why| match why.code() {
                Some(0) => format!(
                    "{}; or say --source-insecure: the key that the source tells is believed",
                    said(&why)
                ),
                _ => said(&why),
            })?;
        session.limit_packets(PACKET_MAX);
        self.tell_encryption(false);
        Ok((session, false))
    }

    /// Tells once whether somebody between here and the source can read what is sent.
    fn tell_encryption(&self, is_encrypted: bool) {
        if self.first_encrypted.set(is_encrypted).is_err() || is_loopback(&self.address.host) {
            return;
        }
        let server = self.address.server();
        let remedy = "--source-tls-ca FILE verifies it";
        match (&self.encryption, is_encrypted) {
            (Encryption::Verified(_), _) => {}
            (_, true) => tell(&format!(
                "the certificate of {server} is not verified: whoever is between can pose as it, \
                 and read the password: {remedy}"
            )),
            (_, false) => tell(&format!(
                "the connection to {server} is not encrypted: whoever is between can read all \
                 rows, and may get the password: {remedy}, and encrypts"
            )),
        }
    }

    fn connect_tcp(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (self.address.host.as_str(), self.address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECTS_WITHIN) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
                    stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// An error of the source.
    pub(super) fn at_source(&self, why: &QueryError) -> String {
        format!("{}: {}", self.address.server(), shown(why))
    }
}

/// Whether what is sent to a host stays on this one.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// A value of an answer of one row.
pub(super) fn cell(row: &[Option<String>], at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

/// A global variable; none if the server has none of this name.
pub(super) fn variable(session: &mut Session, name: &str) -> Result<Option<String>, QueryError> {
    let pattern = name.replace('_', "\\_");
    let rows = session.query(&format!("SHOW GLOBAL VARIABLES LIKE '{pattern}'"))?;
    let row = rows.iter().find(|row| cell(row, 0).eq_ignore_ascii_case(name));
    Ok(row.map(|row| cell(row, 1)))
}

/// Where the log ends; none if there is none.
pub(super) fn log_end(
    session: &mut Session,
) -> Result<Option<(Position, [String; 2])>, QueryError> {
    let rows = match session.query("SHOW BINARY LOG STATUS") {
        Err(QueryError::Refused(SYNTAX, _)) => session.query("SHOW MASTER STATUS")?,
        other => other?,
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let offset = cell(row, 1).parse().unwrap_or(4);
    Ok(Some((Position { file: cell(row, 0), offset }, [cell(row, 2), cell(row, 3)])))
}

/// What a server is.
pub(super) fn facts(session: &mut Session, is_encrypted: bool) -> Result<Facts, QueryError> {
    let rows = session.query("SELECT @@version")?;
    let version = rows.first().map(|row| cell(row, 0)).unwrap_or_default();
    let is = |part: &str| version.to_ascii_lowercase().contains(part);
    let kind = if is("mariadb") {
        Kind::MariaDb
    } else if is("nines") {
        Kind::Nines
    } else {
        Kind::Mysql
    };
    Ok(Facts { kind, version, is_encrypted })
}

/// What keeps a source from being followed, each with its remedy.
pub(super) fn check(
    migration: &Migration,
    session: &mut Session,
    target: &mut Session,
) -> Result<Vec<String>, String> {
    let said = |why: QueryError| migration.at_source(&why);
    let mut problems = Vec::new();
    let wanted: [(&str, &[&str], &str); 6] = [
        ("log_bin", &["ON", "1"], "start the server with log_bin"),
        (
            "binlog_format",
            &["ROW"],
            "SET GLOBAL binlog_format = 'ROW', and let clients connect anew",
        ),
        ("binlog_row_image", &["FULL"], "SET GLOBAL binlog_row_image = 'FULL'"),
        ("log_bin_compress", &["OFF"], "SET GLOBAL log_bin_compress = OFF"),
        (
            "binlog_transaction_compression",
            &["OFF"],
            "SET GLOBAL binlog_transaction_compression = OFF",
        ),
        ("binlog_row_value_options", &[""], "SET GLOBAL binlog_row_value_options = ''"),
    ];
    for (name, values, remedy) in wanted {
        let Some(value) = variable(session, name).map_err(said)? else { continue };
        if !values.iter().any(|wanted| wanted.eq_ignore_ascii_case(&value)) {
            problems.push(format!("the source has {name} = {value}: {remedy}"));
        }
    }
    let own = variable(session, "server_id").map_err(said)?.unwrap_or_default();
    let here = variable(target, "server_id").map_err(|why| shown(&why))?.unwrap_or_default();
    if own == "0" {
        problems.push("the source has server_id = 0: SET GLOBAL server_id = N there".to_owned());
    } else if own == here {
        problems.push(format!(
            "the source and this cluster have both server_id = {own}, so the source's changes \
             would be taken for this cluster's own: SET PERSIST server_id = N here"
        ));
    }
    match log_end(session) {
        Ok(Some((_, [only, without]))) => {
            let is_named =
                |list: &str, name: &String| list.split(',').any(|one| one.trim() == name);
            for database in &migration.address.databases {
                if !only.is_empty() && !is_named(&only, database) || is_named(&without, database) {
                    problems.push(format!(
                        "the source does not log database `{database}` (binlog_do_db, \
                         binlog_ignore_db): start it without these options"
                    ));
                }
            }
        }
        Ok(None) => {}
        Err(QueryError::Refused(NO_RIGHT | 1045 | 1044, _)) => problems.push(format!(
            "`{}` may not see where the log of the source ends: GRANT REPLICATION CLIENT ON *.* TO \
             it (MariaDB: BINLOG MONITOR)",
            migration.source_login.user
        )),
        Err(why) => return Err(migration.at_source(&why)),
    }
    match migration.log_in_source(true) {
        Err(why) => problems.push(format!("the account that follows the source: {why}")),
        Ok((mut replica, _)) => {
            let grants = replica.query("SHOW GRANTS").map_err(said)?;
            let grants: Vec<String> = grants.iter().map(|row| cell(row, 0)).collect();
            if !may_follow(&grants) {
                problems.push(format!(
                    "`{}` may not read the log of the source: GRANT REPLICATION SLAVE ON *.* TO \
                     it, or name another account by --replication-user",
                    migration.replica_login.user
                ));
            }
        }
    }
    Ok(problems)
}

/// Whether grants let an account read the log. What roles grant is found out when it is read.
fn may_follow(grants: &[String]) -> bool {
    grants.iter().any(|grant| {
        let grant = grant.to_ascii_uppercase();
        let Some((rights, rest)) = grant.split_once(" ON ") else { return grant.contains(" TO ") };
        rest.starts_with("*.*")
            && (rights.contains("REPLICATION SLAVE") || rights.contains("ALL PRIVILEGES"))
    })
}

/// Sessions that show one moment.
pub(super) struct Snapshot {
    pub(super) sessions: Vec<Session>,
    /// Where that moment is in the log; none if that was not asked for.
    pub(super) position: Option<Position>,
}

const BEGIN: &str = "START TRANSACTION WITH CONSISTENT SNAPSHOT";

/// Begins a snapshot with up to as many sessions as there are jobs.
pub(super) fn snapshot(migration: &Migration, facts: &Facts) -> Result<Snapshot, String> {
    let (session, _) = migration.connect_source()?;
    match facts.kind {
        // A snapshot of a cluster knows its place, and locks of sessions hold nobody back.
        Kind::Nines => {
            if migration.jobs > 1 {
                tell("the source is a cluster: one connection reads it");
            }
            of_one(migration, session, Kind::Nines)
        }
        Kind::MariaDb if migration.jobs == 1 => of_one(migration, session, Kind::MariaDb),
        Kind::MariaDb | Kind::Mysql => locked(migration, session, facts.kind),
    }
}

/// One session, whose place the server tells without a lock.
fn of_one(migration: &Migration, mut session: Session, kind: Kind) -> Result<Snapshot, String> {
    let said = |why: QueryError| migration.at_source(&why);
    session.query(BEGIN).map_err(said)?;
    let position = match (migration.follows, kind) {
        (false, _) => None,
        (true, Kind::MariaDb) => {
            let rows = session.query("SHOW STATUS LIKE 'binlog_snapshot%'").map_err(said)?;
            let value = |name: &str| {
                let row = rows.iter().find(|row| cell(row, 0).eq_ignore_ascii_case(name));
                row.map(|row| cell(row, 1)).unwrap_or_default()
            };
            let offset = value("binlog_snapshot_position").parse().unwrap_or(0);
            Some(Position { file: value("binlog_snapshot_file"), offset })
        }
        (true, _) => log_end(&mut session).map_err(said)?.map(|(position, _)| position),
    };
    if migration.follows && position.as_ref().is_none_or(|place| place.file.is_empty()) {
        return Err(format!(
            "{} does not tell the place of a snapshot in its log",
            migration.address.server()
        ));
    }
    Ok(Snapshot { sessions: vec![session], position })
}

/// Several sessions, which begin while a lock keeps everybody from committing.
fn locked(migration: &Migration, mut lock: Session, kind: Kind) -> Result<Snapshot, String> {
    let said = |why: QueryError| migration.at_source(&why);
    // Whatever takes time is done before the lock.
    let mut sessions = Vec::new();
    for _ in 0..migration.jobs {
        sessions.push(migration.connect_source()?.0);
    }
    lock.query(&format!("SET SESSION lock_wait_timeout = {LOCK_SECONDS}")).map_err(said)?;
    for attempt in 1.. {
        match lock.query("FLUSH TABLES WITH READ LOCK") {
            Ok(_) => break,
            Err(QueryError::Refused(LOCK_TIMEOUT, _)) if attempt < LOCK_ATTEMPTS => {
                tell("a long statement at the source holds up FLUSH TABLES WITH READ LOCK: again");
                thread::sleep(LOCK_PAUSE);
            }
            Err(QueryError::Refused(LOCK_TIMEOUT, _)) => {
                return Err(format!(
                    "{}: FLUSH TABLES WITH READ LOCK was not to be had within {LOCK_SECONDS} s, \
                     {LOCK_ATTEMPTS} times: end the long statements there (SHOW PROCESSLIST), or \
                     come back later",
                    migration.address.server()
                ));
            }
            Err(QueryError::Refused(NO_RIGHT | 1045 | 1044, _)) if kind == Kind::MariaDb => {
                tell("without RELOAD at the source one connection reads it");
                let session = sessions.swap_remove(0);
                return of_one(migration, session, kind);
            }
            Err(QueryError::Refused(NO_RIGHT | 1045 | 1044, _)) => {
                return Err(format!(
                    "{}: `{}` may not lock tables for the moment in which the snapshot begins: \
                     GRANT RELOAD ON *.* TO it",
                    migration.address.server(),
                    migration.source_login.user
                ));
            }
            Err(why) => return Err(migration.at_source(&why)),
        }
    }
    for session in &mut sessions {
        session.query(BEGIN).map_err(said)?;
    }
    let position = if migration.follows {
        let end = log_end(&mut lock).map_err(said)?;
        let end = end.ok_or_else(|| format!("{} has no log", migration.address.server()))?;
        Some(end.0)
    } else {
        None
    };
    lock.query("UNLOCK TABLES").map_err(said)?;
    Ok(Snapshot { sessions, position })
}

/// A list of texts as SQL has it, for IN.
pub(super) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|one| text(one)).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::transfer::migrate::tests::migration;

    #[test]
    fn a_source_that_does_not_encrypt_any_more_gets_no_password() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("it connects");
            // A greeting whose capabilities have all but TLS.
            let mut greeting = b"\x4b\0\0\0\x0A8\0".to_vec();
            greeting.extend([b'x'; 13]);
            greeting.extend([0xFF, 0xF7, 45, 2, 0, 0xFF, 0xFF, 21]);
            greeting.resize(4 + 0x4b, b'x');
            client.write_all(&greeting).expect("it is sent");
            let mut sent = Vec::new();
            client.read_to_end(&mut sent).map(|_| sent)
        });
        let migration = migration(&format!("mysql://u@127.0.0.1:{port}/d"));
        migration.first_encrypted.set(true).expect("it is the first");
        let why = migration.connect_source().map(|_| ()).expect_err("it is refused");
        assert!(why.contains("now it does not encrypt"), "{why}");
        let sent = server.join().expect("it ends").expect("it is read");
        assert!(sent.is_empty(), "{sent:?}");
    }

    #[test]
    fn places_of_a_log_are_in_the_order_of_its_files() {
        let at = |file: &str, offset| Position { file: file.to_owned(), offset };
        assert!(at("log.000002", 4).has_reached(&at("log.000001", 900)));
        assert!(at("log.000001", 900).has_reached(&at("log.000001", 900)));
        assert!(!at("log.000001", 899).has_reached(&at("log.000001", 900)));
        assert!(at("log.1000000", 4).has_reached(&at("log.999999", 900)));
        assert!(!at("", 0).has_reached(&at("log.000001", 4)));
    }

    #[test]
    fn grants_of_all_databases_let_an_account_follow() {
        let may = |grant: &str| may_follow(&[grant.to_owned()]);
        assert!(may("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"));
        assert!(may("GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `r`@`%`"));
        assert!(may("GRANT `role` TO `r`@`%`"), "a role may");
        assert!(!may("GRANT ALL PRIVILEGES ON `d`.* TO `r`@`%`"));
        assert!(!may("GRANT SELECT ON *.* TO `r`@`%`"));
    }
}
