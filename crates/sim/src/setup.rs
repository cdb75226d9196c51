//! The shape of a simulated cluster: nodes, limits, speeds. Chosen by hand in scenarios, drawn from
//! the seed in random runs.

use std::sync::Arc;

use actor::Mutation;
use model::{Config, NodeId};

use stdx::{Duration, Prng};

use crate::workload::{AMPLE_STREAMS, STREAMS_DRAW};

/// Share of the drawn clusters that keep their state on disks.
const DISKS_PERCENT: u64 = 50;
/// Share of the drawn clusters with SQL nodes. It is drawn apart, so that the others are what
/// they would be without.
const SQL_PERCENT: u64 = 30;
/// Draws whether a run has data nodes for one more group.
const GROWTH_DRAW: u64 = 0x6406;
/// Of the seed: whether the data node that comes while the cluster works is a further replica.
const REPLICAS_DRAW: u64 = 0x4E71CA;
/// Of so many of a hundred runs with such nodes.
const REPLICAS_PERCENT: u64 = 60;
/// Chance in a hundred that it has.
const GROWTH_PERCENT: u64 = 25;
/// Most data nodes of a run in which tables move, with the group that comes and goes: nodes are
/// what a run costs.
const MOVES_NODES_MAX: u16 = 8;
/// Makes that draw differ from others of the seed, and leaves alone those that are known to notice
/// mutations.
const SQL_DRAW: u64 = 0xA0;
/// First id of client nodes, where data nodes and management nodes leave it free.
const CLIENTS_FROM: u16 = 101;
/// First id of management nodes, where data nodes leave it free.
const MANAGEMENT_FROM: u16 = 51;

/// What a world is built from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Decides every draw.
    pub seed: u64,
    /// Copies of each row.
    pub replicas: u8,
    /// Node groups.
    pub groups: u16,
    /// Worker threads of each data node.
    pub workers: u8,
    /// Management nodes.
    pub management: u16,
    /// Client nodes.
    pub clients: u16,
    /// So many of the last client nodes are SQL nodes.
    pub sql_nodes: u16,
    /// Tables of SQL move to the group of the spare nodes, and away from it.
    pub moves: bool,
    /// The spare node, of which there is one, becomes a replica of a group, and nodes leave groups
    /// that have more replicas than the cluster was founded with.
    pub replica_orders: bool,
    /// Limits and intervals; the same on every node.
    pub config: Arc<Config>,
    /// Which rule is broken on purpose.
    pub mutation: Mutation,
    /// Time on the wire.
    pub network: NetworkSetup,
    /// Time on the disks, if nodes have some.
    pub disk: DiskSetup,
    /// Service time of one handler on a node that is not slow.
    pub service_time: Duration,
    /// How far clocks deviate from true time at most, in parts per million.
    pub clock_drift_ppm: u64,
    /// A worker's invariants are checked every so many of its steps.
    pub check_every: u64,
}

/// Latencies of the simulated network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSetup {
    /// Shortest time between two hosts.
    pub latency_min: Duration,
    /// Longest usual time between two hosts.
    pub latency_max: Duration,
    /// Chance in a thousand of an unusually late message.
    pub spike_per_mille: u64,
    /// How late that is at most.
    pub spike_max: Duration,
    /// How long a host tries to send before it gives a connection up.
    pub send_timeout: Duration,
}

/// Latencies of simulated disks.
#[derive(Clone, Copy, Debug)]
pub struct DiskSetup {
    /// Usual time of an operation that is no sync, beside its bytes.
    pub operation: Duration,
    /// Usual time of a sync.
    pub sync: Duration,
    /// Bytes read or written in a second.
    pub bytes_per_second: u64,
    /// Chance in a thousand of an unusually late operation.
    pub spike_per_mille: u64,
    /// How late that is at most.
    pub spike_max: Duration,
}

impl Setup {
    /// A calm cluster with usual limits, for scenarios.
    pub fn new(replicas: u8, groups: u16) -> Self {
        let mut setup = Self {
            seed: 1,
            replicas,
            groups,
            workers: 2,
            management: 1,
            clients: 2,
            sql_nodes: 0,
            moves: false,
            replica_orders: false,
            config: Arc::new(Config::new(Vec::new(), Vec::new(), replicas)),
            mutation: Mutation::None,
            network: NetworkSetup {
                latency_min: Duration::from_micros(30),
                latency_max: Duration::from_micros(150),
                spike_per_mille: 0,
                spike_max: Duration::from_millis(1),
                send_timeout: Duration::from_millis(600),
            },
            disk: DiskSetup {
                operation: Duration::from_micros(20),
                sync: Duration::from_micros(400),
                bytes_per_second: 500 << 20,
                spike_per_mille: 0,
                spike_max: Duration::from_millis(20),
            },
            service_time: Duration::from_micros(4),
            clock_drift_ppm: 0,
            check_every: 8,
        };
        setup.place_nodes();
        setup
    }

    /// A cluster drawn from `seed`: any shape, small limits and odd speeds among them. Some have
    /// disks; with `disks` all have. With `moves` tables of SQL move where the shape allows it.
    pub fn random(seed: u64, mutation: Mutation, disks: bool, moves: bool) -> Self {
        let mut prng = Prng::new(seed ^ 0x5E7);
        // The usual shape often, because it is the one that most depends on getting it right.
        let replicas = *prng.pick(&[1, 2, 2, 2, 3, 3, 4]);
        let groups = *prng.pick(&[1, 1, 2, 2, 3]);
        let groups = if replicas == 4 { groups.min(2) } else { groups };
        let mut setup = Self::new(replicas, groups);
        setup.seed = seed;
        setup.mutation = mutation;
        setup.workers = *prng.pick(&[1, 1, 2, 2, 3, 4]);
        setup.management = *prng.pick(&[1, 1, 2]);
        setup.clients = prng.between(2, 4) as u16;
        let mut of_sql = Prng::new(seed ^ SQL_DRAW);
        if of_sql.percent(SQL_PERCENT) {
            setup.sql_nodes = *of_sql.pick(&[1, 1, 2, 2, 3]);
        }
        setup.clients += setup.sql_nodes;
        setup.service_time = Duration::from_micros(*prng.pick(&[2, 5, 20]));
        setup.clock_drift_ppm = *prng.pick(&[0, 100, 20_000]);
        let latency_max = *prng.pick(&[100, 300, 1_500]);
        setup.network = NetworkSetup {
            latency_min: Duration::from_micros(20),
            latency_max: Duration::from_micros(latency_max),
            spike_per_mille: *prng.pick(&[0, 1, 10]),
            spike_max: Duration::from_millis(*prng.pick(&[2, 15])),
            send_timeout: Duration::from_millis(prng.between(100, 1_500)),
        };
        setup.check_every = *prng.pick(&[4, 16, 64]);
        setup.place_nodes();
        // Seeds that are known to notice mutations stay what they are.
        let grows = mutation == Mutation::None;
        let moves = moves || mutation == Mutation::SqlMovedTablesWritten;
        setup.moves = moves && setup.may_move();
        let has_more = grows && Prng::new(seed ^ GROWTH_DRAW).percent(GROWTH_PERCENT);
        if setup.moves || has_more && setup.groups < 3 {
            setup = setup.with_spare_group();
        }
        let widens = has_more && setup.may_widen();
        if widens && Prng::new(seed ^ REPLICAS_DRAW).percent(REPLICAS_PERCENT) {
            setup = setup.with_spare_replica();
        }
        let mut config = (*setup.config).clone();
        let mut of_disks = Prng::new(seed ^ 0xD15C);
        config.disk = of_disks.percent(DISKS_PERCENT) || disks;
        config.randomise(&mut prng);
        (config.buffered_epoch_bytes, config.buffered_epochs) = *Prng::new(seed ^ STREAMS_DRAW)
            .pick(&[(6 << 10, 40), AMPLE_STREAMS, AMPLE_STREAMS, AMPLE_STREAMS]);
        // Time is what a run costs: messages of idle nodes are bounded.
        let nodes = u64::from(setup.groups) * u64::from(setup.replicas);
        let busy = Duration::from_millis(nodes * u64::from(setup.workers) / 2);
        config.epoch_interval = config.epoch_interval.max(busy);
        // Short ones end while a lock is waited for, or before a broken connection is noticed.
        let (low, high) = *prng.pick(&[(300, 1_000), (1_000, 4_000), (1_000, 4_000)]);
        config.request_timeout = Duration::from_millis(prng.between(low, high));
        setup.disk = DiskSetup {
            operation: Duration::from_micros(*of_disks.pick(&[5, 30, 300])),
            sync: Duration::from_micros(*of_disks.pick(&[50, 500, 5_000])),
            bytes_per_second: *of_disks.pick(&[4 << 20, 100 << 20, 1 << 30]),
            spike_per_mille: *of_disks.pick(&[0, 1, 10]),
            spike_max: Duration::from_millis(*of_disks.pick(&[10, 100])),
        };
        setup.config = Arc::new(config);
        setup
    }

    /// Changes limits and intervals.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Gives nodes disks.
    pub fn disks(self) -> Self {
        self.configure(|config| config.disk = true)
    }

    /// Sets the number of worker threads of a data node.
    pub fn workers(mut self, workers: u8) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the number of management nodes.
    pub fn management(mut self, management: u16) -> Self {
        self.management = management;
        self.place_nodes();
        self
    }

    /// Sets the number of client nodes.
    pub fn clients(mut self, clients: u16) -> Self {
        self.clients = clients;
        self
    }

    /// Adds data nodes for one more node group, which the cluster is founded without.
    pub fn with_spare_group(mut self) -> Self {
        let first = u16::from(self.replicas) * self.groups + 1;
        let config = Arc::make_mut(&mut self.config);
        config.spare_nodes = (first..first + u16::from(self.replicas)).map(NodeId).collect();
        self
    }

    /// Adds a data node that becomes one more replica of a node group.
    pub fn with_spare_replica(mut self) -> Self {
        let first = u16::from(self.replicas) * self.groups + 1;
        Arc::make_mut(&mut self.config).spare_nodes = vec![NodeId(first)];
        self.replica_orders = true;
        self
    }

    /// Adds client nodes that are SQL nodes.
    pub fn with_sql_nodes(mut self, nodes: u16) -> Self {
        self.sql_nodes = nodes;
        self.clients += nodes;
        self
    }

    /// Whether a node group may get one more replica.
    pub fn may_widen(&self) -> bool {
        !self.moves && self.replicas < 4
    }

    /// Whether the cluster has SQL nodes, and is small enough for one more group.
    fn may_move(&self) -> bool {
        let nodes = u16::from(self.replicas) * (self.groups + 1);
        self.sql_nodes > 0 && self.groups < 3 && nodes <= MOVES_NODES_MAX
    }

    fn place_nodes(&mut self) {
        let data = u16::from(self.replicas) * self.groups;
        let config = Arc::make_mut(&mut self.config);
        config.replicas = self.replicas;
        config.data_nodes = (1..=data).map(NodeId).collect();
        let from = MANAGEMENT_FROM.max(data + 1);
        config.management_nodes = (from..from + self.management).map(NodeId).collect();
    }

    /// The first client node. Spare data nodes are not looked at: clusters that have some are
    /// small.
    pub fn first_client(&self) -> NodeId {
        let last = self.config.management_nodes.last().map_or(0, |node| node.0);
        NodeId(CLIENTS_FROM.max(last + 1))
    }

    /// The client nodes that are SQL nodes.
    pub fn sql_nodes(&self) -> Vec<NodeId> {
        self.client_nodes().skip(usize::from(self.clients - self.sql_nodes)).collect()
    }

    /// The client nodes.
    pub fn client_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let first = self.first_client().0;
        (first..first + self.clients).map(NodeId)
    }
}
