//! Layouts as they follow from configuration and machine.

use cluster_config::ClusterConfig;

use super::*;

fn machine() -> Cpus {
    Cpus { present: (0..8).collect(), allowed: (0..6).collect(), quota: None }
}

fn node(settings: &str) -> Node {
    let text = format!("[mgm]\n[ndbd default]\n{settings}\n[ndbd]\nNodeId=1\n[ndbd]\n[api]\n");
    let parsed = ClusterConfig::parse(text.as_bytes());
    let config = parsed.unwrap_or_else(|problems| panic!("{problems:?}")).config;
    config.node(model::NodeId(1)).unwrap().clone()
}

fn layout(settings: &str) -> Layout {
    Layout::new(&node(settings), None, &machine()).unwrap()
}

fn refused(settings: &str) -> String {
    Layout::new(&node(settings), None, &machine()).unwrap_err()
}

fn worker_cpus(layout: &Layout) -> Vec<Vec<u16>> {
    layout.scheduling.workers.iter().map(|worker| worker.place.cpus.clone()).collect()
}

#[test]
fn automatic_by_what_the_process_may_use() {
    let all = layout("");
    assert_eq!((all.workers, all.scheduling.cpus), (6, 6));
    assert_eq!(all.line, "6 workers (one for each CPU); 6 CPUs may be used (0-5 of 0-7)");
    assert_eq!(worker_cpus(&all), [[0; 0]; 0]);
    let few = Cpus { quota: Some(150), ..machine() };
    let few = Layout::new(&node(""), None, &few).unwrap();
    assert_eq!((few.workers, few.scheduling.cpus), (1, 1));
    let expected = "1 worker (one for each CPU); 6 CPUs may be used (0-5 of 0-7), for the time of \
        1.50 (quota of the cgroup)";
    assert_eq!(few.line, expected);
    assert_eq!(layout("NumCPUs=3").workers, 3);
    assert_eq!(layout("MaxNoOfExecutionThreads=4").workers, 4);
    let kept = Layout::new(&node("NumCPUs=3"), Some(5), &machine()).unwrap();
    assert_eq!(kept.workers, 5);
    assert!(kept.line.starts_with("5 workers (as when its directory was made);"), "{}", kept.line);
}

#[test]
fn threads_by_role() {
    let config = "ThreadConfig=ldm={count=2,cpubind=1-2,spintime=50,thread_prio=10},\
        main={cpubind=0},recv={cpubind=3,thread_prio=6},io={cpuset=4,thread_prio=0}";
    let found = layout(config);
    assert_eq!(found.workers, 2);
    assert_eq!(worker_cpus(&found), [[1], [2]]);
    let Scheduling { workers, links, disk, .. } = &found.scheduling;
    assert_eq!(workers[0].spin, Some(SpinMethod::Static(micros(50))));
    assert_eq!(workers[1].place.nice, Some(-20));
    assert_eq!(*links, ThreadPlace { cpus: vec![0, 3], nice: Some(-4) });
    assert_eq!(*disk, ThreadPlace { cpus: vec![4], nice: Some(19) });
    assert_eq!(found.notes, [""; 0]);
    let expected = "2 workers (ThreadConfig) on CPUs 1 | 2, links on 0,3, disk on 4; \
        6 CPUs may be used (0-5 of 0-7)";
    assert_eq!(found.line, expected);
    let shared = layout("ThreadConfig=ldm={count=3,cpuset=1-2},ldm={cpuset=4-5}");
    assert_eq!(worker_cpus(&shared), [[1, 2], [1, 2], [1, 2], [4, 5]]);
    // A directory keeps its workers: they share the places in turn.
    let node = node("ThreadConfig=ldm={count=2,cpubind=1-2}");
    let kept = Layout::new(&node, Some(3), &machine()).unwrap();
    assert_eq!(worker_cpus(&kept), [[1], [2], [1]]);
}

#[test]
fn exclusive_cpus_are_kept_free_of_the_others() {
    let found = layout("ThreadConfig=ldm={count=2,cpubind_exclusive=1-2},io={cpuset=0}");
    assert_eq!(found.scheduling.links.cpus, [0, 3, 4, 5]);
    assert_eq!((found.scheduling.disk.cpus, found.others.cpus), (vec![0], vec![0, 3, 4, 5]));
    let why = refused("ThreadConfig=ldm={cpuset_exclusive=1},io={cpuset=1}");
    assert_eq!(why, "ThreadConfig: CPU 1 is exclusive, and given to others too");
    let why = refused("ThreadConfig=ldm={count=6,cpuset_exclusive=0-5}");
    assert!(why.contains("leave one to them"), "{why}");
}

#[test]
fn cpus_that_cannot_be_had_are_named() {
    let why = refused("ThreadConfig=ldm={cpubind=9}");
    assert_eq!(why, "ThreadConfig: ldm has CPU 9, and this machine has CPUs 0-7 only");
    let why = refused("ThreadConfig=ldm,io={cpuset=4-7}");
    assert!(why.starts_with("ThreadConfig: io has CPU 6, and this process may use CPUs 0-5 only"));
    assert!(why.contains("taskset"), "{why}");
    assert!(refused("LockExecuteThreadToCPU=8").starts_with("LockExecuteThreadToCPU has CPU 8"));
    assert!(refused("LockMaintThreadsToCPU=6").contains("may use CPUs 0-5 only"));
}

#[test]
fn what_has_no_effect_is_said() {
    let config = "ThreadConfig=tc={count=2},ldm={realtime=1,nosend=1},main={spintime=20},query";
    let notes = layout(config).notes.join("\n");
    for part in
        ["tc of ThreadConfig", "query of", "realtime of ldm", "nosend of ldm", "spintime of main"]
    {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let none = layout("ThreadConfig=main,tc");
    assert_eq!(none.workers, 1);
    assert!(none.notes.iter().any(|note| note.contains("no ldm")));
}

#[test]
fn without_a_thread_config() {
    let found = layout("NumCPUs=4\nLockExecuteThreadToCPU=1,3\nLockMaintThreadsToCPU=0");
    assert_eq!(worker_cpus(&found), [[1], [3], [1], [3]]);
    assert_eq!(found.scheduling.disk.cpus, [0]);
}

#[test]
fn ways_of_waiting() {
    assert_eq!(layout("").scheduling.spin, SpinMethod::CostBased);
    let fixed = layout("SpinMethod=staticspinning\nSchedulerSpinTimer=30").scheduling.spin;
    assert_eq!(fixed, SpinMethod::Static(micros(30)));
    for method in [SpinMethod::LatencyOptimised, SpinMethod::DatabaseMachine] {
        let settings = format!("SpinMethod={}\nSchedulerSpinTimer=30", method.name());
        assert_eq!(layout(&settings).scheduling.spin, method);
    }
}

#[test]
fn priorities_are_nice_values() {
    assert_eq!([0, 1, 5, 9, 10].map(nice), [19, 16, 0, -16, -20]);
}
