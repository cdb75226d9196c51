//! An operator at work on columns, whichever it is.
//!
//! # Owns
//! [`ColumnCursor`], with the time that it takes and who looks on; [`ColumnWork`], what each kind
//! of operator does.
//! # Not here
//! Which operators work on columns (`columns`).

use std::future::Future;
use std::pin::Pin;

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::shape::{Shape, Stop};
use crate::execute::run::Run;
use crate::plan::operator::PlanNode;

/// The next rows, in a recursion.
pub(super) type Next<'a> = Pin<Box<dyn Future<Output = Result<Option<ColumnBatch>, Stop>> + 'a>>;

/// What an operator does on columns.
pub(super) trait ColumnWork {
    /// What the batches have.
    fn shape(&self) -> &Shape;

    /// Some rows, perhaps none; nothing at the end.
    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a>;
}

/// An operator at work on columns.
pub(crate) struct ColumnCursor<'p> {
    work: Box<dyn ColumnWork + 'p>,
    is_source: bool,
    watched: Option<Watched<'p>>,
}

/// The operator that somebody looks at, and whether it has begun.
struct Watched<'p> {
    operator: &'p PlanNode,
    begun: bool,
}

impl<'p> ColumnCursor<'p> {
    /// One that works on columns.
    pub(super) fn of(work: impl ColumnWork + 'p) -> Self {
        Self { work: Box::new(work), is_source: false, watched: None }
    }

    /// One that puts the rows of a cursor of rows into columns.
    pub(super) fn of_source(source: impl ColumnWork + 'p) -> Self {
        Self { is_source: true, ..Self::of(source) }
    }

    /// Whether it only puts rows into columns.
    pub(super) fn is_source(&self) -> bool {
        self.is_source
    }

    /// The same, with somebody who looks on.
    pub(super) fn watched_as(self, operator: &'p PlanNode) -> Self {
        Self { watched: Some(Watched { operator, begun: false }), ..self }
    }

    /// What the batches have.
    pub(crate) fn shape(&self) -> &Shape {
        self.work.shape()
    }

    /// The next rows, never none; nothing at the end, however often it is asked for.
    pub(crate) fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(async move {
            let Some(watched) = &mut self.watched else {
                return next_of(&mut *self.work, run).await;
            };
            let entered = run.enter(watched.operator, &mut watched.begun);
            let batch = next_of(&mut *self.work, run).await;
            let some = batch.as_ref().ok().and_then(Option::as_ref);
            run.leave(entered, some.map(ColumnBatch::rows));
            batch
        })
    }
}

/// The next rows of an operator, never none; nothing at the end.
async fn next_of(
    work: &mut (dyn ColumnWork + '_),
    run: &mut Run<'_>,
) -> Result<Option<ColumnBatch>, Stop> {
    loop {
        let Some(batch) = work.step(run).await? else {
            #[cfg(debug_assertions)]
            if !std::mem::replace(&mut run.asks_again, true) {
                let again = work.step(run).await?;
                run.asks_again = false;
                assert!(again.is_none(), "an operator goes on after its end");
            }
            return Ok(None);
        };
        run.worked(batch.rows() / 8 + 1).await?;
        if batch.rows() > 0 {
            return Ok(Some(batch));
        }
    }
}
