//! Accounts, roles and privileges.
//!
//! The control log's catalog keeps a text for each account
//! (docs/decisions/0056-accounts-in-the-catalog.md). Every worker reads the same accounts from the
//! state it has reached, so a change of them is one command, as a change of a table is.
//!
//! # Owns
//! [`AccountName`]; which accounts there are and who logs in as which (`book`), what they may do
//! (`rights`).
//! # Guarantees
//! A statement runs with the privileges of a moment no more than [`fresh::LEASE`] before it began.
//! # Not here
//! What statements need (`authorize`), those that change accounts (`account_change`), proving who
//! one is (`connection::login`), the tables that show accounts (`information::account`).

pub(crate) mod attempts;
pub(crate) mod book;
pub(crate) mod error;
pub(crate) mod first;
pub(crate) mod fresh;
pub(crate) mod host;
pub(crate) mod login;
pub(crate) mod own_password;
pub(crate) mod password;
pub(crate) mod policy;
pub(crate) mod privilege;
pub(crate) mod record;
pub(crate) mod rights;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod usage;

use std::fmt;

use serde::{Deserialize, Serialize};
use sql_parser::ast;

/// The plugin of accounts that name none.
pub(crate) const DEFAULT_PLUGIN: &str = mysql_wire::auth::CACHING_SHA2;

/// The name of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct AccountName {
    /// Case counts in it; empty for the anonymous user.
    pub(crate) user: String,
    /// A name or an address, or a pattern of these, in lower case.
    pub(crate) host: String,
}

/// Between user and host in the catalog's names: in neither of them.
const SEPARATOR: char = '\0';

impl AccountName {
    pub(crate) fn new(user: &str, host: &str) -> Self {
        Self { user: user.to_owned(), host: host.to_ascii_lowercase() }
    }

    /// The account that a statement names; none where it says CURRENT_USER.
    pub(crate) fn stated(account: &ast::Account) -> Option<Self> {
        match account {
            ast::Account::CurrentUser => None,
            ast::Account::Name { user, host } => {
                Some(Self::new(user, host.as_deref().unwrap_or("%")))
            }
        }
    }

    /// The first account of a cluster.
    pub(crate) fn root() -> Self {
        Self::new("root", "localhost")
    }

    /// The catalog's name. Those of one user stand together.
    pub(crate) fn key(&self) -> String {
        format!("{}{SEPARATOR}{}", self.user, self.host)
    }

    /// The account of a catalog's name.
    pub(crate) fn of_key(key: &str) -> Self {
        let (user, host) = key.split_once(SEPARATOR).unwrap_or((key, "%"));
        Self::new(user, host)
    }

    /// As CURRENT_USER() shows it.
    pub(crate) fn plain(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }

    /// As SHOW GRANTS and CURRENT_ROLE() show it.
    pub(crate) fn quoted(&self) -> String {
        let quote = |name: &str| name.replace('`', "``");
        format!("`{}`@`{}`", quote(&self.user), quote(&self.host))
    }
}

/// As errors and information_schema show it.
impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'@'{}'", self.user, self.host)
    }
}

#[cfg(test)]
mod tests;
