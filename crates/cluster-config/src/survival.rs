//! Which losses a cluster survives, by the survival rules and the votes of its members.
//!
//! # Owns
//! What `COMPAT.md` calls the survival rules, applied to a configuration whose nodes all live.
//! # Invariants
//! 1. Nothing is promised that the consensus would not give: at a loss of several nodes at one
//!    moment, a majority of the voters that were must be left.
//! # Not here
//! What has really failed: the control plane knows.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::cluster::{ClusterConfig, Node, Role};
use crate::host;

/// What becomes of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    GoesOn,
    /// It stops: this node group has no replica left.
    NoReplica(u16),
    /// It stops: what is left cannot know that nobody else goes on.
    NoMajority {
        /// Votes that are left.
        left: usize,
        /// Votes that there were.
        of: usize,
    },
}

impl Outcome {
    /// Whether the cluster goes on.
    pub fn goes_on(&self) -> bool {
        *self == Outcome::GoesOn
    }

    /// Why it stops, as half a sentence; empty where it goes on.
    pub fn reason(&self) -> String {
        match self {
            Outcome::GoesOn => String::new(),
            Outcome::NoReplica(group) => format!("node group {group} has no replica left"),
            Outcome::NoMajority { left, of } => {
                format!("{left} of {of} votes are left, which is no majority")
            }
        }
    }
}

/// A loss and what becomes of the cluster then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is lost, in words.
    pub what: String,
    /// The nodes that are lost; in the worst case, where there are several.
    pub nodes: Vec<NodeId>,
    /// What becomes of the cluster.
    pub outcome: Outcome,
}

impl ClusterConfig {
    /// The members that vote while all live: all data nodes, and one management node when these
    /// are even in number.
    pub fn voters(&self) -> BTreeSet<NodeId> {
        self.voters_among(&BTreeSet::new())
    }

    /// The management node whose vote breaks ties while all live.
    pub fn tie_breaker(&self) -> Option<NodeId> {
        self.voters()
            .into_iter()
            .find(|id| self.node(*id).is_some_and(|node| node.role == Role::Management))
    }

    /// What becomes of the cluster when these nodes are lost at one moment.
    pub fn after_loss(&self, lost: &BTreeSet<NodeId>) -> Outcome {
        self.outcome(&self.voters(), lost)
    }

    /// What becomes of the cluster when these nodes are lost after others have been for a while.
    pub fn after_losses(&self, before: &BTreeSet<NodeId>, then: &BTreeSet<NodeId>) -> Outcome {
        match self.after_loss(before) {
            Outcome::GoesOn => {
                let lost = before.union(then).copied().collect();
                self.outcome(&self.voters_among(before), &lost)
            }
            stopped => stopped,
        }
    }

    fn outcome(&self, voters: &BTreeSet<NodeId>, lost: &BTreeSet<NodeId>) -> Outcome {
        for group in self.groups() {
            if group.nodes.iter().all(|node| lost.contains(node)) {
                return Outcome::NoReplica(group.number);
            }
        }
        let left = voters.difference(lost).count();
        if 2 * left > voters.len() {
            Outcome::GoesOn
        } else {
            Outcome::NoMajority { left, of: voters.len() }
        }
    }

    /// Who votes after some have been lost for a while.
    fn voters_among(&self, lost: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let living =
            |role: Role| self.nodes_of(role).map(|node| node.id).filter(|id| !lost.contains(id));
        let mut voters: BTreeSet<NodeId> = living(Role::Data).collect();
        if voters.len().is_multiple_of(2) {
            voters.extend(living(Role::Management).next());
        }
        voters
    }

    /// The hosts of data and management nodes, with the nodes there.
    pub fn hosts(&self) -> BTreeMap<String, Vec<&Node>> {
        let mut hosts: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
        for node in self.nodes() {
            if let Some(name) = node.host().filter(|_| !node.role.is_client()) {
                hosts.entry(host::canonical(name)).or_default().push(node);
            }
        }
        hosts
    }

    /// The losses that are worth knowing about, the likeliest first.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let data: Vec<NodeId> = self.nodes_of(Role::Data).map(|node| node.id).collect();
        losses.push(self.worst("any one data node", data.iter().map(|id| vec![*id])));
        for (host, nodes) in self.hosts() {
            let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
            let what = format!("host {host} ({})", numbers(&ids));
            losses.push(self.worst(&what, [ids]));
        }
        let management: Vec<NodeId> = self.nodes_of(Role::Management).map(|node| node.id).collect();
        let what = if management.len() == 1 {
            "the management node"
        } else {
            "all management nodes at once"
        };
        losses.push(self.worst(what, [management.clone()]));
        if let Some(tie_breaker) = self.tie_breaker() {
            let what = format!("the tie-breaker (node {}) and a data node at once", tie_breaker.0);
            losses.push(self.worst(&what, data.iter().map(|id| vec![tie_breaker, *id])));
            let before: BTreeSet<NodeId> = management.iter().copied().collect();
            let then = data.first().into_iter().copied().collect();
            losses.push(Loss {
                what: "all management nodes, and a data node some time later".to_string(),
                nodes: before.union(&then).copied().collect(),
                outcome: self.after_losses(&before, &then),
            });
        }
        if self.groups().len() > 1 {
            let one_each = self.groups().iter().filter_map(|group| group.nodes.first().copied());
            losses
                .push(self.worst("one data node of each node group at once", [one_each.collect()]));
        }
        if self.replicas() > 2 {
            let pairs = self.groups().iter().map(|group| group.nodes[..2].to_vec());
            losses.push(self.worst("any two data nodes of a node group at once", pairs));
        }
        losses
    }

    /// The worst of several losses under one name.
    fn worst(&self, what: &str, losses: impl IntoIterator<Item = Vec<NodeId>>) -> Loss {
        let mut worst = Loss { what: what.into(), nodes: Vec::new(), outcome: Outcome::GoesOn };
        for nodes in losses {
            let outcome = self.after_loss(&nodes.iter().copied().collect());
            if worst.nodes.is_empty() || !outcome.goes_on() {
                let stops = !outcome.goes_on();
                worst = Loss { nodes, outcome, ..worst };
                if stops {
                    break;
                }
            }
        }
        worst
    }
}

/// Node ids for people: `node 1`, `nodes 1, 2`.
pub(crate) fn numbers(ids: &[NodeId]) -> String {
    let list: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    format!("{} {}", if ids.len() == 1 { "node" } else { "nodes" }, list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ClusterConfig {
        let parsed = ClusterConfig::parse(text.as_bytes());
        parsed.unwrap_or_else(|problems| panic!("{problems:?}")).config
    }

    /// Data nodes and a management node, with their hosts.
    fn cluster(replicas: u8, data: &[&str], management: &[&str]) -> ClusterConfig {
        let node = |role: &str, id: usize, host: &str| {
            format!("[{role}]\nNodeId={id}\nHostName={host}\nPortNumber={}\n", 2_000 + id)
        };
        let mut text = format!("[ndbd default]\nNoOfReplicas={replicas}\n");
        for (index, host) in data.iter().enumerate() {
            text += &node("ndbd", index + 1, host).replace("PortNumber", "ServerPort");
        }
        for (index, host) in management.iter().enumerate() {
            text += &node("mgm", index + 49, host);
        }
        config(&text)
    }

    fn outcome(config: &ClusterConfig, lost: &[u16]) -> Outcome {
        config.after_loss(&lost.iter().map(|id| NodeId(*id)).collect())
    }

    #[test]
    fn two_replicas_and_a_tie_breaker() {
        let config = cluster(2, &["a", "b"], &["c"]);
        assert_eq!(config.tie_breaker(), Some(NodeId(49)));
        assert_eq!(outcome(&config, &[1]), Outcome::GoesOn);
        assert_eq!(outcome(&config, &[49]), Outcome::GoesOn);
        assert_eq!(outcome(&config, &[1, 2]), Outcome::NoReplica(0));
        assert_eq!(outcome(&config, &[1, 49]), Outcome::NoMajority { left: 1, of: 3 });
        // Once the management node has been gone for a while, nobody breaks the tie.
        let later = config.after_losses(&[NodeId(49)].into(), &[NodeId(1)].into());
        assert_eq!(later, Outcome::NoMajority { left: 1, of: 2 });
        // One after the other leaves one data node, which votes alone.
        let other = config.after_losses(&[NodeId(1)].into(), &[NodeId(49)].into());
        assert_eq!(other, Outcome::GoesOn);
    }

    #[test]
    fn three_replicas_need_no_tie_breaker() {
        let config = cluster(3, &["a", "b", "c"], &["a"]);
        assert_eq!(config.tie_breaker(), None);
        assert_eq!(outcome(&config, &[1, 49]), Outcome::GoesOn);
        assert_eq!(outcome(&config, &[1, 2]), Outcome::NoMajority { left: 1, of: 3 });
    }

    #[test]
    fn two_groups() {
        let config = cluster(2, &["a", "b", "a", "b"], &["c"]);
        assert_eq!(outcome(&config, &[1, 3]), Outcome::GoesOn);
        assert_eq!(outcome(&config, &[1, 3, 49]), Outcome::NoMajority { left: 2, of: 5 });
        assert_eq!(outcome(&config, &[3, 4]), Outcome::NoReplica(1));
    }

    #[test]
    fn the_list_of_losses() {
        let lines = |config: &ClusterConfig| -> Vec<String> {
            let line = |loss: &Loss| format!("{}: {}", loss.what, loss.outcome.reason());
            config.losses().iter().map(line).collect()
        };
        let expected = [
            "any one data node: ",
            "host a (nodes 1, 49): 1 of 3 votes are left, which is no majority",
            "host b (node 2): ",
            "the management node: ",
            "the tie-breaker (node 49) and a data node at once: 1 of 3 votes are left, which is no \
             majority",
            "all management nodes, and a data node some time later: 1 of 2 votes are left, which \
             is no majority",
        ];
        assert_eq!(lines(&cluster(2, &["a", "b"], &["a"])), expected);
        let one = lines(&cluster(1, &["a"], &["b"]));
        assert_eq!(one[0], "any one data node: node group 0 has no replica left");
        let four = lines(&cluster(4, &["a", "b", "c", "d"], &["e", "f"]));
        assert!(four.contains(&"any two data nodes of a node group at once: ".to_string()));
        assert!(four.contains(&"all management nodes at once: ".to_string()));
    }
}
