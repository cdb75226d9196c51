//! Statements on one row by primary key: no operators, one request, rows written straight.
//!
//! # Owns
//! Which statements are such, and running them: queries here, changes in [`change`].
//! # Guarantees
//! They answer as the general way does; where that cannot be told beforehand (a key of another type
//! than its column, a table with generated columns) the general way is taken.

pub(crate) mod change;

use client::{ClientRead, ReadKey};
use model::Value;
use sql_expression::{Expression, Node, SqlError};
use sqltype::Datum;
use wire::Projection;

use crate::access::{ReadMode, Reader, Values};
use crate::catalog::key_value::{KeyValue, key_value};
use crate::execute::scan::{local_datum, read_mode};
use crate::kernel::Failure;
use crate::plan::operator::{AccessPath, Operator, QueryPlan, TableScan};
use crate::plan::operator_id::IdSlot;
use crate::result::{KeptColumns, Outcome, ResultWriter};
use crate::session::Session;

/// SELECT of columns of one row by primary key.
#[derive(Debug)]
pub(crate) struct PointSelect {
    columns: KeptColumns,
    scan: TableScan,
    /// What is read of the row.
    projection: Projection,
    /// For each column of the result which of the fetched ones it is.
    picked: Vec<usize>,
}

/// The point form of a plan, if it has one.
pub(crate) fn select(plan: &QueryPlan) -> Option<PointSelect> {
    let Operator::Project { input, expressions } = &plan.root.operator else { return None };
    let Operator::Scan(scan) = &input.operator else { return None };
    let AccessPath::Primary { keys } = &scan.path else { return None };
    let exact = is_exact(scan, &keys.first().filter(|_| keys.len() == 1)?[..]);
    if !exact || plan.counts_found_rows {
        return None;
    }
    let picked: Option<Vec<usize>> = expressions
        .iter()
        .map(|formula| {
            let place = formula.expression.as_column()? as usize;
            let at = place.checked_sub(scan.offset)?;
            scan.wanted.iter().position(|wanted| *wanted == at)
        })
        .collect();
    let scan = TableScan {
        slot: IdSlot::default(),
        definition: scan.definition.clone(),
        alias: scan.alias.clone(),
        offset: 0,
        width: scan.definition.columns.len(),
        wanted: scan.wanted.clone(),
        path: scan.path.clone(),
        distribution: None,
        conditions: Vec::new(),
        lock: scan.lock,
        limit: None,
        ordered: None,
        covered: false,
        found: 1.0,
        usable: 0,
        allowed: 0,
        hidden: None,
    };
    let projection = scan.projection();
    let columns = KeptColumns::new(plan.columns.clone());
    Some(PointSelect { columns, scan, projection, picked: picked? })
}

/// Whether the conditions say nothing but `key = value`, with values that are known at once.
fn is_exact(scan: &TableScan, keys: &[Expression]) -> bool {
    let simple = |value: &Expression| matches!(value.node, Node::Constant(_) | Node::Parameter(_));
    scan.conditions.len() == keys.len() && keys.iter().all(simple)
}

impl PointSelect {
    /// Runs it; `None` when the values at hand need the general way.
    pub(crate) async fn run(
        &self,
        session: &mut Session,
        parameters: &[Datum],
        out: &mut ResultWriter,
    ) -> Result<Option<Outcome>, SqlError> {
        let definition = &self.scan.definition;
        let key = match stored_key(&self.scan, parameters) {
            StoredKey::Known(key) => key,
            StoredKey::NoRow => return Ok(Some(self.nothing(session, out))),
            StoredKey::Unusable => return Ok(None),
        };
        let found = self.read(session, key).await?;
        let time_zone = &session.variables.time_zone;
        let row: Option<Vec<Datum>> = found.map(|mut values| {
            let pick = |(number, at): (usize, &usize)| {
                let sql_type = &definition.columns[self.scan.wanted[*at]].sql_type;
                // The last use of a value takes it: it may be a large one.
                let value = if self.picked[number + 1..].contains(at) {
                    values[*at].clone()
                } else {
                    std::mem::replace(&mut values[*at], Value::Null)
                };
                local_datum(value, sql_type, time_zone)
            };
            self.picked.iter().enumerate().map(pick).collect()
        });
        out.kept_columns(&self.columns);
        session.found_rows = row.is_some().into();
        if let Some(row) = row {
            out.row(&row);
        }
        Ok(Some(Outcome::Rows))
    }

    /// The row with a key: straight from a replica, but for what the transaction has changed or
    /// locks, and for values that lie elsewhere.
    async fn read(&self, session: &mut Session, key: Values) -> Result<Option<Values>, SqlError> {
        let mode = read_mode(session, &self.scan).await?;
        let table = &self.scan.definition.table;
        let snapshot = match mode {
            ReadMode::Committed => Some(None),
            ReadMode::Snapshot(at) => Some(Some(at)),
            ReadMode::Own | ReadMode::Overlay(_) | ReadMode::Locking(..) | ReadMode::Guarded(_) => {
                None
            }
        };
        let projection = self.projection.clone();
        if let (Some(snapshot), None) = (snapshot, &table.large) {
            let read = ClientRead { table: table.id, key: ReadKey::Primary(key), projection };
            return Ok(session.kernel.read(vec![read], snapshot).await?.pop().flatten());
        }
        let (kernel, table) = (session.kernel.clone(), table.clone());
        let reader = Reader { kernel, table, mode, projection };
        // Apart, as most reads need no room for it.
        Ok(Box::pin(row_of(&reader, key)).await?)
    }

    fn nothing(&self, session: &mut Session, out: &mut ResultWriter) -> Outcome {
        out.kept_columns(&self.columns);
        session.found_rows = 0;
        Outcome::Rows
    }
}

/// The whole row with a primary key.
async fn row_of(reader: &Reader, key: Values) -> Result<Option<Values>, Failure> {
    let found = reader.by_primary_key(vec![key]).await?.into_iter().flatten().collect();
    let completed = reader.complete(found).await?.into_iter().next();
    Ok(completed.and_then(|completed| completed.values))
}

/// What the key of a statement on one row came to.
enum StoredKey {
    /// As the kernel stores it.
    Known(Vec<Value>),
    /// No row can have it.
    NoRow,
    /// Only the general way can tell.
    Unusable,
}

/// The key that an exact scan asks for.
fn stored_key(scan: &TableScan, parameters: &[Datum]) -> StoredKey {
    let AccessPath::Primary { keys } = &scan.path else { return StoredKey::Unusable };
    let definition = &scan.definition;
    let mut key = Vec::with_capacity(keys[0].len());
    for (value, column) in keys[0].iter().zip(&definition.table.primary_key) {
        let datum = match &value.node {
            Node::Constant(datum) => Some(datum),
            Node::Parameter(number) => parameters.get(*number as usize),
            _ => None,
        };
        let of = definition.columns.iter().find(|c| c.column == *column);
        let (Some(datum), Some(of)) = (datum, of) else { return StoredKey::Unusable };
        if datum.is_null() {
            return StoredKey::NoRow;
        }
        match key_value(datum, value.sql_type(), &of.sql_type) {
            KeyValue::Exact(value) => key.push(value),
            KeyValue::NoMatch => return StoredKey::NoRow,
            KeyValue::Unusable => return StoredKey::Unusable,
        }
    }
    StoredKey::Known(key)
}
