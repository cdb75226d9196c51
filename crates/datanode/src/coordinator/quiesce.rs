//! Nothing is begun in a node group for the moment in which its write chains change as planned.
//!
//! # Guarantees
//! 1. What is held back runs in the order in which it came, and at the latest when the time that
//!    was allowed is over: for reaching a quiet moment what the leader says, then two leases for
//!    the change itself.
//! 2. A transaction that has a leg in the group is never held back: it could not end.
//! # Not here
//! When chains change (`control`), and what happens to transactions that are open then (`route`).

use std::collections::VecDeque;

use actor::{Ctx, Timer, fault_point, probe};
use model::{
    ActorKind, Address, Incarnation, MemberStatus, NodeId, PartitionId, SessionId, TransactionId,
    WorkerId,
};
use stdx::Duration;
use wire::{ClientRequest, ControlMessage, Message};

use super::Coordinator;
use super::state::{Batch, Record};

/// A change that is waited for.
#[derive(Debug)]
struct Change {
    /// Of the request; repeated in the answer.
    number: u64,
    node: NodeId,
    incarnation: Incarnation,
    /// The group of the node.
    group: u16,
    /// It has been said that nothing is open.
    told: bool,
}

/// Requests held back for a change of write chains.
#[derive(Debug, Default)]
pub(super) struct Quiescence {
    change: Option<Change>,
    held: VecDeque<(Address, ClientRequest)>,
}

impl Quiescence {
    /// A client is gone: nobody waits for its requests.
    pub(super) fn client_gone(&mut self, of_client: impl Fn(&SessionId) -> bool) {
        self.held.retain(|(_, request)| {
            !transaction_of(request).is_some_and(|transaction| of_client(&transaction.session))
        });
    }
}

impl Coordinator {
    /// The chains of a node's group are about to change: begins nothing there.
    pub(super) fn quiesce(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        (node, incarnation): (NodeId, Incarnation),
        span: Duration,
    ) {
        self.end_quiescence(ctx);
        let group = ctx.cluster().groups.iter().position(|group| group.contains(&node));
        let Some(group) = group.filter(|_| span > Duration::ZERO) else { return };
        let group = group as u16;
        let change = Change { number, node, incarnation, group, told: false };
        self.quiescence.change = Some(change);
        self.chains_changed(ctx);
        if self.quiescence.change.is_some() {
            ctx.set_timer(Timer::CoordinatorQuiesce, span);
        }
    }

    /// Gives a request back that may run now; keeps it if it would begin something in a group
    /// whose chains are about to change.
    pub(super) fn hold_back(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        request: ClientRequest,
    ) -> Option<ClientRequest> {
        // Who leaves refuses what is new, and its clients go elsewhere at once.
        let change = self.quiescence.change.as_ref().filter(|change| change.node != ctx.node());
        let Some(change) = change else { return Some(request) };
        let Some(transaction) = transaction_of(&request) else { return Some(request) };
        let behind =
            |(_, held): &(Address, ClientRequest)| transaction_of(held) == Some(transaction);
        let held = self.quiescence.held.iter().any(behind);
        if !held {
            let record = self.records.get(&transaction);
            let is_in = record.is_some_and(|record| has_leg_in(ctx, record, change.group));
            if is_in || !begins_in(ctx, &request, change.group) {
                return Some(request);
            }
        }
        probe!(ctx, "coordinator: request held back for a change of chains");
        self.quiescence.held.push_back((from, request));
        fault_point!(ctx, "coordinator: request held back");
        None
    }

    /// Says once that nothing is open where the chains are to change.
    pub(super) fn report_quiet(&mut self, ctx: &mut Ctx<'_>) {
        let Some(change) = &mut self.quiescence.change else { return };
        if change.told {
            return;
        }
        // Who leaves answers its clients first.
        let leaves = change.node == ctx.node();
        let group = change.group;
        let open = |record: &Record| {
            leaves
                || record.phase.under_way()
                    && (has_leg_in(ctx, record, group)
                        // Changes of unique indexes may yet go there.
                        || matches!(record.batch, Some(Batch::Execute { .. })))
        };
        if self.records.unordered().any(open) {
            return;
        }
        change.told = true;
        // From here on the leader needs no more than a log entry, and says so if it gives up.
        // This is for the case that it dies.
        ctx.set_timer(Timer::CoordinatorQuiesce, ctx.config().lease.times(2));
        let (worker, number) = (ctx.me().worker, change.number);
        let control = Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
        let quiet = ControlMessage::WorkerQuiet { worker, number };
        ctx.send(control, Message::Control(Box::new(quiet)));
    }

    /// Goes on when the node has joined the chains, or left them.
    pub(super) fn chains_changed(&mut self, ctx: &mut Ctx<'_>) {
        let Some(change) = &self.quiescence.change else { return };
        let member = ctx.cluster().member(change.node, change.incarnation);
        let status = member.map(|member| member.status);
        if !matches!(status, Some(MemberStatus::Joining | MemberStatus::Leaving)) {
            self.end_quiescence(ctx);
        }
    }

    /// Runs what was held back.
    pub(super) fn end_quiescence(&mut self, ctx: &mut Ctx<'_>) {
        self.quiescence.change = None;
        for (from, request) in std::mem::take(&mut self.quiescence.held) {
            self.handle_request(ctx, from, request);
        }
    }
}

/// The transaction that a request belongs to, if it can be held back.
fn transaction_of(request: &ClientRequest) -> Option<TransactionId> {
    match request {
        ClientRequest::Execute { transaction, .. }
        | ClientRequest::Commit { transaction, .. }
        | ClientRequest::Abort { transaction, .. }
        | ClientRequest::RollbackTo { transaction, .. }
        | ClientRequest::Scan { transaction, .. } => Some(*transaction),
        ClientRequest::OpenSnapshot { .. }
        | ClientRequest::CloseSnapshot { .. }
        | ClientRequest::AwaitDurable { .. }
        | ClientRequest::Outcome { .. } => None,
    }
}

/// Whether the transaction has a leg in the group.
fn has_leg_in(ctx: &Ctx<'_>, record: &Record, group: u16) -> bool {
    let slots = &ctx.cluster().slots;
    let in_group = |slot: &usize| slots.get(*slot).is_some_and(|slot| slot.group == group);
    record.legs.iter().any(|leg| leg.slots.iter().any(in_group))
}

/// Whether the request itself needs a leg in the group, or may need one for a hidden table.
fn begins_in(ctx: &Ctx<'_>, request: &ClientRequest, group: u16) -> bool {
    let cluster = ctx.cluster();
    let in_group = |partition: PartitionId| {
        !cluster.slots.is_empty() && cluster.slot_of(partition).group == group
    };
    match request {
        ClientRequest::Execute { operations, .. } => operations.iter().any(|operation| {
            let table = cluster.tables.get(&operation.partition.table);
            let followed = table.is_some_and(|table| table.is_followed());
            in_group(operation.partition) || (followed && operation.kind.is_write())
        }),
        ClientRequest::Scan { scan, .. } => in_group(scan.partition),
        _ => false,
    }
}
