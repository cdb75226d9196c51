//! Rows that are kept until they are asked for: in memory, or all of them in a file.

use sql_expression::SqlError;

use crate::execute::cursor::Cursor;
use crate::execute::kept::Kept;
use crate::execute::run::Run;
use crate::memory::Held;
use crate::rows::{Row, memory_of};
use crate::spill::SpillFile;
use crate::spill::rows::{RowRun, RowWriter};

/// Collects rows.
pub(crate) struct RowBuffer {
    rows: Vec<Row>,
    held: Held,
    file: Option<RowWriter>,
}

/// Rows that were collected.
pub(crate) enum Buffered {
    Kept(Kept),
    File(RowRun),
}

impl RowBuffer {
    /// Without rows; errors name them so.
    pub(crate) fn new(run: &Run<'_>, what: &'static str) -> Self {
        Self { rows: Vec::new(), held: run.hold(what), file: None }
    }

    /// Adds rows.
    pub(crate) async fn add(
        &mut self,
        run: &mut Run<'_>,
        mut rows: Vec<Row>,
    ) -> Result<(), SqlError> {
        if self.file.is_none() && self.held.fits(memory_of(&rows))? {
            self.rows.append(&mut rows);
            return Ok(());
        }
        if self.file.is_none() {
            let file = SpillFile::create(self.held.account(), self.held.what())?;
            let mut writer = RowWriter::new(file);
            write(run, &mut writer, std::mem::take(&mut self.rows)).await?;
            self.held.set(0)?;
            self.file = Some(writer);
        }
        match &mut self.file {
            Some(writer) => write(run, writer, rows).await,
            None => Ok(()),
        }
    }

    /// Adds all rows of a cursor.
    pub(crate) async fn drain(
        mut self,
        run: &mut Run<'_>,
        mut cursor: Cursor<'_>,
    ) -> Result<Buffered, SqlError> {
        while let Some(rows) = cursor.next(run).await? {
            self.add(run, rows).await?;
        }
        self.finish()
    }

    /// There are no more rows.
    pub(crate) fn finish(self) -> Result<Buffered, SqlError> {
        Ok(match self.file {
            Some(writer) => Buffered::File(writer.finish()?),
            None => Buffered::Kept(Kept { rows: self.rows, held: self.held }),
        })
    }
}

/// Writes rows, which are gone from memory afterwards.
pub(crate) async fn write(
    run: &mut Run<'_>,
    writer: &mut RowWriter,
    rows: Vec<Row>,
) -> Result<(), SqlError> {
    for row in rows {
        writer.push(&row)?;
        run.worked(1).await?;
    }
    Ok(())
}
