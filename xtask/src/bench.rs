//! `cargo xtask bench`: measurements that take more than a program of this workspace.
//!
//! # Owns
//! The names of the measurements, and where each begins.

mod compare;
pub(crate) mod instructions;
mod steady;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::previous;
use crate::steps::environment_here;
use crate::workspace::{Workspace, cargo};

/// Runs the measurement that `args` names.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    match args.split_first() {
        Some((name, rest)) if name == "instructions" => instructions::run(workspace, rest),
        Some((name, rest)) if name == "compare" => compare::run(workspace, rest),
        Some((name, rest)) if name == "steady" => steady::run(workspace, rest),
        _ => Err("bench takes a measurement: `compare`, `instructions` or `steady`".to_string()),
    }
}

/// Whether an option is among the arguments.
fn is_given(args: &[String], name: &str) -> bool {
    args.iter().any(|arg| arg.split('=').next() == Some(name))
}

/// The command of a script in Python with these arguments, and the programs that they do not name:
/// each an option and the program's name. These are built of `packages`, with the profile `dist`.
fn script_with(
    workspace: &Workspace,
    script: &str,
    args: &[String],
    programs: &[(&str, &str)],
    packages: &[&str],
) -> Result<Command, String> {
    if !programs.iter().all(|(option, _)| is_given(args, option)) {
        let mut build = Command::new(cargo());
        build.args(["build", "--profile", "dist"]);
        build.args(packages.iter().flat_map(|package| ["-p", package]));
        passed(&workspace.root, &mut build)?;
    }
    let target = workspace.root.join(previous::target(&workspace.root, &environment_here()));
    let mut command = Command::new("python3");
    command.arg(script).args(args);
    for (option, program) in programs.iter().filter(|(option, _)| !is_given(args, option)) {
        command.arg(option).arg(target.join("dist").join(program));
    }
    Ok(command)
}

/// Runs a program at the root, its output untouched; an error when it fails.
pub(crate) fn passed(root: &Path, command: &mut Command) -> Result<(), String> {
    println!("$ {command:?}");
    command.current_dir(root).envs(environment_here());
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} has failed, see above")) }
}
