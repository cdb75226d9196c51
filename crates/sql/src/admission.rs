//! What logging in takes from outside: where a client comes from, the host's part of encryption.
//!
//! # Owns
//! [`ClientHost`]; [`HostEncryption`] and [`PasswordKey`], what the host does for logins; what the
//! workers of a process know of logins together: verifiers of passwords that were seen, logins that
//! failed.
//! # Not here
//! Accounts (`account`), the conversation with a client (`connection::login`), proofs
//! (`mysql_wire::auth`).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use actor::Transport;
use mysql_wire::auth::VerifierCache;
use sql_expression::SqlError;

use crate::account::attempts::Attempts;
use crate::account::host;
use crate::account::own_password::OwnPassword;
use crate::account::usage::Usage;
use crate::audit::AuditLog;
use crate::files::ServerFiles;

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

    /// One with an address, or `localhost`.
    #[cfg(test)]
    pub(crate) fn named(host: &str) -> Self {
        let is_local = host == "localhost";
        Self { address: (!is_local).then(|| host.to_owned()), is_local }
    }

    /// Whether the host of an account means it, by its name or by its address.
    pub(crate) fn fits(&self, host: &str) -> bool {
        let by_address = |address| host::fits(host, address);
        host::fits(host, self.name()) || self.address.as_deref().is_some_and(by_address)
    }

    /// What USER() and errors call it. Names are not looked up, but for this machine's.
    pub fn name(&self) -> &str {
        match &self.address {
            Some(address) if !self.is_local => address,
            _ => "localhost",
        }
    }
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
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// The host's encryption, if it has one.
    pub encryption: Option<Arc<dyn HostEncryption>>,
    /// The key for passwords over open connections, if there is one.
    pub password_key: Option<Arc<dyn PasswordKey>>,
    /// Accounts of the plugin `mysql_native_password` may log in.
    pub native_password: bool,
    /// Passwords that were seen.
    pub verifiers: Verifiers,
    /// Logins that failed.
    pub attempts: Attempts,
    /// What accounts have done that may do so much.
    pub usage: Usage,
    /// Bits that nobody can foretell, for salts and random passwords; none inside if the system has
    /// none. Without it they come from the worker's generator, whose numbers clients see.
    pub entropy: Option<fn() -> Option<u64>>,
    /// What happens is told there.
    pub audit: Option<Arc<dyn AuditLog>>,
    /// Files that statements may read and write, if there are some.
    pub files: Option<Arc<dyn ServerFiles>>,
    /// `root` gets a password that the cluster makes; without it `root` has none at first.
    pub own_password: Option<OwnPassword>,
}

/// Verifiers of passwords that were seen, shared by the workers of a process.
#[derive(Clone, Debug, Default)]
pub struct Verifiers(Arc<Mutex<VerifierCache>>);

impl Admission {
    /// The files of the server, for statements.
    ///
    /// # Errors
    /// 1290 if there are none.
    pub(crate) fn server_files(&self) -> Result<Arc<dyn ServerFiles>, SqlError> {
        self.files.clone().ok_or_else(|| {
            let text = "This server reads and writes no files for statements: start it with \
                        --secure-file-priv=DIRECTORY";
            SqlError::new(1290, "HY000", text)
        })
    }

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
    fn this_machine_has_a_name_and_addresses() {
        let remote = ClientHost { address: Some("192.0.2.1".into()), is_local: false };
        let socket = ClientHost { address: None, is_local: true };
        let loopback = ClientHost { address: Some("127.0.0.1".into()), is_local: true };
        for (host, expected) in [
            ("localhost", [false, true, true]),
            ("127.0.0.1", [false, false, true]),
            ("127.0.0.0/8", [false, false, true]),
            ("192.0.2.%", [true, false, false]),
            ("%", [true, true, true]),
        ] {
            let found = [&remote, &socket, &loopback].map(|from| from.fits(host));
            assert_eq!(found, expected, "{host}");
        }
        assert_eq!([&remote, &socket, &loopback].map(ClientHost::name)[1..], ["localhost"; 2]);
    }
}
