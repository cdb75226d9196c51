//! Leases: the leader lends time to members on the evidence that a quorum follows it.
//!
//! # Guarantees
//! Every lease of a term ends at most `Config::lease` after the last moment at which a quorum of
//! voters followed that term's leader; so all of them have ended that long after a new election.
//! # Not here
//! Who is removed when (`leadership`).

use std::collections::BTreeSet;

use actor::{Ctx, Halt, fault_point, probe};
use model::{Address, ControlIndex, Epoch, Incarnation, MemberStatus, NodeId};
use raftbare::Term;
use stdx::{Duration, Instant};
use wire::{ControlMessage, LeaseRequest};

use super::Control;
use super::leadership::Leadership;
use crate::consensus::voter_of;

impl Control {
    /// A lease plus what clocks that run at different rates may add to it.
    pub(super) fn lease_with_margin(&self) -> Duration {
        self.config.lease + self.config.lease.divided_by(10)
    }

    /// How long a node waits for a leader or a lease before it stops for good. Several elections
    /// fit into it.
    pub(super) fn patience(&self) -> Duration {
        self.config.lease.times(5) + self.config.election_timeout.times(8)
    }

    /// Sends the next heartbeat to every member and every voter.
    pub(super) fn send_heartbeats(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        let term = self.consensus.term();
        if self.leadership.is_some() {
            self.weigh_versions(ctx);
        }
        let protocol = self.versions.of_all();
        let durable = self.witness.known();
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        let sequence = leadership.next_heartbeat(now, self.config.lease);
        self.consensus.heartbeat();
        let mut hearers: BTreeSet<NodeId> = self.state.members.keys().copied().collect();
        if self.durable.is_some() {
            // Some vote as an earlier life, and are no members yet.
            hearers.extend(self.voters());
        }
        for node in hearers.into_iter().filter(|node| *node != self.node) {
            self.tell(ctx, node, ControlMessage::Heartbeat { term, sequence, protocol, durable });
        }
    }

    /// Member: answers the leader of the term it follows, and no other.
    pub(super) fn receive_heartbeat(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        term: Term,
        sequence: u64,
        protocol: u16,
        durable: Epoch,
    ) {
        // The answer is evidence that this voter has not voted in a newer term yet.
        if term != self.consensus.term() || self.leader() != Some(from.node) {
            return;
        }
        self.leader_heard_at = ctx.now();
        self.all_speak(ctx, protocol);
        self.witness.hear(durable);
        let request = LeaseRequest {
            term,
            sequence,
            sent_at: ctx.now(),
            incarnation: self.incarnation,
            voter: self.voter,
            reached: ControlIndex(self.consensus.applied()),
            restored: self.is_restored(),
            protocol: self.versions.own,
            durable: self.witness.known(),
        };
        self.tell(ctx, from.node, ControlMessage::LeaseRequest(request));
        if self.gave_up {
            let stopped = ControlMessage::Stopped { incarnation: self.incarnation };
            self.tell(ctx, from.node, stopped);
        }
    }

    /// Leader: takes the evidence, and lends what it is worth.
    pub(super) fn receive_lease_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        request: LeaseRequest,
    ) {
        if self.was_removed(from.node, request.incarnation) {
            let incarnation = request.incarnation;
            self.tell(ctx, from.node, ControlMessage::Removed { incarnation });
            return;
        }
        let now = ctx.now();
        let known = self.state.member(from.node, request.incarnation).is_some();
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        if request.term != self.consensus.term() {
            return;
        }
        leadership.note_request(now, from.node, request);
        self.witness.hear(request.durable);
        self.versions.note(from.node, request.incarnation, request.protocol);
        if !known {
            return; // It votes as an earlier life that was a member; this one is not lent anything.
        }
        self.note_quorum(ctx);
        let evidence = self.evidence(now);
        let first = self.leadership.as_ref().is_some_and(|l| l.evidence.is_none());
        self.renew_own_lease(ctx, evidence);
        if first && evidence.is_some() {
            // Those that asked before there was a quorum need not wait for the next heartbeat.
            for node in self.state.members.keys().copied().collect::<Vec<_>>() {
                self.grant(ctx, node);
                fault_point!(ctx, "control: between lease grants");
            }
        } else {
            self.grant(ctx, from.node);
        }
    }

    /// The newest time at which heartbeats had been sent that a quorum of voters has answered.
    pub(super) fn evidence(&self, now: Instant) -> Option<Instant> {
        let newest = self.newest_of_quorum(now, Leadership::answered);
        Some(newest).filter(|time| *time > Instant::ZERO)
    }

    /// The newest time that a quorum of voters has reached, each by what the leader knows of it and
    /// this node by now; of both configurations while they change. Zero without leading.
    pub(super) fn newest_of_quorum(
        &self,
        now: Instant,
        time_of: impl Fn(&Leadership, raftbare::NodeId) -> Instant,
    ) -> Instant {
        let Some(leadership) = &self.leadership else {
            return Instant::ZERO;
        };
        let newest = |voters: &BTreeSet<raftbare::NodeId>| {
            let mut times: Vec<Instant> = voters
                .iter()
                .map(|voter| {
                    let own = voter_of(self.node, self.voter) == *voter;
                    if own { now } else { time_of(leadership, *voter) }
                })
                .collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.get(voters.len() / 2).copied().unwrap_or(Instant::FAR_FUTURE)
        };
        let config = self.consensus.config();
        newest(&config.voters).min(newest(&config.new_voters))
    }

    /// Leader: its own lease rests on the same evidence.
    pub(super) fn renew_own_lease(&mut self, ctx: &mut Ctx<'_>, evidence: Option<Instant>) {
        let (Some(evidence), true) = (evidence, self.consensus.is_ready()) else {
            return;
        };
        let until = evidence + self.config.lease;
        let lendable = self.may_hold_lease(self.node);
        let leadership = self.leadership.as_mut().expect("a ready leader has its records");
        leadership.evidence = Some(evidence);
        self.leader_heard_at = self.leader_heard_at.max(evidence);
        if lendable && !self.gave_up && until > ctx.now() {
            self.extend_lease(ctx, until);
        }
    }

    fn extend_lease(&mut self, ctx: &mut Ctx<'_>, until: Instant) {
        if self.own_member().is_some() && until > ctx.view().lease.until() {
            ctx.shared().lease.set(until);
        }
    }

    /// Leader: lends to a member for its newest request.
    fn grant(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        let now = ctx.now();
        if !self.consensus.is_ready() || !self.may_hold_lease(node) {
            return;
        }
        let leadership = self.leadership.as_mut().expect("a ready leader has its records");
        let Some(evidence) = leadership.evidence else {
            return;
        };
        // The request was sent at most now, so its sender's lease ends at most at
        // `evidence + lease`.
        let span = (evidence + self.config.lease).since(now);
        if span == Duration::ZERO {
            probe!(ctx, "control: evidence too old to lend on");
            return;
        }
        if let Some((incarnation, sent_at)) = leadership.take_request(now, node) {
            self.tell(ctx, node, ControlMessage::LeaseGrant { incarnation, sent_at, span });
        }
    }

    /// Member: serves for the time lent.
    pub(super) fn receive_grant(
        &mut self,
        ctx: &mut Ctx<'_>,
        incarnation: Incarnation,
        sent_at: Instant,
        span: Duration,
    ) {
        if incarnation == self.incarnation && !self.gave_up {
            // Not longer than what this node takes for a lease, whatever the leader takes for one:
            // a shorter one is always safe, and a later one than any may never end.
            let until = sent_at.min(ctx.now()) + span.min(self.config.lease);
            self.extend_lease(ctx, until);
        }
    }

    /// Member: the leader is about to remove this life and asks it not to make it wait.
    pub(super) fn receive_stop_serving(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        incarnation: Incarnation,
    ) {
        if incarnation != self.incarnation || self.leader() != Some(from.node) {
            return;
        }
        self.gave_up = true;
        ctx.shared().lease.set(Instant::ZERO);
        fault_point!(ctx, "control: lease given up, not yet confirmed");
        self.tell(ctx, from.node, ControlMessage::Stopped { incarnation });
    }

    /// Stops a node that nobody leads or lends to.
    pub(super) fn watch_patience(&mut self, ctx: &mut Ctx<'_>) {
        if !self.consensus.has_log() {
            return; // Nothing to lose: it goes on seeking.
        }
        let now = ctx.now();
        let patience = self.patience();
        if now.since(self.leader_heard_at) > self.config.lease {
            // Perhaps the cluster went on without this life; whoever knows says so.
            self.say_hello(ctx);
        }
        if self.outlives_cluster() {
            return;
        }
        let serving = self.state.started && self.own_member().is_some();
        let since = if serving {
            ctx.view().lease.until().max(self.lease_expected_since)
        } else {
            self.leader_heard_at
        };
        if now.since(since) <= patience {
            return;
        }
        let leaving = self.own_member().is_some_and(|m| m.status == MemberStatus::Leaving);
        if leaving && self.gave_up {
            self.halt(ctx, Halt::Left);
        } else if serving {
            probe!(ctx, "control: halted without lease");
            self.halt(ctx, Halt::ClusterStopped("no majority of the voters lends a lease"));
        } else {
            probe!(ctx, "control: halted without leader before the start");
            self.halt(ctx, Halt::ClusterStopped("the cluster lost its leader as it formed"));
        }
    }
}
