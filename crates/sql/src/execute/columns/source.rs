//! Rows of any other operator, put into columns.

use std::collections::BTreeSet;
use std::rc::Rc;

use model::{ColumnId, Value};
use sql_expression::{Form, ProgramColumn, kind_of};
use sqltype::{Datum, SqlType, TypeKind, storage};
use vector::{Kind, ScalarRef, Vector};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::{ColumnWork, Next};
use crate::execute::columns::shape::{Shape, Stop, shape_of, width_of};
use crate::execute::cursor::{Cursor, Work, open};
use crate::execute::run::Run;
use crate::execute::spilled::batches::{BatchReader, BatchWriter};
use crate::memory::Held;
use crate::plan::operator::PlanNode;
use crate::rows::{Row, memory_of};

/// Values put into a column between two looks at the clock.
const PART_ROWS: usize = 512;

/// What errors say that too much of is kept.
const COLUMNS: &str = "rows that are put into columns";

/// An operator that gives rows.
pub(crate) struct SourceCursor<'p> {
    operator: &'p PlanNode,
    pub(super) shape: Shape,
    cursor: Option<Cursor<'p>>,
    /// What the columns given last take.
    held: Option<Held>,
    /// All rows, where they are in a file.
    blocks: Option<BatchReader>,
}

impl<'p> SourceCursor<'p> {
    pub(super) fn new(operator: &'p PlanNode, wanted: &BTreeSet<usize>) -> Option<Self> {
        let types = shape_of(operator)?;
        let mut shape = vec![None; width_of(operator)?];
        for (place, sql_type) in types.into_iter().filter(|(place, _)| wanted.contains(place)) {
            // The session's time zone has it, and not every moment back.
            if sql_type.kind == TypeKind::Timestamp {
                return None;
            }
            shape[place] = Some(ProgramColumn { column: ColumnId(0), sql_type });
        }
        Some(Self { operator, shape, cursor: None, held: None, blocks: None })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        if let Some(blocks) = &mut self.blocks {
            return blocks.next(run, &self.shape).await;
        }
        let operator = self.operator;
        self.held = None;
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => open(operator),
        };
        let Some(rows) = cursor.next(run).await? else {
            // One that is asked again goes on to say so: a new one would give all rows once more.
            self.cursor = Some(cursor);
            return Ok(None);
        };
        let batch = match &mut cursor.work {
            Work::Rows(rest, held) => {
                // All there are, so that what does not fit is known at once.
                let mut of_columns = run.hold(COLUMNS);
                if of_columns.fits(held.bytes())? {
                    drop(of_columns);
                    let rest = std::mem::take(rest);
                    let _of_rest = std::mem::replace(held, run.hold(COLUMNS));
                    let rows: Vec<Row> = rows.into_iter().chain(rest).collect();
                    self.batch(run, &rows).await.map(Some)
                } else {
                    self.keep_all(run, &mut cursor, rows).await
                }
            }
            Work::Spilled(_) | Work::Derived(..) => self.keep_all(run, &mut cursor, rows).await,
            _ => self.batch(run, &rows).await.map(Some),
        };
        self.cursor = Some(cursor);
        batch
    }

    /// Puts all rows into columns in a file, so that what does not fit is known before the first of
    /// them are given; and gives these.
    async fn keep_all(
        &mut self,
        run: &mut Run<'_>,
        cursor: &mut Cursor<'p>,
        first: Vec<Row>,
    ) -> Result<Option<ColumnBatch>, Stop> {
        let mut writer = BatchWriter::new(run, COLUMNS)?;
        let mut next = Some(first);
        while let Some(rows) = next {
            let batch = self.batch(run, &rows).await?;
            writer.push(run, batch).await?;
            next = cursor.next(run).await?;
        }
        let blocks = self.blocks.insert(writer.finish()?);
        blocks.next(run, &self.shape).await
    }

    pub(super) async fn batch(
        &mut self,
        run: &mut Run<'_>,
        rows: &[Row],
    ) -> Result<ColumnBatch, Stop> {
        let mut held = run.hold_in_passing(COLUMNS);
        held.set(memory_of(rows))?;
        let mut columns = Vec::with_capacity(self.shape.len());
        for (place, column) in self.shape.iter().enumerate() {
            let Some(column) = column else {
                columns.push(None);
                continue;
            };
            let mut vector = Vector::new(kind_of(&column.sql_type));
            for part in rows.chunks(run.portion(PART_ROWS)) {
                for row in part {
                    push(&mut vector, &row[place], &column.sql_type).ok_or(Stop::Unsuitable)?;
                }
                run.worked(part.len()).await?;
            }
            columns.push(Some(Rc::new(vector)));
        }
        let batch = ColumnBatch::new(rows.len(), columns);
        held.set(batch.memory_bytes())?;
        self.held = Some(held);
        Ok(batch)
    }
}

impl ColumnWork for SourceCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}

/// Adds a value to a column of its type; nothing if it is none of these.
pub(super) fn push(vector: &mut Vector, value: &Datum, sql_type: &SqlType) -> Option<()> {
    let scalar = match (value, Form::of(sql_type)) {
        (Datum::Null, _) => ScalarRef::Null,
        (Datum::Int(number), Form::Int) => ScalarRef::Int(*number),
        (Datum::Int(number), Form::UInt) => ScalarRef::UInt(u64::try_from(*number).ok()?),
        (Datum::UInt(number), Form::UInt) => ScalarRef::UInt(*number),
        (Datum::UInt(number), Form::Int) => ScalarRef::Int(i64::try_from(*number).ok()?),
        (Datum::Double(number), Form::Float) => ScalarRef::Float(*number),
        (Datum::Decimal(number), Form::Decimal(scale)) => {
            let by = 10_i128.checked_pow(scale.checked_sub(number.scale())?.into())?;
            ScalarRef::Decimal(number.to_unscaled()?.checked_mul(by)?)
        }
        (Datum::Bytes(text), Form::Text(_)) => ScalarRef::Bytes(text),
        (Datum::Date(_), Form::Date)
        | (Datum::DateTime(_), Form::DateTime)
        | (Datum::Time(_), Form::Time)
        | (_, Form::Stored) => {
            let stored = match (storage::to_value(value, sql_type), vector.kind()) {
                // YEAR is an integer that is stored as unsigned.
                (Value::Int(number), Kind::UInt) => Value::UInt(u64::try_from(number).ok()?),
                (stored, _) => stored,
            };
            let before = vector.len();
            vector.push_stored(stored.as_ref());
            return (!vector.is_null(before)).then_some(());
        }
        _ => return None,
    };
    vector.push(scalar);
    Some(())
}
