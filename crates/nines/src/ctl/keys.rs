//! `rotate-keys`: new keys for what is encrypted on disk.
//!
//! # Guarantees
//! Every node is asked, also when one refuses; the order fails if one did.

use super::Session;
use crate::role::request::{NewKeys, Request};
use crate::role::status::{ClusterStatus, NodeStatus, list};

/// Has a node, or all data and management nodes, make new keys.
pub(super) fn rotate(session: &mut Session<'_>, only: Option<u16>) -> Result<(), String> {
    let status: ClusterStatus = session.ask(&Request::Status)?;
    let on_disk = status.nodes.iter().filter(|node| node.port.is_some());
    let nodes: Vec<&NodeStatus> =
        on_disk.filter(|node| only.is_none_or(|only| node.node == only)).collect();
    if let (Some(only), []) = (only, &nodes[..]) {
        return Err(format!("there is no data or management node {only} in the configuration"));
    }
    let mut failed = Vec::new();
    for node in nodes {
        let id = node.node;
        let rotated: Result<NewKeys, String> = if node.connected {
            session.ask(&Request::RotateKeys { node: id })
        } else {
            Err(format!("node {id} is not connected"))
        };
        match rotated {
            Ok(NewKeys { data_key, master_key }) => session.line(&format!(
                "node {id}: new files get data key {data_key}; master key {master_key} wraps its \
                 keys"
            ))?,
            Err(why) => {
                failed.push(id);
                session.line(&format!("node {id}: no new keys: {why}"))?;
            }
        }
    }
    match &failed[..] {
        [] => Ok(()),
        failed => Err(format!("no new keys for {}", list(failed))),
    }
}
