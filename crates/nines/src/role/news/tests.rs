//! Changes of states made by hand, and the lines about them.

use model::cluster::{HeldGroup, Takeover};
use model::{ClusterState, ControlIndex};

use super::*;
use crate::role::fixture::{config, state};

fn lines(before: &ClusterState, after: &ClusterState) -> Vec<String> {
    let config = config(2, &["a", "b"], &["c"]);
    let line = |draft: Draft| {
        let node = draft.node.map(|node| format!("{} ", node.0)).unwrap_or_default();
        format!("{} {} {node}{}", draft.level.name(), draft.event, draft.text)
    };
    of_change(&config, before, after).into_iter().map(line).collect()
}

/// The state that follows another.
fn after(before: &ClusterState, change: impl FnOnce(&mut ClusterState)) -> ClusterState {
    let mut next = before.clone();
    next.index = ControlIndex(before.index.0 + 1);
    change(&mut next);
    next
}

fn set_status(state: &mut ClusterState, node: u16, status: MemberStatus) {
    state.members.get_mut(&NodeId(node)).expect("a member").status = status;
}

fn remove(state: &mut ClusterState, node: u16) {
    let member = state.members.remove(&NodeId(node)).expect("a member");
    for slot in &mut state.slots {
        slot.replicas.retain(|replica| replica.node != NodeId(node));
    }
    let incarnation = member.incarnation;
    state.takeovers.push(Takeover { node: NodeId(node), incarnation, workers: member.workers });
}

#[test]
fn the_driver_dies() {
    let whole = state(&config(2, &["a", "b"], &["c"]));
    let lost = after(&whole, |state| remove(state, 1));
    assert_eq!(
        lines(&whole, &lost),
        [
            "error node_lost 1 lost: {why}; node group 0 has 1 of 2 copies left",
            "warning group_one_copy node group 0 has one copy of its rows left",
            "info epoch_driver 2 drives epochs now in place of node 1",
        ]
    );
    let settled = after(&lost, |state| state.takeovers.clear());
    assert_eq!(
        lines(&lost, &settled),
        ["info takeover_done 1 the transactions of its former life are settled"]
    );
}

#[test]
fn a_node_leaves_and_returns() {
    let whole = state(&config(2, &["a", "b"], &["c"]));
    let leaving = after(&whole, |state| set_status(state, 2, MemberStatus::Leaving));
    assert_eq!(
        lines(&whole, &leaving),
        ["info node_leaving 2 wishes to leave, and finishes its transactions"]
    );
    let left = after(&leaving, |state| remove(state, 2));
    assert_eq!(
        lines(&leaving, &left),
        [
            "info node_left 2 has left the cluster in good order",
            "warning group_one_copy node group 0 has one copy of its rows left",
        ]
    );
    let member = |status| Member { status, ..whole.members[&NodeId(2)].clone() };
    let joined = after(&left, |state| {
        state.takeovers.clear();
        state.members.insert(NodeId(2), member(MemberStatus::Joining));
    });
    assert_eq!(
        lines(&left, &joined)[0],
        "info node_joined 2 has joined the cluster; it has no rows \
                                          to serve yet"
    );
    let syncing = after(&joined, |state| set_status(state, 2, MemberStatus::Syncing));
    assert_eq!(
        lines(&joined, &syncing),
        ["info node_copying 2 is given what it lacks of the rows of node group 0"]
    );
    let back = after(&syncing, |state| {
        state.slots.clone_from(&whole.slots);
        set_status(state, 2, MemberStatus::Active);
    });
    assert_eq!(
        lines(&syncing, &back),
        [
            "info node_started 2 has started, with all rows of node group 0",
            "info group_complete node group 0 has all its 2 copies again",
        ]
    );
    let held = after(&back, |state| {
        state.slots[0].replicas.reverse();
        state.held = Some(HeldGroup { group: 0, since: ControlIndex(7) });
    });
    let let_go = after(&held, |state| state.held = None);
    assert_eq!(
        lines(&held, &let_go),
        ["info primaries_stay node group 0: the primaries stay where they are, as a transaction \
          stays open there; it is tried again"]
    );
    let spread = after(&let_go, |state| state.slots[0].replicas.reverse());
    assert_eq!(
        lines(&held, &spread),
        ["info primaries_spread node group 0: the primaries are spread over nodes 1, 2 again"]
    );
}

#[test]
fn the_cluster_starts_and_stops() {
    let started = state(&config(2, &["a", "b"], &["c"]));
    let seen = |state: &ClusterState| first_sight(NodeId(49), state).text;
    assert_eq!(seen(&started), "follows the cluster, which serves: nodes 1, 2 have all their rows");
    let forming = after(&started, |state| {
        state.started = false;
        state.slots.clear();
    });
    assert_eq!(seen(&forming), "follows the cluster, which has not started yet");
    assert_eq!(
        lines(&forming, &started),
        [
            "info cluster_started the cluster has started: one node group of 2 copies",
            "info epoch_driver 1 drives epochs now",
        ]
    );
    let stopped = after(&started, |state| {
        remove(state, 1);
        remove(state, 2);
        state.stopped = true;
    });
    assert!(lines(&started, &stopped).contains(
        &"error cluster_stopped the cluster has stopped: node group 0 has no copy left".to_string()
    ));
}

#[test]
fn reasons_and_lines() {
    let silence = Duration::from_millis(1_000);
    assert_eq!(reason(true, Broken::Reset, silence), "its process has ended");
    assert_eq!(reason(false, Broken::Silent, silence), "silent for 1000 ms");
    assert!(reason(false, Broken::Reset, silence).starts_with("the connection was reset"));
    let entry = Entry {
        number: 1,
        time: "2026-01-02T03:04:05.678Z".into(),
        level: Level::Info,
        node: Some(2),
        event: "node_left".into(),
        text: "has left".into(),
    };
    assert_eq!(entry.line(), "2026-01-02 03:04:05.678 info    node 2: has left");
}
