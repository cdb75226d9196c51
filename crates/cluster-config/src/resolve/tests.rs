//! Files and what becomes of them.

use stdx::Prng;

use super::*;
use crate::cluster::NodeGroup;

fn problems(text: &str) -> Vec<String> {
    match ClusterConfig::parse(text.as_bytes()) {
        Ok(parsed) => panic!("accepted: {parsed:?}"),
        Err(problems) => problems.iter().map(|problem| problem.at("f").to_string()).collect(),
    }
}

fn config(text: &str) -> ClusterConfig {
    ClusterConfig::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}")).config
}

fn ids(config: &ClusterConfig) -> Vec<(u16, Role)> {
    config.nodes().iter().map(|node| (node.id.0, node.role)).collect()
}

#[test]
fn default_sections_apply_wherever_they_stand() {
    let config = config(
        "[ndbd]\nDataMemory=2G\n[ndbd default]\nDataMemory=1G\nNoOfReplicas=2\n[ndbd]\n[mgm]\n\
         [mysqld default]\nHostName=a\n[ndbd default]\nRedoBuffer=1M\n[api]\n[mysqld]\n\
         [api default]\nBatchSize=7\n",
    );
    let memory: Vec<_> = config.nodes_of(Role::Data).map(Node::data_memory).collect();
    assert_eq!(memory, [Some(2 << 30), Some(1 << 30)]);
    assert!(
        config
            .nodes_of(Role::Data)
            .all(|node| { node.settings().given("RedoBuffer") == Some(&Value::Number(1 << 20)) })
    );
    let clients = config.nodes().iter().filter(|node| node.role.is_client());
    for client in clients {
        assert_eq!(client.host(), Some("a"));
        assert_eq!(client.value("BatchSize"), Some(Value::Number(7)));
    }
}

#[test]
fn all_problems_at_once() {
    let text = "[ndbd default]\nDataMemroy=1G\nNoOfReplicas=5\nPortNumber=1\n[ndbd]\nNodeId=1\n\
        NodeId=2\nBogus\n[ndbd]\nNodeId=1\n[nonsense]\nA=1\n[mysqld]\nNodeId=300\n[ndbd default]\n\
        NodeGroup=1\n";
    let expected = [
        "f:2: `DataMemroy` is not a parameter; did you mean DataMemory?",
        "f:3: NoOfReplicas=5 is out of range; write 4 at most",
        "f:4: PortNumber does not belong in [ndbd]; write it in [ndb_mgmd]",
        "f:7: NodeId is given twice; first in line 6",
        "f:8: `Bogus` is neither `key=value` nor a section",
        "f:10: NodeId=1 belongs to another section; ids are unique",
        "f:11: [nonsense] is not a section; known are [ndbd], [ndb_mgmd], [mysqld], [api], [tcp], \
         [shm], [computer], each also as [… default], and [cluster]",
        "f:14: NodeId=300 is out of range; write 255 at most",
        "f:16: NodeGroup is of one section; write it in [ndbd], not in default",
        "f: 1 data nodes cannot be divided into groups of NoOfReplicas=2; add data nodes, or \
         change NoOfReplicas so that it divides them",
        "f: there is no management node, which the others ask for the configuration; add a \
         section [ndb_mgmd]",
    ];
    let found = problems(text);
    for line in expected.iter().filter(|line| !line.contains("divided")) {
        assert!(found.iter().any(|found| found == line), "{line} is not in {found:#?}");
    }
    assert_eq!(
        problems(""),
        [
            "f: there is no data node; add a section [ndbd] for each",
            "f: there is no management node, which the others ask for the configuration; add a \
         section [ndb_mgmd]",
        ]
    );
}

#[test]
fn what_does_not_fit_together() {
    let cases = [
        ("[ndbd]\n[ndbd]\n[ndbd]\n", "f: 3 data nodes cannot be divided into groups of NoOfRep"),
        ("[ndbd]\nNoOfReplicas=1\n[ndbd]\n", "f:4: NoOfReplicas is not the same for all nodes"),
        ("[ndbd]\n[ndbd]\nNoOfReplicas=1\n", "f:4: NoOfReplicas is not the same for all nodes"),
        ("[ndbd]\nNodeGroup=1\n[ndbd]\n", "f:3: NodeGroup=1 is not there; write 0 at most"),
        ("[ndbd]\nNodeGroup=65536\n[ndbd]\n[ndbd]\nNodeGroup=9\n", "f:6: NodeGroup=9 is not there"),
        ("[ndbd]\nServerPort=1186\n", "f:3: ServerPort=1186 of node 1 is also PortNumber of node"),
        ("[ndbd]\nHttpPort=11861\n", "f:3: HttpPort=11861 of node 1 is also ServerPort of node 1"),
        ("[ndbd]\nExecuteOnComputer=a\n", "f:3: ExecuteOnComputer=a names no computer"),
        ("[computer]\nId=a\n[ndbd]\n", "f:2: [computer] a has no HostName"),
        ("[computer]\nHostName=a\n[ndbd]\n", "f:2: [computer] has no Id"),
        ("[ndbd]\nTlsKey=x\n", "f:3: TlsKey needs TlsAuthority beside it"),
        ("[ndbd]\n[tcp]\nNodeId1=1\n", "f:3: [tcp] has no NodeId2"),
        ("[ndbd]\n[tcp]\nNodeId1=1\nNodeId2=9\n", "f:3: NodeId2=9 is not a node of this file"),
        ("[ndbd]\n[tcp]\nNodeId1=1\nNodeId2=1\n", "f:3: NodeId1 and NodeId2 are the same"),
        (
            "[ndbd]\nMinDiskWriteSpeed=9M\nMaxDiskWriteSpeed=8M\n",
            "f:3: MinDiskWriteSpeed is more than MaxDiskWriteSpeed",
        ),
    ];
    for (text, expected) in cases {
        let found = problems(&format!("[mgm]\n{text}"));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(expected), "{text}: {found:?}");
    }
    let groups = "[ndbd default]\nNoOfReplicas=1\n[ndbd]\nNodeGroup=0\n[ndbd]\nNodeGroup=0\n";
    let found = problems(&format!("[mgm]\n{groups}"));
    assert_eq!(found, ["f:7: NodeGroup=0 has more nodes than NoOfReplicas=1"]);
}

#[test]
fn ids_are_assigned_by_role() {
    let first = config(
        "[mgm]\n[mgm]\nPortNumber=1187\n[api]\n[ndbd]\nNodeId=2\n[ndbd]\n[mysqld]\nNodeId=200\n",
    );
    let expected = [
        (1, Role::Data),
        (2, Role::Data),
        (145, Role::Management),
        (146, Role::Management),
        (151, Role::Api),
        (200, Role::Sql),
    ];
    assert_eq!(ids(&first), expected);
    let many = format!("[mgm]\n[ndbd]\n{}", "[api]\n".repeat(260));
    let found = problems(&many);
    assert_eq!(found.len(), 7);
    assert_eq!(found[0], "f:256: no id is left for this api node; the largest is 255");
    let found =
        problems(&format!("[mgm]\n[ndbd default]\nNoOfReplicas=1\n{}", "[db]\n".repeat(145)));
    assert_eq!(found, ["f:148: no id is left for this data node; the largest is 144"]);
}

#[test]
fn ids_are_sticky() {
    let node = |role: &str, host: &str| format!("[{role}]\nHostName={host}\n");
    let one = |hosts: &[&str]| {
        let data: String = hosts.iter().map(|host| node("ndbd", host)).collect();
        format!("[ndbd default]\nNoOfReplicas=1\n{}{data}", node("mgm", "m"))
    };
    let before = config(&one(&["a", "b", "c"]));
    let after = ClusterConfig::parse_after(one(&["c", "x", "a"]).as_bytes(), &before).unwrap();
    let hosts: Vec<_> =
        after.config.nodes_of(Role::Data).map(|n| (n.id.0, n.host().unwrap())).collect();
    // The new node does not get the id of the one that is gone: its data would be another's.
    assert_eq!(hosts, [(1, "a"), (3, "c"), (4, "x")]);
    let same = ClusterConfig::parse_after(one(&["a", "b", "c"]).as_bytes(), &before).unwrap();
    assert_eq!(same.config, before);
}

#[test]
fn node_groups_follow_ids_or_are_given() {
    let four = "[mgm]\n[ndbd]\n[ndbd]\nNodeGroup=1\n[ndbd]\n[ndbd]\n";
    let groups = config(four).groups().to_vec();
    let group = |number, ids: [u16; 2]| NodeGroup { number, nodes: ids.map(NodeId).to_vec() };
    assert_eq!(groups, [group(0, [1, 3]), group(1, [2, 4])]);
    let plain = config(&four.replace("NodeGroup=1\n", ""));
    assert_eq!(plain.groups(), [group(0, [1, 2]), group(1, [3, 4])]);
    assert_eq!(plain.group_of(NodeId(3)).unwrap().number, 1);
    assert_eq!(plain.data_node_ids(), [1, 2, 3, 4].map(NodeId));
    assert!(plain.spare_node_ids().is_empty());
    // Nodes for a later group are in none, and their number does not matter.
    let spare = config("[mgm]\n[ndbd]\nNodeGroup=65536\n[ndbd]\n[ndbd]\n");
    assert_eq!(spare.groups(), [group(0, [2, 3])]);
    assert_eq!(spare.group_of(NodeId(1)), None);
    assert_eq!(spare.spare_node_ids(), [NodeId(1)]);
}

#[test]
fn notices_name_the_line_and_the_reason() {
    let text =
        "[mgm]\nId=49\nArbitrationRank=1\n[ndbd]\nSchedulerResponsiveness=4\nDataMemory=1G\n";
    let notices = ClusterConfig::parse(text.as_bytes()).unwrap().notices;
    let said: Vec<_> = notices.iter().map(|notice| notice.at("f").to_string()).collect();
    let expected = [
        "f:2: Id is called NodeId now",
        "f:3: ArbitrationRank has no effect: every management node is a voter, and the first that \
         lives breaks ties",
        "f:5: SchedulerResponsiveness is not in effect yet",
    ];
    assert_eq!(said, expected);
}

#[test]
fn computers_are_resolved() {
    let config = config(
        "[ndbd]\nExecuteOnComputer=A\n[mgm]\n[computer default]\nLocationDomainId=3\n[computer]\n\
         Id=a\nHostName=h1\n",
    );
    let data = config.node(NodeId(1)).unwrap();
    assert_eq!((data.host(), data.location()), (Some("h1"), 3));
    assert_eq!(data.settings().given("ExecuteOnComputer"), None);
}

/// Pieces that files are made of, whole and broken.
const PIECES: &[&str] = &[
    "[ndbd]",
    "[ndbd default]",
    "[mgm]",
    "[api]",
    "[tcp]",
    "[shm default]",
    "[computer]",
    "[cluster]",
    "[",
    "]",
    "=",
    ":",
    "#",
    ";",
    "\"",
    "'",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\0",
    "\t",
    " ",
    "\u{feff}",
    "NodeId",
    "Id",
    "NodeGroup",
    "HostName",
    "DataMemory",
    "ThreadConfig",
    "NoOfReplicas",
    "NodeId1",
    "NodeId2",
    "ExecuteOnComputer",
    "LockExecuteThreadToCPU",
    "ldm={count=2,cpubind=0-1}",
    "{",
    "}",
    "0",
    "1",
    "2",
    "144",
    "255",
    "65536",
    "99999999999999999999",
    "-1",
    "K",
    "98M",
    "16T",
    "true",
    "Y",
    "é",
    "localhost",
    "::1",
    "ServerPort",
    "PortNumber",
    "AllowInsecure",
    "\u{1F600}",
];

#[test]
fn garbage_never_panics_and_what_is_accepted_comes_back() {
    let mut prng = Prng::new(1);
    let mut accepted = 0;
    for round in 0..5_000 {
        let mut bytes = Vec::new();
        if round % 2 == 0 {
            bytes.extend(b"[mgm]\n[ndbd]\n");
        }
        for _ in 0..prng.below(40) {
            if prng.percent(3) {
                bytes.push(prng.below(256) as u8);
            } else if prng.percent(30) {
                let key = *prng.pick(PIECES);
                let value = *prng.pick(PIECES);
                bytes.extend(format!("\n{key}={value}\n").bytes());
            } else {
                bytes.extend(prng.pick(PIECES).bytes());
            }
        }
        if let Ok(Parsed { config, .. }) = ClusterConfig::parse(&bytes) {
            accepted += 1;
            let text = config.canonical();
            let again = ClusterConfig::parse(text.as_bytes());
            let again = again.unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"));
            assert_eq!(again.config, config, "{text}");
        }
    }
    assert!(accepted > 30, "{accepted} were accepted");
}

#[test]
fn every_parameter_is_accepted_with_its_bounds() {
    use crate::parameter::Kind;
    for parameter in Parameter::all() {
        let values = match parameter.kind {
            Kind::Flag { .. } => vec!["1".to_string(), "0".to_string()],
            Kind::Number { min, max, .. } => vec![min.to_string(), max.to_string()],
            Kind::Choice { values, .. } => values.iter().map(|v| (*v).to_string()).collect(),
            Kind::Text { .. } => vec!["text".to_string()],
            Kind::Host { .. } => vec!["host".to_string()],
            Kind::Threads => vec!["ldm,main".to_string()],
            Kind::Cpus => vec!["0-3".to_string()],
        };
        for text in values {
            assert!(value::parse(parameter, &text).is_ok(), "{}={text}", parameter.name);
        }
    }
}

#[test]
fn as_much_as_a_file_can_hold() {
    use crate::ini::FILE_SIZE_MAX;
    for line in ["[ndbd]\n", "DataMemroy=1\n", "[tcp]\n", "[computer]\nId=a\n", "x\n", "[ndbd]a=\n"]
    {
        let mut text = "[mgm]\n[ndbd]\n".to_string();
        text += &line.repeat((FILE_SIZE_MAX - text.len()) / line.len());
        let found = ClusterConfig::parse(text.as_bytes()).unwrap_err();
        assert!(found.len() <= 101, "{line}: {}", found.len());
        let last = &found[found.len() - 1].what;
        assert!(last.ends_with(" more problems are not listed"), "{line}: {last}");
    }
}

#[test]
fn what_files_of_older_versions_have_is_accepted() {
    let config = config(include_str!("../../tests/files/older-version.ini"));
    let group = config.node(NodeId(3)).unwrap().settings().text("InitialLogFileGroup");
    assert_eq!(group, Some("name=LG1; undo_buffer_size=128M; undo1.log:250M"));
    assert_eq!(config.node(NodeId(3)).unwrap().data_memory(), Some(2_500 << 20));
    assert_eq!(config.links()[0].settings.text("HostName2"), Some("192.168.0.3"));
}
