//! A subscription to a change stream: whom to ask next, and what is known for certain.
//!
//! # Owns
//! Which replica is read of each placement slot, how far each has given its changes, and how far
//! all have.
//! # Guarantees
//! 1. Epochs are delivered in order, each once, and when all of its changes are there, whichever
//!    replicas they came from.
//! 2. When a replica is lost in the middle, another one is read from the first epoch on that has
//!    not been delivered: what the lost one gave of later epochs is forgotten.
//! 3. When no replica has the next epoch any more, the subscription says so and delivers nothing
//!    else.
//! # Limits
//! All changes of an epoch are in memory when it is delivered.
//! # Not here
//! Messages (`client::stream`).

use std::collections::{BTreeMap, BTreeSet};

use model::{ActorKind, Address, ClusterState, Epoch, Incarnation, NodeId, StreamId, WorkerId};
use wire::{RowChange, StreamFetch, StreamPiece, StreamPosition};

/// Bytes that each participant is asked for at a time.
const BYTES_PER_FETCH: u32 = 256 << 10;

type Life = (NodeId, Incarnation);

/// What a round of answers has brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// Nothing more than before.
    Nothing,
    /// All changes up to an epoch.
    Epochs {
        /// The newest epoch delivered.
        through: Epoch,
        /// Epochs with changes, ascending; those of a row in the order in which they were made.
        changes: Vec<(Epoch, Vec<RowChange>)>,
        /// When epochs ended, ascending: microseconds since 1970 in UTC. One whose time nobody
        /// knows ended before the next one did.
        ended: Vec<(Epoch, u64)>,
    },
    /// The next epoch is not kept any more. The stream goes on at this one.
    Broken {
        /// The first epoch that some replica of each slot still has.
        from: Epoch,
    },
}

/// A subscription to a change stream.
#[derive(Debug)]
pub struct Subscription {
    stream: StreamId,
    /// Epochs up to this one have been delivered.
    delivered: Epoch,
    /// Who is read of each slot.
    readers: BTreeMap<u16, Life>,
    /// Replicas that did not give what was asked for: they come last. The first epoch that they
    /// have, if they say.
    poor: BTreeMap<(u16, Life), Option<Epoch>>,
    /// The complete replicas of each slot.
    complete: BTreeMap<u16, Vec<Life>>,
    positions: BTreeMap<Address, StreamPosition>,
    found: BTreeMap<Epoch, Vec<RowChange>>,
    /// The newest epoch that a replica has called complete.
    newest: Epoch,
    /// Slots that no table uses any more, with an epoch after all of their changes.
    ends: BTreeMap<u16, Epoch>,
    /// A node group has gone whose last changes were not fetched: what is whole begins here.
    lost: Option<Epoch>,
    /// When epochs ended that have not been delivered.
    ended: BTreeMap<Epoch, u64>,
    /// The latest time delivered.
    ended_last: u64,
}

impl Subscription {
    /// A subscription that has everything up to an epoch.
    pub fn new(stream: StreamId, delivered: Epoch) -> Self {
        Self {
            stream,
            delivered,
            readers: BTreeMap::new(),
            poor: BTreeMap::new(),
            complete: BTreeMap::new(),
            positions: BTreeMap::new(),
            found: BTreeMap::new(),
            newest: delivered,
            ends: BTreeMap::new(),
            lost: None,
            ended: BTreeMap::new(),
            ended_last: 0,
        }
    }

    /// The same, of somebody who was told that the last epoch had ended at a time: those that are
    /// delivered have ended later.
    #[must_use]
    pub fn after(mut self, ended: u64) -> Self {
        self.ended_last = ended;
        self
    }

    /// The stream.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Epochs up to this one have been delivered.
    pub fn delivered(&self) -> Epoch {
        self.delivered
    }

    /// Whom to ask for what; nobody while some slot has no replica that serves.
    pub fn fetches(&mut self, cluster: &ClusterState) -> Vec<(Address, StreamFetch)> {
        if !self.choose(cluster) {
            return Vec::new();
        }
        let mut slots: BTreeMap<Life, Vec<u16>> = BTreeMap::new();
        for (slot, life) in &self.readers {
            slots.entry(*life).or_default().push(*slot);
        }
        let mut fetches = Vec::new();
        for (life, slots) in slots {
            for to in participants(cluster, life.0) {
                let begin = StreamPosition { epoch: self.delivered.next(), changes: 0 };
                let from = *self.positions.entry(to).or_insert(begin);
                let fetch = StreamFetch {
                    stream: self.stream,
                    slots: slots.clone(),
                    from,
                    through: EVER,
                    bytes: BYTES_PER_FETCH,
                };
                fetches.push((to, fetch));
            }
        }
        fetches
    }

    /// Sees to it that each slot has a reader that is a complete replica; false if one has none.
    fn choose(&mut self, cluster: &ClusterState) -> bool {
        // Of a group that was dropped nobody is left to be asked.
        let there = |at: usize| cluster.is_used(at) || !cluster.slots[at].replicas.is_empty();
        let there: Vec<usize> = (0..cluster.slots.len()).filter(|at| there(*at)).collect();
        let mut changed = self.readers.len() != there.len();
        let mut all = !there.is_empty();
        self.note_ends(cluster, &there);
        for at in there {
            let (at, slot) = (at as u16, &cluster.slots[at]);
            let complete = slot.replicas.iter().filter(|replica| !replica.syncing);
            let lives: Vec<Life> = complete
                .filter_map(|r| Some((r.node, cluster.members.get(&r.node)?.incarnation)))
                .collect();
            self.poor.retain(|(of, life), _| *of != at || lives.contains(life));
            self.complete.insert(at, lives.clone());
            let rich = |life: &Life| !self.poor.contains_key(&(at, *life));
            let present = self.readers.get(&at);
            if present.is_some_and(|life| lives.contains(life) && rich(life)) {
                continue;
            }
            changed = true;
            // Those that say nothing are asked again when all others have less.
            let silent = |life: &&Life| self.poor.get(&(at, **life)) == Some(&None);
            let next = lives.iter().find(|life| rich(life)).or(lives.iter().find(silent)).copied();
            match next.or(lives.first().copied()) {
                Some(life) => {
                    if self.poor.get(&(at, life)) == Some(&None) {
                        self.poor.remove(&(at, life));
                    }
                    self.readers.insert(at, life);
                }
                None => {
                    self.readers.remove(&at);
                    all = false;
                }
            }
        }
        if changed {
            self.positions.clear();
            self.found.clear();
        }
        all
    }

    /// Notes from which epoch on slots have no changes that no table uses any more, and forgets
    /// those that are gone.
    fn note_ends(&mut self, cluster: &ClusterState, there: &[usize]) {
        // Tables left the slot before this state; what they changed is in epochs that have begun.
        let begun = Epoch(self.newest.0 + EPOCHS_BEGUN);
        for at in there {
            if cluster.is_used(*at) {
                self.ends.remove(&(*at as u16));
            } else {
                self.ends.entry(*at as u16).or_insert(begun);
            }
        }
        let there: BTreeSet<u16> = there.iter().map(|at| *at as u16).collect();
        let gone: Vec<u16> =
            self.readers.keys().copied().filter(|slot| !there.contains(slot)).collect();
        for slot in gone {
            self.readers.remove(&slot);
            self.complete.remove(&slot);
            self.poor.retain(|(of, _), _| *of != slot);
            let end = self.ends.remove(&slot);
            if end.is_none_or(|end| self.delivered < end) {
                self.lost = Some(self.newest.max(self.delivered).next());
            }
        }
    }

    /// Takes the answers to what [`Subscription::fetches`] has said; those that are missing were
    /// not given.
    pub fn take(
        &mut self,
        fetches: &[(Address, StreamFetch)],
        answers: Vec<(Address, StreamPiece)>,
    ) -> Delivery {
        let answered: BTreeSet<Address> = answers.iter().map(|(from, _)| *from).collect();
        let mut lacking: Vec<(Address, Option<Epoch>)> = fetches
            .iter()
            .filter(|(to, _)| !answered.contains(to))
            .map(|(to, _)| (*to, None))
            .collect();
        if let Some(from) = self.lost {
            return Delivery::Broken { from };
        }
        let next = self.delivered.next();
        for (from, piece) in answers {
            self.newest = self.newest.max(piece.complete);
            if piece.kept_from.is_none_or(|kept_from| kept_from > next) {
                lacking.push((from, piece.kept_from));
                continue;
            }
            self.positions.insert(from, piece.to);
            // Whoever has it has it from the same driver.
            self.ended.extend(piece.ended.into_iter().filter(|(epoch, _)| *epoch >= next));
            for epoch in piece.epochs {
                self.found.entry(epoch.epoch).or_default().extend(epoch.changes);
            }
        }
        if !lacking.is_empty() {
            return self.lacks(lacking);
        }
        let Some(to) = self.positions.values().map(|position| position.epoch).min() else {
            return Delivery::Nothing;
        };
        let later = self.found.split_off(&to);
        let changes: Vec<_> = std::mem::replace(&mut self.found, later).into_iter().collect();
        let through = Epoch(to.0 - 1);
        if through <= self.delivered {
            return Delivery::Nothing;
        }
        self.delivered = through;
        let later = self.ended.split_off(&to);
        let mut ended: Vec<_> = std::mem::replace(&mut self.ended, later).into_iter().collect();
        // A driver that died with all who had heard of a time may have been ahead of the next one.
        for (_, at) in &mut ended {
            *at = (*at).max(self.ended_last + 1);
            self.ended_last = *at;
        }
        Delivery::Epochs { through, changes, ended }
    }

    /// Some replicas lack what is wanted: others are read from now on, if there are any.
    fn lacks(&mut self, lacking: Vec<(Address, Option<Epoch>)>) -> Delivery {
        for (from, has) in lacking {
            let read = self.readers.iter().filter(|(_, life)| life.0 == from.node);
            for place in read.map(|(slot, life)| (*slot, *life)) {
                // Of a node's workers the one with the least counts.
                let known = self.poor.entry(place).or_insert(has);
                *known = (*known).max(has);
            }
        }
        self.positions.clear();
        self.found.clear();
        // A slot of which all replicas say that they have less.
        let first_of = |(slot, lives): (&u16, &Vec<Life>)| -> Option<Epoch> {
            let has = lives.iter().map(|life| self.poor.get(&(*slot, *life)).copied().flatten());
            has.collect::<Option<Vec<Epoch>>>()?.into_iter().min()
        };
        match self.complete.iter().filter_map(first_of).max() {
            Some(from) => Delivery::Broken { from },
            None => Delivery::Nothing,
        }
    }
}

/// Epochs that may have begun after the newest that a replica has called complete.
const EPOCHS_BEGUN: u64 = 3;

/// Later than all epochs.
const EVER: Epoch = Epoch((1 << 62) - 1);

fn participants(cluster: &ClusterState, node: NodeId) -> impl Iterator<Item = Address> + use<> {
    let workers = cluster.members.get(&node).map_or(0, |member| member.workers);
    let actor = ActorKind::Participant;
    (0..workers).map(move |worker| Address { node, worker: WorkerId(worker), actor })
}

/// The questions that tell from which epoch on a new stream has everything: to all complete
/// replicas, so that each of them can serve a subscription that begins there.
pub fn opening(stream: StreamId, cluster: &ClusterState) -> Vec<(Address, StreamFetch)> {
    let mut slots: BTreeMap<NodeId, Vec<u16>> = BTreeMap::new();
    for (at, slot) in cluster.slots.iter().enumerate() {
        for replica in slot.replicas.iter().filter(|replica| !replica.syncing) {
            slots.entry(replica.node).or_default().push(at as u16);
        }
    }
    let from = StreamPosition { epoch: EVER, changes: 0 };
    let fetch = |slots| StreamFetch { stream, slots, from, through: Epoch(0), bytes: 0 };
    let of_node = |(node, slots): (NodeId, Vec<u16>)| {
        let fetch = fetch(slots);
        participants(cluster, node).map(move |to| (to, fetch.clone()))
    };
    slots.into_iter().flat_map(of_node).collect()
}

/// What the answers to [`opening`] say: everything from this epoch on is kept; nothing while
/// somebody does not know yet.
pub fn opened(
    fetches: &[(Address, StreamFetch)],
    answers: &[(Address, StreamPiece)],
) -> Option<Epoch> {
    if fetches.is_empty() || fetches.len() != answers.len() {
        return None;
    }
    answers
        .iter()
        .map(|(_, piece)| piece.kept_from)
        .try_fold(Epoch(0), |first, kept| kept.map(|kept| first.max(kept)))
}

#[cfg(test)]
mod tests;
