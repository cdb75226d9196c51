//! A backup that is none, so that the simulation can prove that it notices.

use actor::Mutation;
use model::{Epoch, PartitionIndex, Value};
use stdx::Duration;

use super::Snapshot;
use crate::access::{ReadMode, Reader};
use crate::kernel::{Failure, Kernel};

/// How much older the snapshot is that some rows are read in.
const OLDER: Duration = Duration::from_millis(200);

/// With the mutation a snapshot that is older than the one that is going to be opened.
pub(super) async fn older(kernel: &Kernel) -> Result<Option<Snapshot<'_>>, Failure> {
    if !kernel.mutated(Mutation::SqlBackupsMissChanges) {
        return Ok(None);
    }
    let snapshot = Snapshot { kernel, epoch: kernel.open_snapshot().await? };
    kernel.sleep(OLDER).await?;
    Ok(Some(snapshot))
}

/// The rows, those of the first partition as the older snapshot shows them.
pub(super) async fn outdated(
    reader: &Reader,
    older: Epoch,
    mut rows: Vec<Vec<Value>>,
) -> Result<Vec<Vec<Value>>, Failure> {
    let reader = Reader { mode: ReadMode::Snapshot(older), ..reader.clone() };
    for row in &mut rows {
        let key = reader.table.primary_key.iter().map(|at| row[usize::from(at.0)].clone());
        let key: Vec<Value> = key.collect();
        if reader.table.partition_of_key(&key) == Some(PartitionIndex(0))
            && let Some(before) =
                reader.by_primary_key(vec![key]).await?.into_iter().flatten().next()
        {
            *row = before;
        }
    }
    Ok(rows)
}
