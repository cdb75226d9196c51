//! Parameters of data nodes: numbers of records and objects, backups, statistics, reports.

use super::*;

pub(super) const PARAMETERS: &[Parameter] = parameters! {
    // Records of transactions.
    "MaxNoOfConcurrentTransactions";
    DATA, count(16_384, 32, MOST), Node, HONOURED, ndb "4096";
    "open transactions that each coordinator of the node may have"

    "MaxDMLOperationsPerTransaction";
    DATA, count(4_294_967_295, 32, 4_294_967_295), Node, HONOURED;
    "changes of rows in a transaction"

    "MaxNoOfConcurrentOperations";
    DATA, count(32_768, 32, MOST), Node, none(RECORDS);
    "operations of all transactions that a coordinator may have under way"

    "MaxNoOfLocalOperations";
    DATA, follows(Unit::Count, "a tenth more than MaxNoOfConcurrentOperations", 32, MOST), Node,
        none(RECORDS);
    "operations on the rows of a data node that may be under way"

    "MaxNoOfConcurrentIndexOperations";
    DATA, count(8_192, 0, MOST), Node, none(RECORDS);
    "operations on unique indexes that may be under way"

    "MaxNoOfFiredTriggers";
    DATA, count(4_000, 0, MOST), Node, none(RECORDS);
    "internal triggers that may be under way"

    "TransactionBufferMemory";
    DATA, bytes(M, K, MOST), Node, none(RECORDS);
    "memory for keys of operations on unique indexes"

    "MaxNoOfConcurrentScans";
    DATA, count(256, 2, 500), Node, none(RECORDS);
    "scans that a coordinator may have open"

    "MaxNoOfLocalScans";
    DATA, follows(Unit::Count, "from MaxNoOfConcurrentScans and the data nodes", 32, MOST), Node,
        none(RECORDS);
    "scans of partitions that a data node may have open"

    "BatchSizePerLocalScan";
    DATA, count(256, 1, 992), Node, none(RECORDS);
    "rows for which a scan reserves locks"

    "MaxParallelScansPerFragment";
    DATA, count(256, 1, MOST), Node, none(RECORDS);
    "scans of one partition at a time before others wait"

    "ReservedConcurrentOperations";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of operations that are set aside at the start"

    "ReservedConcurrentTransactions";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of transactions that are set aside at the start"

    "ReservedConcurrentScans";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of scans that are set aside at the start"

    "ReservedConcurrentIndexOperations";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of operations on unique indexes that are set aside at the start"

    "ReservedFiredTriggers";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of internal triggers that are set aside at the start"

    "ReservedLocalScans";
    DATA, count(0, 0, MOST), Node, none(RECORDS);
    "records of scans of partitions that are set aside at the start"

    "ReservedTransactionBufferMemory";
    DATA, bytes(0, 0, MOST), Node, none(RECORDS);
    "memory for keys that is set aside at the start"

    // Tables and what belongs to them.
    "MaxNoOfTables";
    DATA, count(128, 8, 400_000), Node, none(CATALOG);
    "tables, indexes and hidden tables of all databases"

    "MaxNoOfAttributes";
    DATA, count(1_000, 32, MOST), Node, none(CATALOG);
    "columns of all tables"

    "MaxNoOfOrderedIndexes";
    DATA, count(128, 0, MOST), Node, none(CATALOG);
    "ordered indexes of all tables"

    "MaxNoOfUniqueHashIndexes";
    DATA, count(64, 0, MOST), Node, none(CATALOG);
    "unique indexes of all tables"

    "MaxNoOfTriggers";
    DATA, count(768, 0, MOST), Node, none(CATALOG);
    "internal triggers of all tables"

    "MaxNoOfSubscriptions";
    DATA, count(0, 0, MOST), Node, LATER;
    "streams of changes; 0 for one for each table"

    "MaxNoOfSubscribers";
    DATA, count(0, 0, MOST), Node, LATER;
    "receivers of streams of changes; 0 for twice as many as streams"

    "MaxNoOfConcurrentSubOperations";
    DATA, count(256, 0, MOST), Node, LATER;
    "streams of changes that may be opened or closed at a time"

    "MaxFKBuildBatchSize";
    DATA, count(64, 16, 512), Node, LATER;
    "rows looked at in one go when a foreign key is made"

    "MaxUIBuildBatchSize";
    DATA, count(64, 16, 512), Node, none("the building of an index yields to other work by itself");
    "rows looked at in one go when a unique index is made"

    "MaxReorgBuildBatchSize";
    DATA, count(64, 16, 512), Node, LATER;
    "rows looked at in one go when partitions move"

    "MaxParallelCopyInstances";
    DATA, count(0, 0, 64), Node, LATER;
    "partitions that a returning node copies at a time; 0 follows the threads"

    // Files.
    "MaxNoOfOpenFiles";
    DATA, count(0, 0, MOST), Node, none("files are opened as they are needed");
    "files that a data node may have open"

    "InitialNoOfOpenFiles";
    DATA, count(27, 20, MOST), Node, none("files are opened as they are needed");
    "files for which NDB starts threads at once"

    "MaxNoOfSavedMessages";
    DATA, count(25, 0, MOST), Node, LATER;
    "crashes whose traces are kept"

    "DiskIOThreadPool";
    DATA, count(2, 0, MOST), Node, none(DISK_DATA);
    "threads that read and write disk tables"

    "DiskPageBufferMemory";
    DATA, bytes(64 * M, 4 * M, 16 * T), Node, none(DISK_DATA);
    "memory for pages of disk tables"

    "DiskPageBufferEntries";
    DATA, count(64 * M, 1, 16 * T), Node, none(DISK_DATA);
    "pages of disk tables that have a record"

    "DiskDataUsingSameDisk";
    DATA, flag(true), Node, none(DISK_DATA);
    "whether disk tables share a disk with checkpoints"

    "MaxDiskDataLatency";
    DATA, millis(0, 0, 8_000), Node, none(DISK_DATA);
    "mean time for reading disk tables above which transactions are refused"

    "InitialLogFileGroup";
    DATA, text(""), System, none(DISK_DATA);
    "log files of disk tables that are made when the cluster is founded"

    "InitialTablespace";
    DATA, text(""), System, none(DISK_DATA);
    "tablespace that is made when the cluster is founded"

    "UndoIndexBuffer";
    DATA, bytes(2 * M, M, MOST), Node, none(REMOVED);
    "memory for undo records of indexes"

    "UndoDataBuffer";
    DATA, bytes(16 * M, M, MOST), Node, none(REMOVED);
    "memory for undo records of rows"

    // Backups.
    "BackupDataBufferSize";
    DATA, bytes(16 * M, 512 * K, MOST), Node, LATER;
    "memory for rows of a backup that wait to be written"

    "BackupLogBufferSize";
    DATA, bytes(16 * M, 2 * M, MOST), Node, LATER;
    "memory for changes during a backup that wait to be written"

    "BackupMemory";
    DATA, bytes(32 * M, 0, MOST), Node, none("it is the sum of the buffers of a backup");
    "memory for backups"

    "BackupWriteSize";
    DATA, bytes(256 * K, 32 * K, MOST), Node, LATER;
    "bytes of a backup that are written at once"

    "BackupMaxWriteSize";
    DATA, bytes(M, 256 * K, MOST), Node, LATER;
    "bytes of a backup that are written at once at most"

    "BackupDiskWriteSpeedPct";
    DATA, percent(50, 0, 90), Node, LATER;
    "share of the disk's speed that a backup may take from checkpoints"

    "BackupReportFrequency";
    DATA, seconds(0, 0, MOST), Node, LATER;
    "time between reports of a backup's progress; 0 for none"

    "CompressedBackup";
    DATA, flag(false), Node, LATER;
    "whether backups are compressed"

    "EnableMultithreadedBackup";
    DATA, count(1, 0, 1), Node, LATER;
    "whether all workers take part in a backup"

    "RequireEncryptedBackup";
    DATA | CLIENT, count(0, 0, 1), Node, HONOURED;
    "whether a backup without a key is refused; 1 for any data node or for the SQL node that makes \
     it is enough"

    // Statistics of indexes.
    "IndexStatAutoCreate";
    DATA, flag(true), Node, LATER;
    "whether statistics are made with an index"

    "IndexStatAutoUpdate";
    DATA, flag(true), Node, LATER;
    "whether statistics follow the changes of an index"

    "IndexStatSaveSize";
    DATA, bytes(32_768, 0, MOST), InitialNode, LATER;
    "size of the samples of an index"

    "IndexStatSaveScale";
    DATA, percent(100, 0, MOST), InitialNode, LATER;
    "how fast that size grows with the index"

    "IndexStatTriggerPct";
    DATA, percent(100, 0, MOST), InitialNode, LATER;
    "share of an index that has to change before its statistics are renewed"

    "IndexStatTriggerScale";
    DATA, percent(100, 0, MOST), InitialNode, LATER;
    "how fast that share falls with the size of the index"

    "IndexStatUpdateDelay";
    DATA, seconds(60, 0, MOST), InitialNode, LATER;
    "pause between two renewals of the statistics of an index"

    // Reports.
    "EventLogBufferSize";
    DATA, bytes(8_192, 0, 65_536), System, LATER;
    "memory for events that can be looked at afterwards"

    "MemReportFrequency";
    DATA, seconds(0, 0, MOST), Node, LATER;
    "time between reports of the memory in use; 0 for those of thresholds only"

    "StartupStatusReportFrequency";
    DATA, seconds(0, 0, MOST), Node, LATER;
    "time between reports of a restart's progress; 0 for none"

    "LogLevelStartup";
    DATA, count(1, 0, 15), Node, LATER;
    "how much is told of starts"

    "LogLevelShutdown";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of stops"

    "LogLevelStatistic";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of transactions and operations"

    "LogLevelCheckpoint";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of checkpoints"

    "LogLevelNodeRestart";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of nodes that return"

    "LogLevelConnection";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of links between nodes"

    "LogLevelError";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of errors and warnings"

    "LogLevelCongestion";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of overload"

    "LogLevelInfo";
    DATA, count(0, 0, 15), Node, LATER;
    "how much is told of everything else"

    "DictTrace";
    DATA, count(0, 0, 100), Node, none("the flight recorder has every message");
    "how much is recorded of changes of definitions"

    // What older files have in them.
    "DiskCheckpointSpeed";
    DATA, bytes(10 * M, M, MOST), Node, none("removed, in NDB too; see MaxDiskWriteSpeed");
    "speed of checkpoints"

    "DiskCheckpointSpeedInRestart" or "DiskCheckpointSpeedRestart";
    DATA, bytes(100 * M, M, MOST), Node, none("removed, in NDB too; see MaxDiskWriteSpeed");
    "speed of checkpoints during a restart"

    "NoOfDiskPagesToDiskAfterRestartTUP";
    DATA, count(40, 1, MOST), Node, none(REMOVED);
    "speed of checkpoints of rows"

    "NoOfDiskPagesToDiskAfterRestartACC";
    DATA, count(20, 1, MOST), Node, none(REMOVED);
    "speed of checkpoints of indexes"

    "NoOfDiskPagesToDiskDuringRestartTUP";
    DATA, count(40, 1, MOST), Node, none(REMOVED);
    "speed of checkpoints of rows during a restart"

    "NoOfDiskPagesToDiskDuringRestartACC";
    DATA, count(20, 1, MOST), Node, none(REMOVED);
    "speed of checkpoints of indexes during a restart"

    "MaxNoOfIndexes";
    DATA, count(128, 0, MOST), Node, none(REMOVED);
    "indexes of all tables"

    "ReservedSendBufferMemory";
    DATA, bytes(0, 0, MOST), Node, none(REMOVED);
    "memory for messages that is set aside for each link"
};

const RECORDS: &str = "records are made as they are needed, within DataMemory";
const CATALOG: &str = "the catalog grows with its tables";
const DISK_DATA: &str = "there are no disk tables";
const REMOVED: &str = "removed, in NDB too";
