//! Who must wait for whom: one request of a lane at a time.

use std::collections::{BTreeMap, VecDeque};

use actor::DiskRequest;
use model::{ActorKind, NodeId, WorkerId};

use super::Asked;

/// A lane of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneKey {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
    actor: ActorKind,
    lane: u8,
}

impl LaneKey {
    /// The lane of a request.
    pub(super) fn of(asked: &Asked) -> LaneKey {
        let Asked { node, worker, request } = asked;
        LaneKey { node: *node, worker: *worker, actor: request.actor, lane: request.lane }
    }
}

/// The lanes at work, each with the requests that wait in it.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    busy: BTreeMap<LaneKey, VecDeque<DiskRequest>>,
}

impl Lanes {
    /// Takes a request; gives it back if it is to begin now.
    pub(super) fn push(&mut self, asked: Asked) -> Option<(LaneKey, DiskRequest)> {
        let key = LaneKey::of(&asked);
        if let Some(waiting) = self.busy.get_mut(&key) {
            waiting.push_back(asked.request);
            return None;
        }
        self.busy.insert(key, VecDeque::new());
        Some((key, asked.request))
    }

    /// The lane's request is answered; the next to begin.
    pub(super) fn finished(&mut self, key: LaneKey) -> Option<DiskRequest> {
        let waiting = self.busy.get_mut(&key).expect("a lane at work");
        let next = waiting.pop_front();
        if next.is_none() {
            self.busy.remove(&key);
        }
        next
    }

    /// Whether no lane is at work.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }
}
