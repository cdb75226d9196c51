//! Scripts of statements with the answers they must get, from the real command-line client.
//!
//! A script (`scripts/*.txt`) has a line `NAME> STATEMENT` for each statement, said in the session
//! of that name, and below it what the client prints: rows with a tab between columns, or
//! `ERROR 1062 (23000): text`. A line that begins with `--` is a remark. `NAME& STATEMENT` only
//! begins a statement; `NAME? STATEMENT`, later, is where its answer stands.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tests::Server;

/// What ends the answer to a statement.
const END: &str = "@@end";

/// A session of the command-line client.
struct Talk {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn new(server: &Server) -> Self {
        // Errors belong between the rows.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec mysql \"$@\" 2>&1", "sh", "--no-defaults", "--user=root"]);
        shell.arg(format!("--socket={}", server.socket.display()));
        shell.args(["--batch", "--skip-column-names", "--force", "--unbuffered", "--local-infile"]);
        shell.args(["--default-character-set=utf8mb4", "--skip-reconnect"]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = shell.spawn().expect("the client is installed by `cargo xtask test`");
        let input = client.stdin.take().expect("it is piped");
        let output = BufReader::new(client.stdout.take().expect("it is piped"));
        Self { client, input, output }
    }

    fn say(&mut self, statement: &str) -> Vec<String> {
        self.begin(statement);
        self.answer(statement)
    }

    fn begin(&mut self, statement: &str) {
        // The client says it: another statement would take the warnings of this one away.
        writeln!(self.input, "{statement};\n\\! echo {END}").expect("the client lives");
        self.input.flush().expect("the client lives");
    }

    fn answer(&mut self, statement: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let read = self.output.read_until(b'\n', &mut line).expect("the client lives");
            assert!(read > 0, "the client has gone after `{statement}`: {lines:?}");
            let line = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            match line.as_str() {
                END => return lines,
                // The client draws a frame around the statement before its error.
                _ if line == "--------------" || line == statement || line.is_empty() => {}
                _ => lines.push(without_line_number(&line)),
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// `ERROR 1062 (23000) at line 7: text` without the line of the client's input, and without the
/// transactions of a deadlock's cycle.
fn without_line_number(line: &str) -> String {
    let line = line.split_once(" (cycle: ").map_or(line, |(text, _)| text);
    match (line.starts_with("ERROR "), line.find(" at line "), line.find(": ")) {
        (true, Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    }
}

/// A line of EXPLAIN with `~` for the number of rows, which depends on what is known of a table.
fn without_guess(statement: &str, line: String) -> String {
    let mut columns: Vec<&str> = line.split('\t').collect();
    if !statement.starts_with("EXPLAIN") || columns.len() != 12 {
        return line;
    }
    columns[9] = "~";
    columns.join("\t")
}

/// Runs a script and says where it went otherwise.
fn run_script(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/scripts").join(format!("{name}.txt"));
    let script = std::fs::read_to_string(&path).expect("a script of that name");
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE d");
    let mut talks: BTreeMap<&str, Talk> = BTreeMap::new();
    let mut report = String::new();
    let mut lines = script.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some((session, how, statement)) = statement_of(line) else {
            assert!(line.is_empty() || line.starts_with("--"), "{name}:{}: {line}", number + 1);
            continue;
        };
        let mut expected = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| is_answer(line)) {
            expected.push(line);
        }
        let talk = talks.entry(session).or_insert_with(|| {
            let mut talk = Talk::new(&server);
            talk.say("USE d");
            talk
        });
        let found = match how {
            '&' => {
                talk.begin(statement);
                Vec::new()
            }
            '?' => talk.answer(statement),
            _ => talk.say(statement),
        };
        let found: Vec<String> =
            found.into_iter().map(|line| without_guess(statement, line)).collect();
        if found != expected {
            let at = number + 1;
            report += &format!("{name}.txt:{at}: {statement}\n  must say {expected:#?}\n");
            report += &format!("  but says {found:#?}\n");
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// Session, how it is said, statement.
fn statement_of(line: &str) -> Option<(&str, char, &str)> {
    let (said, statement) = line.split_once(' ')?;
    let how = said.chars().last().filter(|how| ['>', '&', '?'].contains(how))?;
    let session = &said[..said.len() - 1];
    let is_name = !session.is_empty() && session.bytes().all(|byte| byte.is_ascii_lowercase());
    is_name.then_some((session, how, statement))
}

fn is_answer(line: &str) -> bool {
    statement_of(line).is_none() && !line.is_empty() && !line.starts_with("--")
}

macro_rules! scripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            run_script(stringify!($name));
        }
    )*};
}

scripts! {
    changes
    cluster
    duplicates
    grouping
    index_paths
    isolation_committed
    isolation_repeatable
    isolation_serializable
    key_parts
    long_keys
    keys
    kill
    lateral
    literals
    lock_waits
    memory
    recursion
    repeatable_read
    settings
    snapshots
    temporary
    values
    view_checks
    views
    windows
}
