//! Rows in columns, in temporary files.

use codec::{Decode, Encode, Reader, Writer};
use sql_expression::SqlError;
use vector::Block;

use crate::spill::{DiskWaiter, FRAME_BYTES, Frame, FrameReader, Polled, SpillFile, damaged};

/// The newest version of all there is: nothing outlives the process.
const VERSION: u16 = u16::MAX;

/// Blocks in a file, in the order they were written.
#[derive(Debug)]
pub(crate) struct BlockRun {
    file: SpillFile,
    frames: Vec<Frame>,
    rows: u64,
}

/// Writes blocks.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    run: BlockRun,
    buffer: Writer,
}

/// Reads the blocks of a run.
#[derive(Debug)]
pub(crate) struct BlockReader {
    frames: FrameReader,
}

impl BlockWriter {
    /// Writes to the end of a file, which others may write to as well.
    pub(crate) fn new(file: SpillFile) -> Self {
        let run = BlockRun { file, frames: Vec::new(), rows: 0 };
        Self { run, buffer: Writer::new(VERSION) }
    }

    /// Adds the rows of a block.
    ///
    /// # Errors
    /// As [`SpillFile::append`].
    pub(crate) fn push(&mut self, block: &Block) -> Result<(), SqlError> {
        if block.rows() == 0 {
            return Ok(());
        }
        self.run.rows += block.rows() as u64;
        let written = self.buffer.attempt(|out| block.encode(out));
        written.map_err(|error| SqlError::internal(format_args!("a block of rows: {error:?}")))?;
        if self.buffer.bytes().len() >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SqlError> {
        if !self.buffer.bytes().is_empty() {
            self.run.frames.push(self.run.file.append(self.buffer.bytes())?);
            self.buffer.clear();
        }
        Ok(())
    }

    /// There are no more rows.
    ///
    /// # Errors
    /// As [`SpillFile::append`].
    pub(crate) fn finish(mut self) -> Result<BlockRun, SqlError> {
        self.flush()?;
        Ok(self.run)
    }
}

impl BlockRun {
    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// To be read from the beginning.
    pub(crate) fn read(self) -> BlockReader {
        BlockReader { frames: FrameReader::new(self.file, self.frames) }
    }
}

impl BlockReader {
    /// The next blocks; nothing at the end.
    ///
    /// # Errors
    /// 1024 if they cannot be read, 1021 and 1026 if they were never written.
    pub(crate) async fn next(
        &mut self,
        waiter: &impl DiskWaiter,
    ) -> Result<Option<Vec<Block>>, SqlError> {
        let mut turns = 0;
        loop {
            match self.poll()? {
                Polled::Some(some) => return Ok(Some(some)),
                Polled::End => return Ok(None),
                Polled::Later => waiter.wait_for_disk(&mut turns).await?,
            }
        }
    }

    /// The same without waiting.
    pub(crate) fn poll(&mut self) -> Result<Polled<Vec<Block>>, SqlError> {
        let bytes = match self.frames.poll()? {
            Polled::Some(bytes) => bytes,
            Polled::Later => return Ok(Polled::Later),
            Polled::End => return Ok(Polled::End),
        };
        let mut reader = Reader::new(VERSION, &bytes);
        let mut blocks = Vec::new();
        while !reader.is_empty() {
            blocks.push(Block::decode(&mut reader).map_err(|error| damaged(&error))?);
        }
        Ok(Polled::Some(blocks))
    }

    /// To be read from the beginning once more.
    pub(crate) fn rewind(&mut self) {
        self.frames.rewind();
    }
}
