//! Where a backup is: a directory of this host, or a prefix of a bucket.
//!
//! # Owns
//! [`Place`], and the files in it.
//! # Guarantees
//! Only plain files are read: neither links nor pipes nor devices, whose end nobody knows. A file
//! that is written is new. What is complete is on the disk, or acknowledged by the object store.
//! # Not here
//! What is in the files (`format`), requests to an object store (`s3`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::s3::{Bucket, ObjectStore, Upload};

/// A place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A directory of this host.
    Directory(PathBuf),
    /// Objects below a prefix.
    Bucket(Bucket),
}

/// A file that is written.
pub(super) enum NewFile {
    Plain(File, PathBuf),
    Object(Upload),
}

/// A file that is read, and its size.
pub(super) type Opened = (Box<dyn Read>, u64);

impl Place {
    /// What a text names: `s3://bucket/path`, else a path.
    ///
    /// # Errors
    /// For addresses that are none, and without what an object store needs.
    pub(super) fn of(text: &str, store: &ObjectStore) -> Result<Self, String> {
        match text.strip_prefix("s3://") {
            Some(address) => Bucket::open(address, store).map(Self::Bucket),
            None if text.contains("://") => Err("addresses begin with s3://".to_owned()),
            None => Ok(Self::Directory(PathBuf::from(text))),
        }
    }

    /// The place, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Bucket(bucket) => bucket.shown(),
        }
    }

    /// A file of it, for messages.
    pub(super) fn shown_file(&self, name: &str) -> String {
        format!("{}/{name}", self.shown().trim_end_matches('/'))
    }

    /// Opens a file; none if it is not there.
    pub(super) fn open(&self, name: &str) -> Result<Option<Opened>, String> {
        match self {
            Self::Directory(path) => match open_plain(&path.join(name)) {
                Ok((file, size)) => {
                    Ok(Some((Box::new(BufReader::with_capacity(1 << 20, file)), size)))
                }
                Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(why) => Err(format!("{}: {why}", self.shown_file(name))),
            },
            Self::Bucket(bucket) => {
                let found = bucket.open_object(name)?;
                Ok(found.map(|(object, size)| (Box::new(object) as Box<dyn Read>, size)))
            }
        }
    }

    /// The bytes of a small file, not more than `most`; none if it is not there.
    pub(super) fn small(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let Some((file, _)) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(most).read_to_end(&mut bytes);
        read.map_err(|why| format!("{}: {why}", self.shown_file(name)))?;
        Ok(Some(bytes))
    }

    /// Whether a file is there.
    pub(super) fn has(&self, name: &str) -> Result<bool, String> {
        match self {
            Self::Directory(path) => Ok(fs::symlink_metadata(path.join(name)).is_ok()),
            Self::Bucket(bucket) => Ok(bucket.size_of(name)?.is_some()),
        }
    }

    /// Has the place for a new backup: it is made, or nothing is in it.
    pub(super) fn begin(&self) -> Result<(), String> {
        let shown = self.shown();
        let directory = match self {
            Self::Directory(path) => path,
            Self::Bucket(bucket) if bucket.is_empty()? => return Ok(()),
            Self::Bucket(_) => return Err(format!("{shown} is not empty: name a path of its own")),
        };
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => Ok(()),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let kind =
                    fs::symlink_metadata(directory).map_err(|why| format!("{shown}: {why}"))?;
                if !kind.is_dir() {
                    return Err(format!("{shown} is no directory"));
                }
                let mut entries =
                    fs::read_dir(directory).map_err(|why| format!("{shown}: {why}"))?;
                match entries.next() {
                    None => Ok(()),
                    Some(_) => Err(format!("{shown} is not empty: name a directory of its own")),
                }
            }
            Err(why) => Err(format!("the directory {shown} cannot be made: {why}")),
        }
    }

    /// Begins a file, which must not be there.
    pub(super) fn create(&self, name: &str) -> Result<NewFile, String> {
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
                let file = file.map_err(|why| format!("{}: {why}", path.display()))?;
                Ok(NewFile::Plain(file, path))
            }
            Self::Bucket(bucket) => Ok(NewFile::Object(bucket.upload(name))),
        }
    }

    /// Writes a small file, which must not be there, all of it or nothing.
    pub(super) fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Directory(path) => {
                // The name appears when all else is on the disk.
                let aside = format!("{name}.new");
                let mut file = self.create(&aside)?;
                let moved = file.write(bytes).and_then(|()| file.end()).and_then(|()| {
                    self.settle()?;
                    fs::rename(path.join(&aside), path.join(name))
                        .map_err(|why| format!("{}: {why}", self.shown_file(name)))
                });
                if let Err(why) = moved {
                    let _ = self.remove(&aside);
                    return Err(why);
                }
                self.settle()
            }
            Self::Bucket(bucket) => bucket.put_new(name, bytes),
        }
    }

    /// The same for a file that somebody else may write at the same time: the first one stays. What
    /// is left of one that was not finished goes.
    pub(super) fn publish_new(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let Self::Directory(path) = self else { return self.publish(name, bytes) };
        let aside = format!("{name}.new");
        self.remove(&aside)?;
        let mut file = self.create(&aside)?;
        let (from, to) = (path.join(&aside), path.join(name));
        let moved = file.write(bytes).and_then(|()| file.end()).and_then(|()| {
            let moved = match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
                // The file system knows no such renaming.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    match fs::symlink_metadata(&to) {
                        Ok(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists)),
                        Err(_) => fs::rename(&from, &to),
                    }
                }
                other => other.map_err(io::Error::from),
            };
            moved.map_err(|why| match why.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("{}: it is there already", self.shown_file(name))
                }
                _ => format!("{}: {why}", self.shown_file(name)),
            })
        });
        if let Err(why) = moved {
            let _ = self.remove(&aside);
            return Err(why);
        }
        self.settle()
    }

    /// Sees to it that the place is there; its parent is.
    pub(super) fn prepare(&self) -> Result<(), String> {
        let Self::Directory(path) = self else { return self.names().map(|_| ()) };
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(()),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(why) => Err(format!("the directory {} cannot be made: {why}", self.shown())),
        }
    }

    /// Has names that appeared or went on the disk.
    pub(super) fn settle(&self) -> Result<(), String> {
        let Self::Directory(path) = self else { return Ok(()) };
        sync_directory(path)
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), String> {
        match self {
            Self::Directory(path) => match fs::remove_file(path.join(name)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    Err(format!("{}: {why}", self.shown_file(name)))
                }
                _ => Ok(()),
            },
            Self::Bucket(bucket) => bucket.remove(name),
        }
    }

    /// Removes the place, if nothing is in it.
    pub(super) fn leave(&self) {
        if let Self::Directory(path) = self {
            // Something of others may be in it.
            let _ = fs::remove_dir(path);
        }
    }

    /// The names of all files in it; of directories that are in it with a `/`.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Directory(path) => {
                let failed = |why: io::Error| format!("{}: {why}", path.display());
                let mut names = Vec::new();
                for entry in fs::read_dir(path).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let mut name = entry.file_name().to_string_lossy().into_owned();
                    if entry.file_type().map_err(failed)?.is_dir() {
                        name.push('/');
                    }
                    names.push(name);
                }
                names.sort();
                Ok(names)
            }
            Self::Bucket(bucket) => bucket.names(),
        }
    }

    /// A place in this one.
    pub(super) fn below(&self, name: &str) -> Self {
        let name = name.trim_end_matches('/');
        match self {
            Self::Directory(path) => Self::Directory(path.join(name)),
            Self::Bucket(bucket) => Self::Bucket(bucket.below(name)),
        }
    }
}

impl NewFile {
    /// Adds bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Plain(file, path) => {
                file.write_all(bytes).map_err(|why| format!("{}: {why}", path.display()))
            }
            Self::Object(upload) => upload.write(bytes),
        }
    }

    /// Has what was written so far on the disk, where that can be.
    pub(super) fn sync(&mut self) -> Result<(), String> {
        match self {
            Self::Plain(file, path) => {
                file.sync_data().map_err(|why| format!("{}: {why}", path.display()))
            }
            Self::Object(_) => Ok(()),
        }
    }

    /// Completes it: it is on the disk, or in the store.
    pub(super) fn end(&mut self) -> Result<(), String> {
        match self {
            Self::Plain(file, path) => {
                file.sync_all().map_err(|why| format!("{}: {why}", path.display()))
            }
            Self::Object(upload) => upload.end(),
        }
    }
}

/// Opens a plain file, and nothing else; its size.
pub(super) fn open_plain(path: &Path) -> io::Result<(File, u64)> {
    // A pipe without a writer does not hold up whoever opens it.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|why| match fs::symlink_metadata(path) {
        Ok(kind) if kind.is_symlink() => io::Error::other("it is a symbolic link"),
        _ => why,
    })?;
    let kind = file.metadata()?;
    if kind.is_file() {
        Ok((file, kind.len()))
    } else {
        Err(io::Error::other("it is no plain file"))
    }
}

/// Has names that appeared in a directory, or went, on the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), String> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|why| format!("{}: {why}", path.display()))
}
