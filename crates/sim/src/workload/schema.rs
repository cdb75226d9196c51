//! Changes of the catalog while everybody works: own tables that come and go, and new columns and
//! indexes of a table that others are changing.

use std::rc::Rc;

use client::{ClientOperation, ClientRead, ScanSpec};
use model::{
    Column, ColumnId, ColumnType, ErrorCode, IndexState, Refusal, SchemaChange, Table, TableId,
    UniqueIndexDef, Value,
};
use testing::{BIGINT, INT, column, nullable};
use wire::ScanOrder;

use super::{ledger, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session, is_passing};

/// Rows of a table that comes and goes.
const ROWS: i64 = 15;
/// Columns added to the shared table at most.
const ADDED_MAX: usize = 4;

/// A session that changes the catalog.
pub(super) struct Maker {
    number: u32,
    tables: u32,
    /// The unique index of the shared table that this session has left there.
    kept: Option<String>,
}

impl Maker {
    /// A maker of no tables yet.
    pub(super) fn new(lab: &Rc<Lab>) -> Self {
        Self { number: lab.number(), tables: 0, kept: None }
    }

    /// One table's life, or one change of the shared table.
    pub(super) async fn round(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        session.pause(60).await;
        if session.percent(50) {
            self.own_table(session, lab).await
        } else {
            self.shared(session, lab).await
        }
    }

    /// Creates a table, fills it, changes it, looks, drops it.
    async fn own_table(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        self.tables += 1;
        let name = format!("sim.extra_{}_{}", self.number, self.tables);
        let table = testing::table(&name).column("id", ColumnType::UInt(4)).column("a", INT);
        let created = session.schema(table.nullable("b", ColumnType::Float).create()).await;
        let table = match created {
            Ok(table) => table,
            Err(refusal) => match session.table(&name) {
                // Its answer was lost.
                Some(table) => table.id,
                None => return Err(refusal),
            },
        };
        let lived = live(session, lab, table).await;
        let dropped =
            change(session, SchemaChange::DropTable { table }, &[ErrorCode::UnknownTable]);
        dropped.await?;
        lived
    }

    /// Adds a column, or makes and drops a unique index, of the table that others write.
    async fn shared(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        let table = lab.table("ledger");
        let Some(definition) = session.definition(table) else { return Ok(()) };
        assert_eq!(definition.name, ledger::TABLE, "the shared table");
        let number = lab.number();
        if session.percent(30)
            && let Some(modify) = modification(&definition)
        {
            return change(session, modify, &[]).await.map(drop);
        }
        if definition.columns.len() < 6 + ADDED_MAX && session.percent(40) {
            let added = nullable(&format!("added_{number}"), INT);
            let columns = vec![Column { default: Value::Int(3), ..added }];
            let add = SchemaChange::AddColumns { table, columns, large: None, description: None };
            return change(session, add, &[]).await.map(drop);
        }
        // One that was left by an earlier round: what it came to is judged at the end of the run,
        // if nobody drops it before.
        let of_round = |index: &&UniqueIndexDef| index.name.starts_with("late_");
        if let Some(kept) = definition.unique_indexes.iter().find(of_round) {
            // Whoever made it and has not heard of that yet would take it for refused.
            if self.kept.as_deref() != Some(kept.name.as_str()) || session.percent(60) {
                return Ok(());
            }
            let drop = SchemaChange::DropIndex { table, index: kept.id };
            return change(session, drop, &[ErrorCode::UnknownIndex]).await.map(|_| ());
        }
        let ordered = session.percent(30);
        let name = format!("late_{number}");
        // The key makes it unique; the value before it changes while the index is built.
        let (index_name, columns) = (name.clone(), vec![2, 0, 1]);
        let create = if ordered {
            SchemaChange::CreateOrderedIndex { table, name: index_name, columns }
        } else {
            SchemaChange::CreateUniqueIndex { table, name: index_name, columns }
        };
        let created = change(session, create, &[ErrorCode::TableExists]).await;
        let Some(definition) = session.definition(table) else { return Ok(()) };
        let unique = definition.unique_indexes.iter().find(|i| i.name == name).map(|i| i.id);
        let ordered = definition.ordered_indexes.iter().find(|i| i.name == name).map(|i| i.id);
        let keep = unique.is_some() && session.percent(50);
        self.kept = keep.then_some(name);
        if let Some(index) = unique.or(ordered).filter(|_| !keep) {
            let done = [ErrorCode::UnknownIndex];
            change(session, SchemaChange::DropIndex { table, index }, &done).await?;
        }
        created.map(drop)
    }
}

/// The last column that was added gets wider, or goes when it is.
fn modification(definition: &Table) -> Option<SchemaChange> {
    let mut added = definition.columns.iter().enumerate().skip(6);
    let (at, column) = added.rfind(|(_, column)| !column.is_hole())?;
    let id = ColumnId(at as u16);
    let column = match column.column_type {
        ColumnType::Int(4) => Column { column_type: ColumnType::Int(8), ..column.clone() },
        _ => Column::hole(id),
    };
    Some(SchemaChange::ModifyColumns {
        table: definition.id,
        version: definition.version,
        columns: vec![(id, column)],
        renamed: Vec::new(),
        description: definition.description.clone(),
    })
}

/// A change that may have been made already by a request whose answer was lost; whether it was made
/// now.
async fn change(
    session: &Session,
    change: SchemaChange,
    done: &[ErrorCode],
) -> Result<bool, Refusal> {
    match session.schema(change.clone()).await {
        Ok(_) => Ok(true),
        Err(refusal) if done.contains(&refusal.code) => Ok(false),
        Err(refusal) if is_passing(&refusal) => Err(refusal),
        Err(refusal) => panic!("{change:?}: {refusal}"),
    }
}

/// Inserts rows one by one; whether all are there.
async fn insert_rows(session: &Session, table: TableId, from: i64) -> Result<(), Refusal> {
    for id in from..from + ROWS {
        let Some(definition) = session.definition(table) else { return Ok(()) };
        let mut row: Vec<Value> =
            definition.columns.iter().map(|column| column.default.clone()).collect();
        row[0] = Value::UInt(id as u64);
        row[1] = Value::Int(id % 4);
        match session.autocommit(vec![ClientOperation::insert(table, row)]).await {
            Ended::Committed(..) => {}
            Ended::Aborted(refusal) => return passing(refusal),
            Ended::Unknown => return Err(ErrorCode::OutcomeUnknown.into()),
        }
    }
    Ok(())
}

async fn live(session: &Session, _lab: &Rc<Lab>, table: TableId) -> Result<(), Refusal> {
    let generation = session.generation();
    insert_rows(session, table, 0).await?;
    let columns = vec![column("late", BIGINT)];
    let add = SchemaChange::AddColumns { table, columns, large: None, description: None };
    change(session, add, &[ErrorCode::BadDefinition, ErrorCode::TableExists]).await?;
    insert_rows(session, table, ROWS).await?;
    let (name, columns) = ("by_a".to_string(), vec![1]);
    let index = SchemaChange::CreateOrderedIndex { table, name, columns };
    // One that exists already may be of a request whose answer was lost, and not ready.
    let is_waited_for = change(session, index, &[ErrorCode::TableExists]).await?;
    let (name, columns) = ("by_id".to_string(), vec![0]);
    let index = SchemaChange::CreateUniqueIndex { table, name, columns };
    change(session, index, &[ErrorCode::TableExists]).await?;
    let Some(definition) = session.definition(table) else { return Ok(()) };
    let rows = session.scan(ScanSpec::heap(table)).await?;
    if session.generation() != generation {
        return Ok(()); // Some of the rows may be gone.
    }
    assert_eq!(rows.len() as i64, 2 * ROWS, "rows of {}", definition.name);
    if let Some(index) = definition.ordered_indexes.first() {
        assert!(index.state == IndexState::Online || !is_waited_for, "{}: in use", definition.name);
        if index.state == IndexState::Building {
            return Ok(());
        }
        let rows = session.scan(ScanSpec::index(table, index.id, ScanOrder::Ascending)).await?;
        if session.generation() != generation {
            return Ok(());
        }
        assert_eq!(rows.len() as i64, 2 * ROWS, "{} by its ordered index", definition.name);
        assert!(rows.is_sorted_by_key(|row| super::int(&row[1])), "in the order of the index");
        let first = ScanSpec {
            limit: Some(ROWS as u64),
            ..ScanSpec::index(table, index.id, ScanOrder::Descending)
        };
        let first = session.scan(first).await?;
        if session.generation() != generation {
            return Ok(());
        }
        let of = |row: &Vec<Value>| super::int(&row[1]);
        let last = rows.iter().rev().map(of).take(ROWS as usize);
        assert!(first.iter().map(of).eq(last), "the first rows of {}", definition.name);
    }
    if let Some(index) = definition.unique_indexes.first()
        && index.state == IndexState::Online
    {
        let key = |id: i64| vec![Value::UInt(id as u64)];
        let reads = (0..2 * ROWS).map(|id| ClientRead::unique(table, index.id, key(id)));
        let found = session.read(reads.collect(), None).await?;
        if session.generation() != generation {
            return Ok(());
        }
        for (id, row) in found.into_iter().enumerate() {
            let row = row.unwrap_or_else(|| panic!("{}: no entry for {id}", definition.name));
            assert_eq!(row[0], Value::UInt(id as u64), "found by its unique key");
        }
    }
    if session.percent(30) { repeated(session, table, generation).await } else { Ok(()) }
}

/// A unique index over values that repeat never comes online.
async fn repeated(session: &Session, table: TableId, generation: usize) -> Result<(), Refusal> {
    let (name, columns) = ("by_repeated".to_string(), vec![1]);
    let index = SchemaChange::CreateUniqueIndex { table, name: name.clone(), columns };
    change(session, index, &[ErrorCode::UniqueViolation, ErrorCode::TableExists]).await?;
    if let Some(definition) = session.definition(table)
        && session.generation() == generation
    {
        let found = definition.unique_indexes.iter().find(|index| index.name == name);
        let online = found.is_some_and(|index| index.state == IndexState::Online);
        assert!(!online, "{}: a unique index over repeated values", definition.name);
    }
    Ok(())
}
