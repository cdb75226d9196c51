//! The simulator's command line.

use std::io::Write;
use std::process::ExitCode;

use mimalloc::MiMalloc;

mod command;

/// The allocator of the program: what is simulated allocates as much, and as often.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command::execute(&arguments, &mut std::io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _written = writeln!(std::io::stderr(), "{message}");
            ExitCode::from(2)
        }
    }
}
