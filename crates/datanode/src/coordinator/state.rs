//! Transaction records and their legal states.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use model::{
    Address, Epoch, NodeId, OperationNumber, PartitionId, Refusal, TableId, TransactionId,
};
use stdx::{Duration, Few, Instant};
use wire::{Besides, Chain, LegId, OperationOutcome, OperationResult};

use super::deadlock::Searched;
use super::takeover::Life;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Takes operations.
    Open,
    /// Was sent with its commit, in this epoch; its replicas commit it or say why not.
    Delegated(Epoch),
    /// Wants to commit; waits for the epoch switch to end.
    Deciding,
    /// Has its epoch; legs are being committed.
    Committing(Epoch),
    /// All primaries have applied; the other replicas follow.
    Completing(Epoch),
    /// Is being undone.
    Aborting,
}

impl Phase {
    /// Whether `next` may follow.
    pub(super) fn can_become(self, next: Phase) -> bool {
        match (self, next) {
            (
                Phase::Open,
                Phase::Delegated(_) | Phase::Deciding | Phase::Committing(_) | Phase::Aborting,
            ) => true,
            (Phase::Delegated(_), Phase::Open) => true,
            (Phase::Delegated(a), Phase::Completing(b)) => a == b,
            (Phase::Deciding, Phase::Committing(_) | Phase::Aborting) => true,
            (Phase::Committing(a), Phase::Completing(b)) => a == b,
            _ => false,
        }
    }

    /// Whether the commit point is not reached: the transaction can still be aborted.
    pub(super) fn undecided(self) -> bool {
        matches!(self, Phase::Open | Phase::Deciding)
    }

    /// Whether it may yet end in either way, as far as is known here.
    pub(super) fn under_way(self) -> bool {
        self.undecided() || matches!(self, Phase::Delegated(_))
    }
}

/// The part of a transaction in one write chain.
#[derive(Debug)]
pub(super) struct Leg {
    /// Live replicas, primary first.
    pub(super) chain: Chain,
    /// Placement slots the leg's partitions belong to.
    pub(super) slots: Few<usize>,
    /// A change may have been sent down the chain: backups take part in commit and abort. From the
    /// commit point on, one was.
    pub(super) replicated: bool,
    /// A change is staged at every replica.
    pub(super) staged: bool,
    /// A scan was opened in it that waits for locks.
    pub(super) scanned: bool,
    /// The primary has applied.
    pub(super) committed: bool,
    /// Replicas whose answer to complete or abort is awaited.
    pub(super) pending: Chain,
    /// Number of the round under way; answers of earlier ones are ignored.
    pub(super) attempt: u32,
}

impl Leg {
    /// A leg of which nothing was sent.
    pub(super) fn new(chain: Chain) -> Self {
        Self {
            chain,
            slots: Few::new(),
            replicated: false,
            staged: false,
            scanned: false,
            committed: false,
            pending: Chain::EMPTY,
            attempt: 0,
        }
    }
}

/// Where an operation is among those of a batch, which are in the order of their numbers.
fn place_of(progress: &[Progress], number: OperationNumber) -> Option<usize> {
    // Most follow each other without a gap.
    let guess = number.0.checked_sub(progress.first()?.number.0)? as usize;
    if progress.get(guess).is_some_and(|known| known.number == number) {
        return Some(guess);
    }
    progress.binary_search_by_key(&number, |known| known.number).ok()
}

/// What is known of one operation a client sent.
#[derive(Debug)]
pub(super) struct Progress {
    /// The client's number of it.
    pub(super) number: OperationNumber,
    /// Where its row lives.
    pub(super) partition: PartitionId,
    /// How often it was sent.
    pub(super) sent: u32,
    /// Answer to the operation itself.
    pub(super) base: Option<Result<OperationOutcome, Refusal>>,
    /// The leg it ran in.
    pub(super) leg: LegId,
    /// Index changes under way: internal number to leg.
    pub(super) index_pending: BTreeMap<OperationNumber, IndexChange>,
    /// Index changes done.
    pub(super) index_done: Vec<(OperationNumber, LegId)>,
    /// Why it must be undone, once an index change was refused.
    pub(super) failure: Option<Refusal>,
    /// Rollbacks under way.
    pub(super) undoing: u32,
}

/// One change of a hidden table.
#[derive(Debug)]
pub(super) struct IndexChange {
    /// Where it was sent.
    pub(super) leg: LegId,
    /// Absence of the old entry is legal: the index is still being built.
    pub(super) may_be_missing: bool,
    /// Named in the refusal.
    pub(super) index_name: String,
    /// How often it was sent.
    pub(super) sent: u32,
}

impl Progress {
    /// An operation that has not been sent.
    pub(super) fn new(number: OperationNumber, partition: PartitionId) -> Self {
        Self {
            number,
            partition,
            sent: 0,
            base: None,
            leg: LegId(0),
            index_pending: BTreeMap::new(),
            index_done: Vec::new(),
            failure: None,
            undoing: 0,
        }
    }

    /// Whether the operation has its final result.
    pub(super) fn done(&self) -> bool {
        self.base.is_some() && self.index_pending.is_empty() && self.undoing == 0
    }
}

/// What the client waits for.
#[derive(Debug)]
pub(super) enum Batch {
    /// Operations under way.
    Execute {
        /// Client's counter.
        request: u64,
        /// Commit when all have succeeded.
        commit: bool,
        /// What is known of each operation; their numbers ascend.
        progress: Vec<Progress>,
    },
    /// A rollback to a savepoint under way.
    Rollback {
        /// Client's counter.
        request: u64,
        /// Legs that have not answered.
        pending: BTreeSet<LegId>,
    },
    /// Commit or abort under way.
    End {
        /// Client's counter.
        request: u64,
        /// Results of the batch that asked for it.
        results: Vec<OperationResult>,
    },
}

/// One transaction.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: TransactionId,
    /// Who is told; nobody for taken-over transactions and dead clients.
    pub(super) client: Option<Address>,
    /// The dead coordinator it was taken over from.
    pub(super) taken_from: Option<Life>,
    /// The epoch it began in: its age.
    pub(super) began: Epoch,
    pub(super) phase: Phase,
    pub(super) legs: Vec<Leg>,
    /// Tables with changes of this transaction.
    pub(super) written: Few<TableId>,
    /// The client's last operation number.
    pub(super) last_number: OperationNumber,
    /// Operations so far, for the limit.
    pub(super) operation_count: u32,
    pub(super) batch: Option<Batch>,
    /// How long the operations of the batch wait for locks, if its client said.
    pub(super) lock_wait: Option<Duration>,
    /// Requests that came while another was under way.
    pub(super) queued: VecDeque<wire::ClientRequest>,
    /// Changes that participants have made.
    pub(super) changes: u32,
    /// Batches of operations that are through: how often it has gone on.
    pub(super) step: u32,
    /// Lock waits that last, as reported by participants.
    pub(super) waits: BTreeSet<u64>,
    /// Searches for deadlocks that have come by in this step, if any.
    pub(super) searched: Option<Box<Searched>>,
    pub(super) last_active: Instant,
    /// When its commit was asked for.
    pub(super) commit_since: Option<Instant>,
    /// Why it is to be aborted if it is not committed in one phase.
    pub(super) given_up: Option<Refusal>,
}

impl Record {
    /// A fresh transaction.
    pub(super) fn new(id: TransactionId, client: Address, began: Epoch, now: Instant) -> Self {
        Self {
            id,
            client: Some(client),
            taken_from: None,
            began,
            phase: Phase::Open,
            legs: Vec::new(),
            written: Few::new(),
            last_number: OperationNumber(0),
            operation_count: 0,
            batch: None,
            lock_wait: None,
            queued: VecDeque::new(),
            changes: 0,
            step: 0,
            waits: BTreeSet::new(),
            searched: None,
            last_active: now,
            commit_since: None,
            given_up: None,
        }
    }

    /// Moves on; asserts that the step is legal.
    pub(super) fn become_phase(&mut self, next: Phase) {
        assert!(self.phase.can_become(next), "{}: {:?} to {next:?}", self.id, self.phase);
        self.phase = next;
    }

    /// A batch is through: whoever has seen the transaction waiting has seen another step.
    pub(super) fn goes_on(&mut self) {
        self.step = self.step.wrapping_add(1);
        self.searched = None;
    }

    /// Whether any leg has a replica on `node`.
    pub(super) fn touches(&self, node: NodeId) -> bool {
        self.legs.iter().any(|leg| leg.chain.iter().any(|a| a.node == node))
    }

    /// The leg for `chain`, made if new.
    pub(super) fn leg_for(&mut self, chain: Chain, slot: usize) -> LegId {
        let at = self.legs.iter().position(|leg| leg.chain == chain).unwrap_or_else(|| {
            self.legs.push(Leg::new(chain));
            self.legs.len() - 1
        });
        let slots = &mut self.legs[at].slots;
        if !slots.contains(&slot) {
            slots.push(slot);
        }
        LegId(at as u16)
    }

    /// What is known of an operation of the batch under way.
    pub(super) fn progress_mut(&mut self, number: OperationNumber) -> Option<&mut Progress> {
        let Some(Batch::Execute { progress, .. }) = &mut self.batch else { return None };
        let at = place_of(progress, number)?;
        Some(&mut progress[at])
    }

    /// The partition of an operation of the batch under way.
    pub(super) fn partition_of(&self, number: OperationNumber) -> Option<PartitionId> {
        let Some(Batch::Execute { progress, .. }) = &self.batch else { return None };
        Some(progress[place_of(progress, number)?].partition)
    }

    /// Why an operation of the batch under way before this one is to be undone, if one is.
    pub(super) fn earlier_failure(&self, number: OperationNumber) -> Option<Refusal> {
        let Some(Batch::Execute { progress, .. }) = &self.batch else { return None };
        let mut earlier = progress.iter().take_while(|known| known.number < number);
        earlier.find_map(|known| known.failure.clone())
    }

    /// Notes that the transaction writes to a table.
    pub(super) fn writes_to(&mut self, table: TableId) {
        if !self.written.contains(&table) {
            self.written.push(table);
        }
    }

    /// What the transaction holds and does besides an operation that is sent now.
    pub(super) fn besides(&self) -> Besides {
        let Some(Batch::Execute { progress, .. }) = &self.batch else { return Besides::Operations };
        let others = progress.len() > 1 || self.legs.iter().any(|leg| leg.scanned);
        if others || progress.iter().any(|one| one.base.is_some()) {
            Besides::Operations
        } else if self.operation_count > 1 {
            Besides::Locks
        } else {
            Besides::Nothing
        }
    }

    /// Legs in which something of the transaction may wait for a lock: an operation that is not
    /// answered, or a scan.
    pub(super) fn waiting_legs(&self) -> BTreeSet<LegId> {
        let scanned = self.legs.iter().enumerate().filter(|(_, leg)| leg.scanned);
        let mut legs: BTreeSet<LegId> = scanned.map(|(at, _)| LegId(at as u16)).collect();
        if let Some(Batch::Execute { progress, .. }) = &self.batch {
            for operation in progress {
                legs.extend(
                    (operation.base.is_none() && operation.sent > 0).then_some(operation.leg),
                );
                legs.extend(operation.index_pending.values().map(|change| change.leg));
            }
        }
        legs
    }

    /// Whether an operation with this internal number is not answered.
    pub(super) fn awaits(&self, number: OperationNumber) -> bool {
        let Some(Batch::Execute { progress, .. }) = &self.batch else { return false };
        let client = number::client(number);
        let found = progress.binary_search_by_key(&client, |known| known.number).ok();
        found.is_some_and(|at| {
            if number::is_base(number) {
                progress[at].base.is_none()
            } else {
                progress[at].index_pending.contains_key(&number)
            }
        })
    }

    /// The leg with this number.
    pub(super) fn leg_mut(&mut self, leg: LegId) -> Option<&mut Leg> {
        self.legs.get_mut(usize::from(leg.0))
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        let one_phase = matches!(self.phase, Phase::Delegated(_));
        assert!(one_phase || self.given_up.is_none(), "{}: given up in silence", self.id);
        for leg in &self.legs {
            match self.phase {
                Phase::Open | Phase::Delegated(_) | Phase::Deciding => {
                    assert!(leg.pending.is_empty() && !leg.committed, "{}: early answer", self.id);
                }
                Phase::Completing(_) => {
                    assert!(leg.committed || !leg.replicated, "{}: completes early", self.id);
                }
                Phase::Committing(_) | Phase::Aborting => {}
            }
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.id, self.phase)?;
        for (at, leg) in self.legs.iter().enumerate() {
            let state = if leg.committed { "committed" } else { "" };
            write!(f, " leg {at} [{} {}] ", leg.chain, leg.replicated)?;
            write!(f, "{state} awaits {:?}", leg.pending)?;
        }
        match &self.batch {
            None => {}
            Some(Batch::Execute { request, progress, .. }) => {
                let open = progress.iter().filter(|known| !known.done());
                let open: Vec<u64> = open.map(|known| known.number.0).collect();
                write!(f, " request {request} awaits operations {open:?}")?;
            }
            Some(Batch::Rollback { request, pending }) => {
                write!(f, " request {request} rolls back {pending:?}")?;
            }
            Some(Batch::End { request, .. }) => write!(f, " request {request} ends it")?,
        }
        write!(f, " waits {:?}", self.waits)
    }
}

/// Operation numbers inside the cluster: the client's number, then a count of the changes of
/// hidden tables that the operation caused. So a savepoint covers them too.
pub(super) mod number {
    use model::OperationNumber;

    /// Largest number a client may use.
    pub(in crate::coordinator) const CLIENT_MAX: u64 = u32::MAX as u64;

    /// The internal number of a client's operation.
    pub(in crate::coordinator) fn internal(client: OperationNumber) -> OperationNumber {
        OperationNumber(client.0 << 8)
    }

    /// The number of the operation's `nth` change of a hidden table, from 1.
    pub(in crate::coordinator) fn of_index(client: OperationNumber, nth: u64) -> OperationNumber {
        assert!((1..256).contains(&nth), "index change {nth} of one operation");
        OperationNumber(client.0 << 8 | nth)
    }

    /// The client's number behind an internal one.
    pub(in crate::coordinator) fn client(internal: OperationNumber) -> OperationNumber {
        OperationNumber(internal.0 >> 8)
    }

    /// Whether an internal number is that of the client's operation itself.
    pub(in crate::coordinator) fn is_base(internal: OperationNumber) -> bool {
        internal.0 & 0xFF == 0
    }

    /// The last internal number that belongs to a client's operation.
    pub(in crate::coordinator) fn last_of(client: OperationNumber) -> OperationNumber {
        OperationNumber(client.0 << 8 | 0xFF)
    }
}
