//! The tables of FROM, and the tree of their joins, before operators are made of them.
//!
//! # Owns
//! [`FromTable`], [`JoinTree`].
//! # Not here
//! Names of tables and columns (`from`). The order of joins (`join`, `order`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use sql_expression::{Expression, Node, Pauses};
use wire::{LockMode, WaitPolicy};

use crate::catalog::TableDefinition;
use crate::information::virtual_table::VirtualTable;
use crate::logical::bound::BoundQuery;
use crate::logical::formula::Formula;
use crate::logical::known::Known;
use crate::logical::predicate::is_steady;

/// A table of FROM.
#[derive(Clone, Debug)]
pub(crate) struct FromTable {
    pub(crate) alias: String,
    pub(crate) offset: usize,
    pub(crate) columns: usize,
    pub(crate) source: Source,
    /// About how many rows it has, if that is known.
    pub(crate) rows: Option<u64>,
    /// How its values are distributed, if that is known.
    pub(crate) known: Option<Known>,
    pub(crate) lock: Option<(LockMode, WaitPolicy)>,
    /// A common table: how many blocks further out it was defined.
    pub(crate) out: usize,
    /// LATERAL: the tables of the block whose rows it sees.
    pub(crate) lateral: Option<BTreeSet<usize>>,
    /// It stands for a view, WITH CHECK OPTION or without.
    pub(crate) view: Option<bool>,
    /// What that asks of rows.
    pub(crate) check: Option<Rc<ViewCheck>>,
    /// Positions of columns that something uses.
    pub(crate) used: BTreeSet<usize>,
    /// FORCE and USE INDEX: only these; IGNORE INDEX: not these.
    pub(crate) only: Option<Vec<String>>,
    pub(crate) ignored: Vec<String>,
    /// They come of optimizer hints.
    pub(crate) is_hinted: bool,
    /// A query that the statement wants to be computed apart.
    pub(crate) is_apart: bool,
    /// The tables that the statement wants to be joined before it.
    pub(crate) after: BTreeSet<usize>,
}

impl FromTable {
    /// The places of the block's row that its columns have.
    pub(crate) fn places(&self) -> Range<usize> {
        self.offset..self.offset + self.columns
    }

    /// How many blocks lie between its block and what a query in its place sees: one to a LATERAL
    /// table, none to a derived table, which sees what its block sees, and to a common table as
    /// many fewer as lie between its definition and its use.
    pub(crate) fn blocks_between(&self) -> isize {
        match self.lateral {
            Some(_) => 1,
            None => -isize::try_from(self.out).unwrap_or(0),
        }
    }

    /// Whether the hints of the statement let an index be used.
    pub(crate) fn allows(&self, index: &str) -> bool {
        let named = |list: &Vec<String>| list.iter().any(|name| name.eq_ignore_ascii_case(index));
        self.only.as_ref().is_none_or(named) && !named(&self.ignored)
    }
}

/// Where its rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Table(Rc<TableDefinition>),
    Virtual(&'static VirtualTable),
    Derived(Rc<BoundQuery>),
}

/// The tree of joins, by numbers of tables.
#[derive(Clone, Debug)]
pub(crate) enum JoinTree {
    Table(usize),
    Inner { parts: Vec<JoinTree>, conditions: Vec<Expression> },
    Left { left: Box<JoinTree>, right: Box<JoinTree>, conditions: Vec<Expression> },
}

impl JoinTree {
    pub(crate) fn tables(&self, into: &mut BTreeSet<usize>) {
        match self {
            Self::Table(at) => {
                into.insert(*at);
            }
            Self::Inner { parts, .. } => parts.iter().for_each(|part| part.tables(into)),
            Self::Left { left, right, .. } => {
                left.tables(into);
                right.tables(into);
            }
        }
    }

    /// Whether a table is in it.
    pub(crate) fn has(&self, table: usize) -> bool {
        let mut tables = BTreeSet::new();
        self.tables(&mut tables);
        tables.contains(&table)
    }

    /// Calls `see` with each condition of joins.
    pub(crate) fn for_each_condition(&self, see: &mut dyn FnMut(&Expression)) {
        match self {
            Self::Table(_) => {}
            Self::Inner { parts, conditions } => {
                conditions.iter().for_each(&mut *see);
                parts.iter().for_each(|part| part.for_each_condition(see));
            }
            Self::Left { left, right, conditions } => {
                conditions.iter().for_each(&mut *see);
                left.for_each_condition(see);
                right.for_each_condition(see);
            }
        }
    }

    /// As [`JoinTree::for_each_condition`], to change them.
    pub(crate) fn for_each_condition_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        match self {
            Self::Table(_) => {}
            Self::Inner { parts, conditions } => {
                conditions.iter_mut().for_each(&mut *change);
                parts.iter_mut().for_each(|part| part.for_each_condition_mut(change));
            }
            Self::Left { left, right, conditions } => {
                conditions.iter_mut().for_each(&mut *change);
                left.for_each_condition_mut(change);
                right.for_each_condition_mut(change);
            }
        }
    }

    /// Gives its tables other numbers.
    pub(crate) fn renumber(&mut self, number: &dyn Fn(usize) -> usize) {
        match self {
            Self::Table(at) => *at = number(*at),
            Self::Inner { parts, .. } => parts.iter_mut().for_each(|part| part.renumber(number)),
            Self::Left { left, right, .. } => {
                left.renumber(number);
                right.renumber(number);
            }
        }
    }

    /// Puts a tree in the place of a table of which there are only rows that meet conditions: they
    /// become those of the join around it. What is left of them holds for all rows.
    pub(crate) fn put(&mut self, table: usize, tree: JoinTree, conditions: &mut Vec<Expression>) {
        match self {
            Self::Table(_) => *self = tree,
            Self::Inner { parts, conditions: on } => {
                if let Some(part) = parts.iter_mut().find(|part| part.has(table)) {
                    part.put(table, tree, conditions);
                    on.append(conditions);
                }
            }
            Self::Left { right, conditions: on, .. } if right.has(table) => {
                right.put(table, tree, conditions);
                on.append(conditions);
            }
            Self::Left { left, .. } => left.put(table, tree, conditions),
        }
    }
}

/// What WITH CHECK OPTION asks of rows.
#[derive(Clone, Debug)]
pub(crate) struct ViewCheck {
    /// The view, with its database.
    pub(crate) view: String,
    /// Over the columns of the table.
    pub(crate) conditions: Vec<Formula>,
}

/// The rows of tables, as far as they are known.
pub(crate) fn known_rows(tables: &[FromTable]) -> u64 {
    tables.iter().filter_map(|table| table.rows).fold(0, u64::saturating_add)
}

/// The tables of a block that an expression needs; all of them when that cannot be told.
pub(crate) fn tables_of(
    tables: &[FromTable],
    expression: &Expression,
    pauses: &Pauses,
) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut all = false;
    let mut parts = 0;
    expression.visit(&mut |part| {
        parts += 1;
        match &part.node {
            Node::Column { index, .. } => {
                needed.extend(number_at(tables, *index as usize));
            }
            Node::Subquery(subquery) if subquery.correlated => all = true,
            _ => {}
        }
    });
    // The callers ask for thousands of expressions; another pause tells them that they are to end.
    let _ = pauses.count(parts);
    if all { (0..tables.len()).collect() } else { needed }
}

/// The number of the table that has a column at this place of the block's row.
pub(crate) fn number_at(tables: &[FromTable], place: usize) -> Option<usize> {
    tables.iter().position(|table| table.places().contains(&place))
}

/// The table that has a column at this place of the block's row.
pub(crate) fn table_at(tables: &[FromTable], place: usize) -> Option<&FromTable> {
    number_at(tables, place).map(|at| &tables[at])
}

/// Whether it does not matter when and how often conditions of joins are evaluated.
pub(crate) fn is_steady_tree(tree: &JoinTree) -> bool {
    all_in_tree(tree, &is_steady)
}

/// Whether all conditions of joins are so.
pub(crate) fn all_in_tree(tree: &JoinTree, are: &dyn Fn(&Expression) -> bool) -> bool {
    let mut all = true;
    tree.for_each_condition(&mut |condition| all = all && are(condition));
    all
}

/// Whether an outer join may have no row of a table.
pub(crate) fn is_optional(tree: &JoinTree, at: usize) -> bool {
    match tree {
        JoinTree::Table(_) => false,
        JoinTree::Inner { parts, .. } => parts.iter().any(|part| is_optional(part, at)),
        JoinTree::Left { left, right, .. } => right.has(at) || is_optional(left, at),
    }
}
