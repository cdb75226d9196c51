//! Survivability of states made by hand.

use model::cluster::{PlacementSlot, Replica};
use model::{Incarnation, Member};

use super::*;
use crate::role::fixture::{config, state};

/// The nodes of every loss that the cluster does not survive.
fn fatal(of: &Survivability) -> Vec<Vec<u16>> {
    of.losses.iter().filter(|loss| !loss.survives).map(|loss| loss.nodes.clone()).collect()
}

fn heard(state: &ClusterState) -> BTreeSet<NodeId> {
    state.members.keys().copied().collect()
}

fn why(of: &Survivability, node: u16) -> &str {
    let loss = of.losses.iter().find(|loss| loss.nodes == [node]);
    &loss.unwrap_or_else(|| panic!("no loss of {node}: {of:?}")).why
}

#[test]
fn two_replicas_and_a_management_node() {
    let config = config(2, &["a", "b"], &["c"]);
    let state = state(&config);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!((told.voters.as_slice(), told.majority), ([1, 2, 49].as_slice(), 2));
    assert_eq!((told.tie_breaker, told.serves), (Some(49), true));
    assert_eq!(fatal(&told), Vec::<Vec<u16>>::new());
    assert_eq!(
        why(&told, 1),
        "node group 0 has all its rows on node 2, 2 of 3 votes are left; until it is back, the \
         loss of node 2 would stop the cluster"
    );
    assert_eq!(
        why(&told, 49),
        "2 of 3 votes are left; until it is back, the loss of any of nodes 1, 2 would stop the \
         cluster"
    );
}

#[test]
fn one_host_is_one_loss() {
    let config = config(2, &["a", "b"], &["a"]);
    let state = state(&config);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(fatal(&told), [[1, 49]]);
    let host = told.losses.last().expect("there is one");
    assert_eq!(host.what, "host a (nodes 1, 49)");
    assert_eq!(host.why, "1 of 3 votes are left, which is no majority");
}

#[test]
fn two_groups_of_two() {
    let config = config(2, &["a", "b", "a", "b"], &["c"]);
    let mut state = state(&config);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(fatal(&told), Vec::<Vec<u16>>::new());
    let host = told.losses.iter().find(|loss| loss.nodes == [1, 3]).expect("host a");
    assert_eq!(host.then_fatal, [2, 4], "each has the last copy of a group");
    // Node 3 has been lost and removed: three data nodes vote, nobody breaks ties.
    remove(&mut state, 3);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!((told.voters.as_slice(), told.tie_breaker), ([1, 2, 4].as_slice(), None));
    assert_eq!(told.missing, [3]);
    assert_eq!(fatal(&told), [vec![4], vec![2, 4]]);
    assert_eq!(why(&told, 4), "node group 1 has no replica left");
    assert!(why(&told, 49).starts_with("it holds no complete rows and has no vote now"));
}

#[test]
fn three_replicas() {
    let config = config(3, &["a", "b", "c"], &["d"]);
    let mut state = state(&config);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!((told.voters.as_slice(), told.tie_breaker), ([1, 2, 3].as_slice(), None));
    assert!(fatal(&told).is_empty() && told.losses.iter().all(|loss| loss.then_fatal.is_empty()));
    // Two are left: the management node votes from now on.
    remove(&mut state, 2);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(told.tie_breaker, Some(49));
    assert!(fatal(&told).is_empty());
    remove(&mut state, 49);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(fatal(&told), [[1], [3]], "nobody breaks the tie");
}

#[test]
fn one_already_lost() {
    let config = config(2, &["a", "b"], &["c"]);
    let mut state = state(&config);
    // It has died a moment ago: the others have not removed it, and count its vote.
    let mut alive = heard(&state);
    alive.remove(&NodeId(2));
    let told = Survivability::of(&config, &state, &alive);
    assert_eq!((told.missing.as_slice(), told.voters.len()), ([2].as_slice(), 3));
    assert_eq!(fatal(&told), [[1], [49]]);
    // Once it is removed, node 1 votes alone.
    remove(&mut state, 2);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(told.voters, [1]);
    assert_eq!(fatal(&told), [[1]]);
    // It returns, and has no rows yet.
    rejoin(&mut state, 2, MemberStatus::Syncing);
    let told = Survivability::of(&config, &state, &heard(&state));
    assert_eq!(fatal(&told), [[1]]);
    assert!(why(&told, 2).starts_with("it holds no complete rows"));
}

#[test]
fn a_cluster_whose_disks_are_being_read_does_not_serve() {
    let config = config(2, &["a", "b"], &["c"]);
    let mut state = state(&config);
    let mut become_status = |node: u16, status| {
        state.members.get_mut(&NodeId(node)).expect("a member").status = status;
        Survivability::of(&config, &state, &heard(&state))
    };
    let told = become_status(1, MemberStatus::Restoring);
    assert!(told.serves, "node 2 has everything: {}", told.why_not);
    let told = become_status(2, MemberStatus::Restoring);
    assert!(!told.serves && told.losses.is_empty());
    assert_eq!(told.why_not, "nodes 1, 2 read the rows of node group 0 from disk");
    let told = become_status(1, MemberStatus::Active);
    assert!(told.serves, "{}", told.why_not);
}

#[test]
fn a_cluster_that_does_not_serve_survives_nothing() {
    let config = config(2, &["a", "b"], &["c"]);
    let mut state = state(&config);
    let told = Survivability::of(&config, &state, &[NodeId(49)].into());
    assert!(!told.serves && told.losses.is_empty());
    assert_eq!(told.why_not, "node group 0 has no replica left");
    assert_eq!(told.missing, [1, 2]);
    state.started = false;
    assert!(!Survivability::of(&config, &state, &heard(&state)).serves);
}

fn remove(state: &mut ClusterState, node: u16) {
    state.members.remove(&NodeId(node));
    for slot in &mut state.slots {
        slot.replicas.retain(|replica| replica.node != NodeId(node));
    }
}

fn rejoin(state: &mut ClusterState, node: u16, status: MemberStatus) {
    let life = Incarnation(100);
    let like = state.members.values().next().expect("somebody is left").clone();
    let member = Member { incarnation: life, voter: life, status, role: NodeRole::Data, ..like };
    state.members.insert(NodeId(node), member);
    let add = |slot: &mut PlacementSlot| {
        slot.replicas.push(Replica { node: NodeId(node), syncing: true });
    };
    state.slots.iter_mut().for_each(add);
}
