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

use runtime::{Listeners, TlsIdentity};
use sql::ServerAddress;

use crate::machine;

/// Where a process serves clients, as the command line says.
#[derive(Clone, Debug)]
pub(crate) struct PlaceOptions {
    /// For files that last no longer than the process; the user's own one unless given.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) bind: Vec<String>,
    pub(crate) port: u16,
    pub(crate) socket: Option<PathBuf>,
    /// Certificates and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) allow_insecure: bool,
}

/// What has been taken.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) listeners: Listeners,
    pub(crate) tls: Option<TlsIdentity>,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
}

impl Place {
    /// Takes all of it, or says what is missing.
    pub(crate) fn take(options: &PlaceOptions) -> Result<Place, String> {
        let tls = options.tls.as_ref().map(|(certificate, key)| {
            TlsIdentity::from_files(certificate, key).map_err(|error| {
                let files = format!("{} and {}", certificate.display(), key.display());
                format!("cannot use {files}: {error}")
            })
        });
        let tls = tls.transpose()?;
        let addresses = addresses(&options.bind)?;
        if tls.is_none() && !options.allow_insecure {
            refuse_open_doors(&addresses)?;
        }
        let directory = options.directory.clone().unwrap_or_else(default_directory);
        prepare_directory(&directory, options.directory.is_none())
            .map_err(|error| format!("cannot use directory {}: {error}", directory.display()))?;
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
        Ok(Place { directory, listeners, tls, port, socket })
    }

    /// What `@@port` and its like say.
    pub(crate) fn server_address(&self) -> ServerAddress {
        ServerAddress {
            port: self.port,
            socket: self.socket.display().to_string(),
            hostname: machine::host_name(),
            directory: self.directory.display().to_string(),
        }
    }

    /// How clients connect, as a line tells it.
    pub(crate) fn how_to_connect(&self, bind: &[String]) -> String {
        let host = match bind.first().map(String::as_str) {
            None | Some("*" | "0.0.0.0" | "::" | "localhost") => "127.0.0.1",
            Some(address) => address,
        };
        let (port, socket) = (self.port, self.socket.display());
        format!("mysql -h{host} -P{port} -uroot  or  mysql --socket={socket} -uroot")
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

/// Whoever can reach an open port of a database without encryption is inside.
fn refuse_open_doors(addresses: &[IpAddr]) -> Result<(), String> {
    match addresses.iter().find(|address| !address.to_canonical().is_loopback()) {
        None => Ok(()),
        Some(address) => Err(format!(
            "{address} can be reached from other machines: give --tls-cert and --tls-key, or \
             --allow-insecure"
        )),
    }
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
    fn only_loopback_needs_no_certificate() {
        assert_eq!(refuse_open_doors(&parsed(&["127.0.0.2", "::1"]).unwrap()), Ok(()));
        for open in ["0.0.0.0", "::", "192.0.2.1"] {
            assert!(refuse_open_doors(&parsed(&[open]).unwrap()).is_err(), "{open}");
        }
    }
}
