//! Faults of disks, and power losses: what a cluster survives whose nodes have disks.
//!
//! # Owns
//! The map of what may still go wrong with disks: damage strikes a node only while another complete
//! replica of everything it has lies on a disk in good order, and when all nodes go down together,
//! a majority of the voters and such a replica of every slot come back.
//! # Not here
//! What disks do (`world::disk`).

use std::collections::BTreeSet;

use control::journal;
use model::{MemberStatus, NodeId};
use stdx::{Duration, Instant};

use super::Chaos;
use crate::world::{Damage, DiskAction, Kind, World};

impl Chaos {
    pub(super) fn strike_disks(&mut self, world: &mut World) {
        if self.prng.percent(60) {
            // Much of what follows is borne only by a cluster that has saved what it has.
            self.recover(world);
            world.run_until(Duration::from_secs(3), Self::is_settled);
        }
        match self.prng.below(100) {
            0..22 => self.black_out(world),
            22..42 => self.split_save(world),
            42..47 => self.lose_group(world),
            47..51 => self.slow_disks(world),
            51..55 => self.stick_disks(world),
            55..57 => self.stick_for_ever(world),
            57..67 => self.arm(world, &AT_SAVING),
            67..73 => self.fill_disk(world),
            73..80 => self.fail_disk(world),
            80..87 => self.damage_disk(world),
            87..94 => self.damage_log(world),
            _ => self.replace_disk(world),
        }
    }

    /// Whether every disk that counts holds all it ought to: nodes have been complete for long
    /// enough to have saved what they have.
    fn is_settled(world: &World) -> bool {
        let config = &world.setup().config;
        let saved = config.save_interval.times(4) + config.epoch_interval.times(8);
        let while_ago = saved + Duration::from_millis(500);
        world.since_members_changed() > while_ago && !world.disks_are_troubled()
    }

    /// Whether everything survives on other disks than these nodes'.
    pub(super) fn may_lose_disks(&self, world: &World, nodes: &[NodeId]) -> bool {
        let state = world.newest_state();
        let complete = |node: NodeId| {
            let member = state.member(node, world.incarnation(node));
            let active = member.is_some_and(|member| member.status == MemberStatus::Active);
            active && world.disk_is_sound(node) && !nodes.contains(&node)
        };
        let voters = world.voters();
        let keeps = |node: &&NodeId| world.disk_is_sound(**node) && !nodes.contains(*node);
        state.started
            && Self::is_settled(world)
            && 2 * voters.iter().filter(keeps).count() > voters.len()
            && state.used_slots().all(|slot| {
                slot.replicas.iter().any(|replica| !replica.syncing && complete(replica.node))
            })
    }

    /// Everything goes down at one moment, and comes back one by one; some of it much later.
    fn black_out(&mut self, world: &mut World) {
        if !self.may_lose(world, &[]) || !self.may_lose_disks(world, &[]) {
            return;
        }
        let mut late: Vec<NodeId> = Vec::new();
        if self.prng.percent(60) {
            let mut victims = self.victims(world);
            victims.retain(|node| {
                late.push(*node);
                let may = self.may_lose_disks(world, &late);
                if !may {
                    late.pop();
                }
                may
            });
        }
        for node in &late {
            let span = Duration::from_millis(self.prng.between(500, 9_000));
            self.withheld.insert(*node, world.now() + span);
        }
        self.go_dark(world, None);
        self.come_back(world, &late);
    }

    /// The power fails when a few nodes have saved more than the others. Often these come back
    /// first, and the cluster goes on without what only the few have.
    fn split_save(&mut self, world: &mut World) {
        if !self.may_lose(world, &[]) || !self.may_lose_disks(world, &[]) {
            return;
        }
        let data = world.nodes(Kind::Data);
        let mut ahead = self.victims(world);
        let mut nodes = Vec::new();
        ahead.retain(|node| {
            nodes.push(*node);
            let may = data.contains(node) && self.may_lose_disks(world, &nodes);
            if !may {
                nodes.pop();
            }
            may
        });
        let mut late = ahead.clone();
        if ahead.is_empty() {
            ahead.push(*self.prng.pick(&data));
        }
        if self.prng.percent(30) {
            late.clear();
        }
        if self.prng.percent(60) {
            // What is old on a disk goes when something newer counts.
            let before = world.probed(CHECKPOINT_COUNTS);
            let limit = Duration::from_millis(300);
            world.run_until(limit, |world| world.probed(CHECKPOINT_COUNTS) > before);
        }
        let begun = world.now();
        for node in world.nodes_with_disks() {
            if !ahead.contains(&node) {
                world.stick_disk(node, Duration::from_secs(10));
            }
        }
        self.note(world, format!("no disk syncs but those of {ahead:?}"));
        let saved = world.setup().config.save_interval.as_millis() + 60;
        world.run_for(Duration::from_millis(self.prng.between(5, saved)));
        // Whoever has gone or come meanwhile is not known to have anything on disk.
        let steady = world.since_members_changed() > world.now().since(begun);
        if steady {
            for node in &late {
                let span = Duration::from_millis(self.prng.between(2_000, 9_000));
                self.withheld.insert(*node, world.now() + span);
            }
            self.go_dark(world, None);
        }
        for node in world.nodes_with_disks() {
            world.heal_disk(node);
        }
        if steady && !late.is_empty() && self.prng.percent(40) {
            self.restart_without(world, &late);
            self.go_dark(world, None);
            // Only the cluster's state says that what these have has never been.
            self.withheld.clear();
            self.come_back(world, &[]);
        } else if steady {
            self.come_back(world, &late);
        }
    }

    /// Starts what is down but for those that are late, until the cluster has gone on without them:
    /// often before it has saved anything since.
    fn restart_without(&mut self, world: &mut World, late: &[NodeId]) {
        let before = world.newest_state().restarts.len();
        for node in world.all_nodes().into_iter().filter(|node| !late.contains(node)) {
            self.start(world, node);
        }
        let limit = Duration::from_secs(6);
        let gone_on = |world: &World| world.newest_state().restarts.len() > before;
        let restarted = world.run_until(limit, gone_on);
        self.note(
            world,
            format!("waited: the cluster has gone on without {late:?} is {restarted}"),
        );
        let saved = world.setup().config.save_interval.as_millis();
        world.run_for(Duration::from_millis(self.prng.below(saved)));
    }

    /// All nodes of a group lose their power, and so the cluster stops.
    fn lose_group(&mut self, world: &mut World) {
        if !self.may_lose(world, &[]) || !self.may_lose_disks(world, &[]) {
            return;
        }
        let groups = world.newest_state().groups.clone();
        let group = self.prng.pick(&groups).clone();
        world.power_loss(&group);
        self.note(world, format!("power loss of the group {group:?}"));
        let span = Duration::from_millis(self.prng.between(0, 2_000));
        world.run_for(span);
        self.come_back(world, &[]);
    }

    /// Every node goes down now: most by a loss of power, some because their process is killed.
    pub(super) fn go_dark(&mut self, world: &mut World, clients: Option<bool>) {
        if self.prng.percent(60) {
            // In the middle of a save.
            let enough = 1 + self.prng.index(world.nodes_with_disks().len());
            for _ in 0..LOOKS {
                if world.unsynced_disks() >= enough {
                    break;
                }
                world.run_for(Duration::from_micros(20));
            }
        }
        let mut nodes = world.nodes(Kind::Data);
        nodes.extend(world.nodes(Kind::Management));
        if clients.unwrap_or_else(|| self.prng.percent(50)) {
            nodes.extend(world.nodes(Kind::Client));
        }
        let powered = *self.prng.pick(&[0, 70, 100, 100]);
        let (dark, killed): (Vec<NodeId>, Vec<NodeId>) =
            nodes.into_iter().partition(|_| self.prng.percent(powered));
        for node in &killed {
            world.crash(*node);
        }
        world.power_loss(&dark);
        let named =
            |nodes: &[NodeId]| nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ");
        let what = format!("power loss of {}; killed: {}", named(&dark), named(&killed));
        self.note(world, what);
    }

    /// Starts what is down one after the other, but for those that are late; sometimes the power
    /// fails again meanwhile, or some node does.
    fn come_back(&mut self, world: &mut World, late: &[NodeId]) {
        let spread = *self.prng.pick(&[1, 100, 1_000, 4_000]);
        let again = self.prng.percent(35);
        let dark_again = Duration::from_millis(self.prng.between(0, spread + 1_500));
        let begun = world.now();
        let mut starts: Vec<(Instant, NodeId)> = Vec::new();
        for node in world.all_nodes().into_iter().filter(|node| !late.contains(node)) {
            let wait = Duration::from_micros(self.prng.below(spread * 1_000 + 1));
            starts.push((begun + wait, node));
        }
        starts.sort_unstable();
        for (at, node) in starts {
            if again && at > begun + dark_again {
                break;
            }
            let now = world.now();
            world.run_for(if at > now { at.since(now) } else { Duration::ZERO });
            self.start(world, node);
            if self.prng.percent(8) {
                let point = *self.prng.pick(&AT_RESTORE);
                self.arm_through(world, node, point, Duration::from_secs(3));
            } else if self.prng.percent(6) {
                let moment = Duration::from_micros(self.prng.between(1, 300_000));
                world.run_for(moment);
                self.stumble(world, node);
            }
        }
        if again {
            let (now, dark) = (world.now(), begun + dark_again);
            world.run_for(if dark > now { dark.since(now) } else { Duration::ZERO });
            self.go_dark(world, None);
            return self.come_back(world, late);
        }
        let patience = Duration::from_millis(self.prng.between(0, 6_000));
        let serves = world.run_until(patience, |world| {
            let state = world.newest_state();
            let members = state.data_members();
            state.started && members.into_iter().any(|(_, m)| m.status == MemberStatus::Active)
        });
        self.note(world, format!("waited: the cluster is back is {serves}"));
    }

    pub(super) fn start(&mut self, world: &mut World, node: NodeId) {
        if !world.is_running(node) {
            world.restart(node);
            self.note(world, format!("{node} starts"));
        }
    }

    /// A node that has just been started fails, and is started again.
    fn stumble(&mut self, world: &mut World, node: NodeId) {
        if self.prng.percent(50) {
            world.crash(node);
        } else {
            world.power_loss(&[node]);
        }
        self.note(world, format!("{node} stumbles"));
        let moment = Duration::from_millis(self.prng.between(0, 300));
        world.run_for(moment);
        self.start(world, node);
    }

    fn slow_disks(&mut self, world: &mut World) {
        let factor = *self.prng.pick(&[5, 50, 500]);
        let nodes = world.nodes_with_disks();
        let share = *self.prng.pick(&[30, 100]);
        let slow: Vec<NodeId> = nodes.into_iter().filter(|_| self.prng.percent(share)).collect();
        for node in &slow {
            world.slow_disk(*node, factor);
        }
        self.note(world, format!("the disks of {slow:?} are slow by {factor}"));
        world.run_for(Duration::from_millis(self.prng.between(20, 1_500)));
        for node in &slow {
            world.heal_disk(*node);
        }
    }

    /// Syncs take seconds.
    fn stick_disks(&mut self, world: &mut World) {
        let span = Duration::from_millis(self.prng.between(50, 4_000));
        for node in self.victims(world) {
            world.stick_disk(node, span);
            self.risk(world, node, span);
            self.note(world, format!("the disk of {node} is stuck for {span}"));
        }
    }

    /// No sync of a node ever returns. Its host sees that and ends the process; until then what
    /// waits for the disk waits, and nothing else does.
    fn stick_for_ever(&mut self, world: &mut World) {
        let with_disks = world.nodes_with_disks();
        let Some(node) = self.victims(world).into_iter().find(|node| with_disks.contains(node))
        else {
            return;
        };
        let before = world.newest_epoch();
        let quiet = self.is_quiet_but_for(world, node);
        self.risk(world, node, HOST_WAITS);
        world.stick_disk(node, HOST_WAITS.times(100));
        self.note(world, format!("the disk of {node} does not answer any more"));
        world.run_for(HOST_WAITS);
        let passed = world.newest_epoch().0 - before.0;
        let config = &world.setup().config;
        let interval = config.epoch_interval.max(config.epoch_interval_idle).as_nanos().max(1);
        let least = HOST_WAITS.as_nanos() / interval / 4;
        assert!(passed >= least || !quiet, "{passed} epochs beside a disk that does not answer");
        // A node that was removed meanwhile has started anew, and its new life waits as well.
        if world.is_running(node) {
            world.crash(node);
            self.note(world, format!("the host of {node} ends it"));
        }
        world.heal_disk(node);
    }

    fn fill_disk(&mut self, world: &mut World) {
        let mut full = world.nodes(Kind::Data);
        let node = *self.prng.pick(&full);
        let space = *self.prng.pick(&[0, 4 << 10, 64 << 10, 512 << 10]);
        let mut span = Duration::from_millis(self.prng.between(100, 3_000));
        // What is left is what a checkpoint asks for, on whichever node.
        let before = world.probed(CHECKPOINTS_BEGIN);
        let begins = |world: &World| world.probed(CHECKPOINTS_BEGIN) > before;
        if self.prng.percent(60) && world.run_until(Duration::from_secs(1), begins) {
            span = span.divided_by(4);
        } else {
            full = vec![node];
        }
        for node in &full {
            world.limit_disk(*node, Some(space));
        }
        self.note(world, format!("the disks of {full:?} have {space} bytes left"));
        world.run_for(span);
        for node in &full {
            world.limit_disk(*node, None);
        }
        self.note(world, format!("the disks of {full:?} have space again"));
    }

    /// The next operation of a kind fails, which ends the node.
    fn fail_disk(&mut self, world: &mut World) {
        let victims = self.victims(world);
        let Some(node) = victims.first().copied() else { return };
        let action = *self.prng.pick(&[DiskAction::Read, DiskAction::Write, DiskAction::Sync]);
        if !self.may_lose_disks(world, &[node]) && action == DiskAction::Read {
            return;
        }
        let under = *self.prng.pick(&["", "worker-", journal::DIRECTORY]);
        world.fail_disk(node, action, under);
        let span = Duration::from_millis(self.prng.between(10, 1_000));
        self.risk(world, node, span);
        self.note(world, format!("the disk of {node} fails at the next {action:?} of {under:?}"));
        world.run_for(span);
        if action == DiskAction::Read && self.prng.percent(70) {
            world.crash(node);
            self.start(world, node);
            world.run_for(Duration::from_secs(1));
        }
        world.heal_disk(node);
    }

    /// Something changes bytes at rest. It is found out when the node starts again.
    fn damage_disk(&mut self, world: &mut World) {
        let nodes = world.nodes(Kind::Data);
        let node = *self.prng.pick(&nodes);
        if !self.may_lose_disks(world, &[node]) {
            return;
        }
        let all =
            [Damage::BitFlip, Damage::ZeroSector, Damage::MisdirectedWrite, Damage::Unreadable];
        let damage = *self.prng.pick(&all);
        if let Some(path) = world.damage_disk(node, damage, "worker-") {
            self.note(world, format!("{damage:?} on the disk of {node}, in {path}"));
            if self.prng.percent(60) && self.may_lose(world, &[node]) {
                world.crash(node);
                self.note(world, format!("{node} crashes"));
            }
        }
    }

    /// The same with what a voter must not forget: it comes back as another voter.
    fn damage_log(&mut self, world: &mut World) {
        let nodes = world.nodes_with_disks();
        let node = *self.prng.pick(&nodes);
        if !self.may_lose_disks(world, &[node]) {
            return;
        }
        let may_crash = self.may_lose(world, &[node]);
        if may_crash && self.prng.percent(30) {
            world.crash(node);
            if let Some(path) = world.lose_log(node) {
                self.note(world, format!("{node} crashes, and {path} is lost"));
            }
            return;
        }
        let all = [Damage::BitFlip, Damage::ZeroSector, Damage::MisdirectedWrite];
        let damage = *self.prng.pick(&all);
        if let Some(path) = world.damage_log(node, damage) {
            self.note(world, format!("{damage:?} on the disk of {node}, in {path}"));
            if may_crash && self.prng.percent(60) {
                world.crash(node);
                self.note(world, format!("{node} crashes"));
            }
        }
    }

    /// A node comes back with an empty disk.
    fn replace_disk(&mut self, world: &mut World) {
        let victims: BTreeSet<NodeId> = self.victims(world).into_iter().take(1).collect();
        for node in victims {
            if self.may_lose_disks(world, &[node]) {
                world.crash(node);
                world.run_for(Duration::from_millis(self.prng.between(0, 2_000)));
                world.restart_wiped(node);
                self.note(world, format!("{node} starts with an empty disk"));
            }
        }
    }

    /// The power of the whole cluster fails after a quiet while, and everything comes back. What
    /// was acknowledged longer ago than it takes to save it is there.
    pub fn final_black_out(&mut self, world: &mut World) {
        let bound = Self::save_bound(world);
        world.run_for(bound + Duration::from_millis(300));
        let (now, nanos) = (world.now(), bound.as_nanos());
        world.promise(Instant::from_nanos(now.as_nanos().saturating_sub(nanos)));
        self.go_dark(world, None);
        for node in world.all_nodes() {
            let moment = Duration::from_micros(self.prng.between(0, 200_000));
            world.run_for(moment);
            self.start(world, node);
        }
    }

    /// How long after its acknowledgement a transaction is on disk at the latest, where nothing is
    /// wrong with nodes or disks.
    pub(super) fn save_bound(world: &World) -> Duration {
        let (config, disk) = (&world.setup().config, &world.setup().disk);
        let disk = disk.sync.times(20) + disk.spike_max.times(4);
        config.save_interval.times(3)
            + config.epoch_interval.times(6)
            + disk
            + Duration::from_millis(300)
    }
}

/// Moments of epochs, checkpoints and the control log on their way to the disk.
const AT_SAVING: [&str; 7] = [
    "disk: epoch marked, before it is synced",
    "disk: log synced, before anybody is told",
    "epochs: after a save is sent",
    "epochs: after a durable epoch is told",
    "checkpoint: piece encoded, before it is written",
    "checkpoint: complete, before it counts",
    "control: log written, not yet on disk",
];
/// Moments of a node that reads back what it has, or has it copied.
pub(super) const AT_RESTORE: [&str; 4] = [
    "restore: between two pieces of a file",
    "restore: rows read, indexes to be built",
    "restore: before the log of the new life is begun",
    "restore: log of the new life begun, before it is reported",
];
/// The moment at which a node that had rows copied first saves them.
pub(super) const FIRST_SAVE: &str = "disk: epoch of a copy marked, before it is synced";
/// How long hosts wait for an answer of a disk before they end the process. Real ones wait for
/// longer (`runtime`): what happens meanwhile is the same.
const HOST_WAITS: Duration = Duration::from_secs(3);
/// How often a moment is looked for in which disks are being written to.
const LOOKS: u32 = 4_000;
/// The probe of a checkpoint that replaces older ones.
const CHECKPOINT_COUNTS: &str = "checkpoint: counts from now on";
/// The probe of checkpoints that are about to be written.
const CHECKPOINTS_BEGIN: &str = "checkpoint: round begun";
