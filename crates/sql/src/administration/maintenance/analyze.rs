//! ANALYZE TABLE: how values are distributed, and the histograms that users ask for.
//!
//! # Guarantees
//! What was found out is kept in the cluster when the statement answers: other SQL nodes plan by it
//! some seconds later at the latest. Nobody who reads or changes the table waits for it.
//! # Not here
//! The sample (`statistics::sample`), and when tables are sampled without being asked for
//! (`statistics::task`).

use sql_expression::SqlError;
use sql_parser::ast::{Histogram, Ident, TableMaintenance};
use sqltype::{Datum, SqlType};

use crate::catalog::{TableDefinition, same_name};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;
use crate::statistics::values::BUCKETS_MAX;
use crate::statistics::{sample, store};

/// Buckets of a histogram, if the statement does not say how many.
const BUCKETS_DEFAULT: u64 = 100;

/// A line of the answer: its kind and its text.
type Line = (&'static str, String);

/// Runs the statement.
pub(super) async fn run(
    session: &mut Session,
    statement: &TableMaintenance,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    if let Some(Histogram { data: Some(_), .. }) = &statement.histogram {
        return Err(SqlError::not_supported("ANALYZE TABLE … USING DATA"));
    }
    let buckets = statement.histogram.as_ref().and_then(|of| of.buckets).unwrap_or(BUCKETS_DEFAULT);
    if !(1..=BUCKETS_MAX as u64).contains(&buckets) {
        return Err(SqlError::of::<1690>(&[&"Number of buckets", &"ANALYZE TABLE"]));
    }
    let columns = ["Table", "Op", "Msg_type", "Msg_text"];
    out.columns(&columns.map(|name| ResultColumn::new(name, SqlType::text(512))));
    let operation = if statement.histogram.is_some() { "histogram" } else { "analyze" };
    let several = statement.histogram.is_some() && statement.tables.len() > 1;
    for name in &statement.tables {
        let full = session.full_name(name)?;
        let lines = match session.definition(name) {
            _ if several => {
                let text = "Only one table can be specified while modifying histogram statistics.";
                vec![("Error", text.to_owned())]
            }
            Ok(definition) => analyze(session, &definition, statement, buckets as u16).await,
            Err(error) => vec![("Error", error.message().to_owned())],
        };
        for (kind, text) in lines {
            out.row(&[full.as_str(), operation, kind, &text].map(Datum::text));
        }
        out.drain().await;
        if several {
            break;
        }
    }
    Ok(Outcome::Rows)
}

/// What the statement says of one table.
async fn analyze(
    session: &mut Session,
    definition: &TableDefinition,
    statement: &TableMaintenance,
    buckets: u16,
) -> Vec<Line> {
    match change(session, definition, statement.histogram.as_ref(), buckets).await {
        Ok(lines) => lines,
        Err(error) => vec![("Error", error.message().to_owned())],
    }
}

async fn change(
    session: &mut Session,
    definition: &TableDefinition,
    histogram: Option<&Histogram>,
    buckets: u16,
) -> Result<Vec<Line>, SqlError> {
    let kernel = session.kernel.clone();
    let table = &definition.table;
    let known = store::read(&kernel, &[table.id]).await?.pop().flatten();
    let asked_before = |column| {
        let columns = known.as_ref().map_or(&[][..], |known| &known.columns[..]);
        columns.iter().find(|of| of.column == column)?.asked
    };
    let (mut lines, mut changed) = (Vec::new(), Vec::new());
    for name in histogram.map_or(&[][..], |histogram| &histogram.columns[..]) {
        let drop = histogram.is_some_and(|histogram| histogram.drop);
        match column(definition, name, drop) {
            Ok(column) if drop && asked_before(column).is_none() => {
                let text = format!("No histogram statistics found for column '{name}'.");
                lines.push(("Error", text));
            }
            Ok(column) => {
                let done = if drop { "removed" } else { "created" };
                let text = format!("Histogram statistics {done} for column '{name}'.");
                lines.push(("status", text));
                changed.push((column, (!drop).then_some(buckets)));
            }
            Err(line) => lines.push(line),
        }
    }
    if histogram.is_some() && changed.is_empty() {
        return Ok(lines);
    }
    let asked = |column| {
        let now = changed.iter().find(|(of, _)| *of == column);
        now.map_or_else(|| asked_before(column), |(_, asked)| *asked)
    };
    let now = session.statement_time.max(0) as u64;
    let values = sample::analyze(&kernel, definition, &asked, (now, false)).await?;
    if !session.is_temporary(table.id) {
        store::put(&kernel, table.id, &values).await?;
    }
    session.shared.statistics.set_values(table, Some(values));
    if histogram.is_none() {
        lines.push(("status", "OK".to_owned()));
    }
    Ok(lines)
}

/// The column of a histogram, or why it has none.
fn column(definition: &TableDefinition, name: &Ident, drop: bool) -> Result<model::ColumnId, Line> {
    let error = |text: String| Err(("Error", text));
    let found = definition.columns.iter().position(|column| same_name(&column.name, name.as_str()));
    let Some(at) = found.filter(|at| definition.columns[*at].hidden.is_none()) else {
        return error(format!("The column '{name}' does not exist."));
    };
    let column = definition.columns[at].column;
    if !sample::described(definition).any(|of| of == column) {
        return error(format!("The column '{name}' has an unsupported data type."));
    }
    let is_whole_key = |key: &&crate::catalog::KeyDefinition| {
        key.is_unique() && key.columns.len() == 1 && key.columns[0].declared == at
    };
    if !drop && definition.keys.iter().any(|key| is_whole_key(&key)) {
        return error(format!("The column '{name}' is covered by a single-part unique index."));
    }
    Ok(column)
}
