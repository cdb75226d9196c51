//! Orders about node groups: what a state of the cluster allows, in words.
//!
//! # Not here
//! What the commands do (`control::state_machine::groups`).

use std::sync::Arc;

use control::state_machine::{self, REPLICAS_MAX};
use model::{ClusterState, Command, MemberStatus, NodeId, NodeRole, Table};

use crate::role::operator::Board;
use crate::role::request::{GroupMoves, GroupOrder, MovesStatus};

/// So many tables are named that are to be moved.
const NAMED: usize = 5;

/// How far the move of tables has come.
pub(super) fn moves(state: &ClusterState) -> MovesStatus {
    let moves = state.moves();
    let numbered = (0_u16..).zip(&state.groups).filter(|(_, nodes)| !nodes.is_empty());
    let groups = numbered.map(|(group, nodes)| GroupMoves {
        group,
        nodes: nodes.iter().map(|node| node.0).collect(),
        open: state.is_open(group),
        tables: state.tables.values().filter(|table| state.is_in_group(table, group)).count(),
    });
    let groups = groups.collect();
    let left = state.table_names.iter().filter(|(name, id)| state.is_to_be_moved(name, **id));
    let first_left = left.take(NAMED).map(|(name, _)| name.to_string()).collect();
    let (wanted, tables, left) = (state.reorganizing, moves.tables, moves.left);
    let departing = state.departing.iter().map(|node| node.0).collect();
    MovesStatus { wanted, tables, left, first_left, groups, departing }
}

/// Checks an order, and has its command logged; what is told of it.
pub(super) fn carry_out(board: &Board, order: &GroupOrder) -> Result<String, String> {
    let state = board.state();
    if !state.started || state.stopped {
        return Err("the cluster does not serve".into());
    }
    let (command, text) = match order {
        GroupOrder::Create { nodes } => create(&state, nodes)?,
        GroupOrder::CreateReplica { node, group } => create_replica(&state, *node, *group)?,
        GroupOrder::DropReplica { node } => drop_replica(&state, *node)?,
        GroupOrder::Drain { group } => {
            known(&state, *group)?;
            let others = (0..state.groups.len() as u16).filter(|other| other != group);
            if others.filter(|other| state.is_open(*other)).count() == 0 {
                return Err(format!("node group {group} is the only one that new tables use"));
            }
            let text = format!("node group {group} is drained: SQL nodes move its tables");
            (Command::RetireGroup { group: *group }, text)
        }
        GroupOrder::Drop { group } => {
            known(&state, *group)?;
            if state.is_open(*group) {
                return Err(format!("new tables use node group {group}; `drain {group}` first"));
            }
            let holds = state.tables.values().filter(|table| state.is_in_group(table, *group));
            let held: Vec<&Arc<Table>> = holds.collect();
            if let Some(first) = held.first() {
                let base = first.hidden_behind.and_then(|base| state.tables.get(&base));
                return Err(format!(
                    "node group {group} holds {} tables, {} among them; {}",
                    held.len(),
                    first.name,
                    way_out(&state, base.unwrap_or(first))
                ));
            }
            let text = format!("node group {group} is dropped: its nodes leave and end");
            (Command::DropGroup { group: *group }, text)
        }
        GroupOrder::Rebalance => {
            let moves = state.moves();
            let text = format!("{} of {} tables are to be moved", moves.left, moves.tables);
            (Command::Reorganize { wanted: true }, text)
        }
        GroupOrder::Stop => {
            let text = "no more tables are moved; what is under way is broken off";
            (Command::Reorganize { wanted: false }, text.to_string())
        }
    };
    if state.finalized() < command.since() {
        return Err(
            "the cluster has not ended its upgrade to this release, and older programs do \
                    not know this order: restart what is older, then `nines ctl upgrade finalize`"
                .into(),
        );
    }
    board.order(command);
    Ok(text)
}

fn known(state: &ClusterState, group: u16) -> Result<(), String> {
    let nodes = state.groups.get(usize::from(group)).filter(|nodes| !nodes.is_empty());
    nodes.map(|_| ()).ok_or_else(|| format!("there is no node group {group}; see `groups`"))
}

/// How a table comes to leave a group that is to be dropped.
fn way_out(state: &ClusterState, table: &Table) -> &'static str {
    if ClusterState::goes_by_itself(&table.name) {
        "it goes when the session ends that made it, or within five minutes when that is dead"
    } else if state.is_to_be_moved(&table.name, table.id) {
        "`rebalance` moves them"
    } else {
        "it was made without SQL and cannot be moved: drop it"
    }
}

fn create(state: &ClusterState, nodes: &[u16]) -> Result<(Command, String), String> {
    let size = state.groups.iter().map(Vec::len).max().unwrap_or(0);
    if nodes.len() != size {
        return Err(format!(
            "a node group has {size} nodes here, as the largest has, not {}",
            nodes.len()
        ));
    }
    for (at, node) in nodes.iter().enumerate() {
        if nodes[..at].contains(node) {
            return Err(format!("node {node} is named twice"));
        }
        free(state, *node)?;
    }
    let list: Vec<String> = nodes.iter().map(u16::to_string).collect();
    let nodes = nodes.iter().copied().map(NodeId).collect();
    Ok((Command::CreateGroup { nodes }, format!("nodes {} become a node group", list.join(", "))))
}

/// Whether a node can be given to a group; why not, if it cannot.
fn free(state: &ClusterState, node: u16) -> Result<(), String> {
    let id = NodeId(node);
    if let Some(group) = state.group_with(id) {
        return Err(format!("node {node} is in node group {group}"));
    }
    match state.members.get(&id) {
        Some(member) if member.role != NodeRole::Data => {
            Err(format!("node {node} is no data node"))
        }
        Some(member) if member.status == MemberStatus::Joining => Ok(()),
        Some(_) => Err(format!("node {node} is leaving")),
        None => Err(format!(
            "node {node} is not there: it has to be in the configuration with NodeGroup=65536, \
             and to run"
        )),
    }
}

fn create_replica(
    state: &ClusterState,
    node: u16,
    group: u16,
) -> Result<(Command, String), String> {
    known(state, group)?;
    free(state, node)?;
    let command = Command::CreateReplica { group, node: NodeId(node) };
    let copies = state.groups[usize::from(group)].len();
    if copies >= REPLICAS_MAX {
        return Err(format!(
            "node group {group} has {copies} replicas of its rows, and at most {REPLICAS_MAX} are \
             possible"
        ));
    }
    if state_machine::moot(state, &command) {
        return Err("the cluster has as many shares of partitions as it can have".into());
    }
    let text = format!(
        "node {node} becomes replica {} of node group {group}: its rows are copied to it; `show` \
         tells when they are there",
        copies + 1
    );
    Ok((command, text))
}

fn drop_replica(state: &ClusterState, node: u16) -> Result<(Command, String), String> {
    let id = NodeId(node);
    let Some(group) = state.group_with(id) else {
        return Err(format!("node {node} is in no node group; see `groups`"));
    };
    if state.departing.contains(&id) {
        return Err(format!("node {node} leaves node group {group} already"));
    }
    let command = Command::DropReplica { node: id };
    if state.members.get(&id).is_some_and(|member| member.status == MemberStatus::Syncing) {
        return Err(format!(
            "node {node} is being given its rows: `stop {node}` first, then `drop replica {node}`"
        ));
    }
    if state_machine::moot(state, &command) {
        return Err(format!(
            "node {node} may have the only complete copy of the rows of node group {group}: \
             another node of it has to be there and complete; to end the whole group, `drain \
             {group}` and `drop nodegroup {group}`"
        ));
    }
    let text = match state.members.get(&id).map(|member| member.status) {
        Some(MemberStatus::Joining) => {
            format!("node {node} is in no node group any more, and waits as a spare node")
        }
        Some(_) => format!(
            "node {node} leaves node group {group} when the others can do without it, and its \
             process ends"
        ),
        None => format!("node {node}, which is not there, is in no node group any more"),
    };
    Ok((command, text))
}
