//! Names of databases and tables, as a session sees them.
//!
//! Letter case counts in them (`lower_case_table_names` is 0), but not in the names of the system's
//! own schemas.
//!
//! # Owns
//! From a name in a statement to a database, a table, a definition; which names are allowed.
//! # Not here
//! The rows of system tables (`information`).

use std::rc::Rc;
use std::sync::Arc;

use collation::CollationId;
use model::{ClusterState, Table, TableId};
use sql_expression::SqlError;
use sql_parser::ast::ObjectName;

use super::column::check_length;
use super::view::{self, ViewDefinition};
use super::{DatabaseOptions, TableDefinition, error};
use crate::information;
use crate::session::Session;

/// Names of tables that are being made by ALTER TABLE begin so; users do not see them.
pub(crate) const ALTER_PREFIX: &str = "#alter-";

/// Names of tables that are being restored begin so; users do not see them.
pub(crate) const RESTORE_PREFIX: &str = "#restore-";

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
        match self.database.is_empty() {
            true => self.name.clone(),
            false => format!("{}.{}", self.database, self.name),
        }
    }

    /// Whether a table of that name is no user's: it answers from the system itself.
    pub(crate) fn is_system(&self) -> bool {
        information::schema(&self.database).is_some()
    }
}

impl Session {
    /// The default database.
    pub(crate) fn current_database(&self) -> Result<&str, SqlError> {
        self.database.as_deref().ok_or_else(error::no_database)
    }

    /// Whether there is a database of this name, system schemas among them.
    pub(crate) fn database_exists(&self, name: &str) -> bool {
        information::schema(name).is_some() || self.kernel.cluster().databases.contains_key(name)
    }

    /// The database's own name: system schemas are found in any letter case.
    pub(crate) fn database_name(&self, name: &str) -> String {
        information::schema(name).unwrap_or(name).to_owned()
    }

    /// Refuses a database that is not there.
    pub(crate) fn check_database(&self, name: &str) -> Result<(), SqlError> {
        match self.database_exists(name) {
            true => Ok(()),
            false => Err(error::unknown_database(name)),
        }
    }

    /// A table's name with its database, which need not exist.
    pub(crate) fn table_name(&self, name: &ObjectName) -> Result<TableName, SqlError> {
        let database = match &name.schema {
            Some(schema) => self.database_name(schema.as_str()),
            None => self.current_database()?.to_owned(),
        };
        Ok(TableName { database, name: name.name.as_str().to_owned() })
    }

    /// `database.table`.
    pub(crate) fn full_name(&self, name: &ObjectName) -> Result<String, SqlError> {
        Ok(self.table_name(name)?.full())
    }

    /// The definition of a user's table; error 1146 if there is none.
    pub(crate) fn definition(&self, name: &ObjectName) -> Result<Rc<TableDefinition>, SqlError> {
        let name = self.table_name(name)?;
        self.definition_named(&name)
    }

    /// As [`Session::definition`], by a name that has its database.
    pub(crate) fn definition_named(
        &self,
        name: &TableName,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        match self.temporary_table(name) {
            Some(table) => self.shared.definitions.of(&table),
            None => self.permanent_named(name),
        }
    }

    /// As [`Session::definition_named`], of a table that is no temporary one.
    pub(crate) fn permanent_named(
        &self,
        name: &TableName,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        let cluster = self.kernel.cluster();
        match cluster.table_named(&name.full()) {
            Some(table) => self.shared.definitions.of(table),
            None if !self.database_exists(&name.database) => {
                Err(error::unknown_database(&name.database))
            }
            None => Err(error::no_such_table(&name.database, &name.name)),
        }
    }

    /// The view of this name, if it is one.
    pub(crate) fn view_named(
        &self,
        name: &TableName,
    ) -> Result<Option<Rc<ViewDefinition>>, SqlError> {
        if self.temporary.has(name) {
            return Ok(None);
        }
        let cluster = self.kernel.cluster();
        let table = cluster.table_named(&name.full()).filter(|table| view::is_view(table));
        table.map(view::read).transpose()
    }

    /// What is said about a database; of system schemas what MySQL's have.
    pub(crate) fn database_options(&self, name: &str) -> DatabaseOptions {
        if information::schema(name).is_some() {
            let collation = match name {
                "information_schema" => CollationId::UTF8MB3_GENERAL_CI,
                _ => CollationId::UTF8MB4_0900_AI_CI,
            };
            return DatabaseOptions::of(collation);
        }
        let cluster = self.kernel.cluster();
        cluster.databases.get(name).map(DatabaseOptions::read).unwrap_or_default()
    }

    /// The collation of tables that are made in the default database; without one, the server's.
    pub(crate) fn default_database_collation(&self) -> CollationId {
        match &self.database {
            Some(database) => self.database_options(database).collation,
            None => self.variables.server_collation,
        }
    }
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
