//! The participant's disk: the redo log, checkpoints, and reading both back after a restart.
//! Walk-through: `docs/internals/durability.md`.
//!
//! # Owns
//! What the worker has asked of the disk, and how far it has come: survey of the directory,
//! restore, an open log. Requests that wait for the disk to catch up.
//! # Guarantees
//! 1. A change of a committed slot is in the log before anybody is told that its epoch is saved.
//! 2. Nothing that a restart needs is removed before what replaces it is durable.
//! 3. Nobody is told that an epoch is durable before the watermark says so, apart from the log.
//! 4. A failed sync ends the node; a full disk refuses new writes and is tried again.
//! # Not here
//! Formats (`ondisk`), when epochs are saved (`epochs`), what is restored (`control`).

mod checkpoint;
mod held;
mod needless;
mod progress;
mod reading;
mod redo;
mod restore;
mod stored;
mod survey;
mod watermark;

use std::collections::BTreeMap;

use actor::{Ctx, DiskAnswer, DiskError, DiskOperation, Halt, Timer, probe};
use model::{ActorKind, Address, Epoch, MemberStatus, PartitionId, WorkerId};
use ondisk::redo::Record;
use ondisk::{FileName, worker_directory};
use stdx::{Duration, Instant};
use wire::{ControlMessage, Message};

use super::Participant;
use super::leg::Place;
use checkpoint::Checkpoints;
use held::Held;
use needless::Needless;
use redo::Redo;
use restore::Restoring;
use survey::{Survey, Surveying};
use watermark::Noting;

pub use progress::{RestoreProgress, StepProgress};
pub(super) use stored::Stored;

/// The lane of the log, and of everything before it is open.
const LOG_LANE: u8 = 0;
/// The lane of checkpoints and of removals.
const CHECKPOINT_LANE: u8 = 1;
/// The lane of the watermark: it waits for nothing else.
const WATERMARK_LANE: u8 = 2;
/// How long a full disk is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often a save that must wait for an epoch to complete looks again.
const LATE_SAVE_CHECK: Duration = Duration::from_millis(5);

/// A request to the disk that has not been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// That what an earlier life of this process has asked for is through.
    Settled,
    /// The files of the worker.
    Listed,
    /// That they are durable as they are.
    Synced,
    /// A piece of a file.
    Piece,
    /// Something of the log.
    Log,
    /// Something of a checkpoint.
    Checkpoint,
    /// Removal of files.
    Removed,
    /// The watermark.
    Watermark,
}

/// Requests to the disk by token.
#[derive(Debug)]
struct Requests {
    directory: String,
    next_token: u64,
    asked: BTreeMap<u64, Asked>,
}

/// How far the worker is with its disk.
#[derive(Debug)]
enum Stage {
    /// Waits for this many lanes to be through with an earlier life, then for the list of files.
    Settling(u8),
    /// Reads everything, to know what can be restored.
    Surveying(Box<Surveying>),
    /// Waits to be told what to restore.
    Surveyed(Box<Survey>),
    /// Reads rows back.
    Restoring(Box<Restoring>),
    /// Builds the ordered indexes of what was read back.
    Indexing(Box<Restoring>),
    /// Begins the log of this life.
    Opening,
    /// The log is open.
    Open,
}

/// A worker's disk.
#[derive(Debug)]
pub(super) struct Disk {
    requests: Requests,
    stage: Stage,
    /// From `Opening` on.
    log: Option<Redo>,
    checkpoints: Checkpoints,
    needless: Needless,
    held: Held,
    noting: Noting,
    /// Files that the survey found damaged.
    damaged_files: u64,
    /// Files of earlier lives; those that are not needed go when the log is open.
    leftovers: Vec<FileName>,
    /// The driver calls no epoch durable that this worker has not on its disk.
    waited_for: bool,
    armed: Option<Instant>,
}

impl Requests {
    fn ask(&mut self, ctx: &mut Ctx<'_>, lane: u8, what: Asked, operations: Vec<DiskOperation>) {
        self.next_token += 1;
        self.asked.insert(self.next_token, what);
        ctx.disk(lane, self.next_token, operations);
    }

    fn path(&self, file: FileName) -> String {
        format!("{}/{file}", self.directory)
    }

    /// Removes files, at leisure.
    fn remove(&mut self, ctx: &mut Ctx<'_>, files: impl IntoIterator<Item = FileName>) {
        let remove = |file| DiskOperation::Remove { path: self.path(file) };
        let operations: Vec<DiskOperation> = files.into_iter().map(remove).collect();
        if !operations.is_empty() {
            self.ask(ctx, CHECKPOINT_LANE, Asked::Removed, operations);
        }
    }
}

impl Disk {
    fn new(ctx: &Ctx<'_>, next_token: u64) -> Self {
        let directory = worker_directory(ctx.me().worker);
        Self {
            requests: Requests { directory, next_token, asked: BTreeMap::new() },
            stage: Stage::Settling(3),
            log: None,
            checkpoints: Checkpoints::default(),
            needless: Needless::default(),
            held: Held::default(),
            noting: Noting::default(),
            damaged_files: 0,
            leftovers: Vec::new(),
            waited_for: false,
            armed: None,
        }
    }

    /// The number of the last request; requests of a later life go on from there.
    pub(super) fn last_token(&self) -> u64 {
        self.requests.next_token
    }

    /// Whether the driver calls no epoch durable that this worker has not on its disk.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waited_for
    }

    /// Whether rows are being read back, so that it is too early for their indexes.
    pub(super) fn reads_rows(&self) -> bool {
        matches!(self.stage, Stage::Restoring(_))
    }

    /// Whether new changes are refused for want of space.
    pub(super) fn is_full(&self) -> bool {
        self.log.as_ref().is_some_and(Redo::is_full)
    }

    /// Notes a committed change of a slot: it holds `row` from `epoch` on, or is empty.
    #[inline]
    pub(super) fn changed(
        &mut self,
        stored: &mut Stored,
        Place { partition, row_id }: Place,
        epoch: Epoch,
        row: Option<&[u8]>,
    ) {
        let record = match row {
            Some(row) => Record::Put { partition, row_id, epoch, row },
            None => Record::Delete { partition, row_id, epoch },
        };
        let log = self.log.as_mut().expect("rows change when the log is open");
        let position = log.append(&record, epoch);
        if stored.changed(position) {
            self.needless.needs(partition, position);
        }
        log.note_change(epoch);
    }

    /// Notes that a copy has ended with so many slots. What came with it has no images of before.
    pub(super) fn copied(&mut self, stored: &mut Stored, partition: PartitionId, slots: u32) {
        let log = self.log.as_mut().expect("rows change when the log is open");
        let epoch = log.newest();
        let position = log.append(&Record::Truncate { partition, slots, epoch }, epoch);
        if stored.changed(position) {
            self.needless.needs(partition, position);
        }
        log.copied();
    }

    /// Notes a partition that begins empty here.
    pub(super) fn placed(&mut self, stored: &Stored, partition: PartitionId) {
        if let Some(log) = &mut self.log {
            let base = stored.base_record(partition, log.end());
            log.append(&Record::Base(base), Epoch(0));
        }
    }

    /// One line about what goes on, for traces; none when that is nothing special.
    pub(super) fn describe(&self) -> Option<String> {
        match &self.stage {
            Stage::Open if self.is_full() => Some("disk: full, new changes are refused".to_owned()),
            Stage::Open => None,
            Stage::Settling(_) | Stage::Opening => Some("disk: not open yet".to_owned()),
            Stage::Surveyed(survey) if survey.damages.is_empty() => {
                Some("disk: waits to be told what to restore".to_owned())
            }
            Stage::Surveyed(survey) => {
                Some(format!("disk: damaged: {}", survey.damages.join("; ")))
            }
            Stage::Surveying(surveying) => {
                let StepProgress { done, total } = surveying.reading().progress();
                Some(format!("disk: checks files: {done} of {total} bytes"))
            }
            Stage::Restoring(restoring) => Some(restoring.describe()),
            Stage::Indexing(restoring) => Some(format!("{}, builds indexes", restoring.describe())),
        }
    }
}

impl Participant {
    /// Sets the participant going. To be called once in a life.
    pub fn start(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.has_disk() {
            return;
        }
        let mut disk = Box::new(Disk::new(ctx, self.last_token));
        // Behind what an earlier life of this process may have asked of any lane.
        for lane in [LOG_LANE, CHECKPOINT_LANE, WATERMARK_LANE] {
            let path = disk.requests.directory.clone();
            let create = vec![DiskOperation::CreateDirectory { path }];
            disk.requests.ask(ctx, lane, Asked::Settled, create);
        }
        self.disk = Some(disk);
    }

    /// A request to the disk was answered.
    pub(super) fn disk_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: u64,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let Some(disk) = &mut self.disk else { return };
        let Some(asked) = disk.requests.asked.remove(&token) else {
            probe!(ctx, "disk: answer to a request of an earlier life");
            return;
        };
        match asked {
            Asked::Settled => self.disk_settled(ctx, result),
            Asked::Listed => self.begin_survey(ctx, result),
            Asked::Synced => self.survey_synced(ctx, result),
            Asked::Piece => self.piece_read(ctx, result),
            Asked::Log => self.log_written(ctx, result),
            Asked::Checkpoint => self.checkpoint_written(ctx, result),
            Asked::Watermark => self.watermark_written(ctx, result),
            Asked::Removed => {
                if result.is_err() {
                    probe!(ctx, "disk: a file that is not needed could not be removed");
                }
            }
        }
    }

    fn disk_settled(&mut self, ctx: &mut Ctx<'_>, result: Result<Vec<DiskAnswer>, DiskError>) {
        let disk = self.disk.as_mut().expect("it has answered");
        if let Err(error) = result {
            return ctx.halt(Halt::DiskFailed(error.text));
        }
        let Stage::Settling(lanes) = &mut disk.stage else { panic!("asked for at the start") };
        *lanes -= 1;
        if *lanes == 0 {
            let path = disk.requests.directory.clone();
            let operations = vec![
                DiskOperation::SyncDirectory { path: String::new() },
                DiskOperation::List { path },
            ];
            disk.requests.ask(ctx, LOG_LANE, Asked::Listed, operations);
        }
    }

    /// A piece of a file has come in, for the survey or for the restore.
    fn piece_read(&mut self, ctx: &mut Ctx<'_>, result: Result<Vec<DiskAnswer>, DiskError>) {
        let disk = self.disk.as_mut().expect("it has answered");
        let bytes = result.map(|mut answers| match answers.pop() {
            Some(DiskAnswer::Bytes(bytes)) => bytes,
            other => panic!("a read answered with {other:?}"),
        });
        match &disk.stage {
            Stage::Surveying(_) => self.survey_piece(ctx, bytes),
            Stage::Restoring(_) => self.restore_piece(ctx, bytes),
            other => panic!("a piece of a file during {other:?}"),
        }
    }

    /// What every turn of a worker with a disk ends with.
    pub(super) fn end_disk_turn(&mut self, ctx: &mut Ctx<'_>) {
        self.save_late(ctx);
        self.retire_needless(ctx);
        self.write_log(ctx);
        self.write_watermark(ctx);
        self.release_held(ctx);
        self.arm_disk(ctx);
        if let Some(log) = self.disk.as_mut().and_then(|disk| disk.log.as_mut()) {
            log.note_exposure(ctx.now());
        }
    }

    /// Goes on with what has waited for its time.
    pub(super) fn disk_due(&mut self, ctx: &mut Ctx<'_>) {
        let Some(disk) = &mut self.disk else { return };
        disk.armed = None;
        self.continue_checkpoint(ctx);
    }

    /// Sets the timer for what comes next.
    fn arm_disk(&mut self, ctx: &mut Ctx<'_>) {
        let late = self.awaits_epoch(ctx).then(|| ctx.now() + LATE_SAVE_CHECK);
        let disk = self.disk.as_mut().expect("a worker with a disk");
        let retry = disk.log.as_ref().and_then(Redo::retry_at);
        let noting = disk.noting.due(ctx.config().save_interval);
        let due = [retry, late, noting, disk.checkpoints.due()].into_iter().flatten().min();
        if due == disk.armed || due.is_some() && disk.armed.is_some_and(|at| Some(at) <= due) {
            return;
        }
        match due {
            Some(at) => ctx.set_timer(Timer::DiskTick, at.since(ctx.now())),
            None => ctx.stop_timer(Timer::DiskTick),
        }
        disk.armed = due;
    }

    /// Whether everything that this worker's replicas are to hold is here, and in the log.
    fn is_complete(&self, ctx: &Ctx<'_>) -> bool {
        let open = self.disk.as_ref().is_some_and(|disk| matches!(disk.stage, Stage::Open));
        let member = ctx.cluster().member(ctx.node(), ctx.incarnation());
        open && match member.map(|member| member.status) {
            // Its replicas have followed the state that says so; see `check_invariants`.
            Some(MemberStatus::Active | MemberStatus::Leaving) => true,
            Some(MemberStatus::Syncing) => self.copies_are_done(),
            Some(MemberStatus::Joining | MemberStatus::Restoring) | None => false,
        }
    }
}

/// Tells the node's control actor.
fn tell_control(ctx: &mut Ctx<'_>, message: ControlMessage) {
    let control = Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
    ctx.send(control, Message::Control(Box::new(message)));
}
