//! Runs a program over the rows of a scan, as they come.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use model::{ColumnType, Row, RowLayout, Table, ValueRef};

use crate::BATCH_ROWS;
use crate::block::Block;
use crate::evaluate::{Batch, Inexact};
use crate::group::Groups;
use crate::program::{Bad, Program, Yield};
use crate::vector::{Kind, Vector};

/// Bytes of groups that are kept; when there are more, all are given out and begun anew.
const GROUPS_BYTES_MAX: usize = 1 << 20;
/// Groups that are kept, for each row that is computed with at a time; likewise.
const GROUPS_PER_ROW: usize = 8;
/// Bytes of rows that are gathered before a block of them is given out.
const BLOCK_BYTES: usize = 32 << 10;
/// Bytes of texts that are computed with at a time.
const BATCH_BYTES: usize = 256 << 10;

/// What a machine gives out.
#[derive(Debug)]
pub enum Output {
    /// Rows of the program's result, all of which have passed.
    Block(Block),
    /// Rows of the program's inputs, as they are stored, of which something cannot be computed, or
    /// of which values lie elsewhere: nothing has been asked of them, and they are in no block.
    Rows(Vec<Row>),
}

/// A program at work on the rows of one table.
#[derive(Debug)]
pub struct Machine {
    program: Arc<Program>,
    kinds: Vec<Kind>,
    /// The layout of rows of the inputs.
    layout: RowLayout,
    sizes: Vec<usize>,
    inputs: Vec<Vector>,
    /// Rows that are computed with at a time, and given out.
    batch_rows: usize,
    rows: usize,
    /// Rows of which values lie elsewhere.
    referring: Vec<Row>,
    /// Bytes of texts in them.
    text_bytes: usize,
    /// Rows that have passed and are not given out.
    block: Block,
    groups: Option<Groups>,
    outputs: VecDeque<Output>,
}

impl Machine {
    /// For rows of a table, to compute with so many of them at a time, [`BATCH_ROWS`] at most.
    ///
    /// # Errors
    /// As [`Program::check`].
    pub fn new(program: Arc<Program>, table: &Table, batch_rows: usize) -> Result<Self, Bad> {
        let kinds = program.check(table)?;
        let column = |input: &crate::Input| &table.columns[usize::from(input.column.0)];
        let columns: Vec<model::Column> =
            program.inputs.iter().map(|input| column(input).clone()).collect();
        let size = |column: &model::Column| match column.column_type {
            ColumnType::Fixed(size) => usize::from(size),
            _ => 0,
        };
        let inputs = program.inputs.iter().map(|input| Vector::new(input.kind)).collect();
        let (block, groups) = match &program.yields {
            Yield::Rows(nodes) => {
                (Block::empty(nodes.iter().map(|node| kinds[usize::from(*node)])), None)
            }
            Yield::Groups { keys, aggregates } => {
                (Block::empty(std::iter::empty()), Some(Groups::new(keys, aggregates, &kinds)))
            }
        };
        Ok(Self {
            layout: RowLayout::new(0, &columns),
            sizes: columns.iter().map(size).collect(),
            program,
            kinds,
            inputs,
            batch_rows: batch_rows.clamp(1, BATCH_ROWS),
            rows: 0,
            referring: Vec::new(),
            text_bytes: 0,
            block,
            groups,
            outputs: VecDeque::new(),
        })
    }

    /// Takes a row of the table.
    pub fn take(&mut self, table: &Table, row: &[u8]) {
        for set in &self.program.members {
            let input = &self.program.inputs[usize::from(set.input)];
            if !set.may_hold(table.value(row, input.column)) {
                return;
            }
        }
        let references = self.program.references;
        if references.is_some_and(|column| !table.value(row, column).is_null()) {
            self.set_aside(table, row);
            return;
        }
        for (input, vector) in self.program.inputs.iter().zip(&mut self.inputs) {
            let value = table.value(row, input.column);
            if let ValueRef::Bytes(bytes) = value {
                self.text_bytes += bytes.len();
            }
            vector.push_stored(value);
        }
        self.rows += 1;
        if self.rows == self.batch_rows || self.text_bytes >= BATCH_BYTES {
            self.run();
        }
    }

    /// Keeps a row to be given out as it is.
    fn set_aside(&mut self, table: &Table, row: &[u8]) {
        let inputs = self.program.inputs.iter();
        let values: Vec<ValueRef<'_>> =
            inputs.map(|input| table.value(row, input.column)).collect();
        let row = self.layout.encode(&values).expect("they were read from such a row");
        self.referring.push(row);
        if self.referring.len() == self.batch_rows {
            self.give_referring();
        }
    }

    fn give_referring(&mut self) {
        if !self.referring.is_empty() {
            let rows = std::mem::take(&mut self.referring);
            self.outputs.push_back(Output::Rows(rows));
        }
    }

    /// There are no more rows: what is left is given out.
    pub fn finish(&mut self) {
        self.run();
        self.give_referring();
        if self.block.rows() > 0 {
            self.give_block();
        }
        self.give_groups();
    }

    /// Takes the next of what there is to be given out.
    pub fn pop_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether there is something to be given out.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Computes with the rows taken so far.
    fn run(&mut self) {
        if self.rows == 0 {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        self.text_bytes = 0;
        let fresh = self.program.inputs.iter().map(|input| Vector::new(input.kind)).collect();
        let inputs = std::mem::replace(&mut self.inputs, fresh);
        let inputs: Vec<Rc<Vector>> = inputs.into_iter().map(Rc::new).collect();
        if self.compute(inputs.clone(), rows) == Err(Inexact) {
            let rows = (0..rows).map(|at| self.stored(&inputs, at)).collect();
            self.outputs.push_back(Output::Rows(rows));
        }
        if self.block.rows() >= self.batch_rows || self.block.memory_bytes() >= BLOCK_BYTES {
            self.give_block();
        }
        let groups_max = GROUPS_PER_ROW * self.batch_rows;
        let full = |groups: &Groups| {
            groups.len() >= groups_max || groups.memory_bytes() >= GROUPS_BYTES_MAX
        };
        if self.groups.as_ref().is_some_and(full) {
            self.give_groups();
        }
    }

    fn compute(&mut self, inputs: Vec<Rc<Vector>>, rows: usize) -> Result<(), Inexact> {
        let batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        let mut batch = batch.filtered(&self.program.filter)?;
        if batch.rows() == 0 {
            return Ok(());
        }
        match &self.program.yields {
            Yield::Rows(nodes) => {
                let columns: Result<Vec<Rc<Vector>>, Inexact> =
                    nodes.iter().map(|node| batch.value(*node)).collect();
                self.block.append(batch.rows(), &columns?);
            }
            Yield::Groups { keys, aggregates } => {
                let groups = self.groups.as_mut().expect("the program groups");
                groups.take(&mut batch, keys, aggregates)?;
            }
        }
        Ok(())
    }

    /// A row of the inputs as it would be stored.
    fn stored(&self, inputs: &[Rc<Vector>], at: usize) -> Row {
        let sizes = self.sizes.iter();
        let values: Vec<model::Value> =
            inputs.iter().zip(sizes).map(|(vector, size)| vector.get(at).stored(*size)).collect();
        let values: Vec<ValueRef<'_>> = values.iter().map(model::Value::as_ref).collect();
        self.layout.encode(&values).expect("they were read from such a row")
    }

    fn give_block(&mut self) {
        let kinds: Vec<Kind> = self.block.columns().iter().map(Vector::kind).collect();
        let fresh = Block::empty(kinds.into_iter());
        self.outputs.push_back(Output::Block(std::mem::replace(&mut self.block, fresh)));
    }

    fn give_groups(&mut self) {
        let Yield::Groups { keys, aggregates } = &self.program.yields else { return };
        let fresh = Groups::new(keys, aggregates, &self.kinds);
        let Some(groups) = self.groups.replace(fresh) else { return };
        if groups.len() == 0 {
            return;
        }
        let block = groups.finish();
        let rows = block.rows();
        let per_row = block.memory_bytes() / rows.max(1) + 1;
        let step = (BLOCK_BYTES / per_row).clamp(1, self.batch_rows);
        for from in (0..rows).step_by(step) {
            self.outputs.push_back(Output::Block(block.slice(from, rows.min(from + step))));
        }
    }
}
