//! Binding of LIMIT.

use sql_expression::{Binder, Clause, SqlError};
use sql_parser::ast::{self, Expr};

use crate::logical::formula::{Bounds, Formula};

/// LIMIT, bound.
pub(crate) fn bounds(
    binder: &mut Binder<'_, '_>,
    limit: Option<&ast::Limit>,
) -> Result<Option<Bounds>, SqlError> {
    let Some(limit) = limit else { return Ok(None) };
    let mut bind = |expr: &Expr| match expr {
        // Names are variables of stored routines here, never columns.
        Expr::Column(name) => Err(SqlError::of::<1327>(&[&name.column.as_str()])),
        _ => binder.bind(expr, Clause::Limit).map(Formula::new),
    };
    let count = Some(bind(&limit.count)?);
    let offset = limit.offset.as_ref().map(bind).transpose()?;
    Ok(Some(Bounds { count, offset }))
}
