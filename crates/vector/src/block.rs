//! Rows in columns, as they travel.

use std::rc::Rc;

use codec::Codec;

use crate::vector::{Kind, Vector};

/// Some rows of a program's result.
#[derive(Clone, Debug, PartialEq, Codec)]
#[codec(check = is_even)]
pub struct Block {
    rows: u32,
    columns: Vec<Vector>,
}

fn is_even(block: &Block) -> bool {
    let fits = |column: &Vector| {
        let nulls = column.nulls.len();
        column.len() == block.rows as usize && (nulls == 0 || nulls == column.len())
    };
    block.columns.iter().all(fits)
}

impl Block {
    /// So many rows in these columns, each of which has as many values.
    pub fn new(rows: usize, columns: Vec<Vector>) -> Self {
        let rows = u32::try_from(rows).expect("blocks are small");
        let block = Self { rows, columns };
        assert!(is_even(&block), "columns of different lengths");
        block
    }

    /// No rows of columns of these kinds.
    pub fn empty(kinds: impl Iterator<Item = Kind>) -> Self {
        Self { rows: 0, columns: kinds.map(Vector::new).collect() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The columns.
    pub fn columns(&self) -> &[Vector] {
        &self.columns
    }

    /// The columns, to be kept.
    pub fn into_columns(self) -> Vec<Vector> {
        self.columns
    }

    /// Adds the rows of another block with the same kinds of columns.
    pub fn append(&mut self, rows: usize, columns: &[Rc<Vector>]) {
        self.rows += rows as u32;
        for (to, from) in self.columns.iter_mut().zip(columns) {
            to.append(from);
        }
    }

    /// Some of the rows, as a block.
    pub fn slice(&self, from: usize, to: usize) -> Block {
        let places: Vec<u32> = (from as u32..to as u32).collect();
        self.gather(&places)
    }

    /// All rows in blocks of so many rows, and about so many bytes, at most; a row at least.
    pub fn pieces(&self, rows_max: usize, bytes_max: usize) -> impl Iterator<Item = Block> {
        let rows = self.rows();
        let bytes_of_row = self.memory_bytes() / rows.max(1) + 1;
        let step = (bytes_max / bytes_of_row).min(rows_max).max(1);
        (0..rows).step_by(step).map(move |from| self.slice(from, rows.min(from + step)))
    }

    /// The rows at these places, as a block.
    pub fn gather(&self, places: &[u32]) -> Block {
        let columns = self.columns.iter().map(|column| column.gather(places)).collect();
        Block::new(places.len(), columns)
    }

    /// About how many bytes it takes.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(Vector::memory_bytes).sum()
    }
}
