//! What logging in takes from outside: the accounts, and the host's part of encryption.
//!
//! # Owns
//! [`Accounts`], the question who may log in; [`AccountList`], accounts that are there from the
//! start; [`HostEncryption`] and [`PasswordKey`], what the host does for logins; the verifiers of
//! passwords that were seen.
//! # Not here
//! The conversation with a client (`connection::login`), proofs (`mysql_wire::auth`).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use actor::Transport;
use mysql_wire::auth::{self, Account, CACHING_SHA2, Plugin, Require, VerifierCache};
use sql_expression::SqlError;

/// Where a client comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHost {
    /// Its address as text; none over a Unix socket.
    pub address: Option<String>,
    /// It is a process of this machine.
    pub is_local: bool,
}

impl ClientHost {
    pub(crate) fn of(transport: &Transport) -> Self {
        match transport {
            Transport::Unix { .. } => Self { address: None, is_local: true },
            Transport::Tcp { address, loopback, .. } => {
                Self { address: Some(address.clone()), is_local: *loopback }
            }
        }
    }

    /// What USER() and errors call it. Names are not looked up, but for this machine's.
    pub fn name(&self) -> &str {
        match &self.address {
            Some(address) if !self.is_local => address,
            _ => "localhost",
        }
    }
}

/// Who may log in.
pub trait Accounts: fmt::Debug + Send + Sync {
    /// The account of a client that calls itself `user`.
    fn find(&self, user: &str, from: &ClientHost) -> Option<Account>;

    /// Whether there is any account for clients from there. Others are refused before they say who
    /// they are (error 1130).
    fn expects(&self, from: &ClientHost) -> bool;

    /// Told of each attempt to use an account that there is, and whether its password was proven.
    /// An error refuses the client in place of the usual one, also when the password is right.
    fn attempted(&self, account: &Account, proven: bool) -> Result<(), SqlError> {
        let (_, _) = (account, proven);
        Ok(())
    }
}

/// What accounts keep of a password, with the usual number of rounds; `random` are fresh random
/// bytes.
pub fn store_password(plugin: Plugin, password: &[u8], random: [u8; 20]) -> String {
    auth::store(plugin, password, random, auth::sha2::ROUNDS)
}

/// Accounts that are there from the start, the more specific ones first.
#[derive(Clone, Debug, Default)]
pub struct AccountList(pub Vec<Account>);

impl AccountList {
    /// `root` without a password, from this machine only.
    pub fn root_only() -> Self {
        Self(vec![Account {
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            plugin: CACHING_SHA2.to_owned(),
            secrets: vec![String::new()],
            require: Require::None,
            is_locked: false,
            has_expired: false,
        }])
    }
}

impl Accounts for AccountList {
    fn find(&self, user: &str, from: &ClientHost) -> Option<Account> {
        let mut all = self.0.iter();
        all.find(|account| account.user == user && fits(&account.host, from)).cloned()
    }

    fn expects(&self, from: &ClientHost) -> bool {
        self.0.iter().any(|account| fits(&account.host, from))
    }
}

/// Whether an account's host, a name or an address or `%`, is where a client comes from.
fn fits(host: &str, from: &ClientHost) -> bool {
    host == "%" || host == from.name() || from.address.as_deref() == Some(host)
}

/// What the host says of its encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionFacts {
    /// Connections can be encrypted.
    pub is_offered: bool,
    /// What is in force.
    pub settings: EncryptionSettings,
    /// The file of the authority's certificate, by which clients check the server's.
    pub authority: String,
    /// Cipher suites, separated by colons.
    pub cipher_list: String,
    /// From when to when the server's certificate is good: seconds since 1970 UTC.
    pub validity: (i64, i64),
}

/// What encryption is asked for: values of variables, empty where nothing is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionSettings {
    /// `ssl_ca`.
    pub authority: String,
    /// `ssl_cert`.
    pub certificate: String,
    /// `ssl_key`.
    pub key: String,
    /// `tls_version`.
    pub versions: String,
    /// `ssl_cipher`.
    pub ciphers: String,
    /// `tls_ciphersuites`.
    pub suites: Option<String>,
}

/// The host's encryption of connections.
pub trait HostEncryption: fmt::Debug + Send + Sync {
    /// What it says of itself.
    fn facts(&self) -> EncryptionFacts;

    /// Reads or makes certificates anew, for connections to come. After an error, which says why,
    /// nothing has changed.
    fn reload(&self, settings: EncryptionSettings) -> Result<(), String>;
}

/// Where the answer of a [`PasswordKey`] appears: none inside if there is none.
pub type KeyAnswer = Arc<OnceLock<Option<Vec<u8>>>>;

/// The key by which clients seal a password that they send over an open connection. It computes
/// aside; its answers appear later.
pub trait PasswordKey: fmt::Debug + Send + Sync {
    /// Asks for the public key, as PEM. False if there is no room for a request now.
    fn ask_public(&self, answer: &KeyAnswer) -> bool;

    /// Asks to open what was sealed with the public key. False if there is no room now.
    fn ask_open(&self, sealed: &[u8], answer: &KeyAnswer) -> bool;
}

/// What logging in takes from outside. The workers of a process share one.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Who may log in.
    pub accounts: Arc<dyn Accounts>,
    /// The host's encryption, if it has one.
    pub encryption: Option<Arc<dyn HostEncryption>>,
    /// The key for passwords over open connections, if there is one.
    pub password_key: Option<Arc<dyn PasswordKey>>,
    /// Accounts of the plugin `mysql_native_password` may log in.
    pub native_password: bool,
    /// Passwords that were seen.
    pub verifiers: Verifiers,
}

/// Verifiers of passwords that were seen, shared by the workers of a process.
#[derive(Clone, Debug, Default)]
pub struct Verifiers(Arc<Mutex<VerifierCache>>);

impl Default for Admission {
    fn default() -> Self {
        Self {
            accounts: Arc::new(AccountList::root_only()),
            encryption: None,
            password_key: None,
            native_password: false,
            verifiers: Verifiers::default(),
        }
    }
}

impl Admission {
    /// Verifiers of passwords that were seen, locked for a moment.
    pub(crate) fn verifiers(&self) -> MutexGuard<'_, VerifierCache> {
        self.verifiers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host says of its encryption.
    pub(crate) fn encryption_facts(&self) -> EncryptionFacts {
        self.encryption.as_ref().map(|encryption| encryption.facts()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_a_list_are_found_by_user_and_host() {
        let account =
            |user: &str, host: &str| Account { host: host.to_owned(), ..Account::decoy(user) };
        let all = [account("a", "192.0.2.1"), account("a", "localhost"), account("b", "%")];
        let list = AccountList(all.to_vec());
        let remote = |address: &str| ClientHost { address: Some(address.into()), is_local: false };
        let socket = ClientHost { address: None, is_local: true };
        let loopback = ClientHost { address: Some("127.0.0.1".into()), is_local: true };
        assert_eq!(list.find("a", &remote("192.0.2.1")), Some(all[0].clone()));
        assert_eq!(list.find("a", &remote("192.0.2.2")), None);
        assert_eq!(list.find("a", &socket), Some(all[1].clone()));
        assert_eq!(list.find("a", &loopback), Some(all[1].clone()));
        assert_eq!(list.find("b", &remote("192.0.2.2")), Some(all[2].clone()));
        assert_eq!(list.find("c", &socket), None);
        let root = AccountList::root_only();
        assert!(root.expects(&socket) && root.expects(&loopback));
        assert!(!root.expects(&remote("192.0.2.1")));
        assert!(list.expects(&remote("192.0.2.2")));
    }
}
