//! From the committed log to everyone on the node: applying entries, handing out states, and the
//! requests of clients and local actors that end in a log entry.

use std::sync::Arc;

use actor::{Ctx, Halt, Mutation, fault_point, probe};
use model::cluster::{Assembled, StatePiece};
use model::{
    ActorKind, Address, ClusterState, Command, ControlIndex, ErrorCode, MemberStatus, NodeRole,
    SchemaChange, SessionId, WorkerId,
};
use raftbare::{ClusterConfig, LogPosition, Term};
use wire::{ControlMessage, KnownState, Message, RelayMessage};

use super::{Control, control_of};
use crate::consensus::node_of;
use crate::state_machine;

/// A client that waits for the answer to its schema change.
#[derive(Clone, Debug)]
pub(super) struct SchemaWait {
    /// Who asked.
    pub(super) client: Address,
    /// The session's count of schema changes.
    number: u64,
    command: Arc<Command>,
}

/// Most clients that wait for a schema change on one node.
const SCHEMA_WAITS_MAX: usize = 1_024;

/// Whether whoever asks for a command repeats it as long as somebody waits: it must not take effect
/// later, when its order has failed long ago.
fn is_repeated_by_asker(command: &Command) -> bool {
    matches!(command, Command::Configure { .. } | Command::Finalize { .. })
}

impl Control {
    /// Applies what is committed, one state per command. True when there was anything.
    pub(super) fn apply_committed(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let mut any = false;
        while let Some((index, command)) = self.consensus.next_committed() {
            any = true;
            if let Some(command) = command {
                let next = state_machine::apply(&self.state, ControlIndex(index), &command);
                self.take_state(ctx, Arc::new(next));
                if self.halted.is_some() {
                    return true;
                }
            }
        }
        if any && !self.is_drafting() {
            // What a new file begins with is written once for as much that was appended.
            let definitions = self.state.tables.len() as u64;
            self.consensus.compact(definitions / 2);
        }
        any
    }

    /// Makes `state` the node's, and tells everyone on it and the clients that follow it.
    fn take_state(&mut self, ctx: &mut Ctx<'_>, state: Arc<ClusterState>) {
        assert!(state.index > self.state.index, "states go forward");
        let before = std::mem::replace(&mut self.state, state);
        let state = Message::State(self.state.clone());
        self.tell_workers(ctx, ActorKind::Participant, &state);
        fault_point!(ctx, "control: state applied, followers not told");
        self.followers.remember(&self.state);
        if self.shows_state() {
            self.followers.tell_all(ctx);
        }
        self.dismiss_removed(ctx, &before);
        self.watch_own_member(ctx, &before);
        if self.halted.is_none() {
            self.answer_schema_waits(ctx);
            self.proposals.retain(|command| !state_machine::moot(&self.state, command));
            self.repeat_proposals(ctx);
        }
    }

    /// The leader tells lives that have just been removed, in case they are only cut off.
    fn dismiss_removed(&self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        if !self.consensus.is_leader() {
            return;
        }
        for (node, member) in before.members.iter().filter(|(node, _)| **node != self.node) {
            let incarnation = member.incarnation;
            if self.state.member(*node, incarnation).is_none() {
                self.tell(ctx, *node, ControlMessage::Removed { incarnation });
            }
        }
    }

    /// What the new state means for this node itself.
    fn watch_own_member(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let was = before.member(self.node, self.incarnation).map(|m| m.status);
        let is = self.own_member().map(|m| m.status);
        if self.state.stopped {
            if !self.outlives_cluster() {
                self.halt(ctx, Halt::ClusterStopped("a node group has no survivor"));
            }
            return;
        }
        if is.is_none() && (was.is_some() || self.was_removed(self.node, self.incarnation)) {
            let left = was == Some(MemberStatus::Leaving);
            self.halt(ctx, if left { Halt::Left } else { Halt::Removed });
            return;
        }
        let serving = is.is_some() && self.state.started;
        if serving && !(was.is_some() && before.started) {
            self.lease_expected_since = ctx.now();
        }
        if is == Some(MemberStatus::Syncing) && was != is {
            self.syncing_since = Some(self.state.index);
            self.loss.was_given_rows = true;
        } else if is != Some(MemberStatus::Syncing) {
            self.syncing_since = None;
        }
        self.propose_activation();
        self.order_restore(ctx);
    }

    /// A worker of this node has all rows it was to be given.
    pub(super) fn receive_worker_synced(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        worker: WorkerId,
        reached: ControlIndex,
    ) {
        if self.is_own_worker(from, worker) {
            let newest = self.synced.entry(worker).or_insert(reached);
            *newest = reached.max(*newest);
            self.propose_activation();
            self.repeat_proposals(ctx);
        }
    }

    /// Asks for activation once every worker has its rows, judged by a state in which this node
    /// was in the write chains.
    fn propose_activation(&mut self) {
        let Some(since) = self.syncing_since else {
            return;
        };
        let synced = |worker| self.synced.get(&WorkerId(worker)).is_some_and(|at| *at >= since);
        if (0..self.workers).all(synced) {
            let (node, incarnation) = (self.node, self.incarnation);
            self.add_proposal(Arc::new(Command::Activate { node, incarnation }));
        }
    }

    fn add_proposal(&mut self, command: Arc<Command>) {
        let known = self.proposals.contains(&command);
        if !known && !state_machine::moot(&self.state, &command) {
            self.proposals.push(command);
        }
    }

    /// An actor of this node, or another node's control actor, wants a command logged.
    pub(super) fn receive_propose(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        command: Arc<Command>,
    ) {
        if from == control_of(self.node) || from.node != self.node {
            // From a member: its control actor repeats what does not show in its state.
            if self.state.members.contains_key(&from.node) {
                self.lead_proposal(&command);
            }
            return;
        }
        if is_repeated_by_asker(&command) {
            return self.pass_to_leader(ctx, command);
        }
        self.add_proposal(command);
        self.repeat_proposals(ctx);
    }

    /// Sends everything that is to be logged to the leader, again and again until a state shows
    /// it.
    pub(super) fn repeat_proposals(&mut self, ctx: &mut Ctx<'_>) {
        let active = self.own_member().is_some_and(|m| m.status == MemberStatus::Active);
        if self.leave_wanted && active {
            let (node, incarnation) = (self.node, self.incarnation);
            self.add_proposal(Arc::new(Command::Leave { node, incarnation }));
        }
        let waits = self.schema_waits.values().map(|wait| wait.command.clone());
        let commands: Vec<Arc<Command>> = self.proposals.iter().cloned().chain(waits).collect();
        for command in commands {
            self.pass_to_leader(ctx, command);
        }
    }

    fn pass_to_leader(&mut self, ctx: &mut Ctx<'_>, command: Arc<Command>) {
        if self.consensus.is_leader() {
            self.lead_proposal(&command);
        } else {
            self.tell_leader(ctx, ControlMessage::Propose(command));
        }
    }

    /// A client wants to hear of each state.
    pub(super) fn receive_follow(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        known: Option<KnownState>,
        answers_peers: bool,
    ) {
        let follower = Address { actor: ActorKind::Client, ..from };
        self.followers.add(follower, known, answers_peers);
        self.tell_versions(ctx, follower);
        if self.state.index > ControlIndex(0) && self.shows_state() {
            self.followers.tell(ctx, follower);
        }
    }

    /// Passes a question of a client on to others, or an answer to the one that asked.
    pub(super) fn relay(&mut self, ctx: &mut Ctx<'_>, from: Address, relayed: RelayMessage) {
        let mut send = |to, message| ctx.send(to, Message::Relay(Box::new(message)));
        match relayed {
            RelayMessage::Ask { session, request, to, question } => {
                let mut peers = self.followers.answering();
                peers.retain(|peer| peer.node != from.node && to.is_none_or(|to| to == peer.node));
                let asked = RelayMessage::Asked { session, request, peers: peers.clone() };
                send(from, asked);
                for peer in peers {
                    let question = question.clone();
                    send(peer, RelayMessage::Question { asker: from, session, request, question });
                }
            }
            RelayMessage::Reply { asker, session, request, rows } => {
                send(asker, RelayMessage::Told { session, request, peer: from, rows });
            }
            // Those that only clients are sent.
            RelayMessage::Asked { .. }
            | RelayMessage::Question { .. }
            | RelayMessage::Told { .. } => {}
        }
    }

    /// Whether clients may act by the state: not by one of lives that have all ended.
    fn shows_state(&self) -> bool {
        !self.resumed || self.own_member().is_some()
    }

    /// A client asks for a catalog change.
    pub(super) fn receive_schema(
        &mut self,
        ctx: &mut Ctx<'_>,
        client: Address,
        session: SessionId,
        number: u64,
        change: SchemaChange,
    ) {
        let newest = self.schema_waits.get(&session).map(|wait| wait.number);
        if newest.is_some_and(|newest| newest > number) {
            return; // The session has gone on; nobody waits for this answer.
        }
        let full = newest.is_none() && self.schema_waits.len() >= SCHEMA_WAITS_MAX;
        if full || self.role != NodeRole::Data || !self.state.started {
            probe!(ctx, "control: schema change refused");
            self.reply_schema(ctx, client, session, number, Err(ErrorCode::NotServing));
            return;
        }
        let answered = self.state.schema_answers.get(&session);
        let answered = answered.is_some_and(|(newest, _)| *newest >= number);
        if !answered && change.since() > self.versions.of_all() {
            probe!(ctx, "control: schema change that an older member does not know");
            self.reply_schema(ctx, client, session, number, Err(ErrorCode::OlderNode));
            return;
        }
        let change = match change {
            SchemaChange::ChangeAccounts { changes, .. }
                if ctx.mutated(Mutation::AccountsChangedUnseen) =>
            {
                SchemaChange::ChangeAccounts { seen: self.state.accounts_changed, changes }
            }
            other => other,
        };
        let command = Arc::new(Command::Schema { session, number, change });
        self.schema_waits.insert(session, SchemaWait { client, number, command: command.clone() });
        self.answer_schema_waits(ctx);
        if self.schema_waits.contains_key(&session) {
            self.repeat_proposals(ctx);
        }
    }

    fn answer_schema_waits(&mut self, ctx: &mut Ctx<'_>) {
        let mut answered = Vec::new();
        for (session, wait) in &self.schema_waits {
            if let Some((number, result)) = self.state.schema_answers.get(session)
                && *number >= wait.number
            {
                answered.push((*session, wait.client, wait.number, *number, *result));
            }
        }
        for (session, client, asked, number, result) in answered {
            self.schema_waits.remove(&session);
            if asked == number {
                self.reply_schema(ctx, client, session, number, result);
            }
        }
    }

    fn reply_schema(
        &self,
        ctx: &mut Ctx<'_>,
        client: Address,
        session: SessionId,
        number: u64,
        result: Result<model::TableId, ErrorCode>,
    ) {
        let reply = ControlMessage::SchemaReply { session, number, result };
        ctx.send(client, Message::Control(Box::new(reply)));
    }

    /// The leader sends a piece of the state that replaces the log's beginning.
    pub(super) fn receive_snapshot_piece(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        term: Term,
        last: LogPosition,
        config: ClusterConfig,
        piece: StatePiece,
    ) {
        let of = KnownState { cluster: piece.id, index: piece.index };
        let number = piece.number + 1;
        match self.assembly.add(piece) {
            Assembled::Nothing => {}
            Assembled::Part => self.tell(ctx, from.node, ControlMessage::NextPiece { of, number }),
            Assembled::Whole(state) => {
                probe!(ctx, "control: snapshot put together of pieces");
                self.receive_snapshot(ctx, from, term, last, config, state);
            }
        }
    }

    /// The leader sends the state that replaces the log's beginning.
    pub(super) fn receive_snapshot(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        term: Term,
        last: LogPosition,
        config: ClusterConfig,
        state: Arc<ClusterState>,
    ) {
        let sender = config.unique_nodes().filter(|voter| node_of(*voter) == from.node);
        let Some(sender) = sender.max() else {
            return;
        };
        if !self.listens_to(ctx, sender)
            || !self.consensus.install(ctx.now(), state.id, sender, term, last, config)
        {
            return;
        }
        probe!(ctx, "control: snapshot installed");
        self.leader_heard_at = ctx.now();
        if state.index > self.state.index {
            self.take_state(ctx, state);
        }
        if self.halted.is_none() {
            self.tell(ctx, from.node, ControlMessage::SnapshotInstalled { last });
        }
    }
}
