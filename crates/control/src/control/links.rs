//! Broken links: what this node noticed, and what it tells the leader.
//!
//! A link that was closed means that the peer's process has ended. One that fell silent may mean
//! anything; messages between the two nodes have been lost, which two data nodes cannot make up
//! for, so such a break is held against the pair even when the link comes back.

use actor::{Ctx, probe};
use model::{Address, Command, Incarnation, NodeId, NodeRole};
use wire::ControlMessage;

use super::Control;
use crate::consensus::voter_of;

/// A link that broke.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrokenLink {
    /// The life at the other end.
    pub(super) incarnation: Incarnation,
    /// The peer's host closed it: the process has ended.
    pub(super) closed: bool,
}

impl Control {
    pub(super) fn link_down(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        incarnation: Incarnation,
        closed: bool,
    ) {
        self.followers.forget(node);
        self.end_snapshot(node);
        self.schema_waits.retain(|_, wait| wait.client.node != node);
        if self.answers.get(&node).is_some_and(|answer| answer.life.incarnation == incarnation) {
            self.answers.remove(&node);
        }
        let voter = voter_of(node, self.voter_of_life(node, incarnation));
        if closed && self.consensus.leader() == Some(voter) {
            probe!(ctx, "control: leader's process ended");
            self.consensus.lose_leader();
        }
        if self.state.member(node, incarnation).is_none() {
            return;
        }
        let before = self.broken.get(&node).filter(|link| link.incarnation == incarnation);
        let closed = closed || before.is_some_and(|link| link.closed);
        self.broken.insert(node, BrokenLink { incarnation, closed });
        self.report_links(ctx);
    }

    /// Something came from `node`: its link is up, which counts unless rows may have been lost.
    pub(super) fn mend_link(&mut self, node: NodeId) {
        let Some(link) = self.broken.get(&node) else {
            return;
        };
        let holds_rows = |node: &NodeId| self.config.is_data_node(*node);
        let lossy = holds_rows(&node) && holds_rows(&self.node);
        if !link.closed && !lossy {
            self.broken.remove(&node);
        }
    }

    /// Tells the leader of broken links to members, again and again until they are none.
    pub(super) fn report_links(&mut self, ctx: &mut Ctx<'_>) {
        let state = &self.state;
        self.broken.retain(|node, link| state.member(*node, link.incarnation).is_some());
        let links: Vec<(NodeId, BrokenLink)> = self.broken.iter().map(|(n, l)| (*n, *l)).collect();
        for (node, BrokenLink { incarnation, closed }) in links {
            if self.consensus.is_leader() {
                self.suspect(ctx, self.node, node, incarnation, closed);
            } else {
                let suspect = ControlMessage::Suspect { node, incarnation, closed };
                self.tell_leader(ctx, suspect);
            }
        }
    }

    pub(super) fn receive_suspect(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        node: NodeId,
        incarnation: Incarnation,
        closed: bool,
    ) {
        if self.state.members.contains_key(&from.node) {
            self.suspect(ctx, from.node, node, incarnation, closed);
        }
    }

    /// The leader hears that `reporter` has lost its link to a member.
    fn suspect(
        &mut self,
        ctx: &mut Ctx<'_>,
        reporter: NodeId,
        node: NodeId,
        incarnation: Incarnation,
        closed: bool,
    ) {
        let ready = self.consensus.is_ready() && node != self.node;
        let known = self.state.member(node, incarnation).is_some();
        if closed && ready && known {
            // The process has ended, so nobody serves under its lease any more.
            if self.propose(Command::RemoveMember { node, incarnation }) {
                probe!(ctx, "control: member removed as its process ended");
            }
            return;
        }
        let both_data = [reporter, node]
            .iter()
            .all(|n| self.state.members.get(n).is_some_and(|member| member.role == NodeRole::Data));
        let now = ctx.now();
        if let Some(leadership) = &mut self.leadership
            && !closed
            && known
            && both_data
        {
            leadership.note_break(now, reporter, node);
        }
    }
}
