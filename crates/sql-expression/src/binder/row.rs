//! Rows of values, and subqueries.

use sql_parser::ast::{BinaryOp, Expr, Quantifier, Query};

use super::{Binder, BoundSubquery};
use crate::error::SqlError;
use crate::expression::{Expression, Node, RowQuantifier, SubqueryKind, SubqueryUse};
use crate::print;
use crate::result_type::ResultType;
use crate::scope::Clause;

/// Most values of rows that are compared by their order: each is two levels of the expression, and
/// all that goes through an expression calls itself for each level.
const ORDERED_MAX: usize = 256;

impl Binder<'_, '_> {
    pub(super) fn row(&mut self, list: &[Expr]) -> Result<Expression, SqlError> {
        let parts = list.iter().map(|part| self.expr(part)).collect::<Result<Vec<_>, _>>()?;
        if parts.iter().any(|part| part.width() != 1) {
            // A row within a row never fits what it is compared with.
            return Err(SqlError::operand_columns(1));
        }
        let nullable = parts.iter().any(|part| part.result.nullable);
        let result = ResultType { nullable, ..ResultType::null() };
        Ok(Expression { node: Node::Row(parts.into()), result })
    }

    /// A comparison of two rows, taken apart into comparisons of values.
    pub(super) fn compare_rows(
        &mut self,
        op: BinaryOp,
        left: Expression,
        right: Expression,
    ) -> Result<Expression, SqlError> {
        match (left.node, right.node) {
            (Node::Row(left), Node::Row(right)) => {
                self.compare_lists(op, left.into_vec(), right.into_vec())
            }
            (Node::Row(row), Node::Subquery(subquery)) => {
                let operand = Expression { node: Node::Row(row), result: left.result };
                self.compare_with_only_row(op, operand, *subquery)
            }
            (Node::Subquery(subquery), Node::Row(row)) => {
                let operand = Expression { node: Node::Row(row), result: right.result };
                self.compare_with_only_row(print::reversed(op), operand, *subquery)
            }
            (Node::Subquery(one), Node::Subquery(other)) => {
                let operand = Expression { node: Node::Subquery(one), result: left.result };
                self.compare_with_only_row(op, operand, *other)
            }
            _ => Err(SqlError::operand_columns(1)),
        }
    }

    fn compare_with_only_row(
        &mut self,
        op: BinaryOp,
        operand: Expression,
        subquery: SubqueryUse,
    ) -> Result<Expression, SqlError> {
        let SubqueryKind::Scalar { columns } = subquery.kind else {
            return Err(SqlError::operand_columns(1));
        };
        let bound = BoundSubquery {
            id: subquery.id,
            columns: columns.into_vec(),
            correlated: subquery.correlated,
        };
        self.quantify(op, operand, RowQuantifier::Only, false, bound)
    }

    fn compare_lists(
        &mut self,
        op: BinaryOp,
        left: Vec<Expression>,
        right: Vec<Expression>,
    ) -> Result<Expression, SqlError> {
        use BinaryOp::{
            Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual, NullSafeEqual,
        };
        match op {
            Equal | NullSafeEqual | NotEqual => {
                let pairs = left.into_iter().zip(right);
                let parts = pairs.map(|(a, b)| self.compare_values(op, a, b));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                Ok(self.combine(parts, op != NotEqual))
            }
            _ => {
                // a < b, or a = b and the rest is <; only the last place knows <=.
                let strict = match op {
                    Less | LessOrEqual => Less,
                    Greater | GreaterOrEqual => Greater,
                    _ => return Err(SqlError::internal("not a comparison")),
                };
                if left.len() > ORDERED_MAX {
                    let what = format!("the order of rows of more than {ORDERED_MAX} values");
                    return Err(SqlError::not_supported(what));
                }
                let mut pairs: Vec<_> = left.into_iter().zip(right).collect();
                let Some((a, b)) = pairs.pop() else {
                    return Err(SqlError::internal("a row without columns"));
                };
                let mut tail = self.compare_values(op, a, b)?;
                while let Some((a, b)) = pairs.pop() {
                    let before = self.compare_values(strict, a.clone(), b.clone())?;
                    let same = self.compare_values(Equal, a, b)?;
                    let rest = self.combine(vec![same, tail], true);
                    tail = self.combine(vec![before, rest], false);
                }
                Ok(tail)
            }
        }
    }

    /// `(a, b) IN ((1, 2), …)`.
    pub(super) fn row_in_list(
        &mut self,
        operand: Expression,
        list: &[Expr],
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let mut parts = Vec::with_capacity(list.len());
        for expr in list {
            let element = self.expr(expr)?;
            parts.push(self.compare(BinaryOp::Equal, operand.clone(), element)?);
        }
        let any = self.combine(parts, false);
        Ok(if negated { self.not(any) } else { any })
    }

    fn plan(&mut self, query: &Query) -> Result<BoundSubquery, SqlError> {
        self.subquery(query, false)
    }

    fn subquery(&mut self, query: &Query, exists: bool) -> Result<BoundSubquery, SqlError> {
        let scope = self.scope;
        scope.host(self.hosting());
        let sees_list = matches!(self.clause, Clause::FieldList | Clause::Having | Clause::OrderBy);
        let listed = if sees_list { self.outputs.clone() } else { Vec::new() };
        let before = scope.list(listed);
        let bound = scope.noting_groups(|| self.environment.subquery(query, scope, exists));
        scope.list(before);
        bound
    }

    pub(super) fn scalar_subquery(&mut self, query: &Query) -> Result<Expression, SqlError> {
        let BoundSubquery { id, columns, correlated } = self.plan(query)?;
        let result = match columns.as_slice() {
            [only] => ResultType { nullable: true, ..only.clone() },
            _ => ResultType::null(),
        };
        let kind = SubqueryKind::Scalar { columns: columns.into() };
        let node = Node::Subquery(Box::new(SubqueryUse { id, correlated, kind }));
        Ok(Expression { node, result })
    }

    pub(super) fn exists(&mut self, query: &Query) -> Result<Expression, SqlError> {
        let BoundSubquery { id, correlated, .. } = self.subquery(query, true)?;
        let subquery = SubqueryUse { id, correlated, kind: SubqueryKind::Exists };
        let node = Node::Subquery(Box::new(subquery));
        Ok(Expression { node, result: ResultType::truth(false) })
    }

    pub(super) fn in_query(
        &mut self,
        operand: &Expr,
        query: &Query,
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let operand = self.expr(operand)?;
        let bound = self.plan(query)?;
        self.quantify(BinaryOp::Equal, operand, RowQuantifier::Any, negated, bound)
    }

    pub(super) fn quantified(
        &mut self,
        op: BinaryOp,
        operand: &Expr,
        quantifier: Quantifier,
        query: &Query,
    ) -> Result<Expression, SqlError> {
        let operand = self.expr(operand)?;
        let bound = self.plan(query)?;
        if operand.width() > 1 && !matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
            return Err(SqlError::operand_columns(1));
        }
        let quantifier = match quantifier {
            Quantifier::Any => RowQuantifier::Any,
            Quantifier::All => RowQuantifier::All,
        };
        self.quantify(op, operand, quantifier, false, bound)
    }

    fn quantify(
        &mut self,
        op: BinaryOp,
        mut operand: Expression,
        quantifier: RowQuantifier,
        negated: bool,
        bound: BoundSubquery,
    ) -> Result<Expression, SqlError> {
        let BoundSubquery { id, columns, correlated } = bound;
        if operand.width() != columns.len() {
            return Err(SqlError::operand_columns(operand.width()));
        }
        let symbol = print::binary_symbol(op);
        let mut comparisons = Vec::with_capacity(columns.len());
        let mut compare = |binder: &mut Self, part: &mut Expression, column: &ResultType| {
            // A column of the subquery's rows: only its type matters here.
            let mut other = Expression { node: Node::Parameter(u32::MAX), result: column.clone() };
            let comparison = binder.comparison(symbol, part, &mut other)?;
            comparisons.push(comparison);
            Ok::<(), SqlError>(())
        };
        match &mut operand.node {
            Node::Row(list) => {
                for (part, column) in list.iter_mut().zip(&columns) {
                    compare(self, part, column)?;
                }
            }
            _ => match scalar_columns(&operand) {
                Some(parts) => {
                    for (part, column) in parts.iter().cloned().zip(&columns) {
                        let node = Node::Parameter(u32::MAX);
                        compare(self, &mut Expression { node, result: part }, column)?;
                    }
                }
                None => {
                    for column in &columns {
                        compare(self, &mut operand, column)?;
                    }
                }
            },
        }
        let kind = SubqueryKind::Quantified {
            operand,
            op,
            comparisons: comparisons.into(),
            columns: columns.into(),
            quantifier,
            negated,
        };
        let node = Node::Subquery(Box::new(SubqueryUse { id, correlated, kind }));
        Ok(Expression { node, result: ResultType::truth(true) })
    }
}

/// The types of the columns of a subquery that stands for a row of several values.
fn scalar_columns(operand: &Expression) -> Option<&[ResultType]> {
    let Node::Subquery(subquery) = &operand.node else { return None };
    match &subquery.kind {
        SubqueryKind::Scalar { columns } if columns.len() > 1 => Some(columns),
        _ => None,
    }
}
