//! A version of a table as the binary log has it: how its rows become images of rows, and in which
//! order the changes of an epoch can be made again.
//!
//! # Guarantees
//! Changes made in the order given here meet no row that has a unique value which another one gives
//! up in the same epoch.
//! # Not here
//! Values (`binlog::value`), epochs (`binlog::reader`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{ColumnId, IndexId, Key, Row, RowLayout, Table, TableId, ValueRef};
use mysql_wire::binlog::kind;
use mysql_wire::binlog::rows::{self, MapColumn, TableMap};
use sql_expression::SqlError;
use wire::RowChange;

use super::value;
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

/// Parts of large values that an epoch has, by table of parts and value.
#[derive(Debug, Default)]
pub(super) struct Parts(BTreeMap<(TableId, u64), ByNumber>);

/// Parts of a value by their numbers.
type ByNumber = BTreeMap<u64, Box<[u8]>>;

impl Parts {
    /// Takes a change of a row of a table of parts.
    pub(super) fn add(&mut self, table: &Table, change: &RowChange) {
        for row in [&change.before, &change.after].into_iter().flatten() {
            if !can_read(table, row) {
                continue;
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
    }

    /// A value, if all of it is there.
    fn value(&self, table: TableId, outside: &Outside) -> Option<Vec<u8>> {
        let parts = self.0.get(&(table, outside.value))?;
        let bytes: Vec<u8> = parts.values().flat_map(|part| part.iter().copied()).collect();
        (bytes.len() == outside.size).then_some(bytes)
    }
}

/// Whether this version of a table knows the layout of a row.
pub(super) fn can_read(table: &Table, row: &Row) -> bool {
    !row.0.is_empty() && usize::from(RowLayout::version_of(&row.0)) < table.layouts.len()
}

/// What the changes of a row in an epoch come to.
#[derive(Clone, Debug)]
struct Net {
    before: Option<Row>,
    after: Option<Row>,
}

/// A version of a table.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) table: Arc<Table>,
    definition: TableDefinition,
    map: TableMap,
    json_is_text: bool,
}

impl Shape {
    /// Reads a definition.
    pub(super) fn of(table: &Arc<Table>, json_is_text: bool) -> Result<Self, SqlError> {
        let definition = kernel_form::read(table)?;
        let columns: Vec<MapColumn> = definition
            .visible_columns()
            .iter()
            .map(|column| value::described(column, json_is_text))
            .collect();
        let key = definition.primary_key().map(|key| key.columns.as_slice()).unwrap_or_default();
        let primary_key = key.iter().map(|part| part.declared).collect();
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
    pub(super) fn name(&self) -> (&str, &str) {
        (&self.map.database, &self.map.name)
    }

    /// The events that make the changes of an epoch, as types and bodies. None if nothing has
    /// changed.
    pub(super) fn events<'c>(
        &self,
        changes: impl Iterator<Item = &'c RowChange>,
        parts: &Parts,
    ) -> Vec<(u8, Vec<u8>)> {
        let nets = self.nets(changes);
        let (mut deleted, mut updated, mut inserted) = (Vec::new(), Vec::new(), Vec::new());
        let moved = self.moved(&nets);
        for (key, net) in &nets {
            let image = |row: &Row| self.image(row, parts);
            match (&net.before, &net.after) {
                (Some(before), None) => deleted.push(image(before)),
                (None, Some(after)) => inserted.push(image(after)),
                (Some(before), Some(after)) if before != after => {
                    let (mut before, mut after) = (image(before), image(after));
                    let takes = moved.contains(key);
                    // A value that was not changed can be left out of an update alone.
                    if takes && !after.contains(&Cell::Absent) {
                        deleted.push(before);
                        inserted.push(after);
                        continue;
                    }
                    for (before, after) in before.iter_mut().zip(&mut after) {
                        if [&*before, &*after].contains(&&Cell::Absent) {
                            (*before, *after) = (Cell::Absent, Cell::Absent);
                        }
                    }
                    updated.push((before, after));
                }
                _ => {}
            }
        }
        let mut out = Events { table: self.map.id, events: Vec::new() };
        deleted.iter().for_each(|image| out.add(kind::DELETE_ROWS, &[image]));
        updated.iter().for_each(|(before, after)| out.add(kind::UPDATE_ROWS, &[before, after]));
        inserted.iter().for_each(|image| out.add(kind::WRITE_ROWS, &[image]));
        let events = out.end();
        if events.is_empty() {
            return events;
        }
        let mut map = Vec::new();
        rows::table_map(&mut map, &self.map);
        [(kind::TABLE_MAP, map)].into_iter().chain(events).collect()
    }

    /// What the changes of each row come to, by primary key.
    fn nets<'c>(&self, changes: impl Iterator<Item = &'c RowChange>) -> BTreeMap<Key, Net> {
        let mut nets: BTreeMap<Key, Net> = BTreeMap::new();
        for change in changes {
            let Some(row) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let mut images = [&change.before, &change.after].into_iter().flatten();
            if !images.all(|row| can_read(&self.table, row)) {
                continue;
            }
            let key = self.table.key_of_row(&self.table.primary_key, &row.0);
            let net = nets.entry(key);
            let new = || Net { before: change.before.clone(), after: None };
            net.or_insert_with(new).after.clone_from(&change.after);
        }
        nets
    }

    /// The rows that become such as to have a unique value which another row has given up by an
    /// update in the same epoch.
    fn moved(&self, nets: &BTreeMap<Key, Net>) -> BTreeSet<Key> {
        let mut given_up: BTreeMap<(IndexId, Key), &Key> = BTreeMap::new();
        let updates = || {
            nets.iter().filter_map(|(key, net)| match (&net.before, &net.after) {
                (Some(before), Some(after)) => Some((key, before, after)),
                _ => None,
            })
        };
        for index in &self.table.unique_indexes {
            for (key, before, _) in updates() {
                if let Some(value) = self.table.unique_key_of_row(index, &before.0) {
                    given_up.insert((index.id, value), key);
                }
            }
        }
        let mut moved = BTreeSet::new();
        for index in &self.table.unique_indexes {
            for (key, _, after) in updates() {
                let value = self.table.unique_key_of_row(index, &after.0);
                let owner = value.and_then(|value| given_up.get(&(index.id, value)));
                if owner.is_some_and(|owner| *owner != key) {
                    moved.insert(key.clone());
                }
            }
        }
        moved
    }

    fn image(&self, row: &Row, parts: &Parts) -> Image {
        // References that cannot be read are like values that are not there.
        let outside = large::outside_of(&self.table, &row.0).unwrap_or_default();
        let of_parts = self.table.large.as_ref().map(|large| large.parts);
        let cell = |column: &crate::catalog::ColumnDefinition| {
            let sql_type = &column.sql_type;
            let bytes = match outside.iter().find(|one| one.column == column.column) {
                Some(outside) => {
                    let found = of_parts.and_then(|table| parts.value(table, outside));
                    let Some(found) = found else { return Cell::Absent };
                    value::bytes_of(ValueRef::Bytes(&found), sql_type, self.json_is_text)
                }
                None => {
                    let stored = self.table.value_now(&row.0, column.column);
                    value::bytes_of(stored, sql_type, self.json_is_text)
                }
            };
            bytes.map_or(Cell::Null, Cell::Bytes)
        };
        self.definition.visible_columns().iter().map(cell).collect()
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
