//! Writes checkpoints, one partition after the other, slowly enough not to be noticed.
//!
//! # Guarantees
//! A checkpoint is complete and durable under its name, or is not there. Each turn looks at a
//! bounded number of slots. The disk is given what the log leaves over, between the two speeds of
//! the configuration: the faster the more the log has grown since the round began.
//! # Not here
//! Which checkpoints a restart needs (`stored`), when old ones go (`redo`).

use std::collections::VecDeque;

use actor::{
    Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, Mutation, Tally, fault_point,
    probe,
};
use model::{Epoch, PartitionId, RowId};
use ondisk::FileName;
use ondisk::checkpoint::{CheckpointHeader, CheckpointWriter};
use stdx::{Duration, Instant};
use wire::{Continue, Message};

use super::{Asked, CHECKPOINT_LANE, RETRY_AFTER, Requests, Stage};
use crate::participant::Participant;
use crate::participant::replica::Replica;

/// Bytes that are written at once.
const WRITE_SIZE: usize = 256 << 10;
/// Bytes that a turn compresses, about.
const TURN_BYTES: u64 = 32 << 10;
/// Slots that a turn looks at.
const TURN_SLOTS: u32 = 4_096;
/// Bytes of the log replayed in a second, until a restart has measured it.
const REPLAY_SPEED: u64 = 100 << 20;
/// The share of the time for a restart that a round may let the log grow by: one in so many.
const RESTART_SHARE: u64 = 4;
/// Segments after which a round begins in any case.
const ROUND_SEGMENTS: u64 = 4;
/// A slice is one in so many of the slots at least, so that a partition has no more files.
const SLICES_MAX: u32 = 64;
/// Bytes of a slice, about, at least.
const SLICE_BYTES_MIN: u64 = 64 << 10;
/// How much of a second's bytes may be written in one go: one in so many.
const BURST_SHARE: u64 = 20;

/// The worker's checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Partitions that the round has not come to.
    round: VecDeque<PartitionId>,
    scan: Option<Scan>,
    /// Bytes logged when the last round began.
    round_began: u64,
    /// Bytes that may be written now; negative when too many were.
    budget: i64,
    budget_at: Instant,
    /// When the scan goes on.
    due: Option<Instant>,
    /// A note to go on is under way.
    continuing: bool,
    /// Bytes of the log that are replayed in a second.
    replay_speed: u64,
}

/// A checkpoint that is being written.
#[derive(Debug)]
struct Scan {
    header: CheckpointHeader,
    writer: CheckpointWriter,
    next: u32,
    /// A request of it is under way.
    waits: bool,
    /// Everything was scanned; the newest epoch in it.
    ended: Option<Epoch>,
    /// Its partition is gone, or the disk was full: the file is to be removed.
    abandoned: bool,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            round: VecDeque::new(),
            scan: None,
            round_began: 0,
            budget: 0,
            budget_at: Instant::ZERO,
            due: None,
            continuing: false,
            replay_speed: REPLAY_SPEED,
        }
    }
}

impl Checkpoints {
    /// When there is something to be done, if that is a matter of time.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A restart has read so much in this time.
    pub(super) fn measured(&mut self, bytes: u64, time: Duration) {
        // Little says nothing about speed.
        if bytes > 64 << 20 && time > Duration::ZERO {
            let per_second = u128::from(bytes) * 1_000_000_000 / u128::from(time.as_nanos());
            self.replay_speed = (per_second as u64).clamp(REPLAY_SPEED / 10, REPLAY_SPEED * 10);
        }
    }

    /// The partition is gone. The round leaves it out when its turn comes.
    pub(super) fn forget(&mut self, partition: PartitionId) {
        if let Some(scan) = self.scan.as_mut().filter(|scan| scan.header.partition == partition) {
            scan.abandoned = true;
        }
    }

    /// Bytes that the log may grow by before a round begins.
    fn round_size(&self, ctx: &Ctx<'_>) -> u64 {
        let seconds = ctx.config().restart_time_target.as_millis() / 1_000;
        let in_time = self.replay_speed * seconds.max(1) / RESTART_SHARE;
        in_time.min(ctx.config().redo_segment * ROUND_SEGMENTS).max(1)
    }

    /// Whether bytes may be written now; otherwise notes when.
    fn may_write(&mut self, ctx: &Ctx<'_>, logged: u64) -> bool {
        let (min, max) = ctx.config().checkpoint_speed;
        let grown = logged.saturating_sub(self.round_began).min(self.round_size(ctx));
        let extra = u128::from(max.saturating_sub(min)) * u128::from(grown);
        let speed = (min + (extra / u128::from(self.round_size(ctx))) as u64).max(1);
        let passed = ctx.now().since(self.budget_at).as_nanos();
        let earned = u128::from(speed) * u128::from(passed) / 1_000_000_000;
        let most = (speed / BURST_SHARE).max(TURN_BYTES) as i64;
        if earned > 0 {
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            self.budget = self.budget.saturating_add(earned).min(most);
            self.budget_at = ctx.now();
        }
        if self.budget > 0 {
            return true;
        }
        let lacking = u128::from(self.budget.unsigned_abs()) + u128::from(TURN_BYTES);
        let wait = lacking * 1_000_000_000 / u128::from(speed);
        self.due = Some(ctx.now() + Duration::from_nanos(wait as u64));
        false
    }
}

impl Scan {
    /// Looks at the next slots.
    fn go_on(&mut self, replica: &Replica, deletes: bool, slots: u32) -> u64 {
        let CheckpointHeader { slice, slot_count, changed_since, .. } = self.header;
        let before = self.writer.len();
        let end = slot_count.min(self.next.saturating_add(slots));
        let bytes = (TURN_BYTES * u64::from(slots) / u64::from(TURN_SLOTS)).max(1);
        let from = std::mem::replace(&mut self.next, end);
        for (row_id, epoch, row) in replica.partition.slots_from(RowId(from)) {
            if row_id.0 >= end {
                break;
            }
            let wanted = (slice.0..slice.1).contains(&row_id.0) || epoch > changed_since;
            if wanted && (deletes || row.is_some()) {
                self.writer.slot(row_id, epoch, row);
                if self.writer.len() - before >= bytes {
                    self.next = row_id.0 + 1;
                    break;
                }
            }
        }
        if self.next >= slot_count {
            self.ended = Some(self.writer.finish().newest);
        }
        self.writer.len() - before
    }

    /// Asks for what was encoded to be written; at the end also for the name.
    fn write(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) {
        let CheckpointHeader { partition, sequence, .. } = self.header;
        let draft = requests.path(FileName::Draft { partition, sequence });
        let (offset, bytes) = self.writer.take();
        let mut operations = vec![DiskOperation::Write { path: draft.clone(), offset, bytes }];
        if self.ended.is_some() {
            let to = requests.path(FileName::Checkpoint { partition, sequence });
            operations.push(DiskOperation::Sync { path: draft.clone() });
            operations.push(DiskOperation::Rename { from: draft, to });
            let path = requests.directory.clone();
            operations.push(DiskOperation::SyncDirectory { path });
        }
        requests.ask(ctx, CHECKPOINT_LANE, Asked::Checkpoint, operations);
        self.waits = true;
    }
}

/// The slots that a checkpoint writes whether they have changed or not, after those of the
/// checkpoint before: the more has changed, the more, so that a restart that reads all needed
/// files reads not much more than the rows (NDB's partial checkpoints).
fn slice_of(replica: &Replica, before: (u32, u32), recovery_work: u32) -> (u32, u32) {
    let slots = replica.partition.slot_count();
    let changed = replica.stored.changes().min(u64::from(slots)).max(1) as f64;
    let share = changed / f64::from(slots.max(1));
    let share = share / (share + f64::from(recovery_work.max(1)) / 100.0);
    let row_bytes = replica.partition.heap_bytes() / u64::from(slots.max(1));
    let fewest = (SLICE_BYTES_MIN / row_bytes.max(1)).min(u64::from(slots)) as u32;
    let len = (f64::from(slots) * share) as u32;
    let len = len.max(slots.div_ceil(SLICES_MAX)).max(fewest);
    let from = if before.1 < slots { before.1 } else { 0 };
    (from, from.saturating_add(len).min(slots))
}

impl Participant {
    /// Begins a round of checkpoints if the log has grown enough.
    pub(super) fn plan_checkpoints(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("a worker with a disk");
        let Some(log) = &disk.log else { return };
        let checkpoints = &mut disk.checkpoints;
        let idle = checkpoints.scan.is_none() && checkpoints.round.is_empty();
        let grown = log.logged().saturating_sub(checkpoints.round_began);
        if !idle || grown < checkpoints.round_size(ctx) {
            return;
        }
        let changed = self
            .replicas
            .iter()
            .filter_map(|(partition, replica)| Some((replica.stored.changed_at()?, *partition)));
        let mut changed: Vec<_> = changed.collect();
        changed.sort_unstable();
        checkpoints.round = changed.into_iter().map(|(_, partition)| partition).collect();
        checkpoints.round_began = log.logged();
        probe!(ctx, "checkpoint: round begun");
        self.continue_checkpoint(ctx);
    }

    /// One step of the checkpoint that is being written, or the beginning of the next one.
    pub(in crate::participant) fn continue_checkpoint(&mut self, ctx: &mut Ctx<'_>) {
        let Some(disk) = &mut self.disk else { return };
        disk.checkpoints.due = disk.checkpoints.due.filter(|due| *due > ctx.now());
        let held_up = disk.checkpoints.continuing || disk.checkpoints.due.is_some();
        let open = matches!(disk.stage, Stage::Open);
        if !open || held_up || disk.checkpoints.scan.as_ref().is_some_and(|scan| scan.waits) {
            return;
        }
        if disk.checkpoints.scan.is_none() && !self.begin_checkpoint(ctx) {
            return;
        }
        let disk = self.disk.as_mut().expect("checked above");
        let Some(log) = disk.log.as_ref() else { return };
        let scan = disk.checkpoints.scan.as_ref().expect("begun above");
        let replica = self.replicas.get(&scan.header.partition).filter(|replica| !replica.syncing);
        let Some(replica) = replica.filter(|_| !scan.abandoned) else {
            return self.abandon_checkpoint(ctx);
        };
        if log.waiting() > ctx.config().redo_buffer / 2 || log.is_full() {
            probe!(ctx, "checkpoint: gives way to the log");
            disk.checkpoints.due = Some(ctx.now() + Duration::from_millis(10));
            return;
        }
        if !disk.checkpoints.may_write(ctx, log.logged()) {
            return;
        }
        let scan = disk.checkpoints.scan.as_mut().expect("begun above");
        let slots = ctx.step_units(Continue::Checkpoint, TURN_SLOTS);
        let written = scan.go_on(replica, !ctx.mutated(Mutation::CheckpointsForgetDeletes), slots);
        disk.checkpoints.budget -= written as i64;
        ctx.shared().tallies.add(Tally::CheckpointBytes, written);
        let scan = disk.checkpoints.scan.as_mut().expect("begun above");
        if scan.ended.is_some() || scan.writer.pending() >= WRITE_SIZE {
            fault_point!(ctx, "checkpoint: piece encoded, before it is written");
            scan.write(ctx, &mut disk.requests);
        } else {
            disk.checkpoints.continuing = true;
            ctx.send(ctx.me(), Message::Continue(Continue::Checkpoint));
        }
    }

    /// The note to go on has come.
    pub(in crate::participant) fn checkpoint_noted(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(disk) = &mut self.disk {
            disk.checkpoints.continuing = false;
            self.continue_checkpoint(ctx);
        }
    }

    /// Begins the checkpoint of the round's next partition; false when there is none.
    fn begin_checkpoint(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let disk = self.disk.as_mut().expect("a worker with a disk");
        let log = disk.log.as_ref().expect("the log is open");
        while let Some(partition) = disk.checkpoints.round.pop_front() {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if replica.syncing || replica.stored.changed_at().is_none() {
                continue;
            }
            let before = replica.stored.newest_start();
            let newest = before.newest;
            let slot_count = replica.partition.slot_count();
            let slice = match before.header {
                None => (0, slot_count),
                Some(header) => slice_of(replica, header.slice, ctx.config().recovery_work),
            };
            let whole = slice == (0, slot_count);
            let before = before.header.filter(|_| !whole);
            let header = CheckpointHeader {
                cluster: log.cluster(),
                node: ctx.node(),
                worker: ctx.me().worker,
                partition,
                sequence: replica.stored.next_sequence(),
                previous: before.map_or(0, |header| header.sequence),
                redo: log.end(),
                complete: replica.complete_to(self.completed),
                changed_since: before.map_or(Epoch(0), |header| header.complete),
                slice,
                slot_count,
            };
            if !whole {
                probe!(ctx, "checkpoint: of a slice and of what changed");
            }
            replica.stored.begin_draft(header);
            let writer = CheckpointWriter::new(&header, newest);
            let scan =
                Scan { header, writer, next: 0, waits: false, ended: None, abandoned: false };
            disk.checkpoints.scan = Some(scan);
            return true;
        }
        false
    }

    /// Gives the present checkpoint up.
    fn abandon_checkpoint(&mut self, ctx: &mut Ctx<'_>) {
        probe!(ctx, "checkpoint: given up");
        let disk = self.disk.as_mut().expect("a worker with a disk");
        let scan = disk.checkpoints.scan.take().expect("a checkpoint under way");
        let CheckpointHeader { partition, sequence, .. } = scan.header;
        disk.requests.remove(ctx, [FileName::Draft { partition, sequence }]);
        if let Some(replica) = self.replicas.get_mut(&partition) {
            replica.stored.abandon_draft();
        }
        disk.checkpoints.due = Some(ctx.now());
    }

    /// A piece of the checkpoint was written, or all of it.
    pub(super) fn checkpoint_written(
        &mut self,
        ctx: &mut Ctx<'_>,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let disk = self.disk.as_mut().expect("it has answered");
        let scan = disk.checkpoints.scan.as_mut().expect("one checkpoint at a time");
        scan.waits = false;
        if let Err(error) = result {
            if error.kind != DiskErrorKind::Full {
                return ctx.halt(Halt::DiskFailed(error.text));
            }
            probe!(ctx, "checkpoint: no space on the disk");
            self.abandon_checkpoint(ctx);
            let disk = self.disk.as_mut().expect("it has answered");
            disk.checkpoints.due = Some(ctx.now() + RETRY_AFTER);
            return;
        }
        let CheckpointHeader { partition, sequence, .. } = scan.header;
        if let Some(newest) = scan.ended {
            fault_point!(ctx, "checkpoint: complete, before it counts");
            let gone = scan.abandoned;
            disk.checkpoints.scan = None;
            match self.replicas.get_mut(&partition).filter(|_| !gone) {
                Some(replica) => {
                    replica.stored.end_draft(newest);
                    disk.needless.checkpointed(partition);
                    ctx.count(Tally::Checkpoint);
                }
                None => disk.requests.remove(ctx, [FileName::Checkpoint { partition, sequence }]),
            }
        }
        self.continue_checkpoint(ctx);
    }
}
