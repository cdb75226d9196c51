//! Commit, complete, abort, and what a takeover or a lost answer asks about them.
//!
//! All of it is idempotent: a leg that is not known any more is answered as done, or passed on.

use actor::{Ctx, Mutation, fault_point, probe};
use model::{Address, Epoch, ErrorCode, Incarnation, NodeId, Refusal, TransactionId};
use stdx::Few;
use store::lock_table::LockOwner;
use wire::{
    Chain, CoordinatorMessage, KnownOutcome, LegId, Message, ParticipantMessage, ReportedLeg,
    ReportedTransaction,
};

use super::Participant;
use super::disk::Disk;
use super::ending::{After, Stores};
use super::leg::{Leg, LegHandle, Place, Status, TouchedRow, TouchedRows};
use super::memory::Memory;
use super::replica::Replica;
use super::streams::Streams;

/// A commit on its way up a chain.
#[derive(Debug)]
pub(super) struct CommitOrder {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    pub(super) epoch: Epoch,
    /// Who is still to be told, next one last.
    pub(super) up: Chain,
    pub(super) keep: bool,
    pub(super) coordinator: Address,
    pub(super) attempt: u32,
}

/// An abort on its way down a chain.
pub(super) struct AbortOrder {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    /// Who is still to be told, next one first.
    pub(super) down: Chain,
    pub(super) coordinator: Address,
    pub(super) attempt: u32,
}

impl Participant {
    /// The transaction commits: a backup notes it and passes it on, the primary applies.
    pub(super) fn commit(&mut self, ctx: &mut Ctx<'_>, mut order: CommitOrder) {
        self.record_outcome(ctx, order.transaction, order.epoch);
        let handle = self.legs.find(order.transaction, order.leg);
        if handle.is_none() {
            probe!(ctx, "participant: commit of an unknown leg");
        }
        let Some(next) = order.up.pop() else {
            return match handle {
                Some(handle) => self.commit_here(ctx, handle, order),
                None => self.after(ctx, After::Committed(order, Few::new())),
            };
        };
        if let Some(handle) = handle {
            self.note_commit(ctx, handle, order.epoch);
        }
        fault_point!(ctx, "participant: commit noted, before it passes it on");
        let CommitOrder { transaction, leg, epoch, up, keep, coordinator, attempt } = order;
        let commit =
            ParticipantMessage::Commit { transaction, leg, epoch, up, keep, coordinator, attempt };
        ctx.send(next, Message::Participant(commit));
    }

    /// Keeps that a transaction has committed, for a client that loses the answer.
    pub(super) fn record_outcome(
        &mut self,
        ctx: &mut Ctx<'_>,
        transaction: TransactionId,
        epoch: Epoch,
    ) {
        let limit = ctx.config().outcomes_max;
        if self.outcomes.record(transaction, epoch, limit) {
            probe!(ctx, "participant: outcome forgotten for want of room");
        }
    }

    /// Applies a leg at its primary.
    fn commit_here(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, order: CommitOrder) {
        let epoch = order.epoch;
        match self.legs.leg(handle).status {
            Status::Applied(applied) => {
                probe!(ctx, "participant: commit of an applied leg");
                assert_eq!(applied, epoch, "one commit epoch");
            }
            Status::Committed(noted) => {
                probe!(ctx, "participant: promoted backup applies what it had noted");
                assert_eq!(noted, epoch, "one commit epoch");
            }
            Status::Open => {}
        }
        let keep = order.keep;
        self.apply_and_then(ctx, handle, epoch, keep, After::Committed(order, Few::new()));
    }

    /// Notes the decision at a backup.
    fn note_commit(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, epoch: Epoch) {
        match self.legs.leg(handle).status {
            Status::Open => {
                self.legs.leg_mut(handle).become_status(Status::Committed(epoch));
                self.doubts.begin(handle);
                if ctx.mutated(Mutation::BackupAppliesAtCommit) {
                    self.apply(ctx, handle, epoch);
                }
            }
            Status::Committed(noted) | Status::Applied(noted) => {
                probe!(ctx, "participant: backup hears of a commit again");
                assert_eq!(noted, epoch, "one commit epoch");
            }
        }
    }

    /// All primaries have applied: applies here too, and forgets the leg.
    pub(super) fn complete(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (TransactionId, LegId),
        attempt: u32,
    ) {
        let after = After::Completed(from, name, attempt);
        match self.legs.find(name.0, name.1) {
            Some(handle) => match self.legs.leg(handle).status {
                Status::Committed(epoch) | Status::Applied(epoch) => {
                    self.apply_and_then(ctx, handle, epoch, false, after);
                }
                Status::Open => panic!("{}: completed, but never told to commit", name.0),
            },
            None => {
                probe!(ctx, "participant: complete of an unknown leg");
                self.after(ctx, after);
            }
        }
    }

    /// Makes the leg's changes visible and gives up its locks; the record stays.
    pub(super) fn apply(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, epoch: Epoch) {
        self.end_waits(handle, None);
        let retained = self.retained_now(ctx);
        let mut rows = self.legs.change(handle, Leg::take_rows);
        let leg = self.legs.leg_mut(handle);
        let commit = Commit { transaction: leg.transaction, epoch };
        leg.answers.forget();
        leg.become_status(Status::Applied(epoch));
        self.doubts.end(handle);
        let Self { replicas, disk, memory, streams, versioned, .. } = self;
        for row in rows.iter_mut().filter(|row| row.is_staged()) {
            if !retained.is_empty() {
                versioned.insert(row.place.partition);
            }
            apply_row(Stores { replicas, disk, memory, streams }, row, commit, &retained);
        }
        self.release_claims(rows);
        self.release_locks(handle);
        if !retained.is_empty() {
            self.versions_grew(ctx);
        }
    }

    /// Takes everything of an undecided leg back and forgets it.
    pub(super) fn undo(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle) {
        let status = self.legs.leg(handle).status;
        assert_eq!(status, Status::Open, "{}: aborted", self.legs.leg(handle).transaction);
        self.end_roll_back(handle);
        self.end_waits(handle, Some((ctx, ErrorCode::ScanAborted.into())));
        self.doubts.end(handle);
        let rows = self.legs.change(handle, Leg::take_rows);
        self.release_claims(rows);
        self.release_locks(handle);
        self.legs.remove(handle);
    }

    /// Lets go of slots; those reserved and still empty become free.
    pub(super) fn release_claims(&mut self, rows: TouchedRows) {
        for row in rows.iter().filter(|row| !row.is_given()) {
            let Place { partition, row_id } = row.place;
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            replica.claims.remove(row_id);
            if row.reserved {
                replica.partition.release(row_id);
            }
        }
        self.legs.reuse(rows);
    }

    pub(super) fn release_locks(&mut self, handle: LegHandle) {
        for partition in self.legs.leg_mut(handle).take_locked() {
            self.release_guards(handle, partition);
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let mut grants = Vec::new();
            replica.locks.release_all(LockOwner(handle.0), &mut grants);
            self.note_grants(partition, grants);
        }
    }

    /// Ends the waits and the locking scans of a leg that ends. With a refusal the scans' clients
    /// are told; its operations need no answer, as the coordinator has ended the transaction.
    pub(super) fn end_waits(&mut self, handle: LegHandle, tell: Option<(&mut Ctx<'_>, Refusal)>) {
        for (ticket, wait) in self.waits.remove_all(handle) {
            self.leave_queue(handle, ticket, &wait);
        }
        if !self.legs.leg(handle).scanned {
            return;
        }
        let scans = self.scans.of_leg(handle);
        match tell {
            Some((ctx, refusal)) => {
                for scan in scans {
                    self.fail_scan(ctx, scan, refusal.clone());
                }
            }
            None => scans.into_iter().for_each(|scan| self.scans.forget(scan)),
        }
    }

    /// Undoes a leg and passes the order on.
    pub(super) fn abort(&mut self, ctx: &mut Ctx<'_>, mut order: AbortOrder) {
        let AbortOrder { transaction, leg, coordinator, attempt, .. } = order;
        // Passed on first: whoever gets the row next sends its changes down the same link later.
        if let Some(next) = order.down.pop_first() {
            let down = order.down;
            let abort = ParticipantMessage::Abort { transaction, leg, down, coordinator, attempt };
            ctx.send(next, Message::Participant(abort));
            fault_point!(ctx, "participant: abort passed on, before it undoes");
        }
        let after = After::Aborted(coordinator, (transaction, leg), attempt);
        match self.legs.find(transaction, leg) {
            Some(handle) => self.undo_and_then(ctx, handle, after),
            None => {
                probe!(ctx, "participant: abort of an unknown leg");
                self.after(ctx, after);
            }
        }
    }

    /// Tells a new coordinator what is open here of a dead one.
    pub(super) fn takeover_query(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        node: NodeId,
        incarnation: Incarnation,
        attempt: u32,
    ) {
        assert!(
            ctx.cluster().member(node, incarnation).is_none(),
            "{node}{incarnation} is taken over while it lives"
        );
        let mut transactions: Vec<ReportedTransaction> = Vec::new();
        for handle in self.legs.of_life(node, incarnation) {
            let leg = self.legs.leg(handle);
            let report = ReportedLeg { leg: leg.leg, chain: leg.chain, status: leg.reported() };
            match transactions.last_mut() {
                Some(last) if last.transaction == leg.transaction => last.legs.push(report),
                _ => transactions
                    .push(ReportedTransaction { transaction: leg.transaction, legs: vec![report] }),
            }
        }
        if !transactions.is_empty() {
            probe!(ctx, "participant: reports legs of a dead coordinator");
        }
        let report =
            CoordinatorMessage::TakeoverReport { node, incarnation, attempt, transactions };
        ctx.send(from, Message::Coordinator(report));
    }

    /// Tells what is known here of a transaction's end.
    pub(super) fn outcome_probe(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        transaction: TransactionId,
        probe: u64,
    ) {
        let mut outcome = self.outcomes.of(transaction);
        if !matches!(outcome, KnownOutcome::Committed(_)) {
            for leg in self.legs.of(transaction) {
                outcome = match leg.status {
                    Status::Open => KnownOutcome::Open,
                    Status::Committed(epoch) | Status::Applied(epoch) => {
                        KnownOutcome::Committed(epoch)
                    }
                };
            }
        }
        let report = CoordinatorMessage::OutcomeReport { transaction, probe, outcome };
        ctx.send(from, Message::Coordinator(report));
    }
}

/// The end of a transaction that changes rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    pub(super) transaction: TransactionId,
    pub(super) epoch: Epoch,
}

/// Makes what a leg has staged in a row its newest version.
pub(super) fn apply_row(
    Stores { replicas, disk, memory, streams }: Stores<'_>,
    row: &mut TouchedRow,
    commit: Commit,
    retained: &[Epoch],
) {
    if let Some(replica) = replicas.get_mut(&row.place.partition) {
        apply_to(replica, disk, memory, streams, row, commit, retained);
    }
}

/// As [`apply_row`], to the row's replica.
pub(super) fn apply_to(
    replica: &mut Replica,
    disk: &mut Option<Box<Disk>>,
    memory: &mut Memory,
    streams: &mut Streams,
    row: &mut TouchedRow,
    commit: Commit,
    retained: &[Epoch],
) {
    let epoch = commit.epoch;
    let Place { partition, row_id } = row.place;
    let before = replica.partition.slot_epoch(row_id);
    assert!(before <= epoch, "{partition} {row_id}: {epoch} after {before}");
    replica.note_change(row_id);
    if replica.streamed.is_some() && !(row.fresh && row.newest().is_none()) {
        streams.note(replica, row_id, row.newest(), commit);
    }
    match row.newest() {
        Some(image) => {
            replica.partition.put(row_id, &image.0, epoch, retained);
            if let Some(disk) = disk {
                disk.changed(&mut replica.stored, row.place, epoch, Some(&image.0));
            }
            memory.applied(image.0.len());
            row.reserved = false;
        }
        // The transaction inserted and deleted it: the slot stays as it was.
        None if row.fresh => {}
        None => {
            replica.partition.delete(row_id, epoch, retained);
            if let Some(disk) = disk {
                disk.changed(&mut replica.stored, row.place, epoch, None);
            }
            row.reserved = false;
        }
    }
}
