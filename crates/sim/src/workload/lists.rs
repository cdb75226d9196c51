//! Lists that only grow, and the history of who appended and saw what.
//!
//! Each element is appended once in the run, so what a read returns tells exactly which
//! transactions it saw. The history is judged at the end (`lists/judge.rs`), after Kingsbury and
//! Alvaro, "Elle: inferring isolation anomalies from experimental observations" (2020).

mod judge;

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, ClientRead, OperationAnswer};
use model::{ClusterState, ColumnId, ColumnType, Epoch, ErrorCode, Expression, Refusal, Value};
use stdx::Instant;
use testing::BIGINT;
use wire::LockMode;

use super::{insist, is_kept, judged_unless, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.lists";
const ITEMS: ColumnId = ColumnId(1);
/// Lists that are appended to at a time.
const OPEN_LISTS: u64 = 6;
/// Appends to each list, about.
const LENGTH: u64 = 120;

/// A list: elements in order.
type List = Vec<u32>;

/// A transaction that appends.
#[derive(Debug)]
struct Append {
    /// List and element.
    elements: Vec<(i64, u32)>,
    /// What it read under its locks before it appended; none for a list that was not there.
    saw: Vec<(i64, Option<List>)>,
    /// Restarts of the whole cluster before it.
    generation: usize,
    acknowledged: Option<Instant>,
    ended: Option<Ended>,
    /// Restarts of the whole cluster before somebody told how it ended.
    told: usize,
}

/// A read outside transactions.
#[derive(Debug)]
struct Look {
    list: i64,
    items: List,
    asked: Instant,
    snapshot: Option<Epoch>,
    /// Restarts of the whole cluster before it.
    generation: usize,
}

/// Everything done with lists.
#[derive(Debug, Default)]
pub struct ListBook {
    appends: BTreeMap<u32, Append>,
    looks: Vec<Look>,
}

impl ListBook {
    /// Appends under way or done, and reads.
    pub fn counts(&self) -> (usize, usize) {
        (self.appends.len(), self.looks.len())
    }

    fn end(&mut self, number: u32, ended: &Ended, now: Instant, generation: usize) {
        let append = self.appends.get_mut(&number).expect("begun before");
        if let Ended::Committed(..) = ended {
            append.acknowledged = Some(now);
        }
        append.ended = Some(ended.clone());
        append.told = generation;
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table =
        testing::table(TABLE).column("id", BIGINT).column("items", ColumnType::Variable(60_000));
    let table = insist(session, table.create()).await;
    lab.set_table("lists", table);
}

/// One append, or one look.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    match session.below(10) {
        0..5 => append(session, lab).await,
        5..8 => look(session, lab, None).await,
        _ => {
            let asked = session.now();
            let epoch = session.open_snapshot().await?;
            let mut looked = look(session, lab, Some((epoch, asked))).await;
            if looked.is_ok() && session.percent(40) {
                // Later, and in the same cut.
                session.pause(20).await;
                looked = look(session, lab, Some((epoch, asked))).await;
            }
            session.close_snapshot(epoch).await;
            looked
        }
    }
}

/// A look and nothing else.
pub(super) async fn watch(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    look(session, lab, None).await
}

/// Some of the lists that are open now.
fn draw_lists(session: &Session, lab: &Rc<Lab>) -> Vec<i64> {
    let done = lab.lists.borrow().appends.len() as u64;
    let from = done / LENGTH;
    let mut lists: Vec<i64> = Vec::new();
    for _ in 0..1 + session.below(3) {
        let list = (from + session.below(OPEN_LISTS)) as i64;
        if !lists.contains(&list) {
            lists.push(list);
        }
    }
    lists
}

fn decode(row: &[Value]) -> List {
    let Value::Bytes(bytes) = &row[1] else { panic!("items are bytes") };
    let element = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().expect("four bytes each"));
    bytes.chunks(4).map(element).collect()
}

fn encode(list: &[u32]) -> Value {
    Value::Bytes(list.iter().flat_map(|element| element.to_le_bytes()).collect())
}

/// Reads lists under exclusive locks and writes them back with an element more.
async fn append(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("lists");
    let lists = draw_lists(session, lab);
    let generation = session.generation();
    let mut saw = Vec::new();
    let mut changes = Vec::new();
    let mut elements = Vec::new();
    for list in lists {
        let key = vec![Value::Int(list)];
        let read = ClientOperation::read_locked(table, key.clone(), LockMode::Exclusive);
        let answer = session.run(vec![read]).await?.remove(0);
        let before = match answer {
            Ok(OperationAnswer::Row(row)) => Some(decode(&row)),
            Err(refusal) if refusal.code == ErrorCode::RowNotFound => None,
            Err(refusal) => {
                session.abort().await;
                return passing(Some(refusal));
            }
            Ok(other) => panic!("a row, not {other:?}"),
        };
        let element = lab.number();
        let mut after = before.clone().unwrap_or_default();
        after.push(element);
        changes.push(match before {
            Some(_) => {
                let items = (ITEMS, Expression::Constant(encode(&after)));
                ClientOperation::update(table, key, vec![items])
            }
            None => ClientOperation::insert(table, vec![Value::Int(list), encode(&after)]),
        });
        elements.push((list, element));
        saw.push((list, before));
    }
    if session.generation() != generation {
        session.abort().await;
        return Err(ErrorCode::NodeFailed.into());
    }
    let number = lab.number();
    let append =
        Append { elements, saw, generation, acknowledged: None, ended: None, told: generation };
    lab.lists.borrow_mut().appends.insert(number, append);
    let ended = finish(session, changes).await;
    lab.lists.borrow_mut().end(number, &ended, session.now(), session.generation());
    // Another session has made the list meanwhile: no lock is kept on what is not there.
    judged_unless(ended, |code| code == ErrorCode::RowExists)
}

async fn finish(session: &Session, changes: Vec<ClientOperation>) -> Ended {
    if session.percent(60) {
        return session.autocommit(changes).await;
    }
    match session.run_all(changes).await {
        Ok(_) => session.commit().await,
        Err(refusal) => Ended::Aborted(Some(refusal)),
    }
}

async fn look(
    session: &Session,
    lab: &Rc<Lab>,
    snapshot: Option<(Epoch, Instant)>,
) -> Result<(), Refusal> {
    let table = lab.table("lists");
    let lists = draw_lists(session, lab);
    let asked = snapshot.map_or(session.now(), |(_, asked)| asked);
    let epoch = snapshot.map(|(epoch, _)| epoch);
    let generation = session.generation();
    let reads = lists.iter().map(|list| ClientRead::primary(table, vec![Value::Int(*list)]));
    let rows = session.read(reads.collect(), epoch).await?;
    if session.generation() != generation {
        return Ok(()); // Some of it may be from before the restart, and some from after it.
    }
    let mut book = lab.lists.borrow_mut();
    for (list, row) in lists.into_iter().zip(rows) {
        let items = row.map(|row| decode(&row)).unwrap_or_default();
        book.looks.push(Look { list, items, asked, snapshot: epoch, generation });
    }
    Ok(())
}

/// The lists found at the end are what the history allows.
pub(super) fn check(book: &ListBook, cluster: &ClusterState, rows: &[Vec<Value>]) {
    let lists = rows.iter().map(|row| (super::int(&row[0]), decode(row))).collect();
    judge::Judge::new(book, cluster, lists).check();
}
