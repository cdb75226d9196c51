//! Expressions inside definitions: what they may contain, and which columns they read.
//!
//! # Owns
//! The walk over a syntax tree, and the checks of generated columns, defaults and CHECK
//! constraints.
//! # Not here
//! Evaluation (`sql-expression`).

use std::sync::Arc;

use sql_expression::{
    Binder, Clause, ColumnName, EvalContext, ResultType, Scope, ScopeColumn, ScopeTable, SqlError,
};
use sql_parser::ast::{BinaryOp, Expr, UnaryOp};

use super::constant::Constants;
use super::{CheckDefinition, ColumnDefault, ColumnDefinition, error};

/// Where an expression stands; each has its own words for what it must not contain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// GENERATED ALWAYS AS of this column.
    Generated(&'a str),
    /// DEFAULT of this column.
    Default(&'a str),
    /// The CHECK constraint of this name.
    Check(&'a str),
    /// The functional key of this name.
    Key(&'a str),
}

/// Refuses what an expression in a definition must not contain: subqueries, parameters, variables,
/// aggregates, rows as values, functions whose value is not decided by the row.
pub(crate) fn check(place: Place<'_>, expr: &Expr) -> Result<(), SqlError> {
    if let Expr::Row(_) = expr {
        return Err(match place {
            Place::Generated(column) => error::generated_row(column),
            Place::Default(column) => error::default_row(column),
            Place::Check(name) => error::check_row(name),
            Place::Key(name) => error::functional_row(name),
        });
    }
    let mut result = Ok(());
    walk(expr, &mut |expr| {
        if result.is_ok() {
            result = check_node(place, expr);
        }
    });
    result
}

fn check_node(place: Place<'_>, expr: &Expr) -> Result<(), SqlError> {
    match expr {
        Expr::UserVariable(_) | Expr::SystemVariable(_) | Expr::Assign { .. } => Err(match place {
            Place::Generated(column) => error::generated_variable(column),
            Place::Default(column) => error::default_variable(column),
            Place::Check(name) => error::check_variable(name),
            Place::Key(name) => error::functional_function(name),
        }),
        Expr::InQuery { .. }
        | Expr::Quantified { .. }
        | Expr::Exists(_)
        | Expr::Subquery(_)
        | Expr::Aggregate(_)
        | Expr::Window(_)
        | Expr::Match(_)
        | Expr::Parameter(_)
        | Expr::ValuesOf(_)
        | Expr::DefaultValue => Err(match place {
            Place::Generated(column) => error::generated_function(column),
            Place::Default(column) => error::default_function(column),
            Place::Check(name) => error::check_function(name),
            Place::Key(name) => error::functional_function(name),
        }),
        Expr::DefaultOf(_) if !matches!(place, Place::Default(_)) => {
            Err(disallowed(place, "default"))
        }
        Expr::Function(call) => {
            if is_disallowed(place, call.name.as_str()) {
                Err(disallowed(place, call.name.as_str()))
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

fn disallowed(place: Place<'_>, function: &str) -> SqlError {
    match place {
        Place::Generated(column) => error::generated_named_function(column, function),
        Place::Default(column) => error::default_named_function(column, function),
        Place::Check(name) => error::check_named_function(name, function),
        Place::Key(name) => error::functional_function(name),
    }
}

/// Functions that a definition must not call.
fn is_disallowed(place: Place<'_>, function: &str) -> bool {
    let never = matches!(
        function,
        "benchmark"
            | "found_rows"
            | "get_lock"
            | "icu_version"
            | "is_free_lock"
            | "is_used_lock"
            | "last_insert_id"
            | "load_file"
            | "master_pos_wait"
            | "name_const"
            | "nines_commit_receipt"
            | "release_all_locks"
            | "release_lock"
            | "row_count"
            | "sleep"
            | "source_pos_wait"
            | "statement_digest"
            | "statement_digest_text"
            | "wait_for_executed_gtid_set"
    );
    // A default is evaluated once, when the row is made: it may differ from row to row.
    let undecided = matches!(
        function,
        "connection_id"
            | "curdate"
            | "current_date"
            | "current_role"
            | "current_time"
            | "current_timestamp"
            | "current_user"
            | "curtime"
            | "database"
            | "localtime"
            | "localtimestamp"
            | "now"
            | "rand"
            | "random_bytes"
            | "schema"
            | "session_user"
            | "sysdate"
            | "system_user"
            | "user"
            | "utc_date"
            | "utc_time"
            | "utc_timestamp"
            | "uuid"
            | "uuid_short"
            | "version"
    );
    never || undecided && !matches!(place, Place::Default(_))
}

/// Binds every expression of a definition: unknown functions, wrong arguments and types that do not
/// go together are told when the table is made, not with its first row.
pub(crate) fn bind(
    table: &str,
    columns: &[ColumnDefinition],
    checks: &[CheckDefinition],
    context: &EvalContext,
) -> Result<(), SqlError> {
    let mut scope = Scope::new(None);
    let scoped = columns.iter().map(|column| scope_column(table, column));
    let columns_of_scope = scoped.collect();
    scope.add(ScopeTable {
        name: table.into(),
        columns: columns_of_scope,
        ..ScopeTable::default()
    });
    let mut constants = Constants::of(context);
    let mut binder = Binder::new(&scope, &mut constants);
    for column in columns {
        if let Some(generated) = &column.generated {
            binder.bind(&generated.expression, Clause::Definition)?;
        }
        if let ColumnDefault::Expression(expr) = &column.default {
            binder.bind(expr, Clause::Definition)?;
        }
    }
    for check in checks {
        binder.bind(&check.expression, Clause::Check)?;
        if !is_boolean(&check.expression) {
            return Err(error::check_not_boolean(&check.name));
        }
    }
    Ok(())
}

/// A column as expressions of its table's definition see it.
pub(crate) fn scope_column(table: &str, column: &ColumnDefinition) -> ScopeColumn {
    let (schema, table) = ("".into(), table.into());
    let name = ColumnName { schema, table, column: column.name.as_str().into() };
    let result = ResultType::column(column.sql_type.clone(), column.nullable);
    let default = match &column.default {
        ColumnDefault::Value(value) => Some(value.clone()),
        _ => None,
    };
    ScopeColumn { default, ..ScopeColumn::new(Arc::new(name), result) }
}

/// Whether an expression is a condition: its values are true and false, not numbers taken for such.
fn is_boolean(expr: &Expr) -> bool {
    match expr {
        Expr::And(_)
        | Expr::Or(_)
        | Expr::IsNull { .. }
        | Expr::IsTruth { .. }
        | Expr::Like { .. }
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::MemberOf { .. } => true,
        Expr::Unary { op, .. } => *op == UnaryOp::Not,
        Expr::Binary { op, .. } => op.is_comparison() || *op == BinaryOp::Xor,
        Expr::Function(call) => matches!(
            call.name.as_str(),
            "is_ipv4"
                | "is_ipv4_compat"
                | "is_ipv4_mapped"
                | "is_ipv6"
                | "is_uuid"
                | "isnull"
                | "json_contains"
                | "json_contains_path"
                | "json_overlaps"
                | "json_schema_valid"
                | "json_valid"
                | "regexp_like"
        ),
        _ => false,
    }
}

/// Whether the expression reads a column of this name.
pub(crate) fn reads(expr: &Expr, column: &str) -> bool {
    columns(expr).iter().any(|name| sql_expression::same_name(name, column))
}

/// Names of the columns that the expression reads, in the order they stand.
pub(crate) fn columns(expr: &Expr) -> Vec<&str> {
    let mut names = Vec::new();
    walk(expr, &mut |expr| {
        if let Expr::Column(column) | Expr::DefaultOf(column) = expr {
            names.push(column.column.as_str());
        }
    });
    names
}

/// Takes the qualifiers from columns: `t.a` in a definition of `t` is `a`, and stays so when the
/// table is renamed. The first column of another table is the error.
pub(crate) fn unqualify(expr: &mut Expr, table: &str) -> Result<(), String> {
    let mut foreign = None;
    walk_mut(expr, &mut |expr| {
        if let Expr::Column(column) | Expr::DefaultOf(column) = expr
            && let Some(qualifier) = column.table.take()
            && qualifier.name.as_str() != table
        {
            foreign.get_or_insert_with(|| format!("{qualifier}.{}", column.column));
        }
    });
    foreign.map_or(Ok(()), Err)
}

/// A walk over shared or exclusive references: the same tree, so the same arms.
macro_rules! walker {
    ($(#[$doc:meta])* $walk:ident [$($life:tt)*] $expr:ty, $($exclusive:ident)?) => {
        $(#[$doc])*
        #[expect(clippy::too_many_lines, reason = "an arm for each kind of expression")]
        pub(crate) fn $walk $($life)*(expr: $expr, visit: &mut dyn FnMut($expr)) {
            visit(expr);
            match expr {
                Expr::Literal(_)
                | Expr::Column(_)
                | Expr::Parameter(_)
                | Expr::UserVariable(_)
                | Expr::SystemVariable(_)
                | Expr::DefaultValue
                | Expr::DefaultOf(_)
                | Expr::ValuesOf(_)
                | Expr::Exists(_)
                | Expr::Subquery(_)
                | Expr::Match(_) => {}
                Expr::Assign { value: operand, .. }
                | Expr::Unary { operand, .. }
                | Expr::IsNull { operand, .. }
                | Expr::IsTruth { operand, .. }
                | Expr::InQuery { operand, .. }
                | Expr::Quantified { operand, .. }
                | Expr::Cast { operand, .. }
                | Expr::ConvertUsing { operand, .. }
                | Expr::Collate { operand, .. }
                | Expr::Extract { operand, .. }
                | Expr::WeightString { operand, .. }
                | Expr::GetFormat { locale: operand, .. } => $walk(operand, visit),
                Expr::Binary { left, right, .. }
                | Expr::MemberOf { operand: left, array: right }
                | Expr::DateArithmetic { operand: left, amount: right, .. }
                | Expr::TimestampAdd { operand: left, amount: right, .. }
                | Expr::TimestampDiff { from: left, to: right, .. } => {
                    $walk(left, visit);
                    $walk(right, visit);
                }
                Expr::And(operands) | Expr::Or(operands) | Expr::Row(operands)
                | Expr::Char { arguments: operands, .. } => {
                    for operand in operands {
                        $walk(operand, visit);
                    }
                }
                Expr::Like { operand, pattern, escape, .. } => {
                    $walk(operand, visit);
                    $walk(pattern, visit);
                    if let Some(escape) = escape {
                        $walk(escape, visit);
                    }
                }
                Expr::Between { operand, low, high, .. } => {
                    $walk(operand, visit);
                    $walk(low, visit);
                    $walk(high, visit);
                }
                Expr::InList { operand, list, .. } => {
                    $walk(operand, visit);
                    for value in list {
                        $walk(value, visit);
                    }
                }
                Expr::Case(case) => {
                    if let Some(operand) = & $($exclusive)? case.operand {
                        $walk(operand, visit);
                    }
                    for (when, then) in & $($exclusive)? case.branches {
                        $walk(when, visit);
                        $walk(then, visit);
                    }
                    if let Some(otherwise) = & $($exclusive)? case.otherwise {
                        $walk(otherwise, visit);
                    }
                }
                Expr::Trim { pattern, operand, .. } => {
                    if let Some(pattern) = pattern {
                        $walk(pattern, visit);
                    }
                    $walk(operand, visit);
                }
                Expr::JsonValue(value) => $walk(& $($exclusive)? value.document, visit),
                Expr::Function(call) => {
                    for argument in & $($exclusive)? call.arguments {
                        $walk(argument, visit);
                    }
                }
                Expr::Aggregate(call) => {
                    for argument in & $($exclusive)? call.arguments {
                        $walk(argument, visit);
                    }
                }
                Expr::Window(call) => {
                    for argument in & $($exclusive)? call.arguments {
                        $walk(argument, visit);
                    }
                }
            }
        }
    };
}

walker! {
    /// Calls `visit` with the expression and everything in it, outer before inner. What stands
    /// inside subqueries is not visited.
    walk [<'a>] &'a Expr,
}

walker! {
    /// As [`walk`], to change what is visited.
    walk_mut [] &mut Expr, mut
}
