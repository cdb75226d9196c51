//! One replica of one partition on this worker: rows, locks, and who has touched which slot.

use std::sync::Arc;

use model::{Epoch, PartitionId, RowId, Table};
use stdx::HashMap;
use store::lock_table::LockTable;
use store::partition::Partition;

use super::leg::LegHandle;

/// A partition replica with its locks.
#[derive(Debug)]
pub(super) struct Replica {
    /// Committed rows.
    pub(super) partition: Partition,
    /// Row locks, by hash of the primary key.
    pub(super) locks: LockTable,
    /// The leg that has staged a change in a slot, until it ends.
    pub(super) claims: HashMap<RowId, LegHandle>,
    /// Being copied from the primary.
    pub(super) syncing: bool,
    /// Everything committed up to this epoch is here.
    pub(super) complete_to: Epoch,
}

impl Replica {
    /// An empty replica.
    pub(super) fn new(id: PartitionId, table: Arc<Table>, syncing: bool) -> Self {
        Self {
            partition: Partition::new(id, table),
            locks: LockTable::new(),
            claims: HashMap::default(),
            syncing,
            complete_to: Epoch(0),
        }
    }

    /// Whether the slot holds a committed row.
    pub(super) fn occupied(&self, row_id: RowId) -> bool {
        self.partition.row(row_id).is_some()
    }
}
