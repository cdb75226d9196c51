//! One replica of one partition on this worker: rows, locks, and who has touched which slot.

use std::sync::Arc;

use model::{Address, ClusterState, Epoch, PartitionId, RowId, Table};
use stdx::HashMap;
use store::lock_table::LockTable;
use store::partition::Partition;
use wire::Chain;

use super::disk::Stored;
use super::guard::Guards;
use super::leg::{Leg, LegHandle, Legs};
use super::streams::Streamed;

/// A set of slots, in one bit for each slot up to the last one in it.
#[derive(Debug, Default)]
pub(super) struct SlotSet(Vec<u64>);

impl SlotSet {
    fn insert(&mut self, RowId(slot): RowId) {
        let word = slot as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot % 64);
    }

    /// Whether a slot is in the set.
    pub(super) fn contains(&self, RowId(slot): RowId) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

/// The legs that have claimed slots: a table for each 64 slots of which one is claimed. A claim of
/// neighbours takes 4 bytes, and the map of the tables is small however many there are.
#[derive(Debug, Default)]
pub(super) struct Claims {
    tables: HashMap<u32, ClaimTable>,
    /// Empty tables.
    spare: Vec<ClaimTable>,
    len: usize,
}

#[derive(Debug)]
struct ClaimTable {
    /// Handles of legs, by slot.
    legs: Box<[u32; CLAIMS]>,
    count: usize,
}

impl Default for ClaimTable {
    fn default() -> Self {
        Self { legs: Box::new([UNCLAIMED; CLAIMS]), count: 0 }
    }
}

/// Slots of a table.
const CLAIMS: usize = 64;
/// Says that a slot is not claimed.
const UNCLAIMED: u32 = u32::MAX;
/// Empty tables that are kept.
const SPARE_TABLES: usize = 16;

impl Claims {
    fn place(RowId(slot): RowId) -> (u32, usize) {
        (slot / CLAIMS as u32, slot as usize % CLAIMS)
    }

    /// Who has claimed a slot.
    #[inline]
    pub(super) fn get(&self, slot: RowId) -> Option<LegHandle> {
        let (table, at) = Self::place(slot);
        let leg = self.tables.get(&table)?.legs[at];
        (leg != UNCLAIMED).then_some(LegHandle(leg))
    }

    /// Lets a leg have a slot, unless another has it; who had it before.
    pub(super) fn claim(&mut self, slot: RowId, leg: LegHandle) -> Option<LegHandle> {
        let (table, at) = Self::place(slot);
        let spare = &mut self.spare;
        let table = self.tables.entry(table).or_insert_with(|| spare.pop().unwrap_or_default());
        let before = table.legs[at];
        if before != UNCLAIMED {
            return Some(LegHandle(before));
        }
        table.legs[at] = leg.0;
        table.count += 1;
        self.len += 1;
        None
    }

    /// Gives a slot back.
    pub(super) fn remove(&mut self, slot: RowId) {
        let (number, at) = Self::place(slot);
        let Some(table) = self.tables.get_mut(&number) else { return };
        if std::mem::replace(&mut table.legs[at], UNCLAIMED) == UNCLAIMED {
            return;
        }
        table.count -= 1;
        self.len -= 1;
        if table.count == 0
            && let Some(table) = self.tables.remove(&number)
            && self.spare.len() < SPARE_TABLES
        {
            self.spare.push(table);
        }
    }

    /// All claims, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RowId, LegHandle)> + '_ {
        self.tables.iter().flat_map(|(number, table)| {
            let first = number * CLAIMS as u32;
            let legs = table.legs.iter().zip(first..).filter(|(leg, _)| **leg != UNCLAIMED);
            legs.map(|(leg, slot)| (RowId(slot), LegHandle(*leg)))
        })
    }

    /// Number of claims.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Gives all back.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A partition replica with its locks.
#[derive(Debug)]
pub(super) struct Replica {
    /// Committed rows.
    pub(super) partition: Partition,
    /// Row locks, by hash of the primary key.
    pub(super) locks: LockTable,
    /// The leg that has staged a change in a slot, until it ends.
    pub(super) claims: Claims,
    /// Ranges that nobody but their legs may change, at the primary.
    pub(super) guards: Guards,
    /// Being copied from the primary.
    pub(super) syncing: bool,
    /// While rows are being copied: the slots that transactions have changed here since. Where
    /// several replicas are copied at once only one is next to the primary in the chain: the others
    /// hear of a change along other links, maybe before the copied row that came before it.
    pub(super) overtaken: Option<SlotSet>,
    /// Everything committed up to this epoch is here, while it is being copied.
    pub(super) complete_to: Epoch,
    /// The complete epoch that the participant knew when it was not, or no longer, being copied.
    pub(super) active_since: Epoch,
    /// The partition's write chain in the cluster state that the participant follows.
    pub(super) chain: Chain,
    /// Complete and this worker's to serve, in that state.
    pub(super) readable: bool,
    /// The change streams that have its changes; none if no stream has.
    pub(super) streamed: Option<Box<Streamed>>,
    /// What the disk has of it, if there is one.
    pub(super) stored: Stored,
}

impl Replica {
    /// An empty replica.
    pub(super) fn new(id: PartitionId, table: Arc<Table>, syncing: bool, completed: Epoch) -> Self {
        Self {
            partition: Partition::new(id, table),
            locks: LockTable::new(),
            claims: Claims::default(),
            guards: Guards::default(),
            syncing,
            overtaken: syncing.then(SlotSet::default),
            complete_to: Epoch(0),
            active_since: completed,
            chain: Chain::EMPTY,
            readable: false,
            streamed: None,
            stored: Stored::default(),
        }
    }

    /// Everything committed up to this epoch is here, when the participant knows that `completed`
    /// is complete. An epoch that completes makes the replica complete up to it.
    pub(super) fn complete_to(&self, completed: Epoch) -> Epoch {
        let follows = !self.syncing && completed > self.active_since;
        if follows { completed } else { self.complete_to }
    }

    /// Notes what the newest cluster state says about the partition.
    pub(super) fn follow(&mut self, cluster: &ClusterState, me: Address) {
        let partition = self.partition.id();
        if cluster.slots.is_empty() {
            return self.leave();
        }
        self.chain = Chain::of(cluster, partition);
        self.readable = cluster.replica_syncing(partition, me.node) == Some(false)
            && cluster.participant(partition, me.node) == me;
    }

    /// Belongs to no chain until the next cluster state.
    pub(super) fn leave(&mut self) {
        (self.chain, self.readable) = (Chain::EMPTY, false);
    }

    /// Whether `chain` is the partition's newest one and `me` its primary.
    pub(super) fn is_primary(&self, me: Address, chain: &Chain) -> bool {
        chain.first() == Some(&me) && self.chain == *chain
    }

    /// A transaction has changed the slot.
    #[inline]
    pub(super) fn note_change(&mut self, row_id: RowId) {
        if let Some(overtaken) = &mut self.overtaken {
            overtaken.insert(row_id);
        }
    }

    /// Whether a transaction has changed the slot while the replica was being copied.
    pub(super) fn is_overtaken(&self, row_id: RowId) -> bool {
        self.overtaken.as_ref().is_some_and(|overtaken| overtaken.contains(row_id))
    }

    /// The claims of other legs than this one, in no order. Who is alone in the partition does not
    /// pay for the size of its own transaction.
    pub(super) fn claims_of_others<'a>(
        &'a self,
        legs: &Legs,
        own: LegHandle,
    ) -> impl Iterator<Item = (RowId, LegHandle)> + use<'a> {
        // What a leg has staged in a partition it has locked there.
        let id = self.partition.id();
        let is_other = |(handle, leg): (LegHandle, &Leg)| {
            handle != own && leg.locked().any(|locked| locked == id)
        };
        let claims = legs.unordered().any(is_other).then(|| self.claims.iter());
        claims.into_iter().flatten().filter(move |(_, handle)| *handle != own)
    }

    /// Whether the slot holds a committed row.
    pub(super) fn occupied(&self, row_id: RowId) -> bool {
        self.partition.row(row_id).is_some()
    }
}
