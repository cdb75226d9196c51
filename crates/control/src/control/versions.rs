//! What members' programs understand, while some of them are of an older version.
//!
//! # Owns
//! The newest protocol version of each member, as it says of itself, and the newest that all of
//! them speak. The leader knows the former and tells the latter with its heartbeats; data nodes
//! tell it to the clients that follow them.
//! # Guarantees
//! 1. What a member cannot read is not logged: a change that is newer than what all members speak
//!    is refused by whoever is asked for it, with `OlderNode`.
//! 2. A node that holds a lease knows of no newer version than all members speak: a life of an
//!    older one is admitted when every lease rests on a heartbeat that has told of it.
//! 3. Until an upgrade is finalized the members speak what they spoke before it, so that each of
//!    them may be replaced by the program of before.
//! # Failure
//! Whose version is not known counts as old. A new leader learns it with the first answers to its
//! heartbeats, if it has not been told when the member began.
//! # Not here
//! Since when there is what (`SchemaChange::since`); messages between two nodes (`wire`).

use std::collections::BTreeMap;

use actor::{Ctx, probe};
use model::{Address, ClusterState, Command, Incarnation, NodeId};
use stdx::{Duration, Instant};
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
    /// Leader: the oldest life that asks to be admitted.
    asker: Option<Asker>,
}

/// A life of an older version that is no member yet.
#[derive(Clone, Copy, Debug)]
struct Asker {
    protocol: u16,
    /// Since when this leader counts it among those that speak.
    since: Instant,
    /// When it, or another one as old, last asked.
    asked: Instant,
}

/// How long a life that does not ask again is waited for.
const ASKS_AGAIN: Duration = Duration::from_secs(10);

impl Default for Versions {
    fn default() -> Self {
        Self { own: wire::PROTOCOL_VERSION, said: BTreeMap::new(), of_all: 0, asker: None }
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
        let asker = self.asker.map_or(self.own, |asker| asker.protocol);
        others.map(said).min().unwrap_or(self.own).min(self.own).min(asker)
    }

    /// Leader: whether a life may become a member. All that hold a lease must know of an older one
    /// first, for which two `lease`s are enough: those that were lent before are over then.
    pub(super) fn admits(&mut self, now: Instant, protocol: u16, lease: Duration) -> bool {
        if protocol >= self.own {
            return true;
        }
        let known = self.asker.filter(|asker| asker.protocol <= protocol);
        let since = known.map_or(now, |asker| asker.since);
        let oldest = known.map_or(protocol, |asker| asker.protocol);
        self.asker = Some(Asker { protocol: oldest, since, asked: now });
        now.since(since) >= lease.times(2)
    }

    /// A new leader has told nobody of anyone who asks.
    pub(super) fn begin_leading(&mut self) {
        self.asker = None;
    }
}

impl Control {
    /// The leader finds out what all members speak.
    pub(super) fn weigh_versions(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now();
        self.versions.asker.take_if(|asker| now.since(asker.asked) > ASKS_AGAIN);
        let oldest = self.versions.oldest(&self.state, self.node);
        // As long as an upgrade may be taken back, nobody makes what older programs cannot read.
        self.all_speak(ctx, oldest.min(self.state.finalized()));
    }

    /// Whether all members can read a command, and those that may come back.
    pub(super) fn may_log(&self, command: &Command) -> bool {
        match command {
            // Its end is what an upgrade waits for.
            Command::Finalize { protocol } => {
                *protocol <= self.versions.oldest(&self.state, self.node)
            }
            other => other.since() <= self.versions.of_all(),
        }
    }

    /// What all members speak is known anew; those that follow this node hear of it.
    pub(super) fn all_speak(&mut self, ctx: &mut Ctx<'_>, protocol: u16) {
        ctx.shared().lease.set_protocol(protocol);
        if std::mem::replace(&mut self.versions.of_all, protocol) == protocol {
            return;
        }
        probe!(ctx, "control: members speak another version");
        for follower in self.followers.addresses() {
            self.tell_versions(ctx, follower);
        }
    }

    /// Tells a client what all members speak.
    pub(super) fn tell_versions(&self, ctx: &mut Ctx<'_>, follower: Address) {
        let protocol = self.versions.of_all();
        ctx.send(follower, Message::Control(Box::new(ControlMessage::Speaks { protocol })));
    }
}
