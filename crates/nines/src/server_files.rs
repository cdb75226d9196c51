//! The directory whose files statements may read and write: `--secure-file-priv`.
//!
//! # Owns
//! [`ServerDirectory`], which opens files, and the thread of each file that is open.
//! # Guarantees
//! No way leads out of the directory: neither `..` nor a link nor a file of the system's own
//! (`openat2` with `RESOLVE_BENEATH`), whatever others do in the directory meanwhile. Only plain
//! files are read, only new files are written unless the caller replaces his own, and one that was
//! not written to its end is removed.
//! A worker never waits for the disk here: between it and a file's thread are a few parts.
//! # Not here
//! Who may: the privilege FILE (`sql::account`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use sql::{FileError, FileErrorKind, FilePart, FileParts, NewFile, Renaming, ServerFiles};

/// Parts between a worker and a file's thread.
const PARTS_MAX: usize = 4;
/// Bytes of a part that is read.
const PART_BYTES: usize = 256 << 10;
/// Files that are open at a time: each has a thread.
const FILES_MAX: usize = 256;

/// The directory.
#[derive(Debug)]
pub(crate) struct ServerDirectory {
    /// What statements may begin a path with: the directory as it is, and as it was given.
    names: [PathBuf; 2],
    shown: String,
    descriptor: Arc<OwnedFd>,
    open: Arc<AtomicUsize>,
}

impl ServerDirectory {
    /// Opens a directory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let cannot =
            |error: io::Error| format!("cannot use --secure-file-priv={}: {error}", path.display());
        let given = std::path::absolute(path).map_err(cannot)?;
        let path = std::fs::canonicalize(path).map_err(cannot)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = fs::open(&path, flags, Mode::empty());
        let descriptor = descriptor.map_err(|error| cannot(error.into()))?;
        let shown = format!("{}/", path.display().to_string().trim_end_matches('/'));
        Ok(Self {
            names: [path, given],
            shown,
            descriptor: Arc::new(descriptor),
            open: Arc::default(),
        })
    }

    /// The part of a path below the directory.
    fn below(&self, path: &str) -> Result<PathBuf, FileError> {
        let path = Path::new(path);
        let below = if path.is_absolute() {
            let below = self.names.iter().find_map(|name| path.strip_prefix(name).ok());
            below.ok_or_else(|| forbidden(&self.shown))?
        } else {
            path
        };
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(plain) {
            return Err(forbidden(&self.shown));
        }
        Ok(below.to_owned())
    }

    /// A place among the files that are open.
    fn place(&self) -> Result<Place, FileError> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= FILES_MAX {
            self.open.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{FILES_MAX} files are open already; try again later");
            return Err(FileError { kind: FileErrorKind::Forbidden, number: 0, text });
        }
        Ok(Place(self.open.clone()))
    }

    fn begin_new(&self, path: &str, replaces: bool) -> Result<Writing, FileError> {
        let below = self.below(path)?;
        let place = self.place()?;
        let (parts, to_write) = sync_channel(PARTS_MAX);
        let (outcome, result) = sync_channel(1);
        let directory = self.descriptor.clone();
        let work = move || {
            let written = write(&directory, &below, replaces, &to_write);
            drop(place);
            // Whoever wrote may have gone.
            let _ = outcome.send(written);
        };
        start(work, FileErrorKind::NotMade)?;
        Ok(Writing { parts: Some(parts), result: Mutex::new(result) })
    }

    fn begin_renaming(&self, from: &str, to: &str) -> Result<Receiver<Ended>, FileError> {
        let (from, to) = (self.below(from)?, self.below(to)?);
        let place = self.place()?;
        let (outcome, result) = sync_channel(1);
        let directory = self.descriptor.clone();
        let work = move || {
            let renamed = rename(&directory, &from, &to);
            drop(place);
            // Whoever asked may have gone.
            let _ = outcome.send(renamed);
        };
        start(work, FileErrorKind::NotMade)?;
        Ok(result)
    }

    fn begin_reading(&self, path: &str) -> Result<Receiver<Told>, FileError> {
        let below = self.below(path)?;
        let place = self.place()?;
        let (parts, received) = sync_channel(PARTS_MAX);
        let directory = self.descriptor.clone();
        let work = move || {
            let read = read(&directory, &below, &parts);
            drop(place);
            // Whoever reads may have gone.
            let _ = parts.send(read.map(|()| None));
        };
        start(work, FileErrorKind::NotFound)?;
        Ok(received)
    }
}

impl ServerFiles for ServerDirectory {
    fn directory(&self) -> &str {
        &self.shown
    }

    fn create(&self, path: &str) -> Box<dyn NewFile> {
        Box::new(match self.begin_new(path, false) {
            Ok(writing) => New::Writing(writing),
            Err(error) => New::Failed(error),
        })
    }

    fn replace(&self, path: &str) -> Box<dyn NewFile> {
        Box::new(match self.begin_new(path, true) {
            Ok(writing) => New::Writing(writing),
            Err(error) => New::Failed(error),
        })
    }

    fn rename(&self, from: &str, to: &str) -> Box<dyn Renaming> {
        Box::new(match self.begin_renaming(from, to) {
            Ok(result) => Rename::Begun(Mutex::new(result)),
            Err(error) => Rename::Failed(error),
        })
    }

    fn open(&self, path: &str) -> Box<dyn FileParts> {
        Box::new(match self.begin_reading(path) {
            Ok(received) => Parts::Reading(Mutex::new(received)),
            Err(error) => Parts::Failed(error),
        })
    }
}

fn forbidden(directory: &str) -> FileError {
    let text = format!("only files below {directory} (--secure-file-priv), without links and '..'");
    FileError { kind: FileErrorKind::Forbidden, number: 0, text }
}

fn start(work: impl FnOnce() + Send + 'static, kind: FileErrorKind) -> Result<(), FileError> {
    let started = thread::Builder::new().name("file".into()).spawn(work);
    started.map(|_| ()).map_err(|error| failed(kind, &error))
}

fn failed(kind: FileErrorKind, error: &io::Error) -> FileError {
    let number = error.raw_os_error().unwrap_or_default();
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    FileError { kind, number, text }
}

/// Counts an open file until it is dropped.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is asked of a thread that writes.
#[derive(Debug)]
enum Asked {
    Part(Vec<u8>),
    /// That was all; it is to be on the disk.
    End {
        synced: bool,
    },
}

/// A file that a thread writes.
#[derive(Debug)]
struct Writing {
    /// None once the end was asked for.
    parts: Option<SyncSender<Asked>>,
    result: Mutex<Receiver<Result<(), FileError>>>,
}

#[derive(Debug)]
enum New {
    Writing(Writing),
    Failed(FileError),
}

impl Writing {
    /// How it has ended; none if it has not yet.
    fn outcome(&self) -> Option<Result<(), FileError>> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        match result.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(FileError {
                kind: FileErrorKind::NotWritten,
                number: 0,
                text: "its thread has ended".into(),
            })),
        }
    }
}

impl NewFile for New {
    fn write(&mut self, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, FileError> {
        let writing = match self {
            New::Writing(writing) => writing,
            New::Failed(error) => return Err(error.clone()),
        };
        let Some(parts) = &writing.parts else { return Ok(None) };
        match parts.try_send(Asked::Part(bytes)) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(Asked::Part(bytes))) => Ok(Some(bytes)),
            Err(TrySendError::Full(Asked::End { .. })) => Ok(None),
            // It has ended, and says why.
            Err(TrySendError::Disconnected(_)) => match writing.outcome() {
                Some(Err(error)) => Err(error),
                Some(Ok(())) => Ok(None),
                None => Ok(Some(Vec::new())),
            },
        }
    }

    fn finish(&mut self, synced: bool) -> Result<bool, FileError> {
        let writing = match self {
            New::Writing(writing) => writing,
            New::Failed(error) => return Err(error.clone()),
        };
        if let Some(parts) = &writing.parts {
            match parts.try_send(Asked::End { synced }) {
                Err(TrySendError::Full(_)) => return Ok(false),
                Ok(()) | Err(TrySendError::Disconnected(_)) => writing.parts = None,
            }
        }
        writing.outcome().transpose().map(|ended| ended.is_some())
    }
}

/// How work on a file has ended.
type Ended = Result<(), FileError>;

/// A file that a thread gives another name.
#[derive(Debug)]
enum Rename {
    Begun(Mutex<Receiver<Ended>>),
    Failed(FileError),
}

impl Renaming for Rename {
    fn is_done(&mut self) -> Result<bool, FileError> {
        let result = match self {
            Rename::Begun(result) => result.get_mut().unwrap_or_else(PoisonError::into_inner),
            Rename::Failed(error) => return Err(error.clone()),
        };
        match result.try_recv() {
            Ok(ended) => ended.map(|()| true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(FileError {
                kind: FileErrorKind::NotWritten,
                number: 0,
                text: "its thread has ended".into(),
            }),
        }
    }
}

/// Gives a file another name in its directory, on the disk.
fn rename(directory: &OwnedFd, from: &Path, to: &Path) -> Ended {
    let told = |error: rustix::io::Errno| not_opened(error, FileErrorKind::NotMade);
    if from.parent() != to.parent() {
        let text = "a file keeps its directory".to_owned();
        return Err(FileError { kind: FileErrorKind::Forbidden, number: 0, text });
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = fs::openat2(directory, parent, flags, Mode::empty(), beneath()).map_err(told)?;
    let (Some(from), Some(to)) = (from.file_name(), to.file_name()) else {
        return Err(told(rustix::io::Errno::INVAL));
    };
    match fs::renameat(&above, from, &above, to) {
        Err(rustix::io::Errno::NOENT)
            if fs::statat(&above, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {}
        other => other.map_err(told)?,
    }
    fs::fsync(&above).map_err(told)
}

/// Makes a file and writes what comes; removes it unless its end comes.
fn write(
    directory: &OwnedFd,
    below: &Path,
    replaces: bool,
    parts: &Receiver<Asked>,
) -> Result<(), FileError> {
    // A pipe would keep whoever opens it waiting.
    let how = if replaces { OFlags::TRUNC | OFlags::NONBLOCK } else { OFlags::EXCL };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | how;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    let opened = fs::openat2(directory, below, flags, mode, beneath());
    let mut file = File::from(opened.map_err(|error| not_opened(error, FileErrorKind::NotMade))?);
    let status = fs::fstat(&file);
    let status = status.map_err(|error| failed(FileErrorKind::NotMade, &error.into()))?;
    if !FileType::from_raw_mode(status.st_mode).is_file() {
        let text = "only plain files are written".to_owned();
        return Err(FileError { kind: FileErrorKind::Forbidden, number: 0, text });
    }
    let written = write_parts(&mut file, parts);
    if !matches!(written, Ok(true)) {
        remove(directory, below, &file);
    }
    written.map(|_| ()).map_err(|error| failed(FileErrorKind::NotWritten, &error))
}

/// Whether the end has come.
fn write_parts(file: &mut File, parts: &Receiver<Asked>) -> io::Result<bool> {
    for asked in parts {
        match asked {
            Asked::Part(bytes) => file.write_all(&bytes)?,
            Asked::End { synced } => {
                if synced {
                    file.sync_all()?;
                }
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Removes a file by its name, if that still is this file.
fn remove(directory: &OwnedFd, below: &Path, file: &File) {
    let parent = below.parent().filter(|parent| !parent.as_os_str().is_empty());
    let above = parent.map(|parent| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat2(directory, parent, flags, Mode::empty(), beneath())
    });
    let Ok(above) = above.transpose() else { return };
    let above = above.as_ref().map_or(directory.as_fd(), OwnedFd::as_fd);
    let Some(name) = below.file_name() else { return };
    let there = fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW);
    if let (Ok(there), Ok(own)) = (there, fs::fstat(file))
        && (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
    {
        // What cannot be removed stays.
        let _ = fs::unlinkat(above, name, AtFlags::empty());
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

fn not_opened(error: rustix::io::Errno, otherwise: FileErrorKind) -> FileError {
    use rustix::io::Errno;
    let kind = match error {
        Errno::EXIST => FileErrorKind::Exists,
        Errno::LOOP | Errno::XDEV => FileErrorKind::Forbidden,
        _ => otherwise,
    };
    match kind {
        FileErrorKind::Forbidden => {
            FileError { kind, number: 0, text: "a link is on the way to it".into() }
        }
        _ => failed(kind, &error.into()),
    }
}

/// What a thread that reads has to say: bytes, or that there are no more.
type Told = Result<Option<Vec<u8>>, FileError>;

#[derive(Debug)]
enum Parts {
    Reading(Mutex<Receiver<Told>>),
    Failed(FileError),
}

impl FileParts for Parts {
    fn next(&mut self) -> Result<FilePart, FileError> {
        let received = match self {
            Parts::Reading(received) => received.get_mut().unwrap_or_else(PoisonError::into_inner),
            Parts::Failed(error) => return Err(error.clone()),
        };
        match received.try_recv() {
            Ok(Ok(Some(bytes))) => Ok(FilePart::Bytes(bytes)),
            Ok(Ok(None)) | Err(TryRecvError::Disconnected) => Ok(FilePart::End),
            Ok(Err(error)) => Err(error),
            Err(TryRecvError::Empty) => Ok(FilePart::Later),
        }
    }
}

/// Reads a plain file to its end.
fn read(directory: &OwnedFd, below: &Path, parts: &SyncSender<Told>) -> Result<(), FileError> {
    // A pipe would keep whoever opens it waiting.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = fs::openat2(directory, below, flags, Mode::empty(), beneath());
    let opened = opened.map_err(|error| not_opened(error, FileErrorKind::NotFound))?;
    let status = fs::fstat(&opened);
    let status = status.map_err(|error| failed(FileErrorKind::NotRead, &error.into()))?;
    if !FileType::from_raw_mode(status.st_mode).is_file() {
        let text = "only plain files are read".to_owned();
        return Err(FileError { kind: FileErrorKind::Forbidden, number: 0, text });
    }
    let mut file = File::from(opened);
    loop {
        let mut part = Vec::with_capacity(PART_BYTES);
        let count = (&mut file).take(PART_BYTES as u64).read_to_end(&mut part);
        count.map_err(|error| failed(FileErrorKind::NotRead, &error))?;
        if part.is_empty() || parts.send(Ok(Some(part))).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    struct Bench {
        root: PathBuf,
        files: ServerDirectory,
    }

    impl Bench {
        fn new(name: &str) -> Bench {
            let root = std::env::temp_dir().join(format!("nines-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            std::fs::create_dir_all(root.join("open/sub")).unwrap();
            std::fs::write(root.join("secret"), "secret").unwrap();
            let files = ServerDirectory::open(&root.join("open")).unwrap();
            Bench { root, files }
        }

        fn write(&self, path: &str, parts: &[&[u8]]) -> Result<(), FileError> {
            let mut file = self.files.create(path);
            for part in parts {
                let mut rest = Some(part.to_vec());
                while let Some(bytes) = rest {
                    rest = file.write(bytes)?;
                    thread::sleep(Duration::from_micros(100));
                }
            }
            while !file.finish(true)? {
                thread::sleep(Duration::from_micros(100));
            }
            Ok(())
        }

        fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
            let mut file = self.files.open(path);
            let mut all = Vec::new();
            loop {
                match file.next()? {
                    FilePart::Bytes(bytes) => all.extend(bytes),
                    FilePart::Later => thread::sleep(Duration::from_micros(100)),
                    FilePart::End => return Ok(all),
                }
            }
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }

    /// What change feeds do.
    #[test]
    fn a_file_is_replaced_and_renamed() {
        let bench = Bench::new("files-renamed");
        let renamed = |from: &str, to: &str| {
            let mut renaming = bench.files.rename(from, to);
            while !renaming.is_done()? {
                thread::sleep(Duration::from_micros(100));
            }
            Ok::<(), FileError>(())
        };
        for text in [&b"a longer text"[..], b"short"] {
            let mut file = bench.files.replace("sub/a.part");
            assert_eq!(file.write(text.to_vec()), Ok(None));
            while !file.finish(true).unwrap() {
                thread::sleep(Duration::from_micros(100));
            }
            renamed("sub/a.part", "sub/a").unwrap();
            assert_eq!(bench.read("sub/a").unwrap(), text);
        }
        renamed("sub/a.part", "sub/a").expect("it was done before");
        assert!(renamed("sub/none", "sub/b").is_err());
        for (from, to) in [("sub/a", "a"), ("sub/a", "../a"), ("../secret", "secret")] {
            assert!(renamed(from, to).is_err(), "{from} to {to}");
        }
        symlink(bench.root.join("secret"), bench.root.join("open/link")).unwrap();
        let mut file = bench.files.replace("link");
        let _ = file.write(b"x".to_vec());
        let ended = std::iter::repeat_with(|| {
            thread::sleep(Duration::from_micros(100));
            file.finish(true)
        });
        assert!(ended.take(10_000).find(|end| end != &Ok(false)).is_some_and(|end| end.is_err()));
        assert_eq!(std::fs::read(bench.root.join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn what_is_written_is_read() {
        let bench = Bench::new("files-written");
        let large = vec![7; 3 * PART_BYTES + 1];
        bench.write("sub/a", &[b"one", &large, b"two"]).unwrap();
        let whole = [b"one", &large[..], b"two"].concat();
        assert_eq!(bench.read("sub/a").unwrap(), whole);
        let absolute = format!("{}sub/a", bench.files.directory());
        assert_eq!(bench.read(&absolute).unwrap(), whole);
        let again = bench.write("sub/a", &[b"x"]).unwrap_err();
        assert_eq!(again.kind, FileErrorKind::Exists);
        assert_eq!(bench.read("none").unwrap_err().kind, FileErrorKind::NotFound);
        let nowhere = bench.write("no/where", &[b"x"]).unwrap_err();
        assert_eq!((nowhere.kind, nowhere.number), (FileErrorKind::NotMade, 2));
    }

    #[test]
    fn no_way_leads_out() {
        let bench = Bench::new("files-out");
        symlink(bench.root.join("secret"), bench.root.join("open/link")).unwrap();
        symlink(&bench.root, bench.root.join("open/up")).unwrap();
        let pipe = bench.root.join("open/pipe");
        fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let secret = bench.root.join("secret").display().to_string();
        let around = format!("{}../secret", bench.files.directory());
        let paths = ["", ".", "..", "../secret", "sub/../../secret", "link", "up/secret", "pipe"];
        for path in paths.into_iter().chain([&*secret, &*around, "/proc/self/environ", "sub"]) {
            let error = bench.read(path).unwrap_err();
            assert_eq!(error.kind, FileErrorKind::Forbidden, "{path}: {error:?}");
        }
        for path in ["", "..", "../new", "up/new", &*around, "/tmp/nines-new", "/dev/null"] {
            let error = bench.write(path, &[b"x"]).unwrap_err();
            assert_eq!(error.kind, FileErrorKind::Forbidden, "{path}: {error:?}");
        }
        for path in ["link", "pipe"] {
            assert_eq!(bench.write(path, &[b"x"]).unwrap_err().kind, FileErrorKind::Exists);
        }
        assert_eq!(std::fs::read(bench.root.join("secret")).unwrap(), b"secret");
        assert!(!bench.root.join("new").exists());
    }

    #[test]
    fn a_file_without_its_end_is_removed() {
        let bench = Bench::new("files-removed");
        let mut file = bench.files.create("sub/half");
        assert_eq!(file.write(b"half".to_vec()), Ok(None));
        let path = bench.root.join("open/sub/half");
        while !path.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(file);
        while path.exists() || bench.files.open.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
