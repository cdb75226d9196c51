//! Settles the transactions of dead coordinators from what the participants know.
//!
//! Only on worker 0 of the driver. Idempotent: when this node dies too, the next driver finds the
//! dead life still listed in the cluster state and asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use actor::{Ctx, Mutation, fault_point, probe};
use model::{
    ActorKind, Address, Command, ControlIndex, Epoch, Incarnation, NodeId, TransactionId, WorkerId,
};
use wire::{
    Chain, ControlMessage, LegId, Message, ParticipantMessage, ReportedLegStatus,
    ReportedTransaction,
};

use super::Coordinator;
use super::state::{Leg, Phase, Record};

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.node, self.incarnation)
    }
}

/// The takeovers this coordinator runs.
#[derive(Debug, Default)]
pub(super) struct Takeovers {
    running: BTreeMap<Life, Running>,
    attempts: u32,
}

#[derive(Debug)]
struct Running {
    attempt: u32,
    /// Participants whose report is awaited.
    waiting: BTreeSet<Address>,
    /// What was reported so far.
    found: BTreeMap<TransactionId, Found>,
    /// Transactions still being driven to their end.
    unsettled: usize,
}

/// What the reports say about one transaction.
#[derive(Debug, Default)]
struct Found {
    commit: Option<Epoch>,
    undecided_somewhere: bool,
    /// Its changes were sent with the order to commit them in this epoch.
    staged: Option<Epoch>,
    legs: BTreeMap<LegId, FoundLeg>,
}

#[derive(Debug)]
struct FoundLeg {
    chain: Chain,
    applied: bool,
    /// No life that joined later is of the chain.
    began: ControlIndex,
}

impl Found {
    fn add(&mut self, report: ReportedTransaction) {
        for leg in report.legs {
            let began = ControlIndex(u64::MAX);
            let found = FoundLeg { chain: leg.chain, applied: false, began };
            let known = self.legs.entry(leg.leg).or_insert(found);
            match leg.status {
                ReportedLegStatus::Open => self.undecided_somewhere = true,
                ReportedLegStatus::StagedToCommit { epoch, began } => {
                    self.undecided_somewhere = true;
                    self.staged = Some(epoch);
                    known.began = known.began.min(began);
                }
                ReportedLegStatus::Committed(epoch) => self.decided(epoch),
                ReportedLegStatus::Applied(epoch) => {
                    known.applied = true;
                    self.decided(epoch);
                }
            }
        }
    }

    fn decided(&mut self, epoch: Epoch) {
        assert!(self.commit.is_none_or(|e| e == epoch), "two commit epochs of one transaction");
        self.commit = Some(epoch);
    }
}

impl Takeovers {
    /// Whether a transaction was reported of another life than this one, and its end if it is known
    /// from a report of this life.
    pub(super) fn found(&self, life: Life, id: TransactionId) -> (bool, Option<Epoch>) {
        let mut others = self.running.iter().filter(|(other, _)| **other != life);
        let elsewhere = others.any(|(_, running)| running.found.contains_key(&id));
        let running = self.running.get(&life);
        let end = running.and_then(|running| running.found.get(&id)?.commit);
        (elsewhere, end)
    }
}

impl Coordinator {
    /// Starts, continues or drops takeovers as the cluster state demands.
    pub(super) fn takeovers_changed(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster().clone();
        let mine = ctx.me().worker == WorkerId(0) && cluster.driver() == Some(ctx.node());
        let listed: BTreeSet<Life> = cluster
            .takeovers
            .iter()
            .map(|t| Life { node: t.node, incarnation: t.incarnation })
            .collect();
        self.takeovers.running.retain(|life, _| listed.contains(life));
        if !mine {
            return;
        }
        for life in listed {
            if !self.takeovers.running.contains_key(&life) {
                self.start_takeover(ctx, life);
            }
        }
        // The answers of participants that died meanwhile are not awaited.
        let alive: BTreeSet<Address> = cluster.participants().into_iter().collect();
        let lives: Vec<Life> = self.takeovers.running.keys().copied().collect();
        for life in lives {
            let running = self.takeovers.running.get_mut(&life).expect("listed above");
            running.waiting.retain(|address| alive.contains(address));
            self.takeover_moved(ctx, life);
        }
    }

    fn start_takeover(&mut self, ctx: &mut Ctx<'_>, life: Life) {
        probe!(ctx, "takeover: of a dead coordinator");
        self.takeovers.attempts += 1;
        let attempt = self.takeovers.attempts;
        let waiting: BTreeSet<Address> = ctx.cluster().participants().into_iter().collect();
        for participant in &waiting {
            let query = ParticipantMessage::TakeoverQuery {
                node: life.node,
                incarnation: life.incarnation,
                attempt,
            };
            ctx.send(*participant, Message::Participant(query));
        }
        let running = Running { attempt, waiting, found: BTreeMap::new(), unsettled: 0 };
        self.takeovers.running.insert(life, running);
        fault_point!(ctx, "takeover: after the question is sent");
    }

    /// A participant tells what it has of a dead coordinator.
    pub(super) fn takeover_report(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        life: Life,
        attempt: u32,
        transactions: Vec<ReportedTransaction>,
    ) {
        let Some(running) = self.takeovers.running.get_mut(&life) else { return };
        if running.attempt != attempt || !running.waiting.remove(&from) {
            return;
        }
        for report in transactions {
            running.found.entry(report.transaction).or_default().add(report);
        }
        self.takeover_moved(ctx, life);
    }

    /// When all have reported, decides and drives every transaction to its end.
    fn takeover_moved(&mut self, ctx: &mut Ctx<'_>, life: Life) {
        let running = self.takeovers.running.get_mut(&life).expect("a running takeover");
        if !running.waiting.is_empty() {
            return;
        }
        let found = std::mem::take(&mut running.found);
        running.unsettled += found.len();
        let ids: Vec<TransactionId> = found.keys().copied().collect();
        for (id, found) in found {
            let record = self.adopt(ctx, life, id, found);
            self.records.insert(record);
        }
        for id in ids {
            fault_point!(ctx, "takeover: before a transaction is driven");
            match self.records.get(&id).expect("adopted above").phase {
                Phase::Aborting => self.drive_abort(ctx, id),
                Phase::Delegated(_) => self.ask_staged(ctx, id),
                _ => self.drive_commit(ctx, id),
            }
        }
        self.takeover_over(ctx, life);
    }

    /// The record of a found transaction, decided.
    fn adopt(&self, ctx: &mut Ctx<'_>, life: Life, id: TransactionId, found: Found) -> Record {
        let alive = ctx.cluster().clone();
        let mut record = Record::new(id, ctx.me(), Epoch(0), ctx.now());
        record.client = None;
        record.taken_from = Some(life);
        let commit = found.commit.filter(|_| {
            !(ctx.mutated(Mutation::TakeoverForgetsCommits) && found.undecided_somewhere)
        });
        let count = found.legs.keys().last().map_or(0, |leg| leg.0 + 1);
        for at in 0..count {
            // Legs nobody reports are complete everywhere, or were never begun.
            let known = found.legs.get(&LegId(at));
            let (chain, began) =
                known.map_or((Chain::EMPTY, ControlIndex(0)), |leg| (leg.chain, leg.began));
            let lives = |address: &Address| {
                let member = alive.members.get(&address.node);
                member.is_some_and(|member| member.joined_at <= began)
            };
            let chain: Chain = chain.iter().copied().filter(lives).collect();
            let (replicated, committed) = (!chain.is_empty(), chain.is_empty());
            record.legs.push(Leg { replicated, committed, ..Leg::new(chain) });
        }
        match (commit, found.staged) {
            (Some(epoch), _) => {
                probe!(ctx, "takeover: committing transaction");
                if found.undecided_somewhere {
                    probe!(ctx, "takeover: commit known to some replicas only");
                }
                if found.legs.values().any(|leg| leg.applied) {
                    probe!(ctx, "takeover: partly applied transaction");
                }
                record.phase = Phase::Committing(epoch);
            }
            (None, Some(epoch)) => {
                probe!(ctx, "takeover: changes that were sent with their commit");
                record.phase = Phase::Delegated(epoch);
            }
            (None, None) => {
                probe!(ctx, "takeover: undecided transaction");
                record.phase = Phase::Aborting;
            }
        }
        record
    }

    /// One taken-over transaction has ended.
    pub(super) fn takeover_settled(&mut self, ctx: &mut Ctx<'_>, life: Life) {
        if let Some(running) = self.takeovers.running.get_mut(&life) {
            running.unsettled -= 1;
            self.takeover_over(ctx, life);
        }
    }

    /// When nothing is left, has it logged that the dead life is settled.
    fn takeover_over(&mut self, ctx: &mut Ctx<'_>, life: Life) {
        let Some(running) = self.takeovers.running.get(&life) else { return };
        if !running.waiting.is_empty() || !running.found.is_empty() || running.unsettled > 0 {
            return;
        }
        fault_point!(ctx, "takeover: before it is reported done");
        let control = Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
        let command = Command::TakeoverDone { node: life.node, incarnation: life.incarnation };
        let message = ControlMessage::Propose(Arc::new(command));
        ctx.send(control, Message::Control(Box::new(message)));
    }
}
