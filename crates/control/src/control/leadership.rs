//! The leader's duties: who belongs, who votes, who has come how far.
//!
//! # Owns
//! What the leader of a term knows of each member; it starts empty with each election.
//! # Guarantees
//! 1. A life is removed only when its lease has certainly ended, its process has, or it has said
//!    that it serves no more.
//! 2. Nobody's silence counts while this node hears no quorum: it may be the deaf one.
//! 3. Nothing is decided before everything committed in earlier terms has been applied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actor::{Ctx, Mutation, fault_point, probe};
use model::cluster::StatePieces;
use model::{
    Address, ClusterId, ClusterState, Command, Config, ControlIndex, Incarnation, Member,
    MemberStatus, NodeId, NodeRole,
};
use raftbare::{ClusterConfig, LogPosition, NodeId as Voter, Term};
use stdx::{Duration, Instant};
use wire::{ControlMessage, KnownState, LeaseRequest};

use super::Control;
use super::followers::WHOLE_MAX;
use super::primaries::Primaries;
use super::quiesce::Quiescence;
use crate::consensus::{node_of, voter_of};
use crate::state_machine;

/// A member this close to the end of the log has caught up with it.
const CAUGHT_UP_WITHIN: u64 = 16;

/// What the leader knows of a member.
#[derive(Clone, Debug)]
struct View {
    incarnation: Incarnation,
    /// It has been heard in this term.
    heard: bool,
    /// When it was heard last; at first the beginning of the term or of its membership.
    heard_at: Instant,
    /// When it was last lent time; at first as `heard_at`, as an earlier leader may have done so.
    granted_at: Instant,
    /// Its clock in a request that has not been granted.
    request: Option<Instant>,
    /// How far it has applied the log.
    reached: ControlIndex,
    /// It has read back all that counts of its disk.
    restored: bool,
}

/// What the leader has heard of a voter, whose member may be another life by now.
#[derive(Clone, Copy, Debug)]
struct Voice {
    /// When it was heard last.
    heard_at: Instant,
    /// When the newest heartbeat it has answered had been sent.
    answered: Instant,
}

/// What a leader knows in its term.
#[derive(Debug)]
pub(super) struct Leadership {
    term: Term,
    elected_at: Instant,
    /// Silence before this is this node's own.
    pub(super) listening_since: Instant,
    /// The newest time at which heartbeats had been sent that a quorum has answered.
    pub(super) evidence: Option<Instant>,
    /// When a quorum was last heard: until then the others' silence is their own.
    quorum_heard_at: Instant,
    sequence: u64,
    /// When recent heartbeats were sent, by sequence.
    sent: VecDeque<(u64, Instant)>,
    views: BTreeMap<NodeId, View>,
    /// Voters that have been heard.
    voices: BTreeMap<Voter, Voice>,
    /// Links between data members that broke, lower node first, with the time of the first report.
    breaks: BTreeMap<(NodeId, NodeId), Instant>,
    /// Members to remove because of a broken link.
    condemned: BTreeSet<NodeId>,
    /// Since when members have been seen to be leaving.
    leaving: BTreeMap<NodeId, Instant>,
    /// Planned changes of write chains.
    pub(super) quiescence: Quiescence,
    pub(super) primaries: Primaries,
    /// Syncing members that have all their rows.
    complete: BTreeSet<NodeId>,
    /// States that were sent to voters, which have not said that they have them.
    snapshots: BTreeMap<Voter, SentSnapshot>,
}

/// A state on its way to a voter.
#[derive(Debug)]
struct SentSnapshot {
    /// When it, or a piece of it, was sent last.
    at: Instant,
    /// How long an answer is waited for before it is sent again.
    patience: Duration,
    /// What is left of a large one, and where it is in the log.
    pieces: Option<(StatePieces, LogPosition, ClusterConfig)>,
}

/// A state is sent again after a heartbeat, then after twice the time before, up to so many
/// heartbeats: a large one takes its time, and what is sent meanwhile makes it slower.
const SNAPSHOT_PATIENCE_MAX: u64 = 64;

impl Leadership {
    fn new(term: Term, now: Instant) -> Self {
        Self {
            term,
            elected_at: now,
            listening_since: now,
            evidence: None,
            quorum_heard_at: now,
            sequence: 0,
            sent: VecDeque::new(),
            views: BTreeMap::new(),
            voices: BTreeMap::new(),
            breaks: BTreeMap::new(),
            condemned: BTreeSet::new(),
            leaving: BTreeMap::new(),
            quiescence: Quiescence::default(),
            primaries: Primaries::default(),
            complete: BTreeSet::new(),
            snapshots: BTreeMap::new(),
        }
    }

    /// Numbers the next heartbeat; forgets those too old to be evidence.
    pub(super) fn next_heartbeat(&mut self, now: Instant, lease: Duration) -> u64 {
        self.sequence += 1;
        self.sent.push_back((self.sequence, now));
        while self.sent.front().is_some_and(|(_, at)| now.since(*at) > lease) {
            self.sent.pop_front();
        }
        self.sequence
    }

    pub(super) fn note_request(&mut self, now: Instant, node: NodeId, request: LeaseRequest) {
        let sent = self.sent.iter().find(|(sequence, _)| *sequence == request.sequence);
        let answered = sent.map_or(Instant::ZERO, |(_, at)| *at);
        let voter = voter_of(node, request.voter);
        let voice = self.voices.entry(voter).or_insert(Voice { heard_at: now, answered });
        voice.heard_at = now;
        voice.answered = voice.answered.max(answered);
        if let Some(view) = self.views.get_mut(&node)
            && view.incarnation == request.incarnation
        {
            view.heard = true;
            view.heard_at = now;
            view.restored = request.restored;
            view.request = Some(request.sent_at);
            view.reached = view.reached.max(request.reached);
        }
    }

    /// When the newest heartbeat had been sent that this voter has answered.
    pub(super) fn answered(&self, voter: Voter) -> Instant {
        self.voices.get(&voter).map_or(Instant::ZERO, |voice| voice.answered)
    }

    /// When this voter was last heard in this term.
    fn heard(&self, voter: Voter) -> Instant {
        self.voices.get(&voter).map_or(Instant::ZERO, |voice| voice.heard_at)
    }

    /// The request of a member that is granted now: its life, and its clock when it asked.
    pub(super) fn take_request(
        &mut self,
        now: Instant,
        node: NodeId,
    ) -> Option<(Incarnation, Instant)> {
        let view = self.views.get_mut(&node)?;
        let sent_at = view.request.take()?;
        view.granted_at = now;
        Some((view.incarnation, sent_at))
    }

    pub(super) fn note_break(&mut self, now: Instant, a: NodeId, b: NodeId) {
        self.breaks.entry((a.min(b), a.max(b))).or_insert(now);
    }

    /// Follows the members of a newer state.
    fn follow(&mut self, now: Instant, config: &Config, state: &ClusterState) {
        self.views.retain(|node, view| state.member(*node, view.incarnation).is_some());
        let same = |node: &NodeId, views: &BTreeMap<NodeId, View>| views.contains_key(node);
        self.breaks.retain(|(a, b), _| same(a, &self.views) && same(b, &self.views));
        self.condemned.retain(|node| same(node, &self.views));
        for (node, member) in &state.members {
            self.views.entry(*node).or_insert_with(|| View {
                incarnation: member.incarnation,
                heard: false,
                heard_at: now,
                granted_at: now,
                request: None,
                reached: ControlIndex(0),
                restored: false,
            });
        }
        let is =
            |node: &NodeId, status| state.members.get(node).is_some_and(|m| m.status == status);
        self.complete.retain(|node| is(node, MemberStatus::Syncing));
        self.leaving.retain(|node, _| is(node, MemberStatus::Leaving));
        self.quiescence.follow(now, config.quiesce_time, state);
        for (node, member) in &state.members {
            if member.status == MemberStatus::Leaving {
                self.leaving.entry(*node).or_insert(now);
            }
        }
    }
}

impl Control {
    /// Whether the duties do not fit the role any more.
    pub(super) fn role_changed(&self) -> bool {
        let term = self.leadership.as_ref().map(|leadership| leadership.term);
        term != self.consensus.is_leader().then(|| self.consensus.term())
    }

    /// Takes up or lays down the leader's duties.
    pub(super) fn follow_role(&mut self, ctx: &mut Ctx<'_>) {
        if !self.role_changed() {
            return;
        }
        let before = self.leadership.take();
        if self.consensus.is_leader() {
            let mut leadership = Leadership::new(self.consensus.term(), ctx.now());
            leadership.follow(ctx.now(), &self.config, &self.state);
            self.leadership = Some(leadership);
            self.versions.begin_leading();
            self.leader_heard_at = ctx.now();
            fault_point!(ctx, "control: elected, nobody told");
            self.send_heartbeats(ctx);
            return;
        }
        if let Some(before) = before.filter(|before| before.term == self.consensus.term()) {
            // It led its own removal from the voters; the others need not find out by silence.
            self.announce_resignation(ctx, before.term);
        }
    }

    fn announce_resignation(&self, ctx: &mut Ctx<'_>, term: Term) {
        for node in self.configured().filter(|node| *node != self.node) {
            self.tell(ctx, node, ControlMessage::Resigned { term });
        }
    }

    /// The leader's part of a tick.
    pub(super) fn lead(&mut self, ctx: &mut Ctx<'_>) {
        if self.consensus.stand_again_if_alone() {
            probe!(ctx, "control: sole voter elected anew");
            return;
        }
        if self.leadership.is_none() {
            return;
        }
        self.send_heartbeats(ctx);
        self.note_quorum(ctx);
        let evidence = self.evidence(ctx.now());
        self.renew_own_lease(ctx, evidence);
        let leadership = self.leadership.as_ref().expect("checked above");
        let followed = evidence.unwrap_or(Instant::ZERO).max(leadership.elected_at);
        let silence = ctx.now().since(followed.max(leadership.listening_since));
        if silence > self.config.lease + self.config.election_timeout {
            // Those who still hear it must not wait for a leader that hears nobody.
            probe!(ctx, "control: leader without quorum resigned");
            return self.step_down(ctx);
        }
        self.ask_doomed_to_stop(ctx);
        self.duties(ctx);
    }

    /// Notes that a quorum was heard. After a while without one, whom this node has not heard
    /// again yet may only be later than the others: it listens anew before it judges.
    pub(super) fn note_quorum(&mut self, ctx: &mut Ctx<'_>) {
        let heard = self.newest_of_quorum(ctx.now(), Leadership::heard);
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        if heard.since(leadership.quorum_heard_at) > self.config.lease.divided_by(2) {
            probe!(ctx, "control: leader hears a quorum again");
            leadership.listening_since = ctx.now();
        }
        leadership.quorum_heard_at = heard.max(leadership.quorum_heard_at);
    }

    /// All that a leader decides; called at each tick and after each applied entry.
    pub(super) fn duties(&mut self, ctx: &mut Ctx<'_>) {
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        leadership.follow(ctx.now(), &self.config, &self.state);
        if !self.consensus.is_ready() {
            return;
        }
        if self.awaits_restart() {
            return self.restart(ctx);
        }
        if self.state.stopped {
            return;
        }
        if self.state.id == ClusterId(0) {
            let (cluster, protocol) = (self.consensus.cluster(), self.versions.own);
            self.propose(Command::Found { cluster, protocol });
            return;
        }
        if self.own_member().is_none() {
            return self.admit_own_life();
        }
        // One that has just been elected need not wait for a tick to remove those it knows dead.
        self.report_links(ctx);
        self.judge_breaks(ctx);
        self.quiesce_leaving(ctx);
        self.end_lives(ctx);
        self.reconcile_voters(ctx);
        self.advance_members(ctx);
    }

    /// Finds a quiet moment for the members that leave.
    fn quiesce_leaving(&mut self, ctx: &mut Ctx<'_>) {
        let leaves = |(node, member): (&NodeId, &Member)| {
            let leaves = member.role == NodeRole::Data && member.status == MemberStatus::Leaving;
            // A vote is taken in good order too.
            let left = leaves && *node != self.node && self.consensus.config_settled();
            (left && !self.votes(*node, member.voter)).then_some(*node)
        };
        let leaving: Vec<NodeId> = self.state.members.iter().filter_map(leaves).collect();
        for node in leaving {
            if self.quiesces_for(ctx, node) {
                self.ask_doomed_to_stop(ctx);
            }
        }
    }

    /// Logs a command, unless it is on its way already or would change nothing.
    pub(super) fn propose(&mut self, command: Command) -> bool {
        if !self.consensus.is_ready() || self.consensus.pending().any(|c| **c == command) {
            return false;
        }
        !state_machine::moot(&self.state, &command) && self.consensus.propose(Arc::new(command))
    }

    /// Whether the leader may lend to this member. Not any more once its removal is on its way.
    pub(super) fn may_hold_lease(&self, node: NodeId) -> bool {
        let removal = |command: &Arc<Command>| {
            // Of whichever life: a node is a member once.
            matches!(**command, Command::RemoveMember { node: removed, .. } if removed == node)
        };
        !self.is_doomed(node) && !self.consensus.pending().any(removal) && !self.awaits_restart()
    }

    /// Whether a lease that this member was granted may not have ended yet.
    pub(super) fn may_hold_old_lease(&self, now: Instant, node: NodeId) -> bool {
        self.view(node).is_none_or(|view| now.since(view.granted_at) < self.lease_with_margin())
    }

    /// Whether the member is to be removed as soon as it has stopped serving.
    fn is_doomed(&self, node: NodeId) -> bool {
        let Some(leadership) = &self.leadership else {
            return false;
        };
        let grace = match self.state.members.get(&node) {
            // Longer than all attempts to find a quiet moment.
            Some(member) if member.role == NodeRole::Data => self.config.lock_timeout.times(4),
            _ => Duration::ZERO,
        };
        let since = leadership.leaving.get(&node);
        let leaves = since.is_some_and(|since| self.ticked_at.since(*since) >= grace);
        let quiet = since.is_some() && leadership.quiescence.is_ready(node);
        leaves || quiet || leadership.condemned.contains(&node)
    }

    pub(super) fn ask_doomed_to_stop(&mut self, ctx: &mut Ctx<'_>) {
        let doomed = self.state.members.iter().filter(|(node, _)| self.is_doomed(**node));
        for (node, member) in doomed.filter(|(node, _)| **node != self.node) {
            let incarnation = member.incarnation;
            self.tell(ctx, *node, ControlMessage::StopServing { incarnation });
        }
    }

    /// A member has given up its lease for good.
    pub(super) fn receive_stopped(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        incarnation: Incarnation,
    ) {
        let node = from.node;
        if self.state.member(node, incarnation).is_some()
            && self.propose(Command::RemoveMember { node, incarnation })
        {
            probe!(ctx, "control: member removed as it stopped");
        }
    }

    /// Removes members whose lease has certainly ended: silent ones and doomed ones.
    fn end_lives(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        let hasty = ctx.mutated(Mutation::RemoveBeforeLeaseEnds);
        let wait =
            if hasty { self.config.heartbeat_interval.times(2) } else { self.lease_with_margin() };
        let leadership = self.leadership.as_ref().expect("the duties of a leader");
        // Who is silent to a leader that no quorum answers is not known to be the dead one.
        if leadership.evidence.is_none_or(|at| now >= at + self.config.lease) {
            return;
        }
        let mut ended = Vec::new();
        for (node, view) in leadership.views.iter().filter(|(node, _)| **node != self.node) {
            let heard_at = view.heard_at.max(leadership.listening_since);
            let silent = leadership.quorum_heard_at.since(heard_at) >= wait;
            let lease_over = hasty || now.since(view.granted_at) >= wait;
            if lease_over && (silent || self.is_doomed(*node)) {
                ended.push((*node, view.incarnation));
            }
        }
        for (node, incarnation) in ended {
            if self.propose(Command::RemoveMember { node, incarnation }) {
                probe!(ctx, "control: member removed after its lease");
            }
        }
    }

    /// Two live data members that have lost messages between them cannot both go on: condemns the
    /// one with more broken links, if equal the one that is late, then the younger, once neither
    /// turned out to be dead.
    ///
    /// A node that is cut off loses many links within a short time, and which of them is told of
    /// first says nothing: judges one member at a time, and only when no new break has been told
    /// of for a lease, or the oldest has waited for three.
    fn judge_breaks(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        let leadership = self.leadership.as_ref().expect("the duties of a leader");
        if now.since(leadership.listening_since) < self.config.lease {
            return;
        }
        let settled = |node| leadership.condemned.contains(&node) || !self.is_heard(now, node);
        let open: Vec<((NodeId, NodeId), Instant)> = leadership
            .breaks
            .iter()
            .filter(|((a, b), _)| !settled(*a) && !settled(*b))
            .map(|(pair, at)| (*pair, *at))
            .collect();
        let (Some(oldest), Some(newest)) =
            (open.iter().map(|(_, at)| *at).min(), open.iter().map(|(_, at)| *at).max())
        else {
            return;
        };
        let lease = self.config.lease;
        if now.since(newest) < lease && now.since(oldest) < lease.times(3) {
            return;
        }
        let mut degrees: BTreeMap<NodeId, usize> = BTreeMap::new();
        for ((a, b), _) in &open {
            *degrees.entry(*a).or_default() += 1;
            *degrees.entry(*b).or_default() += 1;
        }
        let late = self.late_members(now);
        let rank = |(node, degree): (&NodeId, &usize)| {
            (*degree, late.contains(node), self.state.members[node].joined_at, *node)
        };
        let mut ranked: Vec<_> = degrees.iter().map(rank).collect();
        ranked.sort_unstable();
        let victim = ranked.into_iter().rev().map(|(.., node)| node).find(|n| self.can_spare(*n));
        if let Some(victim) = victim {
            probe!(ctx, "control: member condemned for a broken link");
            let leadership = self.leadership.as_mut().expect("the duties of a leader");
            leadership.condemned.insert(victim);
        }
    }

    /// Members whose lines or hosts are slow: their answers take longer than half a lease. When
    /// most of the others' do, it is this node that is slow.
    fn late_members(&self, now: Instant) -> BTreeSet<NodeId> {
        let leadership = self.leadership.as_ref().expect("the duties of a leader");
        let patience = self.config.lease.divided_by(2);
        let others = self.state.members.iter().filter(|(node, _)| **node != self.node);
        let late: BTreeSet<NodeId> = others
            .clone()
            .filter(|(node, member)| {
                now.since(leadership.answered(voter_of(**node, member.voter))) > patience
            })
            .map(|(node, _)| *node)
            .collect();
        // Of two that are late for each other nobody can tell which one it is.
        let own = late.len() > 1 && 2 * late.len() > others.count();
        if own { BTreeSet::from([self.node]) } else { late }
    }

    /// Whether this leader hears one of two members late, or all of them, so that it is itself
    /// behind a slow line.
    pub(super) fn is_line_slow(&self, now: Instant, between: [NodeId; 2]) -> bool {
        self.leadership.is_some() && {
            let late = self.late_members(now);
            late.contains(&self.node) || between.iter().any(|node| late.contains(node))
        }
    }

    /// Removes a member that holds up the others as soon as it has stopped serving.
    pub(super) fn condemn(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        if let Some(leadership) = &mut self.leadership
            && leadership.condemned.insert(node)
        {
            self.ask_doomed_to_stop(ctx);
        }
    }

    /// Whether the cluster goes on without this member.
    pub(super) fn can_spare(&self, node: NodeId) -> bool {
        let incarnation = self.state.members[&node].incarnation;
        let removal = Command::RemoveMember { node, incarnation };
        let index = ControlIndex(self.state.index.0 + 1);
        !state_machine::apply(&self.state, index, &removal).stopped
    }

    pub(super) fn is_heard(&self, now: Instant, node: NodeId) -> bool {
        self.is_heard_within(now, node, self.config.lease)
    }

    fn is_heard_within(&self, now: Instant, node: NodeId, span: Duration) -> bool {
        node == self.node
            || self.view(node).is_some_and(|v| v.heard && now.since(v.heard_at) < span)
    }

    fn has_caught_up(&self, now: Instant, node: NodeId) -> bool {
        let near = self.view(node).is_some_and(|view| {
            view.reached.0.saturating_add(CAUGHT_UP_WITHIN) >= self.consensus.applied()
                && view.reached >= self.state.members[&node].joined_at
        });
        node == self.node || (near && self.is_heard(now, node))
    }

    /// Who should vote: the complete data members, and a management member to make their number
    /// odd. `None` to leave it as it is.
    fn wanted_voters(&self, now: Instant) -> Option<BTreeSet<Voter>> {
        let config = self.consensus.config();
        let leadership = self.leadership.as_ref()?;
        let votes =
            |node: NodeId, member: &Member| config.voters.contains(&voter_of(node, member.voter));
        let stays = |node: NodeId, member: &Member| {
            member.status != MemberStatus::Leaving && !leadership.condemned.contains(&node)
        };
        let complete = |node: NodeId, member: &Member| {
            (!self.state.started && self.config.data_nodes.contains(&node))
                || member.status == MemberStatus::Active
                || leadership.complete.contains(&node)
        };
        let mut voters: BTreeSet<Voter> = self
            .state
            .data_members()
            .filter(|(node, member)| stays(*node, member))
            .filter(|(node, member)| {
                votes(*node, member) || (complete(*node, member) && self.has_caught_up(now, *node))
            })
            .map(|(node, member)| voter_of(node, member.voter))
            .collect();
        if voters.is_empty() {
            return None;
        }
        // While a voter is silent, perhaps dead and about to be removed, the tie-breaker stays: it
        // may be needed a moment later, and going and coming back takes two changes.
        let recent = self.config.heartbeat_interval.times(3);
        let silent = |voter: &Voter| !self.is_heard_within(now, node_of(*voter), recent);
        let even = voters.len().is_multiple_of(2);
        let unsteady = voters.iter().any(silent);
        let tie_breaker = self.tie_breaker(now);
        voters.extend(tie_breaker.filter(|tie| even || (unsteady && config.voters.contains(tie))));
        Some(voters)
    }

    /// The management member that votes when the data members are even in number: the first that
    /// lives. The one that votes already stays, even silent, until another can replace it.
    fn tie_breaker(&self, now: Instant) -> Option<Voter> {
        let config = self.consensus.config();
        let candidates = self.config.management_nodes.iter().filter_map(|node| {
            let member = self.state.members.get(node)?;
            let voter = voter_of(*node, member.voter);
            let stays = member.status != MemberStatus::Leaving;
            let usable = stays && self.has_caught_up(now, *node);
            let rank = (usable, config.voters.contains(&voter));
            (rank != (false, false)).then_some((rank, voter))
        });
        let best = candidates.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, voter)| voter)
    }

    /// Moves the configuration of the consensus one step towards what it should be.
    fn reconcile_voters(&mut self, ctx: &mut Ctx<'_>) {
        let removal = |command: &Arc<Command>| matches!(**command, Command::RemoveMember { .. });
        if !self.consensus.config_settled() || self.consensus.pending().any(removal) {
            return; // One step for several deaths is safer than one step for each.
        }
        let current = self.consensus.config();
        let wanted = self.wanted_voters(ctx.now()).unwrap_or_else(|| current.voters.clone());
        let me = voter_of(self.node, self.voter);
        if current.voters.contains(&me) && !wanted.contains(&me) && self.durable.is_some() {
            return self.hand_over(ctx, &wanted);
        }
        let members = self.state.members.iter().map(|(node, m)| voter_of(*node, m.voter));
        let mut next = ClusterConfig { voters: current.voters.clone(), ..ClusterConfig::default() };
        if wanted != current.voters {
            next.new_voters = wanted;
        }
        next.non_voters = members
            .filter(|voter| !next.voters.contains(voter) && !next.new_voters.contains(voter))
            .collect();
        if next != *current && self.consensus.propose_config(next) {
            fault_point!(ctx, "control: change of voters proposed");
        }
    }

    /// Lets another lead that is to keep its vote. A leader that took its own vote away might be
    /// the only one to know it when all lose power: its log would be the longest, and it could not
    /// be elected.
    fn hand_over(&mut self, ctx: &mut Ctx<'_>, wanted: &BTreeSet<Voter>) {
        let now = ctx.now();
        let ready = |voter: &Voter| {
            let node = node_of(*voter);
            self.state.members.contains_key(&node) && self.has_caught_up(now, node)
        };
        if let Some(successor) = wanted.iter().find(|voter| ready(voter)).copied() {
            probe!(ctx, "control: leader hands over before it loses its vote");
            self.step_down_for(ctx, successor);
        }
    }

    /// Lets another lead before this node leaves, so that its end interrupts nothing.
    pub(super) fn hand_over_to_leave(&mut self, ctx: &mut Ctx<'_>) {
        if !self.consensus.is_ready() || !self.consensus.config_settled() {
            return;
        }
        let me = voter_of(self.node, self.voter);
        let others: BTreeSet<Voter> =
            self.consensus.config().voters.iter().copied().filter(|voter| *voter != me).collect();
        self.hand_over(ctx, &others);
    }

    /// Leads no more, and has this voter stand for election.
    fn step_down_for(&mut self, ctx: &mut Ctx<'_>, successor: Voter) {
        let term = self.consensus.term();
        self.step_down(ctx);
        fault_point!(ctx, "control: resigned, successor not told");
        self.tell(ctx, node_of(successor), ControlMessage::Succeed { term });
    }

    fn step_down(&mut self, ctx: &mut Ctx<'_>) {
        let term = self.consensus.term();
        self.consensus.resign();
        self.leadership = None;
        self.announce_resignation(ctx, term);
    }

    /// Proposes the next step of members that have come far enough.
    fn advance_members(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        if !self.state.started {
            if self.state.slots.is_empty() {
                self.propose_start(now)
            } else {
                self.reopen(now)
            }
            return;
        }
        let mut steps = Vec::new();
        let state = self.state.clone();
        for (node, member) in &state.members {
            let (node, incarnation) = (*node, member.incarnation);
            let joining = member.status == MemberStatus::Joining && self.has_caught_up(now, node);
            let placed = self.state.group_with(node).is_some();
            match member.role {
                NodeRole::Data
                    if joining
                        && placed
                        && self.has_restored(node)
                        && self.quiesces_for(ctx, node) =>
                {
                    steps.push(Command::StartSync { node, incarnation });
                }
                NodeRole::Management if joining => {
                    steps.push(Command::Activate { node, incarnation });
                }
                // It votes before it counts as a copy: otherwise the loss of the others right
                // after would leave all rows, but no majority.
                NodeRole::Data if self.is_complete(node) && self.votes(node, member.voter) => {
                    steps.push(Command::Activate { node, incarnation });
                }
                _ => {}
            }
        }
        steps.extend(self.next_step_of_groups());
        for step in steps {
            self.propose(step);
        }
        self.spread_primaries(ctx);
    }

    /// Whether the member has read back all that counts of its disk.
    pub(super) fn has_restored(&self, node: NodeId) -> bool {
        match node == self.node {
            _ if self.durable.is_none() => true,
            true => self.is_restored(),
            false => self.view(node).is_some_and(|view| view.restored),
        }
    }

    /// What this node knows of a member, if it leads.
    fn view(&self, node: NodeId) -> Option<&View> {
        self.leadership.as_ref()?.views.get(&node)
    }

    /// Whether a member has been heard in its present life since this node leads.
    pub(super) fn is_heard_in_term(&self, node: NodeId) -> bool {
        self.view(node).is_some_and(|view| view.heard)
    }

    /// When this node was elected.
    pub(super) fn led_since(&self) -> Instant {
        self.leadership.as_ref().map_or(Instant::FAR_FUTURE, |leadership| leadership.elected_at)
    }

    /// This node leads and is no member: it has founded the cluster, or it votes as an earlier life
    /// in one that goes on without a restart, whose place its new life takes.
    fn admit_own_life(&mut self) {
        let node = self.node;
        match self.state.members.get(&node).map(|member| member.incarnation) {
            Some(incarnation) => self.propose(Command::RemoveMember { node, incarnation }),
            None => self.propose(Command::AddMember {
                node,
                incarnation: self.incarnation,
                voter: self.voter,
                role: self.role,
                workers: self.workers,
            }),
        };
    }

    fn is_complete(&self, node: NodeId) -> bool {
        self.leadership.as_ref().is_some_and(|leadership| leadership.complete.contains(&node))
    }

    fn votes(&self, node: NodeId, voter: Incarnation) -> bool {
        let config = self.consensus.config();
        self.consensus.config_settled() && config.voters.contains(&voter_of(node, voter))
    }

    /// Starts the cluster when everyone configured is there and the voters are as they should be.
    fn propose_start(&mut self, now: Instant) {
        let all = self
            .founders()
            .all(|node| self.state.members.contains_key(&node) && self.has_caught_up(now, node));
        let settled = self.consensus.config_settled()
            && self.wanted_voters(now).as_ref() == Some(&self.consensus.config().voters);
        if all && settled {
            let size = usize::from(self.config.replicas.max(1));
            let groups = self.config.data_nodes.chunks(size).map(<[NodeId]>::to_vec).collect();
            self.propose(Command::Start { groups });
        }
    }

    /// A command that another actor or node wants logged.
    pub(super) fn lead_proposal(&mut self, command: &Command) {
        if !self.may_log(command) {
            return; // Who asked for it did not know yet that a member is older.
        }
        if let Command::Activate { node, incarnation } = command {
            let syncing = self
                .state
                .member(*node, *incarnation)
                .is_some_and(|m| m.status == MemberStatus::Syncing);
            if let (true, Some(leadership)) = (syncing, &mut self.leadership) {
                leadership.complete.insert(*node);
            }
            return;
        }
        self.propose(command.clone());
    }

    /// Sends the applied state to one who lacks the log's beginning, unless one is under way.
    pub(super) fn send_snapshot(&mut self, ctx: &mut Ctx<'_>, to: Voter) {
        let now = ctx.now();
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        let heartbeat = self.config.heartbeat_interval;
        let patience = match leadership.snapshots.get(&to) {
            Some(sent) if now.since(sent.at) < sent.patience => return,
            Some(sent) => {
                (sent.patience + sent.patience).min(heartbeat.times(SNAPSHOT_PATIENCE_MAX))
            }
            None => heartbeat,
        };
        probe!(ctx, "control: snapshot sent");
        let (last, config) = self.consensus.position();
        let term = self.consensus.term();
        let state = self.state.clone();
        let (snapshot, pieces) = if state.catalog_entries() > WHOLE_MAX {
            let mut pieces = StatePieces::of(state);
            let piece = Box::new(pieces.take().expect("a state has a first piece"));
            let left = Some((pieces, last, config.clone()));
            (ControlMessage::SnapshotPiece { term, last, config, piece }, left)
        } else {
            (ControlMessage::Snapshot { term, last, config, state }, None)
        };
        leadership.snapshots.insert(to, SentSnapshot { at: now, patience, pieces });
        self.tell(ctx, node_of(to), snapshot);
    }

    /// A node has all pieces of the state before this one.
    pub(super) fn continue_snapshot(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        of: KnownState,
        number: u32,
    ) {
        let term = self.consensus.term();
        let Some(leadership) = &mut self.leadership else { return };
        let mut sent = leadership.snapshots.iter_mut();
        let Some((_, sent)) = sent.find(|(voter, _)| node_of(**voter) == node) else { return };
        let Some((pieces, last, config)) = &mut sent.pieces else { return };
        let is_sent = (pieces.state().id, pieces.state().index) == (of.cluster, of.index);
        if !is_sent || pieces.taken() != number {
            return;
        }
        let Some(piece) = pieces.take() else { return };
        sent.at = ctx.now();
        let (last, config, piece) = (*last, config.clone(), Box::new(piece));
        self.tell(ctx, node, ControlMessage::SnapshotPiece { term, last, config, piece });
        fault_point!(ctx, "control: piece of a snapshot sent");
    }

    /// A node has the state that it was sent, or its link broke and it will not get it.
    pub(super) fn end_snapshot(&mut self, node: NodeId) {
        if let Some(leadership) = &mut self.leadership {
            leadership.snapshots.retain(|voter, _| node_of(*voter) != node);
        }
    }
}
