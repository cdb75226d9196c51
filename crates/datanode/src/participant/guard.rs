//! Guards: ranges that a serializable transaction has read, and that nobody else changes before it
//! ends.
//!
//! # Owns
//! For each replica the guards of its open legs; what a change has to wait for.
//! # Guarantees
//! From the moment at which a guarded scan reads until its leg ends, no other leg stages a row that
//! was in the guarded range and passed its filter, or that comes to. Who wants to waits in the lock
//! table, for a lock that the guard's leg holds: searches for deadlocks and time-outs know of it.
//! # Limits
//! A leg has a bounded number of guards in a partition: when it wants more, one on the whole
//! partition takes their place.
//! # Not here
//! Locks of rows that are read by key: those are of keys, whether there is a row or not.

use actor::{Ctx, Mutation, Tally, probe};
use model::{Expression, Key, KeyEncoder, PartitionId, RowId, Table};
use store::lock_table::{LockAnswer, LockKey, LockOwner, LockTable, Mode};
use store::ordered_index::KeyRange;
use store::partition::Partition;
use wire::{Besides, Operation, OperationKind, ScanId};

use super::Participant;
use super::evaluate;
use super::leg::{self, Leg, LegHandle, Legs};
use super::replica::Replica;
use super::scan::Within;
use super::waits::{Place, Terms, Wait, Waiting};

/// Guards of one leg in one partition, at most.
const GUARDS_MAX: usize = 64;
/// Most rows of a leg that are compared with a guard.
const LOOKED_THROUGH: usize = 64;

/// A range that a leg guards.
#[derive(Debug)]
struct Guard {
    owner: LegHandle,
    /// What the owner holds alone, and those want to share who change rows in the range.
    lock: LockKey,
    /// Of an index; none for all rows.
    within: Option<Within>,
    /// Only rows of which this is true.
    filter: Option<Expression>,
    /// The scan that has not read yet, as it waits for others' staged rows. Whoever has some in
    /// the range may stage more until then: it would wait for the scan that waits for it.
    settling: Option<ScanId>,
}

impl Guard {
    /// Whether it is about a row. What cannot be evaluated counts as true.
    fn has(&self, table: &Table, row: &[u8]) -> bool {
        let mut key = KeyEncoder::new();
        self.within.as_ref().is_none_or(|within| within.has(table, row, &mut key))
            && evaluate::passes(table, row, self.filter.as_ref()).unwrap_or(true)
    }

    /// Whether a leg has staged a row that it is about, or was before; of a leg with many rows it
    /// is taken for granted.
    fn is_touched(&self, leg: &Leg, partition: &Partition) -> bool {
        let mut rows = leg.rows.iter().filter(|row| row.place.partition == partition.id());
        if leg.rows.len() > LOOKED_THROUGH {
            rows.next().is_some()
        } else {
            rows.any(|row| self.has_place(leg, partition, row.place.row_id))
        }
    }

    /// Whether it is about what a leg has staged in a place, or about the committed row there.
    fn has_place(&self, leg: &Leg, partition: &Partition, row_id: RowId) -> bool {
        let touched = leg
            .rows
            .at(leg::Place { partition: partition.id(), row_id })
            .filter(|row| row.is_staged());
        let Some(touched) = touched else { return false };
        let table = partition.table();
        touched.newest().is_some_and(|row| self.has(table, &row.0))
            || partition.row(row_id).is_some_and(|row| self.has(table, row))
    }
}

/// The guards of a partition replica.
#[derive(Debug, Default)]
pub(super) struct Guards {
    guards: Vec<Guard>,
    made: u64,
}

impl Guards {
    /// Whether nothing is guarded.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Whose guards there are.
    pub(super) fn owners(&self) -> impl Iterator<Item = LegHandle> + '_ {
        self.guards.iter().map(|guard| guard.owner)
    }

    /// Guards a range for a scan that begins.
    pub(super) fn add(
        &mut self,
        locks: &mut LockTable,
        owner: LegHandle,
        scan: ScanId,
        within: Option<Within>,
        filter: Option<&Expression>,
    ) {
        let own = || self.guards.iter().filter(|guard| guard.owner == owner);
        let known = own().any(|guard| {
            let same = guard.within == within && guard.filter.as_ref() == filter;
            guard.settling.is_none() && (same || guard.is_whole())
        });
        if known {
            return;
        }
        let held = own().map(|guard| guard.lock).next();
        let lock = held.unwrap_or_else(|| {
            loop {
                // Keys of rows are hashes: one of these is met by chance, if ever.
                self.made += 1;
                let lock = LockKey(u64::MAX - self.made);
                if locks.try_request(lock, LockOwner(owner.0), Mode::Exclusive) {
                    break lock;
                }
            }
        });
        if self.guards.iter().filter(|guard| guard.owner == owner).count() >= GUARDS_MAX {
            self.guards.retain(|guard| guard.owner != owner || guard.settling.is_some());
            let (within, filter, settling) = (None, None, None);
            self.guards.push(Guard { owner, lock, within, filter, settling });
        }
        let (filter, settling) = (filter.cloned(), Some(scan));
        self.guards.push(Guard { owner, lock, within, filter, settling });
    }

    /// The scan reads from now on.
    pub(super) fn settle(&mut self, scan: ScanId) {
        let settling = self.guards.iter_mut().filter(|guard| guard.settling == Some(scan));
        settling.for_each(|guard| guard.settling = None);
    }

    /// The leg ends.
    pub(super) fn remove(&mut self, owner: LegHandle) {
        self.guards.retain(|guard| guard.owner != owner);
    }

    /// Forgets all guards.
    pub(super) fn clear(&mut self) {
        self.guards.clear();
    }

    /// The lock of a guard that stands against a change by a leg.
    fn against(
        &self,
        handle: LegHandle,
        leg: &Leg,
        partition: &Partition,
        images: [Option<&[u8]>; 2],
    ) -> Option<LockKey> {
        let table = partition.table();
        let about = |guard: &&Guard| {
            guard.owner != handle
                && images.into_iter().flatten().any(|row| guard.has(table, row))
                && !(guard.settling.is_some() && guard.is_touched(leg, partition))
        };
        self.guards.iter().find(about).map(|guard| guard.lock)
    }
}

impl Guard {
    /// Whether all rows of the partition are guarded.
    fn is_whole(&self) -> bool {
        self.within.is_none() && self.filter.is_none()
    }
}

/// A row in the guarded range of a scan that begins, before or after a change that a leg other than
/// its own has staged: its key's hash. Of several the one in the first slot.
pub(super) fn staged_by_others(legs: &Legs, replica: &Replica, scan: ScanId) -> Option<u64> {
    let guard = replica.guards.guards.iter().find(|guard| guard.settling == Some(scan))?;
    let staged = replica.claims_of_others(legs, guard.owner).filter_map(|(row_id, handle)| {
        let leg = legs.get(handle)?;
        if !guard.has_place(leg, &replica.partition, row_id) {
            return None;
        }
        Some((row_id, leg.rows.at(leg::Place { partition: replica.partition.id(), row_id })?.hash))
    });
    staged.min_by_key(|(row_id, _)| *row_id).map(|(_, hash)| hash)
}

/// The range of an index, or all rows, as guards have them.
pub(super) fn within(table: &Table, range: Option<(model::IndexId, &KeyRange)>) -> Option<Within> {
    range.map(|(index, range)| Within::new(table, index, range))
}

impl Participant {
    /// Has a change wait whose row is in a range that another leg guards, before it or after it.
    /// The row is locked. Gives the operation back if nobody is in its way.
    pub(super) fn await_guards(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: Operation,
        of_row: Option<&Key>,
        hash: u64,
        terms: Terms,
    ) -> Option<Operation> {
        if ctx.mutated(Mutation::ChangesPassGuards) {
            return Some(operation);
        }
        let key = of_row.or(operation.kind.key()).expect("a row or a key");
        let lock = self.guard_against(handle, &operation, &key.0, hash);
        let Some(lock) = lock else { return Some(operation) };
        let partition = operation.partition;
        let replica = self.replicas.get_mut(&partition).expect("admitted operations are here");
        let ticket = operation.number.0;
        let answer = replica.locks.request(lock, LockOwner(handle.0), Mode::Shared, ticket);
        assert_eq!(answer, LockAnswer::Waiting, "{partition}: the owner of a guard holds its lock");
        probe!(ctx, "participant: change waits for a guarded range");
        ctx.count(Tally::LockWait);
        // The lock of its row is held already.
        let besides = match terms.besides {
            Besides::Nothing => Besides::Locks,
            besides => besides,
        };
        let terms = Terms { besides, ..terms };
        let what = Waiting::Operation(Box::new(operation));
        let wait = Wait::new(ctx, partition, hash, what, Place::Queue, terms).for_lock(lock);
        self.search_from(handle, ticket, besides);
        self.waits.insert(handle, ticket, wait);
        None
    }

    /// The lock of a guard that stands against an operation.
    fn guard_against(
        &self,
        handle: LegHandle,
        operation: &Operation,
        key: &[u8],
        hash: u64,
    ) -> Option<LockKey> {
        let Replica { partition, guards, .. } = &*self.replicas[&operation.partition];
        let (table, leg) = (partition.table(), self.legs.leg(handle));
        let committed = partition.find(key, hash).and_then(|row_id| partition.row(row_id));
        let now = match leg.rows.staged(operation.partition, hash, key) {
            Some(staged) => staged.newest().map(|row| &row.0[..]),
            None => committed,
        };
        let updated = match &operation.kind {
            OperationKind::Update { key, assignments, .. } => {
                // What cannot be computed is refused.
                now.and_then(|row| evaluate::updated(table, row, key, assignments).ok())
            }
            _ => None,
        };
        let after = match &operation.kind {
            OperationKind::Insert { row } | OperationKind::Upsert { row } => Some(&row.0[..]),
            OperationKind::Update { .. } => updated.as_ref().map(|row| &row.0[..]),
            OperationKind::Read { .. } | OperationKind::Delete { .. } => None,
        };
        guards.against(handle, leg, partition, [committed, after])
    }

    /// Guards end with their legs.
    pub(super) fn release_guards(&mut self, handle: LegHandle, partition: PartitionId) {
        if let Some(replica) = self.replicas.get_mut(&partition)
            && !replica.guards.is_empty()
        {
            replica.guards.remove(handle);
        }
    }
}
