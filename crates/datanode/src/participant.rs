//! The partition replicas of one worker: executes operations, replicates them, holds the locks.
//!
//! NDB calls this DBLQH (with DBACC's locks). Protocol walk-through:
//! `docs/internals/transactions.md`.
//!
//! # Owns
//! The replicas with their lock tables; a record per leg of a transaction until it has ended here;
//! scans; replica copies in both directions; the last outcome of each session.
//! # Speaks
//! in:  `ParticipantMessage` (coordinators, other replicas, clients), the participant's side of
//!      `ScanMessage`, `InspectMessage`, `Continue`
//! out: `CoordinatorMessage`, `ParticipantMessage` along chains, `ClientReply::Read`, scan batches,
//!      `ControlMessage::WorkerSynced`
//! # Invariants
//! 1. A staged row is locked exclusively by its leg, on every replica.
//! 2. A slot is claimed by at most one leg.
//! 3. Replicas that have applied the same legs hold the same slots, epochs and rows.
//! 4. A backup applies only what every primary of the transaction has applied, or what a later
//!    change of the same row proves to be applied there.
//! 5. Nobody is answered with an older row than anybody was answered before he asked (`doubt`).
//! # Failure
//! Own death: the other replicas of each chain have every staged change. Death of a coordinator:
//! legs stay until a takeover settles them. Death of a replica: coordinators settle what it
//! touched.
//! # Not here
//! Commit decisions (`coordinator`), row storage (`store`), who holds which slot (`control`).

mod census;
mod copy;
mod deadlock;
mod disk;
mod distrust;
mod doubt;
mod ending;
mod evaluate;
mod figures;
mod finish;
mod guard;
mod inspect;
mod leg;
mod memory;
mod one_phase;
mod outcomes;
mod placement;
mod prepare;
mod read;
mod replica;
mod replicate;
mod rollback;
mod scan;
mod streams;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use actor::{Actor, Ctx, DiskAnswer, DiskError, Figures, Shared, Timer};
use model::{Address, ClusterState, Epoch, MemberStatus, PartitionId, RowId, TransactionId};
use store::Remains;
use store::lock_table::{Grant, LockKey, LockOwner, Mode as LockMode};
use store::partition::Partition;
use wire::{Continue, InspectMessage, Message, ParticipantMessage};

pub use disk::{RestoreProgress, StepProgress};

use census::Census;
use copy::Copies;
use deadlock::Searches;
use disk::Disk;
use doubt::Doubts;
use ending::Endings;
use evaluate::Projectors;
use finish::{AbortOrder, CommitOrder};
use leg::{FOREIGN_OWNERS, LegHandle, Legs, Status};
use memory::Memory;
use one_phase::{Decisions, StagedQuestion};
use outcomes::Outcomes;
use prepare::Preparation;
use replica::Replica;
use replicate::{Changes, Then};
use rollback::RollbackOrder;
use scan::Scans;
use streams::Streams;
use waits::{Place, Wait, Waiting, Waits};

/// The replicas of one worker and all that goes on in them.
#[doc(alias = "DBLQH")]
#[derive(Debug, Default)]
pub struct Participant {
    replicas: BTreeMap<PartitionId, Box<Replica>>,
    legs: Legs,
    endings: Endings,
    waits: Waits,
    doubts: Doubts,
    scans: Scans,
    copies: Copies,
    streams: Streams,
    outcomes: Outcomes,
    decisions: Decisions,
    /// Legs for which something was found out in this turn; it is sent at its end.
    answered: Vec<LegHandle>,
    /// Granted in this turn, taken up at its end.
    grants: Vec<(PartitionId, Grant)>,
    /// Legs that wait since this turn, from which deadlocks are searched at its end.
    searches: Searches,
    memory: Memory,
    census: Census,
    /// For reads by key.
    projectors: Projectors,
    /// Epochs as last seen: current, complete, retained.
    current: Epoch,
    completed: Epoch,
    retained: Vec<Epoch>,
    /// Snapshots below have been given up for want of memory.
    versions_from: Epoch,
    /// The replicas are those of the cluster state before, all of them.
    placed: bool,
    /// Partitions with indexes to be built.
    unbuilt: BTreeSet<PartitionId>,
    /// Partitions that may keep old images.
    versioned: BTreeSet<PartitionId>,
    /// Those of them that may keep images no snapshot needs any more.
    stale_versions: BTreeSet<PartitionId>,
    /// Dropped replicas and indexes whose memory is not given back yet.
    remains: VecDeque<Remains>,
    applies_since_upkeep: u32,
    upkeep_coming: bool,
    /// The redo log and checkpoints, on a node that has a disk.
    disk: Option<Box<Disk>>,
    /// The last request to the disk that an earlier life of this process has made.
    last_token: u64,
}

impl Participant {
    /// A participant without replicas; the cluster state gives it some.
    pub fn new() -> Self {
        Self::default()
    }

    /// The replicas held, in partition order.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.replicas.values().map(|replica| &replica.partition)
    }

    /// The replica of a partition, if it is held.
    pub fn partition(&self, partition: PartitionId) -> Option<&Partition> {
        self.replicas.get(&partition).map(|replica| &replica.partition)
    }

    /// Transactions that have not ended here.
    pub fn open_transactions(&self) -> usize {
        self.legs.transaction_count()
    }

    /// Scans that have neither ended nor been closed.
    pub fn open_scans(&self) -> usize {
        self.scans.len()
    }

    /// Replica copies this worker is sending.
    pub fn open_copies(&self) -> usize {
        self.copies.source_count()
    }

    /// Rows that are locked, in all replicas.
    pub fn locked_rows(&self) -> usize {
        self.replicas.values().map(|replica| replica.locks.len()).sum()
    }

    /// Digest of a replica's slots: equal on replicas with equal contents. `None` when the
    /// partition has no replica here.
    pub fn digest(&self, partition: PartitionId) -> Option<u64> {
        self.replicas.get(&partition).map(|replica| replica.partition.digest())
    }

    /// The epoch in which a change of a slot commits that is staged here with its commit.
    pub fn commits_in(&self, partition: PartitionId, slot: RowId) -> Option<Epoch> {
        let handle = self.replicas.get(&partition)?.claims.get(slot)?;
        self.legs.leg(handle).commits_in
    }

    /// Which transactions wait here, and for which: pairs, some of them twice.
    pub fn waits_for(&self) -> Vec<(TransactionId, TransactionId)> {
        let mut pairs = Vec::new();
        for replica in self.replicas.values() {
            for (_, owner, _, granted) in replica.locks.requests() {
                let Some(waiter) = self.legs.get(LegHandle(owner.0)).filter(|_| !granted) else {
                    continue;
                };
                let blockers = replica.locks.blockers(owner).into_iter();
                let legs = blockers.filter_map(|blocker| self.legs.get(LegHandle(blocker.0)));
                pairs.extend(legs.map(|leg| (waiter.transaction, leg.transaction)));
            }
        }
        pairs
    }

    /// One line per open leg, for traces and system tables.
    pub fn describe(&self) -> Vec<String> {
        let line = |(handle, leg): (LegHandle, &leg::Leg)| {
            format!(
                "{} leg {} {:?} began {} chain {} staged {} waits {} coordinator {}",
                leg.transaction,
                leg.leg.0,
                leg.status,
                leg.began,
                leg.chain,
                leg.rows.iter().filter(|row| row.is_staged()).count(),
                self.waits.of(handle).count(),
                leg.coordinator.address,
            )
        };
        let disk = self.disk.as_ref().and_then(|disk| disk.describe());
        disk.into_iter().chain(self.legs.iter().map(line)).collect()
    }

    fn handle_own(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ParticipantMessage) {
        if self.disk.is_none() {
            return self.handle_now(ctx, from, message);
        }
        if let Some(message) = self.hold_back(ctx, from, message) {
            self.handle_now(ctx, from, message);
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each message")]
    fn handle_now(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ParticipantMessage) {
        if from.node != ctx.node()
            && let Some(rule) = self.broken_rule(ctx, from, &message)
        {
            return ctx.refuse(from, rule);
        }
        match message {
            ParticipantMessage::Read(request) => self.read(ctx, from, request),
            ParticipantMessage::Prepare {
                transaction,
                leg,
                chain,
                operations,
                lock_wait,
                besides,
            } => {
                let asked = Preparation { chain, operations, lock_wait };
                self.prepare(ctx, from, (transaction, leg), asked, besides);
            }
            ParticipantMessage::Replicate {
                transaction,
                leg,
                coordinator,
                chain,
                writes,
                results,
            } => {
                let then = Then::Answer(results);
                let changes = Changes { coordinator, chain, writes, then };
                self.replicate(ctx, from, (transaction, leg), changes);
            }
            ParticipantMessage::Commit {
                transaction,
                leg,
                epoch,
                up,
                keep,
                coordinator,
                attempt,
            } => {
                let order = CommitOrder { transaction, leg, epoch, up, keep, coordinator, attempt };
                self.commit(ctx, order);
            }
            ParticipantMessage::PrepareAndCommit { .. }
            | ParticipantMessage::ReplicateAndCommit { .. }
            | ParticipantMessage::CommitStaged { .. }
            | ParticipantMessage::CommitIfStaged { .. } => {
                self.handle_one_phase(ctx, from, message);
            }
            ParticipantMessage::Complete { transaction, leg, attempt } => {
                self.complete(ctx, from, (transaction, leg), attempt);
            }
            ParticipantMessage::Abort { transaction, leg, down, coordinator, attempt } => {
                self.abort(ctx, AbortOrder { transaction, leg, down, coordinator, attempt });
            }
            ParticipantMessage::Rollback { transaction, leg, scope, down, attempt } => {
                self.rollback(ctx, from, RollbackOrder { transaction, leg, scope, down, attempt });
            }
            ParticipantMessage::DeadlockProbe { search, transaction, leg } => {
                self.deadlock_probe(ctx, &search, transaction, leg);
            }
            ParticipantMessage::TakeoverQuery { node, incarnation, attempt } => {
                self.takeover_query(ctx, from, node, incarnation, attempt);
            }
            ParticipantMessage::OutcomeProbe { transaction, probe } => {
                self.outcome_probe(ctx, from, transaction, probe);
            }
            ParticipantMessage::CopyRequest { partition, from: epoch, copy } => {
                self.copy_request(ctx, from, partition, epoch, copy);
            }
            ParticipantMessage::CopyRows { partition, copy, rows, finished } => {
                self.copy_rows(ctx, from, (partition, copy), rows, finished);
            }
            ParticipantMessage::CopyOutcomes { partition, copy, outcomes, forgotten } => {
                self.copy_outcomes(ctx, from, partition, copy, &outcomes, forgotten);
            }
            ParticipantMessage::CopyAck { partition, copy } => {
                self.copy_ack(ctx, from, partition, copy);
            }
            ParticipantMessage::Save { epoch } => self.save(ctx, from, epoch),
            ParticipantMessage::Durable { epoch, waited } => self.durable(ctx, epoch, waited),
            ParticipantMessage::Note { epoch } => self.note(ctx, epoch),
            ParticipantMessage::Restore { through } => self.restore(ctx, through),
        }
    }

    /// The messages of commits in one phase.
    fn handle_one_phase(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ParticipantMessage) {
        match message {
            ParticipantMessage::PrepareAndCommit {
                transaction,
                leg,
                chain,
                operations,
                lock_wait,
                epoch,
            } => {
                let asked = Preparation { chain, operations, lock_wait };
                self.prepare_and_commit(ctx, from, (transaction, leg), asked, epoch);
            }
            ParticipantMessage::ReplicateAndCommit {
                transaction,
                leg,
                coordinator,
                chain,
                writes,
                epoch,
            } => {
                let then = Then::Commit(epoch);
                let changes = Changes { coordinator, chain, writes, then };
                self.replicate(ctx, from, (transaction, leg), changes);
            }
            ParticipantMessage::CommitStaged {
                transaction,
                leg,
                epoch,
                up,
                coordinator,
                attempt,
            } => {
                let keep = false;
                let order = CommitOrder { transaction, leg, epoch, up, keep, coordinator, attempt };
                self.commit_staged(ctx, order);
            }
            ParticipantMessage::CommitIfStaged {
                transaction,
                leg,
                up,
                down,
                coordinator,
                attempt,
            } => {
                let question = StagedQuestion { transaction, leg, up, down, coordinator, attempt };
                self.commit_if_staged(ctx, question);
            }
            other => unreachable!("{} has two phases", other.name()),
        }
    }

    /// What every turn begins with.
    fn begin_turn(&mut self, ctx: &mut Ctx<'_>) {
        self.memory.begin_turn();
        self.observe_epochs(ctx);
    }

    /// What every turn ends with: goes on with granted waits, sends what was found out.
    fn end_turn(&mut self, ctx: &mut Ctx<'_>) {
        self.end_staging(ctx);
        if self.copies.any_drains() {
            self.end_drained_copies(ctx);
        }
        if self.streams.are_unsettled() {
            self.settle_streams(ctx);
        }
        if self.disk.is_some() {
            self.end_disk_turn(ctx);
        }
        if self.census_is_due(ctx.now()) {
            self.need_upkeep(ctx);
        }
        self.waits.arm(ctx);
    }

    /// Goes on with granted waits, sends what was found out for legs.
    fn end_staging(&mut self, ctx: &mut Ctx<'_>) {
        while !self.grants.is_empty() || !self.answered.is_empty() || self.doubts.has_woken() {
            if self.doubts.has_woken() {
                self.resume_parked(ctx);
            }
            for (partition, grant) in std::mem::take(&mut self.grants) {
                if grant.owner.0 >= FOREIGN_OWNERS {
                    self.copy_granted(ctx, partition, grant);
                } else {
                    self.granted(ctx, partition, grant);
                }
            }
            if self.grants.is_empty() {
                self.flush(ctx);
            }
        }
        if !self.searches.is_empty() {
            self.begin_searches(ctx);
        }
    }

    fn check_legs(&self, shared: &Shared) {
        for (handle, leg) in self.legs.unordered() {
            let life = leg.coordinator;
            let node = life.address.node;
            let settles = shared.cluster.member(node, life.incarnation).is_some()
                || shared
                    .cluster
                    .takeovers
                    .iter()
                    .any(|t| t.node == node && t.incarnation == life.incarnation);
            assert!(settles, "{}: nobody settles it any more", leg.transaction);
            for row in leg.held_rows() {
                let leg::Place { partition, row_id } = row.place;
                let replica = &self.replicas[&partition];
                assert_eq!(
                    replica.claims.get(row_id),
                    Some(handle),
                    "{partition} {row_id}: touched by {}, claimed by another",
                    leg.transaction
                );
                let mode = replica.locks.mode_of(LockKey(row.hash), LockOwner(handle.0));
                assert!(
                    mode == Some(LockMode::Exclusive) || !row.is_staged(),
                    "{partition} {row_id}: staged by {} without a lock",
                    leg.transaction
                );
            }
        }
    }

    fn check_waits(&self) {
        let mut operations_in_queues = 0;
        for (handle, _, wait) in self.waits.iter() {
            assert_eq!(self.legs.leg(handle).status, Status::Open, "a decided leg waits");
            let locks = &self.replicas[&wait.partition].locks;
            let same_row =
                |other: &Wait| other.partition == wait.partition && other.hash == wait.hash;
            let stands = match wait.place {
                Place::Queue => locks.is_waiting(LockOwner(handle.0)),
                Place::Behind => self
                    .waits
                    .of(handle)
                    .any(|(_, other)| same_row(other) && other.place != Place::Behind),
                Place::Doubt(_) => true,
            };
            assert!(stands, "{}: waits for nothing", wait.partition);
            operations_in_queues += usize::from(matches!(wait.what, Waiting::Scan(_)));
        }
        let scans: BTreeSet<(LegHandle, u64)> = self.scans.waiting().collect();
        assert_eq!(scans.len(), operations_in_queues, "scans' waits and waiting scans");
        for (handle, ticket) in scans {
            assert!(self.waits.of(handle).any(|(t, _)| t == ticket), "a scan's wait is filed");
        }
    }
}

impl Actor for Participant {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        self.begin_turn(ctx);
        match message {
            Message::Participant(message) => self.handle_own(ctx, from, message),
            Message::Scan(message) => self.handle_scan(ctx, from, message),
            Message::Continue(Continue::Scans) => self.continue_scans(ctx),
            Message::Continue(Continue::Applies) => self.continue_endings(ctx),
            Message::Continue(Continue::Copies) => self.continue_copies(ctx),
            Message::Continue(Continue::Upkeep) => self.upkeep(ctx),
            Message::Continue(Continue::Checkpoint) => self.checkpoint_noted(ctx),
            Message::Inspect(message) => {
                if let InspectMessage::Ask { session, request, what } = *message {
                    self.inspect(ctx, from, session, request, what);
                }
            }
            Message::Stream(message) => self.handle_stream(ctx, from, *message),
            Message::LinkDown { node, incarnation, .. } => self.link_down(ctx, node, incarnation),
            other => panic!("the participant was sent {}", other.name()),
        }
        self.end_turn(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        self.begin_turn(ctx);
        match timer {
            Timer::ParticipantTick => self.waits_due(ctx),
            Timer::DiskTick => self.disk_due(ctx),
            Timer::StreamTick => self.streams_due(),
            other => panic!("the participant was woken for {other:?}"),
        }
        self.end_turn(ctx);
    }

    fn disk(&mut self, ctx: &mut Ctx<'_>, token: u64, result: Result<Vec<DiskAnswer>, DiskError>) {
        self.begin_turn(ctx);
        self.disk_answered(ctx, token, result);
        self.end_turn(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.begin_turn(ctx);
        self.projectors.follow(before, ctx.cluster());
        self.follow(ctx, before);
        self.end_turn(ctx);
    }

    fn figures(&self, shared: &Shared, figures: &mut Figures) {
        self.tell_figures(shared, figures);
    }

    fn check_invariants(&self, shared: &Shared) {
        let sent = self.grants.is_empty() && self.answered.is_empty() && self.searches.is_empty();
        assert!(sent, "a turn ends with all sent");
        self.legs.check();
        self.check_endings();
        self.waits.check();
        self.outcomes.check();
        self.check_legs(shared);
        self.check_waits();
        let in_doubt = self.legs.unordered().filter(|(_, leg)| leg.is_in_doubt());
        self.doubts.check(&in_doubt.map(|(handle, _)| handle).collect());
        let claimed: usize = self.legs.unordered().map(|(_, leg)| leg.held_rows().count()).sum();
        let claims: usize = self.replicas.values().map(|replica| replica.claims.len()).sum();
        assert_eq!(claims, claimed, "claims of legs and of slots");
        let mut guards = self.replicas.values().flat_map(|replica| replica.guards.owners());
        assert!(guards.all(|owner| self.legs.get(owner).is_some()), "guards end with their legs");
        let member = shared.cluster.member(shared.node, shared.incarnation);
        let complete = member.is_some_and(|member| member.status == MemberStatus::Active);
        self.check_copies();
        self.streams.check();
        self.check_needed();
        let syncing = self.replicas.values().any(|replica| replica.syncing);
        assert!(!(complete && syncing), "a complete member has complete replicas");
        // A whole partition is looked at now and then only, as that takes long.
        let nth = (shared.now.as_nanos() / 1_000) as usize % (4 * self.replicas.len().max(1));
        for (at, replica) in self.replicas.values().enumerate() {
            replica.locks.check();
            if at == nth {
                replica.partition.check();
            }
        }
    }
}
