//! Clients that follow the cluster's state, and what each of them is told.
//!
//! # Owns
//! Who follows, which state each of them was told last, and the newest states of this node: who
//! was told one of them hears what is different since; everybody else is told a whole state, in
//! pieces if it is large: the next one is sent when the one before has come.
//! # Guarantees
//! What is sent and what it costs depends on what has changed, not on how large the catalog is,
//! for all who were told one of the newest [`STATES_KEPT`] states.
//! # Not here
//! Whether a state may be shown (`publish`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actor::{Ctx, fault_point, probe};
use model::cluster::StatePieces;
use model::{Address, ClusterState, ControlIndex, NodeId, StateChange};
use wire::{ControlMessage, KnownState, Message};

/// States that are kept for those who are behind. They share what they have in common.
const STATES_KEPT: usize = 64;

/// A state with more tables, names, databases and accounts than this is sent in pieces to one who
/// lacks it.
pub(super) const WHOLE_MAX: usize = 64;

/// Clients that are told of each state.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// With the state that each was told last; none for those that understand whole states only.
    told: BTreeMap<Address, Option<KnownState>>,
    /// States on their way in pieces. Their followers are told of newer ones when they have them.
    sending: BTreeMap<Address, StatePieces>,
    /// Those that answer questions of others.
    answering: BTreeSet<Address>,
    /// The newest states, oldest first.
    states: VecDeque<Arc<ClusterState>>,
}

impl Followers {
    /// Notes the node's newest state.
    pub(super) fn remember(&mut self, state: &Arc<ClusterState>) {
        if self.states.back().is_some_and(|last| last.id != state.id) {
            self.states.clear();
        }
        if self.states.len() == STATES_KEPT {
            self.states.pop_front();
        }
        self.states.push_back(state.clone());
    }

    /// Notes that a client follows, and what it knows.
    pub(super) fn add(&mut self, follower: Address, known: Option<KnownState>, answers: bool) {
        self.told.insert(follower, known);
        if answers {
            self.answering.insert(follower)
        } else {
            self.answering.remove(&follower)
        };
        self.sending.remove(&follower);
    }

    /// Who follows.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.told.keys().copied()
    }

    /// One follower of each process that answers questions of others.
    pub(super) fn answering(&self) -> Vec<Address> {
        let mut all: Vec<Address> = self.answering.iter().copied().collect();
        all.dedup_by_key(|follower| follower.node);
        all
    }

    /// The link to a node is gone, or was made anew.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.answering.retain(|follower| follower.node != node);
        self.told.retain(|follower, _| follower.node != node);
        self.sending.retain(|follower, _| follower.node != node);
    }

    /// Tells a follower of the newest state, also if it has been told before.
    pub(super) fn tell(&mut self, ctx: &mut Ctx<'_>, follower: Address) {
        let Self { told, sending, states, .. } = self;
        let Some(newest) = states.back() else { return };
        let Some(known) = told.get_mut(&follower).filter(|_| !sending.contains_key(&follower))
        else {
            return;
        };
        match news(ctx, states, newest, *known) {
            News::Message(message) => {
                *known = known.map(|_| known_of(newest));
                ctx.send(follower, message);
            }
            News::Pieces => self.send(ctx, follower),
        }
    }

    /// Tells all followers of the newest state.
    pub(super) fn tell_all(&mut self, ctx: &mut Ctx<'_>) {
        let Self { told, sending, states, .. } = self;
        let Some(newest) = states.back() else { return };
        let mut in_pieces = Vec::new();
        // Nearly all were told the same state last.
        let mut last: Option<(Option<KnownState>, Message)> = None;
        for (follower, known) in told.iter_mut().filter(|(of, _)| !sending.contains_key(of)) {
            let message = match last.take().filter(|(of, _)| of == known) {
                Some((_, made)) => made,
                None => match news(ctx, states, newest, *known) {
                    News::Message(message) => message,
                    News::Pieces => {
                        in_pieces.push(*follower);
                        continue;
                    }
                },
            };
            last = Some((*known, message.clone()));
            *known = known.map(|_| known_of(newest));
            ctx.send(*follower, message);
        }
        for follower in in_pieces {
            self.send(ctx, follower);
        }
    }

    /// Begins to send the newest state in pieces.
    fn send(&mut self, ctx: &mut Ctx<'_>, follower: Address) {
        let newest = self.states.back().expect("the caller has looked");
        let mut pieces = StatePieces::of(newest.clone());
        send_piece(ctx, follower, &mut pieces);
        self.sending.insert(follower, pieces);
    }

    /// A follower has all pieces before this one.
    pub(super) fn go_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        follower: Address,
        of: KnownState,
        number: u32,
    ) {
        let Some(pieces) = self.sending.get_mut(&follower) else { return };
        if known_of(pieces.state()) != of || pieces.taken() != number {
            probe!(ctx, "control: piece asked for of a state that is not sent any more");
            return;
        }
        if send_piece(ctx, follower, pieces) {
            return;
        }
        let sent = pieces.state().clone();
        self.sending.remove(&follower);
        let newest = self.states.back().filter(|newest| newest.id == sent.id).unwrap_or(&sent);
        if known_of(newest) != of {
            // However many states there were meanwhile: who is told of changes only as long as they
            // are few would be sent another whole state, as long as tables are made.
            probe!(ctx, "control: state changed while it was sent in pieces");
            let change = Arc::new(StateChange::between(&sent, newest));
            ctx.send(follower, Message::StateChange(change));
        }
        self.told.insert(follower, Some(known_of(newest)));
    }
}

/// Sends the next piece; false if there is none.
fn send_piece(ctx: &mut Ctx<'_>, follower: Address, pieces: &mut StatePieces) -> bool {
    let Some(piece) = pieces.take() else { return false };
    let piece = ControlMessage::StatePiece(Box::new(piece));
    ctx.send(follower, Message::Control(Box::new(piece)));
    fault_point!(ctx, "control: piece of a state sent to a client");
    true
}

fn known_of(state: &ClusterState) -> KnownState {
    KnownState { cluster: state.id, index: state.index }
}

/// How a follower is told of the newest state.
enum News {
    Message(Message),
    /// Of all of it.
    Pieces,
}

/// What makes the newest state of the one that is known, or all of it.
fn news(
    ctx: &mut Ctx<'_>,
    states: &VecDeque<Arc<ClusterState>>,
    newest: &Arc<ClusterState>,
    known: Option<KnownState>,
) -> News {
    let since = known.and_then(|known| states.iter().rfind(|state| known_of(state) == known));
    if let Some(before) = since {
        let change = Arc::new(StateChange::between(before, newest));
        return News::Message(Message::StateChange(change));
    }
    if known.is_some_and(|known| known.index > ControlIndex(0)) {
        probe!(ctx, "control: follower too far behind for a change");
    }
    if known.is_some() && newest.catalog_entries() > WHOLE_MAX {
        News::Pieces
    } else {
        News::Message(Message::State(newest.clone()))
    }
}
