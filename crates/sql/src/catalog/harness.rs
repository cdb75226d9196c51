//! A session on a kernel of a few lines, for tests: the control log's state machine for
//! definitions, lists for rows.
//!
//! # Owns
//! [`Harness`], which runs a task and answers what it asks.
//! # Not here
//! Transactions, locks, failures: the simulation tests those with the real kernel.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use client::{
    ClientOperation, ClientResult, Inspected, OperationAction, OperationAnswer, PeerAnswers,
    ReadKey, ScanSpec,
};
use collation::CollationId;
use model::{
    ClusterId, ClusterState, Command, ControlIndex, Epoch, ErrorCode, Expression, Incarnation,
    NodeId, NodeRole, Refusal, SchemaChange, SessionId, Table, TableId, Value, WorkerId,
};
use sql_expression::SqlError;
use sql_parser::ast::Statement;
use sqltype::Datum;

use crate::account::AccountName;
use crate::admission::ClientHost;
use crate::kernel::{Ask, Exchange, Kernel, QueuedAsk, Ticket};
use crate::link::Link;
use crate::result::{Encoding, HeadForm, Outcome, ResultWriter};
use crate::session::options::{ServerAddress, SqlOptions};
use crate::session::{Origin, Session, Shared};

/// A session and its kernel.
pub(crate) struct Harness {
    pub(crate) session: Session,
    pub(crate) world: World,
}

/// The kernel's side.
pub(crate) struct World {
    pub(crate) state: ClusterState,
    pub(crate) rows: BTreeMap<TableId, Vec<Vec<Value>>>,
    /// Every schema change asked for, for tests that look at how something was done.
    pub(crate) changes: Vec<SchemaChange>,
    /// How often something was waited for until it was on disk.
    pub(crate) saved: u32,
    /// How often a statement has let others have the worker.
    pub(crate) paused: u32,
    /// Nobody knows whether something is on disk.
    pub(crate) disks_are_silent: bool,
    /// The answer to what is committed at once is lost, and only that it is committed is found.
    pub(crate) loses_answers: bool,
    /// What is on disk, as far as one asks.
    pub(crate) durable: Epoch,
    /// What happens while the next table that keeps a journal is scanned, to the tables and to
    /// the rows that the scan has brought.
    pub(crate) meanwhile: Option<Meanwhile>,
    /// Rows that are there for everybody from the next snapshot on.
    pub(crate) late: Vec<(TableId, Vec<Value>)>,
    /// What the workers answer when they are asked about themselves.
    pub(crate) told: Vec<Inspected>,
    /// What they were asked.
    pub(crate) inspected: Vec<wire::Inspection>,
    /// Rows that somebody else has locked, by their keys.
    pub(crate) locked: Vec<(TableId, Vec<Value>)>,
    /// What the control log has reached before the next change of accounts comes to it.
    pub(crate) overtaken: Option<ClusterState>,
    pub(crate) exchange: Rc<RefCell<Exchange>>,
    scans: BTreeMap<Ticket, ScanSpec>,
    numbers: u64,
}

type Meanwhile = Box<dyn FnOnce(&mut World, &mut Vec<Vec<Value>>)>;

impl Harness {
    /// A session whose default database is `d`.
    pub(crate) fn new() -> Self {
        let exchange = Rc::new(RefCell::new(Exchange::default()));
        exchange.borrow_mut().protocol = wire::PROTOCOL_VERSION;
        let options = SqlOptions {
            directory: Default::default(),
            sequences: Default::default(),
            clock_base: 1_700_000_000_000_000,
            host_offset: 0,
            admission: Default::default(),
            address: ServerAddress { port: 3306, ..ServerAddress::default() },
            clock: None,
            stack: None,
        };
        let origin = Origin { number: 7, seed: 1, clock_base: options.clock_base };
        let kernel = Kernel::new(exchange.clone());
        let mut session = Session::new(kernel, Rc::new(Shared::new(&options)), origin);
        session.user = "root@localhost".to_owned();
        session.become_account(AccountName::root());
        let mut world = World {
            state: ClusterState::default(),
            rows: BTreeMap::new(),
            changes: Vec::new(),
            saved: 0,
            paused: 0,
            disks_are_silent: false,
            loses_answers: false,
            durable: Epoch::default(),
            meanwhile: None,
            late: Vec::new(),
            told: Vec::new(),
            inspected: Vec::new(),
            locked: Vec::new(),
            overtaken: None,
            exchange,
            scans: BTreeMap::new(),
            numbers: 0,
        };
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let role = NodeRole::Data;
        world.apply(&Command::Found { cluster: ClusterId(1), protocol: 0 });
        world.apply(&Command::AddMember {
            node,
            incarnation,
            voter: incarnation,
            role,
            workers: 2,
        });
        world.apply(&Command::Start { groups: vec![vec![node]] });
        let mut harness = Self { session, world };
        harness.ok("CREATE DATABASE d");
        harness.session.database = Some("d".to_owned());
        harness
    }

    /// Runs a statement that changes definitions, rows or variables.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Outcome, SqlError> {
        let mode = self.session.variables.parser_mode();
        let statement = sql_parser::parse(sql.as_bytes(), mode)
            .map_err(|error| SqlError::new(error.code(), error.sqlstate(), error.message()))?;
        self.session.diagnostics.clear();
        let Self { session, world } = self;
        world.run(async {
            match &statement {
                Statement::Set(items) => crate::administration::set::set(session, items, &[]).await,
                Statement::SetTransaction(set) => {
                    crate::administration::set::set_transaction(session, set).await
                }
                Statement::ResetPersist(reset) => {
                    crate::administration::set::reset_persisted(session, reset).await
                }
                Statement::Insert(insert) => crate::execute::insert(session, insert, &[]).await,
                Statement::Update(update) => crate::execute::update(session, update, &[]).await,
                Statement::Delete(delete) => crate::execute::delete(session, delete, &[]).await,
                statement => crate::ddl::run(session, statement).await,
            }
        })
    }

    /// Runs a statement that succeeds.
    #[track_caller]
    pub(crate) fn ok(&mut self, sql: &str) -> Outcome {
        self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs a statement that fails; its error's number and text.
    #[track_caller]
    pub(crate) fn error(&mut self, sql: &str) -> (u16, String) {
        match self.run(sql) {
            Ok(_) => panic!("{sql} succeeded"),
            Err(error) => (error.code(), error.message().to_owned()),
        }
    }

    /// Runs a statement as a client's, whatever it is; what it answers is lost.
    pub(crate) fn say(&mut self, sql: &str) -> Result<Outcome, SqlError> {
        let Self { session, world } = self;
        let link = Link::new(Rc::default());
        let channel = Rc::new(RefCell::new(mysql_wire::Channel::new(1 << 20)));
        let pauses = session.pauses.clone();
        let form = HeadForm { collation: CollationId::DEFAULT, has_eof: true, described: None };
        let mut out = ResultWriter::new(link, channel, 0, Encoding::Text, form, pauses);
        let text = sql.as_bytes();
        world.run(async { crate::dispatch::run_text(session, text, 0, &mut out).await.0 })
    }

    /// As [`Harness::say`], of a statement that succeeds.
    #[track_caller]
    pub(crate) fn said(&mut self, sql: &str) {
        self.say(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The number of the error that a client's statement ends with.
    #[track_caller]
    pub(crate) fn refused(&mut self, sql: &str) -> u16 {
        match self.say(sql) {
            Ok(_) => panic!("{sql} succeeded"),
            Err(error) => error.code(),
        }
    }

    /// Another client logs in: its account is the one that is found.
    #[track_caller]
    pub(crate) fn log_in(&mut self, user: &str, host: &str) {
        let Self { session, world } = self;
        let from = ClientHost::named(host);
        let found = world.run(async { session.login_account(user, &from) });
        let found = found.unwrap().unwrap_or_else(|| panic!("no account for {user}"));
        session.user = format!("{user}@{host}");
        session.become_account(found.name);
        session.login.is_expired = found.account.has_expired;
    }

    /// Numbers of the warnings that the last statement left.
    pub(crate) fn warnings(&self) -> Vec<u16> {
        self.session.diagnostics.entries.iter().map(|(_, error)| error.code()).collect()
    }

    /// Runs a task of the session to its end.
    pub(crate) fn wait<T>(&mut self, task: impl AsyncFnOnce(&mut Session) -> T) -> T {
        let Self { session, world } = self;
        world.run(task(session))
    }

    /// The kernel's table of this full name.
    #[track_caller]
    pub(crate) fn table(&self, full: &str) -> Arc<Table> {
        self.world.state.table_named(full).unwrap_or_else(|| panic!("no table {full}")).clone()
    }

    /// The rows of a table, as the kernel has them.
    #[track_caller]
    pub(crate) fn rows(&self, full: &str) -> Vec<Vec<Value>> {
        self.world.rows.get(&self.table(full).id).cloned().unwrap_or_default()
    }
}

impl World {
    fn run<T>(&mut self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        self.exchange.borrow_mut().cluster = Arc::new(self.state.clone());
        loop {
            let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let mut answered = false;
            loop {
                let ask = self.exchange.borrow_mut().asks.pop_front();
                let Some(QueuedAsk { ticket, ask, .. }) = ask else { break };
                let answer = self.answer(ticket, ask);
                answered = true;
                let mut exchange = self.exchange.borrow_mut();
                exchange.cluster = Arc::new(self.state.clone());
                if let Some(answer) = answer {
                    exchange.answer(ticket, answer);
                }
            }
            match polled {
                Poll::Ready(value) => return value,
                Poll::Pending => assert!(answered, "the task waits for nothing"),
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each question")]
    fn answer(&mut self, ticket: Ticket, ask: Ask) -> Option<ClientResult> {
        Some(match ask {
            Ask::Schema(change) => self.change(change),
            Ask::Stream(_) => ClientResult::Streamed(Vec::new()),
            Ask::AcknowledgeStream(..) => return None,
            Ask::Execute { operations, commit } => {
                let before = commit.then(|| self.rows.clone());
                let answers: Vec<_> = operations.into_iter().map(|o| self.operate(o)).collect();
                let refused = answers.iter().find_map(|answer| answer.clone().err());
                match (commit, refused) {
                    (false, _) => ClientResult::Executed(answers),
                    (true, None) => {
                        let (transaction, epoch) = (None, Epoch(1));
                        let answers = if self.loses_answers { Vec::new() } else { answers };
                        ClientResult::Committed { transaction, epoch, answers }
                    }
                    (true, refusal) => {
                        self.rows = before.expect("a commit was asked for");
                        ClientResult::Aborted { transaction: None, refusal, answers }
                    }
                }
            }
            Ask::Commit => {
                let (transaction, answers) = (None, Vec::new());
                ClientResult::Committed { transaction, epoch: Epoch(1), answers }
            }
            Ask::Abort => {
                let (transaction, refusal, answers) = (None, None, Vec::new());
                ClientResult::Aborted { transaction, refusal, answers }
            }
            Ask::Read { reads, .. } => {
                let read = |read: client::ClientRead| {
                    let ReadKey::Primary(key) = &read.key else { panic!("{read:?}") };
                    let row = self.find(read.table, key).map(|at| &self.rows[&read.table][at]);
                    row.map(|row| projected(row, &read.projection))
                };
                ClientResult::Read(reads.into_iter().map(read).collect())
            }
            Ask::Scan(spec) => {
                let mut rows = self.rows.get(&spec.table).cloned().unwrap_or_default();
                if self.state.tables[&spec.table].journal.is_some()
                    && let Some(meanwhile) = self.meanwhile.take()
                {
                    meanwhile(self, &mut rows);
                }
                rows = rows.iter().map(|row| projected(row, &spec.projection)).collect();
                let rows = rows.into();
                self.scans.insert(ticket, *spec);
                let traffic = Default::default();
                ClientResult::ScanRows { rows, blocks: Vec::new(), traffic, finished: true }
            }
            Ask::AwaitDurable { peek: false, .. } if self.disks_are_silent => {
                ClientResult::Failed(ErrorCode::LockTimeout.into())
            }
            Ask::AwaitDurable { epoch, peek: false } => {
                self.saved += 1;
                ClientResult::Durable(epoch)
            }
            Ask::AwaitDurable { .. } => ClientResult::Durable(self.durable),
            Ask::OpenSnapshot => {
                for (table, row) in std::mem::take(&mut self.late) {
                    self.rows.entry(table).or_default().push(row);
                }
                ClientResult::SnapshotOpened(Epoch(1))
            }
            Ask::Inspect { what, .. } => {
                self.inspected.push(what);
                let mut told = self.told.clone();
                if what == wire::Inspection::Copies && told.is_empty() {
                    // Whatever they tell, they answer.
                    let (node, worker) = (NodeId(1), WorkerId(0));
                    told.push(Inspected { node, worker, rows: Vec::new() });
                }
                ClientResult::Inspected(told)
            }
            Ask::Peers { .. } => ClientResult::PeersAnswered(PeerAnswers::default()),
            Ask::RollbackTo(_) => ClientResult::RolledBack,
            Ask::Sleep(span) => {
                self.paused += 1;
                // Whoever waits for something that never comes is patient for so long.
                let mut exchange = self.exchange.borrow_mut();
                exchange.now = exchange.now + span;
                ClientResult::RolledBack
            }
            Ask::ScanNext(_)
            | Ask::ScanClose(_)
            | Ask::CloseSnapshot(_)
            | Ask::Cancel
            | Ask::Abandon => {
                return None;
            }
        })
    }

    fn change(&mut self, change: SchemaChange) -> ClientResult {
        if change.since() > self.exchange.borrow().protocol {
            return ClientResult::Failed(ErrorCode::OlderNode.into());
        }
        if matches!(change, SchemaChange::ChangeAccounts { .. })
            && let Some(ahead) = self.overtaken.take()
        {
            self.state = ahead;
        }
        self.changes.push(change.clone());
        self.numbers += 1;
        let session = SessionId::default();
        let command = Command::Schema { session, number: self.numbers, change: change.clone() };
        self.apply(&command);
        let answer = self.state.schema_answers[&session].1;
        if let (SchemaChange::CreateOrderedIndex { name, .. }, Ok(table)) = (&change, answer) {
            let definition = self.state.tables[&table].clone();
            let index = definition.ordered_indexes.iter().find(|index| index.name == *name);
            let index = index.expect("it was made").id;
            self.numbers += 1;
            let online = SchemaChange::SetIndexOnline { table, index, complete: Epoch(0) };
            self.apply(&Command::Schema { session, number: self.numbers, change: online });
        }
        if let (SchemaChange::CreateUniqueIndex { name, .. }, Ok(table)) = (&change, answer) {
            let definition = self.state.tables[&table].clone();
            let index = definition.unique_indexes.iter().find(|index| index.name == *name);
            let index = index.expect("it was made").clone();
            let mut keys: Vec<_> = self
                .rows
                .get(&table)
                .into_iter()
                .flatten()
                .map(|row| definition.key_of_values(&index.columns, &pick(row, &index.columns)))
                .collect();
            let count = keys.len();
            keys.sort();
            keys.dedup();
            self.numbers += 1;
            let end = if keys.len() == count {
                SchemaChange::SetIndexOnline { table, index: index.id, complete: Epoch(0) }
            } else {
                SchemaChange::DropIndex { table, index: index.id }
            };
            self.apply(&Command::Schema { session, number: self.numbers, change: end });
            if keys.len() < count {
                return ClientResult::Failed(Refusal::new(
                    ErrorCode::UniqueViolation,
                    name.clone(),
                ));
            }
        }
        match answer {
            Ok(table) => {
                self.fit_rows(table);
                ClientResult::SchemaChanged(table)
            }
            Err(code) => ClientResult::Failed(code.into()),
        }
    }

    /// Rows read as what the columns have become: those they lack as defaults, holes as NULL.
    fn fit_rows(&mut self, table: TableId) {
        let Some(definition) = self.state.tables.get(&table) else { return };
        for row in self.rows.get_mut(&table).into_iter().flatten() {
            let missing = definition.columns.iter().skip(row.len());
            row.extend(missing.map(|column| column.default.clone()).collect::<Vec<_>>());
            let holes = row.iter_mut().zip(&definition.columns);
            holes
                .filter(|(_, column)| column.is_hole())
                .for_each(|(value, _)| *value = Value::Null);
        }
    }

    fn apply(&mut self, command: &Command) {
        let index = ControlIndex(self.state.index.0 + 1);
        self.state = control::state_machine::apply(&self.state, index, command);
    }

    /// The place of the row with this primary key.
    fn find(&self, table: TableId, key: &[Value]) -> Option<usize> {
        let definition = &self.state.tables[&table];
        let wanted = definition.primary_key_of(key);
        let key_of = |row: &[Value]| definition.primary_key_of(&pick(row, &definition.primary_key));
        self.rows.get(&table)?.iter().position(|row| key_of(row) == wanted)
    }

    fn operate(&mut self, operation: ClientOperation) -> Result<OperationAnswer, Refusal> {
        let Some(definition) = self.state.tables.get(&operation.table).cloned() else {
            return Err(ErrorCode::UnknownTable.into());
        };
        let table = operation.table;
        match operation.action {
            OperationAction::Read { key, lock, .. }
                if lock != wire::LockMode::Committed
                    && self.locked.contains(&(table, key.clone())) =>
            {
                Err(ErrorCode::LockUnavailable.into())
            }
            OperationAction::Read { key, projection, .. } => match self.find(table, &key) {
                Some(at) => {
                    Ok(OperationAnswer::Row(projected(&self.rows[&table][at], &projection)))
                }
                None => Err(ErrorCode::RowNotFound.into()),
            },
            OperationAction::Insert { row } => {
                if self.find(table, &pick(&row, &definition.primary_key)).is_some() {
                    return Err(ErrorCode::RowExists.into());
                }
                for index in &definition.unique_indexes {
                    let key = |row: &[Value]| pick(row, &index.columns);
                    let taken = self.rows.get(&table).into_iter().flatten();
                    let same = |other: &Vec<Value>| key(other) == key(&row);
                    if !key(&row).contains(&Value::Null) && taken.into_iter().any(same) {
                        return Err(Refusal::new(ErrorCode::UniqueViolation, index.name.clone()));
                    }
                }
                self.rows.entry(table).or_default().push(row);
                Ok(OperationAnswer::Written(wire::Effect::Created))
            }
            OperationAction::Update { key, assignments, .. } => {
                let at = self.find(table, &key).ok_or(ErrorCode::RowNotFound)?;
                let row = &mut self.rows.get_mut(&table).expect("a row was found")[at];
                for (column, value) in assignments {
                    let Expression::Constant(value) = value else { panic!("{value:?}") };
                    row[usize::from(column.0)] = value;
                }
                Ok(OperationAnswer::Written(wire::Effect::Changed))
            }
            OperationAction::Delete { key, .. } => {
                let at = self.find(table, &key).ok_or(ErrorCode::RowNotFound)?;
                self.rows.get_mut(&table).expect("a row was found").remove(at);
                Ok(OperationAnswer::Written(wire::Effect::Changed))
            }
            OperationAction::Upsert { row } => {
                let existed = self.find(table, &pick(&row, &definition.primary_key));
                let rows = self.rows.entry(table).or_default();
                Ok(OperationAnswer::Written(match existed {
                    Some(at) if rows[at] == row => wire::Effect::Unchanged,
                    Some(at) => {
                        rows[at] = row;
                        wire::Effect::Changed
                    }
                    None => {
                        rows.push(row);
                        wire::Effect::Created
                    }
                }))
            }
        }
    }
}

fn projected(row: &[Value], projection: &wire::Projection) -> Vec<Value> {
    match projection {
        wire::Projection::All => row.to_vec(),
        wire::Projection::Nothing => Vec::new(),
        wire::Projection::Columns(columns) => pick(row, columns),
    }
}

fn pick(row: &[Value], columns: &[model::ColumnId]) -> Vec<Value> {
    columns.iter().map(|column| row[usize::from(column.0)].clone()).collect()
}

/// The texts in the first column of a listing, for tests.
pub(crate) fn texts(rows: &[Vec<Datum>], column: usize) -> Vec<String> {
    let text = |row: &Vec<Datum>| match &row[column] {
        Datum::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Datum::Null => "NULL".to_owned(),
        other => format!("{other:?}"),
    };
    rows.iter().map(text).collect()
}
