//! The builder with a small data node played here: rows and entries in maps, operations run at
//! once, refusals put in its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use actor::Actor;
use model::{
    ActorKind, Address, Command, Epoch, ErrorCode, IndexState, Key, MemberStatus, NodeId, Row,
    SchemaChange, Table, TableId, Value, WorkerId,
};
use wire::{
    ClientReply, ClientRequest, ControlMessage, Effect, Envelope, InspectMessage, Inspection,
    Message, Operation, OperationKind, OperationOutcome, OperationResult, ScanBatch, ScanMessage,
    ScanRequest, ScanRow, ScanRows, ScanStatus, TransactionState,
};

use super::IndexBuilder;
use crate::harness::{BASE, HIDDEN, ORDERED, UNIQUE, World, cluster};

/// The rows of one table by encoded primary key.
type Rows = BTreeMap<Box<[u8]>, Row>;

struct Node {
    world: World,
    builder: IndexBuilder,
    rows: BTreeMap<TableId, Rows>,
    /// Refuses every so-manieth batch with a lock time-out.
    refuse_every: Option<u32>,
    batches: u32,
    proposed: Vec<SchemaChange>,
    /// Rows deleted after the scan has seen them.
    deleted_later: Vec<i64>,
    scans_lost: u32,
    snapshots: u32,
    /// What the disks have, where there are any.
    awaited: Vec<Epoch>,
    /// The worker that lacks the ordered index, and how often it says so.
    unbuilt: (Address, u32),
    /// The worker that does not answer, and how often it does not.
    silent: (Address, u32),
    questions: u32,
}

fn set_state(state: &mut model::ClusterState, to: Option<IndexState>) {
    let table = state.tables.get_mut(&BASE).expect("the table");
    let mut changed = (**table).clone();
    match to {
        Some(to) => changed.unique_indexes[0].state = to,
        None => changed.unique_indexes.clear(),
    }
    *table = Arc::new(changed);
}

impl Node {
    fn new(rows: &[(i64, Option<i64>)]) -> Self {
        let world = World::new(1, ActorKind::IndexBuilder);
        let table = cluster().tables[&BASE].clone();
        let mut node = Self {
            world,
            builder: IndexBuilder::new(),
            rows: BTreeMap::new(),
            refuse_every: None,
            batches: 0,
            proposed: Vec::new(),
            deleted_later: Vec::new(),
            scans_lost: 0,
            snapshots: 0,
            awaited: Vec::new(),
            unbuilt: (worker(2, 1), 0),
            silent: (worker(1, 1), 0),
            questions: 0,
        };
        for (id, u) in rows {
            let values = [Value::Int(*id), u.map_or(Value::Null, Value::Int), Value::Int(0)];
            let row = table.layout().encode_values(&values).expect("a row");
            node.put(&table, row);
        }
        node
    }

    fn put(&mut self, table: &Table, row: Row) -> bool {
        let key = table.key_of_row(&table.primary_key, &row.0).0;
        let rows = self.rows.entry(table.id).or_default();
        let there = rows.contains_key(&key);
        if !there {
            rows.insert(key, row);
        }
        !there
    }

    fn apply(&mut self, change: impl FnOnce(&mut model::ClusterState)) {
        let before = self.world.change(change);
        self.builder.cluster_changed(&mut self.world.ctx(), &before);
        self.builder.check_invariants(&self.world.shared);
    }

    /// Answers what the builder sends, and lets its timers fire, until it has proposed something
    /// or does nothing more.
    fn run(&mut self) {
        for _ in 0..2_000 {
            let sent = self.world.sent();
            if sent.is_empty() {
                if !self.proposed.is_empty() {
                    return;
                }
                let Some(timer) = self.world.next_timer() else { return };
                self.builder.timeout(&mut self.world.ctx(), timer);
            }
            for envelope in sent {
                self.answer(envelope);
            }
            self.builder.check_invariants(&self.world.shared);
        }
        panic!("the build does not end: {:?}", self.builder);
    }

    fn tell(&mut self, from: Address, message: Message) {
        self.builder.handle(&mut self.world.ctx(), from, message);
    }

    fn answer(&mut self, envelope: Envelope) {
        let to = envelope.to;
        match *envelope.message {
            Message::Control(control) => {
                let ControlMessage::Propose(command) = *control else { panic!() };
                assert_eq!((to.node, to.actor), (NodeId(1), ActorKind::Control));
                let Command::Schema { change, .. } = &*command else { panic!() };
                self.proposed.push(change.clone());
            }
            Message::Scan(ScanMessage::Open(request)) => self.scan(to, &request),
            Message::Scan(_) => {}
            Message::Request(ClientRequest::OpenSnapshot { session, request }) => {
                self.snapshots += 1;
                let result = Ok(Epoch(9));
                let reply = ClientReply::Snapshot { session, request, result };
                self.tell(to, Message::Reply(reply));
            }
            Message::Request(ClientRequest::CloseSnapshot { .. }) => self.snapshots -= 1,
            Message::Request(ClientRequest::AwaitDurable { session, request, epoch, peek }) => {
                assert!(!peek && self.proposed.is_empty());
                self.awaited.push(epoch);
                let reply = ClientReply::Durable { session, request, result: Ok(epoch) };
                self.tell(to, Message::Reply(reply));
            }
            Message::Request(ClientRequest::Execute {
                transaction, request, operations, ..
            }) => {
                self.batches += 1;
                let refused =
                    self.refuse_every.is_some_and(|every| self.batches.is_multiple_of(every));
                let (results, state) = if refused {
                    (vec![], TransactionState::Aborted(ErrorCode::LockTimeout.into()))
                } else {
                    let run = |operation| self.operation(operation);
                    (operations.into_iter().map(run).collect(), TransactionState::Open)
                };
                let reply = ClientReply::Transaction { transaction, request, results, state };
                self.tell(to, Message::Reply(reply));
            }
            Message::Request(ClientRequest::Commit { transaction, request }) => {
                let (results, state) = (vec![], TransactionState::Committed(Epoch(9)));
                let reply = ClientReply::Transaction { transaction, request, results, state };
                self.tell(to, Message::Reply(reply));
            }
            Message::Request(ClientRequest::Abort { .. }) => {}
            Message::Inspect(ask) => self.inspect(to, *ask),
            other => panic!("{other:?}"),
        }
    }

    fn inspect(&mut self, to: Address, ask: InspectMessage) {
        let InspectMessage::Ask { session, request, what } = ask else { panic!("{ask:?}") };
        assert_eq!(what, Inspection::IndexBuilds);
        self.questions += 1;
        if to == self.silent.0 && self.silent.1 > 0 {
            self.silent.1 -= 1;
            return;
        }
        let mut rows = vec![build_of(TableId(77))];
        if to == self.unbuilt.0 && self.unbuilt.1 > 0 {
            self.unbuilt.1 -= 1;
            rows.push(build_of(BASE));
        }
        let answer = InspectMessage::Answer { session, request, rows };
        self.tell(to, Message::Inspect(Box::new(answer)));
    }

    fn scan(&mut self, to: Address, request: &ScanRequest) {
        let table = self.world.shared.cluster.tables[&request.partition.table].clone();
        let key_layout = model::RowLayout::new(0, &table.columns[..1]);
        let (scan, partition) = (request.scan, request.partition);
        let rows = self.rows.get(&table.id).into_iter().flat_map(Rows::values);
        let rows: ScanRows = rows
            .filter(|row| table.partition_of_row(&row.0) == partition.index)
            .map(|row| {
                let row = key_layout.encode(&[table.value(&row.0, model::ColumnId(0))]);
                ScanRow { key: Box::default(), row: row.expect("a key") }
            })
            .collect();
        let mut status = ScanStatus::Finished;
        if self.scans_lost > 0 && partition.index.0 == 3 {
            self.scans_lost -= 1;
            status = ScanStatus::Failed(ErrorCode::ScanAborted.into());
        }
        if partition.index.0 == 3 {
            for id in std::mem::take(&mut self.deleted_later) {
                let key = table.primary_key_of(&[Value::Int(id)]).expect("a key");
                self.rows.get_mut(&BASE).expect("rows").remove(&key.0);
            }
        }
        let batch = ScanBatch { scan, partition, rows, status, blocks: Vec::new(), examined: 0 };
        self.tell(to, Message::Scan(ScanMessage::Batch(Box::new(batch))));
    }

    fn operation(&mut self, operation: Operation) -> OperationResult {
        let table = self.world.shared.cluster.tables[&operation.partition.table].clone();
        let result = match operation.kind {
            OperationKind::Read { key: Key(key), .. } => {
                match self.rows.get(&table.id).and_then(|rows| rows.get(&key)) {
                    Some(row) => Ok(OperationOutcome::Row(row.clone())),
                    None => Err(ErrorCode::RowNotFound.into()),
                }
            }
            OperationKind::Insert { row } if self.put(&table, row.clone()) => {
                Ok(OperationOutcome::Written(Effect::Created))
            }
            OperationKind::Insert { .. } => Err(ErrorCode::RowExists.into()),
            other => panic!("{other:?}"),
        };
        OperationResult { number: operation.number, result }
    }

    fn entries(&self) -> Vec<(i64, i64)> {
        let table = &self.world.shared.cluster.tables[&HIDDEN];
        let rows = self.rows.get(&HIDDEN).into_iter().flat_map(Rows::values);
        rows.map(|row| match table.values(&row.0)[..] {
            [Value::Int(u), Value::Int(id)] => (u, id),
            _ => panic!("{row:?}"),
        })
        .collect()
    }

    fn add_entry(&mut self, u: i64, id: i64) {
        let table = self.world.shared.cluster.tables[&HIDDEN].clone();
        let row = table.layout().encode_values(&[Value::Int(u), Value::Int(id)]).expect("a row");
        assert!(self.put(&table, row));
    }

    fn online() -> Vec<SchemaChange> {
        Self::online_since(Epoch(0))
    }

    fn online_since(complete: Epoch) -> Vec<SchemaChange> {
        vec![SchemaChange::SetIndexOnline { table: BASE, index: UNIQUE, complete }]
    }
}

fn worker(node: u16, worker: u8) -> Address {
    Address { node: NodeId(node), worker: WorkerId(worker), actor: ActorKind::Participant }
}

/// What a worker tells of an ordered index that is not ready.
fn build_of(table: TableId) -> Vec<Value> {
    [table.0.into(), ORDERED.0.into(), 100, 40].map(Value::UInt).to_vec()
}

fn set_ordered(state: &mut model::ClusterState, to: IndexState) {
    let table = state.tables.get_mut(&BASE).expect("the table");
    Arc::make_mut(table).ordered_indexes[0].state = to;
}

/// A hundred rows, some without a key.
fn many() -> Vec<(i64, Option<i64>)> {
    (0..100).map(|id| (id, (id % 7 != 0).then_some(1_000 - id))).collect()
}

fn entries_of(rows: &[(i64, Option<i64>)]) -> Vec<(i64, i64)> {
    let mut entries: Vec<_> = rows.iter().filter_map(|(id, u)| u.map(|u| (u, *id))).collect();
    entries.sort_unstable();
    entries
}

#[test]
fn all_rows_with_a_key_get_their_entry() {
    let mut node = Node::new(&many());
    // A writer was faster for this one.
    node.add_entry(999, 1);
    node.apply(|state| set_state(state, Some(IndexState::Building)));
    assert_eq!(node.builder.building(), Some((BASE, UNIQUE)));
    node.run();
    assert_eq!(node.proposed, Node::online());
    assert_eq!(node.entries(), entries_of(&many()));
    assert_eq!(node.snapshots, 0, "the snapshot is let go");
    node.apply(|state| set_state(state, Some(IndexState::Online)));
    assert_eq!(node.builder.building(), None);
    // Timers may be left that were set for answers: they find nothing to do, and are not set again.
    for _ in 0..2 {
        if let Some(timer) = node.world.next_timer() {
            node.builder.timeout(&mut node.world.ctx(), timer);
        }
    }
    assert!(node.world.sent().is_empty() && node.world.next_timer().is_none());
}

#[test]
fn an_ordered_index_is_online_when_no_worker_lacks_it() {
    let mut node = Node::new(&[]);
    (node.unbuilt.1, node.silent.1) = (2, 1);
    node.apply(|state| set_ordered(state, IndexState::Building));
    assert_eq!(node.builder.building(), Some((BASE, ORDERED)));
    node.run();
    let online = SchemaChange::SetIndexOnline { table: BASE, index: ORDERED, complete: Epoch(0) };
    assert_eq!(node.proposed, [online]);
    assert_eq!((node.unbuilt.1, node.silent.1), (0, 0), "all have answered, and have it");
    assert!(node.questions >= 3 * 4, "two nodes of two workers, asked three times at least");
    node.apply(|state| set_ordered(state, IndexState::Online));
    assert_eq!(node.builder.building(), None);
}

#[test]
fn entries_are_on_disk_before_the_index_is_online() {
    let mut node = Node::new(&many());
    let config = model::Config { disk: true, ..(*node.world.shared.config).clone() };
    node.world.shared.config = Arc::new(config);
    node.add_entry(999, 1);
    node.apply(|state| set_state(state, Some(IndexState::Building)));
    node.run();
    assert_eq!((node.proposed, node.awaited), (Node::online_since(Epoch(9)), vec![Epoch(9)]));
    assert_eq!(node.snapshots, 0, "the snapshots are let go");
}

#[test]
fn rows_with_the_same_key_drop_the_index() {
    let mut rows = many();
    rows.push((500, Some(950)));
    let mut node = Node::new(&rows);
    node.apply(|state| set_state(state, Some(IndexState::Building)));
    node.run();
    assert_eq!(node.proposed, vec![SchemaChange::DropIndex { table: BASE, index: UNIQUE }]);
    node.apply(|state| set_state(state, None));
    assert_eq!(node.builder.building(), None);
}

#[test]
fn a_build_survives_time_outs_lost_scans_and_deleted_rows() {
    let mut node = Node::new(&many());
    node.refuse_every = Some(3);
    node.scans_lost = 3;
    node.deleted_later = vec![20, 22];
    node.apply(|state| set_state(state, Some(IndexState::Building)));
    node.run();
    assert_eq!(node.proposed, Node::online());
    let mut expected = many();
    expected.retain(|(id, _)| *id != 20 && *id != 22);
    assert_eq!(node.entries(), entries_of(&expected));
}

#[test]
fn only_the_driver_builds_and_a_new_one_begins_anew() {
    let mut node = Node::new(&many());
    node.apply(|state| {
        set_state(state, Some(IndexState::Building));
        state.members.get_mut(&NodeId(1)).expect("a member").joined_at.0 = 5;
    });
    assert_eq!(node.builder.building(), None);
    node.apply(|state| {
        state.members.get_mut(&NodeId(2)).expect("a member").status = MemberStatus::Syncing;
    });
    assert_eq!(node.builder.building(), Some((BASE, UNIQUE)));
    node.run();
    assert_eq!(node.proposed, Node::online());
    node.apply(|state| {
        state.members.get_mut(&NodeId(2)).expect("a member").status = MemberStatus::Active;
    });
    assert_eq!(node.builder.building(), None, "another node drives now");
}

#[test]
fn a_proposal_is_repeated_until_the_state_shows_it() {
    let mut node = Node::new(&[(1, Some(1))]);
    node.apply(|state| set_state(state, Some(IndexState::Building)));
    node.run();
    assert_eq!(node.proposed, Node::online());
    node.proposed.clear();
    node.run();
    assert_eq!(node.proposed, Node::online());
}
