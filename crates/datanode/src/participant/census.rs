//! Sums over all replicas, for figures and inspections.
//!
//! # Guarantees
//! Who asks costs the worker no more than a look at [`WHOLE_MAX`] replicas. Of fewer the sums are
//! those of the moment; of more they are those of the last walk, which goes on some replicas at a
//! time after somebody has asked, and begins [`PAUSE`] after the end of the one before at the
//! earliest. Management nodes ask every two seconds, and 40,000 replicas take a tenth of a second.
//! # Not here
//! Whether a change fits the memory (`memory`).

use std::cell::Cell;
use std::ops::Bound;

use actor::{Ctx, probe};
use model::{Address, PartitionId};
use stdx::{Duration, Instant};

use super::Participant;
use super::memory::Pools;
use super::replica::Replica;

/// Replicas that are looked at when somebody asks.
const WHOLE_MAX: usize = 1_024;
/// Replicas that a step of a walk looks at.
const STEP: usize = 64;
/// How old sums become before they are taken anew.
const PAUSE: Duration = Duration::from_secs(10);

/// Sums over replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// Without staged changes.
    pub(super) pools: Pools,
    pub(super) rows: u64,
    pub(super) locked_rows: u64,
    pub(super) primaries: u64,
    pub(super) backups: u64,
    pub(super) copying: u64,
}

/// The sums as they were last, and the walk that takes them anew.
#[derive(Debug, Default)]
pub(super) struct Census {
    known: Option<Sums>,
    /// What was summed up, and the last replica of it.
    walk: Option<(Option<PartitionId>, Sums)>,
    ended: Instant,
    /// Somebody has asked since the walk began.
    wanted: Cell<bool>,
}

impl Sums {
    fn add(&mut self, replica: &Replica, me: Address) {
        let partition = &replica.partition;
        self.pools.rows += partition.heap_bytes();
        self.pools.hash_indexes += partition.hash_index_bytes();
        self.pools.ordered_indexes += partition.ordered_index_bytes();
        self.pools.old_images += partition.version_bytes();
        self.pools.locks += replica.locks.memory_bytes() as u64;
        self.rows += partition.row_count();
        self.locked_rows += replica.locks.len() as u64;
        let is_own = |first: &Address| first.node == me.node && first.worker == me.worker;
        match (replica.syncing, replica.chain.first().is_some_and(is_own)) {
            (true, _) => self.copying += 1,
            (false, true) => self.primaries += 1,
            (false, false) => self.backups += 1,
        }
    }
}

impl Participant {
    /// The sums as far as they are known.
    pub(super) fn sums(&self, me: Address) -> Sums {
        if self.replicas.len() > WHOLE_MAX {
            self.census.wanted.set(true);
            if let Some(known) = self.census.known {
                return known;
            }
        }
        let mut sums = Sums::default();
        self.replicas.values().for_each(|replica| sums.add(replica, me));
        sums
    }

    /// Whether a step of a walk is to be done.
    pub(super) fn census_is_due(&self, now: Instant) -> bool {
        let census = &self.census;
        let asked = census.wanted.get() && self.replicas.len() > WHOLE_MAX;
        let rested = census.known.is_none() || now.since(census.ended) >= PAUSE;
        census.walk.is_some() || (asked && rested)
    }

    /// One step of a walk, if one is due.
    pub(super) fn continue_census(&mut self, ctx: &mut Ctx<'_>) {
        if !self.census_is_due(ctx.now()) {
            return;
        }
        self.census.wanted.set(false);
        let (last, mut sums) = self.census.walk.take().unwrap_or_default();
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut next = self.replicas.range((from, Bound::Unbounded));
        let mut reached = last;
        for (partition, replica) in next.by_ref().take(STEP) {
            sums.add(replica, ctx.me());
            reached = Some(*partition);
        }
        if next.next().is_some() {
            self.census.walk = Some((reached, sums));
            return;
        }
        probe!(ctx, "participant: sums over many replicas taken");
        self.census.known = Some(sums);
        self.census.ended = ctx.now();
    }
}
