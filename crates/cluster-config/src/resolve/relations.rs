//! What has to fit together: node groups, values that all nodes share, ports, certificates.

use std::collections::BTreeMap;

use model::NodeId;

use super::{Block, role};
use crate::cluster::{NodeGroup, Role, data_port_base};
use crate::host;
use crate::ini::SectionKind;
use crate::parameter::{Parameter, Status};
use crate::problem::Problems;
use crate::value::Value;

/// Forms node groups: where no `NodeGroup` is given, by the order of ids. Nodes of
/// `NodeGroup=65536` are in none.
pub(super) fn groups(
    nodes: &[Block],
    ids: &[Option<NodeId>],
    problems: &mut Problems,
) -> Vec<NodeGroup> {
    let mut data: Vec<(NodeId, &Block)> = Vec::new();
    for (block, id) in nodes.iter().zip(ids) {
        let grouped = block.settings.number("NodeGroup") != Some(NO_GROUP)
            || block.settings.given("NodeGroup").is_none();
        if let (SectionKind::Data, Some(id), true) = (block.kind, id, grouped) {
            data.push((*id, block));
        }
    }
    data.sort_by_key(|(id, _)| *id);
    let replicas = match data.first().and_then(|(_, block)| replicas(block)) {
        Some(replicas) => replicas,
        // Where there is one data node, nobody has to say that it has one copy of each row.
        None if data.len() == 1 => 1,
        None => 2,
    };
    if !data.len().is_multiple_of(replicas) {
        let what = format!(
            "{} data nodes cannot be divided into groups of NoOfReplicas={replicas}; add data \
             nodes, or change NoOfReplicas so that it divides them",
            data.len()
        );
        problems.add(None, what);
        return Vec::new();
    }
    let count = data.len() / replicas;
    let mut groups: Vec<NodeGroup> =
        (0..count).map(|number| NodeGroup { number: number as u16, nodes: Vec::new() }).collect();
    let (placed, rest): (Vec<_>, Vec<_>) =
        data.into_iter().partition(|(_, block)| block.settings.given("NodeGroup").is_some());
    for (id, block) in placed {
        let number = block.settings.number("NodeGroup").unwrap_or(0);
        let line = block.line_of("NodeGroup");
        let group = usize::try_from(number).ok().and_then(|number| groups.get_mut(number));
        match group {
            Some(group) if group.nodes.len() < replicas => group.nodes.push(id),
            Some(_) => {
                let what =
                    format!("NodeGroup={number} has more nodes than NoOfReplicas={replicas}");
                problems.add(line, what);
            }
            None => {
                let most = count.saturating_sub(1);
                problems
                    .add(line, format!("NodeGroup={number} is not there; write {most} at most"));
            }
        }
    }
    for (id, _) in rest {
        let open = groups.iter_mut().find(|group| group.nodes.len() < replicas);
        // Without an open group, one of the placed nodes has been reported.
        if let Some(group) = open {
            group.nodes.push(id);
        }
    }
    for group in &mut groups {
        group.nodes.sort();
    }
    groups
}

fn replicas(block: &Block) -> Option<usize> {
    block.settings.number("NoOfReplicas").and_then(|number| usize::try_from(number).ok())
}

/// Reports what does not fit together.
pub(super) fn check(nodes: &[Block], ids: &[Option<NodeId>], problems: &mut Problems) {
    members(nodes, problems);
    alike(nodes, problems);
    ports(nodes, ids, problems);
    for block in nodes {
        certificates(block, problems);
        disk_speed(block, problems);
    }
}

fn members(nodes: &[Block], problems: &mut Problems) {
    let has = |role_wanted| nodes.iter().any(|block| role(block.kind) == role_wanted);
    if !has(Role::Data) {
        problems.add(None, "there is no data node; add a section [ndbd] for each");
    }
    if !has(Role::Management) {
        problems.add(
            None,
            "there is no management node, which the others ask for the configuration; add a \
             section [ndb_mgmd]",
        );
    }
}

/// Values that must not differ from node to node. Those without an effect may.
fn alike(nodes: &[Block], problems: &mut Problems) {
    let counts = |parameter: &&Parameter| {
        parameter.sections.alike() && !matches!(parameter.status, Status::Meaningless(_))
    };
    for parameter in Parameter::all().filter(counts) {
        let name = parameter.name;
        let mut known =
            nodes.iter().filter(|block| parameter.sections.contains(block.kind)).peekable();
        let value = |block: &Block| block.settings.value(block.kind, name);
        let Some(first) = known.peek().map(|block| value(block)) else { continue };
        // One message for a parameter: all lines after the first would say the same.
        if let Some(other) = known.find(|block| value(block) != first) {
            let line = other.line_of(name);
            let section = other.kind;
            let what =
                format!("{name} is not the same for all nodes; write it in [{section} default]");
            problems.add(line, what);
        }
    }
}

/// What the ports of data nodes are counted from where they are not given.
pub(super) fn port_base(nodes: &[Block], ids: &[Option<NodeId>]) -> u16 {
    let management = nodes.iter().zip(ids).filter(|(node, _)| role(node.kind) == Role::Management);
    let first = management.filter_map(|(node, id)| Some(((*id)?, node))).min_by_key(|(id, _)| *id);
    let port = first.and_then(|(_, node)| node.settings.number("PortNumber"));
    data_port_base(port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default())
}

/// Two nodes of a host cannot listen at the same port.
fn ports(nodes: &[Block], ids: &[Option<NodeId>], problems: &mut Problems) {
    let mut used: BTreeMap<(String, u64), (&str, NodeId)> = BTreeMap::new();
    let base = port_base(nodes, ids);
    for (block, id) in nodes.iter().zip(ids) {
        let (Some(id), role) = (id, role(block.kind)) else { continue };
        let own = match role {
            Role::Management => Some("PortNumber"),
            Role::Data => Some("ServerPort"),
            Role::Sql | Role::Api => None,
        };
        let host = match block.settings.text("HostName") {
            Some(name) => host::canonical(name),
            None if role.is_client() => continue,
            None => "localhost".to_string(),
        };
        for name in own.into_iter().chain(["HttpPort"]) {
            // A data node that is given no port has one all the same.
            let follows = || (name == "ServerPort").then(|| u64::from(base) + u64::from(id.0));
            let port = block.settings.value(block.kind, name);
            let port = port.or_else(|| follows().map(Value::Number));
            let Some(Value::Number(port)) = port.filter(|port| *port != Value::Number(0)) else {
                continue;
            };
            if let Some((other, node)) = used.insert((host.clone(), port), (name, *id)) {
                let what = format!(
                    "{name}={port} of node {} is also {other} of node {} on {host}; choose another",
                    id.0, node.0
                );
                problems.add(block.line_of(name), what);
            }
        }
    }
}

fn certificates(block: &Block, problems: &mut Problems) {
    let names = ["TlsAuthority", "TlsCertificate", "TlsKey"];
    let given = |name: &&&str| block.settings.text(name).is_some();
    let (Some(one), Some(missing)) =
        (names.iter().find(given), names.iter().find(|name| !given(name)))
    else {
        return;
    };
    let what = format!("{one} needs {missing} beside it; give all three or none");
    problems.add(block.line_of(one), what);
}

fn disk_speed(block: &Block, problems: &mut Problems) {
    let (min, max) = ("MinDiskWriteSpeed", "MaxDiskWriteSpeed");
    let value = |name| block.settings.number(name);
    if let (Some(least), Some(most)) = (value(min), value(max))
        && least > most
    {
        let what = format!("{min} is more than {max}; exchange them");
        problems.add(block.line_of(min), what);
    }
}

/// How NDB says that a data node belongs to no group yet.
const NO_GROUP: u64 = 65_536;
