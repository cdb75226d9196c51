//! What happens in a cluster, in plain words: lines of the cluster log.
//!
//! # Owns
//! [`Entry`], a line as it is kept and told; what a change of the cluster's state means
//! ([`of_change`]); what a link's fate means ([`of_link`]), and what nodes tell ([`of_node`]).
//! # Guarantees
//! Pure: the same change gives the same lines.
//! # Not here
//! When a line is written, and the reason of a loss: `cluster_log`.

use std::collections::{BTreeMap, BTreeSet};

use cluster_config::{ClusterConfig, NodeGroup};
use model::{ClusterState, Incarnation, Member, MemberStatus, NodeId, NodeRole};
use runtime::{Broken, LinkEvent};
use serde::{Deserialize, Serialize};
use stdx::Duration;
use wire::{News, NewsKind};

use super::status::{groups_of, list};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// A line of the cluster log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Ascending in a log.
    pub(crate) number: u64,
    /// In UTC, as RFC 3339 writes it.
    pub(crate) time: String,
    pub(crate) level: Level,
    /// The node that it is about.
    pub(crate) node: Option<u16>,
    /// What has happened, as a word that stays the same when the text changes.
    pub(crate) event: String,
    /// What has happened, for people.
    pub(crate) text: String,
}

/// The answer to a request for events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    /// The management node whose log it is.
    pub(crate) told_by: u16,
    /// The number of the newest line there.
    pub(crate) newest: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Entry {
    /// The line for people.
    pub(crate) fn line(&self) -> String {
        let time = self.time.replace('T', " ");
        let about = self.node.map(|node| format!("node {node}: ")).unwrap_or_default();
        let level = self.level.name();
        format!("{} {level:<7} {about}{}", time.trim_end_matches('Z'), self.text)
    }
}

/// A line before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) level: Level,
    pub(super) node: Option<NodeId>,
    pub(super) event: &'static str,
    /// With `{why}` in place of the reason, if there is one to come.
    pub(super) text: String,
    /// The life whose loss needs a reason.
    pub(super) lost: Option<(NodeId, Incarnation)>,
}

impl Draft {
    pub(super) fn new(
        level: Level,
        node: Option<NodeId>,
        event: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { level, node, event, text: text.into(), lost: None }
    }
}

/// What a change of the agreed state means.
pub(super) fn of_change(
    config: &ClusterConfig,
    before: &ClusterState,
    after: &ClusterState,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut add = |level, node, event, text: String| {
        drafts.push(Draft::new(level, node, event, text));
    };
    if after.restarts.len() > before.restarts.len() {
        let epoch = after.restarts.last().map_or(0, |epoch| epoch.0);
        let text =
            format!("the cluster is restarted with what is on its disks, up to epoch {epoch}");
        add(Level::Info, None, "cluster_restarting", text);
    }
    let nodes: BTreeSet<NodeId> =
        before.members.keys().chain(after.members.keys()).copied().collect();
    let after_groups = groups_of(config, after);
    for id in nodes {
        let (was, is) = (before.members.get(&id), after.members.get(&id));
        let same = was.zip(is).is_some_and(|(was, is)| was.incarnation == is.incarnation);
        if let Some(was) = was.filter(|_| !same) {
            drafts.push(gone(config, id, was, after));
        }
        if let Some(is) = is {
            let was = was.filter(|_| same).map(|was| was.status);
            let group = after_groups.iter().find(|group| group.nodes.contains(&id));
            drafts.extend(come(group, id, was, is));
        }
    }
    drafts.extend(groups(config, before, after));
    drafts.extend(of_whole(before, after));
    drafts
}

/// What a management node says that has just become a member.
pub(super) fn first_sight(own: NodeId, after: &ClusterState) -> Draft {
    let serving = after.data_members().filter(|(_, member)| member.status == MemberStatus::Active);
    let serving: Vec<u16> = serving.map(|(node, _)| node.0).collect();
    let text = if after.started && !serving.is_empty() {
        let list = list(&serving);
        format!("follows the cluster, which serves: {list} have all their rows")
    } else {
        "follows the cluster, which has not started yet".to_string()
    };
    Draft::new(Level::Info, Some(own), "cluster_seen", text)
}

/// A life has ended.
fn gone(config: &ClusterConfig, id: NodeId, was: &Member, after: &ClusterState) -> Draft {
    if was.status == MemberStatus::Leaving {
        let text = "has left the cluster in good order";
        return Draft::new(Level::Info, Some(id), "node_left", text);
    }
    let mut text = "lost: {why}".to_string();
    let groups = groups_of(config, after);
    let group = groups.iter().find(|group| group.nodes.contains(&id));
    if let Some(group) = group.filter(|_| after.started) {
        let (copies, of) = (copies_of(after, group.number), group.nodes.len());
        text += &format!("; node group {} has {copies} of {of} copies left", group.number);
    }
    let lost = Some((id, was.incarnation));
    Draft { lost, ..Draft::new(Level::Error, Some(id), "node_lost", text) }
}

/// A life has got further, or has begun.
fn come(
    group: Option<&NodeGroup>,
    id: NodeId,
    was: Option<MemberStatus>,
    is: &Member,
) -> Option<Draft> {
    if was == Some(is.status) {
        return None;
    }
    let group = group.map_or(0, |group| group.number);
    let management = is.role == NodeRole::Management;
    let (event, text) = match is.status {
        MemberStatus::Joining if management => ("node_joined", "has joined the cluster".into()),
        MemberStatus::Joining => {
            ("node_joined", "has joined the cluster; it has no rows to serve yet".into())
        }
        MemberStatus::Restoring => ("node_restoring", "reads its rows back from its disk".into()),
        MemberStatus::Syncing => {
            ("node_copying", format!("is given what it lacks of the rows of node group {group}"))
        }
        MemberStatus::Active if management => ("node_started", "has started".into()),
        MemberStatus::Active => {
            ("node_started", format!("has started, with all rows of node group {group}"))
        }
        MemberStatus::Leaving => {
            ("node_leaving", "wishes to leave, and finishes its transactions".into())
        }
    };
    Some(Draft::new(Level::Info, Some(id), event, text))
}

/// How node groups fare.
fn groups(config: &ClusterConfig, before: &ClusterState, after: &ClusterState) -> Vec<Draft> {
    let mut drafts = Vec::new();
    if !before.started || !after.started {
        return drafts;
    }
    let members = |nodes: &[NodeId]| list(&nodes.iter().map(|node| node.0).collect::<Vec<_>>());
    let (had, has) = (groups_of(config, before), groups_of(config, after));
    let known = |groups: &[NodeGroup], number| groups.iter().any(|group| group.number == number);
    for group in has.iter().filter(|group| !known(&had, group.number)) {
        let text = format!("node group {} is formed of {}", group.number, members(&group.nodes));
        drafts.push(Draft::new(Level::Info, None, "group_formed", text));
    }
    for group in had.iter().filter(|group| !known(&has, group.number)) {
        let text = format!("node group {} of {} is dropped", group.number, members(&group.nodes));
        drafts.push(Draft::new(Level::Info, None, "group_dropped", text));
    }
    for group in has.iter().filter(|group| known(&had, group.number)) {
        let number = group.number;
        match (before.is_open(number), after.is_open(number)) {
            (false, true) => {
                let text = format!("new tables use node group {number} from now on");
                drafts.push(Draft::new(Level::Info, None, "group_opened", text));
            }
            (true, false) => {
                let text = format!("node group {number} is drained: its tables are to be moved");
                drafts.push(Draft::new(Level::Info, None, "group_drained", text));
            }
            _ => {}
        }
        let of = group.nodes.len();
        let (was, is) = (copies_of(before, number), copies_of(after, number));
        if is == 1 && was > 1 {
            let text = format!("node group {number} has one copy of its rows left");
            drafts.push(Draft::new(Level::Warning, None, "group_one_copy", text));
        } else if is == of && was < of && (was > 0 || before.is_open(number)) {
            let text = format!("node group {number} has all its {of} copies again");
            drafts.push(Draft::new(Level::Info, None, "group_complete", text));
        }
        let held = before.held.is_some_and(|held| held.group == number);
        if held && after.held.is_none() && before.slots != after.slots {
            let nodes = members(&group.nodes);
            let text = format!("node group {number}: the primaries are spread over {nodes} again");
            drafts.push(Draft::new(Level::Info, None, "primaries_spread", text));
        } else if held && after.held.is_none() {
            let text = format!(
                "node group {number}: the primaries stay where they are, as a transaction stays \
                 open there; it is tried again"
            );
            drafts.push(Draft::new(Level::Info, None, "primaries_stay", text));
        }
    }
    drafts
}

/// The cluster as a whole: started, stopped, who drives epochs, what is settled.
fn of_whole(before: &ClusterState, after: &ClusterState) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for settled in &before.takeovers {
        if !after.takeovers.contains(settled) {
            let text = "the transactions of its former life are settled";
            drafts.push(Draft::new(Level::Info, Some(settled.node), "takeover_done", text));
        }
    }
    if after.started && !before.started {
        let copies = after.groups.iter().map(Vec::len).max().unwrap_or(0);
        let groups = match after.groups.len() {
            1 => "one node group".to_string(),
            several => format!("{several} node groups"),
        };
        let text = format!("the cluster has started: {groups} of {copies} copies");
        drafts.push(Draft::new(Level::Info, None, "cluster_started", text));
    }
    if after.stopped && !before.stopped {
        let empty = after.used_slots().find(|slot| slot.replicas.is_empty());
        let group = empty.map_or(0, |slot| slot.group);
        let text = format!("the cluster has stopped: node group {group} has no copy left");
        drafts.push(Draft::new(Level::Error, None, "cluster_stopped", text));
    }
    let driver = |state: &ClusterState| state.driver().filter(|_| state.started && !state.stopped);
    if let Some(driver) = driver(after).filter(|is| before.driver() != Some(*is) || !before.started)
    {
        let former = before.driver().filter(|was| before.started && *was != driver);
        let former = former.map(|was| format!(" in place of node {}", was.0));
        let text = format!("drives epochs now{}", former.unwrap_or_default());
        drafts.push(Draft::new(Level::Info, Some(driver), "epoch_driver", text));
    }
    drafts
}

/// Copies of the share of a node group that has the fewest.
fn copies_of(state: &ClusterState, group: u16) -> usize {
    let slots = state.slots.iter().filter(|slot| slot.group == group);
    let copies = slots.map(|slot| slot.replicas.iter().filter(|r| !r.syncing).count());
    copies.min().unwrap_or(0)
}

/// What a node has told of itself.
pub(super) fn of_node(about: NodeId, news: &News) -> Draft {
    let (level, event) = match news.kind {
        NewsKind::Damaged => (Level::Error, "disk_damaged"),
        NewsKind::WorkerSilent => (Level::Error, "worker_silent"),
        NewsKind::Harmless => (Level::Warning, "disk_damage_harmless"),
        NewsKind::Repaired => (Level::Info, "disk_repaired"),
        NewsKind::LossRefused => (Level::Error, "loss_refused"),
        NewsKind::LossAccepted => (Level::Warning, "loss_accepted"),
    };
    Draft::new(level, Some(about), event, news.text.clone())
}

/// What a link's fate means.
pub(super) fn of_link(event: &LinkEvent, roles: &BTreeMap<NodeId, String>) -> Draft {
    let name = |node: &NodeId| roles.get(node).map_or("", String::as_str);
    match event {
        LinkEvent::Up { node, sockets, transport, .. } => {
            let by = runtime::connections(*sockets, transport);
            let text = format!("{} node connected, {by}", name(node));
            Draft::new(Level::Info, Some(*node), "connected", text)
        }
        LinkEvent::NotShared { node, why } => {
            let text = format!("{} node: {}", name(node), runtime::no_memory(why));
            Draft::new(Level::Warning, Some(*node), "not_shared", text)
        }
        LinkEvent::Renewed { node, why, after, .. } => {
            let (name, after) = (name(node), after.as_millis());
            let text = format!("{name} node connected anew after {after} ms, nothing lost: {why}");
            Draft::new(Level::Info, Some(*node), "connected_anew", text)
        }
        LinkEvent::Down { node, closed, why, .. } => {
            let end = if *closed { "its process has ended" } else { "it may still live" };
            let text = format!("{} node disconnected, {why}; {end}", name(node));
            let level = if *closed { Level::Info } else { Level::Warning };
            Draft::new(level, Some(*node), "disconnected", text)
        }
        LinkEvent::Refused { node, why } => {
            Draft::new(Level::Warning, *node, "refused", why.clone())
        }
        LinkEvent::Credentials { what: Ok(what) } => {
            Draft::new(Level::Info, None, "certificate", what.clone())
        }
        LinkEvent::Credentials { what: Err(why) } => {
            let text = format!("it goes on with the certificate that it has: {why}");
            Draft::new(Level::Warning, None, "certificate_unusable", text)
        }
    }
}

/// Why a node was lost, by what became of the link to it.
pub(super) fn reason(closed: bool, why: Broken, silence: Duration) -> String {
    match why {
        _ if closed => "its process has ended".into(),
        Broken::Silent => format!("silent for {} ms", silence.as_nanos() / 1_000_000),
        Broken::Revoked => Broken::Revoked.to_string(),
        other => format!("{other}, and it was not reached again"),
    }
}

/// Why a node was lost that this node hears.
pub(super) const REASON_OF_OTHERS: &str =
    "removed by the other nodes, which lost their links to it; this node still hears it";

#[cfg(test)]
mod tests;
