//! The joiner alone, with the participants and the client played by hand.

use std::sync::Arc;

use actor::Actor;
use model::{
    ActorKind, Address, ColumnId, Epoch, ErrorCode, Incarnation, NodeId, PartitionId,
    PartitionIndex, Refusal, ScanNumber, SessionId, WorkerId,
};
use vector::{
    Block, Input, JoinPlan, KeyPart, Kind, Lookup, Matching, Node, Program, ScalarRef, Vector,
    Yield,
};
use wire::{
    Chain, ClientReply, LockMode, Message, ParticipantMessage, Projection, ReadRequest, ScanBatch,
    ScanId, ScanMessage, ScanRequest, ScanRows, ScanSource, ScanStatus, WaitPolicy,
};

use super::Joiner;
use crate::harness::{BASE, World, ints};

const CLIENT: Address = Address { node: NodeId(9), worker: WorkerId(0), actor: ActorKind::Client };
const SNAPSHOT: Option<Epoch> = Some(Epoch(7));

struct Sim {
    world: World,
    joiner: Joiner,
}

fn program(columns: &[u16]) -> Program {
    let input = |column: &u16| Input { column: ColumnId(*column), kind: Kind::Int };
    let all: Vec<u16> = (0..columns.len() as u16).collect();
    Program {
        inputs: columns.iter().map(input).collect(),
        references: None,
        nodes: all.iter().copied().map(Node::Input).collect(),
        filter: vec![],
        yields: Yield::Rows(all),
        members: vec![],
        top: None,
    }
}

/// For each row of the base table the `v` of the one whose `id` is its `v`.
fn plan() -> JoinPlan {
    let columns = vec![Input { column: ColumnId(2), kind: Kind::Int }];
    let (key, conditions) = (vec![KeyPart::Place(1)], program(&[]));
    let (index, matching) = (None, Matching::Left);
    let lookup = Lookup { table: BASE, version: 1, index, key, columns, conditions, matching };
    JoinPlan { lookups: vec![lookup], result: program(&[0, 2]) }
}

fn scan() -> ScanId {
    let session = SessionId { node: NodeId(9), incarnation: Incarnation(1), number: 3 };
    ScanId { session, number: ScanNumber(4) }
}

fn partition() -> PartitionId {
    PartitionId { table: BASE, index: PartitionIndex(0) }
}

fn request(join: Option<JoinPlan>) -> ScanMessage {
    ScanMessage::Open(Box::new(ScanRequest {
        scan: scan(),
        partition: partition(),
        table_version: 1,
        reply_to: CLIENT,
        transaction: None,
        snapshot: SNAPSHOT,
        source: ScanSource::Heap,
        filter: None,
        projection: Projection::Columns(vec![ColumnId(0), ColumnId(2)]),
        keys: false,
        lock: LockMode::Committed,
        wait: WaitPolicy::Wait,
        lock_wait: None,
        settled: false,
        limit: None,
        chain: Chain::EMPTY,
        program: Some(Arc::new(program(&[0, 2]))),
        join: join.map(Arc::new),
        batch_rows: None,
    }))
}

/// Rows `(id, v)`.
fn block(rows: &[(i64, i64)]) -> Block {
    let mut columns = [Vector::new(Kind::Int), Vector::new(Kind::Int)];
    for (id, v) in rows {
        columns[0].push(ScalarRef::Int(*id));
        columns[1].push(ScalarRef::Int(*v));
    }
    Block::new(rows.len(), columns.into())
}

impl Sim {
    /// A joiner with a join that has asked its participant for the scan.
    fn new() -> Self {
        let mut sim = Self { world: World::new(1, ActorKind::Joiner), joiner: Joiner::new() };
        sim.deliver(sim.participant(), Message::Scan(request(Some(plan()))));
        let (to, message) = sim.world.sent_one();
        let Message::Scan(ScanMessage::Open(open)) = message else { panic!("{message:?}") };
        let me = sim.world.ctx().me();
        assert_eq!((to, open.reply_to, open.join), (sim.participant(), me, None));
        sim
    }

    fn participant(&self) -> Address {
        Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Participant }
    }

    fn deliver(&mut self, from: Address, message: Message) {
        self.joiner.handle(&mut self.world.ctx(), from, message);
        let Self { joiner, world } = self;
        joiner.check_invariants(&world.shared);
    }

    fn scanned(&mut self, rows: &[(i64, i64)], status: ScanStatus) {
        let blocks = if rows.is_empty() { vec![] } else { vec![block(rows)] };
        let (scan, partition) = (scan(), partition());
        let batch =
            ScanBatch { scan, partition, rows: ScanRows::default(), status, blocks, examined: 10 };
        self.deliver(self.participant(), Message::Scan(ScanMessage::Batch(Box::new(batch))));
    }

    fn next(&mut self) {
        let (scan, partition) = (scan(), partition());
        self.deliver(CLIENT, Message::Scan(ScanMessage::Next { scan, partition }));
    }

    /// The lookups that were sent; all are of this very node.
    fn lookups(&mut self) -> Vec<(Address, ReadRequest)> {
        let read = |envelope: wire::Envelope| match *envelope.message {
            Message::Participant(ParticipantMessage::Read(request)) => (envelope.to, *request),
            other => panic!("{other:?}"),
        };
        let reads: Vec<_> = self.world.sent().into_iter().map(read).collect();
        assert!(reads.iter().all(|(to, read)| to.node.0 == 1 && read.snapshot == SNAPSHOT));
        reads
    }

    /// Finds for the key `k` the value `k + 100`; nothing for keys of 50 and more.
    fn answer(&mut self, (to, read): (Address, ReadRequest)) {
        let table = self.world.shared.cluster.tables[&BASE].clone();
        let layout = model::RowLayout::new(0, &table.columns[2..]);
        let row = |read: &wire::KeyRead| {
            let of_key = |key: &i64| table.primary_key_of(&ints(&[*key])) == Some(read.key.clone());
            let key = (0..50).find(of_key)?;
            Some(layout.encode_values(&ints(&[key + 100])).expect("a row"))
        };
        let result = Ok(read.reads.iter().map(row).collect());
        let (session, request) = (read.session, read.request);
        self.deliver(to, Message::Reply(ClientReply::Read { session, request, result }));
    }

    /// The batch that was sent to the client.
    fn batch(&mut self) -> (Vec<(i64, Option<i64>)>, ScanStatus) {
        let (to, message) = self.world.sent_one();
        let Message::Scan(ScanMessage::Batch(batch)) = message else { panic!("{message:?}") };
        assert_eq!((to, batch.scan, batch.partition), (CLIENT, scan(), partition()));
        let number = |value: ScalarRef<'_>| match value {
            ScalarRef::Int(number) => Some(number),
            _ => None,
        };
        let rows = batch.blocks.iter().flat_map(|block| {
            let [a, b] = block.columns() else { panic!("two columns") };
            (0..block.rows()).map(|at| (number(a.get(at)).expect("a number"), number(b.get(at))))
        });
        (rows.collect(), batch.status)
    }
}

#[test]
fn batches_are_looked_up_and_sent_when_asked_for() {
    let mut sim = Sim::new();
    sim.scanned(&[(1, 7), (2, 60), (3, 7)], ScanStatus::More);
    let lookups = sim.lookups();
    let keys: usize = lookups.iter().map(|(_, read)| read.reads.len()).sum();
    assert_eq!(keys, 2, "each key once");
    lookups.into_iter().for_each(|lookup| sim.answer(lookup));
    // There may be more for the same batch.
    let (to, message) = sim.world.sent_one();
    assert_eq!(to, sim.participant());
    assert!(matches!(message, Message::Scan(ScanMessage::Next { .. })));
    sim.scanned(&[], ScanStatus::Finished);
    let (rows, status) = sim.batch();
    assert_eq!(rows, [(1, Some(107)), (3, Some(107)), (2, None)]);
    assert_eq!(status, ScanStatus::Finished);
    sim.next();
    assert!(sim.world.sent().is_empty(), "it is over");
}

#[test]
fn a_client_that_does_not_ask_costs_a_bounded_amount() {
    let mut sim = Sim::new();
    let many: Vec<(i64, i64)> = (0..2_000).map(|id| (id, 7)).collect();
    for round in 0..12 {
        sim.scanned(&many, ScanStatus::More);
        for lookup in sim.lookups() {
            sim.answer(lookup);
        }
        let sent = sim.world.sent();
        let asks = sent.iter().filter(|envelope| envelope.to == sim.participant()).count();
        if asks == 0 {
            assert!(round > 1, "the first batches make one for the client");
            let more = sent.len();
            assert!(more <= 1, "one batch is awaited, and was sent");
            sim.next();
            let sent = sim.world.sent();
            assert!(sent.iter().any(|envelope| envelope.to == CLIENT), "{sent:?}");
            return;
        }
    }
    panic!("rows are scanned that nobody asks for");
}

#[test]
fn failures_end_it_and_nothing_stays() {
    // Of the scan.
    let mut sim = Sim::new();
    let refusal = Refusal::from(ErrorCode::SnapshotTooOld);
    sim.scanned(&[], ScanStatus::Failed(refusal.clone()));
    assert_eq!(sim.batch(), (vec![], ScanStatus::Failed(refusal.clone())));
    // Of a lookup: the scan is closed.
    let mut sim = Sim::new();
    sim.scanned(&[(1, 7)], ScanStatus::More);
    let (to, ReadRequest { session, request, .. }) = sim.lookups().remove(0);
    let result = Err(refusal.clone());
    sim.deliver(to, Message::Reply(ClientReply::Read { session, request, result }));
    let sent = sim.world.sent();
    assert!(matches!(&*sent[0].message, Message::Scan(ScanMessage::Batch(batch))
        if batch.status == ScanStatus::Failed(refusal.clone())));
    assert!(matches!(*sent[1].message, Message::Scan(ScanMessage::Close { .. })));
    // Of the client, while a lookup is under way.
    let mut sim = Sim::new();
    sim.scanned(&[(1, 7)], ScanStatus::More);
    let lookup = sim.lookups().remove(0);
    let down = Message::LinkDown { node: NodeId(9), incarnation: Incarnation(1), closed: true };
    sim.deliver(CLIENT, down);
    assert!(matches!(sim.world.sent_one().1, Message::Scan(ScanMessage::Close { .. })));
    sim.answer(lookup);
    assert!(sim.world.sent().is_empty());
}

#[test]
fn plans_that_do_not_fit_their_tables_are_refused() {
    let mut sim = Sim::new();
    let mut old = plan();
    old.lookups[0].version = 0;
    for join in [Some(old), None] {
        sim.deliver(sim.participant(), Message::Scan(request(join)));
        let sent = sim.world.sent();
        let last = sent.last().expect("an answer");
        assert!(matches!(&*last.message, Message::Scan(ScanMessage::Batch(batch))
            if matches!(&batch.status, ScanStatus::Failed(r) if r.code == ErrorCode::NotPushed)));
    }
    // A table that changes while rows are looked up.
    let mut sim = Sim::new();
    sim.scanned(&[(1, 7)], ScanStatus::More);
    let lookup = sim.lookups().remove(0);
    let before = sim.world.change(|state| {
        let table = state.tables.get_mut(&BASE).expect("it is there");
        Arc::make_mut(table).version = 2;
    });
    sim.joiner.cluster_changed(&mut sim.world.ctx(), &before);
    sim.answer(lookup);
    let sent = sim.world.sent();
    assert!(matches!(&*sent[0].message, Message::Scan(ScanMessage::Batch(batch))
        if matches!(&batch.status, ScanStatus::Failed(r) if r.code == ErrorCode::SchemaChanged)));
}
