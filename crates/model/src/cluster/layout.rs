//! Which slots the partitions of a table use.
//!
//! # Owns
//! [`Layout`]; which layout a table has, and which tables are still to be moved to the newest one.
//! # Guarantees
//! Identities grow, and a layout holds for the tables whose identities are above its beginning. So
//! where a table lives follows from its identity and the layouts, and never changes: a table moves
//! by being copied to a new identity. A layout without tables may be forgotten.
//! # Not here
//! When layouts begin and end (`control::state_machine::groups`); the copying (the SQL layer).

use serde::{Deserialize, Serialize};

use super::{ClusterState, PlacementSlot};
use crate::ids::{PartitionId, TableId};
use crate::schema::Table;

/// Which slots the tables use that were made from some moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// It holds for tables of larger identities than this.
    pub after: u32,
    /// Partition `p` of such a table uses the slot `slots[p mod slots.len()]`.
    pub slots: Vec<u16>,
}

/// How far the move of all tables to the newest layout has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Tables and views of SQL in databases, and tables that the SQL layer keeps for itself.
    pub tables: usize,
    /// Those of them that are to be moved.
    pub left: usize,
}

/// What kind of table a name is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In a database.
    OfUsers,
    /// The SQL layer keeps it for itself, for the whole cluster.
    Kept,
    /// It goes by itself: a copy that is to take another table's place, or a table of one session.
    Passing,
}

fn kind_of(name: &str) -> Kind {
    match (name.starts_with('#'), name.contains('/') || name.contains(".#")) {
        (_, true) => Kind::Passing,
        (true, _) => Kind::Kept,
        (false, _) => Kind::OfUsers,
    }
}

impl ClusterState {
    /// The slot of a partition, and how many partitions of its table are before it in that slot.
    #[inline]
    pub(super) fn place_of(&self, partition: PartitionId) -> (usize, usize) {
        let index = usize::from(partition.index.0);
        match self.layout_of(partition.table) {
            None => (index % self.slots.len(), index / self.slots.len()),
            Some(layout) => {
                let slot = layout.slots[index % layout.slots.len()];
                (usize::from(slot), index / layout.slots.len())
            }
        }
    }

    /// The layout of a table; none where all tables use all slots.
    #[inline]
    fn layout_of(&self, table: TableId) -> Option<&Layout> {
        let anchor = table.anchor().0;
        self.layouts.iter().rev().find(|layout| layout.after < anchor).or(self.layouts.first())
    }

    /// Whether some table may have partitions in the slot.
    pub fn is_used(&self, slot: usize) -> bool {
        let names = |layout: &Layout| layout.slots.iter().any(|of| usize::from(*of) == slot);
        self.layouts.is_empty() || self.layouts.iter().any(names)
    }

    /// The slots that tables may have partitions in.
    pub fn used_slots(&self) -> impl Iterator<Item = &PlacementSlot> {
        let slots = self.slots.iter().enumerate().filter(|(at, _)| self.is_used(*at));
        slots.map(|(_, slot)| slot)
    }

    /// The slots that new tables use.
    pub fn newest_slots(&self) -> Vec<u16> {
        match self.layouts.last() {
            Some(layout) => layout.slots.clone(),
            None => (0..self.slots.len() as u16).collect(),
        }
    }

    /// How many slots of a group new tables use.
    pub fn newest_slots_in(&self, group: u16) -> usize {
        let of_group = |slot: &&u16| self.slots[usize::from(**slot)].group == group;
        self.newest_slots().iter().filter(of_group).count()
    }

    /// Whether new tables use a group.
    pub fn is_open(&self, group: u16) -> bool {
        self.newest_slots_in(group) > 0
    }

    /// Whether a table uses other slots than a new one would.
    pub fn has_older_layout(&self, table: TableId) -> bool {
        let newest = self.layouts.last();
        newest.is_some_and(|newest| {
            self.layout_of(table).is_some_and(|layout| layout.slots != newest.slots)
        })
    }

    /// Whether a table of this name is to be moved to the newest layout: one of users that has an
    /// older one, and one that the SQL layer keeps for itself when its node group is drained.
    /// Tables of a session end with the session. A table in a database that SQL does not describe
    /// stays: those who have made it know it by its identity.
    pub fn is_to_be_moved(&self, name: &str, table: TableId) -> bool {
        match kind_of(name) {
            Kind::OfUsers => self.is_described(table) && self.has_older_layout(table),
            Kind::Kept => {
                let retired = |slot: &u16| {
                    let group = self.slots[usize::from(*slot)].group;
                    self.retired.contains(&group)
                };
                self.layout_of(table).is_some_and(|layout| layout.slots.iter().any(retired))
            }
            Kind::Passing => false,
        }
    }

    /// Whether a table of this name is not moved, as it goes by itself: a copy that is to take
    /// another table's place, or a table of one session.
    pub fn goes_by_itself(name: &str) -> bool {
        kind_of(name) == Kind::Passing
    }

    /// Whether SQL nodes know what a table is: others they can read, and not copy.
    fn is_described(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|table| !table.description.is_empty())
    }

    /// How far the move of all tables has come. Looks at all tables.
    pub fn moves(&self) -> Moves {
        let named = self.table_names.iter();
        let named = named.filter(|(name, table)| match kind_of(name) {
            Kind::OfUsers => self.is_described(**table),
            Kind::Kept => true,
            Kind::Passing => false,
        });
        named.fold(Moves::default(), |moves, (name, table)| Moves {
            tables: moves.tables + 1,
            left: moves.left + usize::from(self.is_to_be_moved(name, *table)),
        })
    }

    /// Whether a table, or a hidden one behind it, has a partition in a slot of this group.
    pub fn is_in_group(&self, table: &Table, group: u16) -> bool {
        self.partitions(table).any(|partition| self.slot_of(partition).group == group)
    }

    pub(super) fn check_layouts(&self) {
        let ascend = self.layouts.windows(2).all(|pair| pair[0].after < pair[1].after);
        assert!(ascend, "layouts in order");
        for layout in &self.layouts {
            assert!(!layout.slots.is_empty(), "a layout without slots");
            let known = |slot: &u16| usize::from(*slot) < self.slots.len();
            assert!(layout.slots.iter().all(known), "a layout of unknown slots");
        }
    }
}
