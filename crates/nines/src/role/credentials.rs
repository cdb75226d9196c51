//! The certificate of a node: how it gets its first one, and how it keeps it good.
//!
//! # Owns
//! Where the files are, joining by a token, and the thread that asks management nodes every few
//! seconds what is trusted, writes that down, and renews certificates in time.
//! # Guarantees
//! The key is made here and stays here. A token is used once, however often a node starts with it.
//! While management nodes do not answer, everything stays as it is.
//! # Not here
//! What makes a certificate good (`runtime`), what an authority signs (`management::registry`).

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use model::NodeId;
use runtime::{NodeCredentials, NodeFiles, NodeIdentity, NodeKey, NodeRole};
use serde::de::DeserializeOwned;

use super::client::Connect;
use super::request::{Access, AskError, CertificateRequest, Certified, Request, Trust};
use super::token::Token;
use crate::process::Happening;

/// How a process gets to its certificate, as the command line says.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinOptions {
    /// Where its files are.
    pub(crate) directory: Option<PathBuf>,
    /// What it becomes a node by.
    pub(crate) token: Option<Token>,
}

impl JoinOptions {
    /// The certificate of a data node, if it has one or gets one now. Nothing if the process is
    /// told to end before.
    pub(super) fn of_data(
        &self,
        node: Option<NodeId>,
        connect: &Connect,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Joined>, String> {
        let found = match (&self.directory, node) {
            (Some(directory), _) => Some(directory.clone()),
            (None, Some(node)) => Some(directory_of(node)),
            (None, None) => find(Path::new("."))?,
        };
        let place = |node: NodeId| self.directory.clone().unwrap_or_else(|| directory_of(node));
        self.join(NodeRole::Data, node, found.as_deref(), &place, connect, happenings)
    }

    /// The certificate of an SQL node, or of an operator; the same.
    pub(super) fn of_client(
        &self,
        role: NodeRole,
        node: Option<NodeId>,
        connect: &Connect,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Joined>, String> {
        let Some(directory) = &self.directory else {
            return match self.token {
                None => Ok(Some(Joined(None))),
                Some(_) => Err("a certificate needs a place where it stays: name one with \
                                --tls-dir (or --dir)"
                    .into()),
            };
        };
        self.join(role, node, Some(directory), &|_| directory.clone(), connect, happenings)
    }

    /// The certificate of an operator: that in the directory, or a new one by the token.
    pub(crate) fn of_operator(&self, connect: &Connect) -> Result<Option<NodeCredentials>, String> {
        // Nobody tells this process to end but by ending it.
        let (_send, happenings) = channel();
        let joined = self.of_client(NodeRole::Ctl, None, connect, &happenings)?;
        Ok(joined.and_then(|joined| joined.0))
    }

    fn join(
        &self,
        role: NodeRole,
        node: Option<NodeId>,
        found: Option<&Path>,
        place: &dyn Fn(NodeId) -> PathBuf,
        connect: &Connect,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Joined>, String> {
        let files = found.map(NodeFiles::in_directory).filter(NodeFiles::exist);
        let loaded = files.map(NodeCredentials::load).transpose();
        let loaded = match (loaded, &self.token) {
            (loaded, None) => loaded?,
            // Another token than the one that it has joined by is the newer word: the certificate
            // may have been revoked, or the cluster is another one.
            (Ok(Some(credentials)), Some(token)) => {
                let by = credentials.files().certificate.with_file_name(TOKEN_FILE);
                let is_same = fs::read_to_string(by).is_ok_and(|id| id.trim() == token.id);
                is_same.then_some(credentials)
            }
            (_, Some(_)) => None,
        };
        if let Some(credentials) = loaded {
            check(&credentials.identity(), role, node)?;
            if self.token.is_some() {
                crate::tell("has joined by this token already");
            }
            return Ok(Some(Joined(Some(credentials))));
        }
        let Some(token) = &self.token else { return Ok(Some(Joined(None))) };
        if token.role != role {
            return Err(format!(
                "the token is for the role {}, and this is a process of the role {}",
                token.role.name(),
                role.name()
            ));
        }
        let key = NodeKey::generate()?.pem();
        let Some((node, certified)) = connect.join(token, node, &key, happenings)? else {
            return Ok(None);
        };
        let directory = place(node);
        let credentials = keep(&directory, &key, &certified)?;
        write(&directory, TOKEN_FILE, &format!("{}\n", token.id))?;
        let files = directory.display();
        crate::tell(&format!("has joined as {}; its key is in {files}", credentials.identity()));
        Ok(Some(Joined(Some(credentials))))
    }
}

/// The certificate of a process; none if it has not joined.
pub(super) struct Joined(pub(super) Option<NodeCredentials>);

impl Joined {
    /// Which node it is by its certificate.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.0.as_ref().map(|credentials| credentials.identity().node)
    }
}

/// Writes down what an authority has signed, and reads it again.
pub(crate) fn keep(
    directory: &Path,
    key: &str,
    certified: &Certified,
) -> Result<NodeCredentials, String> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    write(directory, "node-ca.pem", &certified.trust.authorities)?;
    write(directory, "node-revoked.txt", &certified.trust.revoked)?;
    write(directory, "node-key.pem", key)?;
    write(directory, "node-cert.pem", &certified.certificate)?;
    NodeCredentials::load(NodeFiles::in_directory(directory))
}

/// Where a data node without `--tls-dir` has its files.
fn directory_of(node: NodeId) -> PathBuf {
    PathBuf::from(format!("./node-{}", node.0))
}

/// The directory of the data node that has joined from here, if there is one.
fn find(working: &Path) -> Result<Option<PathBuf>, String> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(working).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("node-") {
            continue;
        }
        let Ok(text) = fs::read_to_string(entry.path().join("node-cert.pem")) else { continue };
        let identity = NodeIdentity::of_pem(&text);
        if identity.is_some_and(|identity| identity.role == NodeRole::Data) {
            found.push(entry.path());
        }
    }
    match &found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => {
            Err("several data nodes have joined from this directory: choose one with --node-id"
                .into())
        }
    }
}

/// Whether a certificate is the one of the process; why not.
fn check(found: &NodeIdentity, role: NodeRole, node: Option<NodeId>) -> Result<(), String> {
    if found.role != role {
        let role = role.name();
        return Err(format!(
            "the certificate is that of {found}, and this is a process of the role {role}"
        ));
    }
    match node.filter(|node| *node != found.node) {
        Some(node) => Err(format!("the certificate is that of {found}, not of node {}", node.0)),
        None => Ok(()),
    }
}

/// What keeps certificates good besides that of the node.
pub(super) type Besides = Box<dyn FnMut(&Asking) + Send>;

/// How management nodes are asked by a node that has joined.
pub(super) struct Asking {
    connect: Connect,
    credentials: NodeCredentials,
}

impl Asking {
    pub(super) fn new(connect: Connect, credentials: NodeCredentials) -> Self {
        Self { connect, credentials }
    }

    /// The address of this host on the way to a management node, unless that is here.
    pub(super) fn own_address(&self) -> Option<String> {
        let address = self.connect.own_address()?;
        (!address.is_loopback()).then(|| address.to_string())
    }

    /// Asks about certificates.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        request: CertificateRequest,
    ) -> Result<T, AskError> {
        let access = Access::to_management(Some(self.credentials.clone()));
        self.connect.ask_all(&Request::Certificates(request), &access)
    }
}

/// Keeps the certificate of a node good as long as the process runs, on a thread of its own.
pub(super) fn keep_good(
    credentials: &NodeCredentials,
    connect: &Connect,
    log: impl Fn(&str) + Send + 'static,
    mut besides: Option<Besides>,
) -> Result<(), String> {
    let asking = Asking::new(connect.clone(), credentials.clone());
    let keep = move || {
        let mut told = String::new();
        loop {
            match look(&asking) {
                Ok(done) => {
                    done.iter().for_each(|line| log(line));
                    told.clear();
                }
                // It goes on with what it has, and says so once.
                Err(why) if why != told => {
                    log(&format!("certificates are as they were: {why}"));
                    told = why;
                }
                Err(_) => {}
            }
            if let Some(besides) = &mut besides {
                besides(&asking);
            }
            thread::sleep(POLL);
        }
    };
    let thread = thread::Builder::new().name("certificates".into()).spawn(keep);
    thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Renews an operator's certificate if it is time, as nothing of an operator runs that could do so
/// meanwhile; what was done.
pub(crate) fn renew_operator(
    credentials: &NodeCredentials,
    connect: &Connect,
) -> Result<Vec<String>, String> {
    if is_due(credentials.not_before(), credentials.not_after()) {
        look(&Asking::new(connect.clone(), credentials.clone()))
    } else {
        Ok(Vec::new())
    }
}

/// Asks what is trusted, and renews the certificate if it is time; what was done.
fn look(asking: &Asking) -> Result<Vec<String>, String> {
    let credentials = &asking.credentials;
    let trust: Trust = asking.ask(CertificateRequest::Trust).map_err(|why| why.to_string())?;
    let mut done = Vec::new();
    let files = credentials.files();
    for (path, text, what) in [
        (&files.authority, &trust.authorities, "trusts other authorities"),
        (&files.revoked, &trust.revoked, "knows of other revoked certificates"),
    ] {
        if fs::read_to_string(path).unwrap_or_default() != *text {
            replace(path, text)?;
            done.push(what.to_owned());
        }
    }
    if !done.is_empty() {
        credentials.reload()?;
    }
    let is_late = is_due(credentials.not_before(), credentials.not_after());
    let is_other = trust.renew && credentials.identity().authority != trust.signs;
    if is_late || is_other {
        let key = fs::read_to_string(&files.key)
            .map_err(|error| format!("cannot read {}: {error}", files.key.display()))?;
        let request = runtime::signing_request(&key)?;
        let names = asking.connect.own_names();
        let renew = CertificateRequest::Renew { request, names };
        let certified: Certified = asking.ask(renew).map_err(|why| why.to_string())?;
        replace(&files.certificate, &certified.certificate)?;
        credentials.reload()?;
        done.push(format!("has a new certificate, {}", credentials.serial()));
    }
    Ok(done)
}

/// Whether two thirds of a certificate's life are over.
pub(super) fn is_due(not_before: i64, not_after: i64) -> bool {
    // It is dated a day back, for clocks that differ.
    let from = not_before + 86_400;
    let now = i64::try_from(now()).unwrap_or(i64::MAX);
    now >= from + (not_after - from) / 3 * 2
}

/// Seconds since 1970 UTC.
pub(super) fn now() -> u64 {
    runtime::since_1970().as_secs()
}

/// Writes a file that is its owner's alone, whole or not at all.
pub(super) fn write(directory: &Path, name: &str, text: &str) -> Result<(), String> {
    runtime::replace(directory, name, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", directory.join(name).display()))
}

fn replace(path: &Path, text: &str) -> Result<(), String> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{} has no name", path.display()))?;
    write(directory, name, text)
}

/// Which token a node has joined by.
const TOKEN_FILE: &str = "node-token.txt";
/// How often management nodes are asked: for so long a certificate is believed that was revoked.
const POLL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() {
        let now = i64::try_from(now()).unwrap();
        let day = 86_400;
        // Good for 90 days from `ago` on.
        let due = |ago: i64| is_due(now - ago - day, now - ago + 90 * day);
        assert!(!due(0) && !due(59 * day) && due(60 * day) && due(89 * day) && due(100 * day));
        // A clock that was set back.
        assert!(!due(-1_000 * day));
    }

    #[test]
    fn a_certificate_is_of_one_role_and_node() {
        let identity =
            NodeIdentity { authority: "a".into(), role: NodeRole::Sql, node: NodeId(51) };
        assert_eq!(check(&identity, NodeRole::Sql, None), Ok(()));
        assert_eq!(check(&identity, NodeRole::Sql, Some(NodeId(51))), Ok(()));
        let why = check(&identity, NodeRole::Data, None).unwrap_err();
        assert!(why.contains("that of sql node 51"), "{why}");
        assert!(check(&identity, NodeRole::Sql, Some(NodeId(52))).is_err());
    }
}
