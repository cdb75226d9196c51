//! The audit log's file: JSON lines, written by a thread of its own.
//!
//! # Owns
//! [`AuditFile`]: the queue between the workers and the thread, the file, its rotation.
//! # Guarantees
//! A worker never waits for the disk here. The queue is bounded: an event that nobody waits for is
//! dropped when there is no room, counted, and that is said. Events that are waited for are written
//! as soon as the disk takes them, after a full disk too.
//! # Not here
//! What is in an event, and who waits for it: `sql`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use sql::{AuditFigures, AuditLimits, AuditLog, Kept};

use crate::{complain, machine};

/// How the log is kept, as the command line says.
#[derive(Clone, Debug)]
pub(crate) struct AuditOptions {
    pub(crate) file: PathBuf,
    /// Bytes of events that wait to be written.
    pub(crate) buffer: usize,
}

/// The audit log of a process. Dropping it writes what waits.
#[derive(Debug)]
pub(crate) struct AuditFile {
    shared: Arc<Shared>,
    /// Told when the thread ends.
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// SIGHUP has come.
    hangup: Arc<AtomicBool>,
    buffer: usize,
}

/// Between the workers and the thread.
#[derive(Debug, Default)]
struct Queue {
    /// Lines that wait.
    lines: Vec<u8>,
    /// How many events were taken, written, and are on the disk.
    taken: u64,
    written: u64,
    synced: u64,
    /// Up to here somebody waits for the disk.
    wanted: u64,
    lost: u64,
    flush: bool,
    ends: bool,
    limits: AuditLimits,
    current_size: u64,
    total_size: u64,
}

impl AuditFile {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// Why that cannot be: nobody starts without the log that was asked for.
    pub(crate) fn start(options: &AuditOptions) -> Result<Self, String> {
        let path = std::path::absolute(&options.file).unwrap_or_else(|_| options.file.clone());
        let cannot =
            |error: io::Error| format!("cannot write the audit log {}: {error}", path.display());
        let file = open(&path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        let hangup = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, hangup.clone()).map_err(cannot)?;
        let queue = Mutex::new(Queue { current_size: size, ..Queue::default() });
        let shared =
            Arc::new(Shared { queue, wake: Condvar::new(), hangup, buffer: options.buffer });
        let (end, ended) = sync_channel(1);
        let writer =
            Writer { shared: shared.clone(), path, file: Some(file), told: None, lost_told: 0 };
        let work = move || {
            writer.run();
            // Nobody may be waiting.
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("audit".into()).spawn(work);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { shared, ended: Mutex::new(ended) })
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditLog for AuditFile {
    fn write(&self, event: &str, kept: Kept) -> u64 {
        let time = machine::timestamp();
        let mut queue = self.shared.queue();
        let number = queue.taken + queue.lost + 1;
        let line = format!("{{\"timestamp\":\"{time}\",\"id\":{number},{event}}}\n");
        if kept == Kept::Nowhere && queue.lines.len() + line.len() > self.shared.buffer {
            queue.lost += 1;
            return 0;
        }
        queue.lines.extend_from_slice(line.as_bytes());
        queue.taken += 1;
        if kept == Kept::Synced {
            queue.wanted = queue.taken;
        }
        self.shared.wake.notify_one();
        queue.taken
    }

    fn has_reached(&self, number: u64, kept: Kept) -> bool {
        let queue = self.shared.queue();
        match kept {
            Kept::Nowhere => true,
            Kept::Written => queue.written >= number,
            Kept::Synced => queue.synced >= number,
        }
    }

    fn flush(&self) {
        self.shared.queue().flush = true;
        self.shared.wake.notify_one();
    }

    fn limit(&self, limits: AuditLimits) {
        self.shared.queue().limits = limits;
    }

    fn figures(&self) -> AuditFigures {
        let queue = self.shared.queue();
        AuditFigures {
            written: queue.written,
            lost: queue.lost,
            current_size: queue.current_size,
            total_size: queue.total_size,
        }
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.shared.queue().ends = true;
        self.shared.wake.notify_one();
        // A disk that does not answer keeps no process from ending.
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(END_PATIENCE);
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    path: PathBuf,
    /// None if it could not be opened again.
    file: Option<File>,
    /// When something was complained about last.
    told: Option<Instant>,
    /// Lost events that were told.
    lost_told: u64,
}

impl Writer {
    fn run(mut self) {
        loop {
            let mut queue = self.shared.queue();
            while queue.lines.is_empty() && !queue.flush && !queue.ends {
                let waited = self.shared.wake.wait_timeout(queue, LOOK);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                if self.shared.hangup.swap(false, Ordering::Relaxed) {
                    queue.flush = true;
                }
            }
            let lines = std::mem::take(&mut queue.lines);
            let (upto, limits, lost) = (queue.taken, queue.limits, queue.lost);
            let (flush, ends) = (std::mem::take(&mut queue.flush), queue.ends);
            let syncs = queue.wanted > queue.synced;
            drop(queue);
            if flush {
                self.file = None;
            }
            if !self.put(&lines, syncs) || ends && lines.is_empty() {
                return;
            }
            let mut queue = self.shared.queue();
            queue.written = upto;
            if syncs {
                queue.synced = upto;
            }
            queue.total_size += lines.len() as u64;
            drop(queue);
            self.tell_losses(lost);
            self.rotate(limits);
        }
    }

    /// Writes lines, however often it takes. False if the process ends before.
    fn put(&mut self, lines: &[u8], syncs: bool) -> bool {
        let mut rest = lines;
        loop {
            match self.attempt(&mut rest, syncs) {
                Ok(()) => return true,
                Err(error) => {
                    let path = self.path.display();
                    self.complain(&format!("the audit log {path} cannot be written: {error}"));
                }
            }
            if self.shared.queue().ends {
                return false;
            }
            thread::sleep(RETRY);
        }
    }

    /// Writes some of the rest.
    fn attempt(&mut self, rest: &mut &[u8], syncs: bool) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path)?),
        };
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => *rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if syncs {
            file.sync_data()?;
        }
        Ok(())
    }

    /// Puts a file aside that is large enough, and removes those that are too many.
    fn rotate(&mut self, limits: AuditLimits) {
        let size = self.file.as_ref().and_then(|file| file.metadata().ok());
        let mut size = size.map_or(0, |file| file.len());
        if limits.rotate_on_size > 0 && size >= limits.rotate_on_size {
            let aside = aside(&self.path, &machine::timestamp());
            match fs::rename(&self.path, &aside) {
                Ok(()) => (self.file, size) = (None, 0),
                Err(error) => {
                    let path = self.path.display();
                    self.complain(&format!("the audit log {path} cannot be renamed: {error}"));
                }
            }
        }
        self.shared.queue().current_size = size;
        if limits.max_size > 0 {
            // What cannot be removed now is tried the next time.
            let _ = prune(&self.path, limits.max_size.saturating_sub(size));
        }
    }

    fn tell_losses(&mut self, lost: u64) {
        let more = lost - self.lost_told;
        let line = format!("{more} events of the audit log were lost: its disk is slow or full");
        if more > 0 && self.complain(&line) {
            self.lost_told = lost;
        }
    }

    /// Says something, unless something was said a moment ago.
    fn complain(&mut self, what: &str) -> bool {
        let is_soon = self.told.is_some_and(|told| told.elapsed() < QUIET);
        if !is_soon {
            self.told = Some(Instant::now());
            complain(what);
        }
        !is_soon
    }
}

/// Opens the log's file, which its owner and group can read.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// The name of a file that is put aside: with the time before the last dot, as MySQL has it.
fn aside(path: &Path, time: &str) -> PathBuf {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, clock) = digits.split_at(8.min(digits.len()));
    let (stem, suffix) = parts(path);
    let name = |more: &str| path.with_file_name(format!("{stem}.{day}T{clock}{more}{suffix}"));
    let with_number = |number: u32| name(&format!("-{number}"));
    let mut names = std::iter::once(name("")).chain((1..).map(with_number));
    names.find(|name| !name.exists()).unwrap_or_else(|| name(""))
}

/// The name of a file without its suffix, and the suffix.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let suffix = path.extension().map(|_| format!(".{}", text(path.extension())));
    (text(path.file_stem()), suffix.unwrap_or_default())
}

/// Removes the oldest of the files that were put aside while they are larger together.
fn prune(path: &Path, most: u64) -> io::Result<()> {
    let (stem, suffix) = parts(path);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_aside = |name: &str| {
        let time =
            name.strip_prefix(&format!("{stem}.")).and_then(|rest| rest.strip_suffix(&suffix));
        time.is_some_and(|time| {
            time.len() >= 15
                && time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'-'))
        })
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_aside(&entry.file_name().to_string_lossy()) {
            let about = entry.metadata()?;
            files.push((about.modified()?, entry.file_name(), about.len()));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, _, size)| size).sum();
    for (_, name, size) in files {
        if total <= most {
            break;
        }
        fs::remove_file(directory.join(name))?;
        total -= size;
    }
    Ok(())
}

/// How often it is looked whether SIGHUP has come.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait before a write is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often something is complained about at most.
const QUIET: Duration = Duration::from_secs(10);
/// How long the end of a process waits for the log.
const END_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
