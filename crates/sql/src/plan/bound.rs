//! Query blocks as they were bound, before their operators are made.
//!
//! # Owns
//! [`Bound`], the expressions of one block; [`Ingredients`], from which other plans of the same
//! query can be made while the blocks around it are planned.
//! # Not here
//! Binding (`block`). Making operators (`assemble`).

use sql_expression::{AggregateCall, Expression, Output, Pauses, ResultType};

use crate::plan::from_table::{FromTable, JoinTree};
use crate::plan::operator::{Bounds, SetKind};
use crate::result::ResultColumn;

/// A bound SELECT, before its operators are made.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) outputs: Vec<Output>,
    pub(super) columns: Vec<ResultColumn>,
    pub(super) conditions: Vec<Expression>,
    pub(super) group_by: Vec<Expression>,
    pub(super) having: Vec<Expression>,
    pub(super) order_by: Vec<(Expression, Option<usize>, bool)>,
    pub(super) bounds: Option<Bounds>,
    pub(super) aggregates: Vec<AggregateCall>,
    pub(super) windows: Vec<sql_expression::WindowCall>,
    /// What is called now and then while it is planned.
    pub(super) pauses: Pauses,
}

/// What a SELECT makes of its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// GROUP BY, or aggregates.
    pub(super) grouped: bool,
    pub(super) distinct: bool,
    pub(super) rollup: bool,
    /// SQL_CALC_FOUND_ROWS.
    pub(super) counts: bool,
}

impl Bound {
    /// Whether it gives rows as they are: no groups, no windows, all that meet the conditions.
    pub(super) fn is_of_rows(&self) -> bool {
        self.group_by.is_empty()
            && self.aggregates.is_empty()
            && self.having.is_empty()
            && self.windows.is_empty()
            && self.bounds.is_none()
    }
}

/// Calls `see` with each expression of a block that is evaluated for its rows.
pub(super) fn for_each_expression(bound: &Bound, see: &mut dyn FnMut(&Expression)) {
    bound.outputs.iter().for_each(|output| see(&output.expression));
    let lists = [&bound.conditions, &bound.group_by, &bound.having];
    lists.into_iter().flatten().for_each(&mut *see);
    bound.order_by.iter().for_each(|(expression, _, _)| see(expression));
    bound.aggregates.iter().flat_map(|call| call.arguments()).for_each(&mut *see);
    bound.windows.iter().flat_map(|call| call.expressions()).for_each(see);
}

/// As [`for_each_expression`], to change them.
pub(super) fn for_each_expression_mut(bound: &mut Bound, change: &mut dyn FnMut(&mut Expression)) {
    bound.outputs.iter_mut().for_each(|output| change(&mut output.expression));
    let lists = [&mut bound.conditions, &mut bound.group_by, &mut bound.having];
    lists.into_iter().flatten().for_each(&mut *change);
    bound.order_by.iter_mut().for_each(|(expression, _, _)| change(expression));
    bound.aggregates.iter_mut().flat_map(|call| call.arguments_mut()).for_each(&mut *change);
    bound.windows.iter_mut().flat_map(|call| call.expressions_mut()).for_each(change);
}

/// What a query was made of, from which other plans than its own can be made.
#[derive(Clone, Debug)]
pub(crate) enum Ingredients {
    Block(Box<BlockParts>),
    Set(Operands),
}

/// A block as it was bound.
#[derive(Clone, Debug)]
pub(crate) struct BlockParts {
    pub(super) tables: Vec<FromTable>,
    pub(super) tree: JoinTree,
    pub(super) bound: Bound,
    pub(super) width: usize,
    pub(super) shape: Shape,
}

impl Ingredients {
    pub(super) fn of_block(
        tables: &[FromTable],
        tree: &JoinTree,
        bound: &Bound,
        width: usize,
        shape: Shape,
    ) -> Self {
        let (tables, tree, bound) = (tables.to_vec(), tree.clone(), bound.clone());
        Self::Block(Box::new(BlockParts { tables, tree, bound, width, shape }))
    }

    /// The block, if it is one.
    pub(super) fn as_block(&self) -> Option<&BlockParts> {
        match self {
            Self::Block(block) => Some(block),
            Self::Set(_) => None,
        }
    }
}

/// A set operation as it was bound.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    /// Each with the types of its columns.
    pub(super) parts: Vec<(Ingredients, Vec<ResultType>)>,
    /// How all but the first are taken in.
    pub(super) kinds: Vec<SetKind>,
    /// The types that all are brought to.
    pub(super) results: Vec<ResultType>,
}
