//! Who writes the files of change feeds.
//!
//! # Owns
//! The task that looks for feeds that nobody writes; a writer, from its claim to its end; names of
//! files.
//! # Guarantees
//! 1. A file gets its name when all of it is on the disk. Before that the place of the feed says
//!    which epoch it ends with, and behind it that this epoch is in files. So a successor writes
//!    the same file again, or goes on behind it: nothing is missing, and nothing is in two files.
//! 2. Data nodes are told that an epoch is written when the place says so, and not before.
//! 3. Whoever has lost the feed goes no further: the place is not the one that it has written.
//! # Failure
//! The cluster waits for nobody. While a file cannot be written data nodes keep changes within
//! their limits; when they have dropped some the feed is broken, and says where.
//! # Not here
//! The host's files (`files`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use model::Epoch;
use sql_expression::SqlError;
use sql_parser::ast::CreateChangefeed;
use stdx::{Duration, Instant};
use wire::WaitPolicy;

use super::format::{Format, csv_head, csv_line};
use super::reader::{Change, FeedEnd, FeedReader, Known};
use super::row::{self, Feed, Place, Wish};
use super::snapshot::Snapshot;
use super::{CLAIMS, Form, Position, failed, stream_of, told};
use crate::files::{Output, ServerFiles, rename};
use crate::kernel::{Failure, Kernel};
use crate::session::Shared;
use crate::session::detached::Detached;

/// How often somebody looks for feeds that nobody writes.
const LOOK: Duration = Duration::from_millis(500);
/// How often a claim is renewed, and the row of the feed read.
const RENEWAL: Duration = Duration::from_millis(500);
/// The pause between two questions for changes, where there were few.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause before something is tried again that did not go.
const AGAIN: Duration = Duration::from_secs(1);
/// What was committed is in a file after so long, about.
const FLUSH: Duration = Duration::from_millis(500);
/// The place is written down so often while nothing is committed.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes of a file, about: whole epochs are in it.
const FILE_BYTES: usize = 8 << 20;
/// Bytes that are given to the host together.
const PART_BYTES: usize = 256 << 10;

/// Looks for feeds that nobody writes, to the end of the process. `clock_base` is what the worker's
/// clock counts from, in microseconds since 1970.
pub(crate) async fn watch(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    let written: Rc<RefCell<BTreeSet<u64>>> = Rc::default();
    loop {
        if kernel.sleep(LOOK).await.is_err() {
            return;
        }
        if shared.way.is_given(&CLAIMS, &kernel) {
            continue;
        }
        let Ok(feeds) = row::all(&kernel).await else { continue };
        for feed in feeds {
            let parsed = feed.settings.parsed();
            let is_for_files = parsed
                .and_then(|create| Form::of(&create).ok())
                .is_some_and(|form| form.directory.is_some());
            let runs = feed.settings.wish == Wish::Running && is_for_files;
            if !runs || !written.borrow_mut().insert(feed.number) {
                continue;
            }
            let (written, seed, number) = (written.clone(), kernel.draw(), feed.number);
            let write = move |kernel: Kernel, shared: Rc<Shared>| async move {
                kernel.seed(seed);
                let keeper = kernel.keeper();
                if CLAIMS.hold(&keeper, number, WaitPolicy::Refuse).await.is_ok()
                    && let Some(mut writer) =
                        Writer::begin(&kernel, &shared, clock_base, number).await
                {
                    writer.run().await;
                }
                keeper.abort().await;
                written.borrow_mut().remove(&number);
            };
            let begin = Detached(Box::new(|kernel, shared| Box::pin(write(kernel, shared))));
            shared.detached.borrow_mut().push(begin);
        }
    }
}

/// Why a writer does not go on.
#[derive(Debug)]
enum End {
    /// The feed is to stop, or somebody else has it.
    Left,
    /// The feed has ended.
    Feed(FeedEnd),
}

impl From<FeedEnd> for End {
    fn from(end: FeedEnd) -> Self {
        Self::Feed(end)
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Interrupted(_) => Self::Left,
            other => Self::Feed(FeedEnd::Failed(other.into())),
        }
    }
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> Self {
        Self::Feed(FeedEnd::Failed(error))
    }
}

/// Writes a feed.
struct Writer {
    kernel: Kernel,
    shared: Rc<Shared>,
    clock_base: i64,
    files: Arc<dyn ServerFiles>,
    feed: Feed,
    create: CreateChangefeed,
    format: Format,
    directory: String,
    renewed: Instant,
}

/// What is to be in the next file.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Of which table and definition the last line was, for the heads of CSV.
    known: Option<Rc<Known>>,
    /// When the oldest of it was read.
    since: Option<Instant>,
}

impl Waiting {
    fn add(&mut self, format: Format, feed: &str, change: &Change) {
        let line = match format {
            Format::Json => format.text(feed, change),
            Format::Csv => {
                if !self.known.as_ref().is_some_and(|known| Rc::ptr_eq(known, &change.known)) {
                    self.bytes.extend_from_slice(csv_head(&change.known).as_bytes());
                    self.bytes.push(b'\n');
                    self.known = Some(change.known.clone());
                }
                csv_line(change)
            }
        };
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
    }
}

impl Writer {
    async fn begin(
        kernel: &Kernel,
        shared: &Rc<Shared>,
        clock_base: i64,
        number: u64,
    ) -> Option<Self> {
        let kernel = kernel.beside();
        let files = shared.admission.server_files().ok()?;
        // Whoever had the feed before may have gone on since it was looked for.
        let mut feed = row::numbered(&kernel, number).await.ok()??;
        let create = feed.settings.parsed()?;
        let form = Form::of(&create).ok()?;
        let address = &shared.address;
        feed.status.node = format!("{}:{}", address.hostname, address.port);
        let renewed = kernel.now();
        let (format, directory) = (form.format, form.directory?);
        let shared = shared.clone();
        Some(Self { kernel, shared, clock_base, files, feed, create, format, directory, renewed })
    }

    /// Writes until the feed is to stop, has ended, or somebody else has it.
    async fn run(&mut self) {
        self.tell("").await;
        loop {
            let end = match self.follow().await {
                Ok(never) => match never {},
                Err(end) => end,
            };
            match end {
                End::Left => return,
                End::Feed(FeedEnd::Failed(error)) => {
                    self.tell(error.message()).await;
                    if self.kernel.sleep(AGAIN).await.is_err() || self.renew(true).await.is_err() {
                        return;
                    }
                }
                End::Feed(end) => {
                    let behind = Position::behind(Epoch(self.feed.place.through)).to_string();
                    let settings = &self.feed.settings;
                    let error = told(&settings.name, &end, &behind).message().to_owned();
                    let status = row::Status { error, ..self.feed.status.clone() };
                    let (number, begins) = (self.feed.number, settings.begins);
                    // While this cannot be said the feed runs, and meets the same again.
                    let _ = row::halt(&self.kernel, number, begins, &status).await;
                    return;
                }
            }
        }
    }

    /// Says what is in the way of the feed, if that is news.
    async fn tell(&mut self, error: &str) {
        error.clone_into(&mut self.feed.status.error);
        // The next time says it too.
        let _ = row::tell(&self.kernel, self.feed.number, &self.feed.status).await;
    }

    /// Holds the claim still, and looks whether the feed is to stop, now and then.
    async fn renew(&mut self, now: bool) -> Result<(), End> {
        if !now && self.kernel.now().since(self.renewed) < RENEWAL {
            return Ok(());
        }
        if self.shared.way.is_given(&CLAIMS, &self.kernel) {
            return Err(End::Left);
        }
        let (keeper, number) = (self.kernel.keeper(), self.feed.number);
        if CLAIMS.keep(&keeper, number, WaitPolicy::Refuse).await.is_err() {
            return Err(End::Left);
        }
        self.renewed = self.kernel.now();
        match row::numbered(&self.kernel, number).await? {
            Some(found)
                if found.settings.wish == Wish::Running
                    && found.settings.begins == self.feed.settings.begins =>
            {
                Ok(())
            }
            _ => Err(End::Left),
        }
    }

    /// Microseconds since 1970.
    fn now(&self) -> u64 {
        let since = self.kernel.now().as_nanos() / 1_000;
        u64::try_from(self.clock_base).unwrap_or(0).saturating_add(since)
    }

    /// The feed goes on to a place.
    async fn go_on(&mut self, to: Place) -> Result<(), End> {
        let (number, from) = (self.feed.number, &self.feed.place);
        if *from == to {
            return Ok(());
        }
        if row::go_on(&self.kernel, number, from, &to).await? {
            self.feed.place = to;
            Ok(())
        } else {
            Err(End::Left)
        }
    }

    /// The path of a file.
    fn path(&self, what: &str) -> String {
        let extension = match self.format {
            Format::Json => "ndjson",
            Format::Csv => "csv",
        };
        let name = &self.feed.settings.name;
        format!("{}/{name}-{what}.{extension}", self.directory)
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, End> {
        // What was in doubt is looked up.
        let found = row::numbered(&self.kernel, self.feed.number).await?.ok_or(End::Left)?;
        self.feed.place = found.place;
        if self.feed.place.wants_snapshot {
            self.snapshot().await?;
        }
        let (number, settings) = (self.feed.number, self.feed.settings.clone());
        let stream = stream_of(&self.kernel, number, &settings)
            .ok_or_else(|| failed("the stream of the change feed is not known here yet"))?;
        let delivered = Epoch(self.feed.place.through);
        let (tables, condition) = (settings.table_ids(), self.create.condition.clone());
        let mut reader =
            FeedReader::new(&self.kernel, stream, &tables, delivered, condition.as_ref());
        let mut waiting = Waiting::default();
        // The file that was begun last is written as it was begun.
        let mut until = self.feed.place.writing;
        let mut last = (delivered, self.feed.place.at);
        loop {
            self.renew(false).await?;
            let batch = match reader.read().await {
                Ok(batch) => batch,
                Err(end) => {
                    if !matches!(end, FeedEnd::Failed(_)) {
                        self.flush(&mut waiting, last).await?;
                    }
                    return Err(end.into());
                }
            };
            let before = waiting.bytes.len();
            if let Some(batch) = batch {
                for (epoch, changes) in &batch.epochs {
                    if until != 0 && epoch.0 > until {
                        self.flush(&mut waiting, (Epoch(until), last.1)).await?;
                        until = 0;
                    }
                    for change in changes {
                        waiting.add(self.format, &settings.name, change);
                        last = (*epoch, change.at);
                    }
                    if until == 0 && waiting.bytes.len() >= FILE_BYTES {
                        self.flush(&mut waiting, last).await?;
                    }
                }
                let ended = if batch.ended == 0 { self.now() } else { batch.ended };
                last = (batch.through, ended);
                if until != 0 && batch.through.0 >= until {
                    self.flush(&mut waiting, (Epoch(until), ended)).await?;
                    until = 0;
                }
                let now = self.kernel.now();
                waiting.since.get_or_insert(now);
            }
            let wait = if waiting.bytes.is_empty() { IDLE } else { FLUSH };
            let is_due = waiting.since.is_some_and(|since| self.kernel.now().since(since) >= wait);
            if is_due && until == 0 {
                self.flush(&mut waiting, last).await?;
            }
            if waiting.bytes.len() - before.min(waiting.bytes.len()) < FILE_BYTES / 16 {
                self.kernel.sleep(PAUSE).await?;
            }
        }
    }

    /// Writes what waits, as the file that ends with an epoch.
    async fn flush(&mut self, waiting: &mut Waiting, last: (Epoch, u64)) -> Result<(), End> {
        let (Epoch(through), at) = last;
        if through <= self.feed.place.through {
            return Ok(());
        }
        let bytes = std::mem::take(waiting).bytes;
        if !bytes.is_empty() {
            self.go_on(Place { writing: through, ..self.feed.place.clone() }).await?;
            let first = self.feed.place.through + 1;
            let path = self.path(&format!("{first:020}-{through:020}"));
            let part = format!("{path}.{:08x}.part", self.kernel.draw() as u32);
            let mut output = Output::replace(&*self.files, &part);
            for part in bytes.chunks(PART_BYTES) {
                output.write(&self.kernel, part.to_vec()).await?;
            }
            output.finish(&self.kernel, true).await?;
            rename(&self.kernel, &*self.files, &part, &path).await?;
            if !self.feed.status.error.is_empty() {
                self.tell("").await;
            }
        }
        self.go_on(Place { through, at, writing: 0, ..self.feed.place.clone() }).await?;
        if let Some(stream) = stream_of(&self.kernel, self.feed.number, &self.feed.settings) {
            self.kernel.acknowledge_stream(stream, Epoch(through));
        }
        Ok(())
    }

    /// Writes the snapshot. It is one file, which gets its name when its epoch is in the place: of
    /// several that were begun one is seen.
    async fn snapshot(&mut self) -> Result<(), End> {
        if self.feed.place.snapshot == 0 {
            let epoch = self.write_snapshot().await?;
            self.go_on(Place { snapshot: epoch.0, ..self.feed.place.clone() }).await?;
        }
        let (through, at) = (self.feed.place.snapshot, self.now());
        let path = self.path(&format!("{through:020}-snapshot"));
        rename(&self.kernel, &*self.files, &format!("{path}.part"), &path).await?;
        self.go_on(Place { through, at, ..Place::default() }).await
    }

    async fn write_snapshot(&mut self) -> Result<Epoch, End> {
        let tables = self.feed.settings.table_ids();
        let (condition, at) = (self.create.condition.clone(), self.now());
        let mut snapshot = Snapshot::open(&self.kernel, &tables, condition.as_ref(), at).await?;
        let epoch = snapshot.epoch();
        let path = format!("{}.part", self.path(&format!("{:020}-snapshot", epoch.0)));
        let mut output = Output::replace(&*self.files, &path);
        let mut waiting = Waiting::default();
        let name = self.feed.settings.name.clone();
        while let Some(rows) = snapshot.next().await? {
            for row in &rows {
                waiting.add(self.format, &name, row);
                if waiting.bytes.len() >= PART_BYTES {
                    output.write(&self.kernel, std::mem::take(&mut waiting.bytes)).await?;
                }
            }
            self.renew(false).await?;
        }
        if !waiting.bytes.is_empty() {
            output.write(&self.kernel, waiting.bytes).await?;
        }
        output.finish(&self.kernel, true).await?;
        Ok(epoch)
    }
}
