//! Runs one path for a profiler that counts instructions: `instructions NAME`, or without a name
//! prints the paths and how many operations of each are counted.
#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]
#![expect(clippy::print_stderr, reason = "a command-line tool complains on standard error")]

use std::process::ExitCode;

use bench::paths::PATHS;
use mimalloc::MiMalloc;

/// The server's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        for path in PATHS {
            println!("{} {}", path.name, path.operations);
        }
        return ExitCode::SUCCESS;
    };
    match PATHS.iter().find(|path| path.name == name) {
        Some(path) => path.run(),
        None => {
            eprintln!("there is no path `{name}`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
