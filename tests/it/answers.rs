//! What servers say to the same statements.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

/// What a server said to each statement, after those of `schema`: its rows, or its error's number.
pub(crate) fn answers(mut client: Command, schema: &str, statements: &[String]) -> Vec<String> {
    let mut script = String::from(schema);
    for (number, statement) in statements.iter().enumerate() {
        // One line each, so that errors can be told by their line.
        writeln!(script, "SELECT '@@{number}'; {statement};").expect("a String takes any text");
    }
    let first_line = schema.lines().count();
    client.args(["--batch", "--skip-column-names", "--force", "--default-character-set=utf8mb4"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the mysql client is installed by `cargo xtask test`");
    let mut input = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it is our child");
    writer.join().expect("writing does not panic").expect("the client reads all statements");
    let mut all = vec![String::new(); statements.len()];
    let mut current = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.strip_prefix("@@") {
            Some(number) => current = number.parse::<usize>().ok(),
            None => {
                if let Some(at) = current {
                    all[at].push_str(line);
                    all[at].push('\n');
                }
            }
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // The client repeats the statement before its error.
    for line in errors.lines().filter(|line| line.starts_with("ERROR ")) {
        // ERROR 1062 (23000) at line 12: …
        let parts: Vec<&str> = line.split_whitespace().collect();
        let at = parts.iter().position(|part| *part == "line").and_then(|at| parts.get(at + 1));
        let at = at.and_then(|text| text.trim_end_matches(':').parse::<usize>().ok());
        match at.and_then(|at| at.checked_sub(first_line + 1)).and_then(|at| all.get_mut(at)) {
            Some(answer) => *answer = format!("error {}", parts.get(1).unwrap_or(&"?")),
            None => panic!("an error outside the statements: {line}"),
        }
    }
    all
}

/// A statement with the first line that differs.
pub(crate) fn difference(statement: &str, expected: &str, found: &str) -> String {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    loop {
        let (e, f) = (expected.next().unwrap_or("(end)"), found.next().unwrap_or("(end)"));
        if e != f {
            return format!("\n{statement}\n  MariaDB: {e}\n  Nines:   {f}");
        }
    }
}
