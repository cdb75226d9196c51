//! What SQL knows of a table: columns, keys, CHECK constraints, options.

use std::sync::Arc;

use super::error;
use super::names::{TEMPORARY_PREFIX, TableName};
use collation::CollationId;
use model::{ColumnId, IndexId, Table, Value};
use sql_expression::{Expression, SqlError, same_name};
use sql_parser::ast::{self, ReferentialAction};
use sqltype::{Datum, SqlType};

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
    pub hidden: Option<Hidden>,
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
        self.table.name.starts_with(TEMPORARY_PREFIX)
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

/// A checked definition.
#[derive(Clone, Debug)]
pub(crate) struct Complete {
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) keys: Vec<KeyDefinition>,
    pub(crate) checks: Vec<CheckDefinition>,
    pub(crate) foreign_keys: Vec<ForeignKeyDefinition>,
    pub(crate) options: TableOptions,
}

/// What a hidden column holds. Columns are positions in [`TableDefinition::columns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// The first characters of a column; bytes of one that holds bytes.
    Prefix { of: usize, length: u32, bytes: bool },
    /// The first bytes of the sort key of a column of text.
    SortKey { of: usize, collation: CollationId, length: u32 },
    /// What its expression comes to: it is a generated column.
    Expression,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForeignKeyDefinition {
    /// The name, unique in the database.
    pub name: String,
    /// Positions of the columns that refer.
    pub columns: Vec<usize>,
    /// The table they refer to, which need not be there.
    pub parent: TableName,
    /// The columns of that table's key, in the order of `columns`.
    pub parent_columns: Vec<String>,
    /// What becomes of a row whose parent goes.
    pub on_delete: Rule,
    /// What becomes of a row whose parent's key changes.
    pub on_update: Rule,
}

/// What becomes of rows that refer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// NO ACTION, said or not: as RESTRICT.
    #[default]
    NoAction,
    /// RESTRICT: the parent stays.
    Restrict,
    /// CASCADE: they follow.
    Cascade,
    /// SET NULL: they refer to nothing.
    SetNull,
}

impl Rule {
    /// As it is declared.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Rule::NoAction => "NO ACTION",
            Rule::Restrict => "RESTRICT",
            Rule::Cascade => "CASCADE",
            Rule::SetNull => "SET NULL",
        }
    }

    pub(super) fn read(action: Option<ReferentialAction>) -> Result<Self, SqlError> {
        match action {
            None | Some(ReferentialAction::NoAction) => Ok(Rule::NoAction),
            Some(ReferentialAction::Restrict) => Ok(Rule::Restrict),
            Some(ReferentialAction::Cascade) => Ok(Rule::Cascade),
            Some(ReferentialAction::SetNull) => Ok(Rule::SetNull),
            // As InnoDB.
            Some(ReferentialAction::SetDefault) => Err(error::cannot_add_foreign_key()),
        }
    }
}
