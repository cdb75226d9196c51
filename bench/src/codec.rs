//! Messages as bytes: how many, and what they cost in one thread.

use std::hint::black_box;

use codec::{Reader, Writer};
use model::{
    ActorKind, Address, ColumnId, ControlIndex, Epoch, Expression, Incarnation, Key, NodeId,
    OperationNumber, PartitionId, PartitionIndex, Row, RowId, SessionId, TableId, TransactionId,
    WorkerId,
};
use stdx::Few;
use wire::{
    Chain, ClientReply, CoordinatorRef, Effect, Envelope, KeyRead, LegId, Link, Message, Operation,
    OperationKind, OperationOutcome, PROTOCOL_VERSION, ParticipantMessage, PreparedOperation,
    Projection, ReadRequest, StagedWrite,
};

use crate::measure::Report;

/// Times that each message is encoded and decoded.
const ROUNDS: u64 = 1_000_000;
/// Lives are nanoseconds since 1970.
const LIFE: Incarnation = Incarnation(1_795_000_000_123_456_789);
/// Bytes of a row of sysbench.
const ROW: usize = 190;

/// Measures the messages of a read and of an update.
pub fn measure(report: &mut Report) {
    for (name, message) in reads().into_iter().chain(changes()) {
        measure_one(report, &format!("message: {name}"), message);
    }
}

fn measure_one(report: &mut Report, name: &str, message: Message) {
    let (from, to) = (address(1, ActorKind::Coordinator), address(2, ActorKind::Participant));
    let (reached, message) = (ControlIndex(230), Box::new(message));
    let envelope = Envelope { from, incarnation: LIFE, to, reached, message };
    let mut out = Writer::new(PROTOCOL_VERSION);
    envelope.encode(&mut out).expect("it may leave the process");
    let bytes = out.bytes().to_vec();
    let size = format!("{name}, size");
    if report.wants(&size) {
        report.add(&size, bytes.len() as f64, "bytes", "");
    }
    report.rate(&format!("{name}, encoded"), ROUNDS, || {
        for _ in 0..ROUNDS {
            out.clear();
            black_box(&envelope).encode(&mut out).expect("as before");
            black_box(out.bytes());
        }
    });
    let link = Link { from: from.node, incarnation: LIFE, to: to.node, workers: 8 };
    report.rate(&format!("{name}, decoded"), ROUNDS, || {
        for _ in 0..ROUNDS {
            let mut input = Reader::new(PROTOCOL_VERSION, black_box(&bytes));
            black_box(Envelope::decode(&mut input, &link).expect("it was encoded"));
        }
    });
}

const SESSION: SessionId = SessionId { node: NodeId(65), incarnation: LIFE, number: 1_234 };
const PARTITION: PartitionId = PartitionId { table: TableId(12), index: PartitionIndex(3) };

fn key() -> Key {
    Key(Box::new([0x80, 0, 0x12, 0x34]))
}

fn row() -> Row {
    Row(vec![b'c'; ROW].into())
}

/// A committed read and its reply.
fn reads() -> Vec<(&'static str, Message)> {
    let (session, request) = (SESSION, 4_567);
    let read = KeyRead { partition: PARTITION, key: key(), projection: Projection::All };
    let read = ReadRequest { session, request, snapshot: None, reads: vec![read] };
    let reply = ClientReply::Read { session, request, result: Ok(vec![Some(row())]) };
    vec![
        ("read by key", Message::Participant(ParticipantMessage::Read(Box::new(read)))),
        ("its reply, a row of 190 bytes", Message::Reply(reply)),
    ]
}

/// What participants are told of an update.
fn changes() -> Vec<(&'static str, Message)> {
    let transaction = TransactionId { session: SESSION, number: 56_789 };
    let (leg, epoch, attempt, number) = (LegId(0), Epoch(3_210_987), 1, OperationNumber(1));
    let chain: Chain = (1..=2).map(|node| address(node, ActorKind::Participant)).collect();
    let up: Chain = chain[..1].into();
    let coordinator =
        CoordinatorRef { address: address(1, ActorKind::Coordinator), incarnation: LIFE };
    let kind = OperationKind::Update {
        key: key(),
        condition: None,
        assignments: vec![(ColumnId(1), Expression::add(ColumnId(1), 1))],
    };
    let operation = Operation { number, partition: PARTITION, table_version: 1, kind };
    let write = StagedWrite {
        number,
        partition: PARTITION,
        row_id: RowId(123_456),
        key: key(),
        after: Some(row()),
        fresh: false,
    };
    let done = PreparedOperation::done(number, OperationOutcome::Written(Effect::Changed));
    let operations = Few::one(operation);
    let prepare = ParticipantMessage::Prepare {
        transaction,
        leg,
        chain,
        operations,
        lock_wait: None,
        besides: wire::Besides::Nothing,
    };
    let (writes, results) = (Few::one(write), Few::one(done));
    let replicate =
        ParticipantMessage::Replicate { transaction, leg, coordinator, chain, writes, results };
    let coordinator = coordinator.address;
    let commit = ParticipantMessage::Commit {
        transaction,
        leg,
        epoch,
        up,
        keep: false,
        coordinator,
        attempt,
    };
    vec![
        ("prepare an update", Message::Participant(prepare)),
        ("replicate a row of 190 bytes", Message::Participant(replicate)),
        ("commit", Message::Participant(commit)),
        (
            "complete",
            Message::Participant(ParticipantMessage::Complete { transaction, leg, attempt }),
        ),
    ]
}

fn address(node: u16, actor: ActorKind) -> Address {
    Address { node: NodeId(node), worker: WorkerId(3), actor }
}
