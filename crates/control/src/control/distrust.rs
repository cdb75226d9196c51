//! What other nodes may tell a control actor, by what is known here.
//!
//! # Owns
//! The rules that a message of another node must keep before it is handled. One that breaks a rule
//! is refused and changes nothing; the link to its sender is closed.
//! # Not here
//! What a process of a role may send at all (`node`). Messages of lives that are over, of earlier
//! terms and of other clusters break no rule: they are late, and are dropped where they come in.
//! Whether a voter tells the truth: Raft does not survive voters that lie, it survives their loss.

use actor::Ctx;
use model::Address;
use wire::ControlMessage;

use super::Control;
use crate::consensus::node_of;

impl Control {
    /// The rule that a message of another node breaks, if it breaks one.
    pub(super) fn broken_rule(
        &self,
        ctx: &Ctx<'_>,
        from: Address,
        message: &ControlMessage,
    ) -> Option<&'static str> {
        match message {
            ControlMessage::Raft { message, .. } => {
                if node_of(message.from()) != from.node {
                    return Some("a voter speaks for itself");
                }
                let raftbare::Message::AppendEntriesCall { entries, .. } = message else {
                    return None;
                };
                if self.consensus.leads_term(message.term()) {
                    return Some("a term has one leader");
                }
                let contradicts = self.consensus.contradicts(entries);
                contradicts.then_some("the control log contradicts what was in it")
            }
            ControlMessage::LeaseGrant { incarnation, sent_at, span } => {
                // A leader lends from what it has heard, which is not later than the request.
                let mine = *incarnation == self.incarnation;
                let longer = *sent_at > ctx.now() || *span > self.config.lease;
                (mine && longer).then_some("a lease is longer than any")
            }
            _ => None,
        }
    }
}
