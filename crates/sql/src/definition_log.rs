//! Which statements have changed definitions while the binary log was kept: what its readers need
//! to put the statements among the rows, and to read rows of tables that are no more as they were.
//!
//! # Owns
//! A table of ours with a record for each change of the catalog that users see, and where the log
//! begins in each generation of the cluster.
//! # Guarantees
//! 1. A record is committed before its change is asked for. So no row in the new form is older than
//!    the record's epoch: whoever puts the statement there puts it before all of them.
//! 2. The command of the control log that makes a change writes the record's number into the
//!    description of the table of records (a mark), and is refused when that table has changed
//!    since the record was written. So a record has a mark if and only if its change was made; and
//!    who has changed the table knows that no change of an older record comes any more (a fence).
//! 3. A record is settled once: from open to what became of it, by compare-and-set.
//! # Failure
//! The writer of a record holds a lock on it until the statement has ended. A writer that dies
//! leaves a record that is open and free. A reader that has found it free for [`GRACE`]
//! ([`orphans`]) fences it, looks for its mark, and settles it. A writer that lives all the same is
//! refused by the fence, and goes on with another record.
//! # Not here
//! How rows and statements are put in order (`binlog`).

pub(crate) mod orphans;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use client::{ClientOperation, ClientRead, ScanSpec};
use model::{
    ClusterState, ColumnId, ColumnType, Comparison, Epoch, ErrorCode, Expression, IndexState,
    SchemaChange, StreamId, Table, TableId, Value,
};
use serde::{Deserialize, Serialize};
use stdx::Duration;
use wire::{Inspection, LockMode};

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
/// Marks that the table of records has, the newest ones.
const MARKS_MAX: usize = 256;
/// How often a change is asked for again that another one has come before.
const ATTEMPTS_MAX: u32 = 100;
/// For so long a record has been free before its writer is taken to be dead.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Where changes come from that an applier makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeOrigin {
    /// The `server_id` of the server that has made them first.
    pub(crate) server: u32,
    /// They are in this cluster's own log too.
    pub(crate) is_logged: bool,
}

/// A statement as the log has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoggedStatement {
    /// The default database.
    pub(crate) database: String,
    /// Its text, that the default SQL mode reads.
    pub(crate) text: String,
    /// `foreign_key_checks` was off.
    pub(crate) ignores_foreign_keys: bool,
    /// The session's time zone at that time, as an offset.
    #[serde(default)]
    pub(crate) time_zone: String,
    /// When it began, as NOW() says: microseconds since 1970 in UTC. 0 if that is not known.
    #[serde(default)]
    pub(crate) at: i64,
    /// An applier has run it.
    #[serde(default)]
    pub(crate) origin: Option<ChangeOrigin>,
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
    /// The change leaves a mark. Versions before 17 left none.
    #[serde(default)]
    pub(crate) is_marked: bool,
}

impl Record {
    /// Whether indexes of its tables are still being built, so that the statement may yet fail.
    pub(crate) fn is_under_way_in(&self, cluster: &ClusterState) -> bool {
        let builds = |table: &Arc<Table>| {
            let building = |state: IndexState| state == IndexState::Building;
            table.unique_indexes.iter().any(|index| building(index.state))
                || table.ordered_indexes.iter().any(|index| building(index.state))
        };
        self.before.iter().filter_map(|before| cluster.tables.get(&before.id)).any(builds)
    }

    /// Whether a state of the cluster looks as if the change was made: of records without marks.
    fn is_made_in(&self, cluster: &ClusterState) -> bool {
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
    /// Nobody has said yet. The epoch in which the record was committed, unless the writer has
    /// died before it said: then it has not asked for the change.
    Open(Option<Epoch>),
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
            Self::Open(place) => {
                bytes.push(0);
                bytes.extend(place.iter().flat_map(|epoch| epoch.0.to_le_bytes()));
            }
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
                _ => Self::Open(None),
            },
            [2] => Self::Failed,
            [0, place @ ..] => {
                Self::Open(place.try_into().ok().map(|bytes| Epoch(u64::from_le_bytes(bytes))))
            }
            _ => Self::Open(None),
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

/// A record that the session's statement has written.
#[derive(Clone, Copy, Debug)]
struct Written {
    id: u64,
    /// The epoch in which it was committed.
    place: Epoch,
    /// Whether its change was made, if that is known.
    made: Option<bool>,
}

/// What a session notes of its statement.
#[derive(Debug, Default)]
pub(crate) struct DefinitionLog {
    statement: RefCell<Option<LoggedStatement>>,
    /// A record has its text.
    is_told: Cell<bool>,
    /// Records of it that are open.
    open: RefCell<Vec<Written>>,
}

impl DefinitionLog {
    /// A statement begins that may change definitions.
    pub(crate) fn begin(&self, statement: LoggedStatement) {
        *self.statement.borrow_mut() = Some(statement);
        self.is_told.set(false);
    }

    /// What the statement does from now on follows from another text, if the log is kept.
    pub(crate) fn restate(&self, text: String) {
        if let Some(statement) = self.statement.borrow_mut().as_mut() {
            statement.text = text;
            statement.fills = false;
            self.is_told.set(false);
        }
    }

    /// The table that the statement makes is told of by the text that the catalog has of it.
    pub(crate) fn tell_as_made(&self) {
        if let Some(statement) = self.statement.borrow_mut().as_mut() {
            statement.fills = true;
        }
    }

    /// It has ended: readers learn what became of it only now, and see tables as it leaves them.
    ///
    /// # Errors
    /// Where that cannot be written: readers find out by themselves.
    pub(crate) async fn end(&self, kernel: &Kernel) -> Result<(), Failure> {
        *self.statement.borrow_mut() = None;
        let open = self.open.take();
        if open.is_empty() {
            return Ok(());
        }
        let index = kernel.definitions_index().0;
        let mut settled = Ok(());
        for written in &open {
            let fate = match written.made {
                Some(true) => Fate::Made(written.place, index),
                Some(false) => Fate::Failed,
                None => continue,
            };
            let from = Fate::Open(Some(written.place));
            let mut result = settle(&kernel.scribe(), written.id, from, fate).await;
            if result.is_err() {
                // The transaction that held it may be gone with a node.
                result = settle(&kernel.beside(), written.id, from, fate).await;
            }
            settled = settled.and(result);
        }
        // Who waits for the records finds those free that are left.
        kernel.scribe().abort().await;
        if open.iter().any(|written| written.made.is_none()) {
            let entries = all(kernel).await?;
            let is_own = |entry: &&Entry| open.iter().any(|written| written.id == entry.id);
            resolve(kernel, &entries.iter().filter(is_own).collect::<Vec<_>>()).await?;
        }
        settled
    }

    /// Makes a change of the catalog, with a record of it if the binary log is kept and users see
    /// what it changes.
    pub(crate) async fn change(
        &self,
        kernel: &Kernel,
        change: SchemaChange,
    ) -> Result<TableId, Failure> {
        let cluster = kernel.cluster();
        let seen = kernel.records_definitions().then(|| seen_of(&cluster, &change)).flatten();
        let Some(seen) = seen else { return kernel.change_schema(change).await };
        if !seen.made.is_empty() {
            // Rows that were copied into the table are of epochs before that of the record.
            kernel.beside().newest_complete().await?;
        }
        let statement = self.statement.borrow().clone();
        let mut record = Record {
            before: seen.before,
            made: seen.made,
            names: seen.names,
            is_lossy: seen.restores,
            continues: self.is_told.get(),
            statement: statement.clone().filter(|_| seen.decides && !self.is_told.get()),
            is_marked: true,
        };
        if let Some((database, text)) = seen.creates_by
            && let Some(statement) = record.statement.as_mut().filter(|one| one.fills)
        {
            (statement.database, statement.text) = (database, text);
        }
        let carries = record.statement.is_some();
        let is_of_statement = statement.is_some();
        for attempt in 1.. {
            // The mark is of the table as it was before the record: a fence that was put up for
            // the record keeps the change out.
            let log = records(kernel).await?;
            let Some(table) = kernel.cluster().tables.get(&log).cloned() else { continue };
            let mut written = write(kernel, &record).await?;
            let marked = with_mark(change.clone(), &table, written.id);
            let result = kernel.change_schema(marked).await;
            written.made = match &result {
                Ok(_) => Some(true),
                Err(Failure::OutcomeUnknown(_)) => None,
                Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::OutcomeUnknown => None,
                Err(Failure::Interrupted(_)) => None,
                Err(_) => Some(false),
            };
            if carries && result.is_ok() {
                // What else the statement changes follows from its text.
                self.is_told.set(true);
            }
            self.open.borrow_mut().push(written);
            let is_outrun = match &result {
                Err(Failure::Refused(refusal))
                    if matches!(
                        refusal.code,
                        ErrorCode::SchemaChanged | ErrorCode::UnknownTable
                    ) =>
                {
                    catch_up(kernel).await?;
                    is_another(&table, &kernel.cluster())
                }
                _ => false,
            };
            if !is_outrun || attempt == ATTEMPTS_MAX {
                if !is_of_statement {
                    self.end(kernel).await?;
                }
                return result;
            }
            // Another change came before, or a fence. Those who meet do not meet again.
            kernel.sleep(Duration::from_micros(kernel.draw() % 20_000)).await?;
        }
        unreachable!("attempts end")
    }
}

/// Whether the table of records has changed since, or another one has taken its place, as after a
/// move to other nodes.
fn is_another(before: &Table, cluster: &ClusterState) -> bool {
    cluster.tables.get(&before.id).is_none_or(|now| now.version != before.version)
}

/// The change, with a mark of its record; refused when the table of records is another one by now.
fn with_mark(change: SchemaChange, records: &Table, id: u64) -> SchemaChange {
    let mut marks = marks_of(records);
    marks.push(id);
    let first = marks.len().saturating_sub(MARKS_MAX);
    let description: Vec<u8> = marks[first..].iter().flat_map(|id| id.to_le_bytes()).collect();
    let mark = described(records, description.as_slice().into());
    match change {
        SchemaChange::Together { expected, mut changes } => {
            changes.push(mark);
            SchemaChange::Together { expected, changes }
        }
        change => SchemaChange::Together { expected: Vec::new(), changes: vec![change, mark] },
    }
}

fn described(records: &Table, description: model::Description) -> SchemaChange {
    let (table, version) = (records.id, records.version);
    SchemaChange::Describe { table, version, renamed: Vec::new(), description }
}

/// The numbers of the records whose changes were made, the newest ones last.
fn marks_of(records: &Table) -> Vec<u64> {
    let (marks, _) = records.description.as_chunks::<8>();
    marks.iter().map(|mark| u64::from_le_bytes(*mark)).collect()
}

/// Waits until this process knows what the data nodes know of the catalog: it hears no answers of
/// them before.
pub(crate) async fn catch_up(kernel: &Kernel) -> Result<(), Failure> {
    kernel.inspect(Inspection::Copies, None).await.map(|_| ())
}

/// Finds out what became of the changes of open records whose writers say nothing any more, and
/// settles the records. One fence stands for all of them: they are older than it.
pub(crate) async fn resolve(kernel: &Kernel, entries: &[&Entry]) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    let log = records(kernel).await?;
    loop {
        catch_up(kernel).await?;
        let Some(table) = kernel.cluster().tables.get(&log).cloned() else { return Ok(()) };
        let fence = described(&table, table.description.clone());
        match kernel.beside().change_schema(fence).await {
            Ok(_) => break,
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::SchemaChanged => {
                kernel.check_interrupt()?;
            }
            Err(failure) => return Err(failure),
        }
    }
    // Nothing that was asked for with one of the records comes after this state.
    let cluster = kernel.cluster();
    let marks = cluster.tables.get(&log).map(|table| marks_of(table)).unwrap_or_default();
    for entry in entries {
        let Fate::Open(place) = entry.fate else { continue };
        let is_forgotten =
            marks.len() >= MARKS_MAX && marks.iter().min().is_some_and(|oldest| entry.id < *oldest);
        let is_made = if !entry.record.is_marked || is_forgotten {
            entry.record.is_made_in(&cluster)
        } else {
            marks.contains(&entry.id)
        };
        let fate = match place.filter(|_| is_made) {
            Some(place) => Fate::Made(place, cluster.index.0),
            None => Fate::Failed,
        };
        settle(&kernel.beside(), entry.id, entry.fate, fate).await?;
    }
    Ok(())
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

/// The table of the records; made if it is not there.
pub(crate) async fn records(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("id", ColumnType::UInt(8)),
        ("part", ColumnType::UInt(8)),
        ("bytes", ColumnType::Variable(PART_BYTES as u16)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 2, ordered: true }.get(kernel).await
}

/// Writes a record that is open, and holds it.
async fn write(kernel: &Kernel, record: &Record) -> Result<Written, Failure> {
    // Who knows of another change has reached a later entry of the control log.
    let id = kernel.definitions_index().0 << 16 | (kernel.draw() & 0xFFFF);
    let bytes = serde_json::to_vec(record).unwrap_or_default();
    let part = |part: u64, bytes: Value| vec![Value::UInt(id), Value::UInt(part), bytes];
    let mut parts = vec![part(OUTCOME, Fate::Open(None).stored())];
    for (number, chunk) in bytes.chunks(PART_BYTES).enumerate() {
        parts.push(part(number as u64, Value::Bytes(chunk.into())));
    }
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let inserts = parts.iter().map(|row| ClientOperation::insert(table, row.clone()));
        kernel.beside().execute_and_commit(inserts.collect()).await
    })
    .await?;
    let place = kernel.commits().newest;
    // A reader may have met the record already: it needs the place if this process dies now.
    settle(&kernel.beside(), id, Fate::Open(None), Fate::Open(Some(place))).await?;
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let key = vec![Value::UInt(id), Value::UInt(OUTCOME)];
        let hold = ClientOperation::read_locked(table, key, LockMode::Exclusive);
        match kernel.scribe().execute(vec![hold]).await?.into_iter().next() {
            Some(Err(refusal)) => Err(Failure::Refused(refusal)),
            _ => Ok(()),
        }
    })
    .await?;
    Ok(Written { id, place, made: None })
}

/// Says what became of a change, unless somebody has: from one fate to another.
async fn settle(kernel: &Kernel, id: u64, from: Fate, to: Fate) -> Result<(), Failure> {
    steadily(kernel, async || {
        let table = records(kernel).await?;
        let key = vec![Value::UInt(id), Value::UInt(OUTCOME)];
        let is_open = Expression::compare(ColumnId(2), Comparison::Equal, from.stored());
        let assignment = (ColumnId(2), Expression::Constant(to.stored()));
        let update = ClientOperation::update_if(table, key, is_open, vec![assignment]);
        match kernel.execute_and_commit(vec![update]).await {
            Err(Failure::Aborted(refusal))
                if matches!(
                    refusal.code,
                    // The log was begun anew, or another one has settled it.
                    ErrorCode::RowNotFound | ErrorCode::ConditionFalse
                ) =>
            {
                Ok(())
            }
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
            let fate = if record.is_ok() { Fate::read(part_bytes) } else { Fate::Open(None) };
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
            Fate::Open(_) => false,
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
    use crate::catalog::harness::Harness;

    #[test]
    fn a_fate_is_read_as_it_was_written() {
        let open = [Fate::Open(None), Fate::Open(Some(Epoch(8)))];
        for fate in open.into_iter().chain([Fate::Failed, Fate::Made(Epoch(7), 9)]) {
            let Value::Bytes(bytes) = fate.stored() else { panic!("bytes") };
            assert_eq!(Fate::read(&bytes), fate);
        }
        assert_eq!(Fate::read(&[1, 2]), Fate::Open(None));
    }

    #[test]
    fn a_change_is_asked_for_again_when_the_records_have_moved() {
        let mut harness = Harness::new();
        harness.ok("CREATE TABLE t (a INT PRIMARY KEY)");
        let records = harness.table("d.t");
        assert!(!is_another(&records, &harness.world.state));
        harness.ok("ALTER TABLE t COMMENT = 'a fence'");
        assert!(is_another(&records, &harness.world.state), "it was described anew");
        let records = harness.table("d.t");
        harness.ok("DROP TABLE t");
        assert!(is_another(&records, &harness.world.state), "it is elsewhere");
    }

    #[test]
    fn users_see_tables_of_databases_that_are_no_copies() {
        assert!(is_seen("d.t"));
        for hidden in ["#sequences", "d.#alter-7", "d.#restore-1-2", "#temporary/1/d/t", "t"] {
            assert!(!is_seen(hidden), "{hidden}");
        }
    }
}
