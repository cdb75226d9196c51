//! What other nodes may ask of a participant, by what is known here.
//!
//! # Owns
//! The rules that a message of another node must keep before it is handled. One that breaks a rule
//! is refused as a whole and changes nothing; the link to its sender is closed.
//! # Guarantees
//! A node that keeps the protocol breaks no rule: in whatever order messages of different senders
//! come, whatever they find changed, and whichever lives have ended in between. A rule therefore
//! says what an assertion behind it would say of the same state, or what the sender alone decides
//! when it makes the message; `docs/internals/links.md` has the reason for each.
//!
//! No message of another node makes an assertion of this participant fail, names what cannot be,
//! or has memory set aside that the node does not have. Rules cost a look at what the handler looks
//! at anyway; those that would cost more are asked only where the answer may be no.
//! # Not here
//! What a process of a role may send at all (`node`), what clients ask (`prepare`, `read`, `scan`:
//! they are answered with a refusal). Whether a data node tells the truth: a commit that nobody has
//! decided looks like any other.

use std::collections::BTreeSet;

use actor::Ctx;
use model::{ActorKind, Address, Epoch, PartitionId, Row, RowId, TransactionId};
use wire::deadlock::PATH_MAX;
use wire::{
    Chain, CoordinatorRef, KnownOutcome, LegId, Operation, ParticipantMessage, REPLICAS_MAX,
    SCAN_WAITS_FROM, ScanRequest, StagedWrite,
};

use super::Participant;
use super::leg::{Leg, Status};

/// Whether a rule is kept, or which one is not.
type Rule = Result<(), &'static str>;

/// What a slot takes at least.
pub(super) const SLOT_BYTES: u64 = 16;

/// How often the memory of the node that a copy comes from may be that of this one: a rolling
/// restart that gives nodes another `DataMemory` has both under way.
const LARGER_MEMORIES: u64 = 4;

impl Participant {
    /// The rule that a message of another node breaks, if it breaks one.
    pub(super) fn broken_rule(
        &self,
        ctx: &Ctx<'_>,
        from: Address,
        message: &ParticipantMessage,
    ) -> Option<&'static str> {
        self.rules(ctx, from, message).err()
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each message")]
    fn rules(&self, ctx: &Ctx<'_>, from: Address, message: &ParticipantMessage) -> Rule {
        let cluster = ctx.cluster();
        match message {
            // Operations and reads are answered with refusals.
            ParticipantMessage::Read(_)
            | ParticipantMessage::OutcomeProbe { .. }
            | ParticipantMessage::CopyRequest { .. }
            | ParticipantMessage::CopyAck { .. }
            | ParticipantMessage::Restore { .. }
            | ParticipantMessage::Note { .. } => Ok(()),
            ParticipantMessage::Prepare { chain, operations, .. } => {
                of_chain(chain)?;
                of_numbers(operations)
            }
            ParticipantMessage::PrepareAndCommit { chain, operations, epoch, .. } => {
                of_chain(chain)?;
                of_numbers(operations)?;
                has_begun(ctx, *epoch)
            }
            ParticipantMessage::Replicate { coordinator, chain, writes, .. } => {
                self.of_changes(ctx, from, coordinator, chain, writes)
            }
            ParticipantMessage::ReplicateAndCommit {
                coordinator, chain, writes, epoch, ..
            } => {
                has_begun(ctx, *epoch)?;
                self.of_changes(ctx, from, coordinator, chain, writes)
            }
            ParticipantMessage::Commit { transaction, leg, epoch, up, coordinator, .. } => {
                of_chain(up)?;
                of_coordinator(*coordinator)?;
                self.of_commit(ctx, (*transaction, *leg), *epoch)
            }
            ParticipantMessage::CommitStaged {
                transaction, leg, epoch, up, coordinator, ..
            } => {
                of_chain(up)?;
                of_coordinator(*coordinator)?;
                self.of_commit(ctx, (*transaction, *leg), *epoch)
            }
            ParticipantMessage::CommitIfStaged { up, down, coordinator, .. } => {
                of_chain(up)?;
                of_chain(down)?;
                let room = up.len() + down.len() < REPLICAS_MAX;
                rule(room, "a chain is longer than any")?;
                of_coordinator(*coordinator)
            }
            ParticipantMessage::Complete { transaction, leg, .. } => {
                let open = |leg: &Leg| leg.status == Status::Open;
                let leg = self.leg(*transaction, *leg);
                rule(!leg.is_some_and(open), "it completes what was never told to commit")
            }
            ParticipantMessage::Abort { transaction, leg, down, coordinator, .. } => {
                of_chain(down)?;
                of_coordinator(*coordinator)?;
                let open = |leg: &Leg| leg.status == Status::Open;
                let leg = self.leg(*transaction, *leg);
                rule(leg.is_none_or(open), "it aborts what has committed")
            }
            ParticipantMessage::Rollback { transaction, leg, down, .. } => {
                of_chain(down)?;
                let open = |leg: &Leg| {
                    leg.ending.is_some() || leg.status == Status::Open && leg.rolls_back.is_none()
                };
                let leg = self.leg(*transaction, *leg);
                rule(leg.is_none_or(open), "it rolls back what is decided, or is rolled back")
            }
            ParticipantMessage::TakeoverQuery { node, incarnation, .. } => {
                let lives = cluster.member(*node, *incarnation).is_some();
                rule(!lives, "it takes over from a node that lives")
            }
            ParticipantMessage::DeadlockProbe { search, .. } => {
                rule(search.path.len() <= PATH_MAX, "a search is longer than any")
            }
            ParticipantMessage::CopyRows { partition, rows, .. } => {
                self.of_copied(ctx, *partition, rows)
            }
            ParticipantMessage::CopyOutcomes { outcomes, .. } => {
                let mut known = outcomes.iter().map(|(id, epoch)| (self.outcomes.of(*id), epoch));
                let agree = known.all(|(known, epoch)| match known {
                    KnownOutcome::Committed(known) => known == *epoch,
                    _ => true,
                });
                rule(agree, OTHER_EPOCH)
            }
            ParticipantMessage::Save { epoch } | ParticipantMessage::Durable { epoch, .. } => {
                has_begun(ctx, *epoch)
            }
        }
    }

    /// The rule that a scan of another node's coordinator breaks, if it breaks one. Clients are
    /// answered with refusals.
    pub(super) fn broken_scan_rule(from: Address, request: &ScanRequest) -> Option<&'static str> {
        if from.actor == ActorKind::Client {
            return None;
        }
        let kept = || -> Rule {
            of_chain(&request.chain)?;
            let client = request.reply_to;
            let clients = [ActorKind::Client, ActorKind::IndexBuilder, ActorKind::Joiner];
            rule(clients.contains(&client.actor), "rows go to clients")?;
            let Some(owner) = &request.transaction else { return Ok(()) };
            of_coordinator(owner.coordinator.address)
        };
        kept().err()
    }

    fn leg(&self, transaction: TransactionId, leg: LegId) -> Option<&Leg> {
        self.legs.find(transaction, leg).map(|handle| self.legs.leg(handle))
    }

    /// A commit is of an epoch that is under way, and of one only.
    fn of_commit(&self, ctx: &Ctx<'_>, name: (TransactionId, LegId), epoch: Epoch) -> Rule {
        has_begun(ctx, epoch)?;
        if let KnownOutcome::Committed(known) = self.outcomes.of(name.0) {
            rule(known == epoch, OTHER_EPOCH)?;
        }
        let Some(leg) = self.leg(name.0, name.1) else { return Ok(()) };
        if let Status::Committed(known) | Status::Applied(known) = leg.status {
            return rule(known == epoch, OTHER_EPOCH);
        }
        rule(leg.ending.is_none(), "it commits what is being aborted")?;
        rule(leg.rolls_back.is_none(), "it commits what is being rolled back")?;
        if epoch == ctx.view().epochs.announced {
            return Ok(());
        }
        let newer = |partition: PartitionId, row_id: RowId| {
            let replica = self.replicas.get(&partition);
            replica.is_some_and(|replica| replica.partition.slot_epoch(row_id) > epoch)
        };
        let mut rows = leg.rows.iter().filter(|row| row.is_staged());
        rule(
            !rows.any(|row| newer(row.place.partition, row.place.row_id)),
            "a row has changed later",
        )
    }

    /// Changes come from the replica before this one, and are such as its tables can hold.
    fn of_changes(
        &self,
        ctx: &Ctx<'_>,
        from: Address,
        coordinator: &CoordinatorRef,
        chain: &Chain,
        writes: &[StagedWrite],
    ) -> Rule {
        of_chain(chain)?;
        of_coordinator(coordinator.address)?;
        let position = chain.iter().position(|address| *address == ctx.me());
        let before = position.and_then(|at| at.checked_sub(1)).map(|at| chain[at]);
        rule(before == Some(from), "changes come from the replica before")?;
        let fits = |write: &StagedWrite| self.fits(write.partition, write.after.as_ref());
        rule(writes.iter().all(fits), NO_ROW)
    }

    /// Copied rows are such as their table can hold, in slots that memory can hold.
    fn of_copied(
        &self,
        ctx: &Ctx<'_>,
        partition: PartitionId,
        rows: &[(RowId, Epoch, Option<Row>)],
    ) -> Rule {
        let Some(replica) = self.replicas.get(&partition) else { return Ok(()) };
        let slots = u64::from(replica.partition.slot_count());
        let most = slots + ctx.config().data_memory / SLOT_BYTES * LARGER_MEMORIES;
        for (row_id, epoch, row) in rows {
            rule(u64::from(row_id.0) < most, "a row in a slot beyond all memory")?;
            rule(self.fits(partition, row.as_ref()), NO_ROW)?;
            has_begun(ctx, *epoch)?;
        }
        Ok(())
    }

    /// Whether a row, if there is one, is a row of the partition's table.
    fn fits(&self, partition: PartitionId, row: Option<&Row>) -> bool {
        let (Some(replica), Some(row)) = (self.replicas.get(&partition), row) else { return true };
        replica.partition.table().is_row(&row.0)
    }
}

const OTHER_EPOCH: &str = "it has committed in another epoch";
const NO_ROW: &str = "what it says is a row is none of the table";

/// Names a rule that is not kept.
fn rule(kept: bool, name: &'static str) -> Rule {
    if kept { Ok(()) } else { Err(name) }
}

/// Nobody assigns or completes an epoch that this worker was not prepared for. A worker that has
/// not heard of any takes the others' word.
fn has_begun(ctx: &Ctx<'_>, epoch: Epoch) -> Rule {
    let announced = ctx.view().epochs.announced;
    rule(announced == Epoch(0) || epoch <= announced, "the epoch has not begun")
}

/// Each operation is there once: the answer names it by its number. The order is the sender's.
fn of_numbers(operations: &[Operation]) -> Rule {
    let ascending = operations.is_sorted_by(|a, b| a.number < b.number);
    let once = || {
        let numbers: BTreeSet<_> = operations.iter().map(|operation| operation.number).collect();
        numbers.len() == operations.len()
    };
    rule(ascending || once(), "an operation is sent twice at once")?;
    let below = |operation: &Operation| operation.number.0 < SCAN_WAITS_FROM;
    rule(operations.iter().all(below), "an operation has the number of a scan's wait")
}

/// A chain is of participants. Which workers a node has is not asked: the chain may be of an
/// earlier life of that node, which had more. What a worker is sent that is not there is dropped.
fn of_chain(chain: &Chain) -> Rule {
    let participant = |address: &Address| address.actor == ActorKind::Participant;
    rule(chain.iter().all(participant), "a chain is of participants")
}

fn of_coordinator(address: Address) -> Rule {
    let coordinator = address.actor == ActorKind::Coordinator;
    rule(coordinator, "transactions are coordinated by coordinators")
}
