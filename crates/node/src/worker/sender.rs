//! What a process may send to a node of the cluster, by its role.
//!
//! # Owns
//! The rules that a host applies to whatever comes over a link, before an actor sees it: which
//! actors live in a process of that role, what such an actor sends, to whom, and in whose name.
//! # Guarantees
//! A process that only uses the cluster acts for its own sessions, is answered itself, and sends
//! nothing that only nodes of the cluster may send. A data node never poses as a client, nor a
//! management node as a data node.
//! # Not here
//! Who is at the other end of a link (`runtime::link`), what a message does (the actors). What
//! only an actor can judge it refuses by [`actor::Ctx::refuse`].

use model::{ActorKind, Incarnation, NodeId, SessionId};
use wire::{
    ClientRequest, ControlMessage, CoordinatorMessage, Envelope, EpochMessage, InspectMessage,
    Inspection, Message, ParticipantMessage, PeerQuestion, RelayMessage, ScanMessage, ScanRequest,
    StreamMessage,
};

use super::inbox;

/// What the process at the other end of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A data node.
    Data,
    /// A management node.
    Management,
    /// A process that only uses the cluster, as an SQL node.
    Client,
}

/// The rule that is broken if a process of this role sends this to a node of the cluster; none if
/// it may.
pub fn broken_rule(sender: Sender, envelope: &Envelope) -> Option<&'static str> {
    let Envelope { from, to, message, .. } = envelope;
    let lives_there = match sender {
        Sender::Data => from.actor != ActorKind::Client,
        Sender::Management => matches!(from.actor, ActorKind::Control | ActorKind::Client),
        Sender::Client => from.actor == ActorKind::Client,
    };
    if !lives_there {
        return Some("no such actor is in a process of the sender's role");
    }
    if let Message::Inspect(inspection) = &**message {
        return of_inspection(sender, envelope, inspection);
    }
    if !is_sent_by(from.actor, message) {
        return Some("its sender is none who sends that");
    }
    let state = matches!(**message, Message::State(_) | Message::StateChange(_));
    if !state && !inbox::fits(to.actor, message) {
        return Some("its receiver is none who takes that");
    }
    if sender == Sender::Client && asks_to_leave(message) {
        return Some("only management nodes ask processes to leave");
    }
    match from.actor {
        ActorKind::Client => of_client(envelope),
        _ => None,
    }
}

fn asks_to_leave(message: &Message) -> bool {
    let Message::Relay(message) = message else { return false };
    matches!(**message, RelayMessage::Ask { question: PeerQuestion::Leave { .. }, .. })
}

/// The rule that is broken by a question about what goes on in a process, or by an answer.
///
/// Hosts answer for their figures themselves, in the name of whichever actor was asked: any actor
/// of any process, an SQL node's included.
fn of_inspection(
    sender: Sender,
    envelope: &Envelope,
    inspection: &InspectMessage,
) -> Option<&'static str> {
    match inspection {
        InspectMessage::Ask { session, what, .. } => {
            let Envelope { from, incarnation, to, ref message, .. } = *envelope;
            let asks = matches!(from.actor, ActorKind::Client | ActorKind::IndexBuilder);
            let told = *what == Inspection::Figures || inbox::fits(to.actor, message);
            let own = sender == Sender::Data || is_own(session, from.node, incarnation);
            if !asks {
                Some("its sender is none who sends that")
            } else if !told {
                Some("its receiver is none who takes that")
            } else if !own {
                SESSION
            } else {
                None
            }
        }
        InspectMessage::Answer { .. } => {
            let asked = matches!(envelope.to.actor, ActorKind::Client | ActorKind::IndexBuilder);
            (!asked).then_some("its receiver is none who takes that")
        }
    }
}

/// Whether a process that only uses the cluster may send this to one of its nodes: a request, or
/// what it was asked.
pub(super) fn may_come_from_client(envelope: &Envelope) -> bool {
    broken_rule(Sender::Client, envelope).is_none()
}

/// Whether a client of the cluster may ask this, inspections aside: an SQL node, or an actor of a
/// data node that is a client itself.
fn is_request(message: &Message) -> bool {
    match message {
        Message::Request(_) | Message::Participant(ParticipantMessage::Read(_)) => true,
        Message::Scan(scan) => !matches!(scan, ScanMessage::Batch(_)),
        Message::Stream(message) => !matches!(**message, StreamMessage::Piece { .. }),
        Message::Control(message) => matches!(
            **message,
            ControlMessage::Follow { .. }
                | ControlMessage::NextPiece { .. }
                | ControlMessage::Schema { .. }
        ),
        Message::Relay(message) => !is_of_relay(message),
        _ => false,
    }
}

/// Whether actors of this kind send such messages to other processes. Not of inspections.
fn is_sent_by(from: ActorKind, message: &Message) -> bool {
    match from {
        ActorKind::Control => match message {
            // A node leaves when its own host says so.
            Message::Control(message) => !matches!(**message, ControlMessage::LeaveRequest),
            Message::State(_) | Message::StateChange(_) => true,
            Message::Relay(message) => is_of_relay(message),
            _ => false,
        },
        ActorKind::Epochs => match message {
            Message::Epoch(message) => is_of_driver(message),
            Message::Participant(message) => matches!(
                message,
                ParticipantMessage::Save { .. } | ParticipantMessage::Durable { .. }
            ),
            _ => false,
        },
        ActorKind::Coordinator => match message {
            Message::Coordinator(_) | Message::Reply(_) => true,
            Message::Epoch(message) => {
                !is_of_driver(message) && !matches!(message, EpochMessage::Saved { .. })
            }
            Message::Participant(message) => is_of_coordinator(message),
            Message::Scan(scan) => matches!(scan, ScanMessage::Open(_) | ScanMessage::Batch(_)),
            _ => false,
        },
        ActorKind::Participant => match message {
            Message::Participant(message) => is_of_replica(message),
            Message::Coordinator(message) => is_of_participant(message),
            Message::Epoch(message) => matches!(message, EpochMessage::Saved { .. }),
            Message::Scan(scan) => matches!(scan, ScanMessage::Batch(_)),
            Message::Reply(_) => true,
            // Replicas fetch for themselves.
            Message::Stream(message) => match &**message {
                StreamMessage::Fetch { session, .. } => session.is_none(),
                StreamMessage::Piece { .. } => true,
                StreamMessage::Acknowledge { .. } => false,
            },
            _ => false,
        },
        ActorKind::Joiner => {
            is_request(message) || matches!(message, Message::Scan(ScanMessage::Batch(_)))
        }
        ActorKind::IndexBuilder | ActorKind::Client => is_request(message),
    }
}

/// Whether who passes questions of clients on tells clients this.
pub(super) fn is_of_relay(message: &RelayMessage) -> bool {
    matches!(
        message,
        RelayMessage::Asked { .. } | RelayMessage::Question { .. } | RelayMessage::Told { .. }
    )
}

/// Whether the driver of epochs tells coordinators this.
pub(super) fn is_of_driver(message: &EpochMessage) -> bool {
    matches!(
        message,
        EpochMessage::Prepare { .. }
            | EpochMessage::Resume { .. }
            | EpochMessage::Switch { .. }
            | EpochMessage::Durable { .. }
            | EpochMessage::Completed { .. }
            | EpochMessage::StateQuery
            | EpochMessage::SnapshotOpened { .. }
    )
}

fn is_of_coordinator(message: &ParticipantMessage) -> bool {
    matches!(
        message,
        ParticipantMessage::Prepare { .. }
            | ParticipantMessage::PrepareAndCommit { .. }
            | ParticipantMessage::Commit { .. }
            | ParticipantMessage::CommitIfStaged { .. }
            | ParticipantMessage::Complete { .. }
            | ParticipantMessage::Abort { .. }
            | ParticipantMessage::Rollback { .. }
            | ParticipantMessage::TakeoverQuery { .. }
            | ParticipantMessage::OutcomeProbe { .. }
            | ParticipantMessage::DeadlockProbe { .. }
    )
}

fn is_of_replica(message: &ParticipantMessage) -> bool {
    matches!(
        message,
        ParticipantMessage::Replicate { .. }
            | ParticipantMessage::ReplicateAndCommit { .. }
            | ParticipantMessage::Commit { .. }
            | ParticipantMessage::CommitStaged { .. }
            | ParticipantMessage::CommitIfStaged { .. }
            | ParticipantMessage::Abort { .. }
            | ParticipantMessage::Rollback { .. }
            | ParticipantMessage::CopyRequest { .. }
            | ParticipantMessage::CopyRows { .. }
            | ParticipantMessage::CopyOutcomes { .. }
            | ParticipantMessage::CopyAck { .. }
    )
}

/// Only from participants: who coordinates hears of replicas, and coordinators ask each other.
fn is_of_participant(message: &CoordinatorMessage) -> bool {
    !matches!(
        message,
        CoordinatorMessage::OutcomeQuery { .. } | CoordinatorMessage::DeadlockVictim { .. }
    )
}

const SESSION: Option<&str> = Some("the session is of another process");

/// The rule that a client breaks which sends this: it acts for sessions of its own life alone, and
/// is answered itself.
fn of_client(envelope: &Envelope) -> Option<&'static str> {
    let Envelope { from, incarnation, message, .. } = envelope;
    let own = |session: &SessionId| is_own(session, from.node, *incarnation);
    let scan_rule = |scan: &ScanRequest| {
        if !own(&scan.scan.session) {
            SESSION
        } else if scan.reply_to != *from {
            Some("the rows would be sent to somebody else")
        } else if scan.transaction.is_some() {
            Some("only a coordinator says in which transaction a scan is")
        } else {
            None
        }
    };
    let theirs = match &**message {
        Message::Request(request) => match request {
            ClientRequest::Execute { transaction, .. }
            | ClientRequest::Commit { transaction, .. }
            | ClientRequest::Abort { transaction, .. }
            | ClientRequest::RollbackTo { transaction, .. } => !own(&transaction.session),
            ClientRequest::Scan { transaction, scan, .. } => {
                if transaction.session != scan.scan.session {
                    return SESSION;
                }
                return scan_rule(scan);
            }
            ClientRequest::Outcome { transaction, coordinator, .. } => {
                if coordinator.address.actor != ActorKind::Coordinator {
                    return Some("transactions are coordinated by coordinators");
                }
                !own(&transaction.session)
            }
            ClientRequest::OpenSnapshot { session, .. }
            | ClientRequest::CloseSnapshot { session, .. }
            | ClientRequest::AwaitDurable { session, .. } => !own(session),
        },
        Message::Participant(ParticipantMessage::Read(read)) => !own(&read.session),
        Message::Stream(message) => match &**message {
            StreamMessage::Fetch { session, .. } => !session.as_ref().is_some_and(own),
            _ => false,
        },
        Message::Scan(ScanMessage::Open(scan)) => return scan_rule(scan),
        Message::Scan(ScanMessage::Next { scan, .. } | ScanMessage::Close { scan, .. }) => {
            !own(&scan.session)
        }
        Message::Control(message) => match &**message {
            ControlMessage::Schema { session, .. } => !own(session),
            _ => false,
        },
        Message::Relay(message) => match &**message {
            RelayMessage::Ask { session, .. } => !own(session),
            _ => false,
        },
        _ => false,
    };
    if theirs { SESSION } else { None }
}

fn is_own(session: &SessionId, node: NodeId, incarnation: Incarnation) -> bool {
    (session.node, session.incarnation) == (node, incarnation)
}

#[cfg(test)]
mod tests {
    use model::{Address, ControlIndex, WorkerId};

    use super::*;

    const LIFE: Incarnation = Incarnation(1);

    fn of(actor: ActorKind, node: u16) -> Address {
        Address { node: NodeId(node), worker: WorkerId(0), actor }
    }

    fn session(node: u16) -> SessionId {
        SessionId { node: NodeId(node), incarnation: LIFE, number: 0 }
    }

    fn envelope(from: Address, to: Address, message: Message) -> Envelope {
        let reached = ControlIndex(1);
        Envelope { from, incarnation: LIFE, to, reached, message: Box::new(message) }
    }

    fn open_snapshot(node: u16) -> Message {
        Message::Request(ClientRequest::OpenSnapshot { session: session(node), request: 1 })
    }

    #[test]
    fn clients_answer_what_clients_asked_and_nobody_else() {
        let answer = |from, to| {
            let (session, rows) = (session(49), Vec::new());
            let answer = InspectMessage::Answer { session, request: 1, rows };
            envelope(of(from, 51), of(to, 49), Message::Inspect(Box::new(answer)))
        };
        assert!(may_come_from_client(&answer(ActorKind::Client, ActorKind::Client)));
        assert!(!may_come_from_client(&answer(ActorKind::Client, ActorKind::Participant)));
        assert!(!may_come_from_client(&answer(ActorKind::Participant, ActorKind::Client)));
    }

    #[test]
    fn figures_are_asked_of_any_actor_and_answered_in_its_name() {
        use ActorKind::{Client, Control, Coordinator, Epochs, IndexBuilder, Joiner, Participant};
        let ask = |what| {
            Message::Inspect(Box::new(InspectMessage::Ask {
                session: session(51),
                request: 1,
                what,
            }))
        };
        let answer = || {
            let (session, rows) = (session(49), Vec::new());
            Message::Inspect(Box::new(InspectMessage::Answer { session, request: 1, rows }))
        };
        for actor in [Client, Control, Coordinator, Epochs, IndexBuilder, Joiner, Participant] {
            for sender in [Sender::Management, Sender::Client] {
                let figures = envelope(of(Client, 51), of(actor, 1), ask(Inspection::Figures));
                assert_eq!(broken_rule(sender, &figures), None, "{sender:?} asks a {actor:?}");
            }
            let memory = envelope(of(Client, 51), of(actor, 1), ask(Inspection::Memory));
            let takes = matches!(actor, Coordinator | Participant);
            assert_eq!(broken_rule(Sender::Client, &memory).is_none(), takes, "{actor:?}");
            let sender = if actor == Client { Sender::Client } else { Sender::Data };
            let answer = envelope(of(actor, 1), of(Client, 49), answer());
            assert_eq!(broken_rule(sender, &answer), None, "{actor:?} answers");
        }
        let question = ask(Inspection::Figures);
        let other = envelope(of(Client, 52), of(Coordinator, 1), question);
        assert_eq!(broken_rule(Sender::Client, &other), SESSION);
    }

    #[test]
    fn clients_ask_for_the_pieces_of_a_state() {
        let of_state = wire::KnownState { cluster: model::ClusterId(1), index: ControlIndex(7) };
        for message in [
            ControlMessage::Follow { known: Some(of_state), answers_peers: false },
            ControlMessage::NextPiece { of: of_state, number: 1 },
        ] {
            let message = Message::Control(Box::new(message));
            let envelope = envelope(of(ActorKind::Client, 51), of(ActorKind::Control, 1), message);
            assert!(may_come_from_client(&envelope), "{}", envelope.message.name());
        }
    }

    #[test]
    fn clients_end_no_process() {
        let ask = |question| {
            let ask = RelayMessage::Ask { session: session(51), request: 1, to: None, question };
            let (client, control) = (of(ActorKind::Client, 51), of(ActorKind::Control, 1));
            envelope(client, control, Message::Relay(Box::new(ask)))
        };
        let leave = PeerQuestion::Leave { life: LIFE, leaving: wire::Leaving::End };
        assert_eq!(broken_rule(Sender::Management, &ask(leave.clone())), None);
        assert!(broken_rule(Sender::Client, &ask(leave)).is_some());
        assert_eq!(broken_rule(Sender::Client, &ask(PeerQuestion::Standing)), None);
    }

    #[test]
    fn a_client_acts_for_its_own_sessions_alone() {
        let (client, coordinator) = (of(ActorKind::Client, 51), of(ActorKind::Coordinator, 1));
        let rule = |message| broken_rule(Sender::Client, &envelope(client, coordinator, message));
        assert_eq!(rule(open_snapshot(51)), None);
        assert_eq!(rule(open_snapshot(52)), Some("the session is of another process"));
        let older = SessionId { incarnation: Incarnation(0), ..session(51) };
        let request = ClientRequest::OpenSnapshot { session: older, request: 1 };
        assert!(rule(Message::Request(request)).is_some(), "an earlier life is another process");
    }

    #[test]
    fn only_nodes_of_the_cluster_send_what_nodes_of_the_cluster_send() {
        use ActorKind::{Client, Control, Coordinator, Participant};
        let commit = || {
            let coordinator = of(Coordinator, 51);
            Message::Participant(ParticipantMessage::Commit {
                transaction: Default::default(),
                leg: wire::LegId(0),
                epoch: model::Epoch(7),
                up: wire::Chain::EMPTY,
                keep: false,
                coordinator,
                attempt: 1,
            })
        };
        let suspect = || {
            let (node, incarnation) = (NodeId(2), LIFE);
            let suspect = ControlMessage::Suspect { node, incarnation, closed: true };
            Message::Control(Box::new(suspect))
        };
        let leave = || Message::Control(Box::new(ControlMessage::LeaveRequest));
        let cases = [
            (Sender::Data, Coordinator, Participant, commit(), true),
            (Sender::Client, Coordinator, Participant, commit(), false),
            (Sender::Client, Client, Participant, commit(), false),
            (Sender::Management, Coordinator, Participant, commit(), false),
            (Sender::Data, Control, Participant, commit(), false),
            (Sender::Data, Coordinator, Control, commit(), false),
            (Sender::Data, Control, Control, suspect(), true),
            (Sender::Management, Control, Control, suspect(), true),
            (Sender::Client, Control, Control, suspect(), false),
            (Sender::Client, Client, Control, suspect(), false),
            (Sender::Management, Control, Control, leave(), false),
            (Sender::Data, Client, Coordinator, open_snapshot(51), false),
            (Sender::Management, Client, Coordinator, open_snapshot(51), true),
        ];
        for (at, (sender, from, to, message, may)) in cases.into_iter().enumerate() {
            let envelope = envelope(of(from, 51), of(to, 1), message);
            let rule = broken_rule(sender, &envelope);
            assert_eq!(rule.is_none(), may, "case {at}: {envelope}, {rule:?}");
        }
    }
}
