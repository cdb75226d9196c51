//! Notes on the disk, apart from the log, which epoch is durable.
//!
//! # Guarantees
//! 1. Nobody who uses this worker's coordinator is told that an epoch is durable before the
//!    watermark says so, so a restart that finds less than that knows that something is missing.
//! 2. The watermark is never above what the logs of all complete replicas have: the driver of
//!    epochs has said so before.
//! # Costs
//! One write and sync of a block for each epoch that somebody waits for, beside the next save;
//! otherwise one in `save_interval`.
//! # Not here
//! The format (`ondisk`), what is made of it at a restart (`survey`, `control`).

use actor::{Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, fault_point, probe};
use model::{ActorKind, Address, Epoch, WorkerId};
use ondisk::{FileName, WATERMARK_FILE, Watermark};
use stdx::Instant;
use wire::{ControlMessage, EpochMessage, Message};

use super::{Asked, RETRY_AFTER, Requests, WATERMARK_LANE, tell_control};
use crate::participant::Participant;

/// How far the watermark is.
#[derive(Debug, Default)]
pub(super) struct Noting {
    /// The file of this life is there.
    made: bool,
    /// The slot that was written last.
    slot: usize,
    /// What the file says.
    noted: Epoch,
    /// Up to here this worker has everything in its log.
    held: Epoch,
    /// When the last write began.
    began_at: Instant,
    /// What the driver of epochs has said.
    known: Epoch,
    /// Somebody waits to be told that this is durable.
    wanted: Epoch,
    in_flight: Option<Epoch>,
    /// When what the disk had no space for is written again.
    retry_at: Option<Instant>,
}

impl Noting {
    /// The driver has said that an epoch is durable, and whether this worker had to have it.
    pub(super) fn heard(&mut self, epoch: Epoch, waited: bool) {
        self.known = self.known.max(epoch);
        if waited {
            self.held = self.held.max(epoch);
        }
    }

    /// Whether the file of this life is there.
    pub(super) fn is_made(&self) -> bool {
        self.made
    }

    /// When something is to be written.
    pub(super) fn due(&self, interval: stdx::Duration) -> Option<Instant> {
        let idle = self.in_flight.is_none() && self.made;
        let later = idle && self.known.max(self.wanted) > self.noted;
        later.then(|| self.retry_at.unwrap_or(self.began_at + interval))
    }

    fn watermark(&self, ctx: &Ctx<'_>, epoch: Epoch) -> Watermark {
        let (cluster, worker) = (ctx.cluster().id, Some(ctx.me().worker));
        Watermark { cluster, node: ctx.node(), worker, epoch, held: self.held.min(epoch) }
    }

    /// Replaces the file by a new one: what the old one says may be damaged, or may be of an
    /// earlier cluster.
    fn make(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests, epoch: Epoch, held: Epoch) {
        self.held = self.held.max(held);
        let path = requests.path(FileName::Watermark);
        let new = format!("{path}.new");
        let bytes = self.watermark(ctx, epoch).file();
        let operations = vec![
            DiskOperation::Remove { path: new.clone() },
            DiskOperation::Write { path: new.clone(), offset: 0, bytes },
            DiskOperation::Sync { path: new.clone() },
            DiskOperation::Rename { from: new, to: path },
            DiskOperation::SyncDirectory { path: requests.directory.clone() },
        ];
        requests.ask(ctx, WATERMARK_LANE, Asked::Watermark, operations);
        self.in_flight = Some(epoch);
    }

    /// Writes the next slot if it is time.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) {
        let epoch = self.known.max(self.wanted);
        if epoch <= self.noted || !self.made || self.in_flight.is_some() {
            return;
        }
        let due = self.began_at + ctx.config().save_interval;
        let due = if self.wanted > self.noted { ctx.now() } else { due };
        if self.retry_at.unwrap_or(due) > ctx.now() {
            return;
        }
        self.slot += 1;
        let path = requests.path(FileName::Watermark);
        let (offset, bytes) = self.watermark(ctx, epoch).encode(self.slot);
        let write = DiskOperation::Write { path: path.clone(), offset, bytes };
        let operations = vec![write, DiskOperation::Sync { path }];
        requests.ask(ctx, WATERMARK_LANE, Asked::Watermark, operations);
        self.in_flight = Some(epoch);
        self.began_at = ctx.now();
    }
}

impl Participant {
    /// The coordinator of this worker is about to tell somebody that an epoch is durable.
    pub(in crate::participant) fn note(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        match &mut self.disk {
            Some(disk) if disk.noting.noted < epoch => {
                disk.noting.wanted = disk.noting.wanted.max(epoch);
            }
            _ => tell_coordinator(ctx, epoch),
        }
    }

    /// The log of this life begins: makes its watermark.
    pub(super) fn make_watermark(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("its log was opened");
        let log = disk.log.as_ref().expect("it was opened");
        let (durable, held) = (log.durable(), log.saved());
        disk.noting.make(ctx, &mut disk.requests, durable, held);
    }

    /// What every turn of a worker with a disk ends with.
    pub(super) fn write_watermark(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("a worker with a disk");
        if disk.noting.retry_at.is_some_and(|at| at <= ctx.now()) && !disk.noting.made {
            disk.noting.retry_at = None;
            return self.make_watermark(ctx);
        }
        disk.noting.go_on(ctx, &mut disk.requests);
    }

    /// The watermark was written, or was not.
    pub(super) fn watermark_written(
        &mut self,
        ctx: &mut Ctx<'_>,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let disk = self.disk.as_mut().expect("it has answered");
        let noting = &mut disk.noting;
        let epoch = noting.in_flight.take().expect("it was asked for");
        noting.retry_at = None;
        match result {
            Err(error) if error.kind == DiskErrorKind::Full => {
                probe!(ctx, "disk: no space for the watermark");
                noting.retry_at = Some(ctx.now() + RETRY_AFTER);
                return;
            }
            Err(error) => {
                return ctx.halt(Halt::DiskFailed(format!("{WATERMARK_FILE}: {}", error.text)));
            }
            Ok(_) => {}
        }
        fault_point!(ctx, "disk: durable epoch noted, before anybody is told");
        noting.noted = noting.noted.max(epoch);
        if !std::mem::replace(&mut noting.made, true) {
            self.may_be_open(ctx);
        }
        tell_coordinator(ctx, epoch);
        if ctx.me().worker == WorkerId(0) {
            tell_control(ctx, ControlMessage::WorkerDurable { epoch });
        }
    }
}

/// Tells the coordinator of this worker that the disk says that an epoch is durable.
fn tell_coordinator(ctx: &mut Ctx<'_>, epoch: Epoch) {
    let coordinator = Address { actor: ActorKind::Coordinator, ..ctx.me() };
    ctx.send(coordinator, Message::Epoch(EpochMessage::Noted { epoch }));
}
