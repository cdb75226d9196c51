//! The cluster log: what has happened, in order, with reasons.
//!
//! # Owns
//! The thread that writes it: to standard output if it is to, to a file, and for those who ask.
//! # Guarantees
//! A loss is told with its reason. The state in which a node is missing and the fate of the link to
//! it arrive on different ways; the first one waits for the other, for [`REASON_WAIT`] at most.
//! # Failure
//! A file that cannot be written is told once, and done without.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::{Incarnation, NodeId};
use runtime::LinkEvent;

use super::super::news::{Draft, Entry, Level, Page, REASON_OF_OTHERS, of_link, reason};
use crate::{complain, machine, tell};

/// What the log is told.
pub(super) enum Input {
    /// The fate of a link.
    Link(LinkEvent),
    /// What a change of the cluster's state means.
    News(Vec<Draft>),
    /// What this node says of itself.
    Note(String),
}

/// The log.
#[derive(Clone, Debug)]
pub(super) struct ClusterLog {
    own: NodeId,
    lines: Arc<Mutex<VecDeque<Entry>>>,
    send: Sender<Input>,
}

/// What the log is made with.
pub(super) struct LogSetup {
    pub(super) own: NodeId,
    /// The roles of all nodes, by name.
    pub(super) roles: BTreeMap<NodeId, String>,
    /// How long a peer is silent before its link counts as broken.
    pub(super) silence: stdx::Duration,
    /// The file it is kept in, if any.
    pub(super) file: Option<PathBuf>,
    /// Each line goes to standard output.
    pub(super) prints: bool,
}

impl ClusterLog {
    /// Starts the thread, with what the file has of earlier lives.
    pub(super) fn start(setup: LogSetup) -> Result<Self, String> {
        let (send, inputs) = channel();
        let earlier = setup.file.as_deref().map(read).unwrap_or_default();
        let number = earlier.back().map_or(0, |entry| entry.number);
        let lines = Arc::new(Mutex::new(earlier));
        let log = Self { own: setup.own, lines: lines.clone(), send };
        let file = setup.file.as_deref().and_then(|path| open(path).map_err(|e| complain(&e)).ok());
        let mut writer =
            Writer { setup, lines, number, file, queue: VecDeque::new(), reasons: BTreeMap::new() };
        let thread = thread::Builder::new().name("cluster-log".into());
        let thread = thread.spawn(move || writer.run(&inputs));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(log)
    }

    /// Tells it something. That it has ended is no reason to stop.
    pub(super) fn tell(&self, input: Input) {
        let _ = self.send.send(input);
    }

    /// What has happened after a line, the oldest first; or else the newest lines.
    pub(super) fn page(&self, after: Option<u64>, most: usize) -> Page {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.min(PAGE_MAX);
        let entries = match after {
            Some(after) => {
                lines.iter().filter(|entry| entry.number > after).take(most).cloned().collect()
            }
            None => lines.iter().skip(lines.len().saturating_sub(most)).cloned().collect(),
        };
        let newest = lines.back().map_or(0, |entry| entry.number);
        Page { told_by: self.own.0, newest, entries }
    }
}

/// The thread's side.
struct Writer {
    setup: LogSetup,
    lines: Arc<Mutex<VecDeque<Entry>>>,
    number: u64,
    file: Option<File>,
    /// What is to be written, in order, with the time it was heard of.
    queue: VecDeque<(Instant, String, Draft)>,
    /// Why links to lives have broken.
    reasons: BTreeMap<(NodeId, Incarnation), String>,
}

impl Writer {
    fn run(&mut self, inputs: &Receiver<Input>) {
        loop {
            let wait = if self.queue.is_empty() { IDLE } else { TICK };
            match inputs.recv_timeout(wait) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.write();
        }
    }

    fn take(&mut self, input: Input) {
        let drafts = match input {
            Input::Link(event) => {
                if let LinkEvent::Down { node, incarnation, closed, why } = event {
                    let reason = reason(closed, why, self.setup.silence);
                    self.reasons.insert((node, incarnation), reason);
                }
                if let LinkEvent::Up { node, .. } = event {
                    // Lives of long ago are not lost any more.
                    let last = self.reasons.keys().filter(|key| key.0 == node).count();
                    let old = self.reasons.keys().find(|key| key.0 == node).copied();
                    old.filter(|_| last > 2).map(|old| self.reasons.remove(&old));
                }
                vec![of_link(&event, &self.setup.roles)]
            }
            Input::News(drafts) => drafts,
            Input::Note(text) => vec![Draft::new(Level::Info, Some(self.setup.own), "note", text)],
        };
        let (now, time) = (Instant::now(), rfc3339());
        self.queue.extend(drafts.into_iter().map(|draft| (now, time.clone(), draft)));
    }

    /// Writes what is complete.
    fn write(&mut self) {
        while let Some((since, _, draft)) = self.queue.front() {
            let reason = draft.lost.map(|life| self.reasons.get(&life));
            if reason == Some(None) && since.elapsed() < REASON_WAIT {
                return;
            }
            let reason = reason.flatten().map_or(REASON_OF_OTHERS, String::as_str).to_string();
            let Some((_, time, draft)) = self.queue.pop_front() else { return };
            self.number += 1;
            let entry = Entry {
                number: self.number,
                time,
                level: draft.level,
                node: draft.node.map(|node| node.0),
                event: draft.event.into(),
                text: draft.text.replace("{why}", &reason),
            };
            if self.setup.prints {
                tell(&entry.line());
            }
            self.keep(entry);
        }
    }

    fn keep(&mut self, entry: Entry) {
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_string(&entry).expect("entries are plain");
            line.push('\n');
            let long = file.metadata().is_ok_and(|about| about.len() > FILE_SIZE_MAX);
            if let Err(error) = file.write_all(line.as_bytes()) {
                complain(&format!("the cluster log is not kept on disk any more: {error}"));
                self.file = None;
            } else if long && let Some(path) = &self.setup.file {
                let _ = fs::rename(path, path.with_extension("log.1"));
                self.file = open(path).ok();
            }
        }
        let mut lines: MutexGuard<'_, _> =
            self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_MAX {
            lines.pop_front();
        }
        lines.push_back(entry);
    }
}

fn open(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("the cluster log is not kept in {}: {error}", path.display()))
}

/// The newest lines of a file. One that was not finished is left out.
fn read(path: &Path) -> VecDeque<Entry> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut entries: VecDeque<Entry> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.drain(..entries.len().saturating_sub(LOG_MAX));
    entries
}

fn rfc3339() -> String {
    machine::timestamp().replace(' ', "T") + "Z"
}

/// How long a loss waits for its reason.
const REASON_WAIT: Duration = Duration::from_millis(1_500);
/// How often it is looked whether something has waited long enough.
const TICK: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_secs(3_600);
/// Lines that are kept for those who ask.
const LOG_MAX: usize = 10_000;
/// Most lines of an answer.
const PAGE_MAX: usize = 10_000;
/// A file of this size is put aside as `….log.1`.
const FILE_SIZE_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use runtime::Broken;

    use super::*;

    fn setup(file: Option<PathBuf>) -> LogSetup {
        let roles = BTreeMap::from([(NodeId(2), "data".to_string())]);
        let silence = stdx::Duration::from_millis(1_000);
        LogSetup { own: NodeId(49), roles, silence, file, prints: true }
    }

    fn texts(log: &ClusterLog, number: usize) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let page = log.page(None, 100);
            if page.entries.len() >= number || Instant::now() > until {
                return page.entries.into_iter().map(|entry| entry.text).collect();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_loss_waits_for_its_reason() {
        let log = ClusterLog::start(setup(None)).unwrap();
        let (node, incarnation) = (NodeId(2), Incarnation(7));
        let lost = Draft::new(Level::Error, Some(node), "node_lost", "lost: {why}!");
        let lost = Draft { lost: Some((node, incarnation)), ..lost };
        log.tell(Input::News(vec![lost]));
        let why = Broken::Ended;
        log.tell(Input::Link(LinkEvent::Down { node, incarnation, closed: true, why }));
        assert_eq!(
            texts(&log, 2),
            [
                "lost: its process has ended!",
                "data node disconnected, its host closed the connection; its process has ended"
            ]
        );
    }

    #[test]
    fn a_file_outlives_the_log() {
        let path = std::env::temp_dir().join(format!("nines-cluster-log-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        for life in 0..2 {
            let log = ClusterLog::start(setup(Some(path.clone()))).unwrap();
            log.tell(Input::Note(format!("life {life}")));
            let told = texts(&log, life + 1);
            assert_eq!(told.len(), life + 1, "{told:?}");
        }
        let entries = read(&path);
        assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
        fs::remove_file(&path).unwrap();
    }
}
