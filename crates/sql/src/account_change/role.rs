//! Roles: CREATE ROLE, SET ROLE, SET DEFAULT ROLE, and giving roles.
//!
//! # Owns
//! Which roles may be active, who may give them, and that no role is given to itself.

use sql_expression::SqlError;
use sql_parser::ast::{self, CreateRole, RoleChoice, SetDefaultRole};

use super::Draft;
use super::user;
use crate::account::privilege::Privileges;
use crate::account::record::{Record, RoleGrant};
use crate::account::rights::{Active, given};
use crate::account::session::role_rules;
use crate::account::{AccountName, DEFAULT_PLUGIN, error};
use crate::result::Outcome;
use crate::session::Session;

pub(super) fn create(draft: &mut Draft<'_>, create: &CreateRole) -> Result<(), SqlError> {
    let mut there = Vec::new();
    for role in &create.roles {
        let name = draft.named(role);
        user::check_length(&name)?;
        if name.user.is_empty() {
            return Err(error::failed("CREATE ROLE", &[name]));
        }
        if draft.has(&name) {
            there.push(name);
            continue;
        }
        let record = Record {
            plugin: DEFAULT_PLUGIN.to_owned(),
            expired: true,
            locked: true,
            changed: draft.now(),
            ..Record::default()
        };
        draft.put(name, record);
    }
    draft.leave_out(create.if_not_exists, &there, "CREATE ROLE", error::is_there)
}

/// SET ROLE.
pub(super) fn set(session: &mut Session, choice: &RoleChoice) -> Result<Outcome, SqlError> {
    let rules = role_rules(session);
    let account = session.account()?.clone();
    let (is_given, active) = {
        let book = session.shared.accounts.book(&session.kernel);
        let record = book.find(&account)?.ok_or_else(|| error::denied(&account))?;
        let given = given(&book, &record, &rules);
        let names = |accounts: &[ast::Account]| -> Vec<AccountName> {
            let name = |one| AccountName::stated(one).unwrap_or_else(|| account.clone());
            accounts.iter().map(name).collect()
        };
        match choice {
            // Those that are activated at the login are the default only there.
            RoleChoice::Default => (Ok(()), Active::These(record.default_roles.clone())),
            RoleChoice::None => (Ok(()), Active::None),
            RoleChoice::All(except) => (Ok(()), Active::All(names(except))),
            RoleChoice::Roles(roles) => {
                let roles = names(roles);
                let other = roles.iter().find(|role| !given.contains(role));
                let denied = |role| Err(error::role_not_granted(role, &account));
                (other.map_or(Ok(()), denied), Active::These(roles))
            }
        }
    };
    is_given?;
    session.activate_roles(active);
    Ok(Outcome::default())
}

/// SET DEFAULT ROLE.
pub(super) fn set_default(draft: &mut Draft<'_>, set: &SetDefaultRole) -> Result<(), SqlError> {
    for account in &set.to {
        let name = draft.named(account);
        let may = name == *draft.who()
            || draft.rights.global.has(Privileges::CREATE_USER)
            || draft.rights.of_table("mysql", "default_roles").has(Privileges::UPDATE);
        if !may {
            return Err(error::needs("CREATE USER"));
        }
        let nobody = || error::failed("SET DEFAULT ROLE", std::slice::from_ref(&name));
        let mut record = draft.get(&name)?.ok_or_else(nobody)?;
        record.default_roles = chosen(draft, &name, &record, &set.roles)?;
        draft.put(name, record);
    }
    Ok(())
}

/// The roles of a choice, which must have been given to the account.
///
/// # Errors
/// 3530.
pub(super) fn chosen(
    draft: &Draft<'_>,
    name: &AccountName,
    record: &Record,
    choice: &RoleChoice,
) -> Result<Vec<AccountName>, SqlError> {
    let given = given(&draft.book, record, &draft.rules);
    match choice {
        RoleChoice::Default | RoleChoice::None => Ok(Vec::new()),
        RoleChoice::All(except) => {
            let except: Vec<AccountName> = except.iter().map(|one| draft.named(one)).collect();
            Ok(given.into_iter().filter(|role| !except.contains(role)).collect())
        }
        RoleChoice::Roles(roles) => {
            let roles: Vec<AccountName> = roles.iter().map(|one| draft.named(one)).collect();
            match roles.iter().find(|role| !given.contains(role)) {
                Some(role) => Err(error::role_not_granted(role, name)),
                None => Ok(roles),
            }
        }
    }
}

/// Refuses to give a role that is not there, or that the session may not give.
///
/// # Errors
/// 3523, 1227.
pub(super) fn check_giving(
    draft: &Draft<'_>,
    given: &AccountName,
    to: &AccountName,
) -> Result<(), SqlError> {
    if !draft.rights.may_give_role(given) {
        return Err(error::needs("WITH ADMIN, ROLE_ADMIN, SUPER"));
    }
    if !draft.has(given) {
        return Err(error::unknown_account(given));
    }
    if given == to || reaches(draft, given, to)? {
        Err(error::role_circle(to, given))
    } else {
        Ok(())
    }
}

/// Whether an account has a role, by itself or by another role.
fn reaches(draft: &Draft<'_>, from: &AccountName, role: &AccountName) -> Result<bool, SqlError> {
    let (mut seen, mut waiting) = (Vec::new(), vec![from.clone()]);
    while let Some(name) = waiting.pop() {
        let Some(record) = draft.get(&name)? else { continue };
        for grant in &record.roles {
            if grant.role == *role {
                return Ok(true);
            }
            if !seen.contains(&grant.role) {
                seen.push(grant.role.clone());
                waiting.push(grant.role.clone());
            }
        }
    }
    Ok(false)
}

/// GRANT of roles.
pub(super) fn give(
    draft: &mut Draft<'_>,
    roles: &[ast::Account],
    to: &[ast::Account],
    admin: bool,
) -> Result<(), SqlError> {
    for account in to {
        let name = draft.named(account);
        let mut record = draft.get(&name)?.ok_or_else(|| error::unknown_account(&name))?;
        draft.may_touch(&name)?;
        for role in roles {
            let role = draft.named(role);
            check_giving(draft, &role, &name)?;
            match record.roles.iter_mut().find(|grant| grant.role == role) {
                Some(grant) => grant.admin |= admin,
                None => record.roles.push(RoleGrant { role, admin }),
            }
        }
        draft.put(name, record);
    }
    Ok(())
}

/// REVOKE of roles. What is not there is an error, or with IF EXISTS a warning.
pub(super) fn take(
    draft: &mut Draft<'_>,
    roles: &[ast::Account],
    from: &[ast::Account],
    if_exists: bool,
    ignore_unknown: bool,
) -> Result<(), SqlError> {
    for account in from {
        let name = draft.named(account);
        let Some(mut record) = draft.get(&name)? else {
            if ignore_unknown {
                draft.warn(error::not_there(&name));
                continue;
            }
            return Err(error::unknown_account(&name));
        };
        draft.may_touch(&name)?;
        for role in roles {
            let role = draft.named(role);
            if draft.rules.mandatory.contains(&role) {
                return Err(error::mandatory_role(&role));
            }
            if !draft.rights.may_give_role(&role) {
                return Err(error::needs("WITH ADMIN, ROLE_ADMIN, SUPER"));
            }
            let known = record.roles.len();
            record.roles.retain(|grant| grant.role != role);
            record.default_roles.retain(|default| *default != role);
            if record.roles.len() == known {
                let missing = error::role_not_granted(&role, &name);
                if !if_exists {
                    return Err(missing);
                }
                draft.warn(missing);
            }
        }
        draft.takes = true;
        draft.put(name, record);
    }
    Ok(())
}

/// Whoever has a role has this one instead from now on, or none.
pub(super) fn replace(
    draft: &mut Draft<'_>,
    old: &AccountName,
    new: Option<&AccountName>,
) -> Result<(), SqlError> {
    for name in draft.names() {
        let Some(mut record) = draft.get(&name)? else { continue };
        if record.role(old).is_none() && !record.default_roles.contains(old) {
            continue;
        }
        match new {
            Some(new) => {
                let grants = record.roles.iter_mut().map(|grant| &mut grant.role);
                let all = grants.chain(&mut record.default_roles);
                all.filter(|role| **role == *old).for_each(|role| role.clone_from(new));
            }
            None => {
                record.roles.retain(|grant| grant.role != *old);
                record.default_roles.retain(|role| role != old);
            }
        }
        draft.put(name, record);
    }
    Ok(())
}
