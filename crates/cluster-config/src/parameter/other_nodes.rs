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

    "DrainNotice";
    CLIENT, millis(0, 0, 3_600_000), Node, HONOURED;
    "for how long an SQL node that is told to end goes on as before while /ready says 503, so that \
     load balancers send no more clients; a little more than the interval of their checks times \
     the failures that they wait for"

    "DrainTimeout";
    CLIENT, millis(10_000, 0, 86_400_000), Node, HONOURED;
    "for how long an SQL node that is told to end lets clients finish their transactions and \
     cursors; connections that have none open end at once. What is open behind it is rolled back"

    "BackupDataDir";
    CLIENT, text(""), Node, HONOURED;
    "directory of the SQL node's host, or s3://bucket/path, that backups without a place of their \
     own are made in"

    "BackupMaxRate";
    CLIENT, bytes(0, 0, T), Node, HONOURED;
    "bytes of rows that each backup or restore of an SQL node handles in a second at most, before \
     they are packed; 0 for no limit. WITH max_rate = … goes before"

    "BackupS3Endpoint";
    CLIENT, text(""), Node, HONOURED;
    "address of the object store for backups, https://HOST[:PORT]; without it AWS_ENDPOINT_URL_S3 \
     or AWS_ENDPOINT_URL of the node's environment, or else Amazon's"

    "BackupS3Region";
    CLIENT, text(""), Node, HONOURED;
    "region of the object store; without it AWS_REGION of the environment, or else us-east-1"

    "BackupS3CredentialsFile";
    CLIENT, text(""), Node, HONOURED;
    "file with aws_access_key_id and aws_secret_access_key, read anew for each backup; without it \
     the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE"

    "BackupS3Authorities";
    CLIENT, text(""), Node, HONOURED;
    "PEM file with the certificates of the authorities that sign that of the object store; without \
     it SSL_CERT_FILE of the environment, or else those of the host"

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
