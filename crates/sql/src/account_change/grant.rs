//! GRANT and REVOKE.
//!
//! # Owns
//! Which privileges can be given for what, what one must have to give them, and how grants change
//! accounts.

use std::collections::BTreeMap;

use sql_expression::{SqlError, same_name};
use sql_parser::ast::{self, Grant, Granted, Privilege, PrivilegeTarget, Revoke};

use super::Draft;
use super::role;
use crate::account::privilege::{DYNAMIC, Dynamic, Privileges as P};
use crate::account::record::{Record, TableGrant};
use crate::account::{AccountName, error};
use crate::authorize::needs::columns_of;
use crate::catalog::error as catalog_error;
use crate::catalog::names::TableName;

/// What is given or taken, as far as it is not roles.
struct Asked {
    level: Level,
    /// For everything of the level.
    whole: P,
    /// ALL was said.
    all: bool,
    /// By column.
    columns: BTreeMap<String, P>,
    dynamic: Vec<String>,
}

/// For what.
enum Level {
    Global,
    Database(String),
    Table(TableName),
}

pub(super) fn grant(draft: &mut Draft<'_>, grant: &Grant) -> Result<(), SqlError> {
    if grant.as_account.is_some() {
        return Err(SqlError::not_supported("GRANT ... AS"));
    }
    match &grant.what {
        Granted::Roles(roles) => role::give(draft, roles, &grant.to, grant.with_option),
        Granted::Proxy(_) => Err(SqlError::not_supported("PROXY")),
        Granted::Everything => Err(SqlError::internal("GRANT of everything")),
        Granted::Privileges { privileges, target } => {
            let mut asked = asked(draft, privileges, target, false)?;
            if grant.with_option {
                asked.whole |= P::GRANT;
            }
            check_exists(draft, &asked)?;
            check_giver(draft, &asked)?;
            for account in &grant.to {
                let name = draft.named(account);
                let nobody = || SqlError::of::<1410>(&[]);
                let mut record = draft.get(&name)?.ok_or_else(nobody)?;
                draft.may_touch(&name)?;
                give(draft, &mut record, &asked, grant.with_option);
                draft.put(name, record);
            }
            Ok(())
        }
    }
}

pub(super) fn revoke(draft: &mut Draft<'_>, revoke: &Revoke) -> Result<(), SqlError> {
    match &revoke.what {
        Granted::Roles(roles) => {
            role::take(draft, roles, &revoke.from, revoke.if_exists, revoke.ignore_unknown)
        }
        Granted::Proxy(_) => Err(SqlError::not_supported("PROXY")),
        Granted::Everything => revoke_everything(draft, revoke),
        Granted::Privileges { privileges, target } => {
            let asked = asked(draft, privileges, target, true)?;
            check_giver(draft, &asked)?;
            for account in &revoke.from {
                let name = draft.named(account);
                let Some(mut record) = draft.get(&name)? else {
                    if !revoke.ignore_unknown {
                        return Err(error::no_grant(&name));
                    }
                    draft.warn(error::not_there(&name));
                    continue;
                };
                draft.may_touch(&name)?;
                match take(draft, &name, &mut record, &asked) {
                    Err(missing) if revoke.if_exists => draft.warn(missing),
                    result => result?,
                }
                draft.takes = true;
                draft.put(name, record);
            }
            Ok(())
        }
    }
}

/// REVOKE ALL PRIVILEGES, GRANT OPTION.
fn revoke_everything(draft: &mut Draft<'_>, revoke: &Revoke) -> Result<(), SqlError> {
    let may =
        draft.rights.global.has(P::CREATE_USER) || draft.rights.of_database("mysql").has(P::UPDATE);
    if !may {
        return Err(error::needs("CREATE USER"));
    }
    for account in &revoke.from {
        let name = draft.named(account);
        let Some(mut record) = draft.get(&name)? else {
            if !revoke.ignore_unknown {
                let text = "Can't revoke all privileges for one or more of the requested users";
                return Err(SqlError::new(1269, "HY000", text));
            }
            draft.warn(error::not_there(&name));
            continue;
        };
        draft.may_touch(&name)?;
        record.global = P::NONE;
        record.dynamic.clear();
        record.databases.clear();
        record.restrictions.clear();
        record.tables.clear();
        draft.takes = true;
        draft.put(name, record);
    }
    Ok(())
}

/// Reads what is asked for, and whether it can be given for that.
fn asked(
    draft: &mut Draft<'_>,
    privileges: &[Privilege],
    target: &PrivilegeTarget,
    revokes: bool,
) -> Result<Asked, SqlError> {
    let session = draft.session;
    let level = match target {
        PrivilegeTarget::Global => Level::Global,
        PrivilegeTarget::Database(Some(name)) => Level::Database(name.as_str().to_owned()),
        PrivilegeTarget::Database(None) => Level::Database(session.current_database()?.to_owned()),
        PrivilegeTarget::Table(name) => Level::Table(session.table_name(name)?),
        PrivilegeTarget::Function(name) => return Err(no_routine("FUNCTION", name)),
        PrivilegeTarget::Procedure(name) => return Err(no_routine("PROCEDURE", name)),
    };
    let mut asked =
        Asked { level, whole: P::NONE, all: false, columns: BTreeMap::new(), dynamic: Vec::new() };
    for privilege in privileges {
        let name = &*privilege.name;
        let of_level = match asked.level {
            Level::Global => P::ALL,
            Level::Database(_) => P::OF_DATABASE | P::GRANT,
            Level::Table(_) => P::OF_TABLE | P::GRANT,
        };
        match P::named(name) {
            _ if name == "USAGE" => {}
            _ if name == "ALL" => {
                asked.all = true;
                asked.whole |= of_level - P::GRANT;
                if matches!(asked.level, Level::Global) {
                    asked.dynamic = DYNAMIC.iter().map(|name| (*name).to_owned()).collect();
                }
            }
            Some(one) if !privilege.columns.is_empty() => {
                if !matches!(asked.level, Level::Table(_)) {
                    return Err(error::wrong_usage("COLUMN GRANT", "NON-COLUMN PRIVILEGES"));
                }
                if !P::OF_COLUMN.has(one) {
                    return Err(error::wrong_usage("COLUMN GRANT", "NON-COLUMN PRIVILEGES"));
                }
                for column in &privilege.columns {
                    *asked.columns.entry(column.as_str().to_owned()).or_default() |= one;
                }
            }
            Some(one) if of_level.has(one) => asked.whole |= one,
            Some(_) => {
                return Err(match asked.level {
                    Level::Database(_) => error::wrong_usage("DB GRANT", "GLOBAL PRIVILEGES"),
                    _ => error::illegal_grant(),
                });
            }
            None => dynamic(draft, &mut asked, name, revokes)?,
        }
    }
    Ok(asked)
}

fn dynamic(
    draft: &mut Draft<'_>,
    asked: &mut Asked,
    name: &str,
    revokes: bool,
) -> Result<(), SqlError> {
    if !matches!(asked.level, Level::Global) {
        let level = "non-global level";
        return Err(error::illegal_level(name, level));
    }
    if Dynamic::named(name).is_none() {
        if !revokes {
            return Err(error::unknown_dynamic(name));
        }
        draft.warn(error::unknown_dynamic(name));
    }
    asked.dynamic.push(name.to_owned());
    Ok(())
}

/// There are no routines yet, so none can be named.
fn no_routine(kind: &str, name: &ast::ObjectName) -> SqlError {
    SqlError::new(1305, "42000", format!("{kind} {name} does not exist"))
}

/// Tables and columns for which something is given must be there, unless CREATE is given.
fn check_exists(draft: &Draft<'_>, asked: &Asked) -> Result<(), SqlError> {
    let Level::Table(table) = &asked.level else { return Ok(()) };
    let columns = columns_of(draft.session, table);
    let TableName { database, name } = table;
    match &columns {
        None if asked.whole.has(P::CREATE) => Ok(()),
        None => Err(catalog_error::no_such_table(database, name)),
        Some(columns) => {
            let is_there = |name: &&String| columns.iter().any(|one| same_name(one, name));
            match asked.columns.keys().find(|name| !is_there(name)) {
                Some(column) => Err(SqlError::unknown_column(column, name)),
                None => Ok(()),
            }
        }
    }
}

/// Who gives or takes must have it, and be allowed to give it on.
fn check_giver(draft: &Draft<'_>, asked: &Asked) -> Result<(), SqlError> {
    let rights = &draft.rights;
    let who = draft.who();
    let needed = asked.whole | P::GRANT;
    match &asked.level {
        Level::Global => {
            let wants_static = !asked.whole.is_empty() || asked.dynamic.is_empty();
            if wants_static && !rights.global.has(needed) {
                return Err(error::denied(who));
            }
            let may = |name: &String| {
                Dynamic::named(name).is_none() && rights.global.has(P::GRANT)
                    || rights.may_give(name)
            };
            // Of ALL those are given that may be given.
            if asked.all || asked.dynamic.iter().all(may) {
                Ok(())
            } else {
                Err(error::needs("GRANT OPTION"))
            }
        }
        Level::Database(database) => {
            if rights.of_database(database).has(needed) {
                Ok(())
            } else {
                Err(error::database_denied(who, database))
            }
        }
        Level::Table(TableName { database, name }) => {
            let has = rights.of_table(database, name);
            let lacking = needed - has;
            if !lacking.is_empty() {
                return Err(error::table_denied(lacking, who, name));
            }
            for (column, of_column) in &asked.columns {
                let has = has | rights.of_column(database, name, column);
                if !has.has(*of_column) {
                    return Err(error::column_denied(*of_column - has, who, column, name));
                }
            }
            Ok(())
        }
    }
}

/// Adds what is asked for.
fn give(draft: &Draft<'_>, record: &mut Record, asked: &Asked, with_option: bool) {
    match &asked.level {
        Level::Global => {
            inherit_restrictions(draft, record, asked.whole);
            record.global |= asked.whole;
            for name in asked.dynamic.iter().filter(|name| draft.rights.may_give(name)) {
                *record.dynamic.entry(name.clone()).or_default() |= with_option;
            }
        }
        Level::Database(database) => {
            if let Some(restricted) = record.restrictions.get_mut(database) {
                *restricted = *restricted - asked.whole;
            }
            record.restrictions.retain(|_, restricted| !restricted.is_empty());
            let whole = asked.whole;
            if !whole.is_empty() {
                *record.databases.entry(database.clone()).or_default() |= whole;
            }
        }
        Level::Table(TableName { database, name }) => {
            let tables = record.tables.entry(database.clone()).or_default();
            let grant = tables.entry(name.clone()).or_default();
            grant.privileges |= asked.whole;
            for (column, privileges) in &asked.columns {
                let known = grant.columns.keys().find(|name| same_name(name, column)).cloned();
                let column = known.unwrap_or_else(|| column.clone());
                *grant.columns.entry(column).or_default() |= *privileges;
            }
            grant.grantor = draft.who().plain();
            grant.at = draft.now();
            prune(record);
        }
    }
}

/// What is kept from the giver is kept from whom it gives to, who had it not before.
fn inherit_restrictions(draft: &Draft<'_>, record: &mut Record, whole: P) {
    for (database, restricted) in draft.rights.restrictions() {
        let new = (restricted & whole) - record.global;
        if !new.is_empty() {
            *record.restrictions.entry(database).or_default() |= new;
        }
    }
}

/// Takes what is asked for.
///
/// # Errors
/// 1141 and 1147 if nothing of the kind was given.
fn take(
    draft: &Draft<'_>,
    name: &AccountName,
    record: &mut Record,
    asked: &Asked,
) -> Result<(), SqlError> {
    match &asked.level {
        Level::Global => {
            record.global = record.global - asked.whole;
            let global = record.global;
            record.restrictions.retain(|_, restricted| {
                *restricted = *restricted & global;
                !restricted.is_empty()
            });
            for dynamic in &asked.dynamic {
                record.dynamic.remove(dynamic);
            }
            Ok(())
        }
        Level::Database(database) => {
            let restricts =
                draft.rules.partial_revokes && record.global.meets(asked.whole - P::GRANT);
            if restricts {
                let of_all = record.global & asked.whole;
                *record.restrictions.entry(database.clone()).or_default() |= of_all;
            }
            match record.databases.get_mut(database) {
                Some(privileges) => *privileges = *privileges - asked.whole,
                None if !restricts => return Err(error::no_grant(name)),
                None => {}
            }
            record.databases.retain(|_, privileges| !privileges.is_empty());
            Ok(())
        }
        Level::Table(table) => {
            let TableName { database, name: of } = table;
            let grant = record.tables.get_mut(database).and_then(|tables| tables.get_mut(of));
            let grant = grant.ok_or_else(|| error::no_table_grant(name, of))?;
            grant.privileges = grant.privileges - asked.whole;
            if asked.all {
                grant.columns.clear();
            }
            for privileges in grant.columns.values_mut() {
                *privileges = *privileges - asked.whole;
            }
            take_columns(grant, &asked.columns);
            prune(record);
            Ok(())
        }
    }
}

fn take_columns(grant: &mut TableGrant, columns: &BTreeMap<String, P>) {
    for (column, taken) in columns {
        for (name, privileges) in &mut grant.columns {
            if same_name(name, column) {
                *privileges = *privileges - *taken;
            }
        }
    }
    grant.columns.retain(|_, privileges| !privileges.is_empty());
}

/// Forgets tables for which nothing is given.
fn prune(record: &mut Record) {
    for tables in record.tables.values_mut() {
        tables.retain(|_, grant| !grant.is_empty());
    }
    record.tables.retain(|_, tables| !tables.is_empty());
}
