//! Some rows in columns.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use sql_expression::{ProgramColumn, SqlError};
use sqltype::Datum;
use vector::{Block, Texts, Values, Vector};

use crate::execute::columns::shape::Shape;
use crate::execute::run::Run;
use crate::execute::scan::given_datum;
use crate::memory::Held;
use crate::rows::Row;

/// What errors say that too much of is kept.
const BLOCKS: &str = "the rows of a scan";
/// Bytes of texts that pairs of rows are made with at a time: a long text may stand in many.
const PAIRED_BYTES_MAX: usize = 64 << 20;

/// Values of a column that are gathered at a time.
const GATHERED_MAX: usize = 2_048;

/// Some rows of one side of pairs, and which of its columns are wanted.
pub(crate) type Side<'a> = (&'a ColumnBatch, &'a [u32], &'a [Option<ProgramColumn>]);

/// How many of some pairs can be made at once, at least one.
pub(crate) fn fitting(sides: [Side<'_>; 2]) -> usize {
    let mut texts: Vec<(&Texts, &[u32])> = Vec::new();
    for (batch, rows, shape) in sides {
        for (column, wanted) in batch.columns.iter().zip(shape) {
            if let (Some(column), Some(_)) = (column, wanted)
                && let Values::Bytes(list) = &column.values
            {
                texts.push((list, rows));
            }
        }
    }
    let count = sides[0].1.len();
    let mut bytes = 0;
    for at in 0..count {
        let of_pair = texts.iter().map(|(texts, rows)| texts.size_at(rows[at] as usize));
        bytes += of_pair.sum::<usize>();
        if bytes > PAIRED_BYTES_MAX {
            return at.max(1);
        }
    }
    count
}

/// Blocks that have come and are not looked at yet.
#[derive(Default)]
pub(super) struct Blocks {
    waiting: VecDeque<Block>,
    /// What they take.
    held: Option<Held>,
}

impl Blocks {
    /// Puts blocks behind those that wait.
    ///
    /// # Errors
    /// 3170 if they would take more memory than may be held.
    pub(super) fn put(&mut self, run: &Run<'_>, blocks: Vec<Block>) -> Result<(), SqlError> {
        let bytes = blocks.iter().map(Block::memory_bytes).sum();
        self.waiting.extend(blocks);
        self.held.get_or_insert_with(|| run.hold_in_passing(BLOCKS)).add(bytes)
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Option<Block> {
        if let Some(held) = &mut self.held {
            held.give_up(1, self.waiting.len());
        }
        self.waiting.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Rows of a block in columns, which stand at their places.
#[derive(Clone, Debug)]
pub(crate) struct ColumnBatch {
    rows: usize,
    columns: Vec<Option<Rc<Vector>>>,
}

impl ColumnBatch {
    /// So many rows of these columns.
    pub(crate) fn new(rows: usize, columns: Vec<Option<Rc<Vector>>>) -> Self {
        Self { rows, columns }
    }

    /// No rows of columns of a shape.
    pub(crate) fn empty(shape: &Shape) -> Self {
        let vector = |column: &ProgramColumn| {
            Rc::new(Vector::new(sql_expression::kind_of(&column.sql_type)))
        };
        let columns = shape.iter().map(|column| column.as_ref().map(vector)).collect();
        Self { rows: 0, columns }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The column at a place.
    pub(crate) fn column(&self, place: usize) -> Option<&Rc<Vector>> {
        self.columns.get(place)?.as_ref()
    }

    /// Adds a column behind the others.
    pub(crate) fn push(&mut self, column: Rc<Vector>) {
        self.columns.push(Some(column));
    }

    /// With the columns of other rows, as many, behind.
    pub(crate) fn followed_by(mut self, other: Self) -> Self {
        self.columns.extend(other.columns);
        self
    }

    /// The rows of a block, whose columns are those that a shape has.
    pub(crate) fn of_block(block: Block, shape: &Shape) -> Self {
        let (rows, count) = (block.rows(), block.columns().len());
        assert_eq!(count, shape.iter().flatten().count(), "columns of a block of this shape");
        let mut given = block.into_columns().into_iter().map(Rc::new);
        let columns = shape.iter().map(|column| column.as_ref().and_then(|_| given.next()));
        Self { rows, columns: columns.collect() }
    }

    /// The columns that are there, as a block.
    pub(crate) fn into_block(self) -> Block {
        let columns = self.columns.into_iter().flatten();
        Block::new(self.rows, columns.map(Rc::unwrap_or_clone).collect())
    }

    /// The columns in the order of their places, as programs over rows of this shape read them.
    pub(crate) fn inputs(&self) -> Vec<Rc<Vector>> {
        self.columns.iter().flatten().cloned().collect()
    }

    /// The rows at these places, without the columns that a shape does not have. Others may have a
    /// turn after each column: of many rows and columns it takes long.
    pub(crate) async fn gather(
        &self,
        run: &mut Run<'_>,
        rows: &[u32],
        shape: &[Option<ProgramColumn>],
    ) -> Result<Self, SqlError> {
        let mut gathered = Vec::with_capacity(self.columns.len());
        for (column, wanted) in self.columns.iter().zip(shape) {
            let Some(column) = column.as_ref().filter(|_| wanted.is_some()) else {
                gathered.push(None);
                continue;
            };
            let (first, mut others) = rows.split_at(rows.len().min(run.portion(GATHERED_MAX)));
            let mut made = column.gather(first);
            run.worked(first.len() / 8).await?;
            while !others.is_empty() {
                let (part, rest) = others.split_at(others.len().min(run.portion(GATHERED_MAX)));
                made.append(&column.gather(part));
                run.worked(part.len() / 8).await?;
                others = rest;
            }
            gathered.push(Some(Rc::new(made)));
        }
        Ok(Self { rows: rows.len(), columns: gathered })
    }

    /// Without the columns that a shape does not have.
    pub(crate) fn narrowed(mut self, shape: &Shape) -> Self {
        for (column, wanted) in self.columns.iter_mut().zip(shape) {
            if wanted.is_none() {
                *column = None;
            }
        }
        self
    }

    /// Adds the columns of other rows, as many, at places where there is nothing.
    pub(crate) fn beside(mut self, other: Self) -> Self {
        for (column, others) in self.columns.iter_mut().zip(other.columns) {
            if column.is_none() {
                *column = others;
            }
        }
        self
    }

    /// Columns of NULLs for what a shape has and these rows have not.
    pub(crate) fn padded(mut self, shape: &Shape) -> Self {
        for (column, wanted) in self.columns.iter_mut().zip(shape) {
            if let (None, Some(wanted)) = (&column, wanted) {
                let mut vector = Vector::new(sql_expression::kind_of(&wanted.sql_type));
                (0..self.rows).for_each(|_| vector.push_null());
                *column = Some(Rc::new(vector));
            }
        }
        self
    }

    /// Makes room for the rows of batches of the same shape.
    pub(crate) fn reserve_for(&mut self, batches: &VecDeque<Self>) {
        for (place, column) in self.columns.iter_mut().enumerate() {
            let others = batches.iter().filter_map(|batch| batch.column(place));
            if let Some(column) = column {
                Rc::make_mut(column).reserve_for(others.map(|other| &**other));
            }
        }
    }

    /// Adds the rows of a batch of the same shape.
    ///
    /// # Errors
    /// 3170 if it would take more memory than may be held.
    pub(crate) fn append(&mut self, other: &Self, held: &mut Held) -> Result<(), SqlError> {
        held.add(other.memory_bytes())?;
        self.append_held(other);
        Ok(())
    }

    /// The same for rows that are held already.
    pub(crate) fn append_held(&mut self, other: &Self) {
        self.rows += other.rows;
        for (column, others) in self.columns.iter_mut().zip(&other.columns) {
            if let (Some(column), Some(others)) = (column, others) {
                Rc::make_mut(column).append(others);
            }
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.columns.iter().flatten().map(|column| column.memory_bytes()).sum()
    }

    /// A row, as wide as the block's.
    pub(crate) fn row(&self, at: usize, shape: &Shape, run: &Run<'_>) -> Row {
        let mut row = vec![Datum::Null; shape.len()];
        for ((place, column), of) in row.iter_mut().zip(&self.columns).zip(shape) {
            if let (Some(column), Some(of)) = (column, of) {
                *place = given_datum(column.get(at), &of.sql_type, run);
            }
        }
        row
    }

    /// Some rows.
    pub(crate) fn some_rows(&self, rows: Range<usize>, shape: &Shape, run: &Run<'_>) -> Vec<Row> {
        rows.map(|at| self.row(at, shape, run)).collect()
    }
}
