//! A load generator for many clients: connections of MySQL's protocol over a Unix socket, each
//! with one statement under way, served by one thread.
//!
//! # Owns
//! The connections, the loop that waits for answers, and the figures of a run.
//! # Guarantees
//! 1. A client sends its next statement when the answer to the last is there, without a pause. With
//!    a rate (an open loop) operations arrive by a fixed schedule: one that finds no client idle
//!    waits for one, and its time counts from when it was to arrive. So a server that stands still
//!    is charged with all that would have been asked of it meanwhile.
//! 2. What is counted ended within the measured time; the processor time of servers and of the
//!    generator is of that same time. Logging in, preparing and warming up are not in it.
//! 3. An answer of the wrong kind, a row that is missing and an error that is not of the kind that
//!    goes away by itself end the run with an error.
//! # Not here
//! Filling the tables, which is sysbench's `prepare`; passwords, TCP.

mod answer;
mod histogram;
mod processor;
mod script;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::Session;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use answer::Answer;
use histogram::Histogram;
pub use processor::Seconds;
pub use script::Mix;
use script::{Draws, STATEMENTS, Step};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's socket.
    pub socket: PathBuf,
    /// Where sysbench's tables are; empty for a server without databases.
    pub database: String,
    /// What each client does.
    pub mix: Mix,
    /// How many clients.
    pub clients: usize,
    /// How many tables, each with so many rows.
    pub tables: u64,
    /// The largest key.
    pub rows: u64,
    /// What is run before anything counts.
    pub warm_up: Duration,
    /// How long it counts.
    pub measured: Duration,
    /// Operations that arrive in a second, over all clients; none if each client goes on at once.
    pub rate: Option<u64>,
    /// Decides what is drawn.
    pub seed: u64,
    /// The server's processes.
    pub pids: Vec<u32>,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    clients: usize,
    seconds: f64,
    times: Histogram,
    /// Errors after which the operation was begun anew, by number.
    retries: BTreeMap<u16, u64>,
    /// The fewest and the most operations of a client.
    spread: (u64, u64),
    server: Seconds,
    own: f64,
}

impl Figures {
    /// All figures, by name: times of operations in milliseconds, processor time in microseconds
    /// for an operation.
    pub fn named(&self) -> Vec<(String, f64)> {
        let count = self.times.total();
        let each = |seconds: f64| seconds * 1e6 / count.max(1) as f64;
        let time = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 / 1e6;
        let mut all = vec![
            ("clients", self.clients as f64),
            ("operations", count as f64),
            ("rate", count as f64 / self.seconds),
            ("p50", time(self.times.percentile(50))),
            ("p95", time(self.times.percentile(95))),
            ("p99", time(self.times.percentile(99))),
            ("p99_9", time(self.times.thousandth(999))),
            ("longest", time(Some(self.times.longest()))),
            ("server_user", each(self.server.user)),
            ("server_system", each(self.server.system)),
            ("client", each(self.own)),
            ("fewest", self.spread.0 as f64),
            ("most", self.spread.1 as f64),
        ];
        all.push(("retries", self.retries.values().sum::<u64>() as f64));
        let mut all: Vec<_> =
            all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let retries = self.retries.iter();
        all.extend(retries.map(|(code, count)| (format!("error_{code}"), *count as f64)));
        all
    }

    /// The figures as a JSON object.
    pub fn json(&self) -> String {
        let named = self.named().into_iter();
        let all: Vec<String> =
            named.map(|(name, value)| format!("\"{name}\": {value:.4}")).collect();
        format!("{{{}}}\n", all.join(", "))
    }

    /// The figures as lines.
    pub fn lines(&self) -> String {
        self.named().into_iter().fold(String::new(), |mut text, (name, value)| {
            writeln!(text, "{name:<14} {value:>14.2}").expect("writing to a string");
            text
        })
    }
}

/// Errors that go away by themselves: the same operation is begun anew.
const RETRIED: [u16; 4] = [
    1020, // a row has changed since it was read
    1205, // a lock was waited for too long
    1213, // a deadlock
    1297, // temporary, such as a node that has left
];
/// Nobody answers for so long: the server hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a load.
pub fn run(options: &Options) -> Result<Figures, String> {
    let mut load = Load::new(options)?;
    let warm = Instant::now() + options.warm_up;
    load.until(Some(warm))?;
    let section = load.begin_section(options)?;
    load.until(Some(section.began + options.measured))?;
    let figures = load.end_section(&section, options)?;
    // Nobody leaves with a transaction open.
    load.until(None)?;
    Ok(figures)
}

/// Runs a load in sections: after the warm-up each line that is read ends a section, whose figures
/// are written as a line of JSON, and begins the next. The end of the lines ends the run.
pub fn run_sections(options: &Options) -> Result<(), String> {
    let mut load = Load::new(options)?;
    let lines = lines_of_input();
    let warm = Instant::now() + options.warm_up;
    load.until(Some(warm))?;
    let mut section = load.begin_section(options)?;
    loop {
        load.until(Some(Instant::now() + SECTION_LOOK))?;
        match lines.try_recv() {
            Ok(()) => {
                let figures = load.end_section(&section, options)?;
                io::stdout().write_all(figures.json().as_bytes()).map_err(text)?;
                io::stdout().flush().map_err(text)?;
                section = load.begin_section(options)?;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return load.until(None),
        }
    }
}

/// Tells of each line of the standard input, until it ends.
fn lines_of_input() -> Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = io::stdin().lock().lines();
        while lines.next().is_some_and(|line| line.is_ok()) && sender.send(()).is_ok() {}
    });
    receiver
}

/// What is measured from some moment on.
struct Section {
    began: Instant,
    server: Seconds,
    own: f64,
}

/// Processor time of the generator.
fn own_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A connection and what it is doing.
struct Client {
    stream: UnixStream,
    /// The server's numbers of prepared statements, and whether types were sent: by table, then by
    /// place in [`STATEMENTS`].
    prepared: Vec<Vec<(u32, bool)>>,
    table: usize,
    /// The key that was drawn last.
    last: u64,
    doing: Doing,
    began: Instant,
    /// What has come of an answer whose rest has not.
    part: Vec<u8>,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, as the run is over.
    Nothing,
    /// The step of this number.
    Step(usize),
    /// A rollback, after which it begins anew.
    Rollback,
}

/// The state of a run.
struct Load {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    clients: Vec<Client>,
    mix: Mix,
    draws: Draws,
    times: Histogram,
    retries: BTreeMap<u16, u64>,
    /// A packet that is being made.
    packet: Vec<u8>,
    /// What was just read.
    bytes: Vec<u8>,
    /// Clients that do nothing.
    idle: Vec<usize>,
    schedule: Option<Schedule>,
}

/// When operations arrive.
struct Schedule {
    /// The time between two.
    gap: Duration,
    next: Instant,
    /// Those that have arrived and found no client idle.
    waiting: VecDeque<Instant>,
}

impl Schedule {
    /// The next operation that has arrived by now.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        while self.next <= now {
            self.waiting.push_back(self.next);
            self.next += self.gap;
        }
        self.waiting.pop_front()
    }
}

impl Load {
    /// Connects all clients; each begins at once when all are there.
    fn new(options: &Options) -> Result<Self, String> {
        if options.rate.is_some() {
            // Otherwise the system lets a wait for the next arrival last 50 us too long.
            set_current_timer_slack(NonZeroU64::new(1)).map_err(text)?;
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(text)?;
        let mut clients = Vec::with_capacity(options.clients);
        for number in 0..options.clients {
            let client = Client::connect(options).map_err(|error| {
                format!("client {} of {}: {error}", number + 1, options.clients)
            })?;
            epoll::add(&epoll, &client.stream, EventData::new_u64(number as u64), EventFlags::IN)
                .map_err(text)?;
            clients.push(client);
        }
        let mut load = Self {
            epoll,
            events: Vec::with_capacity(options.clients.min(EVENTS_MAX)),
            clients,
            mix: options.mix,
            draws: Draws::new(options.seed, options.rows),
            times: Histogram::new(),
            retries: BTreeMap::new(),
            packet: Vec::new(),
            bytes: vec![0; READ_MAX],
            idle: (0..options.clients).rev().collect(),
            schedule: options.rate.map(|rate| Schedule {
                gap: Duration::from_nanos(1_000_000_000 / rate.max(1)),
                next: Instant::now(),
                waiting: VecDeque::new(),
            }),
        };
        load.send_idle()?;
        Ok(load)
    }

    /// Lets idle clients begin what has arrived, or all of them where nothing is scheduled.
    fn send_idle(&mut self) -> Result<(), String> {
        while let Some(number) = self.idle.pop() {
            let now = Instant::now();
            let arrived = match &mut self.schedule {
                None => Some(now),
                Some(schedule) => schedule.take(now),
            };
            let Some(arrived) = arrived else {
                self.idle.push(number);
                break;
            };
            self.clients[number].began = arrived;
            self.begin(number)?;
        }
        Ok(())
    }

    /// From now on it counts.
    fn begin_section(&mut self, options: &Options) -> Result<Section, String> {
        self.times = Histogram::new();
        self.retries.clear();
        self.clients.iter_mut().for_each(|client| client.count = 0);
        let (began, server, own) = (Instant::now(), Seconds::of(&options.pids)?, own_seconds());
        Ok(Section { began, server, own })
    }

    /// What was counted since.
    fn end_section(&self, section: &Section, options: &Options) -> Result<Figures, String> {
        Ok(Figures {
            clients: options.clients,
            seconds: section.began.elapsed().as_secs_f64(),
            server: Seconds::of(&options.pids)?.since(section.server),
            own: own_seconds() - section.own,
            times: self.times.clone(),
            retries: self.retries.clone(),
            spread: self.spread(),
        })
    }

    /// Serves clients until then; without an end, until all have come to the end of what they do.
    fn until(&mut self, end: Option<Instant>) -> Result<(), String> {
        let mut heard = Instant::now();
        while end.map_or(self.idle.len() < self.clients.len(), |end| Instant::now() < end) {
            if end.is_some() {
                self.send_idle()?;
            }
            let now = Instant::now();
            let arrival = self.schedule.as_ref().map(|schedule| schedule.next);
            let until = [end, arrival.filter(|_| end.is_some() && !self.idle.is_empty())];
            let until = until.into_iter().flatten().min();
            let wait = until.map_or(PATIENCE, |until| until.saturating_duration_since(now));
            let wait = wait.min(PATIENCE);
            let limit =
                Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&limit)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(text(error)),
            }
            let asked = self.idle.len() < self.clients.len();
            if asked && self.events.is_empty() && heard.elapsed() >= PATIENCE {
                return Err(format!("no answer for {} s", PATIENCE.as_secs()));
            }
            if !self.events.is_empty() || !asked {
                heard = Instant::now();
            }
            for at in 0..self.events.len() {
                let number = self.events[at].data.u64() as usize;
                self.hear(number, end.is_none())?;
            }
        }
        Ok(())
    }

    /// Reads what has come for a client, and lets it go on.
    fn hear(&mut self, number: usize, is_last: bool) -> Result<(), String> {
        let client = &mut self.clients[number];
        let count = match rustix::io::read(&client.stream, &mut self.bytes[..]) {
            Ok(0) => return Err("the server has closed a connection".into()),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(text(error)),
        };
        let new = &self.bytes[..count];
        let found = if client.part.is_empty() {
            answer::read(new)?
        } else {
            client.part.extend(new);
            answer::read(&client.part)?
        };
        let length = if client.part.is_empty() { count } else { client.part.len() };
        match found {
            None if client.part.is_empty() => client.part.extend(new),
            None => {}
            Some((_, used)) if used < length => return Err("more came than was asked for".into()),
            Some((answer, _)) => {
                client.part.clear();
                self.go_on(number, answer, is_last)?;
            }
        }
        Ok(())
    }

    /// What a client does after an answer.
    fn go_on(&mut self, number: usize, answer: Answer, is_last: bool) -> Result<(), String> {
        let steps = self.mix.steps();
        let client = &mut self.clients[number];
        let at = match (client.doing, answer) {
            (Doing::Step(_), Answer::Refused(code, _)) if RETRIED.contains(&code) => {
                *self.retries.entry(code).or_default() += 1;
                if steps[0] != Step::Begin {
                    return self.begin(number);
                }
                client.doing = Doing::Rollback;
                return self.say(number, "ROLLBACK");
            }
            (Doing::Rollback, Answer::Done) => return self.begin(number),
            (Doing::Step(at), answer) => {
                expected(steps[at], &answer)?;
                at + 1
            }
            (doing, answer) => return Err(format!("{answer:?} to {doing:?}")),
        };
        if at < steps.len() {
            return self.step(number, at);
        }
        let now = Instant::now();
        self.times.add((now - client.began).as_nanos() as u64);
        client.count += 1;
        client.doing = Doing::Nothing;
        self.idle.push(number);
        if is_last { Ok(()) } else { self.send_idle() }
    }

    /// Begins an operation.
    fn begin(&mut self, number: usize) -> Result<(), String> {
        let tables = self.clients[number].prepared.len() as u64;
        self.clients[number].table =
            if tables == 1 { 0 } else { self.draws.below(tables) as usize };
        self.step(number, 0)
    }

    /// Sends a step of an operation.
    fn step(&mut self, number: usize, at: usize) -> Result<(), String> {
        let client = &mut self.clients[number];
        client.doing = Doing::Step(at);
        let place = match self.mix.steps()[at] {
            Step::Begin => return self.say(number, "BEGIN"),
            Step::Commit => return self.say(number, "COMMIT"),
            Step::Run(place) => place,
        };
        let (id, has_types) = &mut client.prepared[client.table][place];
        self.packet.clear();
        self.draws.execute(
            &STATEMENTS[place],
            *id,
            !*has_types,
            &mut client.last,
            &mut self.packet,
        );
        *has_types = true;
        send(&client.stream, &self.packet)
    }

    /// Sends a statement as text.
    fn say(&mut self, number: usize, statement: &str) -> Result<(), String> {
        self.packet.clear();
        script::query(statement, &mut self.packet);
        send(&self.clients[number].stream, &self.packet)
    }

    fn spread(&self) -> (u64, u64) {
        let counts = || self.clients.iter().map(|client| client.count);
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }
}

impl Client {
    /// Logs in and prepares the statements.
    fn connect(options: &Options) -> Result<Self, String> {
        let mut session = Session::connect(&options.socket).map_err(text)?;
        if !options.database.is_empty() {
            session.query(&format!("USE {}", options.database)).map_err(text)?;
        }
        let mut prepared = Vec::new();
        for table in 1..=options.tables {
            let mut numbers = vec![(0, false); STATEMENTS.len()];
            for place in options.mix.statements() {
                let statement = STATEMENTS[place].text.replace('#', &table.to_string());
                numbers[place].0 = session.prepare(&statement).map_err(text)?;
            }
            prepared.push(numbers);
        }
        let stream = session.into_stream();
        stream.set_nonblocking(true).map_err(text)?;
        let (part, began) = (Vec::new(), Instant::now());
        Ok(Self {
            stream,
            prepared,
            table: 0,
            last: 1,
            doing: Doing::Nothing,
            began,
            part,
            count: 0,
        })
    }
}

/// Whether a step may be answered so; a key that was drawn is there.
fn expected(step: Step, answer: &Answer) -> Result<(), String> {
    let (name, has_rows) = match step {
        Step::Run(place) => (STATEMENTS[place].text, STATEMENTS[place].has_rows),
        Step::Begin => ("BEGIN", false),
        Step::Commit => ("COMMIT", false),
    };
    match answer {
        Answer::Done if !has_rows => Ok(()),
        Answer::Rows(1..) if has_rows => Ok(()),
        Answer::Refused(code, text) => Err(format!("{name}: error {code}: {text}")),
        Answer::Done | Answer::Rows(_) => Err(format!("{name}: answered with {answer:?}")),
    }
}

/// Sends all of a packet. With one statement under way there is always room in the socket; should
/// there be none, the client waits, and all others with it.
fn send(stream: &UnixStream, mut packet: &[u8]) -> Result<(), String> {
    while !packet.is_empty() {
        match rustix::io::write(stream, packet) {
            Ok(sent) => packet = &packet[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(stream, PollFlags::OUT)], None).map_err(text)?;
            }
            Err(error) => return Err(text(error)),
        }
    }
    Ok(())
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Clients served between two questions of what has come.
const EVENTS_MAX: usize = 1024;
/// How often it is seen whether a section is to end.
const SECTION_LOOK: Duration = Duration::from_millis(20);
/// The most that is read at once.
const READ_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests;
