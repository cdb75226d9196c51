//! Row locks of one partition replica: who holds what, who waits for whom, and who is next.
//!
//! NDB keeps these in DBACC beside the hash index. Rules follow Gray and Reuter, "Transaction
//! Processing" (1993), chapter 8: shared and exclusive modes, FIFO queues, conversions first.
//!
//! # Owns
//! Holds and waits by key hash. Two rows whose keys share a hash share a lock, which is correct.
//! Only keys that are held or waited for cost memory.
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

use requests::{Chain, List, Request, Requests};

/// Names a lock: the 64-bit hash of a row's primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(pub u64);

/// Who holds or waits: the caller's number of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u32);

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
    holders: List,
    holder_count: u32,
    exclusive: bool,
    upgrades: List,
    queue: List,
    /// False once the lock's number is given back.
    in_use: bool,
}

/// What an owner holds and waits for, oldest first. Exists while there is any.
#[derive(Clone, Debug, Default)]
struct OwnerRecord {
    holds: List,
    waits: List,
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
            requests: Requests::new(),
            by_key: HashIndex::new(),
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
        let upgrade = self.hold_of(lock, owner).is_some();
        self.arrivals += 1;
        let request = Request::new(lock, owner, mode, upgrade, ticket, self.arrivals);
        let id = self.requests.add(request);
        let waits = &mut self.owners.entry(owner).or_default().waits;
        self.requests.push_back(waits, Chain::Owner, id);
        let record = &mut self.locks[lock];
        let list = if upgrade { &mut record.upgrades } else { &mut record.queue };
        self.requests.push_back(list, Chain::Lock, id);
        self.waiting += 1;
        LockAnswer::Waiting
    }

    /// Asks for `key` in `mode` without queueing; says whether the owner holds it now. A shared
    /// request is refused where an exclusive one is queued, so that it cannot overtake.
    pub fn try_request(&mut self, key: LockKey, owner: LockOwner, mode: Mode) -> bool {
        let Some(lock) = self.find(key) else {
            let lock = self.locks.add(Lock::new(key));
            self.by_key.insert(key.0, RowId(lock));
            self.add_hold(lock, owner, mode);
            return true;
        };
        if let Some(hold) = self.hold_of(lock, owner) {
            if self.requests[hold].mode >= mode {
                return true;
            }
            let record = &mut self.locks[lock];
            if record.holder_count > 1 {
                return false;
            }
            record.exclusive = true;
            self.requests[hold].mode = Mode::Exclusive;
            return true;
        }
        let record = &self.locks[lock];
        if !record.upgrades.is_empty() || !record.queue.is_empty() || !record.admits(mode) {
            return false;
        }
        self.add_hold(lock, owner, mode);
        true
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
        let found = self.find(key).and_then(|lock| Some((lock, self.hold_of(lock, owner)?)));
        let Some((lock, hold)) = found else {
            assert!(previous.is_none(), "a hold cannot be restored to {previous:?} from none");
            return;
        };
        let current = self.requests[hold].mode;
        assert!(previous <= Some(current), "restored to {previous:?} from {current:?}");
        match previous {
            Some(mode) if mode == current => return,
            Some(mode) => {
                self.requests[hold].mode = mode;
                self.locks[lock].exclusive = false;
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
            match self.locks[lock].is_free() {
                true => self.free(lock),
                false => touched.push(lock),
            }
        }
        for lock in touched.drain(..) {
            // A lock may be touched twice, and gone after the first time.
            if self.locks[lock].in_use {
                self.promote(lock, grants);
            }
        }
        self.touched = touched;
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
        for released in 0..most {
            let hold = self.owners.get(&owner).and_then(|record| record.holds.first());
            let Some(hold) = hold else {
                self.forget_owner(owner);
                return released;
            };
            let lock = self.requests[hold].lock;
            self.remove_hold(hold);
            self.promote(lock, grants);
        }
        self.forget_owner(owner);
        most
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
        let holders = self.requests.iter(self.locks[lock].holders, Chain::Lock);
        holders.map(|(_, hold)| (hold.owner, hold.mode)).collect()
    }

    /// Who holds `key` alone, if anybody does.
    pub fn exclusive_holder(&self, key: LockKey) -> Option<LockOwner> {
        let lock = &self.locks[self.find(key)?];
        let hold = lock.holders.first().filter(|_| lock.exclusive)?;
        Some(self.requests[hold].owner)
    }

    /// How `owner` holds `key`, if it does.
    pub fn mode_of(&self, key: LockKey, owner: LockOwner) -> Option<Mode> {
        let hold = self.hold_of(self.find(key)?, owner)?;
        Some(self.requests[hold].mode)
    }

    /// All holds and waits: key, owner, mode, whether it is granted; of one key first its holds,
    /// then its waits in order.
    pub fn requests(&self) -> impl Iterator<Item = (LockKey, LockOwner, Mode, bool)> + '_ {
        self.by_key.iter_rows().flat_map(|RowId(id)| {
            let lock = &self.locks[id];
            let holds = self.requests.iter(lock.holders, Chain::Lock).map(|(_, hold)| (hold, true));
            let waits = self.waits_of(lock).map(|(_, wait)| (wait, false));
            let all = holds.chain(waits);
            all.map(|(request, granted)| (lock.key, request.owner, request.mode, granted))
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
            let lock = &self.locks[wait.lock];
            let holders = self.requests.iter(lock.holders, Chain::Lock).map(|(_, hold)| hold.owner);
            blockers.extend(holders.filter(|holder| *holder != owner));
        }
        blockers.sort_unstable();
        blockers.dedup();
        blockers
    }

    /// Whether anybody waits for `key`.
    pub fn is_awaited(&self, key: LockKey) -> bool {
        self.find(key).is_some_and(|lock| {
            let Lock { upgrades, queue, .. } = &self.locks[lock];
            !upgrades.is_empty() || !queue.is_empty()
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

    /// Bytes allocated, including the table itself.
    pub fn memory_bytes(&self) -> usize {
        let owner_bytes = size_of::<(LockOwner, OwnerRecord)>() + 1;
        size_of::<Self>()
            + self.locks.memory_bytes()
            + self.requests.memory_bytes()
            + self.by_key.memory_bytes()
            + self.by_hold.memory_bytes()
            + self.owners.capacity() * owner_bytes
            + self.touched.capacity() * size_of::<u32>()
    }

    /// Panics when an invariant of the table does not hold. Reads the whole table.
    pub fn check(&self) {
        let (mut holds, mut waiting) = (0, 0);
        for RowId(id) in self.by_key.iter_rows() {
            let lock = &self.locks[id];
            assert_eq!(self.find(lock.key), Some(id), "lock found by its key");
            assert!(lock.in_use, "lock {id} is in use");
            holds += self.check_lock(id, lock);
            waiting += self.waits_of(lock).count();
        }
        assert_eq!(self.by_key.len(), self.locks.len(), "locks by key");
        let crowds = self.by_key.iter_rows().map(|RowId(id)| self.locks[id].holder_count as usize);
        let indexed: usize = crowds.filter(|holders| *holders > 1).sum();
        assert_eq!(self.by_hold.len(), indexed, "holds by lock and owner");
        assert_eq!(waiting, self.waiting, "waits");
        assert_eq!(self.requests.len(), holds + waiting, "requests in use");
        let (mut owner_holds, mut owner_waits) = (0, 0);
        #[expect(clippy::iter_over_hash_type, reason = "sums and checks do not depend on order")]
        for (owner, record) in &self.owners {
            assert!(!record.holds.is_empty() || !record.waits.is_empty(), "{owner} has nothing");
            let of_owner = |list| self.requests.iter(list, Chain::Owner);
            assert!(of_owner(record.holds).all(|(_, request)| request.owner == *owner));
            assert!(of_owner(record.waits).all(|(_, request)| request.owner == *owner));
            owner_holds += of_owner(record.holds).count();
            owner_waits += of_owner(record.waits).count();
        }
        assert_eq!((owner_holds, owner_waits), (holds, waiting), "requests by owner");
    }

    /// Checks one lock and returns its number of holds.
    fn check_lock(&self, id: u32, lock: &Lock) -> usize {
        let holders: Vec<_> = self.requests.iter(lock.holders, Chain::Lock).collect();
        assert_eq!(holders.len(), lock.holder_count as usize, "holders of lock {id}");
        assert!(!holders.is_empty(), "lock {id} is held");
        let exclusive = holders.iter().any(|(_, hold)| hold.mode == Mode::Exclusive);
        assert_eq!(exclusive, lock.exclusive, "mode of lock {id}");
        assert!(!exclusive || holders.len() == 1, "an exclusive hold of lock {id} is alone");
        for (hold, request) in &holders {
            assert_eq!(self.hold_of(id, request.owner), Some(*hold), "hold found by its owner");
        }
        let mut last = (false, 0);
        for (_, wait) in self.waits_of(lock) {
            assert_eq!(wait.lock, id);
            let held = self.hold_of(id, wait.owner).map(|hold| self.requests[hold].mode);
            assert!(held < Some(wait.mode), "{} waits for what it holds", wait.owner);
            assert_eq!(wait.upgrade, held.is_some(), "upgrades are told apart");
            assert!(last < (!wait.upgrade, wait.arrival), "order of waits");
            last = (!wait.upgrade, wait.arrival);
        }
        if let Some((_, first)) = self.waits_of(lock).next() {
            let grantable =
                if first.upgrade { lock.holder_count == 1 } else { lock.admits(first.mode) };
            assert!(!grantable, "the first wait of lock {id} is granted");
        }
        holders.len()
    }

    #[inline]
    fn find(&self, key: LockKey) -> Option<u32> {
        self.by_key.find(key.0, |id| self.locks[id.0].key == key).map(|id| id.0)
    }

    /// The owner's hold on the lock.
    #[inline]
    fn hold_of(&self, lock: u32, owner: LockOwner) -> Option<u32> {
        let is_match = |id: RowId| {
            let request = &self.requests[id.0];
            request.lock == lock && request.owner == owner
        };
        if self.locks[lock].holder_count == 1 {
            return self.locks[lock].holders.first().filter(|id| is_match(RowId(*id)));
        }
        self.by_hold.find(hold_hash(lock, owner), is_match).map(|id| id.0)
    }

    /// Waits of the lock in the order they will be granted.
    fn waits_of(&self, lock: &Lock) -> impl Iterator<Item = (u32, &Request)> {
        let upgrades = self.requests.iter(lock.upgrades, Chain::Lock);
        upgrades.chain(self.requests.iter(lock.queue, Chain::Lock))
    }

    fn add_hold(&mut self, lock: u32, owner: LockOwner, mode: Mode) {
        let id = self.requests.add(Request::new(lock, owner, mode, false, 0, 0));
        self.link_hold(id);
    }

    /// Enters a request that is in no list as a hold.
    fn link_hold(&mut self, id: u32) {
        let Request { lock, owner, mode, .. } = self.requests[id];
        let record = &mut self.locks[lock];
        assert!(record.admits(mode), "{mode:?} beside the holders of {}", record.key);
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
        let record = &mut self.locks[lock];
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
        let record = &mut self.locks[lock];
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
        let record = self.owners.get(&owner);
        if record.is_some_and(|record| record.holds.is_empty() && record.waits.is_empty()) {
            self.owners.remove(&owner);
        }
    }

    /// Grants waits from the front as long as they can be, then frees a lock without holders.
    fn promote(&mut self, lock: u32, grants: &mut Vec<Grant>) {
        loop {
            let record = &self.locks[lock];
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
        let record = &self.locks[lock];
        if record.holder_count == 0 {
            assert!(record.is_free(), "a free lock is granted");
            self.free(lock);
        }
    }

    /// Forgets a lock that nobody holds or waits for.
    fn free(&mut self, lock: u32) {
        let record = &mut self.locks[lock];
        record.in_use = false;
        let removed = self.by_key.remove(record.key.0, RowId(lock));
        assert!(removed, "a lock is found by its key");
        self.locks.release(lock);
    }

    /// Turns a wait into a hold, or into the strength of its owner's hold.
    fn grant(&mut self, wait: u32, grants: &mut Vec<Grant>) {
        let Request { lock, owner, upgrade, ticket, .. } = self.requests[wait];
        self.unlink_wait(wait);
        grants.push(Grant { owner, key: self.locks[lock].key, ticket });
        if upgrade {
            let hold = self.hold_of(lock, owner).expect("an upgrade's owner holds the lock");
            self.requests[hold].mode = Mode::Exclusive;
            self.locks[lock].exclusive = true;
            self.requests.release(wait);
        } else {
            self.link_hold(wait);
        }
        self.sort_waits(lock, owner, grants);
    }

    /// After a change of the owner's hold: ends its waits for what it holds now, and puts the
    /// others where upgrades, or plain waits, belong.
    fn sort_waits(&mut self, lock: u32, owner: LockOwner, grants: &mut Vec<Grant>) {
        let held = self.hold_of(lock, owner).map(|hold| self.requests[hold].mode);
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
                let Lock { upgrades, queue, .. } = &mut self.locks[lock];
                let (from, to) = if upgrade { (upgrades, queue) } else { (queue, upgrades) };
                self.requests.unlink(from, Chain::Lock, id);
                self.requests[id].upgrade = !upgrade;
                self.requests.insert_by_arrival(to, id);
            }
        }
    }
}

impl Lock {
    fn new(key: LockKey) -> Self {
        let (holders, upgrades, queue) = (List::default(), List::default(), List::default());
        Self { key, holders, holder_count: 0, exclusive: false, upgrades, queue, in_use: true }
    }

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
