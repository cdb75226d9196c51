//! Nodes that end, or restart, and the wait until what was meant has come about.
//!
//! # Owns
//! The order in which nodes are restarted, what is waited for, and what is said meanwhile.
//! # Guarantees
//! 1. A rolling restart has one node away at a time. The next one is told only when the one before
//!    is back with all its rows, every node group is complete, and nothing of its former
//!    life is left.
//! 2. A wait that has taken too long ends with the name of the node and what to do. Nothing that
//!    comes after it is done.
//! # Failure
//! A management node that does not answer for a while is one that restarts: it is asked again.

use std::time::Duration;

use super::words::Whom;
use crate::role::request::AskError;
use crate::role::status::{ClusterStatus, NodeStatus, list};

/// The cluster as it is reached from here.
pub(super) trait Remote {
    fn status(&mut self) -> Result<ClusterStatus, AskError>;

    /// Tells a node to end.
    fn end(&mut self, node: u16, restart: bool, force: bool) -> Result<(), AskError>;

    /// The time since any moment.
    /// How far the copying of rows to a node is, in words.
    fn progress(&mut self, node: u16) -> Option<String>;

    fn now(&mut self) -> Duration;

    fn pause(&mut self, how_long: Duration);

    fn say(&mut self, line: &str);
}

/// `stop`.
pub(super) fn stop(cluster: &mut dyn Remote, whom: Whom, force: bool) -> Result<(), String> {
    let status = cluster.status().map_err(|error| error.to_string())?;
    if let Whom::Node(id) = whom {
        let node = find(&status, id)?.clone();
        cluster.end(id, false, force).map_err(|error| error.to_string())?;
        return wait_for_end(cluster, &node, "");
    }
    let nodes = |role: &str| -> Vec<NodeStatus> {
        let of_role = |node: &&NodeStatus| node.role == role && node.connected;
        status.nodes.iter().filter(of_role).cloned().collect()
    };
    if !status.on_disk && !force {
        return Err(
            "the rows are in memory only (Diskless=1), and lost when all data nodes end; use \
             --force if they may be"
                .into(),
        );
    }
    let data = nodes("data");
    for node in &data {
        cluster.end(node.node, false, true).map_err(|error| error.to_string())?;
    }
    for node in &data {
        wait_for_end(cluster, node, "")?;
    }
    if whom == Whom::Everything {
        // Whoever tells of the others goes last.
        let mut rest = nodes("management");
        rest.sort_by_key(|node| node.node == status.told_by);
        for node in rest {
            cluster.end(node.node, false, true).map_err(|error| error.to_string())?;
            wait_for_end(cluster, &node, "")?;
        }
    }
    Ok(())
}

/// `restart N`.
pub(super) fn restart(
    cluster: &mut dyn Remote,
    id: u16,
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    let status = cluster.status().map_err(|error| error.to_string())?;
    let node = find(&status, id)?.clone();
    if !node.connected {
        return Err(format!("node {id} is not connected: start it {}", where_it_runs(&node)));
    }
    Ok(restart_one(cluster, &node, "", force, patience)?)
}

/// `restart all --rolling`.
pub(super) fn roll(
    cluster: &mut dyn Remote,
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    roll_all(cluster, order, force, patience)
}

/// `upgrade`: management nodes first, as they hand to others what only a new program may know. SQL
/// nodes are the last.
pub(super) fn upgrade(
    cluster: &mut dyn Remote,
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    let management_first = |status: &ClusterStatus| {
        let mut order = order(status);
        order.sort_by_key(|node| match node.role.as_str() {
            "management" => 0,
            "data" => 1,
            _ => 2,
        });
        order
    };
    roll_all(cluster, management_first, force, patience)
}

/// Restarts all nodes, one after the other.
fn roll_all(
    cluster: &mut dyn Remote,
    order: impl Fn(&ClusterStatus) -> Vec<NodeStatus>,
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    let status = cluster.status().map_err(|error| error.to_string())?;
    let all: Vec<u16> = status.nodes.iter().map(|node| node.node).collect();
    roll_nodes(cluster, &status, &all, &[], order(&status), force, patience)
}

/// Restarts some of the nodes, one after the other, each when nothing is missing. Those that are
/// new need not be there.
pub(super) fn roll_some(
    cluster: &mut dyn Remote,
    which: &[u16],
    new: &[u16],
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    let status = cluster.status().map_err(|error| error.to_string())?;
    roll_nodes(cluster, &status, which, new, order(&status), force, patience)
}

/// Restarts nodes in an order, of which those are left out that are not meant or are new.
fn roll_nodes(
    cluster: &mut dyn Remote,
    status: &ClusterStatus,
    which: &[u16],
    new: &[u16],
    mut order: Vec<NodeStatus>,
    force: bool,
    patience: Duration,
) -> Result<(), String> {
    if let Some(why) = incomplete(status, new) {
        return Err(format!("no rolling restart now: {why}"));
    }
    // A data node in no node group has no rows and cannot leave: whoever runs it restarts it.
    let is_spare =
        |node: &NodeStatus| status.started && node.role == "data" && node.group.is_none();
    let meant = |node: &&NodeStatus| which.contains(&node.node) && !new.contains(&node.node);
    let spare = order.iter().filter(meant).filter(|node| is_spare(node) && node.connected);
    let mut by_hand: Vec<u16> = spare.map(|node| node.node).collect();
    order.retain(|node| !is_spare(node));
    let stops_all = order.iter().any(|node| node.role == "data" && which.contains(&node.node));
    if status.replicas < 2 && stops_all && !force {
        return Err(
            "no rolling restart: there is one copy of each row (NoOfReplicas=1), so that each \
             restart stops the cluster; use `stop all`, and start the nodes again"
                .into(),
        );
    }
    let began = cluster.now();
    order.retain(|node| which.contains(&node.node) && !new.contains(&node.node));
    let spares = by_hand.len();
    let ids: Vec<u16> = order.iter().map(|node| node.node).collect();
    if !ids.is_empty() {
        cluster.say(&format!("restarts {}, one after the other", list(&ids)));
    }
    for (at, node) in order.iter().enumerate() {
        let step = format!("[{}/{}] ", at + 1, order.len());
        if at > 0 {
            let status = wait_for_completeness(cluster, node, new, &step, patience)?;
            let now = find(&status, node.node)?;
            if now.incarnation > node.incarnation {
                cluster.say(&format!("{step}node {}: has been restarted meanwhile", node.node));
                continue;
            }
            if is_client(node) && !has_link(cluster, node)? {
                cluster.say(&format!("{step}node {}: is not connected", node.node));
                by_hand.push(node.node);
                continue;
            }
        }
        match restart_one(cluster, node, &step, force, patience) {
            // One with a program that knows no such order keeps nobody from the next step.
            Err(End::Refused(why)) if is_client(node) => {
                cluster.say(&format!("{step}{why}"));
                by_hand.push(node.node);
            }
            result => result?,
        }
    }
    let took = seconds(cluster.now().saturating_sub(began));
    let left = by_hand.len() - spares;
    if order.len() > left {
        let count = order.len() - left;
        cluster.say(&format!("{count} nodes have been restarted in {took}"));
    }
    if !by_hand.is_empty() {
        cluster.say(&format!("still to be restarted, where they run: {}", list(&by_hand)));
    }
    Ok(())
}

/// Data nodes, the one that drives epochs last; then management nodes, the one that tells last;
/// then SQL nodes that are connected.
fn order(status: &ClusterStatus) -> Vec<NodeStatus> {
    let told = |node: &&NodeStatus| !is_client(node) || node.connected;
    let mut order: Vec<NodeStatus> = status.nodes.iter().filter(told).cloned().collect();
    order.sort_by_key(|node| {
        let rank = match node.role.as_str() {
            "data" => 0,
            "management" => 1,
            _ => 2,
        };
        (rank, node.drives_epochs, node.node == status.told_by, node.node)
    });
    order
}

/// Whether it is an SQL node, or another one that only uses the cluster.
fn is_client(node: &NodeStatus) -> bool {
    node.port.is_none()
}

/// Whether an SQL node is linked to the management node that tells, which may have been restarted a
/// moment ago.
fn has_link(cluster: &mut dyn Remote, node: &NodeStatus) -> Result<bool, String> {
    let began = cluster.now();
    loop {
        if let Ok(status) = cluster.status()
            && find(&status, node.node)?.connected
        {
            return Ok(true);
        }
        if cluster.now().saturating_sub(began) > LINK_TIMEOUT {
            return Ok(false);
        }
        cluster.pause(POLL);
    }
}

/// Why a node has not been restarted.
#[derive(Debug)]
enum End {
    /// It was not told.
    Refused(String),
    /// It was told, and is not back.
    Lost(String),
}

impl From<End> for String {
    fn from(end: End) -> Self {
        match end {
            End::Refused(why) | End::Lost(why) => why,
        }
    }
}

/// Restarts a node and waits until it is back.
fn restart_one(
    cluster: &mut dyn Remote,
    node: &NodeStatus,
    step: &str,
    force: bool,
    patience: Duration,
) -> Result<(), End> {
    let (id, began) = (node.node, cluster.now());
    cluster.say(&format!("{step}node {id}: restarts ({})", node.role));
    cluster.end(id, true, force).map_err(|error| End::Refused(error.to_string()))?;
    let mut told = String::new();
    let mut told_at = began;
    let mut is_new = false;
    let mut good = 0;
    loop {
        let status = cluster.status();
        let since = cluster.now().saturating_sub(began);
        let mut word = "no management node answers".to_string();
        if let Ok(status) = &status {
            let now = find(status, id).map_err(End::Lost)?;
            is_new = now.incarnation > node.incarnation;
            word = match (is_new, now.connected) {
                (true, true) => now.status.clone(),
                (true, false) => "its new life is not connected".into(),
                (false, true) if now.role == "management" => "leaves the cluster".into(),
                (false, true) if is_client(now) => "lets its clients go".into(),
                (false, true) => "finishes its transactions".into(),
                (false, false) => "has ended, and starts again".into(),
            };
            let serves = now.status == "started" || is_client(now);
            if is_new && now.connected && serves && status.settling == 0 {
                let lacks = status.groups.iter().find(|group| {
                    group.nodes.contains(&id) && !group.complete.contains(&id) && status.started
                });
                match lacks {
                    Some(group) => word = format!("lacks rows of node group {}", group.group),
                    // Its vote counts a moment after it has its rows: until then the loss of
                    // another node might be one too many.
                    None if good < if is_client(node) { SERVING } else { STEADY } => {
                        word.clone_from(&told);
                        good += 1;
                    }
                    None => {
                        let took = seconds(since);
                        cluster.say(&format!("{step}node {id}: is back after {took}"));
                        return Ok(());
                    }
                }
            } else {
                good = 0;
            }
        }
        let is_long = cluster.now().saturating_sub(told_at) >= TELL_EVERY;
        if word != told {
            cluster.say(&format!("{step}node {id}: {word}"));
            (told, told_at) = (word, cluster.now());
        } else if is_long && let Some(progress) = cluster.progress(id) {
            cluster.say(&format!("{step}node {id}: {told}, {progress}"));
            told_at = cluster.now();
        }
        let drain = Duration::from_millis(node.drain);
        let limit = if is_new { patience } else { RETURN_TIMEOUT.min(patience) } + drain;
        if since > limit {
            return Err(End::Lost(not_back(node, is_new, &told, since)));
        }
        cluster.pause(POLL);
    }
}

/// What to do about a node that is not back in time.
fn not_back(node: &NodeStatus, is_new: bool, state: &str, since: Duration) -> String {
    let (id, took, place) = (node.node, seconds(since), where_it_runs(node));
    let remedy = if is_new {
        format!(
            "see its output {place}, and `events`; with --timeout it may take longer; nothing else \
             was restarted"
        )
    } else {
        format!("see its output {place}, and start it there; nothing else was restarted")
    };
    format!("node {id} is not back after {took} ({state}): {remedy}")
}

/// Waits until nothing is missing, before the next node goes.
fn wait_for_completeness(
    cluster: &mut dyn Remote,
    next: &NodeStatus,
    new: &[u16],
    step: &str,
    patience: Duration,
) -> Result<ClusterStatus, String> {
    let began = cluster.now();
    let mut told = None;
    let mut good = 0;
    loop {
        let why = match cluster.status() {
            Ok(status) => match incomplete(&status, new) {
                None if good >= STEADY => return Ok(status),
                None => {
                    good += 1;
                    None
                }
                Some(why) => Some(why),
            },
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            good = 0;
            if cluster.now().saturating_sub(began) > patience {
                return Err(format!(
                    "stops before node {}, after {}: {why}; see to it, then do the rolling restart \
                     again",
                    next.node,
                    seconds(patience)
                ));
            }
            if told.as_ref() != Some(&why) {
                cluster.say(&format!("{step}waits before node {}: {why}", next.node));
                told = Some(why);
            }
        }
        cluster.pause(POLL);
    }
}

/// Waits until a node that was told to end has done so.
fn wait_for_end(cluster: &mut dyn Remote, node: &NodeStatus, step: &str) -> Result<(), String> {
    let (id, began) = (node.node, cluster.now());
    if !node.connected {
        return Err(format!("node {id} is not connected"));
    }
    cluster.say(&format!("{step}node {id}: is told to end ({})", node.role));
    loop {
        let gone = match cluster.status() {
            Ok(status) => !find(&status, id)?.connected,
            // The only management node tells nothing once it has ended.
            Err(AskError::Unreachable(_)) => node.role == "management",
            Err(AskError::Refused(why)) => return Err(why),
        };
        let since = cluster.now().saturating_sub(began);
        if gone {
            cluster.say(&format!("{step}node {id}: has ended after {}", seconds(since)));
            return Ok(());
        }
        if since > END_TIMEOUT + Duration::from_millis(node.drain) {
            return Err(format!(
                "node {id} has not ended after {}: see its output {}; as a last resort kill its \
                 process",
                seconds(since),
                where_it_runs(node)
            ));
        }
        cluster.pause(POLL);
    }
}

/// Why a node must not go away now; those that are new have not to be there yet.
fn incomplete(status: &ClusterStatus, new: &[u16]) -> Option<String> {
    if !status.serves {
        return Some("the cluster does not serve".into());
    }
    let is_new = |node: &NodeStatus| new.contains(&node.node) && !node.connected;
    // A data node in no node group has nothing that others could lack.
    let is_needed = |node: &&NodeStatus| {
        let placed = node.role != "data" || node.group.is_some();
        node.port.is_some() && placed && !is_new(node)
    };
    let mut kernel = status.nodes.iter().filter(is_needed);
    if let Some(node) = kernel.find(|node| node.status != "started") {
        let remedy = if node.connected {
            String::new()
        } else {
            format!("; start it {}", where_it_runs(node))
        };
        return Some(format!("node {} is {}{remedy}", node.node, node.status));
    }
    if status.warnings.iter().any(|warning| warning.topic == "not-a-member") {
        return Some(format!("management node {} is not a member yet", status.told_by));
    }
    if let Some(group) = status.groups.iter().find(|group| group.copies < group.of) {
        let (number, copies, of) = (group.group, group.copies, group.of);
        return Some(format!("node group {number} has {copies} of {of} copies"));
    }
    (status.settling > 0).then(|| "transactions of a node that has ended are being settled".into())
}

fn find(status: &ClusterStatus, id: u16) -> Result<&NodeStatus, String> {
    let known = || {
        let ids: Vec<u16> = status.nodes.iter().map(|node| node.node).collect();
        format!("there is no node {id} in the configuration; there are {}", list(&ids))
    };
    status.node(id).ok_or_else(known)
}

fn where_it_runs(node: &NodeStatus) -> String {
    let host = node.host.as_deref().unwrap_or("localhost");
    format!("on host {host}")
}

fn seconds(time: Duration) -> String {
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

/// How often the cluster is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How often it is told how far something is that takes long.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// How often in a row it must be complete: votes follow the members after a moment.
const STEADY: u32 = 5;
/// How often in a row an SQL node must be connected: clients are let in a moment after that, and
/// load balancers have to notice.
const SERVING: u32 = 15;
/// How long an SQL node may take to be linked to a management node that was restarted.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a node may take to end, beside what it may take to let its clients go.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a node may take until its next life is connected.
const RETURN_TIMEOUT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests;
