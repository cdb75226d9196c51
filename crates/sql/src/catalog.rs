//! Tables as SQL knows them.
//!
//! The kernel's catalog keeps columns by storage kind and indexes by column; what else MySQL knows
//! of a table is in its description, the canonical CREATE TABLE text. Here both become one
//! definition, once per version of a table, and a checked CREATE TABLE becomes what the kernel is
//! asked to make.
//!
//! # Owns
//! [`TableDefinition`] and its parts, the cache [`Definitions`], the checks of definitions, the
//! text of SHOW CREATE TABLE, names of databases and tables.
//! # Guarantees
//! A definition never changes: an alteration is a new one with another version. What the text of a
//! definition is read as prints as the same text.
//! # Not here
//! Carrying out changes (`ddl`), rows (`execute`).

pub(crate) mod column;
pub(crate) mod constant;
pub(crate) mod database;
pub(crate) mod default;
mod definition;
pub(crate) mod draft;
pub(crate) mod error;
pub(crate) mod expression;
pub(crate) mod foreign_key;
#[cfg(test)]
pub(crate) mod harness;
pub(crate) mod hidden;
pub(crate) mod kernel_form;
pub(crate) mod key;
pub(crate) mod key_value;
pub(crate) mod large;
pub(crate) mod names;
pub(crate) mod option;
pub(crate) mod referrers;
pub(crate) mod rules;
mod spellings;
pub(crate) mod system;
pub(crate) mod text;
pub(crate) mod view;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use model::{Table, TableId};
use sql_expression::SqlError;

pub(crate) use database::DatabaseOptions;
pub(crate) use definition::{
    CheckDefinition, ColumnDefault, ColumnDefinition, Complete, ForeignKeyDefinition, Generated,
    Hidden, KeyDefinition, KeyKind, KeyMethod, KeyPart, PartitionByKey, Rule, TableCollation,
    TableDefinition, TableOptions, column_at, column_named, visible,
};
pub(crate) use sql_expression::same_name;

/// Most definitions kept; beyond it the oldest table's is forgotten, and read again when needed.
const DEFINITIONS_MAX: usize = 8_192;

/// The definitions a worker has read, by table; one is good for the version it was read from.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    by_table: RefCell<BTreeMap<TableId, Rc<TableDefinition>>>,
    referrers: RefCell<referrers::Referrers>,
    spellings: RefCell<spellings::Spellings>,
}

impl Definitions {
    /// The SQL definition of a kernel table; error 1347 for one that stands for a view.
    pub(crate) fn of(&self, table: &Arc<Table>) -> Result<Rc<TableDefinition>, SqlError> {
        if let Some(known) = self.by_table.borrow().get(&table.id)
            && known.table.version == table.version
        {
            return Ok(known.clone());
        }
        if view::is_view(table) {
            let (database, name) = table.name.split_once('.').unwrap_or(("", &table.name));
            return Err(SqlError::of::<1347>(&[&database, &name, &"BASE TABLE"]));
        }
        let definition = Rc::new(kernel_form::read(table)?);
        let mut by_table = self.by_table.borrow_mut();
        if by_table.len() >= DEFINITIONS_MAX {
            by_table.pop_first();
        }
        by_table.insert(table.id, definition.clone());
        Ok(definition)
    }
}

#[cfg(test)]
mod tests;
