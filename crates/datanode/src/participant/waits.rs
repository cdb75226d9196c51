//! Lock waits: who waits since when, what is told to coordinators meanwhile, time-outs.
//!
//! # Owns
//! A record per waiting operation or scan. A wait is *queued* in a lock table, or it is *behind* an
//! earlier operation of its own leg on the same row, which keeps the operations of a row in order;
//! or it takes no lock and waits for a row in doubt (`doubt`).
//! # Not here
//! Lock queues (`store::lock_table`), deadlock detection (`coordinator`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, Tally, Timer, probe};
use model::{ErrorCode, PartitionId, Refusal};
use stdx::{Duration, Instant};
use store::lock_table::{Grant, LockKey, LockOwner};
use wire::{Besides, CoordinatorMessage, Message, Operation, ScanId};

use super::Participant;
use super::doubt::ParkNumber;
use super::leg::LegHandle;
use super::prepare::Run;

/// What goes on when the lock is granted.
#[derive(Debug)]
pub(super) enum Waiting {
    /// An operation of a `Prepare`.
    Operation(Box<Operation>),
    /// A scan that met a locked row.
    Scan(ScanId),
}

/// A cycle is searched when its last wait begins. Waits that last are reported as well, ever more
/// seldom: the coordinator searches again, in case that messages were lost with a node.
const REPORT_DOUBLINGS_MAX: u32 = 6;

/// When a wait for a lock that begins now ends: its request may say how long it has.
pub(super) fn lock_deadline(ctx: &Ctx<'_>, lock_wait: Option<Duration>) -> Instant {
    ctx.now() + lock_wait.unwrap_or(ctx.config().lock_timeout)
}

/// Where a wait stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the lock's queue.
    Queue,
    /// Behind an earlier operation of the same leg.
    Behind,
    /// Parked, until the row is in doubt no more.
    Doubt(ParkNumber),
}

/// What is known of an operation when it comes to its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// When a wait for the lock ends.
    pub(super) deadline: Instant,
    /// What else its transaction holds and does.
    pub(super) besides: Besides,
}

/// One wait.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) partition: PartitionId,
    /// Hash of the row's key.
    pub(super) hash: u64,
    /// What it waits for: the lock of the row, or of a guard that the row is in.
    pub(super) lock: LockKey,
    pub(super) what: Waiting,
    pub(super) place: Place,
    /// How often its coordinator has been told.
    reports: u32,
    since: Instant,
    pub(super) terms: Terms,
    /// When it is looked at next.
    due: Instant,
}

impl Wait {
    /// A wait that starts now.
    pub(super) fn new(
        ctx: &Ctx<'_>,
        partition: PartitionId,
        hash: u64,
        what: Waiting,
        place: Place,
        terms: Terms,
    ) -> Self {
        let (since, due) = (ctx.now(), terms.deadline);
        let (lock, reports) = (LockKey(hash), 0);
        let mut wait = Self { partition, hash, lock, what, place, reports, since, terms, due };
        wait.schedule(ctx.now(), ctx.config().deadlock_check_after);
        wait
    }

    /// For another lock than the row's.
    pub(super) fn for_lock(self, lock: LockKey) -> Self {
        Self { lock, ..self }
    }

    /// `interval` is that of the first report.
    fn schedule(&mut self, now: Instant, interval: Duration) {
        let interval = interval.times(1 << self.reports.min(REPORT_DOUBLINGS_MAX));
        // Who is behind an earlier operation waits for nobody else, and who waits for a commit not
        // for somebody who waits: only the time-out matters.
        let deadline = self.terms.deadline;
        self.due = match self.place {
            Place::Queue => deadline.min(now + interval),
            Place::Behind | Place::Doubt(_) => deadline,
        };
    }
}

/// All waits of a participant, by leg and ticket.
#[derive(Debug, Default)]
pub(super) struct Waits {
    records: BTreeMap<(LegHandle, u64), Wait>,
    due: BTreeSet<(Instant, LegHandle, u64)>,
    armed: Option<Instant>,
}

impl Waits {
    /// Files a wait under its ticket, which no other wait of the leg has.
    pub(super) fn insert(&mut self, handle: LegHandle, ticket: u64, wait: Wait) {
        self.due.insert((wait.due, handle, ticket));
        let earlier = self.records.insert((handle, ticket), wait);
        assert!(earlier.is_none(), "ticket {ticket} waits twice");
    }

    /// Whether a wait of the leg has this ticket.
    pub(super) fn has(&self, handle: LegHandle, ticket: u64) -> bool {
        self.records.contains_key(&(handle, ticket))
    }

    /// Takes a wait out.
    pub(super) fn remove(&mut self, handle: LegHandle, ticket: u64) -> Option<Wait> {
        let wait = self.records.remove(&(handle, ticket))?;
        self.due.remove(&(wait.due, handle, ticket));
        Some(wait)
    }

    /// Takes a wait out that is parked under this number.
    pub(super) fn remove_parked(
        &mut self,
        handle: LegHandle,
        ticket: u64,
        number: ParkNumber,
    ) -> Option<Wait> {
        let wait = self.records.get(&(handle, ticket))?;
        if wait.place != Place::Doubt(number) {
            return None;
        }
        self.remove(handle, ticket)
    }

    /// The waits of a leg with their tickets, ascending.
    pub(super) fn of(&self, handle: LegHandle) -> impl Iterator<Item = (u64, &Wait)> {
        let range = (handle, 0)..=(handle, u64::MAX);
        self.records.range(range).map(|((_, ticket), wait)| (*ticket, wait))
    }

    /// All waits.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LegHandle, u64, &Wait)> {
        self.records.iter().map(|((handle, ticket), wait)| (*handle, *ticket, wait))
    }

    /// The first ticket of a leg's waits.
    fn first_of(&self, handle: LegHandle) -> Option<u64> {
        self.of(handle).map(|(ticket, _)| ticket).next()
    }

    /// Takes all waits of a leg out.
    pub(super) fn remove_all(&mut self, handle: LegHandle) -> Vec<(u64, Wait)> {
        let mut waits = Vec::new();
        while let Some(ticket) = self.first_of(handle) {
            waits.push((ticket, self.remove(handle, ticket).expect("found above")));
        }
        waits
    }

    /// Whether an operation of the leg waits for the row.
    pub(super) fn on_row(&self, handle: LegHandle, partition: PartitionId, hash: u64) -> bool {
        self.of(handle).any(|(_, wait)| {
            wait.partition == partition
                && wait.hash == hash
                && matches!(wait.what, Waiting::Operation(_))
        })
    }

    /// The first operation of the leg on the row, if it is behind another one: all before it have
    /// ended.
    pub(super) fn follower(
        &self,
        handle: LegHandle,
        partition: PartitionId,
        hash: u64,
    ) -> Option<u64> {
        let (ticket, first) = self.of(handle).find(|(_, wait)| {
            wait.partition == partition
                && wait.hash == hash
                && matches!(wait.what, Waiting::Operation(_))
        })?;
        (first.place == Place::Behind).then_some(ticket)
    }

    /// Drops all records.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Sets the timer for the earliest wait that is due.
    pub(super) fn arm(&mut self, ctx: &mut Ctx<'_>) {
        let earliest = self.due.first().map(|(at, _, _)| *at);
        if earliest == self.armed {
            return;
        }
        match earliest {
            Some(at) => ctx.set_timer(Timer::ParticipantTick, at.since(ctx.now())),
            None => ctx.stop_timer(Timer::ParticipantTick),
        }
        self.armed = earliest;
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        assert_eq!(self.records.len(), self.due.len(), "waits and their due times");
        for ((handle, ticket), wait) in &self.records {
            assert!(self.due.contains(&(wait.due, *handle, *ticket)), "wait without due time");
        }
    }
}

impl Participant {
    /// Reports waits that last, ends those that have lasted too long.
    pub(super) fn waits_due(&mut self, ctx: &mut Ctx<'_>) {
        self.waits.armed = None;
        while let Some((at, handle, ticket)) = self.waits.due.first().copied() {
            if at > ctx.now() {
                return;
            }
            let wait = &self.waits.records[&(handle, ticket)];
            if wait.terms.deadline <= ctx.now() {
                self.wait_timed_out(ctx, handle, ticket);
            } else {
                self.report_wait(ctx, handle, ticket);
            }
        }
    }

    fn report_wait(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, ticket: u64) {
        let mut wait = self.waits.remove(handle, ticket).expect("a wait that is due");
        let leg = self.legs.leg(handle);
        probe!(ctx, "participant: lock wait reported");
        wait.reports += 1;
        let report = CoordinatorMessage::Waiting { transaction: leg.transaction, wait: ticket };
        ctx.send(leg.coordinator.address, Message::Coordinator(report));
        wait.schedule(ctx.now(), ctx.config().deadlock_check_after);
        self.waits.insert(handle, ticket, wait);
    }

    fn wait_timed_out(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, ticket: u64) {
        probe!(ctx, "participant: lock wait timed out");
        ctx.count(Tally::LockTimeout);
        let wait = &self.waits.records[&(handle, ticket)];
        let (partition, lock) = (wait.partition, wait.lock);
        let detail = if self.replicas.contains_key(&partition) {
            self.holder_name(partition, lock)
        } else {
            String::new()
        };
        let refusal = Refusal::new(ErrorCode::LockTimeout, detail);
        self.refuse_wait(ctx, handle, ticket, refusal);
    }

    /// Ends a wait without a lock: its operation or scan is refused.
    pub(super) fn refuse_wait(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        ticket: u64,
        refusal: Refusal,
    ) {
        let Some(wait) = self.waits.remove(handle, ticket) else { return };
        self.leave_queue(handle, ticket, &wait);
        self.wait_over(ctx, handle, ticket, &wait);
        match wait.what {
            Waiting::Operation(operation) => {
                self.answers(handle).refuse(operation.number, refusal);
                self.run_followers(ctx, handle, wait.partition, wait.hash);
            }
            Waiting::Scan(scan) => self.fail_scan(ctx, (scan, wait.partition), refusal),
        }
    }

    /// Ends a wait nobody is to be answered about.
    pub(super) fn end_wait(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, ticket: u64) {
        if let Some(wait) = self.waits.remove(handle, ticket) {
            self.leave_queue(handle, ticket, &wait);
            self.wait_over(ctx, handle, ticket, &wait);
        }
    }

    /// Takes a wait out of its lock's queue.
    pub(super) fn leave_queue(&mut self, handle: LegHandle, ticket: u64, wait: &Wait) {
        if wait.place != Place::Queue {
            return;
        }
        if let Some(replica) = self.replicas.get_mut(&wait.partition) {
            let mut grants = Vec::new();
            replica.locks.cancel(LockOwner(handle.0), ticket, &mut grants);
            self.note_grants(wait.partition, grants);
        }
    }

    /// Tells the coordinator that a reported wait is over.
    fn wait_over(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, ticket: u64, wait: &Wait) {
        if wait.reports > 0 {
            let leg = self.legs.leg(handle);
            let over = CoordinatorMessage::WaitOver { transaction: leg.transaction, wait: ticket };
            ctx.send(leg.coordinator.address, Message::Coordinator(over));
        }
    }

    /// Queues what a release has granted; it is taken up at the end of the turn.
    pub(super) fn note_grants(&mut self, partition: PartitionId, grants: Vec<Grant>) {
        self.grants.extend(grants.into_iter().map(|grant| (partition, grant)));
    }

    /// Goes on with a wait whose lock was granted.
    pub(super) fn granted(&mut self, ctx: &mut Ctx<'_>, partition: PartitionId, grant: Grant) {
        let handle = LegHandle(grant.owner.0);
        // The leg may have ended, or the wait, between the grant and now.
        let Some(wait) = self.waits.remove(handle, grant.ticket) else { return };
        assert_eq!(wait.partition, partition, "a grant comes from the partition waited in");
        self.wait_over(ctx, handle, grant.ticket, &wait);
        self.holds_while_waiting(handle, &wait);
        let waited = ctx.now().since(wait.since);
        ctx.shared().tallies.lock_waits.record(waited);
        self.go_on(ctx, handle, wait, Run::Granted);
    }

    /// Goes on with an operation or a scan whose wait is over.
    pub(super) fn go_on(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, wait: Wait, run: Run) {
        match wait.what {
            Waiting::Operation(operation) => {
                self.resume_operation(ctx, handle, *operation, wait.terms, run);
                self.run_followers(ctx, handle, wait.partition, wait.hash);
            }
            Waiting::Scan(scan) => self.resume_scan(ctx, (scan, wait.partition)),
        }
    }
}
