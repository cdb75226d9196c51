//! Messages that wait on a worker: by priority, and those held until a cluster state arrives.

use std::collections::VecDeque;

use model::{ActorKind, ControlIndex, Incarnation, NodeId};
use wire::{
    ControlMessage, Envelope, InspectMessage, Message, ParticipantMessage, Priority, ScanMessage,
};

/// The waiting messages of a worker.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    high: VecDeque<Envelope>,
    normal: VecDeque<Envelope>,
    /// In order of arrival.
    held: VecDeque<Envelope>,
}

impl Inbox {
    pub(super) fn push(&mut self, envelope: Envelope) {
        self.queue(&envelope).push_back(envelope);
    }

    fn queue(&mut self, envelope: &Envelope) -> &mut VecDeque<Envelope> {
        match envelope.message.priority() {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
        }
    }

    /// The next message to look at.
    pub(super) fn pop(&mut self) -> Option<Envelope> {
        self.high.pop_front().or_else(|| self.normal.pop_front())
    }

    pub(super) fn hold(&mut self, envelope: Envelope) {
        self.held.push_back(envelope);
    }

    /// Puts messages back that need wait no longer. They came before everything that waits now.
    pub(super) fn release(&mut self, reached: ControlIndex) {
        let held = std::mem::take(&mut self.held);
        let (ready, held) = held.into_iter().partition(|envelope| envelope.reached <= reached);
        self.held = held;
        let ready: VecDeque<Envelope> = ready;
        for envelope in ready.into_iter().rev() {
            self.queue(&envelope).push_front(envelope);
        }
    }

    /// Forgets what came over a link that is down; control messages judge for themselves.
    pub(super) fn drop_from(&mut self, node: NodeId, incarnation: Incarnation) {
        let keep = |envelope: &Envelope| {
            let free = matches!(envelope.message, Message::Control(_) | Message::LinkDown { .. });
            free || envelope.from.node != node || envelope.incarnation != incarnation
        };
        self.high.retain(keep);
        self.normal.retain(keep);
        self.held.retain(keep);
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.high.is_empty() || !self.normal.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.high.len() + self.normal.len() + self.held.len()
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
        ActorKind::Client | ActorKind::IndexBuilder => match message {
            Message::Reply(_) | Message::Continue(_) | Message::Kill { .. } => true,
            Message::Scan(scan) => matches!(scan, ScanMessage::Batch(_)),
            Message::Control(message) => matches!(**message, ControlMessage::SchemaReply { .. }),
            Message::Inspect(message) => matches!(**message, InspectMessage::Answer { .. }),
            _ => false,
        },
    }
}
