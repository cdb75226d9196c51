//! What other nodes may tell a control actor, by what is known here.
//!
//! # Owns
//! The rules that a message of another node must keep before it is handled. One that breaks a rule
//! is refused and changes nothing; the link to its sender is closed.
//! # Not here
//! What a process of a role may send at all (`node`). Messages of lives that are over, of earlier
//! terms and of other clusters break no rule: they are late, and are dropped where they come in.
//! Whether a voter tells the truth: Raft does not survive voters that lie, it survives their loss.

use model::Address;
use wire::ControlMessage;

use super::Control;
use crate::consensus::node_of;

impl Control {
    /// The rule that a message of another node breaks, if it breaks one.
    pub(super) fn broken_rule(
        &self,
        from: Address,
        message: &ControlMessage,
    ) -> Option<&'static str> {
        match message {
            ControlMessage::Raft { cluster, message, .. } => {
                if node_of(message.from()) != from.node {
                    return Some("a voter speaks for itself");
                }
                let raftbare::Message::AppendEntriesCall { header, entries, .. } = message else {
                    return None;
                };
                self.consensus.broken_by(*cluster, header.term, entries)
            }
            _ => None,
        }
    }
}
