//! What a replica that was copied fetches of change streams: the changes of the epochs before it
//! began to note them itself.
//!
//! # Guarantees
//! The epochs that are fetched are complete, so nothing is added to them any more; those that are
//! noted here begin behind them. So no change is lost between the two, and none is there twice.
//! # Not here
//! When a replica begins to note changes (`streams`).

use std::collections::BTreeMap;

use actor::{Ctx, Mutation, probe};
use model::{ActorKind, Address, ClusterState, Epoch, Incarnation, NodeId, StreamId, WorkerId};
use stdx::{Duration, Instant};
use wire::{Message, RowChange, StreamFetch, StreamMessage, StreamPiece, StreamPosition};

use super::super::Participant;
use super::BYTES_PER_ANSWER;

/// How long an answer is waited for before the question is repeated.
const PATIENCE: Duration = Duration::from_millis(300);

/// The older changes of a slot, on their way from another replica.
#[derive(Debug, Default)]
pub(super) struct Older {
    /// The life of the node that they come from.
    source: Option<(NodeId, Incarnation)>,
    /// Its workers that have more.
    awaited: BTreeMap<Address, Asked>,
    /// The newest epoch that is fetched.
    through: Epoch,
    /// What has come.
    found: BTreeMap<Epoch, Vec<RowChange>>,
    /// The first epoch of which all is there.
    kept_from: Epoch,
}

#[derive(Debug, Default)]
struct Asked {
    position: StreamPosition,
    /// The question under way: its number, and when it was sent.
    question: Option<(u64, Instant)>,
}

impl Older {
    fn from_source(cluster: &ClusterState, source: (NodeId, Incarnation), through: Epoch) -> Self {
        let workers = cluster.members.get(&source.0).map_or(0, |member| member.workers);
        let asked = |worker| {
            let actor = ActorKind::Participant;
            (Address { node: source.0, worker: WorkerId(worker), actor }, Asked::default())
        };
        let awaited = (0..workers).map(asked).collect();
        Self { source: Some(source), awaited, through, ..Self::default() }
    }
}

/// The life of another node that has all of a slot, the primary's if that is another one.
fn source_of(cluster: &ClusterState, slot: u16, me: NodeId) -> Option<(NodeId, Incarnation)> {
    let replicas = cluster.slots[usize::from(slot)].replicas.iter();
    let others = replicas.filter(|replica| !replica.syncing && replica.node != me);
    others.filter_map(|r| Some((r.node, cluster.members.get(&r.node)?.incarnation))).next()
}

impl Participant {
    /// Asks for older changes that are not here yet, and takes those in that are; whether some are
    /// still to come.
    pub(super) fn fetch_older(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let (cluster, me, now) = (ctx.cluster().clone(), ctx.me(), ctx.now());
        let completed = self.completed;
        let streams = &mut self.streams;
        let mut missing = false;
        let mut questions: Vec<(Address, u64, StreamFetch)> = Vec::new();
        for (id, kept) in &mut streams.kept {
            let mut came: Vec<(Epoch, Vec<RowChange>)> = Vec::new();
            for (at, slot) in &mut kept.slots {
                let Some(older) = &mut slot.older else { continue };
                let Some(source) = source_of(&cluster, *at, me.node) else {
                    // Nobody has more than this replica.
                    probe!(ctx, "streams: nobody is left who has older changes");
                    (slot.whole_from, slot.older) = (Some(slot.noted_from), None);
                    continue;
                };
                if older.source != Some(source) {
                    if older.source.is_some() {
                        probe!(ctx, "streams: older changes come from another replica");
                    }
                    let through = match () {
                        () if ctx.mutated(Mutation::StreamsLeaveGaps) => slot.noted_from.0 - 3,
                        () if ctx.mutated(Mutation::StreamsOverlap) => slot.noted_from.0 + 2,
                        () => slot.noted_from.0 - 1,
                    };
                    *older = Older::from_source(&cluster, source, Epoch(through));
                }
                if older.awaited.is_empty() {
                    probe!(ctx, "streams: older changes fetched");
                    slot.whole_from = Some(older.kept_from.min(slot.noted_from));
                    if !ctx.mutated(Mutation::StreamsLackOlder) {
                        came.extend(std::mem::take(&mut older.found));
                    }
                    slot.older = None;
                    continue;
                }
                missing = true;
                let through = older.through;
                if completed < through {
                    continue;
                }
                for (to, asked) in &mut older.awaited {
                    let late = |(_, sent): (u64, Instant)| now.since(sent) >= PATIENCE;
                    if asked.question.is_none_or(late) {
                        streams.requests += 1;
                        asked.question = Some((streams.requests, now));
                        questions.push((*to, streams.requests, fetch(*id, *at, asked, through)));
                    }
                }
            }
            for (epoch, changes) in came {
                kept.add(epoch, changes);
            }
            kept.limit(streams.bytes_max);
        }
        for (to, request, fetch) in questions {
            let fetch = StreamMessage::Fetch { session: None, request, fetch };
            ctx.send(to, Message::Stream(Box::new(fetch)));
        }
        missing
    }

    /// A part of the older changes comes in.
    pub(super) fn older_piece(&mut self, from: Address, request: u64, piece: StreamPiece) {
        for kept in self.streams.kept.values_mut() {
            for slot in kept.slots.values_mut() {
                let Some(older) = &mut slot.older else { continue };
                let Some(asked) = older.awaited.get_mut(&from) else { continue };
                if asked.question.is_none_or(|(number, _)| number != request) {
                    continue;
                }
                let Some(kept_from) = piece.kept_from else {
                    return; // It lacks some itself: it is asked again later.
                };
                if piece.to == asked.position {
                    return; // It has not heard yet that the epochs are complete.
                }
                asked.question = None;
                asked.position = piece.to;
                older.kept_from = older.kept_from.max(kept_from);
                if piece.to.epoch > older.through {
                    older.awaited.remove(&from);
                }
                for epoch in piece.epochs {
                    older.found.entry(epoch.epoch).or_default().extend(epoch.changes);
                }
                return;
            }
        }
    }

    /// Questions may be repeated; done at the end of the turn.
    pub(in crate::participant) fn streams_due(&mut self) {
        self.streams.ticking = false;
    }
}

fn fetch(stream: StreamId, slot: u16, asked: &Asked, through: Epoch) -> StreamFetch {
    let bytes = BYTES_PER_ANSWER as u32;
    StreamFetch { stream, slots: vec![slot], from: asked.position, through, bytes }
}
