//! What is different between two configurations, and what has to be restarted for it.
//!
//! # Guarantees
//! Values are compared as they take effect: writing a default down is no change.
//! # Not here
//! Carrying a change out: the management node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::NodeId;

use crate::cluster::{ClusterConfig, Node, Role, Settings};
use crate::ini::SectionKind;
use crate::parameter::{Kind, Parameter, Restart, Status, Unit};
use crate::value::Value;

/// What a parameter is set for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The cluster as a whole.
    Cluster,
    /// These nodes.
    Nodes(Vec<NodeId>),
    /// All links by TCP (false) or by shared memory (true) without settings of their own.
    Links(bool),
    /// The link between two nodes.
    Link(NodeId, NodeId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Cluster => f.write_str("the cluster"),
            Subject::Nodes(nodes) => {
                f.write_str(if nodes.len() == 1 { "node " } else { "nodes " })?;
                for (index, node) in nodes.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, node.0)?;
                }
                Ok(())
            }
            Subject::Links(shared_memory) => {
                write!(f, "links by {}", if *shared_memory { "shared memory" } else { "TCP" })
            }
            Subject::Link(one, other) => write!(f, "the link between {} and {}", one.0, other.0),
        }
    }
}

/// A parameter with another value than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The parameter.
    pub parameter: &'static str,
    /// What it is set for.
    pub subject: Subject,
    /// The value before; none where it follows something else.
    pub before: Option<String>,
    /// The value now.
    pub after: Option<String>,
    /// What has to be restarted.
    pub restart: Restart,
}

/// A node that is in one configuration only, or has another role in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node.
    pub id: NodeId,
    /// Its role.
    pub role: Role,
    /// What has to be restarted.
    pub restart: Restart,
}

/// All that is different between two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Nodes that are new.
    pub added: Vec<NodeChange>,
    /// Nodes that are gone.
    pub removed: Vec<NodeChange>,
    /// Parameters with other values, by subject and name.
    pub changes: Vec<Change>,
}

impl Comparison {
    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changes.is_empty()
    }

    /// The most that has to be restarted.
    pub fn restart(&self) -> Restart {
        let nodes = self.added.iter().chain(&self.removed).map(|change| change.restart);
        let changes = self.changes.iter().map(|change| change.restart);
        nodes.chain(changes).max().unwrap_or(Restart::Online)
    }
}

impl ClusterConfig {
    /// What is different in this configuration from an earlier one.
    pub fn compare(&self, before: &ClusterConfig) -> Comparison {
        let mut comparison = Comparison {
            added: only_in(self, before, restart_for_new),
            removed: only_in(before, self, restart_without),
            changes: Vec::new(),
        };
        let changes = &mut comparison.changes;
        let cluster = differences(SectionKind::Cluster, &before.settings, &self.settings);
        changes.extend(cluster.into_iter().map(|change| change.of(Subject::Cluster)));
        changes.extend(of_nodes(before, self));
        for shared_memory in [false, true] {
            let kind = link_kind(shared_memory);
            let (old, new) =
                (before.link_defaults(shared_memory), self.link_defaults(shared_memory));
            let links = differences(kind, old, new);
            changes.extend(links.into_iter().map(|c| c.of(Subject::Links(shared_memory))));
        }
        changes.extend(of_links(before, self));
        changes.sort_by(|a, b| (&a.subject, a.parameter).cmp(&(&b.subject, b.parameter)));
        comparison
    }
}

/// A difference before it is known whose it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    parameter: &'static str,
    before: Option<String>,
    after: Option<String>,
    restart: Restart,
}

impl Difference {
    fn of(self, subject: Subject) -> Change {
        let Difference { parameter, before, after, restart } = self;
        Change { parameter, subject, before, after, restart }
    }
}

fn differences(kind: SectionKind, before: &Settings, after: &Settings) -> Vec<Difference> {
    let names: BTreeSet<&'static str> =
        before.iter().chain(after.iter()).map(|(name, _)| name).collect();
    let mut found = Vec::new();
    for name in names {
        let (old, new) = (before.value(kind, name), after.value(kind, name));
        let Some(parameter) = Parameter::find(name, kind).filter(|_| old != new) else { continue };
        let unit = match parameter.kind {
            Kind::Number { unit, .. } => unit,
            _ => Unit::Count,
        };
        let readable = |value: Option<Value>| value.map(|value| value.readable(unit));
        let restart = match parameter.status {
            Status::Meaningless(_) => Restart::Online,
            Status::Honoured | Status::Later => parameter.restart,
        };
        let (before, after) = (readable(old), readable(new));
        found.push(Difference { parameter: name, before, after, restart });
    }
    found
}

/// Changes of nodes that are in both; the same change of several nodes is one.
fn of_nodes(before: &ClusterConfig, after: &ClusterConfig) -> Vec<Change> {
    let mut nodes: BTreeMap<Difference, Vec<NodeId>> = BTreeMap::new();
    for node in &after.nodes {
        let Some(old) = before.node(node.id).filter(|old| old.role == node.role) else { continue };
        for difference in differences(node.role.section(), &old.settings, &node.settings) {
            nodes.entry(difference).or_default().push(node.id);
        }
    }
    nodes.into_iter().map(|(difference, ids)| difference.of(Subject::Nodes(ids))).collect()
}

/// Changes of links that have settings of their own in one of the two.
fn of_links(before: &ClusterConfig, after: &ClusterConfig) -> Vec<Change> {
    let ends = before.links.iter().chain(&after.links).map(|link| link.ends);
    let ends: BTreeSet<(NodeId, NodeId)> = ends.collect();
    let mut changes = Vec::new();
    for ends in ends {
        let find = |config: &ClusterConfig| {
            let link = config.links.iter().find(|link| link.ends == ends);
            link.map(|link| (link.shared_memory, link.settings.clone()))
        };
        let (old, new) = (find(before), find(after));
        let kind = new.as_ref().or(old.as_ref()).is_some_and(|(shared_memory, _)| *shared_memory);
        let settings = |link: Option<(bool, Settings)>, config: &ClusterConfig| {
            link.map_or_else(|| config.link_defaults(kind).clone(), |(_, settings)| settings)
        };
        let (old, new) = (settings(old, before), settings(new, after));
        let subject = Subject::Link(ends.0, ends.1);
        let found = differences(link_kind(kind), &old, &new);
        changes.extend(found.into_iter().map(|difference| difference.of(subject.clone())));
    }
    changes
}

/// The nodes of one configuration that the other has not, or has in another role.
fn only_in(
    one: &ClusterConfig,
    other: &ClusterConfig,
    restart: impl Fn(Role, bool) -> Restart,
) -> Vec<NodeChange> {
    let spare = one.spare_node_ids();
    let missing = |node: &&Node| other.node(node.id).is_none_or(|same| same.role != node.role);
    let nodes = one.nodes.iter().filter(missing);
    nodes
        .map(|node| {
            let restart = restart(node.role, spare.contains(&node.id));
            NodeChange { id: node.id, role: node.role, restart }
        })
        .collect()
}

/// What a node that comes asks of the others. A data node is spare when it is in no node group.
const fn restart_for_new(role: Role, is_spare: bool) -> Restart {
    match (role, is_spare) {
        // Node groups are formed when the cluster is founded.
        (Role::Data, false) => Restart::InitialSystem,
        // Every node keeps the list of those that it links to from its start on.
        _ => Restart::Node,
    }
}

/// What a node that goes asks of the others.
const fn restart_without(role: Role, is_spare: bool) -> Restart {
    match (role, is_spare) {
        (Role::Data, false) => Restart::InitialSystem,
        // It may vote.
        (Role::Management, _) => Restart::Node,
        // The others forget it when they are restarted.
        (Role::Sql | Role::Api | Role::Data, _) => Restart::Online,
    }
}

const fn link_kind(shared_memory: bool) -> SectionKind {
    if shared_memory { SectionKind::SharedMemory } else { SectionKind::Tcp }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[mgm]\nNodeId=49\n[ndbd default]\n#D\n[ndbd]\n#1\n[ndbd]\n[api]\n#A\n";

    fn config(text: &str) -> ClusterConfig {
        let parsed = ClusterConfig::parse(text.as_bytes());
        parsed.unwrap_or_else(|problems| panic!("{problems:?}")).config
    }

    fn compared(old: &str, new: &str) -> Vec<String> {
        let comparison = config(new).compare(&config(old));
        let node = |sign, change: &NodeChange| {
            format!("{sign} {} {}: {}", change.role, change.id.0, change.restart)
        };
        let mut lines: Vec<_> = comparison.added.iter().map(|c| node("+", c)).collect();
        lines.extend(comparison.removed.iter().map(|c| node("-", c)));
        lines.extend(comparison.changes.iter().map(|change| {
            let Change { parameter, subject, before, after, restart } = change;
            let value = |value: &Option<String>| value.clone().unwrap_or("?".into());
            format!("{subject}: {parameter} {} -> {}: {restart}", value(before), value(after))
        }));
        lines
    }

    #[test]
    fn nothing_has_changed() {
        // Defaults that are written down, other spellings, and lines in another order.
        let same = BASE
            .replace("#D", "NoOfReplicas=2\nfragmentlogfilesize=16384K")
            .replace("#A", "BatchSize=256");
        assert!(config(&same).compare(&config(BASE)).is_empty());
        assert_eq!(config(&same).compare(&config(BASE)).restart(), Restart::Online);
    }

    #[test]
    fn parameters() {
        let new = BASE
            .replace("#D", "DataMemory=2G\nTimeBetweenEpochs=50\nMaxNoOfTables=200")
            .replace("#1", "NumCPUs=4")
            .replace("#A", "HostName=h\n[tcp default]\nSendBufferMemory=4M\n[cluster]\nName=x");
        let expected = [
            "the cluster: ClusterName nines -> x: system",
            "node 1: NumCPUs ? -> 4: initial system",
            "nodes 1, 2: DataMemory ? -> 2G: node",
            "nodes 1, 2: MaxNoOfTables 128 -> 200: online",
            "nodes 1, 2: TimeBetweenEpochs 20 ms -> 50 ms: node",
            "node 151: HostName ? -> h: node",
            "links by TCP: SendBufferMemory 256M -> 4M: node",
        ];
        assert_eq!(compared(BASE, &new), expected);
        let back = "nodes 1, 2: DataMemory 2G -> ?: node";
        assert!(compared(&new, BASE).iter().any(|line| line == back));
        assert_eq!(config(&new).compare(&config(BASE)).restart(), Restart::InitialSystem);
    }

    #[test]
    fn links_of_their_own() {
        let link = |settings: &str| format!("{BASE}[tcp]\nNodeId1=1\nNodeId2=2\n{settings}\n");
        let line = "the link between 1 and 2: SendBufferMemory 256M -> 8M: node";
        assert_eq!(compared(&link(""), &link("SendBufferMemory=8M")), [line]);
        assert_eq!(compared(BASE, &link("SendBufferMemory=8M")), [line]);
        assert_eq!(compared(BASE, &link("")), Vec::<String>::new());
    }

    #[test]
    fn nodes_come_and_go() {
        let new = format!(
            "{}[mgm]\nNodeId=50\nPortNumber=1187\n[ndbd]\n[ndbd]\n",
            BASE.replace("[api]", "[mgm]\nPortNumber=1188")
        );
        let expected = [
            "+ data 3: initial system",
            "+ data 4: initial system",
            "+ management 50: node",
            "+ management 145: node",
            "- api 151: online",
        ];
        assert_eq!(compared(BASE, &new), expected);
    }

    #[test]
    fn data_and_management_nodes_are_restarted_before_a_new_client_or_spare_node_can_link() {
        let role = BASE.replace("[api]", "[mysqld]");
        assert_eq!(compared(BASE, &role), ["+ sql 151: node", "- api 151: online"]);
        let more = format!("{BASE}[mysqld]\n[api]\n");
        assert_eq!(compared(BASE, &more), ["+ sql 152: node", "+ api 153: node"]);
        assert_eq!(compared(&more, BASE), ["- sql 152: online", "- api 153: online"]);
        let spare = format!("{BASE}[ndbd]\nNodeGroup=65536\n[ndbd]\nNodeGroup=65536\n");
        assert_eq!(compared(BASE, &spare), ["+ data 3: node", "+ data 4: node"]);
        assert_eq!(compared(&spare, BASE), ["- data 3: online", "- data 4: online"]);
    }
}
