//! Finds cycles of waiting transactions by edge-chasing probes and breaks them.
//!
//! Source: Chandy, Misra, Haas, "Distributed deadlock detection" (1983), AND model: of the probes
//! that a report sets off, a transaction passes the first on that reaches it, so their number grows
//! with the waits and not with the paths along them. A probe that was sent for a wait that is over
//! meanwhile dies out, because the victim is only aborted while it still waits; a cycle that is
//! missed is found when the wait is reported again.

use actor::{Ctx, probe};
use model::{Epoch, ErrorCode, Refusal, TransactionId};
use wire::{CoordinatorMessage, CoordinatorRef, Message};

use super::Coordinator;
use super::execute::my_ref;
use super::state::Phase;

/// Longest waits-for path followed.
const PATH_MAX: usize = 64;

impl Coordinator {
    /// One of our transactions has waited for a while: asks its blockers' coordinators.
    pub(super) fn waiting(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        wait: u64,
        blockers: Vec<(TransactionId, CoordinatorRef)>,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if record.phase != Phase::Open {
            return;
        }
        let me = my_ref(ctx);
        let path = vec![(id, record.began, me)];
        record.waits.insert(wait, blockers.clone());
        for (blocker, coordinator) in blockers {
            send_probe(ctx, coordinator, path.clone(), blocker);
        }
    }

    /// Does `target`, one of our transactions, wait itself?
    pub(super) fn deadlock_probe(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut path: Vec<(TransactionId, Epoch, CoordinatorRef)>,
        target: TransactionId,
    ) {
        let Some(record) = self.records.get_mut(&target) else { return };
        if record.waits.is_empty() || record.phase != Phase::Open || path.is_empty() {
            return;
        }
        // The next report of the same wait comes after a whole interval.
        let (now, interval) = (ctx.now(), ctx.config().deadlock_check_after);
        record.probed.retain(|(_, at)| now.since(*at) < interval.divided_by(2));
        if record.probed.iter().any(|(first, _)| *first == path[0].0) {
            probe!(ctx, "deadlock: second probe of a report");
            return;
        }
        record.probed.push((path[0].0, now));
        path.push((target, record.began, my_ref(ctx)));
        let mut next: Vec<(TransactionId, CoordinatorRef)> =
            record.waits.values().flatten().copied().collect();
        next.sort_unstable();
        next.dedup();
        for (blocker, coordinator) in next {
            if blocker == path[0].0 {
                probe!(ctx, "deadlock: cycle found");
                if path.len() > 2 {
                    probe!(ctx, "deadlock: cycle of three or more");
                }
                let victim = path.iter().max_by_key(|(id, began, _)| (*began, *id));
                let (transaction, _, victims) = *victim.expect("a path is never empty");
                let cycle = path.iter().map(|(id, _, _)| *id).collect();
                let message = CoordinatorMessage::DeadlockVictim { transaction, cycle };
                ctx.send(victims.address, Message::Coordinator(message));
            } else if path.iter().all(|(id, _, _)| *id != blocker) && path.len() < PATH_MAX {
                send_probe(ctx, coordinator, path.clone(), blocker);
            }
        }
    }

    /// A cycle was found and our transaction is to break it.
    pub(super) fn deadlock_victim(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        cycle: &[TransactionId],
    ) {
        let Some(record) = self.records.get(&id) else { return };
        if record.phase != Phase::Open || record.waits.is_empty() {
            probe!(ctx, "deadlock: victim no longer waits");
            return;
        }
        let cycle: Vec<String> = cycle.iter().map(TransactionId::to_string).collect();
        let detail = format!("cycle: {}", cycle.join(" waits for "));
        self.abort_with(ctx, id, Refusal::new(ErrorCode::Deadlock, detail), None);
    }
}

fn send_probe(
    ctx: &mut Ctx<'_>,
    to: CoordinatorRef,
    path: Vec<(TransactionId, Epoch, CoordinatorRef)>,
    target: TransactionId,
) {
    // A dead coordinator's transactions are settled by a takeover, not by deadlock detection.
    if ctx.cluster().member(to.address.node, to.incarnation).is_some() {
        let message = CoordinatorMessage::DeadlockProbe { path, target };
        ctx.send(to.address, Message::Coordinator(message));
    }
}
