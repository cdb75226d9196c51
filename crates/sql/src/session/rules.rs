//! By which rules a session's statement defines a table.

use sql_expression::SqlMode;
use sqltype::StoreMode;

use crate::catalog::rules::Rules;
use crate::session::Session;

/// The rules of a session's statement about a table.
pub(crate) fn of_statement<'a>(session: &Session, database: &'a str, table: &'a str) -> Rules<'a> {
    let mode = session.variables.sql_mode;
    let strict = mode.is_strict();
    let store = StoreMode {
        // A default that does not fit is refused in every mode.
        strict: true,
        no_zero_date: strict && mode.contains(SqlMode::NO_ZERO_DATE),
        no_zero_in_date: strict && mode.contains(SqlMode::NO_ZERO_IN_DATE),
        truncate_fractions: mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL),
    };
    Rules {
        database,
        table,
        from_catalog: false,
        ignores_promises: session.ignores_promises(),
        encrypted: session.shared.address.encrypted,
        strict,
        real_as_float: mode.contains(SqlMode::REAL_AS_FLOAT),
        store,
        context: session.plain_context(),
        notes: Vec::new(),
    }
}
