//! Tables that are computed: information_schema, performance_schema, `nines`, `mysql`.
//!
//! # Owns
//! [`VirtualTable`] and the list of them. SHOW answers from the same rows.
//! # Guarantees
//! Columns have MySQL's names, order and types, so that tools find what they look for. What there
//! is none of (views, triggers, routines) is an empty table, not an error.
//! # Not here
//! Conditions on the rows: the planner filters them.

pub(crate) mod account;
mod cluster;
mod encryption;
pub(crate) mod performance;
pub(crate) mod schema;
mod sequence;
pub(crate) mod server;
mod table;
mod view;

use client::Inspected;
use model::Value;
use sql_expression::SqlError;
use sqltype::{Datum, SqlType, TypeKind};
use wire::Inspection;

use crate::catalog::system::{NAMES_COLLATION, schema};
use crate::session::Session;
use crate::statistics::store::Known;
use crate::statistics::{self, Sizes};

pub(crate) use sequence::Sequences;

/// A computed table.
#[derive(Debug)]
pub(crate) struct VirtualTable {
    /// The schema it is in.
    pub schema: &'static str,
    /// Its name, as it is shown.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: &'static [VirtualColumn],
    source: Source,
}

/// A column of a computed table.
#[derive(Debug)]
pub(crate) struct VirtualColumn {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be NULL.
    pub nullable: bool,
    kind: Kind,
}

/// The types that such columns have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
enum Source {
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
    /// From the workers of the data nodes: node and worker, then what they tell.
    Workers(Inspection),
    /// Likewise, of their replicas: about some tables after the other.
    Replicas,
}

/// Rows of a computed table.
type Rows = Vec<Vec<Datum>>;

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

impl VirtualTable {
    /// All rows.
    #[cfg(test)]
    pub(crate) async fn rows(&self, session: &mut Session) -> Result<Vec<Vec<Datum>>, SqlError> {
        self.rows_like(session, &Hints::default()).await
    }

    /// The rows that fit the hints, and perhaps others, as many values as columns in each.
    pub(crate) async fn rows_like(
        &self,
        session: &mut Session,
        hints: &Hints,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let rows = match self.source {
            Source::Here(rows) => rows(session, hints)?,
            Source::Sequences(rows) => {
                let tables = schema::tables_wanted(session, hints);
                let sequences = Sequences::of(session, tables.as_deref()).await?;
                rows(
                    session,
                    hints,
                    &Sizes::of(&session.kernel, tables.as_deref()).await,
                    &sequences,
                )?
            }
            Source::Sizes(rows) => {
                let tables = schema::tables_wanted(session, hints);
                rows(session, hints, &Sizes::of(&session.kernel, tables.as_deref()).await)?
            }
            Source::Values(rows) => {
                let tables = schema::tables_wanted(session, hints);
                let sizes = Sizes::of(&session.kernel, tables.as_deref()).await;
                rows(session, hints, &sizes, &Known::of(session, tables.as_deref()).await?)?
            }
            Source::Empty => Vec::new(),
            Source::Connections => server::processes(session).await?,
            Source::SqlNodes => cluster::sql_nodes(session).await?,
            Source::Workers(what) => {
                let answers = session.kernel.inspect(what, None).await?;
                answers.into_iter().flat_map(rows_of_worker).collect()
            }
            Source::Replicas => {
                let mut answers = Vec::new();
                for what in statistics::questions(&session.kernel, None) {
                    answers.extend(session.kernel.inspect(what, None).await?);
                }
                answers.sort_by_key(|answer| (answer.node, answer.worker));
                answers.into_iter().flat_map(rows_of_worker).collect()
            }
        };
        // A large catalog makes many rows: others have had to wait long enough.
        session.kernel.breathe().await?;
        Ok(rows)
    }
}

/// What a worker has told, behind its node and number.
fn rows_of_worker(told: Inspected) -> Rows {
    let datum = |value: Value| match value {
        Value::Int(number) => Datum::Int(number),
        Value::UInt(number) => Datum::UInt(number),
        Value::Bytes(text) => Datum::Bytes(text),
        _ => Datum::Null,
    };
    let (node, worker) = (Datum::UInt(told.node.0.into()), Datum::UInt(told.worker.0.into()));
    let row = |values: Vec<Value>| {
        let place = [node.clone(), worker.clone()].into_iter();
        place.chain(values.into_iter().map(datum)).collect()
    };
    told.rows.into_iter().map(row).collect()
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

/// The computed table of this name; names of both are found in any letter case.
pub(crate) fn table(database: &str, name: &str) -> Option<&'static VirtualTable> {
    let schema = schema(database)?;
    all().find(|table| table.schema == schema && table.name.eq_ignore_ascii_case(name))
}

/// All computed tables.
pub(crate) fn all() -> impl Iterator<Item = &'static VirtualTable> {
    let lists: [&'static [VirtualTable]; 7] = [
        schema::TABLES,
        table::TABLES,
        view::TABLES,
        server::TABLES,
        account::TABLES,
        performance::TABLES,
        cluster::TABLES,
    ];
    lists.into_iter().flatten()
}

/// A column that has a value in every row.
const fn column(name: &'static str, kind: Kind) -> VirtualColumn {
    VirtualColumn { name, nullable: false, kind }
}

/// A column that may be NULL.
const fn nullable(name: &'static str, kind: Kind) -> VirtualColumn {
    VirtualColumn { name, nullable: true, kind }
}

const fn information(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "information_schema", name, columns, source }
}

/// YES or NO.
fn yes_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value.as_ref())
}

/// A text, or NULL.
fn optional(value: Option<impl AsRef<str>>) -> Datum {
    value.map_or(Datum::Null, text)
}

#[cfg(test)]
mod tests;
