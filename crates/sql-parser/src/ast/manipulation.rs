//! Statements that change rows.

use super::{
    CharacterSet, ColumnRef, Expr, FileFormat, Hints, Ident, Limit, ObjectName, OrderItem, Query,
    TableReference, With,
};

/// INSERT or REPLACE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// REPLACE.
    pub replace: bool,
    /// IGNORE.
    pub ignore: bool,
    /// LOW_PRIORITY, HIGH_PRIORITY, DELAYED.
    pub priority: Option<InsertPriority>,
    /// `/*+ … */`, if it has hints.
    pub hints: Option<Box<Hints>>,
    /// The table.
    pub table: ObjectName,
    /// PARTITION.
    pub partitions: Vec<Ident>,
    /// The columns, if given; of SET, the columns it names.
    pub columns: Option<Vec<ColumnRef>>,
    /// The rows.
    pub source: InsertSource,
    /// AS, after VALUES or SET.
    pub alias: Option<InsertAlias>,
    /// ON DUPLICATE KEY UPDATE.
    pub on_duplicate: Vec<Assignment>,
}

/// The priority of an INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertPriority {
    /// LOW_PRIORITY.
    Low,
    /// HIGH_PRIORITY.
    High,
    /// DELAYED.
    Delayed,
}

/// The rows of an INSERT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertSource {
    /// VALUES, and SET as one row. `VALUES ()` is a row without values.
    Values(Vec<Vec<Expr>>),
    /// VALUES with rows of so many literals each, which were taken out of the text and are kept
    /// apart from the tree.
    Literals(u32),
    /// A query.
    Query(Box<Query>),
}

/// AS of an INSERT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertAlias {
    /// The name of the new row.
    pub table: Ident,
    /// Names of its columns, if given.
    pub columns: Vec<Ident>,
}

/// `column = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The column.
    pub column: ColumnRef,
    /// Its new value, or [`Expr::DefaultValue`].
    pub value: Expr,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// IGNORE.
    pub ignore: bool,
    /// `/*+ … */`, if it has hints.
    pub hints: Option<Box<Hints>>,
    /// The tables; one that is not a join is the form for a single table.
    pub tables: Vec<TableReference>,
    /// SET, at least one.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT, which has no offset.
    pub limit: Option<Limit>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// QUICK.
    pub quick: bool,
    /// IGNORE.
    pub ignore: bool,
    /// `/*+ … */`, if it has hints.
    pub hints: Option<Box<Hints>>,
    /// From where.
    pub target: DeleteTarget,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT, which has no offset.
    pub limit: Option<Limit>,
}

/// From where DELETE removes rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteTarget {
    /// `DELETE FROM t …`.
    Single {
        /// The table.
        table: ObjectName,
        /// AS.
        alias: Option<Ident>,
        /// PARTITION.
        partitions: Vec<Ident>,
    },
    /// `DELETE t1, t2 FROM …` and `DELETE FROM t1, t2 USING …`.
    Multi {
        /// Tables or aliases whose rows go.
        tables: Vec<ObjectName>,
        /// The tables that are joined.
        from: Vec<TableReference>,
    },
}

/// LOAD DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadData {
    /// LOAD XML.
    pub xml: bool,
    /// LOCAL.
    pub local: bool,
    /// LOW_PRIORITY or CONCURRENT.
    pub priority: Option<LoadPriority>,
    /// The file's name.
    pub path: Box<str>,
    /// REPLACE or IGNORE.
    pub duplicates: Option<LoadDuplicates>,
    /// The table.
    pub table: ObjectName,
    /// PARTITION.
    pub partitions: Vec<Ident>,
    /// CHARACTER SET.
    pub charset: Option<CharacterSet>,
    /// ROWS IDENTIFIED BY of LOAD XML.
    pub rows_identified: Option<Box<[u8]>>,
    /// FIELDS and LINES.
    pub format: FileFormat,
    /// IGNORE n LINES.
    pub ignore_lines: u64,
    /// Where each field goes; all columns in order if empty.
    pub columns: Vec<LoadColumn>,
    /// SET.
    pub assignments: Vec<Assignment>,
}

/// The priority of a LOAD DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPriority {
    /// LOW_PRIORITY.
    Low,
    /// CONCURRENT.
    Concurrent,
}

/// What LOAD DATA does about rows that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadDuplicates {
    /// REPLACE.
    Replace,
    /// IGNORE.
    Ignore,
}

/// Where a field of LOAD DATA goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadColumn {
    /// To a column.
    Column(ColumnRef),
    /// To a user variable.
    Variable(Ident),
}

/// CALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The procedure.
    pub name: ObjectName,
    /// Its arguments.
    pub arguments: Vec<Expr>,
}
