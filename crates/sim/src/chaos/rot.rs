//! Bit-rot beyond what a cluster survives: files of any nodes, of all of them too, are damaged
//! while nothing runs.
//!
//! # Guarantees
//! What a client was told is durable is served, or the cluster refuses to restart and says what is
//! damaged. Where every slot has a replica whose disk was left alone, it must restart. When the
//! order to accept the loss is given, all nodes go back to the epoch that was named.
//! # Not here
//! The check that no restart undoes what was durable (`checkers::restarts`).

use std::collections::BTreeSet;

use model::{Epoch, NodeId};
use stdx::{Duration, Prng};
use wire::NewsKind;

use super::Chaos;
use crate::world::{Damage, Kind, World};

/// Every kind of damage to a file at rest.
const ALL: [Damage; 6] = [
    Damage::BitFlip,
    Damage::ZeroSector,
    Damage::MisdirectedWrite,
    Damage::Unreadable,
    Damage::Truncated,
    Damage::Removed,
];

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// The cluster is back, with or without an order to accept a loss.
    Back,
    /// It refuses to restart, and an order would take what the run rests on.
    Refused,
}

impl Chaos {
    /// Whether files rot in this run.
    pub fn rots(seed: u64) -> bool {
        Prng::new(seed ^ 0x0B17_2075).percent(40)
    }

    /// Everything goes down, files are damaged, everything comes back. Tables were made in epochs
    /// up to `floor`: losses beyond that are not accepted.
    pub fn rot(&mut self, world: &mut World, floor: Epoch) -> Result<Rot, String> {
        if self.prng.percent(50) {
            let bound = Self::save_bound(world);
            world.run_for(bound);
        }
        let data = world.nodes(Kind::Data);
        let spared = self.prng.percent(40);
        let mut victims: Vec<NodeId> = Vec::new();
        for node in data {
            victims.push(node);
            let may = !spared || self.may_lose_disks(world, &victims);
            if !may || self.prng.percent(15) {
                victims.pop();
            }
        }
        // Where disks were not in good order before, nobody can be counted on.
        let spared = spared && self.may_lose_disks(world, &victims);
        self.go_dark(world, Some(false));
        let mut damaged = BTreeSet::new();
        for node in &victims {
            for _ in 0..*self.prng.pick(&[1, 1, 1, 3]) {
                let (damage, under) = (*self.prng.pick(&ALL), *self.prng.pick(&UNDER));
                if let Some(path) = world.damage_disk(*node, damage, under) {
                    self.note(world, format!("{damage:?} on the disk of {node}, in {path}"));
                    damaged.insert(*node);
                }
            }
        }
        let told = world.news().len();
        for node in world.all_nodes() {
            self.start(world, node);
        }
        self.await_end_of_rot(world, floor, spared, &damaged, told)
    }

    fn await_end_of_rot(
        &mut self,
        world: &mut World,
        floor: Epoch,
        spared: bool,
        damaged: &BTreeSet<NodeId>,
        told: usize,
    ) -> Result<Rot, String> {
        let before = world.restart_count();
        let limit = Duration::from_secs(90);
        let settled = |world: &World| {
            let restarted = world.restart_count() > before && world.all_active();
            restarted || world.refusal(told).is_some()
        };
        if !world.run_until(limit, settled) {
            return Err("after bit-rot the cluster neither restarts nor says why not".into());
        }
        // It stays so until an operator says otherwise, or until those who were slow are back.
        let restarted = |world: &World| world.restart_count() > before;
        if world.run_until(Duration::from_secs(8), restarted) {
            return Ok(Rot::Back);
        }
        let epoch = world.refusal(told).expect("seen above");
        self.note(world, format!("the restart is refused: it would go back to {epoch:?}"));
        if spared {
            return Err("a restart is refused, and sound disks have everything".into());
        }
        let named = world.news()[told..].iter().any(|(node, news)| {
            damaged.contains(node) && matches!(news.kind, NewsKind::Damaged | NewsKind::Harmless)
        });
        if !named {
            return Err(format!("a restart is refused, and nobody names a file of {damaged:?}"));
        }
        if epoch <= floor {
            return Ok(Rot::Refused);
        }
        world.accept_loss_down_to(epoch);
        let done = |world: &World| world.restart_count() > before && world.all_active();
        for _ in 0..60 {
            for node in world.nodes(Kind::Management) {
                world.order_loss(node, before, epoch);
            }
            if world.run_until(Duration::from_secs(2), done) {
                return Ok(Rot::Back);
            }
        }
        Err(format!("the order to go back to {epoch:?} is not carried out"))
    }
}

/// Where files rot.
const UNDER: [&str; 6] = [
    "worker-",
    "worker-0/",
    "worker-0/redo-",
    "worker-0/redo-",
    "worker-0/durable",
    "control/durable",
];
