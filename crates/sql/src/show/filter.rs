//! LIKE and WHERE of SHOW.
//!
//! # Owns
//! Which rows of a listing are kept.
//! # Not here
//! Binding and evaluation (`sql-expression`).

use std::sync::Arc;

use collation::CollationId;
use sql_expression::{
    Binder, Clause, ColumnName, ResultType, Scope, ScopeColumn, ScopeTable, SqlError,
};
use sql_parser::ast::{Expr, ShowFilter};
use sqltype::Datum;

use super::{Listing, Pattern};
use crate::catalog::constant::Constants;
use crate::session::Session;

/// The one name that a filter on names lets through, in which case counts.
pub(super) fn only(filter: &ShowFilter) -> Option<String> {
    let ShowFilter::Like(pattern) = filter else { return None };
    let mut name = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' | b'_' => return None,
            b'\\' => name.push(*bytes.next()?),
            other => name.push(*other),
        }
    }
    String::from_utf8(name).ok()
}

/// Keeps the rows that the filter lets through.
pub(super) fn apply(
    session: &Session,
    listing: &mut Listing,
    filter: &ShowFilter,
    pattern: Pattern,
) -> Result<(), SqlError> {
    match filter {
        ShowFilter::None => Ok(()),
        ShowFilter::Like(like) => {
            keep_like(listing, like, pattern);
            Ok(())
        }
        ShowFilter::Where(condition) => keep_where(session, listing, condition),
    }
}

fn keep_like(listing: &mut Listing, like: &[u8], pattern: Pattern) {
    let collation =
        if pattern.exact { CollationId::UTF8MB4_BIN } else { CollationId::UTF8MB4_GENERAL_CI };
    listing.rows.retain(|row| match &row[pattern.column] {
        Datum::Bytes(value) => collation::like(collation, value, like, Some('\\')),
        _ => false,
    });
    if pattern.named {
        let heading = &mut listing.columns[pattern.column].0;
        *heading = format!("{heading} ({})", String::from_utf8_lossy(like));
    }
}

/// Keeps the rows for which the condition is true; it names columns of the listing.
pub(super) fn keep_where(
    session: &Session,
    listing: &mut Listing,
    condition: &Expr,
) -> Result<(), SqlError> {
    let mut scope = Scope::new(None);
    let columns = listing.columns.iter().map(|(name, sql_type)| {
        let column = name.as_str().into();
        let name = ColumnName { schema: "".into(), table: "".into(), column };
        ScopeColumn::new(Arc::new(name), ResultType::column(sql_type.clone(), true))
    });
    scope.add(ScopeTable { columns: columns.collect(), ..ScopeTable::default() });
    let mut context = session.plain_context();
    let mut constants = Constants::of(&context);
    let bound = Binder::new(&scope, &mut constants).bind(condition, Clause::Where)?;
    let rows = std::mem::take(&mut listing.rows);
    for row in rows {
        if bound.truth(&row, &mut context)? == Some(true) {
            listing.rows.push(row);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_wildcards_is_a_name() {
        let like = |pattern: &str| only(&ShowFilter::Like(pattern.as_bytes().into()));
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(like("orders"), name("orders"));
        assert_eq!(like(r"a\_b\%"), name("a_b%"));
        assert_eq!((like("a_b"), like("a%"), like(r"a\")), (None, None, None));
        assert_eq!(only(&ShowFilter::None), None);
    }
}
