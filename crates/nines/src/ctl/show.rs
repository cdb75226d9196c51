//! What management nodes tell of the cluster, as text.
//!
//! # Guarantees
//! Pure: the same answer gives the same text.

use super::table::Table;
use crate::role::request::NodeVersion;
use crate::role::status::{ClusterStatus, GroupStatus, NodeStatus, list};
use crate::role::survivability::Survivability;

/// `show`.
pub(super) fn show(status: &ClusterStatus) -> String {
    let state = match (status.stopped, status.started, status.serves) {
        (true, ..) => "has stopped",
        (false, false, _) => "has not started",
        (false, true, true) => "is serving",
        (false, true, false) => "does not serve",
    };
    let mut text = format!(
        "Cluster {} {state}; {} copies of each row; told by management node {}{}\n",
        status.name,
        status.replicas,
        status.told_by,
        if status.one_process { "; all nodes are one process (nines dev)" } else { "" }
    );
    text += "\nData nodes\n";
    let mut table =
        Table::new(&["id", "host", "state", "group", "primary of", "workers", ""], &[0, 3, 5]);
    for node in status.nodes.iter().filter(|node| node.role == "data") {
        table.row([
            node.node.to_string(),
            place(node),
            node.status.clone(),
            node.group.map_or(String::new(), |group| group.to_string()),
            share(node, status),
            node.workers.map_or(String::new(), |workers| workers.to_string()),
            if node.drives_epochs { "drives epochs".into() } else { String::new() },
        ]);
    }
    text += &table.text(2);
    for (title, roles) in [("Management nodes", ["management", ""]), ("SQL nodes", ["sql", "api"])]
    {
        let nodes: Vec<&NodeStatus> =
            status.nodes.iter().filter(|node| roles.contains(&node.role.as_str())).collect();
        if nodes.is_empty() {
            continue;
        }
        text += &format!("\n{title}\n");
        let mut table = Table::new(&["id", "host", "state"], &[0]);
        for node in nodes {
            table.row([node.node.to_string(), place(node), node.status.clone()]);
        }
        text += &table.text(2);
    }
    if !status.warnings.is_empty() {
        text += "\nWarnings\n";
        for warning in &status.warnings {
            text += &format!("  {}\n", warning.text);
        }
    }
    text
}

fn place(node: &NodeStatus) -> String {
    match (&node.host, node.port) {
        (Some(host), Some(port)) if host.contains(':') => format!("[{host}]:{port}"),
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.clone(),
        (None, _) => "any".into(),
    }
}

/// The share of the node group's rows that the node is the primary of.
fn share(node: &NodeStatus, status: &ClusterStatus) -> String {
    let shares = status.shares_of_group(node);
    match (node.primary_of * 100).checked_div(shares) {
        Some(percent) => format!("{percent} % of its group"),
        None => String::new(),
    }
}

/// `status`.
pub(super) fn states(nodes: &[&NodeStatus]) -> String {
    nodes
        .iter()
        .map(|node| format!("node {}: {} ({})\n", node.node, node.status, node.role))
        .collect()
}

/// `groups`.
pub(super) fn groups(groups: &[GroupStatus]) -> String {
    let head = ["group", "nodes", "copies", "with all rows", "being given rows"];
    let mut table = Table::new(&head, &[0]);
    let ids = |nodes: &[u16]| match nodes {
        [] => "none".to_string(),
        _ => nodes.iter().map(u16::to_string).collect::<Vec<String>>().join(", "),
    };
    for group in groups {
        table.row([
            group.group.to_string(),
            ids(&group.nodes),
            format!("{} of {}", group.copies, group.of),
            ids(&group.complete),
            ids(&group.copying),
        ]);
    }
    table.text(0)
}

/// `survivability`.
pub(super) fn survivability(told: &Survivability) -> String {
    let mut text = String::new();
    if !told.missing.is_empty() {
        text += &format!("Missing already: {}\n", list(&told.missing));
    }
    if !told.serves {
        text += &format!("The cluster does not serve now: {}\n", told.why_not);
        return text;
    }
    let tie_breaker = told.tie_breaker.map_or(String::new(), |id| format!(" ({id} breaks ties)"));
    text += &format!(
        "Votes: {}{tie_breaker}; {} of {} must outlive a loss\n\n",
        list(&told.voters),
        told.majority,
        told.voters.len()
    );
    let mut table = Table::new(&["at the loss of", "the cluster", "because"], &[]);
    for loss in &told.losses {
        let outcome = if loss.survives { "goes on" } else { "STOPS" };
        table.row([loss.what.clone(), outcome.into(), loss.why.clone()]);
    }
    text += &table.text(0);
    text
}

/// `version`.
pub(super) fn versions(nodes: &[NodeVersion]) -> String {
    let mut table = Table::new(&["node", "role", "version"], &[0]);
    for node in nodes {
        let version = node.version.clone().unwrap_or_else(|| "not told".into());
        table.row([node.node.to_string(), node.role.clone(), version]);
    }
    format!("nines ctl {}\n\n{}", env!("CARGO_PKG_VERSION"), table.text(0))
}

#[cfg(test)]
mod tests;
