//! Parameters of data nodes: replicas, memory, disks, time-outs, membership, threads.

use super::*;

pub(super) const PARAMETERS: &[Parameter] = parameters! {
    // Replicas and placement.
    "NoOfReplicas";
    DATA | ALIKE, count(2, 1, 4), InitialSystem, HONOURED;
    "copies of each row, each on another data node of its node group"

    "NodeGroup";
    DATA, follows(Unit::Count, "by the order of ids", 0, 65_536), InitialSystem, HONOURED;
    "number of the node group the node belongs to"

    "PartitionsPerNode";
    DATA | ALIKE, count(2, 1, 32), Node, none(BUCKETS);
    "partitions that a new table gets on each data node"

    "ClassicFragmentation";
    DATA | ALIKE, flag(true), Node, none(BUCKETS);
    "whether the number of partitions follows the number of threads"

    "DefaultHashMapSize";
    DATA | CLIENT, count(3_840, 0, 3_840), Node, none(BUCKETS);
    "buckets that the keys of a table are hashed to"

    // Network.
    "ServerPort";
    DATA, follows(Unit::Count, "10 × PortNumber + NodeId", 1, 65_535), System, HONOURED;
    "TCP port on which other nodes reach the data node"

    "TcpBind_INADDR_ANY";
    DATA, flag(false), Node, LATER;
    "whether to listen on all addresses of the host instead of that of HostName"

    "UseShm";
    DATA | CLIENT, choice("1", &["0", "1", "2"]), Node, HONOURED, ndb "0";
    "how nodes on one host exchange messages: 1 by shared memory, 2 by Unix sockets, 0 by TCP"

    "MaxSendDelay";
    DATA, micros(0, 0, 11_000), Node, LATER;
    "longest time that a message may wait so that others go with it"

    "NodeGroupTransporters";
    DATA, count(0, 0, 32), Node, LATER;
    "connections between two data nodes of a node group; 0 follows the threads"

    "KeepAliveSendInterval";
    DATA, millis(60_000, 0, MOST), Node, none("heartbeats keep every link alive");
    "time between signs of life on links without traffic"

    // Files.
    "FileSystemPath";
    DATA, text(""), InitialNode, HONOURED;
    "directory with the data, where it is not that of DataDir"

    "FileSystemPathDD";
    DATA, text(""), InitialNode, none(DISK_DATA);
    "directory of the files of disk tables"

    "FileSystemPathDataFiles";
    DATA, text(""), InitialNode, none(DISK_DATA);
    "directory of the data files of disk tables"

    "FileSystemPathUndoFiles";
    DATA, text(""), InitialNode, none(DISK_DATA);
    "directory of the undo files of disk tables"

    "BackupDataDir";
    DATA, text(""), InitialNode, none("SQL nodes write backups: see that of SQL nodes");
    "directory of backups, where it is not that of the data"

    // Memory.
    "DataMemory";
    DATA, follows(Unit::Bytes, "the host's memory halved, shared by its data nodes", M, 16 * T),
        Node, HONOURED, ndb "98M";
    "memory for rows, indexes, old images and open transactions"

    "IndexMemory";
    DATA, bytes(0, 0, T), Node, none("indexes live in DataMemory, as in NDB since 7.6");
    "memory for hash indexes"

    "StringMemory";
    DATA, count(25, 0, MOST), System, none(GROWS);
    "memory for names of tables and columns: percent up to 100, bytes above"

    "TransactionMemory";
    DATA, bytes(0, 0, 16 * T), Node, HONOURED;
    "memory that uncommitted changes and their locks may take, within DataMemory; 0 for all of it"

    "SharedGlobalMemory";
    DATA, bytes(128 * M, 0, 64 * T), Node, none(GROWS);
    "memory that is shared by everything without memory of its own"

    "LongMessageBuffer";
    DATA, bytes(64 * M, 512 * K, MOST), Node, none(GROWS);
    "memory for messages inside a data node"

    "LockPagesInMainMemory";
    DATA, count(0, 0, 2), Node, HONOURED;
    "keeps the process out of swap: 1 locks memory when it is used, 2 has all that is taken in \
     place at once; needs a limit (RLIMIT_MEMLOCK) that allows it"

    "LateAlloc";
    DATA, count(1, 0, 1), Node, none("memory is taken when it is used");
    "whether memory is taken after the node has reached the management node"

    "MinFreePct";
    DATA, percent(5, 0, 100), Node, LATER;
    "share of DataMemory that only restarts may use"

    "Numa";
    DATA, flag(true), Node, LATER;
    "whether memory is spread over the processors' memory"

    "CrashOnCorruptedTuple";
    DATA, flag(true), Node, none("a node that finds itself inconsistent always stops");
    "whether a row with a wrong checksum stops the node"

    // Redo log and checkpoints.
    "Diskless";
    DATA | ALIKE, flag(false), InitialSystem, HONOURED;
    "whether to keep nothing on disk: what all nodes lose at once is gone"

    "FragmentLogFileSize";
    DATA, bytes(16 * M, 4 * M, G), InitialNode, HONOURED;
    "size of a file of the redo log"

    "NoOfFragmentLogFiles";
    DATA, count(16, 3, MOST), InitialNode, none("the redo log grows and shrinks with the need");
    "sets of files that NDB's redo log consists of"

    "NoOfFragmentLogParts";
    DATA, count(4, 1, 32), InitialNode, none("each worker has a redo log of its own");
    "parts of the redo log that are written in parallel"

    "InitFragmentLogFiles";
    DATA, choice("SPARSE", &["SPARSE", "FULL"]), InitialNode, none("files are made as they fill");
    "whether files of the redo log are filled when they are made"

    "RedoBuffer";
    DATA, bytes(32 * M, M, MOST), Node, HONOURED;
    "redo log of a worker that may wait for the disk before new changes have to wait too"

    "RedoOverCommitCounter";
    DATA, count(3, 0, MOST), Node, none(SLOW_DISK);
    "how often the limit of RedoOverCommitLimit may be exceeded"

    "RedoOverCommitLimit";
    DATA, seconds(20, 1, MOST), Node, none(SLOW_DISK);
    "how long the redo log may lag behind before transactions are refused"

    "TimeBetweenLocalCheckpoints";
    DATA, count(20, 0, 31), Node, none("RestartTimeTarget decides when checkpoints are made");
    "amount of changes between two checkpoints, as power of 2 of 4-byte words"

    "RestartTimeTarget";
    DATA, seconds(30, 1, 86_400), Node, HONOURED;
    "how long reading the redo log may take at a restart; decides how often checkpoints are made"

    "MinDiskWriteSpeed";
    DATA, bytes(10 * M, M, 1_024 * G), System, HONOURED;
    "bytes that a worker writes to checkpoints in a second at least"

    "MaxDiskWriteSpeed";
    DATA, bytes(60 * M, M, 1_024 * G), System, HONOURED, ndb "20M";
    "bytes that a worker writes to checkpoints in a second at most"

    "MaxDiskWriteSpeedOtherNodeRestart";
    DATA, bytes(50 * M, M, 1_024 * G), System, LATER;
    "the same while another node restarts"

    "MaxDiskWriteSpeedOwnRestart";
    DATA, bytes(200 * M, M, 1_024 * G), System, LATER;
    "the same while the node itself restarts"

    "DiskSyncSize";
    DATA, bytes(4 * M, 32 * K, MOST), Node, none("checkpoints are synced when they are complete");
    "bytes written to a checkpoint before they are synced"

    "EnablePartialLcp";
    DATA, flag(true), Node, none("every checkpoint is partial; RecoveryWork says how much");
    "whether checkpoints leave out rows that have not changed"

    "RecoveryWork";
    DATA, percent(60, 0, 100), Node, HONOURED;
    "share of a checkpoint that may be rows which have not changed"

    "InsertRecoveryWork";
    DATA, percent(40, 0, 70), Node, none("RecoveryWork counts inserted rows too");
    "the same for rows that were inserted"

    "EnableRedoControl";
    DATA, flag(true), Node, none("the speed of checkpoints always follows the redo log");
    "whether checkpoints are written as fast as the redo log requires"

    "CompressedLCP";
    DATA, flag(false), Node, none("checkpoints are compressed where it pays");
    "whether checkpoints are compressed"

    "ODirect";
    DATA, flag(false), Node, none(DIRECT);
    "whether files are written past the system's cache"

    "ODirectSyncFlag";
    DATA, flag(false), Node, none(DIRECT);
    "whether such writes are treated as synced"

    "MaxLCPStartDelay";
    DATA, seconds(0, 0, 600), Node, none(OWN_CHECKPOINTS);
    "how long a restarting node waits for a checkpoint of the cluster"

    "LcpScanProgressTimeout";
    DATA, seconds(180, 0, MOST), Node, none(OWN_CHECKPOINTS);
    "how long a checkpoint may stand still before the node stops"

    // Epochs.
    "TimeBetweenEpochs";
    DATA | ALIKE, millis(20, 0, 32_000), Node, HONOURED, ndb "100";
    "time between epochs; at least 100 ms while nothing is committed and no snapshot asked for"

    "TimeBetweenEpochsTimeout";
    DATA | ALIKE, millis(0, 0, 256_000), Node, none(STUCK_EPOCHS);
    "how long an epoch may be delayed before nodes stop"

    "TimeBetweenGlobalCheckpoints";
    DATA | ALIKE, millis(200, 20, 32_000), Node, HONOURED, ndb "2000";
    "longest time until a commit is on disk, for sessions that do not wait for it"

    "TimeBetweenGlobalCheckpointsTimeout";
    DATA | ALIKE, millis(120_000, 10, MOST), Node, none(STUCK_EPOCHS);
    "how long making an epoch durable may be delayed before nodes stop"

    "MaxBufferedEpochs";
    DATA, count(3_000, 1, 100_000), Node, HONOURED, ndb "100";
    "epochs whose changes are kept for the subscriber of a change stream that does not move on; an \
     epoch takes TimeBetweenEpochs"

    "MaxBufferedEpochBytes";
    DATA, bytes(64 * M, M, MOST), Node, HONOURED, ndb "25M";
    "memory for the changes that are kept for each change stream until its subscriber has them"

    "BinlogRetention";
    DATA, count(3_600, 10, 2_592_000), Node, HONOURED;
    "seconds for which data nodes keep the changes of the binary log and of change feeds, as far \
     as MaxBufferedEpochBytes lets them"

    // Membership.
    "HeartbeatIntervalDbDb";
    DATA | ALIKE, millis(100, 10, MOST), Node, HONOURED, ndb "5000";
    "time between heartbeats of data nodes; a host that is silent for four of them, but at least \
     0.8 s, has failed"

    "HeartbeatIntervalDbApi";
    DATA | ALIKE, millis(1_500, 100, MOST), Node, LATER;
    "time between heartbeats of data nodes and their clients"

    "HeartbeatOrder";
    DATA, count(0, 0, 65_535), System, none("all nodes are watched at the same time");
    "place of the node in NDB's ring of heartbeats"

    "ConnectCheckIntervalDelay";
    DATA, millis(0, 0, MOST), Node, none("membership is decided by votes, not by one neighbour");
    "time for checking links before a node is excluded"

    "Arbitration";
    DATA | ALIKE, choice("Default", &["Default", "Disabled", "WaitExternal"]), Node,
        none("a tie is always broken by a vote of the management nodes");
    "how it is decided which half goes on after a split"

    "ArbitrationTimeout";
    DATA | ALIKE, millis(7_500, 10, MOST), Node,
        none("a tie is broken within the time of an election");
    "how long NDB's nodes wait for the arbitrator"

    "StartPartialTimeout";
    DATA | ALIKE, millis(30_000, 0, MOST), Node, HONOURED;
    "how long a restart of the cluster waits for nodes it could do without; 0 for ever"

    "StartPartitionedTimeout";
    DATA | ALIKE, millis(0, 0, MOST), Node, none("a part that could be a minority never starts");
    "how long a start waits before it risks a second, separate cluster; 0 for ever"

    "StartFailureTimeout";
    DATA | ALIKE, millis(0, 0, MOST), Node, LATER;
    "how long a start may take before the node gives up; 0 for ever"

    "StartNoNodeGroupTimeout";
    DATA | ALIKE, millis(15_000, 0, MOST), Node, LATER;
    "how long a start waits for nodes that belong to no node group"

    "RestartSubscriberConnectTimeout";
    DATA, millis(12_000, 0, MOST), Node, LATER;
    "how long a restarting node waits for subscribers to connect"

    "ApiFailureHandlingTimeout";
    DATA, seconds(600, 0, MOST), Node,
        none("what a client leaves is settled without waiting for it");
    "how long cleaning up after a client may take before the node stops"

    "TimeBetweenWatchDogCheck";
    DATA, millis(500, 70, MOST), Node, HONOURED, ndb "6000";
    "how long a worker may stand still before its process ends; others wait that long"

    "TimeBetweenWatchDogCheckInitial";
    DATA, millis(6_000, 70, MOST), Node, HONOURED;
    "the same during a start"

    "WatchDogImmediateKill";
    DATA, flag(false), Node, HONOURED;
    "whether a worker that stands still ends the node without a trace"

    "StopOnError";
    DATA, flag(true), Node, LATER;
    "whether a failed data node stays stopped; otherwise it is started again"

    "MaxStartFailRetries";
    DATA, count(3, 0, MOST), Node, LATER;
    "how often a start that fails is tried again, where StopOnError is 0"

    "StartFailRetryDelay";
    DATA, seconds(0, 0, MOST), Node, LATER;
    "pause before such a try"

    "RestartOnErrorInsert";
    DATA, count(2, 0, 4), Node, none("faults are injected by the simulation alone");
    "kind of restart after an injected fault"

    // Transactions.
    "TransactionDeadlockDetectionTimeout";
    DATA, millis(1_200, 50, MOST), Node, HONOURED;
    "how long a request waits for a lock; deadlocks are found sooner"

    "TransactionInactiveTimeout";
    DATA, millis(3_600_000, 0, MOST), Node, HONOURED, ndb "4294967039";
    "how long an open transaction may be idle; 0 for as long as possible"

    "TimeBetweenInactiveTransactionAbortCheck";
    DATA, millis(1_000, 1_000, MOST), Node, none("every transaction has a timer of its own");
    "how often NDB looks for idle transactions"

    // Threads.
    "AutomaticThreadConfig";
    DATA, flag(true), InitialSystem, HONOURED, ndb "0";
    "whether threads follow from NumCPUs, or from the CPUs the process may use"

    "NumCPUs";
    DATA, follows(Unit::Count, "the CPUs the process may use", 0, 1_024), InitialSystem, HONOURED;
    "CPUs that an automatic layout of threads makes use of"

    "ThreadConfig";
    DATA, Kind::Threads, System, HONOURED;
    "threads by role: ldm are the workers, main, rep, recv and send the thread that makes links, \
     io those of the disk; other roles have no threads of their own"

    "MaxNoOfExecutionThreads";
    DATA, count(2, 0, 72), System, HONOURED;
    "threads of the process, where neither of the above is given; 2 at least"

    "LockExecuteThreadToCPU";
    DATA, Kind::Cpus, Node, HONOURED;
    "CPUs of the workers, one each if there are enough; without effect beside ThreadConfig"

    "LockMaintThreadsToCPU";
    DATA, follows(Unit::Count, "any", 0, 65_535), Node, HONOURED;
    "CPU of the threads that read and write files; without effect beside ThreadConfig"

    "RealtimeScheduler";
    DATA, flag(false), Node, none(REALTIME);
    "whether threads run with real-time priority"

    "SchedulerExecutionTimer";
    DATA, micros(50, 0, 11_000), Node, LATER;
    "how long a worker handles messages before it sends what they have produced"

    "SchedulerSpinTimer";
    DATA | CLIENT, micros(0, 0, 500), Node, HONOURED;
    "how long a worker looks for new messages before it sleeps, with StaticSpinning"

    "SchedulerResponsiveness";
    DATA, count(5, 0, 10), Node, LATER;
    "10 for answers as soon as possible, 0 for as many as possible"

    "SpinMethod";
    DATA | CLIENT, choice("CostBasedSpinning", &["StaticSpinning", "CostBasedSpinning",
        "LatencyOptimisedSpinning", "DatabaseMachineSpinning"]), Node, HONOURED,
        ndb "StaticSpinning";
    "how a worker decides whether to look for new messages or to sleep"

    "BuildIndexThreads";
    DATA, count(128, 0, 128), Node, none("indexes are built by the workers");
    "threads that build ordered indexes at a restart"

    "TwoPassInitialNodeRestartCopy";
    DATA, flag(true), Node, none("a node that returns builds indexes while it copies rows");
    "whether an empty node copies rows first and builds indexes afterwards"
};

const BUCKETS: &str = "every table has 3,840 buckets, and partitions follow the workers";
const REALTIME: &str = "a worker that never sleeps would keep the system itself from its CPU; give \
    threads CPUs of their own, or the whole service a policy (CPUSchedulingPolicy in systemd)";
const DISK_DATA: &str = "there are no disk tables";
const GROWS: &str = "memory is taken as it is needed";
const SLOW_DISK: &str = "a slow disk slows writers down and refuses none";
const DIRECT: &str = "the node chooses how it writes by what the file system can do";
const OWN_CHECKPOINTS: &str = "each worker makes its checkpoints by itself";
const STUCK_EPOCHS: &str = "an epoch waits for living nodes only, and dead ones are excluded";
