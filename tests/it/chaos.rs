//! Faults at random moments on a cluster of separate processes, while clients move money and append
//! to lists. `cargo xtask chaos --minutes N` runs it for as long as one likes.
//!
//! Processes are killed, frozen and stopped; where the machine permits, each node has a host of its
//! own, networks are cut and slow, and a disk fills up. The longest time without an acknowledged
//! commit is told for each kind of fault.
//!
//! `NINES_CHAOS_SECONDS` says how long it takes, `NINES_SEED` repeats the choice of faults.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL, host_of};
use tests::network::{Family, Network};

use super::hosts::say;
use super::load::Load;
use super::workload::Random;

/// Writers on each SQL node.
const WRITERS: u16 = 3;
/// Size of the disk that fills up, in megabytes.
const DISK: u32 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillData,
    KillDriver,
    FreezeShortly,
    FreezeLong,
    KillManagement,
    KillSql,
    StopInOrder,
    KillAll,
    CutDataNodesApart,
    CutOneWay,
    IsolateData,
    IsolateManagement,
    IsolateSql,
    Unplug,
    SlowLine,
    FillDisk,
}

const FAULTS: [Fault; 8] = [
    Fault::KillData,
    Fault::KillDriver,
    Fault::FreezeShortly,
    Fault::FreezeLong,
    Fault::KillManagement,
    Fault::KillSql,
    Fault::StopInOrder,
    Fault::KillAll,
];

/// Those that need hosts.
const FAULTS_OF_HOSTS: [Fault; 8] = [
    Fault::CutDataNodesApart,
    Fault::CutOneWay,
    Fault::IsolateData,
    Fault::IsolateManagement,
    Fault::IsolateSql,
    Fault::Unplug,
    Fault::SlowLine,
    Fault::FillDisk,
];

fn duration() -> Duration {
    let given = std::env::var("NINES_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(60))
}

/// The cluster, and what can happen to it.
struct World {
    cluster: Processes,
    /// The disk that can be filled.
    disk: Option<PathBuf>,
    faults: Vec<Fault>,
}

impl World {
    fn start() -> World {
        match Processes::prepare_on_hosts(SMALL, |_| Family::V4) {
            Ok(mut cluster) => {
                let disk = cluster.mount_disk(FULL, DISK);
                cluster.start_all();
                World { cluster, disk, faults: [FAULTS, FAULTS_OF_HOSTS].concat() }
            }
            Err(why) => {
                say(&format!("chaos goes without cuts and full disks: {why}"));
                World { cluster: Processes::start(SMALL), disk: None, faults: FAULTS.to_vec() }
            }
        }
    }
}

/// The node with the small disk.
const FULL: u16 = 2;

#[test]
fn no_commit_is_lost_or_invented() {
    let mut random = Random::new();
    let mut world = World::start();
    let nodes = [SQL, SQL + 1];
    let load = Load::start(&world.cluster, &nodes, WRITERS);
    let mut gaps: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    let until = Instant::now() + duration();
    let kinds = world.faults.len() as u64;
    // Each kind once, beginning anywhere, then whatever comes.
    let first = random.below(kinds);
    let mut round = 0;
    while Instant::now() < until {
        let number = if round < kinds { (first + round) % kinds } else { random.below(kinds) };
        let fault = world.faults[number as usize];
        round += 1;
        thread::sleep(Duration::from_millis(200 + random.below(800)));
        load.forget_pauses();
        happen(&mut world, fault, &mut random);
        thread::sleep(Duration::from_millis(300));
        world.cluster.wait_until_complete(SQL);
        gaps.entry(fault).or_default().push(load.progress(&nodes));
    }
    println!("{round} faults:");
    load.end(&world.cluster, SQL);
    for (fault, mut gaps) in gaps {
        gaps.sort_unstable();
        let count = gaps.len();
        let (middle, longest) = (gaps[count / 2].as_millis(), gaps[count - 1].as_millis());
        println!("  {fault:?}: {count} times, gap {middle} ms, longest {longest} ms");
    }
}

/// Makes a fault, and mends it.
fn happen(world: &mut World, fault: Fault, random: &mut Random) {
    let cluster = &mut world.cluster;
    let data = 1 + random.below(2) as u16;
    let pause = Duration::from_millis(random.below(1_500));
    match fault {
        Fault::KillData | Fault::KillDriver => {
            let node = if fault == Fault::KillData { data } else { driver(cluster) };
            cluster.kill(&[node]);
            thread::sleep(pause);
            cluster.start_node(node);
        }
        Fault::FreezeShortly | Fault::FreezeLong => {
            let long = if fault == Fault::FreezeLong { 3_000 } else { 100 + random.below(300) };
            cluster.signal(data, "-STOP");
            thread::sleep(Duration::from_millis(long));
            cluster.signal(data, "-CONT");
        }
        Fault::KillManagement => {
            cluster.kill(&[MANAGEMENT]);
            thread::sleep(pause);
            cluster.start_node(MANAGEMENT);
        }
        Fault::KillSql => {
            cluster.kill(&[SQL + 1]);
            thread::sleep(pause);
            cluster.start_node(SQL + 1);
        }
        Fault::StopInOrder => {
            assert_eq!(cluster.stop(data), Some(0));
            thread::sleep(pause);
            cluster.start_node(data);
        }
        Fault::KillAll => {
            let all: Vec<u16> = cluster.data_nodes().collect();
            cluster.kill(&all);
            thread::sleep(pause);
            all.iter().for_each(|node| cluster.launch(*node));
            all.iter().for_each(|node| cluster.wait_until_ready(*node));
        }
        Fault::FillDisk => {
            let disk = world.disk.as_ref().expect("it comes with hosts");
            fill(disk, pause + Duration::from_secs(1));
            // Put out meanwhile, it could not begin anew: what supervises it tries again.
            if !cluster.runs(FULL) {
                cluster.start_node(FULL);
            }
        }
        _ => {
            let network = cluster.network().expect("these need hosts");
            disturb(network, fault, data, random);
            // From a hiccup to more than anybody waits for.
            thread::sleep(Duration::from_millis(random.below(4_000)));
            cluster.network().expect("it is still there").heal();
        }
    }
}

/// Something happens to the network.
fn disturb(network: &mut Network, fault: Fault, data: u16, random: &mut Random) {
    let data = host_of(data);
    let [management, sql] = [MANAGEMENT, SQL + 1].map(host_of);
    match fault {
        Fault::CutDataNodesApart => network.cut(&[1], &[2]),
        Fault::CutOneWay => {
            let others = [3 - data, management, sql];
            let other = others[random.below(3) as usize];
            let (from, to) = if random.below(2) == 0 { (data, other) } else { (other, data) };
            network.cut_one_way(from, to);
        }
        Fault::IsolateData => network.isolate(&[data]),
        Fault::IsolateManagement => network.isolate(&[management]),
        Fault::IsolateSql => network.isolate(&[sql]),
        Fault::Unplug => network.unplug(data),
        Fault::SlowLine => {
            let kilobits = [200, 2_000, 20_000][random.below(3) as usize];
            network.slow_down(data, kilobits, Duration::from_millis(400));
        }
        other => panic!("{other:?} is none of a network"),
    }
}

/// Leaves no space on a disk for so long.
fn fill(disk: &Path, long: Duration) {
    let ballast = disk.join("ballast");
    let mut file = File::create(&ballast).expect("the directory is there");
    let began = Instant::now();
    while began.elapsed() < long {
        // What the node has freed meanwhile is taken as well.
        match file.write_all(&[0; 1 << 16]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{}: {error}", ballast.display()),
        }
    }
    std::fs::remove_file(&ballast).expect("it is ours");
}

/// The oldest data node, which drives epochs.
fn driver(cluster: &Processes) -> u16 {
    let oldest = "SELECT node_id FROM nines.nodes WHERE role = 'data' ORDER BY joined_at LIMIT 1";
    let found = cluster.session(SQL).and_then(|mut session| session.number(oldest));
    found.map_or(1, |node| node as u16)
}
