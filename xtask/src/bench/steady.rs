//! `cargo xtask bench steady`: OLTP beside background work.
//!
//! # Owns
//! What must be built and installed before `bench/steady/steady.py` can measure; the options are
//! the script's.

use std::process::{Command, ExitCode};

use super::passed;
use crate::steps::environment_here;
use crate::workspace::{Workspace, cargo};
use crate::{clients, previous};

const SCRIPT: &str = "bench/steady/steady.py";

/// Installs the clients, builds the server and the load generator, measures.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    clients::install_peers(&workspace.root)?;
    let given = |name: &str| args.iter().any(|arg| arg.split('=').next() == Some(name));
    let programs = [("--nines", "nines"), ("--load-generator", "load_generator")];
    if !programs.iter().all(|(option, _)| given(option)) {
        let build = ["build", "--release", "-p", "nines", "-p", "bench"];
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
    passed(&workspace.root, &mut script)?;
    Ok(ExitCode::SUCCESS)
}
