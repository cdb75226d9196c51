//! Limits and intervals of the kernel. The simulation draws them anew for every run.

use stdx::{Duration, Prng};

use crate::ids::NodeId;

/// What a node is told before it starts. The same on every node of a cluster, but for `workers`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data nodes of the cluster, in the order that forms node groups.
    pub data_nodes: Vec<NodeId>,
    /// Data nodes that are in no node group at first: the cluster is founded without them, and they
    /// wait as members until a group is formed of them.
    #[doc(alias = "NodeGroup=65536")]
    pub spare_nodes: Vec<NodeId>,
    /// The management nodes; the first that lives breaks ties.
    pub management_nodes: Vec<NodeId>,
    /// The data nodes at the same place as this node; empty if places are unknown. Committed reads
    /// go to replicas there, where there are any.
    #[doc(alias = "LocationDomainId")]
    pub nearby: Vec<NodeId>,
    /// Copies of each row: 1 to 4. Divides the number of data nodes.
    #[doc(alias = "NoOfReplicas")]
    pub replicas: u8,
    /// How long a lease lasts from the moment its evidence was sent.
    pub lease: Duration,
    /// Time between the leader's heartbeats.
    #[doc(alias = "HeartbeatIntervalDbDb")]
    pub heartbeat_interval: Duration,
    /// How long a worker may leave the driver of epochs without an answer before its node is
    /// removed.
    pub worker_silence: Duration,
    /// Shortest time without a leader before an election; up to twice that is drawn.
    pub election_timeout: Duration,
    /// Time between epoch switches.
    #[doc(alias = "TimeBetweenEpochs")]
    pub epoch_interval: Duration,
    /// The same after some epochs in which nothing was committed. The first commit ends that.
    pub epoch_interval_idle: Duration,
    /// How long a request waits for a lock before its coordinator hears of that, and searches for a
    /// deadlock once more.
    pub deadlock_check_after: Duration,
    /// How long a request waits for a lock at all.
    #[doc(alias = "TransactionDeadlockDetectionTimeout")]
    pub lock_timeout: Duration,
    /// How long nothing is begun in a node group while a planned change of its write chains waits
    /// for the transactions that are open there.
    pub quiesce_time: Duration,
    /// How long an open transaction may stay without a request.
    #[doc(alias = "TransactionInactiveTimeout")]
    pub inactive_timeout: Duration,
    /// How long a client waits for an answer before it suspects the node.
    pub request_timeout: Duration,
    /// Open transactions per coordinator.
    #[doc(alias = "MaxNoOfConcurrentTransactions")]
    pub transactions_max: u32,
    /// Operations per transaction.
    #[doc(alias = "MaxDMLOperationsPerTransaction")]
    pub operations_max: u32,
    /// Operations per batch.
    pub batch_max: u32,
    /// Open scans per participant.
    #[doc(alias = "MaxNoOfConcurrentScans")]
    pub scans_max: u32,
    /// Rows a scan sends per batch.
    pub scan_batch_rows: u32,
    /// Rows a handler looks at before it lets others run; fewer while key operations come in
    /// between.
    pub scan_step_rows: u32,
    /// Bytes of rows that a handler applies, or gives back, before it lets others run, at most; a
    /// row counts for at least 256.
    pub apply_step_bytes: u32,
    /// Bytes of rows, indexes and open transactions per worker.
    #[doc(alias = "DataMemory")]
    pub data_memory: u64,
    /// Bytes per worker that uncommitted changes and their locks take, at most; 0 for no limit but
    /// that of `data_memory`, which they count against too.
    pub transaction_memory: u64,
    /// Bytes of old row images per worker, kept for snapshots.
    pub version_memory: u64,
    /// Bytes of committed changes per worker that are kept for each change stream until its
    /// subscriber has them.
    #[doc(alias = "MaxBufferedEpochBytes")]
    pub buffered_epoch_bytes: u64,
    /// Epochs whose changes are kept for a change stream that does not move on.
    #[doc(alias = "MaxBufferedEpochs")]
    pub buffered_epochs: u32,
    /// For how long the changes of the binary log are kept, within `buffered_epoch_bytes`.
    #[doc(alias = "BinlogRetention")]
    pub binlog_retention: Duration,
    /// Sessions per participant whose last outcome is remembered.
    pub outcomes_max: u32,
    /// Rows sent per message when a replica is copied.
    pub copy_batch_rows: u32,
    /// Copy messages under way before an answer is awaited.
    pub copy_window: u32,
    /// Whether nodes keep a redo log and checkpoints on their disks.
    #[doc(alias = "Diskless")]
    pub disk: bool,
    /// Longest time between two epochs that are made durable, while there are commits.
    #[doc(alias = "TimeBetweenGlobalCheckpoints")]
    pub save_interval: Duration,
    /// Bytes of a segment of the redo log.
    #[doc(alias = "FragmentLogFileSize")]
    pub redo_segment: u64,
    /// Bytes of the redo log per worker that wait to be written before new changes wait for them.
    #[doc(alias = "RedoBuffer")]
    pub redo_buffer: u64,
    /// How long reading the redo log may take when a node restarts: decides how often checkpoints
    /// are made.
    #[doc(alias = "RestartTimeTarget")]
    pub restart_time_target: Duration,
    /// Bytes a worker writes to checkpoints in a second at least, and at most.
    #[doc(alias = "MinDiskWriteSpeed")]
    #[doc(alias = "MaxDiskWriteSpeed")]
    pub checkpoint_speed: (u64, u64),
    /// Share of a checkpoint, in percent, that may be rows which have not changed.
    #[doc(alias = "RecoveryWork")]
    pub recovery_work: u32,
    /// How long a restart of the whole cluster waits for members that are missing, when it could
    /// go on without them.
    #[doc(alias = "StartPartialTimeout")]
    pub start_partial_timeout: Duration,
}

impl Config {
    /// The defaults for a cluster of these nodes.
    pub fn new(data_nodes: Vec<NodeId>, management_nodes: Vec<NodeId>, replicas: u8) -> Self {
        Self {
            data_nodes,
            spare_nodes: Vec::new(),
            management_nodes,
            nearby: Vec::new(),
            replicas,
            lease: Duration::from_millis(800),
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_millis(500),
            worker_silence: Duration::from_secs(2),
            epoch_interval: Duration::from_millis(20),
            epoch_interval_idle: Duration::from_millis(100),
            deadlock_check_after: Duration::from_millis(10),
            lock_timeout: Duration::from_millis(1_200),
            quiesce_time: Duration::from_millis(250),
            inactive_timeout: Duration::from_secs(3_600),
            request_timeout: Duration::from_secs(4),
            transactions_max: 16_384,
            operations_max: u32::MAX,
            batch_max: 16_384,
            scans_max: 4_096,
            scan_batch_rows: 256,
            scan_step_rows: 256,
            apply_step_bytes: 128 << 10,
            data_memory: 4 << 30,
            transaction_memory: 0,
            version_memory: 512 << 20,
            buffered_epoch_bytes: 64 << 20,
            buffered_epochs: 3_000,
            binlog_retention: Duration::from_secs(3_600),
            outcomes_max: 1 << 20,
            copy_batch_rows: 128,
            copy_window: 8,
            disk: false,
            save_interval: Duration::from_millis(200),
            redo_segment: 16 << 20,
            redo_buffer: 32 << 20,
            restart_time_target: Duration::from_secs(30),
            checkpoint_speed: (10 << 20, 60 << 20),
            recovery_work: 60,
            start_partial_timeout: Duration::from_secs(30),
        }
    }

    /// Whether a node is a data node, in a group or not.
    pub fn is_data_node(&self, node: NodeId) -> bool {
        self.data_nodes.contains(&node) || self.spare_nodes.contains(&node)
    }

    /// Replaces limits and intervals by draws, small ones among them, so that limits are met.
    pub fn randomise(&mut self, prng: &mut Prng) {
        let ms = |prng: &mut Prng, low, high| Duration::from_millis(prng.between(low, high));
        self.lease = ms(prng, 300, 1_000);
        self.heartbeat_interval = ms(prng, 20, self.lease.as_millis() / 4);
        self.election_timeout = ms(prng, self.heartbeat_interval.as_millis() * 3, 1_000);
        self.epoch_interval = ms(prng, 3, 100);
        self.epoch_interval_idle = self.epoch_interval.times(*prng.pick(&[1, 3, 10]));
        self.deadlock_check_after = ms(prng, 1, 30);
        self.lock_timeout = ms(prng, 300, 2_000);
        self.quiesce_time = self.lock_timeout.divided_by(4);
        self.inactive_timeout = Duration::from_millis(*prng.pick(&[700, 3_600_000, 3_600_000]));
        self.transactions_max = *prng.pick(&[6, 64, 1_024]);
        self.scans_max = *prng.pick(&[4, 32, 1_024]);
        self.scan_batch_rows = *prng.pick(&[1, 7, 64]);
        self.scan_step_rows = *prng.pick(&[1, 5, 256]);
        self.apply_step_bytes = *prng.pick(&[1, 600, 16 << 10]);
        self.outcomes_max = *prng.pick(&[16, 256, 4_096]);
        self.copy_batch_rows = *prng.pick(&[1, 5, 64]);
        self.copy_window = *prng.pick(&[1, 3, 16]);
        self.version_memory = *prng.pick(&[16 << 10, 512 << 20, 512 << 20]);
        if self.disk {
            self.save_interval = ms(prng, 5, 300);
            self.redo_segment = *prng.pick(&[16 << 10, 64 << 10, 256 << 10]);
            self.redo_buffer = *prng.pick(&[4 << 10, 64 << 10, 1 << 20]);
            self.restart_time_target = ms(prng, 1, 20);
            self.checkpoint_speed = *prng.pick(&[(50_000, 1 << 20), (1 << 20, 16 << 20)]);
            self.recovery_work = *prng.pick(&[0, 25, 60, 100]) as u32;
            self.start_partial_timeout = ms(prng, 300, 3_000);
        }
    }
}
