//! What programs ask a management or data node, as JSON over the port of its links.
//!
//! # Owns
//! The requests, and the ways to a node that answers: a local socket, TLS, TCP without TLS.
//! # Guarantees
//! An answer is `{"Ok": …}` or `{"Err": "why"}`. A request that is not known is refused by name. A
//! way that shows who is at the other end is not left for one that does not.
//! # Not here
//! Who may ask for what (`rights`).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use runtime::{Asker, Expected, NodeCredentials, NodeRole, Rotated};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::local;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A management node: the configuration, and the ids of a role that are free.
    Configuration {
        /// `data` or `sql`, or empty to have a look only.
        role: String,
    },
    /// A management node: what tells its configuration from others.
    Fingerprint,
    /// A management node: the changes of the configuration, oldest first.
    Revisions,
    /// A management node: another configuration, or what it would take.
    Configure(ConfigureOrder),
    /// A management node: whether the last upgrade has been ended.
    Upgrade,
    /// A management node: ends an upgrade, after which older programs cannot come back.
    Finalize,
    /// A node: the version of the configuration that it was started with; 0 for one that was never
    /// in the control log.
    Running,
    /// A management node: keeps an id for the asker, who is about to start as that node.
    Claim {
        /// The id.
        node: u16,
        /// What the asker is.
        role: String,
    },
    /// A management node: how the cluster is.
    Status,
    /// A management node: what has happened.
    Events {
        /// Only what has a larger number; none for the newest.
        after: Option<u64>,
        /// Most lines; the newest ones with `after` left out, else the oldest.
        most: usize,
    },
    /// A management node: which losses the cluster would survive now.
    Survivability,
    /// A management node: what goes on in the workers of the data nodes, or of all nodes.
    Look {
        /// At what.
        at: Subject,
    },
    /// A management node: the cluster is to restart from this epoch, without the durable epochs
    /// after it that its disks have lost.
    AcceptLoss {
        /// The epoch, as the refusal to restart names it.
        epoch: u64,
    },
    /// A management node: how far the move of tables has come, and what node groups there are.
    Moves,
    /// A management node: about node groups, and the move of tables.
    Grow(GroupOrder),
    /// A management node: the versions of the program by node.
    Versions,
    /// A node: the version of its program.
    Version,
    /// A management node: the end of a node in good order, or its restart; the node is asked in
    /// turn.
    End {
        /// Which.
        node: u16,
        /// It is to start again.
        restart: bool,
        /// Also when the cluster cannot do without it.
        #[serde(default)]
        force: bool,
    },
    /// A management node: the data keys of a node are to be new; the node is asked in turn.
    RotateKeys {
        /// Which.
        node: u16,
    },
    /// A node: reads its master key again, has it wrap its data keys, and makes a new one.
    RotateOwnKeys,
    /// A node: to leave in good order and end, or start again.
    Leave {
        /// It is to start again.
        restart: bool,
    },
    /// A management node with the authority's key: about certificates and tokens.
    Certificates(CertificateRequest),
}

/// How far an upgrade is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpgradeStatus {
    /// The protocol version that the cluster keeps to.
    pub(crate) finalized: u16,
    /// The newest that the management node that tells it knows.
    pub(crate) newest: u16,
}

/// An order about the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigureOrder {
    /// The text of a `config.ini`; the present configuration without one.
    pub(crate) text: Option<String>,
    /// Values by name, as `ndbd.DataMemory=2G`.
    pub(crate) assignments: Vec<String>,
    /// Also what takes more than restarts in turn.
    pub(crate) force: bool,
    /// Nothing is changed, it is only told what would be.
    pub(crate) look: bool,
    /// Who orders it, as the asker says.
    pub(crate) by: String,
}

/// What a change of the configuration does, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangePlan {
    /// The version after it, if it was done; that of before otherwise.
    pub(crate) version: u64,
    pub(crate) done: bool,
    pub(crate) changes: Vec<PlannedChange>,
    /// Nodes that run by it after a restart.
    pub(crate) restarts: Vec<u16>,
    /// Nodes that are new.
    pub(crate) added: Vec<u16>,
    pub(crate) warnings: Vec<String>,
    /// Why it may not be done.
    pub(crate) refused: Vec<String>,
}

/// A difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedChange {
    /// A parameter and whose it is, or a node.
    pub(crate) what: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) takes: String,
}

/// A node that runs by an older version of the configuration than it will after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingRestart {
    pub(crate) node: u16,
    /// The version that it was started with.
    pub(crate) version: u64,
}

/// An order about node groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupOrder {
    /// A group of data nodes that are in none.
    Create {
        /// Which.
        nodes: Vec<u16>,
    },
    /// New tables do not use it, and those that do are moved.
    Drain {
        /// Its number.
        group: u16,
    },
    /// It ends.
    Drop {
        /// Its number.
        group: u16,
    },
    /// A data node that is in no group becomes one more replica of one.
    CreateReplica {
        /// Which.
        node: u16,
        /// The group's number.
        group: u16,
    },
    /// A data node leaves its group, which goes on with the others.
    DropReplica {
        /// Which.
        node: u16,
    },
    /// All tables are moved to the groups that new ones use.
    Rebalance,
    /// No more tables are moved.
    Stop,
}

/// How far the move of tables has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MovesStatus {
    /// SQL nodes are to move tables.
    pub(crate) wanted: bool,
    /// Tables, those of the SQL layer included.
    pub(crate) tables: usize,
    /// Those of them that are still to be moved.
    pub(crate) left: usize,
    /// The first of those that are left.
    #[serde(default)]
    pub(crate) first_left: Vec<String>,
    /// The node groups, by number.
    pub(crate) groups: Vec<GroupMoves>,
    /// Nodes that leave their groups when these can do without them.
    #[serde(default)]
    pub(crate) departing: Vec<u16>,
}

/// A node group, for those who move tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupMoves {
    /// Its number.
    pub(crate) group: u16,
    /// Its nodes.
    pub(crate) nodes: Vec<u16>,
    /// New tables use it.
    pub(crate) open: bool,
    /// Tables with partitions in it, hidden ones included.
    pub(crate) tables: usize,
}

/// A request about certificates and tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CertificateRequest {
    /// The configuration, for a node that has a token and nothing else.
    Preview {
        /// The token's id and secret.
        token: (String, String),
        /// What the node is to be.
        role: String,
    },
    /// A first certificate, for a token.
    Join {
        /// The token's id and secret.
        token: (String, String),
        /// What the node is to be.
        role: String,
        /// Which node; 0 for an operator.
        node: u16,
        /// A request for a certificate (PKCS#10).
        request: String,
        /// Names of its host.
        names: Vec<String>,
    },
    /// A new certificate for whoever asks, in place of the one that it shows.
    Renew {
        /// A request for a certificate (PKCS#10).
        request: String,
        /// Names of its host.
        names: Vec<String>,
    },
    /// A certificate that an SQL node shows its clients.
    Server {
        /// A request for a certificate (PKCS#10).
        request: String,
        /// What clients call the server.
        names: Vec<String>,
    },
    /// What nodes trust now, and what they do not trust any more.
    Trust,
    /// Another management node: all that this one knows, the authority's key among it.
    Ledger,
    /// A new token.
    CreateToken {
        /// What whoever shows it may become.
        role: String,
        /// Which node; any that has no certificate otherwise.
        node: Option<u16>,
        /// For how many seconds it is good.
        valid: u64,
    },
    /// The tokens that there are.
    Tokens,
    /// A token is good no more.
    RevokeToken {
        /// Its id.
        id: String,
    },
    /// The certificates that are good.
    List,
    /// Certificates are good no more.
    Revoke {
        /// A serial number, `operator NAME`, or a node id: all certificates of that one.
        whose: String,
    },
    /// A certificate for an operator.
    CreateOperator {
        /// For whom.
        name: String,
        /// A request for a certificate (PKCS#10).
        request: String,
    },
    /// Another authority takes the place of the present one.
    NewAuthority,
    /// An authority is trusted no more.
    RetireAuthority {
        /// Its id, or the beginning of it.
        id: String,
    },
}

impl fmt::Debug for CertificateRequest {
    /// By name: secrets are in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preview { .. } => "Preview",
            Self::Join { .. } => "Join",
            Self::Renew { .. } => "Renew",
            Self::Server { .. } => "Server",
            Self::Trust => "Trust",
            Self::Ledger => "Ledger",
            Self::CreateToken { .. } => "CreateToken",
            Self::Tokens => "Tokens",
            Self::RevokeToken { .. } => "RevokeToken",
            Self::List => "List",
            Self::Revoke { .. } => "Revoke",
            Self::CreateOperator { .. } => "CreateOperator",
            Self::NewAuthority => "NewAuthority",
            Self::RetireAuthority { .. } => "RetireAuthority",
        })
    }
}

/// A certificate, and what its owner trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Certified {
    /// As PEM, with that of its authority behind it.
    pub(crate) certificate: String,
    #[serde(flatten)]
    pub(crate) trust: Trust,
    /// For management nodes: the authority's certificate and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authority: Option<(String, String)>,
}

/// What nodes trust, and what they do not trust any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trust {
    /// Certificates of the authorities as PEM, the one that signs first.
    pub(crate) authorities: String,
    /// Serial numbers of certificates that are good no more, one a line.
    pub(crate) revoked: String,
    /// The id of the authority that signs.
    pub(crate) signs: String,
    /// Everybody has had time to learn of the authority that signs: certificates of another one are
    /// to be renewed.
    pub(crate) renew: bool,
}

/// What [`Request::Look`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Subject {
    Memory,
    Transactions,
    Locks,
    /// Copies of rows to nodes that return.
    Copies,
    /// What the workers of all nodes have counted.
    Figures,
}

/// The answer to [`Request::Look`]: what the workers of the data nodes told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sight {
    pub(crate) workers: Vec<WorkerSight>,
    /// Nodes of which some worker did not answer in time.
    pub(crate) silent: Vec<u16>,
}

/// What a worker told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerSight {
    pub(crate) node: u16,
    pub(crate) worker: u8,
    /// As `wire::Inspection` describes them: texts and whole numbers.
    pub(crate) rows: Vec<Vec<serde_json::Value>>,
}

/// The answer to [`Request::RotateKeys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewKeys {
    /// The number of the data key that new files get.
    pub(crate) data_key: u32,
    /// The name of the master key that wraps the data keys.
    pub(crate) master_key: String,
}

impl NewKeys {
    pub(crate) fn of(rotated: Rotated) -> Self {
        Self { data_key: rotated.data_key, master_key: rotated.master_key }
    }
}

/// The version of the program that a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeVersion {
    pub(crate) node: u16,
    pub(crate) role: String,
    /// None where the node does not tell it.
    pub(crate) version: Option<String>,
}

/// The answer to [`Request::Configuration`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Configuration {
    /// As canonical text.
    pub(crate) text: String,
    /// Tells configurations apart.
    #[serde(default)]
    pub(crate) fingerprint: String,
    /// Its version in the control log; 0 of a file.
    #[serde(default)]
    pub(crate) version: u64,
    /// Where it comes from.
    #[serde(default)]
    pub(crate) source: String,
    /// Nodes that have to be restarted for it. Told to those who only have a look.
    #[serde(default)]
    pub(crate) pending: Vec<PendingRestart>,
    /// What the file of the management node that tells it says otherwise.
    #[serde(default)]
    pub(crate) differs: Option<String>,
    /// Ids of the role that nobody has.
    pub(crate) free: Vec<u16>,
}

/// Why there is no answer to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// Nobody answers there; why.
    Unreachable(String),
    /// It says no.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unreachable(why) | AskError::Refused(why) => f.write_str(why),
        }
    }
}

/// How a node is asked.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// On this host by a local socket, which tells both ends each other's user.
    pub(crate) local: bool,
    /// Over TLS.
    pub(crate) tls: Option<Tls>,
    /// Over TCP without TLS, if there is no other way.
    pub(crate) plain: bool,
    /// Who is to answer.
    pub(crate) expected: Expected,
}

/// What proves over TLS who answers, and who asks.
#[derive(Clone, Debug)]
pub(crate) enum Tls {
    /// The certificate of a node, or of an operator.
    Certificate(NodeCredentials),
    /// The id of the authority, from a token: nothing tells who asks.
    Authority(String),
}

impl Access {
    /// Asks a management node as whoever the certificate names; without one, as the user of this
    /// process.
    pub(crate) fn to_management(tls: Option<NodeCredentials>) -> Self {
        let open = tls.is_none();
        let tls = tls.map(Tls::Certificate);
        Self { local: open, tls, plain: open, expected: MANAGEMENT }
    }

    /// Asks a management node that is known by a token.
    pub(crate) fn of_token(authority: String) -> Self {
        let tls = Some(Tls::Authority(authority));
        Self { local: false, tls, plain: false, expected: MANAGEMENT }
    }

    /// A management node asks a data node or another management node.
    pub(crate) fn to_node(
        tls: Option<NodeCredentials>,
        insecure: bool,
        expected: Expected,
    ) -> Self {
        let plain = tls.is_none() || insecure;
        Self { local: true, tls: tls.map(Tls::Certificate), plain, expected }
    }

    /// Sends a request to an address and gets the answer, on the best way that leads there.
    fn exchange(&self, address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
        if self.local
            && let Some(answer) = local::exchange(address, request)
        {
            return answer;
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        let connect = || TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
        let Some(tls) = &self.tls else { return plainly(connect()?, request) };
        let mut stream = connect()?;
        stream.write_all(&runtime::secure_service())?;
        let secured = match tls {
            Tls::Certificate(tls) => runtime::connect_secured(tls, self.expected, stream, until),
            Tls::Authority(id) => runtime::connect_by_authority(id, stream, until),
        };
        match secured {
            Ok(stream) => converse(stream, request),
            // Whoever listens there has no certificate, and hangs up.
            Err(error) if self.plain && is_hung_up(&error) => plainly(connect()?, request),
            Err(error) => Err(error),
        }
    }
}

fn is_hung_up(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
    kinds.contains(&error.kind()) || error.kind() == io::ErrorKind::BrokenPipe
}

fn plainly(stream: TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    converse(stream, request)
}

/// Sends a request and reads what comes until the other end has nothing more to say.
pub(super) fn converse(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Asks the node at an address.
pub(crate) fn ask<T: DeserializeOwned>(
    host: &str,
    port: u16,
    request: &Request,
    access: &Access,
) -> Result<T, AskError> {
    let unreachable = |error: &dyn fmt::Display| {
        AskError::Unreachable(format!("nobody answers at {host}:{port}: {error}"))
    };
    let body = serde_json::to_vec(request).expect("requests are plain");
    let bytes = runtime::service_request(&body)
        .ok_or_else(|| AskError::Refused("the request is longer than any may be".into()))?;
    let found = (host, port).to_socket_addrs().map_err(|error| unreachable(&error))?;
    let mut last = None;
    for address in found {
        match access.exchange(address, &bytes) {
            Ok(answer) => {
                return read(&answer).unwrap_or_else(|why| {
                    Err(AskError::Unreachable(format!("{host}:{port} is not a node: {why}")))
                });
            }
            // Somebody is there, and is not who is wanted, or does not want who asks.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(AskError::Refused(format!("{host}:{port}: {error}")));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| unreachable(&"no address"), |error| unreachable(&error)))
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<Result<T, AskError>, serde_json::Error> {
    let answer: Result<T, String> = serde_json::from_slice(answer)?;
    Ok(answer.map_err(AskError::Refused))
}

/// Answers a request: `decide` says what, or why not.
pub(crate) fn answer(
    asker: &Asker,
    body: &[u8],
    out: &mut dyn Write,
    decide: impl FnOnce(&Asker, Request) -> Result<serde_json::Value, String>,
) {
    let answer = match serde_json::from_slice(body) {
        Ok(request) => decide(asker, request),
        Err(error) => Err(format!("the request is not known here: {error}")),
    };
    let text = serde_json::to_vec(&answer).expect("answers are plain");
    // The asker may have gone.
    let _ = out.write_all(&text);
}

/// A value as an answer.
pub(crate) fn value(of: &impl Serialize) -> Result<serde_json::Value, String> {
    serde_json::to_value(of).map_err(|error| error.to_string())
}

/// Any management node.
const MANAGEMENT: Expected = Expected { role: NodeRole::Management, node: None };
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer may take: others may have to be asked for it.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_yes_or_no() {
        let asked =
            serde_json::to_vec(&Request::End { node: 3, restart: true, force: false }).unwrap();
        let mut yes = Vec::new();
        answer(&Asker::Local, &asked, &mut yes, |asker, request| {
            assert_eq!(*asker, Asker::Local);
            assert_eq!(request, Request::End { node: 3, restart: true, force: false });
            value(&7)
        });
        assert_eq!(read::<u32>(&yes).unwrap(), Ok(7));
        let mut no = Vec::new();
        answer(&Asker::Plain, b"{\"Dance\":{}}", &mut no, |_, _| {
            panic!("there is no such request")
        });
        let refusal = read::<u32>(&no).unwrap().unwrap_err().to_string();
        assert!(refusal.contains("Dance"), "{refusal}");
        assert!(read::<u32>(b"HTTP/1.1 400").is_err());
    }
}
