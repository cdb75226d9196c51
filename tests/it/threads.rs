//! Threads and memory of a node's process, as the system shows them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tests::binary;
use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL};

/// A line of a `status` file in `/proc`, without its name.
fn status_of(path: &Path, name: &str) -> String {
    let text = fs::read_to_string(path.join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim_start_matches(':').trim().to_string()
}

/// The first and the last CPU that this process may use.
pub(crate) fn two_cpus() -> (String, String) {
    let list = status_of(Path::new("/proc/self"), "Cpus_allowed_list");
    let ends: Vec<&str> = list.split([',', '-']).collect();
    (ends[0].to_string(), ends[ends.len() - 1].to_string())
}

fn process_of(cluster: &Processes, node: u16) -> String {
    format!("/proc/{}", cluster.process_id(node))
}

/// The CPUs of the thread of this name.
fn cpus_of(cluster: &Processes, node: u16, thread: &str) -> String {
    let tasks = fs::read_dir(format!("{}/task", process_of(cluster, node)));
    let tasks = tasks.expect("it runs");
    let named =
        |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == thread);
    let found = tasks.flatten().map(|task| task.path()).find(|path| named(path));
    let found = found.unwrap_or_else(|| panic!("node {node} has no thread {thread}"));
    status_of(&found, "Cpus_allowed_list")
}

fn small() -> Layout {
    Layout { sql: 1, ..SMALL }
}

#[test]
fn threads_run_where_they_are_bound() {
    let (first, last) = two_cpus();
    let config = format!(
        "ThreadConfig=ldm={{cpubind={first}}},ldm={{cpubind={last},spintime=20}},\
         recv={{cpubind={last}}},io={{cpuset={first}}}"
    );
    let mut cluster = Processes::prepare(small(), &config);
    cluster.start_all();
    for node in cluster.data_nodes() {
        assert_eq!(cpus_of(&cluster, node, "worker-0"), first);
        assert_eq!(cpus_of(&cluster, node, "worker-1"), last);
        assert_eq!(cpus_of(&cluster, node, "links"), last);
        assert_eq!(cpus_of(&cluster, node, "disk-0"), first);
        let log = cluster.log(node);
        assert!(log.contains("threads: 2 workers (ThreadConfig) on CPUs"), "{log}");
    }
    let all = status_of(Path::new("/proc/self"), "Cpus_allowed_list");
    assert_eq!(cpus_of(&cluster, MANAGEMENT, "worker-0"), all, "nobody else is bound");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let mut cluster = Processes::prepare(small(), "ThreadConfig=ldm={cpubind=4095}");
    cluster.start_node(MANAGEMENT);
    cluster.launch(1);
    assert_eq!(cluster.wait_for_end(1), Some(1));
    let log = cluster.log(1);
    assert!(log.contains("node 1: ThreadConfig: ldm has CPU 4095, and this machine has"), "{log}");
}

#[test]
fn memory_is_locked_or_it_is_said_what_is_missing() {
    let mut cluster = Processes::prepare(small(), "LockPagesInMainMemory=1");
    // A process that may lock next to nothing, whoever runs the test.
    let script = cluster.directory().join("limited");
    let text = format!(
        "#!/bin/sh\nulimit -l 64\n[ $(id -u) = 0 ] && limited='setpriv --bounding-set -ipc_lock'\n\
         exec $limited {} \"$@\"\n",
        binary().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    cluster.programs.insert(1, script);
    cluster.start_node(MANAGEMENT);
    cluster.launch(1);
    assert_eq!(cluster.wait_for_end(1), Some(1));
    let log = cluster.log(1);
    assert!(log.contains("LockPagesInMainMemory of node 1: this process may lock 64 KB"), "{log}");
    assert!(log.contains("RLIMIT_MEMLOCK") && log.contains("ulimit -l unlimited"), "{log}");
    // Bit 14 is the capability to lock without a limit.
    let own = status_of(Path::new("/proc/self"), "CapEff");
    if u64::from_str_radix(&own, 16).is_ok_and(|bits| bits >> 14 & 1 == 1) {
        cluster.programs.clear();
        cluster.start_all();
        for node in cluster.data_nodes() {
            let process = process_of(&cluster, node);
            let locked = status_of(Path::new(&process), "VmLck");
            let kilobytes: u64 = locked.trim_end_matches(" kB").parse().unwrap();
            assert!(kilobytes > 1_024, "{locked}");
        }
    }
}
