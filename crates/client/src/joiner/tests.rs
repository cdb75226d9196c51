//! The joiner alone, with the participants and the client played by hand.

use std::sync::Arc;

use actor::Actor;
use model::{
    ActorKind, Address, ColumnId, Epoch, ErrorCode, Incarnation, NodeId, PartitionId,
    PartitionIndex, Refusal, ScanNumber, SessionId, WorkerId,
};
use vector::{
    Block, Given, GivenKey, Input, JoinPlan, KeyPart, Kind, Lookup, Matching, NO_TABLE, Node,
    Program, Range, ScalarRef, Vector, Yield,
};
use wire::{
    Chain, ClientReply, Continue, LockMode, Message, PROTOCOL_VERSION, ParticipantMessage,
    Projection, ReadRequest, ScanBatch, ScanId, ScanMessage, ScanRequest, ScanRows, ScanSource,
    ScanStatus, WaitPolicy,
};

use super::Joiner;
use crate::harness::{BASE, ORDERED, World, ints};

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
    let (index, matching, range, given) = (None, Matching::Left, None, None);
    let (table, version) = (BASE, 1);
    let lookup = Lookup { table, version, index, key, columns, conditions, matching, range, given };
    JoinPlan { lookups: vec![lookup], result: program(&[0, 2]) }
}

/// For each row of the base table the first number of all given rows whose second is its `v`.
fn given_plan(matching: Matching, rows: &[(i64, i64)]) -> JoinPlan {
    let mut plan = plan();
    let lookup = &mut plan.lookups[0];
    (lookup.table, lookup.version, lookup.matching) = (NO_TABLE, 0, matching);
    lookup.columns = vec![Input { column: ColumnId(0), kind: Kind::Int }];
    let key = vec![GivenKey { column: 1, collation: 63 }];
    lookup.given = Some(Given { rows: block(rows), key });
    plan
}

/// For each row of the base table the `id` of all whose `v` is its `v`.
fn range_plan(matching: Matching, any: bool) -> JoinPlan {
    let mut plan = plan();
    let lookup = &mut plan.lookups[0];
    (lookup.index, lookup.matching) = (Some(ORDERED), matching);
    lookup.columns = vec![Input { column: ColumnId(0), kind: Kind::Int }];
    lookup.range = Some(Range { program: program(&[0, 2]), key: vec![1], any });
    plan
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
        guarded: false,
        limit: None,
        chain: Chain::EMPTY,
        program: Some(Arc::new(program(&[0, 2]))),
        join: join.map(Arc::new),
        batch_rows: None,
        prefixes: None,
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
        Self::with(plan())
    }

    fn with(plan: JoinPlan) -> Self {
        let mut sim = Self { world: World::new(1, ActorKind::Joiner), joiner: Joiner::new() };
        sim.world.shared.lease.set_protocol(PROTOCOL_VERSION);
        sim.deliver(sim.participant(), Message::Scan(request(Some(plan))));
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

    /// The scans for lookups that were opened.
    fn scans(&mut self) -> Vec<(Address, ScanRequest)> {
        let open = |envelope: wire::Envelope| match *envelope.message {
            Message::Scan(ScanMessage::Open(request)) => (envelope.to, *request),
            other => panic!("{other:?}"),
        };
        let scans: Vec<_> = self.world.sent().into_iter().map(open).collect();
        let is_own = |scan: &ScanRequest| scan.snapshot == SNAPSHOT && scan.program.is_some();
        assert!(scans.iter().all(|(_, scan)| is_own(scan)));
        scans
    }

    /// A scan for a lookup has found rows `(id, v)`.
    fn found(
        &mut self,
        from: Address,
        request: &ScanRequest,
        rows: &[(i64, i64)],
        status: ScanStatus,
    ) {
        let blocks = if rows.is_empty() { vec![] } else { vec![block(rows)] };
        let (scan, partition) = (request.scan, request.partition);
        let batch =
            ScanBatch { scan, partition, rows: ScanRows::default(), status, blocks, examined: 1 };
        self.deliver(from, Message::Scan(ScanMessage::Batch(Box::new(batch))));
    }

    /// What `v` begins with in the index, each time.
    fn prefixes(&self, values: &[i64]) -> Vec<Box<[u8]>> {
        let table = &self.world.shared.cluster.tables[&BASE];
        let index = &table.ordered_indexes[0];
        let key = |v: &i64| table.key_of_values(&index.columns, &ints(&[*v])).expect("a key").0;
        values.iter().map(key).collect()
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
    fn answer(&mut self, to: Address, read: ReadRequest) {
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
    lookups.into_iter().for_each(|(to, read)| sim.answer(to, read));
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
        for (to, read) in sim.lookups() {
            sim.answer(to, read);
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
    let (to, read) = sim.lookups().remove(0);
    let down = Message::LinkDown { node: NodeId(9), incarnation: Incarnation(1), closed: true };
    sim.deliver(CLIENT, down);
    assert!(matches!(sim.world.sent_one().1, Message::Scan(ScanMessage::Close { .. })));
    sim.answer(to, read);
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
    let (to, read) = sim.lookups().remove(0);
    let before = sim.world.change(|state| {
        let table = state.tables.get_mut(&BASE).expect("it is there");
        Arc::make_mut(table).version = 2;
    });
    sim.joiner.cluster_changed(&mut sim.world.ctx(), &before);
    sim.answer(to, read);
    let sent = sim.world.sent();
    assert!(matches!(&*sent[0].message, Message::Scan(ScanMessage::Batch(batch))
        if matches!(&batch.status, ScanStatus::Failed(r) if r.code == ErrorCode::SchemaChanged)));
}

#[test]
fn rows_that_begin_with_keys_are_looked_for_in_every_partition() {
    let mut sim = Sim::with(range_plan(Matching::Left, false));
    sim.scanned(&[(1, 7), (2, 60), (3, 7)], ScanStatus::Finished);
    let scans = sim.scans();
    let mut partitions: Vec<u16> = scans.iter().map(|(_, scan)| scan.partition.index.0).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1, 2, 3]);
    let wanted = sim.prefixes(&[7, 60]);
    for (_, scan) in &scans {
        assert_eq!(scan.prefixes.as_deref(), Some(&wanted), "each key once, in order");
        assert!(matches!(scan.source, ScanSource::Index { index: ORDERED, .. }));
    }
    // What has come is joined before more is asked for; rows of other keys are not among it.
    let (first, scan) = &scans[0];
    sim.found(*first, scan, &[(20, 7), (21, 8)], ScanStatus::More);
    let sent = sim.world.sent();
    assert!(sent.iter().all(|envelope| envelope.to == *first), "{sent:?}");
    assert!(matches!(*sent[0].message, Message::Scan(ScanMessage::Next { .. })));
    sim.found(*first, scan, &[(22, 7)], ScanStatus::Finished);
    for (from, scan) in &scans[1..] {
        assert!(sim.world.sent().is_empty(), "three partitions are awaited");
        sim.found(*from, scan, &[], ScanStatus::Finished);
    }
    let (rows, status) = sim.batch();
    let meeting = [(1, Some(20)), (3, Some(20)), (1, Some(22)), (3, Some(22)), (2, None)];
    assert_eq!((rows.as_slice(), status), (&meeting[..], ScanStatus::Finished));
}

#[test]
fn where_the_key_says_the_partition_rows_are_looked_for_there() {
    let mut sim = Sim::with(range_plan(Matching::Inner, true));
    let before = sim.world.change(|state| {
        let table = state.tables.get_mut(&BASE).expect("it is there");
        Arc::make_mut(table).distribution_key = vec![ColumnId(2)];
    });
    sim.joiner.cluster_changed(&mut sim.world.ctx(), &before);
    let rows: Vec<(i64, i64)> = (0..40).map(|id| (id, id)).collect();
    sim.scanned(&rows, ScanStatus::Finished);
    let scans = sim.scans();
    assert!((2..=4).contains(&scans.len()), "{} partitions", scans.len());
    let table = sim.world.shared.cluster.tables[&BASE].clone();
    let mut keys = 0;
    for (_, scan) in &scans {
        for prefix in scan.prefixes.iter().flat_map(|list| list.iter()) {
            let hash = model::Key(prefix.clone()).distribution_hash();
            assert_eq!(table.partition_of_hash(hash), scan.partition.index);
            keys += 1;
        }
    }
    assert_eq!(keys, 40);
    for (from, scan) in &scans {
        // One match is as good as two.
        sim.found(*from, scan, &[(90, 3), (91, 3)], ScanStatus::Finished);
    }
    assert_eq!(sim.batch(), (vec![(3, None)], ScanStatus::Finished));
}

#[test]
fn scans_for_lookups_end_with_their_join() {
    // With its client.
    let mut sim = Sim::with(range_plan(Matching::Inner, false));
    sim.scanned(&[(1, 7)], ScanStatus::More);
    let scans = sim.scans();
    let down = Message::LinkDown { node: NodeId(9), incarnation: Incarnation(1), closed: true };
    sim.deliver(CLIENT, down);
    let closed = sim.world.sent().into_iter();
    let is_close = |envelope: &wire::Envelope| {
        matches!(*envelope.message, Message::Scan(ScanMessage::Close { .. }))
    };
    assert_eq!(closed.filter(is_close).count(), scans.len() + 1, "and the scan that is joined");
    // A batch that was under way then means nothing.
    let (from, scan) = &scans[0];
    sim.found(*from, scan, &[(20, 7)], ScanStatus::Finished);
    assert!(sim.world.sent().is_empty());
    // A failure of one of them ends all.
    let mut sim = Sim::with(range_plan(Matching::Inner, false));
    sim.scanned(&[(1, 7)], ScanStatus::Finished);
    let scans = sim.scans();
    let refusal = Refusal::from(ErrorCode::SnapshotTooOld);
    let (from, scan) = &scans[1];
    sim.found(*from, scan, &[], ScanStatus::Failed(refusal.clone()));
    let sent = sim.world.sent();
    let failed = sent.iter().any(|envelope| {
        matches!(&*envelope.message, Message::Scan(ScanMessage::Batch(batch))
            if envelope.to == CLIENT && batch.status == ScanStatus::Failed(refusal.clone()))
    });
    assert!(failed, "{sent:?}");
    // Two of the scans of the other partitions are still open: there are four.
    assert_eq!(sent.iter().filter(|envelope| is_close(envelope)).count(), 3);
}

#[test]
fn a_cluster_with_an_older_node_has_no_lookups_of_many_rows() {
    for plan in [range_plan(Matching::Inner, false), given_plan(Matching::Inner, &[])] {
        let mut sim = Sim::new();
        sim.world.shared.lease.set_protocol(12);
        sim.deliver(sim.participant(), Message::Scan(request(Some(plan))));
        let sent = sim.world.sent();
        let answer = sent.last().expect("an answer");
        assert!(
            matches!(&*answer.message, Message::Scan(ScanMessage::Batch(batch))
            if batch.status == ScanStatus::Failed(ErrorCode::OlderNode.into())),
            "{sent:?}"
        );
    }
}

#[test]
fn rows_that_come_with_the_plan_are_joined_without_a_word() {
    let given = [(20, 7), (21, 8), (22, 7)];
    let mut sim = Sim::with(given_plan(Matching::Left, &given));
    sim.scanned(&[(1, 7), (2, 60)], ScanStatus::More);
    assert!(matches!(sim.world.sent_one().1, Message::Scan(ScanMessage::Next { .. })));
    sim.scanned(&[(3, 8)], ScanStatus::Finished);
    let (rows, status) = sim.batch();
    let meeting = [(1, Some(20)), (1, Some(22)), (2, None), (3, Some(21))];
    assert_eq!((rows.as_slice(), status), (&meeting[..], ScanStatus::Finished));
    // What is made of them may be looked up for.
    let mut plan = given_plan(Matching::Inner, &given);
    let lookup = self::plan().lookups.remove(0);
    plan.lookups.push(Lookup { key: vec![KeyPart::Place(2)], ..lookup });
    plan.result = program(&[0, 3]);
    let mut sim = Sim::with(plan);
    sim.scanned(&[(1, 7), (2, 60)], ScanStatus::Finished);
    let lookups = sim.lookups();
    assert_eq!(lookups.iter().map(|(_, read)| read.reads.len()).sum::<usize>(), 2);
    lookups.into_iter().for_each(|(to, read)| sim.answer(to, read));
    assert_eq!(sim.batch().0, [(1, Some(120)), (1, Some(122))]);
}

#[test]
fn many_pairs_with_given_rows_let_others_have_a_turn() {
    let mut sim = Sim::with(given_plan(Matching::Anti, &[(20, 7); 1_000]));
    let many: Vec<(i64, i64)> = (0..1_000).map(|id| (id, 7)).collect();
    sim.scanned(&many, ScanStatus::Finished);
    let mut turns = 0;
    while let Some(again) =
        sim.world.sent().iter().find(|e| matches!(*e.message, Message::Continue(_)))
    {
        turns += 1;
        let me = again.to;
        sim.deliver(me, Message::Continue(Continue::Joins));
    }
    assert!(turns > 10, "{turns} turns for a million pairs");
    assert!(sim.joiner.joins.is_empty(), "it is over");
}

#[test]
fn a_join_of_many_rows_lets_others_have_a_turn() {
    let mut sim = Sim::with(range_plan(Matching::Anti, false));
    let many: Vec<(i64, i64)> = (0..1_000).map(|id| (id, 7)).collect();
    sim.scanned(&many, ScanStatus::Finished);
    let scans = sim.scans();
    let found: Vec<(i64, i64)> = (0..1_000).map(|id| (id, 7)).collect();
    let mut turns = 0;
    for (from, scan) in &scans {
        sim.found(*from, scan, &found, ScanStatus::Finished);
        loop {
            let sent = sim.world.sent();
            let Some(again) = sent.iter().find(|e| matches!(*e.message, Message::Continue(_)))
            else {
                break;
            };
            turns += 1;
            let me = again.to;
            sim.deliver(me, Message::Continue(Continue::Joins));
        }
    }
    assert!(turns > 50, "{turns} turns for four million pairs");
    assert!(sim.joiner.joins.is_empty(), "it is over");
}
