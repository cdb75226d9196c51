//! Workers with a disk: what is written, what a crash leaves of it, and what is read back.

use std::collections::BTreeSet;

use actor::{DiskAnswer, DiskError, DiskErrorKind, DiskOperation, DiskRequest};
use model::ClusterId;
use wire::{ControlMessage, EpochMessage, WorkerDisk};

use super::*;

/// A file, as it is and as it survives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    synced: Vec<u8>,
}

/// A disk in memory: requests wait until they are carried out, a crash loses what is not synced.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeDisk {
    /// Files by number, names that are used and names that survive a crash.
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    waiting: VecDeque<DiskRequest>,
    /// No space for anything more.
    pub(super) full: bool,
    /// Requests are not carried out.
    pub(super) stuck: bool,
    pub(super) sync_count: u64,
}

type Answered = Result<Vec<DiskAnswer>, DiskError>;

impl FakeDisk {
    pub(super) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    pub(super) fn file(&mut self, name: &str) -> &mut File {
        &mut self.files[self.names[name]]
    }

    /// Damages a file for good.
    pub(super) fn change(&mut self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let file = self.file(name);
        change(&mut file.bytes);
        change(&mut file.synced);
    }

    /// The power goes. Of what was written and not synced, `keep` says how much is there.
    fn crash(&mut self, mut keep: impl FnMut(usize) -> usize) {
        self.waiting.clear();
        self.names = self.durable_names.clone();
        for file in &mut self.files {
            if file.bytes.len() > file.synced.len() && file.bytes.starts_with(&file.synced) {
                let more = keep(file.bytes.len() - file.synced.len());
                file.bytes.truncate(file.synced.len() + more);
            } else {
                file.bytes = file.synced.clone();
            }
            file.synced = file.bytes.clone();
        }
    }

    /// No sync since `before` has taken place.
    fn forget_syncs_since(&mut self, before: &Self) {
        self.durable_names = before.durable_names.clone();
        for (at, file) in self.files.iter_mut().enumerate() {
            file.synced = before.files.get(at).map(|file| file.synced.clone()).unwrap_or_default();
        }
    }

    fn make(&mut self, path: &str) -> usize {
        let Self { files, names, .. } = self;
        *names.entry(path.to_owned()).or_insert_with(|| {
            files.push(File::default());
            files.len() - 1
        })
    }

    /// Carries out the first request of a lane.
    fn serve(&mut self, lane: u8) -> Option<(u64, Answered)> {
        let at = self.waiting.iter().position(|request| request.lane == lane)?;
        let DiskRequest { token, operations, .. } = self.waiting.remove(at)?;
        let mut answers = Vec::new();
        for (at, operation) in operations.into_iter().enumerate() {
            let text = format!("{operation:?}").chars().take(80).collect();
            match self.carry_out(operation) {
                Ok(answer) => answers.push(answer),
                Err(kind) => return Some((token, Err(DiskError { at, kind, text }))),
            }
        }
        Some((token, Ok(answers)))
    }

    fn carry_out(&mut self, operation: DiskOperation) -> Result<DiskAnswer, DiskErrorKind> {
        match operation {
            DiskOperation::CreateDirectory { .. } => {}
            DiskOperation::Write { .. } | DiskOperation::Reserve { .. } if self.full => {
                return Err(DiskErrorKind::Full);
            }
            DiskOperation::Write { path, offset, bytes } => {
                let file = self.make(&path);
                let file = &mut self.files[file].bytes;
                let end = offset as usize + bytes.len();
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(&bytes);
            }
            DiskOperation::Reserve { path, .. } => {
                self.make(&path);
            }
            DiskOperation::Sync { path } => {
                self.sync_count += 1;
                let file = self.file(&path);
                file.synced = file.bytes.clone();
            }
            DiskOperation::SyncDirectory { path } => {
                let inside = |name: &String| !path.is_empty() && name.starts_with(&path);
                self.durable_names.retain(|name, _| !inside(name));
                let names = self.names.iter().filter(|(name, _)| inside(name));
                self.durable_names.extend(names.map(|(name, file)| (name.clone(), *file)));
            }
            DiskOperation::Rename { from, to } => {
                let file = self.names.remove(&from).ok_or(DiskErrorKind::Missing)?;
                self.names.insert(to, file);
            }
            DiskOperation::Remove { path } => {
                self.names.remove(&path);
            }
            DiskOperation::Read { path, offset, length } => {
                let file = *self.names.get(&path).ok_or(DiskErrorKind::Missing)?;
                let bytes = &self.files[file].bytes;
                let from = bytes.len().min(offset as usize);
                let to = bytes.len().min((offset + length) as usize);
                return Ok(DiskAnswer::Bytes(bytes[from..to].to_vec()));
            }
            DiskOperation::List { path } => {
                let file = |(name, file): (&String, &usize)| {
                    let name = name.strip_prefix(&path)?.strip_prefix('/')?.to_owned();
                    Some((name, self.files[*file].bytes.len() as u64))
                };
                return Ok(DiskAnswer::Files(self.names.iter().filter_map(file).collect()));
            }
        }
        Ok(DiskAnswer::Done)
    }
}

const DRIVER: Address = Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Epochs };
const CONTROL: Address = Address { actor: ActorKind::Control, ..DRIVER };
const CLUSTER: ClusterId = ClusterId(0xC1);

/// A cluster whose nodes have disks.
pub(super) struct Disks {
    pub(super) world: World,
    pub(super) disks: BTreeMap<u16, FakeDisk>,
    pub(super) config: Config,
    /// What workers have said they could restore.
    pub(super) stored: Vec<Option<(ClusterId, Epoch)>>,
    /// The same, with all that they have said.
    found: Vec<WorkerDisk>,
    pub(super) restored: usize,
    pub(super) saved: Vec<Epoch>,
    next_transaction: u32,
    incarnation: u64,
    /// Probes of earlier lives.
    probes: BTreeMap<&'static str, u64>,
}

fn small(config: &mut Config) {
    config.disk = true;
    config.redo_segment = 2_000;
    config.checkpoint_speed = (100 << 20, 200 << 20);
}

impl Disks {
    pub(super) fn new(nodes: u16, adjust: impl Fn(&mut Config)) -> Self {
        let adjust = |config: &mut Config| {
            small(config);
            adjust(config);
        };
        let mut world = World::with(nodes, adjust);
        world.cluster = Arc::new(ClusterState { id: CLUSTER, ..(*world.cluster).clone() });
        let config = (*world.nodes[&1].shared.config).clone();
        let mut disks = Self {
            world,
            disks: (1..=nodes).map(|node| (node, FakeDisk::default())).collect(),
            config,
            stored: vec![],
            found: vec![],
            restored: 0,
            saved: vec![],
            next_transaction: 1,
            incarnation: 1,
            probes: BTreeMap::new(),
        };
        for node in 1..=nodes {
            disks.begin(node, Epoch(0));
        }
        disks
    }

    /// A life of a worker begins: surveys its disk, restores, opens its log.
    fn begin(&mut self, node: u16, through: Epoch) {
        self.survey(node);
        self.restore(node, through);
    }

    pub(super) fn survey(&mut self, node: u16) -> Option<Epoch> {
        self.world.nodes.get_mut(&node).unwrap().shared.cluster = self.world.cluster.clone();
        self.world.turn(node, |participant, ctx| participant.start(ctx));
        self.settle();
        self.stored.pop().expect("the survey is through").map(|(cluster, epoch)| {
            assert_eq!(cluster, CLUSTER);
            epoch
        })
    }

    pub(super) fn restore(&mut self, node: u16, through: Epoch) {
        let before = self.restored;
        let restore = ParticipantMessage::Restore { through };
        self.world.tell(CONTROL, participant(node), Message::Participant(restore));
        self.settle();
        let halt = self.world.nodes[&node].shared.halt.as_ref();
        assert_eq!(self.restored, before + 1, "the restore is through: {halt:?}");
    }

    /// Carries out one request to a disk; false when there is none.
    pub(super) fn serve(&mut self) -> bool {
        for (node, disk) in &mut self.disks {
            let Some(Node { shared, .. }) = self.world.nodes.get_mut(node) else { continue };
            disk.waiting.extend(shared.disk.as_mut().unwrap().drain(..));
            if disk.stuck {
                continue;
            }
            let lane = self.world.prng.below(3) as u8;
            let mut lanes = (0..3).map(|next| (lane + next) % 3);
            if let Some((token, result)) = lanes.find_map(|lane| disk.serve(lane)) {
                let node = *node;
                self.world.turn(node, |participant, ctx| participant.disk(ctx, token, result));
                return true;
            }
        }
        false
    }

    /// Carries messages and disk requests, and lets time pass while someone waits for it.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            let carried = self.world.prng.percent(50) && self.world.carry_any();
            if carried || self.serve() || self.world.carry_any() {
                continue;
            }
            self.note();
            return;
        }
        panic!("work without end");
    }

    /// Lets checkpoints come to their end.
    pub(super) fn pass(&mut self, time: Duration) {
        for _ in 0..20 {
            self.settle();
            self.world.pass(Duration::from_nanos(time.as_nanos() / 20));
        }
        self.settle();
    }

    fn note(&mut self) {
        for message in self.world.take_others() {
            match message {
                Message::Control(message) => match *message {
                    ControlMessage::WorkerStored { found, .. } => {
                        self.stored.push(found.rows);
                        self.found.push(*found);
                    }
                    ControlMessage::WorkerRestored { .. } => self.restored += 1,
                    _ => {}
                },
                Message::Epoch(EpochMessage::Saved { epoch }) => self.saved.push(epoch),
                _ => {}
            }
        }
    }

    pub(super) fn write(&mut self, kinds: Vec<OperationKind>) -> Vec<Answer> {
        self.next_transaction += 1;
        let transaction = txn(self.next_transaction);
        let answers = self.world.execute(transaction, kinds);
        self.world.commit(transaction);
        answers
    }

    /// The present epoch is over and complete.
    pub(super) fn end_epoch(&mut self) -> Epoch {
        let ended = self.world.epoch;
        self.world.next_epoch(&[]);
        ended
    }

    pub(super) fn order_save(&mut self, epoch: Epoch) {
        let nodes: Vec<u16> = self.world.nodes.keys().copied().collect();
        for node in nodes {
            let save = ParticipantMessage::Save { epoch };
            self.world.tell(DRIVER, participant(node), Message::Participant(save));
        }
    }

    pub(super) fn order_durable(&mut self, epoch: Epoch) {
        let nodes: Vec<u16> = self.world.nodes.keys().copied().collect();
        for node in nodes {
            let durable = ParticipantMessage::Durable { epoch, waited: true };
            self.world.tell(DRIVER, participant(node), Message::Participant(durable));
        }
    }

    /// Ends the present epoch and makes it durable.
    pub(super) fn save(&mut self) -> Epoch {
        let epoch = self.end_epoch();
        self.order_save(epoch);
        self.settle();
        let saved = std::mem::take(&mut self.saved);
        assert_eq!(saved, vec![epoch; self.world.nodes.len()]);
        self.order_durable(epoch);
        self.settle();
        epoch
    }

    /// All nodes lose their power, and come back as members with this status.
    pub(super) fn crash(&mut self, status: MemberStatus) {
        let mut prng = self.world.prng.fork();
        for disk in self.disks.values_mut() {
            disk.crash(|unsynced| prng.below(unsynced as u64 + 1) as usize);
        }
        self.kill(status);
    }

    /// The processes of all nodes end, and come back as members with this status.
    fn kill(&mut self, status: MemberStatus) {
        self.note_probes();
        self.disks.values_mut().for_each(|disk| disk.waiting.clear());
        self.world.links.clear();
        self.world.others.clear();
        self.saved.clear();
        self.incarnation += 1;
        let incarnation = self.incarnation;
        let mut cluster = (*self.world.cluster).clone();
        cluster.index = ControlIndex(cluster.index.0 + 1);
        for member in cluster.members.values_mut() {
            member.incarnation = Incarnation(incarnation);
            member.status = status;
        }
        self.world.cluster = Arc::new(cluster);
        let nodes: Vec<u16> = self.world.nodes.keys().copied().collect();
        for node in nodes {
            self.world.start(node, incarnation, self.config.clone());
        }
    }

    fn note_probes(&mut self) {
        for node in self.world.nodes.values() {
            for (name, count) in node.shared.probes.counts() {
                *self.probes.entry(name).or_default() += count;
            }
        }
    }

    /// All nodes are complete, in a new generation that begins behind `through`.
    pub(super) fn go_on(&mut self, through: Epoch) {
        self.world.change(|state| {
            state.restarts.push(through);
            state.members.values_mut().for_each(|member| member.status = MemberStatus::Active);
        });
        let generation = self.world.cluster.restarts.len() as u32;
        self.world.epoch = Epoch::start_of(generation);
        self.world.next_epoch(&[]);
    }

    /// A restart of everything that restores all that was saved.
    pub(super) fn restart(&mut self) -> Option<Epoch> {
        self.crash(MemberStatus::Restoring);
        let nodes: Vec<u16> = self.world.nodes.keys().copied().collect();
        let saved: Vec<Option<Epoch>> = nodes.iter().map(|node| self.survey(*node)).collect();
        let through = saved.iter().copied().min().flatten();
        for node in nodes {
            self.restore(node, through.unwrap_or_default());
        }
        self.go_on(through.unwrap_or_default());
        through
    }

    pub(super) fn probe(&self, name: &str) -> u64 {
        let of_node = |node: &Node| {
            let counts = node.shared.probes.counts().find(|(probe, _)| *probe == name);
            counts.map_or(0, |(_, count)| count)
        };
        self.world.nodes.values().map(of_node).sum()
    }

    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.disks[&1].names().into_iter();
        names.filter(|name| name.starts_with(&format!("worker-0/{prefix}"))).collect()
    }

    fn halted(&self) -> Option<String> {
        self.world.nodes[&1].shared.halt.as_ref().map(|halt| halt.to_string())
    }
}

#[test]
fn what_is_saved_survives() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 10), insert(2, 20), insert(3, 30)]);
    disks.write(vec![add(1, 5), delete(3)]);
    let saved = disks.save();
    disks.write(vec![insert(4, 40), add(2, 1)]);
    assert_eq!(disks.restart(), Some(saved));
    assert_eq!(disks.world.rows(1), [(1, 15), (2, 20)], "and nothing more does");
    disks.write(vec![insert(3, 33), add(1, 1)]);
    let again = disks.save();
    assert!(again > saved);
    assert_eq!(disks.restart(), Some(again));
    assert_eq!(disks.world.rows(1), [(1, 16), (2, 20), (3, 33)]);
    disks.settle();
    disks.world.check_quiet();
}

#[test]
fn it_is_told_for_how_long_changes_have_not_been_on_all_disks() {
    let mut disks = Disks::new(1, |_| {});
    let exposed = |disks: &Disks| {
        let Node { participant, shared } = &disks.world.nodes[&1];
        let mut figures = Figures::default();
        participant.figures(shared, &mut figures);
        let rows = figures.rows();
        rows.iter().find(|(name, ..)| name == "nines_undurable_seconds").expect("it is told").2
    };
    let second = Duration::from_secs(1);
    disks.save();
    disks.pass(second);
    assert_eq!(exposed(&disks), 0, "nobody has changed anything");
    disks.write(vec![insert(1, 10)]);
    disks.pass(second);
    assert_eq!(exposed(&disks), second.as_nanos());
    disks.save();
    assert_eq!(exposed(&disks), 0);
    disks.pass(second.times(100));
    assert_eq!(exposed(&disks), 0, "however long nobody writes");
    // What comes while a save is under way counts from the end of that on.
    disks.write(vec![insert(2, 20)]);
    let epoch = disks.end_epoch();
    disks.write(vec![insert(3, 30)]);
    disks.pass(second);
    disks.order_save(epoch);
    disks.settle();
    disks.order_durable(epoch);
    disks.pass(second);
    assert_eq!(exposed(&disks), second.as_nanos());
}

#[test]
fn a_restart_tells_how_far_it_is() {
    let mut disks = Disks::new(1, |config| config.scan_step_rows = 7);
    for key in 0..50 {
        disks.write((0..10).map(|row| insert(key * 10 + row, row)).collect());
    }
    let saved = disks.save();
    let progress = |disks: &Disks| disks.world.nodes[&1].participant.restore_progress();
    assert_eq!(progress(&disks), None, "nothing is restored");
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(saved));
    let mut last = progress(&disks).expect("it waits to be told what to restore");
    assert!(last.check.total > 10_000 && last.check.done == last.check.total, "{last:?}");
    assert_eq!((last.read.total, last.index.total, last.rows), (0, 0, 0));
    let restore = ParticipantMessage::Restore { through: saved };
    disks.world.tell(CONTROL, participant(1), Message::Participant(restore));
    let mut steps = 0;
    while disks.serve() || disks.world.carry_any() {
        let Some(now) = progress(&disks) else { continue };
        for (before, now) in [(last.read, now.read), (last.index, now.index)] {
            assert!(before.done <= now.done && now.done <= now.total, "{last:?}, {now:?}");
        }
        steps += u32::from(now.index.done > last.index.done);
        last = now;
    }
    assert!(steps > 100, "{steps} steps that indexes were built in");
    assert_eq!((last.read.done, last.rows), (last.read.total, 500));
    assert_eq!(progress(&disks), None, "it is over");
    let mut sum = last;
    sum.add(&last);
    assert_eq!((sum.rows, sum.index.total), (1_000, 2 * last.index.total));
    sum.complete();
    assert_eq!(sum.index.done, sum.index.total);
}

#[test]
fn without_a_save_nothing_is_there() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 10)]);
    assert_eq!(disks.restart(), Some(Epoch(0)));
    assert_eq!(disks.world.rows(1), []);
    let saved = disks.save();
    assert_eq!(disks.restart(), Some(saved), "an empty worker has something to save too");
}

#[test]
fn commits_share_requests() {
    let mut disks = Disks::new(1, |config| config.redo_segment = 1 << 20);
    let before = disks.disks[&1].sync_count;
    for n in 0..500 {
        disks.write(vec![insert(n, n)]);
        assert!(disks.disks[&1].waiting.is_empty());
    }
    assert_eq!(disks.disks[&1].sync_count, before, "no request for a commit");
    disks.save();
    assert!(disks.disks[&1].sync_count <= before + 2);
}

#[test]
fn a_large_commit_is_written_in_several_requests_and_saved_by_the_last() {
    let mut disks = Disks::new(1, |config| config.redo_segment = 64 << 10);
    disks.disks.get_mut(&1).unwrap().stuck = true;
    disks.write((0..100).map(|n| insert(n, n)).collect());
    let epoch = disks.end_epoch();
    disks.order_save(epoch);
    disks.settle();
    disks.disks.get_mut(&1).unwrap().stuck = false;
    let mut sizes = Vec::new();
    while disks.serve() || disks.world.carry_any() {
        let asked = disks.world.nodes[&1].shared.disk.iter().flatten();
        for DiskRequest { operations, .. } in asked {
            let bytes = |operation: &DiskOperation| match operation {
                DiskOperation::Write { bytes, .. } => bytes.len(),
                _ => 0,
            };
            sizes.push(operations.iter().map(bytes).sum::<usize>());
        }
    }
    assert!(sizes.iter().all(|size| *size < 2 << 10), "{sizes:?}");
    assert!(sizes.iter().filter(|size| **size >= 1 << 10).count() > 1, "{sizes:?}");
    disks.note();
    assert_eq!(disks.saved, [epoch]);
    assert_eq!(disks.restart(), Some(epoch));
    assert_eq!(disks.world.rows(1).len(), 100);
}

#[test]
fn segments_go_when_checkpoints_replace_them() {
    let mut disks = Disks::new(1, |_| {});
    for round in 0..60 {
        disks.write((0..20).map(|n| upsert(n, round)).collect());
        disks.save();
        disks.pass(Duration::from_millis(100));
    }
    assert!(disks.probe("checkpoint: counts from now on") > 2);
    assert!(disks.probe("disk: segments of the log removed") > 2);
    assert!(disks.names("redo").len() < 16, "{:?}", disks.names("redo"));
    assert!(disks.names("checkpoint").len() < 6, "{:?}", disks.names("checkpoint"));
    let before = disks.world.digests();
    assert!(disks.restart().is_some());
    assert_eq!(disks.world.digests(), before);
}

#[test]
fn a_fence_keeps_lost_epochs_away() {
    let mut disks = Disks::new(1, |config| config.redo_segment = 1 << 20);
    disks.write(vec![insert(1, 1)]);
    let first = disks.save();
    disks.write(vec![add(1, 100), insert(2, 2)]);
    let second = disks.end_epoch();
    disks.order_save(second);
    disks.settle();
    // Another node group has only the first epoch: the second is lost, though this disk has it.
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(second));
    disks.restore(1, first);
    disks.go_on(first);
    assert_eq!(disks.world.rows(1), [(1, 1)]);
    disks.write(vec![add(1, 10)]);
    let third = disks.save();
    // Twice: the fence of the first restart must hold in the second one too.
    for _ in 0..2 {
        assert_eq!(disks.restart(), Some(third));
        assert_eq!(disks.world.rows(1), [(1, 11)]);
    }
    disks.write(vec![insert(2, 22)]);
    assert!(disks.restart() >= Some(third), "not saved");
    assert_eq!(disks.world.rows(1), [(1, 11)]);
}

#[test]
fn a_restart_behind_earlier_lives_does_not_keep_later_ones_from_being_restored() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1)]);
    let first = disks.save();
    // Two more lives go on from the newest epoch there is; both are lost by order.
    for value in [10, 100] {
        disks.write(vec![add(1, value)]);
        disks.save();
        disks.restart().expect("everything was saved");
    }
    disks.crash(MemberStatus::Restoring);
    assert!(disks.survey(1) > Some(first));
    disks.restore(1, first);
    disks.go_on(first);
    assert_eq!(disks.world.rows(1), [(1, 1)]);
    for value in [1_000, 10_000] {
        disks.write(vec![add(1, value)]);
        let saved = disks.save();
        assert_eq!(disks.restart(), Some(saved), "what is durable can be restored");
    }
    assert_eq!(disks.world.rows(1), [(1, 11_001)]);
}

#[test]
fn damage_behind_a_restored_epoch_does_not_keep_later_lives_from_being_restored() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1)]);
    let mut last = disks.save();
    for round in 0..6 {
        disks.write((10..30).map(|n| upsert(n, round)).collect());
        last = disks.save();
    }
    let log = disks.names("redo");
    assert!(log.len() > 3, "{log:?}");
    disks.disks.get_mut(&1).unwrap().change(&log[0], |bytes| {
        let at = bytes.len() - 10;
        bytes[at] ^= 1;
    });
    disks.crash(MemberStatus::Restoring);
    let restored = disks.survey(1).expect("the log begins with sound records");
    assert!(Epoch(0) < restored && restored < last, "{restored} of {last}");
    // The power goes again before the segments behind the damage are removed for good.
    let before = disks.disks[&1].clone();
    disks.restore(1, restored);
    disks.go_on(restored);
    disks.write(vec![add(1, 10)]);
    let saved = disks.end_epoch();
    disks.order_save(saved);
    disks.settle();
    disks.order_durable(saved);
    for (name, file) in before.names {
        disks.disks.get_mut(&1).unwrap().durable_names.entry(name).or_insert(file);
    }
    disks.crash(MemberStatus::Restoring);
    assert!(log.iter().all(|name| disks.names("redo").contains(name)), "they are back");
    assert_eq!(disks.survey(1), Some(saved), "what is durable can be restored");
    disks.restore(1, saved);
    disks.go_on(saved);
    assert_eq!(disks.world.rows(1).first(), Some(&(1, 11)));
    assert_eq!(disks.restart(), Some(saved));
}

#[test]
fn a_life_that_saved_nothing_leaves_the_one_before() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1)]);
    let saved = disks.save();
    assert_eq!(disks.restart(), Some(saved));
    disks.write(vec![insert(2, 2)]);
    for _ in 0..3 {
        assert_eq!(disks.restart(), Some(saved));
        assert_eq!(disks.world.rows(1), [(1, 1)]);
    }
}

#[test]
fn rows_of_another_cluster_are_not_restored() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1)]);
    let saved = disks.save();
    disks.crash(MemberStatus::Joining);
    assert_eq!(disks.survey(1), Some(saved));
    disks.world.cluster =
        Arc::new(ClusterState { id: ClusterId(0xC2), ..(*disks.world.cluster).clone() });
    disks.world.nodes.get_mut(&1).unwrap().shared.cluster = disks.world.cluster.clone();
    disks.restore(1, saved);
    assert_eq!(disks.world.rows(1), []);
    assert_eq!(disks.names("redo").len(), 2, "the new segment and space for the next");
}

#[test]
fn the_full_disk_refuses_writes_until_there_is_space() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1), insert(2, 2)]);
    disks.save();
    let open = txn(9_000);
    assert!(disks.world.execute(open, vec![add(2, 5)])[0].is_ok());
    disks.disks.get_mut(&1).unwrap().full = true;
    // The space set aside is used up sooner or later.
    let mut refused = None;
    for n in 10..60 {
        let answers = disks.write(vec![insert(n, n)]);
        disks.settle();
        if let Err(code) = answers[0] {
            refused = Some((n, code));
            break;
        }
    }
    let (refused, code) = refused.expect("the disk is full");
    assert_eq!(code, ErrorCode::DiskFull);
    assert!(disks.world.nodes[&1].participant.describe()[0].contains("full"));
    disks.world.commit(open);
    let read = disks.write(vec![read(1, LockMode::Shared, WaitPolicy::Wait)]);
    assert!(read[0].is_ok(), "reads go on");
    let epoch = disks.end_epoch();
    disks.order_save(epoch);
    disks.settle();
    disks.disks.get_mut(&1).unwrap().full = false;
    disks.pass(Duration::from_millis(4_000));
    assert_eq!(std::mem::take(&mut disks.saved), [epoch], "saved when there was space again");
    assert!(disks.write(vec![insert(refused, 1)])[0].is_ok(), "and writes go on by themselves");
    let saved = disks.save();
    let rows = disks.world.rows(1);
    assert!(rows.contains(&(2, 7)), "what was prepared has committed");
    assert_eq!(disks.restart(), Some(saved));
    assert_eq!(disks.world.rows(1), rows);
}

#[test]
fn changes_wait_for_a_slow_disk() {
    for nodes in [1, 2] {
        let mut disks = Disks::new(nodes, |config| {
            config.redo_buffer = 600;
            config.redo_segment = 1 << 20;
        });
        // The last replica of the chain is the slow one.
        disks.disks.get_mut(&nodes).unwrap().stuck = true;
        for n in 0..20 {
            disks.world.prepare(txn(100 + n), vec![operation(1, insert(i64::from(n), 1))]);
            disks.settle();
            if disks.world.answered(txn(100 + n), 1) {
                disks.world.commit(txn(100 + n));
            }
        }
        let answered = (0..20).filter(|n| disks.world.answered(txn(100 + n), 1)).count();
        assert!((1..19).contains(&answered), "{answered} of 20");
        // One is given up meanwhile, and its change must not come back.
        assert!(!disks.world.answered(txn(119), 1));
        disks.world.abort(txn(119));
        disks.disks.get_mut(&nodes).unwrap().stuck = false;
        let epoch = disks.end_epoch();
        disks.order_save(epoch);
        disks.settle();
        for n in answered as u32..19 {
            assert!(disks.world.answer(txn(100 + n), 1).is_ok());
            disks.world.commit(txn(100 + n));
        }
        disks.settle();
        assert_eq!(disks.world.rows(1).len(), 19);
        disks.world.check_quiet();
    }
}

#[test]
fn a_failed_disk_ends_the_node() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 1)]);
    let epoch = disks.end_epoch();
    disks.order_save(epoch);
    while disks.world.carry_any() {}
    let request = disks.world.nodes.get_mut(&1).unwrap().shared.disk.as_mut().unwrap();
    let token = request.pop_front().unwrap().token;
    let text = "sync of worker-0/redo-1: input/output error".to_owned();
    let failed = Err(DiskError { at: 1, kind: DiskErrorKind::Failed, text });
    disks.world.turn(1, |participant, ctx| participant.disk(ctx, token, failed));
    assert!(disks.halted().unwrap().contains("input/output error"));
    disks.note();
    assert_eq!(disks.saved, []);
}

#[test]
fn a_worker_that_is_not_complete_saves_nothing() {
    let mut disks = Disks::new(1, |_| {});
    disks.world.change(|state| {
        state.members.get_mut(&NodeId(1)).unwrap().status = MemberStatus::Joining;
    });
    let epoch = disks.end_epoch();
    disks.order_save(epoch);
    disks.settle();
    assert_eq!(disks.saved, []);
    disks.world.change(|state| {
        state.members.get_mut(&NodeId(1)).unwrap().status = MemberStatus::Active;
    });
    disks.settle();
    assert_eq!(disks.saved, [epoch], "answered when it is complete");
}

#[test]
fn a_life_that_ends_before_its_first_save_has_lost_nothing() {
    let mut disks = Disks::new(1, |_| {});
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(Epoch(0)));
    disks.restore(1, Epoch(0));
    disks.go_on(Epoch(0));
    disks.write(vec![insert(1, 1)]);
    let saved = disks.save();
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(saved));
}

#[test]
fn what_a_killed_life_had_not_synced_is_synced_before_it_counts() {
    let mut disks = Disks::new(1, |_| {});
    disks.write(vec![insert(1, 10)]);
    disks.save();
    let before = disks.disks[&1].clone();
    disks.write(vec![insert(2, 20)]);
    let saved = disks.save();
    disks.kill(MemberStatus::Restoring);
    disks.disks.get_mut(&1).unwrap().forget_syncs_since(&before);
    assert_eq!(disks.survey(1), Some(saved));
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(saved), "others may have gone on from there");
}

#[test]
fn a_copied_node_recovers_alone() {
    let mut disks = Disks::new(2, |_| {});
    disks.write(vec![insert(1, 1), insert(2, 2), insert(3, 3)]);
    let first = disks.save();
    // Node 2 dies, the other goes on.
    disks.world.coordinator = coordinator(1);
    disks.world.kill(2);
    disks.write(vec![delete(2), add(1, 10)]);
    disks.write(vec![insert(4, 4), insert(5, 5), delete(3)]);
    disks.save();
    let mut lost = disks.disks.remove(&2).unwrap();
    lost.crash(|_| 0);
    disks.disks.insert(2, lost);
    disks.world.start(2, 2, disks.config.clone());
    let saved = disks.survey(2);
    assert_eq!(saved, Some(first));
    let member = disks.world.cluster.members[&NodeId(1)].clone();
    disks.world.change(|state| {
        let joined = Member { incarnation: Incarnation(2), ..member };
        let status = MemberStatus::Joining;
        state.members.insert(NodeId(2), Member { status, ..joined });
    });
    disks.restore(2, first);
    assert_eq!(disks.world.rows(2), [(1, 1), (2, 2), (3, 3)]);
    let unsaved = disks.world.epoch;
    disks.write(vec![insert(6, 6)]);
    disks.world.sync(2);
    disks.settle();
    disks.write(vec![insert(7, 7)]);
    disks.world.activate(2);
    disks.settle();
    disks.world.check_quiet();
    // An epoch from before the copy is complete is saved when a later one is.
    disks.order_save(Epoch(unsaved.0 - 1));
    disks.settle();
    assert_eq!(std::mem::take(&mut disks.saved).len(), 1, "only node 1");
    disks.end_epoch();
    disks.pass(Duration::from_millis(100));
    assert_eq!(disks.saved.len(), 1, "node 2");
    disks.saved.clear();
    let rows = disks.world.rows(1);
    // What was copied counts from the moment on that everybody has it.
    let epoch = disks.end_epoch();
    disks.order_save(epoch);
    disks.settle();
    let mut early = disks.disks[&2].clone();
    early.crash(|_| 0);
    disks.saved.clear();
    disks.order_durable(epoch);
    disks.save();
    disks.disks.get_mut(&2).unwrap().waiting.clear();
    disks.crash(MemberStatus::Restoring);
    assert!(disks.survey(2) > Some(epoch));
    disks.restore(2, epoch);
    assert_eq!(disks.world.rows(2), rows);
    disks.disks.insert(2, early);
    disks.world.start(2, disks.incarnation, disks.config.clone());
    assert_eq!(disks.survey(2), Some(first));
}

#[test]
fn what_overtakes_a_copy_survives() {
    let mut disks = Disks::new(2, |_| {});
    disks.write((0..8).map(|id| insert(id, id)).collect());
    disks.save();
    for node in [4, 3] {
        disks.disks.insert(node, FakeDisk::default());
        disks.world.start(node, 1, disks.config.clone());
        let member = disks.world.cluster.members[&NodeId(1)].clone();
        disks.world.change(|state| {
            let joining = Member { status: MemberStatus::Joining, ..member };
            state.members.insert(NodeId(node), joining);
        });
        disks.begin(node, Epoch(0));
    }
    disks.world.sync(4);
    disks.world.sync(3);
    // Node 4 is behind node 3 in the chain: it hears of changes before the copied rows come in.
    let asks = (participant(4), participant(1));
    while disks.world.carry(asks) {}
    let copied = (participant(1), participant(4));
    let held = disks.world.links.remove(&copied).expect("rows on their way");
    disks.write(vec![add(1, 100), delete(2), insert(20, 0)]);
    disks.write(vec![insert(21, 0), insert(22, 0)]);
    disks.world.links.insert(copied, held);
    disks.settle();
    disks.world.activate(3);
    disks.world.activate(4);
    disks.settle();
    let rows = disks.world.rows(1);
    assert_eq!(disks.world.rows(4), rows);
    disks.save();
    // What was copied counts once an epoch behind the copy is durable.
    let epoch = disks.save();
    disks.crash(MemberStatus::Restoring);
    assert!(disks.survey(4) >= Some(epoch));
    disks.restore(4, epoch);
    assert_eq!(disks.world.rows(4), rows);
}

#[test]
fn a_restart_can_break_off_at_any_step() {
    let mut disks = Disks::new(1, |_| {});
    for round in 0..30 {
        disks.write((0..10).map(|n| upsert(n, round)).collect());
        disks.save();
        disks.pass(Duration::from_millis(50));
    }
    let rows = disks.world.rows(1);
    let saved = Epoch(disks.world.epoch.0 - 1);
    let mut finished = false;
    for steps in 0..500 {
        disks.crash(MemberStatus::Restoring);
        disks.world.turn(1, |participant, ctx| participant.start(ctx));
        let mut told = false;
        for _ in 0..steps {
            if !disks.serve() && !disks.world.carry_any() && !told {
                told = true;
                let restore = ParticipantMessage::Restore { through: saved };
                disks.world.tell(CONTROL, participant(1), Message::Participant(restore));
            }
        }
        disks.note();
        if let Some(found) = disks.stored.pop() {
            assert_eq!(found, Some((CLUSTER, saved)), "after {steps} steps");
        }
        finished |= disks.restored > 1;
    }
    assert!(finished, "500 steps are more than a restart");
    assert_eq!(disks.restart(), Some(saved));
    assert_eq!(disks.world.rows(1), rows);
}

/// A worker with checkpoints and some log behind them; its rows.
fn with_checkpoints() -> (Disks, Epoch, Vec<(i64, i64)>) {
    let mut disks = Disks::new(1, |config| config.recovery_work = 100);
    for round in 0..14 {
        disks.write((0..20).map(|n| upsert(n, round)).collect());
        disks.save();
        disks.pass(Duration::from_millis(50));
    }
    disks.write(vec![upsert(100, 1), delete(3)]);
    let saved = disks.save();
    let rows = disks.world.rows(1);
    (disks, saved, rows)
}

#[test]
fn a_damaged_file_is_not_used() {
    let (disks, saved, rows) = with_checkpoints();
    let names = disks.disks[&1].names();
    let (mut whole, mut earlier, mut none) = (0, 0, 0);
    for name in &names {
        for share in [0, 30, 70, 99] {
            let mut damaged = Disks { disks: disks.disks.clone(), ..with_checkpoints().0 };
            damaged.disks.get_mut(&1).unwrap().change(name, |bytes| {
                let at = bytes.len() * share / 100;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 0x40;
                }
            });
            damaged.crash(MemberStatus::Joining);
            match damaged.survey(1) {
                Some(epoch) if epoch == saved => {
                    damaged.restore(1, epoch);
                    assert_eq!(damaged.world.rows(1), rows, "{name} {share}");
                    whole += 1;
                }
                Some(epoch) => {
                    assert!(epoch < saved);
                    damaged.restore(1, epoch);
                    earlier += 1;
                }
                None => none += 1,
            }
        }
    }
    assert!(whole > 0 && earlier > 0 && none > 0, "{whole} {earlier} {none} of {names:?}");
}

#[test]
fn the_watermark_knows_what_a_log_has_lost() {
    let cut: fn(&mut Vec<u8>) = |bytes| bytes.truncate(bytes.len() / 2);
    let flip: fn(&mut Vec<u8>) = |bytes| bytes[20] ^= 1;
    let blank: fn(&mut Vec<u8>) = |bytes| bytes.fill(0);
    let none: fn(&mut Vec<u8>) = Vec::clear;
    for damage in [cut, flip, blank, none] {
        let mut disks = Disks::new(1, |_| {});
        let mut saved = Epoch(0);
        for round in 0..5 {
            disks.write((0..20).map(|n| upsert(n, round)).collect());
            saved = disks.save();
        }
        // Somebody is told of the last epoch; no later record of the log says that it was durable.
        let note = ParticipantMessage::Note { epoch: saved };
        disks.world.tell(CONTROL, participant(1), Message::Participant(note));
        disks.settle();
        // The newest segment that has more than a beginning.
        let sound = disks.disks[&1].clone();
        let mut probed = sound.clone();
        let mut len = |name: &String| probed.file(name).bytes.len();
        let names = disks.names("redo");
        let longest = names.iter().map(&mut len).max().expect("there is a log");
        let log = names.iter().rfind(|name| len(name) * 2 >= longest).expect("the longest is");
        disks.disks.get_mut(&1).unwrap().change(log, damage);
        disks.crash(MemberStatus::Restoring);
        let found = disks.survey(1);
        assert!(found < Some(saved), "{log}: {found:?}, saved {saved}");
        let report = disks.found.last().expect("the survey has told").clone();
        assert_eq!(report.durable, Some((CLUSTER, saved)));
        assert!(report.missing);
        let named = report.damages.iter().any(|what| what.starts_with(&format!("{log}: ")));
        assert!(named, "{log}: {:?}", report.damages);
        // Without the watermark the log is enough, if it is whole.
        disks.disks.insert(1, sound);
        disks.disks.get_mut(&1).unwrap().change("worker-0/durable", |bytes| bytes[20] ^= 1);
        disks.disks.get_mut(&1).unwrap().change("worker-0/durable", |bytes| bytes[4_116] ^= 1);
        disks.crash(MemberStatus::Restoring);
        assert_eq!(disks.survey(1), Some(saved));
        let report = disks.found.last().expect("the survey has told").clone();
        assert!(!report.missing);
        assert_eq!(report.damages.len(), 1, "{:?}", report.damages);
        assert!(report.damages[0].starts_with("worker-0/durable: "), "{:?}", report.damages);
    }
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    let mut disks = Disks::new(1, |_| {});
    let mut saved = Epoch(0);
    for round in 0..40 {
        disks.write((0..20).map(|n| upsert(n, round)).collect());
        let epoch = disks.end_epoch();
        disks.order_save(epoch);
        disks.settle();
        // The last checkpoints do not count: nobody has said that their epochs are durable.
        if round < 15 {
            disks.order_durable(epoch);
        }
        disks.pass(Duration::from_millis(50));
        saved = epoch;
    }
    let rows = disks.world.rows(1);
    let checkpoints = disks.names("checkpoint");
    assert!(checkpoints.len() > 2, "{checkpoints:?}");
    for damaged in 1..checkpoints.len() {
        for name in &checkpoints[damaged..] {
            disks.disks.get_mut(&1).unwrap().change(name, |bytes| bytes[100] ^= 1);
        }
        disks.crash(MemberStatus::Restoring);
        assert_eq!(disks.survey(1), Some(saved), "{damaged} of {checkpoints:?}");
        let described = disks.world.nodes[&1].participant.describe();
        assert!(described[0].contains("bytes 86 to"), "{described:?}");
        for name in &checkpoints[damaged..] {
            disks.disks.get_mut(&1).unwrap().change(name, |bytes| bytes[100] ^= 1);
        }
    }
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(saved));
    disks.restore(1, saved);
    assert_eq!(disks.world.rows(1), rows);
}

#[test]
fn what_cannot_be_restored_is_not_relied_upon() {
    let (mut disks, saved, _) = with_checkpoints();
    disks.crash(MemberStatus::Restoring);
    assert_eq!(disks.survey(1), Some(saved));
    for name in disks.names("redo") {
        disks.disks.get_mut(&1).unwrap().change(&name, |bytes| bytes.fill(0));
    }
    let restore = ParticipantMessage::Restore { through: saved };
    disks.world.tell(CONTROL, participant(1), Message::Participant(restore));
    disks.settle();
    assert!(disks.halted().unwrap().contains("the redo log ends"), "{:?}", disks.halted());
}

#[test]
fn dropped_tables_leave_nothing() {
    let (mut disks, _, _) = with_checkpoints();
    assert!(!disks.names("checkpoint").is_empty());
    disks.world.change(|state| state.tables = Default::default());
    disks.save();
    disks.save();
    assert_eq!(disks.names("checkpoint"), Vec::<String>::new());
    let saved = disks.restart();
    assert!(saved.is_some());
    assert_eq!(disks.world.nodes[&1].participant.partitions().count(), 0);
}

#[test]
fn dropping_many_tables_looks_for_the_oldest_segment_once() {
    let mut disks = Disks::new(1, |_| {});
    let tables = || (1..=30).map(|more| TableId(P.table.0 + more));
    disks.world.change(|state| {
        for id in tables() {
            let more = Table { id, name: format!("d.t{}", id.0), ..table() };
            state.tables.insert(id, Arc::new(more));
        }
    });
    for id in tables() {
        disks.next_transaction += 1;
        let transaction = txn(disks.next_transaction);
        let partition = PartitionId { table: id, ..P };
        let insert = Operation { partition, ..operation(1, insert(1, 10)) };
        disks.world.prepare(transaction, vec![insert]);
        disks.world.run();
        disks.world.answer(transaction, 1).expect("a row of each table");
        disks.world.commit(transaction);
    }
    disks.save();
    disks.pass(Duration::from_millis(100));
    let saved = disks.save();
    disks.order_durable(saved);
    disks.settle();
    let looked = "disk: the oldest segment that is needed was looked for";
    let before = disks.probe(looked);
    for _ in 0..10 {
        disks.order_durable(saved);
        disks.settle();
    }
    assert_eq!(disks.probe(looked), before, "nothing has changed");
    disks.world.change(|state| tables().for_each(|id| drop(state.tables.remove(&id))));
    assert_eq!(disks.probe(looked), before + 1, "each table costs the same");
    disks.save();
    disks.save();
    let files: Vec<String> = disks.names("checkpoint");
    let (checkpoints, log) = (files.len(), disks.names("redo").len());
    assert!(checkpoints <= 1 && log <= 3, "{files:?}, {log} segments");
    assert!(disks.restart().is_some());
    assert_eq!(disks.world.nodes[&1].participant.partitions().count(), 1);
}

/// Rows by key at the end of each epoch.
type History = BTreeMap<Epoch, BTreeMap<i64, i64>>;

/// Changes and deletes some rows.
fn random_transaction(
    prng: &mut Prng,
    disks: &mut Disks,
    rows: &mut BTreeMap<i64, i64>,
    keys: u64,
) {
    let mut kinds = Vec::new();
    let mut touched = BTreeSet::new();
    for _ in 0..prng.between(1, 12) {
        let id = prng.below(keys) as i64;
        let value = prng.below(1 << 30) as i64;
        if !touched.insert(id) {
            continue;
        }
        if prng.percent(35) && rows.remove(&id).is_some() {
            kinds.push(delete(id));
        } else {
            rows.insert(id, value);
            kinds.push(upsert(id, value));
        }
    }
    disks.write(kinds).into_iter().for_each(|answer| assert!(answer.is_ok()));
}

/// Random changes, saves, checkpoints and crashes; every epoch that may be asked for is restored
/// as it was. Where files rot, and where an operator orders it, a restart goes back behind what was
/// durable, and what comes after that is as safe as ever.
fn random_lives(seed: u64, loses: bool) -> BTreeMap<&'static str, u64> {
    let mut prng = Prng::new(seed);
    let segment = *prng.pick(&[300, 2_000, 20_000]);
    let work = *prng.pick(&[5, 60, 1_000]);
    let speed = *prng.pick(&[20 << 10, 200 << 20]);
    let mut disks = Disks::new(1, |config| {
        config.redo_segment = segment;
        config.recovery_work = work;
        config.checkpoint_speed = (speed, speed * 2);
        config.scan_step_rows = 7;
    });
    disks.world.prng = prng.fork();
    let keys = *prng.pick(&[5, 40, 300]);
    let mut rows: BTreeMap<i64, i64> = BTreeMap::new();
    let mut history: History = [(Epoch(0), rows.clone())].into();
    let mut durable = Epoch(0);
    for _ in 0..prng.between(3, 6) {
        for _ in 0..prng.between(2, 40) {
            for _ in 0..prng.below(4) {
                random_transaction(&mut prng, &mut disks, &mut rows, keys);
            }
            history.insert(disks.world.epoch, rows.clone());
            if prng.percent(70) {
                let epoch = disks.end_epoch();
                disks.order_save(epoch);
                if prng.percent(80) {
                    disks.settle();
                }
                if prng.percent(60)
                    && let Some(saved) = disks.saved.last().copied()
                {
                    durable = saved;
                    disks.order_durable(saved);
                }
            }
            if prng.percent(50) {
                disks.pass(Duration::from_millis(prng.between(1, 60)));
            }
        }
        disks.note();
        let promised = disks.saved.last().copied().unwrap_or(durable).max(durable);
        let rots = loses && prng.percent(40);
        if rots {
            rot(&mut prng, &mut disks);
        }
        disks.crash(MemberStatus::Restoring);
        let saved = disks.survey(1).unwrap_or_default();
        assert!(saved >= promised || rots, "{saved} where {promised} was promised");
        let oldest = disks.found.last().expect("the survey has told").oldest.min(saved);
        let orders = loses && (saved < durable || prng.percent(40));
        durable = if orders { oldest } else { durable.max(oldest) };
        let known = history.range(durable..=saved).map(|(epoch, _)| *epoch);
        let possible: Vec<Epoch> = known.chain([saved]).collect();
        let through = *prng.pick(&possible);
        disks.restore(1, through);
        rows = history.range(..=through).next_back().unwrap().1.clone();
        let expected: Vec<(i64, i64)> = rows.iter().map(|(id, v)| (*id, *v)).collect();
        assert_eq!(disks.world.rows(1), expected, "{through} of {saved}");
        disks.world.nodes[&1].participant.partitions().for_each(|partition| partition.check());
        history.retain(|epoch, _| *epoch <= through);
        durable = through;
        disks.go_on(through);
    }
    disks.note_probes();
    disks.probes
}

/// A byte of some file is not what was written.
fn rot(prng: &mut Prng, disks: &mut Disks) {
    let names = disks.disks[&1].names();
    let Some(name) = (!names.is_empty()).then(|| prng.pick(&names)) else { return };
    let at = prng.below(1 << 30) as usize;
    disks.disks.get_mut(&1).unwrap().change(name, |bytes| {
        if let Some(at) = at.checked_rem(bytes.len()) {
            bytes[at] ^= 0x10;
        }
    });
}

#[test]
fn every_saved_epoch_is_restored_as_it_was() {
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..120 {
        let run = std::panic::catch_unwind(|| random_lives(seed, seed % 2 == 1));
        let probes = run.unwrap_or_else(|_| panic!("seed {seed}"));
        for (name, count) in probes {
            *reached.entry(name).or_default() += count;
        }
    }
    let expected = [
        "checkpoint: round begun",
        "checkpoint: of a slice and of what changed",
        "checkpoint: counts from now on",
        "disk: segments of the log removed",
    ];
    for name in expected {
        assert!(reached.get(name).is_some_and(|count| *count > 20), "{name}: {reached:?}");
    }
}
