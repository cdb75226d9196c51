//! Reads the rows of an epoch back: checkpoints, then the log.
//!
//! # Guarantees
//! Every slot ends as it was at the end of the epoch: images come in any order, newer or equal
//! epochs win, and what a checkpoint saw too late or too early the log behind its beginning
//! corrects. Each turn works on one piece of a file. Until the log of the new life is durable
//! nothing on the disk has changed.
//! # Not here
//! Which epoch (`control`), what can be restored (`survey`), what is copied afterwards (`copy`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, DiskError, Halt, Mutation, fault_point, probe};
use model::{Epoch, MemberStatus, PartitionId};
use ondisk::checkpoint::CheckpointReader;
use ondisk::redo::{Position, Record, SegmentReader};
use ondisk::{Damage, FileName};
use wire::ControlMessage;

use super::progress::StepProgress;
use super::reading::Reading;
use super::redo::{Opening, Redo};
use super::stored::{Start, Stored};
use super::survey::{Plan, Survey};
use super::{Stage, tell_control};
use crate::participant::Participant;
use crate::participant::placement::NO_SNAPSHOTS;
use crate::participant::replica::Replica;

/// A restore that is under way.
#[derive(Debug)]
pub(super) struct Restoring {
    survey: Survey,
    plan: Plan,
    through: Epoch,
    reading: Reading,
    reader: Option<Reader>,
    /// Bytes of the segments that are replayed.
    redo_bytes: u64,
    slots: u64,
    records: u64,
    /// Everything up to this epoch has been read, as far as it counts.
    reached: Epoch,
}

#[derive(Debug)]
enum Reader {
    /// A checkpoint, and whether its header was read.
    Checkpoint(CheckpointReader, bool),
    Segment(SegmentReader),
}

impl Restoring {
    pub(super) fn describe(&self) -> String {
        let Self { through, slots, records, .. } = self;
        let StepProgress { done, total } = self.reading.progress();
        format!(
            "disk: restores {through}: {done} of {total} bytes, {slots} slots, {records} changes"
        )
    }

    /// What is being read.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Bytes that the survey has read before.
    pub(super) fn surveyed(&self) -> u64 {
        self.survey.bytes()
    }

    /// Takes a piece of a file in.
    fn push(
        &mut self,
        file: FileName,
        bytes: &[u8],
        replicas: &mut BTreeMap<PartitionId, Box<Replica>>,
    ) -> Result<(), Damage> {
        match (file, &mut self.reader) {
            (FileName::Redo(number), reader) => {
                let limit = self.through.min(self.survey.limit_of(number));
                let starts = &self.plan.partitions;
                let reader = reader.get_or_insert_with(|| Reader::Segment(SegmentReader::new()));
                let Reader::Segment(reader) = reader else { panic!("one file at a time") };
                reader.push(bytes);
                if let Some(header) = reader.header() {
                    self.reached = self.reached.max(header.saved.min(limit));
                }
                while let Some((offset, record)) = reader.next_record() {
                    if let Record::EpochEnd(mark) = record
                        && mark.since <= self.survey.durable.min(self.through)
                    {
                        self.reached = self.reached.max(mark.epoch.min(limit));
                    }
                    let position = Position { segment: number, offset };
                    self.records += u64::from(replay(record, position, limit, starts, replicas));
                }
            }
            (FileName::Checkpoint { partition, sequence }, reader) => {
                let first = self.plan.partitions[&partition].0.first() == Some(&sequence);
                let reader = reader
                    .get_or_insert_with(|| Reader::Checkpoint(CheckpointReader::new(), false));
                let Reader::Checkpoint(reader, begun) = reader else {
                    panic!("one file at a time")
                };
                reader.push(bytes);
                let Some(replica) = replicas.get_mut(&partition) else {
                    // Its table was dropped meanwhile.
                    while reader.skip_block()? {}
                    return Ok(());
                };
                if let Some(header) = reader.header()?
                    && !std::mem::replace(begun, true)
                    && !first
                {
                    replica.partition.truncate(header.slot_count, |_| false);
                }
                while let Some(mut slots) = reader.next_block()? {
                    while let Some((row_id, epoch, row)) = slots.next_slot()? {
                        replica.partition.restore(row_id, epoch, row);
                        self.slots += 1;
                    }
                }
            }
            (FileName::Draft { .. } | FileName::Watermark, _) => {
                panic!("nothing is restored from a {file}")
            }
        }
        Ok(())
    }

    /// The present file has been read to its end.
    fn end_file(&mut self) -> Result<(), Damage> {
        match self.reader.take() {
            Some(Reader::Checkpoint(mut reader, _)) => reader.finish().map(|_| ()),
            // It was found when the directory was surveyed how segments end.
            Some(Reader::Segment(_)) | None => Ok(()),
        }
    }
}

/// Replays one record, if it counts.
#[inline]
fn replay(
    record: Record<'_>,
    position: Position,
    limit: Epoch,
    starts: &BTreeMap<PartitionId, (Vec<u32>, Position)>,
    replicas: &mut BTreeMap<PartitionId, Box<Replica>>,
) -> bool {
    let (partition, epoch) = match record {
        Record::Put { partition, epoch, .. }
        | Record::Delete { partition, epoch, .. }
        | Record::Truncate { partition, epoch, .. } => (partition, epoch),
        Record::EpochEnd(_) | Record::Base(_) | Record::Dropped { .. } | Record::SegmentEnd => {
            return false;
        }
    };
    if epoch > limit || starts.get(&partition).is_none_or(|(_, redo)| position < *redo) {
        return false;
    }
    let replica = replicas.get_mut(&partition).map(|replica| &mut **replica);
    let Some(Replica { partition: rows, stored, .. }) = replica else {
        return false;
    };
    match record {
        Record::Put { row_id, row, .. } => {
            rows.restore(row_id, epoch, Some(row));
        }
        Record::Delete { row_id, .. } => {
            rows.restore(row_id, epoch, None);
        }
        Record::Truncate { slots, .. } => rows.truncate(slots, |_| false),
        _ => panic!("not a change"),
    }
    stored.changed(position);
    true
}

impl Participant {
    /// The node belongs to a cluster: reads back what counts there.
    pub(in crate::participant) fn restore(&mut self, ctx: &mut Ctx<'_>, through: Epoch) {
        let Some(disk) = &mut self.disk else { return };
        let worker = ctx.me().worker;
        let survey = match &mut disk.stage {
            Stage::Surveyed(survey) => std::mem::take(&mut **survey),
            // The order is given once in a life; a second one would change nothing.
            Stage::Open => return tell_control(ctx, ControlMessage::WorkerRestored { worker }),
            _ => return,
        };
        let of_cluster = survey.cluster() == Some(ctx.cluster().id);
        let plan = (of_cluster && through > Epoch(0)).then(|| survey.plan(through)).flatten();
        let member = ctx.cluster().member(ctx.node(), ctx.incarnation());
        let relied_on = member.is_some_and(|member| member.status == MemberStatus::Restoring);
        if plan.is_none() && through > Epoch(0) && relied_on {
            let text = format!("{through} cannot be restored: {}", survey.damages.join("; "));
            return ctx.halt(Halt::DiskFailed(text));
        }
        if plan.is_none() {
            probe!(ctx, "disk: begins empty");
        }
        let through = if plan.is_some() { through } else { Epoch(0) };
        let mut plan = plan.unwrap_or_default();
        self.place_stored(ctx, &survey, &mut plan);
        let mut files = Vec::new();
        for (partition, (sequences, _)) in &plan.partitions {
            for sequence in sequences {
                let file = FileName::Checkpoint { partition: *partition, sequence: *sequence };
                files.push((file, survey.files[&file]));
            }
        }
        files.extend(plan.segments.iter().map(|(number, len)| (FileName::Redo(*number), *len)));
        let reading = Reading::of(files, ctx.now());
        let restoring = Restoring {
            redo_bytes: plan.segments.iter().map(|(_, len)| *len).sum(),
            survey,
            plan,
            through,
            reading,
            reader: None,
            slots: 0,
            records: 0,
            reached: Epoch(0),
        };
        let disk = self.disk.as_mut().expect("checked above");
        disk.stage = Stage::Restoring(Box::new(restoring));
        self.continue_restore(ctx);
    }

    /// Makes replicas for what is to be read, and leaves out what is not this worker's any more.
    fn place_stored(&mut self, ctx: &Ctx<'_>, survey: &Survey, plan: &mut Plan) {
        let cluster = ctx.cluster().clone();
        let by_number = ctx.mutated(Mutation::RestoreIgnoresColocation);
        let is_ours = |partition: &PartitionId| {
            let mut placed = *partition;
            if by_number && placed.table.anchor() != placed.table {
                placed.table.0 = placed.table.anchor().0 + 1;
            }
            cluster.tables.get(&partition.table).is_some_and(|table| {
                partition.index.0 < table.partition_count
                    && !cluster.slots.is_empty()
                    && cluster.participant(placed, ctx.node()) == ctx.me()
            })
        };
        plan.partitions.retain(|partition, _| is_ours(partition));
        for (partition, (sequences, _)) in &plan.partitions {
            let table = &cluster.tables[&partition.table];
            let syncing = cluster.replica_syncing(*partition, ctx.node()).unwrap_or(true);
            let replica = self.replicas.entry(*partition).or_insert_with(|| {
                if syncing {
                    self.copies.expect_target(*partition);
                }
                Box::new(Replica::new(*partition, table.clone(), syncing, Epoch(0)))
            });
            replica.partition.begin_restore();
            let found = |sequence: &u32| survey.checkpoints[&(*partition, *sequence)];
            let starts = sequences.iter().map(found);
            let starts = starts.map(|found| Start::of(found.header, found.newest)).collect();
            replica.stored = Stored::of(starts, survey.last_sequence(*partition) + 1);
        }
    }

    /// A piece of a file has come in.
    pub(super) fn restore_piece(&mut self, ctx: &mut Ctx<'_>, piece: Result<Vec<u8>, DiskError>) {
        let disk = self.disk.as_mut().expect("it has answered");
        let Stage::Restoring(restoring) = &mut disk.stage else { panic!("checked by the caller") };
        let bytes = match piece {
            Ok(bytes) => bytes,
            Err(error) => return ctx.halt(Halt::DiskFailed(error.text)),
        };
        let (file, last) = restoring.reading.taken(bytes.len());
        let mut read = restoring.push(file, &bytes, &mut self.replicas);
        if last {
            read = read.and_then(|()| restoring.end_file());
        }
        if let Err(damage) = read {
            // It was sound when the node said what it could restore.
            return ctx.halt(Halt::DiskFailed(format!("{file}: {damage}")));
        }
        fault_point!(ctx, "restore: between two pieces of a file");
        self.continue_restore(ctx);
    }

    /// Asks for more, or goes on to the indexes.
    fn continue_restore(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("a restore is under way");
        let Stage::Restoring(restoring) = &mut disk.stage else { panic!("a restore is under way") };
        if restoring.reading.go_on(ctx, &mut disk.requests) {
            return;
        }
        let stage = std::mem::replace(&mut disk.stage, Stage::Opening);
        let Stage::Restoring(restoring) = stage else { panic!("matched above") };
        let through = restoring.through;
        if restoring.reached < through {
            let reached = restoring.reached;
            let text = format!("the redo log ends with {reached}, and {through} was in it before");
            return ctx.halt(Halt::DiskFailed(text));
        }
        let completed = self.completed;
        for partition in restoring.plan.partitions.keys() {
            let Some(replica) = self.replicas.get_mut(partition) else { continue };
            (replica.complete_to, replica.active_since) = (through, completed);
            replica.partition.set_snapshot_floor(NO_SNAPSHOTS);
        }
        disk.stage = Stage::Indexing(restoring);
        self.memory.forget();
        self.list_unbuilt();
        fault_point!(ctx, "restore: rows read, indexes to be built");
        self.need_upkeep(ctx);
    }

    /// The indexes of what was read back may be complete: opens the log then.
    pub(in crate::participant) fn indexes_built(&mut self, ctx: &mut Ctx<'_>) {
        let Some(disk) = &mut self.disk else { return };
        if !matches!(disk.stage, Stage::Indexing(_)) {
            return;
        }
        let stage = std::mem::replace(&mut disk.stage, Stage::Opening);
        let Stage::Indexing(restoring) = stage else { panic!("matched above") };
        let Restoring { survey, plan, through, redo_bytes, reading, .. } = *restoring;
        let segment = survey.last_segment() + 1;
        let end = Position { segment, offset: 0 };
        let bases = self.base_records(end);
        let needed = bases.iter().map(|base| base.redo.segment).min().unwrap_or(segment);
        let segments: BTreeSet<u64> =
            plan.segments.iter().map(|(number, _)| *number).filter(|n| *n >= needed).collect();
        let replayed = if segments.is_empty() { 0 } else { redo_bytes };
        let opening = Opening {
            cluster: ctx.cluster().id,
            segment,
            through,
            durable: survey.durable,
            fences: survey.fences().into_iter().filter(|fence| fence.segment > needed).collect(),
            bases,
            segments,
            replayed,
        };
        let log = Redo::open(ctx, opening);
        self.list_needed();
        let disk = self.disk.as_mut().expect("checked above");
        disk.checkpoints.measured(reading.progress().total, ctx.now().since(reading.began()));
        disk.leftovers = survey.files.into_keys().collect();
        disk.log = Some(log);
        self.make_watermark(ctx);
        fault_point!(ctx, "restore: before the log of the new life is begun");
    }

    /// When the log and the watermark of this life are on the disk: what was not restored can go.
    pub(super) fn may_be_open(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_ref().expect("its log was opened");
        let begun = disk.log.as_ref().is_some_and(Redo::is_begun);
        if !matches!(disk.stage, Stage::Opening) || !begun || !disk.noting.is_made() {
            return;
        }
        fault_point!(ctx, "restore: log of the new life begun, before it is reported");
        let disk = self.disk.as_mut().expect("its log was opened");
        let log = disk.log.as_ref().expect("it was opened");
        let mut leftovers = std::mem::take(&mut disk.leftovers);
        leftovers.retain(|file| match file {
            FileName::Redo(number) => !log.has_segment(*number),
            FileName::Checkpoint { partition, sequence } => {
                let replica = self.replicas.get(partition);
                !replica.is_some_and(|replica| replica.stored.sequences().any(|s| s == *sequence))
            }
            FileName::Draft { .. } => true,
            FileName::Watermark => false,
        });
        disk.stage = Stage::Open;
        disk.requests.remove(ctx, leftovers);
        let worker = ctx.me().worker;
        tell_control(ctx, ControlMessage::WorkerRestored { worker });
    }
}
