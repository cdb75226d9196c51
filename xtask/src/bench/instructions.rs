//! Instructions per operation of the paths that matter most, and whether they have become more.
//!
//! # Owns
//! `bench/instructions.txt`, and the comparison with it.
//! # Guarantees
//! Counts are exact: two runs of one binary differ by nothing, whatever else the machine does and
//! whatever its processor is, because valgrind shows all programs the same one. Only with another
//! compiler or another architecture counts say nothing, and are not judged.
//! # How
//! The program `instructions` of `bench` runs one path: a cluster of two replicas in one thread.
//! callgrind counts inside the functions that are named `counted_…`, so neither the start nor the
//! client is in it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::previous;
use crate::steps::environment_here;
use crate::workspace::{Workspace, cargo, said};

/// The record, from the root.
const RECORD: &str = "bench/instructions.txt";
/// What is counted, for callgrind.
const COUNTED: &str = "--toggle-collect=bench::*::counted_*";
/// A rise or fall by more than so many percent is told.
const NOISE_PERCENT: f64 = 3.0;

const HEAD: &str = "\
# Instructions per operation, all nodes together, two replicas in memory; what each path is says
# bench/src/paths.rs. Written by `cargo xtask bench instructions --write`, compared by
# `cargo xtask test`: a rise above 3 % fails until it is recorded here, by a commit that says why.
";

/// Options of `cargo xtask bench instructions`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Record what is counted.
    write: bool,
    /// Count only paths whose names contain this.
    only: String,
    /// Keep what callgrind wrote, for `callgrind_annotate`.
    keep: Option<PathBuf>,
}

/// Counts of paths, and what they were counted with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Compiler and architecture: counts of others cannot be compared.
    made_with: String,
    /// Sorted by name.
    paths: Vec<(String, u64)>,
}

/// What became of the paths.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No more than was recorded.
    Good,
    /// Something takes more instructions, or is not recorded.
    Worse,
    /// Recorded with another compiler, or on another architecture.
    Incomparable,
}

/// Counts, and compares or writes.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let options = options(args)?;
    let verdict = measure(workspace, &options)?;
    Ok(if verdict == Verdict::Worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Counts all paths and compares them with the record.
pub(crate) fn check(workspace: &Workspace) -> Result<Verdict, String> {
    measure(workspace, &Options::default())
}

fn measure(workspace: &Workspace, options: &Options) -> Result<Verdict, String> {
    let program = build(workspace)?;
    let found = Counts { made_with: made_with()?, paths: count_all(&program, options)? };
    let file = workspace.root.join(RECORD);
    if options.write {
        fs::write(&file, found.text()).map_err(|error| format!("{RECORD}: {error}"))?;
        println!("{RECORD} is written; where a number rose, the commit says why");
        return Ok(Verdict::Good);
    }
    let recorded = fs::read_to_string(&file).map_err(|error| format!("{RECORD}: {error}"))?;
    let recorded = Counts::parse(&recorded)?;
    let whole = options.only.is_empty();
    let (text, verdict) = compare(&recorded, &found, whole);
    print!("{text}");
    Ok(verdict)
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--write" => options.write = true,
            "--only" => options.only = value()?.clone(),
            "--keep" => options.keep = Some(PathBuf::from(value()?)),
            other => {
                return Err(format!(
                    "unexpected `{other}`; options: --write, --only TEXT, --keep FOLDER"
                ));
            }
        }
    }
    if options.write && !options.only.is_empty() {
        return Err("--write records all paths: leave --only out".to_string());
    }
    Ok(options)
}

/// Builds the program that runs a path; where it is.
fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    let args = ["build", "-p", "bench", "--bin", "instructions", "--profile", "ci"];
    println!("$ cargo {}", args.join(" "));
    let environment = environment_here();
    let mut command = Command::new(cargo());
    command.args(args).current_dir(&workspace.root);
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("the program `instructions` cannot be built, see above".to_string());
    }
    let target = previous::target(&workspace.root, &environment);
    Ok(workspace.root.join(target).join("ci/instructions"))
}

/// Compiler and architecture.
fn made_with() -> Result<String, String> {
    let version = said(Command::new("rustc").arg("--version"))?;
    Ok(format!("{}, {}", version.trim(), std::env::consts::ARCH))
}

/// Counts every path that is asked for, as many at a time as there are processors.
fn count_all(program: &Path, options: &Options) -> Result<Vec<(String, u64)>, String> {
    let output = Command::new(program).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let mut paths = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, operations) = line.split_once(' ').ok_or("a path without operations")?;
        let operations: u64 = operations.parse().map_err(|_| format!("`{line}`: no number"))?;
        if name.contains(&options.only) {
            paths.push((name.to_string(), operations));
        }
    }
    let folder = options.keep.clone().unwrap_or_else(std::env::temp_dir);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (next, counted) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, operations)) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = folder.join(format!("callgrind.{name}.{}", std::process::id()));
            let count = count(program, name, &file).map(|all| (name.clone(), all / operations));
            if options.keep.is_none() {
                // Nobody reads it; what cannot be removed is in a temporary folder.
                let _ = fs::remove_file(&file);
            }
            counted.lock().expect("nobody panics while holding it").push(count);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let counted = counted.into_inner().expect("nobody panics while holding it");
    let mut counts = counted.into_iter().collect::<Result<Vec<_>, String>>()?;
    counts.sort_unstable();
    Ok(counts)
}

/// Instructions of all operations of one path.
fn count(program: &Path, name: &str, file: &Path) -> Result<u64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", COUNTED]);
    valgrind.arg(format!("--callgrind-out-file={}", file.display())).arg(program).arg(name);
    // What the environment holds lies on the stack. The allocator must not look at the clock.
    valgrind.env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin");
    valgrind.env("MIMALLOC_PURGE_DELAY", "-1");
    let output = valgrind.output();
    let output = output.map_err(|error| {
        format!("cannot run valgrind ({error}); `cargo xtask clients` installs it")
    })?;
    let complaint = || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("valgrind cannot count `{name}`:\n{}", errors.trim())
    };
    let text = fs::read_to_string(file).unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok()).filter(|total| *total > 0);
    total.filter(|_| output.status.success()).ok_or_else(complaint)
}

impl Counts {
    fn text(&self) -> String {
        let mut text = format!("{HEAD}{}\n", self.made_with);
        for (name, count) in &self.paths {
            writeln!(text, "{name:<24} {count:>9}").expect("a string takes all");
        }
        text
    }

    fn parse(text: &str) -> Result<Counts, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let made_with = lines.next().unwrap_or_default().to_string();
        let path = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_string(), count.trim().parse().ok()?))
        };
        let paths = lines.map(|line| path(line).ok_or(format!("{RECORD}: `{line}`")));
        Ok(Counts { made_with, paths: paths.collect::<Result<_, String>>()? })
    }
}

/// A table of recorded and found counts, and what to make of it. Paths that are recorded and not
/// found count only if the `whole` was counted.
fn compare(recorded: &Counts, found: &Counts, whole: bool) -> (String, Verdict) {
    let mut text = String::new();
    let mut say = |line: &str| writeln!(text, "{line}").expect("a string takes all");
    let (mut worse, mut better) = (false, false);
    for (name, count) in &found.paths {
        let before = recorded.paths.iter().find(|(other, _)| other == name);
        let Some((_, before)) = before.filter(|(_, before)| *before > 0) else {
            worse = true;
            say(&format!("{name:<24} {:>9} -> {count:>9}  is not recorded", "-"));
            continue;
        };
        let change = (*count as f64 - *before as f64) * 100.0 / *before as f64;
        worse |= change > NOISE_PERCENT;
        better |= change < -NOISE_PERCENT;
        let word = match change {
            _ if change > NOISE_PERCENT => "  MORE",
            _ if change < -NOISE_PERCENT => "  less",
            _ => "",
        };
        say(&format!("{name:<24} {before:>9} -> {count:>9}  {change:>+6.2} %{word}"));
    }
    let known = |name: &String| found.paths.iter().any(|(other, _)| other == name);
    for (name, _) in recorded.paths.iter().filter(|(name, _)| whole && !known(name)) {
        worse = true;
        say(&format!("{name:<24} is recorded, and is no path any more"));
    }
    if recorded.made_with != found.made_with {
        let (then, now) = (&recorded.made_with, &found.made_with);
        say(&format!(
            "recorded with {then}, counted with {now}: not judged; `--write` records anew"
        ));
        return (text, Verdict::Incomparable);
    }
    if worse {
        say(
            "find out why; if it must be, `cargo xtask bench instructions --write` records it, and \
             the commit says why",
        );
        return (text, Verdict::Worse);
    }
    if better {
        say("well done: record it with `cargo xtask bench instructions --write`, so that it stays");
    }
    (text, Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(paths: &[(&str, u64)]) -> Counts {
        let paths = paths.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        Counts { made_with: "rustc 1, arch".to_string(), paths }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let all = counts(&[("read", 7), ("write", 1_234_567)]);
        assert_eq!(Counts::parse(&all.text()).unwrap(), all);
        assert!(Counts::parse("rustc\nread many\n").unwrap_err().contains("read many"));
    }

    #[test]
    fn a_rise_above_the_noise_is_refused() {
        let verdict = |before, after| {
            compare(&counts(&[("read", before)]), &counts(&[("read", after)]), true).1
        };
        assert_eq!(verdict(1_000, 1_030), Verdict::Good);
        assert_eq!(verdict(1_000, 1_031), Verdict::Worse);
        assert_eq!(verdict(1_000, 500), Verdict::Good);
        let (text, _) = compare(&counts(&[("read", 1_000)]), &counts(&[("read", 900)]), true);
        assert!(text.contains("less") && text.contains("--write"), "{text}");
    }

    #[test]
    fn a_path_that_is_not_recorded_or_gone_is_refused() {
        let (one, two) = (counts(&[("a", 5)]), counts(&[("a", 5), ("b", 5)]));
        assert_eq!(compare(&one, &two, true).1, Verdict::Worse);
        assert_eq!(compare(&two, &one, true).1, Verdict::Worse);
        assert_eq!(compare(&two, &one, false).1, Verdict::Good);
    }

    #[test]
    fn another_compiler_is_not_judged() {
        let other = Counts { made_with: "rustc 2, arch".to_string(), ..counts(&[("a", 9)]) };
        assert_eq!(compare(&counts(&[("a", 5)]), &other, true).1, Verdict::Incomparable);
    }

    #[test]
    fn options_are_told_apart() {
        let parse =
            |args: &[&str]| options(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>());
        assert!(parse(&["--write"]).unwrap().write);
        assert_eq!(parse(&["--only", "select"]).unwrap().only, "select");
        assert!(parse(&["--only"]).unwrap_err().contains("--only"));
        assert!(parse(&["--write", "--only", "x"]).unwrap_err().contains("--only"));
        assert!(parse(&["--wirte"]).unwrap_err().contains("--wirte"));
    }
}
