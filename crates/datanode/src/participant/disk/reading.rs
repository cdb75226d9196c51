//! Reads files of the worker one after the other, some pieces ahead of what is being worked on.

use std::collections::VecDeque;

use actor::{Ctx, DiskOperation};
use ondisk::FileName;
use stdx::Instant;

use super::progress::StepProgress;
use super::{Asked, LOG_LANE, Requests};

/// Bytes that are read, and worked on in one turn.
const PIECE: u64 = 256 << 10;
/// Pieces asked for ahead.
const AHEAD: usize = 4;

/// Files that are being read.
#[derive(Debug)]
pub(super) struct Reading {
    files: VecDeque<(FileName, u64)>,
    /// How much of the first file has been asked for.
    asked_to: u64,
    /// Pieces asked for, in order: the file, and whether it is its last.
    asked: VecDeque<(FileName, bool)>,
    bytes: StepProgress,
    began: Instant,
}

impl Reading {
    /// Reads files of these lengths in this order, from now on.
    pub(super) fn of(files: impl IntoIterator<Item = (FileName, u64)>, now: Instant) -> Self {
        let files: VecDeque<(FileName, u64)> = files.into_iter().collect();
        let bytes = StepProgress { done: 0, total: files.iter().map(|(_, len)| *len).sum() };
        Self { files, asked_to: 0, asked: VecDeque::new(), bytes, began: now }
    }

    /// Asks for the next pieces. False when everything has been read.
    pub(super) fn go_on(&mut self, ctx: &mut Ctx<'_>, requests: &mut Requests) -> bool {
        while self.asked.len() < AHEAD {
            let Some((file, len)) = self.files.front().copied() else { break };
            let (offset, length) = (self.asked_to, PIECE.min(len - self.asked_to));
            let path = requests.path(file);
            let read = vec![DiskOperation::Read { path, offset, length }];
            requests.ask(ctx, LOG_LANE, Asked::Piece, read);
            self.asked_to += length;
            let last = self.asked_to == len;
            self.asked.push_back((file, last));
            if last {
                self.files.pop_front();
                self.asked_to = 0;
            }
        }
        !self.asked.is_empty()
    }

    /// A piece has come, with so many bytes: of which file it is, and whether it is its last.
    pub(super) fn taken(&mut self, bytes: usize) -> (FileName, bool) {
        self.bytes.done = self.bytes.total.min(self.bytes.done + bytes as u64);
        self.asked.pop_front().expect("pieces are asked for")
    }

    /// Bytes that have come, and all that are to come.
    pub(super) fn progress(&self) -> StepProgress {
        self.bytes
    }

    /// When it began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }
}
