//! The commands that run other programs: `test`, `sim`, `chaos`, `fmt`.
//!
//! # Owns
//! The order of the steps, their environment and the summary at the end.
//! # Invariants
//! 1. Every step that builds uses the profile `ci`, so nothing is compiled twice for one run.
//! 2. The output of a step goes to the terminal untouched; the summary only follows it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::bench::instructions::{self, Verdict};
use crate::workspace::{Workspace, cargo};
use crate::{clients, previous, tidy};

const PROFILE: [&str; 2] = ["--profile", "ci"];

/// Options of `cargo xtask test`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestOptions {
    /// How many seeds the simulation step runs.
    pub(crate) seeds: u32,
    /// Run the later steps also when one has failed.
    pub(crate) keep_going: bool,
}

impl Default for TestOptions {
    fn default() -> TestOptions {
        TestOptions { seeds: 40, keep_going: false }
    }
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

enum Action {
    Cargo(Vec<String>),
    Tidy,
    /// Counts instructions and compares them with the record.
    Instructions,
    /// Installs what the tests with real clients need.
    Clients,
    /// Looks for an earlier version of the program.
    Previous,
    Skip(&'static str),
}

struct Step {
    name: &'static str,
    action: Action,
}

/// Runs everything a change must pass.
pub(crate) fn test(workspace: &Workspace, options: &TestOptions) -> Result<ExitCode, String> {
    check_tools(&workspace.root)?;
    let started = Instant::now();
    let mut summary: Vec<(&str, Duration, Outcome)> = Vec::new();
    let mut failed = false;
    let mut found = None;
    for step in plan(workspace, options.seeds) {
        let step_started = Instant::now();
        let outcome = if failed && !options.keep_going {
            Outcome::Skipped("an earlier step failed")
        } else {
            println!("\n== {}", step.name);
            perform(workspace, &step.action, &mut found)?
        };
        failed |= matches!(outcome, Outcome::Failed(_));
        let elapsed = step_started.elapsed();
        println!("== {}: {} in {:.1} s", step.name, word(&outcome), elapsed.as_secs_f64());
        summary.push((step.name, elapsed, outcome));
    }

    println!("\nsummary");
    for (name, elapsed, outcome) in &summary {
        let detail = match outcome {
            Outcome::Passed => String::new(),
            Outcome::Failed(detail) => format!("  ({detail})"),
            Outcome::Skipped(reason) => format!("  ({reason})"),
        };
        let seconds = elapsed.as_secs_f64();
        println!("  {name:<12} {:<7} {seconds:>7.1} s{detail}", word(outcome));
    }
    let verdict = if failed { "FAILED" } else { "passed" };
    println!("cargo xtask test: {verdict} in {:.1} s", started.elapsed().as_secs_f64());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the simulator with the arguments given, as `run` unless they begin with a sub-command.
pub(crate) fn sim(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    if !has_simulator(workspace) {
        return Err("the crate `sim` has no binary `sim` yet".to_string());
    }
    match execute(workspace, &sim_command(args))? {
        Outcome::Passed => Ok(ExitCode::SUCCESS),
        Outcome::Failed(_) | Outcome::Skipped(_) => Ok(ExitCode::FAILURE),
    }
}

/// Runs chaos on real processes for so many minutes.
pub(crate) fn chaos(workspace: &Workspace, minutes: u32) -> Result<ExitCode, String> {
    let build = [&["build", "-p", "nines"][..], &PROFILE].concat();
    let run = ["test", "-p", "tests", "--test", "it"];
    let run = [&run[..], &PROFILE, &["chaos", "--", "--nocapture"]].concat();
    let seconds = [("NINES_CHAOS_SECONDS", (u64::from(minutes) * 60).to_string())];
    for (args, environment) in [(words(&build), &[][..]), (words(&run), &seconds[..])] {
        if !matches!(execute_with(workspace, &args, environment)?, Outcome::Passed) {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds or builds an earlier version of the program, and says where it is.
pub(crate) fn previous(workspace: &Workspace) -> Result<ExitCode, String> {
    let environment = environment_here();
    let program = previous::program(&workspace.root, &environment)?;
    println!("{}={}", previous::VARIABLE, program.display());
    Ok(ExitCode::SUCCESS)
}

/// Formats every crate, or says what is not formatted.
pub(crate) fn fmt(workspace: &Workspace, check: bool) -> Result<ExitCode, String> {
    check_tools(&workspace.root)?;
    let mut args = words(&["fmt", "--all"]);
    if check {
        args.push("--check".to_string());
    }
    let outcome = execute(workspace, &args)?;
    let passed = matches!(outcome, Outcome::Passed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One in so many seeds is run twice, to see that nothing but the seed decides.
const TWICE_EVERY: &str = "4";

fn plan(workspace: &Workspace, seeds: u32) -> Vec<Step> {
    let clippy =
        [&["clippy", "--workspace", "--all-targets"][..], &PROFILE, &["--", "-D", "warnings"]];
    let mut unit = vec!["test", "--workspace"];
    let mut installed = Action::Skip("there is no crate `tests` yet");
    let mut server = Action::Skip("there is no crate `tests` yet");
    let mut earlier = Action::Skip("there is no crate `tests` yet");
    let mut processes = Action::Skip("there is no crate `tests` yet");
    if workspace.package("tests").is_some() {
        // The process tests are the slowest and say least about where a fault is: they go last.
        // What they need is looked for first, so that whoever lacks it need not wait to hear so.
        unit.extend(["--exclude", "tests"]);
        installed = Action::Clients;
        let build = ["build", "-p", "nines", "-p", "tpcc"];
        server = Action::Cargo(words(&[&build[..], &PROFILE].concat()));
        earlier = Action::Previous;
        processes = Action::Cargo(words(&[&["test", "-p", "tests"][..], &PROFILE].concat()));
    }
    let counts = match workspace.package("bench") {
        Some(_) => Action::Instructions,
        None => Action::Skip("there is no crate `bench` yet"),
    };
    let simulation = if has_simulator(workspace) {
        let seeds = seeds.to_string();
        Action::Cargo(sim_command(&words(&["--twice-every", TWICE_EVERY, "--seeds", &seeds])))
    } else {
        Action::Skip("the crate `sim` has no binary `sim` yet")
    };
    let mutations = if has_simulator(workspace) {
        Action::Cargo(sim_command(&words(&["mutations", "--known"])))
    } else {
        Action::Skip("the crate `sim` has no binary `sim` yet")
    };
    vec![
        Step { name: "clients", action: installed },
        Step { name: "format", action: Action::Cargo(words(&["fmt", "--all", "--check"])) },
        Step { name: "tidy", action: Action::Tidy },
        Step { name: "clippy", action: Action::Cargo(words(&clippy.concat())) },
        Step { name: "tests", action: Action::Cargo(words(&[&unit[..], &PROFILE].concat())) },
        Step { name: "instructions", action: counts },
        Step { name: "simulation", action: simulation },
        Step { name: "mutations", action: mutations },
        Step { name: "server", action: server },
        Step { name: "previous", action: earlier },
        Step { name: "processes", action: processes },
    ]
}

/// Does what a step says. `found` is the earlier version of the program, once it has been found.
fn perform(
    workspace: &Workspace,
    action: &Action,
    found: &mut Option<PathBuf>,
) -> Result<Outcome, String> {
    match action {
        Action::Cargo(args) => {
            let program = found.as_ref().map(|program| program.display().to_string());
            let program: Vec<(&str, String)> =
                program.into_iter().map(|program| (previous::VARIABLE, program)).collect();
            execute_with(workspace, args, &program)
        }
        Action::Tidy if tidy::run(workspace, false)? => Ok(Outcome::Passed),
        Action::Tidy => Ok(Outcome::Failed("cargo xtask tidy".to_string())),
        Action::Instructions => Ok(match instructions::check(workspace)? {
            Verdict::Good => Outcome::Passed,
            Verdict::Worse => Outcome::Failed("cargo xtask bench instructions".to_string()),
            Verdict::Incomparable => Outcome::Skipped("recorded with another compiler, see above"),
        }),
        Action::Clients => Ok(match clients::install(&workspace.root) {
            Ok(()) => Outcome::Passed,
            Err(why) => {
                println!("{why}");
                Outcome::Failed("something that the tests need is missing, see above".to_string())
            }
        }),
        Action::Previous => {
            let environment = environment_here();
            if let Err(why) = previous::keep(&workspace.root, &environment) {
                println!("this program is not kept for later commits: {why}");
            }
            match previous::program(&workspace.root, &environment) {
                Ok(program) => {
                    *found = Some(program);
                    Ok(Outcome::Passed)
                }
                Err(why) => {
                    println!("skipped: two versions in one cluster are not tested: {why}");
                    Ok(Outcome::Skipped("no earlier program, see above"))
                }
            }
        }
        Action::Skip(reason) => {
            println!("skipped: {reason}");
            Ok(Outcome::Skipped(reason))
        }
    }
}

fn execute(workspace: &Workspace, args: &[String]) -> Result<Outcome, String> {
    execute_with(workspace, args, &[])
}

fn execute_with(
    workspace: &Workspace,
    args: &[String],
    more: &[(&str, String)],
) -> Result<Outcome, String> {
    let shown = format!("cargo {}", args.join(" "));
    println!("$ {shown}");
    let mut command = Command::new(cargo());
    command.args(args).current_dir(&workspace.root);
    let connectors = clients::folder(&workspace.root, |key| env::var(key).ok());
    command.env(clients::FOLDER_VARIABLE, connectors);
    for (key, value) in environment_here() {
        command.env(key, value);
    }
    command.envs(more.iter().map(|(key, value)| (key, value)));
    let status = command.status().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(shown) })
}

/// What is added to the environment of programs that this tool runs.
pub(crate) fn environment_here() -> Vec<(&'static str, String)> {
    environment(|key| env::var(key).ok())
}

/// In continuous integration a fresh clone reuses what an earlier one built: the target folder lies
/// outside the clone, and incremental files, which nobody will build upon, are not written.
fn environment(get: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if get("CI").as_deref() != Some("true") {
        return variables;
    }
    variables.push(("CARGO_INCREMENTAL", "0".to_string()));
    if let (None, Some(home)) = (get("CARGO_TARGET_DIR"), get("HOME")) {
        variables.push(("CARGO_TARGET_DIR", format!("{home}/.cache/nines/target")));
    }
    variables
}

fn sim_command(args: &[String]) -> Vec<String> {
    let mut command = words(&["run", "-p", "sim", "--bin", "sim"]);
    command.extend(words(&PROFILE));
    command.push("--".to_string());
    if args.first().is_none_or(|first| first.starts_with('-')) {
        command.push("run".to_string());
    }
    command.extend_from_slice(args);
    command
}

fn has_simulator(workspace: &Workspace) -> bool {
    workspace.package("sim").is_some_and(|package| package.binaries.iter().any(|b| b == "sim"))
}

/// Says everything that is missing at once, with the command that installs it.
fn check_tools(root: &Path) -> Result<(), String> {
    let tools = [
        ("fmt", "rustfmt", "rustup component add rustfmt"),
        ("clippy", "clippy", "rustup component add clippy"),
    ];
    let mut missing = Vec::new();
    for (subcommand, name, install) in tools {
        let status = Command::new(cargo())
            .args([subcommand, "--version"])
            .current_dir(root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            missing.push(format!("{name} is missing; install it with `{install}`"));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\nxtask: ")) }
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_string()).collect()
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "skipped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;
    use std::path::PathBuf;

    fn workspace(names: &[&str]) -> Workspace {
        let packages = names.iter().map(|name| Package {
            name: (*name).to_string(),
            binaries: vec![(*name).to_string()],
            ..Package::default()
        });
        Workspace { root: PathBuf::new(), packages: packages.collect() }
    }

    fn command(workspace: &Workspace, name: &str) -> Option<String> {
        let step = plan(workspace, 7).into_iter().find(|step| step.name == name).unwrap();
        match step.action {
            Action::Cargo(args) => Some(args.join(" ")),
            Action::Tidy | Action::Instructions | Action::Clients => None,
            Action::Previous | Action::Skip(_) => None,
        }
    }

    #[test]
    fn every_build_uses_the_same_profile() {
        for step in plan(&workspace(&["sim", "tests"]), 7) {
            if let Action::Cargo(args) = step.action
                && args[0] != "fmt"
            {
                assert!(args.join(" ").contains("--profile ci"), "{args:?}");
            }
        }
    }

    #[test]
    fn steps_follow_the_workspace() {
        let all = workspace(&["sim", "tests"]);
        let simulation = "run -p sim --bin sim --profile ci -- run --twice-every 4 --seeds 7";
        assert_eq!(command(&all, "simulation").as_deref(), Some(simulation));
        let mutations = "run -p sim --bin sim --profile ci -- mutations --known";
        assert_eq!(command(&all, "mutations").as_deref(), Some(mutations));
        assert!(command(&all, "tests").unwrap().contains("--exclude tests"));
        let build = "build -p nines -p tpcc --profile ci";
        assert_eq!(command(&all, "server").as_deref(), Some(build));
        let young = workspace(&["stdx"]);
        assert_eq!(command(&young, "simulation"), None);
        assert_eq!(command(&young, "processes"), None);
    }

    #[test]
    fn the_simulator_runs_unless_told_otherwise() {
        let tail = |args: &[&str]| sim_command(&words(args)).join(" ");
        assert!(tail(&["--seed", "9"]).ends_with("-- run --seed 9"));
        assert!(tail(&[]).ends_with("-- run"));
        assert!(tail(&["mutations"]).ends_with("-- mutations"));
    }

    #[test]
    fn only_continuous_integration_changes_the_environment() {
        let home = |key: &str| (key == "HOME").then(|| "/h".to_string());
        assert_eq!(environment(home), []);
        let ci = |key: &str| if key == "CI" { Some("true".to_string()) } else { home(key) };
        let target = ("CARGO_TARGET_DIR", "/h/.cache/nines/target".to_string());
        assert!(environment(ci).contains(&target));
        let set = |key: &str| if key == "CARGO_TARGET_DIR" { Some("/t".into()) } else { ci(key) };
        assert_eq!(environment(set), [("CARGO_INCREMENTAL", "0".to_string())]);
    }
}
