//! `nines import mysql://…`: databases of a MySQL or MariaDB server, or of another cluster, brought
//! here while they are in use.
//!
//! First the checks, then the definitions, then the rows as they were at one moment, then a
//! replication channel that follows the source's log from that moment on, until the operator
//! switches over.
//!
//! # Owns
//! The order of these steps, and what is told of them. Why it is so:
//! `docs/decisions/0085-import-from-a-server.md`.
//! # Guarantees
//! 1. Rows of two moments of the source are never mixed: the channel begins at just the place of
//!    the snapshot, and a copy that has not ended is begun again.
//! 2. What is taken away was made by this import, as its journal says.
//! # Not here
//! Connections and snapshots (`source`), definitions (`schema`), rows (`copy`), the channel
//! (`follow`), comparison (`compare`), values that do not fit (`values`), options (`command`).

mod address;
pub(super) mod command;
mod compare;
mod copy;
mod follow;
mod journal;
mod schema;
mod source;
mod values;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use mysql_client::{Login, Session, Target};

pub(super) use address::SCHEME;

use super::{Server, shown};
use address::Address;
use journal::{Copied, Journal};
use schema::Definitions;

/// The channel, if no name is given.
const CHANNEL: &str = "import";

/// What rows are taken with: whatever a source has stored.
const TARGET_PREPARATIONS: [&str; 2] = [
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    // Tables and rows come in any order, and the source has checked them.
    "SET SESSION foreign_key_checks = 0",
];

/// How the source is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Encryption {
    /// Encrypted if the source can, whoever answers.
    IfThere,
    /// Encrypted, with a certificate of an authority in this file, and the source's name in it.
    Verified(PathBuf),
    Never,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Import,
    Check,
    Compare,
    Switch,
}

/// What is imported, and how.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    task: Task,
    /// The address as it was given.
    text: String,
    address: Address,
    source_login: Login,
    /// The account by which SQL nodes read the log.
    replica_login: Login,
    encryption: Encryption,
    /// Whether the first connection to the source was encrypted.
    first_encrypted: Arc<OnceLock<bool>>,
    server: Server,
    jobs: usize,
    batch: usize,
    follows: bool,
    channel: String,
    /// Tables and views that are left out.
    skip: Vec<(String, String)>,
    journal: PathBuf,
    resumes: bool,
    sets_read_only: bool,
    writes_stopped: bool,
    /// Tables are compared before the switch.
    compares: bool,
}

/// Tells what happens, to whoever looks.
fn tell(line: &str) {
    // Whoever does not read it does not want to know.
    let _ = writeln!(io::stderr(), "nines: {line}");
}

impl Migration {
    /// A session here that takes rows as the source has them.
    fn connect_target(&self) -> Result<Session, String> {
        let mut session = self.server.connect()?;
        for statement in TARGET_PREPARATIONS {
            session.query(statement).map_err(|why| shown(&why))?;
        }
        Ok(session)
    }

    fn skips(&self, database: &str, table: &str) -> bool {
        self.skip.iter().any(|(of, name)| of == database && name == table)
    }

    /// What the journal is of.
    fn what(&self) -> String {
        let skipped: Vec<String> =
            self.skip.iter().map(|(database, table)| format!("{database}.{table}")).collect();
        format!(
            "{} {} without [{}], channel {}",
            self.address.server(),
            self.address.databases.join(","),
            skipped.join(","),
            if self.follows { &self.channel } else { "none" }
        )
    }

    /// Whether what is sent to the SQL node may be read on its way.
    fn is_exposed(&self) -> bool {
        match &self.server.target {
            Target::Socket(_) => false,
            Target::Tcp(host, _) => !source::is_loopback(host),
        }
    }
}

/// Does what is asked for; what is told at the end.
pub(super) fn run(migration: &Migration) -> Result<String, String> {
    match migration.task {
        Task::Import => import(migration),
        Task::Check => check(migration),
        Task::Compare => {
            let (mut source, is_encrypted) = migration.connect_source()?;
            let facts = source::facts(&mut source, is_encrypted)
                .map_err(|why| migration.at_source(&why))?;
            compare::run(migration, &facts)
        }
        Task::Switch => follow::switch(migration),
    }
}

/// What both servers are asked before anything is made.
struct Prepared {
    source: Session,
    target: Session,
    facts: source::Facts,
}

/// Connects to both, and finds out what keeps an import from being made. What an import before has
/// left is looked at elsewhere.
fn prepare(migration: &Migration) -> Result<(Prepared, Vec<String>), String> {
    let mut target = migration.connect_target()?;
    let (mut source, is_encrypted) = migration.connect_source()?;
    let facts =
        source::facts(&mut source, is_encrypted).map_err(|why| migration.at_source(&why))?;
    let mut problems = Vec::new();
    if migration.follows {
        problems = source::check(migration, &mut source, &mut target)?;
        if migration.is_exposed() && !migration.replica_login.password.is_empty() {
            problems.push(
                "the password of the channel would go to the SQL node over a network without \
                 encryption: run this on the host of an SQL node with --socket, or say --no-follow"
                    .to_owned(),
            );
        }
    }
    Ok((Prepared { source, target, facts }, problems))
}

/// All problems in one text.
fn all(problems: &[String]) -> Result<(), String> {
    match problems {
        [] => Ok(()),
        problems => Err(format!("nothing was imported:\n  {}", problems.join("\n  "))),
    }
}

/// The problems of definitions in one text.
fn refused(refusals: &[String]) -> Result<(), String> {
    match refusals {
        [] => Ok(()),
        refusals => Err(format!(
            "{} definitions of the source are refused here, and nothing was imported:\n  {}\n\
             Change them at the source, or leave tables and views out by --skip DATABASE.NAME",
            refusals.len(),
            refusals.join("\n  ")
        )),
    }
}

/// What keeps an import here from beginning.
fn in_the_way(migration: &Migration, target: &mut Session) -> Result<Vec<String>, String> {
    let mut problems = schema::occupied(migration, target)?;
    if migration.follows {
        let found = follow::status(migration, target).map_err(|why| {
            format!(
                "channel `{}`: {} (it needs REPLICATION_SLAVE_ADMIN)",
                migration.channel,
                shown(&why)
            )
        })?;
        if found.is_some() {
            problems.push(format!(
                "channel `{0}` is there: RESET REPLICA ALL FOR CHANNEL '{0}' removes it, or give \
                 another one by --channel",
                migration.channel
            ));
        }
    }
    Ok(problems)
}

/// Names what stays at the source.
fn tell_left_behind(migration: &Migration, source: &mut Session) -> Result<(), String> {
    let left = schema::left_behind(migration, source)?;
    if !left.is_empty() {
        tell(&format!(
            "what stays behind, as Nines has none: {}. What triggers of the source do comes by the \
             log as long as the source is followed",
            left.join(", ")
        ));
    }
    Ok(())
}

/// Finds out whether an import would succeed: also definitions are made here, and taken away again.
fn check(migration: &Migration) -> Result<String, String> {
    let (Prepared { mut source, mut target, facts }, mut problems) = prepare(migration)?;
    problems.extend(in_the_way(migration, &mut target)?);
    all(&problems)?;
    let (definitions, mut refusals) = schema::read(migration, &facts, &mut source)?;
    // A journal of its own: that of an import stays as it is.
    let mut path = migration.journal.clone().into_os_string();
    path.push("-check");
    let mut journal = Journal::open(&PathBuf::from(path), &migration.what(), false)?;
    refusals.extend(made_or_undone(&definitions, &mut target, &mut journal, true)?);
    journal.remove();
    refused(&refusals)?;
    all(&values::check(migration, &definitions, &mut source, &mut target, true)?)?;
    tell_left_behind(migration, &mut source)?;
    Ok(format!(
        "{} ({}): {} tables and {} views can be imported",
        migration.address.server(),
        facts.version,
        definitions.tables.len(),
        definitions.views.len()
    ))
}

/// Makes definitions here. If any is refused, or all are for a look only, they are taken away
/// again.
fn made_or_undone(
    definitions: &Definitions,
    target: &mut Session,
    journal: &mut Journal,
    is_trial: bool,
) -> Result<Vec<String>, String> {
    let refusals = schema::create(definitions, target, journal)?;
    if is_trial || !refusals.is_empty() {
        schema::undo(target, journal)?;
    }
    Ok(refusals)
}

fn import(migration: &Migration) -> Result<String, String> {
    let began = Instant::now();
    let (Prepared { mut source, mut target, facts }, mut problems) = prepare(migration)?;
    let mut journal = Journal::open(&migration.journal, &migration.what(), migration.resumes)?;
    let before = journal.entries.copied.clone();
    if migration.resumes && before.is_none() {
        tell("the copy had not ended, and its snapshot is gone: it is begun again");
        all(&problems)?;
        schema::undo(&mut target, &mut journal)?;
    }
    if before.is_none() {
        problems.extend(in_the_way(migration, &mut target)?);
    }
    all(&problems)?;
    let copied = match before {
        Some(copied) => copied,
        None => {
            let copied = copy(migration, &facts, &mut source, &mut target, &mut journal);
            copied.map_err(|why| resumable(&why, &journal))?
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let tables = journal.entries.tables.len();
    let told = format!("{} rows of {tables} tables are here, in {seconds:.1} s", copied.rows);
    let (true, Some(position)) = (migration.follows, &copied.position) else {
        journal.remove();
        return Ok(told);
    };
    tell(&format!("{told}; the source is followed from {position}"));
    // What was idle during the copy may be closed.
    let (mut source, _) = migration.connect_source()?;
    let mut target = migration.connect_target()?;
    let encrypted = facts.is_encrypted;
    let followed = follow::begin(migration, &mut target, position, encrypted, &mut journal)
        .and_then(|()| follow::catch_up(migration, &mut source, &mut target));
    let end = followed.map_err(|why| resumable(&why, &journal))?;
    journal.remove();
    Ok(format!(
        "{told}. Channel `{}` follows {}, and has caught up at {end}.\n{}",
        migration.channel,
        migration.address.server(),
        follow::what_is_next(migration)
    ))
}

/// What is told when an import ends before its end.
fn resumable(why: &str, journal: &Journal) -> String {
    let is_begun = !journal.entries.tables.is_empty() && journal.is_there();
    match (&journal.entries.copied, is_begun) {
        (Some(_), _) => format!("{why} (all rows are copied: --resume goes on from there)"),
        (None, true) => format!("{why} (--resume takes what was copied away, and begins again)"),
        (None, false) => why.to_owned(),
    }
}

/// Copies definitions and rows.
fn copy(
    migration: &Migration,
    facts: &source::Facts,
    source: &mut Session,
    target: &mut Session,
    journal: &mut Journal,
) -> Result<Copied, String> {
    let (definitions, mut refusals) = schema::read(migration, facts, source)?;
    refusals.extend(made_or_undone(&definitions, target, journal, !refusals.is_empty())?);
    refused(&refusals)?;
    let problems = values::check(migration, &definitions, source, target, false)?;
    if !problems.is_empty() {
        schema::undo(target, journal)?;
    }
    all(&problems)?;
    tell_left_behind(migration, source)?;
    let mut snapshot = source::snapshot(migration, facts)?;
    // What was changed between the definitions and the snapshot would be changed twice.
    let (now, refusals) = schema::read(migration, facts, source)?;
    if now != definitions || !refusals.is_empty() {
        return Err("definitions of the source were changed meanwhile".to_owned());
    }
    let tables: Vec<(String, String, u64)> = definitions
        .tables
        .iter()
        .map(|table| (table.database.clone(), table.name.clone(), table.estimate))
        .collect();
    let rows = copy::run(migration, &mut snapshot, &tables)?;
    let copied = Copied { position: snapshot.position.clone(), rows };
    journal.entries.copied = Some(copied.clone());
    // What is not written down cannot be gone on with.
    journal.save().inspect_err(|_| journal.entries.copied = None)?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A migration of an address, as options say nothing else.
    pub(super) fn migration(text: &str) -> Migration {
        let program =
            clap::Command::new("nines").subcommand(crate::transfer::command::import_command());
        let matches = program
            .try_get_matches_from(["nines", "import", text, "--socket", "/s"])
            .unwrap_or_else(|why| panic!("{why}"));
        let (_, matches) = matches.subcommand().expect("import");
        command::migration(matches, text).expect("it can be read")
    }

    #[test]
    fn an_import_is_told_apart_by_source_tables_and_channel() {
        let one = migration("mysql://u@h/d,e");
        assert_eq!(one.what(), "h:3306 d,e without [], channel import");
        assert!(!one.is_exposed());
        let exposed = |host: &str| {
            let target = Target::Tcp(host.to_owned(), 3306);
            let server = Server { target, ..one.server.clone() };
            Migration { server, ..one.clone() }.is_exposed()
        };
        assert!(exposed("sql1") && exposed("10.0.0.1"));
        assert!(!exposed("localhost") && !exposed("127.0.0.1") && !exposed("::1"));
    }
}
