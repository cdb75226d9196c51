//! Accounts and privileges as tables.
//!
//! # Owns
//! The privilege tables of information_schema, and the grant tables of `mysql`, with MySQL 8.4's
//! columns.
//! # Guarantees
//! information_schema shows everybody what concerns the own account and its roles, and all the rest
//! to those who may read the grant tables.
//! # Not here
//! Logging in (`connection`), what privileges allow (`account`).

use std::rc::Rc;

use sql_expression::SqlError;
use sqltype::{DateTime, Datum};

use crate::account::AccountName;
use crate::account::privilege::{KNOWN, Privileges};
use crate::account::record::{Record, Requirement, TableGrant};
use crate::account::rights::given;
use crate::account::session::role_rules;
use crate::information::virtual_table::{
    Hints, Kind, Rows, Source, VirtualColumn, VirtualTable, column, information, nullable,
    optional, text, yes_no,
};
use crate::session::Session;

const NAME: Kind = Kind::Text(64);
const GRANTEE: Kind = Kind::Text(292);
const YES: Kind = Kind::Text(3);
const USER: Kind = Kind::Text(32);
const HOST: Kind = Kind::Text(255);
const FLAG: Kind = Kind::Text(1);

pub(super) static TABLES: &[VirtualTable] = &[
    information(
        "USER_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(user_privileges),
    ),
    information(
        "SCHEMA_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(schema_privileges),
    ),
    information(
        "TABLE_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(table_privileges),
    ),
    information(
        "COLUMN_PRIVILEGES",
        &[
            column("GRANTEE", GRANTEE),
            column("TABLE_CATALOG", Kind::Text(512)),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("COLUMN_NAME", NAME),
            column("PRIVILEGE_TYPE", NAME),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(column_privileges),
    ),
    information(
        "USER_ATTRIBUTES",
        &[column("USER", USER), column("HOST", HOST), nullable("ATTRIBUTE", Kind::LongText)],
        Source::Here(user_attributes),
    ),
    information("APPLICABLE_ROLES", APPLICABLE_COLUMNS, Source::Here(applicable_roles)),
    information(
        "ADMINISTRABLE_ROLE_AUTHORIZATIONS",
        APPLICABLE_COLUMNS,
        Source::Here(administrable_roles),
    ),
    information(
        "ENABLED_ROLES",
        &[
            nullable("ROLE_NAME", HOST),
            nullable("ROLE_HOST", HOST),
            nullable("IS_DEFAULT", YES),
            column("IS_MANDATORY", YES),
        ],
        Source::Here(enabled_roles),
    ),
    information(
        "ROLE_TABLE_GRANTS",
        &[
            nullable("GRANTOR", Kind::Text(97)),
            nullable("GRANTOR_HOST", Kind::Text(256)),
            column("GRANTEE", USER),
            column("GRANTEE_HOST", HOST),
            column("TABLE_CATALOG", YES),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("PRIVILEGE_TYPE", Kind::Text(256)),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(role_table_grants),
    ),
    information(
        "ROLE_COLUMN_GRANTS",
        &[
            nullable("GRANTOR", Kind::Text(97)),
            nullable("GRANTOR_HOST", Kind::Text(256)),
            column("GRANTEE", USER),
            column("GRANTEE_HOST", HOST),
            column("TABLE_CATALOG", YES),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("COLUMN_NAME", NAME),
            column("PRIVILEGE_TYPE", Kind::Text(256)),
            column("IS_GRANTABLE", YES),
        ],
        Source::Here(role_column_grants),
    ),
    information(
        "ROLE_ROUTINE_GRANTS",
        &[
            nullable("GRANTOR", Kind::Text(97)),
            nullable("GRANTOR_HOST", Kind::Text(256)),
            column("GRANTEE", USER),
            column("GRANTEE_HOST", HOST),
            column("SPECIFIC_CATALOG", YES),
            column("SPECIFIC_SCHEMA", NAME),
            column("SPECIFIC_NAME", NAME),
            column("ROUTINE_CATALOG", YES),
            column("ROUTINE_SCHEMA", NAME),
            column("ROUTINE_NAME", NAME),
            column("PRIVILEGE_TYPE", Kind::Text(256)),
            column("IS_GRANTABLE", YES),
        ],
        Source::Empty,
    ),
    system("user", USER_COLUMNS, Source::Here(users)),
    system("db", DATABASE_COLUMNS, Source::Here(databases)),
    system(
        "tables_priv",
        &[
            column("Host", HOST),
            column("Db", NAME),
            column("User", USER),
            column("Table_name", NAME),
            column("Grantor", Kind::Text(288)),
            column("Timestamp", Kind::Timestamp),
            column("Table_priv", Kind::Text(256)),
            column("Column_priv", NAME),
        ],
        Source::Here(tables_priv),
    ),
    system(
        "columns_priv",
        &[
            column("Host", HOST),
            column("Db", NAME),
            column("User", USER),
            column("Table_name", NAME),
            column("Column_name", NAME),
            column("Timestamp", Kind::Timestamp),
            column("Column_priv", NAME),
        ],
        Source::Here(columns_priv),
    ),
    system(
        "procs_priv",
        &[
            column("Host", HOST),
            column("Db", NAME),
            column("User", USER),
            column("Routine_name", NAME),
            column("Routine_type", Kind::Text(9)),
            column("Grantor", Kind::Text(288)),
            column("Proc_priv", NAME),
            column("Timestamp", Kind::Timestamp),
        ],
        Source::Empty,
    ),
    system(
        "proxies_priv",
        &[
            column("Host", HOST),
            column("User", USER),
            column("Proxied_host", HOST),
            column("Proxied_user", USER),
            column("With_grant", Kind::Int),
            column("Grantor", Kind::Text(288)),
            column("Timestamp", Kind::Timestamp),
        ],
        Source::Empty,
    ),
    system(
        "global_grants",
        &[
            column("USER", USER),
            column("HOST", HOST),
            column("PRIV", USER),
            column("WITH_GRANT_OPTION", FLAG),
        ],
        Source::Here(global_grants),
    ),
    system(
        "role_edges",
        &[
            column("FROM_HOST", HOST),
            column("FROM_USER", USER),
            column("TO_HOST", HOST),
            column("TO_USER", USER),
            column("WITH_ADMIN_OPTION", FLAG),
        ],
        Source::Here(role_edges),
    ),
    system(
        "default_roles",
        &[
            column("HOST", HOST),
            column("USER", USER),
            column("DEFAULT_ROLE_HOST", HOST),
            column("DEFAULT_ROLE_USER", USER),
        ],
        Source::Here(default_roles),
    ),
    system(
        "password_history",
        &[
            column("Host", HOST),
            column("User", USER),
            column("Password_timestamp", Kind::Timestamp),
            nullable("Password", Kind::LongText),
        ],
        Source::Here(password_history),
    ),
];

const fn system(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "mysql", name, columns, source }
}

static APPLICABLE_COLUMNS: &[VirtualColumn] = &[
    nullable("USER", Kind::Text(97)),
    nullable("HOST", Kind::Text(256)),
    nullable("GRANTEE", Kind::Text(97)),
    nullable("GRANTEE_HOST", Kind::Text(256)),
    nullable("ROLE_NAME", HOST),
    nullable("ROLE_HOST", Kind::Text(256)),
    column("IS_GRANTABLE", YES),
    nullable("IS_DEFAULT", YES),
    column("IS_MANDATORY", YES),
];

/// Privileges that `mysql.user` has behind the account's rules.
const LATE: Privileges = Privileges::CREATE_ROLE.with(Privileges::DROP_ROLE);

static USER_COLUMNS: &[VirtualColumn] = &[
    column("Host", HOST),
    column("User", USER),
    column("Select_priv", FLAG),
    column("Insert_priv", FLAG),
    column("Update_priv", FLAG),
    column("Delete_priv", FLAG),
    column("Create_priv", FLAG),
    column("Drop_priv", FLAG),
    column("Reload_priv", FLAG),
    column("Shutdown_priv", FLAG),
    column("Process_priv", FLAG),
    column("File_priv", FLAG),
    column("Grant_priv", FLAG),
    column("References_priv", FLAG),
    column("Index_priv", FLAG),
    column("Alter_priv", FLAG),
    column("Show_db_priv", FLAG),
    column("Super_priv", FLAG),
    column("Create_tmp_table_priv", FLAG),
    column("Lock_tables_priv", FLAG),
    column("Execute_priv", FLAG),
    column("Repl_slave_priv", FLAG),
    column("Repl_client_priv", FLAG),
    column("Create_view_priv", FLAG),
    column("Show_view_priv", FLAG),
    column("Create_routine_priv", FLAG),
    column("Alter_routine_priv", FLAG),
    column("Create_user_priv", FLAG),
    column("Event_priv", FLAG),
    column("Trigger_priv", FLAG),
    column("Create_tablespace_priv", FLAG),
    column("ssl_type", Kind::Text(9)),
    column("ssl_cipher", Kind::LongText),
    column("x509_issuer", Kind::LongText),
    column("x509_subject", Kind::LongText),
    column("max_questions", Kind::UInt),
    column("max_updates", Kind::UInt),
    column("max_connections", Kind::UInt),
    column("max_user_connections", Kind::UInt),
    column("plugin", NAME),
    nullable("authentication_string", Kind::LongText),
    column("password_expired", FLAG),
    nullable("password_last_changed", Kind::Timestamp),
    nullable("password_lifetime", Kind::UInt),
    column("account_locked", FLAG),
    column("Create_role_priv", FLAG),
    column("Drop_role_priv", FLAG),
    nullable("Password_reuse_history", Kind::UInt),
    nullable("Password_reuse_time", Kind::UInt),
    nullable("Password_require_current", FLAG),
    nullable("User_attributes", Kind::Json),
];

static DATABASE_COLUMNS: &[VirtualColumn] = &[
    column("Host", HOST),
    column("Db", NAME),
    column("User", USER),
    column("Select_priv", FLAG),
    column("Insert_priv", FLAG),
    column("Update_priv", FLAG),
    column("Delete_priv", FLAG),
    column("Create_priv", FLAG),
    column("Drop_priv", FLAG),
    column("Grant_priv", FLAG),
    column("References_priv", FLAG),
    column("Index_priv", FLAG),
    column("Alter_priv", FLAG),
    column("Create_tmp_table_priv", FLAG),
    column("Lock_tables_priv", FLAG),
    column("Create_view_priv", FLAG),
    column("Show_view_priv", FLAG),
    column("Create_routine_priv", FLAG),
    column("Alter_routine_priv", FLAG),
    column("Execute_priv", FLAG),
    column("Event_priv", FLAG),
    column("Trigger_priv", FLAG),
];

/// Accounts with what is kept of each.
type Accounts = Vec<(AccountName, Rc<Record>)>;

fn all(session: &Session) -> Result<Accounts, SqlError> {
    session.shared.accounts.book(&session.kernel).all()
}

/// The accounts whose privileges information_schema shows the session.
fn shown(session: &Session) -> Result<Accounts, SqlError> {
    let rights = session.rights()?;
    let sees_all = rights.of_table("mysql", "user").has(Privileges::SELECT);
    let mut accounts = all(session)?;
    accounts.retain(|(name, _)| sees_all || rights.names().any(|own| own == name));
    Ok(accounts)
}

fn y(value: bool) -> Datum {
    text(if value { "Y" } else { "N" })
}

fn flags(of: Privileges, columns: &[VirtualColumn]) -> impl Iterator<Item = Datum> + use<> {
    let names: Vec<bool> = columns
        .iter()
        .filter_map(|column| KNOWN.iter().find(|known| known.column == column.name))
        .map(|known| of.has(known.privilege))
        .collect();
    names.into_iter().map(y)
}

fn time(session: &Session, seconds: i64) -> Datum {
    let micros = seconds.saturating_mul(1_000_000);
    match session.variables.time_zone.local(micros) {
        _ if seconds == 0 => Datum::DateTime(DateTime::from_unix_micros(0)),
        local => Datum::DateTime(local),
    }
}

fn each_privilege(
    rows: &mut Rows,
    privileges: Privileges,
    row: impl Fn(&'static str) -> Vec<Datum>,
) {
    match privileges - Privileges::GRANT {
        none if none.is_empty() => rows.push(row("USAGE")),
        some => rows.extend(some.each().map(|known| row(known.name))),
    }
}

fn user_privileges(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in shown(session)? {
        let grantable = yes_no(record.global.has(Privileges::GRANT));
        each_privilege(&mut rows, record.global, |privilege| {
            vec![text(name.to_string()), text("def"), text(privilege), grantable.clone()]
        });
        for (privilege, option) in &record.dynamic {
            rows.push(vec![text(name.to_string()), text("def"), text(privilege), yes_no(*option)]);
        }
    }
    Ok(rows)
}

fn schema_privileges(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in shown(session)? {
        for (database, privileges) in &record.databases {
            let grantable = yes_no(privileges.has(Privileges::GRANT));
            each_privilege(&mut rows, *privileges, |privilege| {
                let (grantee, privilege) = (text(name.to_string()), text(privilege));
                vec![grantee, text("def"), text(database), privilege, grantable.clone()]
            });
        }
    }
    Ok(rows)
}

/// Calls `see` with every grant for a table.
fn each_table(accounts: &Accounts, mut see: impl FnMut(&AccountName, &str, &str, &TableGrant)) {
    for (name, record) in accounts {
        for (database, tables) in &record.tables {
            for (table, grant) in tables {
                see(name, database, table, grant);
            }
        }
    }
}

fn table_privileges(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&shown(session)?, |name, database, table, grant| {
        if grant.privileges.is_empty() {
            return;
        }
        let grantable = yes_no(grant.privileges.has(Privileges::GRANT));
        each_privilege(&mut rows, grant.privileges, |privilege| {
            let [grantee, catalog] = [name.to_string(), "def".to_owned()].map(text);
            let [database, table, privilege] = [database, table, privilege].map(text);
            vec![grantee, catalog, database, table, privilege, grantable.clone()]
        });
    });
    Ok(rows)
}

fn column_privileges(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&shown(session)?, |name, database, table, grant| {
        let grantable = yes_no(grant.privileges.has(Privileges::GRANT));
        for (column, privileges) in &grant.columns {
            for known in privileges.each() {
                let [grantee, catalog] = [name.to_string(), "def".to_owned()].map(text);
                let place = [database, table, column, known.name].map(text);
                let mut row = vec![grantee, catalog];
                row.extend(place);
                row.push(grantable.clone());
                rows.push(row);
            }
        }
    });
    Ok(rows)
}

fn user_attributes(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let accounts = if session.rights()?.global.has(Privileges::CREATE_USER) {
        all(session)?
    } else {
        shown(session)?
    };
    let row = |(name, record): &(AccountName, Rc<Record>)| {
        vec![text(&name.user), text(&name.host), optional(record.attribute.as_ref())]
    };
    Ok(accounts.iter().map(row).collect())
}

/// The roles that the session's account has, by itself and by roles: who has which, and whether it
/// may be given on.
fn roles(session: &Session) -> Result<Vec<(AccountName, AccountName, bool)>, SqlError> {
    let book = session.shared.accounts.book(&session.kernel);
    let account = session.account()?.clone();
    let rules = role_rules(session);
    let mut found: Vec<(AccountName, AccountName, bool)> = Vec::new();
    let mut waiting = vec![account.clone()];
    while let Some(grantee) = waiting.pop() {
        let Some(record) = book.find(&grantee)? else { continue };
        let all = if grantee == account {
            given(&book, &record, &rules)
        } else {
            record.roles.iter().map(|grant| grant.role.clone()).collect()
        };
        for role in all {
            let admin = record.role(&role).is_some_and(|grant| grant.admin);
            if found.iter().any(|(of, known, _)| *of == grantee && *known == role) {
                continue;
            }
            waiting.push(role.clone());
            found.push((grantee.clone(), role, admin));
        }
    }
    found.sort();
    Ok(found)
}

fn applicable(session: &Session, only_admin: bool) -> Result<Rows, SqlError> {
    let account = session.account()?.clone();
    let book = session.shared.accounts.book(&session.kernel);
    let record = book.find(&account)?.unwrap_or_default();
    let mandatory = role_rules(session).mandatory;
    let mut rows = Vec::new();
    for (grantee, role, admin) in roles(session)? {
        if only_admin && !admin {
            continue;
        }
        let names = [&account, &grantee, &role];
        let mut row: Vec<Datum> =
            names.iter().flat_map(|name| [text(&name.user), text(&name.host)]).collect();
        row.push(yes_no(admin));
        row.push(yes_no(record.default_roles.contains(&role)));
        row.push(yes_no(mandatory.contains(&role)));
        rows.push(row);
    }
    Ok(rows)
}

fn applicable_roles(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    applicable(session, false)
}

fn administrable_roles(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    applicable(session, true)
}

fn enabled_roles(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let rights = session.rights()?;
    let book = session.shared.accounts.book(&session.kernel);
    let record = book.find(&rights.account)?.unwrap_or_default();
    let mandatory = role_rules(session).mandatory;
    let roles = rights.names().skip(1);
    Ok(roles
        .map(|role| {
            let is_default = record.default_roles.contains(role);
            let (is_default, is_mandatory) = (yes_no(is_default), yes_no(mandatory.contains(role)));
            vec![text(&role.user), text(&role.host), is_default, is_mandatory]
        })
        .collect())
}

/// The active roles.
fn active(session: &Session) -> Result<Accounts, SqlError> {
    let rights = session.rights()?;
    let mut accounts = all(session)?;
    accounts.retain(|(name, _)| rights.names().skip(1).any(|role| role == name));
    Ok(accounts)
}

/// Grantor, grantee and table, as the tables of roles begin.
fn role_row(name: &AccountName, grantor: &str, database: &str, table: &str) -> Vec<Datum> {
    let (user, host) = grantor.rsplit_once('@').unwrap_or((grantor, ""));
    [user, host, &name.user, &name.host, "def", database, table].map(text).to_vec()
}

fn role_table_grants(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&active(session)?, |name, database, table, grant| {
        if !(grant.privileges - Privileges::GRANT).is_empty() {
            let mut row = role_row(name, &grant.grantor, database, table);
            row.push(text((grant.privileges - Privileges::GRANT).words()));
            row.push(yes_no(grant.privileges.has(Privileges::GRANT)));
            rows.push(row);
        }
    });
    Ok(rows)
}

fn role_column_grants(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&active(session)?, |name, database, table, grant| {
        for (column, privileges) in &grant.columns {
            let mut row = role_row(name, &grant.grantor, database, table);
            row.push(text(column));
            row.push(text(privileges.words()));
            row.push(yes_no(grant.privileges.has(Privileges::GRANT)));
            rows.push(row);
        }
    });
    Ok(rows)
}

fn number(value: Option<u64>) -> Datum {
    value.map_or(Datum::Null, Datum::UInt)
}

fn users(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let row = |(name, record): &(AccountName, Rc<Record>)| {
        let mut row = vec![text(&name.host), text(&name.user)];
        let early = &USER_COLUMNS[..USER_COLUMNS.len() - 6];
        row.extend(flags(record.global, &early[..31]));
        let (kind, cipher, issuer, subject) = match &record.require {
            Requirement::None => ("", "", "", ""),
            Requirement::Ssl => ("ANY", "", "", ""),
            Requirement::X509 => ("X509", "", "", ""),
            Requirement::Certificate { subject, issuer, cipher } => {
                ("SPECIFIED", cipher.as_str(), issuer.as_str(), subject.as_str())
            }
        };
        row.extend([kind, cipher, issuer, subject].map(text));
        row.extend(record.limits.map(Datum::UInt));
        row.push(text(&record.plugin));
        row.push(text(&record.authentication));
        row.push(y(record.expired));
        row.push(time(session, record.changed));
        row.push(number(record.lifetime));
        row.push(y(record.locked));
        row.extend(LATE.each().map(|known| y(record.global.has(known.privilege))));
        row.push(number(record.reuse_history));
        row.push(number(record.reuse_days));
        row.push(record.require_current.map_or(Datum::Null, y));
        row.push(attributes(record));
        row
    };
    Ok(all(session)?.iter().map(row).collect())
}

/// `User_attributes`.
fn attributes(record: &Record) -> Datum {
    use serde_json::{Map, Value, json};
    let mut members = Map::new();
    if let Some(second) = &record.secondary {
        members.insert("additional_password".to_owned(), Value::from(second.as_str()));
    }
    if let Some(metadata) = record.attribute.as_ref().and_then(|one| serde_json::from_str(one).ok())
    {
        members.insert("metadata".to_owned(), metadata);
    }
    if record.attempts > 0 || record.lock_days.is_some() || record.lock_unbounded {
        let days = if record.lock_unbounded {
            json!(-1)
        } else {
            json!(record.lock_days.unwrap_or_default())
        };
        let locking = json!({
            "failed_login_attempts": record.attempts,
            "password_lock_time_days": days,
        });
        members.insert("Password_locking".to_owned(), locking);
    }
    if !record.restrictions.is_empty() {
        let restrictions: Vec<Value> = record
            .restrictions
            .iter()
            .map(|(database, privileges)| {
                let names: Vec<&str> = privileges.each().map(|known| known.name).collect();
                json!({ "Database": database, "Privileges": names })
            })
            .collect();
        members.insert("Restrictions".to_owned(), Value::from(restrictions));
    }
    if members.is_empty() {
        return Datum::Null;
    }
    let printed = Value::from(members).to_string();
    sqltype::Json::parse(printed.as_bytes()).map_or(Datum::Null, |json| Datum::Json(json.encode()))
}

fn databases(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in all(session)? {
        for (database, privileges) in &record.databases {
            let mut row = vec![text(&name.host), text(database), text(&name.user)];
            row.extend(flags(*privileges, DATABASE_COLUMNS));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Host, database, user and table, as the grant tables begin.
fn place(name: &AccountName, database: &str, table: &str) -> Vec<Datum> {
    [&name.host, database, &name.user, table].map(text).to_vec()
}

fn tables_priv(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&all(session)?, |name, database, table, grant| {
        let mut row = place(name, database, table);
        row.push(text(&grant.grantor));
        row.push(time(session, grant.at));
        row.push(text(grant.privileges.words()));
        row.push(text(grant.of_columns().words()));
        rows.push(row);
    });
    Ok(rows)
}

fn columns_priv(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(&all(session)?, |name, database, table, grant| {
        for (column, privileges) in &grant.columns {
            let mut row = place(name, database, table);
            row.push(text(column));
            row.push(time(session, grant.at));
            row.push(text(privileges.words()));
            rows.push(row);
        }
    });
    Ok(rows)
}

fn global_grants(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in all(session)? {
        for (privilege, option) in &record.dynamic {
            rows.push(vec![text(&name.user), text(&name.host), text(privilege), y(*option)]);
        }
    }
    Ok(rows)
}

fn role_edges(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in all(session)? {
        for grant in &record.roles {
            let names = [&grant.role.host, &grant.role.user, &name.host, &name.user];
            let mut row = names.map(text).to_vec();
            row.push(y(grant.admin));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn default_roles(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in all(session)? {
        for role in &record.default_roles {
            rows.push([&name.host, &name.user, &role.host, &role.user].map(text).to_vec());
        }
    }
    Ok(rows)
}

fn password_history(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (name, record) in all(session)? {
        for (set, kept) in &record.history {
            let names = [text(&name.host), text(&name.user)];
            let mut row = names.to_vec();
            row.extend([time(session, *set), text(kept)]);
            rows.push(row);
        }
    }
    Ok(rows)
}
