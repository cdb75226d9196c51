//! Altering a table by copying its rows to another one that takes its place.
//!
//! Writers are kept out meanwhile, readers are not. The new table is hidden under a name made of
//! the old one's identity, filled in short transactions, and then put in its place by one command.
//! Where nodes have disks, the rows are on them before: a restart of the whole cluster must not
//! find the new table without them.
//!
//! # Owns
//! The copy, and the claim: a row in a kernel table of ours, locked as long as the copy goes on.
//! # Guarantees
//! A copy that fails leaves the old table as it was. One whose process died holds no claim any
//! more: who next wants to write undoes what it left.
//! # Not here
//! Making rows fit (`execute::row`).

use std::rc::Rc;

use client::{ClientOperation, ScanSpec};
use model::{ErrorCode, SchemaChange, TableId, Value};
use sql_expression::{SqlError, SqlMode};
use sqltype::{Datum, SqlType, TypeKind};
use stdx::Duration;
use wire::{Projection, WaitPolicy};

use super::alter::Altered;
use super::change::is_value_kept;
use super::{change, foreign_key, refused};
use crate::access::{ReadMode, Reader, Values};
use crate::catalog::names::{TableName, copy_name};
use crate::catalog::{ColumnDefault, ColumnDefinition, TableDefinition, kernel_form, same_name};
use crate::claim::Claims;
use crate::error::of_refusal;
use crate::execute::reference::batch::Batch;
use crate::execute::row::{RowMaker, implicit_default};
use crate::execute::run::Run;
use crate::execute::scan::datum_of;
use crate::kernel::{Failure, Kernel};
use crate::large::size_of;
use crate::plan::Planner;
use crate::result::Outcome;
use crate::session::Session;
use crate::temporary::shown_name;

/// The claims on tables that are being rebuilt.
const CLAIMS: Claims = Claims { table: "#alterations", column: "table_id", width: 4 };
/// Rows copied in one transaction.
const BATCH: usize = 256;
/// Bytes of large values after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;
/// How often a batch is tried that meets a failing node.
const ATTEMPTS_MAX: u32 = 20;
/// The pause before a batch is tried again, and between two looks at a table that is being copied.
const PAUSE: Duration = Duration::from_millis(50);

/// Rebuilds a table as altered.
pub(super) async fn run(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, SqlError> {
    let old = altered.old.table.id;
    // Others who alter the table hold what MySQL calls a metadata lock.
    let patience = Duration::from_secs(session.variables.lock_wait_timeout);
    session.kernel.limit_lock_waits(patience);
    CLAIMS.hold(&session.kernel, old.0.into(), WaitPolicy::Wait).await?;
    let result = claimed(session, name, altered).await;
    // The transaction only held the claim.
    session.rollback().await;
    result
}

/// The copy, by whoever holds the claim.
async fn claimed(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, SqlError> {
    let old = &altered.old.table;
    undo(&session.kernel, old.id, &name.database).await?;
    check_unchanged(session, altered, 0)?;
    change(session, SchemaChange::BlockWrites { table: old.id, blocked: true }).await?;
    let made = match check_unchanged(session, altered, 1) {
        Ok(()) => fill(session, name, altered).await,
        Err(error) => Err(error),
    };
    let (new, outcome) = match made {
        Ok(made) => made,
        Err(error) => {
            // If this fails too, the next who wants to write does it.
            let _ = undo(&session.kernel, old.id, &name.database).await;
            return Err(error);
        }
    };
    if session.kernel.has_disk()
        && let Err(failure) = session.kernel.save_all().await
    {
        let _ = undo(&session.kernel, old.id, &name.database).await;
        return Err(failure.into());
    }
    let replace = SchemaChange::ReplaceTable { old: old.id, new };
    let linked = match foreign_key::link(session, &altered.planned(name, true)) {
        Ok(linked) => linked,
        Err(error) => {
            let _ = undo(&session.kernel, old.id, &name.database).await;
            return Err(error);
        }
    };
    match change(session, linked.with(replace)).await {
        Ok(_) => {
            let _ = session.shared.sequences.forget(&session.kernel, old.id).await;
            Ok(outcome)
        }
        // Whether it is in place nobody knows: what is left, if it is not, is found by its name.
        Err(failure) if refused(&failure, ErrorCode::OutcomeUnknown) => Err(failure.into()),
        Err(failure) => {
            let _ = undo(&session.kernel, old.id, &name.database).await;
            Err(failure.into())
        }
    }
}

/// Refuses when the definition is not the one the alteration was made from, `commands` later.
fn check_unchanged(session: &Session, altered: &Altered, commands: u32) -> Result<(), SqlError> {
    let old = &altered.old.table;
    let cluster = session.kernel.cluster();
    let now = cluster.tables.get(&old.id).map(|table| table.version);
    match now.is_some_and(|now| now == old.version + commands) {
        true => Ok(()),
        false => Err(Failure::Refused(ErrorCode::SchemaChanged.into()).into()),
    }
}

/// The full name of the table that is to take the place of another.
fn hidden_name(database: &str, old: TableId) -> String {
    format!("{database}.{}", copy_name(old))
}

/// Takes away what a copy has left: the block, and the hidden table. Nothing if there is nothing.
///
/// The block goes first: from then on the hidden table cannot take the other's place any more,
/// should somebody still be at work on it, and may be dropped.
async fn undo(kernel: &Kernel, old: TableId, database: &str) -> Result<(), SqlError> {
    let cluster = kernel.cluster();
    if cluster.tables.get(&old).is_some_and(|table| table.writes_blocked) {
        kernel.change_schema(SchemaChange::BlockWrites { table: old, blocked: false }).await?;
    }
    let cluster = kernel.cluster();
    if let Some(hidden) = cluster.table_named(&hidden_name(database, old)) {
        match kernel.change_schema(SchemaChange::DropTable { table: hidden.id }).await {
            Ok(_) => {}
            Err(failure) if refused(&failure, ErrorCode::UnknownTable) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(())
}

/// Waits until the table that a statement was refused for may be written again, for
/// `lock_wait_timeout` at most. When the one who rebuilt it is gone, what was left of the work is
/// undone. Nothing happens when no table that the refusal names is being rebuilt.
pub(crate) async fn wait_for_writes(
    session: &mut Session,
    refusal: &SqlError,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    let mut blocked = cluster.tables.values().filter(|table| table.writes_blocked);
    let Some(table) = blocked.find(|table| refusal.message().contains(&table.name)) else {
        return Ok(());
    };
    let patience = Duration::from_secs(session.variables.lock_wait_timeout);
    let began = session.kernel.now();
    while session.kernel.cluster().tables.get(&table.id).is_some_and(|t| t.writes_blocked) {
        let beside = session.kernel.beside();
        match CLAIMS.hold(&beside, table.id.0.into(), WaitPolicy::Refuse).await {
            Ok(()) => {
                let (database, _) = shown_name(&table.name);
                let undone = undo(&beside, table.id, &database).await;
                beside.abort().await;
                return undone;
            }
            Err(failure @ Failure::Interrupted(_)) => return Err(failure.into()),
            // It is being worked on; or nobody can tell now.
            Err(_) => beside.abort().await,
        }
        if session.kernel.now().since(began) >= patience {
            return Err(of_refusal(&ErrorCode::LockTimeout.into()));
        }
        session.kernel.sleep(PAUSE).await?;
    }
    Ok(())
}

/// Makes the new table and copies the rows.
async fn fill(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<(TableId, Outcome), SqlError> {
    let old = &altered.old;
    let hidden = hidden_name(&name.database, old.table.id);
    let linked = foreign_key::link_copy(session, &altered.planned(name, false))?;
    let create = kernel_form::create(&hidden, &name.name, &altered.new);
    let id = change(session, linked.with(create)).await?;
    // When a snapshot is there, all that was committed before the block is complete everywhere.
    let epoch = session.kernel.open_snapshot().await?;
    session.kernel.close_snapshot(epoch);
    let cluster = session.kernel.cluster();
    let gone = || SqlError::from(Failure::Refused(ErrorCode::UnknownTable.into()));
    let table = cluster.tables.get(&id).ok_or_else(gone)?;
    let definition = session.shared.definitions.of(table)?;
    // Messages name the table that is altered.
    let definition =
        Rc::new(TableDefinition { name: name.name.clone(), ..TableDefinition::clone(&definition) });
    let maker = RowMaker::new(&mut Planner::new(session, &[]), &definition, false)?;
    let mut copy = Copy::new(altered, definition.clone(), maker);
    let mut run = Run::new(session, &[]);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    let copied = copy.rows(&mut run).await;
    let warnings = run.context.warnings.count;
    run.finish();
    copied?;
    carry_sequence(session, altered, &definition, &copy).await?;
    let records = copy.records;
    let info = format!("Records: {records}  Duplicates: 0  Warnings: {warnings}");
    Ok((id, Outcome::Done { affected: records, last_insert_id: 0, info }))
}

/// The new table goes on counting where the old one was.
async fn carry_sequence(
    session: &Session,
    altered: &Altered,
    new: &TableDefinition,
    copy: &Copy<'_>,
) -> Result<(), SqlError> {
    let old = &altered.old;
    let mut last = copy.largest.max(altered.auto_increment.unwrap_or(0).saturating_sub(1));
    if new.hidden_key.is_some() {
        last = last.max(copy.records);
    }
    let sequences = session.shared.sequences.clone();
    if new.auto_increment().is_some() && old.auto_increment().is_some() {
        let start = old.sequence_start();
        let next = sequences.peek(&session.kernel, old.table.id, start).await?;
        last = last.max(next.saturating_sub(1));
    }
    if last > 0 {
        sequences.raise(&session.kernel, new.table.id, last, new.sequence_start()).await?;
    }
    Ok(())
}

/// A copy under way.
struct Copy<'a> {
    altered: &'a Altered,
    definition: Rc<TableDefinition>,
    maker: RowMaker,
    records: u64,
    /// The largest value of the AUTO_INCREMENT column so far.
    largest: u64,
    /// Positions of the foreign keys that the table has already.
    known: Vec<usize>,
}

/// A row of a table that nobody changes, with the values that lie outside of it.
async fn whole(reader: &Reader, row: Values) -> Result<Values, SqlError> {
    let completed = reader.complete(vec![row]).await?.into_iter().next();
    let gone = || SqlError::from(Failure::Refused(ErrorCode::SchemaChanged.into()));
    completed.and_then(|completed| completed.values).ok_or_else(gone)
}

/// A row of the new table, and its values as they are stored.
struct Made {
    row: Vec<Datum>,
    values: Vec<Value>,
}

impl<'a> Copy<'a> {
    fn new(altered: &'a Altered, definition: Rc<TableDefinition>, maker: RowMaker) -> Self {
        let largest = definition.sequence_start() - 1;
        let foreign_keys = definition.foreign_keys.iter().enumerate();
        let has =
            |name: &str| altered.old.foreign_keys.iter().any(|key| same_name(&key.name, name));
        let known = foreign_keys.filter(|(_, key)| has(&key.name)).map(|(at, _)| at).collect();
        Self { altered, definition, maker, records: 0, largest, known }
    }

    async fn rows(&mut self, run: &mut Run<'_>) -> Result<(), SqlError> {
        let spec = ScanSpec::heap(self.altered.old.table.id);
        let mut scan = run.session.kernel.scan(spec);
        let reader = Reader {
            kernel: run.session.kernel.clone(),
            table: self.altered.old.table.clone(),
            mode: ReadMode::Committed,
            projection: Projection::All,
        };
        let references = reader.references();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(rows) = scan.next().await? {
            for row in rows {
                bytes += references.map_or(0, |at| size_of(&row[at]));
                let row = whole(&reader, row).await?;
                self.records += 1;
                run.context.row_number = self.records;
                batch.push(self.made(run, row).await?);
                if batch.len() == BATCH || bytes >= BATCH_BYTES {
                    self.insert(run, std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            run.worked(BATCH).await?;
        }
        self.insert(run, batch).await
    }

    /// The new row that an old one becomes.
    async fn made(&mut self, run: &mut Run<'_>, old: Vec<Value>) -> Result<Made, SqlError> {
        let definition = self.definition.clone();
        let mut row = vec![Datum::Null; definition.columns.len()];
        for (at, column) in definition.columns.iter().enumerate() {
            if column.is_computed() {
                continue;
            }
            row[at] = match self.altered.origins[at] {
                Some(origin) => {
                    let before = &self.altered.old.columns[origin];
                    let value = old[usize::from(before.column.0)].clone();
                    self.converted(run, at, before, value)?
                }
                None => self.new_value(run, at, column, &row).await?,
            };
            if column.auto_increment {
                self.number(run, at, column, &mut row[at])?;
            }
        }
        self.maker.complete(run, &mut row, false).await?;
        let mut values = self.maker.kernel_row(run, &row, self.records);
        for (at, column) in definition.columns.iter().enumerate() {
            let Some(origin) = self.altered.origins[at] else { continue };
            let before = &self.altered.old.columns[origin];
            // What is stored alike is not read and written again: a moment stays itself, whatever
            // the time zone says about it.
            if !column.is_computed() && !column.auto_increment && is_value_kept(before, column) {
                values[usize::from(column.column.0)] = old[usize::from(before.column.0)].clone();
            }
        }
        Ok(Made { row, values })
    }

    /// A value of the old column as one of the new.
    fn converted(
        &self,
        run: &mut Run<'_>,
        at: usize,
        before: &ColumnDefinition,
        value: Value,
    ) -> Result<Datum, SqlError> {
        let column = &self.definition.columns[at];
        let datum = datum_of(value, &before.sql_type, run);
        if datum.is_null() && !column.nullable && !column.auto_increment {
            if run.context.strict {
                return Err(SqlError::new(1138, "22004", "Invalid use of NULL value"));
            }
            return Ok(implicit_default(&column.sql_type));
        }
        match is_value_kept(before, column) {
            true => Ok(datum),
            false => self.maker.store(run, at, datum, &before.sql_type),
        }
    }

    /// The value of a new column in a row that was there before it.
    async fn new_value(
        &self,
        run: &mut Run<'_>,
        at: usize,
        column: &ColumnDefinition,
        row: &[Datum],
    ) -> Result<Datum, SqlError> {
        if column.default != ColumnDefault::None || column.nullable || column.auto_increment {
            return self.maker.default(run, at, row).await;
        }
        let temporal = matches!(
            column.sql_type.kind,
            TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp
        );
        let mode = run.context.facts.sql_mode;
        if temporal && run.context.strict && mode.contains(SqlMode::NO_ZERO_DATE) {
            let (kind, zero) = match column.sql_type.kind {
                TypeKind::Date => ("date", "0000-00-00"),
                _ => ("datetime", "0000-00-00 00:00:00"),
            };
            let (name, number) = (&column.name, self.records);
            let message =
                format!("Incorrect {kind} value: '{zero}' for column '{name}' at row {number}");
            return Err(SqlError::new(1292, "22007", message));
        }
        Ok(implicit_default(&column.sql_type))
    }

    /// Gives an AUTO_INCREMENT column its value where it has none.
    fn number(
        &mut self,
        run: &mut Run<'_>,
        at: usize,
        column: &ColumnDefinition,
        value: &mut Datum,
    ) -> Result<(), SqlError> {
        let keeps_zero = run.context.facts.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        match value {
            Datum::Int(0) | Datum::UInt(0) if keeps_zero => {}
            Datum::Null | Datum::Int(0) | Datum::UInt(0) => {
                self.largest += 1;
                let number = Datum::UInt(self.largest);
                let of = SqlType::unsigned_big_int();
                let stored = self.maker.store(run, at, number, &of);
                let exhausted = |_| {
                    SqlError::new(
                        1264,
                        "22003",
                        format!(
                            "Out of range value for column '{}' at row {}",
                            column.name, self.records
                        ),
                    )
                };
                *value = stored.map_err(exhausted)?;
            }
            Datum::Int(number) => {
                self.largest = self.largest.max(u64::try_from(*number).unwrap_or(0));
            }
            Datum::UInt(number) => self.largest = self.largest.max(*number),
            _ => {}
        }
        Ok(())
    }

    /// Inserts rows in a transaction of their own.
    async fn insert(&self, run: &mut Run<'_>, batch: Vec<Made>) -> Result<(), SqlError> {
        if batch.is_empty() {
            return Ok(());
        }
        let table = &self.definition.table;
        let kernel = run.session.kernel.beside();
        let mut all = Batch::default();
        for made in batch {
            let insert = ClientOperation::insert(table.id, made.values.clone());
            all.push(insert.of_version(table.version), made.row);
            // What the table referred to before it refers to still: nobody changes it now.
            all.refer(&self.maker, &made.values, None, &self.known)?;
        }
        let mut attempt = 0;
        loop {
            let Err(error) = all.clone().send(&kernel, &self.maker, true).await else {
                return Ok(());
            };
            // Of what was found before it was refused, nothing is to stay locked.
            kernel.abort().await;
            let is_temporary = matches!(error.code(), 1205 | 1213 | 1297 | 1412);
            if !is_temporary || attempt == ATTEMPTS_MAX {
                return Err(error);
            }
            attempt += 1;
            run.session.kernel.sleep(PAUSE).await?;
        }
    }
}
