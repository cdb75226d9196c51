//! CREATE VIEW, ALTER VIEW, DROP VIEW.
//!
//! # Owns
//! Their effects, and what the client is told.
//! # Not here
//! The form in which a view is kept (`catalog::view`), checks of its query (`plan::view`).

use model::{ErrorCode, SchemaChange};
use sql_expression::SqlError;
use sql_parser::ast::{Account, CreateView, DropView, ObjectName};

use super::step::{refused, request, user_table, warn};
use crate::catalog::error;
use crate::catalog::names::{TableName, check_table_name};
use crate::catalog::view::{self, is_view};
use crate::logical::binder::QueryBinder;
use crate::logical::view::kept_form;
use crate::plan::planner::Planner;
use crate::result::Outcome;
use crate::session::Session;

/// CREATE VIEW, with or without OR REPLACE, and ALTER VIEW.
pub(super) async fn create(
    session: &mut Session,
    create: &CreateView,
) -> Result<Outcome, SqlError> {
    let name = user_table(session, session.table_name(&create.name)?)?;
    check_table_name(&name.name)?;
    let cluster = session.kernel.cluster();
    let before = cluster.table_named(&name.full()).cloned();
    match &before {
        None if create.alter => return Err(error::no_such_table(&name.database, &name.name)),
        Some(table) if (create.alter || create.or_replace) && !is_view(table) => {
            return Err(SqlError::of::<1347>(&[&name.database, &name.name, &"VIEW"]));
        }
        Some(_) if !(create.alter || create.or_replace) => {
            return Err(error::table_exists(&name.name));
        }
        _ => {}
    }
    let mut binding = QueryBinder::new(session, &[]);
    let query = kept_form(&mut binding, &name, create)?;
    let mut kept = create.clone();
    // What cannot be planned is no view.
    Planner::new(session, &[]).query(&query)?;
    *kept.query = query;
    kept.name = ObjectName { schema: None, name: create.name.name.clone() };
    if matches!(kept.definer, None | Some(Account::CurrentUser)) {
        kept.definer = Some(definer(session));
    }
    kept.invoker = Some(create.invoker.unwrap_or(false));
    let description = view::description(&kept);
    let asked = match &before {
        None => view::create(&name.full(), description),
        Some(table) => SchemaChange::Describe {
            table: table.id,
            version: table.version,
            renamed: Vec::new(),
            description,
        },
    };
    match request(session, asked).await {
        Ok(_) => Ok(Outcome::default()),
        Err(failure) if refused(&failure, ErrorCode::TableExists) => {
            Err(error::table_exists(&name.name))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The account of the session, as DEFINER.
fn definer(session: &Session) -> Account {
    let (user, host) = session.user.split_once('@').unwrap_or((&session.user, "localhost"));
    Account::Name { user: user.into(), host: Some(host.into()) }
}

/// DROP VIEW: all of the views are there, or none is dropped.
pub(super) async fn drop(session: &mut Session, drop: &DropView) -> Result<Outcome, SqlError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in &drop.views {
        let name = user_table(session, session.table_name(name)?)?;
        match session.kernel.cluster().table_named(&name.full()) {
            Some(table) if is_view(table) => found.push(table.id),
            Some(_) => return Err(SqlError::of::<1347>(&[&name.database, &name.name, &"VIEW"])),
            None => missing.push(name),
        }
    }
    if !missing.is_empty() && !drop.if_exists {
        let names: Vec<String> = missing.iter().map(TableName::full).collect();
        return Err(error::unknown_table(&names.join(",")));
    }
    for name in missing {
        warn(session, error::unknown_table(&name.full()));
    }
    for table in found {
        match request(session, SchemaChange::DropTable { table }).await {
            Ok(_) => {}
            // Somebody else was faster: it is gone all the same.
            Err(failure) if refused(&failure, ErrorCode::UnknownTable) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(Outcome::default())
}
