//! Ids of nodes: given ones are taken, the others are assigned.
//!
//! # Guarantees
//! The same file gives the same ids. A node that had an id keeps it while its role and host stay.

use std::collections::BTreeSet;

use model::NodeId;

use super::{Block, role};
use crate::cluster::{ClusterConfig, Role};
use crate::host;
use crate::problem::Problems;

/// The id of each section of a node; none where that is a problem.
pub(super) fn assign(
    nodes: &[Block],
    before: Option<&ClusterConfig>,
    problems: &mut Problems,
) -> Vec<Option<NodeId>> {
    let mut ids: Vec<Option<NodeId>> = vec![None; nodes.len()];
    let mut taken: BTreeSet<u16> = BTreeSet::new();
    for (block, id) in nodes.iter().zip(&mut ids) {
        let Some(number) = block.settings.number("NodeId") else { continue };
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        let line = block.line_of("NodeId");
        if taken.insert(number) {
            *id = Some(NodeId(number));
        } else {
            let what = format!("NodeId={number} belongs to another section; ids are unique");
            problems.add(line, what);
        }
    }
    // A section whose NodeId was refused has one all the same, and must not take another's.
    let open = |block: &Block| !block.lines.contains_key("NodeId");
    let known: Vec<_> = before.map(ClusterConfig::nodes).unwrap_or_default().iter().collect();
    for (block, id) in nodes.iter().zip(&mut ids).filter(|(block, _)| open(block)) {
        let (role, host) = (role(block.kind), host_of(block));
        let same = known.iter().find(|node| {
            let same_host = node.host().map(host::canonical) == host;
            node.role == role && same_host && !taken.contains(&node.id.0)
        });
        if let Some(node) = same {
            taken.insert(node.id.0);
            *id = Some(node.id);
        }
    }
    let reserved: BTreeSet<u16> = known.iter().map(|node| node.id.0).collect();
    for (block, id) in nodes.iter().zip(&mut ids).filter(|(block, _)| open(block)) {
        if id.is_some() {
            continue;
        }
        match free(role(block.kind), &taken, &reserved) {
            Some(number) => {
                taken.insert(number);
                *id = Some(NodeId(number));
            }
            None => {
                let role = role(block.kind);
                let max = role.id_max();
                let what = format!("no id is left for this {role} node; the largest is {max}");
                problems.add(block.line, what);
            }
        }
    }
    ids
}

fn host_of(block: &Block) -> Option<String> {
    match block.settings.text("HostName") {
        Some(name) => Some(host::canonical(name)),
        None if role(block.kind).is_client() => None,
        None => Some("localhost".to_string()),
    }
}

/// The id for a new node: none that a node had before, as long as there are others.
fn free(role: Role, taken: &BTreeSet<u16>, reserved: &BTreeSet<u16>) -> Option<u16> {
    // Data nodes can only have low ids. The others keep out of their way, and out of each other's,
    // so that a new node shifts nobody.
    let first = match role {
        Role::Data => 1,
        Role::Management => MANAGEMENT_FIRST,
        Role::Sql | Role::Api => CLIENT_FIRST,
    };
    let ids = || (first..=role.id_max()).chain((1..first).rev());
    let new = ids().find(|id| !taken.contains(id) && !reserved.contains(id));
    new.or_else(|| ids().find(|id| !taken.contains(id)))
}

const MANAGEMENT_FIRST: u16 = 145;
const CLIENT_FIRST: u16 = 151;
