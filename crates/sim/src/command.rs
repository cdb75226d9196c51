//! The simulator's commands: many seeds, one seed, all mutations, the return of a node, clusters of
//! many nodes.

mod progress;
mod summary;

use std::cell::RefCell;
use std::io::Write;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use actor::Mutation;
use progress::Progress;
use sim::rejoin::Rejoin;
use sim::scale::{Measured, Shape};
use sim::{Outcome, Plan, run_seed};
use summary::Summary;

/// How to call the simulator.
const USAGE: &str = "\
usage: sim run --seeds N [--from S] [--jobs J] [--twice | --twice-every K] [--mutation NAME]
               [--disks] [--moves] [--replicas] [--keep-going]
       sim run --seed S [--twice] [--verbose] [--mutation NAME] [--disks] [--moves]
               [--replicas]
       sim mutations [--seeds N] [--jobs J] [--only NAME] [--known]
       sim rejoin [--rows N] [--every K]
       sim scale [--nodes N,N..] [--workers W,W..] [--disks] [--verbose]";

/// What was asked for on the command line.
#[derive(Debug, Default)]
struct Options {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    jobs: usize,
    /// One in so many seeds is run twice; none when zero.
    twice_every: u64,
    verbose: bool,
    keep_going: bool,
    known: bool,
    disks: bool,
    moves: bool,
    replicas: bool,
    mutation: Mutation,
    only: Option<Mutation>,
    /// Of a node's return: rows of its table, and one in so many is changed meanwhile.
    rows: u64,
    every: u64,
    /// Sizes of clusters that are measured.
    nodes: Vec<u16>,
    workers: Vec<u8>,
}

/// So many seeds must reach everything that the registry calls important.
const REACH_ALL_IN: u64 = 300;
/// Characters of a failure that a summary shows.
const FAILURE_SHOWN_MAX: usize = 160;

/// Every rule that can be broken on purpose, with a seed that notices. After a change of code the
/// seed may mean another run, and another one may be the first to notice. `CopiesUndoChanges` is
/// not here: one seed in hundreds meets two copies in such an order, and tests of the participant
/// prove that it is noticed. Nor are `StreamsLeaveGaps`, `StreamsOverlap`, `StreamsLackOlder`: no
/// seed is known yet that notices them.
const MUTATIONS: [(Mutation, u64); 54] = [
    (Mutation::BackupAppliesAtCommit, 1),
    (Mutation::OneStepEpochSwitch, 1),
    (Mutation::TakeoverForgetsCommits, 38),
    (Mutation::ReadsPassNotedCommits, 6),
    (Mutation::ReadsPassStagedCommits, 6),
    (Mutation::AcknowledgeAtFirstPrimary, 1),
    (Mutation::ReleaseLocksAtPrepare, 1),
    (Mutation::CopyIgnoresLocks, 16),
    (Mutation::ServeWithoutLease, 50),
    (Mutation::RemoveBeforeLeaseEnds, 7),
    (Mutation::DropVersionsEarly, 1),
    (Mutation::KeepOldUniqueEntries, 1),
    (Mutation::JournalForgetsDeletes, 5),
    (Mutation::JournalBeginsUnderWriters, 6),
    (Mutation::ScansPassStagedRows, 13),
    (Mutation::ChangesPassGuards, 2),
    (Mutation::OwnRowsHideSnapshot, 2),
    (Mutation::RollbackOnPrimaryOnly, 1),
    (Mutation::PrimariesMoveAtOnce, 22),
    (Mutation::SavedBeforeSync, 1),
    (Mutation::VotesNotSynced, 1),
    (Mutation::NoFence, 2),
    (Mutation::WatermarksIgnored, 40),
    (Mutation::RestartTakesNewest, 1),
    (Mutation::CheckpointsForgetDeletes, 1),
    (Mutation::RestoreIgnoresColocation, 25),
    (Mutation::LookupsReadNewest, 1),
    (Mutation::VictimBySearch, 1),
    (Mutation::LargeCommitsUnlockEarly, 2),
    (Mutation::LargeCommitsGiveWayUnapplied, 2),
    (Mutation::LargeRollbacksEndEarly, 2),
    (Mutation::ScansSeeLaterChanges, 3),
    (Mutation::DriverNamesNobody, 2),
    (Mutation::RenewalRepeats, 11),
    (Mutation::RenewalLeavesOut, 6),
    (Mutation::StateChangesLost, 1),
    (Mutation::AccountsChangedUnseen, 1),
    (Mutation::StreamsEndEpochsEarly, 8),
    (Mutation::StreamsForgetEarly, 8),
    (Mutation::SqlParentsUnlocked, 29),
    (Mutation::SqlSetNullLeftOut, 9),
    (Mutation::SqlPartsLeftOut, 22),
    (Mutation::SqlNumbersUnreserved, 22),
    (Mutation::SqlFailedStatementsStay, 9),
    (Mutation::SqlSnapshotsReadNewest, 9),
    (Mutation::SqlSavepointsForgotten, 9),
    (Mutation::SqlSnapshotsKept, 9),
    (Mutation::SqlRangesUnguarded, 20),
    (Mutation::SqlOwnChangesUnseen, 9),
    (Mutation::SqlReadsUnlocked, 9),
    (Mutation::SqlLoadsInParts, 22),
    (Mutation::SqlBackupsMissChanges, 20),
    (Mutation::SqlMovedTablesWritten, 106),
    (Mutation::SqlArchivesMissEpochs, 64),
];

/// Whether the rule is one of durability, which means nothing without disks.
fn is_of_disks(mutation: Mutation) -> bool {
    matches!(
        mutation,
        Mutation::SavedBeforeSync
            | Mutation::VotesNotSynced
            | Mutation::NoFence
            | Mutation::WatermarksIgnored
            | Mutation::RestartTakesNewest
            | Mutation::CheckpointsForgetDeletes
            | Mutation::RestoreIgnoresColocation
    )
}

/// Runs a command. False when a seed failed, or a mutation was not noticed.
pub(crate) fn execute(arguments: &[String], out: &mut dyn Write) -> Result<bool, String> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(USAGE.into());
    };
    let options = parse(rest)?;
    keep_panics_for_reports();
    match (command.as_str(), options.seed) {
        ("run", Some(seed)) => one(&options, seed, out).map_err(|error| error.to_string()),
        ("run", None) => many(&options, out).map_err(|error| error.to_string()),
        ("mutations", None) => mutations(&options, out).map_err(|error| error.to_string()),
        ("scale", None) => scale(&options, out).map_err(|error| error.to_string()),
        ("rejoin", None) => rejoin(&options, out).map_err(|error| error.to_string()),
        _ => Err(USAGE.into()),
    }
}

/// What clusters of these sizes say to themselves.
fn scale(options: &Options, out: &mut dyn Write) -> std::io::Result<bool> {
    write!(out, "{}", Measured::HEAD)?;
    for workers in &options.workers {
        for nodes in &options.nodes {
            let (nodes, workers, disks) = (*nodes, *workers, options.disks);
            let measured = sim::scale::measure(Shape { nodes, workers, disks });
            write!(out, "{measured}")?;
            if options.verbose {
                write!(out, "{}", measured.by_name())?;
            }
            out.flush()?;
        }
    }
    Ok(true)
}

/// What a node that was away is sent, and one whose disk is empty.
fn rejoin(options: &Options, out: &mut dyn Write) -> std::io::Result<bool> {
    let (rows, every) = (options.rows, options.every);
    for wiped in [false, true] {
        let told = sim::rejoin::tell(Rejoin { rows, every, wiped });
        let disk = if wiped { "an empty disk" } else { "its disk" };
        writeln!(out, "back with {disk}: {told}")?;
    }
    Ok(true)
}

fn numbers<T: FromStr>(text: &str) -> Result<Vec<T>, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no number\n{USAGE}"));
    text.split(',').map(number).collect()
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        from: 1,
        jobs: 2,
        rows: 100_000,
        every: 20,
        nodes: vec![8, 24, 48, 96, 144],
        workers: vec![1, 2],
        ..Options::default()
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        let number = |text: &String| {
            text.parse::<u64>().map_err(|_| format!("{text} is no number\n{USAGE}"))
        };
        match argument.as_str() {
            "--nodes" => options.nodes = numbers(value()?)?,
            "--workers" => options.workers = numbers(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--seeds" => options.seeds = Some(number(value()?)?),
            "--from" => options.from = number(value()?)?,
            "--rows" => options.rows = number(value()?)?,
            "--every" => options.every = number(value()?)?.max(1),
            "--jobs" => options.jobs = number(value()?)?.max(1) as usize,
            "--mutation" => options.mutation = mutation(value()?)?,
            "--only" => options.only = Some(mutation(value()?)?),
            "--twice" => options.twice_every = 1,
            "--twice-every" => options.twice_every = number(value()?)?,
            "--verbose" => options.verbose = true,
            "--keep-going" => options.keep_going = true,
            "--known" => options.known = true,
            "--disks" => options.disks = true,
            "--moves" => options.moves = true,
            "--replicas" => options.replicas = true,
            other => return Err(format!("{other} is not known\n{USAGE}")),
        }
    }
    Ok(options)
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let named = |mutation: &Mutation| format!("{mutation:?}").eq_ignore_ascii_case(name);
    let all: Vec<String> = MUTATIONS.iter().map(|(mutation, _)| format!("{mutation:?}")).collect();
    let found = MUTATIONS.iter().map(|(mutation, _)| *mutation).find(named);
    found.ok_or_else(|| format!("no mutation {name}; there are {}", all.join(", ")))
}

thread_local! {
    /// Where the last panic of this thread was.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics belong to the seed that caused them: they are shown with its report.
fn keep_panics_for_reports() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        LAST_PANIC.set(place);
    }));
}

fn run(options: &Options, seed: u64, mutation: Mutation) -> Outcome {
    LAST_PANIC.take();
    let disks = options.disks || is_of_disks(mutation);
    let Options { moves, replicas, verbose, .. } = *options;
    let plan = Plan { seed, mutation, disks, moves, replicas, verbose };
    let mut outcome = run_seed(plan);
    if seed.checked_rem(options.twice_every) == Some(0) && outcome.failure.is_none() {
        let again = run_seed(plan);
        if again.hash != outcome.hash {
            outcome.failure = Some("two runs of the seed differ".into());
        }
    }
    if let Some(failure) = &mut outcome.failure {
        let place = LAST_PANIC.take();
        if !place.is_empty() {
            *failure += &format!(" [{place}]");
        }
    }
    outcome
}

fn one(options: &Options, seed: u64, out: &mut dyn Write) -> std::io::Result<bool> {
    let outcome = run(options, seed, options.mutation);
    let mut summary = Summary::default();
    summary.add(&outcome);
    if options.verbose {
        write!(out, "{summary}")?;
    }
    if let Some(failure) = &outcome.failure {
        writeln!(out, "{}", outcome.report)?;
        writeln!(out, "seed {seed} failed: {failure}")?;
    }
    writeln!(
        out,
        "seed {seed}: hash {:016x}, {} of virtual time, {} steps",
        outcome.hash, outcome.span, outcome.totals.steps
    )?;
    Ok(outcome.failure.is_none())
}

/// The line that replays a failure.
fn replay(outcome: &Outcome, options: &Options) -> String {
    let failure = outcome.failure.as_deref().unwrap_or_default();
    let mut with = match options.mutation {
        Mutation::None => String::new(),
        mutation => format!(" --mutation {mutation:?}"),
    };
    if options.disks {
        with += " --disks";
    }
    if options.moves {
        with += " --moves";
    }
    if options.replicas {
        with += " --replicas";
    }
    if failure.contains("two runs") {
        with += " --twice";
    }
    format!("FAILED: {failure}\n  replay: cargo xtask sim --seed {}{with}", outcome.seed)
}

/// Runs seeds on several threads and hands each outcome over as it comes. `more` says whether to
/// go on.
fn each_seed(
    options: &Options,
    seeds: Range<u64>,
    mutation: Mutation,
    mut take: impl FnMut(Outcome) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let end = seeds.end;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..options.jobs {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send(run(options, seed, mutation)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for outcome in receiver {
            if !take(outcome) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

fn many(options: &Options, out: &mut dyn Write) -> std::io::Result<bool> {
    let mut summary = Summary::default();
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    let count = options.seeds.unwrap_or(100);
    let seeds = options.from..options.from + count;
    let mut progress = Progress::new("", count);
    each_seed(options, seeds, options.mutation, |outcome| {
        summary.add(&outcome);
        progress.add(outcome.seed, outcome.failure.as_deref());
        if outcome.failure.is_some() {
            failures.push(replay(&outcome, options));
            reports.push(outcome.report);
        }
        failures.is_empty() || options.keep_going
    });
    progress.end();
    write!(out, "{summary}")?;
    if let Some(report) = reports.first().filter(|_| !options.keep_going) {
        writeln!(out, "{report}")?;
    }
    for failure in &failures {
        writeln!(out, "{failure}")?;
    }
    writeln!(out, "{} seeds, {} failures", summary.seeds(), failures.len())?;
    let enough = summary.seeds() >= REACH_ALL_IN && options.mutation == Mutation::None;
    let missed = if enough { summary.missed() } else { Vec::new() };
    for name in &missed {
        writeln!(out, "NEVER REACHED, though important: {name}")?;
    }
    Ok(failures.is_empty() && missed.is_empty())
}

fn mutations(options: &Options, out: &mut dyn Write) -> std::io::Result<bool> {
    let mut all = true;
    for (mutation, known) in MUTATIONS {
        if options.only.is_some_and(|only| only != mutation) {
            continue;
        }
        let from_start = options.from..options.from + options.seeds.unwrap_or(300);
        let mut caught = None;
        if options.known {
            caught = first_to_notice(options, known..known + 1, mutation);
        }
        match caught.or_else(|| first_to_notice(options, from_start, mutation)) {
            Some((seed, text)) => {
                let text: String = text.chars().take(FAILURE_SHOWN_MAX).collect();
                writeln!(out, "{mutation:?}: caught at seed {seed}: {text}")?;
            }
            None => {
                all = false;
                writeln!(out, "{mutation:?}: NOT CAUGHT")?;
            }
        }
    }
    Ok(all)
}

/// The first of the seeds that fails with the mutation, and what it says.
fn first_to_notice(
    options: &Options,
    seeds: Range<u64>,
    mutation: Mutation,
) -> Option<(u64, String)> {
    let mut caught: Option<(u64, String)> = None;
    let mut progress = Progress::new(format!("{mutation:?}: "), seeds.end - seeds.start);
    each_seed(options, seeds, mutation, |outcome| {
        progress.add(outcome.seed, outcome.failure.as_deref());
        if let Some(failure) = outcome.failure
            && caught.as_ref().is_none_or(|(seed, _)| outcome.seed < *seed)
        {
            let text = failure.lines().next().unwrap_or_default().to_string();
            caught = Some((outcome.seed, text));
        }
        caught.is_none()
    });
    progress.end();
    caught
}
