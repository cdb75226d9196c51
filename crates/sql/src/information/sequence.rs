//! The next values of AUTO_INCREMENT columns, for those who only look.
//!
//! # Owns
//! Reading the sequences without taking from them.
//! # Not here
//! Giving values out (`sequences`).

use std::collections::BTreeMap;

use client::ScanSpec;
use model::{TableId, Value};
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

    /// The next value of a table; none where it has no AUTO_INCREMENT column.
    pub(crate) fn next(&self, definition: &TableDefinition) -> Option<u64> {
        definition.auto_increment()?;
        let start = definition.sequence_start();
        Some(self.0.get(&definition.table.id).map_or(start, |next| (*next).max(start)))
    }
}
