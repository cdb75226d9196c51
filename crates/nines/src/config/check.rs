//! What `nines config check` says about a configuration.

use std::collections::BTreeSet;
use std::fmt::Write;

use cluster_config::{
    Advice, Change, ClusterConfig, Comparison, Loss, Machine, Node, NodeChange, Notice, NoticeKind,
    Parsed, Problem, Role, Threads, readable,
};
use serde_json::{Value, json};

use super::parameters::columns;
use crate::layout::Layout;
use crate::machine::Cpus;
use crate::role::status::list;

/// A configuration with all that is said about it.
pub(super) struct Report<'a> {
    file: &'a str,
    config: &'a ClusterConfig,
    notices: &'a [Notice],
    losses: Vec<Loss>,
    advice: Vec<Advice>,
    changes: Option<Comparison>,
    layouts: Vec<(u16, Result<Layout, String>)>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        file: &'a str,
        parsed: &'a Parsed,
        before: Option<&ClusterConfig>,
        machine: &Machine,
        cpus: &Cpus,
    ) -> Report<'a> {
        let Parsed { config, notices } = parsed;
        let here = |node: &&Node| machine.is_host(node.host().unwrap_or_default());
        let layouts = config.nodes_of(Role::Data).filter(here);
        let layouts = layouts.map(|node| (node.id.0, Layout::new(node, None, cpus))).collect();
        Report {
            file,
            config,
            notices,
            losses: config.losses(),
            advice: config.advice(machine),
            changes: before.map(|before| config.compare(before)),
            layouts,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}\n", self.summary());
        let mut rows = vec![
            ["node", "role", "group", "host", "port", "memory", "threads", "files"]
                .map(str::to_string)
                .to_vec(),
        ];
        rows.extend(self.config.nodes().iter().map(|node| self.row(node)));
        text.push_str(&columns(&rows, &[0, 2, 4, 5]));
        self.threads_here(&mut text);
        text.push_str("\nWhen these are lost, the cluster\n");
        for Loss { what, outcome, .. } in &self.losses {
            let verdict = if outcome.goes_on() { "goes on" } else { "STOPS" };
            let reason = outcome.reason();
            let colon = if reason.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "  {verdict:<7}  {what}{colon}{reason}");
        }
        if let Some(changes) = &self.changes {
            changed(&mut text, changes);
        }
        self.warnings(&mut text);
        text
    }

    /// The threads of the data nodes that would run on this machine.
    fn threads_here(&self, text: &mut String) {
        if !self.layouts.is_empty() {
            text.push_str("\nThreads on this machine\n");
        }
        for (node, layout) in &self.layouts {
            match layout {
                Ok(layout) => {
                    let _ = writeln!(text, "  node {node}: {}", layout.line);
                    for note in &layout.notes {
                        let _ = writeln!(text, "    {note}");
                    }
                }
                Err(why) => {
                    let _ = writeln!(text, "  node {node} WILL NOT START here: {why}");
                }
            }
        }
    }

    /// Whether every node would start, as far as that can be told here.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let fails = self.layouts.iter().filter(|(_, layout)| layout.is_err());
        let here: Vec<u16> = fails.map(|(node, _)| *node).collect();
        let fatal = self.advice.iter().filter(|advice| advice.fatal);
        let anywhere: BTreeSet<u16> = fatal.flat_map(|advice| ids(&advice.nodes)).collect();
        let anywhere: Vec<u16> = anywhere.into_iter().collect();
        match (&here[..], &anywhere[..]) {
            ([], []) => Ok(()),
            (_, [_, ..]) => Err(format!("{}: {} will not start", self.file, list(&anywhere))),
            (_, []) => Err(format!("{}: {} will not start here", self.file, list(&here))),
        }
    }

    fn summary(&self) -> String {
        let config = self.config;
        let count = |what: &str, roles: &[Role]| {
            let number = config.nodes().iter().filter(|node| roles.contains(&node.role)).count();
            format!("{number} {what}{}", if number == 1 { "" } else { "s" })
        };
        let groups = config.groups().len();
        format!(
            "{}: cluster {}, {} in {groups} node group{} ({} of each row), {}, {}\nfingerprint {}",
            self.file,
            config.name(),
            count("data node", &[Role::Data]),
            if groups == 1 { "" } else { "s" },
            match config.replicas() {
                1 => "1 replica".to_string(),
                replicas => format!("{replicas} replicas"),
            },
            count("management node", &[Role::Management]),
            count("SQL or API node", &[Role::Sql, Role::Api]),
            config.fingerprint(),
        )
    }

    fn row(&self, node: &Node) -> Vec<String> {
        let group = self.config.group_of(node.id);
        let data = node.role == Role::Data;
        let only_data = |text: String| if data { text } else { String::new() };
        let port = match node.port() {
            Some(port) => port.to_string(),
            None if node.role.is_client() => String::new(),
            None => "free".to_string(),
        };
        vec![
            node.id.0.to_string(),
            node.role.to_string(),
            group.map_or_else(String::new, |group| group.number.to_string()),
            node.host().unwrap_or("any").to_string(),
            port,
            only_data(memory(node)),
            only_data(threads(node)),
            node.directory().unwrap_or_default(),
        ]
    }

    fn warnings(&self, text: &mut String) {
        if !self.advice.is_empty() {
            text.push_str("\nWarnings\n");
            for advice in &self.advice {
                let _ = writeln!(text, "  {}", advice.what);
            }
        }
        if !self.notices.is_empty() {
            text.push_str("\nNotices\n");
            // Sixteen SQL nodes with the same line are told of once.
            let mut told: Vec<(&Notice, usize)> = Vec::new();
            for notice in self.notices {
                match told.iter_mut().find(|(other, _)| other.what == notice.what) {
                    Some((_, more)) => *more += 1,
                    None => told.push((notice, 0)),
                }
            }
            for (notice, more) in told {
                let more = match more {
                    0 => String::new(),
                    1 => ", here and once more below".to_string(),
                    more => format!(", here and {more} more times below"),
                };
                let _ = writeln!(text, "  {}{more}", notice.at(self.file));
            }
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        let config = self.config;
        let nodes: Vec<Value> = config.nodes().iter().map(|node| self.node_json(node)).collect();
        let losses = self.losses.iter().map(|loss| {
            json!({
                "lost": loss.what,
                "nodes": ids(&loss.nodes),
                "goes_on": loss.outcome.goes_on(),
                "reason": loss.outcome.reason(),
            })
        });
        let warnings = self.advice.iter().map(|advice| {
            json!({
                "topic": advice.topic,
                "nodes": ids(&advice.nodes),
                "what": advice.what,
                "fatal": advice.fatal,
            })
        });
        let notices = self.notices.iter().map(|notice| {
            let kind = match notice.kind {
                NoticeKind::Meaningless => "meaningless",
                NoticeKind::Later => "later",
                NoticeKind::Outdated => "outdated",
            };
            let Notice { line, parameter, what, .. } = notice;
            json!({"line": line, "kind": kind, "parameter": parameter, "what": what})
        });
        let groups = config.groups().iter().map(|group| ids(&group.nodes));
        let mut value = json!({
            "file": self.file,
            "problems": [],
            "cluster": config.name(),
            "fingerprint": config.fingerprint().to_string(),
            "replicas": config.replicas(),
            "node_groups": groups.collect::<Vec<_>>(),
            "voters": config.voters().iter().map(|id| id.0).collect::<Vec<_>>(),
            "nodes": nodes,
            "losses": losses.collect::<Vec<_>>(),
            "warnings": warnings.collect::<Vec<_>>(),
            "notices": notices.collect::<Vec<_>>(),
        });
        let threads = self.layouts.iter().map(|(node, layout)| match layout {
            Ok(layout) => json!({
                "node": node,
                "workers": layout.workers,
                "layout": layout.line,
                "notes": layout.notes,
            }),
            Err(why) => json!({"node": node, "problem": why}),
        });
        value["threads_here"] = threads.collect();
        if let Some(changes) = &self.changes {
            value["changes"] = changes_json(changes);
        }
        lines(&value)
    }

    fn node_json(&self, node: &Node) -> Value {
        let settings: serde_json::Map<String, Value> = node
            .settings()
            .iter()
            .map(|(name, value)| (name.to_string(), setting_json(value)))
            .collect();
        json!({
            "id": node.id.0,
            "role": node.role.to_string(),
            "node_group": self.config.group_of(node.id).map(|group| group.number),
            "host": node.host(),
            "port": node.port(),
            "directory": node.directory(),
            "settings": settings,
        })
    }
}

fn setting_json(value: &cluster_config::Value) -> Value {
    match value {
        cluster_config::Value::Flag(flag) => json!(flag),
        cluster_config::Value::Number(number) => json!(number),
        cluster_config::Value::Text(text) => json!(text),
    }
}

/// What is wrong with a file, for programs.
pub(super) fn problems_json(file: &str, problems: &[Problem]) -> String {
    let problems =
        problems.iter().map(|problem| json!({"line": problem.line, "what": problem.what}));
    lines(&json!({"file": file, "problems": problems.collect::<Vec<_>>()}))
}

fn lines(value: &Value) -> String {
    format!("{value:#}\n")
}

fn ids(nodes: &[model::NodeId]) -> Vec<u16> {
    nodes.iter().map(|node| node.0).collect()
}

fn memory(node: &Node) -> String {
    let unit = cluster_config::parameter::Unit::Bytes;
    node.data_memory().map_or_else(|| "automatic".to_string(), |size| readable(size, unit))
}

fn threads(node: &Node) -> String {
    match node.threads() {
        Threads::Automatic { cpus: Some(1) } => "automatic, 1 CPU".to_string(),
        Threads::Automatic { cpus: Some(cpus) } => format!("automatic, {cpus} CPUs"),
        Threads::Automatic { cpus: None } => "automatic".to_string(),
        Threads::Number(number) => format!("{number} threads"),
        Threads::Manual(threads) => threads.to_string(),
    }
}

fn changed(text: &mut String, changes: &Comparison) {
    if changes.is_empty() {
        text.push_str("\nNothing has changed\n");
        return;
    }
    text.push_str("\nChanges\n");
    let mut node = |sign: &str, change: &NodeChange| {
        let (role, id) = (change.role, change.id.0);
        let how = change.restart.instruction();
        let _ = writeln!(text, "  {sign} {role} node {id}: {how}");
    };
    changes.added.iter().for_each(|change| node("+", change));
    changes.removed.iter().for_each(|change| node("-", change));
    for Change { parameter, subject, before, after, restart } in &changes.changes {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "automatic".into());
        let (before, after, how) = (value(before), value(after), restart.instruction());
        let _ = writeln!(text, "  {parameter} of {subject}: {before} to {after}: {how}");
    }
    let _ = writeln!(text, "  all together: {}", changes.restart().instruction());
}

fn changes_json(changes: &Comparison) -> Value {
    let node = |change: &NodeChange| {
        let role = change.role.to_string();
        json!({"node": change.id.0, "role": role, "restart": change.restart.name()})
    };
    let parameter = |change: &Change| {
        json!({
            "parameter": change.parameter,
            "of": change.subject.to_string(),
            "before": change.before,
            "after": change.after,
            "restart": change.restart.name(),
        })
    };
    json!({
        "added": changes.added.iter().map(node).collect::<Vec<_>>(),
        "removed": changes.removed.iter().map(node).collect::<Vec<_>>(),
        "parameters": changes.changes.iter().map(parameter).collect::<Vec<_>>(),
        "restart": changes.restart().name(),
    })
}
