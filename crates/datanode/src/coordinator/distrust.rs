//! What other nodes may tell a coordinator, by what is known here.
//!
//! # Owns
//! The rules that a message of another node must keep before it is handled. One that breaks a rule
//! is refused as a whole and changes nothing; the link to its sender is closed.
//! # Guarantees
//! A node that keeps the protocol breaks no rule (`participant::distrust` says more of that).
//! No message of another node makes an assertion of this coordinator fail, or names what cannot be.
//! # Not here
//! What a process of a role may send at all (`node`), what clients ask (`execute`, `finish`: they
//! are answered with a refusal). Whether a data node tells the truth.

use std::collections::BTreeMap;

use actor::Ctx;
use model::{ActorKind, Address, ClusterState, Epoch, TransactionId};
use wire::deadlock::PATH_MAX;
use wire::{
    CoordinatorMessage, EpochMessage, PreparedOperation, ReportedLegStatus, ReportedTransaction,
};

use super::Coordinator;
use super::state::{Record, number};
use super::takeover::Life;

/// Whether a rule is kept, or which one is not.
type Rule = Result<(), &'static str>;

impl Coordinator {
    /// The rule that a message of another node breaks, if it breaks one.
    pub(super) fn broken_rule(
        &self,
        ctx: &Ctx<'_>,
        message: &CoordinatorMessage,
    ) -> Option<&'static str> {
        self.rules(ctx, message).err()
    }

    fn rules(&self, ctx: &Ctx<'_>, message: &CoordinatorMessage) -> Rule {
        match message {
            CoordinatorMessage::Prepared { transaction, results, .. } => {
                let Some(record) = self.records.get(transaction) else { return Ok(()) };
                let rows = results.iter().all(|result| are_rows(ctx.cluster(), record, result));
                rule(rows, "what it says is a row is none of the table")
            }
            CoordinatorMessage::DeadlockProbe { search, .. } => {
                let path = search.path.len() <= PATH_MAX;
                rule(path, "a search is longer than any")?;
                let victim = search.victim.map(|victim| victim.coordinator.address);
                let coordinator =
                    victim.is_none_or(|victim| victim.actor == ActorKind::Coordinator);
                rule(coordinator, "transactions are coordinated by coordinators")
            }
            CoordinatorMessage::DeadlockVictim { cycle, .. } => {
                rule(cycle.len() <= PATH_MAX + 1, "a circle is longer than any")
            }
            CoordinatorMessage::TakeoverReport { node, incarnation, transactions, .. } => {
                let life = Life { node: *node, incarnation: *incarnation };
                let mut ends = BTreeMap::new();
                let mut reports = transactions.iter();
                reports.try_for_each(|report| self.of_report(life, report, &mut ends))
            }
            _ => Ok(()),
        }
    }

    /// A transaction of a dead coordinator is nobody else's, and has one end.
    fn of_report(
        &self,
        life: Life,
        report: &ReportedTransaction,
        ends: &mut BTreeMap<TransactionId, Epoch>,
    ) -> Rule {
        let known = self.records.get(&report.transaction);
        let other = known.is_some_and(|record| record.taken_from != Some(life));
        rule(!other, "a transaction that is taken over has another coordinator")?;
        let (elsewhere, decided) = self.takeovers.found(life, report.transaction);
        rule(!elsewhere, "a transaction is taken over from two lives")?;
        for leg in &report.legs {
            let participant = |address: &Address| address.actor == ActorKind::Participant;
            rule(leg.chain.iter().all(participant), "a chain is of participants")?;
            if let ReportedLegStatus::Committed(epoch) | ReportedLegStatus::Applied(epoch) =
                leg.status
            {
                let known = *ends.entry(report.transaction).or_insert(decided.unwrap_or(epoch));
                rule(known == epoch, "it has committed in another epoch")?;
            }
        }
        Ok(())
    }

    /// The rule that a message of another node's driver breaks, if it breaks one.
    pub(super) fn broken_epoch_rule(
        &self,
        ctx: &Ctx<'_>,
        message: &EpochMessage,
    ) -> Option<&'static str> {
        let view = &ctx.view().epochs;
        let kept = match message {
            EpochMessage::Completed { epoch, .. } => {
                let ended = view.current == Epoch(0) || *epoch < view.current;
                let unfinished = self.epochs.oldest_unfinished();
                ended && unfinished.is_none_or(|oldest| oldest > *epoch)
            }
            _ => true,
        };
        (!kept).then_some("an epoch is complete that is not over")
    }
}

/// Names a rule that is not kept.
fn rule(kept: bool, name: &'static str) -> Rule {
    if kept { Ok(()) } else { Err(name) }
}

/// Whether the images of an operation, if there are some, are rows of its table.
fn are_rows(cluster: &ClusterState, record: &Record, prepared: &PreparedOperation) -> bool {
    let Some(images) = &prepared.images else { return true };
    let partition = record.partition_of(number::client(prepared.number));
    let Some(table) = partition.and_then(|partition| cluster.tables.get(&partition.table)) else {
        return true;
    };
    let rows = [&images.before, &images.after];
    rows.into_iter().flatten().all(|row| table.is_row(&row.0))
}
