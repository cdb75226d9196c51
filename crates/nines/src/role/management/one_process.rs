//! How a cluster in one process answers operators: `nines ctl` and `nines top` beside `nines dev`.
//!
//! # Owns
//! [`OneProcess`], from which such requests are answered; a configuration that describes the nodes.
//! # Guarantees
//! Only the process's own user and root are answered, on this host. Orders that end or change a
//! node are refused with what to do instead: there is one process for all nodes.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster_config::ClusterConfig;
use model::{Incarnation, NodeId};
use runtime::{Answer, ApplicationFactory, Asker, Cluster};
use wire::News;

use super::cluster_log::{ClusterLog, Input, LogSetup};
use super::configured::InUse;
use super::{Board, follower, news};
use crate::role::request::{
    Configuration, NodeVersion, Request, Sight, Subject, WorkerSight, answer, value,
};
use crate::role::status::ClusterStatus;
use crate::role::survivability::Survivability;
use crate::role::{local, rights};

/// The nodes of a cluster in one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    /// Data nodes have the ids from 1 on.
    pub(crate) data: u16,
    pub(crate) replicas: u8,
    pub(crate) management: NodeId,
    pub(crate) sql: NodeId,
    /// Bytes for the rows of each data node.
    pub(crate) data_memory: u64,
    pub(crate) on_disk: bool,
}

/// What operators of a cluster in one process are answered from.
pub(crate) struct OneProcess {
    nodes: Nodes,
    config: ClusterConfig,
    board: Board,
    log: ClusterLog,
    /// The lives of the nodes that run.
    lives: Mutex<BTreeMap<NodeId, Incarnation>>,
}

impl OneProcess {
    /// Describes the nodes, and begins a cluster log that only those see who ask for it.
    pub(crate) fn new(nodes: Nodes) -> Result<Arc<Self>, String> {
        let config = described(nodes)?;
        let roles = config.nodes().iter().map(|node| (node.id, node.role.to_string())).collect();
        let log = ClusterLog::start(LogSetup {
            own: nodes.management,
            roles,
            silence: stdx::Duration::ZERO,
            file: None,
            prints: false,
        })?;
        let (board, lives) = (Board::default(), Mutex::default());
        Ok(Arc::new(Self { nodes, config, board, log, lives }))
    }

    /// Makes the actor of the management node that follows the cluster.
    pub(crate) fn operator(&self) -> ApplicationFactory {
        follower(
            &self.log,
            &InUse::new(self.config.clone(), 0),
            self.nodes.management,
            self.board.clone(),
        )
    }

    /// Takes note of what the management node tells.
    pub(crate) fn heed(&self, about: NodeId, told: &News) {
        self.log.tell(Input::News(vec![news::of_node(about, told)]));
    }

    /// Takes note of a node that has ended.
    pub(crate) fn forget(&self, node: NodeId) {
        self.lives().remove(&node);
    }

    /// Answers operators of this host from now on; `port` is where clients connect.
    pub(crate) fn serve(self: Arc<Self>, cluster: &Cluster, port: u16) -> Result<(), String> {
        let ids = self.config.nodes().iter().map(|node| node.id);
        *self.lives() = ids.map(|node| (node, cluster.incarnation(node))).collect();
        let service: Answer = Arc::new(move |asker: &Asker, body: &[u8], out: &mut dyn Write| {
            answer(asker, body, out, |asker, request| {
                rights::check(asker, &request, false)?;
                self.decide(&request)
            });
        });
        local::serve_operators(&[SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)], &service)
    }

    fn lives(&self) -> MutexGuard<'_, BTreeMap<NodeId, Incarnation>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, request: &Request) -> Result<serde_json::Value, String> {
        match *request {
            Request::Status => value(&self.status()),
            Request::Survivability => {
                let heard = self.lives().keys().copied().collect();
                value(&Survivability::of(&self.config, &self.board.state(), &heard))
            }
            Request::Events { after, most } => value(&self.log.page(after, most)),
            Request::Look { at: Subject::Figures } => value(&self.figures()?),
            Request::Look { at } => value(&self.board.look(at, Vec::new())?),
            Request::Configuration { ref role } if role.is_empty() => value(&Configuration {
                text: self.config.canonical(),
                fingerprint: self.config.fingerprint().to_string(),
                version: 0,
                source: "the options of `nines dev`".into(),
                pending: Vec::new(),
                differs: None,
                free: Vec::new(),
            }),
            Request::Fingerprint => value(&self.config.fingerprint().to_string()),
            Request::Upgrade => value(&super::upgrade::status(&self.board.state())),
            Request::Revisions => value(&Vec::<model::cluster::Revision>::new()),
            Request::Running => value(&0_u64),
            Request::Versions => value(&self.versions()),
            Request::Version => value(&env!("CARGO_PKG_VERSION")),
            Request::Configuration { .. } | Request::Claim { .. } => {
                Err(format!("no other process can be a node of this cluster: {ONE_PROCESS}"))
            }
            Request::Certificates(_) => {
                Err(format!("there are no certificates of nodes: {ONE_PROCESS}"))
            }
            Request::AcceptLoss { .. }
            | Request::Configure(_)
            | Request::Finalize
            | Request::Moves
            | Request::Grow(_)
            | Request::End { .. }
            | Request::Leave { .. }
            | Request::RotateKeys { .. }
            | Request::RotateOwnKeys => Err(format!(
                "that is not done from here: {ONE_PROCESS}; stop it by SIGTERM or Ctrl-C, and \
                 start it with other options"
            )),
        }
    }

    fn status(&self) -> ClusterStatus {
        let lives = self.lives().clone();
        let own = lives.get(&self.nodes.management).copied().unwrap_or_default();
        let own = (self.nodes.management, own);
        let mut status = ClusterStatus::of(&self.config, own, &self.board.state(), &lives);
        status.one_process = true;
        // Nobody reaches a node from outside.
        for node in &mut status.nodes {
            (node.host, node.port) = (Some("localhost".into()), None);
        }
        status
    }

    /// The figures of all nodes. What the management node counts is among those of the process.
    fn figures(&self) -> Result<Sight, String> {
        let mut sight = self.board.look(Subject::Figures, vec![self.nodes.sql])?;
        let (node, worker, rows) = (self.nodes.management.0, 0, Vec::new());
        sight.workers.push(WorkerSight { node, worker, rows });
        Ok(sight)
    }

    fn versions(&self) -> Vec<NodeVersion> {
        let of = |node: &cluster_config::Node| NodeVersion {
            node: node.id.0,
            role: node.role.to_string(),
            version: Some(env!("CARGO_PKG_VERSION").into()),
        };
        self.config.nodes().iter().map(of).collect()
    }
}

/// The configuration of such a cluster, as if its nodes were processes.
fn described(nodes: Nodes) -> Result<ClusterConfig, String> {
    let mut text = format!(
        "[cluster]\nClusterName=dev\n[ndbd default]\nNoOfReplicas={}\nDataMemory={}\nDiskless={}\n\
         [ndb_mgmd]\nNodeId={}\n[mysqld]\nNodeId={}\n",
        nodes.replicas,
        nodes.data_memory.max(DATA_MEMORY_MIN),
        u8::from(!nodes.on_disk),
        nodes.management.0,
        nodes.sql.0,
    );
    for node in 1..=nodes.data {
        text += &format!("[ndbd]\nNodeId={node}\n");
    }
    let parsed = ClusterConfig::parse(text.as_bytes());
    parsed.map(|parsed| parsed.config).map_err(|problems| {
        let first = problems.first().map(|problem| problem.what.clone());
        format!("the cluster cannot be described: {}", first.unwrap_or_default())
    })
}

/// The least that a configuration may say.
const DATA_MEMORY_MIN: u64 = 1 << 20;
const ONE_PROCESS: &str = "all nodes of `nines dev` are one process";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_can_be_described() {
        for data in 1..=48 {
            for replicas in (1..=4).filter(|replicas| data % u16::from(*replicas) == 0) {
                let (management, sql) = (NodeId(49), NodeId(51));
                let (data_memory, on_disk) = (16 << 20, data % 2 == 0);
                let nodes = Nodes { data, replicas, management, sql, data_memory, on_disk };
                let config = described(nodes).unwrap();
                assert_eq!(
                    (config.replicas(), config.nodes().len()),
                    (replicas, data as usize + 2)
                );
            }
        }
    }

    #[test]
    fn orders_to_nodes_are_refused_with_what_to_do() {
        let (management, sql) = (NodeId(49), NodeId(51));
        let (data_memory, on_disk) = (16 << 20, false);
        let nodes = Nodes { data: 2, replicas: 2, management, sql, data_memory, on_disk };
        let desk = OneProcess::new(nodes).unwrap();
        for order in [
            Request::End { node: 1, restart: true, force: true },
            Request::Leave { restart: false },
            Request::RotateOwnKeys,
        ] {
            let why = desk.decide(&order).unwrap_err();
            assert!(why.contains("one process") && why.contains("SIGTERM"), "{why}");
        }
        let claim = Request::Claim { node: 1, role: "data".into() };
        assert!(desk.decide(&claim).unwrap_err().contains("one process"));
        let status: ClusterStatus =
            serde_json::from_value(desk.decide(&Request::Status).unwrap()).unwrap();
        assert!(status.one_process && !status.on_disk && status.nodes.len() == 4);
        assert!(status.nodes.iter().all(|node| node.port.is_none()));
    }
}
