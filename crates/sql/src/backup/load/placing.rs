//! Where the values of saved rows stand in the rows of the table that is filled.

use std::collections::BTreeMap;

use model::{Table, Value};
use sql_expression::SqlError;

use crate::backup::archive::definitions::fill;
use crate::backup_jobs::host::{SavedTable, failed};
use crate::catalog::names::TableName;
use crate::large;

/// Where values stand.
#[derive(Clone, Debug)]
pub(in crate::backup) struct Placing {
    /// Of each value that was saved; none of a column that was dropped.
    places: Vec<Option<usize>>,
    /// A row without these values.
    blank: Vec<Value>,
    /// Rows stay as they are.
    is_same: bool,
    /// The place of references to large values, and the new numbers of columns in them.
    references: Option<(usize, BTreeMap<u16, u16>)>,
}

impl Placing {
    /// Of values by the names of their columns.
    pub(super) fn by_name(
        table: &Table,
        saved: &[String],
        name: &TableName,
    ) -> Result<Self, SqlError> {
        let place = |column: &String| table.columns.iter().position(|own| own.name == *column);
        let places: Option<Vec<usize>> = saved.iter().map(place).collect();
        let references = table.large.as_ref().map(|large| usize::from(large.references.0));
        let is_filled = |places: &Vec<usize>| {
            let filled = |at: usize| Some(at) == references || places.contains(&at);
            (0..table.columns.len()).all(filled)
        };
        let places = places.filter(is_filled).ok_or_else(|| other(name))?;
        Ok(Self::new(table, places.into_iter().map(Some).collect()))
    }

    /// Of values of the kernel's columns with these numbers, of a table that was defined like that.
    pub(super) fn by_number(
        table: &Table,
        saved: &[u16],
        defined: &SavedTable,
        name: &TableName,
    ) -> Result<Self, SqlError> {
        let raw = defined.raw.as_ref().ok_or_else(|| other(name))?;
        let mut known = BTreeMap::new();
        let mut filled = vec![false; table.columns.len()];
        for (column, called) in raw.columns.iter().zip(&defined.columns) {
            let at = table.columns.iter().position(|own| own.name == *called);
            let at = at.ok_or_else(|| other(name))?;
            filled[at] = true;
            known.insert(column.id, at);
        }
        if !filled.iter().all(|filled| *filled) {
            return Err(other(name));
        }
        let mut placing = Self::new(table, saved.iter().map(|id| known.get(id).copied()).collect());
        for column in raw.columns.iter().filter(|column| !saved.contains(&column.id)) {
            let at = *known.get(&column.id).ok_or_else(|| other(name))?;
            placing.blank[at] = fill(column)?;
        }
        let own = table.large.as_ref().map(|large| usize::from(large.references.0));
        if let Some(at) = own {
            let numbers: BTreeMap<u16, u16> =
                known.iter().map(|(id, at)| (*id, *at as u16)).collect();
            if numbers.iter().any(|(id, own)| id != own) {
                placing.references = Some((at, numbers));
            }
        }
        Ok(placing)
    }

    /// Of values of a table of parts, whose columns are always the same.
    pub(super) fn of_parts(
        table: &Table,
        saved: &[u16],
        name: &TableName,
    ) -> Result<Self, SqlError> {
        let is_same = saved.iter().enumerate().all(|(at, id)| at == usize::from(*id));
        if is_same && saved.len() == table.columns.len() {
            Ok(Self::new(table, (0..saved.len()).map(Some).collect()))
        } else {
            Err(other(name))
        }
    }

    fn new(table: &Table, places: Vec<Option<usize>>) -> Self {
        let blank = vec![Value::Null; table.columns.len()];
        let in_order = places.iter().enumerate().all(|(at, place)| *place == Some(at));
        let is_same = in_order && places.len() == blank.len();
        Self { places, blank, is_same, references: None }
    }

    /// How many values a row has that was saved.
    pub(super) fn width(&self) -> usize {
        self.places.len()
    }

    /// A row of the table from the values that were saved.
    pub(super) fn placed(&self, row: Vec<Value>) -> Vec<Value> {
        let mut values = if self.is_same {
            row
        } else {
            let mut values = self.blank.clone();
            for (place, value) in self.places.iter().zip(row) {
                if let Some(at) = place {
                    values[*at] = value;
                }
            }
            values
        };
        if let Some((at, numbers)) = &self.references {
            let stored = std::mem::replace(&mut values[*at], Value::Null);
            values[*at] = large::renumbered(stored, |column| numbers.get(&column).copied());
        }
        values
    }
}

fn other(name: &TableName) -> SqlError {
    let name = name.full();
    failed(&format!("the rows of {name} in the backup are not those of its definition"))
}
