//! PREPARE, EXECUTE and DEALLOCATE PREPARE: statements that a session keeps under names.

use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::Datum;

use crate::prepared;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;

/// PREPARE.
pub(super) async fn prepare_named(
    session: &mut Session,
    prepare: &ast::Prepare,
) -> Result<(), SqlError> {
    let text = match &prepare.source {
        ast::PrepareSource::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ast::PrepareSource::Variable(name) => {
            let value = session.user_variables.get(&name.as_str().to_lowercase());
            match value.map(|variable| &variable.value) {
                Some(Datum::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => "NULL".to_owned(),
            }
        }
    };
    let prepared = prepared::session::parse(session, &text)?;
    super::describe(session, &prepared).await?;
    session.prepared.insert(prepare.name.as_str().to_lowercase(), prepared);
    Ok(())
}

/// EXECUTE.
pub(super) async fn execute_named(
    session: &mut Session,
    run: &ast::Execute,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let name = run.name.as_str().to_lowercase();
    let prepared = session.prepared.get(&name).cloned();
    let prepared = prepared.ok_or_else(|| unknown_handler(run.name.as_str(), "EXECUTE"))?;
    if prepared.parameter_count() != run.variables.len() {
        return Err(SqlError::new(1210, "HY000", "Incorrect arguments to EXECUTE"));
    }
    let value = |variable: &ast::Ident| {
        let name = variable.as_str().to_lowercase();
        session.user_variables.get(&name).map_or(Datum::Null, |variable| variable.value.clone())
    };
    let parameters: Vec<Datum> = run.variables.iter().map(value).collect();
    super::run(session, &prepared, &parameters, out, None).await
}

/// DEALLOCATE PREPARE.
pub(super) fn forget(session: &mut Session, name: &str) -> Result<(), SqlError> {
    match session.prepared.remove(&name.to_lowercase()) {
        Some(_) => Ok(()),
        None => Err(unknown_handler(name, "DEALLOCATE PREPARE")),
    }
}

fn unknown_handler(name: &str, action: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({name}) given to {action}");
    SqlError::new(1243, "HY000", text)
}
