//! The program `nines`: every role of the cluster as a sub-command.
//!
//! # Owns
//! The command line, and how an outcome is told: what a user asked for on standard output, an error
//! as one line on standard error with an exit code that is not 0.
//! # Not here
//! What a role does: `role`, `dev`. What is in files: `inspect`. What a configuration says:
//! `config`.

mod admission;
mod application;
mod audit;
mod backup;
mod command;
mod config;
mod ctl;
mod demo;
mod dev;
mod encryption;
mod http;
mod inspect;
mod layout;
mod machine;
mod metrics;
mod place;
mod process;
mod progress;
mod replication;
mod role;
mod root_password;
mod server_files;
mod temporary_files;
mod top;
mod transfer;

use std::io::{self, Write};
use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Messages are many small allocations, and this allocator needs fewer instructions for them, at
/// the price of some memory (docs/dependencies.md).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let outcome = match command::parse(std::env::args_os()) {
        command::Parsed::Dev(options) => dev::run(*options),
        command::Parsed::Management(options) => role::run_management(&options),
        command::Parsed::Data(options) => role::run_data(&options),
        command::Parsed::Sql(options) => role::run_sql(&options),
        command::Parsed::Demo(options) => demo::run(&options),
        command::Parsed::Ctl(options) => return ctl::run(options),
        command::Parsed::Top(options) => top::run(&options),
        command::Parsed::Inspect(options) => {
            inspect::run(&options, &mut io::BufWriter::new(io::stdout().lock()))
        }
        command::Parsed::Backup(options) => {
            backup::command::run(&options, &mut io::BufWriter::new(io::stdout().lock()))
        }
        command::Parsed::Transfer(options) => transfer::command::run(&options),
        command::Parsed::Config(options) => {
            config::run(&options, &mut io::stdout().lock(), &mut io::stderr().lock())
        }
        command::Parsed::Text(text) => {
            tell(&text);
            return ExitCode::SUCCESS;
        }
        command::Parsed::Wrong(why) => {
            complain(&why);
            return ExitCode::from(USAGE);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(&why);
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard output. That nobody reads it is no reason to end.
fn tell(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Writes a line to standard error.
fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "nines: {line}");
}

/// The exit code for a command line that cannot be understood.
pub(crate) const USAGE: u8 = 2;
