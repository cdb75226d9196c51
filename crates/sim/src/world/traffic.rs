//! What the nodes of a world send each other, counted by what it is for.
//!
//! # Owns
//! Messages and bytes, all together and at each node, since counting began.
//! # Guarantees
//! Each message between two workers counts once, when it is sent. Bytes are those of envelopes
//! between nodes, without frames.
//! # Not here
//! What counts mean (`scale`).

use std::collections::BTreeMap;

use model::NodeId;
use wire::{ControlMessage, Envelope, Message, ParticipantMessage};

use super::World;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Matter {
    /// Switches, completion, snapshots.
    Epochs,
    /// Epochs on disk.
    Saves,
    /// Heartbeats, leases, and what the consensus sends with them.
    Liveness,
    /// Entries of the control log, states for those that follow it, elections.
    Log,
    /// Looking for the cluster, joining it, broken links, quiet moments.
    Membership,
    /// Copies of rows, and what becomes of transactions of the dead.
    Recovery,
    /// Operations of clients.
    Work,
}

/// All of them, in the order of tables.
pub const MATTERS: [Matter; 7] = [
    Matter::Epochs,
    Matter::Saves,
    Matter::Liveness,
    Matter::Log,
    Matter::Membership,
    Matter::Recovery,
    Matter::Work,
];

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages between workers of a node.
    pub within: u64,
    /// Messages between nodes.
    pub between: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Counts since a moment.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    all: BTreeMap<Matter, Sent>,
    /// What each node has sent or received, as one sum.
    at: BTreeMap<(NodeId, Matter), Sent>,
    /// By the names of messages.
    by_name: BTreeMap<&'static str, Sent>,
}

impl Matter {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Matter::Epochs => "epochs",
            Matter::Saves => "saves",
            Matter::Liveness => "heartbeats and leases",
            Matter::Log => "control log",
            Matter::Membership => "membership",
            Matter::Recovery => "copies and takeovers",
            Matter::Work => "work of clients",
        }
    }

    fn of(envelope: &Envelope) -> Self {
        match &*envelope.message {
            Message::Epoch(message) => match message.name() {
                "EpochSaved" | "EpochDurable" | "SaveRequest" | "EpochNoted" => Matter::Saves,
                _ => Matter::Epochs,
            },
            Message::Participant(message) => match message {
                ParticipantMessage::Save { .. } | ParticipantMessage::Durable { .. } => {
                    Matter::Saves
                }
                ParticipantMessage::CopyRequest { .. }
                | ParticipantMessage::CopyRows { .. }
                | ParticipantMessage::CopyOutcomes { .. }
                | ParticipantMessage::CopyAck { .. }
                | ParticipantMessage::TakeoverQuery { .. } => Matter::Recovery,
                _ => Matter::Work,
            },
            Message::State(_) | Message::StateChange(_) => Matter::Log,
            Message::Control(message) => Self::of_control(message),
            _ => Matter::Work,
        }
    }

    fn of_control(message: &ControlMessage) -> Self {
        match message {
            ControlMessage::Heartbeat { .. }
            | ControlMessage::LeaseRequest(_)
            | ControlMessage::LeaseGrant { .. } => Matter::Liveness,
            ControlMessage::Raft { message, .. } => match message {
                raftbare::Message::AppendEntriesCall { entries, .. } if !entries.is_empty() => {
                    Matter::Log
                }
                raftbare::Message::AppendEntriesCall { .. }
                | raftbare::Message::AppendEntriesReply { .. } => Matter::Liveness,
                _ => Matter::Log,
            },
            ControlMessage::Snapshot { .. }
            | ControlMessage::SnapshotPiece { .. }
            | ControlMessage::SnapshotInstalled { .. }
            | ControlMessage::NextPiece { .. }
            | ControlMessage::StatePiece(_)
            | ControlMessage::Follow { .. }
            | ControlMessage::Speaks { .. }
            | ControlMessage::PreVote { .. }
            | ControlMessage::PreVoteReply { .. }
            | ControlMessage::Schema { .. }
            | ControlMessage::SchemaReply { .. } => Matter::Log,
            _ => Matter::Membership,
        }
    }
}

impl Sent {
    /// Messages, within nodes and between them.
    pub fn messages(self) -> u64 {
        self.within + self.between
    }

    fn add(&mut self, between: bool, bytes: u64) {
        if between {
            self.between += 1;
            self.bytes += bytes;
        } else {
            self.within += 1;
        }
    }
}

impl Traffic {
    /// Counts a message that leaves its worker.
    pub(super) fn add(&mut self, envelope: &Envelope) {
        let (from, to) = (envelope.from, envelope.to);
        if from.node == to.node && from.worker == to.worker {
            return;
        }
        let between = from.node != to.node;
        let size = if between { envelope.encoded_size() } else { Ok(0) };
        let bytes = size.expect("what nodes send each other has an encoding") as u64;
        let matter = Matter::of(envelope);
        self.all.entry(matter).or_default().add(between, bytes);
        self.by_name.entry(envelope.message.name()).or_default().add(between, bytes);
        self.at.entry((from.node, matter)).or_default().add(between, bytes);
        if between {
            self.at.entry((to.node, matter)).or_default().add(between, bytes);
        }
    }

    /// What was sent for a matter.
    pub fn of(&self, matter: Matter) -> Sent {
        self.all.get(&matter).copied().unwrap_or_default()
    }

    /// What a node has sent and received for a matter.
    pub fn at(&self, node: NodeId, matter: Matter) -> Sent {
        self.at.get(&(node, matter)).copied().unwrap_or_default()
    }

    /// What was sent, by the names of messages.
    pub fn by_name(&self) -> &BTreeMap<&'static str, Sent> {
        &self.by_name
    }
}

impl World {
    /// Counts what is sent from now on.
    pub fn count_traffic(&mut self) {
        self.traffic = Some(Traffic::default());
    }

    /// What was sent since counting began; ends it.
    pub fn take_traffic(&mut self) -> Traffic {
        self.traffic.take().unwrap_or_default()
    }

    /// Who drives epochs, if somebody does.
    pub fn driver(&self) -> Option<NodeId> {
        self.newest_state().driver()
    }
}
