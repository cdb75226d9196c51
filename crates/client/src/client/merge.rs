//! The streams of a scan, one per partition, and their merging into one.
//!
//! Rows of an ordered scan are given out only as long as every stream that can still bring rows
//! has one at hand; rows of others as they come. Rows are not copied: what is given out is the
//! batches, and which rows of them.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, VecDeque, vec_deque};
use std::sync::Arc;

use model::{Address, PartitionId};
use vector::Block;
use wire::{ScanOrder, ScanRows};

use super::route::Life;
use super::rows::{Place, Taken};

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The participant was asked for a batch.
    Asked,
    /// It has more when asked.
    More,
    /// It has sent all.
    Finished,
}

/// The scan of one partition.
#[derive(Debug)]
pub(super) struct Stream {
    /// The participant.
    pub(super) source: Address,
    pub(super) life: Life,
    pub(super) progress: Progress,
    /// Batches none of which is empty.
    batches: VecDeque<Arc<ScanRows>>,
    /// Rows of the first one that are given out.
    given: usize,
    blocks: Vec<Block>,
    /// It has brought rows or blocks, given out or not.
    brought: bool,
}

impl Stream {
    /// Whether something is at hand.
    fn has_some(&self) -> bool {
        !self.batches.is_empty() || !self.blocks.is_empty()
    }

    /// The rows at hand.
    fn ahead(&self) -> Ahead<'_> {
        Ahead { batches: self.batches.iter(), batch: None, at: self.given }
    }

    /// Leaves so many rows behind, which are at hand.
    fn skip(&mut self, mut count: usize) {
        while let Some(first) = self.batches.front()
            && first.len() - self.given <= count
        {
            count -= first.len() - self.given;
            self.given = 0;
            self.batches.pop_front();
        }
        self.given += count;
    }

    /// Moves rows out, at most so many; how many that are.
    fn take(&mut self, most: u64, taken: &mut Vec<Arc<ScanRows>>) -> u64 {
        let mut left = most;
        while left > 0
            && let Some(first) = self.batches.pop_front()
        {
            let from = std::mem::take(&mut self.given);
            let count = (first.len() - from) as u64;
            if count > left {
                let to = from + left as usize;
                taken.push(Arc::new(first.part(from, to)));
                self.batches.push_front(first);
                self.given = to;
                return most;
            }
            left -= count;
            let rest = |first: Arc<ScanRows>| Arc::new(first.part(from, first.len()));
            taken.push(if from == 0 { first } else { rest(first) });
        }
        most - left
    }
}

/// Rows of a stream, one after the other: the batch of each, and its place there.
struct Ahead<'a> {
    batches: vec_deque::Iter<'a, Arc<ScanRows>>,
    batch: Option<&'a Arc<ScanRows>>,
    at: usize,
}

impl<'a> Iterator for Ahead<'a> {
    type Item = (&'a Arc<ScanRows>, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_none_or(|batch| self.at == batch.len()) {
            if self.batch.is_some() {
                self.at = 0;
            }
            self.batch = Some(self.batches.next()?);
        }
        self.at += 1;
        self.batch.map(|batch| (batch, self.at - 1))
    }
}

/// All streams of a scan.
#[derive(Debug, Default)]
pub(super) struct Streams {
    order: Option<ScanOrder>,
    streams: BTreeMap<PartitionId, Stream>,
}

/// The next row of a stream.
struct Head<'a> {
    key: &'a [u8],
    batch: &'a Arc<ScanRows>,
    /// Its place in the batch.
    at: usize,
    /// Which of the streams.
    number: usize,
    order: ScanOrder,
}

impl Streams {
    /// No streams; `order` when they are to be merged.
    pub(super) fn new(order: Option<ScanOrder>) -> Self {
        Self { order, streams: BTreeMap::new() }
    }

    /// Whether rows come out in an order.
    pub(super) fn ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Adds a stream that was asked for its first batch.
    pub(super) fn open(&mut self, partition: PartitionId, source: Address, life: Life) {
        let stream = Stream {
            source,
            life,
            progress: Progress::Asked,
            batches: VecDeque::new(),
            given: 0,
            blocks: Vec::new(),
            brought: false,
        };
        let replaced = self.streams.insert(partition, stream);
        assert!(replaced.is_none(), "{partition} is scanned once");
    }

    /// The stream of a partition.
    pub(super) fn stream_mut(&mut self, partition: PartitionId) -> Option<&mut Stream> {
        self.streams.get_mut(&partition)
    }

    /// Adds a batch to a stream.
    pub(super) fn push(
        &mut self,
        partition: PartitionId,
        rows: ScanRows,
        blocks: Vec<Block>,
        progress: Progress,
    ) {
        let stream = self.streams.get_mut(&partition).expect("the stream was opened");
        stream.brought |= !rows.is_empty() || !blocks.is_empty();
        if !rows.is_empty() {
            stream.batches.push_back(Arc::new(rows));
        }
        stream.blocks.extend(blocks);
        stream.progress = progress;
    }

    /// Takes streams out that have lost their participants, to be opened at others. False, and
    /// nothing is taken, when one of them has brought rows: another would bring them again.
    pub(super) fn take_lost(&mut self, lost: &[PartitionId]) -> bool {
        if lost.iter().any(|partition| self.streams[partition].brought) {
            return false;
        }
        self.streams.retain(|partition, _| !lost.contains(partition));
        true
    }

    /// Streams that may still bring rows.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (PartitionId, &Stream)> {
        let streams = self.streams.iter().map(|(partition, stream)| (*partition, stream));
        streams.filter(|(_, stream)| stream.progress != Progress::Finished)
    }

    /// Participants that were asked for a batch.
    pub(super) fn asked(&self) -> impl Iterator<Item = (PartitionId, Address)> {
        let asked = self.unfinished().filter(|(_, stream)| stream.progress == Progress::Asked);
        asked.map(|(partition, stream)| (partition, stream.source))
    }

    /// Streams that may bring rows or have some at hand.
    pub(super) fn busy(&self) -> usize {
        let busy = |s: &&Stream| s.progress != Progress::Finished || s.has_some();
        self.streams.values().filter(busy).count()
    }

    /// Whether all streams have ended and all rows are given out.
    pub(super) fn exhausted(&self) -> bool {
        self.streams.values().all(|s| s.progress == Progress::Finished && !s.has_some())
    }

    /// Streams to ask for their next batch: nothing at hand, and more to come. They count as
    /// asked from now on.
    pub(super) fn ask_empty(&mut self) -> Vec<(PartitionId, Address)> {
        let mut asked = Vec::new();
        for (partition, stream) in &mut self.streams {
            if stream.progress == Progress::More && !stream.has_some() {
                stream.progress = Progress::Asked;
                asked.push((*partition, stream.source));
            }
        }
        asked
    }

    /// Takes out all blocks.
    pub(super) fn take_blocks(&mut self) -> Vec<Block> {
        self.streams.values_mut().flat_map(|stream| std::mem::take(&mut stream.blocks)).collect()
    }

    /// Takes out the rows that can be given out now, at most `limit`.
    pub(super) fn take_ready(&mut self, limit: u64) -> Taken {
        match self.order {
            None => self.take_any(limit),
            Some(order) => self.take_merged(order, limit),
        }
    }

    fn take_any(&mut self, limit: u64) -> Taken {
        let (mut batches, mut left) = (Vec::new(), limit);
        for stream in self.streams.values_mut() {
            left -= stream.take(left, &mut batches);
        }
        Taken { batches, places: None }
    }

    fn take_merged(&mut self, order: ScanOrder, limit: u64) -> Taken {
        if self.unfinished().any(|(_, stream)| stream.batches.is_empty()) {
            return Taken::default();
        }
        let finished = |stream: &Stream| stream.progress == Progress::Finished;
        let finished: Vec<bool> = self.streams.values().map(finished).collect();
        let mut heads = BinaryHeap::with_capacity(self.streams.len());
        let mut rest: Vec<Ahead<'_>> = self.streams.values().map(Stream::ahead).collect();
        for (number, rest) in rest.iter_mut().enumerate() {
            heads.extend(rest.next().map(|(batch, at)| Head::new(number, batch, at, order)));
        }
        // Of each stream how many rows are taken, and the number of the batch of the last of them.
        let mut counts: Vec<(usize, Option<usize>)> = vec![(0, None); rest.len()];
        let (mut batches, mut places): (Vec<Arc<ScanRows>>, Vec<Place>) = (Vec::new(), Vec::new());
        while (places.len() as u64) < limit
            && let Some(mut first) = heads.peek_mut()
        {
            let Head { batch, at, number, .. } = *first;
            let (count, last) = &mut counts[number];
            let same = last.filter(|last| Arc::ptr_eq(&batches[*last], batch));
            let place = same.unwrap_or_else(|| {
                batches.push(batch.clone());
                batches.len() - 1
            });
            places.push(Place { batch: place, at });
            (*count, *last) = (*count + 1, Some(place));
            match rest[number].next() {
                Some((batch, at)) => *first = Head::new(number, batch, at, order),
                None if finished[number] => drop(PeekMut::pop(first)),
                // What it brings next may come before all other heads.
                None => break,
            }
        }
        for (stream, (count, _)) in self.streams.values_mut().zip(counts) {
            stream.skip(count);
        }
        Taken { batches, places: Some(places) }
    }
}

impl<'a> Head<'a> {
    fn new(number: usize, batch: &'a Arc<ScanRows>, at: usize, order: ScanOrder) -> Self {
        let (key, _) = batch.get(at);
        Self { key, batch, at, number, order }
    }
}

impl Ord for Head<'_> {
    /// The greatest comes out first.
    fn cmp(&self, other: &Self) -> Ordering {
        let ascending = self.key.cmp(other.key).then_with(|| self.number.cmp(&other.number));
        match self.order {
            ScanOrder::Ascending => ascending.reverse(),
            ScanOrder::Descending => ascending,
        }
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

#[cfg(test)]
mod tests {
    use model::{ActorKind, Incarnation, NodeId, PartitionIndex, TableId, WorkerId};
    use stdx::Prng;

    use super::*;

    /// Feeds random batches of random streams; what comes out must be the sorted whole.
    fn merge_randomly(seed: u64, order: ScanOrder) {
        let mut prng = Prng::new(seed);
        let node = NodeId(1);
        let source = Address { node, worker: WorkerId(0), actor: ActorKind::Participant };
        let life = Life { node, incarnation: Incarnation(1) };
        let mut streams = Streams::new(Some(order));
        let mut all: Vec<u8> = Vec::new();
        let mut inputs = BTreeMap::new();
        for index in 0..prng.between(1, 6) as u16 {
            let partition = PartitionId { table: TableId(1), index: PartitionIndex(index) };
            streams.open(partition, source, life);
            let mut input: Vec<u8> = (0..prng.below(40)).map(|_| prng.below(50) as u8).collect();
            all.extend(&input);
            input.sort_unstable();
            if order == ScanOrder::Descending {
                input.reverse();
            }
            inputs.insert(partition, VecDeque::from(input));
        }
        all.sort_unstable();
        if order == ScanOrder::Descending {
            all.reverse();
        }
        let mut out = Vec::new();
        while !streams.exhausted() {
            let asked: Vec<PartitionId> = streams
                .unfinished()
                .filter(|(_, stream)| stream.progress == Progress::Asked)
                .map(|(partition, _)| partition)
                .collect();
            if asked.is_empty() {
                let taken = streams.take_ready(prng.between(1, 9));
                out.extend(taken.rows().map(|row| row[0]));
                streams.ask_empty();
                continue;
            }
            let partition = *prng.pick(&asked);
            let input = inputs.get_mut(&partition).expect("a stream");
            let count = (prng.below(5) as usize).min(input.len());
            let mut rows = ScanRows::default();
            input.drain(..count).for_each(|v| rows.push(&[v], &[v]));
            let progress = if input.is_empty() { Progress::Finished } else { Progress::More };
            streams.push(partition, rows, Vec::new(), progress);
            let taken = streams.take_ready(prng.between(1, 9));
            out.extend(taken.rows().map(|row| row[0]));
            streams.ask_empty();
        }
        assert_eq!(out, all, "seed {seed}");
    }

    #[test]
    fn merged_streams_come_out_sorted() {
        for seed in 0..200 {
            merge_randomly(seed, ScanOrder::Ascending);
            merge_randomly(seed, ScanOrder::Descending);
        }
    }
    #[test]
    fn rows_without_an_order_come_as_they_were_brought() {
        let place = |index| PartitionId { table: TableId(1), index: PartitionIndex(index) };
        let node = NodeId(1);
        let source = Address { node, worker: WorkerId(0), actor: ActorKind::Participant };
        let life = Life { node, incarnation: Incarnation(1) };
        let mut streams = Streams::new(None);
        for (index, rows) in [(0, &[1, 2, 3][..]), (1, &[4]), (2, &[5, 6])] {
            streams.open(place(index), source, life);
            let mut batch = ScanRows::default();
            rows.iter().for_each(|v| batch.push(&[], &[*v]));
            streams.push(place(index), batch, Vec::new(), Progress::Finished);
        }
        let mut take = |limit| {
            let taken = streams.take_ready(limit);
            taken.rows().map(|row| row[0]).collect::<Vec<u8>>()
        };
        assert_eq!(take(2), [1, 2]);
        assert_eq!(take(3), [3, 4, 5]);
        assert_eq!(take(9), [6]);
        assert!(take(9).is_empty());
        assert!(streams.exhausted());
    }
}
