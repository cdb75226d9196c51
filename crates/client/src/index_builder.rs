//! Fills new unique indexes with the entries of the rows that were there before, and waits for the
//! replicas to have filled new ordered indexes.
//!
//! NDB calls this TRIX. Active on the driver only; a new driver begins from the start.
//!
//! # Owns
//! The build under way, one index at a time, in the order of tables and indexes.
//! # How
//! From the moment an index is in state `Building`, coordinators keep its entries along with each
//! change of a row. A snapshot is opened first and let go at once: when it is there, every
//! transaction that committed without knowing of the index is complete on all replicas, so the
//! scan that follows finds its rows. For each row found, a transaction locks the row, reads it
//! again and adds its entry. An entry that exists already either is the row's own, or a second row
//! has the same key: then the index cannot be unique and is dropped. Where nodes have disks, the
//! index is set online when all entries are on them: a restart of the whole cluster must not find
//! an index online whose entries were lost. A restart that goes back further, by order of an
//! operator, sets the index to `Building` again.
//!
//! The tree of an ordered index is built by each replica for itself. Every worker is asked which of
//! its indexes are not ready, again and again, until all workers of all members have answered that
//! this one is. A replica that is made later has the index from its first row on.
//! # Invariants
//! 1. Entries are only added for rows that are share-locked by the same transaction.
//! 2. `SetIndexOnline` of a unique index is proposed only after a scan that has seen every
//!    partition to its end, and when the entries are as durable as the proposal.
//! 3. That of an ordered index is proposed only when no worker of a member lacks it.
//! # Failure
//! A lost scan begins the build anew, a lost transaction is run again; entries that were added
//! stay, and are found to be the row's own. A build for which there is no memory is tried for ever;
//! dropping the index ends it.
//! # Not here
//! Keeping entries up with changes (`coordinator`), the catalog (`control`).

mod batch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use actor::{Actor, Ctx, Shared, Timer, fault_point, probe};
use model::{
    ActorKind, Address, ClusterState, ColumnId, Command, Epoch, IndexId, IndexState, NodeRole,
    SchemaChange, Table, TableId, UniqueIndexDef, Value, WorkerId,
};
use stdx::Duration;
use wire::{ControlMessage, Inspection, Message, Projection};

use crate::client::{Client, ClientOptions};
use crate::event::{ClientEvent, ClientResult, Inspected, SessionNumber, Token};
use crate::request::ScanSpec;
use batch::Batch;

/// The actor that brings new indexes online.
#[doc(alias = "TRIX")]
#[derive(Debug)]
pub struct IndexBuilder {
    client: Client,
    job: Option<Job>,
    /// Proposals made in this life: their numbers.
    proposals: u64,
    /// Unique indexes that are being built, in the newest state.
    building: BTreeSet<(TableId, IndexId)>,
}

/// The build of one index.
#[derive(Debug)]
struct Job {
    table: TableId,
    index: IndexId,
    /// Runs the snapshot and the scan.
    reader: SessionNumber,
    /// Runs the transactions.
    writer: SessionNumber,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Waits for earlier transactions to be complete.
    Waiting(Token),
    /// Scans and adds entries.
    Filling(Filling),
    /// All entries are there, some perhaps added in an earlier life; waits for a snapshot that has
    /// them.
    Filled(Token),
    /// Waits for that snapshot to be on disk.
    Saving(Token, Epoch),
    /// Has asked the workers whether their replicas have the ordered index, or is about to.
    Asking(Option<Token>),
    /// Waits for the state that shows the index online, or gone.
    Proposed(Arc<Command>),
}

/// How far the filling is.
#[derive(Debug)]
struct Filling {
    scan: Token,
    /// The scan has no more rows.
    scanned: bool,
    /// Rows to look at, by primary key.
    keys: VecDeque<Vec<Value>>,
    batch: Batch,
    /// Rows per transaction: few after a failure, so that somebody gets on.
    batch_rows: usize,
}

/// Rows per transaction when all goes well.
const BATCH_ROWS_MAX: usize = 16;
/// Time before something that failed is tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// Time before a proposal is made again.
const PROPOSE_AGAIN: Duration = Duration::from_secs(2);

impl Default for IndexBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl IndexBuilder {
    /// A builder that waits for the first index to build.
    pub fn new() -> Self {
        let options = ClientOptions { sessions_max: 2, follow: false, ..ClientOptions::default() };
        Self { client: Client::new(options), job: None, proposals: 0, building: BTreeSet::new() }
    }

    /// The index being built here, if any.
    pub fn building(&self) -> Option<(TableId, IndexId)> {
        self.job.as_ref().map(|job| (job.table, job.index))
    }

    /// Ends a job that is not this node's any more, and takes up the next one.
    fn review(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster().clone();
        let mine = cluster.started && !cluster.stopped && cluster.driver() == Some(ctx.node());
        if let Some(job) = &self.job {
            let table = cluster.tables.get(&job.table);
            let building =
                table.is_some_and(|table| builds(table).any(|(_, index)| index == job.index));
            if mine && building {
                return;
            }
            self.end_job(ctx);
        }
        let wanted = self.building.first().copied().filter(|_| mine);
        let Some((table, index)) = wanted else { return };
        let opened = (self.client.open_session(ctx), self.client.open_session(ctx));
        let (Ok(reader), Ok(writer)) = opened else {
            panic!("a builder has room for two sessions")
        };
        let ordered = cluster.tables[&table].ordered_index(index).is_some();
        let stage = if ordered {
            Stage::Asking(Some(self.client.inspect(ctx, reader, Inspection::IndexBuilds, None)))
        } else {
            Stage::Waiting(self.client.open_snapshot(ctx, reader))
        };
        self.job = Some(Job { table, index, reader, writer, stage });
    }

    /// Notes what a newer state says of indexes that are being built.
    fn note_builds(&mut self, ctx: &Ctx<'_>, before: &ClusterState) {
        for change in ctx.cluster().table_changes(before) {
            for build in change.before.into_iter().flat_map(|table| builds(table)) {
                self.building.remove(&build);
            }
            self.building.extend(change.after.into_iter().flat_map(|table| builds(table)));
        }
    }

    fn end_job(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(job) = self.job.take() {
            self.client.close_session(ctx, job.reader);
            self.client.close_session(ctx, job.writer);
            ctx.stop_timer(Timer::BuilderTick);
        }
    }

    /// Begins the build from the start after a moment.
    fn begin_later(&mut self, ctx: &mut Ctx<'_>) {
        self.end_job(ctx);
        ctx.set_timer(Timer::BuilderTick, PAUSE);
    }

    /// Takes what has come of the client's requests.
    fn drain(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.client.next_event() {
            self.take(ctx, event);
        }
    }

    fn take(&mut self, ctx: &mut Ctx<'_>, event: ClientEvent) {
        let Some(job) = &mut self.job else { return };
        let token = event.token;
        match &mut job.stage {
            Stage::Waiting(waiting) if *waiting == token => match event.result {
                ClientResult::SnapshotOpened(epoch) => {
                    self.client.close_snapshot(ctx, job.reader, epoch);
                    self.start_filling(ctx);
                }
                _ => self.begin_later(ctx),
            },
            Stage::Filling(filling) if filling.scan == token => match event.result {
                ClientResult::ScanRows { rows, finished, .. } => {
                    filling.keys.extend(rows.into_values());
                    filling.scanned = finished;
                    self.fill(ctx);
                }
                _ => {
                    probe!(ctx, "builder: scan lost");
                    self.begin_later(ctx);
                }
            },
            Stage::Filling(filling) if filling.batch.awaits(token) => {
                self.batch_moved(ctx, event.result);
            }
            Stage::Filled(waiting) if *waiting == token => match event.result {
                ClientResult::SnapshotOpened(epoch) => {
                    self.client.close_snapshot(ctx, job.reader, epoch);
                    let saved = self.client.await_durable(ctx, job.reader, epoch, false);
                    job.stage = Stage::Saving(saved, epoch);
                }
                _ => self.begin_later(ctx),
            },
            Stage::Saving(waiting, complete) if *waiting == token => {
                let complete = *complete;
                match event.result {
                    ClientResult::Durable(_) => self.propose_online(ctx, complete),
                    _ => self.begin_later(ctx),
                }
            }
            Stage::Asking(Some(asked)) if *asked == token => {
                let (table, index) = (job.table, job.index);
                match event.result {
                    ClientResult::Inspected(answers)
                        if is_built(ctx.cluster(), &answers, table, index) =>
                    {
                        self.propose_online(ctx, Epoch(0));
                    }
                    _ => {
                        job.stage = Stage::Asking(None);
                        ctx.set_timer(Timer::BuilderTick, PAUSE);
                    }
                }
            }
            Stage::Waiting(_)
            | Stage::Filling(_)
            | Stage::Filled(_)
            | Stage::Saving(..)
            | Stage::Asking(_)
            | Stage::Proposed(_) => {}
        }
    }

    /// Scans the base table for the primary keys of all rows.
    fn start_filling(&mut self, ctx: &mut Ctx<'_>) {
        let cluster = ctx.cluster().clone();
        let job = self.job.as_mut().expect("a job that goes on");
        let Some((table, ..)) = find(&cluster, job.table, job.index) else { return };
        let projection = Projection::Columns(table.primary_key.clone());
        let spec = ScanSpec { projection, ..ScanSpec::heap(job.table) };
        job.stage = Stage::Filling(Filling {
            scan: self.client.scan(ctx, job.reader, spec),
            scanned: false,
            keys: VecDeque::new(),
            batch: Batch::Idle,
            batch_rows: BATCH_ROWS_MAX,
        });
    }

    /// Goes on with the next rows, asks for more, or is done.
    fn fill(&mut self, ctx: &mut Ctx<'_>) {
        let Some(job) = &mut self.job else { return };
        let Stage::Filling(filling) = &mut job.stage else { return };
        if !filling.batch.idle() {
            return;
        }
        if !filling.keys.is_empty() {
            return self.start_batch(ctx);
        }
        if !filling.scanned {
            return self.client.scan_next(ctx, filling.scan);
        }
        if ctx.config().disk {
            job.stage = Stage::Filled(self.client.open_snapshot(ctx, job.reader));
        } else {
            self.propose_online(ctx, Epoch(0));
        }
    }

    /// All rows are in since an epoch.
    fn propose_online(&mut self, ctx: &mut Ctx<'_>, complete: Epoch) {
        let job = self.job.as_ref().expect("a job that goes on");
        let (table, index) = (job.table, job.index);
        fault_point!(ctx, "builder: before an index is proposed online");
        self.propose(ctx, SchemaChange::SetIndexOnline { table, index, complete });
    }

    /// Two rows have the same key.
    fn violated(&mut self, ctx: &mut Ctx<'_>) {
        probe!(ctx, "builder: two rows with the same unique key");
        let job = self.job.as_ref().expect("a job that goes on");
        let (table, index, writer) = (job.table, job.index, job.writer);
        self.client.abort(ctx, writer);
        self.propose(ctx, SchemaChange::DropIndex { table, index });
    }

    fn propose(&mut self, ctx: &mut Ctx<'_>, change: SchemaChange) {
        self.proposals += 1;
        let job = self.job.as_mut().expect("a job that goes on");
        let session = self.client.session_id(job.writer).expect("an open session");
        let number = self.proposals;
        let command = Arc::new(Command::Schema { session, number, change });
        job.stage = Stage::Proposed(command.clone());
        send_proposal(ctx, command);
    }

    /// The time of `Timer::BuilderTick` has come.
    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let Some(job) = &mut self.job else { return self.review(ctx) };
        match &mut job.stage {
            Stage::Filling(filling) if filling.batch.idle() => self.fill(ctx),
            Stage::Proposed(command) => {
                let command = command.clone();
                send_proposal(ctx, command);
            }
            Stage::Asking(None) => {
                let asked = self.client.inspect(ctx, job.reader, Inspection::IndexBuilds, None);
                job.stage = Stage::Asking(Some(asked));
            }
            Stage::Waiting(_)
            | Stage::Filling(_)
            | Stage::Filled(_)
            | Stage::Saving(..)
            | Stage::Asking(Some(_)) => {}
        }
    }
}

impl Actor for IndexBuilder {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if let Some(other) = self.client.handle(ctx, from, message) {
            panic!("the index builder was sent {}", other.name());
        }
        self.drain(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::ClientTick => self.client.timeout(ctx),
            Timer::BuilderTick => self.tick(ctx),
            other => panic!("no timer of the index builder: {other:?}"),
        }
        self.drain(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.client.cluster_changed(ctx, before);
        self.note_builds(ctx, before);
        self.review(ctx);
        self.drain(ctx);
    }

    fn check_invariants(&self, _shared: &Shared) {
        self.client.check_invariants();
    }
}

fn send_proposal(ctx: &mut Ctx<'_>, command: Arc<Command>) {
    let control = Address { node: ctx.node(), worker: WorkerId(0), actor: ActorKind::Control };
    ctx.send(control, Message::Control(Box::new(ControlMessage::Propose(command))));
    ctx.set_timer(Timer::BuilderTick, PROPOSE_AGAIN);
}

/// The base table, the index and its hidden table.
fn find(
    cluster: &ClusterState,
    table: TableId,
    index: IndexId,
) -> Option<(&Arc<Table>, &UniqueIndexDef, &Arc<Table>)> {
    let table = cluster.tables.get(&table)?;
    let index = table.unique_index(index)?;
    Some((table, index, cluster.tables.get(&index.table)?))
}

/// The indexes of a table that are not online.
fn builds(table: &Table) -> impl Iterator<Item = (TableId, IndexId)> + '_ {
    let unique = table.unique_indexes.iter().map(|index| (index.id, index.state));
    let ordered = table.ordered_indexes.iter().map(|index| (index.id, index.state));
    let building = unique.chain(ordered).filter(|(_, state)| *state == IndexState::Building);
    building.map(|(index, _)| (table.id, index))
}

/// Whether all workers of the members have answered, and none of them lacks the index.
fn is_built(cluster: &ClusterState, answers: &[Inspected], table: TableId, index: IndexId) -> bool {
    let wanted = [Value::UInt(table.0.into()), Value::UInt(index.0.into())];
    let mut members = cluster.members.iter().filter(|(_, member)| member.role == NodeRole::Data);
    members.all(|(node, member)| {
        (0..member.workers).all(|worker| {
            let of_worker =
                |told: &&Inspected| (told.node, told.worker) == (*node, WorkerId(worker));
            let told = answers.iter().find(of_worker);
            told.is_some_and(|told| told.rows.iter().all(|row| !row.starts_with(&wanted)))
        })
    })
}

/// The entry of a row; nothing when an indexed column is NULL.
fn entry_of(table: &Table, index: &UniqueIndexDef, row: &[Value]) -> Option<Vec<Value>> {
    let value = |column: ColumnId| &row[usize::from(column.0)];
    if index.columns.iter().any(|column| *value(*column) == Value::Null) {
        return None;
    }
    Some(table.entry_columns(index).map(|column| value(column).clone()).collect())
}
