//! Committed changes as the segments of an archive have them.
//!
//! A record is a byte for its kind, then numbers, little-endian, and values (`rows`):
//!
//! ```text
//! epoch         number                            what follows is of this epoch
//! ended         number, microseconds              when an epoch ended
//! layout        table, columns, key columns       how changes of a table are written from here on
//! change        table, what there is, key, row    the key as it was, the row as it became
//! definitions   epoch before, epoch, length, JSON what was defined when all epochs to this one
//!                                                 were complete; changed behind the one before
//! lost          table                             a change that nobody could read any more
//! ```
//!
//! # Guarantees
//! A portion has whole records, and says itself how its tables are laid out. Any bytes are records
//! or an error.

use std::collections::BTreeMap;

use model::{Table, TableId, Value};
use serde::{Deserialize, Serialize};
use sql_expression::SqlError;

use crate::backup::rows::{Rows, encode};
use crate::backup_jobs::host::{SavedDatabase, SavedTable, SavedView, failed};

/// Bytes after which a portion ends.
const PORTION: usize = 1 << 20;

const EPOCH: u8 = 1;
const ENDED: u8 = 2;
const LAYOUT: u8 = 3;
const CHANGE: u8 = 4;
const DEFINITIONS: u8 = 5;
const LOST: u8 = 6;

/// There was a row before the change.
const BEFORE: u8 = 1;
/// There is one after it.
const AFTER: u8 = 2;

/// What is defined at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definitions {
    /// Databases.
    pub(crate) databases: Vec<SavedDatabase>,
    /// All tables of users, those of parts, and the one with the next values of AUTO_INCREMENT.
    pub(crate) tables: Vec<SavedTable>,
    /// Views.
    pub(crate) views: Vec<SavedView>,
    /// Accounts, where they are archived.
    pub(crate) accounts: Vec<(String, String)>,
}

/// How the changes of a table are written: the numbers of its columns, and of those of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<u16>,
    pub(crate) key: Vec<u16>,
}

impl Layout {
    /// With columns that were dropped: a row that is older than that has values in them, which the
    /// state of a moment before shows.
    fn of_changes(table: &Table) -> Self {
        let columns = (0..table.columns.len() as u16).collect();
        Self { columns, ..Self::of(table) }
    }

    /// That of a table as it is now.
    pub(crate) fn of(table: &Table) -> Self {
        let is_kept = |at: &u16| !table.columns[usize::from(*at)].is_hole();
        let columns = (0..table.columns.len() as u16).filter(is_kept).collect();
        Self { columns, key: table.primary_key.iter().map(|column| column.0).collect() }
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Epoch(u64),
    Ended(u64, u64),
    Layout(TableId, Layout),
    Change {
        table: TableId,
        /// The key of the row as it was.
        before: Option<Vec<Value>>,
        /// The row as it became.
        after: Option<Vec<Value>>,
    },
    Definitions {
        before: u64,
        epoch: u64,
        definitions: Box<Definitions>,
    },
    Lost(TableId),
}

/// Records that are written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    portions: Vec<Vec<u8>>,
    last: Vec<u8>,
    /// The epoch and the layouts that the last portion has told.
    epoch: Option<u64>,
    layouts: BTreeMap<TableId, Layout>,
    bytes: usize,
}

impl Writer {
    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.last.len()
    }

    /// What was written, in portions.
    pub(crate) fn finish(&mut self) -> Vec<Vec<u8>> {
        self.cut();
        self.bytes = 0;
        std::mem::take(&mut self.portions)
    }

    fn cut(&mut self) {
        let full = std::mem::take(&mut self.last);
        if !full.is_empty() {
            self.bytes += full.len();
            self.portions.push(full);
        }
        self.epoch = None;
        self.layouts.clear();
    }

    fn begin(&mut self, kind: u8) {
        if self.last.len() >= PORTION {
            self.cut();
        }
        self.last.push(kind);
    }

    fn word(&mut self, word: u64) {
        self.last.extend(word.to_le_bytes());
    }

    /// When an epoch ended.
    pub(crate) fn ended(&mut self, epoch: u64, at: u64) {
        self.begin(ENDED);
        self.word(epoch);
        self.word(at);
    }

    /// What changes are of from here on.
    fn in_epoch(&mut self, epoch: u64) {
        if self.last.len() >= PORTION {
            self.cut();
        }
        if self.epoch != Some(epoch) {
            self.begin(EPOCH);
            self.word(epoch);
            self.epoch = Some(epoch);
        }
    }

    /// A change of a row of a table with this definition.
    pub(crate) fn change(
        &mut self,
        epoch: u64,
        table: &Table,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) {
        self.in_epoch(epoch);
        let layout = Layout::of_changes(table);
        if self.layouts.get(&table.id) != Some(&layout) {
            self.last.push(LAYOUT);
            self.last.extend(table.id.0.to_le_bytes());
            for columns in [&layout.columns, &layout.key] {
                self.last.extend((columns.len() as u16).to_le_bytes());
                columns.iter().for_each(|column| self.last.extend(column.to_le_bytes()));
            }
            self.layouts.insert(table.id, layout.clone());
        }
        self.last.push(CHANGE);
        self.last.extend(table.id.0.to_le_bytes());
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        self.last.push(flag(before.is_some(), BEFORE) | flag(after.is_some(), AFTER));
        for (row, columns) in [(before, &layout.key), (after, &layout.columns)] {
            let Some(row) = row else { continue };
            for column in columns {
                let value = table.value(row, model::ColumnId(*column)).to_value();
                encode(&value, &mut self.last);
            }
        }
    }

    /// A change of a table that nobody knows any more.
    pub(crate) fn lost(&mut self, epoch: u64, table: TableId) {
        self.in_epoch(epoch);
        self.last.push(LOST);
        self.last.extend(table.0.to_le_bytes());
    }

    /// What was defined when all epochs up to `epoch` were complete.
    pub(crate) fn definitions(
        &mut self,
        before: u64,
        epoch: u64,
        definitions: &Definitions,
    ) -> Result<(), SqlError> {
        let text = serde_json::to_vec(definitions)
            .map_err(|why| failed(&format!("the definitions cannot be archived: {why}")))?;
        let length = u32::try_from(text.len())
            .map_err(|_| failed("the definitions are too long for an archive"))?;
        self.begin(DEFINITIONS);
        self.word(before);
        self.word(epoch);
        self.last.extend(length.to_le_bytes());
        self.last.extend(text);
        Ok(())
    }
}

/// Records that are read, of one portion.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    layouts: BTreeMap<TableId, Layout>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(portion: &'a [u8]) -> Self {
        Self { rest: portion, layouts: BTreeMap::new() }
    }

    /// The next record; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, SqlError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let record = self.record();
        record.map(Some).ok_or_else(|| failed("the changes in the archive cannot be read"))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn table(&mut self) -> Option<TableId> {
        self.take().map(|bytes| TableId(u32::from_le_bytes(bytes)))
    }

    fn columns(&mut self) -> Option<Vec<u16>> {
        let count = u16::from_le_bytes(self.take()?);
        (0..count).map(|_| self.take().map(u16::from_le_bytes)).collect()
    }

    fn values(&mut self, count: usize) -> Option<Vec<Value>> {
        let mut rows = Rows(self.rest);
        let values = match count {
            0 => Some(Vec::new()),
            _ => rows.next(count).ok()?,
        };
        self.rest = rows.0;
        values
    }

    fn record(&mut self) -> Option<Record> {
        let [kind] = self.take()?;
        Some(match kind {
            EPOCH => Record::Epoch(self.word()?),
            ENDED => Record::Ended(self.word()?, self.word()?),
            LAYOUT => {
                let table = self.table()?;
                let layout = Layout { columns: self.columns()?, key: self.columns()? };
                self.layouts.insert(table, layout.clone());
                Record::Layout(table, layout)
            }
            CHANGE => {
                let table = self.table()?;
                let [flags] = self.take()?;
                let layout = self.layouts.get(&table)?;
                let (columns, key) = (layout.columns.len(), layout.key.len());
                let mut part = |flag, count| match flags & flag {
                    0 => Some(None),
                    _ => self.values(count).map(Some),
                };
                Record::Change { table, before: part(BEFORE, key)?, after: part(AFTER, columns)? }
            }
            DEFINITIONS => {
                let (before, epoch) = (self.word()?, self.word()?);
                let length = u32::from_le_bytes(self.take()?) as usize;
                let (text, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                let definitions = serde_json::from_slice(text).ok()?;
                Record::Definitions { before, epoch, definitions }
            }
            LOST => Record::Lost(self.table()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_nothing_else_is_one() {
        let mut writer = Writer::default();
        writer.ended(7, 1_000);
        writer.definitions(6, 7, &Definitions::default()).unwrap();
        writer.lost(8, TableId(3));
        writer.lost(8, TableId(4));
        assert!(writer.bytes() > 40);
        let portions = writer.finish();
        assert_eq!((portions.len(), writer.bytes()), (1, 0));
        let all = |bytes: &[u8]| {
            let (mut reader, mut records) = (Reader::new(bytes), Vec::new());
            loop {
                match reader.next() {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => return Ok(records),
                    Err(error) => return Err((records, error)),
                }
            }
        };
        let records = all(&portions[0]).unwrap();
        let definitions = Box::new(Definitions::default());
        let expected = [
            Record::Ended(7, 1_000),
            Record::Definitions { before: 6, epoch: 7, definitions },
            Record::Epoch(8),
            Record::Lost(TableId(3)),
            Record::Lost(TableId(4)),
        ];
        assert_eq!(records, expected);
        for end in 1..portions[0].len() {
            match all(&portions[0][..end]) {
                Ok(some) => assert!(some.len() < expected.len(), "cut at {end}"),
                Err((some, _)) => assert_eq!(some, expected[..some.len()], "cut at {end}"),
            }
        }
        assert!(all(&[9]).is_err());
        assert!(all(&[CHANGE, 1, 0, 0, 0, AFTER]).is_err(), "a change of no known layout");
    }
}
