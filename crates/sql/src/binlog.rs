//! The binary log of MySQL, served by any SQL node from a change stream that the data nodes keep.
//!
//! Walk-through: `docs/internals/streams.md`; why it is so: `docs/decisions/0076-binary-log.md`.
//!
//! # Owns
//! Switching the log on and off, and its statements; a dump of it for a reader.
//! # Guarantees
//! SQL nodes keep nothing of it: names of files, positions, GTIDs and bytes follow from epochs, so
//! a reader goes on at another SQL node where it was.
//! # Not here
//! Packets (`connection`), bytes of events (`mysql-wire`), records of changes of definitions
//! (`definition_log`).

pub(crate) mod epochs;
mod history;
mod json;
mod order;
pub(crate) mod origin;
mod place;
mod reader;
pub(crate) mod table;
mod value;

#[cfg(test)]
pub(crate) use json::binary as json_binary;

use client::{Delivery, Subscription};
use model::cluster::{BINLOG_STREAMS, CHANGEFEED_STREAMS};
use model::{Epoch, SchemaChange, StreamId};
use mysql_wire::BinlogDump;
use mysql_wire::binlog::{self, Stamp, gtid, kind};
use sql_expression::SqlError;
use sqltype::Datum;
use stdx::{Duration, Instant};

use crate::definition_log;
use crate::error::unsupported;
use crate::kernel::{Failure, Kernel};
use crate::session::Session;
use crate::variables::registry;
use crate::variables::session::shown_text;
use epochs::ReadError;
use place::{Log, file_name, file_named, file_of, file_of_number};
use reader::{End, LogReader, Piece};

/// For how long it is tried to begin a log.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Records are kept for so many epochs behind the oldest one that is kept.
const EPOCHS_AFTER: u64 = 8_192;
/// The first position of a file.
const FIRST_POSITION: u64 = binlog::MAGIC.len() as u64;

/// Error 1236: what a replica shows as the reason why it has stopped.
/// Replicas put their own beginning of the sentence before it.
fn fatal(why: &str) -> SqlError {
    SqlError::new(1236, "HY000", why)
}

const NO_FILE: &str = "Could not find first log file name in binary log index file";

impl From<ReadError> for SqlError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Purged(_) => fatal(NO_FILE),
            ReadError::TooLong => {
                fatal("a file of the binary log is longer than 4 GB: write less in an epoch")
            }
            ReadError::Unreadable(why) => {
                fatal(&format!("{why}: make the replica anew from a dump"))
            }
            ReadError::Failed(error) => error,
        }
    }
}

/// The log that the cluster keeps, if it keeps one.
async fn log_of(session: &Session) -> Result<Option<Log>, SqlError> {
    let kernel = session.kernel.beside();
    let began = kernel.now();
    loop {
        let cluster = kernel.cluster();
        let kept =
            BINLOG_STREAMS.iter().find_map(|name| Some((*name, cluster.streams.get(*name)?)));
        let Some((name, stream)) = kept else { return Ok(None) };
        let generation = cluster.restarts.len() as u32;
        let log = |begin| {
            let json_is_text = name == BINLOG_STREAMS[1];
            let uuid = place::uuid_of(cluster.id);
            Log { stream: stream.id, begin, json_is_text, server: server_id(session), uuid }
        };
        if let Some(begin) = definition_log::beginning(&kernel, stream.id, generation).await? {
            return Ok(Some(log(begin)));
        }
        let questions = client::opening(stream.id, &cluster);
        let answers = kernel.fetch_stream(questions.clone()).await?;
        if let Some(first) = client::opened(&questions, &answers)
            && first.generation() == generation
        {
            let begin = definition_log::begin(&kernel, stream.id, generation, first).await?;
            return Ok(Some(log(begin)));
        }
        if kernel.now().since(began) > PATIENCE {
            let text = "The binary log cannot begin: not all data nodes are there. Try again later";
            return Err(SqlError::new(1296, "HY000", text));
        }
        kernel.sleep(PAUSE).await?;
    }
}

fn global(session: &Session, name: &str) -> Option<String> {
    registry::find(name).and_then(|variable| shown_text(session, variable, true))
}

/// `server_id`, which all events have.
pub(crate) fn server_id(session: &Session) -> u32 {
    global(session, "server_id").and_then(|id| id.parse().ok()).unwrap_or(1)
}

/// Switches the log on or off, for the whole cluster.
///
/// # Errors
/// While a node is too old for change streams.
pub(crate) async fn switch(session: &Session, on: bool) -> Result<(), SqlError> {
    let kernel = session.kernel.beside();
    if on == kernel.keeps_binlog() {
        return Ok(());
    }
    if on {
        let as_text = global(session, "nines_binlog_json").is_some_and(|form| form == "TEXT");
        let name = BINLOG_STREAMS[usize::from(as_text)].to_owned();
        let keep = SchemaChange::KeepStream { name, tables: Vec::new() };
        if !kernel.all_know(keep.since()) {
            return Err(unsupported("the binary log while a node has an older version"));
        }
        kernel.change_schema(keep).await?;
        log_of(session).await?;
        return Ok(());
    }
    for name in BINLOG_STREAMS {
        kernel.change_schema(SchemaChange::DropStream { name: name.to_owned() }).await?;
    }
    Ok(forget_records(&kernel, Epoch(u64::MAX >> 2)).await?)
}

/// The newest epoch that a statement of the session sees.
async fn newest(session: &Session) -> Result<Epoch, SqlError> {
    if let Some(snapshot) = session.transaction.snapshot {
        return Ok(snapshot);
    }
    Ok(session.kernel.beside().newest_complete().await?)
}

/// The number of the first file of which everything is there.
async fn first_file(session: &Session, log: &Log) -> Result<u64, SqlError> {
    let kernel = session.kernel.beside();
    let mut subscription = Subscription::new(log.stream, Epoch(log.begin.0.saturating_sub(1)));
    loop {
        let fetches = subscription.fetches(&kernel.cluster());
        let answers = kernel.fetch_stream(fetches.clone()).await?;
        match subscription.take(&fetches, answers) {
            Delivery::Nothing => kernel.sleep(PAUSE).await?,
            Delivery::Epochs { .. } => return Ok(log.first_file()),
            Delivery::Broken { from } => {
                let file = file_of(from);
                let is_whole = log.first_of(file).is_some_and(|first| first >= from);
                return Ok(if is_whole { file } else { file + 1 });
            }
        }
    }
}

/// Where the log ends for a session: behind all that it sees.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    /// The name of the file.
    pub(crate) file: String,
    /// The position in it.
    pub(crate) position: u64,
    /// The GTIDs of all before, as text.
    pub(crate) executed: String,
}

/// SHOW BINARY LOG STATUS. In a transaction with a snapshot it is the end of what the snapshot has,
/// so that a dump made in it can be followed without a gap.
pub(crate) async fn status(session: &Session) -> Result<Option<Status>, SqlError> {
    let Some(log) = log_of(session).await? else { return Ok(None) };
    // Of a log that has begun just now nothing may be complete.
    let epoch = newest(session).await?.max(Epoch(log.begin.0.saturating_sub(1)));
    let file = file_of(epoch).max(log.first_file());
    let end = LogReader::new(&session.kernel, &log, file)?.find_end(epoch, drop).await?;
    let End { file, position, number } = end;
    let executed = format!("{}:1-{number}", gtid::text(&log.uuid));
    let executed = if number == 0 { String::new() } else { executed };
    Ok(Some(Status { file: file_name(file), position, executed }))
}

/// `gtid_executed` and `gtid_purged`: all transactions that the log has had, and those that it has
/// no more. None if there is no log.
pub(crate) async fn gtids(session: &Session) -> Result<Option<(String, String)>, SqlError> {
    let (Some(log), Some(status)) = (log_of(session).await?, status(session).await?) else {
        return Ok(None);
    };
    let first = first_file(session, &log).await?;
    let purged = match place::numbers_above(first) {
        0 => String::new(),
        number => format!("{}:1-{number}", gtid::text(&log.uuid)),
    };
    Ok(Some((status.executed, purged)))
}

/// Forgets records of changes of definitions that were made long before all that is kept.
pub(crate) async fn prune(session: &Session) -> Result<(), SqlError> {
    let kernel = session.kernel.beside();
    let mut before = Epoch(u64::MAX >> 2);
    if let Some(log) = log_of(session).await? {
        let Some(from) = first_kept(&kernel, log.stream).await? else { return Ok(()) };
        before = from;
    }
    Ok(forget_records(&kernel, before).await?)
}

/// Forgets records of changes that were made before an epoch, and long before all that change feeds
/// may still read.
pub(crate) async fn forget_records(kernel: &Kernel, before: Epoch) -> Result<(), Failure> {
    let mut before = before;
    let cluster = kernel.cluster();
    let feeds = cluster.streams.iter().filter(|(name, _)| name.starts_with(CHANGEFEED_STREAMS));
    for (_, stream) in feeds {
        let Some(from) = first_kept(kernel, stream.id).await? else { return Ok(()) };
        before = before.min(from);
    }
    // Who writes by a definition that is gone knows of that within seconds.
    let before = Epoch(before.0.saturating_sub(EPOCHS_AFTER));
    definition_log::forget(kernel, before).await
}

/// The first epoch that is kept of a stream; none while that is not known.
async fn first_kept(kernel: &Kernel, stream: StreamId) -> Result<Option<Epoch>, Failure> {
    // What nobody has makes each replica say what it has.
    let mut subscription = Subscription::new(stream, Epoch(0));
    for _ in 0..REPLICAS_MAX {
        let fetches = subscription.fetches(&kernel.cluster());
        let answers = kernel.fetch_stream(fetches.clone()).await?;
        if let Delivery::Broken { from } = subscription.take(&fetches, answers) {
            return Ok(Some(from));
        }
    }
    Ok(None)
}

/// Each replica of a slot is asked once, at least.
const REPLICAS_MAX: u32 = 8;

/// SHOW BINARY LOGS: names and sizes of the files. None if there is no log.
pub(crate) async fn files(session: &Session) -> Result<Option<Vec<(String, u64)>>, SqlError> {
    let Some(log) = log_of(session).await? else { return Ok(None) };
    let first = first_file(session, &log).await?;
    let epoch = newest(session).await?.max(Epoch(log.begin.0.saturating_sub(1)));
    let reader = LogReader::new(&session.kernel, &log, first.min(file_of(epoch)))?;
    let mut sizes: Vec<(String, u64)> = Vec::new();
    let mut last = None;
    let take = |piece: Piece| {
        let length: usize = piece.events.iter().map(Vec::len).sum();
        let end = piece.begins + length as u64;
        if last != Some(piece.file) {
            last = Some(piece.file);
            sizes.push((file_name(piece.file), end));
        } else if let Some((_, size)) = sizes.last_mut() {
            *size = end;
        }
    };
    let end = reader.find_end(epoch, take).await?;
    // What was read beyond is no part of the answer.
    let name = file_name(end.file);
    let known = sizes.iter().position(|(file, _)| *file == name);
    sizes.truncate(known.map_or(sizes.len(), |at| at + 1));
    if let Some((_, size)) = sizes.last_mut() {
        *size = end.position;
    }
    Ok(Some(sizes))
}

/// An event as SHOW BINLOG EVENTS lists it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) file: String,
    pub(crate) begins: u64,
    pub(crate) kind: &'static str,
    pub(crate) server: u32,
    pub(crate) ends: u64,
    pub(crate) info: String,
}

/// SHOW BINLOG EVENTS: of a file, or of the first one, from a position on.
pub(crate) async fn events(
    session: &Session,
    file: Option<&str>,
    position: u64,
    most: usize,
) -> Result<Option<Vec<Listed>>, SqlError> {
    let Some(log) = log_of(session).await? else { return Ok(None) };
    let missing = || {
        let text = "Error when executing command SHOW BINLOG EVENTS: Could not find target log";
        SqlError::new(1220, "HY000", text)
    };
    let file = match file {
        Some(name) => file_named(name).ok_or_else(missing)?,
        None => first_file(session, &log).await?,
    };
    let newest = newest(session).await?;
    if file > file_of(newest) || log.first_of(file).is_none() {
        return Err(missing());
    }
    let end_of_file = place::last_of(file);
    let mut listed = Vec::new();
    let take = |piece: Piece| {
        let mut begins = piece.begins;
        for event in &piece.events {
            let ends = begins + event.len() as u64;
            if piece.file == file && begins >= position && listed.len() < most {
                let server = event[5..].first_chunk().copied().map(u32::from_le_bytes);
                listed.push(Listed {
                    file: file_name(piece.file),
                    begins,
                    kind: kind_name(event[4]),
                    server: server.unwrap_or(log.server),
                    ends,
                    info: binlog::info::info(event),
                });
            }
            begins = ends;
        }
    };
    let reader = LogReader::new(&session.kernel, &log, file)?;
    reader.find_end(newest.min(end_of_file), take).await?;
    Ok(Some(listed))
}

fn kind_name(kind: u8) -> &'static str {
    match kind {
        kind::QUERY => "Query",
        kind::ROTATE => "Rotate",
        kind::FORMAT_DESCRIPTION => "Format_desc",
        kind::XID => "Xid",
        kind::TABLE_MAP => "Table_map",
        kind::INCIDENT => "Incident",
        kind::WRITE_ROWS => "Write_rows",
        kind::UPDATE_ROWS => "Update_rows",
        kind::DELETE_ROWS => "Delete_rows",
        kind::GTID => "Gtid",
        kind::PREVIOUS_GTIDS => "Previous_gtids",
        _ => "Unknown",
    }
}

/// Up to what PURGE BINARY LOGS lets go.
#[derive(Clone, Debug)]
pub(crate) enum Purge {
    /// The files before this one.
    To(String),
    /// The files whose transactions were all committed before this second since 1970.
    Before(u32),
}

/// PURGE BINARY LOGS. Readers that are further back are told that it is gone.
pub(crate) async fn purge(session: &Session, purge: &Purge) -> Result<(), SqlError> {
    let no_log = || SqlError::new(1373, "HY000", "Target log not found in binlog index");
    let Some(log) = log_of(session).await? else { return Ok(()) };
    let newest = newest(session).await?.max(Epoch(log.begin.0.saturating_sub(1)));
    let file = match purge {
        Purge::To(name) => file_named(name).ok_or_else(no_log)?,
        Purge::Before(time) => {
            let first = first_file(session, &log).await?;
            // The newest file that is known to have events of before, and the first one with later
            // ones. When the oldest events were, nobody knows any more: they have no stamp.
            let (mut known, mut later) = (first, None);
            let take = |piece: Piece| {
                let stamps = piece.events.iter().filter_map(|event| event.first_chunk::<4>());
                for stamp in stamps.map(|stamp| u32::from_le_bytes(*stamp)) {
                    if stamp >= *time {
                        later.get_or_insert(piece.file);
                    } else if stamp > 0 {
                        known = piece.file;
                    }
                }
            };
            let reader = LogReader::new(&session.kernel, &log, first)?;
            reader.find_end(newest, take).await?;
            later.map_or(known, |later| later.min(known))
        }
    };
    let first = log.first_of(file).ok_or_else(no_log)?;
    if file > file_of(newest).max(log.first_file()) {
        return Err(no_log());
    }
    let kernel = session.kernel.beside();
    kernel.acknowledge_stream(log.stream, Epoch(first.0.saturating_sub(1)));
    Ok(forget_records(&kernel, first).await?)
}

/// A dump of the log for a reader.
#[derive(Debug)]
pub(crate) struct Dump {
    reader: LogReader,
    /// Events of the first file that end at this position or before are not wanted.
    from: (u64, u64),
    /// Transactions up to this number are not wanted.
    above: u64,
    /// Whether the reader takes checksums.
    has_checksums: bool,
    /// How long nothing is sent before a heartbeat is.
    heartbeat: Option<Duration>,
    sent: Instant,
    /// The epoch behind which it ends.
    until: Option<Epoch>,
    /// The newest epoch when it began.
    newest: Epoch,
    server: u32,
    is_checked: bool,
    first: bool,
}

impl Dump {
    /// Begins a dump.
    ///
    /// # Errors
    /// 1236 when the log has not what is asked for.
    pub(crate) async fn begin(session: &Session, asked: &BinlogDump) -> Result<Self, SqlError> {
        let log = log_of(session).await?.ok_or_else(|| fatal("Binary log is not open"))?;
        let newest = newest(session).await?.max(Epoch(log.begin.0.saturating_sub(1)));
        let mut above = 0;
        let from = match &asked.has {
            Some(has) => {
                let malformed = |_| fatal("The set of GTIDs of the replica cannot be read");
                above = gtid::highest_of(has, &log.uuid).map_err(malformed)?;
                let file = match above {
                    0 => first_file(session, &log).await?,
                    _ => file_of_number(above),
                };
                // What comes next for this replica may have been in a log of before.
                if file < log.first_file() {
                    return Err(fatal(NO_FILE));
                }
                (file, FIRST_POSITION)
            }
            None if asked.file.is_empty() => (first_file(session, &log).await?, asked.position),
            None => {
                let name = String::from_utf8_lossy(&asked.file);
                let file = file_named(&name).ok_or_else(|| fatal(NO_FILE))?;
                (file, asked.position)
            }
        };
        if from.0 > file_of(newest).max(log.first_file()) {
            return Err(fatal(NO_FILE));
        }
        if from.1 < FIRST_POSITION {
            return Err(fatal("Client requested source to start replication from position < 4"));
        }
        let text = |name: &str| match session.user_variables.get(name).map(|one| &one.value) {
            Some(Datum::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            Some(Datum::Int(number)) => Some(number.to_string()),
            Some(Datum::UInt(number)) => Some(number.to_string()),
            _ => None,
        };
        let either = |name: &str| {
            text(&format!("source_{name}")).or_else(|| text(&format!("master_{name}")))
        };
        let has_checksums =
            either("binlog_checksum").is_some_and(|kind| kind.eq_ignore_ascii_case("CRC32"));
        let nanos = either("heartbeat_period").and_then(|nanos| nanos.parse::<u64>().ok());
        Ok(Self {
            reader: LogReader::new(&session.kernel, &log, from.0)?,
            from,
            above,
            has_checksums,
            heartbeat: nanos.filter(|nanos| *nanos > 0).map(Duration::from_nanos),
            sent: session.kernel.now(),
            until: asked.to_the_end.then_some(newest),
            newest,
            server: log.server,
            is_checked: false,
            first: true,
        })
    }

    /// The next events for the reader: none where it is to be asked again, nothing at the end.
    ///
    /// # Errors
    /// 1236 when the log has what is next no more, or never had it.
    pub(crate) async fn next(&mut self, now: Instant) -> Result<Option<Vec<Vec<u8>>>, SqlError> {
        let mut out = Vec::new();
        if std::mem::take(&mut self.first) {
            let stamp = Stamp { timestamp: 0, server: self.server };
            let (name, position) = (file_name(self.from.0), self.from.1);
            let rotate = binlog::event(kind::ROTATE, stamp, None, binlog::ARTIFICIAL, |out| {
                binlog::rotate(out, position, &name);
            });
            out.push(rotate);
        }
        while out.len() < EVENTS_MAX
            && let Some(piece) = self.reader.take()
        {
            self.give(piece, &mut out)?;
        }
        if out.is_empty() {
            self.check_position()?;
            if self.until.is_some_and(|until| self.reader.through() >= until) {
                return Ok(None);
            }
            // What is read has still to be sent: a heartbeat tells the place before it.
            let End { file, position, .. } = self.reader.end();
            self.reader.read().await?;
            if let Some(period) = self.heartbeat
                && now.since(self.sent) >= period
            {
                // Not behind the place that the replica has reached, as long as the file is read
                // from its beginning.
                let (file, position) = (file, position).max(self.from);
                out.push(binlog::heartbeat(self.server, &file_name(file), position));
            }
        }
        if !out.is_empty() {
            self.sent = now;
        }
        if !self.has_checksums {
            out = out.iter().map(|event| binlog::without_checksum(event)).collect();
        }
        Ok(Some(out))
    }

    /// Adds those events of a piece that are wanted.
    fn give(&mut self, piece: Piece, out: &mut Vec<Vec<u8>>) -> Result<(), SqlError> {
        if piece.number.is_some_and(|number| number <= self.above) {
            return Ok(());
        }
        let mut begins = piece.begins;
        for event in piece.events {
            let ends = begins + event.len() as u64;
            let is_before = piece.file == self.from.0 && begins < self.from.1;
            if !is_before {
                self.is_checked |= piece.file > self.from.0 || begins == self.from.1;
                if !self.is_checked {
                    return Err(fatal(
                        "Client requested source to start replication from \
                                      impossible position",
                    ));
                }
                out.push(event);
            } else if event[4] == kind::FORMAT_DESCRIPTION {
                // How the others are to be read.
                out.push(binlog::without_place(&event));
            }
            begins = ends;
        }
        Ok(())
    }

    /// Refuses a position behind the end of the log.
    fn check_position(&mut self) -> Result<(), SqlError> {
        let end = self.reader.end();
        if self.is_checked || self.reader.through() < self.newest {
            return Ok(());
        }
        if end.file == self.from.0 && end.position < self.from.1 {
            let text = "Client requested source to start replication from position > file size";
            return Err(fatal(text));
        }
        if end.file == self.from.0 && end.position > self.from.1 {
            // It would have been found.
            return Err(fatal(
                "Client requested source to start replication from \
                              impossible position",
            ));
        }
        self.is_checked = true;
        Ok(())
    }
}

/// Events that are given at a time, about.
const EVENTS_MAX: usize = 64;
