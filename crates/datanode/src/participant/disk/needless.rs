//! What no restart needs any more: checkpoints that newer ones replace, files of dropped
//! partitions, the beginning of the log.
//!
//! # Guarantees
//! A file goes when what replaces it is durable, and the log says so on the disk. What a turn costs
//! does not depend on how many partitions there are: which segments they need is listed.
//! # Not here
//! Which checkpoints a partition needs (`stored`), when files are removed (`redo`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, probe};
use model::{Epoch, PartitionId};
use ondisk::FileName;
use ondisk::redo::{Position, Record};

use super::Stored;
use crate::participant::Participant;
use crate::participant::replica::Replica;

/// What is to be looked at for files that are not needed.
#[derive(Debug, Default)]
pub(super) struct Needless {
    /// Partitions with a checkpoint that the log does not name yet.
    newer: BTreeSet<PartitionId>,
    /// The oldest segment that each partition needs whose restart needs any.
    needed: BTreeSet<(u64, PartitionId)>,
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

    /// The log from here on is needed for the partition, which needed nothing of it before.
    pub(super) fn needs(&mut self, partition: PartitionId, position: Position) {
        self.needed.insert((position.segment, partition));
    }

    /// What was needed of the log for the partition is not any more.
    fn needs_no_more(&mut self, partition: PartitionId, position: Option<Position>) {
        if let Some(position) = position {
            self.needed.remove(&(position.segment, partition));
        }
    }
}

impl Participant {
    /// Lists what the replicas that were read back need of the log.
    pub(super) fn list_needed(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        disk.needless.needed = needed_of(&self.replicas).collect();
    }

    /// Panics when the list of what is needed is not what the replicas need.
    pub(in crate::participant) fn check_needed(&self) {
        if let Some(disk) = self.disk.as_ref().filter(|disk| disk.log.is_some()) {
            let mut listed = 0;
            for needed in needed_of(&self.replicas) {
                let is_listed = disk.needless.needed.contains(&needed);
                assert!(is_listed, "{needed:?}: a segment that a partition needs");
                listed += 1;
            }
            assert_eq!(disk.needless.needed.len(), listed, "segments that partitions need");
        }
    }

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
            let before = stored.needed();
            let moved = stored.rebase(trimmable);
            if stored.has_newer() {
                needless.newer.insert(partition);
            }
            if !moved {
                continue;
            }
            needless.needs_no_more(partition, before);
            if let Some(position) = stored.needed() {
                needless.needs(partition, position);
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
        disk.needless.needs_no_more(partition, stored.needed());
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
        let oldest = needless.needed.first().map(|(segment, _)| *segment);
        let floor = oldest.unwrap_or(u64::MAX).min(log.based_segment());
        if floor > log.first_segment() || !files.is_empty() {
            log.retire(files, floor);
        }
    }
}

fn needed_of(
    replicas: &BTreeMap<PartitionId, Box<Replica>>,
) -> impl Iterator<Item = (u64, PartitionId)> {
    replicas.iter().filter_map(|(partition, replica)| {
        replica.stored.needed().map(|position| (position.segment, *partition))
    })
}
