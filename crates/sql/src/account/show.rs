//! SHOW GRANTS and SHOW CREATE USER.
//!
//! # Owns
//! The statements that make an account and its privileges again, as MySQL prints them.

use sql_expression::SqlError;

use super::book::Book;
use super::privilege::Privileges as P;
use super::record::{Record, Requirement, TableGrant};
use super::{AccountName, error};

/// The words of resource limits, in the order of `mysql.user`.
pub(crate) const LIMITS: [&str; 4] = [
    "MAX_QUERIES_PER_HOUR",
    "MAX_UPDATES_PER_HOUR",
    "MAX_CONNECTIONS_PER_HOUR",
    "MAX_USER_CONNECTIONS",
];

/// SHOW GRANTS: with what the roles bring that are to be used.
///
/// # Errors
/// 1141 if the account is not there, 3530 for a role that is not given to it.
pub(crate) fn grants(
    book: &Book<'_>,
    name: &AccountName,
    given: &[AccountName],
    using: &[AccountName],
) -> Result<Vec<String>, SqlError> {
    let record = book.find(name)?.ok_or_else(|| error::no_grant(name))?;
    let mut all = (*record).clone();
    let mut waiting = using.to_vec();
    let mut seen: Vec<AccountName> = Vec::new();
    if let Some(role) = using.iter().find(|role| !given.contains(role)) {
        return Err(error::role_not_granted(role, name));
    }
    while let Some(role) = waiting.pop() {
        if seen.contains(&role) {
            continue;
        }
        if let Some(of_role) = book.find(&role)? {
            merge(&mut all, &of_role);
            waiting.extend(of_role.roles.iter().map(|grant| grant.role.clone()));
        }
        seen.push(role);
    }
    Ok(statements(name, &all))
}

/// Adds the privileges of a role.
fn merge(all: &mut Record, role: &Record) {
    all.global |= role.global;
    for (name, option) in &role.dynamic {
        *all.dynamic.entry(name.clone()).or_default() |= *option;
    }
    for (database, privileges) in &role.databases {
        *all.databases.entry(database.clone()).or_default() |= *privileges;
    }
    for (database, tables) in &role.tables {
        let into = all.tables.entry(database.clone()).or_default();
        for (table, grant) in tables {
            let into = into.entry(table.clone()).or_default();
            into.privileges |= grant.privileges;
            for (column, privileges) in &grant.columns {
                *into.columns.entry(column.clone()).or_default() |= *privileges;
            }
        }
    }
    // What one source keeps back another one may give.
    all.restrictions.retain(|_, restricted| {
        *restricted = *restricted - role.global;
        !restricted.is_empty()
    });
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn statements(name: &AccountName, record: &Record) -> Vec<String> {
    let to = name.quoted();
    let option = |privileges: P| if privileges.has(P::GRANT) { " WITH GRANT OPTION" } else { "" };
    let list = |privileges: P, all: P| match privileges - P::GRANT {
        given if given.is_empty() => "USAGE".to_owned(),
        given if given == all => "ALL PRIVILEGES".to_owned(),
        given => given.to_string(),
    };
    let mut lines = Vec::new();
    // Everywhere MySQL lists what there is: dynamic privileges come behind.
    let global = list(record.global, P::ALL);
    lines.push(format!("GRANT {global} ON *.* TO {to}{}", option(record.global)));
    for with in [false, true] {
        let names = record.dynamic.iter().filter(|(_, option)| **option == with);
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let option = if with { " WITH GRANT OPTION" } else { "" };
            lines.push(format!("GRANT {} ON *.* TO {to}{option}", names.join(",")));
        }
    }
    for (database, privileges) in &record.databases {
        let given = list(*privileges, P::OF_DATABASE);
        let database = quoted(database);
        lines.push(format!("GRANT {given} ON {database}.* TO {to}{}", option(*privileges)));
    }
    for (database, restricted) in &record.restrictions {
        lines.push(format!("REVOKE {restricted} ON {}.* FROM {to}", quoted(database)));
    }
    for (database, tables) in &record.tables {
        for (table, grant) in tables {
            let given = of_table(grant);
            let (database, table) = (quoted(database), quoted(table));
            let option = option(grant.privileges);
            lines.push(format!("GRANT {given} ON {database}.{table} TO {to}{option}"));
        }
    }
    for with in [false, true] {
        let roles = record.roles.iter().filter(|grant| grant.admin == with);
        let mut roles: Vec<String> = roles.map(|grant| grant.role.quoted()).collect();
        roles.sort_unstable();
        if !roles.is_empty() {
            let option = if with { " WITH ADMIN OPTION" } else { "" };
            lines.push(format!("GRANT {} TO {to}{option}", roles.join(",")));
        }
    }
    lines
}

/// `SELECT, INSERT (`a`, `b`)`.
fn of_table(grant: &TableGrant) -> String {
    let whole = grant.privileges - P::GRANT;
    if whole == P::OF_TABLE && grant.columns.is_empty() {
        return "ALL PRIVILEGES".to_owned();
    }
    let mut parts = Vec::new();
    for known in P::OF_TABLE.each() {
        if whole.has(known.privilege) {
            parts.push(known.name.to_owned());
        }
        let columns = grant.columns.iter().filter(|(_, of)| of.has(known.privilege));
        let columns: Vec<String> = columns.map(|(name, _)| quoted(name)).collect();
        if !columns.is_empty() {
            parts.push(format!("{} ({})", known.name, columns.join(", ")));
        }
    }
    if parts.is_empty() { "USAGE".to_owned() } else { parts.join(", ") }
}

/// SHOW CREATE USER; `as_hex` prints what is kept of the password as a number.
pub(crate) fn create_user(name: &AccountName, record: &Record, as_hex: bool) -> String {
    let mut text = format!("CREATE USER {} IDENTIFIED WITH '{}'", name.quoted(), record.plugin);
    if !record.authentication.is_empty() {
        text.push_str(" AS ");
        if as_hex {
            text.push_str("0x");
            record.authentication.bytes().for_each(|byte| text.push_str(&format!("{byte:02X}")));
        } else {
            text.push_str(&string(&record.authentication));
        }
    }
    if !record.default_roles.is_empty() {
        let mut roles: Vec<String> = record.default_roles.iter().map(AccountName::quoted).collect();
        roles.sort_unstable();
        text.push_str(&format!(" DEFAULT ROLE {}", roles.join(",")));
    }
    text.push_str(" REQUIRE");
    match &record.require {
        Requirement::None => text.push_str(" NONE"),
        Requirement::Ssl => text.push_str(" SSL"),
        Requirement::X509 => text.push_str(" X509"),
        Requirement::Certificate { subject, issuer, cipher } => {
            for (word, value) in [("SUBJECT", subject), ("ISSUER", issuer), ("CIPHER", cipher)] {
                if !value.is_empty() {
                    text.push_str(&format!(" {word} {}", string(value)));
                }
            }
        }
    }
    if record.limits != [0; 4] {
        text.push_str(" WITH");
        for (word, value) in LIMITS.iter().zip(record.limits).filter(|(_, value)| *value > 0) {
            text.push_str(&format!(" {word} {value}"));
        }
    }
    rules(&mut text, record);
    if let Some(attribute) = &record.attribute {
        text.push_str(&format!(" ATTRIBUTE {}", string(attribute)));
    }
    text
}

/// PASSWORD EXPIRE and what follows.
fn rules(text: &mut String, record: &Record) {
    text.push_str(&match (record.expired, record.lifetime) {
        (true, _) => " PASSWORD EXPIRE".to_owned(),
        (false, None) => " PASSWORD EXPIRE DEFAULT".to_owned(),
        (false, Some(0)) => " PASSWORD EXPIRE NEVER".to_owned(),
        (false, Some(days)) => format!(" PASSWORD EXPIRE INTERVAL {days} DAY"),
    });
    text.push_str(if record.locked { " ACCOUNT LOCK" } else { " ACCOUNT UNLOCK" });
    let number = |value: Option<u64>| value.map_or("DEFAULT".to_owned(), |value| value.to_string());
    text.push_str(&format!(" PASSWORD HISTORY {}", number(record.reuse_history)));
    match record.reuse_days {
        Some(days) => text.push_str(&format!(" PASSWORD REUSE INTERVAL {days} DAY")),
        None => text.push_str(" PASSWORD REUSE INTERVAL DEFAULT"),
    }
    text.push_str(match record.require_current {
        None => " PASSWORD REQUIRE CURRENT DEFAULT",
        Some(true) => " PASSWORD REQUIRE CURRENT",
        Some(false) => " PASSWORD REQUIRE CURRENT OPTIONAL",
    });
    if record.attempts > 0 || record.lock_days.is_some() || record.lock_unbounded {
        text.push_str(&format!(" FAILED_LOGIN_ATTEMPTS {}", record.attempts));
        if record.lock_unbounded {
            text.push_str(" PASSWORD_LOCK_TIME UNBOUNDED")
        } else {
            let days = record.lock_days.unwrap_or_default();
            text.push_str(&format!(" PASSWORD_LOCK_TIME {days}"));
        }
    }
}

/// A text as a literal.
fn string(text: &str) -> String {
    let mut out = String::from("'");
    for character in text.chars() {
        match character {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}
