//! Clients that follow the cluster's state, and what each of them is told.
//!
//! # Owns
//! Who follows, which state each of them was told last, and the newest states of this node: who
//! was told one of them hears what is different since; everybody else is told a whole state.
//! # Guarantees
//! What is sent and what it costs depends on what has changed, not on how large the catalog is,
//! for all who were told one of the newest [`STATES_KEPT`] states.
//! # Not here
//! Whether a state may be shown (`publish`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actor::{Ctx, probe};
use model::{Address, ClusterState, ControlIndex, NodeId, StateChange};
use wire::{KnownState, Message};

/// States that are kept for those who are behind. They share what they have in common.
const STATES_KEPT: usize = 64;

/// Clients that are told of each state.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// With the state that each was told last; none for those that understand whole states only.
    told: BTreeMap<Address, Option<KnownState>>,
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
    pub(super) fn add(&mut self, follower: Address, known: Option<KnownState>) {
        self.told.insert(follower, known);
    }

    /// Who follows.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.told.keys().copied()
    }

    /// The link to a node is gone, or was made anew.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.told.retain(|follower, _| follower.node != node);
    }

    /// Tells a follower of the newest state, also if it has been told before.
    pub(super) fn tell(&mut self, ctx: &mut Ctx<'_>, follower: Address) {
        let Some(newest) = self.states.back() else { return };
        let Some(known) = self.told.get_mut(&follower) else { return };
        let message = news(ctx, &self.states, newest, *known);
        *known = known.map(|_| known_of(newest));
        ctx.send(follower, message);
    }

    /// Tells all followers of the newest state.
    pub(super) fn tell_all(&mut self, ctx: &mut Ctx<'_>) {
        let Some(newest) = self.states.back() else { return };
        // Nearly all were told the same state last.
        let mut last: Option<(Option<KnownState>, Message)> = None;
        for (follower, known) in &mut self.told {
            let (_, message) = match last.take().filter(|(of, _)| of == known) {
                Some(made) => last.insert(made),
                None => last.insert((*known, news(ctx, &self.states, newest, *known))),
            };
            *known = known.map(|_| known_of(newest));
            ctx.send(*follower, message.clone());
        }
    }
}

fn known_of(state: &ClusterState) -> KnownState {
    KnownState { cluster: state.id, index: state.index }
}

/// What makes the newest state of the one that is known, or all of it.
fn news(
    ctx: &mut Ctx<'_>,
    states: &VecDeque<Arc<ClusterState>>,
    newest: &Arc<ClusterState>,
    known: Option<KnownState>,
) -> Message {
    let since = known.and_then(|known| states.iter().rfind(|state| known_of(state) == known));
    if let Some(before) = since {
        return Message::StateChange(Arc::new(StateChange::between(before, newest)));
    }
    if known.is_some_and(|known| known.index > ControlIndex(0)) {
        probe!(ctx, "control: follower too far behind for a change");
    }
    Message::State(newest.clone())
}
