//! What all sessions of a run have in common: its phase, its tables, what was expected and seen.
//!
//! # Owns
//! The phase of the run, progress of each session, and the books that workloads keep. Books outlive
//! client nodes: what a dead client had begun stays in doubt.
//! # Not here
//! The content of the books (`workload`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use model::{NodeId, TableId};

use crate::sql::SqlBook;
use crate::workload::bank::BankBook;
use crate::workload::counters::CounterBook;
use crate::workload::grants::GrantBook;
use crate::workload::ledger::LedgerBook;
use crate::workload::levels::LevelBook;
use crate::workload::lists::ListBook;
use crate::workload::registers::RegisterBook;
use crate::workload::singles::SingleBook;
use crate::workload::streams::StreamBook;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Tables are being made.
    Preparing,
    /// Sessions work.
    Working,
    /// Sessions end what they have begun.
    Ending,
    /// One session looks at what is there.
    Auditing,
    /// It has looked.
    Audited,
}

/// One session of one life of a client node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskName {
    /// The client node.
    pub node: NodeId,
    /// The position among its tasks.
    pub task: usize,
}

/// Progress of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// What it does.
    pub what: &'static str,
    /// Rounds that did what they were to do.
    pub rounds: u64,
    /// It has ended.
    pub over: bool,
}

/// Shared by all sessions of a run.
pub struct Lab {
    phase: Cell<Phase>,
    progress: RefCell<BTreeMap<TaskName, Progress>>,
    tables: RefCell<BTreeMap<&'static str, TableId>>,
    numbers: Cell<u32>,
    /// Of bank transfers.
    pub bank: RefCell<BankBook>,
    /// Of counters.
    pub counters: RefCell<CounterBook>,
    /// Of rows that are changed one at a time.
    pub singles: RefCell<SingleBook>,
    /// Of rows whose versions only grow.
    pub registers: RefCell<RegisterBook>,
    /// Of lists that are used at different levels of isolation.
    pub levels: RefCell<LevelBook>,
    /// Of lists.
    pub lists: RefCell<ListBook>,
    /// Of accounts.
    pub grants: RefCell<GrantBook>,
    /// Of rows with a single owner.
    pub ledger: RefCell<LedgerBook>,
    /// Of the subscriber of a change stream.
    pub streams: RefCell<Option<StreamBook>>,
    /// Of clients of an SQL node.
    pub sql: RefCell<SqlBook>,
}

impl Lab {
    /// A lab in which nothing has happened.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::Preparing),
            progress: RefCell::default(),
            tables: RefCell::default(),
            numbers: Cell::new(0),
            bank: RefCell::default(),
            counters: RefCell::default(),
            singles: RefCell::default(),
            registers: RefCell::default(),
            levels: RefCell::default(),
            lists: RefCell::default(),
            grants: RefCell::default(),
            ledger: RefCell::default(),
            streams: RefCell::default(),
            sql: RefCell::default(),
        })
    }

    /// How far the run has come.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Moves the run on.
    pub fn enter(&self, phase: Phase) {
        assert!(phase > self.phase.get(), "a run only moves on");
        self.phase.set(phase);
    }

    /// Whether sessions go on.
    pub fn works(&self) -> bool {
        self.phase.get() == Phase::Working
    }

    /// A number that was not drawn before in this run, from 1.
    pub fn number(&self) -> u32 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Makes a table known by its short name.
    pub fn set_table(&self, name: &'static str, table: TableId) {
        self.tables.borrow_mut().insert(name, table);
    }

    /// The table with this short name.
    pub fn table(&self, name: &'static str) -> TableId {
        self.tables.borrow()[name]
    }

    /// All tables made known.
    pub fn tables(&self) -> Vec<TableId> {
        self.tables.borrow().values().copied().collect()
    }

    /// A session has begun to do `what`.
    pub fn begin_task(&self, name: TaskName, what: &'static str) {
        let mut progress = self.progress.borrow_mut();
        let entry = progress.entry(name).or_default();
        (entry.what, entry.over) = (what, false);
    }

    /// A session has done a round.
    pub fn round(&self, name: TaskName) {
        self.progress.borrow_mut().entry(name).or_default().rounds += 1;
    }

    /// A session has ended.
    pub fn end_task(&self, name: TaskName) {
        self.progress.borrow_mut().entry(name).or_default().over = true;
    }

    /// All sessions with their progress.
    pub fn progress(&self) -> BTreeMap<TaskName, Progress> {
        self.progress.borrow().clone()
    }
}
