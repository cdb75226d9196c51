//! Strikes the cluster with faults that it must survive.
//!
//! # Owns
//! Which fault strikes next, and who may be struck: never the last complete replica of a slot,
//! never the majority of the voters. Whoever is cut off, frozen or slow counts as lost. Nodes with
//! disks may all go down together, as long as the disks of those that come back hold everything
//! (`disks`). What costs links time and nothing else may strike anybody (`links`).
//! # Not here
//! The faults themselves (`world`).

mod configuration;
mod disks;
mod groups;
mod hangs;
mod links;
mod rot;

use std::collections::{BTreeMap, BTreeSet};

use model::{MemberStatus, NodeId};
use stdx::{Duration, Instant, Prng};

use crate::world::{Kind, Status, World};
pub use rot::Rot;

/// How hard a run is struck.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// Longest time between two faults.
    pub pause_max: Duration,
    /// Chance in a hundred that the next fault waits until all nodes are complete again.
    pub patience: u64,
    /// Chance in a hundred of more than one victim.
    pub greed: u64,
    /// How long faults strike.
    pub span: Duration,
}

/// What strikes more often than chance has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Nothing.
    Nothing,
    /// What costs links time.
    Links,
    /// What hangs in a cluster that nothing else ails.
    Hangs,
}

/// The fault scheduler of one run.
pub struct Chaos {
    prng: Prng,
    temper: Temper,
    /// Nodes that may be lost although nothing ails them any more, and until when.
    at_risk: BTreeMap<NodeId, Instant>,
    /// Nodes that may die at fault points, and until when.
    armed: BTreeMap<NodeId, Instant>,
    /// Nodes that stay down, and until when.
    withheld: BTreeMap<NodeId, Instant>,
    /// Decides what strikes links; none if nothing does beside the usual faults.
    of_links: Option<Prng>,
    /// Decides when a part of a node hangs, in a cluster that nothing else ails; none if that is
    /// left to chance.
    of_hangs: Option<Prng>,
    /// Decides what becomes of the node group that comes and goes.
    of_groups: Prng,
    /// What was done, for reports.
    log: Vec<String>,
    verbose: bool,
}

impl Chaos {
    /// A scheduler decided by `seed`; what `more` names strikes whatever it says.
    pub fn new(seed: u64, more: More, verbose: bool) -> Self {
        let mut prng = Prng::new(seed ^ 0xC4A0_5000);
        let temper = Temper {
            pause_max: Duration::from_millis(*prng.pick(&[100, 400, 1_500])),
            patience: *prng.pick(&[0, 30, 80]),
            greed: *prng.pick(&[10, 40, 80]),
            span: Duration::from_millis(*prng.pick(&[0, 3_000, 5_000, 8_000])),
        };
        let (at_risk, armed, withheld) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut draws = Prng::new(seed ^ 0x117C);
        let of_links = (draws.percent(LINKS_PERCENT) || more == More::Links).then_some(draws);
        let mut draws = Prng::new(seed ^ 0x4A96);
        let of_hangs = (draws.percent(HANGS_PERCENT) || more == More::Hangs).then_some(draws);
        let (of_groups, log) = (Prng::new(seed ^ 0x6406_30BE), Vec::new());
        Self { prng, temper, at_risk, armed, withheld, of_links, of_hangs, of_groups, log, verbose }
    }

    /// What was done, newest last.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Strikes for as long as the temper says, then makes good what can be.
    pub fn rage(&mut self, world: &mut World) {
        let moving = if world.setup().moves { groups::SPAN_MIN } else { Duration::ZERO };
        let end = world.now() + self.temper.span.max(moving);
        while world.now() < end {
            let pause = self.prng.between(1, self.temper.pause_max.as_millis());
            world.run_for(Duration::from_millis(pause));
            if self.prng.percent(self.temper.patience) {
                if world.has_disks() {
                    // Who is down does not come back by waiting, and disks want whole clusters.
                    self.restart_all(world);
                }
                world.run_until(Duration::from_secs(4), World::all_active);
            }
            self.disarm_due(world);
            self.order_moves(world);
            self.order_replicas(world);
            self.strike(world);
        }
        self.calm(world);
    }

    /// Ends every fault and starts every node that is down.
    pub fn calm(&mut self, world: &mut World) {
        world.heal();
        for kind in [Kind::Data, Kind::Management, Kind::Client] {
            for node in world.nodes(kind) {
                world.thaw(node);
                world.release(node);
                world.slow(node, 1);
                world.limit_memory(node, None);
                world.disarm(node);
                world.heal_disk(node);
                self.bring_back(world, node);
            }
        }
        self.armed.clear();
        self.withheld.clear();
        self.note(world, "calm".into());
    }

    fn note(&mut self, world: &World, what: String) {
        self.log.push(format!("{} {what}", world.now()));
        if self.verbose {
            use std::io::Write;
            let line = self.log.last().expect("pushed above");
            let _written = writeln!(std::io::stdout(), "{line}");
        }
    }

    fn bring_back(&mut self, world: &mut World, node: NodeId) {
        if world.is_running(node) {
            return;
        }
        if self.prng.percent(50) {
            world.rejoin(node)
        } else {
            world.restart(node)
        }
        self.note(world, format!("{node} starts"));
    }

    /// Lets a node die for a while: at one of these fault points when it passes it, or at any with
    /// some chance.
    fn arm_for(
        &mut self,
        world: &mut World,
        node: NodeId,
        span: Duration,
        points: &[&'static str],
    ) {
        let with = if self.prng.percent(60) {
            let point = *self.prng.pick(points);
            world.arm_at(node, point);
            point.to_string()
        } else {
            let chance = *self.prng.pick(&[2_000, 20_000, 200_000]);
            world.arm(node, chance);
            chance.to_string()
        };
        self.armed.insert(node, world.now() + span);
        self.risk(world, node, span);
        self.note(world, format!("{node} is armed with {with} for {span}"));
    }

    /// Lets a node die when it passes a point, whatever else strikes meanwhile.
    fn arm_through(
        &mut self,
        world: &mut World,
        node: NodeId,
        point: &'static str,
        span: Duration,
    ) {
        world.arm_at(node, point);
        self.armed.insert(node, world.now() + span);
        self.risk(world, node, span);
        self.note(world, format!("{node} is armed with {point} for {span}"));
    }

    fn disarm_due(&mut self, world: &mut World) {
        let now = world.now();
        for (node, _) in self.armed.extract_if(.., |_, until| *until <= now) {
            world.disarm(node);
        }
    }

    /// Starts a node again, sometimes to lose it on its way back.
    fn restart(&mut self, world: &mut World, node: NodeId) {
        self.bring_back(world, node);
        let data = world.nodes(Kind::Data).contains(&node);
        if data && world.has_disks() && self.prng.percent(25) && self.may_lose(world, &[node]) {
            // The node has to be complete first, which takes its time.
            self.arm_through(world, node, disks::FIRST_SAVE, Duration::from_secs(4));
        } else if data && self.prng.percent(30) && self.may_lose(world, &[node]) {
            let span = Duration::from_millis(self.prng.between(100, 1_500));
            let reads = world.has_disks() && self.prng.percent(50);
            let points = if reads { &disks::AT_RESTORE[..] } else { &AT_RETURN[..] };
            self.arm_for(world, node, span, points);
        }
    }

    fn strike(&mut self, world: &mut World) {
        if self.of_links.as_mut().is_some_and(|draws| draws.percent(50)) {
            return self.strike_links(world);
        }
        if self.of_hangs.as_mut().is_some_and(|draws| draws.percent(20)) {
            return self.hang_alone(world);
        }
        if world.has_disks() && self.prng.percent(45) {
            return self.strike_disks(world);
        }
        match self.prng.below(100) {
            0..9 => self.crash(world),
            9..17 => self.strike_takeover(world),
            17..22 => self.arm(world, &AT_WORK),
            22..25 => self.arm(world, &AT_DECISION),
            25..27 => self.arm_leader(world),
            27..36 => self.freeze(world),
            36..39 => self.vanish(world),
            39..52 => self.cut_off(world),
            52..57 => self.cut_pair(world),
            57..60 => self.slow(world),
            60..62 => self.starve(world),
            62..68 => self.strike_client(world),
            68..71 => self.leave(world),
            71..80 => self.recover(world),
            80..86 => self.strike_copy(world),
            86..89 => self.hang(world),
            89..91 => self.drag(world),
            91..93 => self.delay_one_way(world),
            _ => self.restart_some(world),
        }
    }

    /// How long after the end of a fault its victim may still be removed.
    fn aftermath(&self, world: &World) -> Duration {
        let setup = world.setup();
        setup.config.lease.times(3) + setup.network.send_timeout.times(2) + Duration::from_secs(1)
    }

    fn risk(&mut self, world: &World, node: NodeId, span: Duration) {
        let until = world.now() + span + self.aftermath(world);
        let entry = self.at_risk.entry(node).or_insert(until);
        *entry = until.max(*entry);
    }

    /// Whether the cluster can count on the node.
    fn sound(&self, world: &World, node: NodeId) -> bool {
        let state = world.newest_state();
        let member = state.member(node, world.incarnation(node));
        let complete = member.is_some_and(|m| match m.role {
            model::NodeRole::Data => m.status == MemberStatus::Active,
            model::NodeRole::Management => true,
        });
        complete
            && world.is_running(node)
            && !world.is_frozen(node)
            && !world.is_hung(node)
            && !world.touches_cut(node)
            && world.slowness(node) < SLOW
            && !state.departing.contains(&node)
            && self.at_risk.get(&node).is_none_or(|until| *until < world.now())
    }

    /// Whether the cluster survives the loss of these nodes now.
    fn may_lose(&self, world: &World, victims: &[NodeId]) -> bool {
        let state = world.newest_state();
        if !state.started || world.since_members_changed() < Duration::from_millis(300) {
            return false;
        }
        let stays = |node: NodeId| !victims.contains(&node) && self.sound(world, node);
        let slots_live = state
            .used_slots()
            .all(|slot| slot.replicas.iter().any(|r| !r.syncing && stays(r.node)));
        let mut voters: BTreeSet<NodeId> = world.voters();
        // A dead life keeps its vote until it is removed, also when the next one runs already.
        let lives = |node: NodeId, life| world.is_running(node) && world.incarnation(node) == life;
        let dead = state.data_members().filter(|(node, m)| !lives(*node, m.incarnation));
        voters.extend(dead.map(|(node, _)| node));
        // Whoever is on its way back is given its vote before it can be counted on.
        let doomed = victims.iter().chain(self.armed.keys()).copied();
        let config = &world.setup().config;
        voters.extend(doomed.filter(|node| config.is_data_node(*node)));
        let remaining = voters.iter().filter(|node| stays(**node)).count();
        slots_live && 2 * remaining > voters.len()
    }

    /// Draws nodes that the cluster can lose together.
    fn victims(&mut self, world: &World) -> Vec<NodeId> {
        let mut nodes = world.nodes(Kind::Data);
        nodes.extend(world.nodes(Kind::Management));
        nodes.retain(|node| world.is_running(*node));
        let mut victims = Vec::new();
        // The one that leads, and the one that drives, are worth more than others.
        let leader = world.leader().filter(|_| self.prng.percent(25));
        let driver = world.newest_state().driver().filter(|_| self.prng.percent(25));
        for node in leader.into_iter().chain(driver) {
            if !victims.contains(&node) && self.may_lose(world, &[&victims[..], &[node]].concat()) {
                victims.push(node);
            }
        }
        while victims.is_empty() || self.prng.percent(self.temper.greed) {
            if nodes.is_empty() {
                break;
            }
            let node = nodes.swap_remove(self.prng.index(nodes.len()));
            let wanted = [&victims[..], &[node]].concat();
            if !victims.contains(&node) && self.may_lose(world, &wanted) {
                victims.push(node);
            }
        }
        victims
    }

    fn crash(&mut self, world: &mut World) {
        for node in self.victims(world) {
            world.crash(node);
            self.note(world, format!("{node} crashes"));
            if self.prng.percent(30) {
                let moment = Duration::from_micros(self.prng.between(1, 3_000));
                world.run_for(moment);
            }
        }
        if self.prng.percent(30) {
            // Those who take over what it has left may die of it.
            if self.prng.percent(50) {
                self.arm_leader(world);
            } else {
                self.arm(world, &AT_TAKEOVER);
            }
        }
    }

    fn arm(&mut self, world: &mut World, points: &[&'static str]) {
        let span = Duration::from_millis(self.prng.between(1, 400));
        for node in self.victims(world) {
            self.arm_for(world, node, span, points);
        }
        world.run_for(span);
        self.disarm_due(world);
    }

    /// Lets the leader or the driver die at what only they do.
    fn arm_leader(&mut self, world: &mut World) {
        let driver = world.newest_state().driver();
        let chosen = if self.prng.percent(60) { world.leader().or(driver) } else { driver };
        let may_go = |node: &NodeId| world.is_running(*node) && self.may_lose(world, &[*node]);
        let Some(node) = chosen.filter(may_go) else { return };
        let span = Duration::from_millis(self.prng.between(100, 1_500));
        let point = *self.prng.pick(&AT_TAKEOVER);
        self.arm_through(world, node, point, span);
        world.run_for(span);
        self.disarm_due(world);
    }

    /// Loses a node, starts it again, and lets one that may feed it die in the middle of that. Only
    /// a third replica makes that a loss the cluster survives.
    fn strike_copy(&mut self, world: &mut World) {
        let span = self.aftermath(world);
        let mut pair = self.pair_of_group(world);
        if pair.is_none() && world.setup().replicas > 2 {
            self.recover(world);
            // Who has just come back, or may still be removed, is not counted on at once.
            let until = world.now() + span;
            while pair.is_none() && world.now() < until {
                world.run_for(Duration::from_millis(100));
                pair = self.pair_of_group(world);
            }
        }
        let Some((filled, source)) = pair else { return self.crash(world) };
        world.crash(filled);
        self.note(world, format!("{filled} crashes"));
        self.risk(world, filled, span);
        self.arm_through(world, source, AT_COPYING, span);
        self.bring_back(world, filled);
        world.run_until(span, |world| !world.is_running(source));
        self.armed.insert(source, world.now());
        self.disarm_due(world);
    }

    /// Draws two nodes of a group that the cluster can lose together.
    fn pair_of_group(&mut self, world: &World) -> Option<(NodeId, NodeId)> {
        let mut pairs = Vec::new();
        for group in &world.newest_state().groups {
            let running: Vec<NodeId> =
                group.iter().copied().filter(|node| world.is_running(*node)).collect();
            for first in &running {
                let others = running.iter().filter(|other| *other != first);
                pairs.extend(others.map(|other| (*first, *other)));
            }
        }
        pairs.retain(|(first, other)| self.may_lose(world, &[*first, *other]));
        if pairs.is_empty() { None } else { Some(*self.prng.pick(&pairs)) }
    }

    /// A coordinator goes with transactions open, and whoever settles them may die of it, and so
    /// may the next one. They stay armed until all is settled, however long the lease is that the
    /// dead one held.
    fn strike_takeover(&mut self, world: &mut World) {
        let mut line = self.line_of_drivers(world);
        if line.is_none() && world.setup().replicas > 1 && world.nodes(Kind::Data).len() > 2 {
            self.recover(world);
            // Who has just come back is not counted on at once.
            world.run_for(Duration::from_millis(400));
            line = self.line_of_drivers(world);
        }
        let Some((victim, heirs)) = line else { return self.crash(world) };
        let span = self.aftermath(world);
        for heir in &heirs {
            let point = *self.prng.pick(&AT_SETTLING);
            self.arm_through(world, *heir, point, span);
        }
        let enough = 1 + self.prng.index(3);
        for _ in 0..LOOKS {
            if world.open_transactions(victim) >= enough {
                break;
            }
            world.run_for(Duration::from_micros(50));
        }
        let life = world.incarnation(victim);
        if self.prng.percent(50) {
            // Some know of a decision and others do not.
            let point = *self.prng.pick(&AT_DECISION);
            self.arm_through(world, victim, point, span);
            world.run_until(DECISION_TIME, |world| !world.is_running(victim));
            self.armed.insert(victim, world.now());
            self.disarm_due(world);
        }
        if !world.is_running(victim) {
            self.note(world, format!("{victim} is gone at its moment"));
        } else if self.prng.percent(70) {
            world.crash(victim);
            self.note(world, format!("{victim} crashes"));
        } else {
            world.vanish(victim);
            self.note(world, format!("{victim} vanishes"));
        }
        let settled = world.run_until(span, |world| {
            let state = world.newest_state();
            state.member(victim, life).is_none() && state.takeovers.is_empty()
        });
        for heir in &heirs {
            self.armed.insert(*heir, world.now());
        }
        self.disarm_due(world);
        self.note(world, format!("waited: what {victim} had open is settled is {settled}"));
    }

    /// A data node to lose, and those that will then drive one after the other, as many as the
    /// cluster can lose with it.
    fn line_of_drivers(&mut self, world: &World) -> Option<(NodeId, Vec<NodeId>)> {
        let state = world.newest_state();
        let complete = |status| matches!(status, MemberStatus::Active | MemberStatus::Leaving);
        let mut line: Vec<_> = state.data_members().filter(|(_, m)| complete(m.status)).collect();
        line.sort_unstable_by_key(|(_, member)| member.joined_at);
        let mut line: Vec<NodeId> = line.into_iter().map(|(node, _)| node).collect();
        line.retain(|node| world.is_running(*node));
        let mut victims = line.clone();
        while !victims.is_empty() {
            let victim = victims.swap_remove(self.prng.index(victims.len()));
            let mut doomed = vec![victim];
            for heir in line.iter().filter(|node| **node != victim) {
                doomed.push(*heir);
                if !self.may_lose(world, &doomed) {
                    doomed.pop();
                    break;
                }
                if !self.prng.percent(self.temper.greed) {
                    break;
                }
            }
            if doomed.len() > 1 {
                return Some((victim, doomed.split_off(1)));
            }
        }
        None
    }

    fn freeze(&mut self, world: &mut World) {
        let lease = world.setup().config.lease;
        if self.prng.percent(40) {
            // Too short to be noticed by anyone but those who wait.
            let mut nodes = world.nodes(Kind::Data);
            nodes.extend(world.nodes(Kind::Client));
            let node = *self.prng.pick(&nodes);
            let span = Duration::from_nanos(self.prng.below(lease.as_nanos() / 4));
            world.freeze(node, span);
            return self.note(world, format!("{node} freezes for {span}"));
        }
        for node in self.victims(world) {
            let span = if self.prng.percent(50) {
                // It goes on without a lease, and is still a member, or was a moment ago.
                lease + Duration::from_nanos(self.prng.below(lease.as_nanos() / 2))
            } else {
                Duration::from_nanos(self.prng.below(lease.as_nanos() * 4))
            };
            world.freeze(node, span);
            self.risk(world, node, span);
            self.note(world, format!("{node} freezes for {span}"));
        }
    }

    fn vanish(&mut self, world: &mut World) {
        for node in self.victims(world) {
            world.vanish(node);
            self.note(world, format!("{node} vanishes"));
        }
    }

    /// Cuts nodes off from the others, and often leaves them their clients.
    fn cut_off(&mut self, world: &mut World) {
        let victims = self.victims(world);
        if victims.is_empty() {
            return;
        }
        let mut others = world.nodes(Kind::Data);
        others.extend(world.nodes(Kind::Management));
        others.retain(|node| !victims.contains(node));
        let mut lost = victims;
        let clients = world.nodes(Kind::Client);
        let lease = world.setup().config.lease.as_nanos();
        let mut span = self.prng.below(lease * 5);
        let mut direction = self.prng.below(4);
        match self.prng.below(10) {
            0..4 => others.extend(clients.into_iter().filter(|_| self.prng.percent(60))),
            // These see nobody else, for long enough that the others go on without them: they
            // believe what the lost nodes tell them.
            4..7 => {
                lost.extend(clients.into_iter().filter(|_| self.prng.percent(40)));
                (span, direction) = (span + lease * 3, 2);
            }
            _ => {}
        }
        match direction {
            0 => world.partition_one_way(&lost, &others),
            1 => world.partition_one_way(&others, &lost),
            _ => world.partition(&lost, &others),
        }
        let names: Vec<String> = lost.iter().map(NodeId::to_string).collect();
        self.note(world, format!("{} cut off, {direction}", names.join(" ")));
        world.run_for(Duration::from_nanos(span));
        self.end_cuts(world);
    }

    /// Cuts one pair of nodes that both see the others: one of them will have to go.
    fn cut_pair(&mut self, world: &mut World) {
        let nodes = world.nodes(Kind::Data);
        let (a, b) = (*self.prng.pick(&nodes), *self.prng.pick(&nodes));
        if a == b || !self.may_lose(world, &[a, b]) {
            return;
        }
        if self.prng.percent(50) {
            world.partition(&[a], &[b]);
        } else {
            world.partition_one_way(&[a], &[b]);
        }
        self.note(world, format!("{a} and {b} lose each other"));
        let lease = world.setup().config.lease.as_nanos();
        world.run_for(Duration::from_nanos(self.prng.below(lease * 4)));
        self.end_cuts(world);
    }

    fn end_cuts(&mut self, world: &mut World) {
        for kind in [Kind::Data, Kind::Management] {
            for node in world.nodes(kind) {
                // With a cut between few nodes anybody at its ends may be the one to go.
                if world.touches_cut(node) {
                    self.risk(world, node, Duration::ZERO);
                }
            }
        }
        world.heal();
        self.note(world, "healed".into());
    }

    fn slow(&mut self, world: &mut World) {
        let factor = *self.prng.pick(&[5, 20, 100]);
        let victims = self.victims(world);
        for node in &victims {
            world.slow(*node, factor);
            self.note(world, format!("{node} is slow by {factor}"));
        }
        world.run_for(Duration::from_millis(self.prng.between(20, 600)));
        for node in victims {
            world.slow(node, 1);
            self.risk(world, node, Duration::ZERO);
        }
    }

    /// Leaves a node no memory for more rows for a while: it refuses what adds to them, as primary
    /// or as backup, and nothing else.
    fn starve(&mut self, world: &mut World) {
        let nodes = world.nodes(Kind::Data);
        let node = *self.prng.pick(&nodes);
        world.limit_memory(node, Some(1));
        self.note(world, format!("{node} has no memory left"));
        world.run_for(Duration::from_millis(self.prng.between(20, 1_500)));
        world.limit_memory(node, None);
        self.note(world, format!("{node} has memory again"));
    }

    fn strike_client(&mut self, world: &mut World) {
        let clients = world.nodes(Kind::Client);
        let client = *self.prng.pick(&clients);
        match self.prng.below(5) {
            4 => self.deafen(world, client),
            3 => {
                let point = *self.prng.pick(&AT_CLIENT);
                let span = Duration::from_millis(self.prng.between(100, 1_000));
                world.arm_at(client, point);
                self.note(world, format!("{client} is armed with {point} for {span}"));
                world.run_for(span);
                world.disarm(client);
            }
            0 => {
                world.crash(client);
                self.note(world, format!("{client} crashes"));
            }
            1 => {
                let span = Duration::from_millis(self.prng.between(1, 3_000));
                world.freeze(client, span);
                self.note(world, format!("{client} freezes for {span}"));
            }
            _ => {
                let data = world.nodes(Kind::Data);
                let some: Vec<NodeId> =
                    data.into_iter().filter(|_| self.prng.percent(50)).collect();
                world.partition(&[client], &some);
                self.note(world, format!("{client} loses {} nodes", some.len()));
                world.run_for(Duration::from_millis(self.prng.between(50, 2_000)));
                // Between a client and a data node nobody has to go.
                world.heal();
            }
        }
    }

    /// What a node sends to a client does not arrive. A scan may be late there, if the request
    /// time-out ends before the connection is given up.
    fn deafen(&mut self, world: &mut World, client: NodeId) {
        let node = *self.prng.pick(&world.nodes(Kind::Data));
        if self.prng.percent(50) {
            world.partition(&[client], &[node]);
        } else {
            world.partition_one_way(&[node], &[client]);
        }
        let setup = world.setup();
        let (late, lost) = (setup.config.request_timeout, setup.network.send_timeout);
        let least = if late < lost { late } else { Duration::ZERO };
        let span = least + Duration::from_millis(self.prng.between(50, 1_000));
        self.note(world, format!("{client} hears nothing of {node} for {span}"));
        world.run_for(span);
        world.heal();
    }

    fn leave(&mut self, world: &mut World) {
        let victims = self.victims(world);
        if let Some(node) = victims.first() {
            world.ask_to_leave(*node);
            self.risk(world, *node, Duration::from_secs(5));
            self.note(world, format!("{node} is asked to leave"));
            if self.prng.percent(40) {
                self.arm_for(world, *node, Duration::from_secs(5), &AT_LEAVING);
            }
        }
    }

    /// Lets the cluster come to itself.
    fn recover(&mut self, world: &mut World) {
        self.restart_all(world);
        let whole = world.run_until(Duration::from_secs(5), World::all_active);
        self.note(world, format!("waited: all nodes active is {whole}"));
    }

    /// The nodes that are down and may be started.
    fn down(&mut self, world: &World) -> Vec<NodeId> {
        let now = world.now();
        self.withheld.retain(|_, until| *until > now);
        let down = |node: &NodeId| {
            let down = matches!(world.status(*node), Status::Dead | Status::Vanished);
            down && !self.withheld.contains_key(node)
        };
        world.all_nodes().into_iter().filter(down).collect()
    }

    fn restart_all(&mut self, world: &mut World) {
        for node in self.down(world) {
            self.restart(world, node);
        }
    }

    fn restart_some(&mut self, world: &mut World) {
        for node in self.down(world) {
            if self.prng.percent(60) {
                self.restart(world, node);
            }
        }
    }
}

/// Share of the runs in which parts of nodes hang while nothing else is wrong.
const HANGS_PERCENT: u64 = 15;
/// Share of the runs whose links are struck too.
const LINKS_PERCENT: u64 = 35;
/// A node slower than this may miss its lease.
const SLOW: u64 = 5;
/// Moments of the protocols that run all the time. Passed rarely or often, each is struck as often.
const AT_WORK: [&str; 20] = [
    "builder: before entries are committed",
    "builder: before an index is proposed online",
    "coordinator: after a prepare is sent",
    "coordinator: at the commit point",
    "coordinator: after a commit is sent",
    "coordinator: all primaries have applied",
    "coordinator: after a complete is sent",
    "coordinator: after an abort is sent",
    "participant: staged, before it replicates",
    "participant: staged at a backup",
    "participant: commit noted, before it passes it on",
    "participant: applied, before it answers",
    "participant: completed, before it answers",
    "participant: abort passed on, before it undoes",
    "participant: rolled back, before it passes it on",
    "epochs: after a prepare is sent",
    "epochs: after a switch is sent",
    "epochs: after a completion is sent",
    "builder: before entries are committed",
    "builder: before an index is proposed online",
];
/// Moments at which some know of a decision.
const AT_DECISION: [&str; 4] = [
    "coordinator: at the commit point",
    "coordinator: after a commit is sent",
    "coordinator: all primaries have applied",
    "participant: commit noted, before it passes it on",
];
/// The moment of a node that feeds another one.
const AT_COPYING: &str = "copy: rows sent";
/// Moments after a death.
const AT_TAKEOVER: [&str; 8] = [
    "takeover: after the question is sent",
    "takeover: before a transaction is driven",
    "takeover: before it is reported done",
    "control: elected, nobody told",
    "control: between lease grants",
    "control: change of voters proposed",
    "control: state applied, followers not told",
    "coordinator: after an abort is sent",
];
/// Moments of the settling of what a dead coordinator had open.
const AT_SETTLING: [&str; 4] = [
    "takeover: after the question is sent",
    "takeover: before a transaction is driven",
    "takeover: before a transaction is driven",
    "takeover: before it is reported done",
];
/// How long a coordinator has to come to a decision.
const DECISION_TIME: Duration = Duration::from_millis(300);
/// How often a moment is looked for in which a coordinator has transactions open.
const LOOKS: u32 = 400;
/// Moments of a client.
const AT_CLIENT: [&str; 3] = [
    "client: after a commit request is sent",
    "client: after a batch is sent",
    "client: between the partitions of a scan",
];
/// Moments of a node that comes back.
const AT_RETURN: [&str; 3] = [
    "copy: rows taken, before they are acknowledged",
    "participant: staged at a backup",
    "control: state applied, followers not told",
];
/// Moments of a node that leaves.
const AT_LEAVING: [&str; 2] =
    ["control: lease given up, not yet confirmed", "coordinator: after a complete is sent"];
