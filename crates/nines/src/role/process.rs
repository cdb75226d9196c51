//! The life of a process that is one node: start, the lines it prints, the end.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actor::Halt;
use runtime::{Cluster, Event, Hung, Report, Watching};

use crate::http::Endpoint;
use crate::process::{Happening, crashed, failed};
use crate::progress::StartProgress;
use crate::root_password::Announcement;
use crate::{complain, tell};

/// What a process does after its node has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It ends.
    End,
    /// It starts again as a new life, after a moment if it did not want to end.
    StartAgain { soon: bool },
}

impl After {
    /// Whoever wants the end goes before who wants another life.
    fn heed(&mut self, happening: &Happening) {
        if matches!(happening, Happening::Signal | Happening::Leave { restart: false }) {
            *self = Self::End;
        }
    }
}

/// What is said and done while a node lives.
pub(super) struct Life<'a> {
    /// Printed when the node serves.
    pub(super) ready: String,
    /// When that is.
    pub(super) announcement: Announcement,
    /// What it does before it ends.
    pub(super) end: Farewell<'a>,
    /// It has a disk to read back first.
    pub(super) on_disk: bool,
    /// Told of everything that happens.
    pub(super) log: &'a dyn Fn(&str),
}

/// What a node does that is told to end.
pub(super) enum Farewell<'a> {
    /// It leaves the cluster in good order, so that nobody waits for it.
    Leave,
    /// It holds nothing, and lets its clients go.
    Drain(Drain<'a>),
}

/// How a node lets its clients go.
pub(super) struct Drain<'a> {
    /// Tells load balancers.
    pub(super) endpoint: &'a Endpoint,
    /// For how long they are told before anybody is let go.
    pub(super) notice: Duration,
    /// For how long clients may finish what they have begun.
    pub(super) timeout: Duration,
}

/// Has the other nodes see at once when this process is killed, whatever memory it has.
pub(super) fn be_missed_at_once() {
    if let Err(error) = runtime::close_sockets_first() {
        complain(&format!("if this process is killed the others will notice late: {error}"));
    }
}

/// Events of the cluster as happenings of the process.
pub(super) fn report(send: Sender<Happening>) -> Report {
    let send = Mutex::new(send);
    Box::new(move |event| {
        let send = send.lock().expect("nobody panics while holding it");
        // The main thread may have ended already.
        let _ = send.send(Happening::of(event));
    })
}

/// How the threads of a node without rows are watched. Nobody waits for what one of them computes
/// but who asked for that, so it may take long.
pub(super) fn watching() -> Watching {
    Watching {
        limit: CHECK,
        limit_at_start: CHECK_AT_START,
        computing_limits: COMPUTING_LIMITS,
        traces: true,
    }
}

/// Waits for the end of a node, and says what comes after it.
pub(super) fn live(
    cluster: Cluster,
    happenings: &Receiver<Happening>,
    life: &Life<'_>,
) -> Result<After, String> {
    let mut outcome = watch(&cluster, happenings, life);
    cluster.stop();
    if let Ok(after) = &mut outcome {
        happenings.try_iter().for_each(|happening| after.heed(&happening));
    }
    outcome
}

fn watch(
    cluster: &Cluster,
    happenings: &Receiver<Happening>,
    life: &Life<'_>,
) -> Result<After, String> {
    let (began, mut progress) = (Instant::now(), StartProgress::default());
    let mut ready = false;
    // What was asked for, and until when it may take.
    let mut leaving: Option<(After, Instant)> = None;
    loop {
        if let Some((after, until)) = &leaving
            && *until <= Instant::now()
        {
            (life.log)("the others cannot do without this node: it ends all the same");
            return Ok(after.clone());
        }
        let next = match happenings.recv_timeout(TICK) {
            Ok(happening) => happening,
            Err(RecvTimeoutError::Timeout) => {
                if !ready && life.on_disk {
                    let line = progress.line(&cluster.restore_progress(), began.elapsed());
                    line.iter().for_each(|line| (life.log)(line));
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Err("all threads have ended".into()),
        };
        let after = match next {
            Happening::Signal => After::End,
            Happening::Leave { restart: true } => After::StartAgain { soon: true },
            Happening::Leave { restart: false } => After::End,
            Happening::Cluster(event) => match heed(event, life, &mut ready, leaving.as_ref())? {
                Some(after) => return Ok(after),
                None => continue,
            },
        };
        if !ready {
            return Ok(after);
        }
        if let Farewell::Drain(drain) = &life.end {
            return let_clients_go(cluster, happenings, life, drain, after);
        }
        (life.log)("leaves the cluster");
        cluster.leave();
        leaving = Some((after, Instant::now() + LEAVE_TIMEOUT));
    }
}

/// Has clients of a node go to others, until none is left or they have had their time. Returns
/// early when the node has ended.
fn let_clients_go(
    cluster: &Cluster,
    happenings: &Receiver<Happening>,
    life: &Life<'_>,
    drain: &Drain<'_>,
    mut after: After,
) -> Result<After, String> {
    let Drain { endpoint, notice, timeout } = drain;
    endpoint.drain();
    if !notice.is_zero() {
        let seconds = notice.as_secs_f64();
        (life.log)(&format!(
            "is told to end: /ready says no, and clients are served for {seconds} s"
        ));
        if has_ended(happenings, life, *notice, &mut after)? {
            return Ok(after);
        }
    }
    cluster.drain();
    let (began, mut told) = (Instant::now(), false);
    loop {
        let (clients, waited) = (cluster.clients(), began.elapsed());
        match clients {
            Some(0) => {
                (life.log)("has let all clients go");
                return Ok(after);
            }
            Some(clients) if waited >= *timeout => {
                let seconds = timeout.as_secs_f64();
                (life.log)(&format!(
                    "clients that have not finished after {seconds} s (DrainTimeout): {clients}; \
                     what they have open is rolled back"
                ));
                return Ok(after);
            }
            // A thread has not even counted them.
            None if waited >= *timeout => return Ok(after),
            Some(clients) if waited >= DRAIN_TOLD_AFTER && !told => {
                let seconds = timeout.as_secs_f64();
                (life.log)(&format!(
                    "waits up to {seconds} s (DrainTimeout) for clients that have something open: \
                     {clients}"
                ));
                told = true;
            }
            _ => {}
        }
        if has_ended(happenings, life, DRAIN_TICK, &mut after)? {
            return Ok(after);
        }
    }
}

/// Heeds events for so long; whether the node has ended meanwhile.
fn has_ended(
    happenings: &Receiver<Happening>,
    life: &Life<'_>,
    span: Duration,
    after: &mut After,
) -> Result<bool, String> {
    let until = Instant::now() + span;
    loop {
        match happenings.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Happening::Cluster(event)) => {
                if heed(event, life, &mut true, None)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(happening) => after.heed(&happening),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => return Err("all threads have ended".into()),
        }
    }
}

/// Takes note of an event; what comes after the node if it was the last one.
fn heed(
    event: Event,
    life: &Life<'_>,
    ready: &mut bool,
    leaving: Option<&(After, Instant)>,
) -> Result<Option<After>, String> {
    match event {
        Event::Ready => {
            *ready = true;
            life.announcement.serve(&life.ready, tell);
        }
        Event::Link(event) => (life.log)(&event.to_string()),
        Event::Halted { why: Halt::Left, .. } => {
            (life.log)("has left the cluster");
            return Ok(Some(leaving.map_or(After::End, |(after, _)| after.clone())));
        }
        Event::Halted { why, trace, .. } => {
            let trace = trace.map_or_else(|e| e.to_string(), |path| path.display().to_string());
            let line = format!("the node has stopped: {why} (trace: {trace})");
            match why {
                // There is a cluster to come back to, or there will be one.
                Halt::Removed | Halt::ClusterStopped(_) | Halt::Unresponsive(_) => {
                    complain(&line);
                    return Ok(Some(After::StartAgain { soon: false }));
                }
                // It holds nothing; there is another cluster to serve from now on.
                Halt::OtherCluster { .. } if matches!(life.end, Farewell::Drain(_)) => {
                    complain(&line);
                    return Ok(Some(After::StartAgain { soon: true }));
                }
                _ => return Err(line),
            }
        }
        Event::News { node, about, news } if node == about => (life.log)(&news.text),
        Event::News { about, news, .. } => {
            (life.log)(&format!("node {}: {}", about.0, news.text));
        }
        // A happening of its own.
        Event::LeaveAsked(_) => {}
        Event::Hung { hung, traces } => end_hung(&hung, traces),
        Event::Crashed { traces } => return Err(crashed(traces)),
        Event::Failed(error) => return Err(failed(&error)),
    }
    Ok(None)
}

/// Ends the process at once: its threads cannot be waited for, and other nodes wait for its end.
fn end_hung(hung: &Hung, traces: Option<std::io::Result<Vec<PathBuf>>>) -> ! {
    let traces = match traces {
        Some(Ok(paths)) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("; what the other workers did is in {}", paths.join(", "))
        }
        Some(Err(error)) => format!("; no trace was written: {error}"),
        None => String::new(),
    };
    let line = format!("{hung}; the process ends, so that nobody waits for it{traces}");
    tell(&format!("{} {line}", crate::machine::timestamp()));
    complain(&line);
    std::process::exit(HUNG)
}

/// Does what comes after a node's end. Returns only if the process is to end, or cannot go on.
pub(super) fn after(after: After) -> Result<(), String> {
    let After::StartAgain { soon } = after else { return Ok(()) };
    if !soon {
        std::thread::sleep(PAUSE);
    }
    let program =
        std::env::current_exe().map_err(|error| format!("cannot start again: {error}"))?;
    // A program that was replaced by a newer one is found under its name.
    let name = program.to_string_lossy();
    let program = name.strip_suffix(" (deleted)").map_or(program.clone(), PathBuf::from);
    tell("starts again");
    runtime::let_memory_go();
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    Err(format!("cannot start {} again: {error}", program.display()))
}

/// A log that begins each line with the time and the node.
pub(super) fn log_of(node: model::NodeId) -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(move |what| tell(&format!("{} node {}: {what}", crate::machine::timestamp(), node.0)))
}

/// The exit code of a process in which something hangs.
const HUNG: i32 = 70;
/// How long a thread of a node without rows may stand still, once it serves and before. Data nodes
/// have parameters for that, with these defaults.
const CHECK: stdx::Duration = stdx::Duration::from_millis(500);
const CHECK_AT_START: stdx::Duration = stdx::Duration::from_secs(6);
/// For how many checks it may compute in a single turn.
const COMPUTING_LIMITS: u64 = 20;
/// How often it is looked whether there is something to tell.
const TICK: Duration = Duration::from_millis(500);
/// How often it is looked whether clients have gone, and when it is told that some have not.
const DRAIN_TICK: Duration = Duration::from_millis(20);
const DRAIN_TOLD_AFTER: Duration = Duration::from_millis(500);
/// How long a node waits to be let go.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a node that was put out waits before it comes back.
const PAUSE: Duration = Duration::from_secs(1);
