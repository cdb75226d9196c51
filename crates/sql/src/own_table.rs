//! Tables of the kernel that the SQL layer keeps for itself.
//!
//! # Owns
//! Finding such a table, and making it: the first who needs it does. Its name has no database, so
//! that no user sees it.
//! # Not here
//! What is in the tables: claims, AUTO_INCREMENT, statistics, named locks.

use model::{Column, ColumnType, ErrorCode, SchemaChange, TableId, Value};

use crate::kernel::{Failure, Kernel};

/// A table of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTable<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Names and types of its columns; none may be NULL.
    pub(crate) columns: &'a [(&'a str, ColumnType)],
    /// So many of them are the primary key.
    pub(crate) key_columns: u16,
    /// Its rows are distributed by the first column, and are in order of the primary key in a part.
    pub(crate) ordered: bool,
}

impl OwnTable<'_> {
    /// The table; it is made if it is not there.
    pub(crate) async fn get(&self, kernel: &Kernel) -> Result<TableId, Failure> {
        let known = || kernel.cluster().table_named(self.name).map(|table| table.id);
        if let Some(id) = known() {
            return Ok(id);
        }
        match kernel.beside().change_schema(self.definition()).await {
            Ok(id) => Ok(id),
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::TableExists => {
                known().ok_or(Failure::Refused(refusal))
            }
            Err(failure) => Err(failure),
        }
    }

    fn definition(&self) -> SchemaChange {
        let column = |(name, column_type): &(&str, ColumnType)| Column {
            name: (*name).to_owned(),
            column_type: *column_type,
            nullable: false,
            default: Value::Null,
        };
        let primary_key: Vec<u16> = (0..self.key_columns).collect();
        let ordered_index = self.ordered.then(|| ("PRIMARY".to_owned(), primary_key.clone()));
        SchemaChange::CreateTable {
            name: self.name.to_owned(),
            columns: self.columns.iter().map(column).collect(),
            primary_key,
            distribution_key: if self.ordered { vec![0] } else { vec![] },
            partition_count: 0,
            ordered_indexes: ordered_index.into_iter().collect(),
            unique_indexes: vec![],
            large: None,
            description: Default::default(),
        }
    }
}
