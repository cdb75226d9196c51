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
mod moves;
pub(crate) mod performance;
pub(crate) mod schema;
mod sequence;
pub(crate) mod server;
mod table;
mod view;
pub(crate) mod virtual_table;

use client::Inspected;
use model::Value;
use sql_expression::SqlError;
use sqltype::Datum;

use crate::catalog::system::schema;
use crate::information::virtual_table::{Hints, Rows, Source, VirtualTable};
use crate::session::Session;
use crate::statistics::store::Known;
use crate::statistics::{self, Sizes};

pub(crate) use sequence::Sequences;

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
                rows(session, hints, &sizes, &Known::of(&session.kernel, tables.as_deref()).await?)?
            }
            Source::Empty => Vec::new(),
            Source::Connections => server::processes(session).await?,
            Source::SqlNodes => cluster::sql_nodes(session).await?,
            Source::Moves => moves::rows(session).await?,
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

#[cfg(test)]
mod tests;
