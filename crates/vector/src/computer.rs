//! Programs over columns that are there already, as joins have them.

use std::ops::Range;
use std::rc::Rc;

use crate::block::Block;
use crate::evaluate::{Batch, Inexact};
use crate::group::Groups;
use crate::program::{Bad, Input, Program, Yield};
use crate::top::Best;
use crate::vector::{Kind, Vector};

/// A program to be run on columns instead of stored rows. The columns are its inputs, in order; of
/// an input only the kind counts.
#[derive(Debug)]
pub struct Computer {
    program: Program,
    kinds: Vec<Kind>,
}

/// Groups that a program makes of columns.
#[derive(Debug)]
pub struct GroupTable(Groups);

/// The first rows in a program's order, of those it has met.
#[derive(Debug)]
pub struct FirstRows(Best);

impl Computer {
    /// For a program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(program: Program) -> Result<Self, Bad> {
        let kinds = program.check_nodes()?;
        Ok(Self { program, kinds })
    }

    /// What its columns are, in order.
    pub fn inputs(&self) -> &[Input] {
        &self.program.inputs
    }

    /// How many parts it has: each is computed for every row, at most.
    pub fn parts(&self) -> usize {
        self.program.nodes.len()
    }

    /// The places of the rows that pass; nothing if all of so many do.
    ///
    /// # Errors
    /// Something cannot be computed exactly: the rows are to be looked at one by one.
    pub fn select(
        &self,
        inputs: Vec<Rc<Vector>>,
        rows: usize,
    ) -> Result<Option<Vec<u32>>, Inexact> {
        let batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        Ok(batch.filtered(&self.program.filter)?.into_places())
    }

    /// The columns that the program yields of so many rows, whether they pass or not.
    ///
    /// # Errors
    /// As [`Computer::select`].
    pub fn columns(
        &self,
        inputs: Vec<Rc<Vector>>,
        rows: usize,
    ) -> Result<Vec<Rc<Vector>>, Inexact> {
        let Yield::Rows(nodes) = &self.program.yields else { return Ok(Vec::new()) };
        let mut batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        nodes.iter().map(|node| batch.value(*node)).collect()
    }

    /// No groups yet; nothing if the program makes none.
    pub fn groups(&self) -> Option<GroupTable> {
        match &self.program.yields {
            Yield::Rows(_) => None,
            Yield::Groups { keys, aggregates } => {
                Some(GroupTable(Groups::new(keys, aggregates, &self.kinds)))
            }
        }
    }

    /// Adds those of so many rows that pass to groups.
    ///
    /// # Errors
    /// As [`Computer::select`]; nothing has been added then.
    pub fn group(
        &self,
        groups: &mut GroupTable,
        inputs: Vec<Rc<Vector>>,
        rows: usize,
    ) -> Result<(), Inexact> {
        let Yield::Groups { keys, aggregates } = &self.program.yields else { return Ok(()) };
        let batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        groups.0.take(&mut batch.filtered(&self.program.filter)?, keys, aggregates)
    }

    /// No first rows yet; nothing if the program wants all rows, or groups.
    pub fn first_rows(&self) -> Option<FirstRows> {
        match (&self.program.top, &self.program.yields) {
            (Some(top), Yield::Rows(nodes)) => Some(FirstRows(Best::new(top, nodes, &self.kinds))),
            _ => None,
        }
    }

    /// Adds those of so many rows that pass, as far as they may be among the first.
    ///
    /// # Errors
    /// As [`Computer::select`]; nothing has been added then.
    pub fn take_first(
        &self,
        first: &mut FirstRows,
        inputs: Vec<Rc<Vector>>,
        rows: usize,
    ) -> Result<(), Inexact> {
        let (Some(top), Yield::Rows(nodes)) = (&self.program.top, &self.program.yields) else {
            return Ok(());
        };
        let batch = Batch::new(&self.program.nodes, &self.kinds, inputs, rows);
        first.0.take(&mut batch.filtered(&self.program.filter)?, nodes, top)
    }

    /// What the program yields of the first rows, as many as it wants at most, in any order.
    pub fn finish_first(&self, first: FirstRows) -> Block {
        match &self.program.top {
            Some(top) => first.0.finish(top),
            None => Block::empty(std::iter::empty()),
        }
    }
}

impl FirstRows {
    /// About how many bytes the rows take.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl GroupTable {
    /// Adds some of the groups that a machine or another table has made with a program of the same
    /// groups.
    ///
    /// # Errors
    /// A sum may leave its range; nothing has been added then.
    pub fn merge(
        &mut self,
        program: &Program,
        block: &Block,
        rows: Range<usize>,
    ) -> Result<(), Inexact> {
        match &program.yields {
            Yield::Groups { keys, .. } => self.0.merge(keys, block, rows),
            Yield::Rows(_) => Ok(()),
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// About how many bytes the groups take.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// A row for each group: what it is grouped by, then the aggregates.
    pub fn finish(self) -> Block {
        self.0.finish()
    }
}
