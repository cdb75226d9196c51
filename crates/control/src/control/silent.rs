//! Workers that do not answer: what the driver of epochs has noticed, and what becomes of it.
//!
//! One worker that stands still holds up the whole cluster, and its node's control actor, which
//! lives on another worker, goes on answering heartbeats. So whoever waits names it: the driver
//! tells its own control actor, which tells the leader and the management nodes.
//!
//! # Guarantees
//! 1. The leader condemns the node of a silent worker, if the cluster goes on without it.
//! 2. A node that leads, or drives epochs, and has such a worker itself, halts.
//! 3. Operators are told once of each worker, where it was noticed and at the management nodes.
//! # Not here
//! How long a worker may be silent (`datanode::epochs`).

use actor::{Ctx, Halt, probe};
use model::{ActorKind, Address, Epoch, NodeId};
use wire::{ControlMessage, News, NewsKind, UnresponsiveWorker};

use super::Control;

impl Control {
    /// A worker does not answer: noticed on this node, or told by the node that has noticed it.
    pub(super) fn receive_unresponsive(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        silent: UnresponsiveWorker,
    ) {
        let UnresponsiveWorker { node, incarnation, worker, .. } = silent;
        let noticed_here = from.node == self.node && from.actor == ActorKind::Epochs;
        let told_by_driver = self.state.driver() == Some(from.node);
        if self.state.member(node, incarnation).is_none() || !told_by_driver {
            return;
        }
        if self.consensus.is_ready() && self.is_line_slow(ctx.now(), [node, from.node]) {
            // What the worker says may be on its way: who goes is judged by broken links.
            probe!(ctx, "control: silent worker behind a slow line");
            return;
        }
        self.silent.retain(|(node, life, _)| self.state.member(*node, *life).is_some());
        let spare = self.can_spare(node);
        if self.silent.insert((node, incarnation, worker)) {
            let then = if spare {
                "it is removed"
            } else {
                "it stays, as the cluster cannot do without it; only what it takes part in waits"
            };
            let text = format!("{silent}; {then}");
            ctx.announce(node, News { kind: NewsKind::WorkerSilent, epoch: Epoch(0), text });
        }
        if noticed_here {
            let managers = self.config.management_nodes.iter().copied();
            let mut to: Vec<NodeId> = managers.chain(self.leader()).collect();
            to.sort_unstable();
            to.dedup();
            for to in to.into_iter().filter(|to| *to != self.node) {
                self.tell(ctx, to, ControlMessage::Unresponsive(silent));
            }
        }
        if !spare {
            probe!(ctx, "control: silent worker of a node that cannot be spared");
            return;
        }
        if node == self.node {
            if noticed_here || self.consensus.is_leader() {
                self.halt(ctx, Halt::Unresponsive(silent));
            }
        } else if self.consensus.is_ready() {
            probe!(ctx, "control: member condemned for a silent worker");
            self.condemn(ctx, node);
        }
    }
}
