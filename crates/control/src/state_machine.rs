//! Applies the commands of the control log to the cluster state.
//!
//! # Owns
//! `apply`: pure and deterministic, so that every node that has applied the same log holds the
//! same state. A command that no longer fits changes nothing but the index: commands are proposed
//! from a state that may be behind, and they are repeated.
//! # Guarantees
//! Every state returned passes [`ClusterState::check`].
//! # Not here
//! When to propose what (`control::leadership`); agreement on the log (`consensus`).

mod catalog;
mod groups;
mod primaries;

pub use groups::REPLICAS_MAX;

use model::cluster::Configured;
use model::{
    ClusterId, ClusterState, Command, ControlIndex, Epoch, ErrorCode, Incarnation, Member,
    MemberStatus, NodeId, NodeRole, Returned, SchemaChange, SessionId, cluster,
};

/// Most sessions whose last schema answer is remembered.
pub const SCHEMA_SESSIONS_MAX: usize = 1_024;

/// The state after `command`, which is entry `index` of the log.
pub fn apply(state: &ClusterState, index: ControlIndex, command: &Command) -> ClusterState {
    assert!(index > state.index, "entry {index} applied after {}", state.index);
    let mut next = state.clone();
    next.index = index;
    match command {
        Command::Found { cluster, protocol } => {
            if next.id == ClusterId(0) {
                next.id = *cluster;
                next.protocol = *protocol;
            }
        }
        Command::AddMember { node, incarnation, voter, role, workers } => {
            let member = Member {
                incarnation: *incarnation,
                voter: *voter,
                role: *role,
                workers: *workers,
                status: MemberStatus::Joining,
                joined_at: index,
            };
            add_member(&mut next, *node, member);
        }
        Command::Restart { generation, epoch, members } => {
            restart(&mut next, *generation, *epoch, members);
        }
        Command::Reopen { generation } => reopen(&mut next, *generation),
        Command::RemoveMember { node, incarnation } => {
            remove_member(&mut next, *node, *incarnation);
        }
        Command::Start { groups } => start(&mut next, groups),
        Command::StartSync { node, incarnation } => start_sync(&mut next, *node, *incarnation),
        Command::Activate { node, incarnation } => activate(&mut next, *node, *incarnation),
        Command::HoldGroup { group } => primaries::hold(&mut next, *group),
        Command::MovePrimaries { held } => primaries::spread(&mut next, *held),
        Command::ReleaseGroup { held } => primaries::release(&mut next, *held),
        Command::Leave { node, incarnation } => leave(&mut next, *node, *incarnation),
        Command::CreateGroup { nodes } => groups::create(&mut next, nodes),
        Command::CreateReplica { group, node } => {
            groups::create_replica(&mut next, *group, *node);
        }
        Command::DropReplica { node } => groups::drop_replica(&mut next, *node),
        Command::OpenGroup { group } => groups::open(&mut next, *group),
        Command::RetireGroup { group } => groups::retire(&mut next, *group),
        Command::DropGroup { group } => groups::drop(&mut next, *group),
        Command::Reorganize { wanted } => groups::reorganize(&mut next, *wanted),
        Command::Configure { text, revision } => {
            let before = next.configured.as_ref();
            if let Some(after) = Configured::after(before, text, revision) {
                next.configured = Some(after);
            }
        }
        Command::Finalize { protocol } => next.protocol = next.protocol.max(*protocol),
        Command::TakeoverDone { node, incarnation } => {
            next.takeovers.retain(|t| t.node != *node || t.incarnation != *incarnation);
        }
        Command::Schema { session, number, change } => {
            schema(&mut next, *session, *number, change);
        }
    }
    groups::settle_departures(&mut next);
    next.check_since(state);
    next
}

/// Whether `command` would change nothing: it was applied already, or no longer fits.
pub fn moot(state: &ClusterState, command: &Command) -> bool {
    let mut next = apply(state, ControlIndex(state.index.0 + 1), command);
    next.index = state.index;
    next == *state
}

fn add_member(state: &mut ClusterState, node: NodeId, member: Member) {
    // The old life's transactions must be settled before its successor may open new ones:
    // participants tell coordinators apart by node and life, but a takeover asks for a node's.
    let unsettled = state.takeovers.iter().any(|t| t.node == node);
    let newest = state.incarnations.get(&node).is_none_or(|last| member.incarnation > *last);
    let free = !state.members.contains_key(&node) && state.id != ClusterId(0);
    if state.stopped || unsettled || !newest || !free || member.workers == 0 {
        return;
    }
    state.incarnations.insert(node, member.incarnation);
    state.members.insert(node, member);
}

fn remove_member(state: &mut ClusterState, node: NodeId, incarnation: Incarnation) {
    let Some(member) = state.member(node, incarnation) else {
        return;
    };
    let takeover = cluster::Takeover { node, incarnation, workers: member.workers };
    let had_coordinators = state.started && member.role == NodeRole::Data;
    state.members.remove(&node);
    if had_coordinators {
        state.takeovers.push(takeover);
    }
    for at in 0..state.slots.len() {
        let used = state.is_used(at);
        let slot = &mut state.slots[at];
        let held = slot.replicas.iter().any(|r| r.node == node && !r.syncing);
        remove_replica(&mut slot.replicas, node);
        if slot.replicas.is_empty() && held {
            slot.last = Some(node);
        }
        state.stopped |= slot.replicas.is_empty() && used;
    }
}

/// Takes a node out of a chain. When it was the primary, the first active replica is promoted and
/// the syncing ones follow it, as they are fed by the primary.
fn remove_replica(replicas: &mut Vec<cluster::Replica>, node: NodeId) {
    let was_primary = replicas.first().is_some_and(|r| r.node == node);
    replicas.retain(|r| r.node != node);
    if !was_primary {
        return;
    }
    let (syncing, mut active): (Vec<_>, Vec<_>) = replicas.iter().copied().partition(|r| r.syncing);
    if !active.is_empty() {
        // Without an active replica there is nothing the syncing ones could be completed from.
        let _promoted = active.splice(1..1, syncing);
    }
    *replicas = active;
}

fn start(state: &mut ClusterState, groups: &[Vec<NodeId>]) {
    if state.started || state.stopped || !groups_fit(state, groups) {
        return;
    }
    for (position, group) in groups.iter().enumerate() {
        for rotation in 0..group.len() {
            // Each node of the group is primary of one of its slots, so that work is even.
            let mut nodes = group.clone();
            nodes.rotate_left(rotation);
            let replicas =
                nodes.iter().map(|node| cluster::Replica { node: *node, syncing: false }).collect();
            state.slots.push(cluster::PlacementSlot {
                group: position as u16,
                replicas,
                last: None,
            });
        }
    }
    state.groups = groups.to_vec();
    state.started = true;
    for (node, member) in &mut state.members {
        if member.role == NodeRole::Management || groups.iter().any(|g| g.contains(node)) {
            member.status = MemberStatus::Active;
        }
    }
}

/// Every slot goes on with those that are back and have all its rows; nothing changes while a slot
/// has none.
fn restart(state: &mut ClusterState, generation: u32, epoch: Epoch, back: &[Returned]) {
    let next = state.restarts.len() as u32 + 1;
    let is_back = |node: NodeId| back.iter().any(|one| one.node == node);
    let covered = state.used_slots().all(|slot| slot.sources().any(is_back));
    let fits = generation == next && epoch.generation() < generation && !state.slots.is_empty();
    if !fits || !covered || !back.iter().all(|one| may_return(state, one)) {
        return;
    }
    for slot in &mut state.slots {
        let sources: Vec<NodeId> = slot.sources().filter(|node| is_back(*node)).collect();
        slot.replicas =
            sources.iter().map(|node| cluster::Replica { node: *node, syncing: false }).collect();
        slot.last = None;
    }
    state.members.clear();
    for one in back {
        let status = match one.role {
            NodeRole::Data => MemberStatus::Restoring,
            NodeRole::Management => MemberStatus::Active,
        };
        let member = Member {
            incarnation: one.incarnation,
            voter: one.voter,
            role: one.role,
            workers: one.workers,
            status,
            joined_at: state.index,
        };
        state.incarnations.insert(one.node, one.incarnation);
        state.members.insert(one.node, member);
    }
    state.takeovers.clear();
    state.held = None;
    catalog::rebuild_indexes(state, epoch);
    state.restarts.push(epoch);
    state.started = false;
    state.stopped = false;
}

/// Whether a node may take part in a restart: with a new life and all rows of its slots if it is a
/// data node. A management node may have lived through all of it.
fn may_return(state: &ClusterState, one: &Returned) -> bool {
    let newest = state.incarnations.get(&one.node).is_none_or(|last| one.incarnation > *last)
        || (one.role == NodeRole::Management && state.member(one.node, one.incarnation).is_some());
    let placed = state.group_with(one.node).is_some();
    let fits = match one.role {
        NodeRole::Data => has_all_rows(state, one.node),
        NodeRole::Management => !placed,
    };
    newest && one.workers > 0 && fits
}

/// Whether a node is in a group and is a source of all of the group's slots that tables use; of all
/// slots where tables use none.
pub fn has_all_rows(state: &ClusterState, node: NodeId) -> bool {
    let own = || {
        let slots = state.slots.iter().enumerate();
        slots.filter(|(_, slot)| state.group_of(slot).contains(&node))
    };
    let is_used = own().any(|(at, _)| state.is_used(at));
    let mut places = own().filter(|(at, _)| !is_used || state.is_used(*at));
    own().next().is_some() && places.all(|(_, slot)| slot.sources().any(|other| other == node))
}

fn reopen(state: &mut ClusterState, generation: u32) {
    let current = state.restarts.len() as u32 == generation && generation > 0;
    if state.started || state.stopped || !current {
        return;
    }
    state.started = true;
    for member in state.members.values_mut() {
        if member.status == MemberStatus::Restoring {
            member.status = MemberStatus::Active;
        }
    }
}

/// Groups must be of one size and made of data members, each once.
fn groups_fit(state: &ClusterState, groups: &[Vec<NodeId>]) -> bool {
    let mut nodes: Vec<NodeId> = groups.iter().flatten().copied().collect();
    let count = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    let size = groups.first().map_or(0, Vec::len);
    let members =
        nodes.iter().all(|node| state.members.get(node).is_some_and(|m| m.role == NodeRole::Data));
    size > 0
        && nodes.len() == count
        && members
        && groups.iter().all(|group| group.len() == size)
        && groups.len() <= usize::from(u16::MAX)
}

fn start_sync(state: &mut ClusterState, node: NodeId, incarnation: Incarnation) {
    let fits = state.started && !state.stopped;
    let group = state.group_with(node);
    let joining = state
        .member(node, incarnation)
        .is_some_and(|m| m.role == NodeRole::Data && m.status == MemberStatus::Joining);
    let (true, true, Some(group)) = (fits, joining, group) else {
        return;
    };
    for slot in state.slots.iter_mut().filter(|slot| usize::from(slot.group) == group) {
        // Where nobody is, there is nothing to be given: no table uses the slot.
        let first = slot.replicas.is_empty();
        let at = usize::from(!first);
        slot.replicas.insert(at, cluster::Replica { node, syncing: !first });
        slot.last = None;
    }
    set_status(state, node, MemberStatus::Syncing);
}

fn activate(state: &mut ClusterState, node: NodeId, incarnation: Incarnation) {
    let Some(member) = state.member(node, incarnation) else {
        return;
    };
    let complete = match member.role {
        NodeRole::Data => member.status == MemberStatus::Syncing,
        NodeRole::Management => state.started && member.status == MemberStatus::Joining,
    };
    if !complete {
        return;
    }
    for slot in &mut state.slots {
        for replica in slot.replicas.iter_mut().filter(|r| r.node == node) {
            replica.syncing = false;
        }
    }
    set_status(state, node, MemberStatus::Active);
}

fn leave(state: &mut ClusterState, node: NodeId, incarnation: Incarnation) {
    let active = state.member(node, incarnation).is_some_and(|m| m.status == MemberStatus::Active);
    // A node that holds the last complete copy of something may not take it away.
    let stays = |r: &cluster::Replica| {
        r.node != node && !r.syncing && state.members[&r.node].status == MemberStatus::Active
    };
    let replaceable = state.used_slots().all(|slot| {
        !slot.replicas.iter().any(|r| r.node == node) || slot.replicas.iter().any(stays)
    });
    if active && replaceable {
        set_status(state, node, MemberStatus::Leaving);
    }
}

fn set_status(state: &mut ClusterState, node: NodeId, status: MemberStatus) {
    state.members.get_mut(&node).expect("the caller has found the member").status = status;
}

fn schema(state: &mut ClusterState, session: SessionId, number: u64, change: &SchemaChange) {
    if state.schema_answers.get(&session).is_some_and(|(last, _)| *last >= number) {
        return;
    }
    let answer = if state.stopped {
        Err(ErrorCode::ClusterStopped)
    } else if state.started {
        catalog::change(state, change)
    } else {
        Err(ErrorCode::NotServing)
    };
    state.schema_sessions.retain(|s| *s != session);
    state.schema_sessions.push_back(session);
    state.schema_answers.insert(session, (number, answer));
    if state.schema_sessions.len() > SCHEMA_SESSIONS_MAX {
        let forgotten = state.schema_sessions.pop_front().expect("the list is longer than zero");
        state.schema_answers.remove(&forgotten);
    }
}

#[cfg(test)]
mod tests;
