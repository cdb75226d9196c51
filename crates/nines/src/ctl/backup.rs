//! START BACKUP and ABORT BACKUP, as NDB's users type them, for the SQL node of this host.
//!
//! # Owns
//! The words, and the statements that they become.
//! # Guarantees
//! A password is neither in the history nor in the arguments of a process: there it is refused.
//! # Not here
//! What a backup is (`sql`); other backups than of all, and their places (BACKUP in SQL).

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use mysql_client::{QueryError, Session};

/// The variables of the environment that say where the SQL node is, and who asks.
const SOCKET: &str = "NINES_SQL_SOCKET";
const USER: &str = "NINES_SQL_USER";
/// What is before the number in the name of a backup, as NDB has it.
const NAME: &str = "BACKUP-";

/// An order about backups.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// A backup of all.
    Start {
        /// Its number; none for one that is made from the time.
        id: Option<u32>,
        password: Option<String>,
        /// The order ends with it; else as soon as it has begun.
        waits: bool,
    },
    /// The end of a backup that runs.
    Abort(u32),
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start { id, .. } => f.debug_struct("Start").field("id", id).finish(),
            Self::Abort(id) => f.debug_tuple("Abort").field(id).finish(),
        }
    }
}

/// Whether words may have a password in them.
pub(super) fn shows_password(words: &[String]) -> bool {
    words.iter().any(|word| word.to_ascii_lowercase().contains("password"))
}

/// Reads what follows START or ABORT, where the case of a password is of matter.
pub(super) fn read(verb: &str, rest: &[&str]) -> Result<Order, String> {
    let number = |word: &str| word.parse::<u32>().ok().filter(|id| *id > 0);
    if verb == "abort" {
        return match rest {
            [_, id] => number(id).map(Order::Abort).ok_or(format!("`{id}` is no id of a backup")),
            _ => Err("abort which backup? `abort backup ID`".to_owned()),
        };
    }
    let (mut id, mut password, mut waits) = (None, None, true);
    let lower: Vec<String> = rest.iter().map(|word| word.to_ascii_lowercase()).collect();
    let mut at = 1;
    while at < rest.len() {
        let next = lower.get(at + 1).map(String::as_str);
        at += match (lower[at].as_str(), next) {
            ("wait", Some("completed")) => 2,
            ("nowait", _) => {
                waits = false;
                1
            }
            ("wait", Some("started")) => {
                waits = false;
                2
            }
            ("snapshotstart", _) => 1,
            ("snapshotend", _) => {
                return Err(
                    "a backup is the state of the moment when it begins: SNAPSHOTSTART".to_owned()
                );
            }
            ("encrypt", Some(_)) => {
                let (given, words) = read_password(&rest[at + 1..])?;
                password = Some(given);
                1 + words
            }
            ("encrypt", None) => return Err(NO_PASSWORD.to_owned()),
            (word, _) => {
                let number = number(word).filter(|_| id.is_none() && at == 1);
                id =
                    Some(number.ok_or_else(|| {
                        format!("`{}` is too much after `start backup`", rest[at])
                    })?);
                1
            }
        };
    }
    Ok(Order::Start { id, password, waits })
}

/// `PASSWORD='…'` or `PASSWORD "…"`, which may have spaces in it; and how many words that are.
fn read_password(words: &[&str]) -> Result<(String, usize), String> {
    let text = words.join(" ");
    let is_password = text.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("password"));
    let rest = text.get(8..).filter(|_| is_password).ok_or(NO_PASSWORD)?;
    let value = rest.trim_start().strip_prefix('=').unwrap_or(rest).trim_start();
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let quote = quote.ok_or(NO_PASSWORD)?;
    let (password, after) = value[1..].split_once(quote).ok_or(NO_PASSWORD)?;
    if password.is_empty() {
        return Err(NO_PASSWORD.to_owned());
    }
    Ok((password.to_owned(), words.len() - after.split_whitespace().count()))
}

/// Carries out an order; the line that tells how it went.
pub(super) fn run(order: &Order) -> Result<String, String> {
    let mut session = connect()?;
    match order {
        Order::Start { id, password, waits } => {
            let id = id.unwrap_or_else(seconds);
            let rows = ask(&mut session, &statement(id, password.as_deref(), *waits))?;
            // Job, directory; of one that was waited for also epoch, tables, rows, bytes.
            let of = |at: usize| {
                rows.first().and_then(|row| row.get(at)).cloned().flatten().unwrap_or_default()
            };
            if !waits {
                return Ok(format!(
                    "backup {id} has begun: {}, job {}; `SHOW BACKUP JOBS` of the SQL node tells \
                     what comes of it",
                    of(1),
                    of(0)
                ));
            }
            let (directory, epoch, tables) = (of(1), of(2), of(3));
            let (rows, bytes) = (of(4), of(5));
            Ok(format!(
                "backup {id} completed: {directory}, epoch {epoch}, {tables} tables, {rows} rows, \
                 {bytes} bytes"
            ))
        }
        Order::Abort(id) => {
            let jobs = ask(&mut session, "SHOW BACKUP JOBS")?;
            let name = format!("/{NAME}{id}");
            let is_it = |row: &&Vec<Option<String>>| {
                let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
                text(1) == "BACKUP" && text(2).ends_with(&name) && text(9) == "running"
            };
            let job = jobs.iter().find(is_it).and_then(|row| row[0].clone());
            let job = job.ok_or_else(|| format!("no backup {id} runs on this SQL node"))?;
            ask(&mut session, &format!("CANCEL BACKUP JOB {job}"))?;
            Ok(format!("backup {id} is ended, and removes what it has written"))
        }
    }
}

/// The statement of a backup.
fn statement(id: u32, password: Option<&str>, waits: bool) -> String {
    let mut options: Vec<String> = Vec::new();
    if let Some(password) = password {
        let text = password.replace('\\', "\\\\").replace('\'', "''");
        options.push(format!("passphrase = '{text}'"));
    }
    if !waits {
        options.push("detached".to_owned());
    }
    let with = if options.is_empty() { "" } else { " WITH " };
    format!("BACKUP ALL INTO '{NAME}{id}'{with}{}", options.join(", "))
}

fn ask(session: &mut Session, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    session.query(statement).map_err(|why| match why {
        QueryError::Refused(_, why) if why.contains("no absolute path") => {
            "the SQL node does not know where backups are made: set BackupDataDir in [mysqld]"
                .to_owned()
        }
        why => why.to_string(),
    })
}

fn connect() -> Result<Session, String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let socket = set(SOCKET).map(PathBuf::from).ok_or_else(|| {
        format!(
            "backups are made by an SQL node: say which by {SOCKET}=PATH, its Unix socket on this \
             host, or use BACKUP ALL INTO '/directory' in SQL"
        )
    })?;
    let user = set(USER).or_else(|| set("USER")).unwrap_or_else(|| "root".to_owned());
    Session::connect_as(&socket, &user).map_err(|why| {
        format!(
            "{}: {why} (as {user}; {USER} names another account, one without a password or \
             IDENTIFIED WITH auth_socket)",
            socket.display()
        )
    })
}

fn seconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

const NO_PASSWORD: &str = "encrypt with what? ENCRYPT PASSWORD='…'";

#[cfg(test)]
mod tests {
    use super::*;

    fn order(line: &str) -> Result<Order, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        read(&words[0].to_ascii_lowercase(), &words[1..])
    }

    #[test]
    fn lines_are_those_of_ndb() {
        let start = |id, password: Option<&str>| {
            Ok(Order::Start { id, password: password.map(str::to_owned), waits: true })
        };
        let begins = |id| Ok(Order::Start { id, password: None, waits: false });
        for (line, expected) in [
            ("START BACKUP", start(None, None)),
            ("START BACKUP 7 WAIT COMPLETED SNAPSHOTSTART", start(Some(7), None)),
            (
                "start backup ENCRYPT PASSWORD='Se cret' wait completed",
                start(None, Some("Se cret")),
            ),
            ("START BACKUP 3 ENCRYPT PASSWORD = \"a'b\\\"", start(Some(3), Some("a'b\\"))),
            ("START BACKUP NOWAIT", begins(None)),
            ("START BACKUP 5 WAIT STARTED", begins(Some(5))),
            ("ABORT BACKUP 7", Ok(Order::Abort(7))),
        ] {
            assert_eq!(order(line), expected, "{line}");
        }
        for (line, part) in [
            ("START BACKUP WAIT LONG", "too much"),
            ("START BACKUP SNAPSHOTEND", "SNAPSHOTSTART"),
            ("START BACKUP 0", "too much"),
            ("START BACKUP 1 2", "too much"),
            ("START BACKUP ENCRYPT", "with what"),
            ("START BACKUP ENCRYPT PASSWORD=", "with what"),
            ("START BACKUP ENCRYPT PASSWORD='Secret", "with what"),
            ("START BACKUP ENCRYPT KEY='Secret'", "with what"),
            ("ABORT BACKUP", "which backup"),
            ("ABORT BACKUP x", "no id"),
        ] {
            let why = order(line).unwrap_err();
            assert!(why.contains(part) && !why.contains("Secret"), "{line}: {why}");
        }
        assert!(!format!("{:?}", order("START BACKUP ENCRYPT PASSWORD='Secret'")).contains("Sec"));
    }

    #[test]
    fn a_password_is_a_text_of_sql() {
        assert_eq!(statement(5, None, true), "BACKUP ALL INTO 'BACKUP-5'");
        assert_eq!(statement(5, None, false), "BACKUP ALL INTO 'BACKUP-5' WITH detached");
        let text = statement(5, Some("it's \\"), false);
        let expected = "BACKUP ALL INTO 'BACKUP-5' WITH passphrase = 'it''s \\\\', detached";
        assert_eq!(text, expected);
    }
}
