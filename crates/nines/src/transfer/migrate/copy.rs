//! Rows of a snapshot of the source, put into the tables here.
//!
//! Some threads read, each by a session of the snapshot; others send each batch as one statement,
//! which is one transaction.
//!
//! # Guarantees
//! 1. A row is there once. A batch of which nobody knows whether it was committed is written again
//!    over what is there, by the primary key; a table without one is emptied and read again, three
//!    times at most.
//! 2. Values are the source's bytes: texts in UTF-8, all others as they are. A value is one
//!    literal: nothing of the source is read as SQL.
//! 3. Memory is bounded: a few batches for each thread, and a batch ends after a megabyte.
//! 4. As many rows are there at the end as were read.
//! # Not here
//! Where snapshots come from (`source`).

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, RawRow, Session};

use super::source::Snapshot;
use super::{Migration, tell};
use crate::transfer::column::{Column, Kind, Precision, Table, bytes_literal, name, text};
use crate::transfer::import::{ATTEMPTS, BATCH_BYTES, OUTCOME_UNKNOWN, PAUSE, locked};
use crate::transfer::{is_temporary, shown};

/// Rows of a table from which on it is cut, and how many a piece has, about.
const CUT_ROWS: u64 = 50_000;
const PIECE_ROWS: u64 = 100_000;
const PIECES_MAX: u64 = 1_024;
/// How often a table without a key is read.
const READS_MAX: u32 = 3;
/// How often progress is told to a terminal, and as lines.
const TELLS: Duration = Duration::from_secs(1);
const TELLS_LINE: Duration = Duration::from_secs(10);

/// A table that is copied.
struct Copied {
    table: Table,
    /// The columns that values are copied of.
    columns: Vec<Column>,
    /// `SELECT … FROM …`.
    select: String,
    /// `INTO … (…) VALUES`.
    into: String,
    rows: AtomicU64,
}

/// A part of a table that is read by one statement.
struct Piece {
    of: Arc<Copied>,
    condition: Option<String>,
    rows: u64,
}

/// A row: its values, and its primary key for errors.
struct Row {
    values: String,
    key: String,
}

/// Rows that are sent at once.
struct Batch {
    of: Arc<Copied>,
    rows: Vec<Row>,
}

/// Why a batch is not there.
enum NotSent {
    /// Nobody knows whether it is, and there is no key to write it again by.
    Unknown,
    Failed(String),
}

/// What the threads share.
struct Work<'a> {
    migration: &'a Migration,
    pieces: Mutex<VecDeque<Piece>>,
    rows: AtomicU64,
    expected: u64,
    failure: Mutex<Option<String>>,
    ends: AtomicBool,
    is_over: AtomicBool,
}

/// Copies the rows of tables, each with the rows that are estimated; how many there were.
pub(super) fn run(
    migration: &Migration,
    snapshot: &mut Snapshot,
    tables: &[(String, String, u64)],
) -> Result<u64, String> {
    let mut target = migration.connect_target()?;
    let mut copied = Vec::new();
    let mut pieces = Vec::new();
    for (database, table, estimate) in tables {
        let table = Table::describe_of(&mut target, database, table)?;
        let of = Arc::new(Copied::new(table));
        let source = snapshot.sessions.first_mut().ok_or("the snapshot has no session")?;
        let cut = cut(&of.table, source, *estimate).map_err(|why| migration.at_source(&why))?;
        let rows = estimate / cut.len().max(1) as u64;
        pieces.extend(cut.into_iter().map(|condition| Piece { of: of.clone(), condition, rows }));
        copied.push(of);
    }
    drop(target);
    // What takes long begins early.
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.rows));
    let work = Work {
        migration,
        pieces: Mutex::new(pieces.into()),
        rows: AtomicU64::new(0),
        expected: tables.iter().map(|(_, _, estimate)| estimate).sum(),
        failure: Mutex::default(),
        ends: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let (sender, receiver) = sync_channel(migration.jobs);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let (work, receiver) = (&work, &receiver);
        let progress = scope.spawn(|| work.tell_progress());
        let writers: Vec<_> = (0..migration.jobs)
            .map(|_| scope.spawn(move || work.write_batches(receiver)))
            .collect();
        let readers: Vec<_> = snapshot
            .sessions
            .iter_mut()
            .map(|session| {
                let sender = sender.clone();
                scope.spawn(move || work.read_pieces(session, &sender))
            })
            .collect();
        drop(sender);
        for thread in readers.into_iter().chain(writers) {
            // A panic is told by its thread; what it was at work on is not done.
            if thread.join().is_err() {
                work.fail("a thread of the import has ended".to_owned());
            }
        }
        work.is_over.store(true, Ordering::Relaxed);
        let _ = progress.join();
    });
    if let Some(why) = work.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    let mut target = migration.connect_target()?;
    let mut all = 0;
    for of in copied {
        let rows = of.rows.load(Ordering::Relaxed);
        let there = target
            .number(&format!("SELECT COUNT(*) FROM {}", of.table.quoted()))
            .map_err(|why| format!("{}: {}", of.full(), shown(&why)))?;
        if u64::try_from(there) != Ok(rows) {
            return Err(format!(
                "{}: {rows} rows were read and {there} are there: somebody else writes to it",
                of.full()
            ));
        }
        all += rows;
    }
    Ok(all)
}

impl Copied {
    fn new(table: Table) -> Self {
        let columns: Vec<Column> =
            table.columns.iter().filter(|column| !column.is_generated).cloned().collect();
        let read: Vec<String> = columns.iter().map(expression).collect();
        let names: Vec<String> = columns.iter().map(|column| name(&column.name)).collect();
        let select = format!("SELECT {} FROM {}", read.join(", "), table.quoted());
        let into = format!("INTO {} ({}) VALUES ", table.quoted(), names.join(", "));
        Self { table, columns, select, into, rows: AtomicU64::new(0) }
    }

    fn full(&self) -> String {
        format!("{}.{}", self.table.database, self.table.name)
    }
}

/// The conditions of the pieces that a table is read in: ranges of its primary key, if that is one
/// whole number and there are many rows.
pub(super) fn cut(
    table: &Table,
    session: &mut Session,
    estimate: u64,
) -> Result<Vec<Option<String>>, QueryError> {
    let whole = vec![None];
    let [key] = &table.key[..] else { return Ok(whole) };
    let is_number = table.column(key).is_some_and(|column| column.kind == Kind::Number);
    if !is_number || estimate < CUT_ROWS {
        return Ok(whole);
    }
    let key = name(key);
    let rows = session.query(&format!("SELECT MIN({key}), MAX({key}) FROM {}", table.quoted()))?;
    let bound = |at: usize| rows.first()?.get(at)?.as_ref()?.parse::<i64>().ok();
    // An empty table, or a key with a point.
    let (Some(least), Some(most)) = (bound(0), bound(1)) else { return Ok(whole) };
    Ok(ranges(&key, least, most, (estimate / PIECE_ROWS + 1).clamp(2, PIECES_MAX)))
}

/// Cuts a range of keys into pieces that together have all rows.
fn ranges(key: &str, least: i64, most: i64, pieces: u64) -> Vec<Option<String>> {
    let (least, most) = (i128::from(least), i128::from(most));
    let pieces = i128::from(pieces).min(most - least + 1).max(1);
    let cut = |at: i128| least + (most - least + 1) * at / pieces;
    let range = |at: i128| match (at == 0, at == pieces - 1) {
        (true, true) => None,
        (true, false) => Some(format!("{key} < {}", cut(1))),
        (false, true) => Some(format!("{key} >= {}", cut(at))),
        (false, false) => Some(format!("{key} >= {} AND {key} < {}", cut(at), cut(at + 1))),
    };
    (0..pieces).map(range).collect()
}

/// What a column is read by at the source.
fn expression(column: &Column) -> String {
    let name = name(&column.name);
    match column.kind {
        Kind::Bits => format!("{name} + 0"),
        // As a DOUBLE, which shows all that it has.
        Kind::Number if column.precision == Precision::Single => format!("{name} + 0E0"),
        _ => name,
    }
}

/// Adds a value of the source as a literal of SQL.
///
/// # Errors
/// Why it cannot be one.
fn add_literal(column: &Column, value: Option<&[u8]>, out: &mut String) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("column {}: {why}", column.name));
    let Some(bytes) = value else {
        out.push_str("NULL");
        return Ok(());
    };
    match column.kind {
        Kind::Bytes => out.push_str(&bytes_literal(bytes)),
        Kind::Bits => {
            if bytes.is_empty() || bytes.len() > 20 || !bytes.iter().all(u8::is_ascii_digit) {
                return wrong("the source sends no number for BIT");
            }
            out.extend(bytes.iter().map(|byte| *byte as char));
        }
        Kind::Text | Kind::Number | Kind::Json => match std::str::from_utf8(bytes) {
            Ok(value) => out.push_str(&text(value)),
            Err(_) => return wrong("the source sends a text that is no UTF-8"),
        },
    }
    Ok(())
}

impl Work<'_> {
    fn fail(&self, why: String) {
        self.ends.store(true, Ordering::Relaxed);
        locked(&self.failure).get_or_insert(why);
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Reads pieces until there are no more.
    fn read_pieces(&self, session: &mut Session, batches: &SyncSender<Batch>) {
        let mut own = None;
        while !self.ends() {
            let next = locked(&self.pieces).pop_front();
            let Some(piece) = next else { return };
            if let Err(why) = self.read_piece(session, &piece, batches, &mut own) {
                self.fail(format!("{}: {why}", piece.of.full()));
            }
        }
    }

    fn read_piece(
        &self,
        session: &mut Session,
        piece: &Piece,
        batches: &SyncSender<Batch>,
        own: &mut Option<Session>,
    ) -> Result<(), String> {
        let of = &piece.of;
        let condition = piece.condition.as_ref().map(|condition| format!(" WHERE {condition}"));
        let statement = format!("{}{}", of.select, condition.unwrap_or_default());
        // Without a key, what is sent has to be known before the next is.
        let is_alone = of.table.key.is_empty();
        let mut reads = 0;
        loop {
            reads += 1;
            let mut batch = Batch { of: of.clone(), rows: Vec::new() };
            let (mut bytes, mut rows, mut outcome) = (0, 0_u64, Ok(()));
            let mut send = |batch: &mut Batch| {
                let rows = std::mem::take(&mut batch.rows);
                let full = Batch { of: batch.of.clone(), rows };
                if is_alone {
                    return self.send_rows(own, &full.of, &full.rows, false);
                }
                // Nobody takes it when all have ended, which is told elsewhere.
                batches.send(full).map_err(|_| NotSent::Failed("the import has ended".to_owned()))
            };
            let asked = session.each_raw_row(&statement, |values| {
                match &outcome {
                    Ok(()) if !self.ends() => {}
                    // The rest is thrown away: the session reads the table again.
                    Err(NotSent::Unknown) if !self.ends() => return Ok(()),
                    _ => return Err(io::ErrorKind::Interrupted.into()),
                }
                match of.row(&values) {
                    Ok(row) => {
                        bytes += row.values.len();
                        batch.rows.push(row);
                        rows += 1;
                    }
                    Err(why) => outcome = Err(NotSent::Failed(why)),
                }
                if bytes >= BATCH_BYTES || batch.rows.len() >= self.migration.batch {
                    bytes = 0;
                    outcome = send(&mut batch);
                }
                Ok(())
            });
            if let Err(NotSent::Failed(why)) = outcome {
                return Err(why);
            }
            if self.ends() {
                return Ok(());
            }
            if let Err(why) = asked {
                let why = self.migration.at_source(&why);
                return Err(format!("{why}; the snapshot of the source is gone with this"));
            }
            if outcome.is_ok() && !batch.rows.is_empty() {
                outcome = send(&mut batch);
            }
            match outcome {
                Ok(()) => {
                    of.rows.fetch_add(rows, Ordering::Relaxed);
                    return Ok(());
                }
                Err(NotSent::Failed(why)) => return Err(why),
                Err(NotSent::Unknown) if reads == READS_MAX => {
                    return Err(format!(
                        "it has no primary key, and {reads} times a connection here was lost while \
                         its rows were sent: look at the log of the SQL node, or give it a key"
                    ));
                }
                Err(NotSent::Unknown) => self.empty(own, of)?,
            }
        }
    }

    /// Empties a table whose rows nobody can tell apart, so that it is read again.
    fn empty(&self, own: &mut Option<Session>, of: &Copied) -> Result<(), String> {
        let statement = format!("TRUNCATE TABLE {}", of.table.quoted());
        for attempt in 1.. {
            match self.try_send(own, &statement) {
                Ok(()) => return Ok(()),
                Err(why) if self.is_passing(&why) && attempt < ATTEMPTS && !self.ends() => {
                    thread::sleep(PAUSE);
                }
                Err(why) => return Err(shown(&why)),
            }
        }
        unreachable!("attempts have an end")
    }

    /// Sends batches until there are no more.
    fn write_batches(&self, batches: &Mutex<Receiver<Batch>>) {
        let mut session = None;
        loop {
            let next = locked(batches).recv();
            let Ok(batch) = next else { return };
            // What is read already is thrown away, so that the readers end.
            if self.ends() {
                continue;
            }
            match self.send_rows(&mut session, &batch.of, &batch.rows, false) {
                Ok(()) => {}
                Err(NotSent::Failed(why)) => self.fail(format!("{}: {why}", batch.of.full())),
                Err(NotSent::Unknown) => self.fail(format!("{}: it has no key", batch.of.full())),
            }
        }
    }

    /// Sends rows as one statement; in halves when the server refuses one of them.
    fn send_rows(
        &self,
        session: &mut Option<Session>,
        of: &Copied,
        rows: &[Row],
        was_doubtful: bool,
    ) -> Result<(), NotSent> {
        let mut is_doubtful = was_doubtful;
        for attempt in 1.. {
            let verb = if is_doubtful { "REPLACE " } else { "INSERT " };
            let values: Vec<&str> = rows.iter().map(|row| row.values.as_str()).collect();
            let statement = format!("{verb}{}{}", of.into, values.join(","));
            let Err(error) = self.try_send(session, &statement) else {
                self.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
                return Ok(());
            };
            if error.code().is_none() || error.code() == Some(OUTCOME_UNKNOWN) {
                is_doubtful = true;
            }
            if is_doubtful && of.table.key.is_empty() {
                return Err(NotSent::Unknown);
            }
            if self.is_passing(&error) {
                if attempt == ATTEMPTS || self.ends() {
                    return Err(NotSent::Failed(shown(&error)));
                }
                thread::sleep(PAUSE);
                continue;
            }
            if let [row] = rows {
                let key = if row.key.is_empty() { "a row" } else { &row.key };
                return Err(NotSent::Failed(format!("{key}: {}", shown(&error))));
            }
            let (first, second) = rows.split_at(rows.len() / 2);
            self.send_rows(session, of, first, is_doubtful)?;
            return self.send_rows(session, of, second, is_doubtful);
        }
        unreachable!("attempts have an end")
    }

    /// Whether an error may pass: somebody else was in the way, a node has failed.
    fn is_passing(&self, error: &QueryError) -> bool {
        error.code().is_none() || error.code() == Some(OUTCOME_UNKNOWN) || is_temporary(error)
    }

    /// One try; a session that is lost is opened again the next time.
    fn try_send(&self, session: &mut Option<Session>, statement: &str) -> Result<(), QueryError> {
        let open = match session {
            Some(open) => open,
            None => match self.migration.connect_target() {
                Ok(opened) => session.insert(opened),
                Err(why) => return Err(QueryError::Lost(io::Error::other(why))),
            },
        };
        let sent = open.execute(statement).map(|_| ());
        if sent.as_ref().is_err_and(closes) {
            *session = None;
        }
        sent
    }

    /// Tells how far it is, until it is over.
    fn tell_progress(&self) {
        let is_terminal = io::stderr().is_terminal();
        let began = Instant::now();
        let mut told = began;
        let mut is_told = false;
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
            if told.elapsed() < if is_terminal { TELLS } else { TELLS_LINE } {
                continue;
            }
            told = Instant::now();
            let rows = self.rows.load(Ordering::Relaxed);
            let line = progress_line(rows, self.expected, began.elapsed());
            if is_terminal {
                is_told = true;
                let _ = io::stderr().write_all(format!("\r{line}    ").as_bytes());
            } else {
                tell(&line);
            }
        }
        if is_told {
            let _ = io::stderr().write_all(b"\n");
        }
    }
}

/// Whether the server closes a connection with this error: it is shut down, or a packet is too long
/// or in disorder.
fn closes(error: &QueryError) -> bool {
    matches!(error.code(), None | Some(1053 | 1152..=1161))
}

/// Rows, their pace, and what is left by what the source estimates.
fn progress_line(rows: u64, expected: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let pace = rows as f64 / seconds;
    let mut line = format!("{rows} rows copied, {pace:.0} a second");
    // Estimates are wrong by much; at the end they say nothing.
    if rows > 0 && rows < expected {
        let share = rows as f64 / expected as f64;
        let left = seconds / share - seconds;
        line += &format!(", about {:.0} %, {left:.0} s left", share * 100.0);
    }
    line
}

impl Copied {
    /// A row of the source as SQL has it.
    fn row(&self, values: &RawRow) -> Result<Row, String> {
        let mut row = Row { values: String::from("("), key: String::new() };
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                row.values.push(',');
            }
            let begin = row.values.len();
            let value = values.get(at).ok_or("the source sends too few values")?;
            add_literal(column, value.as_deref(), &mut row.values)?;
            let is_key = |key: &String| key.eq_ignore_ascii_case(&column.name);
            if self.table.key.iter().any(is_key) {
                let literal: String = row.values[begin..].chars().take(100).collect();
                let comma = if row.key.is_empty() { "" } else { ", " };
                row.key += &format!("{comma}{} = {literal}", column.name);
            }
        }
        row.values.push(')');
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::column::tests::column;

    #[test]
    fn values_of_a_source_are_one_literal() {
        let of = |kind, value: Option<&[u8]>| {
            let mut out = String::new();
            add_literal(&column(kind), value, &mut out).map(|()| out)
        };
        assert_eq!(of(Kind::Text, None).as_deref(), Ok("NULL"));
        assert_eq!(
            of(Kind::Text, Some(b"'); DROP TABLE t -- \\")).as_deref(),
            Ok("'''); DROP TABLE t -- \\\\'")
        );
        assert_eq!(of(Kind::Number, Some(b"1); DROP")).as_deref(), Ok("'1); DROP'"));
        assert_eq!(of(Kind::Bytes, Some(b"\0'\xFF")).as_deref(), Ok("x'0027ff'"));
        assert_eq!(of(Kind::Bytes, Some(b"")).as_deref(), Ok("''"));
        assert_eq!(
            of(Kind::Bits, Some(b"18446744073709551615")).as_deref(),
            Ok("18446744073709551615")
        );
        for (kind, bad) in [
            (Kind::Bits, &b"1); DROP"[..]),
            (Kind::Bits, b""),
            (Kind::Bits, b"111111111111111111111"),
            (Kind::Text, b"\xFF"),
        ] {
            assert!(of(kind, Some(bad)).is_err(), "{kind:?} {bad:?}");
        }
    }

    #[test]
    fn a_session_ends_with_a_packet_that_is_too_long() {
        let refused = |code| QueryError::Refused(code, String::new());
        assert!(closes(&refused(1153)) && closes(&QueryError::Lost(io::Error::other("x"))));
        assert!(!closes(&refused(1062)) && !closes(&refused(1205)));
    }

    #[test]
    fn pieces_have_all_rows_once() {
        for (least, most, pieces) in
            [(0, 9, 3), (-5, 5, 4), (7, 7, 5), (i64::MIN, i64::MAX, 7), (1, 2, 1)]
        {
            let ranges = ranges("k", least, most, pieces);
            let keys = [least, least.saturating_add(1), most.saturating_sub(1), most, 0, 4, 6];
            for key in keys.into_iter().filter(|key| (least..=most).contains(key)) {
                let holds = |condition: &Option<String>| {
                    condition.iter().flat_map(|text| text.split(" AND ")).all(|one| {
                        let (sign, bound) = one[2..].split_once(' ').expect("k < 1");
                        let bound: i64 = bound.parse().expect("a number");
                        if sign == "<" { key < bound } else { key >= bound }
                    })
                };
                assert_eq!(ranges.iter().filter(|one| holds(one)).count(), 1, "{key} {ranges:?}");
            }
        }
    }

    #[test]
    fn progress_tells_what_is_left() {
        let line = progress_line(500, 1_000, Duration::from_secs(10));
        assert_eq!(line, "500 rows copied, 50 a second, about 50 %, 10 s left");
        assert_eq!(
            progress_line(1_500, 1_000, Duration::from_secs(10)),
            "1500 rows copied, 150 a second"
        );
    }
}
