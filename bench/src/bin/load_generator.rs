//! Many clients on a server of MySQL's protocol, for the processor time of few: see `bench::load`.
#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]
#![expect(clippy::print_stderr, reason = "a command-line tool complains on standard error")]

use std::process::ExitCode;
use std::time::Duration;

use bench::load::{self, Mix, Options};

const HELP: &str = "\
usage: load_generator --socket PATH [OPTIONS]

  --mix NAME       point_select, update or read_write [point_select]
  --clients N      connections, each with one statement under way [8]
  --seconds N      how long it is measured [10]
  --warm-up N      seconds before that [1]
  --database NAME  where sysbench's tables are [sbtest]
  --tables N       how many of them [1]
  --rows N         rows of each [10000]
  --rate N         operations that arrive in a second, whether earlier ones have ended or not
                   [each client goes on at once]
  --sections       each line of standard input ends a section, whose figures are written as a line
                   of JSON; the end of the input ends the run
  --seed N         decides what is drawn [1]
  --pid N          a process of the server, for its CPU time; may be repeated
  --json           the figures as a JSON object

Fill the tables with sysbench's `prepare`. The user is root without a password. Times are in
milliseconds, CPU time is in microseconds for an operation.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return if args.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let is_json = args.iter().any(|arg| arg == "--json");
    if args.iter().any(|arg| arg == "--sections") {
        return match options_of(&args).and_then(|options| load::run_sections(&options)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("load_generator: {message}");
                ExitCode::FAILURE
            }
        };
    }
    match options_of(&args).and_then(|options| load::run(&options)) {
        Ok(figures) => {
            print!("{}", if is_json { figures.json() } else { figures.lines() });
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("load_generator: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line.
fn options_of(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        socket: "".into(),
        database: "sbtest".into(),
        mix: Mix::PointSelect,
        clients: 8,
        tables: 1,
        rows: 10_000,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(10),
        rate: None,
        seed: 1,
        pids: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--json" || arg == "--sections" {
            continue;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (&arg[..], args.next().ok_or(format!("{arg} needs a value"))?.clone()),
        };
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value} is not a number"));
        let positive = || match number()? {
            0 => Err(format!("{name} is 1 at least")),
            number => Ok(number),
        };
        match name {
            "--socket" => options.socket = value.into(),
            "--database" => options.database = value,
            "--mix" => {
                options.mix = Mix::named(&value).ok_or(format!("there is no mix `{value}`"))?;
            }
            "--clients" => options.clients = positive()? as usize,
            "--seconds" => options.measured = Duration::from_secs(positive()?),
            "--warm-up" => options.warm_up = Duration::from_secs(number()?),
            "--tables" => options.tables = positive()?,
            "--rows" => options.rows = positive()?,
            "--rate" => options.rate = Some(positive()?),
            "--seed" => options.seed = number()?,
            "--pid" => options.pids.push(number()? as u32),
            _ => return Err(format!("unexpected argument `{arg}`; see load_generator --help")),
        }
    }
    Ok(options)
}
