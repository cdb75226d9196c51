//! What members' programs understand, while some of them are of an older version.
//!
//! # Owns
//! The newest protocol version of each member, as it says of itself, and the newest that all of
//! them speak. The leader knows the former and tells the latter with its heartbeats; data nodes
//! tell it to the clients that follow them.
//! # Guarantees
//! What a member cannot read is not logged: a change that is newer than what all members speak is
//! refused by whoever is asked for it, with `OlderNode`.
//! # Failure
//! Whose version is not known counts as old. A new leader learns it with the first answers to its
//! heartbeats, if it has not been told when the member began.
//! # Not here
//! Since when there is what (`SchemaChange::since`); messages between two nodes (`wire`).

use std::collections::BTreeMap;

use actor::{Ctx, probe};
use model::{Address, ClusterState, Incarnation, NodeId};
use wire::{ControlMessage, Message};

use super::Control;

/// What this node knows of versions.
#[derive(Debug)]
pub(super) struct Versions {
    /// This program's.
    pub(super) own: u16,
    /// What others have said of a life.
    said: BTreeMap<NodeId, (Incarnation, u16)>,
    /// The newest that all members speak, by the leader's last heartbeat.
    of_all: u16,
}

impl Default for Versions {
    fn default() -> Self {
        Self { own: wire::PROTOCOL_VERSION, said: BTreeMap::new(), of_all: 0 }
    }
}

impl Versions {
    /// The newest protocol version that all members speak.
    pub(super) fn of_all(&self) -> u16 {
        self.of_all.max(wire::PROTOCOL_VERSION_MIN)
    }

    /// A node has said what its life speaks.
    pub(super) fn note(&mut self, node: NodeId, incarnation: Incarnation, protocol: u16) {
        let known = self.said.entry(node).or_insert((incarnation, protocol));
        if incarnation >= known.0 {
            *known = (incarnation, protocol);
        }
    }

    /// What the oldest member of the state speaks, this node aside.
    fn oldest(&self, state: &ClusterState, own: NodeId) -> u16 {
        let said = |(node, member): (&NodeId, &model::Member)| {
            let known = self.said.get(node).filter(|(life, _)| *life == member.incarnation);
            known.map_or(0, |(_, protocol)| *protocol)
        };
        let others = state.members.iter().filter(|(node, _)| **node != own);
        others.map(said).min().unwrap_or(self.own).min(self.own)
    }
}

impl Control {
    /// The leader finds out what all members speak.
    pub(super) fn weigh_versions(&mut self, ctx: &mut Ctx<'_>) {
        let oldest = self.versions.oldest(&self.state, self.node);
        self.all_speak(ctx, oldest);
    }

    /// What all members speak is known anew; those that follow this node hear of it.
    pub(super) fn all_speak(&mut self, ctx: &mut Ctx<'_>, protocol: u16) {
        if std::mem::replace(&mut self.versions.of_all, protocol) == protocol {
            return;
        }
        probe!(ctx, "control: members speak another version");
        for follower in &self.followers {
            self.tell_versions(ctx, *follower);
        }
    }

    /// Tells a client what all members speak.
    pub(super) fn tell_versions(&self, ctx: &mut Ctx<'_>, follower: Address) {
        let protocol = self.versions.of_all();
        ctx.send(follower, Message::Control(Box::new(ControlMessage::Speaks { protocol })));
    }
}
