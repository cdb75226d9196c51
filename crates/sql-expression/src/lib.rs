//! MySQL's expressions: from syntax with names to values.
//!
//! # Owns
//! Binding (names become places in a row, operators get types and collations), evaluation, all
//! scalar functions, aggregates as state machines, the errors of SQL, and what of an expression the
//! kernel can evaluate for us.
//! # Guarantees
//! Evaluation is a pure function of row and context, never waits, and never panics on any input.
//! # Not here
//! Values and conversions (`sqltype`), syntax (`sql-parser`), running subqueries and everything
//! else that waits (`sql`).

mod aggregate;
mod binder;
mod comparison;
mod context;
mod convert;
mod error;
mod eval;
mod expression;
mod function;
mod grouping;
mod kernel;
mod key;
mod pauses;
mod print;
mod program;
mod result_type;
mod row_set;
mod scope;
mod sql_mode;
#[cfg(test)]
mod testing;
mod window;

pub use aggregate::{Accumulator, AggregateCall, SortKey};
pub use binder::{
    BindSettings, Binder, BoundSubquery, ComparedParameter, Environment, OrderBy, Output,
};
pub use comparison::Comparison;
pub use context::{EvalContext, LARGE, Level, SessionFacts, UserVariable, Warnings};
pub use error::{ERRORS, ErrorText, SqlError};
pub use expression::{
    Arithmetic, Between, BinaryOp, Branch, Call, Case, ColumnName, Compare, Constancy, Deferred,
    DeferredFunction, Expression, InList, Like, Needs, Node, RowQuantifier, SubqueryId,
    SubqueryKind, SubqueryUse,
};
pub use function::json::{base64, json_argument, json_scalar, opaque};
pub use function::signature::{common_type, number_of_bits};
pub use function::{BlockEncryption, Described, Function, Volatility, described, function_names};
pub use grouping::{Grouping, check_full_group_by};
pub use kernel::{KernelColumn, to_kernel, to_kernel_value};
pub use key::{compare_values, group_key, push_group_key, sort_prefix};
pub use pauses::Pauses;
pub use program::{Form, Obstacle, ProgramBuilder, ProgramColumn, datum_of, kind_of, short_text};
pub use result_type::{Coercibility, Collating, ResultType, merge_collations};
pub use row_set::RowSet;
pub use scope::{Clause, OuterColumn, Scope, ScopeColumn, ScopeTable, same_name};
pub use sql_mode::SqlMode;
pub use window::{Frame, FrameEnd, Window, WindowCall, WindowEvaluation, WindowKind, peers};
