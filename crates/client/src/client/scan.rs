//! Scans over all partitions of a table: opening, flow, and what is opened again.
//!
//! A scan of which the application has no row yet can be opened again after a loss. Of others,
//! those partitions are read elsewhere that have brought nothing yet; a loss in the middle of a
//! partition ends the scan with `ScanAborted`. There is no time-out: a filter may look at many rows
//! before one passes, and a node that is gone is reported by its link or by the cluster state. But
//! a link is reported to those who have sent something over it: in a transaction the coordinator
//! opens the scan, so the client asks a participant itself when its batch is late.

use std::collections::VecDeque;
use std::sync::Arc;

use actor::{Ctx, fault_point, probe};
use model::{
    ActorKind, Address, ClusterState, ErrorCode, OperationNumber, PartitionId, Refusal,
    TransactionId,
};
use stdx::Duration;
use vector::Block;
use wire::{
    ClientRequest, CoordinatorRef, LockMode, Message, ScanBatch, ScanId, ScanMessage, ScanRequest,
    ScanRows, ScanSource, ScanStatus,
};

use super::Client;
use super::call::{Call, Wake, Work, number_on_wire};
use super::encode::{self, Decoders, RowDecoder};
use super::merge::{Progress, Stream, Streams};
use super::route::{Life, life_of, says_not_serving};
use super::rows::ScannedRows;
use super::transaction::begin_elsewhere;
use crate::event::{ClientResult, SessionNumber, Token, Traffic};
use crate::request::{ScanRange, ScanSpec};

/// A scan under way.
#[derive(Debug)]
pub(super) struct ScanCall {
    spec: ScanSpec,
    opened: Option<Opened>,
    streams: Streams,
    unopened: VecDeque<PartitionId>,
    /// The application waits for rows.
    wanted: bool,
    /// Rows and blocks given to the application.
    delivered: u64,
    /// The transaction was begun by this scan.
    began: bool,
    /// What has come and has not been told.
    traffic: Traffic,
}

/// What all partitions of an opened scan share.
#[derive(Clone, Debug)]
struct Opened {
    table_version: u32,
    source: ScanSource,
    prefixes: Option<encode::Prefixes>,
    decoder: Arc<RowDecoder>,
    transaction: Option<(TransactionId, CoordinatorRef)>,
    /// Own changes up to here are seen, also in partitions that are opened later.
    seen_to: OperationNumber,
    batch_rows: Option<u32>,
}

impl ScanCall {
    /// Whose batches are awaited, now or when asked for.
    pub(super) fn awaited(&self) -> Vec<Life> {
        self.streams.unfinished().map(|(_, stream)| stream.life).collect()
    }

    pub(super) fn ends_with_transaction(&self) -> bool {
        self.spec.in_transaction
    }

    /// Tells the participants to forget the scan.
    pub(super) fn close_streams(&self, ctx: &mut Ctx<'_>, scan: ScanId) {
        for (partition, stream) in self.streams.unfinished() {
            let message = || Message::Scan(ScanMessage::Close { scan, partition });
            ctx.send(stream.source, message());
            // Until its first batch has come, the stream has the participant's address.
            if self.spec.join.is_some() && stream.source.actor == ActorKind::Participant {
                ctx.send(joiner_beside(stream.source), message());
            }
        }
    }

    /// Rows the application may still get.
    fn room(&self) -> u64 {
        self.spec.limit.map_or(u64::MAX, |limit| limit - self.delivered)
    }

    fn done(&self) -> bool {
        self.room() == 0 || (self.unopened.is_empty() && self.streams.exhausted())
    }
}

fn work(call: &mut Call) -> &mut ScanCall {
    match &mut call.work {
        Work::Scan(work) => work,
        other => panic!("a scan, not {other:?}"),
    }
}

impl Client {
    /// Scans a table. Rows come in `ScanRows` events: the first unasked, each further one after
    /// [`Client::scan_next`], the last one marked `finished`. Ends in `Failed` when refused, or
    /// with `ScanAborted` when a node was lost after rows had been given out. A scan in the
    /// transaction is refused while a transactional request is under way.
    pub fn scan(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, spec: ScanSpec) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if !admitted {
            return token;
        }
        let locks = spec.lock != LockMode::Committed;
        let ordered = matches!(spec.range, ScanRange::Index { order: Some(_), .. });
        let by_keys = matches!(spec.range, ScanRange::Keys { .. });
        let computes = by_keys && (spec.program.is_none() || spec.in_transaction)
            || spec.program.is_some() && (locks || ordered || spec.limit.is_some())
            || spec.join.is_some() && (spec.program.is_none() || spec.in_transaction);
        let doomed = self.session(session).and_then(|r| r.transaction.as_ref()?.doomed.clone());
        let holds = (locks || spec.guarded) && (!spec.in_transaction || spec.snapshot.is_some());
        if holds || computes {
            let refusal = Refusal::new(ErrorCode::BadRequest, "scan of contrary kinds");
            self.emit(session, token, ClientResult::Failed(refusal));
        } else if spec.in_transaction && self.session_mut(session).call.is_some() {
            let detail = "the session's last request is under way";
            let refusal = Refusal::new(ErrorCode::BadRequest, detail);
            self.emit(session, token, ClientResult::Failed(refusal));
        } else if let Some(refusal) = doomed.filter(|_| spec.in_transaction) {
            self.emit(session, token, ClientResult::Failed(refusal));
        } else {
            if spec.in_transaction {
                self.list_scan(session, token);
            }
            let scan = ScanCall {
                spec,
                opened: None,
                streams: Streams::default(),
                unopened: VecDeque::new(),
                wanted: true,
                delivered: 0,
                began: false,
                traffic: Traffic::default(),
            };
            self.open_scan(ctx, token, Call::new(session, Work::Scan(Box::new(scan))));
        }
        self.arm(ctx);
        token
    }

    /// Asks for more rows of a scan. Ignored when the scan has ended.
    pub fn scan_next(&mut self, ctx: &mut Ctx<'_>, token: Token) {
        if !matches!(self.calls.get(&token), Some(Call { work: Work::Scan(_), .. })) {
            return;
        }
        let mut call = self.take(token).expect("looked up above");
        work(&mut call).wanted = true;
        if work(&mut call).opened.is_some() {
            self.pump(ctx, token, call);
        } else {
            self.put_back(token, call);
        }
        self.arm(ctx);
    }

    /// Ends a scan early. No further event of it comes. Locks stay with the transaction.
    pub fn scan_close(&mut self, ctx: &mut Ctx<'_>, token: Token) {
        if !matches!(self.calls.get(&token), Some(Call { work: Work::Scan(_), .. })) {
            return;
        }
        let mut call = self.take(token).expect("looked up above");
        let scan = self.scan_id(call.session, token, call.attempt);
        work(&mut call).close_streams(ctx, scan);
        self.events.retain(|event| event.token != token);
        self.arm(ctx);
    }

    /// The scan's name on the wire in this attempt.
    pub(super) fn scan_id(&self, session: SessionNumber, token: Token, attempt: u16) -> ScanId {
        let session = self.session(session).expect("calls belong to open sessions").id;
        ScanId { session, number: model::ScanNumber(number_on_wire(token, attempt)) }
    }

    /// Opens a scan, for the first time or again.
    pub(super) fn open_scan(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = call.session;
        let cluster = ctx.cluster().clone();
        let (mut opened, partitions) =
            match plan(&cluster, &mut self.decoders, &work(&mut call).spec) {
                Ok(planned) => planned,
                Err(refusal) => return self.scan_failed(ctx, token, call, refusal),
            };
        if work(&mut call).spec.in_transaction {
            opened.seen_to = self.savepoint(session).0;
            let open = self.session_mut(session).transaction.as_ref();
            opened.transaction = open.map(|open| (open.id, open.coordinator));
            if opened.transaction.is_none() {
                let coordinator = match self.choose_coordinator(ctx, partitions.front().copied()) {
                    Ok(coordinator) => coordinator,
                    Err(refusal) => return self.scan_failed(ctx, token, call, refusal),
                };
                let transaction = self.begin_transaction(session, coordinator);
                opened.transaction = Some((transaction, coordinator));
                work(&mut call).began = true;
            }
        }
        let scan = work(&mut call);
        let order = match &scan.spec.range {
            ScanRange::Heap | ScanRange::Keys { .. } => None,
            ScanRange::Index { order, .. } => *order,
        };
        scan.streams = Streams::new(order);
        scan.unopened = partitions;
        scan.opened = Some(opened);
        self.pump(ctx, token, call);
    }

    /// Opens as many streams as may be open at a time.
    fn open_streams(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        call: &mut Call,
    ) -> Result<(), Refusal> {
        if work(call).unopened.is_empty() {
            return Ok(());
        }
        let id = self.scan_id(call.session, token, call.attempt);
        let preference = call.session.0.wrapping_add(call.retries);
        let lock_wait = self.session(call.session).and_then(|record| record.lock_wait);
        let scan = work(call);
        let opened = scan.opened.as_ref().expect("an opened scan");
        let at_once = if scan.streams.ordered() {
            usize::MAX
        } else {
            self.options.scan_partitions_max as usize
        };
        while scan.streams.busy() < at_once
            && let Some(partition) = scan.unopened.pop_front()
        {
            let reader = match opened.transaction {
                Some(_) => primary_of(ctx.cluster(), partition),
                None => self.choose_reader(ctx, partition, preference),
            };
            let (source, life) =
                reader.ok_or_else(|| Refusal::new(ErrorCode::NotServing, partition.to_string()))?;
            let request = Box::new(request(ctx, &scan.spec, lock_wait, opened, id, partition));
            match opened.transaction {
                Some((transaction, coordinator)) => {
                    let message =
                        ClientRequest::Scan { transaction, scan: request, seen_to: opened.seen_to };
                    ctx.send(coordinator.address, Message::Request(message));
                }
                None => ctx.send(source, Message::Scan(ScanMessage::Open(request))),
            }
            fault_point!(ctx, "client: between the partitions of a scan");
            scan.streams.open(partition, source, life);
        }
        Ok(())
    }

    /// Gives out rows if wanted, and asks for more.
    fn pump(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        if let Err(refusal) = self.open_streams(ctx, token, &mut call) {
            return self.scan_failed(ctx, token, call, refusal);
        }
        let session = call.session;
        let id = self.scan_id(session, token, call.attempt);
        let scan = work(&mut call);
        if scan.wanted {
            let rows = scan.streams.take_ready(scan.room());
            let blocks = scan.streams.take_blocks();
            let count = rows.len();
            scan.delivered += (count + blocks.len()) as u64;
            let finished = scan.done();
            let decoder = &scan.opened.as_ref().expect("an opened scan").decoder;
            let rows = match ScannedRows::stored(decoder, ctx.cluster(), rows) {
                Ok(rows) => rows,
                Err(refusal) => return self.scan_failed(ctx, token, call, refusal),
            };
            let some = count > 0 || !blocks.is_empty();
            let told = scan.spec.in_transaction && (finished || some);
            if told && let Some(open) = self.session_mut(session).transaction.as_mut() {
                open.answered = true;
            }
            let scan = work(&mut call);
            if finished {
                scan.close_streams(ctx, id);
                let traffic = std::mem::take(&mut scan.traffic);
                let result = ClientResult::ScanRows { rows, blocks, traffic, finished };
                return self.finish(token, session, result);
            }
            if some {
                scan.wanted = false;
                let traffic = std::mem::take(&mut scan.traffic);
                let result = ClientResult::ScanRows { rows, blocks, traffic, finished };
                self.emit(session, token, result);
            }
        }
        // The next batches of a scan that takes no locks are fetched while the application works.
        let scan = work(&mut call);
        if scan.wanted || scan.spec.lock == LockMode::Committed {
            for (partition, source) in scan.streams.ask_empty() {
                let message = ScanMessage::Next { scan: id, partition };
                ctx.send(source, Message::Scan(message));
            }
        }
        if scan.opened_in_transaction() && scan.streams.asked().next().is_some() {
            self.put_late(ctx, token, call);
        } else {
            self.put(token, call);
        }
    }

    fn put_late(&mut self, ctx: &Ctx<'_>, token: Token, call: Call) {
        let due = ctx.now() + ctx.config().request_timeout;
        self.put_until(token, call, Wake::Late, due);
    }

    /// No batch has come for a while. Whoever has not got the scan, or could not reach this client
    /// and has closed it, says so; whoever is at work goes on.
    pub(super) fn scan_late(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        probe!(ctx, "client: batch of a scan is late");
        let scan = self.scan_id(call.session, token, call.attempt);
        for (partition, source) in work(&mut call).streams.asked() {
            ctx.send(source, Message::Scan(ScanMessage::Next { scan, partition }));
        }
        self.put_late(ctx, token, call);
    }

    /// Takes a batch.
    pub(super) fn scan_batch(&mut self, ctx: &mut Ctx<'_>, from: Address, batch: ScanBatch) {
        let ScanBatch { scan: id, partition, rows, blocks, status, examined } = batch;
        let session = self.session_named(id.session);
        let call = session.and_then(|session| self.take_numbered(id.number.0, session));
        let Some((token, mut call)) = call else {
            if status == ScanStatus::More {
                probe!(ctx, "client: batch of a scan that is over");
                let message = ScanMessage::Close { scan: id, partition };
                ctx.send(from, Message::Scan(message));
            }
            return;
        };
        let scan = work(&mut call);
        let transactional = scan.opened_in_transaction();
        let joins = scan.spec.join.is_some();
        let stream = scan.streams.stream_mut(partition);
        // The coordinator of a transaction knows who is primary; others are asked by this client.
        let is_beside = |source| joins && joiner_beside(source) == from;
        let expected = |stream: &&mut Stream| {
            transactional || stream.source == from || is_beside(stream.source)
        };
        let open = |stream: &&mut Stream| stream.progress != Progress::Finished;
        let Some(stream) = stream.filter(open).filter(expected) else {
            return self.put_back(token, call);
        };
        if let ScanStatus::Failed(refusal) = status {
            stream.progress = Progress::Finished;
            self.avoid_refuser(ctx, from, &refusal);
            if says_not_serving(&refusal) {
                return self.read_elsewhere(ctx, token, call, &[partition], refusal);
            }
            return self.scan_failed(ctx, token, call, refusal);
        }
        if joins && from.actor != ActorKind::Joiner {
            probe!(ctx, "client: data node without joins");
            let refusal = Refusal::new(ErrorCode::OlderNode, from.node.to_string());
            return self.scan_failed(ctx, token, call, refusal);
        }
        stream.source = from;
        let more = status == ScanStatus::More;
        let progress = if more { Progress::More } else { Progress::Finished };
        scan.traffic.add(traffic(&rows, &blocks, examined));
        scan.streams.push(partition, rows, blocks, progress);
        self.pump(ctx, token, call);
    }

    /// A node is lost that the scan was reading from.
    pub(super) fn scan_lost(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        lost: Life,
    ) {
        let scan = work(&mut call);
        let of_lost = scan.streams.unfinished().filter(|(_, stream)| stream.life.ends_with(lost));
        let partitions: Vec<PartitionId> = of_lost.map(|(partition, _)| partition).collect();
        self.read_elsewhere(ctx, token, call, &partitions, ErrorCode::ScanAborted.into());
    }

    /// Reads partitions at other replicas that can bring no more, if they have brought nothing.
    fn read_elsewhere(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        partitions: &[PartitionId],
        refusal: Refusal,
    ) {
        let again = self.may_retry(ctx, &call);
        let scan = work(&mut call);
        // Before the first row all of it is opened again, after a while.
        let some = scan.delivered > 0 && !scan.opened_in_transaction() && again;
        if !some || !scan.streams.take_lost(partitions) {
            return self.scan_failed(ctx, token, call, refusal);
        }
        probe!(ctx, "client: part of a scan is read elsewhere");
        scan.unopened.extend(partitions.iter().copied());
        call.note_retry(ctx.now());
        self.pump(ctx, token, call);
    }

    /// A stream cannot go on: the scan is opened again, or ends.
    fn scan_failed(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call, refusal: Refusal) {
        let session = call.session;
        let id = self.scan_id(session, token, call.attempt);
        let scan = work(&mut call);
        scan.close_streams(ctx, id);
        let again = scan.delivered == 0 && open_again(ctx.cluster(), &scan.spec, refusal.code);
        let (began, transactional) = (scan.began, scan.opened_in_transaction());
        if !again || !self.may_retry(ctx, &call) {
            return self.finish(token, session, ClientResult::Failed(refusal));
        }
        if transactional {
            let record = self.session_mut(session);
            let fresh = record.call.is_none()
                && record.transaction.as_ref().is_some_and(|open| !open.answered);
            if began && fresh {
                self.abandon_transaction(ctx, session);
            } else if !matches!(
                refusal.code,
                ErrorCode::StaleRoute
                    | ErrorCode::SchemaChanged
                    | ErrorCode::ScanLimit
                    | ErrorCode::UnknownIndex
            ) {
                return self.finish(token, session, ClientResult::Failed(refusal));
            }
        }
        probe!(ctx, "client: scan opened again");
        self.put_reopen(ctx, token, call);
    }

    fn put_reopen(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let scan = work(&mut call);
        scan.opened = None;
        scan.streams = Streams::default();
        scan.unopened.clear();
        scan.began = false;
        self.put_retry(ctx, token, call);
    }

    fn scans_in_transaction(&self, session: SessionNumber) -> Vec<Token> {
        let listed = self.session(session).map_or(&[][..], |session| &session.scans);
        let open = |token: &&Token| self.calls.get(token).is_some_and(Call::is_scan_in_transaction);
        listed.iter().filter(open).copied().collect()
    }

    /// Has the end of the session's transaction find a scan. Those that have ended go, so the list
    /// is as long as scans were open at once.
    fn list_scan(&mut self, session: SessionNumber, token: Token) {
        let mut scans = std::mem::take(&mut self.session_mut(session).scans);
        scans.retain(|listed| self.calls.contains_key(listed));
        scans.push(token);
        self.session_mut(session).scans = scans;
    }

    /// The transaction is over that a scan has begun and that has answered nothing: opens the scan
    /// again in a new one, if that is all there is to it.
    pub(super) fn restart_first_scan(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        refusal: &Refusal,
    ) -> bool {
        let [token] = self.scans_in_transaction(session)[..] else { return false };
        let call = self.calls.get_mut(&token).expect("listed above");
        let fresh = work(call).began && work(call).delivered == 0;
        let call = self.calls.get(&token).expect("listed above");
        if !fresh || !begin_elsewhere(refusal.code) || !self.may_retry(ctx, call) {
            return false;
        }
        probe!(ctx, "client: scan begins its transaction anew");
        let mut call = self.take(token).expect("listed above");
        let id = self.scan_id(session, token, call.attempt);
        work(&mut call).close_streams(ctx, id);
        self.end_transaction(ctx, session);
        self.put_reopen(ctx, token, call);
        true
    }

    /// Ends the scans of a session's transaction. The participants forget with it only those that
    /// take locks.
    pub(super) fn fail_scans_of(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        refusal: &Refusal,
    ) {
        for token in self.scans_in_transaction(session) {
            let mut call = self.take(token).expect("listed above");
            let id = self.scan_id(session, token, call.attempt);
            work(&mut call).close_streams(ctx, id);
            self.finish(token, session, ClientResult::Failed(refusal.clone()));
        }
    }
}

impl ScanCall {
    fn opened_in_transaction(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.transaction.is_some())
    }
}

/// Checks and encodes a scan.
fn plan(
    cluster: &ClusterState,
    decoders: &mut Decoders,
    spec: &ScanSpec,
) -> Result<(Opened, VecDeque<PartitionId>), Refusal> {
    let table = encode::table_of(cluster, spec.table)?;
    encode::check_filter(table, spec.filter.as_ref())?;
    let partitions = encode::scan_partitions(cluster, table, spec.partition_keys.as_deref())?;
    let ordered = matches!(spec.range, ScanRange::Index { order: Some(_), .. });
    let opened = Opened {
        table_version: table.version,
        source: encode::scan_source(table, &spec.range)?,
        prefixes: encode::scan_prefixes(table, &spec.range)?,
        decoder: RowDecoder::of(decoders, table, &spec.projection)?,
        transaction: None,
        seen_to: OperationNumber(0),
        batch_rows: spec.limit.filter(|_| ordered).map(|limit| share(limit, partitions.len())),
    };
    Ok((opened, partitions.into()))
}

/// Rows of the first batch when so many are wanted of so many partitions, merged by their order: a
/// part for each and some more, as rows are not spread evenly. Whoever brings too few is asked
/// again.
///
/// Of rows that are spread by the hash of their keys a partition has the mean, give or take its
/// square root. Over few partitions one and a half of that above the mean is asked for: every other
/// statement then needs another batch of some partition, a small one. With twice the root and one
/// more hardly any does, but as many rows are sent for nothing as are wanted, and wide ones cost
/// more than being asked again. Of many partitions some one nearly always has more than that.
fn share(limit: u64, partitions: usize) -> u32 {
    let partitions = partitions.max(1) as u64;
    let even = limit.div_ceil(partitions);
    // One more at least: who knows of no row behind those that are taken is asked for it.
    let more = if partitions <= FEW_PARTITIONS {
        (limit.saturating_mul(9) / (4 * partitions)).isqrt().max(1)
    } else {
        2 * even.isqrt() + 1
    };
    u32::try_from(even.saturating_add(more).min(limit)).unwrap_or(u32::MAX)
}

/// So many partitions rarely have one among them with far more rows than the mean.
const FEW_PARTITIONS: u64 = 8;

/// What a batch is counted as.
fn traffic(rows: &ScanRows, blocks: &[Block], examined: u64) -> Traffic {
    let of_blocks: usize = blocks.iter().map(Block::memory_bytes).sum();
    let count = rows.len() + blocks.iter().map(Block::rows).sum::<usize>();
    Traffic { rows: count as u64, bytes: (rows.size() + of_blocks) as u64, examined, messages: 1 }
}

/// The request for one partition.
fn request(
    ctx: &Ctx<'_>,
    spec: &ScanSpec,
    lock_wait: Option<Duration>,
    opened: &Opened,
    scan: ScanId,
    partition: PartitionId,
) -> ScanRequest {
    ScanRequest {
        scan,
        partition,
        table_version: opened.table_version,
        reply_to: ctx.me(),
        transaction: None,
        snapshot: spec.snapshot,
        source: opened.source.clone(),
        filter: spec.filter.clone(),
        projection: spec.projection.clone(),
        keys: matches!(spec.range, ScanRange::Index { order: Some(_), .. }),
        lock: spec.lock,
        wait: spec.wait,
        lock_wait,
        settled: spec.settled,
        guarded: spec.guarded,
        limit: spec.limit,
        chain: wire::Chain::EMPTY,
        program: spec.program.clone(),
        join: spec.join.clone(),
        batch_rows: opened.batch_rows,
        prefixes: opened.prefixes.clone(),
    }
}

/// The joiner of a participant's worker.
fn joiner_beside(participant: Address) -> Address {
    Address { actor: ActorKind::Joiner, ..participant }
}

fn primary_of(cluster: &ClusterState, partition: PartitionId) -> Option<(Address, Life)> {
    let address = cluster.primary(partition)?;
    assert_eq!(address.actor, ActorKind::Participant, "primaries are participants");
    Some((address, life_of(cluster, address.node)?))
}

/// Refusals after which a scan that has given nothing out is opened again.
fn open_again(cluster: &ClusterState, spec: &ScanSpec, code: ErrorCode) -> bool {
    match code {
        // Another replica, or this one in a moment, has built the index.
        ErrorCode::UnknownIndex => match (&spec.range, cluster.tables.get(&spec.table)) {
            (ScanRange::Index { index, .. } | ScanRange::Keys { index, .. }, Some(table)) => {
                table.ordered_index(*index).is_some()
            }
            _ => false,
        },
        ErrorCode::ScanAborted | ErrorCode::ScanLimit => true,
        code => begin_elsewhere(code),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_a_part_of_the_rows_and_some_more() {
        assert_eq!([share(50, 1), share(50, 4), share(50, 8), share(50, 64)], [50, 18, 10, 4]);
        assert_eq!([share(1, 4), share(2, 4), share(3, 4)], [1, 2, 2]);
        assert_eq!([share(0, 4), share(7, 0), share(u64::MAX, 1)], [0, 7, u32::MAX]);
    }
}
