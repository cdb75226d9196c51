//! Node groups that come while the cluster works and faults strike.

use model::Command;

use super::Chaos;
use crate::world::{Kind, World};

impl Chaos {
    /// Orders a node group of the data nodes that are in none, if there are any. What strikes next
    /// strikes while they come.
    pub fn grow(&mut self, world: &mut World) {
        let nodes = world.setup().config.spare_nodes.clone();
        if nodes.is_empty() {
            return;
        }
        for node in world.nodes(Kind::Management) {
            world.order(node, Command::CreateGroup { nodes: nodes.clone() });
        }
        self.note(world, format!("a group of {nodes:?} is ordered"));
    }
}
