//! Primaries that move back to the nodes they belong to.
//!
//! When a node dies the next replica of each of its slots is promoted; when it is back it is the
//! last choice everywhere, and its peers do its work. So each node becomes the primary of its own
//! slots again.
//!
//! # Owns
//! The effect of the commands that hold a group, move its primaries, and let it go.
//! # Guarantees
//! Primaries move only in a group that is held, and only while all of its nodes are complete and
//! nothing is left to be settled of dead coordinators.
//! # Not here
//! That nothing is open in the group when they move: whoever leads has seen to that
//! (`control::primaries`). A lock is at the primary alone, so a transaction that held one there
//! would lose it.

use model::ClusterState;
use model::cluster::HeldGroup;

/// Transactions begin nothing in the group from now on.
pub(super) fn hold(state: &mut ClusterState, group: u16) {
    if state.held.is_none() && state.may_move_primaries(group) {
        state.held = Some(HeldGroup { group, since: state.index });
    }
}

/// Each node of the group becomes the primary of its own slots.
pub(super) fn spread(state: &mut ClusterState, held: HeldGroup) {
    if state.held != Some(held) || !state.may_move_primaries(held.group) {
        return;
    }
    let wanted: Vec<_> = state.preferred_primaries(held.group).collect();
    for (at, node) in wanted {
        let replicas = &mut state.slots[at].replicas;
        if let Some(place) = replicas.iter().position(|r| r.node == node && !r.syncing) {
            replicas[..=place].rotate_right(1);
        }
    }
    state.held = None;
}

/// The group is held no more.
pub(super) fn release(state: &mut ClusterState, held: HeldGroup) {
    if state.held == Some(held) {
        state.held = None;
    }
}
