//! `cargo xtask bench`: measurements that take more than a program of this workspace.
//!
//! # Owns
//! The names of the measurements, and where each begins.

mod compare;
pub(crate) mod instructions;
mod steady;

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::steps::environment_here;
use crate::workspace::Workspace;

/// Runs the measurement that `args` names.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    match args.split_first() {
        Some((name, rest)) if name == "instructions" => instructions::run(workspace, rest),
        Some((name, rest)) if name == "compare" => compare::run(workspace, rest),
        Some((name, rest)) if name == "steady" => steady::run(workspace, rest),
        _ => Err("bench takes a measurement: `compare`, `instructions` or `steady`".to_string()),
    }
}

/// Runs a program at the root, its output untouched; an error when it fails.
pub(crate) fn passed(root: &Path, command: &mut Command) -> Result<(), String> {
    println!("$ {command:?}");
    command.current_dir(root).envs(environment_here());
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} has failed, see above")) }
}
