//! Nothing is begun in a node group for the moment in which its write chains change as planned.
//!
//! Either a node joins or leaves: the leader asks by a message, and what is open later ends with an
//! error. Or the primaries of the group move: the cluster's state says so, for as long as that
//! lasts, and it is needed for safety.
//!
//! # Guarantees
//! 1. What is held back runs in the order in which it came, and at the latest when the time that
//!    was allowed is over: for reaching a quiet moment what the leader says, then two leases for
//!    the change itself. In a group that the state holds it runs when the state does so no more.
//! 2. A transaction that has a leg in the group is never held back: it could not end.
//! 3. In a group that the state holds a transaction is open as long as any replica there may have
//!    changes of it, decided or not.
//! # Not here
//! When chains change (`control`), and what happens to transactions that are open then (`route`).

use std::collections::VecDeque;

use actor::{Ctx, Mutation, Timer, fault_point, probe};
use model::cluster::HeldGroup;
use model::{
    ActorKind, Address, ControlIndex, Incarnation, MemberStatus, NodeId, PartitionId, SessionId,
    TransactionId, WorkerId,
};
use stdx::Duration;
use wire::{ClientRequest, ControlMessage, Message};

use super::Coordinator;
use super::state::{Batch, Record};

/// A change that is waited for.
#[derive(Debug)]
struct Change {
    /// Of the request; repeated in the answer. None before there is one.
    number: Option<u64>,
    cause: Cause,
    group: u16,
    /// It has been said that nothing is open.
    told: bool,
}

/// A question when nothing is left in a group that is held.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u64,
    since: ControlIndex,
}

/// Why write chains change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The node joins them, or leaves them.
    Member(NodeId, Incarnation),
    /// The primaries of the group move.
    Held(HeldGroup),
}

/// Requests held back for a change of write chains.
#[derive(Debug, Default)]
pub(super) struct Quiescence {
    change: Option<Change>,
    /// A question about a group that is not held yet, as far as this coordinator knows.
    asked: Option<Asked>,
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
        node: NodeId,
        incarnation: Incarnation,
        span: Duration,
    ) {
        if ctx.cluster().held.is_some() {
            return; // The leader finds that out.
        }
        let group = ctx.cluster().group_with(node);
        self.end_quiescence(ctx);
        let Some(group) = group.filter(|_| span > Duration::ZERO) else { return };
        let (group, cause) = (group as u16, Cause::Member(node, incarnation));
        let change = Change { number: Some(number), cause, group, told: false };
        self.quiescence.change = Some(change);
        self.chains_changed(ctx);
        if self.quiescence.change.is_some() {
            ctx.set_timer(Timer::CoordinatorQuiesce, span);
        }
    }

    /// The group that is held since an entry is to have its primaries moved: tells the leader when
    /// nothing is left there of any transaction. The state with that entry may be on its way.
    pub(super) fn quiesce_held(&mut self, ctx: &mut Ctx<'_>, number: u64, since: ControlIndex) {
        self.quiescence.asked = Some(Asked { number, since });
        self.chains_changed(ctx);
        self.begin_to_ask();
    }

    /// The group that was asked about may be held here by now: the question is to be answered.
    fn begin_to_ask(&mut self) {
        let Some(asked) = self.quiescence.asked else { return };
        if let Some(change) = &mut self.quiescence.change
            && matches!(change.cause, Cause::Held(held) if held.since == asked.since)
        {
            (change.number, change.told) = (Some(asked.number), false);
            self.quiescence.asked = None;
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
        let own = ctx.node();
        let leaves =
            |change: &Change| matches!(change.cause, Cause::Member(node, _) if node == own);
        let change = self.quiescence.change.as_ref().filter(|change| !leaves(change));
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
        let Some(number) = change.number.filter(|_| !change.told) else { return };
        let (group, cause) = (change.group, change.cause);
        let open = |record: &Record| {
            // Changes of unique indexes may yet go there.
            let may_begin =
                matches!(record.batch, Some(Batch::Execute { .. })) || !record.queued.is_empty();
            match cause {
                // Who leaves answers its clients first.
                Cause::Member(node, _) if node == ctx.node() => true,
                Cause::Member(..) => {
                    record.phase.under_way() && (may_begin || has_leg_in(ctx, record, group))
                }
                // A decision that has not reached all replicas yet could be overtaken by what
                // comes from the new primary.
                Cause::Held(_) => may_begin || has_leg_in(ctx, record, group),
            }
        };
        if !ctx.mutated(Mutation::PrimariesMoveAtOnce) && self.records.unordered().any(open) {
            return;
        }
        change.told = true;
        if let Cause::Member(..) = cause {
            // From here on the leader needs no more than a log entry, and says so if it gives up.
            // This is for the case that it dies.
            ctx.set_timer(Timer::CoordinatorQuiesce, ctx.config().lease.times(2));
        }
        let worker = ctx.me().worker;
        let control = Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
        let quiet = ControlMessage::WorkerQuiet { worker, number };
        ctx.send(control, Message::Control(Box::new(quiet)));
    }

    /// Goes on when the node has joined the chains, or left them, or the group is held no more;
    /// begins nothing in a group that is held from now on.
    pub(super) fn chains_changed(&mut self, ctx: &mut Ctx<'_>) {
        let held = ctx.cluster().held;
        let lasts = self.quiescence.change.as_ref().is_some_and(|change| match change.cause {
            Cause::Member(node, incarnation) => {
                let member = ctx.cluster().member(node, incarnation);
                let status = member.map(|member| member.status);
                held.is_none()
                    && matches!(status, Some(MemberStatus::Joining | MemberStatus::Leaving))
            }
            Cause::Held(before) => held == Some(before),
        });
        if lasts {
            return;
        }
        let change = held.map(|held| {
            probe!(ctx, "coordinator: holds a group whose primaries move");
            Change { number: None, cause: Cause::Held(held), group: held.group, told: false }
        });
        self.quiescence.change = change;
        self.begin_to_ask();
        self.run_held_back(ctx);
    }

    /// The leader has not been heard for too long.
    pub(super) fn quiescence_expired(&mut self, ctx: &mut Ctx<'_>) {
        let change = self.quiescence.change.as_ref();
        if !change.is_some_and(|change| matches!(change.cause, Cause::Held(_))) {
            self.end_quiescence(ctx);
        }
    }

    /// No change is waited for any more.
    fn end_quiescence(&mut self, ctx: &mut Ctx<'_>) {
        self.quiescence.change = None;
        self.run_held_back(ctx);
    }

    /// Runs what was held back, but for what a present change holds back again.
    fn run_held_back(&mut self, ctx: &mut Ctx<'_>) {
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
