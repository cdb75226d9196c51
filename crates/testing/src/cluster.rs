//! States of a cluster: members, the placement of partitions, tables.

use std::sync::Arc;

use model::cluster::{Member, MemberStatus, NodeRole, PlacementSlot, Replica};
use model::{ClusterId, ClusterState, ControlIndex, Incarnation, NodeId, Table};

/// An active data node in this life, with one worker, admitted first of all.
pub fn member(incarnation: Incarnation) -> Member {
    Member {
        incarnation,
        voter: incarnation,
        role: NodeRole::Data,
        workers: 1,
        status: MemberStatus::Active,
        joined_at: ControlIndex(1),
    }
}

/// A complete replica on a node.
pub fn replica(node: u16) -> Replica {
    Replica { node: NodeId(node), syncing: false }
}

/// A slot of group 0 with complete replicas on these nodes, the primary first.
pub fn slot(nodes: impl IntoIterator<Item = u16>) -> PlacementSlot {
    let replicas = nodes.into_iter().map(replica).collect();
    PlacementSlot { group: 0, replicas, last: None }
}

/// Begins the state of a started cluster of these data nodes, at entry 10 of the control log.
pub fn cluster(nodes: impl IntoIterator<Item = u16>) -> ClusterBuilder {
    ClusterBuilder { nodes: nodes.into_iter().collect(), workers: 1, slots: vec![], tables: vec![] }
}

/// A state under construction.
///
/// Unless told otherwise all nodes are one group and active in their first life, admitted in their
/// order, with one worker each; there are as many slots as nodes, each node is the primary of one,
/// and the others follow it in their order. What is left is for the test to change: all fields of
/// a state are public.
#[derive(Clone, Debug)]
#[must_use = "a state is made by `build`"]
pub struct ClusterBuilder {
    nodes: Vec<u16>,
    workers: u8,
    slots: Vec<PlacementSlot>,
    tables: Vec<Arc<Table>>,
}

impl ClusterBuilder {
    /// The number of workers of each node.
    pub fn workers(self, workers: u8) -> Self {
        Self { workers, ..self }
    }

    /// Adds a slot; the state then has no others than those added.
    pub fn slot(mut self, slot: PlacementSlot) -> Self {
        self.slots.push(slot);
        self
    }

    /// Adds a table.
    pub fn table(mut self, table: impl Into<Arc<Table>>) -> Self {
        self.tables.push(table.into());
        self
    }

    /// The state.
    ///
    /// # Panics
    /// When a slot has a replica on a node that is no member.
    #[track_caller]
    pub fn build(self) -> ClusterState {
        let Self { nodes, workers, mut slots, tables } = self;
        if slots.is_empty() {
            let rotated = |first| nodes[first..].iter().chain(&nodes[..first]).copied();
            slots = (0..nodes.len()).map(|first| slot(rotated(first))).collect();
        }
        for replica in slots.iter().flat_map(|slot| &slot.replicas) {
            assert!(nodes.contains(&replica.node.0), "{} is no member", replica.node);
        }
        let member = |(at, node): (usize, &u16)| {
            let joined_at = ControlIndex(at as u64 + 1);
            (NodeId(*node), Member { workers, joined_at, ..member(Incarnation(1)) })
        };
        ClusterState {
            index: ControlIndex(10),
            id: ClusterId(1),
            started: true,
            members: nodes.iter().enumerate().map(member).collect(),
            incarnations: nodes.iter().map(|node| (NodeId(*node), Incarnation(1))).collect(),
            groups: vec![nodes.iter().copied().map(NodeId).collect()],
            slots,
            tables: tables.into_iter().map(|table| (table.id, table)).collect(),
            ..ClusterState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{BIGINT, table};

    #[test]
    fn each_node_is_the_primary_of_a_slot() {
        let table = table("d.t").column("id", BIGINT).partitions(6).build();
        let id = table.id;
        let state = cluster([1, 2, 3]).workers(2).table(table).build();
        state.check();
        let order = |slot: &PlacementSlot| slot.replicas.iter().map(|r| r.node.0).collect();
        let orders: Vec<Vec<u16>> = state.slots.iter().map(order).collect();
        assert_eq!(orders, [[1, 2, 3], [2, 3, 1], [3, 1, 2]]);
        assert_eq!(state.driver(), Some(NodeId(1)));
        let primaries = state.partitions(&state.tables[&id]).filter_map(|p| state.primary(p));
        assert_eq!(primaries.count(), 6);
    }

    #[test]
    fn slots_that_were_told_are_the_only_ones() {
        let state = cluster([1, 2]).slot(slot([2, 1])).build();
        state.check();
        assert_eq!(state.slots, [slot([2, 1])]);
    }

    #[test]
    #[should_panic(expected = "n3 is no member")]
    fn a_slot_lies_on_members() {
        let _ = cluster([1, 2]).slot(slot([3])).build();
    }
}
