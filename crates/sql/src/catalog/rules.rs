//! By what the definition of a table is judged.

use std::sync::Arc;

use sql_expression::{EvalContext, SessionFacts, SqlError};
use sqltype::StoreMode;

use crate::error::unkept_promise;

/// By what a definition is judged.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    /// The database the table is in.
    pub(crate) database: &'a str,
    /// The table's name.
    pub(crate) table: &'a str,
    /// The text was checked when it was stored: nothing is implied or noted any more.
    pub(crate) from_catalog: bool,
    /// What promises something that nothing keeps is noted and not refused.
    pub(crate) ignores_promises: bool,
    /// What is written to disk is encrypted.
    pub(crate) encrypted: bool,
    /// STRICT_TRANS_TABLES or STRICT_ALL_TABLES.
    pub(crate) strict: bool,
    /// REAL_AS_FLOAT.
    pub(crate) real_as_float: bool,
    /// How values of defaults are judged.
    pub(crate) store: StoreMode,
    /// For the values of literals: the connection's collation, the time zone.
    pub(crate) context: EvalContext,
    /// Warnings so far.
    pub(crate) notes: Vec<SqlError>,
}

impl<'a> Rules<'a> {
    /// The rules for what the catalog keeps.
    pub(crate) fn of_catalog(database: &'a str, table: &'a str) -> Self {
        Self {
            database,
            table,
            from_catalog: true,
            ignores_promises: true,
            encrypted: true,
            strict: false,
            real_as_float: false,
            store: StoreMode {
                no_zero_date: false,
                no_zero_in_date: false,
                ..StoreMode::default()
            },
            context: EvalContext::new(Arc::new(SessionFacts::new()), 0, 0),
            notes: Vec::new(),
        }
    }

    /// Refuses what promises something that nothing keeps, or notes it.
    pub(crate) fn promised(&mut self, what: &str, why: &str) -> Result<(), SqlError> {
        let refusal = unkept_promise(what, why);
        if !self.ignores_promises {
            return Err(refusal);
        }
        self.note(refusal);
        Ok(())
    }

    /// Adds a warning.
    pub(crate) fn note(&mut self, note: SqlError) {
        if !self.from_catalog {
            self.notes.push(note);
        }
    }
}
