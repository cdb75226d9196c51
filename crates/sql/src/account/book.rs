//! Which accounts there are, and as which of them a client logs in.
//!
//! # Owns
//! [`Book`], the accounts of a state of the cluster; the records a worker has read.
//! # Guarantees
//! Before the first change of accounts there is one, `root` from `localhost`, who may do
//! everything; nobody logs in as that where `root` is to get a password first.
//! # Not here
//! Proving who one is (`connection::login`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterState, ControlIndex, Description, SchemaChange};
use sql_expression::SqlError;

use super::record::Record;
use super::{AccountName, SEPARATOR, host};
use crate::admission::ClientHost;
use crate::kernel::Kernel;

/// Records that a worker keeps; beyond it all are forgotten and read again as they are needed.
const RECORDS_MAX: usize = 4_096;

/// A record with the text it was read from.
type Known = (Description, Rc<Record>);

/// The records a worker has read, each with the text it was read from.
#[derive(Debug, Default)]
pub(crate) struct Records {
    by_key: RefCell<BTreeMap<Box<str>, Known>>,
    /// The hosts of all accounts, each once, with the change of accounts they were collected after.
    hosts: RefCell<Option<(ControlIndex, Rc<[String]>)>>,
    /// The first account has no password yet that anybody knows: nobody is let in as it.
    is_guarded: bool,
}

/// The accounts of a state of the cluster.
#[derive(Debug)]
pub(crate) struct Book<'a> {
    cluster: Arc<ClusterState>,
    records: &'a Records,
}

impl Records {
    /// None read yet. Where the cluster gives `root` a password nobody logs in before.
    pub(crate) fn new(is_guarded: bool) -> Self {
        Self { is_guarded, ..Self::default() }
    }

    /// The accounts of the state that a worker has reached.
    pub(crate) fn book(&self, kernel: &Kernel) -> Book<'_> {
        Book { cluster: kernel.cluster(), records: self }
    }

    fn of(&self, key: &str, text: &Description) -> Result<Rc<Record>, SqlError> {
        let mut by_key = self.by_key.borrow_mut();
        if let Some((known, record)) = by_key.get(key)
            && Arc::ptr_eq(known, text)
        {
            return Ok(record.clone());
        }
        let record = Rc::new(Record::read(&AccountName::of_key(key), text)?);
        if by_key.len() >= RECORDS_MAX {
            by_key.clear();
        }
        by_key.insert(key.into(), (text.clone(), record.clone()));
        Ok(record)
    }
}

impl Book<'_> {
    /// Nobody has changed accounts yet.
    pub(super) fn is_new(&self) -> bool {
        self.cluster.accounts_changed == ControlIndex(0)
    }

    /// The state that this was read from, to be named by changes.
    pub(crate) fn seen(&self) -> ControlIndex {
        self.cluster.accounts_changed
    }

    /// The account of this name.
    pub(crate) fn find(&self, name: &AccountName) -> Result<Option<Rc<Record>>, SqlError> {
        if self.is_new() {
            let root = *name == AccountName::root();
            return Ok(root.then(|| Rc::new(Record::of_root())));
        }
        let key = name.key();
        let text = self.cluster.accounts.get(key.as_str());
        text.map(|text| self.records.of(&key, text)).transpose()
    }

    /// Whether there is an account of this name.
    pub(crate) fn has(&self, name: &AccountName) -> bool {
        if self.is_new() {
            *name == AccountName::root()
        } else {
            self.cluster.accounts.contains_key(name.key().as_str())
        }
    }

    /// All names, by user and host.
    pub(crate) fn names(&self) -> Vec<AccountName> {
        if self.is_new() {
            vec![AccountName::root()]
        } else {
            self.cluster.accounts.keys().map(|key| AccountName::of_key(key)).collect()
        }
    }

    /// All accounts, by user and host.
    pub(crate) fn all(&self) -> Result<Vec<(AccountName, Rc<Record>)>, SqlError> {
        let mut all = Vec::new();
        for name in self.names() {
            if let Some(record) = self.find(&name)? {
                all.push((name, record));
            }
        }
        Ok(all)
    }

    /// Whether any account is for clients from there.
    pub(crate) fn expects(&self, from: &ClientHost) -> bool {
        self.hosts().iter().any(|host| from.fits(host))
    }

    fn hosts(&self) -> Rc<[String]> {
        let mut kept = self.records.hosts.borrow_mut();
        if let Some((of, hosts)) = kept.as_ref()
            && *of == self.seen()
        {
            return hosts.clone();
        }
        let once: BTreeSet<&str> = if self.is_new() {
            BTreeSet::from(["localhost"])
        } else {
            self.cluster.accounts.keys().filter_map(|key| host_of_key(key)).collect()
        };
        let hosts: Rc<[String]> = once.into_iter().map(str::to_owned).collect();
        *kept = Some((self.seen(), hosts.clone()));
        hosts
    }

    /// The account that a client is, who calls itself `user` and comes from `from`: of those whose
    /// host fits, the one with the most specific host; of those with the same one, the user's own
    /// before the anonymous one.
    pub(crate) fn who(
        &self,
        user: &str,
        from: &ClientHost,
    ) -> Result<Option<(AccountName, Rc<Record>)>, SqlError> {
        if self.is_new() && self.records.is_guarded {
            return Ok(None);
        }
        let mut fitting: Vec<AccountName> = [user, ""]
            .into_iter()
            .flat_map(|user| self.hosts_of(user))
            .filter(|name| from.fits(&name.host))
            .collect();
        fitting.sort_by_key(|name| (host::order(&name.host), name.user.is_empty()));
        let Some(name) = fitting.into_iter().next() else { return Ok(None) };
        let record = self.find(&name)?;
        Ok(record.map(|record| (name, record)))
    }

    /// The accounts of one user.
    fn hosts_of(&self, user: &str) -> Vec<AccountName> {
        if self.is_new() {
            let root = AccountName::root();
            return if user == root.user { vec![root] } else { Vec::new() };
        }
        let first = AccountName::new(user, "").key();
        let keys = self.cluster.accounts.iter_from(first.as_str());
        let of_user = keys.map(|(key, _)| key).take_while(|key| key.starts_with(&first));
        of_user.map(|key| AccountName::of_key(key)).collect()
    }

    /// The command that adds accounts as the catalog keeps them, if nobody else changes accounts
    /// before.
    ///
    /// # Errors
    /// If one of the texts is no account's.
    pub(crate) fn adding(
        &self,
        texts: BTreeMap<String, Option<Description>>,
    ) -> Result<SchemaChange, SqlError> {
        let mut changes = BTreeMap::new();
        for (key, text) in texts {
            let name = AccountName::of_key(&key);
            let record = text.map(|text| Record::read(&name, &text)).transpose()?;
            changes.insert(name, record);
        }
        Ok(self.command(changes))
    }

    /// The command that makes these changes, if nobody else changes accounts before.
    pub(crate) fn command(&self, changes: BTreeMap<AccountName, Option<Record>>) -> SchemaChange {
        let mut changes: Vec<(String, Option<Description>)> = changes
            .into_iter()
            .map(|(name, record)| (name.key(), record.map(|record| record.description())))
            .collect();
        let root = AccountName::root().key();
        if self.is_new() && changes.iter().all(|(key, _)| *key != root) {
            changes.push((root, Some(Record::of_root().description())));
        }
        SchemaChange::ChangeAccounts { seen: self.seen(), changes }
    }
}

/// The host in a catalog's name of an account.
fn host_of_key(key: &str) -> Option<&str> {
    key.split_once(SEPARATOR).map(|(_, host)| host)
}
