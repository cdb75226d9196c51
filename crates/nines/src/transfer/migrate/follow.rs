//! The channel that follows the source after the copy, and its end.
//!
//! # Owns
//! Making the channel ([`begin`]), waiting until it has caught up ([`catch_up`]), and switching
//! over ([`switch`]).
//! # Guarantees
//! 1. Nothing is switched over while the source may be written to, or while the channel lacks
//!    anything of its log. The last look is at a channel that is stopped.
//! 2. A channel that follows anything else than this import is left alone.
//! 3. A switch that fails leaves the channel running, and the source as writable as it was.
//! # Not here
//! Applying the log: SQL nodes do it, whether this program runs or not.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, Session};

use super::journal::Journal;
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
/// How often a channel is stopped at the end of a log that goes on growing.
const STOPS: u32 = 10;
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

    /// That the channel follows just what this import takes.
    ///
    /// # Errors
    /// What it follows instead, with the remedy.
    fn check_own(&self, migration: &Migration) -> Result<(), String> {
        let address = &migration.address;
        let server = (self.value("Source_Host"), self.value("Source_Port"));
        let skipped: Vec<String> =
            migration.skip.iter().map(|(database, table)| format!("{database}.{table}")).collect();
        let is_own = server == (address.host.as_str(), &*address.port.to_string())
            && parts(self.value("Replicate_Do_DB")) == parts(&address.databases.join(","))
            && parts(self.value("Replicate_Ignore_Table")) == parts(&skipped.join(","));
        if is_own {
            return Ok(());
        }
        let told = |databases: &str, without: &str| {
            let databases = if databases.is_empty() { "all databases" } else { databases };
            let without = if without.is_empty() { "no table" } else { without };
            format!("{databases} without {without}")
        };
        Err(format!(
            "channel `{}` is of something else: it follows {}:{}, {}, and this import is of {}, \
             {}. Name the channel of this import by --channel, and give its options (--skip)",
            migration.channel,
            server.0,
            server.1,
            told(self.value("Replicate_Do_DB"), self.value("Replicate_Ignore_Table")),
            address.server(),
            told(&address.databases.join(","), &skipped.join(","))
        ))
    }

    /// Whether the channel is just made by this import from a place on: it has no filter yet, and
    /// nobody has started it.
    fn is_just_made(&self, migration: &Migration, position: &Position) -> bool {
        let address = &migration.address;
        let is_bare =
            self.0.iter().all(|(name, value)| !name.starts_with("Replicate_") || value.is_empty());
        is_bare
            && self.value("Source_Host") == address.host
            && self.value("Source_Port") == address.port.to_string()
            && self.value("Replica_SQL_Running") != "Yes"
            && self.applied() == *position
    }

    /// The tables that the channel leaves out.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.value("Replicate_Ignore_Table").split(',').map(str::to_owned).collect()
    }
}

/// The parts of a list of a status, in one order.
fn parts(list: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = list.split(',').collect();
    parts.sort_unstable();
    parts
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

/// Makes the channel, unless an import that was ended has made it, and starts it. The journal says
/// that it was made.
pub(super) fn begin(
    migration: &Migration,
    target: &mut Session,
    position: &Position,
    is_encrypted: bool,
    journal: &mut Journal,
) -> Result<(), String> {
    let said = |why: QueryError| of_channel(migration, &why);
    let channel = text(&migration.channel);
    let [change, filter] = statements(migration, position, is_encrypted);
    match status(migration, target).map_err(said)? {
        // It would change again what came after the copy.
        None if journal.entries.channel_made => {
            return Err(format!(
                "channel `{}` was made by this import, and is gone: it was switched over, or \
                 somebody has removed it. If all is here, remove {}; else DROP the databases here, \
                 remove that file, and import anew",
                migration.channel,
                migration.journal.display()
            ));
        }
        None => {
            target.query(&change).map_err(said)?;
            target.query(&filter).map_err(said)?;
        }
        // The import ended before it gave the channel its filter.
        Some(status) if status.is_just_made(migration, position) => {
            target.query(&filter).map_err(said)?;
        }
        Some(status) => status.check_own(migration)?,
    }
    // Another import may have made its own of the same name at the same moment.
    let made = status(migration, target).map_err(said)?;
    made.ok_or_else(|| format!("channel {channel} is gone meanwhile"))?.check_own(migration)?;
    if !journal.entries.channel_made {
        journal.entries.channel_made = true;
        journal.save()?;
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
    found.check_own(migration)?;
    let facts = facts(&mut source, is_encrypted).map_err(at_source)?;
    // A cluster has the variable, and refuses nobody.
    let is_read_only = facts.kind != Kind::Nines
        && variable(&mut source, "read_only")
            .map_err(at_source)?
            .is_some_and(|value| value == "ON");
    if !migration.writes_stopped && !is_read_only {
        if facts.kind == Kind::Nines {
            return Err(format!(
                "{server} is a cluster, which cannot be read-only, so more may come after the \
                 switch: stop its writers and say --writes-stopped"
            ));
        }
        if !migration.sets_read_only {
            return Err(format!(
                "{server} is not read-only, so more may come after the switch: say \
                 --set-source-read-only, or stop its writers and say --writes-stopped"
            ));
        }
    }
    // A channel that cannot go on is found while clients may still write.
    catch_up(migration, &mut source, &mut target)?;
    let sets = migration.sets_read_only && !is_read_only && facts.kind != Kind::Nines;
    if sets {
        source.query("SET GLOBAL read_only = ON").map_err(|why| {
            let said = migration.at_source(&why);
            match why.code() {
                Some(_) => format!("{said}; or stop its writers, and say --writes-stopped"),
                None => format!("{said}; look whether read_only is ON there by now"),
            }
        })?;
    }
    finish(migration, &facts, &mut source, &mut target).map_err(|why| {
        if !sets {
            return why;
        }
        let again = || -> Result<(), String> {
            let (mut source, _) = migration.connect_source()?;
            let set = source.query("SET GLOBAL read_only = OFF");
            set.map(|_| ()).map_err(|why| migration.at_source(&why))
        };
        match again() {
            Ok(()) => format!("{why}\n{server} is not read-only any more: clients go on there"),
            Err(error) => format!(
                "{why}\n{server} stays read-only ({error}): SET GLOBAL read_only = OFF there lets \
                 clients go on writing"
            ),
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
    // What was idle during the comparison may be closed.
    (*source, _) = migration.connect_source()?;
    *target = migration.connect_target()?;
    compare::raise_counters(migration, source, target)?;
    // Other databases of the source are in its log too, and only a server that is read-only keeps
    // them still.
    let attempts = if migration.writes_stopped { STOPS } else { 1 };
    for attempt in 1..=attempts {
        match stop(migration, source, target, &reached) {
            Ok(()) => break,
            Err(Unstopped::Failed(why)) => return Err(restarted(migration, target, &why)),
            Err(Unstopped::Moved) if attempt < attempts => {
                start(migration, target).map_err(|why| restarted(migration, target, &why))?;
                reached = catch_up(migration, source, target)?;
            }
            Err(Unstopped::Moved) => {
                let why = if migration.writes_stopped {
                    "stop what writes to other databases there too, or say --set-source-read-only"
                } else {
                    "stop what writes there (accounts with SUPER or READ ONLY ADMIN may write to a \
                     server that is read-only), and try again"
                };
                let why = format!("{server} was written to meanwhile: {why}");
                return Err(restarted(migration, target, &why));
            }
        }
    }
    remove(migration, target).map_err(|why| restarted(migration, target, &why))?;
    // Nothing is left that could be resumed.
    let _ = std::fs::remove_file(&migration.journal);
    Ok(format!(
        "{told}; all up to {reached} of {server} is here, and the channel is removed: point the \
         clients here"
    ))
}

/// Why a channel is not at the end of the source's log for good.
enum Unstopped {
    /// The log has more by now.
    Moved,
    Failed(String),
}

/// Stops the channel, and looks whether all of the source's log is applied, and none has come after
/// `reached`.
fn stop(
    migration: &Migration,
    source: &mut Session,
    target: &mut Session,
    reached: &Position,
) -> Result<(), Unstopped> {
    let of_channel = |why: QueryError| Unstopped::Failed(of_channel(migration, &why));
    target
        .query(&format!("STOP REPLICA FOR CHANNEL {}", text(&migration.channel)))
        .map_err(of_channel)?;
    let end = log_end(source).map_err(|why| Unstopped::Failed(migration.at_source(&why)))?;
    let applied = status(migration, target).map_err(of_channel)?.map(|status| status.applied());
    let (Some((end, _)), Some(applied)) = (end, applied) else {
        let why = "the channel, or the log of the source, is gone meanwhile";
        return Err(Unstopped::Failed(why.to_owned()));
    };
    if is_done(&end, &applied, reached) { Ok(()) } else { Err(Unstopped::Moved) }
}

/// Whether a channel that is stopped has all of a log. What came after the comparison is not
/// compared, so the log has to end where it did then.
fn is_done(end: &Position, applied: &Position, reached: &Position) -> bool {
    applied.has_reached(end) && reached.has_reached(end)
}

fn start(migration: &Migration, target: &mut Session) -> Result<(), String> {
    let statement = format!("START REPLICA FOR CHANNEL {}", text(&migration.channel));
    target.query(&statement).map(|_| ()).map_err(|why| of_channel(migration, &why))
}

/// Lets the channel go on after a switch that failed; what is told of both.
fn restarted(migration: &Migration, target: &mut Session, why: &str) -> String {
    let started = start(migration, target).or_else(|_| {
        *target = migration.connect_target()?;
        start(migration, target)
    });
    match started {
        Ok(()) => format!("{why}\nThe channel goes on"),
        Err(error) => format!(
            "{why}\nThe channel may be stopped ({error}): START REPLICA FOR CHANNEL {}",
            text(&migration.channel)
        ),
    }
}

/// Removes the channel.
fn remove(migration: &Migration, target: &mut Session) -> Result<(), String> {
    let statement = format!("RESET REPLICA ALL FOR CHANNEL {}", text(&migration.channel));
    let Err(why) = target.query(&statement) else { return Ok(()) };
    if why.code().is_none() {
        // Its answer is lost; perhaps it was done.
        *target = migration.connect_target()?;
        if matches!(status(migration, target), Ok(None)) {
            return Ok(());
        }
    }
    Err(of_channel(migration, &why))
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

    fn status_of(values: &[(&str, &str)]) -> Status {
        Status(values.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn a_channel_of_something_else_is_not_taken_for_ones_own() {
        let mut migration = migration("mysql://u@h/shop,crm");
        let own = [
            ("Source_Host", "h"),
            ("Source_Port", "3306"),
            ("Replicate_Do_DB", "crm,shop"),
            ("Replicate_Ignore_Table", ""),
        ];
        assert_eq!(status_of(&own).check_own(&migration), Ok(()));
        for (name, value) in [
            ("Source_Host", "other"),
            ("Source_Port", "3307"),
            ("Replicate_Do_DB", "shop"),
            ("Replicate_Do_DB", ""),
            ("Replicate_Ignore_Table", "shop.t"),
        ] {
            let mut other = own.to_vec();
            other.retain(|(of, _)| *of != name);
            other.push((name, value));
            let why = status_of(&other).check_own(&migration).expect_err(name);
            assert!(why.contains("--channel"), "{why}");
        }
        migration.skip = vec![("shop".to_owned(), "t".to_owned())];
        assert!(status_of(&own).check_own(&migration).is_err(), "it follows shop.t");
        let bare = |position: &str, runs: &str, wild: &str| {
            status_of(&[
                ("Source_Host", "h"),
                ("Source_Port", "3306"),
                ("Replicate_Wild_Do_Table", wild),
                ("Replica_SQL_Running", runs),
                ("Relay_Source_Log_File", "log.1"),
                ("Exec_Source_Log_Pos", position),
            ])
            .is_just_made(&migration, &position_of("log.1", 4))
        };
        assert!(bare("4", "No", ""));
        assert!(!bare("5", "No", "") && !bare("4", "Yes", "") && !bare("4", "No", "d.%"));
    }

    fn position_of(file: &str, offset: u64) -> Position {
        Position { file: file.to_owned(), offset }
    }

    #[test]
    fn a_log_that_grew_after_the_comparison_is_not_done() {
        let at = |offset| position_of("log.1", offset);
        assert!(is_done(&at(9), &at(9), &at(9)));
        assert!(!is_done(&at(10), &at(9), &at(9)), "it came and is not applied");
        assert!(!is_done(&at(10), &at(10), &at(9)), "it is applied and not compared");
        assert!(!is_done(&position_of("log.2", 4), &at(9), &at(9)));
    }

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
