//! Statements that read and change rows.
//!
//! # Owns
//! The entry points; everything below runs what `plan` has made.
//! # Guarantees
//! A statement that fails has changed nothing that the dispatcher cannot undo by its savepoint.
//! # Not here
//! Definitions (`ddl`), variables, SHOW.

pub(crate) mod checks;
pub(crate) mod columns;
mod computed;
pub(crate) mod cursor;
mod direct;
pub(crate) mod dry_run;
mod generate;
pub(crate) mod insert;
pub(crate) mod joined;
mod json_table;
pub(crate) mod kept;
pub(crate) mod large;
pub(crate) mod load;
pub(crate) mod observe;
mod outfile;
pub(crate) mod point;
pub(crate) mod pushdown;
pub(crate) mod recursion;
pub(crate) mod reference;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod scan;
mod separators;
pub(crate) mod snapshot;
pub(crate) mod spilled;
pub(crate) mod statement_plan;
mod subquery;
pub(crate) mod update;
pub(crate) mod window;

use std::rc::Rc;

use model::TableId;
use sql_expression::{Binder, Clause, Scope, SqlError};
use sql_parser::ast::{self, Expr};
use sqltype::Datum;

pub(crate) use insert::insert;
pub(crate) use load::load_data;
pub(crate) use update::{delete, update};

use crate::execute::direct::Direct;
use crate::execute::dry_run::DryRun;
use crate::execute::kept::Kept;
use crate::execute::run::Run;
use crate::execute::statement_plan::{PlanKind, StatementPlan};
use crate::logical::formula::Formula;
use crate::logical::parameter;
use crate::plan::operator::QueryPlan;
use crate::plan::planner::Planner;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;
use crate::statistics;

/// Runs a query and writes its rows.
pub(crate) async fn query(
    session: &mut Session,
    query: &ast::Query,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    session.refresh_statistics(query).await;
    let (plan, _) = plan_by_sizes(session, query, parameters).await?;
    run_once(session, query, &plan, parameters, out).await
}

/// Runs a query by a plan that was made for this execution.
pub(crate) async fn run_once(
    session: &mut Session,
    query: &ast::Query,
    plan: &Rc<QueryPlan>,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    match &query.into {
        None => run_query(session, plan, parameters, out).await,
        Some(ast::IntoTarget::Variables(variables)) => {
            into_variables(session, plan, parameters, variables).await
        }
        Some(file) => outfile::into_file(session, plan, parameters, file).await,
    }
}

/// A plan; and the same to be kept, if it may be used again.
type Planned = (Rc<QueryPlan>, Option<StatementPlan>);

/// Plans a query, by the sizes of its tables if it has several.
pub(crate) async fn plan_by_sizes(
    session: &Session,
    query: &ast::Query,
    parameters: &[Datum],
) -> Result<Planned, SqlError> {
    let (planned, tables) = plan_with_tables(session, query, parameters)?;
    // Which tables a query reads is known when it is planned.
    if statistics::joins(&query.body) && session.learn_sizes(tables).await {
        return plan_query(session, query, parameters);
    }
    Ok(planned)
}

/// Plans a query by the sizes that are known.
pub(crate) fn plan_query(
    session: &Session,
    query: &ast::Query,
    parameters: &[Datum],
) -> Result<Planned, SqlError> {
    plan_with_tables(session, query, parameters).map(|(planned, _)| planned)
}

/// Plans a query; the stored tables that the plan depends on.
fn plan_with_tables(
    session: &Session,
    query: &ast::Query,
    parameters: &[Datum],
) -> Result<(Planned, Vec<TableId>), SqlError> {
    let mut planner = Planner::new(session, parameters);
    let plan = Rc::new(planner.query(query)?);
    let tables = planner.binding.tables.iter().map(|(table, _)| *table).collect();
    let kept = if planner.binding.once || query.into.is_some() {
        None
    } else {
        let kind = match point::select(&plan) {
            Some(point) => PlanKind::Point(Box::new(point)),
            None => PlanKind::Query(plan.clone()),
        };
        Some(StatementPlan::new(planner, kind, parameter::kinds(parameters)))
    };
    Ok(((plan, kept), tables))
}

/// Runs a planned query and writes its rows.
pub(crate) async fn run_query(
    session: &mut Session,
    plan: &Rc<QueryPlan>,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let limit = session.variables.sql_select_limit;
    check_pushdown(session, plan, parameters)?;
    let held = snapshot::hold(session, plan).await?;
    let mut run = Run::new(session, parameters);
    run.add_subplans(&plan.subqueries);
    if plan.counts_found_rows {
        run.unlimited_rows = Some(0);
    }
    let written = match Direct::of(plan, out) {
        Some(direct) => direct.write(&mut run, limit, out).await,
        None => write_rows(&mut run, plan, limit, out).await,
    };
    let unlimited = run.unlimited_rows;
    run.finish();
    snapshot::release(session, held);
    let written = written?;
    let found = unlimited.unwrap_or(written);
    if !out.is_started() {
        out.kept_columns(plan.kept_columns());
    }
    session.found_rows = found;
    Ok(Outcome::Rows)
}

/// Writes the rows of a query, at most `limit`; how many were written.
async fn write_rows(
    run: &mut Run<'_>,
    plan: &QueryPlan,
    limit: u64,
    out: &mut ResultWriter,
) -> Result<u64, SqlError> {
    let mut cursor = cursor::open(&plan.root);
    let mut written = 0;
    while let Some(rows) = cursor.next(run).await? {
        if !out.is_started() {
            out.kept_columns(plan.kept_columns());
        }
        for row in rows {
            if written < limit {
                out.row(&row);
                written += 1;
                if out.is_full() {
                    out.drain().await;
                }
            }
        }
        out.drain().await;
        if written >= limit && !plan.counts_found_rows || out.is_unwanted() {
            break;
        }
    }
    Ok(written)
}

/// With `nines_require_pushdown`: refuses a query of which the SQL node would compute what is for
/// the data nodes to compute.
pub(crate) fn check_pushdown(
    session: &mut Session,
    plan: &QueryPlan,
    parameters: &[Datum],
) -> Result<(), SqlError> {
    if !session.variables.require_pushdown {
        return Ok(());
    }
    let mut run = Run::new(session, parameters);
    let dry_run = DryRun::new(&mut run, plan);
    let verdict = dry_run.require(&run, plan);
    run.dismiss();
    verdict
}

async fn into_variables(
    session: &mut Session,
    plan: &Rc<QueryPlan>,
    parameters: &[Datum],
    variables: &[ast::IntoVariable],
) -> Result<Outcome, SqlError> {
    if variables.len() != plan.columns.len() {
        return Err(SqlError::of::<1222>(&[]));
    }
    check_pushdown(session, plan, parameters)?;
    let held = snapshot::hold(session, plan).await?;
    let mut run = Run::new(session, parameters);
    let rows = run.rows_of(plan, Some(2)).await;
    run.finish();
    snapshot::release(session, held);
    let Kept { mut rows, held: _held } = rows?;
    if rows.len() > 1 {
        return Err(SqlError::of::<1172>(&[]));
    }
    let Some(row) = rows.pop() else {
        session.note_warning(SqlError::of::<1329>(&[]));
        return Ok(Outcome::default());
    };
    for ((variable, value), result) in variables.iter().zip(row).zip(&plan.results) {
        let ast::IntoVariable::User(name) = variable else {
            return Err(SqlError::not_supported("stored routines"));
        };
        let variable = crate::session::evaluation::user_variable(value, result.sql_type.collation);
        session.user_variables.insert(name.as_str().to_lowercase(), variable);
    }
    Ok(Outcome::affected(1))
}

/// The value of an expression that depends on no table.
pub(crate) async fn value(
    session: &mut Session,
    expr: &Expr,
    parameters: &[Datum],
) -> Result<Datum, SqlError> {
    session.pauses.look()?;
    let mut planner = Planner::new(session, parameters);
    let scope = Scope::new(None);
    let expression = Binder::new(&scope, &mut planner.binding).bind(expr, Clause::Value)?;
    let subplans = planner.take_subplans(&[])?;
    let formula = Formula::new(expression);
    let mut run = Run::new(session, parameters);
    run.add_subplans(&subplans);
    let value = run.scalar(&formula).await;
    run.finish();
    value
}

/// DO.
pub(crate) async fn do_(
    session: &mut Session,
    expressions: &[Expr],
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    for expr in expressions {
        value(session, expr, parameters).await?;
    }
    Ok(Outcome::default())
}
