//! The channel that follows the source after the copy, and its end.
//!
//! # Owns
//! Making the channel ([`begin`]), waiting until it has caught up ([`catch_up`]), and switching
//! over ([`switch`]).
//! # Guarantees
//! Nothing is switched over while the source may be written to, or while the channel lacks anything
//! of its log.
//! # Not here
//! Applying the log: SQL nodes do it, whether this program runs or not.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, Session};

use super::source::{Facts, Kind, Position, cell, facts, log_end, variable};
use super::{Encryption, Migration, compare, tell};
use crate::transfer::column::{name, text};
use crate::transfer::{is_temporary, shown};

/// How often the channel is looked at, how often that is told, and how long it may be without a
/// connection.
const LOOKS: Duration = Duration::from_millis(200);
const TELLS: Duration = Duration::from_secs(5);
const WITHOUT_CONNECTION: Duration = Duration::from_secs(60);
/// How long a cluster that has lost a node is waited for.
const RECOVERS_WITHIN: Duration = Duration::from_secs(60);
/// There is no channel, or none of this name.
const NO_CHANNEL: [u16; 2] = [1200, 3074];

/// A row of SHOW REPLICA STATUS.
pub(super) struct Status(BTreeMap<String, String>);

impl Status {
    fn value(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The place that is applied.
    fn applied(&self) -> Position {
        Position {
            file: self.value("Relay_Source_Log_File").to_owned(),
            offset: self.value("Exec_Source_Log_Pos").parse().unwrap_or(0),
        }
    }

    /// The tables that the channel leaves out.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.value("Replicate_Ignore_Table").split(',').map(str::to_owned).collect()
    }
}

/// What is known of the channel; none if it is not there.
pub(super) fn status(
    migration: &Migration,
    target: &mut Session,
) -> Result<Option<Status>, QueryError> {
    let asked = format!("SHOW REPLICA STATUS FOR CHANNEL {}", text(&migration.channel));
    let answer = match target.ask(&asked) {
        Err(QueryError::Refused(code, _)) if NO_CHANNEL.contains(&code) => return Ok(None),
        other => other?,
    };
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let names = answer.columns.iter().map(|column| column.name.clone());
    Ok(Some(Status(names.zip(row.iter().map(|value| value.clone().unwrap_or_default())).collect())))
}

/// The statements that make a channel which follows from a place on.
fn statements(migration: &Migration, position: &Position, is_encrypted: bool) -> [String; 2] {
    let login = &migration.replica_login;
    let channel = text(&migration.channel);
    let mut change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = {}, SOURCE_PORT = {}, SOURCE_USER = {}, \
         SOURCE_PASSWORD = {}, SOURCE_LOG_FILE = {}, SOURCE_LOG_POS = {}, SOURCE_CONNECT_RETRY = 5",
        text(&migration.address.host),
        migration.address.port,
        text(&login.user),
        text(&login.password),
        text(&position.file),
        position.offset,
    );
    if is_encrypted {
        change += ", SOURCE_SSL = 1";
    }
    match &migration.encryption {
        Encryption::Verified(path) => {
            let path = text(&path.display().to_string());
            change += &format!(", SOURCE_SSL_CA = {path}, SOURCE_SSL_VERIFY_SERVER_CERT = 1");
        }
        Encryption::Never => change += ", GET_SOURCE_PUBLIC_KEY = 1",
        Encryption::IfThere => {}
    }
    change += &format!(" FOR CHANNEL {channel}");
    let databases: Vec<String> =
        migration.address.databases.iter().map(|database| name(database)).collect();
    let mut filter =
        format!("CHANGE REPLICATION FILTER REPLICATE_DO_DB = ({})", databases.join(", "));
    if !migration.skip.is_empty() {
        let tables: Vec<String> = migration
            .skip
            .iter()
            .map(|(database, table)| format!("{}.{}", name(database), name(table)))
            .collect();
        filter += &format!(", REPLICATE_IGNORE_TABLE = ({})", tables.join(", "));
    }
    filter += &format!(" FOR CHANNEL {channel}");
    [change, filter]
}

/// Makes the channel, unless an import that was ended has made it, and starts it.
pub(super) fn begin(
    migration: &Migration,
    target: &mut Session,
    position: &Position,
    is_encrypted: bool,
) -> Result<(), String> {
    let said = |why: QueryError| of_channel(migration, &why);
    let channel = text(&migration.channel);
    let [change, filter] = statements(migration, position, is_encrypted);
    match status(migration, target).map_err(said)? {
        None => {
            target.query(&change).map_err(said)?;
            target.query(&filter).map_err(said)?;
        }
        // It is there, and may be without its filter; then nobody has started it.
        Some(status) if status.value("Replicate_Do_DB").is_empty() => {
            target.query(&filter).map_err(said)?;
        }
        Some(_) => {}
    }
    target.query(&format!("START REPLICA FOR CHANNEL {channel}")).map_err(said)?;
    Ok(())
}

/// Waits until the channel has applied all that is in the log of the source now.
pub(super) fn catch_up(
    migration: &Migration,
    source: &mut Session,
    target: &mut Session,
) -> Result<Position, String> {
    let (end, _) = log_end(source)
        .map_err(|why| migration.at_source(&why))?
        .ok_or_else(|| format!("{} has no log", migration.address.server()))?;
    let of_channel = |why: &str| format!("channel `{}`: {why}", migration.channel);
    let began = Instant::now();
    let (mut told, mut connected, mut answered) = (began, began, began);
    loop {
        let status = match status(migration, target) {
            Ok(Some(status)) => status,
            Ok(None) => return Err(of_channel("it is not there; was it removed?")),
            Err(why) => {
                let is_passing = why.code().is_none() || is_temporary(&why);
                if !is_passing || answered.elapsed() > RECOVERS_WITHIN {
                    return Err(of_channel(&shown(&why)));
                }
                thread::sleep(LOOKS);
                if let Ok(opened) = migration.connect_target() {
                    *target = opened;
                }
                continue;
            }
        };
        answered = Instant::now();
        let is_connected = status.value("Replica_IO_Running") == "Yes";
        // A channel that was never connected is at the place where it is to begin.
        if is_connected && status.applied().has_reached(&end) {
            return Ok(end);
        }
        if status.value("Replica_SQL_Running") != "Yes" {
            let error = match status.value("Last_SQL_Error") {
                "" => status.value("Last_IO_Error"),
                error => error,
            };
            let why = if error.is_empty() { "somebody has stopped it" } else { error };
            return Err(of_channel(&format!(
                "{why}. When the reason is gone: START REPLICA FOR CHANNEL {}, and this again with \
                 --resume",
                text(&migration.channel)
            )));
        }
        if is_connected {
            connected = Instant::now();
        } else if connected.elapsed() > WITHOUT_CONNECTION {
            return Err(of_channel(&format!(
                "SQL nodes cannot follow the source: {}. They connect to {}: the name has to mean \
                 the source on their hosts too",
                status.value("Last_IO_Error"),
                migration.address.server()
            )));
        }
        if told.elapsed() >= TELLS {
            told = Instant::now();
            let behind = match status.value("Seconds_Behind_Source") {
                "" => String::new(),
                seconds => format!(", {seconds} s behind"),
            };
            tell(&format!("follows: at {} of {end}{behind}", status.applied()));
        }
        thread::sleep(LOOKS);
    }
}

/// What an operator does to switch over.
pub(super) fn what_is_next(migration: &Migration) -> String {
    let server = migration.address.server();
    let channel = text(&migration.channel);
    let named = if migration.channel == super::CHANNEL {
        String::new()
    } else {
        format!(" --channel {}", migration.channel)
    };
    format!(
        "To switch over:\n\
         \x20 1. Stop what writes to {server}.\n\
         \x20 2. nines import {} --switch --set-source-read-only{named}, with the options of this \
         import:\n\
         \x20    it makes {server} read-only, waits for the rest, compares all tables, and removes \
         the channel.\n\
         \x20 3. Point the clients here.\n\
         By hand: SET GLOBAL read_only = ON there; wait until Relay_Source_Log_File and \
         Exec_Source_Log_Pos of\n\
         SHOW REPLICA STATUS FOR CHANNEL {channel} are what SHOW MASTER STATUS says there; STOP \
         REPLICA FOR CHANNEL {channel};\n\
         RESET REPLICA ALL FOR CHANNEL {channel}.",
        migration.text
    )
}

/// Switches over: waits until all of the source is here, compares, and removes the channel.
pub(super) fn switch(migration: &Migration) -> Result<String, String> {
    let (mut source, is_encrypted) = migration.connect_source()?;
    let mut target = migration.connect_target()?;
    let at_source = |why: QueryError| migration.at_source(&why);
    let server = migration.address.server();
    let found = status(migration, &mut target).map_err(|why| of_channel(migration, &why))?;
    let found = found.ok_or_else(|| {
        format!(
            "there is no channel `{}` here: see SHOW REPLICA STATUS, --channel",
            migration.channel
        )
    })?;
    let follows = (found.value("Source_Host"), found.value("Source_Port"));
    if follows != (migration.address.host.as_str(), &*migration.address.port.to_string()) {
        let (host, port) = follows;
        let channel = &migration.channel;
        return Err(format!("channel `{channel}` follows {host}:{port}, and not {server}"));
    }
    let facts = facts(&mut source, is_encrypted).map_err(at_source)?;
    if migration.sets_read_only {
        source.query("SET GLOBAL read_only = ON").map_err(|why| {
            format!("{}; or stop its writers, and say --writes-stopped", migration.at_source(&why))
        })?;
    }
    let is_read_only =
        variable(&mut source, "read_only").map_err(at_source)?.is_some_and(|value| value == "ON");
    // A cluster has the variable, and refuses nobody.
    let is_read_only = is_read_only && facts.kind != Kind::Nines;
    if !migration.writes_stopped && !is_read_only {
        let set = if facts.kind == Kind::Nines { "" } else { "say --set-source-read-only, or " };
        return Err(format!(
            "{server} is not read-only, so more may come after the switch: {set}stop its writers \
             and say --writes-stopped"
        ));
    }
    finish(migration, &facts, &mut source, &mut target).map_err(|why| {
        if migration.sets_read_only {
            format!(
                "{why}\nThe channel goes on, and {server} stays read-only: SET GLOBAL read_only = \
                 OFF there lets clients go on writing"
            )
        } else {
            why
        }
    })
}

/// The same, of a source that nobody writes to.
fn finish(
    migration: &Migration,
    facts: &Facts,
    source: &mut Session,
    target: &mut Session,
) -> Result<String, String> {
    let server = migration.address.server();
    let mut reached = catch_up(migration, source, target)?;
    let told = if migration.compares {
        compare::run(migration, facts)?
    } else {
        "not compared".to_owned()
    };
    let end = log_end(source).map_err(|why| migration.at_source(&why))?;
    if end.is_none_or(|(end, _)| !reached.has_reached(&end)) {
        if !migration.writes_stopped {
            return Err(format!(
                "{server} was written to meanwhile. Stop what writes there (accounts with SUPER or \
                 READ ONLY ADMIN may write to a server that is read-only), and try again"
            ));
        }
        // Other databases of the source are in its log too.
        reached = catch_up(migration, source, target)?;
    }
    compare::raise_counters(migration, source, target)?;
    let channel = text(&migration.channel);
    for statement in ["STOP REPLICA", "RESET REPLICA ALL"] {
        target
            .query(&format!("{statement} FOR CHANNEL {channel}"))
            .map_err(|why| of_channel(migration, &why))?;
    }
    // Nothing is left that could be resumed.
    let _ = std::fs::remove_file(&migration.journal);
    Ok(format!(
        "{told}; all up to {reached} of {server} is here, and the channel is removed: point the \
         clients here"
    ))
}

/// An error that the channel is told of.
fn of_channel(migration: &Migration, why: &QueryError) -> String {
    format!("channel `{}`: {}", migration.channel, shown(why))
}

/// The place of a row that is no text but a number.
pub(super) fn whole(row: &[Option<String>], at: usize) -> Option<u64> {
    cell(row, at).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::migrate::tests::migration;

    #[test]
    fn a_channel_is_told_names_and_texts_as_they_are() {
        let mut migration = migration("mysql://u@h:3307/a`b,c");
        migration.replica_login.password = "it's \\".to_owned();
        migration.skip = vec![("c".to_owned(), "t`".to_owned())];
        let position = Position { file: "log'.1".to_owned(), offset: 77 };
        let [change, filter] = statements(&migration, &position, true);
        for part in ["'it''s \\\\'", "'log''.1'", "SOURCE_LOG_POS = 77", "SOURCE_SSL = 1"] {
            assert!(change.contains(part), "{part}: {change}");
        }
        assert!(change.ends_with(" FOR CHANNEL 'import'"), "{change}");
        assert_eq!(
            filter,
            "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (`a``b`, `c`), REPLICATE_IGNORE_TABLE = \
             (`c`.`t```) FOR CHANNEL 'import'"
        );
        for statement in [change, filter] {
            let mode = sql_parser::SqlMode::default();
            sql_parser::parse(statement.as_bytes(), mode).unwrap_or_else(|_| panic!("{statement}"));
        }
    }
}
