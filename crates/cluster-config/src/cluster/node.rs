//! A node of the configuration, and what its process asks about itself.

use model::NodeId;

use super::{DATA_NODE_ID_MAX, Role, Settings};
use crate::host;
use crate::threads::{CpuSet, ThreadConfig};
use crate::value::Value;

/// A node as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id, given or assigned.
    pub id: NodeId,
    /// What it is there for.
    pub role: Role,
    pub(crate) settings: Settings,
    /// What the port of a data node is counted from, unless it is given: see [`data_port_base`].
    pub(crate) port_base: u16,
}

/// How the threads of a data node are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threads {
    /// By the CPUs that the process may use.
    Automatic {
        /// How many CPUs, where a number is given.
        cpus: Option<u16>,
    },
    /// So many threads, of roles that follow from the number.
    Number(u16),
    /// By role, as written.
    Manual(ThreadConfig),
}

/// The files of a node's certificate, with the node's id filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authority.
    pub authority: String,
    /// The node's own certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// What the ports of data nodes are counted from where they are not given, by the port of the
/// management node with the lowest id: ten times that, so that the clusters of one host, which
/// need different ports for their management nodes, have different ones for their data nodes too.
/// From a management port whose tenfold is no port, or one that the system gives to clients, the
/// data nodes follow that port directly.
pub(crate) fn data_port_base(management: u16) -> u16 {
    let last = DATA_NODE_ID_MAX;
    match management {
        0 => data_port_base(MANAGEMENT_PORT),
        1..TENFOLD_BELOW => management * 10,
        port if port > u16::MAX - last => port - last - 1,
        port => port,
    }
}

/// Tenfold ports end below those that Linux gives to clients, which begin at 32,768.
const TENFOLD_BELOW: u16 = (32_768 - DATA_NODE_ID_MAX) / 10;
/// Where management nodes listen unless they are told otherwise.
const MANAGEMENT_PORT: u16 = 1_186;

impl Node {
    /// What is set for the node, defaults of its role included.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The value of a parameter of the node, or the default. None where there is no such
    /// parameter, or where its default follows something else.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.settings.value(self.role.section(), name)
    }

    /// The host it runs on; none where a client node may be anywhere.
    pub fn host(&self) -> Option<&str> {
        match self.settings.text("HostName") {
            Some(host) => Some(host),
            None if self.role.is_client() => None,
            None => Some("localhost"),
        }
    }

    /// Whether other hosts can reach it, or could.
    pub fn is_on_loopback(&self) -> bool {
        self.host().is_some_and(host::is_loopback)
    }

    /// The port that other nodes find it at: `PortNumber` of a management node, `ServerPort` of a
    /// data node, which follows the management node's port and the node's id unless it is given.
    /// NDB takes a free port then; one that is known in advance is found also while no management
    /// node lives, and let through by firewalls.
    pub fn port(&self) -> Option<u16> {
        let name = match self.role {
            Role::Management => "PortNumber",
            Role::Data => "ServerPort",
            Role::Sql | Role::Api => return None,
        };
        match self.value(name) {
            Some(Value::Number(port)) if port > 0 => u16::try_from(port).ok(),
            _ => (self.role == Role::Data).then(|| self.port_base + self.id.0),
        }
    }

    /// The port of metrics and health checks.
    pub fn http_port(&self) -> Option<u16> {
        let port = self.settings.number("HttpPort").filter(|port| *port > 0)?;
        u16::try_from(port).ok()
    }

    /// The address of metrics and health checks.
    pub fn http_address(&self) -> &str {
        self.settings.text("HttpAddress").unwrap_or("localhost")
    }

    /// How many seconds the certificates are good that a management node signs.
    pub fn certificate_lifetime(&self) -> u64 {
        self.settings.number("CertificateLifetime").unwrap_or(7_776_000)
    }

    /// The directory of the node's files. That of a data node is its own: two data nodes may have
    /// the same `DataDir`. None where a client node has none.
    pub fn directory(&self) -> Option<String> {
        let given = self.settings.text("DataDir");
        match self.role {
            Role::Data => {
                let base = self.settings.text("FileSystemPath").or(given).unwrap_or(".");
                Some(format!("{}/node-{}", base.trim_end_matches('/'), self.id.0))
            }
            Role::Management => Some(given.unwrap_or(".").to_string()),
            Role::Sql | Role::Api => given.map(str::to_string),
        }
    }

    /// The memory for data that was configured; none where it follows the machine.
    pub fn data_memory(&self) -> Option<u64> {
        self.settings.number("DataMemory")
    }

    /// The memory for statements of an SQL node that was configured; none where it follows the
    /// machine.
    pub fn query_memory(&self) -> Option<u64> {
        self.settings.number("QueryMemory")
    }

    /// For how many milliseconds an SQL node that is told to end goes on as before.
    pub fn drain_notice(&self) -> u64 {
        self.number("DrainNotice")
    }

    /// For how many milliseconds it then lets clients finish what they have begun.
    pub fn drain_timeout(&self) -> u64 {
        self.number("DrainTimeout")
    }

    /// A number that was given or follows from nothing else.
    fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    /// The directory of temporary files of statements, where that was configured.
    pub fn temporary_directory(&self) -> Option<&str> {
        self.settings.text("TempDir").filter(|path| !path.is_empty())
    }

    /// Bytes of rows that a backup of an SQL node handles in a second, where that is limited.
    pub fn backup_rate(&self) -> Option<u64> {
        self.settings.number("BackupMaxRate").filter(|rate| *rate > 0)
    }

    /// Where an SQL node makes backups without a place of their own.
    pub fn backup_directory(&self) -> Option<&str> {
        self.settings.text("BackupDataDir")
    }

    /// What is said of the object store for backups of an SQL node.
    pub fn backup_store(&self, name: &str) -> Option<&str> {
        self.settings.text(name)
    }

    /// Whether it may listen on other addresses than loopback without certificates.
    pub fn allow_insecure(&self) -> bool {
        self.settings.flag("AllowInsecure").unwrap_or(false)
    }

    /// Whether it packs what it sends over TCP.
    pub fn compresses_links(&self) -> bool {
        self.settings.flag("LinkCompression").unwrap_or(false)
    }

    /// The files of its certificate; `%n` in a name is the node's id.
    pub fn tls(&self) -> Option<Tls> {
        let id = self.id.0.to_string();
        let file = |name: &str| self.settings.text(name).map(|path| path.replace("%n", &id));
        Some(Tls {
            authority: file("TlsAuthority")?,
            certificate: file("TlsCertificate")?,
            key: file("TlsKey")?,
        })
    }

    /// The file of the master key of its disk; `%n` in the name is the node's id.
    pub fn encryption_key_file(&self) -> Option<String> {
        let id = self.id.0.to_string();
        self.settings.text("EncryptedFileSystemKeyFile").map(|path| path.replace("%n", &id))
    }

    /// The command that prints the master key of its disk.
    pub fn encryption_key_command(&self) -> Option<&str> {
        self.settings.text("EncryptedFileSystemKeyCommand")
    }

    /// Whether what it writes is to be encrypted, where that is said of it.
    pub(crate) fn encrypts(&self) -> Option<bool> {
        self.settings.number("EncryptedFileSystem").map(|number| number == 1)
    }

    /// The place that the node is in; 0 for none.
    pub fn location(&self) -> u64 {
        self.settings.number("LocationDomainId").unwrap_or(0)
    }

    /// Bytes that may wait to be sent to all other nodes, where that is given.
    pub fn send_buffers(&self) -> Option<u64> {
        let total = self.settings.number("TotalSendBufferMemory").filter(|total| *total > 0)?;
        Some(total + self.settings.number("ExtraSendBufferMemory").unwrap_or(0))
    }

    /// The CPUs of the workers, and of the threads of the disk, where those are given without
    /// `ThreadConfig`.
    pub fn locked_cpus(&self) -> (Option<CpuSet>, Option<CpuSet>) {
        let set = |name: &str| self.settings.text(name).and_then(|text| CpuSet::parse(text).ok());
        let disk = self.settings.number("LockMaintThreadsToCPU").map(|cpu| cpu.to_string());
        (set("LockExecuteThreadToCPU"), disk.and_then(|cpu| CpuSet::parse(&cpu).ok()))
    }

    /// How its threads are laid out. `AutomaticThreadConfig=1` goes before `ThreadConfig`, and
    /// that before `MaxNoOfExecutionThreads`, as in NDB.
    pub fn threads(&self) -> Threads {
        let cpus = self.settings.number("NumCPUs").filter(|cpus| *cpus > 0);
        let automatic = Threads::Automatic { cpus: cpus.and_then(|cpus| u16::try_from(cpus).ok()) };
        if self.settings.flag("AutomaticThreadConfig") == Some(true) {
            return automatic;
        }
        // The value was read before; what cannot be read again would be a bug of `threads`.
        let manual = self.settings.text("ThreadConfig").map(ThreadConfig::parse);
        if let Some(Ok(manual)) = manual {
            return Threads::Manual(manual);
        }
        let number = self.settings.number("MaxNoOfExecutionThreads");
        match number.and_then(|number| u16::try_from(number).ok()) {
            Some(number) => Threads::Number(number.max(THREADS_MIN)),
            None => automatic,
        }
    }
}

/// As in NDB, fewer are rounded up.
const THREADS_MIN: u16 = 2;
