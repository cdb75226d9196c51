//! Following the cluster's state: one data node is asked to report each change.
//!
//! Another one is asked when the followed node is lost, is no member any more, or when answers are
//! late: a client whose followed node is cut off learns of nothing. A large state comes in pieces,
//! and each piece is an answer.

use actor::{Ctx, probe};
use model::cluster::{Assembled, StateAssembly, StatePiece};
use model::{ActorKind, Address, ClusterState, NodeId, NodeRole, StateChange, WorkerId};
use stdx::{Duration, Instant};
use wire::{ControlMessage, KnownState, Message};

use super::Client;
use super::route::{Life, life_of};

/// How long to wait for a node's first answer before another one is asked.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long to wait for the next piece of a state: another node would begin with the first.
const PIECE_PATIENCE: Duration = Duration::from_millis(1_000);

/// Who is followed.
#[derive(Debug)]
pub(super) struct Follower {
    followed: Option<NodeId>,
    since: Instant,
    /// When to ask another node, unless the state says that all is well.
    due: Instant,
    /// The newest protocol version that all members speak.
    protocol: u16,
    /// The followed node has told it.
    told: bool,
    /// The state that it sends in pieces.
    assembly: StateAssembly,
}

impl Default for Follower {
    fn default() -> Self {
        Self {
            followed: None,
            since: Instant::ZERO,
            due: Instant::FAR_FUTURE,
            protocol: 0,
            told: false,
            assembly: StateAssembly::default(),
        }
    }
}

impl Follower {
    /// Nobody is followed yet.
    pub(super) fn idle(&self) -> bool {
        self.followed.is_none()
    }

    /// The node whose control actor is asked first.
    pub(super) fn followed(&self) -> Option<NodeId> {
        self.followed
    }

    /// The newest protocol version that all members speak.
    pub(super) fn protocol(&self) -> u16 {
        self.protocol.max(wire::PROTOCOL_VERSION_MIN)
    }

    /// When to look again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

/// The control actor of a node.
pub(super) fn control_of(node: NodeId) -> Address {
    Address { node, worker: WorkerId(0), actor: ActorKind::Control }
}

/// Asks a node to tell its state, and each change of it from now on; says whether this client
/// answers questions of others.
fn ask(ctx: &mut Ctx<'_>, node: NodeId, answers_peers: bool) {
    let known = KnownState { cluster: ctx.cluster().id, index: ctx.cluster().index };
    let follow = ControlMessage::Follow { known: Some(known), answers_peers };
    ctx.send(control_of(node), Message::Control(Box::new(follow)));
}

/// Whether the state shows `node` as a data node that reports to its followers.
fn reports(cluster: &ClusterState, node: NodeId) -> bool {
    cluster.members.get(&node).is_some_and(|member| member.role == NodeRole::Data)
}

impl Client {
    /// The newest protocol version that all members of the cluster speak, as far as is known here.
    /// A change of definitions that is newer is refused.
    pub fn protocol(&self) -> u16 {
        self.follower.protocol()
    }

    /// A control actor says what all members speak.
    pub(super) fn all_speak(&mut self, node: NodeId, protocol: u16) {
        if self.follower.followed == Some(node) {
            self.follower.protocol = protocol;
            self.follower.told = true;
        }
    }

    /// Follows the next data node.
    pub(super) fn follow(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster();
        let mut nodes: Vec<NodeId> = cluster.data_members().map(|(node, _)| node).collect();
        if nodes.is_empty() {
            // Those that the cluster was founded with may have left it since.
            nodes.clone_from(&ctx.config().data_nodes);
            nodes.extend(&ctx.config().spare_nodes);
            nodes.sort_unstable();
        }
        let welcome = |node: &NodeId| {
            let life = life_of(cluster, *node);
            life.is_none_or(|life| self.avoided.welcome(life, ctx.now()))
        };
        if nodes.iter().any(welcome) {
            nodes.retain(welcome);
        }
        nodes.sort_unstable();
        let next = match self.follower.followed {
            // Clients spread over the nodes from the start.
            None => (!nodes.is_empty()).then(|| *ctx.prng().pick(&nodes)),
            Some(last) => nodes.iter().find(|node| **node > last).or(nodes.first()).copied(),
        };
        self.follower.since = ctx.now();
        self.follower.due = ctx.now() + PATIENCE;
        if let Some(node) = next {
            self.follower.followed = Some(node);
            self.follower.told = false;
            ask(ctx, node, self.options.answers_peers);
        }
    }

    /// A node has told what is different in its state. When that was made for another state than
    /// the one that is known here, and is newer, the followed node is asked again.
    pub(super) fn followed_tells(&mut self, ctx: &mut Ctx<'_>, node: NodeId, change: &StateChange) {
        let known = change.id() == ctx.cluster().id && change.index() <= ctx.cluster().index;
        if known {
            return self.followed_answers(ctx, node);
        }
        if self.follower.followed == Some(node) {
            probe!(ctx, "client: told of a change of a state that it does not have");
            ask(ctx, node, self.options.answers_peers);
        }
    }

    /// A node sends a piece of its state. That of another node than the followed one is not asked
    /// for its next one.
    pub(super) fn followed_sends(&mut self, ctx: &mut Ctx<'_>, node: NodeId, piece: StatePiece) {
        if self.follower.followed != Some(node) {
            probe!(ctx, "client: piece of a state of a node that is not followed any more");
            return;
        }
        let of = KnownState { cluster: piece.id, index: piece.index };
        let number = piece.number + 1;
        let assembled = self.follower.assembly.add(piece);
        if matches!(assembled, Assembled::Nothing) {
            return;
        }
        if self.follower.due != Instant::FAR_FUTURE {
            self.follower.due = ctx.now() + PIECE_PATIENCE;
        }
        let next = ControlMessage::NextPiece { of, number };
        ctx.send(control_of(node), Message::Control(Box::new(next)));
        if let Assembled::Whole(state) = assembled {
            probe!(ctx, "client: state put together of pieces");
            ctx.send(ctx.me(), Message::State(state));
        }
    }

    /// Asks another node, unless that was just done.
    pub(super) fn follow_another(&mut self, ctx: &mut Ctx<'_>) {
        if self.options.follow && ctx.now().since(self.follower.since) >= PATIENCE {
            probe!(ctx, "client: follows another node");
            self.follow(ctx);
        }
    }

    /// A life is lost; if it was followed, another one is at the next occasion.
    pub(super) fn follow_lost(&mut self, ctx: &mut Ctx<'_>, lost: Life) {
        if self.options.follow && self.follower.followed == Some(lost.node) {
            probe!(ctx, "client: followed node lost");
            self.follower.due = ctx.now();
        }
    }

    /// Judges the followed node by a new state.
    pub(super) fn followed_changed(&mut self, ctx: &mut Ctx<'_>) {
        if !self.options.follow || self.follower.idle() {
            return;
        }
        let followed = self.follower.followed.expect("not idle");
        if ctx.cluster().started && !reports(ctx.cluster(), followed) {
            probe!(ctx, "client: followed node is no member any more");
            self.follower.due = ctx.now();
        }
    }

    /// A node has told its state. Stops looking for another one if it is the followed node, the
    /// cluster is known to be started, and the node belongs to it.
    pub(super) fn followed_answers(&mut self, ctx: &Ctx<'_>, node: NodeId) {
        let followed = self.follower.followed == Some(node);
        if followed && !self.follower.told {
            // One that knew of versions would have told them before its state.
            self.follower.protocol = 0;
        }
        if followed && self.ready(ctx) && reports(ctx.cluster(), node) {
            self.follower.due = Instant::FAR_FUTURE;
        }
    }
}
