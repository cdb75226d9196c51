//! The data directory of one node: operations on its files, as calls that block.
//!
//! # Owns
//! The descriptors that are kept open, so that a log is not opened for every write. What is in the
//! files, encrypted or not: `opened`.
//! # Invariants
//! No descriptor is kept under a name that has meanwhile been removed or given to another file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::{DiskAnswer, DiskError, DiskErrorKind, DiskOperation};
use rustix::io::Errno;

use super::opened::OpenFile;
use crate::encryption::KeyRing;

/// A node's data directory.
#[derive(Debug)]
pub(crate) struct NodeDirectory {
    root: PathBuf,
    /// The keys of the directory, if it has some.
    keys: Option<Arc<KeyRing>>,
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
    file: Arc<OpenFile>,
    used: u64,
}

impl NodeDirectory {
    pub(crate) fn new(root: PathBuf, keys: Option<Arc<KeyRing>>) -> Self {
        Self { root, keys, descriptors: Mutex::default() }
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
    pub(super) fn opened(&self, path: &str) -> Option<Arc<OpenFile>> {
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
                self.open(path, true)?.write(*offset, bytes)?;
            }
            DiskOperation::Reserve { path, length } => {
                self.open(path, true)?.reserve(*length)?;
            }
            DiskOperation::Sync { path } => self.open(path, false)?.file().sync_data()?,
            DiskOperation::SyncDirectory { path } => File::open(self.path(path))?.sync_all()?,
            DiskOperation::Rename { from, to } => {
                self.changing([from, to], || fs::rename(self.path(from), self.path(to)))?
            }
            DiskOperation::Remove { path } => {
                self.changing([path], || unless_missing(fs::remove_file(self.path(path))))?;
            }
            DiskOperation::Read { path, offset, length } => {
                let bytes = self.open(path, false)?.read(*offset, *length)?;
                return Ok(DiskAnswer::Bytes(bytes));
            }
            DiskOperation::List { path } => return Ok(DiskAnswer::Files(self.list(path)?)),
        }
        Ok(DiskAnswer::Done)
    }

    /// The empty path is the directory itself.
    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    /// Opens a file, or finds it open.
    fn open(&self, path: &str, create: bool) -> io::Result<Arc<OpenFile>> {
        if let Some(file) = self.opened(path) {
            return Ok(file);
        }
        let changes = self.descriptors().changes;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        let file = options.open(self.path(path))?;
        let file = Arc::new(OpenFile::new(file, path, self.keys.as_ref())?);
        let mut descriptors = self.descriptors();
        if descriptors.changes == changes {
            descriptors.keep(path, file.clone());
        }
        Ok(file)
    }

    /// The files of a directory, with the lengths of what they hold.
    fn list(&self, path: &str) -> io::Result<Vec<(String, u64)>> {
        let mut files = list(&self.path(path))?;
        if self.keys.is_none() {
            return Ok(files);
        }
        let mut gone = Vec::new();
        for (name, length) in &mut files {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match self.open(&below, false).and_then(|file| file.length()) {
                Ok(held) => *length = held,
                // Removed meanwhile by another lane.
                Err(error) if error.kind() == io::ErrorKind::NotFound => gone.push(name.clone()),
                Err(error) => return Err(error),
            }
        }
        files.retain(|(name, _)| !gone.contains(name));
        Ok(files)
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
    fn keep(&mut self, path: &str, file: Arc<OpenFile>) {
        if self.files.len() >= DESCRIPTORS_MAX {
            let oldest = self.files.iter().min_by_key(|(_, descriptor)| descriptor.used);
            let oldest = oldest.map(|(path, _)| path.clone()).expect("there are many");
            self.files.remove(&oldest);
        }
        self.uses += 1;
        self.files.insert(path.to_string(), Descriptor { file, used: self.uses });
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
