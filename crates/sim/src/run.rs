//! The course of a run: tables are made, clients work while faults strike, all heals, everything
//! is checked.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use actor::Mutation;
use stdx::Duration;

use crate::chaos::{Chaos, More, Rot};
use crate::lab::{Lab, Phase, Progress, TaskName};
use crate::setup::Setup;
use crate::workload::{Load, applications};
use crate::world::{Totals, World};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// The rule broken on purpose.
    pub mutation: Mutation,
    /// Nodes have disks, whatever the seed says.
    pub disks: bool,
    /// Tables of SQL move between node groups, where the cluster has SQL nodes and is small enough.
    pub moves: bool,
    /// A node becomes a further replica, and nodes leave their groups, where groups are small
    /// enough.
    pub replicas: bool,
    /// Tell what happens while it does.
    pub verbose: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The same in every run of the seed.
    pub hash: u64,
    /// Virtual time that passed.
    pub span: Duration,
    /// Counts.
    pub totals: Totals,
    /// Rounds of work that sessions did, by workload.
    pub rounds: BTreeMap<&'static str, u64>,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
    /// For a failure: faults, sessions, flight recorders.
    pub report: String,
}

/// Runs one seed. A panic in it is a failure of the seed, not of the caller.
pub fn run_seed(plan: Plan) -> Outcome {
    let setup = Setup::random(plan.seed, plan.mutation, plan.disks, plan.moves);
    let widens = plan.replicas && setup.may_widen();
    let setup = if widens { setup.with_spare_replica() } else { setup };
    let load = Load::random(&setup);
    let lab = Lab::new();
    let mut world = World::new(setup, applications(lab.clone(), load));
    let mut chaos = Chaos::new(plan.seed, means_more(plan.mutation), plan.verbose);
    let course = AssertUnwindSafe(|| course(&mut world, &mut chaos, &lab));
    let failure = match catch_unwind(course) {
        Ok(Ok(())) => None,
        Ok(Err(what)) => Some(what),
        Err(panic) => Some(panic_text(panic.as_ref())),
    };
    let report = match &failure {
        Some(_) => report(&world, &chaos, &lab),
        None => String::new(),
    };
    let mut rounds: BTreeMap<&'static str, u64> = BTreeMap::new();
    for progress in lab.progress().values() {
        *rounds.entry(progress.what).or_default() += progress.rounds;
    }
    Outcome {
        seed: plan.seed,
        hash: world.state_hash(),
        span: world.now().since(stdx::Instant::ZERO),
        totals: world.totals().clone(),
        rounds,
        failure,
        report,
    }
}

/// What has to strike for the rule to mean something.
fn means_more(mutation: Mutation) -> More {
    match mutation {
        Mutation::RenewalRepeats | Mutation::RenewalLeavesOut => More::Links,
        Mutation::DriverNamesNobody => More::Hangs,
        _ => More::Nothing,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_string()
}

fn report(world: &World, chaos: &Chaos, lab: &Rc<Lab>) -> String {
    let mut text = String::new();
    let setup = world.setup();
    let _written = writeln!(
        text,
        "{} replicas, {} groups, {} workers, {} management nodes; {:?}; now {}, phase {:?}",
        setup.replicas,
        setup.groups,
        setup.workers,
        setup.management,
        setup.config,
        world.now(),
        lab.phase()
    );
    for line in chaos.log() {
        let _written = writeln!(text, "fault: {line}");
    }
    for line in world.diary() {
        let _written = writeln!(text, "node: {line}");
    }
    for (name, progress) in lab.progress() {
        let _written = writeln!(text, "session {} {}: {progress:?}", name.node, name.task);
    }
    let _written = writeln!(text, "{}", world.describe());
    text + &world.recorders(60)
}

/// The phases of a run.
fn course(world: &mut World, chaos: &mut Chaos, lab: &Rc<Lab>) -> Result<(), String> {
    reach(world, "the cluster starts", 30, World::all_active)?;
    reach(world, "the tables are made", 60, |_| lab.phase() == Phase::Working)?;
    world.run_for(Duration::from_millis(300));
    let mut floor = world.newest_epoch();
    for _ in 0..100 {
        // As management nodes do until it is logged.
        Chaos::configure(world, 1);
        if world.run_until(Duration::from_millis(100), |world| configured(world).is_some()) {
            break;
        }
    }
    Chaos::configure(world, 2);
    chaos.grow(world);
    chaos.rage(world);
    reach(world, "all nodes are active again", 90, World::all_active)?;
    all_progress(world, lab)?;
    if world.setup().moves {
        chaos.settle_tables(world)?;
        all_progress(world, lab)?;
        floor = world.newest_epoch();
    }
    if world.has_disks() && Chaos::rots(world.setup().seed) {
        if chaos.rot(world, floor)? == Rot::Refused {
            return Ok(());
        }
        reach(world, "all nodes are active after bit-rot", 90, World::all_active)?;
        all_progress(world, lab)?;
    }
    if world.has_disks() {
        chaos.final_black_out(world);
        reach(world, "all nodes are active after a power loss", 90, World::all_active)?;
        all_progress(world, lab)?;
    }
    lab.enter(Phase::Ending);
    reach(world, "all sessions end", 90, |_| {
        lab.progress().values().all(|progress| progress.over)
    })?;
    if world.setup().moves {
        chaos.settle_group(world)?;
    }
    lab.enter(Phase::Auditing);
    reach(world, "the audit ends", 90, |_| lab.phase() == Phase::Audited)?;
    reach(world, "all nodes are active at the end", 30, World::all_active)?;
    rest(world);
    Chaos::check_configured(world);
    if world.has_disks() {
        // Nothing that is at rest for long enough is lost.
        let digests = world.digests();
        chaos.final_black_out(world);
        reach(world, "all nodes are active after the last power loss", 90, World::all_active)?;
        let before = configured(world);
        rest(world);
        world.check_digests(&digests);
        Chaos::check_configured(world);
        assert_eq!(configured(world), before, "the configuration is another one");
    }
    Ok(())
}

fn configured(world: &World) -> Option<model::cluster::Configured> {
    world.newest_state().configured.clone()
}

fn rest(world: &mut World) {
    world.run_until(Duration::from_secs(30), World::is_at_rest);
    // What is on its way between workers arrives.
    world.run_for(Duration::from_millis(50));
    world.check_at_rest();
}

fn reach(
    world: &mut World,
    what: &str,
    seconds: u64,
    done: impl Fn(&World) -> bool,
) -> Result<(), String> {
    if world.run_until(Duration::from_secs(seconds), done) {
        return Ok(());
    }
    Err(format!("within {seconds} s it was not reached that {what}"))
}

/// Every session does something that succeeds.
fn all_progress(world: &mut World, lab: &Rc<Lab>) -> Result<(), String> {
    let before = lab.progress();
    let is_stuck = |(name, now): &(&TaskName, &Progress)| {
        now.rounds <= before.get(name).map_or(0, |before| before.rounds)
    };
    let what = "every session makes progress";
    reach(world, what, 60, |_| !lab.progress().iter().any(|at| is_stuck(&at))).map_err(|failure| {
        let progress = lab.progress();
        let stuck = progress.iter().filter(is_stuck);
        let names: Vec<_> =
            stuck.map(|(name, now)| format!("{} of {}", now.what, name.node)).collect();
        format!("{failure}: {} did not", names.join(", "))
    })
}
