//! Scans of partitions: opened once, answered batch by batch as the client asks.
//!
//! # Owns
//! A record per open scan: where it stands, what it has collected, whether the client awaits a
//! batch. Long walks are cut into steps; scans take turns.
//! # Guarantees
//! A scan sees each row that is there all the time once. It never waits for a lock while it sits
//! on rows. It sees its own transaction's changes up to the operation it was opened after.
//! # Not here
//! The walk over rows (`cursor`), locks, merging of partitions (`client`).

mod cursor;
mod keys;
mod own;
mod within;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actor::{Ctx, Mutation, Tally, probe};
use model::schema::KEY_SIZE_MAX;
use model::{
    ActorKind, Address, ColumnId, ErrorCode, Incarnation, KeyEncoder, NodeId, OperationNumber,
    PartitionId, Refusal, Table, TransactionId,
};
use store::lock_table::{LockAnswer, LockKey, LockOwner, LockTable, Mode as LockMode};
use store::partition::Partition;
use vector::{Bad, Block, Machine, Output, Program, Yield};
use wire::{
    Besides, Continue, LegId, Message, SCAN_WAITS_FROM, ScanBatch, ScanId, ScanMessage,
    ScanRequest, ScanRows, ScanSource, ScanStatus, WaitPolicy,
};

use super::Participant;
use super::doubt::ParkNumber;
use super::evaluate::{self, Projector};
use super::guard;
use super::leg::{Leg, LegHandle, Legs};
use super::memory::LOCK_BYTES;
use super::prepare::store_mode;
use super::waits::{Place, Terms, Wait, Waiting, lock_deadline};
use cursor::{Own, Position, Range, View, Walk};
use keys::Lookups;
use own::OwnPlaces;
pub(super) use within::Within;

/// Most bytes of rows in a batch, but for its last row.
const BATCH_BYTES_MAX: usize = 64 << 10;
/// Batches of rows that a program gives out at a time, and computes with.
const MACHINE_BATCHES: usize = 4;
/// The same for a program that groups: aggregates of more take too long for one step.
const GROUPING_BATCHES: usize = 2;
/// Rows that room is made for behind the first of a batch.
const ROWS_LIKELY: usize = 64;
/// Bytes that room is made for at most, before so many have come.
const BYTES_LIKELY: usize = 8 << 10;
/// Keys that a scan names, at most.
const KEYS_MAX: usize = 8_192;
/// The second batch is one in so many of the first one, where the client has said how many rows
/// that has: it was nearly enough. Each further one is twice as long.
const LATER_BATCHES: u32 = 4;

/// One scan of one partition.
pub(super) type ScanKey = (ScanId, PartitionId);

/// What a batch has.
#[derive(Default)]
struct Made {
    rows: ScanRows,
    blocks: Vec<Block>,
    /// How many rows were looked at for them.
    examined: u64,
}

/// Whose locks a scan takes, and which it takes of the rows that it gives out.
#[derive(Clone, Copy, Debug)]
struct Owner {
    leg: LegHandle,
    mode: Option<LockMode>,
}

/// An open scan.
#[derive(Debug)]
struct Scan {
    request: Box<ScanRequest>,
    range: Range,
    /// It has not been looked whether its range is a wide one.
    may_be_wide: bool,
    /// Which of the rows that are read it is about, where not all are.
    within: Option<Within>,
    projector: Projector,
    position: Position,
    /// The definition that it was opened by.
    table: Arc<Table>,
    /// The leg that owns the locks it takes, and guards its range.
    owner: Option<Owner>,
    /// The leg whose changes it sees, and up to which operation.
    own: Option<(TransactionId, LegId, OperationNumber)>,
    own_places: OwnPlaces,
    /// Rows still wanted; none for all.
    remaining: Option<u64>,
    rows: ScanRows,
    /// What its program has made of other rows.
    blocks: Vec<Block>,
    /// Bytes of rows and blocks.
    row_bytes: usize,
    /// Rows of this batch at most, and of the next one, when the client has said how many it wants
    /// first.
    batch_rows: Option<(u32, u32)>,
    /// Rows looked at since the last batch.
    examined: u64,
    /// Runs its program.
    machine: Option<Box<Machine>>,
    /// The walk has ended; the machine may have something left.
    walked: bool,
    /// The client awaits a batch.
    asked: bool,
    /// Waits for a lock under `ticket`.
    waits: bool,
    /// Waits for rows in doubt, under this number, and has read nothing yet.
    parked: Option<ParkNumber>,
    /// Is in the queue of scans that go on.
    queued: bool,
    /// Why it cannot go on; told when the client asks.
    failed: Option<Refusal>,
    /// Names its lock waits.
    ticket: u64,
    /// Locks asked for in this step.
    locks: u64,
    /// Rows that others have staged in the range may be unseen yet.
    unsettled: bool,
}

/// All scans of a participant.
#[derive(Debug, Default)]
pub(super) struct Scans {
    records: BTreeMap<ScanKey, Scan>,
    queue: VecDeque<ScanKey>,
    continuing: bool,
    tickets: u64,
}

impl Scans {
    /// Number of open scans.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The scans whose locks a leg owns.
    pub(super) fn of_leg(&self, handle: LegHandle) -> Vec<ScanKey> {
        let owned = |scan: &Scan| scan.owner.is_some_and(|owner| owner.leg == handle);
        self.records.iter().filter(|(_, scan)| owned(scan)).map(|(key, _)| *key).collect()
    }

    /// The scans of a partition.
    pub(super) fn of_partition(&self, partition: PartitionId) -> Vec<ScanKey> {
        self.records.keys().filter(|key| key.1 == partition).copied().collect()
    }

    /// The scans that sessions of a process have opened.
    pub(super) fn of_client(&self, node: NodeId, incarnation: Incarnation) -> Vec<ScanKey> {
        let of_client =
            |key: &ScanKey| key.0.session.node == node && key.0.session.incarnation == incarnation;
        self.records.keys().filter(|key| of_client(key)).copied().collect()
    }

    /// Drops a scan that waits for nothing.
    pub(super) fn forget(&mut self, key: ScanKey) {
        self.records.remove(&key);
    }

    /// Drops all scans.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The waits that scans have: leg and ticket.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (LegHandle, u64)> {
        self.records.values().filter(|scan| scan.waits).map(|scan| {
            let owner = scan.owner.expect("only scans with an owner wait");
            (owner.leg, scan.ticket)
        })
    }
}

/// How a step of a scan ended.
enum Step {
    /// The step was long enough.
    Again,
    /// Nothing was done with the rows it began with: it begins anew by another way.
    Anew,
    /// A batch is full.
    Full,
    /// No more rows.
    End,
    /// A row is locked; its key hash.
    Locked(u64),
    Failed(Refusal),
}

impl Participant {
    /// A message about scans.
    pub(super) fn handle_scan(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ScanMessage) {
        match message {
            ScanMessage::Open(request) => {
                if from.node != ctx.node()
                    && let Some(rule) = Self::broken_scan_rule(from, &request)
                {
                    return ctx.refuse(from, rule);
                }
                self.open_scan(ctx, request);
            }
            ScanMessage::Next { scan, partition } => self.next_batch(ctx, from, (scan, partition)),
            ScanMessage::Close { scan, partition } => self.close_scan(ctx, (scan, partition)),
            ScanMessage::Batch(batch) => {
                panic!("a participant was sent a batch of {:?}", batch.scan)
            }
        }
    }

    fn open_scan(&mut self, ctx: &mut Ctx<'_>, request: Box<ScanRequest>) {
        if request.join.is_some() {
            // It comes back without, from there.
            let joiner = Address { actor: ActorKind::Joiner, ..ctx.me() };
            return ctx.send(joiner, Message::Scan(ScanMessage::Open(request)));
        }
        let key = (request.scan, request.partition);
        ctx.count(Tally::Scan);
        if self.scans.records.contains_key(&key) {
            probe!(ctx, "scan: opened anew");
            self.close_scan(ctx, key);
        }
        let admitted = self.admit_scan(ctx, &request).and_then(|()| self.own_locks(ctx, &request));
        let owner = match admitted {
            Ok(owner) => owner,
            Err(refusal) => {
                return send_failure(ctx, request.reply_to, key, refusal);
            }
        };
        let table = self.replicas[&request.partition].partition.table();
        let program = request.program.clone();
        let batches = match program.as_ref().map(|program| &program.yields) {
            Some(Yield::Groups { .. }) => GROUPING_BATCHES,
            _ => MACHINE_BATCHES,
        };
        let batch_rows = batches * ctx.config().scan_batch_rows as usize;
        let machine = program.map(|program| Machine::new(program, table, batch_rows));
        let machine = match machine {
            None => None,
            Some(Ok(machine)) => Some(Box::new(machine)),
            Some(Err(Bad(why))) => {
                let refusal = Refusal::new(ErrorCode::BadRequest, why);
                return send_failure(ctx, request.reply_to, key, refusal);
            }
        };
        let own = request.transaction;
        // What the transaction itself has changed lies elsewhere.
        let program = request.program.as_ref().filter(|_| own.is_none());
        let (range, may_be_wide) = (self.way_of(ctx, &request, program), program.is_some());
        self.scans.tickets += 1;
        let scan = Scan {
            range,
            may_be_wide,
            within: None,
            table: table.clone(),
            projector: Projector::new(table, &request.projection),
            position: Position::default(),
            owner,
            own: own.map(|own| (own.transaction, own.leg, own.seen_to)),
            own_places: OwnPlaces::default(),
            remaining: request.limit,
            rows: ScanRows::default(),
            blocks: Vec::new(),
            examined: 0,
            row_bytes: 0,
            batch_rows: request.batch_rows.map(|first| (first, first.div_ceil(LATER_BATCHES))),
            machine,
            walked: false,
            asked: true,
            waits: false,
            parked: None,
            queued: false,
            failed: None,
            ticket: SCAN_WAITS_FROM + self.scans.tickets,
            locks: 0,
            unsettled: request.settled || request.guarded,
            request,
        };
        self.scans.records.insert(key, scan);
        self.start_scan(ctx, key);
    }

    /// Lets a scan that has just been opened read, now or when no row in its range is in doubt.
    fn start_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        let newest = self.scans.records[&key].request.snapshot.is_none();
        if newest
            && self.doubts.any()
            && let Some(number) = self.park_scan(ctx, key)
        {
            self.scans.records.get_mut(&key).expect("an open scan").parked = Some(number);
            return;
        }
        self.begin_scan(ctx, key);
    }

    /// Lets a scan read its first rows.
    fn begin_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        let scan = &self.scans.records[&key];
        let is_long = scan.machine.is_some() && !matches!(scan.range, Range::Index { .. });
        if is_long { self.queue_scan(ctx, key) } else { self.step_scan(ctx, key) }
    }

    /// Goes on with a scan that has waited for rows in doubt. What has come into doubt since is
    /// read as it was: nobody has seen it otherwise when the scan was asked for.
    pub(super) fn resume_parked_scan(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: ScanKey,
        number: ParkNumber,
    ) {
        // It may have been closed and opened anew.
        let scan = self.scans.records.get_mut(&key).filter(|scan| scan.parked == Some(number));
        let Some(scan) = scan else { return };
        scan.parked = None;
        self.begin_scan(ctx, key);
    }

    /// Whether rows that a leg has staged are in the range of an open scan, or will be.
    pub(super) fn is_in_range(&self, leg: &Leg, key: ScanKey) -> bool {
        let Some(scan) = self.scans.records.get(&key) else { return false };
        cursor::is_touched(leg, &self.replicas[&key.1].partition, &scan.range)
    }

    /// What a scan reads to find its rows: the range it names, or the keys its program is told.
    fn way_of(
        &self,
        ctx: &mut Ctx<'_>,
        request: &ScanRequest,
        program: Option<&Arc<Program>>,
    ) -> Range {
        if let (ScanSource::Index { index, .. }, Some(prefixes)) =
            (&request.source, &request.prefixes)
        {
            return Range::Keys(Lookups::of(*index, prefixes));
        }
        let range = Range::new(&request.source);
        let partition = &self.replicas[&request.partition].partition;
        let lookups = program.and_then(|program| keys::lookups(partition, program, &range));
        let Some(lookups) = lookups else { return range };
        probe!(ctx, "scan: keys are looked up");
        Range::Keys(lookups)
    }

    /// Whether the scan may run here and makes sense.
    fn admit_scan(&self, ctx: &mut Ctx<'_>, request: &ScanRequest) -> Result<(), Refusal> {
        let computes =
            request.lock != wire::LockMode::Committed || request.keys || request.limit.is_some();
        if request.program.is_some() && computes {
            let detail = "a scan with a program takes no locks, and has no order and no limit";
            return Err(Refusal::new(ErrorCode::BadRequest, detail));
        }
        if request.transaction.is_none() && !ctx.may_serve() {
            return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string()));
        }
        let partition = request.partition;
        let replica = self.serving(ctx, partition)?;
        let table = replica.partition.table();
        if request.transaction.is_some() && !replica.is_primary(ctx.me(), &request.chain) {
            return Err(Refusal::new(ErrorCode::StaleRoute, partition.to_string()));
        }
        if !table.serves_version(request.table_version) {
            return Err(Refusal::new(ErrorCode::SchemaChanged, table.name.clone()));
        }
        evaluate::check_condition(table, request.filter.as_ref())?;
        evaluate::check_projection(table, &request.projection)?;
        if let ScanSource::Index { index, lower, upper, .. } = &request.source {
            if table.ordered_index(*index).is_none() || !replica.partition.index_ready(*index) {
                return Err(ErrorCode::UnknownIndex.into());
            }
            let too_long = |bound: &Option<(Box<[u8]>, bool)>| {
                bound.as_ref().is_some_and(|(key, _)| key.len() > KEY_SIZE_MAX)
            };
            if too_long(lower) || too_long(upper) {
                return Err(Refusal::new(ErrorCode::BadRequest, "a bound is longer than any key"));
            }
        }
        if let Some(prefixes) = &request.prefixes {
            check_prefixes(request, prefixes)?;
        }
        if let Some(epoch) = request.snapshot {
            self.check_snapshot(ctx, replica, epoch)?;
        }
        let locks = request.lock != wire::LockMode::Committed && request.wait == WaitPolicy::Wait;
        if request.settled && !locks {
            let detail = "a scan waits for others' rows only with locks it waits for";
            return Err(Refusal::new(ErrorCode::BadRequest, detail));
        }
        if request.guarded && (request.wait != WaitPolicy::Wait || request.snapshot.is_some()) {
            let detail = "a range is guarded by who waits for others, and reads newest rows";
            return Err(Refusal::new(ErrorCode::BadRequest, detail));
        }
        let limit = ctx.config().scans_max;
        if self.scans.len() >= limit as usize {
            probe!(ctx, "scan: limit of open scans reached");
            let detail = format!("{limit} on {}", ctx.me());
            return Err(Refusal::new(ErrorCode::ScanLimit, detail));
        }
        Ok(())
    }

    /// The leg that is to own the locks of a scan and guard its range, begun if it is new.
    fn own_locks(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &ScanRequest,
    ) -> Result<Option<Owner>, Refusal> {
        let mode = store_mode(request.lock);
        if mode.is_none() && !request.guarded {
            return Ok(None);
        }
        let Some(owner) = request.transaction.filter(|_| request.snapshot.is_none()) else {
            let detail = "a scan locks rows in a transaction, and newest rows only";
            return Err(Refusal::new(ErrorCode::BadRequest, detail));
        };
        let (life, name) = (owner.coordinator, (owner.transaction, owner.leg));
        if ctx.cluster().member(life.address.node, life.incarnation).is_none() {
            return Err(Refusal::new(ErrorCode::NodeFailed, life.address.node.to_string()));
        }
        let handle = self.leg_for(ctx, name, request.chain, life);
        let handle = handle.ok_or(Refusal::from(ErrorCode::UnknownTransaction))?;
        let leg = self.legs.leg_mut(handle);
        leg.locks_in(request.partition);
        leg.scanned = true;
        if request.guarded {
            self.guard(request, handle);
        }
        Ok(Some(Owner { leg: handle, mode }))
    }

    /// Guards the range of a scan.
    fn guard(&mut self, request: &ScanRequest, handle: LegHandle) {
        let replica = self.replicas.get_mut(&request.partition).expect("admitted");
        let range = Range::new(&request.source);
        let range = match &range {
            Range::Index { index, range, .. } => Some((*index, range)),
            Range::Heap | Range::Keys(_) => None,
        };
        let within = guard::within(replica.partition.table(), range);
        let (scan, filter) = (request.scan, request.filter.as_ref());
        replica.guards.add(&mut replica.locks, handle, scan, within, filter);
    }

    fn next_batch(&mut self, ctx: &mut Ctx<'_>, from: Address, key: ScanKey) {
        let Some(scan) = self.scans.records.get_mut(&key) else {
            probe!(ctx, "scan: next batch of an unknown scan");
            return send_failure(ctx, from, key, ErrorCode::ScanAborted.into());
        };
        scan.asked = true;
        if let Some(refusal) = scan.failed.take() {
            return self.fail_scan(ctx, key, refusal);
        }
        if scan.waits || scan.queued || scan.parked.is_some() {
            return;
        }
        // Who computes with many rows has no claim to be before others.
        if scan.machine.is_some() { self.queue_scan(ctx, key) } else { self.step_scan(ctx, key) }
    }

    /// Lets a scan go on when it is its turn.
    fn queue_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        let scan = self.scans.records.get_mut(&key).expect("an open scan");
        scan.queued = true;
        self.scans.queue.push_back(key);
        self.keep_scanning(ctx);
    }

    /// Forgets a scan, without an answer.
    pub(super) fn close_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        let Some(scan) = self.scans.records.remove(&key) else { return };
        if scan.waits {
            let owner = scan.owner.expect("only scans with an owner wait");
            self.end_wait(ctx, owner.leg, scan.ticket);
        }
    }

    /// Ends a scan that cannot go on; the client is told when it asks.
    pub(super) fn fail_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey, refusal: Refusal) {
        let Some(scan) = self.scans.records.get_mut(&key) else { return };
        if scan.waits {
            scan.waits = false;
            let owner = scan.owner.expect("only scans with an owner wait");
            let ticket = scan.ticket;
            self.end_wait(ctx, owner.leg, ticket);
        }
        let scan = self.scans.records.get_mut(&key).expect("looked up above");
        if scan.asked {
            let reply_to = scan.request.reply_to;
            self.scans.records.remove(&key);
            return send_failure(ctx, reply_to, key, refusal);
        }
        if refusal.code == ErrorCode::ScanAborted {
            // What a client is told that asks for an unknown scan.
            self.scans.records.remove(&key);
            return;
        }
        // Its leg may end before the client asks.
        scan.owner = None;
        scan.own = None;
        scan.failed = Some(refusal);
    }

    /// Goes on with a scan whose lock was granted.
    pub(super) fn resume_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        let scan = self.scans.records.get_mut(&key).expect("a waiting scan is open");
        scan.waits = false;
        probe!(ctx, "scan: lock granted after a wait");
        if scan.asked && !scan.queued {
            self.step_scan(ctx, key);
        }
    }

    /// Goes on with the next scan in turn.
    pub(super) fn continue_scans(&mut self, ctx: &mut Ctx<'_>) {
        self.scans.continuing = false;
        while let Some(key) = self.scans.queue.pop_front() {
            // It may have been closed since.
            let Some(scan) = self.scans.records.get_mut(&key) else { continue };
            if !std::mem::take(&mut scan.queued) {
                continue;
            }
            if scan.asked && !scan.waits && scan.failed.is_none() {
                self.step_scan(ctx, key);
                break;
            }
        }
        self.keep_scanning(ctx);
    }

    fn keep_scanning(&mut self, ctx: &mut Ctx<'_>) {
        if !self.scans.queue.is_empty() && !self.scans.continuing {
            self.scans.continuing = true;
            ctx.send(ctx.me(), Message::Continue(Continue::Scans));
        }
    }

    /// Advances a scan by one step, and sends what there is to send.
    fn step_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) {
        if ctx.is_shared() {
            probe!(ctx, "scan: a short step");
        }
        let mut scan = self.scans.records.remove(&key).expect("an open scan");
        let step = match self.may_go_on(ctx, &scan) {
            Ok(()) => self.walk(ctx, &mut scan),
            Err(refusal) => Step::Failed(refusal),
        };
        let reply_to = scan.request.reply_to;
        match step {
            Step::Again | Step::Anew => {
                if matches!(step, Step::Anew) {
                    probe!(ctx, "scan: a wide range is read as rows lie");
                }
                self.scans.records.insert(key, scan);
                self.queue_scan(ctx, key);
            }
            Step::Full => {
                let some = scan.take_some();
                self.scans.records.insert(key, scan);
                send_batch(ctx, reply_to, key, some, ScanStatus::More);
            }
            Step::End => send_batch(ctx, reply_to, key, scan.take_some(), ScanStatus::Finished),
            Step::Failed(refusal) => send_failure(ctx, reply_to, key, refusal),
            Step::Locked(hash) => {
                probe!(ctx, "scan: waits for a lock");
                ctx.count(Tally::LockWait);
                let Owner { leg: handle, .. } = scan.owner.expect("only its owner's scan waits");
                scan.waits = true;
                let deadline = lock_deadline(ctx, scan.request.lock_wait);
                let terms = Terms { deadline, besides: Besides::Operations };
                let what = Waiting::Scan(key.0);
                let wait = Wait::new(ctx, key.1, hash, what, Place::Queue, terms);
                self.search_from(handle, scan.ticket, terms.besides);
                self.waits.insert(handle, scan.ticket, wait);
                if !scan.rows.is_empty() {
                    let some = scan.take_some();
                    send_batch(ctx, reply_to, key, some, ScanStatus::More);
                }
                self.scans.records.insert(key, scan);
            }
        }
    }

    /// What may have changed since the last step.
    fn may_go_on(&self, ctx: &Ctx<'_>, scan: &Scan) -> Result<(), Refusal> {
        if !ctx.may_serve() {
            return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string()));
        }
        let partition = scan.request.partition;
        let replica = self.replicas.get(&partition).filter(|replica| replica.readable);
        let replica = replica.ok_or(Refusal::from(ErrorCode::StaleRoute))?;
        if scan.range.index().is_some_and(|index| !replica.partition.index_ready(index)) {
            return Err(Refusal::new(ErrorCode::SchemaChanged, "the index was dropped"));
        }
        let (table, columns) = (replica.partition.table(), scan.table.columns.len() as u16);
        if !Arc::ptr_eq(table, &scan.table)
            && !table.has_types_of(&scan.table, (0..columns).map(ColumnId))
        {
            return Err(Refusal::new(ErrorCode::SchemaChanged, table.name.clone()));
        }
        match scan.request.snapshot {
            Some(epoch) => self.check_snapshot(ctx, replica, epoch),
            None => Ok(()),
        }
    }

    /// Queues a settled or guarded scan for the lock of a row that another leg has staged in its
    /// range; none when there is no such row any more.
    ///
    /// A transaction gives up its shared locks at its commit point and shows its rows a moment
    /// later: who got an exclusive lock from it would not see them yet. They stay locked until they
    /// are shown. Who guards a range waits also for rows that are about to leave it.
    fn await_staged(&mut self, ctx: &Ctx<'_>, scan: &mut Scan) -> Option<u64> {
        if !scan.unsettled || ctx.mutated(Mutation::ScansPassStagedRows) {
            return None;
        }
        let partition = scan.request.partition;
        let replica = self.replicas.get_mut(&partition).expect("checked before the step");
        let Owner { leg: handle, mode } = scan.owner.expect("admitted with an owner");
        let hash = if scan.request.guarded {
            guard::staged_by_others(&self.legs, replica, scan.request.scan)
        } else {
            cursor::staged_by_others(&self.legs, replica, &scan.range, handle)
        };
        scan.unsettled = hash.is_some();
        let Some(hash) = hash else {
            replica.guards.settle(scan.request.scan);
            return None;
        };
        let (lock, owner) = (LockKey(hash), LockOwner(handle.0));
        let mode = mode.unwrap_or(LockMode::Shared);
        let answer = replica.locks.request(lock, owner, mode, scan.ticket);
        assert_eq!(answer, LockAnswer::Waiting, "{partition}: a staged row is locked");
        Some(hash)
    }

    /// Walks over at most a step's rows.
    fn walk(&mut self, ctx: &mut Ctx<'_>, scan: &mut Scan) -> Step {
        if let Some(hash) = self.await_staged(ctx, scan) {
            return Step::Locked(hash);
        }
        if scan.owner.is_some_and(|owner| owner.mode.is_some())
            && let Err(refusal) = self.has_room(ctx, LOCK_BYTES, false)
        {
            return Step::Failed(refusal);
        }
        let mut places = std::mem::take(&mut scan.own_places);
        let step = self.walk_over(ctx, scan, &mut places);
        scan.own_places = places;
        if let Some(Owner { leg: handle, .. }) = scan.owner {
            let locks = std::mem::take(&mut scan.locks);
            self.legs.leg_mut(handle).locks_more(locks);
            self.memory.locked(locks);
        }
        step
    }

    fn walk_over(&mut self, ctx: &mut Ctx<'_>, scan: &mut Scan, places: &mut OwnPlaces) -> Step {
        let partition = scan.request.partition;
        let most = ctx.step_rows(Continue::Scans);
        let replica = self.replicas.get_mut(&partition).expect("checked before the step");
        let own = scan.own_leg(&self.legs);
        let forgets = ctx.mutated(Mutation::OwnRowsHideSnapshot) && own.is_some();
        let as_of = scan.request.snapshot.filter(|_| !forgets);
        let view = match (as_of, own) {
            (as_of, Some((leg, seen_to))) => {
                if !places.follow(leg, seen_to, &replica.partition, &scan.range, most) {
                    probe!(ctx, "scan: looks for the transaction's own rows in steps");
                    return Step::Again;
                }
                View::Own(Own { leg, seen_to, places, as_of })
            }
            (Some(epoch), None) => View::Snapshot(epoch),
            (None, None) => View::Committed,
        };
        let table = replica.partition.table();
        let mut walk = Walk::new(&replica.partition, &scan.range, view, &scan.position);
        let locking = scan.owner.and_then(|owner| Some((owner.leg, owner.mode?)));
        if locking.is_none() && !scan.request.keys {
            walk = walk.plain();
        }
        if scan.machine.is_some() {
            return scan.compute_step(&replica.partition, walk, most, ctx);
        }
        let (locks, mut left) = (&mut replica.locks, most);
        let step = loop {
            if scan.remaining == Some(0) {
                break Step::End;
            }
            if left == 0 {
                break Step::Again;
            }
            let Some((_, row)) = walk.next() else { break Step::End };
            left -= 1;
            match evaluate::passes(table, row, scan.request.filter.as_ref()) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(refusal) => break Step::Failed(refusal),
            }
            if let Some((handle, mode)) = locking {
                let hash = table.key_of_row(&table.primary_key, row).local_hash();
                scan.locks += 1;
                match scan.request.wait {
                    _ if scan.lock(locks, hash, (handle, mode)) => {}
                    WaitPolicy::Wait => {
                        scan.position = walk.before_last();
                        return Step::Locked(hash);
                    }
                    WaitPolicy::Skip => continue,
                    WaitPolicy::Refuse => {
                        break Step::Failed(ErrorCode::LockUnavailable.into());
                    }
                }
            }
            if let Err(refusal) = scan.keep(table, walk.key(), row) {
                break Step::Failed(refusal);
            }
            if scan.is_full(ctx.config().scan_batch_rows) && scan.remaining != Some(0) {
                break Step::Full;
            }
        };
        if !matches!(step, Step::End) {
            scan.position = walk.after_last();
        }
        scan.examined += u64::from(most - left);
        step
    }
}

impl Scan {
    /// A step of the scan's program, over at most so many rows.
    fn compute_step(
        &mut self,
        partition: &Partition,
        mut walk: Walk<'_>,
        most: u32,
        ctx: &Ctx<'_>,
    ) -> Step {
        if let Some(machine) = &mut self.machine {
            machine.limit(most, ctx.config().scan_step_rows);
        }
        let step = self.compute(partition, &mut walk, most as usize);
        if !matches!(step, Step::End | Step::Anew) {
            self.position = walk.after_last();
        }
        step
    }

    /// The leg whose changes it sees, if there is one by now, and up to which operation.
    fn own_leg<'l>(&self, legs: &'l Legs) -> Option<(&'l Leg, OperationNumber)> {
        let (transaction, leg, seen_to) = self.own?;
        Some((legs.leg(legs.find(transaction, leg)?), seen_to))
    }

    /// Whether a row's lock is granted; if it is to be waited for, it is asked for.
    fn lock(&self, locks: &mut LockTable, hash: u64, owner: (LegHandle, LockMode)) -> bool {
        let (lock, owner, mode) = (LockKey(hash), LockOwner(owner.0.0), owner.1);
        match self.request.wait {
            WaitPolicy::Wait => {
                locks.request(lock, owner, mode, self.ticket) == LockAnswer::Granted
            }
            WaitPolicy::Refuse | WaitPolicy::Skip => locks.try_request(lock, owner, mode),
        }
    }

    fn is_full(&self, batch_rows: u32) -> bool {
        let batch_rows = self.batch_rows.map_or(batch_rows, |(rows, _)| rows.min(batch_rows));
        self.rows.len() >= batch_rows.max(1) as usize || self.row_bytes >= BATCH_BYTES_MAX
    }

    /// Takes a row into the batch.
    fn keep(&mut self, table: &Table, key: &[u8], row: &[u8]) -> Result<(), Refusal> {
        let key = if self.request.keys { key } else { &[] };
        let (projector, before) = (&self.projector, self.rows.size());
        self.rows.push_with(key, |out| projector.project_into(table, row, out))?;
        let size = self.rows.size() - before;
        self.row_bytes += size;
        if let Some(remaining) = &mut self.remaining {
            *remaining -= 1;
        }
        if self.rows.len() == 1 {
            let (rows, bytes) = match self.batch_rows {
                // Of rows that are merged the first batch is nearly always full.
                Some((rows, _)) => (ROWS_LIKELY.min(rows as usize), BATCH_BYTES_MAX),
                None => (ROWS_LIKELY, BYTES_LIKELY),
            };
            let rows = self.remaining.map_or(rows, |left| left.min(rows as u64) as usize);
            self.rows.reserve(rows, (rows * (size + size / 8)).min(bytes));
        }
        Ok(())
    }

    /// Takes the next rows into the machine, unless it has enough to fill a batch.
    fn compute(&mut self, partition: &Partition, walk: &mut Walk<'_>, rows_max: usize) -> Step {
        if self.collect() {
            return Step::Full;
        }
        if !self.walked {
            let mut rows = Vec::with_capacity(rows_max);
            self.walked = !walk.take(rows_max, &mut rows);
            self.examined += rows.len() as u64;
            // Who has only a few rows to read is not asked.
            if std::mem::take(&mut self.may_be_wide)
                && !self.walked
                && let Some(wide) = within::wide(partition, &self.range)
            {
                (self.range, self.within) = (Range::Heap, Some(wide));
                return Step::Anew;
            }
            let table = partition.table();
            if let Some(within) = &self.within {
                let mut key = KeyEncoder::new();
                rows.retain(|row| within.has(table, row, &mut key));
            }
            self.machine.as_mut().expect("it computes").take(table, &rows);
        }
        if self.walked {
            self.give_rest()
        } else if self.collect() {
            Step::Full
        } else {
            Step::Again
        }
    }

    /// The walk has ended: what the machine has left is given out, a batch at a time.
    fn give_rest(&mut self) -> Step {
        if let Some(machine) = &mut self.machine {
            machine.finish();
        }
        if self.collect() { Step::Full } else { Step::End }
    }

    /// Moves what the machine has made into the batch; true when that is full.
    fn collect(&mut self) -> bool {
        let Some(machine) = &mut self.machine else { return false };
        while self.row_bytes < BATCH_BYTES_MAX {
            match machine.pop_output() {
                None => return false,
                Some(Output::Block(block)) => {
                    self.row_bytes += block.memory_bytes();
                    self.blocks.push(block);
                }
                Some(Output::Rows(rows)) => {
                    for row in rows {
                        self.row_bytes += row.0.len();
                        self.rows.push(&[], &row.0);
                    }
                }
            }
        }
        true
    }

    /// What a batch has; the client must ask for the next.
    fn take_some(&mut self) -> Made {
        self.asked = false;
        self.row_bytes = 0;
        self.batch_rows = self.batch_rows.map(|(_, next)| (next, next.saturating_mul(2)));
        Made {
            rows: std::mem::take(&mut self.rows),
            blocks: std::mem::take(&mut self.blocks),
            examined: std::mem::take(&mut self.examined),
        }
    }
}

/// Whether keys that a scan names are such that a walk over them meets every row once.
fn check_prefixes(request: &ScanRequest, prefixes: &[Box<[u8]>]) -> Result<(), Refusal> {
    let refused = |detail| Err(Refusal::new(ErrorCode::BadRequest, detail));
    let whole = matches!(&request.source, ScanSource::Index { lower: None, upper: None, .. });
    if !whole || request.program.is_none() || request.transaction.is_some() {
        return refused("keys are those of a whole index, for a program, in no transaction");
    }
    if prefixes.len() > KEYS_MAX || prefixes.iter().any(|prefix| prefix.len() > KEY_SIZE_MAX) {
        return refused("too many keys, or one is longer than any");
    }
    let apart = |pair: &[Box<[u8]>]| pair[0] < pair[1] && !pair[1].starts_with(&pair[0]);
    if prefixes.windows(2).all(apart) {
        Ok(())
    } else {
        refused("keys are in ascending order, and none begins with another")
    }
}

fn send_batch(ctx: &mut Ctx<'_>, to: Address, key: ScanKey, made: Made, status: ScanStatus) {
    let Made { rows, blocks, examined } = made;
    let batch = ScanBatch { scan: key.0, partition: key.1, rows, status, blocks, examined };
    ctx.send(to, Message::Scan(ScanMessage::Batch(Box::new(batch))));
}

fn send_failure(ctx: &mut Ctx<'_>, to: Address, key: ScanKey, refusal: Refusal) {
    send_batch(ctx, to, key, Made::default(), ScanStatus::Failed(refusal));
}
