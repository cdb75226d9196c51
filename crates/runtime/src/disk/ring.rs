//! A submission ring of the kernel, made safe.
//!
//! # Owns
//! The ring, and all that the kernel reads or writes while an operation is under way: buffers and
//! descriptors.
//! # Guarantees
//! What is given to the kernel stays where it is, untouched, until the kernel says that the
//! operation has ended: whoever gives it gets it back only then. A part that was written or read is
//! followed by the rest, so an operation ends whole, at the end of the file, or with an error.
//! # Not here
//! What the operations are for (`uring`).
#![expect(unsafe_code, reason = "the kernel is given pointers; decision 0011 has the argument")]

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;

/// A ring, whose operations carry a name each.
pub(super) struct Ring<Name> {
    ring: IoUring,
    /// Operations under way, by what the kernel calls them.
    flights: Vec<Option<Flight<Name>>>,
    free: Vec<usize>,
    landed: VecDeque<(Name, io::Result<Work>)>,
}

/// What is to be done with a file.
#[derive(Debug)]
pub(super) enum Work {
    /// Write all of it.
    Write { offset: u64, bytes: Vec<u8> },
    /// Fill the bytes; shorter ones come back when the file ends before.
    Read { offset: u64, bytes: Vec<u8> },
    /// Make the contents durable.
    Sync,
    /// Wait until there is something to read.
    Wait,
}

/// An operation under way.
struct Flight<Name> {
    name: Name,
    file: Arc<File>,
    work: Work,
    /// Bytes that have been moved.
    done: usize,
}

impl<Name> Ring<Name> {
    /// Makes a ring; an error where the kernel has none, forbids it, or lacks an operation.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Write::CODE, opcode::Read::CODE, opcode::Fsync::CODE, opcode::PollAdd::CODE];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(Errno::NOSYS.into());
        }
        Ok(Self { ring, flights: Vec::new(), free: Vec::new(), landed: VecDeque::new() })
    }

    /// Begins an operation; [`Ring::landed`] gives it back.
    pub(super) fn begin(&mut self, name: Name, file: Arc<File>, work: Work) -> io::Result<()> {
        let flight = Flight { name, file, work, done: 0 };
        let at = self.free.pop().unwrap_or(self.flights.len());
        if at == self.flights.len() {
            self.flights.push(None);
        }
        assert!(self.flights[at].is_none(), "place {at} of the ring is taken");
        self.flights[at] = Some(flight);
        self.push(at)
    }

    /// Gives what was begun to the kernel, and waits until an operation has ended.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        if !self.landed.is_empty() {
            return Ok(());
        }
        submitted(self.ring.submit_and_wait(1))?;
        self.reap()
    }

    /// The next operation that has ended.
    pub(super) fn landed(&mut self) -> Option<(Name, io::Result<Work>)> {
        self.landed.pop_front()
    }

    /// Queues the rest of an operation for the kernel.
    fn push(&mut self, at: usize) -> io::Result<()> {
        let flight = self.flights[at].as_mut().expect("an operation under way");
        let entry = flight.entry().user_data(at as u64);
        loop {
            // SAFETY: the entry names a descriptor and, for reads and writes, memory. Both belong
            // to `self.flights[at]`: the file is held by an `Arc` there, the bytes are a vector's,
            // so that they do not move with it, and nobody takes or changes either before `reap`
            // has seen the operation end. Dropping the ring waits for that (see `drop`).
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            submitted(self.ring.submit())?;
        }
    }

    /// Takes what has ended from the kernel. What ended in part goes on.
    fn reap(&mut self) -> io::Result<()> {
        let ended: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (at, result) in ended {
            let at = at as usize;
            let flight = self.flights[at].as_mut().expect("the kernel names what is under way");
            match flight.advance(result) {
                Ok(false) => self.push(at)?,
                outcome => {
                    let Flight { name, mut work, done, .. } =
                        self.flights[at].take().expect("looked at above");
                    self.free.push(at);
                    if let Work::Read { bytes, .. } = &mut work {
                        bytes.truncate(done);
                    }
                    self.landed.push_back((name, outcome.map(|_| work)));
                }
            }
        }
        Ok(())
    }
}

impl<Name> Flight<Name> {
    /// What the kernel is to do next for it.
    fn entry(&mut self) -> squeue::Entry {
        let descriptor = Fd(self.file.as_raw_fd());
        match &mut self.work {
            Work::Write { offset, bytes } => {
                let rest = &bytes[self.done..];
                let length = rest.len().min(CHUNK_MAX) as u32;
                let at = *offset + self.done as u64;
                opcode::Write::new(descriptor, rest.as_ptr(), length).offset(at).build()
            }
            Work::Read { offset, bytes } => {
                let rest = &mut bytes[self.done..];
                let length = rest.len().min(CHUNK_MAX) as u32;
                let at = *offset + self.done as u64;
                opcode::Read::new(descriptor, rest.as_mut_ptr(), length).offset(at).build()
            }
            Work::Sync => opcode::Fsync::new(descriptor).flags(FsyncFlags::DATASYNC).build(),
            Work::Wait => opcode::PollAdd::new(descriptor, POLL_IN).build(),
        }
    }

    /// Takes the kernel's answer; whether the operation has ended.
    fn advance(&mut self, result: i32) -> io::Result<bool> {
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => match io::Error::from_raw_os_error(-result) {
                error if is_transient(&error) && !matches!(self.work, Work::Sync) => {
                    return Ok(false);
                }
                error => return Err(error),
            },
        };
        let length = match &self.work {
            Work::Write { bytes, .. } | Work::Read { bytes, .. } => bytes.len(),
            Work::Sync | Work::Wait => return Ok(true),
        };
        let rest = length - self.done;
        assert!(count <= rest, "{count} bytes moved where {rest} were to be");
        self.done += count;
        if count == 0 && rest > 0 {
            return match &self.work {
                Work::Read { .. } => Ok(true),
                _ => Err(io::ErrorKind::WriteZero.into()),
            };
        }
        Ok(self.done == length)
    }
}

impl<Name> Drop for Ring<Name> {
    fn drop(&mut self) {
        // Closing the ring does not end what it has begun: the kernel would go on writing into
        // memory that is somebody else's by then.
        let holds_memory = |flight: &Flight<Name>| !matches!(flight.work, Work::Wait);
        while self.flights.iter().flatten().any(holds_memory) {
            if submitted(self.ring.submit_and_wait(1)).and_then(|()| self.reap()).is_err() {
                // Nothing more can be learnt; memory that is never given back is safe.
                mem::forget(mem::take(&mut self.flights));
            }
        }
    }
}

/// Errors of a submission that mean no more than that completions must be taken first.
fn submitted(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) if is_transient(&error) => Ok(()),
        other => other.map(drop),
    }
}

/// Whether the same call may succeed when it is made again.
fn is_transient(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

/// Operations that are given to the kernel at a time; more wait for their turn.
const ENTRIES: u32 = 256;
/// Bytes that one operation moves at most; the kernel's limit is a little below 2 GiB.
const CHUNK_MAX: usize = 1 << 30;
/// `POLLIN`.
const POLL_IN: u32 = 1;
