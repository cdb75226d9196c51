//! Runs a program over the rows of a scan, as they come.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use model::{Row, RowLayout, Table, ValueRef};

use crate::BATCH_ROWS;
use crate::block::Block;
use crate::evaluate::{Batch, Inexact};
use crate::group::Groups;
use crate::program::{Bad, Input, Program, Yield};
use crate::top::Best;
use crate::vector::{Kind, Vector};

/// Bytes of groups that are kept; when there are more, all are given out and begun anew.
pub const GROUPS_BYTES_MAX: usize = 1 << 20;
/// Groups that are kept, for each row that is computed with at a time; likewise.
const GROUPS_PER_ROW: usize = 16;
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
    /// For each input, whether the filter asks for it.
    early: Vec<bool>,
    /// Of the rows that have passed the filter and are to be computed with.
    inputs: Vec<Vector>,
    /// Rows that are given out at a time.
    batch_rows: usize,
    /// Rows that are computed with at a time: so many, or a part of them.
    run_rows: usize,
    rows: usize,
    /// Rows of which values lie elsewhere.
    referring: Vec<Row>,
    /// Rows that have passed and are not given out.
    block: Block,
    groups: Option<Groups>,
    /// The first rows, where only they are wanted.
    best: Option<Best>,
    outputs: VecDeque<Output>,
}

impl Machine {
    /// For rows of a table, to compute with so many of them at a time, [`BATCH_ROWS`] at most.
    ///
    /// # Errors
    /// As [`Program::check`].
    pub fn new(program: Arc<Program>, table: &Table, batch_rows: usize) -> Result<Self, Bad> {
        let kinds = program.check(table)?;
        let column = |input: &Input| &table.columns[usize::from(input.column.0)];
        let columns: Vec<model::Column> =
            program.inputs.iter().map(|input| column(input).clone()).collect();
        let size = |column: &model::Column| column.column_type.fixed_size().unwrap_or(0);
        let inputs = program.inputs.iter().map(|input| Vector::new(input.kind)).collect();
        let (block, groups) = match &program.yields {
            Yield::Rows(nodes) => {
                (Block::empty(nodes.iter().map(|node| kinds[usize::from(*node)])), None)
            }
            Yield::Groups { keys, aggregates } => {
                (Block::empty(std::iter::empty()), Some(Groups::new(keys, aggregates, &kinds)))
            }
        };
        let best = match (&program.top, &program.yields) {
            (Some(top), Yield::Rows(nodes)) => Some(Best::new(top, nodes, &kinds)),
            _ => None,
        };
        Ok(Self {
            best,
            layout: RowLayout::new(0, &columns),
            sizes: columns.iter().map(size).collect(),
            early: program.inputs_of_filter(),
            program,
            kinds,
            inputs,
            batch_rows: batch_rows.clamp(1, BATCH_ROWS),
            run_rows: batch_rows.clamp(1, BATCH_ROWS),
            rows: 0,
            referring: Vec::new(),
            block,
            groups,
            outputs: VecDeque::new(),
        })
    }

    /// From now on computes with so many `of` its usual rows at a time, so that it takes less long;
    /// what it gives out is as much as ever.
    pub fn limit(&mut self, rows: u32, of: u32) {
        let rows = self.batch_rows as u64 * u64::from(rows) / u64::from(of.max(1));
        self.run_rows = (rows as usize).clamp(1, self.batch_rows);
    }

    /// Takes rows of the table.
    pub fn take(&mut self, table: &Table, rows: &[&[u8]]) {
        let mut rows = Cow::Borrowed(rows);
        if let Some(column) = self.program.references {
            let refers = |row: &&[u8]| !table.value(row, column).is_null();
            rows.iter().filter(|row| refers(row)).for_each(|row| self.set_aside(table, row));
            rows.to_mut().retain(|row| !refers(row));
        }
        let is_only = table.layouts.len() == 1;
        let are_alike =
            |a: &&[u8], b: &&[u8]| is_only || RowLayout::version_of(a) == RowLayout::version_of(b);
        for alike in rows.chunk_by(are_alike) {
            let mut rest = alike;
            while let Some(first) = rest.first() {
                let (piece, after) = rest.split_at(self.piece(rest));
                self.read(table, table.layout_of(first), piece);
                rest = after;
            }
        }
    }

    /// How many of these rows, which are some, are read at a time.
    fn piece(&mut self, rows: &[&[u8]]) -> usize {
        // Small pieces are not worth their while.
        if self.run_rows.saturating_sub(self.rows) < rows.len().min(self.run_rows / 4 + 1) {
            self.run();
        }
        let rows = &rows[..rows.len().min(self.run_rows - self.rows)];
        let mut bytes = 0;
        let mut has_room = |row: &&[u8]| {
            bytes += row.len();
            bytes < BATCH_BYTES
        };
        rows.iter().take_while(|row| has_room(row)).count().max(1)
    }

    /// Reads the columns of rows of one layout that may have a key of each set: first the columns
    /// that the filter asks for, then the others of the rows that pass.
    fn read(&mut self, table: &Table, layout: &RowLayout, rows: &[&[u8]]) {
        let program = self.program.clone();
        let read = |vector: &mut Vector, input: &Input, rows: &[&[u8]]| {
            let default = &table.columns[usize::from(input.column.0)].default;
            vector.read(layout, input.column, rows, default);
        };
        let mut rows = Cow::Borrowed(rows);
        for set in &program.members {
            let input = &program.inputs[usize::from(set.input)];
            let mut vector = Vector::new(input.kind);
            read(&mut vector, input, &rows);
            rows = Cow::Owned(chosen(&rows, &set.places_in(&vector)));
        }
        let rows = &rows[..];
        if rows.is_empty() {
            return;
        }
        let inputs = || program.inputs.iter().zip(&self.early);
        let mut passing = None;
        let mut of_filter = Vec::new();
        if !program.filter.is_empty() {
            for (input, early) in inputs() {
                let mut vector = Vector::new(input.kind);
                if *early {
                    read(&mut vector, input, rows);
                }
                of_filter.push(Rc::new(vector));
            }
            let batch = Batch::new(&program.nodes, &self.kinds, of_filter.clone(), rows.len());
            let Ok(batch) = batch.filtered(&program.filter) else {
                let rows = rows.iter().map(|row| self.as_input(table, row)).collect();
                return self.outputs.push_back(Output::Rows(rows));
            };
            passing = batch.into_places();
        }
        let rows = match &passing {
            Some(places) => Cow::Owned(chosen(rows, places)),
            None => Cow::Borrowed(rows),
        };
        for (at, (input, early)) in inputs().enumerate() {
            let vector = &mut self.inputs[at];
            match (early, &passing) {
                (true, Some(places)) => vector.append(&of_filter[at].gather(places)),
                (true, None) => vector.append(&of_filter[at]),
                (false, _) => read(vector, input, &rows),
            }
        }
        self.rows += rows.len();
        let bytes = self.inputs.iter().map(Vector::text_bytes).sum::<usize>();
        if self.rows == self.run_rows || bytes >= BATCH_BYTES {
            self.run();
        }
    }

    /// A row of the table as one of the inputs.
    fn as_input(&self, table: &Table, row: &[u8]) -> Row {
        let inputs = self.program.inputs.iter();
        let values: Vec<ValueRef<'_>> =
            inputs.map(|input| table.value(row, input.column)).collect();
        self.layout.encode(&values).expect("they were read from such a row")
    }

    /// Keeps a row to be given out as it is.
    fn set_aside(&mut self, table: &Table, row: &[u8]) {
        let row = self.as_input(table, row);
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
        self.give_best();
    }

    /// Takes the next of what there is to be given out.
    pub fn pop_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Computes with the rows that have passed.
    fn run(&mut self) {
        if self.rows == 0 {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
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
        // What is too much to be kept is given out, wanted or not.
        if self.best.as_ref().is_some_and(|best| best.memory_bytes() >= GROUPS_BYTES_MAX) {
            self.give_best();
        }
    }

    fn compute(&mut self, inputs: Vec<Rc<Vector>>, rows: usize) -> Result<(), Inexact> {
        let mut batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        match &self.program.yields {
            Yield::Rows(nodes)
                if let (Some(best), Some(top)) = (&mut self.best, &self.program.top) =>
            {
                best.take(&mut batch, nodes, top)?;
            }
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
        self.give_blocks(&groups.finish());
    }

    fn give_best(&mut self) {
        let (Some(top), Yield::Rows(nodes)) = (&self.program.top, &self.program.yields) else {
            return;
        };
        let fresh = Best::new(top, nodes, &self.kinds);
        let Some(best) = self.best.replace(fresh) else { return };
        let block = best.finish(top);
        self.give_blocks(&block);
    }

    /// Gives a block out, some rows at a time.
    fn give_blocks(&mut self, block: &Block) {
        let pieces = block.pieces(self.batch_rows, BLOCK_BYTES);
        self.outputs.extend(pieces.map(Output::Block));
    }
}

fn chosen<'r>(rows: &[&'r [u8]], places: &[u32]) -> Vec<&'r [u8]> {
    places.iter().map(|place| rows[*place as usize]).collect()
}
