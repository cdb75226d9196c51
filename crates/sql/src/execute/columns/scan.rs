//! Tables whose rows come in columns from the data nodes.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use client::ScannedRows;
use sql_expression::{ProgramBuilder, kind_of};
use sqltype::Datum;
use vector::{Program, Vector};

use crate::execute::columns::batch::{Blocks, ColumnBatch};
use crate::execute::columns::cursor::{ColumnWork, Next};
use crate::execute::columns::filter::Conditions;
use crate::execute::columns::shape::{Shape, Stop, has_subquery, places_of_conditions};
use crate::execute::pushdown::{self, untranslated};
use crate::execute::run::Run;
use crate::execute::scan::{Found, TableCursor, fill_scanned};
use crate::plan::operator::TableScan;

/// A scan at work, but for its conditions with subqueries.
pub(crate) struct ScanCursor<'p> {
    scan: &'p TableScan,
    pub(super) shape: Shape,
    program: Arc<Program>,
    /// What the program gives, by place.
    given: Vec<usize>,
    /// What the data nodes do not check.
    others: Conditions,
    cursor: Option<TableCursor<'p>>,
    blocks: Blocks,
}

impl<'p> ScanCursor<'p> {
    pub(super) fn new(
        run: &Run<'_>,
        scan: &'p TableScan,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let columns = pushdown::columns(scan);
        let mut builder = ProgramBuilder::new(&columns, &run.context);
        let conditions = scan.conditions.iter().filter(|condition| !has_subquery(condition));
        let others = untranslated(&run.context, conditions, &mut builder);
        let mut places = places_of_conditions(others.iter().copied(), scan.width);
        places.extend(wanted);
        let mut shape = vec![None; scan.width];
        let mut given = Vec::new();
        for place in scan.wanted.iter().map(|at| scan.offset + at) {
            if places.contains(&place) {
                builder.give_column(place)?;
                shape[place].clone_from(&columns[place]);
                given.push(place);
            }
        }
        let others = Conditions::new(run, others.into_iter(), &shape)?;
        pushdown::leave_large(scan, &mut builder);
        let (program, cursor, blocks) = (Arc::new(builder.finish()?), None, Blocks::default());
        Some(Self { scan, shape, program, given, others, cursor, blocks })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        if let Some(block) = self.blocks.take() {
            let mut columns = vec![None; self.scan.width];
            let rows = block.rows();
            for (place, vector) in self.given.iter().zip(block.into_columns()) {
                columns[*place] = Some(Rc::new(vector));
            }
            let batch = ColumnBatch::new(rows, columns);
            return Ok(Some(self.others.keep(run, batch, &self.shape).await?));
        }
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => TableCursor::with_program(run, self.scan, self.program.clone()).await?,
        };
        let found = cursor.next_found(run).await?;
        self.cursor = Some(cursor);
        let Some(Found { rows, checks, blocks, .. }) = found else { return Ok(None) };
        self.blocks.put(run, blocks)?;
        self.stored(run, rows, checks).await.map(Some)
    }

    /// Rows that have come as they are stored.
    async fn stored(
        &self,
        run: &mut Run<'_>,
        found: ScannedRows,
        checks: bool,
    ) -> Result<ColumnBatch, Stop> {
        let scan = self.scan;
        let places: Vec<usize> = scan.wanted.iter().map(|at| scan.offset + at).collect();
        let mut columns: Vec<Option<Vector>> = self
            .shape
            .iter()
            .map(|column| column.as_ref().map(|column| Vector::new(kind_of(&column.sql_type))))
            .collect();
        let mut rows = 0;
        for values in found.iter() {
            if checks {
                let mut row = vec![Datum::Null; scan.width];
                fill_scanned(scan, values, &mut row, run);
                run.worked_a_row().await?;
                if !run.all_hold(&scan.conditions, &row).await? {
                    continue;
                }
            }
            rows += 1;
            for (at, place) in places.iter().enumerate() {
                if let Some(column) = &mut columns[*place] {
                    column.push_stored(values.get(at));
                }
            }
        }
        let columns = columns.into_iter().map(|column| column.map(Rc::new)).collect();
        Ok(ColumnBatch::new(rows, columns))
    }
}

impl ColumnWork for ScanCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}
