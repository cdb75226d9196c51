//! Common tables in sight: which of them a name means.
//!
//! # Owns
//! [`CommonTables`], with the table of WITH RECURSIVE that is being bound and sees itself.
//! # Not here
//! Binding them (`with`).

use std::rc::Rc;

use sql_expression::{Scope, SqlError};

use crate::logical::bound::{BoundQuery, Relation};

/// What names mean in FROM before they mean tables; the innermost is last.
#[derive(Default)]
pub(crate) struct CommonTables {
    list: Vec<CommonTable>,
}

struct CommonTable {
    name: String,
    kind: Kind,
    /// How many blocks stand around its definition.
    nesting: usize,
}

enum Kind {
    Bound(Rc<BoundQuery>),
    /// It is being bound, and sees itself.
    Working(Working),
}

/// A table of WITH RECURSIVE while it is bound.
#[derive(Default)]
pub(super) struct Working {
    /// The rows of the last round; none until the types of columns are known.
    pub(super) query: Option<Rc<BoundQuery>>,
    /// How deep in queries its parts stand.
    depth: usize,
    /// How often the part at hand refers to it.
    pub(super) references: u32,
}

/// A common table as a part of FROM.
pub(crate) struct CommonUse {
    pub(crate) query: Rc<BoundQuery>,
    /// How many blocks lie between its definition and the block that uses it.
    pub(crate) out: usize,
}

impl CommonTables {
    /// A mark to return to.
    pub(crate) fn mark(&self) -> usize {
        self.list.len()
    }

    /// Forgets what was defined since the mark.
    pub(crate) fn forget(&mut self, mark: usize) {
        self.list.truncate(mark);
    }

    /// Brings a bound table into sight, defined in a block with this parent.
    pub(super) fn add(&mut self, name: &str, query: Rc<BoundQuery>, parent: Option<&Scope<'_>>) {
        self.push(name, Kind::Bound(query), parent);
    }

    /// Brings a table into sight of its own parts, which stand at this depth of queries.
    pub(super) fn add_working(&mut self, name: &str, depth: usize, parent: Option<&Scope<'_>>) {
        self.push(name, Kind::Working(Working { depth, ..Working::default() }), parent);
    }

    fn push(&mut self, name: &str, kind: Kind, parent: Option<&Scope<'_>>) {
        self.list.push(CommonTable { name: name.to_owned(), kind, nesting: nesting(parent) });
    }

    /// The table that is being bound, which must be the innermost.
    pub(super) fn working(&mut self) -> Result<&mut Working, SqlError> {
        match self.list.last_mut().map(|table| &mut table.kind) {
            Some(Kind::Working(working)) => Ok(working),
            _ => Err(SqlError::internal("a recursion without its table")),
        }
    }

    /// The common table that a name means in a block with this scope, at this depth of queries.
    ///
    /// # Errors
    /// 3574 and 3577 if a table of WITH RECURSIVE is used where it cannot see itself.
    pub(super) fn find(
        &mut self,
        name: &str,
        scope: &Scope<'_>,
        depth: usize,
    ) -> Result<Option<CommonUse>, SqlError> {
        let mut tables = self.list.iter_mut().rev();
        let Some(table) = tables.find(|table| table.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let out = nesting(scope.parent).saturating_sub(table.nesting);
        let query: Rc<BoundQuery> = match &mut table.kind {
            Kind::Bound(query) => query.clone(),
            Kind::Working(working) => {
                working.references += 1;
                let single = working.references == 1 && working.depth == depth;
                match &working.query {
                    Some(query) if single => query.clone(),
                    Some(_) => return Err(SqlError::of::<3577>(&[&table.name])),
                    None => return Err(SqlError::of::<3574>(&[&table.name])),
                }
            }
        };
        Ok(Some(CommonUse { query, out }))
    }

    /// The name of the table that is being bound, if a query is its reference to itself.
    pub(super) fn work_table(&self, query: &BoundQuery) -> Option<&str> {
        let is_working = |table: &&CommonTable| matches!(table.kind, Kind::Working(_));
        let Relation::WorkTable { .. } = query.relation else { return None };
        self.list.iter().rev().find(is_working).map(|table| table.name.as_str())
    }
}

/// How many blocks stand around one whose parent this is.
fn nesting(parent: Option<&Scope<'_>>) -> usize {
    std::iter::successors(parent, |scope| scope.parent).count()
}
