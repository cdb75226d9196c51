//! How a starting node finds its cluster: `Hello`, founding, `Join`.
//!
//! # Guarantees
//! 1. A cluster is founded only by the configured node with the lowest id, and only when every
//!    other configured node has said, in its current life, that it belongs to none.
//! 2. A founder whose cluster has not started gives it up for one that was there before.

use actor::{Ctx, Halt, probe};
use model::{Address, ClusterId, Command, Incarnation, MemberStatus, NodeId, NodeRole};
use stdx::Instant;
use wire::ControlMessage;

use super::Control;

/// What a configured node answered to `Hello`.
#[derive(Clone, Debug)]
pub(super) struct HelloAnswer {
    /// The life that answered.
    pub(super) incarnation: Incarnation,
    /// Its role.
    pub(super) role: NodeRole,
    /// Whether it belongs to a cluster.
    pub(super) in_cluster: bool,
    /// Who leads, as far as it knows.
    pub(super) leader: Option<NodeId>,
    /// When it arrived here.
    pub(super) at: Instant,
}

impl Control {
    /// Asks everyone where the cluster is; joins it, or founds it when there is none.
    pub(super) fn seek(&mut self, ctx: &mut Ctx<'_>) {
        if self.consensus.has_log() {
            return; // Admitted already; the leader sends the rest.
        }
        let leaders = self.hinted_leaders();
        for leader in &leaders {
            let join = ControlMessage::Join {
                incarnation: self.incarnation,
                role: self.role,
                workers: self.workers,
            };
            self.tell(ctx, *leader, join);
        }
        if self.may_found(ctx.now()) {
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
            let hello = ControlMessage::Hello {
                incarnation: self.incarnation,
                role: self.role,
                workers: self.workers,
            };
            self.tell(ctx, node, hello);
        }
    }

    /// All configured data and management nodes.
    pub(super) fn configured(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.config.data_nodes.iter().chain(&self.config.management_nodes).copied()
    }

    fn hinted_leaders(&self) -> Vec<NodeId> {
        let answers = self.answers.values().filter(|answer| answer.in_cluster);
        let mut leaders: Vec<NodeId> = answers.filter_map(|answer| answer.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders.retain(|leader| *leader != self.node);
        leaders
    }

    fn may_found(&self, now: Instant) -> bool {
        let lowest = self.configured().min() == Some(self.node);
        // An answer is good for as long as its sender would have repeated it.
        let fresh = self.config.heartbeat_interval.times(8);
        let alone = |node: NodeId| {
            self.answers
                .get(&node)
                .is_some_and(|answer| !answer.in_cluster && now.since(answer.at) < fresh)
        };
        lowest && self.configured().filter(|node| *node != self.node).all(alone)
    }

    pub(super) fn receive_hello(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        incarnation: Incarnation,
        role: NodeRole,
        workers: u8,
    ) {
        if self.is_over(from.node, incarnation) {
            self.tell(ctx, from.node, ControlMessage::Removed { incarnation });
            return;
        }
        // From here on, what an older life of the asker had under way is not listened to: a
        // cluster that it founded and that nobody knows must not come to life later.
        self.note_life(from.node, incarnation);
        if self.configured_role(from.node) != Some(role) || workers == 0 {
            return;
        }
        let reply = ControlMessage::HelloReply {
            incarnation: self.incarnation,
            role: self.role,
            workers: self.workers,
            in_cluster: self.consensus.has_log(),
            leader: self.leader(),
        };
        self.tell(ctx, from.node, reply);
    }

    pub(super) fn note_life(&mut self, node: NodeId, incarnation: Incarnation) {
        let newest = self.lives.entry(node).or_insert(incarnation);
        *newest = incarnation.max(*newest);
    }

    fn configured_role(&self, node: NodeId) -> Option<NodeRole> {
        if self.config.data_nodes.contains(&node) {
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
        let expected = self.configured_role(from.node) == Some(answer.role);
        if !expected || self.is_over(from.node, answer.incarnation) {
            return;
        }
        self.note_life(from.node, answer.incarnation);
        let founder = self.consensus.is_leader() && !self.state.started;
        let own = self.state.member(from.node, answer.incarnation).is_some();
        if founder && answer.in_cluster && !own {
            // Everyone had said to be alone, each at another moment. Nobody has rows of this one.
            probe!(ctx, "control: founder finds another cluster");
            self.halt(ctx, Halt::ClusterStopped("another cluster was there before"));
            return;
        }
        self.answers.insert(from.node, answer);
    }

    /// A node asks the leader to be admitted.
    pub(super) fn receive_join(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        incarnation: Incarnation,
        role: NodeRole,
        workers: u8,
    ) {
        let node = from.node;
        if self.is_over(node, incarnation) {
            self.tell(ctx, node, ControlMessage::Removed { incarnation });
            return;
        }
        self.note_life(node, incarnation);
        let fits = self.configured_role(node) == Some(role) && workers > 0;
        let known = self.state.member(node, incarnation).is_some();
        if !fits || known || node == self.node || !self.consensus.is_ready() {
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
        self.propose(Command::AddMember { node, incarnation, role, workers });
    }

    /// The cluster has gone on without this life.
    pub(super) fn receive_removed(&mut self, ctx: &mut Ctx<'_>, incarnation: Incarnation) {
        if incarnation == self.incarnation {
            let leaving = self.own_member().is_some_and(|m| m.status == MemberStatus::Leaving);
            self.halt(ctx, if leaving { Halt::Left } else { Halt::Removed });
        }
    }
}
