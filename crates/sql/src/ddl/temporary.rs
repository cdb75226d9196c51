//! CREATE TEMPORARY TABLE, and the new names of temporary tables.
//!
//! # Owns
//! What differs from other tables: they are made and dropped beside the user's transaction, which
//! goes on, and nothing refers to them.
//! # Guarantees
//! A table whose rows cannot be inserted is dropped again.
//! # Not here
//! Their names and their end (`crate::temporary`).

use model::{SchemaChange, Table};
use sql_expression::SqlError;
use sql_parser::ast::TableDefinition;

use super::create::{check_primary_key, draft_like, draft_of, draft_of_query, insert_of};

use super::step::keep_notes;
use crate::catalog::draft::Draft;
use crate::catalog::kernel_form;
use crate::catalog::names::TableName;
use crate::execute;
use crate::result::Outcome;
use crate::session::Session;

/// Makes a temporary table of a name that the session has given to none.
pub(super) async fn create(
    session: &mut Session,
    name: &TableName,
    definition: &TableDefinition,
) -> Result<Outcome, SqlError> {
    session.sweep_temporaries().await;
    let select = match definition {
        TableDefinition::Like(source) => {
            let draft = draft_like(session, source)?;
            return make(session, name, name, draft).await;
        }
        TableDefinition::Columns(body) => match &body.query {
            None => {
                let draft = draft_of(session, name, body)?;
                return make(session, name, name, draft).await;
            }
            Some(select) => (body, select),
        },
    };
    let (body, select) = select;
    let (draft, names) = draft_of_query(session, name, body, select)?;
    // The query may read another table of this name: until it has, nobody can say the new one's.
    let unsaid = TableName { database: name.database.clone(), name: format!("\0{}", name.name) };
    make(session, name, &unsaid, draft).await?;
    let insert = insert_of(&unsaid, names, select);
    match execute::insert(session, &insert, &[]).await {
        Ok(outcome) => {
            if let Some(kernel_name) = session.temporary.remove(&unsaid) {
                session.temporary.add(name, kernel_name);
            }
            Ok(outcome)
        }
        Err(error) => {
            // What the statement has made goes with it; its error is the one to be told.
            let _ = session.drop_temporary(&unsaid).await;
            Err(error)
        }
    }
}

/// Makes a table of this name that is called otherwise.
async fn make(
    session: &mut Session,
    name: &TableName,
    called: &TableName,
    draft: Draft,
) -> Result<Outcome, SqlError> {
    let mut rules = crate::session::rules::of_statement(session, &name.database, &name.name);
    let complete = draft.complete(&mut rules)?;
    keep_notes(session, rules);
    if !complete.foreign_keys.is_empty() {
        return Err(foreign_key());
    }
    check_primary_key(session, &complete)?;
    session.claim_temporaries().await?;
    let kernel_name = session.new_temporary_name(name);
    let create = kernel_form::create(&kernel_name, &name.name, &complete);
    session.kernel.beside().change_schema(create).await?;
    session.temporary.add(called, kernel_name);
    Ok(Outcome::default())
}

/// Gives a temporary table another name.
pub(super) async fn rename(
    session: &mut Session,
    from: &TableName,
    to: &TableName,
) -> Result<(), SqlError> {
    let Some(table) = session.temporary_table(from) else { return Ok(()) };
    let kernel_name = session.new_temporary_name(to);
    let names = vec![(table.id, kernel_name.clone())];
    session.kernel.beside().change_schema(SchemaChange::RenameTables { names }).await?;
    session.temporary.remove(from);
    session.temporary.add(to, kernel_name);
    Ok(())
}

/// The kernel's name of a table, as one that has no database.
pub(super) fn name_of(table: &Table) -> TableName {
    TableName { database: String::new(), name: table.name.clone() }
}

/// Error 1215: temporary tables have no foreign keys.
pub(super) fn foreign_key() -> SqlError {
    SqlError::new(1215, "HY000", "Cannot add foreign key constraint")
}
