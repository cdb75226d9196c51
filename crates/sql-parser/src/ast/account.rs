//! Users, roles and privileges.

use super::{Ident, ObjectName};

/// A user or a role: `'name'@'host'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// By name; a host that is not given is `%`.
    Name {
        /// The name.
        user: Box<str>,
        /// The host, lower case.
        host: Option<Box<str>>,
    },
    /// CURRENT_USER.
    CurrentUser,
}

/// CREATE USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateUser {
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The users.
    pub users: Vec<UserSpec>,
    /// DEFAULT ROLE.
    pub default_roles: Vec<Account>,
    /// What holds for all of them.
    pub options: AccountOptions,
}

/// ALTER USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterUser {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The users.
    pub users: Vec<UserSpec>,
    /// DEFAULT ROLE.
    pub default_role: Option<RoleChoice>,
    /// What holds for all of them.
    pub options: AccountOptions,
}

/// A user with the way it proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSpec {
    /// The user.
    pub account: Account,
    /// IDENTIFIED.
    pub authentication: Option<Authentication>,
    /// REPLACE with the old password.
    pub replace: Option<Box<[u8]>>,
    /// RETAIN CURRENT PASSWORD.
    pub retain_current: bool,
    /// DISCARD OLD PASSWORD.
    pub discard_old: bool,
}

/// IDENTIFIED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// WITH a plugin.
    pub plugin: Option<Ident>,
    /// By what.
    pub secret: AuthenticationSecret,
}

/// The secret of IDENTIFIED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthenticationSecret {
    /// None.
    None,
    /// BY a password.
    Password(Box<[u8]>),
    /// BY RANDOM PASSWORD.
    Random,
    /// AS what the plugin stores.
    Stored(Box<[u8]>),
}

/// What follows the users of CREATE USER and ALTER USER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOptions {
    /// REQUIRE.
    pub require: Option<TlsRequirement>,
    /// WITH MAX_QUERIES_PER_HOUR and its kin, the word in lower case.
    pub limits: Vec<(Box<str>, u64)>,
    /// PASSWORD EXPIRE and its kin, in order.
    pub password: Vec<PasswordOption>,
    /// ACCOUNT LOCK is true, UNLOCK false.
    pub locked: Option<bool>,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// ATTRIBUTE.
    pub attribute: Option<Box<str>>,
}

/// REQUIRE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRequirement {
    /// NONE.
    None,
    /// SSL.
    Ssl,
    /// X509.
    X509,
    /// SUBJECT, ISSUER, CIPHER.
    Certificate {
        /// SUBJECT.
        subject: Option<Box<str>>,
        /// ISSUER.
        issuer: Option<Box<str>>,
        /// CIPHER.
        cipher: Option<Box<str>>,
    },
}

/// A rule about passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordOption {
    /// PASSWORD EXPIRE: now.
    Expire,
    /// PASSWORD EXPIRE DEFAULT.
    ExpireDefault,
    /// PASSWORD EXPIRE NEVER.
    ExpireNever,
    /// PASSWORD EXPIRE INTERVAL n DAY.
    ExpireDays(u64),
    /// PASSWORD HISTORY; none for DEFAULT.
    History(Option<u64>),
    /// PASSWORD REUSE INTERVAL n DAY; none for DEFAULT.
    ReuseDays(Option<u64>),
    /// PASSWORD REQUIRE CURRENT; true, OPTIONAL false, DEFAULT none.
    RequireCurrent(Option<bool>),
    /// FAILED_LOGIN_ATTEMPTS.
    FailedLoginAttempts(u64),
    /// PASSWORD_LOCK_TIME in days; none for UNBOUNDED.
    LockDays(Option<u64>),
}

/// DROP USER, DROP ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropUser {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The users or roles.
    pub accounts: Vec<Account>,
}

/// CREATE ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The roles.
    pub roles: Vec<Account>,
}

/// GRANT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is given.
    pub what: Granted,
    /// To whom.
    pub to: Vec<Account>,
    /// WITH GRANT OPTION, WITH ADMIN OPTION.
    pub with_option: bool,
    /// AS, if given.
    pub as_account: Option<Account>,
}

/// What GRANT gives and REVOKE takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// Privileges on something.
    Privileges {
        /// Which.
        privileges: Vec<Privilege>,
        /// On what.
        target: PrivilegeTarget,
    },
    /// Roles.
    Roles(Vec<Account>),
    /// PROXY on an account.
    Proxy(Account),
    /// ALL PRIVILEGES, GRANT OPTION, everywhere: only REVOKE.
    Everything,
}

/// A privilege.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// Its words in upper case: `SELECT`, `CREATE TEMPORARY TABLES`, `ALL`, `BACKUP_ADMIN`.
    pub name: Box<str>,
    /// The columns it is limited to.
    pub columns: Vec<Ident>,
}

/// On what privileges are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivilegeTarget {
    /// `*.*`.
    Global,
    /// `db.*`, or `*` for the current one.
    Database(Option<Ident>),
    /// A table.
    Table(ObjectName),
    /// A function.
    Function(ObjectName),
    /// A procedure.
    Procedure(ObjectName),
}

/// REVOKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is taken.
    pub what: Granted,
    /// From whom.
    pub from: Vec<Account>,
    /// IGNORE UNKNOWN USER.
    pub ignore_unknown: bool,
}

/// SET PASSWORD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPassword {
    /// Whose; one's own if not given.
    pub account: Option<Account>,
    /// The new password; a random one if none.
    pub password: Option<Box<[u8]>>,
    /// REPLACE with the old password.
    pub replace: Option<Box<[u8]>>,
    /// RETAIN CURRENT PASSWORD.
    pub retain_current: bool,
}

/// Roles to be active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChoice {
    /// DEFAULT.
    Default,
    /// NONE.
    None,
    /// ALL, except some.
    All(Vec<Account>),
    /// These.
    Roles(Vec<Account>),
}

/// SET DEFAULT ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDefaultRole {
    /// The roles.
    pub roles: RoleChoice,
    /// Whose.
    pub to: Vec<Account>,
}
