//! Prepare at the primary: checks, locks, evaluates and stages operations; sends changes down the
//! chain and answers to the coordinator.

use actor::{Ctx, Mutation, Tally, fault_point, probe};
use model::{
    Address, ErrorCode, Key, OperationNumber, PartitionId, Refusal, Row, RowId, TransactionId,
};
use stdx::{Duration, Few};
use store::lock_table::{LockAnswer, LockKey, LockOwner, Mode as LockMode};
use wire::{
    Besides, Chain, CoordinatorMessage, CoordinatorRef, Effect, LegId, Message, Operation,
    OperationKind, OperationOutcome, PreparedOperation, StagedWrite, UniqueImages, WaitPolicy,
};

use super::Participant;
use super::evaluate::{self, Projector};
use super::leg::{self, Image, Leg, LegHandle, ROW_BYTES, Status, Touch};
use super::memory::LOCK_BYTES;
use super::read::not_here;
use super::replicate::{Changes, Then};
use super::waits::{Place, Terms, Wait, Waiting, lock_deadline};

/// What a turn has found out for one leg and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Reads and refusals: known to be final.
    at_once: Few<PreparedOperation>,
    /// Changes for the next replica.
    writes: Few<StagedWrite>,
    /// Their results, which the last replica delivers.
    after_writes: Few<PreparedOperation>,
}

impl Answers {
    /// Refuses an operation.
    pub(super) fn refuse(&mut self, number: OperationNumber, refusal: Refusal) {
        self.at_once.push(PreparedOperation::refused(number, refusal));
    }

    /// Whether `count` operations have succeeded, some of them changes, and nobody else need see
    /// their rows.
    pub(super) fn are_final(&self, count: usize) -> bool {
        !self.writes.is_empty()
            && self.at_once.len() + self.after_writes.len() == count
            && self.at_once.iter().all(|read| read.result.is_ok())
            && self.after_writes.iter().all(|done| done.images.is_none())
    }

    /// Takes all results out; the changes stay to be sent.
    pub(super) fn take_results(&mut self) -> Few<PreparedOperation> {
        let writes = std::mem::take(&mut self.after_writes);
        if self.at_once.is_empty() {
            return writes;
        }
        writes.into_iter().chain(std::mem::take(&mut self.at_once)).collect()
    }

    /// Forgets what was not sent.
    pub(super) fn forget(&mut self) {
        if !self.is_empty() || !self.after_writes.is_empty() {
            *self = Self::default();
        }
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.at_once.is_empty() && self.writes.is_empty()
    }
}

/// What a successful operation has done.
enum Executed {
    Read(Row),
    Written { effect: Effect, write: StagedWrite, images: Option<Box<UniqueImages>> },
}

/// A change that an operation makes, before the row has a place and a leg has it.
struct Staging {
    number: OperationNumber,
    partition: PartitionId,
    /// None if the row is new.
    place: Option<RowId>,
    key: Key,
    /// That of the key.
    hash: u64,
    /// The row afterwards; none when the operation deletes it.
    after: Option<Row>,
    /// The leg had not the row's lock before.
    lock_is_new: bool,
}

/// Operations that a coordinator wants to be prepared.
pub(super) struct Preparation {
    /// The replicas of their partitions.
    pub(super) chain: Chain,
    pub(super) operations: Few<Operation>,
    /// How long each waits for a lock; the cluster's lock time-out unless given.
    pub(super) lock_wait: Option<Duration>,
}

/// How an operation comes to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// For the first time.
    First,
    /// After its wait for a lock, or behind an operation that has ended. It does not queue behind
    /// itself.
    Granted,
    /// After its wait for a row in doubt: the row may be in doubt again, by a later leg.
    AfterDoubt,
}

/// As what an operation is counted.
fn tally_of(kind: &OperationKind) -> Tally {
    match kind {
        OperationKind::Read { .. } => Tally::LockedRead,
        OperationKind::Insert { .. } => Tally::Insert,
        OperationKind::Update { .. } => Tally::Update,
        OperationKind::Upsert { .. } => Tally::Upsert,
        OperationKind::Delete { .. } => Tally::Delete,
    }
}

impl Participant {
    /// Runs operations as the primary of their partitions.
    pub(super) fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (TransactionId, LegId),
        asked: Preparation,
        besides: Besides,
    ) {
        let Some(member) = ctx.cluster().members.get(&from.node) else { return };
        let coordinator = CoordinatorRef { address: from, incarnation: member.incarnation };
        let Preparation { chain, operations, lock_wait } = asked;
        let besides = if operations.len() > 1 { Besides::Operations } else { besides };
        let terms = Terms { deadline: lock_deadline(ctx, lock_wait), besides };
        let mut refused = Few::new();
        let mut leg = None;
        for operation in operations {
            let number = operation.number;
            ctx.count(tally_of(&operation.kind));
            let of_row = match self.admit(ctx, &chain, &operation) {
                Ok(of_row) => of_row,
                Err(refusal) => {
                    if refusal.code == ErrorCode::DiskFull {
                        ctx.count(Tally::DiskFull);
                    }
                    refused.push(refused_at_once(operation, refusal));
                    continue;
                }
            };
            let handle = *leg.get_or_insert_with(|| self.leg_for(ctx, name, chain, coordinator));
            if handle.is_some_and(|handle| self.waits.has(handle, number.0)) {
                return ctx.refuse(from, "an operation is sent again while it waits");
            }
            match handle {
                Some(handle) => {
                    self.run_operation(ctx, handle, operation, of_row, terms, Run::First);
                }
                None => {
                    let refusal = ErrorCode::UnknownTransaction.into();
                    refused.push(PreparedOperation::refused(number, refusal));
                }
            }
        }
        if !refused.is_empty() {
            probe!(ctx, "participant: operation refused before it ran");
            send_prepared(ctx, from, name, refused);
        }
    }

    /// The open leg of this name, begun if it is new. `None` when another coordinator or chain
    /// has a leg of the same name: two clients use one session's identity.
    pub(super) fn leg_for(
        &mut self,
        ctx: &mut Ctx<'_>,
        name: (TransactionId, LegId),
        chain: Chain,
        coordinator: CoordinatorRef,
    ) -> Option<LegHandle> {
        let Some(handle) = self.legs.find(name.0, name.1) else {
            let began = ctx.cluster().index;
            return Some(self.legs.insert(Leg::new(name.0, name.1, chain, coordinator, began)));
        };
        let leg = self.legs.leg(handle);
        let open = leg.status == Status::Open && leg.ending.is_none();
        let same = leg.coordinator == coordinator && leg.chain == chain && open;
        if !same {
            probe!(ctx, "participant: leg named twice");
        }
        same.then_some(handle)
    }

    /// Whether this worker may run the operation now, and the operation makes sense; the key of the
    /// row that it brings, if it brings one.
    fn admit(
        &self,
        ctx: &Ctx<'_>,
        chain: &Chain,
        operation: &Operation,
    ) -> Result<Option<Key>, Refusal> {
        let partition = operation.partition;
        let replica = self.replicas.get(&partition);
        let replica = replica.filter(|replica| replica.is_primary(ctx.me(), chain));
        let replica = replica.ok_or_else(|| not_here(ctx.cluster(), partition))?;
        let table = replica.partition.table();
        let moves = table.writes_blocked && operation.kind.is_write();
        let refused = !table.serves_version(operation.table_version) || moves;
        if refused && !(moves && ctx.mutated(Mutation::SqlMovedTablesWritten)) {
            return Err(Refusal::new(ErrorCode::SchemaChanged, table.name.clone()));
        }
        if operation.kind.is_write() && self.disk.as_ref().is_some_and(|disk| disk.is_full()) {
            return Err(Refusal::new(ErrorCode::DiskFull, ctx.me().to_string()));
        }
        evaluate::check_operation(table, partition, &operation.kind)
    }

    /// Locks the row and runs the operation, or parks it until the lock is granted, at most until
    /// its deadline.
    #[expect(clippy::too_many_lines, reason = "an operation from its checks to its answer")]
    fn run_operation(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        of_row: Option<Key>,
        terms: Terms,
        run: Run,
    ) {
        let (number, partition) = (operation.number, operation.partition);
        let key = of_row.as_ref().or(operation.kind.key()).expect("a row or a key");
        let hash = key.local_hash();
        if run == Run::First && self.waits.on_row(handle, partition, hash) {
            probe!(ctx, "participant: operation behind an earlier one on its row");
            let (ticket, what) = parked(operation);
            let wait = Wait::new(ctx, partition, hash, what, Place::Behind, terms);
            return self.waits.insert(handle, ticket, wait);
        }
        if self.doubts.any()
            && run != Run::AfterDoubt
            && let Some(number) = self.park_operation(ctx, handle, &operation, hash)
        {
            let (ticket, what) = parked(operation);
            let wait = Wait::new(ctx, partition, hash, what, Place::Doubt(number), terms);
            return self.waits.insert(handle, ticket, wait);
        }
        let mut lock_is_new = false;
        if let Some((mode, wait)) = lock_of(&operation.kind) {
            if !operation.kind.is_write()
                && let Err(refusal) = self.has_room(ctx, LOCK_BYTES, false)
            {
                return self.answers(handle).refuse(number, refusal);
            }
            let replica = self.replicas.get_mut(&partition).expect("admitted above");
            self.legs.leg_mut(handle).locks_in(partition);
            self.memory.locked(1);
            let (owner, lock) = (LockOwner(handle.0), LockKey(hash));
            let acquired = replica.locks.acquire(lock, owner, mode);
            lock_is_new = acquired == Some(true);
            match wait {
                _ if acquired.is_some() => {}
                WaitPolicy::Wait => {
                    let ticket = number.0;
                    let answer = replica.locks.request(lock, owner, mode, ticket);
                    if answer == LockAnswer::Waiting {
                        probe!(ctx, "participant: operation waits for a lock");
                        ctx.count(Tally::LockWait);
                        let (ticket, what) = parked(operation);
                        let wait = Wait::new(ctx, partition, hash, what, Place::Queue, terms);
                        self.search_from(handle, ticket, terms.besides);
                        return self.waits.insert(handle, ticket, wait);
                    }
                }
                WaitPolicy::Refuse | WaitPolicy::Skip => {
                    let holder = self.holder_name(partition, lock);
                    let refusal = Refusal::new(ErrorCode::LockUnavailable, holder);
                    ctx.count(Tally::LockUnavailable);
                    return self.answers(handle).refuse(number, refusal);
                }
            }
        }
        let is_free = !operation.kind.is_write() || self.replicas[&partition].guards.is_empty();
        let operation = if is_free {
            operation
        } else {
            match self.await_guards(ctx, handle, operation, of_row.as_ref(), hash, terms) {
                Some(operation) => operation,
                None => return,
            }
        };
        let executed = self.execute(ctx, handle, operation, of_row, hash, lock_is_new);
        let answers = self.answers(handle);
        match executed {
            Ok(Executed::Read(row)) => {
                let outcome = OperationOutcome::Row(row);
                answers.at_once.push(PreparedOperation::done(number, outcome));
            }
            Ok(Executed::Written { effect, write, images }) => {
                let outcome = OperationOutcome::Written(effect);
                let done = PreparedOperation::done(number, outcome);
                answers.writes.push(write);
                answers.after_writes.push(PreparedOperation { images, ..done });
            }
            Err(refusal) => answers.refuse(number, refusal),
        }
    }

    /// What this turn is to send for a leg, at its end.
    pub(super) fn answers(&mut self, handle: LegHandle) -> &mut Answers {
        let leg = self.legs.leg_mut(handle);
        if leg.answers.is_empty() {
            self.answered.push(handle);
        }
        &mut leg.answers
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
        terms: Terms,
        run: Run,
    ) {
        let chain = self.legs.leg(handle).chain;
        match self.admit(ctx, &chain, &operation) {
            Ok(of_row) => self.run_operation(ctx, handle, operation, of_row, terms, run),
            Err(refusal) => {
                probe!(ctx, "participant: operation stale after its wait");
                self.answers(handle).at_once.push(refused_at_once(operation, refusal));
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
            if wait.terms.deadline > ctx.now() {
                self.resume_operation(ctx, handle, *operation, wait.terms, Run::Granted);
            } else {
                let refusal = Refusal::new(ErrorCode::LockTimeout, partition.to_string());
                self.answers(handle).refuse(operation.number, refusal);
            }
        }
    }

    /// Evaluates an operation whose row is locked, and stages what it changes. `of_row` is the key
    /// of an operation that brings a row instead. `lock_is_new` says that the leg had not the row's
    /// lock before: then it has staged nothing under this key.
    fn execute(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        of_row: Option<Key>,
        hash: u64,
        lock_is_new: bool,
    ) -> Result<Executed, Refusal> {
        let Operation { number, partition, kind, .. } = operation;
        let replica = &self.replicas[&partition].partition;
        let table = replica.table();
        let key = of_row.as_ref().or(kind.key()).expect("a row or a key");
        // The row as the transaction has left it.
        let rows = (!lock_is_new).then(|| &self.legs.leg(handle).rows);
        let staged = rows.and_then(|rows| rows.staged(partition, hash, &key.0));
        let (place, row) = match staged {
            Some(staged) => (Some(staged.place.row_id), staged.newest().map(|row| &row.0[..])),
            None if let OperationKind::Read { snapshot: Some(epoch), .. } = kind => {
                self.check_snapshot(ctx, &self.replicas[&partition], epoch)?;
                let row = replica.read_at(&key.0, hash, epoch);
                let row =
                    row.map_err(|_| Refusal::new(ErrorCode::SnapshotTooOld, epoch.to_string()));
                (None, row?)
            }
            None => {
                let place = replica.find(&key.0, hash);
                let row = place.and_then(|row_id| replica.row(row_id));
                assert_eq!(place.is_some(), row.is_some(), "{partition}: found rows are there");
                (place, row)
            }
        };
        let there = || row.ok_or(Refusal::from(ErrorCode::RowNotFound));
        let (key, after) = match kind {
            OperationKind::Read { projection, .. } => {
                let projector = Projector::of(&mut self.projectors, table, &projection)?;
                let row = projector.project(table, there()?)?;
                return Ok(Executed::Read(row));
            }
            OperationKind::Insert { .. } if row.is_some() => {
                return Err(Refusal::new(ErrorCode::RowExists, table.name.clone()));
            }
            OperationKind::Insert { row } | OperationKind::Upsert { row } => {
                (of_row.expect("taken from the row"), Some(row))
            }
            OperationKind::Update { key, condition, assignments } => {
                let before = there()?;
                evaluate::require(table, before, condition.as_ref())?;
                let after = evaluate::updated(table, before, &key, &assignments)?;
                (key, Some(after))
            }
            OperationKind::Delete { key, condition } => {
                evaluate::require(table, there()?, condition.as_ref())?;
                (key, None)
            }
        };
        let followed = table.is_followed();
        let image = row.filter(|_| followed).map(|row| Row(row.into()));
        let effect = match (row, &after) {
            (None, _) => Effect::Created,
            (Some(row), Some(after)) if *row == *after.0 => Effect::Unchanged,
            (Some(_), _) => Effect::Changed,
        };
        let before = row.map_or(0, <[u8]>::len);
        let size = after.as_ref().map_or(0, |row| row.0.len());
        if let Err(refusal) = self.has_room(ctx, size as u64 + ROW_BYTES, size > before) {
            probe!(ctx, "participant: memory full at the primary");
            ctx.count(Tally::MemoryFull);
            return Err(refusal);
        }
        let images =
            followed.then(|| Box::new(UniqueImages { before: image, after: after.clone() }));
        let change = Staging { number, partition, place, key, hash, after, lock_is_new };
        let write = self.stage(handle, change);
        Ok(Executed::Written { effect, write, images })
    }

    /// Keeps an after-image in the leg, in a place of its own if the row is new.
    fn stage(&mut self, handle: LegHandle, change: Staging) -> StagedWrite {
        let Staging { number, partition, place, key, hash, after, lock_is_new } = change;
        let replica = self.replicas.get_mut(&partition).expect("admitted operations are here");
        let new = place.is_none();
        let row_id = place.unwrap_or_else(|| replica.partition.allocate());
        let claimed = replica.claims.claim(row_id, handle);
        assert!(claimed.is_none_or(|by| by == handle), "{partition} {row_id}: staged by two legs");
        let image = Image { number, row: after.clone() };
        let (row_is_new, reserved, claim_is_new) = (new, new, claimed.is_none());
        let touch = Touch { row_is_new, reserved, claim_is_new, lock_is_new };
        let place = leg::Place { partition, row_id };
        let fresh = self.legs.change(handle, |leg| leg.stage(place, &key, hash, touch, image));
        StagedWrite { number, partition, row_id, key, after, fresh }
    }

    /// Sends what the turn has found out: results to coordinators, changes down the chains.
    pub(super) fn flush(&mut self, ctx: &mut Ctx<'_>) {
        let mut answered = std::mem::take(&mut self.answered);
        for handle in answered.drain(..) {
            let Some(leg) = self.legs.get_mut(handle) else { continue };
            let answers = std::mem::take(&mut leg.answers);
            let (to, name) = (leg.coordinator.address, (leg.transaction, leg.leg));
            if !answers.at_once.is_empty() {
                send_prepared(ctx, to, name, answers.at_once);
            }
            if answers.writes.is_empty() {
                continue;
            }
            fault_point!(ctx, "participant: staged, before it replicates");
            let (coordinator, chain) = (leg.coordinator, leg.chain);
            let then = match leg.commits_in {
                Some(epoch) => Then::Commit(epoch),
                None => Then::Answer(answers.after_writes),
            };
            if chain.len() > 1 {
                leg.replicated = true;
            }
            let changes = Changes { coordinator, chain, writes: answers.writes, then };
            self.pass_on(ctx, name.0, name.1, 0, changes);
            if ctx.mutated(Mutation::ReleaseLocksAtPrepare) {
                self.release_early(handle);
            }
        }
        // Its memory is used again.
        assert!(self.answered.is_empty(), "sending finds nothing out");
        self.answered = answered;
    }

    /// Breaks two-phase locking, for the simulation to notice.
    fn release_early(&mut self, handle: LegHandle) {
        let Some(leg) = self.legs.get(handle) else { return };
        let staged = leg.rows.iter().filter(|row| row.is_staged());
        let held: Vec<(PartitionId, u64)> =
            staged.map(|row| (row.place.partition, row.hash)).collect();
        for (partition, hash) in held {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let mut grants = Vec::new();
            replica.locks.release(LockKey(hash), LockOwner(handle.0), &mut grants);
            self.note_grants(partition, grants);
        }
    }
}

/// The answer to an operation that has not run. One that came here by a stale route goes back.
fn refused_at_once(operation: Operation, refusal: Refusal) -> PreparedOperation {
    let stale = refusal.code == ErrorCode::StaleRoute;
    let refused = PreparedOperation::refused(operation.number, refusal);
    PreparedOperation { returned: stale.then(|| Box::new(operation)), ..refused }
}

/// A waiting operation and the ticket of its wait.
fn parked(operation: Operation) -> (u64, Waiting) {
    (operation.number.0, Waiting::Operation(Box::new(operation)))
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
    results: Few<PreparedOperation>,
) {
    let (transaction, leg) = name;
    let message = CoordinatorMessage::Prepared { transaction, leg, results };
    ctx.send(to, Message::Coordinator(message));
}
