//! `cargo xtask bench compare`: Nines beside its peers on this machine.
//!
//! # Owns
//! What must be built and installed before `bench/compare/compare.py` can measure; the options are
//! the script's.

use std::process::ExitCode;

use super::{is_given, passed, script_with};
use crate::clients;
use crate::workspace::Workspace;

const SCRIPT: &str = "bench/compare/compare.py";

/// Installs the peers, builds the server, measures.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let ycsb = clients::install_peers(&workspace.root)?;
    // The option that names a program, and the program.
    let programs = [
        ("--nines", "nines"),
        ("--echo", "echo"),
        ("--load-generator", "load_generator"),
        ("--native", "native"),
        ("--tpcc", "tpcc"),
    ];
    let mut script = script_with(workspace, SCRIPT, args, &programs, &["nines", "bench", "tpcc"])?;
    if !is_given(args, "--ycsb") {
        script.arg("--ycsb").arg(ycsb);
    }
    passed(&workspace.root, &mut script)?;
    Ok(ExitCode::SUCCESS)
}
