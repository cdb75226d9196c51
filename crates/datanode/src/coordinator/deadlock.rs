//! Finds cycles of waiting transactions by edge-chasing probes and breaks them.
//!
//! Source: Chandy, Misra, Haas, "Distributed deadlock detection" (1983), AND model: of the probes
//! of one search, a transaction passes the first on that reaches it, so their number grows with the
//! waits and not with the paths along them. When a cycle is broken, its search begins once more: it
//! may have left another cycle out.
//!
//! A search begins with a wait, at the participant (`participant::deadlock`). It goes from the
//! waiter to the coordinator of a holder, and from there to the participants where the holder may
//! wait itself, which know by whom it is blocked at that moment. Locks are held until their
//! transaction ends, so a search that comes back to a wait that lasts has found a cycle.
//!
//! # Guarantees
//! 1. The last wait of a cycle begins a search that finds it, as all others have begun by then.
//! 2. All searches of one cycle choose the same victim: what it is chosen by does not change while
//!    it waits.
//! 3. A victim is aborted in the step in which it was seen waiting, and in no later one.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use actor::{Ctx, Mutation, probe};
use model::{Address, ErrorCode, OperationNumber, Refusal, TransactionId};
use wire::deadlock::PATH_MAX;
use wire::{
    CoordinatorMessage, DeadlockSearch, LegId, Message, ParticipantMessage, SCAN_WAITS_FROM,
    SearchOrigin, SearchedTransaction,
};

use super::Coordinator;
use super::execute::my_ref;
use super::state::{Phase, Record};

/// Longest path of waits that is followed.
const LENGTH_MAX: u32 = 4_096;
/// Searches that a transaction remembers in one step.
const SEEN_MAX: usize = 4_096;

/// What searches have found at a transaction in its present step.
#[derive(Debug)]
pub(super) struct Searched {
    /// Its changes when the first one came by. Others of its batch may change rows while one waits;
    /// all searches are to see the same.
    changes: u32,
    /// Searches that were passed on.
    seen: BTreeSet<(TransactionId, SearchOrigin)>,
    /// Searches begun by the coordinator.
    begun: u32,
}

impl Record {
    /// Whether it is undecided and its client waits for its operations, or scans.
    fn may_wait(&self) -> bool {
        let undecided = matches!(self.phase, Phase::Open | Phase::Delegated(_));
        undecided && self.given_up.is_none() && self.taken_from.is_none()
    }

    fn searched_mut(&mut self) -> &mut Searched {
        let changes = self.changes;
        self.searched
            .get_or_insert_with(|| Box::new(Searched { changes, seen: BTreeSet::new(), begun: 0 }))
    }

    /// What others compare it by.
    fn as_searched(&mut self, ctx: &Ctx<'_>) -> SearchedTransaction {
        SearchedTransaction {
            transaction: self.id,
            coordinator: my_ref(ctx),
            changes: self.searched_mut().changes,
            began: self.began,
            step: self.step,
        }
    }

    /// Whether the wait that a search began at still lasts, as far as is known here.
    fn waits_still(&self, origin: SearchOrigin) -> bool {
        let is_scan = origin.wait >= SCAN_WAITS_FROM;
        is_scan || origin.leg.is_none() || self.awaits(OperationNumber(origin.wait))
    }
}

/// Of two transactions of a cycle the one to be aborted: that with fewer changes, the younger of
/// equals.
fn cheaper(a: SearchedTransaction, b: SearchedTransaction) -> SearchedTransaction {
    let cost = |one: &SearchedTransaction| (one.changes, Reverse((one.began, one.transaction)));
    std::cmp::min_by_key(a, b, cost)
}

impl Coordinator {
    /// One of our transactions has waited for a while. Its cycle, if there is one, was searched
    /// when its last wait began; it is searched again in case that a message was lost with a node.
    pub(super) fn waiting(&mut self, ctx: &mut Ctx<'_>, id: TransactionId, wait: u64) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.phase != Phase::Open {
            return;
        }
        record.waits.insert(wait);
        self.search_deadlock(ctx, id);
    }

    /// Searches from one of our transactions.
    pub(super) fn search_deadlock(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let Some(record) = self.records.get_mut(&id).filter(|record| record.may_wait()) else {
            return;
        };
        let holds = record.operation_count > 1 || record.legs.iter().any(|leg| leg.scanned);
        if !holds {
            return; // Nobody waits for it.
        }
        let searched = record.searched_mut();
        searched.begun += 1;
        let origin = SearchOrigin { leg: None, wait: 0, count: searched.begun };
        let search = DeadlockSearch {
            initiator: id,
            origin: SearchOrigin { wait: record.step.into(), ..origin },
            path: Vec::new(),
            length: 0,
            victim: None,
        };
        ask_participants(ctx, record, &search);
    }

    /// Those who wait before us in a search wait for some of our transactions: do these wait too?
    pub(super) fn deadlock_probe(
        &mut self,
        ctx: &mut Ctx<'_>,
        search: &DeadlockSearch,
        blockers: Vec<TransactionId>,
    ) {
        for blocker in blockers {
            let Some(record) = self.records.get_mut(&blocker).filter(|record| record.may_wait())
            else {
                continue;
            };
            if blocker == search.initiator {
                if record.waits_still(search.origin) {
                    close_cycle(ctx, record, search);
                }
                continue;
            }
            let legs = record.waiting_legs();
            if legs.is_empty() || search.length >= LENGTH_MAX {
                continue;
            }
            if search.path.contains(&blocker) {
                // It has gone on since it was passed, and waits anew: what the search knows of the
                // way between is of before. The new wait has begun a search of its own.
                probe!(ctx, "deadlock: search met a transaction again that had gone on");
                continue;
            }
            let seen = &mut record.searched_mut().seen;
            if seen.len() >= SEEN_MAX {
                seen.clear();
            }
            if !seen.insert((search.initiator, search.origin)) {
                probe!(ctx, "deadlock: second probe of a search");
                continue;
            }
            let this = record.as_searched(ctx);
            let mut longer = search.clone();
            longer.length += 1;
            if longer.path.len() < PATH_MAX {
                longer.path.push(blocker);
            }
            longer.victim = Some(longer.victim.map_or(this, |other| cheaper(this, other)));
            ask_participants(ctx, record, &longer);
        }
    }

    /// A cycle was found and our transaction is to break it.
    pub(super) fn deadlock_victim(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        step: u32,
        cycle: &[TransactionId],
        initiator: TransactionId,
        from: Address,
    ) {
        let waits = |record: &&mut Record| record.may_wait() && record.step == step;
        if self.records.get_mut(&id).filter(waits).is_some() {
            let cycle: Vec<String> = cycle.iter().map(TransactionId::to_string).collect();
            let detail = format!("cycle: {}", cycle.join(" waits for "));
            self.abort_with(ctx, id, Refusal::new(ErrorCode::Deadlock, detail), None);
        } else {
            probe!(ctx, "deadlock: victim no longer waits");
        }
        if initiator != id {
            let again = CoordinatorMessage::SearchDeadlock { transaction: initiator };
            ctx.send(from, Message::Coordinator(again));
        }
    }
}

/// A search has come back to the wait that it began at.
fn close_cycle(ctx: &mut Ctx<'_>, record: &mut Record, search: &DeadlockSearch) {
    probe!(ctx, "deadlock: cycle found");
    if search.length > 1 {
        probe!(ctx, "deadlock: cycle of three or more");
    }
    let this = record.as_searched(ctx);
    let mut victim = search.victim.map_or(this, |other| cheaper(this, other));
    if ctx.mutated(Mutation::VictimBySearch) {
        victim = this;
    }
    let mut cycle = vec![this.transaction];
    cycle.extend(&search.path);
    let at = cycle.iter().position(|member| *member == victim.transaction);
    cycle.rotate_left(at.unwrap_or_default());
    let SearchedTransaction { transaction, coordinator, step, .. } = victim;
    let initiator = search.initiator;
    let message = CoordinatorMessage::DeadlockVictim { transaction, step, cycle, initiator };
    ctx.send(coordinator.address, Message::Coordinator(message));
}

/// Has the participants pass a search on to whoever blocks the transaction there.
fn ask_participants(ctx: &mut Ctx<'_>, record: &Record, search: &DeadlockSearch) {
    for leg in record.waiting_legs() {
        let LegId(at) = leg;
        let Some(primary) = record.legs[usize::from(at)].chain.first() else { continue };
        let (transaction, search) = (record.id, Box::new(search.clone()));
        let message = ParticipantMessage::DeadlockProbe { search, transaction, leg };
        ctx.send(*primary, Message::Participant(message));
    }
}
