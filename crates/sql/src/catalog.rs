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
mod spellings;
pub(crate) mod system;
pub(crate) mod text;
pub(crate) mod view;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use collation::CollationId;
use model::{ColumnId, IndexId, Table, TableId, Value};
use sql_expression::{Expression, SqlError};
use sql_parser::ast;
use sqltype::{Datum, SqlType};

pub(crate) use database::DatabaseOptions;
pub(crate) use foreign_key::ForeignKeyDefinition;
pub(crate) use sql_expression::same_name;

/// A table: immutable, shared by all who use this version.
#[derive(Clone, Debug)]
pub(crate) struct TableDefinition {
    /// The kernel's definition.
    pub table: Arc<Table>,
    /// The database it belongs to.
    pub database: String,
    /// Its name in the database.
    pub name: String,
    /// Columns in the order of `SELECT *`, which need not be the kernel's; behind them those that
    /// nobody sees. Columns of the kernel that are not here are nobody's: an insert stores the
    /// kernel's default there.
    pub columns: Vec<ColumnDefinition>,
    /// Of a table without PRIMARY KEY: the column that is its key, a `UInt(8)` filled from the
    /// table's sequence.
    pub hidden_key: Option<ColumnId>,
    /// PRIMARY first, then unique keys, then the others.
    pub keys: Vec<KeyDefinition>,
    /// CHECK constraints, those of columns among them.
    pub checks: Vec<CheckDefinition>,
    /// Foreign keys, by name.
    pub foreign_keys: Vec<ForeignKeyDefinition>,
    /// Everything else said about it.
    pub options: TableOptions,
    /// Generated columns of keys, with their expressions as they are compared with those of
    /// statements.
    pub computed: Vec<(usize, Expression)>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    /// The name; case does not count.
    pub name: String,
    /// The kernel's column.
    pub column: ColumnId,
    /// The type, with its collation.
    pub sql_type: SqlType,
    /// The character set or collation was said at the column: it is shown though it be the table's.
    pub explicit_collation: bool,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// What an insert stores that says nothing about it.
    pub default: ColumnDefault,
    /// ON UPDATE CURRENT_TIMESTAMP, with the digits of a second.
    pub on_update_now: Option<u8>,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
    /// Only there for a key, and what for: nobody sees it or can name it.
    pub hidden: Option<hidden::Hidden>,
    /// Left out of `SELECT *`.
    pub invisible: bool,
    /// COMMENT.
    pub comment: String,
}

/// What an insert stores that says nothing about a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnDefault {
    /// There is none: an insert must say something (error 1364), or in lax modes stores the type's
    /// zero. Also of generated columns.
    None,
    /// A constant of the column's type; NULL too.
    Value(Datum),
    /// An expression, evaluated for each row.
    Expression(Box<ast::Expr>),
    /// CURRENT_TIMESTAMP with this many digits of a second.
    Now(u8),
}

/// The expression of a generated column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Generated {
    /// The expression.
    pub expression: Box<ast::Expr>,
    /// STORED. A VIRTUAL column is stored as well: the difference is what SHOW prints.
    pub stored: bool,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyDefinition {
    /// The name; `PRIMARY` of the primary key.
    pub name: String,
    /// Which kind.
    pub kind: KeyKind,
    /// What it is over, most significant first.
    pub columns: Vec<KeyPart>,
    /// The kernel's ordered index over the columns; none with `USING HASH`, or where the kernel
    /// cannot keep one (a prefix of a column too long to be indexed).
    pub ordered: Option<IndexId>,
    /// The kernel's unique index; of the primary key none, as it is the kernel's own.
    pub unique: Option<IndexId>,
    /// USING, if said.
    pub method: Option<KeyMethod>,
    /// COMMENT.
    pub comment: String,
    /// Not to be used by the planner.
    pub invisible: bool,
}

/// The kinds of key, in the order they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// KEY.
    Ordinary,
}

/// USING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMethod {
    /// BTREE: an ordered index.
    Btree,
    /// HASH: no ordered index beside the key itself.
    Hash,
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPart {
    /// Position in [`TableDefinition::columns`] of what the ordered index holds. Of a prefix that
    /// is the whole column, or where that is too long, the beginning of its sort key.
    pub column: usize,
    /// The column that was declared.
    pub declared: usize,
    /// The column by which rows are told apart.
    pub decides: usize,
    /// The key as declared holds only this many characters or bytes.
    pub prefix_length: Option<u32>,
    /// DESC. The kernel's index ascends all the same.
    pub descending: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckDefinition {
    /// The name, unique in the database.
    pub name: String,
    /// The condition; a row is refused when it is false.
    pub expression: Box<ast::Expr>,
    /// NOT ENFORCED is false.
    pub enforced: bool,
}

/// What is said about a table as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableOptions {
    /// The collation of columns that name none; tells the character set too.
    pub collation: TableCollation,
    /// COMMENT.
    pub comment: String,
    /// AUTO_INCREMENT: the first value of the sequence.
    pub auto_increment: Option<u64>,
    /// ROW_FORMAT, upper case.
    pub row_format: Option<String>,
    /// Options without effect that SHOW prints: name in upper case and value, in MySQL's order.
    pub others: Vec<(&'static str, String)>,
    /// PARTITION BY KEY.
    pub partitioning: Option<PartitionByKey>,
}

/// The collation of a table; by default MySQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableCollation(pub CollationId);

impl Default for TableCollation {
    fn default() -> Self {
        Self(CollationId::UTF8MB4_0900_AI_CI)
    }
}

/// PARTITION BY KEY: the columns whose hash places a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionByKey {
    /// Names of columns of the primary key; empty for all of it.
    pub columns: Vec<String>,
    /// PARTITIONS, if said.
    pub count: Option<u16>,
    /// LINEAR, which has no effect.
    pub linear: bool,
}

impl TableDefinition {
    /// Whether it is a session's own.
    pub(crate) fn is_temporary(&self) -> bool {
        self.table.name.starts_with(names::TEMPORARY_PREFIX)
    }

    /// The column of this name and its position.
    pub(crate) fn column(&self, name: &str) -> Option<(usize, &ColumnDefinition)> {
        column_named(&self.columns, name)
    }

    /// The primary key; none where the hidden key stands in for it.
    pub(crate) fn primary_key(&self) -> Option<&KeyDefinition> {
        self.keys.first().filter(|key| key.kind == KeyKind::Primary)
    }

    /// The primary key, or the unique key without NULLs that stands in for it.
    pub(crate) fn identifying_key(&self) -> Option<&KeyDefinition> {
        let never_null = |part: &KeyPart| !self.columns[part.declared].nullable;
        let stands_in =
            |key: &&KeyDefinition| key.is_unique() && key.columns.iter().all(never_null);
        self.primary_key().or_else(|| self.keys.iter().find(stands_in))
    }

    /// The values of the kernel's primary key in a row of all columns.
    pub(crate) fn key_of(&self, row: &[Value]) -> Vec<Value> {
        self.table.primary_key.iter().map(|column| row[usize::from(column.0)].clone()).collect()
    }

    /// The key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&KeyDefinition> {
        self.keys.iter().find(|key| same_name(&key.name, name))
    }

    /// The AUTO_INCREMENT column and its position.
    pub(crate) fn auto_increment(&self) -> Option<(usize, &ColumnDefinition)> {
        self.columns.iter().enumerate().find(|(_, column)| column.auto_increment)
    }

    /// The first value of the table's sequence.
    pub(crate) fn sequence_start(&self) -> u64 {
        self.options.auto_increment.unwrap_or(1).max(1)
    }

    /// The columns that are not hidden.
    pub(crate) fn visible_columns(&self) -> &[ColumnDefinition] {
        visible(&self.columns)
    }

    /// The collation of the table as a whole.
    pub(crate) fn collation(&self) -> CollationId {
        self.options.collation.0
    }
}

impl ColumnDefinition {
    /// Whether its values are computed from other columns.
    pub(crate) fn is_computed(&self) -> bool {
        self.generated.is_some() || self.hidden.is_some()
    }
}

impl KeyDefinition {
    /// Whether two rows may not have the same values.
    pub(crate) fn is_unique(&self) -> bool {
        self.kind != KeyKind::Ordinary
    }

    /// Whether some part holds only the beginning of its column.
    pub(crate) fn has_prefix(&self) -> bool {
        self.columns.iter().any(|part| part.prefix_length.is_some())
    }
}

/// The columns that are not hidden: they stand before the others.
pub(crate) fn visible(columns: &[ColumnDefinition]) -> &[ColumnDefinition] {
    let seen = columns.iter().position(|column| column.hidden.is_some());
    &columns[..seen.unwrap_or(columns.len())]
}

/// The position of a column that a statement assigns to.
///
/// # Errors
/// 1054 if there is none.
pub(crate) fn column_at(definition: &TableDefinition, name: &str) -> Result<usize, SqlError> {
    let found = definition.column(name).map(|(at, _)| at);
    found.ok_or_else(|| SqlError::unknown_column(name, "field list"))
}

/// The column of this name and its position.
pub(crate) fn column_named<'a>(
    columns: &'a [ColumnDefinition],
    name: &str,
) -> Option<(usize, &'a ColumnDefinition)> {
    let seen = |column: &ColumnDefinition| column.hidden.is_none();
    columns.iter().enumerate().find(|(_, column)| seen(column) && same_name(&column.name, name))
}

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
