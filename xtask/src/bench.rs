//! `cargo xtask bench`: measurements that take more than a program of this workspace.
//!
//! # Owns
//! The names of the measurements, and where each begins.

mod compare;
pub(crate) mod instructions;

use std::process::ExitCode;

use crate::workspace::Workspace;

/// Runs the measurement that `args` names.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    match args.split_first() {
        Some((name, rest)) if name == "instructions" => instructions::run(workspace, rest),
        Some((name, rest)) if name == "compare" => compare::run(workspace, rest),
        _ => Err("bench takes a measurement: `compare` or `instructions`".to_string()),
    }
}
