//! Temporary files in memory, for tests and the simulation: they fail or hang when they are told.
//! What is read is there when it is looked for the second time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::spill::{TempError, TempFile, TempFiles, TempRead};

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
    /// What is on its way, and who counts it.
    on_way: Mutex<Vec<(Arc<AtomicU64>, u64)>>,
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
    /// What is written stays on its way, and nothing that is read arrives.
    pub hangs: bool,
}

impl MemoryFiles {
    /// Has the disk fail from now on; what was written and read before counts.
    pub fn fail(&self, faults: Faults) {
        *self.0.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
        if !faults.hangs {
            let mut on_way = self.0.on_way.lock().unwrap_or_else(PoisonError::into_inner);
            on_way.drain(..).for_each(|(counter, bytes)| {
                counter.fetch_sub(bytes, Ordering::Relaxed);
            });
        }
    }

    /// Files that are there.
    pub fn open_files(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Bytes that were written to all files, also those that are gone.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Bytes that are on their way, as the disk hangs.
    pub fn on_way(&self) -> u64 {
        let on_way = self.0.on_way.lock().unwrap_or_else(PoisonError::into_inner);
        on_way.iter().map(|(_, bytes)| bytes).sum()
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
    fn create(&self, on_way: &Arc<AtomicU64>) -> Result<Box<dyn TempFile>, TempError> {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        let (disk, on_way) = (self.0.clone(), on_way.clone());
        Ok(Box::new(MemoryFile { disk, on_way, pieces: Vec::new() }))
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: Arc<Disk>,
    on_way: Arc<AtomicU64>,
    pieces: Vec<Vec<u8>>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TempFile for MemoryFile {
    fn append(&mut self, bytes: Vec<u8>) -> Result<u64, TempError> {
        let length = bytes.len() as u64;
        let written = self.disk.written.fetch_add(length, Ordering::Relaxed);
        let faults = self.disk.faults();
        if faults.full_after.is_some_and(|most| written + length > most) {
            return Err(TempError::Full("memory".to_owned()));
        }
        if faults.hangs {
            self.on_way.fetch_add(length, Ordering::Relaxed);
            let mut on_way = self.disk.on_way.lock().unwrap_or_else(PoisonError::into_inner);
            on_way.push((self.on_way.clone(), length));
        }
        self.pieces.push(bytes);
        Ok(self.pieces.len() as u64 - 1)
    }

    fn read(&mut self, number: u64, length: usize) -> Box<dyn TempRead> {
        let bytes = usize::try_from(number).ok().and_then(|number| self.pieces.get(number));
        let bytes = bytes.filter(|bytes| bytes.len() == length).cloned();
        Box::new(MemoryRead { disk: self.disk.clone(), bytes, looks: 0 })
    }
}

#[derive(Debug)]
struct MemoryRead {
    disk: Arc<Disk>,
    bytes: Option<Vec<u8>>,
    looks: u32,
}

impl TempRead for MemoryRead {
    fn poll(&mut self) -> Result<Option<Vec<u8>>, TempError> {
        let faults = self.disk.faults();
        self.looks += 1;
        if self.looks == 1 || faults.hangs {
            return Ok(None);
        }
        let reads = self.disk.reads.fetch_add(1, Ordering::Relaxed);
        if faults.reads_fail_after.is_some_and(|most| reads >= most) {
            return Err(TempError::NotRead("memory: a read that was to fail".to_owned()));
        }
        let bytes = self.bytes.take();
        let mut bytes = bytes.ok_or(TempError::NotRead("memory: no such bytes".to_owned()))?;
        if faults.damages {
            bytes.fill(0xFF);
        }
        Ok(Some(bytes))
    }
}
