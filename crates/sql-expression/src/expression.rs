//! Bound expressions: names are places in a row, every node knows its type.
//!
//! # Owns
//! [`Expression`], what it consists of, and walking over it.
//! # Invariants
//! 1. The type of a node is the one MySQL gives the result, and its value is of that type or NULL.
//! 2. A tree is as high as the syntax tree it comes from, whose height the parser bounds: recursion
//!    over it is safe.
//! 3. Evaluation needs nothing but the row and the context. What must be awaited (subqueries,
//!    functions that wait) is found by [`Expression::visit`] and put into the context beforehand.
//! # Not here
//! Binding (`binder`), evaluation (`eval`).

use std::cell::OnceCell;
use std::sync::Arc;

use sql_parser::ast::Truth;
use sqltype::{Datum, SqlType};

use crate::comparison::Comparison;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::function::{Function, Volatility};
use crate::result_type::ResultType;
use crate::row_set::RowSet;

pub use sql_parser::ast::BinaryOp;

/// An expression with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// What it is.
    pub node: Node,
    /// What it yields.
    pub result: ResultType,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A value.
    Constant(Datum),
    /// A column of the row.
    Column {
        /// Its place in the row.
        index: u32,
        /// Its name, for messages.
        name: Arc<ColumnName>,
    },
    /// A column of the current row of an enclosing query.
    Outer {
        /// How many queries further out, from 1.
        depth: u16,
        /// Its place in that query's row.
        index: u32,
        /// Its name, for messages.
        name: Arc<ColumnName>,
    },
    /// A parameter of the statement, from 0.
    Parameter(u32),
    /// `@name`, in lower case.
    UserVariable(Arc<str>),
    /// `@name := value`.
    Assign {
        /// The variable, in lower case.
        name: Arc<str>,
        /// Its new value.
        value: Box<Expression>,
    },
    /// `VALUES(column)`: what the row to be inserted has in this column.
    Inserted {
        /// The column's place in the inserted row.
        index: u32,
        /// Its name, for messages.
        name: Arc<ColumnName>,
    },
    /// The result of an aggregate of the query, in the order of [`Binder`](crate::Binder)'s list.
    /// [`Expression::place`] makes it a column.
    Aggregate(u32),
    /// The result of a window function, likewise.
    Window(u32),
    /// `(a, b)`: only as an operand of a comparison.
    Row(Box<[Expression]>),
    /// A subquery, whose rows the executor has put into the context.
    Subquery(Box<SubqueryUse>),
    /// A function that waits; the executor has put its result into the context.
    Deferred(Box<Deferred>),
    /// True when all are true, false when one is false.
    And(Box<[Expression]>),
    /// True when one is true, false when all are false.
    Or(Box<[Expression]>),
    /// True when the operand is false.
    Not(Box<Expression>),
    /// `IS NULL`.
    IsNull(Box<Expression>),
    /// `IS [NOT] TRUE`, `IS [NOT] FALSE`.
    IsTruth {
        /// What is asked about.
        operand: Box<Expression>,
        /// What it is compared with; not [`Truth::Unknown`], which is `IsNull`.
        value: Truth,
        /// With NOT.
        negated: bool,
    },
    /// A comparison of two values.
    Compare(Box<Compare>),
    /// `[NOT] BETWEEN`.
    Between(Box<Between>),
    /// `[NOT] IN (…)`.
    InList(Box<InList>),
    /// `[NOT] LIKE`.
    Like(Box<Like>),
    /// CASE, both kinds.
    Case(Box<Case>),
    /// `+ - * / DIV %`, computed as the result type says.
    Arithmetic(Box<Arithmetic>),
    /// `-a`.
    Negate(Box<Expression>),
    /// CAST and CONVERT: to the type of the result.
    Cast(Box<Expression>),
    /// A function.
    Call(Box<Call>),
}

/// A column's name with what qualifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnName {
    /// The database; empty for derived tables.
    pub schema: Box<str>,
    /// The table, or its alias.
    pub table: Box<str>,
    /// The column.
    pub column: Box<str>,
}

/// A comparison operator between two expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// One of the comparison operators.
    pub op: BinaryOp,
    /// As what both are compared.
    pub comparison: Comparison,
    /// Left operand.
    pub left: Expression,
    /// Right operand.
    pub right: Expression,
}

/// `operand BETWEEN low AND high`.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// As what the operand and each bound are compared.
    pub comparisons: [Comparison; 2],
    /// What is compared.
    pub operand: Expression,
    /// Lower bound, inclusive.
    pub low: Expression,
    /// Upper bound, inclusive.
    pub high: Expression,
    /// With NOT.
    pub negated: bool,
}

/// `operand IN (list)`.
#[derive(Clone, Debug, PartialEq)]
pub struct InList {
    /// What is searched.
    pub operand: Expression,
    /// Where, and as what each element is compared with the operand.
    pub list: Box<[(Expression, Comparison)]>,
    /// With NOT.
    pub negated: bool,
    /// The elements by what they compare as, made when it is first worth it.
    pub(crate) set: ListSet,
}

/// An index over the elements of a list. It says nothing that the list does not: all are equal.
#[derive(Debug, Default)]
pub(crate) struct ListSet {
    rows: OnceCell<Option<RowSet>>,
    of_operand: OnceCell<Comparison>,
}

impl ListSet {
    /// The index over these elements; none unless all are constants with one comparison.
    ///
    /// # Errors
    /// The statement is to end.
    pub(crate) fn of(
        &self,
        list: &[(Expression, Comparison)],
        context: &mut EvalContext,
    ) -> Result<Option<&RowSet>, SqlError> {
        if self.rows.get().is_none() {
            // Others may do the same meanwhile: what they make is equal.
            let made = Self::make(list, context)?;
            let _ = self.rows.set(made);
        }
        Ok(self.rows.get().and_then(Option::as_ref))
    }

    fn make(
        list: &[(Expression, Comparison)],
        context: &mut EvalContext,
    ) -> Result<Option<RowSet>, SqlError> {
        let Some((_, first)) = list.first() else { return Ok(None) };
        let mut rows = Vec::with_capacity(list.len());
        for (element, comparison) in list {
            context.step(1)?;
            let value = element.as_constant().filter(|_| comparison == first);
            let Some(value) = value else { return Ok(None) };
            rows.push(vec![value.clone()]);
        }
        Ok(Some(RowSet::new(rows)))
    }

    /// As what the operand is computed.
    pub(crate) fn of_operand(&self, list: &[(Expression, Comparison)]) -> Comparison {
        let doubles = || list.iter().any(|(_, comparison)| *comparison == Comparison::Double);
        let of_list = || if doubles() { Comparison::Double } else { Comparison::Decimal };
        *self.of_operand.get_or_init(of_list)
    }
}

impl Clone for ListSet {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for ListSet {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// `operand LIKE pattern ESCAPE escape`.
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    /// What is matched.
    pub operand: Expression,
    /// The pattern.
    pub pattern: Expression,
    /// The escape character, if there is one.
    pub escape: Option<char>,
    /// Under which collation.
    pub collation: collation::CollationId,
    /// With NOT.
    pub negated: bool,
}

/// CASE.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What each WHEN is compared with; without it each WHEN is a condition.
    pub operand: Option<Expression>,
    /// WHEN, THEN, and with an operand as what both are compared.
    pub branches: Box<[Branch]>,
    /// ELSE; NULL if not given.
    pub otherwise: Option<Expression>,
}

/// WHEN and THEN.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// WHEN.
    pub when: Expression,
    /// As what it is compared with the operand of CASE; unused without one.
    pub comparison: Comparison,
    /// THEN.
    pub then: Expression,
}

/// Arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// The operator.
    pub op: BinaryOp,
    /// Left operand.
    pub left: Expression,
    /// Right operand.
    pub right: Expression,
}

/// A function applied to arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// The arguments; words of the grammar (units of intervals and the like) are constants.
    pub arguments: Box<[Expression]>,
    /// The collation in which arguments are compared, where the function compares any.
    pub collation: collation::CollationId,
    /// A number of its own within the statement, where the function has a state there: RAND(n).
    pub state: u32,
}

impl Call {
    /// Whether its value is that of its first argument that is not NULL.
    pub(crate) fn chooses_first(&self) -> bool {
        matches!(self.function.name, "coalesce" | "ifnull")
    }
}

/// The number of a subquery within its statement, given by the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubqueryId(pub u32);

/// A subquery and what is made of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SubqueryUse {
    /// Which subquery.
    pub id: SubqueryId,
    /// Whether its rows depend on the current row of an enclosing query.
    pub correlated: bool,
    /// What is made of its rows.
    pub kind: SubqueryKind,
}

/// What is made of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// Its only row is a value, or a row of values with these types.
    Scalar {
        /// The types of its columns.
        columns: Box<[ResultType]>,
    },
    /// Whether there is a row.
    Exists,
    /// `operand [NOT] IN (…)`, `operand <op> ANY (…)`, `operand <op> ALL (…)`, and a row compared
    /// with the only row of the subquery.
    Quantified {
        /// Left operand; a row when the subquery has several columns.
        operand: Expression,
        /// The comparison; equality for IN.
        op: BinaryOp,
        /// As what each column is compared.
        comparisons: Box<[Comparison]>,
        /// The types of the subquery's columns.
        columns: Box<[ResultType]>,
        /// With how many of the rows it must hold.
        quantifier: RowQuantifier,
        /// NOT IN.
        negated: bool,
    },
}

/// With how many rows of a subquery a comparison must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowQuantifier {
    /// With one of them.
    Any,
    /// With each.
    All,
    /// With the only one; unknown if there is none, an error if there are more.
    Only,
}

/// A function whose result is known only after waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferred {
    /// Its number within the statement.
    pub slot: u32,
    /// Which.
    pub function: DeferredFunction,
    /// Its arguments.
    pub arguments: Box<[Expression]>,
}

/// The functions that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredFunction {
    /// SLEEP(seconds).
    Sleep,
    /// BENCHMARK(count, expression).
    Benchmark,
    /// GET_LOCK(name, timeout).
    GetLock,
    /// RELEASE_LOCK(name).
    ReleaseLock,
    /// RELEASE_ALL_LOCKS().
    ReleaseAllLocks,
    /// IS_FREE_LOCK(name).
    IsFreeLock,
    /// IS_USED_LOCK(name).
    IsUsedLock,
    /// NINES_COMMIT_RECEIPT().
    CommitReceipt,
}

/// What an executor has to do before it can evaluate an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Subqueries whose rows do not depend on the current row: once for the statement.
    pub subqueries: bool,
    /// Subqueries to run anew for each row.
    pub correlated_subqueries: bool,
    /// Functions that wait, for each row.
    pub deferred: bool,
}

/// How often the value of an expression can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constancy {
    /// Never: it depends on nothing.
    Always,
    /// It is the same for all rows of one execution, but may be another the next time: NOW(),
    /// parameters, uncorrelated subqueries, columns of enclosing queries.
    Execution,
    /// It may be another for each row.
    Row,
}

impl Expression {
    /// Whether it may have another value each time it is evaluated for a row, or leaves something
    /// behind that others see.
    pub fn is_volatile(&self) -> bool {
        self.any(&mut |part| match &part.node {
            Node::Call(call) => call.function.volatility == Volatility::Row,
            Node::Assign { .. } | Node::UserVariable(_) | Node::Deferred(_) => true,
            _ => false,
        })
    }

    /// A constant of this type.
    pub fn constant(value: Datum, result: ResultType) -> Self {
        Self { node: Node::Constant(value), result }
    }

    /// A column of the row.
    pub fn column(index: u32, name: Arc<ColumnName>, result: ResultType) -> Self {
        Self { node: Node::Column { index, name }, result }
    }

    /// The NULL of no type.
    pub fn null() -> Self {
        Self::constant(Datum::Null, ResultType::null())
    }

    /// The value, if it is a constant.
    pub fn as_constant(&self) -> Option<&Datum> {
        match &self.node {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The place in the row, if it is a column of it.
    pub fn as_column(&self) -> Option<u32> {
        match &self.node {
            Node::Column { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// The type of its values.
    pub fn sql_type(&self) -> &SqlType {
        &self.result.sql_type
    }

    /// How many columns it stands for: 1, or more for a row.
    pub fn width(&self) -> usize {
        match &self.node {
            Node::Row(list) => list.len(),
            Node::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Scalar { columns } => columns.len(),
                _ => 1,
            },
            _ => 1,
        }
    }

    /// Calls `see` with each direct part.
    pub fn for_each_part<'a>(&'a self, see: &mut dyn FnMut(&'a Expression)) {
        match &self.node {
            Node::Constant(_)
            | Node::Column { .. }
            | Node::Outer { .. }
            | Node::Parameter(_)
            | Node::UserVariable(_)
            | Node::Inserted { .. }
            | Node::Aggregate(_)
            | Node::Window(_) => {}
            Node::Assign { value: part, .. }
            | Node::Not(part)
            | Node::IsNull(part)
            | Node::IsTruth { operand: part, .. }
            | Node::Negate(part)
            | Node::Cast(part) => see(part),
            Node::Row(list) | Node::And(list) | Node::Or(list) => list.iter().for_each(see),
            Node::Subquery(subquery) => {
                if let SubqueryKind::Quantified { operand, .. } = &subquery.kind {
                    see(operand);
                }
            }
            Node::Deferred(deferred) => deferred.arguments.iter().for_each(see),
            Node::Compare(compare) => [&compare.left, &compare.right].into_iter().for_each(see),
            Node::Arithmetic(both) => [&both.left, &both.right].into_iter().for_each(see),
            Node::Between(between) => {
                [&between.operand, &between.low, &between.high].into_iter().for_each(see);
            }
            Node::InList(list) => {
                see(&list.operand);
                list.list.iter().for_each(|(element, _)| see(element));
            }
            Node::Like(like) => [&like.operand, &like.pattern].into_iter().for_each(see),
            Node::Case(case) => {
                case.operand.iter().for_each(&mut *see);
                for branch in &case.branches {
                    see(&branch.when);
                    see(&branch.then);
                }
                case.otherwise.iter().for_each(see);
            }
            Node::Call(call) => call.arguments.iter().for_each(see),
        }
    }

    /// As [`Expression::for_each_part`], to change the parts.
    pub fn for_each_part_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        match &mut self.node {
            Node::Constant(_)
            | Node::Column { .. }
            | Node::Outer { .. }
            | Node::Parameter(_)
            | Node::UserVariable(_)
            | Node::Inserted { .. }
            | Node::Aggregate(_)
            | Node::Window(_) => {}
            Node::Assign { value: part, .. }
            | Node::Not(part)
            | Node::IsNull(part)
            | Node::IsTruth { operand: part, .. }
            | Node::Negate(part)
            | Node::Cast(part) => change(part),
            Node::Row(list) | Node::And(list) | Node::Or(list) => list.iter_mut().for_each(change),
            Node::Subquery(subquery) => {
                if let SubqueryKind::Quantified { operand, .. } = &mut subquery.kind {
                    change(operand);
                }
            }
            Node::Deferred(deferred) => deferred.arguments.iter_mut().for_each(change),
            Node::Compare(compare) => {
                [&mut compare.left, &mut compare.right].into_iter().for_each(change);
            }
            Node::Arithmetic(both) => {
                [&mut both.left, &mut both.right].into_iter().for_each(change);
            }
            Node::Between(between) => {
                let Between { operand, low, high, .. } = &mut **between;
                [operand, low, high].into_iter().for_each(change);
            }
            Node::InList(list) => {
                change(&mut list.operand);
                list.list.iter_mut().for_each(|(element, _)| change(element));
            }
            Node::Like(like) => [&mut like.operand, &mut like.pattern].into_iter().for_each(change),
            Node::Case(case) => {
                case.operand.iter_mut().for_each(&mut *change);
                for branch in &mut case.branches {
                    change(&mut branch.when);
                    change(&mut branch.then);
                }
                case.otherwise.iter_mut().for_each(change);
            }
            Node::Call(call) => call.arguments.iter_mut().for_each(change),
        }
    }

    /// Calls `see` with the expression and everything below it, operands before operators. The
    /// queries inside subqueries are not entered.
    pub fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Expression)) {
        self.for_each_part(&mut |part| part.visit(see));
        see(self);
    }

    /// As [`Expression::visit`], to change what is met.
    pub fn visit_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        self.for_each_part_mut(&mut |part| part.visit_mut(change));
        change(self);
    }

    /// Whether any part, the whole included, is such.
    pub fn any(&self, is: &mut dyn FnMut(&Expression) -> bool) -> bool {
        if is(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(is));
        found
    }

    /// Whether it has more parts than so many, itself included.
    pub fn has_more_parts(&self, most: usize) -> bool {
        let mut parts = 0;
        self.any(&mut |_| {
            parts += 1;
            parts > most
        })
    }

    /// What has to be done before each evaluation, or once.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        self.visit(&mut |part| match &part.node {
            Node::Subquery(subquery) if subquery.correlated => needs.correlated_subqueries = true,
            Node::Subquery(_) => needs.subqueries = true,
            Node::Deferred(_) => needs.deferred = true,
            _ => {}
        });
        needs
    }

    /// How often its value can change.
    pub fn constancy(&self) -> Constancy {
        let mut constancy = match &self.node {
            Node::Constant(_) => Constancy::Always,
            Node::Parameter(_) | Node::Outer { .. } => Constancy::Execution,
            Node::Subquery(subquery) if !subquery.correlated => Constancy::Execution,
            Node::Column { .. }
            | Node::UserVariable(_)
            | Node::Assign { .. }
            | Node::Inserted { .. }
            | Node::Aggregate(_)
            | Node::Window(_)
            | Node::Subquery(_)
            | Node::Deferred(_) => return Constancy::Row,
            Node::Call(call) => match call.function.volatility {
                Volatility::Pure => Constancy::Always,
                Volatility::Statement => Constancy::Execution,
                Volatility::Row => return Constancy::Row,
            },
            _ => Constancy::Always,
        };
        self.for_each_part(&mut |part| constancy = constancy.max(part.constancy()));
        constancy
    }

    /// Makes results of aggregates and windows columns of the row: the n-th aggregate stands at
    /// `aggregates + n`, the n-th window function at `windows + n`.
    pub fn place(&mut self, aggregates: u32, windows: u32) {
        self.visit_mut(&mut |part| {
            let index = match part.node {
                Node::Aggregate(slot) => aggregates + slot,
                Node::Window(slot) => windows + slot,
                _ => return,
            };
            part.node = Node::Column { index, name: Arc::default() };
        });
    }

    /// Moves columns of the row to other places.
    pub fn map_columns(&mut self, place: &mut dyn FnMut(u32) -> u32) {
        self.visit_mut(&mut |part| {
            if let Node::Column { index, .. } = &mut part.node {
                *index = place(*index);
            }
        });
    }

    /// Calls `see` with the place of each column of the row that is used.
    pub fn for_each_column(&self, see: &mut dyn FnMut(u32)) {
        self.visit(&mut |part| {
            if let Node::Column { index, .. } = &part.node {
                see(*index);
            }
        });
    }

    /// The parts that must all be true for the whole to be true: a WHERE taken apart.
    pub fn into_conjuncts(self) -> Vec<Expression> {
        match self.node {
            Node::And(list) => list.into_iter().flat_map(Self::into_conjuncts).collect(),
            _ => vec![self],
        }
    }

    /// True when all parts are true.
    pub fn all(mut parts: Vec<Expression>) -> Option<Expression> {
        if parts.len() < 2 {
            return parts.pop();
        }
        let nullable = parts.iter().any(|part| part.result.nullable);
        let result = ResultType::truth(nullable);
        Some(Self { node: Node::And(parts.into()), result })
    }
}

impl DeferredFunction {
    /// All of them: the name in lower case, and how many arguments it takes.
    pub(crate) const ALL: [(&'static str, Self, u8); 8] = [
        ("sleep", Self::Sleep, 1),
        ("benchmark", Self::Benchmark, 2),
        ("get_lock", Self::GetLock, 2),
        ("release_lock", Self::ReleaseLock, 1),
        ("release_all_locks", Self::ReleaseAllLocks, 0),
        ("is_free_lock", Self::IsFreeLock, 1),
        ("is_used_lock", Self::IsUsedLock, 1),
        ("nines_commit_receipt", Self::CommitReceipt, 0),
    ];

    /// The function of this name in lower case, with the number of arguments it takes.
    pub(crate) fn by_name(name: &str) -> Option<(Self, usize)> {
        let found = Self::ALL.iter().find(|(known, ..)| *known == name);
        found.map(|(_, function, count)| (*function, usize::from(*count)))
    }

    /// The name, lower case.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, function, _)| *function == self);
        found.map_or("", |(name, ..)| name)
    }
}

impl ColumnName {
    /// `schema.table.column`, as errors name it.
    pub fn qualified(&self) -> String {
        let parts = [&*self.schema, &*self.table, &*self.column];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_stays_compact() {
        assert!(size_of::<Expression>() <= 144, "{}", size_of::<Expression>());
    }
}
