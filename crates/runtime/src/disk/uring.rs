//! The engine of `io_uring`: one thread that keeps the kernel busy.
//!
//! # Owns
//! How far the request of each lane is. Writes, syncs and reads of open files go through the ring;
//! what changes names or opens files is done by helpers (`pool`), since the kernel would use
//! threads for it too.
//! # Failure
//! When the ring itself fails, the process is told that the disk cannot be worked any more.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use actor::{DiskAnswer, DiskError, DiskOperation, DiskReply, DiskRequest};
use model::{NodeId, WorkerId};
use rustix::event::{EventfdFlags, eventfd};

use super::directory::NodeDirectory;
use super::lanes::{LaneKey, Lanes};
use super::opened::OpenFile;
use super::pool::Pool;
use super::ring::{Ring, Work};
use super::{Asked, Surroundings};

/// The engine's handle. Dropping it waits for what has begun.
pub(super) struct UringEngine {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

/// What the engine's thread is to take.
struct Inbox {
    mail: Mutex<Mail>,
    /// Counts up when there is mail.
    wake: Arc<File>,
}

#[derive(Default)]
struct Mail {
    asked: Vec<Asked>,
    /// Lanes whose operation a helper has carried out.
    helped: Vec<(LaneKey, DiskRequest, Result<DiskAnswer, DiskError>)>,
    /// The wake-up is under way.
    announced: bool,
    stopping: bool,
}

impl UringEngine {
    pub(super) fn start(surroundings: Surroundings) -> io::Result<UringEngine> {
        let ring = Ring::new()?;
        let wake: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inbox = Arc::new(Inbox { mail: Mutex::default(), wake: Arc::new(wake.into()) });
        let helpers = Pool::start(surroundings.place.clone(), surroundings.failed.clone())?;
        let (failed, place) = (surroundings.failed.clone(), surroundings.place.clone());
        let mut driver = Driver {
            inbox: inbox.clone(),
            ring,
            lanes: Lanes::default(),
            runs: BTreeMap::new(),
            helpers,
            answers: BTreeMap::new(),
            surroundings,
        };
        let run = move || place.take().and_then(|()| driver.live());
        let live = move || match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed(error),
            Err(_) => failed(io::Error::other("a rule was broken in the thread for the disk")),
        };
        let thread = thread::Builder::new().name("disk-ring".into()).spawn(live)?;
        Ok(UringEngine { inbox, thread: Some(thread) })
    }

    pub(super) fn submit(&self, batch: &mut Vec<Asked>) {
        self.inbox.post(|mail| mail.asked.append(batch));
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        self.inbox.post(|mail| mail.stopping = true);
        if let Some(thread) = self.thread.take() {
            // What went wrong has been reported.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringEngine").finish_non_exhaustive()
    }
}

impl Inbox {
    /// Adds mail; wakes the thread unless somebody has.
    fn post(&self, add: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail();
        add(&mut mail);
        let announce = !std::mem::replace(&mut mail.announced, true);
        drop(mail);
        if announce {
            // The counter cannot overflow: it is added to once per `take`.
            let _ = (&*self.wake).write(&1u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Mail {
        // Before the mail: what is announced later counts up again.
        let _ = (&*self.wake).read(&mut [0; 8]);
        std::mem::take(&mut *self.mail())
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the engine's thread works with.
struct Driver {
    surroundings: Surroundings,
    inbox: Arc<Inbox>,
    ring: Ring<Name>,
    lanes: Lanes,
    runs: BTreeMap<LaneKey, Run>,
    helpers: Pool,
    /// Answers to be delivered, by worker.
    answers: BTreeMap<WorkerId, Vec<(NodeId, DiskReply)>>,
}

/// What an operation of the ring is for.
#[derive(Clone, Copy, Debug)]
enum Name {
    Inbox,
    Lane(LaneKey),
}

/// How far the request of a lane is.
struct Run {
    /// Not here while a helper has it.
    request: Option<DiskRequest>,
    answers: Vec<DiskAnswer>,
    /// The file that the ring reads from, and where what it reads begins.
    reads: Option<(Arc<OpenFile>, u64)>,
}

impl Run {
    fn of(request: Option<DiskRequest>) -> Self {
        Self { request, answers: Vec::new(), reads: None }
    }
}

impl Driver {
    fn live(&mut self) -> io::Result<()> {
        self.ring.begin(Name::Inbox, self.inbox.wake.clone(), Work::Wait)?;
        let mut stopping = false;
        while !stopping || !self.lanes.is_idle() {
            self.ring.wait()?;
            while let Some((name, outcome)) = self.ring.landed() {
                match name {
                    Name::Inbox => {
                        outcome?;
                        stopping |= self.take_mail()?;
                        self.ring.begin(name, self.inbox.wake.clone(), Work::Wait)?;
                    }
                    Name::Lane(key) => self.landed(key, outcome)?,
                }
            }
            while let Some((worker, answers)) = self.answers.pop_first() {
                (self.surroundings.deliver)(worker, answers);
            }
        }
        Ok(())
    }

    fn take_mail(&mut self) -> io::Result<bool> {
        let Mail { asked, helped, stopping, .. } = self.inbox.take();
        for (key, request, result) in helped {
            self.run(key).request = Some(request);
            self.ended(key, result)?;
        }
        for asked in asked {
            if let Some((key, request)) = self.lanes.push(asked) {
                self.runs.insert(key, Run::of(Some(request)));
                self.advance(key)?;
            }
        }
        Ok(stopping)
    }

    /// The ring has carried out an operation.
    fn landed(&mut self, key: LaneKey, outcome: io::Result<Work>) -> io::Result<()> {
        let outcome = outcome.and_then(|work| match work {
            Work::Read { mut bytes, .. } => {
                let (file, offset) = self.run(key).reads.take().expect("noted when it began");
                file.decrypt(offset, &mut bytes)?;
                Ok(DiskAnswer::Bytes(bytes))
            }
            _ => Ok(DiskAnswer::Done),
        });
        let result = match outcome {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let run = &self.runs[&key];
                let (at, request) = (run.answers.len(), run.request.as_ref());
                let request = request.expect("it is not at a helper");
                Err(self.directory(key).failure(at, &request.operations[at], &error))
            }
        };
        self.ended(key, result)
    }

    /// An operation has ended: goes on with the request, or with the next one.
    fn ended(&mut self, key: LaneKey, result: Result<DiskAnswer, DiskError>) -> io::Result<()> {
        match result {
            Ok(answer) => {
                self.run(key).answers.push(answer);
                self.advance(key)
            }
            Err(error) => {
                if self.answer(key, Err(error)) {
                    return self.advance(key);
                }
                Ok(())
            }
        }
    }

    /// Begins the next operation of a lane; requests that have come to their end are answered.
    fn advance(&mut self, key: LaneKey) -> io::Result<()> {
        while self.is_complete(key) {
            let answers = std::mem::take(&mut self.run(key).answers);
            if !self.answer(key, Ok(answers)) {
                return Ok(());
            }
        }
        let run = self.runs.get_mut(&key).expect("a lane at work");
        let at = run.answers.len();
        let request = run.request.as_mut().expect("it is not at a helper");
        let operation = &mut request.operations[at];
        let directory = &self.surroundings.directories[&key.node];
        match for_ring(directory, operation) {
            Some((file, work)) => {
                let descriptor = file.file().clone();
                if let DiskOperation::Read { offset, .. } = operation {
                    run.reads = Some((file, *offset));
                }
                self.ring.begin(Name::Lane(key), descriptor, work)
            }
            None => {
                let request = run.request.take().expect("looked at above");
                let (inbox, directories) =
                    (self.inbox.clone(), self.surroundings.directories.clone());
                self.helpers.spawn(Box::new(move || {
                    let result = directories[&key.node].carry_out(at, &request.operations[at]);
                    inbox.post(|mail| mail.helped.push((key, request, result)));
                }));
                Ok(())
            }
        }
    }

    /// Answers the lane's request; whether there is another.
    fn answer(&mut self, key: LaneKey, result: Result<Vec<DiskAnswer>, DiskError>) -> bool {
        let run = self.runs.remove(&key).expect("a lane at work");
        let DiskRequest { actor, token, .. } = run.request.expect("it is not at a helper");
        let reply = DiskReply { actor, token, result };
        self.answers.entry(key.worker).or_default().push((key.node, reply));
        let next = self.lanes.finished(key);
        let more = next.is_some();
        if more {
            self.runs.insert(key, Run::of(next));
        }
        more
    }

    /// Whether all operations of the lane's request have been carried out.
    fn is_complete(&self, key: LaneKey) -> bool {
        let run = &self.runs[&key];
        let request = run.request.as_ref().expect("it is not at a helper");
        run.answers.len() == request.operations.len()
    }

    fn run(&mut self, key: LaneKey) -> &mut Run {
        self.runs.get_mut(&key).expect("a lane at work")
    }

    fn directory(&self, key: LaneKey) -> &NodeDirectory {
        &self.surroundings.directories[&key.node]
    }
}

/// What the ring is to do for an operation; nothing where a helper must do it.
fn for_ring(
    directory: &NodeDirectory,
    operation: &mut DiskOperation,
) -> Option<(Arc<OpenFile>, Work)> {
    match operation {
        DiskOperation::Write { path, offset, bytes } => {
            let file = directory.opened(path)?;
            let offset = file.prepare(*offset, bytes)?;
            Some((file, Work::Write { offset, bytes: std::mem::take(bytes) }))
        }
        DiskOperation::Read { path, offset, length } => {
            let file = directory.opened(path)?;
            // A helper says what is wrong with a file that does not tell its length.
            let (offset, length) = file.readable(*offset, *length).ok().flatten()?;
            Some((file, Work::Read { offset, bytes: vec![0; length] }))
        }
        DiskOperation::Sync { path } => Some((directory.opened(path)?, Work::Sync)),
        _ => None,
    }
}
