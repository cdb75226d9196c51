//! What the catalog keeps of an account: a JSON text, read and written here.
//!
//! # Owns
//! [`Record`] and its parts.
//! # Guarantees
//! What is missing in a text reads as its default, so that a later version may add to it.
//! # Not here
//! Which accounts there are (`book`), what the privileges allow (`rights`).

use std::collections::BTreeMap;

use model::Description;
use mysql_wire::auth::{Account, Require};
use serde::{Deserialize, Serialize};
use sql_expression::SqlError;

use super::AccountName;
use super::attempts::Lockout;
use super::privilege::{DYNAMIC, Privileges};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// An account: a user or a role, which are the same thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// How it proves who it is.
    pub(crate) plugin: String,
    /// What the plugin keeps of the password; empty for none.
    pub(crate) authentication: String,
    /// The same of the password before, as long as that one is good too.
    pub(crate) secondary: Option<String>,
    pub(crate) require: Requirement,
    /// Queries, updates, connections in an hour, connections at a time; 0 for no limit.
    pub(crate) limits: [u64; 4],
    /// The password must be changed before anything else.
    pub(crate) expired: bool,
    /// When the password was set, in seconds since 1970.
    pub(crate) changed: i64,
    /// Days for which a password is good: 0 for ever, none for the server's default.
    pub(crate) lifetime: Option<u64>,
    pub(crate) locked: bool,
    /// How many passwords must come between two uses of one; none for the server's default.
    pub(crate) reuse_history: Option<u64>,
    /// How many days; none for the server's default.
    pub(crate) reuse_days: Option<u64>,
    /// Whether a change of password must name the one before; none for the server's default.
    pub(crate) require_current: Option<bool>,
    /// Failed logins after which the account is locked for a time; 0 for never.
    pub(crate) attempts: u64,
    /// For how many days; none if nothing was said.
    pub(crate) lock_days: Option<u64>,
    /// Until somebody unlocks it.
    pub(crate) lock_unbounded: bool,
    /// When failed logins were forgiven last, in microseconds since 1970.
    pub(crate) forgiven: i64,
    /// ATTRIBUTE and COMMENT: the text of a JSON object.
    pub(crate) attribute: Option<String>,
    /// Passwords before, the newest first: when each was set, and what was kept of it.
    pub(crate) history: Vec<(i64, String)>,
    pub(crate) global: Privileges,
    /// Dynamic privileges, with whether they may be given on.
    pub(crate) dynamic: BTreeMap<String, bool>,
    /// By database, or pattern of databases.
    pub(crate) databases: BTreeMap<String, Privileges>,
    /// What of the global privileges does not hold in a database.
    pub(crate) restrictions: BTreeMap<String, Privileges>,
    /// By database and table.
    pub(crate) tables: BTreeMap<String, BTreeMap<String, TableGrant>>,
    /// Roles that are given to it, by user and host.
    pub(crate) roles: Vec<RoleGrant>,
    /// Those that are active from the login on.
    pub(crate) default_roles: Vec<AccountName>,
}

/// REQUIRE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Requirement {
    /// NONE.
    #[default]
    None,
    /// SSL.
    Ssl,
    /// X509.
    X509,
    /// SUBJECT, ISSUER, CIPHER; empty for what is not said.
    Certificate { subject: String, issuer: String, cipher: String },
}

/// What is given for a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TableGrant {
    pub(crate) privileges: Privileges,
    /// By column.
    pub(crate) columns: BTreeMap<String, Privileges>,
    /// Who gave it, and when in seconds since 1970.
    pub(crate) grantor: String,
    pub(crate) at: i64,
}

/// A role that is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoleGrant {
    pub(crate) role: AccountName,
    /// WITH ADMIN OPTION.
    pub(crate) admin: bool,
}

impl TableGrant {
    /// The privileges for columns, together.
    pub(crate) fn of_columns(&self) -> Privileges {
        self.columns.values().fold(Privileges::NONE, |all, of_one| all | *of_one)
    }

    /// Whether nothing is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.privileges.is_empty() && self.columns.is_empty()
    }
}

impl Record {
    /// Reads what the catalog keeps.
    ///
    /// # Errors
    /// An internal error if that is no account: a newer version wrote it.
    pub(crate) fn read(name: &AccountName, text: &Description) -> Result<Self, SqlError> {
        serde_json::from_slice(text).map_err(|error| {
            SqlError::internal(format!("the catalog's text of the account {name}: {error}"))
        })
    }

    /// What the catalog keeps.
    pub(crate) fn description(&self) -> Description {
        serde_json::to_vec(self).expect("keys are texts").into()
    }

    /// An account that may do everything, and needs no password.
    pub(crate) fn of_root() -> Self {
        Self {
            plugin: super::DEFAULT_PLUGIN.to_owned(),
            global: Privileges::ALL,
            dynamic: DYNAMIC.iter().map(|name| ((*name).to_owned(), true)).collect(),
            ..Self::default()
        }
    }

    /// The account as logging in sees it, `now` seconds after 1970; passwords whose account says
    /// nothing else are good for `lifetime` days, 0 for ever.
    pub(crate) fn login(&self, name: &AccountName, now: i64, lifetime: u64) -> Account {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let days = self.lifetime.unwrap_or(lifetime);
        let good_for = i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(DAY);
        let is_old = days > 0 && now.saturating_sub(self.changed) > good_for;
        let require = match &self.require {
            Requirement::None => Require::None,
            Requirement::Ssl => Require::Ssl,
            Requirement::X509 => Require::X509,
            Requirement::Certificate { subject, issuer, cipher } => Require::Certificate {
                subject: given(subject),
                issuer: given(issuer),
                cipher: given(cipher),
            },
        };
        let secrets = std::iter::once(&self.authentication).chain(&self.secondary);
        Account {
            user: name.user.clone(),
            host: name.host.clone(),
            plugin: self.plugin.clone(),
            secrets: secrets.cloned().collect(),
            require,
            is_locked: self.locked,
            has_expired: self.expired || is_old && !self.authentication.is_empty(),
        }
    }

    /// What failed logins lead to; none if they are not counted.
    pub(crate) fn lockout(&self) -> Option<Lockout> {
        let days = self.lock_days.filter(|days| *days > 0 && !self.lock_unbounded);
        let is_on = self.attempts > 0 && (days.is_some() || self.lock_unbounded);
        is_on.then_some(Lockout { attempts: self.attempts, days, forgiven: self.forgiven })
    }

    /// Whether a role is given to it, and may be given on.
    pub(crate) fn role(&self, role: &AccountName) -> Option<&RoleGrant> {
        self.roles.iter().find(|grant| grant.role == *role)
    }

    /// Whether it has a dynamic privilege by this name.
    pub(crate) fn has_dynamic(&self, name: &str) -> bool {
        self.dynamic.contains_key(name)
    }
}
