//! Values that all SQL nodes of the cluster share: SET GLOBAL, SET PERSIST, RESET PERSIST.
//!
//! The cluster's state has the values ([`model::Settings`]). Each SQL node lays them over those
//! that its process was started with, as soon as a worker of it has reached the state.
//!
//! # Owns
//! Who has a value of their own ([`is_of_the_node`]), changes of shared values, their adoption by a
//! process.
//! # Guarantees
//! After [`change`] the process has the new values, and every other SQL node has them as soon as it
//! reaches the same state. A process never goes back to an older state's values.
//! # Not here
//! Which values are allowed (`value`), rights and scopes (`set`).

use model::{ClusterState, ErrorCode, SchemaChange, SettingChange, cluster};
use sql_expression::SqlError;
use stdx::Duration;

use super::registry::{self, Variable};
use crate::audit;
use crate::directory::{Directory, Registry};
use crate::kernel::Failure;
use crate::session::{Level, Session};

/// The variable that is the budget of all statements.
const QUERY_MEMORY: &str = "global_connection_memory_limit";

/// The variable that is the budget of all temporary files, and of those of a statement.
const TEMP_SPACE: &str = "nines_temp_space";

/// How often a change is asked for again that a member may be too old for, and the pause before.
const ATTEMPTS_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Whether each SQL node has a value of its own: certificates are files of its host.
fn is_of_the_node(name: &str) -> bool {
    name.starts_with("ssl_") || name.starts_with("tls_")
}

/// Gives variables of the server values: all SQL nodes', or this one's alone where each has its
/// own.
///
/// # Errors
/// 1235 for SET PERSIST of a variable that each SQL node has of its own, and where a member of the
/// cluster is too old to keep values; 1105 where there are too many or too long values; the
/// kernel's.
pub(crate) async fn change(
    session: &mut Session,
    changes: Vec<(&'static Variable, SettingChange)>,
) -> Result<(), SqlError> {
    let mut shared = Vec::new();
    for (variable, change) in changes {
        match change {
            SettingChange::Run(value) if variable.name == audit::FLUSH => {
                if let (Some("ON"), Some(auditor)) = (value.as_deref(), &session.shared.audit) {
                    auditor.log.flush();
                }
            }
            SettingChange::Run(value) if is_of_the_node(variable.name) => {
                session.shared.directory.lock().configure(variable.name, value);
            }
            _ if is_of_the_node(variable.name) || variable.name == audit::FLUSH => {
                return Err(of_the_node(variable));
            }
            change => shared.push((variable.name.to_owned(), change)),
        }
    }
    if shared.is_empty() {
        return Ok(());
    }
    match log(session, &shared).await {
        Ok(_) => adopt(&session.shared.directory, &session.kernel.cluster()),
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::OlderNode => {
            change_alone(session, shared)?;
        }
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::BadDefinition => {
            return Err(no_room());
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(())
}

/// Has values logged. A leader that has just begun does not know yet what members speak, and
/// refuses what came with a later version than the oldest: that is asked for again.
async fn log(session: &Session, shared: &[(String, SettingChange)]) -> Result<(), Failure> {
    let kernel = &session.kernel;
    let mut attempts = 0;
    loop {
        let command = SchemaChange::ChangeSettings { changes: shared.to_vec() };
        match kernel.beside().change_schema(command).await {
            Err(Failure::Refused(refusal))
                if refusal.code == ErrorCode::OlderNode && attempts < ATTEMPTS_MAX =>
            {
                attempts += 1;
                kernel.sleep(PAUSE).await?;
            }
            other => return other.map(drop),
        }
    }
}

/// SET GLOBAL while a member of the cluster is too old to keep values: for this SQL node, with a
/// warning.
fn change_alone(
    session: &mut Session,
    changes: Vec<(String, SettingChange)>,
) -> Result<(), SqlError> {
    for (name, change) in changes {
        let SettingChange::Run(value) = change else {
            let text = "SET PERSIST while a node of the cluster runs an older version";
            return Err(SqlError::new(
                1235,
                "42000",
                format!("Nines doesn't yet support '{text}'"),
            ));
        };
        let mut registry = session.shared.directory.lock();
        registry.configure(&name, value);
        let (budget, temporary) = (registry.global(QUERY_MEMORY), registry.global(TEMP_SPACE));
        drop(registry);
        set_budgets(&session.shared.directory, budget, temporary);
        let text = format!(
            "Variable '{name}' is set on this SQL node only, as a node of the cluster runs an \
             older version"
        );
        let most = session.variables.max_error_count as usize;
        session.diagnostics.push(Level::Warning, SqlError::new(1105, "HY000", text), most);
    }
    Ok(())
}

/// Lays the values of a cluster state over those that the process was started with, unless it has
/// done so with a later state.
pub(crate) fn adopt(directory: &Directory, cluster: &ClusterState) {
    let restarts = u32::try_from(cluster.restarts.len()).unwrap_or(u32::MAX);
    let mut registry = directory.lock();
    let values = cluster.settings.values(restarts);
    if !registry.adopt(cluster.index, values.filter(|(name, _)| registry::find(name).is_some())) {
        return;
    }
    let (budget, temporary) = (registry.global(QUERY_MEMORY), registry.global(TEMP_SPACE));
    drop(registry);
    set_budgets(directory, budget, temporary);
}

/// Whether the values of two states may differ.
pub(crate) fn differ(before: &ClusterState, after: &ClusterState) -> bool {
    !std::sync::Arc::ptr_eq(&before.settings, &after.settings)
        || before.restarts.len() != after.restarts.len()
}

/// Gives the budgets of the process the values of their variables.
fn set_budgets(directory: &Directory, memory: Option<u64>, temporary: Option<u64>) {
    let budget = directory.memory();
    budget.set_limit(memory.unwrap_or(budget.configured()));
    let initial = || registry::find(TEMP_SPACE)?.initial?.parse().ok();
    if let Some(bytes) = temporary.or_else(initial) {
        budget.temp_space().set_limit(bytes);
    }
}

impl Registry {
    /// The number that a variable of the server was given; none if it was given none.
    fn global(&self, name: &str) -> Option<u64> {
        self.globals.get(name)?.parse().ok()
    }
}

/// 1235.
fn of_the_node(variable: &Variable) -> SqlError {
    let text = format!(
        "Nines doesn't yet support 'SET PERSIST {}': each SQL node has its own value, which is set \
         in its configuration",
        variable.name
    );
    SqlError::new(1235, "42000", text)
}

/// 1105.
fn no_room() -> SqlError {
    let text = format!(
        "The values of SET GLOBAL and SET PERSIST are limited to {} variables and {} bytes \
         together; RESET PERSIST gives room",
        cluster::SETTINGS_MAX,
        cluster::SETTINGS_BYTES_MAX
    );
    SqlError::new(1105, "HY000", text)
}
