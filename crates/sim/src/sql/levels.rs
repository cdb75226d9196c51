//! Lists that only grow, read and appended to by transactions of SQL at each isolation level: the
//! histories are judged as those of applications that use the client library
//! (`workload::levels`).
//!
//! At READ COMMITTED a read is what some transactions have committed, wholly, and nothing else. At
//! every level a read finds what was acknowledged, or seen by anybody, before its transaction
//! began.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use model::Epoch;

use super::{Answer, Ended, Failure, Mysql, ended};
use crate::lab::Lab;
use crate::session;
use crate::workload::levels::{
    Level, LevelBook, List, Lists, OPEN_LISTS, Transaction, check as judge,
};

/// A range of the index has every third list.
const GROUPS: i64 = 3;
const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable];

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.level_committed (id BIGINT PRIMARY KEY, list_group INT NOT NULL, \
     items VARCHAR(8000) NOT NULL, KEY by_group (list_group))",
    "CREATE TABLE sq.level_repeatable (id BIGINT PRIMARY KEY, list_group INT NOT NULL, \
     items VARCHAR(8000) NOT NULL, KEY by_group (list_group))",
    "CREATE TABLE sq.level_serializable (id BIGINT PRIMARY KEY, list_group INT NOT NULL, \
     items VARCHAR(8000) NOT NULL, KEY by_group (list_group))",
];

/// Everything done at the levels.
#[derive(Debug, Default)]
pub(super) struct Levels {
    book: LevelBook,
    /// How long lists were when anybody was told of them last.
    told: BTreeMap<(Level, i64), usize>,
    /// The restart of the whole cluster since which that is so.
    generation: usize,
}

impl Levels {
    /// The lengths of lists as they are known in this generation.
    fn told(&mut self, generation: usize) -> &mut BTreeMap<(Level, i64), usize> {
        if generation > self.generation {
            self.generation = generation;
            self.told.clear();
        }
        &mut self.told
    }

    fn tell(&mut self, generation: usize, level: Level, list: i64, length: usize) {
        if generation == self.generation {
            let told = self.told(generation).entry((level, list)).or_default();
            *told = length.max(*told);
        }
    }
}

/// One transaction.
pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let (level, only_reads) = match mysql.below(10) {
        0..4 => (Level::Serializable, false),
        4 => (Level::Serializable, true),
        5..8 => (Level::RepeatableRead, false),
        _ => (Level::ReadCommitted, false),
    };
    let mut work = Work::begin(mysql, lab, level, only_reads).await?;
    for _ in 0..1 + mysql.below(3) {
        match mysql.below(10) {
            _ if only_reads => work.read().await?,
            0..6 => work.read().await?,
            6..9 => work.append(lab).await?,
            _ => {
                mysql.query("SAVEPOINT kept").await?;
                let kept = work.transaction.appends.len();
                work.append(lab).await?;
                work.read().await?;
                mysql.query("ROLLBACK TO kept").await?;
                work.transaction.appends.truncate(kept);
            }
        }
    }
    if !only_reads && mysql.percent(70) {
        work.append(lab).await?;
    }
    if level != Level::Serializable {
        work.read().await?;
    }
    work.finish(lab).await
}

/// A transaction under way.
struct Work<'m> {
    mysql: &'m Mysql,
    lab: &'m Rc<Lab>,
    level: Level,
    /// Its plain reads are of one snapshot.
    has_snapshot: bool,
    open: Range<i64>,
    /// Lengths of lists that were known before it began.
    known: BTreeMap<(Level, i64), usize>,
    transaction: Transaction,
}

impl<'m> Work<'m> {
    async fn begin(
        mysql: &'m Mysql,
        lab: &'m Rc<Lab>,
        level: Level,
        only_reads: bool,
    ) -> Result<Self, Failure> {
        let name = match level {
            Level::ReadCommitted => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
        };
        mysql.query(&format!("SET TRANSACTION ISOLATION LEVEL {name}")).await?;
        let generation = mysql.generation();
        let (known, open) = {
            let book = &mut lab.sql.borrow_mut().levels;
            (book.told(generation).clone(), book.book.open())
        };
        let begin = if only_reads { "START TRANSACTION READ ONLY" } else { "BEGIN" };
        mysql.query(begin).await?;
        let has_snapshot = only_reads || level == Level::RepeatableRead;
        let transaction = Transaction::new(level, generation);
        Ok(Self { mysql, lab, level, has_snapshot, open, known, transaction })
    }

    fn table(&self) -> String {
        format!("level_{}", self.level.table())
    }

    fn draw(&self) -> i64 {
        self.open.start + self.mysql.below(OPEN_LISTS) as i64
    }

    /// Reads some of the lists in one of the ways, and takes down or judges what is found.
    async fn read(&mut self) -> Result<(), Failure> {
        let table = self.table();
        let (of_open, list) = (self.open.clone(), self.draw());
        let group = list % GROUPS;
        let (condition, looked): (String, Vec<i64>) = match self.mysql.below(4) {
            0 => (format!("id = {list}"), vec![list]),
            1 => (
                format!("list_group = {group}"),
                of_open.filter(|list| list % GROUPS == group).collect(),
            ),
            2 => (format!("id >= {}", of_open.start), of_open.collect()),
            _ => ("TRUE".into(), of_open.collect()),
        };
        let select = format!("SELECT id, items FROM {table} WHERE {condition}");
        let answer = self.mysql.query(&select).await?;
        if self.mysql.generation() != self.transaction.generation {
            // The transaction is given up at its end: nothing that it reads counts.
            return Ok(());
        }
        if self.has_snapshot {
            // The connection may have ended with the answer.
            let Some(snapshot) = self.mysql.snapshot() else { return Err(Failure::Lost) };
            let first = *self.transaction.snapshot.get_or_insert(snapshot);
            assert_eq!(first, snapshot, "a transaction has one snapshot");
        }
        let mut found = lists(&answer);
        assert_eq!(found.len(), answer.rows.len(), "a list twice, by {condition}");
        for list in looked {
            found.entry(list).or_default();
        }
        for (list, items) in found {
            let least = self.known.get(&(self.level, list)).copied().unwrap_or_default();
            assert!(
                items.len() >= least,
                "list {list} by {condition} has {items:?}, {least} elements were told before"
            );
            if self.transaction.own(list).is_none() {
                let levels = &mut self.lab.sql.borrow_mut().levels;
                levels.tell(self.transaction.generation, self.level, list, items.len());
            }
            self.transaction.found(list, items);
        }
        Ok(())
    }

    /// Locks a list and appends to what is there now.
    async fn append(&mut self, lab: &Rc<Lab>) -> Result<(), Failure> {
        let (list, table) = (self.draw(), self.table());
        let select = format!("SELECT id, items FROM {table} WHERE id = {list} FOR UPDATE");
        let before = lists(&self.mysql.query(&select).await?).remove(&list);
        let element = lab.number();
        let group = list % GROUPS;
        let insert = format!("INSERT INTO {table} VALUES ({list}, {group}, '{element},')");
        let change = match &before {
            _ if self.mysql.percent(40) => {
                format!("{insert} ON DUPLICATE KEY UPDATE items = CONCAT(items, '{element},')")
            }
            Some(items) => {
                let after: String =
                    items.iter().chain([&element]).map(|element| format!("{element},")).collect();
                format!("UPDATE {table} SET items = '{after}' WHERE id = {list}")
            }
            None => insert,
        };
        let before = before.unwrap_or_default();
        if self.mysql.generation() != self.transaction.generation {
            return Ok(());
        }
        if let (Level::Serializable, None, Some(read)) =
            (self.level, self.transaction.own(list), self.transaction.first_read(list))
        {
            assert_eq!(*read, before, "list {list} is as it was read before");
        }
        // A list that is not there is locked as well, so nobody else can have made it.
        self.mysql.query(&change).await?;
        self.transaction.appends.push((list, before, element));
        Ok(())
    }

    /// Commits, and takes down how that ended.
    async fn finish(self, lab: &Rc<Lab>) -> Result<(), Failure> {
        let generation = self.transaction.generation;
        if self.mysql.generation() != generation {
            // Some of what was read may be from before the restart, and some from after it.
            return self.mysql.query("ROLLBACK").await.map(drop);
        }
        let number = lab.number();
        let lengths: Vec<(i64, usize)> =
            self.transaction.appends.iter().map(|(list, b, _)| (*list, b.len() + 1)).collect();
        lab.sql.borrow_mut().levels.book.transactions.insert(number, self.transaction);
        let answer = self.mysql.query("COMMIT").await;
        let levels = &mut lab.sql.borrow_mut().levels;
        let epoch =
            if lengths.is_empty() { Some(Epoch::default()) } else { self.mysql.committed() };
        let ended_as = match (ended(&answer), epoch) {
            (Ended::Committed, Some(epoch)) => {
                if self.mysql.generation() == generation {
                    for (list, length) in lengths {
                        levels.tell(generation, self.level, list, length);
                    }
                }
                session::Ended::Committed(epoch, None)
            }
            // The connection ended with the answer: its epoch is not known.
            (Ended::Committed, None) | (Ended::Unknown, _) => session::Ended::Unknown,
            (Ended::Aborted, _) => session::Ended::Aborted(None),
        };
        let transaction = levels.book.transactions.get_mut(&number).expect("inserted above");
        transaction.ended = Some(ended_as);
        answer.map(drop)
    }
}

/// The lists that an answer has.
fn lists(answer: &Answer) -> Lists {
    let items = |row| -> List {
        let elements = answer.text(row, 1).split_terminator(',');
        elements.map(|element| element.parse().expect("a number")).collect()
    };
    (0..answer.rows.len()).map(|row| (answer.int(row, 0), items(row))).collect()
}

/// Judges the histories of all levels.
pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    for level in LEVELS {
        let select = format!("SELECT id, items FROM level_{}", level.table());
        let lists = lists(&mysql.query(&select).await?);
        judge(&lab.sql.borrow().levels.book, &mysql.cluster(), level, lists);
    }
    Ok(())
}
