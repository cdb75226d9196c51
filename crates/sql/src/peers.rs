//! What SQL nodes ask each other: connections, KILL, how a node stands.
//!
//! # Owns
//! The numbers of connections, which tell the SQL node and the worker that host one
//! ([`Numbering`]); questions to other SQL nodes, and the answers to theirs.
//! # Guarantees
//! A number is of one connection in the whole cluster. A peer that does not answer in time is left
//! out of lists. A KILL is carried out once, however often it arrives, and says whether it was.
//! # Not here
//! Rights: whoever asks has checked them (`administration`, `information`). The way of a question
//! (`wire::relay`, `client`).

use model::{Incarnation, NodeId, Value, WorkerId};
use sql_expression::SqlError;
use stdx::{Duration, Instant};
use wire::relay::{CONNECTIONS_MAX, TEXT_MAX};
use wire::{Leaving, PeerQuestion};

use crate::directory::{Asked, Directory, Process};
use crate::kernel::Failure;
use crate::session::Session;
use crate::session::options::ServerAddress;
use crate::variables::VERSION;

/// A connection of any SQL node, as lists show it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// CONNECTION_ID().
    pub(crate) id: u64,
    /// Account name.
    pub(crate) user: String,
    /// Where from.
    pub(crate) host: String,
    /// Default database.
    pub(crate) database: Option<String>,
    /// `Sleep`, `Query`, …
    pub(crate) command: String,
    /// How long it has been in this command.
    pub(crate) elapsed: Duration,
    /// What it is doing.
    pub(crate) state: String,
    /// The statement that it runs; of another SQL node's its beginning.
    pub(crate) statement: Option<String>,
}

/// How an SQL node stands.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// The node.
    pub(crate) node: NodeId,
    /// `@@hostname`.
    pub(crate) hostname: String,
    /// `@@port`.
    pub(crate) port: u64,
    /// `@@version`.
    pub(crate) version: String,
    /// Open connections, and those of them that run a statement.
    pub(crate) connections: (u64, u64),
    /// How long its process has served.
    pub(crate) uptime: Duration,
}

/// How a KILL ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// There is no such connection.
    Unknown,
    /// Its SQL node did not answer: it may have been carried out.
    Silent(NodeId),
    /// It is told.
    Told,
    /// It is another account's.
    Foreign,
}

/// What is known of a connection by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is open.
    Open,
    /// Its SQL node says that there is no such connection.
    Gone,
    /// Its SQL node does not answer.
    Silent,
}

/// How connections get their numbers: the low byte is the SQL node's, the rest tells the worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    node: u32,
    workers: u32,
}

impl Numbering {
    /// That of an SQL node with so many workers.
    pub(crate) fn new(node: NodeId, workers: u8) -> Self {
        Self { node: u32::from(node.0 & 0xff), workers: u32::from(workers.max(1)) }
    }

    /// The number of a worker's connection: the `count`-th one, from 1 on. Numbers come again after
    /// 16 million connections of the node.
    pub(crate) fn number(self, worker: WorkerId, count: u32) -> u32 {
        let rounds = (1 << 24) / self.workers - 1;
        let local = (count % rounds + 1) * self.workers + u32::from(worker.0);
        local << 8 | self.node
    }

    /// The worker that hosts a connection of this node.
    pub(crate) fn worker(self, number: u32) -> WorkerId {
        WorkerId(((number >> 8) % self.workers) as u8)
    }
}

/// The SQL node that a number is of.
fn node_of(number: u32) -> NodeId {
    NodeId((number & 0xff) as u16)
}

/// The connections of all SQL nodes, by number.
pub(crate) async fn connections(session: &Session) -> Result<Vec<Listed>, SqlError> {
    let now = session.kernel.now();
    let own = session.shared.directory.lock().processes();
    let mut all: Vec<Listed> = own.iter().map(|process| Listed::of(process, now)).collect();
    let told = session.kernel.beside().ask_peers(None, PeerQuestion::Connections).await?;
    for peer in told.answers {
        all.extend(peer.rows.into_iter().filter_map(Listed::read));
    }
    all.sort_by_key(|connection| connection.id);
    Ok(all)
}

/// How all SQL nodes stand, by node.
pub(crate) async fn standings(session: &Session) -> Result<Vec<Standing>, SqlError> {
    let own = standing(&session.shared.directory, &session.shared.address, session.kernel.now());
    let mut all: Vec<Standing> = Standing::read(node_of(session.id), own).into_iter().collect();
    let told = session.kernel.beside().ask_peers(None, PeerQuestion::Standing).await?;
    for peer in told.answers {
        let row = peer.rows.into_iter().next();
        all.extend(row.and_then(|row| Standing::read(peer.node, row)));
    }
    all.sort_by_key(|standing| standing.node);
    Ok(all)
}

/// Ends a connection of another SQL node, or the statement that it runs; only if it is of this
/// account, if one is given.
pub(crate) async fn kill(
    session: &Session,
    connection: u32,
    query_only: bool,
    account: Option<String>,
) -> Result<Killed, Failure> {
    let question = PeerQuestion::Kill { connection, query_only, account };
    let node = node_of(connection);
    let told = session.kernel.beside().ask_peers(Some(node), question).await?;
    let first = |rows: &Vec<Vec<Value>>| match rows.first().and_then(|row| row.first()) {
        Some(Value::UInt(1)) => Killed::Told,
        Some(Value::UInt(2)) => Killed::Foreign,
        _ => Killed::Unknown,
    };
    Ok(match told.answers.first() {
        Some(peer) => first(&peer.rows),
        None if told.incomplete => Killed::Silent(node),
        None => Killed::Unknown,
    })
}

/// Whether a connection of any SQL node is open.
pub(crate) async fn known(session: &Session, connection: u32) -> Result<Known, Failure> {
    if session.shared.directory.lock().owner(connection).is_some() {
        return Ok(Known::Open);
    }
    let node = node_of(connection);
    if node == node_of(session.id) {
        return Ok(Known::Gone);
    }
    let question = PeerQuestion::Connections;
    let told = session.kernel.beside().ask_peers(Some(node), question).await?;
    if told.answers.is_empty() {
        return Ok(Known::Silent);
    }
    let mut listed = told.answers.into_iter().flat_map(|peer| peer.rows).filter_map(Listed::read);
    let is_open = listed.any(|listed| listed.id == u64::from(connection));
    Ok(if is_open { Known::Open } else { Known::Gone })
}

/// The account of a connection of another SQL node. [`Killed`] says why it is not known.
pub(crate) async fn owner(
    session: &Session,
    connection: u32,
) -> Result<Result<String, Killed>, Failure> {
    let node = node_of(connection);
    let told = session.kernel.beside().ask_peers(Some(node), PeerQuestion::Connections).await?;
    let nobody = if told.answers.is_empty() && told.incomplete {
        Killed::Silent(node)
    } else {
        Killed::Unknown
    };
    let mut listed = told.answers.into_iter().flat_map(|peer| peer.rows).filter_map(Listed::read);
    let found = listed.find(|listed| listed.id == u64::from(connection));
    Ok(found.map(|listed| listed.user).ok_or(nobody))
}

/// What a question asks to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerOrder {
    /// KILL of a connection, or only of its statement.
    Kill(u32, bool),
    /// The process is to leave.
    Leave(Leaving),
}

/// Answers another node's question; what is to be done is given back.
pub(crate) fn answer(
    directory: &Directory,
    address: &ServerAddress,
    life: Incarnation,
    now: Instant,
    asked: Asked,
    question: PeerQuestion,
) -> (Vec<Vec<Value>>, Option<PeerOrder>) {
    match question {
        PeerQuestion::Connections => {
            let mut processes = directory.lock().processes();
            processes.truncate(CONNECTIONS_MAX);
            (processes.iter().map(|process| Listed::of(process, now).row()).collect(), None)
        }
        PeerQuestion::Standing => (vec![standing(directory, address, now)], None),
        PeerQuestion::Kill { connection, query_only, account } => {
            let mut registry = directory.lock();
            if let Some(said) = registry.answered_kills.said(asked) {
                return (vec![vec![Value::UInt(said)]], None);
            }
            let owner = registry.owner(connection);
            let (said, kill) = match owner {
                None => (0, None),
                Some(owner) if account.is_some_and(|account| account != owner) => (2, None),
                Some(_) => (1, Some(PeerOrder::Kill(connection, query_only))),
            };
            registry.answered_kills.note(asked, said);
            (vec![vec![Value::UInt(said)]], kill)
        }
        PeerQuestion::Leave { life: meant, leaving } => {
            let is_meant = meant == life;
            let order = is_meant.then_some(PeerOrder::Leave(leaving));
            (vec![vec![Value::UInt(is_meant.into())]], order)
        }
    }
}

/// As `PeerQuestion::Standing` says.
fn standing(directory: &Directory, address: &ServerAddress, now: Instant) -> Vec<Value> {
    let registry = directory.lock();
    let (open, running) = registry.connection_counts();
    vec![
        Value::text(&address.hostname),
        Value::UInt(address.port.into()),
        Value::text(VERSION),
        Value::UInt(open as u64),
        Value::UInt(running as u64),
        Value::UInt(now.since(registry.started).as_nanos() / 1_000),
    ]
}

impl Standing {
    fn read(node: NodeId, row: Vec<Value>) -> Option<Self> {
        let mut values = row.into_iter();
        Some(Self {
            node,
            hostname: read_text(values.next()?)?,
            port: read_number(values.next()?)?,
            version: read_text(values.next()?)?,
            connections: (read_number(values.next()?)?, read_number(values.next()?)?),
            uptime: Duration::from_micros(read_number(values.next()?)?),
        })
    }
}

impl Listed {
    fn of(process: &Process, now: Instant) -> Self {
        Self {
            id: process.id.into(),
            user: process.user.clone(),
            host: process.host.clone(),
            database: process.database.clone(),
            command: process.command.to_owned(),
            elapsed: now.since(process.since),
            state: process.state.to_owned(),
            statement: process.statement().cloned(),
        }
    }

    /// As `PeerQuestion::Connections` says.
    fn row(self) -> Vec<Value> {
        let optional = |text: Option<String>| text.map_or(Value::Null, |text| Value::text(&text));
        let beginning = |text: String| text[..text.floor_char_boundary(TEXT_MAX)].to_owned();
        vec![
            Value::UInt(self.id),
            Value::text(&self.user),
            Value::text(&self.host),
            optional(self.database),
            Value::text(&self.command),
            Value::UInt(self.elapsed.as_nanos() / 1_000),
            Value::text(&self.state),
            optional(self.statement.map(beginning)),
        ]
    }

    fn read(row: Vec<Value>) -> Option<Self> {
        let mut values = row.into_iter();
        Some(Self {
            id: read_number(values.next()?)?,
            user: read_text(values.next()?)?,
            host: read_text(values.next()?)?,
            database: read_text(values.next()?),
            command: read_text(values.next()?)?,
            elapsed: Duration::from_micros(read_number(values.next()?)?),
            state: read_text(values.next()?)?,
            statement: read_text(values.next()?),
        })
    }
}

fn read_text(value: Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    }
}

fn read_number(value: Value) -> Option<u64> {
    match value {
        Value::UInt(number) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::{ActorKind, Address, SessionId};

    use super::*;

    #[test]
    fn a_number_tells_node_and_worker_and_is_small_at_first() {
        let numbering = Numbering::new(NodeId(51), 2);
        let numbers: Vec<u32> =
            (0..4).map(|n| numbering.number(WorkerId((n % 2) as u8), n / 2)).collect();
        assert_eq!(numbers, [563, 819, 1_075, 1_331]);
        for (at, number) in numbers.into_iter().enumerate() {
            assert_eq!(numbering.worker(number), WorkerId((at % 2) as u8));
            assert_eq!(node_of(number), NodeId(51));
        }
        // As many workers as there can be, and as many connections: never zero, always its own.
        let numbering = Numbering::new(NodeId(255), 64);
        for count in [0, 1, (1 << 24) / 64 - 2, (1 << 24) / 64 - 1, u32::MAX] {
            let number = numbering.number(WorkerId(63), count);
            assert_eq!((numbering.worker(number), node_of(number)), (WorkerId(63), NodeId(255)));
            assert!(number > 0xff);
        }
    }

    /// The second data node's copy of a KILL used to be answered "no such connection", and that
    /// answer could arrive first.
    #[test]
    fn a_kill_that_comes_by_two_data_nodes_is_carried_out_once_and_answered_alike() {
        let directory = Directory::default();
        let (worker, actor) = (WorkerId(0), ActorKind::Client);
        let asker = Address { node: NodeId(50), worker, actor };
        let killed = |request| {
            let kill = PeerQuestion::Kill { connection: 563, query_only: false, account: None };
            let asked = (asker, SessionId::default(), request);
            let (address, life) = (ServerAddress::default(), Incarnation(7));
            answer(&directory, &address, life, Instant::default(), asked, kill)
        };
        let ledger = directory.enlist();
        let process = Process { id: 563, user: "a".to_owned(), ..Process::default() };
        ledger.lock().processes.insert(563, process);
        assert_eq!(killed(1), (vec![vec![Value::UInt(1)]], Some(PeerOrder::Kill(563, false))));
        ledger.lock().processes.remove(&563);
        assert_eq!(killed(1), (vec![vec![Value::UInt(1)]], None));
        for request in 2..200 {
            assert_eq!(killed(request), (vec![vec![Value::UInt(0)]], None), "another statement's");
        }
    }

    #[test]
    fn what_a_peer_tells_is_bounded_and_read_again() {
        let listed = Listed {
            id: 563,
            user: "a".to_owned(),
            host: "h:1".to_owned(),
            database: None,
            command: "Query".to_owned(),
            elapsed: Duration::from_millis(1_500),
            state: "executing".to_owned(),
            statement: Some("ü".repeat(TEXT_MAX)),
        };
        let read = Listed::read(listed.clone().row()).unwrap();
        assert_eq!((read.id, &read.user, &read.database), (563, &listed.user, &None));
        assert_eq!(read.elapsed, listed.elapsed);
        assert_eq!(read.statement.unwrap().len(), TEXT_MAX);
        assert!(Listed::read(vec![Value::UInt(1)]).is_none());
        assert!(Listed::read(vec![Value::Null; 8]).is_none());
    }

    /// Each data node passes an order on. One that comes late finds the next life of the node.
    #[test]
    fn an_order_to_leave_is_for_one_life() {
        let directory = Directory::default();
        let asker = Address { node: NodeId(49), worker: WorkerId(0), actor: ActorKind::Client };
        let asked = (asker, SessionId::default(), 1);
        let told = |life| {
            let leave = PeerQuestion::Leave { life, leaving: Leaving::StartAgain };
            let (address, now) = (ServerAddress::default(), Instant::default());
            answer(&directory, &address, Incarnation(7), now, asked, leave)
        };
        let order = PeerOrder::Leave(Leaving::StartAgain);
        assert_eq!(told(Incarnation(7)), (vec![vec![Value::UInt(1)]], Some(order)));
        assert_eq!(told(Incarnation(6)), (vec![vec![Value::UInt(0)]], None));
    }
}
