//! What can be done to the world from outside: the verbs of scenarios and of the fault scheduler.

use std::sync::Arc;

use actor::FaultPlan;
use model::{ActorKind, Address, Config, Epoch, NodeId, WorkerId};
use stdx::Duration;
use wire::{ControlMessage, Envelope, Message};

use super::network::Network;
use super::process::{Kind, Status};
use super::{World, network::Report};

impl World {
    /// Ends a node's process at once. Its peers learn of it after a moment.
    pub fn crash(&mut self, node: NodeId) {
        if self.is_running(node) {
            *self.totals.halts.entry("crash".into()).or_default() += 1;
            self.end_life(node, Status::Dead, true);
        }
    }

    /// A host falls silent: its process is gone and nobody is told. On its disk is what was
    /// durable.
    pub fn vanish(&mut self, node: NodeId) {
        if self.is_running(node) {
            *self.totals.halts.entry("vanished".into()).or_default() += 1;
            self.end_life(node, Status::Vanished, false);
            if let Some(disk) = self.disks.get_mut(&node) {
                disk.power_loss();
            }
        }
    }

    /// The process does nothing for a while, and then goes on as if nothing had been.
    pub fn freeze(&mut self, node: NodeId, span: Duration) {
        let until = self.now + span;
        let process = self.process_mut(node);
        process.frozen_until = process.frozen_until.max(until);
    }

    /// Ends a freeze.
    pub fn thaw(&mut self, node: NodeId) {
        let now = self.now;
        let process = self.process_mut(node);
        if !process.is_frozen(now) {
            return;
        }
        process.frozen_until = now;
        let workers = process.hosts.len() as u8;
        for host in &mut process.hosts {
            host.planned = None;
        }
        for worker in (0..workers).map(WorkerId) {
            self.plan_turn(node, worker);
        }
    }

    /// A worker of the node takes no turn for a while; the others go on.
    pub fn hang(&mut self, node: NodeId, worker: WorkerId, span: Duration) {
        let until = self.now + span;
        let host = &mut self.process_mut(node).hosts[usize::from(worker.0)];
        host.hung_until = host.hung_until.max(until);
    }

    /// Whether a worker of the node hangs now.
    pub fn is_hung(&self, node: NodeId) -> bool {
        self.process(node).hosts.iter().any(|host| host.hung_until > self.now)
    }

    /// The handlers of a worker take `factor` times as long; 1 for the usual speed.
    pub fn slow_worker(&mut self, node: NodeId, worker: WorkerId, factor: u64) {
        self.process_mut(node).hosts[usize::from(worker.0)].slowness = factor.max(1);
    }

    /// All workers of the node go on at the usual speed.
    pub fn release(&mut self, node: NodeId) {
        let now = self.now;
        let process = self.process_mut(node);
        let workers = process.hosts.len() as u8;
        for host in &mut process.hosts {
            host.slowness = 1;
            if host.hung_until > now {
                (host.hung_until, host.planned) = (now, None);
            }
        }
        for worker in (0..workers).map(WorkerId) {
            self.plan_turn(node, worker);
        }
    }

    /// What one node sends to another takes so much longer; the other direction does not.
    pub fn delay(&mut self, from: NodeId, to: NodeId, span: Duration) {
        self.network.delay(from, to, span);
    }

    /// An operator asks a data node to leave the cluster in good order.
    pub fn ask_to_leave(&mut self, node: NodeId) {
        let address = Address { node, worker: WorkerId(0), actor: ActorKind::Control };
        let incarnation = self.incarnation(node);
        let host = &mut self.process_mut(node).hosts[0];
        let reached = host.worker.shared().cluster.index;
        host.worker.deliver(Envelope {
            from: address,
            incarnation,
            to: address,
            reached,
            message: Box::new(Message::Control(Box::new(ControlMessage::LeaveRequest))),
        });
        self.plan_turn(node, WorkerId(0));
    }

    /// An operator has a management node propose a command, again and again until a state shows it.
    pub fn order(&mut self, node: NodeId, command: model::Command) {
        if !self.is_running(node) {
            return;
        }
        let control = Address { node, worker: WorkerId(0), actor: ActorKind::Control };
        let from = Address { actor: ActorKind::Client, ..control };
        let incarnation = self.incarnation(node);
        let host = &mut self.process_mut(node).hosts[0];
        let reached = host.worker.shared().cluster.index;
        let order = ControlMessage::Propose(Arc::new(command));
        host.worker.deliver(Envelope {
            from,
            incarnation,
            to: control,
            reached,
            message: Box::new(Message::Control(Box::new(order))),
        });
        self.plan_turn(node, WorkerId(0));
    }

    /// An operator orders, on a management node, that the restart after so many goes back to an
    /// epoch.
    pub fn order_loss(&mut self, node: NodeId, restarts: usize, epoch: Epoch) {
        if !self.is_running(node) {
            return;
        }
        let address = Address { node, worker: WorkerId(0), actor: ActorKind::Control };
        let incarnation = self.incarnation(node);
        let host = &mut self.process_mut(node).hosts[0];
        let reached = host.worker.shared().cluster.index;
        let order = ControlMessage::AcceptLoss { restarts: restarts as u32, epoch };
        host.worker.deliver(Envelope {
            from: address,
            incarnation,
            to: address,
            reached,
            message: Box::new(Message::Control(Box::new(order))),
        });
        self.plan_turn(node, WorkerId(0));
    }

    /// Whether the process is frozen now.
    pub fn is_frozen(&self, node: NodeId) -> bool {
        self.process(node).is_frozen(self.now)
    }

    /// Handlers of the node take `factor` times as long; 1 for the usual speed.
    pub fn slow(&mut self, node: NodeId, factor: u64) {
        self.process_mut(node).slowness = factor.max(1);
    }

    /// How many times as long as usual the node's handlers take.
    pub fn slowness(&self, node: NodeId) -> u64 {
        self.process(node).slowness
    }

    /// The node's workers have so little memory for rows from now on; `None` for what the setup
    /// gives them. A new life has that again.
    pub fn limit_memory(&mut self, node: NodeId, bytes: Option<u64>) {
        let data_memory = bytes.unwrap_or(self.setup.config.data_memory);
        for host in &mut self.process_mut(node).hosts {
            let shared = host.worker.shared_mut();
            shared.config = Arc::new(Config { data_memory, ..(*shared.config).clone() });
        }
    }

    /// Every passed fault point of the node kills it with this chance in a million.
    pub fn arm(&mut self, node: NodeId, per_million: u64) {
        let seed = self.prng.next_u64();
        self.collect(node);
        for host in &mut self.process_mut(node).hosts {
            host.worker.shared_mut().faults = FaultPlan::random(seed, per_million);
        }
    }

    /// The node dies when it next passes the fault point `name`.
    pub fn arm_at(&mut self, node: NodeId, name: &'static str) {
        self.collect(node);
        for host in &mut self.process_mut(node).hosts {
            host.worker.shared_mut().faults = FaultPlan::at(name);
        }
    }

    /// No fault point of the node fires any more.
    pub fn disarm(&mut self, node: NodeId) {
        for host in &mut self.process_mut(node).hosts {
            host.worker.shared_mut().faults.set_chance(0);
        }
    }

    /// Cuts everything between two sets of nodes.
    pub fn partition(&mut self, left: &[NodeId], right: &[NodeId]) {
        self.partition_one_way(left, right);
        self.partition_one_way(right, left);
    }

    /// Cuts what goes from one set of nodes to another.
    pub fn partition_one_way(&mut self, from: &[NodeId], to: &[NodeId]) {
        for from in from {
            for to in to.iter().filter(|to| *to != from) {
                self.network.cut(*from, *to);
            }
        }
    }

    /// The connections between two nodes are reset in the middle of what is on its way, and made
    /// anew after a while.
    pub fn reset_connections(&mut self, a: NodeId, b: NodeId, span: Duration) {
        self.renew(Network::key(a, b).0, span);
    }

    /// Ends all cuts and delays.
    pub fn heal(&mut self) {
        self.network.delays.clear();
        for pair in self.network.heal() {
            self.reopen(pair);
        }
    }

    /// Whether anything is cut.
    pub fn has_cuts(&self) -> bool {
        self.network.has_cuts()
    }

    /// Whether the node is at an end of a cut.
    pub fn touches_cut(&self, node: NodeId) -> bool {
        self.network.touches_cut(node)
    }

    /// Starts a node that does not run, with nothing in its memory, and with the disk it had.
    pub fn restart(&mut self, node: NodeId) {
        if self.is_running(node) {
            return;
        }
        self.announce_end(node);
        let kind = self.process(node).kind;
        self.start_life(node, kind);
    }

    /// Starts a node that has halted, with the rows it held in memory; a node with a disk reads
    /// them from there, like any other that starts.
    pub fn rejoin(&mut self, node: NodeId) {
        let process = self.process(node);
        let keeps = matches!(process.status, Status::Halted(_))
            && process.kind == Kind::Data
            && !self.disks.contains_key(&node);
        if keeps { self.rejoin_life(node) } else { self.restart(node) }
    }

    /// A host that was silent answers again, so its peers learn that the old process is gone.
    fn announce_end(&mut self, node: NodeId) {
        if *self.status(node) != Status::Vanished {
            return;
        }
        self.process_mut(node).status = Status::Dead;
        let life = self.process(node).incarnation;
        let peers: Vec<NodeId> = self.processes.keys().copied().filter(|n| *n != node).collect();
        for peer in peers {
            let (key, _) = Network::key(node, peer);
            let running = self.is_running(peer);
            let to = (peer, self.incarnation(peer));
            let pair = self.network.pair(key);
            let stood = std::mem::replace(&mut pair.established, false);
            pair.generation += u64::from(stood);
            pair.parked = Default::default();
            if stood && running {
                let report = Report { to, peer: (node, life), closed: true, counted: true };
                let delay = Duration::from_micros(self.network.prng.between(100, 3_000));
                self.plan_report(report, delay);
            }
        }
    }
}
