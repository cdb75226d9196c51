//! The lock table against a model that recomputes everything, and the rules one by one.

use std::collections::BTreeSet;

use super::Mode::{Exclusive, Shared};
use super::*;
use stdx::Prng;

#[derive(Clone, Debug)]
struct Wait {
    key: u64,
    owner: u32,
    mode: Mode,
    ticket: u64,
}

/// Holds and waits in lists, in order of arrival; every question is answered by reading them all.
#[derive(Default)]
struct Model {
    holds: Vec<(u64, u32, Mode)>,
    waits: Vec<Wait>,
}

impl Model {
    fn held(&self, key: u64, owner: u32) -> Option<Mode> {
        self.holds.iter().find(|hold| (hold.0, hold.1) == (key, owner)).map(|hold| hold.2)
    }

    fn set(&mut self, key: u64, owner: u32, mode: Option<Mode>) {
        let at = self.holds.iter().position(|hold| (hold.0, hold.1) == (key, owner));
        match (at, mode) {
            (Some(at), Some(mode)) => self.holds[at].2 = mode,
            (Some(at), None) => drop(self.holds.remove(at)),
            (None, Some(mode)) => self.holds.push((key, owner, mode)),
            (None, None) => {}
        }
    }

    fn compatible(&self, key: u64, owner: u32, mode: Mode) -> bool {
        let others = self.holds.iter().filter(|hold| hold.0 == key && hold.1 != owner);
        others.clone().all(|hold| hold.2 == Shared && mode == Shared)
    }

    /// Waits on the key in the order they will be granted.
    fn queue(&self, key: u64) -> Vec<Wait> {
        let mut queue: Vec<Wait> = self.waits.iter().filter(|w| w.key == key).cloned().collect();
        queue.sort_by_key(|wait| self.held(key, wait.owner).is_none());
        queue
    }

    fn try_request(&mut self, key: u64, owner: u32, mode: Mode) -> bool {
        let held = self.held(key, owner);
        let free = held.is_some() || self.queue(key).is_empty();
        if held >= Some(mode) {
            return true;
        }
        if free && self.compatible(key, owner, mode) {
            self.set(key, owner, Some(mode));
            return true;
        }
        false
    }

    fn settle(&mut self, key: u64) -> Vec<(u64, u32, u64)> {
        let mut granted = Vec::new();
        loop {
            let queue = self.queue(key);
            let covered = queue.iter().find(|w| self.held(key, w.owner) >= Some(w.mode));
            let first = queue.first().filter(|w| self.compatible(key, w.owner, w.mode));
            let Some(wait) = covered.or(first).cloned() else { return granted };
            if self.held(key, wait.owner) < Some(wait.mode) {
                self.set(key, wait.owner, Some(wait.mode));
            }
            self.waits.retain(|w| w.ticket != wait.ticket);
            granted.push((key, wait.owner, wait.ticket));
        }
    }

    fn blockers(&self, owner: u32) -> Vec<LockOwner> {
        let mut blockers = BTreeSet::new();
        for wait in self.waits.iter().filter(|wait| wait.owner == owner) {
            let holds = self.holds.iter().filter(|hold| hold.0 == wait.key && hold.1 != owner);
            blockers.extend(holds.map(|hold| LockOwner(hold.1)));
        }
        blockers.into_iter().collect()
    }
}

struct Run {
    table: LockTable,
    model: Model,
    grants: Vec<Grant>,
    ticket: u64,
    keys: u64,
    owners: u64,
}

impl Run {
    fn step(&mut self, prng: &mut Prng) {
        let (key, owner) = (prng.below(self.keys), prng.below(self.owners) as u32);
        let (lock_key, lock_owner) = (LockKey(key), LockOwner(owner));
        let mode = *prng.pick(&[Shared, Exclusive]);
        let mut settled: Vec<u64> = vec![key];
        match prng.below(20) {
            0..10 => {
                self.ticket += 1;
                let granted = self.model.try_request(key, owner, mode);
                if !granted {
                    self.model.waits.push(Wait { key, owner, mode, ticket: self.ticket });
                }
                let answer = self.table.request(lock_key, lock_owner, mode, self.ticket);
                assert_eq!(answer == LockAnswer::Granted, granted);
            }
            10..12 => {
                let granted = self.table.try_request(lock_key, lock_owner, mode);
                assert_eq!(granted, self.model.try_request(key, owner, mode));
            }
            12..14 => {
                self.table.release(lock_key, lock_owner, &mut self.grants);
                self.model.set(key, owner, None);
            }
            14 => {
                if self.model.held(key, owner) == Some(Exclusive) {
                    self.table.restore(lock_key, lock_owner, Some(Shared), &mut self.grants);
                    self.model.set(key, owner, Some(Shared));
                }
            }
            15..17 => {
                let own = self.model.waits.iter().find(|wait| wait.owner == owner).cloned();
                let ticket = own.as_ref().map_or(u64::MAX, |wait| wait.ticket);
                let cancelled = self.table.cancel(lock_owner, ticket, &mut self.grants);
                assert_eq!(cancelled, own.is_some());
                self.model.waits.retain(|wait| wait.ticket != ticket);
                settled.extend(own.map(|wait| wait.key));
            }
            _ => {
                match prng.below(4) {
                    0 => self.table.release_all(lock_owner, &mut self.grants),
                    most => self.release_in_steps(lock_owner, most as usize),
                }
                self.model.waits.retain(|wait| wait.owner != owner);
                self.model.holds.retain(|hold| hold.1 != owner);
                settled = (0..self.keys).collect();
            }
        }
        self.compare(&settled);
    }

    fn release_in_steps(&mut self, owner: LockOwner, most: usize) {
        let of_owner = |table: &LockTable| {
            table.requests().filter(|request| request.1 == owner && request.3).count()
        };
        let (mut left, mut released) = (of_owner(&self.table), most);
        while released == most {
            released = self.table.release_some(owner, most, &mut self.grants);
            assert!(released <= left.min(most), "{released} of {left}");
            left -= released;
            assert_eq!(of_owner(&self.table), left);
        }
        assert!(left == 0 && !self.table.is_waiting(owner));
    }

    fn compare(&mut self, settled: &[u64]) {
        let mut expected = Vec::new();
        settled.iter().for_each(|key| expected.extend(self.model.settle(*key)));
        expected.sort_by_key(|grant| grant.0);
        let grants = self.grants.drain(..);
        let mut granted: Vec<_> = grants.map(|g| (g.key.0, g.owner.0, g.ticket)).collect();
        // The order among the grants of one lock matters.
        granted.sort_by_key(|grant| grant.0);
        assert_eq!(granted, expected);
        for key in 0..self.keys {
            let mut holders: Vec<_> = self.model.holds.iter().filter(|h| h.0 == key).collect();
            holders.sort_by_key(|hold| hold.1);
            let mut own = self.table.holders(LockKey(key));
            own.sort();
            let alone = own.iter().find(|(_, mode)| *mode == Exclusive);
            let found = self.table.exclusive_holder(LockKey(key));
            assert_eq!(found, alone.map(|(owner, _)| *owner));
            assert!(own.iter().map(|h| (h.0.0, h.1)).eq(holders.iter().map(|h| (h.1, h.2))));
        }
        for owner in 0..self.owners as u32 {
            let blockers = self.table.blockers(LockOwner(owner));
            assert_eq!(blockers, self.model.blockers(owner));
            let waiting = self.model.waits.iter().any(|wait| wait.owner == owner);
            assert_eq!(self.table.is_waiting(LockOwner(owner)), waiting);
            assert_eq!(!blockers.is_empty(), waiting, "who waits, waits for somebody");
            let held = self.model.held(0, owner);
            assert_eq!(self.table.mode_of(LockKey(0), LockOwner(owner)), held);
        }
        assert_eq!(self.table.waiting_count(), self.model.waits.len());
    }
}

#[test]
fn who_waits_waits_for_all_holders_and_for_nobody_in_the_queue() {
    let mut table = LockTable::new();
    for owner in 0..3 {
        assert!(table.try_request(KEY, LockOwner(owner), Shared));
    }
    assert!(!table.is_awaited(KEY));
    for owner in 3..100 {
        let mode = if owner % 3 == 0 { Exclusive } else { Shared };
        table.request(KEY, LockOwner(owner), mode, 1);
    }
    assert!(table.is_awaited(KEY));
    let holders = [0, 1, 2].map(LockOwner);
    for owner in 3..100 {
        assert_eq!(table.blockers(LockOwner(owner)), holders);
    }
    table.request(KEY, LockOwner(1), Exclusive, 2);
    assert_eq!(table.blockers(LockOwner(1)), [0, 2].map(LockOwner), "an upgrade");
    let mut grants = Vec::new();
    for owner in 0..3 {
        table.release_all(LockOwner(owner), &mut grants);
    }
    assert_eq!(table.blockers(LockOwner(99)), [LockOwner(3)]);
}

#[test]
fn behaves_like_the_model() {
    for seed in 0..30 {
        let mut prng = Prng::new(seed);
        let (keys, owners) = (prng.between(1, 6), prng.between(2, 8));
        let (table, model) = (LockTable::new(), Model::default());
        let mut run = Run { table, model, grants: Vec::new(), ticket: 0, keys, owners };
        for _ in 0..1_000 {
            run.step(&mut prng);
            run.table.check();
        }
        for owner in 0..owners as u32 {
            run.table.release_all(LockOwner(owner), &mut run.grants);
            run.table.check();
        }
        assert!(run.table.is_empty());
        assert_eq!(run.table.waiting_count(), 0);
    }
}

const KEY: LockKey = LockKey(7);

fn tickets(grants: &mut Vec<Grant>) -> Vec<u64> {
    grants.drain(..).map(|grant| grant.ticket).collect()
}

#[test]
fn shared_requests_do_not_overtake_and_are_granted_together() {
    let [a, b, c, d] = [1, 2, 3, 4].map(LockOwner);
    let (mut table, mut grants) = (LockTable::new(), Vec::new());
    assert_eq!(table.request(KEY, a, Shared, 1), LockAnswer::Granted);
    assert_eq!(table.request(KEY, b, Exclusive, 2), LockAnswer::Waiting);
    assert!(!table.try_request(KEY, c, Shared));
    assert_eq!(table.request(KEY, c, Shared, 3), LockAnswer::Waiting);
    assert_eq!(table.request(KEY, d, Shared, 4), LockAnswer::Waiting);
    assert_eq!(table.blockers(d), [a]);
    table.release(KEY, a, &mut grants);
    assert_eq!(tickets(&mut grants), [2]);
    table.release_all(b, &mut grants);
    assert_eq!(tickets(&mut grants), [3, 4]);
    assert_eq!(table.holders(KEY), [(c, Shared), (d, Shared)]);
}

#[test]
fn an_upgrade_goes_first() {
    let [a, b, c] = [1, 2, 3].map(LockOwner);
    let (mut table, mut grants) = (LockTable::new(), Vec::new());
    assert!(table.try_request(KEY, a, Shared) && table.try_request(KEY, b, Shared));
    assert_eq!(table.request(KEY, c, Exclusive, 1), LockAnswer::Waiting);
    assert_eq!(table.request(KEY, a, Exclusive, 2), LockAnswer::Waiting);
    assert_eq!(table.request(KEY, a, Shared, 3), LockAnswer::Granted);
    table.release(KEY, b, &mut grants);
    assert_eq!(tickets(&mut grants), [2]);
    assert_eq!(table.mode_of(KEY, a), Some(Exclusive));
    table.restore(KEY, a, Some(Shared), &mut grants);
    assert!(grants.is_empty());
    table.restore(KEY, a, None, &mut grants);
    assert_eq!(tickets(&mut grants), [1]);
    table.check();
}

#[test]
fn an_owner_may_wait_twice() {
    let [a, b, c] = [1, 2, 3].map(LockOwner);
    let (mut table, mut grants) = (LockTable::new(), Vec::new());
    assert!(table.try_request(KEY, a, Exclusive));
    assert_eq!(table.request(KEY, b, Shared, 1), LockAnswer::Waiting);
    assert_eq!(table.request(KEY, c, Exclusive, 2), LockAnswer::Waiting);
    assert_eq!(table.request(KEY, b, Exclusive, 3), LockAnswer::Waiting);
    table.release_all(a, &mut grants);
    // The second wait of b became an upgrade, ahead of c.
    assert_eq!(tickets(&mut grants), [1, 3]);
    assert!(!table.cancel(b, 3, &mut grants));
    assert!(table.cancel(c, 2, &mut grants));
    table.check();
}

#[test]
fn an_ended_owner_costs_nothing() {
    let (mut table, mut grants) = (LockTable::new(), Vec::new());
    for key in 0..50_000 {
        assert!(table.try_request(LockKey(key << 20), LockOwner(key as u32 % 100), Shared));
    }
    table.check();
    let per_lock = table.memory_bytes() / table.len();
    assert!(per_lock <= 56, "{per_lock} bytes per lock");
    (0..100).for_each(|owner| table.release_all(LockOwner(owner), &mut grants));
    table.check();
    assert!(table.is_empty() && grants.is_empty());
}

/// Not a test of behaviour: prints bytes per lock and time per operation in release builds.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn measure() {
    let locks: u32 = std::env::var("ROWS").map_or(1_000_000, |v| v.parse().expect("a number"));
    let (mut table, mut grants) = (LockTable::new(), Vec::new());
    let key = |n: u32| LockKey(Prng::new(u64::from(n)).next_u64());
    let per = |start: std::time::Instant| start.elapsed().as_nanos() / u128::from(locks);
    let start = std::time::Instant::now();
    for n in 0..locks {
        assert!(table.try_request(key(n), LockOwner(n % 64), Exclusive));
    }
    println!("request {} ns", per(start));
    println!("{:.1} bytes per lock", table.memory_bytes() as f64 / f64::from(locks));
    let start = std::time::Instant::now();
    (0..64).for_each(|owner| table.release_all(LockOwner(owner), &mut grants));
    println!("release_all {} ns", per(start));
    let start = std::time::Instant::now();
    for n in 0..locks {
        assert!(table.try_request(key(n), LockOwner(n), Exclusive));
        table.release_all(LockOwner(n), &mut grants);
    }
    println!("request and release_all of one lock {} ns", per(start));
}
