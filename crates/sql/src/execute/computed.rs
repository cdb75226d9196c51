//! Which rows of a computed table a query asks for, as far as its conditions say so.
//!
//! # Owns
//! From conditions on TABLE_SCHEMA and TABLE_NAME to [`Hints`]: who asks about one table has not to
//! wait until all others are listed and their rows counted.
//! # Guarantees
//! A hint leaves out no row for which all conditions hold.
//! # Not here
//! The conditions themselves: they are evaluated over the rows that come (`cursor`).

use sql_expression::{BinaryOp, Call, Comparison, Expression, Node, SqlError, Volatility};
use sqltype::Datum;

use super::run::Run;
use crate::catalog::system::NAMES_COLLATION;
use crate::information::virtual_table::Hints;
use crate::logical::formula::Formula;
use crate::plan::operator::VirtualScan;

/// What the conditions of a scan say about the rows wanted.
pub(super) async fn hints(run: &mut Run<'_>, scan: &VirtualScan) -> Result<Hints, SqlError> {
    Ok(Hints {
        database: name_in(run, scan, "TABLE_SCHEMA").await?,
        table: name_in(run, scan, "TABLE_NAME").await?,
    })
}

/// The only name that a column may have, if a condition says so.
async fn name_in(
    run: &mut Run<'_>,
    scan: &VirtualScan,
    column: &str,
) -> Result<Option<String>, SqlError> {
    let place = scan.table.columns.iter().position(|known| known.name == column);
    let Some(place) = place.map(|at| scan.offset + at) else { return Ok(None) };
    for condition in &scan.conditions {
        let Some(value) = equal_to(&condition.expression, place as u32) else { continue };
        let formula = Formula::new(value.clone());
        if let Datum::Bytes(name) = run.value(&formula, &[]).await? {
            return Ok(String::from_utf8(name.to_vec()).ok());
        }
    }
    Ok(None)
}

/// What the column at a place must equal, as names compare; nothing that rows decide.
fn equal_to(condition: &Expression, place: u32) -> Option<&Expression> {
    let Node::Compare(compare) = &condition.node else { return None };
    let alike = compare.comparison == Comparison::Text(NAMES_COLLATION);
    if compare.op != BinaryOp::Equal || !alike {
        return None;
    }
    let is_column =
        |of: &Expression| matches!(of.node, Node::Column { index, .. } if index == place);
    let (left, right) = (&compare.left, &compare.right);
    let other = match (is_column(left), is_column(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let known =
        matches!(other.node, Node::Constant(_) | Node::Parameter(_) | Node::UserVariable(_));
    // A function of the session, like DATABASE(), and none that is another for each row.
    let called =
        |call: &Call| call.arguments.is_empty() && call.function.volatility != Volatility::Row;
    let called = matches!(&other.node, Node::Call(call) if called(call));
    (known || called).then_some(other)
}
