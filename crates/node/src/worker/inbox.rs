//! Messages that wait on a worker: by class, and those held until a cluster state arrives.

use std::collections::VecDeque;

use model::{ActorKind, ControlIndex, Incarnation, NodeId};
use wire::{
    Class, ControlMessage, Envelope, EpochMessage, InspectMessage, Message, RelayMessage,
    ScanMessage, StreamMessage,
};

use super::sender;

/// Messages that go before a step of long work, at most: long work goes on, however many come.
const PASSED_MAX: u32 = 64;

/// Messages that are held before one of a client is refused that would have to be held too. A
/// client learns of states from data nodes, so a worker is not behind it for long.
const HELD_MAX: usize = 65_536;

/// The waiting messages of a worker.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Each queue in the order of arrival.
    control: VecDeque<Waiting>,
    operations: VecDeque<Waiting>,
    queries: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
    /// How many have gone before the first step of long work.
    passed: u32,
    /// Likewise, as far as messages of one class go.
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
    /// Takes a message in. The class whose first message it is, if it is one of long work.
    pub(super) fn push(&mut self, envelope: Envelope) -> Option<Class> {
        self.arrivals += 1;
        let class = envelope.message.class();
        let waiting = Waiting { arrival: self.arrivals, envelope };
        let queue = match class {
            Class::Operation => {
                self.operations.push_back(waiting);
                return None;
            }
            _ => self.queue(class),
        };
        queue.push_back(waiting);
        (queue.len() == 1 && class >= Class::Query).then_some(class)
    }

    fn queue(&mut self, class: Class) -> &mut VecDeque<Waiting> {
        match class {
            Class::Control => &mut self.control,
            Class::Operation => &mut self.operations,
            Class::Query => &mut self.queries,
            Class::Background => &mut self.background,
        }
    }

    /// The next message to look at; none if only long work waits, or if that `is_due` before
    /// further operations.
    pub(super) fn pop_urgent(&mut self, is_due: bool) -> Option<Waiting> {
        if let Some(waiting) = self.control.pop_front() {
            return Some(waiting);
        }
        if !self.has_long() {
            return self.operations.pop_front();
        }
        if is_due || self.passed >= PASSED_MAX {
            return None;
        }
        let next = self.operations.pop_front();
        self.passed += u32::from(next.is_some());
        next
    }

    /// The next step of long work, of this class if there is one.
    pub(super) fn pop_long(&mut self, first: Class) -> Option<Waiting> {
        self.passed = 0;
        let (queries, background) = (&mut self.queries, &mut self.background);
        let [first, second] =
            if first == Class::Background { [background, queries] } else { [queries, background] };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Keeps a message until the worker has reached its sender's state.
    pub(super) fn hold(&mut self, waiting: Waiting) {
        self.held.push_back(waiting);
    }

    /// Whether so many messages are held that a client may be the reason.
    pub(super) fn holds_many(&self) -> bool {
        self.held.len() >= HELD_MAX
    }

    /// Forgets all that a life has sent.
    pub(super) fn forget(&mut self, node: NodeId, incarnation: Incarnation) {
        let keep = |Waiting { envelope, .. }: &Waiting| {
            let local = matches!(*envelope.message, Message::LinkDown { .. });
            local || envelope.from.node != node || envelope.incarnation != incarnation
        };
        for queue in [
            &mut self.control,
            &mut self.operations,
            &mut self.queries,
            &mut self.background,
            &mut self.held,
        ] {
            queue.retain(keep);
        }
    }

    /// Puts messages back that need wait no longer, where they would stand had they never been
    /// held: others that were put back before may still wait, and came earlier.
    pub(super) fn release(&mut self, reached: ControlIndex) {
        for waiting in std::mem::take(&mut self.held) {
            if waiting.envelope.reached > reached {
                self.held.push_back(waiting);
                continue;
            }
            let queue = self.queue(waiting.envelope.message.class());
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
        self.control.retain(keep);
        self.operations.retain(keep);
        self.queries.retain(keep);
        self.background.retain(keep);
        self.held.retain(keep);
    }

    /// Whether a step of long work waits.
    pub(super) fn has_long(&self) -> bool {
        self.waiting_long() != [false; 2]
    }

    /// Whether steps of queries wait, and of background work.
    pub(super) fn waiting_long(&self) -> [bool; 2] {
        [!self.queries.is_empty(), !self.background.is_empty()]
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.control.is_empty() || !self.operations.is_empty()
    }

    pub(super) fn has_messages(&self) -> bool {
        self.has_urgent() || self.has_long()
    }

    pub(super) fn len(&self) -> usize {
        let long = self.queries.len() + self.background.len();
        self.control.len() + self.operations.len() + long + self.held.len()
    }
}

/// Whether actors of this kind take such messages.
pub(super) fn fits(to: ActorKind, message: &Message) -> bool {
    match to {
        ActorKind::Control => match message {
            Message::Control(_) => true,
            Message::Relay(message) => {
                matches!(**message, RelayMessage::Ask { .. } | RelayMessage::Reply { .. })
            }
            _ => false,
        },
        ActorKind::Epochs => {
            matches!(message, Message::Epoch(message) if !sender::is_of_driver(message))
        }
        ActorKind::Coordinator => match message {
            Message::Request(_) | Message::Coordinator(_) => true,
            // Its own participant says `Noted`.
            Message::Epoch(message) => {
                sender::is_of_driver(message) || matches!(message, EpochMessage::Noted { .. })
            }
            Message::Inspect(message) => matches!(**message, InspectMessage::Ask { .. }),
            _ => false,
        },
        ActorKind::Participant => match message {
            Message::Participant(_) | Message::Continue(_) => true,
            Message::Scan(scan) => !matches!(scan, ScanMessage::Batch(_)),
            Message::Inspect(message) => matches!(**message, InspectMessage::Ask { .. }),
            Message::Stream(_) => true,
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
                ControlMessage::SchemaReply { .. }
                    | ControlMessage::Speaks { .. }
                    | ControlMessage::StatePiece(_)
            ),
            Message::Inspect(message) => matches!(**message, InspectMessage::Answer { .. }),
            Message::Stream(message) => matches!(**message, StreamMessage::Piece { .. }),
            Message::Relay(message) => sender::is_of_relay(message),
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
            let waiting = inbox.pop_long(Class::Query).unwrap();
            inbox.hold(waiting);
        }
        // The first is put back, and has not been handled when the second one is.
        inbox.release(ControlIndex(2));
        inbox.release(ControlIndex(3));
        let order = std::iter::from_fn(|| inbox.pop_long(Class::Query))
            .map(|waiting| waiting.envelope.reached.0);
        assert_eq!(order.collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn steps_of_long_work_let_others_pass_and_go_on() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.push(of_state(0)), Some(Class::Query));
        for number in 1..200 {
            let mut other = of_state(number);
            other.message = Box::new(Message::Kill { connection: 1, query_only: true });
            assert_eq!(inbox.push(other), None);
        }
        let reached = |waiting: Waiting| waiting.envelope.reached.0;
        assert!(inbox.pop_urgent(true).is_none(), "long work is due");
        let before: Vec<u64> =
            std::iter::from_fn(|| inbox.pop_urgent(false)).map(reached).collect();
        let passed = u64::from(PASSED_MAX);
        assert_eq!(before, (1..=passed).collect::<Vec<_>>());
        assert_eq!(inbox.pop_long(Class::Query).map(reached), Some(0));
        let after: Vec<u64> = std::iter::from_fn(|| inbox.pop_urgent(true)).map(reached).collect();
        assert_eq!(after, (passed + 1..200).collect::<Vec<_>>(), "none is left that could be due");
        inbox.push(of_state(200));
        assert!(inbox.pop_urgent(false).is_none() && inbox.has_messages());
        assert_eq!(inbox.pop_long(Class::Query).map(reached), Some(200));
    }

    #[test]
    fn queries_and_background_work_wait_apart() {
        let mut inbox = Inbox::default();
        let mut copies = of_state(1);
        copies.message = Box::new(Message::Continue(Continue::Copies));
        assert_eq!(inbox.push(of_state(0)), Some(Class::Query));
        assert_eq!(inbox.push(of_state(2)), None);
        assert_eq!(inbox.push(copies), Some(Class::Background));
        let reached = |waiting: Waiting| waiting.envelope.reached.0;
        assert_eq!(inbox.pop_long(Class::Background).map(reached), Some(1));
        assert_eq!(inbox.waiting_long(), [true, false]);
        assert_eq!(inbox.pop_long(Class::Background).map(reached), Some(0));
    }
}
