//! The project's own tool: `cargo xtask test`, `tidy`, `sim`, `chaos`, `bench`, `pgo`,
//! `previous`, `clients`, `fmt`.
//!
//! # Owns
//! Reading the command line. The work is in `steps` (what runs, in which order) and `tidy` (rules).
//! # Not here
//! Anything a shipped binary needs: this crate is at the top of the layer table, used by nobody.

#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]
#![expect(clippy::print_stderr, reason = "a command-line tool complains on standard error")]

mod bench;
mod clients;
mod pgo;
mod previous;
mod steps;
mod tidy;
mod workspace;

use std::process::ExitCode;

use steps::TestOptions;
use workspace::Workspace;

const HELP: &str = "\
usage: cargo xtask COMMAND [OPTIONS]

  test [--seeds N] [--keep-going]   everything a change must pass: formatting, clippy, tidy, tests,
                                    simulation (40 seeds, unless --seeds says otherwise; one
                                    in four twice), and whether it notices broken rules
  ci [--seeds N] [--keep-going]     the same; the name continuous integration calls it by
  tidy [--write]                    the project's own rules; --write refreshes generated tables
  sim [ARGS...]                     build and run the simulator: --seeds N, --seed S, --mutation M;
                                    a sub-command of the simulator may come first (default: run)
  chaos [--minutes N]               kill, freeze and stop the processes of a real cluster under
                                    load, cut and slow its network, fill its disk (default: 10)
  bench compare [--quick] [ARGS...] the same load on Nines, MariaDB, Galera, Redis and a server
                                    that does nothing, in turns: a table and a plot; installs them
                                    (--workloads, --systems, --clients, --rows: see its --help)
  bench instructions [--write] [--only TEXT] [--keep FOLDER]
                                    count the instructions of statements and compare them with
                                    bench/instructions.txt, or write that; --keep leaves there
                                    what callgrind says of each function
  pgo [--seconds N]                 build the program for release with counts of how it is used:
                                    builds one that counts, trains it, builds again
  previous                          find or build an earlier version of the program, for the tests
                                    of two versions in one cluster
  clients                           install what the tests with real clients need
  fmt [--check]                     format every crate
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode, String> {
    let Some((command, rest)) = args.split_first() else {
        print!("{HELP}");
        return Ok(ExitCode::FAILURE);
    };
    let own_help = command == "bench" && rest.first().is_some_and(|name| name == "compare");
    if wants_help(command) || !own_help && rest.iter().any(|arg| wants_help(arg)) {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    match command.as_str() {
        "test" | "ci" => steps::test(&Workspace::load()?, &test_options(rest)?),
        "tidy" => {
            let write = flag(rest, "--write")?;
            Ok(exit_code(tidy::run(&Workspace::load()?, write)?))
        }
        "sim" => steps::sim(&Workspace::load()?, rest),
        "chaos" => steps::chaos(&Workspace::load()?, minutes(rest)?),
        "bench" => bench::run(&Workspace::load()?, rest),
        "pgo" => pgo::run(&Workspace::load()?, rest),
        "clients" if rest.is_empty() => {
            clients::install(&Workspace::load()?.root)?;
            Ok(ExitCode::SUCCESS)
        }
        "previous" if rest.is_empty() => steps::previous(&Workspace::load()?),
        "fmt" => steps::fmt(&Workspace::load()?, flag(rest, "--check")?),
        other => Err(format!("unknown command `{other}`; try `cargo xtask --help`")),
    }
}

/// How long chaos is to last.
fn minutes(rest: &[String]) -> Result<u32, String> {
    match rest {
        [] => Ok(10),
        [name, count] if name == "--minutes" => {
            let count = count.parse().ok().filter(|count| (1..=1_440).contains(count));
            count.ok_or("--minutes takes a number from 1 to 1440".to_string())
        }
        _ => Err("chaos takes --minutes N".to_string()),
    }
}

fn wants_help(arg: &str) -> bool {
    matches!(arg, "--help" | "-h" | "help")
}

fn exit_code(success: bool) -> ExitCode {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Accepts nothing but one optional flag.
fn flag(args: &[String], name: &str) -> Result<bool, String> {
    match args {
        [] => Ok(false),
        [only] if only == name => Ok(true),
        [first, ..] => Err(format!("unexpected `{first}`; the only option here is `{name}`")),
    }
}

fn test_options(args: &[String]) -> Result<TestOptions, String> {
    let mut options = TestOptions::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--keep-going" => options.keep_going = true,
            "--seeds" => {
                let value = args.next().ok_or("`--seeds` needs a number")?;
                let parsed = value.parse();
                options.seeds = parsed.map_err(|_| format!("`--seeds {value}`: not a number"))?;
            }
            other => return Err(format!("unexpected `{other}`; options: --seeds N, --keep-going")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_string()).collect()
    }

    #[test]
    fn options_of_test() {
        let options = test_options(&strings(&["--seeds", "12", "--keep-going"])).unwrap();
        assert_eq!(options, TestOptions { seeds: 12, keep_going: true });
        assert_eq!(test_options(&[]).unwrap().seeds, 40);
    }

    #[test]
    fn a_bench_must_be_named() {
        assert!(run(&strings(&["bench", "compere"])).unwrap_err().contains("`compare`"));
    }

    #[test]
    fn errors_name_the_argument() {
        let message = test_options(&strings(&["--seeds", "many"])).unwrap_err();
        assert_eq!(message, "`--seeds many`: not a number");
        assert!(test_options(&strings(&["--seeds"])).unwrap_err().contains("--seeds"));
        assert!(flag(&strings(&["--wirte"]), "--write").unwrap_err().contains("`--wirte`"));
        assert!(run(&strings(&["tset"])).unwrap_err().contains("`tset`"));
    }
}
