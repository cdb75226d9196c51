//! What the disk has of one partition: the checkpoints its restart can begin with.
//!
//! # Guarantees
//! The base is the checkpoint that the log names; it, those it continues and all later ones are on
//! the disk, and so are the log's records since the first change after it.

use model::{Epoch, PartitionId};
use ondisk::checkpoint::CheckpointHeader;
use ondisk::redo::{Base, Position};

/// What a restart of the partition can begin with: a checkpoint, or nothing.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The checkpoint's header; none when the partition begins empty.
    pub(super) header: Option<CheckpointHeader>,
    /// The newest epoch in it: it counts when that one does.
    pub(super) newest: Epoch,
    /// The first record that a restart beginning here must replay.
    first_change: Option<Position>,
}

/// The checkpoints of one partition.
#[derive(Debug)]
pub(in crate::participant) struct Stored {
    /// Oldest first; never empty.
    starts: Vec<Start>,
    /// The start that the log names.
    base: usize,
    /// The checkpoint that is being written, and the changes counted before it began.
    draft: Option<(Start, u64)>,
    /// Some start has seen no change yet.
    unchanged: bool,
    /// Changes since the newest checkpoint began.
    changes: u64,
    next_sequence: u32,
}

impl Start {
    pub(super) fn sequence(&self) -> u32 {
        self.header.map_or(0, |header| header.sequence)
    }

    pub(super) fn of(header: CheckpointHeader, newest: Epoch) -> Self {
        Self { header: Some(header), newest, first_change: None }
    }
}

impl Default for Stored {
    fn default() -> Self {
        Self::of(Vec::new(), 1)
    }
}

impl Stored {
    /// A partition whose restart begins with the last of these checkpoints, or empty.
    pub(super) fn of(mut starts: Vec<Start>, next_sequence: u32) -> Self {
        if starts.is_empty() {
            starts.push(Start { header: None, newest: Epoch(0), first_change: None });
        }
        let base = starts.len() - 1;
        Self { starts, base, draft: None, unchanged: true, changes: 0, next_sequence }
    }

    /// A record of the partition lies at this place of the log. True if it is the oldest that a
    /// restart needs.
    #[inline]
    pub(super) fn changed(&mut self, position: Position) -> bool {
        self.changes += 1;
        self.unchanged && self.first_changed(position)
    }

    fn first_changed(&mut self, position: Position) -> bool {
        self.unchanged = false;
        let needed_none = self.needed().is_none();
        let starts = self.starts.iter_mut().chain(self.draft.iter_mut().map(|(draft, _)| draft));
        for start in starts {
            start.first_change.get_or_insert(position);
        }
        needed_none
    }

    /// Whether anything has changed since the newest checkpoint, and where that began.
    pub(super) fn changed_at(&self) -> Option<Position> {
        self.newest_start().first_change
    }

    /// Changes since the newest checkpoint.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The newest start.
    pub(super) fn newest_start(&self) -> &Start {
        self.starts.last().expect("there is a start")
    }

    /// The number for the next checkpoint.
    pub(super) fn next_sequence(&self) -> u32 {
        self.next_sequence
    }

    /// A checkpoint begins.
    pub(super) fn begin_draft(&mut self, header: CheckpointHeader) {
        assert!(self.draft.is_none(), "{}: one checkpoint at a time", header.partition);
        self.draft = Some((Start::of(header, Epoch(0)), self.changes));
        self.next_sequence += 1;
        self.unchanged = true;
        self.changes = 0;
    }

    /// The checkpoint is given up.
    pub(super) fn abandon_draft(&mut self) {
        if let Some((_, changes)) = self.draft.take() {
            self.changes += changes;
        }
    }

    /// The checkpoint is on the disk.
    pub(super) fn end_draft(&mut self, newest: Epoch) {
        let (draft, _) = self.draft.take().expect("a checkpoint under way");
        self.starts.push(Start { newest, ..draft });
    }

    /// The restart begins with the newest checkpoint that counts at this epoch. True when that is
    /// another one than before.
    pub(super) fn rebase(&mut self, epoch: Epoch) -> bool {
        let counts = |start: &Start| start.newest <= epoch;
        let newest = self.starts.iter().rposition(counts).unwrap_or(self.base);
        let moved = newest > self.base;
        self.base = self.base.max(newest);
        moved
    }

    /// Whether there is a checkpoint newer than the one that the log names.
    pub(super) fn has_newer(&self) -> bool {
        self.base + 1 < self.starts.len()
    }

    /// Forgets the checkpoints that neither the base nor a later one needs; returns their numbers.
    pub(super) fn drop_obsolete(&mut self) -> Vec<u32> {
        let needed = match self.starts[self.base].header {
            None => Vec::new(),
            Some(header) => chain(&header, |sequence| self.header_of(sequence))
                .expect("what the base continues is on the disk"),
        };
        let base = self.starts[self.base].sequence();
        let stays = |start: &Start| start.sequence() >= base || needed.contains(&start.sequence());
        let gone = self.starts.iter().filter(|start| !stays(start)).map(Start::sequence);
        let gone: Vec<u32> = gone.filter(|sequence| *sequence > 0).collect();
        self.starts.retain(stays);
        let base = self.starts.iter().position(|start| start.sequence() == base);
        self.base = base.expect("the base stays");
        gone
    }

    fn header_of(&self, sequence: u32) -> Option<CheckpointHeader> {
        self.starts.iter().filter_map(|start| start.header).find(|h| h.sequence == sequence)
    }

    /// The numbers of all its checkpoints.
    pub(super) fn sequences(&self) -> impl Iterator<Item = u32> {
        self.starts.iter().map(Start::sequence).filter(|sequence| *sequence > 0)
    }

    /// The number of the checkpoint that is being written.
    pub(super) fn draft_sequence(&self) -> Option<u32> {
        self.draft.as_ref().map(|(draft, _)| draft.sequence())
    }

    /// The oldest record that a restart needs; none when it needs none so far.
    pub(super) fn needed(&self) -> Option<Position> {
        self.starts[self.base].first_change
    }

    /// What the log says of the partition. `end` is the end of the log.
    pub(super) fn base_record(&self, partition: PartitionId, end: Position) -> Base {
        let sequence = self.starts[self.base].sequence();
        Base { partition, sequence, redo: self.needed().unwrap_or(end) }
    }
}

/// The checkpoints that make up a partition as of `newest`, oldest first: going back, until each
/// slot is in the slice of one of them, or one needs no other. None when one is missing. A slot
/// that a checkpoint does not know yet has changed since, so later ones have it.
pub(super) fn chain(
    newest: &CheckpointHeader,
    find: impl Fn(u32) -> Option<CheckpointHeader>,
) -> Option<Vec<u32>> {
    let mut missing = vec![(0, newest.slot_count)];
    let mut found = Vec::new();
    let mut header = *newest;
    loop {
        found.push(header.sequence);
        let (from, to) = header.slice;
        let cut = |(first, end): (u32, u32)| {
            let end = end.min(header.slot_count);
            [(first, end.min(from)), (first.max(to), end)]
        };
        missing = missing.into_iter().flat_map(cut).filter(|(first, end)| first < end).collect();
        if header.is_whole() || missing.is_empty() {
            found.reverse();
            return Some(found);
        }
        header = find(header.previous)?;
    }
}
