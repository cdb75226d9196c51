//! Prepare at the primary: checks, locks, evaluates and stages operations; sends changes down the
//! chain and answers to the coordinator.

use actor::{Ctx, Mutation, fault_point, probe};
use model::{
    Address, ClusterState, ErrorCode, Key, OperationNumber, PartitionId, Refusal, Row, RowId,
    TransactionId,
};
use stdx::Instant;
use store::lock_table::{LockAnswer, LockKey, LockOwner, Mode as LockMode};
use wire::{
    CoordinatorMessage, CoordinatorRef, LegId, Message, Operation, OperationKind, OperationOutcome,
    ParticipantMessage, PreparedOperation, StagedWrite, UniqueImages, WaitPolicy,
};

use super::Participant;
use super::evaluate::{self, Projector};
use super::leg::{Leg, LegHandle, Status};
use super::waits::{Wait, Waiting};

/// What a turn has found out for one leg and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Reads and refusals: known to be final.
    at_once: Vec<PreparedOperation>,
    /// Changes for the next replica.
    writes: Vec<StagedWrite>,
    /// Their results, which the last replica delivers.
    after_writes: Vec<PreparedOperation>,
}

impl Answers {
    /// Refuses an operation.
    pub(super) fn refuse(&mut self, number: OperationNumber, refusal: Refusal) {
        let result = Err(refusal);
        self.at_once.push(PreparedOperation { number, result, images: None });
    }
}

/// What a successful operation has done.
enum Executed {
    Read(Row),
    Written { existed: bool, write: StagedWrite, images: Option<Box<UniqueImages>> },
}

/// The row an operation finds.
struct Found {
    /// Its place, if it has one: committed, or staged by the same leg.
    place: Option<RowId>,
    /// As the transaction has left it.
    before: Option<Row>,
}

impl Participant {
    /// Runs operations as the primary of their partitions.
    pub(super) fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (TransactionId, LegId),
        chain: Vec<Address>,
        operations: Vec<Operation>,
    ) {
        let Some(member) = ctx.cluster().members.get(&from.node) else { return };
        let coordinator = CoordinatorRef { address: from, incarnation: member.incarnation };
        let cluster = ctx.cluster().clone();
        let mut accepted = Vec::with_capacity(operations.len());
        let mut refused = Vec::new();
        for operation in operations {
            match self.admit(&cluster, ctx.me(), &chain, &operation) {
                Ok(()) => accepted.push(operation),
                Err(refusal) => {
                    let (number, result) = (operation.number, Err(refusal));
                    refused.push(PreparedOperation { number, result, images: None });
                }
            }
        }
        if !refused.is_empty() {
            probe!(ctx, "participant: operation refused before it ran");
            send_prepared(ctx, from, name, refused);
        }
        if accepted.is_empty() {
            return;
        }
        let Some(handle) = self.leg_for(ctx, name, chain, coordinator) else {
            let refuse = |operation: Operation| PreparedOperation {
                number: operation.number,
                result: Err(ErrorCode::UnknownTransaction.into()),
                images: None,
            };
            return send_prepared(ctx, from, name, accepted.into_iter().map(refuse).collect());
        };
        for operation in accepted {
            self.run_operation(ctx, handle, operation, None);
        }
    }

    /// The open leg of this name, begun if it is new. `None` when another coordinator or chain
    /// has a leg of the same name: two clients use one session's identity.
    pub(super) fn leg_for(
        &mut self,
        ctx: &mut Ctx<'_>,
        name: (TransactionId, LegId),
        chain: Vec<Address>,
        coordinator: CoordinatorRef,
    ) -> Option<LegHandle> {
        let Some(handle) = self.legs.find(name.0, name.1) else {
            let began = ctx.cluster().index;
            return Some(self.legs.insert(Leg::new(name.0, name.1, chain, coordinator, began)));
        };
        let leg = self.legs.leg(handle);
        let same =
            leg.coordinator == coordinator && leg.chain == chain && leg.status == Status::Open;
        if !same {
            probe!(ctx, "participant: leg named twice");
        }
        same.then_some(handle)
    }

    /// Whether this worker may run the operation now, and the operation makes sense.
    fn admit(
        &self,
        cluster: &ClusterState,
        me: Address,
        chain: &[Address],
        operation: &Operation,
    ) -> Result<(), Refusal> {
        let partition = operation.partition;
        let table = cluster.tables.get(&partition.table);
        let table = table.ok_or(Refusal::from(ErrorCode::UnknownTable))?;
        if partition.index.0 >= table.partition_count {
            return Err(Refusal::new(ErrorCode::BadRequest, "no such partition"));
        }
        if !routed_here(cluster, me, partition, chain) || !self.replicas.contains_key(&partition) {
            return Err(Refusal::new(ErrorCode::StaleRoute, partition.to_string()));
        }
        if operation.table_version != table.version
            || table.writes_blocked && operation.kind.is_write()
        {
            return Err(Refusal::new(ErrorCode::SchemaChanged, table.name.clone()));
        }
        evaluate::check_operation(table, partition, &operation.kind)
    }

    /// Locks the row and runs the operation, or parks it until the lock is granted. One that has
    /// waited already, and is to be refused at `deadline`, does not queue behind itself.
    fn run_operation(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        deadline: Option<Instant>,
    ) {
        let partition = operation.partition;
        let replica = self.replicas.get_mut(&partition).expect("admitted operations are here");
        let key = evaluate::key_of(replica.partition.table(), &operation);
        let hash = key.local_hash();
        if deadline.is_none() && self.waits.on_row(handle, partition, hash) {
            probe!(ctx, "participant: operation behind an earlier one on its row");
            let (ticket, what) = parked(operation);
            let wait = Wait::new(ctx, (partition, hash), what, false, None);
            return self.waits.insert(handle, ticket, wait);
        }
        if let Some((mode, wait)) = lock_of(&operation.kind) {
            self.legs.leg_mut(handle).locked.insert(partition);
            let (owner, lock) = (LockOwner(handle.0), LockKey(hash));
            match wait {
                WaitPolicy::Wait => {
                    let ticket = u64::from(operation.number.0);
                    let answer = replica.locks.request(lock, owner, mode, ticket);
                    if answer == LockAnswer::Waiting {
                        probe!(ctx, "participant: operation waits for a lock");
                        let (ticket, what) = parked(operation);
                        let wait = Wait::new(ctx, (partition, hash), what, true, deadline);
                        return self.waits.insert(handle, ticket, wait);
                    }
                }
                WaitPolicy::Refuse | WaitPolicy::Skip => {
                    if !replica.locks.try_request(lock, owner, mode) {
                        let refusal = Refusal::new(
                            ErrorCode::LockUnavailable,
                            self.holder_name(partition, lock),
                        );
                        let answers = self.answers.entry(handle).or_default();
                        return answers.refuse(operation.number, refusal);
                    }
                }
            }
        }
        let number = operation.number;
        let executed = self.execute(ctx, handle, operation, key, hash);
        let answers = self.answers.entry(handle).or_default();
        match executed {
            Ok(Executed::Read(row)) => {
                let result = Ok(OperationOutcome::Row(row));
                answers.at_once.push(PreparedOperation { number, result, images: None });
            }
            Ok(Executed::Written { existed, write, images }) => {
                let result = Ok(OperationOutcome::Written { existed });
                answers.writes.push(write);
                answers.after_writes.push(PreparedOperation { number, result, images });
            }
            Err(refusal) => answers.refuse(number, refusal),
        }
    }

    /// The transactions that hold a lock, in words.
    pub(super) fn holder_name(&self, partition: PartitionId, lock: LockKey) -> String {
        let holders = self.replicas[&partition].locks.holders(lock);
        let legs = holders.iter().filter_map(|(owner, _)| self.legs.get(LegHandle(owner.0)));
        let names: Vec<String> = legs.map(|leg| leg.transaction.to_string()).collect();
        format!("{partition} locked by {}", names.join(", "))
    }

    /// Goes on with an operation that has waited. What it was made for may have changed.
    pub(super) fn resume_operation(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        deadline: Instant,
    ) {
        let cluster = ctx.cluster().clone();
        let leg = self.legs.leg(handle);
        match self.admit(&cluster, ctx.me(), &leg.chain, &operation) {
            Ok(()) => self.run_operation(ctx, handle, operation, Some(deadline)),
            Err(refusal) => {
                probe!(ctx, "participant: operation stale after its wait");
                self.answers.entry(handle).or_default().refuse(operation.number, refusal);
            }
        }
    }

    /// Runs the operations that were behind one that has ended, up to the next that must queue.
    pub(super) fn run_followers(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        partition: PartitionId,
        hash: u64,
    ) {
        while let Some(ticket) = self.waits.follower(handle, partition, hash) {
            let wait = self.waits.remove(handle, ticket).expect("found above");
            let Waiting::Operation(operation) = wait.what else {
                panic!("only operations are behind others");
            };
            if wait.deadline > ctx.now() {
                self.resume_operation(ctx, handle, *operation, wait.deadline);
            } else {
                let refusal = Refusal::new(ErrorCode::LockTimeout, partition.to_string());
                self.answers.entry(handle).or_default().refuse(operation.number, refusal);
            }
        }
    }

    /// The row as the transaction has left it.
    fn find(&self, handle: LegHandle, partition: PartitionId, key: &Key, hash: u64) -> Found {
        let leg = self.legs.leg(handle);
        let replica = &self.replicas[&partition];
        if let Some(row_id) = leg.place_of(partition, hash, &key.0) {
            let before = leg.staged[&(partition, row_id)].newest().cloned();
            return Found { place: Some(row_id), before };
        }
        let place = replica.partition.find(&key.0, hash);
        let before = place.and_then(|row_id| replica.partition.row(row_id));
        assert_eq!(place.is_some(), before.is_some(), "{partition}: found rows are there");
        Found { place, before: before.map(|bytes| Row(bytes.into())) }
    }

    /// Evaluates an operation whose row is locked, and stages what it changes.
    fn execute(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        key: Key,
        hash: u64,
    ) -> Result<Executed, Refusal> {
        let partition = operation.partition;
        let table = self.replicas[&partition].partition.table().clone();
        let found = self.find(handle, partition, &key, hash);
        let before = || found.before.as_ref().ok_or(Refusal::from(ErrorCode::RowNotFound));
        let after = match operation.kind {
            OperationKind::Read { projection, .. } => {
                let row = Projector::new(&table, &projection).project(&table, &before()?.0)?;
                return Ok(Executed::Read(row));
            }
            OperationKind::Insert { row } => {
                if found.before.is_some() {
                    return Err(Refusal::new(ErrorCode::RowExists, table.name.clone()));
                }
                Some(row)
            }
            OperationKind::Upsert { row } => Some(row),
            OperationKind::Update { condition, assignments, .. } => {
                let before = before()?;
                evaluate::require(&table, &before.0, condition.as_ref())?;
                Some(evaluate::updated(&table, &before.0, &key, &assignments)?)
            }
            OperationKind::Delete { condition, .. } => {
                evaluate::require(&table, &before()?.0, condition.as_ref())?;
                None
            }
        };
        let size = |row: &Option<Row>| row.as_ref().map_or(0, |row| row.0.len() as u64);
        if size(&after) > size(&found.before) && !self.has_room(ctx, size(&after)) {
            probe!(ctx, "participant: memory full at the primary");
            return Err(Refusal::new(ErrorCode::MemoryFull, ctx.me().to_string()));
        }
        let existed = found.before.is_some();
        let write = self.stage(handle, operation.number, partition, found.place, key, &after);
        let images = (!table.unique_indexes.is_empty())
            .then(|| Box::new(UniqueImages { before: found.before, after }));
        Ok(Executed::Written { existed, write, images })
    }

    /// Whether `bytes` more of rows and staged images stay within the limit.
    pub(super) fn has_room(&mut self, ctx: &Ctx<'_>, bytes: u64) -> bool {
        let rows = self.row_bytes();
        rows + self.legs.staged_bytes() + bytes <= ctx.config().data_memory
    }

    /// Bytes of committed rows and indexes: counted once per turn, as staging hardly moves it.
    fn row_bytes(&mut self) -> u64 {
        if let Some(bytes) = self.row_bytes_of_turn {
            return bytes;
        }
        let bytes = self.replicas.values().map(|r| r.partition.memory_bytes()).sum();
        self.row_bytes_of_turn = Some(bytes);
        bytes
    }

    /// Keeps an after-image in the leg, in a place of its own if the row is new.
    fn stage(
        &mut self,
        handle: LegHandle,
        number: OperationNumber,
        partition: PartitionId,
        place: Option<RowId>,
        key: Key,
        after: &Option<Row>,
    ) -> StagedWrite {
        let replica = self.replicas.get_mut(&partition).expect("admitted operations are here");
        let row_id = place.unwrap_or_else(|| replica.partition.allocate());
        let claimed = *replica.claims.entry(row_id).or_insert(handle);
        assert_eq!(claimed, handle, "{partition} {row_id}: staged by two legs");
        let fresh = self.legs.change(handle, |leg| {
            let at = (partition, row_id);
            leg.claims.entry(at).or_insert(place.is_none());
            leg.stage(at, key.clone(), place.is_none(), (number, after.clone()));
            leg.staged[&at].fresh
        });
        StagedWrite { number, partition, row_id, key, after: after.clone(), fresh }
    }

    /// Sends what the turn has found out: results to coordinators, changes down the chains.
    pub(super) fn flush(&mut self, ctx: &mut Ctx<'_>) {
        for (handle, answers) in std::mem::take(&mut self.answers) {
            let Some(leg) = self.legs.get(handle) else { continue };
            let (to, name) = (leg.coordinator.address, (leg.transaction, leg.leg));
            if !answers.at_once.is_empty() {
                send_prepared(ctx, to, name, answers.at_once);
            }
            if answers.writes.is_empty() {
                continue;
            }
            fault_point!(ctx, "participant: staged, before it replicates");
            match leg.chain.get(1).copied() {
                None => send_prepared(ctx, to, name, answers.after_writes),
                Some(next) => {
                    let replicate = ParticipantMessage::Replicate {
                        transaction: leg.transaction,
                        leg: leg.leg,
                        coordinator: leg.coordinator,
                        chain: leg.chain.clone(),
                        writes: answers.writes,
                        results: answers.after_writes,
                    };
                    ctx.send(next, Message::Participant(replicate));
                    self.legs.leg_mut(handle).replicated = true;
                }
            }
            if ctx.mutated(Mutation::ReleaseLocksAtPrepare) {
                self.release_early(handle);
            }
        }
    }

    /// Breaks two-phase locking, for the simulation to notice.
    fn release_early(&mut self, handle: LegHandle) {
        let leg = self.legs.leg(handle);
        let held: Vec<(PartitionId, u64)> =
            leg.staged.iter().map(|(place, row)| (place.0, row.hash)).collect();
        for (partition, hash) in held {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let mut grants = Vec::new();
            replica.locks.release(LockKey(hash), LockOwner(handle.0), &mut grants);
            self.note_grants(partition, grants);
        }
    }
}

/// Whether `chain` is the partition's newest one and `me` its primary.
pub(super) fn routed_here(
    cluster: &ClusterState,
    me: Address,
    partition: PartitionId,
    chain: &[Address],
) -> bool {
    chain.first() == Some(&me)
        && !cluster.slots.is_empty()
        && cluster.slot_of(partition).replicas.len() == chain.len()
        && cluster
            .slot_of(partition)
            .replicas
            .iter()
            .zip(chain)
            .all(|(replica, address)| cluster.participant(partition, replica.node) == *address)
}

/// A waiting operation and the ticket of its wait.
fn parked(operation: Operation) -> (u64, Waiting) {
    (u64::from(operation.number.0), Waiting::Operation(Box::new(operation)))
}

/// The lock an operation needs and what to do if it cannot be had.
fn lock_of(kind: &OperationKind) -> Option<(LockMode, WaitPolicy)> {
    match kind {
        OperationKind::Read { lock, wait, .. } => Some((store_mode(*lock)?, *wait)),
        _ => Some((LockMode::Exclusive, WaitPolicy::Wait)),
    }
}

/// The lock table's word for a lock; none for committed reads.
pub(super) fn store_mode(lock: wire::LockMode) -> Option<LockMode> {
    match lock {
        wire::LockMode::Committed => None,
        wire::LockMode::Shared => Some(LockMode::Shared),
        wire::LockMode::Exclusive => Some(LockMode::Exclusive),
    }
}

/// Gives results to the coordinator.
pub(super) fn send_prepared(
    ctx: &mut Ctx<'_>,
    to: Address,
    name: (TransactionId, LegId),
    results: Vec<PreparedOperation>,
) {
    let (transaction, leg) = name;
    let message = CoordinatorMessage::Prepared { transaction, leg, results };
    ctx.send(to, Message::Coordinator(message));
}
