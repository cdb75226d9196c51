//! Orders about node groups: what a state of the cluster allows, in words.
//!
//! # Not here
//! What the commands do (`control::state_machine::groups`).

use std::sync::Arc;

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
    MovesStatus { wanted, tables, left, first_left, groups }
}

/// Checks an order, and has its command logged; what is told of it.
pub(super) fn carry_out(board: &Board, order: &GroupOrder) -> Result<String, String> {
    let state = board.state();
    if !state.started || state.stopped {
        return Err("the cluster does not serve".into());
    }
    let (command, text) = match order {
        GroupOrder::Create { nodes } => create(&state, nodes)?,
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
            "a node group has {size} nodes here (NoOfReplicas), not {}",
            nodes.len()
        ));
    }
    for (at, node) in nodes.iter().enumerate() {
        let id = NodeId(*node);
        if nodes[..at].contains(node) {
            return Err(format!("node {node} is named twice"));
        }
        if let Some(group) = state.groups.iter().position(|group| group.contains(&id)) {
            return Err(format!("node {node} is in node group {group}"));
        }
        match state.members.get(&id) {
            Some(member) if member.role != NodeRole::Data => {
                return Err(format!("node {node} is no data node"));
            }
            Some(member) if member.status == MemberStatus::Joining => {}
            Some(_) => return Err(format!("node {node} is leaving")),
            None => {
                return Err(format!(
                    "node {node} is not there: it has to be in the configuration with \
                     NodeGroup=65536, and to run"
                ));
            }
        }
    }
    let list: Vec<String> = nodes.iter().map(u16::to_string).collect();
    let nodes = nodes.iter().copied().map(NodeId).collect();
    Ok((Command::CreateGroup { nodes }, format!("nodes {} become a node group", list.join(", "))))
}
