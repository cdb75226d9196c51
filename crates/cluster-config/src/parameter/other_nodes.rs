//! Parameters of management nodes, and of SQL nodes and other clients.

use super::*;

pub(super) const PARAMETERS: &[Parameter] = parameters! {
    "PortNumber";
    MANAGEMENT, count(1_186, 0, 65_535), System, HONOURED;
    "TCP port on which other nodes and operators reach the management node"

    "PortNumberStats";
    MANAGEMENT, follows(Unit::Count, "none", 0, 65_535), Node,
        none("metrics are at HttpPort");
    "port for statistics"

    "LogDestination";
    MANAGEMENT, text("FILE:filename=cluster.log,maxsize=1000000,maxfiles=6"), Node, LATER;
    "where the cluster log goes: CONSOLE, SYSLOG, FILE; several with semicolons between them"

    "MaxNoOfSavedEvents";
    MANAGEMENT, count(100, 0, 100), Node, LATER;
    "events that can be looked at afterwards"

    "CertificateLifetime";
    MANAGEMENT, seconds(7_776_000, 5, 315_360_000), Node, HONOURED;
    "how long the certificates of nodes and operators are good that the management node signs; \
     nodes renew theirs when two thirds of it are over"

    "HeartbeatIntervalMgmdMgmd";
    MANAGEMENT, millis(1_500, 100, MOST), Node,
        none("management nodes are watched as data nodes are");
    "time between heartbeats of management nodes"

    "AllowUnresolvedHostNames";
    MANAGEMENT | TCP, flag(false), Node,
        none("names are looked up when a link is made, and again until there is an address");
    "whether a start goes on when a host name has no address"

    "QueryMemory";
    CLIENT, follows(Unit::Bytes, "a quarter of the host's memory", 16 * M, 16 * T), Node, HONOURED;
    "memory that all statements of an SQL node together may keep for sorts, joins, groups and rows \
     of subqueries; what does not fit goes to temporary files. SET GLOBAL \
     global_connection_memory_limit changes it at once, until the node is restarted"

    "TempDir";
    CLIENT, text(""), Node, HONOURED;
    "directory for temporary files of statements whose rows do not fit QueryMemory; without it the \
     directory tmp in the node's own. Files have no names, and are encrypted if some node has \
     EncryptedFileSystem"

    "ConnectionMap";
    CLIENT, text(""), Node, none("every client is connected to every data node");
    "data nodes that a client is connected to"

    "BatchByteSize";
    CLIENT, bytes(16 * K, K, M), Node, LATER;
    "bytes that a scan asks of a partition at a time"

    "BatchSize";
    CLIENT, count(256, 1, 992), Node, LATER;
    "rows that a scan asks of a partition at a time"

    "MaxScanBatchSize";
    CLIENT, bytes(256 * K, 32 * K, 16 * M), Node, LATER;
    "bytes that a scan asks of all partitions at a time"

    "AutoReconnect";
    CLIENT, flag(false), Node, none("a client that lost the cluster always comes back");
    "whether a client that lost the cluster connects again"

    "DefaultOperationRedoProblemAction";
    CLIENT, choice("QUEUE", &["QUEUE", "ABORT"]), Node, none("a slow disk slows writers down");
    "what becomes of changes that the redo log has no room for"

    "ConnectBackoffMaxTime";
    CLIENT, millis(0, 0, MOST), Node, LATER;
    "longest pause between two tries to reach a data node that has failed"

    "StartConnectBackoffMaxTime";
    CLIENT, millis(0, 0, MOST), Node, LATER;
    "the same for a data node that has not been reached yet"

    "ApiVerbose";
    CLIENT, count(0, 0, 100), Node, none("the flight recorder has every message");
    "how much the client library writes about itself"

    "MaxAllocate";
    DATA | CLIENT, bytes(32 * M, M, G), Node, none("removed, in NDB too");
    "bytes that the client library takes at a time"
};
