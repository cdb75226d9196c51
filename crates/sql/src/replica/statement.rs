//! Statements of a source made here: those that change definitions.
//!
//! # Guarantees
//! A statement runs with the default database, the SQL mode, the collations and the time zone that
//! it had at the source. One that changes rows is refused: the log has to have the rows.
//! # Not here
//! When a statement counts as done (`replica`).

use collation::CollationId;
use mysql_wire::binlog::event::ReadStatement;
use sql_expression::{SqlError, SqlMode};
use sql_parser::ast::{ObjectName, Statement};

use super::Applier;
use crate::dispatch;
use crate::error::of_parser;
use crate::traits::{Place, StatementTraits, Writes};

/// What becomes of a statement of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It changes definitions here.
    Runs,
    /// It means nothing here: accounts, programs that are stored at the source, maintenance.
    Left,
    /// It cannot be followed.
    Refused(String),
}

/// Databases of a server itself, which are nobody's data.
pub(super) fn is_of_server(database: &str) -> bool {
    ["mysql", "information_schema", "performance_schema", "sys"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(database))
}

/// Kinds of objects that are stored at a source and that have no part in its rows.
const LEFT: [&str; 11] = [
    "EVENT",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "SERVER",
    "TABLESPACE",
    "LOGFILE",
    "RESOURCE",
    "UNDO",
    "SPATIAL",
    "INSTANCE",
];

/// What is to become of a statement.
pub(super) fn fate(statement: &Statement) -> Fate {
    let traits = statement.traits();
    match statement {
        Statement::CreateTable(create) if create.temporary => Fate::Left,
        Statement::DropTable(drop) if drop.temporary => Fate::Left,
        Statement::CreateTrigger(_)
        | Statement::DropTrigger(_)
        | Statement::CreateRoutine(_)
        | Statement::DropRoutine(_)
        | Statement::CreateEvent(_)
        | Statement::DropEvent(_)
        | Statement::Flush(_)
        | Statement::TableMaintenance(_)
        | Statement::Savepoint(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::Empty => Fate::Left,
        Statement::Unsupported { feature } => {
            let kind = feature.split(' ').nth(1).unwrap_or_default();
            if LEFT.contains(&kind) {
                Fate::Left
            } else {
                Fate::Refused(format!("{feature} of a source cannot be followed"))
            }
        }
        _ if traits.place == Place::Account => Fate::Left,
        _ if traits.place == Place::Definition => Fate::Runs,
        _ if traits.writes == Writes::Rows => Fate::Refused(
            "the source logs statements and not the rows that they change: it needs binlog_format \
             = ROW"
                .to_owned(),
        ),
        _ => Fate::Refused("a statement of this kind cannot be followed".to_owned()),
    }
}

/// The databases and tables that a statement is about, with the default database where it names
/// none.
fn subjects(statement: &Statement, default: &str) -> Vec<(String, Option<String>)> {
    let of = |name: &ObjectName| {
        let database = name.schema.as_ref().map_or(default, |schema| schema.as_str());
        (database.to_owned(), Some(name.name.as_str().to_owned()))
    };
    match statement {
        Statement::CreateTable(create) => vec![of(&create.name)],
        Statement::AlterTable(alter) => vec![of(&alter.table)],
        Statement::DropTable(drop) => drop.tables.iter().map(of).collect(),
        Statement::RenameTable(pairs) => {
            pairs.iter().flat_map(|(from, to)| [of(from), of(to)]).collect()
        }
        Statement::CreateIndex(create) => vec![of(&create.table)],
        Statement::DropIndex(drop) => vec![of(&drop.table)],
        Statement::CreateView(create) => vec![of(&create.name)],
        Statement::DropView(drop) => drop.views.iter().map(of).collect(),
        Statement::Truncate(name) => vec![of(name)],
        Statement::CreateDatabase(create) => vec![(create.name.as_str().to_owned(), None)],
        Statement::DropDatabase(drop) => vec![(drop.name.as_str().to_owned(), None)],
        Statement::AlterDatabase(alter) => {
            let name = alter.name.as_ref().map_or(default, |name| name.as_str());
            vec![(name.to_owned(), None)]
        }
        _ => vec![(default.to_owned(), None)],
    }
}

/// What becomes of a statement of which some subjects are followed. One that names others too does
/// not run: tables of these names here are nobody's but the cluster's.
fn fate_within(
    statement: &Statement,
    subjects: &[(String, Option<String>)],
    is_taken: impl Fn(&(String, Option<String>)) -> bool,
) -> Fate {
    let taken = subjects.iter().filter(|subject| is_taken(subject)).count();
    let fate = if taken == 0 { Fate::Left } else { fate(statement) };
    if fate != Fate::Runs || taken == subjects.len() {
        return fate;
    }
    Fate::Refused(
        "it names tables that the filters of the channel let through, and others; do by hand what \
         it does to the first, and go on behind it (CHANGE REPLICATION SOURCE TO SOURCE_LOG_POS)"
            .to_owned(),
    )
}

/// Errors that say that a statement has been done already, by whoever had begun it.
pub(super) fn says_done(error: &SqlError) -> bool {
    matches!(
        error.code(),
        1007 | 1008 | 1050 | 1051 | 1060 | 1061 | 1068 | 1091 | 1146 | 1826 | 3821 | 3822
    )
}

/// The statement of a source, its text in UTF-8.
pub(super) struct Meant {
    text: String,
    database: String,
    pub(super) fate: Fate,
    /// It makes a table whose rows follow, in the same transaction.
    pub(super) is_followed_by_rows: bool,
}

impl Applier {
    /// Reads a statement of a source.
    ///
    /// # Errors
    /// What the parser says.
    pub(super) fn meant(&mut self, said: &ReadStatement) -> Result<Meant, SqlError> {
        let utf8 = CollationId::UTF8MB4_GENERAL_CI;
        let client = said.collations.map_or(utf8, |[client, _, _]| CollationId(client));
        let client = if client.get().is_some() { client } else { utf8 };
        let text = collation::to_utf8(client.charset(), &said.text).bytes;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        let database = String::from_utf8_lossy(&said.database).into_owned();
        let database = self.filter.rewritten(&database).to_owned();
        // MySQL's way to log CREATE TABLE … SELECT.
        let ending = "START TRANSACTION";
        let cut = text.trim_end().len().checked_sub(ending.len());
        let cut = cut.filter(|at| {
            text.is_char_boundary(*at)
                && text[*at..].trim_end().eq_ignore_ascii_case(ending)
                && text.get(..6).is_some_and(|first| first.eq_ignore_ascii_case("CREATE"))
        });
        let is_followed_by_rows = cut.is_some();
        text.truncate(cut.unwrap_or(text.len()));
        self.enter(said);
        let parsed = self.session.parse_at(text.as_bytes(), 0);
        self.leave();
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                let why = of_parser(&error);
                let shown: String = text.chars().take(200).collect();
                let text = format!("{}; the statement of the source: {shown}", why.message());
                return Err(SqlError::new(why.code(), "42000", text));
            }
        };
        let is_taken = |(database, table): &(String, Option<String>)| {
            self.filter.takes_database(database)
                && !is_of_server(database)
                && table.as_ref().is_none_or(|table| self.filter.takes_table(database, table))
        };
        let fate =
            fate_within(&parsed.statement, &subjects(&parsed.statement, &database), is_taken);
        Ok(Meant { text, database, fate, is_followed_by_rows })
    }

    /// Runs a statement of a source.
    ///
    /// # Errors
    /// What it ends with here, unless it has ended so at the source.
    pub(super) async fn run_statement(
        &mut self,
        meant: &Meant,
        said: &ReadStatement,
    ) -> Result<(), SqlError> {
        self.enter(said);
        self.session.catch_up().await;
        let exists = self.session.kernel.cluster().databases.contains_key(meant.database.as_str());
        self.session.database = exists.then(|| meant.database.clone());
        let mut out = self.writer();
        let text = meant.text.as_bytes();
        let (result, _) = dispatch::run_text(&mut self.session, text, 0, &mut out).await;
        self.leave();
        match result {
            Err(error) if error.code() != said.error => {
                let shown: String = meant.text.chars().take(300).collect();
                let text = format!(
                    "Error '{}' on query. Default database: '{}'. Query: '{shown}'; the event's \
                     source log {}, end_log_pos {}",
                    error.message(),
                    meant.database,
                    self.at.file,
                    self.at.end
                );
                Err(SqlError::new(error.code(), "HY000", text))
            }
            _ => Ok(()),
        }
    }

    /// The session becomes what that of the statement was.
    fn enter(&mut self, said: &ReadStatement) {
        let variables = &mut self.session.variables;
        let mode = said.sql_mode.map_or(SqlMode::DEFAULT, SqlMode);
        // MariaDB has bits of its own above those.
        let mode = SqlMode(mode.0 & 0x1_FFFF_FFFF);
        variables.assign("sql_mode", Some(mode.to_string()));
        if let Some([_, connection, server]) = said.collations {
            let known = |number: u16| CollationId(number).get().map(|_| CollationId(number).name());
            if let Some(name) = known(connection) {
                variables.assign("collation_connection", Some(name.to_owned()));
            }
            if let Some(name) = known(server) {
                variables.assign("collation_server", Some(name.to_owned()));
            }
        }
        if let Some(zone) = &said.time_zone {
            let zone = String::from_utf8_lossy(zone).into_owned();
            variables.assign("time_zone", Some(zone));
        }
        self.set_foreign_key_checks(!said.ignores_foreign_keys);
    }

    /// The session becomes again what rows are applied with.
    pub(super) fn leave(&mut self) {
        let variables = &mut self.session.variables;
        variables.assign("sql_mode", Some(super::MODE.to_string()));
        variables.assign("time_zone", Some("+00:00".to_owned()));
        variables.assign("collation_connection", Some("utf8mb4_0900_ai_ci".to_owned()));
        self.session.database = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that drops a table that is followed, and one of another database, used to drop the
    /// cluster's own table of that name.
    #[test]
    fn a_statement_about_tables_that_are_not_followed_does_not_run() {
        let fate_of = |text: &str| {
            let statement = sql_parser::parse(text.as_bytes(), sql_parser::SqlMode::default());
            let statement = statement.unwrap_or_else(|_| panic!("{text}"));
            let subjects = subjects(&statement, "shop");
            fate_within(&statement, &subjects, |(database, _)| database == "shop")
        };
        for text in ["DROP TABLE x, shop.y", "RENAME TABLE x TO y", "CREATE TABLE x (a INT)"] {
            assert_eq!(fate_of(text), Fate::Runs, "{text}");
        }
        for text in ["DROP TABLE prod.x, prod.y", "RENAME TABLE prod.x TO prod.y"] {
            assert_eq!(fate_of(text), Fate::Left, "{text}");
        }
        let mixed = [
            "DROP TABLE x, prod.orders",
            "DROP VIEW x, prod.v",
            "RENAME TABLE x TO prod.x",
            "RENAME TABLE prod.x TO x",
        ];
        for text in mixed {
            assert!(matches!(fate_of(text), Fate::Refused(_)), "{text}");
        }
    }
}
