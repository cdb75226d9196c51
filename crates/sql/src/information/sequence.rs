//! The next values of AUTO_INCREMENT columns, for those who only look.
//!
//! # Owns
//! Reading the sequences without taking from them.
//! # Not here
//! Giving values out (`sequences`).

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{ClientRead, ScanSpec};
use model::{Table, TableId, Value};
use sql_expression::SqlError;

use crate::catalog::TableDefinition;
use crate::session::Session;

/// Next values, by table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences(BTreeMap<TableId, u64>);

impl Sequences {
    /// What the cluster has reserved so far, and what is left of it in this process.
    pub(crate) async fn read(session: &Session) -> Result<Self, SqlError> {
        let mut next = BTreeMap::new();
        let cluster = session.kernel.cluster();
        let Some(table) = cluster.table_named(crate::sequences::TABLE) else {
            return Ok(Self::default());
        };
        let rows = session.kernel.beside().scan(ScanSpec::heap(table.id)).collect().await?;
        for row in rows {
            if let [Value::UInt(table), Value::UInt(value)] = row.as_slice() {
                let table = TableId(*table as u32);
                let at_hand = session.shared.sequences.at_hand(table);
                next.insert(table, at_hand.unwrap_or(*value));
            }
        }
        Ok(Self(next))
    }

    /// As [`Sequences::read`], of these tables only; of all without any.
    pub(crate) async fn of(
        session: &Session,
        tables: Option<&[Arc<Table>]>,
    ) -> Result<Self, SqlError> {
        let Some(tables) = tables else { return Self::read(session).await };
        let cluster = session.kernel.cluster();
        let Some(kept) = cluster.table_named(crate::sequences::TABLE) else {
            return Ok(Self::default());
        };
        let key = |table: &Arc<Table>| vec![Value::UInt(table.id.0.into())];
        let reads = tables.iter().map(|table| ClientRead::primary(kept.id, key(table)));
        let rows = session.kernel.beside().read(reads.collect(), None).await?;
        let mut next = BTreeMap::new();
        for (table, row) in tables.iter().zip(rows) {
            if let Some([_, Value::UInt(value)]) = row.as_deref() {
                let at_hand = session.shared.sequences.at_hand(table.id);
                next.insert(table.id, at_hand.unwrap_or(*value));
            }
        }
        Ok(Self(next))
    }

    /// The next value of a table; none where it has no AUTO_INCREMENT column.
    pub(crate) fn next(&self, definition: &TableDefinition) -> Option<u64> {
        definition.auto_increment()?;
        let start = definition.sequence_start();
        Some(self.0.get(&definition.table.id).map_or(start, |next| (*next).max(start)))
    }
}
