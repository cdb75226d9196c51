//! How nodes reach their disks, and what can be done to disks from outside.

use std::hash::Hash;

use model::{Incarnation, NodeId, WorkerId};
use stdx::{Duration, Instant};

use super::disk::{Damage, DiskAction, LaneName};
use super::process::{Kind, Status};
use super::{Event, World};

impl World {
    /// Hands a worker's requests to the disk of its node.
    pub(super) fn ask_disk(&mut self, node: NodeId, worker: WorkerId, at: Instant) {
        let process = self.processes.get_mut(&node).expect("nodes are fixed by the setup");
        let incarnation = process.incarnation;
        let host = &mut process.hosts[usize::from(worker.0)];
        let mut begun = Vec::new();
        while let Some(request) = host.worker.pop_disk_request() {
            let disk = self.disks.get_mut(&node).expect("who asks a disk has one");
            begun.push(disk.ask(worker, request, at));
        }
        for (lane, span) in begun {
            if let Some(span) = span {
                self.plan(at + span, Event::Disk { node, incarnation, lane });
            }
        }
    }

    /// An operation of a disk is over.
    pub(super) fn disk_step(&mut self, node: NodeId, incarnation: Incarnation, lane: LaneName) {
        let process = self.process(node);
        if !process.is_running() || process.incarnation != incarnation {
            return;
        }
        let now = self.now;
        let disk = self.disks.get_mut(&node).expect("its operation was planned");
        let stepped = disk.step(lane, now);
        if let Some(span) = stepped.next {
            self.plan(now + span, Event::Disk { node, incarnation, lane });
        }
        if let Some(reply) = stepped.reply {
            (now.as_nanos(), node, lane, reply.token, reply.result.is_ok()).hash(&mut self.hash);
            let host = &mut self.process_mut(node).hosts[usize::from(lane.worker.0)];
            host.worker.deliver_disk_reply(reply);
            self.plan_turn(node, lane.worker);
        }
    }

    /// Whether nodes keep their state on disks.
    pub fn has_disks(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Hosts lose their power, all at one moment: processes end, nobody is told, and what is not
    /// durable on their disks is in doubt. Also of a host whose process has ended before: what it
    /// had written is in the memory of the host until then.
    pub fn power_loss(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            if self.is_running(*node) {
                *self.totals.halts.entry("power loss".into()).or_default() += 1;
                self.end_life(*node, Status::Vanished, false);
            }
            if let Some(disk) = self.disks.get_mut(node) {
                disk.power_loss();
            }
        }
        let named: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
        self.note(format!("power loss of {}", named.join(" ")));
    }

    /// Starts a node that does not run with an empty disk.
    pub fn restart_wiped(&mut self, node: NodeId) {
        if self.is_running(node) {
            return;
        }
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.wipe();
            self.note(format!("the disk of {node} is empty"));
        }
        self.restart(node);
    }

    /// Operations of a node's disk take so many times as long; 1 for the usual speed.
    pub fn slow_disk(&mut self, node: NodeId, factor: u64) {
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.slow(factor);
        }
    }

    /// No sync that a node's disk begins from now on ends before the span is over.
    pub fn stick_disk(&mut self, node: NodeId, span: Duration) {
        let until = self.now + span;
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.stick(until);
        }
    }

    /// A node's disk has so much space left; without limit for `None`.
    pub fn limit_disk(&mut self, node: NodeId, bytes: Option<u64>) {
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.limit_space(bytes);
        }
    }

    /// The next operation of a kind fails that a node's disk does on a path that begins so.
    pub fn fail_disk(&mut self, node: NodeId, action: DiskAction, under: &'static str) {
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.fail_next(action, under);
        }
    }

    /// Damages a file of a node's disk whose path begins so; which one, if any was damaged.
    pub fn damage_disk(&mut self, node: NodeId, damage: Damage, under: &str) -> Option<String> {
        self.disks.get_mut(&node)?.damage(damage, under)
    }

    /// Damages a node's control log; which file, if one was damaged.
    pub fn damage_log(&mut self, node: NodeId, damage: Damage) -> Option<String> {
        self.disks.get_mut(&node)?.damage_log(damage)
    }

    /// Takes a node that does not run its control log; which file, if there was one.
    pub fn lose_log(&mut self, node: NodeId) -> Option<String> {
        assert!(!self.is_running(node), "{node} has its log open");
        self.disks.get_mut(&node)?.lose_log()
    }

    /// Ends all faults of a node's disk but damage.
    pub fn heal_disk(&mut self, node: NodeId) {
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.heal();
        }
    }

    /// Whether everything on the node's disk is what was written.
    pub fn disk_is_sound(&self, node: NodeId) -> bool {
        self.disks.get(&node).is_none_or(|disk| disk.is_sound())
    }

    /// Disks on which something was written that is not durable.
    pub fn unsynced_disks(&self) -> usize {
        self.disks.values().filter(|disk| disk.has_unsynced()).count()
    }

    /// Whether a disk answers late, or refuses to take more.
    pub fn disks_are_troubled(&self) -> bool {
        self.disks.values().any(|disk| disk.is_troubled(self.now))
    }

    /// All processes that have ended stay so until they are started: also those that a supervisor
    /// was about to start.
    pub(super) fn may_be_supervised(&self, node: NodeId) -> bool {
        matches!(self.status(node), Status::Halted(_) | Status::Dead)
    }

    /// The nodes that keep state on disks.
    pub fn nodes_with_disks(&self) -> Vec<NodeId> {
        self.disks.keys().copied().collect()
    }

    /// All nodes, of all kinds.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        let kinds = [Kind::Data, Kind::Management, Kind::Client];
        kinds.into_iter().flat_map(|kind| self.nodes(kind)).collect()
    }
}
