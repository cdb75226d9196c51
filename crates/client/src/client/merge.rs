//! The streams of a scan, one per partition, and their merging into one.
//!
//! Rows of an ordered scan are given out only as long as every stream that can still bring rows
//! has one at hand; rows of others as they come.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use model::{Address, PartitionId, Row};
use vector::Block;
use wire::{ScanOrder, ScanRow};

use super::route::Life;

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
    rows: VecDeque<ScanRow>,
    blocks: Vec<Block>,
    /// It has brought rows or blocks, given out or not.
    brought: bool,
}

impl Stream {
    /// Whether something is at hand.
    fn has_some(&self) -> bool {
        !self.rows.is_empty() || !self.blocks.is_empty()
    }
}

/// All streams of a scan.
#[derive(Debug, Default)]
pub(super) struct Streams {
    order: Option<ScanOrder>,
    streams: BTreeMap<PartitionId, Stream>,
}

/// The next row of a stream.
struct Head {
    row: ScanRow,
    partition: PartitionId,
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
        let (progress, rows, blocks) = (Progress::Asked, VecDeque::new(), Vec::new());
        let stream = Stream { source, life, progress, rows, blocks, brought: false };
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
        (rows, blocks): (Vec<ScanRow>, Vec<Block>),
        progress: Progress,
    ) {
        let stream = self.streams.get_mut(&partition).expect("the stream was opened");
        stream.brought |= !rows.is_empty() || !blocks.is_empty();
        stream.rows.extend(rows);
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
    pub(super) fn take_ready(&mut self, limit: u64) -> Vec<Row> {
        match self.order {
            None => self.take_any(limit),
            Some(order) => self.take_merged(order, limit),
        }
    }

    fn take_any(&mut self, limit: u64) -> Vec<Row> {
        let mut taken = Vec::new();
        for stream in self.streams.values_mut() {
            while (taken.len() as u64) < limit
                && let Some(row) = stream.rows.pop_front()
            {
                taken.push(row.row);
            }
        }
        taken
    }

    fn take_merged(&mut self, order: ScanOrder, limit: u64) -> Vec<Row> {
        if self.unfinished().any(|(_, stream)| stream.rows.is_empty()) {
            return Vec::new();
        }
        let mut heads = BinaryHeap::with_capacity(self.streams.len());
        for (partition, stream) in &mut self.streams {
            if let Some(row) = stream.rows.pop_front() {
                heads.push(Head { row, partition: *partition, order });
            }
        }
        let mut taken = Vec::new();
        while (taken.len() as u64) < limit
            && let Some(Head { row, partition, .. }) = heads.pop()
        {
            taken.push(row.row);
            let stream = self.streams.get_mut(&partition).expect("heads come from streams");
            match stream.rows.pop_front() {
                Some(row) => heads.push(Head { row, partition, order }),
                None if stream.progress == Progress::Finished => {}
                // What it brings next may come before all other heads.
                None => break,
            }
        }
        for head in heads {
            let stream = self.streams.get_mut(&head.partition).expect("heads come from streams");
            stream.rows.push_front(head.row);
        }
        taken
    }
}

impl Ord for Head {
    /// The greatest comes out first.
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |head: &Self| head.partition;
        let ascending =
            self.row.key.cmp(&other.row.key).then_with(|| place(self).cmp(&place(other)));
        match self.order {
            ScanOrder::Ascending => ascending.reverse(),
            ScanOrder::Descending => ascending,
        }
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

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
                out.extend(taken.iter().map(|row| row.0[0]));
                streams.ask_empty();
                continue;
            }
            let partition = *prng.pick(&asked);
            let input = inputs.get_mut(&partition).expect("a stream");
            let count = (prng.below(5) as usize).min(input.len());
            let rows = input
                .drain(..count)
                .map(|v| ScanRow { key: Box::new([v]), row: Row(Box::new([v])) });
            let rows = (rows.collect(), Vec::new());
            let progress = if input.is_empty() { Progress::Finished } else { Progress::More };
            streams.push(partition, rows, progress);
            let taken = streams.take_ready(prng.between(1, 9));
            out.extend(taken.iter().map(|row| row.0[0]));
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
}
