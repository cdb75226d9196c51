//! What happens to networks every day: short cuts, one way or both ways, late messages in one
//! direction, connections that are reset.
//!
//! # Guarantees
//! Faults that links survive may strike anybody, several nodes at once too: they end before a lease
//! does and before a link is given up.

use model::NodeId;
use stdx::{Duration, Prng};

use super::Chaos;
use crate::world::World;

impl Chaos {
    /// Strikes links.
    pub(super) fn strike_links(&mut self, world: &mut World) {
        let Some(mut draws) = self.of_links.take() else { return };
        match draws.below(10) {
            0..3 => self.cut_shortly(world, &mut draws),
            3..5 => self.cut_for_long_enough(world, &mut draws),
            5..7 => self.delay(world, &mut draws),
            _ => self.reset(world, &mut draws),
        }
        self.of_links = Some(draws);
    }

    /// The longest fault that nobody loses a lease or a link by.
    fn unnoticed(world: &World) -> Duration {
        let setup = world.setup();
        setup.config.lease.divided_by(4).min(setup.network.send_timeout.divided_by(2))
    }

    /// Nodes that all others lose sight of together, and those others.
    fn sides(world: &World, draws: &mut Prng) -> (Vec<NodeId>, Vec<NodeId>) {
        let share = *draws.pick(&[10, 30, 50]);
        let nodes = world.all_nodes().into_iter();
        nodes.partition(|_| draws.percent(share))
    }

    fn cut_shortly(&mut self, world: &mut World, draws: &mut Prng) {
        let (few, others) = Self::sides(world, draws);
        let span = Duration::from_nanos(draws.below(Self::unnoticed(world).as_nanos()));
        self.cut(world, draws, &few, &others);
        self.note(world, format!("{} nodes are cut off for {span}", few.len()));
        world.run_for(span);
        world.heal();
    }

    /// A cut that may or may not cost its victims their membership.
    fn cut_for_long_enough(&mut self, world: &mut World, draws: &mut Prng) {
        let victims = self.victims(world);
        let span = Duration::from_millis(draws.between(100, 1_000));
        let others: Vec<NodeId> =
            world.all_nodes().into_iter().filter(|node| !victims.contains(node)).collect();
        self.cut(world, draws, &victims, &others);
        self.note(world, format!("{} victims are cut off for {span}", victims.len()));
        world.run_for(span);
        self.end_cuts(world);
    }

    fn cut(&mut self, world: &mut World, draws: &mut Prng, few: &[NodeId], others: &[NodeId]) {
        match draws.below(4) {
            0 => world.partition_one_way(few, others),
            1 => world.partition_one_way(others, few),
            _ => world.partition(few, others),
        }
    }

    /// What some nodes send is late, what they are sent is not, or the other way.
    fn delay(&mut self, world: &mut World, draws: &mut Prng) {
        let (few, others) = Self::sides(world, draws);
        let most = Self::unnoticed(world).divided_by(2).as_nanos();
        let late = Duration::from_nanos(draws.below(most));
        let out = draws.percent(50);
        for few in &few {
            for other in &others {
                let (from, to) = if out { (*few, *other) } else { (*other, *few) };
                world.delay(from, to, late);
            }
        }
        self.note(world, format!("{} nodes are late by {late}, outwards is {out}", few.len()));
        world.run_for(Duration::from_millis(draws.between(20, 1_000)));
        world.heal();
    }

    /// Connections are reset in the middle of what is on its way.
    fn reset(&mut self, world: &mut World, draws: &mut Prng) {
        let nodes = world.all_nodes();
        let share = *draws.pick(&[10, 40, 100]);
        let span = Duration::from_nanos(draws.below(Self::unnoticed(world).as_nanos()));
        let mut count = 0;
        for (at, a) in nodes.iter().enumerate() {
            for b in &nodes[at + 1..] {
                if draws.percent(share) {
                    world.reset_connections(*a, *b, span);
                    count += 1;
                }
            }
        }
        self.note(world, format!("connections of {count} links are made anew within {span}"));
        world.run_for(span);
    }
}
