//! From a statement to the module that runs it; what is common to all of them.
//!
//! # Owns
//! The undoing of a statement that fails, running an autocommit
//! statement again after a temporary refusal, counters and diagnostics.
//! # Guarantees
//! A statement is answered once. It is run again only when nobody has seen anything of it and it
//! was a transaction of its own.
//! # Not here
//! Packets (`connection`); which statements commit implicitly and the like (`traits`); what they
//! need (`authorize`).

mod named;

use std::rc::Rc;

use mysql_wire::constants::capability;
use sql_expression::SqlError;
use sql_parser::ast::{self, Statement};
use sqltype::Datum;
use stdx::Duration;

use crate::error::{of_parser, unexpected, unsupported};
use crate::execute::statement_plan::{PlanKind, StatementPlan};
use crate::kernel::Interrupt;
use crate::prepared::{self, Prepared};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::{Level, Session};
use crate::traits::{Place, Traits, Writes};
use crate::variables::hint::Before;
use crate::{account_change, administration, audit, authorize, backup, binlog, ddl, execute, show};

/// How often an autocommit statement is run again.
const RERUNS_MAX: u32 = 10;
/// How long attempts may have taken before a statement is not run again: one that has failed so
/// slowly finds nobody, as the statement of a node that is cut off.
const RERUN_TIME: Duration = Duration::from_secs(10);
/// The pause before a statement is run again; it doubles.
const RERUN_PAUSE: Duration = Duration::from_millis(1);

/// Runs a prepared statement to its end. The process list shows it as `shown`, unless that is what
/// another statement does.
pub(crate) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    parameters: &[Datum],
    out: &mut ResultWriter,
    shown: Option<&[u8]>,
) -> Result<Outcome, SqlError> {
    let audited = session.begin_audit(prepared.traits());
    let before = begin(session, prepared, shown);
    let result = run_counted(session, prepared, parameters, shown.is_some(), out).await;
    finish(session, &result);
    session.drop_hints(before);
    if let Some(audited) = audited {
        let code = result.as_ref().err().map_or(0, SqlError::code);
        Box::pin(session.audit(&audited, prepared, shown, code)).await;
    }
    result
}

/// Whether a statement may ask for `gtid_executed`: reading them takes a while.
fn may_ask_for_gtids(text: &str) -> bool {
    const LONGEST: usize = 4_096;
    let has = |word: &str| {
        let mut parts = text.as_bytes().windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    text.len() <= LONGEST && (has("gtid_") || has("variables"))
}

/// Runs a statement that has begun; an outer one is no part of another one.
async fn run_counted(
    session: &mut Session,
    prepared: &Prepared,
    parameters: &[Datum],
    is_outer: bool,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    session.count_use(prepared.traits(), is_outer)?;
    session.tell_lost_transaction(prepared)?;
    session.renew_claim().await;
    if session.shared.abandoned.is_due(session.kernel.now()) {
        Box::pin(ddl::sweep_copies(session)).await;
        Box::pin(backup::sweep_restores(session)).await;
    }
    if session.kernel.keeps_binlog() && may_ask_for_gtids(prepared.text()) {
        session.gtids = Box::pin(binlog::gtids(session)).await?;
    }
    let mut attempt = 0;
    let mut at_work = Duration::ZERO;
    let mut caught_up = false;
    // What was there before the statement stands.
    let mut whole = true;
    let result = loop {
        let mark = session.mark();
        let autocommit = session.autocommits();
        let began = session.kernel.now();
        let result = attempt_once(session, prepared, parameters, out).await;
        let Err(error) = result else { break result };
        at_work = at_work + session.kernel.now().since(began);
        if session.kernel.interrupted().is_some() && session.kernel.is_in_transaction() {
            // A request of it may be under way in the kernel: the whole transaction goes.
            whole &= session.abandon(mark);
        } else {
            whole &= session.undo(mark).await;
        }
        if !caught_up && is_about_names(&error) && !out.is_started() {
            caught_up = true;
            if session.catch_up().await {
                session.diagnostics.clear();
                continue;
            }
        }
        // A transaction that begins with a statement of an old definition has done nothing, and may
        // begin anew; one that has a snapshot has to see what is in it.
        let begins = error.code() == 1412 && session.transaction.snapshot.is_none();
        let again = (autocommit || begins) && !mark.is_in_transaction() && !out.is_started();
        if !(again && is_temporary(&error) && attempt < RERUNS_MAX && at_work < RERUN_TIME) {
            break Err(error);
        }
        attempt += 1;
        if !autocommit {
            // The locks it has taken would be in the way of whoever is waited for.
            session.kernel.abort().await;
        }
        // A table that is being rebuilt takes no writes: when it does again, its definition is new.
        if let Err(late) = ddl::wait_for_writes(session, &error).await {
            break Err(late);
        }
        session.diagnostics.clear();
        let pause = Duration::from_nanos(RERUN_PAUSE.as_nanos() << attempt.min(6));
        if session.kernel.sleep(pause).await.is_err() {
            break Err(error);
        }
    };
    if let Err(error) = &result
        && !whole
        && !ends_transaction(error)
    {
        session.lose_transaction();
    }
    if let Err(error) = session.drop_going().await {
        session.note(error);
    }
    // Also what a statement had committed before it failed is not answered for before.
    let secured = session.secure().await;
    let result = result.and_then(|outcome| secured.map(|()| outcome));
    let kept_max = session.variables.max_error_count as usize;
    session.diagnostics.put_first(session.hint_warnings.take(), kept_max);
    result
}

/// Runs the statement at a place of a text; where the next one begins.
pub(crate) async fn run_text(
    session: &mut Session,
    text: &[u8],
    at: usize,
    out: &mut ResultWriter,
) -> (Result<Outcome, SqlError>, Option<usize>) {
    if at == 0
        && let Some((prepared, parameters)) = prepared::session::find(session, text)
    {
        return (run(session, &prepared, &parameters, out, Some(text)).await, None);
    }
    match session.parse_at(text, at) {
        Ok(parsed) => {
            let own = &text[at..parsed.end];
            if parsed.parameter_count > 0 {
                let marker = own.iter().position(|byte| *byte == b'?');
                let marker = marker.map_or(0, |place| at + place);
                return (Err(unexpected(&text[marker..])), None);
            }
            let many = out.has(capability::MULTI_STATEMENTS);
            let next = parsed.next.or(parsed.remark.filter(|_| many));
            let prepared = Prepared::of_parsed(parsed);
            (run(session, &prepared, &[], out, Some(own)).await, next)
        }
        Err(error) => {
            let error = of_parser(&error);
            session.diagnostics.clear();
            finish(session, &Err(error.clone()));
            session.audit_nonsense(&error).await;
            (Err(error), None)
        }
    }
}

/// The columns of a statement's result; none when it has no rows, or what they are is known only
/// when it is run.
pub(crate) async fn describe(
    session: &mut Session,
    prepared: &Prepared,
) -> Result<Vec<ResultColumn>, SqlError> {
    authorize::allow(session, prepared)?;
    match prepared.statement() {
        Statement::Query(query) => {
            let (plan, _) = execute::plan_query(session, query, &[])?;
            Ok(if query.into.is_none() { plan.columns.clone() } else { Vec::new() })
        }
        statement if prepared.traits().place == Place::Planned => {
            // Names that are not known are told now, not when it is run.
            let (plan, _) = StatementPlan::of_change(session, statement, &[])?;
            if matches!(plan.kind, PlanKind::General) {
                execute::update::check(session, statement)?;
            }
            Ok(Vec::new())
        }
        Statement::Show(show) => show::columns_of_show(session, show).await,
        Statement::Describe(describe) => show::columns_of_describe(session, describe).await,
        _ => Ok(Vec::new()),
    }
}

fn begin(session: &mut Session, prepared: &Prepared, shown: Option<&[u8]>) -> Before {
    let traits = prepared.traits();
    let before = session.take_hints(prepared.hints());
    session.statement_began = session.kernel.now();
    session.kernel.clear_interrupt();
    // Zero is no limit of the statement's own.
    let own = prepared.hints().and_then(|hints| hints.execution_time).filter(|time| *time > 0);
    let most = own.map_or(session.variables.max_execution_time, u64::from);
    let limited = most > 0 && traits.is_query;
    session.kernel.begin_statement(limited.then(|| Duration::from_millis(most)));
    session
        .memory
        .begin(session.variables.connection_memory_limit, session.variables.operator_memory);
    session.memory.temp().begin(session.variables.temp_space);
    session.kernel.limit_lock_waits(Duration::from_secs(session.variables.row_lock_wait));
    if !traits.is_diagnostic {
        session.diagnostics.clear();
    }
    let statement = prepared.statement();
    let is_secret = matches!(
        statement,
        Statement::Backup(_)
            | Statement::Restore(_)
            | Statement::StartArchive(_)
            | Statement::ChangeSource(_)
    );
    if (traits.place == Place::Account || is_secret)
        && let Some(text) = shown
    {
        // Others see the list of processes.
        let mode = session.variables.parser_mode();
        let text = audit::secret::hidden(statement, text, mode);
        session.count_statement(traits.counter, Some(text.as_bytes()));
    } else {
        session.count_statement(traits.counter, shown);
    }
    before
}

fn finish(session: &mut Session, result: &Result<Outcome, SqlError>) {
    session.kernel.end_statement();
    // Whatever comes from now on is for the next statement.
    session.kernel.clear_interrupt();
    let took = session.kernel.now().since(session.statement_began);
    let code = result.as_ref().err().map(SqlError::code);
    session.shared.measures.borrow_mut().ended(took, code);
    session.count_slow(took);
    match result {
        Ok(Outcome::Rows) => session.row_count = -1,
        Ok(Outcome::Done { affected, id, .. }) => {
            session.row_count = i64::try_from(*affected).unwrap_or(i64::MAX);
            if id.generated != 0 {
                session.last_insert_id = id.generated;
            }
        }
        Err(error) => {
            session.row_count = -1;
            let kept = session.variables.max_error_count as usize;
            session.diagnostics.push(Level::Error, error.clone(), kept);
        }
    }
}

/// Codes after which the same statement may succeed: a deadlock's victim, a lost node, a changed
/// definition. A lock that was not granted in time has cost the user's patience already.
fn is_temporary(error: &SqlError) -> bool {
    matches!(error.code(), 1213 | 1297 | 1412)
}

/// Codes that say that the whole transaction is over: a deadlock's victim, a lost node, a cluster
/// that has stopped.
fn ends_transaction(error: &SqlError) -> bool {
    matches!(error.code(), 1213 | 1297 | 1296)
}

/// Codes that say that something with a name is not there, or is there already, or that something
/// is not allowed. Another SQL node may have made, dropped or given it a moment ago.
fn is_about_names(error: &SqlError) -> bool {
    matches!(
        error.code(),
        1007 | 1008
            | 1044
            | 1045
            | 1049
            | 1050
            | 1051
            | 1054
            | 1060
            | 1061
            | 1072
            | 1091
            | 1133
            | 1141
            | 1142
            | 1143
            | 1146
            | 1147
            | 1176
            | 1227
            | 1356
            | 1370
            | 1396
            | 1410
            | 3523
            | 3530
    )
}

async fn attempt_once(
    session: &mut Session,
    prepared: &Prepared,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let (statement, traits) = (prepared.statement(), prepared.traits());
    if !session.has_lease() && needs_lease(session, statement, traits) {
        session.renew_lease().await?;
    }
    authorize::allow(session, prepared)?;
    let refused = || {
        let text = "Cannot execute statement in a READ ONLY transaction.";
        Err(SqlError::new(1792, "25006", text))
    };
    if session.transaction.read_only && traits.writes == Writes::Definitions {
        return refused();
    }
    if traits.commits {
        session.commit().await?;
    }
    session.changes_rows = traits.writes == Writes::Rows;
    if session.is_read_only() && traits.writes == Writes::Rows {
        return refused();
    }
    let outcome = match (traits.place, statement) {
        (Place::Planned, Statement::Query(query)) => {
            planned(session, prepared, query, parameters, out).await?
        }
        (Place::Planned, _) => planned_change(session, prepared, parameters).await?,
        _ => dispatch(session, statement, traits, parameters, out).await?,
    };
    if let Some(why) = session.kernel.interrupted()
        && why == Interrupt::TimedOut
    {
        return Err(crate::kernel::Failure::Interrupted(why).into());
    }
    if session.autocommits() && session.kernel.transaction().is_some() {
        session.commit().await?;
    }
    Ok(outcome)
}

/// The plan that is kept with a statement, if it still holds.
fn kept_plan(
    session: &Session,
    prepared: &Prepared,
    parameters: &[Datum],
) -> Option<Rc<StatementPlan>> {
    let plan: Rc<StatementPlan> = prepared.plan()?;
    plan.is_current(session, parameters).then_some(plan)
}

/// Runs a query by its kept plan, or makes one.
async fn planned(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Query,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    session.refresh_statistics(query).await;
    let plan = match kept_plan(session, prepared, parameters) {
        Some(plan) => plan,
        None => {
            let (plan, kept) = execute::plan_by_sizes(session, query, parameters).await?;
            match kept {
                Some(plan) => {
                    let plan = Rc::new(plan);
                    prepared.keep(plan.clone());
                    plan
                }
                None => return execute::run_once(session, query, &plan, parameters, out).await,
            }
        }
    };
    if let PlanKind::Point(point) = &plan.kind
        && let Some(outcome) = point.run(session, parameters, out).await?
    {
        return Ok(outcome);
    }
    match &plan.kind {
        PlanKind::Query(query) => execute::run_query(session, query, parameters, out).await,
        _ => execute::query(session, query, parameters, out).await,
    }
}

/// Runs a change of rows by its kept plan, or makes one.
async fn planned_change(
    session: &mut Session,
    prepared: &Prepared,
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    let statement = prepared.statement();
    let plan = match kept_plan(session, prepared, parameters) {
        Some(plan) => plan,
        None => {
            let (plan, lasting) = StatementPlan::of_change(session, statement, parameters)?;
            let plan = Rc::new(plan);
            if lasting {
                prepared.keep(plan.clone());
            }
            plan
        }
    };
    let outcome = match &plan.kind {
        PlanKind::Update(update) => update.run(session, parameters).await?,
        PlanKind::Delete(delete) => delete.run(session, parameters).await?,
        PlanKind::Insert(insert) => Some(insert.run(session, parameters, prepared.rows()).await?),
        _ => None,
    };
    match (outcome, statement) {
        (Some(outcome), _) => Ok(outcome),
        (None, Statement::Update(update)) => execute::update(session, update, parameters).await,
        (None, Statement::Delete(delete)) => execute::delete(session, delete, parameters).await,
        (None, _) => Err(SqlError::internal("a change without plan")),
    }
}

async fn dispatch(
    session: &mut Session,
    statement: &Statement,
    traits: &Traits,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    match (traits.place, statement) {
        (Place::Definition, _) => ddl::run(session, statement).await,
        (Place::Account, _) => Box::pin(account_change::run(session, statement, out)).await,
        (Place::Transaction, _) => transaction(session, statement).await,
        (_, Statement::LoadData(load)) => execute::load_data(session, load, out).await,
        (_, Statement::Do(expressions)) => execute::do_(session, expressions, parameters).await,
        (_, Statement::Explain(explain)) => {
            crate::explain::run(session, explain, parameters, out).await
        }
        (_, Statement::Show(show)) => show::run(session, show, out).await,
        (_, Statement::Describe(describe)) => show::describe(session, describe, out).await,
        (_, Statement::Set(items)) => administration::set::set(session, items, parameters).await,
        (_, Statement::SetTransaction(set)) => {
            administration::set::set_transaction(session, set).await
        }
        (_, Statement::ResetPersist(reset)) => {
            administration::set::reset_persisted(session, reset).await
        }
        (_, Statement::Prepare(prepare)) => {
            Box::pin(named::prepare_named(session, prepare)).await?;
            Ok(Outcome::default())
        }
        (_, Statement::Execute(execute)) => {
            Box::pin(named::execute_named(session, execute, out)).await
        }
        (_, Statement::Deallocate(name)) => {
            named::forget(session, name.as_str())?;
            Ok(Outcome::default())
        }
        _ => administration::run(session, statement, parameters, out).await,
    }
}

/// Whether a statement may be run only as long as the worker surely knows the accounts: not one
/// that answers from what this process knows itself, so that those can be run without a cluster.
fn needs_lease(session: &Session, statement: &Statement, traits: &Traits) -> bool {
    match (traits.place, statement) {
        (_, Statement::Query(_) | Statement::Do(_) | Statement::Set(_)) => {
            authorize::needs::uses_tables(session, statement)
        }
        (_, Statement::Backup(_) | Statement::Restore(_)) => true,
        (_, Statement::StartArchive(_) | Statement::StopArchive(_)) => true,
        (_, Statement::ChangeSource(_) | Statement::ChangeFilter(_) | Statement::Replica(_)) => {
            true
        }
        (
            _,
            Statement::CreateChangefeed(_)
            | Statement::Changefeed(_)
            | Statement::StreamChangefeed(_),
        ) => true,
        (Place::Planned | Place::Execute | Place::Definition | Place::Account, _) => true,
        _ => false,
    }
}

async fn transaction(session: &mut Session, statement: &Statement) -> Result<Outcome, SqlError> {
    match statement {
        Statement::StartTransaction(start) => {
            let once = session.transaction.read_only_once;
            let read_only = start.read_only.or(once);
            let read_only = read_only.unwrap_or(session.variables.transaction_read_only);
            session.begin(read_only, start.consistent_snapshot).await?;
        }
        Statement::Commit(end) => {
            session.commit().await?;
            chain(session, *end).await?;
        }
        Statement::Rollback(end) => {
            session.rollback().await;
            chain(session, *end).await?;
        }
        Statement::Savepoint(name) => session.set_savepoint(name.as_str()),
        Statement::RollbackToSavepoint(name) => {
            session.rollback_to_savepoint(name.as_str()).await?;
        }
        Statement::ReleaseSavepoint(name) => session.release_savepoint(name.as_str())?,
        _ => return Err(unsupported("this statement")),
    }
    Ok(Outcome::default())
}

/// AND CHAIN begins the next transaction; RELEASE ends the connection.
async fn chain(session: &mut Session, end: ast::TransactionEnd) -> Result<(), SqlError> {
    if end.chain == Some(true) {
        let read_only = session.variables.transaction_read_only;
        session.begin(read_only, false).await?;
    }
    session.released |= end.release == Some(true);
    Ok(())
}
