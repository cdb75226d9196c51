//! `nines ctl create nodegroup`, `drain`, `drop nodegroup`, `create replica`, `drop replica`,
//! `rebalance`.

use std::thread;
use std::time::Duration;

use super::Session;
use super::table::Table;
use crate::role::request::{GroupOrder, MovesStatus, Request};

/// An order about node groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// How far the move of tables has come.
    Look,
    /// A change.
    Change(GroupOrder),
}

impl Order {
    pub(super) fn only_reads(&self) -> bool {
        *self == Self::Look
    }
}

/// How long the cluster may take to show that an order is carried out.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Reads what follows one of the words.
pub(super) fn read(first: &str, rest: &[&str]) -> Result<Order, String> {
    let change = match (first, rest) {
        ("create", ["nodegroup", ids @ ..]) if !ids.is_empty() => {
            let ids = ids.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
            GroupOrder::Create { nodes: ids.map(id).collect::<Result<_, _>>()? }
        }
        ("create", ["replica", node, "nodegroup", group]) => {
            GroupOrder::CreateReplica { node: id(node)?, group: number(group)? }
        }
        ("create", _) => {
            let what =
                "create what? `create nodegroup ID,ID` or `create replica ID nodegroup GROUP`";
            return Err(what.into());
        }
        ("drop", ["nodegroup", group]) => GroupOrder::Drop { group: number(group)? },
        ("drop", ["replica", node]) => GroupOrder::DropReplica { node: id(node)? },
        ("drop", _) => {
            return Err("drop what? `drop nodegroup GROUP` or `drop replica ID`".into());
        }
        ("drain", [group] | ["nodegroup", group]) => GroupOrder::Drain { group: number(group)? },
        ("drain", _) => return Err("drain what? `drain GROUP`, with the number of a group".into()),
        (_, []) => GroupOrder::Rebalance,
        (_, ["stop" | "cancel"]) => GroupOrder::Stop,
        (_, ["status"]) => return Ok(Order::Look),
        (_, [surplus, ..]) => return Err(format!("`{surplus}` is too much after `{first}`")),
    };
    Ok(Order::Change(change))
}

fn id(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("`{word}` is no node id"))
}

fn number(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("`{word}` is no number of a node group; see `groups`"))
}

/// Carries an order out.
pub(super) fn run(ctl: &mut Session<'_>, json: bool, order: &Order) -> Result<(), String> {
    let change = match order {
        Order::Look => {
            let told: MovesStatus = ctl.ask(&Request::Moves)?;
            return ctl.answer(json, &told, text);
        }
        Order::Change(change) => change,
    };
    let told: String = ctl.ask(&Request::Grow(change.clone()))?;
    ctl.line(&told)?;
    let mut waited = Duration::ZERO;
    loop {
        let now: MovesStatus = ctl.ask(&Request::Moves)?;
        if is_done(&now, change) {
            return ctl.answer(false, &now, text);
        }
        if waited >= PATIENCE {
            return Err("the cluster does not show it yet; `rebalance status` tells when".into());
        }
        thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// Whether the state of the cluster shows what was ordered. Moves take their time: they are only
/// begun.
fn is_done(now: &MovesStatus, change: &GroupOrder) -> bool {
    let of = |number: u16| now.groups.iter().find(|group| group.group == number);
    match change {
        GroupOrder::Create { nodes } => now.groups.iter().any(|group| {
            let mut sorted = [group.nodes.clone(), nodes.clone()];
            sorted.iter_mut().for_each(|nodes| nodes.sort_unstable());
            group.open && sorted[0] == sorted[1]
        }),
        GroupOrder::Drain { group } => of(*group).is_none_or(|group| !group.open),
        GroupOrder::Drop { group } => of(*group).is_none(),
        // The copy takes as long as that to any node that comes back: it is only begun.
        GroupOrder::CreateReplica { node, group } => {
            of(*group).is_some_and(|group| group.nodes.contains(node))
        }
        GroupOrder::DropReplica { node } => {
            now.departing.contains(node)
                || !now.groups.iter().any(|group| group.nodes.contains(node))
        }
        GroupOrder::Rebalance => now.wanted || now.left == 0,
        GroupOrder::Stop => !now.wanted,
    }
}

fn text(status: &MovesStatus) -> String {
    let mut table = Table::new(&["group", "nodes", "new tables", "tables"], &[3]);
    for group in &status.groups {
        let nodes: Vec<String> = group.nodes.iter().map(u16::to_string).collect();
        let open = if group.open { "yes" } else { "no" };
        let cells =
            [group.group.to_string(), nodes.join(","), open.into(), group.tables.to_string()];
        table.row(cells);
    }
    let moved = status.tables - status.left;
    let what = match (status.wanted, status.left) {
        (_, 0) => "all tables are where new ones would be".to_string(),
        (true, _) => {
            format!(
                "moving: {moved} of {} tables are where new ones would be; how far each is: SELECT \
                 * FROM nines.moves",
                status.tables
            )
        }
        (false, left) => format!(
            "{left} of {} tables are elsewhere than new ones; `rebalance` moves them",
            status.tables
        ),
    };
    let more = if status.left > status.first_left.len() { ", …" } else { "" };
    let left = match &status.first_left[..] {
        [] => String::new(),
        names => format!("left: {}{more}\n", names.join(", ")),
    };
    let departing: Vec<String> = status.departing.iter().map(u16::to_string).collect();
    let departing = match &departing[..] {
        [] => String::new(),
        nodes => format!("leave when their groups can do without them: {}\n", nodes.join(", ")),
    };
    format!("{}\n{what}\n{left}{departing}", table.text(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ndbs_words_are_understood() {
        let change = |words: &[&str]| match read(words[0], &words[1..]) {
            Ok(Order::Change(change)) => Some(change),
            _ => None,
        };
        let create = Some(GroupOrder::Create { nodes: vec![3, 4] });
        assert_eq!(change(&["create", "nodegroup", "3,4"]), create);
        assert_eq!(change(&["create", "nodegroup", "3,", "4"]), create);
        assert_eq!(change(&["drop", "nodegroup", "1"]), Some(GroupOrder::Drop { group: 1 }));
        assert_eq!(change(&["drain", "1"]), Some(GroupOrder::Drain { group: 1 }));
        assert_eq!(change(&["rebalance"]), Some(GroupOrder::Rebalance));
        assert_eq!(change(&["rebalance", "stop"]), Some(GroupOrder::Stop));
        assert_eq!(read("rebalance", &["status"]), Ok(Order::Look));
        let replica = Some(GroupOrder::CreateReplica { node: 5, group: 0 });
        assert_eq!(change(&["create", "replica", "5", "nodegroup", "0"]), replica);
        assert_eq!(change(&["drop", "replica", "5"]), Some(GroupOrder::DropReplica { node: 5 }));
        assert!(read("create", &["replica", "5"]).is_err());
        for wrong in [&["create"][..], &["create", "nodegroup"], &["drop", "x"], &["drain", "a"]] {
            assert!(read(wrong[0], &wrong[1..]).is_err(), "{wrong:?}");
        }
    }
}
