//! Tables that are taken from a backup: made aside, filled, and shown all at once.
//!
//! A table is made under a name that nobody sees, with its final definition. When all are filled
//! they get their names by one command. Until then they count as children of the tables that they
//! refer to, so nobody takes a parent away.
//!
//! # Owns
//! Making, showing and removing them.
//! # Not here
//! Their rows (`backup::load`).

use model::{SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{self, Statement};

use super::foreign_key::{self, Planned};

use super::step::{check_names_free, request};
use crate::catalog::Complete;
use crate::catalog::draft::{self, Draft};
use crate::catalog::foreign_key::{generated_name, generated_ordinal};
use crate::catalog::names::{self, TableName, check_table_name};
use crate::catalog::rules::Rules;
use crate::catalog::{error, kernel_form, view};
use crate::kernel::Failure;
use crate::session::Session;

/// The definition that the catalog's text of the table `from` gives the table `into`. Names that
/// were made from the old name follow; parents are those of the text.
pub(crate) fn definition(
    from: &TableName,
    into: &TableName,
    text: &str,
) -> Result<Complete, SqlError> {
    check_table_name(&into.name)?;
    let parsed = sql_parser::parse(text.as_bytes(), sql_parser::SqlMode::default());
    let Ok(Statement::CreateTable(create)) = parsed else { return Err(unreadable(from)) };
    let ast::TableDefinition::Columns(body) = &create.definition else {
        return Err(unreadable(from));
    };
    let mut rules = Rules::of_catalog(&from.database, &from.name);
    let of_database = collation::CollationId::UTF8MB4_0900_AI_CI;
    let mut complete = Draft::read(body, of_database, &mut rules)?.complete(&mut rules)?;
    for check in &mut complete.checks {
        if let Some(ordinal) = draft::generated_ordinal(&check.name, &from.name) {
            check.name = draft::generated_check_name(&into.name, ordinal);
        }
    }
    for key in &mut complete.foreign_keys {
        if let Some(ordinal) = generated_ordinal(&key.name, &from.name) {
            key.name = generated_name(&into.name, ordinal);
        }
    }
    Ok(complete)
}

fn unreadable(name: &TableName) -> SqlError {
    SqlError::internal(format!("the backup has no definition of {}", name.full()))
}

/// Makes a table aside, that is to be shown as `name`, perhaps in place of another.
pub(crate) async fn stage(
    session: &mut Session,
    name: &TableName,
    replaces: Option<TableId>,
    aside: &str,
    complete: &Complete,
) -> Result<TableId, SqlError> {
    check_names_free(session, &name.database, replaces, &complete.checks)?;
    let is_replaced = replaces.is_some();
    let planned = Planned { id: replaces, is_replaced, ..Planned::new(name, complete.parts()) };
    // Which parents have to be there the caller knows: some are restored too.
    let checks = std::mem::replace(&mut session.variables.foreign_key_checks, false);
    let linked = foreign_key::link_copy(session, &planned);
    session.variables.foreign_key_checks = checks;
    let full = TableName { database: name.database.clone(), name: aside.to_owned() }.full();
    let create = kernel_form::create(&full, &name.name, complete);
    Ok(request(session, linked?.with(create)).await?)
}

/// Gives tables and views that were made aside their names, all at once; what is replaced goes.
///
/// # Errors
/// When others refer to a table that goes, `foreign_key_checks` permitting.
pub(crate) async fn show(
    session: &Session,
    tables: &[(TableId, TableName)],
    replaced: &[TableId],
) -> Result<(), SqlError> {
    let names: Vec<(TableId, String)> =
        tables.iter().map(|(id, name)| (*id, name.full())).collect();
    let mut linked = foreign_key::link_renamed(session, &names)?;
    let rename = SchemaChange::RenameTables { names };
    let change_all = match replaced {
        [] => linked.with(rename),
        _ => {
            // Those that were made refer to each other, and not to what goes.
            let both: Vec<TableId> =
                tables.iter().map(|(id, _)| *id).chain(replaced.iter().copied()).collect();
            foreign_key::check_drop(session, &both)?;
            for id in replaced {
                linked.leave_out(session, *id);
            }
            let drops = replaced.iter().map(|id| SchemaChange::DropTable { table: *id });
            linked.with_all(drops.chain([rename]))
        }
    };
    match request(session, change_all).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}

/// Makes a view aside.
pub(crate) async fn stage_view(
    session: &Session,
    name: &TableName,
    aside: &str,
    text: &str,
) -> Result<TableId, SqlError> {
    check_table_name(&name.name)?;
    let parsed = sql_parser::parse(text.as_bytes(), sql_parser::SqlMode::default());
    let Ok(Statement::CreateView(mut create)) = parsed else { return Err(unreadable(name)) };
    create.name.name = name.name.as_str().into();
    let full = TableName { database: name.database.clone(), name: aside.to_owned() }.full();
    let description = view::description(&create);
    Ok(request(session, view::create(&full, description)).await?)
}

/// Removes what was made aside.
pub(crate) async fn remove(session: &Session, tables: &[TableId]) -> Result<(), Failure> {
    for table in tables {
        let is_aside = |table: &model::Table| names::restored_by(&table.name).is_some();
        // One that is shown by now is somebody's.
        if session.kernel.cluster().tables.get(table).is_some_and(|table| is_aside(table)) {
            request(session, SchemaChange::DropTable { table: *table }).await?;
        }
    }
    Ok(())
}

/// Makes a database, unless there is one of this name; whether it made it.
pub(crate) async fn make_database(
    session: &Session,
    name: &str,
    text: &str,
) -> Result<bool, SqlError> {
    if crate::catalog::system::schema(name).is_some() {
        return Err(error::access_denied_to_database(name));
    }
    names::check_database_name(name)?;
    if session.database_exists(name) {
        return Ok(false);
    }
    let (name, description) = (name.to_owned(), text.as_bytes().into());
    request(session, SchemaChange::CreateDatabase { name, description }).await?;
    Ok(true)
}

/// Removes a database that nothing is in.
pub(crate) async fn remove_database(session: &Session, name: &str) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    if names::tables_of(&cluster, name).next().is_none() {
        request(session, SchemaChange::DropDatabase { name: name.to_owned() }).await?;
    }
    Ok(())
}
