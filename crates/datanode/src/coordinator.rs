//! Coordinates two-phase commit for the transactions of the clients that chose this worker.
//!
//! NDB calls this DBTC. Protocol walk-through: `docs/internals/transactions.md`.
//!
//! # Owns
//! A record per transaction from its first request to its last `Completed` or `Aborted`; snapshots
//! held for sessions; questions about lost outcomes; takeovers of dead coordinators (driver only).
//! # Speaks
//! in:  `ClientRequest`, `CoordinatorMessage`, `InspectMessage`, the coordinator's side of
//!      `EpochMessage`
//! out: `ParticipantMessage`, `ClientReply`, `CoordinatorMessage` to other coordinators
//! # Invariants
//! 1. The commit point is the moment a record gets its epoch; from then on it is only driven on.
//!    A record that is sent with its commit has an epoch before: its replicas decide (`one_phase`).
//! 2. No epoch is assigned between `Prepare` and `Switch` of an epoch change, nor without a lease.
//! 3. `Drained(e)` is reported only when no record holds an epoch up to `e`.
//! 4. A session has at most one record that is not ending.
//! # Failure
//! Own death: the driver's coordinator rebuilds the records from the participants (`takeover`).
//! Death of a replica: `failure`.
//! # Not here
//! Locks and rows (`participant`), who drives epochs (`epochs`), detection of failures (`control`).

mod deadlock;
mod distrust;
mod durable;
mod epoch;
mod execute;
mod failure;
mod finish;
mod inspect;
mod one_phase;
mod outcome;
mod quiesce;
mod records;
mod state;
mod takeover;
#[cfg(test)]
mod tests;
mod unique;

use std::collections::VecDeque;

use actor::{Actor, Ctx, Figures, Metric, Shared, Timer};
use model::{Address, ClusterState, Epoch, SessionId, TransactionId};
use stdx::HashMap;
use wire::{ClientRequest, CoordinatorMessage, InspectMessage, Message};

use durable::DurableSide;
use epoch::EpochSide;
use execute::Execution;
use outcome::Questions;
use quiesce::Quiescence;
use records::Records;
use state::{Phase, Record};
use takeover::Takeovers;

/// The transaction coordinator of one worker.
#[doc(alias = "DBTC")]
#[derive(Debug, Default)]
pub struct Coordinator {
    records: Records,
    /// Records that reached their commit point while no epoch could be assigned.
    deciding: VecDeque<TransactionId>,
    sessions: HashMap<SessionId, Session>,
    epochs: EpochSide,
    durable: DurableSide,
    questions: Questions,
    quiescence: Quiescence,
    takeovers: Takeovers,
}

/// What is known of the transactions of a session.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// The number of the last one that has ended here or may not begin here.
    ended: u64,
    /// The number of the last one that has begun here.
    begun: u64,
}

impl Coordinator {
    /// A coordinator without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Transactions that are not over yet.
    pub fn open_transactions(&self) -> usize {
        self.records.len()
    }

    /// One line per open transaction, for traces and system tables.
    pub fn describe(&self) -> Vec<String> {
        self.records.iter().map(Record::to_string).collect()
    }

    /// Snapshots held for sessions.
    pub fn open_snapshots(&self) -> usize {
        self.epochs.held_count()
    }

    fn handle_request(&mut self, ctx: &mut Ctx<'_>, from: Address, request: ClientRequest) {
        match request {
            ClientRequest::Execute { transaction, request, operations, commit, lock_wait } => {
                let asked = Execution { request, operations, commit, lock_wait };
                self.execute(ctx, from, transaction, asked);
            }
            ClientRequest::Commit { transaction, request } => {
                self.commit_requested(ctx, from, transaction, request);
            }
            ClientRequest::Abort { transaction, request } => {
                self.abort_requested(ctx, from, transaction, request);
            }
            ClientRequest::RollbackTo { transaction, request, after } => {
                self.rollback_requested(ctx, from, transaction, request, after);
            }
            ClientRequest::Scan { transaction, scan, seen_to } => {
                self.scan_requested(ctx, from, transaction, scan, seen_to);
            }
            ClientRequest::OpenSnapshot { session, request } => {
                self.epochs.open_snapshot(ctx, from, session, request);
            }
            ClientRequest::CloseSnapshot { session, epoch } => {
                self.epochs.close_snapshot(ctx, session, epoch);
            }
            ClientRequest::AwaitDurable { session, request, epoch, peek } => {
                self.durable.asked(ctx, from, session, request, epoch, peek);
            }
            ClientRequest::Outcome { transaction, request, coordinator } => {
                self.outcome_requested(ctx, from, transaction, request, coordinator);
            }
        }
    }

    fn handle_own(&mut self, ctx: &mut Ctx<'_>, from: Address, message: CoordinatorMessage) {
        if from.node != ctx.node()
            && let Some(rule) = self.broken_rule(ctx, &message)
        {
            return ctx.refuse(from, rule);
        }
        match message {
            CoordinatorMessage::Prepared { transaction, leg, results } => {
                self.prepared(ctx, from, transaction, leg, results);
            }
            CoordinatorMessage::PrepareRefused { transaction, refusal } => {
                self.prepare_refused(ctx, transaction, refusal);
            }
            CoordinatorMessage::Committed { transaction, leg, attempt, results } => {
                self.committed(ctx, transaction, leg, attempt, results);
            }
            CoordinatorMessage::Completed { transaction, leg, attempt } => {
                self.answered(ctx, from, transaction, leg, attempt);
            }
            CoordinatorMessage::Aborted { transaction, leg, attempt } => {
                self.answered(ctx, from, transaction, leg, attempt);
            }
            CoordinatorMessage::RolledBack { transaction, leg, refused, attempt } => {
                self.rolled_back(ctx, transaction, leg, refused, attempt);
            }
            CoordinatorMessage::Waiting { transaction, wait } => {
                self.waiting(ctx, transaction, wait);
            }
            CoordinatorMessage::WaitOver { transaction, wait } => {
                if let Some(record) = self.records.get_mut(&transaction) {
                    record.waits.remove(&wait);
                }
            }
            CoordinatorMessage::SearchDeadlock { transaction } => {
                self.search_deadlock(ctx, transaction);
            }
            CoordinatorMessage::DeadlockProbe { search, blockers } => {
                self.deadlock_probe(ctx, &search, blockers);
            }
            CoordinatorMessage::DeadlockVictim { transaction, step, cycle, initiator } => {
                self.deadlock_victim(ctx, transaction, step, &cycle, initiator, from);
            }
            CoordinatorMessage::TakeoverReport { node, incarnation, attempt, transactions } => {
                let life = takeover::Life { node, incarnation };
                self.takeover_report(ctx, from, life, attempt, transactions);
            }
            CoordinatorMessage::OutcomeQuery { transaction, probe } => {
                self.outcome_query(ctx, from, transaction, probe);
            }
            CoordinatorMessage::OutcomeReport { transaction: _, probe, outcome } => {
                self.outcome_report(ctx, from, probe, outcome);
            }
            CoordinatorMessage::NotStaged { transaction, leg, attempt } => {
                self.not_staged(ctx, transaction, leg, attempt);
            }
            CoordinatorMessage::QuiesceHeld { number, since } => {
                self.quiesce_held(ctx, number, since);
            }
            CoordinatorMessage::Quiesce { number, node, incarnation, span } => {
                self.quiesce(ctx, number, node, incarnation, span);
            }
        }
    }
}

impl Actor for Coordinator {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        match message {
            Message::Request(request) => {
                if let Some(request) = self.hold_back(ctx, from, request) {
                    self.handle_request(ctx, from, request);
                }
            }
            Message::Coordinator(message) => self.handle_own(ctx, from, message),
            Message::Epoch(message) => self.handle_epoch(ctx, from, message),
            Message::Inspect(message) => {
                if let InspectMessage::Ask { session, request, what } = *message {
                    self.inspect(ctx, from, session, request, what);
                }
            }
            Message::LinkDown { node, incarnation, .. } => {
                self.client_gone(ctx, node, incarnation);
            }
            other => panic!("the coordinator was sent {}", other.name()),
        }
        self.report_quiet(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::CoordinatorTick => self.end_inactive(ctx),
            Timer::CoordinatorQuiesce => self.quiescence_expired(ctx),
            _ => unreachable!("not a timer of the coordinator: {timer:?}"),
        }
        self.report_quiet(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.members_changed(ctx, before);
        self.indexes_changed(ctx, before);
        self.follow_driver(ctx, before);
        self.questions_changed(ctx);
        self.takeovers_changed(ctx);
        self.chains_changed(ctx);
        self.report_quiet(ctx);
    }

    fn figures(&self, _: &Shared, figures: &mut Figures) {
        figures.add(Metric::TransactionsOpen, &[], self.open_transactions() as u64);
        figures.add(Metric::SnapshotsOpen, &[], self.open_snapshots() as u64);
    }

    fn check_invariants(&self, shared: &Shared) {
        self.epochs.check(&self.records, shared);
        self.records.check();
        self.records.iter().for_each(Record::check);
        for id in &self.deciding {
            let phase = self.records.get(id).map(|r| &r.phase);
            assert!(
                matches!(phase, None | Some(Phase::Deciding | Phase::Aborting)),
                "{id} waits for an epoch in {phase:?}"
            );
        }
    }
}

/// The epoch of transactions that changed nothing.
const NO_EPOCH: Epoch = Epoch(0);
