//! SHOW of the server: variables, counters, engines, connections, diagnostics.
//!
//! # Owns
//! Their layouts.
//! # Not here
//! The facts (`information`, `variables`).

use sql_expression::SqlError;
use sql_parser::ast::{self, VariableScope};
use sqltype::{Datum, SqlType, TypeKind};

use super::{Listing, long_text, text, unsigned};
use crate::account::privilege::{DYNAMIC, Privileges, SHOWN};
use crate::account::rights::given;
use crate::account::session::role_rules;
use crate::account::{AccountName, error as account_error, show};
use crate::information::{performance, server};
use crate::session::{Level, Session};
use crate::{execute, variables};

/// INFO of a connection is cut here, unless FULL is said.
const INFO_LENGTH_MAX: usize = 100;

fn is_global(scope: Option<VariableScope>) -> bool {
    scope.is_some_and(|scope| scope != VariableScope::Session)
}

fn pairs(rows: Vec<Vec<Datum>>) -> Listing {
    let mut listing = Listing::new([("Variable_name", text(64)), ("Value", text(1024))]);
    listing.rows = rows;
    listing
}

/// SHOW VARIABLES.
pub(super) fn variables(session: &Session, scope: Option<VariableScope>) -> Listing {
    pairs(performance::variables(session, is_global(scope)))
}

/// SHOW STATUS.
pub(super) fn status(session: &Session, scope: Option<VariableScope>) -> Listing {
    pairs(performance::status(session, is_global(scope)))
}

/// SHOW CHARACTER SET.
pub(super) fn character_sets() -> Listing {
    let mut listing = Listing::new([
        ("Charset", text(64)),
        ("Description", text(2048)),
        ("Default collation", text(64)),
        ("Maxlen", SqlType::new(TypeKind::Int, 10)),
    ]);
    for mut row in server::character_sets() {
        row.swap(1, 2);
        listing.push(row);
    }
    listing
}

/// SHOW COLLATION.
pub(super) fn collations() -> Listing {
    let mut listing = Listing::new([
        ("Collation", text(64)),
        ("Charset", text(64)),
        ("Id", unsigned()),
        ("Default", text(3)),
        ("Compiled", text(3)),
        ("Sortlen", SqlType::new(TypeKind::Int, 10)),
        ("Pad_attribute", text(9)),
    ]);
    listing.rows = server::collations();
    listing
}

/// SHOW FUNCTION STATUS, SHOW PROCEDURE STATUS: there are none.
pub(super) fn routines() -> Listing {
    Listing::of_texts(&[
        "Db",
        "Name",
        "Type",
        "Definer",
        "Modified",
        "Created",
        "Security_type",
        "Comment",
        "character_set_client",
        "collation_connection",
        "Database Collation",
    ])
}

/// SHOW CREATE USER: one's own, or with CREATE USER or the right to read `mysql.user` any.
pub(super) fn create_user(session: &Session, account: &ast::Account) -> Result<Listing, SqlError> {
    let name = named(session, account)?;
    let rights = session.rights()?;
    let may = name == rights.account
        || rights.global.has(Privileges::CREATE_USER)
        || rights.of_database("mysql").has(Privileges::SELECT);
    if !may {
        return Err(account_error::needs("CREATE USER"));
    }
    let record = session.shared.accounts.book(&session.kernel).find(&name)?;
    let nobody = || account_error::failed("SHOW CREATE USER", std::slice::from_ref(&name));
    let record = record.ok_or_else(nobody)?;
    let heading = format!("CREATE USER for {}", name.plain());
    let mut listing = Listing::new([(heading.as_str(), long_text())]);
    let variable = variables::registry::find("print_identified_with_as_hex");
    let as_hex = variable.and_then(|one| variables::session::shown_text(session, one, false));
    let as_hex = as_hex.is_some_and(|value| value == "ON");
    listing.push(vec![Datum::text(&show::create_user(&name, &record, as_hex))]);
    Ok(listing)
}

/// The account that a statement names.
fn named(session: &Session, account: &ast::Account) -> Result<AccountName, SqlError> {
    AccountName::stated(account).map_or_else(|| session.account().cloned(), Ok)
}

/// SHOW WARNINGS, SHOW ERRORS.
pub(super) async fn diagnostics(
    session: &mut Session,
    limit: Option<&ast::Limit>,
    errors_only: bool,
) -> Result<Listing, SqlError> {
    let code = SqlType { unsigned: true, ..SqlType::new(TypeKind::Int, 4) };
    let mut listing = Listing::new([("Level", text(7)), ("Code", code), ("Message", text(512))]);
    let (skip, take) = match limit {
        None => (0, usize::MAX),
        Some(limit) => {
            let take = limit_value(session, &limit.count).await?;
            let skip = match &limit.offset {
                Some(offset) => limit_value(session, offset).await?,
                None => 0,
            };
            (skip, take)
        }
    };
    let wanted = |level: &Level| !errors_only || *level == Level::Error;
    let entries = session.diagnostics.entries.iter().filter(|(level, _)| wanted(level));
    for (level, error) in entries.skip(skip).take(take) {
        let level = match level {
            Level::Note => "Note",
            Level::Warning => "Warning",
            Level::Error => "Error",
        };
        let code = Datum::UInt(error.code().into());
        listing.push(vec![Datum::text(level), code, Datum::text(error.message())]);
    }
    Ok(listing)
}

pub(super) async fn limit_value(
    session: &mut Session,
    expr: &ast::Expr,
) -> Result<usize, SqlError> {
    match execute::value(session, expr, &[]).await? {
        Datum::Int(number) => Ok(usize::try_from(number).unwrap_or(0)),
        Datum::UInt(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        _ => Ok(0),
    }
}

/// SHOW COUNT(*) WARNINGS, SHOW COUNT(*) ERRORS.
pub(super) fn diagnostics_count(session: &Session, errors_only: bool) -> Listing {
    let diagnostics = &session.diagnostics;
    let (heading, count) = if errors_only {
        ("@@session.error_count", diagnostics.error_count)
    } else {
        let all = diagnostics.warning_count + diagnostics.error_count;
        ("@@session.warning_count", all)
    };
    let mut listing = Listing::new([(heading, unsigned())]);
    listing.push(vec![Datum::UInt(count)]);
    listing
}

/// SHOW ENGINES.
pub(super) fn engines() -> Listing {
    let headings = ["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"];
    let mut listing = Listing::of_texts(&headings);
    for engine in &server::ENGINES {
        listing.push(engine.map(Datum::text).to_vec());
    }
    listing
}

/// SHOW PLUGINS.
pub(super) fn plugins(session: &Session) -> Listing {
    let mut listing = Listing::of_texts(&["Name", "Status", "Type", "Library", "License"]);
    for [name, status, kind] in server::plugins_of(session) {
        let [name, status, kind] = [name, status, kind].map(Datum::text);
        listing.push(vec![name, status, kind, Datum::Null, Datum::text(server::LICENSE)]);
    }
    listing
}

/// SHOW [FULL] PROCESSLIST.
pub(super) async fn processes(session: &Session, full: bool) -> Result<Listing, SqlError> {
    let mut listing = Listing::new([
        ("Id", unsigned()),
        ("User", text(32)),
        ("Host", text(261)),
        ("db", text(64)),
        ("Command", text(16)),
        ("Time", SqlType::new(TypeKind::Int, 7)),
        ("State", text(64)),
        ("Info", if full { long_text() } else { text(INFO_LENGTH_MAX as u32) }),
    ]);
    for mut row in server::processes(session).await? {
        if let Some(Datum::Bytes(info)) = row.last_mut().filter(|_| !full) {
            let text = String::from_utf8_lossy(info);
            *info = text.chars().take(INFO_LENGTH_MAX).collect::<String>().into_bytes().into();
        }
        listing.push(row);
    }
    Ok(listing)
}

/// SHOW GRANTS: one's own with the active roles, or with the right to read the grant tables those
/// of any account.
pub(super) fn grants(
    session: &Session,
    account: Option<&ast::Account>,
    using: &[ast::Account],
) -> Result<Listing, SqlError> {
    let rights = session.rights()?;
    let name = named(session, account.unwrap_or(&ast::Account::CurrentUser))?;
    let is_own = name == rights.account || rights.names().any(|own| *own == name);
    if !is_own && !rights.of_database("mysql").has(Privileges::SELECT) {
        return Err(account_error::database_denied(&rights.account, "mysql"));
    }
    let book = session.shared.accounts.book(&session.kernel);
    let record = book.find(&name)?.ok_or_else(|| account_error::no_grant(&name))?;
    let given = given(&book, &record, &role_rules(session));
    let roles: Result<Vec<AccountName>, SqlError> =
        using.iter().map(|role| named(session, role)).collect();
    let roles = match account {
        None => rights.roles.clone(),
        Some(_) => roles?,
    };
    let heading = format!("Grants for {}", name.plain());
    let mut listing = Listing::new([(heading.as_str(), text(1024))]);
    for line in show::grants(&book, &name, &given, &roles)? {
        listing.push(vec![Datum::text(&line)]);
    }
    Ok(listing)
}

/// SHOW PRIVILEGES.
pub(super) fn privileges() -> Listing {
    let mut listing = Listing::of_texts(&["Privilege", "Context", "Comment"]);
    for privilege in &SHOWN {
        listing.push(privilege.map(Datum::text).to_vec());
    }
    for name in DYNAMIC {
        listing.push([name, "Server Admin", ""].map(Datum::text).to_vec());
    }
    listing
}

/// SHOW PROCEDURE CODE and SHOW FUNCTION CODE exist in debugging builds only.
pub(super) fn no_routine_code(is_function: bool) -> SqlError {
    let kind = if is_function { "FUNCTION" } else { "PROCEDURE" };
    let message = format!(
        "The 'SHOW {kind} CODE' feature is disabled; you need MySQL built with '--with-debug' to \
         have it working"
    );
    SqlError::new(1289, "HY000", message)
}
