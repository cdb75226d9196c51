//! The leader's part in node groups that come and go.
//!
//! # Owns
//! When a group that was formed is opened, and when the move of tables is over.
//! # Not here
//! What the commands do (`state_machine::groups`); the moving (the SQL layer).

use model::{Command, MemberStatus};

use super::Control;

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
        let mut formed = groups.filter(|(number, nodes)| {
            let known = state.retired.contains(number) || state.is_open(*number);
            !nodes.is_empty() && !known && nodes.iter().all(complete)
        });
        if let Some((group, _)) = formed.next() {
            return Some(Command::OpenGroup { group });
        }
        let over = state.reorganizing && state.moves().left == 0;
        over.then_some(Command::Reorganize { wanted: false })
    }
}
