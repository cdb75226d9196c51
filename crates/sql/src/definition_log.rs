//! Which statements have changed definitions while the binary log was kept: what its readers need
//! to put the statements among the rows, and to read rows of tables that are no more as they were.
//!
//! # Owns
//! A table of ours with a record for each change of the catalog that users see, and where the log
//! begins in each generation of the cluster.
//! # Guarantees
//! A record is committed before its change is asked for. So no row in the new form is older than
//! the record's epoch: whoever puts the statement there puts it before all of them. Whoever dies
//! between leaves a record that is open; a reader finds out what became of it.
//! # Not here
//! How rows and statements are put in order (`binlog`).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use client::{ClientOperation, ClientRead, ScanSpec};
use model::{
    ClusterState, ColumnId, ColumnType, Epoch, ErrorCode, Expression, SchemaChange, StreamId,
    Table, TableId, Value,
};
use serde::{Deserialize, Serialize};

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// The table of the records.
pub(crate) const TABLE: &str = "#definitions";
/// The table of the beginnings.
const BEGINNINGS: &str = "#binlog";
/// Bytes of a record in one row.
const PART_BYTES: usize = 30_000;
/// The part that says what became of the change.
const OUTCOME: u64 = u32::MAX as u64;

/// A statement as the log has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoggedStatement {
    /// The default database.
    pub(crate) database: String,
    /// Its text, that the default SQL mode reads.
    pub(crate) text: String,
    /// `foreign_key_checks` was off.
    pub(crate) ignores_foreign_keys: bool,
    /// It fills the table that it makes: the log has its rows, and a statement without them.
    #[serde(skip)]
    pub(crate) fills: bool,
}

/// A change of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The statement; none for a change that no statement stands for.
    pub(crate) statement: Option<LoggedStatement>,
    /// The same statement has an earlier record with its text: what the tables were in between
    /// nobody has to know.
    pub(crate) continues: bool,
    /// Rows have come in another way than by changes of rows: a restore.
    pub(crate) is_lossy: bool,
    /// The tables that it concerns, with those of their large values, as they were.
    pub(crate) before: Vec<Arc<Table>>,
    /// Tables that users do not see before.
    pub(crate) made: Vec<TableId>,
    /// The names of the tables and databases that it makes.
    pub(crate) names: Vec<String>,
}

impl Record {
    /// Whether a state of the cluster shows that the change was made.
    pub(crate) fn is_made_in(&self, cluster: &ClusterState) -> bool {
        let differs = |before: &Arc<Table>| {
            let now = cluster.tables.get(&before.id);
            now.is_none_or(|now| now.version != before.version || now.name != before.name)
        };
        let exists = |name: &String| {
            cluster.table_named(name).is_some() || cluster.databases.contains_key(name.as_str())
        };
        self.before.iter().any(differs) || self.names.iter().any(exists)
    }
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has said yet.
    Open,
    /// It was made; the record was committed in this epoch, and who has reached this entry of the
    /// control log knows the change.
    Made(Epoch, u64),
    /// It was not made.
    Failed,
}

impl Fate {
    fn stored(self) -> Value {
        let mut bytes = Vec::with_capacity(17);
        match self {
            Self::Open => bytes.push(0),
            Self::Failed => bytes.push(2),
            Self::Made(epoch, index) => {
                bytes.push(1);
                bytes.extend(epoch.0.to_le_bytes());
                bytes.extend(index.to_le_bytes());
            }
        }
        Value::Bytes(bytes.into())
    }

    fn read(bytes: &[u8]) -> Self {
        match bytes {
            [1, rest @ ..] => match rest.as_chunks::<8>() {
                ([epoch, index], []) => {
                    Self::Made(Epoch(u64::from_le_bytes(*epoch)), u64::from_le_bytes(*index))
                }
                _ => Self::Open,
            },
            [2] => Self::Failed,
            _ => Self::Open,
        }
    }
}

/// A record as it is found.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Ascends with what one statement can know of another.
    pub(crate) id: u64,
    pub(crate) record: Record,
    pub(crate) fate: Fate,
}

/// What a session notes of its statement.
#[derive(Debug, Default)]
pub(crate) struct DefinitionLog {
    statement: RefCell<Option<LoggedStatement>>,
    /// A record has its text.
    is_told: Cell<bool>,
    /// Records of it, and what became of their changes.
    open: RefCell<Vec<(u64, Fate)>>,
}

impl DefinitionLog {
    /// A statement begins that may change definitions.
    pub(crate) fn begin(&self, statement: LoggedStatement) {
        *self.statement.borrow_mut() = Some(statement);
        self.is_told.set(false);
    }

    /// It has ended: readers learn what became of it only now, and see tables as it leaves them.
    ///
    /// # Errors
    /// Where that cannot be written: readers find out by themselves.
    pub(crate) async fn end(&self, kernel: &Kernel) -> Result<(), Failure> {
        *self.statement.borrow_mut() = None;
        let index = kernel.definitions_index().0;
        for (id, fate) in self.open.take() {
            let fate = match fate {
                Fate::Made(place, _) => Fate::Made(place, index),
                other => other,
            };
            settle(kernel, id, fate).await?;
        }
        Ok(())
    }

    /// Makes a change of the catalog, with a record of it if the binary log is kept and users see
    /// what it changes.
    pub(crate) async fn change(
        &self,
        kernel: &Kernel,
        change: SchemaChange,
    ) -> Result<TableId, Failure> {
        let cluster = kernel.cluster();
        let seen = kernel.keeps_binlog().then(|| seen_of(&cluster, &change)).flatten();
        let Some(seen) = seen else { return kernel.change_schema(change).await };
        let statement = self.statement.borrow().clone();
        let mut record = Record {
            before: seen.before,
            made: seen.made,
            names: seen.names,
            is_lossy: seen.restores,
            continues: self.is_told.get(),
            statement: statement.clone().filter(|_| seen.decides && !self.is_told.get()),
        };
        if let Some((database, text)) = seen.creates_by
            && let Some(statement) = record.statement.as_mut().filter(|one| one.fills)
        {
            (statement.database, statement.text) = (database, text);
        }
        let carries = record.statement.is_some();
        let id = write(kernel, &record).await?;
        let place = kernel.commits().newest;
        let result = kernel.change_schema(change).await;
        let fate = match &result {
            Ok(_) => Fate::Made(place, kernel.definitions_index().0),
            Err(Failure::OutcomeUnknown(_)) => return result,
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::OutcomeUnknown => {
                return result;
            }
            Err(_) => Fate::Failed,
        };
        if statement.is_none() {
            settle(kernel, id, fate).await?;
            return result;
        }
        if carries && result.is_ok() {
            // What else the statement changes follows from its text.
            self.is_told.set(true);
        }
        self.open.borrow_mut().push((id, fate));
        result
    }
}

/// What users see of a change.
#[derive(Default)]
struct Seen {
    before: Vec<Arc<Table>>,
    made: Vec<TableId>,
    names: Vec<String>,
    /// Users see something of it.
    concerns: bool,
    /// A table is made that they do not see.
    makes_hidden: bool,
    /// The statement has its place here.
    decides: bool,
    restores: bool,
    /// The database of a table that is made, and the text that makes it without rows.
    creates_by: Option<(String, String)>,
}

/// Whether users see a table of this full name.
pub(crate) fn is_seen(full: &str) -> bool {
    let name = full.split_once('.').map(|(_, name)| name);
    !full.starts_with('#') && name.is_some_and(|name| !name.starts_with('#'))
}

fn seen_of(cluster: &ClusterState, change: &SchemaChange) -> Option<Seen> {
    let mut seen = Seen::default();
    seen.look(cluster, change);
    // A copy that is begun changes nothing yet, though others are told of it.
    seen.decides &= !seen.makes_hidden;
    seen.concerns.then_some(seen)
}

impl Seen {
    fn look(&mut self, cluster: &ClusterState, change: &SchemaChange) {
        match change {
            SchemaChange::CreateTable { name, description, .. } => {
                let database = name.split_once('.').map_or("", |(database, _)| database);
                let text = String::from_utf8_lossy(description).into_owned();
                self.creates_by = Some((database.to_owned(), text));
                self.make(name, is_seen(name));
            }
            SchemaChange::AddColumns { table: id, .. }
            | SchemaChange::Describe { table: id, .. }
            | SchemaChange::ModifyColumns { table: id, .. }
            | SchemaChange::TruncateTable { table: id }
            | SchemaChange::DropTable { table: id } => {
                self.touch(cluster, *id);
            }
            SchemaChange::ReplaceTable { old, new } => {
                let made = self.touch(cluster, *old).then_some(*new);
                self.made.extend(made);
            }
            SchemaChange::RenameTables { names } => {
                for (id, name) in names {
                    if !self.touch(cluster, *id) && is_seen(name) {
                        self.made.push(*id);
                        self.restores = true;
                        self.concerns = true;
                    }
                }
            }
            SchemaChange::CreateDatabase { name, .. } => self.make(name, true),
            SchemaChange::AlterDatabase { .. } => self.decide(),
            SchemaChange::DropDatabase { name } => {
                let prefix = format!("{name}.");
                let tables = cluster.table_names.iter_from(prefix.as_str());
                for (_, id) in tables.take_while(|(full, _)| full.starts_with(&prefix)) {
                    self.touch(cluster, *id);
                }
                self.decide();
            }
            SchemaChange::ColocateParts { change } => self.look(cluster, change),
            SchemaChange::Together { changes, .. } => {
                changes.iter().for_each(|change| self.look(cluster, change));
            }
            _ => {}
        }
    }

    fn decide(&mut self) {
        self.concerns = true;
        self.decides = true;
    }

    /// Something of this name is made.
    fn make(&mut self, name: &str, is_seen: bool) {
        if is_seen {
            self.decide();
            self.names.push(name.to_owned());
        } else {
            self.makes_hidden = true;
        }
    }

    /// A table is changed; whether users see it.
    fn touch(&mut self, cluster: &ClusterState, id: TableId) -> bool {
        let Some(table) = cluster.tables.get(&id).filter(|table| is_seen(&table.name)) else {
            return false;
        };
        let parts = table.large.as_ref().and_then(|large| cluster.tables.get(&large.parts));
        self.before.extend([table].into_iter().chain(parts).cloned());
        self.decide();
        true
    }
}

async fn records(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("id", ColumnType::UInt(8)),
        ("part", ColumnType::UInt(8)),
        ("bytes", ColumnType::Variable(PART_BYTES as u16)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 2, ordered: true }.get(kernel).await
}

/// Writes a record that is open; its number.
async fn write(kernel: &Kernel, record: &Record) -> Result<u64, Failure> {
    // Who knows of another change has reached a later entry of the control log.
    let id = kernel.definitions_index().0 << 16 | (kernel.draw() & 0xFFFF);
    let bytes = serde_json::to_vec(record).unwrap_or_default();
    let part = |part: u64, bytes: Value| vec![Value::UInt(id), Value::UInt(part), bytes];
    let mut parts = vec![part(OUTCOME, Fate::Open.stored())];
    for (number, chunk) in bytes.chunks(PART_BYTES).enumerate() {
        parts.push(part(number as u64, Value::Bytes(chunk.into())));
    }
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let inserts = parts.iter().map(|row| ClientOperation::insert(table, row.clone()));
        kernel.beside().execute_and_commit(inserts.collect()).await
    })
    .await?;
    Ok(id)
}

/// Says what became of a change, unless somebody has.
pub(crate) async fn settle(kernel: &Kernel, id: u64, fate: Fate) -> Result<(), Failure> {
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let key = vec![Value::UInt(id), Value::UInt(OUTCOME)];
        let assignment = (ColumnId(2), Expression::Constant(fate.stored()));
        let update = ClientOperation::update(table, key, vec![assignment]);
        match kernel.beside().execute_and_commit(vec![update]).await {
            // The log was begun anew.
            Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowNotFound => Ok(()),
            other => other.map(|_| ()),
        }
    })
    .await
}

/// All records, in the order of their numbers.
pub(crate) async fn all(kernel: &Kernel) -> Result<Vec<Entry>, Failure> {
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let mut rows = kernel.beside().scan(ScanSpec::heap(table)).collect().await?;
        rows.sort_by_key(|row| match row.as_slice() {
            [Value::UInt(id), Value::UInt(part), ..] => (*id, *part),
            _ => (0, 0),
        });
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = Vec::new();
        for row in rows {
            let [Value::UInt(id), Value::UInt(part), Value::Bytes(part_bytes)] = row.as_slice()
            else {
                continue;
            };
            if *part != OUTCOME {
                if *part == 0 {
                    bytes.clear();
                }
                bytes.extend_from_slice(part_bytes);
                continue;
            }
            let record = serde_json::from_slice(&std::mem::take(&mut bytes));
            // One whose parts are not all there yet is open in any case.
            let fate = if record.is_ok() { Fate::read(part_bytes) } else { Fate::Open };
            entries.push(Entry { id: *id, record: record.unwrap_or_default(), fate });
        }
        Ok(entries)
    })
    .await
}

/// Forgets the records whose place is before an epoch.
pub(crate) async fn forget(kernel: &Kernel, before: Epoch) -> Result<(), Failure> {
    for entry in all(kernel).await? {
        let over = match entry.fate {
            Fate::Made(place, _) => place < before,
            Fate::Failed => true,
            Fate::Open => false,
        };
        if !over {
            continue;
        }
        let bytes = serde_json::to_vec(&entry.record).unwrap_or_default();
        let parts = (0..bytes.chunks(PART_BYTES).count() as u64).chain([OUTCOME]);
        let key = |part| vec![Value::UInt(entry.id), Value::UInt(part)];
        let deleted = steadily(kernel, async || {
            let table = records(kernel).await?;
            let deletes = parts.clone().map(|part| ClientOperation::delete(table, key(part)));
            kernel.beside().execute_and_commit(deletes.collect()).await
        });
        match deleted.await {
            Ok(_) => {}
            // Somebody else forgets them too.
            Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowNotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

async fn beginnings(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("stream", ColumnType::UInt(4)),
        ("generation", ColumnType::UInt(4)),
        ("epoch", ColumnType::UInt(8)),
    ];
    OwnTable { name: BEGINNINGS, columns, key_columns: 2, ordered: false }.get(kernel).await
}

/// Where the log begins that is this stream in this generation of the cluster, if that is known.
pub(crate) async fn beginning(
    kernel: &Kernel,
    stream: StreamId,
    generation: u32,
) -> Result<Option<Epoch>, Failure> {
    steadily(kernel, async || {
        let table = beginnings(kernel).await?;
        let key = vec![Value::UInt(stream.0.into()), Value::UInt(generation.into())];
        let rows = kernel.beside().read(vec![ClientRead::primary(table, key)], None).await?;
        Ok(match rows.into_iter().next().flatten().as_deref() {
            Some([_, _, Value::UInt(epoch)]) => Some(Epoch(*epoch)),
            _ => None,
        })
    })
    .await
}

/// Writes down where it begins; whoever is first says.
pub(crate) async fn begin(
    kernel: &Kernel,
    stream: StreamId,
    generation: u32,
    first: Epoch,
) -> Result<Epoch, Failure> {
    let row =
        vec![Value::UInt(stream.0.into()), Value::UInt(generation.into()), Value::UInt(first.0)];
    let written = steadily(kernel, async || {
        let insert = ClientOperation::insert(beginnings(kernel).await?, row.clone());
        kernel.beside().execute_and_commit(vec![insert]).await
    });
    match written.await {
        Ok(_) => Ok(first),
        Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowExists => {
            Ok(beginning(kernel, stream, generation).await?.unwrap_or(first))
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fate_is_read_as_it_was_written() {
        for fate in [Fate::Open, Fate::Failed, Fate::Made(Epoch(7), 9)] {
            let Value::Bytes(bytes) = fate.stored() else { panic!("bytes") };
            assert_eq!(Fate::read(&bytes), fate);
        }
        assert_eq!(Fate::read(&[1, 2]), Fate::Open);
    }

    #[test]
    fn users_see_tables_of_databases_that_are_no_copies() {
        assert!(is_seen("d.t"));
        for hidden in ["#sequences", "d.#alter-7", "d.#restore-1-2", "#temporary/1/d/t", "t"] {
            assert!(!is_seen(hidden), "{hidden}");
        }
    }
}
