//! Sees to it that the threads of workers and of links move, and the disk answers.
//!
//! A worker that stands still holds up the whole cluster, or the clients of an SQL node, and the
//! rest of its process goes on answering for the node. Without the thread of links no link comes
//! back. So a thread of its own watches these, and ends the process when one of them hangs: then
//! the others see at once that this one has gone, and go on without it.
//!
//! # Owns
//! [`Pulse`], what a thread leaves at each turn; the thread `watchdog`; what is said at the end.
//! # Guarantees
//! 1. A thread hangs if it has been blocked for the limit, or has computed for several limits in a
//!    single turn. Waiting for a CPU does not count: a thread that starves does not hang.
//! 2. The watchdog subtracts its own pauses: a process that was stopped, or starved as a whole,
//!    goes on.
//! 3. A request to the disk that is not answered in twenty limits ends the process too.
//! # Not here
//! What becomes of the node (`control`), and of the process (`nines`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use actor::{DiskOperation, DiskReply, DiskRequest};
use model::{ActorKind, NodeId, WorkerId};
use stdx::Duration;

use crate::cluster::{Common, Event};
use crate::thread::sharing::Seat;

/// How threads are watched.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// How long a thread may stand still: `TimeBetweenWatchDogCheck`.
    pub limit: Duration,
    /// The same until the node serves: `TimeBetweenWatchDogCheckInitial`.
    pub limit_at_start: Duration,
    /// For how many limits a single turn may compute: that is bad, and ends by itself more often
    /// than not.
    pub computing_limits: u64,
    /// Whether the flight recorders of the other workers are written before the process ends.
    pub traces: bool,
}

/// What a thread leaves at each turn, for the watchdog to see.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    /// The thread that takes the turns, as the system numbers it.
    thread: AtomicI32,
}

impl Pulse {
    /// A turn begins, on the calling thread.
    pub(crate) fn beat(&self) {
        // Nobody else writes: no need to lock the bus.
        self.beats.store(self.beats.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The calling thread takes the turns from now on.
    pub(crate) fn take(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Relaxed);
    }
}

/// What hangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hung {
    /// A thread is blocked outside of its loop.
    Blocked {
        /// Its name.
        thread: String,
        /// For how long.
        time: Duration,
        /// What the system says of the thread.
        state: &'static str,
    },
    /// A thread has computed all the time without coming to the end of a turn.
    Computing {
        /// Its name.
        thread: String,
        /// For how long.
        time: Duration,
    },
    /// The disk does not answer.
    Disk {
        /// What was asked.
        request: String,
        /// For how long.
        time: Duration,
    },
}

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hung::Blocked { thread, time, state } => {
                let millis = time.as_millis();
                write!(f, "the thread {thread} has stood still for {millis} ms: it is {state}")
            }
            Hung::Computing { thread, time } => {
                let millis = time.as_millis();
                write!(f, "the thread {thread} has computed for {millis} ms without end")
            }
            Hung::Disk { request, time } => {
                let millis = time.as_millis();
                write!(f, "the disk has not answered for {millis} ms: {request}")
            }
        }
    }
}

/// Requests to the disk that are under way, by lane.
#[derive(Debug, Default)]
pub(crate) struct DiskRequests(Mutex<BTreeMap<Lane, Requests>>);

/// A lane of an actor.
pub(crate) type Lane = (NodeId, WorkerId, ActorKind, u8);

/// The requests of a lane, which are answered in order.
#[derive(Debug, Default)]
struct Requests {
    /// How many have been answered.
    answered: u64,
    /// Tokens, and what was asked.
    waiting: VecDeque<(u64, String)>,
}

impl DiskRequests {
    fn lanes(&self) -> MutexGuard<'_, BTreeMap<Lane, Requests>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is handed to the disk.
    pub(crate) fn begin(&self, node: NodeId, worker: WorkerId, request: &DiskRequest) {
        let lane = (node, worker, request.actor, request.lane);
        let waiting = (request.token, description(request));
        self.lanes().entry(lane).or_default().waiting.push_back(waiting);
    }

    /// A request is answered.
    pub(crate) fn end(&self, node: NodeId, worker: WorkerId, reply: &DiskReply) {
        for ((of, at, actor, _), requests) in &mut *self.lanes() {
            let first = requests.waiting.front().map(|(token, _)| *token);
            if (*of, *at, *actor) == (node, worker, reply.actor) && first == Some(reply.token) {
                requests.waiting.pop_front();
                requests.answered += 1;
                return;
            }
        }
    }

    /// The lanes with requests: how many have been answered, and what is waited for.
    fn under_way(&self) -> Vec<(Lane, u64, String)> {
        let lanes = self.lanes();
        let first = |requests: &Requests| requests.waiting.front().map(|(_, what)| what.clone());
        let under_way = lanes
            .iter()
            .filter_map(|(lane, requests)| Some((*lane, requests.answered, first(requests)?)));
        under_way.collect()
    }
}

/// What a request asks for: its sync, if it has one, as that takes longest.
fn description(request: &DiskRequest) -> String {
    let sync = |operation: &&DiskOperation| {
        matches!(operation, DiskOperation::Sync { .. } | DiskOperation::SyncDirectory { .. })
    };
    let operations = &request.operations;
    let told = operations.iter().find(sync).or(operations.first());
    told.map_or_else(String::new, |operation| match operation {
        DiskOperation::Sync { path } => format!("sync of {path}"),
        DiskOperation::SyncDirectory { path } => format!("sync of the directory {path}"),
        DiskOperation::Write { path, .. } => format!("write to {path}"),
        DiskOperation::Read { path, .. } => format!("read of {path}"),
        other => format!("{other:?}").chars().take(80).collect(),
    })
}

/// What the system knows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    /// It has a CPU, or waits for one.
    runs: bool,
    state: &'static str,
    /// What it has used of CPUs.
    cpu: Duration,
}

/// What the watchdog knows of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    beats: u64,
    /// Looks in a row without a beat.
    missed: u32,
    cpu: Duration,
    blocked: Duration,
    computed: Duration,
}

/// How long the steps of a watch are, and what a thread may do.
#[derive(Clone, Copy)]
struct Limits {
    /// From one look to the next.
    step: Duration,
    /// A thread may be blocked for less than this.
    blocked: Duration,
    /// A thread may compute for less than this.
    computing: Duration,
}

impl Watched {
    /// Takes a look, a step after the last; what hangs.
    fn look(
        &mut self,
        name: &str,
        limits: Limits,
        beats: u64,
        see: impl FnOnce() -> Option<Sight>,
    ) -> Option<Hung> {
        if beats != self.beats {
            *self = Self { beats, ..Self::default() };
            return None;
        }
        self.missed += 1;
        let sight = see()?;
        let used = sight.cpu.as_nanos().saturating_sub(self.cpu.as_nanos());
        self.cpu = sight.cpu;
        if self.missed == 1 {
            // It may have had nothing to do, and is woken now.
            return None;
        }
        if sight.runs {
            self.computed = self.computed + Duration::from_nanos(used).min(limits.step);
        } else {
            self.blocked = self.blocked + limits.step;
        }
        let (thread, time) = (name.to_string(), self.blocked + self.computed);
        if self.blocked >= limits.blocked {
            return Some(Hung::Blocked { thread, time, state: sight.state });
        }
        let hangs = self.computed >= limits.computing;
        hangs.then_some(Hung::Computing { thread, time })
    }
}

/// A thread that is watched.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Worker(usize),
    Links,
}

/// The threads of a process that are watched.
fn subjects(common: &Common) -> Vec<(Subject, Watched)> {
    let workers = (0..common.threads()).map(Subject::Worker);
    let links = common.links.iter().map(|_| Subject::Links);
    workers.chain(links).map(|subject| (subject, Watched::default())).collect()
}

impl Subject {
    fn pulse(self, common: &Common) -> Option<&Pulse> {
        match self {
            Self::Worker(worker) => common.pulses.get(worker),
            Self::Links => common.links.as_ref().map(|links| links.keeper.pulse()),
        }
    }

    /// Lets the thread take a turn, if it only has nothing to do.
    fn wake(self, common: &Common) {
        match self {
            Self::Worker(worker) => common.exchange.wake(worker),
            Self::Links => common.links.iter().for_each(|links| links.keeper.wake()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker(worker) => write!(f, "worker-{worker}"),
            Self::Links => write!(f, "links"),
        }
    }
}

/// The thread that watches. Dropping it ends it.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to watch.
    pub(crate) fn start(common: Arc<Common>, watching: Watching) -> std::io::Result<Self> {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let told = stop.clone();
        let builder = std::thread::Builder::new().name("watchdog".into());
        let thread = builder.spawn(move || {
            if let Some(hung) = watch(&common, watching, &told) {
                end(&common, watching, hung);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Watches until something hangs, or it is to stop.
fn watch(common: &Common, watching: Watching, stop: &(Mutex<bool>, Condvar)) -> Option<Hung> {
    let step = watching.limit.divided_by(LOOKS).max(STEP_MIN).min(STEP_MAX);
    let clock = common.clock;
    let mut threads: Vec<(Subject, Watched)> = subjects(common);
    let mut lanes: BTreeMap<Lane, (u64, Duration)> = BTreeMap::new();
    loop {
        let began = clock.now();
        let stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = std::time::Duration::from_nanos(step.as_nanos());
        let (stopped, _) = stop
            .1
            .wait_timeout_while(stopped, wait, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if *stopped || common.crash.has_crashed() {
            return None;
        }
        drop(stopped);
        if clock.now().since(began) > step.times(2) {
            // This thread was held up, and so may have been the others.
            continue;
        }
        let serves = common.ready.load(Ordering::SeqCst) == common.threads();
        let limit = if serves { watching.limit } else { watching.limit_at_start };
        let computing = limit.times(watching.computing_limits);
        let limits = Limits { step, blocked: limit, computing };
        for (subject, watched) in &mut threads {
            let Some(pulse) = subject.pulse(common) else { continue };
            let beats = pulse.beats.load(Ordering::Relaxed);
            let see = || sight(pulse.thread.load(Ordering::Relaxed));
            let hung = watched.look(&subject.to_string(), limits, beats, see);
            if watched.missed == 1 {
                subject.wake(common);
            }
            if hung.is_some() {
                return hung;
            }
        }
        let under_way = common.disk_requests.under_way();
        lanes.retain(|lane, _| under_way.iter().any(|(other, ..)| other == lane));
        for (lane, answered, request) in under_way {
            let (before, time) = lanes.entry(lane).or_default();
            if *before != answered {
                (*before, *time) = (answered, Duration::ZERO);
            }
            *time = *time + step;
            if *time >= limit.times(DISK_LIMITS).max(DISK_LIMIT_MIN) {
                return Some(Hung::Disk { request, time: *time });
            }
        }
    }
}

/// Ends the process: it says why, and leaves what the other workers were doing.
fn end(common: &Common, watching: Watching, hung: Hung) {
    let mut traces = None;
    if common.crash.declare() {
        common.exchange.wake_all();
        common.seats.iter().for_each(Seat::wake);
        traces = watching.traces.then(|| common.crash.write(TRACES_WITHIN));
    }
    (common.report)(Event::Hung { hung, traces });
    // The main thread ends the process. If it hangs as well, nothing is left but this.
    std::thread::sleep(END_WITHIN);
    std::process::abort();
}

/// What the system says of a thread of this process; none if it says nothing.
fn sight(thread: i32) -> Option<Sight> {
    let of = |file: &str| fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok();
    let stat = of("stat")?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let exact = of("schedstat").and_then(|text| text.split(' ').next()?.parse().ok());
    let cpu = exact.map(Duration::from_nanos).or_else(|| {
        // Where the kernel does not count exactly: hundredths of a second.
        let ticks: u64 = fields.skip(10).take(2).map_while(|field| field.parse::<u64>().ok()).sum();
        Some(Duration::from_millis(ticks * 10))
    })?;
    let (runs, state) = match state {
        "R" => (true, "ready to run"),
        "D" => (false, "blocked in the system, waiting for a device"),
        "T" | "t" => (false, "stopped by a signal or a debugger"),
        "S" => (false, "blocked, waiting for something that does not come"),
        _ => (false, "ended, or in a state that is not known"),
    };
    Some(Sight { runs, state, cpu })
}

/// Looks in the time that a worker may stand still.
const LOOKS: u64 = 8;
const STEP_MIN: Duration = Duration::from_millis(10);
const STEP_MAX: Duration = Duration::from_millis(250);
/// A request to the disk may take so many limits, and this long at least: a slow disk is not a dead
/// one, and all nodes may share it.
const DISK_LIMITS: u64 = 20;
const DISK_LIMIT_MIN: Duration = Duration::from_secs(10);
/// How long the other threads have to leave their recorders.
const TRACES_WITHIN: std::time::Duration = std::time::Duration::from_millis(100);
/// How long the main thread has to end the process.
const END_WITHIN: std::time::Duration = std::time::Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(60);
    const LIMIT: Duration = Duration::from_millis(500);
    const LIMITS: Limits = Limits { step: STEP, blocked: LIMIT, computing: LIMIT };

    /// After how many looks a thread without a beat hangs, if it uses this share of each step.
    fn looks(runs: bool, percent: u64) -> Option<(u32, Hung)> {
        let mut watched = Watched::default();
        let mut cpu = Duration::ZERO;
        for look in 1..100 {
            cpu = cpu + STEP.times(percent).divided_by(100);
            let sight = Sight { runs, state: "so", cpu };
            let limits = Limits { computing: LIMIT.times(3), ..LIMITS };
            if let Some(hung) = watched.look("w", limits, 0, || Some(sight)) {
                return Some((look, hung));
            }
        }
        None
    }

    #[test]
    fn a_blocked_thread_hangs_after_the_limit() {
        let (look, hung) = looks(false, 0).unwrap();
        assert_eq!(look, 10, "one look to wake it, nine of 60 ms");
        let time = Duration::from_millis(540);
        assert_eq!(hung, Hung::Blocked { thread: "w".into(), time, state: "so" });
    }

    #[test]
    fn a_computing_thread_has_longer_and_a_starved_one_for_ever() {
        let (look, hung) = looks(true, 100).unwrap();
        assert_eq!(look, 26, "1500 ms of computing");
        assert!(matches!(hung, Hung::Computing { .. }), "{hung:?}");
        let (later, _) = looks(true, 50).unwrap();
        assert_eq!(later, 51, "half as fast with half of a CPU");
        assert_eq!(looks(true, 0), None, "it only waits for a CPU");
    }

    #[test]
    fn each_beat_begins_anew() {
        let mut watched = Watched::default();
        let see = || Some(Sight { runs: false, state: "", cpu: Duration::ZERO });
        for beat in 0..20 {
            for _ in 0..9 {
                assert_eq!(watched.look("w", LIMITS, beat, see), None);
            }
        }
    }

    #[test]
    fn requests_to_the_disk_are_under_way_until_they_are_answered() {
        let requests = DiskRequests::default();
        let (node, worker, actor) = (NodeId(1), WorkerId(0), ActorKind::Participant);
        let request = |lane, token, operations| DiskRequest { actor, lane, token, operations };
        let path = || "redo-7".to_string();
        let write = DiskOperation::Write { path: path(), offset: 0, bytes: vec![1; 9] };
        let sync = DiskOperation::Sync { path: path() };
        requests.begin(node, worker, &request(0, 1, vec![write.clone(), sync]));
        requests.begin(node, worker, &request(0, 2, vec![write.clone()]));
        requests.begin(node, worker, &request(1, 3, vec![write]));
        let seen = |requests: &DiskRequests| {
            let under_way = requests.under_way().into_iter();
            under_way.map(|((.., lane), answered, what)| (lane, answered, what)).collect::<Vec<_>>()
        };
        let (sync, write) = ("sync of redo-7".to_string(), "write to redo-7".to_string());
        assert_eq!(seen(&requests), [(0, 0, sync), (1, 0, write.clone())]);
        let reply = |token| DiskReply { actor, token, result: Ok(Vec::new()) };
        requests.end(node, worker, &reply(1));
        requests.end(node, worker, &reply(3));
        assert_eq!(seen(&requests), [(0, 1, write)]);
        requests.end(node, worker, &reply(2));
        assert_eq!(seen(&requests), []);
    }

    #[test]
    fn the_system_says_what_a_thread_does() {
        let (send, number) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let pulse = Pulse::default();
            pulse.take();
            send.send(pulse.thread.load(Ordering::Relaxed)).unwrap();
            wait.recv().unwrap();
        });
        let thread_number = number.recv().unwrap();
        while sight(thread_number).unwrap().runs {
            std::thread::yield_now();
        }
        release.send(()).unwrap();
        thread.join().unwrap();
        let own = Pulse::default();
        own.take();
        let me = sight(own.thread.load(Ordering::Relaxed)).unwrap();
        assert!(me.runs && me.cpu > Duration::ZERO);
    }
}
