//! Orders by hand: a prompt with history and completion; or one order a line from a pipe.
//!
//! # Failure
//! A history that cannot be read or kept is done without.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::backup::shows_password;
use super::words::WORDS;
use super::{Outcome, Session};
use crate::complain;

/// Reads orders until there are no more. From a pipe, the first that fails is the last.
pub(super) fn run(session: &mut Session<'_>) -> Outcome {
    if std::io::stdin().is_terminal() { by_hand(session) } else { from_pipe(session) }
}

fn from_pipe(session: &mut Session<'_>) -> Outcome {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match session.order(&super::words::cut(&line)) {
            Outcome::Done => {}
            Outcome::Quit => break,
            failed => return failed,
        }
    }
    Outcome::Done
}

fn by_hand(session: &mut Session<'_>) -> Outcome {
    let config = Config::builder().build();
    let history = MemHistory::with_config(&config);
    let mut editor: Editor<Words, MemHistory> = match Editor::with_history(config, history) {
        Ok(editor) => editor,
        Err(error) => {
            complain(&format!(
                "the terminal cannot be used ({error}): lines are read as they come"
            ));
            return from_pipe(session);
        }
    };
    let kept = history_file();
    let lines = kept.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let skipped = lines.lines().count().saturating_sub(HISTORY_MAX);
    for line in lines.lines().skip(skipped) {
        let _ = editor.add_history_entry(line);
    }
    editor.set_helper(Some(Words { nodes: session.node_ids() }));
    loop {
        let line = match editor.readline("nines> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Outcome::Done,
            Err(error) => {
                complain(&format!("the terminal fails: {error}"));
                return Outcome::Failed;
            }
        };
        let words = super::words::cut(&line);
        let is_new = !words.is_empty()
            && !shows_password(&words)
            && editor.add_history_entry(line.as_str()).is_ok_and(|new| new);
        if let Some(path) = kept.as_deref().filter(|_| is_new) {
            keep(path, &line);
        }
        if session.order(&words) == Outcome::Quit {
            return Outcome::Done;
        }
    }
}

/// Adds a line to the history of all sessions.
fn keep(path: &Path, line: &str) {
    let _ = path.parent().map(fs::create_dir_all);
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}

/// Where users' programs keep such things.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_STATE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
    base.map(|base| base.join("nines/ctl_history"))
}

/// Completes words and node ids.
struct Words {
    nodes: Vec<u16>,
}

impl Words {
    /// Where the word at the end begins, and what it may become.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, begun) = line.split_at(start);
        let before = before.to_ascii_lowercase();
        let before: Vec<&str> = before.split_whitespace().collect();
        let nodes = self.nodes.iter().map(u16::to_string);
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let known: Vec<String> = match before[..] {
            [] => {
                let names = WORDS.iter().map(|word| word.name.to_string());
                names.chain(words(&["quit", "all"])).chain(nodes).collect()
            }
            ["stop" | "restart"] => nodes.chain(words(&["all"])).collect(),
            ["status" | "memory"] => nodes.collect(),
            ["help"] => WORDS.iter().map(|word| word.name.to_string()).collect(),
            ["events"] => words(&["--follow", "-n", "--json"]),
            ["token"] => words(&["create", "list", "revoke"]),
            ["certificates"] => words(&[
                "list",
                "revoke",
                "create-operator",
                "export-ca",
                "new-authority",
                "retire-authority",
            ]),
            ["restart", "all"] => words(&["--rolling"]),
            ["all"] => words(&["status", "stop", "report"]),
            [first] if first.parse::<u16>().is_ok() => {
                words(&["status", "stop", "restart", "report"])
            }
            [_, "report"] => words(&["memory"]),
            [_] => words(&["--json"]),
            _ => Vec::new(),
        };
        let begun = begun.to_ascii_lowercase();
        (start, known.into_iter().filter(|word| word.starts_with(&begun)).collect())
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line.get(..at).unwrap_or(line)))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

/// Lines of earlier sessions that can be called back.
const HISTORY_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_ids_are_completed() {
        let words = Words { nodes: vec![1, 2, 49] };
        let of = |line: &str| words.candidates(line);
        assert_eq!(of("sur"), (0, vec!["survivability".to_string()]));
        assert_eq!(of("SH"), (0, vec!["show".to_string(), "shutdown".to_string()]));
        assert_eq!(of("restart "), (8, ["1", "2", "49", "all"].map(String::from).to_vec()));
        assert_eq!(of("2 re"), (2, vec!["restart".to_string(), "report".to_string()]));
        assert_eq!(of("stop 4"), (5, vec!["49".to_string()]));
        assert_eq!(of("restart all "), (12, vec!["--rolling".to_string()]));
        assert_eq!(of("x y z "), (6, Vec::new()));
    }
}
