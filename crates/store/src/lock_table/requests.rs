//! Requests of the lock table and the lists they are in.
//!
//! # Guarantees
//! A request is in at most one list of its lock and one list of its owner; entering at an end and
//! leaving from anywhere take constant time.
//! # Not here
//! What the lists mean: the table.

use std::ops::{Index, IndexMut};

use super::{LockOwner, Mode};
use crate::arena::Arena;

/// Names no request.
pub(super) const NONE: u32 = u32::MAX;

/// A hold or a wait.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) lock: u32,
    pub(super) owner: LockOwner,
    pub(super) ticket: u64,
    /// Orders waits of the same kind; zero for holds that never waited.
    pub(super) arrival: u64,
    pub(super) mode: Mode,
    /// A wait whose owner holds the lock in a weaker mode.
    pub(super) upgrade: bool,
    /// Neighbours in the list of the lock and of the owner.
    links: [Link; 2],
}

/// The neighbours of an element in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Link {
    pub(super) fn next(self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }
}

/// Which of its two lists a request is looked at in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    Lock = 0,
    Owner = 1,
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl Request {
    pub(super) fn new(
        lock: u32,
        owner: LockOwner,
        mode: Mode,
        upgrade: bool,
        ticket: u64,
        arrival: u64,
    ) -> Self {
        let links = [Link { previous: NONE, next: NONE }; 2];
        Self { lock, owner, ticket, arrival, mode, upgrade, links }
    }
}

/// All requests, by number.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    arena: Arena<Request, 1024>,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self { arena: Arena::new() }
    }

    pub(super) fn add(&mut self, request: Request) -> u32 {
        self.arena.add(request)
    }

    /// Gives back the number of a request that is in no list.
    pub(super) fn release(&mut self, id: u32) {
        self.arena.release(id);
    }

    pub(super) fn len(&self) -> usize {
        self.arena.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes()
    }

    pub(super) fn next(&self, chain: Chain, id: u32) -> Option<u32> {
        let next = self.arena[id].links[chain as usize].next;
        (next != NONE).then_some(next)
    }

    /// The requests of `list`, first to last.
    pub(super) fn iter(&self, list: List, chain: Chain) -> impl Iterator<Item = (u32, &Request)> {
        let ids = std::iter::successors(list.first(), move |id| self.next(chain, *id));
        ids.map(|id| (id, &self.arena[id]))
    }

    pub(super) fn push_back(&mut self, list: &mut List, chain: Chain, id: u32) {
        self.insert_after(list, chain, list.last, id);
    }

    /// Enters a wait in a list of its lock that is ordered by arrival.
    pub(super) fn insert_by_arrival(&mut self, list: &mut List, id: u32) {
        let arrival = self.arena[id].arrival;
        let mut previous = list.last;
        while previous != NONE && self.arena[previous].arrival > arrival {
            previous = self.arena[previous].links[Chain::Lock as usize].previous;
        }
        self.insert_after(list, Chain::Lock, previous, id);
    }

    pub(super) fn unlink(&mut self, list: &mut List, chain: Chain, id: u32) {
        let Link { previous, next } = self.arena[id].links[chain as usize];
        match previous {
            NONE => {
                assert_eq!(list.first, id, "request {id} is in the list");
                list.first = next;
            }
            _ => self.arena[previous].links[chain as usize].next = next,
        }
        match next {
            NONE => {
                assert_eq!(list.last, id, "request {id} is in the list");
                list.last = previous;
            }
            _ => self.arena[next].links[chain as usize].previous = previous,
        }
        self.arena[id].links[chain as usize] = Link { previous: NONE, next: NONE };
    }

    /// Enters `id` behind `previous`, or in front when that is `NONE`.
    fn insert_after(&mut self, list: &mut List, chain: Chain, previous: u32, id: u32) {
        let next = match previous {
            NONE => std::mem::replace(&mut list.first, id),
            _ => std::mem::replace(&mut self.arena[previous].links[chain as usize].next, id),
        };
        match next {
            NONE => list.last = id,
            _ => self.arena[next].links[chain as usize].previous = id,
        }
        self.arena[id].links[chain as usize] = Link { previous, next };
    }
}

impl Index<u32> for Requests {
    type Output = Request;

    fn index(&self, id: u32) -> &Request {
        &self.arena[id]
    }
}

impl IndexMut<u32> for Requests {
    fn index_mut(&mut self, id: u32) -> &mut Request {
        &mut self.arena[id]
    }
}
