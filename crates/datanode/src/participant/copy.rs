//! Copying a replica: the primary's walk over its slots, and what the new replica makes of it.
//!
//! # Guarantees
//! No slot is read while a transaction has a change of it staged: such a transaction may have begun
//! before the new replica was in the chain, and would commit past it. The walk waits in the row's
//! lock queue. Everything else that commits later was prepared with the new chain, and so reaches
//! the new replica too. It may come along another link, before the row that was copied: what a
//! transaction has changed here stays.
//!
//! A copy ends when every transaction that began before the new replica was in its chain has ended
//! here. Until then it may be decided one way here and the other way by those who take over: rows
//! and outcomes of it must not outlive this replica in the new one, which has no record of it.
//! # Costs
//! A message of a copy, and the end of one, cost the same however many partitions are being copied:
//! what is unfinished, has a turn to come, or waits for older transactions is listed apart.
//! # Not here
//! Who is to be copied (`placement`), when a node is complete (`control`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use actor::{Ctx, Mutation, Tally, fault_point, probe};
use model::{
    ActorKind, Address, Epoch, Incarnation, MemberStatus, NodeId, PartitionId, Row, RowId,
    TransactionId, WorkerId,
};
use stdx::{Duration, Instant};
use store::lock_table::{Grant, LockAnswer, LockKey, LockOwner, Mode as LockMode};
use wire::{Continue, ControlMessage, Message, ParticipantMessage};

use super::Participant;
use super::leg::{FOREIGN_OWNERS, Leg, LegHandle, Place};
use super::outcomes::Told;

/// Outcomes in a message, as a multiple of the rows in one.
const OUTCOMES_PER_ROW: usize = 8;

/// Before all addresses.
const FIRST_ADDRESS: Address =
    Address { node: NodeId(0), worker: WorkerId(0), actor: ActorKind::Control };

/// Why a claimed slot is known to its leg.
const CLAIMED: &str = "the claims of slots and of legs are the same";

/// One row or empty slot on its way: place, epoch of its last change, content.
pub(super) type CopiedSlot = (RowId, Epoch, Option<Row>);

/// A copy this primary sends.
#[derive(Debug)]
struct Source {
    copy: u64,
    from: Epoch,
    /// The next slot.
    next: u32,
    /// Messages sent and not acknowledged.
    unacknowledged: u32,
    owner: LockOwner,
    /// In a lock queue.
    waiting: bool,
    sent: Sent,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) began: Instant,
    /// None while it is under way.
    pub(super) ended: Option<Instant>,
    /// Slots that were looked at, and all there are.
    pub(super) looked_at: u32,
    pub(super) slots: u32,
    /// Slots that had changed since the target's epoch, and the bytes of their rows.
    pub(super) changed: u64,
    pub(super) bytes: u64,
}

impl Sent {
    fn begun(now: Instant) -> Self {
        Self { began: now, ended: None, looked_at: 0, slots: 0, changed: 0, bytes: 0 }
    }

    /// How long it has taken so far, or altogether.
    pub(super) fn taken(&self, now: Instant) -> Duration {
        self.ended.unwrap_or(now).since(self.began)
    }

    /// How long it will take, if the slots that are left cost what the others did.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let left = u128::from(self.slots.saturating_sub(self.looked_at));
        let nanos = u128::from(self.taken(now).as_nanos()) * left;
        let left = nanos.checked_div(self.looked_at.into())?;
        u64::try_from(left).ok().map(Duration::from_nanos)
    }
}

/// A copy this replica receives.
#[derive(Debug)]
struct Target {
    source: Address,
    incarnation: Incarnation,
    copy: u64,
    done: bool,
}

/// All copies, both ways.
#[derive(Debug, Default)]
pub(super) struct Copies {
    sources: BTreeMap<(PartitionId, Address), Source>,
    /// Those of `sources` that are in need of another turn.
    pending: BTreeSet<(PartitionId, Address)>,
    /// Those whose slots are all read, while transactions of older chains have not ended.
    draining: BTreeSet<(PartitionId, Address)>,
    targets: BTreeMap<PartitionId, Target>,
    /// How far each life of a target has been told of outcomes.
    told: BTreeMap<(Address, Incarnation), Told>,
    /// Syncing replicas that have not been given all rows.
    unfinished: BTreeSet<PartitionId>,
    /// Those of them that nobody was asked for.
    unasked: BTreeSet<PartitionId>,
    /// The last copy to each node that has come to its end.
    ended: BTreeMap<(PartitionId, NodeId), Sent>,
    copies: u64,
    owners: u32,
    continuing: bool,
    /// The one that has had a turn last, of those that were cut.
    last: Option<(PartitionId, Address)>,
}

impl Copies {
    /// Drops all copies.
    pub(super) fn clear(&mut self) {
        // Numbers go on, so that nothing late is taken for an answer to a new request.
        let copies = self.copies;
        *self = Self { copies, ..Self::default() };
    }

    /// A replica of the partition is to be given all rows.
    pub(super) fn expect_target(&mut self, partition: PartitionId) {
        self.unfinished.insert(partition);
        self.unasked.insert(partition);
    }

    /// The partition is complete, or not ours any more.
    pub(super) fn forget_target(&mut self, partition: PartitionId) {
        self.targets.remove(&partition);
        self.unfinished.remove(&partition);
        self.unasked.remove(&partition);
    }

    /// The partition is gone.
    pub(super) fn forget_partition(&mut self, partition: PartitionId) {
        self.forget_target(partition);
        let sources = self.sources.range((partition, FIRST_ADDRESS)..);
        let sources = sources.map(|(key, _)| *key).take_while(|key| key.0 == partition);
        for key in sources.collect::<Vec<_>>() {
            self.remove_source(key);
        }
        let ended = self.ended.range((partition, NodeId(0))..=(partition, NodeId(u16::MAX)));
        for key in ended.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.ended.remove(&key);
        }
    }

    fn remove_source(&mut self, key: (PartitionId, Address)) -> Option<Source> {
        self.pending.remove(&key);
        self.draining.remove(&key);
        self.sources.remove(&key)
    }

    /// Copies to other nodes, under way and ended.
    pub(super) fn sent(&self) -> impl Iterator<Item = (PartitionId, NodeId, &Sent)> {
        let under_way = self.sources.iter().map(|(key, source)| (key.0, key.1.node, &source.sent));
        under_way.chain(self.ended.iter().map(|(key, sent)| (key.0, key.1, sent)))
    }

    /// Copies under way to other nodes.
    pub(super) fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// Whether some of them wait for transactions of older chains.
    pub(super) fn any_drains(&self) -> bool {
        !self.draining.is_empty()
    }
}

impl Participant {
    /// A syncing replica asks for the rows of a partition.
    pub(super) fn copy_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        target: Address,
        partition: PartitionId,
        from: Epoch,
        copy: u64,
    ) {
        let key = (partition, target);
        self.end_source(key);
        if !self.copies_to(ctx, partition, target) {
            // The asker was removed while its request was on the way.
            probe!(ctx, "copy: request of a replica that is not syncing");
            return;
        }
        probe!(ctx, "copy: begun");
        self.copies.owners = (self.copies.owners + 1) % FOREIGN_OWNERS;
        let owner = LockOwner(FOREIGN_OWNERS + self.copies.owners);
        let source = Source {
            copy,
            from,
            next: 0,
            unacknowledged: 0,
            owner,
            waiting: false,
            sent: Sent::begun(ctx.now()),
        };
        self.copies.ended.remove(&(partition, target.node));
        self.copies.sources.insert(key, source);
        self.step_copy(ctx, key);
    }

    /// Whether this worker is the primary that copies the partition to the target.
    fn copies_to(&self, ctx: &Ctx<'_>, partition: PartitionId, target: Address) -> bool {
        let cluster = ctx.cluster();
        self.replicas.contains_key(&partition)
            && cluster.primary(partition) == Some(ctx.me())
            && cluster.replica_syncing(partition, target.node) == Some(true)
            && cluster.participant(partition, target.node) == target
    }

    /// The target has taken a message in.
    pub(super) fn copy_ack(
        &mut self,
        ctx: &mut Ctx<'_>,
        target: Address,
        partition: PartitionId,
        copy: u64,
    ) {
        let key = (partition, target);
        let Some(source) = self.copies.sources.get_mut(&key) else { return };
        if source.copy == copy {
            source.unacknowledged = source.unacknowledged.saturating_sub(1);
            if !source.waiting && !self.copies.pending.contains(&key) {
                self.step_copy(ctx, key);
            }
        }
    }

    /// Goes on with the next one of the copies that have had their turn cut.
    pub(super) fn continue_copies(&mut self, ctx: &mut Ctx<'_>) {
        self.copies.continuing = false;
        let pending = &self.copies.pending;
        // The next one behind the last that had a turn, or else the first.
        let behind = |last| (Bound::Excluded(last), Bound::Unbounded);
        let next = self.copies.last.and_then(|last| pending.range(behind(last)).next());
        let Some(key) = next.or(pending.first()).copied() else { return };
        self.copies.last = Some(key);
        self.copies.pending.remove(&key);
        self.step_copy(ctx, key);
        if !self.copies.pending.is_empty() {
            self.keep_copying(ctx);
        }
    }

    fn keep_copying(&mut self, ctx: &mut Ctx<'_>) {
        if !self.copies.continuing {
            self.copies.continuing = true;
            ctx.send(ctx.me(), Message::Continue(Continue::Copies));
        }
    }

    /// Sends the next rows of a copy, as far as window, locks and the length of a turn allow.
    fn step_copy(&mut self, ctx: &mut Ctx<'_>, key: (PartitionId, Address)) {
        let mut slots_left = ctx.step_rows(Continue::Copies);
        let batch = ctx.config().copy_batch_rows.max(1) as usize;
        let window = ctx.config().copy_window.max(1);
        loop {
            let source = self.copies.sources.get_mut(&key).expect("a copy under way");
            if source.waiting || source.unacknowledged >= window {
                return;
            }
            if slots_left == 0 {
                self.copies.pending.insert(key);
                self.keep_copying(ctx);
                return;
            }
            let mut rows = Vec::new();
            let mut end = self.collect_slots(ctx, key, &mut rows, batch, &mut slots_left);
            let drains = end.is_some() && self.has_older_legs(ctx, key.1);
            if drains {
                probe!(ctx, "copy: waits for the end of older transactions");
                end = None;
            }
            let source = self.copies.sources.get_mut(&key).expect("a copy under way");
            let copy = source.copy;
            if drains {
                self.copies.draining.insert(key)
            } else {
                self.copies.draining.remove(&key)
            };
            if rows.is_empty() && end.is_none() {
                if drains {
                    return;
                }
                continue;
            }
            if end.is_some() && self.send_outcomes(ctx, key.0, key.1, copy) {
                probe!(ctx, "copy: more outcomes than fit into a message");
                end = None;
                slots_left = slots_left.saturating_sub(1);
                if rows.is_empty() {
                    continue;
                }
            }
            let source = self.copies.sources.get_mut(&key).expect("a copy under way");
            source.unacknowledged += 1;
            if end.is_some() {
                let sent = Sent { ended: Some(ctx.now()), ..source.sent };
                self.copies.remove_source(key);
                self.copies.ended.insert((key.0, key.1.node), sent);
            }
            let message =
                ParticipantMessage::CopyRows { partition: key.0, copy, rows, finished: end };
            ctx.send(key.1, Message::Participant(message));
            fault_point!(ctx, "copy: rows sent");
            if end.is_some() {
                return;
            }
        }
    }

    /// Whether transactions have not ended here that changed rows in chains without the target's
    /// present life.
    fn has_older_legs(&self, ctx: &Ctx<'_>, target: Address) -> bool {
        let member = ctx.cluster().members.get(&target.node);
        let Some(joined_at) = member.map(|member| member.joined_at) else { return false };
        let is_older = |leg: &Leg| {
            leg.began < joined_at || !leg.chain.iter().any(|replica| replica.node == target.node)
        };
        self.legs.unordered().any(|(_, leg)| leg.has_changes() && is_older(leg))
    }

    /// Ends the copies for which only older transactions had to be waited for, if they have ended.
    pub(super) fn end_drained_copies(&mut self, ctx: &mut Ctx<'_>) {
        let drains: Vec<(PartitionId, Address)> = self.copies.draining.iter().copied().collect();
        for key in drains {
            if !self.has_older_legs(ctx, key.1) {
                self.step_copy(ctx, key);
            }
        }
    }

    /// Reads slots into a message. Returns the number of slots when the last one was read.
    fn collect_slots(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: (PartitionId, Address),
        rows: &mut Vec<CopiedSlot>,
        batch: usize,
        slots_left: &mut u32,
    ) -> Option<u32> {
        let source = self.copies.sources.get_mut(&key).expect("a copy under way");
        let replica = self.replicas.get_mut(&key.0).expect("copied partitions are here");
        while source.next < replica.partition.slot_count() {
            if rows.len() >= batch || *slots_left == 0 {
                return None;
            }
            *slots_left -= 1;
            let row_id = RowId(source.next);
            let touched = replica.claims.get(row_id).and_then(|handle| {
                self.legs.leg(handle).rows.at(Place { partition: key.0, row_id })
            });
            if let Some(staged) = touched.filter(|row| row.is_staged())
                && !ctx.mutated(Mutation::CopyIgnoresLocks)
            {
                let (lock, ticket) = (LockKey(staged.hash), u64::from(source.next));
                let answer = replica.locks.request(lock, source.owner, LockMode::Shared, ticket);
                assert_eq!(answer, LockAnswer::Waiting, "a staged row is locked");
                probe!(ctx, "copy: waits for a transaction");
                source.waiting = true;
                return None;
            }
            let epoch = replica.partition.slot_epoch(row_id);
            if epoch > source.from {
                let row = replica.partition.row(row_id).map(|bytes| Row(bytes.into()));
                source.sent.changed += 1;
                let size = row.as_ref().map_or(0, |row| row.0.len() as u64);
                source.sent.bytes += size;
                ctx.shared().tallies.add(Tally::CopyBytes, size);
                rows.push((row_id, epoch, row));
            }
            source.next += 1;
            (source.sent.looked_at, source.sent.slots) =
                (source.next, replica.partition.slot_count());
        }
        Some(replica.partition.slot_count())
    }

    /// Tells the new replica how the last transactions of some sessions ended, unless it has been
    /// told of all; whether there may be more to tell.
    fn send_outcomes(
        &mut self,
        ctx: &mut Ctx<'_>,
        partition: PartitionId,
        target: Address,
        copy: u64,
    ) -> bool {
        let Some(member) = ctx.cluster().members.get(&target.node) else { return false };
        let life = member.incarnation;
        let told = self.copies.told.entry((target, life)).or_default();
        let most = ctx.config().copy_batch_rows.max(1) as usize * OUTCOMES_PER_ROW;
        let outcomes = self.outcomes.next_to_tell(told, most);
        if outcomes.is_empty() {
            return false;
        }
        let (forgotten, more) = (self.outcomes.forgotten(), outcomes.len() == most);
        if let Some(source) = self.copies.sources.get_mut(&(partition, target)) {
            source.unacknowledged += 1;
        }
        let message = ParticipantMessage::CopyOutcomes { partition, copy, outcomes, forgotten };
        ctx.send(target, Message::Participant(message));
        fault_point!(ctx, "copy: outcomes sent");
        more
    }

    /// A copy's wait for a transaction is over. The lock is given up at once: the slot is read
    /// before anyone else can change it.
    pub(super) fn copy_granted(&mut self, ctx: &mut Ctx<'_>, partition: PartitionId, grant: Grant) {
        if let Some(replica) = self.replicas.get_mut(&partition) {
            let mut grants = Vec::new();
            replica.locks.release(grant.key, grant.owner, &mut grants);
            self.note_grants(partition, grants);
        }
        let of_grant = self.copies.sources.iter_mut().find(|(_, s)| s.owner == grant.owner);
        if let Some((key, source)) = of_grant {
            source.waiting = false;
            let key = *key;
            self.step_copy(ctx, key);
        }
    }

    /// Stops sending a copy.
    fn end_source(&mut self, key: (PartitionId, Address)) {
        let Some(source) = self.copies.remove_source(key) else { return };
        if let Some(replica) = self.replicas.get_mut(&key.0) {
            let mut grants = Vec::new();
            replica.locks.release_all(source.owner, &mut grants);
            self.note_grants(key.0, grants);
        }
    }

    /// Starts and stops copies as the cluster state demands; `places` says whether replicas may lie
    /// elsewhere than before, or have other duties.
    pub(super) fn copies_changed(&mut self, ctx: &mut Ctx<'_>, places: bool) {
        if places {
            let keys: Vec<(PartitionId, Address)> = self.copies.sources.keys().copied().collect();
            for key in keys {
                if !self.copies_to(ctx, key.0, key.1) {
                    probe!(ctx, "copy: target lost");
                    self.end_source(key);
                }
            }
        }
        let cluster = ctx.cluster().clone();
        self.copies.told.retain(|(target, life), _| cluster.member(target.node, *life).is_some());
        let me = cluster.member(ctx.node(), ctx.incarnation());
        if me.is_none_or(|member| member.status != MemberStatus::Syncing) {
            return; // It is in no chain as one that is being given rows.
        }
        let wanted = if places { &self.copies.unfinished } else { &self.copies.unasked };
        for partition in wanted.iter().copied().collect::<Vec<_>>() {
            // Kept from an earlier life and not in the chain yet: nothing to ask for.
            if cluster.replica_syncing(partition, ctx.node()) != Some(true) {
                continue;
            }
            let Some(source) = cluster.primary(partition) else { continue };
            let Some(member) = cluster.members.get(&source.node) else { continue };
            let incarnation = member.incarnation;
            let known = self.copies.targets.get(&partition);
            let asked = known.is_some_and(|target| {
                target.done || (target.source == source && target.incarnation == incarnation)
            });
            if asked {
                continue;
            }
            if known.is_some() {
                probe!(ctx, "copy: source lost, asks the next primary");
            }
            self.copies.copies += 1;
            let copy = self.copies.copies;
            let target = Target { source, incarnation, copy, done: false };
            self.copies.targets.insert(partition, target);
            self.copies.unasked.remove(&partition);
            let from = self.replicas[&partition].complete_to(self.completed);
            let request = ParticipantMessage::CopyRequest { partition, from, copy };
            ctx.send(source, Message::Participant(request));
        }
        self.report_synced(ctx);
    }

    /// Rows of a partition come in.
    pub(super) fn copy_rows(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (PartitionId, u64),
        rows: Vec<CopiedSlot>,
        finished: Option<u32>,
    ) {
        let (partition, copy) = name;
        let Some(target) = self.expected(from, partition, copy) else {
            probe!(ctx, "copy: rows of an earlier copy");
            return;
        };
        target.done = finished.is_some();
        if target.done {
            self.copies.unfinished.remove(&partition);
        }
        let replica = self.replicas.get_mut(&partition).expect("copied partitions are here");
        if ctx.mutated(Mutation::CopiesUndoChanges) {
            replica.overtaken = None;
        }
        let before = replica.partition.memory_bytes();
        for (row_id, epoch, row) in rows {
            let staged = replica.claims.get(row_id);
            let row = row.as_ref().map(|row| &row.0[..]);
            if replica.is_overtaken(row_id) && epoch <= replica.partition.slot_epoch(row_id) {
                probe!(ctx, "copy: a change has overtaken the copied slot");
                continue;
            }
            if !replica.partition.apply_copy(row_id, epoch, row, staged.is_some()) {
                probe!(ctx, "copy: slot is newer than the copied one");
                continue;
            }
            if let Some(disk) = &mut self.disk {
                disk.changed(&mut replica.stored, Place { partition, row_id }, epoch, row);
            }
            if let Some(handle) = staged.filter(|_| row.is_none()) {
                // A leftover row was in the slot when the change was staged; it is gone, and the
                // slot is reserved for the change.
                let leg = self.legs.leg_mut(handle);
                leg.rows.at_mut(Place { partition, row_id }).expect(CLAIMED).reserved = true;
            }
        }
        self.memory.changed(before, replica.partition.memory_bytes());
        fault_point!(ctx, "copy: rows taken, before they are acknowledged");
        match finished {
            Some(slots) => {
                probe!(ctx, "copy: finished");
                let overtaken = replica.overtaken.take().unwrap_or_default();
                let stays = |row_id: RowId| overtaken.contains(row_id);
                replica.partition.truncate(slots, stays);
                if let Some(disk) = &mut self.disk {
                    disk.copied(&mut replica.stored, partition, slots);
                    // A restart drops all slots beyond: those that stay come again behind that.
                    let beyond = (slots..replica.partition.slot_count()).map(RowId);
                    for row_id in beyond.filter(|row_id| overtaken.contains(*row_id)) {
                        let Some(row) = replica.partition.row(row_id) else { continue };
                        let epoch = replica.partition.slot_epoch(row_id);
                        let place = Place { partition, row_id };
                        disk.changed(&mut replica.stored, place, epoch, Some(row));
                    }
                }
                // Leftover rows that were in slots with staged changes are gone.
                let mut claims: Vec<(RowId, LegHandle)> = replica.claims.iter().collect();
                claims.sort_unstable();
                for (row_id, handle) in claims {
                    if !replica.occupied(row_id) {
                        replica.partition.reserve(row_id);
                        let leg = self.legs.leg_mut(handle);
                        leg.rows.at_mut(Place { partition, row_id }).expect(CLAIMED).reserved =
                            true;
                    }
                }
                self.report_synced(ctx);
            }
            None => self.acknowledge_copy(ctx, from, partition, copy),
        }
    }

    /// The copy a message belongs to, if that is the one under way.
    fn expected(
        &mut self,
        from: Address,
        partition: PartitionId,
        copy: u64,
    ) -> Option<&mut Target> {
        let target = self.copies.targets.get_mut(&partition)?;
        (target.copy == copy && target.source == from && !target.done).then_some(target)
    }

    /// Outcomes that belong to copied rows come in. They are true whatever has become of the copy
    /// they came with, and are told once.
    pub(super) fn copy_outcomes(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        partition: PartitionId,
        copy: u64,
        outcomes: &[(TransactionId, Epoch)],
        forgotten: bool,
    ) {
        let limit = ctx.config().outcomes_max;
        for (transaction, epoch) in outcomes {
            self.outcomes.record(*transaction, *epoch, limit);
        }
        self.outcomes.inherit_forgotten(forgotten);
        self.acknowledge_copy(ctx, from, partition, copy);
    }

    /// Whether all rows that this worker was to be given are here.
    pub(super) fn all_rows_are_here(&self) -> bool {
        self.copies.unfinished.is_empty()
    }

    /// Whether everything this worker was to be given is here, in all indexes and for all change
    /// streams too: a replica that has kept rows may still be building one that was made meanwhile.
    pub(super) fn copies_are_done(&self) -> bool {
        let syncing = |id: &PartitionId| self.replicas.get(id).is_some_and(|r| r.syncing);
        self.copies.unfinished.is_empty()
            && !self.unbuilt.iter().any(syncing)
            && !self.streams.are_unsettled()
    }

    /// Panics when what is listed apart is not what it is said to be.
    pub(super) fn check_copies(&self) {
        let Copies { sources, pending, draining, targets, unfinished, unasked, .. } = &self.copies;
        let listed = pending.iter().chain(draining).all(|key| sources.contains_key(key));
        assert!(listed, "turns to come of copies that have ended");
        assert!(unasked.is_subset(unfinished), "nobody is asked for what is here");
        for (id, replica) in &self.replicas {
            let done = targets.get(id).is_some_and(|target| target.done);
            let missing = replica.syncing && !done;
            assert_eq!(unfinished.contains(id), missing, "{id}: rows that are missing");
            let reads = self.disk.as_ref().is_some_and(|disk| disk.reads_rows());
            let unbuilt = missing && !reads && replica.partition.needs_indexes();
            assert!(!unbuilt || self.unbuilt.contains(id), "{id}: an index that nobody builds");
        }
        assert!(unfinished.iter().all(|id| self.replicas.contains_key(id)), "rows of nothing");
    }

    /// Tells the node's control actor when everything this worker was to be given is here, and no
    /// epoch is called durable any more that it has not on its disk.
    pub(super) fn report_synced(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster();
        let me = cluster.member(ctx.node(), ctx.incarnation());
        if me.is_none_or(|member| member.status != MemberStatus::Syncing) {
            return;
        }
        if self.copies_are_done() && self.disk.as_ref().is_none_or(|disk| disk.is_waited_for()) {
            let worker = ctx.me().worker;
            let control =
                Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
            let synced = ControlMessage::WorkerSynced { worker, reached: cluster.index };
            ctx.send(control, Message::Control(Box::new(synced)));
        }
    }
}
