//! Joins the rows of a worker's scans with rows of other tables, found by their keys.
//!
//! NDB calls this SPJ. A scan that is to be joined comes from a client by way of the participant
//! that has its partition. The joiner of the same worker has that participant scan the partition,
//! looks up for each batch what the plan says, wherever those rows are, and sends the client what
//! comes of it. Where a key has many rows, it scans an index for a batch of keys, as any client
//! does. Rows that come with the plan are looked for by hash.
//!
//! ```text
//!   client ──Open──► participant ──Open──► joiner        one round trip for the client,
//!     ▲                   ▲ ◄──Open, Next────┤ │         whatever is looked up
//!     │                   └──Batch──────────►│ │
//!     └──────Batch───────────────────────────┘ └─Read──► participants, as a rule of this node
//! ```
//!
//! # Owns
//! A record per joined scan of a partition: the batch under way, what is ready for the client; a
//! client of its own for the lookups.
//! # Guarantees
//! 1. The participant is asked for a batch when the last one has been joined, and the client is
//!    sent one when it asks: a slow client costs a bounded amount of memory.
//!    Of a lookup that finds many rows a batch of each partition is there at a time, and what comes
//!    of it is through all later lookups before the next is asked for.
//! 2. Lookups read as the scan does: the newest committed rows, or those of its snapshot.
//! # Failure
//! What fails the scan or a lookup ends the joined scan with that refusal, after the tries that a
//! client's read has; the loss of the client ends it without a word. What cannot be computed
//! exactly, and a plan that does not fit its tables, is refused with `NotPushed`: whoever asked
//! joins for itself.
//! # Not here
//! The join of rows that are there (`vector::LookupJoin`).

mod join;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use actor::{Actor, Ctx, Mutation, Shared, Timer, fault_point, probe};
use model::{
    ActorKind, Address, ClusterState, Epoch, ErrorCode, Incarnation, NodeId, PartitionId, Refusal,
};
use wire::{Continue, Message, ScanBatch, ScanId, ScanMessage, ScanRequest, ScanRows, ScanStatus};

use crate::client::{Client, ClientOptions};
use crate::event::{ClientEvent, ClientResult, SessionNumber, Token};
use crate::request::{ClientRead, ScanSpec};
use join::{Join, Next};

/// Keys that are looked up in one request.
const KEYS_MAX: usize = 128;

/// One joined scan of one partition.
type Key = (ScanId, PartitionId);

/// The actor that joins.
#[doc(alias = "DBSPJ")]
#[derive(Debug)]
pub struct Joiner {
    client: Client,
    session: Option<SessionNumber>,
    joins: BTreeMap<Key, Join>,
    /// Lookups under way, and for whom.
    lookups: BTreeMap<Token, Key>,
    /// Joins that go on when others have had a turn.
    queue: VecDeque<Key>,
    continuing: bool,
}

impl Joiner {
    /// A joiner without joins.
    pub fn new() -> Self {
        let options = ClientOptions { sessions_max: 1, follow: false, ..ClientOptions::default() };
        Self {
            client: Client::new(options),
            session: None,
            joins: BTreeMap::new(),
            lookups: BTreeMap::new(),
            queue: VecDeque::new(),
            continuing: false,
        }
    }

    fn handle_scan(&mut self, ctx: &mut Ctx<'_>, message: ScanMessage) {
        match message {
            ScanMessage::Open(request) => self.open(ctx, request),
            ScanMessage::Next { scan, partition } => match self.joins.get_mut(&(scan, partition)) {
                Some(join) => {
                    join.ask();
                    self.go_on(ctx, (scan, partition));
                }
                None => probe!(ctx, "joiner: next batch of an unknown scan"),
            },
            ScanMessage::Close { scan, partition } => self.close(ctx, (scan, partition)),
            ScanMessage::Batch(batch) => self.scanned(ctx, *batch),
        }
    }

    /// Begins to join a scan.
    fn open(&mut self, ctx: &mut Ctx<'_>, mut request: Box<ScanRequest>) {
        let key = (request.scan, request.partition);
        if self.joins.contains_key(&key) {
            probe!(ctx, "joiner: opened anew");
            self.close(ctx, key);
        }
        let reply_to = request.reply_to;
        let limit = ctx.config().scans_max as usize;
        let join = if self.joins.len() < limit {
            Join::new(ctx.cluster(), ctx.protocol(), &mut request)
        } else {
            let detail = format!("{limit} on {}", ctx.me());
            Err(Refusal::new(ErrorCode::ScanLimit, detail))
        };
        match join {
            Ok(join) => {
                self.joins.insert(key, join);
                request.reply_to = ctx.me();
                tell(ctx, ScanMessage::Open(request));
            }
            Err(refusal) => send(ctx, reply_to, failure(key.0, key.1, refusal)),
        }
    }

    /// Forgets a joined scan, without an answer.
    fn close(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let Some(join) = self.joins.remove(&key) else { return };
        for scan in join.scans() {
            self.client.scan_close(ctx, scan);
        }
        self.lookups.retain(|_, of| *of != key);
        if !join.is_scanned() {
            tell(ctx, ScanMessage::Close { scan: key.0, partition: key.1 });
        }
    }

    /// Ends a joined scan that cannot go on.
    fn fail(&mut self, ctx: &mut Ctx<'_>, key: Key, refusal: Refusal) {
        let Some(join) = self.joins.get(&key) else { return };
        send(ctx, join.reply_to(), failure(key.0, key.1, refusal));
        self.close(ctx, key);
    }

    /// The participant has scanned some rows.
    fn scanned(&mut self, ctx: &mut Ctx<'_>, batch: ScanBatch) {
        let key = (batch.scan, batch.partition);
        let Some(join) = self.joins.get_mut(&key) else {
            probe!(ctx, "joiner: batch of a join that is over");
            if batch.status == ScanStatus::More {
                tell(ctx, ScanMessage::Close { scan: key.0, partition: key.1 });
            }
            return;
        };
        match join.take(batch) {
            Ok(()) => self.go_on(ctx, key),
            Err(refusal) => self.fail(ctx, key, refusal),
        }
    }

    /// Does what can be done for a join until something has to be waited for.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        if let Some(join) = self.joins.get_mut(&key) {
            join.begin_turn();
        }
        loop {
            let Some(join) = self.joins.get_mut(&key) else { return };
            match join.next(ctx.cluster(), key) {
                Next::Wait => return,
                Next::Again => {
                    if !self.queue.contains(&key) {
                        self.queue.push_back(key);
                    }
                    return self.keep_joining(ctx);
                }
                Next::Scan => {
                    return tell(ctx, ScanMessage::Next { scan: key.0, partition: key.1 });
                }
                Next::LookUp { reads, snapshot } => {
                    fault_point!(ctx, "joiner: before a lookup");
                    self.look_up(ctx, key, reads, snapshot);
                }
                Next::Open(spec) => {
                    fault_point!(ctx, "joiner: before a scan for a lookup");
                    self.look_for(ctx, key, *spec);
                }
                Next::More(token) => self.client.scan_next(ctx, token),
                Next::Send { to, batch } => {
                    let finished = batch.status == ScanStatus::Finished;
                    send(ctx, to, batch);
                    if finished {
                        self.joins.remove(&key);
                    }
                }
                Next::Fail(refusal) => return self.fail(ctx, key, refusal),
            }
        }
    }

    /// Lets the joins that have had their turn go on, behind what else there is to do.
    fn keep_joining(&mut self, ctx: &mut Ctx<'_>) {
        if !self.queue.is_empty() && !self.continuing {
            self.continuing = true;
            ctx.send(ctx.me(), Message::Continue(Continue::Joins));
        }
    }

    /// It is the turn of the next join in the queue.
    fn continue_joins(&mut self, ctx: &mut Ctx<'_>) {
        self.continuing = false;
        if let Some(key) = self.queue.pop_front() {
            probe!(ctx, "joiner: goes on after others");
            self.go_on(ctx, key);
        }
        self.keep_joining(ctx);
    }

    /// The session of its own client.
    fn own_session(&mut self, ctx: &mut Ctx<'_>) -> SessionNumber {
        match self.session {
            Some(session) => session,
            None => {
                let Ok(session) = self.client.open_session(ctx) else {
                    panic!("a joiner has room for a session")
                };
                *self.session.insert(session)
            }
        }
    }

    /// Opens a scan for a lookup that finds many rows.
    fn look_for(&mut self, ctx: &mut Ctx<'_>, key: Key, spec: ScanSpec) {
        let session = self.own_session(ctx);
        let newest = ctx.mutated(Mutation::LookupsReadNewest);
        let snapshot = spec.snapshot.filter(|_| !newest);
        let token = self.client.scan(ctx, session, ScanSpec { snapshot, ..spec });
        self.lookups.insert(token, key);
        if let Some(join) = self.joins.get_mut(&key) {
            join.awaits(token);
        }
    }

    fn look_up(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        mut reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    ) {
        let session = self.own_session(ctx);
        let snapshot = snapshot.filter(|_| !ctx.mutated(Mutation::LookupsReadNewest));
        let most = KEYS_MAX.min(ctx.config().batch_max as usize).max(1);
        while !reads.is_empty() {
            let rest = reads.split_off(reads.len().min(most));
            let token = self.client.read(ctx, session, reads, snapshot);
            self.lookups.insert(token, key);
            if let Some(join) = self.joins.get_mut(&key) {
                join.awaits(token);
            }
            reads = rest;
        }
    }

    /// Whether a batch is of a scan for a lookup, now or before: of a session of its own client.
    fn is_of_lookup(&self, batch: &ScanBatch) -> bool {
        let own = self.session.and_then(|session| self.client.session_id(session));
        own == Some(batch.scan.session)
    }

    /// Takes what has come of lookups.
    fn drain(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(ClientEvent { token, result, .. }) = self.client.next_event() {
            let Some(key) = self.lookups.get(&token).copied() else { continue };
            if !matches!(result, ClientResult::ScanRows { finished: false, .. }) {
                self.lookups.remove(&token);
            }
            let Some(join) = self.joins.get_mut(&key) else { continue };
            match result {
                ClientResult::ScanRows { rows, .. } if !rows.is_empty() => {
                    let detail = "rows that cannot be computed with";
                    self.fail(ctx, key, Refusal::new(ErrorCode::NotPushed, detail));
                }
                ClientResult::ScanRows { blocks, traffic, finished, .. } => {
                    join.found_many(token, blocks, finished, traffic.examined);
                    self.go_on(ctx, key);
                }
                ClientResult::Read(rows) => match join.found(ctx.cluster(), token, rows) {
                    Ok(true) => self.go_on(ctx, key),
                    Ok(false) => {}
                    Err(refusal) => self.fail(ctx, key, refusal),
                },
                ClientResult::Failed(refusal) => {
                    probe!(ctx, "joiner: lookup failed");
                    self.fail(ctx, key, refusal);
                }
                other => panic!("a read ended in {other:?}"),
            }
        }
    }

    /// A process is gone: what was joined for it is.
    fn client_gone(&mut self, ctx: &mut Ctx<'_>, node: NodeId, incarnation: Incarnation) {
        let of_client =
            |key: &&Key| key.0.session.node == node && key.0.session.incarnation == incarnation;
        let gone: Vec<Key> = self.joins.keys().filter(of_client).copied().collect();
        for key in gone {
            probe!(ctx, "joiner: client lost");
            self.close(ctx, key);
        }
    }
}

impl Default for Joiner {
    fn default() -> Self {
        Self::new()
    }
}

impl Actor for Joiner {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if let Message::LinkDown { node, incarnation, .. } = message {
            self.client_gone(ctx, node, incarnation);
        }
        match message {
            Message::Scan(ScanMessage::Batch(batch)) if self.is_of_lookup(&batch) => {
                let message = Message::Scan(ScanMessage::Batch(batch));
                if self.client.handle(ctx, from, message).is_some() {
                    panic!("a client takes the batches of its scans");
                }
            }
            Message::Scan(message) => self.handle_scan(ctx, message),
            Message::Continue(Continue::Joins) => self.continue_joins(ctx),
            message => {
                if let Some(other) = self.client.handle(ctx, from, message) {
                    panic!("the joiner was sent {}", other.name());
                }
            }
        }
        self.drain(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::ClientTick => self.client.timeout(ctx),
            other => panic!("no timer of the joiner: {other:?}"),
        }
        self.drain(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.client.cluster_changed(ctx, before);
        self.drain(ctx);
    }

    fn check_invariants(&self, _shared: &Shared) {
        self.client.check_invariants();
        for key in self.lookups.values() {
            assert!(self.joins.contains_key(key), "a lookup for {key:?}, which is over");
        }
    }
}

/// Sends the participant of this worker a message.
fn tell(ctx: &mut Ctx<'_>, message: ScanMessage) {
    let participant = Address { actor: ActorKind::Participant, ..ctx.me() };
    ctx.send(participant, Message::Scan(message));
}

fn send(ctx: &mut Ctx<'_>, to: Address, batch: ScanBatch) {
    ctx.send(to, Message::Scan(ScanMessage::Batch(Box::new(batch))));
}

fn failure(scan: ScanId, partition: PartitionId, refusal: Refusal) -> ScanBatch {
    let status = ScanStatus::Failed(refusal);
    ScanBatch { scan, partition, rows: ScanRows::default(), status, blocks: vec![], examined: 0 }
}
