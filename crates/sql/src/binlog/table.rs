//! A version of a table as the binary log has it: how its rows become images of rows, and in which
//! order the changes of an epoch can be made again.
//!
//! # Guarantees
//! Changes made in the order given here meet no row that has a unique value which another one gives
//! up in the same epoch. No change is left out: what cannot be read is an error.
//! # Limits
//! Updates that pass unique values on in a circle, all of rows with large values that stay as they
//! are, are made with NULL in between; where no column of the index may be NULL they meet a
//! duplicate.
//! # Not here
//! The order of updates (`binlog::order`), values (`binlog::value`), epochs (`binlog::reader`).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ColumnId, Key, Row, RowLayout, Table, TableId, ValueRef};
use mysql_wire::binlog::kind;
use mysql_wire::binlog::rows::{self, MapColumn, TableMap};
use sql_expression::SqlError;
use sqltype::{Datum, SqlType, storage};
use wire::RowChange;

use super::order::{Order, Step, ordered};
use super::origin::Origins;
use super::value;
use crate::catalog::names::shown_name;
use crate::catalog::{TableDefinition, kernel_form};
use crate::large::{self, Outside};

/// Bytes of rows in an event, about.
const EVENT_BYTES: usize = 8_192;

/// A column's value in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    /// It lies outside of the row and was not changed.
    Absent,
    Null,
    Bytes(Vec<u8>),
}

/// One image of a row, by columns that are seen.
type Image = Vec<Cell>;
/// A row before and after an update, and what that does to unique values.
type Update = (Image, Image, Step);

/// Parts of large values that an epoch has, by table of parts and value.
#[derive(Debug, Default)]
pub(crate) struct Parts(BTreeMap<(TableId, u64), ByNumber>);

/// Parts of a value by their numbers.
type ByNumber = BTreeMap<u64, Box<[u8]>>;

impl Parts {
    /// Takes a change of a row of a table of parts.
    pub(super) fn add(&mut self, table: &Table, change: &RowChange) -> Result<(), Unreadable> {
        for row in [&change.before, &change.after].into_iter().flatten() {
            if !can_read(table, row) {
                return Err(Unreadable::of(table, "has a part of an unknown form"));
            }
            let of = |back: usize| {
                let at = table.columns.len().checked_sub(back)?;
                Some(table.value(&row.0, ColumnId(at as u16)))
            };
            if let [
                Some(ValueRef::UInt(value)),
                Some(ValueRef::UInt(part)),
                Some(ValueRef::Bytes(bytes)),
            ] = [of(3), of(2), of(1)]
            {
                self.0.entry((table.id, value)).or_default().insert(part, bytes.into());
            }
        }
        Ok(())
    }

    /// A value, if all of it is there.
    fn value(&self, table: TableId, outside: &Outside) -> Option<Vec<u8>> {
        let parts = self.0.get(&(table, outside.value))?;
        let bytes: Vec<u8> = parts.values().flat_map(|part| part.iter().copied()).collect();
        (bytes.len() == outside.size).then_some(bytes)
    }
}

/// A change that cannot be read: with the reason, for the reader of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    pub(crate) fn of(table: &Table, why: &str) -> Self {
        let (database, name) = shown_name(&table.name);
        Self(format!("a row of {database}.{name} {why}"))
    }
}

/// Whether this version of a table knows the layout of a row.
pub(super) fn can_read(table: &Table, row: &Row) -> bool {
    !row.0.is_empty() && usize::from(RowLayout::version_of(&row.0)) < table.layouts.len()
}

/// What the changes of a row in an epoch come to.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) before: Option<Row>,
    pub(crate) after: Option<Row>,
}

/// A column's value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// It lies outside of the row and was not changed.
    Absent,
    Value(Datum),
}

/// What the changes of a row come to, one for each origin that it goes on with.
pub(crate) type OfRow = Vec<(u32, Net)>;

/// A version of a table.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) table: Arc<Table>,
    pub(crate) definition: TableDefinition,
    map: TableMap,
    json_is_text: bool,
}

impl Shape {
    /// Reads a definition.
    pub(crate) fn of(table: &Arc<Table>, json_is_text: bool) -> Result<Self, SqlError> {
        let definition = kernel_form::read(table)?;
        let columns: Vec<MapColumn> = definition
            .visible_columns()
            .iter()
            .map(|column| value::described(column, json_is_text))
            .collect();
        let key = definition.primary_key().map(|key| key.columns.as_slice()).unwrap_or_default();
        let primary_key =
            key.iter().map(|part| (part.declared, part.prefix_length.unwrap_or(0))).collect();
        let map = TableMap {
            id: table.id.0.into(),
            database: definition.database.clone(),
            name: definition.name.clone(),
            columns,
            primary_key,
        };
        Ok(Self { table: table.clone(), definition, map, json_is_text })
    }

    /// The name by which tables are in order.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.map.database, &self.map.name)
    }

    /// The events that make changes of rows, in the order of keys, as types and bodies. None if
    /// nothing has changed.
    pub(super) fn events<'n>(
        &self,
        nets: impl Iterator<Item = &'n Net>,
        parts: &Parts,
    ) -> Result<Vec<(u8, Vec<u8>)>, Unreadable> {
        let (mut deleted, mut inserted) = (Vec::new(), Vec::new());
        let mut updates: Vec<Update> = Vec::new();
        for net in nets {
            let image = |row: &Row| self.image(row, parts);
            match (&net.before, &net.after) {
                (Some(before), None) => deleted.push(image(before)?),
                (None, Some(after)) => {
                    let after = image(after)?;
                    if after.contains(&Cell::Absent) {
                        let why = "has a large value that is not whole";
                        return Err(Unreadable::of(&self.table, why));
                    }
                    inserted.push(after);
                }
                (Some(before), Some(after)) if before != after => {
                    let step = self.step(Some(before), Some(after));
                    let (before, after) = (image(before)?, image(after)?);
                    // A value that was not changed can be left out of an update alone.
                    let can_split = !after.contains(&Cell::Absent);
                    updates.push((before, after, Step { can_split, ..step }));
                }
                _ => {}
            }
        }
        let Order { split, parked, order } = ordered(updates.iter().map(|(_, _, step)| step));
        let (mut updated, mut at_last) = (Vec::new(), Vec::new());
        for at in order {
            let (before, after, step) = &updates[at];
            let (mut before, mut after) = (before.clone(), after.clone());
            if split.contains(&at) {
                deleted.push(before);
                inserted.push(after);
                continue;
            }
            for (before, after) in before.iter_mut().zip(&mut after) {
                if [&*before, &*after].contains(&&Cell::Absent) {
                    (*before, *after) = (Cell::Absent, Cell::Absent);
                }
            }
            if parked.contains(&at)
                && let Some(between) = self.without_unique_values(&after, step)
            {
                at_last.push((between.clone(), after));
                updated.push((before, between));
                continue;
            }
            updated.push((before, after));
        }
        updated.extend(at_last);
        let mut out = Events { table: self.map.id, events: Vec::new() };
        deleted.iter().for_each(|image| out.add(kind::DELETE_ROWS, &[image]));
        updated.iter().for_each(|(before, after)| out.add(kind::UPDATE_ROWS, &[before, after]));
        inserted.iter().for_each(|image| out.add(kind::WRITE_ROWS, &[image]));
        let events = out.end();
        if events.is_empty() {
            return Ok(events);
        }
        let mut map = Vec::new();
        rows::table_map(&mut map, &self.map);
        Ok([(kind::TABLE_MAP, map)].into_iter().chain(events).collect())
    }

    /// What the changes of an epoch come to, for each row in the order of primary keys.
    pub(crate) fn nets<'c>(
        &self,
        changes: impl Iterator<Item = &'c RowChange>,
        origins: &Origins,
    ) -> Result<Vec<OfRow>, Unreadable> {
        let mut nets: BTreeMap<Key, OfRow> = BTreeMap::new();
        for change in changes {
            let Some(origin) = origins.server(change, &self.map.name) else { continue };
            let Some(row) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let mut images = [&change.before, &change.after].into_iter().flatten();
            if !images.all(|row| can_read(&self.table, row)) {
                return Err(Unreadable::of(&self.table, "has a form that its definition lacks"));
            }
            let key = self.table.key_of_row(&self.table.primary_key, &row.0);
            let of_row = nets.entry(key).or_default();
            match of_row.last_mut().filter(|(of, _)| *of == origin) {
                Some((_, net)) => net.after.clone_from(&change.after),
                None => {
                    let RowChange { before, after, .. } = change.clone();
                    of_row.push((origin, Net { before, after }));
                }
            }
        }
        Ok(nets.into_values().collect())
    }

    /// The unique values that a change gives up and takes.
    pub(super) fn step_of(&self, net: &Net) -> Step {
        self.step(net.before.as_ref(), net.after.as_ref())
    }

    fn step(&self, before: Option<&Row>, after: Option<&Row>) -> Step {
        let mut step = Step::default();
        for index in &self.table.unique_indexes {
            let key = |row: &Row| self.table.unique_key_of_row(index, &row.0);
            let (before, after) = (before.and_then(key), after.and_then(key));
            if before != after {
                step.gives.extend(before.map(|key| (index.id, key)));
                step.takes.extend(after.map(|key| (index.id, key)));
            }
        }
        step
    }

    /// The image with NULL in the unique indexes of which a step takes values; none where an index
    /// has no column for that.
    fn without_unique_values(&self, image: &Image, step: &Step) -> Option<Image> {
        let mut image = image.clone();
        let columns = self.definition.visible_columns();
        for (index, _) in &step.takes {
            let index = self.table.unique_indexes.iter().find(|one| one.id == *index)?;
            let is_free = |column: &crate::catalog::ColumnDefinition| {
                column.nullable && index.columns.contains(&column.column)
            };
            let at = columns.iter().position(is_free)?;
            image[at] = Cell::Null;
        }
        Some(image)
    }

    fn image(&self, row: &Row, parts: &Parts) -> Result<Image, Unreadable> {
        let cell = |stored: Option<ValueRef<'_>>, sql_type: &SqlType| {
            let Some(stored) = stored else { return Cell::Absent };
            let bytes = value::bytes_of(stored, sql_type, self.json_is_text);
            bytes.map_or(Cell::Null, Cell::Bytes)
        };
        self.columns(row, parts, cell)
    }

    /// The values of a row, by columns that are seen.
    pub(crate) fn values(&self, row: &Row, parts: &Parts) -> Result<Vec<Held>, Unreadable> {
        let held = |stored: Option<ValueRef<'_>>, sql_type: &SqlType| match stored {
            Some(stored) => Held::Value(storage::from_value(stored, sql_type)),
            None => Held::Absent,
        };
        self.columns(row, parts, held)
    }

    /// What is made of the stored value of each column that is seen; of none where it lies outside
    /// of the row and is not in the epoch.
    fn columns<T>(
        &self,
        row: &Row,
        parts: &Parts,
        make: impl Fn(Option<ValueRef<'_>>, &SqlType) -> T,
    ) -> Result<Vec<T>, Unreadable> {
        let malformed =
            |_| Unreadable::of(&self.table, "refers to large values in an unknown form");
        let outside = large::outside_of(&self.table, &row.0).map_err(malformed)?;
        let of_parts = self.table.large.as_ref().map(|large| large.parts);
        let one = |column: &crate::catalog::ColumnDefinition| {
            let sql_type = &column.sql_type;
            match outside.iter().find(|one| one.column == column.column) {
                Some(outside) => {
                    let found = of_parts.and_then(|table| parts.value(table, outside));
                    make(found.as_deref().map(ValueRef::Bytes), sql_type)
                }
                None => make(Some(self.table.value_now(&row.0, column.column)), sql_type),
            }
        };
        Ok(self.definition.visible_columns().iter().map(one).collect())
    }
}

/// Events of rows that are being made.
struct Events {
    table: u64,
    events: Vec<Open>,
}

/// An event, and what its rows have in common.
struct Open {
    kind: u8,
    present: Vec<Vec<bool>>,
    rows: Vec<u8>,
}

impl Events {
    /// Adds a row, in an event of its own if the last one is another or long.
    fn add(&mut self, kind: u8, images: &[&Image]) {
        let present_in = |image: &&Image| image.iter().map(|c| *c != Cell::Absent).collect();
        let present: Vec<Vec<bool>> = images.iter().map(present_in).collect();
        let last = self.events.last();
        let goes_on = last.is_some_and(|last| {
            last.kind == kind && last.present == present && last.rows.len() < EVENT_BYTES
        });
        if !goes_on {
            self.events.push(Open { kind, present, rows: Vec::new() });
        }
        let Some(open) = self.events.last_mut() else { return };
        for image in images {
            let cells = image.iter().filter(|cell| **cell != Cell::Absent);
            let values = cells.map(|cell| match cell {
                Cell::Bytes(bytes) => Some(bytes.as_slice()),
                _ => None,
            });
            rows::row_image(&mut open.rows, values);
        }
    }

    fn end(self) -> Vec<(u8, Vec<u8>)> {
        let count = self.events.len();
        let finished = |(at, open): (usize, Open)| {
            let ends = if at + 1 == count { rows::STATEMENT_ENDS } else { 0 };
            let present: Vec<&[bool]> = open.present.iter().map(Vec::as_slice).collect();
            let mut body = Vec::with_capacity(open.rows.len() + 64);
            rows::rows_head(&mut body, self.table, ends | rows::NO_FOREIGN_KEY_CHECKS, &present);
            body.extend(open.rows);
            (open.kind, body)
        };
        self.events.into_iter().enumerate().map(finished).collect()
    }
}
