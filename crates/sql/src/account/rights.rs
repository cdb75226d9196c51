//! What a session may do: the privileges of its account and of its active roles.
//!
//! # Owns
//! [`Rights`], made at the login and again when roles or accounts have changed.
//! # Guarantees
//! Rights never change: a change of accounts makes new ones, with another stamp.
//! # Not here
//! What a statement needs (`authorize`), when rights are made anew (`login`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sql_expression::SqlError;

use super::book::Book;
use super::privilege::{Dynamic, DynamicSet, Privileges};
use super::record::{Record, TableGrant};
use super::usage::Limits;
use super::{AccountName, host};

/// What a session may do.
#[derive(Debug)]
pub(crate) struct Rights {
    /// Told apart from all other rights of the process by it.
    pub(crate) stamp: u64,
    /// The account that the session has.
    pub(crate) account: AccountName,
    /// The roles that are active, with those that they bring.
    pub(crate) roles: Vec<AccountName>,
    /// The account, and those roles.
    sources: Vec<Source>,
    /// Static privileges everywhere, without a look at restrictions.
    pub(crate) global: Privileges,
    dynamic: DynamicSet,
    /// How much the account may do.
    pub(crate) limits: Limits,
    /// Everything is allowed.
    is_complete: bool,
    /// Names of databases in grants are patterns.
    patterns: bool,
}

/// An account or a role.
#[derive(Debug)]
struct Source {
    name: AccountName,
    record: Rc<Record>,
}

/// Which roles a session uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Active {
    /// Those that the account has by default.
    #[default]
    Default,
    /// None.
    None,
    /// All that are given, except some.
    All(Vec<AccountName>),
    /// These, as long as they are given.
    These(Vec<AccountName>),
}

/// The server's rules about roles.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleRules {
    /// `mandatory_roles`.
    pub(crate) mandatory: Vec<AccountName>,
    /// `activate_all_roles_on_login`.
    pub(crate) all_on_login: bool,
    /// `partial_revokes`: names of databases in grants are names.
    pub(crate) partial_revokes: bool,
}

static STAMPS: AtomicU64 = AtomicU64::new(1);

impl Rights {
    /// The rights of an account; none if it is gone.
    pub(crate) fn of(
        book: &Book<'_>,
        account: &AccountName,
        active: &Active,
        rules: &RoleRules,
    ) -> Result<Option<Self>, SqlError> {
        let Some(record) = book.find(account)? else { return Ok(None) };
        let given = given(book, &record, rules);
        let first: Vec<AccountName> = match active {
            Active::None => Vec::new(),
            Active::Default if rules.all_on_login => given,
            Active::Default => {
                record.default_roles.iter().filter(|role| given.contains(role)).cloned().collect()
            }
            Active::All(except) => {
                given.into_iter().filter(|role| !except.contains(role)).collect()
            }
            Active::These(roles) => {
                roles.iter().filter(|role| given.contains(role)).cloned().collect()
            }
        };
        let mut sources = vec![Source { name: account.clone(), record }];
        let mut waiting = first.clone();
        while let Some(role) = waiting.pop() {
            if sources[1..].iter().any(|source| source.name == role) {
                continue;
            }
            if let Some(record) = book.find(&role)? {
                waiting.extend(record.roles.iter().map(|grant| grant.role.clone()));
                sources.push(Source { name: role, record });
            }
        }
        Ok(Some(Self::made(account.clone(), first, sources, rules)))
    }

    /// All rights, for what the cluster does by itself.
    pub(crate) fn complete() -> Self {
        let of_nobody = Self::made(AccountName::root(), vec![], vec![], &RoleRules::default());
        Self { global: Privileges::ALL, is_complete: true, ..of_nobody }
    }

    fn made(
        account: AccountName,
        roles: Vec<AccountName>,
        sources: Vec<Source>,
        rules: &RoleRules,
    ) -> Self {
        let (mut global, mut dynamic) = (Privileges::NONE, DynamicSet::default());
        let mut restricted = false;
        for source in &sources {
            global |= source.record.global;
            restricted |= !source.record.restrictions.is_empty();
            let names = source.record.dynamic.keys();
            names.filter_map(|name| Dynamic::named(name)).for_each(|one| dynamic.add(one));
        }
        let limits = sources.first().map(|own| Limits::of(own.record.limits));
        Self {
            limits: limits.unwrap_or_default(),
            stamp: STAMPS.fetch_add(1, Ordering::Relaxed),
            account,
            roles,
            sources,
            global,
            dynamic,
            is_complete: global == Privileges::ALL && dynamic.is_all() && !restricted,
            patterns: !rules.partial_revokes,
        }
    }

    /// Whether everything is allowed.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether a dynamic privilege is there.
    pub(crate) fn has_dynamic(&self, one: Dynamic) -> bool {
        self.dynamic.has(one)
    }

    /// Whether a dynamic privilege, or SUPER in its place, is there.
    pub(crate) fn administers(&self, one: Dynamic) -> bool {
        self.has_dynamic(one) || self.global.has(Privileges::SUPER)
    }

    /// Whether a dynamic privilege may be given on.
    pub(crate) fn may_give(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.record.dynamic.get(name) == Some(&true))
    }

    /// Whether a role may be given on.
    pub(crate) fn may_give_role(&self, role: &AccountName) -> bool {
        let admin = |source: &Source| source.record.role(role).is_some_and(|grant| grant.admin);
        self.administers(Dynamic::ROLE_ADMIN) || self.sources.iter().any(admin)
    }

    /// Whether there is anything but what every account has.
    pub(crate) fn names(&self) -> impl Iterator<Item = &AccountName> {
        self.sources.iter().map(|source| &source.name)
    }

    /// What of the global privileges does not hold in a database, by any source.
    pub(crate) fn restrictions(&self) -> BTreeMap<String, Privileges> {
        let mut all = BTreeMap::new();
        for source in &self.sources {
            for (database, restricted) in &source.record.restrictions {
                let effective = *restricted - self.of_database(database);
                if !effective.is_empty() {
                    all.insert(database.clone(), effective);
                }
            }
        }
        all
    }

    /// Privileges for all of a database.
    pub(crate) fn of_database(&self, database: &str) -> Privileges {
        let of_one = |source: &Source| source.of_database(database, self.patterns);
        self.sources.iter().fold(Privileges::NONE, |all, source| all | of_one(source))
    }

    /// Privileges for all of a table.
    pub(crate) fn of_table(&self, database: &str, table: &str) -> Privileges {
        let grants = self.grants(database, table);
        grants.fold(self.of_database(database), |all, grant| all | grant.privileges)
    }

    /// Privileges for one column or another of a table, but not for all of it.
    pub(crate) fn of_columns(&self, database: &str, table: &str) -> Privileges {
        let grants = self.grants(database, table);
        grants.fold(Privileges::NONE, |all, grant| all | grant.of_columns())
    }

    /// Privileges for a column that are given for it by name. Letter case does not count in names
    /// of columns.
    pub(crate) fn of_column(&self, database: &str, table: &str, column: &str) -> Privileges {
        let mut all = Privileges::NONE;
        for grant in self.grants(database, table) {
            let same = |(name, _): &(&String, &Privileges)| sql_expression::same_name(name, column);
            let of_column = grant.columns.iter().filter(same);
            all = of_column.fold(all, |all, (_, privileges)| all | *privileges);
        }
        all
    }

    /// Whether a database may be seen: something in it is allowed.
    pub(crate) fn sees_database(&self, database: &str) -> bool {
        if self.is_complete {
            return true;
        }
        self.global.has(Privileges::SHOW_DATABASES) || self.enters_database(database)
    }

    /// Whether a database may be the default one: something in it is allowed.
    pub(crate) fn enters_database(&self, database: &str) -> bool {
        // Privileges that have nothing to do with what is in a database show none.
        let within = Privileges::OF_DATABASE | Privileges::GRANT;
        self.of_database(database).meets(within)
            || self.sources.iter().any(|source| source.has_within(database))
    }

    /// Whether a table may be seen.
    pub(crate) fn sees_table(&self, database: &str, table: &str) -> bool {
        self.is_complete
            || self.of_table(database, table).meets(Privileges::OF_TABLE | Privileges::GRANT)
            || !self.of_columns(database, table).is_empty()
    }

    fn grants<'a>(
        &'a self,
        database: &'a str,
        table: &'a str,
    ) -> impl Iterator<Item = &'a TableGrant> {
        let of_source = move |source: &'a Source| source.record.tables.get(database)?.get(table);
        self.sources.iter().filter_map(of_source)
    }
}

impl Source {
    fn of_database(&self, database: &str, patterns: bool) -> Privileges {
        let record = &self.record;
        let restricted = record.restrictions.get(database).copied().unwrap_or_default();
        (record.global - restricted) | of_pattern(record, database, patterns)
    }

    /// Whether something in the database is given by name.
    fn has_within(&self, database: &str) -> bool {
        self.record.tables.contains_key(database)
    }
}

/// What is given for the database, or by the most specific pattern that fits it.
fn of_pattern(record: &Record, database: &str, patterns: bool) -> Privileges {
    if let Some(privileges) = record.databases.get(database) {
        return *privileges;
    }
    if !patterns {
        return Privileges::NONE;
    }
    let fits = |pattern: &&String| host::like_exact(pattern.as_bytes(), database.as_bytes());
    let fixed = |pattern: &&String| pattern.find(['%', '_']).unwrap_or(usize::MAX);
    let best = record.databases.keys().filter(fits).max_by_key(fixed);
    best.map_or(Privileges::NONE, |pattern| record.databases[pattern])
}

/// The roles that are given to an account, and those that everybody has.
pub(crate) fn given(book: &Book<'_>, record: &Record, rules: &RoleRules) -> Vec<AccountName> {
    let mut given: Vec<AccountName> = record.roles.iter().map(|grant| grant.role.clone()).collect();
    for role in &rules.mandatory {
        if !given.contains(role) && book.has(role) {
            given.push(role.clone());
        }
    }
    given
}

/// Rights that are shared with expressions, as CURRENT_ROLE() shows them.
pub(crate) fn shown_roles(roles: &[AccountName]) -> Arc<str> {
    if roles.is_empty() {
        return "NONE".into();
    }
    let mut shown: Vec<String> = roles.iter().map(AccountName::quoted).collect();
    shown.sort_unstable();
    shown.join(",").into()
}
