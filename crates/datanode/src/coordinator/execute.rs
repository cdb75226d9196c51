//! Running a client's operations: routing to legs, collecting results, undoing what fails.

use std::collections::BTreeSet;

use actor::{Ctx, Mutation, fault_point, probe};
use model::{
    ActorKind, Address, ErrorCode, MemberStatus, OperationNumber, PartitionId, Refusal,
    TransactionId,
};
use stdx::{Duration, Few};
use wire::{
    Chain, ClientReply, ClientRequest, CoordinatorRef, LegId, LockMode, Message, Operation,
    OperationOutcome, OperationResult, ParticipantMessage, PreparedOperation, RollbackScope,
    ScanMessage, ScanRequest, ScanRows, ScanTransaction, TransactionState,
};

use super::Coordinator;
use super::one_phase::takes_commit;
use super::state::{Batch, IndexChange, Leg, Phase, Progress, Record, number};

/// Requests of a transaction that wait while another is under way.
const QUEUED_MAX: usize = 4_096;

/// How often an operation is routed anew before its refusal is passed on.
pub(super) const ROUTES_MAX: u32 = 4;

/// Operations that a client wants to be run.
pub(super) struct Execution {
    pub(super) request: u64,
    pub(super) operations: Vec<Operation>,
    /// The transaction is to be committed after them.
    pub(super) commit: bool,
    /// How long each waits for a lock; the cluster's lock time-out unless given.
    pub(super) lock_wait: Option<Duration>,
}

impl Coordinator {
    /// Runs a batch of operations, opening the transaction if it is its first request.
    pub(super) fn execute(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        asked: Execution,
    ) {
        let Execution { request, operations, commit, lock_wait } = asked;
        let first = operations.first().is_none_or(|op| op.number == OperationNumber(1));
        if let Err(refusal) = self.admit(ctx, from, id, first) {
            return self.refuse_request(ctx, from, id, request, refusal);
        }
        let record = self.records.get_mut(&id).expect("admitted");
        if record.batch.is_some() {
            let transaction = id;
            let again =
                ClientRequest::Execute { transaction, request, operations, commit, lock_wait };
            return self.queue(ctx, id, again);
        }
        record.last_active = ctx.now();
        record.lock_wait = lock_wait;
        if from.actor == ActorKind::Client && changes_entries(ctx, record, &operations) {
            let detail = "the entries of unique indexes follow from the rows";
            let refusal = Refusal::new(ErrorCode::BadRequest, detail);
            return self.abort_with(ctx, id, refusal, Some(request));
        }
        let record = self.records.get_mut(&id).expect("admitted");
        if let Err(refusal) = check_batch(ctx, record, &operations) {
            if refusal.code != ErrorCode::OperationLimit || commit {
                return self.abort_with(ctx, id, refusal, Some(request));
            }
            // What the transaction has done so far may still be committed.
            probe!(ctx, "coordinator: batch beyond the limit of operations");
            record.last_number = operations.last().map_or(record.last_number, |last| last.number);
            let refused = |operation: &Operation| OperationResult {
                number: operation.number,
                result: Err(refusal.clone()),
            };
            let results = operations.iter().map(refused).collect();
            return self.reply(ctx, id, request, results, TransactionState::Open);
        }
        record.operation_count += operations.len() as u32;
        let mut progress = Vec::with_capacity(operations.len());
        for operation in &operations {
            record.last_number = operation.number;
            if operation.kind.is_write() {
                record.writes_to(operation.partition.table);
            }
            progress.push(Progress::new(operation.number, operation.partition));
        }
        let alone = record.legs.is_empty();
        record.batch = Some(Batch::Execute { request, commit, progress });
        self.send_operations(ctx, id, operations, alone);
        self.batch_moved(ctx, id);
    }

    /// Makes sure the transaction is open here, or says why it cannot be.
    fn admit(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        first: bool,
    ) -> Result<(), Refusal> {
        if let Some(record) = self.records.get(&id) {
            return if record.phase == Phase::Open && record.client == Some(from) {
                Ok(())
            } else {
                Err(ErrorCode::UnknownTransaction.into())
            };
        }
        let session = self.sessions.get(&id.session).copied().unwrap_or_default();
        if !first || session.ended >= id.number && session.ended > 0 {
            return Err(ErrorCode::UnknownTransaction.into());
        }
        let cluster = ctx.cluster();
        if !ctx.may_serve() || !cluster.started || cluster.stopped {
            return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string()));
        }
        let me = cluster.member(ctx.node(), ctx.incarnation());
        match me.map(|member| member.status) {
            Some(MemberStatus::Active | MemberStatus::Syncing) => {}
            Some(MemberStatus::Leaving) => {
                return Err(Refusal::new(ErrorCode::ShuttingDown, ctx.node().to_string()));
            }
            _ => return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string())),
        }
        let limit = ctx.config().transactions_max;
        if self.records.len() >= limit as usize {
            probe!(ctx, "coordinator: transaction limit reached");
            let detail = format!("{limit} on {}", ctx.me());
            return Err(Refusal::new(ErrorCode::TransactionLimit, detail));
        }
        // A session has one transaction: a newer one means the older was given up.
        let older = TransactionId { session: id.session, number: session.begun };
        if older.number < id.number {
            self.abort_with(ctx, older, ErrorCode::UnknownTransaction.into(), None);
        }
        let session = self.sessions.entry(id.session).or_default();
        session.begun = session.begun.max(id.number);
        let record = Record::new(id, from, ctx.view().epochs.current, ctx.now());
        if self.records.is_empty() {
            self.arm_tick(ctx);
        }
        self.records.insert(record);
        Ok(())
    }

    fn refuse_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        to: Address,
        transaction: TransactionId,
        request: u64,
        refusal: Refusal,
    ) {
        let state = TransactionState::Aborted(refusal);
        let reply = ClientReply::Transaction { transaction, request, results: vec![], state };
        ctx.send(to, Message::Reply(reply));
    }

    /// Sends operations of the running batch, one message per leg, in number order; with their
    /// commit if they are `alone`, nothing of the transaction having been sent before, and fit.
    pub(super) fn send_operations(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        operations: Vec<Operation>,
        alone: bool,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let mut by_leg: Few<(LegId, Few<Operation>)> = Few::new();
        let mut conflict = false;
        for mut operation in operations {
            let client = operation.number;
            operation.number = number::internal(client);
            let routed = route(ctx, record, operation.partition);
            let state = record.progress_mut(client).expect("part of the batch");
            match routed {
                Ok(leg) => {
                    state.leg = leg;
                    state.sent += 1;
                    match by_leg.iter_mut().find(|(other, _)| *other == leg) {
                        Some((_, operations)) => operations.push(operation),
                        None => by_leg.push((leg, Few::one(operation))),
                    }
                }
                Err(refusal) if refusal.code == ErrorCode::MembershipChanged => conflict = true,
                Err(refusal) => state.base = Some(Err(refusal)),
            }
        }
        if conflict {
            probe!(ctx, "coordinator: chain changed under a writing transaction");
            let refusal = ErrorCode::MembershipChanged.into();
            return self.abort_with(ctx, id, refusal, None);
        }
        if alone
            && let [(_, operations)] = &mut by_leg[..]
            && takes_commit(ctx, &self.epochs, record, operations)
        {
            let operations = std::mem::take(operations);
            return self.send_with_commit(ctx, id, operations);
        }
        for (leg, operations) in by_leg {
            send_prepare(ctx, record, leg, operations);
        }
    }

    /// Takes answers to operations from a participant.
    pub(super) fn prepared(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        leg: LegId,
        results: Few<PreparedOperation>,
    ) {
        self.leave_one_phase(ctx, id);
        let mut reroute: Vec<Operation> = Vec::new();
        for mut prepared in results {
            let Some(record) = self.records.get_mut(&id) else { return };
            if record.phase != Phase::Open {
                return;
            }
            record.waits.remove(&prepared.number.0);
            if matches!(prepared.result, Ok(OperationOutcome::Written(_)))
                && let Some(leg) = record.leg_mut(leg)
            {
                leg.staged = true;
                record.changes += 1;
            }
            let client = number::client(prepared.number);
            let Some(state) = record.progress_mut(client) else { continue };
            let returned = prepared.returned.take().filter(|_| state.sent < ROUTES_MAX);
            if !number::is_base(prepared.number) {
                self.index_changed(ctx, from, id, leg, prepared);
            } else if let Some(mut operation) = returned {
                operation.number = client;
                reroute.push(*operation);
                continue;
            } else {
                state.base = Some(prepared.result);
                if let Some(images) = prepared.images {
                    self.maintain_hidden(ctx, id, client, &images);
                }
            }
            self.undo_if_failed(ctx, id, client);
        }
        if !reroute.is_empty() {
            probe!(ctx, "coordinator: stale route tried again");
            self.send_operations(ctx, id, reroute, false);
        }
        self.batch_moved(ctx, id);
    }

    /// Undoes an operation whose index changes were refused, once all its answers are in.
    fn undo_if_failed(&mut self, ctx: &mut Ctx<'_>, id: TransactionId, client: OperationNumber) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(state) = record.progress_mut(client) else { return };
        let answered = state.base.is_some() && state.index_pending.is_empty();
        let Some(failure) = state.failure.clone() else { return };
        if !answered || state.undoing > 0 || !matches!(state.base, Some(Ok(_))) {
            return;
        }
        probe!(ctx, "coordinator: operation undone after a unique violation");
        let mut undo = std::mem::take(&mut state.index_done);
        undo.push((number::internal(client), state.leg));
        state.undoing = undo.len() as u32;
        state.base = Some(Err(failure));
        for (number, leg) in undo {
            send_rollback(ctx, record, leg, RollbackScope::Only(number));
        }
    }

    /// One rollback of one leg is through.
    pub(super) fn rolled_back(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        leg: LegId,
        refused: bool,
        attempt: u32,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.phase != Phase::Open {
            return;
        }
        match &mut record.batch {
            Some(Batch::Rollback { pending, .. }) => {
                pending.remove(&leg);
            }
            Some(Batch::Execute { .. }) => {
                // Rollbacks of single operations carry the client's number as attempt.
                if let Some(state) = record.progress_mut(OperationNumber(attempt.into())) {
                    state.undoing = state.undoing.saturating_sub(1);
                }
            }
            Some(Batch::End { .. }) | None => return,
        }
        if refused {
            // A later operation of the batch changed the same row: all of it goes, for the reason
            // that this one was to go.
            probe!(ctx, "coordinator: single operation could not be undone");
            let state = record.progress_mut(OperationNumber(attempt.into()));
            let refusal = state.and_then(|state| state.base.clone()?.err());
            let refusal = refusal.unwrap_or(ErrorCode::UniqueViolation.into());
            return self.abort_with(ctx, id, refusal, None);
        }
        self.batch_moved(ctx, id);
    }

    /// A backup could not stage a change: nothing of the transaction can stay.
    pub(super) fn prepare_refused(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        refusal: Refusal,
    ) {
        self.leave_one_phase(ctx, id);
        let open = self.records.get(&id).is_some_and(|r| r.phase.undecided());
        if open {
            probe!(ctx, "coordinator: backup refused to stage");
            self.abort_with(ctx, id, refusal, None);
        }
    }

    /// Answers the client if the running batch is through.
    pub(super) fn batch_moved(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.phase != Phase::Open {
            return;
        }
        let finished = match &record.batch {
            Some(Batch::Execute { progress, .. }) => progress.iter().all(Progress::done),
            Some(Batch::Rollback { pending, .. }) => pending.is_empty(),
            Some(Batch::End { .. }) | None => false,
        };
        if !finished {
            return;
        }
        record.last_active = ctx.now();
        record.goes_on();
        match record.batch.take().expect("checked above") {
            Batch::Execute { request, commit, progress } => {
                let results: Vec<OperationResult> = progress
                    .into_iter()
                    .map(|state| {
                        let result = state.base.expect("done operations have a result");
                        OperationResult { number: state.number, result }
                    })
                    .collect();
                let refused = results.iter().find_map(|r| r.result.as_ref().err().cloned());
                match refused {
                    None if commit => {
                        record.batch = Some(Batch::End { request, results });
                        return self.decide(ctx, id);
                    }
                    Some(refusal) if commit => {
                        record.batch = Some(Batch::End { request, results });
                        return self.abort_with(ctx, id, refusal, None);
                    }
                    _ => self.reply(ctx, id, request, results, TransactionState::Open),
                }
            }
            Batch::Rollback { request, .. } => {
                self.reply(ctx, id, request, vec![], TransactionState::Open);
            }
            Batch::End { .. } => unreachable!("an end is no batch of operations"),
        }
        self.next_queued(ctx, id);
    }

    /// Keeps a request that came while another is under way. A client that sends them without end
    /// has its transaction ended.
    pub(super) fn queue(&mut self, ctx: &mut Ctx<'_>, id: TransactionId, request: ClientRequest) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.queued.len() < QUEUED_MAX {
            return record.queued.push_back(request);
        }
        probe!(ctx, "coordinator: more requests of a transaction wait than may");
        let detail = format!("at most {QUEUED_MAX} requests of a transaction wait");
        self.abort_with(ctx, id, Refusal::new(ErrorCode::BadRequest, detail), None);
    }

    /// Takes up a request that came while another was under way.
    fn next_queued(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(client) = record.client else { return };
        if let Some(request) = record.queued.pop_front() {
            self.handle_request(ctx, client, request);
        }
    }

    /// Tells the client how its transaction stands.
    pub(super) fn reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        request: u64,
        results: Vec<OperationResult>,
        state: TransactionState,
    ) {
        let Some(client) = self.records.get(&id).and_then(|record| record.client) else { return };
        let reply = ClientReply::Transaction { transaction: id, request, results, state };
        ctx.send(client, Message::Reply(reply));
    }

    /// Undoes all operations above a savepoint.
    pub(super) fn rollback_requested(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        request: u64,
        after: OperationNumber,
    ) {
        if let Err(refusal) = self.admit(ctx, from, id, false) {
            return self.refuse_request(ctx, from, id, request, refusal);
        }
        let record = self.records.get_mut(&id).expect("admitted");
        if record.batch.is_some() {
            let again = ClientRequest::RollbackTo { transaction: id, request, after };
            return self.queue(ctx, id, again);
        }
        if after > record.last_number {
            let refusal = Refusal::new(ErrorCode::BadRequest, "no such savepoint");
            return self.abort_with(ctx, id, refusal, Some(request));
        }
        probe!(ctx, "coordinator: rollback to a savepoint");
        let scope = RollbackScope::After(number::last_of(after));
        let writing: BTreeSet<LegId> = (0..record.legs.len())
            .filter(|at| record.legs[*at].replicated)
            .map(|at| LegId(at as u16))
            .collect();
        record.batch = Some(Batch::Rollback { request, pending: writing.clone() });
        for leg in writing {
            send_rollback(ctx, record, leg, scope);
        }
        self.batch_moved(ctx, id);
    }

    /// Opens a scan inside a transaction at the primary of its partition.
    pub(super) fn scan_requested(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        mut scan: Box<ScanRequest>,
        seen_to: OperationNumber,
    ) {
        let refusal = match self.admit(ctx, from, id, true) {
            Err(refusal) => Some(refusal),
            Ok(()) if !known_partition(ctx, scan.partition) => Some(ErrorCode::UnknownTable.into()),
            Ok(()) => None,
        };
        if let Some(refusal) = refusal {
            let batch = wire::ScanBatch {
                scan: scan.scan,
                partition: scan.partition,
                rows: ScanRows::default(),
                status: wire::ScanStatus::Failed(refusal),
                blocks: vec![],
                examined: 0,
            };
            return ctx.send(from, Message::Scan(ScanMessage::Batch(Box::new(batch))));
        }
        let record = self.records.get_mut(&id).expect("admitted");
        record.last_active = ctx.now();
        match route(ctx, record, scan.partition) {
            Ok(leg) => {
                let locks = scan.lock != LockMode::Committed || scan.settled || scan.guarded;
                record.legs[usize::from(leg.0)].scanned |= locks;
                let coordinator = my_ref(ctx);
                let seen_to = if ctx.mutated(Mutation::ScansSeeLaterChanges) {
                    record.last_number
                } else {
                    seen_to.min(record.last_number)
                };
                let seen_to = number::last_of(seen_to);
                let transaction = ScanTransaction { transaction: id, coordinator, leg, seen_to };
                let chain = record.legs[usize::from(leg.0)].chain;
                let primary = chain[0];
                scan.transaction = Some(transaction);
                scan.chain = chain;
                ctx.send(primary, Message::Scan(ScanMessage::Open(scan)));
            }
            Err(refusal) => self.abort_with(ctx, id, refusal, None),
        }
    }
}

/// This coordinator in its present life.
pub(super) fn my_ref(ctx: &Ctx<'_>) -> CoordinatorRef {
    CoordinatorRef { address: ctx.me(), incarnation: ctx.incarnation() }
}

/// The leg that changes of `partition` belong to now.
pub(super) fn route(
    ctx: &Ctx<'_>,
    record: &mut Record,
    partition: PartitionId,
) -> Result<LegId, Refusal> {
    if !known_partition(ctx, partition) {
        return Err(Refusal::new(ErrorCode::UnknownTable, partition.to_string()));
    }
    let cluster = ctx.cluster();
    let slot = cluster.slot_index(partition);
    let chain = Chain::of(cluster, partition);
    if chain.is_empty() {
        return Err(Refusal::new(ErrorCode::ClusterStopped, partition.to_string()));
    }
    // Two tables may spread a slot over different workers of the same nodes: other chains, no
    // conflict. A conflict is another set or order of nodes.
    let conflicts = |leg: &Leg| {
        leg.slots.contains(&slot) && leg.chain != chain && !leg.chain.same_nodes(&chain)
    };
    if record.legs.iter().any(conflicts) {
        return Err(ErrorCode::MembershipChanged.into());
    }
    Ok(record.leg_for(chain, slot))
}

fn known_partition(ctx: &Ctx<'_>, partition: PartitionId) -> bool {
    let table = ctx.cluster().tables.get(&partition.table);
    table.is_some_and(|table| partition.index.0 < table.partition_count)
}

/// Sends operations of one leg to its primary.
fn send_prepare(ctx: &mut Ctx<'_>, record: &mut Record, leg: LegId, operations: Few<Operation>) {
    let transaction = record.id;
    let state = record.leg_mut(leg).expect("the leg was just routed");
    state.replicated |= operations.iter().any(|operation| operation.kind.is_write());
    let chain = state.chain;
    let primary = chain[0];
    let (lock_wait, besides) = (record.lock_wait, record.besides());
    let prepare =
        ParticipantMessage::Prepare { transaction, leg, chain, operations, lock_wait, besides };
    ctx.send(primary, Message::Participant(prepare));
    fault_point!(ctx, "coordinator: after a prepare is sent");
}

/// Sends a change of a hidden table, and remembers it.
pub(super) fn send_index_change(
    ctx: &mut Ctx<'_>,
    record: &mut Record,
    client: OperationNumber,
    mut change: IndexChange,
    operation: Operation,
) -> Result<(), Refusal> {
    let leg = route(ctx, record, operation.partition)?;
    change.leg = leg;
    change.sent += 1;
    let state = record.progress_mut(client).expect("part of the running batch");
    state.index_pending.insert(operation.number, change);
    send_prepare(ctx, record, leg, Few::one(operation));
    Ok(())
}

/// Sends a rollback down the chain of a leg.
fn send_rollback(ctx: &mut Ctx<'_>, record: &Record, leg: LegId, scope: RollbackScope) {
    let chain = &record.legs[usize::from(leg.0)].chain;
    let attempt = match scope {
        RollbackScope::Only(number) => {
            u32::try_from(number::client(number).0).expect("a number that a client may use")
        }
        RollbackScope::After(_) => 0,
    };
    let message = ParticipantMessage::Rollback {
        transaction: record.id,
        leg,
        scope,
        down: chain[1..].into(),
        attempt,
    };
    ctx.send(chain[0], Message::Participant(message));
}

/// Whether operations change a hidden table of a unique index, which the coordinator keeps.
fn changes_entries(ctx: &Ctx<'_>, record: &Record, operations: &[Operation]) -> bool {
    let tables = &ctx.cluster().tables;
    let is_new = |operation: &&Operation| {
        operation.kind.is_write() && !record.written.contains(&operation.partition.table)
    };
    operations.iter().filter(is_new).any(|operation| {
        let hidden = tables.get(&operation.partition.table);
        let base = hidden.and_then(|hidden| tables.get(&hidden.hidden_behind?));
        let of = |index: &model::UniqueIndexDef| index.table == operation.partition.table;
        base.is_some_and(|base| base.unique_indexes.iter().any(of))
    })
}

/// What every batch must keep to.
fn check_batch(ctx: &Ctx<'_>, record: &Record, operations: &[Operation]) -> Result<(), Refusal> {
    let config = ctx.config();
    if operations.len() > config.batch_max as usize {
        let detail = format!("{} of at most {}", operations.len(), config.batch_max);
        return Err(Refusal::new(ErrorCode::BatchLimit, detail));
    }
    if record.operation_count as usize + operations.len() > config.operations_max as usize {
        let detail = format!("at most {}", config.operations_max);
        return Err(Refusal::new(ErrorCode::OperationLimit, detail));
    }
    let mut last = record.last_number;
    for operation in operations {
        if operation.number <= last || operation.number.0 > number::CLIENT_MAX {
            return Err(Refusal::new(ErrorCode::BadRequest, "operation numbers must ascend"));
        }
        last = operation.number;
    }
    Ok(())
}
