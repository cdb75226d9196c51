//! Values that are given by name: `ndbd.DataMemory=2G`, `49.HttpPort=9090`.
//!
//! # Guarantees
//! What comes out has passed the same checks as a file. An assignment without a value takes the
//! value away, so that the default holds.
//! # Not here
//! What has to be restarted for it: `compare`.

use model::NodeId;

use crate::cluster::{ClusterConfig, Role, Settings};
use crate::ini::SectionKind;
use crate::parameter::Parameter;
use crate::problem::quoted;
use crate::value::{self, Value};

/// What an assignment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// One node.
    Node(NodeId),
    /// All sections of a kind.
    Kind(SectionKind),
}

impl ClusterConfig {
    /// The configuration with these assignments, `TARGET.PARAMETER=VALUE`. A target is the id of a
    /// node, or the name of a section, which stands for all nodes of its kind.
    ///
    /// # Errors
    /// Which assignment is not understood, or why the configuration cannot be used with all of
    /// them.
    pub fn assign(&self, assignments: &[String]) -> Result<ClusterConfig, String> {
        let mut config = self.clone();
        for assignment in assignments {
            let (target, name, value) = taken_apart(assignment)?;
            config.assign_one(target, name, value)?;
        }
        // Nodes depend on each other: what a file could not say is not to be had this way either.
        let parsed = ClusterConfig::parse(config.canonical().as_bytes());
        let parsed = parsed.map_err(|problems| {
            let told: Vec<String> = problems.into_iter().map(|problem| problem.what).collect();
            told.join("; ")
        })?;
        Ok(parsed.config)
    }

    fn assign_one(&mut self, target: Target, name: &str, value: &str) -> Result<(), String> {
        let kinds = self.kinds_of(target)?;
        let mut found = None;
        for kind in kinds {
            let Some(parameter) = Parameter::find(name, kind) else { continue };
            found = Some(parameter);
            if matches!(parameter.name, "NodeId" | "NodeId1" | "NodeId2" | "ExecuteOnComputer") {
                let name = parameter.name;
                return Err(format!("{name} says which node it is: `apply` a file instead"));
            }
            let value = match value {
                "" => None,
                text => Some(value::parse(parameter, text)?),
            };
            for settings in self.settings_of(target, kind) {
                put(settings, parameter.name, value.as_ref());
            }
        }
        found.map(drop).ok_or_else(|| self.unknown(target, name))
    }

    /// The kinds of sections that a target has.
    fn kinds_of(&self, target: Target) -> Result<Vec<SectionKind>, String> {
        Ok(match target {
            Target::Node(id) => {
                let node = self.node(id);
                let node = node.ok_or_else(|| format!("there is no node {}", id.0))?;
                vec![node.role.section()]
            }
            // As in a file: what nodes have too is said for all of them.
            Target::Kind(SectionKind::Cluster) => {
                vec![
                    SectionKind::Cluster,
                    SectionKind::Data,
                    SectionKind::Management,
                    SectionKind::Sql,
                    SectionKind::Api,
                ]
            }
            Target::Kind(SectionKind::Sql | SectionKind::Api) => {
                vec![SectionKind::Sql, SectionKind::Api]
            }
            Target::Kind(kind) => vec![kind],
        })
    }

    fn settings_of(&mut self, target: Target, kind: SectionKind) -> Vec<&mut Settings> {
        match kind {
            SectionKind::Cluster => vec![&mut self.settings],
            SectionKind::Tcp => vec![&mut self.link_defaults.0],
            SectionKind::SharedMemory => vec![&mut self.link_defaults.1],
            _ => {
                let role = |role: Role| role.section() == kind;
                let nodes = self.nodes.iter_mut().filter(|node| match target {
                    Target::Node(id) => node.id == id,
                    Target::Kind(_) => role(node.role),
                });
                nodes.map(|node| &mut node.settings).collect()
            }
        }
    }

    fn unknown(&self, target: Target, name: &str) -> String {
        let kind = match target {
            Target::Kind(kind) => kind,
            Target::Node(id) => match self.node(id) {
                Some(node) => node.role.section(),
                None => SectionKind::Cluster,
            },
        };
        let name = quoted(name);
        if let Some(elsewhere) = Parameter::named(&name).next() {
            let name = elsewhere.name;
            return format!("{name} does not belong to [{kind}], but to {}", elsewhere.sections);
        }
        match Parameter::nearest(&name, kind) {
            Some(nearest) => format!("`{name}` is not a parameter; did you mean {nearest}?"),
            None => format!(
                "`{name}` is not a parameter; `nines config parameters` lists all there are"
            ),
        }
    }
}

fn put(settings: &mut Settings, name: &'static str, value: Option<&Value>) {
    match value {
        Some(value) => settings.set(name, value.clone()),
        None => drop(settings.remove(name)),
    }
}

fn taken_apart(assignment: &str) -> Result<(Target, &str, &str), String> {
    let wrong = || {
        format!(
            "`{}` is not TARGET.PARAMETER=VALUE, as in ndbd.DataMemory=2G or 49.HttpPort=9090",
            quoted(assignment)
        )
    };
    let (left, value) = assignment.split_once('=').ok_or_else(wrong)?;
    let (target, name) = left.split_once('.').ok_or_else(wrong)?;
    let (target, name) = (target.trim(), name.trim());
    if let Ok(id) = target.parse() {
        return Ok((Target::Node(NodeId(id)), name, value.trim()));
    }
    let section = target.trim_matches(['[', ']']).to_ascii_lowercase();
    let kind = SectionKind::parse(&section).filter(|kind| *kind != SectionKind::Computer);
    let kind = kind.ok_or_else(|| {
        format!(
            "`{}` is neither the id of a node nor one of the sections ndbd, ndb_mgmd, mysqld, tcp, \
             shm and cluster",
            quoted(target)
        )
    })?;
    Ok((Target::Kind(kind), name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[cluster]\nClusterName=c\n[mgm]\nNodeId=49\n[ndbd default]\n\
                        NoOfReplicas=2\n[ndbd]\nNodeId=1\n[ndbd]\nNodeId=2\n\
                        DataMemory=3G\n[api]\n[mysqld]\n";

    fn base() -> ClusterConfig {
        ClusterConfig::parse(BASE.as_bytes()).expect("it can be used").config
    }

    fn assigned(assignments: &[&str]) -> Result<Vec<String>, String> {
        let assignments: Vec<String> = assignments.iter().map(|one| one.to_string()).collect();
        let after = base().assign(&assignments)?;
        let changes = after.compare(&base()).changes;
        Ok(changes
            .into_iter()
            .map(|change| {
                let after = change.after.unwrap_or("?".into());
                format!("{}: {}={after}", change.subject, change.parameter)
            })
            .collect())
    }

    #[test]
    fn a_value_is_given_to_a_node_or_to_all_of_a_kind() {
        let cases: [(&[&str], &[&str]); 7] = [
            (&["1.DataMemory=2G"], &["node 1: DataMemory=2G"]),
            (&["ndbd.datamemory=2048M"], &["node 1: DataMemory=2G", "node 2: DataMemory=2G"]),
            (&["2.DataMemory="], &["node 2: DataMemory=?"]),
            (&["49.HttpPort=9090"], &["node 49: HttpPort=9090"]),
            (&["tcp.SendBufferMemory=4M"], &["links by TCP: SendBufferMemory=4M"]),
            (&["mysqld.QueryMemory=1G"], &["nodes 151, 152: QueryMemory=1G"]),
            (
                &["cluster.ClusterName=d", "[db].TimeBetweenEpochs=50"],
                &["the cluster: ClusterName=d", "nodes 1, 2: TimeBetweenEpochs=50 ms"],
            ),
        ];
        for (assignments, expected) in cases {
            let told = assigned(assignments).unwrap_or_else(|why| panic!("{assignments:?}: {why}"));
            assert_eq!(told, expected, "{assignments:?}");
        }
        let all = assigned(&["cluster.AllowInsecure=1"]).expect("all nodes have it");
        assert_eq!(all, ["nodes 1, 2, 49, 151, 152: AllowInsecure=1"]);
        assert_eq!(assigned(&["1.DataMemory="]), Ok(Vec::new()), "it had none");
    }

    #[test]
    fn what_a_file_could_not_say_is_refused() {
        let cases = [
            ("DataMemory=2G", "is not TARGET.PARAMETER=VALUE"),
            ("ndbd.DataMemory", "is not TARGET.PARAMETER=VALUE"),
            ("", "is not TARGET.PARAMETER=VALUE"),
            ("9.DataMemory=2G", "there is no node 9"),
            ("nbdb.DataMemory=2G", "neither the id of a node nor"),
            ("ndbd.DataMemry=2G", "did you mean DataMemory?"),
            ("49.DataMemory=2G", "DataMemory does not belong to [ndb_mgmd], but to [ndbd]"),
            ("ndbd.DataMemory=lots", "DataMemory=lots"),
            ("ndbd.DataMemory=1", "out of range"),
            ("1.NodeId=3", "`apply` a file"),
            ("1.NoOfReplicas=1", "NoOfReplicas"),
            ("49.PortNumber=1186\u{7}", "PortNumber"),
        ];
        for (assignment, part) in cases {
            let why = assigned(&[assignment]).expect_err(assignment);
            assert!(why.contains(part) && !why.contains('\n'), "{assignment}: {why}");
        }
    }
}
