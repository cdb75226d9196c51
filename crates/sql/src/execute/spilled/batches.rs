//! Rows in columns that are kept in a file.

use std::collections::VecDeque;

use sql_expression::SqlError;
use vector::Block;

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::shape::{Shape, Stop};
use crate::execute::run::Run;
use crate::spill::SpillFile;
use crate::spill::blocks::{BlockReader, BlockRun, BlockWriter};

/// Writes batches.
pub(crate) struct BatchWriter(BlockWriter);

/// Reads batches.
pub(crate) struct BatchReader {
    reader: BlockReader,
    waiting: VecDeque<Block>,
}

impl BatchWriter {
    /// To a new file; errors name it so.
    pub(crate) fn new(run: &Run<'_>, what: &'static str) -> Result<Self, SqlError> {
        Ok(Self(BlockWriter::new(SpillFile::create(&run.session.memory, what)?)))
    }

    /// Adds the rows of a batch.
    pub(crate) async fn push(
        &mut self,
        run: &mut Run<'_>,
        batch: ColumnBatch,
    ) -> Result<(), SqlError> {
        let rows = batch.rows();
        self.0.push(&batch.into_block())?;
        run.worked(rows / 8 + 1).await
    }

    /// There are no more rows.
    pub(crate) fn finish(self) -> Result<BatchReader, SqlError> {
        Ok(BatchReader::new(self.0.finish()?))
    }
}

impl BatchReader {
    pub(crate) fn new(run: BlockRun) -> Self {
        Self { reader: run.read(), waiting: VecDeque::new() }
    }

    /// The next batch, with the columns that the shape has; nothing at the end.
    pub(crate) async fn next(
        &mut self,
        run: &mut Run<'_>,
        shape: &Shape,
    ) -> Result<Option<ColumnBatch>, Stop> {
        while self.waiting.is_empty() {
            let Some(blocks) = self.reader.next(run).await? else { return Ok(None) };
            self.waiting = blocks.into();
        }
        let Some(block) = self.waiting.pop_front() else { return Ok(None) };
        run.worked(block.rows() / 8 + 1).await?;
        Ok(Some(ColumnBatch::of_block(block, shape)))
    }

    /// To be read from the beginning once more.
    pub(crate) fn rewind(&mut self) {
        self.reader.rewind();
        self.waiting.clear();
    }
}
