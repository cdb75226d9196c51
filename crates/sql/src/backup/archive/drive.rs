//! Who drives the archives of the cluster: follows a change stream and has segments written.
//!
//! # Owns
//! The task that looks for archives without a driver; a driver, from a chain to the next one.
//! # Guarantees
//! 1. Epochs are archived in order, each once and whole, when they are durable. Data nodes are told
//!    that they are archived when a segment is where it belongs, and not before. So a driver may
//!    die at any moment, and its successor goes on behind the last segment that it finds.
//! 2. What was defined is archived with the changes: a change of a definition lies between two
//!    epochs that were delivered one after the other.
//! 3. Where an epoch is missing the chain has ended: a new one begins with a full backup.
//! # Failure
//! The cluster waits for nobody. While a segment cannot be written the data nodes keep changes
//! within their limits; when they have dropped one the chain is broken.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use actor::Mutation;
use client::{Delivery, Subscription};
use model::{ClusterState, Epoch, ErrorCode, SchemaChange, StreamId, Table, TableId};
use sql_expression::SqlError;
use stdx::{Duration, Instant};
use wire::{RowChange, WaitPolicy};

use super::base::{Base, Task};
use super::definitions::{definitions, is_archived};
use super::log::{Definitions, Writer};
use super::row::{self, Order, Status};
use crate::backup::time::{shown_moment, time};
use crate::backup_jobs::chain::{Chain, ChainStart, Segment, SegmentHead};
use crate::backup_jobs::host::{
    BackupFiles, BackupKey, BackupReply, BackupRequest, LOOK_AGAIN, ask, done, failed, given,
};
use crate::claim::Claims;
use crate::kernel::{Failure, Kernel};
use crate::session::detached::Detached;
use crate::session::{Origin, Session, Shared};

/// The claims on archives: who holds one drives the archive of its number.
const CLAIMS: Claims = Claims { table: "#archive-claims", column: "archive", width: 8 };
/// How often somebody looks for archives that nobody drives.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two questions for changes.
const PAUSE: Duration = Duration::from_millis(150);
/// The pause before something is tried again that did not go.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a claim is renewed, and the row of the archive read.
const RENEWAL: Duration = Duration::from_secs(1);
/// After how long SHOW ARCHIVES says that the place does not take a segment.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of changes after which a segment ends.
const SEGMENT_BYTES: usize = 8 << 20;
/// What a host says of a file that is not to be there.
const THERE_ALREADY: &str = "it is there already";
/// The pause before another full backup is tried.
const BASE_AGAIN: Duration = Duration::from_secs(5);

/// The archives that this worker drives.
pub(crate) type Driven = Rc<RefCell<BTreeSet<u64>>>;

/// Looks for archives without a driver, to the end of the process. `clock_base` is what the
/// worker's clock counts from, in microseconds since 1970.
pub(crate) async fn watch(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    let driven = Driven::default();
    loop {
        if kernel.sleep(LOOK).await.is_err() {
            return;
        }
        if shared.way.is_given(&CLAIMS, &kernel) {
            continue;
        }
        let Ok(rows) = row::all(&kernel).await else { continue };
        for row in rows {
            if !driven.borrow_mut().insert(row.number) {
                continue;
            }
            let (driven, seed) = (driven.clone(), kernel.draw());
            let drive = move |kernel: Kernel, shared| async move {
                let origin = Origin { number: 0, seed, clock_base };
                let session = Session::new(kernel, shared, origin);
                // Who has none of these files cannot drive it.
                if let Ok(host) = session.shared.directory.backups().host()
                    && CLAIMS.hold(&session.kernel, row.number, WaitPolicy::Refuse).await.is_ok()
                    && let Some(files) = host.begin()
                {
                    let (number, order, status) = (row.number, row.order, row.status);
                    let renewed = session.kernel.now();
                    let mut driver = Driver {
                        session,
                        clock_base,
                        number,
                        order,
                        status,
                        files,
                        renewed,
                        ended: None,
                        base: None,
                        base_from: renewed,
                    };
                    driver.run().await;
                    driver.session.rollback().await;
                }
                driven.borrow_mut().remove(&row.number);
            };
            let begin = Detached(Box::new(|kernel, shared| Box::pin(drive(kernel, shared))));
            shared.detached.borrow_mut().push(begin);
        }
    }
}

/// Why a driver does not go on with a chain.
#[derive(Clone, Debug)]
enum End {
    /// The archive is to end.
    Stopped,
    /// An epoch is missing, and so on.
    Broken(String),
    /// Another driver has the archive, or is to have it.
    Left,
    /// It did not work.
    Failed(String),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(SqlError::from(failure).message().to_owned())
    }
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> Self {
        Self::Failed(error.message().to_owned())
    }
}

/// Drives an archive.
struct Driver {
    session: Session,
    clock_base: i64,
    number: u64,
    order: Order,
    status: Status,
    files: Box<dyn BackupFiles>,
    /// When the claim was renewed last.
    renewed: Instant,
    /// Why the chain of before is none to go on with.
    ended: Option<String>,
    /// A full backup under way, and the chain that it is for.
    base: Option<(String, Base)>,
    /// No full backup is begun before this.
    base_from: Instant,
}

/// A chain that is gone on with.
struct Following {
    chain: Chain,
    stream: StreamId,
    subscription: Subscription,
    /// What the definitions were when all epochs delivered so far were complete: the state of the
    /// cluster, and what is archived of it.
    cluster: Arc<ClusterState>,
    defined: Option<Definitions>,
    /// Definitions that are archived when the changes of the time are: the epoch behind which they
    /// came to be, and the one from which on they hold.
    pending: VecDeque<(u64, u64, Definitions)>,
    /// States of the cluster before those, each until its changes are archived.
    older: VecDeque<(u64, Arc<ClusterState>)>,
    writer: Writer,
    /// The last epoch that is in a segment, and when it ended.
    archived: (u64, u64),
    /// The number of the last segment.
    segment: u64,
    /// What was noted is at hand for the next segment no more, and is in none.
    taken: bool,
    /// The last epoch that was noted, and when it ended.
    last_noted: u64,
    ended: u64,
    /// When the oldest of what waits was delivered.
    since: Option<Instant>,
}

impl Driver {
    async fn run(&mut self) {
        // The driver before may have written since the row was read.
        match row::all(&self.session.kernel).await {
            Ok(rows) => match rows.into_iter().find(|row| row.number == self.number) {
                Some(row) => self.status = row.status,
                None => return,
            },
            // Somebody tries again.
            Err(_) => return,
        }
        loop {
            let end = match self.chain().await {
                Ok(mut following) => {
                    let end = self.follow(&mut following).await;
                    if let End::Stopped | End::Broken(_) = &end {
                        if let Some((_, base)) = self.base.take() {
                            base.cancel(&self.session);
                        }
                        self.finish(&mut following, &end).await;
                    }
                    end
                }
                Err(end) => end,
            };
            match end {
                End::Stopped => return self.stop().await,
                End::Left => return self.leave(),
                End::Broken(why) => self.note_break(why).await,
                End::Failed(why) => {
                    self.tell(&format!("waiting: {why}")).await;
                    if self.session.kernel.sleep(AGAIN).await.is_err() {
                        return;
                    }
                    match self.renew(true).await {
                        Err(End::Stopped) => return self.stop().await,
                        Err(End::Left) => return self.leave(),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Somebody else goes on, with a full backup of its own.
    fn leave(&mut self) {
        if let Some((_, base)) = self.base.take() {
            base.cancel(&self.session);
        }
    }

    /// The archive has ended.
    async fn stop(&mut self) {
        let kernel = self.session.kernel.beside();
        // Whoever comes next does it if this fails.
        if kernel.change_schema(SchemaChange::DropStream { name: self.stream_name() }).await.is_ok()
        {
            let _ = row::remove(&kernel, self.number).await;
        }
    }

    fn stream_name(&self) -> String {
        format!("archive {}", self.number)
    }

    /// The SQL node that drives it, as it is shown.
    fn driver(&self) -> String {
        let address = &self.session.shared.address;
        format!("{}:{}", address.hostname, address.port)
    }

    fn key(&self) -> BackupKey {
        self.order.key_file.clone().map_or(BackupKey::None, BackupKey::File)
    }

    fn now(&self) -> i64 {
        time(&self.session.kernel, self.clock_base)
    }

    /// Says what the archive does, if that is news.
    async fn tell(&mut self, state: &str) {
        if self.status.state != state {
            state.clone_into(&mut self.status.state);
            // The next one says it too.
            let _ = row::tell(&self.session.kernel, self.number, &self.status).await;
        }
    }

    async fn note_break(&mut self, why: String) {
        let at = shown_moment(self.now());
        self.status.last_break = format!("{at}: {why}");
        // No moment after the break can be restored until the new chain has a full backup.
        self.status.base_epoch = 0;
        let place = &self.order.place;
        if let Ok(host) = self.session.shared.directory.backups().host() {
            host.warn(&format!("the chain of the archive in {place} is broken: {why}"));
        }
        self.ended = Some(why);
        self.tell("broken: a new chain begins").await;
    }

    /// Holds the claim still, and looks whether the archive is to end, now and then.
    async fn renew(&mut self, now: bool) -> Result<(), End> {
        let kernel = &self.session.kernel;
        if !now && kernel.now().since(self.renewed) < RENEWAL {
            return Ok(());
        }
        // A full backup that is under way would have to begin anew.
        if self.base.is_none() && self.session.shared.way.is_given(&CLAIMS, kernel) {
            return Err(End::Left);
        }
        if CLAIMS.hold(kernel, self.number, WaitPolicy::Refuse).await.is_err() {
            // A transaction that was lost took the claim with it.
            self.session.rollback().await;
            let kernel = &self.session.kernel;
            if CLAIMS.hold(kernel, self.number, WaitPolicy::Refuse).await.is_err() {
                return Err(End::Left);
            }
        }
        self.renewed = self.session.kernel.now();
        let rows = row::all(&self.session.kernel).await?;
        match rows.into_iter().find(|row| row.number == self.number) {
            Some(row) if row.stops => Err(End::Stopped),
            Some(row) => {
                self.order = row.order;
                Ok(())
            }
            None => Err(End::Stopped),
        }
    }

    /// The chain that is gone on with: that of before, or a new one.
    async fn chain(&mut self) -> Result<Following, End> {
        self.renew(true).await?;
        self.begin_files()?;
        if let Some(following) = self.resumed().await? {
            return Ok(following);
        }
        // The chain of before may be open.
        self.begin_files()?;
        self.begun().await
    }

    /// Lets go of the files at hand.
    fn begin_files(&mut self) -> Result<(), SqlError> {
        self.files = self.session.shared.directory.backups().files()?;
        Ok(())
    }

    /// The chain of before, if there is one and its stream.
    async fn resumed(&mut self) -> Result<Option<Following>, End> {
        if self.status.chain.is_empty() || self.ended.is_some() {
            return Ok(None);
        }
        let resume =
            BackupRequest::ResumeChain { place: self.status.chain.clone(), key: self.key() };
        let kernel = self.session.kernel.beside();
        let BackupReply::Chain(chain) = done(&kernel, &*self.files, resume).await? else {
            return Err(failed("the host tells nothing of the chain").into());
        };
        if let Some(why) = chain.end() {
            self.note_break(why.to_owned()).await;
            return Ok(None);
        }
        self.session.catch_up().await;
        let cluster = self.session.kernel.cluster();
        let stream = cluster.streams.get(self.stream_name().as_str()).map(|stream| stream.id);
        match stream.filter(|stream| u64::from(stream.0) == chain.start.stream) {
            Some(stream) => Ok(Some(self.following(*chain, stream))),
            None => {
                self.note_break("its change stream has ended".to_owned()).await;
                Ok(None)
            }
        }
    }

    /// A new chain.
    async fn begun(&mut self) -> Result<Following, End> {
        let kernel = self.session.kernel.beside();
        let name = self.stream_name();
        kernel.change_schema(SchemaChange::DropStream { name: name.clone() }).await?;
        let keep = SchemaChange::KeepStream { name, tables: Vec::new() };
        let stream = StreamId(kernel.change_schema(keep).await?.0);
        let first = loop {
            let fetches = client::opening(stream, &kernel.cluster());
            let answers = kernel.fetch_stream(fetches.clone()).await?;
            if let Some(first) = client::opened(&fetches, &answers) {
                break first;
            }
            kernel.sleep(PAUSE).await?;
            self.renew(false).await?;
        };
        let start = ChainStart {
            version: crate::VERSION.to_owned(),
            cluster: format!("{:?}", kernel.cluster().id),
            stream: stream.0.into(),
            first: first.0,
            began: self.now(),
        };
        let (place, key) = (self.order.place.clone(), self.key());
        let begin = BackupRequest::BeginChain { place, key, start };
        let BackupReply::Chain(chain) = done(&kernel, &*self.files, begin).await? else {
            return Err(failed("the host tells nothing of the chain").into());
        };
        self.ended = None;
        let driver = self.driver();
        let status = &mut self.status;
        (status.chain, status.base_epoch) = (chain.place.clone(), 0);
        (status.segments, status.bytes) = (0, 0);
        status.driver.clone_from(&driver);
        "starting: a full backup is made".clone_into(&mut status.state);
        // Whoever comes next has to know the chain.
        row::tell(&kernel, self.number, status).await?;
        Ok(self.following(*chain, stream))
    }

    fn following(&self, chain: Chain, stream: StreamId) -> Following {
        let (through, ended) = (chain.through(), chain.ended());
        Following {
            stream,
            subscription: Subscription::new(stream, Epoch(through)).after(ended),
            cluster: self.session.kernel.cluster(),
            defined: None,
            pending: VecDeque::new(),
            older: VecDeque::new(),
            taken: false,
            writer: Writer::default(),
            archived: (through, ended),
            segment: chain.segments.last().map_or(0, |segment| segment.number),
            last_noted: through,
            ended,
            since: None,
            chain,
        }
    }

    /// Archives what is committed, until the chain ends or something fails: then whoever goes on
    /// begins behind the last segment, as what was noted and is in none is not acknowledged.
    async fn follow(&mut self, of: &mut Following) -> End {
        loop {
            if let Err(end) = self.round(of).await {
                return end;
            }
        }
    }

    async fn round(&mut self, of: &mut Following) -> Result<(), End> {
        self.renew(false).await?;
        self.see_to_base(of)?;
        let kernel = self.session.kernel.beside();
        let fetches = of.subscription.fetches(&kernel.cluster());
        let Ok(answers) = kernel.fetch_stream(fetches.clone()).await else {
            return Ok(kernel.sleep(AGAIN).await?);
        };
        let is_more = match of.subscription.take(&fetches, answers) {
            Delivery::Nothing => false,
            Delivery::Broken { from } => return Err(End::Broken(broken(of, from))),
            Delivery::Epochs { through, changes, ended } => {
                let before = of.writer.bytes();
                self.note(of, through, &changes, &ended).await?;
                of.since.get_or_insert(kernel.now());
                of.writer.bytes() - before >= SEGMENT_BYTES / 16
            }
        };
        // Half of what it may be behind is for disks, the network, and the place itself.
        let late = Duration::from_millis(self.order.lag * 1_000 * 2 / 5);
        let is_due = of.since.is_some_and(|since| kernel.now().since(since) >= late);
        if is_due || of.writer.bytes() >= SEGMENT_BYTES {
            self.write(of, None).await?;
        }
        if !is_more {
            kernel.sleep(PAUSE).await?;
        }
        Ok(())
    }

    /// Notes the changes of epochs that were delivered, and what was defined when they were
    /// complete.
    async fn note(
        &mut self,
        of: &mut Following,
        through: Epoch,
        changes: &[(Epoch, Vec<RowChange>)],
        ended: &[(Epoch, u64)],
    ) -> Result<(), End> {
        let before = of.last_noted;
        let cluster = loop {
            self.session.catch_up().await;
            let cluster = self.session.kernel.cluster();
            // Data nodes may know definitions that this worker has not heard of.
            let mut all = changes.iter().flat_map(|(_, changes)| changes);
            if all.all(|change| is_known(&cluster, change)) {
                break cluster;
            }
            self.session.kernel.sleep(PAUSE).await?;
            self.renew(false).await?;
        };
        let is_same = of.defined.is_some() && Arc::ptr_eq(&cluster, &of.cluster);
        if !is_same {
            let defined = definitions(&cluster, self.order.accounts)?;
            if of.defined.as_ref() != Some(&defined) {
                // Changes may be read long after they were made. These definitions hold from the
                // epoch on that is behind all complete ones.
                let newest = self.session.kernel.beside().newest_complete().await?;
                let from = newest.0.max(through.0).saturating_add(1);
                of.pending.push_back((before, from, defined.clone()));
                of.older.push_back((from, of.cluster.clone()));
                of.defined = Some(defined);
            }
            of.cluster = cluster.clone();
        }
        while let Some((before, from, defined)) =
            of.pending.pop_front_if(|(_, from, _)| *from <= through.0)
        {
            of.writer.definitions(before, from, &defined)?;
        }
        for (epoch, at) in ended {
            of.writer.ended(epoch.0, *at);
            of.ended = *at;
        }
        for (epoch, changes) in changes {
            let misses = self.session.kernel.mutated(Mutation::SqlArchivesMissEpochs);
            if misses && self.session.kernel.draw().is_multiple_of(10) {
                continue;
            }
            for change in changes {
                note_change(of, &cluster, *epoch, change);
            }
        }
        of.older.retain(|(from, _)| *from > through.0);
        of.last_noted = through.0;
        Ok(())
    }

    /// Writes what was noted, as the next segment; with `end` as the last one.
    async fn write(&mut self, of: &mut Following, end: Option<String>) -> Result<(), End> {
        let kernel = self.session.kernel.beside();
        let through = of.last_noted;
        let portions = Arc::new(of.writer.finish());
        of.taken = true;
        loop {
            match kernel.await_durable(Epoch(through), false).await {
                Ok(_) => break,
                Err(failure) if failure.is_refusal(ErrorCode::NoDisk) => break,
                Err(failure) if failure.is_refusal(ErrorCode::OutcomeUnknown) => {
                    return Err(End::Broken("the whole cluster was restarted".to_owned()));
                }
                Err(_) => kernel.sleep(AGAIN).await?,
            }
            self.renew(false).await?;
        }
        let head = SegmentHead {
            number: of.segment + 1,
            first: of.archived.0 + 1,
            through,
            ended: of.ended,
            end,
        };
        let segment = Segment { head, portions };
        let chain = loop {
            match self.append(segment.clone()).await {
                Ok(BackupReply::Chain(chain)) => break chain,
                Ok(_) => return Err(failed("the host tells nothing of the segment").into()),
                // Of the last one nobody has to know. One that is there may be what was written
                // before and thought lost: the chain is looked at anew.
                Err(error)
                    if segment.head.end.is_some() || error.message().contains(THERE_ALREADY) =>
                {
                    return Err(error.into());
                }
                Err(error) => {
                    self.tell(&format!("waiting: {}", error.message())).await;
                    kernel.sleep(AGAIN).await?;
                    self.renew(true).await?;
                    self.check_kept(of).await?;
                }
            }
        };
        of.segment = segment.head.number;
        of.archived = (through, of.ended);
        of.taken = false;
        of.since = None;
        // Who has lost the claim leaves that to the one who has it.
        self.renew(true).await?;
        kernel.acknowledge_stream(of.stream, Epoch(through));
        let driver = self.driver();
        let status = &mut self.status;
        status.driver = driver;
        (status.through, status.ended) = (through, of.ended as i64);
        (status.segments, status.bytes) = (chain.count, chain.bytes);
        status.base_epoch = of.chain.bases.last().map_or(0, |base| base.epoch);
        let state = match status.base_epoch {
            0 => "starting: a full backup is made",
            _ => "running",
        };
        state.clone_into(&mut status.state);
        row::tell(&kernel, self.number, status).await?;
        Ok(())
    }

    /// Has the host write a segment; says so where that takes long.
    async fn append(&mut self, segment: Segment) -> Result<BackupReply, SqlError> {
        let kernel = self.session.kernel.beside();
        let mut answer = ask(&kernel, &*self.files, BackupRequest::Append(segment)).await?;
        let began = kernel.now();
        loop {
            match given(answer) {
                Ok(reply) => return reply,
                Err(later) => answer = later,
            }
            kernel.sleep(LOOK_AGAIN).await?;
            if kernel.now().since(began) > SILENCE {
                let place = &self.order.place;
                let state = format!(
                    "waiting: {place} has not taken a segment for {} s",
                    SILENCE.as_millis() / 1_000
                );
                self.tell(&state).await;
            }
        }
    }

    /// While a segment cannot be written: whether data nodes still have what comes next.
    async fn check_kept(&mut self, of: &mut Following) -> Result<(), End> {
        let kernel = self.session.kernel.beside();
        let mut probe = Subscription::new(of.stream, of.subscription.delivered());
        // Each replica of a slot is asked once.
        for _ in 0..8 {
            let fetches = probe.fetches(&kernel.cluster());
            let answers = kernel.fetch_stream(fetches.clone()).await?;
            match probe.take(&fetches, answers) {
                Delivery::Broken { from } => return Err(End::Broken(broken(of, from))),
                Delivery::Epochs { .. } => return Ok(()),
                Delivery::Nothing => {}
            }
        }
        Ok(())
    }

    /// Says in the chain that it has ended, if that can be said.
    async fn finish(&mut self, of: &mut Following, end: &End) {
        if of.taken || matches!(end, End::Broken(_)) {
            // What was not written is not known to be durable, belongs to what is missing, or is
            // lost with the segment that could not be written.
            of.writer = Writer::default();
            (of.last_noted, of.ended) = of.archived;
        }
        let why = match end {
            End::Broken(why) => why.clone(),
            _ => "the archive was stopped".to_owned(),
        };
        let _ = self.write(of, Some(why)).await;
    }

    /// Sees to it that there is a full backup, and a new one when the last has become old.
    fn see_to_base(&mut self, of: &mut Following) -> Result<(), End> {
        let now = self.session.kernel.now();
        let ended = self.base.as_ref().and_then(|(chain, base)| Some((chain, base.ended()?)));
        match ended {
            Some((chain, Ok(base))) => {
                if *chain == of.chain.id {
                    of.chain.bases.push(base);
                }
                self.base = None;
            }
            Some((_, Err(error))) => {
                if let Ok(host) = self.session.shared.directory.backups().host() {
                    let why = error.message();
                    host.warn(&format!("a full backup of an archive has failed: {why}"));
                }
                (self.base, self.base_from) = (None, now + BASE_AGAIN);
            }
            None => {}
        }
        let age = of.chain.bases.last().map(|base| self.now().saturating_sub(base.began));
        let every = i64::try_from(self.order.full_every).unwrap_or(i64::MAX);
        let is_due = age.is_none_or(|age| age / 1_000_000 >= every);
        if is_due && self.base.is_none() && now >= self.base_from {
            let name = format!("base-{:016x}", self.session.kernel.draw());
            let task = Task {
                place: format!("{}/{name}", of.chain.place),
                key: self.key(),
                chain: of.chain.id.clone(),
                first: of.chain.start.first,
                accounts: self.order.accounts,
                max_rate: self.order.max_rate,
                user: self.order.user.clone(),
            };
            let base = task.begin(&self.session, self.clock_base)?;
            self.base = Some((of.chain.id.clone(), base));
        }
        Ok(())
    }
}

/// Why a stream is broken.
fn broken(of: &Following, from: Epoch) -> String {
    let delivered = of.subscription.delivered();
    if from.generation() != delivered.generation() {
        return "the whole cluster was restarted".to_owned();
    }
    format!(
        "the data nodes have dropped changes behind epoch {}: there was no room for more \
         (MaxBufferedEpochBytes, MaxBufferedEpochs)",
        delivered.0
    )
}

/// Whether a cluster state has the definition by which a row was written, or is later than that.
fn is_known(cluster: &ClusterState, change: &RowChange) -> bool {
    let id = change.partition.table;
    match cluster.tables.get(&id) {
        Some(table) => has_layouts(table, change),
        // Identities ascend: one that is not newer was dropped.
        None => id.anchor().0 <= cluster.next_id,
    }
}

/// Whether a definition has the layouts that the rows of a change are written in.
fn has_layouts(table: &Table, change: &RowChange) -> bool {
    let layouts = table.layouts.len();
    let mut rows = [&change.before, &change.after].into_iter().flatten();
    // Rows begin with the number of their layout.
    rows.all(|row| row.0.first().is_some_and(|of| usize::from(*of) < layouts))
}

/// Notes a change of a row: by the newest definition of its table, else by that of before.
fn note_change(of: &mut Following, cluster: &ClusterState, epoch: Epoch, change: &RowChange) {
    let id: TableId = change.partition.table;
    let found = |cluster: &ClusterState| -> Option<(Arc<Table>, bool)> {
        let table = cluster.tables.get(&id)?;
        Some((table.clone(), is_archived(cluster, table)))
    };
    let older = || of.older.iter().rev().find_map(|(_, state)| found(state));
    match found(cluster).or_else(older) {
        Some((_, false)) => {}
        // It was changed, and dropped, since anybody looked.
        Some((table, true)) if !has_layouts(&table, change) => of.writer.lost(epoch.0, id),
        Some((table, true)) => {
            let row = |row: &Option<model::Row>| row.as_ref().map(|row| row.0.clone());
            let (before, after) = (row(&change.before), row(&change.after));
            of.writer.change(epoch.0, &table, before.as_deref(), after.as_deref());
        }
        None => of.writer.lost(epoch.0, id),
    }
}
