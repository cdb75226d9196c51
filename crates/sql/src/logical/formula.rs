//! Parts that bound queries and operators have in common.
//!
//! # Owns
//! [`Formula`]; [`Bounds`] of LIMIT, [`SortBy`] of ORDER BY, [`SetKind`] of set operations.

use sql_expression::{Expression, Needs};

/// An expression with what has to be done before it is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Formula {
    pub(crate) expression: Expression,
    pub(crate) needs: Needs,
}

impl Formula {
    pub(crate) fn new(expression: Expression) -> Self {
        let needs = expression.needs();
        Self { expression, needs }
    }

    /// Whether both are the same formula of a plan, and not only equal ones. A formula has no id:
    /// it is told from its equals by where it stands, and plans stay where they are while they are
    /// run.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// Whether it can be evaluated at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.needs == Needs::default()
    }
}

/// Kinds of set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    UnionAll,
    Except,
    ExceptAll,
    Intersect,
    IntersectAll,
}

/// LIMIT and OFFSET.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) count: Option<Formula>,
    pub(crate) offset: Option<Formula>,
}

impl Bounds {
    pub(crate) fn for_each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        let formulas = self.count.iter().chain(&self.offset);
        formulas.for_each(|formula| see(&formula.expression));
    }
}

/// A key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortBy {
    pub(crate) formula: Formula,
    pub(crate) descending: bool,
}
