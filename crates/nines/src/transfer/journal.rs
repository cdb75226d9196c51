//! What an import has done, in a file beside the one that it reads.
//!
//! A line for each batch that is sent, and one for each that is committed: `begin FILE FROM;`,
//! `done FILE FROM;`. The first line tells what is imported: batches of another import are others.
//!
//! # Guarantees
//! A batch whose `done` is there is committed. One that was sent, and whose `done` is not there,
//! may be, as long as the host that imports has not lost its power: the lines are not synced.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What is known of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    New,
    Begun,
    Done,
}

/// The journal of an import.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    before: BTreeMap<(usize, u64), State>,
}

impl Journal {
    /// Begins a journal for `what`, or goes on with the one that is there.
    ///
    /// # Errors
    /// If there is one and nobody has said to go on, or it is of something else.
    pub(super) fn open(path: &Path, what: &str, resume: bool) -> Result<Self, String> {
        let shown = path.display();
        let said = |why: std::io::Error| format!("{shown}: {why}");
        let head = format!("nines import 1: {what}");
        let is_there = fs::exists(path).map_err(said)?;
        let mut before = BTreeMap::new();
        match (is_there, resume) {
            (true, false) => {
                return Err(format!(
                    "{shown} is there: an import of this file was ended. Say --resume to go on, or \
                     remove it to begin anew"
                ));
            }
            (true, true) => {
                let mut lines = BufReader::new(File::open(path).map_err(said)?).lines();
                let first = lines.next().transpose().map_err(said)?.unwrap_or_default();
                if first != head {
                    return Err(format!(
                        "{shown} is of another import: its first line is `{first}`, and this would \
                         be `{head}`. Give the same table, files and options"
                    ));
                }
                for line in lines {
                    // The last one may be cut.
                    if let Some((batch, state)) = read(&line.map_err(said)?) {
                        before.insert(batch, state);
                    }
                }
            }
            (false, _) => {}
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let mut file = options.open(path).map_err(said)?;
        if !is_there {
            file.write_all(format!("{head}\n").as_bytes()).map_err(said)?;
        } else {
            // What was cut ends here.
            file.write_all(b"\n").map_err(said)?;
        }
        Ok(Self { path: path.to_owned(), file, before })
    }

    /// Whether no import before has sent anything.
    pub(super) fn is_new(&self) -> bool {
        self.before.is_empty()
    }

    /// What is known of a batch from imports before.
    pub(super) fn state(&self, file: usize, from: u64) -> State {
        self.before.get(&(file, from)).copied().unwrap_or(State::New)
    }

    /// Takes note of a batch that is sent, or is done.
    pub(super) fn note(&mut self, file: usize, from: u64, done: bool) -> Result<(), String> {
        let word = if done { "done" } else { "begin" };
        let line = format!("{word} {file} {from};\n");
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|why| format!("{}: {why}", self.path.display()))
    }

    /// All is done: nobody goes on with it.
    pub(super) fn remove(self) {
        match fs::remove_file(&self.path) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                let line = format!("nines: {} stays: {why}\n", self.path.display());
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            _ => {}
        }
    }
}

fn read(line: &str) -> Option<((usize, u64), State)> {
    let mut words = line.strip_suffix(';')?.split(' ');
    let state = match words.next()? {
        "begin" => State::Begun,
        "done" => State::Done,
        _ => return None,
    };
    let batch = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((batch, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_to_the_next() {
        let directory = std::env::temp_dir().join(format!("nines-journal-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("rows.csv.nines-import");
        let mut journal = Journal::open(&path, "t rows.csv=5", true).unwrap();
        journal.note(0, 0, false).unwrap();
        journal.note(0, 0, true).unwrap();
        journal.note(0, 77, false).unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"done 0 7").unwrap();
        assert!(Journal::open(&path, "t rows.csv=5", false).unwrap_err().contains("--resume"));
        assert!(Journal::open(&path, "t rows.csv=6", true).unwrap_err().contains("another"));
        for _ in 0..2 {
            let journal = Journal::open(&path, "t rows.csv=5", true).unwrap();
            let states = [0, 77, 7].map(|from| journal.state(0, from));
            assert_eq!(states, [State::Done, State::Begun, State::New]);
        }
        Journal::open(&path, "t rows.csv=5", true).unwrap().remove();
        assert!(!fs::exists(&path).unwrap());
        fs::remove_dir_all(directory).unwrap();
    }
}
