//! What a death means for the transactions of this coordinator.

use actor::{Ctx, probe};
use model::{ClusterState, ErrorCode, Incarnation, NodeId, Refusal, SessionId};

use super::Coordinator;
use super::state::Phase;

impl Coordinator {
    /// Deals with the members that are gone since `before`.
    pub(super) fn members_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let after = ctx.cluster().clone();
        for (node, member) in &before.members {
            if after.member(*node, member.incarnation).is_none() {
                self.replica_gone(ctx, *node);
            }
        }
    }

    fn replica_gone(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        for id in self.records.ids(|r| r.touches(node)) {
            let Some(record) = self.records.get_mut(&id) else { continue };
            for leg in &mut record.legs {
                leg.chain.remove(node);
            }
            match record.phase {
                Phase::Open | Phase::Deciding => {
                    probe!(ctx, "coordinator: open transaction lost a replica");
                    let refusal = Refusal::new(ErrorCode::NodeFailed, node.to_string());
                    self.abort_with(ctx, id, refusal, None);
                }
                Phase::Delegated(_) => {
                    probe!(ctx, "coordinator: transaction in one phase lost a replica");
                    let refusal = Refusal::new(ErrorCode::NodeFailed, node.to_string());
                    self.abort_with(ctx, id, refusal, None);
                    self.ask_staged(ctx, id);
                }
                Phase::Committing(_) => {
                    probe!(ctx, "coordinator: committing transaction lost a replica");
                    self.drive_commit(ctx, id);
                }
                Phase::Completing(_) => {
                    probe!(ctx, "coordinator: completing transaction lost a replica");
                    for leg in &mut record.legs {
                        leg.pending.remove(node);
                    }
                    self.end_moved(ctx, id);
                }
                Phase::Aborting => {
                    probe!(ctx, "coordinator: aborting transaction lost a replica");
                    self.drive_abort(ctx, id);
                }
            }
        }
    }

    /// A client process is gone: what it has not decided is aborted, what it held is let go.
    pub(super) fn client_gone(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        incarnation: Incarnation,
    ) {
        let of_client =
            |session: &SessionId| session.node == node && session.incarnation == incarnation;
        for id in self.records.ids(|r| of_client(&r.id.session)) {
            let Some(record) = self.records.get_mut(&id) else { continue };
            if record.taken_from.is_some() {
                continue;
            }
            record.client = None;
            if record.phase.under_way() {
                probe!(ctx, "coordinator: client lost with an open transaction");
                let refusal = Refusal::new(ErrorCode::UnknownTransaction, "client gone");
                self.abort_with(ctx, id, refusal, None);
            }
        }
        self.sessions.retain(|session, _| !of_client(session));
        self.epochs.client_gone(ctx, of_client);
        self.durable.client_gone(of_client);
        self.quiescence.client_gone(of_client);
        self.questions.forget(of_client);
    }
}
