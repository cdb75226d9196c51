//! Rows with a single owner: the owner knows what every operation must answer.
//!
//! Each session owns the rows of one `owner` value in a table with a unique and an ordered index,
//! and keeps a copy of what they must be. Operations of every kind run in transactions with
//! savepoints; each answer, each read and each index scan is compared with the copy.

mod expect;
mod look;

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, OperationAnswer};
use model::{ColumnId, ColumnType, ErrorCode, Refusal, SchemaChange, Table, Value};

use super::{column, insist, nullable};
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    /// After the last transaction whose end is known.
    pub(crate) rows: Rows,
    /// After the transaction in doubt, if there is one.
    pub(crate) doubtful: Option<Rows>,
}

/// What all owners know.
#[derive(Debug, Default)]
pub struct LedgerBook {
    pub(crate) owners: BTreeMap<i64, Owned>,
}

impl LedgerBook {
    /// Compares the rows at the end with what their owners know.
    pub(crate) fn check(&self, rows: &[Vec<Value>]) {
        let mut found: BTreeMap<i64, Rows> = BTreeMap::new();
        for row in rows {
            let (owner, id) = (super::int(&row[0]), super::int(&row[1]));
            found.entry(owner).or_default().insert(id, row[..COLUMNS].to_vec());
        }
        for (owner, owned) in &self.owners {
            let rows = found.remove(owner).unwrap_or_default();
            let fits = rows == owned.rows || owned.doubtful.as_ref() == Some(&rows);
            assert!(fits, "owner {owner} has {rows:?}, and knows {owned:?}");
        }
        assert!(found.is_empty(), "rows of nobody: {found:?}");
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let change = SchemaChange::CreateTable {
        name: TABLE.into(),
        columns: vec![
            column("owner", ColumnType::Int(8)),
            column("id", ColumnType::Int(8)),
            column("amount", ColumnType::Int(2)),
            nullable("category", ColumnType::Int(4)),
            nullable("tag", ColumnType::Variable(30)),
            nullable("body", ColumnType::Variable(9_000)),
        ],
        primary_key: vec![0, 1],
        distribution_key: if session.percent(50) { vec![0] } else { vec![] },
        partition_count: 0,
        ordered_indexes: vec![("by_category".into(), vec![0, 3])],
        unique_indexes: vec![("by_tag".into(), vec![4])],
        description: Default::default(),
    };
    let table = insist(session, change).await;
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
        let owned = lab.ledger.borrow_mut().owners.entry(self.name).or_default().clone();
        if owned.doubtful.is_some() {
            *self = Self::new(lab);
            return Ok(());
        }
        let draft = Draft::new(self.name, owned.rows);
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

    fn end(&self, lab: &Rc<Lab>, ended: &Ended) {
        let mut book = lab.ledger.borrow_mut();
        let owned = book.owners.get_mut(&self.name).expect("entered before");
        match ended {
            Ended::Committed(..) => {
                owned.rows = owned.doubtful.take().expect("a transaction was under way");
            }
            Ended::Aborted(_) => owned.doubtful = None,
            Ended::Unknown => {}
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
        let before = draft.rows.clone();
        let count = 1 + session.below(5);
        let (operations, expected) = draft.draw_batch(session, table, count);
        let refusals: Vec<ErrorCode> = expected.iter().filter_map(|e| e.clone().err()).collect();
        let after = if refusals.is_empty() { draft.rows } else { before };
        self.begin(lab, &after);
        let ended = session.autocommit(operations).await;
        self.end(lab, &ended);
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
            self.compare(session, answers, &expected).await?;
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
        self.end(lab, &ended);
        match ended {
            Ended::Committed(..) | Ended::Unknown => Ok(()),
            Ended::Aborted(refusal) => passing(refusal),
        }
    }

    /// Compares answers with what was expected. An error means that the transaction is over.
    async fn compare(
        &self,
        session: &Session,
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
