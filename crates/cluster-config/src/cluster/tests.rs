//! What is asked of a configuration.

use std::collections::BTreeSet;

use model::NodeId;
use stdx::Duration;

use super::*;
use crate::threads::ThreadRole;

const ARTICLE: &[u8] = include_bytes!("../../tests/files/cluster-in-a-box.ini");

fn config(text: &str) -> ClusterConfig {
    ClusterConfig::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}")).config
}

fn two_nodes(settings: &str) -> ClusterConfig {
    config(&format!("[mgm]\n[ndbd default]\n{settings}\n[ndbd]\n[ndbd]\n[api]\n"))
}

#[test]
fn the_cluster_in_a_box_is_accepted_as_it_is() {
    let Parsed { config, notices } = ClusterConfig::parse(ARTICLE).unwrap();
    assert_eq!(config.nodes().len(), 19);
    assert_eq!(config.replicas(), 2);
    assert_eq!(config.groups(), [NodeGroup { number: 0, nodes: vec![NodeId(1), NodeId(2)] }]);
    let data = config.node(NodeId(2)).unwrap();
    assert_eq!(data.role, Role::Data);
    assert_eq!(data.host(), Some("127.0.0.1"));
    assert_eq!(data.data_memory(), Some(128 << 30));
    assert_eq!(data.threads(), Threads::Automatic { cpus: Some(32) });
    assert_eq!(data.location(), 2);
    assert_eq!(data.value("UseShm"), Some(Value::Text("1".into())));
    let spin = Value::Text("LatencyOptimisedSpinning".into());
    assert_eq!(data.value("SpinMethod"), Some(spin));
    assert_eq!(data.directory().unwrap(), "/home/nines/cluster/data/node-2");
    assert!(data.is_on_loopback());
    let sql: Vec<_> = config.nodes_of(Role::Sql).map(|node| node.id.0).collect();
    assert_eq!(sql, (51..67).collect::<Vec<_>>());
    assert_eq!(config.management_node_ids(), [NodeId(49)]);
    assert_eq!(config.node(NodeId(49)).unwrap().port(), Some(1_186));
    assert!(notices.iter().any(|notice| notice.parameter == "NoOfFragmentLogParts"));
}

#[test]
fn clusters_of_one_host_have_ports_of_their_own() {
    let ports = |management: &str| {
        let config = config(&format!("[mgm]\n{management}\n[ndbd]\n[ndbd]\n[api]\n"));
        let again = ClusterConfig::parse(config.canonical().as_bytes()).unwrap().config;
        assert_eq!(again, config, "whoever gets the text finds the nodes at the same ports");
        let port = |id| config.node(NodeId(id)).and_then(Node::port).unwrap();
        (port(1), port(2))
    };
    assert_eq!(ports(""), (11_861, 11_862));
    assert_eq!(ports("PortNumber=1187"), (11_871, 11_872), "too near for more than ten nodes");
    assert_eq!(ports("PortNumber=2186"), (21_861, 21_862));
    assert_eq!(ports("PortNumber=3261"), (32_611, 32_612));
    assert_eq!(ports("PortNumber=3262"), (3_263, 3_264), "beyond are ports of clients");
    assert_eq!(ports("PortNumber=40000"), (40_001, 40_002));
    assert_eq!(ports("PortNumber=65535"), (65_391, 65_392));
    // The management node with the lowest id decides, wherever it stands.
    let text = "NodeId=50\nPortNumber=3000\n[mgm]\nNodeId=49\nPortNumber=2000";
    assert_eq!(ports(text), (20_001, 20_002));
    for management in 0..=u16::MAX {
        let base = data_port_base(management);
        assert!(base.checked_add(DATA_NODE_ID_MAX).is_some(), "{management}: {base}");
        assert!(!(base + 1..=base + DATA_NODE_ID_MAX).contains(&management) || management == 0);
    }
}

#[test]
fn the_canonical_text_reads_as_the_same() {
    let article = ClusterConfig::parse(ARTICLE).unwrap().config;
    let other = config(
        "[cluster]\nName=shop\nAllowInsecure=yes\n[computer]\nId=a\nHostName=db1\n[ndb_mgmd]\n\
         ExecuteOnComputer=a\n[ndbd]\nHostName=db2\nDataDir=\"/a # b\"\n[ndbd]\nHostName=db3\n\
         ThreadConfig=ldm={count=2},main\n[api]\n[mysqld]\n[tcp default]\nSendBufferMemory=4M\n\
         [tcp]\nNodeId1=2\nNodeId2=1\nHostName1=x\n",
    );
    for config in [article, other] {
        let text = config.canonical();
        let again = ClusterConfig::parse(text.as_bytes()).unwrap().config;
        assert_eq!(again, config, "{text}");
        assert_eq!(again.canonical(), text);
        assert_eq!(again.fingerprint(), config.fingerprint());
        let print = config.fingerprint();
        assert_eq!(print.to_string().parse(), Ok(print));
    }
}

#[test]
fn what_does_not_matter_does_not_change_the_fingerprint() {
    let one = config(
        "[ndb_mgmd]\nNodeId=9\n[ndbd default]\nDataMemory=1G\n[ndbd]\nNodeId=1\n[ndbd]\nNodeId=2\n",
    );
    let other = config(
        "[db]\nid: 2\n[DB]\nId: 1\nDATAMEMORY=1024M # all\n[ndbd default]\n\
         datamemory=1048576K\n[mgm]\nID=9\n",
    );
    assert_eq!(one.fingerprint(), other.fingerprint());
    assert_ne!(one.fingerprint(), two_nodes("").fingerprint());
    let canonical = "[ndbd]\nNodeId=1\nDataMemory=1073741824\n[ndbd]\nNodeId=2\n\
        DataMemory=1073741824\n[ndb_mgmd]\nNodeId=9\n";
    assert_eq!(one.canonical(), canonical);
}

#[test]
fn threads_in_the_order_of_precedence() {
    let threads = |settings: &str| two_nodes(settings).nodes()[0].threads();
    assert_eq!(threads(""), Threads::Automatic { cpus: None });
    assert_eq!(threads("NumCPUs=8"), Threads::Automatic { cpus: Some(8) });
    assert_eq!(threads("MaxNoOfExecutionThreads=4"), Threads::Number(4));
    let Threads::Manual(manual) = threads("ThreadConfig=ldm={count=3},main") else { panic!() };
    assert_eq!(manual.count(ThreadRole::Rows), 3);
    let both = "AutomaticThreadConfig=1\nThreadConfig=ldm";
    assert_eq!(threads(both), Threads::Automatic { cpus: None });
}

#[test]
fn what_may_wait_to_be_sent() {
    let text = "[mgm]\nNodeId=49\n[ndbd default]\nTotalSendBufferMemory=1G\n[ndbd]\nNodeId=1\n\
        [ndbd]\nNodeId=2\nExtraSendBufferMemory=1M\n[tcp default]\nSendBufferMemory=100M\n\
        [tcp]\nNodeId1=2\nNodeId2=1\nSendBufferMemory=200M\n";
    let some = config(text);
    let between = |one, other| some.send_buffer(NodeId(one), NodeId(other)).map(|size| size >> 20);
    assert_eq!((between(1, 2), between(2, 1), between(1, 49)), (Some(200), Some(200), Some(100)));
    let total = |node| some.node(NodeId(node)).unwrap().send_buffers().map(|size| size >> 20);
    assert_eq!((total(1), total(2), total(49)), (Some(1_024), Some(1_025), None));
    let none = two_nodes("TotalSendBufferMemory=0");
    assert_eq!(none.send_buffer(NodeId(1), NodeId(2)), None);
    assert_eq!(none.nodes()[0].send_buffers(), None);
    let shared = config("[mgm]\n[ndbd]\n[ndbd]\n[shm default]\nSendBufferMemory=80M\n");
    assert_eq!(shared.send_buffer(NodeId(1), NodeId(2)), Some(80 << 20));
}

#[test]
fn cpus_without_a_thread_config() {
    let locked = |settings: &str| two_nodes(settings).nodes()[0].locked_cpus();
    assert_eq!(locked(""), (None, None));
    let (workers, disk) = locked("LockExecuteThreadToCPU=1,2-3\nLockMaintThreadsToCPU=0");
    assert_eq!(
        (workers.unwrap().to_string(), disk.unwrap().to_string()),
        ("1-3".into(), "0".into())
    );
}

#[test]
fn certificates_carry_the_id() {
    let config = config(
        "[cluster]\nTlsAuthority=/c/ca.pem\nTlsCertificate=/c/%n.pem\nTlsKey=/c/%n.key\n[mgm]\n\
         NodeId=49\n[ndbd]\nHttpPort=8080\n",
    );
    let tls = config.node(NodeId(49)).unwrap().tls().unwrap();
    assert_eq!(tls.authority, "/c/ca.pem");
    assert_eq!((tls.certificate, tls.key), ("/c/49.pem".into(), "/c/49.key".into()));
    assert_eq!(config.node(NodeId(1)).unwrap().http_port(), Some(8_080));
    assert_eq!(config.replicas(), 1);
}

#[test]
fn data_nodes_at_the_same_place_are_nearby() {
    let config = config(
        "[mgm]\nNodeId=49\n[ndbd]\nHostName=a\nLocationDomainId=1\n[ndbd]\nHostName=b\n\
         LocationDomainId=2\n[mysqld]\nNodeId=51\nLocationDomainId=2\n[mysqld]\nNodeId=52\n",
    );
    let nearby = |node| config.kernel(NodeId(node), 1, 1).nearby;
    assert_eq!((nearby(1), nearby(51)), (vec![NodeId(1)], vec![NodeId(2)]));
    assert_eq!((nearby(49), nearby(52)), (vec![], vec![]));
}

#[test]
fn the_kernel_is_told() {
    let config = two_nodes(
        "DataMemory=1G\nTransactionMemory=100M\n\
         HeartbeatIntervalDbDb=1500\nTimeBetweenEpochs=0\nDiskless=1\n\
         TimeBetweenGlobalCheckpoints=1000\nTransactionInactiveTimeout=0\nRedoBuffer=64M\n\
         TransactionDeadlockDetectionTimeout=500\nMaxDMLOperationsPerTransaction=1000000\n\
         FragmentLogFileSize=64M\nRestartTimeTarget=10\nMaxDiskWriteSpeed=5M\nRecoveryWork=50",
    );
    let kernel = config.kernel(NodeId(1), 4, 1);
    assert_eq!(kernel.data_nodes, [NodeId(1), NodeId(2)]);
    assert_eq!(kernel.management_nodes, [NodeId(145)]);
    assert_eq!((kernel.replicas, kernel.disk), (2, false));
    assert_eq!(kernel.data_memory, 256 << 20);
    assert_eq!(kernel.heartbeat_interval, Duration::from_millis(1_500));
    assert_eq!(kernel.lease, Duration::from_secs(6));
    assert_eq!(kernel.election_timeout, Duration::from_millis(4_500));
    assert_eq!(kernel.epoch_interval, Duration::from_millis(1));
    assert_eq!(kernel.save_interval, Duration::from_secs(1));
    assert_eq!(kernel.lock_timeout, Duration::from_millis(500));
    assert!(kernel.inactive_timeout > Duration::from_secs(1_000_000));
    assert_eq!(kernel.operations_max, 1_000_000);
    assert_eq!(kernel.transaction_memory, 25 << 20);
    assert_eq!((kernel.redo_segment, kernel.redo_buffer), (64 << 20, 64 << 20));
    assert_eq!(kernel.restart_time_target, Duration::from_secs(10));
    assert_eq!(kernel.checkpoint_speed, (5 << 20, 5 << 20));
    assert_eq!(kernel.recovery_work, 50);
    // What the file does not say is as the kernel has it; memory is as the machine has it.
    let plain = two_nodes("").kernel(NodeId(2), 0, 80);
    assert_eq!((plain.operations_max, plain.transaction_memory), (u32::MAX, 0));
    assert_eq!((plain.data_memory, plain.lease), (80, Duration::from_millis(800)));
    // Another node is told the same about membership.
    assert_eq!(config.kernel(NodeId(145), 1, 9).lease, Duration::from_secs(6));
}

#[test]
fn the_examples_of_the_documentation_are_accepted() {
    let page = include_str!("../../../../docs/configuration.md");
    let blocks: Vec<&str> = page.split("```ini\n").skip(1).collect();
    let blocks: Vec<&str> =
        blocks.iter().filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect();
    let files = [
        include_str!("../../tests/files/one-box.ini"),
        include_str!("../../tests/files/three-hosts.ini"),
    ];
    for file in files {
        assert!(blocks.contains(&file), "not on the page:\n{file}");
    }
    for block in blocks {
        let problems = ClusterConfig::parse(block.as_bytes()).err();
        assert_eq!(problems, None, "{block}");
        // Nodes that trust the network make no links with nodes that do not.
        let config = config(block);
        let kernel = config.nodes().iter().filter(|node| !node.role.is_client());
        let trust: BTreeSet<bool> = kernel.map(Node::allow_insecure).collect();
        assert_eq!(trust.len(), 1, "AllowInsecure is of some nodes only:\n{block}");
    }
}

#[test]
fn a_management_node_encrypts_as_the_data_nodes_do() {
    let encrypts = |text: &str| {
        let config = config(text);
        let all: Vec<bool> = config.nodes().iter().map(|node| config.encrypts(node)).collect();
        (all, config.is_encrypted())
    };
    let nodes = "[ndbd]\n[ndbd]\n[ndb_mgmd]\nNodeId=9\n";
    assert_eq!(encrypts(nodes), (vec![false, false, false], false));
    let all = format!("[ndbd default]\nEncryptedFileSystem=1\n{nodes}[mysqld]\n");
    assert_eq!(encrypts(&all), (vec![true, true, true, false], true));
    let cluster = format!("[cluster]\nEncryptedFileSystem=1\n{nodes}");
    assert_eq!(encrypts(&cluster), (vec![true, true, true], true));
    let plain = format!("{all}[ndb_mgmd]\nNodeId=10\nPortNumber=9\nEncryptedFileSystem=0\n");
    assert!(!encrypts(&plain).1);
    let one = nodes.replacen("[ndbd]", "[ndbd]\nEncryptedFileSystem=1", 1);
    assert_eq!(encrypts(&one), (vec![true, false, true], false));
    let config = config(&format!(
        "[ndbd default]\nEncryptedFileSystemKeyFile=/keys/%n\n[ndb_mgmd default]\n\
         EncryptedFileSystemKeyCommand=kms get 9\n{nodes}"
    ));
    assert_eq!(config.nodes()[1].encryption_key_file().as_deref(), Some("/keys/2"));
    assert_eq!(config.nodes()[2].encryption_key_command(), Some("kms get 9"));
}
