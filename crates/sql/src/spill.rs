//! Temporary files for rows that do not fit the memory of a statement.
//!
//! # Owns
//! [`TempFiles`] and [`TempFile`], what the host offers; [`TempSpace`], the budget of an SQL node;
//! the files of a statement and the format of rows in them (`rows`, `blocks`); how rows are spread
//! over partitions by key (`partitions`).
//! # Guarantees
//! Space is given back when the last list of rows in a file is dropped: at the end of a statement,
//! after an error, and with the connection. A disk that is full or fails ends the statement with an
//! error of its own (1021, 1024, 1026); a budget that is used up ends it with 3170.
//! # Invariants
//! A file is written only at its end. What was written is read as often as is wanted, in any order.
//! Nobody waits for a disk here: the host writes behind, and what is read is asked for before and
//! polled. A statement whose bytes are not written yet pauses where it lets others have the worker
//! (`execute::run`), so that only so much of it is on its way.
//! # Limits
//! `nines_temp_space`: of the node the global value, of a statement the session's.
//! # Not here
//! What operators write and when (`execute`); where files are and how they are encrypted: the
//! host's.

pub(crate) mod blocks;
pub mod in_memory;
pub(crate) mod partitions;
pub(crate) mod rows;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sql_expression::SqlError;

use crate::memory::Account;

/// Bytes that are written and read at a time, about.
pub(crate) const FRAME_BYTES: usize = 64 << 10;
/// Bytes of a connection that may be on their way to files: as many again as partitions have in
/// their buffers.
const BEHIND_MAX: u64 = 1 << 20;
/// Frames that are asked for before the one at hand has been looked at.
const AHEAD: usize = 1;
/// The first value of `nines_temp_space`, in bytes.
const DEFAULT_LIMIT: u64 = 16 << 30;

/// Who waits for the host's disk.
pub(crate) trait DiskWaiter {
    /// Lets others have the worker until the host may have gone on with temporary files. `turns`
    /// counts how often that was done for the same bytes.
    ///
    /// # Errors
    /// The statement was interrupted.
    async fn wait_for_disk(&self, turns: &mut u32) -> Result<(), SqlError>;
}

/// Makes temporary files.
pub trait TempFiles: Debug + Send + Sync {
    /// A new file, which is gone when it is dropped and when the process ends, however it ends. The
    /// bytes that are on their way to it are counted.
    ///
    /// # Errors
    /// The directory cannot be used, or its disk is full.
    fn create(&self, on_way: &Arc<AtomicU64>) -> Result<Box<dyn TempFile>, TempError>;
}

/// A temporary file. No call waits for a disk.
pub trait TempFile: Debug {
    /// Appends bytes; the number by which they are read. They may be on their way when this
    /// returns.
    ///
    /// # Errors
    /// The disk is full, or fails: perhaps for bytes that were appended before.
    fn append(&mut self, bytes: Vec<u8>) -> Result<u64, TempError>;

    /// Begins to read the bytes of a number, so many.
    fn read(&mut self, number: u64, length: usize) -> Box<dyn TempRead>;
}

/// Bytes that are being read.
pub trait TempRead: Debug {
    /// The bytes, once; nothing as long as they are on their way.
    ///
    /// # Errors
    /// The disk fails, or has other bytes than were written; or they were never written.
    fn poll(&mut self) -> Result<Option<Vec<u8>>, TempError>;
}

/// Why a temporary file cannot be used. The text names the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TempError {
    /// The disk is full.
    Full(String),
    /// It cannot be written for another reason.
    NotWritten(String),
    /// It cannot be read.
    NotRead(String),
}

impl From<TempError> for SqlError {
    fn from(error: TempError) -> Self {
        match error {
            TempError::Full(place) => {
                let text = format!(
                    "Disk full ({place}): the statement has no room for its temporary files. Free \
                     space there, or have TempDir name a directory with more of it."
                );
                SqlError::new(1021, "HY000", text)
            }
            TempError::NotWritten(why) => {
                let text = format!(
                    "Error writing a temporary file of the statement ({why}). Have TempDir name a \
                     directory that can be written, or raise nines_operator_memory and QueryMemory."
                );
                SqlError::new(1026, "HY000", text)
            }
            TempError::NotRead(why) => {
                let text = format!(
                    "Error reading a temporary file of the statement ({why}). Look at the disk of \
                     that directory, and run the statement again."
                );
                SqlError::new(1024, "HY000", text)
            }
        }
    }
}

/// The disk space that all statements of an SQL node may use, and what they have used.
#[derive(Clone, Debug)]
pub struct TempSpace(Arc<Space>);

#[derive(Debug)]
struct Space {
    files: OnceLock<Arc<dyn TempFiles>>,
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    totals: Totals<AtomicU64>,
}

/// What was done with temporary files.
#[derive(Debug, Default)]
struct Totals<T> {
    files: T,
    written: T,
    merge_passes: T,
}

/// The same, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Files that were made.
    pub files: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Passes in which sorted runs were merged into longer ones, and last ones.
    pub merge_passes: u64,
}

impl Default for TempSpace {
    /// Without a place for files.
    fn default() -> Self {
        Self(Arc::new(Space {
            files: OnceLock::new(),
            limit: AtomicU64::new(DEFAULT_LIMIT),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            totals: Totals::default(),
        }))
    }
}

impl TempSpace {
    /// Says who makes files; the first one to be named counts.
    pub fn serve(&self, files: Arc<dyn TempFiles>) {
        // Another one is of the same host.
        let _ = self.0.files.set(files);
    }

    /// Sets the limit, in bytes; 0 keeps all statements in memory. What is used already stays.
    pub fn set_limit(&self, bytes: u64) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Bytes that are in files now.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most that was in files at a time.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// What was done since the node began.
    pub fn totals(&self) -> Spilled {
        let Totals { files, written, merge_passes } = &self.0.totals;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Spilled { files: of(files), written: of(written), merge_passes: of(merge_passes) }
    }

    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let before = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(before) = before {
            self.0.peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        before.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes given back of {before} that were taken");
    }
}

/// What a connection has in temporary files.
#[derive(Debug)]
pub(crate) struct TempBooks {
    space: TempSpace,
    used: Cell<u64>,
    limit: Cell<u64>,
    /// Bytes that the host has not written yet.
    on_way: Arc<AtomicU64>,
    totals: Totals<Cell<u64>>,
}

impl TempBooks {
    pub(crate) fn new(space: &TempSpace) -> Self {
        let (used, limit) = (Cell::new(0), Cell::new(u64::MAX));
        let on_way = Arc::default();
        Self { space: space.clone(), used, limit, on_way, totals: Totals::default() }
    }

    /// A statement begins, with so many bytes for its files.
    pub(crate) fn begin(&self, limit: u64) {
        self.limit.set(limit);
    }

    /// Whether statements may write temporary files.
    pub(crate) fn may_spill(&self) -> bool {
        let there = self.space.0.files.get().is_some();
        there && self.limit.get() > 0 && self.space.limit() > 0
    }

    /// Whether so much is on its way to files that nothing more is to be written for now.
    pub(crate) fn is_behind(&self) -> bool {
        self.on_way.load(Ordering::Relaxed) > BEHIND_MAX
    }

    /// What the connection has done.
    pub(crate) fn totals(&self) -> Spilled {
        let Totals { files, written, merge_passes } = &self.totals;
        Spilled { files: files.get(), written: written.get(), merge_passes: merge_passes.get() }
    }

    /// Counts a pass in which sorted runs are merged.
    pub(crate) fn count_merge_pass(&self) {
        add(&self.totals.merge_passes, &self.space.0.totals.merge_passes, 1);
    }

    fn take(&self, bytes: u64, what: &str) -> Result<(), SqlError> {
        let used = self.used.get() + bytes;
        let limit = self.limit.get();
        let remedy = "Have the statement keep less, or raise nines_temp_space.";
        if used > limit {
            let what = format!("the temporary files of the statement, by {what}");
            return Err(SqlError::of::<3170>(&[&limit, &what, &remedy]));
        }
        if !self.space.take(bytes) {
            let what = format!("the temporary files of the SQL node, by {what}");
            let remedy = "Have the statement keep less, run fewer of them at a time, or raise \
                          nines_temp_space (SET GLOBAL).";
            return Err(SqlError::of::<3170>(&[&self.space.limit(), &what, &remedy]));
        }
        self.used.set(used);
        add(&self.totals.written, &self.space.0.totals.written, bytes);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.used.set(self.used.get() - bytes);
        self.space.give_back(bytes);
    }
}

fn add(own: &Cell<u64>, of_all: &AtomicU64, more: u64) {
    own.set(own.get() + more);
    of_all.fetch_add(more, Ordering::Relaxed);
}

/// A temporary file of a statement. Clones are of the same file.
#[derive(Clone, Debug)]
pub(crate) struct SpillFile(Rc<RefCell<Open>>);

#[derive(Debug)]
struct Open {
    file: Box<dyn TempFile>,
    account: Account,
    bytes: u64,
    /// What errors name.
    what: &'static str,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.account.temp().give_back(self.bytes);
    }
}

/// Where something is in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    number: u64,
    length: u32,
}

impl SpillFile {
    /// A new file, for something that errors name so.
    ///
    /// # Errors
    /// 1021 and 1026: the host cannot make one.
    pub(crate) fn create(account: &Account, what: &'static str) -> Result<Self, SqlError> {
        let books = account.temp();
        let no_files = || SqlError::internal("a temporary file without a place for files");
        let files = books.space.0.files.get().ok_or_else(no_files)?;
        let file = files.create(&books.on_way)?;
        add(&books.totals.files, &books.space.0.totals.files, 1);
        let open = Open { file, account: account.clone(), bytes: 0, what };
        Ok(Self(Rc::new(RefCell::new(open))))
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// 3170 if the budget is used up, 1021 and 1026 if the disk is full or fails: perhaps for a
    /// frame before.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<Frame, SqlError> {
        let mut open = self.0.borrow_mut();
        let length = u32::try_from(bytes.len());
        let length = length.map_err(|_| SqlError::internal("a row of more than 4 GB"))?;
        open.account.temp().take(bytes.len() as u64, open.what)?;
        open.bytes += bytes.len() as u64;
        let number = open.file.append(bytes.to_vec())?;
        Ok(Frame { number, length })
    }

    /// Begins to read a frame.
    fn read(&self, frame: Frame) -> Box<dyn TempRead> {
        self.0.borrow_mut().file.read(frame.number, frame.length as usize)
    }
}

/// The frames of a list in their order, each of them asked for before the one before is done.
#[derive(Debug)]
pub(crate) struct FrameReader {
    file: SpillFile,
    frames: Vec<Frame>,
    /// The first one that has not been asked for.
    next: usize,
    asked: VecDeque<Box<dyn TempRead>>,
}

/// What is to be had of something that is read.
#[derive(Debug)]
pub(crate) enum Polled<T> {
    Some(T),
    /// Nothing yet: it is on its way.
    Later,
    End,
}

impl FrameReader {
    fn new(file: SpillFile, frames: Vec<Frame>) -> Self {
        Self { file, frames, next: 0, asked: VecDeque::new() }
    }

    /// The bytes of the next frame.
    ///
    /// # Errors
    /// 1024 if the disk fails, 1021 and 1026 if the frame was never written.
    fn poll(&mut self) -> Result<Polled<Vec<u8>>, SqlError> {
        self.ask(1);
        let Some(first) = self.asked.front_mut() else { return Ok(Polled::End) };
        let Some(bytes) = first.poll()? else { return Ok(Polled::Later) };
        self.asked.pop_front();
        self.ask(AHEAD);
        Ok(Polled::Some(bytes))
    }

    /// Has so many frames asked for, as far as there are some.
    fn ask(&mut self, count: usize) {
        while self.asked.len() < count
            && let Some(frame) = self.frames.get(self.next)
        {
            self.asked.push_back(self.file.read(*frame));
            self.next += 1;
        }
    }

    /// To be read from the beginning once more.
    fn rewind(&mut self) {
        self.next = 0;
        self.asked.clear();
    }
}

/// 1024: a frame has other bytes than were written.
fn damaged(why: &codec::DecodeError) -> SqlError {
    TempError::NotRead(format!("a temporary file has other bytes than were written: {why}")).into()
}

#[cfg(test)]
mod tests;
