//! SHOW and DESCRIBE.
//!
//! # Owns
//! The layout of each SHOW: names, order and types of its columns, and its filter.
//! # Guarantees
//! Column names are MySQL's to the letter, as programs look values up by them.
//! # Not here
//! The facts themselves: `information`, `catalog` and `variables` know them.

mod binary_log;
mod create;
mod filter;
mod server;
mod table;

use sql_expression::SqlError;
use sql_parser::ast::{self, Show, ShowFilter};
use sqltype::{Datum, SqlType, TypeKind};

use crate::catalog::error;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;
use crate::{backup, changefeed, replication};

/// Rows between two looks at whether the client keeps up.
const ROWS_PER_DRAIN: usize = 256;

/// What a SHOW answers, before its filter.
#[derive(Debug)]
struct Listing {
    columns: Vec<(String, SqlType)>,
    rows: Vec<Vec<Datum>>,
}

impl Listing {
    /// Nothing yet, under these headings.
    fn new<'a>(columns: impl IntoIterator<Item = (&'a str, SqlType)>) -> Self {
        let columns = columns.into_iter().map(|(name, sql_type)| (name.to_owned(), sql_type));
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Texts only.
    fn of_texts(names: &[&str]) -> Self {
        Self::new(names.iter().map(|name| (*name, text(64))))
    }

    /// With these rows.
    fn filled<'a>(
        columns: impl IntoIterator<Item = (&'a str, SqlType)>,
        rows: Vec<Vec<Datum>>,
    ) -> Self {
        Self { rows, ..Self::new(columns) }
    }

    fn push(&mut self, row: Vec<Datum>) {
        assert_eq!(row.len(), self.columns.len(), "a value for each column");
        self.rows.push(row);
    }
}

/// VARCHAR as the information schema has it.
fn text(length: u32) -> SqlType {
    let collation = collation::CollationId::UTF8MB3_GENERAL_CI;
    SqlType { collation, ..SqlType::text(length) }
}

fn long_text() -> SqlType {
    let collation = collation::CollationId::UTF8MB3_GENERAL_CI;
    SqlType { collation, ..SqlType::new(TypeKind::LongText, u32::MAX) }
}

fn unsigned() -> SqlType {
    SqlType::unsigned_big_int()
}

/// Which column LIKE looks at, and whether letter case counts there.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    column: usize,
    exact: bool,
    /// The pattern is shown behind the name of the column.
    named: bool,
}

impl Pattern {
    const FIRST: Self = Self { column: 0, exact: false, named: false };
    /// Names of databases and tables, in which case counts.
    const NAMES: Self = Self { column: 0, exact: true, named: true };
}

/// SHOW.
pub(crate) async fn run(
    session: &mut Session,
    show: &Show,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let (listing, filter, pattern) = list(session, show).await?;
    answer(session, listing, filter, pattern, out).await
}

/// DESCRIBE of a table.
pub(crate) async fn describe(
    session: &mut Session,
    describe: &ast::Describe,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let listing = table::columns(session, &describe.table, false).await?;
    let filter = match &describe.column {
        Some(column) => ShowFilter::Like(column.as_bytes().into()),
        None => ShowFilter::None,
    };
    answer(session, listing, &filter, Pattern::FIRST, out).await
}

/// The columns of a SHOW. Connectors that fetch rows need them before it is run.
pub(crate) async fn columns_of_show(
    session: &mut Session,
    show: &Show,
) -> Result<Vec<ResultColumn>, SqlError> {
    let (mut listing, filter, pattern) = list(session, show).await?;
    filter::apply(session, &mut listing, filter, pattern)?;
    Ok(columns_of(&listing))
}

/// The columns of a DESCRIBE of a table.
pub(crate) async fn columns_of_describe(
    session: &mut Session,
    describe: &ast::Describe,
) -> Result<Vec<ResultColumn>, SqlError> {
    table::columns(session, &describe.table, false).await.map(|listing| columns_of(&listing))
}

fn columns_of(listing: &Listing) -> Vec<ResultColumn> {
    let columns = listing.columns.iter();
    columns.map(|(name, sql_type)| ResultColumn::new(name, sql_type.clone())).collect()
}

async fn answer(
    session: &mut Session,
    mut listing: Listing,
    filter: &ShowFilter,
    pattern: Pattern,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    filter::apply(session, &mut listing, filter, pattern)?;
    out.columns(&columns_of(&listing));
    for (at, row) in listing.rows.iter().enumerate() {
        out.row(row);
        if at % ROWS_PER_DRAIN == ROWS_PER_DRAIN - 1 {
            out.drain().await;
        }
    }
    Ok(Outcome::Rows)
}

/// The rows of a SHOW, with the filter that is still to be applied.
async fn list<'a>(
    session: &mut Session,
    show: &'a Show,
) -> Result<(Listing, &'a ShowFilter, Pattern), SqlError> {
    let names = Pattern::NAMES;
    let plain_names = Pattern { named: false, ..names };
    Ok(match show {
        Show::Databases(filter) => (table::databases(session), filter, names),
        Show::Tables { full, schema, filter, .. } => {
            let only = filter::only(filter);
            (table::tables(session, schema.as_ref(), *full, only.as_deref())?, filter, names)
        }
        Show::TableStatus { schema, filter } => {
            let only = filter::only(filter);
            let listing = table::status(session, schema.as_ref(), only.as_deref()).await?;
            (listing, filter, plain_names)
        }
        Show::OpenTables { schema, filter } => {
            (table::open_tables(session, schema.as_ref())?, filter, plain_names)
        }
        Show::Columns { full, table, filter, .. } => {
            (table::columns(session, table, *full).await?, filter, Pattern::FIRST)
        }
        Show::Triggers { schema, filter, .. } => {
            let pattern = Pattern { column: 2, ..plain_names };
            (table::triggers(session, schema.as_ref())?, filter, pattern)
        }
        Show::Events { schema, filter } => {
            let pattern = Pattern { column: 1, ..plain_names };
            (table::events(session, schema.as_ref())?, filter, pattern)
        }
        Show::Variables(scope, filter) => {
            (server::variables(session, *scope), filter, Pattern::FIRST)
        }
        Show::Status(scope, filter) => (server::status(session, *scope), filter, Pattern::FIRST),
        Show::CharacterSets(filter) => (server::character_sets(), filter, Pattern::FIRST),
        Show::Collations(filter) => (server::collations(), filter, Pattern::FIRST),
        Show::FunctionStatus(filter) | Show::ProcedureStatus(filter) => {
            (server::routines(), filter, Pattern { column: 1, ..Pattern::FIRST })
        }
        Show::Indexes { table, filter, .. } => {
            let mut listing = table::indexes(session, table).await?;
            if let Some(condition) = filter {
                filter::keep_where(session, &mut listing, condition)?;
            }
            (listing, &ShowFilter::None, Pattern::FIRST)
        }
        other => (unfiltered(session, other).await?, &ShowFilter::None, Pattern::FIRST),
    })
}

/// The forms that have no LIKE and no WHERE.
async fn unfiltered(session: &mut Session, show: &Show) -> Result<Listing, SqlError> {
    match show {
        Show::CreateDatabase { if_not_exists, name } => {
            create::database(session, name.as_str(), *if_not_exists)
        }
        Show::Create(kind, name) => create::object(session, *kind, name).await,
        Show::CreateUser(account) => server::create_user(session, account),
        Show::Warnings(limit) => server::diagnostics(session, limit.as_ref(), false).await,
        Show::Errors(limit) => server::diagnostics(session, limit.as_ref(), true).await,
        Show::WarningCount => Ok(server::diagnostics_count(session, false)),
        Show::ErrorCount => Ok(server::diagnostics_count(session, true)),
        Show::Engines => Ok(server::engines()),
        Show::Engine { .. } => Ok(Listing::of_texts(&["Type", "Name", "Status"])),
        Show::Plugins => Ok(server::plugins(session)),
        Show::ProcessList(full) => server::processes(session, *full).await,
        Show::Grants { account, using } => server::grants(session, account.as_ref(), using),
        Show::Privileges => Ok(server::privileges()),
        Show::RoutineCode(is_function, _) => Err(server::no_routine_code(*is_function)),
        Show::BinaryLogStatus => binary_log::status(session).await,
        Show::BinaryLogs => binary_log::files(session).await,
        Show::LogEvents { relay, file, position, limit, .. } => {
            let file = file.as_deref().filter(|_| !relay);
            binary_log::events(session, *relay, file, *position, limit.as_ref()).await
        }
        Show::ReplicaStatus(channel) => {
            let rows = replication::status(session, channel.as_deref()).await?;
            Ok(Listing::filled(replication::status_columns(), rows))
        }
        Show::BackupJobs => Ok(Listing::filled(backup::job_columns(), backup::jobs(session))),
        Show::Archives => {
            let rows = backup::archive::listed(session).await?;
            Ok(Listing::filled(backup::archive::columns(), rows))
        }
        Show::Changefeeds => {
            let rows = changefeed::listed(session).await?;
            Ok(Listing::filled(changefeed::columns(), rows))
        }
        Show::Backups(place) => {
            let rows = backup::backups(session, place).await?;
            Ok(Listing::filled(backup::backup_columns(), rows))
        }
        Show::Replicas => Ok(binary_log::replicas(session)),
        Show::Profiles => Ok(Listing::of_texts(&["Query_ID", "Duration", "Query"])),
        Show::Profile { .. } => Ok(Listing::of_texts(&["Status", "Duration"])),
        _ => Err(error::unsupported("this form of SHOW")),
    }
}

#[cfg(test)]
mod tests;
