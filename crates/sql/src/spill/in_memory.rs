//! Temporary files in memory, for tests and the simulation: they fail when they are told to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::spill::{TempError, TempFile, TempFiles};

/// Files in memory. Clones are of the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Disk>);

#[derive(Debug, Default)]
struct Disk {
    faults: Mutex<Faults>,
    /// Files that are there.
    open: AtomicU64,
    /// Bytes that were appended to all files.
    written: AtomicU64,
    /// How often something was read.
    reads: AtomicU64,
}

/// When a disk fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// It is full after so many bytes.
    pub full_after: Option<u64>,
    /// Reads fail after so many.
    pub reads_fail_after: Option<u64>,
    /// Reads give other bytes than were written.
    pub damages: bool,
}

impl MemoryFiles {
    /// Has the disk fail from now on; what was written and read before counts.
    pub fn fail(&self, faults: Faults) {
        *self.0.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Files that are there.
    pub fn open_files(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Bytes that were written to all files, also those that are gone.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Forgets what was written and read before.
    pub fn forget(&self) {
        self.0.written.store(0, Ordering::Relaxed);
        self.0.reads.store(0, Ordering::Relaxed);
    }

    /// How often something was read.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }
}

impl Disk {
    fn faults(&self) -> Faults {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TempFiles for MemoryFiles {
    fn create(&self) -> Result<Box<dyn TempFile>, TempError> {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(MemoryFile { disk: self.0.clone(), bytes: Vec::new() }))
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: Arc<Disk>,
    bytes: Vec<u8>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TempFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, TempError> {
        let written = self.disk.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let is_full = |most: u64| written + bytes.len() as u64 > most;
        if self.disk.faults().full_after.is_some_and(is_full) {
            return Err(TempError::Full("memory".to_owned()));
        }
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        Ok(at)
    }

    fn read(&mut self, at: u64, length: usize) -> Result<Vec<u8>, TempError> {
        let reads = self.disk.reads.fetch_add(1, Ordering::Relaxed);
        let faults = self.disk.faults();
        if faults.reads_fail_after.is_some_and(|most| reads >= most) {
            return Err(TempError::Failed("memory: a read that was to fail".to_owned()));
        }
        let at = at as usize;
        let bytes = self.bytes.get(at..at + length);
        let mut bytes =
            bytes.ok_or(TempError::Failed("memory: no such bytes".to_owned()))?.to_vec();
        if faults.damages {
            bytes.fill(0xFF);
        }
        Ok(bytes)
    }
}
