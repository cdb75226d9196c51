//! Faults of a part of a node: a worker that takes no turns while the others do, or few; what one
//! node sends to another being late.
//!
//! The cluster must not wait for such a part: a node whose worker hangs is removed in time, and
//! whoever notices says so.

use model::{MemberStatus, NodeId, WorkerId};
use stdx::Duration;

use super::Chaos;
use crate::world::{Kind, World};

impl Chaos {
    /// A worker hangs, for longer than the cluster may wait for it.
    pub(super) fn hang(&mut self, world: &mut World) {
        let Some((node, worker)) = self.worker_to_lose(world) else { return };
        let config = world.setup().config.clone();
        if self.prng.percent(30) {
            // Too short for anybody to be removed.
            let span = Duration::from_nanos(self.prng.below(config.worker_silence.as_nanos() / 2));
            world.hang(node, worker, span);
            return self.note(world, format!("{node} {worker} hangs for {span}"));
        }
        let life = world.incarnation(node);
        let quiet = self.is_quiet_but_for(world, node);
        let bound = config.worker_silence + self.aftermath(world) + config.epoch_interval.times(50);
        world.hang(node, worker, bound.times(2));
        self.risk(world, node, bound.times(2));
        self.note(world, format!("{node} {worker} hangs"));
        let gone = world.run_until(bound, |world| {
            !world.is_running(node)
                || world.incarnation(node) != life
                || world.newest_state().member(node, life).is_none()
        });
        assert!(
            gone || !quiet,
            "{node}: still a member although {worker} has hung for {bound}\n{}",
            world.describe()
        );
        if world.is_running(node) {
            world.release(node);
        }
    }

    /// A worker hangs in a cluster that nothing else ails, the driver's node or another.
    pub(super) fn hang_alone(&mut self, world: &mut World) {
        self.recover(world);
        // Who has just come back is not counted on at once.
        let span = self.aftermath(world);
        let ready = |chaos: &Self, world: &World| {
            let nodes = world.nodes(Kind::Data);
            nodes.iter().any(|node| chaos.is_quiet_but_for(world, *node))
        };
        let until = world.now() + span;
        while !ready(self, world) && world.now() < until {
            world.run_for(Duration::from_millis(100));
            self.disarm_due(world);
        }
        self.hang(world);
    }

    /// A worker takes its turns late.
    pub(super) fn drag(&mut self, world: &mut World) {
        let Some((node, worker)) = self.worker_to_lose(world) else { return };
        let factor = *self.prng.pick(&[5, 50, 500]);
        world.slow_worker(node, worker, factor);
        self.note(world, format!("{node} {worker} is slow by {factor}"));
        world.run_for(Duration::from_millis(self.prng.between(20, 900)));
        world.release(node);
        self.risk(world, node, Duration::ZERO);
    }

    /// What a node sends to another takes long; what comes back does not.
    pub(super) fn delay_one_way(&mut self, world: &mut World) {
        let nodes = world.nodes(Kind::Data);
        let (from, to) = (*self.prng.pick(&nodes), *self.prng.pick(&nodes));
        if from == to || !self.may_lose(world, &[from, to]) {
            return;
        }
        let lease = world.setup().config.lease.as_nanos();
        let late = Duration::from_nanos(self.prng.below(lease));
        world.delay(from, to, late);
        self.note(world, format!("what {from} sends to {to} is late by {late}"));
        self.risk(world, from, Duration::ZERO);
        self.risk(world, to, Duration::ZERO);
        world.run_for(Duration::from_nanos(self.prng.below(lease * 3)));
        world.delay(from, to, Duration::ZERO);
        self.risk(world, from, late);
        self.risk(world, to, late);
    }

    /// A worker beside the one with the control plane, of a node that the cluster can lose.
    fn worker_to_lose(&mut self, world: &World) -> Option<(NodeId, WorkerId)> {
        let state = world.newest_state();
        let mut nodes = world.nodes(Kind::Data);
        nodes.retain(|node| {
            let member = state.member(*node, world.incarnation(*node));
            let complete = member.is_some_and(|member| member.status == MemberStatus::Active);
            complete && self.sound(world, *node) && self.may_lose(world, &[*node])
        });
        let workers = world.setup().workers;
        if nodes.is_empty() || workers < 2 {
            return None;
        }
        let node = *self.prng.pick(&nodes);
        Some((node, WorkerId(self.prng.between(1, u64::from(workers) - 1) as u8)))
    }

    /// Whether nothing ails any other node, so that the cluster has no reason to be late.
    pub(super) fn is_quiet_but_for(&self, world: &World, node: NodeId) -> bool {
        let mut all = world.nodes(Kind::Data);
        all.extend(world.nodes(Kind::Management));
        let complete = all.iter().filter(|other| **other != node);
        world.all_active()
            && !world.has_cuts()
            && complete.clone().all(|n| self.sound(world, *n))
            && complete.clone().all(|other| !self.armed.contains_key(other))
    }
}
