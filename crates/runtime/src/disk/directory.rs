//! The data directory of one node: operations on its files, as calls that block.
//!
//! # Owns
//! The descriptors that are kept open, so that a log is not opened for every write.
//! # Invariants
//! No descriptor is kept under a name that has meanwhile been removed or given to another file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::{DiskAnswer, DiskError, DiskErrorKind, DiskOperation};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

/// A node's data directory.
#[derive(Debug)]
pub(super) struct NodeDirectory {
    root: PathBuf,
    descriptors: Mutex<Descriptors>,
}

/// Open files by name.
#[derive(Debug, Default)]
struct Descriptors {
    files: BTreeMap<String, Descriptor>,
    /// How often one has been asked for: the time of last use is this count.
    uses: u64,
    /// How often a name has been taken away. A file that was opened before does not count after.
    changes: u64,
}

#[derive(Debug)]
struct Descriptor {
    file: Arc<File>,
    used: u64,
}

impl NodeDirectory {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, descriptors: Mutex::default() }
    }

    /// Carries out one operation; `at` is its position in its request.
    pub(super) fn carry_out(
        &self,
        at: usize,
        operation: &DiskOperation,
    ) -> Result<DiskAnswer, DiskError> {
        self.perform(operation).map_err(|error| self.failure(at, operation, &error))
    }

    /// What to answer when an operation has failed.
    pub(super) fn failure(
        &self,
        at: usize,
        operation: &DiskOperation,
        error: &io::Error,
    ) -> DiskError {
        let (verb, path) = describe(operation);
        let kind = match Errno::from_io_error(error) {
            // What a sync leaves behind is never known, whatever the reason is called.
            _ if matches!(operation, DiskOperation::Sync { .. }) => DiskErrorKind::Failed,
            Some(Errno::NOSPC | Errno::DQUOT) => DiskErrorKind::Full,
            Some(Errno::NOENT) => DiskErrorKind::Missing,
            _ => DiskErrorKind::Failed,
        };
        let text = format!("cannot {verb} {}: {error}", self.path(path).display());
        DiskError { at, kind, text }
    }

    /// The file of that name, if it is open.
    pub(super) fn opened(&self, path: &str) -> Option<Arc<File>> {
        let mut descriptors = self.descriptors();
        descriptors.uses += 1;
        let now = descriptors.uses;
        let descriptor = descriptors.files.get_mut(path)?;
        descriptor.used = now;
        Some(descriptor.file.clone())
    }

    fn perform(&self, operation: &DiskOperation) -> io::Result<DiskAnswer> {
        match operation {
            DiskOperation::CreateDirectory { path } => {
                let mut builder = fs::DirBuilder::new();
                builder.recursive(true).mode(0o700).create(self.path(path))?;
            }
            DiskOperation::Write { path, offset, bytes } => {
                self.open(path, true)?.write_all_at(bytes, *offset)?;
            }
            DiskOperation::Reserve { path, length } => {
                reserve(self.open(path, true)?.as_ref(), *length)?;
            }
            DiskOperation::Sync { path } => self.open(path, false)?.sync_data()?,
            DiskOperation::SyncDirectory { path } => File::open(self.path(path))?.sync_all()?,
            DiskOperation::Rename { from, to } => {
                self.changing([from, to], || fs::rename(self.path(from), self.path(to)))?
            }
            DiskOperation::Remove { path } => {
                self.changing([path], || unless_missing(fs::remove_file(self.path(path))))?;
            }
            DiskOperation::Read { path, offset, length } => {
                let file = self.open(path, false)?;
                let mut bytes = vec![0; readable(&file, *offset, *length)?];
                let mut filled = 0;
                while filled < bytes.len() {
                    match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                bytes.truncate(filled);
                return Ok(DiskAnswer::Bytes(bytes));
            }
            DiskOperation::List { path } => return Ok(DiskAnswer::Files(list(&self.path(path))?)),
        }
        Ok(DiskAnswer::Done)
    }

    /// The empty path is the directory itself.
    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    /// Opens a file, or finds it open.
    fn open(&self, path: &str, create: bool) -> io::Result<Arc<File>> {
        if let Some(file) = self.opened(path) {
            return Ok(file);
        }
        let changes = self.descriptors().changes;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        let file = Arc::new(options.open(self.path(path))?);
        let mut descriptors = self.descriptors();
        if descriptors.changes == changes {
            descriptors.keep(path, file.clone());
        }
        Ok(file)
    }

    /// Lets a call change what names mean. A file that another lane opens meanwhile is either the
    /// old one, and thrown out afterwards, or not kept at all.
    fn changing<const N: usize>(
        &self,
        names: [&String; N],
        call: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let forget = || {
            let mut descriptors = self.descriptors();
            descriptors.changes += 1;
            names.map(|name| descriptors.files.remove(name))
        };
        drop(forget());
        let result = call();
        drop(forget());
        result
    }

    fn descriptors(&self) -> MutexGuard<'_, Descriptors> {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Descriptors {
    fn keep(&mut self, path: &str, file: Arc<File>) {
        if self.files.len() >= DESCRIPTORS_MAX {
            let oldest = self.files.iter().min_by_key(|(_, descriptor)| descriptor.used);
            let oldest = oldest.map(|(path, _)| path.clone()).expect("there are many");
            self.files.remove(&oldest);
        }
        self.uses += 1;
        self.files.insert(path.to_string(), Descriptor { file, used: self.uses });
    }
}

/// Bytes that a read is answered with: those that are there, if it asks for more.
pub(super) fn readable(file: &File, offset: u64, length: u64) -> io::Result<usize> {
    let there = file.metadata()?.len().saturating_sub(offset);
    usize::try_from(there.min(length)).map_err(|_| Errno::FBIG.into())
}

/// Sets space aside. Where the file system cannot, at least there is as much free space now.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let system = fstatvfs(file)?;
                let free = system.f_bavail.saturating_mul(system.f_frsize);
                let missing = length.saturating_sub(file.metadata()?.len());
                return if missing > free { Err(Errno::NOSPC.into()) } else { Ok(()) };
            }
            other => return Ok(other?),
        }
    }
}

/// The files in a directory, not what is below it.
fn list(path: &Path) -> io::Result<Vec<(String, u64)>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let about = match entry.metadata() {
            // Removed meanwhile by another lane.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        // A name that is no text is none of ours.
        if about.is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            files.push((name, about.len()));
        }
    }
    files.sort();
    Ok(files)
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What to call an operation, and its path.
fn describe(operation: &DiskOperation) -> (&'static str, &str) {
    match operation {
        DiskOperation::CreateDirectory { path } => ("make directory", path),
        DiskOperation::Write { path, .. } => ("write", path),
        DiskOperation::Reserve { path, .. } => ("set space aside for", path),
        DiskOperation::Sync { path } => ("sync", path),
        DiskOperation::SyncDirectory { path } => ("sync directory", path),
        DiskOperation::Rename { from, .. } => ("rename", from),
        DiskOperation::Remove { path } => ("remove", path),
        DiskOperation::Read { path, .. } => ("read", path),
        DiskOperation::List { path } => ("list", path),
    }
}

/// Descriptors a node keeps open: with many workers, a few for each.
const DESCRIPTORS_MAX: usize = 256;
