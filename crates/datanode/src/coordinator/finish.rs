//! Commit, complete and abort: from the commit point to the last answer.

use actor::{Ctx, Mutation, Tally, Timer, fault_point, probe};
use model::{Address, Epoch, ErrorClass, ErrorCode, Refusal, TransactionId};
use stdx::{Duration, Few};
use wire::{
    Chain, ClientReply, ClientRequest, LegId, Message, ParticipantMessage, PreparedOperation,
    TransactionState,
};

use super::state::{Batch, Leg, Phase, Record};
use super::{Coordinator, NO_EPOCH};

impl Coordinator {
    /// The client wants to commit.
    pub(super) fn commit_requested(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        request: u64,
    ) {
        let Some(record) = self.open_record(ctx, from, id, request) else { return };
        if record.batch.is_some() {
            let again = ClientRequest::Commit { transaction: id, request };
            return self.queue(ctx, id, again);
        }
        record.batch = Some(Batch::End { request, results: vec![] });
        self.decide(ctx, id);
    }

    /// The client wants to abort.
    pub(super) fn abort_requested(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        request: u64,
    ) {
        if self.open_record(ctx, from, id, request).is_some() {
            // What the client asked for is no error; the code only fills the reply.
            let refusal = Refusal::new(ErrorCode::UnknownTransaction, ON_REQUEST);
            self.abort_with(ctx, id, refusal, Some(request));
        }
    }

    /// The open record of a request; answers the client itself when there is none.
    fn open_record(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        transaction: TransactionId,
        request: u64,
    ) -> Option<&mut Record> {
        let open = self
            .records
            .get_mut(&transaction)
            .filter(|record| record.phase == Phase::Open && record.client == Some(from));
        if open.is_none() {
            let state = TransactionState::Aborted(ErrorCode::UnknownTransaction.into());
            let reply = ClientReply::Transaction { transaction, request, results: vec![], state };
            ctx.send(from, Message::Reply(reply));
            return None;
        }
        open
    }

    /// All operations are prepared: reaches the commit point, or waits for it.
    pub(super) fn decide(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that decides");
        record.commit_since.get_or_insert(ctx.now());
        // All answers are in. Backups do not know a leg whose changes were all refused: a commit of
        // it would be a decision that no takeover hears of.
        for leg in &mut record.legs {
            leg.replicated = leg.staged;
        }
        if !record.legs.iter().any(|leg| leg.replicated) {
            self.release_read_legs(ctx, id);
            return self.finished(ctx, id, TransactionState::Committed(NO_EPOCH));
        }
        if !ctx.may_serve() {
            probe!(ctx, "coordinator: lease ran out before the commit point");
            let refusal = Refusal::new(ErrorCode::NotServing, "the lease ran out");
            return self.abort_with(ctx, id, refusal, None);
        }
        if self.epochs.holds_back(ctx) {
            probe!(ctx, "coordinator: commit waits for an epoch switch");
            record.become_phase(Phase::Deciding);
            self.deciding.push_back(id);
            return;
        }
        let epoch = ctx.view().epochs.current;
        self.epochs.begin(epoch);
        record.become_phase(Phase::Committing(epoch));
        fault_point!(ctx, "coordinator: at the commit point");
        self.release_read_legs(ctx, id);
        self.drive_commit(ctx, id);
        self.epochs.end_quiet(ctx, epoch);
    }

    /// Goes on with the transactions that waited for an epoch.
    pub(super) fn decide_waiting(&mut self, ctx: &mut Ctx<'_>) {
        for id in std::mem::take(&mut self.deciding) {
            if let Some(record) = self.records.get_mut(&id)
                && record.phase == Phase::Deciding
            {
                // Back through the front door: the lease may have run out meanwhile.
                record.phase = Phase::Open;
                self.decide(ctx, id);
            }
        }
    }

    /// Gives up the locks of legs without changes: they have no part in the commit.
    fn release_read_legs(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that ends");
        for (at, leg) in record.legs.iter_mut().enumerate() {
            if !leg.replicated {
                send_abort(ctx, id, LegId(at as u16), leg);
                leg.pending = Chain::EMPTY;
                leg.committed = true;
            }
        }
    }

    /// Sends `Commit` for each leg whose primary has not applied.
    pub(super) fn drive_commit(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that commits");
        let Phase::Committing(epoch) = record.phase else {
            panic!("{id}: drives a commit in {:?}", record.phase);
        };
        let keep = record.legs.iter().filter(|leg| leg.replicated).count() > 1;
        for (at, leg) in record.legs.iter_mut().enumerate() {
            if leg.committed {
                continue;
            }
            leg.attempt += 1;
            let mut up = leg.chain;
            let Some(last) = up.pop() else {
                // The whole chain is dead: the cluster is stopping.
                leg.committed = true;
                continue;
            };
            let message = ParticipantMessage::Commit {
                transaction: id,
                leg: LegId(at as u16),
                epoch,
                up,
                keep,
                coordinator: ctx.me(),
                attempt: leg.attempt,
            };
            ctx.send(last, Message::Participant(message));
            fault_point!(ctx, "coordinator: after a commit is sent");
        }
        self.commit_moved(ctx, id);
    }

    /// A primary has applied its leg.
    pub(super) fn committed(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        leg: LegId,
        attempt: u32,
        results: Few<PreparedOperation>,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        match record.phase {
            Phase::Committing(_) => {}
            // Whichever question it answers.
            Phase::Delegated(_) => return self.one_phase_committed(ctx, id, results),
            _ => return,
        }
        let Some(leg) = record.leg_mut(leg).filter(|leg| leg.attempt == attempt) else { return };
        leg.committed = true;
        self.commit_moved(ctx, id);
    }

    /// When all primaries have applied, completes at the other replicas.
    fn commit_moved(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that commits");
        let Phase::Committing(epoch) = record.phase else { return };
        if !record.legs.iter().all(|leg| leg.committed) {
            if ctx.mutated(Mutation::AcknowledgeAtFirstPrimary) {
                self.tell_end(ctx, id, TransactionState::Committed(epoch));
            }
            return;
        }
        record.become_phase(Phase::Completing(epoch));
        fault_point!(ctx, "coordinator: all primaries have applied");
        let record = self.records.get_mut(&id).expect("a record that commits");
        let keep = record.legs.iter().filter(|leg| leg.replicated).count() > 1;
        for (at, leg) in record.legs.iter_mut().enumerate() {
            if !leg.replicated {
                continue;
            }
            leg.attempt += 1;
            let skip = usize::from(!keep);
            leg.pending = leg.chain.iter().skip(skip).copied().collect();
            for target in leg.pending.iter() {
                let message = ParticipantMessage::Complete {
                    transaction: id,
                    leg: LegId(at as u16),
                    attempt: leg.attempt,
                };
                ctx.send(*target, Message::Participant(message));
                fault_point!(ctx, "coordinator: after a complete is sent");
            }
        }
        self.end_moved(ctx, id);
    }

    /// A replica has completed or undone its part of a leg.
    pub(super) fn answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        leg: LegId,
        attempt: u32,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(leg) = record.leg_mut(leg).filter(|leg| leg.attempt == attempt) else { return };
        leg.pending.remove(from.node);
        self.end_moved(ctx, id);
    }

    /// Forgets the transaction when nothing is awaited any more.
    pub(super) fn end_moved(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let Some(record) = self.records.get(&id) else { return };
        if !record.legs.iter().all(|leg| leg.pending.is_empty()) {
            return;
        }
        match record.phase {
            Phase::Completing(epoch) => {
                self.finished(ctx, id, TransactionState::Committed(epoch));
            }
            Phase::Aborting => self.forget(ctx, id),
            Phase::Open | Phase::Delegated(_) | Phase::Deciding | Phase::Committing(_) => {}
        }
    }

    /// Aborts an undecided transaction and tells the client at once. One that was sent with its
    /// commit is aborted if that is not made.
    ///
    /// `request` is the request that is answered; without it, the one under way is, or the client
    /// is told unasked.
    pub(super) fn abort_with(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        refusal: Refusal,
        request: Option<u64>,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if matches!(record.phase, Phase::Delegated(_)) {
            record.given_up.get_or_insert(refusal);
            return;
        }
        if !record.phase.undecided() {
            return;
        }
        record.become_phase(Phase::Aborting);
        record.waits.clear();
        if let Some(request) = request {
            record.batch = Some(Batch::End { request, results: vec![] });
        }
        self.tell_end(ctx, id, TransactionState::Aborted(refusal));
        self.drive_abort(ctx, id);
    }

    /// Sends `Abort` for each leg.
    pub(super) fn drive_abort(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that aborts");
        for (at, leg) in record.legs.iter_mut().enumerate() {
            send_abort(ctx, id, LegId(at as u16), leg);
        }
        self.end_moved(ctx, id);
    }

    /// Tells the client the end of its transaction, once.
    fn tell_end(&mut self, ctx: &mut Ctx<'_>, id: TransactionId, state: TransactionState) {
        let record = self.records.get_mut(&id).expect("a record that ends");
        count_end(ctx, record, &state);
        let (request, results) = match record.batch.take() {
            Some(Batch::End { request, results }) => (request, results),
            Some(Batch::Execute { request, .. } | Batch::Rollback { request, .. }) => {
                (request, vec![])
            }
            None => (0, vec![]),
        };
        self.reply(ctx, id, request, results, state);
        if let Some(record) = self.records.get_mut(&id) {
            record.client = None;
        }
    }

    /// The transaction is over: tells the client and forgets it.
    pub(super) fn finished(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        state: TransactionState,
    ) {
        self.tell_end(ctx, id, state);
        self.forget(ctx, id);
    }

    /// Removes the record and what hangs on it.
    pub(super) fn forget(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.remove(&id).expect("a record that is over");
        if let Some(life) = record.taken_from {
            return self.takeover_settled(ctx, life);
        }
        let session = self.sessions.entry(id.session).or_default();
        session.ended = session.ended.max(id.number);
        if let Phase::Completing(epoch) = record.phase {
            self.epochs.end(ctx, epoch);
        }
    }

    /// Aborts transactions whose client has been silent for too long.
    pub(super) fn end_inactive(&mut self, ctx: &mut Ctx<'_>) {
        let timeout = ctx.config().inactive_timeout;
        let now = ctx.now();
        let idle = |r: &Record| r.phase == Phase::Open && r.batch.is_none();
        for id in self.records.ids(|r| idle(r) && now.since(r.last_active) >= timeout) {
            probe!(ctx, "coordinator: inactive transaction ended");
            let refusal = Refusal::new(ErrorCode::UnknownTransaction, "inactive for too long");
            self.abort_with(ctx, id, refusal, None);
        }
        self.tell_who_waits(ctx);
        if !self.records.is_empty() {
            self.arm_tick(ctx);
        }
    }

    /// Tells clients that wait for a long commit or rollback that it goes on: the end of a
    /// transaction of millions of rows takes longer than an answer may be late.
    fn tell_who_waits(&self, ctx: &mut Ctx<'_>) {
        let late = beat(ctx);
        let now = ctx.now();
        let at_work = |record: &Record| match (record.phase, &record.batch) {
            (Phase::Committing(_) | Phase::Completing(_), Some(Batch::End { .. })) => {
                record.commit_since.is_some_and(|since| now.since(since) >= late)
            }
            (Phase::Committing(_) | Phase::Completing(_), Some(Batch::Execute { .. })) => true,
            (Phase::Open, Some(Batch::Rollback { .. })) => true,
            _ => false,
        };
        for id in self.records.ids(|record| record.client.is_some() && at_work(record)) {
            probe!(ctx, "coordinator: a client is told that the end of its request goes on");
            let record = self.records.get(&id).expect("listed above");
            let request = match &record.batch {
                Some(Batch::End { request, .. } | Batch::Execute { request, .. }) => *request,
                Some(Batch::Rollback { request, .. }) => *request,
                None => continue,
            };
            let result = Ok(TransactionState::Open);
            let reply = ClientReply::Outcome { transaction: id, request, result };
            if let Some(client) = record.client {
                ctx.send(client, Message::Reply(reply));
            }
        }
    }

    /// Has the time-out of inactive transactions looked at again, and long ends.
    pub(super) fn arm_tick(&self, ctx: &mut Ctx<'_>) {
        let delay = ctx.config().inactive_timeout.divided_by(4).min(beat(ctx));
        ctx.set_timer(Timer::CoordinatorTick, delay);
    }
}

/// How often clients hear of what goes on: several times while they wait for one answer.
fn beat(ctx: &Ctx<'_>) -> Duration {
    ctx.config().request_timeout.divided_by(4)
}

/// Sends `Abort` down the chain of a leg, from its first live replica.
fn send_abort(ctx: &mut Ctx<'_>, transaction: TransactionId, at: LegId, leg: &mut Leg) {
    leg.attempt += 1;
    let reached = if leg.replicated { leg.chain.len() } else { leg.chain.len().min(1) };
    leg.pending = leg.chain[..reached].into();
    let Some((first, down)) = leg.pending.split_first() else { return };
    let message = ParticipantMessage::Abort {
        transaction,
        leg: at,
        down: down.into(),
        coordinator: ctx.me(),
        attempt: leg.attempt,
    };
    ctx.send(*first, Message::Participant(message));
    fault_point!(ctx, "coordinator: after an abort is sent");
}

/// Counts a transaction that ends.
fn count_end(ctx: &mut Ctx<'_>, record: &Record, state: &TransactionState) {
    let now = ctx.now();
    match state {
        TransactionState::Open => {}
        TransactionState::Committed(NO_EPOCH) => ctx.count(Tally::CommittedReading),
        TransactionState::Committed(_) => {
            ctx.count(Tally::Committed);
            if let Some(since) = record.commit_since {
                ctx.shared().tallies.commits.record(now.since(since));
            }
        }
        TransactionState::Aborted(refusal) => {
            ctx.count(Tally::Aborted);
            ctx.count(abort_tally(refusal));
            if refusal.code == ErrorCode::Deadlock {
                ctx.count(Tally::Deadlock);
            }
        }
    }
}

/// As what an abort is counted.
fn abort_tally(refusal: &Refusal) -> Tally {
    match refusal.code {
        ErrorCode::UnknownTransaction if refusal.detail == ON_REQUEST => Tally::AbortRequested,
        ErrorCode::UnknownTransaction => Tally::AbortUnknown,
        ErrorCode::Deadlock => Tally::AbortDeadlock,
        ErrorCode::NodeFailed => Tally::AbortNodeFailed,
        ErrorCode::NotServing | ErrorCode::ShuttingDown => Tally::AbortNotServing,
        ErrorCode::MembershipChanged => Tally::AbortMembershipChanged,
        code if code.class() == ErrorClass::Overload => Tally::AbortOverload,
        _ => Tally::AbortOther,
    }
}

/// What fills the reply to a client that wanted the abort.
const ON_REQUEST: &str = "aborted on request";

/// The epoch of a phase that has one.
pub(super) fn epoch_of(phase: Phase) -> Option<Epoch> {
    match phase {
        Phase::Delegated(epoch) | Phase::Committing(epoch) | Phase::Completing(epoch) => {
            Some(epoch)
        }
        Phase::Open | Phase::Deciding | Phase::Aborting => None,
    }
}
