//! What a worker finds on its disk at the start: everything is read and checked once, so that it
//! is known what can be restored before anybody counts on it.
//!
//! # Guarantees
//! An epoch that is reported as saved can be restored, unless the disk fails afterwards: an earlier
//! life may have ended before its last sync, so all files are synced before they are read. A
//! checkpoint or segment that is damaged is not used: earlier checkpoints and more of the log are,
//! while they are there; otherwise an earlier epoch is reported, or none. What is wrong is reported
//! file by file, and so is the newest epoch that the watermark or any sound part of the log calls
//! durable: who chooses the epoch of a restart sees what is missing.
//! # Not here
//! Rows: `restore`.

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, DiskAnswer, DiskError, DiskOperation, Halt, probe};
use model::{ClusterId, Epoch, PartitionId};
use ondisk::checkpoint::{CheckpointHeader, CheckpointReader};
use ondisk::redo::{Base, Position, Record, SegmentEnd, SegmentHeader, SegmentReader};
use ondisk::{Damage, FileName, Watermark, Watermarks};
use wire::{ControlMessage, WorkerDisk};

use super::reading::Reading;
use super::stored::chain;
use super::{Asked, LOG_LANE, Stage, tell_control};
use crate::participant::Participant;

/// The survey while it is under way.
#[derive(Debug)]
pub(super) struct Surveying {
    reading: Reading,
    /// The reader of the present file; none when its first piece is awaited, or it is damaged.
    reader: Option<Reader>,
    skips: bool,
    found: Survey,
}

#[derive(Debug)]
enum Reader {
    Segment(SegmentReader, Vec<Mark>),
    Checkpoint(CheckpointReader),
    Watermark(Vec<u8>),
}

/// The last mark among those with the same `since`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    since: Epoch,
    epoch: Epoch,
}

/// A segment of the log that has a sound header.
#[derive(Debug)]
struct Segment {
    header: SegmentHeader,
    marks: Vec<Mark>,
    end: SegmentEnd,
    len: u64,
}

impl Segment {
    /// Whether the life that wrote this segment went on in `next`, and no other lies between.
    fn is_continued_by(&self, next: &Segment) -> bool {
        self.header.incarnation == next.header.incarnation
            && self.header.segment + 1 == next.header.segment
    }

    /// The epoch that was restored when a life began with this segment; none when none did.
    fn goes_on_from(&self) -> Option<Epoch> {
        let fences = self.header.fences.iter();
        let own = fences.filter(|fence| fence.segment == self.header.segment);
        own.map(|fence| fence.through).max()
    }
}

/// A sound checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) header: CheckpointHeader,
    pub(super) newest: Epoch,
}

/// What is on the disk.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// All files of the worker that have a name of ours, with their lengths.
    pub(super) files: BTreeMap<FileName, u64>,
    segments: BTreeMap<u64, Segment>,
    pub(super) checkpoints: BTreeMap<(PartitionId, u32), Checkpoint>,
    /// What the newest header and the records behind it say.
    bases: BTreeMap<PartitionId, Base>,
    pub(super) durable: Epoch,
    /// What the watermark says.
    noted: Option<Watermark>,
    /// What is wrong, file by file.
    pub(super) damages: Vec<String>,
    /// What may be the torn end of a crash, or damage, file by file.
    torn: Vec<(FileName, String)>,
}

/// What can be restored from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restorable {
    /// From the oldest epoch that every checkpoint and copy still allows.
    oldest: Epoch,
    newest: Epoch,
}

/// How an epoch can be restored.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// For each partition its checkpoints, oldest first, and the first record to replay.
    pub(super) partitions: BTreeMap<PartitionId, (Vec<u32>, Position)>,
    /// The segments to replay, with their lengths.
    pub(super) segments: Vec<(u64, u64)>,
}

impl Surveying {
    /// What is being read.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Takes a piece of a file in.
    fn push(&mut self, file: FileName, bytes: &[u8]) -> Result<(), Damage> {
        let reader = self.reader.get_or_insert_with(|| match file {
            FileName::Redo(_) => Reader::Segment(SegmentReader::new(), Vec::new()),
            FileName::Watermark => Reader::Watermark(Vec::new()),
            _ => Reader::Checkpoint(CheckpointReader::new()),
        });
        match reader {
            Reader::Segment(reader, marks) => {
                reader.push(bytes);
                self.found.read_records(reader, marks);
            }
            Reader::Checkpoint(reader) => {
                reader.push(bytes);
                while reader.skip_block()? {}
            }
            Reader::Watermark(read) => read.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// The present file has been read to its end.
    fn end_file(&mut self, ctx: &mut Ctx<'_>, file: FileName) {
        let result = match self.reader.take() {
            _ if std::mem::take(&mut self.skips) => return,
            None => return,
            Some(Reader::Segment(reader, marks)) => {
                self.found.add_segment(ctx, file, reader, marks)
            }
            Some(Reader::Watermark(bytes)) => {
                self.found.add_watermark(ctx, Watermarks::read(&bytes));
                Ok(())
            }
            Some(Reader::Checkpoint(mut reader)) => {
                let end = reader.finish().map(|(header, footer)| (*header, footer.newest));
                end.map(|(header, newest)| self.found.add_checkpoint(ctx, file, header, newest))
            }
        };
        if let Err(damage) = result {
            let what = self.found.place(file, damage);
            if matches!(file, FileName::Redo(_)) && damage.offset == 0 {
                return self.found.torn.push((file, what));
            }
            self.damaged(ctx, &what);
        }
    }

    fn damaged(&mut self, ctx: &mut Ctx<'_>, what: &str) {
        probe!(ctx, "disk: damaged file found");
        self.found.damages.push(what.to_owned());
        self.reader = None;
    }
}

impl Survey {
    /// The files that are read, with their lengths.
    fn used(&self) -> impl Iterator<Item = (FileName, u64)> {
        let files = self.files.iter().map(|(file, len)| (*file, *len));
        files.filter(|(file, len)| !matches!(file, FileName::Draft { .. }) && *len > 0)
    }

    /// Bytes of all files that are read.
    pub(super) fn bytes(&self) -> u64 {
        self.used().map(|(_, len)| len).sum()
    }

    /// The newest segment with a sound header.
    fn newest(&self) -> Option<&Segment> {
        self.segments.last_key_value().map(|(_, segment)| segment)
    }

    /// The cluster whose rows these are.
    pub(super) fn cluster(&self) -> Option<ClusterId> {
        self.newest().map(|segment| segment.header.cluster)
    }

    /// The fences that hold.
    pub(super) fn fences(&self) -> Vec<ondisk::redo::Fence> {
        self.newest().map(|segment| segment.header.fences.clone()).unwrap_or_default()
    }

    /// The newest epoch of records and checkpoints of `segment` that counts.
    pub(super) fn limit_of(&self, segment: u64) -> Epoch {
        self.newest().map_or(Epoch(0), |newest| newest.header.limit_of(segment))
    }

    /// The largest number that a segment on the disk has.
    pub(super) fn last_segment(&self) -> u64 {
        let numbers = self.files.keys().filter_map(|file| match file {
            FileName::Redo(number) => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// The largest number that a checkpoint of the partition on the disk has.
    pub(super) fn last_sequence(&self, of: PartitionId) -> u32 {
        let numbers = self.files.keys().filter_map(|file| match file {
            FileName::Checkpoint { partition, sequence }
            | FileName::Draft { partition, sequence }
                if *partition == of =>
            {
                Some(*sequence)
            }
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    fn read_records(&mut self, reader: &mut SegmentReader, marks: &mut Vec<Mark>) {
        let had_header = !marks.is_empty();
        if !had_header && let Some(header) = reader.header() {
            // Older segments say nothing that the newest header does not know.
            self.bases = header.bases.iter().map(|base| (base.partition, *base)).collect();
            self.durable = self.durable.max(header.durable);
            marks.push(Mark { since: Epoch(0), epoch: header.saved });
        }
        while let Some((_, record)) = reader.next_record() {
            match record {
                Record::EpochEnd(mark) => {
                    self.durable = self.durable.max(mark.durable);
                    let epoch = mark.epoch;
                    match marks.last_mut().filter(|last| last.since == mark.since) {
                        Some(last) => last.epoch = last.epoch.max(epoch),
                        None => marks.push(Mark { since: mark.since, epoch }),
                    }
                }
                Record::Base(base) => {
                    self.bases.insert(base.partition, base);
                }
                Record::Dropped { partition } => {
                    self.bases.remove(&partition);
                }
                _ => {}
            }
        }
    }

    fn add_segment(
        &mut self,
        ctx: &mut Ctx<'_>,
        file: FileName,
        mut reader: SegmentReader,
        marks: Vec<Mark>,
    ) -> Result<(), Damage> {
        let end = reader.finish();
        let loss = reader.proves_loss();
        let (Some(header), FileName::Redo(number)) = (reader.header().cloned(), file) else {
            return match end {
                SegmentEnd::Damaged(damage) => Err(damage),
                _ => Ok(()),
            };
        };
        let of_this_worker = (header.node, header.worker) == (ctx.node(), ctx.me().worker);
        if !of_this_worker || header.segment != number {
            self.damages.push(format!("{file}: it is {header}"));
            return Ok(());
        }
        if self.cluster().is_some_and(|cluster| cluster != header.cluster) {
            probe!(ctx, "disk: log of an earlier cluster found");
            self.segments.clear();
            self.durable = header.durable;
        }
        if let SegmentEnd::Damaged(damage) = end {
            let what = self.place(file, damage);
            if loss {
                probe!(ctx, "disk: log damaged before its end");
                self.damages.push(format!("{what}, and it had been synced beyond"));
            } else {
                self.torn.push((file, what));
            }
        }
        let len = self.files[&file];
        self.segments.insert(number, Segment { header, marks, end, len });
        Ok(())
    }

    fn add_checkpoint(
        &mut self,
        ctx: &Ctx<'_>,
        file: FileName,
        header: CheckpointHeader,
        newest: Epoch,
    ) {
        let FileName::Checkpoint { partition, sequence } = file else { return };
        let of_this_worker = (header.node, header.worker) == (ctx.node(), ctx.me().worker);
        if !of_this_worker || (header.partition, header.sequence) != (partition, sequence) {
            return self.damages.push(format!("{file}: it is {header}"));
        }
        self.checkpoints.insert((partition, sequence), Checkpoint { header, newest });
    }

    fn add_watermark(&mut self, ctx: &Ctx<'_>, read: Watermarks) {
        let file = FileName::Watermark;
        if let Some(damage) = read.damage {
            let what = self.place(file, damage);
            match read.newest {
                Some(_) => self.torn.push((file, what)),
                None => self.damages.push(what),
            }
        }
        let Some(found) = read.newest else { return };
        if (found.node, found.worker) != (ctx.node(), Some(ctx.me().worker)) {
            return self.damages.push(format!("{file}: it is of another worker: {found}"));
        }
        self.noted = Some(found);
    }

    /// What is wrong with a file from a place on, in words.
    fn place(&self, file: FileName, damage: Damage) -> String {
        let len = self.files.get(&file).copied().unwrap_or(0);
        format!("{file}: bytes {} to {len}: {}", damage.offset, damage.kind)
    }

    /// All files were read: forgets segments that did not belong to the log any more, and takes the
    /// watermark into account.
    fn end(&mut self) {
        if let Some(first) = self.newest().map(|newest| newest.header.first) {
            self.segments.retain(|number, _| *number >= first);
        }
        let Some(cluster) = self.cluster() else { return };
        if let Some(noted) = self.noted.filter(|noted| noted.cluster == cluster) {
            self.durable = self.durable.max(noted.epoch);
        } else if self.durable > Epoch(0) && self.damages.is_empty() {
            let older = "it is missing, as where an older version has written last";
            self.torn.push((FileName::Watermark, format!("{}: {older}", FileName::Watermark)));
        }
        self.find_gaps();
    }

    /// Finds segments that are missing, or that end before their life went on in the next one. What
    /// is not the last segment of a life cannot be torn: it was synced before the next one began.
    fn find_gaps(&mut self) {
        let Some(newest) = self.newest() else { return };
        let (mut expected, last) = (newest.header.first, newest.header.segment);
        let (mut gaps, mut doubts) = (Vec::new(), Vec::new());
        let mut broken: BTreeSet<FileName> = BTreeSet::new();
        let mut before: Option<&Segment> = None;
        for (number, segment) in &self.segments {
            let same_life =
                |before: &Segment| before.header.incarnation == segment.header.incarnation;
            let certain = before.is_none_or(same_life);
            let missing = (expected..*number).map(FileName::Redo);
            let missing = missing.filter(|file| self.files.get(file).is_none_or(|len| *len == 0));
            for file in missing {
                let what = format!("{file}: the file is missing or empty");
                // A segment that was set aside and never begun is removed by the next life.
                if certain { gaps.push(what) } else { doubts.push((file, what)) }
            }
            if let Some(before) = before.filter(|before| same_life(before)) {
                let (file, len) = (FileName::Redo(before.header.segment), before.len);
                if before.end == SegmentEnd::Open {
                    gaps.push(format!("{file}: it ends at byte {len}, and its end is missing"));
                }
                broken.insert(file);
            }
            (expected, before) = (number + 1, Some(segment));
        }
        let torn = std::mem::take(&mut self.torn);
        let is_damage = |(file, _): &(FileName, String)| {
            let inside = matches!(file, FileName::Redo(number) if *number < last);
            broken.contains(file) || (inside && !self.has_header(*file))
        };
        let (damages, torn): (Vec<_>, Vec<_>) = torn.into_iter().partition(is_damage);
        self.damages.extend(damages.into_iter().map(|(_, what)| what));
        self.damages.append(&mut gaps);
        self.torn = torn;
        self.torn.append(&mut doubts);
    }

    fn has_header(&self, file: FileName) -> bool {
        matches!(file, FileName::Redo(number) if self.segments.contains_key(&number))
    }

    /// What the disk says was durable, and in which cluster.
    fn durable_of_cluster(&self) -> Option<(ClusterId, Epoch)> {
        let noted = self.noted.map(|noted| (noted.cluster, noted.epoch));
        self.cluster().map(|cluster| (cluster, self.durable)).or(noted)
    }

    /// What the node's control actor is told.
    fn report(&self, worker: &str) -> WorkerDisk {
        let restorable = self.restorable();
        let rows = self.cluster().zip(restorable.map(|restorable| restorable.newest));
        let newest = rows.map_or(Epoch(0), |rows| rows.1);
        let held = self.noted.filter(|noted| self.cluster().is_none_or(|own| own == noted.cluster));
        let missing = held.is_some_and(|noted| newest < noted.held);
        // What looks like the torn end of a crash is not where something is missing.
        let torn = self.torn.iter().filter(|_| missing).map(|(_, what)| what);
        let mut damages: Vec<String> = self.damages.iter().chain(torn).cloned().collect();
        if missing && damages.is_empty() {
            let last = FileName::Redo(self.last_segment());
            damages.push(format!("{last}: the log ends here or before, and its end is missing"));
        }
        WorkerDisk {
            rows,
            oldest: restorable.map_or(Epoch(0), |restorable| restorable.oldest),
            durable: self.durable_of_cluster(),
            missing,
            damages: damages.iter().map(|what| format!("{worker}/{what}")).collect(),
        }
    }

    /// From which to which epoch the rows can be restored: each epoch between can be. How far back
    /// is decided by checkpoints that have replaced older ones, by rows that were copied, and by
    /// damage that newer checkpoints do without.
    fn restorable(&self) -> Option<Restorable> {
        let newest = self.newest_restorable()?;
        let marks = self.segments.values().flat_map(|segment| &segment.marks);
        let copied: BTreeSet<Epoch> = marks.map(|mark| mark.since).collect();
        let checkpoints = self.checkpoints.values().map(|checkpoint| checkpoint.newest);
        let limits: BTreeSet<Epoch> =
            copied.iter().copied().chain(checkpoints).chain([Epoch(0), newest]).collect();
        let limits: Vec<Epoch> = limits.into_iter().filter(|epoch| *epoch <= newest).collect();
        let mut oldest = self.oldest_of(&limits, newest);
        // What was before a copy has no mark that counts.
        let before = |since: &Epoch| Epoch(since.0.saturating_sub(1));
        let holes = copied.range(..=newest).rev();
        if let Some(hole) = holes.copied().find(|since| self.plan(before(since)).is_none()) {
            oldest = oldest.max(hole);
        }
        Some(Restorable { oldest, newest })
    }

    /// The oldest epoch from which on each up to `newest` can be restored, as far as checkpoints
    /// and damage decide it. The segment that a restart begins with is never older for a newer
    /// epoch; so the limits that begin with the same one lie together and are searched by halves.
    fn oldest_of(&self, limits: &[Epoch], newest: Epoch) -> Epoch {
        let begins_with = |epoch: Epoch| Some(self.plan(epoch)?.segments.first()?.0);
        let mut oldest = newest;
        while let Some(first) = begins_with(oldest) {
            let older = &limits[..limits.partition_point(|limit| *limit < oldest)];
            let same = older.partition_point(|limit| begins_with(*limit) != Some(first));
            oldest = older.get(same).copied().unwrap_or(oldest);
            let before = Epoch(oldest.0.saturating_sub(1));
            if oldest == Epoch(0) || begins_with(before).is_none_or(|before| before >= first) {
                break;
            }
            oldest = before;
        }
        oldest
    }

    /// The newest epoch up to which a segment says that everything is in the log, as far as it
    /// counts.
    fn marked(&self, number: u64, segment: &Segment, through: Epoch) -> Epoch {
        // Copied rows came as they were at their newest: nothing older can be made of them.
        let since = self.durable.min(through);
        let counts = segment.marks.iter().filter(|mark| mark.since <= since);
        let newest = counts.map(|mark| mark.epoch).max().unwrap_or(Epoch(0));
        newest.min(self.limit_of(number))
    }

    /// The newest epoch that can be restored; zero when the log ended before its first mark, as
    /// nothing is missing then.
    fn newest_restorable(&self) -> Option<Epoch> {
        let all = Epoch(u64::MAX);
        let marked = |(number, segment): (&u64, &Segment)| self.marked(*number, segment, all);
        let marked = self.segments.iter().map(marked);
        let epochs: BTreeSet<Epoch> = marked.filter(|epoch| *epoch > Epoch(0)).collect();
        let newest = epochs.into_iter().rev().find(|epoch| self.plan(*epoch).is_some());
        newest.or_else(|| self.ended_before_first_mark().then_some(Epoch(0)))
    }

    fn ended_before_first_mark(&self) -> bool {
        let mut marks = self.segments.values().flat_map(|segment| &segment.marks);
        self.damages.is_empty()
            && !self.segments.is_empty()
            && self.durable == Epoch(0)
            && marks.all(|mark| mark.epoch == Epoch(0))
    }

    /// How an epoch is restored; none when it cannot be.
    pub(super) fn plan(&self, through: Epoch) -> Option<Plan> {
        let mut plan = Plan::default();
        for (partition, base) in &self.bases {
            plan.partitions.insert(*partition, self.start_of(base, through)?);
        }
        let oldest = plan.partitions.values().map(|(_, redo)| redo.segment).min();
        let newest = *self.segments.last_key_value()?.0;
        plan.segments = self.replayable(oldest.unwrap_or(newest).min(newest), through)?;
        Some(plan)
    }

    /// What a partition begins with: its newest checkpoint that counts, with all it continues.
    fn start_of(&self, base: &Base, through: Epoch) -> Option<(Vec<u32>, Position)> {
        let first = *self.segments.first_key_value()?.0;
        let of_partition = self.checkpoints.range((base.partition, 0)..=(base.partition, u32::MAX));
        for (_, Checkpoint { header, newest, .. }) in of_partition.rev() {
            let is_base = header.sequence == base.sequence;
            // The log must go back to another one's beginning.
            let reaches = is_base || header.redo.segment >= first;
            let limit = through.min(self.limit_of(header.redo.segment));
            if *newest > limit || !reaches || Some(header.cluster) != self.cluster() {
                continue;
            }
            let find = |sequence| {
                self.checkpoints.get(&(base.partition, sequence)).map(|found| found.header)
            };
            if let Some(chain) = chain(header, find) {
                return Some((chain, if is_base { base.redo } else { header.redo }));
            }
        }
        (base.sequence == 0).then_some((Vec::new(), base.redo))
    }

    /// The segments from `first` on that count, if nothing is missing up to a mark that reaches
    /// `through`. A life goes on from the epoch that its fence names: where everything up to that
    /// epoch has been read, what lies in between is not needed. That may be a segment with damage
    /// and those behind it, or earlier lives that the restart went back behind.
    fn replayable(&self, first: u64, through: Epoch) -> Option<Vec<(u64, u64)>> {
        let mut reached = Epoch(0);
        let mut segments = Vec::new();
        let mut before: Option<&Segment> = None;
        for (number, segment) in self.segments.range(first..) {
            let follows = match before {
                None if *number != first => return None,
                None => true,
                Some(before) if before.is_continued_by(segment) => before.end == SegmentEnd::Sealed,
                Some(_) => segment.goes_on_from().is_some_and(|fence| fence <= reached),
            };
            if !follows {
                continue;
            }
            reached = reached.max(self.marked(*number, segment, through));
            segments.push((*number, segment.len));
            before = Some(segment);
        }
        (reached >= through).then_some(segments)
    }
}

impl Participant {
    /// The worker's files are known: syncs those that count.
    pub(super) fn begin_survey(
        &mut self,
        ctx: &mut Ctx<'_>,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let files = match result.map(|mut answers| answers.pop()) {
            Ok(Some(DiskAnswer::Files(files))) => files,
            Ok(other) => panic!("a list answered with {other:?}"),
            Err(error) => return ctx.halt(Halt::DiskFailed(error.text)),
        };
        let ours = files.into_iter().filter_map(|(name, len)| Some((FileName::parse(&name)?, len)));
        let files: BTreeMap<FileName, u64> = ours.collect();
        let found = Survey { files, ..Survey::default() };
        let disk = self.disk.as_mut().expect("it has answered");
        let path = disk.requests.directory.clone();
        let mut operations = vec![DiskOperation::SyncDirectory { path }];
        let sync = |(file, _)| DiskOperation::Sync { path: disk.requests.path(file) };
        operations.extend(found.used().map(sync));
        disk.requests.ask(ctx, LOG_LANE, Asked::Synced, operations);
        let reading = Reading::of(found.used(), ctx.now());
        let surveying = Surveying { reading, reader: None, skips: false, found };
        disk.stage = Stage::Surveying(Box::new(surveying));
    }

    /// The files are durable as they are: reads them all.
    pub(super) fn survey_synced(
        &mut self,
        ctx: &mut Ctx<'_>,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        match result {
            Ok(_) => self.continue_survey(ctx),
            Err(error) => ctx.halt(Halt::DiskFailed(error.text)),
        }
    }

    /// A piece of a file has come in.
    pub(super) fn survey_piece(&mut self, ctx: &mut Ctx<'_>, piece: Result<Vec<u8>, DiskError>) {
        let disk = self.disk.as_mut().expect("it has answered");
        let Stage::Surveying(surveying) = &mut disk.stage else { panic!("checked by the caller") };
        let len = piece.as_ref().map_or(0, Vec::len);
        let (file, last) = surveying.reading.taken(len);
        if !surveying.skips {
            let read = match &piece {
                Ok(bytes) => surveying
                    .push(file, bytes)
                    .map_err(|damage| surveying.found.place(file, damage)),
                Err(error) => Err(format!("{file}: it cannot be read: {}", error.text)),
            };
            if let Err(what) = read {
                surveying.damaged(ctx, &what);
                surveying.skips = true;
            }
        }
        if last {
            surveying.end_file(ctx, file);
        }
        self.continue_survey(ctx);
    }

    /// Asks for more, or says what was found.
    fn continue_survey(&mut self, ctx: &mut Ctx<'_>) {
        let disk = self.disk.as_mut().expect("a survey is under way");
        let Stage::Surveying(surveying) = &mut disk.stage else { panic!("a survey is under way") };
        if surveying.reading.go_on(ctx, &mut disk.requests) {
            return;
        }
        let mut survey = std::mem::take(&mut surveying.found);
        survey.end();
        let report = survey.report(&disk.requests.directory);
        if report.rows.is_none() && !survey.segments.is_empty() {
            probe!(ctx, "disk: nothing that can be restored");
        }
        disk.damaged_files = survey.damages.len() as u64;
        disk.stage = Stage::Surveyed(Box::new(survey));
        let worker = ctx.me().worker;
        let found = Box::new(report);
        tell_control(ctx, ControlMessage::WorkerStored { worker, found });
    }
}
