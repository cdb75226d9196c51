//! Change streams: every replica keeps the committed changes of its partitions, by epoch, until the
//! subscriber of the stream has them.
//!
//! Protocol walk-through: `docs/internals/streams.md`.
//!
//! # Owns
//! The changes that are kept for each stream, from which epoch on they are all here, and what a
//! replica that was copied fetches of the time before.
//! # Guarantees
//! 1. Changes of an epoch are given when the epoch is complete, and then all of them: what was
//!    committed in it is applied at every replica.
//! 2. A replica keeps all changes of a placement slot from the epoch on that follows the newest one
//!    which anybody may have committed in when it began. It is called complete when it has those of
//!    the epochs before too.
//! 3. Whoever asks for what is not here any more is told from which epoch on there is something.
//! 4. Nobody waits for a subscriber: what has no room is dropped, the oldest epochs first.
//! # Costs
//! A change of a table in no stream pays one comparison.
//! # Not here
//! Who asks (`client::subscription`), which streams there are (`model::cluster`).

mod older;

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, Mutation, Timer, fault_point, probe};
use model::cluster::{Stream, is_kept_for_a_time};
use model::{
    ActorKind, Address, ClusterState, Epoch, PartitionId, Row, RowId, SessionId, StreamId,
};
use wire::{
    EpochChanges, Message, RowChange, StreamFetch, StreamMessage, StreamPiece, StreamPosition,
};

use super::Participant;
use super::finish::Commit;
use super::replica::Replica;
use older::Older;

/// Most changes that are looked at for an answer.
const CHANGES_PER_ANSWER: u64 = 4_096;
/// Most bytes of an answer, unless a single change has more.
const BYTES_PER_ANSWER: u64 = 256 << 10;

/// Most times of epochs of an answer.
const ENDS_PER_ANSWER: usize = 1_024;

/// What is kept for change streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    kept: BTreeMap<StreamId, Kept>,
    /// Some slot has not begun to keep changes, or lacks older ones.
    unsettled: bool,
    /// Most bytes for a stream.
    bytes_max: u64,
    /// Limits hold as of this complete epoch.
    limited_at: Epoch,
    /// Counts questions to other replicas.
    requests: u64,
    ticking: bool,
}

/// What is kept for one stream.
#[derive(Debug)]
struct Kept {
    stream: Stream,
    /// It is kept for as long as the configuration says, whoever acknowledges it.
    is_for_a_time: bool,
    /// The subscriber has all epochs up to this one.
    acknowledged: Epoch,
    /// Epochs up to this one are not whole any more.
    dropped: Epoch,
    /// By placement slot.
    slots: BTreeMap<u16, Slot>,
    epochs: BTreeMap<Epoch, Vec<RowChange>>,
    bytes: u64,
}

/// What is kept of the partitions of a placement slot.
#[derive(Debug)]
struct Slot {
    /// Changes are noted from this epoch on.
    noted_from: Epoch,
    /// All changes from this epoch on are here; none while older ones are fetched.
    whole_from: Option<Epoch>,
    older: Option<Older>,
}

/// The streams that have the changes of a replica.
#[derive(Debug)]
pub(super) struct Streamed {
    slot: u16,
    streams: Vec<StreamId>,
}

impl Kept {
    fn new(name: &str, stream: Stream) -> Self {
        let is_for_a_time = is_kept_for_a_time(name);
        let (acknowledged, dropped) = (Epoch(0), Epoch(0));
        let (slots, epochs) = (BTreeMap::new(), BTreeMap::new());
        Self { stream, is_for_a_time, acknowledged, dropped, slots, epochs, bytes: 0 }
    }

    /// Adds changes of an epoch, unless they are not needed any more or not whole.
    fn add(&mut self, epoch: Epoch, changes: impl IntoIterator<Item = RowChange>) {
        if epoch <= self.dropped || epoch <= self.acknowledged {
            return;
        }
        let of_epoch = self.epochs.entry(epoch).or_default();
        for change in changes {
            self.bytes += change.bytes();
            of_epoch.push(change);
        }
    }

    /// Removes the changes of all epochs up to one.
    fn release(&mut self, through: Epoch) {
        while let Some(oldest) = self.epochs.first_entry().filter(|oldest| *oldest.key() <= through)
        {
            let changes = oldest.remove();
            self.bytes -= changes.iter().map(RowChange::bytes).sum::<u64>();
        }
    }

    /// Drops the oldest epochs until the rest fits; whether any was dropped.
    fn limit(&mut self, bytes_max: u64) -> bool {
        let before = self.dropped;
        while self.bytes > bytes_max
            && let Some(oldest) = self.epochs.keys().next().copied()
        {
            self.dropped = oldest;
            self.release(oldest);
        }
        self.dropped > before
    }

    /// The first epoch of which all changes of these slots are here.
    fn kept_from(&self, slots: &[u16]) -> Option<Epoch> {
        let mut from = self.dropped.max(self.acknowledged).next();
        for slot in slots {
            from = from.max(self.slots.get(slot)?.whole_from?);
        }
        Some(from)
    }
}

impl Streams {
    /// Whether some slot has not begun to keep changes, or lacks older ones.
    pub(super) fn are_unsettled(&self) -> bool {
        self.unsettled
    }

    /// Whether epochs have become complete since limits were looked at.
    #[inline]
    pub(super) fn is_behind(&self, completed: Epoch) -> bool {
        !self.kept.is_empty() && completed > self.limited_at
    }

    /// Rows are to be copied, of a new table perhaps: until they are here, changes are applied to
    /// rows that are not as they were. Such a worker has no complete replica.
    fn begin_again(&mut self) {
        for kept in self.kept.values_mut() {
            kept.slots.clear();
            kept.epochs.clear();
            kept.bytes = 0;
        }
        self.unsettled = !self.kept.is_empty();
    }

    /// Notes a change that is about to be applied to a row of a streamed replica.
    pub(super) fn note(
        &mut self,
        replica: &Replica,
        row_id: RowId,
        after: Option<&Row>,
        commit: Commit,
    ) {
        let Some(streamed) = &replica.streamed else { return };
        let before = replica.partition.row(row_id).map(|row| Row(row.into()));
        if before.is_none() && after.is_none() {
            return;
        }
        let Commit { transaction, epoch } = commit;
        let (partition, after) = (replica.partition.id(), after.cloned());
        let change = RowChange { partition, before, after, transaction };
        for id in &streamed.streams {
            let Some(kept) = self.kept.get_mut(id) else { continue };
            let slot = kept.slots.get(&streamed.slot);
            if slot.is_some_and(|slot| epoch >= slot.noted_from) {
                kept.add(epoch, [change.clone()]);
                kept.limit(self.bytes_max);
            }
        }
    }

    /// Panics when what is counted is not what is there.
    pub(super) fn check(&self) {
        for kept in self.kept.values().filter(|kept| kept.epochs.len() < 50) {
            let changes = kept.epochs.values().flatten();
            let bytes: u64 = changes.map(RowChange::bytes).sum();
            assert_eq!(bytes, kept.bytes, "bytes kept for {}", kept.stream.id);
            let oldest = kept.epochs.keys().next();
            let needed = oldest.is_none_or(|oldest| *oldest > kept.dropped);
            assert!(needed, "{}: what was dropped is here", kept.stream.id);
        }
    }
}

impl Participant {
    /// Follows a cluster state with other streams, tables or places.
    pub(super) fn follow_streams(
        &mut self,
        ctx: &mut Ctx<'_>,
        before: &ClusterState,
        places: bool,
    ) {
        let cluster = ctx.cluster().clone();
        if cluster.streams.is_empty() && self.streams.kept.is_empty() {
            return;
        }
        self.streams.bytes_max = ctx.config().buffered_epoch_bytes;
        if !self.all_rows_are_here() {
            self.streams.begin_again();
        }
        let wanted: BTreeMap<StreamId, (&String, &Stream)> =
            cluster.streams.iter().map(|(name, stream)| (stream.id, (name, stream))).collect();
        // Another table may have taken the place of one that a stream names.
        let is_same = |(id, (_, stream)): (&StreamId, &(&String, &Stream))| {
            self.streams.kept.get(id).is_some_and(|kept| kept.stream == **stream)
        };
        let differs = wanted.len() != self.streams.kept.len() || !wanted.iter().all(is_same);
        if differs {
            self.streams.kept.retain(|id, _| wanted.contains_key(id));
            for (id, (name, stream)) in wanted {
                let new = || Kept::new(name, stream.clone());
                let kept = self.streams.kept.entry(id).or_insert_with(new);
                kept.stream.clone_from(stream);
            }
        }
        if differs || places {
            let held = held_slots(&cluster, ctx.me());
            for kept in self.streams.kept.values_mut() {
                kept.slots.retain(|slot, _| held.contains(slot));
            }
            self.streams.unsettled = true;
            let all: Vec<PartitionId> = self.replicas.keys().copied().collect();
            return self.mark_streamed(&cluster, all);
        }
        for change in cluster.table_changes(before) {
            let of_table = self.replicas.range(PartitionId::all_of(*change.key));
            let of_table: Vec<PartitionId> = of_table.map(|(partition, _)| *partition).collect();
            self.mark_streamed(&cluster, of_table);
        }
    }

    /// Notes at replicas which streams have their changes.
    fn mark_streamed(&mut self, cluster: &ClusterState, partitions: Vec<PartitionId>) {
        for partition in partitions {
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            let table = replica.partition.table();
            let kept = self.streams.kept.values().map(|kept| &kept.stream);
            let streams: Vec<StreamId> =
                kept.filter(|stream| stream.has(cluster, table)).map(|stream| stream.id).collect();
            replica.streamed = None;
            if !streams.is_empty() && !cluster.slots.is_empty() {
                let slot = cluster.slot_index(partition) as u16;
                replica.streamed = Some(Box::new(Streamed { slot, streams }));
            }
        }
    }

    /// Begins to keep changes of slots whose rows are all here, and sees to older changes.
    pub(super) fn settle_streams(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster().clone();
        let announced = ctx.view().epochs.announced;
        let rows_are_here = self.all_rows_are_here();
        let (mut unbegun, mut lacks_older) = (false, false);
        for kept in self.streams.kept.values_mut() {
            for slot in held_slots(&cluster, ctx.me()) {
                if kept.slots.contains_key(&slot) {
                    continue;
                }
                let replicas = &cluster.slots[usize::from(slot)].replicas;
                let own = replicas.iter().find(|replica| replica.node == ctx.node());
                let syncing = own.is_none_or(|replica| replica.syncing);
                if announced == Epoch(0) || (syncing && !rows_are_here) {
                    unbegun = true;
                    continue;
                }
                // Nobody commits in it yet: this worker has not been prepared for it. The first
                // replica of a slot that no table has used has all changes: there were none.
                let is_new = !syncing && !cluster.is_used(usize::from(slot));
                let noted_from = if is_new { Epoch(0) } else { announced.next() };
                let whole_from = (!syncing).then_some(noted_from);
                let older = syncing.then(Older::default);
                kept.slots.insert(slot, Slot { noted_from, whole_from, older });
            }
            lacks_older |= kept.slots.values().any(|slot| slot.older.is_some());
        }
        let unsettled = unbegun | (lacks_older && self.fetch_older(ctx));
        if unsettled && !self.streams.ticking {
            // An idle worker has no other turn in which it would go on.
            self.streams.ticking = true;
            ctx.set_timer(Timer::StreamTick, ctx.config().epoch_interval);
        }
        let settled = self.streams.unsettled && !unsettled;
        self.streams.unsettled = unsettled;
        if settled {
            self.report_synced(ctx);
        }
    }

    /// A message about change streams.
    pub(super) fn handle_stream(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        message: StreamMessage,
    ) {
        match message {
            StreamMessage::Fetch { session, request, fetch } => {
                self.stream_fetch(ctx, from, session, request, &fetch);
            }
            StreamMessage::Piece { request, piece, .. } => self.older_piece(from, request, piece),
            StreamMessage::Acknowledge { stream, through } => {
                let completed = self.completed;
                let Some(kept) = self.streams.kept.get_mut(&stream) else { return };
                let through = through.min(completed);
                kept.acknowledged = kept.acknowledged.max(through);
                kept.release(through);
                if ctx.mutated(Mutation::StreamsForgetEarly) {
                    kept.release(Epoch(completed.0 + 1));
                }
            }
        }
    }

    /// Gives what is kept of complete epochs.
    fn stream_fetch(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: Option<SessionId>,
        request: u64,
        fetch: &StreamFetch,
    ) {
        let cluster = ctx.cluster();
        let mut complete = self.completed;
        if ctx.mutated(Mutation::StreamsEndEpochsEarly) {
            complete = ctx.view().epochs.current;
        }
        let nothing = StreamPiece {
            kept_from: None,
            complete,
            epochs: Vec::new(),
            ended: Vec::new(),
            to: fetch.from,
        };
        let mut piece = nothing;
        let kept = self.streams.kept.get(&fetch.stream).filter(|_| !cluster.slots.is_empty());
        if let Some(kept) = kept {
            piece.kept_from = kept.kept_from(&fetch.slots);
            if piece.kept_from.is_some() {
                piece.ended = ctx.view().epochs.ended_from(fetch.from.epoch, ENDS_PER_ANSWER);
                let wanted = |partition: PartitionId| {
                    let slot = cluster.slot_index(partition) as u16;
                    let theirs =
                        session.is_some() || cluster.participant(partition, from.node) == from;
                    theirs && fetch.slots.binary_search(&slot).is_ok()
                };
                give(kept, fetch, complete.min(fetch.through), wanted, &mut piece);
            }
        }
        let answer = StreamMessage::Piece { session, request, piece };
        ctx.send(from, Message::Stream(Box::new(answer)));
        fault_point!(ctx, "streams: changes given");
    }

    /// Drops what subscribers have left for too many epochs, or what takes too much memory.
    pub(super) fn limit_streams(&mut self, ctx: &mut Ctx<'_>) {
        let completed = self.completed;
        self.streams.limited_at = completed;
        let config = ctx.config();
        let most = u64::from(config.buffered_epochs.max(1));
        let interval = config.epoch_interval.as_nanos().max(1);
        let most_in_time = (config.binlog_retention.as_nanos() / interval).max(1);
        let mut dropped = false;
        for kept in self.streams.kept.values_mut() {
            let most = if kept.is_for_a_time { most_in_time } else { most };
            let Some(oldest) = completed.0.checked_sub(most).map(Epoch) else { continue };
            if oldest > kept.acknowledged && oldest > kept.dropped {
                kept.dropped = oldest;
                kept.release(oldest);
                dropped |= kept.slots.values().any(|slot| slot.noted_from < oldest);
            }
        }
        if dropped {
            probe!(ctx, "streams: changes dropped that a subscriber has left for long");
        }
    }
}

/// Adds changes from a position on to a piece.
fn give(
    kept: &Kept,
    fetch: &StreamFetch,
    through: Epoch,
    wanted: impl Fn(PartitionId) -> bool,
    piece: &mut StreamPiece,
) {
    let StreamPosition { epoch: first, changes: given } = fetch.from;
    if through < first {
        return;
    }
    let bytes_max = u64::from(fetch.bytes).min(BYTES_PER_ANSWER);
    let (mut bytes, mut looked_at) = (0, 0);
    for (epoch, of_epoch) in kept.epochs.range(first..=through) {
        let before = if *epoch == first { given } else { 0 };
        let mut changes = Vec::new();
        for (at, change) in of_epoch.iter().enumerate().skip(before as usize) {
            if bytes >= bytes_max || looked_at >= CHANGES_PER_ANSWER {
                piece.to = StreamPosition { epoch: *epoch, changes: at as u64 };
                if !changes.is_empty() {
                    piece.epochs.push(EpochChanges { epoch: *epoch, changes });
                }
                return;
            }
            looked_at += 1;
            if wanted(change.partition) {
                bytes += change.bytes();
                changes.push(change.clone());
            }
        }
        if !changes.is_empty() {
            piece.epochs.push(EpochChanges { epoch: *epoch, changes });
        }
    }
    piece.to = StreamPosition { epoch: through.next(), changes: 0 };
}

/// The placement slots with a replica on the participant's node.
fn held_slots(cluster: &ClusterState, me: Address) -> BTreeSet<u16> {
    assert_eq!(me.actor, ActorKind::Participant);
    let held = |(_, slot): &(usize, &model::cluster::PlacementSlot)| {
        slot.replicas.iter().any(|replica| replica.node == me.node)
    };
    cluster.slots.iter().enumerate().filter(held).map(|(at, _)| at as u16).collect()
}
