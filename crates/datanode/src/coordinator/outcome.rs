//! Answers how a transaction ended whose client lost the answer.
//!
//! First the transaction's own coordinator is asked, if its life goes on: it aborts what is still
//! undecided and refuses the transaction from then on. Then every participant is asked for its
//! record of the session. While the dead life is being taken over, the question waits.
//!
//! Records are in memory: a restart of the whole cluster loses them, the return of a node does not,
//! as it is given those of the replicas it is filled from. That nobody has a record proves that
//! there was no commit only of a coordinator whose life began after the last such restart
//! ([`Lives`]).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, probe};
use model::{
    Address, ClusterState, ErrorCode, Incarnation, NodeId, Refusal, SessionId, TransactionId,
};
use wire::{
    ClientReply, CoordinatorMessage, CoordinatorRef, KnownOutcome, Message, ParticipantMessage,
    TransactionState,
};

use super::Coordinator;
use super::state::Phase;

/// Open questions of clients.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: BTreeMap<u64, Question>,
    count: u64,
    lives: Lives,
}

/// Which lives began after the last restart of the whole cluster.
#[derive(Debug, Default)]
struct Lives {
    /// Restarts so far.
    restarts: usize,
    /// The first life of each node that is known to have begun after the last one. All lives of
    /// other nodes have.
    first: BTreeMap<NodeId, Incarnation>,
}

impl Lives {
    /// Takes note of a restart as soon as this worker hears of it. All members have new lives then;
    /// who is none has ended before.
    fn follow(&mut self, cluster: &ClusterState) {
        if cluster.restarts.len() == self.restarts {
            return;
        }
        self.restarts = cluster.restarts.len();
        let first = |(node, newest): (&NodeId, &Incarnation)| {
            let lives = cluster.member(*node, *newest).is_some();
            (*node, Incarnation(newest.0 + u64::from(!lives)))
        };
        self.first = cluster.incarnations.iter().map(first).collect();
    }

    /// Whether what this life committed is remembered.
    fn are_remembered(&self, life: CoordinatorRef) -> bool {
        self.first.get(&life.address.node).is_none_or(|first| life.incarnation >= *first)
    }
}

#[derive(Debug)]
struct Question {
    client: Address,
    request: u64,
    transaction: TransactionId,
    coordinator: CoordinatorRef,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The coordinator's life is being taken over.
    Takeover,
    /// The coordinator was asked.
    Coordinator,
    /// Participants were asked.
    Participants { waiting: BTreeSet<Address>, superseded: bool, open: bool },
}

impl Questions {
    /// Drops the questions of sessions that are gone.
    pub(super) fn forget(&mut self, gone: impl Fn(&SessionId) -> bool) {
        self.open.retain(|_, question| !gone(&question.transaction.session));
    }
}

impl Coordinator {
    /// A client asks.
    pub(super) fn outcome_requested(
        &mut self,
        ctx: &mut Ctx<'_>,
        client: Address,
        transaction: TransactionId,
        request: u64,
        coordinator: CoordinatorRef,
    ) {
        if !ctx.may_serve() {
            let refusal = Refusal::new(ErrorCode::NotServing, ctx.node().to_string());
            return answer(ctx, client, transaction, request, Err(refusal));
        }
        self.questions.count += 1;
        let probe = self.questions.count;
        let stage = Stage::Takeover;
        let question = Question { client, request, transaction, coordinator, stage };
        self.questions.open.insert(probe, question);
        self.question_moved(ctx, probe);
    }

    /// Members or takeovers have changed: some questions can go on.
    pub(super) fn questions_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.questions.lives.follow(ctx.cluster());
        let alive: BTreeSet<Address> = ctx.cluster().participants().into_iter().collect();
        let probes: Vec<u64> = self.questions.open.keys().copied().collect();
        for probe in probes {
            let question = self.questions.open.get_mut(&probe).expect("listed above");
            match &mut question.stage {
                Stage::Takeover => self.question_moved(ctx, probe),
                Stage::Coordinator => {
                    let life = question.coordinator;
                    if ctx.cluster().member(life.address.node, life.incarnation).is_none() {
                        question.stage = Stage::Takeover;
                        self.question_moved(ctx, probe);
                    }
                }
                Stage::Participants { waiting, .. } => {
                    waiting.retain(|address| alive.contains(address));
                    self.participants_asked(ctx, probe);
                }
            }
        }
    }

    /// Takes the first step that the cluster state allows.
    fn question_moved(&mut self, ctx: &mut Ctx<'_>, probe: u64) {
        let question = self.questions.open.get_mut(&probe).expect("an open question");
        let life = question.coordinator;
        let (node, incarnation) = (life.address.node, life.incarnation);
        let cluster = ctx.cluster().clone();
        let transaction = question.transaction;
        if cluster.takeovers.iter().any(|t| t.node == node && t.incarnation == incarnation) {
            probe!(ctx, "outcome: asked while the coordinator is taken over");
        } else if cluster.member(node, incarnation).is_some() {
            question.stage = Stage::Coordinator;
            let message = CoordinatorMessage::OutcomeQuery { transaction, probe };
            ctx.send(life.address, Message::Coordinator(message));
        } else {
            self.ask_participants(ctx, probe);
        }
    }

    fn ask_participants(&mut self, ctx: &mut Ctx<'_>, probe: u64) {
        let question = self.questions.open.get_mut(&probe).expect("an open question");
        let transaction = question.transaction;
        let waiting: BTreeSet<Address> = ctx.cluster().participants().into_iter().collect();
        for participant in &waiting {
            let message = ParticipantMessage::OutcomeProbe { transaction, probe };
            ctx.send(*participant, Message::Participant(message));
        }
        question.stage = Stage::Participants { waiting, superseded: false, open: false };
    }

    /// Another coordinator asks about one of ours.
    pub(super) fn outcome_query(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        transaction: TransactionId,
        probe: u64,
    ) {
        let phase = self.records.get(&transaction).map(|record| record.phase);
        let outcome = match phase {
            Some(phase) if phase.undecided() => {
                probe!(ctx, "outcome: asked for an undecided transaction");
                let refusal = Refusal::new(ErrorCode::UnknownTransaction, "its client gave it up");
                self.abort_with(ctx, transaction, refusal, None);
                KnownOutcome::Unknown
            }
            Some(Phase::Aborting) => KnownOutcome::Unknown,
            Some(_) => KnownOutcome::Open,
            None => KnownOutcome::Unknown,
        };
        let session = self.sessions.entry(transaction.session).or_default();
        session.ended = session.ended.max(transaction.number);
        let message = CoordinatorMessage::OutcomeReport { transaction, probe, outcome };
        ctx.send(from, Message::Coordinator(message));
    }

    /// Someone who was asked answers.
    pub(super) fn outcome_report(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        probe: u64,
        outcome: KnownOutcome,
    ) {
        let Some(question) = self.questions.open.get_mut(&probe) else { return };
        match (&mut question.stage, outcome) {
            (_, KnownOutcome::Committed(epoch)) => {
                probe!(ctx, "outcome: lost answer was a commit");
                self.question_answered(ctx, probe, Ok(TransactionState::Committed(epoch)));
            }
            (Stage::Coordinator, KnownOutcome::Unknown) => self.ask_participants(ctx, probe),
            (Stage::Coordinator, _) => {
                self.question_answered(ctx, probe, Ok(TransactionState::Open));
            }
            (Stage::Participants { waiting, superseded, open }, outcome) => {
                waiting.remove(&from);
                *superseded |= outcome == KnownOutcome::Superseded;
                *open |= outcome == KnownOutcome::Open;
                self.participants_asked(ctx, probe);
            }
            (Stage::Takeover, _) => {}
        }
    }

    /// When all participants have answered and none knows of a commit.
    fn participants_asked(&mut self, ctx: &mut Ctx<'_>, probe: u64) {
        let question = self.questions.open.get(&probe).expect("an open question");
        let Stage::Participants { waiting, superseded, open } = &question.stage else { return };
        if !waiting.is_empty() {
            return;
        }
        let remembered = self.questions.lives.are_remembered(question.coordinator);
        let result = if *open {
            Ok(TransactionState::Open)
        } else if !remembered {
            probe!(ctx, "outcome: asked for what a restart of the cluster forgot");
            Err(Refusal::new(ErrorCode::OutcomeUnknown, "the cluster was restarted since"))
        } else if *superseded {
            Err(Refusal::new(ErrorCode::OutcomeUnknown, "the session's later outcomes replaced it"))
        } else {
            let refusal = Refusal::new(ErrorCode::UnknownTransaction, "it did not commit");
            Ok(TransactionState::Aborted(refusal))
        };
        self.question_answered(ctx, probe, result);
    }

    fn question_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        probe: u64,
        result: Result<TransactionState, Refusal>,
    ) {
        let Some(question) = self.questions.open.remove(&probe) else { return };
        answer(ctx, question.client, question.transaction, question.request, result);
    }
}

fn answer(
    ctx: &mut Ctx<'_>,
    client: Address,
    transaction: TransactionId,
    request: u64,
    result: Result<TransactionState, Refusal>,
) {
    let reply = ClientReply::Outcome { transaction, request, result };
    ctx.send(client, Message::Reply(reply));
}

#[cfg(test)]
mod tests {
    use model::{ActorKind, Epoch, WorkerId};

    use super::*;

    #[test]
    fn only_a_restart_of_the_whole_cluster_forgets_and_only_older_lives() {
        let life = |node, incarnation| {
            let (node, worker) = (NodeId(node), WorkerId(0));
            let address = Address { node, worker, actor: ActorKind::Coordinator };
            CoordinatorRef { address, incarnation: Incarnation(incarnation) }
        };
        let mut lives = Lives::default();
        let mut cluster = ClusterState::default();
        let set = |cluster: &mut ClusterState, node, incarnation, lives: bool| {
            cluster.incarnations.insert(NodeId(node), Incarnation(incarnation));
            cluster.members.remove(&NodeId(node));
            if lives {
                cluster.members.insert(NodeId(node), testing::member(Incarnation(incarnation)));
            }
        };
        set(&mut cluster, 1, 10, true);
        set(&mut cluster, 2, 20, true);
        lives.follow(&cluster);
        assert!(lives.are_remembered(life(1, 3)) && lives.are_remembered(life(2, 20)));
        // A restart without node 2.
        set(&mut cluster, 1, 11, true);
        set(&mut cluster, 2, 20, false);
        cluster.restarts.push(Epoch(7));
        lives.follow(&cluster);
        assert!(!lives.are_remembered(life(1, 10)) && lives.are_remembered(life(1, 11)));
        assert!(!lives.are_remembered(life(2, 20)) && lives.are_remembered(life(2, 21)));
        // What comes and goes after it is remembered.
        set(&mut cluster, 1, 11, false);
        set(&mut cluster, 2, 22, true);
        set(&mut cluster, 3, 30, true);
        lives.follow(&cluster);
        assert!(lives.are_remembered(life(1, 11)) && lives.are_remembered(life(1, 12)));
        assert!(lives.are_remembered(life(2, 22)) && lives.are_remembered(life(3, 30)));
        cluster.restarts.push(Epoch(9));
        lives.follow(&cluster);
        assert!(!lives.are_remembered(life(1, 11)) && lives.are_remembered(life(2, 22)));
    }
}
