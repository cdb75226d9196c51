//! Rows with a single owner: the owner knows what every operation must answer.
//!
//! Each session owns the rows of one `owner` value in a table with a unique and an ordered index,
//! and keeps a copy of what they must be. Operations of every kind run in transactions with
//! savepoints; each answer, each read and each index scan is compared with the copy. When a restart
//! of the whole cluster undoes transactions, the owner goes back to what was there before them.

mod expect;
mod look;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use client::{ClientOperation, OperationAnswer};
use model::{ClusterState, ColumnId, ColumnType, Epoch, ErrorCode, Refusal, Table, Value};
use testing::{BIGINT, INT};

use super::{insist, is_kept};
use crate::lab::Lab;
use crate::session::{Ended, Session};
use expect::Draft;

pub(crate) const TABLE: &str = "sim.ledger";
/// Columns the owner knows; later ones are added by the schema workload.
const COLUMNS: usize = 6;
const AMOUNT: ColumnId = ColumnId(2);
const CATEGORY: ColumnId = ColumnId(3);
const TAG: ColumnId = ColumnId(4);
const BODY: ColumnId = ColumnId(5);
/// Rows of an owner.
const KEYS: u64 = 12;

/// Rows of one owner: by id, the columns known.
pub(crate) type Rows = BTreeMap<i64, Vec<Value>>;

/// What the rows of one owner must be.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// After each transaction that committed in an epoch, oldest first, as far as they may be lost.
    history: VecDeque<(Epoch, Rows)>,
    /// After the transaction in doubt, if there is one.
    doubtful: Option<Rows>,
    /// Restarts of the whole cluster that are taken into account.
    generation: usize,
    /// A transaction was drawn up for other rows than it may have met.
    unpredictable: bool,
}

impl Owned {
    /// After the last transaction whose end is known.
    fn rows(&self) -> Rows {
        self.history.back().map(|(_, rows)| rows.clone()).unwrap_or_default()
    }

    /// Takes into account what restarts of the whole cluster have undone.
    fn follow(&mut self, cluster: &ClusterState) {
        if self.generation == cluster.restarts.len() {
            return;
        }
        self.generation = cluster.restarts.len();
        let known = self.history.len();
        while self.history.back().is_some_and(|(epoch, _)| !is_kept(cluster, *epoch)) {
            self.history.pop_back();
        }
        if self.history.len() < known {
            // What came after what was lost is lost, too.
            self.doubtful = None;
            self.unpredictable |= known == HISTORY_MAX && self.history.is_empty();
        }
    }

    fn committed(&mut self, epoch: Epoch) {
        let rows = self.doubtful.take().expect("a transaction was under way");
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back((epoch, rows));
    }
}

/// The first row in which two sets of rows differ, without its long column.
fn difference(found: &Rows, known: &Rows) -> String {
    let short = |row: Option<&Vec<Value>>| row.map(|row| format!("{:?}", &row[..COLUMNS - 1]));
    let mut ids = found.keys().chain(known.keys());
    match ids.find(|id| found.get(id) != known.get(id)) {
        Some(id) => {
            let (found, known) = (short(found.get(id)), short(known.get(id)));
            format!("row {id} as {known:?}, found is {found:?}")
        }
        None => "the same".into(),
    }
}

/// Transactions of an owner that a restart may undo.
const HISTORY_MAX: usize = 2_000;

/// What all owners know.
#[derive(Debug, Default)]
pub struct LedgerBook {
    pub(crate) owners: BTreeMap<i64, Owned>,
}

impl LedgerBook {
    /// Compares the rows at the end with what their owners know.
    pub(crate) fn check(&mut self, cluster: &ClusterState, rows: &[Vec<Value>]) {
        let mut found: BTreeMap<i64, Rows> = BTreeMap::new();
        for row in rows {
            let (owner, id) = (super::int(&row[0]), super::int(&row[1]));
            found.entry(owner).or_default().insert(id, row[..COLUMNS].to_vec());
        }
        for (owner, owned) in &mut self.owners {
            owned.follow(cluster);
            let rows = found.remove(owner).unwrap_or_default();
            let fits = rows == owned.rows() || owned.doubtful.as_ref() == Some(&rows);
            assert!(
                fits || owned.unpredictable,
                "owner {owner} knows {} after {:?}, in doubt {:?}",
                difference(&rows, &owned.rows()),
                owned.history.back().map(|(epoch, _)| epoch),
                owned.doubtful.as_ref().map(|doubtful| difference(&rows, doubtful)),
            );
        }
        assert!(found.is_empty(), "rows of nobody: {found:?}");
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE)
        .column("owner", BIGINT)
        .column("id", BIGINT)
        .column("amount", ColumnType::Int(2))
        .nullable("category", INT)
        .nullable("tag", ColumnType::Variable(30))
        .nullable("body", ColumnType::Variable(9_000))
        .primary_key(["owner", "id"])
        .index("by_category", ["owner", "category"])
        .unique("by_tag", ["tag"]);
    let by_owner = session.percent(50);
    let table = if by_owner { table.distribution_key(["owner"]) } else { table };
    let table = insist(session, table.create()).await;
    lab.set_table("ledger", table);
}

/// A session's rows.
pub(super) struct Owner {
    name: i64,
}

impl Owner {
    /// An owner of no rows yet.
    pub(super) fn new(lab: &Rc<Lab>) -> Self {
        Self { name: i64::from(lab.number()) }
    }

    /// One transaction, or some reads. An owner whose rows are in doubt begins anew under
    /// another name.
    pub(super) async fn round(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        let Some(table) = session.definition(lab.table("ledger")) else { return Ok(()) };
        let rows = {
            let mut book = lab.ledger.borrow_mut();
            let owned = book.owners.entry(self.name).or_default();
            owned.follow(&session.cluster());
            let known = owned.doubtful.is_none() && !owned.unpredictable;
            known.then(|| owned.rows())
        };
        let Some(rows) = rows else {
            *self = Self::new(lab);
            return Ok(());
        };
        let draft = Draft::new(self.name, rows, session.generation());
        match session.below(10) {
            0..3 => self.single_batch(session, lab, &table, draft).await,
            3..7 => self.steps(session, lab, &table, draft).await,
            _ => look::round(session, &table, &draft).await,
        }
    }

    fn begin(&self, lab: &Rc<Lab>, after: &Rows) {
        let mut book = lab.ledger.borrow_mut();
        book.owners.get_mut(&self.name).expect("entered before").doubtful = Some(after.clone());
    }

    fn end(&self, session: &Session, lab: &Rc<Lab>, ended: &Ended) {
        let mut book = lab.ledger.borrow_mut();
        let owned = book.owners.get_mut(&self.name).expect("entered before");
        let generation = session.generation();
        match ended {
            // Nothing was changed, whichever rows it met.
            Ended::Committed(Epoch(0), _) | Ended::Aborted(_) => owned.doubtful = None,
            Ended::Committed(epoch, _) if epoch.generation() as usize == owned.generation => {
                owned.committed(*epoch);
            }
            // It may have met rows that a restart had brought back.
            _ => owned.unpredictable |= generation != owned.generation,
        }
    }

    /// A batch that is a whole transaction.
    async fn single_batch(
        &self,
        session: &Session,
        lab: &Rc<Lab>,
        table: &Table,
        mut draft: Draft,
    ) -> Result<(), Refusal> {
        let (before, generation) = (draft.rows.clone(), draft.generation);
        let count = 1 + session.below(5);
        let (operations, expected) = draft.draw_batch(session, table, count);
        let refusals: Vec<ErrorCode> = expected.iter().filter_map(|e| e.clone().err()).collect();
        let after = if refusals.is_empty() { draft.rows } else { before };
        self.begin(lab, &after);
        let ended = session.autocommit(operations).await;
        self.end(session, lab, &ended);
        if session.generation() != generation {
            return Ok(());
        }
        match ended {
            Ended::Committed(..) => {
                assert!(refusals.is_empty(), "owner {}: should meet {refusals:?}", self.name);
                Ok(())
            }
            Ended::Aborted(Some(refusal)) if refusals.contains(&refusal.code) => Ok(()),
            Ended::Aborted(refusal) => passing(refusal),
            Ended::Unknown => Ok(()),
        }
    }

    /// A transaction in several batches, with reads, savepoints and rollbacks between them.
    async fn steps(
        &self,
        session: &Session,
        lab: &Rc<Lab>,
        table: &Table,
        mut draft: Draft,
    ) -> Result<(), Refusal> {
        for _ in 0..1 + session.below(3) {
            let marked = session.percent(40);
            let (savepoint, saved) = (session.savepoint().await, draft.rows.clone());
            let count = 1 + session.below(4);
            let (operations, expected) = draft.draw_batch(session, table, count);
            let answers = session.run(operations).await;
            self.compare(session, draft.generation, answers, &expected).await?;
            if session.percent(40) {
                look::own_changes(session, table, &draft).await?;
            }
            if marked {
                session.rollback_to(savepoint).await?;
                draft.rows = saved;
                if session.percent(50) {
                    look::own_changes(session, table, &draft).await?;
                }
            }
        }
        if session.percent(15) {
            session.abort().await;
            return Ok(());
        }
        self.begin(lab, &draft.rows);
        let ended = session.commit().await;
        self.end(session, lab, &ended);
        match ended {
            Ended::Committed(..) | Ended::Unknown => Ok(()),
            Ended::Aborted(refusal) => passing(refusal),
        }
    }

    /// Compares answers with what was expected. An error means that the transaction is over.
    async fn compare(
        &self,
        session: &Session,
        generation: usize,
        answers: Result<Vec<Result<OperationAnswer, Refusal>>, Refusal>,
        expected: &[expect::Expected],
    ) -> Result<(), Refusal> {
        let answers = match answers {
            Ok(answers) => answers,
            Err(refusal) => {
                assert!(is_passing(&refusal), "owner {}: {refusal}", self.name);
                return passing(Some(refusal));
            }
        };
        assert_eq!(answers.len(), expected.len(), "an answer to each operation");
        if session.generation() != generation {
            session.abort().await;
            return Err(ErrorCode::NodeFailed.into());
        }
        for (answer, expected) in answers.into_iter().zip(expected) {
            let same = match (&answer, expected) {
                (Ok(answer), Ok(expected)) => expected.matches(answer),
                (Err(refusal), Err(code)) => refusal.code == *code,
                _ => false,
            };
            if same {
                continue;
            }
            match answer {
                Err(refusal) if is_passing(&refusal) => {
                    session.abort().await;
                    return passing(Some(refusal));
                }
                answer => panic!("owner {}: {answer:?} instead of {expected:?}", self.name),
            }
        }
        Ok(())
    }
}

/// Whether the refusal may pass. A batch may also meet a definition with more columns than it was
/// drawn for.
fn is_passing(refusal: &Refusal) -> bool {
    refusal.code == ErrorCode::BadRequest || crate::session::is_passing(refusal)
}

fn passing(refusal: Option<Refusal>) -> Result<(), Refusal> {
    match refusal {
        Some(refusal) if refusal.code == ErrorCode::BadRequest => {
            Err(ErrorCode::SchemaChanged.into())
        }
        refusal => super::passing(refusal),
    }
}

/// Key of an owner's row.
fn key(owner: i64, id: i64) -> Vec<Value> {
    vec![Value::Int(owner), Value::Int(id)]
}

/// A row with the columns that were added since, as an insert needs it.
fn whole_row(table: &Table, known: &[Value]) -> Vec<Value> {
    let added = table.columns[COLUMNS..].iter().map(|column| column.default.clone());
    known.iter().cloned().chain(added).collect()
}

/// An insert or upsert of a row.
fn put(table: &Table, known: &[Value], replace: bool) -> ClientOperation {
    let row = whole_row(table, known);
    if replace {
        ClientOperation::upsert(table.id, row)
    } else {
        ClientOperation::insert(table.id, row)
    }
}
