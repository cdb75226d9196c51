//! A new file of the control log, which is written beside the one in use.
//!
//! # Owns
//! The state that the file begins with, and how far it is written.
//! # Guarantees
//! A turn encodes one piece of the state and asks for one write, so that nobody waits longer the
//! more tables there are. The file in use takes votes and entries meanwhile. A small state is
//! written at once, when the new file replaces the old one.
//! # Not here
//! When a new file begins (`consensus`), and what follows the state in it (`control::durable`).

use actor::{Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, fault_point, probe};
use model::cluster::{CatalogPiece, Pieces};

use super::Control;
use crate::journal::{self, Record};

/// The lane of all requests of this actor that concern the log.
const LANE: u8 = 0;
/// Requests for pieces count from here.
pub(super) const REQUESTS: u64 = 1 << 62;
/// Bytes that are synced together.
const SYNC_BYTES: u64 = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Draft {
    number: u64,
    /// The last entry of the log that its state contains.
    last: u64,
    pieces: Pieces,
    next: Option<CatalogPiece>,
    /// Frames that were not asked to be written.
    frames: Vec<u8>,
    /// Bytes that were.
    length: u64,
    unsynced: u64,
    /// The request under way.
    asked: Option<Vec<DiskOperation>>,
    /// The disk was full: it is to be asked again.
    refused: bool,
}

impl Draft {
    fn new(number: u64, last: u64, base: Record, mut pieces: Pieces) -> Self {
        let mut frames = Vec::new();
        journal::write(&[base], &mut frames);
        let next = pieces.next();
        let (length, unsynced, asked, refused) = (0, 0, None, false);
        Self { number, last, pieces, next, frames, length, unsynced, asked, refused }
    }

    /// The last entry of the log that its state contains.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether all of the state is written, or goes with what `finish` adds.
    pub(super) fn is_complete(&self) -> bool {
        self.next.is_none() && self.asked.is_none()
    }

    /// Encodes the next piece.
    fn take_piece(&mut self) {
        if let Some(piece) = self.next.take() {
            journal::write(&[Record::Piece(piece)], &mut self.frames);
            self.next = self.pieces.next();
        }
    }

    fn path() -> String {
        format!("{}/new", journal::DIRECTORY)
    }

    /// Writes what was encoded.
    fn write(&mut self) -> Vec<DiskOperation> {
        let mut operations = Vec::new();
        if self.length == 0 {
            let directory = journal::DIRECTORY.to_string();
            operations.extend([
                DiskOperation::CreateDirectory { path: directory },
                DiskOperation::SyncDirectory { path: ".".to_string() },
                DiskOperation::Remove { path: Self::path() },
            ]);
        }
        let (offset, bytes) = (self.length, std::mem::take(&mut self.frames));
        self.length += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        operations.push(DiskOperation::Write { path: Self::path(), offset, bytes });
        operations
    }

    /// The file with these frames at its end takes the place of `before` under the name `path`; its
    /// length.
    pub(super) fn finish(
        mut self,
        path: String,
        before: String,
        frames: &[u8],
    ) -> (Vec<DiskOperation>, u64) {
        self.frames.extend_from_slice(frames);
        let mut operations = self.write();
        operations.extend([
            DiskOperation::Sync { path: Self::path() },
            DiskOperation::Rename { from: Self::path(), to: path },
            DiskOperation::SyncDirectory { path: journal::DIRECTORY.to_string() },
            DiskOperation::Remove { path: before },
        ]);
        (operations, self.length)
    }
}

impl Control {
    /// Whether a new file is being written.
    pub(super) fn is_drafting(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.draft.is_some())
    }

    /// Begins a new file with the applied state.
    pub(super) fn begin_draft(&mut self, ctx: &mut Ctx<'_>) {
        let (last, config) = self.consensus.position();
        let (cluster, voter) = (self.consensus.cluster(), self.voter);
        let base = Record::base(cluster, voter, last, &config, &self.state);
        let pieces = Pieces::of(self.state.clone());
        let durable = self.durable.as_mut().expect("a node with a disk");
        durable.drafts += 1;
        durable.draft = Some(Draft::new(durable.drafts, last.index.get(), base, pieces));
        self.go_on_draft(ctx);
    }

    fn go_on_draft(&mut self, ctx: &mut Ctx<'_>) {
        let durable = self.durable.as_mut().expect("a node with a disk");
        let Some(draft) = &mut durable.draft else { return };
        draft.take_piece();
        if draft.is_complete() {
            return;
        }
        let mut operations = draft.write();
        if draft.unsynced >= SYNC_BYTES {
            operations.push(DiskOperation::Sync { path: Draft::path() });
            draft.unsynced = 0;
        }
        draft.asked = Some(operations.clone());
        ctx.disk(LANE, REQUESTS + draft.number, operations);
        probe!(ctx, "control: piece of a state written");
        fault_point!(ctx, "control: piece of a new log written, not yet on disk");
    }

    /// Asks a disk again that was full.
    pub(super) fn draft_again(&mut self, ctx: &mut Ctx<'_>) {
        let draft = self.durable.as_mut().and_then(|durable| durable.draft.as_mut());
        if let Some(draft) = draft.filter(|draft| draft.refused) {
            draft.refused = false;
            let operations = draft.asked.clone().expect("it was refused");
            ctx.disk(LANE, REQUESTS + draft.number, operations);
        }
    }

    /// A piece was written.
    pub(super) fn draft_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: u64,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        let draft = self.durable.as_mut().and_then(|durable| durable.draft.as_mut());
        let Some(draft) = draft.filter(|draft| REQUESTS + draft.number == token) else {
            probe!(ctx, "control: piece of a state that another one has replaced");
            return;
        };
        match result {
            Ok(_) => {
                draft.asked = None;
                self.go_on_draft(ctx);
                self.write_next(ctx);
            }
            Err(error) if error.kind == DiskErrorKind::Full => {
                draft.asked.as_mut().expect("it was answered").drain(..error.at);
                draft.refused = true;
            }
            Err(error) => self.halt(ctx, Halt::DiskFailed(error.to_string())),
        }
    }
}
