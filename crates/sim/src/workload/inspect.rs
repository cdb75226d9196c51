//! Questions about what goes on, and the comparison of replicas while they are written to.
//!
//! A digest of a replica as of a snapshot must be the same on every node that can give one, however
//! the replica came to be: by changes, by takeovers, by a copy.

use std::rc::Rc;

use model::{Epoch, NodeId, PartitionId, PartitionIndex, Refusal, RowId, Value};
use wire::Inspection;

use crate::lab::Lab;
use crate::session::Session;

/// One question, or one comparison.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    if session.percent(60) {
        return compare(session, lab).await;
    }
    let all = [
        Inspection::Memory,
        Inspection::Transactions,
        Inspection::Locks,
        Inspection::Messages,
        Inspection::Recorder,
        Inspection::Replicas,
        Inspection::Copies,
        Inspection::IndexBuilds,
        Inspection::SlowSteps,
        Inspection::Epochs,
        Inspection::Disk,
    ];
    let what = all[session.below(all.len() as u64) as usize];
    let workers: u64 = session.cluster().members.values().map(|m| u64::from(m.workers)).sum();
    let answers = session.inspect(what, None).await?;
    let mut places: Vec<_> = answers.iter().map(|told| (told.node, told.worker)).collect();
    places.dedup();
    assert_eq!(places.len(), answers.len(), "{what:?}: a worker answers once");
    assert!(answers.len() as u64 <= workers.max(64), "{what:?}: {} workers", answers.len());
    for told in &answers {
        let widths: Vec<usize> = told.rows.iter().map(Vec::len).collect();
        assert!(widths.windows(2).all(|two| two[0] == two[1]), "{what:?}: rows of one shape");
    }
    Ok(())
}

/// Compares the replicas of a partition as of one snapshot.
async fn compare(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let tables = lab.tables();
    let table = tables[session.below(tables.len() as u64) as usize];
    let Some(definition) = session.definition(table) else { return Ok(()) };
    let index = session.below(definition.partition_count.into()) as u16;
    let partition = PartitionId { table, index: PartitionIndex(index) };
    let generation = session.generation();
    let epoch = session.open_snapshot().await?;
    let replicas = session.cluster().slot_of(partition).replicas.clone();
    let mut digests = Vec::new();
    for node in replicas.iter().filter(|replica| !replica.syncing).map(|replica| replica.node) {
        if let Some(digest) = digest(session, partition, epoch, node).await? {
            digests.push((node, digest));
        }
    }
    session.close_snapshot(epoch).await;
    if session.generation() != generation {
        return Ok(());
    }
    for two in digests.windows(2) {
        assert_eq!(
            two[0].1, two[1].1,
            "{partition} as of {epoch} on {} and {}",
            two[0].0, two[1].0
        );
    }
    Ok(())
}

/// Rows, and the sum of their hashes; nothing when the node cannot tell.
async fn digest(
    session: &Session,
    partition: PartitionId,
    epoch: Epoch,
    node: NodeId,
) -> Result<Option<(u64, u64)>, Refusal> {
    let (mut rows, mut sum, mut after) = (0, 0u64, None);
    loop {
        let what = Inspection::Digest { partition, epoch, after };
        let mut told = session.inspect(what, Some(node)).await?;
        let row = told.pop().and_then(|mut told| told.rows.pop());
        let Some([next, Value::UInt(more), Value::UInt(hashes)]) = row.as_deref() else {
            return Ok(None);
        };
        rows += more;
        sum = sum.wrapping_add(*hashes);
        match next {
            Value::UInt(slot) => after = Some(RowId(*slot as u32)),
            _ => return Ok(Some((rows, sum))),
        }
    }
}
