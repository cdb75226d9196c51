//! The bytes as they must stay.

use codec::Shape;
use model::{
    ClusterId, ColumnId, Command, Comparison, ErrorCode, PartitionId, PartitionIndex, Refusal,
    SessionId, TransactionId,
};

use super::*;
use crate::{CoordinatorMessage, KeyRead, Projection, ReadRequest};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/wire-format.txt");
const HEAD: &str = "\
The bytes of the messages between processes. Written by the tests of `wire` from the types; with
BLESS=1 they write this file anew.

byte        one byte
truth       one byte, 0 or 1
varintN     a number of N bits at most. The zeros at the low end of the first byte count the bytes
            that follow; the number is in the bits above the lowest 1, little-endian. A first byte
            of 0 is followed by the number in eight bytes
zigzag      a varint64 whose lowest bit is the sign: 0, -1, 1, -2 are 0, 1, 2, 3
eight       eight bytes, little-endian
bytes       their number (varint64), and they themselves
text        the same, in UTF-8
json(T)     the same, the JSON of T
list(T)     the number of elements (varint64), and the elements
set(T)      the same, ascending
optional(T) a truth; T if it is 1
result(T,E) a truth; T if it is 0, E if it is 1
(T, U)      one after the other
Name        see there: its fields, one after the other; or a byte and the fields of the variant that
            has it; or one of some numbers, as a varint

";

#[test]
fn the_format_is_the_one_on_the_page() {
    let text = format!("{HEAD}Protocol version {PROTOCOL_VERSION}.\n{}", format());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, text).unwrap();
        return;
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let different = text.lines().zip(page.lines()).find(|(now, then)| now != then);
    assert!(
        text == page,
        "The bytes of messages are not those of docs/reference/wire-format.txt; the first \
         difference is {different:?}. If nodes with the old format are to understand the new one, \
         mark what is new with `#[codec(since = …)]` and raise PROTOCOL_VERSION. Then \
         `BLESS=1 cargo test -p wire` writes the page."
    );
}

#[test]
fn nothing_is_newer_than_the_protocol() {
    let text = format().to_string();
    for line in text.lines() {
        let since = line.split(", since ").nth(1).map(|number| number.parse::<u16>().unwrap());
        assert!(since.is_none_or(|since| since <= PROTOCOL_VERSION), "{line}");
    }
    assert_eq!(Envelope::describe(&mut Format::new()), Shape::Named("Envelope"));
}

/// Bytes as text, a space between what belongs together.
fn check(message: Message, expected: &str) {
    let bytes = encoded(&envelope(message));
    let digits: String = expected.split_whitespace().collect();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, digits, "{:?}", decoded(&bytes));
}

fn transaction() -> TransactionId {
    let session = SessionId { node: NodeId(3), incarnation: Incarnation(0x0102_0304), number: 500 };
    TransactionId { session, number: 6 }
}

/// Head: worker 1, client, worker 2, client, log index 77.
const ENVELOPE: &str = "01 04 02 04 9b";
/// Node 3, its life, session 500, transaction 6.
const TRANSACTION: &str = "07 0403020100000000 d207 0d";

#[test]
fn bytes_of_a_read() {
    let partition = PartitionId { table: TableId(12), index: PartitionIndex(3) };
    let projection = Projection::Columns(vec![ColumnId(1), ColumnId(200)]);
    let read = KeyRead { partition, key: Key(Box::new([0x80, 7])), projection };
    let TransactionId { session, .. } = transaction();
    let snapshot = Some(Epoch(1 << 40));
    let request = ReadRequest { session, request: 9, snapshot, reads: vec![read] };
    check(
        Message::Participant(ParticipantMessage::Read(Box::new(request))),
        &format!(
            "{ENVELOPE} 07 00 07 0403020100000000 d207 13 01 200000000040 \
             03 19 07 05 8007 02 05 03 2203"
        ),
    );
}

#[test]
fn bytes_of_a_transaction() {
    let (transaction, leg, attempt) = (transaction(), LegId(1), 2);
    let address =
        |node| Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Participant };
    let up = [address(1), address(2)].into_iter().collect();
    let coordinator = Address { actor: ActorKind::Coordinator, ..address(4) };
    let commit = ParticipantMessage::Commit {
        transaction,
        leg,
        epoch: Epoch(8),
        up,
        keep: true,
        coordinator,
        attempt,
    };
    check(
        Message::Participant(commit),
        &format!("{ENVELOPE} 07 03 {TRANSACTION} 03 11 05 030003 050003 01 090002 05"),
    );
    let complete = ParticipantMessage::Complete { transaction, leg, attempt };
    check(Message::Participant(complete), &format!("{ENVELOPE} 07 04 {TRANSACTION} 03 05"));
    let refusal = Refusal::new(ErrorCode::LockTimeout, "t");
    let refused = CoordinatorMessage::PrepareRefused { transaction, refusal };
    check(
        Message::Coordinator(refused),
        &format!("{ENVELOPE} 08 01 {TRANSACTION} {:04x} 03 74", (2002_u16 << 2 | 2).swap_bytes()),
    );
}

#[test]
fn bytes_of_a_condition() {
    let half = Expression::Constant(Value::Float(0.5));
    let condition = Expression::And(vec![
        Expression::compare(ColumnId(2), Comparison::LessOrEqual, Value::Int(-3)),
        Expression::Not(Box::new(Expression::IsNull(Box::new(half)))),
    ]);
    let bytes = encoded(&update(condition));
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "04 05 02 03 0005 01010b 06 07 0103 000000000000e03f 01 01 00";
    let digits: String = expected.split_whitespace().collect();
    assert!(text.ends_with(&digits), "{text} does not end with {digits}");
}

#[test]
fn bytes_of_the_control_plane() {
    let cluster = ClusterId(0x11);
    let proposed = ControlMessage::Propose(Arc::new(Command::Found { cluster, protocol: 0 }));
    let json: String = r#"{"Found":{"cluster":17}}"#.bytes().map(|b| format!("{b:02x}")).collect();
    check(Message::Control(Box::new(proposed)), &format!("{ENVELOPE} 03 10 31 {json}"));

    let term = raftbare::Term::new;
    let voter = raftbare::NodeId::new;
    let mut config = raftbare::ClusterConfig::new();
    config.voters.insert(voter(2));
    let entries = [
        raftbare::LogEntry::Term(term(4)),
        raftbare::LogEntry::ClusterConfig(config),
        raftbare::LogEntry::Command,
    ];
    let after = raftbare::LogPosition { term: term(3), index: raftbare::LogIndex::new(5) };
    let message = raftbare::Message::AppendEntriesCall {
        header: raftbare::MessageHeader {
            from: voter(1),
            term: term(4),
            seqno: raftbare::MessageSeqNo::new(6),
        },
        commit_index: raftbare::LogIndex::new(5),
        entries: raftbare::LogEntries::from_iter(after, entries),
    };
    let raft = ControlMessage::Raft { cluster, message, commands: Vec::new() };
    check(
        Message::Control(Box::new(raft)),
        &format!(
            "{ENVELOPE} 03 00 1100000000000000 02 0100000000000000 09 0d 0b 070b \
             07 00 09 01 03 0200000000000000 01 01 02 05 5b5d"
        ),
    );
}
