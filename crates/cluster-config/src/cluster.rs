//! The typed description of a cluster: its nodes, their settings, its node groups.
//!
//! # Owns
//! What code asks of a configuration, after names and sections have been dealt with.
//! # Invariants
//! 1. Ids are unique and in the range of their role; data nodes fill whole node groups.
//! 2. Every setting is one of the table, and its value is in the table's range.
//! # Not here
//! How it is made from a file: `resolve`. What is unwise about it: `advice`.

mod kernel;
mod node;
mod settings;

use std::fmt;

use model::NodeId;

use crate::canonical;
use crate::ini::SectionKind;
use crate::problem::{Notice, Problem};
use crate::resolve;
use crate::value::Value;

pub use canonical::Fingerprint;
pub(crate) use node::data_port_base;
pub use node::{Node, Threads, Tls};
pub use settings::Settings;

/// What a node is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Holds the configuration, and breaks ties by its vote.
    Management,
    /// Holds rows.
    Data,
    /// Speaks SQL.
    Sql,
    /// Any other client of the data nodes. NDB treats `[api]` and `[mysqld]` alike, and so an SQL
    /// node may take this place too.
    Api,
}

impl Role {
    /// The section its nodes are described by.
    pub const fn section(self) -> SectionKind {
        match self {
            Role::Management => SectionKind::Management,
            Role::Data => SectionKind::Data,
            Role::Sql => SectionKind::Sql,
            Role::Api => SectionKind::Api,
        }
    }

    /// Whether it is a client of the data nodes.
    pub const fn is_client(self) -> bool {
        matches!(self, Role::Sql | Role::Api)
    }

    /// The largest id of its nodes.
    pub const fn id_max(self) -> u16 {
        match self {
            Role::Data => DATA_NODE_ID_MAX,
            Role::Management | Role::Sql | Role::Api => NODE_ID_MAX,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Management => "management",
            Role::Data => "data",
            Role::Sql => "sql",
            Role::Api => "api",
        })
    }
}

/// Data nodes that hold the same rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Its number, from 0.
    pub number: u16,
    /// Its members: as many as there are replicas.
    pub nodes: Vec<NodeId>,
}

/// Settings of the link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether it is by shared memory, or by TCP.
    pub shared_memory: bool,
    /// Its ends, the lower id first.
    pub ends: (NodeId, NodeId),
    /// What is set for it, defaults of its kind included.
    pub settings: Settings,
}

/// A configuration that was accepted, with what is worth saying about it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The cluster.
    pub config: ClusterConfig,
    /// Lines without the effect that their author may expect.
    pub notices: Vec<Notice>,
}

/// A whole cluster, as its configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// What is set for the cluster as a whole.
    pub(crate) settings: Settings,
    /// All nodes, ascending by id.
    pub(crate) nodes: Vec<Node>,
    /// The node groups, ascending by number.
    pub(crate) groups: Vec<NodeGroup>,
    /// What is set for all links by TCP, and for all by shared memory.
    pub(crate) link_defaults: (Settings, Settings),
    /// Links with settings of their own.
    pub(crate) links: Vec<Link>,
}

impl ClusterConfig {
    /// Reads a `config.ini`, or a canonical text. All that is wrong is reported, in the order of
    /// the file.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, Vec<Problem>> {
        resolve::resolve(bytes, None)
    }

    /// Reads a changed `config.ini`: nodes without an id keep the one they had.
    pub fn parse_after(bytes: &[u8], before: &ClusterConfig) -> Result<Parsed, Vec<Problem>> {
        resolve::resolve(bytes, Some(before))
    }

    /// The configuration as text that says nothing twice: every node has its id and its own
    /// settings. Reading it gives the same configuration again.
    pub fn canonical(&self) -> String {
        canonical::write(self)
    }

    /// Equal for two configurations that say the same.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.canonical())
    }

    /// The cluster's name.
    pub fn name(&self) -> String {
        match self.settings.value(SectionKind::Cluster, "ClusterName") {
            Some(Value::Text(name)) => name,
            _ => String::new(),
        }
    }

    /// What is set for the cluster as a whole.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Copies of each row.
    pub fn replicas(&self) -> u8 {
        self.groups.first().map_or(1, |group| group.nodes.len() as u8)
    }

    /// Whether a node encrypts what it writes. A management node has the names of all tables: where
    /// nothing is said of it, it does so as soon as a data node does.
    pub fn encrypts(&self, node: &Node) -> bool {
        let data = || self.nodes_of(Role::Data).any(|node| node.encrypts() == Some(true));
        node.encrypts().unwrap_or_else(|| node.role == Role::Management && data())
    }

    /// Whether some node encrypts what it writes: temporary files of statements are encrypted then.
    pub fn encrypts_any(&self) -> bool {
        self.nodes.iter().any(|node| self.encrypts(node))
    }

    /// Whether all nodes with a disk encrypt what they write.
    pub fn is_encrypted(&self) -> bool {
        let mut on_disk = self.nodes.iter().filter(|node| !node.role.is_client());
        on_disk.all(|node| self.encrypts(node))
    }

    /// Whether a client node may make backups only with a key.
    pub fn requires_encrypted_backups(&self, client: &Node) -> bool {
        let mut asked = self.nodes.iter().filter(|node| node.role == Role::Data).chain([client]);
        asked.any(|node| node.settings.number("RequireEncryptedBackup") == Some(1))
    }

    /// All nodes, ascending by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let index = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        self.nodes.get(index)
    }

    /// The nodes of a role, ascending by id.
    pub fn nodes_of(&self, role: Role) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.role == role)
    }

    /// The node groups, ascending by number.
    pub fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    /// The node group of a data node.
    pub fn group_of(&self, id: NodeId) -> Option<&NodeGroup> {
        self.groups.iter().find(|group| group.nodes.contains(&id))
    }

    /// Links with settings of their own.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Bytes that may wait to be sent on a connection between two nodes, where that is given: for
    /// their link, or else for all.
    pub fn send_buffer(&self, one: NodeId, other: NodeId) -> Option<u64> {
        let ends = (one.min(other), one.max(other));
        let own = self.links.iter().filter(|link| link.ends == ends).map(|link| &link.settings);
        let all = [&self.link_defaults.0, &self.link_defaults.1];
        own.chain(all).find_map(|settings| settings.number("SendBufferMemory"))
    }

    /// What is set for links by TCP, or by shared memory, that have no settings of their own.
    pub fn link_defaults(&self, shared_memory: bool) -> &Settings {
        if shared_memory { &self.link_defaults.1 } else { &self.link_defaults.0 }
    }
}

/// The largest id of a data node, as in NDB.
pub const DATA_NODE_ID_MAX: u16 = 144;
/// The largest id of any node, as in NDB.
pub const NODE_ID_MAX: u16 = 255;

#[cfg(test)]
mod tests;
