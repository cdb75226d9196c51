//! SET: of system variables and user variables, NAMES, CHARACTER SET, TRANSACTION.
//!
//! # Owns
//! Scopes and permissions of assignments, the order of checking and assigning.
//! # Guarantees
//! No system variable is assigned before all of the statement's are checked.
//! # Not here
//! Which values are allowed (`value`), evaluation of expressions (`execute`).

use collation::{Charset, CollationId};
use model::SettingChange;
use sql_expression::{SqlError, SqlMode};
use sql_parser::ast::{self, Expr, SetItem, VariableScope, VariableTarget};
use sqltype::Datum;

use crate::binlog;
use crate::catalog::{column, error};
use crate::execute;
use crate::result::Outcome;
use crate::session::{Level, Session};
use crate::variables::choice::Isolation;
use crate::variables::registry::{self, Scope, Variable};
use crate::variables::{SessionVariables, settings, unknown, value};

/// An assignment that has been checked.
enum Assignment {
    /// `@name`, evaluated when its turn comes: it may read one assigned before.
    User(Expr),
    /// A variable of the session.
    Session(&'static Variable, Option<String>),
    /// A variable of the server.
    Server(&'static Variable, SettingChange),
    /// `@@transaction_isolation`, without a scope: only for the next transaction.
    NextIsolation(Isolation),
    /// `@@transaction_read_only`, likewise.
    NextReadOnly(bool),
    /// NAMES.
    Names(CollationId),
    /// CHARACTER SET.
    Charset(Charset),
}

/// SET.
pub(crate) async fn set(
    session: &mut Session,
    items: &[SetItem],
    parameters: &[Datum],
) -> Result<Outcome, SqlError> {
    let mut assignments = Vec::with_capacity(items.len());
    for item in items {
        assignments.push(check(session, item, parameters).await?);
    }
    let (shared, own): (Vec<_>, Vec<_>) = assignments
        .into_iter()
        .partition(|assignment| matches!(assignment, Assignment::Server(..)));
    let of_server = |assignment| match assignment {
        Assignment::Server(variable, change) => Some((variable, change)),
        _ => None,
    };
    let mut changes: Vec<_> = shared.into_iter().filter_map(of_server).collect();
    // It is no value of SQL nodes, but what the cluster does.
    let log = changes.iter().position(|(variable, _)| variable.name == "log_bin");
    let log = log.map(|at| changes.remove(at).1);
    settings::change(session, changes).await?;
    if let Some(change) = log {
        let (SettingChange::Run(value)
        | SettingChange::Keep(value)
        | SettingChange::KeepOnly(value)) = change
        else {
            return Ok(Outcome::default());
        };
        Box::pin(binlog::switch(session, value.as_deref() == Some("ON"))).await?;
    }
    for assignment in own {
        assign(session, assignment, parameters).await?;
    }
    Ok(Outcome::default())
}

/// RESET PERSIST: of one variable, or of all.
pub(crate) async fn reset_persisted(
    session: &mut Session,
    reset: &ast::ResetPersist,
) -> Result<Outcome, SqlError> {
    let cluster = session.kernel.cluster();
    let kept = || cluster.settings.kept().filter_map(|(name, _)| registry::find(name));
    let forget = |variable| (variable, SettingChange::Forget);
    let changes = match &reset.variable {
        None => kept().map(forget).collect(),
        Some(name) => {
            let found = kept().find(|variable| name.as_str().eq_ignore_ascii_case(variable.name));
            if found.is_none() {
                let text =
                    format!("Variable {} does not exist in persisted config file", name.as_str());
                let error = SqlError::new(3615, "HY000", text);
                if !reset.if_exists {
                    return Err(error);
                }
                let most = session.variables.max_error_count as usize;
                session.diagnostics.push(Level::Warning, error, most);
            }
            found.map(forget).into_iter().collect()
        }
    };
    settings::change(session, changes).await?;
    Ok(Outcome::default())
}

async fn check(
    session: &mut Session,
    item: &SetItem,
    parameters: &[Datum],
) -> Result<Assignment, SqlError> {
    match item {
        SetItem::User(name, expr) => {
            let value = Box::new(expr.clone());
            Ok(Assignment::User(Expr::Assign { variable: name.clone(), value }))
        }
        SetItem::Variable(target, expr) => {
            let variable = find(target)?;
            let global = check_scope(variable, target)?;
            let text = text_of(session, variable, global, expr, parameters).await?;
            session.check_promise(variable, text.as_deref())?;
            assignment(session, variable, target, global, text)
        }
        SetItem::TriggerColumn(..) => Err(error::unsupported("TRIGGER")),
        SetItem::Names(charset, collation) => {
            names(&session.variables, charset, collation.as_ref()).map(Assignment::Names)
        }
        SetItem::Charset(charset) => {
            let charset = client_charset(&session.variables, charset)?;
            Ok(Assignment::Charset(charset))
        }
    }
}

fn find(target: &VariableTarget) -> Result<&'static Variable, SqlError> {
    let name = target.name.as_str().to_ascii_lowercase();
    match &target.component {
        None => registry::find(&name).ok_or_else(|| unknown(&name)),
        // Key caches have names; there is none here that does anything.
        Some(component) if component.eq_ignore_ascii_case("default") => {
            registry::find(&name).ok_or_else(|| unknown(&name))
        }
        Some(component) => {
            let name = format!("{}.{name}", component.as_str().to_ascii_lowercase());
            registry::find(&name).ok_or_else(|| unknown(&name))
        }
    }
}

/// Whether the server's value is meant; errors where there is no such value, or it is fixed.
fn check_scope(variable: &Variable, target: &VariableTarget) -> Result<bool, SqlError> {
    let name = variable.name;
    let global = match target.scope {
        None | Some(VariableScope::Session) => false,
        Some(VariableScope::Global | VariableScope::Persist | VariableScope::PersistOnly) => true,
    };
    if !variable.is_dynamic {
        let message = format!("Variable '{name}' is a read only variable");
        return Err(SqlError::new(1238, "HY000", message));
    }
    match (global, variable.scope) {
        (true, Scope::Session) => {
            let message = format!(
                "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL"
            );
            Err(SqlError::new(1228, "HY000", message))
        }
        (false, Scope::Global) => {
            let message =
                format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL");
            Err(SqlError::new(1229, "HY000", message))
        }
        (false, _) if IS_FIXED_IN_SESSIONS.contains(&name) => {
            let message = format!(
                "SESSION variable '{name}' is read-only. Use SET GLOBAL to assign the value"
            );
            Err(SqlError::new(1621, "HY000", message))
        }
        (global, _) => Ok(global),
    }
}

/// Variables of sessions that only SET GLOBAL changes, for sessions to come.
const IS_FIXED_IN_SESSIONS: [&str; 3] =
    ["max_allowed_packet", "max_user_connections", "net_buffer_length"];

/// The text a variable is to have.
async fn text_of(
    session: &mut Session,
    variable: &'static Variable,
    global: bool,
    expr: &Expr,
    parameters: &[Datum],
) -> Result<Option<String>, SqlError> {
    if *expr == Expr::DefaultValue {
        return default(session, variable, global);
    }
    let datum = match expr {
        // A word that is no keyword: SET x = on.
        Expr::Column(column) if column.table.is_none() => Datum::text(column.column.as_str()),
        expr => execute::value(session, expr, parameters).await?,
    };
    let strictly = session.variables.sql_mode.contains(SqlMode::STRICT_ALL_TABLES);
    let mut notes = Vec::new();
    let text = value::checked(variable, &datum, strictly, &mut notes)?;
    let kept_max = session.variables.max_error_count as usize;
    for note in notes {
        session.diagnostics.push(Level::Warning, note, kept_max);
    }
    Ok(text)
}

/// DEFAULT: of a session's variable the server's value, of the server's the initial one.
fn default(
    session: &Session,
    variable: &Variable,
    global: bool,
) -> Result<Option<String>, SqlError> {
    if matches!(variable.name, "last_insert_id" | "identity" | "pseudo_thread_id") {
        let message = format!("Variable '{}' doesn't have a default value", variable.name);
        return Err(SqlError::new(1230, "42000", message));
    }
    let initial = variable.initial.map(str::to_owned);
    if global || variable.scope == Scope::Session {
        return Ok(initial);
    }
    let registry = session.shared.directory.lock();
    Ok(registry.globals.get(variable.name).cloned().or(initial))
}

fn assignment(
    session: &Session,
    variable: &'static Variable,
    target: &VariableTarget,
    global: bool,
    text: Option<String>,
) -> Result<Assignment, SqlError> {
    // `@@x` without a scope is for the next transaction only, `x` for the session.
    let next_only = target.system && target.scope.is_none();
    match variable.name {
        "transaction_isolation" if next_only => {
            check_no_transaction(session)?;
            let level = text.as_deref().and_then(value::isolation).unwrap_or_default();
            Ok(Assignment::NextIsolation(level))
        }
        "transaction_read_only" if next_only => {
            check_no_transaction(session)?;
            Ok(Assignment::NextReadOnly(text.as_deref() == Some("ON")))
        }
        "resultset_metadata" if text.as_deref() == Some("NONE") && !session.knows_no_metadata => {
            let message = "The client doesn't support optional metadata";
            Err(SqlError::new(3640, "HY000", message))
        }
        "nines_durability" if text.as_deref() == Some("disk") && !session.kernel.has_disk() => {
            let message = "Variable 'nines_durability' can't be set to the value of 'disk': \
                           the cluster keeps nothing on disk; start it with a data directory";
            Err(SqlError::new(1231, "42000", message))
        }
        _ if global => match text {
            None if variable.initial.is_some() => Err(value::wrong_value(variable.name, "NULL")),
            text => Ok(Assignment::Server(variable, by_scope(target.scope)(text))),
        },
        _ => Ok(Assignment::Session(variable, text)),
    }
}

/// What SET of this scope does to a variable of the server.
fn by_scope(scope: Option<VariableScope>) -> fn(Option<String>) -> SettingChange {
    match scope {
        Some(VariableScope::Persist) => SettingChange::Keep,
        Some(VariableScope::PersistOnly) => SettingChange::KeepOnly,
        _ => SettingChange::Run,
    }
}

/// 1568: a transaction's characteristics are those it began with.
fn check_no_transaction(session: &Session) -> Result<(), SqlError> {
    if session.in_transaction() {
        Err(SqlError::new(
            1568,
            "25001",
            "Transaction characteristics can't be changed while a transaction is in progress",
        ))
    } else {
        Ok(())
    }
}

async fn assign(
    session: &mut Session,
    assignment: Assignment,
    parameters: &[Datum],
) -> Result<(), SqlError> {
    match assignment {
        Assignment::User(expr) => {
            execute::value(session, &expr, parameters).await?;
        }
        Assignment::Session(variable, text) => assign_session(session, variable, text).await?,
        Assignment::Server(variable, change) => {
            settings::change(session, vec![(variable, change)]).await?;
        }
        Assignment::NextIsolation(level) => session.transaction.isolation_once = Some(level),
        Assignment::NextReadOnly(read_only) => {
            session.transaction.read_only_once = Some(read_only);
        }
        Assignment::Names(collation) => session.variables.set_client_collation(collation),
        Assignment::Charset(charset) => {
            let database = session.database.clone();
            let options = database.map(|database| session.database_options(&database));
            let variables = &mut session.variables;
            let around = options.map_or(variables.server_collation, |options| options.collation);
            let name = charset.name().to_owned();
            variables.assign("character_set_client", Some(name.clone()));
            variables.assign("character_set_results", Some(name));
            variables.assign("collation_connection", Some(around.name().to_owned()));
        }
    }
    Ok(())
}

async fn assign_session(
    session: &mut Session,
    variable: &'static Variable,
    text: Option<String>,
) -> Result<(), SqlError> {
    let number = || text.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
    match variable.name {
        "last_insert_id" | "identity" => {
            session.last_insert_id = number();
            return Ok(());
        }
        // What they say is found elsewhere.
        "pseudo_thread_id" | "character_set_database" | "collation_database" => return Ok(()),
        "autocommit" => {
            let on = text.as_deref() == Some("ON");
            if on && !session.variables.autocommit {
                session.commit().await?;
            }
        }
        _ => {}
    }
    session.variables.assign(variable.name, text);
    Ok(())
}

/// The collation that SET NAMES chooses for literals; its character set is that of all.
fn names(
    variables: &SessionVariables,
    charset: &ast::CharacterSet,
    collation: Option<&ast::Ident>,
) -> Result<CollationId, SqlError> {
    let charset = client_charset(variables, charset)?;
    let Some(collation) = collation else { return Ok(variables.default_collation(charset)) };
    let collation = column::collation(collation.as_str())?;
    column::check_pair(charset, collation)?;
    Ok(collation)
}

/// A character set that statements can come in.
fn client_charset(
    variables: &SessionVariables,
    charset: &ast::CharacterSet,
) -> Result<Charset, SqlError> {
    let name = match charset {
        ast::CharacterSet::Name(name) => name.as_str(),
        ast::CharacterSet::Default => return Ok(variables.server_collation.charset()),
    };
    let client = registry::find("character_set_client").expect("it is in the table");
    let text = value::checked(client, &Datum::text(name), false, &mut Vec::new())?;
    column::charset(&text.unwrap_or_default())
}

/// SET [GLOBAL | SESSION] TRANSACTION.
pub(crate) async fn set_transaction(
    session: &mut Session,
    set: &ast::SetTransaction,
) -> Result<Outcome, SqlError> {
    let level = match set.isolation {
        None => None,
        Some(ast::IsolationLevel::ReadUncommitted) => Some("READ-UNCOMMITTED"),
        Some(ast::IsolationLevel::ReadCommitted) => Some("READ-COMMITTED"),
        Some(ast::IsolationLevel::RepeatableRead) => Some("REPEATABLE-READ"),
        Some(ast::IsolationLevel::Serializable) => Some("SERIALIZABLE"),
    };
    let access = set.read_only.map(|read_only| if read_only { "ON" } else { "OFF" });
    let values = [("transaction_isolation", level), ("transaction_read_only", access)];
    match set.scope {
        None => {
            check_no_transaction(session)?;
            if let Some(level) = level.and_then(value::isolation) {
                session.transaction.isolation_once = Some(level);
            }
            if set.read_only.is_some() {
                session.transaction.read_only_once = set.read_only;
            }
        }
        Some(VariableScope::Session) => {
            for (name, value) in values {
                if let Some(value) = value {
                    session.variables.assign(name, Some(value.to_owned()));
                }
            }
        }
        Some(scope) => {
            let change = |(name, value): (&str, Option<&str>)| {
                let change = by_scope(Some(scope))(Some(value?.to_owned()));
                Some((registry::find(name)?, change))
            };
            settings::change(session, values.into_iter().filter_map(change).collect()).await?;
        }
    }
    Ok(Outcome::default())
}
