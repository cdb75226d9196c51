//! Orders about tokens and certificates.
//!
//! # Owns
//! Their words, what each asks a management node, and the form of the answer.
//! # Guarantees
//! The key of an operator is made here, and is in its file alone.

use std::path::{Path, PathBuf};

use runtime::{NodeKey, NodeRole};
use stdx::calendar;

use super::Session;
use super::table::Table;
use crate::role::credentials::keep;
use crate::role::management::registry::{Certificates, IssuedRecord, TokenStatus};
use crate::role::request::{CertificateRequest, Certified, Request, Trust};
use crate::role::token::Token;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    CreateToken {
        role: NodeRole,
        node: Option<u16>,
        /// Seconds.
        valid: u64,
    },
    Tokens,
    RevokeToken(String),
    List,
    Revoke(String),
    CreateOperator {
        name: String,
        directory: PathBuf,
    },
    /// To a file, or to standard output.
    ExportAuthority(Option<PathBuf>),
    NewAuthority,
    RetireAuthority(String),
}

impl Order {
    /// Whether it changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self, Self::Tokens | Self::List)
    }
}

/// Reads what follows `token`.
pub(super) fn token(words: &[&str]) -> Result<Order, String> {
    match words {
        ["create", rest @ ..] => create(rest),
        ["list"] => Ok(Order::Tokens),
        ["revoke", id] => Ok(Order::RevokeToken(id.to_ascii_lowercase())),
        _ => Err(format!("`{}` is not understood; {TOKEN_USAGE}", words.join(" "))),
    }
}

/// Reads what follows `certificates`.
pub(super) fn certificates(words: &[&str]) -> Result<Order, String> {
    match words {
        ["list"] => Ok(Order::List),
        ["revoke", "operator", name] => Ok(Order::Revoke(format!("operator {name}"))),
        ["revoke", whose] => Ok(Order::Revoke((*whose).to_owned())),
        ["create-operator", name] => create_operator(name, name),
        ["create-operator", name, "--out", directory] => create_operator(name, directory),
        ["export-ca"] => Ok(Order::ExportAuthority(None)),
        ["export-ca", file] => Ok(Order::ExportAuthority(Some((*file).into()))),
        ["new-authority"] => Ok(Order::NewAuthority),
        ["retire-authority", id] => Ok(Order::RetireAuthority(id.to_ascii_lowercase())),
        _ => Err(format!("`{}` is not understood; {CERTIFICATES_USAGE}", words.join(" "))),
    }
}

fn create_operator(name: &str, directory: &str) -> Result<Order, String> {
    let plain = |letter: char| letter.is_alphanumeric() || "-_.@".contains(letter);
    if name.is_empty()
        || name.len() > 64
        || name.starts_with(['-', '.'])
        || !name.chars().all(plain)
    {
        return Err(format!("`{name}` is no name: letters, digits and -_.@ are, 64 at most"));
    }
    Ok(Order::CreateOperator { name: name.to_owned(), directory: directory.into() })
}

fn create(words: &[&str]) -> Result<Order, String> {
    let (mut role, mut node, mut valid) = (None, None, VALID_DEFAULT);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((*word, None), |(n, v)| (n, Some(v)));
        let mut value = || {
            let value = value.or_else(|| words.next().copied());
            value.ok_or_else(|| format!("{name} needs a value; {TOKEN_USAGE}"))
        };
        match name {
            "--role" => {
                let name = value()?;
                let known = NodeRole::parse(&name.to_ascii_lowercase());
                role = Some(known.ok_or_else(|| {
                    format!("`{name}` is no role: data, sql, management and ctl are")
                })?);
            }
            "--node" | "--node-id" => {
                let text = value()?;
                let number = text.parse().ok().filter(|number| (1..=255).contains(number));
                node = Some(number.ok_or_else(|| format!("`{text}` is no node id"))?);
            }
            "--valid" => valid = seconds(value()?)?,
            _ => return Err(format!("`{word}` is too much after `token create`")),
        }
    }
    let role = role.ok_or_else(|| format!("a token for whom? {TOKEN_USAGE}"))?;
    Ok(Order::CreateToken { role, node, valid })
}

/// A time: `30m`, `1h`, `2d`; without a unit, seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => 0,
    };
    let number: Option<u64> = digits.parse().ok();
    let time = number.and_then(|number| number.checked_mul(unit)).filter(|time| *time > 0);
    time.ok_or_else(|| format!("`{text}` is no time: 30m, 1h and 2d are"))
}

/// Does it.
pub(super) fn run(session: &mut Session<'_>, json: bool, order: Order) -> Result<(), String> {
    match order {
        Order::CreateToken { role, node, valid } => {
            let role = role.name().to_owned();
            let token: String =
                ask(session, CertificateRequest::CreateToken { role, node, valid })?;
            session.line(&token)
        }
        Order::Tokens => {
            let tokens: Vec<TokenStatus> = ask(session, CertificateRequest::Tokens)?;
            session.answer(json, &tokens, |tokens| tokens_text(tokens))
        }
        Order::RevokeToken(id) => {
            let id = Token::parse(&id).map_or(id, |token| token.id);
            let _: bool = ask(session, CertificateRequest::RevokeToken { id: id.clone() })?;
            session.line(&format!("token {id} is good no more"))
        }
        Order::List => {
            let told: Certificates = ask(session, CertificateRequest::List)?;
            session.answer(json, &told, certificates_text)
        }
        Order::Revoke(whose) => {
            let whose_it_is = whose.clone();
            let gone: Vec<IssuedRecord> = ask(session, CertificateRequest::Revoke { whose })?;
            match &gone[..] {
                [] => session.line(&format!("{whose_it_is} is good no more")),
                gone => gone.iter().try_for_each(|record| {
                    session.line(&format!("{record}: {} is good no more", record.serial))
                }),
            }
        }
        Order::CreateOperator { name, directory } => make_operator(session, name, &directory),
        Order::ExportAuthority(file) => {
            let trust: Trust = ask(session, CertificateRequest::Trust)?;
            match file {
                None => session.text(&trust.authorities),
                Some(file) => {
                    let written = std::fs::write(&file, &trust.authorities);
                    written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                    session.line(&format!("the authority's certificate is in {}", file.display()))
                }
            }
        }
        Order::NewAuthority => {
            let id: String = ask(session, CertificateRequest::NewAuthority)?;
            session.line(&format!(
                "authority {id} signs from now on; nodes that run get certificates of it within \
                 seconds. Give clients and operators its certificate (`certificates export-ca`), \
                 then retire the other one"
            ))
        }
        Order::RetireAuthority(id) => {
            let id: String = ask(session, CertificateRequest::RetireAuthority { id })?;
            session.line(&format!("authority {id} is trusted no more"))
        }
    }
}

/// Makes a key for an operator, and has a certificate signed for it.
fn make_operator(session: &mut Session<'_>, name: String, place: &Path) -> Result<(), String> {
    if place.join("node-key.pem").exists() {
        return Err(format!("there is a key in {} already", place.display()));
    }
    let key = NodeKey::generate()?.pem();
    let request = runtime::signing_request(&key)?;
    let operator = name.clone();
    let certified: Certified = ask(session, CertificateRequest::CreateOperator { name, request })?;
    let credentials = keep(place, &key, &certified)?;
    session.line(&format!(
        "operator {operator}: key and certificate are in {}, good until {}; use them by --tls-dir, \
         or put them into ~/.config/nines of who is to have them",
        place.display(),
        time(credentials.not_after())
    ))
}

fn ask<T: serde::de::DeserializeOwned>(
    session: &Session<'_>,
    request: CertificateRequest,
) -> Result<T, String> {
    session.ask(&Request::Certificates(request))
}

fn tokens_text(tokens: &[TokenStatus]) -> String {
    let mut table = Table::new(&["token", "role", "node", "state", "good until"], &[]);
    for token in tokens {
        let node = token.used_by.or(token.node).map_or("any".to_owned(), |node| node.to_string());
        let until = time(i64::try_from(token.expires).unwrap_or(i64::MAX));
        table.row([token.id.clone(), token.role.clone(), node, token.state.clone(), until]);
    }
    table.text(0)
}

fn certificates_text(told: &Certificates) -> String {
    let mut text = format!("authority {} signs\n", told.signs);
    for other in told.authorities.iter().filter(|other| **other != told.signs) {
        text += &format!("authority {other} is trusted too\n");
    }
    text += "\n";
    let mut table = Table::new(&["whose", "good until", "serial number", "authority"], &[]);
    for record in &told.certificates {
        let until = time(i64::try_from(record.expires).unwrap_or(i64::MAX));
        let authority = record.authority.get(..8).unwrap_or_default().to_owned();
        table.row([record.to_string(), until, record.serial.clone(), authority]);
    }
    text + &table.text(0)
}

/// A moment in UTC, to the minute.
pub(super) fn time(seconds: i64) -> String {
    let (year, month, day) = calendar::date_of(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3_600, second / 60 % 60)
}

const TOKEN_USAGE: &str = "`token create --role data|sql|management|ctl [--node N] [--valid 1h]`, \
                           `token list`, `token revoke ID`";
const CERTIFICATES_USAGE: &str = "`certificates list`, `revoke N|SERIAL|operator NAME`, \
                                  `create-operator NAME [--out DIR]`, `export-ca [FILE]`, \
                                  `new-authority`, `retire-authority ID`";
/// How long a token is good unless another time is given.
const VALID_DEFAULT: u64 = 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_asked_for_by_role() {
        let parse = |text: &str| token(&text.split_whitespace().collect::<Vec<_>>());
        let create = |role, node, valid| Ok(Order::CreateToken { role, node, valid });
        assert_eq!(parse("create --role data"), create(NodeRole::Data, None, 3_600));
        assert_eq!(
            parse("create --node=3 --valid 2d --role=SQL"),
            create(NodeRole::Sql, Some(3), 172_800)
        );
        assert_eq!(parse("list"), Ok(Order::Tokens));
        assert_eq!(parse("revoke AB12"), Ok(Order::RevokeToken("ab12".into())));
        for wrong in [
            "",
            "create",
            "create --role",
            "create --role api",
            "create --role data --node x",
            "create --role data --node 0",
            "create --role data --valid 0",
            "create --role data --valid 1y",
            "create --role data now",
            "revoke",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn certificates_are_listed_revoked_and_made() {
        let parse = |text: &str| certificates(&text.split_whitespace().collect::<Vec<_>>());
        let operator = |name: &str, directory: &str| {
            Ok(Order::CreateOperator { name: name.into(), directory: directory.into() })
        };
        assert_eq!(parse("create-operator Ann"), operator("Ann", "Ann"));
        assert_eq!(parse("create-operator Ann --out /tmp/x"), operator("Ann", "/tmp/x"));
        assert_eq!(parse("revoke 3"), Ok(Order::Revoke("3".into())));
        assert_eq!(parse("revoke operator Ann"), Ok(Order::Revoke("operator Ann".into())));
        assert_eq!(parse("export-ca Ca.pem"), Ok(Order::ExportAuthority(Some("Ca.pem".into()))));
        for wrong in ["", "revoke", "create-operator", "create-operator a/b", "export-ca a b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time(0), "1970-01-01 00:00");
        assert_eq!(time(1_795_675_500), "2026-11-26 06:45");
    }
}
