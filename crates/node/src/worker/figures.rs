//! What a worker tells when figures are asked for.
//!
//! # Guarantees
//! Nothing changes. What concerns the node as a whole is told by its first worker.

use std::collections::BTreeMap;

use actor::{Figures, Metric};
use model::{ClusterState, MemberStatus, NodeRole, WorkerId};
use stdx::{Duration, Instant};

use super::Worker;

impl Worker {
    /// Adds what the worker and its actors have counted, and how they stand at `now`.
    pub fn tell_figures(&mut self, now: Instant, figures: &mut Figures) {
        self.shared.now = self.shared.now.max(now);
        let shared = &self.shared;
        figures.of_node(shared.node);
        let worker = shared.worker.0.to_string();
        figures.add(Metric::QueuedMessages, &[&worker], self.inbox.len() as u64);
        let handled = shared.messages.by_name().iter().map(|count| count.handled).sum();
        figures.add(Metric::HandledMessages, &[&worker], handled);
        for (step, slow) in shared.schedule.slow_steps() {
            figures.add(Metric::SlowSteps, &[&worker, step], slow.count);
            figures.add_time(Metric::SlowStepTime, &[&worker, step], slow.total);
            figures.add_time(Metric::SlowStepLongest, &[&worker, step], slow.longest);
        }
        if self.actors.participant.is_some() {
            shared.tallies.tell(figures);
        }
        for (_, actor) in self.actors.iter() {
            actor.figures(shared, figures);
        }
        if shared.worker == WorkerId(0) {
            self.tell_node(figures);
        }
    }

    fn tell_node(&self, figures: &mut Figures) {
        let shared = &self.shared;
        let cluster = &shared.cluster;
        figures.add(Metric::Workers, &[], shared.workers.into());
        let holds_rows = self.actors.participant.is_some();
        if holds_rows || self.actors.control.is_some() {
            let member = cluster.member(shared.node, shared.incarnation).is_some();
            figures.add(Metric::NodeMember, &[], member.into());
        }
        if holds_rows {
            let left = shared.lease.until().since(shared.now);
            figures.add_time(Metric::LeaseLeft, &[], left);
            let epochs = &shared.epochs;
            figures.add(Metric::EpochCurrent, &[], epochs.current.0);
            figures.add(Metric::EpochCompleted, &[], epochs.completed.0);
            let since = epochs.completed_at;
            let age = if since == Instant::ZERO { Duration::ZERO } else { shared.now.since(since) };
            figures.add_time(Metric::EpochAge, &[], age);
        }
        figures.add(Metric::ControlIndex, &[], cluster.index.0);
        figures.add(Metric::ClusterStarted, &[], (cluster.started && !cluster.stopped).into());
        tell_members(cluster, figures);
        for (group, nodes) in cluster.groups.iter().enumerate() {
            let group_name = group.to_string();
            let live = live_replicas(cluster, group);
            figures.add(Metric::GroupReplicas, &[&group_name], live as u64);
            figures.add(Metric::GroupReplicasWanted, &[&group_name], nodes.len() as u64);
        }
    }
}

fn tell_members(cluster: &ClusterState, figures: &mut Figures) {
    const STATUSES: [(MemberStatus, &str); 5] = [
        (MemberStatus::Joining, "joining"),
        (MemberStatus::Restoring, "restoring"),
        (MemberStatus::Syncing, "syncing"),
        (MemberStatus::Active, "active"),
        (MemberStatus::Leaving, "leaving"),
    ];
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for role in ["data", "management"] {
        counts.extend(STATUSES.map(|(_, status)| ((role, status), 0)));
    }
    for member in cluster.members.values() {
        let role = if member.role == NodeRole::Data { "data" } else { "management" };
        let found = STATUSES.iter().find(|(status, _)| *status == member.status);
        if let Some((_, status)) = found {
            *counts.entry((role, *status)).or_default() += 1;
        }
    }
    for ((role, status), count) in counts {
        figures.add(Metric::ClusterMembers, &[role, status], count);
    }
}

/// Complete replicas of the share of a node group that has the fewest.
fn live_replicas(cluster: &ClusterState, group: usize) -> usize {
    let slots = cluster.slots.iter().filter(|slot| usize::from(slot.group) == group);
    let live = slots.map(|slot| slot.replicas.iter().filter(|replica| !replica.syncing).count());
    live.min().unwrap_or(0)
}
