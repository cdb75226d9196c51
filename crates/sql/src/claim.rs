//! Claims: what one session at a time may do, and nobody any more when its process is dead.
//!
//! A claim is a row in a kernel table of ours, locked in a transaction that stays open as long as
//! the claim is held. It ends with that transaction, so also with the process of its holder.
//!
//! # Owns
//! The tables of claims, and getting one.
//! # Failure
//! A claim is lost with the data node that coordinates its transaction.
//! # Not here
//! What is claimed: tables that are rebuilt (`ddl::rebuild`), temporary tables (`temporary`).

use client::{ClientOperation, OperationAction};
use model::{ColumnType, ErrorCode, TableId, Value};
use wire::{LockMode, Projection, WaitPolicy};

use crate::kernel::{Failure, Kernel};
use crate::own_table::OwnTable;

/// A kernel table of claims, each on a number.
pub(crate) struct Claims {
    /// Its name, without a database, so that no user sees it.
    pub table: &'static str,
    /// What the numbers are.
    pub column: &'static str,
    /// Bytes of a number.
    pub width: u8,
}

impl Claims {
    /// Locks the row of a number for as long as the transaction of `kernel` is open.
    pub(crate) async fn hold(
        &self,
        kernel: &Kernel,
        number: u64,
        wait: WaitPolicy,
    ) -> Result<(), Failure> {
        let table = self.table(kernel).await?;
        let key = vec![Value::UInt(number)];
        loop {
            let (lock, projection) = (LockMode::Exclusive, Projection::Nothing);
            let action =
                OperationAction::Read { key: key.clone(), lock, wait, projection, snapshot: None };
            let read = ClientOperation { table, version: None, action };
            match kernel.execute(vec![read]).await?.into_iter().next() {
                Some(Err(refusal)) if refusal.code == ErrorCode::RowNotFound => {}
                Some(Err(refusal)) => return Err(Failure::Refused(refusal)),
                _ => return Ok(()),
            }
            // Nobody has claimed it before. The row is made in a transaction that ends at once.
            kernel.abort().await;
            let insert = ClientOperation::insert(table, key.clone());
            match kernel.execute_and_commit(vec![insert]).await {
                Ok(_) => {}
                Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowExists => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Deletes the row of a number whose claim the transaction of `kernel` holds, and ends it.
    pub(crate) async fn forget(&self, kernel: &Kernel, number: u64) -> Result<(), Failure> {
        let table = self.table(kernel).await?;
        let delete = ClientOperation::delete(table, vec![Value::UInt(number)]);
        kernel.execute_and_commit(vec![delete]).await.map(|_| ())
    }

    /// The kernel table; made by the first who needs it.
    async fn table(&self, kernel: &Kernel) -> Result<TableId, Failure> {
        let columns = &[(self.column, ColumnType::UInt(self.width))];
        OwnTable { name: self.table, columns, key_columns: 1, ordered: false }.get(kernel).await
    }
}
