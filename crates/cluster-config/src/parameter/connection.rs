//! Parameters of the links between nodes: by TCP, by shared memory.

use super::*;

pub(super) const PARAMETERS: &[Parameter] = parameters! {
    "NodeId1";
    LINKS, follows(Unit::Count, "none", 1, 255), Node, HONOURED;
    "one end of the link"

    "NodeId2";
    LINKS, follows(Unit::Count, "none", 1, 255), Node, HONOURED;
    "the other end of the link"

    "NodeIdServer";
    LINKS, follows(Unit::Count, "the node with the lower number", 1, 255), Node, LATER;
    "the end that listens"

    "HostName1";
    LINKS, Kind::Host { default: "" }, Node, LATER;
    "address of the first end, where it is not that of the node"

    "HostName2";
    LINKS, Kind::Host { default: "" }, Node, LATER;
    "address of the second end, where it is not that of the node"

    "Group";
    LINKS, count(55, 0, 200), Node, LATER;
    "how near the ends are to each other; the lower, the nearer"

    "SendBufferMemory";
    LINKS, bytes(256 * M, 256 * K, MOST), Node, HONOURED, ndb "2M";
    "memory for messages that wait to be sent, on each connection of the link; beyond it the other \
     end counts as lost. Less than 64M counts as 64M"

    "OverloadLimit";
    LINKS, bytes(0, 0, MOST), Node, LATER;
    "bytes that wait to be sent above which new work is held back; 0 for a share of the memory"

    "Checksum";
    LINKS, flag(false), Node, none("every message between processes has a checksum");
    "whether messages have a checksum"

    "PreSendChecksum";
    LINKS, flag(false), Node, none("every message between processes has a checksum");
    "whether the checksum is verified before a message is sent"

    "SendSignalId";
    LINKS, flag(false), Node, none("the flight recorder numbers messages by itself");
    "whether messages have numbers, for traces"

    "PortNumber";
    LINKS, follows(Unit::Count, "none", 0, 65_535), System,
        none("nodes tell each other their ports; see ServerPort");
    "port of the link"

    "ReceiveBufferMemory";
    TCP, bytes(2 * M, 16 * K, MOST), Node, LATER;
    "memory for messages that have been received"

    "TCP_RCV_BUF_SIZE";
    TCP, bytes(0, 0, 2 * G), Node, LATER;
    "size of the system's receive buffer; 0 leaves it to the system"

    "TCP_SND_BUF_SIZE";
    TCP, bytes(0, 0, 2 * G), Node, LATER;
    "size of the system's send buffer; 0 leaves it to the system"

    "TCP_MAXSEG_SIZE";
    TCP, bytes(0, 0, 2 * G), Node, LATER;
    "largest segment of the link; 0 leaves it to the system"

    "TcpSpinTime";
    TCP, micros(0, 0, 2_000), Node, LATER;
    "how long to look for messages before sleeping"

    "TcpBind_INADDR_ANY";
    TCP, flag(false), Node, LATER;
    "whether to listen on all addresses of the host"

    "PreferIPVersion";
    TCP, count(4, 4, 6), InitialSystem, LATER;
    "kind of addresses that is tried first: 4 or 6"

    "ShmKey";
    SHARED_MEMORY, follows(Unit::Count, "none", 1, MOST), Node, none(OWN_SEGMENT);
    "number of the shared memory"

    "ShmSize";
    SHARED_MEMORY, bytes(4 * M, 64 * K, MOST), Node, LATER;
    "size of the shared memory"

    "ShmSpinTime";
    SHARED_MEMORY, micros(0, 0, 2_000), Node, LATER;
    "how long to look for messages before sleeping"

    "SigNum";
    SHARED_MEMORY, count(0, 0, MOST), Node, none(OWN_SEGMENT);
    "signal by which the other end is woken"
};

const OWN_SEGMENT: &str = "shared memory is set up by the nodes themselves";
