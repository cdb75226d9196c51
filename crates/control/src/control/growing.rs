//! The leader's part in node groups that come and go.
//!
//! # Owns
//! When a group that was formed is opened, or has become another size; when a node leaves whose
//! replica is dropped; when the move of tables is over.
//! # Not here
//! What the commands do (`state_machine::groups`); the moving (the SQL layer).

use model::{Command, MemberStatus};

use super::Control;
use crate::state_machine;

impl Control {
    /// The next step of a group that is being formed, or of the move of tables.
    pub(super) fn next_step_of_groups(&self) -> Option<Command> {
        let state = &self.state;
        if state.layouts.is_empty() {
            return None;
        }
        let complete = |node: &model::NodeId| {
            state.members.get(node).is_some_and(|member| member.status == MemberStatus::Active)
        };
        // A group that was retired is opened by order only.
        let groups = (0_u16..).zip(&state.groups);
        let departs = |node: &model::NodeId| state.departing.contains(node);
        let mut formed = groups.filter(|(number, nodes)| {
            let known = state.retired.contains(number)
                || state.newest_slots_in(*number) == nodes.len()
                || nodes.iter().any(departs);
            !nodes.is_empty() && !known && nodes.iter().all(complete)
        });
        if let Some((group, _)) = formed.next() {
            return Some(Command::OpenGroup { group });
        }
        // One of a group at a time, so that the next one sees who is left.
        let is_leaving = |node: &model::NodeId| {
            state.members.get(node).is_some_and(|member| member.status == MemberStatus::Leaving)
        };
        let leaves = |node: &model::NodeId| {
            let group = state.groups.iter().find(|group| group.contains(node))?;
            if group.iter().any(is_leaving) {
                return None;
            }
            let member =
                state.members.get(node).filter(|member| member.status == MemberStatus::Active)?;
            let incarnation = member.incarnation;
            let leave = Command::Leave { node: *node, incarnation };
            (!state_machine::moot(state, &leave)).then_some(leave)
        };
        if let Some(leave) = state.departing.iter().find_map(leaves) {
            return Some(leave);
        }
        let over = state.reorganizing && state.moves().left == 0;
        over.then_some(Command::Reorganize { wanted: false })
    }
}
