//! The end of a leg with many or large changes: it is applied, or given back, in steps.
//!
//! A step takes about as long as any other turn of the worker, so that others are not kept waiting
//! by the size of a transaction. Small legs end in the turn that ends them.
//!
//! # Guarantees
//! 1. Rows become visible one after the other; all claims and locks stay until the last row is
//!    applied. So whoever gets a row of a primary next finds all of the leg applied there, as if it
//!    had been one turn.
//! 2. Nobody is told that the leg has ended before it has, and all are told who asked meanwhile.
//! 3. A decided leg that is not applied yet is `Committed`: a takeover commits it.
//!    Who reads one of its rows has that applied before its turn, and does not wait for the others.
//! 4. At a backup a row may go to a later leg before the others have ended, as the primary has
//!    ended all of the leg. Until the last one is applied the leg stays in doubt (`doubt`), so
//!    nobody is answered with the others as they were before.
//! # Not here
//! Why a leg ends (`finish`, `one_phase`).

use std::collections::{BTreeMap, VecDeque};

use actor::{Ctx, Mutation, fault_point, probe};
use model::{ActorKind, Address, Epoch, ErrorCode, PartitionId, TransactionId};
use stdx::Few;
use store::lock_table::{LockKey, LockOwner};
use wire::{Continue, CoordinatorMessage, LegId, Message, PreparedOperation};

use super::Participant;
use super::disk::Disk;
use super::finish::{Commit, CommitOrder, apply_row, apply_to};
use super::leg::{Leg, LegHandle, Place, Status, TouchedRow};
use super::memory::Memory;
use super::replica::Replica;
use super::rollback::RollBack;
use super::streams::Streams;

/// What is done when a leg has ended here.
#[derive(Debug)]
pub(super) enum After {
    /// The primary tells the coordinator.
    Committed(CommitOrder, Few<PreparedOperation>),
    /// A replica of a commit in one phase passes it on.
    Staged(CommitOrder, Few<PreparedOperation>),
    /// A replica tells the coordinator.
    Completed(Address, (TransactionId, LegId), u32),
    /// A replica tells the coordinator.
    Aborted(Address, (TransactionId, LegId), u32),
}

/// A leg that ends in steps.
#[derive(Debug)]
pub(super) struct Ending {
    /// The epoch in which its changes are applied; none if they are undone.
    epoch: Option<Epoch>,
    /// Rows before this one are applied.
    next: usize,
    /// The record stays after it: other legs, or replicas, are not through.
    keep: bool,
    after: Vec<After>,
}

impl Ending {
    /// Looks at all rows again.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }
}

impl Leg {
    /// Whether it is being applied in steps, and has rows left.
    fn is_being_applied(&self) -> bool {
        let commits = self.ending.as_ref().is_some_and(|ending| ending.epoch.is_some());
        commits && !matches!(self.status, Status::Applied(_))
    }
}

/// The legs of a participant that end in steps.
#[derive(Debug, Default)]
pub(super) struct Endings {
    legs: VecDeque<LegHandle>,
    /// The next step is on its way.
    continuing: bool,
    /// The next step waits until the disk has caught up.
    held: bool,
}

impl Endings {
    /// Forgets all. A note that is on its way is lost with the messages of the life that ends.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Participant {
    /// Applies a leg, if that has not been done, and does what comes after it. The record goes
    /// unless it is to be kept.
    #[inline]
    pub(super) fn apply_and_then(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        epoch: Epoch,
        keep: bool,
        after: After,
    ) {
        let leg = self.legs.leg_mut(handle);
        if let Some(ending) = &mut leg.ending {
            probe!(ctx, "participant: commit of a leg that is being applied");
            assert_eq!(ending.epoch, Some(epoch), "one commit epoch");
            ending.keep &= keep;
            ending.after.push(after);
            return;
        }
        let large = leg.weight() > u64::from(ctx.config().apply_step_bytes);
        assert!(leg.rolls_back.is_none(), "{}: commits while it is rolled back", leg.transaction);
        if large && !matches!(leg.status, Status::Applied(_)) {
            self.prepare_ending(ctx, handle, Some(epoch));
            if ctx.mutated(Mutation::LargeCommitsUnlockEarly) {
                self.release_locks(handle);
            }
            return self.begin_ending(ctx, handle, Some(epoch), keep, after);
        }
        if !matches!(leg.status, Status::Applied(_)) {
            self.apply(ctx, handle, epoch);
        }
        if !keep {
            self.legs.remove(handle);
        }
        self.after(ctx, after);
    }

    /// Takes everything of an undecided leg back, forgets it, and does what comes after that.
    pub(super) fn undo_and_then(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, after: After) {
        let leg = self.legs.leg_mut(handle);
        assert_eq!(leg.status, Status::Open, "{}: aborted", leg.transaction);
        if let Some(ending) = &mut leg.ending {
            ending.after.push(after);
            return;
        }
        if leg.weight() > u64::from(ctx.config().apply_step_bytes) {
            self.prepare_ending(ctx, handle, None);
            return self.begin_ending(ctx, handle, None, false, after);
        }
        self.undo(ctx, handle);
        self.after(ctx, after);
    }

    /// Whether a leg is too large to end in one turn, or is on its way to end in several.
    pub(super) fn ends_in_steps(&self, ctx: &Ctx<'_>, handle: LegHandle) -> bool {
        let leg = self.legs.leg(handle);
        leg.ending.is_some() || leg.weight() > u64::from(ctx.config().apply_step_bytes)
    }

    /// What a leg needs to end in steps: its waits are over, and whether it is in doubt is what
    /// becomes of it.
    fn prepare_ending(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, epoch: Option<Epoch>) {
        let leg = self.legs.leg_mut(handle);
        match epoch {
            Some(epoch) => {
                probe!(ctx, "participant: large leg is applied in steps");
                if leg.status == Status::Open {
                    leg.become_status(Status::Committed(epoch));
                }
                leg.answers.forget();
                // Some of its rows are shown before others.
                self.doubts.begin(handle);
                self.end_waits(handle, None);
            }
            None => {
                probe!(ctx, "participant: large leg is given back in steps");
                self.end_roll_back(handle);
                let leg = self.legs.leg_mut(handle);
                // Nobody may commit what is left of it.
                leg.commits_in = None;
                self.doubts.end(handle);
                self.end_waits(handle, Some((ctx, ErrorCode::ScanAborted.into())));
            }
        }
    }

    fn file_ending(
        &mut self,
        handle: LegHandle,
        epoch: Option<Epoch>,
        keep: bool,
        after: Vec<After>,
    ) {
        let ending = Ending { epoch, next: 0, keep, after };
        self.legs.leg_mut(handle).ending = Some(Box::new(ending));
        self.endings.legs.push_back(handle);
    }

    /// Takes a leg that has operations left to undo among those that go on in steps.
    pub(super) fn file_roll_back(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, rest: RollBack) {
        self.legs.leg_mut(handle).rolls_back = Some(Box::new(rest));
        self.endings.legs.push_back(handle);
        self.keep_ending(ctx);
    }

    /// A leg that is being rolled back ends as a whole: nobody waits for the rollback any more.
    pub(super) fn end_roll_back(&mut self, handle: LegHandle) {
        if self.legs.leg_mut(handle).rolls_back.take().is_some() {
            self.endings.legs.retain(|other| *other != handle);
        }
    }

    fn begin_ending(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        epoch: Option<Epoch>,
        keep: bool,
        after: After,
    ) {
        self.file_ending(handle, epoch, keep, vec![after]);
        if !self.endings.continuing {
            self.continue_endings(ctx);
        }
    }

    /// Has the next step done soon.
    fn keep_ending(&mut self, ctx: &mut Ctx<'_>) {
        if !self.endings.continuing && !self.endings.legs.is_empty() {
            let applies = |handle: &LegHandle| self.legs.leg(*handle).is_being_applied();
            if self.log_is_behind(ctx) && self.endings.legs.iter().all(applies) {
                probe!(ctx, "participant: large leg waits for the disk");
                self.endings.held = true;
                return;
            }
            self.endings.held = false;
            self.endings.continuing = true;
            let me = Address { actor: ActorKind::Participant, ..ctx.me() };
            ctx.send(me, Message::Continue(Continue::Applies));
        }
    }

    /// The disk has caught up: large legs go on.
    pub(super) fn release_endings(&mut self, ctx: &mut Ctx<'_>) {
        if self.endings.held {
            self.keep_ending(ctx);
        }
    }

    /// Lets a later leg have a row of one that ends in steps, before all of that has ended.
    pub(super) fn give_way(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        Place { partition, row_id }: Place,
        hash: u64,
    ) {
        probe!(ctx, "participant: row of a large leg ends early to make way");
        let leg = self.legs.leg(handle);
        if leg.ending.is_none() {
            let epoch = match leg.status {
                Status::Committed(epoch) => Some(epoch),
                Status::Open => None,
                Status::Applied(_) => panic!("{partition} {row_id}: an applied leg holds it"),
            };
            self.prepare_ending(ctx, handle, epoch);
            self.file_ending(handle, epoch, epoch.is_some(), Vec::new());
            self.keep_ending(ctx);
        }
        // The slot may have had another key.
        let row = self
            .legs
            .leg(handle)
            .rows
            .at(Place { partition, row_id })
            .filter(|row| !row.is_given());
        let other = row.map(|row| row.hash).filter(|other| *other != hash);
        for hash in other.into_iter().chain([hash]) {
            self.give(ctx, handle, partition, hash);
        }
    }

    /// Ends the rows of a leg that share a lock, and releases that and their slots.
    fn give(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, partition: PartitionId, hash: u64) {
        let leg = self.legs.leg(handle);
        let applies = !matches!(leg.status, Status::Applied(_))
            && !ctx.mutated(Mutation::LargeCommitsGiveWayUnapplied);
        let epoch = leg.ending.as_ref().and_then(|ending| ending.epoch).filter(|_| applies);
        let retained = self.retained_now(ctx);
        let Self { replicas, disk, memory, streams, legs, versioned, .. } = self;
        legs.change(handle, |leg| {
            let transaction = leg.transaction;
            leg.give(partition, hash, |row| {
                if let Some(epoch) = epoch.filter(|_| row.is_staged()) {
                    if !retained.is_empty() {
                        versioned.insert(partition);
                    }
                    apply_row(
                        Stores { replicas, disk, memory, streams },
                        row,
                        Commit { transaction, epoch },
                        &retained,
                    );
                }
                let Some(replica) = replicas.get_mut(&partition) else { return };
                replica.claims.remove(row.place.row_id);
                if row.reserved {
                    replica.partition.release(row.place.row_id);
                    row.reserved = false;
                }
            });
        });
        let Some(replica) = self.replicas.get_mut(&partition) else { return };
        let mut grants = Vec::new();
        replica.locks.release(LockKey(hash), LockOwner(handle.0), &mut grants);
        self.note_grants(partition, grants);
        if !retained.is_empty() {
            self.versions_grew(ctx);
        }
    }

    /// One step of the leg whose turn it is.
    pub(super) fn continue_endings(&mut self, ctx: &mut Ctx<'_>) {
        self.endings.continuing = false;
        // What is given back is not written to the log.
        let needs_no_log = |handle: &LegHandle| !self.legs.leg(*handle).is_being_applied();
        let at = if self.log_is_behind(ctx) {
            self.endings.legs.iter().position(needs_no_log).unwrap_or(0)
        } else {
            0
        };
        let Some(handle) = self.endings.legs.remove(at) else { return };
        let budget = ctx.step_units(Continue::Applies, ctx.config().apply_step_bytes).into();
        if let Some(rest) = self.legs.leg_mut(handle).rolls_back.take() {
            self.roll_back_some(ctx, handle, *rest, budget);
        } else if self.end_some(ctx, handle, budget) {
            self.end_of_ending(ctx, handle);
        } else {
            self.endings.legs.push_back(handle);
        }
        self.keep_ending(ctx);
    }

    /// What holds between messages.
    pub(super) fn check_endings(&self) {
        let goes_on = |leg: &Leg| usize::from(leg.ending.is_some() || leg.rolls_back.is_some());
        let all: usize = self.legs.unordered().map(|(_, leg)| goes_on(leg)).sum();
        assert_eq!(self.endings.legs.len(), all, "legs that go on in steps");
        for handle in &self.endings.legs {
            let leg = self.legs.get(*handle).expect("a leg that goes on in steps is there");
            assert_eq!(goes_on(leg), 1, "{}: goes on in steps", leg.transaction);
            assert!(leg.rolls_back.is_none() || leg.status == Status::Open, "it is undecided");
        }
        let goes_on = self.endings.continuing || self.endings.held;
        assert!(goes_on || self.endings.legs.is_empty(), "they do go on");
    }

    /// Applies rows, or gives them back, for about so many bytes; whether that was the last.
    fn end_some(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, budget: u64) -> bool {
        let leg = self.legs.leg(handle);
        let Some(ending) = &leg.ending else { return true };
        let (next, rows) = (ending.next, leg.rows.len());
        match ending.epoch.filter(|_| !matches!(leg.status, Status::Applied(_))) {
            Some(epoch) => {
                let next = self.apply_some(ctx, handle, epoch, next, budget);
                let leg = self.legs.leg_mut(handle);
                if let Some(ending) = &mut leg.ending {
                    ending.next = next;
                }
                if next >= rows {
                    leg.become_status(Status::Applied(epoch));
                    self.doubts.end(handle);
                }
                fault_point!(ctx, "participant: between two steps of a large commit");
                false
            }
            None => self.give_back_some(ctx, handle, budget),
        }
    }

    /// Applies a row of a leg that is being applied before its turn, for somebody who reads it;
    /// false if the leg is not being applied here. Any of its rows may be next: others have noted
    /// the decision, and will show it.
    pub(super) fn show_early(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        partition: PartitionId,
        hash: u64,
    ) -> bool {
        let leg = self.legs.leg(handle);
        let epoch = leg.ending.as_ref().and_then(|ending| ending.epoch);
        let Some(epoch) = epoch.filter(|_| leg.is_being_applied()) else { return false };
        probe!(ctx, "participant: row of a large leg is applied early for a reader");
        let retained = self.retained_now(ctx);
        let Self { replicas, disk, memory, streams, legs, versioned, .. } = self;
        if !retained.is_empty() {
            versioned.insert(partition);
        }
        legs.change(handle, |leg| {
            let commit = Commit { transaction: leg.transaction, epoch };
            leg.show(partition, hash, |row| {
                apply_held(Stores { replicas, disk, memory, streams }, row, commit, &retained);
            });
        });
        if !retained.is_empty() {
            self.versions_grew(ctx);
        }
        true
    }

    /// Makes some changes of a leg visible; the first row that is left.
    fn apply_some(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        epoch: Epoch,
        from: usize,
        budget: u64,
    ) -> usize {
        let retained = self.retained_now(ctx);
        let Self { replicas, disk, memory, streams, legs, versioned, .. } = self;
        let next = legs.change(handle, |leg| {
            let commit = Commit { transaction: leg.transaction, epoch };
            leg.apply_some(from, budget, |row| {
                if !retained.is_empty() {
                    versioned.insert(row.place.partition);
                }
                apply_held(Stores { replicas, disk, memory, streams }, row, commit, &retained);
            })
        });
        if !retained.is_empty() {
            self.versions_grew(ctx);
        }
        next
    }

    /// Lets go of some rows with their slots and locks, and then of other locks; whether nothing
    /// is left.
    fn give_back_some(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, budget: u64) -> bool {
        let most = budget.div_ceil(self.legs.leg(handle).row_weight());
        let is_over = self.give_back_rows(handle, most);
        fault_point!(ctx, "participant: between two steps of giving rows back");
        is_over
    }

    fn give_back_rows(&mut self, handle: LegHandle, most: u64) -> bool {
        let mut grants = Vec::new();
        for at in 0..most {
            let Some((row, shares)) = self.legs.change(handle, |leg| leg.pop_row()) else {
                return self.release_some_locks(handle, (most - at) as usize);
            };
            let Place { partition, row_id } = row.place;
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            replica.claims.remove(row_id);
            if row.reserved {
                replica.partition.release(row_id);
            }
            if !shares {
                replica.locks.release(LockKey(row.hash), LockOwner(handle.0), &mut grants);
                self.note_grants(partition, std::mem::take(&mut grants));
            }
        }
        false
    }

    /// Releases so many locks of a leg that has no rows any more; whether none is left.
    fn release_some_locks(&mut self, handle: LegHandle, most: usize) -> bool {
        let partitions: Few<PartitionId> = self.legs.leg(handle).locked().collect();
        let mut left = most;
        for partition in partitions {
            self.release_guards(handle, partition);
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let mut grants = Vec::new();
            left -= replica.locks.release_some(LockOwner(handle.0), left, &mut grants);
            self.note_grants(partition, grants);
        }
        left > 0
    }

    /// All rows are applied, or given back, and all locks released: all are told.
    fn end_of_ending(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle) {
        let Some(ending) = self.legs.leg_mut(handle).ending.take() else { return };
        self.doubts.end(handle);
        self.release_locks(handle);
        if !ending.keep {
            self.legs.remove(handle);
        }
        for after in ending.after {
            self.after(ctx, after);
        }
    }

    /// Does what comes after the end of a leg.
    #[inline]
    pub(super) fn after(&mut self, ctx: &mut Ctx<'_>, after: After) {
        let (to, message) = match after {
            After::Committed(order, results) => {
                fault_point!(ctx, "participant: applied, before it answers");
                let CommitOrder { transaction, leg, attempt, coordinator, .. } = order;
                let done = CoordinatorMessage::Committed { transaction, leg, attempt, results };
                (coordinator, done)
            }
            After::Staged(order, results) => return self.pass_staged_on(ctx, order, results),
            After::Completed(to, (transaction, leg), attempt) => {
                fault_point!(ctx, "participant: completed, before it answers");
                (to, CoordinatorMessage::Completed { transaction, leg, attempt })
            }
            After::Aborted(to, (transaction, leg), attempt) => {
                (to, CoordinatorMessage::Aborted { transaction, leg, attempt })
            }
        };
        ctx.send(to, Message::Coordinator(message));
    }
}

/// What a change of a row is applied to and noted in.
pub(super) struct Stores<'a> {
    pub(super) replicas: &'a mut BTreeMap<PartitionId, Box<Replica>>,
    pub(super) disk: &'a mut Option<Box<Disk>>,
    pub(super) memory: &'a mut Memory,
    pub(super) streams: &'a mut Streams,
}

/// Applies a row of a leg that keeps its claims: nobody gets an emptied slot before all of the leg
/// is applied.
fn apply_held(
    Stores { replicas, disk, memory, streams }: Stores<'_>,
    row: &mut TouchedRow,
    commit: Commit,
    retained: &[Epoch],
) {
    let Place { partition, row_id } = row.place;
    let Some(replica) = replicas.get_mut(&partition) else { return };
    apply_to(replica, disk, memory, streams, row, commit, retained);
    if !row.reserved && !replica.occupied(row_id) {
        replica.partition.reserve(row_id);
        row.reserved = true;
    }
}
