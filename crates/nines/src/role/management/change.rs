//! What a change of the configuration would do: per parameter the old and the new value and what it
//! takes; which nodes have to be restarted; why it is refused.
//!
//! # Guarantees
//! Pure. What is refused would harm the cluster, or would leave nodes that cannot find each other;
//! a refusal names the object and what to do instead.
//! # Not here
//! Logging the change (`super`), restarting nodes (`ctl`).

use std::collections::{BTreeMap, BTreeSet};

use cluster_config::parameter::{Parameter, Restart, Status};
use cluster_config::{Change, ClusterConfig, Comparison, Machine, NodeChange, Role, Subject};
use model::cluster::CONFIGURATION_BYTES_MAX;
use model::{ClusterState, Incarnation, NodeId};

use crate::layout::Layout;
use crate::machine::Cpus;
use crate::role::is_here;
use crate::role::request::{ChangePlan, PlannedChange};
use crate::role::status::{list, other_groups};

/// What is changed, and in which cluster.
pub(super) struct Case<'a> {
    pub(super) before: &'a ClusterConfig,
    pub(super) after: &'a ClusterConfig,
    pub(super) state: &'a ClusterState,
    pub(super) connected: &'a BTreeMap<NodeId, Incarnation>,
    /// The management node that is asked.
    pub(super) own: NodeId,
    /// Also what takes a stop of the cluster, or empty directories.
    pub(super) force: bool,
}

/// What a change would do.
pub(super) fn plan(case: &Case<'_>) -> ChangePlan {
    let comparison = case.after.compare(case.before);
    let mut plan = ChangePlan::default();
    let mut restarts = BTreeSet::new();
    for change in &comparison.changes {
        let takes = takes(case, change, &mut plan.refused);
        if let Takes::Restart(nodes) = &takes {
            restarts.extend(nodes);
        }
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "automatic".into());
        plan.changes.push(PlannedChange {
            what: format!("{} of {}", change.parameter, change.subject),
            before: value(&change.before),
            after: value(&change.after),
            takes: takes.text(),
        });
    }
    come_and_go(case, &comparison, &mut plan, &mut restarts);
    whole(case, &comparison, &mut plan);
    // A node that is not in both has nothing to be restarted for.
    let in_both = |id: &NodeId| case.before.node(*id).is_some() && case.after.node(*id).is_some();
    plan.restarts = restarts.into_iter().filter(in_both).map(|id| id.0).collect();
    plan.added = comparison.added.iter().map(|node| node.id.0).collect();
    plan
}

/// What a changed parameter takes.
enum Takes {
    /// Nothing.
    Nothing(&'static str),
    /// Restarts of these nodes, in turn.
    Restart(Vec<NodeId>),
    /// More than restarts in turn.
    More(Restart),
}

impl Takes {
    fn text(&self) -> String {
        match self {
            Takes::Nothing(why) => (*why).to_string(),
            Takes::Restart(nodes) => {
                let ids: Vec<u16> = nodes.iter().map(|node| node.0).collect();
                match ids.len() {
                    1 => format!("restart of {}", list(&ids)),
                    _ => format!("rolling restart of {}", list(&ids)),
                }
            }
            Takes::More(restart) => restart.instruction().to_string(),
        }
    }
}

fn takes(case: &Case<'_>, change: &Change, refused: &mut Vec<String>) -> Takes {
    let nodes = match &change.subject {
        Subject::Nodes(nodes) => nodes.clone(),
        Subject::Link(one, other) => vec![*one, *other],
        Subject::Cluster | Subject::Links(_) => all(case.after),
    };
    let parameter = parameter_of(case, change);
    match parameter.map(|parameter| parameter.status) {
        Some(Status::Meaningless(_)) => return Takes::Nothing("no effect here"),
        Some(Status::Later) => return Takes::Nothing("no effect yet"),
        Some(Status::Honoured) | None => {}
    }
    // The formed groups say what counts, and are compared for themselves.
    let spare = case.after.spare_node_ids();
    let groups = || case.state.groups.iter().filter(|nodes| !nodes.is_empty());
    let has_come = |node: &NodeId| spare.contains(node) || groups().any(|of| of.contains(node));
    let replicas = usize::from(case.after.replicas());
    let is_so = match change.parameter {
        "NodeGroup" => !case.state.started || nodes.iter().all(has_come),
        "NoOfReplicas" => case.state.started && groups().all(|of| of.len() == replicas),
        _ => false,
    };
    let grown = is_so && other_groups(case.after, case.state).is_none();
    match change.restart {
        Restart::Online => Takes::Nothing("nothing: it is in effect at once"),
        Restart::InitialSystem if grown => Takes::Restart(nodes),
        Restart::Node if change.parameter == "HostName" => {
            // Who is not a client is found there by all others.
            let is_found =
                |id: &NodeId| case.after.node(*id).is_some_and(|node| !node.role.is_client());
            Takes::Restart(if nodes.iter().any(is_found) { all(case.after) } else { nodes })
        }
        Restart::Node => Takes::Restart(nodes),
        restart => {
            let may_be_forced = restart != Restart::InitialSystem;
            if !may_be_forced {
                refused.push(format!(
                    "{} of {} is laid down when a cluster is founded: {}",
                    change.parameter,
                    change.subject,
                    restart.instruction()
                ));
            } else if !case.force {
                refused.push(format!(
                    "{} of {} takes more than restarts in turn ({}): a node that came back with it \
                     now would not fit the others; with --force it is in effect from the next \
                     start, and you see to that",
                    change.parameter,
                    change.subject,
                    restart.instruction()
                ));
            }
            Takes::More(restart)
        }
    }
}

fn parameter_of(case: &Case<'_>, change: &Change) -> Option<&'static Parameter> {
    let kind = match &change.subject {
        Subject::Nodes(nodes) => {
            nodes.first().and_then(|id| case.after.node(*id)).map(|node| node.role.section())
        }
        _ => None,
    };
    match kind {
        Some(kind) => Parameter::find(change.parameter, kind),
        None => Parameter::named(change.parameter).next(),
    }
}

fn all(config: &ClusterConfig) -> Vec<NodeId> {
    config.nodes().iter().map(|node| node.id).collect()
}

/// Nodes that come and go.
fn come_and_go(
    case: &Case<'_>,
    comparison: &Comparison,
    plan: &mut ChangePlan,
    restarts: &mut BTreeSet<NodeId>,
) {
    let mut others = |id: NodeId, which: &[Role]| -> Vec<NodeId> {
        let nodes = case.after.nodes().iter().filter(|node| node.id != id);
        let nodes: Vec<NodeId> =
            nodes.filter(|node| which.contains(&node.role)).map(|node| node.id).collect();
        restarts.extend(&nodes);
        nodes
    };
    // Every node keeps the list of those that it links to from its start on.
    let kernel = [Role::Data, Role::Management];
    let everybody = [Role::Data, Role::Management, Role::Sql, Role::Api];
    for NodeChange { id, role, .. } in &comparison.added {
        let nodes = others(*id, if role.is_client() { &kernel } else { &everybody });
        let takes = format!("{}, then start node {}", Takes::Restart(nodes).text(), id.0);
        let (before, after) = (String::new(), "new".to_string());
        plan.changes.push(PlannedChange {
            what: format!("{role} node {}", id.0),
            before,
            after,
            takes,
        });
        let grouped = !case.after.spare_node_ids().contains(id);
        if *role == Role::Data && case.state.started && grouped {
            plan.refused.push(format!(
                "data node {0} would be in a node group from the start, and the cluster has its \
                 groups: write NodeGroup=65536 in its section, start it, and then `nines ctl \
                 create nodegroup` with as many nodes as there are replicas",
                id.0
            ));
        }
    }
    for NodeChange { id, role, .. } in &comparison.removed {
        let (before, after) = ("there".to_string(), "gone".to_string());
        let takes = "nothing: the others forget it when they are restarted".into();
        plan.changes.push(PlannedChange {
            what: format!("{role} node {}", id.0),
            before,
            after,
            takes,
        });
        if *id == case.own {
            plan.refused.push(format!(
                "management node {} is the one that is asked: order that at another one, which \
                 stays",
                id.0
            ));
        } else if case.connected.contains_key(id) {
            let how = if role.is_client() {
                "where it runs".to_string()
            } else {
                format!("by `nines ctl stop {}`", id.0)
            };
            plan.refused.push(format!("{role} node {} is connected: stop it first, {how}", id.0));
        }
    }
}

/// What is wrong with the configuration as a whole.
fn whole(case: &Case<'_>, comparison: &Comparison, plan: &mut ChangePlan) {
    if comparison.is_empty() {
        return;
    }
    if let Some(why) = other_groups(case.after, case.state) {
        plan.refused.push(format!("it does not fit the rows that there are: {why}"));
    }
    let own = case.after.node(case.own);
    if own.is_some_and(|node| node.role != Role::Management) {
        plan.refused.push(format!("node {} would be no management node any more", case.own.0));
    }
    let machine = Machine::default();
    let old: BTreeSet<String> =
        case.before.advice(&machine).into_iter().map(|advice| advice.what).collect();
    for advice in case.after.advice(&machine) {
        if advice.fatal {
            plan.refused.push(advice.what);
        } else if !old.contains(&advice.what) {
            plan.warnings.push(advice.what);
        }
    }
    let cpus = Cpus::of_process();
    for node in case.after.nodes_of(Role::Data).filter(|node| is_here(node.host())) {
        let fits = |node| Layout::new(node, None, &cpus).map(drop);
        let before = case.before.node(node.id).filter(|before| before.role == Role::Data);
        if let Err(why) = fits(node)
            && before.is_none_or(|before| fits(before).is_ok())
        {
            plan.refused.push(format!("node {} would not start on this host: {why}", node.id.0));
        }
    }
    let size = case.after.canonical().len();
    if size > CONFIGURATION_BYTES_MAX {
        plan.refused.push(format!(
            "the configuration has {size} bytes; the limit is {CONFIGURATION_BYTES_MAX}: leave out \
             parameters that have their defaults"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::fixture;

    fn planned(assignments: &[&str], force: bool) -> ChangePlan {
        let before = fixture::config(2, &["a", "b"], &["c", "d"]);
        let assignments: Vec<String> = assignments.iter().map(|one| one.to_string()).collect();
        let after = before.assign(&assignments).expect("it can be used");
        planned_of(&before, &after, &[1, 2, 50, 60], force)
    }

    fn planned_of(
        before: &ClusterConfig,
        after: &ClusterConfig,
        connected: &[u16],
        force: bool,
    ) -> ChangePlan {
        let state = fixture::state(before);
        let connected = connected.iter().map(|id| (NodeId(*id), Incarnation(1))).collect();
        let (state, connected) = (&state, &connected);
        plan(&Case { before, after, state, connected, own: NodeId(49), force })
    }

    fn lines(plan: &ChangePlan) -> Vec<String> {
        let line = |change: &PlannedChange| {
            let PlannedChange { what, before, after, takes } = change;
            format!("{what}: {before} -> {after}: {takes}")
        };
        plan.changes.iter().map(line).collect()
    }

    #[test]
    fn each_parameter_says_what_it_takes() {
        let told =
            planned(&["ndbd.DataMemory=2G", "1.MaxNoOfTables=200", "60.QueryMemory=1G"], false);
        assert_eq!(
            lines(&told),
            [
                "MaxNoOfTables of node 1: 128 -> 200: no effect here",
                "DataMemory of nodes 1, 2: automatic -> 2G: rolling restart of nodes 1, 2",
                "QueryMemory of node 60: automatic -> 1G: restart of node 60",
            ]
        );
        assert_eq!(told.restarts, [1, 2, 60]);
        assert_eq!(told.refused, Vec::<String>::new());
        let nothing = planned(&[], false);
        assert!(nothing.changes.is_empty() && nothing.restarts.is_empty());
        // Where a node is found, all others have to know.
        assert_eq!(planned(&["1.HostName=e"], false).restarts, [1, 2, 49, 50, 60]);
        assert_eq!(planned(&["60.HostName=e"], false).restarts, [60]);
    }

    #[test]
    fn what_would_harm_the_cluster_is_refused_with_a_remedy() {
        let refused = |assignments: &[&str], force, parts: &[&str]| {
            let told = planned(assignments, force).refused.join("\n");
            for part in parts {
                assert!(told.contains(part), "{assignments:?}: {told}");
            }
            assert_eq!(told.is_empty(), parts.is_empty(), "{assignments:?}: {told}");
        };
        refused(&["ndbd.NoOfReplicas=1"], true, &["NoOfReplicas", "founded"]);
        refused(&["cluster.ClusterName=x"], false, &["ClusterName of the cluster", "--force"]);
        refused(&["cluster.ClusterName=x"], true, &[]);
        refused(&["ndbd.FragmentLogFileSize=32M"], false, &["--initial", "--force"]);
        refused(&["ndbd.AutomaticThreadConfig=0"], true, &["AutomaticThreadConfig", "founded"]);
    }

    #[test]
    fn nodes_come_without_a_group_and_go_when_they_are_stopped() {
        let before = fixture::config(2, &["a", "b"], &["c", "d"]);
        let parsed = |text: &str| ClusterConfig::parse(text.as_bytes()).expect("good").config;
        let more = |group: &str| {
            let node = |id| format!("[ndbd]\nNodeId={id}\nNoOfReplicas=2\nHostName=e\n{group}\n");
            parsed(&format!("{}{}{}", before.canonical(), node(3), node(4)))
        };
        let told = planned_of(&before, &more("NodeGroup=65536"), &[1, 2], false);
        assert_eq!(told.refused, Vec::<String>::new());
        assert_eq!((told.restarts, told.added), (vec![1, 2, 49, 50, 60], vec![3, 4]));
        let told = planned_of(&before, &more(""), &[1, 2], false);
        assert!(told.refused.iter().any(|why| why.contains("NodeGroup=65536")), "{told:?}");
        let fewer = |section: &str| parsed(&before.canonical().replace(section, ""));
        let sql = "[mysqld]\nNodeId=60\n";
        let told = planned_of(&before, &fewer(sql), &[1, 2, 60], false);
        assert!(told.refused[0].contains("sql node 60 is connected"), "{told:?}");
        assert_eq!(planned_of(&before, &fewer(sql), &[1, 2], false).refused, Vec::<String>::new());
        let own = "[ndb_mgmd]\nNodeId=49\nHostName=c\nPortNumber=9101\n";
        let told = planned_of(&before, &fewer(own), &[1, 2], false);
        assert!(told.refused[0].contains("the one that is asked"), "{told:?}");
    }
}
