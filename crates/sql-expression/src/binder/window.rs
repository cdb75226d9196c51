//! Window functions: bound and listed for the executor.

use sql_parser::ast::{
    self, AggregateFunction, FrameBound, FrameOffset, FrameUnit, Over, WindowFrame, WindowFunction,
    WindowSpec,
};
use sqltype::SqlType;
use sqltype::{Datum, TypeKind};

use super::Binder;
use crate::aggregate::{AggregateCall, SortKey};
use crate::comparison::Comparison;
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::function::signature::{self, number_of};
use crate::function::unit_number;
use crate::result_type::ResultType;
use crate::scope::Clause;
use crate::window::{Frame, FrameEnd, Window, WindowCall, WindowKind};

/// What errors call a window without a name.
const UNNAMED: &str = "<unnamed window>";

/// Most windows of a query block, named or not.
const WINDOWS_MAX: usize = 127;

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
        let count = match function {
            W::CumeDist | W::DenseRank | W::PercentRank | W::Rank | W::RowNumber => 0..=0,
            W::FirstValue | W::LastValue | W::Ntile => 1..=1,
            W::NthValue => 2..=2,
            W::Lag | W::Lead => 1..=3,
        };
        if !count.contains(&arguments.len()) {
            return Err(SqlError::of::<1582>(&[&function.name()]));
        }
        let number = match function {
            W::Ntile => arguments.first().map(|parts| (parts, 1)),
            W::NthValue => arguments.get(1).map(|place| (place, 1)),
            W::Lag | W::Lead => arguments.get(1).map(|distance| (distance, 0)),
            _ => None,
        };
        if let Some((number, least)) = number {
            let fits = match &number.node {
                Node::Constant(Datum::Int(number)) => *number >= least,
                Node::Constant(Datum::Null) => function == W::Ntile,
                Node::Parameter(_) | Node::UserVariable(_) => true,
                _ => false,
            };
            if !fits {
                return Err(SqlError::wrong_arguments(function.name()));
            }
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
        if let (Clause::WindowPartition | Clause::WindowOrder, Some(window)) =
            (self.clause, &self.window_name)
        {
            return Err(SqlError::of::<3595>(&[window]));
        }
        let allowed = matches!(self.clause, Clause::FieldList | Clause::OrderBy);
        if self.is_block && allowed && !self.in_aggregate && !self.in_window {
            return Ok(());
        }
        Err(SqlError::of::<3593>(&[&name]))
    }

    fn windowed(
        &mut self,
        kind: WindowKind,
        over: Option<&Over>,
        result: ResultType,
    ) -> Result<Expression, SqlError> {
        let window = match over {
            Some(Over::Name(name)) => self.named_window(name.as_str())?,
            Some(Over::Spec(spec)) => self.window(spec, UNNAMED)?,
            None => self.window(&WindowSpec::default(), UNNAMED)?,
        };
        let call = WindowCall { kind, window, result: result.clone() };
        let slot = match self.windows.iter().position(|known| *known == call) {
            Some(slot) if !call.expressions().any(super::names::is_volatile) => slot,
            _ => {
                self.windows.push(call);
                self.windows.len() - 1
            }
        };
        if self.windows.len() + self.named_windows.len() > WINDOWS_MAX {
            let what = format_args!("more than {WINDOWS_MAX} windows of a query block");
            return Err(SqlError::not_supported(what));
        }
        Ok(Expression { node: Node::Window(slot as u32), result })
    }

    /// Checks the WINDOW clause, also the windows that nothing uses.
    pub fn check_windows(&mut self) -> Result<(), SqlError> {
        let windows = self.named_windows.clone();
        for (at, window) in windows.iter().enumerate() {
            let name = window.name.as_str();
            let same = |other: &ast::NamedWindow| other.name.as_str().eq_ignore_ascii_case(name);
            if windows[..at].iter().any(same) {
                return Err(SqlError::of::<3591>(&[&name]));
            }
        }
        for window in &windows {
            self.window(&window.spec, window.name.as_str())?;
        }
        Ok(())
    }

    fn named_window(&mut self, name: &str) -> Result<Window, SqlError> {
        let found = self.find_window(name)?;
        self.window(&found.spec, found.name.as_str())
    }

    fn find_window(&self, name: &str) -> Result<ast::NamedWindow, SqlError> {
        let same = |window: &&ast::NamedWindow| window.name.as_str().eq_ignore_ascii_case(name);
        let found = self.named_windows.iter().find(same);
        found.cloned().ok_or_else(|| SqlError::of::<3579>(&[&name]))
    }

    /// A window with all it takes over from others, bound and checked.
    fn window(&mut self, spec: &WindowSpec, name: &str) -> Result<Window, SqlError> {
        let spec = self.inherit(spec, name, 0)?;
        let before = std::mem::replace(&mut self.in_window, true);
        let window_name = self.window_name.replace(name.into());
        let clause = self.clause;
        let bound = self.window_parts(&spec, name);
        (self.in_window, self.clause, self.window_name) = (before, clause, window_name);
        bound
    }

    fn window_parts(&mut self, spec: &WindowSpec, name: &str) -> Result<Window, SqlError> {
        let is_position =
            |expr: &ast::Expr| matches!(expr, ast::Expr::Literal(ast::Literal::Integer(_)));
        let mut sorted = spec.order_by.iter().map(|item| &item.expr).chain(&spec.partition_by);
        if sorted.any(is_position) {
            return Err(SqlError::of::<3592>(&[&name]));
        }
        self.clause = Clause::WindowPartition;
        let partition_by = self.values(&spec.partition_by)?;
        self.clause = Clause::WindowOrder;
        let mut order_by = Vec::with_capacity(spec.order_by.len());
        for item in &spec.order_by {
            let expression = self.value(&item.expr)?;
            order_by.push(SortKey { expression, descending: item.descending });
        }
        let frame = match &spec.frame {
            Some(frame) => self.frame(frame, &order_by, name)?,
            None => Frame {
                unit: FrameUnit::Range,
                start: FrameEnd::Unbounded,
                end: FrameEnd::CurrentRow,
                given: false,
            },
        };
        Ok(Window { name: name.into(), partition_by, order_by, frame })
    }

    /// The window with what it takes over from the one it is built on.
    fn inherit(&self, spec: &WindowSpec, name: &str, depth: usize) -> Result<WindowSpec, SqlError> {
        let Some(base) = &spec.base else { return Ok(spec.clone()) };
        if depth > self.named_windows.len() {
            return Err(SqlError::of::<3580>(&[]));
        }
        let found = self.find_window(base.as_str())?;
        let base_name = found.name.as_str();
        let base = self.inherit(&found.spec, base_name, depth + 1)?;
        if !spec.partition_by.is_empty() {
            return Err(SqlError::of::<3581>(&[]));
        }
        if !base.order_by.is_empty() && !spec.order_by.is_empty() {
            return Err(SqlError::of::<3583>(&[&name, &base_name]));
        }
        if base.frame.is_some() {
            return Err(SqlError::of::<3582>(&[&base_name]));
        }
        let order_by = if base.order_by.is_empty() { spec.order_by.clone() } else { base.order_by };
        let (partition_by, frame) = (base.partition_by, spec.frame.clone());
        Ok(WindowSpec { base: None, partition_by, order_by, frame })
    }

    fn frame(
        &mut self,
        frame: &WindowFrame,
        order_by: &[SortKey],
        name: &str,
    ) -> Result<Frame, SqlError> {
        use FrameBound::{
            CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding,
        };
        if frame.unit == FrameUnit::Groups {
            return Err(SqlError::not_supported("GROUPS"));
        }
        if frame.exclude.is_some() {
            return Err(SqlError::not_supported("EXCLUDE"));
        }
        let end = frame.end.as_ref().unwrap_or(&CurrentRow);
        match (&frame.start, end) {
            (UnboundedFollowing, _) => return Err(SqlError::of::<3584>(&[&name])),
            (_, UnboundedPreceding) => return Err(SqlError::of::<3585>(&[&name])),
            (CurrentRow, Preceding(_)) | (Following(_), CurrentRow | Preceding(_)) => {
                return Err(SqlError::of::<3586>(&[&name]));
            }
            _ => {}
        }
        let start = self.frame_end(&frame.start, frame.unit, order_by, name)?;
        let end = self.frame_end(end, frame.unit, order_by, name)?;
        Ok(Frame { unit: frame.unit, start, end, given: true })
    }

    fn frame_end(
        &mut self,
        bound: &FrameBound,
        unit: FrameUnit,
        order_by: &[SortKey],
        name: &str,
    ) -> Result<FrameEnd, SqlError> {
        let (offset, following) = match bound {
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => {
                return Ok(FrameEnd::Unbounded);
            }
            FrameBound::CurrentRow => return Ok(FrameEnd::CurrentRow),
            FrameBound::Preceding(offset) => (offset, false),
            FrameBound::Following(offset) => (offset, true),
        };
        let (FrameOffset::Value(value) | FrameOffset::Interval(value, _)) = offset;
        let amount = number_of(self.value(value)?);
        if amount.constancy() > crate::expression::Constancy::Execution
            || amount.needs() != Default::default()
        {
            return Err(SqlError::of::<3590>(&[&name]));
        }
        let known = amount.as_constant();
        let illegal = || SqlError::of::<3586>(&[&name]);
        if unit == FrameUnit::Rows {
            return match (offset, known) {
                (FrameOffset::Interval(..), _) => Err(SqlError::of::<3596>(&[&name])),
                (_, None | Some(Datum::Int(0..) | Datum::UInt(_))) => {
                    Ok(FrameEnd::Rows { count: amount, following })
                }
                _ => Err(illegal()),
            };
        }
        let [key] = order_by else { return Err(SqlError::of::<3587>(&[&name])) };
        if matches!(known, Some(Datum::Null)) {
            return Err(illegal());
        }
        let kind = &key.expression.sql_type().kind;
        match (offset, kind.is_temporal(), is_numeric(kind)) {
            (_, false, false) => Err(SqlError::of::<3587>(&[&name])),
            (FrameOffset::Value(_), true, _) => Err(SqlError::of::<3588>(&[&name])),
            (FrameOffset::Interval(..), false, _) => Err(SqlError::of::<3589>(&[&name])),
            (FrameOffset::Value(_), ..) => Ok(FrameEnd::Distance { distance: amount, following }),
            (FrameOffset::Interval(_, unit), ..) => {
                let subtract = following == key.descending;
                let function = if subtract { "date_sub" } else { "date_add" };
                let result = key.expression.result.clone();
                let unit = super::call::number(unit_number(*unit));
                let moment = Expression::column(0, Default::default(), result.clone());
                let moved = self.known_call(function, vec![moment, amount.clone(), unit])?;
                let comparison = Comparison::of_types(&result, &moved.result, self.connection())?;
                Ok(FrameEnd::Interval { amount, moved: Box::new(moved), comparison, following })
            }
        }
    }
}

fn is_numeric(kind: &TypeKind) -> bool {
    kind.is_number() || matches!(kind, TypeKind::Year | TypeKind::Bit)
}
