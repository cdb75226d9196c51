//! What a process that serves SQL clients needs of the machine before it starts: a directory,
//! addresses, a certificate.
//!
//! # Guarantees
//! What is refused is refused before anything runs, by a line that names it and the way out.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::NodeId;
use runtime::{Listeners, ServerTls, TemporaryDirectory, TlsMaker, TlsSettings};
use sql::{Admission, AuditLog, OwnPassword, ServerAddress, ServerFiles};

use crate::audit::{AuditFile, AuditOptions};
use crate::root_password::{Announcement, Log, RootPasswordFile};
use crate::server_files::ServerDirectory;
use crate::{admission, machine};

/// Where a process serves clients, as the command line says.
#[derive(Clone, Debug)]
pub(crate) struct PlaceOptions {
    /// For files that last no longer than the process; the user's own one unless given.
    pub(crate) directory: Option<PathBuf>,
    /// For temporary files of statements; a directory in that one unless given.
    pub(crate) temporary: Option<PathBuf>,
    pub(crate) bind: Vec<String>,
    pub(crate) port: u16,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) tls: TlsOptions,
    pub(crate) allow_insecure: bool,
    /// Accounts of the plugin `mysql_native_password` may log in.
    pub(crate) native_password: bool,
    pub(crate) root: RootPassword,
    /// The audit log, if there is one.
    pub(crate) audit: Option<AuditOptions>,
    /// The directory whose files statements may read and write.
    pub(crate) files: Option<PathBuf>,
    /// First values of global variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// Whether `root` gets a password that the cluster makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RootPassword {
    /// When nobody has changed accounts yet.
    #[default]
    AtFirst,
    /// Never: `root` has none until somebody gives it one.
    Never,
    /// Also when accounts have been changed: it was forgotten.
    Anew,
}

/// How connections of clients are encrypted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    /// Files, versions, ciphers.
    pub(crate) settings: TlsSettings,
    /// Where keys and certificates that are made are kept; the process's directory unless given.
    pub(crate) directory: Option<PathBuf>,
    /// Further names of the server, for a certificate that is made.
    pub(crate) names: Vec<String>,
}

impl TlsOptions {
    /// Whether anything is to be encrypted.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.settings.versions.is_empty()
    }
}

/// What has been taken.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) listeners: Listeners,
    pub(crate) tls: ServerTls,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    /// Where keys and certificates are kept.
    pub(crate) keys: PathBuf,
    /// What clients may call the server.
    pub(crate) names: Vec<String>,
    native_password: bool,
    root: RootPassword,
    audit: Option<AuditOptions>,
    files: Option<Arc<ServerDirectory>>,
    /// Other machines can reach it.
    is_open: bool,
}

impl Place {
    /// Takes all of it, or says what is missing. With `later` a certificate for clients is only
    /// made or read when [`ServerTls::reload`] is told to: nothing is encrypted until then.
    pub(crate) fn take(options: &PlaceOptions, later: bool) -> Result<Place, String> {
        let addresses = addresses(&options.bind)?;
        if !options.tls.is_wanted() && !options.allow_insecure {
            refuse_open_doors(&addresses)?;
        }
        let is_open = beyond_loopback(&addresses).is_some();
        let root = options.root;
        if is_open && root == RootPassword::Never && !options.allow_insecure {
            return Err(
                "--initialize-insecure leaves root without a password, and other machines \
                        can reach this node: listen on loopback only, or give --allow-insecure"
                    .into(),
            );
        }
        let directory = options.directory.clone().unwrap_or_else(default_directory);
        prepare_directory(&directory, options.directory.is_none())
            .map_err(|error| format!("cannot use directory {}: {error}", directory.display()))?;
        let keys = options.tls.directory.clone().unwrap_or_else(|| directory.clone());
        prepare_directory(&keys, false)
            .map_err(|error| format!("cannot use directory {}: {error}", keys.display()))?;
        let names = server_names(&options.tls.names, &addresses);
        let maker = TlsMaker { directory: keys.clone(), names: names.clone() };
        let mut settings = options.tls.settings.clone();
        if later {
            settings.versions.clear();
        }
        let tls = ServerTls::new(settings, Some(maker))
            .map_err(|why| format!("cannot encrypt connections of clients: {why}"))?;
        let mut listeners = Listeners::default();
        let port = listen(&mut listeners, &addresses, options.port)?;
        let socket = options.socket.clone();
        let socket = socket.unwrap_or_else(|| directory.join(format!("nines-{port}.sock")));
        listeners.bind_unix(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "socket {} is in use by another server; choose another one with --socket",
                socket.display()
            ),
            _ => format!("cannot listen on socket {}: {error}", socket.display()),
        })?;
        let socket = std::path::absolute(&socket).unwrap_or(socket);
        let native_password = options.native_password;
        let audit = options.audit.clone();
        let files = options.files.as_deref().map(ServerDirectory::open).transpose()?.map(Arc::new);
        Ok(Place {
            directory,
            listeners,
            tls,
            port,
            socket,
            keys,
            names,
            native_password,
            root,
            audit,
            files,
            is_open,
        })
    }

    /// The directory of temporary files: the one that is given, or one in the process's own.
    pub(crate) fn temporary(
        &self,
        given: Option<&Path>,
        encrypts: bool,
    ) -> Result<TemporaryDirectory, String> {
        let own = self.directory.join("tmp");
        TemporaryDirectory::open(given.unwrap_or(&own), encrypts)
    }

    /// What `@@port` and its like say.
    pub(crate) fn server_address(&self) -> ServerAddress {
        ServerAddress {
            port: self.port,
            socket: self.socket.display().to_string(),
            hostname: machine::host_name(),
            directory: self.directory.display().to_string(),
            encrypted: false,
            alone: false,
        }
    }

    /// How clients know the server, as a line tells it.
    pub(crate) fn how_to_verify(&self) -> String {
        let facts = self.tls.facts();
        match (&facts.authority, &facts.settings.certificate) {
            _ if !facts.is_offered => "connections of clients are not encrypted".to_owned(),
            (Some(authority), None) => {
                let file = authority.display();
                format!("TLS: clients verify this node's certificate by --ssl-ca={file}")
            }
            (_, Some(certificate)) => format!("TLS: certificate {}", certificate.display()),
            (None, None) => "TLS".to_owned(),
        }
    }

    /// What logins take from the process, which is the SQL node of this id and writes what it has
    /// to say by `log`; and how it is said that the process is ready.
    ///
    /// # Errors
    /// Why the audit log cannot be written.
    pub(crate) fn admission(
        &self,
        node: NodeId,
        log: Log,
    ) -> Result<(Admission, Announcement), String> {
        let audit = self.audit.as_ref().map(AuditFile::start).transpose()?;
        let audit = audit.map(|log| Arc::new(log) as Arc<dyn AuditLog>);
        let announcement = match self.root {
            RootPassword::Never => Announcement::at_once(),
            _ => Announcement::default(),
        };
        let own_password = (self.root != RootPassword::Never).then(|| OwnPassword {
            file: Arc::new(RootPasswordFile::new(&self.keys, node, log, announcement.clone())),
            renews: self.root == RootPassword::Anew,
            entropy: admission::entropy,
        });
        let encryption = admission::admission(&self.tls, &self.keys, self.native_password);
        let files = self.files.clone().map(|files| files as Arc<dyn ServerFiles>);
        Ok((Admission { own_password, audit, files, ..encryption }, announcement))
    }

    /// On loopback `root` has no password, unless that was asked for: only this machine's users can
    /// connect, and whoever runs a cluster in one process for development is one.
    pub(crate) fn open_on_loopback(&mut self) {
        if !self.is_open && self.root == RootPassword::AtFirst {
            self.root = RootPassword::Never;
        }
    }

    /// How clients connect, as a line tells it.
    pub(crate) fn how_to_connect(&self, bind: &[String]) -> String {
        let password = if self.root == RootPassword::Never { "" } else { " -p" };
        let host = match bind.first().map(String::as_str) {
            None | Some("*" | "0.0.0.0" | "::" | "localhost") => "127.0.0.1",
            Some(address) => address,
        };
        let (port, socket) = (self.port, self.socket.display());
        format!(
            "mysql -h{host} -P{port} -uroot{password}  or  mysql --socket={socket} -uroot{password}"
        )
    }
}

/// Listens on all addresses with one port; which.
fn listen(listeners: &mut Listeners, addresses: &[IpAddr], port: u16) -> Result<u16, String> {
    let mut chosen = port;
    for address in addresses {
        let address = SocketAddr::new(*address, chosen);
        let bound = listeners.bind_tcp(address);
        if let Err(error) = &bound
            && error.kind() == io::ErrorKind::AddrInUse
            && port == 0
            && chosen != 0
        {
            // Any port will do: somebody else has this one at the other address.
            continue;
        }
        let bound = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("port {port} of {} is in use; choose another with --port", address.ip())
            }
            _ => format!("cannot listen on {address}: {error}"),
        })?;
        chosen = bound.port();
    }
    Ok(chosen)
}

fn addresses(bind: &[String]) -> Result<Vec<IpAddr>, String> {
    let mut addresses = Vec::new();
    for text in bind {
        match text.as_str() {
            "*" => {
                addresses.push(Ipv4Addr::UNSPECIFIED.into());
                if has_ipv6() {
                    addresses.push(Ipv6Addr::UNSPECIFIED.into());
                }
            }
            "localhost" => {
                addresses.push(Ipv4Addr::LOCALHOST.into());
                if has_ipv6() {
                    addresses.push(Ipv6Addr::LOCALHOST.into());
                }
            }
            text => {
                addresses.push(text.parse().map_err(|_| {
                    format!("--bind takes IP addresses, localhost or *, not `{text}`")
                })?)
            }
        }
    }
    let mut once = Vec::new();
    for address in addresses {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    Ok(once)
}

/// Whether the machine has an IPv6 address, if only that of itself.
fn has_ipv6() -> bool {
    fs::read_to_string("/proc/net/if_inet6").is_ok_and(|addresses| !addresses.is_empty())
}

/// An address that other machines can reach.
fn beyond_loopback(addresses: &[IpAddr]) -> Option<&IpAddr> {
    addresses.iter().find(|address| !address.to_canonical().is_loopback())
}

/// Whoever can reach an open port of a database without encryption is inside.
fn refuse_open_doors(addresses: &[IpAddr]) -> Result<(), String> {
    match beyond_loopback(addresses) {
        None => Ok(()),
        Some(address) => Err(format!(
            "{address} can be reached from other machines, and --tls-version says that nothing is \
             encrypted: leave that out, or give --allow-insecure"
        )),
    }
}

/// What clients may call the server, for a certificate that is made: first the name of the host.
fn server_names(given: &[String], addresses: &[IpAddr]) -> Vec<String> {
    let mut names = given.to_vec();
    names.push(machine::host_name());
    names.push("localhost".to_owned());
    let own = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let all = own.iter().chain(addresses).filter(|address| !address.is_unspecified());
    names.extend(all.map(IpAddr::to_string));
    let mut once = Vec::new();
    for name in names {
        if !name.is_empty() && !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

/// The user's own directory for what lasts no longer than the process.
fn default_directory() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("nines-{user}"))
}

/// Makes the directory if it is not there, and makes sure that it can be written to. A default
/// directory lies where everybody may make one: it must be the user's own.
fn prepare_directory(directory: &Path, default: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let owner = fs::symlink_metadata(directory)?.uid();
    if default && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user; name one with --dir"));
    }
    let probe = directory.join(format!(".probe-{}", std::process::id()));
    fs::write(&probe, [])?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bind: &[&str]) -> Result<Vec<IpAddr>, String> {
        addresses(&bind.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn addresses_are_names_of_this_machine() {
        let both: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(parsed(&["localhost", "127.0.0.1", "::1"]), Ok(both));
        assert!(parsed(&["example.org"]).unwrap_err().contains("`example.org`"));
        assert!(parsed(&["*"]).unwrap().contains(&Ipv4Addr::UNSPECIFIED.into()));
    }

    #[test]
    fn a_server_has_each_name_once() {
        let addresses = parsed(&["127.0.0.1", "0.0.0.0", "192.0.2.1"]).unwrap();
        let names = server_names(&["db.example.org".to_owned()], &addresses);
        let own = machine::host_name();
        let expected = ["db.example.org", &own, "localhost", "127.0.0.1", "::1", "192.0.2.1"];
        let expected = expected.into_iter().filter(|name| !name.is_empty());
        assert!(names.iter().map(String::as_str).eq(expected), "{names:?}");
    }

    #[test]
    fn only_loopback_needs_no_encryption() {
        assert_eq!(refuse_open_doors(&parsed(&["127.0.0.2", "::1"]).unwrap()), Ok(()));
        for open in ["0.0.0.0", "::", "192.0.2.1"] {
            assert!(refuse_open_doors(&parsed(&[open]).unwrap()).is_err(), "{open}");
        }
    }
}
