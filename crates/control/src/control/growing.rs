//! The leader's part in node groups that come and go.
//!
//! # Owns
//! When a group that was formed is opened, or has become another size; when a node leaves whose
//! replica is dropped; when the move of tables is over.
//! # Not here
//! What the commands do (`state_machine::groups`); the moving (the SQL layer).

use model::{ClusterState, Command, MemberStatus, NodeId};

use super::Control;
use crate::state_machine;

impl Control {
    /// The next step of a group that is being formed, of a replica that is dropped, or of the move
    /// of tables.
    pub(super) fn next_step_of_groups(&self) -> Option<Command> {
        let state = &self.state;
        if state.layouts.is_empty() {
            return None;
        }
        // A group that was retired is opened by order only.
        let groups = (0_u16..).zip(&state.groups);
        let mut formed = groups.filter(|(number, nodes)| {
            let known = state.retired.contains(number)
                || state.newest_slots_in(*number) == nodes.len()
                || nodes.iter().any(|node| state.departing.contains(node));
            let complete = |node: &NodeId| is(state, *node, MemberStatus::Active);
            !nodes.is_empty() && !known && nodes.iter().all(complete)
        });
        if let Some((group, _)) = formed.next() {
            return Some(Command::OpenGroup { group });
        }
        if let Some(leave) = next_departure(state) {
            return Some(leave);
        }
        let over = state.reorganizing && state.moves().left == 0;
        over.then_some(Command::Reorganize { wanted: false })
    }
}

/// Has the first node leave whose replica is dropped and whose group can do without it. One of a
/// group at a time, so that the next one sees who is left.
fn next_departure(state: &ClusterState) -> Option<Command> {
    let leave = |node: &NodeId| {
        let group = &state.groups[state.group_with(*node)?];
        if group.iter().any(|node| is(state, *node, MemberStatus::Leaving)) {
            return None;
        }
        let incarnation = state.members.get(node)?.incarnation;
        let leave = Command::Leave { node: *node, incarnation };
        // Who is not complete cannot leave.
        (!state_machine::moot(state, &leave)).then_some(leave)
    };
    state.departing.iter().find_map(leave)
}

fn is(state: &ClusterState, node: NodeId, status: MemberStatus) -> bool {
    state.members.get(&node).is_some_and(|member| member.status == status)
}
