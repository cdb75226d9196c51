//! The bound tree: queries whose names are resolved, before there is a plan.
//!
//! # Owns
//! [`BoundQuery`] and its [`Relation`]s; the search for the columns of enclosing blocks in them.
//! # Guarantees
//! Nothing here says how rows are found: no order of joins, no index, no operator. A rewrite
//! changes the tree, and the plan is made of what all rewrites have left.
//! # Not here
//! Binding (`query`, `block`, `from`, `with`). Rewriting (`rewrite`). Planning (`plan`).

use std::rc::Rc;

use sql_expression::{AggregateCall, Expression, Node, Output, Pauses, ResultType, SubqueryId};
use sqltype::SqlType;

use crate::logical::formula::{Bounds, Formula, SetKind, SortBy};
use crate::logical::from_table::{FromTable, JoinTree, Source};
use crate::logical::json_levels::JsonTable;
use crate::result::ResultColumn;

/// A query as it is bound.
#[derive(Clone, Debug)]
pub(crate) struct BoundQuery {
    /// The number of a query in FROM, in its statement: uses with the same number share one plan. A
    /// rule that changes one use of several gives it a number of its own.
    pub(crate) number: Option<u32>,
    /// What clients see of its columns.
    pub(crate) columns: Vec<ResultColumn>,
    /// The types of its columns, as expressions over them see it.
    pub(crate) results: Vec<ResultType>,
    pub(crate) relation: Relation,
    /// The subqueries that its expressions use.
    pub(crate) subqueries: Vec<Subquery>,
    /// It uses columns of enclosing blocks.
    pub(crate) correlated: bool,
    /// Queries in each other, this one included.
    pub(crate) levels: usize,
    /// It is computed apart from the block around it, whatever that asks of it: a view with
    /// ALGORITHM = TEMPTABLE.
    pub(crate) is_apart: bool,
}

/// The numbers that the queries of a statement have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(u32);

impl Numbers {
    /// One that no other query of the statement has.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// A subquery of the expressions of a query.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    pub(crate) id: SubqueryId,
    pub(crate) query: Rc<BoundQuery>,
    /// It is only tested for existence.
    pub(crate) exists: bool,
}

/// Where the rows of a query come from.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    /// SELECT with everything around it.
    Block(Box<Block>),
    /// UNION and its kin.
    Set(SetOperation),
    /// ORDER BY and LIMIT over the rows of another relation.
    Ordered {
        input: Box<Relation>,
        keys: Vec<SortBy>,
        bounds: Option<Bounds>,
    },
    /// VALUES.
    Values(Vec<Vec<Formula>>),
    JsonTable(Box<JsonTable>),
    /// A table of WITH RECURSIVE.
    Recursive(Box<BoundRecursion>),
    /// The newest rows of such a table, as its parts see them.
    WorkTable {
        number: u32,
    },
}

/// A query block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) tables: Vec<FromTable>,
    /// The joins; none without FROM.
    pub(crate) tree: Option<JoinTree>,
    pub(crate) bound: Bound,
    /// Places of its row.
    pub(crate) width: usize,
    pub(crate) shape: Shape,
    /// It uses columns of enclosing blocks.
    pub(crate) correlated: bool,
    /// All that counts is whether it has a row.
    pub(crate) exists: bool,
}

/// The expressions of a block.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) outputs: Vec<Output>,
    pub(crate) conditions: Vec<Expression>,
    pub(crate) group_by: Vec<Expression>,
    pub(crate) having: Vec<Expression>,
    pub(crate) order_by: Vec<(Expression, Option<usize>, bool)>,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) aggregates: Vec<AggregateCall>,
    pub(crate) windows: Vec<sql_expression::WindowCall>,
    /// What is called now and then while the block is planned.
    pub(crate) pauses: Pauses,
}

/// What a SELECT makes of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// GROUP BY, or aggregates.
    pub(crate) grouped: bool,
    pub(crate) distinct: bool,
    pub(crate) rollup: bool,
    /// SQL_CALC_FOUND_ROWS.
    pub(crate) counts: bool,
}

/// A set operation.
#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    /// Each with the types of its columns.
    pub(crate) parts: Vec<(Relation, Vec<ResultType>)>,
    /// How all but the first are taken in.
    pub(crate) kinds: Vec<SetKind>,
    /// The types that all are brought to.
    pub(crate) results: Vec<ResultType>,
}

/// A table that begins with the rows of one relation, and grows by what others make of its newest
/// rows.
#[derive(Clone, Debug)]
pub(crate) struct BoundRecursion {
    /// By this number the parts find the rows of the last round.
    pub(crate) number: u32,
    pub(crate) first: Relation,
    /// The parts that refer to the table, with the types of what they yield.
    pub(crate) parts: Vec<(Relation, Vec<SqlType>)>,
    /// Every row once.
    pub(crate) distinct: bool,
    /// Names and types of the columns: the first part's.
    pub(crate) columns: Vec<(String, SqlType)>,
    /// With enough rows it ends.
    pub(crate) bounds: Option<Bounds>,
}

impl BoundQuery {
    /// A query without subqueries.
    pub(crate) fn new(
        columns: Vec<ResultColumn>,
        relation: Relation,
        results: Vec<ResultType>,
        correlated: bool,
    ) -> Self {
        Self {
            number: None,
            columns,
            results,
            relation,
            subqueries: Vec::new(),
            correlated,
            levels: 1,
            is_apart: false,
        }
    }

    /// The block that it is, if it is one that reads tables and may be planned in another way.
    pub(crate) fn as_block(&self) -> Option<&Block> {
        match &self.relation {
            Relation::Block(block) if block.tree.is_some() && !self.is_apart => Some(block),
            _ => None,
        }
    }

    /// SQL_CALC_FOUND_ROWS: its LIMIT is counted without.
    pub(crate) fn counts_found_rows(&self) -> bool {
        matches!(&self.relation, Relation::Block(block) if block.shape.counts)
    }

    /// Calls `see` with each column of enclosing blocks that the query uses: how many blocks out of
    /// the query, from 1, and the place in that block's row.
    pub(crate) fn for_each_outer(&self, see: &mut dyn FnMut(usize, u32)) {
        self.outer_from(0, see);
    }

    /// How many blocks out of the query the furthest is that it uses.
    pub(crate) fn reach(&self) -> usize {
        let mut furthest = 0;
        self.for_each_outer(&mut |depth, _| furthest = furthest.max(depth));
        furthest
    }

    /// As [`BoundQuery::for_each_outer`], of a query that stands so many blocks within the one that
    /// is asked. A column names its block by how many blocks further out that is.
    fn outer_from(&self, within: isize, see: &mut dyn FnMut(usize, u32)) {
        // Common tables may use each other so often that no walk visits all uses.
        if !self.correlated {
            return;
        }
        self.relation.outer_from(within, see);
        for subquery in &self.subqueries {
            subquery.query.outer_from(within + 1, see);
        }
    }
}

impl Relation {
    fn outer_from(&self, within: isize, see: &mut dyn FnMut(usize, u32)) {
        self.for_each_expression(&mut |expression| {
            expression.visit(&mut |part| {
                let Node::Outer { depth, index, .. } = part.node else { return };
                let depth = isize::try_from(depth).unwrap_or(0) - within;
                if let Ok(depth @ 1..) = usize::try_from(depth) {
                    see(depth, index);
                }
            });
        });
        match self {
            Self::Block(block) => block.tables.iter().for_each(|table| {
                if let Source::Derived(query) = &table.source {
                    query.outer_from(within + table.blocks_between(), see);
                }
            }),
            Self::Set(set) => set.parts.iter().for_each(|(part, _)| part.outer_from(within, see)),
            Self::Ordered { input, .. } => input.outer_from(within, see),
            Self::Recursive(recursion) => {
                recursion.first.outer_from(within, see);
                recursion.parts.iter().for_each(|(part, _)| part.outer_from(within, see));
            }
            Self::Values(_) | Self::JsonTable(_) | Self::WorkTable { .. } => {}
        }
    }

    /// Calls `see` with each expression of the relation itself, those of its inputs left out.
    fn for_each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        match self {
            Self::Block(block) => {
                for_each_expression(&block.bound, see);
                block.tree.iter().for_each(|tree| tree.for_each_condition(see));
                block.bound.bounds.iter().for_each(|bounds| bounds.for_each_expression(see));
            }
            Self::Ordered { keys, bounds, .. } => {
                keys.iter().for_each(|key| see(&key.formula.expression));
                bounds.iter().for_each(|bounds| bounds.for_each_expression(see));
            }
            Self::Values(rows) => {
                rows.iter().flatten().for_each(|formula| see(&formula.expression));
            }
            Self::JsonTable(table) => see(&table.document.expression),
            Self::Recursive(recursion) => {
                recursion.bounds.iter().for_each(|bounds| bounds.for_each_expression(see));
            }
            Self::Set(_) | Self::WorkTable { .. } => {}
        }
    }
}

impl Bound {
    /// Whether it gives rows as they are: no groups, no windows, all that meet the conditions.
    pub(crate) fn is_of_rows(&self) -> bool {
        self.group_by.is_empty()
            && self.aggregates.is_empty()
            && self.having.is_empty()
            && self.windows.is_empty()
            && self.bounds.is_none()
    }
}

/// Calls `see` with each expression of a block that is evaluated for its rows.
pub(crate) fn for_each_expression(bound: &Bound, see: &mut dyn FnMut(&Expression)) {
    bound.outputs.iter().for_each(|output| see(&output.expression));
    let lists = [&bound.conditions, &bound.group_by, &bound.having];
    lists.into_iter().flatten().for_each(&mut *see);
    bound.order_by.iter().for_each(|(expression, _, _)| see(expression));
    bound.aggregates.iter().flat_map(|call| call.arguments()).for_each(&mut *see);
    bound.windows.iter().flat_map(|call| call.expressions()).for_each(see);
}

/// As [`for_each_expression`], to change them.
pub(crate) fn for_each_expression_mut(bound: &mut Bound, change: &mut dyn FnMut(&mut Expression)) {
    bound.outputs.iter_mut().for_each(|output| change(&mut output.expression));
    let lists = [&mut bound.conditions, &mut bound.group_by, &mut bound.having];
    lists.into_iter().flatten().for_each(&mut *change);
    bound.order_by.iter_mut().for_each(|(expression, _, _)| change(expression));
    bound.aggregates.iter_mut().flat_map(|call| call.arguments_mut()).for_each(&mut *change);
    bound.windows.iter_mut().flat_map(|call| call.expressions_mut()).for_each(change);
}
