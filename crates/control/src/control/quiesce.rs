//! Changes of write chains in a moment without transactions in them.
//!
//! A node that joins or leaves changes the write chains of its group. A transaction that is open
//! there would be refused: its changes are in the old chains. So before the leader proposes a
//! planned change it asks the coordinators to begin nothing in the group, and waits until what is
//! open there has ended. Who meant to begin there notices a short wait.
//!
//! # Guarantees
//! A transaction that takes longer than `Config::quiesce_time` cannot hold up the group: the
//! attempt is given up, another one follows, and then the change is made all the same.
//! # Not here
//! Deaths: nobody waits for them. What happens to a transaction whose chain changes
//! (`datanode::coordinator`): everything is safe without this, only less pleasant.

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, fault_point, probe};
use model::cluster::HeldGroup;
use model::{
    ActorKind, Address, ClusterState, ControlIndex, Incarnation, MemberStatus, NodeId, NodeRole,
    WorkerId,
};
use raftbare::Term;
use stdx::{Duration, Instant};
use wire::{ControlMessage, CoordinatorMessage, Message};

use super::Control;

/// How often the leader tries to find a moment without transactions.
const ATTEMPTS: u32 = 2;

/// A node that waits for such a moment.
#[derive(Clone, Copy, Debug)]
struct Wish {
    incarnation: Incarnation,
    /// Attempts that have failed.
    failed: u32,
    /// When to try again.
    again_at: Instant,
    /// Its change may be proposed.
    ready: bool,
}

/// The attempt under way.
#[derive(Debug)]
struct Attempt {
    aim: Aim,
    began: Instant,
    /// Members that have not said that nothing is open.
    waits_for: BTreeSet<NodeId>,
}

/// What a quiet moment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// A node joins the chains of its group, or leaves them.
    Node(NodeId),
    /// The primaries of a group that is held move.
    Primaries(HeldGroup),
}

/// How the attempt to find nothing open in a group that is held has come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// There is none.
    NotTried,
    /// Something is open yet.
    Waits,
    /// Nothing is open, and nothing begins.
    Quiet,
    /// Something was open for too long.
    Failed,
}

/// What the leader has asked for.
#[derive(Debug, Default)]
pub(super) struct Quiescence {
    wishes: BTreeMap<NodeId, Wish>,
    /// One at a time: each takes milliseconds as a rule.
    attempt: Option<Attempt>,
    attempts: u64,
}

impl Quiescence {
    /// Forgets nodes that have changed the chains, or are gone, and an attempt that was not
    /// followed up: its node has fallen behind.
    pub(super) fn follow(&mut self, now: Instant, span: Duration, state: &ClusterState) {
        let is_open = |node: &NodeId, incarnation| {
            let member = state.member(*node, incarnation);
            let status = member.map(|member| member.status);
            match status {
                Some(MemberStatus::Leaving) => true,
                // One that was taken out of its group again waits for nothing.
                Some(MemberStatus::Joining) => state.group_with(*node).is_some(),
                _ => false,
            }
        };
        self.wishes.retain(|node, wish| is_open(node, wish.incarnation));
        let wishes = &self.wishes;
        let counts = |attempt: &Attempt| match attempt.aim {
            Aim::Node(node) => {
                wishes.contains_key(&node) && now.since(attempt.began) < span.times(2)
            }
            Aim::Primaries(held) => state.held == Some(held),
        };
        self.attempt = self.attempt.take().filter(counts);
        if let Some(attempt) = &mut self.attempt {
            attempt.waits_for.retain(|node| state.members.contains_key(node));
        }
    }

    /// Whether no node waits for its turn.
    pub(super) fn is_idle(&self) -> bool {
        self.wishes.is_empty() && self.attempt.is_none()
    }

    /// Whether the node's change of the chains may be proposed.
    pub(super) fn is_ready(&self, node: NodeId) -> bool {
        self.wishes.get(&node).is_some_and(|wish| wish.ready)
    }
}

/// What this node's coordinators were asked for.
#[derive(Debug, Default)]
pub(super) struct Quieting {
    /// Counts what was asked of them.
    number: u64,
    /// Who has asked last, unless that is answered.
    asked: Option<Asked>,
    /// Workers that have nothing open.
    quiet: BTreeSet<WorkerId>,
}

/// Who asks a member for a quiet moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) leader: NodeId,
    /// The leader's term.
    pub(super) term: Term,
    /// The number of its attempt.
    pub(super) attempt: u64,
}

impl Control {
    /// Leader: whether the chains of the node's group may be changed now. Until then it sees to
    /// that transactions there come to their end.
    pub(super) fn quiesces_for(&mut self, ctx: &mut Ctx<'_>, node: NodeId) -> bool {
        let now = ctx.now();
        let Some(member) = self.state.members.get(&node) else { return false };
        let incarnation = member.incarnation;
        let span = self.config.quiesce_time;
        let Some(leadership) = &mut self.leadership else { return false };
        let quiescence = &mut leadership.quiescence;
        let wish = Wish { incarnation, failed: 0, again_at: now, ready: false };
        let wish = quiescence.wishes.entry(node).or_insert(wish);
        if wish.ready {
            return true;
        }
        match &quiescence.attempt {
            _ if self.state.held.is_some() => false,
            Some(attempt) if attempt.aim != Aim::Node(node) => false,
            Some(attempt) if attempt.waits_for.is_empty() => {
                probe!(ctx, "control: chains change in a quiet moment");
                quiescence.attempt = None;
                wish.ready = true;
                true
            }
            Some(attempt) if now.since(attempt.began) < span => false,
            Some(_) => {
                probe!(ctx, "control: no quiet moment found");
                quiescence.attempt = None;
                wish.failed += 1;
                wish.again_at = now + self.config.lock_timeout.times(2);
                wish.ready = wish.failed >= ATTEMPTS;
                let ready = wish.ready;
                self.send_quiesce(ctx, node, incarnation, Duration::ZERO);
                ready
            }
            None if now < wish.again_at => false,
            None => {
                quiescence.attempts += 1;
                let waits_for = self.coordinating();
                let attempt = Attempt { aim: Aim::Node(node), began: now, waits_for };
                let leadership = self.leadership.as_mut().expect("checked above");
                leadership.quiescence.attempt = Some(attempt);
                // Until the change is known everywhere, which is after it is proposed.
                self.send_quiesce(ctx, node, incarnation, span.times(2));
                fault_point!(ctx, "control: asked for a quiet moment");
                false
            }
        }
    }

    /// Leader: whether all that was open in a group that is held has ended, at every replica.
    /// Begins to ask, if it is to.
    pub(super) fn quiet_in_held(&mut self, ctx: &mut Ctx<'_>, held: HeldGroup, ask: bool) -> Held {
        let (now, span) = (ctx.now(), self.config.quiesce_time);
        let Some(leadership) = &mut self.leadership else { return Held::NotTried };
        let quiescence = &mut leadership.quiescence;
        match &quiescence.attempt {
            Some(attempt) if attempt.aim != Aim::Primaries(held) => Held::NotTried,
            Some(attempt) if attempt.waits_for.is_empty() => Held::Quiet,
            Some(attempt) if now.since(attempt.began) < span => Held::Waits,
            Some(_) => Held::Failed,
            None if !ask => Held::NotTried,
            None => {
                quiescence.attempts += 1;
                let (attempt, since) = (quiescence.attempts, held.since);
                let (term, waits_for) = (self.consensus.term(), self.coordinating());
                for to in &waits_for {
                    let quiesce = ControlMessage::QuiesceHeld { term, attempt, since };
                    self.tell(ctx, *to, quiesce);
                }
                let attempt = Attempt { aim: Aim::Primaries(held), began: now, waits_for };
                let leadership = self.leadership.as_mut().expect("checked above");
                leadership.quiescence.attempt = Some(attempt);
                Held::Waits
            }
        }
    }

    /// The members whose coordinators have transactions.
    fn coordinating(&self) -> BTreeSet<NodeId> {
        let serves = |status| !matches!(status, MemberStatus::Joining | MemberStatus::Restoring);
        let members = self.state.data_members().filter(|(_, member)| serves(member.status));
        members.map(|(node, _)| node).collect()
    }

    fn send_quiesce(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        incarnation: Incarnation,
        span: Duration,
    ) {
        let term = self.consensus.term();
        let Some(leadership) = &self.leadership else { return };
        let attempt = leadership.quiescence.attempts;
        for to in self.coordinating() {
            let quiesce = ControlMessage::Quiesce { term, attempt, node, incarnation, span };
            self.tell(ctx, to, quiesce);
        }
    }

    /// Member: has its coordinators begin nothing in the chains that are to change.
    pub(super) fn receive_quiesce(
        &mut self,
        ctx: &mut Ctx<'_>,
        asked: Asked,
        node: NodeId,
        incarnation: Incarnation,
        span: Duration,
    ) {
        let Some(number) = self.quieting_for(asked) else { return };
        let quiesce = CoordinatorMessage::Quiesce { number, node, incarnation, span };
        self.tell_workers(ctx, ActorKind::Coordinator, &Message::Coordinator(quiesce));
    }

    /// Member: has its coordinators say when nothing is left in the group that is held.
    pub(super) fn receive_quiesce_held(
        &mut self,
        ctx: &mut Ctx<'_>,
        asked: Asked,
        since: ControlIndex,
    ) {
        let Some(number) = self.quieting_for(asked) else { return };
        let quiesce = CoordinatorMessage::QuiesceHeld { number, since };
        self.tell_workers(ctx, ActorKind::Coordinator, &Message::Coordinator(quiesce));
    }

    /// The number of what this node's coordinators are to be asked for.
    fn quieting_for(&mut self, asked: Asked) -> Option<u64> {
        // It may be the first that is heard of a new leader.
        if asked.term < self.consensus.term() || self.role != NodeRole::Data {
            return None;
        }
        self.quieting.number += 1;
        self.quieting.asked = Some(asked);
        self.quieting.quiet.clear();
        Some(self.quieting.number)
    }

    /// Member: a worker's coordinator has nothing open there.
    pub(super) fn receive_worker_quiet(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        worker: WorkerId,
        number: u64,
    ) {
        if !self.is_own_worker(from, worker) || number != self.quieting.number {
            return;
        }
        self.quieting.quiet.insert(worker);
        if self.quieting.quiet.len() < usize::from(self.workers) {
            return;
        }
        if let Some(Asked { leader, term, attempt }) = self.quieting.asked.take() {
            let incarnation = self.incarnation;
            self.tell(ctx, leader, ControlMessage::Quiet { term, attempt, incarnation });
        }
    }

    /// Leader: a member has nothing open there.
    pub(super) fn receive_quiet(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        term: Term,
        attempt: u64,
        incarnation: Incarnation,
    ) {
        if term != self.consensus.term() || self.state.member(from.node, incarnation).is_none() {
            return;
        }
        let Some(leadership) = &mut self.leadership else { return };
        let quiescence = &mut leadership.quiescence;
        if attempt != quiescence.attempts {
            return;
        }
        let Some(attempt) = &mut quiescence.attempt else { return };
        attempt.waits_for.remove(&from.node);
        if attempt.waits_for.is_empty() {
            self.duties(ctx);
        }
    }
}
