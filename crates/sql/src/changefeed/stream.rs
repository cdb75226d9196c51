//! STREAM CHANGEFEED: the changes of a feed as a result without an end.
//!
//! # Guarantees
//! A reader that is slow is waited for here, with little in memory. Data nodes keep for it what
//! they keep for the feed, and the rows of its snapshot until it has read those. One that comes too
//! late is told behind which position the feed has broken off for it.
//! # Not here
//! Which changes there are (`changefeed::reader`).

use model::Epoch;
use sql_expression::SqlError;
use sql_parser::ast::StreamChangefeed;
use sqltype::{Datum, SqlType, TypeKind};
use stdx::{Duration, Instant};

use super::position::{Position, Start, parse};
use super::reader::{Change, FeedEnd, FeedReader};
use super::row::{Feed, Wish};
use super::snapshot::Snapshot;
use super::{Form, failed, no_feed, row, stream_of, told};
use crate::kernel::{Failure, Kernel};
use crate::link::Goodbye;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;

/// How long nothing is sent before a row without a change is.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// For how long it is tried to read on when something is in the way, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(200);
/// How often it is looked whether the feed is still one that runs.
const LOOK: Duration = Duration::from_secs(1);

fn columns() -> [ResultColumn; 6] {
    [
        ResultColumn::new("position", SqlType::text(64)),
        ResultColumn::new("op", SqlType::text(1)),
        ResultColumn::new("db", SqlType::text(64)),
        ResultColumn::new("table", SqlType::text(64)),
        ResultColumn::new("ts_ms", SqlType::unsigned_big_int()),
        ResultColumn::new("value", SqlType::new(TypeKind::LongText, u32::MAX)),
    ]
}

/// A stream that is being sent.
struct Sending<'s> {
    kernel: Kernel,
    out: &'s mut ResultWriter,
    feed: Feed,
    form: Form,
    /// The last position that was sent, or that the reader has named.
    behind: String,
    sent: Instant,
    looked: Instant,
}

/// Runs STREAM CHANGEFEED.
///
/// # Errors
/// 1236 where the feed breaks off, with the position and what to do; 1317 for KILL.
pub(crate) async fn run(
    session: &mut Session,
    stream: &StreamChangefeed,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let kernel = session.kernel.beside();
    let name = stream.name.as_str();
    let feed = row::named(&kernel, name).await?.ok_or_else(|| no_feed(name))?;
    let create = feed.settings.parsed().ok_or_else(|| failed("the feed cannot be read"))?;
    let form = Form::of(&create)?;
    if form.directory.is_some() {
        let why = format!(
            "change feed '{name}' is written to files: make one INTO 'sql' to read it by statements"
        );
        return Err(failed(&why));
    }
    let start = match &stream.from {
        None => Start::Anew,
        Some(text) => parse(text).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            failed(&format!("'{text}' is no position of a change feed, such as '4711.3' or '4711'"))
        })?,
    };
    check(&feed)?;
    session.catch_up().await;
    if let Start::Behind(position) = start
        && position.epoch() > kernel.newest_complete().await?
    {
        let why = format!("position {position} of change feed '{name}' is not reached yet");
        return Err(failed(&why));
    }
    let (now, at) = (kernel.now(), u64::try_from(session.statement_time).unwrap_or(0));
    let behind = match start {
        Start::Behind(position) => position,
        Start::Anew => Position::behind(feed.beginning()),
    };
    let mut sending =
        Sending { kernel, out, behind: behind.to_string(), feed, form, sent: now, looked: now };
    let end = sending.send(start, create.condition.as_ref(), at).await;
    Err(match end {
        Err(error) => error,
        Ok(end) => told(name, &end, &sending.behind),
    })
}

/// Whether the same may go when it is tried again.
fn is_temporary(error: &SqlError) -> bool {
    matches!(error.code(), 1205 | 1213 | 1296 | 1297 | 1412)
}

/// Refuses a feed that does not run.
fn check(feed: &Feed) -> Result<(), SqlError> {
    let name = &feed.settings.name;
    match feed.settings.wish {
        Wish::Running => Ok(()),
        Wish::Dropped => Err(failed(&format!("change feed '{name}' was dropped"))),
        Wish::Paused => Err(failed(&format!("change feed '{name}' is paused: RESUME CHANGEFEED"))),
        Wish::Made => Err(failed(&format!(
            "change feed '{name}' was not made completely: DROP CHANGEFEED it"
        ))),
        Wish::Broken => {
            let why = &feed.status.error;
            let why =
                format!("change feed '{name}' is broken: {why}; RESUME CHANGEFEED begins anew");
            Err(failed(&why))
        }
    }
}

impl Sending<'_> {
    /// Sends until there is an end.
    async fn send(
        &mut self,
        start: Start,
        condition: Option<&sql_parser::ast::Expr>,
        at: u64,
    ) -> Result<FeedEnd, SqlError> {
        let tables = self.feed.settings.table_ids();
        let cluster = self.kernel.cluster();
        let first = self.feed.beginning();
        if let Some(id) = tables.iter().find(|id| cluster.tables.get(id).is_none())
            && start == Start::Anew
        {
            let table = format!("table {} of the feed", id.0);
            return Ok(FeedEnd::Gone { table, at: first });
        }
        self.out.columns(&columns());
        let (mut delivered, mut seen) = match start {
            Start::Behind(position) if position.whole() < first => {
                // Nothing of before is in the stream.
                return Ok(FeedEnd::Lost { behind: position.whole(), from: first.next() });
            }
            Start::Behind(position) => (position.whole(), position),
            Start::Anew if self.form.has_snapshot => match self.snapshot(condition, at).await? {
                Ok(epoch) => (epoch, Position::behind(epoch)),
                Err(end) => return Ok(end),
            },
            Start::Anew => (first, Position::behind(first)),
        };
        let stream = stream_of(&self.kernel, self.feed.number, &self.feed.settings);
        let stream = stream.ok_or_else(|| no_feed(&self.feed.settings.name))?;
        let reader_behind =
            |kernel: &Kernel, epoch| FeedReader::new(kernel, stream, &tables, epoch, condition);
        let mut reader = reader_behind(&self.kernel, delivered);
        let mut failing: Option<Instant> = None;
        loop {
            self.look().await?;
            let batch = match reader.read().await {
                Ok(Some(batch)) => batch,
                Ok(None) => {
                    self.beat().await?;
                    continue;
                }
                // A node has gone, perhaps: it is read again behind what was read.
                Err(FeedEnd::Failed(error)) if is_temporary(&error) => {
                    let since = *failing.get_or_insert(self.kernel.now());
                    if self.kernel.now().since(since) > PATIENCE {
                        return Err(error);
                    }
                    self.kernel.sleep(AGAIN).await?;
                    reader = reader_behind(&self.kernel, delivered);
                    continue;
                }
                Err(end) => return Ok(end),
            };
            failing = None;
            for change in batch.epochs.iter().flat_map(|(_, changes)| changes) {
                let position = Position::of(change.epoch, change.number);
                if position > seen {
                    self.change(change).await?;
                    seen = position;
                }
            }
            delivered = batch.through;
            self.behind = Position::behind(batch.through).to_string();
            self.beat().await?;
        }
    }

    /// Sends the snapshot; the epoch that it is of.
    async fn snapshot(
        &mut self,
        condition: Option<&sql_parser::ast::Expr>,
        at: u64,
    ) -> Result<Result<Epoch, FeedEnd>, SqlError> {
        let tables = self.feed.settings.table_ids();
        let mut snapshot = match Snapshot::open(&self.kernel, &tables, condition, at).await {
            Ok(snapshot) => snapshot,
            Err(end) => return Ok(Err(end)),
        };
        loop {
            let rows = match snapshot.next().await {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(end) => return Ok(Err(end)),
            };
            for row in &rows {
                self.change(row).await?;
            }
            self.look().await?;
        }
        let epoch = snapshot.epoch();
        self.behind = Position::behind(epoch).to_string();
        self.mark().await?;
        Ok(Ok(epoch))
    }

    async fn change(&mut self, change: &Change) -> Result<(), SqlError> {
        let position = change.position();
        let (database, table) = change.known.name();
        let value = self.form.format.text(&self.feed.settings.name, change);
        self.out.row(&[
            Datum::text(&position),
            Datum::text(change.operation.letter()),
            Datum::text(database),
            Datum::text(table),
            Datum::UInt(change.at / 1_000),
            Datum::text(&value),
        ]);
        self.behind = position;
        self.sent = self.kernel.now();
        if self.out.is_full() {
            self.out.drain().await;
            self.check_connection()?;
        }
        Ok(())
    }

    /// Says how far the feed has been read, if nothing was said for long.
    async fn beat(&mut self) -> Result<(), SqlError> {
        let out = self.out.link().0.clone();
        // What was written goes out: nothing may follow for long.
        out.drain().await;
        if self.kernel.now().since(self.sent) >= HEARTBEAT {
            self.mark().await
        } else {
            self.check_connection()
        }
    }

    /// A row without a change: all up to its position was sent.
    async fn mark(&mut self) -> Result<(), SqlError> {
        let none = || Datum::Null;
        let row = [Datum::text(&self.behind), Datum::text("h"), none(), none(), none(), none()];
        self.out.row(&row);
        self.sent = self.kernel.now();
        self.out.drain().await;
        self.check_connection()
    }

    fn check_connection(&self) -> Result<(), SqlError> {
        let unwanted = self.out.is_unwanted().then_some(Goodbye::Killed);
        if let Some(goodbye) = self.out.link().0.goodbye_of_endless().or(unwanted) {
            return Err(goodbye.error());
        }
        Ok(self.kernel.check_interrupt()?)
    }

    /// Looks now and then whether the feed still runs.
    async fn look(&mut self) -> Result<(), SqlError> {
        self.check_connection()?;
        let now = self.kernel.now();
        if now.since(self.looked) < LOOK {
            return Ok(());
        }
        self.looked = now;
        let name = &self.feed.settings.name;
        let found = match row::numbered(&self.kernel, self.feed.number).await {
            Ok(found) => found,
            Err(Failure::Interrupted(why)) => return Err(Failure::Interrupted(why).into()),
            // A node may be gone: it is looked at again.
            Err(_) => return Ok(()),
        };
        let found = found.filter(|found| found.settings.name == *name);
        let Some(found) = found else {
            let why = format!("change feed '{name}' was dropped, behind {}", self.behind);
            return Err(failed(&why));
        };
        if found.settings.begins != self.feed.settings.begins {
            let why = format!(
                "change feed '{name}' was begun anew, behind {}: read it without FROM",
                self.behind
            );
            return Err(failed(&why));
        }
        let behind = &self.behind;
        check(&found).map_err(|error| failed(&format!("{}, behind {behind}", error.message())))
    }
}
