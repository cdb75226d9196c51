//! What the SQL node takes from its process for logins: certificates, the key for passwords.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::{PasswordKey, ServerTls, TlsSettings};
use sql::{Admission, EncryptionFacts, EncryptionSettings, HostEncryption, KeyAnswer};

/// What logins of a process take.
pub(crate) fn admission(tls: &ServerTls, directory: &Path, native_password: bool) -> Admission {
    Admission {
        native_password,
        encryption: Some(Arc::new(Encryption(tls.clone()))),
        password_key: Some(Arc::new(Key(PasswordKey::new(directory)))),
        entropy: Some(entropy),
        ..Admission::default()
    }
}

/// Random bits of the system.
pub(crate) fn entropy() -> Option<u64> {
    let mut bytes = [0; 8];
    runtime::random(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// The runtime's encryption as the SQL node sees it.
#[derive(Debug)]
struct Encryption(ServerTls);

impl HostEncryption for Encryption {
    fn facts(&self) -> EncryptionFacts {
        let facts = self.0.facts();
        EncryptionFacts {
            is_offered: facts.is_offered,
            authority: text(&facts.authority),
            settings: values(&facts.settings),
            cipher_list: facts.cipher_list,
            validity: facts.validity,
        }
    }

    fn reload(&self, wanted: EncryptionSettings) -> Result<(), String> {
        let path = |text: String| Some(text).filter(|text| !text.is_empty()).map(Into::into);
        self.0.reload(TlsSettings {
            certificate: path(wanted.certificate),
            key: path(wanted.key),
            authority: path(wanted.authority),
            versions: wanted.versions,
            ciphers: wanted.ciphers,
            suites: wanted.suites,
        })
    }
}

/// Settings as values of variables.
pub(crate) fn values(settings: &TlsSettings) -> EncryptionSettings {
    EncryptionSettings {
        authority: text(&settings.authority),
        certificate: text(&settings.certificate),
        key: text(&settings.key),
        versions: settings.versions.clone(),
        ciphers: settings.ciphers.clone(),
        suites: settings.suites.clone(),
    }
}

/// A path as the value of a variable.
fn text(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| path.display().to_string())
}

/// The runtime's key as the SQL node sees it.
#[derive(Debug)]
struct Key(PasswordKey);

impl sql::PasswordKey for Key {
    fn ask_public(&self, answer: &KeyAnswer) -> bool {
        self.0.ask_public(answer)
    }

    fn ask_open(&self, sealed: &[u8], answer: &KeyAnswer) -> bool {
        self.0.ask_open(sealed, answer)
    }
}
