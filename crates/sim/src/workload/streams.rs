//! A session that subscribes to a change stream, and keeps the tables of others up with it.
//!
//! What it has and how far it has come is in the books, so the next life of its client goes on
//! where the last one was, as a subscriber does that writes down what it has.
//!
//! Judged by: each change finds the row as it says that it was; as of a snapshot the tables are
//! what the changes of all epochs up to that of the snapshot make of them. The stream breaks off
//! only where limits are small, or when the whole cluster was restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use client::{Delivery, ScanSpec, Subscription};
use model::{Epoch, ErrorCode, Refusal, Row, SchemaChange, StreamId, TableId, Value};
use wire::RowChange;

use super::{Load, passing, scan_snapshot};
use crate::lab::Lab;
use crate::session::Session;

/// The tables of the stream, by the names of the workloads that write them.
const STREAMED: [&str; 4] = ["bank", "counters", "names", "singles"];
/// The name of the stream.
const NAME: &str = "sim";
/// Rounds of questions until a snapshot is reached.
const ROUNDS_MAX: u32 = 400;

/// Rows by their keys.
type Rows = BTreeMap<String, Vec<Value>>;

/// What a subscriber has.
#[derive(Clone, Debug)]
pub struct StreamBook {
    stream: StreamId,
    /// Restarts of the whole cluster before it began.
    generation: usize,
    delivered: Epoch,
    /// Each with the snapshot that it began with.
    tables: BTreeMap<TableId, (Epoch, Rows)>,
    /// When the newest epoch ended, of those of which that is known.
    ended: (Epoch, u64),
}

/// Goes on with the stream until it has reached a snapshot, and compares.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    session.pause(40).await;
    let book = lab.streams.borrow().clone();
    let book = book.filter(|book| book.generation == session.generation());
    let Some(mut book) = book else {
        *lab.streams.borrow_mut() = begin(session, lab, load).await?;
        return Ok(());
    };
    // One table at a time: old images are not kept for long where memory is short.
    let table = tables(lab)[session.below(STREAMED.len() as u64) as usize];
    let (snapshot, [found]) = scan_snapshot(session, [ScanSpec::heap(table)]).await?;
    let mut subscription = Subscription::new(book.stream, book.delivered).after(book.ended.1);
    for _ in 0..ROUNDS_MAX {
        if session.generation() != book.generation {
            return Ok(());
        }
        let fetches = subscription.fetches(&session.cluster());
        let answers = session.fetch_stream(fetches.clone()).await?;
        match subscription.take(&fetches, answers) {
            Delivery::Nothing => session.pause(10).await,
            Delivery::Broken { from } => return broken(session, lab, load, &book, from),
            Delivery::Epochs { through, changes, ended } => {
                book.note_ends(&ended);
                let reached = book.delivered < snapshot && through >= snapshot;
                let later = changes.iter().position(|(epoch, _)| *epoch > snapshot);
                let (before, after) = changes.split_at(later.unwrap_or(changes.len()));
                book.apply(session, before, through);
                if reached && session.generation() == book.generation {
                    book.compare(session, table, snapshot, &found);
                }
                book.apply(session, after, through);
                book.delivered = through;
                *lab.streams.borrow_mut() = Some(book.clone());
                // Sometimes it is as if it had been lost.
                if session.percent(70) {
                    session.acknowledge_stream(book.stream, through).await;
                }
                if through >= snapshot {
                    return Ok(());
                }
            }
        }
    }
    Err(ErrorCode::NodeFailed.into())
}

fn tables(lab: &Lab) -> [TableId; STREAMED.len()] {
    STREAMED.map(|name| lab.table(name))
}

/// Begins a stream, or goes on with the one that is there, from a snapshot on; none if the stream
/// has dropped changes since the snapshot, as it may where limits are small.
async fn begin(
    session: &Session,
    lab: &Rc<Lab>,
    load: &Load,
) -> Result<Option<StreamBook>, Refusal> {
    // In half of the runs the stream has all tables, and the book some of them.
    let all = load.seed.is_multiple_of(2);
    let tables_of_stream = if all { Vec::new() } else { tables(lab).to_vec() };
    let keep = SchemaChange::KeepStream { name: NAME.into(), tables: tables_of_stream };
    let generation = session.generation();
    let stream = match session.schema(keep).await {
        Ok(TableId(id)) => StreamId(id),
        Err(refusal) => return Err(passing(Some(refusal)).expect_err("it passes")),
    };
    for _ in 0..ROUNDS_MAX {
        let fetches = client::opening(stream, &session.cluster());
        let answers = session.fetch_stream(fetches.clone()).await?;
        let Some(first) = client::opened(&fetches, &answers) else {
            session.pause(20).await;
            continue;
        };
        let mut based = BTreeMap::new();
        for table in tables(lab) {
            let (epoch, [rows]) = scan_snapshot(session, [ScanSpec::heap(table)]).await?;
            based.insert(table, (epoch, by_key(session, table, rows)));
        }
        let delivered = based.values().map(|(epoch, _)| *epoch).min().unwrap_or_default();
        if session.generation() != generation {
            break;
        }
        if delivered.next() < first {
            if !load.ample_streams {
                return Ok(None);
            }
            session.pause(20).await;
            continue;
        }
        let ended = (Epoch(0), 0);
        return Ok(Some(StreamBook { stream, generation, delivered, tables: based, ended }));
    }
    Err(ErrorCode::NodeFailed.into())
}

/// The stream has broken off: a new one begins, if that is explained.
fn broken(
    session: &Session,
    lab: &Rc<Lab>,
    load: &Load,
    book: &StreamBook,
    from: Epoch,
) -> Result<(), Refusal> {
    let restarted =
        session.generation() != book.generation || from.generation() != book.delivered.generation();
    assert!(
        restarted || !load.ample_streams,
        "the stream broke off behind {}: {from} is next",
        book.delivered
    );
    *lab.streams.borrow_mut() = None;
    Ok(())
}

fn key_of(session: &Session, table: TableId, row: &[Value]) -> String {
    let definition = session.definition(table).expect("the tables of the run stay");
    let columns = definition.primary_key.iter().map(|column| &row[usize::from(column.0)]);
    columns.map(|value| format!("{value};")).collect()
}

fn by_key(session: &Session, table: TableId, rows: Vec<Vec<Value>>) -> Rows {
    rows.into_iter().map(|row| (key_of(session, table, &row), row)).collect()
}

impl StreamBook {
    /// Makes the changes of some epochs, the next ones up to `through`.
    fn apply(&mut self, session: &Session, epochs: &[(Epoch, Vec<RowChange>)], through: Epoch) {
        for (epoch, changes) in epochs {
            let new = *epoch > self.delivered && *epoch <= through;
            assert!(new, "{epoch} comes behind {} and through {through}", self.delivered);
            for change in changes {
                self.change(session, *epoch, change);
            }
        }
    }

    fn change(&mut self, session: &Session, epoch: Epoch, change: &RowChange) {
        let table = change.partition.table;
        let Some((began, rows)) = self.tables.get_mut(&table) else { return };
        if epoch <= *began {
            return;
        }
        let definition = session.definition(table).expect("the tables of the run stay");
        let values = |row: &Option<Row>| row.as_ref().map(|row| definition.values(&row.0));
        let (before, after) = (values(&change.before), values(&change.after));
        if let Some(before) = before {
            let known = rows.remove(&key_of(session, table, &before));
            let name = &definition.name;
            assert_eq!(known.as_ref(), Some(&before), "{name}, {epoch}: a change is lost");
        }
        if let Some(after) = after {
            let key = key_of(session, table, &after);
            let known = rows.insert(key, after);
            let name = &definition.name;
            assert_eq!(known, None, "{name}, {epoch}: an insertion of a row that is there");
        }
    }

    /// Times ascend with epochs, across subscriptions too: a driver that takes over knows them.
    fn note_ends(&mut self, ended: &[(Epoch, u64)]) {
        for end in ended {
            let (epoch, at) = self.ended;
            assert!(end.0 > epoch && end.1 > at, "{epoch} ended at {at}, and {end:?}");
            self.ended = *end;
        }
    }

    /// Compares a table with what it is in a snapshot.
    fn compare(&self, session: &Session, table: TableId, snapshot: Epoch, found: &[Vec<Value>]) {
        let found = by_key(session, table, found.to_vec());
        let (began, own) = &self.tables[&table];
        assert!(*began <= snapshot, "snapshots are opened in the order of epochs");
        let name = session.definition(table).map(|table| table.name.clone());
        for key in found.keys().chain(own.keys()).collect::<BTreeSet<_>>() {
            assert_eq!(
                own.get(key),
                found.get(key),
                "{name:?}, snapshot {snapshot}: {key} by the stream, and as it is"
            );
        }
    }
}
