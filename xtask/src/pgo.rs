//! `cargo xtask pgo`: the program for packages, compiled with what is known of how it is used.
//!
//! # Owns
//! A program that counts, its training (`bench/pgo/train.py`), and the program that is built with
//! the counts. All of it lies in `pgo` of the target folder.
//! # Guarantees
//! The counts are of the same sources and compiler as the program; nothing of an earlier run is
//! used. What the program does is what that of `cargo build --profile dist` does.
//! # Failure
//! What is missing is named, with the command that installs it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::bench::passed;
use crate::clients;
use crate::previous;
use crate::steps::environment_here;
use crate::workspace::{Workspace, cargo, said};

const TRAINING: &str = "bench/pgo/train.py";

/// What a compiler says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Compiler {
    /// Its own platform.
    host: String,
    /// Major version of its LLVM, which alone reads its counts.
    llvm: String,
}

/// Builds, trains, builds again; says where the program is. `args` are the training's.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let root = &workspace.root;
    let compiler = compiler_of(&said(Command::new("rustc").arg("-vV"))?)?;
    let merger = merger(&compiler)?;
    clients::install_trainers()?;
    let target = root.join(previous::target(root, &environment_here()));
    let folder = target.join("pgo");
    let counts = folder.join("counts");
    empty(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;

    let driver = ["build", "--profile", "dist", "-p", "tpcc"];
    passed(root, Command::new(cargo()).args(driver))?;
    let generate = format!("-Cprofile-generate={}", counts.display());
    let counting = build(root, &compiler, &folder.join("counting"), &generate)?;
    let mut training = Command::new("python3");
    training.arg(TRAINING).arg("--nines").arg(counting);
    training.arg("--tpcc").arg(target.join("dist/tpcc")).args(args);
    passed(root, training.env("LLVM_PROFILE_FILE", counts.join("%p-%m.profraw")))?;

    let merged = folder.join("merged.profdata");
    passed(root, Command::new(merger).arg("merge").arg("-o").arg(&merged).arg(&counts))?;
    let with_counts = format!("-Cprofile-use={}", merged.display());
    let program = build(root, &compiler, &folder.join("trained"), &with_counts)?;
    println!("the program is {}", program.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes an empty folder.
fn empty(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    }
}

/// Builds the server for release with one more flag; where it is. With a target named, programs
/// that only build others do without the flag.
fn build(root: &Path, compiler: &Compiler, folder: &Path, flag: &str) -> Result<PathBuf, String> {
    let args = ["build", "--profile", "dist", "-p", "nines", "--target", &compiler.host];
    let mut command = Command::new(cargo());
    command.args(args).arg("--target-dir").arg(folder);
    let given = std::env::var("RUSTFLAGS").unwrap_or_default();
    passed(root, command.env("RUSTFLAGS", format!("{given} {flag}").trim()))?;
    Ok(folder.join(&compiler.host).join("dist/nines"))
}

/// The program that merges counts: of the compiler, or of its LLVM as the system has it.
fn merger(compiler: &Compiler) -> Result<PathBuf, String> {
    let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
    let own = Path::new(sysroot.trim()).join("lib/rustlib").join(&compiler.host);
    let candidates = [
        own.join("bin/llvm-profdata"),
        PathBuf::from(format!("llvm-profdata-{}", compiler.llvm)),
        PathBuf::from("llvm-profdata"),
    ];
    let version = format!("LLVM version {}.", compiler.llvm);
    let fits = |program: &PathBuf| {
        said(Command::new(program).arg("--version")).is_ok_and(|text| text.contains(&version))
    };
    candidates.into_iter().find(fits).ok_or_else(|| {
        let llvm = &compiler.llvm;
        format!(
            "llvm-profdata of LLVM {llvm} is missing; install it with \
             `rustup component add llvm-tools`, or your system's package llvm-{llvm}"
        )
    })
}

/// What `rustc -vV` means.
fn compiler_of(text: &str) -> Result<Compiler, String> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let host = value("host: ").ok_or("rustc does not say what its platform is")?;
    let llvm = value("LLVM version: ").and_then(|version| version.split('.').next());
    let llvm = llvm.ok_or("rustc does not say which LLVM it has")?;
    Ok(Compiler { host: host.to_string(), llvm: llvm.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_says_its_platform_and_its_llvm() {
        let text = "rustc 1.95.0 (abc 2026-04-01)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n\
                    release: 1.95.0\nLLVM version: 22.1.2\n";
        let expected =
            Compiler { host: "x86_64-unknown-linux-gnu".to_string(), llvm: "22".to_string() };
        assert_eq!(compiler_of(text), Ok(expected));
        assert!(compiler_of("rustc 1.95.0").is_err());
    }
}
