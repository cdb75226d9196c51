//! Binding: from syntax with names to expressions with types.
//!
//! # Owns
//! [`Binder`], which binds the expressions of one query block: names, types, collations, arities,
//! to which block aggregates belong, the window functions that are met, folding of constants.
//! # Guarantees
//! What MySQL refuses while it resolves a statement is refused here, with the same error.
//! # Not here
//! Subqueries are planned by the [`Environment`]; which columns a grouped query may use is
//! checked by `grouping` when all is bound.

mod aggregate;
mod call;
mod literal;
mod names;
mod operator;
mod row;
mod window;

use std::sync::Arc;

use collation::CollationId;
use sql_parser::ast::{self, Expr, NamedWindow};
use sqltype::{Datum, SqlType, TypeKind};

pub use names::{OrderBy, Output};

use crate::context::{EvalContext, SessionFacts};
use crate::error::SqlError;
use crate::expression::{Call, Constancy, Expression, Node, SubqueryId};
use crate::function::{Function, Signature, signature};
use crate::pauses::{Pauses, STEP_BYTES, STEPS};
use crate::result_type::{Collating, ResultType, merge_collations};
use crate::scope::{Clause, Scope};
use crate::window::WindowCall;

/// To bind a node takes as long as to evaluate so many.
const NODE_STEPS: u64 = 16;

/// What a binder asks of the planner and the session.
pub trait Environment {
    /// The session, as far as types and constants depend on it.
    fn settings(&self) -> &BindSettings;

    /// The value of `@@name`.
    fn system_variable(&mut self, variable: &ast::SystemVariable) -> Result<Expression, SqlError>;

    /// What `@name` holds; `None` for a variable without value.
    fn user_variable(&mut self, name: &str) -> Option<ResultType>;

    /// Whether `@name` holds a text that says a value of this type, which has another order than
    /// texts have, or more digits than a floating-point number.
    fn is_variable_as(&mut self, name: &str, other: &SqlType) -> bool {
        let _ = (name, other);
        false
    }

    /// What the parameter holds, if values are given already.
    fn parameter(&mut self, number: u32) -> Option<ResultType>;

    /// How the parameter is compared with a value of this type.
    fn compared_parameter(&mut self, number: u32, other: &SqlType) -> ComparedParameter;

    /// The value of a parameter, where it decides what a comparison means; what is bound then is
    /// good for this execution only. `None` if the value is not known.
    fn fixed_parameter(&mut self, number: u32) -> Option<Expression> {
        let _ = number;
        None
    }

    /// Plans a subquery whose enclosing block has this scope. `exists`: all that counts is whether
    /// it has a row.
    fn subquery(
        &mut self,
        query: &ast::Query,
        scope: &Scope<'_>,
        exists: bool,
    ) -> Result<BoundSubquery, SqlError>;

    /// A number that no other part of the statement has.
    fn next_number(&mut self) -> u32;
}

/// As what a parameter is compared with something else.
#[derive(Clone, Debug)]
pub enum ComparedParameter {
    /// By its own type.
    AsItIs,
    /// As if it had the other operand's type: its value is not known yet, or means the same there.
    AsTheOther,
    /// As this constant: how it compares depends on its value.
    Constant(Expression),
}

/// What binding depends on beside names.
#[derive(Clone, Debug)]
pub struct BindSettings {
    /// The session: SQL mode, collation of the connection, database, limits.
    pub facts: Arc<SessionFacts>,
    /// The statement's time, for constants.
    pub now: i64,
    /// What is called now and then.
    pub pauses: Pauses,
}

/// A subquery that has been planned.
#[derive(Clone, Debug)]
pub struct BoundSubquery {
    /// Its number within the statement.
    pub id: SubqueryId,
    /// The types of its columns.
    pub columns: Vec<ResultType>,
    /// Whether it uses columns of enclosing blocks.
    pub correlated: bool,
}

/// Binds the expressions of one query block.
pub struct Binder<'b, 's> {
    scope: &'b Scope<'s>,
    environment: &'b mut dyn Environment,
    settings: BindSettings,
    clause: Clause,
    /// The select list, for names in HAVING, ORDER BY and GROUP BY.
    pub outputs: Vec<Output>,
    /// The GROUP BY list, for names in HAVING.
    pub group_by: Vec<Expression>,
    /// The window functions met so far; [`Node::Window`] has their places.
    pub windows: Vec<WindowCall>,
    /// The WINDOW clause.
    pub named_windows: Vec<NamedWindow>,
    /// The expressions are those of a query block, which computes aggregates and window functions.
    pub is_block: bool,
    /// The expressions are those of ON DUPLICATE KEY UPDATE: `VALUES(column)` has a meaning.
    pub updating_duplicates: bool,
    /// Something was bound to its current value that may have another when the statement is run
    /// again: a system variable, the kind of a user variable.
    pub bound_to_session: bool,
    /// Nodes bound since the last look at the time.
    steps: u64,
    in_aggregate: bool,
    in_window: bool,
    /// What is bound next is all of a condition, or an operand of its AND and OR.
    is_condition: bool,
    /// The window whose parts are being bound.
    window_name: Option<Box<str>>,
}

impl<'b, 's> Binder<'b, 's> {
    /// A binder for expressions over these tables.
    pub fn new(scope: &'b Scope<'s>, environment: &'b mut dyn Environment) -> Self {
        let settings = environment.settings().clone();
        Self {
            scope,
            environment,
            settings,
            clause: Clause::FieldList,
            outputs: Vec::new(),
            group_by: Vec::new(),
            windows: Vec::new(),
            named_windows: Vec::new(),
            is_block: false,
            updating_duplicates: false,
            bound_to_session: false,
            steps: 0,
            in_aggregate: false,
            in_window: false,
            is_condition: false,
            window_name: None,
        }
    }

    /// Binds an expression that is one value.
    pub fn bind(&mut self, expr: &Expr, clause: Clause) -> Result<Expression, SqlError> {
        let bound = self.bind_row(expr, clause)?;
        if bound.width() != 1 {
            return Err(SqlError::operand_columns(1));
        }
        Ok(bound)
    }

    /// Binds an expression that may be a row of values.
    pub fn bind_row(&mut self, expr: &Expr, clause: Clause) -> Result<Expression, SqlError> {
        let before = std::mem::replace(&mut self.clause, clause);
        self.is_condition = matches!(clause, Clause::Where | Clause::On);
        let bound = self.expr(expr);
        self.clause = before;
        bound
    }

    /// The scope that names are looked up in.
    pub fn scope(&self) -> &'b Scope<'s> {
        self.scope
    }

    /// An expression that is one value.
    fn value(&mut self, expr: &Expr) -> Result<Expression, SqlError> {
        let bound = self.expr(expr)?;
        if bound.width() != 1 {
            return Err(SqlError::operand_columns(1));
        }
        Ok(bound)
    }

    fn values(&mut self, list: &[Expr]) -> Result<Vec<Expression>, SqlError> {
        list.iter().map(|expr| self.value(expr)).collect()
    }

    fn expr(&mut self, expr: &Expr) -> Result<Expression, SqlError> {
        self.step()?;
        let is_condition = std::mem::take(&mut self.is_condition);
        match expr {
            Expr::And(list) => self.logical(list, true, is_condition),
            Expr::Or(list) => self.logical(list, false, is_condition),
            Expr::IsNull { operand, negated: false } if is_condition => {
                let operand = self.value(operand)?;
                Ok(self.null_or_zero_date(operand))
            }
            Expr::Literal(literal) => self.literal(literal),
            Expr::Column(name) => self.name(name),
            Expr::Parameter(number) => Ok(self.parameter(*number)),
            Expr::UserVariable(name) => Ok(self.user_variable(name)),
            Expr::SystemVariable(variable) => {
                self.bound_to_session = true;
                self.environment.system_variable(variable)
            }
            Expr::Assign { variable, value } => self.assign(variable, value),
            Expr::DefaultValue => Err(SqlError::of::<1221>(&[&"DEFAULT", &"expression"])),
            Expr::DefaultOf(name) => self.default_of(name),
            Expr::ValuesOf(name) => self.values_of(name),
            Expr::Row(list) => self.row(list),
            Expr::Subquery(query) => self.scalar_subquery(query),
            Expr::Exists(query) => self.exists(query),
            Expr::InQuery { operand, query, negated } => self.in_query(operand, query, *negated),
            Expr::Quantified { op, operand, quantifier, query } => {
                self.quantified(*op, operand, *quantifier, query)
            }
            Expr::Aggregate(call) if call.over.is_some() => self.window_aggregate(call),
            Expr::Aggregate(call) => self.aggregate(call),
            Expr::Window(call) => self.window_function(call),
            Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::IsNull { .. }
            | Expr::IsTruth { .. }
            | Expr::Like { .. }
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::Case(_)
            | Expr::Collate { .. } => self.operator(expr),
            _ => self.call(expr),
        }
    }

    /// Counts a node as bound, and pauses now and then.
    fn step(&mut self) -> Result<(), SqlError> {
        self.steps(NODE_STEPS)
    }

    /// The same for bytes that were copied or looked at.
    fn step_bytes(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.steps(bytes as u64 / STEP_BYTES)
    }

    fn steps(&mut self, steps: u64) -> Result<(), SqlError> {
        self.steps += steps;
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        self.settings.pauses.look()
    }

    fn connection(&self) -> CollationId {
        self.settings.facts.collation
    }

    /// A value that is computed once, here, if nothing it depends on can change. What fails or
    /// warns is left to be computed when, and if, it is needed.
    fn fold(&self, expression: Expression) -> Expression {
        // It may have other digits for the arithmetic around it than its type shows.
        if expression.has_more_digits() { expression } else { self.settle(expression) }
    }

    /// As [`Binder::fold`], where nothing is computed with the value any more.
    fn settle(&self, expression: Expression) -> Expression {
        if matches!(expression.node, Node::Constant(_) | Node::Row(_))
            || expression.constancy() != Constancy::Always
            || depends_on_today(&expression)
        {
            return expression;
        }
        let mut context = self.folding_context();
        match expression.eval(&[], &mut context) {
            Ok(value) if context.warnings.count == 0 => {
                Expression { node: Node::Constant(value), result: expression.result }
            }
            _ => expression,
        }
    }

    fn folding_context(&self) -> EvalContext {
        let mut context = EvalContext::new(self.settings.facts.clone(), self.settings.now, 0);
        // A large value is not kept with a plan.
        context.large_bytes_max = 0;
        context.pauses = self.settings.pauses.clone();
        context
    }

    /// The common collation of operands for the operation of this name.
    fn merge(
        &self,
        operation: &str,
        operands: &[&Expression],
        comparison: bool,
    ) -> Result<Collating, SqlError> {
        let connection = self.connection();
        let collatings: Vec<Collating> =
            operands.iter().map(|operand| operand.result.collating(connection)).collect();
        let merged = merge_collations(operation, &collatings, comparison)?;
        signature::check_constants(operation, operands, &collatings, merged)?;
        Ok(merged)
    }

    /// A call of a function of our tables, typed and folded.
    fn finish_call(
        &mut self,
        function: &'static Function,
        arguments: Vec<Expression>,
    ) -> Result<Expression, SqlError> {
        let call = self.typed_call(function, arguments)?;
        Ok(self.fold(call))
    }

    fn typed_call(
        &mut self,
        function: &'static Function,
        mut arguments: Vec<Expression>,
    ) -> Result<Expression, SqlError> {
        let mut signature = Signature::new(function, &mut arguments, &self.settings);
        let result = (function.derive)(&mut signature)?;
        let collation = signature.collation;
        let state = match function.name {
            "rand" => self.environment.next_number(),
            _ => 0,
        };
        let call = Call { function, arguments: arguments.into(), collation, state };
        Ok(Expression { node: Node::Call(Box::new(call)), result })
    }

    /// A call by the name the tables have.
    fn known_call(
        &mut self,
        name: &'static str,
        arguments: Vec<Expression>,
    ) -> Result<Expression, SqlError> {
        self.finish_call(Function::known(name), arguments)
    }

    fn text_constant(&self, text: &str) -> Expression {
        let collating = Collating::literal(self.connection(), text.is_ascii());
        let result = ResultType::text(text.chars().count() as u32, collating, false);
        Expression::constant(Datum::text(text), result)
    }
}

impl BindSettings {
    /// The settings of a session for a statement that begins now.
    pub fn new(facts: Arc<SessionFacts>, now: i64) -> Self {
        Self { facts, now, pauses: Pauses::default() }
    }
}

/// Whether a time of day is taken as one of today.
fn depends_on_today(expression: &Expression) -> bool {
    expression.any(&mut |part| match &part.node {
        Node::Call(call) => {
            call.arguments.iter().any(|argument| argument.sql_type().kind == TypeKind::Time)
        }
        Node::Cast(operand) => {
            let to_date = matches!(
                part.sql_type().kind,
                TypeKind::Date | TypeKind::DateTime | TypeKind::Year
            );
            to_date && operand.sql_type().kind == TypeKind::Time
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
