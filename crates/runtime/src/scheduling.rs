//! Where the threads of a process run: their CPUs and priorities, as the process is told.
//!
//! # Owns
//! [`Scheduling`], and how a thread puts itself in its place.
//! # Failure
//! A thread that cannot have its place fails, and says which, why, and what to change: running
//! somewhere else would be noticed only by being slow.
//! # Not here
//! Which places are good ones: the program decides that by configuration and machine.

use std::io;

use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::spin::SpinMethod;

/// Where a thread runs. The default is wherever the process may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its CPUs; all those of the process if there is none.
    pub cpus: Vec<u16>,
    /// Its nice value, from -20, the most important, to 19.
    pub nice: Option<i8>,
}

/// A worker's place, and how it waits there if not as the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Where it runs.
    pub place: ThreadPlace,
    /// How it waits, if not as `Scheduling` says.
    pub spin: Option<SpinMethod>,
}

/// Where the threads of a process run, and how its workers wait for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// By number of the worker; those beyond the end are anywhere.
    pub workers: Vec<WorkerPlace>,
    /// The thread that makes links.
    pub links: ThreadPlace,
    /// Threads that work the disk.
    pub disk: ThreadPlace,
    /// How workers decide whether to look for work before they sleep.
    pub spin: SpinMethod,
    /// CPUs' worth of time that the process may have. With fewer than workers, none of these spins
    /// but by order.
    pub cpus: usize,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            workers: Vec::new(),
            links: ThreadPlace::default(),
            disk: ThreadPlace::default(),
            spin: SpinMethod::default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Scheduling {
    /// How a worker waits, in a process with so many: methods that adapt need CPUs of their own.
    pub(crate) fn spin_of(&self, worker: usize, workers: usize) -> SpinMethod {
        let own = self.workers.get(worker).and_then(|place| place.spin);
        let method = own.unwrap_or(self.spin);
        let crowded = workers > self.cpus;
        if crowded && method.adapts() { NO_SPINNING } else { method }
    }

    /// Whether nobody has said where a worker runs, or how it waits.
    pub(crate) fn is_anywhere(&self, worker: usize) -> bool {
        self.workers.get(worker).is_none_or(|place| *place == WorkerPlace::default())
    }

    pub(crate) fn place_of(&self, worker: usize) -> ThreadPlace {
        self.workers.get(worker).map(|worker| worker.place.clone()).unwrap_or_default()
    }
}

impl ThreadPlace {
    /// Puts the calling thread there; threads that it starts are there too.
    ///
    /// # Errors
    /// When a CPU is not there or not allowed, or the priority is more than the process may have.
    pub fn take(&self) -> io::Result<()> {
        let named = || std::thread::current().name().unwrap_or("a thread").to_string();
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            for cpu in self.cpus.iter().map(|cpu| usize::from(*cpu)) {
                if cpu >= CpuSet::MAX_CPU {
                    return Err(io::Error::other(format!("{}: there is no CPU {cpu}", named())));
                }
                set.set(cpu);
            }
            sched_setaffinity(None, &set).map_err(|errno| {
                let cpus = &self.cpus;
                io::Error::other(format!("{} cannot run on CPUs {cpus:?}: {errno}", named()))
            })?;
        }
        let Some(nice) = self.nice else { return Ok(()) };
        // For Linux that is the thread, not the process.
        setpriority_process(None, i32::from(nice)).map_err(|errno| {
            let why = match errno {
                Errno::ACCESS | Errno::PERM => "raising it needs the capability CAP_SYS_NICE, or \
                    a limit `nice` that allows it (LimitNICE in systemd); else write thread_prio=5 \
                    or less"
                    .to_string(),
                errno => errno.to_string(),
            };
            io::Error::other(format!("{} cannot have the nice value {nice}: {why}", named()))
        })
    }
}

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// When the system does not say.
pub fn allowed_cpus() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u16).collect())
}

const NO_SPINNING: SpinMethod = SpinMethod::Static(stdx::Duration::ZERO);

#[cfg(test)]
mod tests {
    use stdx::Duration;

    use super::*;

    fn on_a_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::Builder::new().name("placed".into()).spawn(run).unwrap().join().unwrap()
    }

    #[test]
    fn a_thread_runs_where_it_is_told() {
        let all = allowed_cpus().unwrap();
        let last = *all.last().unwrap();
        let place = ThreadPlace { cpus: vec![last], nice: Some(19) };
        let found = on_a_thread(move || {
            place.take().unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(found, [last]);
        assert_eq!(allowed_cpus().unwrap(), all, "the others stay where they are");
    }

    #[test]
    fn a_place_that_is_not_there_is_an_error() {
        let place = |cpu| ThreadPlace { cpus: vec![cpu], nice: None };
        let why = |cpu| on_a_thread(move || place(cpu).take().unwrap_err().to_string());
        assert_eq!(why(65_535), "placed: there is no CPU 65535");
        assert!(why(1_023).starts_with("placed cannot run on CPUs [1023]"), "{}", why(1_023));
    }

    #[test]
    fn workers_without_cpus_of_their_own_do_not_spin() {
        let mut scheduling = Scheduling { cpus: 2, ..Scheduling::default() };
        assert_eq!(scheduling.spin_of(0, 2), SpinMethod::CostBased);
        assert_eq!(scheduling.spin_of(7, 8), NO_SPINNING);
        scheduling.spin = SpinMethod::DatabaseMachine;
        assert_eq!(scheduling.spin_of(0, 3), NO_SPINNING);
        // Who orders it has it.
        let ordered = SpinMethod::Static(Duration::from_micros(50));
        let worker = WorkerPlace { spin: Some(ordered), ..WorkerPlace::default() };
        scheduling.workers = vec![WorkerPlace::default(), worker];
        assert_eq!(scheduling.spin_of(1, 3), ordered);
        assert_eq!(scheduling.spin_of(0, 2), SpinMethod::DatabaseMachine);
    }
}
