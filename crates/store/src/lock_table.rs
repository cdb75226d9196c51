//! Row locks of one partition replica: who holds what, who waits for whom, and who is next.
//!
//! NDB keeps these in DBACC beside the hash index. Rules follow Gray and Reuter, "Transaction
//! Processing" (1993), chapter 8: shared and exclusive modes, FIFO queues, conversions first.
//!
//! # Owns
//! Holds and waits by key hash. Two rows whose keys share a hash share a lock, which is correct.
//! Only keys that are held or waited for cost memory. A lock with one holder and without waits,
//! as all but a few are, is one record of 24 bytes; holds and waits of others are records of their
//! own.
//! # Invariants
//! 1. A lock is held by one exclusive owner or by any number of shared ones.
//! 2. Waits are granted in order: upgrades first (their owner holds the lock shared and wants it
//!    exclusive), each group by arrival. The first wait can never be granted, or it would be.
//! 3. No wait is for what its owner holds already.
//! # Failure
//! Deadlocks are not resolved here: the caller follows [`LockTable::blockers`] or lets waits time
//! out, and cancels.
//! # Not here
//! Time, deadlock detection, transactions.

use std::fmt;

use stdx::HashMap;

use crate::arena::Arena;
use crate::hash_index::HashIndex;
use model::RowId;

mod requests;

use requests::{Chain, Link, List, NONE, Request, Requests};

/// Names a lock: the 64-bit hash of a row's primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(pub u64);

/// Who holds or waits: the caller's number of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u32);

/// Memory of locks that is kept when none is held.
const KEPT_BYTES: usize = 256 << 10;

/// Strength of a hold; the order is that of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Beside other shared holds.
    Shared,
    /// Alone.
    Exclusive,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAnswer {
    /// The owner holds the lock in the mode asked for, or a stronger one.
    Granted,
    /// The request is queued; a [`Grant`] with its ticket follows, unless it is cancelled.
    Waiting,
}

/// A wait that has come to its end: its owner holds the lock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who waited.
    pub owner: LockOwner,
    /// For which lock.
    pub key: LockKey,
    /// The ticket of the request.
    pub ticket: u64,
}

/// All row locks of a partition replica; see the module's head.
#[derive(Clone, Debug)]
pub struct LockTable {
    locks: Arena<Lock, 1024>,
    crowds: Arena<Crowd, 64>,
    requests: Requests,
    /// Locks by key: the "row" is the lock's number.
    by_key: HashIndex,
    /// Holds by lock and owner, of locks with several holders: the "row" is the request's number.
    by_hold: HashIndex,
    owners: HashMap<LockOwner, OwnerRecord>,
    waiting: usize,
    /// Arrivals so far; orders waits.
    arrivals: u64,
    /// Memory for `release_all`.
    touched: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Lock {
    key: LockKey,
    state: State,
    /// Neighbours among the locks that the sole owner holds alone.
    links: Link,
}

/// Who holds a lock, and who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// One owner; nobody waits.
    Sole(LockOwner, Mode),
    /// Others beside it, or were: the number of the crowd.
    Crowd(u32),
    /// The lock's number is given back.
    Free,
}

const _: () = assert!(size_of::<Lock>() == 24, "most locks are records without requests");

/// The holders and waits of a lock that has had several of them.
#[derive(Clone, Debug, Default)]
struct Crowd {
    holders: List,
    holder_count: u32,
    exclusive: bool,
    upgrades: List,
    queue: List,
}

/// What an owner holds and waits for, oldest first. Exists while there is any.
#[derive(Clone, Debug, Default)]
struct OwnerRecord {
    /// Locks that it holds without company.
    sole: List,
    /// Holds and waits in crowds.
    holds: List,
    waits: List,
}

impl OwnerRecord {
    fn is_empty(&self) -> bool {
        self.sole.is_empty() && self.holds.is_empty() && self.waits.is_empty()
    }
}

impl Default for LockTable {
    fn default() -> Self {
        Self::new()
    }
}

impl LockTable {
    /// A table without locks.
    pub fn new() -> Self {
        Self {
            locks: Arena::new(),
            crowds: Arena::new(),
            requests: Requests::new(),
            by_key: HashIndex::roomy(),
            by_hold: HashIndex::new(),
            owners: HashMap::default(),
            waiting: 0,
            arrivals: 0,
            touched: Vec::new(),
        }
    }

    /// Asks for `key` in `mode`; queues the request under `ticket` when it cannot be granted now.
    /// An owner that holds the mode or a stronger one is granted at once. `ticket` should be
    /// unique among the owner's waits.
    pub fn request(
        &mut self,
        key: LockKey,
        owner: LockOwner,
        mode: Mode,
        ticket: u64,
    ) -> LockAnswer {
        if self.try_request(key, owner, mode) {
            return LockAnswer::Granted;
        }
        let lock = self.find(key).expect("a refused lock is held");
        let crowd = self.gather(lock);
        let upgrade = self.hold_of(lock, owner).is_some();
        self.arrivals += 1;
        let request = Request::new(lock, owner, mode, upgrade, ticket, self.arrivals);
        let id = self.requests.add(request);
        let waits = &mut self.owners.entry(owner).or_default().waits;
        self.requests.push_back(waits, Chain::Owner, id);
        let record = &mut self.crowds[crowd];
        let list = if upgrade { &mut record.upgrades } else { &mut record.queue };
        self.requests.push_back(list, Chain::Lock, id);
        self.waiting += 1;
        LockAnswer::Waiting
    }

    /// Asks for `key` in `mode` without queueing; says whether the owner holds it now. A shared
    /// request is refused where an exclusive one is queued, so that it cannot overtake.
    pub fn try_request(&mut self, key: LockKey, owner: LockOwner, mode: Mode) -> bool {
        self.acquire(key, owner, mode).is_some()
    }

    /// As [`LockTable::try_request`]: if the owner holds the lock now, whether it had no hold on it
    /// before.
    pub fn acquire(&mut self, key: LockKey, owner: LockOwner, mode: Mode) -> Option<bool> {
        let Some(lock) = self.find(key) else {
            self.add_sole(key, owner, mode);
            return Some(true);
        };
        if let State::Sole(holder, held) = self.locks[lock].state {
            if holder == owner {
                self.locks[lock].state = State::Sole(owner, held.max(mode));
                return Some(false);
            }
            if held == Mode::Exclusive || mode == Mode::Exclusive {
                return None;
            }
        }
        let crowd = self.gather(lock);
        if let Some(hold) = self.hold_of(lock, owner) {
            if self.requests[hold].mode >= mode {
                return Some(false);
            }
            let record = &mut self.crowds[crowd];
            if record.holder_count > 1 {
                return None;
            }
            record.exclusive = true;
            self.requests[hold].mode = Mode::Exclusive;
            return Some(false);
        }
        let record = &self.crowds[crowd];
        if !record.upgrades.is_empty() || !record.queue.is_empty() || !record.admits(mode) {
            return None;
        }
        self.add_hold(lock, owner, mode);
        Some(true)
    }

    /// Gives the owner's hold on `key` back, if it has one; its waits stay. Appends the waits that
    /// end with this to `grants`, in order.
    pub fn release(&mut self, key: LockKey, owner: LockOwner, grants: &mut Vec<Grant>) {
        self.restore(key, owner, None, grants);
    }

    /// Sets the owner's hold on `key` back to `previous`, which must not be stronger: rollback to
    /// a savepoint. Appends the waits that end with this to `grants`, in order.
    pub fn restore(
        &mut self,
        key: LockKey,
        owner: LockOwner,
        previous: Option<Mode>,
        grants: &mut Vec<Grant>,
    ) {
        let held = self.find(key).and_then(|lock| Some((lock, self.held(lock, owner)?)));
        let Some((lock, current)) = held else {
            assert!(previous.is_none(), "a hold cannot be restored to {previous:?} from none");
            return;
        };
        assert!(previous <= Some(current), "restored to {previous:?} from {current:?}");
        if let State::Sole(..) = self.locks[lock].state {
            match previous {
                Some(mode) => self.locks[lock].state = State::Sole(owner, mode),
                None => {
                    self.leave_sole(lock, owner);
                    self.free(lock);
                    self.forget_owner(owner);
                }
            }
            return;
        }
        let hold = self.hold_of(lock, owner).expect("a hold with a mode");
        match previous {
            Some(mode) if mode == current => return,
            Some(mode) => {
                self.requests[hold].mode = mode;
                self.crowd_mut(lock).exclusive = false;
            }
            None => self.remove_hold(hold),
        }
        self.sort_waits(lock, owner, grants);
        self.promote(lock, grants);
        self.forget_owner(owner);
    }

    /// Removes all holds and waits of `owner`: the end of a transaction. Appends the waits of
    /// others that end with this to `grants`. Takes time in proportion to the owner's locks.
    pub fn release_all(&mut self, owner: LockOwner, grants: &mut Vec<Grant>) {
        let Some(record) = self.owners.remove(&owner) else { return };
        let mut touched = std::mem::take(&mut self.touched);
        let mut next = record.waits.first();
        while let Some(wait) = next {
            next = self.requests.next(Chain::Owner, wait);
            touched.push(self.requests[wait].lock);
            self.leave_waits(wait);
            self.requests.release(wait);
        }
        let mut next = record.holds.first();
        while let Some(hold) = next {
            next = self.requests.next(Chain::Owner, hold);
            let lock = self.requests[hold].lock;
            self.leave_holders(hold);
            self.requests.release(hold);
            if self.crowd(lock).is_free() { self.free(lock) } else { touched.push(lock) }
        }
        let mut next = record.sole.first();
        while let Some(lock) = next {
            next = self.locks[lock].links.next();
            self.free(lock);
        }
        for lock in touched.drain(..) {
            // A lock may be touched twice, and gone after the first time.
            if self.locks[lock].state != State::Free {
                self.promote(lock, grants);
            }
        }
        self.touched = touched;
        self.trim();
    }

    /// Removes all waits of `owner` and some of its holds: one step of the end of a transaction
    /// that has many. Appends the waits of others that end with this to `grants`. Returns how many
    /// holds were removed: `most`, unless none is left.
    pub fn release_some(
        &mut self,
        owner: LockOwner,
        most: usize,
        grants: &mut Vec<Grant>,
    ) -> usize {
        // None of them may be granted by the end of another.
        let mut awaited = Vec::new();
        while let Some(wait) = self.owners.get(&owner).and_then(|record| record.waits.first()) {
            awaited.push(self.requests[wait].lock);
            self.remove_wait(wait);
        }
        for lock in awaited {
            self.promote(lock, grants);
        }
        // Those first that others may wait for.
        let mut released = 0;
        while released < most
            && let Some(hold) = self.owners.get(&owner).and_then(|record| record.holds.first())
        {
            let lock = self.requests[hold].lock;
            self.remove_hold(hold);
            self.promote(lock, grants);
            released += 1;
        }
        released += self.release_sole(owner, most - released);
        self.forget_owner(owner);
        self.trim();
        released
    }

    /// Withdraws the owner's wait with `ticket`; false when there is none. Appends the waits that
    /// end with this to `grants`.
    pub fn cancel(&mut self, owner: LockOwner, ticket: u64, grants: &mut Vec<Grant>) -> bool {
        let mut next = self.owners.get(&owner).and_then(|record| record.waits.first());
        while let Some(wait) = next {
            let lock = self.requests[wait].lock;
            if self.requests[wait].ticket == ticket {
                self.remove_wait(wait);
                self.promote(lock, grants);
                self.forget_owner(owner);
                return true;
            }
            next = self.requests.next(Chain::Owner, wait);
        }
        false
    }

    /// Who holds `key`, in the order the holds began.
    pub fn holders(&self, key: LockKey) -> Vec<(LockOwner, Mode)> {
        let Some(lock) = self.find(key) else { return Vec::new() };
        match self.locks[lock].state {
            State::Sole(owner, mode) => vec![(owner, mode)],
            _ => {
                let holders = self.requests.iter(self.crowd(lock).holders, Chain::Lock);
                holders.map(|(_, hold)| (hold.owner, hold.mode)).collect()
            }
        }
    }

    /// Who holds `key` alone, if anybody does.
    pub fn exclusive_holder(&self, key: LockKey) -> Option<LockOwner> {
        match self.locks[self.find(key)?].state {
            State::Sole(owner, mode) => (mode == Mode::Exclusive).then_some(owner),
            State::Crowd(crowd) => {
                let crowd = &self.crowds[crowd];
                let hold = crowd.holders.first().filter(|_| crowd.exclusive)?;
                Some(self.requests[hold].owner)
            }
            State::Free => None,
        }
    }

    /// How `owner` holds `key`, if it does.
    pub fn mode_of(&self, key: LockKey, owner: LockOwner) -> Option<Mode> {
        self.held(self.find(key)?, owner)
    }

    /// All holds and waits: key, owner, mode, whether it is granted; of one key first its holds,
    /// then its waits in order.
    pub fn requests(&self) -> impl Iterator<Item = (LockKey, LockOwner, Mode, bool)> + '_ {
        self.by_key.iter_rows().flat_map(|RowId(id)| {
            let key = self.locks[id].key;
            let (sole, crowd) = match self.locks[id].state {
                State::Sole(owner, mode) => (Some((key, owner, mode, true)), None),
                _ => (None, Some(self.crowd(id))),
            };
            let all = crowd.into_iter().flat_map(|crowd| {
                let holds = self.requests.iter(crowd.holders, Chain::Lock);
                let waits = self.waits_of(crowd).map(|(_, wait)| (wait, false));
                holds.map(|(_, hold)| (hold, true)).chain(waits)
            });
            let all =
                all.map(move |(request, granted)| (key, request.owner, request.mode, granted));
            sole.into_iter().chain(all)
        })
    }

    /// Whom the waits of `owner` wait for: all others that hold what it waits for. That holds for
    /// a shared wait beside shared holds too, as it is behind an exclusive wait for these. Who is
    /// ahead in a queue is left out: it holds nothing there, and waits for the same holders. When
    /// it is granted the lock it is one of them. Sorted, each once; empty when `owner` waits for
    /// nothing. Takes time in proportion to the holders, not to the queue.
    pub fn blockers(&self, owner: LockOwner) -> Vec<LockOwner> {
        let Some(record) = self.owners.get(&owner) else { return Vec::new() };
        let mut blockers = Vec::new();
        for (_, wait) in self.requests.iter(record.waits, Chain::Owner) {
            let holders = self.requests.iter(self.crowd(wait.lock).holders, Chain::Lock);
            let holders = holders.map(|(_, hold)| hold.owner);
            blockers.extend(holders.filter(|holder| *holder != owner));
        }
        blockers.sort_unstable();
        blockers.dedup();
        blockers
    }

    /// Whether anybody waits for `key`.
    pub fn is_awaited(&self, key: LockKey) -> bool {
        self.find(key).is_some_and(|lock| match self.locks[lock].state {
            State::Crowd(crowd) => self.waits_of(&self.crowds[crowd]).next().is_some(),
            State::Sole(..) | State::Free => false,
        })
    }

    /// Whether `owner` waits for any lock.
    pub fn is_waiting(&self, owner: LockOwner) -> bool {
        self.owners.get(&owner).is_some_and(|record| !record.waits.is_empty())
    }

    /// Keys that are held.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting
    }

    /// Bytes of what is held and awaited, and of the index of it; without what is allocated and
    /// not in use.
    pub fn used_bytes(&self) -> u64 {
        let records = self.locks.len() * size_of::<Lock>()
            + self.crowds.len() * size_of::<Crowd>()
            + self.requests.len() * size_of::<Request>();
        (records + self.by_key.memory_bytes() + self.by_hold.memory_bytes()) as u64
    }

    /// Bytes allocated, including the table itself.
    pub fn memory_bytes(&self) -> usize {
        let owner_bytes = size_of::<(LockOwner, OwnerRecord)>() + 1;
        size_of::<Self>()
            + self.locks.memory_bytes()
            + self.crowds.memory_bytes()
            + self.requests.memory_bytes()
            + self.by_key.memory_bytes()
            + self.by_hold.memory_bytes()
            + self.owners.capacity() * owner_bytes
            + self.touched.capacity() * size_of::<u32>()
    }

    /// Panics when an invariant of the table does not hold. Reads the whole table.
    pub fn check(&self) {
        if self.is_empty() {
            // Most tables hold nothing at most times: theirs is the short way.
            let records = self.crowds.len() + self.requests.len() + self.owners.len();
            let indexed = self.by_key.len() + self.by_hold.len();
            assert_eq!((records, indexed, self.waiting), (0, 0, 0), "no lock is held");
            return;
        }
        let (mut holds, mut waiting, mut soles, mut indexed) = (0, 0, 0, 0);
        for RowId(id) in self.by_key.iter_rows() {
            let lock = &self.locks[id];
            assert_eq!(self.find(lock.key), Some(id), "lock found by its key");
            match lock.state {
                State::Sole(owner, _) => {
                    let record = self.owners.get(&owner);
                    assert!(record.is_some_and(|record| !record.sole.is_empty()), "{owner}");
                    soles += 1;
                }
                State::Crowd(crowd) => {
                    let crowd = &self.crowds[crowd];
                    let of_lock = self.check_crowd(id, crowd);
                    holds += of_lock;
                    indexed += if of_lock > 1 { of_lock } else { 0 };
                    waiting += self.waits_of(crowd).count();
                }
                State::Free => panic!("lock {id} is in use"),
            }
        }
        assert_eq!(self.by_key.len(), self.locks.len(), "locks by key");
        assert_eq!(self.crowds.len() + soles, self.locks.len(), "crowds of locks");
        assert_eq!(self.by_hold.len(), indexed, "holds by lock and owner");
        assert_eq!(waiting, self.waiting, "waits");
        assert_eq!(self.requests.len(), holds + waiting, "requests in use");
        let (mut owner_holds, mut owner_waits, mut owner_soles) = (0, 0, 0);
        #[expect(clippy::iter_over_hash_type, reason = "sums and checks do not depend on order")]
        for (owner, record) in &self.owners {
            assert!(!record.is_empty(), "{owner} has nothing");
            let of_owner = |list| self.requests.iter(list, Chain::Owner);
            assert!(of_owner(record.holds).all(|(_, request)| request.owner == *owner));
            assert!(of_owner(record.waits).all(|(_, request)| request.owner == *owner));
            owner_holds += of_owner(record.holds).count();
            owner_waits += of_owner(record.waits).count();
            let mut next = record.sole.first();
            while let Some(lock) = next {
                let is_own = matches!(self.locks[lock].state, State::Sole(by, _) if by == *owner);
                assert!(is_own, "lock {lock} is {owner}'s alone");
                owner_soles += 1;
                next = self.locks[lock].links.next();
            }
        }
        assert_eq!((owner_holds, owner_waits), (holds, waiting), "requests by owner");
        assert_eq!(owner_soles, soles, "locks by their sole owner");
    }

    /// Checks a lock with requests and returns its number of holds.
    fn check_crowd(&self, id: u32, crowd: &Crowd) -> usize {
        let holders: Vec<_> = self.requests.iter(crowd.holders, Chain::Lock).collect();
        assert_eq!(holders.len(), crowd.holder_count as usize, "holders of lock {id}");
        assert!(!holders.is_empty(), "lock {id} is held");
        let exclusive = holders.iter().any(|(_, hold)| hold.mode == Mode::Exclusive);
        assert_eq!(exclusive, crowd.exclusive, "mode of lock {id}");
        assert!(!exclusive || holders.len() == 1, "an exclusive hold of lock {id} is alone");
        for (hold, request) in &holders {
            assert_eq!(self.hold_of(id, request.owner), Some(*hold), "hold found by its owner");
        }
        let mut last = (false, 0);
        for (_, wait) in self.waits_of(crowd) {
            assert_eq!(wait.lock, id);
            let held = self.held(id, wait.owner);
            assert!(held < Some(wait.mode), "{} waits for what it holds", wait.owner);
            assert_eq!(wait.upgrade, held.is_some(), "upgrades are told apart");
            assert!(last < (!wait.upgrade, wait.arrival), "order of waits");
            last = (!wait.upgrade, wait.arrival);
        }
        if let Some((_, first)) = self.waits_of(crowd).next() {
            let grantable =
                if first.upgrade { crowd.holder_count == 1 } else { crowd.admits(first.mode) };
            assert!(!grantable, "the first wait of lock {id} is granted");
        }
        holders.len()
    }

    /// How `owner` holds a lock, if it does.
    #[inline]
    fn held(&self, lock: u32, owner: LockOwner) -> Option<Mode> {
        match self.locks[lock].state {
            State::Sole(holder, mode) => (holder == owner).then_some(mode),
            _ => self.hold_of(lock, owner).map(|hold| self.requests[hold].mode),
        }
    }

    fn crowd_of(&self, lock: u32) -> u32 {
        match self.locks[lock].state {
            State::Crowd(crowd) => crowd,
            other => panic!("lock {lock} has no requests: {other:?}"),
        }
    }

    fn crowd(&self, lock: u32) -> &Crowd {
        &self.crowds[self.crowd_of(lock)]
    }

    fn crowd_mut(&mut self, lock: u32) -> &mut Crowd {
        let crowd = self.crowd_of(lock);
        &mut self.crowds[crowd]
    }

    /// A new lock that its owner holds alone.
    fn add_sole(&mut self, key: LockKey, owner: LockOwner, mode: Mode) {
        let list = &mut self.owners.entry(owner).or_default().sole;
        let links = Link { previous: list.last, next: NONE };
        let lock = self.locks.add(Lock { key, state: State::Sole(owner, mode), links });
        match links.previous {
            NONE => list.first = lock,
            previous => self.locks[previous].links.next = lock,
        }
        list.last = lock;
        self.by_key.insert(key.0, RowId(lock));
    }

    /// Takes a lock out of the list of its sole owner.
    fn leave_sole(&mut self, lock: u32, owner: LockOwner) {
        let Link { previous, next } = self.locks[lock].links;
        let list = &mut self.owners.get_mut(&owner).expect("a sole owner is known").sole;
        match previous {
            NONE => list.first = next,
            _ => self.locks[previous].links.next = next,
        }
        match next {
            NONE => list.last = previous,
            _ => self.locks[next].links.previous = previous,
        }
    }

    /// Frees locks that `owner` holds alone, so many at most; how many.
    fn release_sole(&mut self, owner: LockOwner, most: usize) -> usize {
        let Some(record) = self.owners.get_mut(&owner) else { return 0 };
        let List { first, last } = std::mem::take(&mut record.sole);
        let (mut next, mut released) = (first, 0);
        while next != NONE && released < most {
            let lock = next;
            next = self.locks[lock].links.next;
            self.free(lock);
            released += 1;
        }
        if next != NONE {
            self.locks[next].links.previous = NONE;
            let record = self.owners.get_mut(&owner).expect("looked up above");
            record.sole = List { first: next, last };
        }
        released
    }

    /// Gives memory back when nothing is held that large transactions have taken.
    fn trim(&mut self) {
        if self.locks.len() > 0 {
            return;
        }
        if self.locks.memory_bytes() > KEPT_BYTES {
            self.locks = Arena::new();
        }
        if self.requests.memory_bytes() > KEPT_BYTES {
            (self.requests, self.crowds) = (Requests::new(), Arena::new());
        }
        if self.touched.capacity() * size_of::<u32>() > KEPT_BYTES {
            self.touched = Vec::new();
        }
    }

    /// Gives a lock requests of its own, if it has none; the number of its crowd.
    fn gather(&mut self, lock: u32) -> u32 {
        let State::Sole(owner, mode) = self.locks[lock].state else { return self.crowd_of(lock) };
        self.leave_sole(lock, owner);
        let crowd = self.crowds.add(Crowd::default());
        self.locks[lock].state = State::Crowd(crowd);
        self.add_hold(lock, owner, mode);
        crowd
    }

    #[inline]
    fn find(&self, key: LockKey) -> Option<u32> {
        self.by_key.find(key.0, |id| self.locks[id.0].key == key).map(|id| id.0)
    }

    /// The owner's hold on a lock with requests.
    #[inline]
    fn hold_of(&self, lock: u32, owner: LockOwner) -> Option<u32> {
        let is_match = |id: RowId| {
            let request = &self.requests[id.0];
            request.lock == lock && request.owner == owner
        };
        let crowd = self.crowd(lock);
        if crowd.holder_count == 1 {
            return crowd.holders.first().filter(|id| is_match(RowId(*id)));
        }
        self.by_hold.find(hold_hash(lock, owner), is_match).map(|id| id.0)
    }

    /// Waits of the lock in the order they will be granted.
    fn waits_of(&self, crowd: &Crowd) -> impl Iterator<Item = (u32, &Request)> {
        let upgrades = self.requests.iter(crowd.upgrades, Chain::Lock);
        upgrades.chain(self.requests.iter(crowd.queue, Chain::Lock))
    }

    fn add_hold(&mut self, lock: u32, owner: LockOwner, mode: Mode) {
        let id = self.requests.add(Request::new(lock, owner, mode, false, 0, 0));
        self.link_hold(id);
    }

    /// Enters a request that is in no list as a hold.
    fn link_hold(&mut self, id: u32) {
        let Request { lock, owner, mode, .. } = self.requests[id];
        let (key, crowd) = (self.locks[lock].key, self.crowd_of(lock));
        let record = &mut self.crowds[crowd];
        assert!(record.admits(mode), "{mode:?} beside the holders of {key}");
        record.exclusive = mode == Mode::Exclusive;
        record.holder_count += 1;
        let (holder_count, first) = (record.holder_count, record.holders.first());
        self.requests.push_back(&mut record.holders, Chain::Lock, id);
        let holds = &mut self.owners.entry(owner).or_default().holds;
        self.requests.push_back(holds, Chain::Owner, id);
        if let Some(first) = first.filter(|_| holder_count == 2) {
            self.by_hold.insert(hold_hash(lock, self.requests[first].owner), RowId(first));
        }
        if holder_count > 1 {
            self.by_hold.insert(hold_hash(lock, owner), RowId(id));
        }
    }

    /// Removes a hold. The caller promotes the lock's waits.
    fn remove_hold(&mut self, id: u32) {
        let owner = self.requests[id].owner;
        self.leave_holders(id);
        let owner_record = self.owners.get_mut(&owner).expect("an owner with a hold is known");
        self.requests.unlink(&mut owner_record.holds, Chain::Owner, id);
        self.requests.release(id);
    }

    /// Takes a hold out of its lock, not out of its owner's list.
    fn leave_holders(&mut self, id: u32) {
        let Request { lock, owner, .. } = self.requests[id];
        let crowd = self.crowd_of(lock);
        let record = &mut self.crowds[crowd];
        record.exclusive = false;
        record.holder_count -= 1;
        self.requests.unlink(&mut record.holders, Chain::Lock, id);
        let (holder_count, first) = (record.holder_count, record.holders.first());
        if holder_count > 0 {
            self.unindex_hold(lock, owner, id);
        }
        if let Some(last) = first.filter(|_| holder_count == 1) {
            self.unindex_hold(lock, self.requests[last].owner, last);
        }
    }

    fn unindex_hold(&mut self, lock: u32, owner: LockOwner, id: u32) {
        let removed = self.by_hold.remove(hold_hash(lock, owner), RowId(id));
        assert!(removed, "a hold is found by its owner");
    }

    /// Takes a wait out of its lists; the request itself stays.
    fn unlink_wait(&mut self, id: u32) {
        let owner = self.requests[id].owner;
        self.leave_waits(id);
        let owner_record = self.owners.get_mut(&owner).expect("an owner with a wait is known");
        self.requests.unlink(&mut owner_record.waits, Chain::Owner, id);
    }

    /// Takes a wait out of its lock, not out of its owner's list.
    fn leave_waits(&mut self, id: u32) {
        let Request { lock, upgrade, .. } = self.requests[id];
        let crowd = self.crowd_of(lock);
        let record = &mut self.crowds[crowd];
        let list = if upgrade { &mut record.upgrades } else { &mut record.queue };
        self.requests.unlink(list, Chain::Lock, id);
        self.waiting -= 1;
    }

    /// Removes a wait. The caller promotes the lock's waits.
    fn remove_wait(&mut self, id: u32) {
        self.unlink_wait(id);
        self.requests.release(id);
    }

    /// Drops the owner's record when nothing is left in it.
    fn forget_owner(&mut self, owner: LockOwner) {
        if self.owners.get(&owner).is_some_and(OwnerRecord::is_empty) {
            self.owners.remove(&owner);
        }
    }

    /// Grants waits from the front as long as they can be, then frees a lock without holders.
    fn promote(&mut self, lock: u32, grants: &mut Vec<Grant>) {
        let State::Crowd(crowd) = self.locks[lock].state else { return };
        loop {
            let record = &self.crowds[crowd];
            let wait = if let Some(upgrade) = record.upgrades.first() {
                if record.holder_count > 1 {
                    break;
                }
                upgrade
            } else {
                let Some(first) = record.queue.first() else { break };
                if !record.admits(self.requests[first].mode) {
                    break;
                }
                first
            };
            self.grant(wait, grants);
        }
        let record = &self.crowds[crowd];
        if record.holder_count == 0 {
            assert!(record.is_free(), "a free lock is granted");
            self.free(lock);
        }
    }

    /// Forgets a lock that nobody holds or waits for.
    fn free(&mut self, lock: u32) {
        let record = &mut self.locks[lock];
        let state = std::mem::replace(&mut record.state, State::Free);
        let removed = self.by_key.remove(record.key.0, RowId(lock));
        assert!(removed, "a lock is found by its key");
        self.locks.release(lock);
        if let State::Crowd(crowd) = state {
            self.crowds.release(crowd);
        }
    }

    /// Turns a wait into a hold, or into the strength of its owner's hold.
    fn grant(&mut self, wait: u32, grants: &mut Vec<Grant>) {
        let Request { lock, owner, upgrade, ticket, .. } = self.requests[wait];
        self.unlink_wait(wait);
        grants.push(Grant { owner, key: self.locks[lock].key, ticket });
        if upgrade {
            let hold = self.hold_of(lock, owner).expect("an upgrade's owner holds the lock");
            self.requests[hold].mode = Mode::Exclusive;
            self.crowd_mut(lock).exclusive = true;
            self.requests.release(wait);
        } else {
            self.link_hold(wait);
        }
        self.sort_waits(lock, owner, grants);
    }

    /// After a change of the owner's hold: ends its waits for what it holds now, and puts the
    /// others where upgrades, or plain waits, belong.
    fn sort_waits(&mut self, lock: u32, owner: LockOwner, grants: &mut Vec<Grant>) {
        let held = self.held(lock, owner);
        let mut next = self.owners.get(&owner).and_then(|record| record.waits.first());
        while let Some(id) = next {
            next = self.requests.next(Chain::Owner, id);
            let Request { lock: wait_lock, mode, upgrade, ticket, .. } = self.requests[id];
            if wait_lock != lock {
                continue;
            }
            if held >= Some(mode) {
                self.remove_wait(id);
                grants.push(Grant { owner, key: self.locks[lock].key, ticket });
            } else if upgrade != held.is_some() {
                let crowd = self.crowd_of(lock);
                let Crowd { upgrades, queue, .. } = &mut self.crowds[crowd];
                let (from, to) = if upgrade { (upgrades, queue) } else { (queue, upgrades) };
                self.requests.unlink(from, Chain::Lock, id);
                self.requests[id].upgrade = !upgrade;
                self.requests.insert_by_arrival(to, id);
            }
        }
    }
}

impl Crowd {
    /// Whether nobody holds it or waits for it.
    fn is_free(&self) -> bool {
        self.holder_count == 0 && self.queue.is_empty() && self.upgrades.is_empty()
    }

    /// Whether the holders leave room for a hold in `mode`.
    fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => !self.exclusive,
            Mode::Exclusive => self.holder_count == 0,
        }
    }
}

/// Names a hold in the hash index; the index mixes it.
fn hold_hash(lock: u32, owner: LockOwner) -> u64 {
    u64::from(lock) << 32 | u64::from(owner.0)
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{:016x}", self.0)
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lo{}", self.0)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Shared => "shared",
            Mode::Exclusive => "exclusive",
        })
    }
}

#[cfg(test)]
mod tests;
