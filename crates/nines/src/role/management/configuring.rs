//! What a management node does about the configuration: brings its file into the control log, takes
//! over what others have ordered, answers and carries out orders.
//!
//! # Owns
//! The thread that keeps the configuration; the way of an order from its check to the control log.
//! # Guarantees
//! An order is done when the control log has it, and not when it was asked for. Of two orders made
//! of the same version one is refused.
//! # Not here
//! What an order takes (`change`), what is in use (`configured`).

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster_config::{ClusterConfig, Role as ConfiguredRole};
use model::cluster::{REVISION_BYTES_MAX, Revision};
use model::{Command, NodeId};
use runtime::Asker;

use super::Desk;
use super::change::{self, Case};
use super::cluster_log::Input;
use super::configured::{Current, Keeper};
use crate::role::news::{Draft, Level};
use crate::role::request::{
    ChangePlan, Configuration, ConfigureOrder, PendingRestart, PlannedChange, Request, ask, value,
};

/// The protocol version since which the control log has the configuration.
const SINCE: u16 = 18;
/// How often it is looked whether the control log has another configuration.
const LOOK: Duration = Duration::from_millis(100);
/// How long the cluster may take to log one: the asker waits ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often an order is repeated until it is logged: whoever leads may have changed.
const REPEAT: Duration = Duration::from_secs(1);
/// Most lines that are kept of a change; the rest is counted.
const LINES_MAX: usize = 20;
/// Longest name of whoever orders something, in bytes.
const NAME_MAX: usize = 120;

impl Desk {
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration in use.
    pub(super) fn config(&self) -> Arc<ClusterConfig> {
        self.in_use.config()
    }

    /// Keeps the configuration in step with the control log, on a thread of its own.
    pub(super) fn keep_configuration(self: Arc<Self>) -> Result<(), String> {
        let keep = move || {
            let mut ordered = None;
            loop {
                self.take_configuration();
                self.seed(&mut ordered);
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("configuration".into()).spawn(keep);
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    }

    fn take_configuration(&self) {
        let state = self.board.state();
        let Some(configured) = &state.configured else { return };
        let mut keeper = self.keeper();
        let Some(told) = keeper.take(configured) else { return };
        let differs = keeper.differs(&configured.revisions);
        drop(keeper);
        let tell = |level, event, text| {
            self.log.tell(Input::News(vec![Draft::new(level, Some(self.own), event, text)]));
        };
        match told {
            Ok(text) => tell(Level::Info, "configured", text),
            Err(why) => tell(Level::Error, "not_configured", why),
        }
        if let Some(differs) = differs {
            tell(Level::Warning, "file_differs", differs);
        }
    }

    /// Brings what this node was started with into the control log, if that has none yet.
    fn seed(&self, ordered: &mut Option<Instant>) {
        let state = self.board.state();
        let life = self.books().incarnation;
        let lacks = state.configured.is_none() && state.finalized() >= SINCE;
        let waits = ordered.is_some_and(|at| at.elapsed() < REPEAT);
        if !lacks || waits || state.member(self.own, life).is_none() {
            return;
        }
        let config = self.config();
        let file = self.options.file.display();
        let by = format!("management node {}", self.own.0);
        self.log_configuration(&config, 1, by, vec![format!("as {file} had it")], Vec::new());
        *ordered = Some(Instant::now());
    }

    fn log_configuration(
        &self,
        config: &ClusterConfig,
        version: u64,
        by: String,
        what: Vec<String>,
        restarts: Vec<u16>,
    ) {
        let fingerprint = config.fingerprint().to_string();
        let at = runtime::since_1970().as_secs();
        let revision = Revision { version, at, by, fingerprint, what, restarts };
        self.board.order(Command::Configure { text: config.canonical(), revision });
    }

    /// Answers who starts, or has a look.
    pub(super) fn configuration(&self, free: Vec<u16>) -> Configuration {
        let Current { config, version } = self.in_use.get();
        let state = self.board.state();
        let revisions = state.configured.as_ref().map(|configured| configured.revisions.clone());
        let source = match version {
            0 => format!("{} of node {}", self.options.file.display(), self.own.0),
            _ => "the control log".to_string(),
        };
        let (text, fingerprint) = (config.canonical(), config.fingerprint().to_string());
        let differs = self.keeper().differs(&revisions.unwrap_or_default());
        Configuration { text, fingerprint, version, source, pending: Vec::new(), differs, free }
    }

    /// What the file says that is not in use.
    pub(super) fn file_differs(&self) -> Option<String> {
        let state = self.board.state();
        let revisions = state.configured.as_ref().map(|configured| configured.revisions.clone());
        self.keeper().differs(&revisions.unwrap_or_default())
    }

    /// The nodes that were started with an older version than one that is in effect for them only
    /// after a restart. SQL nodes cannot be asked.
    pub(super) fn pending_restarts(&self) -> Vec<PendingRestart> {
        let state = self.board.state();
        let Some(configured) = &state.configured else { return Vec::new() };
        let config = self.config();
        let connected = self.books().connected.clone();
        let asked = config.nodes().iter().filter_map(|node| {
            if node.id == self.own {
                return Some((node.id, self.started_with));
            }
            let place = node.host().zip(node.port());
            let (host, port) = place.filter(|_| connected.contains_key(&node.id))?;
            // One of an older program does not know the question: it was started before.
            let running = ask::<u64>(host, port, &Request::Running, &self.access(node));
            Some((node.id, running.unwrap_or(0)))
        });
        let since = |id: NodeId, version: u64| {
            let mut later = configured.revisions.iter().filter(|later| later.version > version);
            later.any(|revision| revision.restarts.contains(&id.0))
        };
        let pending = asked.filter(|(id, version)| since(*id, *version));
        pending.map(|(id, version)| PendingRestart { node: id.0, version }).collect()
    }

    /// The changes that are remembered.
    pub(super) fn revisions(&self) -> Vec<Revision> {
        let state = self.board.state();
        state.configured.as_ref().map_or_else(Vec::new, |told| told.revisions.to_vec())
    }

    /// Carries out an order about the configuration, or tells what it would do.
    pub(super) fn configure(
        &self,
        asker: &Asker,
        order: &ConfigureOrder,
    ) -> Result<serde_json::Value, String> {
        self.take_configuration();
        let Current { config, version } = self.in_use.get();
        let after = wanted(&config, order)?;
        let state = self.board.state();
        let connected = self.books().connected.clone();
        let (before, own, force) = (&*config, self.own, order.force);
        let case = Case { before, after: &after, state: &state, connected: &connected, own, force };
        let mut plan = ChangePlan { version, ..change::plan(&case) };
        if order.look || plan.changes.is_empty() || !plan.refused.is_empty() {
            return value(&plan);
        }
        if state.finalized() < SINCE {
            return Err(format!(
                "the cluster has not ended its upgrade to this release, and older programs keep no \
                 configuration in the control log: restart what is older, then `nines ctl upgrade \
                 finalize`; until then change {} on all management nodes, and restart them",
                self.options.file.display()
            ));
        }
        if state.configured.is_none() {
            return Err("the cluster has not taken its configuration into the control log yet: \
                        that needs most data nodes; try again when `show` says that it serves"
                .into());
        }
        let by = name_of(asker, &order.by);
        let wanted = version + 1;
        let fingerprint = after.fingerprint().to_string();
        let what = lines(&plan.changes);
        self.await_configuration(wanted, &fingerprint, || {
            self.log_configuration(&after, wanted, by.clone(), what.clone(), plan.restarts.clone());
        })?;
        self.take_configuration();
        (plan.version, plan.done) = (wanted, true);
        value(&plan)
    }

    /// Orders a version until the control log has it, or has another one in its place.
    fn await_configuration(
        &self,
        wanted: u64,
        fingerprint: &str,
        order: impl Fn(),
    ) -> Result<(), String> {
        let began = Instant::now();
        let mut ordered: Option<Instant> = None;
        loop {
            let state = self.board.state();
            let revisions = state.configured.as_ref().map(|told| told.revisions.clone());
            let revisions = revisions.unwrap_or_default();
            if let Some(it) = revisions.iter().find(|revision| revision.version == wanted) {
                if it.fingerprint == fingerprint {
                    return Ok(());
                }
                return Err(format!(
                    "{} has changed the configuration at the same time; nothing else was changed: \
                     look at it, and order it again",
                    it.by
                ));
            }
            if began.elapsed() > PATIENCE {
                return Err(format!(
                    "the cluster has not logged it after {} s: that takes most votes, and members \
                     that all know this command; `show` says what is missing, and `config history` \
                     whether it has been done after all",
                    PATIENCE.as_secs()
                ));
            }
            if ordered.is_none_or(|at| at.elapsed() > REPEAT) {
                order();
                ordered = Some(Instant::now());
            }
            std::thread::sleep(LOOK / 4);
        }
    }
}

/// The configuration that an order asks for.
fn wanted(config: &ClusterConfig, order: &ConfigureOrder) -> Result<ClusterConfig, String> {
    let base = match &order.text {
        None => config.clone(),
        Some(text) => {
            let parsed = ClusterConfig::parse_after(text.as_bytes(), config);
            let parsed = parsed.map_err(|problems| {
                let lines: Vec<String> =
                    problems.iter().map(|problem| problem.at("the file").to_string()).collect();
                lines.join("\n")
            })?;
            if parsed.config.nodes_of(ConfiguredRole::Management).next().is_none() {
                return Err("the file has no management node".into());
            }
            parsed.config
        }
    };
    base.assign(&order.assignments)
}

/// Who has ordered something, as far as that is proved.
fn name_of(asker: &Asker, by: &str) -> String {
    let plain = |text: &str| {
        let text: String = text.chars().filter(|char| !char.is_control()).collect();
        let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= NAME_MAX);
        text[..end.unwrap_or(text.len())].to_string()
    };
    match asker {
        Asker::Certified(_, serial) => format!("{} (certificate {})", plain(by), plain(serial)),
        _ => plain(by),
    }
}

/// What is remembered of changes: as much as there is room for.
fn lines(changes: &[PlannedChange]) -> Vec<String> {
    let line = |change: &PlannedChange| {
        let PlannedChange { what, before, after, .. } = change;
        if before.is_empty() {
            return format!("{what}: {after}");
        }
        format!("{what}: {before} to {after}")
    };
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let line = line(change);
        bytes += line.len();
        if lines.len() >= LINES_MAX || bytes > REVISION_BYTES_MAX / 2 {
            lines.push(format!("and {} more changes", changes.len() - lines.len()));
            break;
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_has_room() {
        let change = |what: &str| PlannedChange {
            what: what.into(),
            before: "1".into(),
            after: "2".into(),
            takes: "nothing".into(),
        };
        assert_eq!(lines(&[change("A of node 1")]), ["A of node 1: 1 to 2"]);
        let many: Vec<PlannedChange> = (0..50).map(|_| change("A of node 1")).collect();
        let told = lines(&many);
        assert_eq!((told.len(), told[20].as_str()), (21, "and 30 more changes"));
        let long = change(&"x".repeat(REVISION_BYTES_MAX));
        assert_eq!(lines(&[long]), ["and 1 more changes"]);
        assert_eq!(name_of(&Asker::Local, "root@h\n\u{1b}[0m"), "root@h[0m");
        assert_eq!(name_of(&Asker::Local, &"ü".repeat(200)).len(), NAME_MAX);
    }
}
