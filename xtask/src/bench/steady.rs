//! `cargo xtask bench steady`: OLTP beside background work.
//!
//! # Owns
//! What must be built and installed before `bench/steady/steady.py` can measure; the options are
//! the script's.

use std::process::ExitCode;

use super::{passed, script_with};
use crate::clients;
use crate::workspace::Workspace;

const SCRIPT: &str = "bench/steady/steady.py";

/// Installs the clients, builds the server and the load generator, measures.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    clients::install_peers(&workspace.root)?;
    let programs = [("--nines", "nines"), ("--load-generator", "load_generator")];
    let mut script = script_with(workspace, SCRIPT, args, &programs, &["nines", "bench"])?;
    passed(&workspace.root, &mut script)?;
    Ok(ExitCode::SUCCESS)
}
