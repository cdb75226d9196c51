//! Threads that block: the engine that works everywhere, and the helpers of the other one.
//!
//! # Invariants
//! A lane is worked by one thread at a time, which is what keeps its order.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use actor::{DiskReply, DiskRequest};

use super::lanes::{LaneKey, Lanes};
use super::{Asked, Failed, Surroundings};
use crate::scheduling::ThreadPlace;

/// Something that may take its time.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that carry out jobs. Dropping it waits until all jobs are done.
pub(super) struct Pool {
    state: Arc<PoolState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct PoolState {
    queue: Mutex<Queue>,
    work: Condvar,
    place: ThreadPlace,
    failed: Failed,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    stopping: bool,
}

impl Pool {
    /// A pool with one thread; more come as they are needed.
    pub(super) fn start(place: ThreadPlace, failed: Failed) -> io::Result<Pool> {
        let state = PoolState { queue: Mutex::default(), work: Condvar::new(), place, failed };
        let pool = Pool { state: Arc::new(state), threads: Mutex::default() };
        pool.grow()?;
        Ok(pool)
    }

    /// Has a job done by the next thread that is free.
    pub(super) fn spawn(&self, job: Job) {
        let mut queue = self.state.queue();
        queue.jobs.push_back(job);
        let short = queue.jobs.len() > queue.idle;
        drop(queue);
        self.state.work.notify_one();
        if short {
            // There is one thread at least: without another the job only waits longer.
            let _ = self.grow();
        }
    }

    fn grow(&self) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() < THREADS_MAX {
            let state = self.state.clone();
            let builder = thread::Builder::new().name(format!("disk-{}", threads.len()));
            threads.push(builder.spawn(move || state.live())?);
        }
        Ok(())
    }
}

impl PoolState {
    fn live(&self) {
        if let Err(error) = self.place.take() {
            (self.failed)(error);
        }
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                (self.failed)(io::Error::other("a rule was broken in a thread for the disk"));
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.idle += 1;
        let waits = |queue: &mut Queue| queue.jobs.is_empty() && !queue.stopping;
        let mut queue = self.work.wait_while(queue, waits).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.queue().stopping = true;
        self.state.work.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // What a job breaks is reported where it happens.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// The engine of threads: each lane at work has one.
pub(super) struct PoolEngine {
    work: Arc<Work>,
    pool: Pool,
}

struct Work {
    surroundings: Surroundings,
    lanes: Mutex<Lanes>,
}

impl PoolEngine {
    pub(super) fn start(surroundings: Surroundings) -> io::Result<PoolEngine> {
        let pool = Pool::start(surroundings.place.clone(), surroundings.failed.clone())?;
        let work = Work { surroundings, lanes: Mutex::default() };
        Ok(PoolEngine { work: Arc::new(work), pool })
    }

    pub(super) fn submit(&self, batch: &mut Vec<Asked>) {
        for asked in batch.drain(..) {
            let begin = self.work.lanes().push(asked);
            if let Some((key, request)) = begin {
                let work = self.work.clone();
                self.pool.spawn(Box::new(move || work.run(key, request)));
            }
        }
    }
}

impl Work {
    /// Works a lane until nothing waits in it.
    fn run(&self, key: LaneKey, mut request: DiskRequest) {
        loop {
            let directory = &self.surroundings.directories[&key.node];
            let operations = request.operations.iter().enumerate();
            let result = operations.map(|(at, o)| directory.carry_out(at, o)).collect();
            let reply = DiskReply { actor: request.actor, token: request.token, result };
            // Answered before the lane is free, so that the next answer does not overtake it.
            (self.surroundings.deliver)(key.worker, vec![(key.node, reply)]);
            let next = self.lanes().finished(key);
            match next {
                Some(next) => request = next,
                None => return,
            }
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads at most: a slow lane does not hold up the others until so many are slow.
const THREADS_MAX: usize = 32;
