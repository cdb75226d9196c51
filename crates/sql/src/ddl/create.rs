//! CREATE TABLE.
//!
//! # Owns
//! Its three forms: columns, LIKE, AS a query.
//! # Guarantees
//! A table whose rows cannot be inserted is dropped again.
//! # Not here
//! Checks of the definition (`catalog`), running the query (`execute`).

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{
    ColumnRef, CreateSelect, CreateTable, DropTable, Ident, Insert, InsertSource, LoadDuplicates,
    ObjectName, Statement, TableBody,
};

use super::foreign_key::{self, Planned};
use super::step::{check_names_free, keep_notes, refused, request, user_table, warn};
use super::temporary;
use crate::catalog::Complete;
use crate::catalog::draft::Draft;
use crate::catalog::names::{TableName, check_table_name};
use crate::catalog::{KeyKind, column_named, error, kernel_form};
use crate::execute;
use crate::logical::binder::QueryBinder;
use crate::logical::shape::selected;
use crate::result::Outcome;
use crate::session::Session;

pub(super) async fn run(session: &mut Session, create: &CreateTable) -> Result<Outcome, SqlError> {
    let name = user_table(session, session.table_name(&create.name)?)?;
    check_table_name(&name.name)?;
    let is_there = if create.temporary {
        session.temporary.has(&name)
    } else {
        session.kernel.cluster().table_named(&name.full()).is_some()
    };
    if is_there {
        return exists(session, &name, create.if_not_exists);
    }
    if create.temporary {
        return temporary::create(session, &name, &create.definition).await;
    }
    match &create.definition {
        sql_parser::ast::TableDefinition::Like(source) => {
            let draft = draft_like(session, source)?;
            if session.temporary.has(&session.table_name(source)?) {
                // Readers of the binary log do not have that table.
                session.definition_log.tell_as_made();
            }
            let made = make(session, &name, draft, create.if_not_exists).await?;
            Ok(made.err().unwrap_or_default())
        }
        sql_parser::ast::TableDefinition::Columns(body) => match &body.query {
            None => {
                let draft = draft_of(session, &name, body)?;
                let made = make(session, &name, draft, create.if_not_exists).await?;
                Ok(made.err().unwrap_or_default())
            }
            Some(select) => as_query(session, &name, body, select, create.if_not_exists).await,
        },
    }
}

fn exists(
    session: &mut Session,
    name: &TableName,
    if_not_exists: bool,
) -> Result<Outcome, SqlError> {
    let exists = error::table_exists(&name.name);
    if if_not_exists {
        warn(session, exists);
        Ok(Outcome::default())
    } else {
        Err(exists)
    }
}

/// What the body of a statement says, with the notes its reading has left.
pub(super) fn draft_of(
    session: &mut Session,
    name: &TableName,
    body: &TableBody,
) -> Result<Draft, SqlError> {
    let of_database = session.database_options(&name.database).collation;
    let mut rules = crate::session::rules::of_statement(session, &name.database, &name.name);
    let draft = Draft::read(body, of_database, &mut rules)?;
    keep_notes(session, rules);
    Ok(draft)
}

/// The same columns and keys as another table's.
pub(super) fn draft_like(session: &Session, source: &ObjectName) -> Result<Draft, SqlError> {
    let source = session.table_name(source)?;
    if source.is_system() {
        return Err(error::unsupported("CREATE TABLE LIKE a system table"));
    }
    let definition = session.definition_named(&source)?;
    let mut draft = Draft::of(&definition);
    draft.options.auto_increment = None;
    // As in MySQL, what it refers to is not taken over; the keys are.
    draft.foreign_keys.clear();
    for check in &mut draft.checks {
        // The names are the other table's.
        check.name = None;
    }
    Ok(draft)
}

/// Makes a table. The outcome instead, when there is one by now and that is no error.
async fn make(
    session: &mut Session,
    name: &TableName,
    draft: Draft,
    if_not_exists: bool,
) -> Result<Result<TableId, Outcome>, SqlError> {
    let mut rules = crate::session::rules::of_statement(session, &name.database, &name.name);
    let complete = draft.complete(&mut rules)?;
    keep_notes(session, rules);
    check_names_free(session, &name.database, None, &complete.checks)?;
    check_primary_key(session, &complete)?;
    let full = name.full();
    let planned = Planned::new(name, complete.parts());
    let linked = foreign_key::link(session, &planned)?;
    let create = kernel_form::create(&full, &name.name, &complete);
    match request(session, linked.with(create)).await {
        Ok(table) => Ok(Ok(table)),
        Err(failure) if refused(&failure, ErrorCode::TableExists) => {
            exists(session, name, if_not_exists).map(Err)
        }
        Err(failure) if refused(&failure, ErrorCode::UnknownDatabase) => {
            Err(error::unknown_database(&name.database))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// `sql_require_primary_key`.
pub(super) fn check_primary_key(session: &Session, table: &Complete) -> Result<(), SqlError> {
    let has = table.keys.first().is_some_and(|key| key.kind == KeyKind::Primary);
    if session.variables.sql_require_primary_key && !has {
        Err(SqlError::new(
            3750,
            "HY000",
            "Unable to create or change a table without a primary key, when the system variable \
             'sql_require_primary_key' is set. Add a primary key to the table or unset this \
             variable to avoid this message. Note that tables without a primary key can cause \
             performance problems in row-based replication, so please consult your DBA before \
             changing this setting.",
        ))
    } else {
        Ok(())
    }
}

/// CREATE TABLE … AS SELECT.
async fn as_query(
    session: &mut Session,
    name: &TableName,
    body: &TableBody,
    select: &CreateSelect,
    if_not_exists: bool,
) -> Result<Outcome, SqlError> {
    let (draft, names) = draft_of_query(session, name, body, select)?;
    let table = match make(session, name, draft, if_not_exists).await? {
        Ok(table) => table,
        Err(outcome) => return Ok(outcome),
    };
    let insert = insert_of(name, names, select);
    let inserted = execute::insert(session, &insert, &[]).await;
    let ended = match &inserted {
        Ok(_) => session.commit().await,
        Err(_) => {
            session.rollback().await;
            Ok(())
        }
    };
    match (inserted, ended) {
        (Ok(outcome), Ok(())) => Ok(outcome),
        (Err(failed), _) | (_, Err(failed)) => {
            // What the statement has made goes with it; its error is the one to be told.
            session.definition_log.restate(dropping(vec![qualified(name)]));
            let _ = request(session, SchemaChange::DropTable { table }).await;
            Err(failed)
        }
    }
}

/// What CREATE TABLE … SELECT says, and the names of the columns that the query fills.
pub(super) fn draft_of_query(
    session: &mut Session,
    name: &TableName,
    body: &TableBody,
    select: &CreateSelect,
) -> Result<(Draft, Vec<String>), SqlError> {
    let columns = QueryBinder::new(session, &[]).bind_query(&select.query, None)?.columns;
    let mut draft = draft_of(session, name, body)?;
    for column in &columns {
        // A column that is declared too has the declared type.
        if column_named(&draft.columns, &column.name).is_none() {
            let column = selected(session, column)?;
            draft.columns.push(column);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        if names.iter().any(|other| crate::catalog::same_name(other, &column.name)) {
            return Err(error::duplicate_column(&column.name));
        }
        names.push(column.name);
    }
    Ok((draft, names))
}

/// A table's name as statements have it, with its database.
pub(super) fn qualified(name: &TableName) -> ObjectName {
    ObjectName {
        schema: Some(Ident::from(name.database.as_str())),
        name: Ident::from(name.name.as_str()),
    }
}

/// The text of a statement that drops tables.
pub(super) fn dropping(tables: Vec<ObjectName>) -> String {
    Statement::DropTable(DropTable { temporary: false, if_exists: false, tables }).to_string()
}

/// The INSERT that fills a table from the query it was made by.
pub(super) fn insert_of(name: &TableName, names: Vec<String>, select: &CreateSelect) -> Insert {
    let table = qualified(name);
    let column = |name: String| ColumnRef { table: None, column: Ident::from(name.as_str()) };
    Insert {
        replace: select.duplicates == Some(LoadDuplicates::Replace),
        ignore: select.duplicates == Some(LoadDuplicates::Ignore),
        priority: None,
        hints: None,
        table,
        partitions: Vec::new(),
        columns: Some(names.into_iter().map(column).collect()),
        source: InsertSource::Query(select.query.clone()),
        alias: None,
        on_duplicate: Vec::new(),
    }
}
