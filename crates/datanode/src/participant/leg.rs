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

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Address, ControlIndex, Epoch, Incarnation, Key, NodeId, OperationNumber, PartitionId, Row,
    RowId, TransactionId,
};
use stdx::HashMap;
use wire::{CoordinatorRef, LegId, ReportedLegStatus, RollbackScope};

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

    /// The status in a takeover report.
    pub(super) fn reported(self) -> ReportedLegStatus {
        match self {
            Status::Open => ReportedLegStatus::Open,
            Status::Committed(epoch) => ReportedLegStatus::Committed(epoch),
            Status::Applied(epoch) => ReportedLegStatus::Applied(epoch),
        }
    }
}

/// The side images of one row, oldest first.
#[derive(Debug)]
pub(super) struct StagedRow {
    /// Encoded primary key.
    pub(super) key: Key,
    /// Its hash: the row's name in the lock table.
    pub(super) hash: u64,
    /// The row did not exist before the transaction.
    pub(super) fresh: bool,
    /// After-image of each operation; none when it deletes.
    images: Vec<(OperationNumber, Option<Row>)>,
}

impl StagedRow {
    /// The row as the transaction has left it; `None` when it is deleted.
    pub(super) fn newest(&self) -> Option<&Row> {
        self.images.last().expect("a staged row has an image").1.as_ref()
    }

    /// The newest image of an operation up to `seen_to`: `None` when there is none (the committed
    /// row is seen), `Some(None)` when the row is deleted.
    pub(super) fn seen(&self, seen_to: OperationNumber) -> Option<Option<&Row>> {
        let image = self.images.iter().rev().find(|(number, _)| *number <= seen_to)?;
        Some(image.1.as_ref())
    }
}

/// One leg of a transaction.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    /// Primary first, as the coordinator made it.
    pub(super) chain: Vec<Address>,
    /// The coordinator that began it; a takeover is asked for by this life.
    pub(super) coordinator: CoordinatorRef,
    pub(super) status: Status,
    /// A change was sent down the chain: backups know the leg.
    pub(super) replicated: bool,
    /// Staged rows by place.
    pub(super) staged: BTreeMap<(PartitionId, RowId), StagedRow>,
    /// Slots this leg has touched; true where it holds the slot's reservation.
    pub(super) claims: BTreeMap<(PartitionId, RowId), bool>,
    /// Partitions in whose lock tables the leg holds or awaits locks.
    pub(super) locked: BTreeSet<PartitionId>,
    /// Staged places by key hash.
    by_hash: HashMap<(PartitionId, u64), Vec<RowId>>,
    /// Bytes of staged images.
    bytes: u64,
    /// The cluster state in which the leg began here; for traces.
    pub(super) began: ControlIndex,
}

impl Leg {
    /// A leg without changes.
    pub(super) fn new(
        transaction: TransactionId,
        leg: LegId,
        chain: Vec<Address>,
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
            staged: BTreeMap::new(),
            claims: BTreeMap::new(),
            locked: BTreeSet::new(),
            by_hash: HashMap::default(),
            bytes: 0,
            began,
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

    /// Where the leg has staged a row with this key.
    pub(super) fn place_of(&self, partition: PartitionId, hash: u64, key: &[u8]) -> Option<RowId> {
        let places = self.by_hash.get(&(partition, hash))?;
        places.iter().copied().find(|row_id| self.staged[&(partition, *row_id)].key.0[..] == *key)
    }

    /// Adds the after-image of an operation; `fresh` counts for the first image of a row.
    pub(super) fn stage(
        &mut self,
        place: (PartitionId, RowId),
        key: Key,
        fresh: bool,
        image: (OperationNumber, Option<Row>),
    ) {
        assert!(self.claims.contains_key(&place), "a staged row is claimed first");
        self.bytes += image_bytes(&image.1);
        let hash = key.local_hash();
        let by_hash = &mut self.by_hash;
        let row = self.staged.entry(place).or_insert_with(|| {
            by_hash.entry((place.0, hash)).or_default().push(place.1);
            StagedRow { key, hash, fresh, images: Vec::new() }
        });
        row.images.push(image);
    }

    /// Undoes operations, newest first. False, and nothing is undone, when a single operation is
    /// to go and a later one changed the same row.
    pub(super) fn roll_back(&mut self, scope: RollbackScope) -> bool {
        if let RollbackScope::Only(number) = scope {
            let covered = |row: &StagedRow| {
                let at = row.images.iter().position(|(n, _)| *n == number);
                at.is_some_and(|at| at + 1 < row.images.len())
            };
            if self.staged.values().any(covered) {
                return false;
            }
        }
        let goes = |number: OperationNumber| match scope {
            RollbackScope::After(savepoint) => number > savepoint,
            RollbackScope::Only(only) => number == only,
        };
        let (mut freed, mut emptied) = (0, Vec::new());
        for (place, row) in &mut self.staged {
            row.images.retain(|image| {
                let gone = goes(image.0);
                freed += if gone { image_bytes(&image.1) } else { 0 };
                !gone
            });
            if row.images.is_empty() {
                emptied.push((*place, row.hash));
            }
        }
        self.bytes -= freed;
        for (place, hash) in emptied {
            self.unstage(place, hash);
        }
        true
    }

    fn unstage(&mut self, place: (PartitionId, RowId), hash: u64) {
        self.staged.remove(&place);
        let at = (place.0, hash);
        let places = self.by_hash.get_mut(&at).expect("staged rows are filed by hash");
        places.retain(|row_id| *row_id != place.1);
        if places.is_empty() {
            self.by_hash.remove(&at);
        }
    }

    /// Takes all staged rows out, to be applied or dropped.
    pub(super) fn take_staged(&mut self) -> BTreeMap<(PartitionId, RowId), StagedRow> {
        self.by_hash.clear();
        self.bytes = 0;
        std::mem::take(&mut self.staged)
    }

    /// Forgets everything in a partition that is gone.
    pub(super) fn leave_partition(&mut self, partition: PartitionId) {
        let gone: Vec<((PartitionId, RowId), u64)> = self
            .staged
            .iter()
            .filter(|(place, _)| place.0 == partition)
            .map(|(place, row)| (*place, row.hash))
            .collect();
        for (place, hash) in gone {
            for (_, image) in &self.staged[&place].images {
                self.bytes -= image_bytes(image);
            }
            self.unstage(place, hash);
        }
        self.claims.retain(|place, _| place.0 != partition);
        self.locked.remove(&partition);
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        let mut bytes = 0;
        for (place, row) in &self.staged {
            assert!(self.claims.contains_key(place), "{}: staged, not claimed", self.transaction);
            assert!(!row.images.is_empty(), "{}: staged row without image", self.transaction);
            bytes += row.images.iter().map(|(_, image)| image_bytes(image)).sum::<u64>();
        }
        assert_eq!(bytes, self.bytes, "{}: bytes of staged images", self.transaction);
        if let Status::Applied(_) = self.status {
            assert!(self.staged.is_empty(), "{}: applied with staged rows", self.transaction);
            assert!(self.claims.is_empty(), "{}: applied with claims", self.transaction);
        }
    }
}

fn image_bytes(image: &Option<Row>) -> u64 {
    image.as_ref().map_or(0, |row| row.0.len() as u64)
}

/// All leg records of a participant.
#[derive(Debug, Default)]
pub(super) struct Legs {
    records: Vec<Option<Leg>>,
    free: Vec<LegHandle>,
    by_transaction: BTreeMap<TransactionId, Vec<(LegId, LegHandle)>>,
    staged_bytes: u64,
}

impl Legs {
    /// Files a leg that must not be known yet.
    pub(super) fn insert(&mut self, leg: Leg) -> LegHandle {
        assert!(self.find(leg.transaction, leg.leg).is_none(), "a leg is filed once");
        let handle = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            LegHandle(self.records.len() as u32 - 1)
        });
        assert!(handle.0 < FOREIGN_OWNERS, "leg handles stay below other lock owners");
        self.by_transaction.entry(leg.transaction).or_default().push((leg.leg, handle));
        self.records[handle.0 as usize] = Some(leg);
        handle
    }

    /// The leg of a transaction, if it is known.
    pub(super) fn find(&self, transaction: TransactionId, leg: LegId) -> Option<LegHandle> {
        let legs = self.by_transaction.get(&transaction)?;
        legs.iter().find(|(id, _)| *id == leg).map(|(_, handle)| *handle)
    }

    /// The record behind a handle, unless it has ended.
    pub(super) fn get(&self, handle: LegHandle) -> Option<&Leg> {
        self.records.get(handle.0 as usize)?.as_ref()
    }

    /// The record of a leg that is known to be there.
    pub(super) fn leg(&self, handle: LegHandle) -> &Leg {
        self.get(handle).expect("the handle of a living leg")
    }

    /// The record of a leg that is known to be there, to change it.
    pub(super) fn leg_mut(&mut self, handle: LegHandle) -> &mut Leg {
        self.records[handle.0 as usize].as_mut().expect("the handle of a living leg")
    }

    /// Changes what a leg has staged; keeps the count of staged bytes.
    pub(super) fn change<R>(&mut self, handle: LegHandle, f: impl FnOnce(&mut Leg) -> R) -> R {
        let leg = self.records[handle.0 as usize].as_mut().expect("the handle of a living leg");
        let before = leg.bytes;
        let result = f(leg);
        self.staged_bytes = self.staged_bytes - before + leg.bytes;
        result
    }

    /// Takes a leg out; its handle may be given to another one.
    pub(super) fn remove(&mut self, handle: LegHandle) -> Leg {
        let leg = self.records[handle.0 as usize].take().expect("the handle of a living leg");
        self.free.push(handle);
        self.staged_bytes -= leg.bytes;
        let legs = self.by_transaction.get_mut(&leg.transaction).expect("filed by transaction");
        legs.retain(|(_, other)| *other != handle);
        if legs.is_empty() {
            self.by_transaction.remove(&leg.transaction);
        }
        leg
    }

    /// All legs, by transaction.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LegHandle, &Leg)> {
        self.by_transaction.values().flatten().map(|(_, handle)| (*handle, self.leg(*handle)))
    }

    /// The legs of one transaction.
    pub(super) fn of(&self, transaction: TransactionId) -> impl Iterator<Item = &Leg> {
        let legs = self.by_transaction.get(&transaction).into_iter().flatten();
        legs.map(|(_, handle)| self.leg(*handle))
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
        self.by_transaction.len()
    }

    /// Bytes of all staged images.
    pub(super) fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        let bytes: u64 = self.records.iter().flatten().map(|leg| leg.bytes).sum();
        assert_eq!(bytes, self.staged_bytes, "bytes of staged images of all legs");
        for (_, leg) in self.iter() {
            leg.check();
        }
    }

    /// Drops all records.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Lock owners from here on are not legs.
pub(super) const FOREIGN_OWNERS: u32 = 1 << 31;
