//! Membership in the state machine: admission, placement, removal, the survival rules.

use std::sync::Arc;

use model::cluster::{HeldGroup, Revision};
use model::{StateChange, Table, TableId};
use testing::BIGINT;

use super::*;

/// What a follower is told makes the state of the one before, and nothing of any other.
fn check_change(before: &ClusterState, after: &ClusterState) {
    let change = StateChange::between(before, after);
    let text = serde_json::to_string(&change).unwrap();
    let told: StateChange = serde_json::from_str(&text).unwrap();
    assert_eq!((told.id(), told.index()), (after.id, after.index));
    if before.id == after.id {
        assert_eq!(told.apply(before).as_ref(), Some(after));
    }
    assert_eq!(told.apply(after), None, "applied twice");
    let other = ClusterState { id: ClusterId(after.id.0 + 1), ..before.clone() };
    assert_eq!(told.apply(&other), None, "applied to another cluster's state");
    let earlier = ClusterState { index: ControlIndex(u64::MAX), ..before.clone() };
    assert_eq!(told.apply(&earlier), None, "applied after one was lost");
}

/// A log under construction.
pub(super) struct Log {
    pub(super) state: ClusterState,
}

impl Log {
    pub(super) fn new() -> Self {
        let mut log = Self { state: ClusterState::default() };
        log.run(Command::Found { cluster: ClusterId(7), protocol: 0 });
        log
    }

    /// A started cluster of `data` data nodes from 1 on and management node 90.
    pub(super) fn started(data: u16, replicas: usize) -> Self {
        let mut log = Self::new();
        for node in 1..=data {
            log.add(node, 1);
        }
        log.run(Command::AddMember {
            node: NodeId(90),
            incarnation: Incarnation(1),
            voter: Incarnation(1),
            role: NodeRole::Management,
            workers: 1,
        });
        let nodes: Vec<NodeId> = (1..=data).map(NodeId).collect();
        let groups = nodes.chunks(replicas).map(<[NodeId]>::to_vec).collect();
        log.run(Command::Start { groups });
        assert!(log.state.started);
        log
    }

    pub(super) fn run(&mut self, command: Command) {
        let index = ControlIndex(self.state.index.0 + 1);
        let moot = moot(&self.state, &command);
        let next = apply(&self.state, index, &command);
        let changed = ClusterState { index: self.state.index, ..next.clone() } != self.state;
        assert_eq!(moot, !changed);
        next.check();
        check_change(&self.state, &next);
        self.state = next;
    }

    fn add(&mut self, node: u16, incarnation: u64) {
        self.run(Command::AddMember {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            voter: Incarnation(incarnation),
            role: NodeRole::Data,
            workers: 2,
        });
    }

    fn remove(&mut self, node: u16, incarnation: u64) {
        let incarnation = Incarnation(incarnation);
        self.run(Command::RemoveMember { node: NodeId(node), incarnation });
    }

    fn settle(&mut self, node: u16, incarnation: u64) {
        let incarnation = Incarnation(incarnation);
        self.run(Command::TakeoverDone { node: NodeId(node), incarnation });
    }

    fn sync(&mut self, node: u16, incarnation: u64) {
        let incarnation = Incarnation(incarnation);
        self.run(Command::StartSync { node: NodeId(node), incarnation });
    }

    fn activate(&mut self, node: u16, incarnation: u64) {
        let incarnation = Incarnation(incarnation);
        self.run(Command::Activate { node: NodeId(node), incarnation });
    }

    fn status(&self, node: u16) -> Option<MemberStatus> {
        self.state.members.get(&NodeId(node)).map(|m| m.status)
    }

    /// Slot by slot, syncing replicas negative.
    fn chains(&self) -> Vec<Vec<i32>> {
        let sign = |r: &cluster::Replica| i32::from(r.node.0) * if r.syncing { -1 } else { 1 };
        self.state.slots.iter().map(|s| s.replicas.iter().map(sign).collect()).collect()
    }
}

#[test]
fn start_forms_groups_and_rotates_primaries() {
    let log = Log::started(4, 2);
    assert_eq!(log.chains(), [[1, 2], [2, 1], [3, 4], [4, 3]]);
    assert_eq!(log.status(1), Some(MemberStatus::Active));
    assert_eq!(log.status(90), Some(MemberStatus::Active));
    assert_eq!(log.state.driver(), Some(NodeId(1)));
}

/// Node 1 of two has died and is back.
fn back() -> Log {
    let mut log = Log::started(2, 2);
    log.remove(1, 1);
    log.settle(1, 1);
    log.add(1, 2);
    log.sync(1, 2);
    assert_eq!(log.chains(), [[2, -1], [2, -1]]);
    log.run(Command::HoldGroup { group: 0 });
    assert_eq!(log.state.held, None, "it has not all rows yet");
    log.activate(1, 2);
    log
}

#[test]
fn primaries_move_back_while_their_group_is_held() {
    let mut log = back();
    assert_eq!(log.chains(), [[2, 1], [2, 1]]);
    let stale = HeldGroup { group: 0, since: ControlIndex(1) };
    log.run(Command::MovePrimaries { held: stale });
    assert_eq!(log.chains(), [[2, 1], [2, 1]], "nothing is held");
    log.run(Command::HoldGroup { group: 0 });
    let held = log.state.held.expect("it can move");
    log.run(Command::MovePrimaries { held: stale });
    assert_eq!(log.chains(), [[2, 1], [2, 1]], "it was held at another time");
    log.run(Command::MovePrimaries { held });
    assert_eq!((log.chains(), log.state.held), (vec![vec![1, 2], vec![2, 1]], None));
    log.run(Command::HoldGroup { group: 0 });
    assert_eq!(log.state.held, None, "all is as it should be");
}

#[test]
fn a_death_keeps_primaries_where_they_are() {
    let mut log = back();
    log.run(Command::HoldGroup { group: 0 });
    let held = log.state.held.expect("it can move");
    log.remove(1, 2);
    log.run(Command::MovePrimaries { held });
    assert_eq!((log.chains(), log.state.held), (vec![vec![2], vec![2]], Some(held)));
    log.run(Command::ReleaseGroup { held: HeldGroup { group: 1, ..held } });
    assert_eq!(log.state.held, Some(held));
    log.run(Command::ReleaseGroup { held });
    assert_eq!(log.state.held, None);
}

#[test]
fn start_needs_members_and_even_groups() {
    let mut log = Log::new();
    log.add(1, 1);
    log.add(2, 1);
    for groups in
        [vec![], vec![vec![]], vec![vec![1, 3]], vec![vec![1, 1]], vec![vec![1, 2], vec![]]]
    {
        let groups = groups.into_iter().map(|g| g.into_iter().map(NodeId).collect()).collect();
        log.run(Command::Start { groups });
        assert!(!log.state.started);
    }
}

#[test]
fn admission_wants_a_newer_life_and_settled_transactions() {
    let mut log = Log::started(2, 2);
    log.add(2, 5);
    assert_eq!(log.state.members[&NodeId(2)].incarnation, Incarnation(1));
    log.remove(2, 9);
    assert_eq!(log.status(2), Some(MemberStatus::Active), "another life is not touched");
    log.remove(2, 1);
    assert_eq!(log.status(2), None);
    assert_eq!(log.state.takeovers.len(), 1);
    assert_eq!(log.state.takeovers[0].workers, 2);
    log.add(2, 2);
    assert_eq!(log.status(2), None, "its transactions are not settled");
    log.settle(2, 1);
    log.add(2, 1);
    assert_eq!(log.status(2), None, "the life is not new");
    log.add(2, 2);
    assert_eq!(log.status(2), Some(MemberStatus::Joining));
}

#[test]
fn before_the_start_a_removal_leaves_nothing_to_settle() {
    let mut log = Log::new();
    log.add(1, 1);
    log.add(2, 1);
    log.remove(2, 1);
    assert!(log.state.takeovers.is_empty());
    log.add(2, 2);
    assert_eq!(log.status(2), Some(MemberStatus::Joining));
}

#[test]
fn a_rejoined_node_is_copied_behind_the_primary() {
    let mut log = Log::started(3, 3);
    log.remove(1, 1);
    assert_eq!(log.chains(), [[2, 3], [2, 3], [3, 2]]);
    log.settle(1, 1);
    log.add(1, 2);
    log.activate(1, 2);
    assert_eq!(log.status(1), Some(MemberStatus::Joining), "it has no rows yet");
    log.sync(1, 2);
    assert_eq!(log.chains(), [[2, -1, 3], [2, -1, 3], [3, -1, 2]]);
    log.remove(2, 1);
    assert_eq!(log.chains(), [[3, -1], [3, -1], [3, -1]], "promoted before the syncing one");
    log.activate(1, 2);
    assert_eq!(log.chains(), [[3, 1], [3, 1], [3, 1]]);
    assert_eq!(log.status(1), Some(MemberStatus::Active));
    assert_eq!(log.state.driver(), Some(NodeId(3)));
}

#[test]
fn promotion_puts_syncing_replicas_behind_the_new_primary() {
    let mut log = Log::started(4, 4);
    log.remove(4, 1);
    log.settle(4, 1);
    log.add(4, 2);
    log.sync(4, 2);
    assert_eq!(log.chains()[0], [1, -4, 2, 3]);
    log.remove(1, 1);
    assert_eq!(log.chains()[0], [2, -4, 3]);
}

#[test]
fn a_slot_without_active_replica_stops_the_cluster() {
    let mut log = Log::started(2, 2);
    log.remove(2, 1);
    log.settle(2, 1);
    log.add(2, 2);
    log.sync(2, 2);
    assert!(!log.state.stopped);
    log.remove(1, 1);
    assert!(log.state.stopped, "a half-copied replica cannot go on");
    assert_eq!(log.chains(), [Vec::<i32>::new(), vec![]]);
    log.add(3, 1);
    assert_eq!(log.status(3), None);
}

#[test]
fn survival_by_groups() {
    // Who dies of four nodes in two groups, and whether the rows survive.
    let table: [(&[u16], bool); 8] = [
        (&[1], true),
        (&[1, 3], true),
        (&[2, 3], true),
        (&[2, 4], true),
        (&[1, 2], false),
        (&[3, 4], false),
        (&[1, 3, 4], false),
        (&[1, 2, 3, 4], false),
    ];
    for (dead, survives) in table {
        let mut log = Log::started(4, 2);
        for node in dead {
            log.remove(*node, 1);
        }
        assert_eq!(!log.state.stopped, survives, "dead: {dead:?}");
    }
}

#[test]
fn four_replicas_run_on_one() {
    let mut log = Log::started(4, 4);
    for (dead, chains) in [(1, 3), (2, 2), (4, 1)] {
        log.remove(dead, 1);
        assert!(!log.state.stopped);
        assert!(log.state.slots.iter().all(|slot| slot.replicas.len() == chains));
    }
    assert_eq!(log.chains(), [[3], [3], [3], [3]]);
    log.remove(3, 1);
    assert!(log.state.stopped);
}

#[test]
fn leaving_is_for_those_who_can_be_spared() {
    let leave = |node| Command::Leave { node: NodeId(node), incarnation: Incarnation(1) };
    let mut log = Log::started(2, 2);
    log.run(leave(1));
    assert_eq!(log.status(1), Some(MemberStatus::Leaving));
    log.run(leave(2));
    assert_eq!(log.status(2), Some(MemberStatus::Active), "the last copy stays");
    log.run(leave(90));
    assert_eq!(log.status(90), Some(MemberStatus::Leaving));
    log.remove(1, 1);
    assert_eq!(log.state.takeovers.len(), 1);
    assert!(!log.state.stopped);
}

#[test]
fn a_late_management_node_becomes_active() {
    let mut log = Log::started(2, 2);
    log.remove(90, 1);
    assert!(log.state.takeovers.is_empty());
    let (node, incarnation) = (NodeId(90), Incarnation(2));
    let (voter, role) = (incarnation, NodeRole::Management);
    log.run(Command::AddMember { node, incarnation, voter, role, workers: 1 });
    assert_eq!(log.status(90), Some(MemberStatus::Joining));
    log.sync(90, 2);
    assert_eq!(log.status(90), Some(MemberStatus::Joining));
    log.activate(90, 2);
    assert_eq!(log.status(90), Some(MemberStatus::Active));
}

fn table(name: &str) -> SchemaChange {
    testing::table(name).column("id", BIGINT).create()
}

#[test]
fn schema_answers_recognise_repeats() {
    let session = SessionId { node: NodeId(200), incarnation: Incarnation(1), number: 1 };
    let schema = |number, change| Command::Schema { session, number, change };
    let mut log = Log::new();
    log.run(schema(1, table("a")));
    assert_eq!(log.state.schema_answers[&session], (1, Err(ErrorCode::NotServing)));
    let mut log = Log::started(2, 2);
    log.run(schema(1, table("a")));
    let (_, answer) = log.state.schema_answers[&session];
    assert_eq!(answer, Ok(log.state.table_names["a"]));
    log.run(schema(1, table("a")));
    assert_eq!(log.state.schema_answers[&session], (1, answer), "a repeat");
    log.run(schema(2, table("a")));
    assert_eq!(log.state.schema_answers[&session], (2, Err(ErrorCode::TableExists)));
    log.run(schema(1, table("b")));
    assert!(!log.state.table_names.contains_key("b"), "older than the last one");
}

#[test]
fn schema_answers_are_bounded() {
    let mut log = Log::started(2, 2);
    let session = |number| SessionId { node: NodeId(200), incarnation: Incarnation(1), number };
    for number in 0..SCHEMA_SESSIONS_MAX as u32 + 2 {
        // Refused changes are answered too.
        let change = SchemaChange::DropTable { table: TableId(999) };
        log.run(Command::Schema { session: session(number), number: 1, change });
        if number == 10 {
            let change = SchemaChange::DropTable { table: TableId(999) };
            log.run(Command::Schema { session: session(0), number: 2, change });
        }
    }
    assert_eq!(log.state.schema_answers.len(), SCHEMA_SESSIONS_MAX);
    assert_eq!(log.state.schema_sessions.len(), SCHEMA_SESSIONS_MAX);
    assert!(log.state.schema_answers.contains_key(&session(0)), "answered again later");
    assert!(!log.state.schema_answers.contains_key(&session(1)));
    assert!(!log.state.schema_answers.contains_key(&session(2)));
}

fn create_table(log: &mut Log, name: &str) -> TableId {
    let table = testing::table(name).column("k", BIGINT).nullable("v", BIGINT);
    let change = table.unique("v", ["v"]).description(*b"of SQL").create();
    if !log.state.databases.contains_key("d") {
        let state = &mut log.state;
        state.databases.insert("d".into(), Default::default());
    }
    let session = SessionId { node: NodeId(200), incarnation: Incarnation(1), number: 1 };
    let number = log.state.schema_answers.get(&session).map_or(1, |(last, _)| last + 1);
    log.run(Command::Schema { session, number, change });
    log.state.table_named(name).unwrap().id
}

/// Groups in which the table, and those behind it, have partitions.
fn groups_of(state: &ClusterState, table: TableId) -> Vec<u16> {
    let behind = state.tables.values().filter(|t| t.id == table || t.hidden_behind == Some(table));
    let places = behind.flat_map(|table| state.partitions(table));
    let mut groups: Vec<u16> = places.map(|place| state.slot_of(place).group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A cluster of nodes 1 and 2 with a table, and nodes 3 and 4 in a group of their own.
fn grown() -> (Log, TableId) {
    let mut log = Log::started(2, 2);
    let old = create_table(&mut log, "d.old");
    for node in [3, 4] {
        log.add(node, 1);
    }
    form_second_group(&mut log, 1);
    (log, old)
}

/// Nodes 3 and 4, in lives of this number, form group 1, and new tables use it.
fn form_second_group(log: &mut Log, life: u64) {
    log.run(Command::CreateGroup { nodes: vec![NodeId(3), NodeId(4)] });
    for node in [3, 4] {
        log.sync(node, life);
        log.activate(node, life);
    }
    log.run(Command::OpenGroup { group: 1 });
}

#[test]
fn new_tables_use_a_new_group_and_old_ones_stay() {
    let before = Log::started(2, 2);
    let (mut log, old) = grown();
    assert_eq!(log.chains(), [[1, 2], [2, 1], [3, 4], [4, 3]]);
    let table = log.state.tables[&old].clone();
    for place in before.state.partitions(&table) {
        assert_eq!(log.state.chain(place), before.state.chain(place), "{place}");
    }
    let new = create_table(&mut log, "d.new");
    assert_eq!(groups_of(&log.state, old), [0]);
    assert_eq!(groups_of(&log.state, new), [0, 1]);
    assert_eq!(log.state.tables[&new].partition_count, 8, "one for each slot and worker");
    let primaries: std::collections::BTreeSet<_> = log
        .state
        .partitions(&log.state.tables[&new])
        .map(|place| log.state.primary(place).unwrap())
        .collect();
    assert_eq!(primaries.len(), 8, "each worker of each node is primary of one");
    assert_eq!((log.state.moves().tables, log.state.moves().left), (2, 1));
}

#[test]
fn a_group_is_made_of_free_members_as_many_as_the_others_have() {
    let mut log = Log::started(2, 2);
    log.add(3, 1);
    log.add(4, 1);
    for nodes in [&[3][..], &[3, 3], &[2, 3], &[3, 90], &[3, 5], &[3, 4, 5], &[]] {
        let nodes = nodes.iter().copied().map(NodeId).collect();
        log.run(Command::CreateGroup { nodes });
        assert_eq!(log.state.groups.len(), 1);
    }
    log.run(Command::OpenGroup { group: 1 });
    log.run(Command::CreateGroup { nodes: vec![NodeId(4), NodeId(3)] });
    assert_eq!(log.state.groups.len(), 2);
    log.run(Command::OpenGroup { group: 1 });
    assert!(!log.state.is_open(1), "its nodes are not complete");
}

#[test]
fn a_group_that_holds_tables_is_not_dropped_and_its_loss_stops_the_cluster() {
    let (mut log, _) = grown();
    let new = create_table(&mut log, "d.new");
    log.run(Command::DropGroup { group: 1 });
    assert_eq!(log.state.groups[1].len(), 2, "new tables use it");
    log.run(Command::RetireGroup { group: 1 });
    assert!(log.state.reorganizing && log.state.has_older_layout(new));
    log.run(Command::DropGroup { group: 1 });
    assert_eq!(log.state.groups[1].len(), 2, "a table has rows there");
    let mut lost = Log { state: log.state.clone() };
    lost.remove(3, 1);
    lost.remove(4, 1);
    assert!(lost.state.stopped);
    let session = SessionId { node: NodeId(201), incarnation: Incarnation(1), number: 1 };
    let change = SchemaChange::TruncateTable { table: new };
    log.run(Command::Schema { session, number: 1, change });
    let new = log.state.table_named("d.new").unwrap().id;
    assert_eq!(groups_of(&log.state, new), [0], "emptied tables move by themselves");
    log.run(Command::Reorganize { wanted: false });
    let mut lost = Log { state: log.state.clone() };
    lost.remove(3, 1);
    lost.remove(4, 1);
    assert!(!lost.state.stopped, "nothing is there any more");
    log.run(Command::DropGroup { group: 1 });
    assert_eq!(log.status(3), Some(MemberStatus::Leaving));
    assert_eq!(log.chains(), [vec![1, 2], vec![2, 1], vec![], vec![]]);
    log.remove(3, 1);
    log.remove(4, 1);
    assert!(!log.state.stopped);
    for node in [3, 4] {
        log.settle(node, 1);
        log.add(node, 2);
    }
    form_second_group(&mut log, 2);
    assert_eq!(log.state.slots.len(), 4, "the slots of before are used again");
    assert_eq!(log.chains(), [[1, 2], [2, 1], [3, 4], [4, 3]]);
}

#[test]
fn tables_of_the_sql_layer_move_off_a_drained_group_only() {
    let (mut log, old) = grown();
    let kept = create_table(&mut log, "#sequences");
    for passing in ["#temporary/1/1/d/t", "d.#alter-7", "#moved/7"] {
        create_table(&mut log, passing);
    }
    let left = |log: &Log| {
        let names = log.state.table_names.iter();
        let left = names.filter(|(name, id)| log.state.is_to_be_moved(name, **id));
        left.map(|(_, id)| *id).collect::<Vec<_>>()
    };
    assert_eq!(left(&log), [old]);
    assert_eq!((log.state.moves().tables, log.state.moves().left), (2, 1));
    log.run(Command::RetireGroup { group: 0 });
    assert_eq!(left(&log), [kept, old]);
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(left(&log), [old], "it lies on both groups, as new tables do");
}

#[test]
fn tables_that_sql_does_not_describe_stay_and_the_move_of_the_others_ends() {
    let (mut log, old) = grown();
    let native = create_table(&mut log, "d.native");
    log.run(Command::RetireGroup { group: 1 });
    let table = log.state.tables.get(&native).unwrap();
    let table = Arc::new(Table { description: Default::default(), ..Table::clone(table) });
    log.state.tables.insert(native, table);
    let is_left = |log: &Log, name: &str, table| log.state.is_to_be_moved(name, table);
    assert!(!is_left(&log, "d.native", native) && log.state.has_older_layout(native));
    assert_eq!((log.state.moves().tables, log.state.moves().left), (1, 0), "{old:?} is in place");
    // It is in the way of dropping the group.
    log.run(Command::DropGroup { group: 1 });
    assert_eq!(log.state.groups[1].len(), 2);
}

#[test]
fn a_group_without_tables_may_lose_all_and_come_back() {
    let (mut log, _) = grown();
    log.run(Command::RetireGroup { group: 1 });
    log.remove(3, 1);
    log.remove(4, 1);
    assert!(!log.state.stopped);
    for node in [3, 4] {
        log.settle(node, 1);
        log.add(node, 2);
        log.sync(node, 2);
        log.activate(node, 2);
    }
    log.run(Command::OpenGroup { group: 1 });
    assert_eq!(log.chains(), [[1, 2], [2, 1], [3, 4], [4, 3]]);
    let new = create_table(&mut log, "d.new");
    assert_eq!(groups_of(&log.state, new), [0, 1]);
}

/// Two replicas of a table, and a third one.
fn with_third_replica() -> (Log, TableId) {
    let mut log = Log::started(2, 2);
    let table = create_table(&mut log, "d.t");
    log.add(3, 1);
    log.run(Command::CreateReplica { group: 0, node: NodeId(3) });
    log.sync(3, 1);
    log.activate(3, 1);
    log.run(Command::OpenGroup { group: 0 });
    (log, table)
}

#[test]
fn a_group_gets_one_more_replica_and_new_tables_one_more_primary() {
    let mut log = Log::started(2, 2);
    let old = create_table(&mut log, "d.old");
    let before = log.state.clone();
    for (group, node) in [(0, 3), (1, 3), (0, 2), (0, 90)] {
        log.run(Command::CreateReplica { group, node: NodeId(node) });
        assert_eq!(log.state.groups, before.groups, "{node} into {group}");
    }
    log.add(3, 1);
    log.run(Command::CreateReplica { group: 0, node: NodeId(3) });
    log.run(Command::CreateReplica { group: 0, node: NodeId(3) });
    assert_eq!(log.state.groups, [[1, 2, 3].map(NodeId)]);
    // The new slot is there before tables use it, as change streams need it.
    assert_eq!(log.chains(), [[1, 2], [2, 1], [1, 2]]);
    assert!(!log.state.is_used(2));
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.state.newest_slots(), [0, 1], "node 3 is not complete");
    log.sync(3, 1);
    assert_eq!(log.chains(), [[1, -3, 2], [2, -3, 1], [1, -3, 2]]);
    log.activate(3, 1);
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.chains(), [[1, 3, 2], [2, 3, 1], [3, 1, 2]]);
    assert_eq!(
        log.state.preferred_primaries(0).map(|(_, node)| node.0).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    // A table of before has its rows three times, and moves to be primary on all.
    assert!(log.state.has_older_layout(old) && log.state.moves().left == 1);
    let new = create_table(&mut log, "d.new");
    assert!(!log.state.has_older_layout(new));
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.chains().len(), 3, "once");
    // Two may die, and the third one has all.
    log.remove(1, 1);
    log.remove(2, 1);
    assert_eq!((log.chains(), log.state.stopped), (vec![vec![3]; 3], false));
}

#[test]
fn a_node_without_rows_leaves_its_group_at_once_and_one_that_gets_them_stays() {
    let mut log = Log::started(2, 2);
    create_table(&mut log, "d.t");
    let replica = Command::CreateReplica { group: 0, node: NodeId(3) };
    log.add(3, 1);
    log.run(replica.clone());
    log.run(Command::DropReplica { node: NodeId(3) });
    assert_eq!(log.state.groups, [[1, 2].map(NodeId)]);
    assert!(log.state.departing.is_empty());
    log.run(replica);
    assert_eq!(log.chains(), [[1, 2], [2, 1], [1, 2]], "the slot of before is used again");
    log.sync(3, 1);
    log.run(Command::DropReplica { node: NodeId(3) });
    assert_eq!(log.state.groups, [[1, 2, 3].map(NodeId)]);
    assert!(log.state.departing.is_empty());
    log.remove(3, 1);
    log.run(Command::DropReplica { node: NodeId(3) });
    assert_eq!(log.state.groups, [[1, 2].map(NodeId)]);
}

#[test]
fn a_slot_that_no_table_uses_keeps_nobody_out_of_a_restart_nor_in_a_group() {
    let (mut log, _) = with_third_replica();
    log.run(Command::DropReplica { node: NodeId(3) });
    log.remove(3, 1);
    log.run(Command::OpenGroup { group: 0 });
    let moved = create_table(&mut log, "d.moved");
    assert!(!log.state.has_older_layout(moved) && log.state.newest_slots() == [0, 1]);
    log.run(Command::Reorganize { wanted: false });
    let table = log.state.table_named("d.t").unwrap().id;
    let session = SessionId { node: NodeId(201), incarnation: Incarnation(1), number: 9 };
    let change = SchemaChange::DropTable { table };
    log.run(Command::Schema { session, number: 1, change });
    log.run(Command::Reorganize { wanted: false });
    assert!(!log.state.is_used(2));
    // In the unused slot only one of them is left.
    log.state.slots[2].replicas.truncate(1);
    assert!([1, 2].into_iter().all(|node| has_all_rows(&log.state, NodeId(node))));
    assert!(!has_all_rows(&log.state, NodeId(3)) && !has_all_rows(&log.state, NodeId(90)));
    // The last one of an unused slot is not waited for.
    log.state.slots[2].replicas.clear();
    log.state.slots[2].last = Some(NodeId(2));
    log.remove(2, 1);
    log.run(Command::DropReplica { node: NodeId(2) });
    assert_eq!(log.state.groups, [[NodeId(1)]]);
}

#[test]
fn a_group_has_four_replicas_at_most() {
    let (mut log, _) = with_third_replica();
    for node in [4, 5] {
        log.add(node, 1);
        log.run(Command::CreateReplica { group: 0, node: NodeId(node) });
    }
    assert_eq!(log.state.groups[0].len(), 4);
}

#[test]
fn a_replica_that_is_dropped_leaves_when_its_node_has_left() {
    let (mut log, table) = with_third_replica();
    log.run(Command::DropReplica { node: NodeId(1) });
    assert_eq!(log.state.departing, [NodeId(1)]);
    assert_eq!(log.chains(), [[1, 3, 2], [2, 3, 1], [3, 1, 2]], "it is there until it has left");
    // The others may not go any more, as each may have to stay for the other.
    log.run(Command::Leave { node: NodeId(1), incarnation: Incarnation(1) });
    assert_eq!(log.status(1), Some(MemberStatus::Leaving));
    log.remove(1, 1);
    assert_eq!(log.state.groups, [[2, 3].map(NodeId)]);
    assert!(log.state.departing.is_empty());
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.state.newest_slots(), [0, 1]);
    // It stays out, as a spare node.
    log.settle(1, 1);
    log.add(1, 2);
    log.sync(1, 2);
    assert_eq!(log.status(1), Some(MemberStatus::Joining));
    // A new table has one primary on each node, an old one two on one of them.
    let new = create_table(&mut log, "d.new");
    assert!(!log.state.has_older_layout(new));
    assert!(!log.state.has_older_layout(table), "it was made for two nodes");
    log.run(Command::CreateReplica { group: 0, node: NodeId(1) });
    log.sync(1, 2);
    log.activate(1, 2);
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.chains().len(), 3, "the slot of before is used again");
    assert_eq!(log.chains()[2].first(), Some(&1));
}

#[test]
fn the_last_complete_copy_is_not_dropped() {
    let mut log = Log::started(2, 2);
    create_table(&mut log, "d.t");
    log.remove(2, 1);
    log.run(Command::DropReplica { node: NodeId(1) });
    assert!(log.state.departing.is_empty());
    // Who is not there is dropped at once.
    log.run(Command::DropReplica { node: NodeId(2) });
    assert_eq!((log.state.groups.clone(), log.chains()), (vec![vec![NodeId(1)]], vec![vec![1]; 2]));
    log.run(Command::DropReplica { node: NodeId(1) });
    assert_eq!(log.state.groups, [[NodeId(1)]]);
    log.run(Command::OpenGroup { group: 0 });
    assert_eq!(log.state.newest_slots(), [0]);
}

#[test]
fn a_node_that_departs_stays_in_its_group_while_nobody_else_has_its_rows() {
    let mut log = Log::started(2, 2);
    create_table(&mut log, "d.t");
    log.run(Command::DropReplica { node: NodeId(2) });
    log.run(Command::DropReplica { node: NodeId(1) });
    assert_eq!(log.state.departing, [NodeId(2)], "one of them stays");
    // The one that stays dies first.
    log.remove(1, 1);
    log.run(Command::Leave { node: NodeId(2), incarnation: Incarnation(1) });
    assert_eq!(log.status(2), Some(MemberStatus::Active));
    let mut other = Log { state: log.state.clone() };
    log.remove(2, 1);
    assert!(log.state.stopped);
    assert_eq!(log.state.groups, [[1, 2].map(NodeId)], "the rows are on its disk");
    // The other one is back: now it may leave.
    other.settle(1, 1);
    other.add(1, 2);
    other.sync(1, 2);
    other.activate(1, 2);
    other.run(Command::Leave { node: NodeId(2), incarnation: Incarnation(1) });
    other.remove(2, 1);
    assert_eq!((other.state.groups.clone(), other.state.stopped), (vec![vec![NodeId(1)]], false));
}

#[test]
fn states_of_older_programs_have_no_layouts() {
    let log = Log::started(2, 2);
    let text = serde_json::to_string(&log.state).unwrap();
    for word in ["layouts", "retired", "reorganizing", "departing"] {
        assert!(!text.contains(word), "older programs can read it");
    }
    let read: ClusterState = serde_json::from_str(&text).unwrap();
    assert_eq!(read, log.state);
}

fn configure(version: u64, text: &str) -> Command {
    let what = vec!["DataMemory of node 1: 1G to 2G".to_string()];
    let (by, fingerprint) = ("somebody".to_string(), "f".to_string());
    let revision = Revision { version, at: 1, by, fingerprint, what, restarts: vec![1] };
    Command::Configure { text: text.to_owned(), revision }
}

#[test]
fn of_two_changes_of_one_configuration_one_counts_and_it_outlives_restarts() {
    let mut log = Log::started(2, 2);
    let text = |log: &Log| log.state.configured.as_ref().map(|configured| configured.text.clone());
    log.run(configure(2, "nobody"));
    assert_eq!(text(&log), None, "there is no version 1 yet");
    log.run(configure(1, "first"));
    log.run(configure(2, "second"));
    log.run(configure(2, "another"));
    assert_eq!(text(&log).as_deref(), Some("second"));
    assert!(
        moot(&log.state, &configure(2, "another")) && !moot(&log.state, &configure(3, "third"))
    );
    // Written and read, whole or in pieces, it is the same.
    let read: ClusterState =
        serde_json::from_slice(&serde_json::to_vec(&log.state).unwrap()).unwrap();
    assert_eq!(read.configured, log.state.configured);
    assert_eq!(log.state.without_pieces().configured, log.state.configured);
    // A table that changes later does not bring the text along again.
    let before = log.state.clone();
    create_table(&mut log, "a");
    let change = serde_json::to_string(&StateChange::between(&before, &log.state)).unwrap();
    assert!(!change.contains("second") && !change.contains("configured"), "{change}");
    assert_eq!(text(&log).as_deref(), Some("second"));
}

#[test]
fn an_upgrade_is_finalized_once_and_for_all() {
    let mut log = Log::started(2, 2);
    assert_eq!(log.state.finalized(), 17, "who founded it did not tell");
    let written = serde_json::to_string(&log.state).unwrap();
    assert!(!written.contains("protocol"), "older programs wrote it as it is: {written}");
    log.run(Command::Finalize { protocol: 19 });
    log.run(Command::Finalize { protocol: 18 });
    assert_eq!(log.state.finalized(), 19);
    let mut log = Log { state: ClusterState::default() };
    log.run(Command::Found { cluster: ClusterId(7), protocol: 18 });
    assert_eq!(log.state.finalized(), 18);
}
