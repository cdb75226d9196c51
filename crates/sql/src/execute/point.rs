//! Statements on one row by primary key: no operators, one request, rows written straight.
//!
//! # Owns
//! Which statements are such, and running them: queries here, changes in [`change`].
//! # Guarantees
//! They answer as the general way does; where that cannot be told beforehand (a key of another type
//! than its column, a table with generated columns) the general way is taken.

pub(crate) mod change;

use model::Value;
use sql_expression::{Expression, Node, SqlError};
use sqltype::Datum;

use crate::access::{Reader, Values};
use crate::execute::key::{KeyValue, key_value};
use crate::execute::run::Run;
use crate::execute::scan::{datum_of, reader_of};
use crate::kernel::Failure;
use crate::plan::operator::{AccessPath, Operator, QueryPlan, TableScan};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;

/// SELECT of columns of one row by primary key.
#[derive(Debug)]
pub(crate) struct PointSelect {
    columns: Vec<ResultColumn>,
    scan: TableScan,
    /// For each column of the result which of the fetched ones it is.
    picked: Vec<usize>,
}

/// The point form of a plan, if it has one.
pub(crate) fn select(plan: &QueryPlan) -> Option<PointSelect> {
    let Operator::Project { input, expressions } = &plan.root else { return None };
    let Operator::Scan(scan) = &**input else { return None };
    let AccessPath::Primary { keys } = &scan.path else { return None };
    let exact = is_exact(scan, &keys.first().filter(|_| keys.len() == 1)?[..]);
    if !exact || scan.lock.is_some() || plan.counts_found_rows {
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
        definition: scan.definition.clone(),
        alias: scan.alias.clone(),
        offset: 0,
        width: scan.definition.columns.len(),
        wanted: scan.wanted.clone(),
        path: scan.path.clone(),
        conditions: Vec::new(),
        lock: None,
        limit: None,
        ordered: None,
        covered: false,
        found: 1.0,
        usable: 0,
        hidden: None,
    };
    Some(PointSelect { columns: plan.columns.clone(), scan, picked: picked? })
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
        let mut run = Run::new(session, &[]);
        let mut found = match reader_of(&mut run, &self.scan).await {
            Ok(reader) => row_of(&reader, key).await.map_err(SqlError::from),
            Err(error) => Err(error),
        };
        let row: Option<Vec<Datum>> = found.as_mut().ok().and_then(|found| {
            let mut values = found.take()?;
            let pick = |(number, at): (usize, &usize)| {
                let sql_type = &definition.columns[self.scan.wanted[*at]].sql_type;
                // The last use of a value takes it: it may be a large one.
                let value = match self.picked[number + 1..].contains(at) {
                    true => values[*at].clone(),
                    false => std::mem::replace(&mut values[*at], Value::Null),
                };
                datum_of(value, sql_type, &run)
            };
            Some(self.picked.iter().enumerate().map(pick).collect())
        });
        run.finish();
        found?;
        out.columns(&self.columns);
        session.found_rows = row.is_some().into();
        if let Some(row) = row {
            out.row(&row);
        }
        Ok(Some(Outcome::Rows))
    }

    fn nothing(&self, session: &mut Session, out: &mut ResultWriter) -> Outcome {
        out.columns(&self.columns);
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
        match key_value(datum, &of.sql_type) {
            KeyValue::Exact(value) => key.push(value),
            KeyValue::NoMatch => return StoredKey::NoRow,
            KeyValue::Unusable => return StoredKey::Unusable,
        }
    }
    StoredKey::Known(key)
}
