//! Links between two other nodes that are down although both live, as their ends tell it.
//!
//! A management node sees its own links alone, and the cluster agrees on those between data nodes
//! alone, of which one has to go. An SQL node that has lost one data node of many goes on with the
//! others, and nobody but itself knows.
//!
//! # Owns
//! What the ends told at the last look ([`LostLinks`]); the words for that.
//! # Guarantees
//! 1. A link counts as lost when it was down in two looks in a row: one that is being made is not.
//! 2. Only of nodes that answer: who does not is missed by others.
//! # Not here
//! Asking (`operator`), when that is done (`management`).

use std::collections::{BTreeMap, BTreeSet};

use actor::Metric;
use cluster_config::{ClusterConfig, Node};
use model::NodeId;

use super::news::{Draft, Level};
use super::request::Sight;
use super::status::{Warning, list};

/// Two nodes, the smaller id first.
type Pair = (u16, u16);

/// The lost links between nodes that live.
#[derive(Debug, Default)]
pub(super) struct LostLinks {
    /// Which of the ends say so, as of the last look.
    down: BTreeMap<Pair, BTreeSet<u16>>,
    /// Those that were down in the look before, too.
    lost: BTreeSet<Pair>,
}

impl LostLinks {
    /// Takes in what nodes have told; what is new of it, as lines of the cluster log.
    pub(super) fn look(&mut self, config: &ClusterConfig, sight: &Sight) -> Vec<Draft> {
        let down = down(config, sight);
        let lost: BTreeSet<Pair> =
            down.keys().filter(|pair| self.down.contains_key(pair)).copied().collect();
        self.down = down;
        let before = std::mem::replace(&mut self.lost, lost);
        let mut drafts = Vec::new();
        for pair in self.lost.difference(&before) {
            let (node, text) = (Some(NodeId(pair.0)), self.text(config, *pair));
            drafts.push(Draft::new(Level::Warning, node, "link_lost", text));
        }
        for pair in before.difference(&self.lost) {
            let text = match ends(config, *pair) {
                Some((one, other)) if answer(sight, *pair) => {
                    format!("the link between {} and {} is there again", name(one), name(other))
                }
                _ => continue,
            };
            drafts.push(Draft::new(Level::Info, Some(NodeId(pair.0)), "link_back", text));
        }
        drafts
    }

    /// What an operator should know.
    pub(super) fn warnings(&self, config: &ClusterConfig) -> Vec<Warning> {
        let warning = |pair: &Pair| Warning {
            topic: "link-lost".into(),
            nodes: vec![pair.0, pair.1],
            text: self.text(config, *pair),
        };
        self.lost.iter().map(warning).collect()
    }

    fn text(&self, config: &ClusterConfig, pair: Pair) -> String {
        let Some((one, other)) = ends(config, pair) else { return String::new() };
        let told: Vec<u16> = self.down.get(&pair).into_iter().flatten().copied().collect();
        let who = match told[..] {
            [_, _] => "both say so".to_string(),
            _ => format!("{} says so, and the other has not noticed", list(&told)),
        };
        let hosts = match (one.host(), other.host()) {
            (Some(one), Some(other)) if one != other => {
                format!(": see to the network between the hosts {one} and {other}")
            }
            _ => String::new(),
        };
        format!(
            "the link between {} and {} is down, and both live ({who}){hosts}",
            name(one),
            name(other)
        )
    }
}

/// Whether both ends have told something.
fn answer(sight: &Sight, pair: Pair) -> bool {
    let told = |node| sight.workers.iter().any(|worker| worker.node == node);
    told(pair.0) && told(pair.1)
}

/// `data node 3`.
fn name(node: &Node) -> String {
    format!("{} node {}", node.role, node.id.0)
}

fn ends(config: &ClusterConfig, pair: Pair) -> Option<(&Node, &Node)> {
    config.node(NodeId(pair.0)).zip(config.node(NodeId(pair.1)))
}

/// The links between two that have both answered which at least one of them has not.
fn down(config: &ClusterConfig, sight: &Sight) -> BTreeMap<Pair, BTreeSet<u16>> {
    let answered: BTreeSet<u16> = sight.workers.iter().map(|worker| worker.node).collect();
    let mut down: BTreeMap<Pair, BTreeSet<u16>> = BTreeMap::new();
    for worker in &sight.workers {
        for peer in worker.rows.iter().filter_map(|row| not_up(row)) {
            let node = worker.node;
            let pair = (node.min(peer), node.max(peer));
            // Two that hold nothing have nothing to say to each other.
            let linked = ends(config, pair)
                .is_some_and(|(one, other)| !(one.role.is_client() && other.role.is_client()));
            if linked && answered.contains(&peer) {
                down.entry(pair).or_default().insert(node);
            }
        }
    }
    down
}

/// The peer of a figure that says that there is no link to it.
fn not_up(row: &[serde_json::Value]) -> Option<u16> {
    let [name, labels, number] = row else { return None };
    let is_down = name.as_str() == Some(Metric::LinkUp.name()) && number.as_u64() == Some(0);
    let (_, peer) = labels.as_str().filter(|_| is_down)?.rsplit_once(',')?;
    peer.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::fixture::config;
    use crate::role::request::WorkerSight;

    /// Nodes that answer, each with the peers to which it has no link.
    fn sight(nodes: &[(u16, &[u16])]) -> Sight {
        let row = |node: u16, peer: u16, up: u64| {
            vec![Metric::LinkUp.name().into(), format!("{node},{peer}").into(), up.into()]
        };
        let worker = |(node, down): &(u16, &[u16])| {
            let peers = [1, 2, 49, 60].into_iter().filter(|peer| peer != node);
            let rows = peers.map(|peer| row(*node, peer, (!down.contains(&peer)).into()));
            WorkerSight { node: *node, worker: 0, rows: rows.collect() }
        };
        Sight { workers: nodes.iter().map(worker).collect(), silent: vec![] }
    }

    #[test]
    fn a_link_that_stays_down_between_two_that_live_is_told_once_with_its_ends() {
        let config = config(2, &["a", "b"], &["c"]);
        let mut links = LostLinks::default();
        let whole = sight(&[(1, &[]), (2, &[]), (60, &[])]);
        assert_eq!(links.look(&config, &whole), []);
        let both = sight(&[(1, &[]), (2, &[60]), (60, &[2])]);
        assert_eq!(links.look(&config, &both), [], "it may be made just now");
        let told = links.look(&config, &both);
        let text = "the link between data node 2 and sql node 60 is down, and both live (both say \
                    so)";
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].event, &told[0].text[..]), ("link_lost", text));
        assert_eq!(links.look(&config, &both), []);
        let warnings = links.warnings(&config);
        assert_eq!((&warnings[0].nodes[..], &warnings[0].text[..]), (&[2, 60][..], text));
        let told = links.look(&config, &whole);
        assert_eq!(told[0].text, "the link between data node 2 and sql node 60 is there again");
        assert_eq!(links.warnings(&config), []);
    }

    #[test]
    fn one_end_may_not_have_noticed_and_who_does_not_answer_is_no_end() {
        let config = config(2, &["a", "b"], &["c"]);
        let mut links = LostLinks::default();
        let one = sight(&[(1, &[2, 49, 60]), (2, &[])]);
        for _ in 0..2 {
            links.look(&config, &one);
        }
        let warnings = links.warnings(&config);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let text = "the link between data node 1 and data node 2 is down, and both live (node 1 \
                    says so, and the other has not noticed): see to the network between the hosts \
                    a and b";
        assert_eq!(warnings[0].text, text);
        assert_eq!(links.look(&config, &sight(&[(1, &[2])])), [], "node 2 is missed by others");
    }
}
