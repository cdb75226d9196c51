//! Every message through bytes and back, and bytes that are none.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::{Definition, Describe, Encode, EncodeError, Format, Problem, Reader, Writer};
use model::{
    ClusterState, Expression, PartitionId, PartitionIndex, ScanNumber, SessionId, TableId, Value,
};
use stdx::{Instant, Prng};
use vector::{Block, Decimals, Texts, Values, Vector};

use generator::Generator;

use super::*;
use crate::{
    Continue, ControlMessage, CoordinatorMessage, EpochMessage, LegId, Operation, OperationKind,
    ParticipantMessage, REPLICAS_MAX, ScanBatch, ScanId, ScanMessage, ScanRows, ScanStatus,
    StagedWrite,
};

mod generator;
mod golden;

const LINK: Link =
    Link { from: NodeId(3), incarnation: Incarnation(33), to: NodeId(1), workers: 255 };

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut out = Writer::new(PROTOCOL_VERSION);
    envelope.encode(&mut out).expect("it may leave the process");
    out.bytes().to_vec()
}

fn decoded(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    let mut input = Reader::new(PROTOCOL_VERSION, bytes);
    let envelope = Envelope::decode(&mut input, &LINK)?;
    input.finish().map(|()| envelope)
}

fn envelope(message: Message) -> Envelope {
    let place = |node, worker, actor| Address { node, worker: WorkerId(worker), actor };
    let (from, to) = (place(LINK.from, 1, ActorKind::Client), place(LINK.to, 2, ActorKind::Client));
    Envelope {
        from,
        incarnation: LINK.incarnation,
        to,
        reached: ControlIndex(77),
        message: Box::new(message),
    }
}

fn format() -> Format {
    let mut format = Format::new();
    Envelope::describe(&mut format);
    format
}

/// Bytes of envelopes that can be decoded, with all that was made on the way.
fn samples(count: usize) -> (Vec<Vec<u8>>, BTreeSet<(&'static str, &'static str)>) {
    let (format, mut samples, mut made) = (format(), Vec::new(), BTreeSet::new());
    for seed in 0.. {
        let mut generator = Generator::new(&format, seed);
        let bytes = generator.value("Envelope");
        match decoded(&bytes) {
            Ok(_) => {
                samples.push(bytes);
                made.append(&mut generator.made);
            }
            // Random values break rules about values, and no others.
            Err(error) => {
                let of_values = [Problem::Invalid, Problem::Range, Problem::Local];
                assert!(of_values.contains(&error.problem()), "seed {seed}: {error}");
            }
        }
        if samples.len() == count {
            break;
        }
    }
    samples.push(blocks(&mut made));
    (samples, made)
}

/// A batch with columns of all kinds: random ones are hardly ever of one length.
fn blocks(made: &mut BTreeSet<(&'static str, &'static str)>) -> Vec<u8> {
    let large = Decimals(vec![i128::MIN, 1]);
    let mut texts = Texts::default();
    [&b"one"[..], b""].into_iter().for_each(|text| texts.push(text));
    let columns = [
        ("Int", Values::Int(vec![-1, i64::MAX])),
        ("UInt", Values::UInt(vec![1, u64::MAX])),
        ("Float", Values::Float(vec![0.5, -1.0])),
        ("Decimal", Values::Decimal(large)),
        ("Bytes", Values::Bytes(texts)),
    ];
    made.extend(columns.iter().map(|(name, _)| ("Values", *name)));
    let nulls = || vec![false, true];
    let columns = columns.map(|(_, values)| Vector { values, nulls: nulls() });
    let session = SessionId { node: LINK.from, incarnation: LINK.incarnation, number: 1 };
    let batch = ScanBatch {
        scan: ScanId { session, number: ScanNumber(1) },
        partition: PartitionId { table: TableId(1), index: PartitionIndex(0) },
        rows: ScanRows::default(),
        status: ScanStatus::Finished,
        blocks: vec![Block::new(2, columns.into())],
        examined: 1_000,
    };
    encoded(&envelope(Message::Scan(ScanMessage::Batch(Box::new(batch)))))
}

#[test]
fn definitions_that_the_peer_cannot_read_are_not_sent() {
    let journal = model::SchemaChange::KeepJournal { table: TableId(1), kept: true };
    let since = journal.since();
    let change = model::SchemaChange::Together { expected: vec![], changes: vec![journal] };
    let (session, number) = (SessionId::default(), 1);
    let command = || Arc::new(model::Command::Schema { session, number, change: change.clone() });
    let schema = ControlMessage::Schema { session, number, change: change.clone() };
    for message in [schema, ControlMessage::Propose(command())] {
        let message = envelope(Message::Control(Box::new(message)));
        let mut out = Writer::new(since - 1);
        let refused = message.encode(&mut out);
        assert!(matches!(refused, Err(EncodeError::Newer { since: 10, .. })), "{refused:?}");
        assert!(out.bytes().is_empty());
        assert_eq!(message.encode(&mut Writer::new(since)), Ok(()));
    }
}

#[test]
fn every_variant_comes_back() {
    let (samples, made) = samples(40_000);
    for bytes in samples {
        let envelope = decoded(&bytes).unwrap();
        assert_eq!(encoded(&envelope), bytes, "{envelope:?}");
    }
    let text = format().to_string();
    let names = text.lines().filter(|line| !line.is_empty() && !line.starts_with(' '));
    for name in names {
        let format = format();
        let Some(Definition::Enum(variants)) = format.definition(name) else { continue };
        for variant in variants.iter().filter(|variant| variant.fields.is_some()) {
            let made = made.iter().any(|(of, what)| *of == name && *what == variant.name);
            assert!(made, "no {name}::{} was made", variant.name);
        }
    }
}

#[test]
fn a_part_of_a_message_is_none() {
    for bytes in samples(300).0 {
        for end in 0..bytes.len() {
            let error = decoded(&bytes[..end]).expect_err("the end is missing");
            // Which length is the first one too many differs.
            let problems = [Problem::Truncated, Problem::Length];
            assert!(problems.contains(&error.problem()), "{error}");
        }
    }
}

#[test]
fn damaged_messages_are_read_without_harm() {
    let mut prng = Prng::new(7);
    let (mut accepted, mut refused) = (0, 0);
    for bytes in samples(1_000).0 {
        for _ in 0..100 {
            let mut bytes = bytes.clone();
            for _ in 0..prng.between(1, 3) {
                let at = prng.index(bytes.len());
                bytes[at] ^= 1 << prng.below(8);
            }
            match decoded(&bytes) {
                // What is accepted can be sent on, whatever it has become.
                Ok(envelope) => {
                    let again = decoded(&encoded(&envelope)).expect("it was encoded here");
                    assert_eq!(format!("{again:?}"), format!("{envelope:?}"));
                    accepted += 1;
                }
                Err(error) => {
                    assert!(error.offset() <= bytes.len() && !error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn noise_is_read_without_harm() {
    let mut prng = Prng::new(8);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..prng.index(200)).map(|_| prng.next_u64() as u8).collect();
        // Most noise ends at its first tag; this is let in.
        let head = [1, 4, 1, 4, 1, prng.below(11) as u8, prng.below(16) as u8];
        bytes.splice(..0, head);
        let _ = decoded(&bytes);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_local_stays() {
    let link_down =
        Message::LinkDown { node: NodeId(1), incarnation: Incarnation(2), closed: true };
    let control = |message| Message::Control(Box::new(message));
    let local = [
        (link_down, "Message::LinkDown"),
        (Message::Continue(Continue::Scans), "Message::Continue"),
        (Message::Kill { connection: 1, query_only: false }, "Message::Kill"),
        (
            control(ControlMessage::WorkerRestored { worker: WorkerId(0) }),
            "ControlMessage::WorkerRestored",
        ),
        (
            control(ControlMessage::WorkerStored { worker: WorkerId(0), found: Box::default() }),
            "ControlMessage::WorkerStored",
        ),
        (
            control(ControlMessage::WorkerSynced { worker: WorkerId(0), reached: ControlIndex(1) }),
            "ControlMessage::WorkerSynced",
        ),
        (
            control(ControlMessage::WorkerQuiet { worker: WorkerId(0), number: 1 }),
            "ControlMessage::WorkerQuiet",
        ),
        (
            Message::Coordinator(CoordinatorMessage::Quiesce {
                number: 1,
                node: NodeId(1),
                incarnation: Incarnation(1),
                span: stdx::Duration::ZERO,
            }),
            "CoordinatorMessage::Quiesce",
        ),
        (
            Message::Coordinator(CoordinatorMessage::QuiesceHeld {
                number: 1,
                since: ControlIndex(1),
            }),
            "CoordinatorMessage::QuiesceHeld",
        ),
        (
            Message::Participant(ParticipantMessage::Restore { through: Epoch(1) }),
            "ParticipantMessage::Restore",
        ),
        (
            Message::Participant(ParticipantMessage::Note { epoch: Epoch(1) }),
            "ParticipantMessage::Note",
        ),
        (Message::Epoch(EpochMessage::Noted { epoch: Epoch(1) }), "EpochMessage::Noted"),
        (
            control(ControlMessage::WorkerDurable { epoch: Epoch(1) }),
            "ControlMessage::WorkerDurable",
        ),
    ];
    let mut out = Writer::new(PROTOCOL_VERSION);
    for (message, what) in local {
        let refused = envelope(message).encode(&mut out);
        assert_eq!(refused, Err(EncodeError::Local { what }));
        assert!(out.bytes().is_empty(), "nothing of it is left");
    }
    // Forged: a valid head, and the tags of every such variant.
    let head = &encoded(&envelope(Message::State(Arc::default())))[..5];
    let format = format();
    let enums = [
        ("Message", None),
        ("ControlMessage", Some(3)),
        ("EpochMessage", Some(4)),
        ("ParticipantMessage", Some(7)),
        ("CoordinatorMessage", Some(8)),
    ];
    let mut forged = 0;
    for (name, outer) in enums {
        let Some(Definition::Enum(variants)) = format.definition(name) else { panic!("{name}") };
        for variant in variants.iter().filter(|variant| variant.fields.is_none()) {
            let mut bytes = head.to_vec();
            bytes.extend(outer.into_iter().chain([variant.tag, 1, 1, 1]));
            let error = decoded(&bytes).unwrap_err();
            assert_eq!(error.problem(), Problem::Local, "{}", variant.name);
            forged += 1;
        }
    }
    assert_eq!(forged, 13);
}

#[test]
fn a_state_is_for_clients() {
    let mut state = envelope(Message::State(Arc::new(ClusterState::default())));
    assert!(decoded(&encoded(&state)).is_ok());
    state.to.actor = ActorKind::Participant;
    let error = decoded(&encoded(&state)).unwrap_err();
    assert_eq!(error.to_string(), "Message::State at byte 5: never sent between processes");
}

#[test]
fn a_receiver_has_to_be_there() {
    let bytes = encoded(&envelope(Message::State(Arc::default())));
    let link = Link { workers: 2, ..LINK };
    let error = Envelope::decode(&mut Reader::new(1, &bytes), &link).unwrap_err();
    assert_eq!(error.to_string(), "Envelope at byte 0: the number does not fit");
}

#[test]
fn several_envelopes_follow_each_other() {
    let mut out = Writer::new(PROTOCOL_VERSION);
    for number in 0..3 {
        let attempt = ParticipantMessage::Complete {
            transaction: Default::default(),
            leg: LegId(0),
            attempt: number,
        };
        envelope(Message::Participant(attempt)).encode(&mut out).unwrap();
        let local = envelope(Message::Continue(Continue::Copies));
        assert!(local.encode(&mut out).is_err(), "leaves the others as they are");
    }
    let mut input = Reader::new(PROTOCOL_VERSION, out.bytes());
    for number in 0..3 {
        let Message::Participant(ParticipantMessage::Complete { attempt, .. }) =
            *Envelope::decode(&mut input, &LINK).unwrap().message
        else {
            panic!("another message");
        };
        assert_eq!(attempt, number);
    }
    input.finish().unwrap();
}

fn update(condition: Expression) -> Envelope {
    let kind = OperationKind::Update {
        key: Key(Box::new([1])),
        condition: Some(condition),
        assignments: Vec::new(),
    };
    let operation = Operation {
        number: model::OperationNumber(1),
        partition: PartitionId { table: TableId(1), index: PartitionIndex(0) },
        table_version: 1,
        kind,
    };
    envelope(Message::Request(crate::ClientRequest::Execute {
        transaction: Default::default(),
        request: 1,
        operations: vec![operation],
        commit: true,
        lock_wait: None,
    }))
}

#[test]
fn expressions_are_not_nested_without_end() {
    let nested = |depth| {
        let one = Expression::Constant(Value::Int(1));
        (1..depth).fold(one, |inner, _| Expression::Not(Box::new(inner)))
    };
    assert!(codec::DEPTH_MAX as usize > model::expression::DEPTH_MAX, "a refusal says more");
    let mut out = Writer::new(PROTOCOL_VERSION);
    assert_eq!(update(nested(257)).encode(&mut out), Err(EncodeError::Depth));
    update(nested(256)).encode(&mut out).expect("and the writer is as good as before");
    assert!(decoded(out.bytes()).is_ok());

    // A `Not` is a byte: here are more than a stack can take.
    let mut bytes = out.bytes().to_vec();
    let (tag, at) = (6, bytes.windows(4).position(|four| four == [6; 4]).unwrap());
    bytes.splice(at..at, vec![tag; 1_000_000]);
    assert_eq!(decoded(&bytes).unwrap_err().problem(), Problem::Depth);
}

#[test]
fn rows_to_be_stored_are_not_empty() {
    let row = |len: usize| Some(Row(vec![0; len].into()));
    assert!(is_row(&None) && is_row(&row(1)) && is_row(&row(76_000)));
    assert!(!is_row(&row(0)) && !is_row(&row(76_001)));
    assert!(!are_rows(&[(RowId(1), Epoch(1), row(1)), (RowId(2), Epoch(1), row(0))]));
    let write = StagedWrite {
        number: model::OperationNumber(1),
        partition: Default::default(),
        row_id: RowId(1),
        key: Key(vec![0; KEY_SIZE_MAX + 1].into()),
        after: None,
        fresh: true,
    };
    let mut out = Writer::new(1);
    write.encode(&mut out);
    let error = StagedWrite::decode(&mut Reader::new(1, out.bytes())).unwrap_err();
    assert_eq!(error.to_string(), "StagedWrite at byte 4: breaks a rule of its type");
}

#[test]
fn a_chain_is_bounded_when_it_is_read() {
    let bytes = |len: u8| {
        let mut out = Writer::new(1);
        out.put_length(len.into());
        (0..3 * len).for_each(|_| out.put_u8(1));
        out.bytes().to_vec()
    };
    let decode = |len| crate::Chain::decode(&mut Reader::new(1, &bytes(len)));
    assert_eq!(decode(REPLICAS_MAX as u8).unwrap().len(), REPLICAS_MAX);
    assert_eq!(decode(5).unwrap_err().to_string(), "Chain at byte 0: breaks a rule of its type");
}

#[test]
fn counters_of_the_consensus_leave_room() {
    let mut out = Writer::new(1);
    out.put_varint(1 << 62);
    let error = raft::term::decode(&mut Reader::new(1, out.bytes())).unwrap_err();
    assert_eq!(error.to_string(), "value at byte 0: breaks a rule of its type");
}

#[test]
fn instants_are_not_changed() {
    let grant = ControlMessage::LeaseGrant {
        incarnation: Incarnation(u64::MAX),
        sent_at: Instant::FAR_FUTURE,
        span: stdx::Duration::from_nanos(128),
    };
    let sent = envelope(Message::Control(Box::new(grant)));
    assert_eq!(format!("{:?}", decoded(&encoded(&sent)).unwrap()), format!("{sent:?}"));
}
