//! Temporary files of statements, as the runtime has them, behind threads of their own.
//!
//! # Owns
//! [`HostFiles`], which makes files, and the threads that work on them; between a worker and a
//! thread is a queue.
//! # Guarantees
//! A worker never waits for the disk here: files are made, written, read and closed by a thread,
//! which also encrypts. What is done with one file is done by one thread in the order that it was
//! asked for, so that what was written is what is read. The first failure of a file is told by all
//! that is asked of it afterwards.
//! # Limits
//! The queues have no limit of their own: a statement reads two frames ahead at most, and pauses
//! while more than a megabyte of it is on its way (`sql::spill`).
//! # Not here
//! What is written, and how much may be (`sql::spill`); the files themselves
//! (`runtime::TemporaryDirectory`).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use runtime::{TemporaryDirectory, TemporaryError, TemporaryFile};
use sql::spill::{TempError, TempFile, TempFiles, TempRead};

/// Threads that work on temporary files: a file that waits for a slow disk holds up others of its
/// thread alone.
const THREADS: usize = 4;

/// What makes temporary files. Its threads begin with the first file.
pub(crate) struct HostFiles {
    directory: TemporaryDirectory,
    threads: OnceLock<Result<Vec<Sender<Job>>, String>>,
    made: AtomicU64,
}

impl fmt::Debug for HostFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFiles").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Something to be done with the file of a number.
enum Job {
    Create(u64, TemporaryDirectory, Arc<Shared>),
    Append(u64, Vec<u8>),
    Read { file: u64, number: u64, length: usize, answer: Answer },
    Close(u64),
}

/// Where the outcome of a read goes.
type Answer = std::sync::mpsc::SyncSender<Result<Vec<u8>, TempError>>;

/// What a worker and a thread both know of a file.
#[derive(Debug)]
struct Shared {
    failed: Mutex<Option<TempError>>,
    /// Bytes that are not written yet, of all files of a connection.
    on_way: Arc<AtomicU64>,
}

impl Shared {
    fn failed(&self) -> Option<TempError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, error: TempError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl HostFiles {
    pub(crate) fn new(directory: TemporaryDirectory) -> Self {
        Self { directory, threads: OnceLock::new(), made: AtomicU64::new(0) }
    }

    /// The queue of a thread for the file of a number.
    fn thread_of(&self, file: u64) -> Result<Sender<Job>, TempError> {
        let threads = self.threads.get_or_init(|| (0..THREADS).map(|_| start()).collect());
        match threads {
            Ok(threads) => Ok(threads[file as usize % THREADS].clone()),
            Err(why) => Err(TempError::NotWritten(why.clone())),
        }
    }
}

fn start() -> Result<Sender<Job>, String> {
    let (jobs, received) = channel();
    let started = thread::Builder::new().name("temp-files".into()).spawn(move || work(&received));
    started.map_err(|error| format!("no thread for temporary files: {error}"))?;
    Ok(jobs)
}

impl TempFiles for HostFiles {
    fn create(&self, on_way: &Arc<AtomicU64>) -> Result<Box<dyn TempFile>, TempError> {
        let file = self.made.fetch_add(1, Ordering::Relaxed);
        let thread = self.thread_of(file)?;
        let shared = Arc::new(Shared { failed: Mutex::default(), on_way: on_way.clone() });
        let created = Job::Create(file, self.directory.clone(), shared.clone());
        thread.send(created).map_err(|_| gone())?;
        Ok(Box::new(HostFile { file, thread, shared, pieces: 0 }))
    }
}

/// A file that a thread works on.
#[derive(Debug)]
struct HostFile {
    file: u64,
    thread: Sender<Job>,
    shared: Arc<Shared>,
    /// Pieces that were appended.
    pieces: u64,
}

impl Drop for HostFile {
    fn drop(&mut self) {
        // A thread that has ended has closed it.
        let _ = self.thread.send(Job::Close(self.file));
    }
}

impl TempFile for HostFile {
    fn append(&mut self, bytes: Vec<u8>) -> Result<u64, TempError> {
        if let Some(error) = self.shared.failed() {
            return Err(error);
        }
        let length = bytes.len() as u64;
        self.shared.on_way.fetch_add(length, Ordering::Relaxed);
        if self.thread.send(Job::Append(self.file, bytes)).is_err() {
            self.shared.on_way.fetch_sub(length, Ordering::Relaxed);
            return Err(gone());
        }
        self.pieces += 1;
        Ok(self.pieces - 1)
    }

    fn read(&mut self, number: u64, length: usize) -> Box<dyn TempRead> {
        let (answer, outcome) = sync_channel(1);
        // Of a thread that has ended the other end is gone.
        let _ = self.thread.send(Job::Read { file: self.file, number, length, answer });
        Box::new(Reading(outcome))
    }
}

/// A piece that a thread reads.
#[derive(Debug)]
struct Reading(Receiver<Result<Vec<u8>, TempError>>);

impl TempRead for Reading {
    fn poll(&mut self) -> Result<Option<Vec<u8>>, TempError> {
        match self.0.try_recv() {
            Ok(outcome) => outcome.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }
}

fn gone() -> TempError {
    TempError::NotWritten("the thread of the file has ended".to_owned())
}

fn told(error: TemporaryError) -> TempError {
    match error {
        TemporaryError::Full(why) => TempError::Full(why),
        TemporaryError::Failed(why) => TempError::NotWritten(why),
    }
}

fn told_of_read(error: TemporaryError) -> TempError {
    let (TemporaryError::Full(why) | TemporaryError::Failed(why)) = error;
    TempError::NotRead(why)
}

/// A file in the hands of its thread.
struct Open {
    /// None where it could not be made.
    file: Option<TemporaryFile>,
    shared: Arc<Shared>,
    /// Where the pieces begin.
    places: Vec<u64>,
}

impl Open {
    fn append(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file
            && self.shared.failed().is_none()
        {
            match file.append(bytes) {
                Ok(place) => self.places.push(place),
                Err(error) => self.shared.fail(told(error)),
            }
        }
        self.shared.on_way.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
    }

    fn read(&self, number: u64, length: usize) -> Result<Vec<u8>, TempError> {
        let place = usize::try_from(number).ok().and_then(|number| self.places.get(number));
        match (&self.file, place, self.shared.failed()) {
            (_, _, Some(error)) => Err(error),
            (Some(file), Some(place), None) => file.read(*place, length).map_err(told_of_read),
            _ => Err(TempError::NotRead("a piece that was never written".to_owned())),
        }
    }
}

/// Works until nobody can ask for anything more.
fn work(jobs: &Receiver<Job>) {
    let mut files: HashMap<u64, Open> = HashMap::new();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Create(number, directory, shared) => {
                let file = directory.create().map_err(|error| shared.fail(told(error))).ok();
                files.insert(number, Open { file, shared, places: Vec::new() });
            }
            Job::Append(file, bytes) => {
                if let Some(open) = files.get_mut(&file) {
                    open.append(&bytes);
                }
            }
            Job::Read { file, number, length, answer } => {
                if let Some(open) = files.get(&file) {
                    // Whoever asked may have gone.
                    let _ = answer.send(open.read(number, length));
                }
            }
            Job::Close(file) => {
                files.remove(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nines-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn polled(mut read: Box<dyn TempRead>) -> Result<Vec<u8>, TempError> {
        loop {
            if let Some(bytes) = read.poll()? {
                return Ok(bytes);
            }
            thread::yield_now();
        }
    }

    #[test]
    fn what_is_appended_can_be_read_although_it_may_be_on_its_way() {
        let path = directory("temp-files");
        for encrypts in [false, true] {
            let on_way = Arc::default();
            let files = HostFiles::new(TemporaryDirectory::open(&path, encrypts).unwrap());
            let mut open: Vec<_> = (0..9).map(|_| files.create(&on_way).unwrap()).collect();
            let piece = |file: usize, at: usize| vec![(file * 31 + at) as u8; at * 777];
            for at in 0..40 {
                for (number, file) in open.iter_mut().enumerate() {
                    assert_eq!(file.append(piece(number, at)), Ok(at as u64));
                }
            }
            for at in (0..40).rev() {
                for (number, file) in open.iter_mut().enumerate() {
                    let read = file.read(at as u64, at * 777);
                    assert_eq!(polled(read), Ok(piece(number, at)));
                }
            }
            assert_eq!(on_way.load(Ordering::Relaxed), 0, "all of it was written before");
            assert!(matches!(polled(open[0].read(40, 1)), Err(TempError::NotRead(_))));
            // One that nobody looks at any more.
            drop(open[1].read(3, 3 * 777));
            drop(open);
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_made_says_so_in_all_that_follows() {
        let path = directory("temp-gone");
        let on_way = Arc::default();
        let files = HostFiles::new(TemporaryDirectory::open(&path, false).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
        let mut file = files.create(&on_way).unwrap();
        let first = file.append(vec![7; 100]);
        let read = polled(file.read(0, 100));
        let error = read.unwrap_err();
        assert!(matches!(&error, TempError::NotWritten(why) if why.contains("temp-gone")));
        assert!(first == Ok(0) || first == Err(error.clone()), "{first:?}");
        assert_eq!(file.append(vec![7; 100]), Err(error));
        assert_eq!(on_way.load(Ordering::Relaxed), 0);
        // Other files of the same threads are made where that can be done.
        std::fs::create_dir(&path).unwrap();
        for _ in 0..THREADS {
            let mut file = files.create(&on_way).unwrap();
            file.append(b"text".to_vec()).unwrap();
            assert_eq!(polled(file.read(0, 4)), Ok(b"text".to_vec()));
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
