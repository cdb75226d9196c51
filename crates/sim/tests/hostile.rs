//! Nodes that lie. A peer that sends what it may not send, or what cannot be, is refused: nobody
//! panics, nothing grows without end, and nobody else's rows change.
//!
//! The lies are true messages in which something is changed, and messages that are wholly made up.
//! `NINES_LIES` is how many clusters are lied to by each kind of node (12 unless given);
//! `NINES_LIES_FROM` is the first seed.

#[path = "hostile/liar.rs"]
mod liar;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::{ControlIndex, NodeId, WorkerId};
use sim::scenario::{client, data, management};
use sim::{Kind, Scenario, Setup};
use stdx::{Duration, Prng};
use wire::Envelope;

use liar::Liar;

/// Lies that a cluster is told.
const LIES: usize = 400;

fn setup(seed: u64) -> Setup {
    let mut prng = Prng::new(seed);
    let setup = Setup::new(*prng.pick(&[1, 2, 2, 3]), 1).clients(3).seed(seed);
    let setup = setup.workers(*prng.pick(&[1, 2]));
    if prng.percent(40) { setup.disks() } else { setup }
}

fn start(seed: u64) -> Scenario {
    let mut prng = Prng::new(seed ^ 1);
    let kinds = vec!["bank", "lists", "ledger", "names", "ring"];
    let mut scenario = Scenario::start_beside(setup(seed), kinds, Some(client(3)));
    scenario.run(Duration::from_millis(prng.between(0, 100)));
    scenario
}

/// Has a node tell others lies. Whether any was told.
fn tell_lies(scenario: &mut Scenario, seed: u64, who: NodeId) -> usize {
    let mut liar = Liar::new(seed);
    let mut told = 0;
    for _ in 0..LIES {
        let span = *liar.prng.pick(&[0, 3, 30, 300, 2_000]);
        scenario.run(Duration::from_micros(span));
        let world = &scenario.world;
        let names: Vec<&&str> = world.samples().keys().collect();
        if names.is_empty() {
            continue;
        }
        let samples = &world.samples()[**liar.prng.pick(&names)];
        let truth: Envelope = samples[liar.prng.index(samples.len())].clone();
        let mut to = truth.to;
        let others = [world.nodes(Kind::Data), world.nodes(Kind::Management)].concat();
        if !others.contains(&to.node) || liar.prng.percent(30) {
            to.node = *liar.prng.pick(&others);
        }
        let workers = world.workers(to.node).count() as u8;
        to.worker = WorkerId(to.worker.0 % workers);
        if liar.prng.percent(5) {
            to = liar.actor(to.node, workers);
        }
        if to.node == who {
            continue;
        }
        let life = world.incarnation(who).0;
        let Some(mut lie) = liar.lie(&truth, who, life, to) else { continue };
        lie.to.worker = WorkerId(lie.to.worker.0 % workers);
        let index = world.newest_state().index.0;
        lie.reached = match liar.prng.below(20) {
            0 => ControlIndex(u64::MAX),
            1 => ControlIndex(index + 1),
            _ => ControlIndex(index.min(lie.reached.0)),
        };
        told += usize::from(scenario.world.lie(lie));
    }
    told
}

/// Numbers of seeds.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let from = number("NINES_LIES_FROM").unwrap_or(1);
    from..from + number("NINES_LIES").unwrap_or(12)
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string()
}

/// What still stops a node that has believed a lie of another node of the cluster: a part of the
/// text of the panic, and why. `docs/decisions/0060-distrust-after-the-handshake.md`.
const STOPS: [(&str, &str); 1] = [(
    " after e",
    "the epochs of a row only grow: who has applied a commit that nobody has made finds out when \
     the next one is older, and stops before the row is wrong on its disk",
)];

/// Runs the seeds, and fails with all that went wrong.
fn all(inside: bool, run: impl Fn(u64) -> usize) {
    let mut wrong: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut told = 0;
    for seed in seeds() {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(lies) => told += lies,
            Err(panic) => {
                let text: String = panic_text(panic.as_ref()).chars().take(300).collect();
                if inside && STOPS.iter().any(|(part, _)| text.contains(part)) {
                    continue;
                }
                wrong.entry(text).or_default().push(seed);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(told > 25 * seeds().count(), "{told} lies");
    assert!(memory() < 3 << 30, "{} bytes of memory", memory());
}

/// The most memory that this process has had.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[test]
fn a_client_that_lies_harms_nobody_else() {
    all(false, |seed| {
        let mut scenario = start(seed);
        let who = client(3);
        scenario.world.expect_lies(false);
        scenario.run(Duration::from_millis(50));
        let told = tell_lies(&mut scenario, seed, who);
        assert!(!scenario.world.refused_lies().is_empty(), "some lies are clumsy");
        let down =
            scenario.world.all_nodes().into_iter().filter(|n| !scenario.world.is_running(*n));
        assert_eq!(down.collect::<Vec<_>>(), [], "everybody lives");
        scenario.progress();
        // What it has left open ends with it.
        scenario.world.crash(who);
        scenario.bring_back(&[who]);
        scenario.progress();
        scenario.end_load();
        scenario.within(30, "nothing is under way", sim::World::is_at_rest);
        scenario.run(Duration::from_millis(50));
        scenario.world.check_at_rest();
        told
    });
}

#[test]
fn a_data_node_that_lies_makes_nobody_panic() {
    all(true, |seed| {
        let mut scenario = start(seed);
        scenario.world.expect_lies(true);
        scenario.run(Duration::from_millis(50));
        let told = tell_lies(&mut scenario, seed, data(1));
        scenario.run(Duration::from_secs(2));
        told
    });
}

#[test]
fn a_management_node_that_lies_makes_nobody_panic() {
    all(true, |seed| {
        let mut scenario = start(seed);
        scenario.world.expect_lies(true);
        scenario.run(Duration::from_millis(50));
        let told = tell_lies(&mut scenario, seed, management(1));
        scenario.run(Duration::from_secs(2));
        told
    });
}
