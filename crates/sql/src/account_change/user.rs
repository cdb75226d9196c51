//! CREATE, ALTER, DROP and RENAME USER, SET PASSWORD.
//!
//! # Owns
//! Their effects on accounts, and the rules about passwords that are used again.

use mysql_wire::auth::{NATIVE, Plugin, SOCKET};
use sql_expression::SqlError;
use sql_parser::ast::{
    self, AccountOptions, AlterUser, AuthenticationSecret, CreateUser, DropUser, PasswordOption,
    SetPassword, TlsRequirement, UserSpec,
};
use sqltype::json::Json;
use stdx::Prng;

use super::Draft;
use super::role;
use crate::account::policy::Policy;
use crate::account::privilege::{Dynamic, Privileges};
use crate::account::record::{Record, Requirement, RoleGrant};
use crate::account::session::global;
use crate::account::{AccountName, DEFAULT_PLUGIN, error, password};

/// The longest name of a user, in characters.
const USER_MAX: usize = 32;
/// The longest host, in characters.
const HOST_MAX: usize = 255;
/// The most days that an account may be locked for, and the most failed logins that are counted.
const LOCK_MAX: u64 = 32_767;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// How a new password comes to an account.
struct NewPassword<'a> {
    clear: &'a [u8],
    replaces: Option<&'a [u8]>,
    retains: bool,
}

pub(super) fn create(
    draft: &mut Draft<'_>,
    create: &CreateUser,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    let mut there = Vec::new();
    for spec in &create.users {
        let name = draft.named(&spec.account);
        check_length(&name)?;
        if draft.has(&name) {
            there.push(name);
            continue;
        }
        let mut record = Record { plugin: DEFAULT_PLUGIN.to_owned(), ..Record::default() };
        record.changed = draft.now();
        options(draft, &mut record, &create.options)?;
        identify(draft, &name, &mut record, spec, prng)?;
        record.expired |= create.options.password.contains(&PasswordOption::Expire);
        for default in &create.default_roles {
            let given = draft.named(default);
            role::check_giving(draft, &given, &name)?;
            record.roles.push(RoleGrant { role: given.clone(), admin: false });
            record.default_roles.push(given);
        }
        draft.put(name, record);
    }
    draft.leave_out(create.if_not_exists, &there, "CREATE USER", error::is_there)
}

/// Refuses names that are too long.
///
/// # Errors
/// 1470.
pub(super) fn check_length(name: &AccountName) -> Result<(), SqlError> {
    if name.user.chars().count() > USER_MAX {
        return Err(error::too_long("user name", &name.user, USER_MAX));
    }
    if name.host.chars().count() > HOST_MAX {
        Err(error::too_long("host name", &name.host, HOST_MAX))
    } else {
        Ok(())
    }
}

pub(super) fn alter(
    draft: &mut Draft<'_>,
    alter: &AlterUser,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    let mut missing = Vec::new();
    for spec in &alter.users {
        let name = draft.named(&spec.account);
        let is_self = name == *draft.who();
        // One's own password is one's own business.
        let only_password =
            alter.options == AccountOptions::default() && alter.default_role.is_none();
        if !(is_self && only_password) {
            may_alter(draft, alter, is_self)?;
        }
        draft.may_touch(&name)?;
        let Some(mut record) = draft.get(&name)? else {
            missing.push(name);
            continue;
        };
        let before = record.clone();
        options(draft, &mut record, &alter.options)?;
        identify(draft, &name, &mut record, spec, prng)?;
        record.expired |= alter.options.password.contains(&PasswordOption::Expire);
        let forgot = |one: &ast::Authentication| one.secret == AuthenticationSecret::None;
        let says_when = |option: &PasswordOption| {
            use PasswordOption::{ExpireDays, ExpireDefault, ExpireNever};
            matches!(option, ExpireDefault | ExpireNever | ExpireDays(_))
        };
        let is_said = alter.options.password.iter().any(says_when);
        if spec.authentication.as_ref().is_some_and(forgot) && record.plugin != SOCKET && !is_said {
            // There is no password any more: one must be chosen. Tools that save accounts without a
            // password say when it expires.
            record.expired = true;
        }
        if let Some(choice) = &alter.default_role {
            record.default_roles = role::chosen(draft, &name, &record, choice)?;
        }
        draft.takes |= record.authentication != before.authentication
            || record.secondary != before.secondary
            || record.locked && !before.locked
            || record.expired && !before.expired
            || record.require != before.require;
        draft.put(name, record);
    }
    draft.leave_out(alter.if_exists, &missing, "ALTER USER", error::not_there)
}

fn may_alter(draft: &Draft<'_>, alter: &AlterUser, is_self: bool) -> Result<(), SqlError> {
    let changes_all = draft.rights.of_database("mysql").has(Privileges::UPDATE)
        || draft.rights.global.has(Privileges::CREATE_USER);
    let only_roles = is_self && alter.options == AccountOptions::default();
    if changes_all || only_roles { Ok(()) } else { Err(error::needs("CREATE USER")) }
}

/// IDENTIFIED, RETAIN CURRENT PASSWORD, DISCARD OLD PASSWORD.
fn identify(
    draft: &mut Draft<'_>,
    name: &AccountName,
    record: &mut Record,
    spec: &UserSpec,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    if spec.discard_old {
        may_have_two(draft, name)?;
        record.secondary = None;
    }
    let Some(authentication) = &spec.authentication else { return Ok(()) };
    if let Some(plugin) = &authentication.plugin {
        let plugin = plugin_of(draft, plugin.as_str())?.name();
        if record.plugin != plugin {
            // What the other plugin kept is nothing to this one.
            record.plugin = plugin.to_owned();
            (record.authentication, record.secondary) = (String::new(), None);
            record.history.clear();
        }
    }
    let replaces = spec.replace.as_deref();
    match &authentication.secret {
        AuthenticationSecret::None => {
            record.authentication = String::new();
            record.secondary = None;
        }
        AuthenticationSecret::Password(clear) => {
            let new = NewPassword { clear, replaces, retains: spec.retain_current };
            set(draft, name, record, &new, prng)?;
        }
        AuthenticationSecret::Random => {
            random(draft, name, record, replaces, spec.retain_current, prng)?;
        }
        AuthenticationSecret::Stored(text) => {
            let text = String::from_utf8(text.to_vec()).map_err(|_| error::bad_hash())?;
            let plugin = plugin_of(draft, &record.plugin)?;
            if !password::is_stored(plugin, &text) {
                return Err(error::bad_hash());
            }
            check_replaced(draft, name, record, replaces)?;
            keep(draft, name, record, text, spec.retain_current)?;
        }
    }
    Ok(())
}

/// The plugin of a name.
///
/// # Errors
/// 1524 if there is none, or it is switched off.
fn plugin_of(draft: &Draft<'_>, name: &str) -> Result<Plugin, SqlError> {
    let plugin = Plugin::of(name).ok_or_else(|| error::no_plugin(name))?;
    let is_off = plugin.name() == NATIVE
        && !global(draft.session, "mysql_native_password").eq_ignore_ascii_case("ON");
    if is_off { Err(error::no_plugin(name)) } else { Ok(plugin) }
}

/// A password that nobody has thought of.
fn random(
    draft: &mut Draft<'_>,
    name: &AccountName,
    record: &mut Record,
    replaces: Option<&[u8]>,
    retains: bool,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    let length = global(draft.session, "generated_random_password_length");
    let made = password::random(length.parse().unwrap_or(20), prng);
    let new = NewPassword { clear: made.as_bytes(), replaces, retains };
    set(draft, name, record, &new, prng)?;
    draft.random.push((name.clone(), made));
    Ok(())
}

/// Gives an account a password.
fn set(
    draft: &mut Draft<'_>,
    name: &AccountName,
    record: &mut Record,
    new: &NewPassword<'_>,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    let plugin = plugin_of(draft, &record.plugin)?;
    if plugin == Plugin::Socket {
        // Who one is is the system's to say.
        record.authentication = String::from_utf8_lossy(new.clear).into_owned();
        return Ok(());
    }
    Policy::of(draft.session).check(new.clear, name)?;
    check_replaced(draft, name, record, new.replaces)?;
    check_used(draft, name, record, new.clear)?;
    let text = password::stored(plugin, new.clear, prng);
    if new.retains && text.is_empty() {
        return Err(error::nothing_to_retain(name));
    }
    keep(draft, name, record, text, new.retains)
}

/// Takes over what is kept of a new password.
fn keep(
    draft: &mut Draft<'_>,
    name: &AccountName,
    record: &mut Record,
    text: String,
    retains: bool,
) -> Result<(), SqlError> {
    if retains {
        may_have_two(draft, name)?;
        if record.authentication.is_empty() {
            return Err(error::empty_not_retained(name));
        }
        record.secondary = Some(std::mem::take(&mut record.authentication));
    } else if text.is_empty() {
        record.secondary = None;
    }
    record.authentication = text;
    record.changed = draft.now();
    record.expired = false;
    draft.renewed |= name == draft.who();
    remember(draft, record);
    Ok(())
}

/// Two passwords at a time are for who may have them.
fn may_have_two(draft: &Draft<'_>, name: &AccountName) -> Result<(), SqlError> {
    let may = draft.rights.global.has(Privileges::CREATE_USER)
        || name == draft.who() && draft.rights.has_dynamic(Dynamic::APPLICATION_PASSWORD_ADMIN);
    if may { Ok(()) } else { Err(error::needs("CREATE USER or APPLICATION_PASSWORD_ADMIN")) }
}

/// REPLACE names the password before.
fn check_replaced(
    draft: &Draft<'_>,
    name: &AccountName,
    record: &Record,
    replaces: Option<&[u8]>,
) -> Result<(), SqlError> {
    let is_self = name == draft.who();
    match replaces {
        Some(_) if !is_self => Err(error::current_password_unneeded()),
        Some(old) if !password::fits(&record.authentication, old) => {
            Err(error::wrong_current_password())
        }
        Some(_) => Ok(()),
        None => {
            let of_server = || global(draft.session, "password_require_current") == "ON";
            let is_admin = draft.rights.global.has(Privileges::CREATE_USER);
            let needed = record.require_current.unwrap_or_else(of_server);
            if needed && is_self && !is_admin && !record.authentication.is_empty() {
                Err(error::current_password_missing())
            } else {
                Ok(())
            }
        }
    }
}

/// How many passwords, and those of how many days, may not be used again.
fn reuse(draft: &Draft<'_>, record: &Record) -> (usize, i64) {
    let number = |name| global(draft.session, name).parse().unwrap_or_default();
    let count = record.reuse_history.unwrap_or_else(|| number("password_history"));
    let days = record.reuse_days.unwrap_or_else(|| number("password_reuse_interval"));
    (usize::try_from(count).unwrap_or(usize::MAX), i64::try_from(days).unwrap_or(i64::MAX))
}

fn check_used(
    draft: &Draft<'_>,
    name: &AccountName,
    record: &Record,
    clear: &[u8],
) -> Result<(), SqlError> {
    let (count, days) = reuse(draft, record);
    let since = draft.now().saturating_sub(days.saturating_mul(DAY));
    let counts = |at: usize, set: i64| at < count || days > 0 && set >= since;
    let mut before = record.history.iter().enumerate();
    let used = before.any(|(at, (set, text))| counts(at, *set) && password::fits(text, clear));
    if used { Err(error::password_reused(name)) } else { Ok(()) }
}

/// Adds the present password to those that were, and forgets those that count no more.
fn remember(draft: &Draft<'_>, record: &mut Record) {
    let (count, days) = reuse(draft, record);
    let now = draft.now();
    if !record.authentication.is_empty() {
        record.history.insert(0, (now, record.authentication.clone()));
    }
    let since = now.saturating_sub(days.saturating_mul(DAY));
    let mut at = 0;
    record.history.retain(|(set, _)| {
        at += 1;
        at <= count || days > 0 && *set >= since
    });
}

/// What follows the users.
fn options(
    draft: &mut Draft<'_>,
    record: &mut Record,
    options: &AccountOptions,
) -> Result<(), SqlError> {
    if let Some(require) = &options.require {
        let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
        record.require = match require {
            TlsRequirement::None => Requirement::None,
            TlsRequirement::Ssl => Requirement::Ssl,
            TlsRequirement::X509 => Requirement::X509,
            TlsRequirement::Certificate { subject, issuer, cipher } => Requirement::Certificate {
                subject: text(subject),
                issuer: text(issuer),
                cipher: text(cipher),
            },
        };
    }
    for (word, value) in &options.limits {
        let at =
            crate::account::show::LIMITS.iter().position(|name| name.eq_ignore_ascii_case(word));
        record.limits[at.unwrap_or_default()] = *value;
    }
    for option in &options.password {
        match *option {
            PasswordOption::Expire => record.expired = true,
            PasswordOption::ExpireDefault => record.lifetime = None,
            PasswordOption::ExpireNever => record.lifetime = Some(0),
            PasswordOption::ExpireDays(days) => record.lifetime = Some(in_days(days, 1)?),
            PasswordOption::History(count) => record.reuse_history = count,
            PasswordOption::ReuseDays(days) => record.reuse_days = days,
            PasswordOption::RequireCurrent(required) => record.require_current = required,
            PasswordOption::FailedLoginAttempts(count) => {
                record.attempts = in_days(count, 0)?;
            }
            PasswordOption::LockDays(days) => {
                record.lock_days = match days {
                    Some(days) => Some(in_days(days, 0)?),
                    None => None,
                };
                record.lock_unbounded = days.is_none();
            }
        }
    }
    let concerns_attempts = |option: &PasswordOption| {
        matches!(option, PasswordOption::FailedLoginAttempts(_) | PasswordOption::LockDays(_))
    };
    if options.locked == Some(false) || options.password.iter().any(concerns_attempts) {
        // Another time than the last one, whatever the clock says.
        record.forgiven = draft.session.statement_time.max(record.forgiven + 1);
    }
    if let Some(locked) = options.locked {
        record.locked = locked;
    }
    attribute(record, options)
}

fn in_days(number: u64, least: u64) -> Result<u64, SqlError> {
    if (least..=LOCK_MAX).contains(&number) {
        Ok(number)
    } else {
        Err(SqlError::new(1210, "HY000", "Incorrect arguments to DAY"))
    }
}

/// COMMENT and ATTRIBUTE are merged into the object that is there: a member that is null goes.
fn attribute(record: &mut Record, options: &AccountOptions) -> Result<(), SqlError> {
    let added = match (&options.comment, &options.attribute) {
        (Some(comment), _) => {
            let mut members = std::collections::BTreeMap::new();
            members.insert("comment".to_owned(), comment.to_string());
            serde_json::to_string(&members).expect("texts")
        }
        (None, Some(text)) => text.to_string(),
        (None, None) => return Ok(()),
    };
    let wrong =
        || SqlError::new(3140, "22032", "Invalid JSON text: \"The document is not an object.\"");
    let object = |text: &str| match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(members)) => Ok(members),
        _ => Err(wrong()),
    };
    let mut members = match &record.attribute {
        Some(text) => object(text)?,
        None => serde_json::Map::new(),
    };
    for (name, value) in object(&added)? {
        if value.is_null() {
            members.remove(&name)
        } else {
            members.insert(name, value)
        };
    }
    record.attribute = (!members.is_empty()).then(|| shown_object(&members));
    Ok(())
}

/// As MySQL prints JSON: a space behind each comma and colon.
fn shown_object(members: &serde_json::Map<String, serde_json::Value>) -> String {
    let text = serde_json::Value::Object(members.clone()).to_string();
    Json::parse(text.as_bytes()).map(|json| json.to_text()).unwrap_or(text)
}

/// DROP USER, DROP ROLE.
pub(super) fn drop(
    draft: &mut Draft<'_>,
    drop: &DropUser,
    operation: &str,
) -> Result<(), SqlError> {
    let mut missing = Vec::new();
    for account in &drop.accounts {
        let name = draft.named(account);
        if draft.rules.mandatory.contains(&name) {
            return Err(error::mandatory_role(&name));
        }
        draft.may_touch(&name)?;
        if !draft.has(&name) {
            missing.push(name);
            continue;
        }
        draft.remove(name.clone());
        role::replace(draft, &name, None)?;
    }
    draft.leave_out(drop.if_exists, &missing, operation, error::not_there)
}

pub(super) fn rename(
    draft: &mut Draft<'_>,
    names: &[(ast::Account, ast::Account)],
) -> Result<(), SqlError> {
    for (old, new) in names {
        let (old, new) = (draft.named(old), draft.named(new));
        check_length(&new)?;
        draft.may_touch(&old)?;
        let failed = || error::failed("RENAME USER", std::slice::from_ref(&old));
        if draft.rules.mandatory.contains(&old) {
            return Err(failed());
        }
        let record = draft.get(&old)?.ok_or_else(failed)?;
        if draft.has(&new) {
            return Err(failed());
        }
        draft.remove(old.clone());
        draft.put(new.clone(), record);
        role::replace(draft, &old, Some(&new))?;
    }
    Ok(())
}

pub(super) fn set_password(
    draft: &mut Draft<'_>,
    set_to: &SetPassword,
    prng: &mut Prng,
) -> Result<(), SqlError> {
    let own = ast::Account::CurrentUser;
    let name = draft.named(set_to.account.as_ref().unwrap_or(&own));
    let is_self = name == *draft.who();
    let may = is_self
        || draft.rights.global.has(Privileges::CREATE_USER)
        || draft.rights.of_database("mysql").has(Privileges::UPDATE);
    if !may {
        return Err(error::database_denied(draft.who(), "mysql"));
    }
    draft.may_touch(&name)?;
    let nobody = || SqlError::of::<1133>(&[]);
    let mut record = draft.get(&name)?.ok_or_else(nobody)?;
    let (replaces, retains) = (set_to.replace.as_deref(), set_to.retain_current);
    match &set_to.password {
        Some(clear) => {
            set(draft, &name, &mut record, &NewPassword { clear, replaces, retains }, prng)?;
        }
        None => random(draft, &name, &mut record, replaces, retains, prng)?,
    }
    draft.takes = true;
    draft.put(name, record);
    Ok(())
}
