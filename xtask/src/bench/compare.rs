//! `cargo xtask bench compare`: Nines beside its peers on this machine.
//!
//! # Owns
//! What must be built and installed before `bench/compare/compare.py` can measure; the options are
//! the script's.

use std::process::{Command, ExitCode};

use super::passed;
use crate::steps::environment_here;
use crate::workspace::{Workspace, cargo};
use crate::{clients, previous};

const SCRIPT: &str = "bench/compare/compare.py";

/// Installs the peers, builds the server, measures.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let ycsb = clients::install_peers(&workspace.root)?;
    let given = |name: &str| args.iter().any(|arg| arg.split('=').next() == Some(name));
    // The option that names a program, and the program.
    let programs = [
        ("--nines", "nines"),
        ("--echo", "echo"),
        ("--load-generator", "load_generator"),
        ("--native", "native"),
        ("--tpcc", "tpcc"),
    ];
    if !programs.iter().all(|(option, _)| given(option)) {
        let build = ["build", "--release", "-p", "nines", "-p", "bench", "-p", "tpcc"];
        passed(&workspace.root, Command::new(cargo()).args(build))?;
    }
    let release = workspace.root.join(previous::target(&workspace.root, &environment_here()));
    let mut script = Command::new("python3");
    script.arg(SCRIPT).args(args);
    for (option, program) in programs {
        if !given(option) {
            script.arg(option).arg(release.join("release").join(program));
        }
    }
    if !given("--ycsb") {
        script.arg("--ycsb").arg(ycsb);
    }
    passed(&workspace.root, &mut script)?;
    Ok(ExitCode::SUCCESS)
}
