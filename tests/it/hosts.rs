//! Clusters whose nodes have a host each: what they survive when networks are cut, lines slow and
//! hosts gone, which side goes on, and how those that were put out come back.
//!
//! The rules are those of `COMPAT.md`. While faults happen, clients move money through two SQL
//! nodes, and another one changes rows by autocommit, of which no statement may fail.

#![expect(clippy::print_stdout, reason = "the pauses that clients see are figures of the manual")]

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use tests::Session;
use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL, host_of};
use tests::network::{Family, Network};

use super::load::Load;
use super::processes::Counter;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a host may be silent, and than anybody is asked whether it lives.
const LONG: Duration = Duration::from_millis(2_500);
/// Writers on each SQL node.
const WRITERS: u16 = 2;

/// Says something also when the test passes.
pub(crate) fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// A cluster whose nodes have a host each, under load.
struct Story {
    cluster: Processes,
    load: Load,
    name: &'static str,
}

impl Story {
    /// Starts it; none where this machine has no such hosts, which is said.
    fn start(name: &'static str, layout: Layout, family: impl Fn(u16) -> Family) -> Option<Story> {
        match Processes::start_on_hosts(layout, family) {
            Ok(cluster) => {
                let load = Load::start(&cluster, &[SQL, SQL + 1], WRITERS);
                Some(Story { cluster, load, name })
            }
            Err(why) => {
                say(&format!("skipped: {name}: {why}"));
                None
            }
        }
    }

    /// Something happens to the network.
    fn disturb(&mut self, fault: impl FnOnce(&mut Network)) {
        self.load.forget_pauses();
        fault(self.cluster.network().expect("it was started on hosts"));
    }

    /// Waits until the second SQL node sees one of these sets of data nodes complete, and no other
    /// data node. Which it is.
    fn until_left(&self, sets: &[&[u16]]) -> Vec<u16> {
        let began = Instant::now();
        loop {
            let left = self.cluster.complete(SQL + 1);
            if let Some(left) = left.filter(|left| sets.contains(&left.as_slice())) {
                return left;
            }
            assert!(began.elapsed() < PATIENCE, "none of {sets:?} is what is left");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The fault is over: everybody comes back, and all clients go on.
    fn mend(&mut self, what: &str) {
        let pause = self.load.progress(&[SQL + 1]);
        self.cluster.network().expect("it was started on hosts").heal();
        self.cluster.wait_until_complete(SQL + 1);
        for node in self.cluster.data_nodes().collect::<Vec<u16>>() {
            self.cluster.wait_until_ready(node);
        }
        let all = self.load.progress(&[SQL, SQL + 1]).as_millis();
        let (name, pause) = (self.name, pause.as_millis());
        println!("{name}: {what}: {pause} ms without a commit, {all} ms until all was mended");
    }

    /// Something happens that costs the nodes that are not in one of these sets their membership.
    fn lose(&mut self, what: &str, sets: &[&[u16]], fault: impl FnOnce(&mut Network)) {
        self.disturb(fault);
        let left = self.until_left(sets);
        self.load.progress(&[SQL + 1]);
        // Whoever was put out stays out, and puts out nobody else, while nothing is mended.
        thread::sleep(LONG);
        assert_eq!(self.cluster.complete(SQL + 1), Some(left), "{what}: there is no peace");
        self.mend(what);
    }

    /// Something happens that no data node notices.
    fn keep(&mut self, what: &str, fault: impl FnOnce(&mut Network)) {
        let lives = self.lives();
        self.disturb(fault);
        thread::sleep(LONG);
        let all: Vec<u16> = self.cluster.data_nodes().collect();
        assert_eq!(self.cluster.complete(SQL + 1), Some(all), "{what}");
        self.mend(what);
        assert_eq!(self.lives(), lives, "{what}: a node was put out");
    }

    /// A cut that lasts a moment costs that moment: no link is lost, and no membership.
    fn cut_shortly(&mut self, what: &str, span: Duration, fault: impl FnOnce(&mut Network)) {
        let what = format!("{what} for {} ms", span.as_millis());
        let before = (self.lives(), self.links_lost());
        self.disturb(fault);
        thread::sleep(span);
        self.cluster.network().expect("it was started on hosts").heal();
        let pause = self.load.progress(&[SQL, SQL + 1]).as_millis();
        let all: Vec<u16> = self.cluster.data_nodes().collect();
        assert_eq!(self.cluster.complete(SQL + 1), Some(all), "{what}");
        assert_eq!((self.lives(), self.links_lost()), before, "{what}");
        println!("{}: {what}: {pause} ms without a commit", self.name);
    }

    /// How many links processes have said to have lost.
    fn links_lost(&self) -> usize {
        let nodes = self.cluster.data_nodes().chain([MANAGEMENT, SQL, SQL + 1]);
        let lost = |node| {
            let log = self.cluster.log(node);
            log.lines().filter(|line| line.contains("connection lost")).count()
        };
        nodes.map(lost).sum()
    }

    /// Something happens after which nobody may go on.
    fn stop(&mut self, what: &str, fault: impl FnOnce(&mut Network)) {
        let nodes: Vec<u16> = self.cluster.data_nodes().collect();
        let lives = self.lives();
        self.disturb(fault);
        let began = Instant::now();
        while self.lives().iter().zip(&lives).any(|(now, before)| now == before) {
            assert!(began.elapsed() < PATIENCE, "{what}: somebody goes on");
            thread::sleep(Duration::from_millis(50));
        }
        self.cluster.network().expect("it was started on hosts").heal();
        self.cluster.wait_until_complete(SQL + 1);
        nodes.iter().for_each(|node| self.cluster.wait_until_ready(*node));
        let all = self.load.progress(&[SQL, SQL + 1]).as_millis();
        println!("{}: {what}: {all} ms until all was mended", self.name);
    }

    /// The first SQL node is cut off: what its clients had open is undone and its locks are free,
    /// and it tells them so instead of answering from what it remembers.
    fn lose_sql_node(&mut self) {
        let session = |cluster: &Processes, node| {
            cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
        };
        let all = |session: &mut Session, statements: &[&str]| {
            for statement in statements {
                session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            }
        };
        let mut here = session(&self.cluster, SQL);
        let mut reader = session(&self.cluster, SQL);
        let mut there = session(&self.cluster, SQL + 1);
        all(&mut there, &["CREATE TABLE d.locks (a INT PRIMARY KEY, n INT)"]);
        all(&mut there, &["INSERT INTO d.locks VALUES (1, 0)"]);
        all(&mut here, &["BEGIN", "UPDATE d.locks SET n = 1 WHERE a = 1"]);
        all(&mut reader, &["SELECT * FROM d.locks"]);
        let lives = self.lives();
        self.disturb(|network| network.isolate(&[FIRST_SQL]));
        let began = Instant::now();
        let told = thread::spawn(move || {
            let told = reader.query("SELECT * FROM d.locks WHERE a = 1");
            (told, began.elapsed())
        });
        all(&mut there, &["UPDATE d.locks SET n = n + 10 WHERE a = 1"]);
        let freed = began.elapsed().as_millis();
        let (told, after) = told.join().expect("it only waits");
        let told = told.expect_err("nobody can be asked");
        let after = after.as_millis();
        println!("2 hosts: cut-off SQL node: locks free after {freed} ms, {told} after {after} ms");
        self.mend("an SQL node cut off");
        assert_eq!(self.lives(), lives, "a data node was put out");
        here.query("COMMIT").expect_err("it was undone");
        let kept = there.number("SELECT n FROM d.locks").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kept, 10);
    }

    /// How often each data node has begun again by itself.
    fn lives(&self) -> Vec<usize> {
        let again = |node| {
            let log = self.cluster.log(node);
            log.lines().filter(|line| *line == "starts again").count()
        };
        self.cluster.data_nodes().map(again).collect()
    }

    /// A host loses its power.
    fn power_off(&mut self, node: u16) {
        self.disturb(|network| network.unplug(host_of(node)));
        self.cluster.kill(&[node]);
    }

    /// A host has power again.
    fn power_on(&mut self, node: u16) {
        self.cluster.network().expect("it was started on hosts").heal();
        self.cluster.launch(node);
    }

    fn end(self) {
        self.load.end(&self.cluster, SQL + 1);
    }
}

const TIE_BREAKER: u8 = MANAGEMENT as u8;
const FIRST_SQL: u8 = SQL as u8;
const SECOND_SQL: u8 = FIRST_SQL + 1;

#[test]
fn a_network_does_what_it_is_told() {
    let mut network = match Network::start([1, 2, 51]) {
        Ok(network) => network,
        Err(why) => return say(&format!("skipped: networks: {why}")),
    };
    let open = |network: &Network, from, to| {
        let passes = [Family::V4, Family::V6].map(|family| network.passes(from, to, family));
        assert_eq!(passes[0], passes[1], "both families fare alike");
        passes[0]
    };
    assert!(open(&network, 1, 2) && open(&network, 2, 1));
    network.cut_one_way(1, 2);
    assert!(!open(&network, 1, 2) && open(&network, 2, 1) && open(&network, 1, 51));
    network.isolate(&[1]);
    assert!(!open(&network, 2, 1) && !open(&network, 51, 1) && open(&network, 2, 51));
    network.heal();
    assert!(open(&network, 1, 2) && open(&network, 2, 1) && open(&network, 51, 1));
    network.unplug(2);
    assert!(!open(&network, 1, 2));
    network.slow_down(1, 100, Duration::from_millis(300));
    network.slow_down(1, 200, Duration::from_millis(300));
    network.heal();
    assert!(open(&network, 1, 2) && open(&network, 2, 1));
    // Each host has loopback and line of its own, and a disk that nobody else sees.
    let lines = tests::succeed(with(network.command(51, "ip"), &["-brief", "address"]));
    assert!(lines.contains("10.77.51.2/24") && lines.contains("fd77:0:0:33::2/64"), "{lines}");
    let place = tests::temporary_directory();
    network.mount_disk(2, &place, 1);
    std::fs::write(network.file_of_host(2, &place.join("file")), "x").expect("it is mounted");
    let full = std::fs::write(network.file_of_host(2, &place.join("file")), vec![0; 2 << 20]);
    assert!(full.is_err() && !place.join("file").exists());
    std::fs::remove_dir_all(&place).expect("it is ours");
    // What was started there ends with the test, not before.
    let mut child = with(network.command(1, "sleep"), &["60"]).spawn().expect("it starts");
    assert!(matches!(child.try_wait(), Ok(None)));
    child.kill().and_then(|()| child.wait()).expect("it is our child");
}

fn with(mut command: std::process::Command, arguments: &[&str]) -> std::process::Command {
    command.args(arguments);
    command
}

/// One address family for some, the other one for the rest.
fn mixed(node: u16) -> Family {
    if node.is_multiple_of(2) { Family::V4 } else { Family::V6 }
}

#[test]
fn two_hosts_and_a_tie_breaker_survive_every_cut() {
    let Some(mut story) = Story::start("2 hosts", SMALL, mixed) else { return };
    let counter = Counter::start(&story.cluster, SQL + 1);
    let either: &[&[u16]] = &[&[1], &[2]];
    story.lose("data hosts cut apart", either, |network| network.cut(&[1], &[2]));
    story.lose("a data host cut off from all", &[&[2]], |network| network.isolate(&[1]));
    story.lose("a data host cut off with an SQL node", &[&[2]], |network| {
        network.cut(&[1, FIRST_SQL], &[2, TIE_BREAKER, SECOND_SQL]);
    });
    story.lose("one way between data hosts", either, |network| network.cut_one_way(2, 1));
    story.keep("the tie-breaker cut off", |network| network.isolate(&[TIE_BREAKER]));
    story.lose_sql_node();
    story.power_off(2);
    story.until_left(&[&[1]]);
    let pause = story.load.progress(&[SQL, SQL + 1]).as_millis();
    println!("2 hosts: power lost: {pause} ms without a commit");
    story.power_on(2);
    story.mend("power lost");
    counter.check(&story.cluster, SQL + 1);
    story.stop("all cut apart", |network| {
        network.cut(&[1], &[2, TIE_BREAKER]);
        network.cut(&[2], &[TIE_BREAKER]);
    });
    story.end();
}

#[test]
fn a_short_cut_costs_its_time_and_nothing_else() {
    let Some(mut story) = Story::start("short cuts", SMALL, mixed) else { return };
    let counter = Counter::start(&story.cluster, SQL + 1);
    for millis in [100, 300, 500] {
        let span = Duration::from_millis(millis);
        for host in [1, 2, TIE_BREAKER, FIRST_SQL] {
            let what = format!("host {host} cut off");
            story.cut_shortly(&what, span, |network| network.isolate(&[host]));
        }
        story.cut_shortly("data hosts cut apart", span, |network| network.cut(&[1], &[2]));
        for (from, to) in [(1, 2), (2, 1), (FIRST_SQL, 1), (2, FIRST_SQL)] {
            let what = format!("one way from host {from} to host {to}");
            story.cut_shortly(&what, span, |network| network.cut_one_way(from, to));
        }
    }
    counter.check(&story.cluster, SQL + 1);
    story.end();
}

/// What a management node says, in the words of `nines ctl`.
fn ask(cluster: &mut Processes, order: &str) -> String {
    let (address, port) = (cluster.address(MANAGEMENT), cluster.port(MANAGEMENT));
    let network = cluster.network().expect("it was started on hosts");
    let mut program = network.command(TIE_BREAKER, tests::binary());
    program.args(["ctl", "-c", &std::net::SocketAddr::from((address, port)).to_string(), order]);
    let output = tests::run(program);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_lost_link_between_two_that_live_is_told() {
    let mut cluster = match Processes::start_on_hosts(SMALL, |_| Family::V4) {
        Ok(cluster) => cluster,
        Err(why) => return say(&format!("skipped: a lost link: {why}")),
    };
    let lost = format!("the link between data node 2 and sql node {} is down", SQL + 1);
    let back = format!("the link between data node 2 and sql node {} is there again", SQL + 1);
    assert!(!ask(&mut cluster, "show").contains("is down"));
    let until_told = |cluster: &mut Processes, order: &str, what: &str| {
        let began = Instant::now();
        while !ask(cluster, order).contains(what) {
            assert!(began.elapsed() < PATIENCE, "{order}: {}", ask(cluster, order));
            thread::sleep(Duration::from_millis(200));
        }
    };
    let network = cluster.network().expect("it was started on hosts");
    network.cut(&[2], &[SECOND_SQL]);
    until_told(&mut cluster, "show", &lost);
    until_told(&mut cluster, "events", &lost);
    cluster.network().expect("it was started on hosts").heal();
    until_told(&mut cluster, "events", &back);
    assert!(!ask(&mut cluster, "show").contains("is down"));
    assert_eq!(cluster.complete(SQL), Some(vec![1, 2]), "no node has gone");
}

#[test]
fn two_groups_on_four_hosts_go_on_where_the_rules_say() {
    let layout = Layout { data: 4, ..SMALL };
    let Some(mut story) = Story::start("4 hosts", layout, |_| Family::V4) else { return };
    let counter = Counter::start(&story.cluster, SQL + 1);
    // Rule 5: one of each group on either side, and the tie-breaker on one.
    story.lose("halves with a host of each group", &[&[2, 4]], |network| {
        network.cut(&[1, 3, FIRST_SQL], &[2, 4, TIE_BREAKER, SECOND_SQL]);
    });
    // Rules 2 and 3: a complete group and a majority, without the tie-breaker.
    story.lose("one host and the tie-breaker cut off", &[&[1, 2, 3]], |network| {
        network.isolate(&[4]);
        network.isolate(&[TIE_BREAKER]);
    });
    counter.check(&story.cluster, SQL + 1);
    // Rule 1: each side misses a whole group.
    story.stop("groups cut apart", |network| {
        network.cut(&[1, 2], &[3, 4, TIE_BREAKER, SECOND_SQL]);
    });
    story.end();
}

#[test]
fn three_replicas_over_ipv6_survive_as_a_majority() {
    let layout = Layout { data: 3, replicas: 3, ..SMALL };
    let Some(mut story) = Story::start("3 hosts", layout, |_| Family::V6) else { return };
    let counter = Counter::start(&story.cluster, SQL + 1);
    story.lose("one of three cut off", &[&[2, 3]], |network| network.isolate(&[1]));
    story.lose("one of three and the tie-breaker cut off", &[&[1, 2]], |network| {
        network.isolate(&[3]);
        network.isolate(&[TIE_BREAKER]);
    });
    // One after the other until one is left: each loss is counted against the living.
    story.power_off(1);
    story.until_left(&[&[2, 3]]);
    thread::sleep(LONG);
    story.power_off(2);
    story.until_left(&[&[3]]);
    let pause = story.load.progress(&[SQL, SQL + 1]).as_millis();
    println!("3 hosts: power lost twice: {pause} ms without a commit");
    story.power_on(1);
    story.power_on(2);
    story.mend("power lost twice");
    counter.check(&story.cluster, SQL + 1);
    story.end();
}

#[test]
fn a_slow_line_slows_commits_and_costs_at_most_its_host() {
    let Some(mut story) = Story::start("slow line", SMALL, |_| Family::V4) else { return };
    let counter = Counter::start(&story.cluster, SQL + 1);
    // Wide enough for signs of life beside the rows.
    story.keep("10 Mbit/s", |network| network.slow_down(1, 10_000, Duration::from_millis(100)));
    // Too narrow for anything: the host may be put out, the cluster goes on.
    let narrow = |network: &mut Network| network.slow_down(1, 64, Duration::from_millis(800));
    story.disturb(narrow);
    thread::sleep(LONG);
    story.mend("64 kbit/s");
    // One that stands still with much to be sent to it: nothing of it is kept for ever.
    story.load.forget_pauses();
    story.cluster.signal(1, "-STOP");
    story.until_left(&[&[2]]);
    story.load.progress(&[SQL, SQL + 1]);
    story.cluster.signal(1, "-CONT");
    story.mend("a process stands still");
    counter.check(&story.cluster, SQL + 1);
    story.end();
}
