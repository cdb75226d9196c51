//! An account as logging in sees it.

use super::sha2::{ROUNDS, SALT_LEN, Stored};
use super::{CACHING_SHA2, NATIVE, SOCKET};

/// What logging in needs to know of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name; empty for an anonymous account.
    pub user: String,
    /// The host as the account has it: a name, a pattern, an address with a mask. With the name it
    /// is CURRENT_USER().
    pub host: String,
    /// The plugin's name, as in `mysql.user`.
    pub plugin: String,
    /// What the plugin keeps, as in `mysql.user`: the present password first; then one that was
    /// retained and is good as well (dual passwords). None, or an empty one: no password.
    pub secrets: Vec<String>,
    /// What REQUIRE demands.
    pub require: Require,
    /// ACCOUNT LOCK.
    pub is_locked: bool,
    /// The password has expired: it is to be changed before anything else.
    pub has_expired: bool,
}

/// A plugin that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `caching_sha2_password`.
    CachingSha2,
    /// `mysql_native_password`.
    Native,
    /// `auth_socket`.
    Socket,
}

impl Plugin {
    /// The plugin of a name, which is compared as names of plugins are: without regard to case.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::CachingSha2, Self::Native, Self::Socket];
        all.into_iter().find(|plugin| plugin.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CachingSha2 => CACHING_SHA2,
            Self::Native => NATIVE,
            Self::Socket => SOCKET,
        }
    }
}

/// REQUIRE of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Require {
    /// NONE.
    #[default]
    None,
    /// SSL: the connection is encrypted.
    Ssl,
    /// X509: and the client has a certificate of the authority.
    X509,
    /// The certificate, and the cipher, are these; what is not given may be any.
    Certificate {
        /// SUBJECT, as `/C=SE/O=Firm/CN=name`.
        subject: Option<String>,
        /// ISSUER.
        issuer: Option<String>,
        /// CIPHER.
        cipher: Option<String>,
    },
}

/// How a connection is protected by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection<'a> {
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'a str,
    /// Subject and issuer of the client's certificate, if it has shown one; the authority's
    /// signature has been checked.
    pub certificate: Option<(&'a str, &'a str)>,
}

impl Require {
    /// Whether a connection fulfils it; none for one without TLS.
    pub fn is_met_by(&self, protection: Option<Protection<'_>>) -> bool {
        let Some(protection) = protection else { return *self == Self::None };
        match self {
            Self::None | Self::Ssl => true,
            Self::X509 => protection.certificate.is_some(),
            Self::Certificate { subject, issuer, cipher } => {
                let fits = |wanted: &Option<String>, found: &str| {
                    wanted.as_ref().is_none_or(|wanted| wanted == found)
                };
                let of_certificate = match protection.certificate {
                    Some((of, by)) => fits(subject, of) && fits(issuer, by),
                    None => subject.is_none() && issuer.is_none(),
                };
                of_certificate && fits(cipher, protection.cipher)
            }
        }
    }
}

impl Account {
    /// What stands in for an account that there is not: proofs are checked against it in the same
    /// way and in the same time, and none is right.
    pub fn decoy(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            host: String::new(),
            plugin: CACHING_SHA2.to_owned(),
            secrets: vec![Self::impossible().text()],
            require: Require::None,
            is_locked: false,
            has_expired: false,
        }
    }

    /// What `caching_sha2_password` checks where there is no password to check against.
    pub fn impossible() -> Stored {
        // The last character of a digest has four bits: `z` would be six.
        Stored { rounds: ROUNDS, salt: [b's'; SALT_LEN], digest: [b'z'; 43] }
    }

    /// Whether it has no password.
    pub fn is_without_password(&self) -> bool {
        self.secrets.iter().all(String::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_by_name() {
        assert_eq!(Plugin::of("Caching_SHA2_password"), Some(Plugin::CachingSha2));
        assert_eq!(Plugin::of("mysql_native_password"), Some(Plugin::Native));
        assert_eq!(Plugin::of("auth_socket"), Some(Plugin::Socket));
        assert_eq!(Plugin::of("sha256_password"), None);
    }

    #[test]
    fn a_decoy_is_like_an_account() {
        let decoy = Account::decoy("nobody");
        assert!(!decoy.is_without_password());
        assert_eq!(Stored::parse(&decoy.secrets[0]), Some(Account::impossible()));
    }

    #[test]
    fn requirements_and_connections() {
        let certificate = |subject: Option<&str>, issuer: Option<&str>, cipher: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let (subject, issuer, cipher) = (text(subject), text(issuer), text(cipher));
            Require::Certificate { subject, issuer, cipher }
        };
        let bare = Protection { cipher: "A", certificate: None };
        let shown = Protection { cipher: "A", certificate: Some(("/CN=c", "/CN=ca")) };
        // Plain, encrypted, with a certificate.
        let cases = [
            (Require::None, [true, true, true]),
            (Require::Ssl, [false, true, true]),
            (Require::X509, [false, false, true]),
            (certificate(None, None, None), [false, true, true]),
            (certificate(None, None, Some("A")), [false, true, true]),
            (certificate(None, None, Some("B")), [false, false, false]),
            (certificate(Some("/CN=c"), None, None), [false, false, true]),
            (certificate(Some("/CN=c"), Some("/CN=ca"), Some("A")), [false, false, true]),
            (certificate(Some("/CN=C"), None, None), [false, false, false]),
            (certificate(Some("/CN=c"), Some("/CN=other"), None), [false, false, false]),
            (certificate(None, Some("/CN=ca"), None), [false, false, true]),
        ];
        for (require, expected) in cases {
            let found = [None, Some(bare), Some(shown)].map(|by| require.is_met_by(by));
            assert_eq!(found, expected, "{require:?}");
        }
    }
}
