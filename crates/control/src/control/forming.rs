//! How a starting node finds its cluster: `Hello`, founding, `Join`.
//!
//! # Guarantees
//! 1. A cluster is founded only by the configured node with the lowest id, and only when every
//!    other configured node has said, in its current life, that it belongs to none.
//! 2. None is founded while a disk has rows of a cluster whose control log nobody has.
//! 3. A founder whose cluster has not started gives it up for one that was there before.

use std::collections::BTreeSet;

use actor::{Ctx, Halt, probe};
use model::{Address, ClusterId, Command, Epoch, Incarnation, MemberStatus, NodeId, NodeRole};
use stdx::Instant;
use wire::{ControlMessage, NodeLife};

use super::Control;

/// The newest life heard of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeardLife {
    pub(super) life: NodeLife,
    /// When it last told this.
    pub(super) heard_at: Instant,
}

/// What a configured node answered to `Hello`.
#[derive(Clone, Debug)]
pub(super) struct HelloAnswer {
    /// The life that answered.
    pub(super) life: NodeLife,
    /// The cluster whose log it has.
    pub(super) cluster: Option<ClusterId>,
    /// Who leads, as far as it knows.
    pub(super) leader: Option<NodeId>,
    /// It is a member of a cluster that serves.
    pub(super) serves: bool,
    /// When it arrived here.
    pub(super) at: Instant,
}

impl Control {
    /// Asks everyone where the cluster is; joins it, or founds it when there is none.
    pub(super) fn seek(&mut self, ctx: &mut Ctx<'_>) {
        if self.consensus.has_log() && !self.resumed {
            return; // Admitted already; the leader sends the rest.
        }
        let leaders = self.hinted_leaders();
        for leader in &leaders {
            self.tell(ctx, *leader, ControlMessage::Join { life: self.own_life() });
        }
        let may_found = self.may_found(ctx.now());
        let orphans = if may_found { self.orphans() } else { BTreeSet::new() };
        if !orphans.is_empty() {
            self.refuse_founding(ctx, orphans);
        } else if may_found {
            probe!(ctx, "control: cluster founded");
            // Zero is the identity of no cluster.
            self.consensus.found(ClusterId(ctx.prng().next_u64().max(1)));
            self.leader_heard_at = ctx.now();
            return;
        }
        self.say_hello(ctx);
    }

    pub(super) fn say_hello(&self, ctx: &mut Ctx<'_>) {
        for node in self.configured().filter(|node| *node != self.node) {
            self.tell(ctx, node, ControlMessage::Hello { life: self.own_life() });
        }
    }

    /// What this node says of itself.
    pub(super) fn own_life(&self) -> NodeLife {
        NodeLife {
            incarnation: self.incarnation,
            voter: self.voter,
            role: self.role,
            workers: self.workers,
            rows: self.stored_rows(),
            protocol: self.versions.own,
            oldest: self.restore.oldest(),
            durable: self.durable_evidence(),
        }
    }

    /// The configured nodes that a cluster is founded by: all but the data nodes without a group.
    pub(super) fn founders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.config.data_nodes.iter().chain(&self.config.management_nodes).copied()
    }

    /// All configured data and management nodes.
    pub(super) fn configured(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.founders().chain(self.config.spare_nodes.iter().copied())
    }

    fn hinted_leaders(&self) -> Vec<NodeId> {
        let answers = self.answers.values().filter(|answer| answer.cluster.is_some());
        let mut leaders: Vec<NodeId> = answers.filter_map(|answer| answer.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders.retain(|leader| *leader != self.node);
        leaders
    }

    fn may_found(&self, now: Instant) -> bool {
        let lowest = self.founders().min() == Some(self.node) && !self.consensus.has_log();
        // An answer is good for as long as its sender would have repeated it.
        let fresh = self.config.heartbeat_interval.times(8);
        let alone = |node: NodeId| {
            self.answers
                .get(&node)
                .is_some_and(|answer| answer.cluster.is_none() && now.since(answer.at) < fresh)
        };
        lowest && self.founders().filter(|node| *node != self.node).all(alone)
    }

    /// Nodes whose disks have rows of a cluster that nobody has the control log of.
    fn orphans(&self) -> BTreeSet<NodeId> {
        let answers = self.answers.iter().map(|(node, answer)| (*node, answer.life));
        let lives = answers.chain([(self.node, self.own_life())]);
        // What was never saved does not count: the cluster had not started.
        let epoch = |of: Option<(ClusterId, Epoch)>| of.map_or(Epoch(0), |(_, epoch)| epoch);
        let has_rows = |life: &NodeLife| epoch(life.rows).max(epoch(life.durable)) > Epoch(0);
        lives.filter(|(_, life)| has_rows(life)).map(|(node, _)| node).collect()
    }

    pub(super) fn receive_hello(&mut self, ctx: &mut Ctx<'_>, from: Address, life: NodeLife) {
        let incarnation = life.incarnation;
        if self.is_over(from.node, incarnation) {
            self.tell(ctx, from.node, ControlMessage::Removed { incarnation });
            return;
        }
        // From here on, what an older life of the asker had under way is not listened to: a
        // cluster that it founded and that nobody knows must not come to life later.
        self.note_life(ctx.now(), from.node, life);
        if self.configured_role(from.node) != Some(life.role) || life.workers == 0 {
            return;
        }
        let reply = ControlMessage::HelloReply {
            life: self.own_life(),
            cluster: self.consensus.has_log().then(|| self.consensus.cluster()),
            leader: self.leader(),
            serves: self.state.started && self.own_member().is_some(),
        };
        self.tell(ctx, from.node, reply);
    }

    pub(super) fn note_life(&mut self, now: Instant, node: NodeId, life: NodeLife) {
        let heard = HeardLife { life, heard_at: now };
        let newest = self.lives.entry(node).or_insert(heard);
        if life.incarnation >= newest.life.incarnation {
            *newest = heard;
            self.versions.note(node, life.incarnation, life.protocol);
        }
    }

    fn configured_role(&self, node: NodeId) -> Option<NodeRole> {
        if self.config.is_data_node(node) {
            Some(NodeRole::Data)
        } else {
            self.config.management_nodes.contains(&node).then_some(NodeRole::Management)
        }
    }

    pub(super) fn receive_hello_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        answer: HelloAnswer,
    ) {
        let life = answer.life;
        let expected = self.configured_role(from.node) == Some(life.role);
        if !expected || self.is_over(from.node, life.incarnation) {
            return;
        }
        self.note_life(ctx.now(), from.node, life);
        let founder = self.consensus.is_leader() && !self.state.started && !self.resumed;
        let own = self.state.member(from.node, life.incarnation).is_some();
        if founder && answer.cluster.is_some() && !own {
            // Everyone had said to be alone, each at another moment. Nobody has rows of this one.
            probe!(ctx, "control: founder finds another cluster");
            self.halt(ctx, Halt::ClusterStopped("another cluster was there before"));
            return;
        }
        let own = self.consensus.cluster();
        let other = answer.cluster.filter(|cluster| *cluster != own);
        // A log that was begun and never got as far as a cluster keeps nobody out of one.
        let belongs = self.resumed && own != ClusterId(0);
        if let (true, true, Some(cluster)) = (belongs, answer.serves, other) {
            self.halt(ctx, Halt::OtherCluster { own, cluster });
            return;
        }
        self.answers.insert(from.node, answer);
    }

    /// A node asks the leader to be admitted.
    pub(super) fn receive_join(&mut self, ctx: &mut Ctx<'_>, from: Address, life: NodeLife) {
        let node = from.node;
        let NodeLife { incarnation, voter, role, workers, protocol, .. } = life;
        if self.is_over(node, incarnation) {
            self.tell(ctx, node, ControlMessage::Removed { incarnation });
            return;
        }
        self.note_life(ctx.now(), node, life);
        let fits = self.configured_role(node) == Some(role) && workers > 0;
        let known = self.state.member(node, incarnation).is_some();
        let ready = self.consensus.is_ready() && !self.awaits_restart();
        if !fits || known || node == self.node || !ready {
            return;
        }
        if let Some(old) = self.state.members.get(&node) {
            // A newer life runs, so the old one has ended, whatever its lease.
            probe!(ctx, "control: old life removed by the new one");
            let incarnation = old.incarnation;
            self.propose(Command::RemoveMember { node, incarnation });
            return;
        }
        if self.state.takeovers.iter().any(|takeover| takeover.node == node) {
            // It asks again; admitted once its old life's transactions are settled.
            probe!(ctx, "control: join waits for takeover");
            return;
        }
        if !self.versions.admits(ctx.now(), protocol, self.config.lease) {
            // It asks again; admitted once nobody sends what it does not understand.
            probe!(ctx, "control: join of an older version waits");
            return;
        }
        self.propose(Command::AddMember { node, incarnation, voter, role, workers });
    }

    /// The cluster has gone on without this life.
    pub(super) fn receive_removed(&mut self, ctx: &mut Ctx<'_>, incarnation: Incarnation) {
        if incarnation == self.incarnation {
            let leaving = self.own_member().is_some_and(|m| m.status == MemberStatus::Leaving);
            self.halt(ctx, if leaving { Halt::Left } else { Halt::Removed });
        }
    }
}
