//! MySQL's errors about accounts and privileges.
//!
//! # Owns
//! Numbers, SQLSTATEs and texts of those that are not in the table of all errors, and short ways to
//! the others.

use sql_expression::SqlError;

use super::AccountName;
use super::attempts::{Blocked, Lockout};
use super::privilege::Privileges;

/// 1142.
pub(crate) fn table_denied(what: impl ToString, who: &AccountName, table: &str) -> SqlError {
    SqlError::of::<1142>(&[&what.to_string(), &who.user, &who.host, &table])
}

/// 1143.
pub(crate) fn column_denied(
    what: Privileges,
    who: &AccountName,
    column: &str,
    table: &str,
) -> SqlError {
    SqlError::of::<1143>(&[&what, &who.user, &who.host, &column, &table])
}

/// 1044.
pub(crate) fn database_denied(who: &AccountName, database: &str) -> SqlError {
    SqlError::of::<1044>(&[&who.user, &who.host, &database])
}

/// 1045, as a statement says it that needs FILE.
pub(crate) fn denied(who: &AccountName) -> SqlError {
    SqlError::of::<1045>(&[&who.user, &who.host, &"YES"])
}

/// 1203: the limit of all accounts.
pub(crate) fn too_many_connections(who: &AccountName) -> SqlError {
    let text = format!(
        "User {} already has more than 'max_user_connections' active connections",
        who.user
    );
    SqlError::new(1203, "42000", text)
}

/// 1226: a limit of the account.
pub(crate) fn limit_reached(who: &AccountName, what: &str, limit: u64) -> SqlError {
    let text =
        format!("User '{}' has exceeded the '{what}' resource (current value: {limit})", who.user);
    SqlError::new(1226, "42000", text)
}

/// 1227.
pub(crate) fn needs(privileges: &str) -> SqlError {
    SqlError::of::<1227>(&[&privileges])
}

/// 1370.
pub(crate) fn routine_denied(what: &str, who: &AccountName, routine: &str) -> SqlError {
    let text = format!("{what} command denied to user {who} for routine '{routine}'");
    SqlError::new(1370, "42000", text)
}

/// 1396: what could not be done, and to which accounts.
pub(crate) fn failed(operation: &str, accounts: &[AccountName]) -> SqlError {
    let names: Vec<String> = accounts.iter().map(ToString::to_string).collect();
    SqlError::of::<1396>(&[&operation, &names.join(",")])
}

/// 1141.
pub(crate) fn no_grant(of: &AccountName) -> SqlError {
    SqlError::of::<1141>(&[&of.user, &of.host])
}

/// 1147.
pub(crate) fn no_table_grant(of: &AccountName, table: &str) -> SqlError {
    SqlError::of::<1147>(&[&of.user, &of.host, &table])
}

/// 1144.
pub(crate) fn illegal_grant() -> SqlError {
    let text = "Illegal GRANT/REVOKE command; please consult the manual to see which privileges \
                can be used";
    SqlError::new(1144, "42000", text)
}

/// 1221.
pub(crate) fn wrong_usage(one: &str, other: &str) -> SqlError {
    SqlError::of::<1221>(&[&one, &other])
}

/// 1449.
pub(crate) fn no_definer(name: &AccountName) -> SqlError {
    let text = format!("The user specified as a definer ({name}) does not exist");
    SqlError::new(1449, "HY000", text)
}

/// 1470.
pub(crate) fn too_long(what: &str, name: &str, most: usize) -> SqlError {
    let text = format!("String '{name}' is too long for {what} (should be no longer than {most})");
    SqlError::new(1470, "HY000", text)
}

/// 1524.
pub(crate) fn no_plugin(name: &str) -> SqlError {
    SqlError::new(1524, "HY000", format!("Plugin '{name}' is not loaded"))
}

/// 3955: too many logins have failed.
pub(crate) fn blocked(user: &str, host: &str, by: &Lockout, blocked: &Blocked) -> SqlError {
    let days = |days: Option<u64>| days.map_or("unlimited".to_owned(), |days| days.to_string());
    let text = format!(
        "Access denied for user '{user}'@'{host}'. Account is blocked for {} day(s) ({} day(s) \
         remaining) due to {} consecutive failed logins.",
        days(by.days),
        days(blocked.days_left),
        by.attempts
    );
    SqlError::new(3955, "HY000", text)
}

/// 1827.
pub(crate) fn bad_hash() -> SqlError {
    let text = "The password hash doesn't have the expected format.";
    SqlError::new(1827, "HY000", text)
}

/// 3523.
pub(crate) fn unknown_account(name: &AccountName) -> SqlError {
    SqlError::new(3523, "HY000", format!("Unknown authorization ID {}", name.quoted()))
}

/// 3162 as a note: an account is not there.
pub(crate) fn not_there(name: &AccountName) -> SqlError {
    SqlError::new(3162, "HY000", format!("Authorization ID {name} does not exist."))
}

/// 3163 as a note: an account is there.
pub(crate) fn is_there(name: &AccountName) -> SqlError {
    SqlError::new(3163, "HY000", format!("Authorization ID {name} already exists."))
}

/// 3530.
pub(crate) fn role_not_granted(role: &AccountName, to: &AccountName) -> SqlError {
    let text = format!("{} is not granted to {}", role.quoted(), to.quoted());
    SqlError::new(3530, "HY000", text)
}

/// 3628.
pub(crate) fn mandatory_role(role: &AccountName) -> SqlError {
    let text = format!(
        "The role {} is a mandatory role and can't be revoked or dropped. The restriction can be \
         lifted by excluding the role identifier from the global variable mandatory_roles.",
        role.quoted()
    );
    SqlError::new(3628, "HY000", text)
}

/// 3573: roles would be given to themselves.
pub(crate) fn role_circle(role: &AccountName, to: &AccountName) -> SqlError {
    let text = format!(
        "User account {} is directly or indirectly granted to the role {}. The GRANT would create \
         a loop",
        role.quoted(),
        to.quoted()
    );
    SqlError::new(3573, "HY000", text)
}

/// 3638.
pub(crate) fn password_reused(of: &AccountName) -> SqlError {
    let AccountName { user, host } = of;
    let text = format!(
        "Cannot use these credentials for '{user}@{host}' because they contradict the password \
         history policy"
    );
    SqlError::new(3638, "HY000", text)
}

/// 3891.
pub(crate) fn wrong_current_password() -> SqlError {
    let text = "Incorrect current password. Specify the correct password which has to be replaced.";
    SqlError::new(3891, "HY000", text)
}

/// 3892.
pub(crate) fn current_password_missing() -> SqlError {
    let text =
        "Current password needs to be specified in the REPLACE clause in order to change it.";
    SqlError::new(3892, "HY000", text)
}

/// 3893.
pub(crate) fn current_password_unneeded() -> SqlError {
    let text = "Do not specify the current password while changing it for other users.";
    SqlError::new(3893, "HY000", text)
}

/// 3894.
pub(crate) fn nothing_to_retain(of: &AccountName) -> SqlError {
    let AccountName { user, host } = of;
    let text = format!(
        "Current password can not be retained for user '{user}'@'{host}' because new password is \
         empty."
    );
    SqlError::new(3894, "HY000", text)
}

/// 3895.
pub(crate) fn empty_not_retained(of: &AccountName) -> SqlError {
    let AccountName { user, host } = of;
    let text = format!(
        "Empty password can not be retained as second password for user '{user}'@'{host}'."
    );
    SqlError::new(3895, "HY000", text)
}

/// 3929.
pub(crate) fn unknown_dynamic(name: &str) -> SqlError {
    let text = format!("Dynamic privilege '{name}' is not registered with the server.");
    SqlError::new(3929, "HY000", text)
}

/// 3619.
pub(crate) fn illegal_level(name: &str, level: &str) -> SqlError {
    let text = format!("Illegal privilege level specified for {name}: {level}");
    SqlError::new(3619, "42000", text)
}

/// 1820.
pub(crate) fn must_change_password() -> SqlError {
    SqlError::of::<1820>(&[])
}

/// 1819.
pub(crate) fn weak_password() -> SqlError {
    SqlError::of::<1819>(&[])
}
