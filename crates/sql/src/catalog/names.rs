//! Names of databases and tables.
//!
//! Letter case counts in them (`lower_case_table_names` is 0), but not in the names of the system's
//! own schemas.
//!
//! # Owns
//! Names with their database, names that users do not see, which names are allowed.
//! # Not here
//! What a name means to a session (`session::names`).

use std::sync::Arc;

use model::{ClusterState, Table, TableId};
use sql_expression::SqlError;

use super::{error, system};

/// Names of tables that are being made by ALTER TABLE begin so; users do not see them.
pub(crate) const ALTER_PREFIX: &str = "#alter-";

/// Names of tables that are being restored begin so; users do not see them.
pub(crate) const RESTORE_PREFIX: &str = "#restore-";

/// What the kernel's names of temporary tables begin with: no database, so no user sees them. The
/// owner, a number, the database and the name follow.
pub(crate) const TEMPORARY_PREFIX: &str = "#temporary/";
/// The kernel's name of `mysql.ndb_replication`, the one table of a system schema that users make
/// and write.
pub(crate) const NDB_REPLICATION: &str = "#ndb_replication";
/// The database and the name that users know it by.
const NDB_REPLICATION_SHOWN: (&str, &str) = ("mysql", "ndb_replication");
/// Stands for a point in a name: what is before one is a database for the kernel.
pub(crate) const POINT: &str = "\u{1}";
/// A name in a statement, with the database it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) database: String,
    pub(crate) name: String,
}

/// The name of the table that is to take the place of this one.
pub(crate) fn copy_name(table: TableId) -> String {
    format!("{ALTER_PREFIX}{}", table.0)
}

/// The table whose place a table of this name is to take.
pub(crate) fn copied_by<'a>(cluster: &'a ClusterState, name: &str) -> Option<&'a Arc<Table>> {
    let id = name.strip_prefix(ALTER_PREFIX)?.parse().ok()?;
    cluster.tables.get(&TableId(id))
}

/// The number of the restore that makes the table of this full name.
pub(crate) fn restored_by(full_name: &str) -> Option<u64> {
    let (_, name) = full_name.split_once('.')?;
    let (number, _) = name.strip_prefix(RESTORE_PREFIX)?.split_once('-')?;
    number.parse().ok()
}

impl TableName {
    /// The kernel's name, of permanent tables. One of the kernel's own has no database.
    pub(crate) fn full(&self) -> String {
        if self.database.is_empty() {
            self.name.clone()
        } else if self.is_ndb_replication() {
            NDB_REPLICATION.to_owned()
        } else {
            format!("{}.{}", self.database, self.name)
        }
    }

    /// Whether a table of that name is no user's: it answers from the system itself.
    pub(crate) fn is_system(&self) -> bool {
        system::schema(&self.database).is_some() && !self.is_ndb_replication()
    }

    fn is_ndb_replication(&self) -> bool {
        (self.database.as_str(), self.name.as_str()) == NDB_REPLICATION_SHOWN
    }
}

/// The database and the name that users know a table of the kernel by.
pub(crate) fn shown_name(kernel_name: &str) -> (String, String) {
    if kernel_name == NDB_REPLICATION {
        let (database, name) = NDB_REPLICATION_SHOWN;
        return (database.to_owned(), name.to_owned());
    }
    let own = kernel_name.strip_prefix(TEMPORARY_PREFIX).and_then(|rest| {
        let mut parts = rest.splitn(4, '/').skip(2);
        Some((parts.next()?.to_owned(), parts.next()?.replace(POINT, ".")))
    });
    own.unwrap_or_else(|| {
        let (database, name) = kernel_name.split_once('.').unwrap_or(("", kernel_name));
        (database.to_owned(), name.to_owned())
    })
}

/// The users' tables of a database, by name.
pub(crate) fn tables_of<'a>(
    cluster: &'a ClusterState,
    database: &str,
) -> impl Iterator<Item = (&'a str, &'a Arc<Table>)> + use<'a> {
    let prefix = format!("{database}.");
    let tables = cluster.table_names.iter_from(prefix.as_str());
    tables
        .map_while(move |(full, id)| Some((full.strip_prefix(&prefix)?, id)))
        .filter(|(name, _)| !is_hidden(name))
        .filter_map(|(name, id)| Some((name, cluster.tables.get(id)?)))
}

/// Whether a table of this name is not shown: it is to replace another one, or to be restored.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(ALTER_PREFIX) || name.starts_with(RESTORE_PREFIX)
}

/// Refuses names that a new database cannot have.
pub(crate) fn check_database_name(name: &str) -> Result<(), SqlError> {
    let unfit = name.is_empty() || name.ends_with(' ') || name.contains(['.', '/', '\\', '\0']);
    if unfit {
        return Err(error::wrong_database_name(name));
    }
    check_length(name)
}

/// Refuses names that a new table cannot have.
pub(crate) fn check_table_name(name: &str) -> Result<(), SqlError> {
    let unfit = name.is_empty() || name.ends_with(' ') || name.contains('\0') || is_hidden(name);
    if unfit {
        return Err(error::wrong_table_name(name));
    }
    check_length(name)
}

/// Longest name of a table, column or key, in characters.
pub(crate) const NAME_LENGTH_MAX: usize = 64;

pub(crate) fn check_length(name: &str) -> Result<(), SqlError> {
    if name.chars().count() > NAME_LENGTH_MAX { Err(error::name_too_long(name)) } else { Ok(()) }
}
