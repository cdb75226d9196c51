//! What optimizer hints do to the tables of a query block.
//!
//! # Owns
//! The search for the tables and indexes that hints name; indexes that may be used; which tables
//! are to be joined before which, also by STRAIGHT_JOIN; which queries are computed apart.
//! # Guarantees
//! A hint changes how rows are found, never which.

use std::collections::BTreeSet;

use sql_expression::same_name;

use crate::hint::{BlockHints, Subject, TableHint};
use crate::logical::binder::QueryBinder;
use crate::logical::from_table::{FromTable, Source};

impl QueryBinder<'_> {
    /// Makes the hints for a block count, whose tables these are.
    pub(super) fn apply_hints(&self, block: u32, tables: &mut [FromTable]) {
        for table in tables.iter_mut() {
            if let Source::Derived(_) = &table.source {
                table.is_apart = !self.may_merge(block, &table.alias);
            }
        }
        let Some(hints) = self.block_hints(block) else { return };
        for hint in &hints.hints {
            match &hint.subject {
                Subject::Block => {}
                Subject::Table(name) => {
                    if find(tables, name).is_none() {
                        self.session.warn_of_hint(hints.unresolved(hint.name, name, None));
                    }
                }
                Subject::Indexes(name, indexes) => {
                    self.apply_to_indexes(hints, hint, name, indexes, tables);
                }
                Subject::Order(names) => {
                    for name in names.iter().filter(|name| find(tables, name).is_none()) {
                        self.session.warn_of_hint(hints.unresolved(hint.name, name, None));
                    }
                    let places: Option<Vec<usize>> =
                        names.iter().map(|name| find(tables, name)).collect();
                    if let Some(places) = places {
                        apply_order(hint.name, &places, tables);
                    }
                }
            }
        }
    }

    fn block_hints(&self, block: u32) -> Option<&BlockHints> {
        self.hints.as_ref()?.block(block)
    }

    /// Whether a query in FROM may become a part of its block: MERGE and NO_MERGE come before what
    /// `optimizer_switch` says.
    pub(super) fn may_merge(&self, block: u32, alias: &str) -> bool {
        let said = self.block_hints(block).and_then(|of| of.says("MERGE", "NO_MERGE", alias));
        said.unwrap_or(self.session.merges_derived())
    }

    fn apply_to_indexes(
        &self,
        hints: &BlockHints,
        hint: &TableHint,
        name: &str,
        indexes: &[String],
        tables: &mut [FromTable],
    ) {
        let found = find(tables, name).map(|at| &mut tables[at]);
        let definition = match found.as_ref().map(|table| &table.source) {
            Some(Source::Table(definition)) => Some(definition.clone()),
            Some(_) => None,
            None => {
                self.session.warn_of_hint(hints.unresolved(hint.name, name, None));
                None
            }
        };
        let is_known = |index: &&String| {
            definition.as_ref().is_some_and(|definition| definition.key(index).is_some())
        };
        for index in indexes.iter().filter(|index| !is_known(index)) {
            self.session.warn_of_hint(hints.unresolved(hint.name, name, Some(index)));
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

/// Has the tables joined in the order in which they are written.
pub(super) fn fix_order(tables: &mut [FromTable]) {
    for (at, table) in tables.iter_mut().enumerate() {
        table.after = (0..at).collect();
    }
}

/// A hint about the order of tables, unless it asks for what cannot be.
fn apply_order(hint: &str, places: &[usize], tables: &mut [FromTable]) {
    if hint == "JOIN_FIXED_ORDER" {
        return fix_order(tables);
    }
    let mut pairs: Vec<(usize, usize)> = places.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let others = (0..tables.len()).filter(|at| !places.contains(at));
    match (hint, places.first(), places.last()) {
        ("JOIN_PREFIX", _, Some(last)) => pairs.extend(others.map(|at| (*last, at))),
        ("JOIN_SUFFIX", Some(first), _) => pairs.extend(others.map(|at| (at, *first))),
        _ => {}
    }
    let mut after: Vec<BTreeSet<usize>> = tables.iter().map(|table| table.after.clone()).collect();
    for (before, behind) in pairs {
        after[behind].insert(before);
    }
    if has_order(&after) {
        for (table, after) in tables.iter_mut().zip(after) {
            table.after = after;
        }
    }
}

/// Whether tables can be joined so that each comes after those that it must.
fn has_order(after: &[BTreeSet<usize>]) -> bool {
    let mut done = BTreeSet::new();
    let ready =
        |at: &usize, done: &BTreeSet<usize>| !done.contains(at) && after[*at].is_subset(done);
    while let Some(next) = (0..after.len()).find(|at| ready(at, &done)) {
        done.insert(next);
    }
    done.len() == after.len()
}

/// Before a table gives way to those of its query, which are going to stand in other places.
pub(super) fn renumber(
    tables: &mut [FromTable],
    at: usize,
    inner: &mut [FromTable],
    place: impl Fn(usize) -> usize,
) {
    let outer = tables[at].after.clone();
    for table in &mut *inner {
        let own = table.after.iter().map(|at| place(*at));
        table.after = own.chain(outer.iter().copied()).collect();
    }
    for table in tables.iter_mut().filter(|table| table.after.contains(&at)) {
        table.after.extend((0..inner.len()).map(&place));
    }
}

/// The table of a name, which is its alias if it has one.
fn find(tables: &[FromTable], name: &str) -> Option<usize> {
    tables.iter().position(|table| same_name(&table.alias, name))
}
