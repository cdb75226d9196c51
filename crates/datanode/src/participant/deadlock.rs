//! Searches for deadlocks at the participant: where they begin, and whom a leg waits for.
//!
//! # Guarantees
//! 1. A search begins in the turn in which a wait begins that may close a cycle. A wait of a
//!    transaction that holds nothing does not: nobody waits for that.
//! 2. Whom a leg waits for is looked up when it is asked for, not remembered.
//! 3. The work for a wait is in proportion to the holders of its lock, not to its queue.
//! # Not here
//! How a search goes on, and its end (`coordinator::deadlock`).

use actor::{Ctx, probe};
use model::TransactionId;
use store::lock_table::LockOwner;
use wire::{
    Besides, CoordinatorMessage, CoordinatorRef, DeadlockSearch, LegId, Message, SearchOrigin,
};

use super::Participant;
use super::leg::LegHandle;
use super::waits::Wait;

/// What is searched at the end of a turn.
#[derive(Debug, Default)]
pub(super) struct Searches {
    /// Legs that wait since this turn, and the last of their waits.
    waiting: Vec<(LegHandle, u64)>,
    /// Legs that have been granted what others wait for, and may wait elsewhere.
    granted: Vec<LegHandle>,
    /// Searches that have begun here. A scan that waits again has the number of its last wait:
    /// whoever has passed that search on is to pass the new one on too.
    begun: u32,
}

impl Searches {
    /// Whether there is nothing to search.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.granted.is_empty()
    }
}

impl Participant {
    /// Has a deadlock searched from a wait that begins, unless its transaction holds nothing.
    pub(super) fn search_from(&mut self, handle: LegHandle, ticket: u64, besides: Besides) {
        if besides == Besides::Nothing {
            return;
        }
        // The search takes all waits of the leg along.
        match self.searches.waiting.last_mut() {
            Some((last, newest)) if *last == handle => *newest = ticket,
            _ => self.searches.waiting.push((handle, ticket)),
        }
    }

    /// A wait has ended with its lock. Whoever waits for that lock now waits for this leg, whose
    /// transaction may wait elsewhere: no new wait shows that.
    pub(super) fn holds_while_waiting(&mut self, handle: LegHandle, wait: &Wait) {
        let locks = self.replicas.get(&wait.partition).map(|replica| &replica.locks);
        if wait.terms.besides == Besides::Operations
            && self.searches.granted.last() != Some(&handle)
            && locks.is_some_and(|locks| locks.is_awaited(wait.lock))
        {
            self.searches.granted.push(handle);
        }
    }

    /// Begins the searches of this turn.
    pub(super) fn begin_searches(&mut self, ctx: &mut Ctx<'_>) {
        for (handle, wait) in std::mem::take(&mut self.searches.waiting) {
            let Some(leg) = self.legs.get(handle) else { continue };
            self.searches.begun = self.searches.begun.wrapping_add(1);
            let origin = SearchOrigin { leg: Some(leg.leg), wait, count: self.searches.begun };
            let (initiator, path) = (leg.transaction, Vec::new());
            let search = DeadlockSearch { initiator, origin, path, length: 0, victim: None };
            self.probe_holders(ctx, handle, &search);
        }
        for handle in std::mem::take(&mut self.searches.granted) {
            let Some(leg) = self.legs.get(handle) else { continue };
            probe!(ctx, "participant: lock granted to a transaction that may wait elsewhere");
            let (to, transaction) = (leg.coordinator.address, leg.transaction);
            let search = CoordinatorMessage::SearchDeadlock { transaction };
            ctx.send(to, Message::Coordinator(search));
        }
    }

    /// A search has come to a transaction that may wait here.
    pub(super) fn deadlock_probe(
        &self,
        ctx: &mut Ctx<'_>,
        search: &DeadlockSearch,
        transaction: TransactionId,
        leg: LegId,
    ) {
        if let Some(handle) = self.legs.find(transaction, leg) {
            self.probe_holders(ctx, handle, search);
        }
    }

    /// Passes a search on to the coordinators of those who hold what the leg waits for.
    fn probe_holders(&self, ctx: &mut Ctx<'_>, handle: LegHandle, search: &DeadlockSearch) {
        let leg = self.legs.leg(handle);
        let locks = leg.locked().filter_map(|partition| self.replicas.get(&partition));
        let owners = locks.flat_map(|replica| replica.locks.blockers(LockOwner(handle.0)));
        // A replica copy waits for transactions, but never holds a lock beyond a handler.
        let mut holders: Vec<(CoordinatorRef, TransactionId)> = owners
            .filter_map(|owner| self.legs.get(LegHandle(owner.0)))
            .map(|holder| (holder.coordinator, holder.transaction))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        for of_one in holders.chunk_by(|a, b| a.0 == b.0) {
            let CoordinatorRef { address, incarnation } = of_one[0].0;
            // A dead coordinator's transactions are settled by a takeover.
            if ctx.cluster().member(address.node, incarnation).is_some() {
                probe!(ctx, "participant: deadlock searched from a wait");
                let search = Box::new(search.clone());
                let blockers = of_one.iter().map(|(_, transaction)| *transaction).collect();
                let message = CoordinatorMessage::DeadlockProbe { search, blockers };
                ctx.send(address, Message::Coordinator(message));
            }
        }
    }
}
