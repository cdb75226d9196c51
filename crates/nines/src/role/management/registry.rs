//! The cluster's authority, the certificates that it has signed, and the tokens to get some.
//!
//! # Owns
//! Files in a management node's directory: `cluster-ca.pem` and `cluster-ca-key.pem` (the authority
//! and its key), `certificates.json` (tokens without their secrets, certificates that were signed,
//! those that were revoked), and the node's own `node-*.pem`.
//! # Guarantees
//! What was decided is on the disk before anybody is told. A token gives certificates for one key.
//! A node that is known by a certificate which is good gets another one only by that certificate,
//! or by a token that names the node.
//! # Failure
//! Without the authority's key the cluster goes on, until certificates expire; a management node
//! that starts without it makes another authority, which nodes learn to trust by what they have.
//! # Not here
//! Who may ask (`rights`), what nodes do with certificates (`credentials`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::NodeId;
use runtime::{Authority, NodeCredentials, NodeFiles, NodeKey, NodeRole, SigningRequest};
use serde::{Deserialize, Serialize};

use super::super::credentials::{is_due, now, write};
use super::super::request::{Certified, Trust};
use super::super::token::{Token, TokenRecord, Use};

/// The authority and its books.
pub(super) struct Registry {
    directory: PathBuf,
    own: NodeId,
    /// How long certificates are good.
    lifetime: Duration,
    credentials: NodeCredentials,
    inner: Mutex<Inner>,
}

struct Inner {
    authority: Authority,
    ledger: Ledger,
}

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// Since when the present authority signs: seconds since 1970 UTC.
    since: u64,
    tokens: Vec<TokenRecord>,
    issued: Vec<IssuedRecord>,
    /// Serial numbers, and when they were revoked.
    revoked: BTreeMap<String, u64>,
    /// Authorities that are trusted no more.
    #[serde(default)]
    retired: BTreeSet<String>,
}

/// A certificate that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssuedRecord {
    pub(crate) serial: String,
    /// `server` for one that clients of an SQL node are shown.
    pub(crate) role: String,
    pub(crate) node: u16,
    /// Of an operator; of a server, what clients may call it.
    pub(crate) name: String,
    /// Seconds since 1970 UTC.
    pub(crate) issued: u64,
    pub(crate) expires: u64,
    pub(crate) authority: String,
}

/// What other management nodes are told.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Shared {
    since: u64,
    /// The certificate of the authority, and its key.
    authority: (String, String),
    issued: Vec<IssuedRecord>,
    revoked: BTreeMap<String, u64>,
    retired: BTreeSet<String>,
}

/// What operators are told of certificates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Certificates {
    /// The authority that signs.
    pub(crate) signs: String,
    /// All that are trusted.
    pub(crate) authorities: Vec<String>,
    pub(crate) certificates: Vec<IssuedRecord>,
}

/// What operators are told of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenStatus {
    pub(crate) id: String,
    pub(crate) role: String,
    pub(crate) node: Option<u16>,
    pub(crate) state: String,
    pub(crate) expires: u64,
    pub(crate) used_by: Option<u16>,
}

/// Who asks for a certificate, and for whom.
pub(super) struct Applicant<'a> {
    pub(super) role: &'a str,
    pub(super) node: u16,
    pub(super) request: &'a str,
    pub(super) names: &'a [String],
}

/// Whose certificate is signed.
struct Holder {
    role: NodeRole,
    /// 0 of an operator.
    node: NodeId,
    /// By which an operator's may be revoked; empty of a node.
    name: String,
}

impl Registry {
    /// Whether the files of an authority's books are in a directory.
    pub(super) fn has_books(directory: &Path) -> bool {
        directory.join(LEDGER_FILE).exists()
    }

    /// Opens the books of a management node, and makes the authority if there is none and the node
    /// is to make it. None where there is neither. Also says what was made.
    pub(super) fn open(
        directory: &Path,
        own: NodeId,
        makes: bool,
        lifetime: Duration,
        names: &[String],
    ) -> Result<Option<(Self, Vec<String>)>, String> {
        let mut made = Vec::new();
        let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
        let mut ledger = Ledger::read(directory)?;
        let authority = if key.exists() {
            Authority::load(&certificate, &key)?
        } else if makes {
            let mut builder = fs::DirBuilder::new();
            let made_directory = builder.recursive(true).mode(0o700).create(directory);
            made_directory
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
            let authority = Authority::make()?;
            write(directory, CERTIFICATE_FILE, authority.certificate_pem())?;
            write(directory, KEY_FILE, &authority.key_pem())?;
            add_authority(directory, authority.certificate_pem())?;
            ledger.since = now();
            made.push(format!("made the cluster's authority {}", authority.id()));
            authority
        } else {
            return Ok(None);
        };
        let files = NodeFiles::in_directory(directory);
        if !files.authority.exists() {
            add_authority(directory, authority.certificate_pem())?;
        }
        let credentials = match NodeCredentials::load(files.clone()) {
            Ok(credentials) if credentials.identity().node == own => credentials,
            found => {
                if let (Err(why), true) = (&found, files.exist()) {
                    made.push(format!("signs another certificate of its own: {why}"));
                }
                let record = sign_own(&authority, directory, own, names, lifetime)?;
                ledger.issued.push(record);
                NodeCredentials::load(files)?
            }
        };
        ledger.write(directory)?;
        let directory = directory.to_path_buf();
        let inner = Mutex::new(Inner { authority, ledger });
        Ok(Some((Self { directory, own, lifetime, credentials, inner }, made)))
    }

    /// The node's own certificate.
    pub(super) fn credentials(&self) -> &NodeCredentials {
        &self.credentials
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the books; what was changed is on the disk, or nothing has.
    fn change<T>(
        &self,
        change: impl FnOnce(&Authority, &mut Ledger) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut inner = self.inner();
        let mut ledger = inner.ledger.clone();
        let done = change(&inner.authority, &mut ledger)?;
        ledger.prune(now());
        ledger.write(&self.directory)?;
        inner.ledger = ledger;
        Ok(done)
    }

    /// Makes a token, as text.
    pub(super) fn create_token(
        &self,
        role: NodeRole,
        node: Option<u16>,
        valid: u64,
    ) -> Result<String, String> {
        if valid == 0 || valid > TOKEN_VALID_MAX {
            let days = TOKEN_VALID_MAX / 86_400;
            return Err(format!("a token is good for a second at least, for {days} days at most"));
        }
        self.change(|authority, ledger| {
            let good = ledger.tokens.iter().filter(|token| token.state(now()) == "good").count();
            if good >= TOKENS_MAX {
                return Err(format!("{TOKENS_MAX} tokens are good already: revoke some"));
            }
            let token = Token::new(role, authority.id())?;
            ledger.tokens.push(TokenRecord::new(&token, node, now(), valid));
            Ok(token.to_string())
        })
    }

    /// All tokens, the newest last.
    pub(super) fn tokens(&self) -> Vec<TokenStatus> {
        let status = |token: &TokenRecord| TokenStatus {
            id: token.id.clone(),
            role: token.role.clone(),
            node: token.node,
            state: token.state(now()).to_owned(),
            expires: token.expires,
            used_by: token.used.as_ref().map(|used| used.node),
        };
        self.inner().ledger.tokens.iter().map(status).collect()
    }

    pub(super) fn revoke_token(&self, id: &str) -> Result<(), String> {
        self.change(|_, ledger| {
            let token = ledger.tokens.iter_mut().find(|token| token.id == id);
            let token = token.ok_or_else(|| no_token(id))?;
            if let Some(used) = &token.used {
                return Err(format!(
                    "token {id} has been used, by node {}: `certificates revoke {}` takes its \
                     certificate back",
                    used.node, used.node
                ));
            }
            token.revoked = true;
            Ok(())
        })
    }

    /// Whether somebody with a token may become what it wants; the node that it is for, if it is
    /// for one, and the nodes that are taken otherwise.
    pub(super) fn preview(
        &self,
        id: &str,
        secret: &str,
        role: &str,
    ) -> Result<(Option<u16>, Vec<u16>), String> {
        let ledger = &self.inner().ledger;
        let token = ledger.tokens.iter().find(|token| token.id == id);
        let token = token.ok_or_else(|| no_token(id))?;
        token.check(secret, role, None, now())?;
        let taken = ledger.good(now()).filter(|record| record.role == role);
        Ok((token.node, taken.map(|record| record.node).collect()))
    }

    /// Signs the first certificate of somebody who has a token.
    pub(super) fn join(
        &self,
        id: &str,
        secret: &str,
        who: &Applicant<'_>,
    ) -> Result<Certified, String> {
        let request = SigningRequest::parse(who.request)?;
        let key = request.fingerprint();
        let role = NodeRole::parse(who.role).ok_or_else(|| no_role(who.role))?;
        let certificate = self.change(|authority, ledger| {
            let at = ledger.tokens.iter().position(|token| token.id == id);
            let at = at.ok_or_else(|| no_token(id))?;
            let token = &ledger.tokens[at];
            token.check(secret, who.role, Some(&key), now())?;
            let node = token.used.as_ref().map(|used| used.node).or(token.node);
            if let Some(node) = node.filter(|node| *node != who.node) {
                return Err(format!("token {id} is for node {node}, not {}", who.node));
            }
            let known =
                |record: &IssuedRecord| (record.role.as_str(), record.node) == (who.role, who.node);
            if node.is_none() && role != NodeRole::Ctl && ledger.good(now()).any(known) {
                return Err(format!(
                    "{} node {} has a certificate already: `nines ctl token create --role {} \
                     --node {}` makes a token that gives it another one",
                    who.role, who.node, who.role, who.node
                ));
            }
            ledger.tokens[at].used = Some(Use { key, node: who.node, at: now() });
            let name = if role == NodeRole::Ctl { format!("token {id}") } else { String::new() };
            let holder = Holder { role, node: NodeId(who.node), name };
            self.sign(authority, ledger, holder, who.names, &request)
        })?;
        let authority = (role == NodeRole::Management).then(|| {
            let authority = &self.inner().authority;
            (authority.certificate_pem().to_owned(), authority.key_pem())
        });
        Ok(Certified { certificate, trust: self.trust(), authority })
    }

    /// Signs another certificate for a node or an operator that has shown one, with this serial
    /// number. That of an operator has the same name, by which it may be revoked.
    pub(super) fn renew(
        &self,
        role: NodeRole,
        node: u16,
        serial: &str,
        request: &str,
        names: &[String],
    ) -> Result<Certified, String> {
        let request = SigningRequest::parse(request)?;
        let certificate = self.change(|authority, ledger| {
            let shown = ledger.issued.iter().find(|record| record.serial == serial);
            let name = match (role, shown) {
                (NodeRole::Ctl, None) => {
                    return Err(
                        "nothing is known here of that certificate: have an operator make \
                                another one (`nines ctl certificates create-operator`)"
                            .into(),
                    );
                }
                (_, shown) => shown.map(|record| record.name.clone()).unwrap_or_default(),
            };
            let names = if role == NodeRole::Ctl { &[] } else { names };
            let holder = Holder { role, node: NodeId(node), name };
            self.sign(authority, ledger, holder, names, &request)
        })?;
        Ok(Certified { certificate, trust: self.trust(), authority: None })
    }

    /// Signs a certificate for an operator.
    pub(super) fn create_operator(&self, name: &str, request: &str) -> Result<Certified, String> {
        let request = SigningRequest::parse(request)?;
        let certificate = self.change(|authority, ledger| {
            let holder = Holder { role: NodeRole::Ctl, node: NodeId(0), name: name.to_owned() };
            self.sign(authority, ledger, holder, &[], &request)
        })?;
        Ok(Certified { certificate, trust: self.trust(), authority: None })
    }

    /// Signs a certificate that an SQL node shows its clients.
    pub(super) fn server(
        &self,
        node: u16,
        request: &str,
        names: &[String],
    ) -> Result<Certified, String> {
        let request = SigningRequest::parse(request)?;
        let certificate = self.change(|authority, ledger| {
            let signed = authority.sign_server(names, request.public_key(), self.lifetime)?;
            ledger.issued.push(IssuedRecord {
                serial: signed.serial,
                role: SERVER.to_owned(),
                node,
                name: names.join(" "),
                issued: now(),
                expires: u64::try_from(signed.not_after).unwrap_or(0),
                authority: authority.id(),
            });
            Ok(format!("{}{}", signed.certificate_pem, authority.certificate_pem()))
        })?;
        Ok(Certified { certificate, trust: self.trust(), authority: None })
    }

    /// Signs, and writes it down: the certificate as PEM, that of its authority behind it.
    fn sign(
        &self,
        authority: &Authority,
        ledger: &mut Ledger,
        holder: Holder,
        names: &[String],
        request: &SigningRequest,
    ) -> Result<String, String> {
        let key = request.public_key();
        let (certificate, record) = sign(authority, holder, names, key, self.lifetime)?;
        ledger.issued.push(record);
        Ok(certificate)
    }

    /// What nodes trust.
    pub(super) fn trust(&self) -> Trust {
        let inner = self.inner();
        Trust {
            authorities: read(&self.directory, AUTHORITIES_FILE),
            revoked: inner.ledger.revoked_text(),
            signs: inner.authority.id(),
            renew: inner.ledger.since.saturating_add(GRACE.as_secs()) <= now(),
        }
    }

    /// The certificates that are good.
    pub(super) fn list(&self) -> Certificates {
        let inner = self.inner();
        Certificates {
            signs: inner.authority.id(),
            authorities: Authority::ids(&read(&self.directory, AUTHORITIES_FILE)),
            certificates: inner.ledger.good(now()).cloned().collect(),
        }
    }

    /// Revokes certificates, by serial number, node or operator; which.
    pub(super) fn revoke(&self, whose: &str) -> Result<Vec<IssuedRecord>, String> {
        let serial = whose.to_ascii_lowercase();
        let node: Option<u16> = whose.parse().ok().filter(|_| serial.len() < SERIAL_DIGITS);
        let operator = whose.strip_prefix("operator ");
        let own = self.credentials.serial();
        let gone = self.change(|_, ledger| {
            let is_meant = |record: &&IssuedRecord| match (node, operator) {
                (Some(node), _) => record.node == node,
                (_, Some(name)) => record.role == NodeRole::Ctl.name() && record.name == name,
                _ => record.serial == serial,
            };
            let gone: Vec<IssuedRecord> = ledger.good(now()).filter(is_meant).cloned().collect();
            if gone.iter().any(|record| record.serial == own) {
                return Err(format!(
                    "that is the certificate of management node {} itself, which answers: ask \
                     another management node, or make a new authority",
                    self.own.0
                ));
            }
            // One that is not in the books any more can be named by its number.
            let is_number = serial.len() == SERIAL_DIGITS
                && serial.bytes().all(|digit| digit.is_ascii_hexdigit());
            if gone.is_empty() && !is_number {
                return Err(format!(
                    "there is no good certificate of `{whose}`; `certificates list` has them all"
                ));
            }
            let numbers = gone.iter().map(|record| record.serial.clone());
            let numbers = numbers.chain(is_number.then_some(serial));
            ledger.revoked.extend(numbers.map(|number| (number, now())));
            Ok(gone)
        })?;
        self.write_revoked()?;
        Ok(gone)
    }

    fn write_revoked(&self) -> Result<(), String> {
        let text = self.inner().ledger.revoked_text();
        write(&self.directory, REVOKED_FILE, &text)?;
        self.credentials.reload().map(drop)
    }

    /// Another authority signs from now on. The present one is trusted until it is retired.
    pub(super) fn new_authority(&self) -> Result<String, String> {
        let made = Authority::make()?;
        let id = made.id();
        let mut inner = self.inner();
        self.take_over(&mut inner, made, now())?;
        drop(inner);
        self.credentials.reload()?;
        Ok(id)
    }

    fn take_over(&self, inner: &mut Inner, made: Authority, since: u64) -> Result<(), String> {
        // Who trusts it comes first: a node may ask between these steps.
        add_authority(&self.directory, made.certificate_pem())?;
        write(&self.directory, CERTIFICATE_FILE, made.certificate_pem())?;
        write(&self.directory, KEY_FILE, &made.key_pem())?;
        inner.ledger.since = since;
        inner.ledger.write(&self.directory)?;
        inner.authority = made;
        Ok(())
    }

    /// An authority is trusted no more; which.
    pub(super) fn retire_authority(&self, id: &str) -> Result<String, String> {
        let inner = self.inner();
        let text = read(&self.directory, AUTHORITIES_FILE);
        let meant: Vec<String> =
            Authority::ids(&text).into_iter().filter(|known| known.starts_with(id)).collect();
        let [meant] = &meant[..] else {
            return Err(format!(
                "`{id}` is not the beginning of the id of one authority; `certificates list` has \
                 them all"
            ));
        };
        if *meant == inner.authority.id() {
            return Err(format!("authority {meant} signs: make a new one first"));
        }
        let needed = inner.ledger.needed(meant, now());
        if !needed.is_empty() {
            return Err(format!(
                "certificates of authority {meant} are in use: {}; nodes that run get others \
                 within seconds, and what is not needed any more can be revoked",
                needed.join(", ")
            ));
        }
        drop(inner);
        self.retire([meant.clone()].into())?;
        Ok(meant.clone())
    }

    fn retire(&self, ids: BTreeSet<String>) -> Result<(), String> {
        self.change(|_, ledger| {
            ledger.retired.extend(ids);
            let text = read(&self.directory, AUTHORITIES_FILE);
            let left = ledger.retired.iter();
            let left = left.fold(text, |text: String, id| Authority::without(&text, id));
            write(&self.directory, AUTHORITIES_FILE, &left)
        })?;
        self.credentials.reload().map(drop)
    }

    /// What another management node is told.
    pub(super) fn shared(&self) -> Shared {
        let inner = self.inner();
        let authority = &inner.authority;
        Shared {
            since: inner.ledger.since,
            authority: (authority.certificate_pem().to_owned(), authority.key_pem()),
            issued: inner.ledger.issued.clone(),
            revoked: inner.ledger.revoked.clone(),
            retired: inner.ledger.retired.clone(),
        }
    }

    /// Takes over what another management node has told.
    pub(super) fn merge(&self, other: Shared) -> Result<(), String> {
        let mut inner = self.inner();
        if other.since > inner.ledger.since
            && other.authority.0 != inner.authority.certificate_pem()
        {
            let authority = Authority::from_pem(&other.authority.0, &other.authority.1)?;
            self.take_over(&mut inner, authority, other.since)?;
        }
        let Ledger { issued, revoked, .. } = &inner.ledger;
        let new = |record: &IssuedRecord| !issued.iter().any(|known| known.serial == record.serial);
        let new: Vec<IssuedRecord> = other.issued.into_iter().filter(new).collect();
        let is_same = other.revoked.keys().all(|serial| revoked.contains_key(serial));
        let retired = other.retired.difference(&inner.ledger.retired).cloned();
        // The one that signs is not among them, unless the other node is behind.
        let retired = retired.filter(|id| *id != inner.authority.id());
        let retired: BTreeSet<String> = retired.collect();
        drop(inner);
        // It is asked again when this node has a certificate of another one itself.
        if !retired.is_empty() && !retired.contains(&self.credentials.identity().authority) {
            self.retire(retired)?;
        }
        if new.is_empty() && is_same {
            return Ok(());
        }
        self.change(|_, ledger| {
            ledger.issued.extend(new);
            ledger.revoked.extend(other.revoked);
            Ok(())
        })?;
        self.write_revoked()
    }

    /// Renews the node's own certificate when the time has come; whether it has.
    pub(super) fn renew_own(&self, names: &[String]) -> Result<bool, String> {
        let is_late = is_due(self.credentials.not_before(), self.credentials.not_after());
        let (signs, renew) = {
            let trust = self.trust();
            (trust.signs, trust.renew)
        };
        let is_other = renew && self.credentials.identity().authority != signs;
        if !is_late && !is_other {
            return Ok(false);
        }
        self.change(|authority, ledger| {
            let record = sign_own(authority, &self.directory, self.own, names, self.lifetime)?;
            ledger.issued.push(record);
            Ok(())
        })?;
        self.credentials.reload()?;
        Ok(true)
    }
}

impl std::fmt::Display for IssuedRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.role.as_str(), self.node) {
            ("ctl", _) => write!(f, "operator {}", self.name),
            (SERVER, node) => write!(f, "server of SQL node {node}"),
            (role, node) => write!(f, "{role} node {node}"),
        }
    }
}

impl Ledger {
    fn read(directory: &Path) -> Result<Self, String> {
        let path = directory.join(LEDGER_FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                format!(
                    "{} is damaged ({error}): bring it back from a copy; without it tokens are \
                     forgotten, and nodes trust what was revoked as soon as they forget it",
                    path.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    fn write(&self, directory: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        write(directory, LEDGER_FILE, &text)
    }

    /// The certificates that are neither expired nor revoked.
    fn good(&self, now: u64) -> impl Iterator<Item = &IssuedRecord> {
        let issued = self.issued.iter();
        issued.filter(move |record| {
            record.expires > now && !self.revoked.contains_key(&record.serial)
        })
    }

    /// Who has nothing newer than a certificate of this authority.
    fn needed(&self, authority: &str, now: u64) -> Vec<String> {
        let mut newest: BTreeMap<(&str, u16, &str), &IssuedRecord> = BTreeMap::new();
        // SQL nodes get others to show their clients as soon as they do not trust it any more.
        for record in self.good(now).filter(|record| record.role != SERVER) {
            newest.insert((&record.role, record.node, &record.name), record);
        }
        let needed = newest.values().filter(|record| record.authority == authority);
        needed.map(|record| record.to_string()).collect()
    }

    /// Forgets what is of no use any more.
    fn prune(&mut self, now: u64) {
        self.tokens.retain(|token| token.expires.saturating_add(KEPT) > now);
        self.issued.retain(|record| record.expires.saturating_add(KEPT) > now);
        // What is not in the books may be good for as long as any certificate is.
        let known: BTreeMap<&str, u64> =
            self.issued.iter().map(|record| (record.serial.as_str(), record.expires)).collect();
        self.revoked.retain(|serial, at| {
            known.contains_key(serial.as_str()) || at.saturating_add(REVOKED_KEPT) > now
        });
    }

    fn revoked_text(&self) -> String {
        self.revoked.keys().map(|serial| format!("{serial}\n")).collect()
    }
}

/// Signs the certificate of the management node itself, with the key that it has or a new one.
fn sign_own(
    authority: &Authority,
    directory: &Path,
    own: NodeId,
    names: &[String],
    lifetime: Duration,
) -> Result<IssuedRecord, String> {
    let files = NodeFiles::in_directory(directory);
    if !files.key.exists() {
        write(directory, "node-key.pem", &NodeKey::generate()?.pem())?;
    }
    let key = fs::read_to_string(&files.key);
    let key = key.map_err(|error| format!("cannot read {}: {error}", files.key.display()))?;
    let request = SigningRequest::parse(&runtime::signing_request(&key)?)?;
    let holder = Holder { role: NodeRole::Management, node: own, name: String::new() };
    let (certificate, record) = sign(authority, holder, names, request.public_key(), lifetime)?;
    write(directory, "node-cert.pem", &certificate)?;
    Ok(record)
}

/// Signs a certificate: as PEM, that of its authority behind it; and what is written down.
fn sign(
    authority: &Authority,
    holder: Holder,
    names: &[String],
    key: &[u8],
    lifetime: Duration,
) -> Result<(String, IssuedRecord), String> {
    let Holder { role, node, name } = holder;
    let signed = authority.sign_node(role, node, names, key, lifetime)?;
    let record = IssuedRecord {
        serial: signed.serial,
        role: role.name().to_owned(),
        node: node.0,
        name,
        issued: now(),
        expires: u64::try_from(signed.not_after).unwrap_or(0),
        authority: authority.id(),
    };
    Ok((format!("{}{}", signed.certificate_pem, authority.certificate_pem()), record))
}

/// Puts an authority before those that are trusted already.
fn add_authority(directory: &Path, pem: &str) -> Result<(), String> {
    let before = read(directory, AUTHORITIES_FILE);
    if before.contains(pem) {
        return Ok(());
    }
    write(directory, AUTHORITIES_FILE, &format!("{pem}{before}"))
}

/// The text of a file; none if there is none.
fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_default()
}

fn no_token(id: &str) -> String {
    format!("there is no token {id} here, or not any more")
}

pub(super) fn no_role(role: &str) -> String {
    format!("`{role}` is no role: data, sql, management and ctl are")
}

const CERTIFICATE_FILE: &str = "cluster-ca.pem";
const KEY_FILE: &str = "cluster-ca-key.pem";
const LEDGER_FILE: &str = "certificates.json";
const AUTHORITIES_FILE: &str = "node-ca.pem";
const REVOKED_FILE: &str = "node-revoked.txt";
/// What certificates for clients are called.
const SERVER: &str = "server";
/// How long nodes have to learn of a new authority before its certificates are shown to them.
const GRACE: Duration = Duration::from_secs(10);
/// Digits of a serial number.
const SERIAL_DIGITS: usize = 40;
/// Most tokens that are good at a time.
const TOKENS_MAX: usize = 1_000;
/// Longest time that a token may be good.
const TOKEN_VALID_MAX: u64 = 30 * 86_400;
/// How long what has expired is still told of.
const KEPT: u64 = 7 * 86_400;
/// How long a number that is not in the books is kept as revoked: certificates live shorter.
const REVOKED_KEPT: u64 = 3_650 * 86_400;

#[cfg(test)]
mod tests;
