//! Tokens: good once, for one who is to become a node or an operator.
//!
//! # Owns
//! A token as text, and what a management node keeps of it.
//! # Guarantees
//! What is kept does not tell the secret. A token is for one key: whoever has used it may ask again
//! with the same key, since an answer can be lost, and nobody else may.

use std::fmt;

use runtime::{NodeRole, sha256_hex};
use serde::{Deserialize, Serialize};

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// What its owner may become.
    pub(crate) role: NodeRole,
    /// The id of the cluster's authority, by which its owner knows the cluster.
    pub(crate) authority: String,
    /// What it is called in lists.
    pub(crate) id: String,
    /// What proves that somebody has it.
    pub(crate) secret: String,
}

impl Token {
    /// A new one.
    pub(crate) fn new(role: NodeRole, authority: String) -> Result<Self, String> {
        Ok(Self { role, authority, id: random_hex::<4>()?, secret: random_hex::<16>()? })
    }

    /// Reads one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = "that is no token: `nines ctl token create` makes one, which begins with \
                     `nines1-`";
        let parts: Vec<&str> = text.trim().split('-').collect();
        let [PREFIX, role, authority, id, secret] = parts[..] else { return Err(wrong.into()) };
        let role = NodeRole::parse(role).ok_or(wrong)?;
        let hex = |text: &str, digits: usize| {
            let known = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == digits && text.bytes().all(known)
        };
        if !hex(authority, 32) || !hex(id, 8) || !hex(secret, 32) {
            return Err(format!("{wrong}; a part of it is missing"));
        }
        let (authority, id) = (authority.to_owned(), id.to_owned());
        Ok(Self { role, authority, id, secret: secret.to_owned() })
    }

    /// What is shown to a management node.
    pub(crate) fn proof(&self) -> (String, String) {
        (self.id.clone(), self.secret.clone())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, authority, id, secret } = self;
        write!(f, "{PREFIX}-{}-{authority}-{id}-{secret}", role.name())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("role", &self.role).field("id", &self.id).finish()
    }
}

/// What a management node keeps of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    pub(crate) id: String,
    pub(crate) role: String,
    /// The node that it is for; none for any.
    pub(crate) node: Option<u16>,
    /// SHA-256 of the secret.
    secret_hash: String,
    /// Seconds since 1970 UTC.
    pub(crate) created: u64,
    /// Until when it is good.
    pub(crate) expires: u64,
    /// Who has used it.
    pub(crate) used: Option<Use>,
    pub(crate) revoked: bool,
}

/// What became of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Use {
    /// SHA-256 of the key that a certificate was signed for.
    pub(crate) key: String,
    pub(crate) node: u16,
    pub(crate) at: u64,
}

impl TokenRecord {
    /// What is kept of a new token.
    pub(crate) fn new(token: &Token, node: Option<u16>, now: u64, valid: u64) -> Self {
        Self {
            id: token.id.clone(),
            role: token.role.name().to_owned(),
            node,
            secret_hash: hash(&token.secret),
            created: now,
            expires: now.saturating_add(valid),
            used: None,
            revoked: false,
        }
    }

    /// Whether the token is good for a role and a key; why not.
    pub(crate) fn check(
        &self,
        secret: &str,
        role: &str,
        key: Option<&str>,
        now: u64,
    ) -> Result<(), String> {
        let id = &self.id;
        // Of two hashes of random numbers nobody learns anything by the time of a comparison.
        if hash(secret) != self.secret_hash {
            return Err(format!("the secret of token {id} is wrong"));
        }
        if self.revoked {
            return Err(format!("token {id} has been revoked"));
        }
        if let Some(used) = &self.used
            && key.is_none_or(|key| key != used.key)
        {
            return Err(format!(
                "token {id} has been used, for {} node {}: each is good once",
                self.role, used.node
            ));
        }
        if self.expires <= now {
            return Err(format!("token {id} has expired: make another one"));
        }
        if self.role != role {
            return Err(format!("token {id} is for the role {}, not {role}", self.role));
        }
        Ok(())
    }

    /// What is to be said of it in a list.
    pub(crate) fn state(&self, now: u64) -> &'static str {
        match self {
            Self { revoked: true, .. } => "revoked",
            Self { used: Some(_), .. } => "used",
            Self { expires, .. } if *expires <= now => "expired",
            _ => "good",
        }
    }
}

fn hash(secret: &str) -> String {
    sha256_hex(secret.as_bytes())
}

/// So many random bytes, as hexadecimal digits.
pub(crate) fn random_hex<const N: usize>() -> Result<String, String> {
    let mut bytes = [0; N];
    runtime::random(&mut bytes).map_err(|error| format!("random numbers: {error}"))?;
    Ok(runtime::hex(&bytes))
}

const PREFIX: &str = "nines1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = Token::new(NodeRole::Sql, "0123456789abcdef".repeat(2)).unwrap();
        let text = token.to_string();
        assert!(text.starts_with("nines1-sql-0123456789abcdef0123456789abcdef-"), "{text}");
        assert_eq!(Token::parse(&format!(" {text}\n")), Ok(token.clone()));
        for end in 0..text.len() {
            assert!(Token::parse(&text[..end]).is_err(), "{end}");
        }
        assert!(Token::parse(&text.replace("-sql-", "-api-")).is_err());
        assert!(Token::parse(&text.to_uppercase()).is_err());
        assert!(!format!("{token:?}").contains(&token.secret));
    }

    #[test]
    fn a_token_is_good_once_for_its_role_and_its_time() {
        let token = Token::new(NodeRole::Data, "0".repeat(32)).unwrap();
        let mut record = TokenRecord::new(&token, None, 1_000, 60);
        let kept = serde_json::to_string(&record).unwrap();
        assert!(!kept.contains(&token.secret), "{kept}");
        let check = |record: &TokenRecord, secret: &str, role, key, now| {
            record.check(secret, role, key, now).map_err(|why| {
                assert!(why.contains(&token.id) && !why.contains(&token.secret), "{why}");
                why
            })
        };
        let secret = token.secret.clone();
        assert_eq!(check(&record, &secret, "data", Some("key"), 1_059), Ok(()));
        let why = |record: &TokenRecord, secret: &str, role, key, now| {
            check(record, secret, role, key, now).unwrap_err()
        };
        assert!(why(&record, "guess", "data", None, 1_000).contains("is wrong"));
        assert!(why(&record, &secret, "data", None, 1_060).contains("has expired"));
        assert!(why(&record, &secret, "sql", None, 1_000).contains("for the role data, not sql"));
        assert_eq!(record.state(1_000), "good");
        assert_eq!(record.state(1_060), "expired");
        record.used = Some(Use { key: "key".into(), node: 3, at: 1_001 });
        assert!(why(&record, &secret, "data", Some("other"), 1_002).contains("good once"));
        assert!(why(&record, &secret, "data", None, 1_002).contains("good once"));
        // The answer was lost: the same node asks again.
        assert_eq!(check(&record, &secret, "data", Some("key"), 1_002), Ok(()));
        assert_eq!(record.state(1_002), "used");
        record.revoked = true;
        assert!(why(&record, &secret, "data", Some("key"), 1_002).contains("revoked"));
        assert_eq!(record.state(1_002), "revoked");
    }
}
