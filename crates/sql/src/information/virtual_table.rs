//! What a computed table is: its columns, and where its rows come from.
//!
//! # Owns
//! [`VirtualTable`]; [`Hints`], which rows are wanted; values of columns.
//! # Not here
//! The list of such tables, and getting their rows (`information`).

use sql_expression::SqlError;
use sqltype::{Datum, SqlType, TypeKind};
use wire::Inspection;

use super::Sequences;
use crate::catalog::system::NAMES_COLLATION;
use crate::session::Session;
use crate::statistics::Sizes;
use crate::statistics::store::Known;

/// A computed table.
#[derive(Debug)]
pub(crate) struct VirtualTable {
    /// The schema it is in.
    pub schema: &'static str,
    /// Its name, as it is shown.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: &'static [VirtualColumn],
    pub(super) source: Source,
}

/// A column of a computed table.
#[derive(Debug)]
pub(crate) struct VirtualColumn {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be NULL.
    pub nullable: bool,
    pub(super) kind: Kind,
}

/// The types that such columns have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// VARCHAR of this many characters.
    Text(u32),
    /// TEXT of the larger kinds.
    LongText,
    /// INT.
    Int,
    /// INT UNSIGNED.
    UInt,
    /// BIGINT.
    BigInt,
    /// BIGINT UNSIGNED.
    UBigInt,
    /// DOUBLE.
    Double,
    /// DATETIME.
    DateTime,
    /// TIMESTAMP.
    Timestamp,
    /// JSON.
    Json,
}

/// Where the rows come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// From what this process knows.
    Here(fn(&Session, &Hints) -> Result<Rows, SqlError>),
    /// Likewise, with the sizes of tables.
    Sizes(fn(&Session, &Hints, &Sizes) -> Result<Rows, SqlError>),
    /// Likewise, with how the values of tables are distributed as far as the cluster knows.
    Values(fn(&Session, &Hints, &Sizes, &Known) -> Result<Rows, SqlError>),
    /// Likewise, with the next values of AUTO_INCREMENT columns too.
    Sequences(fn(&Session, &Hints, &Sizes, &Sequences) -> Result<Rows, SqlError>),
    /// There are none.
    Empty,
    /// The connections of all SQL nodes.
    Connections,
    /// How the SQL nodes stand.
    SqlNodes,
    /// The tables that are to be moved to other node groups.
    Moves,
    /// From the workers of the data nodes: node and worker, then what they tell.
    Workers(Inspection),
    /// Likewise, of their replicas: about some tables after the other.
    Replicas,
}

/// Rows of a computed table.
pub(super) type Rows = Vec<Vec<Datum>>;

/// What is known about the rows wanted; rows beyond it may come all the same. Names are found as
/// the columns that show them compare, see [`VirtualColumn::sql_type`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    /// Only of this database.
    pub(crate) database: Option<String>,
    /// Only of this table.
    pub(crate) table: Option<String>,
}

fn is_name(wanted: &str, name: &str) -> bool {
    wanted == name
        || collation::compare(NAMES_COLLATION, wanted.as_bytes(), name.as_bytes()).is_eq()
}

impl Hints {
    /// Whether rows of this database are wanted.
    pub(crate) fn wants_database(&self, name: &str) -> bool {
        self.database.as_ref().is_none_or(|wanted| is_name(wanted, name))
    }

    /// Whether rows of this table are wanted.
    pub(crate) fn wants_table(&self, name: &str) -> bool {
        self.table.as_ref().is_none_or(|wanted| is_name(wanted, name))
    }
}

impl VirtualColumn {
    /// Its type.
    pub(crate) fn sql_type(&self) -> SqlType {
        let text = |sql_type: SqlType| SqlType { collation: NAMES_COLLATION, ..sql_type };
        match self.kind {
            Kind::Text(length) => text(SqlType::text(length)),
            Kind::LongText => text(SqlType::new(TypeKind::LongText, u32::MAX)),
            Kind::Int => SqlType::new(TypeKind::Int, 11),
            Kind::UInt => SqlType { unsigned: true, ..SqlType::new(TypeKind::Int, 10) },
            Kind::BigInt => SqlType::big_int(),
            Kind::UBigInt => SqlType::unsigned_big_int(),
            Kind::Double => SqlType::double(),
            Kind::DateTime => SqlType::new(TypeKind::DateTime, 19),
            Kind::Timestamp => SqlType::new(TypeKind::Timestamp, 19),
            Kind::Json => SqlType::new(TypeKind::Json, u32::MAX),
        }
    }
}

/// A column that has a value in every row.
pub(super) const fn column(name: &'static str, kind: Kind) -> VirtualColumn {
    VirtualColumn { name, nullable: false, kind }
}

/// A column that may be NULL.
pub(super) const fn nullable(name: &'static str, kind: Kind) -> VirtualColumn {
    VirtualColumn { name, nullable: true, kind }
}

pub(super) const fn information(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "information_schema", name, columns, source }
}

/// YES or NO.
pub(super) fn yes_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

pub(super) fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value.as_ref())
}

/// A text, or NULL.
pub(super) fn optional(value: Option<impl AsRef<str>>) -> Datum {
    value.map_or(Datum::Null, text)
}
