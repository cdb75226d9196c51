//! From the sections of a file to the description of a cluster.
//!
//! # Owns
//! Which line sets what for which node: names, default sections, computers, ids, node groups.
//! # Guarantees
//! A cluster comes out only if there was no problem, and then the invariants of `cluster` hold.

mod ids;
mod relations;

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::cluster::{ClusterConfig, Link, Node, Parsed, Role, Settings};
use crate::ini::{self, Entry, Section, SectionKind};
use crate::parameter::{Parameter, Status};
use crate::problem::{Notice, NoticeKind, Problem, Problems, quoted};
use crate::value::{self, Value};

/// A section whose lines have been read.
pub(crate) struct Block {
    line: u32,
    kind: SectionKind,
    settings: Settings,
    /// Where each parameter stands.
    lines: BTreeMap<&'static str, u32>,
}

impl Block {
    fn new(line: u32, kind: SectionKind) -> Block {
        Block { line, kind, settings: Settings::default(), lines: BTreeMap::new() }
    }

    /// The line of a parameter, or that of the section.
    fn line_of(&self, name: &str) -> u32 {
        self.lines.get(name).copied().unwrap_or(self.line)
    }

    /// Takes over what another block has and this one has not.
    fn inherit(&mut self, from: &Block, wanted: impl Fn(&'static str) -> bool) {
        for (name, value) in from.settings.iter().filter(|(name, _)| wanted(name)) {
            if self.settings.given(name).is_none() {
                self.settings.set(name, value.clone());
                self.lines.insert(name, from.line_of(name));
            }
        }
    }
}

/// Reads a file. Nodes without an id keep the one they had before.
pub(crate) fn resolve(
    bytes: &[u8],
    before: Option<&ClusterConfig>,
) -> Result<Parsed, Vec<Problem>> {
    let mut reader = Reader::default();
    let sections = ini::read(bytes, &mut reader.problems);
    // A file that is no text at all has nothing else to say.
    if sections.is_empty() && !reader.problems.is_empty() {
        return Err(reader.problems.into_list());
    }
    for section in &sections {
        reader.section(section);
    }
    reader.apply_defaults();
    let config = reader.cluster(before);
    if reader.problems.is_empty() {
        reader.notices.sort_by_key(|notice| notice.line);
        Ok(Parsed { config, notices: reader.notices })
    } else {
        Err(reader.problems.into_list())
    }
}

#[derive(Default)]
struct Reader {
    problems: Problems,
    notices: Vec<Notice>,
    /// What default sections say, by kind; the cluster's own section is one of them.
    defaults: BTreeMap<SectionKind, Block>,
    computers: Vec<Block>,
    nodes: Vec<Block>,
    links: Vec<Block>,
}

impl Reader {
    /// Reads the lines of a section and puts it where it belongs.
    fn section(&mut self, section: &Section) {
        let Section { line, kind, default, .. } = *section;
        let gathered = default || kind == SectionKind::Cluster;
        // [api] and [mysqld] are one kind with two names, and so are their defaults.
        let key = if kind == SectionKind::Api { SectionKind::Sql } else { kind };
        let mut block = match self.defaults.remove(&key) {
            Some(block) if gathered => block,
            other => {
                self.defaults.extend(other.map(|block| (key, block)));
                Block::new(line, kind)
            }
        };
        for entry in &section.entries {
            self.entry(entry, default, &mut block);
        }
        let (list, limit) = match kind {
            _ if gathered => return drop(self.defaults.insert(key, block)),
            SectionKind::Computer => (&mut self.computers, COMPUTERS_MAX),
            SectionKind::Tcp | SectionKind::SharedMemory => (&mut self.links, LINKS_MAX),
            _ => (&mut self.nodes, NODES_MAX),
        };
        if list.len() < limit {
            list.push(block);
        } else {
            let what = format!("there are more than {limit} sections like [{kind}]; remove some");
            self.problems.add(line, what);
        }
    }

    /// Reads a line into its block.
    fn entry(&mut self, entry: &Entry, default: bool, block: &mut Block) {
        let Entry { line, ref key, ref value } = *entry;
        let Some(parameter) = Parameter::find(key, block.kind) else {
            // Looking for the nearest name takes time, and a file may have a million lines.
            let full = self.problems.is_full();
            let what = if full { String::new() } else { unknown(key, block.kind) };
            self.problems.add(line, what);
            return;
        };
        let name = parameter.name;
        if default && OF_ONE.contains(&name) {
            let section = block.kind.name();
            let what = format!("{name} is of one section; write it in [{section}], not in default");
            self.problems.add(line, what);
            return;
        }
        if let Some(first) = block.lines.get(name) {
            self.problems.add(line, format!("{name} is given twice; first in line {first}"));
            return;
        }
        block.lines.insert(name, line);
        match value::parse(parameter, value) {
            Ok(value) => {
                block.settings.set(name, value);
                self.notice(parameter, key, line);
            }
            Err(why) => self.problems.add(line, why),
        }
    }

    /// Says what is worth saying about a line that was accepted.
    fn notice(&mut self, parameter: &'static Parameter, key: &str, line: u32) {
        let name = parameter.name;
        let (kind, what) = match parameter.status {
            Status::Meaningless(why) => {
                (NoticeKind::Meaningless, format!("{name} has no effect: {why}"))
            }
            Status::Later => (NoticeKind::Later, format!("{name} is not in effect yet")),
            Status::Honoured if !key.eq_ignore_ascii_case(name) => {
                (NoticeKind::Outdated, format!("{} is called {name} now", quoted(key)))
            }
            Status::Honoured => return,
        };
        self.notices.push(Notice { line, kind, parameter: name, what });
    }

    /// Gives every section what it has not said itself: from its computer, from the default
    /// section of its kind, from the cluster's section.
    fn apply_defaults(&mut self) {
        let of_kind = |defaults: &BTreeMap<_, Block>, block: &mut Block| {
            let key = if block.kind == SectionKind::Api { SectionKind::Sql } else { block.kind };
            if let Some(default) = defaults.get(&key) {
                block.inherit(default, |_| true);
            }
        };
        for block in &mut self.computers {
            of_kind(&self.defaults, block);
        }
        for block in &mut self.nodes {
            of_kind(&self.defaults, block);
            let kind = block.kind;
            if let Some(cluster) = self.defaults.get(&SectionKind::Cluster) {
                block.inherit(cluster, |name| Parameter::find(name, kind).is_some());
            }
        }
        for block in &mut self.links {
            of_kind(&self.defaults, block);
        }
        self.apply_computers();
    }

    /// Replaces references to computers by what the computers are.
    fn apply_computers(&mut self) {
        let mut computers: BTreeMap<String, &Block> = BTreeMap::new();
        for computer in &self.computers {
            let Some(id) = computer.settings.text("Id") else {
                self.problems.add(computer.line, "[computer] has no Id; give it one");
                continue;
            };
            if computer.settings.given("HostName").is_none() {
                let what = format!("[computer] {} has no HostName; give it one", quoted(id));
                self.problems.add(computer.line, what);
            }
            if let Some(first) = computers.insert(id.to_ascii_lowercase(), computer) {
                let what = format!(
                    "[computer] {} is there twice; first in line {}",
                    quoted(id),
                    first.line
                );
                self.problems.add(computer.line, what);
            }
        }
        for node in &mut self.nodes {
            let line = node.line_of(EXECUTE_ON);
            let Some(Value::Text(id)) = node.settings.remove(EXECUTE_ON) else { continue };
            match computers.get(&id.to_ascii_lowercase()) {
                Some(computer) => {
                    node.inherit(computer, |name| matches!(name, "HostName" | "LocationDomainId"));
                }
                None if id.is_empty() => {}
                None => {
                    let id = quoted(&id);
                    let what =
                        format!("{EXECUTE_ON}={id} names no computer; add [computer] Id={id}");
                    self.problems.add(line, what);
                }
            }
        }
    }

    /// Puts the cluster together. With problems, what comes out is incomplete.
    fn cluster(&mut self, before: Option<&ClusterConfig>) -> ClusterConfig {
        let ids = ids::assign(&self.nodes, before, &mut self.problems);
        let default_of = |defaults: &mut BTreeMap<_, Block>, kind| {
            defaults.remove(&kind).map(|block| block.settings).unwrap_or_default()
        };
        let links = self.links_between(&ids);
        let groups = relations::groups(&self.nodes, &ids, &mut self.problems);
        relations::check(&self.nodes, &ids, &mut self.problems);
        let port_base = relations::port_base(&self.nodes, &ids);
        let mut nodes = Vec::new();
        for (block, id) in std::mem::take(&mut self.nodes).into_iter().zip(ids) {
            let Some(id) = id else { continue };
            let Block { kind, mut settings, .. } = block;
            settings.remove("NodeId");
            nodes.push(Node { id, role: role(kind), settings, port_base });
        }
        nodes.sort_by_key(|node| node.id);
        let mut settings = default_of(&mut self.defaults, SectionKind::Cluster);
        // What the cluster's section says for all nodes, they have by now.
        let of_nodes: Vec<_> = settings.iter().map(|(name, _)| name).collect();
        for name in of_nodes {
            if Parameter::find(name, SectionKind::Data).is_some() {
                settings.remove(name);
            }
        }
        let link_defaults = (
            default_of(&mut self.defaults, SectionKind::Tcp),
            default_of(&mut self.defaults, SectionKind::SharedMemory),
        );
        ClusterConfig { settings, nodes, groups, link_defaults, links }
    }

    fn links_between(&mut self, ids: &[Option<NodeId>]) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        let mut known: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        for block in std::mem::take(&mut self.links) {
            let Block { line, kind, mut settings, .. } = block;
            let mut end = |name: &str, problems: &mut Problems| {
                let Some(Value::Number(number)) = settings.remove(name) else {
                    problems.add(line, format!("[{kind}] has no {name}; a link has two ends"));
                    return None;
                };
                let id = NodeId(u16::try_from(number).unwrap_or(u16::MAX));
                if !ids.contains(&Some(id)) {
                    problems.add(line, format!("{name}={number} is not a node of this file"));
                }
                Some(id)
            };
            let ends = (end("NodeId1", &mut self.problems), end("NodeId2", &mut self.problems));
            let (Some(one), Some(other)) = ends else { continue };
            let (low, high) = (one.min(other), one.max(other));
            if low == high {
                self.problems.add(line, "NodeId1 and NodeId2 are the same node");
            }
            // The names of the ends go with the ends.
            if low != one {
                let (first, second) = (settings.remove("HostName1"), settings.remove("HostName2"));
                for (name, value) in [("HostName2", first), ("HostName1", second)] {
                    if let Some(value) = value {
                        settings.set(name, value);
                    }
                }
            }
            let shared_memory = kind == SectionKind::SharedMemory;
            if !known.insert((low, high)) {
                let what = format!("the link between {} and {} is there twice", low.0, high.0);
                self.problems.add(line, what);
            }
            links.push(Link { shared_memory, ends: (low, high), settings });
        }
        links.sort_by_key(|link| link.ends);
        links
    }
}

/// What to say about a name that the section does not have.
fn unknown(key: &str, kind: SectionKind) -> String {
    let name = quoted(key);
    if let Some(elsewhere) = Parameter::named(key).next() {
        let name = elsewhere.name;
        return format!("{name} does not belong in [{kind}]; write it in {}", elsewhere.sections);
    }
    match Parameter::nearest(key, kind) {
        Some(nearest) => format!("`{name}` is not a parameter; did you mean {nearest}?"),
        None => {
            format!("`{name}` is not a parameter; `nines config parameters` lists all there are")
        }
    }
}

fn role(kind: SectionKind) -> Role {
    match kind {
        SectionKind::Management => Role::Management,
        SectionKind::Data => Role::Data,
        SectionKind::Sql => Role::Sql,
        SectionKind::Api => Role::Api,
        SectionKind::Cluster
        | SectionKind::Computer
        | SectionKind::Tcp
        | SectionKind::SharedMemory => unreachable!("only sections of nodes are kept as nodes"),
    }
}

const EXECUTE_ON: &str = "ExecuteOnComputer";

/// More sections of nodes than ids, so that each one too many is told of by its line.
const NODES_MAX: usize = 1_000;
const COMPUTERS_MAX: usize = 1_000;
/// A link between any two nodes.
const LINKS_MAX: usize = 255 * 254 / 2;

/// Parameters that two sections cannot have in common.
const OF_ONE: [&str; 5] = ["NodeId", "Id", "NodeId1", "NodeId2", "NodeGroup"];

#[cfg(test)]
mod tests;
