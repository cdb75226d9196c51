//! Window functions: bound and listed for the executor.

use sql_parser::ast::{
    self, AggregateFunction, FrameBound, FrameOffset, Over, WindowFunction, WindowSpec,
};
use sqltype::{Datum, SqlType};

use super::Binder;
use crate::aggregate::{AggregateCall, SortKey};
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::function::signature;
use crate::result_type::ResultType;
use crate::scope::Clause;

/// A window function with its window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// What is computed.
    pub kind: WindowKind,
    /// The rows of a partition are those with the same values.
    pub partition_by: Vec<Expression>,
    /// The order within a partition.
    pub order_by: Vec<SortKey>,
    /// The frame, if given.
    pub frame: Option<ast::WindowFrame>,
    /// The type of the result.
    pub result: ResultType,
}

/// What a window function computes.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowKind {
    /// An aggregate over the frame.
    Aggregate(Box<AggregateCall>),
    /// A function that only exists with OVER.
    Function(WindowFunction, Vec<Expression>),
}

impl WindowKind {
    /// The function's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Aggregate(call) => call.function.name(),
            Self::Function(function, _) => function.name(),
        }
    }
}

impl Binder<'_, '_> {
    pub(super) fn window_aggregate(
        &mut self,
        call: &ast::AggregateCall,
    ) -> Result<Expression, SqlError> {
        self.check_window_place(call.function.name())?;
        if call.distinct {
            return Err(SqlError::not_supported("<window function>(DISTINCT ..)"));
        }
        if matches!(call.function, AggregateFunction::GroupConcat) {
            return Err(SqlError::not_supported("group_concat as window function"));
        }
        let before = std::mem::replace(&mut self.in_window, true);
        let bound = self.window_aggregate_call(call);
        self.in_window = before;
        let aggregate = bound?;
        let result = aggregate.result.clone();
        let kind = WindowKind::Aggregate(Box::new(aggregate));
        self.windowed(kind, call.over.as_ref(), result)
    }

    /// Its arguments may hold aggregates of the query, which a plain aggregate's may not.
    fn window_aggregate_call(
        &mut self,
        call: &ast::AggregateCall,
    ) -> Result<AggregateCall, SqlError> {
        let arguments = self.values(&call.arguments)?;
        let facts = self.settings.facts.clone();
        AggregateCall::derive(call.function, false, arguments, Vec::new(), None, &facts)
    }

    pub(super) fn window_function(
        &mut self,
        call: &ast::WindowCall,
    ) -> Result<Expression, SqlError> {
        self.check_window_place(call.function.name())?;
        if call.from_last {
            return Err(SqlError::not_supported("FROM LAST"));
        }
        if call.ignore_nulls {
            return Err(SqlError::not_supported("IGNORE NULLS"));
        }
        let before = std::mem::replace(&mut self.in_window, true);
        let arguments = self.values(&call.arguments);
        self.in_window = before;
        let arguments = arguments?;
        let result = self.window_result(call.function, &arguments)?;
        let kind = WindowKind::Function(call.function, arguments);
        self.windowed(kind, Some(&call.over), result)
    }

    fn window_result(
        &self,
        function: WindowFunction,
        arguments: &[Expression],
    ) -> Result<ResultType, SqlError> {
        use WindowFunction as W;
        let wrong = || SqlError::of(1582, &[&function.name()]);
        let count = match function {
            W::CumeDist | W::DenseRank | W::PercentRank | W::Rank | W::RowNumber => 0..=0,
            W::FirstValue | W::LastValue | W::Ntile => 1..=1,
            W::NthValue => 2..=2,
            W::Lag | W::Lead => 1..=3,
        };
        if !count.contains(&arguments.len()) {
            return Err(wrong());
        }
        let offset_fits = |at: usize| match arguments.get(at).map(|offset| &offset.node) {
            Some(Node::Constant(Datum::Int(offset))) => *offset >= 0,
            Some(Node::Constant(_)) => false,
            _ => true,
        };
        let offset = if function == W::Ntile { 0 } else { 1 };
        let has_offset = matches!(function, W::Ntile | W::NthValue | W::Lag | W::Lead);
        if has_offset && !offset_fits(offset) {
            return Err(SqlError::wrong_arguments(function.name()));
        }
        Ok(match function {
            W::CumeDist | W::PercentRank => ResultType::of(SqlType::double(), false),
            W::DenseRank | W::Rank | W::RowNumber => {
                ResultType::of(SqlType::unsigned_big_int(), false)
            }
            W::Ntile => ResultType::of(SqlType::unsigned_big_int(), true),
            W::FirstValue | W::LastValue | W::NthValue => {
                Self::nullable(arguments[0].result.clone())
            }
            W::Lag | W::Lead => {
                let types: Vec<&ResultType> =
                    arguments.iter().step_by(2).map(|part| &part.result).collect();
                Self::nullable(signature::common_type(function.name(), &types, self.connection())?)
            }
        })
    }

    /// Window functions stand in the select list and in ORDER BY only.
    fn check_window_place(&self, name: &str) -> Result<(), SqlError> {
        let allowed = matches!(self.clause, Clause::FieldList | Clause::OrderBy);
        if allowed && !self.in_aggregate && !self.in_window {
            return Ok(());
        }
        Err(SqlError::of(3593, &[&name]))
    }

    fn windowed(
        &mut self,
        kind: WindowKind,
        over: Option<&Over>,
        result: ResultType,
    ) -> Result<Expression, SqlError> {
        let spec = match over {
            Some(Over::Name(name)) => self.named_window(name.as_str())?,
            Some(Over::Spec(spec)) => self.inherit(spec, 0)?,
            None => WindowSpec::default(),
        };
        let before = std::mem::replace(&mut self.in_window, true);
        let clause = std::mem::replace(&mut self.clause, Clause::Window);
        let keys = self.window_keys(&spec);
        (self.in_window, self.clause) = (before, clause);
        let (partition_by, order_by) = keys?;
        if let Some(frame) = &spec.frame {
            check_frame(frame)?;
        }
        let call =
            WindowCall { kind, partition_by, order_by, frame: spec.frame, result: result.clone() };
        self.windows.push(call);
        let node = Node::Window(self.windows.len() as u32 - 1);
        Ok(Expression { node, result })
    }

    fn window_keys(
        &mut self,
        spec: &WindowSpec,
    ) -> Result<(Vec<Expression>, Vec<SortKey>), SqlError> {
        let partition_by = self.values(&spec.partition_by)?;
        let mut order_by = Vec::with_capacity(spec.order_by.len());
        for item in &spec.order_by {
            let expression = self.value(&item.expr)?;
            order_by.push(SortKey { expression, descending: item.descending });
        }
        Ok((partition_by, order_by))
    }

    fn named_window(&self, name: &str) -> Result<WindowSpec, SqlError> {
        let found = self.named_windows.iter().find(|window| window.name.eq_ignore_ascii_case(name));
        let found = found.ok_or_else(|| SqlError::of(3579, &[&name]))?;
        self.inherit(&found.spec, 0)
    }

    /// The window with what it takes over from the one it is built on.
    fn inherit(&self, spec: &WindowSpec, depth: usize) -> Result<WindowSpec, SqlError> {
        let Some(base) = &spec.base else { return Ok(spec.clone()) };
        let name = base.as_str();
        if depth > self.named_windows.len() {
            return Err(SqlError::of(3580, &[]));
        }
        let found = self.named_windows.iter().find(|window| window.name.eq_ignore_ascii_case(name));
        let found = found.ok_or_else(|| SqlError::of(3579, &[&name]))?;
        let base = self.inherit(&found.spec, depth + 1)?;
        let order_by = match base.order_by.is_empty() {
            true => spec.order_by.clone(),
            false => base.order_by,
        };
        Ok(WindowSpec {
            base: None,
            partition_by: base.partition_by,
            order_by,
            frame: spec.frame.clone(),
        })
    }
}

/// Offsets of frames are constants and not negative.
fn check_frame(frame: &ast::WindowFrame) -> Result<(), SqlError> {
    if frame.exclude.is_some() {
        return Err(SqlError::not_supported("EXCLUDE"));
    }
    for bound in [Some(&frame.start), frame.end.as_ref()].into_iter().flatten() {
        if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
            let constant = match offset {
                FrameOffset::Value(value) | FrameOffset::Interval(value, _) => value,
            };
            if !matches!(constant, ast::Expr::Literal(_) | ast::Expr::Parameter(_)) {
                return Err(SqlError::not_supported("frame bounds that are no constants"));
            }
        }
    }
    Ok(())
}
