//! Node groups that come and go while the cluster serves.
//!
//! # Owns
//! The effect of the commands that form, open, retire and drop a group, that give it one more
//! replica or one fewer, and of the order to move tables.
//! # Guarantees
//! A node whose replica is dropped is in its group, and in the group's slots, until its life has
//! ended: so what holds for any node that leaves or dies holds for this one. The last node that has
//! all of a slot's rows stays in its group.
//!
//! A group's slots are named by a layout only while all of its nodes are complete, or were when the
//! layout began. A group that is dropped holds no partition of any table. Slots and groups keep
//! their numbers; those of a dropped group are used again.
//! # Not here
//! Moving the tables: the SQL layer copies them, as ALTER TABLE does. When to open a group
//! (`control::growing`).

use model::cluster::{Layout, PlacementSlot, Replica};
use model::{ClusterState, MemberStatus, NodeId, NodeRole};

/// Most slots: a layout has them in two bytes each, and streams name them.
const SLOTS_MAX: usize = 4_096;

/// Most replicas of a row.
pub const REPLICAS_MAX: usize = 4;

/// Forms a group of members that are in none. They have no rows yet: they enter the group's slots
/// as any node that joins.
pub(super) fn create(state: &mut ClusterState, nodes: &[NodeId]) {
    if !state.started || state.stopped || !may_create(state, nodes) {
        return;
    }
    name_layout(state);
    let unused = state.groups.iter().position(Vec::is_empty);
    let group = unused.unwrap_or(state.groups.len());
    if unused.is_none() {
        state.groups.push(Vec::new());
    }
    state.groups[group] = nodes.to_vec();
    let has = state.slots.iter().filter(|slot| usize::from(slot.group) == group).count();
    for _ in has..nodes.len() {
        let slot = PlacementSlot { group: group as u16, replicas: Vec::new(), last: None };
        state.slots.push(slot);
    }
}

/// Makes the slots that all tables use a layout, as there will be others.
fn name_layout(state: &mut ClusterState) {
    if state.layouts.is_empty() {
        let slots = (0..state.slots.len() as u16).collect();
        state.layouts.push(Layout { after: 0, slots });
    }
}

/// Whether a group can be given the node: a data member in no group, which has no rows.
fn is_free(state: &ClusterState, node: NodeId) -> bool {
    let member = state.members.get(&node).is_some_and(|member| {
        member.role == NodeRole::Data && member.status == MemberStatus::Joining
    });
    let placed = state.group_with(node).is_some();
    member && !placed && !state.departing.contains(&node)
}

/// Whether a group of these nodes can be formed: as many as the other groups have, all of them data
/// members in no group.
fn may_create(state: &ClusterState, nodes: &[NodeId]) -> bool {
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let size = state.groups.iter().map(Vec::len).max().unwrap_or(0);
    size > 0
        && nodes.len() == size
        && distinct.len() == size
        && nodes.iter().all(|node| is_free(state, *node))
        && state.slots.len() + size <= SLOTS_MAX
        && state.groups.len() < usize::from(u16::MAX)
}

/// Puts a member that is in no group into one. The node has no rows yet: the leader has it enter
/// the group's slots as any node that joins.
///
/// The slot that the group is to have for it is there from now on, with the replicas that hold the
/// others. No table uses it yet: so all of them know every change that is ever made in it, which
/// change streams count on.
pub(super) fn create_replica(state: &mut ClusterState, group: u16, node: NodeId) {
    let nodes = state.groups.get(usize::from(group)).map_or(0, Vec::len);
    let has_room = (1..REPLICAS_MAX).contains(&nodes) && state.slots.len() < SLOTS_MAX;
    if !state.started || state.stopped || !has_room || !is_free(state, node) {
        return;
    }
    name_layout(state);
    state.groups[usize::from(group)].push(node);
    let of_group = |at: &usize| state.slots[*at].group == group;
    let own: Vec<usize> = (0..state.slots.len()).filter(of_group).collect();
    let like = own.iter().find(|at| state.is_used(**at)).or(own.first());
    let like = like.map(|at| state.slots[*at].clone());
    if let Some(like) = like.filter(|_| own.len() <= nodes) {
        state.slots.push(like);
    }
}

/// Has a node leave its group, which keeps a complete node that stays. One that is being given its
/// rows has to be ended first.
pub(super) fn drop_replica(state: &mut ClusterState, node: NodeId) {
    let Some(group) = state.group_with(node).map(|group| &state.groups[group]) else {
        return;
    };
    let complete = |other: &NodeId| {
        state.members.get(other).is_some_and(|member| member.status == MemberStatus::Active)
    };
    let stays = |other: &&NodeId| **other != node && !state.departing.contains(other);
    let rest = group.iter().filter(stays).any(complete);
    if !state.started || state.stopped || !rest || state.departing.contains(&node) {
        return;
    }
    match state.members.get(&node).map(|member| member.status) {
        Some(MemberStatus::Syncing | MemberStatus::Restoring) => return,
        // It is in no slot yet.
        Some(MemberStatus::Joining) => {
            for group in &mut state.groups {
                group.retain(|other| *other != node);
            }
        }
        Some(MemberStatus::Active | MemberStatus::Leaving) | None => state.departing.push(node),
    }
    name_layout(state);
}

/// Takes the departing nodes out of their groups whose lives have ended, but for those that the
/// rows of a slot have to come back with.
pub(super) fn settle_departures(state: &mut ClusterState) {
    if !state.started || state.departing.is_empty() {
        return;
    }
    let has_left = |node: &NodeId| {
        let is_last = |slot: &PlacementSlot| slot.last == Some(*node);
        !state.members.contains_key(node) && !state.used_slots().any(is_last)
    };
    let (left, departing) = state.departing.iter().partition(|node| has_left(node));
    state.departing = departing;
    let left: Vec<NodeId> = left;
    for group in &mut state.groups {
        group.retain(|node| !left.contains(node));
    }
}

/// New tables use a group from now on, as it is now.
pub(super) fn open(state: &mut ClusterState, group: u16) {
    let Some(nodes) = state.groups.get(usize::from(group)).filter(|nodes| !nodes.is_empty()) else {
        return;
    };
    let complete = |node: &NodeId| {
        state.members.get(node).is_some_and(|member| member.status == MemberStatus::Active)
    };
    let fits = state.started && !state.stopped && !state.layouts.is_empty();
    let as_it_is = state.newest_slots_in(group) == nodes.len();
    if !fits || as_it_is || !nodes.iter().all(complete) {
        return;
    }
    let nodes = nodes.clone();
    let own = one_slot_for_each(state, group, &nodes);
    let mut slots = state.newest_slots();
    slots.retain(|slot| state.slots[usize::from(*slot)].group != group);
    slots.extend(own);
    slots.sort_unstable();
    state.retired.retain(|retired| *retired != group);
    begin(state, slots);
}

/// As many slots of a group as it has nodes; each node is the primary of one of them. Slots that
/// tables use stay as they are; all others of the group have all of its nodes.
fn one_slot_for_each(state: &mut ClusterState, group: u16, nodes: &[NodeId]) -> Vec<u16> {
    let of_group = |slot: &PlacementSlot| slot.group == group;
    let has = state.slots.iter().filter(|slot| of_group(slot)).count();
    for _ in has..nodes.len() {
        state.slots.push(PlacementSlot { group, replicas: Vec::new(), last: None });
    }
    let slots = (0..state.slots.len()).filter(|at| of_group(&state.slots[*at]));
    let own: Vec<usize> = slots.collect();
    for (turn, at) in own.iter().enumerate() {
        if state.is_used(*at) {
            continue;
        }
        let mut nodes = nodes.to_vec();
        let turn = turn % nodes.len();
        nodes.rotate_left(turn);
        let replicas = nodes.into_iter().map(|node| Replica { node, syncing: false }).collect();
        (state.slots[*at].replicas, state.slots[*at].last) = (replicas, None);
    }
    own.into_iter().take(nodes.len()).map(|at| at as u16).collect()
}

/// New tables do not use a group any more; those that do are to be moved.
pub(super) fn retire(state: &mut ClusterState, group: u16) {
    if !state.started || state.stopped || state.layouts.is_empty() || !state.is_open(group) {
        return;
    }
    let of_group = |slot: &u16| state.slots[usize::from(*slot)].group == group;
    let mut slots = state.newest_slots();
    slots.retain(|slot| !of_group(slot));
    if !slots.is_empty() {
        begin(state, slots);
        state.retired.push(group);
        state.reorganizing = true;
    }
}

/// Ends a group that holds nothing: its nodes leave.
pub(super) fn drop(state: &mut ClusterState, group: u16) {
    let Some(nodes) = state.groups.get(usize::from(group)).filter(|nodes| !nodes.is_empty()) else {
        return;
    };
    let nodes = nodes.clone();
    if !state.started || state.stopped || state.layouts.is_empty() || state.is_open(group) {
        return;
    }
    let mut rest = state.clone();
    forget_layouts(&mut rest);
    let of_group = |at: &usize| state.slots[*at].group == group;
    let of_group: Vec<usize> = (0..state.slots.len()).filter(of_group).collect();
    if of_group.iter().any(|at| rest.is_used(*at)) {
        return;
    }
    *state = rest;
    for at in of_group {
        (state.slots[at].replicas, state.slots[at].last) = (Vec::new(), None);
    }
    state.groups[usize::from(group)] = Vec::new();
    state.departing.retain(|node| !nodes.contains(node));
    state.retired.retain(|retired| *retired != group);
    for node in nodes {
        if let Some(member) = state.members.get_mut(&node)
            && member.status != MemberStatus::Joining
        {
            member.status = MemberStatus::Leaving;
        }
    }
}

/// Tables of older layouts are to be moved to the newest, or are to stay where they are.
pub(super) fn reorganize(state: &mut ClusterState, wanted: bool) {
    if state.started && !state.stopped {
        forget_layouts(state);
        state.reorganizing = wanted;
    }
}

/// Tables that are made from now on use these slots.
fn begin(state: &mut ClusterState, slots: Vec<u16>) {
    let after = state.next_id;
    match state.layouts.last_mut() {
        Some(last) if last.after == after => last.slots = slots,
        _ => state.layouts.push(Layout { after, slots }),
    }
    forget_layouts(state);
}

/// Forgets the layouts that no table has; the newest stays.
fn forget_layouts(state: &mut ClusterState) {
    let mut has = vec![false; state.layouts.len()];
    let begins: Vec<u32> = state.layouts.iter().map(|layout| layout.after).collect();
    for table in state.tables.keys() {
        let at = begins.partition_point(|after| *after < table.anchor().0);
        has[at.saturating_sub(1)] = true;
    }
    let last = has.len().saturating_sub(1);
    let mut at = 0;
    state.layouts.retain(|_| {
        at += 1;
        has[at - 1] || at - 1 == last
    });
}
