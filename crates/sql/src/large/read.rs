//! Rows that were read, completed by their values that lie elsewhere.
//!
//! # Owns
//! Which parts are fetched, in what portions, and what happens when a row and its parts are read at
//! different moments.
//! # Guarantees
//! A completed row is one that was committed, or is the transaction's own, as a whole. Who finds a
//! part missing reads the row again: it was changed meanwhile, or the replica that was asked does
//! not show yet what another has shown.
//! # Not here
//! Whether a row that was read again is still the one looked for: who asked checks that.

use std::sync::Arc;

use model::{ColumnId, ErrorCode, Refusal, Table, Value};
use stdx::Duration;
use wire::Projection;

use super::write::MESSAGE_BYTES;
use super::{Reference, decode, distribution};
use crate::access::{ReadMode, Reader, Values};
use crate::kernel::{Failure, Kernel};

/// For how long parts are looked for that a row refers to.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before a row is read again of which nothing has changed.
const PAUSE: Duration = Duration::from_millis(2);

/// A row with its large values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Completed {
    /// Its values; none when it has gone meanwhile.
    pub(crate) values: Option<Values>,
    /// The row was read again, and is perhaps another than before.
    pub(crate) is_newer: bool,
}

/// Where in the values of a row stands what completing them needs.
struct Shape {
    references: usize,
    key: Vec<usize>,
    columns: Vec<(ColumnId, usize)>,
}

impl Shape {
    /// None if no large value is read.
    fn of(table: &Table, projection: &Projection) -> Option<Self> {
        let large = table.large.as_ref()?;
        let place = |column: &ColumnId| match projection {
            Projection::All => Some(usize::from(column.0)),
            Projection::Nothing => None,
            Projection::Columns(columns) => columns.iter().position(|c| c == column),
        };
        let columns: Vec<(ColumnId, usize)> =
            large.columns.iter().filter_map(|column| Some((*column, place(column)?))).collect();
        let key: Option<Vec<usize>> = table.primary_key.iter().map(place).collect();
        let (references, key) = (place(&large.references)?, key?);
        (!columns.is_empty()).then_some(Self { references, key, columns })
    }

    /// The values outside of a row that are wanted, with their places in it.
    fn wanted(&self, table: &Table, row: &[Value]) -> Result<Vec<(Reference, usize)>, Failure> {
        let references = decode(table, &row[self.references])?;
        let place = |reference: Reference| {
            let column = self.columns.iter().find(|(column, _)| *column == reference.column);
            column.map(|(_, at)| (reference, *at))
        };
        Ok(references.into_iter().filter_map(place).collect())
    }

    fn key_of(&self, row: &[Value]) -> Values {
        self.key.iter().map(|at| row[*at].clone()).collect()
    }
}

/// All values of a row that is locked, and was read with all of its columns.
pub(crate) async fn complete_locked(
    kernel: &Kernel,
    table: &Arc<Table>,
    row: Values,
) -> Result<Values, Failure> {
    if table.large.is_none() {
        return Ok(row);
    }
    let (mode, projection) = (ReadMode::Own, Projection::All);
    let reader = Reader { kernel: kernel.clone(), table: table.clone(), mode, projection };
    let completed = reader.complete(vec![row]).await?.into_iter().next();
    let gone = || Failure::Refused(Refusal::new(ErrorCode::Internal, "a locked row has gone"));
    completed.and_then(|completed| completed.values).ok_or_else(gone)
}

/// A value whose parts are being put together.
struct Filling {
    /// Which row, and which place in it.
    row: usize,
    at: usize,
    reference: Reference,
    bytes: Vec<u8>,
    torn: bool,
}

impl Reader {
    /// Where the references stand in rows that may have to be completed; none if rows are complete
    /// as they are read.
    pub(crate) fn references(&self) -> Option<usize> {
        Shape::of(&self.table, &self.projection).map(|shape| shape.references)
    }

    /// Rows as they were read, with all of their values in place; without references then.
    pub(crate) async fn complete(&self, rows: Vec<Values>) -> Result<Vec<Completed>, Failure> {
        let mut completed: Vec<Completed> =
            rows.into_iter().map(|row| Completed { values: Some(row), is_newer: false }).collect();
        let Some(shape) = Shape::of(&self.table, &self.projection) else { return Ok(completed) };
        let began = self.kernel.now();
        let mut open: Vec<usize> = (0..completed.len()).collect();
        loop {
            // Apart, as most reads need no room for it.
            let torn = Box::pin(self.fill(&shape, &mut completed, &open)).await?;
            if torn.is_empty() {
                break;
            }
            if self.kernel.now().since(began) >= PATIENCE {
                let detail = format!("a part of a value of {} is missing", self.table.name);
                return Err(Failure::Refused(Refusal::new(ErrorCode::Internal, detail)));
            }
            Box::pin(self.read_again(&shape, &mut completed, &torn)).await?;
            open = torn;
        }
        for row in completed.iter_mut().filter_map(|row| row.values.as_mut()) {
            row[shape.references] = Value::Null;
        }
        Ok(completed)
    }

    /// Reads torn rows anew.
    async fn read_again(
        &self,
        shape: &Shape,
        completed: &mut [Completed],
        torn: &[usize],
    ) -> Result<(), Failure> {
        let row = |at: &usize| completed[*at].values.as_deref().unwrap_or_default();
        let keys = torn.iter().map(|at| shape.key_of(row(at))).collect();
        let mut changed = false;
        for (at, row) in torn.iter().zip(self.by_primary_key(keys).await?) {
            let before = completed[*at].values.as_ref().map(|row| &row[shape.references]);
            changed |= before != row.as_ref().map(|row| &row[shape.references]);
            completed[*at] = Completed { values: row, is_newer: true };
        }
        if changed { Ok(()) } else { self.kernel.sleep(PAUSE).await }
    }

    /// Fetches the values of the rows at these places; the rows of which a part was missing.
    async fn fill(
        &self,
        shape: &Shape,
        completed: &mut [Completed],
        open: &[usize],
    ) -> Result<Vec<usize>, Failure> {
        let mut torn = Vec::new();
        let mut message = Parts::default();
        for row in open {
            let Some(values) = &completed[*row].values else { continue };
            let wanted = shape.wanted(&self.table, values)?;
            if wanted.is_empty() {
                continue;
            }
            let distribution = distribution(&self.table, &shape.key_of(values));
            for (reference, at) in wanted {
                let bytes = Vec::with_capacity(reference.size as usize);
                message.begin(Filling { row: *row, at, reference, bytes, torn: false });
                for part in 0..reference.parts() {
                    message.keys.push(reference.key(&distribution, part));
                    if message.is_full() {
                        message.fetch(self).await?;
                    }
                }
                if message.last_is_complete() {
                    message.give(completed, &mut torn);
                }
            }
        }
        message.fetch(self).await?;
        message.give(completed, &mut torn);
        torn.dedup();
        Ok(torn)
    }
}

/// Parts that are fetched together, of one or more values in their order.
#[derive(Default)]
struct Parts {
    fillings: Vec<Filling>,
    /// The parts to be fetched; they continue the fillings from `next` on.
    keys: Vec<Values>,
    next: usize,
}

/// Parts in one request, at most.
const PARTS_MAX: usize = MESSAGE_BYTES / model::schema::PART_SIZE_MAX as usize;

impl Parts {
    fn begin(&mut self, filling: Filling) {
        self.fillings.push(filling);
    }

    fn is_full(&self) -> bool {
        self.keys.len() >= PARTS_MAX
    }

    /// Whether nothing is left to be fetched of what has begun.
    fn last_is_complete(&self) -> bool {
        self.keys.is_empty()
    }

    /// Fetches the parts and appends them to their values.
    async fn fetch(&mut self, reader: &Reader) -> Result<(), Failure> {
        let keys = std::mem::take(&mut self.keys);
        if keys.is_empty() {
            return Ok(());
        }
        let changed = || Failure::Refused(ErrorCode::SchemaChanged.into());
        let parts = reader.table.large.as_ref().map(|large| large.parts).ok_or_else(changed)?;
        let table = reader.kernel.cluster().tables.get(&parts).cloned().ok_or_else(changed)?;
        let bytes = ColumnId(table.columns.len() as u16 - 1);
        let mode = match reader.mode {
            // Whoever has the row has its parts.
            ReadMode::Locking(..) | ReadMode::Guarded(_) => ReadMode::Own,
            other => other,
        };
        let projection = Projection::Columns(vec![bytes]);
        let of_parts = Reader { kernel: reader.kernel.clone(), table, mode, projection };
        let over = matches!(mode, ReadMode::Overlay(_)).then(|| keys.clone());
        let mut parts = of_parts.by_primary_key(keys).await?;
        if let Some(keys) = over.filter(|_| parts.contains(&None)) {
            // A row of the transaction's own may have a value that others have given it since the
            // snapshot. A name of a value is given once, so what is found is what is meant.
            let newest = Reader { mode: ReadMode::Own, ..of_parts };
            for (part, again) in parts.iter_mut().zip(newest.by_primary_key(keys).await?) {
                *part = part.take().or(again);
            }
        }
        for part in parts {
            self.append(part);
        }
        Ok(())
    }

    /// Adds the next part of the values.
    fn append(&mut self, part: Option<Values>) {
        while self.fillings.get(self.next).is_some_and(Filling::is_over) {
            self.next += 1;
        }
        let Some(filling) = self.fillings.get_mut(self.next) else { return };
        match part.and_then(|values| values.into_iter().next()) {
            Some(Value::Bytes(bytes)) => filling.take(&bytes),
            _ => filling.skip(),
        }
    }

    /// Puts the values that are complete into their rows.
    fn give(&mut self, completed: &mut [Completed], torn: &mut Vec<usize>) {
        self.next = 0;
        for filling in std::mem::take(&mut self.fillings) {
            let whole = filling.bytes.len() == filling.reference.size as usize;
            let row = completed[filling.row].values.as_mut();
            match row.filter(|_| whole && !filling.torn) {
                Some(row) => row[filling.at] = Value::Bytes(filling.bytes.into_boxed_slice()),
                None => torn.push(filling.row),
            }
        }
    }
}

impl Filling {
    /// Whether all of its parts have been asked for.
    fn is_over(&self) -> bool {
        self.bytes.len() >= self.reference.size as usize
    }

    fn take(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// A part is missing: its room is kept, so that those behind it are counted right.
    fn skip(&mut self) {
        self.torn = true;
        let size = self.reference.size as usize;
        let to = self.bytes.len() + usize::from(model::schema::PART_SIZE_MAX);
        self.bytes.resize(to.min(size), 0);
    }
}
