//! Which events are wanted: the variables of the audit log.
//!
//! # Owns
//! [`Filter`], read anew when a global variable has changed; classes of statements.

use std::collections::BTreeMap;

use super::{AuditLimits, Kept};
use crate::account::AccountName;
use crate::traits::{Place, Traits, Writes};
use crate::variables::registry;

/// The variable that closes and opens the file when it is set.
pub(crate) const FLUSH: &str = "audit_log_flush";

/// Classes of statements, as `nines_audit_log_statements` names them.
pub const CLASSES: [&str; 6] =
    ["READ", "WRITE", "DEFINITION", "ACCOUNT", "TRANSACTION", "ADMINISTRATION"];

/// What is wanted.
#[derive(Debug)]
pub(super) struct Filter {
    /// Connections, their ends, and those that were refused.
    pub(super) connections: bool,
    statements: bool,
    /// Of these classes.
    classes: Vec<String>,
    /// Of these accounts only, as `user@host`; all if none is named.
    included: Vec<String>,
    /// Not of these; only where none is included.
    excluded: Vec<String>,
    /// Statements that concern these databases only; all if none is named.
    databases: Vec<String>,
    /// What an event has reached before its statement is answered.
    pub(super) kept: Kept,
    pub(super) limits: AuditLimits,
}

impl Filter {
    /// By the values of global variables.
    pub(super) fn of(globals: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| {
            let initial = || registry::find(name).and_then(|variable| variable.initial);
            globals.get(name).map(String::as_str).or_else(initial).unwrap_or_default()
        };
        let list = |name: &str| -> Vec<String> {
            let parts = value(name).split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let number = |name: &str| value(name).parse().unwrap_or_default();
        let accounts = |name: &str| list(name).iter().map(|text| account(text)).collect();
        let policy = value("audit_log_policy");
        Self {
            connections: matches!(policy, "ALL" | "LOGINS"),
            statements: matches!(policy, "ALL" | "QUERIES"),
            classes: list("nines_audit_log_statements"),
            included: accounts("audit_log_include_accounts"),
            excluded: accounts("audit_log_exclude_accounts"),
            databases: list("audit_log_include_databases"),
            kept: match value("audit_log_strategy") {
                "SYNCHRONOUS" => Kept::Synced,
                "SEMISYNCHRONOUS" => Kept::Written,
                _ => Kept::Nowhere,
            },
            limits: AuditLimits {
                rotate_on_size: number("audit_log_rotate_on_size"),
                max_size: number("audit_log_max_size"),
            },
        }
    }

    pub(super) fn wants_statement(&self, traits: &Traits) -> bool {
        self.statements && self.classes.iter().any(|name| name.eq_ignore_ascii_case(class(traits)))
    }

    pub(super) fn wants_account(&self, account: Option<&AccountName>) -> bool {
        let name = account.map(AccountName::plain).unwrap_or_default();
        if self.included.is_empty() {
            !self.excluded.contains(&name)
        } else {
            self.included.contains(&name)
        }
    }

    /// Whether a statement concerns a database that is wanted: its default one, or one whose name
    /// is in its text.
    pub(super) fn wants_database(&self, default: Option<&str>, text: &[u8]) -> bool {
        let wanted = |database: &String| {
            default.is_some_and(|default| default.eq_ignore_ascii_case(database))
                || names(text, database)
        };
        self.databases.is_empty() || self.databases.iter().any(wanted)
    }
}

/// An account's name without quotes; any host if none is named.
fn account(text: &str) -> String {
    let bare = |part: &str| {
        let part = part.trim();
        let quoted = |quote: char| part.strip_prefix(quote)?.strip_suffix(quote);
        ['\'', '"', '`'].into_iter().find_map(quoted).unwrap_or(part).to_owned()
    };
    let (user, host) = text.rsplit_once('@').unwrap_or((text, "%"));
    AccountName::new(&bare(user), &bare(host)).plain()
}

/// The class of a statement.
pub(super) fn class(traits: &Traits) -> &'static str {
    match (traits.place, traits.writes) {
        (Place::Definition, _) => "definition",
        (Place::Account, _) => "account",
        (_, Writes::Rows) => "write",
        (Place::Planned | Place::Execute | Place::Show, _) => "read",
        (Place::Transaction, _) => "transaction",
        (Place::Variables | Place::Administration, _) => "administration",
    }
}

/// Whether a name is in a text, as a word of its own.
fn names(text: &[u8], name: &str) -> bool {
    let is_of_word =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 128..);
    let name = name.as_bytes();
    let mut windows = text.windows(name.len().max(1)).enumerate();
    windows.any(|(at, found)| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        found.eq_ignore_ascii_case(name)
            && !before.is_some_and(is_of_word)
            && !text.get(at + name.len()).is_some_and(is_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::registry::Kind;

    fn filter(values: &[(&str, &str)]) -> Filter {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Filter::of(&values.collect())
    }

    #[test]
    fn all_is_wanted_unless_somebody_says_otherwise() {
        let all = filter(&[]);
        assert!(all.connections && all.wants_statement(&Traits::unknown()));
        assert!(all.wants_account(None) && all.wants_database(None, b"SELECT 1"));
        assert_eq!((all.kept, all.limits), (Kept::Nowhere, AuditLimits::default()));
        let known = registry::find("nines_audit_log_statements").unwrap();
        assert_eq!(known.kind, Kind::Flags(&CLASSES));
        assert_eq!(known.initial, Some(&*CLASSES.join(",")));
        for (policy, expected) in [
            ("ALL", (true, true)),
            ("LOGINS", (true, false)),
            ("QUERIES", (false, true)),
            ("NONE", (false, false)),
        ] {
            let filter = filter(&[("audit_log_policy", policy)]);
            let found = (filter.connections, filter.wants_statement(&Traits::unknown()));
            assert_eq!(found, expected, "{policy}");
        }
    }

    #[test]
    fn accounts_are_wanted_or_not() {
        let (one, other) = (AccountName::new("a", "%"), AccountName::new("b", "localhost"));
        let wanted = |name, value| {
            let filter = filter(&[(name, value)]);
            (filter.wants_account(Some(&one)), filter.wants_account(Some(&other)))
        };
        assert_eq!(wanted("audit_log_include_accounts", "'a'@'%', c@x"), (true, false));
        assert_eq!(wanted("audit_log_include_accounts", "a,`b`@LOCALHOST"), (true, true));
        assert_eq!(wanted("audit_log_exclude_accounts", "b@localhost"), (true, false));
    }

    #[test]
    fn databases_are_wanted_by_default_or_by_name() {
        let filter = filter(&[("audit_log_include_databases", "shop, `x`,d1")]);
        for (default, text, expected) in [
            (Some("Shop"), "SELECT 1", true),
            (None, "SELECT * FROM shop.t", true),
            (None, "SELECT * FROM `shop`.t", true),
            (Some("other"), "SELECT * FROM workshop.t, shops.t, shop_1.t", false),
            (None, "DROP DATABASE SHOP", true),
            (None, "", false),
        ] {
            assert_eq!(filter.wants_database(default, text.as_bytes()), expected, "{text}");
        }
    }
}
