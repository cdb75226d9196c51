//! What the SQL node takes from its process for logins: certificates, the key for passwords, and
//! accounts that are there from the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::{PasswordKey, ServerTls, TlsSettings};
use serde_json::Value;
use sql::{
    Account, AccountList, Admission, EncryptionFacts, EncryptionSettings, HostEncryption,
    KeyAnswer, Plugin, Require,
};

/// What logins of a process take.
pub(crate) fn admission(
    tls: &ServerTls,
    directory: &Path,
    native_password: bool,
    accounts: Option<&Path>,
) -> Result<Admission, String> {
    let mut admission = Admission { native_password, ..Admission::default() };
    admission.encryption = Some(Arc::new(Encryption(tls.clone())));
    admission.password_key = Some(Arc::new(Key(PasswordKey::new(directory))));
    if let Some(path) = accounts {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let list = account_list(&text).map_err(|why| format!("{name}: {why}"))?;
        admission.accounts = Arc::new(list);
    }
    Ok(admission)
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

/// Accounts from JSON, for tests: objects with `user`, `host` and `plugin`, `passwords` in clear,
/// `require` (`SSL`, `X509`, or an object of `subject`, `issuer`, `cipher`), `locked`, `expired`.
fn account_list(text: &str) -> Result<AccountList, String> {
    let list: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    list.iter().map(account).collect::<Result<_, _>>().map(AccountList)
}

fn account(value: &Value) -> Result<Account, String> {
    let text = |of: &Value, name: &str| of[name].as_str().map(str::to_owned);
    let user = text(value, "user").ok_or("an account needs a user")?;
    let host = text(value, "host").ok_or("an account needs a host")?;
    let name = text(value, "plugin").unwrap_or_else(|| Plugin::CachingSha2.name().to_owned());
    let plugin = Plugin::of(&name).ok_or_else(|| format!("there is no plugin {name}"))?;
    let mut secrets = Vec::new();
    for password in value["passwords"].as_array().into_iter().flatten() {
        let password = password.as_str().ok_or("passwords are texts")?;
        let mut random = [0; 20];
        runtime::random(&mut random).map_err(|error| format!("no random bytes: {error}"))?;
        secrets.push(sql::store_password(plugin, password.as_bytes(), random));
    }
    let require = match &value["require"] {
        Value::Null => Require::None,
        Value::String(word) if word == "SSL" => Require::Ssl,
        Value::String(word) if word == "X509" => Require::X509,
        of @ Value::Object(_) => Require::Certificate {
            subject: text(of, "subject"),
            issuer: text(of, "issuer"),
            cipher: text(of, "cipher"),
        },
        other => return Err(format!("nobody can require {other}")),
    };
    let is = |name: &str| value[name].as_bool().unwrap_or_default();
    let (is_locked, has_expired) = (is("locked"), is("expired"));
    Ok(Account { user, host, plugin: name, secrets, require, is_locked, has_expired })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_from_json() {
        let text = r#"[
            {"user": "a", "host": "%", "passwords": ["one", "two"], "locked": true},
            {"user": "b", "host": "localhost", "plugin": "mysql_native_password",
             "passwords": ["one"], "require": {"subject": "/CN=b"}, "expired": true}
        ]"#;
        let AccountList(list) = account_list(text).unwrap();
        assert_eq!((list.len(), list[0].secrets.len()), (2, 2));
        assert!(list[0].secrets.iter().all(|secret| secret.starts_with("$A$005$")));
        assert_ne!(list[0].secrets[0], list[0].secrets[1]);
        assert!(list[0].is_locked && !list[0].has_expired && list[0].require == Require::None);
        assert!(list[1].secrets[0].starts_with('*') && list[1].has_expired);
        let subject = Some("/CN=b".to_owned());
        let require = Require::Certificate { subject, issuer: None, cipher: None };
        assert_eq!(list[1].require, require);
        for wrong in ["{}", "[{}]", r#"[{"user": "a", "host": "%", "plugin": "p"}]"#] {
            assert!(account_list(wrong).is_err(), "{wrong}");
        }
    }
}
