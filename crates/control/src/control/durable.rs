//! The control log on this node's disk: what waits for it, and how a life begins with what it has.
//!
//! # Owns
//! The file's number and length, the write under way, and the messages that may only be sent when
//! it has ended; when a new file (`draft`) replaces the one in use.
//! # Guarantees
//! 1. Nothing is said to other nodes that depends on a vote, a term or an entry which the disk may
//!    not have.
//! 2. One write is under way at a time; what comes meanwhile is the next one.
//! # Failure
//! A full disk is asked again at each tick, and the node is silent meanwhile: the others go on
//! without it. Any other failure ends the node.
//! # Not here
//! The format (`journal`), when a new file begins (`consensus`).

use std::collections::VecDeque;

use actor::{
    Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, Mutation, fault_point, probe,
};
use ondisk::WATERMARK_FILE;

use super::draft::{self, Draft};
use super::{Control, watermark};
use crate::consensus::{Consensus, Journal, Output, voter_of};
use crate::journal::{self, Record, Stored};

/// The lane of all requests of this actor.
const LANE: u8 = 0;
/// The request that lists the directory; writes count from the ones after `READ`.
const LIST: u64 = 0;
/// The request that reads the newest file.
const READ: u64 = 1;

/// The control log on disk.
#[derive(Debug)]
pub(super) struct Durable {
    /// The file in use; zero before the first.
    file: u64,
    /// Its length.
    length: u64,
    /// What an earlier life has left is known.
    read: bool,
    /// What is to be written next.
    next: Next,
    /// The write under way.
    under_way: Option<Write>,
    /// The last write begun.
    begun: u64,
    /// What may be sent when a write has ended, by its number.
    held: VecDeque<(u64, Output)>,
    /// The next file, which is being written.
    pub(super) draft: Option<Draft>,
    /// Such files that were begun in this life.
    pub(super) drafts: u64,
}

/// What the next write has to bring to the disk.
#[derive(Debug, Default)]
struct Next {
    rebase: bool,
    records: Vec<Record>,
    /// Entries after this one have been replaced since the write under way began.
    replaced: Option<u64>,
}

#[derive(Debug)]
struct Write {
    operations: Vec<DiskOperation>,
    /// The last entry of the log when it began.
    last: u64,
    /// The disk was full: it is to be asked again.
    refused: bool,
}

impl Default for Durable {
    fn default() -> Self {
        Self {
            file: 0,
            length: 0,
            read: false,
            next: Next::default(),
            under_way: None,
            begun: READ,
            held: VecDeque::new(),
            draft: None,
            drafts: 0,
        }
    }
}

impl Next {
    fn is_empty(&self) -> bool {
        !self.rebase && self.records.is_empty()
    }

    fn add(&mut self, journal: Journal) {
        if journal.rebase {
            // The new file holds all that is known when it is written.
            self.rebase = true;
            self.records.clear();
        }
        for record in journal.records {
            if let Record::Append { after, .. } = &record {
                let replaced = self.replaced.unwrap_or(u64::MAX);
                self.replaced = Some(replaced.min(after.index));
            }
            if !self.rebase {
                self.records.push(record);
            }
        }
    }
}

impl Control {
    /// Looks for what an earlier life has left.
    pub(super) fn look_at_disk(&mut self, ctx: &mut Ctx<'_>) {
        let path = journal::DIRECTORY.to_string();
        ctx.disk(LANE, LIST, vec![DiskOperation::List { path }]);
    }

    /// Carries out what the consensus wants, after the disk has what it rests on.
    pub(super) fn perform(&mut self, ctx: &mut Ctx<'_>) {
        let journal = self.consensus.take_journal();
        let outputs = self.consensus.take_outputs();
        let Some(durable) = &mut self.durable else {
            return outputs.into_iter().for_each(|output| self.carry_out(ctx, output));
        };
        let compacted = journal.as_ref().is_some_and(|journal| journal.compacted);
        if let Some(journal) = journal {
            if journal.rebase {
                // What was begun does not fit the log either.
                durable.draft = None;
            }
            durable.next.add(journal);
        }
        if compacted && !durable.next.rebase {
            self.begin_draft(ctx);
        }
        let Some(durable) = &mut self.durable else { return };
        let writes = u64::from(!durable.next.is_empty());
        let last_write = durable.begun + writes;
        let free = writes == 0 && durable.under_way.is_none();
        for output in outputs {
            // An election timer promises nothing.
            if free || matches!(output, Output::Arm) {
                self.carry_out(ctx, output);
            } else {
                let durable = self.durable.as_mut().expect("checked above");
                durable.held.push_back((last_write, output));
            }
        }
        self.write_next(ctx);
    }

    pub(super) fn write_next(&mut self, ctx: &mut Ctx<'_>) {
        let Some(durable) = self.durable.as_mut() else { return };
        if durable.under_way.is_some() {
            return;
        }
        if durable.next.rebase && durable.draft.is_none() {
            self.begin_draft(ctx);
        }
        let Some(durable) = self.durable.as_mut() else { return };
        let draft = durable.draft.take_if(|draft| draft.is_complete());
        if draft.is_none() && (durable.next.rebase || durable.next.is_empty()) {
            return;
        }
        let next = std::mem::take(&mut durable.next);
        let mut bytes = Vec::new();
        let mut operations = match draft {
            // The new file holds all that is known now.
            Some(draft) => {
                journal::write(&self.consensus.tail(draft.last()), &mut bytes);
                durable.begin_file(draft, &bytes)
            }
            None => {
                journal::write(&next.records, &mut bytes);
                durable.append(bytes)
            }
        };
        fault_point!(ctx, "control: log written, not yet on disk");
        let last = self.consensus.last_index();
        durable.begun += 1;
        if ctx.mutated(Mutation::VotesNotSynced) {
            operations.retain(|operation| !matches!(operation, DiskOperation::Sync { .. }));
        }
        let write = Write { operations: operations.clone(), last, refused: false };
        durable.under_way = Some(write);
        ctx.disk(LANE, durable.begun, operations);
    }

    /// Asks a disk again that was full.
    pub(super) fn write_again(&mut self, ctx: &mut Ctx<'_>) {
        self.draft_again(ctx);
        let Some(durable) = self.durable.as_mut() else { return };
        if let Some(write) = durable.under_way.as_mut().filter(|write| write.refused) {
            write.refused = false;
            ctx.disk(LANE, durable.begun, write.operations.clone());
        }
    }

    /// Takes the disk's answer.
    pub(super) fn disk_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: u64,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        match (token, result) {
            (watermark::READ | watermark::WRITE, result) => {
                self.watermark_answered(ctx, token, result);
            }
            (token, result) if token >= draft::REQUESTS => self.draft_answered(ctx, token, result),
            (LIST, Ok(answers)) => self.listed(ctx, &answers),
            (READ, Ok(answers)) => self.read_back(ctx, &answers),
            (LIST | READ, Err(error)) => {
                self.halt(ctx, Halt::DiskFailed(error.to_string()));
            }
            (_, Ok(_)) => self.written(ctx),
            (_, Err(error)) if error.kind == DiskErrorKind::Full => {
                probe!(ctx, "control: no space for the log");
                let durable = self.durable.as_mut().expect("a node with a disk");
                let write = durable.under_way.as_mut().expect("the write that was answered");
                write.operations.drain(..error.at);
                write.refused = true;
            }
            (_, Err(error)) => self.halt(ctx, Halt::DiskFailed(error.to_string())),
        }
    }

    fn written(&mut self, ctx: &mut Ctx<'_>) {
        let durable = self.durable.as_mut().expect("a node with a disk");
        let write = durable.under_way.take().expect("the write that was answered");
        let replaced = durable.next.replaced.unwrap_or(u64::MAX);
        self.consensus.set_kept(write.last.min(replaced));
        let done = durable.begun;
        let later = durable.held.iter().position(|(write, _)| *write > done);
        let later = durable.held.split_off(later.unwrap_or(durable.held.len()));
        let ready = std::mem::replace(&mut durable.held, later);
        for (_, output) in ready {
            self.carry_out(ctx, output);
        }
        self.write_next(ctx);
    }

    fn listed(&mut self, ctx: &mut Ctx<'_>, answers: &[DiskAnswer]) {
        let Some(DiskAnswer::Files(files)) = answers.first() else {
            panic!("a directory is answered with its files");
        };
        let watermark = files.iter().find(|(name, _)| name == WATERMARK_FILE);
        let watermark = watermark.map(|(_, length)| *length);
        let numbered = files
            .iter()
            .filter_map(|(name, length)| journal::number(name).map(|number| (number, *length)));
        let newest = numbered.max();
        self.look_for_watermark(ctx, watermark);
        let durable = self.durable.as_mut().expect("a node with a disk");
        let Some((number, length)) = newest else {
            durable.read = true;
            return self.begin(ctx);
        };
        durable.file = number;
        let path = journal::path(number);
        // An earlier life may have ended before its last sync, and what is read counts as kept.
        let operations = vec![
            DiskOperation::SyncDirectory { path: journal::DIRECTORY.to_string() },
            DiskOperation::Sync { path: path.clone() },
            DiskOperation::Read { path, offset: 0, length },
        ];
        ctx.disk(LANE, READ, operations);
    }

    fn read_back(&mut self, ctx: &mut Ctx<'_>, answers: &[DiskAnswer]) {
        let Some(DiskAnswer::Bytes(bytes)) = answers.last() else {
            panic!("a read is answered with bytes");
        };
        match journal::read(bytes) {
            Ok(stored) => self.resume(ctx, &stored),
            Err(journal::ReadError::Version(_)) => {
                let number = self.durable.as_ref().expect("a node with a disk").file;
                let why = format!("{} was written by a newer version", journal::path(number));
                return self.halt(ctx, Halt::DiskFailed(why));
            }
            Err(damage) => {
                let number = self.durable.as_ref().expect("a node with a disk").file;
                self.loss.log_damage = Some(format!("{}: {damage}", journal::path(number)));
                // What this voter has promised is lost, so it votes under a new name.
                probe!(ctx, "control: damaged log given up");
            }
        }
        self.durable.as_mut().expect("a node with a disk").read = true;
        self.begin(ctx);
    }

    /// Goes on as the voter that an earlier life was.
    fn resume(&mut self, ctx: &mut Ctx<'_>, stored: &Stored) {
        probe!(ctx, "control: log read back");
        self.voter = stored.voter;
        self.resumed = true;
        self.state = stored.state.clone();
        self.followers.remember(&self.state);
        let me = voter_of(self.node, self.voter);
        self.consensus = Consensus::resume(me, self.config.election_timeout, stored);
    }
}

impl Durable {
    /// Whether what an earlier life has left is known.
    pub(super) fn is_read(&self) -> bool {
        self.read
    }

    /// Whether the log of this life, or of the one that it goes on from, has a file.
    pub(super) fn has_file(&self) -> bool {
        self.file > 0
    }

    /// A new file replaces the one before when all of it is on the disk.
    fn begin_file(&mut self, draft: Draft, frames: &[u8]) -> Vec<DiskOperation> {
        let before = journal::path(self.file);
        self.file += 1;
        let (operations, length) = draft.finish(journal::path(self.file), before, frames);
        self.length = length;
        operations
    }

    fn append(&mut self, bytes: Vec<u8>) -> Vec<DiskOperation> {
        let path = journal::path(self.file);
        let offset = self.length;
        self.length += bytes.len() as u64;
        vec![
            DiskOperation::Write { path: path.clone(), offset, bytes },
            DiskOperation::Sync { path },
        ]
    }
}
