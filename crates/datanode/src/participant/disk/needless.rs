//! What no restart needs any more: checkpoints that newer ones replace, files of dropped
//! partitions, the beginning of the log.
//!
//! # Guarantees
//! A file goes when what replaces it is durable, and the log says so on the disk. A turn looks over
//! all partitions once at most, and only if the oldest segment that is needed may be another one
//! than before: what a turn costs does not depend on how many partitions there are otherwise, and
//! dropping many of them costs as much for each as dropping one.
//! # Not here
//! Which checkpoints a partition needs (`stored`), when files are removed (`redo`).

use std::collections::BTreeSet;

use actor::{Ctx, probe};
use model::{Epoch, PartitionId};
use ondisk::FileName;
use ondisk::redo::Record;

use super::Stored;
use crate::participant::Participant;

/// What is to be looked at for files that are not needed.
#[derive(Debug, Default)]
pub(super) struct Needless {
    /// Partitions with a checkpoint that the log does not name yet.
    newer: BTreeSet<PartitionId>,
    /// Files that nothing needs.
    files: Vec<FileName>,
    /// The oldest segment that is needed may be another one than before.
    floor_moved: bool,
    /// The segment that was the newest on the disk when it was looked for.
    based: u64,
}

impl Needless {
    /// A checkpoint of the partition is on the disk.
    pub(super) fn checkpointed(&mut self, partition: PartitionId) {
        self.newer.insert(partition);
    }
}

impl Participant {
    /// No restart goes back behind this epoch any more: what only such a restart needs can go.
    pub(in crate::participant) fn durable(
        &mut self,
        ctx: &mut Ctx<'_>,
        epoch: Epoch,
        waited: bool,
    ) {
        let Some(disk) = &mut self.disk else { return };
        disk.noting.heard(epoch, waited);
        if waited && !std::mem::replace(&mut disk.waited_for, true) {
            self.report_synced(ctx);
        }
        let Some(disk) = &mut self.disk else { return };
        let Some(log) = &mut disk.log else { return };
        log.set_durable(epoch);
        let (trimmable, needless) = (log.trimmable(), &mut disk.needless);
        for partition in std::mem::take(&mut needless.newer) {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let stored = &mut replica.stored;
            let moved = stored.rebase(trimmable);
            if stored.has_newer() {
                needless.newer.insert(partition);
            }
            if !moved {
                continue;
            }
            let base = stored.base_record(partition, log.end());
            log.append(&Record::Base(base), Epoch(0));
            let file = |sequence| FileName::Checkpoint { partition, sequence };
            needless.files.extend(stored.drop_obsolete().into_iter().map(file));
            needless.floor_moved = true;
            probe!(ctx, "checkpoint: counts from now on");
        }
        let based = log.based_segment();
        needless.floor_moved |= std::mem::replace(&mut needless.based, based) != based;
    }

    /// The files of a partition that is not here any more are not needed.
    pub(in crate::participant) fn forget_stored(
        &mut self,
        partition: PartitionId,
        stored: &Stored,
    ) {
        let Some(disk) = &mut self.disk else { return };
        let Some(log) = &mut disk.log else { return };
        log.append(&Record::Dropped { partition }, Epoch(0));
        let file = |sequence| FileName::Checkpoint { partition, sequence };
        disk.needless.files.extend(stored.sequences().map(file));
        let draft = stored.draft_sequence();
        let draft = draft.map(|sequence| FileName::Draft { partition, sequence });
        disk.needless.files.extend(draft);
        disk.checkpoints.forget(partition);
        // Of a partition that never changed the log has nothing that anybody needs.
        disk.needless.floor_moved |= stored.needed().is_some();
    }

    /// Has removed what this turn has made needless.
    pub(super) fn retire_needless(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("a worker with a disk");
        let (Some(log), needless) = (&mut disk.log, &mut disk.needless) else { return };
        if !needless.floor_moved && needless.files.is_empty() {
            return;
        }
        let files = std::mem::take(&mut needless.files);
        needless.floor_moved = false;
        probe!(ctx, "disk: the oldest segment that is needed was looked for");
        let needed = self.replicas.values().filter_map(|replica| replica.stored.needed());
        let oldest = needed.map(|position| position.segment).min();
        let floor = oldest.unwrap_or(u64::MAX).min(log.based_segment());
        if floor > log.first_segment() || !files.is_empty() {
            log.retire(files, floor);
        }
    }
}
