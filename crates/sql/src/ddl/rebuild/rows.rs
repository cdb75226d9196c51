//! The rows of the new table, made of those of the old one.
//!
//! # Owns
//! What becomes of each column, and what is counted on the way: rows, and the largest values that
//! the sequence of the new table has to be beyond.
//! # Not here
//! Reading and writing them (`rebuild`, `online`), making values fit (`execute::row`).

use std::rc::Rc;

use model::Value;
use sql_expression::{SqlError, SqlMode};
use sqltype::{Datum, SqlType, TypeKind};

use super::super::altered::Altered;
use super::super::change::is_value_kept;
use crate::catalog::default::implicit_default;
use crate::catalog::{ColumnDefault, ColumnDefinition, TableDefinition, same_name};
use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::execute::scan::datum_of;
use crate::session::Session;

/// A copy under way.
pub(super) struct Copy<'a> {
    pub(super) altered: &'a Altered,
    pub(super) definition: Rc<TableDefinition>,
    pub(super) maker: RowMaker,
    /// Rows that the new table has.
    pub(super) records: u64,
    /// Rows keep their primary keys, also those that the kernel has given them.
    pub(super) keeps_keys: bool,
    /// The largest value of the AUTO_INCREMENT column, or of the hidden key that is kept, so far.
    largest: u64,
    /// Positions of the foreign keys that the table has already.
    pub(super) known: Vec<usize>,
}

/// A row of the new table, and its values as they are stored.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) row: Vec<Datum>,
    pub(super) values: Vec<Value>,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        altered: &'a Altered,
        definition: Rc<TableDefinition>,
        maker: RowMaker,
    ) -> Self {
        let largest = definition.sequence_start() - 1;
        let foreign_keys = definition.foreign_keys.iter().enumerate();
        let has =
            |name: &str| altered.old.foreign_keys.iter().any(|key| same_name(&key.name, name));
        let known = foreign_keys.filter(|(_, key)| has(&key.name)).map(|(at, _)| at).collect();
        Self { altered, definition, maker, records: 0, keeps_keys: false, largest, known }
    }

    /// The new row that an old one becomes.
    pub(super) async fn made(
        &mut self,
        run: &mut Run<'_>,
        old: Vec<Value>,
    ) -> Result<Made, SqlError> {
        let definition = self.definition.clone();
        let mut row = vec![Datum::Null; definition.columns.len()];
        // An expression as default may read any other column.
        let is_last = |at: &usize| {
            let default = &definition.columns[*at].default;
            self.altered.origins[*at].is_none() && matches!(default, ColumnDefault::Expression(_))
        };
        let all = 0..definition.columns.len();
        let (last, first): (Vec<usize>, Vec<usize>) = all.partition(is_last);
        for at in first.into_iter().chain(last) {
            let column = &definition.columns[at];
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
        if self.keeps_keys
            && let (Some(before), Some(after)) =
                (self.altered.old.hidden_key, definition.hidden_key)
        {
            let key = &old[usize::from(before.0)];
            values[usize::from(after.0)] = key.clone();
            if let Value::UInt(key) = key {
                self.largest = self.largest.max(*key);
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
        if is_value_kept(before, column) {
            Ok(datum)
        } else {
            self.maker.store(run, at, datum, &before.sql_type)
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
            let (name, number) = (&column.name, run.context.row_number);
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
        let mode = run.context.facts.sql_mode;
        let keeps_zero = self.keeps_keys || mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO);
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
                            column.name, run.context.row_number
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

    /// The new table goes on counting where the old one was.
    pub(super) async fn carry_sequence(&self, session: &Session) -> Result<(), SqlError> {
        let (old, new) = (&self.altered.old, &self.definition);
        let wanted = self.altered.auto_increment.unwrap_or(0);
        let mut last = self.largest.max(wanted.saturating_sub(1));
        if new.hidden_key.is_some() && !self.keeps_keys {
            last = last.max(self.records);
        }
        let sequences = session.shared.sequences.clone();
        let keeps_hidden = self.keeps_keys && new.hidden_key.is_some();
        if keeps_hidden || new.auto_increment().is_some() && old.auto_increment().is_some() {
            let start = old.sequence_start();
            let next = sequences.peek(&session.kernel, old.table.id, start).await?;
            last = last.max(next.saturating_sub(1));
        }
        if last > 0 {
            sequences.raise(&session.kernel, new.table.id, last, new.sequence_start()).await?;
        }
        Ok(())
    }
}
