//! The simulator's command line.

use std::io::Write;
use std::process::ExitCode;

mod command;

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
