//! Names: which tables and columns an expression can see.
//!
//! # Owns
//! [`Scope`]: the tables of one query block with the enclosing ones behind it, and the rules by
//! which a name finds its column; the aggregates of the block, which its subqueries may ask it for.
//! # Guarantees
//! A name means the column MySQL means by it, or gives MySQL's error: 1052, 1054.
//! # Not here
//! What tables there are: the planner fills the scope from FROM.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use sql_parser::ast::ColumnRef;
use sqltype::Datum;

use crate::aggregate::AggregateCall;
use crate::binder::{BoundSubquery, Output};
use crate::error::SqlError;
use crate::expression::{ColumnName, Expression, Node, SubqueryId};
use crate::result_type::ResultType;

/// The tables of a query block. Their columns, one after the other, are the block's row.
#[derive(Debug, Default)]
pub struct Scope<'a> {
    /// The tables of FROM, in order.
    pub tables: Vec<ScopeTable>,
    /// The query block around this one.
    pub parent: Option<&'a Scope<'a>>,
    /// Columns of enclosing blocks that this one uses.
    outer: RefCell<Vec<OuterColumn>>,
    /// The aggregates of the block, those met inside its subqueries included.
    aggregates: RefCell<Vec<AggregateCall>>,
    /// How often subqueries have asked for an aggregate of the block.
    asked: Cell<u32>,
    /// The subqueries of the block that use its aggregates, themselves or further inside.
    of_groups: RefCell<Vec<SubqueryId>>,
    /// Whether aggregates of the subquery that is bound now can be this block's.
    hosting: Cell<Hosting>,
    /// What the subquery that is bound now may name of the select list.
    listed: RefCell<Vec<Output>>,
    /// How many blocks further out the nearest column is that was found since this was reset.
    nearest: Cell<u16>,
}

/// Whether aggregates can be a block's, at the place of it that is bound now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hosting {
    /// Not there: WHERE, for example.
    #[default]
    Never,
    /// They can.
    Allowed,
    /// They would be, but are refused inside another aggregate.
    Nested,
}

/// A table of FROM.
#[derive(Clone, Debug, Default)]
pub struct ScopeTable {
    /// The database; `None` for derived tables.
    pub schema: Option<Arc<str>>,
    /// The alias, or the table's name.
    pub name: Arc<str>,
    /// The columns, in the order in which they stand in the row.
    pub columns: Vec<ScopeColumn>,
    /// The place of the first column in the row.
    pub offset: u32,
}

impl ScopeTable {
    /// The column of this name, with its place in the row.
    pub fn column(&self, name: &str) -> Option<(u32, &ScopeColumn)> {
        let mut places = (self.offset..).zip(&self.columns);
        places.find(|(_, column)| same_name(&column.name.column, name))
    }
}

/// A column of a table of FROM.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Its name as printed in messages.
    pub name: Arc<ColumnName>,
    /// Its type; nullable too when an outer join can leave it out.
    pub result: ResultType,
    /// Found only with the table's name: invisible columns, and those that USING or NATURAL has
    /// merged into the column of another table.
    pub qualified_only: bool,
    /// Left out of `*`: as `qualified_only`, but a merged column appears in `t.*`.
    pub hidden: bool,
    /// DEFAULT: what `DEFAULT(column)` is; `None` when there is no constant default.
    pub default: Option<Datum>,
}

/// A column of an enclosing block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OuterColumn {
    /// How many blocks further out, from 1.
    pub depth: u16,
    /// Its place in that block's row.
    pub index: u32,
}

/// Where an expression stands, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The list of SELECT, the values of INSERT, the assignments of UPDATE.
    FieldList,
    /// WHERE.
    Where,
    /// ON.
    On,
    /// GROUP BY.
    GroupBy,
    /// HAVING.
    Having,
    /// ORDER BY.
    OrderBy,
    /// LIMIT.
    Limit,
    /// PARTITION BY of a window.
    WindowPartition,
    /// ORDER BY of a window.
    WindowOrder,
    /// An expression of a definition: DEFAULT, a generated column.
    Definition,
    /// A CHECK constraint.
    Check,
    /// The document of JSON_TABLE.
    TableFunction,
    /// SET of variables and other places without rows.
    Value,
}

/// What a name was found to be.
#[derive(Clone, Debug)]
pub(crate) struct Found<'s> {
    pub(crate) column: &'s ScopeColumn,
    /// 0 for the block itself.
    pub(crate) depth: u16,
    pub(crate) index: u32,
}

impl<'a> Scope<'a> {
    /// The scope of a block without tables yet.
    pub fn new(parent: Option<&'a Scope<'a>>) -> Self {
        Self { parent, ..Self::default() }
    }

    /// Adds a table behind the others; gives the place of its first column in the row.
    pub fn add(&mut self, mut table: ScopeTable) -> u32 {
        table.offset = self.width();
        let offset = table.offset;
        self.tables.push(table);
        offset
    }

    /// How many columns a row of the block has.
    pub fn width(&self) -> u32 {
        self.tables.last().map_or(0, |last| last.offset + last.columns.len() as u32)
    }

    /// Columns of enclosing blocks that were found from this block or from one inside it.
    /// Not empty: the block is correlated.
    pub fn outer_columns(&self) -> Vec<OuterColumn> {
        self.outer.borrow().clone()
    }

    /// The table of this name in the block itself, as `t.*` and locking clauses name it.
    pub fn table(&self, schema: Option<&str>, name: &str) -> Option<&ScopeTable> {
        self.tables.iter().find(|table| table.is_named(schema, name))
    }

    /// All columns of the row with their places, in order.
    pub fn columns(&self) -> impl Iterator<Item = (u32, &ScopeColumn)> {
        self.tables.iter().flat_map(|table| (table.offset..).zip(&table.columns))
    }

    /// The column at this place of the row.
    pub fn column_at(&self, index: u32) -> Option<&ScopeColumn> {
        let table = self.tables.iter().rev().find(|table| table.offset <= index)?;
        table.columns.get((index - table.offset) as usize)
    }

    /// The expression that a name stands for: a column of this block or of an enclosing one.
    pub fn resolve(&self, name: &ColumnRef, clause: Clause) -> Result<Expression, SqlError> {
        match self.find(name, clause)? {
            Some(found) => Ok(found.expression()),
            None => Err(SqlError::unknown_column(written(name), clause)),
        }
    }

    /// The column that a name stands for, in this block or the nearest enclosing one that has it.
    pub(crate) fn find(
        &self,
        name: &ColumnRef,
        clause: Clause,
    ) -> Result<Option<Found<'_>>, SqlError> {
        let mut scope = Some(self);
        let mut depth = 0;
        while let Some(block) = scope {
            if let Some((index, column)) = block.find_here(name, clause)? {
                self.remember(depth, index);
                for (scope, depth) in self.outwards().zip((0..=depth).rev()) {
                    scope.nearest.set(scope.nearest.get().min(depth));
                }
                return Ok(Some(Found { column, depth, index }));
            }
            scope = block.parent;
            depth += 1;
        }
        Ok(None)
    }

    /// Lets subqueries name these elements of the select list; those they could name before.
    pub(crate) fn list(&self, listed: Vec<Output>) -> Vec<Output> {
        self.listed.replace(listed)
    }

    /// The value that the select list of an enclosing block has under a name. Values of groups and
    /// of other subqueries are not found.
    pub(crate) fn find_listed(&self, name: &ColumnRef) -> Option<Expression> {
        if name.table.is_some() {
            return None;
        }
        for (block, depth) in self.outwards().skip(1).zip(1..) {
            let listed = block.listed.borrow();
            let mut named = listed.iter().filter(|o| same_name(&o.name, name.column.as_str()));
            let Some(output) = named.next() else { continue };
            let is_plain = !output.expression.any(&mut |part| {
                matches!(
                    part.node,
                    Node::Aggregate(_) | Node::Window(_) | Node::Subquery(_) | Node::Deferred(_)
                )
            });
            if !is_plain || output.expression.is_volatile() {
                return None;
            }
            let mut value = output.expression.clone();
            value.visit_mut(&mut |part| self.move_inward(part, depth));
            return Some(value);
        }
        None
    }

    /// A column of a block so many blocks further out, as this block names it.
    fn move_inward(&self, part: &mut Expression, blocks: u16) {
        let (depth, index, name) = match &part.node {
            Node::Column { index, name } => (blocks, *index, name.clone()),
            Node::Outer { depth, index, name } => (depth + blocks, *index, name.clone()),
            _ => return,
        };
        self.remember(depth, index);
        for (scope, depth) in self.outwards().zip((0..=depth).rev()) {
            scope.nearest.set(scope.nearest.get().min(depth));
        }
        part.node = Node::Outer { depth, index, name };
    }

    /// The aggregates of the block, once all of it is bound; [`Node::Aggregate`] has their places.
    pub fn take_aggregates(&self) -> Vec<AggregateCall> {
        self.aggregates.take()
    }

    /// The place of an aggregate among those of the block: the same one twice is computed once.
    pub(crate) fn aggregate_slot(&self, call: AggregateCall) -> u32 {
        let mut calls = self.aggregates.borrow_mut();
        let known = calls.iter().position(|known| *known == call);
        let slot = known.unwrap_or_else(|| {
            calls.push(call);
            calls.len() - 1
        });
        slot as u32
    }

    /// The place of an aggregate that a subquery asks for.
    pub(crate) fn aggregate_for_subquery(&self, call: AggregateCall) -> u32 {
        self.asked.set(self.asked.get() + 1);
        self.aggregate_slot(call)
    }

    /// Binds a subquery of the block, and notes whether it uses aggregates of the block.
    pub(crate) fn noting_groups(
        &self,
        bind: impl FnOnce() -> Result<BoundSubquery, SqlError>,
    ) -> Result<BoundSubquery, SqlError> {
        let before = self.asked.get();
        let bound = bind()?;
        if self.asked.get() != before {
            self.of_groups.borrow_mut().push(bound.id);
        }
        Ok(bound)
    }

    /// Whether a subquery uses aggregates of the block.
    pub(crate) fn is_of_groups(&self, subquery: SubqueryId) -> bool {
        self.of_groups.borrow().contains(&subquery)
    }

    /// Says whether aggregates of the subquery that is bound next can be this block's.
    pub(crate) fn host(&self, hosting: Hosting) {
        self.hosting.set(hosting);
    }

    /// What [`Scope::host`] was told last.
    pub(crate) fn hosting(&self) -> Hosting {
        self.hosting.get()
    }

    /// The block, and those around it from the nearest.
    pub(crate) fn outwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.parent)
    }

    /// What is found meanwhile, and how many blocks further out the nearest column is that it uses;
    /// [`NO_COLUMN`] without any.
    pub(crate) fn measured<T>(&self, bind: impl FnOnce() -> T) -> (T, u16) {
        let before: Vec<u16> =
            self.outwards().map(|scope| scope.nearest.replace(NO_COLUMN)).collect();
        let bound = bind();
        let nearest = self.nearest.get();
        self.outwards().zip(before).for_each(|(scope, before)| scope.nearest.set(before));
        (bound, nearest)
    }

    /// This block, and those around it, depend on one `depth` blocks further out, by a table of
    /// FROM that was planned there.
    pub fn depend_on(&self, depth: usize) {
        self.remember(u16::try_from(depth).unwrap_or(u16::MAX), u32::MAX);
    }

    /// Every block between here and the column's depends on that column.
    pub(crate) fn remember(&self, depth: u16, index: u32) {
        let mut scope = Some(self);
        for depth in (1..=depth).rev() {
            let Some(block) = scope else { return };
            let outer = OuterColumn { depth, index };
            let mut known = block.outer.borrow_mut();
            if !known.contains(&outer) {
                known.push(outer);
            }
            scope = block.parent;
        }
    }

    /// The column of this name in the block itself.
    pub(crate) fn find_here(
        &self,
        name: &ColumnRef,
        clause: Clause,
    ) -> Result<Option<(u32, &ScopeColumn)>, SqlError> {
        let mut found = None;
        for table in &self.tables {
            if let Some(qualifier) = &name.table {
                let schema = qualifier.schema.as_ref().map(|schema| schema.as_str());
                if !table.is_named(schema, qualifier.name.as_str()) {
                    continue;
                }
            }
            for (index, column) in (table.offset..).zip(&table.columns) {
                let visible = name.table.is_some() || !column.qualified_only;
                if visible && same_name(&column.name.column, name.column.as_str()) {
                    if found.is_some() {
                        return Err(SqlError::of::<1052>(&[&written(name), &clause]));
                    }
                    found = Some((index, column));
                }
            }
        }
        Ok(found)
    }
}

/// More blocks than there are: no column was found.
pub(crate) const NO_COLUMN: u16 = u16::MAX;

impl Found<'_> {
    pub(crate) fn expression(&self) -> Expression {
        let name = self.column.name.clone();
        let (index, depth) = (self.index, self.depth);
        let node = match depth {
            0 => Node::Column { index, name },
            _ => Node::Outer { depth, index, name },
        };
        Expression { node, result: self.column.result.clone() }
    }
}

impl ScopeTable {
    /// Whether a qualifier means this table. Names of databases and tables keep their case, but for
    /// those of information_schema.
    fn is_named(&self, schema: Option<&str>, name: &str) -> bool {
        const ANY_CASE: &str = "information_schema";
        if self.schema.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(ANY_CASE)) {
            return schema.is_none_or(|schema| schema.eq_ignore_ascii_case(ANY_CASE))
                && self.name.eq_ignore_ascii_case(name);
        }
        let schema_fits = schema.is_none_or(|schema| self.schema.as_deref() == Some(schema));
        schema_fits && *self.name == *name
    }
}

impl ScopeColumn {
    /// A column with nothing special about it.
    pub fn new(name: Arc<ColumnName>, result: ResultType) -> Self {
        Self { name, result, qualified_only: false, hidden: false, default: None }
    }
}

impl Clause {
    /// The name in errors 1052 and 1054.
    pub fn name(self) -> &'static str {
        match self {
            Self::FieldList | Self::Value => "field list",
            Self::Where => "where clause",
            Self::On => "on clause",
            Self::GroupBy => "group statement",
            Self::Having => "having clause",
            Self::OrderBy => "order clause",
            Self::Limit => "limit clause",
            Self::WindowPartition => "window partition by",
            Self::WindowOrder => "window order by",
            Self::Definition => "generated column function",
            Self::Check => "check constraint",
            Self::TableFunction => "a table function argument",
        }
    }

    /// Whether aggregates can stand there.
    pub(crate) fn allows_aggregates(self) -> bool {
        use Clause::{FieldList, Having, OrderBy, WindowOrder, WindowPartition};
        matches!(self, FieldList | Having | OrderBy | WindowPartition | WindowOrder)
    }
}

impl std::fmt::Display for Clause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether two names of columns or aliases are the same: case does not count.
pub fn same_name(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return a.eq_ignore_ascii_case(b);
    }
    let collation = collation::CollationId::UTF8MB3_GENERAL_CI;
    collation::equal(collation, a.as_bytes(), b.as_bytes())
}

/// A name as it was written, for messages.
pub(crate) fn written(name: &ColumnRef) -> String {
    match &name.table {
        Some(table) => format!("{table}.{}", name.column),
        None => name.column.to_string(),
    }
}

#[cfg(test)]
mod tests;
