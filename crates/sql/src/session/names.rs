//! Names of databases, tables and views as a session means them.
//!
//! # Owns
//! The default database, temporary tables before permanent ones, system schemas in any letter case.
//! # Not here
//! Which names are allowed (`catalog::names`).

use std::rc::Rc;

use collation::CollationId;
use sql_expression::SqlError;
use sql_parser::ast::ObjectName;

use crate::catalog::names::TableName;
use crate::catalog::view::{self, ViewDefinition};
use crate::catalog::{DatabaseOptions, TableDefinition, error, system};
use crate::session::Session;

impl Session {
    /// The default database.
    pub(crate) fn current_database(&self) -> Result<&str, SqlError> {
        self.database.as_deref().ok_or_else(error::no_database)
    }

    /// Whether there is a database of this name, system schemas among them.
    pub(crate) fn database_exists(&self, name: &str) -> bool {
        system::schema(name).is_some() || self.kernel.cluster().databases.contains_key(name)
    }

    /// The database's own name: system schemas are found in any letter case.
    pub(crate) fn database_name(&self, name: &str) -> String {
        system::schema(name).unwrap_or(name).to_owned()
    }

    /// Refuses a database that is not there.
    pub(crate) fn check_database(&self, name: &str) -> Result<(), SqlError> {
        if self.database_exists(name) { Ok(()) } else { Err(error::unknown_database(name)) }
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
        if system::schema(name).is_some() {
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
