//! Lists that only grow, read and appended to at REPEATABLE READ and at SERIALIZABLE, as the SQL
//! layer does.
//!
//! Each element is appended once in the run, so what was read tells which transactions were seen.
//! Lists begin when somebody appends to them: who has read that there is none must not have missed
//! it. A list is found by its key, by a range of an index, or among all rows.
//!
//! Judged at the end, after Kingsbury and Alvaro, "Elle: inferring isolation anomalies from
//! experimental observations" (2020):
//!
//! - **SERIALIZABLE**: writes, reads and what was not yet read make dependencies between
//!   transactions, those that only read a snapshot among them. They have no cycle: no G0, G1c,
//!   G-single or G2, neither of items nor of predicates.
//! - **REPEATABLE READ**: what a transaction reads of a list is what committed up to its snapshot
//!   and nothing else, or what it has written itself, whatever others have committed to that list
//!   meanwhile. So there are no fractured, fuzzy or phantom reads, and no reads of aborted or half
//!   done transactions. Lost updates cannot be, as lists are locked before they are appended to.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use client::{ClientOperation, ClientRead, IndexBound, OperationAnswer, ScanRange, ScanSpec};
use model::{
    ClusterState, ColumnId, ColumnType, Epoch, ErrorCode, Expression, Refusal, TableId, Value,
};
use testing::BIGINT;
use wire::LockMode;

use super::{insist, int, is_kept, judged, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const ITEMS: ColumnId = ColumnId(2);
/// Lists that are used at a time: few, so that sessions meet.
pub(crate) const OPEN_LISTS: u64 = 4;
/// Transactions after which the next list is opened.
const LENGTH: u64 = 15;
/// A range of the index has every third list.
const GROUPS: i64 = 3;

/// The levels, and the tables that are used at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    /// The name of the table.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Level::ReadCommitted => "committed",
            Level::RepeatableRead => "repeatable",
            Level::Serializable => "serializable",
        }
    }
}

/// A list: elements in order.
pub(crate) type List = Vec<u32>;
/// Lists by number. One that was looked for and is not there is empty.
pub(crate) type Lists = BTreeMap<i64, List>;

/// A transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) level: Level,
    /// What it has read of others, each list the first time; at READ COMMITTED each time.
    pub(crate) reads: Vec<(i64, List)>,
    /// What it has appended: of a list what was there before, and the element.
    pub(crate) appends: Vec<(i64, List, u32)>,
    pub(crate) snapshot: Option<Epoch>,
    /// Restarts of the whole cluster before it.
    pub(crate) generation: usize,
    pub(crate) ended: Option<Ended>,
}

impl Transaction {
    /// One that has done nothing.
    pub(crate) fn new(level: Level, generation: usize) -> Self {
        let (reads, appends) = (Vec::new(), Vec::new());
        Self { level, reads, appends, snapshot: None, generation, ended: None }
    }

    /// What the transaction itself has made of a list, if it has appended to that.
    pub(crate) fn own(&self, list: i64) -> Option<List> {
        let (_, before, element) = self.appends.iter().rfind(|(appended, ..)| *appended == list)?;
        Some(before.iter().chain([element]).copied().collect())
    }

    /// What it has read of a list of others, the first time.
    pub(crate) fn first_read(&self, list: i64) -> Option<&List> {
        self.reads.iter().find(|(read, _)| *read == list).map(|(_, items)| items)
    }

    /// Takes down what was found in a list, or judges it: own changes are seen, and what was read
    /// before is there unless the level lets others change it.
    pub(crate) fn found(&mut self, list: i64, items: List) {
        if let Some(own) = self.own(list) {
            assert_eq!(items, own, "list {list} is as the transaction left it");
            return;
        }
        match self.first_read(list) {
            Some(first) if self.level != Level::ReadCommitted => {
                assert_eq!(items, *first, "list {list} is as it was read before");
            }
            _ => self.reads.push((list, items)),
        }
    }
}

/// Everything done at the two levels.
#[derive(Debug, Default)]
pub struct LevelBook {
    pub(crate) transactions: BTreeMap<u32, Transaction>,
}

impl LevelBook {
    /// Lists that are used now.
    pub(crate) fn open(&self) -> std::ops::Range<i64> {
        let from = (self.transactions.len() as u64 / LENGTH) as i64;
        from..from + OPEN_LISTS as i64
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    for level in [Level::RepeatableRead, Level::Serializable] {
        let table = testing::table(format!("sim.{}", level.table()))
            .column("id", BIGINT)
            .column("list_group", BIGINT)
            .column("items", ColumnType::Variable(60_000));
        let table = insist(session, table.index("by_group", ["list_group"]).create()).await;
        lab.set_table(level.table(), table);
    }
}

/// One transaction.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    match session.below(10) {
        0..5 => serializable(session, lab).await,
        5..7 => read_only(session, lab).await,
        _ => repeatable(session, lab).await,
    }
}

/// How a transaction reads.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// What is read is locked or guarded.
    Guarded,
    /// As of an epoch.
    Snapshot(Epoch),
    /// As of an epoch, with the transaction's own changes.
    Overlay(Epoch),
}

/// A transaction under way.
struct Work<'s> {
    session: &'s Session,
    table: TableId,
    open: std::ops::Range<i64>,
    mode: Mode,
    transaction: Transaction,
}

impl<'s> Work<'s> {
    fn new(session: &'s Session, lab: &Rc<Lab>, level: Level, mode: Mode) -> Self {
        let snapshot = match mode {
            Mode::Guarded => None,
            Mode::Snapshot(epoch) | Mode::Overlay(epoch) => Some(epoch),
        };
        let mut transaction = Transaction::new(level, session.generation());
        transaction.snapshot = snapshot;
        let (table, open) = (lab.table(level.table()), lab.levels.borrow().open());
        Self { session, table, open, mode, transaction }
    }

    fn draw(&self) -> i64 {
        self.open.start + self.session.below(OPEN_LISTS) as i64
    }

    /// Reads some of the lists in one of the ways, and takes down or judges what is found.
    async fn read(&mut self) -> Result<(), Refusal> {
        let index = self.session.definition(self.table).map(|table| table.ordered_indexes[0].id);
        let found = match (self.session.below(3), index) {
            (0, _) | (_, None) => {
                let list = self.draw();
                Lists::from([(list, self.by_key(list).await?.unwrap_or_default())])
            }
            (1, Some(index)) => {
                let group = self.session.below(GROUPS as u64) as i64;
                let bound = Some(IndexBound::including(vec![Value::Int(group)]));
                let range =
                    ScanRange::Index { index, lower: bound.clone(), upper: bound, order: None };
                self.scan(range, |list| list % GROUPS == group).await?
            }
            (_, Some(_)) => self.scan(ScanRange::Heap, |_| true).await?,
        };
        if self.session.generation() != self.transaction.generation {
            self.session.abort().await;
            return Err(ErrorCode::NodeFailed.into());
        }
        for (list, items) in found {
            self.transaction.found(list, items);
        }
        Ok(())
    }

    async fn by_key(&self, list: i64) -> Result<Option<List>, Refusal> {
        let key = vec![Value::Int(list)];
        let read = match self.mode {
            Mode::Guarded => ClientOperation::read_locked(self.table, key, LockMode::Shared),
            Mode::Overlay(epoch) => ClientOperation::read_at(self.table, key, epoch),
            Mode::Snapshot(epoch) => {
                let read = vec![ClientRead::primary(self.table, key)];
                let rows = self.session.read(read, Some(epoch)).await?;
                return Ok(rows.into_iter().flatten().next().map(|row| decode(&row)));
            }
        };
        self.row_of(read).await
    }

    async fn row_of(&self, read: ClientOperation) -> Result<Option<List>, Refusal> {
        match self.session.run(vec![read]).await?.remove(0) {
            Ok(OperationAnswer::Row(row)) => Ok(Some(decode(&row))),
            Ok(other) => panic!("a row, not {other:?}"),
            Err(refusal) if refusal.code == ErrorCode::RowNotFound => Ok(None),
            Err(refusal) => {
                self.session.abort().await;
                Err(refusal)
            }
        }
    }

    /// The lists that a scan finds, and the open ones of its range that it does not find.
    async fn scan(
        &self,
        range: ScanRange,
        is_in_range: impl Fn(i64) -> bool,
    ) -> Result<Lists, Refusal> {
        let (guarded, snapshot, in_transaction) = match self.mode {
            Mode::Guarded => (true, None, true),
            Mode::Snapshot(epoch) => (false, Some(epoch), false),
            Mode::Overlay(epoch) => (false, Some(epoch), true),
        };
        let heap = ScanSpec::heap(self.table);
        let spec = ScanSpec { range, guarded, snapshot, in_transaction, ..heap };
        let rows = match self.session.scan(spec).await {
            Ok(rows) => rows,
            Err(refusal) => {
                self.session.abort().await;
                return Err(refusal);
            }
        };
        let mut found: Lists = rows.iter().map(|row| (int(&row[0]), decode(row))).collect();
        assert_eq!(found.len(), rows.len(), "a list twice: {rows:?}");
        assert!(found.keys().all(|list| is_in_range(*list)), "a list of another group");
        for list in self.open.clone().filter(|list| is_in_range(*list)) {
            found.entry(list).or_default();
        }
        Ok(found)
    }

    /// Locks a list and appends to what is there now.
    async fn append(&mut self, lab: &Rc<Lab>) -> Result<(), Refusal> {
        let list = self.draw();
        let key = vec![Value::Int(list)];
        let read = ClientOperation::read_locked(self.table, key.clone(), LockMode::Exclusive);
        let before = self.row_of(read).await?;
        let element = lab.number();
        let mut after = before.clone().unwrap_or_default();
        after.push(element);
        let items: Box<[u8]> = after.iter().flat_map(|element| element.to_le_bytes()).collect();
        let items = Value::Bytes(items);
        let change = match before {
            Some(_) => {
                let items = (ITEMS, Expression::Constant(items));
                ClientOperation::update(self.table, key, vec![items])
            }
            None => {
                let group = Value::Int(list % GROUPS);
                ClientOperation::insert(self.table, vec![Value::Int(list), group, items])
            }
        };
        let before = before.unwrap_or_default();
        if let (Mode::Guarded, None, Some(read)) =
            (self.mode, self.transaction.own(list), self.transaction.first_read(list))
        {
            assert_eq!(*read, before, "list {list} is as it was read before");
        }
        // A list that is not there is locked as well, so nobody else can have made it.
        self.session.run_all(vec![change]).await?;
        self.transaction.appends.push((list, before, element));
        Ok(())
    }

    /// Commits, and takes down how that ended.
    async fn finish(self, lab: &Rc<Lab>) -> Result<(), Refusal> {
        if self.session.generation() != self.transaction.generation {
            // Some of what was read may be from before the restart, and some from after it.
            self.session.abort().await;
            return Err(ErrorCode::NodeFailed.into());
        }
        let number = lab.number();
        lab.levels.borrow_mut().transactions.insert(number, self.transaction);
        let ended = self.session.commit().await;
        let mut book = lab.levels.borrow_mut();
        let transaction = book.transactions.get_mut(&number).expect("inserted above");
        transaction.ended = Some(ended.clone());
        judged(ended)
    }
}

fn decode(row: &[Value]) -> List {
    let Value::Bytes(bytes) = &row[usize::from(ITEMS.0)] else { panic!("items are bytes") };
    let element = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().expect("four bytes each"));
    bytes.chunks(4).map(element).collect()
}

async fn serializable(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let mut work = Work::new(session, lab, Level::Serializable, Mode::Guarded);
    for _ in 0..1 + session.below(3) {
        if session.percent(60) {
            work.read().await?;
        } else {
            work.append(lab).await?;
        }
    }
    if session.percent(70) {
        work.append(lab).await?;
    }
    work.finish(lab).await
}

/// A transaction that only reads has a snapshot, and no transaction of the kernel.
async fn read_only(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let epoch = session.open_snapshot().await?;
    let mut work = Work::new(session, lab, Level::Serializable, Mode::Snapshot(epoch));
    let mut read = Ok(());
    for _ in 0..1 + session.below(3) {
        read = work.read().await;
        if read.is_err() {
            break;
        }
    }
    session.close_snapshot(epoch).await;
    read?;
    if session.generation() == work.transaction.generation {
        work.transaction.ended = Some(Ended::Committed(epoch, None));
        let number = lab.number();
        lab.levels.borrow_mut().transactions.insert(number, work.transaction);
    }
    Ok(())
}

async fn repeatable(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let epoch = session.open_snapshot().await?;
    let mut work = Work::new(session, lab, Level::RepeatableRead, Mode::Overlay(epoch));
    let done = steps(&mut work, lab).await;
    session.close_snapshot(epoch).await;
    match done {
        Ok(()) => work.finish(lab).await,
        Err(refusal) => passing(Some(refusal)),
    }
}

/// Reads and appends, some of which are taken back.
async fn steps(work: &mut Work<'_>, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let session = work.session;
    for _ in 0..2 + session.below(3) {
        match session.below(10) {
            0..5 => work.read().await?,
            5..8 => work.append(lab).await?,
            _ => {
                let savepoint = session.savepoint().await;
                let kept = work.transaction.appends.len();
                work.append(lab).await?;
                work.read().await?;
                session.rollback_to(savepoint).await?;
                work.transaction.appends.truncate(kept);
            }
        }
    }
    work.read().await
}

/// The lists that rows of the kernel hold.
pub(super) fn lists_of(rows: &[Vec<Value>]) -> Lists {
    rows.iter().map(|row| (int(&row[0]), decode(row))).collect()
}

/// Judges the history of a level by the lists that are there at the end.
pub(crate) fn check(book: &LevelBook, cluster: &ClusterState, level: Level, lists: Lists) {
    let judge = Judge::new(book, cluster, level, lists);
    judge.check_appends();
    judge.check_reads();
    if level == Level::Serializable {
        judge.check_cycles();
    }
}

/// The history of one level with the lists at its end.
struct Judge<'b> {
    cluster: &'b ClusterState,
    transactions: BTreeMap<u32, &'b Transaction>,
    lists: Lists,
    /// Which transaction put an element into a list.
    writers: BTreeMap<u32, u32>,
}

impl<'b> Judge<'b> {
    fn new(book: &'b LevelBook, cluster: &'b ClusterState, level: Level, lists: Lists) -> Self {
        let of_level = book.transactions.iter().filter(|(_, t)| t.level == level);
        let transactions: BTreeMap<u32, &Transaction> =
            of_level.map(|(number, transaction)| (*number, transaction)).collect();
        let writers = transactions.iter().flat_map(|(number, transaction)| {
            transaction.appends.iter().map(|(_, _, element)| (*element, *number))
        });
        let writers = writers.collect();
        Self { cluster, transactions, lists, writers }
    }

    fn list(&self, list: i64) -> &[u32] {
        self.lists.get(&list).map_or(&[], Vec::as_slice)
    }

    /// The epoch of a transaction that is known to have committed and was kept.
    fn epoch_of(&self, element: u32) -> Option<Epoch> {
        match self.transactions[&self.writers[&element]].ended {
            Some(Ended::Committed(epoch, _)) => Some(epoch),
            _ => None,
        }
    }

    /// What has committed is there, what has not is not, and no transaction is half done.
    fn check_appends(&self) {
        for (list, items) in &self.lists {
            let all: BTreeSet<u32> = items.iter().copied().collect();
            assert_eq!(all.len(), items.len(), "list {list}: an element twice");
            assert!(all.iter().all(|element| self.writers.contains_key(element)), "out of nowhere");
        }
        for (number, transaction) in &self.transactions {
            let there =
                transaction.appends.iter().filter(|(list, _, e)| self.list(*list).contains(e));
            let (there, all) = (there.count(), transaction.appends.len());
            let expected = match &transaction.ended {
                Some(Ended::Committed(epoch, _)) if is_kept(self.cluster, *epoch) => all,
                Some(Ended::Committed(..) | Ended::Aborted(_)) => 0,
                Some(Ended::Unknown) | None if there == 0 => 0,
                Some(Ended::Unknown) | None => all,
            };
            assert_eq!(there, expected, "appends of {number} that are there: {transaction:?}");
            for (list, before, element) in &transaction.appends {
                let at = self.list(*list).iter().position(|other| other == element);
                let Some(at) = at else { continue };
                assert_eq!(self.list(*list)[..at], before[..], "list {list}: what was appended to");
            }
        }
    }

    /// Whether a transaction has committed, and nothing that it may have seen was undone by a
    /// restart of the whole cluster.
    fn counts(&self, transaction: &Transaction) -> bool {
        let last = transaction.generation == self.cluster.restarts.len();
        matches!(transaction.ended, Some(Ended::Committed(..))) && last
    }

    /// What was read is a beginning of what the list became; in a snapshot, what committed up to
    /// its epoch.
    fn check_reads(&self) {
        for (number, transaction) in &self.transactions {
            if !self.counts(transaction) {
                continue;
            }
            for (list, items) in &transaction.reads {
                let became = self.list(*list);
                assert!(
                    became.starts_with(items),
                    "{number} read {items:?} in list {list}, which became {became:?}"
                );
                if let Some(last) = items.last() {
                    let writer = &self.transactions[&self.writers[last]];
                    let own = writer.own(*list).and_then(|own| own.last().copied());
                    assert_eq!(Some(*last), own, "{number} read in list {list} what was half done");
                }
                let Some(snapshot) = transaction.snapshot else { continue };
                for (at, element) in became.iter().enumerate() {
                    let Some(epoch) = self.epoch_of(*element) else { continue };
                    assert_eq!(
                        at < items.len(),
                        epoch <= snapshot,
                        "{number}: list {list} in snapshot {snapshot} and {element} of {epoch}"
                    );
                }
            }
        }
    }

    /// Whose change, and who read before it or after it, depend on each other in one order.
    fn check_cycles(&self) {
        let mut after: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut depends = |earlier: u32, later: u32| {
            if earlier != later {
                after.entry(earlier).or_default().insert(later);
                after.entry(later).or_default();
            }
        };
        for items in self.lists.values() {
            for pair in items.windows(2) {
                depends(self.writers[&pair[0]], self.writers[&pair[1]]);
            }
        }
        for (number, transaction) in &self.transactions {
            if !self.counts(transaction) {
                continue;
            }
            for (list, items) in &transaction.reads {
                if let Some(last) = items.last() {
                    depends(self.writers[last], *number);
                }
                if let Some(next) = self.list(*list).get(items.len()) {
                    depends(*number, self.writers[next]);
                }
            }
        }
        // Who depends on nobody is taken out, again and again: what is left are cycles.
        let mut arrivals: BTreeMap<u32, usize> = after.keys().map(|number| (*number, 0)).collect();
        for later in after.values().flatten() {
            *arrivals.get_mut(later).expect("entered above") += 1;
        }
        let free = arrivals.iter().filter(|(_, count)| **count == 0);
        let mut free: Vec<u32> = free.map(|(number, _)| *number).collect();
        while let Some(number) = free.pop() {
            arrivals.remove(&number);
            for next in &after[&number] {
                let count = arrivals.get_mut(next).expect("not taken out before its last arrival");
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
        let cyclic: Vec<_> = arrivals.keys().map(|n| (n, self.transactions[n])).collect();
        assert!(cyclic.is_empty(), "transactions depend on each other: {cyclic:?}");
    }
}
