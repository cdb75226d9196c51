//! Messages that wait on a worker: by priority, and those held until a cluster state arrives.

use std::collections::VecDeque;

use model::{ActorKind, ControlIndex, Incarnation, NodeId};
use wire::{
    ControlMessage, Envelope, InspectMessage, Message, ParticipantMessage, Priority, ScanMessage,
};

/// Messages that go before one of low priority, at most: long work goes on, however many come.
const PASSED_MAX: u32 = 64;

/// The waiting messages of a worker.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Each queue in the order of arrival.
    high: VecDeque<Waiting>,
    normal: VecDeque<Waiting>,
    low: VecDeque<Waiting>,
    /// How many have gone before the first of low priority.
    passed: u32,
    /// Likewise, as far as messages of one priority go.
    held: VecDeque<Waiting>,
    arrivals: u64,
}

/// A message and when it arrived.
#[derive(Debug)]
pub(super) struct Waiting {
    arrival: u64,
    pub(super) envelope: Envelope,
}

impl Inbox {
    pub(super) fn push(&mut self, envelope: Envelope) {
        self.arrivals += 1;
        let waiting = Waiting { arrival: self.arrivals, envelope };
        self.queue(waiting.envelope.message.priority()).push_back(waiting);
    }

    fn queue(&mut self, priority: Priority) -> &mut VecDeque<Waiting> {
        match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }

    /// The next message to look at, unless only those of low priority wait.
    pub(super) fn pop_urgent(&mut self) -> Option<Waiting> {
        if let Some(waiting) = self.high.pop_front() {
            return Some(waiting);
        }
        if self.low.is_empty() {
            return self.normal.pop_front();
        }
        if self.passed < PASSED_MAX {
            self.passed += 1;
            return self.normal.pop_front();
        }
        self.pop_low()
    }

    /// The next message of low priority.
    pub(super) fn pop_low(&mut self) -> Option<Waiting> {
        self.passed = 0;
        self.low.pop_front()
    }

    pub(super) fn hold(&mut self, waiting: Waiting) {
        self.held.push_back(waiting);
    }

    /// Puts messages back that need wait no longer, where they would stand had they never been
    /// held: others that were put back before may still wait, and came earlier.
    pub(super) fn release(&mut self, reached: ControlIndex) {
        for waiting in std::mem::take(&mut self.held) {
            if waiting.envelope.reached > reached {
                self.held.push_back(waiting);
                continue;
            }
            let queue = self.queue(waiting.envelope.message.priority());
            let at = queue.partition_point(|other| other.arrival < waiting.arrival);
            queue.insert(at, waiting);
        }
    }

    /// Forgets what came over a link that is down; control messages judge for themselves.
    pub(super) fn drop_from(&mut self, node: NodeId, incarnation: Incarnation) {
        let keep = |Waiting { envelope, .. }: &Waiting| {
            let free = matches!(*envelope.message, Message::Control(_) | Message::LinkDown { .. });
            free || envelope.from.node != node || envelope.incarnation != incarnation
        };
        self.high.retain(keep);
        self.normal.retain(keep);
        self.low.retain(keep);
        self.held.retain(keep);
    }

    pub(super) fn has_low(&self) -> bool {
        !self.low.is_empty()
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.high.is_empty() || !self.normal.is_empty() || !self.low.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.high.len() + self.normal.len() + self.low.len() + self.held.len()
    }
}

/// Whether a client may send this to a data node.
pub(super) fn is_request(message: &Message) -> bool {
    match message {
        Message::Request(_) | Message::Participant(ParticipantMessage::Read(_)) => true,
        Message::Scan(scan) => !matches!(scan, ScanMessage::Batch(_)),
        Message::Inspect(message) => matches!(**message, InspectMessage::Ask { .. }),
        Message::Control(message) => {
            matches!(**message, ControlMessage::Follow | ControlMessage::Schema { .. })
        }
        _ => false,
    }
}

/// Whether a process that only uses the cluster may send this to one of its nodes: a request, or
/// what it was asked.
pub fn may_come_from_client(envelope: &Envelope) -> bool {
    let answers = |message: &Message| match message {
        Message::Inspect(message) => matches!(**message, InspectMessage::Answer { .. }),
        _ => false,
    };
    let told = envelope.to.actor == ActorKind::Client && answers(&envelope.message);
    envelope.from.actor == ActorKind::Client && (told || is_request(&envelope.message))
}

/// Whether actors of this kind take such messages.
pub(super) fn fits(to: ActorKind, message: &Message) -> bool {
    match to {
        ActorKind::Control => matches!(message, Message::Control(_)),
        ActorKind::Epochs => matches!(message, Message::Epoch(_)),
        ActorKind::Coordinator => match message {
            Message::Request(_) | Message::Coordinator(_) | Message::Epoch(_) => true,
            Message::Inspect(message) => matches!(**message, InspectMessage::Ask { .. }),
            _ => false,
        },
        ActorKind::Participant => match message {
            Message::Participant(_) | Message::Continue(_) => true,
            Message::Scan(scan) => !matches!(scan, ScanMessage::Batch(_)),
            Message::Inspect(message) => matches!(**message, InspectMessage::Ask { .. }),
            _ => false,
        },
        ActorKind::Joiner => {
            matches!(message, Message::Reply(_) | Message::Scan(_) | Message::Continue(_))
        }
        ActorKind::Client | ActorKind::IndexBuilder => match message {
            Message::Reply(_) | Message::Continue(_) | Message::Kill { .. } => true,
            Message::Scan(scan) => matches!(scan, ScanMessage::Batch(_)),
            Message::Control(message) => matches!(
                **message,
                ControlMessage::SchemaReply { .. } | ControlMessage::Speaks { .. }
            ),
            Message::Inspect(message) => matches!(**message, InspectMessage::Answer { .. }),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use model::{Address, WorkerId};
    use wire::Continue;

    use super::*;

    /// A message of a sender that had reached this state.
    fn of_state(reached: u64) -> Envelope {
        let actor = ActorKind::Participant;
        let address = Address { node: NodeId(1), worker: WorkerId(0), actor };
        Envelope {
            from: address,
            incarnation: Incarnation(1),
            to: address,
            reached: ControlIndex(reached),
            message: Box::new(Message::Continue(Continue::Scans)),
        }
    }

    #[test]
    fn clients_answer_what_clients_asked_and_nobody_else() {
        let of = |actor, node| Address { node: NodeId(node), worker: WorkerId(0), actor };
        let session = model::SessionId { node: NodeId(49), incarnation: Incarnation(1), number: 0 };
        let answer = |from, to| Envelope {
            from: of(from, 51),
            incarnation: Incarnation(1),
            to: of(to, 49),
            reached: ControlIndex(1),
            message: Box::new(Message::Inspect(Box::new(InspectMessage::Answer {
                session,
                request: 1,
                rows: Vec::new(),
            }))),
        };
        assert!(may_come_from_client(&answer(ActorKind::Client, ActorKind::Client)));
        assert!(!may_come_from_client(&answer(ActorKind::Client, ActorKind::Participant)));
        assert!(!may_come_from_client(&answer(ActorKind::Participant, ActorKind::Client)));
    }

    #[test]
    fn what_actors_tell_themselves_reaches_them() {
        let own = [
            (ActorKind::Participant, Continue::Scans),
            (ActorKind::Participant, Continue::Copies),
            (ActorKind::Participant, Continue::Upkeep),
            (ActorKind::Participant, Continue::Checkpoint),
            (ActorKind::Joiner, Continue::Joins),
        ];
        for (actor, what) in own {
            assert!(fits(actor, &Message::Continue(what)), "{actor:?}");
        }
    }

    #[test]
    fn messages_that_were_held_keep_their_order_over_several_states() {
        let mut inbox = Inbox::default();
        for reached in [2, 3, 1] {
            inbox.push(of_state(reached));
        }
        for _ in 0..2 {
            let waiting = inbox.pop_low().unwrap();
            inbox.hold(waiting);
        }
        // The first is put back, and has not been handled when the second one is.
        inbox.release(ControlIndex(2));
        inbox.release(ControlIndex(3));
        let order =
            std::iter::from_fn(|| inbox.pop_low()).map(|waiting| waiting.envelope.reached.0);
        assert_eq!(order.collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn pieces_of_long_work_let_others_pass_and_go_on() {
        let mut inbox = Inbox::default();
        inbox.push(of_state(0));
        for number in 1..200 {
            let mut other = of_state(number);
            other.message = Box::new(Message::Kill { connection: 1, query_only: true });
            inbox.push(other);
        }
        let reached = |waiting: Waiting| waiting.envelope.reached.0;
        let order: Vec<u64> = std::iter::from_fn(|| inbox.pop_urgent()).map(reached).collect();
        let (before, after) = (1..=u64::from(PASSED_MAX), u64::from(PASSED_MAX) + 1..200);
        assert_eq!(order, before.chain([0]).chain(after).collect::<Vec<_>>());
        inbox.push(of_state(200));
        assert!(inbox.pop_urgent().is_none() && inbox.has_messages());
        assert_eq!(inbox.pop_low().map(reached), Some(200));
    }
}
