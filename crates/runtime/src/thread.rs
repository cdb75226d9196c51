//! One thread of the process: its workers and their event loop.
//!
//! # Owns
//! A turn: wait, take in what has arrived, let workers run until none has anything to do or the
//! turn has lasted long enough, send what clients are to get.
//! # Guarantees
//! 1. The clock is read once before the workers of a turn run, so a turn happens at one time.
//! 2. A turn handles a bounded number of messages; sockets and timers are not starved by them.
//! 3. After a node has ended, nothing of it is delivered to a worker that has been told.
//! # Failure
//! A panic ends the whole process: see `crash`. What the system refuses to the loop ends it too.

mod courtesy;
mod figures;
pub(crate) mod sharing;
mod starvation;
mod yielding;

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use actor::{DiskReply, Halt, SLOW};
use model::{ActorKind, Address, Incarnation, MemberStatus, NodeId, WorkerId};
use node::{Outgoing, Place, RestoreProgress, Worker};
use stdx::{Duration, Instant};
use wire::{ControlMessage, Envelope, Message};

use crate::clock::since_1970;
use crate::cluster::{ApplicationFactory, ApplicationPlace, Common, Event, Life, Role, entropy};
use crate::crash::{PATIENCE, trace, write_trace};
use crate::deadly::thread_runs;
use crate::disk::Asked;
use crate::exchange::Mail;
use crate::gateway::Gateway;
use crate::link::{Arrival, LinkEnds, LinkNews, Loss};
use crate::listener::{Accepted, Acceptor, Listeners};
use crate::poller::{Interest, Poller, Ready};
use crate::spin::Spinner;
use crate::spin::crowd::Crowd;
use courtesy::Courtesy;
use figures::Turns;
use sharing::{Seat, Sharing};
use starvation::Starvation;
use yielding::Yielding;

/// A thread's state.
pub(crate) struct Thread {
    index: usize,
    common: Arc<Common>,
    hosted: Vec<Hosted>,
    /// Who may do a step of long work next, modulo their number.
    next_long: usize,
    /// When the last step ended, or the first of a turn began.
    stepped: Instant,
    starvation: Starvation,
    courtesy: Courtesy,
    /// Nodes that have ended, as far as this thread's workers have been told.
    down: BTreeSet<NodeId>,
    poller: Poller,
    gateway: Gateway,
    /// This thread's ends of links, if the process has any.
    links: Option<LinkEnds>,
    arrivals: Vec<Arrival>,
    /// On the first thread.
    acceptor: Option<Acceptor>,
    /// The thread that gets the next connection.
    next_thread: usize,
    /// What is to be posted, by thread.
    outgoing: Vec<Vec<Mail>>,
    incoming: Vec<Mail>,
    /// What is to be asked of the disk.
    asked: Vec<Asked>,
    ready: Vec<Ready>,
    now: Instant,
    /// How long to look for work before sleeping.
    spinner: Spinner,
    crowd: Crowd,
    /// When workers were told the time of day last.
    day_told_at: Instant,
    yielding: Yielding,
    turns: Turns,
    sharing: Sharing,
    /// Turns since sockets were looked at.
    unpolled: u32,
    /// The state of the next thread, while this one runs it too.
    guest: Option<Box<Thread>>,
    /// The cluster is seen to serve.
    serves: bool,
    /// When to look again how far disks have been read back.
    restores_due: Instant,
    /// Clients are let go.
    draining: bool,
    /// The end: until when clients may take leave, and whether all have.
    stopping: Option<Instant>,
    drained: bool,
    /// When what the last clients have committed has had time to reach the disk.
    saved: Option<Instant>,
}

/// Why a thread does not run its workers any more.
enum Pause {
    /// Another thread is to run them for a while.
    Lend,
    /// The process ends.
    End,
}

/// A worker on this thread.
struct Hosted {
    node: NodeId,
    role: Role,
    worker: Worker,
    /// How far it is with reading its disk back.
    restore: RestoreProgress,
}

impl Thread {
    /// Starts a thread. Its workers are made on it, because actors do not move.
    pub(crate) fn spawn(
        index: u8,
        common: Arc<Common>,
        listeners: Option<Listeners>,
    ) -> io::Result<JoinHandle<()>> {
        let builder = std::thread::Builder::new().name(format!("worker-{index}"));
        builder.stack_size(STACK_SIZE).spawn(move || {
            let built = catch_unwind(AssertUnwindSafe(|| {
                Thread::new(usize::from(index), common.clone(), listeners)
            }));
            match built {
                Ok(Ok(thread)) => Box::new(thread).live(),
                Ok(Err(error)) => (common.report)(Event::Failed(error)),
                Err(_) => crash(&common, std::iter::empty()),
            }
        })
    }

    fn new(index: usize, common: Arc<Common>, listeners: Option<Listeners>) -> io::Result<Thread> {
        common.scheduling.place_of(index).take()?;
        let spin = common.scheduling.spin_of(index, common.threads());
        let poller = Poller::new()?;
        let read = Interest { read: true, write: false };
        poller.add(common.exchange.waker(index), TOKEN_WAKE, read)?;
        let links = common.links.as_ref().map(|links| {
            let workers = common.lives[&links.own].workers(common.threads());
            LinkEnds::new(links, workers, index, TOKEN_LINKS)
        });
        let mut thread = Thread {
            index,
            links,
            arrivals: Vec::new(),
            hosted: Vec::new(),
            next_long: 0,
            stepped: Instant::ZERO,
            starvation: Starvation::default(),
            courtesy: Courtesy::new(),
            down: BTreeSet::new(),
            poller,
            gateway: Gateway::new(common.tls.clone()),
            acceptor: listeners.map(|listeners| {
                Acceptor::new(listeners, TOKEN_LISTENERS, common.connections.clone())
            }),
            next_thread: 0,
            outgoing: (0..common.threads()).map(|_| Vec::new()).collect(),
            incoming: Vec::new(),
            asked: Vec::new(),
            ready: Vec::new(),
            now: common.clock.now(),
            spinner: Spinner::new(spin, common.wake_cost),
            crowd: Crowd::open(),
            day_told_at: Instant::ZERO,
            yielding: Yielding::new(),
            turns: Turns::default(),
            sharing: Sharing::new(&common, index),
            unpolled: 0,
            guest: None,
            serves: false,
            restores_due: Instant::ZERO,
            draining: false,
            stopping: None,
            drained: false,
            saved: None,
            common: common.clone(),
        };
        for life in common.lives.values() {
            if life.role != Role::Management || index == 0 {
                let worker = thread.make_worker(life)?;
                let restore = RestoreProgress::default();
                thread.hosted.push(Hosted { node: life.node, role: life.role, worker, restore });
            }
        }
        let now = thread.now;
        for hosted in &mut thread.hosted {
            hosted.worker.start(now);
        }
        Ok(thread)
    }

    fn make_worker(&self, life: &Life) -> io::Result<Worker> {
        let workers = life.workers(self.common.threads());
        let worker = WorkerId(u8::try_from(self.index).expect("a number below that"));
        let place = Place {
            node: life.node,
            incarnation: life.incarnation,
            worker,
            workers,
            config: self.common.config.clone(),
            lease: life.lease.clone(),
            disk: life.role != Role::Client && self.common.disk.is_some(),
            seed: entropy()?,
            recorder_size: RECORDER_SIZE,
        };
        let (node, clock_origin) = (life.node, self.common.clock_origin);
        let made_by = |factory: &Option<ApplicationFactory>| {
            let place = ApplicationPlace { node, worker, workers, clock_origin };
            factory.as_ref().map(|make| make(place))
        };
        Ok(match life.role {
            Role::Data => Worker::data_node(place),
            Role::Management => Worker::management_node(place, made_by(&self.common.operator)),
            Role::Client => {
                let application = made_by(&self.common.application);
                let application = application.expect("the setup of a client node has one");
                Worker::client_node(place, application)
            }
        })
    }

    /// Runs to the end, and says how that came.
    fn live(mut self: Box<Self>) {
        let common = self.common.clone();
        let ran = loop {
            thread_runs(&raw mut *self);
            let ran = catch_unwind(AssertUnwindSafe(|| self.run()));
            thread_runs(std::ptr::null_mut());
            if !matches!(ran, Ok(Ok(Pause::Lend))) {
                break ran;
            }
            match self.lend() {
                Some(back) => self = back,
                None => return common.crash.leave(std::iter::empty()),
            }
        };
        match ran {
            Err(_) => crash(&common, self.workers()),
            Ok(_) if common.crash.has_crashed() => common.crash.leave(self.workers()),
            Ok(Err(error)) => {
                (common.report)(Event::Failed(error));
                self.close_seat();
            }
            Ok(Ok(_)) => self.close_seat(),
        }
    }

    /// The workers that this thread runs, those of a guest too.
    fn workers(&self) -> impl Iterator<Item = (NodeId, &Worker)> {
        let guests = self.guest.iter().flat_map(|guest| &guest.hosted);
        self.hosted.iter().chain(guests).map(|at| (at.node, &at.worker))
    }

    fn run(&mut self) -> io::Result<Pause> {
        self.common.pulses[self.index].take();
        loop {
            self.common.pulses[self.index].beat();
            self.mind_crowd();
            self.mind_time_of_day();
            // The first turn has what workers have asked for when they were started, and may be the
            // last for long.
            self.turn()?;
            self.turn_with_guest()?;
            self.wait()?;
            if self.common.crash.has_crashed() || self.has_stopped() {
                return Ok(Pause::End);
            }
            self.collect_mail();
            self.handle_ready()?;
            if let Some(guest) = &mut self.guest {
                self.common.pulses[guest.index].beat();
                guest.now = guest.now.max(self.now);
                guest.collect_mail();
                guest.handle_ready()?;
            }
            if self.share() {
                return Ok(Pause::Lend);
            }
        }
    }

    /// Tells workers, those of a guest too, how long this thread has to wait for a CPU.
    fn mind_crowd(&mut self) {
        let Some(share) = self.courtesy.look(self.now) else { return };
        let guests = self.guest.iter_mut().flat_map(|guest| &mut guest.hosted);
        self.hosted.iter_mut().chain(guests).for_each(|at| at.worker.crowd(share));
    }

    /// Tells workers the time of day, once in a while: the system's clock may have been set.
    fn mind_time_of_day(&mut self) {
        if self.now < self.day_told_at + DAY_TOLD_EVERY && self.day_told_at != Instant::ZERO {
            return;
        }
        self.day_told_at = self.now;
        let since_1970 = u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX);
        let origin = since_1970.saturating_sub(self.common.clock.now().as_nanos());
        let guests = self.guest.iter_mut().flat_map(|guest| &mut guest.hosted);
        let hosted = self.hosted.iter_mut().chain(guests);
        hosted.for_each(|at| at.worker.shared_mut().day_origin = origin);
    }

    /// Does what there is to do, for a bounded time.
    fn turn(&mut self) -> io::Result<()> {
        self.run_workers();
        self.flush();
        self.run_long_work();
        self.look_around()
    }

    /// Lets the guest do what there is to do, and goes on as long as the two have something for
    /// each other.
    fn turn_with_guest(&mut self) -> io::Result<()> {
        while let Some(guest) = &mut self.guest {
            // Its own thread may have read the clock later.
            guest.now = guest.now.max(self.now);
            guest.collect_mail();
            guest.turn()?;
            let passed = self.common.clock.now().since(self.now);
            if !self.collect_mail() || passed > TURN_MAX {
                break;
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Whether there is mail for this thread or its guest.
    fn has_mail(&self) -> bool {
        let exchange = &self.common.exchange;
        exchange.has_mail(self.index)
            || self.guest.as_ref().is_some_and(|guest| exchange.has_mail(guest.index))
    }

    /// Whether something has come through memory for this thread or its guest.
    fn has_shared_news(&self) -> bool {
        let has_news = |thread: &Thread| thread.links.as_ref().is_some_and(LinkEnds::has_news);
        has_news(self) || self.guest.as_deref().is_some_and(has_news)
    }

    /// Announces that this thread and its guest are going to sleep; false if something has come
    /// for them.
    fn doze(&mut self) -> bool {
        let common = self.common.clone();
        let exchange = &common.exchange;
        if !exchange.doze(self.index) {
            return false;
        }
        let guest = self.guest.as_ref().map(|guest| guest.index);
        let mut sleeps = guest.is_none_or(|guest| exchange.doze(guest));
        if sleeps {
            let guest = self.guest.as_mut().and_then(|guest| guest.links.as_mut());
            for links in self.links.iter_mut().chain(guest) {
                sleeps &= links.doze();
            }
            if !sleeps {
                self.rise();
            }
        } else {
            exchange.rise(self.index);
        }
        sleeps
    }

    fn rise(&mut self) {
        self.common.exchange.rise(self.index);
        if let Some(links) = &mut self.links {
            links.rise();
        }
        if let Some(guest) = &mut self.guest {
            self.common.exchange.rise(guest.index);
            if let Some(links) = &mut guest.links {
                links.rise();
            }
        }
    }

    /// Sleeps until something is to be done; if there already is, lets others go first.
    fn wait(&mut self) -> io::Result<()> {
        let of_guest = self.guest.as_mut().and_then(|guest| guest.due());
        let due = [self.due(), of_guest].into_iter().flatten().min();
        if due.is_some_and(|due| due <= self.now) || self.has_mail() {
            self.offer_cpu();
            self.poller.wait(Some(Duration::ZERO))?;
            self.now = self.common.clock.now();
            self.turns.went_on();
            return Ok(());
        }
        if self.has_shared_news() {
            return self.go_on();
        }
        // The time may have changed since the turn began.
        let began = self.common.clock.now();
        let mut slept = None;
        let mut found = self.spin(began, due)?;
        if !found {
            if self.doze() {
                let now = if self.spinner.time() == Duration::ZERO { began } else { self.now };
                self.poller.wait(due.map(|due| due.since(now)))?;
                self.rise();
                slept = Some(now);
            } else {
                self.poller.wait(Some(Duration::ZERO))?;
            }
            found = slept.is_none() || self.poller.has_news();
            self.now = self.common.clock.now();
        }
        match slept {
            Some(from) => self.turns.slept(self.now.since(from)),
            None => self.turns.went_on(),
        }
        self.sharing.rested(self.now.since(began));
        self.spinner.note(self.now.since(began), slept.is_some(), found);
        let (now, crowd) = (self.now, &mut self.crowd);
        self.spinner.decide(now, || crowd.share(now));
        Ok(())
    }

    /// Something has come through memory, and is taken at once. Sockets are looked at now and then.
    fn go_on(&mut self) -> io::Result<()> {
        self.unpolled += 1;
        if self.unpolled >= UNPOLLED_MAX {
            self.unpolled = 0;
            self.poller.wait(Some(Duration::ZERO))?;
        }
        self.now = self.common.clock.now();
        self.turns.went_on();
        Ok(())
    }

    /// Lets other threads of this CPU go first, if they are likely to be done soon.
    fn offer_cpu(&mut self) {
        let now = self.common.clock.now();
        if self.yielding.is_due(now) {
            std::thread::yield_now();
            self.yielding.note(now, self.common.clock.now());
        }
    }

    /// Looks for work for as long as it may be worth it; whether there is any.
    fn spin(&mut self, began: Instant, due: Option<Instant>) -> io::Result<bool> {
        let time = self.spinner.time();
        if time == Duration::ZERO {
            return Ok(false);
        }
        let end = due.map_or(began + time, |due| due.min(began + time));
        loop {
            // Looking into memory costs next to nothing beside asking the system.
            for _ in 0..LOOKS_PER_POLL {
                if self.has_shared_news() || self.has_mail() {
                    self.now = self.common.clock.now();
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            self.poller.wait(Some(Duration::ZERO))?;
            self.now = self.common.clock.now();
            if self.poller.has_news() || self.has_mail() {
                return Ok(true);
            }
            if self.now >= end {
                return Ok(false);
            }
            // Whoever else has something to do on this CPU goes first.
            std::thread::yield_now();
        }
    }

    /// When there is something to do even if nothing comes in.
    fn due(&mut self) -> Option<Instant> {
        let mut due = [self.stopping, self.saved].into_iter().flatten().min();
        for hosted in &mut self.hosted {
            let worker = &mut hosted.worker;
            let has_work = worker.has_urgent() || worker.connections().has_touched();
            let rests = self.courtesy.rests(self.now);
            match rests.filter(|_| worker.has_long_work() && !has_work) {
                Some(until) => due = [due, Some(until)].into_iter().flatten().min(),
                None if has_work || worker.has_long_work() => return Some(Instant::ZERO),
                None => {}
            }
            due = [due, hosted.worker.next_timer()].into_iter().flatten().min();
        }
        let acceptor = self.acceptor.as_ref().and_then(Acceptor::due);
        let links = self.links.as_ref().and_then(LinkEnds::due);
        [due, self.gateway.due(), acceptor, links].into_iter().flatten().min()
    }

    fn collect_mail(&mut self) -> bool {
        let mut mail = std::mem::take(&mut self.incoming);
        let any = self.common.exchange.collect(self.index, &mut mail);
        for mail in mail.drain(..) {
            match mail {
                Mail::Message(outgoing) => self.deliver(outgoing),
                Mail::Arrival(arrival) => self.deliver_arrival(arrival),
                Mail::Link(news) => self.hear_of_link(news),
                Mail::Leave => self.ask_to_leave(),
                Mail::NodeDown(node) => self.node_down(node),
                Mail::Disk(node, reply) => self.deliver_disk(node, reply),
                Mail::Connection(accepted) => self.open(accepted),
                // Who asked may have lost patience.
                Mail::Figures(answer) => drop(answer.send(self.report())),
                Mail::Guest => self.take_guest(),
                Mail::LookAround => {}
            }
        }
        self.incoming = mail;
        any
    }

    fn handle_ready(&mut self) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.ready);
        all.extend(self.poller.take());
        self.stepped = self.now;
        for ready in all.drain(..) {
            match ready.token {
                TOKEN_WAKE => self.common.exchange.woken(self.index),
                TOKEN_GUEST => {
                    if let Some(guest) = &mut self.guest {
                        guest.poller.wait(Some(Duration::ZERO))?;
                    }
                }
                TOKEN_LISTENERS.. => self.accept(ready.token)?,
                TOKEN_LINKS.. => {
                    if let Some(links) = &mut self.links {
                        links.ready(&self.poller, ready, self.now, &mut self.arrivals);
                        self.worked_now("what came over a link");
                    }
                }
                _ => self.client_ready(ready),
            }
        }
        self.ready = all;
        if let Some(links) = &mut self.links {
            links.take_shared(self.now, &mut self.arrivals);
            if !self.arrivals.is_empty() {
                self.worked_now("what came over a link");
            }
        }
        for arrival in std::mem::take(&mut self.arrivals) {
            let thread = usize::from(arrival.envelope.to.worker.0);
            if thread == self.index {
                self.deliver_arrival(arrival);
            } else if let Some(batch) = self.outgoing.get_mut(thread) {
                batch.push(Mail::Arrival(arrival));
            }
        }
        Ok(())
    }

    /// Hands what came over a client's connection to the application: a step of its worker.
    fn client_ready(&mut self, ready: Ready) {
        let is_client = |hosted: &Hosted| hosted.role == Role::Client;
        let Some(at) = self.hosted.iter().position(is_client) else { return };
        self.gateway.ready(&self.poller, &mut self.hosted[at].worker, self.now, ready);
        self.stepped_now(at);
    }

    /// Hands what came over a link to its worker, if the link still stands for this thread.
    fn deliver_arrival(&mut self, arrival: Arrival) {
        let Arrival { envelope, generation } = arrival;
        let Some(links) = &self.links else { return };
        if !links.is_over(envelope.from.node, generation) {
            self.deliver(Outgoing { envelope, life: None });
        }
    }

    /// Tells the control actors of this thread that their nodes are to leave.
    fn ask_to_leave(&mut self) {
        for hosted in self.hosted.iter_mut().filter(|hosted| hosted.role != Role::Client) {
            let shared = hosted.worker.shared();
            let (worker, actor) = (shared.worker, ActorKind::Control);
            let me = Address { node: hosted.node, worker, actor };
            let (incarnation, reached) = (shared.incarnation, shared.cluster.index);
            let message = Box::new(Message::Control(Box::new(ControlMessage::LeaveRequest)));
            hosted.worker.deliver(Envelope { from: me, incarnation, to: me, reached, message });
        }
    }

    fn hear_of_link(&mut self, news: LinkNews) {
        let Some(links) = &mut self.links else { return };
        match news {
            LinkNews::Up(link) => links.open(&self.poller, link, self.now),
            LinkNews::Down { node, incarnation, generation, closed } => {
                links.close(node, generation);
                self.link_down(node, incarnation, closed);
                if let Some(links) = &self.links {
                    links.told(node, generation);
                }
            }
            LinkNews::Detach { node, generation, round } => links.detach(node, generation, round),
            LinkNews::Renewed { node, generation, sockets } => {
                links.renew(&self.poller, node, generation, sockets, self.now);
            }
            LinkNews::Unreachable { node, refused } => links.unreachable(node, refused),
        }
    }

    /// Takes in clients and hands them to the threads in turn.
    fn accept(&mut self, token: u64) -> io::Result<()> {
        let Some(acceptor) = &mut self.acceptor else { return Ok(()) };
        let mut accepted = Vec::new();
        acceptor.accept(&self.poller, token, self.now, &mut accepted)?;
        self.hand_out(accepted);
        Ok(())
    }

    fn hand_out(&mut self, accepted: Vec<Accepted>) {
        for accepted in accepted {
            let thread = self.next_thread;
            self.next_thread = (thread + 1) % self.common.threads();
            if thread == self.index {
                self.open(accepted);
            } else {
                self.outgoing[thread].push(Mail::Connection(accepted));
            }
        }
    }

    fn open(&mut self, accepted: Accepted) {
        let Some(client) = client(&mut self.hosted) else { return };
        self.gateway.open(&self.poller, client, self.now, accepted);
        if self.stopping.is_some() {
            self.gateway.shut_down(client, self.now);
        } else if self.draining {
            self.gateway.drain(client, self.now);
        }
    }

    /// Lets workers run until none has anything urgent to do, for a bounded number of steps.
    fn run_workers(&mut self) {
        self.begin_steps();
        loop {
            let mut any = false;
            for at in 0..self.hosted.len() {
                for _ in 0..STEPS_PER_PASS {
                    if !self.step(at, Worker::step_urgent) {
                        break;
                    }
                    any = true;
                }
            }
            self.stop_halted();
            self.post();
            any |= self.collect_mail();
            if !any || self.stepped.since(self.now) > TURN_MAX {
                break;
            }
        }
    }

    /// Lets workers do steps of long work, one after the other, for a moment or until another
    /// thread sends something: who wants something small waits for no more than that.
    fn run_long_work(&mut self) {
        let any = self.hosted.iter().any(|hosted| hosted.worker.has_long_work());
        if !any || self.courtesy.rests(self.now).is_some() {
            return;
        }
        self.begin_steps();
        let began = self.stepped;
        let is_shared = self.hosted.iter().any(|hosted| hosted.worker.is_shared(self.now));
        let most = if is_shared { LONG_WORK_MAX_SHARED } else { LONG_WORK_MAX };
        let mut without = 0;
        while without < self.hosted.len() {
            let at = self.next_long % self.hosted.len();
            self.next_long = at + 1;
            if !self.step(at, Worker::step_long) {
                without += 1;
                continue;
            }
            without = 0;
            if self.stepped.since(began) > most || self.has_mail() {
                break;
            }
        }
        let (ended, worked) = (self.stepped, self.stepped.since(began));
        let (hosted, now) = (&self.hosted, self.now);
        self.courtesy.worked(ended, worked, |worked| {
            hosted.iter().map(|at| at.worker.rest(now, worked)).max().unwrap_or_default()
        });
        self.stop_halted();
        self.post();
    }

    /// Steps are about to be run: the first begins now.
    fn begin_steps(&mut self) {
        self.stepped = self.common.clock.now();
        self.starvation.look(self.stepped, self.turns.asleep());
    }

    /// Lets a worker handle one thing, and sends what it has to say; false if there was neither.
    fn step(&mut self, at: usize, step: fn(&mut Worker, Instant) -> bool) -> bool {
        let hosted = &mut self.hosted[at];
        let node = hosted.node;
        // Somebody else may have ended it: what comes from it now would come after its end.
        if self.common.lives.get(&node).is_none_or(Life::has_ended) {
            return false;
        }
        let stepped = step(&mut hosted.worker, self.now);
        let mut any = stepped;
        while let Some(outgoing) = self.hosted[at].worker.pop_outgoing() {
            self.send(outgoing);
            any = true;
        }
        if stepped {
            // What it says is a part of it: a message may have many rows.
            self.stepped_now(at);
        }
        let Hosted { worker, .. } = &mut self.hosted[at];
        for violation in worker.take_violations() {
            match &mut self.links {
                Some(links) => links.refuse(violation),
                None => panic!("{node} was sent what breaks a rule: {violation:?}"),
            }
        }
        while let Some(request) = worker.pop_disk_request() {
            self.asked.push(Asked { node, worker: worker.shared().worker, request });
            any = true;
        }
        any
    }

    /// Tells a worker what its step has taken.
    fn stepped_now(&mut self, at: usize) {
        let time = self.since_step();
        self.hosted[at].worker.took(time);
    }

    /// Tells the first worker what this thread has done for all of them, if it took long.
    fn worked_now(&mut self, what: &'static str) {
        let time = self.since_step();
        if let Some(hosted) = self.hosted.first_mut().filter(|_| time > SLOW) {
            hosted.worker.host_took(what, time);
        }
    }

    /// How much of its CPU the thread has used since the last step or other piece of work.
    fn since_step(&mut self) -> Duration {
        let ended = self.common.clock.now();
        let time = ended.since(self.stepped);
        self.stepped = ended;
        // Who had no CPU was not slow.
        if time > SLOW {
            time - self.starvation.look_again(ended, self.turns.asleep())
        } else {
            time
        }
    }

    /// Hands an answer of the disk to the worker that asked, if it lives.
    fn deliver_disk(&mut self, node: NodeId, reply: DiskReply) {
        if let Some(hosted) = self.hosted.iter_mut().find(|hosted| hosted.node == node) {
            hosted.worker.deliver_disk_reply(reply);
        }
    }

    fn send(&mut self, outgoing: Outgoing) {
        if let Some(links) = &mut self.links
            && !self.common.lives.contains_key(&outgoing.envelope.to.node)
        {
            return links.send(outgoing, self.now);
        }
        let thread = usize::from(outgoing.envelope.to.worker.0);
        if thread == self.index {
            self.deliver(outgoing);
        } else if let Some(batch) = self.outgoing.get_mut(thread) {
            batch.push(Mail::Message(outgoing));
        }
    }

    /// Hands a message to its worker, if that lives and its sender does.
    fn deliver(&mut self, outgoing: Outgoing) {
        let Outgoing { envelope, life } = outgoing;
        if self.down.contains(&envelope.from.node) {
            return;
        }
        if let Some((session, request)) = figures::question(&envelope) {
            return self.answer(&envelope, session, request);
        }
        let to = envelope.to.node;
        let hosted = self.hosted.iter_mut().find(|hosted| hosted.node == to);
        if let Some(hosted) = hosted
            && life.is_none_or(|life| life == hosted.worker.shared().incarnation)
        {
            hosted.worker.deliver(envelope);
        }
    }

    fn post(&mut self) {
        for (thread, batch) in self.outgoing.iter_mut().enumerate() {
            self.common.exchange.post(self.index, thread, batch);
        }
        if let Some(disk) = &self.common.disk {
            for Asked { node, worker, request } in &self.asked {
                self.common.disk_requests.begin(*node, *worker, request);
            }
            disk.submit(&mut self.asked);
        }
        let Some(links) = &mut self.links else { return };
        if links.flush(&self.poller, self.now) {
            self.worked_now("what goes over links");
        }
        let Some(links) = &mut self.links else { return };
        for Loss { node, incarnation, closed } in links.take_losses() {
            self.link_down(node, incarnation, closed);
        }
    }

    /// Passes on what workers tell operators.
    fn tell_news(&mut self) {
        for hosted in &mut self.hosted {
            for (about, news) in hosted.worker.take_news() {
                (self.common.report)(Event::News { node: hosted.node, about, news });
            }
            if let Some(leaving) = hosted.worker.take_leaving() {
                (self.common.report)(Event::LeaveAsked(leaving));
            }
        }
    }

    /// Ends the nodes of which a worker has halted.
    fn stop_halted(&mut self) {
        self.tell_news();
        let halted = |hosted: &Hosted| {
            let why = hosted.worker.halted()?.clone();
            Some((hosted.node, why, trace(&hosted.worker)))
        };
        let halted: Vec<(NodeId, Halt, String)> = self.hosted.iter().filter_map(halted).collect();
        for (node, why, text) in halted {
            if self.common.lives.get(&node).is_some_and(Life::end) {
                let trace = write_trace(self.common.crash.directory(), node, &text);
                (self.common.report)(Event::Halted { node, why, trace });
                for (thread, batch) in self.outgoing.iter_mut().enumerate() {
                    if thread != self.index {
                        batch.push(Mail::NodeDown(node));
                    }
                }
            }
            self.node_down(node);
        }
    }

    /// A node has ended: its worker goes, the others are told that the link to it is gone.
    fn node_down(&mut self, node: NodeId) {
        if !self.down.insert(node) {
            return;
        }
        self.hosted.retain(|hosted| hosted.node != node);
        self.link_down(node, self.common.lives[&node].incarnation, true);
    }

    /// Tells the workers that nothing more comes from a life of a node.
    fn link_down(&mut self, node: NodeId, incarnation: Incarnation, closed: bool) {
        for hosted in &mut self.hosted {
            let worker = WorkerId(self.index as u8);
            let control = |node| Address { node, worker, actor: ActorKind::Control };
            hosted.worker.deliver(Envelope {
                from: control(node),
                incarnation,
                to: control(hosted.node),
                reached: hosted.worker.shared().cluster.index,
                message: Box::new(Message::LinkDown { node, incarnation, closed }),
            });
        }
    }

    /// Sends what clients are to get.
    fn flush(&mut self) {
        let Some(at) = self.hosted.iter().position(|hosted| hosted.role == Role::Client) else {
            return;
        };
        self.gateway.flush(&self.poller, &mut self.hosted[at].worker, self.now);
        // What was heard of connections may have led to requests.
        while let Some(outgoing) = self.hosted[at].worker.pop_outgoing() {
            self.send(outgoing);
        }
        self.post();
    }

    /// Looks at what concerns the process as a whole.
    fn look_around(&mut self) -> io::Result<()> {
        self.follow_restores();
        if let Some(links) = &mut self.links {
            links.look_at_clock(self.now);
            links.flush(&self.poller, self.now);
        }
        let common = &self.common;
        if !self.serves {
            self.serves = serves(&self.hosted);
            if self.serves && common.ready.fetch_add(1, Ordering::SeqCst) + 1 == common.threads() {
                common.exchange.wake_all();
            }
        }
        let all_serve = common.ready.load(Ordering::SeqCst) == common.threads();
        if let Some(acceptor) = &mut self.acceptor
            && all_serve
            && acceptor.due().is_none_or(|due| due <= self.now)
            && acceptor.open(&self.poller)?
        {
            (common.report)(Event::Ready);
        }
        if common.draining.load(Ordering::SeqCst) {
            self.let_clients_go()?;
        }
        let common = &self.common;
        if common.stopping.load(Ordering::SeqCst) && self.stopping.is_none() {
            self.stopping = Some(self.now + FAREWELL_TIMEOUT);
            self.acceptor = None;
            if let Some(client) = client(&mut self.hosted) {
                self.gateway.shut_down(client, self.now);
            }
            self.flush();
        }
        if self.stopping.is_some() && !self.drained && self.gateway.is_empty() {
            self.drained = true;
            self.common.drained.fetch_add(1, Ordering::SeqCst);
            self.common.exchange.wake_all();
        }
        let all_drained = self.common.drained.load(Ordering::SeqCst) == self.common.threads();
        if self.stopping.is_some() && all_drained && self.saved.is_none() {
            let common = &self.common;
            // One save may be under way, and the next has the last commits.
            let disk = common.disk.as_ref().filter(|_| !common.lives.values().all(Life::has_ended));
            let saves = disk.map(|_| common.config.save_interval.times(3));
            self.saved = Some(self.now + saves.unwrap_or(Duration::ZERO));
        }
        Ok(())
    }

    /// Accepts nobody any more, has clients told of it once, and counts those that are left.
    fn let_clients_go(&mut self) -> io::Result<()> {
        if !self.draining {
            // Who has connected already is told, too.
            if let Some(mut acceptor) = self.acceptor.take() {
                let accepted = acceptor.accept_rest(&self.poller, self.now)?;
                self.hand_out(accepted);
            }
            self.draining = true;
            if let Some(client) = client(&mut self.hosted) {
                self.gateway.drain(client, self.now);
            }
            self.flush();
        }
        self.common.clients[self.index].store(self.gateway.open_count(), Ordering::SeqCst);
        Ok(())
    }

    /// Notes how far the workers are with reading their disks back, until the cluster serves.
    fn follow_restores(&mut self) {
        if self.serves || self.common.disk.is_none() || self.now < self.restores_due {
            return;
        }
        self.restores_due = self.now + RESTORES_INTERVAL;
        let mut sum = RestoreProgress::default();
        for Hosted { worker, restore, .. } in &mut self.hosted {
            match worker.participant().and_then(|participant| participant.restore_progress()) {
                Some(progress) => *restore = progress,
                None => restore.complete(),
            }
            sum.add(restore);
        }
        let mut all = self.common.restores.lock().expect("nobody panics while holding it");
        all[self.index] = sum;
    }

    /// Whether all clients have taken leave, or have had time to, and what they did is saved.
    fn has_stopped(&self) -> bool {
        [self.stopping, self.saved].into_iter().flatten().any(|until| until <= self.now)
    }
}

impl Common {
    /// A signal ends the process: stops all threads but the one that was `hit`, which stands still,
    /// and keeps what all were doing.
    pub(crate) fn end_by_signal(
        &self,
        signal: &str,
        hit: Option<&Thread>,
    ) -> io::Result<Vec<PathBuf>> {
        self.crash.declare();
        self.exchange.wake_all();
        self.seats.iter().for_each(Seat::wake);
        if let Some(hit) = hit {
            self.crash.leave(hit.workers());
        }
        let place = hit.map_or(String::new(), |hit| format!(" in worker-{}", hit.index));
        let why = format!("{signal}{place} ended the process\n");
        self.crash.write_with(PATIENCE, self.lives.keys().copied(), &why)
    }
}

/// This thread has panicked: stops the others, and keeps what all were doing.
fn crash<'a>(common: &Common, workers: impl Iterator<Item = (NodeId, &'a Worker)>) {
    let first = common.crash.declare();
    common.exchange.wake_all();
    common.seats.iter().for_each(Seat::wake);
    common.crash.leave(workers);
    if first {
        (common.report)(Event::Crashed { traces: common.crash.write(PATIENCE) });
    }
}

/// Whether the nodes of a thread serve, as far as its workers know. An application knows best.
fn serves(hosted: &[Hosted]) -> bool {
    let serves = |hosted: &Hosted| {
        let shared = hosted.worker.shared();
        let (cluster, role) = (&shared.cluster, hosted.role);
        let member = cluster.member(shared.node, shared.incarnation);
        let complete = member.is_some_and(|member| member.status == MemberStatus::Active);
        cluster.started && !cluster.stopped && (complete || role == Role::Client)
            || role == Role::Management
    };
    match hosted.iter().find(|hosted| hosted.role == Role::Client) {
        Some(client) => serves(client),
        None => hosted.iter().all(serves),
    }
}

/// The application's worker.
fn client(hosted: &mut [Hosted]) -> Option<&mut Worker> {
    hosted.iter_mut().find(|hosted| hosted.role == Role::Client).map(|hosted| &mut hosted.worker)
}

/// The thread's eventfd in the poller. Connections have their numbers, from 1.
const TOKEN_WAKE: u64 = 0;
/// The poller of a guest.
const TOKEN_GUEST: u64 = 1 << 61;
/// The first socket of a link.
const TOKEN_LINKS: u64 = 1 << 62;
/// The first listener.
const TOKEN_LISTENERS: u64 = 1 << 63;
/// Messages a worker handles before the next has its turn.
const STEPS_PER_PASS: usize = 32;
/// How long workers run before sockets are looked at again.
const TURN_MAX: Duration = Duration::from_millis(1);
/// Turns after each other that begin with what has come through memory, without a look at sockets.
const UNPOLLED_MAX: u32 = 4;
/// Looks into memory for each question to the system, while there is nothing to do.
const LOOKS_PER_POLL: u32 = 16;
/// How long workers do steps of long work before sockets are looked at again.
const LONG_WORK_MAX: Duration = Duration::from_micros(25);
/// The same while key operations come in between: one step, unless it was a very short one.
const LONG_WORK_MAX_SHARED: Duration = Duration::from_micros(5);
/// How often workers are told the time of day.
const DAY_TOLD_EVERY: Duration = Duration::from_secs(1);
/// How often it is noted how far disks have been read back.
const RESTORES_INTERVAL: Duration = Duration::from_millis(100);
/// Events a flight recorder keeps.
const RECORDER_SIZE: usize = 4_096;
/// Address space for a thread's stack; memory is taken as it is used.
pub(crate) const STACK_SIZE: usize = 8 << 20;
/// How long clients have to take leave when the process stops.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(3);
