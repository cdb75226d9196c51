//! A node group that comes and goes while the cluster works and faults strike, and the moves of
//! tables to it and away from it.
//!
//! # Owns
//! What an operator orders, and when: the group is formed, tables are moved to it, it is drained
//! and dropped, and formed again. Or a group gets one more replica, and loses one.
//! # Not here
//! The faults that strike meanwhile (the other modules); what becomes of the tables (SQL nodes).

use model::{ClusterState, Command, MemberStatus, NodeId};
use stdx::Duration;

use super::Chaos;
use crate::world::{Kind, World};

/// Beginning of the names of tables that no SQL node has made, and that none can move.
const NOT_OF_SQL: &str = "sim.";
/// Faults strike for so long at least where tables move.
pub(super) const SPAN_MIN: Duration = Duration::from_secs(3);
/// How long a calm cluster that is used may take for each step, in seconds.
const SECONDS_MAX: u64 = 120;

impl Chaos {
    /// Orders a node group, or a replica, of the data nodes that are in none, if there are any.
    /// What strikes next strikes while they come.
    pub fn grow(&mut self, world: &mut World) {
        let nodes = world.setup().config.spare_nodes.clone();
        if world.setup().replica_orders {
            return self.order_replicas(world);
        }
        if nodes.is_empty() {
            return;
        }
        self.order(world, Command::CreateGroup { nodes });
    }

    fn order(&mut self, world: &mut World, command: Command) {
        for node in world.nodes(Kind::Management) {
            world.order(node, command.clone());
        }
        self.note(world, format!("an operator orders {command:?}"));
    }

    /// Orders a further replica of a group if a node is in none, and otherwise that a node leaves a
    /// group that has one more than it was founded with. Each may be another one than an operator
    /// would choose: complete or not, the only primary, the one that leads.
    pub(super) fn order_replicas(&mut self, world: &mut World) {
        let state = world.newest_state();
        if !world.setup().replica_orders || !state.started || !self.of_groups.percent(60) {
            return;
        }
        let nodes = world.nodes(Kind::Data);
        let placed = state.groups.concat();
        if let Some(node) = nodes.iter().find(|node| !placed.contains(node)) {
            let group = self.of_groups.between(0, state.groups.len() as u64 - 1) as u16;
            return self.order(world, Command::CreateReplica { group, node: *node });
        }
        let founded = usize::from(world.setup().replicas);
        let wide = state.groups.iter().filter(|nodes| nodes.len() > founded);
        let nodes: Vec<NodeId> = wide.flatten().copied().collect();
        if !nodes.is_empty() && self.of_groups.percent(40) {
            let node = *self.of_groups.pick(&nodes);
            self.order(world, Command::DropReplica { node });
        }
    }

    /// The group of the spare nodes, while there is one.
    fn spare_group(world: &World, state: &ClusterState) -> Option<u16> {
        let node = *world.setup().config.spare_nodes.first()?;
        let at = state.group_with(node)?;
        Some(at as u16)
    }

    /// Orders the next step of the group's life, or another one than an operator in his right mind
    /// would order now.
    pub(super) fn order_moves(&mut self, world: &mut World) {
        let state = world.newest_state();
        if !world.setup().moves || !state.started || !self.of_groups.percent(60) {
            return;
        }
        let Some(group) = Self::spare_group(world, &state) else {
            return self.grow(world);
        };
        let is_open = state.is_open(group);
        let is_over = left(&state, true).is_none();
        if is_open && (is_over && self.of_groups.percent(50) || self.of_groups.percent(10)) {
            self.order(world, Command::RetireGroup { group });
        } else if !is_open
            && holder(&state, group, true).is_none()
            && state.retired.contains(&group)
        {
            self.order(world, Command::DropGroup { group });
        } else if state.reorganizing && self.of_groups.percent(10) {
            self.order(world, Command::Reorganize { wanted: false });
        } else if !state.reorganizing && !is_over {
            self.order(world, Command::Reorganize { wanted: true });
        }
    }

    /// Orders something, again and again, until it shows.
    fn insist(
        &mut self,
        world: &mut World,
        command: &Command,
        done: impl Fn(&ClusterState) -> bool,
    ) -> Result<(), String> {
        for _ in 0..SECONDS_MAX {
            if done(&world.newest_state()) {
                return Ok(());
            }
            self.order(world, command.clone());
            world.run_until(Duration::from_secs(1), |world| done(&world.newest_state()));
        }
        Err(format!("in {SECONDS_MAX} s {command:?} is not carried out"))
    }

    /// In a calm cluster that is used all tables come to be where new ones are made: in the group
    /// and outside of it, or only outside of it.
    ///
    /// # Errors
    /// They do not.
    pub fn settle_tables(&mut self, world: &mut World) -> Result<(), String> {
        let nodes = world.setup().config.spare_nodes.clone();
        let own = nodes.clone();
        let group_of = move |state: &ClusterState| {
            let group = state.groups.iter().position(|group| group.contains(&own[0]))?;
            Some(group as u16)
        };
        let open = |state: &ClusterState, group| state.is_open(group);
        let known = |state: &ClusterState| {
            let group = group_of(state);
            group.is_some_and(|group| open(state, group) || state.retired.contains(&group))
        };
        self.insist(world, &Command::CreateGroup { nodes }, known)?;
        let group = group_of(&world.newest_state()).ok_or("the node group is gone")?;
        if self.of_groups.percent(60) {
            self.insist(world, &Command::RetireGroup { group }, |state| !open(state, group))?;
        }
        // Where none is left the order is carried out at once.
        let heard = |state: &ClusterState| state.reorganizing || left(state, true).is_none();
        self.insist(world, &Command::Reorganize { wanted: true }, heard)?;
        let moved = |world: &World| left(&world.newest_state(), false).is_none();
        if !world.run_until(Duration::from_secs(SECONDS_MAX), moved) {
            let left = left(&world.newest_state(), false);
            return Err(format!("in {SECONDS_MAX} s {left:?} is not moved"));
        }
        self.note(world, "all tables are moved".into());
        Ok(())
    }

    /// When no session works any more, a group that is drained is dropped: also what the SQL layer
    /// keeps for itself leaves it. Where a claim holds a table there, the group stays.
    ///
    /// # Errors
    /// It cannot be dropped.
    pub fn settle_group(&mut self, world: &mut World) -> Result<(), String> {
        let state = world.newest_state();
        let group = Self::spare_group(world, &state);
        let Some(group) = group.filter(|group| state.retired.contains(group)) else {
            return Ok(());
        };
        let moved = |world: &World| holder(&world.newest_state(), group, false).is_none();
        if !world.run_until(Duration::from_secs(SECONDS_MAX), moved) {
            let name = holder(&world.newest_state(), group, false);
            return Err(format!("{name:?} keeps the drained group {group} from being dropped"));
        }
        if let Some(name) = holder(&world.newest_state(), group, true) {
            self.note(world, format!("{name} is still claimed: group {group} stays"));
            return Ok(());
        }
        let gone = |state: &ClusterState| state.groups[usize::from(group)].is_empty();
        self.insist(world, &Command::DropGroup { group }, gone)?;
        // Its nodes end, and come back without a group.
        let back = |world: &World| {
            let state = world.newest_state();
            world.setup().config.spare_nodes.iter().all(|node| {
                let member = state.member(*node, world.incarnation(*node));
                member.is_some_and(|member| member.status == MemberStatus::Joining)
            })
        };
        if !world.run_until(Duration::from_secs(SECONDS_MAX), back) {
            return Err(format!("the nodes of the dropped group {group} do not leave it"));
        }
        self.note(world, format!("the group {group} is dropped"));
        Ok(())
    }
}

/// A table of SQL that is to be moved; with `kept`, also one that the SQL layer keeps for itself.
fn left(state: &ClusterState, kept: bool) -> Option<String> {
    let mut named = state.table_names.iter().filter(|(name, table)| {
        let of_sql = !name.starts_with(NOT_OF_SQL) && (kept || !name.starts_with('#'));
        of_sql && state.is_to_be_moved(name, **table)
    });
    named.next().map(|(name, _)| name.to_string())
}

/// Beginnings of the names of tables that stay as long as somebody has a claim on them: a session,
/// also one that is not known to be dead yet, or whoever drives an archive.
const CLAIMED: [&str; 2] = ["#temporary/", "#archive-claims"];

/// A table that is in the group, hidden ones included; with `claimed`, also one of a claim.
fn holder(state: &ClusterState, group: u16, claimed: bool) -> Option<String> {
    let mut held = state.tables.values().filter(|table| {
        let base = table.hidden_behind.and_then(|base| state.tables.get(&base)).unwrap_or(table);
        let is_claimed = CLAIMED.iter().any(|beginning| base.name.starts_with(beginning));
        (claimed || !is_claimed) && state.is_in_group(table, group)
    });
    held.next().map(|table| table.name.clone())
}
