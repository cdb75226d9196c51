//! A driver of TPC-C for servers of MySQL's protocol, after revision 5.11 of the specification.
//!
//! # Owns
//! The command line. The database is filled by `population`, transactions are run by `run`, and
//! `check` says whether the consistency conditions hold.
//! # Not here
//! What makes a result one of TPC: terminals with think times, a display, a priced system, an
//! audit. Figures of this program are compared with each other and nothing else.

#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]
#![expect(clippy::print_stderr, reason = "a command-line tool complains on standard error")]

mod check;
mod consistency;
mod database;
mod draws;
mod money;
mod population;
mod processor;
mod report;
mod run;
mod schema;
mod transaction;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use consistency::Age;
use schema::Scale;

const HELP: &str = "\
usage: tpcc COMMAND --socket PATH [OPTIONS]

  load    makes the database and fills it; an older one is dropped
            --warehouses N      [2]
            --clients N         sessions that fill it at once [2]
            --divide N          a database for tests: sizes divided by N [1]
            --by-warehouse      partitions by warehouse
  run     runs transactions, 45 New-Orders, 43 Payments and 4 of each other kind in 100
            --clients N         terminals, without think time [4]
            --seconds N         how long it is measured [60]
            --warm-up N         seconds before that [5]
            --pid N             a process of the server, for its CPU time; may be repeated
            --process NAME      all processes of that name
  check   says which consistency conditions do not hold; no transactions may run meanwhile
            --new               also condition 11, which holds before the first transaction

of all: --database NAME [tpcc], --seed N [1]. The user is root without a password.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        print!("{HELP}");
        return ExitCode::FAILURE;
    };
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match act(command, rest) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("tpcc: {message}");
            ExitCode::FAILURE
        }
    }
}

fn act(command: &str, rest: &[String]) -> Result<ExitCode, String> {
    match command {
        "load" => load(Arguments::read(rest, &LOAD)?),
        "run" => run(Arguments::read(rest, &RUN)?),
        "check" => check(Arguments::read(rest, &CHECK)?),
        other => Err(format!("there is no command `{other}`; see tpcc --help")),
    }
}

fn load(arguments: Arguments) -> Result<ExitCode, String> {
    let options = population::Options {
        socket: arguments.socket()?,
        database: arguments.database()?,
        warehouses: arguments.number("warehouses", 2, 1..=100_000)?,
        scale: Scale::divided(arguments.number("divide", 1, 1..=1_000)?),
        clients: arguments.number("clients", 2, 1..=1_000)?,
        by_warehouse: arguments.flag("by-warehouse"),
        seed: arguments.number("seed", 1, 0..=u64::MAX)?,
    };
    population::load(&options).map_err(|failure| failure.to_string())?;
    println!("loaded: {} warehouses", options.warehouses);
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    let mut pids = Vec::new();
    for pid in arguments.all("pid") {
        pids.push(pid.parse().map_err(|_| format!("--pid {pid} is not a number"))?);
    }
    for name in arguments.all("process") {
        let found = processor::named(name);
        if found.is_empty() {
            return Err(format!("there is no process `{name}`"));
        }
        pids.extend(found);
    }
    let options = run::Options {
        socket: arguments.socket()?,
        database: arguments.database()?,
        clients: arguments.number("clients", 4, 1..=10_000)?,
        warm_up: Duration::from_secs(arguments.number("warm-up", 5, 0..=86_400)?),
        measured: Duration::from_secs(arguments.number("seconds", 60, 1..=86_400)?),
        seed: arguments.number("seed", 1, 0..=u64::MAX)?,
        pids,
    };
    let results = run::run(&options).map_err(|failure| failure.to_string())?;
    print!("{results}");
    Ok(if results.faults().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// So many violations are printed.
const SHOWN_MAX: usize = 20;

fn check(arguments: Arguments) -> Result<ExitCode, String> {
    let age = if arguments.flag("new") { Age::New } else { Age::Used };
    let (warehouses, found) = check::check(&arguments.socket()?, &arguments.database()?, age)
        .map_err(|failure| failure.to_string())?;
    for violation in found.iter().take(SHOWN_MAX) {
        println!("{violation}");
    }
    if found.is_empty() {
        println!("consistent: {warehouses} warehouses");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} violations", found.len());
    Ok(ExitCode::FAILURE)
}

/// The options of a command; those that take no value end in an exclamation mark.
const LOAD: [&str; 7] =
    ["socket", "database", "seed", "warehouses", "clients", "divide", "by-warehouse!"];
const RUN: [&str; 8] =
    ["socket", "database", "seed", "clients", "seconds", "warm-up", "pid", "process"];
const CHECK: [&str; 4] = ["socket", "database", "seed", "new!"];

/// The options of a command line.
#[derive(Debug)]
struct Arguments(BTreeMap<String, Vec<String>>);

impl Arguments {
    fn read(args: &[String], known: &[&str]) -> Result<Self, String> {
        let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let wrong = || format!("unexpected argument `{arg}`; see tpcc --help");
            let text = arg.strip_prefix("--").ok_or_else(wrong)?;
            let (name, given) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let value = if known.contains(&format!("{name}!").as_str()) {
                given.map_or(Ok(String::new()), |_| Err(format!("--{name} takes no value")))?
            } else if known.contains(&name) {
                let next = given.or_else(|| args.next().cloned());
                next.ok_or_else(|| format!("--{name} needs a value"))?
            } else {
                return Err(wrong());
            };
            options.entry(name.to_owned()).or_default().push(value);
        }
        Ok(Self(options))
    }

    fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    fn flag(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn socket(&self) -> Result<PathBuf, String> {
        let path = self.all("socket").last().ok_or("--socket PATH of the server is missing")?;
        Ok(PathBuf::from(path))
    }

    /// The name stands in statements as it is.
    fn database(&self) -> Result<String, String> {
        let name = self.all("database").last().map_or("tpcc", String::as_str);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.is_empty() && name.bytes().all(plain) {
            Ok(name.to_owned())
        } else {
            Err(format!("--database {name}: letters, digits and _ only"))
        }
    }

    fn number(
        &self,
        name: &str,
        default: u64,
        allowed: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let Some(text) = self.all(name).last() else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            format!("--{name} {text}: a number from {} to {}", allowed.start(), allowed.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arguments, String> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Arguments::read(&args, &LOAD)
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let arguments = read("--socket=/s --warehouses 3 --by-warehouse").unwrap();
        assert_eq!(arguments.socket().unwrap(), PathBuf::from("/s"));
        assert_eq!(arguments.number("warehouses", 2, 1..=10), Ok(3));
        assert_eq!(arguments.number("clients", 2, 1..=10), Ok(2));
        assert!(arguments.flag("by-warehouse") && !arguments.flag("divide"));
        for wrong in ["--seconds 3", "warehouses", "--socket", "--by-warehouse=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("--warehouses 0").unwrap().number("warehouses", 2, 1..=10).is_err());
        assert!(read("--database a;b").unwrap().database().is_err());
        assert!(read("").unwrap().socket().is_err());
    }
}
