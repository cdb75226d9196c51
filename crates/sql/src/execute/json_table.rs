//! The rows that JSON_TABLE makes of a document.
//!
//! # Guarantees
//! Rows come in the order of the document. A row without rows of its nested paths shows NULL there;
//! of several nested paths each has rows of its own, in which the others are NULL.
//! # Limits
//! `nines_operator_memory`, as paths like `$**` can multiply rows.

use sql_expression::{SqlError, json_argument};
use sqltype::Datum;
use sqltype::json::Json;

use crate::execute::kept::Kept;
use crate::execute::run::Run;
use crate::logical::json_levels::{JsonColumn, JsonColumnKind, JsonTable, Level, Response};
use crate::logical::json_table::{Misfit, converted};
use crate::memory::Held;
use crate::rows::{Row, memory_of_row};

/// What errors say that too much of is kept.
const ROWS: &str = "the rows of JSON_TABLE";
/// Parts of expressions that take as long as a row.
const ROW_PARTS: u64 = 32;

/// The rows of a call.
pub(crate) async fn rows(run: &mut Run<'_>, table: &JsonTable) -> Result<Kept, SqlError> {
    let value = run.scalar(&table.document).await?;
    let of = &table.document.expression.result;
    let pauses = &run.session.pauses;
    let read = |look: &dyn Fn() -> bool| json_argument(&value, &of.sql_type, 1, "json_table", look);
    let Some(document) = pauses.looking(read)?? else {
        return Ok(Kept { rows: Vec::new(), held: run.hold(ROWS) });
    };
    let held = run.hold(ROWS);
    let mut maker = Maker { run, row: vec![Datum::Null; table.width], rows: Vec::new(), held };
    maker.level(&table.rows, &document)?;
    let Maker { rows, held, .. } = maker;
    run.worked(rows.len()).await?;
    Ok(Kept { rows, held })
}

/// Rows in the making.
struct Maker<'m, 's> {
    run: &'m Run<'s>,
    /// The row at hand: columns of levels that are not looked at are NULL.
    row: Row,
    rows: Vec<Row>,
    held: Held,
}

impl Maker<'_, '_> {
    /// Adds the rows of a level of paths below a value.
    fn level(&mut self, level: &Level, json: &Json) -> Result<(), SqlError> {
        for (number, item) in (1..).zip(level.path.seek(json)) {
            for column in &level.columns {
                self.row[column.place] = self.value(column, item, number)?;
            }
            let before = self.rows.len();
            for nested in &level.nested {
                self.level(nested, item)?;
            }
            if self.rows.len() == before {
                self.push()?;
            }
        }
        for column in &level.columns {
            self.row[column.place] = Datum::Null;
        }
        Ok(())
    }

    fn push(&mut self) -> Result<(), SqlError> {
        self.run.session.pauses.count(ROW_PARTS)?;
        self.held.add(memory_of_row(&self.row))?;
        self.rows.push(self.row.clone());
        Ok(())
    }

    /// The value of a column of the row of a value, which has this number in its level.
    fn value(&self, column: &JsonColumn, item: &Json, number: u64) -> Result<Datum, SqlError> {
        let (path, on_empty, on_error) = match &column.kind {
            JsonColumnKind::Ordinality => return Ok(Datum::UInt(number)),
            JsonColumnKind::Exists(path) => {
                let exists = Json::Int(path.first(item).is_some().into());
                return self.converted(&exists, column, &Response::Error);
            }
            JsonColumnKind::Value { path, on_empty, on_error } => (path, on_empty, on_error),
        };
        let found = path.seek(item);
        match found.as_slice() {
            [] => match on_empty {
                Response::Value(value) => Ok(value.clone()),
                Response::Error => Err(SqlError::of::<3665>(&[&column.name])),
            },
            // A path that can lead to several values gives an array of those it leads to.
            _ if path.has_wildcard() => {
                let all = Json::Array(found.into_iter().cloned().collect());
                self.converted(&all, column, on_error)
            }
            [first, ..] => self.converted(first, column, on_error),
        }
    }

    fn converted(
        &self,
        json: &Json,
        column: &JsonColumn,
        on_error: &Response,
    ) -> Result<Datum, SqlError> {
        let (facts, now) = (&self.run.context.facts, self.run.context.now);
        let row = self.rows.len() as u64 + 1;
        let misfit = match converted(json, &column.name, &column.sql_type, row, facts, now) {
            Ok(value) => return Ok(value),
            Err(misfit) => misfit,
        };
        match (on_error, misfit) {
            (Response::Value(value), _) => Ok(value.clone()),
            (Response::Error, Misfit::Structure) => Err(SqlError::of::<3666>(&[&column.name])),
            (Response::Error, Misfit::Problem(problem)) => Err(match problem.code {
                1264 | 1406 => SqlError::of::<3669>(&[&column.name]),
                _ => {
                    let kind = column.sql_type.sql_name();
                    SqlError::of::<3156>(&[&kind, &column.name, &row])
                }
            }),
        }
    }
}
