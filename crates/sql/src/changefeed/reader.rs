//! Reads the changes of a feed in their order.
//!
//! # Owns
//! What each change of a row is to the feed, by its condition, and its number within the epoch.
//! # Guarantees
//! All changes of an epoch come before those of the next one. Within an epoch tables are in order
//! of their names, and rows in that of their primary keys; what a row was changed to more than once
//! in an epoch is one change. So everybody counts alike.
//!
//! A row that an update takes into the condition is created to the feed, and one that it takes out
//! is deleted; so are the old and the new row of another primary key.
//! # Not here
//! Epochs, and what their tables were (`binlog::epochs`).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::{Epoch, Row, StreamId, Table, TableId};
use sql_expression::{
    Binder, Clause, EvalContext, Expression, Scope, ScopeColumn, ScopeTable, SessionFacts, SqlError,
};
use sql_parser::ast::Expr;
use sqltype::Datum;
use wire::RowChange;

use super::position::{Position, of_snapshot};
use crate::binlog::epochs::{Contents, EpochReader, OneEpoch, ReadError, Step};
use crate::binlog::origin::Origins;
use crate::binlog::table::{Held, Net, Parts, Shape};
use crate::catalog::constant::Constants;
use crate::catalog::large::is_large;
use crate::catalog::names::shown_name;
use crate::catalog::{ColumnDefinition, expression};
use crate::kernel::Kernel;

/// What a change does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A row of a snapshot.
    Read,
}

/// A change of a row.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) epoch: Epoch,
    /// Its number in the epoch, or in the snapshot.
    pub(crate) number: u64,
    pub(crate) operation: Operation,
    /// When it was committed, or the snapshot was read: microseconds since 1970 UTC.
    pub(crate) at: u64,
    pub(crate) known: Rc<Known>,
    /// By columns that are seen.
    pub(crate) before: Option<Vec<Held>>,
    pub(crate) after: Option<Vec<Held>>,
}

impl Change {
    /// The text of its position.
    pub(crate) fn position(&self) -> String {
        match self.operation {
            Operation::Read => of_snapshot(self.epoch, self.number),
            _ => Position::of(self.epoch, self.number).to_string(),
        }
    }
}

/// A version of a table, with the condition over it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) shape: Shape,
    condition: Option<Expression>,
}

impl Known {
    /// Reads a definition.
    ///
    /// # Errors
    /// Of a condition that the table has not the columns for.
    pub(crate) fn of(table: &Arc<Table>, condition: Option<&Expr>) -> Result<Self, SqlError> {
        let shape = Shape::of(table, true)?;
        let columns = shape.definition.visible_columns();
        let condition = condition.map(|expr| bound(&shape.definition.name, columns, expr));
        let condition = condition.transpose()?;
        Ok(Self { shape, condition })
    }

    /// Database and table.
    pub(crate) fn name(&self) -> (&str, &str) {
        self.shape.name()
    }

    /// The columns that are seen.
    pub(crate) fn columns(&self) -> &[ColumnDefinition] {
        self.shape.definition.visible_columns()
    }

    /// Whether the condition is true for a row.
    pub(crate) fn admits(&self, row: &[Held], context: &mut EvalContext) -> Result<bool, SqlError> {
        let Some(condition) = &self.condition else { return Ok(true) };
        let value = |held: &Held| match held {
            Held::Value(datum) => datum.clone(),
            // No condition is over a column whose values may lie outside of the row.
            Held::Absent => Datum::Null,
        };
        let row: Vec<Datum> = row.iter().map(value).collect();
        Ok(condition.truth(&row, context)? == Some(true))
    }
}

/// A condition over the columns of a table alone. What it means does not depend on a session.
fn bound(
    table: &str,
    columns: &[ColumnDefinition],
    condition: &Expr,
) -> Result<Expression, SqlError> {
    expression::check(expression::Place::Check("of the change feed"), condition)?;
    let large = columns
        .iter()
        .find(|column| is_large(&column.sql_type) && expression::reads(condition, &column.name));
    if let Some(column) = large {
        let why = format!(
            "WHERE of a change feed over column {table}.{}: values of this type may lie outside of \
             their rows",
            column.name
        );
        return Err(SqlError::not_supported(&why));
    }
    let mut scope = Scope::new(None);
    let scoped = columns.iter().map(|column| expression::scope_column(table, column));
    let columns: Vec<ScopeColumn> = scoped.collect();
    scope.add(ScopeTable { name: table.into(), columns, ..ScopeTable::default() });
    let mut constants = Constants::of(&context());
    Binder::new(&scope, &mut constants).bind(condition, Clause::Check)
}

/// What conditions are evaluated in: times are in UTC.
pub(crate) fn context() -> EvalContext {
    EvalContext::new(Arc::new(SessionFacts::new()), 0, 0)
}

/// Why a feed does not go on.
#[derive(Clone, Debug)]
pub(crate) enum FeedEnd {
    /// What comes next is not kept any more, but from an epoch on.
    Lost { behind: Epoch, from: Epoch },
    /// A table is gone, or another one has taken its place.
    Gone { table: String, at: Epoch },
    /// A change cannot be read.
    Unreadable { why: String, at: Epoch },
    /// It may go better next time.
    Failed(SqlError),
}

/// Changes that were read together.
#[derive(Debug)]
pub(crate) struct Batch {
    /// All up to this epoch has been read.
    pub(crate) through: Epoch,
    /// When it ended: microseconds since 1970 UTC; 0 if nobody knows.
    pub(crate) ended: u64,
    /// By epochs, ascending.
    pub(crate) epochs: Vec<(Epoch, Vec<Change>)>,
}

/// Reads a feed.
#[derive(Debug)]
pub(crate) struct FeedReader {
    epochs: EpochReader,
    tables: BTreeSet<TableId>,
    condition: Option<Expr>,
    known: BTreeMap<(TableId, u32), Rc<Known>>,
    context: EvalContext,
    /// What is read comes before this end.
    end: Option<FeedEnd>,
}

impl FeedReader {
    /// A reader of a stream of these tables, behind an epoch.
    pub(crate) fn new(
        kernel: &Kernel,
        stream: StreamId,
        tables: &[TableId],
        delivered: Epoch,
        condition: Option<&Expr>,
    ) -> Self {
        Self {
            tables: tables.iter().copied().collect(),
            epochs: EpochReader::new(kernel, stream, delivered),
            condition: condition.cloned(),
            known: BTreeMap::new(),
            context: context(),
            end: None,
        }
    }

    /// Reads on; nothing where there was nothing: then it has waited a little. After the end it
    /// gives the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Batch>, FeedEnd> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let behind = self.epochs.through();
        let delivered = self.epochs.read().await.map_err(|error| end_of(error, behind))?;
        let Some(delivered) = delivered else { return Ok(None) };
        let (mut through, mut ended) = (delivered.through, delivered.ended);
        let mut epochs = Vec::new();
        for one in &delivered.epochs {
            let mut changes = Vec::new();
            let result = self.epoch(one, &mut changes).await;
            if !changes.is_empty() {
                epochs.push((one.epoch, changes));
            }
            match result {
                Ok(()) => {}
                Err(FeedEnd::Failed(error)) => return Err(FeedEnd::Failed(error)),
                Err(end) => {
                    (through, ended) = (one.epoch, one.ended);
                    self.end = Some(end);
                    break;
                }
            }
        }
        Ok(Some(Batch { through, ended, epochs }))
    }

    async fn epoch(&mut self, one: &OneEpoch, out: &mut Vec<Change>) -> Result<(), FeedEnd> {
        let contents = self.epochs.contents(one).await;
        let Contents { parts, steps, .. } = contents.map_err(|error| end_of(error, one.epoch))?;
        for step in steps {
            match step {
                Step::Rows(mut tables) => {
                    tables.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
                    for (table, changes) in tables {
                        self.table(one, &table, &changes, &parts, out)?;
                    }
                }
                Step::Definitions { gone, .. } => {
                    if let Some(table) = gone.iter().find(|one| self.tables.contains(&one.id)) {
                        let (database, name) = shown_name(&table.name);
                        let table = format!("{database}.{name}");
                        return Err(FeedEnd::Gone { table, at: one.epoch });
                    }
                }
            }
        }
        Ok(())
    }

    /// The changes of a table in an epoch.
    fn table(
        &mut self,
        one: &OneEpoch,
        table: &Arc<Table>,
        changes: &[&RowChange],
        parts: &Parts,
        out: &mut Vec<Change>,
    ) -> Result<(), FeedEnd> {
        if !self.tables.contains(&table.id) {
            return Ok(());
        }
        let unreadable = |why: String| FeedEnd::Unreadable { why, at: one.epoch };
        let known = match self.known.get(&(table.id, table.version)) {
            Some(known) => known.clone(),
            None => {
                let known = Known::of(table, self.condition.as_ref());
                let known = known.map_err(|error| unreadable(error.message().to_owned()))?;
                let known = Rc::new(known);
                self.known.insert((table.id, table.version), known.clone());
                known
            }
        };
        // Whoever has made them: what a row comes to is one change.
        let nets = known.shape.nets(changes.iter().copied(), &Origins::default());
        let nets = nets.map_err(|error| unreadable(error.0))?.into_iter().flatten();
        for (_, net) in nets {
            if let Some((operation, before, after)) = self.change(&known, &net, parts, one.epoch)? {
                let (number, known) = (out.len() as u64 + 1, known.clone());
                let (epoch, at) = (one.epoch, one.ended);
                out.push(Change { epoch, number, operation, at, known, before, after });
            }
        }
        Ok(())
    }

    /// What a change is to the feed.
    fn change(
        &mut self,
        known: &Known,
        net: &Net,
        parts: &Parts,
        at: Epoch,
    ) -> Result<Option<Effect>, FeedEnd> {
        if net.before == net.after {
            return Ok(None);
        }
        let mut image = |row: &Option<Row>| -> Result<Option<Vec<Held>>, FeedEnd> {
            let Some(row) = row else { return Ok(None) };
            let values = known.shape.values(row, parts);
            let values = values.map_err(|error| FeedEnd::Unreadable { why: error.0, at })?;
            let admits = known.admits(&values, &mut self.context);
            let admits = admits.map_err(|error| FeedEnd::Unreadable {
                why: format!("WHERE cannot be evaluated for a row: {}", error.message()),
                at,
            })?;
            Ok(admits.then_some(values))
        };
        let (before, after) = (image(&net.before)?, image(&net.after)?);
        let operation = match (&before, &after) {
            (None, None) => return Ok(None),
            (None, Some(_)) => Operation::Create,
            (Some(_), None) => Operation::Delete,
            (Some(before), Some(after)) if before == after => return Ok(None),
            (Some(_), Some(_)) => Operation::Update,
        };
        Ok(Some((operation, before, after)))
    }
}

/// What a change does, and the row before and after it.
type Effect = (Operation, Option<Vec<Held>>, Option<Vec<Held>>);

fn end_of(error: ReadError, behind: Epoch) -> FeedEnd {
    match error {
        ReadError::Purged(from) => FeedEnd::Lost { behind, from },
        ReadError::Unreadable(why) => FeedEnd::Unreadable { why, at: behind },
        ReadError::Failed(error) => FeedEnd::Failed(error),
        // No file of a binary log is made here.
        ReadError::TooLong => FeedEnd::Failed(SqlError::internal("a change feed has no files")),
    }
}
