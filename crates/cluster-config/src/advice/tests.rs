//! What is warned about, and what is not.

use super::*;

fn machine() -> Machine {
    Machine { names: vec!["here".into()], memory: 8 << 30, cpus: 4 }
}

fn advice(text: &str) -> Vec<Advice> {
    let parsed = ClusterConfig::parse(text.as_bytes());
    let config = parsed.unwrap_or_else(|problems| panic!("{problems:?}")).config;
    config.advice(&machine())
}

fn topics(text: &str) -> Vec<&'static str> {
    advice(text).iter().map(|advice| advice.topic).collect()
}

/// Three hosts as they should be.
const GOOD: &str = "[cluster]\nTlsAuthority=/a\nTlsCertificate=/b\nTlsKey=/c\n\
    [ndb_mgmd default]\nDataDir=/d\n[ndb_mgmd]\nHostName=m1\n[ndb_mgmd]\nHostName=m2\n\
    [ndbd default]\nDataDir=/d\n[ndbd]\nHostName=d1\n[ndbd]\nHostName=d2\n[mysqld]\n";

#[test]
fn nothing_to_say() {
    assert_eq!(advice(GOOD), []);
    let here = GOOD.replace("[ndbd default]", "[ndbd default]\nDataMemory=8G\nNumCPUs=4");
    assert_eq!(topics(&here.replace("=d1", "=here")), Vec::<&str>::new());
}

#[test]
fn hosts() {
    assert_eq!(topics(&GOOD.replace("d2", "d1")), ["one-host"]);
    let four = format!("{GOOD}[ndbd]\nHostName=d1\n[ndbd]\nHostName=d1\n");
    assert_eq!(topics(&four), ["replicas-on-one-host"]);
    let three = GOOD.replace("[ndbd default]", "[ndbd default]\nNoOfReplicas=3");
    let three = format!("{three}[ndbd]\nHostName=d1\n");
    let what = &advice(&three)[0].what;
    assert!(what.starts_with("node group 0 has several replicas on d1 (nodes 1, 3)"), "{what}");
    assert_eq!(topics(&GOOD.replace("d2", "localhost")), ["loopback"]);
}

#[test]
fn tie_breakers() {
    let beside = GOOD.replace("m1", "d1");
    let list = advice(&beside);
    assert_eq!(list.len(), 1);
    assert!(list[0].what.contains("give management node 146 the lowest id"), "{list:?}");
    let list = advice(&beside.replace("m2", "d2"));
    assert_eq!(list.len(), 1);
    assert!(list[0].what.contains("put one on a third host"), "{list:?}");
    // An odd number of data nodes needs nobody to decide between halves.
    let odd = beside.replace("[ndbd default]", "[ndbd default]\nNoOfReplicas=3");
    assert_eq!(topics(&format!("{odd}[ndbd]\nHostName=d3\n")), Vec::<&str>::new());
    let single = GOOD.replace("[ndb_mgmd]\nHostName=m2\n", "");
    assert_eq!(topics(&single), ["one-management-node"]);
}

#[test]
fn places() {
    let placed = |one: u8, two: u8, three: u8, four: u8| {
        let node = |host: &str, place| format!("HostName={host}\nLocationDomainId={place}\n");
        let text = GOOD.replace("HostName=d1\n", &node("d1", one));
        let text = text.replace("HostName=d2\n", &node("d2", two));
        format!("{text}[ndbd]\n{}[ndbd]\n{}", node("d3", three), node("d4", four))
    };
    assert_eq!(topics(&placed(1, 2, 1, 2)), Vec::<&str>::new());
    assert_eq!(topics(&placed(1, 1, 2, 2)), ["location", "location"]);
    assert_eq!(topics(&placed(1, 2, 0, 1)), ["location"]);
}

#[test]
fn certificates_or_trust() {
    let bare = GOOD.replace("TlsAuthority=/a\nTlsCertificate=/b\nTlsKey=/c\n", "");
    let list = advice(&bare);
    assert_eq!(list.len(), 1);
    assert!(list[0].what.starts_with("nodes 1, 2, 145, 146 need certificates to start"));
    let open = bare.replace("[cluster]\n", "[cluster]\nAllowInsecure=1\n");
    assert_eq!(topics(&open), ["insecure"]);
    let local = "[mgm]\nDataDir=/d\n[mgm]\nDataDir=/d\nPortNumber=1187\n[ndbd default]\n\
        DataDir=/d\n[ndbd]\n[ndbd]\n[api]\n";
    assert_eq!(topics(local), ["one-host"]);
}

#[test]
fn metrics_are_for_this_host_unless_the_network_is_trusted() {
    let serving = |more: &str| {
        let section = format!("[ndbd default]\nHttpPort=9600\n{more}");
        topics(&GOOD.replace("[ndbd default]\n", &section))
    };
    assert_eq!(serving(""), Vec::<&str>::new());
    assert_eq!(serving("HttpAddress=127.0.0.1\n"), Vec::<&str>::new());
    assert_eq!(serving("HttpAddress=0.0.0.0\n"), ["http"]);
    assert!(!serving("HttpAddress=::\nAllowInsecure=1\n").contains(&"http"));
    let off = GOOD.replace("[ndbd default]\n", "[ndbd default]\nHttpAddress=0.0.0.0\n");
    assert_eq!(topics(&off), Vec::<&str>::new());
}

#[test]
fn files_are_encrypted_everywhere_or_nowhere() {
    let with = |section: &str, more: &str| {
        topics(&GOOD.replacen(section, &format!("{section}EncryptedFileSystem=1\n{more}"), 1))
    };
    assert_eq!(with("[cluster]\n", ""), Vec::<&str>::new());
    assert_eq!(with("[ndbd default]\n", ""), Vec::<&str>::new());
    assert_eq!(with("[ndbd]\n", ""), ["encryption"]);
    let both = "EncryptedFileSystemKeyFile=/k\nEncryptedFileSystemKeyCommand=k\n";
    assert_eq!(with("[cluster]\n", both), ["encryption-key"]);
}

#[test]
fn more_than_the_machine_has() {
    let large = GOOD.replace("[ndbd default]", "[ndbd default]\nDataMemory=9G\nNumCPUs=8");
    assert_eq!(topics(&large), Vec::<&str>::new());
    let list = advice(&large.replace("=d1", "=here"));
    assert_eq!(list.len(), 2);
    assert!(list[0].what.contains("DataMemory=9G together, and the host has 8.0G"), "{list:?}");
    assert!(list[1].what.contains("NumCPUs=8 together, and the host has 4"), "{list:?}");
    assert_eq!((rough(1 << 30), rough(1536 << 20)), ("1.0G".into(), "1.5G".into()));
    assert_eq!((rough(512 << 20), rough(0)), ("512.0M".into(), "0.0M".into()));
}

#[test]
fn settings_that_disagree() {
    let with = |lines: &str| GOOD.replace("[ndbd default]", &format!("[ndbd default]\n{lines}"));
    assert_eq!(topics(&with("AutomaticThreadConfig=1\nThreadConfig=ldm")), ["threads"]);
    assert_eq!(topics(&with("NumCPUs=2\nThreadConfig=ldm")), ["threads"]);
    assert_eq!(topics(&with("Diskless=1")), ["diskless"]);
    assert_eq!(topics(&with("NoOfReplicas=1")), ["one-replica"]);
    assert_eq!(topics(&with("TimeBetweenWatchDogCheck=501")), ["watchdog"]);
    assert_eq!(topics(&with("TimeBetweenWatchDogCheck=500")), Vec::<&str>::new());
    let uneven = GOOD.replace("HostName=d1\n", "HostName=d1\nDataMemory=1G\n");
    assert_eq!(topics(&uneven), ["uneven-memory"]);
    assert_eq!(topics(&GOOD.replace("[ndbd default]\nDataDir=/d", "")), ["directory"]);
    assert_eq!(topics(&GOOD.replace("[mysqld]\n", "")), ["no-clients"]);
}
