//! One step of a statement that changes definitions: what is checked before it, the request to the
//! kernel, what the client is told.

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;

use crate::catalog::names::TableName;
use crate::catalog::rules::Rules;
use crate::catalog::view::is_view;
use crate::catalog::{CheckDefinition, error, names, same_name};
use crate::kernel::Failure;
use crate::session::{Level, Session};

/// Asks the kernel for a change.
pub(super) async fn request(session: &Session, change: SchemaChange) -> Result<TableId, Failure> {
    session.definition_log.change(&session.kernel, change).await
}

/// Whether the kernel refused with this code.
pub(super) fn refused(failure: &Failure, code: ErrorCode) -> bool {
    matches!(failure, Failure::Refused(refusal) if refusal.code == code)
}

/// Keeps what the checks have noted for SHOW WARNINGS.
pub(super) fn keep_notes(session: &mut Session, rules: Rules<'_>) {
    for note in rules.notes {
        warn(session, note);
    }
}

/// Adds a warning, or a note where MySQL calls it one.
pub(super) fn warn(session: &mut Session, warning: SqlError) {
    if matches!(warning.code(), 1007 | 1008 | 1050 | 1051 | 1091 | 1246 | 1831 | 3502) {
        return session.note(warning);
    }
    let kept = session.variables.max_error_count as usize;
    session.diagnostics.push(Level::Warning, warning, kept);
}

/// The name of a user's table in a statement that changes it: system schemas are refused, and
/// databases that are not there.
pub(super) fn user_table(session: &Session, name: TableName) -> Result<TableName, SqlError> {
    if name.is_system() {
        return Err(error::access_denied_to_database(&name.database));
    }
    session.check_database(&name.database)?;
    Ok(name)
}

/// Names of CHECK constraints are unique in a database: 3822 for one that another table has.
pub(super) fn check_names_free(
    session: &Session,
    database: &str,
    own: Option<TableId>,
    checks: &[CheckDefinition],
) -> Result<(), SqlError> {
    if checks.is_empty() {
        return Ok(());
    }
    let cluster = session.kernel.cluster();
    for (_, table) in names::tables_of(&cluster, database) {
        if Some(table.id) == own || is_view(table) {
            continue;
        }
        let definition = session.shared.definitions.of(table)?;
        for check in checks {
            if definition.checks.iter().any(|other| same_name(&other.name, &check.name)) {
                return Err(error::duplicate_check(&check.name));
            }
        }
    }
    Ok(())
}
