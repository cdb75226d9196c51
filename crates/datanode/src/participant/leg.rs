//! Leg records: what one transaction has staged, claimed and locked in one write chain.
//!
//! # Owns
//! The records and their lookup by transaction. A record's position is its lock owner, so that a
//! leg gives back exactly its own locks.
//! # Invariants
//! 1. Every staged row has a claim; claims and locks last until the leg ends, rollbacks or not.
//! 2. A row belongs to one leg of its transaction, as the chain is a function of its slot.
//! # Not here
//! Rows, lock tables, messages.

mod touched;

use model::{
    ControlIndex, Epoch, Incarnation, Key, NodeId, OperationNumber, PartitionId, TransactionId,
};
use stdx::{Few, HashMap, HashSet};
use wire::{Chain, CoordinatorRef, LegId, PreparedOperation, ReportedLegStatus};

use super::ending::Ending;
use super::prepare::Answers;
use super::rollback::RollBack;

pub(super) use touched::{Image, Place, TouchedRow, TouchedRows};

/// A leg's position among the records of this participant: its name as a lock owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LegHandle(pub(super) u32);

/// How far a leg is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Staged or still executing.
    Open,
    /// Told to commit in this epoch, not applied.
    Committed(Epoch),
    /// Applied; kept until the other replicas or legs are through.
    Applied(Epoch),
}

impl Status {
    /// Whether `next` may follow.
    pub(super) fn can_become(self, next: Status) -> bool {
        match (self, next) {
            (Status::Open, Status::Committed(_) | Status::Applied(_)) => true,
            (Status::Committed(a), Status::Applied(b)) => a == b,
            _ => false,
        }
    }
}

/// How an operation comes to its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// The row did not exist before; counts for its first image.
    pub(super) row_is_new: bool,
    /// Its slot is reserved; counts for the first touch of the slot.
    pub(super) reserved: bool,
    /// The leg has not touched the slot before.
    pub(super) claim_is_new: bool,
    /// The leg had not the row's lock before this operation.
    pub(super) lock_is_new: bool,
}

/// One leg of a transaction.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    /// Primary first, as the coordinator made it.
    pub(super) chain: Chain,
    /// The coordinator that began it; a takeover is asked for by this life.
    pub(super) coordinator: CoordinatorRef,
    pub(super) status: Status,
    /// A change was sent down the chain: backups know the leg.
    pub(super) replicated: bool,
    /// A locking scan was opened for it.
    pub(super) scanned: bool,
    /// The rows whose slots this leg has claimed, with what is staged in them.
    pub(super) rows: TouchedRows,
    /// Partitions in whose lock tables the leg holds or awaits locks.
    locked: Few<PartitionId>,
    /// How often it has asked for a lock: it has so many at most.
    locks: u64,
    /// Found out in this turn, sent at its end.
    pub(super) answers: Answers,
    /// Bytes of staged images.
    bytes: u64,
    /// The cluster state in which the leg began here.
    pub(super) began: ControlIndex,
    /// The epoch in which it commits as soon as all replicas have staged it.
    pub(super) commits_in: Option<Epoch>,
    /// What its coordinator is told then, by the primary.
    pub(super) results: Few<PreparedOperation>,
    /// It is applied, or given back, in steps.
    pub(super) ending: Option<Box<Ending>>,
    /// Some of its operations are undone in steps.
    pub(super) rolls_back: Option<Box<RollBack>>,
}

impl Leg {
    /// A leg without changes.
    pub(super) fn new(
        transaction: TransactionId,
        leg: LegId,
        chain: Chain,
        coordinator: CoordinatorRef,
        began: ControlIndex,
    ) -> Self {
        Self {
            transaction,
            leg,
            chain,
            coordinator,
            status: Status::Open,
            replicated: false,
            scanned: false,
            rows: TouchedRows::default(),
            locked: Few::new(),
            locks: 0,
            answers: Answers::default(),
            bytes: 0,
            began,
            commits_in: None,
            results: Few::new(),
            ending: None,
            rolls_back: None,
        }
    }

    /// Moves on; asserts that the step is legal.
    pub(super) fn become_status(&mut self, next: Status) {
        assert!(
            self.status.can_become(next),
            "{} leg {}: {:?} to {next:?}",
            self.transaction,
            self.leg.0,
            self.status
        );
        self.status = next;
    }

    /// The status in a takeover report.
    pub(super) fn reported(&self) -> ReportedLegStatus {
        match (self.status, self.commits_in) {
            (Status::Open, None) => ReportedLegStatus::Open,
            (Status::Open, Some(epoch)) => {
                ReportedLegStatus::StagedToCommit { epoch, began: self.began }
            }
            (Status::Committed(epoch), _) => ReportedLegStatus::Committed(epoch),
            (Status::Applied(epoch), _) => ReportedLegStatus::Applied(epoch),
        }
    }

    /// Notes that the leg holds or awaits one more lock of a partition.
    pub(super) fn locks_in(&mut self, partition: PartitionId) {
        self.locks += 1;
        if self.locked.last() != Some(&partition) && !self.locked.contains(&partition) {
            self.locked.push(partition);
        }
    }

    /// Whether it has changed rows, or was decided.
    pub(super) fn has_changes(&self) -> bool {
        !self.rows.is_empty() || self.status != Status::Open
    }

    /// The partitions in whose lock tables the leg holds or awaits locks.
    pub(super) fn locked(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.locked.iter().copied()
    }

    /// Notes that the leg holds or awaits so many more locks of partitions that are noted.
    pub(super) fn locks_more(&mut self, locks: u64) {
        self.locks += locks;
    }

    /// Takes the partitions out in which the leg holds or awaits locks.
    pub(super) fn take_locked(&mut self) -> Few<PartitionId> {
        std::mem::take(&mut self.locked)
    }

    /// Adds the after-image of an operation to a row with this key; `place` is claimed. Returns
    /// whether the row is new.
    pub(super) fn stage(
        &mut self,
        place: Place,
        key: &Key,
        hash: u64,
        touch: Touch,
        image: Image,
    ) -> bool {
        self.bytes += touched::image_bytes(&image);
        let known = if touch.claim_is_new { None } else { self.rows.position(place) };
        let at = match known {
            Some(at) => {
                let known = self.rows.nth(at).hash;
                assert_eq!(
                    known, hash,
                    "{} {}: a slot keeps its key",
                    place.partition, place.row_id
                );
                at
            }
            None => {
                let Touch { reserved, lock_is_new, .. } = touch;
                self.rows.add(TouchedRow::new(place, key.clone(), hash, reserved, lock_is_new))
            }
        };
        self.rows.stage(at, touch.row_is_new, image)
    }

    /// Undoes a single operation. False, and nothing is undone, when a later one changed the same
    /// row.
    pub(super) fn undo_only(&mut self, number: OperationNumber) -> bool {
        let bytes = self.rows.undo_only(number);
        self.bytes -= bytes.unwrap_or(0);
        bytes.is_some()
    }

    /// Undoes operations after a savepoint, newest first, as many as `budget` is for; whether none
    /// is left.
    pub(super) fn undo_after(&mut self, savepoint: OperationNumber, budget: u64) -> bool {
        let (bytes, is_over) = self.rows.undo_after(savepoint, budget);
        self.bytes -= bytes;
        is_over
    }

    /// What it takes to apply or give back a row, in bytes.
    pub(super) fn row_weight(&self) -> u64 {
        self.bytes / (self.rows.len() as u64).max(1) + ROW_WEIGHT
    }

    /// What it takes to apply or give back all rows, and to release all locks, in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.bytes + self.locks.max(self.rows.len() as u64) * ROW_WEIGHT
    }

    /// Applies rows from one on, of about so many bytes; the first that is left.
    pub(super) fn apply_some(
        &mut self,
        from: usize,
        budget: u64,
        mut apply: impl FnMut(&mut TouchedRow),
    ) -> usize {
        let (mut at, mut spent) = (from, 0);
        for row in self.rows.rest_mut(from) {
            if spent >= budget {
                break;
            }
            if row.is_staged() {
                apply(row);
            }
            let bytes = row.settle();
            self.bytes -= bytes;
            spent += bytes + ROW_WEIGHT;
            at += 1;
        }
        at
    }

    /// Takes the last row out that the leg still has, and says whether one with the same lock is
    /// left.
    pub(super) fn pop_row(&mut self) -> Option<(TouchedRow, bool)> {
        loop {
            let (row, shares) = self.rows.pop()?;
            if !row.is_given() {
                self.bytes -= row.bytes();
                return Some((row, shares));
            }
        }
    }

    /// Lets go of the rows that share a lock, each of which is ended by `end` first.
    pub(super) fn give(
        &mut self,
        partition: PartitionId,
        hash: u64,
        mut end: impl FnMut(&mut TouchedRow),
    ) {
        let bytes = &mut self.bytes;
        self.rows.of_lock_mut(partition, hash, |row| {
            if !row.is_given() {
                end(row);
                *bytes -= row.settle();
                row.give();
            }
        });
    }

    /// Has rows that share a lock applied before their turn.
    pub(super) fn show(
        &mut self,
        partition: PartitionId,
        hash: u64,
        mut apply: impl FnMut(&mut TouchedRow),
    ) {
        let bytes = &mut self.bytes;
        self.rows.of_lock_mut(partition, hash, |row| {
            if !row.is_given() && row.is_staged() {
                apply(row);
                *bytes -= row.settle();
            }
        });
    }

    /// The rows that the leg still has.
    pub(super) fn held_rows(&self) -> impl Iterator<Item = &TouchedRow> {
        self.rows.iter().filter(|row| !row.is_given())
    }

    /// Takes all rows out, to be applied or dropped.
    pub(super) fn take_rows(&mut self) -> TouchedRows {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }

    /// Forgets everything in a partition that is gone.
    pub(super) fn leave_partition(&mut self, partition: PartitionId) {
        let gone = self.rows.iter().filter(|row| row.place.partition == partition);
        self.bytes -= gone.map(TouchedRow::bytes).sum::<u64>();
        self.rows.retain(|row| row.place.partition != partition);
        self.locked = self.locked.iter().copied().filter(|other| *other != partition).collect();
        if let Some(ending) = &mut self.ending {
            // Rows have moved; those that are applied have nothing staged.
            ending.restart();
        }
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        let bytes: u64 = self.rows.iter().map(TouchedRow::bytes).sum();
        assert_eq!(bytes, self.bytes, "{}: bytes of staged images", self.transaction);
        assert!(self.answers.is_empty(), "{}: answers not sent", self.transaction);
        let mut locks = HashSet::default();
        for row in self.rows.iter() {
            let is_first = locks.insert((row.place.partition, row.hash));
            let claims_to_be = row.has_first_of_lock();
            assert!(is_first || !claims_to_be, "{}: an earlier row has its lock", self.transaction);
            let found = self.rows.at(row.place).map(|found| found.place);
            assert_eq!(found, Some(row.place), "{}: a row is found by place", self.transaction);
            let staged = self.rows.staged(row.place.partition, row.hash, row.key.bytes());
            let found = !row.is_staged() || staged.is_some_and(|found| found.place == row.place);
            assert!(found, "{}: a staged row is found by key", self.transaction);
        }
        if let Status::Applied(_) = self.status
            && self.ending.is_none()
        {
            assert!(self.rows.is_empty(), "{}: applied with staged rows", self.transaction);
        }
    }
}

/// What a row counts for beside its bytes when it is applied or given back, and a lock.
pub(super) const ROW_WEIGHT: u64 = 256;

/// What a touched row takes beside its images, roughly: its record, its key and the claim of its
/// slot, its places in the leg's indexes, and what the allocator adds to key and image.
pub(super) const ROW_BYTES: u64 = 160;

/// All leg records of a participant.
#[derive(Debug, Default)]
pub(super) struct Legs {
    records: Vec<Option<Leg>>,
    free: Vec<LegHandle>,
    by_name: HashMap<(TransactionId, LegId), LegHandle>,
    staged_bytes: u64,
    /// Rows that all legs have touched.
    touched: usize,
    /// Memory of legs that have ended.
    spare: Vec<TouchedRows>,
}

/// Legs whose memory is kept.
const SPARE_MAX: usize = 64;

impl Legs {
    /// Files a leg that must not be known yet.
    pub(super) fn insert(&mut self, mut leg: Leg) -> LegHandle {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            LegHandle(self.records.len() as u32 - 1)
        });
        assert!(handle.0 < FOREIGN_OWNERS, "leg handles stay below other lock owners");
        let known = self.by_name.insert((leg.transaction, leg.leg), handle);
        assert!(known.is_none(), "{}: a leg is filed once", leg.transaction);
        leg.rows = self.spare.pop().unwrap_or_default();
        self.records[handle.0 as usize] = Some(leg);
        handle
    }

    /// The leg of a transaction, if it is known.
    pub(super) fn find(&self, transaction: TransactionId, leg: LegId) -> Option<LegHandle> {
        self.by_name.get(&(transaction, leg)).copied()
    }

    /// The record behind a handle, unless it has ended.
    pub(super) fn get(&self, handle: LegHandle) -> Option<&Leg> {
        self.records.get(handle.0 as usize)?.as_ref()
    }

    /// The record behind a handle, unless it has ended, to change it.
    pub(super) fn get_mut(&mut self, handle: LegHandle) -> Option<&mut Leg> {
        self.records.get_mut(handle.0 as usize)?.as_mut()
    }

    /// The record of a leg that is known to be there.
    pub(super) fn leg(&self, handle: LegHandle) -> &Leg {
        self.get(handle).expect("the handle of a living leg")
    }

    /// The record of a leg that is known to be there, to change it.
    pub(super) fn leg_mut(&mut self, handle: LegHandle) -> &mut Leg {
        self.get_mut(handle).expect("the handle of a living leg")
    }

    /// Changes what a leg has staged; keeps the count of staged bytes.
    pub(super) fn change<R>(&mut self, handle: LegHandle, f: impl FnOnce(&mut Leg) -> R) -> R {
        let leg = self.records[handle.0 as usize].as_mut().expect("the handle of a living leg");
        let (bytes, rows) = (leg.bytes, leg.rows.len());
        let result = f(leg);
        self.staged_bytes = self.staged_bytes - bytes + leg.bytes;
        self.touched = self.touched - rows + leg.rows.len();
        result
    }

    /// Takes a leg out; its handle may be given to another one.
    pub(super) fn remove(&mut self, handle: LegHandle) {
        let record = &mut self.records[handle.0 as usize];
        let leg = record.as_mut().expect("the handle of a living leg");
        let (transaction, name) = (leg.transaction, leg.leg);
        let rows = std::mem::take(&mut leg.rows);
        self.staged_bytes -= leg.bytes;
        self.touched -= rows.len();
        *record = None;
        self.free.push(handle);
        let filed = self.by_name.remove(&(transaction, name));
        assert_eq!(filed, Some(handle), "{transaction}: filed by name");
        self.reuse(rows);
    }

    /// Takes the memory of rows back that were applied or dropped.
    pub(super) fn reuse(&mut self, mut rows: TouchedRows) {
        rows.clear();
        if rows.has_memory() && self.spare.len() < SPARE_MAX {
            self.spare.push(rows);
        }
    }

    /// All legs, by transaction.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LegHandle, &Leg)> {
        let mut legs: Vec<(LegHandle, &Leg)> = self.unordered().collect();
        legs.sort_unstable_by_key(|(_, leg)| (leg.transaction, leg.leg));
        legs.into_iter()
    }

    /// The legs of one transaction. Looks at all: for rare questions.
    pub(super) fn of(&self, transaction: TransactionId) -> impl Iterator<Item = &Leg> {
        self.iter().map(|(_, leg)| leg).filter(move |leg| leg.transaction == transaction)
    }

    /// Legs that a life of a node coordinates.
    pub(super) fn of_life(&self, node: NodeId, incarnation: Incarnation) -> Vec<LegHandle> {
        let of_life = |leg: &Leg| {
            leg.coordinator.address.node == node && leg.coordinator.incarnation == incarnation
        };
        self.iter().filter(|(_, leg)| of_life(leg)).map(|(handle, _)| handle).collect()
    }

    /// Number of transactions with a leg here.
    pub(super) fn transaction_count(&self) -> usize {
        let mut transactions: Vec<_> = self.iter().map(|(_, leg)| leg.transaction).collect();
        transactions.dedup();
        transactions.len()
    }

    /// Bytes of all staged images, with the records of their rows.
    pub(super) fn staged_bytes(&self) -> u64 {
        self.staged_bytes + self.touched as u64 * ROW_BYTES
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        let bytes: u64 = self.unordered().map(|(_, leg)| leg.bytes).sum();
        assert_eq!(bytes, self.staged_bytes, "bytes of staged images of all legs");
        let rows: usize = self.unordered().map(|(_, leg)| leg.rows.len()).sum();
        assert_eq!(rows, self.touched, "rows of all legs");
        assert_eq!(self.unordered().count(), self.by_name.len(), "legs by name");
        for (handle, leg) in self.unordered() {
            assert_eq!(self.find(leg.transaction, leg.leg), Some(handle), "a leg by its name");
            leg.check();
        }
    }

    /// Drops all records.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All legs, by handle.
    pub(super) fn unordered(&self) -> impl Iterator<Item = (LegHandle, &Leg)> {
        let records = self.records.iter().enumerate();
        records.filter_map(|(at, leg)| Some((LegHandle(at as u32), leg.as_ref()?)))
    }
}

/// Lock owners from here on are not legs.
pub(super) const FOREIGN_OWNERS: u32 = 1 << 31;
