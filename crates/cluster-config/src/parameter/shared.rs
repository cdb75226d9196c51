//! Parameters of the cluster as a whole, of computers, and those that several kinds of nodes have.

use super::*;

pub(super) const PARAMETERS: &[Parameter] = parameters! {
    "ClusterName" or "Name";
    CLUSTER, text("nines"), System, HONOURED;
    "name of the cluster; a node of another name is turned away"

    "ConfigGenerationNumber";
    CLUSTER, count(0, 0, MOST), Online,
        none("a hash tells whether two configurations are the same");
    "number that NDB's management nodes compare configurations by"

    "PrimaryMGMNode";
    CLUSTER, count(0, 0, MOST), Node, none("every management node is equal");
    "management node that NDB takes changes of the configuration from"

    "Id";
    COMPUTER, text(""), InitialSystem, HONOURED;
    "name by which `ExecuteOnComputer` refers to the host"

    "HostName";
    COMPUTER, Kind::Host { default: "" }, Node, HONOURED;
    "name or address of the host"

    "NodeId" or "Id";
    DATA, follows(Unit::Count, "the lowest free one", 1, 144), InitialSystem, HONOURED;
    "number of the data node in the cluster"

    "NodeId" or "Id";
    MANAGEMENT | CLIENT, follows(Unit::Count, "the lowest free one", 1, 255), InitialSystem,
        HONOURED;
    "number of the node in the cluster"

    "HostName";
    DATA | MANAGEMENT, Kind::Host { default: "localhost" }, Node, HONOURED;
    "host the node runs on and can be reached at"

    "HostName";
    CLIENT, Kind::Host { default: "" }, Node, HONOURED;
    "host the node runs on; without it, a node on any host may take the place"

    "ExecuteOnComputer";
    NODES, text(""), System, HONOURED;
    "`Id` of the [computer] the node runs on, instead of its host name"

    "LocationDomainId";
    COMPUTER | NODES, count(0, 0, 16), System, HONOURED;
    "number of the place (rack, room, zone) of the node; reads prefer replicas in their own place"

    "DataDir";
    DATA, text("."), InitialNode, HONOURED;
    "directory with the node's files; each data node makes a directory of its own in it"

    "DataDir";
    MANAGEMENT, text("."), Node, HONOURED;
    "directory with the node's files, the cluster log among them"

    "DataDir";
    CLIENT, text(""), Node, HONOURED;
    "directory with the node's files, traces of a crash among them"

    "AllowInsecure";
    CLUSTER | NODES, flag(false), Node, HONOURED;
    "lets a node listen on other addresses than loopback without certificates"

    "TlsAuthority";
    CLUSTER | NODES, text(""), Node, HONOURED;
    "PEM file with the certificates of the authority that all nodes' certificates are signed by"

    "TlsCertificate";
    CLUSTER | NODES, text(""), Node, HONOURED;
    "PEM file with the node's certificate; `%n` in it stands for the node's id"

    "TlsKey";
    CLUSTER | NODES, text(""), Node, HONOURED;
    "PEM file with the private key of the certificate; `%n` in it stands for the node's id"

    "RequireCertificate";
    DATA | MANAGEMENT, flag(false), Node,
        none("any address but loopback needs certificates unless AllowInsecure is set");
    "whether NDB's node refuses to start without a certificate"

    "RequireTls";
    DATA | MANAGEMENT, flag(false), Node,
        none("any address but loopback needs certificates unless AllowInsecure is set");
    "whether NDB's node refuses connections without TLS"

    "HttpPort";
    CLUSTER | NODES, count(0, 0, 65_535), Node, HONOURED;
    "TCP port of metrics, health checks and (SQL nodes) change feeds over HTTP; 0 for none"

    "HttpAddress";
    CLUSTER | NODES, Kind::Host { default: "localhost" }, Node, HONOURED;
    "address that HttpPort is on; one that other hosts can reach needs a certificate of the node, \
     or AllowInsecure"

    "EncryptedFileSystem";
    CLUSTER | DATA | MANAGEMENT, count(0, 0, 1), Node, HONOURED;
    "whether files that are written from now on are encrypted; a management node for which nothing \
     is said follows the data nodes"

    "EncryptedFileSystemKeyFile";
    CLUSTER | DATA | MANAGEMENT, text(""), Node, HONOURED;
    "file with the master key of the node's disk; `%n` in it stands for the node's id. Without it \
     and without a command the key is in the environment, in NINES_ENCRYPTION_KEY"

    "EncryptedFileSystemKeyCommand";
    CLUSTER | DATA | MANAGEMENT, text(""), Node, HONOURED;
    "command that prints the master key of the node's disk, as from a key management service; it \
     has 30 seconds"

    "TotalSendBufferMemory";
    NODES, follows(Unit::Bytes, "no limit but that of each connection", 0, MOST), Node, HONOURED;
    "memory for messages to all other nodes that wait to be sent; beyond it the node counts as \
     lost that has most of it. 0 for the default; less than 64M counts as 64M"

    "ExtraSendBufferMemory";
    NODES, bytes(0, 0, 32 * G), Node, HONOURED;
    "memory for messages that wait to be sent, beyond TotalSendBufferMemory where that is given"

    "LinkCompression";
    CLUSTER | NODES, flag(false), Node, HONOURED;
    "packs what the node sends over TCP (LZ4): less on the network, more processor time"

    "ArbitrationRank";
    MANAGEMENT, count(1, 0, 2), Node,
        none("every management node is a voter, and the first that lives breaks ties");
    "order in which nodes become NDB's arbitrator"

    "ArbitrationRank";
    CLIENT, count(0, 0, 2), Node,
        none("every management node is a voter, and the first that lives breaks ties");
    "order in which nodes become NDB's arbitrator"

    "ArbitrationDelay";
    MANAGEMENT | CLIENT, millis(0, 0, MOST), Node,
        none("a tie is broken by a vote that nothing delays");
    "time for which NDB's arbitrator holds its answer back"

    "HeartbeatThreadPriority";
    MANAGEMENT | CLIENT, text(""), Node, none("heartbeats have no thread of their own");
    "scheduling policy and priority of the thread that sends heartbeats"

    "Wan";
    MANAGEMENT | CLIENT, flag(false), Node, none("the system adjusts TCP buffers by itself");
    "whether links use the settings for long distances"
};
