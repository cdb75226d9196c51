//! What optimizer hints do to the tables of a query block.
//!
//! # Owns
//! The search for the tables and indexes that hints name; indexes that may be used.
//! # Guarantees
//! A hint changes how rows are found, never which.

use sql_expression::{SqlError, same_name};

use crate::hint::{BlockHints, Subject, TableHint};
use crate::plan::Planner;
use crate::plan::join::{FromTable, Source};

impl Planner<'_> {
    /// Makes the hints for a block count, whose tables these are.
    pub(super) fn apply_hints(&self, block: u32, tables: &mut [FromTable]) {
        let Some(hints) = self.hints.as_ref().and_then(|hints| hints.block(block)) else { return };
        for hint in &hints.hints {
            match &hint.subject {
                Subject::Block => {}
                Subject::Table(name) => {
                    if find(tables, name).is_none() {
                        self.warn_of_hint(hints.unresolved(hint.name, name, None));
                    }
                }
                Subject::Indexes(name, indexes) => {
                    self.apply_to_indexes(hints, hint, (name, indexes), tables);
                }
                Subject::Order(names) => {
                    for name in names.iter().filter(|name| find(tables, name).is_none()) {
                        self.warn_of_hint(hints.unresolved(hint.name, name, None));
                    }
                }
            }
        }
    }

    /// Keeps a warning for the end of the statement. A block may be planned more than once.
    fn warn_of_hint(&self, warning: SqlError) {
        let mut warnings = self.session.hint_warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    fn apply_to_indexes(
        &self,
        hints: &BlockHints,
        hint: &TableHint,
        (name, indexes): (&str, &[String]),
        tables: &mut [FromTable],
    ) {
        let found = find(tables, name).map(|at| &mut tables[at]);
        let definition = match found.as_ref().map(|table| &table.source) {
            Some(Source::Table(definition)) => Some(definition.clone()),
            Some(_) => None,
            None => {
                self.warn_of_hint(hints.unresolved(hint.name, name, None));
                None
            }
        };
        let is_known = |index: &&String| {
            definition.as_ref().is_some_and(|definition| definition.key(index).is_some())
        };
        for index in indexes.iter().filter(|index| !is_known(index)) {
            self.warn_of_hint(hints.unresolved(hint.name, name, Some(index)));
        }
        let known: Vec<String> = indexes.iter().filter(is_known).cloned().collect();
        // None of the indexes that it names: as if it were not there.
        let is_empty = known.is_empty() && !indexes.is_empty();
        let Some(table) = found.filter(|_| definition.is_some() && !is_empty) else { return };
        let is_of_choice = hint.name.ends_with("INDEX");
        if !is_of_choice {
            return;
        }
        if !table.is_hinted {
            // USE, FORCE and IGNORE INDEX do not count beside such hints.
            (table.is_hinted, table.only) = (true, None);
            table.ignored.clear();
        }
        match (hint.name.starts_with("NO_"), known.is_empty()) {
            (true, true) => table.only = Some(Vec::new()),
            (true, false) => table.ignored.extend(known),
            // Any index.
            (false, true) => {}
            (false, false) => table.only.get_or_insert_default().extend(known),
        }
    }
}

/// The table of a name, which is its alias if it has one.
fn find(tables: &[FromTable], name: &str) -> Option<usize> {
    tables.iter().position(|table| same_name(&table.alias, name))
}
