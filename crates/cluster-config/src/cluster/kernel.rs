//! The limits and intervals that actors are told, from what users write.

use model::{Config, NodeId};
use stdx::Duration;

use super::{ClusterConfig, Node, Role, Settings};
use crate::ini::SectionKind;
use crate::value::Value;

impl ClusterConfig {
    /// The ids of the data nodes, in the order that forms node groups.
    pub fn data_node_ids(&self) -> Vec<NodeId> {
        self.groups.iter().flat_map(|group| group.nodes.iter().copied()).collect()
    }

    /// The ids of the data nodes that are in no group, ascending.
    pub fn spare_node_ids(&self) -> Vec<NodeId> {
        let data = self.nodes_of(Role::Data).map(|node| node.id);
        data.filter(|node| self.group_of(*node).is_none()).collect()
    }

    /// The ids of the management nodes, ascending.
    pub fn management_node_ids(&self) -> Vec<NodeId> {
        self.nodes_of(Role::Management).map(|node| node.id).collect()
    }

    /// What the actors of a node are told. `workers` is how many share the node's memory, and
    /// `data_memory` what the node has where the configuration does not say.
    pub fn kernel(&self, node: NodeId, workers: u8, data_memory: u64) -> Config {
        let (data, management) = (self.data_node_ids(), self.management_node_ids());
        let mut config = Config::new(data, management, self.replicas());
        config.spare_nodes = self.spare_node_ids();
        config.disk = true;
        config.nearby = self.nearby(node);
        // Other roles know no parameters of data nodes. What all data nodes have alike, they take
        // from the first of them: leases and elections are everybody's.
        let first = self.nodes_of(Role::Data).next();
        if let Some(first) = first {
            alike(&mut config, &first.settings);
        }
        let checks = self.nodes_of(Role::Data).map(Node::worker_check);
        let longest = checks.max().unwrap_or(Duration::ZERO);
        config.worker_silence = config.worker_silence.max(longest.times(WORKER_CHECKS));
        let own = self.node(node).filter(|node| node.role == Role::Data);
        let memory = own.and_then(|node| node.data_memory()).unwrap_or(data_memory);
        config.data_memory = memory / u64::from(workers.max(1));
        config.version_memory = config.version_memory.min(config.data_memory / 4);
        if let Some(own) = own {
            of_node(&mut config, &own.settings);
            let changes = own.settings.number("TransactionMemory").unwrap_or(0);
            config.transaction_memory = changes.div_ceil(u64::from(workers.max(1)));
        }
        config.buffered_epoch_bytes = config.buffered_epoch_bytes.div_ceil(workers.max(1).into());
        config
    }

    /// The data nodes at the place of a node; none if it has no place.
    fn nearby(&self, node: NodeId) -> Vec<NodeId> {
        let place = self.node(node).map_or(0, |node| node.location());
        let here = self.nodes_of(Role::Data).filter(|other| place > 0 && other.location() == place);
        here.map(|other| other.id).collect()
    }
}

/// What is the same on all nodes.
fn alike(config: &mut Config, settings: &Settings) {
    let millis = |name: &str| settings.number(name).map(Duration::from_millis);
    if let Some(interval) = millis("HeartbeatIntervalDbDb") {
        // NDB takes a node for dead after four intervals without a sign of life.
        config.heartbeat_interval = interval;
        config.lease = config.lease.max(interval.times(4));
        config.election_timeout = config.election_timeout.max(interval.times(3));
    }
    if let Some(interval) = millis("TimeBetweenEpochs") {
        config.epoch_interval = interval.max(EPOCH_INTERVAL_MIN);
        config.epoch_interval_idle = config.epoch_interval_idle.max(interval);
    }
    if let Some(interval) = millis("TimeBetweenGlobalCheckpoints") {
        config.save_interval = interval;
    }
    match millis("StartPartialTimeout") {
        // As in NDB: without a time-out the start waits for all.
        Some(Duration::ZERO) => config.start_partial_timeout = FOR_EVER,
        Some(timeout) => config.start_partial_timeout = timeout,
        None => {}
    }
    if settings.flag("Diskless") == Some(true) {
        config.disk = false;
    }
}

/// What each data node has for itself.
fn of_node(config: &mut Config, settings: &Settings) {
    let number = |name: &str| settings.number(name);
    let small = |name: &str| number(name).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let millis = |name: &str| number(name).map(Duration::from_millis);
    if let Some(timeout) = millis("TransactionDeadlockDetectionTimeout") {
        config.lock_timeout = timeout;
    }
    match millis("TransactionInactiveTimeout") {
        Some(Duration::ZERO) => config.inactive_timeout = FOR_EVER,
        Some(timeout) => config.inactive_timeout = timeout.min(FOR_EVER),
        None => {}
    }
    if let Some(count) = small("MaxNoOfConcurrentTransactions") {
        config.transactions_max = count;
    }
    if let Some(count) = small("MaxDMLOperationsPerTransaction") {
        config.operations_max = count;
    }
    if let Some(size) = number("MaxBufferedEpochBytes") {
        config.buffered_epoch_bytes = size;
    }
    if let Some(count) = small("MaxBufferedEpochs") {
        config.buffered_epochs = count;
    }
    if let Some(seconds) = number("BinlogRetention") {
        config.binlog_retention = Duration::from_secs(seconds);
    }
    if let Some(size) = number("FragmentLogFileSize") {
        config.redo_segment = size;
    }
    if let Some(size) = number("RedoBuffer") {
        config.redo_buffer = size;
    }
    if let Some(seconds) = number("RestartTimeTarget") {
        config.restart_time_target = Duration::from_secs(seconds);
    }
    if let Some(share) = small("RecoveryWork") {
        config.recovery_work = share;
    }
    let (mut min, mut max) = config.checkpoint_speed;
    max = number("MaxDiskWriteSpeed").unwrap_or(max);
    min = number("MinDiskWriteSpeed").unwrap_or(min.min(max));
    config.checkpoint_speed = (min, max.max(min));
}

impl Node {
    /// How long a worker of a data node may stand still while the node serves.
    pub fn worker_check(&self) -> Duration {
        self.millis("TimeBetweenWatchDogCheck")
    }

    /// The same while it starts.
    pub fn worker_check_at_start(&self) -> Duration {
        self.millis("TimeBetweenWatchDogCheckInitial").max(self.worker_check())
    }

    fn millis(&self, name: &str) -> Duration {
        match self.settings().value(SectionKind::Data, name) {
            Some(Value::Number(millis)) => Duration::from_millis(millis),
            _ => Duration::ZERO,
        }
    }
}

/// A node whose worker hangs ends by itself after one check if that is blocked, and after three if
/// it computes. The others remove a node that has not done so by then.
const WORKER_CHECKS: u64 = 4;
/// NDB allows 0; an epoch without a length would be a loop.
const EPOCH_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// As good as for ever: 49 days, the largest value that NDB's users can write.
const FOR_EVER: Duration = Duration::from_millis(4_294_967_039);
