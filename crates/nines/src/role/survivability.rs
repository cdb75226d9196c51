//! Which next losses a cluster would survive now, and why.
//!
//! # Owns
//! The survival rules of `COMPAT.md`, applied to the members as they are.
//! # Guarantees
//! 1. Votes are counted against the members that live: a node that has been removed has none.
//! 2. Nothing is promised that the control log would not give: what is lost at one moment, a
//!    majority of the voters must outlive.
//! # Not here
//! What a configuration would survive if all its nodes lived: `cluster_config`.

use std::collections::BTreeSet;

use cluster_config::{ClusterConfig, Outcome, Role};
use model::{ClusterState, MemberStatus, NodeId, NodeRole};
use serde::{Deserialize, Serialize};

use super::status::{groups_of, list};

/// What a cluster would survive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Survivability {
    /// Rows are served now; otherwise there is nothing to survive.
    pub(crate) serves: bool,
    /// Why not; empty where they are.
    #[serde(default)]
    pub(crate) why_not: String,
    /// Members whose votes count, and how many of them must outlive a loss.
    pub(crate) voters: Vec<u16>,
    pub(crate) majority: usize,
    /// The management node among the voters.
    pub(crate) tie_breaker: Option<u16>,
    /// Configured data and management nodes that are not there.
    pub(crate) missing: Vec<u16>,
    /// Every single loss: of a node, of a host with several nodes.
    pub(crate) losses: Vec<NextLoss>,
}

/// A loss and what becomes of the cluster then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NextLoss {
    /// What is lost, in words.
    pub(crate) what: String,
    /// The nodes that are lost.
    pub(crate) nodes: Vec<u16>,
    pub(crate) survives: bool,
    /// One line for people.
    pub(crate) why: String,
    /// Nodes whose loss would be survived now, and not after this one until it is back.
    pub(crate) then_fatal: Vec<u16>,
}

/// The members as they are, or would be.
#[derive(Clone)]
struct Present<'a> {
    config: &'a ClusterConfig,
    state: &'a ClusterState,
    /// Members that live.
    living: BTreeSet<NodeId>,
    voters: BTreeSet<NodeId>,
}

impl Survivability {
    /// By the newest state, and by whom the management node that tells it hears, itself included.
    pub(crate) fn of(
        config: &ClusterConfig,
        state: &ClusterState,
        heard: &BTreeSet<NodeId>,
    ) -> Self {
        let members: BTreeSet<NodeId> = state.members.keys().copied().collect();
        let mut present = Present {
            config,
            state,
            living: members.intersection(heard).copied().collect(),
            voters: BTreeSet::new(),
        };
        // A member that nobody hears has its vote until it is removed.
        present.voters = present.voters_among(&members);
        let is_kernel = |node: &&cluster_config::Node| !node.role.is_client();
        let kernel = config.nodes().iter().filter(is_kernel).map(|node| node.id);
        let missing = kernel.filter(|node| !present.living.contains(node)).map(|node| node.0);
        let why_not = present.why_not();
        let serves = why_not.is_empty();
        Self {
            serves,
            why_not,
            voters: present.voters.iter().map(|node| node.0).collect(),
            majority: present.voters.len() / 2 + 1,
            tie_breaker: present
                .voters
                .iter()
                .find(|id| present.is_management(**id))
                .map(|id| id.0),
            missing: missing.collect(),
            losses: if serves { present.losses() } else { Vec::new() },
        }
    }
}

impl Present<'_> {
    fn is_management(&self, id: NodeId) -> bool {
        self.config.node(id).is_some_and(|node| node.role == Role::Management)
    }

    /// Why rows are not served; empty where they are.
    fn why_not(&self) -> String {
        match (self.state.stopped, self.state.started) {
            (true, _) => "it has stopped, because a node group has no copy left".into(),
            (false, false) => "it has not started, and waits for its data nodes".into(),
            (false, true) => {
                self.not_read_back().unwrap_or_else(|| self.after(&BTreeSet::new()).reason())
            }
        }
    }

    /// Which rows nobody serves because they are being read from disks, if any are.
    fn not_read_back(&self) -> Option<String> {
        let status = |node: NodeId| {
            let living = self.state.members.get(&node).filter(|_| self.living.contains(&node));
            living.map(|member| member.status)
        };
        self.state.used_slots().find_map(|slot| {
            let complete = slot.replicas.iter().filter(|replica| !replica.syncing);
            let holders: Vec<(NodeId, MemberStatus)> = complete
                .filter_map(|replica| Some((replica.node, status(replica.node)?)))
                .collect();
            let reads = |status| matches!(status, MemberStatus::Restoring | MemberStatus::Joining);
            if holders.is_empty() || !holders.iter().all(|(_, status)| reads(*status)) {
                return None;
            }
            let nodes: Vec<u16> = holders.iter().map(|(node, _)| node.0).collect();
            let verb = if nodes.len() == 1 { "reads" } else { "read" };
            let (nodes, group) = (list(&nodes), slot.group);
            Some(format!("{nodes} {verb} the rows of node group {group} from disk"))
        })
    }

    /// Complete data members, and one management member when these are even in number.
    fn voters_among(&self, members: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let votes = |node: &NodeId| {
            self.state.members.get(node).is_some_and(|member| {
                member.role == NodeRole::Data && member.status == MemberStatus::Active
            })
        };
        let mut voters: BTreeSet<NodeId> = members.iter().copied().filter(votes).collect();
        if voters.len().is_multiple_of(2) {
            let all = self.config.nodes_of(Role::Management).map(|node| node.id);
            let usable: Vec<NodeId> = all.filter(|node| members.contains(node)).collect();
            let living = usable.iter().find(|node| self.living.contains(*node));
            voters.extend(living.or(usable.first()));
        }
        voters
    }

    /// What becomes of the cluster when these are lost at one moment.
    fn after(&self, lost: &BTreeSet<NodeId>) -> Outcome {
        for slot in self.state.used_slots() {
            let stays = |node| self.living.contains(node) && !lost.contains(node);
            if !slot.replicas.iter().any(|replica| !replica.syncing && stays(&replica.node)) {
                return Outcome::NoReplica(slot.group);
            }
        }
        let left = self.votes_left(lost);
        if 2 * left > self.voters.len() {
            Outcome::GoesOn
        } else {
            Outcome::NoMajority { left, of: self.voters.len() }
        }
    }

    fn votes_left(&self, lost: &BTreeSet<NodeId>) -> usize {
        let lives = |node: &&NodeId| self.living.contains(*node) && !lost.contains(*node);
        self.voters.iter().filter(lives).count()
    }

    /// The members that are left some time after a loss that was survived.
    fn without(&self, lost: &BTreeSet<NodeId>) -> Self {
        let mut rest = self.clone();
        rest.living.retain(|node| !lost.contains(node));
        rest.voters = rest.voters_among(&rest.living);
        rest
    }

    fn losses(&self) -> Vec<NextLoss> {
        let mut losses = Vec::new();
        for role in [Role::Data, Role::Management] {
            let nodes = self.config.nodes_of(role).filter(|node| self.living.contains(&node.id));
            for node in nodes {
                let host = node.host().unwrap_or("localhost");
                let what = format!("{role} node {} (host {host})", node.id.0);
                losses.push(self.loss(what, &[node.id].into()));
            }
        }
        for (host, nodes) in self.config.hosts() {
            let nodes = nodes.iter().map(|node| node.id);
            let nodes: BTreeSet<NodeId> = nodes.filter(|id| self.living.contains(id)).collect();
            if nodes.len() > 1 {
                let ids: Vec<u16> = nodes.iter().map(|id| id.0).collect();
                losses.push(self.loss(format!("host {host} ({})", list(&ids)), &nodes));
            }
        }
        losses
    }

    fn loss(&self, what: String, lost: &BTreeSet<NodeId>) -> NextLoss {
        let outcome = self.after(lost);
        let survives = outcome.goes_on();
        let mut why = if survives { self.why_it_goes_on(lost) } else { outcome.reason() };
        let mut then_fatal = Vec::new();
        if survives {
            let rest = self.without(lost);
            let goes_on = |of: &Self, node: NodeId| of.after(&[node].into()).goes_on();
            let fatal = |node: &&NodeId| goes_on(self, **node) && !goes_on(&rest, **node);
            then_fatal = rest.living.iter().filter(fatal).map(|node| node.0).collect();
        }
        if !then_fatal.is_empty() {
            let next = list(&then_fatal).replacen("nodes", "any of nodes", 1);
            why += &format!("; until it is back, the loss of {next} would stop the cluster");
        }
        let nodes = lost.iter().map(|node| node.0).collect();
        NextLoss { what, nodes, survives, why, then_fatal }
    }

    fn why_it_goes_on(&self, lost: &BTreeSet<NodeId>) -> String {
        let mut reasons = Vec::new();
        for group in groups_of(self.config, self.state) {
            let touched = self.state.slots.iter().filter(|slot| slot.group == group.number);
            let mut replicas = touched.flat_map(|slot| &slot.replicas);
            if !replicas.any(|replica| !replica.syncing && lost.contains(&replica.node)) {
                continue;
            }
            let left = group.nodes.iter().filter(|node| !lost.contains(*node));
            let left = left.filter(|node| self.holds_rows(**node)).map(|node| node.0);
            let left: Vec<u16> = left.collect();
            let number = group.number;
            reasons.push(format!("node group {number} has all its rows on {}", list(&left)));
        }
        let (left, of) = (self.votes_left(lost), self.voters.len());
        if self.voters.intersection(lost).next().is_some() {
            reasons.push(format!("{left} of {of} votes are left"));
        }
        if reasons.is_empty() {
            return "it holds no complete rows and has no vote now".into();
        }
        reasons.join(", ")
    }

    /// Whether the node has a complete copy of something, and lives.
    fn holds_rows(&self, node: NodeId) -> bool {
        let mut replicas = self.state.slots.iter().flat_map(|slot| &slot.replicas);
        self.living.contains(&node)
            && replicas.any(|replica| replica.node == node && !replica.syncing)
    }
}

#[cfg(test)]
mod tests;
