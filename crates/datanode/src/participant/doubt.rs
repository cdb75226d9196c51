//! Reads that wait: for rows whose change another replica may show already.
//!
//! A leg is *in doubt* at a replica from the moment from which other replicas may show its changes
//! until this one shows or undoes them. In two phases that is a backup that was told to commit: the
//! primary shows the changes when all backups have noted the decision, the backups follow when
//! they hear `Complete`. In one phase that is every replica but the last, from the moment it has
//! staged the changes: the last one shows them first.
//!
//! # Owns
//! Which legs are in doubt, which reads wait for them, and who is to go on in this turn.
//! # Guarantees
//! 1. A value that any replica has shown is not followed by an older one: while one replica shows
//!    a change, the leg is in doubt at each replica that does not, and who reads the row there
//!    waits. Such a read is answered neither with the old value, as others may have seen the new
//!    one, nor with the new one, as a takeover may abort it.
//! 2. A read waits for the legs that were in doubt when it came, and for no later ones: what a
//!    later leg changes was shown to nobody before the read was asked for. So readers of a row that
//!    is written all the time are not starved.
//! 3. A leg in doubt waits for nothing but its links and the removal of the dead; so does a read
//!    that waits for it. There is no deadlock, and no time-out but that of the reader.
//! # Not here
//! Locks and those who wait for them (`waits`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, Mutation, Tally, probe};
use model::{Address, ErrorCode, PartitionId, Refusal, key};
use stdx::Few;
use store::lock_table::LockKey;
use wire::{Operation, OperationKind, ReadRequest};

use super::Participant;
use super::leg::{Leg, LegHandle, Status};
use super::prepare::Run;
use super::scan::ScanKey;

/// What goes on when the legs that it waits for are no longer in doubt.
#[derive(Debug)]
pub(super) enum Parked {
    /// A client's reads.
    Read(Address, Box<ReadRequest>),
    /// A scan that has read nothing yet.
    Scan(ScanKey),
    /// A committed read in a transaction, by leg and ticket of its wait.
    Operation(LegHandle, u64),
}

/// Names one that waits. Whoever has ended meanwhile is named no more: it is passed over.
pub(super) type ParkNumber = u64;

/// Legs in doubt and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Few at a time, in no order.
    legs: Vec<LegHandle>,
    /// Who waits, and for how many legs.
    parked: BTreeMap<ParkNumber, (u32, Parked)>,
    /// Who waits for a leg.
    behind: BTreeMap<LegHandle, Vec<ParkNumber>>,
    /// Go on at the end of the turn.
    woken: Vec<(ParkNumber, Parked)>,
    numbers: ParkNumber,
}

impl Doubts {
    /// Whether any leg is in doubt.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.legs.is_empty()
    }

    /// Others may show the leg's changes from now on.
    #[inline]
    pub(super) fn begin(&mut self, leg: LegHandle) {
        if !self.legs.contains(&leg) {
            self.legs.push(leg);
        }
    }

    /// The leg's changes are shown here, or undone.
    #[inline]
    pub(super) fn end(&mut self, leg: LegHandle) {
        let Some(at) = self.legs.iter().position(|other| *other == leg) else { return };
        self.legs.swap_remove(at);
        if !self.parked.is_empty() {
            self.wake(leg);
        }
    }

    /// Has those go on who waited for no other leg.
    fn wake(&mut self, leg: LegHandle) {
        for number in self.behind.remove(&leg).unwrap_or_default() {
            let (left, _) = self.parked.get_mut(&number).expect("it waits for the leg");
            *left -= 1;
            if *left == 0 {
                let (_, parked) = self.parked.remove(&number).expect("looked up above");
                self.woken.push((number, parked));
            }
        }
    }

    /// Has somebody wait for legs, of which there are some and each is in doubt.
    fn park(&mut self, parked: Parked, legs: &[LegHandle]) -> ParkNumber {
        self.numbers += 1;
        for leg in legs {
            self.behind.entry(*leg).or_default().push(self.numbers);
        }
        self.parked.insert(self.numbers, (legs.len() as u32, parked));
        self.numbers
    }

    /// Whether somebody is to go on in this turn.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Number of those that wait.
    pub(super) fn waiting(&self) -> usize {
        self.parked.len()
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self { numbers: self.numbers, ..Self::default() };
    }

    /// What holds between messages; `in_doubt` are the legs that are so by their state.
    pub(super) fn check(&self, in_doubt: &BTreeSet<LegHandle>) {
        let legs: BTreeSet<LegHandle> = self.legs.iter().copied().collect();
        assert_eq!((&legs, legs.len()), (in_doubt, self.legs.len()), "legs in doubt");
        assert!(self.woken.is_empty(), "who waits no more goes on in the same turn");
        let mut waits: BTreeMap<ParkNumber, u32> = BTreeMap::new();
        for (leg, numbers) in &self.behind {
            assert!(self.legs.contains(leg), "reads wait for a leg that is not in doubt");
            numbers.iter().for_each(|number| *waits.entry(*number).or_default() += 1);
        }
        let counts = self.parked.iter().map(|(number, (legs, _))| (*number, *legs));
        assert_eq!(waits, counts.collect(), "legs that reads wait for");
    }
}

impl Leg {
    /// Whether another replica may show the leg's changes, which this one does not show yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        match self.status {
            Status::Open => self.commits_in.is_some(),
            Status::Committed(_) => true,
            Status::Applied(_) => false,
        }
    }
}

/// Whether readers of its rows wait for a leg that is in doubt.
fn holds_readers(ctx: &Ctx<'_>, leg: &Leg) -> bool {
    let passed = match leg.status {
        Status::Open => Mutation::ReadsPassStagedCommits,
        Status::Committed(_) | Status::Applied(_) => Mutation::ReadsPassNotedCommits,
    };
    leg.is_in_doubt() && !ctx.mutated(passed)
}

impl Participant {
    /// Parks reads of which a row is in doubt; gives them back otherwise.
    pub(super) fn park_reads(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        request: Box<ReadRequest>,
    ) -> Option<Box<ReadRequest>> {
        if request.snapshot.is_some() {
            return Some(request);
        }
        let mut legs: Few<LegHandle> = Few::new();
        for read in &request.reads {
            let hash = key::local_hash(&read.key.0);
            let leg = self.doubt_on(ctx, read.partition, hash, &read.key.0);
            let leg = leg.filter(|leg| !self.show_early(ctx, *leg, read.partition, hash));
            legs.extend(leg.filter(|leg| !legs.contains(leg)));
        }
        if legs.is_empty() {
            return Some(request);
        }
        probe!(ctx, "participant: read waits for a row in doubt");
        ctx.count(Tally::ReadWait);
        self.doubts.park(Parked::Read(from, request), &legs);
        None
    }

    /// Whether so many reads wait that no more may.
    pub(super) fn has_room_to_wait(&self, ctx: &mut Ctx<'_>) -> Result<(), Refusal> {
        let limit = ctx.config().transactions_max;
        if self.doubts.waiting() < limit as usize {
            return Ok(());
        }
        probe!(ctx, "participant: limit of waiting reads reached");
        let detail = format!("{limit} reads wait for commits on {}", ctx.me());
        Err(Refusal::new(ErrorCode::TransactionLimit, detail))
    }

    /// Parks a scan that was just opened if rows in its range are in doubt.
    pub(super) fn park_scan(&mut self, ctx: &mut Ctx<'_>, key: ScanKey) -> Option<ParkNumber> {
        let legs: Few<LegHandle> = self
            .doubts
            .legs
            .iter()
            .copied()
            .filter(|handle| {
                let leg = self.legs.leg(*handle);
                holds_readers(ctx, leg) && self.is_in_range(leg, key)
            })
            .collect();
        if legs.is_empty() {
            return None;
        }
        probe!(ctx, "scan: waits for rows in doubt");
        ctx.count(Tally::ReadWait);
        Some(self.doubts.park(Parked::Scan(key), &legs))
    }

    /// Parks an operation that reads without a lock if its row is in doubt; gives it back
    /// otherwise.
    pub(super) fn park_operation(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        operation: &Operation,
        hash: u64,
    ) -> Option<ParkNumber> {
        let OperationKind::Read { key, lock: wire::LockMode::Committed, snapshot: None, .. } =
            &operation.kind
        else {
            return None;
        };
        let leg = self.doubt_on(ctx, operation.partition, hash, &key.0)?;
        if self.show_early(ctx, leg, operation.partition, hash) {
            return None;
        }
        probe!(ctx, "participant: read in a transaction waits for a row in doubt");
        ctx.count(Tally::ReadWait);
        let ticket = operation.number.0;
        Some(self.doubts.park(Parked::Operation(handle, ticket), &[leg]))
    }

    /// The leg that is in doubt about a row.
    fn doubt_on(
        &self,
        ctx: &Ctx<'_>,
        partition: PartitionId,
        hash: u64,
        key: &[u8],
    ) -> Option<LegHandle> {
        // A staged row is locked, by whatever key it is looked for and whether it is there or not.
        let holder = self.replicas.get(&partition)?.locks.exclusive_holder(LockKey(hash))?;
        let handle = LegHandle(holder.0);
        let leg = self.legs.get(handle).filter(|leg| holds_readers(ctx, leg))?;
        leg.rows.staged(partition, hash, key).map(|_| handle)
    }

    /// Lets those go on whose legs are in doubt no more.
    pub(super) fn resume_parked(&mut self, ctx: &mut Ctx<'_>) {
        for (number, parked) in std::mem::take(&mut self.doubts.woken) {
            match parked {
                Parked::Read(from, request) => {
                    let result = self.read_rows(ctx, &request);
                    super::read::answer(ctx, from, &request, result);
                }
                Parked::Scan(key) => self.resume_parked_scan(ctx, key, number),
                Parked::Operation(handle, ticket) => {
                    let Some(wait) = self.waits.remove_parked(handle, ticket, number) else {
                        continue;
                    };
                    self.go_on(ctx, handle, wait, Run::AfterDoubt);
                }
            }
        }
    }

    /// Whether a slot holds a row that is in doubt here; for the checks of the simulation.
    pub fn in_doubt(&self, partition: PartitionId, slot: model::RowId) -> bool {
        let claim = self.replicas.get(&partition).and_then(|replica| replica.claims.get(slot));
        claim.is_some_and(|handle| self.legs.leg(handle).is_in_doubt())
    }

    /// Reads that wait for legs in doubt.
    pub fn waiting_reads(&self) -> usize {
        self.doubts.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_several_legs_goes_on_after_the_last() {
        let mut doubts = Doubts::default();
        let legs = [LegHandle(3), LegHandle(8)];
        legs.iter().for_each(|leg| doubts.begin(*leg));
        let number = doubts.park(Parked::Operation(LegHandle(1), 7), &legs);
        doubts.end(LegHandle(5));
        doubts.end(LegHandle(8));
        assert!(!doubts.has_woken() && doubts.any());
        doubts.check(&[LegHandle(3)].into());
        doubts.end(LegHandle(3));
        assert!(doubts.has_woken() && !doubts.any());
        assert_eq!((doubts.waiting(), doubts.woken[0].0), (0, number));
    }
}
