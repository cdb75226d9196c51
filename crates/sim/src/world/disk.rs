//! A simulated disk: requests in lanes, what they cost, what may go wrong.
//!
//! # Owns
//! The files of a node, which outlive its processes; requests under way; faults of the disk.
//! # Guarantees
//! What `actor::DiskRequest` promises, and no more: lanes are carried out side by side, an
//! operation takes effect when its time is over, and a sync covers what was written before it
//! began. When a process ends, what it had begun is carried out, or a part of it, or nothing; what
//! was carried out stays. When the power fails only what is durable stays for sure (`files`).
//! # Not here
//! The queue of events (`world`), which faults strike when (`chaos`).

mod files;

use std::collections::{BTreeMap, VecDeque};

use actor::{DiskAnswer, DiskError, DiskErrorKind, DiskOperation, DiskReply, DiskRequest};
use control::journal;
use model::{ActorKind, WorkerId};
use stdx::{Duration, Instant, Prng};

use crate::setup::DiskSetup;
pub use files::Damage;
use files::{Files, Mark};

/// What the paths of the control log begin with.
const CONTROL_LOG: &str = "control/log-";

/// A lane of an actor of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneName {
    pub(super) worker: WorkerId,
    pub(super) actor: ActorKind,
    pub(super) lane: u8,
}

/// Requests that are carried out one after the other.
#[derive(Debug, Default)]
struct Lane {
    /// The first is under way.
    requests: VecDeque<DiskRequest>,
    /// Answers to its operations so far.
    answers: Vec<DiskAnswer>,
    /// When its present operation began.
    mark: Mark,
}

/// Kinds of operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskAction {
    /// Of `Read` and `List`.
    Read,
    /// Of `Write` and `Reserve`.
    Write,
    /// Of `Sync` and `SyncDirectory`.
    Sync,
}

/// What a step of a lane came to.
pub(super) struct Stepped {
    /// The request is answered.
    pub(super) reply: Option<DiskReply>,
    /// When the lane's next operation is over, if there is one.
    pub(super) next: Option<Duration>,
}

/// The disk of a node.
#[derive(Debug)]
pub(super) struct Disk {
    setup: DiskSetup,
    prng: Prng,
    files: Files,
    lanes: BTreeMap<LaneName, Lane>,
    /// Operations take this many times as long.
    slowness: u64,
    /// No sync ends before.
    stuck_until: Instant,
    /// Most bytes that files may take.
    capacity: u64,
    /// The next operation of this kind, under this directory, fails.
    failing: Option<(DiskAction, &'static str)>,
    /// What has happened, for totals.
    counts: BTreeMap<&'static str, u64>,
}

impl Disk {
    /// An empty disk.
    pub(super) fn new(setup: DiskSetup, prng: Prng) -> Self {
        Self {
            setup,
            prng,
            files: Files::default(),
            lanes: BTreeMap::new(),
            slowness: 1,
            stuck_until: Instant::ZERO,
            capacity: u64::MAX,
            failing: None,
            counts: BTreeMap::new(),
        }
    }

    /// Takes in a request. How long its first operation takes, if the lane was idle.
    pub(super) fn ask(
        &mut self,
        worker: WorkerId,
        request: DiskRequest,
        now: Instant,
    ) -> (LaneName, Option<Duration>) {
        let name = LaneName { worker, actor: request.actor, lane: request.lane };
        let lane = self.lanes.entry(name).or_default();
        lane.requests.push_back(request);
        let first = lane.requests.len() == 1;
        (name, first.then(|| self.begin(name, now)))
    }

    /// Begins the next operation of a lane; how long it takes.
    fn begin(&mut self, name: LaneName, now: Instant) -> Duration {
        let mark = self.files.mark();
        let lane = self.lanes.get_mut(&name).expect("a lane that has a request");
        lane.mark = mark;
        let request = lane.requests.front().expect("a lane that has a request");
        let DiskSetup { operation, sync, bytes_per_second, spike_per_mille, spike_max } =
            self.setup;
        let next = request.operations.get(lane.answers.len());
        let syncs =
            matches!(next, Some(DiskOperation::Sync { .. } | DiskOperation::SyncDirectory { .. }));
        let bytes = match next {
            Some(DiskOperation::Write { bytes, .. }) => bytes.len() as u64,
            Some(DiskOperation::Read { length, .. }) => *length,
            _ => 0,
        };
        let mean = if syncs { sync } else { operation }.as_nanos();
        let mut nanos = self.prng.between(mean / 2, mean * 3 / 2);
        nanos += bytes.saturating_mul(1_000_000_000) / bytes_per_second;
        if self.prng.below(1_000) < spike_per_mille {
            nanos += self.prng.below(spike_max.as_nanos() + 1);
        }
        let mut span = Duration::from_nanos(nanos).times(self.slowness);
        if syncs && self.stuck_until > now {
            span = span + self.stuck_until.since(now);
        }
        span
    }

    /// The present operation of a lane is over.
    pub(super) fn step(&mut self, name: LaneName, now: Instant) -> Stepped {
        let mut lane = self.lanes.remove(&name).expect("a lane that was begun");
        let request = lane.requests.front().expect("a lane that was begun");
        let at = lane.answers.len();
        let mut failure = None;
        if let Some(operation) = request.operations.get(at) {
            match self.carry_out(operation, lane.mark) {
                Ok(answer) => lane.answers.push(answer),
                Err(kind) => {
                    *self.counts.entry("operations failed").or_default() += 1;
                    let text = failure_text(operation, kind);
                    failure = Some(DiskError { at, kind, text });
                }
            }
        }
        let over = failure.is_some() || lane.answers.len() == request.operations.len();
        let reply = over.then(|| {
            let request = lane.requests.pop_front().expect("it was there above");
            let answers = std::mem::take(&mut lane.answers);
            let result = failure.map_or(Ok(answers), Err);
            DiskReply { actor: request.actor, token: request.token, result }
        });
        if lane.requests.is_empty() {
            return Stepped { reply, next: None };
        }
        self.lanes.insert(name, lane);
        let next = Some(self.begin(name, now));
        Stepped { reply, next }
    }

    fn carry_out(
        &mut self,
        operation: &DiskOperation,
        mark: Mark,
    ) -> Result<DiskAnswer, DiskErrorKind> {
        *self.counts.entry("operations").or_default() += 1;
        if self.fails(operation) {
            return Err(DiskErrorKind::Failed);
        }
        let files = &mut self.files;
        let done = match operation {
            DiskOperation::CreateDirectory { path } => files.create_directory(path),
            DiskOperation::Write { path, offset, bytes } => {
                let room = self.capacity.saturating_sub(files.used());
                if files.growth(path, offset + bytes.len() as u64) > room {
                    // Some of it may be there all the same.
                    let kept = bytes.len().min(room as usize);
                    files.write(path, *offset, &bytes[..kept])?;
                    return Err(DiskErrorKind::Full);
                }
                *self.counts.entry("bytes written").or_default() += bytes.len() as u64;
                files.write(path, *offset, bytes)
            }
            DiskOperation::Reserve { path, length } => {
                let room = self.capacity.saturating_sub(files.used());
                if files.growth(path, *length) > room {
                    return Err(DiskErrorKind::Full);
                }
                files.reserve(path, *length)
            }
            DiskOperation::Sync { path } => files.sync(path, mark),
            DiskOperation::SyncDirectory { path } => files.sync_directory(path, mark),
            DiskOperation::Rename { from, to } => files.rename(from, to),
            DiskOperation::Remove { path } => files.remove(path),
            DiskOperation::Read { path, offset, length } => {
                return files.read(path, *offset, *length).map(DiskAnswer::Bytes);
            }
            DiskOperation::List { path } => return Ok(DiskAnswer::Files(files.list(path))),
        };
        done.map(|()| DiskAnswer::Done)
    }

    /// Whether the operation is the one that was chosen to fail. A sync that fails loses something.
    fn fails(&mut self, operation: &DiskOperation) -> bool {
        let action = match operation {
            DiskOperation::Read { .. } | DiskOperation::List { .. } => DiskAction::Read,
            DiskOperation::Write { .. } | DiskOperation::Reserve { .. } => DiskAction::Write,
            DiskOperation::Sync { .. } | DiskOperation::SyncDirectory { .. } => DiskAction::Sync,
            _ => return false,
        };
        let path = path_of(operation);
        if !self.failing.is_some_and(|(kind, under)| kind == action && path.starts_with(under)) {
            return false;
        }
        self.failing = None;
        if let DiskOperation::Sync { path } = operation {
            self.files.fail_sync(path, &mut self.prng);
        }
        true
    }

    /// The process has ended. What it had begun may have been carried out.
    pub(super) fn process_ends(&mut self) {
        for lane in std::mem::take(&mut self.lanes).into_values() {
            let request = lane.requests.front().expect("idle lanes are forgotten");
            let Some(operation) = request.operations.get(lane.answers.len()) else { continue };
            match self.prng.below(3) {
                0 => {}
                1 => {
                    let _unanswered = self.carry_out(operation, lane.mark);
                }
                _ => {
                    if let DiskOperation::Write { path, offset, bytes } = operation {
                        let kept = self.prng.index(bytes.len() + 1);
                        let (path, offset, bytes) = (path.clone(), *offset, bytes[..kept].to_vec());
                        let part = DiskOperation::Write { path, offset, bytes };
                        let _unanswered = self.carry_out(&part, lane.mark);
                    }
                }
            }
        }
    }

    /// The host loses its power: the process has ended, and what is not durable is in doubt.
    pub(super) fn power_loss(&mut self) {
        let lost = self.files.power_loss(&mut self.prng);
        let counts = [
            ("power losses", 1),
            ("power loss: writes lost", lost.writes_lost),
            ("power loss: writes torn", lost.writes_torn),
            ("power loss: writes kept though not synced", lost.writes_kept),
            ("power loss: names undone", lost.names_undone),
        ];
        for (what, count) in counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// The disk is replaced by an empty one.
    pub(super) fn wipe(&mut self) {
        self.files = Files::default();
        self.heal();
        *self.counts.entry("disks wiped").or_default() += 1;
    }

    /// Ends all faults but damage.
    pub(super) fn heal(&mut self) {
        self.slowness = 1;
        self.stuck_until = Instant::ZERO;
        self.capacity = u64::MAX;
        self.failing = None;
    }

    /// Operations take so many times as long.
    pub(super) fn slow(&mut self, factor: u64) {
        self.slowness = factor.max(1);
    }

    /// No sync that begins now ends before then.
    pub(super) fn stick(&mut self, until: Instant) {
        self.stuck_until = until;
    }

    /// Files can grow by so many bytes, all together; without limit for `None`.
    pub(super) fn limit_space(&mut self, bytes: Option<u64>) {
        self.capacity = bytes.map_or(u64::MAX, |bytes| self.files.used() + bytes);
    }

    /// The next operation of a kind on a path that begins so fails.
    pub(super) fn fail_next(&mut self, action: DiskAction, under: &'static str) {
        self.failing = Some((action, under));
    }

    /// Damages one of the files whose paths begin so; which, if there was something to damage.
    pub(super) fn damage(&mut self, damage: Damage, under: &str) -> Option<String> {
        let path = self.some_path(under)?;
        let done = self.files.damage(&path, damage, usize::MAX, &mut self.prng);
        done.then_some(path)
    }

    /// Damages the control log; whether there was something to damage. Its last record stays as it
    /// is: damage there looks like the end of a write that was torn, which was promised to nobody.
    pub(super) fn damage_log(&mut self, damage: Damage) -> Option<String> {
        let path = self.some_path(CONTROL_LOG)?;
        let bytes = self.files.read(&path, 0, u64::MAX).ok()?;
        let below = match journal::frames(&bytes).map(|(offset, _)| offset).last()? {
            // A log is nothing without its first record.
            0 => bytes.len(),
            last => last,
        };
        let done = self.files.damage(&path, damage, below, &mut self.prng);
        done.then_some(path)
    }

    /// A file of the control log is gone; which, if there was one.
    pub(super) fn lose_log(&mut self) -> Option<String> {
        let path = self.some_path(CONTROL_LOG)?;
        self.files.lose(&path);
        Some(path)
    }

    fn some_path(&mut self, under: &str) -> Option<String> {
        let paths: Vec<&str> = self.files.paths().filter(|path| path.starts_with(under)).collect();
        (!paths.is_empty()).then(|| paths[self.prng.index(paths.len())].to_string())
    }

    /// Whether a file is not what was written, or an operation is about to fail.
    pub(super) fn is_sound(&self) -> bool {
        !self.files.is_damaged() && self.failing.is_none()
    }

    /// Whether something was written that is not durable.
    pub(super) fn has_unsynced(&self) -> bool {
        self.files.has_unsynced()
    }

    /// Whether it answers late, or refuses to take more.
    pub(super) fn is_troubled(&self, now: Instant) -> bool {
        self.slowness > 1 || self.stuck_until > now || self.capacity != u64::MAX
    }

    /// Files with their lengths, for reports.
    pub(super) fn describe(&self) -> Vec<String> {
        let mut directories: Vec<&str> =
            self.files.paths().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
        directories.dedup();
        let line = |directory: &&str| {
            let files = self.files.list(directory);
            let files: Vec<String> =
                files.iter().map(|(name, len)| format!("{name} {len}")).collect();
            format!("  {directory}: {}", files.join(", "))
        };
        directories.iter().map(line).collect()
    }

    /// Takes the counts of what has happened.
    pub(super) fn take_counts(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.counts)
    }
}

/// The path an operation is about.
fn path_of(operation: &DiskOperation) -> &str {
    match operation {
        DiskOperation::CreateDirectory { path }
        | DiskOperation::Write { path, .. }
        | DiskOperation::Reserve { path, .. }
        | DiskOperation::Sync { path }
        | DiskOperation::SyncDirectory { path }
        | DiskOperation::Remove { path }
        | DiskOperation::Read { path, .. }
        | DiskOperation::List { path } => path,
        DiskOperation::Rename { from, .. } => from,
    }
}

fn failure_text(operation: &DiskOperation, kind: DiskErrorKind) -> String {
    let what = match operation {
        DiskOperation::CreateDirectory { .. } => "making the directory",
        DiskOperation::Write { .. } => "writing",
        DiskOperation::Reserve { .. } => "reserving space for",
        DiskOperation::Sync { .. } => "syncing",
        DiskOperation::SyncDirectory { .. } => "syncing the directory",
        DiskOperation::Rename { .. } => "renaming",
        DiskOperation::Remove { .. } => "removing",
        DiskOperation::Read { .. } => "reading",
        DiskOperation::List { .. } => "listing",
    };
    let why = match kind {
        DiskErrorKind::Full => "no space left on device",
        DiskErrorKind::Missing => "no such file or directory",
        DiskErrorKind::Failed => "input/output error",
    };
    format!("{what} {}: {why}", path_of(operation))
}

#[cfg(test)]
mod tests;
