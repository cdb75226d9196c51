//! `nines config`: what a configuration says, and what can be written in one.
//!
//! # Owns
//! Reading the files that were named, and how the outcome is told.
//! # Not here
//! What a configuration means, and what is wrong or unwise about it: `cluster-config`.

mod check;
mod parameters;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cluster_config::{ClusterConfig, FILE_SIZE_MAX, Machine, Parsed};

use crate::machine;

/// What `nines config` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigOptions {
    /// `nines config check`.
    Check {
        /// The file.
        file: PathBuf,
        /// The file before the change.
        since: Option<PathBuf>,
        /// Whether a program reads the answer.
        json: bool,
    },
    /// `nines config parameters`.
    Parameters {
        /// One parameter; otherwise all.
        name: Option<String>,
        /// How they are told.
        form: Form,
    },
}

/// Who reads a list of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// People, on a terminal.
    Text,
    /// Programs.
    Json,
    /// People, on the reference page.
    Markdown,
}

/// The sub-commands and their options.
pub(crate) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).value_name("FILE").help(help).value_parser(value_parser!(PathBuf))
    };
    let check = Command::new("check")
        .about("Says what would run where, what survives which failures, and what is unwise")
        .arg(file("file", "A config.ini").required(true))
        .arg(file("since", "Also say what has changed since this one").long("since"))
        .arg(flag("json", "For programs"));
    let parameters = Command::new("parameters")
        .about("Lists the parameters of a configuration, or explains one")
        .arg(Arg::new("name").value_name("NAME").help("The parameter to explain"))
        .arg(flag("json", "For programs").conflicts_with("markdown"))
        .arg(flag("markdown", "As the reference page").conflicts_with("name"));
    Command::new("config")
        .about("Checks a configuration, and lists what can be written in one")
        .subcommand_required(true)
        .subcommand(check)
        .subcommand(parameters)
}

/// What a command line asks for.
pub(crate) fn options(matches: &ArgMatches) -> ConfigOptions {
    match matches.subcommand() {
        Some(("check", matches)) => ConfigOptions::Check {
            file: matches.get_one::<PathBuf>("file").cloned().unwrap_or_default(),
            since: matches.get_one::<PathBuf>("since").cloned(),
            json: matches.get_flag("json"),
        },
        Some((_, matches)) => ConfigOptions::Parameters {
            name: matches.get_one::<String>("name").cloned(),
            form: match (matches.get_flag("json"), matches.get_flag("markdown")) {
                (true, _) => Form::Json,
                (_, true) => Form::Markdown,
                _ => Form::Text,
            },
        },
        None => unreachable!("clap asks for a sub-command"),
    }
}

/// Answers; what was asked for goes to `out`, problems of a file line by line to `err`. An error is
/// a file that cannot be used, or a node that would not start on this machine.
pub(crate) fn run(
    options: &ConfigOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), String> {
    let mut verdict = Ok(());
    let text = match options {
        ConfigOptions::Parameters { name, form } => parameters::text(name.as_deref(), *form)?,
        ConfigOptions::Check { file, since, json } => {
            let (before, after) = match since {
                Some(since) => {
                    let before = read(since, None, false, out, err)?.config;
                    let after = read(file, Some(&before), *json, out, err)?;
                    (Some(before), after)
                }
                None => (None, read(file, None, *json, out, err)?),
            };
            let name = file.display().to_string();
            let report = check::Report::new(
                &name,
                &after,
                before.as_ref(),
                &this_machine(),
                &machine::Cpus::of_process(),
            );
            let text = if *json { report.json() } else { report.text() };
            verdict = report.verdict();
            text
        }
    };
    // Who has seen enough closes the pipe, which is no failure of the answer.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    verdict
}

/// Reads a configuration, or tells what is wrong with it.
fn read(
    path: &Path,
    before: Option<&ClusterConfig>,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Parsed, String> {
    let name = path.display().to_string();
    let bytes = bytes(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let parsed = match before {
        Some(before) => ClusterConfig::parse_after(&bytes, before),
        None => ClusterConfig::parse(&bytes),
    };
    parsed.map_err(|problems| {
        if json {
            let _ = out.write_all(check::problems_json(&name, &problems).as_bytes());
        } else {
            for problem in &problems {
                let _ = writeln!(err, "{}", problem.at(&name));
            }
        }
        let count = problems.len();
        format!("{name} has {count} problem{}", if count == 1 { "" } else { "s" })
    })
}

/// The bytes of a file, as far as a configuration may go: a device has no end.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = FILE_SIZE_MAX as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn this_machine() -> Machine {
    let name = machine::host_name();
    let address = fs::read_to_string("/etc/hostname").unwrap_or_default();
    let names = [name, address.trim().to_string()];
    Machine {
        names: names.into_iter().filter(|name| !name.is_empty()).collect(),
        memory: machine::memory(),
        cpus: machine::Cpus::of_process().usable() as u64,
    }
}

#[cfg(test)]
mod tests;
