//! The redo log of a worker: records go to memory, and from there to segments on the disk.
//!
//! # Guarantees
//! One request of the log is under way at a time: what was appended meanwhile goes with the next,
//! so that many commits share a write and many savers a sync. A segment is synced before anything
//! of the next one is written. Bytes that the disk had no space for are kept, and written again.
//! # Not here
//! What the log says of checkpoints (`stored`), reading it back (`survey`, `restore`).

use std::collections::{BTreeSet, VecDeque};

use actor::{
    Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, Mutation, fault_point, probe,
};
use model::{Address, ClusterId, Epoch};
use ondisk::FileName;
use ondisk::redo::{Base, Fence, Mark, Position, Record, SegmentHeader, SegmentWriter};
use stdx::Instant;
use wire::{EpochMessage, Message};

use super::{Asked, LOG_LANE, RETRY_AFTER, Requests, Stage};
use crate::participant::Participant;

/// Bytes that are written without being asked for.
const WRITE_SIZE: usize = 256 << 10;
/// Bytes that a request writes, as soon as it has so many: whatever else the worker does waits
/// while they are handed over. It is a part of a segment, at least and at most so much.
const WRITES_PER_SEGMENT: u64 = 64;
const WRITE_MAX: (u64, u64) = (1 << 10, 1 << 20);

/// The open log.
#[derive(Debug)]
pub(super) struct Redo {
    writer: SegmentWriter,
    /// Where the first record of the segment is.
    first_record: u64,
    /// What the headers of this life have in common.
    header: SegmentHeader,
    /// What goes before the bytes of the writer: ends of earlier segments, pieces of this one.
    ended: VecDeque<Piece>,
    in_flight: Option<InFlight>,
    /// A request has no more bytes than it takes to reach so many.
    write_max: usize,
    /// Bytes in `ended` and `in_flight`.
    waiting: u64,
    /// When what the disk had no space for is written again.
    write_at: Option<Instant>,
    /// When space for the next segment is asked for again.
    reserve_at: Option<Instant>,
    /// Space was set aside for the segments up to this one.
    reserved: u64,
    /// A segment was made whose name is not durable.
    new_name: bool,
    sync_wanted: bool,
    /// Everything before was written.
    written: Position,
    /// Everything before is on the disk.
    synced: Position,
    /// Who is told when the log is synced up to a place.
    saves: VecDeque<Save>,
    /// The last save of each driver that had to wait: not all rows were here, or they had been
    /// copied as they were later.
    late_saves: Vec<(Address, Epoch)>,
    /// See [`Mark::since`].
    since: Epoch,
    /// No restart goes back behind this epoch.
    durable: Epoch,
    /// The newest epoch of a mark, and of one that is synced and counts.
    marked: Epoch,
    saved: Epoch,
    /// The newest epoch of a record.
    newest: Epoch,
    /// The newest epoch of a changed slot, and since when there are some that are not known to be
    /// on all disks.
    changed: Epoch,
    exposed_since: Option<Instant>,
    /// Bytes of segments that have ended, and of those that were replayed at the restart.
    logged_before: u64,
    /// Segments on the disk.
    segments: BTreeSet<u64>,
    obsolete: VecDeque<Obsolete>,
}

/// Bytes of a segment on their way.
#[derive(Debug)]
struct Piece {
    segment: u64,
    offset: u64,
    bytes: Vec<u8>,
    /// Nothing follows in this segment.
    last: bool,
}

#[derive(Debug)]
enum InFlight {
    /// Bytes, and whether everything before `end` is synced afterwards.
    Write { pieces: Vec<Piece>, sync: bool, end: Position },
    /// Space for a segment.
    Reserve(u64),
}

#[derive(Debug)]
struct Save {
    at: Position,
    /// The epoch of the mark at this place, if it counts then.
    mark: Epoch,
    to: Address,
    epoch: Epoch,
}

/// What is removed when the log is synced up to a place: it says there what replaces it.
#[derive(Debug)]
struct Obsolete {
    at: Position,
    files: Vec<FileName>,
    /// Segments below are not needed.
    floor: u64,
}

/// What a life knows when it opens its log.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) cluster: ClusterId,
    pub(super) segment: u64,
    /// What was restored.
    pub(super) through: Epoch,
    pub(super) durable: Epoch,
    pub(super) fences: Vec<Fence>,
    pub(super) bases: Vec<Base>,
    /// Segments that stay until checkpoints replace them, and the bytes that were replayed.
    pub(super) segments: BTreeSet<u64>,
    pub(super) replayed: u64,
}

impl Redo {
    /// The log of a new life: its first segment is to be written, with a fence against everything
    /// that was not restored.
    pub(super) fn open(ctx: &Ctx<'_>, opening: Opening) -> Self {
        let Opening { cluster, segment, through, durable, mut fences, bases, .. } = opening;
        if !ctx.mutated(Mutation::NoFence) {
            fences.push(Fence { segment, through });
        }
        let mut segments = opening.segments;
        segments.insert(segment);
        let header = SegmentHeader {
            cluster,
            node: ctx.node(),
            worker: ctx.me().worker,
            incarnation: ctx.incarnation(),
            segment,
            first: segments.first().copied().unwrap_or(segment),
            saved: through,
            durable: durable.min(through),
            fences,
            bases,
        };
        let writer = SegmentWriter::new(&header);
        Self {
            first_record: writer.offset(),
            writer,
            ended: VecDeque::new(),
            in_flight: None,
            write_max: (ctx.config().redo_segment / WRITES_PER_SEGMENT)
                .clamp(WRITE_MAX.0, WRITE_MAX.1) as usize,
            waiting: 0,
            write_at: None,
            reserve_at: None,
            reserved: segment - 1,
            new_name: true,
            sync_wanted: true,
            written: Position::default(),
            synced: Position::default(),
            saves: VecDeque::new(),
            late_saves: Vec::new(),
            since: Epoch(0),
            durable: header.durable,
            marked: through,
            saved: through,
            newest: through,
            changed: Epoch(0),
            exposed_since: None,
            logged_before: opening.replayed,
            segments,
            obsolete: VecDeque::new(),
            header,
        }
    }

    /// Appends a record whose newest epoch is `epoch`; returns where it is.
    #[inline]
    pub(super) fn append(&mut self, record: &Record<'_>, epoch: Epoch) -> Position {
        self.newest = self.newest.max(epoch);
        let position =
            Position { segment: self.writer.segment(), offset: self.writer.append(record) };
        if self.writer.pending() >= self.write_max {
            self.end_piece(false);
        }
        position
    }

    /// Puts the bytes of the writer to those that are written before what comes.
    fn end_piece(&mut self, last: bool) {
        let segment = self.writer.segment();
        let (offset, bytes) = self.writer.take(if last { 0 } else { WRITE_SIZE });
        self.waiting += bytes.len() as u64;
        self.ended.push_back(Piece { segment, offset, bytes, last });
    }

    /// Notes that a slot has changed in this epoch.
    #[inline]
    pub(super) fn note_change(&mut self, epoch: Epoch) {
        self.changed = self.changed.max(epoch);
    }

    /// Takes note, at the end of a turn, of whether there are changes that a loss of all nodes
    /// would undo.
    pub(super) fn note_exposure(&mut self, now: Instant) {
        if self.changed <= self.durable {
            self.exposed_since = None;
        } else if self.exposed_since.is_none() {
            self.exposed_since = Some(now);
        }
    }

    /// Since when there are changes that are not known to be on all disks.
    pub(super) fn exposed_since(&self) -> Option<Instant> {
        self.exposed_since
    }

    /// Whether its first segment is on the disk.
    pub(super) fn is_begun(&self) -> bool {
        self.synced > Position::default()
    }

    /// Where the next record will be.
    pub(super) fn end(&self) -> Position {
        Position { segment: self.writer.segment(), offset: self.writer.offset() }
    }

    /// The newest epoch of a record.
    pub(super) fn newest(&self) -> Epoch {
        self.newest
    }

    /// The cluster whose log it is.
    pub(super) fn cluster(&self) -> ClusterId {
        self.header.cluster
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting + self.writer.pending() as u64
    }

    /// Bytes logged in this life, and replayed at its beginning.
    pub(super) fn logged(&self) -> u64 {
        self.logged_before + self.writer.offset()
    }

    /// Whether the disk lacks space for the log.
    pub(super) fn is_full(&self) -> bool {
        self.write_at.is_some() || self.reserve_at.is_some()
    }

    /// Whether the segment is part of the log.
    pub(super) fn has_segment(&self, segment: u64) -> bool {
        self.segments.contains(&segment)
    }

    /// When a request that found the disk full is made again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let asked_for = [self.write_at, self.reserve_at].into_iter().flatten().min();
        asked_for.filter(|_| self.in_flight.is_none())
    }

    /// The epoch up to which older checkpoints and segments are needed by no restart.
    pub(super) fn trimmable(&self) -> Epoch {
        self.durable.min(self.saved)
    }

    /// The newest epoch that is on this disk.
    pub(super) fn saved(&self) -> Epoch {
        self.saved
    }

    /// The newest epoch that is known to be on all disks.
    pub(super) fn durable(&self) -> Epoch {
        self.durable
    }

    /// An epoch is known to be on all disks.
    pub(super) fn set_durable(&mut self, epoch: Epoch) {
        if epoch > self.durable {
            self.durable = epoch;
            // Those that came since then count from here.
            self.exposed_since = None;
        }
    }

    /// The oldest segment on the disk.
    pub(super) fn first_segment(&self) -> u64 {
        self.segments.first().copied().expect("the present segment is there")
    }

    /// The segment whose header says on the disk what its beginning knows of all partitions.
    pub(super) fn based_segment(&self) -> u64 {
        self.synced.segment.max(1)
    }

    /// Removes these files, and all segments below `floor`, once the log up to here is synced.
    pub(super) fn retire(&mut self, files: Vec<FileName>, floor: u64) {
        self.obsolete.push_back(Obsolete { at: self.end(), files, floor });
    }

    /// Segments on the disk.
    pub(super) fn segment_count(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Rows have been copied: marks count once what came with them is durable.
    pub(super) fn copied(&mut self) {
        self.since = self.since.max(self.newest);
    }

    /// Appends the mark that everything up to `epoch` is in the log.
    fn mark(&mut self, epoch: Epoch) {
        let same = self.synced.segment == self.writer.segment();
        let synced = if same { self.synced.offset } else { 0 };
        self.marked = self.marked.max(epoch);
        let (since, durable) = (self.since, self.durable);
        let mark = Mark { epoch: self.marked, since, durable, synced };
        self.append(&Record::EpochEnd(mark), Epoch(0));
        self.sync_wanted = true;
    }

    /// Saves an epoch for the driver.
    fn save(&mut self, to: Address, epoch: Epoch, complete: Epoch) {
        self.mark(epoch.max(complete));
        let mark = if self.since <= self.durable { self.marked } else { Epoch(0) };
        self.saves.push_back(Save { at: self.end(), mark, to, epoch });
    }

    /// Ends the segment and begins the next one.
    fn begin_segment(&mut self, bases: Vec<Base>, first: u64) {
        self.append(&Record::SegmentEnd, Epoch(0));
        let segment = self.writer.segment();
        self.logged_before += self.writer.offset();
        self.end_piece(true);
        (self.header.segment, self.header.first) = (segment + 1, first);
        self.header.bases = bases;
        self.header.fences.retain(|fence| fence.segment > first);
        self.header.durable = self.durable;
        if self.since <= self.durable {
            self.header.saved = self.marked;
        }
        self.writer = SegmentWriter::new(&self.header);
        self.first_record = self.writer.offset();
        self.segments.insert(segment + 1);
        self.new_name = true;
    }

    /// Makes the next request, if there is anything to be done.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) {
        if self.in_flight.is_some() {
            return;
        }
        let due = |at: Option<Instant>| at.is_none_or(|at| at <= ctx.now());
        let next = self.writer.segment() + 1;
        let begun = self.written.segment == self.writer.segment();
        if self.reserved < next && begun && self.reserve_at.is_some_and(|at| at <= ctx.now()) {
            return self.reserve(ctx, requests, next);
        }
        let wanted = self.sync_wanted
            || !self.ended.is_empty()
            || self.writer.pending() >= WRITE_SIZE
            // Who waits for the buffer would wait for ever where no save comes.
            || (self.writer.pending() > 0 && self.waiting() > ctx.config().redo_buffer)
            || self.write_at.is_some();
        if wanted && due(self.write_at) {
            return self.write(ctx, requests);
        }
        if self.reserved < next && begun && self.reserve_at.is_none() && self.write_at.is_none() {
            self.reserve(ctx, requests, next);
        }
    }

    fn reserve(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests, segment: u64) {
        let path = requests.path(FileName::Redo(segment));
        let length = ctx.config().redo_segment;
        let reserve = vec![DiskOperation::Reserve { path, length }];
        requests.ask(ctx, LOG_LANE, Asked::Log, reserve);
        self.in_flight = Some(InFlight::Reserve(segment));
    }

    fn write(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) {
        if self.writer.pending() > 0 {
            self.end_piece(false);
        }
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < self.write_max
            && let Some(piece) = self.ended.pop_front()
        {
            bytes += piece.bytes.len();
            pieces.push(piece);
        }
        let all = self.ended.is_empty();
        let end = match pieces.last() {
            Some(last) if !all => {
                let offset = last.offset + last.bytes.len() as u64;
                Position { segment: last.segment, offset }
            }
            _ => self.end(),
        };
        // Who waits for what is written now waits no longer, however much comes after that.
        let awaited = self.saves.front().is_some_and(|save| save.at <= end);
        let sync = self.sync_wanted && (all || awaited);
        self.sync_wanted &= !all;
        if !all {
            probe!(ctx, "disk: more to be written than a request takes");
        }
        let mut operations = Vec::new();
        for piece in &pieces {
            let path = requests.path(FileName::Redo(piece.segment));
            let (offset, bytes) = (piece.offset, piece.bytes.clone());
            operations.push(DiskOperation::Write { path: path.clone(), offset, bytes });
            if piece.last {
                operations.push(DiskOperation::Sync { path });
            }
        }
        if sync {
            let path = requests.path(FileName::Redo(end.segment));
            operations.push(DiskOperation::Sync { path });
            if self.new_name {
                let path = requests.directory.clone();
                operations.push(DiskOperation::SyncDirectory { path });
            }
        }
        requests.ask(ctx, LOG_LANE, Asked::Log, operations);
        self.in_flight = Some(InFlight::Write { pieces, sync, end });
    }

    /// Takes the answer to the last request in. False when the disk has failed.
    fn answered(&mut self, ctx: &mut Ctx<'_>, result: Result<Vec<DiskAnswer>, DiskError>) -> bool {
        let in_flight = self.in_flight.take().expect("it was asked for");
        let full = result.as_ref().is_err_and(|error| error.kind == DiskErrorKind::Full);
        if let Err(error) = &result
            && !full
        {
            ctx.halt(Halt::DiskFailed(error.text.clone()));
            return false;
        }
        match in_flight {
            InFlight::Reserve(_) if full => {
                probe!(ctx, "disk: no space for the next segment of the log");
                self.reserve_at = Some(ctx.now() + RETRY_AFTER);
            }
            InFlight::Reserve(segment) => {
                self.reserved = segment;
                self.reserve_at = None;
            }
            InFlight::Write { pieces, sync, .. } if full => {
                probe!(ctx, "disk: no space for records of the log");
                self.write_at = Some(ctx.now() + RETRY_AFTER);
                self.sync_wanted |= sync;
                for piece in pieces.into_iter().rev() {
                    self.ended.push_front(piece);
                }
            }
            InFlight::Write { pieces, sync, end } => {
                self.write_at = None;
                self.waiting -= pieces.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
                self.written = end;
                self.reserved = self.reserved.max(end.segment);
                if sync {
                    self.synced = end;
                    self.new_name &= self.writer.segment() != end.segment;
                }
            }
        }
        true
    }

    /// Tells those whose epoch is saved now.
    fn tell_saved(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(save) = self.saves.pop_front_if(|save| save.at <= self.synced) {
            self.saved = self.saved.max(save.mark);
            ctx.send(save.to, Message::Epoch(EpochMessage::Saved { epoch: save.epoch }));
        }
    }

    /// Removes what is not needed, as far as the log says so on the disk.
    fn remove_obsolete(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) {
        while let Some(obsolete) = self.obsolete.pop_front_if(|gone| gone.at <= self.synced) {
            let kept = self.segments.split_off(&obsolete.floor);
            let gone = std::mem::replace(&mut self.segments, kept);
            if !gone.is_empty() {
                probe!(ctx, "disk: segments of the log removed");
            }
            let gone = gone.into_iter().map(FileName::Redo).chain(obsolete.files);
            requests.remove(ctx, gone);
        }
    }
}

impl Participant {
    /// The driver wants everything up to an epoch on the disk; it is complete. A worker that is
    /// not, or has it only as it became later, answers when it can.
    pub(in crate::participant) fn save(&mut self, ctx: &mut Ctx<'_>, from: Address, epoch: Epoch) {
        if self.disk.is_none() {
            return ctx.send(from, Message::Epoch(EpochMessage::Saved { epoch }));
        }
        let (is_complete, complete) = (self.is_complete(ctx), self.completed);
        let disk = self.disk.as_mut().expect("checked above");
        let Some(log) = &mut disk.log else { return };
        log.late_saves.retain(|(to, _)| *to != from);
        if !is_complete {
            probe!(ctx, "disk: save at a worker that is not complete");
            log.late_saves.push((from, epoch));
        } else if epoch.max(complete) < log.since {
            probe!(ctx, "disk: save waits for the epoch of a copy");
            log.late_saves.push((from, epoch));
        } else {
            log.save(from, epoch, complete);
            if ctx.mutated(Mutation::SavedBeforeSync) {
                ctx.send(from, Message::Epoch(EpochMessage::Saved { epoch }));
            }
        }
        fault_point!(ctx, "disk: epoch marked, before it is synced");
        self.plan_checkpoints(ctx);
    }

    /// Whether a save waits for nothing but an epoch to complete.
    pub(super) fn awaits_epoch(&self, ctx: &Ctx<'_>) -> bool {
        let log = self.disk.as_ref().and_then(|disk| disk.log.as_ref());
        log.is_some_and(|log| !log.late_saves.is_empty()) && self.is_complete(ctx)
    }

    /// Saves what had to wait.
    pub(super) fn save_late(&mut self, ctx: &mut Ctx<'_>) {
        let complete = self.completed;
        if !self.awaits_epoch(ctx) {
            return;
        }
        let disk = self.disk.as_mut().expect("a save waits");
        let log = disk.log.as_mut().expect("a save waits");
        if log.late_saves.iter().all(|(_, epoch)| complete.max(*epoch) < log.since) {
            return;
        }
        let since = log.since;
        let ready = |(_, epoch): &mut (Address, Epoch)| complete.max(*epoch) >= since;
        let ready: Vec<(Address, Epoch)> = log.late_saves.extract_if(.., ready).collect();
        for (to, epoch) in ready {
            log.save(to, epoch, complete);
        }
        fault_point!(ctx, "disk: epoch of a copy marked, before it is synced");
    }

    /// What the log says of all partitions.
    pub(super) fn base_records(&self, end: Position) -> Vec<Base> {
        let replicas = self.replicas.iter();
        replicas.map(|(partition, replica)| replica.stored.base_record(*partition, end)).collect()
    }

    /// Begins the next segment when the present one is full, and writes what is to be written.
    pub(super) fn write_log(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_ref().expect("a worker with a disk");
        let Some(log) = &disk.log else { return };
        let (end, is_open) = (log.end(), matches!(disk.stage, Stage::Open));
        if is_open && end.offset >= ctx.config().redo_segment && end.offset > log.first_record {
            let next = Position { segment: end.segment + 1, offset: 0 };
            let (bases, first) = (self.base_records(next), log.first_segment());
            let disk = self.disk.as_mut().expect("checked above");
            disk.log.as_mut().expect("checked above").begin_segment(bases, first);
        }
        let disk = self.disk.as_mut().expect("checked above");
        disk.log.as_mut().expect("checked above").go_on(ctx, &mut disk.requests);
    }

    /// The last request of the log was answered.
    pub(super) fn log_written(
        &mut self,
        ctx: &mut Ctx<'_>,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let disk = self.disk.as_mut().expect("it has answered");
        let log = disk.log.as_mut().expect("it was asked for");
        if !log.answered(ctx, result) {
            return;
        }
        fault_point!(ctx, "disk: log synced, before anybody is told");
        log.tell_saved(ctx);
        log.remove_obsolete(ctx, &mut disk.requests);
        self.may_be_open(ctx);
    }
}
